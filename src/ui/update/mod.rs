//! (State, message) to effects. No IO, no clock: the time comes with the messages, effects are carried out by
//! `run.rs`.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEvent};

use super::editor::{DRAFT_MAX, Editor};
use super::keymap::{self, Action, Edit};
use super::machine;
use super::params::{self, Form};
use super::reading;
use super::replay;
use super::rich::code::Highlighter;
use super::save::Saved;
use super::settings::Desk;
use super::state::{Mode, State};
use super::words::say;
use super::{bots, mouse};
use crate::batch::UserId;
use crate::engine::api::{Event, Limits, NoteKind, Pace, RunState, Snapshot, Verdict};
use crate::hub::Progress;
use crate::machine::MemorySpeed;
use crate::sampling::SamplingParams;
use crate::store::{Keeping, StoreError};
use crate::text::Message;
use chat::{clear, close_pane, send, send_all};
use model::{model, on_fetched, on_progress, on_switched, switch_back, switch_if_waiting};
use modes::{help_key, log_key, palette_key, rename_key, settings_key};

pub(super) use modes::{asks_first, type_into};

pub use chat::ask;
pub(super) use chat::on_event;

mod branches;
mod chat;
pub mod files;
pub mod history;
mod model;
mod modes;
mod pick;
pub mod slash;

/// What happened.
#[derive(Clone, Debug)]
pub enum Msg {
    Key(KeyEvent),
    Paste(String),
    Mouse(MouseEvent),
    /// The newest lines of the log, oldest first.
    Log(Vec<String>),
    Snapshot(Arc<Snapshot>),
    Engine(UserId, Event),
    /// The channel of a request ended without an end.
    Lost(UserId),
    Fetch(Progress),
    Fetched(Result<(), String>),
    /// A model was loaded and its engine took over, or not.
    Switched(Result<String, String>),
    /// A file was written, or not.
    Saved(Saved),
    /// A draft came back from another editor, or why not.
    Edited(UserId, Result<String, String>),
    /// The grammars of code are loaded.
    Colours(Arc<Highlighter>),
    /// Earlier conversations, as the answer to a search for `text`.
    Chats {
        text: String,
        found: Result<Vec<history::ChatRow>, Arc<StoreError>>,
    },
    /// One of them, for this person's pane.
    ChatOpened {
        user: UserId,
        opened: Result<Box<history::Opened>, Arc<StoreError>>,
    },
    /// Keeping goes wrong, or well again.
    Keeping(Keeping),
    /// This machine's memory was measured, or why not.
    Measured(Result<MemorySpeed, String>),
    /// The time, when something on screen depends on it.
    Tick,
}

/// What is to be done about it.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Submit {
        user: UserId,
        messages: Vec<Message>,
        sampling: SamplingParams,
        /// It begins like the newest request of this user: what they share is shared in KV memory.
        fork_of: Option<UserId>,
    },
    Cancel(UserId),
    /// Cancel, and hear no more of it.
    Abandon(UserId),
    Pause(bool),
    Step(u32),
    SetPace(Pace),
    SetLimits(Limits),
    /// In blocks.
    SetKvBlocks(usize),
    SetTargetItl(Option<Duration>),
    /// The newest lines of the log are wanted.
    Log,
    /// Take the mouse, or leave it to the terminal.
    Mouse(bool),
    Fetch,
    CancelFetch,
    Switch(String),
    Redraw,
    Suspend,
    Quit,
    /// To this frame of a recording.
    Seek(usize),
    /// To the terminal's clipboard.
    Copy(String),
    /// To a file; one that is there is replaced only when that was asked for.
    Export {
        path: String,
        text: String,
        replace: bool,
    },
    /// To the person's own editor, and back.
    OtherEditor {
        user: UserId,
        text: String,
    },
    /// The grammars of code are wanted.
    LoadColours,
    /// Look for earlier conversations: the newest, or those that have this text.
    FindChats(String),
    /// Bring one of them for a person's pane.
    OpenChat {
        user: UserId,
        id: i64,
    },
    /// It is on the screen now, under this key.
    Opened {
        key: u64,
        id: i64,
    },
    /// A pane has another name.
    Name {
        user: UserId,
        name: String,
    },
    /// Measure this machine's memory with so many threads, between steps.
    Measure {
        threads: usize,
    },
}

/// Steps a second, from fast to slow; None is full speed.
const LADDER: [Option<f64>; 9] =
    [None, Some(60.0), Some(30.0), Some(15.0), Some(8.0), Some(4.0), Some(2.0), Some(1.0), Some(0.5)];

