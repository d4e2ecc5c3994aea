//! What of the machine room is looked at: one panel alone, the panels as they were, a step long ago. Pure, as `update` is.

use std::sync::Arc;
use std::time::Duration;

use super::format;
use super::keymap::{Action, Glance, Preset, Stroll, key_in};
use super::reading::{self, Reading};
use super::state::{Rooms, State};
use super::update::Effect;
use super::view::screen;
use super::words::say;
use crate::engine::api::{RunState, Snapshot, StepRecord};

/// Steps that one column stands for, by zoom.
pub const ZOOMS: [usize; 7] = [1, 2, 5, 10, 20, 50, 100];

/// A panel of the machine room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panel {
    Timeline,
    /// The newest step in words.
    Step,
    Users,
    Kv,
    Charts,
    /// Percentiles of all requests.
    Times,
    /// What preemption cost and the prefix cache saved.
    Ledger,
    /// Signs that the machine is full, and what helps.
    Signals,
    Notes,
}

impl Panel {
    pub const ALL: [Panel; 9] = [
        Panel::Timeline,
        Panel::Step,
        Panel::Users,
        Panel::Kv,
        Panel::Charts,
        Panel::Times,
        Panel::Ledger,
        Panel::Signals,
        Panel::Notes,
    ];

    fn next(self) -> Option<Panel> {
        let at = Panel::ALL.iter().position(|panel| *panel == self)?;
        Panel::ALL.get(at + 1).copied()
    }
}

/// By what the table of users is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// In the order of their first requests.
    #[default]
    Arrival,
    Speed,
    Ttft,
    Queue,
    Itl,
    Context,
    Kv,
    Cached,
    Preempted,
}

impl Sort {
    const ALL: [Sort; 9] =
        [Sort::Arrival, Sort::Speed, Sort::Ttft, Sort::Queue, Sort::Itl, Sort::Context, Sort::Kv, Sort::Cached, Sort::Preempted];

    fn next(self) -> Sort {
        let at = Sort::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Sort::ALL[(at + 1) % Sort::ALL.len()]
    }

    fn said(self) -> &'static str {
        match self {
            Sort::Arrival => "users in the order in which they came",
            Sort::Speed => "users by speed, the fastest first",
            Sort::Ttft => "users by TTFT, the longest first",
            Sort::Queue => "users by time in the queue, the longest first",
            Sort::Itl => "users by ITL, the longest first",
            Sort::Context => "users by context, the longest first",
            Sort::Kv => "users by KV memory, the largest first",
            Sort::Cached => "users by cached share, the largest first",
            Sort::Preempted => "users by preemptions, the most first",
        }
    }
}

/// How far back the charts go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Span {
    #[default]
    Minute,
    TenMinutes,
    Hour,
    Day,
}

impl Span {
    fn next(self) -> Span {
        match self {
            Span::Minute => Span::TenMinutes,
            Span::TenMinutes => Span::Hour,
            Span::Hour => Span::Day,
            Span::Day => Span::Minute,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Span::Minute => "60 s",
            Span::TenMinutes => "10 min",
            Span::Hour => "1 h",
            Span::Day => "24 h",
        }
    }
}

/// A walk through the steps that were.
#[derive(Clone, Debug)]
pub struct Look {
    /// The steps as they were when the walk began, or when its end was last asked for: they hold still.
    pub held: Arc<Snapshot>,
    /// The step under the cursor, by its place in the held timeline.
    pub place: usize,
    zoom: usize,
    /// The first column shown, counted from the oldest step kept; columns that there is room for.
    pub left: usize,
    columns: usize,
    /// Lines of the words about the step that were scrolled away.
    pub scroll: usize,
    /// A recording goes on by a step, to be seen here.
    follows: bool,
}

impl Look {
    fn new(held: Arc<Snapshot>) -> Look {
        let place = held.timeline.len().saturating_sub(1);
        Look { held, place, zoom: 0, left: 0, columns: 1, scroll: 0, follows: false }.settled()
    }

    /// Steps of one column.
    pub fn per(&self) -> usize {
        ZOOMS[self.zoom.min(ZOOMS.len() - 1)]
    }

    pub fn record(&self) -> Option<&Arc<StepRecord>> {
        self.held.timeline.get(self.place)
    }

