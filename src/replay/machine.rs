//! The engine's core, driven by records.

use std::sync::Arc;
use std::time::Duration;

use crate::batch::{RequestId, UserId};
use crate::engine::core::{Core, StepResults};
use crate::engine::trace::{Header, Record, Sampled, StepData, check_sum};
use crate::engine::{Event, Limits, Pace, RunState, Snapshot, StepParts, Witnessed, change};
use crate::scheduler::{Request, RowResult};

/// Positions of KV memory at most: a header alone makes nobody allocate more than its tables.
const MAX_POSITIONS: usize = 1 << 24;
/// Blocks at most, and tokens of one.
const MAX_BLOCKS: usize = 1 << 20;
const MAX_BLOCK_SIZE: usize = 1 << 10;
/// Engine time at most: a century, in microseconds.
const MAX_TIME: u64 = 100 * 366 * 24 * 3600 * 1_000_000;

#[derive(Clone, Debug)]
pub(super) struct Machine {
    core: Core,
    /// The newest time that was named, in microseconds.
    now: u64,
    /// Records taken in.
    taken: usize,
    results: Vec<RowResult>,
    texts: Vec<String>,
}

/// About the bytes of a state.
pub(super) fn bytes(header: &Header) -> usize {
    header.kv.capacity * (96 + 4 * header.kv.block_size) + (64 << 10)
}

fn check_limits(limits: &Limits) -> Result<(), String> {
    // What a configuration can say at most.
    let bounds = [
        ("max_num_seqs", limits.max_num_seqs, 1024),
        ("max_num_batched_tokens", limits.max_num_batched_tokens, 1 << 20),
        ("prefill_chunk", limits.prefill_chunk, 1 << 20),
        ("max_model_len", limits.max_model_len, 1 << 24),
        ("max_waiting", limits.max_waiting, 1 << 20),
        ("watermark", limits.watermark, 1 << 20),
    ];
    match bounds.into_iter().find(|(_, value, most)| value > most) {
        Some((name, value, most)) => Err(format!("{name} is {value}, and can be {most} at most")),
        None => Ok(()),
    }
}

fn check_header(header: &Header) -> Result<(), String> {
    check_limits(&header.limits)?;
    let kv = &header.kv;
    if kv.blocks == 0 || kv.block_size == 0 || kv.blocks > kv.capacity {
        return Err(format!("{} KV blocks of {} tokens in a memory of {}", kv.blocks, kv.block_size, kv.capacity));
    }
    if kv.capacity > MAX_BLOCKS || kv.block_size > MAX_BLOCK_SIZE || kv.capacity * kv.block_size > MAX_POSITIONS {
        return Err(format!(
            "KV memory of {} blocks of {} tokens: more than {MAX_POSITIONS} positions cannot be replayed",
            kv.capacity, kv.block_size
        ));
    }
    let model = &header.model;
    let sizes = [model.parameters, model.weight_bytes, model.context as u64, model.vocab as u64, model.layers as u64];
    if sizes.into_iter().any(|size| size > 1 << 50) || model.kv_bytes_per_token > 1 << 30 {
        return Err("no model has such sizes".into());
    }
    check_pace(header.pace)
}

fn check_pace(pace: Option<f64>) -> Result<(), String> {
    match pace.filter(|steps| !(*steps > 0.0 && *steps <= 1e9)) {
        Some(steps) => Err(format!("a pace of {steps} steps a second")),
        None => Ok(()),
    }
}

impl Machine {
    pub fn new(header: &Header) -> Result<Machine, String> {
        check_header(header)?;
        let kv = &header.kv;
        let info = Arc::new(header.model.clone());
        let core = Core::new(header.limits, (kv.blocks, kv.capacity, kv.block_size), info);
        let mut core = core.map_err(|error| error.to_string())?;
        core.pace = Pace::from(header.pace);
        core.cost.set_target(header.target_itl_us.map(Duration::from_micros));
        Ok(Machine { core, now: 0, taken: 0, results: Vec::new(), texts: Vec::new() })
    }

    pub fn taken(&self) -> usize {
        self.taken
    }

    pub fn time(&self) -> Duration {
        Duration::from_micros(self.now)
    }

    pub fn snapshot(&mut self) -> Snapshot {
        let now = self.time();
        self.core.snapshot(now)
    }

    /// Takes the next record in; `tell` hears what the engine told its requests.
    pub fn apply(&mut self, record: &Record, mut tell: impl FnMut(RequestId, Event)) -> Result<(), String> {
        let rests = self.take(record)?;
        self.taken += 1;
        for (id, mut event) in self.core.outbox.drain(..) {
            if let Event::Finished(end) = &mut event
                && let Some((_, rest)) = rests.iter().find(|(of, _)| *of == id)
            {
                end.text.clone_from(rest);
            }
            tell(id, event);
        }
        Ok(())
    }

