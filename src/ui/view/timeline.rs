//! The live batch: rows are users, columns are steps, the newest at the right.

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::panel;
use crate::batch::{RequestId, RowKind, UserId};
use crate::engine::api::{FinishReason, Snapshot, StepRecord, UserView};
use crate::ui::people::People;
use crate::ui::theme::Theme;
use crate::ui::{format, text};

/// A step number stands under every column whose step is a multiple of this.
const TICK: u64 = 10;
/// Columns at the right for the tokens of the newest step.
const TOKENS: usize = 6;
const GAUGE_MIN: usize = 6;
const GAUGE_MAX: usize = 32;

/// What one user did in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Absent,
    /// 0 to 2: up to a quarter of the step's budget, up to half, more.
    Prefill(u8),
    Decode,
    Waiting,
    Preempted,
    Ended,
    Failed,
}

impl Cell {
    fn glyph(self) -> &'static str {
        match self {
            Cell::Absent => " ",
            Cell::Prefill(0) => "░",
            Cell::Prefill(1) => "▒",
            Cell::Prefill(_) => "▓",
            Cell::Decode => "■",
            Cell::Waiting => "·",
            Cell::Preempted => "×",
            Cell::Ended => "✓",
            Cell::Failed => "!",
        }
    }

    fn style(self, person: Style, theme: Theme) -> Style {
        match self {
            Cell::Absent | Cell::Prefill(_) | Cell::Decode => person,
            Cell::Waiting => theme.quiet(),
            Cell::Preempted | Cell::Failed => theme.bad(),
            Cell::Ended => theme.good(),
        }
    }
}

/// What the signs mean, in words. The last is shown only when something failed.
const LEGEND: [(&str, &str); 6] =
    [("░▒▓", "prefill"), ("■", "decode"), ("·", "waiting"), ("×", "preempted"), ("✓", "ended"), ("!", "failed")];

pub fn wanted_height(snapshot: &Snapshot, width: u16) -> u16 {
    let legend = legend(panel::inner_width(width), false).len();
    let users = snapshot.users.len().clamp(3, 1000);
    (2 + users + 2 + legend) as u16
}

pub fn draw(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, people: &People, theme: Theme) {
    let Some(inner) = panel::frame(buf, area, "live batch", &figures(snapshot), theme) else { return };
    let Some(newest) = snapshot.timeline.back() else {
        empty(buf, inner, snapshot, theme);
        return;
    };
    let rows = rows(snapshot);
    let failed = rows.iter().any(|row| row.contains(&Cell::Failed));
    let mut legend = legend(usize::from(inner.width), failed);
    let height = usize::from(inner.height);
    // Users come first, then the budget, the step numbers, and the legend last.
    let budget = usize::from(height >= 2);
    let ruler = usize::from(height >= 4);
    let spare = height - budget - ruler;
    legend.truncate(spare.saturating_sub(snapshot.users.len().clamp(1, 4)));
    let mut room = inner;
    room.height = (spare - legend.len()) as u16;
    let name = panel::name_columns(people, &snapshot.users, usize::from(inner.width) / 4);
    let used = draw_rows(buf, room, &Chart { snapshot, people, theme, rows: &rows, newest, name });
    if ruler > 0 {
        draw_ruler(buf, inner, used, snapshot, name, theme);
    }
    if budget > 0 {
        draw_budget(buf, inner, used + ruler, newest, people, theme);
    }
    draw_legend(buf, inner, &legend, theme);
}

fn figures(snapshot: &Snapshot) -> Vec<String> {
    match snapshot.timeline.back() {
        Some(record) => {
            let step = record.step;
            vec![format!("step {step} · {}", format::time(record.duration)), format!("step {step}")]
        }
        None => Vec::new(),
    }
}

fn empty(buf: &mut Buffer, inner: Rect, snapshot: &Snapshot, theme: Theme) {
    let sentence = match snapshot.waiting {
        0 => "no step yet: type a prompt and press Enter".to_owned(),
        waiting => format!("no step yet: {} for the first one", format::plural(waiting, "request waits", "requests wait")),
    };
    let sentence = panel::wrapped(&sentence, usize::from(inner.width));
    let legend = legend(usize::from(inner.width), false);
    // The signs are explained before the first of them appears, when there is room.
    if sentence.len() + 1 + legend.len() <= usize::from(inner.height) {
        draw_legend(buf, inner, &legend, theme);
    }
    for (row, line) in sentence.into_iter().enumerate() {
        panel::put(buf, inner, row, Line::styled(line, theme.text()));
    }
}

