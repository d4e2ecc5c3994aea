//! Cuts a text that is still being written into blocks that no later text can change. What is closed is looked at once.

/// An open block longer than this is closed at its next line end, at twice this in mid-line: a block is rendered again with
/// each frame while it is open.
pub const OPEN_MAX: usize = 4096;

/// A head of a table that is longer is not said again.
const HEAD_MAX: usize = 512;

/// What a block is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Paragraphs, lists, quotes, tables, headings: Markdown.
    Prose,
    /// One line of code.
    Code,
    /// The line that begins code, with the name of its language.
    CodeBegin(String),
    /// The line that ends it.
    CodeEnd,
    /// One line as it is.
    Raw,
}

/// A closed block, in bytes of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    pub start: usize,
    pub end: usize,
    pub what: What,
    /// An empty line stood before it.
    pub gap: bool,
    /// It goes on with a table whose head was in a block before: that head.
    pub head: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fence {
    mark: u8,
    length: usize,
    indent: usize,
}

/// Where the text has been cut so far.
#[derive(Clone, Debug)]
pub struct Splitter {
    /// Every line is a block: text that is no Markdown.
    raw: bool,
    /// Where the open block begins, and the line that is not whole yet.
    start: usize,
    line: usize,
    /// Up to where `line` was searched for its end.
    seen: usize,
    fence: Option<Fence>,
    /// The open block has a list in it: an empty line may be inside.
    list: bool,
    /// Where the empty lines began that stand at the end of the open block.
    blank: Option<usize>,
    gap: bool,
    /// The head of the table that the open block is in, and the line before the present one.
    table: Option<String>,
    before: usize,
    /// The head of a table that the open block goes on with.
    head: Option<String>,
}

impl Splitter {
    pub fn new(raw: bool) -> Splitter {
        Splitter {
            raw,
            start: 0,
            line: 0,
            seen: 0,
            fence: None,
            list: false,
            blank: None,
            gap: false,
            table: None,
            before: 0,
            head: None,
        }
    }

    /// The part of a text of so many bytes that is still open, and what it is so far.
    pub fn open(&self, bytes: usize) -> Closed {
        let what = match (self.raw, self.fence) {
            (true, _) => What::Raw,
            (false, Some(_)) => What::Code,
            (false, None) => What::Prose,
        };
        Closed { start: self.start, end: bytes, what, gap: self.gap, head: self.head.clone() }
    }

    /// Columns that the fence of the present code stands in: its lines have them too.
    pub fn indent(&self) -> usize {
        self.fence.map_or(0, |fence| fence.indent)
    }

    /// The first `bytes` of the text are gone; they were closed.
    pub fn cut(&mut self, bytes: usize) {
        for place in [&mut self.start, &mut self.line, &mut self.seen, &mut self.before] {
            *place = place.saturating_sub(bytes);
        }
        self.blank = self.blank.map(|blank| blank.saturating_sub(bytes));
    }

    /// Takes the lines in that are whole by now, and gives the blocks that they close.
    pub fn feed(&mut self, text: &str, closed: &mut Vec<Closed>) {
        while let Some(length) = text[self.seen..].find('\n') {
            let end = self.seen + length + 1;
            self.take_line(text, end, closed);
            (self.before, self.line, self.seen) = (self.line, end, end);
        }
        self.seen = text.len();
        while text.len() - self.start > 2 * OPEN_MAX {
            let room = &text.as_bytes()[self.start..self.start + OPEN_MAX];
            let space = room.iter().rposition(|byte| *byte == b' ').map(|at| self.start + at + 1);
            let whole = (self.start + 1..=self.start + OPEN_MAX).rev().find(|at| text.is_char_boundary(*at));
            let Some(end) = space.or(whole) else { return };
            let what = self.open(end).what;
            self.close(end, what, closed);
            self.line = self.line.max(end);
        }
    }

    /// The text is over: all of it is closed.
    pub fn finish(&mut self, text: &str, closed: &mut Vec<Closed>) {
        self.feed(text, closed);
        if self.line < text.len() {
            self.take_line(text, text.len(), closed);
        }
        self.close_prose(text.len(), closed);
        (self.start, self.line, self.seen) = (text.len(), text.len(), text.len());
    }

