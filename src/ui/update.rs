//! (State, message) to effects. No IO, no clock: the time comes with the messages, effects are carried out by
//! `run.rs`.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::editor::{DRAFT_MAX, Editor};
use super::keymap::{self, Action, Edit};
use super::params::Form;
use super::replay;
use super::state::{Better, Download, Mode, State};
use crate::batch::UserId;
use crate::engine::api::{Event, FinishReason, Pace, RunState, Snapshot};
use crate::hub::Progress;
use crate::sampling::SamplingParams;
use crate::text::{Message, Role};

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
    if state.replay.is_some() {
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
        Action::View => state.rooms = state.rooms.next(),
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
        Mode::Chat if state.replay.is_some() => {}
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

/// Sends a pane's draft. None when there is nothing to send, or it still answers.
fn send(state: &mut State, at: usize) -> Option<Effect> {
    let pane = &state.panes[at];
    if pane.editor.text().trim().is_empty() {
        return None;
    }
    if pane.live {
        let name = pane.person.name.clone();
        state.say(format!("{name} is still being answered: Ctrl-C stops it, the draft stays"));
        return None;
    }
    let draft = state.panes[at].editor.take();
    Some(submit(state, at, &draft))
}

fn submit(state: &mut State, at: usize, draft: &str) -> Effect {
    let seed = state.seed_for(at);
    let pane = &mut state.panes[at];
    pane.refused = None;
    pane.preempted_by = None;
    pane.transcript.push(Role::User, draft);
    let messages = pane.transcript.messages(pane.system.as_deref());
    pane.transcript.push(Role::Assistant, "");
    pane.live = true;
    Effect::Submit { user: pane.person.user, messages, sampling: SamplingParams { seed, ..pane.sampling.clone() } }
}

/// The focused pane's draft to every pane that is free.
fn send_all(state: &mut State) -> Vec<Effect> {
    if state.focused().editor.text().trim().is_empty() {
        return Vec::new();
    }
    let busy = state.live();
    if busy == state.panes.len() {
        state.say("every pane is still being answered: the draft stays");
        return Vec::new();
    }
    let focus = state.focus;
    let draft = state.panes[focus].editor.take();
    let free: Vec<usize> = (0..state.panes.len()).filter(|at| !state.panes[*at].live).collect();
    let effects: Vec<Effect> = free
        .iter()
        .map(|at| {
            state.panes[*at].editor.keep(&draft);
            submit(state, *at, &draft)
        })
        .collect();
    if busy > 0 {
        let who = if busy == 1 { "one pane is" } else { &format!("{busy} panes are") };
        state.say(format!("sent to {} of {}: {who} still being answered", effects.len(), state.panes.len()));
    }
    effects
}

fn clear(state: &mut State) -> Vec<Effect> {
    let pane = state.focused_mut();
    let was_live = std::mem::take(&mut pane.live);
    pane.transcript = super::transcript::Transcript::default();
    pane.preempted_by = None;
    if was_live { vec![Effect::Abandon(pane.person.user)] } else { Vec::new() }
}

fn close_pane(state: &mut State) -> Vec<Effect> {
    let pane = state.panes.remove(state.focus);
    state.remember(pane.person.clone());
    state.focus = state.focus.min(state.panes.len() - 1);
    if pane.live { vec![Effect::Abandon(pane.person.user)] } else { Vec::new() }
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

fn model(state: &mut State) -> Vec<Effect> {
    match state.better.clone() {
        Better::InUse if state.on_small_model() => vec![],
        Better::InUse => {
            state.say(format!(
                "{} is in use; \u{201c}switch back\u{201d} is in the list of everything",
                state.snapshot.model.title
            ));
            vec![]
        }
        Better::Absent | Better::Failed(_) => {
            state.better =
                Better::Fetching(Download { source: "looking for a way".into(), began: state.now, ..Download::default() });
            vec![Effect::Fetch]
        }
        Better::Fetching(_) => {
            state.better = Better::Absent;
            state.say("the download was stopped");
            vec![Effect::CancelFetch]
        }
        Better::Ready if state.live() > 0 => {
            state.better = Better::WaitingToSwitch;
            vec![]
        }
        Better::Ready | Better::WaitingToSwitch => switch_now(state),
        Better::Loading => vec![],
    }
}

fn switch_now(state: &mut State) -> Vec<Effect> {
    state.better = Better::Loading;
    vec![Effect::Switch(state.options.better_name.clone())]
}

fn switch_if_waiting(state: &mut State) -> Vec<Effect> {
    if state.better == Better::WaitingToSwitch && state.live() == 0 { switch_now(state) } else { Vec::new() }
}

fn switch_back(state: &mut State) -> Vec<Effect> {
    if state.on_small_model() || state.better == Better::Loading {
        return Vec::new();
    }
    if state.live() > 0 {
        state.say("answers are still running: stop them first (Ctrl-C in each pane)");
        return Vec::new();
    }
    state.better = Better::Loading;
    vec![Effect::Switch(state.options.small_name.clone())]
}

fn on_progress(state: &mut State, progress: Progress) {
    let Better::Fetching(download) = &mut state.better else { return };
    if download.source != progress.source {
        download.began = state.now;
    }
    let passed = state.now.saturating_sub(download.began).as_secs_f64();
    download.rate = (passed > 0.5 && progress.done > 0).then(|| progress.done as f64 / passed);
    (download.source, download.done, download.total) = (progress.source, progress.done, progress.total);
}

fn on_fetched(state: &mut State, result: Result<(), String>) -> Vec<Effect> {
    if !matches!(state.better, Better::Fetching(_)) {
        return Vec::new();
    }
    let wanted = std::mem::take(&mut state.wanted);
    match result {
        Ok(()) => state.better = Better::Ready,
        Err(why) => state.better = Better::Failed(why),
    }
    if wanted && state.better == Better::Ready { model(state) } else { Vec::new() }
}

fn on_switched(state: &mut State, result: Result<String, String>) {
    let small = state.options.small_name.clone();
    match result {
        Ok(name) if name == small => {
            state.better = Better::Ready;
            state.say(format!("{name} answers now; every chat is still here"));
        }
        Ok(_) => {
            state.better = Better::InUse;
            state.say(format!("{} answers now; every chat is still here", state.options.better_title));
        }
        // Fetching looks at the file again, and replaces it if it is damaged.
        Err(why) if state.on_small_model() => state.better = Better::Failed(why),
        Err(why) => {
            state.better = Better::InUse;
            state.complain(why);
        }
    }
}

pub(super) fn on_event(state: &mut State, user: UserId, event: Event) {
    let Some(pane) = state.pane_of(user) else { return };
    match event {
        Event::Queued { .. } => {}
        Event::Admitted { .. } => pane.preempted_by = None,
        Event::Token { text, .. } => {
            pane.preempted_by = None;
            pane.transcript.append(&text);
        }
        Event::Preempted { by, .. } => pane.preempted_by = Some(by),
        Event::Witnessed(_) => {}
        Event::Finished(end) => {
            pane.live = false;
            pane.preempted_by = None;
            pane.transcript.append(&end.text);
            let note = match end.reason {
                FinishReason::Stop if end.generated_tokens <= 1 => Some("(an empty answer)".to_owned()),
                FinishReason::Stop => None,
                FinishReason::Length => end.message,
                FinishReason::ContextFull | FinishReason::KvFull => {
                    let new = keymap::key_for(Action::ClearChat);
                    Some(format!("{}. {new} begins a new conversation", end.message.unwrap_or_default()))
                }
                FinishReason::Cancelled => Some("stopped".to_owned()),
                FinishReason::Failed => Some(format!("failed: {}", end.message.unwrap_or_default())),
            };
            pane.transcript.close(note);
        }
        Event::Rejected(why) => {
            pane.live = false;
            pane.transcript.pop();
            if let Some(prompt) = pane.transcript.pop()
                && pane.editor.is_empty()
            {
                pane.editor.set(&prompt.text);
            }
            pane.refused = Some(super::text::one_line(&why.to_string()));
        }
    }
}

fn help_key(key: KeyEvent, action: Option<Action>, scroll: usize) -> Mode {
    match (key.code, action) {
        (KeyCode::Down, _) => Mode::Help { scroll: scroll + 1 },
        (KeyCode::Up, _) => Mode::Help { scroll: scroll.saturating_sub(1) },
        (KeyCode::PageDown, _) => Mode::Help { scroll: scroll + 10 },
        (KeyCode::PageUp, _) => Mode::Help { scroll: scroll.saturating_sub(10) },
        (KeyCode::Home, _) => Mode::Help { scroll: 0 },
        _ => Mode::Chat,
    }
}

fn palette_key(state: &mut State, key: KeyEvent, action: Option<Action>, mut filter: Editor, chosen: usize) -> Vec<Effect> {
    let found = keymap::search(state.keys(), filter.text());
    let last = found.len().saturating_sub(1);
    let chosen = match (key.code, action) {
        (KeyCode::Esc, _) | (_, Some(Action::Cancel | Action::Palette)) => return Vec::new(),
        (KeyCode::Enter, _) => return found.get(chosen.min(last)).map_or_else(Vec::new, |binding| act(state, binding.action)),
        (KeyCode::Down, _) => (chosen + 1).min(last),
        (KeyCode::Up, _) => chosen.saturating_sub(1),
        (KeyCode::PageDown, _) => (chosen + 10).min(last),
        (KeyCode::PageUp, _) => chosen.saturating_sub(10),
        _ => {
            type_into(&mut filter, key, action);
            0
        }
    };
    state.mode = Mode::Palette { filter, chosen };
    Vec::new()
}

/// A key in a one-line field.
fn type_into(editor: &mut Editor, key: KeyEvent, action: Option<Action>) {
    match (key.code, action) {
        (_, Some(Action::Edit(Edit::Up | Edit::Down))) => {}
        (_, Some(Action::Edit(edit))) => edit_in(editor, edit, usize::MAX),
        (KeyCode::Char(c), None) if key.modifiers.difference(KeyModifiers::SHIFT).is_empty() => {
            editor.insert(c.encode_utf8(&mut [0; 4]));
        }
        _ => {}
    }
}

fn rename_key(state: &mut State, key: KeyEvent, action: Option<Action>, mut editor: Editor) -> Vec<Effect> {
    match (key.code, action) {
        (KeyCode::Esc, _) | (_, Some(Action::Cancel)) => {}
        (KeyCode::Enter, _) => {
            let name: String = super::text::one_line(editor.text().trim()).chars().take(24).collect();
            if !name.is_empty() {
                let letter = state.free_letter(&name, Some(state.focus));
                let person = &mut state.focused_mut().person;
                (person.name, person.letter) = (name, letter);
                return vec![named(state)];
            }
        }
        _ => {
            type_into(&mut editor, key, action);
            state.mode = Mode::Rename(editor);
        }
    }
    Vec::new()
}

fn params_key(state: &mut State, key: KeyEvent, action: Option<Action>, mut form: Form) {
    let last = form.fields.len() - 1;
    match (key.code, action) {
        (KeyCode::Esc, _) | (_, Some(Action::Cancel)) => return,
        (KeyCode::Enter, _) => match form.apply(state.focused_mut()) {
            Ok(()) => {
                let name = state.focused().person.name.clone();
                state.say(format!("{name}: from the next prompt on"));
                return;
            }
            Err(error) => form.error = Some(error),
        },
        (KeyCode::Down | KeyCode::Tab, _) => form.at = if form.at == last { 0 } else { form.at + 1 },
        (KeyCode::Up | KeyCode::BackTab, _) => form.at = form.at.checked_sub(1).unwrap_or(last),
        _ => {
            let at = form.at;
            type_into(&mut form.fields[at], key, action);
            form.error = None;
        }
    }
    state.mode = Mode::Params(form);
}
