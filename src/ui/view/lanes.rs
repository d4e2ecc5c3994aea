//! Users by steps: what each did in each column of a timeline, and the signs for it.

use std::collections::HashMap;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::panel;
use crate::batch::{RequestId, RowKind, UserId};
use crate::engine::api::{FinishReason, Snapshot, StepRecord, Timeline};
use crate::ui::theme::Theme;
use crate::ui::{format, text};

/// A step number stands under every column whose step is a multiple of this many columns.
const TICK: u64 = 10;
/// Columns at the right for tokens and times.
pub const FIGURE: usize = 6;
/// Steps beside those shown in which a request is looked for that no record names.
const MARGIN: usize = 512;
const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// What one user did in the steps of one column; of several things the last of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    Absent,
    Waiting,
    Decode,
    /// 0 to 2: up to a quarter of the step's budget, up to half, more.
    Prefill(u8),
    /// Let in, with a beginning that was in KV memory already.
    Hit,
    Ended,
    Preempted,
    Failed,
}

impl Cell {
    fn glyph(self) -> &'static str {
        match self {
            Cell::Absent => " ",
            Cell::Prefill(0) => "░",
            Cell::Prefill(1) => "▒",
            Cell::Prefill(_) => "▓",
            Cell::Hit => "◆",
            Cell::Decode => "■",
            Cell::Waiting => "·",
            Cell::Preempted => "×",
            Cell::Ended => "✓",
            Cell::Failed => "!",
        }
    }

    fn style(self, person: Style, theme: Theme) -> Style {
        match self {
            Cell::Absent | Cell::Prefill(_) | Cell::Hit | Cell::Decode => person,
            Cell::Waiting => theme.quiet(),
            Cell::Preempted | Cell::Failed => theme.bad(),
            Cell::Ended => theme.good(),
        }
    }
}

/// Which columns of a timeline are shown: each stands for `per` steps, and the first for those from place `left * per` on.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub left: usize,
    pub per: usize,
    pub columns: usize,
}

impl Window {
    /// The newest steps, one a column.
    pub fn newest(timeline: &Timeline, columns: usize) -> Window {
        let columns = columns.min(timeline.len());
        Window { left: timeline.len() - columns, per: 1, columns }
    }

    fn places(&self, timeline: &Timeline) -> std::ops::Range<usize> {
        let from = self.left.saturating_mul(self.per).min(timeline.len());
        from..from.saturating_add(self.columns.saturating_mul(self.per)).min(timeline.len())
    }

    /// The column of a place that is shown.
    fn column(&self, place: usize) -> Option<usize> {
        (place / self.per).checked_sub(self.left).filter(|column| *column < self.columns)
    }

    /// The columns that have a step.
    pub fn used(&self, timeline: &Timeline) -> usize {
        self.places(timeline).len().div_ceil(self.per)
    }
}

