//! `batchroom ask`: answers to standard output, all prompts in one batch.

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use super::prompts::{self, Body, Job};
use super::{INTERRUPTED, asked_to_end, choose, complain};
use crate::cli::AskArgs;
use crate::config::{Config, DeviceChoice};
use crate::engine::{EngineHandle, Event, FinishReason, NoteKind, Pace, Place, Policy, Rejected, Verdict, Witnessed};
use crate::launch::launch_recorded;
use crate::text::{Message, printable};

/// Prompts submitted at once at most.
const MOST_AHEAD: usize = 2048;
/// Seats when nobody says otherwise.
const SEATS: usize = 16;
/// How long the end of a recording is waited for.
const RECORDED: Duration = Duration::from_secs(5);

/// One answer, in the order of `--json`'s fields.
#[derive(Debug, Serialize)]
struct Answer {
    id: Value,
    text: String,
    token_ids: Vec<u32>,
    prompt_tokens: usize,
    finish_reason: &'static str,
    ttft_ms: Option<f64>,
    /// Decode only.
    tokens_per_s: Option<f64>,
    /// Prompt tokens that were not computed because their keys and values were there.
    cached_tokens: usize,
    preemptions: u32,
    queue_ms: Option<f64>,
    e2e_ms: Option<f64>,
    tpot_ms: Option<f64>,
    itl_ms: Option<Gaps>,
    predicted_ttft_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    witness: Option<String>,
    /// What cut it, if it did not end by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// A verdict comes after the end.
    #[serde(skip)]
    witness_due: bool,
}

/// Milliseconds between tokens.
#[derive(Debug, Serialize)]
struct Gaps {
    p50: f64,
    p95: f64,
    p99: f64,
    max: f64,
}

pub async fn ask(args: AskArgs, config: Config) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        !args.witness || config.engine.device == DeviceChoice::Cpu,
        "--witness holds the own kernels to their promise of equal bits: use it with --device cpu"
    );
    let jobs = prompts::read(&args, &config)?;
    let choice = choose(config.model.as_deref()).await?;
    let mut engine_config = config.engine.clone();
    // The queue holds what is submitted ahead, so that a freed seat is taken at once.
    let seats = engine_config.max_num_seqs.unwrap_or(SEATS).min(jobs.len().max(1));
    engine_config.max_num_seqs = Some(seats);
    // Before the first step all of them wait.
    // Under the policies that let people overtake, all that may overtake must be there: as many as the engine takes at once.
    let ahead = if engine_config.policy == Policy::Fcfs { seats * 2 } else { jobs.len().clamp(seats * 2, MOST_AHEAD) };
    engine_config.max_waiting = engine_config.max_waiting.max(ahead);
    let (stop, mut stopping) = watch::channel(None);
    tokio::task::spawn_local(stop_when_asked(stop));
    let record = config.record.clone();
    let launching =
        tokio::task::spawn_blocking(move || launch_recorded(&choice, &engine_config, SEATS, Pace::Full, record.as_deref()));
    let engine = tokio::select! {
        engine = launching => engine??,
        // There is nothing yet to end cleanly, and a thread that loads cannot be called back.
        Ok(()) = stopping.changed() => std::process::exit((*stopping.borrow()).unwrap_or(INTERRUPTED).into()),
    };
    let alone = jobs.len() == 1 && !args.json;
    let witness = args.witness;
    let places = Rc::new(Semaphore::new(ahead));
    let answers: Vec<_> = jobs
        .into_iter()
        .map(|job| {
            let (engine, stopping, places) = (engine.clone(), stopping.clone(), places.clone());
            let prompt = job.body.clone();
            let task = tokio::task::spawn_local(async move {
                let _place = places.acquire().await.ok()?;
                if stopping.borrow().is_some() {
                    return None;
                }
                Some(answer(engine, job, witness, stopping, alone).await)
            });
            (prompt, task)
        })
        .collect();
    let failed = match print(answers, args.json, alone).await {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => false,
        result => result?,
    };
    engine.shutdown(Duration::ZERO);
    if !engine.recorded(RECORDED) {
        complain(format_args!("the recording may lack its end: its disk is slow"));
    }
    let ended = engine.snapshots().borrow().notes.iter().find_map(|note| match &note.kind {
        NoteKind::RecordingEnded { why } => Some(why.to_string()),
        _ => None,
    });
    if let Some(why) = ended {
        complain(format_args!("the recording ended early: {why}"));
    }
    let stopped = *stopping.borrow();
    if stopped.is_some() {
        complain(format_args!("stopped before all was answered"));
    }
    Ok(match stopped {
        Some(code) => ExitCode::from(code),
        None if failed => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    })
}

