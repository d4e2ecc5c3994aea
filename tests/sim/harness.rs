//! A scheduler with the model of hash sums behind it, and a KV memory whose every position can be checked.

use std::collections::{BTreeMap, BTreeSet};

use batchroom::batch::{Batch, BlockId, RequestId, Row, UserId};
use batchroom::scheduler::{
    Admission, BlockManager, Decisions, FinishReason, InvalidLimits, Limits, Outcome, Policy, Preemption, Refused, Request,
    RowResult, Scheduler, TakenBy, Waiting,
};

use crate::model::{END, State};

/// How one request went.
#[derive(Clone, Debug, Default)]
pub struct Story {
    pub user: u32,
    pub prompt: Vec<u32>,
    pub max_tokens: usize,
    pub answer: Vec<u32>,
    /// What the model keeps of each position of prompt and answer.
    pub states: Vec<State>,
    /// The step of each token of the answer.
    pub token_steps: Vec<u64>,
    pub submitted_step: u64,
    pub admitted_step: Option<u64>,
    /// Positions that were there at the first admission, and at each later one.
    pub cached: usize,
    pub cached_again: Vec<usize>,
    /// Why its blocks were taken, each time.
    pub taken_by: Vec<TakenBy>,
    /// Positions that are computed now, and the most that ever were.
    pub computed: usize,
    pub high_water: usize,
    /// Positions computed a second time.
    pub recomputed: usize,
    pub end: Option<FinishReason>,
    pub end_step: u64,
    pub refused: Option<Refused>,
}

impl Story {
    pub fn is_live(&self) -> bool {
        self.end.is_none() && self.refused.is_none()
    }

    pub fn tokens(&self) -> impl Iterator<Item = u32> {
        self.prompt.iter().chain(&self.answer).copied()
    }

    pub fn len(&self) -> usize {
        self.prompt.len() + self.answer.len()
    }

    pub fn preemptions(&self) -> usize {
        self.taken_by.len()
    }
}

/// Sums that the harness counts for itself, to hold the ledger against.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    pub recomputed: BTreeMap<(UserId, TakenBy), u64>,
    pub asked: u64,
    pub hit: u64,
    pub hit_on_return: u64,
    pub copies: u64,
    pub held: u64,
}

/// A mistake made on purpose, to see that it is noticed, and how small the workload becomes that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Whoever comes back after a preemption says a wrong token.
    WrongAfterReturn,
    /// Copies between blocks are not carried out.
    NoCopies,
}

/// Scheduler, model and memory; checks every invariant after every act (`checks.rs`).
pub struct Room {
    pub scheduler: Scheduler,
    pub stories: BTreeMap<u64, Story>,
    /// What each slot of each block holds.
    kv: Vec<Option<(usize, State)>>,
    pub ends_every: u64,
    /// Sequences that fail at their n-th token.
    pub fails_at: BTreeMap<u64, usize>,
    /// The next step cannot be computed, and leaves rubbish where it would have written.
    pub step_fails: bool,
    pub plant: Option<Plant>,
    /// Tables of blocks taken for something that is no sequence.
    pub borrowed: Vec<Vec<BlockId>>,
    pub counted: Counted,
    /// Fcfs from the beginning, and nobody has been let pass.
    pub in_order: bool,
    /// Reasons after the newest `schedule`.
    pub reasons: Vec<(u64, Waiting)>,
    /// The newest batch, and what was decided beside it.
    pub newest: Batch,
    pub decisions: Decisions,
    pub trace: Option<Vec<String>>,
    pub steps: u64,
    pub most_running: usize,
}

impl Room {
    pub fn new(limits: Limits, blocks: usize, block_size: usize, ends_every: u64) -> Room {
        Room::with_capacity(limits, blocks, blocks, block_size, ends_every)
    }

    pub fn with_capacity(limits: Limits, blocks: usize, capacity: usize, block_size: usize, ends_every: u64) -> Room {
        let mut manager = BlockManager::new(capacity, block_size);
        manager.set_total(blocks);
        Room {
            scheduler: Scheduler::new(limits, manager).expect("valid limits"),
            stories: BTreeMap::new(),
            kv: vec![None; capacity * block_size],
            ends_every,
            fails_at: BTreeMap::new(),
            step_fails: false,
            plant: None,
            borrowed: Vec::new(),
            counted: Counted::default(),
            in_order: limits.policy == Policy::Fcfs,
            reasons: Vec::new(),
            newest: Batch::default(),
            decisions: Decisions::default(),
            trace: None,
            steps: 0,
            most_running: 0,
        }
    }

