//! The last minute, hour or day as curves: tokens per second large, the others small; or all of them large.

use std::collections::VecDeque;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::panel;
use crate::engine::api::{Sample, Snapshot, StepParts};
use crate::ui::machine::Span as Reach;
use crate::ui::people::People;
use crate::ui::theme::Theme;
use crate::ui::words::say;
use crate::ui::{format, text};

/// Samples of a series: as many as are drawn.
const SAMPLES: usize = 120;
/// Columns left of the curves (labels) and right of them (values of now).
const LABEL: usize = 7;
const VALUE: usize = 6;
const CURVE_ROWS: usize = 4;
/// Small curves, at most.
const SMALL: usize = 7;
/// Rows of a large chart: its title, a curve, its axis. Two stand side by side from a width on.
const LARGE: usize = 7;
const BESIDE: usize = 90;
const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

pub fn wanted_height(_snapshot: &Snapshot, _width: u16) -> u16 {
    (2 + CURVE_ROWS + 1 + SMALL + 1) as u16
}

/// What is drawn: the samples, how far they reach back, and how it looks.
#[derive(Clone, Copy)]
struct Scene<'a> {
    snapshot: &'a Snapshot,
    series: &'a VecDeque<Sample>,
    reach: Reach,
    theme: Theme,
}

impl<'a> Scene<'a> {
    fn new(snapshot: &'a Snapshot, reach: Reach, theme: Theme) -> Scene<'a> {
        let series = match reach {
            Reach::Minute => &snapshot.history,
            Reach::TenMinutes => &snapshot.longer[0],
            Reach::Hour => &snapshot.longer[1],
            Reach::Day => &snapshot.longer[2],
        };
        Scene { snapshot, series, reach, theme }
    }

    /// The samples that are drawn, oldest first.
    fn samples(&self) -> impl Iterator<Item = &'a Sample> + use<'a> {
        self.series.iter().skip(self.series.len().saturating_sub(SAMPLES))
    }

    /// One value a slot, the newest at the right: the mean of the samples that fall into it, None where there are none.
    fn slots(&self, count: usize, value: impl Fn(&Sample) -> Option<f64>) -> Vec<Option<f64>> {
        let samples: Vec<&Sample> = self.samples().collect();
        let missing = SAMPLES - samples.len();
        let mean = |slot: usize| {
            let from = slot * SAMPLES / count;
            let to = ((slot + 1) * SAMPLES / count).max(from + 1);
            let within = samples[from.saturating_sub(missing)..to.saturating_sub(missing)].iter();
            let values: Vec<f64> = within.filter_map(|sample| value(sample)).filter(|value| value.is_finite()).collect();
            if values.is_empty() { None } else { Some(values.iter().sum::<f64>() / values.len() as f64) }
        };
        (0..count).map(mean).collect()
    }

    fn largest(&self, value: impl Fn(&Sample) -> Option<f64>) -> f64 {
        self.samples().filter_map(value).filter(|value| value.is_finite()).fold(0.0, f64::max)
    }
}

type Value = Box<dyn Fn(&Sample) -> Option<f64>>;

/// One figure over time.
struct Chart {
    name: &'static str,
    /// What it is, with its unit.
    about: String,
    value: Value,
    show: fn(f64) -> String,
    /// What a full bar stands for; None: the largest seen.
    top: Option<f64>,
    now: String,
}

fn seconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64())
}

fn show_time(seconds: f64) -> String {
    format::time_or_unknown(Duration::try_from_secs_f64(seconds).ok())
}

fn show_count(value: f64) -> String {
    if value < 9.95 && value.fract() != 0.0 {
        format!("{value:.1}")
    } else {
        format::rate(value).trim_end_matches(".0").to_owned()
    }
}

fn show_bytes(value: f64) -> String {
    // Saturates: what is not a number is 0.
    format::bytes_short(value as u64)
}

