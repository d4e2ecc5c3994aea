//! Text from outside made fit for a terminal: cleaned, measured by grapheme, wrapped line by line.
//!
//! Nothing here is ever sent to the terminal as it came: a model (or a paste, or a model file's title) can write
//! escape sequences, and they must be seen, never obeyed.

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns to the next tab stop.
const TAB: usize = 4;
/// Combining marks kept on one base character: more is an attack on the line height, not a language.
const MARKS_MAX: u32 = 8;
/// Emoji joined by ZWJ in one cluster: the longest in use have five.
const JOINS_MAX: u32 = 8;

const ZWJ: char = '\u{200d}';

/// How many columns a terminal gives to one grapheme.
pub fn grapheme_width(grapheme: &str) -> usize {
    UnicodeWidthStr::width(grapheme)
}

/// How many columns a terminal gives to a text without line breaks.
pub fn width(text: &str) -> usize {
    text.graphemes(true).map(grapheme_width).sum()
}

/// A character that would command the terminal, or reorder what is around it, as something to look at.
/// None: it is harmless.
fn symbol(ch: char) -> Option<String> {
    match ch {
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + ch as u32).map(String::from),
        '\u{7f}' => Some("␡".into()),
        '\u{80}'..='\u{9f}' => Some(format!("⟨{:02x}⟩", ch as u32)),
        // Bidirectional marks, embeddings, overrides, isolates; line and paragraph separators; annotations; tags.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}' => {
            Some(format!("⟨{:x}⟩", ch as u32))
        }
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' if !('\u{e0100}'..='\u{e01ef}').contains(&ch) => {
            Some(format!("⟨{:x}⟩", ch as u32))
        }
        _ => None,
    }
}

/// Invisible by definition and measured differently by every terminal.
fn invisible(ch: char) -> bool {
    matches!(
        ch,
        '\u{ad}' | '\u{200b}' | '\u{2060}'
            ..='\u{2064}' | '\u{feff}' | '\u{180e}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}'
    )
}

/// Cleans a stream of text, however it is cut into pieces: control characters become symbols, tabs become spaces,
/// `\r\n` becomes `\n`.
#[derive(Clone, Debug, Default)]
pub struct Cleaner {
    column: usize,
    carriage_return: bool,
    marks: u32,
    joins: u32,
    last: Option<char>,
}

impl Cleaner {
    /// Appends the cleaned `raw` to `out`.
    pub fn push(&mut self, raw: &str, out: &mut String) {
        for ch in raw.chars() {
            if self.carriage_return && ch != '\n' {
                self.put('␍', out);
            }
            self.carriage_return = ch == '\r';
            match ch {
                '\r' => {}
                '\n' => {
                    out.push('\n');
                    self.column = 0;
                    self.last = Some('\n');
                }
                '\t' => {
                    for _ in 0..TAB - self.column % TAB {
                        self.put(' ', out);
                    }
                }
                _ if invisible(ch) => {}
                _ => match symbol(ch) {
                    Some(symbol) => symbol.chars().for_each(|ch| self.put(ch, out)),
                    None => self.put(ch, out),
                },
            }
        }
    }

    /// The stream is over: what was held back comes out.
    pub fn finish(&mut self, out: &mut String) {
        if std::mem::take(&mut self.carriage_return) {
            self.put('␍', out);
        }
    }

    fn put(&mut self, ch: char, out: &mut String) {
        let columns = UnicodeWidthChar::width(ch).unwrap_or(0);
        if ch == ZWJ {
            self.joins += 1;
            if self.joins > JOINS_MAX {
                return;
            }
        } else if columns == 0 {
            self.marks += 1;
            if self.marks > MARKS_MAX {
                return;
            }
        } else {
            if self.last != Some(ZWJ) {
                self.joins = 0;
            }
            self.marks = 0;
        }
        self.column += columns;
        self.last = Some(ch);
        out.push(ch);
    }
}

/// A short text (a title, a name, a reason) cleaned onto one line.
pub fn one_line(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut cleaner = Cleaner::default();
    cleaner.push(raw, &mut out);
    cleaner.finish(&mut out);
    out.replace('\n', " ")
}