    pub fn submit(&mut self, request: Request) {
        let id = request.id;
        let mut state = State::BEGIN;
        let states = request.prompt.iter().map(|token| {
            state = state.after(*token);
            state
        });
        let mut story = Story {
            user: request.user.0,
            states: states.collect(),
            prompt: request.prompt.clone(),
            max_tokens: request.max_tokens,
            submitted_step: self.scheduler.step(),
            ..Story::default()
        };
        match self.scheduler.submit(request) {
            Ok(ahead) => {
                let place = self.scheduler.waiting().position(|sequence| sequence.id == id);
                assert_eq!(Some(ahead), place, "who is told its place stands there");
            }
            Err(refused) => {
                self.check_refusal(&story, &refused);
                story.refused = Some(refused);
            }
        }
        assert!(self.stories.insert(id.0, story).is_none(), "ids are not used twice");
        self.check();
    }

    pub fn cancel(&mut self, id: u64) {
        let live = self.stories.get(&id).is_some_and(Story::is_live);
        let found = self.scheduler.cancel(RequestId(id));
        assert_eq!(found.is_some(), live, "a cancel finds exactly what is live");
        if found.is_some() {
            self.end(id, FinishReason::Cancelled);
        }
        self.check();
    }

    fn end(&mut self, id: u64, reason: FinishReason) {
        let step = self.scheduler.step();
        let story = self.stories.get_mut(&id).expect("known");
        (story.end, story.end_step) = (Some(reason), step);
    }

    pub fn set_limits(&mut self, limits: Limits) -> Result<(), InvalidLimits> {
        let before = self.picture();
        let result = self.scheduler.set_limits(limits);
        if self.scheduler.limits().policy != Policy::Fcfs {
            self.in_order = false;
        }
        self.after_change(before, result, TakenBy::Seats)
    }

    pub fn set_kv_blocks(&mut self, blocks: usize) -> Result<(), InvalidLimits> {
        let before = self.picture();
        let result = self.scheduler.set_kv_blocks(blocks);
        assert!(result.is_err() || self.scheduler.blocks().total() == blocks);
        self.after_change(before, result, TakenBy::KvBudget)
    }

    /// What must not change by a change that is refused.
    fn picture(&self) -> (Limits, usize, Vec<RequestId>) {
        let live = self.scheduler.running().iter().chain(self.scheduler.waiting());
        (*self.scheduler.limits(), self.scheduler.blocks().total(), live.map(|sequence| sequence.id).collect())
    }

    fn after_change(
        &mut self,
        before: (Limits, usize, Vec<RequestId>),
        result: Result<Vec<Preemption>, InvalidLimits>,
        by: TakenBy,
    ) -> Result<(), InvalidLimits> {
        let result = match result {
            Ok(preempted) => {
                assert!(preempted.iter().all(|preemption| preemption.by == by));
                preempted.iter().for_each(|preemption| self.note_preemption(preemption));
                let mut live = self.picture().2;
                let mut old = before.2;
                live.sort();
                old.sort();
                assert_eq!(live, old, "no change ends anybody");
                Ok(())
            }
            Err(why) => {
                assert_eq!(self.picture(), before, "what is refused changes nothing");
                Err(why)
            }
        };
        self.check();
        result
    }

    pub fn forget_all(&mut self) {
        self.scheduler.forget_all();
        assert_eq!(self.scheduler.blocks().counts().cached, 0);
        self.check();
    }

    pub fn set_prefill_budget(&mut self, tokens: usize) {
        self.scheduler.set_prefill_budget(tokens);
    }

    /// Takes blocks for something else, which writes in them.
    pub fn borrow_blocks(&mut self, tokens: usize) -> bool {
        let mut table = Vec::new();
        let taken = self.scheduler.borrow_blocks(&mut table, tokens);
        let size = self.scheduler.blocks().block_size();
        for block in &table {
            self.kv[block.0 as usize * size..][..size].fill(None);
        }
        self.borrowed.extend(taken.then_some(table));
        self.check();
        taken
    }