/// One row a user of the snapshot, one cell a recorded step.
fn rows(snapshot: &Snapshot) -> Vec<Vec<Cell>> {
    snapshot.users.iter().map(|view| row(snapshot, view)).collect()
}

fn row(snapshot: &Snapshot, view: &UserView) -> Vec<Cell> {
    let mut cells: Vec<Cell> = snapshot.timeline.iter().map(|record| cell(record, view.user)).collect();
    // A request between two of its own rows was there and got nothing, also when the record does not name it.
    let mut last: Option<(usize, RequestId)> = None;
    for (at, record) in snapshot.timeline.iter().enumerate() {
        let Some(part) = record.rows.iter().find(|part| part.user == view.user) else { continue };
        if let Some((before, _)) = last.filter(|(_, request)| *request == part.request) {
            wait(&mut cells[before + 1..at]);
        }
        last = Some((at, part.request));
    }
    if let Some((before, _)) = last.filter(|(_, request)| *request == view.request && panel::is_live(view)) {
        wait(&mut cells[before + 1..]);
    }
    cells
}

fn wait(cells: &mut [Cell]) {
    cells.iter_mut().filter(|cell| **cell == Cell::Absent).for_each(|cell| *cell = Cell::Waiting);
}

fn cell(record: &StepRecord, user: UserId) -> Cell {
    if record.preempted.iter().any(|victim| victim.user == user) {
        return Cell::Preempted;
    }
    if let Some((_, reason)) = record.finished.iter().find(|(ended, _)| *ended == user) {
        return if *reason == FinishReason::Failed { Cell::Failed } else { Cell::Ended };
    }
    match record.rows.iter().find(|row| row.user == user) {
        Some(row) if row.kind == RowKind::Decode => Cell::Decode,
        Some(row) => match row.tokens.saturating_mul(4) / record.budget.max(1) {
            0 => Cell::Prefill(0),
            1 => Cell::Prefill(1),
            _ => Cell::Prefill(2),
        },
        None if record.waiting.iter().any(|(waiting, _)| *waiting == user) => Cell::Waiting,
        None => Cell::Absent,
    }
}

struct Chart<'a> {
    snapshot: &'a Snapshot,
    people: &'a People,
    theme: Theme,
    rows: &'a [Vec<Cell>],
    newest: &'a Arc<StepRecord>,
    name: usize,
}

/// Columns for steps when names take so many.
fn step_columns(inner: Rect, name: usize) -> usize {
    usize::from(inner.width).saturating_sub(name + 1 + TOKENS)
}

/// Draws the users that fit; returns how many rows they took.
fn draw_rows(buf: &mut Buffer, room: Rect, chart: &Chart<'_>) -> usize {
    let (shown, left_out) = panel::pick_users(chart.snapshot, usize::from(room.height));
    let columns = step_columns(room, chart.name);
    let theme = chart.theme;
    for (row, view) in shown.iter().enumerate() {
        let person = chart.people.style(view.user, theme);
        let name = text::clip(&panel::name(chart.people, view.user), chart.name);
        panel::put_at(buf, room, (0, row), &name, person);
        let index = chart.snapshot.users.iter().position(|other| other.user == view.user);
        let cells = index.map_or(&[][..], |index| &chart.rows[index]);
        let cells = &cells[cells.len().saturating_sub(columns)..];
        for (place, cell) in cells.iter().enumerate() {
            let column = chart.name + 1 + columns - cells.len() + place;
            panel::put_at(buf, room, (column, row), cell.glyph(), cell.style(person, theme));
        }
        let tokens: usize = chart.newest.rows.iter().filter(|part| part.user == view.user).map(|part| part.tokens).sum();
        if tokens > 0 && columns > 0 {
            let count = panel::right(&format::count(tokens as u64), TOKENS);
            panel::put_at(buf, room, (chart.name + 1 + columns, row), &count, theme.text());
        }
    }
    if left_out > 0 {
        panel::put_at(buf, room, (0, shown.len()), &format!("+{left_out} more"), theme.quiet());
    }
    shown.len() + usize::from(left_out > 0)
}

