//! What happened lately, the newest at the bottom.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::panel;
use crate::batch::UserId;
use crate::engine::api::{FinishReason, Note, NoteKind, Snapshot, TakenBy, Verdict, Witnessed};
use crate::ui::people::People;
use crate::ui::theme::Theme;
use crate::ui::words::say;
use crate::ui::{format, text, told};

/// Lines that are worth asking for.
const ROWS: usize = 8;
/// Lines of one note at most: a refusal can be a long sentence.
const LINES_MAX: usize = 3;

pub fn wanted_height(snapshot: &Snapshot, _width: u16) -> u16 {
    (2 + snapshot.notes.len().clamp(1, ROWS)) as u16
}

pub fn draw(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, people: &People, theme: Theme) {
    let _ = draw_scrolled(buf, area, snapshot, people, theme, 0);
}

/// The same, without the newest `scroll` lines; gives how many lines at least can be left out, all of them when `scroll` is
/// more than there are.
pub fn draw_scrolled(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, people: &People, theme: Theme, scroll: usize) -> usize {
    let Some(inner) = panel::frame(buf, area, theme.tr("events"), &figures(snapshot, theme), theme) else { return 0 };
    let (width, height) = (usize::from(inner.width), usize::from(inner.height));
    if snapshot.notes.is_empty() {
        let words = text::clip(theme.tr("nothing has happened yet"), width);
        panel::put(buf, inner, 0, Line::styled(words, theme.quiet()));
        return 0;
    }
    let columns = Columns::new(snapshot, people, width);
    // From the newest back until the panel is full. Of what does not fit whole the beginning is shown; of the newest its end.
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (age, note) in snapshot.notes.iter().rev().enumerate() {
        if lines.len() >= height.saturating_add(scroll) {
            break;
        }
        let mut own = note_lines(note, people, &columns, theme);
        if scroll == 0 && age > 0 {
            cut(&mut own, height.saturating_sub(lines.len()), columns.width);
        }
        lines.extend(own.into_iter().rev());
    }
    // There is no scrolling past the oldest.
    let most = lines.len().saturating_sub(height);
    lines.drain(..scroll.min(most));
    lines.truncate(height);
    for (row, line) in lines.into_iter().rev().enumerate() {
        panel::put(buf, inner, row, line);
    }
    most
}

/// The first so many lines of a note; where there were more, the last of them says so.
fn cut(lines: &mut Vec<Line<'static>>, rows: usize, width: usize) {
    if lines.len() <= rows {
        return;
    }
    lines.truncate(rows);
    let Some(last) = lines.last_mut() else { return };
    let all = last.width();
    if let Some(words) = last.spans.last_mut() {
        let room = (width + words.width()).saturating_sub(all + 1);
        words.content = (text::clip(&words.content, room).trim_end_matches('…').to_owned() + "…").into();
    }
}

