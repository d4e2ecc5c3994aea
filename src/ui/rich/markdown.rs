//! One closed or open block of Markdown as rows.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::table::Table;
use super::{Ink, Kind, Row};
use crate::ui::text::{one_line, width};

/// Lists and quotes inside of one another that are indented; those deeper stand where the last one does.
const DEPTH_MAX: usize = 8;
const RULE: usize = 24;

/// Rows, and whether they depend on the width that they were made for.
pub fn render(text: &str, columns: usize) -> (Vec<Row>, bool) {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer { columns, ..Writer::default() };
    for event in Parser::new_ext(text, options) {
        writer.take(event);
    }
    writer.flush();
    (writer.rows, writer.wide)
}

#[derive(Debug, Default)]
struct Writer {
    columns: usize,
    rows: Vec<Row>,
    row: Row,
    /// Something was begun that has a row even without text.
    begun: bool,
    inks: Vec<Ink>,
    /// What stands before the next row and before those after it, of each list and quote around.
    leads: Vec<(String, String)>,
    lists: Vec<Option<u64>>,
    links: Vec<(usize, String)>,
    table: Option<Table>,
    code: bool,
    wide: bool,
    /// A paragraph has ended: another one after it is set apart.
    apart: bool,
}

impl Writer {
    fn ink(&self) -> Ink {
        self.inks.last().copied().unwrap_or_default()
    }

    fn with(&mut self, change: impl Fn(&mut Ink)) {
        let mut ink = self.ink();
        change(&mut ink);
        self.inks.push(ink);
    }

    fn lead(&self) -> (String, String) {
        let take = self.leads.iter().take(DEPTH_MAX);
        let (mut first, mut rest) = (String::new(), String::new());
        for (one, other) in take {
            first.push_str(one);
            rest.push_str(other);
        }
        // Half of the width is for the text.
        if width(&first) * 2 > self.columns { (String::new(), String::new()) } else { (first, rest) }
    }

    /// Ends the row that is being written.
    fn flush(&mut self) {
        if !self.begun && self.row.text.is_empty() {
            return;
        }
        let (lead, rest) = self.lead();
        let mut row = std::mem::take(&mut self.row);
        (row.lead, row.rest, self.begun) = (lead, rest, false);
        self.rows.push(row);
        // An item's mark stands before its first row alone.
        for (first, rest) in &mut self.leads {
            first.clone_from(rest);
        }
    }

    /// An entity in the text can be any character: everything is cleaned once more.
    fn write(&mut self, text: &str) {
        let ink = self.ink();
        let text = one_line(text);
        match self.table.as_mut().and_then(|table| table.rows.last_mut()).and_then(|row| row.last_mut()) {
            Some(cell) => cell.push(&text, ink),
            None => self.row.push(&text, ink),
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.code => {
                for line in text.split_inclusive('\n') {
                    self.begun = true;
                    self.write(line.trim_end_matches('\n'));
                    if line.ends_with('\n') {
                        self.flush();
                    }
                }
            }
            Event::Text(text) | Event::InlineMath(text) | Event::DisplayMath(text) => self.write(&text),
            Event::Code(text) => {
                self.with(|ink| ink.kind = Kind::Code);
                self.write(&text);
                self.inks.pop();
            }
            Event::Html(text) | Event::InlineHtml(text) => {
                for line in text.split_inclusive('\n') {
                    self.write(line.trim_end_matches('\n'));
                    if line.ends_with('\n') {
                        self.flush();
                    }
                }
            }
            Event::FootnoteReference(name) => self.write(&format!("[{name}]")),
            Event::SoftBreak | Event::HardBreak => match self.table.is_some() {
                true => self.write(" "),
                false => self.flush(),
            },
            Event::Rule => {
                self.flush();
                self.wide = true;
                self.row.push(&"─".repeat(RULE.min(self.columns)), Ink::of(Kind::Quiet));
                self.flush();
            }
            Event::TaskListMarker(done) => self.write(if done { "[x] " } else { "[ ] " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => {
                // Two paragraphs of one quote.
                let apart = std::mem::take(&mut self.apart);
                if apart && self.lists.is_empty() {
                    self.begun = true;
                    self.flush();
                }
            }
            Tag::Heading { .. } => {
                self.flush();
                self.with(|ink| (ink.kind, ink.bold) = (Kind::Heading, true));
            }
            Tag::BlockQuote(_) => {
                self.flush();
                self.apart = false;
                self.leads.push(("┃ ".into(), "┃ ".into()));
                self.with(|ink| ink.italic = true);
            }
            Tag::CodeBlock(kind) => self.begin_code(&kind),
            Tag::List(first) => {
                self.flush();
                self.lists.push(first);
            }
            Tag::Item => self.begin_item(),
            Tag::Emphasis => self.with(|ink| ink.italic = true),
            Tag::Strong => self.with(|ink| ink.bold = true),
            Tag::Strikethrough => self.with(|ink| ink.strike = true),
            Tag::Link { dest_url, .. } => self.begin_link(&dest_url),
            Tag::Image { dest_url, .. } => {
                self.begin_link(&dest_url);
                self.write("[image] ");
            }
            Tag::Table(sides) => {
                self.flush();
                self.wide = true;
                self.table = Some(Table { sides, ..Table::default() });
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            Tag::TableCell => {
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(Row::default());
                }
            }
            _ => {}
        }
    }

    fn begin_code(&mut self, kind: &CodeBlockKind<'_>) {
        self.flush();
        self.code = true;
        self.leads.push(("│ ".into(), "│ ".into()));
        self.with(|ink| *ink = Ink::of(Kind::Code));
        if let CodeBlockKind::Fenced(name) = kind
            && !name.is_empty()
        {
            self.write(name);
            self.flush();
        }
    }

    fn begin_item(&mut self) {
        self.flush();
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number = number.saturating_add(1);
                format!("{}. ", *number - 1)
            }
            _ => "• ".to_owned(),
        };
        let rest = " ".repeat(width(&mark));
        self.leads.push((mark, rest));
        self.begun = true;
    }

