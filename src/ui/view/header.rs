//! The line at the top: which model, what the engine is doing, the four figures that matter.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::panel;
use crate::engine::api::{Pace, RunState, Snapshot};
use crate::ui::keeping::Unkept;
use crate::ui::people::People;
use crate::ui::theme::Theme;
use crate::ui::words::say;
use crate::ui::{format, text};

/// Beside the snapshot: the step that the panels hold still at, and why something is not kept.
pub type Held<'a> = (Option<u64>, Option<&'a Unkept>);

/// Columns of the model's title at most; it is the file's own word and may be anything.
const TITLE_MAX: usize = 36;
const GAP: usize = 3;

/// One piece of the line. The piece with the highest `drop` goes first when the line is too long.
struct Piece {
    text: String,
    style: Style,
    drop: u8,
}

pub fn wanted_height(_snapshot: &Snapshot, _width: u16) -> u16 {
    1
}

pub fn draw(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, _people: &People, theme: Theme) {
    draw_with(buf, area, snapshot, theme, (None, None));
}

/// `held`: the step that the panels hold still at; and why something is not kept.
pub fn draw_with(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, theme: Theme, held: Held<'_>) {
    let area = area.intersection(buf.area);
    if area.is_empty() {
        return;
    }
    let edge = usize::from(area.width > 20);
    let room = usize::from(area.width) - 2 * edge;
    // The file's long title when it costs no figure, else the model's short name.
    let (mut left, mut right) = fit((snapshot, held), &title(&snapshot.model.title, &snapshot.model.name), room, theme);
    if right.len() + 1 < engine((snapshot, held), room, theme).len() || left.is_empty() {
        (left, right) = fit((snapshot, held), &words(text::one_line(&snapshot.model.name).trim(), TITLE_MAX), room, theme);
    }
    if left.is_empty() && right.len() == 1 && text::width(&right[0].text) > room {
        // Only the state is left, and its symbol says enough when the word has no room.
        let symbol: String = right[0].text.chars().take(1).collect();
        right[0].text = text::first_fit(&[right[0].text.clone(), symbol], room);
    }
    let x = area.x + edge as u16;
    buf.set_line(x, area.y, &line(&left, Span::styled(" · ", theme.quiet())), room as u16);
    let from = room.saturating_sub(width(&right));
    buf.set_line(x + from as u16, area.y, &line(&right, Span::raw("   ")), (room - from) as u16);
}

/// Both sides without the pieces that have no room.
fn fit(shown: (&Snapshot, Held<'_>), title: &str, room: usize, theme: Theme) -> (Vec<Piece>, Vec<Piece>) {
    let (mut left, mut right) = (model(shown.0, title, theme), engine(shown, room, theme));
    while width(&left) + width(&right) + GAP > room && drop_one(&mut left, &mut right) {}
    (left, right)
}

fn width(pieces: &[Piece]) -> usize {
    let texts: usize = pieces.iter().map(|piece| text::width(&piece.text)).sum();
    texts + GAP * pieces.len().saturating_sub(1)
}

fn line<'a>(pieces: &[Piece], between: Span<'a>) -> Line<'a> {
    let mut spans = Vec::with_capacity(pieces.len() * 2);
    for (place, piece) in pieces.iter().enumerate() {
        if place > 0 {
            spans.push(between.clone());
        }
        spans.push(Span::styled(piece.text.clone(), piece.style));
    }
    Line::from(spans)
}

/// Drops the least important piece; false when only what must stay is left.
fn drop_one(left: &mut Vec<Piece>, right: &mut Vec<Piece>) -> bool {
    let Some(rank) = left.iter().chain(right.iter()).map(|piece| piece.drop).max().filter(|rank| *rank > 0) else {
        return false;
    };
    left.retain(|piece| piece.drop != rank);
    right.retain(|piece| piece.drop != rank);
    true
}

