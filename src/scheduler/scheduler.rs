//! The scheduler: submit, cancel, schedule, commit.

use crate::batch::{Batch, BlockId, RequestId, Row, RowKind, UserId};

use super::accounts::Accounts;
use super::block::{BlockManager, blocks_for};
use super::ledger::Ledger;
use super::prefix::ContentId;
use super::queue::Queue;
use super::reasons::Stop;
use super::request::{FinishReason, InvalidLimits, Limits, Policy, Refused, Request, TakenBy};
use super::sequence::{Sequence, Stage};

/// With more waiting than this a newcomer's place is not counted under the policies that let people overtake.
const EXACT_PLACES: usize = 1024;

/// A sequence let into the batch in the newest step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    pub id: RequestId,
    pub user: UserId,
    /// In its table, shared ones included.
    pub blocks: usize,
    /// Positions that were there already: a prefix hit, or shared with the origin of a fork.
    pub cached: usize,
    /// It was in the batch before and had been preempted.
    pub again: bool,
}

/// A sequence whose blocks were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preemption {
    pub id: RequestId,
    pub user: UserId,
    pub by: TakenBy,
    /// Positions that are given up. On its return it may find some of them in the cache.
    pub lost: usize,
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

/// Continuous batching with paged KV, chunked prefill, preemption by recompute and a prefix cache (Orca, OSDI 2022;
/// vLLM, SOSP 2023; Sarathi-Serve, OSDI 2024).
///
/// `running` is in the order of admission. Who is let in next and who is preempted is the policy's; under
/// [`Policy::Fcfs`] nobody overtakes, so `running` is in order of arrival as well.
#[derive(Clone, Debug)]
pub struct Scheduler {
    pub(super) limits: Limits,
    pub(super) blocks: BlockManager,
    pub(super) waiting: Queue,
    pub(super) running: Vec<Sequence>,
    pub(super) accounts: Accounts,
    pub(super) ledger: Ledger,
    pub(super) step: u64,
    pub(super) decisions: Decisions,
    /// Prompt tokens that a step may compute at most while somebody decodes.
    pub(super) prefill_budget: usize,
    /// Where admission stopped in the newest step, and what was left.
    pub(super) stop: Stop,
    arrivals: u64,
    outcomes: Vec<Outcome>,
    /// Index into `running` of each row of the batch that is out.
    slots: Vec<usize>,
    /// The buffers of the batch committed last, to be used again.
    spare: Batch,
    pub(super) found: Vec<BlockId>,
    /// Indices into `running` of prompts, while a step is decided.
    prompts: Vec<usize>,
    /// Blocks taken for something that is no sequence.
    pub(super) lent: usize,
}

/// What is left of a step while rows are put into its batch.
pub(super) struct Budget {
    /// Tokens of the whole step.
    pub tokens: usize,
    /// Of those, for prompts.
    pub prefill: usize,
}

