//! The commands beside the screen. Each gives its exit code.

mod ask;
mod bench;
mod history;
mod models;
mod pages;
mod prompts;
mod replay;
mod settings;
mod simulate;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::watch;

use crate::hub::{self, Choice, Progress, Published, SMOLLM2};
use crate::launch::default_choice;
use crate::text::printable;

pub use ask::ask;
pub use bench::{Scenario, bench, memory_speed};
pub use history::{HistoryCommand, history};
pub use models::models;
pub use pages::{completions, man};
pub use replay::replay;
pub use settings::{ConfigCommand, settings};
pub use simulate::simulate;

/// The examples at the end of `--help`.
pub mod help {
    pub use super::history::EXAMPLES as HISTORY;
    pub use super::pages::{COMPLETIONS_EXAMPLES as COMPLETIONS, MAN_EXAMPLES as MAN};
    pub use super::settings::EXAMPLES as CONFIG;
}

/// A command ended because the person pressed Ctrl-C: 128 + SIGINT, as shells say it.
pub const INTERRUPTED: u8 = 130;

/// A line on standard error. Where nobody can read it, there is nobody to tell.
pub fn complain(what: std::fmt::Arguments<'_>) {
    let line = format!("batchroom: {}\n", printable(&what.to_string()));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The default model. A damaged file that nobody named gives way to nano, and that is said.
fn whole_default() -> Choice {
    let choice = default_choice();
    let fault = match &choice {
        Choice::Published(model) => {
            hub::cached(model).and_then(|path| hub::verify(model, &path, |_| ()).err()).map(|e| e.to_string())
        }
        _ => hub::damaged(&SMOLLM2).map(|bytes| format!("the cached {} has {bytes} bytes of {}", SMOLLM2.name, SMOLLM2.bytes)),
    };
    let Some(fault) = fault else { return choice };
    complain(format_args!("{fault}: nano answers; `batchroom models pull {}` fetches it again", SMOLLM2.name));
    Choice::Nano
}

/// The model that was asked for, or the default; fetched if need be, with a progress bar on standard error.
pub(crate) async fn choose(model: Option<&str>) -> anyhow::Result<Choice> {
    let choice = model.map(Choice::parse).transpose()?.unwrap_or_else(whole_default);
    if model.is_none() && std::io::stderr().is_terminal() {
        complain(format_args!("{} answers (--model names another)", choice.name()));
    }
    if let Choice::Published(model) = &choice {
        fetch_with_bar(model).await?;
    }
    Ok(choice)
}

/// Fetches unless it is there, whole. Ctrl-C, and being asked to end, drop the fetch, which cleans up after itself.
async fn fetch_with_bar(model: &'static Published) -> anyhow::Result<std::path::PathBuf> {
    let there = hub::cached(model).is_some_and(|path| hub::verify(model, &path, |_| ()).is_ok());
    if !there && !std::io::stderr().is_terminal() {
        complain(format_args!("fetching {} ({:.1} MB)", model.title, model.bytes as f64 / 1e6));
    }
    let (sender, mut progress) = watch::channel(Progress::default());
    let bar = progress_bar();
    let draw = async {
        while progress.changed().await.is_ok() {
            let now = progress.borrow_and_update().clone();
            show(&bar, &now);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        std::future::pending::<()>().await;
    };
    let result = tokio::select! {
        result = hub::fetch(model, sender) => result,
        () = draw => unreachable!("drawing goes on until the fetch ends"),
        code = asked_to_end() => {
            bar.finish_and_clear();
            complain(format_args!("the fetch of {} was stopped", model.name));
            Err(hub::FetchError::Stopped { code })
        }
    };
    bar.finish_and_clear();
    Ok(result?)
}

/// Waits for SIGINT, SIGTERM or SIGHUP, and gives the exit code that shells have for it.
pub(crate) async fn asked_to_end() -> u8 {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut hang_up) = match (signal(SignalKind::terminate()), signal(SignalKind::hangup())) {
        (Ok(terminate), Ok(hang_up)) => (terminate, hang_up),
        _ => std::future::pending().await,
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => INTERRUPTED,
        _ = terminate.recv() => 128 + 15,
        _ = hang_up.recv() => 128 + 1,
    }
}

fn progress_bar() -> ProgressBar {
    let target = if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = "{msg} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(style).expect("a valid template").progress_chars("=> ");
    ProgressBar::with_draw_target(Some(0), target).with_style(style)
}

fn show(bar: &ProgressBar, now: &Progress) {
    if bar.message() != now.source {
        bar.reset();
        bar.set_message(now.source.clone());
    }
    bar.set_length(now.total.unwrap_or(0).max(now.done));
    bar.set_position(now.done);
}

/// Runs a command's future on this thread. What it has left running in other threads (a model that is still being
/// loaded) is not waited for: it ends with the process.
pub fn block_on(command: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the asynchronous runtime cannot be started")?;
    let result = runtime.block_on(tokio::task::LocalSet::new().run_until(command));
    runtime.shutdown_background();
    result
}

/// A seed that is not asked for.
pub fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library's per-process random keys: enough for a draw that nobody asked to repeat.
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_does_not_wait_for_what_it_has_left_behind() {
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let (ended, end) = std::sync::mpsc::channel();
        let command = async move {
            let (begun, begin) = tokio::sync::oneshot::channel();
            tokio::task::spawn_blocking(move || {
                let _ = begun.send(());
                held.recv()
            });
            begin.await?;
            Ok(ExitCode::SUCCESS)
        };
        std::thread::spawn(move || ended.send(block_on(command).is_ok()));
        assert_eq!(end.recv_timeout(Duration::from_secs(20)), Ok(true), "it waits for a thread that never ends");
        drop(hold);
    }
}
