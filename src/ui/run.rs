//! The event loop: input, signals, the engine's news and the clock in; effects and frames out.

use std::collections::HashMap;
use std::io::Write;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::Event as TermEvent;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::burst::{into_messages, is_enter};
use super::desk::Desk;
use super::jobs::{Fetch, FetchNews, edited, fetching, finished, loaded};
use super::keyboard::{self, Heard, Input, TURN};
use super::keymap::Action;
use super::measuring::{self, Measuring};
use super::outside::{self, Gate, Outside};
use super::rich::code::Highlighter;
use super::state::{Options, State};
use super::terminal::{self, Screen};
use super::update::{Effect, Msg, act, update};
use super::view::screen::{self, Kept};
use crate::batch::{RequestId, UserId};
use crate::engine::api::Place;
use crate::engine::{EngineHandle, Event, Pace, RunState, Snapshot};
use crate::hub::Progress;
use crate::machine::MemorySpeed;
use crate::sampling::SamplingParams;
use crate::text::Message;

/// What the screen needs from the world beside an engine.
pub trait Services: Send + Sync + 'static {
    /// Loads a model by name and starts an engine for it. Blocks.
    fn launch(&self, model: &str) -> anyhow::Result<EngineHandle>;

    /// How fast main memory can be read with so many threads. Blocks for about a second, in bounded memory.
    fn memory_speed(&self, threads: usize) -> anyhow::Result<MemorySpeed>;

    /// Brings the better model into the cache. Dropping the future stops it cleanly.
    fn fetch(&self, progress: watch::Sender<Progress>) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;
}

/// From one snapshot on the screen to the next at full speed. Text comes with every frame; numbers and panels that change more
/// often than this cannot be read, and are half of what a terminal is sent.
const LOOK: Duration = Duration::from_millis(100);
/// Keys nearer together than this were not typed: an Enter that comes so soon may be a line end of a paste that
/// the terminal does not mark, and the rest of such a paste comes as soon.
const PASTE_GAP: Duration = Duration::from_millis(15);
/// Exit code of a program whose terminal went away: 128 + SIGHUP, as shells say it.
pub(super) const HUNG_UP: u8 = 128 + 1;
/// How long the end of a recording is waited for.
const RECORDED: Duration = Duration::from_secs(5);

/// What there is from before: where this session is kept, and how many panes were asked for.
#[derive(Debug)]
pub struct Before {
    pub desk: Desk,
    pub least: usize,
}

/// Opens the screen on an engine and stays until the person leaves.
pub async fn run(
    engine: EngineHandle,
    services: Arc<dyn Services>,
    options: Options,
    seed: u64,
    before: Before,
) -> anyhow::Result<ExitCode> {
    let first = engine.snapshots().borrow().clone();
    let mut signals = Signals::listen()?;
    let screen = Screen::take()?;
    let mut app = App::new(engine, services, State::new(options, first, seed), before.desk, screen);
    app.desk.begin(&mut app.state, before.least);
    app.name_all();
    if app.state.mouse {
        app.carry_out(Effect::Mouse(true));
    }
    let bots = if app.state.options.readonly { 0 } else { app.state.options.bots };
    for effect in super::bots::set_number(&mut app.state, bots) {
        app.carry_out(effect);
    }
    let mut input = keyboard::listen(app.gate.clone())?;
    if app.state.wanted {
        app.fetch_wanted();
    }
    while app.leave.is_none() {
        app.turn(&mut input, &mut signals).await?;
        let drawing = app.dirty && app.outside.is_none() && app.screen.is_idle();
        if drawing && Instant::now() >= app.next_frame && app.leave.is_none() {
            app.draw()?;
            panic_on_request();
        }
    }
    app.desk.keep(&mut app.state);
    let App { screen, desk, engine, state, leave, .. } = app;
    // The person has the terminal back before anything is waited for.
    drop(screen);
    if !desk.end() {
        tracing::warn!("the last words may not be kept");
        let words = "batchroom: the newest of this session is not kept: the database could not be written in time";
        let _ = writeln!(std::io::stderr(), "{}", state.options.theme.tr(words));
    }
    engine.shutdown(Duration::ZERO);
    if !engine.recorded(RECORDED) {
        tracing::warn!("the recording may lack its end");
    }
    if let Some(words) = &state.recording_ended {
        let _ = writeln!(std::io::stderr(), "batchroom: {words}");
    }
    Ok(ExitCode::from(leave.unwrap_or(0)))
}

