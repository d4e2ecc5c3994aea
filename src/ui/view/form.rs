//! The form of a pane's parameters, and where a conversation is to be written.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};

use super::popup::{field, frame};
use crate::ui::params::{COLUMNS, FIELDS, Form, PRESETS, SYSTEM};
use crate::ui::save::Save;
use crate::ui::state::State;
use crate::ui::text::{clip, first_fit};
use crate::ui::words::say;

const NAME: u16 = 20;
/// Columns of a number.
const NUMBER: u16 = 14;
/// Lines of the system prompt in view.
const SYSTEM_ROWS: usize = 4;

/// The rows of the form, top first: presets, then the fields; each with its height.
fn rows(form: &Form) -> Vec<(usize, u16)> {
    let (lines, ..) = form.fields[SYSTEM].layout(COLUMNS);
    let system = lines.len().clamp(1, SYSTEM_ROWS) as u16;
    std::iter::once((PRESETS, 1)).chain((0..FIELDS.len()).map(|at| (at, if at == SYSTEM { system } else { 1 }))).collect()
}

/// Draws the form, and says where the cursor goes.
pub fn draw(buf: &mut Buffer, area: Rect, state: &State, form: &Form) -> Option<Position> {
    let theme = state.options.theme;
    let pane = state.focused();
    let title = say!(theme, "Answers for {}", clip(&pane.person.name, 24));
    let rows = rows(form);
    let wanted: u16 = rows.iter().map(|(_, height)| height).sum();
    let foot = theme.tr("↑ ↓ field · Enter applies · Esc leaves it as it was");
    let inner = frame(buf, area, state, (78, wanted + 5), &title, foot);
    if inner.height == 0 || inner.width < 30 {
        return None;
    }
    let lines = inner.height.saturating_sub(3).max(1);
    let mut y = inner.y;
    let mut cursor = None;
    for (at, height) in in_view(&rows, form.at, lines) {
        let place = Rect { x: inner.x + 1, y, width: inner.width - 2, height };
        if let Some(here) = one(buf, place, state, form, at) {
            cursor = Some(here);
        }
        y += height;
    }
    let room = usize::from(inner.width.saturating_sub(2));
    if inner.height > 3 {
        let about =
            if form.at == PRESETS { theme.tr("← → fill the fields with a preset") } else { theme.tr(FIELDS[form.at].about) };
        buf.set_stringn(inner.x + 1, inner.bottom() - 2, clip(about, room), room, theme.text());
        let name = clip(&pane.person.name, 24);
        let when = match pane.live {
            true => say!(theme, "For {} alone, from the next prompt on; what runs keeps its own.", name),
            false => say!(theme, "For {} alone, from the next prompt on.", name),
        };
        buf.set_stringn(inner.x + 1, inner.bottom() - 1, clip(&when, room), room, theme.quiet());
    }
    cursor
}

/// The rows that fit around the one that is edited.
fn in_view(rows: &[(usize, u16)], at: usize, lines: u16) -> Vec<(usize, u16)> {
    let here = rows.iter().position(|(row, _)| *row == at).unwrap_or(0);
    let sum = |rows: &[(usize, u16)]| rows.iter().map(|(_, height)| *height).sum::<u16>();
    let first = (0..=here).find(|first| sum(&rows[*first..=here]) <= lines).unwrap_or(here);
    let mut left = lines;
    let mut shown = Vec::new();
    for (row, height) in &rows[first..] {
        let height = (*height).min(left);
        if height == 0 {
            break;
        }
        shown.push((*row, height));
        left -= height;
    }
    shown
}

