//! Scenarios: the whole engine, scheduler and sampling included, in a situation that is known to be hard.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use tokio::sync::mpsc::Receiver;

use crate::batch::{RequestId, UserId};
use crate::config::EngineConfig;
use crate::engine::{EngineHandle, Event, Finished, Limits, Pace, Policy, Snapshot};
use crate::hub::Choice;
use crate::launch::launch;
use crate::sampling::SamplingParams;

/// Chats in the first two scenarios; one more request comes to those of the first.
const CHATS: usize = 8;
/// Tokens of an ordinary chat's prompt.
const PROMPT: usize = 64;
/// Tokens that each chat has before the long prompt comes.
const BEFORE: usize = 32;
/// Tokens of each chat's answer beside a long prompt.
const ANSWER: usize = 400;
/// The gap to aim for, in gaps without a prompt, when none is given.
const TARGET: f64 = 2.5;

/// What is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// A long prompt comes to seven chats: unchunked, in chunks, and with a target for their gaps
    LongPrompt,
    /// Eight chats, one after another, with the same system prompt
    SharedPrefix,
    /// Somebody has twenty requests in the queue, and somebody else comes with one: fcfs and fair
    Fair,
}

/// One line of a scenario's report.
#[derive(Debug, Serialize)]
#[serde(tag = "scenario", rename_all = "kebab-case")]
pub enum Line {
    LongPrompt {
        how: String,
        chats: usize,
        long_prompt_tokens: usize,
        /// Of the seven chats' gaps between tokens: the median over the newest 256 of each, and the worst.
        itl_ms_median: f64,
        itl_ms_worst: f64,
        worst_over_median: f64,
        long_prompt_ttft_ms: f64,
        /// Prompt tokens of a step, when the aim had settled; null without an aim.
        prefill_budget: Option<usize>,
    },
    SharedPrefix {
        chat: usize,
        prompt_tokens: usize,
        cached_tokens: usize,
        ttft_ms: f64,
        /// The first chat's TTFT over this one's.
        shorter: f64,
        used_blocks: usize,
        shared_blocks: usize,
        /// What all chats so far would hold without sharing, at the same moment.
        blocks_unshared: usize,
    },
    Fair {
        policy: String,
        requests_before: usize,
        /// Of those, ended when the other user's answer of eight tokens had.
        served_before: usize,
        ttft_ms: f64,
    },
}

/// What a scenario is played with.
pub struct Stage {
    pub choice: Choice,
    pub engine: EngineConfig,
    pub prompt_tokens: usize,
}

impl Stage {
    /// # Errors
    /// When a prompt does not fit the model's context.
    fn open(&self, chunk: Option<usize>) -> anyhow::Result<EngineHandle> {
        let mut config = self.engine.clone();
        config.max_num_seqs = Some(config.max_num_seqs.unwrap_or(CHATS));
        if let Some(chunk) = chunk {
            config.prefill_chunk = Some(chunk);
            config.max_num_batched_tokens = Some(chunk.max(256) + CHATS);
        }
        let engine = launch(&self.choice, &config, CHATS, Pace::Full)?;
        let (context, needed) = (engine.snapshots().borrow().limits.max_model_len, self.prompt_tokens.max(PROMPT) + PROMPT);
        ensure!(
            needed <= context,
            "prompts of {} tokens do not fit the context of {}, {context} tokens: give fewer --prompt-tokens, or another --model",
            self.prompt_tokens,
            self.choice.name()
        );
        Ok(engine)
    }
}

/// Plays it, and hands each line out as it comes.
///
/// # Errors
/// When a request is refused or fails: then nothing was measured.
pub async fn play(scenario: Scenario, stage: &Stage, mut line: impl FnMut(Line) -> anyhow::Result<()>) -> anyhow::Result<()> {
    match scenario {
        Scenario::LongPrompt => long_prompt(stage, &mut line).await,
        Scenario::SharedPrefix => shared_prefix(stage, &mut line).await,
        Scenario::Fair => {
            for policy in [Policy::Fcfs, Policy::Fair] {
                line(fair(stage, policy).await?)?;
            }
            Ok(())
        }
    }
}

async fn long_prompt(stage: &Stage, line: &mut impl FnMut(Line) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let seats = stage.engine.max_num_seqs.unwrap_or(CHATS);
    ensure!(
        (CHATS..=256).contains(&seats),
        "--max-num-seqs is {seats}: seven chats and a long prompt need from {CHATS} to 256 seats"
    );
    let long = stage.prompt_tokens;
    let engine = stage.open(Some(long))?;
    let unchunked = engine.snapshots().borrow().limits;
    let aim = Limits { max_num_batched_tokens: 256.max(CHATS), prefill_chunk: 256, ..unchunked };
    let chunked = Limits { prefill_chunk: 64, ..aim };
    let mut plain = None;
    for (round, (limits, how)) in [(unchunked, "unchunked"), (chunked, "chunks of 64"), (aim, "target")].into_iter().enumerate() {
        let target = (how == "target")
            .then(|| stage.engine.target_itl.unwrap_or(plain.unwrap_or(Duration::from_millis(10)).mul_f64(TARGET)));
        engine.set_limits(limits);
        engine.set_target_itl(target);
        let how = target.map_or(how.to_owned(), |target| format!("target {:.1} ms", ms(target)));
        let (found, median) = one_long_prompt(&engine, how, long, round * CHATS).await?;
        plain.get_or_insert(median);
        line(found)?;
    }
    engine.shutdown(Duration::ZERO);
    Ok(())
}

