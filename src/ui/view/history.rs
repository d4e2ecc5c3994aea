//! The list of earlier conversations.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};

use super::popup::{field, frame};
use crate::ui::state::State;
use crate::ui::text::{clip, one_line, width};
use crate::ui::update::history::{ChatRow, Shelf};

/// Draws it, and says where the cursor is.
pub fn draw(buf: &mut Buffer, area: Rect, state: &State, shelf: &Shelf) -> Option<Position> {
    let theme = state.options.theme;
    let (title, foot) = (theme.tr("Earlier conversations"), theme.tr("type to search · Enter opens it here · Esc closes"));
    let inner = frame(buf, area, state, (100, 26), title, foot);
    if inner.height < 2 || inner.width < 8 {
        return None;
    }
    let cursor = field(buf, Rect { height: 1, ..inner }, state, &shelf.filter, "> ");
    let rows = usize::from(inner.height) - 1;
    let columns = usize::from(inner.width);
    let waiting = shelf.answered.as_deref() != Some(shelf.filter.text());
    let words = match &shelf.fault {
        Some(fault) => Some((fault.as_str(), theme.bad())),
        None if !shelf.rows.is_empty() => None,
        None if waiting => Some((theme.tr("looking…"), theme.quiet())),
        None if shelf.filter.is_empty() => Some((theme.tr("there are none yet"), theme.quiet())),
        None => Some((theme.tr("no conversation has that"), theme.quiet())),
    };
    if let Some((words, style)) = words {
        buf.set_stringn(inner.x + 1, inner.y + 1, clip(words, columns - 2), columns - 2, style);
    }
    let chosen = shelf.chosen.min(shelf.rows.len().saturating_sub(1));
    let first = (chosen + 1).saturating_sub(rows);
    for (at, row) in shelf.rows.iter().enumerate().skip(first).take(rows) {
        let y = inner.y + 1 + (at - first) as u16;
        buf.set_line(inner.x, y, &line(row, columns, at == chosen, state), inner.width);
    }
    Some(cursor)
}

/// Mark, date, person, words: the words get what is left.
fn line(row: &ChatRow, columns: usize, chosen: bool, state: &State) -> Line<'static> {
    let theme = state.options.theme;
    let mark = if chosen { "› " } else { "  " };
    let mark = if theme.ascii() && chosen { "> " } else { mark };
    let date = if columns >= 60 { format!("{}  ", row.date) } else { String::new() };
    let person = clip(&one_line(&row.person), 12);
    let person = format!("{person}{}  ", " ".repeat(12usize.saturating_sub(width(&person))));
    let room = columns.saturating_sub(width(mark) + width(&date) + width(&person) + 1);
    let words = clip(&one_line(&row.words), room);
    let pad = " ".repeat(room.saturating_sub(width(&words)) + 1);
    if chosen {
        return Line::from(Span::styled(format!("{mark}{date}{person}{words}{pad}"), theme.chosen()));
    }
    Line::from(vec![
        Span::raw(mark),
        Span::styled(date, theme.quiet()),
        Span::styled(person, theme.strong()),
        Span::styled(words, theme.text()),
    ])
}
