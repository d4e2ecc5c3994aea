//! Which figures there are over time, and their samples.

use std::collections::VecDeque;
use std::time::Duration;

use super::panel;
use crate::engine::api::{Sample, Snapshot};
use crate::ui::format;
use crate::ui::machine::Span as Reach;
use crate::ui::reading::Wall;
use crate::ui::theme::Theme;
use crate::ui::words::say;

/// Samples of a series: as many as are drawn.
const SAMPLES: usize = 120;

/// What is drawn: the samples, how far they reach back, and how it looks.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub snapshot: &'a Snapshot,
    pub series: &'a VecDeque<Sample>,
    pub reach: Reach,
    pub theme: Theme,
    /// What bytes read a second are held against.
    pub wall: &'a Wall,
}

impl<'a> Scene<'a> {
    pub fn new(snapshot: &'a Snapshot, reach: Reach, theme: Theme, wall: &'a Wall) -> Scene<'a> {
        let series = match reach {
            Reach::Minute => &snapshot.history,
            Reach::TenMinutes => &snapshot.longer[0],
            Reach::Hour => &snapshot.longer[1],
            Reach::Day => &snapshot.longer[2],
        };
        Scene { snapshot, series, reach, theme, wall }
    }

    /// The samples that are drawn, oldest first.
    pub fn samples(&self) -> impl Iterator<Item = &'a Sample> + use<'a> {
        self.series.iter().skip(self.series.len().saturating_sub(SAMPLES))
    }

    /// One value a slot, the newest at the right: the mean of the samples that fall into it, None where there are none.
    pub fn slots(&self, count: usize, value: impl Fn(&Sample) -> Option<f64>) -> Vec<Option<f64>> {
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

    pub fn largest(&self, value: impl Fn(&Sample) -> Option<f64>) -> f64 {
        self.samples().filter_map(value).filter(|value| value.is_finite()).fold(0.0, f64::max)
    }
}

pub(super) type Value = Box<dyn Fn(&Sample) -> Option<f64>>;

/// One figure over time.
pub(super) struct Chart {
    pub name: &'static str,
    /// What it is, with its unit; longest wording first.
    pub about: Vec<String>,
    pub value: Value,
    pub show: fn(f64) -> String,
    /// What a full bar stands for; None: the largest seen.
    pub top: Option<f64>,
    /// What it cannot come past.
    pub wall: Option<f64>,
    pub now: String,
}

