//! Text into drafts and fields: keys, edits, pastes.

use super::{Effect, history};
use crate::ui::editor::{DRAFT_MAX, Editor};
use crate::ui::keymap::Edit;
use crate::ui::state::{Mode, State};
use crate::ui::view::pane::PROMPT;
use crate::ui::words::say;

/// One edit; `columns` is the editor's width, for moving by visual lines.
pub(super) fn edit_in(editor: &mut Editor, edit: Edit, columns: usize) {
    match edit {
        Edit::Left => editor.left(),
        Edit::Right => editor.right(),
        Edit::WordLeft => editor.word_left(),
        Edit::WordRight => editor.word_right(),
        Edit::Up => editor.up(columns.saturating_sub(PROMPT)),
        Edit::Down => editor.down(columns.saturating_sub(PROMPT)),
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

pub(super) fn insert(state: &mut State, text: &str) {
    if !state.focused_mut().editor.insert(text) {
        let words = say!(state.options.theme, "a draft holds {} KiB: the rest was cut", DRAFT_MAX / 1024);
        state.complain(words);
    }
}

/// A paste goes where typing goes; into a field of one line as one line.
pub(super) fn paste(state: &mut State, text: &str) -> Vec<Effect> {
    let line = text.replace(['\n', '\r'], " ");
    match &mut state.mode {
        Mode::Chat if state.replay.is_some() || state.options.readonly || state.machine.is_open() => {}
        Mode::Chat => insert(state, text),
        Mode::Palette { filter, chosen } => {
            filter.insert(&line);
            *chosen = 0;
        }
        Mode::Rename(editor) | Mode::GoTo(editor) => {
            editor.insert(&line);
        }
        Mode::Params(form) => form.paste(text),
        Mode::Export(save) => {
            save.path.insert(&line);
        }
        Mode::Settings(desk) => {
            if let Some(editor) = &mut desk.typing {
                editor.insert(&line);
            }
        }
        Mode::Search(search) => {
            search.editor.insert(&line);
            search.walking = false;
            search.look(&state.panes);
        }
        Mode::Shelf(shelf) => return history::paste(shelf, text),
        Mode::Pick(_) | Mode::Log { .. } | Mode::Help { .. } => {}
        Mode::ConfirmClose | Mode::ConfirmClear | Mode::ConfirmQuit => {}
    }
    Vec::new()
}
