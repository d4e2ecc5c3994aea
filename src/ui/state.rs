//! What the screen knows: panes, what is open, the engine's newest snapshot. Plain data.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ratatui::layout::Rect;

use super::bots::{Bots, Load};
use super::editor::Editor;
use super::keeping::Unkept;
use super::keymap;
use super::machine::Machine;
use super::params::Form;
use super::people::{People, Person};
use super::pick::Pick;
use super::replay::Reel;
use super::rich::code::Highlighter;
use super::save::Save;
use super::search::Search;
use super::settings::{Desk, Settings};
use super::talk::{Asked, Kept, Parted, Rewriting};
use super::theme::Theme;
use super::transcript::Transcript;
use super::words::say;
use crate::batch::{RequestId, UserId};
use crate::conversation::Conversation;
use crate::engine::api::{Pace, Snapshot, Status, TakenBy, UserView};
use crate::presets::Preset;
use crate::sampling::SamplingParams;

/// Chat panes at most.
pub const MAX_PANES: usize = 16;
/// Closed panes whose people are still known by name.
const MAX_GONE: usize = 64;
/// How long a notice stays.
const NOTICE: Duration = Duration::from_secs(8);

/// What is typed into now.
#[derive(Clone, Debug)]
pub enum Mode {
    /// The focused pane's draft.
    Chat,
    Help {
        scroll: usize,
    },
    Palette {
        filter: Editor,
        chosen: usize,
    },
    Rename(Editor),
    /// A step's number, in a replay.
    GoTo(Editor),
    Params(Form),
    Settings(Desk),
    /// The newest lines of the log, and how many are below the view.
    Log {
        lines: Vec<String>,
        below: usize,
    },
    Pick(Pick),
    Search(Search),
    Export(Save),
    /// Earlier conversations.
    Shelf(super::update::history::Shelf),
    ConfirmClose,
    ConfirmClear,
    ConfirmQuit,
}

/// Which rooms are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rooms {
    Both,
    Chats,
    Machine,
}

impl Rooms {
    /// The one that the key shows next.
    pub fn next(self) -> Rooms {
        match self {
            Rooms::Both => Rooms::Machine,
            Rooms::Machine => Rooms::Chats,
            Rooms::Chats => Rooms::Both,
        }
    }
}

/// One person's pane.
#[derive(Clone, Debug)]
pub struct Pane {
    pub person: Person,
    pub editor: Editor,
    /// All that was said, branches included.
    pub conversation: Conversation,
    /// The path through it that is read now.
    pub transcript: Transcript,
    /// An answer is being waited for or streamed.
    pub live: bool,
    /// Which message of the conversation that is, and what it was asked by.
    pub asked: Option<Asked>,
    /// An own message is being written anew in the editor.
    pub rewriting: Option<Rewriting>,
    /// Preempted, and not yet back.
    pub preempted_by: Option<TakenBy>,
    /// Why the last prompt was refused; it is in the editor again.
    pub refused: Option<String>,
    pub sampling: SamplingParams,
    /// None: a new seed for each answer.
    pub seed: Option<u64>,
    pub system: Option<String>,
    /// More comes first, under the policy of that name.
    pub priority: i32,
}

impl Pane {
    /// Whether closing it would lose something.
    pub fn holds_text(&self) -> bool {
        self.live || !self.conversation.is_empty() || !self.unsent().is_empty()
    }
}

/// Where the better model stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Better {
    /// It is the one in use, or a model of the user's own is.
    InUse,
    Absent,
    Fetching(Download),
    Failed(String),
    /// Fetched, not in use.
    Ready,
    /// Switches as soon as the answers have ended.
    WaitingToSwitch,
    Loading,
}

/// A fetch in progress, as shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Download {
    pub source: String,
    pub done: u64,
    pub total: Option<u64>,
    /// Bytes a second since this source began; None at first.
    pub rate: Option<f64>,
    pub began: Duration,
}

/// A line that goes away by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    pub text: String,
    pub bad: bool,
    pub until: Duration,
    /// It speaks of answers that run: the end of one takes it away.
    pub of_answers: bool,
}

/// What a screen is opened with.
#[derive(Clone, Debug)]
pub struct Options {
    pub panes: usize,
    pub names: Vec<String>,
    pub fps: u32,
    pub theme: Theme,
    /// Nothing can be sent or changed.
    pub readonly: bool,
    pub mouse: bool,
    pub bots: usize,
    pub bots_pause: Option<Duration>,
    pub bots_load: Load,
    pub system: Option<String>,
    pub sampling: SamplingParams,
    pub seed: Option<u64>,
    /// Named values of the form, beside those that are always there.
    pub presets: Vec<Preset>,
    /// The better model: its name and what a person calls it.
    pub better_name: String,
    pub better_title: String,
    pub better_bytes: u64,
    /// The name of the small model that is always there.
    pub small_name: String,
    pub better: Better,
    /// The better model was asked for: it is fetched at once, and taken when it is there.
    pub wanted: bool,
    /// Said at the start.
    pub notice: Option<String>,
}

