//! One person's chat: transcript, a line on how it goes, the draft.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Widget};

use super::panel::{speed_of, wrapped};
use crate::engine::api::{RunState, Status, Waiting};
use crate::text::Role;
use crate::ui::format::{count, percent, rate, rate_or_unknown, time};
use crate::ui::people::People;
use crate::ui::state::{Pane, State, is_live};
use crate::ui::text::{clip, first_fit, width};
use crate::ui::transcript::TurnLine;

/// Columns before the draft.
pub const PROMPT: usize = 2;
/// Lines of draft shown at most.
const DRAFT_ROWS: u16 = 6;

/// How a pane's inside is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    pub transcript: Rect,
    pub status: Rect,
    pub draft: Rect,
}

/// Divides a pane for the draft that is in it, if one can be written. A refusal has all the rows that it needs, and leaves
/// one to the draft.
pub fn parts(area: Rect, pane: &Pane, drafts: bool) -> Parts {
    let inner = Rect { x: area.x + 1, y: area.y + 1, width: area.width.saturating_sub(2), height: area.height.saturating_sub(2) };
    let (lines, ..) = pane.editor.layout(usize::from(inner.width).saturating_sub(PROMPT));
    let refusal = refusal(pane, inner.width).len().min(usize::from(inner.height.saturating_sub(1))) as u16;
    let draft = if drafts { (lines.len() as u16).clamp(1, DRAFT_ROWS).min(inner.height - refusal) } else { 0 };
    let status = if refusal > 0 { refusal } else { u16::from(inner.height > draft + 1) };
    let transcript = inner.height - draft - status;
    Parts {
        // A column stays free: text does not touch the border, and the cursor after a full line has a place.
        transcript: Rect { height: transcript, width: inner.width.saturating_sub(1), ..inner },
        status: Rect { y: inner.y + transcript, height: status, ..inner },
        draft: Rect { y: inner.y + transcript + status, height: draft, ..inner },
    }
}

/// Why the last prompt was refused, in lines of so many columns; none if it was not.
fn refusal(pane: &Pane, columns: u16) -> Vec<String> {
    match &pane.refused {
        Some(why) => wrapped(&format!("refused: {why}"), usize::from(columns.max(1))),
        None => Vec::new(),
    }
}

/// Draws a pane, and says where the cursor goes if it is this pane's.
pub fn draw(buf: &mut Buffer, area: Rect, state: &State, index: usize, people: &People) -> Option<Position> {
    let pane = &state.panes[index];
    let focused = index == state.focus;
    if area.width < 4 || area.height < 3 {
        return None;
    }
    let theme = state.options.theme;
    let person = theme.person(pane.person.hue);
    let border = if focused { person.add_modifier(Modifier::BOLD) } else { theme.border() };
    let kind = if focused { BorderType::Thick } else { BorderType::Rounded };
    let number = if index < 9 { format!("{} ", index + 1) } else { String::new() };
    let figure = headline(state, pane);
    let room = usize::from(area.width).saturating_sub(6 + width(&figure));
    let name = Line::from(vec![
        Span::styled(format!(" {number}"), theme.quiet()),
        Span::styled(
            format!("{} ", clip(&pane.person.name, room.saturating_sub(number.len()))),
            person.add_modifier(Modifier::BOLD),
        ),
    ]);
    let mut block = Block::bordered().border_type(kind).border_style(border).title(name);
    if !figure.is_empty() && usize::from(area.width) > 10 + width(&figure) {
        block = block.title(Line::from(Span::styled(format!(" {figure} "), headline_style(state, pane))).right_aligned());
    }
    block.render(area, buf);
    let parts = parts(area, pane, state.replay.is_none());
    transcript(buf, parts.transcript, state, pane, person);
    status(buf, parts.status, state, pane, people);
    draft(buf, parts.draft, state, pane, focused)
}

/// What the pane's title says on the right.
fn headline(state: &State, pane: &Pane) -> String {
    if !pane.live {
        return String::new();
    }
    match state.view_of(pane).filter(|view| is_live(view)) {
        None => "… sending".into(),
        Some(view) => match view.status {
            Status::Waiting => "◌ waiting".into(),
            Status::Preempted => "× preempted".into(),
            Status::Prefill { computed, total } => format!("◐ prefill {}", percent(computed as u64, total as u64)),
            Status::Decode => match speed_of(view, &state.snapshot) {
                Some(speed) => format!("● {} tok/s", rate(speed)),
                None => "● decode".into(),
            },
            Status::Finished(_) => String::new(),
        },
    }
}

fn headline_style(state: &State, pane: &Pane) -> Style {
    let theme = state.options.theme;
    match state.view_of(pane).map(|view| view.status) {
        Some(Status::Preempted) => theme.bad(),
        Some(Status::Waiting) => theme.warn(),
        _ => theme.good(),
    }
}

