//! Who is let into the batch.

use crate::batch::{Batch, BlockCopy, BlockId, UserId};

use super::block::blocks_for;
use super::prefix::ContentId;
use super::reasons::Stop;
use super::request::{Mode, Waiting};
use super::scheduler::{Admission, Budget, Scheduler};
use super::sequence::{Sequence, Stage};

/// What a sequence would find in KV memory if it were let in now.
struct Start {
    /// Positions that are there already.
    cached: usize,
    /// Of those, so many remembered blocks, and the name of what the last holds.
    remembered: usize,
    content: ContentId,
    /// A block of somebody else's that holds the first positions of the next one of its own.
    copy: Option<BlockId>,
    /// Blocks to be taken from those that can be had: new ones, and shared ones that nobody holds now.
    taken: usize,
}

impl Scheduler {
    /// Lets waiting sequences in, in the policy's order, while there are seats, budget, and blocks for the whole of their
    /// tokens: nobody overtakes who stands before them. Nobody is let in in a step in which somebody was preempted.
    ///
    /// One exception to the order: who would compute the same as somebody who is computing it at this moment waits until
    /// that can be shared, keeps seat and blocks reserved, and lets others pass.
    pub(super) fn admit(&mut self, batch: &mut Batch, budget: &mut Budget) {
        self.stop = Stop { budget_left: budget.tokens, prefill_left: budget.prefill, ..Stop::default() };
        let mut held = Vec::new();
        let mut reserved = 0;
        let group_runs = self.limits.mode == Mode::Static && !self.running.is_empty();
        self.stop.head = loop {
            if self.waiting.is_empty() {
                break None;
            }
            if let Some(reason) = self.no_place(budget, held.len(), group_runs) {
                break Some(reason);
            }
            let next = if group_runs { self.waiting.pop_preempted() } else { self.waiting.pop(&self.accounts) };
            let Some(sequence) = next else { break Some(Waiting::Group { running: self.running.len() }) };
            let start = self.find_start(&sequence);
            if let Some((user, tokens)) = self.in_the_making(&sequence, start.cached) {
                reserved += start.taken;
                self.stop.held.push((sequence.id, user, tokens));
                held.push(sequence);
                continue;
            }
            let watermark = if self.running.is_empty() { 0 } else { self.limits.watermark };
            let free = self.blocks.num_available().saturating_sub(reserved);
            if start.taken + watermark > free {
                self.waiting.insert(sequence);
                break Some(Waiting::Blocks { needed: start.taken, free, watermark });
            }
            self.let_in(sequence, &start, batch, budget);
            (self.stop.budget_left, self.stop.prefill_left) = (budget.tokens, budget.prefill);
        };
        held.into_iter().for_each(|sequence| self.waiting.insert(sequence));
    }

    /// Why nobody at all is let in.
    fn no_place(&self, budget: &Budget, held: usize, group_runs: bool) -> Option<Waiting> {
        let limits = &self.limits;
        if !self.decisions.preempted.is_empty() {
            Some(Waiting::PreemptionStep)
        } else if self.running.len() + held >= limits.max_num_seqs {
            Some(Waiting::Seats { running: self.running.len(), max_num_seqs: limits.max_num_seqs })
        } else if limits.mode == Mode::Static && !group_runs {
            // A group is formed at once, whether or not this step can compute something for each.
            None
        } else if budget.tokens == 0 {
            Some(Waiting::Budget { max_num_batched_tokens: limits.max_num_batched_tokens, spent_on: Vec::new() })
        } else if budget.prefill == 0 {
            Some(Waiting::PrefillBudget { tokens: self.prefill_budget, spent_on: Vec::new() })
        } else {
            None
        }
    }

