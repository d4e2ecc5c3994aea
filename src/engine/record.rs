//! What happened: the timeline, the log, and the users seen so far. All of it bounded.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::api::*;
use super::metrics::push_bounded;
use crate::batch::{Batch, UserId};
use crate::scheduler::{Preemption, Scheduler};

const NOTES: usize = 256;
/// Users kept when they have nothing running.
const USERS: usize = 64;
/// Refusals and changes named in a step's record.
const BETWEEN: usize = 16;
/// Waiting users named in a step's record.
const WAITING: usize = 64;
/// Answers whose length in time the wait estimate rests on.
const SERVICES: usize = 16;
/// Requests whose predicted TTFT is held against what it was.
const PREDICTIONS: usize = 64;

#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    pub timeline: Timeline,
    pub notes: VecDeque<Note>,
    /// In order of their first request.
    pub users: Vec<UserId>,
    /// The last answer of users that have nothing live.
    pub ended: Vec<UserView>,
    /// Refusals and changes since the newest step.
    between: Vec<Between>,
    services: VecDeque<Duration>,
    /// Tokens of the last answers.
    answers: VecDeque<usize>,
    /// Predicted and actual TTFT of the last requests.
    predictions: VecDeque<(Duration, Duration)>,
}

impl Records {
    pub fn note(&mut self, step: u64, kind: NoteKind) {
        tracing::info!(step, "{kind:?}");
        let between = match &kind {
            NoteKind::Rejected { user, why } => Some(Between::Refused { user: *user, why: why.clone() }),
            NoteKind::Changed { what } => Some(Between::Changed(*what)),
            NoteKind::ChangeRefused { why } => Some(Between::ChangeRefused(why.clone())),
            _ => None,
        };
        if self.between.len() < BETWEEN {
            self.between.extend(between);
        }
        push_bounded(&mut self.notes, Note { step, kind }, NOTES);
    }

    pub fn joined(&mut self, user: UserId) {
        self.ended.retain(|view| view.user != user);
        if !self.users.contains(&user) {
            self.users.push(user);
        }
    }

    pub fn ended(&mut self, view: UserView, service: Option<Duration>) {
        self.ended.retain(|old| old.user != view.user);
        self.ended.push(view);
        if self.ended.len() > USERS {
            let oldest = self.ended.remove(0).user;
            self.users.retain(|user| *user != oldest);
        }
        if let Some(service) = service {
            push_bounded(&mut self.services, service, SERVICES);
        }
    }

    /// Until one of `seats` is free, if answers go on taking as long as the last ones did. None before the first.
    pub fn expected_wait(&self, seats: usize) -> Option<Duration> {
        let count = u32::try_from(self.services.len()).ok().filter(|count| *count > 0)?;
        let mean = self.services.iter().sum::<Duration>() / count;
        Some(mean / u32::try_from(seats.max(1)).unwrap_or(u32::MAX))
    }

    /// An answer of so many tokens ended of itself or at its bound.
    pub fn answered(&mut self, tokens: usize) {
        push_bounded(&mut self.answers, tokens, SERVICES);
    }

    /// Mean tokens of the last answers; None before the first.
    pub fn mean_answer(&self) -> Option<f64> {
        (!self.answers.is_empty()).then(|| self.answers.iter().sum::<usize>() as f64 / self.answers.len() as f64)
    }

    pub fn predicted(&mut self, predicted: Duration, actual: Duration) {
        push_bounded(&mut self.predictions, (predicted, actual), PREDICTIONS);
    }

    /// How good the predictions of TTFT were.
    pub fn prediction(&self) -> Option<Prediction> {
        let pairs = self.predictions.iter().filter(|(_, actual)| !actual.is_zero());
        let ratios: Vec<f64> = pairs.map(|(predicted, actual)| predicted.as_secs_f64() / actual.as_secs_f64()).collect();
        let error_median = median(ratios.iter().map(|ratio| (ratio - 1.0).abs()).collect())?;
        Some(Prediction { requests: ratios.len(), error_median, ratio_median: median(ratios)? })
    }

    /// The record of a step that has been computed and not committed yet.
    pub fn begin(&mut self, batch: &Batch, scheduler: &Scheduler) -> StepRecord {
        let decisions = scheduler.decisions();
        let rows = batch.rows.iter().map(|row| StepRow {
            user: row.user,
            request: row.id,
            kind: row.kind,
            start: row.start,
            tokens: row.len(),
        });
        let admitted = decisions.admitted.iter().map(|admission| StepAdmission {
            user: admission.user,
            request: admission.id,
            blocks: admission.blocks,
            cached: admission.cached,
            again: admission.again,
        });
        StepRecord {
            step: batch.step,
            at: Duration::ZERO,
            duration: Duration::ZERO,
            parts: None,
            rows: rows.collect(),
            admitted: admitted.collect(),
            preempted: decisions.preempted.iter().map(step_preemption).collect(),
            finished: Vec::new(),
            waiting: reasons(scheduler),
            between: std::mem::take(&mut self.between),
            used_blocks: 0,
            cached_blocks: 0,
            total_blocks: 0,
            budget_used: batch.tokens.len(),
            budget: scheduler.limits().max_num_batched_tokens,
            prefill_budget: Some(scheduler.prefill_budget()).filter(|budget| *budget < usize::MAX),
        }
    }

    pub fn end(&mut self, mut record: StepRecord, scheduler: &Scheduler) {
        let counts = scheduler.blocks().counts();
        (record.used_blocks, record.cached_blocks) = (counts.used, counts.cached);
        record.total_blocks = scheduler.blocks().total();
        self.timeline.push(Arc::new(record));
    }
}

pub(super) fn step_preemption(preemption: &Preemption) -> StepPreemption {
    StepPreemption { user: preemption.user, by: preemption.by, lost: preemption.lost }
}

/// Who got nothing in the newest step, and why.
fn reasons(scheduler: &Scheduler) -> Vec<(UserId, Waiting)> {
    scheduler.reasons().into_iter().take(WAITING).map(|(sequence, why)| (sequence.user, why)).collect()
}

/// The middle one; of an even number the lower middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}
