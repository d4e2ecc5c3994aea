//! `batchroom bench`: users against step time and tokens per second, on this machine.

mod bandwidth;
mod calibrate;
mod measure;
mod report;
mod scenario;
mod subject;
pub(super) mod text;

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{INTERRUPTED, asked_to_end, choose};
use crate::cli::BenchArgs;
use crate::config::{Config, DeviceChoice, EngineConfig};
use crate::machine;
pub use bandwidth::memory_speed;
use measure::{Bench, Sweep};
use report::{Device, Report};
pub use scenario::Scenario;
use subject::Subject;
use text::Style;

pub(super) use calibrate::{Calibration, calibrate};

/// Where the measuring thread is.
const LOADING: u8 = 0;
const MEASURING: u8 = 1;
const STOPPING: u8 = 2;

pub async fn bench(args: BenchArgs, config: Config) -> anyhow::Result<ExitCode> {
    ensure!(config.engine.device == DeviceChoice::Cpu, "bench measures the own kernels: use --device cpu");
    if let Some(scenario) = args.scenario {
        return play(scenario, &args, config).await;
    }
    let sweep = Sweep::new(&args.users, args.prompt_tokens.unwrap_or(128), args.new_tokens)?;
    let choice = match &args.synthetic {
        Some(_) => None,
        None => Some(choose(config.model.as_deref()).await?),
    };
    let mut code = INTERRUPTED;
    let phase = Arc::new(AtomicU8::new(LOADING));
    let mut run = tokio::task::spawn_blocking({
        let phase = Arc::clone(&phase);
        move || {
            let subject = match (args.synthetic, choice) {
                (Some(shape), _) => Subject::synthetic(&shape, args.weight_type.as_deref())?,
                (None, choice) => Subject::open(choice.context("no model is named")?)?,
            };
            measure(&subject, &sweep, &config.engine, Show { json: args.json, parts: args.parts }, &phase)
        }
    });
    loop {
        tokio::select! {
            outcome = &mut run => {
                outcome??;
                let stopped = phase.load(Ordering::Relaxed) == STOPPING;
                return Ok(if stopped { ExitCode::from(code) } else { ExitCode::SUCCESS });
            }
            // While loading there is nothing to show, and the second one does not wait for the forward pass.
            asked_by = asked_to_end() => {
                code = asked_by;
                let asked = phase.compare_exchange(MEASURING, STOPPING, Ordering::Relaxed, Ordering::Relaxed);
                if asked.is_err() {
                    std::process::exit(code.into());
                }
            }
        }
    }
}

/// A scenario in place of the sweep.
async fn play(scenario: Scenario, args: &BenchArgs, config: Config) -> anyhow::Result<ExitCode> {
    let choice = choose(config.model.as_deref()).await?;
    let prompt_tokens = args.prompt_tokens.unwrap_or(match scenario {
        Scenario::LongPrompt => 3000,
        Scenario::SharedPrefix => 600,
        Scenario::Fair => 64,
    });
    ensure!((1..=1 << 20).contains(&prompt_tokens), "--prompt-tokens is {prompt_tokens}: it must be from 1 to {}", 1 << 20);
    let stage = scenario::Stage { choice, engine: config.engine, prompt_tokens };
    let out = Output::new(Show { json: args.json, parts: false });
    let mut head = (!args.json).then(|| scenario::head(scenario));
    let lines = scenario::play(scenario, &stage, |line| {
        head.take().map_or(Ok(()), |head| out.print(&head))?;
        match args.json {
            true => out.print(&serde_json::to_string(&line)?),
            false => out.print(&scenario::row(&line)),
        }
    });
    tokio::select! {
        played = lines => played.map(|()| ExitCode::SUCCESS),
        code = asked_to_end() => Ok(ExitCode::from(code)),
    }
}

/// What is printed.
#[derive(Clone, Copy)]
struct Show {
    json: bool,
    parts: bool,
}

/// Everything from the memory's speed to the last line.
fn measure(subject: &Subject, sweep: &Sweep, engine: &EngineConfig, show: Show, phase: &AtomicU8) -> anyhow::Result<()> {
    let (threads, kv_type) = (engine.threads, engine.kv_type);
    sweep.check_context(&subject.name(), subject.config().context)?;
    subject.check_memory(sweep, kv_type, machine::available_memory())?;
    let mut out = Output::new(show);
    out.progress("measuring memory bandwidth");
    let bandwidth = bandwidth::measure(threads)?;
    out.progress(&format!("loading {}", subject.name()));
    let mut model = subject.load(sweep, threads, kv_type)?;
    let device = Device { cpu: machine::cpu_name(), kernels: model.kernels().to_string(), threads: model.threads() };
    let mut report = Report {
        model: subject.figures(&model)?,
        device,
        kv_type: kv_type.to_string(),
        memory_bandwidth_gb_per_s: bandwidth / 1e9,
        decode: Vec::new(),
        prefill: Vec::new(),
        parts: Vec::new(),
    };
    phase.store(MEASURING, Ordering::Relaxed);
    let result = take_points(&mut model, sweep, phase, &mut report, &mut out);
    match result.and_then(|()| out.end(&report)) {
        Err(error) if error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) => Ok(()),
        result => result,
    }
}

fn take_points(
    model: &mut crate::model::Llama,
    sweep: &Sweep,
    phase: &AtomicU8,
    report: &mut Report,
    out: &mut Output,
) -> anyhow::Result<()> {
    out.line(|_| text::head(report, sweep))?;
    let stop = || phase.load(Ordering::Relaxed) == STOPPING;
    let mut bench = Bench { model, sweep, stop: &stop };
    out.progress("warming up");
    bench.warm_up()?;
    for users in sweep.users() {
        if stop() {
            break;
        }
        out.progress(&format!("measuring {users} user{}", if *users == 1 { "" } else { "s" }));
        let before = report.decode.len();
        let point = bench.point(*users)?;
        report.add(sweep, &point);
        for decode in &report.decode[before..] {
            out.line(|style| text::decode_row(decode, style))?;
        }
    }
    Ok(())
}

/// Standard output for the figures, as they come; standard error for what is being done, if it is a terminal.
struct Output {
    show: Show,
    style: Style,
    bar: ProgressBar,
}

impl Output {
    fn new(show: Show) -> Output {
        let terminal = std::io::stderr().is_terminal();
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{msg} ...").expect("a valid template");
        // Nothing ticks on its own: that would be a thread beside those that are measured.
        let bar = ProgressBar::with_draw_target(None, target).with_style(style);
        Output { show, style: Style::of_locale(|name| std::env::var(name).ok()), bar }
    }

    fn progress(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.bar.tick();
    }

    /// A line of the table; none with `--json`.
    fn line(&self, line: impl FnOnce(Style) -> String) -> anyhow::Result<()> {
        if self.show.json { Ok(()) } else { self.print(&line(self.style)) }
    }

    fn print(&self, text: &str) -> anyhow::Result<()> {
        Ok(self.bar.suspend(|| {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{text}").and_then(|()| out.flush())
        })?)
    }

    fn end(&self, report: &Report) -> anyhow::Result<()> {
        self.bar.finish_and_clear();
        if self.show.json {
            self.print(&serde_json::to_string(report)?)
        } else {
            let parts = if self.show.parts { text::parts(report) } else { String::new() };
            self.print(format!("{}{parts}", text::tail(report, self.style)).trim_end())
        }
    }
}
