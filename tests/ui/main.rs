//! The screen as a function of its state: keys to effects, whole layouts, and anything at all without a panic.

#[path = "../support/screens.rs"]
mod sample;

mod acts;
mod branches;
mod chat;
mod colours;
mod drafts;
mod edges;
mod fuzz;
mod history;
mod knobs;
mod layouts;
mod machine;
mod reading;
mod recording;
mod tongues;

use std::sync::Arc;
use std::time::Duration;

use batchroom::batch::UserId;
use batchroom::engine::api::Snapshot;
use batchroom::ui::state::State;
use batchroom::ui::update::{Effect, Msg, update};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A screen whose panes are the users of the sample snapshots.
fn state(snapshot: Snapshot) -> State {
    let mut state = State::new(sample::options(), Arc::new(snapshot), 7);
    for (at, pane) in state.panes.iter_mut().enumerate() {
        pane.person.user = UserId(at as u32);
    }
    state
}

fn key(code: KeyCode) -> Msg {
    Msg::Key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn with(modifiers: KeyModifiers, code: KeyCode) -> Msg {
    Msg::Key(KeyEvent::new(code, modifiers))
}

fn act(state: &mut State, msg: Msg) -> Vec<Effect> {
    let now = state.now + Duration::from_millis(10);
    update(state, msg, now)
}

fn type_text(state: &mut State, text: &str) {
    for c in text.chars() {
        assert_eq!(act(state, key(KeyCode::Char(c))), []);
    }
}
