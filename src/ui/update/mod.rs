//! (State, message) to effects. No IO, no clock: the time comes with the messages, effects are carried out by
//! `run.rs`.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::editor::{DRAFT_MAX, Editor};
use super::keymap::{self, Action, Edit};
use super::machine;
use super::params::Form;
use super::replay;
use super::state::{Mode, State};
use crate::batch::UserId;
use crate::engine::api::{Event, Pace, RunState, Snapshot};
use crate::hub::Progress;
use crate::sampling::SamplingParams;
use crate::text::Message;
use chat::{clear, close_pane, send, send_all};
use model::{model, on_fetched, on_progress, on_switched, switch_back, switch_if_waiting};
use modes::{help_key, palette_key, params_key, rename_key, type_into};

pub(super) use chat::on_event;

mod chat;
mod model;
mod modes;

/// What happened.
#[derive(Clone, Debug)]
pub enum Msg {
    Key(KeyEvent),
    Paste(String),
    Snapshot(Arc<Snapshot>),
    Engine(UserId, Event),
    /// The channel of a request ended without an end.
    Lost(UserId),
    Fetch(Progress),
    Fetched(Result<(), String>),
    /// A model was loaded and its engine took over, or not.
    Switched(Result<String, String>),
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
    },
    Cancel(UserId),
    /// Cancel, and hear no more of it.
    Abandon(UserId),
    Pause(bool),
    Step(u32),
    SetPace(Pace),
    Fetch,
    CancelFetch,
    Switch(String),
    Redraw,
    Suspend,
    Quit,
    /// To this frame of a recording.
    Seek(usize),
    /// A pane has another name.
    Name {
        user: UserId,
        name: String,
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
    match msg {
        Msg::Key(key) if key.kind != KeyEventKind::Release => on_key(state, key),
        Msg::Key(_) | Msg::Tick => Vec::new(),
        Msg::Paste(text) => {
            paste(state, &text);
            Vec::new()
        }
        Msg::Snapshot(snapshot) => {
            state.snapshot = snapshot;
            Vec::new()
        }
        Msg::Engine(user, event) => {
            on_event(state, user, event);
            switch_if_waiting(state)
        }
        Msg::Lost(user) => {
            let fault = state.snapshot.fault.clone().unwrap_or_else(|| "the engine has stopped".into());
            if let Some(pane) = state.pane_of(user) {
                pane.live = false;
                pane.transcript.close(Some(fault));
            }
            switch_if_waiting(state)
        }
        Msg::Fetch(progress) => {
            on_progress(state, progress);
            Vec::new()
        }
        Msg::Fetched(result) => on_fetched(state, result),
        Msg::Switched(result) => {
            if result.is_ok() {
                // What the panels held was of the engine before.
                (state.machine.frozen, state.machine.look) = (None, None);
            }
            on_switched(state, result);
            Vec::new()
        }
    }
}

fn on_key(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    // In a replay letters are keys, unless something is open that is typed into.
    let typing = matches!(state.mode, Mode::Palette { .. } | Mode::GoTo(_));
    let action = keymap::lookup(if typing { keymap::TABLE } else { state.keys() }, &key);
    if action == Some(Action::Suspend) {
        return vec![Effect::Suspend];
    }
    if action == Some(Action::Redraw) {
        return vec![Effect::Redraw];
    }
    match std::mem::replace(&mut state.mode, Mode::Chat) {
        Mode::Chat => on_chat_key(state, key, action),
        Mode::Help { scroll } => {
            state.mode = help_key(key, action, scroll);
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
            params_key(state, key, action, form);
            Vec::new()
        }
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
    let typed = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
    if let (KeyCode::Char(c), true) = (key.code, typed) {
        insert(state, c.encode_utf8(&mut [0; 4]));
    }
    Vec::new()
}

/// Carries out an action of the key table, whether it came by key or from the palette.
pub fn act(state: &mut State, action: Action) -> Vec<Effect> {
    if let Some(effects) = machine::act(state, action) {
        return effects;
    }
    if state.replay.is_some()
        && let Some(effects) = replay::act(state, action)
    {
        return effects;
    }
    match action {
        Action::Send if state.broadcast => send_all(state),
        Action::Send => send(state, state.focus).into_iter().collect(),
        Action::SendAll => send_all(state),
        Action::ClosePane if state.panes.len() > 1 && !state.focused().holds_text() => close_pane(state),
        Action::Cancel if state.focused().live => vec![Effect::Cancel(state.focused().person.user)],
        Action::Pause => vec![Effect::Pause(state.snapshot.state != RunState::Paused)],
        Action::Step => vec![Effect::Pause(true), Effect::Step(1)],
        Action::StepTen => vec![Effect::Pause(true), Effect::Step(10)],
        Action::Slower => set_pace(state, pace_beside(state, true)),
        Action::Faster => set_pace(state, pace_beside(state, false)),
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

/// The actions that change the screen alone.
fn act_on_screen(state: &mut State, action: Action) {
    match action {
        Action::Newline => insert(state, "\n"),
        Action::Edit(edit) => {
            let columns = state.focused().transcript.columns() + super::transcript::GUTTER;
            edit_in(&mut state.focused_mut().editor, edit, columns);
        }
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
        Action::ClosePane if state.panes.len() == 1 => state.complain("this is the last pane: Ctrl-C quits"),
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
        Action::Params => Some(Mode::Params(Form::of(state.focused()))),
        Action::Cancel | Action::Quit => Some(Mode::ConfirmQuit),
        Action::ClearChat => (!state.focused().transcript.is_empty()).then_some(Mode::ConfirmClear),
        Action::Help => Some(Mode::Help { scroll: 0 }),
        Action::Palette => Some(Mode::Palette { filter: Editor::default(), chosen: 0 }),
        _ => None,
    }
}

fn new_pane(state: &mut State) -> Vec<Effect> {
    if state.add_pane() {
        return vec![named(state)];
    }
    state.complain(format!("there are {} panes already, and no more fit", state.panes.len()));
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
    }
}

fn insert(state: &mut State, text: &str) {
    if !state.focused_mut().editor.insert(text) {
        state.complain(format!("a draft holds {} KiB: the rest was cut", DRAFT_MAX / 1024));
    }
}

fn paste(state: &mut State, text: &str) {
    match &mut state.mode {
        Mode::Chat if state.replay.is_some() || state.machine.is_open() => {}
        Mode::Chat => insert(state, text),
        Mode::Palette { filter, chosen } => {
            filter.insert(&text.replace(['\n', '\r'], " "));
            *chosen = 0;
        }
        Mode::Rename(editor) | Mode::GoTo(editor) => {
            editor.insert(&text.replace(['\n', '\r'], " "));
        }
        Mode::Params(form) => {
            form.fields[form.at].insert(text);
        }
        Mode::Help { .. } | Mode::ConfirmClose | Mode::ConfirmClear | Mode::ConfirmQuit => {}
    }
}

fn set_pace(state: &mut State, pace: Pace) -> Vec<Effect> {
    state.pace = Some(pace);
    vec![Effect::SetPace(pace)]
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
