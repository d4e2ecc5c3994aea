//! Where `tracing` goes: the newest lines are kept for the screen, and a file gets all of them if one was named. Nothing ever
//! goes to the terminal.

use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use anyhow::Context;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// Lines kept, and bytes of one at most.
const LINES: usize = 500;
const LINE_MAX: usize = 1024;

static NEWEST: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// The newest lines, oldest first.
pub fn newest() -> Vec<String> {
    NEWEST.lock().map(|lines| lines.iter().cloned().collect()).unwrap_or_default()
}

/// Keeps what is written, line by line.
#[derive(Clone, Copy, Debug)]
struct Memory;

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(mut lines) = NEWEST.lock() {
            for line in text.lines().filter(|line| !line.is_empty()) {
                if lines.len() == LINES {
                    lines.pop_front();
                }
                lines.push_back(line.chars().take(LINE_MAX).collect());
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Memory {
    type Writer = Memory;

    fn make_writer(&'a self) -> Memory {
        Memory
    }
}

fn filter() -> EnvFilter {
    EnvFilter::try_from_default_env().unwrap_or_else(|_| "batchroom=info".into())
}

/// Begins. The guard writes out the rest of the file when it is dropped.
///
/// # Errors
/// When the file cannot be written.
pub fn begin(file: Option<&Path>) -> anyhow::Result<Option<WorkerGuard>> {
    let memory = tracing_subscriber::fmt::layer().with_writer(Memory).with_ansi(false).with_target(false).with_filter(filter());
    let registry = tracing_subscriber::registry().with(memory);
    let Some(path) = file else {
        registry.init();
        return Ok(None);
    };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let file = file.with_context(|| format!("cannot write the log to {}", path.display()))?;
    let (writer, guard) = tracing_appender::non_blocking(file);
    registry.with(tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false).with_filter(filter())).init();
    Ok(Some(guard))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_and_no_more() {
        for line in 0..LINES + 20 {
            let text = format!("line {line} {}\n", "x".repeat(2 * LINE_MAX));
            Memory.write_all(text.as_bytes()).unwrap();
        }
        let lines = newest();
        assert_eq!(lines.len(), LINES);
        assert!(lines[LINES - 1].starts_with(&format!("line {}", LINES + 19)));
        assert!(lines.iter().all(|line| line.len() <= LINE_MAX));
    }
}