    /// The column of the cursor, from the left edge.
    pub fn column(&self) -> usize {
        (self.place / self.per()).saturating_sub(self.left)
    }

    /// There is room for so many columns now.
    pub fn fit(&mut self, columns: usize) {
        if self.columns != columns.max(1) {
            self.columns = columns.max(1);
            self.settle();
        }
    }

    fn settled(mut self) -> Look {
        self.settle();
        self
    }

    /// The cursor is in view, and no column is empty while there are steps for it; the view moves as little as that needs.
    fn settle(&mut self) {
        let last = self.held.timeline.len().saturating_sub(1);
        self.place = self.place.min(last);
        let at = self.place / self.per();
        self.left = self.left.min((last / self.per() + 1).saturating_sub(self.columns));
        self.left = self.left.clamp((at + 1).saturating_sub(self.columns), at);
    }

    fn go(&mut self, place: usize) {
        self.place = place;
        self.scroll = 0;
        self.settle();
    }

    /// The nearest step before or after the cursor in which something was decided.
    fn event(&self, on: bool) -> Option<usize> {
        let timeline = &self.held.timeline;
        let telling = |place: &usize| timeline.get(*place).is_some_and(|record| is_event(record));
        if on { (self.place + 1..timeline.len()).find(telling) } else { (0..self.place).rev().find(telling) }
    }

    /// Another zoom; the cursor keeps its step and, as far as it can, its place on the screen.
    fn zoom(&mut self, zoom: usize) {
        let column = self.column();
        self.zoom = zoom.min(ZOOMS.len() - 1);
        self.left = (self.place / self.per()).saturating_sub(column);
        self.settle();
    }

    /// How long before `now` the step under the cursor ended: steps, and engine time.
    pub fn back(&self, now: &Snapshot) -> (u64, Duration) {
        let (Some(record), Some(newest)) = (self.record(), now.timeline.back()) else { return (0, Duration::ZERO) };
        (newest.step.saturating_sub(record.step), newest.at.saturating_sub(record.at))
    }
}

/// Whether something was decided in this step: somebody came, went or was sent away, or a limit was changed.
pub fn is_event(record: &StepRecord) -> bool {
    !(record.admitted.is_empty() && record.preempted.is_empty() && record.finished.is_empty() && record.between.is_empty())
}

/// What the machine room shows, and how.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    pub look: Option<Look>,
    /// The only panel on screen.
    pub alone: Option<Panel>,
    /// Lines of that panel that were scrolled away; for the events counted from the newest.
    pub scroll: usize,
    /// What the panels show while the engine runs on.
    pub frozen: Option<Arc<Snapshot>>,
    pub sort: Sort,
    pub span: Span,
    /// How fast this machine's memory can be read.
    pub reading: Reading,
}

impl Machine {
    /// It has the whole screen, and the keys.
    pub fn is_open(&self) -> bool {
        self.look.is_some() || self.alone.is_some()
    }
}

/// Leaves what has the whole screen for an action that would not be seen there.
pub fn make_room(state: &mut State, action: Action) {
    let stays = action.works_anywhere()
        || matches!(
            action,
            Action::Glance(_)
                | Action::Stroll(_)
                | Action::Replay(_)
                | Action::View
                | Action::Log
                | Action::Help
                | Action::Palette
                | Action::Redraw
                | Action::Suspend
                | Action::Quit
        );
    if !stays {
        (state.machine.look, state.machine.alone, state.machine.scroll) = (None, None, 0);
    }
}

/// What an action of the machine room does; None: it is no such action, or the room does it.
pub fn act(state: &mut State, action: Action) -> Option<Vec<Effect>> {
    match action {
        Action::Glance(Glance::Measure) => Some(reading::ask(state)),
        Action::Glance(glance) => {
            at_a_glance(state, glance);
            Some(Vec::new())
        }
        Action::Stroll(stroll) => Some(match state.machine.look {
            Some(_) => walk(state, stroll),
            None => {
                let most = screen::most_scroll(state);
                scroll(&mut state.machine, stroll, most);
                Vec::new()
            }
        }),
        Action::View => {
            // From what has the whole screen back to the rooms, and on to the next of them.
            show(state, state.rooms.next(), true);
            Some(Vec::new())
        }
        Action::Show(preset) => {
            let rooms = match preset {
                Preset::Watch => Rooms::Both,
                Preset::Teach => Rooms::Machine,
                Preset::Chat => Rooms::Chats,
            };
            show(state, rooms, false);
            Some(Vec::new())
        }
        _ => None,
    }
}

