//! One message as it is shown: cleaned, cut into blocks, each block made into rows once and wrapped once for a width.

use std::sync::Arc;

use super::rich::blocks::{Closed, Splitter, What};
use super::rich::code::{Highlighter, Progress};
use super::rich::{Ink, Kind, Row, Span, markdown, wrap};
use super::text::{Cleaner, Wrap};
use crate::conversation::NodeId;
use crate::text::Role;

/// What every message of a pane is shown on.
#[derive(Clone, Debug)]
pub struct Page {
    /// Columns of text, without the gutter.
    pub columns: usize,
    /// Answers as Markdown, or as they were written.
    pub markdown: bool,
    /// None: not loaded yet, or not wanted.
    pub highlighter: Option<Arc<Highlighter>>,
}

/// One message of the conversation.
#[derive(Clone, Debug)]
pub struct Turn {
    pub role: Role,
    /// Which message of the tree it shows.
    pub node: Option<NodeId>,
    /// Which of how many siblings it is.
    pub place: (usize, usize),
    /// How the answer ended, when that is worth a line.
    pub note: Option<String>,
    shown: String,
    cleaner: Cleaner,
    splitter: Splitter,
    chunks: Vec<Chunk>,
    /// The part that is still being written, as it was at the last look.
    open: Option<Chunk>,
    /// The open part has changed since.
    stale: bool,
    /// Inside code: its language, and where in its grammar.
    code: Option<Progress>,
    has_code: bool,
    note_wrap: Wrap,
    /// Bytes cut away from the front of `shown`: positions count from there.
    cut: usize,
    hidden: bool,
    over: bool,
    /// Graphemes wrapped and bytes made into rows.
    pub work: u64,
}

/// A block, in rows and wrapped.
#[derive(Clone, Debug)]
struct Chunk {
    start: usize,
    end: usize,
    /// Its first line among those of the turn, the gap before it included.
    top: usize,
    gap: bool,
    rows: Vec<Row>,
    spans: Vec<Span>,
    /// The rows themselves depend on the width.
    wide: bool,
    /// Of the table that it goes on with.
    head: Option<String>,
}

impl Chunk {
    fn height(&self) -> usize {
        usize::from(self.gap) + self.spans.len()
    }
}

/// A part of a row on one visual line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown<'a> {
    pub role: Role,
    /// The first line of its message.
    pub first: bool,
    pub row: &'a Row,
    pub start: usize,
    pub end: usize,
}

impl<'a> Shown<'a> {
    pub fn lead(&self) -> &'a str {
        if self.start == 0 { &self.row.lead } else { &self.row.rest }
    }

    pub fn text(&self) -> &'a str {
        &self.row.text[self.start..self.end]
    }
}

/// One visual line of a transcript.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TurnLine<'a> {
    /// Before a message that has siblings: which it is, of how many.
    Branch(usize, usize),
    Text(Shown<'a>),
    Note(&'a str),
    Blank,
}

/// A place in a message that stays where it is whatever comes after it, and however it is wrapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anchor {
    /// Where its block begins, in bytes of the whole message.
    pub block: usize,
    pub row: usize,
    pub byte: usize,
    /// Lines further down.
    pub past: isize,
}

static EMPTY: Row = Row { text: String::new(), inks: Vec::new(), lead: String::new(), rest: String::new() };

impl Turn {
    pub fn new(role: Role, text: &str, page: &Page) -> Self {
        let mut turn = Turn {
            role,
            node: None,
            place: (0, 0),
            note: None,
            shown: String::new(),
            cleaner: Cleaner::default(),
            splitter: Splitter::new(true),
            chunks: Vec::new(),
            open: None,
            stale: false,
            code: None,
            has_code: false,
            note_wrap: Wrap::default(),
            cut: 0,
            hidden: false,
            over: false,
            work: 0,
        };
        turn.splitter = turn.begin(page);
        turn.push(text, page);
        turn.settle(page);
        turn
    }

    fn begin(&self, page: &Page) -> Splitter {
        Splitter::new(self.role != Role::Assistant || !page.markdown)
    }

    pub fn push(&mut self, text: &str, page: &Page) {
        self.cleaner.push(text, &mut self.shown);
        self.stale = true;
        let mut closed = Vec::new();
        self.splitter.feed(&self.shown, &mut closed);
        self.add(closed, page);
    }

    /// Nothing more comes.
    pub fn close(&mut self, note: Option<String>, page: &Page) {
        self.cleaner.finish(&mut self.shown);
        self.over = true;
        self.finish(page);
        self.note = note;
        self.note_wrap = Wrap::default();
        self.settle(page);
    }

    fn finish(&mut self, page: &Page) {
        let mut closed = Vec::new();
        self.splitter.finish(&self.shown, &mut closed);
        self.add(closed, page);
        let blank = |chunk: &Chunk| chunk.rows.iter().all(|row| row.text.trim().is_empty() && row.lead.is_empty());
        while self.chunks.last().is_some_and(blank) {
            self.chunks.pop();
        }
        self.stale = true;
    }

