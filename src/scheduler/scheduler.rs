//! The scheduler: submit, cancel, schedule, commit.

use std::collections::VecDeque;

use crate::batch::{Batch, RequestId, Row, RowKind, UserId};

use super::block::{BlockManager, blocks_for};
use super::request::{FinishReason, InvalidLimits, Limits, Refused, Request, Waiting};
use super::sequence::{Sequence, Stage};

/// A sequence let into the batch in the newest step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    pub id: RequestId,
    pub user: UserId,
    pub blocks: usize,
    /// It was in the batch before and had been preempted.
    pub again: bool,
}

/// A sequence whose blocks were taken in the newest step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preemption {
    pub id: RequestId,
    pub user: UserId,
    /// Whose need took them; None when the sequence itself ran short.
    pub by: Option<UserId>,
    /// Positions that will have to be computed a second time.
    pub recompute: usize,
}

/// What `schedule` decided beside the batch itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    pub admitted: Vec<Admission>,
    pub preempted: Vec<Preemption>,
    /// Positions of the newest batch that had been computed before and were lost to a preemption.
    pub recomputed: usize,
}

/// What came of a row that wanted a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowResult {
    /// `ends`: it is an end-of-generation token, or completes a stop string.
    Token { token: u32, ends: bool },
    /// No token can be had for this sequence; only it ends.
    Failed,
}

/// What `commit` did with a row that wanted a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub id: RequestId,
    pub finish: Option<FinishReason>,
}

/// Continuous batching with paged KV, chunked prefill and preemption by recompute (Orca, OSDI 2022; vLLM,
/// SOSP 2023; Sarathi-Serve, OSDI 2024), first come first served.
///
/// `running` is always in order of arrival: the queue is (preempted sequences return to its front, and the
/// victim is always the youngest), and nobody overtakes.
#[derive(Clone, Debug)]
pub struct Scheduler {
    limits: Limits,
    blocks: BlockManager,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    step: u64,
    decisions: Decisions,
    outcomes: Vec<Outcome>,
    /// Index into `running` of each row of the batch that is out.
    slots: Vec<usize>,
    /// The buffers of the batch committed last, to be used again.
    spare: Batch,
}

impl Scheduler {
    pub fn new(limits: Limits, blocks: BlockManager) -> Result<Scheduler, InvalidLimits> {
        limits.check()?;
        if blocks.total() == 0 {
            return Err(InvalidLimits::Zero("the number of KV blocks"));
        }
        Ok(Scheduler {
            limits,
            blocks,
            waiting: VecDeque::new(),
            running: Vec::new(),
            step: 0,
            decisions: Decisions::default(),
            outcomes: Vec::new(),
            slots: Vec::new(),
            spare: Batch::default(),
        })
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn blocks(&self) -> &BlockManager {
        &self.blocks
    }

    /// The newest step's number; 0 before the first.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// In order of arrival.
    pub fn running(&self) -> &[Sequence] {
        &self.running
    }

    /// In the order in which they will be let in.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = &Sequence> {
        self.waiting.iter()
    }

    pub fn has_work(&self) -> bool {
        !self.running.is_empty() || !self.waiting.is_empty()
    }

    /// What the newest `schedule` decided.
    pub fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    /// The sequence behind a row of the batch that is out, by the row's index.
    pub fn sequence_of_row(&self, row: usize) -> &Sequence {
        &self.running[self.slots[row]]
    }

    /// Tokens that one sequence can have at most: the context, or the whole KV memory if that is smaller. A lone
    /// sequence ends here instead of preempting itself for ever.
    pub fn max_sequence_len(&self) -> usize {
        self.limits.max_model_len.min(self.blocks.total().saturating_mul(self.blocks.block_size()))
    }

    /// Puts a request at the end of the queue and says how many are before it; refuses what can never run, and
    /// what finds the queue full.
    pub fn submit(&mut self, request: Request) -> Result<usize, Refused> {
        let prompt = request.prompt.len();
        if prompt == 0 {
            return Err(Refused::EmptyPrompt);
        }
        if prompt + 1 > self.limits.max_model_len {
            return Err(Refused::PromptTooLong { prompt, max_model_len: self.limits.max_model_len });
        }
        let needed = blocks_for(prompt + 1, self.blocks.block_size());
        if needed > self.blocks.total() {
            return Err(Refused::KvTooSmall { prompt, needed, total: self.blocks.total() });
        }
        let waiting = self.waiting.len();
        if waiting >= self.limits.max_waiting {
            return Err(Refused::QueueFull { waiting, max_waiting: self.limits.max_waiting });
        }
        self.waiting.push_back(Sequence::new(request));
        Ok(waiting)
    }

