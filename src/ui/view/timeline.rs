//! The live batch: rows are users, columns are steps, the newest at the right.

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::lanes::{self, Cell, Plot, Window};
use super::panel;
use crate::batch::{RowKind, UserId};
use crate::engine::api::{Snapshot, StepRecord};
use crate::ui::people::People;
use crate::ui::theme::Theme;
use crate::ui::words::say;
use crate::ui::{format, text};

const GAUGE_MIN: usize = 6;
const GAUGE_MAX: usize = 32;

/// Lanes that it asks for at most: more people would leave the other panels nothing.
const LANES: usize = 16;

pub fn wanted_height(snapshot: &Snapshot, _width: u16) -> u16 {
    let users = snapshot.users.len().clamp(3, LANES);
    // Users, budget, times, step numbers, legend.
    (2 + users + 4) as u16
}

pub fn draw(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, people: &People, theme: Theme) {
    let invitation = theme.tr(INVITATION);
    let _ = draw_scrolled(buf, area, snapshot, people, theme, (None, invitation));
}

/// What is said before the first step, where a prompt can be typed.
pub const INVITATION: &str = "no step yet: type a prompt and press Enter";

/// The same; where it is alone, from the row of user `scroll` on. `invitation`: what stands there before the first step. Gives
/// how far it can be scrolled.
pub fn draw_scrolled(
    buf: &mut Buffer,
    area: Rect,
    snapshot: &Snapshot,
    people: &People,
    theme: Theme,
    (scroll, invitation): (Option<usize>, &str),
) -> usize {
    let Some(inner) = panel::frame(buf, area, theme.tr("live batch"), &figures(snapshot, theme), theme) else { return 0 };
    let Some(newest) = snapshot.timeline.back() else {
        empty(buf, inner, snapshot, theme, invitation);
        return 0;
    };
    // Users come first, then the budget, the step numbers, the legend, the times.
    let height = usize::from(inner.height);
    let wanted = snapshot.users.len().clamp(1, 4);
    let has = |least: usize| usize::from(height >= least);
    let (budget, ruler) = (has(2), has(4));
    // The times before the legend: that does not change.
    let users = snapshot.users.len().max(1);
    let times = has(users + 3);
    let legend = has(wanted + 3 + times);
    let mut room = inner;
    room.height = (height - budget - ruler - legend - times) as u16;
    let name = panel::name_columns(people, &snapshot.users, usize::from(inner.width) / 4).max(text::width(theme.tr("time")));
    let plot = Plot::new(usize::from(inner.width), name);
    let window = Window::newest(&snapshot.timeline, plot.columns);
    let who = who(snapshot, usize::from(room.height), scroll);
    let (used, failed) = draw_rows(buf, room, plot, window, (&who, scroll.is_some()), &(snapshot, people, newest, theme));
    // The ruler first: the unit at its end is that of the users' figures.
    if times > 0 {
        lanes::draw_times(buf, inner, plot, used + ruler, (&snapshot.timeline, window, None), theme);
    }
    if ruler > 0 {
        lanes::draw_ruler(buf, inner, plot, used, (&snapshot.timeline, window), theme);
    }
    if budget > 0 {
        draw_budget(buf, inner, used + times + ruler, newest, people, theme);
    }
    if legend > 0 {
        panel::put(buf, inner, height - 1, lanes::legend(usize::from(inner.width), failed, theme));
    }
    who.most
}

/// Who has a row, always in the same order.
fn who(snapshot: &Snapshot, rows: usize, scroll: Option<usize>) -> panel::Shown<'_> {
    match scroll {
        Some(scroll) => panel::window(snapshot.users.iter().collect(), rows, scroll),
        None => {
            let (shown, left_out) = panel::pick_users(snapshot, rows, panel::First::Live);
            panel::Shown { shown, left_out, most: 0 }
        }
    }
}

fn figures(snapshot: &Snapshot, theme: Theme) -> Vec<String> {
    match snapshot.timeline.back() {
        Some(record) => {
            let (step, time) = (format::count(record.step), format::time(record.duration));
            vec![say!(theme, "step {} · {}", step, time), say!(theme, "step {}", step)]
        }
        None => Vec::new(),
    }
}