/// The first signal ends the answers where they are; the second ends the program.
async fn stop_when_asked(stop: watch::Sender<Option<u8>>) {
    stop.send_replace(Some(asked_to_end().await));
    std::process::exit(asked_to_end().await.into());
}

/// Prints each answer when its turn comes. Says whether any failed.
async fn print(answers: Vec<(Body, JoinHandle<Option<Answer>>)>, json: bool, alone: bool) -> std::io::Result<bool> {
    let mut failed = false;
    let many = answers.len() > 1;
    let terminal = std::io::stdout().is_terminal();
    for (prompt, task) in answers {
        let answer = match task.await {
            Ok(Some(answer)) => answer,
            // Stopped before its turn.
            Ok(None) => continue,
            Err(fault) => {
                complain(format_args!("an answer was lost: {fault}"));
                failed = true;
                continue;
            }
        };
        if answer.error.is_some() {
            failed = true;
        }
        if let Some(verdict) = &answer.witness {
            failed |= !verdict.starts_with("same");
            if !json {
                let of = if many { format!("prompt {}, ", answer.id) } else { String::new() };
                complain(format_args!("{of}witness: {verdict}"));
            }
        }
        if let Some(what) = answer.error.as_ref().or(answer.note.as_ref()).filter(|_| !json) {
            let of = if many { format!("prompt {}: ", answer.id) } else { String::new() };
            complain(format_args!("{of}{what}"));
        }
        let mut out = std::io::stdout().lock();
        if json {
            writeln!(out, "{}", serde_json::to_string(&answer)?)?;
        } else if !alone && answer.error.is_none() {
            let text = if terminal { printable(&answer.text) } else { answer.text };
            writeln!(out, "## {}: {}\n{}\n", answer.id, heading(&prompt), text.trim_end())?;
        }
        out.flush()?;
    }
    Ok(failed)
}

/// The first words of a prompt, on one line.
fn heading(prompt: &Body) -> String {
    let text = match prompt {
        Body::Messages(messages) => messages.last().map_or("", |message: &Message| message.content.as_str()),
        Body::Ids(ids) => return format!("{} token ids", ids.len()),
    };
    let line = printable(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > 72 { line.chars().take(71).chain(['…']).collect() } else { line }
}

async fn answer(
    engine: EngineHandle,
    job: Job,
    witness: bool,
    mut stopping: watch::Receiver<Option<u8>>,
    streams: bool,
) -> Answer {
    let (user, place) = (job.user, Place { priority: job.priority, witness, ..Place::default() });
    engine.name(user, &job.name);
    let (id, mut events) = match &job.body {
        Body::Messages(messages) => engine.chat_as(user, messages, job.sampling.clone(), place),
        Body::Ids(ids) => engine.submit_as(user, ids.clone(), job.sampling.clone(), place),
    };
    let mut answer = Answer {
        id: job.id,
        text: String::new(),
        token_ids: Vec::new(),
        prompt_tokens: 0,
        finish_reason: FinishReason::Failed.as_str(),
        ttft_ms: None,
        tokens_per_s: None,
        cached_tokens: 0,
        preemptions: 0,
        queue_ms: None,
        e2e_ms: None,
        tpot_ms: None,
        itl_ms: None,
        predicted_ttft_ms: None,
        witness: None,
        note: None,
        error: None,
        witness_due: place.witness,
    };
    let mut out = Stream::new(streams);
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            // Cancelled answers still come to their end, with what there is.
            Ok(()) = stopping.changed() => {
                engine.cancel(id);
                continue;
            }
        };
        let over = take(&mut answer, event, &engine, &mut out);
        if over || out.broken {
            out.end();
            return answer;
        }
    }
}

