//! `batchroom simulate`: the scheduler on a virtual clock.

mod plan;
mod quantity;
mod report;
mod sweep;
mod text;

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::bench::text::Style;
use super::bench::{Calibration, calibrate};
use super::{INTERRUPTED, asked_to_end};
use crate::cli::SimulateArgs;
use crate::config::RawConfig;
use crate::machine;
use crate::simulate::{Hardware, Simulation};
use crate::ui::format::count;
use plan::Plan;
use report::{Point, Report, SweepReport};
use sweep::Sweep;

/// Between two looks of a person at how far it is.
const SHOW_EVERY: Duration = Duration::from_millis(200);

pub async fn simulate(args: SimulateArgs, options: RawConfig) -> anyhow::Result<ExitCode> {
    let mut code = INTERRUPTED;
    let stop = Arc::new(AtomicBool::new(false));
    let mut run = tokio::task::spawn_blocking({
        let stop = Arc::clone(&stop);
        move || all(&args, &options, &stop)
    });
    loop {
        tokio::select! {
            outcome = &mut run => {
                outcome??;
                return Ok(if stop.load(Ordering::Relaxed) { ExitCode::from(code) } else { ExitCode::SUCCESS });
            }
            // The second one does not wait for what there is so far.
            asked_by = asked_to_end() => {
                code = asked_by;
                if stop.swap(true, Ordering::Relaxed) {
                    std::process::exit(code.into());
                }
            }
        }
    }
}

fn all(args: &SimulateArgs, options: &RawConfig, stop: &AtomicBool) -> anyhow::Result<()> {
    let sweep = args.sweep.as_deref().map(|text| Sweep::parse(text, args.points)).transpose()?;
    if let Some(sweep) = &sweep {
        sweep.alone(args, options)?;
    }
    let output = Output::new(args.json);
    let plan = Plan::new(args, options, hardware(args, options, &output)?)?;
    let result = match sweep {
        Some(sweep) => run_sweep(&plan, &sweep, &output, stop),
        None => run_one(&plan, &output, stop),
    };
    output.bar.finish_and_clear();
    match result {
        Err(error) if error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) => Ok(()),
        result => result,
    }
}

/// The hardware that was named, and what this machine was measured with, if it is this one.
fn hardware(args: &SimulateArgs, options: &RawConfig, output: &Output) -> anyhow::Result<(Hardware, Option<String>)> {
    if !args.hardware.eq_ignore_ascii_case("this-machine") {
        return Ok((Hardware::by_name(&args.hardware)?, None));
    }
    let threads = options.clone().check()?.engine.threads;
    output.progress("measuring this machine");
    let Calibration { bandwidth, share, flops, model } = calibrate(threads, &args.weights)?;
    let memory = machine::available_memory().context("this system does not say how much memory is left: give --memory")?;
    let hardware = Hardware {
        name: format!("{} with {threads} threads", machine::cpu_name()),
        bandwidth,
        flops,
        memory,
        bandwidth_efficiency: share,
        // Measured with whole forward passes: overheads are in them.
        flops_efficiency: 1.0,
        step_overhead: 0.0,
        token_overhead: 0.0,
    };
    Ok((hardware, Some(model)))
}

fn run_one(plan: &Plan, output: &Output, stop: &AtomicBool) -> anyhow::Result<()> {
    let (simulation, settings) = plan.settle()?;
    let head = text::head(&settings, plan);
    output.line(|_| head)?;
    let report = run(Simulation::new(simulation)?, settings, plan, output, stop)?;
    output.bar.finish_and_clear();
    if output.json {
        output.print(&serde_json::to_string_pretty(&report)?)
    } else {
        output.print(&text::body(&report, output.style))
    }
}

fn run_sweep(plan: &Plan, sweep: &Sweep, output: &Output, stop: &AtomicBool) -> anyhow::Result<()> {
    // All points are checked before the first one is simulated.
    let plans = sweep.points.values().iter().map(|value| sweep.apply(plan, *value)).collect::<Result<Vec<_>, _>>()?;
    for plan in &plans {
        plan.settle()?;
    }
    let mut points = Vec::new();
    for (plan, value) in plans.iter().zip(sweep.points.values()) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (simulation, settings) = plan.settle()?;
        if points.is_empty() {
            let head = format!("{}\n{}", text::head(&settings, plan), text::sweep_head(sweep));
            output.line(|_| head)?;
        }
        let report = run(Simulation::new(simulation)?, settings, plan, output, stop)?;
        let point = Point { value: *value, report };
        output.line(|style| text::sweep_row(&point, sweep, style))?;
        points.push(point);
    }
    let report = SweepReport::new(sweep.parameter.name(), points);
    output.bar.finish_and_clear();
    if output.json {
        output.print(&serde_json::to_string_pretty(&report)?)
    } else {
        output.print(&text::sweep_tail(&report, sweep, output.style))
    }
}

fn run(
    mut simulation: Simulation,
    settings: plan::Settings,
    plan: &Plan,
    output: &Output,
    stop: &AtomicBool,
) -> anyhow::Result<Report> {
    let begun = Instant::now();
    let mut shown = begun;
    let ended = simulation.run(|simulation| {
        if !output.bar.is_hidden() && shown.elapsed() >= SHOW_EVERY {
            shown = Instant::now();
            output.progress(&format!("{} requests", count(simulation.requests())));
        }
        stop.load(Ordering::Relaxed)
    })?;
    let figures = simulation.figures();
    Ok(Report {
        power: Report::power(&figures),
        figures,
        seed: plan.seed(),
        wall_s: begun.elapsed().as_secs_f64(),
        interrupted: !ended,
        settings,
        timeline: simulation.timeline().clone(),
    })
}

/// Standard output for the figures, standard error for how far it is, if it is a terminal.
struct Output {
    json: bool,
    style: Style,
    bar: ProgressBar,
}

impl Output {
    fn new(json: bool) -> Output {
        let target = if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{msg} ...").expect("a valid template");
        let bar = ProgressBar::with_draw_target(None, target).with_style(style);
        Output { json, style: Style::of_locale(|name| std::env::var(name).ok()), bar }
    }

    fn progress(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.bar.tick();
    }

    /// A line of text; none with `--json`.
    fn line(&self, line: impl FnOnce(Style) -> String) -> anyhow::Result<()> {
        if self.json { Ok(()) } else { self.print(&line(self.style)) }
    }

    fn print(&self, text: &str) -> anyhow::Result<()> {
        // Times are written with µ, which a terminal of ASCII does not have.
        let text = if self.style.unicode { text.to_owned() } else { text.replace('µ', "u") };
        Ok(self.bar.suspend(|| {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{text}").and_then(|()| out.flush())
        })?)
    }
}