/// Takes a message in. `now` is the time since the screen was opened.
pub fn update(state: &mut State, msg: Msg, now: Duration) -> Vec<Effect> {
    state.now = now;
    if state.notice.as_ref().is_some_and(|notice| notice.until <= now) {
        state.notice = None;
    }
    let mut effects = take(state, msg);
    if !state.colours_asked && state.panes.iter().any(|pane| pane.transcript.wants_colours()) {
        state.colours_asked = true;
        effects.push(Effect::LoadColours);
    }
    effects
}

fn take(state: &mut State, msg: Msg) -> Vec<Effect> {
    match msg {
        Msg::Key(key) if key.kind != KeyEventKind::Release => on_key(state, key),
        Msg::Key(_) => Vec::new(),
        Msg::Tick => bots::tick(state),
        Msg::Measured(result) => {
            reading::measured(state, result);
            Vec::new()
        }
        Msg::Log(lines) => {
            state.mode = Mode::Log { lines, below: 0 };
            Vec::new()
        }
        Msg::Mouse(event) => {
            mouse::on_mouse(state, event);
            Vec::new()
        }
        Msg::Paste(text) => match &mut state.mode {
            Mode::Shelf(shelf) => history::paste(shelf, &text),
            _ => {
                paste(state, &text);
                Vec::new()
            }
        },
        Msg::Snapshot(snapshot) => {
            state.settings.seen(&snapshot);
            state.snapshot = snapshot;
            say_verdict(state);
            Vec::new()
        }
        Msg::Engine(user, event) => {
            bots::on_event(state, user, &event);
            on_event(state, user, event);
            switch_if_waiting(state)
        }
        Msg::Lost(user) => {
            bots::on_lost(state, Some(user));
            let fault = state.snapshot.fault.clone().unwrap_or_else(|| state.options.theme.tr("the engine has stopped").into());
            if let Some(pane) = state.pane_of(user) {
                pane.conclude(Some(fault), None);
            }
            switch_if_waiting(state)
        }
        Msg::Saved(saved) => {
            files::on_saved(state, saved);
            Vec::new()
        }
        Msg::Edited(user, result) => {
            files::on_edited(state, user, result);
            Vec::new()
        }
        Msg::Colours(highlighter) => {
            state.panes.iter_mut().for_each(|pane| pane.transcript.colour(&highlighter));
            state.highlighter = Some(highlighter);
            Vec::new()
        }
        Msg::Fetch(progress) => {
            on_progress(state, progress);
            Vec::new()
        }
        Msg::Fetched(result) => on_fetched(state, result),
        Msg::Chats { text, found } => {
            history::on_found(state, &text, found);
            Vec::new()
        }
        Msg::ChatOpened { user, opened } => history::on_opened(state, user, opened),
        Msg::Keeping(keeping) => {
            history::on_keeping(state, keeping);
            Vec::new()
        }
        Msg::Switched(result) => {
            let effects = match &result {
                Ok(_) => {
                    // What the panels held was of the engine before.
                    (state.machine.frozen, state.machine.look) = (None, None);
                    reading::on_new_engine(state);
                    bots::on_lost(state, None);
                    state.settings.for_new_engine(&state.snapshot.limits)
                }
                Err(_) => Vec::new(),
            };
            on_switched(state, result);
            effects
        }
    }
}