    /// Takes a sequence out, whatever it is doing, and gives its blocks back. None when there is no such one
    /// (any more), which is no error: it may just have ended.
    pub fn cancel(&mut self, id: RequestId) -> Option<Sequence> {
        if let Some(at) = self.waiting.iter().position(|sequence| sequence.id == id) {
            return self.waiting.remove(at);
        }
        let at = self.running.iter().position(|sequence| sequence.id == id)?;
        let mut sequence = self.running.remove(at);
        self.blocks.release(&mut sequence.table);
        Some(sequence)
    }

    /// Decides the next step. An empty batch means that there is nothing to do. Each batch is committed before
    /// the next is asked for.
    pub fn schedule(&mut self) -> Batch {
        self.decisions.admitted.clear();
        self.decisions.preempted.clear();
        self.decisions.recomputed = 0;
        self.slots.clear();
        let mut batch = std::mem::take(&mut self.spare);
        batch.clear();
        if !self.has_work() {
            return batch;
        }
        self.step += 1;
        batch.step = self.step;

        self.make_room_for_decodes();
        let mut budget = self.limits.max_num_batched_tokens;
        // Decodes first: a prompt takes only what they leave.
        for at in 0..self.running.len() {
            if self.running[at].is_decoding() {
                self.put_row(&mut batch, at, 1);
                budget -= 1;
            }
        }
        for at in 0..self.running.len() {
            if !self.running[at].is_decoding() {
                let tokens = self.running[at].remaining().min(self.limits.prefill_chunk).min(budget);
                if tokens > 0 {
                    self.put_row(&mut batch, at, tokens);
                    budget -= tokens;
                }
            }
        }
        self.admit(&mut batch, &mut budget);
        self.say_why(&batch, budget);
        batch
    }

    /// Every decoding sequence gets the block that its new token needs, oldest first; when there is none, the
    /// youngest running sequence gives up all of its blocks.
    fn make_room_for_decodes(&mut self) {
        let mut at = 0;
        while at < self.running.len() {
            let tokens = self.running[at].tokens.len();
            let asker = self.running[at].user;
            while !self.blocks.grow(&mut self.running[at].table, tokens) {
                let itself = self.running.len() - 1 == at;
                self.preempt_youngest((!itself).then_some(asker));
                if itself {
                    return;
                }
            }
            at += 1;
        }
    }

    fn preempt_youngest(&mut self, by: Option<UserId>) {
        let mut victim = self.running.pop().expect("a sequence that asks for a block is running");
        self.blocks.release(&mut victim.table);
        self.decisions.preempted.push(Preemption { id: victim.id, user: victim.user, by, recompute: victim.num_computed });
        victim.num_computed = 0;
        victim.stage = Stage::Preempted;
        victim.preemptions += 1;
        victim.waiting = Some(Waiting::PreemptedBy { by });
        self.waiting.push_front(victim);
    }

    /// Lets waiting sequences in, first come first served, while there are seats, budget and blocks for the whole
    /// of their tokens. Nobody is let in in a step in which somebody was preempted.
    fn admit(&mut self, batch: &mut Batch, budget: &mut usize) {
        if !self.decisions.preempted.is_empty() {
            return;
        }
        while *budget > 0 && self.running.len() < self.limits.max_num_seqs {
            let Some(front) = self.waiting.front() else { return };
            let needed = blocks_for(front.tokens.len(), self.blocks.block_size());
            if needed + self.watermark() > self.blocks.num_free() {
                return;
            }
            let mut sequence = self.waiting.pop_front().expect("just seen");
            let fits = self.blocks.grow(&mut sequence.table, sequence.tokens.len());
            assert!(fits, "free blocks were counted");
            self.decisions.admitted.push(Admission {
                id: sequence.id,
                user: sequence.user,
                blocks: needed,
                again: sequence.stage == Stage::Preempted,
            });
            sequence.stage = Stage::Running;
            let tokens = sequence.remaining().min(self.limits.prefill_chunk).min(*budget);
            self.running.push(sequence);
            self.put_row(batch, self.running.len() - 1, tokens);
            *budget -= tokens;
        }
    }

    /// Kept free for the decodes of others; with no others there is nobody to keep it for.
    fn watermark(&self) -> usize {
        if self.running.is_empty() { 0 } else { self.limits.watermark }
    }

