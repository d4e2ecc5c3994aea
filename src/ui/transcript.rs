//! A pane's conversation as it is shown: cleaned, wrapped once, bounded, and holding still while it is read.

use crate::text::{Message, Role};

use super::text::{Cleaner, Wrap};

/// Bytes of shown text in one pane at most; the oldest lines go first. The conversation itself is kept whole.
pub const SHOWN_MAX: usize = 1 << 20;

/// Columns before the text of a turn.
pub const GUTTER: usize = 2;

/// One message of the conversation.
#[derive(Clone, Debug)]
pub struct Turn {
    pub role: Role,
    /// As it was written, for the engine.
    pub text: String,
    /// How the answer ended, when that is worth a line.
    pub note: Option<String>,
    shown: String,
    cleaner: Cleaner,
    wrap: Wrap,
    note_wrap: Wrap,
    /// Bytes cut away from the front of `shown`: positions count from there.
    cut: usize,
    hidden: bool,
}

/// One visual line of a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnLine<'a> {
    /// A line of text; `first` is the first of its turn.
    Text {
        role: Role,
        text: &'a str,
        first: bool,
    },
    Note(&'a str),
    Blank,
}

impl Turn {
    fn new(role: Role, text: &str, columns: usize) -> Self {
        let mut turn = Turn {
            role,
            text: String::new(),
            note: None,
            shown: String::new(),
            cleaner: Cleaner::default(),
            wrap: Wrap::default(),
            note_wrap: Wrap::default(),
            cut: 0,
            hidden: false,
        };
        turn.push(text, columns);
        turn
    }

    fn push(&mut self, text: &str, columns: usize) {
        self.text.push_str(text);
        self.cleaner.push(text, &mut self.shown);
        self.wrap.update(&self.shown, columns);
    }

    fn rewrap(&mut self, columns: usize) {
        self.wrap.update(&self.shown, columns);
        if let Some(note) = &self.note {
            self.note_wrap.update(note, columns);
        }
    }

    fn height(&self) -> usize {
        if self.hidden {
            return 0;
        }
        let note = if self.note.is_some() { self.note_wrap.len() } else { 0 };
        let text = if self.shown.is_empty() && self.note.is_some() { 0 } else { self.wrap.len() };
        text + note + 1
    }

    fn line(&self, index: usize) -> TurnLine<'_> {
        let texts = if self.shown.is_empty() && self.note.is_some() { 0 } else { self.wrap.len() };
        if index < texts {
            let (start, end) = self.wrap.lines()[index];
            return TurnLine::Text { role: self.role, text: &self.shown[start..end], first: index == 0 && self.cut == 0 };
        }
        match (&self.note, self.note_wrap.lines().get(index - texts)) {
            (Some(note), Some((start, end))) => TurnLine::Note(&note[*start..*end]),
            _ => TurnLine::Blank,
        }
    }
}

/// Where the top line of the view is: it stays on the same text whatever is appended and however it is wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scroll {
    /// The bottom is in view, also when it moves.
    Follow,
    At {
        turn: usize,
        byte: usize,
        past: usize,
    },
}

/// A conversation and the view on it.
#[derive(Clone, Debug)]
pub struct Transcript {
    turns: Vec<Turn>,
    columns: usize,
    rows: usize,
    scroll: Scroll,
    /// Text came while the view was held elsewhere.
    unseen: bool,
    shown_bytes: usize,
    lines_cut: u64,
}

impl Default for Transcript {
    fn default() -> Self {
        Transcript {
            turns: Vec::new(),
            columns: 40,
            rows: 10,
            scroll: Scroll::Follow,
            unseen: false,
            shown_bytes: 0,
            lines_cut: 0,
        }
    }
}

impl Transcript {
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// Adds a message. An own message brings the view back to the bottom.
    pub fn push(&mut self, role: Role, text: &str) {
        let turn = Turn::new(role, text, self.columns);
        self.shown_bytes += turn.shown.len();
        self.turns.push(turn);
        if role == Role::User {
            self.to_bottom();
        } else {
            self.touched();
        }
        self.bound();
    }

    /// Appends to the last message.
    pub fn append(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(turn) = self.turns.last_mut() {
            let before = turn.shown.len();
            turn.push(text, self.columns);
            self.shown_bytes += turn.shown.len() - before;
            self.touched();
            self.bound();
        }
    }

    /// The last message is complete; `note` says how it ended when that is worth a line.
    pub fn close(&mut self, note: Option<String>) {
        if let Some(turn) = self.turns.last_mut() {
            let before = turn.shown.len();
            turn.cleaner.finish(&mut turn.shown);
            let end = turn.shown.trim_end().len();
            turn.shown.truncate(end);
            turn.wrap.restart();
            turn.note = note;
            turn.note_wrap = Wrap::default();
            turn.rewrap(self.columns);
            self.shown_bytes = (self.shown_bytes + turn.shown.len()).saturating_sub(before);
        }
    }

    /// Takes back the last message.
    pub fn pop(&mut self) -> Option<Turn> {
        let turn = self.turns.pop()?;
        self.shown_bytes = self.shown_bytes.saturating_sub(turn.shown.len());
        Some(turn)
    }

    pub fn last(&self) -> Option<&Turn> {
        self.turns.last()
    }