/// One row a user, one cell a column.
pub fn lanes(snapshot: &Snapshot, users: &[UserId], window: Window) -> Vec<Vec<Cell>> {
    let timeline = &snapshot.timeline;
    let mut lanes = vec![vec![Cell::Absent; window.used(timeline)]; users.len()];
    let index: HashMap<UserId, usize> = users.iter().enumerate().map(|(at, user)| (*user, at)).collect();
    // A request between two of its own rows was there and got nothing, also when no record names it.
    let mut last: Vec<Option<(usize, RequestId)>> = vec![None; users.len()];
    let shown = window.places(timeline);
    let looked = shown.start.saturating_sub(MARGIN)..shown.end.saturating_add(MARGIN).min(timeline.len());
    for (place, record) in looked.clone().zip(timeline.range(looked.clone())) {
        let mut mark = |user: UserId, from: usize, cell: Cell| {
            let Some(at) = index.get(&user) else { return };
            let columns = (from.max(shown.start)..(place + 1).min(shown.end)).step_by(window.per);
            for column in columns.chain((place >= shown.start).then_some(place)).filter_map(|place| window.column(place)) {
                if let Some(known) = lanes[*at].get_mut(column) {
                    *known = (*known).max(cell);
                }
            }
        };
        for row in &record.rows {
            let Some(at) = index.get(&row.user) else { continue };
            if let Some((before, _)) = last[*at].filter(|(before, request)| *request == row.request && before + 1 < place) {
                mark(row.user, before + 1, Cell::Waiting);
            }
            last[*at] = Some((place, row.request));
        }
        if shown.contains(&place) {
            record_cells(record, |user, cell| mark(user, place, cell));
        }
    }
    for view in snapshot.users.iter().filter(|view| panel::is_live(view)) {
        let Some(at) = index.get(&view.user) else { continue };
        let here = last[*at]
            .filter(|(before, request)| *request == view.request && looked.end == timeline.len() && before + 1 < shown.end);
        if let Some((before, _)) = here {
            for place in (before + 1).max(shown.start)..shown.end {
                if let Some(known) = window.column(place).and_then(|column| lanes[*at].get_mut(column)) {
                    *known = (*known).max(Cell::Waiting);
                }
            }
        }
    }
    lanes
}

/// What one record says of whom.
fn record_cells(record: &StepRecord, mut mark: impl FnMut(UserId, Cell)) {
    record.waiting.iter().for_each(|(user, _)| mark(*user, Cell::Waiting));
    for row in &record.rows {
        let share = row.tokens.saturating_mul(4) / record.budget.max(1);
        mark(row.user, if row.kind == RowKind::Decode { Cell::Decode } else { Cell::Prefill(share.min(2) as u8) });
    }
    record.admitted.iter().filter(|admission| admission.cached > 0).for_each(|admission| mark(admission.user, Cell::Hit));
    for (user, reason) in &record.finished {
        mark(*user, if *reason == FinishReason::Failed { Cell::Failed } else { Cell::Ended });
    }
    record.preempted.iter().for_each(|preemption| mark(preemption.user, Cell::Preempted));
}

/// Where the parts of a picture lie: names, columns of steps, figures.
#[derive(Clone, Copy, Debug)]
pub struct Plot {
    pub name: usize,
    pub columns: usize,
}

impl Plot {
    pub fn new(width: usize, name: usize) -> Plot {
        Plot { name, columns: width.saturating_sub(name + 1 + FIGURE) }
    }

    /// The screen column of the first of so many used ones, which stand at the right.
    fn from(&self, used: usize) -> usize {
        self.name + 1 + self.columns.saturating_sub(used)
    }

    pub fn figures(&self) -> usize {
        self.name + 1 + self.columns
    }
}

/// One user's cells at a row; the newest at the right. `cursor`: a column to be marked.
pub fn draw_lane(buf: &mut Buffer, room: Rect, plot: Plot, row: usize, lane: &[Cell], looks: (Style, Option<usize>, Theme)) {
    let (person, cursor, theme) = looks;
    let cells = &lane[lane.len().saturating_sub(plot.columns)..];
    for (place, cell) in cells.iter().enumerate() {
        let style = cell.style(person, theme);
        let style = if cursor == Some(place) { style.patch(theme.chosen()) } else { style };
        panel::put_at(buf, room, (plot.from(cells.len()) + place, row), cell.glyph(), style);
    }
}