    fn begin_link(&mut self, address: &str) {
        self.with(|ink| ink.kind = Kind::Link);
        self.links.push((self.row.text.len(), address.to_owned()));
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => {
                self.flush();
                self.apart = true;
            }
            TagEnd::Heading(_) => {
                self.flush();
                self.inks.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.leads.pop();
                self.inks.pop();
                self.apart = false;
            }
            TagEnd::CodeBlock => {
                self.flush();
                self.leads.pop();
                self.inks.pop();
                self.code = false;
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Item => {
                self.flush();
                self.leads.pop();
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.inks.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.inks.pop();
                if let Some((from, address)) = self.links.pop()
                    && self.row.text.get(from..).is_none_or(|text| text != address)
                {
                    self.with(|ink| *ink = Ink::of(Kind::Quiet));
                    self.write(&format!(" ({address})"));
                    self.inks.pop();
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let (lead, _) = self.lead();
                    self.rows.extend(table.lay_out(self.columns, &lead));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, columns: usize) -> Vec<String> {
        let (rows, _) = render(text, columns);
        let spans = super::super::wrap(&rows, columns, &mut 0);
        let line = |span: &super::super::Span| {
            let row = &rows[span.row];
            format!("{}{}", if span.start == 0 { &row.lead } else { &row.rest }, &row.text[span.start..span.end])
        };
        spans.iter().map(line).map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn lists_quotes_and_breaks() {
        let text = "Some *words* and `code`\nnext\n1. one two three four\n   - [x] inner\n2. two\n\n> said\n>\n> again";
        let expected =
            ["Some words and code", "next", "1. one two three", "   four", "   • [x] inner", "2. two", "┃ said", "┃", "┃ again"];
        assert_eq!(lines(text, 20), expected);
    }

    #[test]
    fn tables_fit_or_become_lists() {
        let text = "| name | what it is |\n|---|---|\n| KV | keys and values of every token |\n| ü | 測 |";
        assert_eq!(
            lines(text, 40),
            ["name │ what it is", "─────┼───────────────────────────────", "KV   │ keys and values of every token", "ü    │ 測",]
        );
        for columns in [14, 20, 25] {
            assert!(lines(text, columns).iter().all(|line| width(line) <= columns), "{:?}", lines(text, columns));
        }
        assert_eq!(lines(text, 8)[..2], ["• name:", "  KV"].map(String::from));
    }

    #[test]
    fn columns_of_a_table_stand_as_they_are_told_to() {
        let text = "| what | ms | side |\n|:---|---:|:---:|\n| one | 7 | a |\n| ü | 1234 | 測 |";
        let expected = ["what │   ms │ side", "─────┼──────┼─────", "one  │    7 │  a", "ü    │ 1234 │  測"];
        assert_eq!(lines(text, 40), expected);
        for columns in 1..30 {
            assert!(lines(text, columns).iter().all(|line| width(line) <= columns.max(8)), "{:?}", lines(text, columns));
        }
    }

    #[test]
    fn links_say_where_they_go_and_entities_command_nothing() {
        assert_eq!(lines("see [here](http://x.y/z) and <http://x.y>", 80), ["see here (http://x.y/z) and http://x.y"]);
        let evil = "a &#27;[31m b &#x202e; c <b>x</b> [l](http://e&#27;]0;x)";
        let all = lines(evil, 80).join("");
        assert!(!all.chars().any(|c| c.is_control() || c == '\u{202e}'), "{all:?}");
        assert!(all.contains("␛[31m") && all.contains("<b>x</b>"), "{all:?}");
    }

    #[test]
    fn any_nesting_leaves_room_for_text() {
        let deep: String = (0..40).map(|depth| format!("{}- x\n", "  ".repeat(depth))).collect();
        assert!(lines(&deep, 12).iter().all(|line| width(line) <= 12));
        assert!(lines(&"> ".repeat(60).to_string(), 12).len() < 10);
    }
}