fn charts(scene: &Scene<'_>) -> [Chart; 8] {
    let (snapshot, theme) = (scene.snapshot, scene.theme);
    let newest = |value: fn(&Sample) -> Option<Duration>| scene.samples().filter_map(value).last();
    let (seats, blocks) = (snapshot.limits.max_num_seqs, snapshot.kv.total);
    let weights = snapshot.model.weight_bytes as f64;
    let rate = move |step: Option<Duration>| seconds(step).filter(|time| *time > 0.0).map(|time| weights / time);
    let speed = panel::speed_now(snapshot);
    [
        Chart {
            name: "tok/s",
            about: theme.tr("new tokens a second, all users together").into(),
            value: Box::new(|sample| Some(sample.tokens_per_s)),
            show: format::rate,
            top: None,
            now: format::rate_or_unknown(speed),
        },
        Chart {
            name: "batch",
            about: say!(theme, "rows of a step, of {} seats", seats),
            value: Box::new(|sample| Some(sample.batch)),
            show: show_count,
            top: Some(seats as f64),
            now: format!("{}/{seats}", snapshot.running),
        },
        Chart {
            name: "queue",
            about: theme.tr("requests that wait").into(),
            value: Box::new(|sample| Some(sample.queue as f64)),
            show: show_count,
            top: None,
            now: format::count(snapshot.waiting as u64),
        },
        Chart {
            name: "TTFT",
            about: theme.tr("from Enter to the first token, mean").into(),
            value: Box::new(|sample| seconds(sample.ttft)),
            show: show_time,
            top: None,
            now: format::time_or_unknown(newest(|sample| sample.ttft)),
        },
        Chart {
            name: "ITL",
            about: theme.tr("between two tokens of one answer, mean").into(),
            value: Box::new(|sample| seconds(sample.itl)),
            show: show_time,
            top: None,
            now: format::time_or_unknown(newest(|sample| sample.itl)),
        },
        Chart {
            name: "step",
            about: theme.tr("time of a step, mean").into(),
            value: Box::new(|sample| seconds(sample.step)),
            show: show_time,
            top: None,
            now: format::time_or_unknown(snapshot.totals.step_time),
        },
        Chart {
            name: "KV",
            about: say!(theme, "blocks in use, of {}", format::count(blocks as u64)),
            value: Box::new(|sample| Some(sample.used_blocks as f64)),
            show: show_count,
            top: Some(blocks as f64),
            now: format::count(snapshot.kv.used as u64),
        },
        Chart {
            name: "B/s",
            about: theme.tr("bytes of weights read a second: weights ÷ step time").into(),
            value: Box::new(move |sample| rate(sample.step)),
            show: show_bytes,
            top: None,
            now: rate(snapshot.totals.step_time_mean.or(snapshot.totals.step_time))
                .map_or_else(|| format::UNKNOWN.into(), show_bytes),
        },
    ]
}

pub fn draw(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, people: &People, theme: Theme) {
    draw_over(buf, area, snapshot, people, theme, Reach::Minute);
}