fn on_key(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    // In a replay letters are keys, unless something is open that is typed into.
    let typing = matches!(state.mode, Mode::Palette { .. } | Mode::GoTo(_) | Mode::Search(_) | Mode::Shelf(_));
    let mut action = keymap::lookup(if typing { keymap::room() } else { state.keys() }, &key);
    if matches!(state.mode, Mode::Pick(_)) {
        action =
            keymap::lookup(keymap::PICK, &key).or(action.filter(|action| matches!(action, Action::Suspend | Action::Redraw)));
    }
    if action == Some(Action::Suspend) {
        return vec![Effect::Suspend];
    }
    if action == Some(Action::Redraw) {
        return vec![Effect::Redraw];
    }
    state.leaving &= key.code == KeyCode::Esc || action == Some(Action::Cancel);
    match std::mem::replace(&mut state.mode, Mode::Chat) {
        Mode::Chat => on_chat_key(state, key, action),
        Mode::Help { scroll } => {
            state.mode = help_key(state, key, scroll);
            Vec::new()
        }
        Mode::Palette { filter, chosen } => palette_key(state, key, action, filter, chosen),
        Mode::Rename(editor) => rename_key(state, key, action, editor),
        Mode::GoTo(mut editor) => match (key.code, action) {
            (KeyCode::Esc, _) | (_, Some(Action::Cancel)) => Vec::new(),
            (KeyCode::Enter, _) => replay::go_to(state, editor.text()),
            _ => {
                type_into(&mut editor, key, action);
                state.mode = Mode::GoTo(editor);
                Vec::new()
            }
        },
        Mode::Params(form) => {
            params::on_key(state, key, action, form);
            Vec::new()
        }
        Mode::Settings(desk) => settings_key(state, key, action, desk),
        Mode::Log { lines, below } => {
            log_key(state, key, lines, below);
            Vec::new()
        }
        Mode::Pick(chosen) => pick::on_key(state, action, chosen),
        Mode::Search(search) => files::search_key(state, key, action, search),
        Mode::Export(save) => files::export_key(state, key, action, save),
        Mode::Shelf(shelf) => history::on_key(state, key, action, shelf),
        Mode::ConfirmClose => {
            let yes = matches!(key.code, KeyCode::Char('y' | 'Y') | KeyCode::Enter) || action == Some(Action::ClosePane);
            if yes { close_pane(state) } else { Vec::new() }
        }
        Mode::ConfirmClear => {
            let yes = matches!(key.code, KeyCode::Char('y' | 'Y') | KeyCode::Enter) || action == Some(Action::ClearChat);
            if yes { clear(state) } else { Vec::new() }
        }
        Mode::ConfirmQuit => {
            let yes = matches!(key.code, KeyCode::Char('y' | 'Y') | KeyCode::Enter) || action == Some(Action::Cancel);
            if yes { vec![Effect::Quit] } else { Vec::new() }
        }
    }
}

fn on_chat_key(state: &mut State, key: KeyEvent, action: Option<Action>) -> Vec<Effect> {
    if state.replay.is_some() || state.machine.is_open() {
        return action.map_or_else(Vec::new, |action| act(state, action));
    }
    state.focused_mut().refused = None;
    if let Some(action) = action {
        return act(state, action);
    }
    if state.options.readonly {
        return Vec::new();
    }
    let typed = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
    if let (KeyCode::Char(c), true) = (key.code, typed) {
        insert(state, c.encode_utf8(&mut [0; 4]));
    }
    Vec::new()
}

/// Carries out an action of the key table, whether it came by key or from the palette.
pub fn act(state: &mut State, action: Action) -> Vec<Effect> {
    machine::make_room(state, action);
    if let Some(effects) = machine::act(state, action) {
        return effects;
    }
    if state.replay.is_some()
        && let Some(effects) = replay::act(state, action)
    {
        return effects;
    }
    if state.options.readonly && changes_something(action) {
        state.complain(state.options.theme.tr("this screen is read-only: nothing is sent or changed here"));
        return Vec::new();
    }
    match action {
        Action::Log => vec![Effect::Log],
        Action::Witness => {
            state.witness = !state.witness;
            let theme = state.options.theme;
            state.say(theme.tr(if state.witness {
                "witness: from the next prompt on, each answer is computed again alone and compared, bit by bit"
            } else {
                "no witness from the next prompt on"
            }));
            Vec::new()
        }
        Action::Mouse => {
            state.mouse = !state.mouse;
            let theme = state.options.theme;
            state.say(theme.tr(if state.mouse {
                "the mouse chooses panes and scrolls; Shift selects text"
            } else {
                "the mouse is the terminal's again"
            }));
            vec![Effect::Mouse(state.mouse)]
        }
        Action::Send if state.broadcast => send_all(state),
        Action::Send => send(state, state.focus),
        Action::Regenerate => branches::regenerate(state, None),
        Action::Continue => branches::go_on(state, None),
        Action::Beside => branches::beside(state, None),
        Action::CopyAnswer => files::copy(state, None),
        Action::OtherEditor => {
            let pane = state.focused();
            vec![Effect::OtherEditor { user: pane.person.user, text: pane.editor.text().to_owned() }]
        }
        Action::SendAll => send_all(state),
        Action::ClosePane if state.panes.len() > 1 && !state.focused().holds_text() => close_pane(state),
        Action::History => history::open(state),
        Action::Cancel if state.focused().live && !state.options.readonly => vec![Effect::Cancel(state.focused().person.user)],
        Action::Pause => {
            let pause = state.snapshot.state != RunState::Paused;
            machine::say_pause(state, pause);
            vec![Effect::Pause(pause)]
        }
        Action::Step => vec![Effect::Pause(true), Effect::Step(1)],
        Action::StepTen => vec![Effect::Pause(true), Effect::Step(10)],
        Action::Slower => set_pace_beside(state, true),
        Action::Faster => set_pace_beside(state, false),
        Action::MoreBots => bots::set_number(state, state.bots.wanted() + 1),
        Action::FewerBots => bots::set_number(state, state.bots.wanted().saturating_sub(1)),
        Action::FullSpeed => set_pace(state, Pace::Full),
        Action::NewPane => new_pane(state),
        Action::Model => model(state),
        Action::SwitchBack => switch_back(state),
        Action::Redraw => vec![Effect::Redraw],
        Action::Suspend => vec![Effect::Suspend],
        screen_only => {
            act_on_screen(state, screen_only);
            Vec::new()
        }
    }
}