fn model(snapshot: &Snapshot, title: &str, theme: Theme) -> Vec<Piece> {
    let model = &snapshot.model;
    let kernels = text::one_line(&model.kernels);
    let threads = theme.plural(model.threads, "{} thread", "{} threads");
    let processor = if kernels.is_empty() { threads } else { format!("{kernels}, {threads}") };
    let pieces = [
        ("batchroom".to_owned(), theme.strong(), 8),
        (title.to_owned(), theme.accent(), 3),
        (words(&text::one_line(&model.types), 20), theme.quiet(), 10),
        (words(&processor, 36), theme.quiet(), 11),
    ];
    let pieces = pieces.into_iter().filter(|(text, ..)| !text.is_empty());
    pieces.map(|(text, style, drop)| Piece { text, style, drop }).collect()
}

fn title(title: &str, name: &str) -> String {
    let title = words(text::one_line(title).trim(), TITLE_MAX);
    if title.is_empty() { words(text::one_line(name).trim(), TITLE_MAX) } else { title }
}

/// The leading words that fit; a first word that is too long is cut.
fn words(content: &str, columns: usize) -> String {
    let mut out = String::new();
    for word in content.split_whitespace() {
        let gap = usize::from(!out.is_empty());
        if text::width(&out) + gap + text::width(word) > columns {
            break;
        }
        if gap > 0 {
            out.push(' ');
        }
        out.push_str(word);
    }
    if out.is_empty() { text::clip(content.trim(), columns) } else { out }
}

fn engine((snapshot, (held, unkept)): (&Snapshot, Held<'_>), room: usize, theme: Theme) -> Vec<Piece> {
    let mut pieces = vec![state(snapshot, theme)];
    let mut add = |text: String, style: Style, drop: u8| pieces.push(Piece { text, style, drop });
    if let Some(fault) = snapshot.fault.as_deref().filter(|_| snapshot.state == RunState::Stopped) {
        // The fault matters more than the model: it takes the whole line, cut between words.
        let left = room.saturating_sub(text::width(&state(snapshot, theme).text) + 2 * GAP);
        add(words(&crate::ui::told::fault(fault, theme), left), theme.bad(), 1);
        return pieces;
    }
    if let Pace::StepsPerSecond(rate) = snapshot.pace {
        add(say!(theme, "paced {} steps/s", format::rate(rate)), theme.warn().add_modifier(Modifier::REVERSED), 1);
    }
    if let Some(step) = held {
        add(say!(theme, "frozen at step {}", format::count(step)), theme.warn().add_modifier(Modifier::REVERSED), 1);
    }
    if let Some(unkept) = unkept {
        let [long, short] = unkept.mark(theme);
        let style = theme.bad().add_modifier(Modifier::REVERSED);
        // Since when matters more than the figures that stand in the panels too.
        add(if room >= 60 { long } else { short }, style, 0);
    }
    let seats = format!("batch {}/{}", snapshot.running, snapshot.limits.max_num_seqs);
    add(seats, theme.text(), 5);
    let queue = if snapshot.waiting > 0 { theme.warn() } else { theme.text() };
    add(say!(theme, "queue {}", snapshot.waiting), queue, 7);
    add(format!("{} tok/s", format::rate_or_unknown(panel::speed_now(snapshot))), theme.strong(), 2);
    add(say!(theme, "{}/step", format::time_or_unknown(snapshot.totals.step_time)), theme.quiet(), 9);
    add(format!("KV {}", format::percent(snapshot.kv.used as u64, snapshot.kv.total as u64)), theme.text(), 6);
    pieces
}

fn state(snapshot: &Snapshot, theme: Theme) -> Piece {
    let (text, style) = match snapshot.state {
        RunState::Idle => ("○ idle", theme.quiet()),
        RunState::Running => ("▶ running", theme.good()),
        RunState::Paused => ("‖ paused", theme.warn().add_modifier(Modifier::REVERSED)),
        RunState::Stopped => ("■ stopped", theme.bad()),
    };
    Piece { text: theme.tr(text).into(), style, drop: 0 }
}