/// The curves over this long.
pub fn draw_over(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, _people: &People, theme: Theme, reach: Reach) {
    let scene = Scene::new(snapshot, reach, theme);
    let Some(inner) = panel::frame(buf, area, "tok/s", &figures(&scene), theme) else { return };
    if scene.series.is_empty() {
        return nothing(buf, inner, theme);
    }
    let height = usize::from(inner.height);
    let axis = usize::from(height >= 3);
    let parts = usize::from(height >= CURVE_ROWS + axis + 4);
    let small = height.saturating_sub(CURVE_ROWS + axis + parts).min(SMALL);
    let rows = height - axis - small - parts;
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
    if parts > 0 {
        let words = text::first_fit(&parts_wordings(&scene, false), usize::from(inner.width));
        panel::put(buf, inner, rows + axis + small, Line::styled(words, theme.quiet()));
    }
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
pub fn draw_large(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, theme: Theme, reach: Reach, scroll: usize) -> usize {
    let scene = Scene::new(snapshot, reach, theme);
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
    let about = text::clip(&chart.about, width.saturating_sub(text::width(theme.tr(chart.name)) + 2));
    let title = vec![Span::styled(theme.tr(chart.name), theme.strong()), Span::styled(format!("  {about}"), theme.quiet())];
    panel::put(buf, area, 0, Line::from(title));
    let under = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let plot = Plot::new(width);
    let axis = usize::from(under.height >= 3);
    let rows = usize::from(under.height).saturating_sub(axis);
    let largest = scene.largest(&chart.value);
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

/// The next of 1, 2, 5, 10, 20, ... that is not below.
fn round_up(value: f64) -> f64 {
    if !value.is_finite() || value <= 1.0 { 1.0 } else { rounded(value) }
}

/// The same for values below 1 as well.
fn rounded(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
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
    for row in 0..rows {
        let below = (rows - 1 - row) * 4;
        for (column, pair) in heights.chunks(2).enumerate() {
            let glyph = braille(pair[0].saturating_sub(below), pair[1].saturating_sub(below));
            panel::put_at(buf, inner, (plot.label + column, row), glyph.encode_utf8(&mut [0; 4]), theme.accent());
        }
    }
    if plot.label > 0 {
        let middle = (rows >= 5 && rows % 2 == 1).then_some(rows / 2);
        for row in 0..rows {
            let label = match row {
                0 => (chart.show)(top),
                row if row + 1 == rows => "0".into(),
                row if Some(row) == middle => (chart.show)(top / 2.0),
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

/// Two columns of up to four dots, filled from below.
fn braille(left: usize, right: usize) -> char {
    const LEFT: [u32; 5] = [0, 0x40, 0x44, 0x46, 0x47];
    const RIGHT: [u32; 5] = [0, 0x80, 0xa0, 0xb0, 0xb8];
    char::from_u32(0x2800 + LEFT[left.min(4)] + RIGHT[right.min(4)]).unwrap_or(' ')
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
    let top = chart.top.unwrap_or_else(|| values.iter().flatten().copied().fold(0.0, f64::max));
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

/// Seconds that the steps which are drawn spent in products, attention, sampling and scheduling, and altogether. None where the
/// model does not say.
fn parts(scene: &Scene<'_>) -> Option<([f64; 4], f64)> {
    let (mut parts, mut whole) = ([0.0; 4], 0.0);
    for sample in scene.samples() {
        let (Some(of), Some(step)) = (sample.parts, sample.step) else { continue };
        let steps = f64::from(sample.steps.max(1));
        let [attention, products, sampling, scheduling] = StepParts::all(&of);
        let known = [products, attention, sampling, scheduling];
        parts.iter_mut().zip(known).for_each(|(sum, part)| *sum += part.as_secs_f64() * steps);
        whole += step.as_secs_f64() * steps;
    }
    (whole > 0.0).then_some((parts, whole))
}

/// The same as a bar, in the order of the words under it; the rest is blank.
fn parts_bar(scene: &Scene<'_>, columns: usize) -> Line<'static> {
    let Some((parts, whole)) = parts(scene) else { return Line::default() };
    let theme = scene.theme;
    let looks = [("█", theme.accent()), ("▓", theme.warn()), ("▒", theme.good()), ("░", theme.text())];
    let (mut spent, mut drawn) = (0.0, 0);
    let mut spans = Vec::new();
    for (part, (glyph, style)) in parts.iter().zip(looks) {
        spent += part;
        let upto = ((spent / whole).clamp(0.0, 1.0) * columns as f64).round() as usize;
        spans.push(Span::styled(glyph.repeat(upto.saturating_sub(drawn)), style));
        drawn = drawn.max(upto);
    }
    Line::from(spans)
}

/// And in words, as shares. `signs`: with those of the bar.
fn parts_wordings(scene: &Scene<'_>, signs: bool) -> Vec<String> {
    let theme = scene.theme;
    let Some((parts, whole)) = parts(scene) else {
        let words = theme.tr("where the time of a step goes is not known for this model");
        return vec![words.to_owned(), theme.tr("parts of a step: not known").to_owned(), String::new()];
    };
    let share = |part: f64| format!("{:.0}%", (part / whole * 100.0).clamp(0.0, 100.0));
    let rest = share(whole - parts.iter().sum::<f64>());
    let [products, attention, sampling, scheduling] = parts.map(share);
    let long = if signs {
        say!(
            theme,
            "step time: █ products with weights {}, ▓ attention {}, ▒ sampling {}, ░ scheduling {}, the rest {}",
            products,
            attention,
            sampling,
            scheduling,
            rest
        )
    } else {
        say!(
            theme,
            "step time: products with weights {}, attention {}, sampling {}, scheduling {}, the rest {}",
            products,
            attention,
            sampling,
            scheduling,
            rest
        )
    };
    vec![
        long,
        say!(
            theme,
            "products {}, attention {}, sampling {}, scheduling {}, rest {}",
            products,
            attention,
            sampling,
            scheduling,
            rest
        ),
        say!(theme, "products {} · attention {} · sampling {}", products, attention, sampling),
        say!(theme, "products {} · attention {}", products, attention),
        String::new(),
    ]
}