pub(super) struct Signals {
    pub terminate: Signal,
    pub interrupt: Signal,
    pub hang_up: Signal,
    pub stop: Signal,
    pub go_on: Signal,
}

impl Signals {
    pub fn listen() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            stop: signal(SignalKind::from_raw(libc::SIGTSTP))?,
            go_on: signal(SignalKind::from_raw(libc::SIGCONT))?,
        })
    }
}

/// A request of a pane, as long as its answer is not over.
struct Request {
    id: RequestId,
    events: mpsc::Receiver<Event>,
}

struct App {
    state: State,
    engine: EngineHandle,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    services: Arc<dyn Services>,
    desk: Desk,
    screen: Screen,
    requests: HashMap<UserId, Request>,
    /// The newest request of each, which another can be a fork of.
    newest: HashMap<UserId, RequestId>,
    /// The person's own editor has the terminal.
    outside: Option<Outside>,
    gate: Gate,
    colours: Option<JoinHandle<Highlighter>>,
    fetch: Option<Fetch>,
    launch: Option<JoinHandle<anyhow::Result<EngineHandle>>>,
    measuring: Option<Measuring>,
    opened: Instant,
    /// When the last keys came, and whether they were a paste that the terminal did not mark.
    last_input: Instant,
    pasting: bool,
    frame: Duration,
    next_frame: Instant,
    /// When the engine is heard again: what comes between two frames is seen with the next one, and a screen that woke at every
    /// step would take the processor from those who compute it.
    next_news: Instant,
    /// When the next snapshot is due at full speed, and whether one waits for that.
    next_look: Instant,
    behind: bool,
    kept: Kept,
    dirty: bool,
    /// Exit code.
    leave: Option<u8>,
}

impl App {
    fn new(engine: EngineHandle, services: Arc<dyn Services>, state: State, desk: Desk, screen: Screen) -> App {
        App {
            snapshots: engine.snapshots(),
            frame: Duration::from_secs(1) / state.options.fps.max(1),
            state,
            engine,
            services,
            desk,
            screen,
            requests: HashMap::new(),
            newest: HashMap::new(),
            outside: None,
            gate: Gate::default(),
            colours: None,
            fetch: None,
            launch: None,
            measuring: None,
            opened: Instant::now(),
            last_input: Instant::now(),
            pasting: false,
            next_frame: Instant::now(),
            next_news: Instant::now(),
            next_look: Instant::now(),
            behind: false,
            kept: Kept::default(),
            dirty: true,
            leave: None,
        }
    }

