//! What happened lately, the newest at the bottom.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::panel;
use crate::batch::UserId;
use crate::engine::api::{FinishReason, Note, NoteKind, Snapshot};
use crate::ui::people::People;
use crate::ui::theme::Theme;
use crate::ui::{format, text};

/// Lines that are worth asking for.
const ROWS: usize = 8;
/// Lines of one note at most: a refusal can be a long sentence.
const LINES_MAX: usize = 3;

pub fn wanted_height(snapshot: &Snapshot, _width: u16) -> u16 {
    (2 + snapshot.notes.len().clamp(1, ROWS)) as u16
}

pub fn draw(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, people: &People, theme: Theme) {
    let Some(inner) = panel::frame(buf, area, "events", &figures(snapshot), theme) else { return };
    let (width, height) = (usize::from(inner.width), usize::from(inner.height));
    if snapshot.notes.is_empty() {
        panel::put(buf, inner, 0, Line::styled(text::clip("nothing has happened yet", width), theme.quiet()));
        return;
    }
    let step = snapshot.notes.back().map_or(0, |note| text::width(&note.step.to_string()));
    // From the newest back until the panel is full; what does not fit whole loses its first lines.
    let mut lines: Vec<Line<'static>> = Vec::new();
    for note in snapshot.notes.iter().rev() {
        if lines.len() >= height {
            break;
        }
        lines.extend(note_lines(note, people, width, step, theme).into_iter().rev());
    }
    lines.truncate(height);
    for (row, line) in lines.into_iter().rev().enumerate() {
        panel::put(buf, inner, row, line);
    }
}

fn figures(snapshot: &Snapshot) -> Vec<String> {
    let totals = &snapshot.totals;
    let [finished, preempted, refused] = [totals.finished, totals.preemptions, totals.rejected].map(format::count);
    vec![
        format!("{finished} finished · {preempted} preempted · {refused} refused"),
        format!("{finished} finished · {preempted} preempted"),
        format!("{finished} finished"),
    ]
}

/// One note: step, name, and what happened, wrapped under itself.
fn note_lines(note: &Note, people: &People, width: usize, step: usize, theme: Theme) -> Vec<Line<'static>> {
    let (user, what, style) = words(&note.kind, people, theme);
    let step = if width >= 30 { format!("{:>step$}  ", note.step) } else { String::new() };
    let name = text::clip(&panel::name(people, user), panel::NAME_MAX.min(width / 3));
    let indent = text::width(&step) + text::width(&name) + 1;
    let mut pieces = panel::wrapped(&what, width.saturating_sub(indent).max(1));
    if pieces.len() > LINES_MAX {
        pieces.truncate(LINES_MAX);
        if let Some(last) = pieces.last_mut() {
            *last = text::clip(&format!("{last} …"), width.saturating_sub(indent));
        }
    }
    let mut pieces = pieces.into_iter();
    let first = Line::from(vec![
        Span::styled(step, theme.quiet()),
        Span::styled(name, people.style(user, theme)),
        Span::styled(format!(" {}", pieces.next().unwrap_or_default()), style),
    ]);
    let rest = pieces.map(|piece| Line::styled(format!("{}{piece}", " ".repeat(indent)), style));
    std::iter::once(first).chain(rest).collect()
}

fn words(kind: &NoteKind, people: &People, theme: Theme) -> (UserId, String, Style) {
    match kind {
        NoteKind::Queued { user, prompt_tokens, ahead } => {
            let place = match ahead {
                0 => "next in line".to_owned(),
                ahead => format!("{} ahead", format::count(*ahead as u64)),
            };
            (*user, format!("queued: {}, {place}", tokens(*prompt_tokens)), theme.quiet())
        }
        NoteKind::Admitted { user, blocks } => {
            (*user, format!("admitted with {}", format::plural(*blocks, "block", "blocks")), theme.text())
        }
        NoteKind::Preempted { user, by, recompute } => {
            let by = match by {
                Some(by) => format!("for {}", panel::name(people, *by)),
                None => "by its own lack of blocks".into(),
            };
            (*user, format!("preempted {by}: {} to compute again", tokens(*recompute)), theme.warn())
        }
        NoteKind::Finished { user, reason, generated } => {
            let (end, style) = match reason {
                FinishReason::Stop => ("finished", theme.good()),
                FinishReason::Length => ("stopped at its token limit", theme.good()),
                FinishReason::ContextFull => ("stopped: context full", theme.warn()),
                FinishReason::Cancelled => ("cancelled", theme.quiet()),
                FinishReason::Failed => ("failed", theme.bad()),
            };
            (*user, format!("{end} after {}", tokens(*generated)), style)
        }
        NoteKind::Rejected { user, why } => (*user, format!("refused: {}", text::one_line(&why.to_string())), theme.bad()),
    }
}

fn tokens(count: usize) -> String {
    format::plural(count, "token", "tokens")
}
