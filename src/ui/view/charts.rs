//! The last minute, hour or day as curves: tokens per second large, the others small; or all of them large.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::panel;
use crate::engine::api::Snapshot;
use crate::ui::machine::Span as Reach;
use crate::ui::people::People;
use crate::ui::reading::Wall;
use crate::ui::theme::Theme;
use crate::ui::words::say;
use crate::ui::{format, text};
use parts::{parts_bar, parts_wordings};
use series::{Chart, Scene, charts, wall_wordings};

mod parts;
mod series;

/// Columns left of the curves (labels) and right of them (values of now).
const LABEL: usize = 7;
const VALUE: usize = 8;
const CURVE_ROWS: usize = 4;
/// Small curves, at most.
const SMALL: usize = 7;
/// Lines of words under them: where the time of a step goes, and what memory could give.
const WORDS: usize = 2;
/// Rows of a large chart: its title, a curve, its axis. Two stand side by side from a width on.
const LARGE: usize = 7;
const BESIDE: usize = 90;
const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

pub fn wanted_height(_snapshot: &Snapshot, _width: u16) -> u16 {
    (2 + CURVE_ROWS + 1 + SMALL + WORDS) as u16
}

/// Of the last minute; `draw_over` knows the key by which memory is measured.
pub fn draw(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, _people: &People, theme: Theme) {
    draw_over(buf, area, snapshot, theme, (Reach::Minute, &Wall::Key(String::new())));
}

/// The curves over this long, held against what memory can give.
pub fn draw_over(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, theme: Theme, (reach, wall): (Reach, &Wall)) {
    let scene = Scene::new(snapshot, reach, theme, wall);
    let Some(inner) = panel::frame(buf, area, "tok/s", &figures(&scene), theme) else { return };
    if scene.series.is_empty() {
        return nothing(buf, inner, theme);
    }
    let height = usize::from(inner.height);
    let axis = usize::from(height >= 3);
    let words = usize::from(height >= CURVE_ROWS + axis + 4) + usize::from(height >= CURVE_ROWS + axis + SMALL + WORDS);
    let small = height.saturating_sub(CURVE_ROWS + axis + words).min(SMALL);
    let rows = height - axis - small - words;
    let plot = Plot::new(usize::from(inner.width));
    let charts = charts(&scene);
    let speed = panel::speed_now(snapshot).unwrap_or(0.0);
    let top = round_up(scene.largest(&charts[0].value).max(if reach == Reach::Minute { speed } else { 0.0 }));
    draw_curve(buf, inner, &plot, &scene, (&charts[0], top, rows));
    if axis > 0 {
        draw_axis(buf, inner, &plot, rows, &scene);
    }
    for (place, chart) in charts[1..].iter().take(small).enumerate() {
        draw_spark(buf, inner, &plot, (rows + axis + place, chart), &scene);
    }
    let width = usize::from(inner.width);
    let said = [parts_wordings(&scene, false), labelled(theme.tr("B/s"), wall_wordings(&scene))];
    let said = said.iter().map(|wordings| text::first_fit(wordings, width)).filter(|words| !words.is_empty());
    for (place, words) in said.take(words).enumerate() {
        panel::put(buf, inner, rows + axis + small + place, Line::styled(words, theme.quiet()));
    }
}

fn labelled(label: &str, wordings: Vec<String>) -> Vec<String> {
    let mut labelled: Vec<String> = wordings.into_iter().map(|words| format!("{label}: {words}")).collect();
    labelled.push(String::new());
    labelled
}

fn nothing(buf: &mut Buffer, inner: Rect, theme: Theme) {
    let wordings = ["no figures yet: they begin with the first step", "no figures yet"].map(|words| theme.tr(words).to_owned());
    let words = text::first_fit(&wordings, usize::from(inner.width));
    panel::put(buf, inner, 0, Line::styled(words, theme.quiet()));
}

fn figures(scene: &Scene<'_>) -> Vec<String> {
    if scene.series.is_empty() {
        return Vec::new();
    }
    let theme = scene.theme;
    let speed = panel::speed_now(scene.snapshot);
    let now = format::rate_or_unknown(speed);
    // The newest second is not a sample yet.
    let peak = scene.largest(|sample| Some(sample.tokens_per_s)).max(speed.filter(|speed| speed.is_finite()).unwrap_or(0.0));
    let (peak, reach) = (format::rate(peak), scene.reach.name());
    vec![
        say!(theme, "{} now · {} at most in {}", now, peak, reach),
        say!(theme, "{} now · {} at most", now, peak),
        say!(theme, "{} now", now),
        now,
    ]
}

