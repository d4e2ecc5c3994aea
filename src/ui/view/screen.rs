//! The whole screen, put together.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::{header, layout, machine, pane, popup, settings, status};
use crate::engine::api::Status;
use crate::ui::state::{Mode, Pane, State};
use crate::ui::text::{clip, first_fit, width};
use crate::ui::words::say;

/// Tells panes and transcripts how large they are: what scrolling and wrapping depend on. Comes before `draw`.
pub fn measure(state: &mut State, area: Rect) {
    state.area = area;
    let layout = arrange(state, area);
    for (index, place) in &layout.panes {
        let parts = pane::parts(*place, &state.panes[*index], state.replay.is_none(), state.options.theme);
        let size = parts.transcript;
        state.panes[*index].transcript.resize(usize::from(size.width), usize::from(size.height));
    }
    machine::measure(state, layout.machine);
}

fn arrange(state: &State, area: Rect) -> layout::Layout {
    let lines = status::lines(state, usize::from(area.width)).len() as u16;
    layout::divide(area, state, lines)
}

/// How far what has the machine room can be scrolled, as large as the screen is now.
pub fn most_scroll(state: &State) -> usize {
    machine::most(state, arrange(state, state.area).machine)
}

/// How many panes are on screen at once.
pub fn panes_shown(state: &State) -> usize {
    arrange(state, state.area).panes.len()
}

/// The pane, or its tab, at a place of the screen.
pub fn pane_at(state: &State, at: Position) -> Option<usize> {
    let layout = arrange(state, state.area);
    let tab = || tab_places(state, layout.tabs).into_iter().find(|(_, place, _)| place.contains(at)).map(|(index, ..)| index);
    layout.panes.iter().find(|(_, place)| place.contains(at)).map(|(index, _)| *index).or_else(tab)
}

/// The machine room as it was drawn last. Of what changes a state, more text of an answer alone does not change it, and that
/// is what comes with almost every frame.
#[derive(Debug, Default)]
pub struct Kept(Option<Buffer>);

/// Draws everything, and says where the cursor is.
pub fn draw(buf: &mut Buffer, area: Rect, state: &State) -> Option<Position> {
    draw_again(buf, area, state, &mut Kept::default())
}

/// The same, with the machine room of the last time when that is kept.
pub fn draw_again(buf: &mut Buffer, area: Rect, state: &State, kept: &mut Kept) -> Option<Position> {
    let cursor = draw_signs(buf, area, state, kept);
    if state.options.theme.ascii() {
        crate::ui::ascii::plain(buf);
    }
    cursor
}

fn draw_signs(buf: &mut Buffer, area: Rect, state: &State, kept: &mut Kept) -> Option<Position> {
    if area.width == 0 || area.height == 0 {
        return None;
    }
    let layout = arrange(state, area);
    let people = state.people();
    let theme = state.options.theme;
    let mut cursor = None;
    for (index, place) in &layout.panes {
        if let Some(here) = pane::draw(buf, *place, state, *index, &people) {
            cursor = Some(here);
        }
    }
    if layout.too_small {
        let size = format!("{}×{}", layout::SMALLEST.0, layout::SMALLEST.1);
        let wordings = [
            say!(theme, "make the window larger: {} shows the machine room", size),
            say!(theme, "make the window larger ({})", size),
            say!(theme, "larger, please: {}", size),
            format!("{size}!"),
            String::new(),
        ];
        let text = first_fit(&wordings, usize::from(area.width));
        buf.set_stringn(layout.header.x, layout.header.y, text, usize::from(layout.header.width), theme.warn());
    } else {
        let held = state.machine.frozen.as_ref().map(|held| held.step);
        header::draw_with(buf, layout.header, &state.snapshot, theme, (held, state.unkept.as_ref()));
        tabs(buf, layout.tabs, state);
        match &kept.0 {
            Some(room) if room.area == layout.machine => copy(room, buf, room.area),
            _ => {
                machine::draw(buf, layout.machine, state, &people);
                kept.0 = Some(part(buf, layout.machine));
            }
        }
        let lines = status::lines(state, usize::from(area.width));
        status::draw(buf, layout.status, &lines);
        status::footer(buf, layout.footer, state);
    }
    if let Mode::Settings(desk) = &state.mode {
        cursor = settings::draw(buf, layout.desk, state, desk);
    }
    popup::draw(buf, area, state).or(cursor.filter(|_| !popup_open(state)))
}

