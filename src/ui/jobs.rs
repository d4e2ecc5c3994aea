//! Work that goes on beside the screen, and what is heard of it: each of these waits for ever while there is none.

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::outside::Outside;
use super::rich::code::Highlighter;
use super::run::Services;
use crate::engine::EngineHandle;
use crate::hub::Progress;

pub(super) struct Fetch {
    pub progress: watch::Receiver<Progress>,
    pub task: JoinHandle<Result<(), String>>,
}

impl Fetch {
    pub fn start(services: &dyn Services) -> Fetch {
        let (sender, progress) = watch::channel(Progress::default());
        Fetch { progress, task: tokio::spawn(services.fetch(sender)) }
    }
}

pub(super) async fn finished(
    launch: &mut Option<JoinHandle<anyhow::Result<EngineHandle>>>,
) -> Result<anyhow::Result<EngineHandle>, tokio::task::JoinError> {
    match launch {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

pub(super) async fn loaded(colours: &mut Option<JoinHandle<Highlighter>>) -> Option<Highlighter> {
    match colours {
        Some(task) => task.await.ok(),
        None => std::future::pending().await,
    }
}

pub(super) async fn edited(outside: &mut Option<Outside>) -> Result<String, String> {
    match outside {
        Some(outside) => outside.done().await,
        None => std::future::pending().await,
    }
}

pub(super) enum FetchNews {
    Progress(Progress),
    Done(Result<(), String>),
}

pub(super) async fn fetching(fetch: &mut Option<Fetch>) -> FetchNews {
    let Some(fetch) = fetch else { return std::future::pending().await };
    tokio::select! {
        Ok(()) = fetch.progress.changed() => FetchNews::Progress(fetch.progress.borrow_and_update().clone()),
        result = &mut fetch.task => FetchNews::Done(result.unwrap_or_else(|error| Err(error.to_string()))),
    }
}
