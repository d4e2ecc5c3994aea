//! What opens over the screen: help, the list of everything, rename, parameters.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::panel::wrapped;
use crate::ui::editor::Editor;
use crate::ui::keymap::{Action, Binding, Group, PICK, key_for, search};
use crate::ui::state::{Mode, State};
use crate::ui::text::{clip, one_line, width};
use crate::ui::theme::Theme;
use crate::ui::words::say;

/// What the first Esc says where something was changed.
pub const DISCARDS: &str = "Esc once more discards what was changed";

/// Draws what is open, and says where the cursor goes.
pub fn draw(buf: &mut Buffer, area: Rect, state: &State) -> Option<Position> {
    let theme = state.options.theme;
    match &state.mode {
        Mode::Help { scroll } => {
            help(buf, area, state, *scroll);
            None
        }
        Mode::Log { lines, below } => {
            log(buf, area, state, lines, *below);
            None
        }
        Mode::Palette { filter, chosen } => palette(buf, area, state, filter, *chosen),
        Mode::Rename(editor) => {
            let title = say!(theme, "New name for {}", clip(&state.focused().person.name, 24));
            one_field(buf, area, state, editor, (&title, theme.tr("Enter keeps it · Esc does not")))
        }
        Mode::GoTo(editor) => {
            one_field(buf, area, state, editor, (theme.tr("Go to step"), theme.tr("Enter goes there · Esc stays")))
        }
        Mode::Shelf(shelf) => super::history::draw(buf, area, state, shelf),
        Mode::Params(form) => super::form::draw(buf, area, state, form),
        Mode::Export(save) => super::form::export(buf, area, state, save),
        Mode::Pick(_)
        | Mode::Search(_)
        | Mode::Settings(_)
        | Mode::Chat
        | Mode::ConfirmClose
        | Mode::ConfirmClear
        | Mode::ConfirmQuit => None,
    }
}

/// An empty framed box in the middle; gives its inside.
pub(super) fn frame(buf: &mut Buffer, area: Rect, state: &State, size: (u16, u16), title: &str, foot: &str) -> Rect {
    let (width, height) = (size.0.min(area.width), size.1.min(area.height));
    let area = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    Clear.render(area, buf);
    let theme = state.options.theme;
    let foot = if state.leaving { theme.tr(DISCARDS) } else { foot };
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.accent())
        .title(Line::from(Span::styled(format!(" {title} "), theme.strong())))
        .title_bottom(Line::from(Span::styled(format!(" {foot} "), theme.quiet())).right_aligned());
    let inner = block.inner(area);
    block.render(area, buf);
    inner
}

/// The words of the machine room, and what they mean.
pub const GLOSSARY: [(&str, &str); 22] = [
    ("step", "one pass over the weights: every row of the batch gets on by one token, or by a chunk of its prompt"),
    ("batch", "the sequences that share this step: the weights are read once for all of them"),
    ("prefill", "a prompt being computed, in chunks, between the others' tokens"),
    ("decode", "one new token a step"),
    ("budget", "tokens that one step computes at most, prompts and answers together"),
    ("queue", "who waits for a seat, for blocks, or for the budget; the pane and the users table say which"),
    ("TTFT", "time from Enter to the first token, waiting included"),
    ("ITL p95", "19 of 20 gaps between two tokens are shorter"),
    ("tok/s", "new tokens a second after the first one: waiting and prefill are not in it"),
    ("KV", "the keys and values of every token so far, in blocks of a fixed size"),
    ("cached", "blocks of ended chats that are kept: whoever begins with the same text need not compute it"),
    ("shared", "blocks that several sequences hold at once, and only one copy is in memory"),
    ("preempted", "its blocks were taken for an older request; it comes back, and its text stays"),
    ("waste", "slots of blocks that are taken and not filled yet"),
    ("TPOT", "time per token of one answer after its first: the mean, where ITL tells each gap"),
    ("watermark", "blocks kept back when a new prompt asks to come in, so that those who run can go on"),
    (
        "policy",
        "who is let in first, and who is preempted; fcfs: in order of arrival; fair: whoever was served least; priority: the highest",
    ),
    ("continuous", "batching in which a freed seat is given away at the next step"),
    ("static", "batching in which a freed seat stays empty until the whole group is done; for comparison"),
    ("products", "the part of a step in which weights are multiplied with the rows of the batch"),
    ("paced", "slowed down for watching; no result depends on it"),
    ("bot", "somebody made of program, who chats by themselves: load to watch"),
];