    /// Makes all blocks again, for another way to show them.
    pub fn show_anew(&mut self, page: &Page) {
        if self.hidden {
            return;
        }
        self.splitter = self.begin(page);
        (self.chunks, self.code) = (Vec::new(), None);
        let mut closed = Vec::new();
        self.splitter.feed(&self.shown, &mut closed);
        self.add(closed, page);
        if self.over {
            self.finish(page);
        }
        self.stale = true;
        self.settle(page);
    }

    fn add(&mut self, closed: Vec<Closed>, page: &Page) {
        for block in closed {
            let mut progress = self.code.take();
            if let (What::CodeBegin(language), Some(highlighter)) = (&block.what, &page.highlighter) {
                progress = highlighter.begin(language);
            }
            self.has_code |= matches!(block.what, What::CodeBegin(_));
            let mut chunk = self.chunk(&block, page, &mut progress);
            self.code = progress.filter(|_| block.what != What::CodeEnd);
            let last = self.chunks.last();
            chunk.gap &= last.is_some();
            chunk.top = last.map_or(0, |last| last.top + last.height());
            self.chunks.push(chunk);
        }
    }

    /// Rows of a block of `shown`.
    fn chunk(&mut self, block: &Closed, page: &Page, progress: &mut Option<Progress>) -> Chunk {
        let text = &self.shown[block.start..block.end];
        self.work += text.len() as u64;
        let line = text.trim_end_matches('\n');
        let lead = |mark: &str| format!("{}{mark}", " ".repeat(self.splitter.indent().min(page.columns / 4)));
        let (rows, wide) = match &block.what {
            What::Prose => prose(&block.head, text, page.columns),
            What::Raw => (vec![Row::plain(line)], false),
            What::CodeEnd => (Vec::new(), false),
            What::CodeBegin(language) => {
                let mut row = Row { lead: lead("┌ "), rest: lead("│ "), ..Row::default() };
                row.push(language, Ink::of(Kind::Quiet));
                (vec![row], false)
            }
            What::Code => {
                let indent = line.bytes().take(self.splitter.indent()).take_while(|byte| *byte == b' ').count();
                let line = &line[indent..];
                let inks = match (progress, &page.highlighter) {
                    (Some(progress), Some(highlighter)) => highlighter.line(progress, line),
                    _ => vec![(line.len(), Ink::of(Kind::Code))],
                };
                (vec![Row { text: line.to_owned(), inks, lead: lead("│ "), rest: lead("│ ") }], false)
            }
        };
        let spans = wrap(&rows, page.columns, &mut self.work);
        Chunk {
            start: block.start + self.cut,
            end: block.end + self.cut,
            top: 0,
            gap: block.gap,
            rows,
            spans,
            wide,
            head: block.head.clone(),
        }
    }

    /// Brings the open part up to date; once a frame is enough.
    pub fn settle(&mut self, page: &Page) {
        if let Some(note) = &self.note {
            self.note_wrap.update(note, page.columns);
        }
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let block = self.splitter.open(self.shown.len());
        if block.start >= block.end {
            self.open = None;
            return;
        }
        let mut progress = self.code.clone();
        let mut chunk = self.chunk(&block, page, &mut progress);
        chunk.gap &= !self.chunks.is_empty();
        chunk.top = self.chunks.last().map_or(0, |last| last.top + last.height());
        self.open = Some(chunk);
    }

    /// Another width.
    pub fn rewrap(&mut self, page: &Page) {
        let mut top = 0;
        let mut chunks = std::mem::take(&mut self.chunks);
        for chunk in &mut chunks {
            if chunk.wide {
                let text = &self.shown[chunk.start - self.cut..chunk.end - self.cut];
                self.work += text.len() as u64;
                (chunk.rows, _) = prose(&chunk.head, text, page.columns);
            }
            chunk.spans = wrap(&chunk.rows, page.columns, &mut self.work);
            chunk.top = top;
            top += chunk.height();
        }
        self.chunks = chunks;
        self.stale = true;
        self.settle(page);
    }

    /// Bytes that are kept for showing it.
    pub fn bytes(&self) -> usize {
        self.shown.len()
    }

    pub fn rows(&self) -> usize {
        self.chunks.len()
    }

    pub fn has_code(&self) -> bool {
        self.has_code
    }

    pub fn hidden(&self) -> bool {
        self.hidden
    }

    /// Shows nothing of it from now on.
    pub fn hide(&mut self) {
        (self.shown, self.chunks, self.open, self.note_wrap) = (String::new(), Vec::new(), None, Wrap::default());
        self.hidden = true;
    }

    /// Half of its blocks go, from the front, so that this happens seldom; gives the number of lines.
    pub fn halve(&mut self) -> usize {
        let Some(first) = self.chunks.get(self.chunks.len() / 2) else { return 0 };
        let (bytes, lines) = (first.start - self.cut, first.top);
        self.chunks.drain(..self.chunks.len() / 2);
        self.shown.drain(..bytes);
        self.cut += bytes;
        self.splitter.cut(bytes);
        for chunk in self.chunks.iter_mut().chain(&mut self.open) {
            chunk.top -= lines;
        }
        lines
    }