/// Every chart large, in a grid, from row `scroll` of the grid on; gives how far it can be scrolled.
pub fn draw_large(
    buf: &mut Buffer,
    area: Rect,
    snapshot: &Snapshot,
    theme: Theme,
    (reach, wall): (Reach, &Wall),
    scroll: usize,
) -> usize {
    let scene = Scene::new(snapshot, reach, theme, wall);
    let figures = [say!(theme, "the last {}", reach.name())];
    let Some(inner) = panel::frame(buf, area, theme.tr("charts"), &figures, theme) else { return 0 };
    if scene.series.is_empty() {
        nothing(buf, inner, theme);
        return 0;
    }
    let charts = charts(&scene);
    let beside = if usize::from(inner.width) >= BESIDE { 2 } else { 1 };
    // The last lines say where the time of a step goes.
    let bar = usize::from(inner.height >= 12);
    let room = usize::from(inner.height).saturating_sub(1 + bar);
    let lines = charts.len().div_ceil(beside);
    let shown = (room / LARGE).clamp(1, lines);
    let height = room / shown;
    let first = scroll.min(lines - shown);
    for (place, chart) in charts.iter().enumerate().skip(first * beside).take(shown * beside) {
        let (row, column) = ((place / beside) - first, place % beside);
        let width = inner.width / beside as u16;
        let gap = u16::from(beside > 1) * 2;
        let cell = Rect {
            x: inner.x + column as u16 * width,
            y: inner.y + (row * height) as u16,
            width: width.saturating_sub(gap),
            height: height as u16,
        };
        draw_one(buf, cell.intersection(inner), &scene, chart);
    }
    let last = usize::from(inner.height).saturating_sub(1);
    if bar > 0 {
        panel::put(buf, inner, last - 1, parts_bar(&scene, usize::from(inner.width)));
    }
    let mut wordings = parts_wordings(&scene, bar > 0);
    if lines > shown {
        let hidden = theme.plural((lines - shown) * beside, "↑ ↓ {} chart more", "↑ ↓ {} charts more");
        wordings.iter_mut().for_each(|words| *words = format!("{hidden} · {words}"));
    }
    let line = text::first_fit(&wordings, usize::from(inner.width));
    panel::put(buf, inner, last, Line::styled(line, theme.quiet()));
    lines - shown
}

/// Title, curve and axis of one chart.
fn draw_one(buf: &mut Buffer, area: Rect, scene: &Scene<'_>, chart: &Chart) {
    let theme = scene.theme;
    let width = usize::from(area.width);
    let room = width.saturating_sub(text::width(theme.tr(chart.name)) + 2);
    let about = text::clip(&text::first_fit(&chart.about, room), room);
    let title = vec![Span::styled(theme.tr(chart.name), theme.strong()), Span::styled(format!("  {about}"), theme.quiet())];
    panel::put(buf, area, 0, Line::from(title));
    let under = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let plot = Plot::new(width);
    let axis = usize::from(under.height >= 3);
    let rows = usize::from(under.height).saturating_sub(axis);
    let largest = scene.largest(&chart.value).max(chart.wall.unwrap_or(0.0));
    let top = chart.top.filter(|top| *top >= largest).unwrap_or_else(|| rounded(largest));
    draw_curve(buf, under, &plot, scene, (chart, top, rows));
    if axis > 0 {
        draw_axis(buf, under, &plot, rows, scene);
    }
}

/// Where the curves lie in the panel; labels and values go when it is narrow.
struct Plot {
    label: usize,
    columns: usize,
    value: usize,
}

impl Plot {
    fn new(width: usize) -> Self {
        let label = if width >= 16 { LABEL } else { 0 };
        let value = if width >= 28 { VALUE + 1 } else { 0 };
        let line = usize::from(label > 0);
        Plot { label: label + line, columns: width - label - line - value, value }
    }
}

/// The next of 1, 1.5, 2, 3, ... 10, 15, ... that is not below: a curve has most of its height.
fn round_up(value: f64) -> f64 {
    if !value.is_finite() || value <= 1.0 { 1.0 } else { rounded(value) }
}

/// The same for values below 1 as well.
fn rounded(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|top| *top >= value).unwrap_or(value)
}

