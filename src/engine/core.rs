//! The engine without its thread: what a snapshot is made of, driven by inputs that bring the time along.
//!
//! The worker drives it with its clock, its model and people's commands; a replay drives it with what was recorded of
//! those. Both come to the same states, because nothing here depends on anything else. What is to be told to requests is
//! left in the outbox.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::api::*;
use super::change;
use super::cost::{Ahead, Cost};
use super::live::Live;
use super::metrics::{Load, Metrics, StepFigures};
use super::record::Records;
use super::view;
use crate::batch::{Batch, BlockId, RequestId, RowKind, UserId};
use crate::scheduler::{BlockManager, InvalidLimits, Request, RowResult, Scheduler, Sequence};

/// All times are engine time.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub scheduler: Scheduler,
    pub live: HashMap<RequestId, Live>,
    pub metrics: Metrics,
    pub records: Records,
    pub cost: Cost,
    /// Blocks that the witness holds now.
    pub borrowed: Vec<BlockId>,
    pub witnesses_due: usize,
    pub info: Arc<ModelInfo>,
    pub state: RunState,
    pub pace: Pace,
    pub fault: Option<String>,
    /// Preempted by changes of limits since the newest step: the next one's record names them.
    pub preempted_between: Vec<StepPreemption>,
    /// What requests are to be told, in order.
    pub outbox: Vec<(RequestId, Event)>,
}

/// What came of the rows of one batch that wanted a token.
pub(crate) struct StepResults<'a> {
    /// In row order.
    pub results: &'a [RowResult],
    /// What became printable with each; taken.
    pub texts: &'a mut [String],
    /// Why nothing was computed: then all of its sequences end.
    pub fault: Option<String>,
    /// When the step began, and when its tokens were there.
    pub started: Duration,
    pub ended: Duration,
    /// Where the time went, if that is known.
    pub parts: Option<StepParts>,
}

impl Core {
    /// `capacity` blocks, of which `blocks` are the budget.
    pub fn new(
        limits: Limits,
        (blocks, capacity, block_size): (usize, usize, usize),
        info: Arc<ModelInfo>,
    ) -> Result<Core, InvalidLimits> {
        let mut memory = BlockManager::new(capacity.max(blocks), block_size);
        memory.set_total(blocks);
        Ok(Core {
            scheduler: Scheduler::new(limits, memory)?,
            live: HashMap::new(),
            metrics: Metrics::default(),
            records: Records::default(),
            cost: Cost::default(),
            borrowed: Vec::new(),
            witnesses_due: 0,
            info,
            state: RunState::Idle,
            pace: Pace::Full,
            fault: None,
            preempted_between: Vec::new(),
            outbox: Vec::new(),
        })
    }

    pub fn snapshot(&mut self, now: Duration) -> Snapshot {
        view::snapshot(self, now)
    }

    pub fn paused(&self) -> bool {
        self.state == RunState::Paused
    }

    pub fn pause(&mut self, paused: bool) {
        self.state = match paused {
            true => RunState::Paused,
            false if self.scheduler.has_work() => RunState::Running,
            false => RunState::Idle,
        };
    }

    /// There is nothing to do now.
    pub fn rest(&mut self, now: Duration) {
        if self.state == RunState::Running {
            self.state = RunState::Idle;
        }
        self.metrics.close_intervals(now, Load::default());
    }

    /// Into the queue, or refused. `predicted`: what its TTFT is expected to be.
    pub fn submit(&mut self, request: Request, predicted: Option<Duration>, now: Duration) -> Result<(), Rejected> {
        let (id, user, prompt_tokens) = (request.id, request.user, request.prompt.len());
        let ahead = match self.scheduler.submit(request).map_err(Rejected::from) {
            Ok(ahead) => ahead,
            Err(mut why) => {
                if let Rejected::QueueFull { wait, .. } = &mut why {
                    *wait = self.records.expected_wait(self.scheduler.limits().max_num_seqs);
                }
                self.refused(user, why.clone());
                return Err(why);
            }
        };
        self.live.insert(id, Live::new(user, prompt_tokens, predicted, now));
        self.outbox.push((id, Event::Queued { ahead, prompt_tokens }));
        self.records.note(self.scheduler.step(), NoteKind::Queued { user, prompt_tokens, ahead });
        self.records.joined(user);
        if self.state == RunState::Idle {
            self.state = RunState::Running;
        }
        Ok(())
    }

    pub fn refused(&mut self, user: UserId, why: Rejected) {
        self.metrics.totals_mut().rejected += 1;
        self.records.note(self.scheduler.step(), NoteKind::Rejected { user, why });
    }

    /// False when there is no such request (any more).
    pub fn cancel(&mut self, id: RequestId, now: Duration) -> bool {
        let there = self.scheduler.cancel(id).is_some();
        if there {
            self.finish(id, FinishReason::Cancelled, None, now);
        }
        there
    }