    fn head(&self) -> usize {
        usize::from(self.place.1 > 1)
    }

    /// Lines of text.
    fn texts(&self) -> usize {
        let last = self.open.as_ref().or(self.chunks.last());
        match last.map_or(0, |last| last.top + last.height()) {
            // An answer that is waited for has a line.
            0 if self.note.is_none() => 1,
            lines => lines,
        }
    }

    /// Lines in all, the blank one under it included.
    pub fn height(&self) -> usize {
        if self.hidden {
            return 0;
        }
        let note = if self.note.is_some() { self.note_wrap.len() } else { 0 };
        self.head() + self.texts() + note + 1
    }

    fn chunk_at(&self, line: usize) -> Option<&Chunk> {
        if let Some(open) = self.open.as_ref().filter(|open| open.top <= line) {
            return Some(open);
        }
        let after = self.chunks.partition_point(|chunk| chunk.top <= line);
        after.checked_sub(1).map(|at| &self.chunks[at])
    }

    pub fn line(&self, index: usize) -> TurnLine<'_> {
        let Some(index) = index.checked_sub(self.head()) else { return TurnLine::Branch(self.place.0, self.place.1) };
        let texts = self.texts();
        if index >= texts {
            return match (&self.note, self.note_wrap.lines().get(index - texts)) {
                (Some(note), Some((start, end))) => TurnLine::Note(&note[*start..*end]),
                _ => TurnLine::Blank,
            };
        }
        let first = index == 0 && self.cut == 0;
        let Some(chunk) = self.chunk_at(index) else {
            return TurnLine::Text(Shown { role: self.role, first, row: &EMPTY, start: 0, end: 0 });
        };
        match (index - chunk.top).checked_sub(usize::from(chunk.gap)).and_then(|at| chunk.spans.get(at)) {
            Some(span) => {
                TurnLine::Text(Shown { role: self.role, first, row: &chunk.rows[span.row], start: span.start, end: span.end })
            }
            None => TurnLine::Blank,
        }
    }

    /// What holds a line of it in place.
    pub fn anchor(&self, line: usize) -> Anchor {
        let text = line.saturating_sub(self.head()).min(self.texts().saturating_sub(1));
        let Some(chunk) = self.chunk_at(text) else { return Anchor { past: line as isize, ..Anchor::default() } };
        let at = (text - chunk.top).saturating_sub(usize::from(chunk.gap));
        let span = chunk.spans.get(at).copied().unwrap_or(Span { row: 0, start: 0, end: 0 });
        let mut anchor = Anchor { block: chunk.start, row: span.row, byte: span.start, past: 0 };
        anchor.past = line as isize - self.line_of(&anchor) as isize;
        anchor
    }

    /// Where an anchored line is now.
    pub fn line_of(&self, anchor: &Anchor) -> usize {
        let after = self.chunks.partition_point(|chunk| chunk.start <= anchor.block);
        let open = self.open.as_ref().filter(|open| open.start <= anchor.block);
        let Some(chunk) = open.or(after.checked_sub(1).map(|at| &self.chunks[at])) else { return 0 };
        let mut line = self.head() + chunk.top + usize::from(chunk.gap);
        if chunk.start == anchor.block {
            let place = (anchor.row, anchor.byte);
            line += chunk.spans.partition_point(|span| (span.row, span.start) <= place).saturating_sub(1);
        }
        (line as isize + anchor.past).max(0) as usize
    }

    /// Where a text occurs: `needle` in small letters.
    pub fn find(&self, needle: &[char], found: &mut Vec<Anchor>) {
        for chunk in self.chunks.iter().chain(&self.open) {
            for (row, text) in chunk.rows.iter().enumerate() {
                for (byte, _) in occurrences(&text.text, needle) {
                    found.push(Anchor { block: chunk.start, row, byte, past: 0 });
                }
            }
        }
    }
}

/// Rows of a block, after the head of the table that it goes on with.
fn prose(head: &Option<String>, text: &str, columns: usize) -> (Vec<Row>, bool) {
    match head {
        Some(head) => markdown::render(&format!("{head}{text}"), columns),
        None => markdown::render(text, columns),
    }
}

/// Where `needle` (in small letters) occurs in a text, in bytes.
pub fn occurrences(text: &str, needle: &[char]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    if needle.is_empty() {
        return found;
    }
    let mut from = 0;
    while from < text.len() {
        let mut left = needle;
        let mut end = from;
        let mut first = 0;
        for ch in text[from..].chars() {
            let same = ch.to_lowercase().enumerate().all(|(at, small)| left.get(at) == Some(&small));
            if !same {
                break;
            }
            left = &left[ch.to_lowercase().count()..];
            end += ch.len_utf8();
            if left.is_empty() {
                break;
            }
        }
        if left.is_empty() {
            found.push((from, end));
            first = end - from;
        }
        from += first.max(text[from..].chars().next().map_or(1, char::len_utf8));
    }
    found
}