fn one(buf: &mut Buffer, area: Rect, state: &State, form: &Form, at: usize) -> Option<Position> {
    let theme = state.options.theme;
    let here = form.at == at;
    let style = if here { theme.key() } else { theme.quiet() };
    let mark = if here { "▸" } else { " " };
    let name = if at == PRESETS { "preset" } else { FIELDS[at].name };
    buf.set_stringn(area.x, area.y, format!("{mark}{name:<18}"), usize::from(NAME), style);
    let place = Rect { x: area.x + NAME, width: area.width.saturating_sub(NAME), ..area };
    if at == PRESETS {
        presets(buf, place, state, form);
        return here.then_some(Position { x: place.x.min(place.right().saturating_sub(1)), y: place.y });
    }
    if at == SYSTEM {
        return system(buf, place, state, form).filter(|_| here);
    }
    let number =
        Rect { width: if FIELDS[at].name == "stop" { place.width / 2 } else { NUMBER.min(place.width) }, height: 1, ..place };
    let cursor = field(buf, number, state, &form.fields[at], "");
    let x = number.right() + 1;
    let room = usize::from(area.right().saturating_sub(x));
    match &form.errors[at] {
        Some(error) => buf.set_stringn(x, area.y, clip(&format!("× {error}"), room), room, theme.bad()),
        None => {
            let range = theme.tr(FIELDS[at].range).to_owned();
            let now = say!(theme, "{} · now {}", range, now(state, at));
            buf.set_stringn(x, area.y, first_fit(&[now, range, String::new()], room), room, theme.quiet())
        }
    };
    here.then_some(cursor)
}

/// What a field is in force as.
fn now(state: &State, at: usize) -> String {
    let pane = state.focused();
    let sampling = &pane.sampling;
    match at {
        1 => sampling.temperature.to_string(),
        2 => sampling.top_k.to_string(),
        3 => sampling.top_p.to_string(),
        4 => sampling.min_p.to_string(),
        5 => sampling.repetition_penalty.to_string(),
        6 => sampling.max_tokens.to_string(),
        7 => pane.seed.map_or_else(|| "–".to_owned(), |seed| seed.to_string()),
        8 => sampling.stop.len().to_string(),
        _ => pane.priority.to_string(),
    }
}

fn presets(buf: &mut Buffer, area: Rect, state: &State, form: &Form) {
    let theme = state.options.theme;
    let now = form.preset();
    let mut spans = Vec::new();
    // The one that is chosen is in view.
    let first = now.map_or(0, |now| now.saturating_sub(3));
    for (at, preset) in form.presets.iter().enumerate().skip(first) {
        let style = if now == Some(at) { theme.chosen() } else { theme.text() };
        spans.push(Span::styled(format!(" {} ", preset.name), style));
    }
    if now.is_none() {
        spans.insert(0, Span::styled(format!(" {} ", theme.tr("your own values")), theme.chosen()));
    }
    buf.set_line(area.x, area.y, &Line::from(spans), area.width);
}

fn system(buf: &mut Buffer, area: Rect, state: &State, form: &Form) -> Option<Position> {
    let theme = state.options.theme;
    let editor = &form.fields[SYSTEM];
    let (lines, row, column) = editor.layout(COLUMNS.min(usize::from(area.width)));
    let first = (row + 1).saturating_sub(usize::from(area.height));
    for (y, (start, end)) in (area.y..area.bottom()).zip(lines.iter().skip(first)) {
        buf.set_stringn(area.x, y, &editor.text()[*start..*end], usize::from(area.width), theme.text());
    }
    let y = area.y + (row - first) as u16;
    (area.width > 0 && y < area.bottom()).then(|| Position { x: (area.x + column as u16).min(area.right() - 1), y })
}

/// Where a conversation is to be written.
pub fn export(buf: &mut Buffer, area: Rect, state: &State, save: &Save) -> Option<Position> {
    let theme = state.options.theme;
    let title = say!(theme, "Write {}'s conversation to a file", clip(&state.focused().person.name, 24));
    let inner = frame(buf, area, state, (78, 4), &title, theme.tr("Enter writes it · Esc does not"));
    if inner.height == 0 || inner.width < 4 {
        return None;
    }
    let cursor = field(buf, Rect { height: 1, ..inner }, state, &save.path, " ");
    let room = usize::from(inner.width.saturating_sub(2));
    let help = theme.tr("as Markdown, what is on screen; with the ending .json: all branches, with their figures");
    let (words, style) = match &save.problem {
        Some(problem) => (problem.as_str(), theme.bad()),
        None => (help, theme.quiet()),
    };
    if inner.height > 1 {
        buf.set_stringn(inner.x + 1, inner.y + 1, clip(words, room), room, style);
    }
    Some(cursor)
}