/// Seven chats, a long prompt in their midst, and what came of their gaps. Prompts of another `seed` have nothing in common.
async fn one_long_prompt(engine: &EngineHandle, how: String, long: usize, seed: usize) -> anyhow::Result<(Line, Duration)> {
    let chats: Vec<_> = (1..CHATS).map(|user| ask(engine, user, tokens(engine, seed + user, PROMPT), ANSWER)).collect();
    let mut chats: Vec<Receiver<Event>> = chats.into_iter().map(|(_, events)| events).collect();
    for events in &mut chats {
        wait_for_tokens(events, BEFORE).await?;
    }
    let (_, mut events) = ask(engine, 0, tokens(engine, seed, long), 4);
    wait_for_tokens(&mut events, 1).await?;
    // As it is with seven decoding: at the prompt's last chunk.
    let prefill_budget = engine.snapshots().borrow().prefill_budget;
    let ttft = end(&mut events).await?.ttft.context("it had a token")?;
    let mut medians = Vec::new();
    let mut worst = Duration::ZERO;
    for events in &mut chats {
        let itl = end(events).await?.itl.context("chats have gaps")?;
        medians.push(itl.p50);
        worst = worst.max(itl.max);
    }
    medians.sort_unstable();
    let median = medians[medians.len() / 2];
    let line = Line::LongPrompt {
        how,
        chats: chats.len(),
        long_prompt_tokens: long,
        itl_ms_median: ms(median),
        itl_ms_worst: ms(worst),
        worst_over_median: worst.as_secs_f64() / median.as_secs_f64().max(1e-9),
        long_prompt_ttft_ms: ms(ttft),
        prefill_budget,
    };
    Ok((line, median))
}

async fn shared_prefix(stage: &Stage, line: &mut impl FnMut(Line) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let engine = stage.open(None)?;
    let system = tokens(&engine, 0, stage.prompt_tokens);
    let mut chats = Vec::new();
    let mut first = None;
    for chat in 1..=CHATS {
        let mut prompt = system.clone();
        prompt.extend(tokens(&engine, chat, 16));
        let prompt_tokens = prompt.len();
        let (id, mut events) = ask(&engine, chat, prompt, ANSWER);
        wait_for_tokens(&mut events, 1).await?;
        let snapshot = seen(&engine, id).await?;
        let view = snapshot.users.iter().find(|view| view.request == id).context("it is running")?;
        let ttft = view.ttft.context("it has a token")?;
        let first = *first.get_or_insert(ttft);
        let unshared = snapshot.users.iter().map(|view| view.kv_blocks).sum();
        line(Line::SharedPrefix {
            chat,
            prompt_tokens,
            cached_tokens: view.cached_tokens,
            ttft_ms: ms(ttft),
            shorter: first.as_secs_f64() / ttft.as_secs_f64().max(1e-9),
            used_blocks: snapshot.kv.used,
            shared_blocks: snapshot.kv.shared,
            blocks_unshared: unshared,
        })?;
        chats.push(events);
    }
    engine.shutdown(Duration::ZERO);
    Ok(())
}

/// One user has twenty requests before another comes with one.
async fn fair(stage: &Stage, policy: Policy) -> anyhow::Result<Line> {
    const REQUESTS: usize = 20;
    let engine =
        Stage { engine: EngineConfig { policy, ..stage.engine.clone() }, choice: stage.choice.clone(), ..*stage }.open(None)?;
    let mut many: Vec<_> = (0..REQUESTS).map(|n| ask(&engine, 1, tokens(&engine, 10 + n, PROMPT), 64).1).collect();
    // When all seats are taken and the rest waits.
    let mut snapshots = engine.snapshots();
    let full = |snapshot: &Snapshot| snapshot.waiting > 0 && snapshot.running > 0 && snapshot.totals.generated_tokens > 0;
    let over = |snapshot: &Snapshot| snapshot.totals.finished + snapshot.totals.rejected > 0;
    let seen = snapshots.wait_for(|snapshot| full(snapshot) || over(snapshot)).await.context("the engine has ended")?;
    let refused = seen.totals.rejected;
    drop(seen);
    ensure!(refused == 0, "{refused} of {REQUESTS} requests were refused: give more --kv-memory or --max-waiting");
    let (_, mut events) = ask(&engine, 2, tokens(&engine, 2, PROMPT), 8);
    wait_for_tokens(&mut events, 1).await?;
    let ttft = end(&mut events).await?.ttft.context("it had a token")?;
    let served_before = many.iter_mut().filter_map(ended_before).count();
    drop(many);
    engine.shutdown(Duration::ZERO);
    Ok(Line::Fair { policy: policy.to_string(), requests_before: REQUESTS, served_before, ttft_ms: ms(ttft) })
}

