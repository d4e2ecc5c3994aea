//! What others print while the screen is up: a library's `printf`, a `println!` of a thread. Standard output and standard error
//! lead into a pipe then, whose lines go to the log; the screen has a descriptor of the terminal of its own. Whoever gives the
//! terminal back puts both back first, so that reports and other programs find what they expect.

use std::fs::File;
use std::io::{self, IsTerminal, PipeReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::stdio::{dup2_stderr, dup2_stdout};

/// Bytes of a line that are kept; the rest of it is left out.
const LINE_MAX: usize = 1024;
/// Lines a second that reach the log; the others are counted. The pipe is emptied all the same: nobody waits to print.
const RATE: usize = 50;
/// How long the end of a line is waited for.
const REST: Duration = Duration::from_millis(200);
/// How long whoever puts things back waits for the last words to be in the log.
const LAST: Duration = Duration::from_millis(200);

/// Where things really lead, while they are caught.
#[derive(Debug)]
struct Caught {
    out: OwnedFd,
    /// None: it is no terminal, and the person wants it where it is.
    err: Option<OwnedFd>,
    /// Closed when the pipe is empty and nobody has its other end.
    over: Receiver<()>,
}

static CAUGHT: Mutex<Option<Caught>> = Mutex::new(None);

fn caught() -> MutexGuard<'static, Option<Caught>> {
    CAUGHT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The terminal that standard output leads to, whether it is caught now or not. A descriptor of its own.
///
/// # Errors
/// When there is no standard output, or no descriptor to be had.
pub fn terminal() -> io::Result<File> {
    match &*caught() {
        Some(caught) => Ok(File::from(caught.out.try_clone()?)),
        None => Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
    }
}

/// From now on what is printed goes to the log. Again is the same as once.
///
/// # Errors
/// When there is no pipe, no descriptor, or no thread to be had; then nothing has changed.
pub fn catch() -> io::Result<()> {
    let with_err = io::stderr().is_terminal();
    catch_both(with_err)
}

fn catch_both(with_err: bool) -> io::Result<()> {
    let mut caught = caught();
    if caught.is_some() {
        return Ok(());
    }
    flush();
    let (reader, writer) = io::pipe()?;
    let (out, err) = (io::stdout().as_fd().try_clone_to_owned()?, io::stderr().as_fd().try_clone_to_owned()?);
    let (ended, over) = mpsc::sync_channel::<()>(0);
    let listen = move || {
        listen(reader);
        drop(ended);
    };
    std::thread::Builder::new().name("stray".into()).spawn(listen)?;
    dup2_stdout(&writer)?;
    if with_err && let Err(error) = dup2_stderr(&writer) {
        let _ = dup2_stdout(&out);
        return Err(error.into());
    }
    *caught = Some(Caught { out, err: with_err.then_some(err), over });
    Ok(())
}

/// Puts both back. What was printed before is in the log when this returns, or soon after.
pub fn release() {
    let Some(Caught { out, err, over }) = caught().take() else { return };
    flush();
    let _ = dup2_stdout(&out);
    if let Some(err) = err {
        let _ = dup2_stderr(&err);
    }
    // Another program may have been started meanwhile, and keep the pipe open for as long as it likes.
    let _ = over.recv_timeout(LAST);
}

/// What is still in the buffers of this program belongs where it would have gone.
fn flush() {
    let _ = io::stdout().flush();
    // SAFETY: without a stream it writes out all of them, which is allowed at any time.
    unsafe {
        libc::fflush(std::ptr::null_mut());
    }
    line_by_line();
}

/// C buffers what goes into a pipe until there are pages of it: by lines is what it does with a terminal.
#[cfg(target_os = "linux")]
fn line_by_line() {
    unsafe extern "C" {
        static stdout: *mut libc::FILE;
    }
    // SAFETY: the stream that every C program has; the buffer is its own (null), and it was just flushed.
    unsafe {
        libc::setvbuf(stdout, std::ptr::null_mut(), libc::_IOLBF, 0);
    }
}

#[cfg(not(target_os = "linux"))]
fn line_by_line() {}

/// Empties the pipe until nobody has its other end. Never waits for anybody else.
fn listen(mut pipe: PipeReader) {
    let mut lines = Lines::default();
    let mut bytes = [0; 16 << 10];
    loop {
        if lines.wait_for_more() && !comes(&pipe, REST) {
            lines.rest(Instant::now(), &mut say);
            continue;
        }
        match pipe.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => lines.take(&bytes[..count], Instant::now(), &mut say),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    lines.rest(Instant::now(), &mut say);
}

fn comes(pipe: &PipeReader, longest: Duration) -> bool {
    let mut pipe = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd of ours. On an error reading will say what it is.
    unsafe { libc::poll(&mut pipe, 1, longest.as_millis() as i32) != 0 }
}

fn say(line: &str) {
    tracing::warn!("printed: {line}");
}

/// Bytes that come in pieces, as lines; so many a second.
#[derive(Debug, Default)]
struct Lines {
    line: Vec<u8>,
    /// Since when lines are counted, how many were handed on, and how many were not.
    since: Option<Instant>,
    handed: usize,
    left_out: u64,
}

impl Lines {
    /// There is something that is not in the log yet.
    fn wait_for_more(&self) -> bool {
        !self.line.is_empty() || self.left_out > 0
    }

    fn take(&mut self, bytes: &[u8], now: Instant, say: &mut impl FnMut(&str)) {
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, ended) = match piece {
                [text @ .., b'\n' | b'\r'] => (text, true),
                text => (text, false),
            };
            let room = LINE_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..room.min(text.len())]);
            if ended {
                self.line_ends(now, say);
            }
        }
    }

    fn line_ends(&mut self, now: Instant, say: &mut impl FnMut(&str)) {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= Duration::from_secs(1)) {
            self.count(say);
            (self.since, self.handed) = (Some(now), 0);
        }
        // Text of others: nothing in it commands a terminal that shows the log.
        let text = crate::ui::text::one_line(String::from_utf8_lossy(&self.line).trim_end());
        self.line.clear();
        if text.is_empty() {
            return;
        }
        if self.handed < RATE {
            self.handed += 1;
            say(&text);
        } else {
            self.left_out += 1;
        }
    }

    /// No more is coming for now: what there is of a line counts as one.
    fn rest(&mut self, now: Instant, say: &mut impl FnMut(&str)) {
        if !self.line.is_empty() {
            self.line_ends(now, say);
        }
        self.count(say);
    }

    fn count(&mut self, say: &mut impl FnMut(&str)) {
        if self.left_out > 0 {
            say(&format!("… and {} more lines, which are left out", self.left_out));
            self.left_out = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn said(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut said, now) = (Lines::default(), Vec::new(), Instant::now());
        for piece in pieces {
            lines.take(piece, now, &mut |line: &str| said.push(line.to_owned()));
        }
        lines.rest(now, &mut |line: &str| said.push(line.to_owned()));
        said
    }

    #[test]
    fn pieces_are_lines_and_command_nothing() {
        assert_eq!(said(&[b"one\ntw", b"o\r\n\nthr", b"ee"]), ["one", "two", "three"]);
        assert_eq!(said(&[b"\x1b[31mred\x07\n"]), ["␛[31mred␇"]);
        assert_eq!(said(&["größe: \u{1F600}\n".as_bytes()]), ["größe: \u{1F600}"]);
        assert_eq!(said(&[b"\xff\xfe\n"]).len(), 1, "no UTF-8");
    }

    #[test]
    fn there_is_a_bound_for_everything() {
        let long = vec![b'x'; 1 << 20];
        let lines = said(&[&long, b"\n"]);
        assert_eq!((lines.len(), lines[0].len()), (1, LINE_MAX));
        let many = "a line\n".repeat(100_000);
        let lines = said(&[many.as_bytes()]);
        assert_eq!(lines.len(), RATE + 1);
        assert_eq!(lines[RATE], format!("… and {} more lines, which are left out", 100_000 - RATE));
    }

    /// Set where the test below has started itself, with its output in pipes.
    const PRINTS: &str = "BATCHROOM_TEST_PRINTS";

    fn prints() {
        let _log = crate::log::begin(None).unwrap();
        println!("rust before");
        for round in 0..3 {
            catch_both(true).unwrap();
            catch_both(true).unwrap();
            std::thread::spawn(move || println!("rust thread {round}")).join().unwrap();
            eprintln!("rust error {round}");
            // SAFETY: C's own printing, with a format that takes nothing.
            unsafe {
                libc::printf(c"c line\n".as_ptr());
                libc::write(2, c"c error\n".as_ptr().cast(), 8);
            }
            Command::new("echo").arg("a program's line").status().unwrap();
            writeln!(terminal().unwrap(), "the screen itself").unwrap();
            // More than any pipe holds: whoever prints it does not wait for ever.
            std::thread::spawn(|| (0..4000).for_each(|_| println!("{}", "y".repeat(100)))).join().unwrap();
            release();
            release();
            println!("rust after {round}");
            eprintln!("error after {round}");
        }
        catch_both(true).unwrap();
        // SAFETY: as above.
        unsafe {
            libc::printf(c"c without an end".as_ptr());
        }
        print!("rust without an end");
        release();
        for line in crate::log::newest() {
            println!("log: {line}");
        }
    }

    #[test]
    fn both_are_caught_and_put_back() {
        if std::env::var_os(PRINTS).is_some() {
            return prints();
        }
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "stray::tests::both_are_caught_and_put_back", "--nocapture"]);
        let ended = child.env(PRINTS, "1").env_remove("RUST_LOG").stdin(Stdio::null()).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        assert!(ended.status.success(), "{out}\n{err}");
        let (log, seen): (Vec<&str>, Vec<&str>) = out.lines().partition(|line| line.starts_with("log: "));
        for words in ["rust before", "the screen itself", "rust after 0", "rust after 2"] {
            assert!(seen.iter().any(|line| line.contains(words)), "no {words:?} in {out}");
        }
        assert_eq!(err.lines().filter(|line| line.starts_with("error after")).count(), 3, "{err}");
        for words in ["rust thread", "rust error", "c line", "c without", "rust without", "c error", "program's line", "yyyy"] {
            assert!(!seen.iter().any(|line| line.contains(words)) && !err.contains(words), "{words:?} got out");
            assert!(log.iter().any(|line| line.contains(words)), "no {words:?} in the log");
        }
        assert!(log.iter().any(|line| line.contains("which are left out")), "{log:?}");
        assert!(log.len() <= 3 * (RATE + 12), "{} lines", log.len());
    }
}