    /// Looks for the beginning of a sequence: in the block table of the running one that it is a fork of, and in the
    /// prefix cache. The blocks to be shared are left in `found`.
    fn find_start(&mut self, sequence: &Sequence) -> Start {
        let block_size = self.blocks.block_size();
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let content = match self.limits.prefix_cache {
            true => self.blocks.cached_prefix(&sequence.tokens, &mut found),
            false => ContentId::ROOT,
        };
        let mut start = Start { cached: found.len() * block_size, remembered: found.len(), content, copy: None, taken: 0 };
        let origin = sequence.fork_of.and_then(|origin| self.running.iter().find(|other| other.id == origin));
        if let Some(origin) = origin {
            let common = common_prefix(&origin.tokens[..origin.num_computed], &sequence.tokens[..sequence.tokens.len() - 1]);
            if common > start.cached {
                let whole = common / block_size;
                found.extend_from_slice(&origin.table[found.len()..whole]);
                start.cached = common;
                start.copy = (!common.is_multiple_of(block_size)).then(|| origin.table[whole]);
            }
        }
        let own = blocks_for(sequence.tokens.len(), block_size) - found.len();
        start.taken = own + found.iter().filter(|block| self.blocks.references(**block) == 0).count();
        self.found = found;
        start
    }

    /// Who is computing at this moment what this sequence would have to compute next, and how many tokens of it: of use
    /// when they are worth at least a chunk.
    fn in_the_making(&self, sequence: &Sequence, cached: usize) -> Option<(UserId, usize)> {
        if self.limits.mode == Mode::Static {
            return None;
        }
        // A fork waits for as much of its origin's prompt as is its own: to the token.
        let origin = sequence.fork_of.and_then(|origin| self.running.iter().find(|other| other.id == origin));
        if let Some(origin) = origin.filter(|origin| !origin.is_decoding()) {
            let common = common_prefix(&origin.tokens, &sequence.tokens[..sequence.tokens.len() - 1]);
            if common > origin.num_computed.max(cached) {
                return Some((origin.user, common - origin.num_computed.max(cached)));
            }
        }
        if !self.limits.prefix_cache {
            return None;
        }
        let block_size = self.blocks.block_size();
        let usable = (sequence.tokens.len() - 1) / block_size * block_size;
        let least = self.limits.prefill_chunk.min(self.limits.max_num_batched_tokens).max(block_size);
        let tokens = |other: &Sequence| {
            let common = common_prefix(&other.tokens, &sequence.tokens[..usable]) / block_size * block_size;
            common.saturating_sub(cached.max(other.num_computed))
        };
        let prefilling = self.running.iter().filter(|other| !other.is_decoding());
        prefilling.map(|other| (other.user, tokens(other))).find(|(_, tokens)| *tokens >= least)
    }

    fn let_in(&mut self, mut sequence: Sequence, start: &Start, batch: &mut Batch, budget: &mut Budget) {
        let found = std::mem::take(&mut self.found);
        self.blocks.share(&mut sequence.table, &found);
        self.found = found;
        let fits = self.blocks.grow(&mut sequence.table, sequence.tokens.len());
        assert!(fits, "blocks were counted");
        let mut cached = start.cached;
        if let Some(from) = start.copy {
            let block_size = self.blocks.block_size();
            if budget.tokens.min(budget.prefill) > 0 {
                // Copy-on-write at the very step that writes: its own block begins as the origin's.
                batch.copies.push(BlockCopy { from, to: sequence.table[cached / block_size] });
            } else {
                // In a static group, and nothing left to write with: it computes those few positions later.
                cached = cached / block_size * block_size;
            }
        }
        sequence.num_computed = cached;
        sequence.remembered = start.remembered;
        sequence.content = start.content;
        let again = sequence.stage == Stage::Preempted;
        if !again {
            sequence.cached_tokens = cached;
        }
        sequence.high_water = sequence.high_water.max(cached);
        self.ledger.admitted(sequence.tokens.len(), cached, again);
        self.decisions.admitted.push(Admission {
            id: sequence.id,
            user: sequence.user,
            blocks: sequence.table.len(),
            cached,
            again,
        });
        sequence.stage = Stage::Running;
        self.running.push(sequence);
        self.put_chunk(batch, self.running.len() - 1, budget, usize::MAX);
    }
}

fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
