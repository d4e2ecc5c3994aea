//! The workstation: an engine with a screen in front of it.

mod lines;
mod once;
mod plain;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::bail;
use tokio::sync::watch;

use crate::cli::RoomArgs;
use crate::commands::fresh_seed;
use crate::config::{Config, KvBudget, PaceChoice};
use crate::engine::{EngineHandle, Pace, Snapshot};
use crate::hub::{self, Choice, NANO, Progress, Published, SMOLLM2};
use crate::launch::{default_choice, launch_recorded, pace_for};
use crate::machine::MemorySpeed;
use crate::store;
use crate::ui::desk::Desk;
use crate::ui::run::{Before, Services, run};
use crate::ui::state::{Better, Options};
use crate::ui::theme::Theme;
use crate::ui::words::say;
use crate::ui::{format, keymap};

/// Seats of the batch when nobody says otherwise: few enough that a queue can be seen.
const SEATS: usize = 8;

/// The screen needs a terminal; `else_use` does not.
pub(crate) fn need_terminal(what: &str, else_use: &str) -> anyhow::Result<()> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        bail!("{what} needs a terminal for input and output; for pipes and scripts there is `{else_use}`");
    }
    if std::env::var("TERM").is_ok_and(|term| term == "dumb") {
        bail!("TERM is `dumb`: this terminal cannot place text; `{else_use}` needs no more than lines");
    }
    Ok(())
}

/// Opens the workstation.
pub async fn open(config: Config, args: RoomArgs) -> anyhow::Result<ExitCode> {
    if config.screen.readonly && args.prompt.is_some() {
        crate::commands::complain(format_args!(
            "--prompt sends something, and with --readonly nothing is sent: leave one of them out"
        ));
        return Ok(ExitCode::from(2));
    }
    if args.once || args.plain {
        return without_screen(config, args).await;
    }
    need_terminal("the room", "batchroom --plain` or `batchroom ask")?;
    let before = before(&config, args.new);
    let named = config.model.as_deref().map(Choice::parse).transpose()?;
    let opening = Opening::plan(named);
    keymap::remap(&config.screen.keys);
    let services = Arc::new(Room { config: config.clone(), recorded: AtomicU32::new(0) });
    let (engine, opening) = tokio::task::spawn_blocking({
        let services = services.clone();
        move || services.open(opening)
    })
    .await??;
    let mut options = options(&config, &opening);
    if let Some(words) = whole_blocks(&config, options.theme, &engine.snapshots().borrow()) {
        options.notice = Some(options.notice.map_or(words.clone(), |notice| format!("{notice}. {words}")));
    }
    run(engine, services, options, fresh_seed(), before.await?).await
}

/// KV memory is whole blocks: what of the asked size that leaves out is said.
fn whole_blocks(config: &Config, theme: Theme, snapshot: &Snapshot) -> Option<String> {
    let KvBudget::Bytes(asked) = config.engine.kv_memory else { return None };
    let (blocks, tokens) = (snapshot.kv.total, snapshot.kv.block_size);
    let given = (blocks * snapshot.kv.bytes_per_block) as u64;
    (given < asked).then(|| {
        let (asked, given) = (format::bytes(asked), format::bytes(given));
        say!(theme, "kv_memory of {} is {} whole blocks of {} tokens: {}", asked, blocks, tokens, given)
    })
}

/// The last session, or a fresh one; read while the model is being loaded.
async fn before(config: &Config, fresh: bool) -> anyhow::Result<Before> {
    let least = if config.screen.panes_asked { config.screen.panes.max(config.screen.names.len()) } else { 0 };
    let desk = match store::place(config.data.as_deref()) {
        _ if !config.history => Desk::off(),
        // Nothing is said there that could be kept, and what there was is not its to change: it can be read.
        Some(path) if config.screen.readonly => tokio::task::spawn_blocking(move || Desk::to_read(path, fresh)).await?,
        Some(path) => tokio::task::spawn_blocking(move || Desk::open(path, fresh)).await?,
        None => Desk::none(),
    };
    Ok(Before { desk, least })
}

/// The room in lines, or one state of it: at full speed, if no pace is given.
async fn without_screen(config: Config, args: RoomArgs) -> anyhow::Result<ExitCode> {
    let choice = crate::commands::choose(config.model.as_deref()).await?;
    let pace = match config.screen.pace {
        PaceChoice::StepsPerSecond(steps) => Pace::StepsPerSecond(steps),
        PaceChoice::Auto | PaceChoice::Full => Pace::Full,
    };
    let (engine_config, record) = (config.engine.clone(), config.record.clone());
    let launch = move || launch_recorded(&choice, &engine_config, SEATS, pace, record.as_deref());
    let engine = tokio::task::spawn_blocking(launch).await??;
    // A script's questions are nobody's conversation.
    let before = if args.once { Before { desk: Desk::none(), least: 0 } } else { before(&config, args.new).await? };
    // Bots would go on for ever, and one state is wanted.
    let options = if args.once { Options { bots: 0, ..options_of(&config) } } else { options_of(&config) };
    let lines = lines::Lines::new(engine, options, fresh_seed(), before);
    match args.once {
        true => once::once(lines, args.prompt.as_deref()).await,
        false => plain::plain(lines).await,
    }
}