    /// Waits for whatever comes first, input before all else, and takes it in.
    async fn turn(&mut self, input: &mut Input, signals: &mut Signals) -> anyhow::Result<()> {
        let drawing = self.dirty && self.outside.is_none();
        let idle = self.screen.idle();
        let frame_due = async {
            match drawing {
                true => {
                    idle.await;
                    sleep_until(self.next_frame).await;
                }
                false => std::future::pending().await,
            }
        };
        let notice_over = async {
            match &self.state.notice {
                Some(notice) => sleep_until(self.opened + notice.until).await,
                None => std::future::pending().await,
            }
        };
        let bot_due = async {
            match super::bots::next(&self.state) {
                Some(due) => sleep_until(self.opened + due).await,
                None => std::future::pending().await,
            }
        };
        let look_due = async {
            match self.behind {
                true => sleep_until(self.next_look).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = signals.terminate.recv() => self.leave = Some(128 + 15),
            // Ctrl-C and Ctrl-Z in the person's own editor are for it.
            _ = signals.interrupt.recv() => if self.outside.is_none() { self.leave = Some(128 + 2) },
            _ = signals.hang_up.recv() => self.leave = Some(HUNG_UP),
            _ = signals.stop.recv() => if self.outside.is_none() { self.suspend(false)? } else { terminal::stop_here() },
            _ = signals.go_on.recv() => if self.outside.is_none() {
                self.screen.take_again()?;
                self.dirty = true;
            },
            result = edited(&mut self.outside) => self.back_from_editor(result)?,
            event = input.recv() => self.input(event, input).await?,
            () = look_due => self.look(),
            Ok(()) = at(self.next_news, self.snapshots.changed()) => self.news(),
            result = loaded(&mut self.colours) => {
                self.colours = None;
                if let Some(highlighter) = result {
                    self.take(Msg::Colours(Arc::new(highlighter)));
                }
            }
            msg = self.desk.news() => self.take(msg),
            result = finished(&mut self.launch) => self.launched(result),
            progress = fetching(&mut self.fetch) => self.fetched(progress),
            result = measuring::done(&mut self.measuring) => self.take(Msg::Measured(result)),
            () = frame_due => {}
            () = notice_over => self.take(Msg::Tick),
            () = bot_due => self.take(Msg::Tick),
        }
        Ok(())
    }

    /// Begins the fetch that was asked for on the command line.
    fn fetch_wanted(&mut self) {
        for effect in act(&mut self.state, Action::Model) {
            self.carry_out(effect);
        }
    }

    /// A recording says who is who.
    fn name_all(&self) {
        for pane in &self.state.panes {
            self.engine.name(pane.person.user, &pane.person.name);
        }
    }

    fn take(&mut self, msg: Msg) {
        self.dirty = true;
        if !matches!(msg, Msg::Engine(_, Event::Token { .. })) {
            self.kept = Kept::default();
        }
        let now = self.opened.elapsed();
        for effect in update(&mut self.state, msg, now) {
            self.carry_out(effect);
        }
        self.desk.keep(&mut self.state);
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Submit { user, messages, sampling, fork_of } => self.submit(user, &messages, sampling, fork_of),
            Effect::Cancel(user) => self.cancel(self.requests.get(&user)),
            Effect::Abandon(user) => {
                let request = self.requests.remove(&user);
                self.cancel(request.as_ref());
            }
            Effect::Pause(paused) => self.engine.pause(paused),
            Effect::Step(steps) => self.engine.step(steps),
            Effect::SetPace(pace) => self.engine.set_pace(pace),
            Effect::SetLimits(limits) => self.engine.set_limits(limits),
            Effect::SetKvBlocks(blocks) => self.engine.set_kv_blocks(blocks),
            Effect::Log => self.take(Msg::Log(crate::log::newest())),
            Effect::Mouse(ours) => {
                let _ = self.screen.mouse(ours);
            }
            Effect::SetTargetItl(target) => self.engine.set_target_itl(target),
            Effect::Fetch => self.fetch = Some(Fetch::start(&*self.services)),
            Effect::CancelFetch => {
                if let Some(fetch) = self.fetch.take() {
                    fetch.task.abort();
                }
            }
            Effect::Switch(model) => {
                let services = self.services.clone();
                self.launch = Some(tokio::task::spawn_blocking(move || services.launch(&model)));
            }
            Effect::Redraw => {
                let _ = self.screen.forget();
            }
            Effect::Suspend => {
                let result = self.suspend(true);
                self.keep_terminal(result);
            }
            Effect::Quit => self.leave = Some(0),
            Effect::Copy(text) => {
                if let Err(error) = self.screen.copy(&text) {
                    tracing::warn!(%error, "the clipboard cannot be written");
                }
            }
            Effect::Export { path, text, replace } => self.desk.export(path, text, replace),
            Effect::OtherEditor { user, text } => self.open_editor(user, &text),
            Effect::LoadColours => self.colours = Some(tokio::task::spawn_blocking(Highlighter::load)),
            Effect::Name { user, name } => self.engine.name(user, &name),
            Effect::FindChats(text) => self.desk.find(text),
            Effect::OpenChat { user, id } => self.desk.fetch(user, id),
            Effect::Measure { threads } => {
                self.measuring = Some(Measuring::start(self.engine.clone(), self.services.clone(), threads));
            }
            Effect::Opened { key, id } => self.desk.know(key, id),
            // There is nothing recorded to go to.
            Effect::Seek(_) => {}
        }
    }

    fn submit(&mut self, user: UserId, messages: &[Message], sampling: SamplingParams, fork_of: Option<UserId>) {
        let fork_of = fork_of.and_then(|origin| self.newest.get(&origin)).copied();
        let priority = self.state.pane_of(user).map_or(0, |pane| pane.priority);
        let place = Place { fork_of, priority, witness: self.state.witness, ..Place::default() };
        let (id, events) = self.engine.chat_as(user, messages, sampling, place);
        self.newest.insert(user, id);
        self.requests.insert(user, Request { id, events });
        // A refusal is there at once, and no snapshot will bring it.
        self.hear(user);
    }

