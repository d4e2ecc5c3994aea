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
/// Rows of knobs that are always there, however little room is left.
const KNOBS_MIN: usize = 5;
/// Rows that it has use for: a border, the knobs, what one trades, the newest change and its figures.
pub const WANTED: u16 = 2 + Knob::ALL.len() as u16 + 12;

/// Draws it, and says where the cursor goes while a value is typed.
pub fn draw(buf: &mut Buffer, area: Rect, state: &State, desk: &Desk) -> Option<Position> {
    let theme = state.options.theme;
    let keys = if desk.typing.is_some() {
        vec![theme.tr("Enter sets it · Esc does not").to_owned()]
    } else {
        vec![
            theme.tr("↑ ↓ choose · ← → change at once · Enter types a value · Esc closes").to_owned(),
            theme.tr("↑↓ choose · ←→ change · Enter types · Esc").to_owned(),
            "↑↓ ←→ Enter Esc".to_owned(),
        ]
    };
    let inner = panel::frame(buf, area, theme.tr("settings"), &keys, theme)?;
    let columns = usize::from(inner.width);
    let height = usize::from(inner.height);
    let foot = foot(state, desk, columns, height.saturating_sub(KNOBS_MIN));
    let rows = height.saturating_sub(foot.len()).min(Knob::ALL.len());
    let first = (desk.at + 1).saturating_sub(rows);
    let mut cursor = None;
    for (row, knob) in Knob::ALL.into_iter().enumerate().skip(first).take(rows) {
        let place = row - first;
        put(buf, inner, place, knob_line(state, knob, row == desk.at, columns));
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

fn knob_line(state: &State, knob: Knob, chosen: bool, columns: usize) -> Line<'static> {
    let theme = state.options.theme;
    let mark = if chosen { "› " } else { "  " };
    let name = left(&format!("{mark}{}", knob.name()), NAME + GAP);
    let value = if chosen { format!("◂ {} ▸", knob.value(state)) } else { format!("  {}", knob.value(state)) };
    let range = columns.saturating_sub(NAME + GAP + VALUE + GAP);
    let style = if chosen { theme.strong() } else { theme.text() };
    let mut spans = vec![
        Span::styled(name, if chosen { theme.key() } else { theme.quiet() }),
        Span::styled(left(&value, VALUE + GAP), style),
    ];
    if range >= 8 {
        spans.push(Span::styled(clip(&knob.range(state), range), theme.quiet()));
    }
    Line::from(spans)
}

/// The lines under the knobs, in so many rows: what the chosen one trades goes last when there is no room.
fn foot(state: &State, desk: &Desk, columns: usize, rows: usize) -> Vec<Line<'static>> {
    let theme = state.options.theme;
    let mut lines: Vec<Line<'static>> = Vec::new();
    if let Some(error) = &desk.error {
        lines.extend(wrapped(error, columns).into_iter().map(|line| Line::styled(line, theme.bad())));
    } else {
        let about = wrapped(theme.tr(desk.knob().about()), columns);
        lines.extend(about.into_iter().map(|line| Line::styled(line, theme.text())));
    }
    let mut effect: Vec<Line<'static>> = Vec::new();
    if let Some(change) = newest_change(&state.snapshot) {
        let (words, style) = match change {
            Ok(what) => (say!(theme, "changed: {}", told::change(what, theme)), theme.good()),
            Err(why) => (say!(theme, "not changed: {}", told::not_changed(why, theme)), theme.bad()),
        };
        effect.extend(wrapped(&words, columns).into_iter().take(2).map(|line| Line::styled(line, style)));
    }
    if let Some(figures) = compared(state) {
        let head = since(state, theme).unwrap_or_default();
        let wordings = [say!(theme, "5 s before → newest 5 s, {}", head), theme.tr("before → now").to_owned()];
        effect.push(Line::styled(first_fit(&wordings, columns), theme.quiet()));
        effect.extend(compare_lines(figures, columns).into_iter().map(|line| Line::styled(line, theme.text())));
    }
    let blank = |lines: &[Line<'_>]| usize::from(!lines.is_empty());
    if lines.len() + effect.len() + blank(&effect) < rows {
        lines.insert(0, Line::default());
        if !effect.is_empty() {
            lines.push(Line::default());
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