    /// What the engine is told: turns without an answer are joined with the next question, since many templates
    /// insist on taking turns.
    pub fn messages(&self, system: Option<&str>) -> Vec<Message> {
        let mut messages: Vec<Message> = Vec::new();
        if let Some(system) = system.filter(|text| !text.is_empty()) {
            messages.push(Message { role: Role::System, content: system.to_owned() });
        }
        for turn in self.turns.iter().filter(|turn| !turn.text.is_empty()) {
            match messages.last_mut() {
                Some(last) if last.role == turn.role => {
                    last.content.push_str("\n\n");
                    last.content.push_str(&turn.text);
                }
                _ => messages.push(Message { role: turn.role, content: turn.text.clone() }),
            }
        }
        messages
    }

    fn touched(&mut self) {
        if self.scroll != Scroll::Follow {
            self.unseen = true;
        }
    }

    fn bound(&mut self) {
        let newest = self.turns.len().saturating_sub(1);
        for turn in &mut self.turns[..newest] {
            if self.shown_bytes <= SHOWN_MAX {
                return;
            }
            if !turn.hidden {
                self.lines_cut += turn.height() as u64;
                self.shown_bytes -= turn.shown.len();
                turn.shown = String::new();
                turn.wrap = Wrap::default();
                turn.hidden = true;
            }
        }
        // The newest message alone is over the bound: half of its lines go, so that this happens seldom.
        if self.shown_bytes > SHOWN_MAX
            && let Some(turn) = self.turns.last_mut()
        {
            let lines = turn.wrap.len() / 2;
            let bytes = turn.wrap.cut(lines);
            turn.shown.drain(..bytes);
            turn.cut += bytes;
            self.shown_bytes -= bytes;
            self.lines_cut += lines as u64;
        }
    }

    /// Lines that scrolled out of the bound.
    pub fn lines_cut(&self) -> u64 {
        self.lines_cut
    }

    /// Sets the size of the view in cells, gutter included.
    pub fn resize(&mut self, columns: usize, rows: usize) {
        let columns = columns.saturating_sub(GUTTER).max(1);
        if columns != self.columns {
            self.columns = columns;
            for turn in &mut self.turns {
                turn.rewrap(columns);
            }
        }
        self.rows = rows.max(1);
        self.settle();
    }

    /// Visual lines in all, without the blank one under the last turn.
    pub fn height(&self) -> usize {
        self.turns.iter().map(Turn::height).sum::<usize>().saturating_sub(1)
    }

    /// Index of the top visible line.
    pub fn top(&self) -> usize {
        let bottom = self.height().saturating_sub(self.rows);
        match self.scroll {
            Scroll::Follow => bottom,
            Scroll::At { turn, byte, past } => {
                let before: usize = self.turns.iter().take(turn).map(Turn::height).sum();
                let within = self.turns.get(turn).map_or(0, |turn| turn.wrap.line_of(byte.saturating_sub(turn.cut)));
                (before + within + past).min(bottom)
            }
        }
    }

    /// Lines below the view.
    pub fn below(&self) -> usize {
        self.height().saturating_sub(self.top() + self.rows)
    }

    /// The view is held away from the bottom and text has come since.
    pub fn unseen(&self) -> bool {
        self.unseen
    }

    pub fn following(&self) -> bool {
        self.scroll == Scroll::Follow
    }

    /// Columns of text, without the gutter.
    pub fn columns(&self) -> usize {
        self.columns
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn scroll_by(&mut self, lines: isize) {
        let top = self.top().saturating_add_signed(lines);
        if top + self.rows >= self.height() {
            self.to_bottom();
        } else {
            self.hold(top);
        }
    }

    pub fn to_top(&mut self) {
        if self.height() > self.rows {
            self.hold(0);
        }
    }

    pub fn to_bottom(&mut self) {
        self.scroll = Scroll::Follow;
        self.unseen = false;
    }

    fn hold(&mut self, mut top: usize) {
        for (index, turn) in self.turns.iter().enumerate() {
            let height = turn.height();
            if top < height {
                let line = top.min(turn.wrap.len().saturating_sub(1));
                let byte = turn.wrap.lines().get(line).map_or(0, |(start, _)| *start) + turn.cut;
                self.scroll = Scroll::At { turn: index, byte, past: top - line };
                return;
            }
            top -= height;
        }
        self.to_bottom();
    }

    /// A held view that has come to the bottom (the window grew) follows again.
    fn settle(&mut self) {
        if self.scroll != Scroll::Follow && self.below() == 0 {
            self.to_bottom();
        }
    }

    /// The visible lines, top first.
    pub fn visible(&self) -> impl Iterator<Item = TurnLine<'_>> {
        let mut skip = self.top();
        let mut first = self.turns.len();
        for (index, turn) in self.turns.iter().enumerate() {
            if skip < turn.height() {
                first = index;
                break;
            }
            skip -= turn.height();
        }
        let turns = self.turns[first.min(self.turns.len())..].iter();
        turns.flat_map(|turn| (0..turn.height()).map(|index| turn.line(index))).skip(skip).take(self.rows)
    }

    /// Graphemes looked at while wrapping, all messages: grows in proportion to the text, whatever its pieces.
    pub fn wrap_work(&self) -> u64 {
        self.turns.iter().map(|turn| turn.wrap.work).sum()
    }
}
