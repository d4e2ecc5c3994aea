//! What leaves a pane: copies, files, a draft on its way to another editor; and the search.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::Effect;
use super::modes::{asks_first, type_into};
use crate::conversation::NodeId;
use crate::ui::editor::{DRAFT_MAX, Editor};
use crate::ui::keymap::{Action, key_for};
use crate::ui::pick::code_blocks;
use crate::ui::save::{Save, Saved, name_for, text_for};
use crate::ui::search::Search;
use crate::ui::state::{Mode, State};
use crate::ui::text::one_line;
use crate::ui::words::say;

/// Bytes that are copied at most: terminals drop longer ones without a word.
pub const COPY_MAX: usize = 72 * 1024;

/// A message (the last answer, if none is named) to the terminal's clipboard.
pub(super) fn copy(state: &mut State, id: Option<NodeId>) -> Vec<Effect> {
    let theme = state.options.theme;
    let pane = state.focused();
    let node = id.or_else(|| pane.last_answer()).and_then(|id| pane.conversation.node(id));
    match node.map(|node| node.text.clone()).filter(|text| !text.is_empty()) {
        Some(text) => clip(state, text),
        None => {
            state.say(theme.tr("there is nothing to copy yet"));
            Vec::new()
        }
    }
}

/// A block of code of a message, counted from its last.
pub(super) fn copy_block(state: &mut State, id: NodeId, from_last: usize) -> Vec<Effect> {
    let theme = state.options.theme;
    let blocks = state.focused().conversation.node(id).map(|node| code_blocks(&node.text)).unwrap_or_default();
    match blocks.len().checked_sub(1 + from_last % blocks.len().max(1)) {
        Some(at) => {
            let effects = clip(state, blocks[at].trim_end_matches('\n').to_owned());
            if let [Effect::Copy(text)] = &effects[..] {
                state.say(say!(
                    theme,
                    "copied block {} of {}: {} bytes; B again copies the one before",
                    at + 1,
                    blocks.len(),
                    text.len()
                ));
            }
            effects
        }
        None => {
            state.say(theme.tr("there is no block of code in this message"));
            Vec::new()
        }
    }
}

fn clip(state: &mut State, text: String) -> Vec<Effect> {
    let theme = state.options.theme;
    if text.len() > COPY_MAX {
        let (has, most) = (text.len(), COPY_MAX / 1024);
        let key = key_for(Action::Export);
        state.complain(say!(theme, "it has {} bytes, and terminals take {} KiB: {} writes it to a file", has, most, key));
        return Vec::new();
    }
    state.say(say!(theme, "copied {} bytes, if your terminal allows it (OSC 52)", text.len()));
    vec![Effect::Copy(text)]
}

/// Asks where the focused pane's conversation is to go.
pub(super) fn ask_where(state: &mut State) {
    let theme = state.options.theme;
    if state.focused().conversation.is_empty() {
        return state.say(theme.tr("there is nothing to write to a file yet"));
    }
    let path = name_for(&state.focused().person.name);
    state.mode = Mode::Export(Save::to(&path));
}

pub(super) fn export(state: &mut State, path: &str, replace: bool) -> Vec<Effect> {
    let theme = state.options.theme;
    if state.focused().conversation.is_empty() {
        state.say(theme.tr("there is nothing to write to a file yet"));
        return Vec::new();
    }
    let text = text_for(path, state.focused());
    vec![Effect::Export { path: path.to_owned(), text, replace }]
}

pub(super) fn export_key(state: &mut State, key: KeyEvent, action: Option<Action>, mut save: Save) -> Vec<Effect> {
    match (key.code, action) {
        (KeyCode::Esc, _) | (_, Some(Action::Cancel)) => {
            let path = save.path.text();
            let typed = path != name_for(&state.focused().person.name) && save.exists.as_deref() != Some(path);
            if asks_first(state, typed) {
                state.mode = Mode::Export(save);
            }
            Vec::new()
        }
        (KeyCode::Enter, _) => {
            let path = save.path.text().trim().to_owned();
            if path.is_empty() {
                state.mode = Mode::Export(save);
                return Vec::new();
            }
            let replace = save.exists.as_deref() == Some(path.as_str());
            state.mode = Mode::Export(save);
            export(state, &path, replace)
        }
        _ => {
            type_into(&mut save.path, key, action);
            (save.problem, save.exists) = (None, None);
            state.mode = Mode::Export(save);
            Vec::new()
        }
    }
}