/// Everything the screen is drawn from.
#[derive(Clone, Debug)]
pub struct State {
    pub options: Options,
    pub panes: Vec<Pane>,
    pub focus: usize,
    /// People whose panes were closed: steps and events of theirs are still shown. The newest are last.
    gone: Vec<Person>,
    pub mode: Mode,
    pub rooms: Rooms,
    pub machine: Machine,
    pub zoom: bool,
    pub broadcast: bool,
    pub better: Better,
    /// Switch as soon as the better model is there.
    pub wanted: bool,
    /// The pace chosen by key, which a new engine takes over.
    pub pace: Option<Pace>,
    pub notice: Option<Notice>,
    pub snapshot: Arc<Snapshot>,
    /// Why the recording ended before the engine, in words.
    pub recording_ended: Option<String>,
    pub now: Duration,
    pub settings: Settings,
    /// The whole screen, as it was last measured.
    pub area: Rect,
    /// The mouse is ours, not the terminal's.
    pub mouse: bool,
    pub bots: Bots,
    /// Each answer is computed again, alone, at its end.
    pub witness: bool,
    /// The newest verdict that was said.
    pub verdict: Option<RequestId>,
    /// What is said here is kept, and can be opened again.
    pub kept: bool,
    /// Why not all of it is, and since when.
    pub unkept: Option<Unkept>,
    /// Earlier conversations can be looked at.
    pub readable: bool,
    /// The store's numbers of conversations that came from it.
    pub(super) kept_as: HashMap<u64, i64>,
    /// Esc was the newest key where something was changed: once more discards it.
    pub leaving: bool,
    /// This is a recording.
    pub replay: Option<Reel>,
    /// Grammars of code, once they are loaded; and whether somebody was asked to load them.
    pub highlighter: Option<Arc<Highlighter>>,
    pub colours_asked: bool,
    /// What closed panes have changed last.
    pub(super) left: Vec<Kept>,
    /// Drafts of panes that were closed since the last time.
    pub(super) parted: Vec<Parted>,
    next_conversation: u64,
    next_user: u32,
    next_seed: u64,
}

/// Names for panes that are given none.
const NAMES: [&str; MAX_PANES] =
    ["ana", "bình", "chi", "dũng", "eva", "felix", "giang", "hoa", "ivo", "jun", "kim", "linh", "mai", "nam", "oto", "phúc"];

impl State {
    /// `seed` begins the seeds of answers that ask for none.
    pub fn new(options: Options, snapshot: Arc<Snapshot>, seed: u64) -> State {
        let mut state = State {
            better: options.better.clone(),
            wanted: options.wanted,
            pace: None,
            panes: Vec::new(),
            focus: 0,
            gone: Vec::new(),
            mode: Mode::Chat,
            rooms: Rooms::Both,
            machine: Machine::default(),
            zoom: false,
            broadcast: false,
            notice: None,
            snapshot,
            recording_ended: None,
            now: Duration::ZERO,
            settings: Settings::default(),
            area: Rect::default(),
            mouse: options.mouse,
            bots: Bots::new(seed),
            witness: false,
            verdict: None,
            kept: false,
            unkept: None,
            readable: false,
            kept_as: HashMap::new(),
            leaving: false,
            replay: None,
            highlighter: None,
            colours_asked: false,
            left: Vec::new(),
            parted: Vec::new(),
            next_conversation: 1,
            next_user: 1,
            next_seed: seed,
            options,
        };
        if let Some(pause) = state.options.bots_pause {
            state.bots.set_pause(pause);
        }
        state.bots.set_load(state.options.bots_load);
        for _ in 0..state.options.panes.clamp(1, MAX_PANES) {
            state.add_pane();
        }
        state.focus = 0;
        if let Some(notice) = state.options.notice.clone() {
            state.say(notice);
        }
        state
    }

    /// One more pane at the end, focused. False when there are as many as there may be.
    pub fn add_pane(&mut self) -> bool {
        if self.panes.len() >= MAX_PANES {
            return false;
        }
        let taken: Vec<String> = self.panes.iter().map(|pane| pane.person.name.clone()).collect();
        let conversation = self.new_conversation();
        // As they are shown: what is cleaned may be another's name.
        let mut names = self.options.names.iter().map(String::as_str).chain(NAMES).map(super::text::one_line);
        let name = names.find(|name| !name.trim().is_empty() && !taken.contains(name));
        let name = name.unwrap_or_else(|| say!(self.options.theme, "user {}", self.next_user));
        let hue = (0..MAX_PANES).find(|hue| self.panes.iter().all(|pane| pane.person.hue != *hue)).unwrap_or(0);
        let letter = self.free_letter(&name, None);
        let transcript = self.panes.first().map(|pane| pane.transcript.cleared()).unwrap_or_default();
        self.panes.push(Pane {
            person: Person { user: UserId(self.next_user), name, letter, hue },
            editor: Editor::default(),
            conversation,
            transcript,
            live: false,
            asked: None,
            rewriting: None,
            preempted_by: None,
            refused: None,
            sampling: self.options.sampling.clone(),
            seed: self.options.seed,
            system: self.options.system.clone(),
            priority: 0,
        });
        self.next_user += 1;
        self.focus = self.panes.len() - 1;
        true
    }