/// A copy of a part of what is drawn.
fn part(buf: &Buffer, area: Rect) -> Buffer {
    let mut part = Buffer::empty(area.intersection(buf.area));
    let area = part.area;
    copy(buf, &mut part, area);
    part
}

fn copy(from: &Buffer, to: &mut Buffer, area: Rect) {
    for position in area.positions() {
        to[position].clone_from(&from[position]);
    }
}

fn popup_open(state: &State) -> bool {
    matches!(
        state.mode,
        Mode::Help { .. }
            | Mode::Log { .. }
            | Mode::Palette { .. }
            | Mode::Rename(_)
            | Mode::GoTo(_)
            | Mode::Params(_)
            | Mode::Export(_)
            | Mode::Shelf(_)
    )
}

/// Where the tabs of the panes stand: index, place, text. The focused one is always among them; what has no room is left out
/// at both ends.
fn tab_places(state: &State, area: Rect) -> Vec<(usize, Rect, String)> {
    if area.height == 0 {
        return Vec::new();
    }
    let text = |index: usize| {
        let pane = &state.panes[index];
        let mark = tab_mark(state, pane);
        format!(" {}{mark}{} ", index + 1, clip(&pane.person.name, 12))
    };
    let texts: Vec<String> = (0..state.panes.len()).map(text).collect();
    // Room for `‹+3` and `+12›` at the ends.
    const EDGE: usize = 5;
    let all: usize = texts.iter().map(|text| width(text)).sum();
    let room = usize::from(area.width);
    let (mut first, mut end, mut used) = (state.focus, state.focus + 1, width(&texts[state.focus]));
    let free = if all <= room { room } else { room.saturating_sub(2 * EDGE) };
    loop {
        if first > 0 && used + width(&texts[first - 1]) <= free {
            first -= 1;
            used += width(&texts[first]);
        } else if end < texts.len() && used + width(&texts[end]) <= free {
            used += width(&texts[end]);
            end += 1;
        } else {
            break;
        }
    }
    let mut x = area.x + if first > 0 { EDGE as u16 } else { 0 };
    let mut places = Vec::new();
    for (index, text) in texts.into_iter().enumerate().take(end).skip(first) {
        let columns = (width(&text) as u16).min(area.right().saturating_sub(x));
        places.push((index, Rect { x, width: columns, ..area }, text));
        x += columns;
    }
    places
}

/// All panes by number and name, the focused one marked; how many more there are at either end.
fn tabs(buf: &mut Buffer, area: Rect, state: &State) {
    let theme = state.options.theme;
    let places = tab_places(state, area);
    let (Some((first, ..)), Some((last, end, _))) = (places.first(), places.last()) else { return };
    if *first > 0 {
        buf.set_stringn(area.x, area.y, format!("‹+{first}"), usize::from(area.width), theme.quiet());
    }
    let more = state.panes.len() - 1 - last;
    if more > 0 && end.right() < area.right() {
        let room = usize::from(area.right() - end.right());
        buf.set_stringn(end.right(), area.y, format!(" +{more}›"), room, theme.quiet());
    }
    for (index, place, text) in &places {
        let pane = &state.panes[*index];
        let style = if tab_mark(state, pane) == '×' { theme.bad() } else { pane.person.style(theme) };
        let style = if *index == state.focus { style.patch(theme.chosen()) } else { style };
        buf.set_stringn(place.x, place.y, text, usize::from(place.width), style);
    }
}

/// What somebody is doing, as one sign.
fn tab_mark(state: &State, pane: &Pane) -> char {
    match state.view_of(pane).map(|view| view.status) {
        _ if !pane.live => ' ',
        _ if pane.preempted_by.is_some() => '×',
        Some(Status::Preempted) => '×',
        Some(Status::Waiting) => '·',
        Some(Status::Prefill { .. }) => '◐',
        _ => '●',
    }
}
