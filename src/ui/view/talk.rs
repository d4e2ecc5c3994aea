//! The text of a conversation in its pane: inks, marks of what is chosen and found.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use crate::text::Role;
use crate::ui::format::count;
use crate::ui::keymap::{self, Action};
use crate::ui::rich::{Ink, Kind};
use crate::ui::state::{Mode, Pane, State};
use crate::ui::text::{clip, first_fit, width};
use crate::ui::theme::{Colors, Theme};
use crate::ui::transcript::{Shown, TurnLine};
use crate::ui::turn::occurrences;
use crate::ui::words::say;

/// What an ink looks like. Without colours it is bold, dim or underlined, or what stands around it says it.
pub fn style_of(ink: Ink, theme: Theme) -> Style {
    let mut style = match ink.kind {
        Kind::Text => theme.text(),
        Kind::Quiet | Kind::Comment => theme.quiet(),
        Kind::Heading => theme.accent().add_modifier(Modifier::BOLD),
        Kind::Link => theme.accent().add_modifier(Modifier::UNDERLINED),
        Kind::Code => code(theme),
        Kind::Keyword => theme.accent().add_modifier(Modifier::BOLD),
        Kind::Literal => theme.good(),
        Kind::Number => theme.warn(),
        Kind::Name => theme.person(3),
        Kind::Type => theme.person(4),
    };
    if ink.bold {
        style = style.add_modifier(Modifier::BOLD);
    }
    if ink.italic || ink.kind == Kind::Comment {
        style = style.add_modifier(Modifier::ITALIC);
    }
    if ink.strike {
        style = style.add_modifier(Modifier::CROSSED_OUT);
    }
    style
}

fn code(theme: Theme) -> Style {
    match theme.colors() {
        Colors::None => theme.strong(),
        Colors::Ansi16 => Style::new().fg(Color::Cyan),
        Colors::Indexed => theme.person(4),
    }
}

/// Draws what of the conversation is in view.
pub fn draw(buf: &mut Buffer, area: Rect, state: &State, pane: &Pane, person: Style) {
    let theme = state.options.theme;
    if pane.transcript.is_empty() && area.height > 0 {
        return nothing(buf, area, state);
    }
    let focused = std::ptr::eq(pane, state.focused());
    let chosen = match &state.mode {
        Mode::Pick(pick) if focused => Some(pick.turn),
        _ => None,
    };
    let needle = match &state.mode {
        Mode::Search(search) if search.all || focused => search.needle(),
        _ => Vec::new(),
    };
    let mut last = (area.x + 2, area.y);
    let mut marked = false;
    for (row, (turn, line)) in (area.y..area.bottom()).zip(pane.transcript.visible()) {
        let end = match line {
            TurnLine::Text(shown) => text(buf, area, row, &shown, &needle, person, theme),
            TurnLine::Note(note) => note_line(buf, area, row, "– ", note, theme.quiet()),
            TurnLine::Branch(at, of) => {
                let keys = (keymap::key_for(Action::BranchBefore), keymap::key_for(Action::BranchAfter));
                let long = say!(theme, "{}/{} · {} {} other branches", at, of, keys.0, keys.1);
                let words = first_fit(&[long, format!("{at}/{of}")], usize::from(area.width.saturating_sub(2)));
                note_line(buf, area, row, "├ ", &words, theme.warn())
            }
            TurnLine::Blank => area.x,
        };
        if chosen == Some(turn) && line != TurnLine::Blank {
            // A bar beside it, with a mark at its first line in view.
            let mark = if marked { " " } else { "▶" };
            buf.set_stringn(area.x, row, mark, usize::from(area.width), theme.key().patch(theme.chosen()));
            marked = true;
        }
        if line != TurnLine::Blank {
            last = (end, row);
        }
    }
    if pane.live && pane.shows_answer() && pane.transcript.following() && last.0 <= area.right() {
        buf.set_string(last.0, last.1, "▌", pane.person.style(theme));
    }
    held_mark(buf, area, state, pane);
}

fn nothing(buf: &mut Buffer, area: Rect, state: &State) {
    let theme = state.options.theme;
    let wordings = match state.replay {
        Some(_) => [theme.tr("Nothing has been asked yet."), theme.tr("Nothing yet.")],
        None => [theme.tr("Type a prompt below and press Enter."), theme.tr("Type below, then Enter.")],
    };
    let room = usize::from(area.width.saturating_sub(2));
    let wordings = [wordings[0].to_owned(), wordings[1].to_owned(), String::new()];
    buf.set_stringn(area.x + 2, area.y, first_fit(&wordings, room), room, theme.quiet());
}

fn note_line(buf: &mut Buffer, area: Rect, row: u16, mark: &str, text: &str, style: Style) -> u16 {
    let room = usize::from(area.width);
    let (x, _) = buf.set_stringn(area.x, row, mark, room, style);
    buf.set_stringn(x, row, text, room.saturating_sub(2), style).0
}

/// One line of a message; gives the column after it.
fn text(buf: &mut Buffer, area: Rect, row: u16, shown: &Shown<'_>, needle: &[char], person: Style, theme: Theme) -> u16 {
    let own = shown.role == Role::User;
    let base = if own { person.add_modifier(Modifier::BOLD) } else { theme.text() };
    let mark = if own && shown.first { "❯ " } else { "  " };
    let (mut x, _) = buf.set_stringn(area.x, row, mark, usize::from(area.width), base);
    let left = |x: u16| usize::from(area.right().saturating_sub(x));
    (x, _) = buf.set_stringn(x, row, shown.lead(), left(x), theme.quiet());
    let mut at = shown.start;
    let found = occurrences(&shown.row.text, needle);
    for (piece, ink) in shown.row.pieces(shown.start, shown.end) {
        let style = if own { base } else { style_of(ink, theme) };
        let mut from = 0;
        // A piece is cut where something that was looked for begins or ends.
        while from < piece.len() {
            let place = at + from;
            let hit = found.iter().find(|(start, end)| (*start..*end).contains(&place));
            let until = match hit {
                Some((_, end)) => *end,
                None => found.iter().map(|(start, _)| *start).find(|start| *start > place).unwrap_or(usize::MAX),
            };
            let to = until.saturating_sub(at).min(piece.len());
            let style = if hit.is_some() { style.patch(theme.chosen()) } else { style };
            (x, _) = buf.set_stringn(x, row, &piece[from..to], left(x), style);
            from = to;
        }
        at += piece.len();
    }
    x
}

/// Scrolled up: how much is below, and whether it is new.
fn held_mark(buf: &mut Buffer, area: Rect, state: &State, pane: &Pane) {
    let theme = state.options.theme;
    let below = pane.transcript.below();
    if pane.transcript.following() || below == 0 || area.height == 0 {
        return;
    }
    let key = keymap::key_for(Action::Bottom);
    let lines = count(below as u64);
    let text = match pane.transcript.unseen() {
        true => say!(theme, " ↓ new text, {} lines below · {} ", lines, key),
        false => say!(theme, " ↓ {} lines below · {} ", lines, key),
    };
    let text = clip(&text, usize::from(area.width));
    let x = area.right().saturating_sub(width(&text) as u16);
    buf.set_string(x, area.bottom() - 1, &text, theme.chosen());
}
