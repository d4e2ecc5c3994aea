//! The figures of `simulate` for a person: plain lines that also go through pipes.

use std::fmt::Write;
use std::time::Duration;

use super::plan::{Plan, Settings};
use super::report::{Point, Report, SweepReport};
use super::sweep::{Parameter, Sweep};
use crate::commands::bench::text::{Style, bytes, figure, parameters};
use crate::simulate::{Moment, Summary, seconds};
use crate::text::printable;
use crate::ui::format::{count, time};

/// Rows of the charts at most.
const ROWS: usize = 24;
/// Columns of a bar of the charts at most: half of a bar of `bench`.
const BAR: usize = 20;

/// What is simulated.
pub fn head(settings: &Settings, plan: &Plan) -> String {
    let s = settings;
    let mut out = String::new();
    let share = |share: f64| format!("{:.0} %", share * 100.0);
    _ = writeln!(
        out,
        "model     {}: {} parameters, {}, {} in memory",
        s.shape,
        parameters(s.parameters),
        s.weights,
        bytes(s.weight_bytes as f64)
    );
    _ = writeln!(
        out,
        "hardware  {}: {}, {}/s x {}, {} TFLOP/s x {}, {} a step, {} a token",
        s.hardware,
        bytes(s.memory_bytes as f64),
        bytes(s.bandwidth_bytes_per_s),
        share(s.bandwidth_efficiency),
        figure(s.flops_per_s / 1e12),
        share(s.flops_efficiency),
        span(s.step_overhead_s),
        span(s.token_overhead_s)
    );
    if let Some(model) = &plan.measured_with {
        _ = writeln!(out, "          measured with {model}");
    }
    let tokens = s.num_blocks * s.block_size;
    _ = writeln!(
        out,
        "KV        {} of {}, {} a token: {} blocks, {} tokens",
        bytes(s.kv_memory_bytes as f64),
        s.kv_type,
        bytes(s.kv_bytes_per_token as f64),
        count(s.num_blocks as u64),
        count(tokens as u64)
    );
    _ = writeln!(
        out,
        "limits    {} at once, {} tokens a step, {} of a prompt, {} of a chat, {} waiting",
        count(s.max_num_seqs as u64),
        count(s.max_num_batched_tokens as u64),
        count(s.prefill_chunk as u64),
        count(s.max_model_len as u64),
        count(s.max_waiting as u64)
    );
    let lengths = match (&s.prompt_tokens, &s.new_tokens) {
        (Some(prompt), Some(answer)) => format!(", prompts of {prompt}, answers of {answer} tokens"),
        _ => String::new(),
    };
    _ = write!(out, "load      {}{lengths}; seed {}", printable(&s.arrivals).replace('\n', " "), plan.seed());
    out
}

fn span(value: f64) -> String {
    if value == 0.0 { "0".into() } else { time(Duration::from_secs_f64(value)) }
}

fn known(value: Option<f64>, style: Style) -> String {
    value.map_or_else(|| style.unknown().to_owned(), span)
}

/// What one simulation came to, with its charts.
pub fn body(report: &Report, style: Style) -> String {
    let f = &report.figures;
    let mut out = String::new();
    _ = writeln!(
        out,
        "\n{} requests: {} completed, {} refused, {} given up, {} unfinished; {} cut short",
        count(f.requests),
        count(f.completed),
        count(f.refused),
        count(f.cancelled),
        count(f.unfinished),
        count(f.cut)
    );
    _ = writeln!(
        out,
        "{} tok/s, {} tok/s of prompts; at most {} running, {} waiting",
        figure(f.tokens_per_s),
        figure(f.prefill_tokens_per_s),
        count(f.peak_running as u64),
        count(f.peak_waiting as u64)
    );
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    _ = writeln!(
        out,
        "{} preemptions, {} tokens computed again; KV memory {} full on average, {} at most",
        count(f.preemptions),
        count(f.recomputed_tokens),
        percent(f.kv_use_mean),
        percent(f.kv_use_peak)
    );
    _ = writeln!(
        out,
        "busy {} of the time: {} products, {} attention, {} overheads\n",
        percent(f.busy_share),
        percent(f.products_share),
        percent(f.attention_share),
        percent(f.overhead_share)
    );
    _ = writeln!(out, "{:<22} {:>7} {:>7} {:>7} {:>7} {:>7}", "", "p50", "p95", "p99", "mean", "max");
    let rows =
        [("first token", f.ttft_s), ("between two tokens", f.itl_s), ("in the queue", f.queue_s), ("whole answer", f.e2e_s)];
    for (name, summary) in rows {
        _ = writeln!(out, "{name:<22} {}", times(&summary, style));
    }
    out.push_str(&charts(report, style));
    let (virtual_time, wall) = (span(f.virtual_s), span(report.wall_s));
    _ = write!(out, "\n{virtual_time} of virtual time, {} steps, simulated in {wall}", count(f.steps));
    if report.interrupted {
        _ = write!(out, "; stopped before its end");
    }
    out
}