/// The witness has come to an end with an answer.
fn say_verdict(state: &mut State) {
    let snapshot = state.snapshot.clone();
    let newest = snapshot.notes.iter().rev().find_map(|note| match &note.kind {
        NoteKind::Witnessed(witnessed) => Some((note, witnessed)),
        _ => None,
    });
    let Some((note, witnessed)) = newest.filter(|(_, witnessed)| state.verdict != Some(witnessed.request)) else { return };
    state.verdict = Some(witnessed.request);
    if !state.witness {
        return;
    }
    let (people, theme) = (state.people(), state.options.theme);
    let words = format!("{}: {}", people.name(witnessed.user), super::view::notes::words(&note.kind, &people, theme).0);
    match witnessed.verdict {
        Verdict::Same => state.say(words),
        _ => state.complain(words),
    }
}

/// What a read-only screen does not do.
fn changes_something(action: Action) -> bool {
    !matches!(
        action,
        Action::NextPane
            | Action::PrevPane
            | Action::FocusPane(_)
            | Action::Zoom
            | Action::View
            | Action::PageUp
            | Action::PageDown
            | Action::LineUp
            | Action::LineDown
            | Action::Top
            | Action::Bottom
            | Action::Help
            | Action::Palette
            | Action::Mouse
            | Action::Raw
            | Action::BranchBefore
            | Action::BranchAfter
            | Action::Log
            | Action::Search
            | Action::CopyAnswer
            | Action::Export
            | Action::Redraw
            | Action::Suspend
            | Action::Quit
            | Action::Cancel
            | Action::Back
    )
}

/// The actions that change the screen alone.
fn act_on_screen(state: &mut State, action: Action) {
    match action {
        Action::Newline => insert(state, "\n"),
        Action::Edit(edit) => {
            let columns = state.focused().transcript.columns() + super::transcript::GUTTER;
            edit_in(&mut state.focused_mut().editor, edit, columns);
        }
        Action::Rewrite => branches::rewrite(state, None),
        Action::BranchBefore => branches::switch(state, None, -1),
        Action::BranchAfter => branches::switch(state, None, 1),
        Action::PickMessage => pick::open(state),
        Action::Export => files::ask_where(state),
        Action::Search => files::search(state, ""),
        Action::Raw => {
            let transcript = &mut state.focused_mut().transcript;
            transcript.set_markdown(!transcript.markdown());
        }
        Action::Back if branches::stop_rewriting(state) => {}
        Action::NextPane if slash::typing(state) && slash::complete(state) => {}
        Action::NextPane => state.focus = (state.focus + 1) % state.panes.len(),
        Action::PrevPane => state.focus = (state.focus + state.panes.len() - 1) % state.panes.len(),
        Action::FocusPane(number) => {
            if let Some(at) = usize::from(number).checked_sub(1).filter(|at| *at < state.panes.len()) {
                state.focus = at;
            }
        }
        Action::Zoom => state.zoom = !state.zoom,
        Action::Broadcast => state.broadcast = !state.broadcast,
        Action::PageUp => scroll(state, |rows| -(rows as isize - 1).max(1)),
        Action::PageDown => scroll(state, |rows| (rows as isize - 1).max(1)),
        Action::LineUp => scroll(state, |_| -1),
        Action::LineDown => scroll(state, |_| 1),
        Action::Top => state.focused_mut().transcript.to_top(),
        Action::Bottom => state.focused_mut().transcript.to_bottom(),
        Action::ClosePane if state.panes.len() == 1 => {
            state.complain(state.options.theme.tr("this is the last pane: Ctrl-C quits"))
        }
        other => {
            if let Some(mode) = opened_by(state, other) {
                state.mode = mode;
            }
        }
    }
}

