//! The workstation: an engine with a screen in front of it.

use std::io::IsTerminal;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use tokio::sync::watch;

use crate::commands::fresh_seed;
use crate::config::Config;
use crate::engine::EngineHandle;
use crate::hub::{self, Choice, NANO, Progress, Published, SMOLLM2};
use crate::launch::{default_choice, launch, pace_for};
use crate::ui::run::{Services, run};
use crate::ui::state::{Better, Options};
use crate::ui::theme::{Colors, Theme};

/// Seats of the batch when nobody says otherwise: few enough that a queue can be seen.
const SEATS: usize = 8;

/// Opens the workstation.
pub async fn open(config: Config) -> anyhow::Result<ExitCode> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        bail!("the room needs a terminal for input and output; for pipes and scripts there is `batchroom ask`");
    }
    if std::env::var("TERM").is_ok_and(|term| term == "dumb") {
        bail!("TERM is `dumb`: this terminal cannot place text; `batchroom ask` needs no more than lines");
    }
    let named = config.model.as_deref().map(Choice::parse).transpose()?;
    let choice = match &named {
        // Asked for by name: fetched here, before the screen opens, where the progress can be seen as well.
        Some(choice @ Choice::Published(model)) => {
            crate::commands::fetch_with_bar(model).await?;
            choice.clone()
        }
        Some(choice) => choice.clone(),
        None => default_choice(),
    };
    let services = Arc::new(Room { config: config.clone() });
    let starting = services.clone();
    let first = choice.clone();
    let engine = tokio::task::spawn_blocking(move || starting.start(&first)).await??;
    let options = options(&config, &choice, named.is_none());
    run(engine, services, options, fresh_seed()).await
}

fn options(config: &Config, choice: &Choice, by_default: bool) -> Options {
    let better = match choice {
        Choice::Nano if hub::cached(&SMOLLM2).is_some() => Better::Ready,
        Choice::Nano => Better::Absent,
        Choice::Published(_) | Choice::Path(_) => Better::InUse,
    };
    // Nano's own line says what it is.
    let chosen = by_default && *choice != Choice::Nano;
    let notice = chosen.then(|| format!("{} was in the cache and is used; --model nano opens the built-in one", SMOLLM2.title));
    Options {
        panes: config.screen.panes,
        names: config.screen.names.clone(),
        fps: config.screen.fps,
        theme: Theme::new(Colors::detect(|name| std::env::var(name).ok())),
        system: config.system.clone(),
        sampling: config.sampling.clone(),
        seed: config.seed,
        better_name: SMOLLM2.name.to_owned(),
        better_title: SMOLLM2.title.to_owned(),
        better_bytes: SMOLLM2.bytes,
        small_name: NANO.to_owned(),
        better,
        notice,
    }
}

struct Room {
    config: Config,
}

impl Room {
    fn start(&self, choice: &Choice) -> anyhow::Result<EngineHandle> {
        let pace = pace_for(choice, self.config.screen.pace);
        Ok(launch(choice, &self.config.engine, SEATS, pace)?)
    }
}

impl Services for Room {
    fn launch(&self, model: &str) -> anyhow::Result<EngineHandle> {
        self.start(&Choice::parse(model)?)
    }

    fn fetch(&self, progress: watch::Sender<Progress>) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> {
        let model: &'static Published = &SMOLLM2;
        Box::pin(async move { hub::fetch(model, progress).await.map(|_| ()).map_err(|error| error.to_string()) })
    }
}