fn figures(snapshot: &Snapshot, theme: Theme) -> Vec<String> {
    let totals = &snapshot.totals;
    let [finished, preempted, refused] = [totals.finished, totals.preemptions, totals.rejected].map(format::count);
    vec![
        say!(theme, "{} finished · {} preempted · {} refused", finished, preempted, refused),
        say!(theme, "{} finished · {} preempted", finished, preempted),
        say!(theme, "{} finished", finished),
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
        let step = snapshot.notes.back().map_or(0, |note| text::width(&format::count(note.step)));
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
        | NoteKind::Chunk { user, .. }
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
        step => panel::right(&format::count(note.step), step) + "  ",
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

/// An event in words, and how they look.
pub fn words(kind: &NoteKind, people: &People, theme: Theme) -> (String, Style) {
    match kind {
        NoteKind::Queued { prompt_tokens, ahead, .. } => {
            let prompt = tokens(*prompt_tokens, theme);
            let words = match ahead {
                0 => say!(theme, "queued: {}, next in line", prompt),
                ahead => say!(theme, "queued: {}, {} ahead", prompt, format::count(*ahead as u64)),
            };
            (words, theme.quiet())
        }
        NoteKind::Admitted { blocks, cached, .. } => {
            let blocks = theme.plural(*blocks, "{} block", "{} blocks");
            let words = match cached {
                0 => say!(theme, "admitted with {}", blocks),
                cached => say!(theme, "admitted with {}, {} cached", blocks, tokens(*cached, theme)),
            };
            (words, theme.text())
        }
        NoteKind::Chunk { start, tokens: count, last, .. } => {
            let (count, start) = (tokens(*count, theme), format::count(*start as u64));
            let words = match last {
                false => say!(theme, "first chunk of its prompt: {} from position {}", count, start),
                true => say!(theme, "last chunk of its prompt: {} from position {}", count, start),
            };
            (words, theme.quiet())
        }
        NoteKind::Preempted { by, lost, .. } => (preempted(*by, *lost, people, theme), theme.warn()),
        NoteKind::Changed { what } => (say!(theme, "changed: {}", told::change(what, theme)), theme.strong()),
        NoteKind::ChangeRefused { why } => (say!(theme, "not changed: {}", told::not_changed(why, theme)), theme.bad()),
        NoteKind::RecordingEnded { why } => (say!(theme, "recording ended: {}", told::recording_end(why, theme)), theme.bad()),
        NoteKind::Witnessed(found) => witnessed(found, theme),
        NoteKind::Finished { reason, generated, .. } => finished(*reason, *generated, theme),
        NoteKind::Rejected { why, .. } => (say!(theme, "refused: {}", crate::ui::refusal::refused(why, theme)), theme.bad()),
    }
}

fn preempted(by: TakenBy, lost: usize, people: &People, theme: Theme) -> String {
    let lost = tokens(lost, theme);
    match by {
        TakenBy::User(by) => say!(theme, "preempted for {}: gives up {}", panel::name(people, by), lost),
        TakenBy::Itself => say!(theme, "preempted, no block was free for its next token: gives up {}", lost),
        TakenBy::Seats => say!(theme, "preempted because there are fewer seats: gives up {}", lost),
        TakenBy::KvBudget => say!(theme, "preempted because there is less KV memory: gives up {}", lost),
    }
}

fn witnessed(found: &Witnessed, theme: Theme) -> (String, Style) {
    match &found.verdict {
        Verdict::Same => {
            let tokens = tokens(found.tokens, theme);
            (say!(theme, "witness: {} alone, every logit the same bits", tokens), theme.good())
        }
        Verdict::Differs { at, token: true } => {
            (say!(theme, "witness: alone, token {} of the answer has another token", at + 1), theme.bad())
        }
        Verdict::Differs { at, token: false } => {
            (say!(theme, "witness: alone, token {} of the answer has other logits", at + 1), theme.bad())
        }
        Verdict::NotRun { why } => (say!(theme, "witness: not computed again: {}", told::not_run(why, theme)), theme.warn()),
    }
}

fn finished(reason: FinishReason, generated: usize, theme: Theme) -> (String, Style) {
    let generated = tokens(generated, theme);
    match reason {
        FinishReason::Stop => (say!(theme, "finished after {}", generated), theme.good()),
        FinishReason::Length => (say!(theme, "stopped at its token limit after {}", generated), theme.good()),
        FinishReason::ContextFull => (say!(theme, "stopped: context full after {}", generated), theme.warn()),
        FinishReason::KvFull => (say!(theme, "stopped: KV memory full after {}", generated), theme.warn()),
        FinishReason::Cancelled => (say!(theme, "cancelled after {}", generated), theme.quiet()),
        FinishReason::Failed => (say!(theme, "failed after {}", generated), theme.bad()),
    }
}

fn tokens(count: usize, theme: Theme) -> String {
    theme.plural(count, "{} token", "{} tokens")
}