/// Which model the room opens on, and what is to be said about it.
struct Opening {
    choice: Choice,
    /// Not named: a fault of its file is no reason not to open.
    by_default: bool,
    /// smollm2 was asked for by name and is still to be fetched, while nano serves.
    wanted: bool,
    notice: Option<String>,
}

impl Opening {
    fn plan(named: Option<Choice>) -> Opening {
        match named {
            Some(Choice::Published(model)) if hub::cached(model).is_none() => {
                Opening { choice: Choice::Nano, by_default: false, wanted: true, notice: None }
            }
            Some(choice) => Opening { choice, by_default: false, wanted: false, notice: None },
            None => {
                let choice = default_choice();
                // Nano's own line says what it is.
                let notice = (choice != Choice::Nano)
                    .then(|| format!("{} was in the cache and is used; --model nano opens the built-in one", SMOLLM2.title));
                Opening { choice, by_default: true, wanted: false, notice }
            }
        }
    }
}

/// Options of a screen whose model is what it is.
pub(crate) fn options_of(config: &Config) -> Options {
    Options {
        panes: config.screen.panes,
        names: config.screen.names.clone(),
        fps: config.screen.fps,
        theme: config.screen.theme(|name| std::env::var(name).ok()),
        readonly: config.screen.readonly,
        mouse: config.screen.mouse,
        bots: config.screen.bots,
        bots_pause: config.screen.bots_pause,
        bots_load: config.screen.bots_load,
        system: config.system.clone(),
        sampling: config.sampling.clone(),
        seed: config.seed,
        presets: config.presets.clone(),
        better_name: SMOLLM2.name.to_owned(),
        better_title: SMOLLM2.title.to_owned(),
        better_bytes: SMOLLM2.bytes,
        small_name: NANO.to_owned(),
        better: Better::InUse,
        wanted: false,
        notice: None,
    }
}

fn options(config: &Config, opening: &Opening) -> Options {
    let better = match opening.choice {
        Choice::Nano if hub::cached(&SMOLLM2).is_some() && opening.notice.is_none() => Better::Ready,
        Choice::Nano => Better::Absent,
        Choice::Published(_) | Choice::Path(_) => Better::InUse,
    };
    Options { better, wanted: opening.wanted, notice: opening.notice.clone(), ..options_of(config) }
}

struct Room {
    config: Config,
    /// Engines that were recorded.
    recorded: AtomicU32,
}

impl Room {
    /// Starts the first engine. A damaged file that nobody named gives way to nano, and that is said.
    fn open(&self, opening: Opening) -> anyhow::Result<(EngineHandle, Opening)> {
        match self.start(&opening.choice) {
            Err(fault) if opening.by_default && opening.choice != Choice::Nano => {
                let notice = Some(format!("{}: nano is used", crate::fault::words(&fault)));
                let opening = Opening { choice: Choice::Nano, notice, ..opening };
                Ok((self.start(&Choice::Nano)?, opening))
            }
            result => Ok((result?, opening)),
        }
    }

    fn start(&self, choice: &Choice) -> anyhow::Result<EngineHandle> {
        let pace = pace_for(choice, self.config.screen.pace);
        let record = self.config.record.as_deref().map(|path| self.trace_name(path));
        let engine = launch_recorded(choice, &self.config.engine, SEATS, pace, record.as_deref())?;
        if record.is_some() {
            self.recorded.fetch_add(1, Ordering::Relaxed);
        }
        Ok(engine)
    }

    /// Where the next engine is recorded: each has a file of its own. Those after the first have numbers, from 2, which
    /// nobody has taken.
    fn trace_name(&self, path: &Path) -> PathBuf {
        if self.recorded.load(Ordering::Relaxed) == 0 {
            return path.to_owned();
        }
        let numbered = |number: u32| {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        (2..1000).map(numbered).find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| numbered(1000))
    }
}

impl Services for Room {
    fn launch(&self, model: &str) -> anyhow::Result<EngineHandle> {
        self.start(&Choice::parse(model)?)
    }

    fn memory_speed(&self, threads: usize) -> anyhow::Result<MemorySpeed> {
        crate::commands::memory_speed(threads)
    }

    fn fetch(&self, progress: watch::Sender<Progress>) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> {
        let model: &'static Published = &SMOLLM2;
        Box::pin(async move { hub::fetch(model, progress).await.map(|_| ()).map_err(|error| error.to_string()) })
    }
}