    fn cancel(&self, request: Option<&Request>) {
        if let Some(request) = request {
            self.engine.cancel(request.id);
        }
    }

    /// Without a terminal there is nothing to stay for.
    fn keep_terminal(&mut self, taken: std::io::Result<()>) {
        if let Err(error) = taken {
            tracing::error!(%error, "the terminal cannot be taken again");
            self.leave = Some(1);
        }
    }

    fn suspend(&mut self, whole_group: bool) -> std::io::Result<()> {
        self.dirty = true;
        // Nobody is to see a speed with the time at the shell in it.
        let (held, from) = (self.engine.hold_time(), Instant::now());
        let result = self.screen.suspend(whole_group);
        held.skip(from.elapsed());
        result
    }

    /// Gives the terminal to the person's own editor; answers go on meanwhile.
    fn open_editor(&mut self, user: UserId, text: &str) {
        if self.outside.is_some() {
            return;
        }
        let theme = self.state.options.theme;
        let command = outside::editor(|name| std::env::var(name).ok());
        if !self.gate.shut(terminal::wake_input) {
            return self.take(Msg::Edited(user, Err(theme.tr("the keyboard cannot be given away now").into())));
        }
        self.screen.lend();
        match Outside::start(user, &command, text, theme) {
            Ok(outside) => self.outside = Some(outside),
            Err(why) => {
                self.gate.open();
                let result = self.screen.take_back();
                self.keep_terminal(result);
                self.take(Msg::Edited(user, Err(why)));
            }
        }
    }

    fn back_from_editor(&mut self, result: Result<String, String>) -> std::io::Result<()> {
        let Some(outside) = self.outside.take() else { return Ok(()) };
        self.screen.take_back()?;
        self.gate.open();
        self.take(Msg::Edited(outside.user, result));
        Ok(())
    }

    /// One event and whatever came with it: a burst with line ends inside is a paste, bracketed or not.
    async fn input(&mut self, first: Option<Heard>, input: &mut Input) -> anyhow::Result<()> {
        let close = first.as_ref().is_some_and(|(at, _)| at.saturating_duration_since(self.last_input) < PASTE_GAP);
        let mut burst = Vec::new();
        let mut next = Some(first);
        while let Some(event) = next {
            match event {
                Some((at, Ok(event))) => {
                    self.last_input = at;
                    burst.push(event);
                }
                // The terminal is gone.
                Some((_, Err(_))) | None => {
                    self.leave = Some(HUNG_UP);
                    return Ok(());
                }
            }
            next = if burst.len() >= TURN {
                None
            } else if (close || burst.len() > 1) && burst.last().is_some_and(is_enter) {
                tokio::time::timeout(PASTE_GAP, input.recv()).await.ok()
            } else {
                input.try_recv().ok().map(Some)
            };
        }
        let marked = burst.iter().any(|event| matches!(event, TermEvent::Paste(_)));
        let messages = into_messages(burst, close && self.pasting);
        self.pasting = !marked && matches!(messages[..], [Some(Msg::Paste(_))]);
        for msg in messages {
            match msg {
                Some(msg) => self.take(msg),
                // A new size: ratatui asks for it when it draws.
                None => (self.dirty, self.kept) = (true, Kept::default()),
            }
        }
        Ok(())
    }

    /// The newest snapshot, unless the last one has hardly been seen, and the events that came with it.
    fn news(&mut self) {
        self.next_news = Instant::now() + self.frame;
        let rushing = {
            let snapshot = self.snapshots.borrow_and_update();
            // At rest too: between short answers it is for a moment, and whoever looked then only would never see it run.
            matches!(snapshot.state, RunState::Running | RunState::Idle) && snapshot.pace == Pace::Full
        };
        self.behind = rushing && Instant::now() < self.next_look;
        if !self.behind {
            self.look();
        }
        let users: Vec<UserId> = self.requests.keys().copied().collect();
        users.into_iter().for_each(|user| self.hear(user));
    }

    /// Takes the newest snapshot.
    fn look(&mut self) {
        let snapshot = self.snapshots.borrow().clone();
        (self.behind, self.next_look) = (false, Instant::now() + LOOK);
        self.take(Msg::Snapshot(snapshot));
    }