    /// The name's first letter that no other pane has, else any free one.
    pub fn free_letter(&self, name: &str, except: Option<usize>) -> char {
        let free = |letter: &char| {
            let mut others = self.panes.iter().enumerate().filter(|(at, _)| Some(*at) != except);
            others.all(|(_, pane)| pane.person.letter != *letter)
        };
        let single = |c: &char| c.is_alphanumeric() && unicode_width::UnicodeWidthChar::width(*c) == Some(1);
        name.chars().filter(single).chain('a'..='z').find(free).unwrap_or('?')
    }

    pub fn focused(&self) -> &Pane {
        &self.panes[self.focus]
    }

    pub fn focused_mut(&mut self) -> &mut Pane {
        &mut self.panes[self.focus]
    }

    pub fn people(&self) -> People {
        let here = self.panes.iter().map(|pane| &pane.person).chain(self.bots.people());
        People::new(here.chain(&self.gone).cloned().collect(), self.options.theme.lang())
    }

    /// Keeps the name of someone whose pane is closed, as long as the panels can still speak of them.
    pub fn remember(&mut self, person: Person) {
        self.gone.push(person);
        if self.gone.len() > MAX_GONE {
            self.gone.remove(0);
        }
    }

    /// Somebody came back.
    pub fn forget(&mut self, user: UserId) {
        self.gone.retain(|person| person.user != user);
    }

    pub fn pane_of(&mut self, user: UserId) -> Option<&mut Pane> {
        self.panes.iter_mut().find(|pane| pane.person.user == user)
    }

    /// The engine's line on a pane's newest request.
    pub fn view_of(&self, pane: &Pane) -> Option<&UserView> {
        self.snapshot.user(pane.person.user)
    }

    pub fn live(&self) -> usize {
        self.panes.iter().filter(|pane| pane.live).count()
    }

    pub fn say(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), bad: false, until: self.now + NOTICE, of_answers: false });
    }

    /// Says that something cannot be done while answers run.
    pub fn say_busy(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), bad: false, until: self.now + NOTICE, of_answers: true });
    }

    pub fn complain(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), bad: true, until: self.now + NOTICE * 2, of_answers: false });
    }

    /// The keys that are in force.
    pub fn keys(&self) -> &'static [keymap::Binding] {
        let film = self.replay.is_some();
        match &self.mode {
            Mode::Pick(_) => keymap::PICK,
            _ if self.machine.look.is_some() => keymap::over(keymap::View::Look, film),
            _ if self.machine.alone.is_some() => keymap::over(keymap::View::Alone, film),
            _ if self.replay.is_some() => keymap::REPLAY,
            _ => keymap::room(),
        }
    }

    /// What the palette offers.
    pub fn offered(&self) -> &'static [keymap::Binding] {
        let film = self.replay.is_some();
        match (&self.machine.look, self.machine.alone) {
            (Some(_), _) => keymap::offered_over(keymap::View::Look, film),
            (None, Some(_)) => keymap::offered_over(keymap::View::Alone, film),
            (None, None) => self.keys(),
        }
    }

    /// What the panels show: the newest snapshot, or the one that they hold.
    pub fn shown(&self) -> &Snapshot {
        self.machine.frozen.as_ref().unwrap_or(&self.snapshot)
    }

    pub fn on_small_model(&self) -> bool {
        self.snapshot.model.name == self.options.small_name
    }

    /// An empty conversation, told apart from all others of this session.
    pub fn new_conversation(&mut self) -> Conversation {
        self.next_conversation += 1;
        Conversation::kept(self.next_conversation - 1)
    }

    /// The seed of a pane's next answer.
    pub fn seed_for(&mut self, pane: usize) -> u64 {
        self.panes[pane].seed.unwrap_or_else(|| {
            // Weyl sequence: every answer another seed, without a clock or IO.
            self.next_seed = self.next_seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
            self.next_seed
        })
    }

    pub fn paced(&self) -> Option<f64> {
        match self.snapshot.pace {
            Pace::Full => None,
            Pace::StepsPerSecond(steps) => Some(steps),
        }
    }
}

/// Whether the engine has this request in its hands now.
pub fn is_live(view: &UserView) -> bool {
    !matches!(view.status, Status::Finished(_))
}