/// Puts a view on the screen and says which; `hint`: and by which key it is had at once.
fn show(state: &mut State, rooms: Rooms, hint: bool) {
    (state.machine.look, state.machine.alone, state.machine.scroll) = (None, None, 0);
    state.rooms = rooms;
    let (preset, said) = match rooms {
        Rooms::Both => (Preset::Watch, "watch: conversations, and the machine beside them"),
        Rooms::Machine => (Preset::Teach, "teach: the machine alone, and the newest step in words"),
        Rooms::Chats => (Preset::Chat, "chat: the conversations alone"),
    };
    let theme = state.options.theme;
    let (said, key) = (theme.tr(said), key_in(state.keys(), Action::Show(preset)));
    match hint && !key.is_empty() {
        true => state.say(say!(theme, "{} ({} goes there at once)", said, key)),
        false => state.say(said),
    }
}

fn at_a_glance(state: &mut State, glance: Glance) {
    let theme = state.options.theme;
    match glance {
        Glance::LookBack if state.machine.look.is_some() => state.machine.look = None,
        Glance::LookBack if state.snapshot.timeline.is_empty() && state.replay.is_none() => {
            state.say(theme.tr("there is no step yet to look back at"));
        }
        Glance::LookBack => {
            let held = state.machine.frozen.clone().unwrap_or_else(|| state.snapshot.clone());
            state.machine.look = Some(Look::new(held));
        }
        Glance::NextPanel => {
            state.machine.look = None;
            state.machine.scroll = 0;
            state.machine.alone = match state.machine.alone {
                None => Some(Panel::ALL[0]),
                Some(panel) => panel.next(),
            };
        }
        Glance::Freeze => {
            state.machine.frozen = match state.machine.frozen {
                None => Some(state.snapshot.clone()),
                Some(_) => None,
            };
            let said = frozen_words(state);
            state.say(said);
        }
        Glance::Sort => {
            state.machine.sort = state.machine.sort.next();
            state.say(theme.tr(state.machine.sort.said()));
        }
        Glance::Span => state.machine.span = state.machine.span.next(),
        // It has an effect.
        Glance::Measure => {}
    }
}

/// What holding still means now: what goes on beside it is not always the engine.
fn frozen_words(state: &State) -> String {
    let theme = state.options.theme;
    let Some(held) = &state.machine.frozen else { return theme.tr("the panels follow the engine again").to_owned() };
    let key = |action| key_in(state.keys(), action);
    let (step, again) = (format::count(held.step), key(Action::Glance(Glance::Freeze)));
    match state.snapshot.state {
        _ if state.replay.is_some() => {
            say!(theme, "the panels hold still at step {}; the recording can go on, and {} shows where it is then", step, again)
        }
        RunState::Paused => say!(
            theme,
            "the panels hold still at step {}, and the engine is paused: {} lets it run, {} lets the panels follow again",
            step,
            key(Action::Pause),
            again
        ),
        RunState::Stopped => say!(theme, "the panels hold still at step {}; the engine has stopped", step),
        RunState::Running | RunState::Idle => {
            say!(theme, "the panels hold still at step {}; the engine runs on, and {} lets them follow again", step, again)
        }
    }
}

/// The engine is paused or let run by a key while the panels hold still: nothing on them will show it, so it is said.
pub fn say_pause(state: &mut State, paused: bool) {
    let Some(held) = &state.machine.frozen else { return };
    let theme = state.options.theme;
    let (step, again) = (format::count(held.step), key_in(state.keys(), Action::Glance(Glance::Freeze)));
    state.say(match paused {
        true => say!(theme, "the engine is paused; the panels still show step {} ({} lets them follow)", step, again),
        false => say!(theme, "the engine runs; the panels still show step {} ({} lets them follow)", step, again),
    });
}

