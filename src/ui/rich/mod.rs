//! Answers as they are read: Markdown while it streams, code with its words told apart. All of it is data; what an ink looks
//! like is the theme's to say.

pub mod blocks;
pub mod code;
pub mod markdown;
mod table;

use unicode_segmentation::UnicodeSegmentation;

use super::text::{grapheme_width, next_line, width};

/// What a piece of text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Text,
    /// Marks, addresses, borders.
    Quiet,
    Heading,
    Link,
    /// Code within a sentence, and code whose words are not told apart.
    Code,
    Keyword,
    Literal,
    Number,
    Comment,
    Name,
    Type,
}

/// How a piece of text is to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ink {
    pub kind: Kind,
    pub bold: bool,
    pub italic: bool,
    pub strike: bool,
}

impl Ink {
    pub fn of(kind: Kind) -> Ink {
        Ink { kind, ..Ink::default() }
    }
}

/// One line of text before it is wrapped. It has no line breaks, and has been cleaned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    pub text: String,
    /// Where each piece ends, in bytes, and its ink; text after the last is plain.
    pub inks: Vec<(usize, Ink)>,
    /// What stands before its first visual line and before the others.
    pub lead: String,
    pub rest: String,
}

impl Row {
    pub fn plain(text: &str) -> Row {
        Row { text: text.to_owned(), ..Row::default() }
    }

    pub fn push(&mut self, text: &str, ink: Ink) {
        if text.is_empty() {
            return;
        }
        self.text.push_str(text);
        match self.inks.last_mut() {
            Some((end, last)) if *last == ink => *end = self.text.len(),
            _ => self.inks.push((self.text.len(), ink)),
        }
    }

    /// The pieces of a part of it.
    pub fn pieces(&self, start: usize, end: usize) -> impl Iterator<Item = (&str, Ink)> {
        let mut from = 0;
        let last = (self.text.len(), Ink::default());
        let runs = self.inks.iter().copied().chain(std::iter::once(last)).map(move |(to, ink)| {
            let run = (from, to, ink);
            from = to;
            run
        });
        runs.filter_map(move |(from, to, ink)| {
            let (from, to) = (from.max(start), to.min(end));
            (from < to).then(|| (&self.text[from..to], ink))
        })
    }
}

/// One visual line: of which row, from where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub row: usize,
    pub start: usize,
    pub end: usize,
}

/// Wraps rows to so many columns. `work` counts what was looked at.
pub fn wrap(rows: &[Row], columns: usize, work: &mut u64) -> Vec<Span> {
    let mut spans = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        let room = columns.saturating_sub(width(&row.lead).max(width(&row.rest))).max(1);
        let mut from = Some(0);
        while let Some(start) = from {
            let line = next_line(&row.text, start, room, work);
            spans.push(Span { row: at, start: line.start, end: line.end });
            from = line.next;
        }
    }
    spans
}

/// Cut to so many columns, without a sign that it was.
fn cut(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        used += grapheme_width(grapheme);
        if used > columns {
            return &text[..at];
        }
    }
    text
}