/// A text of several lines cleaned.
pub fn clean(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut cleaner = Cleaner::default();
    cleaner.push(raw, &mut out);
    cleaner.finish(&mut out);
    out
}

/// What a person typed or pasted, as it goes into an editor: one form of each letter (NFC), `\n` for every kind of
/// line end, nothing that could command a terminal.
pub fn typed(raw: &str) -> String {
    let unix = raw.replace("\r\n", "\n").replace('\r', "\n");
    let cleaned = clean(&unix);
    match is_nfc_quick(cleaned.chars()) {
        IsNormalized::Yes => cleaned,
        _ => cleaned.nfc().collect(),
    }
}

/// Cuts a text to so many columns; an ellipsis says that it was cut.
pub fn clip(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        let wide = grapheme_width(grapheme);
        if used + wide + 1 > columns {
            break;
        }
        out.push_str(grapheme);
        used += wide;
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

/// The first of several wordings, longest first, that fits; else the last one cut.
pub fn first_fit(wordings: &[String], columns: usize) -> String {
    match wordings.iter().find(|text| width(text) <= columns) {
        Some(text) => text.clone(),
        None => wordings.last().map(|text| clip(text, columns)).unwrap_or_default(),
    }
}

/// One visual line of a text: what it shows, and where the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    pub start: usize,
    pub end: usize,
    /// Start of the next line; None: the text ended here.
    pub next: Option<usize>,
}

/// Finds the visual line that begins at byte `start`, of at most `columns` columns. Breaks after spaces and beside
/// wide characters, else between graphemes. One space may hang over the edge.
/// `work` counts the graphemes looked at.
pub fn next_line(text: &str, start: usize, columns: usize, work: &mut u64) -> Line {
    let columns = columns.max(1);
    let mut used = 0;
    let mut break_at = None;
    for (offset, grapheme) in text[start..].grapheme_indices(true) {
        *work += 1;
        let at = start + offset;
        if grapheme == "\n" {
            return Line { start, end: at, next: Some(at + 1) };
        }
        let wide = grapheme_width(grapheme);
        let room = if grapheme == " " { columns + 1 } else { columns };
        if used + wide > room && at > start {
            let cut = match break_at {
                Some(cut) if grapheme != " " => cut,
                _ => at,
            };
            return Line { start, end: cut, next: Some(cut) };
        }
        used += wide;
        if grapheme == " " || wide >= 2 {
            break_at = Some(at + grapheme.len());
        } else if wide == 0 {
            continue;
        }
    }
    Line { start, end: text.len(), next: None }
}

/// A text wrapped to a width, kept up to date while the text grows: only the last line is ever looked at again.
#[derive(Clone, Debug, Default)]
pub struct Wrap {
    columns: usize,
    lines: Vec<(usize, usize)>,
    /// Graphemes looked at since the beginning: a measure of work for tests.
    pub work: u64,
}

impl Wrap {
    /// Brings the lines up to date with `text`, which is what it was before with something appended.
    pub fn update(&mut self, text: &str, columns: usize) {
        if columns != self.columns {
            self.columns = columns;
            self.lines.clear();
        }
        let mut at = self.lines.pop().map_or(0, |(start, _)| start);
        loop {
            let line = next_line(text, at, columns, &mut self.work);
            self.lines.push((line.start, line.end));
            match line.next {
                Some(next) => at = next,
                None => return,
            }
        }
    }

    /// Forgets the lines, for a text that did not only grow.
    pub fn restart(&mut self) {
        self.lines.clear();
    }

    /// Byte ranges of the lines.
    pub fn lines(&self) -> &[(usize, usize)] {
        &self.lines
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Which line holds this byte.
    pub fn line_of(&self, byte: usize) -> usize {
        self.lines.partition_point(|(start, _)| *start <= byte).saturating_sub(1)
    }

    /// Forgets the first `count` lines, whose bytes are gone from the text; returns how many bytes those were.
    pub fn cut(&mut self, count: usize) -> usize {
        let count = count.min(self.lines.len().saturating_sub(1));
        let bytes = self.lines.get(count).map_or(0, |(start, _)| *start);
        self.lines.drain(..count);
        for (start, end) in &mut self.lines {
            *start -= bytes;
            *end -= bytes;
        }
        bytes
    }
}