    fn close(&mut self, end: usize, what: What, closed: &mut Vec<Closed>) {
        closed.push(Closed { start: self.start, end, what, gap: std::mem::take(&mut self.gap), head: self.head.take() });
        (self.start, self.list, self.blank, self.table) = (end, false, None, None);
    }

    /// Closes what is open before `end`; the empty lines at its end are a gap.
    fn close_prose(&mut self, end: usize, closed: &mut Vec<Closed>) {
        let blank = self.blank.take();
        let to = blank.unwrap_or(end);
        if to > self.start {
            self.close(to, What::Prose, closed);
        }
        self.start = end;
        (self.list, self.table, self.head) = (false, None, None);
        self.gap |= blank.is_some();
    }

    fn take_line(&mut self, text: &str, end: usize, closed: &mut Vec<Closed>) {
        let line = text[self.line..end].trim_end_matches('\n');
        let body = line.trim_start_matches(' ');
        let indent = line.len() - body.len();
        if self.raw {
            return self.close(end, What::Raw, closed);
        }
        if let Some(fence) = self.fence {
            return self.take_code(body, fence, end, closed);
        }
        if body.is_empty() {
            return self.take_empty(end, closed);
        }
        if let Some((fence, language)) = fence_of(body, indent) {
            self.close_prose(self.line, closed);
            self.close(end, What::CodeBegin(language), closed);
            self.fence = Some(fence);
            return;
        }
        let item = is_item(body);
        if self.blank.is_some() {
            if item || indent >= 2 {
                self.blank = None;
            } else {
                self.close_prose(self.line, closed);
            }
        }
        if indent < 4 && is_heading(body) {
            self.close_prose(self.line, closed);
            self.gap |= !closed.is_empty() || self.line > 0;
            return self.close(end, What::Prose, closed);
        }
        self.list |= item;
        self.take_table(text, body, end);
        if end - self.start > OPEN_MAX {
            let head = self.table.take().or(self.head.clone());
            self.close(end, What::Prose, closed);
            self.head = head;
        }
    }

    /// A line within a fence, or its end.
    fn take_code(&mut self, body: &str, fence: Fence, end: usize, closed: &mut Vec<Closed>) {
        let ends = run(body, fence.mark) >= fence.length && body.bytes().all(|byte| byte == fence.mark || byte == b' ');
        self.close(end, if ends { What::CodeEnd } else { What::Code }, closed);
        if ends {
            self.fence = None;
        }
    }

    fn take_empty(&mut self, end: usize, closed: &mut Vec<Closed>) {
        if self.start == self.line {
            // Nothing is open.
            self.start = end;
            self.gap = true;
        } else {
            self.blank.get_or_insert(self.line);
            if !self.list {
                self.close_prose(end, closed);
            }
        }
    }

    /// Keeps the head of a table that is open, for what is cut off from it.
    fn take_table(&mut self, text: &str, body: &str, end: usize) {
        if self.start == self.line && !body.contains('|') {
            self.head = None;
        }
        if self.table.is_none() && self.before >= self.start && self.before < self.line && is_rule_of_table(body) {
            let head = &text[self.before..end];
            self.table = Some(head.to_owned()).filter(|head| head.len() <= HEAD_MAX && head.trim_start().contains('|'));
        } else if !body.contains('|') {
            self.table = None;
        }
    }
}

/// Whether this is the line under the head of a table.
fn is_rule_of_table(body: &str) -> bool {
    body.contains('-') && body.contains('|') && body.bytes().all(|byte| matches!(byte, b'|' | b'-' | b':' | b' '))
}

/// How many bytes `mark` a text begins with.
fn run(text: &str, mark: u8) -> usize {
    text.bytes().take_while(|byte| *byte == mark).count()
}