/// Columns of keys and head words in the help.
const KEYS: usize = 24;

/// A key or a word, and what it is, wrapped beside it; under it where there is too little room.
fn entry(theme: Theme, key: &str, about: &str, columns: usize) -> Vec<Line<'static>> {
    let left = if columns >= 60 { KEYS + 2 } else { 4 };
    let room = columns.saturating_sub(left).max(1);
    let mut about = wrapped(about, room).into_iter();
    let mut lines = Vec::new();
    let beside = left > 4 && width(key) + 3 <= left;
    let mut first = vec![Span::styled(format!("  {key}"), theme.key())];
    if beside {
        first.push(Span::raw(" ".repeat(left - 2 - width(key))));
        first.extend(about.next().map(Span::raw));
    }
    lines.push(Line::from(first));
    lines.extend(about.map(|line| Line::from(format!("{}{line}", " ".repeat(left)))));
    lines
}

/// What the screen calls it, and the English word where that is another.
fn head_word(theme: Theme, word: &'static str) -> String {
    match theme.tr(word) {
        own if own == word => word.to_owned(),
        own => format!("{own} ({word})"),
    }
}

/// Every action by group, and how to read the machine room, on so many columns.
fn help_lines(state: &State, columns: usize) -> Vec<Line<'static>> {
    let theme = state.options.theme;
    let mut lines = Vec::new();
    for group in Group::ALL {
        let all: &[Binding] = if group == Group::Picking && state.replay.is_none() { PICK } else { state.keys() };
        if all.iter().all(|binding| binding.group != group) {
            continue;
        }
        // Whoever looks for a word does not have to pass the keys of a text field.
        if group == Group::Editing {
            lines.extend(glossary(theme, columns));
            lines.push(Line::default());
        }
        lines.push(Line::from(Span::styled(theme.tr(group.title()), theme.strong())));
        for binding in all.iter().filter(|binding| binding.group == group) {
            // Two names for one key, as terminals send it, are one name for a person.
            let mut labels: Vec<String> = binding.keys.iter().map(|key| key.label()).collect();
            labels.dedup();
            labels.truncate(2);
            let shown = labels.join(", ");
            let keys = if binding.keys.is_empty() { say!(theme, "{}, then type it", key_for(Action::Palette)) } else { shown };
            lines.extend(entry(theme, &keys, theme.tr(binding.about), columns));
        }
        lines.push(Line::default());
    }
    if state.keys().iter().all(|binding| binding.group != Group::Editing) {
        lines.extend(glossary(theme, columns));
    }
    lines
}

/// How to read the machine room.
fn glossary(theme: Theme, columns: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from(Span::styled(theme.tr("Reading the machine room"), theme.strong()))];
    for (word, about) in GLOSSARY {
        lines.extend(entry(theme, &head_word(theme, word), theme.tr(about), columns));
    }
    lines
}

fn help(buf: &mut Buffer, area: Rect, state: &State, scroll: usize) {
    let theme = state.options.theme;
    let lines = help_lines(state, help_columns(area));
    let height = (lines.len() as u16 + 2).min(area.height);
    let inner =
        frame(buf, area, state, (HELP, height), theme.tr("Help"), theme.tr("↑ ↓ PgUp PgDn scroll · any other key closes"));
    let scroll = scroll.min(lines.len().saturating_sub(usize::from(inner.height)));
    for (row, line) in lines.iter().skip(scroll).take(usize::from(inner.height)).enumerate() {
        buf.set_line(inner.x + 1, inner.y + row as u16, line, inner.width.saturating_sub(2));
    }
}

/// Columns of the help with its border.
const HELP: u16 = 100;

/// Columns of its text.
fn help_columns(area: Rect) -> usize {
    usize::from(HELP.min(area.width).saturating_sub(4))
}

/// How far the help can be scrolled.
pub fn help_most(state: &State) -> usize {
    let lines = help_lines(state, help_columns(state.area)).len();
    lines.saturating_sub(usize::from(state.area.height.saturating_sub(2)))
}