    fn put_row(&mut self, batch: &mut Batch, at: usize, tokens: usize) {
        let sequence = &mut self.running[at];
        let start = sequence.num_computed;
        let end = start + tokens;
        debug_assert!(sequence.table.len() * self.blocks.block_size() >= end, "blocks come before tokens");
        let kind = if sequence.is_decoding() { RowKind::Decode } else { RowKind::Prefill };
        let (first_token, first_block) = (batch.tokens.len(), batch.blocks.len());
        batch.tokens.extend_from_slice(&sequence.tokens[start..end]);
        batch.blocks.extend_from_slice(&sequence.table);
        batch.rows.push(Row {
            id: sequence.id,
            user: sequence.user,
            start,
            tokens: first_token..batch.tokens.len(),
            blocks: first_block..batch.blocks.len(),
            kind,
            samples: end == sequence.tokens.len(),
        });
        self.decisions.recomputed += sequence.high_water.min(end).saturating_sub(start);
        self.slots.push(at);
        sequence.waiting = None;
    }

    /// Notes, for everyone who got nothing in this step, why.
    fn say_why(&mut self, batch: &Batch, budget: usize) {
        let limits = self.limits;
        let spent_on = || {
            let mut users: Vec<UserId> = batch.rows.iter().map(|row| row.user).collect();
            users.dedup();
            users
        };
        let budget_gone = || Waiting::Budget { max_num_batched_tokens: limits.max_num_batched_tokens, spent_on: spent_on() };
        for sequence in &mut self.running {
            // Only a prompt can be passed over: decodes have their place reserved.
            if !batch.rows.iter().any(|row| row.id == sequence.id) {
                sequence.waiting = Some(budget_gone());
            }
        }
        let running = self.running.len();
        let (free, watermark, block_size) = (self.blocks.num_free(), self.watermark(), self.blocks.block_size());
        let someone_preempted = !self.decisions.preempted.is_empty();
        let victims: Vec<RequestId> = self.decisions.preempted.iter().map(|preemption| preemption.id).collect();
        for (ahead, sequence) in self.waiting.iter_mut().enumerate() {
            if victims.contains(&sequence.id) {
                continue;
            }
            sequence.waiting = Some(if ahead > 0 {
                Waiting::Behind { ahead }
            } else if someone_preempted {
                Waiting::PreemptionStep
            } else if running >= limits.max_num_seqs {
                Waiting::Seats { running, max_num_seqs: limits.max_num_seqs }
            } else if budget == 0 {
                budget_gone()
            } else {
                Waiting::Blocks { needed: blocks_for(sequence.tokens.len(), block_size), free, watermark }
            });
        }
    }

    /// Takes the results of a batch: one for each row with `samples`, in row order. Gives back one outcome for
    /// each of those rows whose sequence is still there; finished sequences are gone and their blocks free.
    pub fn commit(&mut self, batch: Batch, results: &[RowResult]) -> &[Outcome] {
        assert_eq!(results.len(), batch.num_sampled(), "one result for each row that wants a token");
        self.outcomes.clear();
        let max_len = self.max_sequence_len();
        let full = if max_len < self.limits.max_model_len { FinishReason::KvFull } else { FinishReason::ContextFull };
        let mut results = results.iter();
        for (row, &slot) in batch.rows.iter().zip(&self.slots) {
            let result = if row.samples { results.next() } else { None };
            // A cancel since `schedule` may have moved or removed it.
            let at = match self.running.get(slot) {
                Some(sequence) if sequence.id == row.id => slot,
                _ => match self.running.iter().position(|sequence| sequence.id == row.id) {
                    Some(at) => at,
                    None => continue,
                },
            };
            let sequence = &mut self.running[at];
            sequence.num_computed = row.start + row.len();
            sequence.high_water = sequence.high_water.max(sequence.num_computed);
            if let Some(result) = result {
                self.outcomes.push(Outcome { id: row.id, finish: take_result(sequence, *result, max_len, full) });
            }
        }
        self.remove_finished();
        self.spare = batch;
        &self.outcomes
    }

    fn remove_finished(&mut self) {
        for outcome in self.outcomes.iter().filter(|outcome| outcome.finish.is_some()) {
            let at = self.running.iter().position(|sequence| sequence.id == outcome.id).expect("it had a row in this step");
            let mut sequence = self.running.remove(at);
            self.blocks.release(&mut sequence.table);
        }
    }
}

/// The token of a row, and whether it was the last: `full` is what has no more room at `max_len` tokens.
fn take_result(sequence: &mut Sequence, result: RowResult, max_len: usize, full: FinishReason) -> Option<FinishReason> {
    let (token, ends) = match result {
        RowResult::Failed => return Some(FinishReason::Failed),
        RowResult::Token { token, ends } => (token, ends),
    };
    sequence.tokens.push(token);
    if ends {
        Some(FinishReason::Stop)
    } else if sequence.num_generated() >= sequence.max_tokens {
        Some(FinishReason::Length)
    } else if sequence.tokens.len() >= max_len {
        Some(full)
    } else {
        None
    }
}
