//! The last minute as curves: tokens per second large, batch, queue, TTFT and step time small.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::panel;
use crate::engine::api::{Sample, Snapshot};
use crate::ui::people::People;
use crate::ui::theme::Theme;
use crate::ui::{format, text};

/// Half-second samples in the minute that is drawn.
const SAMPLES: usize = 120;
/// Columns left of the curves (labels) and right of them (values of now).
const LABEL: usize = 6;
const VALUE: usize = 6;
const CURVE_ROWS: usize = 4;
const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

pub fn wanted_height(_snapshot: &Snapshot, _width: u16) -> u16 {
    (2 + CURVE_ROWS + 1 + 4) as u16
}

pub fn draw(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, _people: &People, theme: Theme) {
    let Some(inner) = panel::frame(buf, area, "tok/s", &figures(snapshot), theme) else { return };
    if snapshot.history.is_empty() {
        let words = text::first_fit(
            &["no figures yet: they begin with the first step".into(), "no figures yet".into()],
            usize::from(inner.width),
        );
        panel::put(buf, inner, 0, Line::styled(words, theme.quiet()));
        return;
    }
    let height = usize::from(inner.height);
    let axis = usize::from(height >= 3);
    let small = height.saturating_sub(CURVE_ROWS + axis).min(4);
    let rows = height - axis - small;
    let plot = Plot::new(usize::from(inner.width));
    draw_curve(buf, inner, &plot, snapshot, rows, theme);
    if axis > 0 {
        draw_axis(buf, inner, &plot, rows, theme);
    }
    for (place, spark) in sparks(snapshot).iter().take(small).enumerate() {
        draw_spark(buf, inner, &plot, (rows + axis + place, spark), snapshot, theme);
    }
}

fn figures(snapshot: &Snapshot) -> Vec<String> {
    if snapshot.history.is_empty() {
        return Vec::new();
    }
    let now = format::rate_or_unknown(panel::speed_now(snapshot));
    let peak = format::rate(peak(snapshot));
    vec![format!("{now} now · {peak} at most in 60 s"), format!("{now} now · {peak} at most"), format!("{now} now"), now]
}

/// The highest speed of the last minute, the newest second included, which is not a sample yet.
fn peak(snapshot: &Snapshot) -> f64 {
    newest(snapshot).map(|sample| sample.tokens_per_s).fold(panel::speed_now(snapshot).unwrap_or(0.0), f64::max)
}

/// The samples of the last minute, oldest first.
fn newest(snapshot: &Snapshot) -> impl Iterator<Item = &Sample> {
    snapshot.history.iter().skip(snapshot.history.len().saturating_sub(SAMPLES))
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

/// One value a slot, the newest at the right: the mean of the samples that fall into it, None where there are none.
fn slots(snapshot: &Snapshot, count: usize, value: impl Fn(&Sample) -> Option<f64>) -> Vec<Option<f64>> {
    let samples: Vec<&Sample> = newest(snapshot).collect();
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

/// The next of 1, 2, 5, 10, 20, ... that is not below.
fn round_up(value: f64) -> f64 {
    if !value.is_finite() || value <= 1.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|top| *top >= value).unwrap_or(value)
}

fn draw_curve(buf: &mut Buffer, inner: Rect, plot: &Plot, snapshot: &Snapshot, rows: usize, theme: Theme) {
    if rows == 0 || plot.columns == 0 {
        return;
    }
    let values = slots(snapshot, plot.columns * 2, |sample| Some(sample.tokens_per_s));
    let top = round_up(peak(snapshot));
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
        for row in 0..rows {
            let label = match row {
                0 => format::rate(top),
                row if row + 1 == rows => "0".into(),
                _ => String::new(),
            };
            let edge = if label.is_empty() { "│" } else { "┤" };
            panel::put_at(buf, inner, (0, row), &(panel::right(&label, LABEL - 1) + " "), theme.quiet());
            panel::put_at(buf, inner, (LABEL, row), edge, theme.border());
        }
    }
    if plot.value > 0 {
        let newest = heights.last().copied().unwrap_or(0).max(1);
        let now = panel::right(&format::rate_or_unknown(panel::speed_now(snapshot)), VALUE);
        let row = rows - newest.div_ceil(4);
        panel::put_at(buf, inner, (plot.label + plot.columns + 1, row), &now, theme.strong());
    }
}

/// Two columns of up to four dots, filled from below.
fn braille(left: usize, right: usize) -> char {
    const LEFT: [u32; 5] = [0, 0x40, 0x44, 0x46, 0x47];
    const RIGHT: [u32; 5] = [0, 0x80, 0xa0, 0xb0, 0xb8];
    char::from_u32(0x2800 + LEFT[left.min(4)] + RIGHT[right.min(4)]).unwrap_or(' ')
}

fn draw_axis(buf: &mut Buffer, inner: Rect, plot: &Plot, row: usize, theme: Theme) {
    let (from, to) = ("-60 s", "now");
    let between = plot.columns.saturating_sub(text::width(from) + text::width(to));
    if between < 2 {
        return;
    }
    let middle = if between >= 20 { format!(" {} ", "╌".repeat(between - 2)) } else { " ".repeat(between) };
    panel::put_at(buf, inner, (plot.label, row), &format!("{from}{middle}{to}"), theme.quiet());
}

/// A small curve of one row.
struct Spark {
    label: &'static str,
    value: fn(&Sample) -> Option<f64>,
    /// What a full bar stands for; None: the largest seen.
    top: Option<f64>,
    now: String,
}

fn sparks(snapshot: &Snapshot) -> [Spark; 4] {
    let ttft = newest(snapshot).filter_map(|sample| sample.ttft).last();
    let seconds = |time: Option<std::time::Duration>| time.map(|time| time.as_secs_f64());
    let seats = snapshot.limits.max_num_seqs;
    [
        Spark {
            label: "batch",
            value: |sample| Some(sample.batch),
            top: Some(seats as f64),
            now: format!("{}/{seats}", snapshot.running),
        },
        Spark {
            label: "queue",
            value: |sample| Some(sample.queue as f64),
            top: None,
            now: format::count(snapshot.waiting as u64),
        },
        Spark {
            label: "TTFT",
            value: |sample| sample.ttft.map(|time| time.as_secs_f64()),
            top: None,
            now: format::time_or_unknown(ttft),
        },
        Spark {
            label: "step",
            value: |sample| sample.step.map(|time| time.as_secs_f64()),
            top: seconds(newest(snapshot).filter_map(|sample| sample.step).max()),
            now: format::time_or_unknown(snapshot.totals.step_time),
        },
    ]
}

fn draw_spark(buf: &mut Buffer, inner: Rect, plot: &Plot, at: (usize, &Spark), snapshot: &Snapshot, theme: Theme) {
    let (row, spark) = at;
    if plot.columns == 0 {
        return;
    }
    if plot.label > 0 {
        panel::put_at(buf, inner, (0, row), spark.label, theme.quiet());
    }
    let values = slots(snapshot, plot.columns, spark.value);
    let top = spark.top.unwrap_or_else(|| values.iter().flatten().copied().fold(0.0, f64::max));
    for (column, value) in values.iter().enumerate() {
        let (glyph, style) = bar(*value, top, theme);
        panel::put_at(buf, inner, (plot.label + column, row), glyph, style);
    }
    if plot.value > 0 {
        let now = panel::right(&spark.now, VALUE);
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
