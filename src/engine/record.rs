//! What happened: the timeline, the log, and the users seen so far. All of it bounded.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::api::*;
use super::metrics::push_bounded;
use crate::batch::{Batch, UserId};
use crate::scheduler::Scheduler;

/// Steps kept for the timeline.
const TIMELINE: usize = 1024;
const NOTES: usize = 256;
/// Users kept when they have nothing running.
const USERS: usize = 64;
/// Waiting users named in a step's record.
const WAITING: usize = 64;
/// Answers whose length in time the wait estimate rests on.
const SERVICES: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Records {
    pub timeline: VecDeque<Arc<StepRecord>>,
    pub notes: VecDeque<Note>,
    /// In order of their first request.
    pub users: Vec<UserId>,
    /// The last answer of users that have nothing live.
    pub ended: Vec<UserView>,
    services: VecDeque<Duration>,
}

impl Records {
    pub fn note(&mut self, step: u64, kind: NoteKind) {
        tracing::info!(step, "{kind:?}");
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

    /// The record of a step that has been computed and not committed yet.
    pub fn begin(&self, batch: &Batch, scheduler: &Scheduler) -> StepRecord {
        let decisions = scheduler.decisions();
        let rows = batch.rows.iter().map(|row| StepRow { user: row.user, request: row.id, kind: row.kind, tokens: row.len() });
        StepRecord {
            step: batch.step,
            duration: Duration::ZERO,
            rows: rows.collect(),
            admitted: decisions.admitted.iter().map(|admission| admission.user).collect(),
            preempted: decisions.preempted.iter().map(|preemption| (preemption.user, preemption.by)).collect(),
            finished: Vec::new(),
            waiting: Vec::new(),
            used_blocks: 0,
            budget_used: batch.tokens.len(),
            budget: scheduler.limits().max_num_batched_tokens,
        }
    }

    pub fn end(&mut self, mut record: StepRecord, scheduler: &Scheduler) {
        record.waiting = scheduler.waiting().take(WAITING).map(|sequence| sequence.user).collect();
        record.used_blocks = scheduler.blocks().counts().used;
        push_bounded(&mut self.timeline, Arc::new(record), TIMELINE);
    }
}