fn walk(state: &mut State, stroll: Stroll) -> Vec<Effect> {
    let live = state.snapshot.clone();
    let most = screen::most_scroll(state);
    let at_end_of_reel = next_frame(state);
    let Some(look) = &mut state.machine.look else { return Vec::new() };
    let page = look.columns.saturating_sub(1).max(1) * look.per();
    let last = look.held.timeline.len().saturating_sub(1);
    match stroll {
        Stroll::Back => look.go(look.place.saturating_sub(1)),
        Stroll::On if look.place < last => look.go(look.place + 1),
        // A recording has more, and goes on by a step for whoever looks at its last one.
        Stroll::On if at_end_of_reel.is_some() => {
            look.follows = true;
            return at_end_of_reel.map(Effect::Seek).into_iter().collect();
        }
        // At the end of what is held: on to what has come since.
        Stroll::On | Stroll::Last => catch_up(look, live, stroll == Stroll::Last),
        Stroll::PageBack => look.go(look.place.saturating_sub(page)),
        Stroll::PageOn => look.go(look.place + page),
        Stroll::First => look.go(0),
        Stroll::EventBack | Stroll::EventOn => match look.event(stroll == Stroll::EventOn) {
            Some(place) => look.go(place),
            None => {
                let said = if stroll == Stroll::EventOn { "no event after this step" } else { "no event before this step" };
                state.say(state.options.theme.tr(said));
            }
        },
        Stroll::Closer => look.zoom(look.zoom.saturating_sub(1)),
        Stroll::Wider => look.zoom(look.zoom + 1),
        Stroll::Up => look.scroll = look.scroll.min(most).saturating_sub(1),
        Stroll::Down => look.scroll = look.scroll.saturating_add(1).min(most),
        Stroll::Seek => return seek(state),
        Stroll::Leave => state.machine.look = None,
    }
    Vec::new()
}

/// The frame after the one that a recording is at, where that is all that is held.
fn next_frame(state: &State) -> Option<usize> {
    let (reel, look) = (state.replay.as_ref()?, state.machine.look.as_ref()?);
    let newest = |snapshot: &Snapshot| snapshot.timeline.back().map(|record| record.step);
    (reel.frame < reel.steps && newest(&look.held) == newest(&state.snapshot)).then_some(reel.frame + 1)
}

/// A recording is at another frame: who asked for it from its steps sees it among them.
pub fn sought(state: &mut State) {
    let live = state.snapshot.clone();
    if let Some(look) = state.machine.look.as_mut().filter(|look| look.follows) {
        look.follows = false;
        catch_up(look, live, true);
    }
}

/// The steps that there are now; the cursor stays at its step, or goes one on, or to the newest.
fn catch_up(look: &mut Look, live: Arc<Snapshot>, to_newest: bool) {
    let next = look.record().map_or(0, |record| record.step.saturating_add(1));
    look.held = live;
    let last = look.held.timeline.len().saturating_sub(1);
    let place = if to_newest { last } else { look.held.timeline.place_of(next).unwrap_or(0) };
    look.go(place);
}

/// In a recording: there. Elsewhere the words about the step are on screen already.
fn seek(state: &mut State) -> Vec<Effect> {
    let step = state.machine.look.as_ref().and_then(|look| Some(look.record()?.step));
    match (step, &mut state.replay) {
        (Some(step), Some(reel)) => {
            reel.playing = false;
            state.machine.look = None;
            vec![Effect::Seek(usize::try_from(step).unwrap_or(usize::MAX).min(reel.steps))]
        }
        _ => Vec::new(),
    }
}

/// Moves inside the panel that is alone, by `most` lines at most.
fn scroll(machine: &mut Machine, stroll: Stroll, most: usize) {
    // Events are read from the newest back: up is towards older ones.
    let older = machine.alone == Some(Panel::Notes);
    let (up, down): (isize, isize) = if older { (1, -1) } else { (-1, 1) };
    let by = match stroll {
        Stroll::Up => up,
        Stroll::Down => down,
        Stroll::PageBack => 10 * up,
        Stroll::PageOn => 10 * down,
        Stroll::First if older => isize::MAX,
        Stroll::Last if !older => isize::MAX,
        Stroll::First | Stroll::Last => isize::MIN,
        Stroll::Leave => {
            machine.alone = None;
            isize::MIN
        }
        _ => 0,
    };
    machine.scroll = machine.scroll.min(most).saturating_add_signed(by).min(most);
}
