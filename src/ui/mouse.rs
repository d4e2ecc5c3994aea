//! The mouse, for whoever turns it on: a click chooses a pane, the wheel scrolls what is under it.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::state::{Mode, State};
use super::view::screen;

/// Lines that one notch of the wheel scrolls.
const NOTCH: isize = 3;

pub fn on_mouse(state: &mut State, event: MouseEvent) {
    let at = Position { x: event.column, y: event.row };
    // What is open over the panes hides them; a message that is chosen or found is in one.
    if !matches!(state.mode, Mode::Chat | Mode::Pick(_) | Mode::Search(_)) {
        return;
    }
    let Some(index) = screen::pane_at(state, at) else { return };
    match event.kind {
        MouseEventKind::Down(MouseButton::Left) if matches!(state.mode, Mode::Chat) => state.focus = index,
        MouseEventKind::ScrollUp => state.panes[index].transcript.scroll_by(-NOTCH),
        MouseEventKind::ScrollDown => state.panes[index].transcript.scroll_by(NOTCH),
        _ => {}
    }
}