/// Takes one event in; true when it was the last.
fn take(answer: &mut Answer, event: Option<Event>, engine: &EngineHandle, out: &mut Stream) -> bool {
    match event {
        Some(Event::Queued { prompt_tokens, .. }) => answer.prompt_tokens = prompt_tokens,
        Some(Event::Admitted { .. } | Event::Preempted { .. }) => {}
        Some(Event::Witnessed(witnessed)) => {
            answer.witness = Some(verdict(&witnessed));
            return true;
        }
        Some(Event::Token { token, text, .. }) => {
            answer.token_ids.push(token);
            answer.text.push_str(&text);
            out.write(&text);
        }
        Some(Event::Finished(end)) => {
            answer.text.push_str(&end.text);
            out.write(&end.text);
            answer.finish_reason = end.reason.as_str();
            answer.ttft_ms = end.ttft.map(millis);
            answer.tokens_per_s = end.tokens_per_s.map(rounded);
            answer.cached_tokens = end.cached_tokens;
            answer.preemptions = end.preemptions;
            answer.queue_ms = end.queued.map(millis);
            answer.e2e_ms = Some(millis(end.end_to_end));
            answer.tpot_ms = end.tpot.map(millis);
            answer.itl_ms = end.itl.map(|itl| Gaps {
                p50: millis(itl.p50),
                p95: millis(itl.p95),
                p99: millis(itl.p99),
                max: millis(itl.max),
            });
            answer.predicted_ttft_ms = end.predicted_ttft.map(millis);
            match end.reason {
                FinishReason::Failed => answer.error = end.message,
                _ => answer.note = end.message,
            }
            return !answer.witness_due || end.reason == FinishReason::Failed || end.generated_tokens == 0;
        }
        Some(Event::Rejected(why)) => {
            answer.finish_reason = "rejected";
            answer.error = Some(why.to_string());
            return true;
        }
        None => {
            let fault = engine.snapshots().borrow().fault.clone().unwrap_or_else(|| "no reason given".into());
            answer.error = Some(Rejected::EngineGone(fault).to_string());
            return true;
        }
    }
    false
}

/// Standard output, a piece at a time.
struct Stream {
    active: bool,
    terminal: bool,
    broken: bool,
    at_line_start: bool,
}

impl Stream {
    fn new(active: bool) -> Stream {
        Stream { active, terminal: std::io::stdout().is_terminal(), broken: false, at_line_start: true }
    }

    fn write(&mut self, text: &str) {
        if !self.active || text.is_empty() {
            return;
        }
        let mut out = std::io::stdout().lock();
        let shown = if self.terminal { printable(text) } else { text.to_owned() };
        self.at_line_start = shown.ends_with('\n');
        self.broken |= out.write_all(shown.as_bytes()).and_then(|()| out.flush()).is_err();
    }

    fn end(&mut self) {
        if !self.at_line_start {
            self.write("\n");
        }
    }
}

fn millis(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1e3)
}

/// The verdict of a witness, in words.
fn verdict(witnessed: &Witnessed) -> String {
    match &witnessed.verdict {
        Verdict::Same => format!("same: {} tokens alone, every logit the same bits", witnessed.tokens),
        Verdict::Differs { at, token: true } => format!("differs: alone, token {} of the answer is another", at + 1),
        Verdict::Differs { at, token: false } => format!("differs: alone, token {} has other logits", at + 1),
        Verdict::NotRun { why } => format!("not run: {why}"),
    }
}

/// To three decimals: what lies beyond was not measured.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