    /// Decides the next step. Its results are owed to `commit`.
    pub fn schedule(&mut self, started: Duration) -> Batch {
        if self.paused() {
            self.break_off();
        }
        let batch = self.scheduler.schedule();
        self.tell_decisions(started);
        batch
    }

    /// Speeds are not measured over what a hand has done.
    fn break_off(&mut self) {
        self.live.values_mut().for_each(|live| live.times.break_off());
    }

    fn tell_decisions(&mut self, now: Duration) {
        let step = self.scheduler.step();
        let decisions = self.scheduler.decisions();
        for admission in &decisions.admitted {
            let Some(live) = self.live.get_mut(&admission.id) else { continue };
            if live.admitted(now, admission.cached) {
                self.outbox.push((admission.id, Event::Admitted { step, cached: admission.cached }));
            }
            let (user, blocks, cached) = (admission.user, admission.blocks, admission.cached);
            self.records.note(step, NoteKind::Admitted { user, blocks, cached });
        }
        self.metrics.totals_mut().recomputed_tokens += decisions.recomputed as u64;
        if !decisions.preempted.is_empty() {
            let preempted = decisions.preempted.clone();
            change::tell_preempted(self, &preempted);
        }
    }

    /// Takes the results of the batch that `schedule` gave: as many as it has rows that sample.
    pub fn commit(&mut self, batch: Batch, step: StepResults<'_>) {
        let StepResults { results, texts, fault, started, ended, parts } = step;
        let mut record = self.records.begin(&batch, &self.scheduler);
        record.preempted.splice(0..0, self.preempted_between.drain(..));
        (record.at, record.parts) = (ended, parts);
        self.note_chunks(&batch, &record);
        let of_kind = |kind: RowKind| batch.rows.iter().filter(move |row| row.kind == kind);
        let prefilled: usize = of_kind(RowKind::Prefill).map(|row| row.len()).sum();
        let decodes = of_kind(RowKind::Decode).count();
        let rows = batch.rows.len();
        let sampled = results.iter().filter(|result| matches!(result, RowResult::Token { .. })).count();
        let decoded = sampled.saturating_sub(of_kind(RowKind::Prefill).filter(|row| row.samples).count());
        if let Some(fault) = fault {
            let failed: Vec<RequestId> = self.scheduler.fail(batch).iter().map(|outcome| outcome.id).collect();
            for id in failed {
                if let Some(live) = self.live.get(&id) {
                    record.finished.push((live.user, FinishReason::Failed));
                }
                self.finish(id, FinishReason::Failed, Some(fault.clone()), ended);
            }
            return self.end_step(
                record,
                StepFigures {
                    at: ended,
                    duration: ended.saturating_sub(started),
                    rows,
                    sampled: 0,
                    decoded: 0,
                    prefilled,
                    parts,
                    by_hand: self.paused(),
                },
            );
        }
        // Nobody is cancelled between `schedule` and here: there is one outcome for each result.
        let outcomes = self.scheduler.commit(batch, results).to_vec();
        for ((outcome, result), text) in outcomes.iter().zip(results).zip(texts) {
            let Some(live) = self.live.get_mut(&outcome.id) else { continue };
            if let RowResult::Token { token, .. } = *result {
                let (ttft, gap) = live.token(ended);
                if let Some(gap) = gap {
                    self.metrics.gap(gap);
                }
                if let Some(ttft) = ttft {
                    self.metrics.first_token(ttft);
                    if let Some(predicted) = live.predicted_ttft {
                        self.records.predicted(predicted, ttft);
                    }
                }
                self.outbox.push((outcome.id, Event::Token { step: record.step, token, text: std::mem::take(text) }));
            }
            if let Some(reason) = outcome.finish {
                record.finished.push((live.user, reason));
                self.finish(outcome.id, reason, None, ended);
            }
        }
        let duration = ended.saturating_sub(started);
        self.cost.step(decodes, prefilled, duration);
        self.end_step(
            record,
            StepFigures { at: ended, duration, rows, sampled, decoded, prefilled, parts, by_hand: self.paused() },
        );
    }

    /// The first and the last chunk of each prompt that takes more than one: those between would fill the log.
    fn note_chunks(&mut self, batch: &Batch, record: &StepRecord) {
        for row in batch.rows.iter().filter(|row| row.kind == RowKind::Prefill) {
            let first = record.admitted.iter().any(|admission| admission.request == row.id);
            if first != row.samples {
                let (user, start, tokens, last) = (row.user, row.start, row.len(), row.samples);
                self.records.note(record.step, NoteKind::Chunk { user, start, tokens, last });
            }
        }
    }

    fn end_step(&mut self, mut record: StepRecord, figures: StepFigures) {
        self.metrics.totals_mut().prompt_tokens += figures.prefilled as u64;
        record.duration = figures.duration;
        self.records.end(record, &self.scheduler);
        let load = Load { queue: self.scheduler.num_waiting(), used_blocks: self.scheduler.blocks().counts().used };
        self.metrics.step(figures, load);
        if figures.by_hand {
            self.break_off();
        }
    }

