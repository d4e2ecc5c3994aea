//! Limits changed while sequences run. What is over a new limit goes back to the queue and keeps its text: nothing is
//! ever ended by a change.

use crate::batch::BlockId;

use super::block::blocks_for;
use super::prefix::ContentId;
use super::request::{InvalidLimits, Limits, Policy, TakenBy};
use super::scheduler::{Preemption, Scheduler};
use super::sequence::Sequence;

impl Scheduler {
    /// Puts new limits in force from the next step on. Between two steps only.
    ///
    /// - Fewer seats than run: the surplus is preempted, by the policy's choice, and waits for a seat.
    /// - A shorter context: whoever is longer ends with its next token, as if it had grown to the limit.
    /// - A shorter queue: who waits may stay.
    /// - Another policy sorts the queue anew; accounts of service begin at zero when it becomes fair.
    /// - Continuous or static: whoever runs goes on. Without the prefix cache everything kept is forgotten.
    ///
    /// # Errors
    /// When they contradict each other: then all is as it was.
    pub fn set_limits(&mut self, limits: Limits) -> Result<Vec<Preemption>, InvalidLimits> {
        limits.check()?;
        let old = std::mem::replace(&mut self.limits, limits);
        if limits.policy != old.policy {
            self.waiting.set_policy(limits.policy);
            if limits.policy == Policy::Fair {
                self.accounts.reset();
            }
        }
        if limits.prefix_cache != old.prefix_cache {
            self.forget_all();
        }
        self.decisions.preempted.clear();
        while self.running.len() > limits.max_num_seqs {
            let victim = self.victim();
            self.preempt(victim, TakenBy::Seats);
        }
        Ok(self.decisions.preempted.clone())
    }

    /// Makes the KV budget so many blocks, up to the capacity that there is. When more are in use, sequences are
    /// preempted by the policy's choice until it holds. Between two steps only.
    ///
    /// # Errors
    /// When there are not so many, when one live conversation alone needs more, and when more are lent (see
    /// [`Scheduler::borrow_blocks`]): then all is as it was.
    pub fn set_kv_blocks(&mut self, blocks: usize) -> Result<Vec<Preemption>, InvalidLimits> {
        if blocks == 0 {
            return Err(InvalidLimits::Zero("the number of KV blocks"));
        }
        let capacity = self.blocks.capacity();
        if blocks > capacity {
            return Err(InvalidLimits::OverCapacity { blocks, capacity });
        }
        // Room for the next token: a live sequence is always shorter than the most that one can have.
        let needs = |tokens: usize| blocks_for(tokens + 1, self.blocks.block_size());
        let longest = self.running.iter().chain(self.waiting()).max_by_key(|sequence| sequence.tokens.len());
        if let Some(longest) = longest.filter(|longest| needs(longest.tokens.len()) > blocks) {
            return Err(InvalidLimits::BelowLive { blocks, user: longest.user, needed: needs(longest.tokens.len()) });
        }
        if blocks < self.lent {
            return Err(InvalidLimits::BelowLent { blocks, lent: self.lent });
        }
        self.decisions.preempted.clear();
        while self.blocks.counts().used > blocks {
            let victim = self.victim();
            self.preempt(victim, TakenBy::KvBudget);
        }
        self.blocks.set_total(blocks);
        Ok(self.decisions.preempted.clone())
    }

    /// How many tokens of prompts a step may compute at most while somebody decodes, all prompts together: what keeps the
    /// gaps between others' tokens short. At least one, so that prompts go on.
    pub fn set_prefill_budget(&mut self, tokens: usize) {
        self.prefill_budget = tokens.max(1);
    }

    pub fn prefill_budget(&self) -> usize {
        self.prefill_budget
    }

    /// Forgets what all blocks hold. What running sequences hold is remembered anew when the cache is on.
    pub fn forget_all(&mut self) {
        self.blocks.forget_all();
        for sequence in &mut self.running {
            sequence.remembered = 0;
            sequence.content = ContentId::ROOT;
        }
    }

    /// Whether the next step has to preempt somebody, or to leave the first of the queue without blocks for which there is
    /// a seat. What is lent stands in the way then.
    pub fn is_short_of_blocks(&self) -> bool {
        let lacking = |sequence: &Sequence| self.blocks.lacking(&sequence.table, sequence.tokens.len());
        let decodes: usize = self.running.iter().map(lacking).sum();
        let seat = self.running.len() < self.limits.max_num_seqs;
        let first = self.waiting.first(&self.accounts).filter(|_| seat).map_or(0, lacking);
        decodes + first > self.blocks.num_available()
    }

    /// Takes blocks for something that is no sequence, enough for `tokens` positions. False when they cannot be had.
    pub fn borrow_blocks(&mut self, table: &mut Vec<BlockId>, tokens: usize) -> bool {
        let before = table.len();
        let grown = self.blocks.grow(table, tokens);
        self.lent += table.len() - before;
        grown
    }

    /// Gives back what was borrowed.
    pub fn return_blocks(&mut self, table: &mut Vec<BlockId>) {
        self.lent -= table.len();
        self.blocks.release(table);
    }
}