fn times(summary: &Summary, style: Style) -> String {
    let values = [summary.p50, summary.p95, summary.p99, summary.mean, summary.max];
    values.map(|value| format!("{:>7}", known(value, style))).join(" ")
}

/// Queue and time to first token over virtual time.
fn charts(report: &Report, style: Style) -> String {
    let mut out = String::new();
    let mut width = report.timeline.width();
    let mut moments: Vec<Moment> = report.timeline.moments().to_vec();
    while moments.len() > ROWS {
        moments = moments.chunks(2).map(|pair| pair.iter().fold(Moment::default(), |all, one| all.merged(one))).collect();
        width = width.saturating_mul(2);
    }
    let most_waiting = moments.iter().map(|moment| moment.waiting_max).max().unwrap_or(0).max(1);
    let longest = moments.iter().filter_map(Moment::ttft_mean).fold(0.0, f64::max).max(1e-9);
    let titles = format!("{:>8} {:>9} {:<BAR$} {:>9} {:<BAR$}", "from", "waiting", "(at most)", "1st token", "(mean)");
    _ = writeln!(out, "\n{} {:>8}", titles, "tok/s");
    for (at, moment) in moments.iter().enumerate() {
        let bar = |share: f64| style.bar(share * 0.5);
        let from = seconds(at as u64 * width);
        // Time ends within the last one.
        let length = (report.figures.virtual_s - from).min(seconds(width));
        let ttft = moment.ttft_mean();
        _ = writeln!(
            out,
            "{:>8} {:>9} {:<BAR$} {:>9} {:<BAR$} {:>8}",
            span(from),
            count(moment.waiting_max as u64),
            bar(moment.waiting_max as f64 / most_waiting as f64),
            known(ttft, style),
            bar(ttft.unwrap_or(0.0) / longest),
            figure(moment.tokens as f64 / length),
        );
    }
    out
}

/// The heads of a sweep's table.
pub fn sweep_head(sweep: &Sweep) -> String {
    format!(
        "\n{:>13} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7} {:>8}",
        sweep.parameter.name(),
        "tok/s",
        "1st p50",
        "1st p95",
        "next p50",
        "next p95",
        "answer",
        "running",
        "waiting",
        "preempt",
        "power"
    )
}

/// One of its rows.
pub fn sweep_row(point: &Point, sweep: &Sweep, style: Style) -> String {
    let f = &point.report.figures;
    format!(
        "{:>13} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7} {:>8}",
        value(sweep.parameter, point.value),
        figure(f.tokens_per_s),
        known(f.ttft_s.p50, style),
        known(f.ttft_s.p95, style),
        known(f.itl_s.p50, style),
        known(f.itl_s.p95, style),
        known(f.e2e_s.mean, style),
        count(f.peak_running as u64),
        count(f.peak_waiting as u64),
        count(f.preemptions),
        point.report.power.map_or_else(|| style.unknown().to_owned(), figure),
    )
}

fn value(parameter: Parameter, value: f64) -> String {
    match parameter {
        Parameter::KvMemory => bytes(value),
        Parameter::Rate => figure(value),
        _ => count(value as u64),
    }
}

/// What follows the table: its chart and its knee.
pub fn sweep_tail(report: &SweepReport, sweep: &Sweep, style: Style) -> String {
    let mut out = String::from("\ntok/s of all together\n");
    let most = report.points.iter().map(|point| point.report.figures.tokens_per_s).fold(1e-9, f64::max);
    for point in &report.points {
        let speed = point.report.figures.tokens_per_s;
        _ = writeln!(out, "{:>13} {} {}", value(sweep.parameter, point.value), style.bar(speed / most), figure(speed));
    }
    match report.knee {
        Some(knee) => {
            _ = write!(
                out,
                "\nknee: {} {}, where tokens a second over the mean time of an answer (Kleinrock's power) is greatest",
                sweep.parameter.name(),
                value(sweep.parameter, knee)
            )
        }
        None => _ = write!(out, "\nno knee: nothing was completed"),
    }
    out
}