impl Chart {
    /// Whether it counts things of which there is no half.
    pub fn is_whole(&self) -> bool {
        matches!(self.name, "batch" | "queue" | "KV")
    }
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

/// Decimal, as the speed of memory is said.
fn show_bytes(value: f64) -> String {
    let unit = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter().find(|(unit, _)| value >= 0.9995 * unit);
    match unit {
        Some((unit, name)) if value < 9.95 * unit => format!("{:.1}{name}", value / unit),
        Some((unit, name)) => format!("{:.0}{name}", value / unit),
        None => format!("{:.0}", value.max(0.0)),
    }
}

/// The same with all of its unit: `6.7 GB/s`.
fn show_speed(value: f64) -> String {
    let short = show_bytes(value);
    let digits = short.trim_end_matches(char::is_alphabetic);
    format!("{digits} {}B/s", &short[digits.len()..])
}

/// All of them, in the order in which they stand.
pub(super) fn charts(scene: &Scene<'_>) -> Vec<Chart> {
    let mut charts = Vec::with_capacity(8);
    charts.extend(flow(scene));
    charts.extend(times(scene));
    charts.extend(memory(scene));
    charts
}

/// How much goes through: tokens, rows, and who waits.
fn flow(scene: &Scene<'_>) -> [Chart; 3] {
    let (snapshot, theme) = (scene.snapshot, scene.theme);
    let seats = snapshot.limits.max_num_seqs;
    [
        Chart {
            name: "tok/s",
            about: vec![theme.tr("new tokens a second, all users together").into()],
            value: Box::new(|sample| Some(sample.tokens_per_s)),
            show: format::rate,
            top: None,
            wall: None,
            now: format::rate_or_unknown(panel::speed_now(snapshot)),
        },
        Chart {
            name: "batch",
            about: vec![say!(theme, "rows of a step, of {} seats", seats)],
            value: Box::new(|sample| Some(sample.batch)),
            show: show_count,
            top: Some(seats as f64),
            wall: None,
            now: format!("{}/{seats}", snapshot.running),
        },
        Chart {
            name: "queue",
            about: vec![theme.tr("requests that wait").into()],
            value: Box::new(|sample| Some(sample.queue as f64)),
            show: show_count,
            top: None,
            wall: None,
            now: format::count(snapshot.waiting as u64),
        },
    ]
}

/// How long it takes: to the first token, to the next, a step.
fn times(scene: &Scene<'_>) -> [Chart; 3] {
    let theme = scene.theme;
    let newest = |value: fn(&Sample) -> Option<Duration>| scene.samples().filter_map(value).last();
    let time = |name, about: &str, value: fn(&Sample) -> Option<Duration>, now| Chart {
        name,
        about: vec![about.to_owned()],
        value: Box::new(move |sample| seconds(value(sample))),
        show: show_time,
        top: None,
        wall: None,
        now: format::time_or_unknown(now),
    };
    [
        time("TTFT", theme.tr("from Enter to the first token, mean"), |sample| sample.ttft, newest(|sample| sample.ttft)),
        time("ITL", theme.tr("between two tokens of one answer, mean"), |sample| sample.itl, newest(|sample| sample.itl)),
        time("step", theme.tr("time of a step, mean"), |sample| sample.step, scene.snapshot.totals.step_time),
    ]
}

/// What of memory is used, and how fast it is read.
fn memory(scene: &Scene<'_>) -> [Chart; 2] {
    let (snapshot, theme) = (scene.snapshot, scene.theme);
    let blocks = snapshot.kv.total;
    let weights = snapshot.model.weight_bytes as f64;
    let about = theme.tr("bytes of weights read a second: weights ÷ step time");
    let short = theme.tr("weights ÷ step time");
    let with = |words: String| [format!("{words} · {about}"), format!("{words} · {short}")];
    let mut abouts: Vec<String> = wall_wordings(scene).into_iter().flat_map(with).collect();
    abouts.extend(wall_wordings(scene));
    abouts.push(about.to_owned());
    [
        Chart {
            name: "KV",
            about: vec![say!(theme, "blocks in use, of {}", format::count(blocks as u64))],
            value: Box::new(|sample| Some(sample.used_blocks as f64)),
            show: show_count,
            top: Some(blocks as f64),
            wall: None,
            now: format::count(snapshot.kv.used as u64),
        },
        Chart {
            name: "B/s",
            about: abouts,
            value: Box::new(move |sample| reached(weights, sample.step)),
            show: show_bytes,
            top: None,
            wall: scene.wall.bytes_per_s(),
            now: reached_now(snapshot).map_or_else(|| format::UNKNOWN.into(), show_speed),
        },
    ]
}

/// Bytes of weights a second, at this time a step.
fn reached(weights: f64, step: Option<Duration>) -> Option<f64> {
    seconds(step).filter(|time| *time > 0.0).map(|time| weights / time)
}

fn reached_now(snapshot: &Snapshot) -> Option<f64> {
    let step = snapshot.totals.step_time_mean.or(snapshot.totals.step_time);
    reached(snapshot.model.weight_bytes as f64, step)
}

/// How near the steps of now come to what memory could give, longest wording first.
pub(super) fn wall_wordings(scene: &Scene<'_>) -> Vec<String> {
    scene.wall.wordings(scene.snapshot, reached_now(scene.snapshot), scene.theme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_a_second_are_decimal_and_short() {
        let shown = [0.0, 950.0, 1e3, 9.96e6, 98.4e6, 999.7e6, 51.2e9, 4.8e12].map(show_bytes);
        assert_eq!(shown, ["0", "950", "1.0k", "10M", "98M", "1.0G", "51G", "4.8T"]);
        assert_eq!([950.0, 6.71e9, 98.4e6].map(show_speed), ["950 B/s", "6.7 GB/s", "98 MB/s"]);
    }
}
