//! Tables laid out for a width.

use pulldown_cmark::Alignment;

use super::{Ink, Kind, Row, cut, wrap};
use crate::ui::text::width;

/// A column of a table that is too wide keeps this much.
const LEAST: usize = 6;
const BETWEEN: &str = " │ ";

/// Rows of cells, the head first. Each cell is one line.
#[derive(Debug, Default)]
pub struct Table {
    pub rows: Vec<Vec<Row>>,
    /// How the texts of each column stand; of columns that are not here: at the left.
    pub sides: Vec<Alignment>,
}

impl Table {
    /// Side by side if that is possible, else each row as a list of its cells.
    pub fn lay_out(&self, columns: usize, lead: &str) -> Vec<Row> {
        let room = columns.saturating_sub(width(lead));
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        match self.widths(count, room) {
            Some(widths) => self.side_by_side(&widths, lead),
            None => self.as_list(lead),
        }
    }

    /// Columns of each, in sum no more than there is room; None: there is too little.
    fn widths(&self, count: usize, room: usize) -> Option<Vec<usize>> {
        let widest = |at: usize| self.rows.iter().filter_map(|row| row.get(at)).map(|cell| width(&cell.text)).max();
        let mut widths: Vec<usize> = (0..count).map(|at| widest(at).unwrap_or(0).max(1)).collect();
        let room = room.checked_sub(width(BETWEEN) * count.saturating_sub(1))?;
        // The widest give first.
        while widths.iter().sum::<usize>() > room {
            let (at, most) = widths.iter().copied().enumerate().max_by_key(|(_, columns)| *columns)?;
            if most <= LEAST {
                return None;
            }
            let second = widths.iter().copied().filter(|columns| *columns < most).max().unwrap_or(0).max(LEAST);
            let over = widths.iter().sum::<usize>() - room;
            widths[at] = most.saturating_sub(over).max(second).min(most - 1);
        }
        Some(widths)
    }

    /// Blanks before a text that leaves so many of its column.
    fn before(&self, column: usize, left: usize) -> usize {
        match self.sides.get(column) {
            Some(Alignment::Right) => left,
            Some(Alignment::Center) => left / 2,
            Some(Alignment::Left | Alignment::None) | None => 0,
        }
    }

    fn side_by_side(&self, widths: &[usize], lead: &str) -> Vec<Row> {
        let quiet = Ink::of(Kind::Quiet);
        let mut rows = Vec::new();
        for (at, cells) in self.rows.iter().enumerate() {
            let wrapped: Vec<_> =
                cells.iter().zip(widths).map(|(cell, columns)| wrap(std::slice::from_ref(cell), *columns, &mut 0)).collect();
            for line in 0..wrapped.iter().map(Vec::len).max().unwrap_or(0) {
                let mut row = Row { lead: lead.to_owned(), rest: lead.to_owned(), ..Row::default() };
                for (column, columns) in widths.iter().enumerate() {
                    if column > 0 {
                        row.push(BETWEEN, quiet);
                    }
                    let mut used = 0;
                    let mut before = 0;
                    if let (Some(cell), Some(span)) = (cells.get(column), wrapped.get(column).and_then(|spans| spans.get(line))) {
                        let long: usize = cell.pieces(span.start, span.end).map(|(piece, _)| width(piece)).sum();
                        before = self.before(column, columns.saturating_sub(long));
                        row.push(&" ".repeat(before), Ink::default());
                        for (piece, ink) in cell.pieces(span.start, span.end) {
                            let piece = cut(piece, columns - used);
                            used += width(piece);
                            row.push(piece, Ink { bold: ink.bold || at == 0, ..ink });
                        }
                    }
                    if column + 1 < widths.len() {
                        row.push(&" ".repeat(columns.saturating_sub(before + used)), Ink::default());
                    }
                }
                rows.push(row);
            }
            if at == 0 {
                let line: Vec<String> = widths.iter().map(|columns| "─".repeat(*columns)).collect();
                let mut row = Row { lead: lead.to_owned(), rest: lead.to_owned(), ..Row::default() };
                row.push(&line.join("─┼─"), quiet);
                rows.push(row);
            }
        }
        rows
    }

    fn as_list(&self, lead: &str) -> Vec<Row> {
        let Some((head, body)) = self.rows.split_first() else { return Vec::new() };
        let mut rows = Vec::new();
        for cells in body {
            for (at, cell) in cells.iter().enumerate() {
                let (first, rest) = if at == 0 { ("• ", "  ") } else { ("  ", "  ") };
                let mut row = Row { lead: format!("{lead}{first}"), rest: format!("{lead}{rest}"), ..Row::default() };
                if let Some(name) = head.get(at).filter(|name| !name.text.is_empty()) {
                    row.push(&format!("{}: ", name.text), Ink { bold: true, ..Ink::default() });
                }
                cell.pieces(0, cell.text.len()).for_each(|(piece, ink)| row.push(piece, ink));
                rows.push(row);
            }
        }
        rows
    }
}