/// Lines of the log that are shown at once.
pub fn log_rows(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(6))
}

/// The newest lines at the bottom.
fn log(buf: &mut Buffer, area: Rect, state: &State, lines: &[String], below: usize) {
    let theme = state.options.theme;
    let size = (area.width.saturating_sub(4), area.height.saturating_sub(4));
    let inner = frame(buf, area, state, size, theme.tr("Log"), theme.tr("↑ ↓ PgUp PgDn scroll · any other key closes"));
    let end = lines.len() - below.min(lines.len());
    let first = end.saturating_sub(usize::from(inner.height));
    for (row, line) in lines[first..end].iter().enumerate() {
        let line = clip(&one_line(line), usize::from(inner.width));
        buf.set_stringn(inner.x, inner.y + row as u16, line, usize::from(inner.width), theme.text());
    }
    if lines.is_empty() && inner.height > 0 {
        buf.set_stringn(inner.x, inner.y, theme.tr("nothing has been noted yet"), usize::from(inner.width), theme.quiet());
    }
}

fn palette(buf: &mut Buffer, area: Rect, state: &State, filter: &Editor, chosen: usize) -> Option<Position> {
    let theme = state.options.theme;
    let found = search(state.offered(), filter.text(), theme.lang());
    let inner = frame(buf, area, state, (76, 22), theme.tr("Everything"), theme.tr("type to find · Enter runs it · Esc closes"));
    if inner.height < 2 || inner.width < 4 {
        return None;
    }
    let cursor = field(buf, Rect { height: 1, ..inner }, state, filter, "> ");
    let rows = usize::from(inner.height) - 1;
    let chosen = chosen.min(found.len().saturating_sub(1));
    let first = (chosen + 1).saturating_sub(rows);
    for (row, binding) in found.iter().enumerate().skip(first).take(rows) {
        let y = inner.y + 1 + (row - first) as u16;
        let key = binding.keys.first().map(|key| key.label()).unwrap_or_default();
        let room = usize::from(inner.width).saturating_sub(2);
        let about = clip(theme.tr(binding.about), room.saturating_sub(width(&key) + 1));
        let gap = room.saturating_sub(width(&about) + width(&key));
        let style = if row == chosen { theme.chosen() } else { theme.text() };
        let line = vec![
            Span::styled(format!(" {about}{}", " ".repeat(gap)), style),
            Span::styled(format!("{key} "), if row == chosen { style } else { theme.key() }),
        ];
        buf.set_line(inner.x, y, &Line::from(line), inner.width);
    }
    if found.is_empty() {
        buf.set_stringn(
            inner.x + 1,
            inner.y + 1,
            theme.tr("nothing is called that"),
            usize::from(inner.width - 1),
            theme.quiet(),
        );
    }
    Some(cursor)
}

/// `words`: title and foot.
fn one_field(buf: &mut Buffer, area: Rect, state: &State, editor: &Editor, words: (&str, &str)) -> Option<Position> {
    let inner = frame(buf, area, state, (48, 3), words.0, words.1);
    (inner.height > 0 && inner.width > 3).then(|| field(buf, inner, state, editor, " "))
}

/// A one-line field that scrolls with its cursor.
pub(super) fn field(buf: &mut Buffer, area: Rect, state: &State, editor: &Editor, mark: &str) -> Position {
    let theme = state.options.theme;
    let mark_columns = width(mark) as u16;
    buf.set_stringn(area.x, area.y, mark, usize::from(area.width), theme.key());
    let room = usize::from(area.width.saturating_sub(mark_columns + 1)).max(1);
    let before = width(&editor.text()[..editor.cursor()]);
    let mut shown = editor.text();
    let mut hidden = 0;
    while before - hidden > room {
        let Some(first) = unicode_segmentation::UnicodeSegmentation::graphemes(shown, true).next() else { break };
        hidden += width(first);
        shown = &shown[first.len()..];
    }
    buf.set_stringn(area.x + mark_columns, area.y, shown, room + 1, theme.text());
    Position { x: area.x + mark_columns + (before - hidden) as u16, y: area.y }
}
