//! The knobs where the chats were: what each is, what it trades, and what the newest change did to the figures.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};

use super::panel::{self, left, put, right, wrapped};
use crate::ui::settings::{Desk, Knob, compared, newest_change, since};
use crate::ui::state::State;
use crate::ui::text::{clip, first_fit, width};
use crate::ui::told;
use crate::ui::words::say;

/// Columns of the longest name.
const NAME: usize = 23;
const VALUE: usize = 23;
const GAP: usize = 2;
/// Columns around a value that is chosen.
const MARKS: usize = 4;
/// Rows of knobs that are always there, however little room is left.
const KNOBS_MIN: usize = 5;
/// Rows that it has use for: a border, the knobs, what one trades, the newest change and its figures.
pub const WANTED: u16 = 2 + Knob::ALL.len() as u16 + 12;

/// Draws it, and says where the cursor goes while a value is typed.
pub fn draw(buf: &mut Buffer, area: Rect, state: &State, desk: &Desk) -> Option<Position> {
    let theme = state.options.theme;
    let keys = if desk.typing.is_some() {
        vec![theme.tr("Enter sets it · Esc leaves it as it was").to_owned(), "Enter · Esc".to_owned()]
    } else {
        vec![
            theme.tr("↑ ↓ choose · ← → change at once · Enter types a value · Esc closes").to_owned(),
            theme.tr("↑↓ choose · ←→ change · Enter types · Esc").to_owned(),
            "↑↓ ←→ Enter Esc".to_owned(),
        ]
    };
    let columns = panel::inner_width(area.width);
    let height = usize::from(area.height).saturating_sub(2);
    let foot = foot(state, desk, columns, height.saturating_sub(KNOBS_MIN));
    let rows = height.saturating_sub(foot.len()).min(Knob::ALL.len());
    let first = (desk.at + 1).saturating_sub(rows);
    // What has no room is there nevertheless.
    let hidden = [("↑", first), ("↓", Knob::ALL.len() - first - rows)].into_iter().filter(|(_, count)| *count > 0);
    let hidden: Vec<String> = hidden.map(|(arrow, count)| say!(theme, "{} {} more", arrow, count)).collect();
    let keys: Vec<String> = match hidden.is_empty() {
        true => keys,
        false => keys.iter().map(|keys| format!("{keys} · {}", hidden.join(" "))).chain([hidden.join(" ")]).collect(),
    };
    let inner = panel::frame(buf, area, theme.tr("settings"), &keys, theme)?;
    let mut cursor = None;
    let values = value_columns(state, columns);
    for (row, knob) in Knob::ALL.into_iter().enumerate().skip(first).take(rows) {
        let place = row - first;
        put(buf, inner, place, knob_line(state, knob, row == desk.at, (columns, values)));
        if row == desk.at
            && let Some(editor) = &desk.typing
        {
            let room = VALUE.min(columns.saturating_sub(NAME + GAP));
            let shown = clip(editor.text(), room.saturating_sub(1));
            let x = (NAME + GAP) as u16;
            panel::put_at(buf, inner, (usize::from(x), place), &left(&shown, room), theme.strong());
            let x = inner.x + x + width(&shown) as u16;
            cursor = Some(Position { x: x.min(inner.right().saturating_sub(1)), y: inner.y + place as u16 });
        }
    }
    let from = rows;
    for (row, line) in foot.into_iter().enumerate() {
        put(buf, inner, from + row, line);
    }
    cursor
}

/// Columns of the values: of all of them where the ranges have room beside them, else of those that are short.
fn value_columns(state: &State, columns: usize) -> usize {
    let widest = |short: bool| {
        let knobs = Knob::ALL.into_iter().filter(|knob| !short || *knob != Knob::KvBudget);
        knobs.map(|knob| width(&knob.value(state))).max().unwrap_or(0) + MARKS + 1
    };
    let ranges = Knob::ALL.into_iter().map(|knob| width(&knob.range(state))).max().unwrap_or(0);
    let all = widest(false);
    if NAME + GAP + all + ranges <= columns { all } else { widest(true) }
}