    fn hear(&mut self, user: UserId) {
        loop {
            let Some(request) = self.requests.get_mut(&user) else { return };
            match request.events.try_recv() {
                Ok(event) => {
                    if matches!(event, Event::Finished(_) | Event::Rejected(_)) {
                        self.requests.remove(&user);
                    }
                    self.take(Msg::Engine(user, event));
                }
                Err(mpsc::error::TryRecvError::Empty) => return,
                Err(mpsc::error::TryRecvError::Disconnected) => {
                    self.requests.remove(&user);
                    self.take(Msg::Lost(user));
                }
            }
        }
    }

    /// A new engine takes over; what the old one was still answering ends where it is.
    fn launched(&mut self, result: Result<anyhow::Result<EngineHandle>, tokio::task::JoinError>) {
        self.launch = None;
        let engine = match result {
            Ok(Ok(engine)) => engine,
            Ok(Err(error)) => return self.take(Msg::Switched(Err(crate::fault::words(&error)))),
            Err(error) => return self.take(Msg::Switched(Err(error.to_string()))),
        };
        self.engine.shutdown(Duration::ZERO);
        for (user, mut request) in std::mem::take(&mut self.requests) {
            while let Ok(event) = request.events.try_recv() {
                self.take(Msg::Engine(user, event));
            }
            if self.state.pane_of(user).is_some_and(|pane| pane.live) {
                self.take(Msg::Engine(user, stopped()));
            }
        }
        // What a person has set stays set.
        if super::reading::paused_by_hand(&self.state) {
            engine.pause(true);
        }
        if let Some(pace) = self.state.pace {
            engine.set_pace(pace);
        }
        self.newest.clear();
        self.snapshots = engine.snapshots();
        self.engine = engine;
        self.name_all();
        let snapshot = self.snapshots.borrow_and_update().clone();
        let name = snapshot.model.name.clone();
        self.take(Msg::Snapshot(snapshot));
        self.take(Msg::Switched(Ok(name)));
    }

    fn fetched(&mut self, news: FetchNews) {
        match news {
            FetchNews::Progress(progress) => self.take(Msg::Fetch(progress)),
            FetchNews::Done(result) => {
                self.fetch = None;
                self.take(Msg::Fetched(result));
            }
        }
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        if draw(&mut self.screen, &mut self.state, &mut self.kept)? {
            (self.dirty, self.next_frame) = (false, Instant::now() + self.frame);
        } else {
            self.leave = Some(HUNG_UP);
        }
        Ok(())
    }
}

/// Not before a time.
async fn at<T>(time: Instant, then: impl Future<Output = T>) -> T {
    sleep_until(time).await;
    then.await
}

/// One frame of the state. False when the terminal is gone: the signal that says so may still be on its way.
pub(super) fn draw(terminal: &mut Screen, state: &mut State, kept: &mut Kept) -> std::io::Result<bool> {
    match draw_frame(terminal, state, kept) {
        Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(false),
        result => result.map(|()| true),
    }
}

fn draw_frame(terminal: &mut Screen, state: &mut State, kept: &mut Kept) -> std::io::Result<()> {
    let size = terminal.size()?;
    screen::measure(state, ratatui::layout::Rect::new(0, 0, size.width, size.height));
    let state = &*state;
    terminal.draw(|frame| {
        let area = frame.area();
        if let Some(cursor) = screen::draw_again(frame.buffer_mut(), area, state, kept) {
            frame.set_cursor_position(cursor);
        }
    })?;
    Ok(())
}

/// A debug build can be asked to panic with the screen open: what is then left of the terminal has to be tested on
/// the real program.
fn panic_on_request() {
    if cfg!(debug_assertions) && std::env::var_os("BATCHROOM_TEST_PANIC").is_some_and(|place| place == "screen") {
        panic!("asked for by BATCHROOM_TEST_PANIC");
    }
}

/// The end of an answer whose engine was replaced.
fn stopped() -> Event {
    Event::Finished(crate::engine::Finished {
        reason: crate::engine::FinishReason::Cancelled,
        text: String::new(),
        message: None,
        prompt_tokens: 0,
        generated_tokens: 0,
        ttft: None,
        tokens_per_s: None,
        preemptions: 0,
        cached_tokens: 0,
        queued: None,
        end_to_end: Duration::ZERO,
        tpot: None,
        itl: None,
        predicted_ttft: None,
    })
}
