//! Invariants that need the scheduler alone, whoever drives it.

use std::collections::HashMap;

use batchroom::batch::{Batch, BlockId, RequestId};
use batchroom::scheduler::{Scheduler, Stage, blocks_for};

/// What must be true of a scheduler, whoever drives it.
pub struct Checked<'a> {
    pub scheduler: &'a Scheduler,
}

impl Checked<'_> {
    /// Of a batch that has not been committed yet.
    pub fn check_batch(&self, batch: &Batch) {
        let limits = *self.scheduler.limits();
        assert!(batch.tokens.len() <= limits.max_num_batched_tokens, "token budget");
        assert!(batch.rows.len() <= limits.max_num_seqs, "seats");
        let block_size = self.scheduler.blocks().block_size();
        let mut written: HashMap<BlockId, RequestId> = HashMap::new();
        for row in &batch.rows {
            assert!(!row.is_empty() && row.len() <= limits.prefill_chunk.max(1));
            assert_eq!(batch.rows.iter().filter(|other| other.id == row.id).count(), 1, "one row a sequence");
            for position in row.start..row.start + row.len() {
                let block = batch.row_blocks(row)[position / block_size];
                assert_eq!(*written.entry(block).or_insert(row.id), row.id, "no block is written by two");
                assert_eq!(self.scheduler.blocks().references(block), 1, "no shared block is written");
            }
        }
        let served = |id| batch.rows.iter().any(|row| row.id == id);
        let live = self.scheduler.running().iter().chain(self.scheduler.waiting()).map(|sequence| sequence.id);
        let without: Vec<RequestId> = live.filter(|id| !served(*id)).collect();
        let explained: Vec<RequestId> = self.scheduler.reasons().iter().map(|(sequence, _)| sequence.id).collect();
        assert_eq!(explained, without, "who got nothing knows why, and nobody else");
        // Decodes never wait; but who comes back into a static group may have to be let in before it has a token.
        let let_in = |id| self.scheduler.decisions().admitted.iter().any(|admission| admission.id == id);
        let decoding = self.scheduler.running().iter().filter(|sequence| sequence.is_decoding() && !let_in(sequence.id));
        for sequence in decoding {
            assert!(batch.rows.iter().any(|row| row.id == sequence.id), "{} decodes and was left out", sequence.id);
        }
    }

    /// After every act.
    pub fn check(&self) {
        let blocks = self.scheduler.blocks();
        let counts = blocks.counts();
        assert_eq!(counts.used + counts.cached + counts.free, blocks.total());
        let mut holders = vec![0; blocks.capacity()];
        for sequence in self.scheduler.running() {
            sequence.table.iter().for_each(|block| holders[block.0 as usize] += 1);
            assert!(sequence.table.len() >= blocks_for(sequence.num_computed, blocks.block_size()));
            assert!(sequence.remaining() > 0 && sequence.stage == Stage::Running);
            assert!(sequence.tokens.len() < self.scheduler.max_sequence_len());
        }
        for (block, holders) in holders.iter().enumerate() {
            assert_eq!(blocks.references(BlockId(block as u32)), *holders, "references equal the tables that hold block {block}");
        }
        assert_eq!(counts.used, holders.iter().filter(|holders| **holders > 0).count());
        let limits = self.scheduler.limits();
        assert!(self.scheduler.running().len() <= limits.max_num_seqs);
        let preempted = self.scheduler.waiting().filter(|sequence| sequence.stage == Stage::Preempted).count();
        assert!(self.scheduler.num_waiting() - preempted <= limits.max_waiting);
        for sequence in self.scheduler.waiting() {
            assert!(sequence.table.is_empty() && sequence.num_computed == 0 && sequence.stage != Stage::Running);
        }
    }
}
