//! Who gets which part of the screen.

use ratatui::layout::Rect;

use crate::ui::state::{Mode, Rooms, State};

/// A chat pane smaller than this is not worth showing beside others.
const PANE_MIN: (u16, u16) = (30, 9);
/// From this width on, the rooms stand side by side.
const SIDE_BY_SIDE: u16 = 100;
/// Below this, only the chat.
pub const SMALLEST: (u16, u16) = (60, 16);

/// The parts of one screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    pub header: Rect,
    /// Names of the panes, when not all are shown.
    pub tabs: Rect,
    /// Index of a pane, and its place.
    pub panes: Vec<(usize, Rect)>,
    pub machine: Rect,
    /// The knobs, in the chats' place while they are open.
    pub desk: Rect,
    pub status: Rect,
    pub footer: Rect,
    /// The window is so small that only the chat is shown.
    pub too_small: bool,
}

/// Divides the screen. `status` lines are wanted above the footer.
pub fn divide(area: Rect, state: &State, status: u16) -> Layout {
    if state.machine.is_open() && (area.width < SMALLEST.0 || area.height < SMALLEST.1) {
        // Whoever looks at one thing sees it, whatever the size; the last line has the keys.
        let rows = area.height.saturating_sub(1);
        let footer = Rect { y: area.y + rows, height: area.height - rows, ..area };
        return Layout { machine: Rect { height: rows, ..area }, footer, ..Layout::default() };
    }
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        return small(area, state);
    }
    let header = Rect { height: 1, ..area };
    let footer = Rect { y: area.bottom() - 1, height: 1, ..area };
    let status_rows = status.min(area.height / 4);
    let status = Rect { y: footer.y - status_rows, height: status_rows, ..area };
    let body = Rect { y: area.y + 1, height: area.height - 2 - status_rows, ..area };
    let (room, machine) = rooms(body, state);
    let mut layout = Layout { header, status, footer, machine, ..Layout::default() };
    if matches!(state.mode, Mode::Settings(_)) {
        layout.desk = room;
        // Chats that have room under the knobs stay.
        if let Some(left) = room.height.checked_sub(super::settings::WANTED).filter(|left| *left >= PANE_MIN.1) {
            layout.desk.height = super::settings::WANTED;
            let rest = Rect { y: layout.desk.bottom(), height: left, ..room };
            place_panes(&mut layout, rest, state);
        }
    } else {
        place_panes(&mut layout, room, state);
    }
    layout
}

fn small(area: Rect, state: &State) -> Layout {
    let header = Rect { height: area.height.min(1), ..area };
    let room = Rect { y: area.y + header.height, height: area.height - header.height, ..area };
    let mut layout = Layout { header, too_small: true, ..Layout::default() };
    match state.mode {
        Mode::Settings(_) => layout.desk = room,
        _ => layout.panes = vec![(state.focus, room)],
    }
    layout
}

fn rooms(body: Rect, state: &State) -> (Rect, Rect) {
    let nothing = Rect { width: 0, height: 0, ..body };
    // A knob is turned to see what it does.
    let shown = if matches!(state.mode, Mode::Settings(_)) { Rooms::Both } else { state.rooms };
    match shown {
        _ if state.machine.is_open() => (nothing, body),
        Rooms::Chats => (body, nothing),
        Rooms::Machine => (nothing, body),
        Rooms::Both if body.width >= SIDE_BY_SIDE => {
            let machine = (body.width * 45 / 100).clamp(50, 96);
            let room = body.width - machine;
            (Rect { width: room, ..body }, Rect { x: body.x + room, width: machine, ..body })
        }
        Rooms::Both => {
            let users = state.panes.len() as u16;
            // Border, users, step times and numbers, budget, legend; the chat keeps its half.
            let machine = (users + 6).clamp(7, body.height.div_ceil(2).max(7)).min(body.height);
            let room = body.height - machine;
            (Rect { height: room, ..body }, Rect { y: body.y + room, height: machine, ..body })
        }
    }
}

/// All panes in a grid when each has room enough, else the focused one and tabs for the others.
fn place_panes(layout: &mut Layout, room: Rect, state: &State) {
    if room.width == 0 || room.height == 0 {
        return;
    }
    let count = state.panes.len();
    match grid(room, count).filter(|_| !state.zoom) {
        Some((columns, rows)) => layout.panes = cells(room, count, columns, rows),
        None => {
            layout.tabs = Rect { height: u16::from(count > 1), ..room };
            let rest = Rect { y: room.y + layout.tabs.height, height: room.height - layout.tabs.height, ..room };
            layout.panes = vec![(state.focus, rest)];
        }
    }
}

/// Columns and rows of the roundest grid whose cells are large enough.
fn grid(room: Rect, count: usize) -> Option<(u16, u16)> {
    (1..=count as u16)
        .map(|columns| (columns, (count as u16).div_ceil(columns)))
        .filter(|(columns, rows)| room.width / columns >= PANE_MIN.0 && room.height / rows >= PANE_MIN.1)
        // Wide cells read better than tall ones: about 3 columns of text to a row.
        .min_by_key(|(columns, rows)| {
            let (width, height) = (u32::from(room.width / columns), u32::from(room.height / rows));
            let empty = u32::from(columns * rows) - count as u32;
            width.abs_diff(3 * height) + empty * 12
        })
}

fn cells(room: Rect, count: usize, columns: u16, rows: u16) -> Vec<(usize, Rect)> {
    let cut = |length: u16, parts: u16, at: u16| length * at / parts;
    (0..count)
        .map(|index| {
            let row = index as u16 / columns;
            // The last row shares the width among those that are there.
            let in_row = if row == rows - 1 { count as u16 - row * columns } else { columns };
            let column = index as u16 % columns;
            let (x, next_x) = (cut(room.width, in_row, column), cut(room.width, in_row, column + 1));
            let (y, next_y) = (cut(room.height, rows, row), cut(room.height, rows, row + 1));
            (index, Rect { x: room.x + x, y: room.y + y, width: next_x - x, height: next_y - y })
        })
        .collect()
}