/// What a value that is chosen looks like.
fn shown_value(state: &State, knob: Knob, chosen: bool) -> String {
    if chosen { format!("◂ {} ▸", knob.value(state)) } else { format!("  {}", knob.value(state)) }
}

/// The range of a knob, if all of it has room beside the value.
fn range_beside(state: &State, knob: Knob, (columns, values): (usize, usize)) -> Option<String> {
    let value = values.max(width(&knob.value(state)) + MARKS + 1);
    let range = knob.range(state);
    (NAME + GAP + value + width(&range) <= columns).then_some(range)
}

fn knob_line(state: &State, knob: Knob, chosen: bool, room: (usize, usize)) -> Line<'static> {
    let theme = state.options.theme;
    let mark = if chosen { "› " } else { "  " };
    let name = left(&format!("{mark}{}", knob.name()), NAME + GAP);
    let value = shown_value(state, knob, chosen);
    let values = room.1.max(width(&knob.value(state)) + MARKS + 1);
    let style = if chosen { theme.strong() } else { theme.text() };
    let mut spans =
        vec![Span::styled(name, if chosen { theme.key() } else { theme.quiet() }), Span::styled(left(&value, values), style)];
    if let Some(range) = range_beside(state, knob, room) {
        spans.push(Span::styled(range, theme.quiet()));
    }
    Line::from(spans)
}

/// The lines under the knobs, in so many rows: what came of the newest change has its room first.
fn foot(state: &State, desk: &Desk, columns: usize, rows: usize) -> Vec<Line<'static>> {
    let theme = state.options.theme;
    let mut lines: Vec<Line<'static>> = Vec::new();
    if let Some(error) = &desk.error {
        lines.extend(wrapped(error, columns).into_iter().map(|line| Line::styled(line, theme.bad())));
    } else {
        if range_beside(state, desk.knob(), (columns, value_columns(state, columns))).is_none() {
            let may = say!(theme, "it may be: {}", desk.knob().range(state));
            lines.extend(wrapped(&may, columns).into_iter().map(|line| Line::styled(line, theme.quiet())));
        }
        let about = wrapped(theme.tr(desk.knob().about()), columns);
        lines.extend(about.into_iter().map(|line| Line::styled(line, theme.text())));
    }
    let mut effect: Vec<Line<'static>> = Vec::new();
    if let Some(change) = newest_change(state) {
        let (words, style) = match change {
            Ok(what) => (say!(theme, "changed: {}", told::change(&what, theme)), theme.good()),
            Err(why) => (say!(theme, "not changed: {}", told::not_changed(why, theme)), theme.bad()),
        };
        effect.extend(wrapped(&words, columns).into_iter().take(2).map(|line| Line::styled(line, style)));
    }
    if let Some(figures) = compared(state) {
        // Figures before words, where there is little room.
        if rows < 2 + effect.len() + 3 {
            effect.clear();
        }
        effect.push(Line::styled(first_fit(&since(state, theme), columns), theme.quiet()));
        effect.extend(compare_lines(figures, columns).into_iter().map(|line| Line::styled(line, theme.text())));
    }
    let blank = |lines: &[Line<'_>]| usize::from(!lines.is_empty());
    if lines.len() + effect.len() + blank(&effect) < rows {
        lines.insert(0, Line::default());
        if !effect.is_empty() {
            lines.push(Line::default());
        }
    }
    let about = rows.saturating_sub(effect.len()).max(1);
    if lines.len() > about {
        lines.truncate(about);
        if let Some(last) = lines.last_mut() {
            let cut: String = last.spans.iter().map(|span| span.content.as_ref()).collect();
            *last = Line::styled(format!("{} …", clip(&cut, columns.saturating_sub(2))), last.style);
        }
    }
    lines.extend(effect);
    lines.truncate(rows);
    lines
}

/// As many figures on a line as fit.
fn compare_lines(figures: Vec<(&'static str, String, String)>, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (name, before, now) in figures {
        let word = format!("{} {} → {}", left(name, 5), right(&before, 6), left(&now, 6));
        match lines.last_mut() {
            Some(line) if width(line) + 3 + width(&word) <= columns => {
                line.push_str("   ");
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}
