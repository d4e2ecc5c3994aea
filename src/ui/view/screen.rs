//! The whole screen, put together.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};

use super::{header, layout, machine, pane, popup, status};
use crate::engine::api::Status;
use crate::ui::state::{Pane, State};
use crate::ui::text::{clip, first_fit, width};

/// Tells panes and transcripts how large they are: what scrolling and wrapping depend on. Comes before `draw`.
pub fn measure(state: &mut State, area: Rect) {
    let layout = arrange(state, area);
    for (index, place) in &layout.panes {
        let parts = pane::parts(*place, &state.panes[*index], state.replay.is_none());
        let size = parts.transcript;
        state.panes[*index].transcript.resize(usize::from(size.width), usize::from(size.height));
    }
    machine::measure(state, layout.machine);
}

fn arrange(state: &State, area: Rect) -> layout::Layout {
    let lines = status::lines(state, usize::from(area.width)).len() as u16;
    layout::divide(area, state, lines)
}

/// Draws everything, and says where the cursor is.
pub fn draw(buf: &mut Buffer, area: Rect, state: &State) -> Option<Position> {
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
            format!("make the window larger: {size} shows the machine room"),
            format!("make the window larger ({size})"),
            format!("larger, please: {size}"),
            format!("{size}!"),
            String::new(),
        ];
        let text = first_fit(&wordings, usize::from(area.width));
        buf.set_stringn(layout.header.x, layout.header.y, text, usize::from(layout.header.width), theme.warn());
    } else {
        let held = state.machine.frozen.as_ref().map(|held| held.step);
        header::draw_with(buf, layout.header, &state.snapshot, theme, held);
        tabs(buf, layout.tabs, state);
        machine::draw(buf, layout.machine, state, &people);
        let lines = status::lines(state, usize::from(area.width));
        status::draw(buf, layout.status, &lines);
        status::footer(buf, layout.footer, state);
    }
    popup::draw(buf, area, state).or(cursor.filter(|_| !popup_open(state)))
}

fn popup_open(state: &State) -> bool {
    use crate::ui::state::Mode;
    matches!(state.mode, Mode::Help { .. } | Mode::Palette { .. } | Mode::Rename(_) | Mode::GoTo(_) | Mode::Params(_))
}

/// All panes by number and name, with what each is doing; the focused one marked. Those that have no room are counted.
fn tabs(buf: &mut Buffer, area: Rect, state: &State) {
    if area.height == 0 {
        return;
    }
    let theme = state.options.theme;
    let columns = usize::from(area.width);
    let text = |index: usize| {
        let pane = &state.panes[index];
        format!(" {}{}{} ", index + 1, tab_mark(state, pane), clip(&pane.person.name, 12))
    };
    let wide: Vec<usize> = (0..state.panes.len()).map(|index| width(&text(index))).collect();
    // Room for the words of what is left out at either side.
    let (before, after) = (|left: usize| format!("‹+{left} "), |left: usize| format!(" +{left}›"));
    let fits = |first: usize, end: usize| {
        let left = if first > 0 { width(&before(first)) } else { 0 };
        let right = if end < wide.len() { width(&after(wide.len() - end)) } else { 0 };
        left + wide[first..end].iter().sum::<usize>() + right <= columns
    };
    // The focused tab is always in view: from it to both sides as far as there is room.
    let (mut first, mut end) = (state.focus, state.focus + 1);
    loop {
        let grown = (end < wide.len() && fits(first, end + 1), first > 0 && fits(first - 1, end));
        match grown {
            (true, _) => end += 1,
            (false, true) => first -= 1,
            (false, false) => break,
        }
    }
    let mut spans = Vec::new();
    if first > 0 {
        spans.push(Span::styled(before(first), theme.quiet()));
    }
    for index in first..end {
        let pane = &state.panes[index];
        let style = if tab_mark(state, pane) == '×' { theme.bad() } else { theme.person(pane.person.hue) };
        spans.push(Span::styled(text(index), if index == state.focus { style.patch(theme.chosen()) } else { style }));
    }
    if end < wide.len() {
        spans.push(Span::styled(after(wide.len() - end), theme.quiet()));
    }
    buf.set_line(area.x, area.y, &Line::from(spans), area.width);
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