    /// Gives the text that had been held back from requests which ended.
    fn take(&mut self, record: &Record) -> Result<Vec<(RequestId, String)>, String> {
        let core = &mut self.core;
        match record {
            Record::User { .. } | Record::Cut { .. } => {}
            Record::Submit(submit) => {
                let id = RequestId(submit.id);
                if core.live.contains_key(&id) {
                    return Err(format!("request {} is there already", submit.id));
                }
                let request = Request {
                    id,
                    user: UserId(submit.user),
                    prompt: submit.prompt.clone(),
                    max_tokens: submit.max_tokens,
                    priority: submit.priority,
                    fork_of: submit.fork_of.map(RequestId),
                };
                let now = pass(&mut self.now, submit.t)?;
                let predicted = submit.ttft.map(|ttft| Duration::from_micros(ttft.min(MAX_TIME)));
                if let Err(why) = core.submit(request, predicted, now) {
                    core.outbox.push((id, Event::Rejected(why)));
                }
            }
            Record::Refused { user, why, .. } => core.refused(UserId(*user), why.clone()),
            Record::Cancel { id, t, rest } => {
                let now = pass(&mut self.now, *t)?;
                if !core.cancel(RequestId(*id), now) {
                    return Err(format!("request {id} is cancelled and not there"));
                }
                return Ok(vec![(RequestId(*id), rest.clone())]);
            }
            Record::Limits(limits) => {
                check_limits(limits)?;
                change::set_limits(core, *limits);
            }
            Record::KvBlocks(blocks) => change::set_kv_blocks(core, *blocks),
            Record::TargetItl { us } => change::set_target_itl(core, us.map(Duration::from_micros)),
            Record::Prefill(tokens) => core.scheduler.set_prefill_budget(tokens.unwrap_or(usize::MAX)),
            Record::Step(step) => return self.step(step),
            Record::Pause { on } => core.pause(*on),
            Record::Pace(pace) => {
                check_pace(*pace)?;
                core.pace = Pace::from(*pace);
            }
            Record::Idle { t } => core.rest(pass(&mut self.now, *t)?),
            Record::Borrow(tokens) => {
                if !core.borrow(*tokens) {
                    return Err(format!("there are no blocks for the witness' {tokens} tokens: {}", otherwise(core)));
                }
            }
            Record::Return {} => core.give_back(),
            Record::Witness { id, user, tokens, verdict } => core.witnessed(Witnessed {
                request: RequestId(*id),
                user: UserId(*user),
                tokens: *tokens,
                verdict: verdict.clone(),
            }),
            Record::Due(due) => core.witnesses_due = *due,
            Record::Fault { what, t } => core.fail(what, pass(&mut self.now, *t)?),
            Record::End { t, sum } => {
                pass(&mut self.now, *t)?;
                // After a fault nobody knows how far a step had come.
                if core.fault.is_none() && *sum != check_sum(core) {
                    return Err(otherwise(core));
                }
                core.state = RunState::Stopped;
            }
        }
        Ok(Vec::new())
    }

    fn step(&mut self, step: &StepData) -> Result<Vec<(RequestId, String)>, String> {
        let core = &mut self.core;
        if !core.scheduler.has_work() {
            return Err(format!("step {} with nothing to do: {}", step.n, otherwise(core)));
        }
        let started = pass(&mut self.now, step.t)?;
        let ended = pass(&mut self.now, step.t.saturating_add(step.d))?;
        let batch = core.schedule(started);
        if batch.step != step.n || batch.num_sampled() != step.r.len() {
            return Err(otherwise(core));
        }
        self.results.clear();
        self.texts.clear();
        for row in &step.r {
            let (result, text) = match row {
                Some(Sampled::Token(token, text)) => (RowResult::Token { token: *token, ends: false }, text.as_str()),
                Some(Sampled::Last(token, text, ends)) => (RowResult::Token { token: *token, ends: *ends }, text.as_str()),
                None => (RowResult::Failed, ""),
            };
            self.results.push(result);
            self.texts.push(text.to_owned());
        }
        let part = |micros: u64| Duration::from_micros(micros.min(MAX_TIME));
        let parts = step.p.map(|[attention, products, sampling, scheduling]| StepParts {
            attention: part(attention),
            products: part(products),
            sampling: part(sampling),
            scheduling: part(scheduling),
        });
        let (results, texts, fault) = (&self.results, &mut self.texts, step.fault.clone());
        let results = StepResults { results, texts, fault, started, ended, parts };
        core.commit(batch, results);
        if step.sum.as_ref().is_some_and(|sum| *sum != check_sum(core)) {
            return Err(otherwise(core));
        }
        Ok(step.rest.iter().map(|(id, text)| (RequestId(*id), text.clone())).collect())
    }
}

fn otherwise(core: &Core) -> String {
    format!(
        "step {} was decided otherwise by this version ({}): replay it with the version that wrote it",
        core.scheduler.step(),
        env!("CARGO_PKG_VERSION")
    )
}

/// Time goes on, and only on.
fn pass(now: &mut u64, to: u64) -> Result<Duration, String> {
    if to < *now || to > MAX_TIME {
        return Err(format!("the time is {to} us after {now} us"));
    }
    *now = to;
    Ok(Duration::from_micros(to))
}