fn draw_curve(buf: &mut Buffer, inner: Rect, plot: &Plot, scene: &Scene<'_>, what: (&Chart, f64, usize)) {
    let (chart, top, rows) = what;
    let theme = scene.theme;
    if rows == 0 || plot.columns == 0 {
        return;
    }
    let values = scene.slots(plot.columns * 2, &chart.value);
    // Dots of a column of braille, four a row; anything above zero shows at least one.
    let dots = |value: &Option<f64>| match value {
        Some(value) if *value > 0.0 => ((value / top * (rows * 4) as f64).round() as usize).clamp(1, rows * 4),
        _ => 0,
    };
    let heights: Vec<usize> = values.iter().map(dots).collect();
    let wall = chart.wall.map(|wall| rows - (dots(&Some(wall)).max(1)).div_ceil(4));
    for row in 0..rows {
        let below = (rows - 1 - row) * 4;
        for (column, pair) in heights.chunks(2).enumerate() {
            let glyph = braille(pair[0].saturating_sub(below), pair[1].saturating_sub(below));
            if glyph == NO_DOTS && wall == Some(row) {
                panel::put_at(buf, inner, (plot.label + column, row), "╌", theme.warn());
                continue;
            }
            panel::put_at(buf, inner, (plot.label + column, row), glyph.encode_utf8(&mut [0; 4]), theme.accent());
        }
    }
    if plot.label > 0 {
        // There is no half of a request.
        let halves = !chart.is_whole() || (top / 2.0).fract() == 0.0;
        let middle = (halves && rows >= 5 && rows % 2 == 1).then_some(rows / 2);
        for row in 0..rows {
            let label = match row {
                0 => (chart.show)(top),
                row if row + 1 == rows => "0".into(),
                row if Some(row) == wall => chart.wall.map_or_else(String::new, chart.show),
                row if Some(row) == middle && wall.is_none_or(|wall| wall.abs_diff(row) > 1) => (chart.show)(top / 2.0),
                _ => String::new(),
            };
            let edge = if label.is_empty() { "│" } else { "┤" };
            panel::put_at(buf, inner, (0, row), &(panel::right(&label, LABEL - 1) + " "), theme.quiet());
            panel::put_at(buf, inner, (LABEL, row), edge, theme.border());
        }
    }
    if plot.value > 0 {
        let newest = heights.last().copied().unwrap_or(0).max(1);
        let row = rows - newest.div_ceil(4);
        panel::put_at(buf, inner, (plot.label + plot.columns + 1, row), &panel::right(&chart.now, VALUE), theme.strong());
    }
}

/// A cell of braille without a dot.
const NO_DOTS: char = '\u{2800}';

/// Two columns of up to four dots, filled from below.
fn braille(left: usize, right: usize) -> char {
    const LEFT: [u32; 5] = [0, 0x40, 0x44, 0x46, 0x47];
    const RIGHT: [u32; 5] = [0, 0x80, 0xa0, 0xb0, 0xb8];
    char::from_u32(NO_DOTS as u32 + LEFT[left.min(4)] + RIGHT[right.min(4)]).unwrap_or(' ')
}

fn draw_axis(buf: &mut Buffer, inner: Rect, plot: &Plot, row: usize, scene: &Scene<'_>) {
    let (from, to) = (format!("-{}", scene.reach.name()), scene.theme.tr("now"));
    let between = plot.columns.saturating_sub(text::width(&from) + text::width(to));
    if between < 2 {
        return;
    }
    let middle = if between >= 20 { format!(" {} ", "╌".repeat(between - 2)) } else { " ".repeat(between) };
    panel::put_at(buf, inner, (plot.label, row), &format!("{from}{middle}{to}"), scene.theme.quiet());
}

fn draw_spark(buf: &mut Buffer, inner: Rect, plot: &Plot, at: (usize, &Chart), scene: &Scene<'_>) {
    let (row, chart) = at;
    let theme = scene.theme;
    if plot.columns == 0 {
        return;
    }
    if plot.label > 0 {
        panel::put_at(buf, inner, (0, row), &text::clip(theme.tr(chart.name), plot.label - 1), theme.quiet());
    }
    let values = scene.slots(plot.columns, &chart.value);
    let largest = values.iter().flatten().copied().fold(0.0, f64::max).max(chart.wall.unwrap_or(0.0));
    let top = chart.top.unwrap_or(largest);
    for (column, value) in values.iter().enumerate() {
        let (glyph, style) = bar(*value, top, theme);
        panel::put_at(buf, inner, (plot.label + column, row), glyph, style);
    }
    if plot.value > 0 {
        let now = panel::right(&chart.now, VALUE);
        panel::put_at(buf, inner, (plot.label + plot.columns + 1, row), &now, theme.text());
    }
}

/// A bar of eight heights: zero is the lowest, in the colour of labels; nothing known is blank.
fn bar(value: Option<f64>, top: f64, theme: Theme) -> (&'static str, Style) {
    match value {
        None => (" ", theme.quiet()),
        Some(value) if value <= 0.0 || top <= 0.0 => (BARS[0], theme.quiet()),
        Some(value) => (BARS[((value / top * 7.0).round() as usize).clamp(1, 7)], theme.accent()),
    }
}