/// How long the steps of each column took, the longest of each: a row of bars, and what a full one stands for.
pub fn draw_times(buf: &mut Buffer, room: Rect, plot: Plot, row: usize, shown: (&Timeline, Window, Option<usize>), theme: Theme) {
    let (timeline, window, cursor) = shown;
    let mut longest = vec![std::time::Duration::ZERO; window.used(timeline)];
    let places = window.places(timeline);
    for (place, record) in places.clone().zip(timeline.range(places)) {
        if let Some(known) = window.column(place).and_then(|column| longest.get_mut(column)) {
            *known = (*known).max(record.duration);
        }
    }
    let top = longest.iter().max().copied().unwrap_or_default();
    panel::put_at(buf, room, (0, row), &text::clip(theme.tr("time"), plot.name), theme.quiet());
    let from = plot.from(longest.len());
    for (place, time) in longest.iter().enumerate() {
        let height = if top.is_zero() { 0.0 } else { time.as_secs_f64() / top.as_secs_f64() * 7.0 };
        let style = if cursor == Some(place) { theme.chosen() } else { theme.quiet() };
        panel::put_at(buf, room, (from + place, row), BARS[(height.round() as usize).min(7)], style);
    }
    let top = panel::right(&format!("≤{}", format::time(top)), FIGURE);
    panel::put_at(buf, room, (plot.figures(), row), &top, theme.quiet());
}

/// Step numbers under their columns.
pub fn draw_ruler(buf: &mut Buffer, room: Rect, plot: Plot, row: usize, shown: (&Timeline, Window), theme: Theme) {
    let (timeline, window) = shown;
    if plot.columns == 0 {
        return;
    }
    let word = panel::right(theme.tr("tokens"), FIGURE);
    panel::put_at(buf, room, (plot.figures(), row), &word, theme.quiet());
    let used = window.used(timeline);
    let from = plot.from(used);
    let mut free_from = 0;
    let every = TICK.saturating_mul(window.per as u64);
    for column in 0..used {
        let first = (window.left + column) * window.per;
        let here = timeline.range(first..first + window.per).find(|record| record.step.is_multiple_of(every));
        let Some(record) = here else { continue };
        let label = format!("╵{}", format::count(record.step));
        let end = from + column + text::width(&label);
        if from + column >= free_from && end < plot.figures() {
            panel::put_at(buf, room, (from + column, row), &label, theme.quiet());
            free_from = end + 1;
        }
    }
}

/// What the signs mean, in words: long, and where there is less room.
const LEGEND: [(&str, &str, &str); 7] = [
    ("░▒▓", "prefill", "prefill"),
    ("■", "decode", "decode"),
    ("◆", "cached prefix", "hit"),
    ("·", "waiting", "waits"),
    ("×", "preempted", "preempted"),
    ("✓", "ended", "ended"),
    ("!", "failed", "failed"),
];

/// All signs of the legend.
#[cfg(test)]
pub fn signs() -> impl Iterator<Item = char> {
    LEGEND.iter().flat_map(|(signs, ..)| signs.chars())
}

/// The legend on one line: as many of the signs as fit in the longest wording that has room for all.
pub fn legend(columns: usize, failed: bool, theme: Theme) -> Line<'static> {
    let items = &LEGEND[..if failed { 7 } else { 6 }];
    let styles = |sign: &str| match sign {
        "×" | "!" => theme.bad(),
        "✓" => theme.good(),
        "·" => theme.quiet(),
        _ => theme.accent(),
    };
    // Signs, words, gaps: long words with air, short words with air, short words close together.
    let wordings = [(false, " ", "  "), (true, " ", "  "), (true, " ", " "), (true, "", " ")];
    let wide = |(short, join, gap): (bool, &str, &str)| {
        let words = items.iter().map(|(sign, long, brief)| {
            text::width(sign) + text::width(join) + text::width(theme.tr(if short { brief } else { long }))
        });
        words.sum::<usize>() + text::width(gap) * (items.len() - 1)
    };
    let (short, join, gap) = wordings.into_iter().find(|wording| wide(*wording) <= columns).unwrap_or(wordings[3]);
    let mut spans = Vec::new();
    let mut used = 0;
    for (sign, long, brief) in items {
        let word = format!("{join}{}", theme.tr(if short { brief } else { long }));
        let before = if spans.is_empty() { "" } else { gap };
        used += text::width(before) + text::width(sign) + text::width(&word);
        if used > columns {
            break;
        }
        spans.push(Span::raw(before));
        spans.push(Span::styled(*sign, styles(sign)));
        spans.push(Span::styled(word, theme.quiet()));
    }
    Line::from(spans)
}
