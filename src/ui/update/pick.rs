//! Keys while a message is being chosen.

use super::{Effect, act, branches, files};
use crate::conversation::NodeId;
use crate::ui::keymap::Action;
use crate::ui::pick::{Pick, PickAct};
use crate::ui::state::{Mode, State};

/// Begins with the last message.
pub(super) fn open(state: &mut State) {
    let theme = state.options.theme;
    match state.focused().transcript.turns().len().checked_sub(1) {
        Some(turn) => choose(state, turn),
        None => state.say(theme.tr("there is no message yet to choose")),
    }
}

fn choose(state: &mut State, turn: usize) {
    let transcript = &mut state.focused_mut().transcript;
    let turn = turn.min(transcript.turns().len().saturating_sub(1));
    transcript.reveal(turn);
    state.mode = Mode::Pick(Pick { turn, sure: None, block: 0 });
}

fn node_at(state: &State, turn: usize) -> Option<NodeId> {
    state.focused().transcript.turns().get(turn).and_then(|turn| turn.node)
}

/// `pick` is what was chosen until now; the mode is chat again unless it is set anew. Whatever the key is, a question that
/// was asked before it is answered or off the table.
pub(super) fn on_key(state: &mut State, action: Option<Action>, mut pick: Pick) -> Vec<Effect> {
    let sure = pick.sure.take().is_some();
    let chosen = match action {
        Some(Action::Pick(chosen)) => chosen,
        Some(Action::Cancel) => return Vec::new(),
        Some(action) => {
            if stays(action) {
                state.mode = Mode::Pick(pick);
            }
            return act(state, action);
        }
        None => {
            state.mode = Mode::Pick(pick);
            return Vec::new();
        }
    };
    let count = state.focused().transcript.turns().len();
    match chosen {
        PickAct::Leave => Vec::new(),
        PickAct::Up | PickAct::Down if count == 0 => Vec::new(),
        PickAct::Up => {
            choose(state, pick.turn.saturating_sub(1));
            Vec::new()
        }
        PickAct::Down => {
            choose(state, pick.turn + 1);
            Vec::new()
        }
        chosen => match node_at(state, pick.turn) {
            Some(id) => on_message(state, chosen, id, pick, sure),
            None => Vec::new(),
        },
    }
}

/// Which keys of the room reach it while a message is being chosen: all that are no text.
pub(super) fn reaches(action: &Action) -> bool {
    !matches!(action, Action::Edit(_) | Action::Send | Action::Newline | Action::Back)
}

/// After which of them the choosing goes on.
fn stays(action: Action) -> bool {
    action.works_anywhere()
        || matches!(
            action,
            Action::Zoom
                | Action::Raw
                | Action::PageUp
                | Action::PageDown
                | Action::LineUp
                | Action::LineDown
                | Action::Top
                | Action::Bottom
        )
}

fn on_message(state: &mut State, act: PickAct, id: NodeId, pick: Pick, sure: bool) -> Vec<Effect> {
    match act {
        PickAct::Before | PickAct::After => {
            branches::switch(state, Some(id), if act == PickAct::After { 1 } else { -1 });
            choose(state, pick.turn);
            Vec::new()
        }
        PickAct::Edit => {
            branches::rewrite(state, Some(id));
            Vec::new()
        }
        PickAct::Regenerate => branches::regenerate(state, Some(id)),
        PickAct::Continue => branches::go_on(state, Some(id)),
        PickAct::Beside => branches::beside(state, Some(id)),
        PickAct::Copy => {
            state.mode = Mode::Pick(pick);
            files::copy(state, Some(id))
        }
        PickAct::CopyBlock => {
            state.mode = Mode::Pick(Pick { block: pick.block + 1, ..pick });
            files::copy_block(state, id, pick.block)
        }
        PickAct::Delete if !sure => {
            let tree = &state.focused().conversation;
            let below = id..tree.nodes().len();
            let gone = below.filter(|other| tree.node(*other).is_some() && tree.is_below(*other, id)).count();
            state.mode = Mode::Pick(Pick { sure: Some(gone), ..pick });
            Vec::new()
        }
        PickAct::Delete => {
            let effects = branches::remove(state, id);
            if !state.focused().transcript.is_empty() {
                choose(state, pick.turn);
            }
            effects
        }
        _ => Vec::new(),
    }
}
