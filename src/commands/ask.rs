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
use crate::batch::UserId;
use crate::cli::AskArgs;
use crate::config::Config;
use crate::engine::{EngineHandle, Event, FinishReason, Pace, Rejected};
use crate::launch::launch;
use crate::text::{Message, printable};

/// Seats when nobody says otherwise.
const SEATS: usize = 16;

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
    /// What cut it, if it did not end by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub async fn ask(args: AskArgs, config: Config) -> anyhow::Result<ExitCode> {
    let jobs = prompts::read(&args, &config)?;
    let choice = choose(config.model.as_deref()).await?;
    let mut engine_config = config.engine.clone();
    // The queue holds what is submitted ahead, so that a freed seat is taken at once.
    let seats = engine_config.max_num_seqs.unwrap_or(SEATS).min(jobs.len().max(1));
    engine_config.max_num_seqs = Some(seats);
    // Before the first step all of them wait.
    engine_config.max_waiting = engine_config.max_waiting.max(seats * 2);
    let (stop, mut stopping) = watch::channel(None);
    tokio::task::spawn_local(stop_when_asked(stop));
    let launching = tokio::task::spawn_blocking(move || launch(&choice, &engine_config, SEATS, Pace::Full));
    let engine = tokio::select! {
        engine = launching => engine??,
        // There is nothing yet to end cleanly, and a thread that loads cannot be called back.
        Ok(()) = stopping.changed() => std::process::exit((*stopping.borrow()).unwrap_or(INTERRUPTED).into()),
    };
    let alone = jobs.len() == 1 && !args.json;
    let places = Rc::new(Semaphore::new(seats * 2));
    let answers: Vec<_> = jobs
        .into_iter()
        .enumerate()
        .map(|(at, job)| {
            let (engine, stopping, places) = (engine.clone(), stopping.clone(), places.clone());
            let prompt = job.body.clone();
            let task = tokio::task::spawn_local(async move {
                let _place = places.acquire().await.ok()?;
                if stopping.borrow().is_some() {
                    return None;
                }
                Some(answer(engine, UserId(at as u32), job, stopping, alone).await)
            });
            (prompt, task)
        })
        .collect();
    let failed = match print(answers, args.json, alone).await {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => false,
        result => result?,
    };
    engine.shutdown(Duration::ZERO);
    let stopped = *stopping.borrow();
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
    user: UserId,
    job: Job,
    mut stopping: watch::Receiver<Option<u8>>,
    streams: bool,
) -> Answer {
    let (id, mut events) = match &job.body {
        Body::Messages(messages) => engine.chat(user, messages, job.sampling.clone()),
        Body::Ids(ids) => engine.submit(user, ids.clone(), job.sampling.clone()),
    };
    let mut answer = Answer {
        id: job.id,
        text: String::new(),
        token_ids: Vec::new(),
        prompt_tokens: 0,
        finish_reason: FinishReason::Failed.as_str(),
        ttft_ms: None,
        tokens_per_s: None,
        note: None,
        error: None,
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
        Some(Event::Token { token, text, .. }) => {
            answer.token_ids.push(token);
            answer.text.push_str(&text);
            out.write(&text);
        }
        Some(Event::Finished(end)) => {
            answer.text.push_str(&end.text);
            out.write(&end.text);
            answer.finish_reason = end.reason.as_str();
            answer.ttft_ms = end.ttft.map(|ttft| rounded(ttft.as_secs_f64() * 1e3));
            answer.tokens_per_s = end.tokens_per_s.map(rounded);
            match end.reason {
                FinishReason::Failed => answer.error = end.message,
                _ => answer.note = end.message,
            }
            return true;
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

/// To three decimals: what lies beyond was not measured.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
