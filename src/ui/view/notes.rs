//! What happened lately, the newest at the bottom.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::panel;
use crate::batch::UserId;
use crate::engine::api::{FinishReason, Note, NoteKind, Snapshot, TakenBy, Verdict};
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
    let columns = Columns::new(snapshot, people, width);
    // From the newest back until the panel is full; what does not fit whole loses its first lines.
    let mut lines: Vec<Line<'static>> = Vec::new();
    for note in snapshot.notes.iter().rev() {
        if lines.len() >= height {
            break;
        }
        lines.extend(note_lines(note, people, &columns, theme).into_iter().rev());
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

/// Where the parts of a note begin.
struct Columns {
    width: usize,
    /// Zero when the panel is too narrow for step numbers.
    step: usize,
    name: usize,
}

impl Columns {
    fn new(snapshot: &Snapshot, people: &People, width: usize) -> Self {
        let step = snapshot.notes.back().map_or(0, |note| text::width(&note.step.to_string()));
        let names = snapshot.notes.iter().filter_map(|note| Some(text::width(&panel::name(people, user(&note.kind)?))));
        let name = names.max().unwrap_or(0).min(panel::NAME_MAX).min(width / 3);
        Columns { width, step: if width >= 30 { step } else { 0 }, name }
    }
}

/// Whom it is about; none for the whole room.
fn user(kind: &NoteKind) -> Option<UserId> {
    match kind {
        NoteKind::Queued { user, .. }
        | NoteKind::Admitted { user, .. }
        | NoteKind::Preempted { user, .. }
        | NoteKind::Finished { user, .. }
        | NoteKind::Rejected { user, .. } => Some(*user),
        NoteKind::Witnessed(witnessed) => Some(witnessed.user),
        NoteKind::Changed { .. } | NoteKind::ChangeRefused { .. } | NoteKind::RecordingEnded { .. } => None,
    }
}

/// One note: step, name, and what happened, wrapped under itself.
fn note_lines(note: &Note, people: &People, columns: &Columns, theme: Theme) -> Vec<Line<'static>> {
    let user = user(&note.kind);
    let (what, style) = words(&note.kind, people, theme);
    let step = match columns.step {
        0 => String::new(),
        step => panel::right(&note.step.to_string(), step) + "  ",
    };
    let name = panel::left(&user.map_or(String::new(), |user| panel::name(people, user)), columns.name);
    let indent = text::width(&step) + columns.name + 2;
    let room = columns.width.saturating_sub(indent);
    let mut pieces = panel::wrapped(&what, room.max(1));
    if pieces.len() > LINES_MAX {
        pieces.truncate(LINES_MAX);
        if let Some(last) = pieces.last_mut() {
            *last = text::clip(last, room.saturating_sub(1)).trim_end_matches('…').to_owned() + "…";
        }
    }
    let mut pieces = pieces.into_iter();
    let first = Line::from(vec![
        Span::styled(step, theme.quiet()),
        Span::styled(name, user.map_or(theme.quiet(), |user| people.style(user, theme))),
        Span::styled(format!("  {}", pieces.next().unwrap_or_default()), style),
    ]);
    let rest = pieces.map(|piece| Line::styled(format!("{}{piece}", " ".repeat(indent)), style));
    std::iter::once(first).chain(rest).collect()
}

fn words(kind: &NoteKind, people: &People, theme: Theme) -> (String, Style) {
    match kind {
        NoteKind::Queued { prompt_tokens, ahead, .. } => {
            let place = match ahead {
                0 => "next in line".to_owned(),
                ahead => format!("{} ahead", format::count(*ahead as u64)),
            };
            (format!("queued: {}, {place}", tokens(*prompt_tokens)), theme.quiet())
        }
        NoteKind::Admitted { blocks, cached, .. } => {
            let hit = if *cached > 0 { format!(", {} cached", tokens(*cached)) } else { String::new() };
            (format!("admitted with {}{hit}", format::plural(*blocks, "block", "blocks")), theme.text())
        }
        NoteKind::Preempted { by, lost, .. } => {
            let by = match by {
                TakenBy::User(by) => format!("for {}", panel::name(people, *by)),
                TakenBy::Itself => "by its own lack of blocks".into(),
                TakenBy::Seats => "because there are fewer seats".into(),
                TakenBy::KvBudget => "because there is less KV memory".into(),
            };
            (format!("preempted {by}: gives up {}", tokens(*lost)), theme.warn())
        }
        NoteKind::Changed { what } => (format!("changed: {}", text::one_line(what)), theme.strong()),
        NoteKind::ChangeRefused { why } => (format!("not changed: {}", text::one_line(why)), theme.bad()),
        NoteKind::RecordingEnded { why } => (format!("recording ended: {}", text::one_line(why)), theme.bad()),
        NoteKind::Witnessed(witnessed) => match &witnessed.verdict {
            Verdict::Same => (format!("witness: {} alone, every logit the same bits", tokens(witnessed.tokens)), theme.good()),
            Verdict::Differs { at, token } => {
                let what = if *token { "another token" } else { "other logits" };
                (format!("witness: alone, token {} of the answer has {what}", at + 1), theme.bad())
            }
            Verdict::NotRun { why } => (format!("witness: not computed again: {}", text::one_line(why)), theme.warn()),
        },
        NoteKind::Finished { reason, generated, .. } => {
            let (end, style) = match reason {
                FinishReason::Stop => ("finished", theme.good()),
                FinishReason::Length => ("stopped at its token limit", theme.good()),
                FinishReason::ContextFull => ("stopped: context full", theme.warn()),
                FinishReason::KvFull => ("stopped: KV memory full", theme.warn()),
                FinishReason::Cancelled => ("cancelled", theme.quiet()),
                FinishReason::Failed => ("failed", theme.bad()),
            };
            (format!("{end} after {}", tokens(*generated)), style)
        }
        NoteKind::Rejected { why, .. } => (format!("refused: {}", text::one_line(&why.to_string())), theme.bad()),
    }
}

fn tokens(count: usize) -> String {
    format::plural(count, "token", "tokens")
}