fn draw_ruler(buf: &mut Buffer, inner: Rect, row: usize, snapshot: &Snapshot, name: usize, theme: Theme) {
    let columns = step_columns(inner, name);
    if columns == 0 {
        return;
    }
    let shown = snapshot.timeline.len().min(columns);
    let tokens = usize::from(inner.width) - TOKENS;
    panel::put_at(buf, inner, (tokens, row), "tokens", theme.quiet());
    let mut free_from = 0;
    for (place, record) in snapshot.timeline.iter().skip(snapshot.timeline.len() - shown).enumerate() {
        let column = name + 1 + columns - shown + place;
        let label = format!("╵{}", record.step);
        let end = column + text::width(&label);
        if record.step.is_multiple_of(TICK) && column >= free_from && end < tokens {
            panel::put_at(buf, inner, (column, row), &label, theme.quiet());
            free_from = end + 1;
        }
    }
}

fn draw_budget(buf: &mut Buffer, inner: Rect, row: usize, record: &StepRecord, people: &People, theme: Theme) {
    let width = usize::from(inner.width);
    let words = budget_words(record, width.saturating_sub("budget ".len() + GAUGE_MIN + 1));
    let gauge = width.saturating_sub("budget ".len() + 1 + text::width(&words)).min(GAUGE_MAX);
    let mut spans = vec![Span::styled("budget ", theme.quiet())];
    if gauge >= GAUGE_MIN {
        spans.extend(gauge_spans(record, gauge, people, theme));
        spans.push(Span::raw(" "));
    }
    spans.push(Span::styled(words, theme.text()));
    panel::put(buf, inner, row, Line::from(spans));
}

fn budget_words(record: &StepRecord, columns: usize) -> String {
    let of_kind = |kind| record.rows.iter().filter(move |row| row.kind == kind);
    let prompt: usize = of_kind(RowKind::Prefill).map(|row| row.tokens).sum();
    let decode = of_kind(RowKind::Decode).count();
    let spent = format!("{}/{}", format::count(record.budget_used as u64), format::count(record.budget as u64));
    text::first_fit(
        &[
            format!("{spent} tokens: {} of prompts + {} decoded", format::count(prompt as u64), decode),
            format!("{spent}: {prompt} prompt + {decode} decode"),
            format!("{spent} tokens"),
            spent,
        ],
        columns,
    )
}

/// The budget as a bar, each part in the colour of who spent it.
fn gauge_spans(record: &StepRecord, cells: usize, people: &People, theme: Theme) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    let (mut spent, mut drawn) = (0, 0);
    for row in &record.rows {
        spent += row.tokens;
        let upto = panel::gauge_cells(spent.min(record.budget_used), record.budget, cells);
        spans.push(Span::styled("█".repeat(upto.saturating_sub(drawn)), people.style(row.user, theme)));
        drawn = drawn.max(upto);
    }
    spans.push(Span::styled("░".repeat(cells - drawn), theme.quiet()));
    spans
}

/// The legend's items, line by line, in at most two lines.
fn legend(columns: usize, failed: bool) -> Vec<Vec<(&'static str, &'static str)>> {
    let items = &LEGEND[..if failed { 6 } else { 5 }];
    let mut lines: Vec<Vec<_>> = Vec::new();
    let mut used = 0;
    for item in items {
        let wide = text::width(item.0) + 1 + text::width(item.1);
        if lines.is_empty() || used + 2 + wide > columns {
            lines.push(Vec::new());
            used = wide;
        } else {
            used += 2 + wide;
        }
        if let Some(line) = lines.last_mut() {
            line.push(*item);
        }
    }
    lines.truncate(2);
    lines
}

/// Draws the legend at the foot of the panel.
fn draw_legend(buf: &mut Buffer, inner: Rect, legend: &[Vec<(&'static str, &'static str)>], theme: Theme) {
    let from = usize::from(inner.height).saturating_sub(legend.len());
    for (place, items) in legend.iter().enumerate() {
        panel::put(buf, inner, from + place, legend_line(items, theme));
    }
}

fn legend_line(items: &[(&'static str, &'static str)], theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    for (place, (glyph, word)) in items.iter().enumerate() {
        if place > 0 {
            spans.push(Span::raw("  "));
        }
        let style = match *glyph {
            "×" | "!" => theme.bad(),
            "✓" => theme.good(),
            "·" => theme.quiet(),
            _ => theme.accent(),
        };
        spans.push(Span::styled(*glyph, style));
        spans.push(Span::styled(format!(" {word}"), theme.quiet()));
    }
    Line::from(spans)
}