    /// Gives back what was borrowed first.
    pub fn return_blocks(&mut self) {
        if !self.borrowed.is_empty() {
            self.scheduler.return_blocks(&mut self.borrowed.remove(0));
        }
        self.check();
    }

    /// One step. False when there was nothing to do.
    pub fn step(&mut self) -> bool {
        let had_work = self.scheduler.has_work();
        let batch = self.scheduler.schedule();
        if self.borrowed.is_empty() {
            assert_eq!(!batch.is_empty(), had_work, "while there is work, every step does some of it");
        }
        self.note_decisions();
        self.note_rows(&batch);
        self.check_batch(&batch);
        self.check();
        self.newest.clone_from(&batch);
        self.decisions.clone_from(self.scheduler.decisions());
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{batch:?} {:?}", self.scheduler.decisions()));
        }
        if std::mem::take(&mut self.step_fails) {
            self.fail(batch);
        } else {
            self.commit(batch);
        }
        self.check();
        self.check_ledger();
        self.steps += u64::from(had_work);
        had_work
    }

    fn commit(&mut self, batch: Batch) {
        let results = self.compute(&batch);
        let step = batch.step;
        let rows: Vec<(RequestId, usize)> = batch.rows.iter().map(|row| (row.id, row.start + row.len())).collect();
        let outcomes: Vec<Outcome> = self.scheduler.commit(batch, &results).to_vec();
        assert_eq!(outcomes.len(), results.len());
        for (id, end) in rows {
            let story = self.stories.get_mut(&id.0).expect("known");
            story.computed = end;
            story.high_water = story.high_water.max(end);
        }
        for (outcome, result) in outcomes.iter().zip(&results) {
            let id = outcome.id.0;
            let story = self.stories.get_mut(&id).expect("known");
            if let RowResult::Token { token, .. } = result {
                story.answer.push(*token);
                story.states.push(story.states[story.states.len() - 1].after(*token));
                story.token_steps.push(step);
            }
            assert_eq!(outcome.finish, self.expected_end(id, *result), "request {id}");
            if let Some(reason) = outcome.finish {
                self.end(id, reason);
            }
        }
    }

    /// A step that could not be computed: its sequences end, and nobody finds what it should have written.
    fn fail(&mut self, batch: Batch) {
        let size = self.scheduler.blocks().block_size();
        for row in &batch.rows {
            for position in row.start..row.start + row.len() {
                self.kv[slot(&batch, row, position, size)] = None;
            }
        }
        let mut rows: Vec<RequestId> = batch.rows.iter().map(|row| row.id).collect();
        let mut ended: Vec<RequestId> = self.scheduler.fail(batch).iter().map(|outcome| outcome.id).collect();
        rows.sort();
        ended.sort();
        assert_eq!(ended, rows, "who had a row ends, and nobody else");
        rows.iter().for_each(|id| self.end(id.0, FinishReason::Failed));
    }

    /// How a sequence goes on after this result, under the limits of now.
    fn expected_end(&self, id: u64, result: RowResult) -> Option<FinishReason> {
        let story = &self.stories[&id];
        let limits = self.scheduler.limits();
        let slots = self.scheduler.blocks().total() * self.scheduler.blocks().block_size();
        match result {
            RowResult::Failed => Some(FinishReason::Failed),
            RowResult::Token { token: END, .. } => Some(FinishReason::Stop),
            _ if story.answer.len() >= story.max_tokens => Some(FinishReason::Length),
            _ if story.len() < limits.max_model_len.min(slots) => None,
            _ if slots < limits.max_model_len => Some(FinishReason::KvFull),
            _ => Some(FinishReason::ContextFull),
        }
    }

    /// Steps until nothing is left; a bound far above what any fair schedule needs.
    pub fn run(&mut self) {
        while !self.borrowed.is_empty() {
            self.return_blocks();
        }
        let work: usize = self.stories.values().map(|story| story.prompt.len() + story.max_tokens + 4).sum();
        let bound = self.steps + 64 * work as u64 + 64;
        while self.step() {
            assert!(self.steps < bound, "no end after {} steps: {:?}", self.steps, self.scheduler.running());
        }
        for (id, story) in &self.stories {
            assert!(!story.is_live(), "request {id} neither ended nor was refused");
        }
        assert_eq!(self.scheduler.blocks().counts().used, 0, "all blocks came back");
    }

    fn note_preemption(&mut self, preemption: &Preemption) {
        let story = self.stories.get_mut(&preemption.id.0).expect("known");
        assert!(story.is_live() && story.user == preemption.user.0);
        assert_eq!(preemption.lost, story.computed, "what is given up is what was computed");
        story.computed = 0;
        story.taken_by.push(preemption.by);
    }

    fn note_decisions(&mut self) {
        let step = self.scheduler.step();
        let decisions = self.scheduler.decisions().clone();
        assert!(decisions.preempted.is_empty() || decisions.admitted.is_empty(), "nobody is let in in a step that preempts");
        decisions.preempted.iter().for_each(|preemption| self.note_preemption(preemption));
        for admission in &decisions.admitted {
            self.note_admission(admission, step);
        }
    }

    fn note_admission(&mut self, admission: &Admission, step: u64) {
        let story = self.stories.get_mut(&admission.id.0).expect("known");
        assert_eq!(admission.again, story.admitted_step.is_some());
        assert!(admission.cached < story.len(), "at least one token is computed");
        story.computed = admission.cached;
        story.high_water = story.high_water.max(admission.cached);
        if admission.again {
            story.cached_again.push(admission.cached);
            self.counted.hit_on_return += admission.cached as u64;
        } else {
            story.admitted_step = Some(step);
            story.cached = admission.cached;
            self.counted.asked += story.len() as u64;
            self.counted.hit += admission.cached as u64;
        }
    }

    /// Counts what is computed a second time, and on whose account.
    fn note_rows(&mut self, batch: &Batch) {
        let mut recomputed = 0;
        for row in &batch.rows {
            let story = self.stories.get_mut(&row.id.0).expect("known");
            assert_eq!(row.start, story.computed, "a row goes on where its sequence is");
            let again = story.high_water.min(row.start + row.len()).saturating_sub(row.start);
            if again > 0 {
                let by = *story.taken_by.last().expect("only who was preempted computes something again");
                *self.counted.recomputed.entry((row.user, by)).or_default() += again as u64;
                story.recomputed += again;
                recomputed += again;
            }
        }
        assert_eq!(self.scheduler.decisions().recomputed, recomputed);
        self.counted.copies += batch.copies.len() as u64;
        self.most_running = self.most_running.max(self.scheduler.running().len());
    }

    /// Writes each row's positions, then reads all that it has in its blocks, and says the next token from that.
    fn compute(&mut self, batch: &Batch) -> Vec<RowResult> {
        let size = self.scheduler.blocks().block_size();
        for copy in batch.copies.iter().filter(|_| self.plant != Some(Plant::NoCopies)) {
            let from = copy.from.0 as usize * size;
            self.kv.copy_within(from..from + size, copy.to.0 as usize * size);
        }
        let mut results = Vec::new();
        for row in &batch.rows {
            let story = &self.stories[&row.id.0];
            for (offset, token) in batch.row_tokens(row).iter().enumerate() {
                let position = row.start + offset;
                let before = match position {
                    0 => State::BEGIN,
                    _ => self.kv[slot(batch, row, position - 1, size)].expect("a position is read after it is written").1,
                };
                self.kv[slot(batch, row, position, size)] = Some((position, before.after(*token)));
            }
            let end = row.start + row.len();
            for position in 0..end {
                let expected = Some((position, story.states[position]));
                let found = self.kv[slot(batch, row, position, size)];
                assert_eq!(found, expected, "{} reads position {position} of its own text", row.id);
            }
            if row.samples {
                assert_eq!(end, story.len());
                let mut token = story.states[end - 1].says(self.ends_every);
                if self.plant == Some(Plant::WrongAfterReturn) && !story.cached_again.is_empty() {
                    token += 1;
                }
                let fails = self.fails_at.get(&row.id.0) == Some(&story.answer.len());
                results.push(if fails { RowResult::Failed } else { RowResult::Token { token, ends: token == END } });
            }
        }
        results
    }

    /// Everybody that a newest reason names, by request.
    pub fn held(&self) -> BTreeSet<u64> {
        let held = self.reasons.iter().filter(|(_, reason)| matches!(reason, Waiting::SharedPrefix { .. }));
        held.map(|(id, _)| *id).collect()
    }
}

/// Where a position of a row lies in the memory.
fn slot(batch: &Batch, row: &Row, position: usize, size: usize) -> usize {
    batch.row_blocks(row)[position / size].0 as usize * size + position % size
}