    /// The end of a request that the scheduler has let go of.
    fn finish(&mut self, id: RequestId, reason: FinishReason, message: Option<String>, now: Duration) {
        let Some(live) = self.live.remove(&id) else { return };
        let message = message.or_else(|| self.no_room(reason, live.generated));
        let end = live.finished(reason, message, now);
        self.metrics.ended(&end);
        self.outbox.push((id, Event::Finished(end)));
        if matches!(reason, FinishReason::Stop | FinishReason::Length) {
            self.records.answered(live.generated);
        }
        let totals = self.metrics.totals_mut();
        match reason {
            FinishReason::Cancelled => totals.cancelled += 1,
            _ => totals.finished += 1,
        }
        let (user, generated) = (live.user, live.generated);
        self.records.note(self.scheduler.step(), NoteKind::Finished { user, reason, generated });
        self.records.ended(view::ended(id, &live, reason), live.service_time(now));
    }

    /// A bug ended the engine: everybody is told, and nothing more is counted.
    pub fn fail(&mut self, what: &str, now: Duration) {
        self.fault = Some(what.to_owned());
        self.outbox.clear();
        let mut all: Vec<(RequestId, Live)> = self.live.drain().collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        for (id, live) in all {
            self.outbox.push((id, Event::Finished(live.finished(FinishReason::Failed, Some(what.to_owned()), now))));
        }
    }

    /// Takes blocks for the witness, enough for `tokens` positions. False when they cannot be had.
    pub fn borrow(&mut self, tokens: usize) -> bool {
        self.scheduler.borrow_blocks(&mut self.borrowed, tokens)
    }

    pub fn give_back(&mut self) {
        self.scheduler.return_blocks(&mut self.borrowed);
    }

    pub fn witnessed(&mut self, witnessed: Witnessed) {
        self.records.note(self.scheduler.step(), NoteKind::Witnessed(witnessed));
    }

    /// What was full when an answer was cut, with its number.
    fn no_room(&self, reason: FinishReason, generated: usize) -> Option<String> {
        let blocks = self.scheduler.blocks();
        match reason {
            FinishReason::Length => Some(format!("cut at max_tokens ({generated})")),
            FinishReason::ContextFull => {
                Some(format!("cut: the context of {} tokens is full", self.scheduler.limits().max_model_len))
            }
            FinishReason::KvFull => Some(format!(
                "cut: the whole KV memory is full ({} blocks of {} tokens; --kv-memory gives more)",
                blocks.total(),
                blocks.block_size()
            )),
            FinishReason::Stop | FinishReason::Cancelled | FinishReason::Failed => None,
        }
    }

    /// What prompts may have of the next step, so that decodes keep to the target ITL.
    pub fn prefill_budget_wanted(&self) -> usize {
        let decodes = self.scheduler.running().iter().filter(|sequence| sequence.is_decoding()).count();
        self.cost.prefill_budget(decodes).unwrap_or(usize::MAX)
    }

    /// What TTFT a request that comes now can expect, in whole microseconds; None when nothing is known to go by.
    pub fn expected_ttft(&self, prompt: &[u32]) -> Option<Duration> {
        let scheduler = &self.scheduler;
        let limits = scheduler.limits();
        let running = scheduler.running();
        let mean_answer = self.records.mean_answer();
        let remaining = |sequence: &Sequence| {
            let most = sequence.max_tokens.saturating_sub(sequence.num_generated()) as f64;
            // An answer that is already longer than most gets as much again as a quarter of those.
            mean_answer.map_or(most, |mean| (mean - sequence.num_generated() as f64).max(mean / 4.0).min(most))
        };
        let most_answers = running.iter().map(|sequence| sequence.max_tokens as f64).fold(0.0, f64::max);
        let prefill: usize = running.iter().filter(|other| !other.is_decoding()).map(Sequence::remaining).sum();
        let budget = limits.max_num_batched_tokens.saturating_sub(running.len()).min(scheduler.prefill_budget());
        let ahead = Ahead {
            remaining: running.iter().map(remaining).collect(),
            free_seats: limits.max_num_seqs.saturating_sub(running.len()),
            waiting: scheduler.num_waiting(),
            mean_answer: mean_answer.unwrap_or(most_answers),
            prompt_tokens_ahead: prefill + scheduler.waiting().map(Sequence::remaining).sum::<usize>(),
            prompt_tokens: prompt.len().saturating_sub(scheduler.cached_tokens(prompt)),
            tokens_per_step: budget,
            chunk: limits.prefill_chunk,
            least_step: self.pace.steps_per_second().map_or(0.0, |steps| 1.0 / steps),
        };
        self.cost.expected_ttft(&ahead).map(|seconds| whole_micros(Duration::from_secs_f64(seconds)))
    }
}

/// Rounded down: a trace says times in whole microseconds, and says them exactly.
pub(super) fn whole_micros(time: Duration) -> Duration {
    Duration::from_micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}
