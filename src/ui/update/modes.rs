//! Keys while something is open over the chat.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::acts::named;
use super::{Effect, act, edit_in};
use crate::ui::editor::Editor;
use crate::ui::keymap::{self, Action, Edit};
use crate::ui::replay;
use crate::ui::settings::{Desk, Knob};
use crate::ui::state::{Mode, State};
use crate::ui::view::popup;

pub(super) fn help_key(state: &State, key: KeyEvent, scroll: usize) -> Mode {
    let most = popup::help_most(state);
    let scroll = scroll.min(most);
    let scroll = match key.code {
        KeyCode::Down => scroll + 1,
        KeyCode::Up => scroll.saturating_sub(1),
        KeyCode::PageDown => scroll + 10,
        KeyCode::PageUp => scroll.saturating_sub(10),
        KeyCode::Home => 0,
        KeyCode::End => most,
        _ => return Mode::Chat,
    };
    Mode::Help { scroll: scroll.min(most) }
}

pub(super) fn palette_key(
    state: &mut State,
    key: KeyEvent,
    action: Option<Action>,
    mut filter: Editor,
    chosen: usize,
) -> Vec<Effect> {
    let found = keymap::search(state.offered(), filter.text(), state.options.theme.lang());
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

/// Whether what is open stays for now: something in it was changed, and this is the first Esc. Its foot says so then.
pub(in crate::ui) fn asks_first(state: &mut State, changed: bool) -> bool {
    let asks = changed && !std::mem::take(&mut state.leaving);
    state.leaving = asks;
    asks
}

/// A key in a one-line field.
pub(in crate::ui) fn type_into(editor: &mut Editor, key: KeyEvent, action: Option<Action>) {
    match (key.code, action) {
        (_, Some(Action::Edit(Edit::Up | Edit::Down))) => {}
        (_, Some(Action::Edit(edit))) => edit_in(editor, edit, usize::MAX),
        (KeyCode::Char(c), None) if key.modifiers.difference(KeyModifiers::SHIFT).is_empty() => {
            editor.insert(c.encode_utf8(&mut [0; 4]));
        }
        _ => {}
    }
}

pub(super) fn rename_key(state: &mut State, key: KeyEvent, action: Option<Action>, mut editor: Editor) -> Vec<Effect> {
    match (key.code, action) {
        (KeyCode::Esc, _) | (_, Some(Action::Cancel)) => {
            if asks_first(state, !editor.is_empty()) {
                state.mode = Mode::Rename(editor);
            }
        }
        (KeyCode::Enter, _) => return rename(state, editor.text()),
        _ => {
            type_into(&mut editor, key, action);
            state.mode = Mode::Rename(editor);
        }
    }
    Vec::new()
}

/// The number of a step, in a replay.
pub(super) fn go_to_key(state: &mut State, key: KeyEvent, action: Option<Action>, mut editor: Editor) -> Vec<Effect> {
    match (key.code, action) {
        (KeyCode::Esc, _) | (_, Some(Action::Cancel)) => Vec::new(),
        (KeyCode::Enter, _) => replay::go_to(state, editor.text()),
        _ => {
            type_into(&mut editor, key, action);
            state.mode = Mode::GoTo(editor);
            Vec::new()
        }
    }
}

/// What the focused pane is called from now on; nothing: as before.
pub(super) fn rename(state: &mut State, name: &str) -> Vec<Effect> {
    let name: String = crate::ui::text::one_line(name.trim()).chars().take(24).collect();
    if name.is_empty() {
        return Vec::new();
    }
    let letter = state.free_letter(&name, Some(state.focus));
    let person = &mut state.focused_mut().person;
    (person.name, person.letter) = (name, letter);
    vec![named(state)]
}

/// The log: arrows scroll, any other key closes it.
pub(super) fn log_key(state: &mut State, key: KeyEvent, lines: Vec<String>, below: usize) {
    let most = lines.len().saturating_sub(popup::log_rows(state.area).max(1));
    let below = below.min(most);
    let below = match key.code {
        KeyCode::Up => below + 1,
        KeyCode::Down => below.saturating_sub(1),
        KeyCode::PageUp => below + 10,
        KeyCode::PageDown => below.saturating_sub(10),
        KeyCode::Home => most,
        KeyCode::End => 0,
        _ => return,
    };
    state.mode = Mode::Log { lines, below: below.min(most) };
}

/// The knobs: arrows choose and turn, Enter types a value.
pub(super) fn settings_key(state: &mut State, key: KeyEvent, action: Option<Action>, mut desk: Desk) -> Vec<Effect> {
    let mut effects = Vec::new();
    if let Some(mut editor) = desk.typing.take() {
        match (key.code, action) {
            // A value is typed again in a moment: nothing is asked.
            (KeyCode::Esc, _) | (_, Some(Action::Cancel)) => desk.error = None,
            (KeyCode::Enter, _) => match desk.knob().typed(state, editor.text()) {
                Ok(done) => (effects, desk.error) = (done, None),
                Err(why) => (desk.error, desk.typing) = (Some(why), Some(editor)),
            },
            _ => {
                type_into(&mut editor, key, action);
                (desk.error, desk.typing) = (None, Some(editor));
            }
        }
        state.mode = Mode::Settings(desk);
        return effects;
    }
    let last = Knob::ALL.len() - 1;
    desk.error = None;
    match (key.code, action) {
        (KeyCode::Esc, _) | (_, Some(Action::Cancel | Action::Settings)) => return effects,
        (KeyCode::Down | KeyCode::Tab, _) => desk.at = if desk.at == last { 0 } else { desk.at + 1 },
        (KeyCode::Up | KeyCode::BackTab, _) => desk.at = desk.at.checked_sub(1).unwrap_or(last),
        (KeyCode::Home, _) => desk.at = 0,
        (KeyCode::End, _) => desk.at = last,
        (KeyCode::Left | KeyCode::Char('-'), _) => effects = desk.knob().turn(state, false),
        (KeyCode::Right | KeyCode::Char('+' | '='), _) => effects = desk.knob().turn(state, true),
        (KeyCode::Enter, _) => desk.typing = Some(Editor::default()),
        (KeyCode::Char(c), None) if c.is_ascii_alphanumeric() => {
            let mut editor = Editor::default();
            editor.insert(c.encode_utf8(&mut [0; 4]));
            desk.typing = Some(editor);
        }
        // The engine's keys go on working: pause, step and pace are what one watches a change with.
        (
            _,
            Some(action @ (Action::Pause | Action::Step | Action::StepTen | Action::Slower | Action::Faster | Action::FullSpeed)),
        ) => {
            effects = act(state, action);
        }
        _ => {}
    }
    state.mode = Mode::Settings(desk);
    effects
}