impl Scheduler {
    pub fn new(limits: Limits, blocks: BlockManager) -> Result<Scheduler, InvalidLimits> {
        limits.check()?;
        if blocks.total() == 0 {
            return Err(InvalidLimits::Zero("the number of KV blocks"));
        }
        let mut waiting = Queue::default();
        waiting.set_policy(limits.policy);
        Ok(Scheduler {
            limits,
            blocks,
            waiting,
            running: Vec::new(),
            accounts: Accounts::default(),
            ledger: Ledger::default(),
            step: 0,
            decisions: Decisions::default(),
            prefill_budget: usize::MAX,
            stop: Stop::default(),
            arrivals: 0,
            outcomes: Vec::new(),
            slots: Vec::new(),
            spare: Batch::default(),
            found: Vec::new(),
            prompts: Vec::new(),
            lent: 0,
        })
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn blocks(&self) -> &BlockManager {
        &self.blocks
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The newest step's number; 0 before the first.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// In order of admission.
    pub fn running(&self) -> &[Sequence] {
        &self.running
    }

    /// In the order in which they will be let in, as far as that can be said beforehand.
    pub fn waiting(&self) -> impl Iterator<Item = &Sequence> {
        self.waiting.iter(&self.accounts)
    }

    pub fn num_waiting(&self) -> usize {
        self.waiting.len()
    }

    pub fn has_work(&self) -> bool {
        !self.running.is_empty() || !self.waiting.is_empty()
    }

    /// What the newest `schedule` decided.
    pub fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    /// Tokens computed so far for the user of this sequence, as the fair policy counts them.
    pub fn service(&self, sequence: &Sequence) -> u64 {
        self.accounts.service(sequence.account)
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

    /// How much of a prompt is in the prefix cache now, in tokens.
    pub fn cached_tokens(&self, prompt: &[u32]) -> usize {
        let mut found = Vec::new();
        if self.limits.prefix_cache {
            self.blocks.cached_prefix(prompt, &mut found);
        }
        found.len() * self.blocks.block_size()
    }

    /// Puts a request into the queue and says how many are before it; refuses what can never run, and what finds the
    /// queue full.
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
        self.arrivals += 1;
        let (id, account) = (request.id, self.accounts.open(request.user, self.limits.policy == Policy::Fair));
        self.waiting.insert(Sequence::new(request, self.arrivals, self.step, account));
        match self.limits.policy {
            // Further back it is not worth going through the queue: so many at most.
            _ if waiting > EXACT_PLACES => Ok(waiting),
            Policy::Fcfs => Ok(waiting),
            Policy::Fair | Policy::Priority => Ok(self.waiting().position(|sequence| sequence.id == id).unwrap_or(waiting)),
        }
    }

    /// Takes a sequence out, whatever it is doing, and gives its blocks back. None when there is no such one
    /// (any more), which is no error: it may just have ended.
    pub fn cancel(&mut self, id: RequestId) -> Option<Sequence> {
        let sequence = match self.waiting.remove(id) {
            Some(sequence) => sequence,
            None => {
                let at = self.running.iter().position(|sequence| sequence.id == id)?;
                let mut sequence = self.running.remove(at);
                self.blocks.release(&mut sequence.table);
                sequence
            }
        };
        self.accounts.close(sequence.account);
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
        let mut budget = Budget { tokens: self.limits.max_num_batched_tokens, prefill: usize::MAX };
        // Decodes first: a prompt takes only what they leave.
        for at in 0..self.running.len() {
            if self.running[at].is_decoding() {
                self.put_row(&mut batch, at, 1);
                budget.tokens -= 1;
                budget.prefill = self.prefill_budget;
            }
        }
        self.put_chunks(&mut batch, &mut budget);
        self.admit(&mut batch, &mut budget);
        batch
    }

    /// Chunks of the prompts that run. Where decodes bound them, each prompt gets its share and the next of the queue too,
    /// the nearest to its end first: one long prompt then holds nobody up.
    fn put_chunks(&mut self, batch: &mut Batch, budget: &mut Budget) {
        let mut prompts = std::mem::take(&mut self.prompts);
        prompts.clear();
        prompts.extend((0..self.running.len()).filter(|at| !self.running[*at].is_decoding()));
        let shared = budget.prefill < usize::MAX;
        if shared {
            prompts.sort_by_key(|at| self.running[*at].remaining());
        }
        let newcomer = usize::from(!self.waiting.is_empty() && self.running.len() < self.limits.max_num_seqs);
        for (before, at) in prompts.iter().enumerate() {
            let claims = prompts.len() - before + newcomer;
            let most = if shared { budget.prefill.min(budget.tokens).div_ceil(claims) } else { usize::MAX };
            self.put_chunk(batch, *at, budget, most);
        }
        self.prompts = prompts;
    }

    /// Every decoding sequence gets the block that its new token needs, in order of admission; when there is none, the
    /// policy's victim gives up all of its blocks.
    fn make_room_for_decodes(&mut self) {
        let mut at = 0;
        while at < self.running.len() {
            let tokens = self.running[at].tokens.len();
            let asker = self.running[at].user;
            if self.blocks.grow(&mut self.running[at].table, tokens) {
                at += 1;
                continue;
            }
            let victim = self.victim();
            let by = if victim == at { TakenBy::Itself } else { TakenBy::User(asker) };
            self.preempt(victim, by);
            // Those behind the victim have moved up; in the asker's own place is the next one to ask.
            at -= usize::from(victim < at);
        }
    }

    /// Whose blocks are taken next: of several, the one let in last.
    pub(super) fn victim(&self) -> usize {
        let mut running = self.running.iter().enumerate();
        let victim = match self.limits.policy {
            Policy::Fcfs => running.next_back(),
            Policy::Priority => running.min_by_key(|(at, sequence)| (sequence.priority, std::cmp::Reverse(*at))),
            Policy::Fair => running.max_by_key(|(at, sequence)| (self.accounts.service(sequence.account), *at)),
        };
        victim.expect("a sequence that asks for a block is running").0
    }

    pub(super) fn preempt(&mut self, at: usize, by: TakenBy) {
        let mut victim = self.running.remove(at);
        self.blocks.release(&mut victim.table);
        self.decisions.preempted.push(Preemption { id: victim.id, user: victim.user, by, lost: victim.num_computed });
        victim.num_computed = 0;
        victim.remembered = 0;
        victim.content = ContentId::ROOT;
        victim.stage = Stage::Preempted;
        victim.preemptions += 1;
        victim.taken_by = Some(by);
        victim.preempted_step = self.step;
        self.waiting.insert(victim);
    }

    /// As much of a prompt (or of text to be recomputed) as limits and budget leave: maybe nothing.
    pub(super) fn put_chunk(&mut self, batch: &mut Batch, at: usize, budget: &mut Budget, most: usize) {
        let chunk = self.limits.prefill_chunk.min(most);
        let tokens = self.running[at].remaining().min(chunk).min(budget.tokens).min(budget.prefill);
        if tokens > 0 {
            self.put_row(batch, at, tokens);
            budget.tokens -= tokens;
            budget.prefill -= tokens;
        }
    }

    fn put_row(&mut self, batch: &mut Batch, at: usize, tokens: usize) {
        let sequence = &mut self.running[at];
        let start = sequence.num_computed;
        let end = start + tokens;
        let block_size = self.blocks.block_size();
        debug_assert!(sequence.table.len() * block_size >= end, "blocks come before tokens");
        debug_assert!(
            sequence.table[start / block_size..end.div_ceil(block_size)].iter().all(|block| self.blocks.references(*block) == 1),
            "a shared block is never written"
        );
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
        let again = sequence.high_water.min(end).saturating_sub(start);
        if again > 0 {
            self.decisions.recomputed += again;
            self.ledger.recompute(sequence.user, sequence.taken_by.unwrap_or(TakenBy::Itself), again);
        }
        // What is computed a second time was no service.
        self.accounts.charge(sequence.account, tokens - again);
        sequence.served_step = self.step;
        self.slots.push(at);
    }

    /// Takes the results of a batch: one for each row with `samples`, in row order. Gives back one outcome for
    /// each of those rows whose sequence is still there; finished sequences are gone and their blocks free. A batch that
    /// could not be computed goes to [`Scheduler::fail`].
    pub fn commit(&mut self, batch: Batch, results: &[RowResult]) -> &[Outcome] {
        assert_eq!(results.len(), batch.num_sampled(), "one result for each row that wants a token");
        self.outcomes.clear();
        let max_len = self.max_sequence_len();
        let full = if max_len < self.limits.max_model_len { FinishReason::KvFull } else { FinishReason::ContextFull };
        let mut results = results.iter();
        let mut ended = false;
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
            // What gave no token may hold no numbers: nobody is to find it.
            if self.limits.prefix_cache && result != Some(&RowResult::Failed) {
                remember(sequence, &mut self.blocks);
            }
            if let Some(result) = result {
                let finish = take_result(sequence, *result, max_len, full);
                ended |= finish.is_some();
                self.outcomes.push(Outcome { id: row.id, finish });
            }
        }
        if ended {
            self.remove_finished();
        }
        self.spare = batch;
        &self.outcomes
    }

    /// The whole batch could not be computed: everybody who has a row in it ends, and nothing of what it would have written
    /// is remembered. Gives back one outcome for each row whose sequence is still there.
    pub fn fail(&mut self, batch: Batch) -> &[Outcome] {
        let is_live = |id: &RequestId| self.running.iter().any(|sequence| sequence.id == *id);
        let ended = batch.rows.iter().map(|row| row.id).filter(is_live);
        let ended: Vec<Outcome> = ended.map(|id| Outcome { id, finish: Some(FinishReason::Failed) }).collect();
        self.outcomes = ended;
        self.remove_finished();
        self.spare = batch;
        &self.outcomes
    }

    fn remove_finished(&mut self) {
        for outcome in self.outcomes.iter().filter(|outcome| outcome.finish.is_some()) {
            let at = self.running.iter().position(|sequence| sequence.id == outcome.id).expect("it had a row in this step");
            let mut sequence = self.running.remove(at);
            self.blocks.release(&mut sequence.table);
            self.accounts.close(sequence.account);
        }
    }
}

/// Remembers the blocks of a sequence that have become full and computed.
fn remember(sequence: &mut Sequence, blocks: &mut BlockManager) {
    let size = blocks.block_size();
    while (sequence.remembered + 1) * size <= sequence.num_computed {
        let at = sequence.remembered;
        let tokens = &sequence.tokens[at * size..(at + 1) * size];
        sequence.content = blocks.remember(sequence.table[at], sequence.content, tokens);
        sequence.remembered += 1;
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