/// What an action opens over the chat, or asks.
fn opened_by(state: &State, action: Action) -> Option<Mode> {
    match action {
        Action::ClosePane => Some(Mode::ConfirmClose),
        Action::Rename => Some(Mode::Rename(Editor::default())),
        Action::Params => {
            let presets = params::presets(&state.options.sampling, &state.options.presets);
            Some(Mode::Params(Form::of(state.focused(), presets)))
        }
        Action::Cancel | Action::Quit => Some(Mode::ConfirmQuit),
        Action::ClearChat => (!state.focused().transcript.is_empty()).then_some(Mode::ConfirmClear),
        Action::Settings => Some(Mode::Settings(Desk::default())),
        Action::Help => Some(Mode::Help { scroll: 0 }),
        Action::Palette => Some(Mode::Palette { filter: Editor::default(), chosen: 0 }),
        _ => None,
    }
}

fn new_pane(state: &mut State) -> Vec<Effect> {
    if state.add_pane() {
        return vec![named(state)];
    }
    let words = say!(state.options.theme, "there are {} panes already, and no more fit", state.panes.len());
    state.complain(words);
    Vec::new()
}

/// What the focused pane is called.
fn named(state: &State) -> Effect {
    let person = &state.focused().person;
    Effect::Name { user: person.user, name: person.name.clone() }
}

fn scroll(state: &mut State, by: fn(usize) -> isize) {
    let transcript = &mut state.focused_mut().transcript;
    transcript.scroll_by(by(transcript.rows()));
}

/// One edit; `columns` is the editor's width, for moving by visual lines.
fn edit_in(editor: &mut Editor, edit: Edit, columns: usize) {
    match edit {
        Edit::Left => editor.left(),
        Edit::Right => editor.right(),
        Edit::WordLeft => editor.word_left(),
        Edit::WordRight => editor.word_right(),
        Edit::Up => editor.up(columns.saturating_sub(super::view::pane::PROMPT)),
        Edit::Down => editor.down(columns.saturating_sub(super::view::pane::PROMPT)),
        Edit::Home => editor.home(),
        Edit::End => editor.end(),
        Edit::Backspace => editor.backspace(),
        Edit::Delete => editor.delete_forward(),
        Edit::DeleteWordBefore => editor.delete_word_before(),
        Edit::DeleteWordAfter => editor.delete_word_after(),
        Edit::DeleteToStart => editor.delete_to_start(),
        Edit::DeleteToEnd => editor.delete_to_end(),
        Edit::Undo => editor.undo(),
        Edit::Redo => editor.redo(),
    }
}

fn insert(state: &mut State, text: &str) {
    if !state.focused_mut().editor.insert(text) {
        let words = say!(state.options.theme, "a draft holds {} KiB: the rest was cut", DRAFT_MAX / 1024);
        state.complain(words);
    }
}

fn paste(state: &mut State, text: &str) {
    match &mut state.mode {
        Mode::Chat if state.replay.is_some() || state.options.readonly || state.machine.is_open() => {}
        Mode::Chat => insert(state, text),
        Mode::Palette { filter, chosen } => {
            filter.insert(&text.replace(['\n', '\r'], " "));
            *chosen = 0;
        }
        Mode::Rename(editor) | Mode::GoTo(editor) => {
            editor.insert(&text.replace(['\n', '\r'], " "));
        }
        Mode::Params(form) => form.paste(text),
        Mode::Export(save) => {
            save.path.insert(&text.replace(['\n', '\r'], " "));
        }
        Mode::Settings(desk) => {
            if let Some(editor) = &mut desk.typing {
                editor.insert(&text.replace(['\n', '\r'], " "));
            }
        }
        Mode::Search(search) => {
            search.editor.insert(&text.replace(['\n', '\r'], " "));
            search.walking = false;
            search.look(&state.panes);
        }
        Mode::Pick(_) => {}
        Mode::Log { .. } | Mode::Help { .. } | Mode::Shelf(_) | Mode::ConfirmClose | Mode::ConfirmClear | Mode::ConfirmQuit => {}
    }
}

pub(super) fn set_pace(state: &mut State, pace: Pace) -> Vec<Effect> {
    state.pace = Some(pace);
    vec![Effect::SetPace(pace)]
}

pub(super) fn set_pace_beside(state: &mut State, slower: bool) -> Vec<Effect> {
    let pace = pace_beside(state, slower);
    set_pace(state, pace)
}

fn pace_beside(state: &State, slower: bool) -> Pace {
    let now = state.paced();
    // The present pace may be any number: the nearest rung on the wanted side.
    let speed = |rung: &Option<f64>| rung.unwrap_or(f64::INFINITY);
    let rung = if slower {
        LADDER.iter().find(|rung| speed(rung) < speed(&now)).unwrap_or(&LADDER[LADDER.len() - 1])
    } else {
        LADDER.iter().rev().find(|rung| speed(rung) > speed(&now)).unwrap_or(&LADDER[0])
    };
    rung.map_or(Pace::Full, Pace::StepsPerSecond)
}