fn empty(buf: &mut Buffer, inner: Rect, snapshot: &Snapshot, theme: Theme, invitation: &str) {
    let sentence = match snapshot.waiting {
        0 => invitation.to_owned(),
        waiting => {
            let requests = theme.plural(waiting, "{} request waits", "{} requests wait");
            say!(theme, "no step yet: {} for the first one", requests)
        }
    };
    let sentence = panel::wrapped(&sentence, usize::from(inner.width));
    // The signs are explained before the first of them appears, when there is room.
    if sentence.len() + 2 <= usize::from(inner.height) {
        let row = usize::from(inner.height) - 1;
        panel::put(buf, inner, row, lanes::legend(usize::from(inner.width), false, theme));
    }
    for (row, line) in sentence.into_iter().enumerate() {
        panel::put(buf, inner, row, Line::styled(line, theme.text()));
    }
}

type Scene<'a> = (&'a Snapshot, &'a People, &'a Arc<StepRecord>, Theme);

/// Draws the users that fit; returns how many rows they took, and whether something failed.
fn draw_rows(
    buf: &mut Buffer,
    room: Rect,
    plot: Plot,
    window: Window,
    (who, scrolls): (&panel::Shown<'_>, bool),
    scene: &Scene<'_>,
) -> (usize, bool) {
    let (snapshot, people, newest, theme) = *scene;
    let panel::Shown { shown, left_out, .. } = who;
    let users: Vec<UserId> = shown.iter().map(|view| view.user).collect();
    let all = lanes::lanes(snapshot, &users, window);
    for (row, (view, lane)) in shown.iter().zip(&all).enumerate() {
        let person = people.style(view.user, theme);
        let name = text::clip(&panel::name(people, view.user), plot.name);
        panel::put_at(buf, room, (0, row), &name, person);
        lanes::draw_lane(buf, room, plot, row, lane, (person, None, theme));
        let tokens: usize = newest.rows.iter().filter(|part| part.user == view.user).map(|part| part.tokens).sum();
        if tokens > 0 && plot.columns > 0 {
            let count = panel::right(&format::count(tokens as u64), lanes::FIGURE);
            panel::put_at(buf, room, (plot.figures(), row), &count, theme.text());
        }
    }
    if let Some(words) = panel::left_out_words(left_out, theme) {
        let words = if scrolls { format!("↑ ↓ {words}") } else { words };
        let words = text::clip(&words, usize::from(room.width));
        panel::put_at(buf, room, (0, shown.len()), &words, theme.quiet());
    }
    (shown.len() + usize::from(!left_out.is_empty()), all.iter().any(|lane| lane.contains(&Cell::Failed)))
}

fn draw_budget(buf: &mut Buffer, inner: Rect, row: usize, record: &StepRecord, people: &People, theme: Theme) {
    let width = usize::from(inner.width);
    let label = format!("{} ", theme.tr("budget"));
    let words = budget_words(record, width.saturating_sub(text::width(&label) + GAUGE_MIN + 1), theme);
    let gauge = width.saturating_sub(text::width(&label) + 1 + text::width(&words)).min(GAUGE_MAX);
    let mut spans = vec![Span::styled(label, theme.quiet())];
    if gauge >= GAUGE_MIN {
        spans.extend(gauge_spans(record, gauge, people, theme));
        spans.push(Span::raw(" "));
    }
    spans.push(Span::styled(words, theme.text()));
    panel::put(buf, inner, row, Line::from(spans));
}

fn budget_words(record: &StepRecord, columns: usize, theme: Theme) -> String {
    let of_kind = |kind| record.rows.iter().filter(move |row| row.kind == kind);
    let prompt: usize = of_kind(RowKind::Prefill).map(|row| row.tokens).sum();
    let decode = of_kind(RowKind::Decode).count();
    let spent = format!("{}/{}", format::count(record.budget_used as u64), format::count(record.budget as u64));
    let prompt = format::count(prompt as u64);
    text::first_fit(
        &[
            say!(theme, "{} tokens: {} of prompts + {} decoded", spent, prompt, decode),
            say!(theme, "{}: {} prompt + {} decode", spent, prompt, decode),
            say!(theme, "{} tokens", spent),
            spent,
        ],
        columns,
    )
}

/// The budget as a bar, each part in the colour of who spent it. What nobody spent is a thin line: the shades are prompts.
fn gauge_spans(record: &StepRecord, cells: usize, people: &People, theme: Theme) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    let (mut spent, mut drawn) = (0_usize, 0);
    for row in &record.rows {
        spent = spent.saturating_add(row.tokens);
        let upto = panel::gauge_cells(spent.min(record.budget_used), record.budget, cells);
        spans.push(Span::styled("█".repeat(upto.saturating_sub(drawn)), people.style(row.user, theme)));
        drawn = drawn.max(upto);
    }
    spans.push(Span::styled("╌".repeat(cells - drawn), theme.quiet()));
    spans
}
