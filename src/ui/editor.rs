//! The multi-line editor under each chat pane: graphemes, soft wrap, history, undo and redo.

use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

use super::text::{self, Wrap};

/// Bytes in one draft at most: a paste beyond that is cut, and the pane says so.
pub const DRAFT_MAX: usize = 256 * 1024;
const UNDO_MAX: usize = 100;
const HISTORY_MAX: usize = 200;

/// What the last change was, so that a run of typing is undone as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    Typing,
    Deleting,
    Other,
}

/// A draft and its cursor. The cursor is a byte offset on a grapheme border.
#[derive(Clone, Debug)]
pub struct Editor {
    text: String,
    cursor: usize,
    undo: Vec<(String, usize)>,
    /// What was undone, until something else is written.
    redo: Vec<(String, usize)>,
    last: Change,
    history: Vec<String>,
    /// Place in the history while walking it, and the draft that was left for it.
    walking: Option<(usize, String)>,
}

impl Default for Editor {
    fn default() -> Self {
        Editor {
            text: String::new(),
            cursor: 0,
            undo: Vec::new(),
            redo: Vec::new(),
            last: Change::None,
            history: Vec::new(),
            walking: None,
        }
    }
}

impl Editor {
    pub fn with_text(text: &str) -> Self {
        let mut editor = Editor::default();
        editor.set(text);
        editor
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn cursor(&self) -> usize {
        self.cursor
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Replaces the draft; the cursor goes to its end.
    pub fn set(&mut self, text: &str) {
        self.remember(Change::Other);
        self.text = text.to_owned();
        self.cursor = self.text.len();
    }

    /// Takes the draft away to send it, and keeps it in the history.
    pub fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.cursor = 0;
        self.undo.clear();
        self.redo.clear();
        self.last = Change::None;
        self.walking = None;
        self.keep(&text);
        text
    }

    /// Adds to the history of prompts.
    pub fn keep(&mut self, text: &str) {
        if !text.trim().is_empty() && self.history.last().map(String::as_str) != Some(text) {
            self.history.push(text.to_owned());
            if self.history.len() > HISTORY_MAX {
                self.history.remove(0);
            }
        }
    }

    /// Inserts what was typed or pasted. False when some of it did not fit.
    pub fn insert(&mut self, raw: &str) -> bool {
        let mut piece = text::typed(raw);
        let room = DRAFT_MAX.saturating_sub(self.text.len());
        let fits = piece.len() <= room;
        if !fits {
            let cut = piece.grapheme_indices(true).map(|(at, g)| at + g.len()).take_while(|end| *end <= room).last();
            piece.truncate(cut.unwrap_or(0));
        }
        let change = if piece.chars().count() == 1 && piece != "\n" { Change::Typing } else { Change::Other };
        self.remember(change);
        self.text.insert_str(self.cursor, &piece);
        self.cursor += piece.len();
        self.compose(piece.len());
        fits
    }

    /// A combining mark typed after its letter joins it: `e` and U+0301 become `é`.
    fn compose(&mut self, inserted: usize) {
        let from = self.cursor - inserted;
        let before = self.text[..from].grapheme_indices(true).next_back().map_or(0, |(at, _)| at);
        let after = self.text[self.cursor..].graphemes(true).next().map_or(self.text.len(), |g| self.cursor + g.len());
        let head: String = self.text[before..self.cursor].nfc().collect();
        let both: String = self.text[before..after].nfc().collect();
        if both != self.text[before..after] {
            self.text.replace_range(before..after, &both);
            self.cursor = before + head.len();
        }
        self.settle();
    }

    /// Puts the cursor on a grapheme border: on this one, or the next. Looks only at what is around it: a draft may be long,
    /// and every key comes here.
    fn settle(&mut self) {
        let len = self.text.len();
        let mut at = self.cursor.min(len);
        while !self.text.is_char_boundary(at) {
            at += 1;
        }
        let mut place = GraphemeCursor::new(at, len, true);
        // With all of the text given, neither ever asks for more.
        let on = place.is_boundary(&self.text, 0).unwrap_or(true);
        self.cursor = if on { at } else { place.next_boundary(&self.text, 0).ok().flatten().unwrap_or(len) };
    }

    fn remember(&mut self, change: Change) {
        if change == Change::Other || change != self.last {
            self.undo.push((self.text.clone(), self.cursor));
            if self.undo.len() > UNDO_MAX {
                self.undo.remove(0);
            }
        }
        self.last = change;
        self.redo.clear();
    }

    pub fn undo(&mut self) {
        if let Some((text, cursor)) = self.undo.pop() {
            self.redo.push((std::mem::replace(&mut self.text, text), std::mem::replace(&mut self.cursor, cursor)));
            self.last = Change::None;
        }
    }

    /// Takes the newest undo back.
    pub fn redo(&mut self) {
        if let Some((text, cursor)) = self.redo.pop() {
            self.undo.push((std::mem::replace(&mut self.text, text), std::mem::replace(&mut self.cursor, cursor)));
            self.last = Change::None;
        }
    }

    fn before(&self) -> usize {
        self.text[..self.cursor].grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        self.text[self.cursor..].graphemes(true).next().map_or(self.cursor, |g| self.cursor + g.len())
    }

    fn word_before(&self) -> usize {
        let mut words = self.text[..self.cursor].unicode_word_indices();
        words.next_back().map_or(0, |(at, _)| at)
    }

    fn word_after(&self) -> usize {
        let word = self.text[self.cursor..].unicode_word_indices().next();
        word.map_or(self.text.len(), |(at, word)| self.cursor + at + word.len())
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    fn delete(&mut self, from: usize, to: usize) {
        if from < to {
            self.remember(if to - from <= 4 { Change::Deleting } else { Change::Other });
            self.text.replace_range(from..to, "");
            self.cursor = from;
            self.settle();
        }
    }

    pub fn backspace(&mut self) {
        self.delete(self.before(), self.cursor);
    }

    pub fn delete_forward(&mut self) {
        self.delete(self.cursor, self.after());
    }

    pub fn delete_word_before(&mut self) {
        self.delete(self.word_before(), self.cursor);
    }

    pub fn delete_word_after(&mut self) {
        self.delete(self.cursor, self.word_after());
    }

    pub fn delete_to_start(&mut self) {
        self.delete(self.line_start(), self.cursor);
    }

    pub fn delete_to_end(&mut self) {
        let end = self.line_end();
        let to = if end == self.cursor { self.after() } else { end };
        self.delete(self.cursor, to);
    }

    pub fn left(&mut self) {
        self.go(self.before());
    }

    pub fn right(&mut self) {
        self.go(self.after());
    }

    pub fn word_left(&mut self) {
        self.go(self.word_before());
    }

    pub fn word_right(&mut self) {
        self.go(self.word_after());
    }

    pub fn home(&mut self) {
        self.go(self.line_start());
    }

    pub fn end(&mut self) {
        self.go(self.line_end());
    }

    fn go(&mut self, to: usize) {
        self.cursor = to;
        self.last = Change::None;
    }

    /// The visual lines at this width, and the cursor's line and column among them.
    pub fn layout(&self, columns: usize) -> (Vec<(usize, usize)>, usize, usize) {
        // One column stays free for the cursor at the end of a full line.
        let columns = columns.saturating_sub(1).max(1);
        let mut wrap = Wrap::default();
        wrap.update(&self.text, columns);
        let row = wrap.line_of(self.cursor);
        let column = text::width(&self.text[wrap.lines()[row].0..self.cursor]).min(columns);
        (wrap.lines().to_vec(), row, column)
    }

    /// Up a visual line; on the first one, back in the history.
    pub fn up(&mut self, columns: usize) {
        let (lines, row, column) = self.layout(columns);
        if row > 0 {
            self.go(at_column(&self.text, lines[row - 1], column));
        } else {
            self.older();
        }
    }

    /// Down a visual line; on the last one, forward in the history.
    pub fn down(&mut self, columns: usize) {
        let (lines, row, column) = self.layout(columns);
        match lines.get(row + 1) {
            Some(line) => self.go(at_column(&self.text, *line, column)),
            None => self.newer(),
        }
    }

    fn older(&mut self) {
        let (place, draft) = match self.walking.take() {
            Some((place, draft)) => (place, draft),
            None => (self.history.len(), self.text.clone()),
        };
        let place = match place.checked_sub(1) {
            Some(older) => {
                let text = self.history[older].clone();
                self.set(&text);
                older
            }
            None => place,
        };
        if place < self.history.len() {
            self.walking = Some((place, draft));
        }
    }

    fn newer(&mut self) {
        let Some((place, draft)) = self.walking.take() else { return };
        match self.history.get(place + 1).cloned() {
            Some(text) => {
                self.set(&text);
                self.walking = Some((place + 1, draft));
            }
            None => self.set(&draft),
        }
    }
}

/// The byte of a line that stands at a column, or the line's end.
fn at_column(text: &str, (start, end): (usize, usize), column: usize) -> usize {
    let mut used = 0;
    for (at, grapheme) in text[start..end].grapheme_indices(true) {
        if used >= column {
            return start + at;
        }
        used += text::grapheme_width(grapheme);
    }
    // A soft-wrapped line's end is the next line's start: stay before its hanging space.
    match text[start..end].strip_suffix(' ') {
        Some(body) if text[end..].chars().next().is_some_and(|ch| ch != '\n') => start + body.len(),
        _ => end,
    }
}