fn transcript(buf: &mut Buffer, area: Rect, state: &State, pane: &Pane, person: Style) {
    let theme = state.options.theme;
    if pane.transcript.is_empty() && area.height > 0 {
        let quiet = ["Nothing has been asked yet.".to_owned(), "Nothing yet.".to_owned(), String::new()];
        let hints = ["Type a prompt below and press Enter.".to_owned(), "Type below, then Enter.".to_owned(), String::new()];
        let hints = if state.replay.is_some() { quiet } else { hints };
        let room = usize::from(area.width.saturating_sub(2));
        buf.set_stringn(area.x + 2, area.y, first_fit(&hints, room), room, theme.quiet());
        return;
    }
    let newest_answers = pane.live && pane.transcript.following();
    let mut last = (area.x + 2, area.y);
    for (row, line) in (area.y..area.bottom()).zip(pane.transcript.visible()) {
        let (mark, text, style) = match line {
            TurnLine::Text { role: Role::User, text, first } => {
                (if first { "❯ " } else { "  " }, text, person.add_modifier(Modifier::BOLD))
            }
            TurnLine::Text { text, .. } => ("  ", text, theme.text()),
            TurnLine::Note(text) => ("– ", text, theme.quiet()),
            TurnLine::Blank => ("", "", theme.text()),
        };
        let room = usize::from(area.width);
        let (x, _) = buf.set_stringn(area.x, row, mark, room, style);
        let end = buf.set_stringn(x, row, text, room.saturating_sub(2), style).0;
        if line != TurnLine::Blank {
            last = (end, row);
        }
    }
    if newest_answers && last.0 <= area.right() {
        buf.set_string(last.0, last.1, "▌", theme.person(pane.person.hue));
    }
    held_mark(buf, area, state, pane);
}

/// Scrolled up: how much is below, and whether it is new.
fn held_mark(buf: &mut Buffer, area: Rect, state: &State, pane: &Pane) {
    let below = pane.transcript.below();
    if pane.transcript.following() || below == 0 || area.height == 0 {
        return;
    }
    let new = if pane.transcript.unseen() { "new text, " } else { "" };
    let text = format!(" ↓ {new}{} lines below · Ctrl-End ", count(below as u64));
    let text = clip(&text, usize::from(area.width));
    let x = area.right().saturating_sub(width(&text) as u16);
    buf.set_string(x, area.bottom() - 1, &text, state.options.theme.chosen());
}

fn status(buf: &mut Buffer, area: Rect, state: &State, pane: &Pane, people: &People) {
    if area.height == 0 {
        return;
    }
    let theme = state.options.theme;
    let room = usize::from(area.width);
    let refusal = refusal(pane, area.width);
    if !refusal.is_empty() {
        let cut = refusal.len() > usize::from(area.height);
        for (row, line) in (area.y..area.bottom()).zip(&refusal) {
            buf.set_stringn(area.x, row, line, room, theme.bad());
        }
        if cut {
            buf.set_string(area.right() - 1, area.bottom() - 1, "…", theme.bad());
        }
        return;
    }
    let (wordings, style) = status_words(state, pane, people);
    let text = first_fit(&wordings, room.saturating_sub(1));
    buf.set_stringn(area.x, area.y, "╌".repeat(room), room, theme.border());
    if !text.is_empty() {
        buf.set_stringn(area.x, area.y, format!("{text} "), room, style);
    }
}

/// The line under the transcript: a reason to wait, or the figures; longest wording first.
fn status_words(state: &State, pane: &Pane, people: &People) -> (Vec<String>, Style) {
    let theme = state.options.theme;
    let Some(view) = state.view_of(pane) else { return (vec![String::new()], theme.quiet()) };
    if pane.live && is_live(view) {
        if let Some(why) = &view.waiting {
            let words = super::users::why(why, people, theme);
            let preempted = matches!(why, Waiting::Preempted { .. }) || view.status == Status::Preempted;
            let head = if preempted { "preempted, its text stays" } else { "waits" };
            let paused = if state.snapshot.state == RunState::Paused { " (paused)" } else { "" };
            let (short_head, short) =
                (if preempted { "preempted" } else { "waits" }, super::users::why_short(why, people, theme));
            return (
                vec![
                    format!("{head}: {words}{paused}"),
                    format!("{head}: {words}"),
                    format!("{short_head}: {words}"),
                    format!("{short_head}: {short}"),
                    short,
                ],
                if preempted { theme.bad() } else { theme.warn() },
            );
        }
    } else if pane.live {
        return (vec![String::new()], theme.quiet());
    }
    let mut figures = Vec::new();
    if let Some(ttft) = view.ttft {
        figures.push(format!("TTFT {}", time(ttft)));
    }
    if view.tokens_per_s.is_some() || (is_live(view) && state.snapshot.state == RunState::Paused) {
        figures.push(format!("{} tok/s", rate_or_unknown(speed_of(view, &state.snapshot))));
    }
    figures.push(format!("ctx {} of {}", count(view.context as u64), count(state.snapshot.limits.max_model_len as u64)));
    let short = figures[..figures.len() - 1].join(" · ");
    if view.preemptions > 0 {
        figures.push(format!("preempted {}×", view.preemptions));
    }
    (vec![figures.join(" · "), figures[..figures.len().min(3)].join(" · "), short], theme.quiet())
}

fn draft(buf: &mut Buffer, area: Rect, state: &State, pane: &Pane, focused: bool) -> Option<Position> {
    let theme = state.options.theme;
    if area.height == 0 || usize::from(area.width) <= PROMPT {
        return None;
    }
    let mark = if state.broadcast { "» " } else { "> " };
    let style = if focused { theme.key() } else { theme.quiet() };
    buf.set_stringn(area.x, area.y, mark, PROMPT, style);
    let columns = usize::from(area.width) - PROMPT;
    let (lines, row, column) = pane.editor.layout(columns);
    let first = (row + 1).saturating_sub(usize::from(area.height));
    for (at, (start, end)) in lines.iter().skip(first).take(usize::from(area.height)).enumerate() {
        let text = &pane.editor.text()[*start..*end];
        buf.set_stringn(area.x + PROMPT as u16, area.y + at as u16, text, columns, theme.text());
    }
    focused
        .then(|| Position { x: (area.x + PROMPT as u16 + column as u16).min(area.right() - 1), y: area.y + (row - first) as u16 })
}