/// What came of writing a file.
pub(super) fn on_saved(state: &mut State, saved: Saved) {
    let theme = state.options.theme;
    match saved {
        Saved::Done { path, bytes } => {
            if matches!(state.mode, Mode::Export(_)) {
                state.mode = Mode::Chat;
            }
            state.say(say!(theme, "written, for your eyes only: {} ({} bytes)", one_line(&path), bytes));
        }
        Saved::Exists(path) => {
            // A command asks likewise.
            if matches!(state.mode, Mode::Chat) {
                state.mode = Mode::Export(Save::to(&path));
            }
            if let Mode::Export(save) = &mut state.mode {
                save.problem = Some(theme.tr("that file is there already: Enter once more replaces it").to_owned());
                save.path = Editor::with_text(&path);
                save.exists = Some(path);
            }
        }
        Saved::Failed { path, why } => {
            let why = say!(theme, "{} cannot be written: {}", one_line(&path), one_line(&why));
            match &mut state.mode {
                Mode::Export(save) => save.problem = Some(why),
                _ => state.complain(why),
            }
        }
    }
}

/// The draft came back from another editor.
pub(super) fn on_edited(state: &mut State, user: crate::batch::UserId, result: Result<String, String>) {
    let theme = state.options.theme;
    match result {
        Ok(text) => {
            let Some(pane) = state.pane_of(user) else { return };
            // Editors end the last line too.
            let text = text.strip_suffix('\n').unwrap_or(&text);
            if text == pane.editor.text() {
                return;
            }
            pane.editor.set("");
            if !pane.editor.insert(text) {
                state.complain(say!(theme, "a draft holds {} KiB: the rest was cut", DRAFT_MAX / 1024));
            }
        }
        Err(why) => state.complain(say!(theme, "the editor: {}; the draft is as it was", one_line(&why))),
    }
}

/// Opens the search; with a text, in all panes at once.
pub(super) fn search(state: &mut State, text: &str) {
    let mut search = Search { from: state.focus, ..Search::default() };
    search.editor.insert(text);
    search.all = !text.is_empty();
    search.walking = !text.is_empty();
    look(state, &mut search);
    state.mode = Mode::Search(search);
}

fn look(state: &mut State, search: &mut Search) {
    search.look(&state.panes);
    show(state, search);
}

/// Brings the hit that the search stands on into view.
fn show(state: &mut State, search: &Search) {
    if let Some(hit) = search.hits.get(search.at)
        && let Some(pane) = state.panes.get_mut(hit.pane)
    {
        pane.transcript.reveal_place(&hit.place);
        state.focus = hit.pane;
    }
}

pub(super) fn search_key(state: &mut State, key: KeyEvent, action: Option<Action>, mut search: Search) -> Vec<Effect> {
    let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
    let by = match key.code {
        KeyCode::Esc => return Vec::new(),
        _ if action == Some(Action::Cancel) => return Vec::new(),
        KeyCode::Enter | KeyCode::Down => 1,
        KeyCode::Up => -1,
        KeyCode::Char('n') if search.walking && plain => 1,
        KeyCode::Char('N') if search.walking && plain => -1,
        _ => 0,
    };
    if by != 0 {
        let walked = search.walking || key.code != KeyCode::Enter;
        search.walking = true;
        // What came since is found too; the first Enter stays on the first hit.
        let hits = search.hits.len();
        search.look(&state.panes);
        if hits > 0 && !search.hits.is_empty() && walked {
            search.at = (search.at as isize + by).rem_euclid(search.hits.len() as isize) as usize;
        }
        show(state, &search);
    } else if matches!(key.code, KeyCode::Tab | KeyCode::BackTab) {
        search.all = !search.all;
        look(state, &mut search);
    } else {
        search.walking = false;
        type_into(&mut search.editor, key, action);
        look(state, &mut search);
    }
    state.mode = Mode::Search(search);
    Vec::new()
}