/// Whether a request has ended already.
fn ended_before(events: &mut Receiver<Event>) -> Option<Finished> {
    std::iter::from_fn(|| events.try_recv().ok()).find_map(|event| match event {
        Event::Finished(finished) => Some(finished),
        _ => None,
    })
}

/// The first snapshot in which a request has its first token.
async fn seen(engine: &EngineHandle, id: RequestId) -> anyhow::Result<std::sync::Arc<Snapshot>> {
    let mut snapshots = engine.snapshots();
    let has = |snapshot: &Snapshot| snapshot.users.iter().any(|view| view.request == id && view.ttft.is_some());
    let found = snapshots.wait_for(|snapshot| has(snapshot)).await.context("the engine has ended")?;
    Ok(found.clone())
}

fn ask(engine: &EngineHandle, user: usize, prompt: Vec<u32>, max_tokens: usize) -> (RequestId, Receiver<Event>) {
    let sampling = SamplingParams { temperature: 0.0, max_tokens, ignore_eos: true, ..SamplingParams::default() };
    engine.submit(UserId(user as u32), prompt, sampling)
}

/// Tokens from all over the vocabulary, other ones for each seed. Which they are makes no difference to the arithmetic.
fn tokens(engine: &EngineHandle, seed: usize, count: usize) -> Vec<u32> {
    let vocab = engine.text().vocab() as u64;
    let token = |at: u64| (at * 7919 + (seed as u64 + 1) * 104_729) % vocab;
    (0..count as u64).map(|at| token(at) as u32).collect()
}

async fn wait_for_tokens(events: &mut Receiver<Event>, count: usize) -> anyhow::Result<()> {
    let mut seen = 0;
    while seen < count {
        match events.recv().await {
            Some(Event::Token { .. }) => seen += 1,
            Some(Event::Queued { .. } | Event::Admitted { .. } | Event::Preempted { .. }) => {}
            Some(Event::Rejected(why)) => bail!("a request was refused: {why}"),
            Some(other) => bail!("a request ended too early: {other:?}"),
            None => bail!("the engine has ended"),
        }
    }
    Ok(())
}

async fn end(events: &mut Receiver<Event>) -> anyhow::Result<Finished> {
    loop {
        match events.recv().await {
            Some(Event::Finished(finished)) => {
                ensure!(finished.preemptions == 0, "a request was preempted: give more --kv-memory");
                return Ok(finished);
            }
            Some(_) => {}
            None => bail!("the engine has ended"),
        }
    }
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// The line that stands above a scenario's table.
pub fn head(scenario: Scenario) -> String {
    match scenario {
        Scenario::LongPrompt => format!(
            "a long prompt comes to {} chats\n{:<16} {:>10} {:>10} {:>8} {:>12} {:>14}",
            CHATS - 1,
            "",
            "median ITL",
            "worst gap",
            "ratio",
            "its TTFT",
            "prompt budget"
        ),
        Scenario::SharedPrefix => format!(
            "{CHATS} chats with one system prompt, one after another\n{:>4} {:>7} {:>7} {:>10} {:>8} {:>12} {:>7} {:>9}",
            "chat", "prompt", "cached", "TTFT", "shorter", "blocks used", "shared", "unshared"
        ),
        Scenario::Fair => format!(
            "one user has 20 requests, another comes with one\n{:<8} {:>14} {:>10}",
            "policy", "served before", "its TTFT"
        ),
    }
}

/// One line of the table.
pub fn row(line: &Line) -> String {
    match line {
        Line::LongPrompt { how, itl_ms_median, itl_ms_worst, worst_over_median, long_prompt_ttft_ms, prefill_budget, .. } => {
            format!(
                "{how:<16} {itl_ms_median:>7.1} ms {itl_ms_worst:>7.1} ms {worst_over_median:>7.1}x {long_prompt_ttft_ms:>9.0} ms {:>14}",
                prefill_budget.map_or("–".to_owned(), |tokens| format!("{tokens} tokens"))
            )
        }
        Line::SharedPrefix {
            chat,
            prompt_tokens,
            cached_tokens,
            ttft_ms,
            shorter,
            used_blocks,
            shared_blocks,
            blocks_unshared,
        } => {
            format!(
                "{chat:>4} {prompt_tokens:>7} {cached_tokens:>7} {ttft_ms:>7.1} ms {shorter:>7.1}x {used_blocks:>12} {shared_blocks:>7} {blocks_unshared:>9}"
            )
        }
        Line::Fair { policy, requests_before, served_before, ttft_ms } => {
            format!("{policy:<8} {:>14} {ttft_ms:>7.0} ms", format!("{served_before} of {requests_before}"))
        }
    }
}