fn fence_of(body: &str, indent: usize) -> Option<(Fence, String)> {
    let mark = body.bytes().next().filter(|byte| matches!(byte, b'`' | b'~'))?;
    let length = run(body, mark);
    let info = &body[length..];
    if length < 3 || indent > 16 || (mark == b'`' && info.contains('`')) {
        return None;
    }
    let language = info.split_whitespace().next().unwrap_or_default();
    Some((Fence { mark, length, indent }, language.chars().take(24).collect()))
}

fn is_heading(body: &str) -> bool {
    let level = run(body, b'#');
    (1..=6).contains(&level) && matches!(body.as_bytes().get(level), None | Some(b' '))
}

/// Whether a line begins an item of a list.
fn is_item(body: &str) -> bool {
    let bullet = body.starts_with(['-', '*', '+']) && body[1..].starts_with(' ');
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    bullet || ((1..=9).contains(&digits) && body[digits..].starts_with([')', '.']) && body[digits + 1..].starts_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Vec<Closed> {
        let (mut splitter, mut closed) = (Splitter::new(false), Vec::new());
        splitter.finish(text, &mut closed);
        closed
    }

    fn texts(text: &str) -> Vec<(&str, What)> {
        whole(text).into_iter().map(|block| (text[block.start..block.end].trim_end(), block.what)).collect()
    }

    #[test]
    fn blocks_are_cut_where_markdown_ends_them() {
        let text = "One\ntwo\n\n# Title\nthree\n- a\n\n  still a\n- b\n\nfour\n```rust x\nlet a;\n\n```\nfive";
        let prose = What::Prose;
        let expected = [
            ("One\ntwo", prose.clone()),
            ("# Title", prose.clone()),
            ("three\n- a\n\n  still a\n- b", prose.clone()),
            ("four", prose.clone()),
            ("```rust x", What::CodeBegin("rust".into())),
            ("let a;", What::Code),
            ("", What::Code),
            ("```", What::CodeEnd),
            ("five", prose),
        ];
        assert_eq!(texts(text), expected);
        let gaps: Vec<bool> = whole(text).into_iter().map(|block| block.gap).collect();
        assert_eq!(gaps, [false, true, false, true, false, false, false, false, false]);
    }

    #[test]
    fn however_it_streams_the_blocks_are_the_same() {
        let text = "Xin chào\n\n1. một\n2. hai\n\n\nba\n~~~~\n```\n~~~~\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quote\n";
        for size in 1..9 {
            let (mut splitter, mut closed, mut shown) = (Splitter::new(false), Vec::new(), String::new());
            let chars: Vec<char> = text.chars().collect();
            for piece in chars.chunks(size) {
                shown.extend(piece);
                splitter.feed(&shown, &mut closed);
            }
            splitter.finish(&shown, &mut closed);
            assert_eq!(closed, whole(text), "pieces of {size}");
        }
    }

    #[test]
    fn a_long_table_says_its_head_again() {
        let text = format!("| a | b |\n|---|---|\n{}\nend", "| one | two |\n".repeat(800));
        let heads: Vec<_> = whole(&text).into_iter().map(|block| block.head).collect();
        let head = Some("| a | b |\n|---|---|\n".to_owned());
        assert_eq!((heads.len(), &heads[0], &heads[1], &heads[2]), (4, &None, &head, &head));
        assert_eq!(heads[3], None);
        let list = format!("- item\n{}", "- item\n".repeat(800));
        assert!(whole(&list).iter().all(|block| block.head.is_none()));
    }

    #[test]
    fn no_open_block_grows_for_ever() {
        for piece in ["word ", "ữ", "a line\n", "- item\n"] {
            let (mut splitter, mut closed, mut shown) = (Splitter::new(false), Vec::new(), String::new());
            for _ in 0..20_000 {
                shown.push_str(piece);
                splitter.feed(&shown, &mut closed);
                assert!(shown.len() - splitter.open(0).start <= 2 * OPEN_MAX, "{piece:?}");
            }
            splitter.finish(&shown, &mut closed);
            let joined: String = closed.iter().map(|block| &shown[block.start..block.end]).collect();
            assert_eq!(joined, shown, "nothing is lost");
        }
    }
}
