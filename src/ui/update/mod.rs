//! (State, message) to effects. No IO, no clock: the time comes with the messages, effects are carried out by
//! `run.rs`.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEvent};

use super::keymap::{self, Action};
use super::params;
use super::reading;
use super::rich::code::Highlighter;
use super::save::Saved;
use super::state::{Mode, State};
use super::words::say;
use super::{bots, mouse, told};
use crate::batch::UserId;
use crate::engine::api::{Event, Limits, NoteKind, Pace, Snapshot, Verdict};
use crate::hub::Progress;
use crate::machine::MemorySpeed;
use crate::sampling::SamplingParams;
use crate::store::{Keeping, StoreError};
use crate::text::Message;
use chat::{clear, close_pane};
use model::{on_fetched, on_progress, on_switched, switch_if_waiting};
use modes::{go_to_key, help_key, log_key, palette_key, rename_key, settings_key};
use typing::{edit_in, insert, paste};

pub use acts::act;
pub(super) use modes::{asks_first, type_into};
pub(super) use pace::{set_pace, set_pace_beside};

pub use chat::ask;
pub(super) use chat::on_event;

mod acts;
mod branches;
mod chat;
pub mod files;
pub mod history;
mod log;
mod model;
mod modes;
mod pace;
mod pick;
pub mod slash;
mod typing;

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

/// Takes a message in. `now` is the time since the screen was opened.
pub fn update(state: &mut State, msg: Msg, now: Duration) -> Vec<Effect> {
    state.now = now;
    if state.notice.as_ref().is_some_and(|notice| notice.until <= now) {
        state.notice = None;
    }
    let typed = matches!(msg, Msg::Key(_));
    let said = state.notice.clone();
    let mut effects = take(state, msg);
    // What was said before a prompt was sent is of the past then; what is wrong stays for its time.
    let sent = effects.iter().any(|effect| matches!(effect, Effect::Submit { .. }));
    if typed && sent && state.notice == said && said.is_some_and(|notice| !notice.bad) {
        state.notice = None;
    }
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
        Msg::Paste(text) => paste(state, &text),
        Msg::Tick => bots::tick(state),
        Msg::Engine(user, event) => {
            bots::on_event(state, user, &event);
            on_event(state, user, event);
            switch_if_waiting(state)
        }
        Msg::Lost(user) => on_lost(state, user),
        Msg::Fetched(result) => on_fetched(state, result),
        Msg::Switched(result) => on_switched(state, result),
        Msg::ChatOpened { user, opened } => history::on_opened(state, user, opened),
        news => {
            take_in(state, news);
            Vec::new()
        }
    }
}

/// What changes the state and asks for nothing.
fn take_in(state: &mut State, news: Msg) {
    match news {
        Msg::Snapshot(snapshot) => {
            state.settings.seen(&snapshot);
            state.snapshot = snapshot;
            say_verdict(state);
            say_recording_end(state);
        }
        Msg::Mouse(event) => mouse::on_mouse(state, event),
        Msg::Log(mut lines) => {
            let people = state.people();
            lines.iter_mut().for_each(|line| *line = log::named(line, &people));
            state.mode = Mode::Log { lines, below: 0 };
        }
        Msg::Saved(saved) => files::on_saved(state, saved),
        Msg::Edited(user, result) => files::on_edited(state, user, result),
        Msg::Measured(result) => reading::measured(state, result),
        Msg::Colours(highlighter) => {
            state.panes.iter_mut().for_each(|pane| pane.transcript.colour(&highlighter));
            state.highlighter = Some(highlighter);
        }
        Msg::Fetch(progress) => on_progress(state, progress),
        Msg::Chats { text, found } => history::on_found(state, &text, found),
        Msg::Keeping(keeping) => history::on_keeping(state, keeping),
        Msg::Key(_)
        | Msg::Paste(_)
        | Msg::Tick
        | Msg::Engine(..)
        | Msg::Lost(_)
        | Msg::Fetched(_)
        | Msg::Switched(_)
        | Msg::ChatOpened { .. } => {}
    }
}

fn on_key(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    // In a replay letters are keys, unless something is open that is typed into.
    let typing = matches!(state.mode, Mode::Palette { .. } | Mode::GoTo(_) | Mode::Search(_) | Mode::Shelf(_));
    let mut action = keymap::lookup(if typing { keymap::room() } else { state.keys() }, &key);
    if matches!(state.mode, Mode::Pick(_)) {
        action = action
            .filter(|action| matches!(action, Action::Pick(_)))
            .or(keymap::lookup(keymap::room(), &key).filter(pick::reaches));
    }
    if action == Some(Action::Suspend) {
        return vec![Effect::Suspend];
    }
    if action == Some(Action::Redraw) {
        return vec![Effect::Redraw];
    }
    state.leaving &= key.code == KeyCode::Esc || action == Some(Action::Cancel);
    // A question is answered yes by the key that asked it, too.
    let yes = |asked: Action| matches!(key.code, KeyCode::Char('y' | 'Y')) || action == Some(asked);
    match std::mem::replace(&mut state.mode, Mode::Chat) {
        Mode::Chat => on_chat_key(state, key, action),
        Mode::Help { scroll } => {
            state.mode = help_key(state, key, scroll);
            Vec::new()
        }
        Mode::Palette { filter, chosen } => palette_key(state, key, action, filter, chosen),
        Mode::Rename(editor) => rename_key(state, key, action, editor),
        Mode::GoTo(editor) => go_to_key(state, key, action, editor),
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
        Mode::ConfirmClose if yes(Action::ClosePane) => close_pane(state),
        Mode::ConfirmClear if yes(Action::ClearChat) => clear(state),
        Mode::ConfirmQuit if yes(Action::Cancel) => vec![Effect::Quit],
        // Who types on has not seen the question: it is a no, and no letter is lost.
        Mode::ConfirmClose | Mode::ConfirmClear | Mode::ConfirmQuit => match key.code {
            KeyCode::Char('n' | 'N') => Vec::new(),
            KeyCode::Char(_) if action.is_none() => on_chat_key(state, key, action),
            _ => Vec::new(),
        },
    }
}

fn on_chat_key(state: &mut State, key: KeyEvent, action: Option<Action>) -> Vec<Effect> {
    if state.replay.is_some() || state.machine.is_open() {
        if action.is_none() && !state.machine.is_open() {
            crate::ui::replay::says_where(state, key);
        }
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

/// The channel of a request is gone, and with it the rest of its answer.
fn on_lost(state: &mut State, user: UserId) -> Vec<Effect> {
    bots::on_lost(state, Some(user));
    let theme = state.options.theme;
    let fault = match &state.snapshot.fault {
        Some(fault) => told::fault(fault, theme),
        None => theme.tr("the engine has stopped").to_owned(),
    };
    if let Some(pane) = state.pane_of(user) {
        pane.conclude(Some(fault), None);
    }
    switch_if_waiting(state)
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

/// A recording that ends before the engine does is told where it is seen, and once more at the end of the program.
fn say_recording_end(state: &mut State) {
    let newest = state.snapshot.notes.iter().rev().find_map(|note| match &note.kind {
        NoteKind::RecordingEnded { why } => Some(why),
        _ => None,
    });
    let Some(why) = newest.filter(|_| state.recording_ended.is_none()) else { return };
    let theme = state.options.theme;
    let words = say!(theme, "recording ended: {}", told::recording_end(why, theme));
    state.recording_ended = Some(words.clone());
    state.complain(words);
}
