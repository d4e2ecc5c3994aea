//! Percentiles of all requests: queue, TTFT, TPOT, ITL, end to end; and how well TTFT was predicted.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::panel;
use crate::engine::api::{Prediction, Snapshot, Summary};
use crate::ui::people::People;
use crate::ui::theme::Theme;
use crate::ui::words::say;
use crate::ui::{format, text};

const FIGURE: usize = 6;
const HEADS: [&str; 5] = ["p50", "p95", "p99", "mean", "max"];

pub fn wanted_height(_snapshot: &Snapshot, _width: u16) -> u16 {
    2 + 1 + 5 + 1
}

pub fn draw(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, people: &People, theme: Theme) {
    let _ = draw_scrolled(buf, area, snapshot, people, theme, 0);
}

/// The same, without the first `scroll` lines; gives how many can be left out.
pub fn draw_scrolled(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, _people: &People, theme: Theme, scroll: usize) -> usize {
    let ended = snapshot.totals.finished.saturating_add(snapshot.totals.cancelled);
    let requests = theme.plural(usize::try_from(ended).unwrap_or(usize::MAX), "{} request has ended", "{} requests have ended");
    let Some(inner) = panel::frame(buf, area, theme.tr("times of all requests"), &[requests], theme) else { return 0 };
    let width = usize::from(inner.width);
    let rows = rows(snapshot, theme);
    if rows.iter().all(|(_, summary)| summary.max.is_none()) {
        let words = text::clip(theme.tr("no times yet: they come with the first answer"), width);
        panel::put(buf, inner, 0, Line::styled(words, theme.quiet()));
        return 0;
    }
    let label = rows.iter().map(|(name, _)| text::width(name)).max().unwrap_or(0).min(width / 3);
    let columns = (width.saturating_sub(label) / (FIGURE + 2)).min(HEADS.len());
    let line = |name: &str, cells: &[String]| {
        let mut line = panel::left(name, label);
        for cell in cells.iter().take(columns) {
            line.push_str("  ");
            line.push_str(&panel::right(cell, FIGURE));
        }
        line
    };
    let heads = HEADS.map(|head| theme.tr(head).to_owned());
    panel::put(buf, inner, 0, Line::styled(line("", &heads), theme.quiet()));
    let mut lines = Vec::new();
    for (name, summary) in &rows {
        let cells = [summary.p50, summary.p95, summary.p99, summary.mean, summary.max].map(seconds);
        let line = line(name, &cells);
        let (name, cells) = line.split_at(panel::left(name, label).len());
        let spans = vec![Span::styled(name.to_owned(), theme.quiet()), Span::styled(cells.to_owned(), theme.text())];
        lines.push(Line::from(spans));
    }
    let wordings = prediction_wordings(snapshot.prediction.as_ref(), theme);
    lines.push(Line::styled(text::first_fit(&wordings, width), theme.text()));
    // The heads stay.
    let most = lines.len().saturating_sub(usize::from(inner.height).saturating_sub(1));
    for (row, line) in lines.into_iter().skip(scroll.min(most)).enumerate() {
        panel::put(buf, inner, row + 1, line);
    }
    most
}

fn rows(snapshot: &Snapshot, theme: Theme) -> [(&'static str, Summary); 5] {
    let times = &snapshot.latencies;
    [
        (theme.tr("queue"), times.queue),
        ("TTFT", times.ttft),
        ("TPOT", times.tpot),
        ("ITL", times.itl),
        (theme.tr("end to end"), times.end_to_end),
    ]
}

fn seconds(value: Option<f64>) -> String {
    let time = value.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    format::time_or_unknown(time)
}

/// How far off predictions of TTFT were, longest wording first.
pub(super) fn prediction_wordings(prediction: Option<&Prediction>, theme: Theme) -> Vec<String> {
    let Some(prediction) = prediction else {
        return vec![theme.tr("TTFT has not been predicted yet").to_owned(), String::new()];
    };
    let requests = format::count(prediction.requests as u64);
    let error = format!("{:.0}%", prediction.error_median * 100.0);
    let ratio = format!("{:.2}", prediction.ratio_median);
    vec![
        say!(
            theme,
            "TTFT predictions: half of {} were off by more than {}; the typical one said {} times the real time",
            requests,
            error,
            ratio
        ),
        say!(theme, "TTFT predictions: half of {} were off by more than {}", requests, error),
        say!(theme, "TTFT predictions: half off by >{}", error),
        String::new(),
    ]
}
