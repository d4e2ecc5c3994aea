//! What must be true after every act, and of every batch.

use std::collections::{BTreeMap, HashMap};

use batchroom::batch::{Batch, BlockId, RequestId, UserId};
use batchroom::scheduler::{Policy, Refused, Stage, TakenBy, Waiting, blocks_for};

use crate::harness::{Room, Story};
use crate::model::alone;

impl Room {
    pub fn check(&self) {
        self.check_blocks();
        self.check_running();
        self.check_waiting();
    }

    /// `used + cached + free = total`, and references are the tables that hold a block.
    fn check_blocks(&self) {
        let blocks = self.scheduler.blocks();
        let counts = blocks.counts();
        assert_eq!(counts.used + counts.cached + counts.free, blocks.total());
        assert!(blocks.total() <= blocks.capacity());
        let mut holders = vec![0; blocks.capacity()];
        let tables = self.scheduler.running().iter().map(|sequence| &sequence.table).chain(&self.borrowed);
        tables.flatten().for_each(|block| holders[block.0 as usize] += 1);
        for (block, holders) in holders.iter().enumerate() {
            assert_eq!(blocks.references(BlockId(block as u32)), *holders, "references are the tables that hold block {block}");
        }
        assert_eq!(counts.used, holders.iter().filter(|holders| **holders > 0).count());
        let next: Vec<BlockId> = blocks.next_blocks().collect();
        assert_eq!(next.len(), counts.free + counts.cached);
        assert!(next.iter().all(|block| holders[block.0 as usize] == 0), "what is handed out next is nobody's");
        assert!(self.scheduler.limits().prefix_cache || counts.cached == 0, "without a cache nothing is kept");
    }

    fn check_running(&self) {
        let size = self.scheduler.blocks().block_size();
        assert!(self.scheduler.running().len() <= self.scheduler.limits().max_num_seqs);
        for sequence in self.scheduler.running() {
            assert!(sequence.table.len() >= blocks_for(sequence.num_computed, size));
            assert!(sequence.table.len() <= blocks_for(sequence.tokens.len(), size), "nobody holds more than it needs");
            assert!(sequence.remaining() > 0 && sequence.stage == Stage::Running);
            assert!(sequence.tokens.len() < self.scheduler.blocks().total() * size, "there is room for its next token");
            let story = &self.stories[&sequence.id.0];
            assert!(story.is_live() && story.tokens().eq(sequence.tokens.iter().copied()));
        }
    }

    fn check_waiting(&self) {
        let mut preempted = 0;
        for sequence in self.scheduler.waiting() {
            assert!(sequence.table.is_empty() && sequence.num_computed == 0 && sequence.stage != Stage::Running);
            let story = &self.stories[&sequence.id.0];
            assert!(story.is_live() && story.tokens().eq(sequence.tokens.iter().copied()), "who waits keeps its text");
            assert_eq!(sequence.stage == Stage::Preempted, story.admitted_step.is_some());
            preempted += usize::from(sequence.stage == Stage::Preempted);
        }
        let live = self.stories.values().filter(|story| story.is_live()).count();
        assert_eq!(live, self.scheduler.running().len() + self.scheduler.num_waiting());
        assert!(preempted <= self.scheduler.num_waiting());
        if self.in_order {
            let live = self.scheduler.running().iter().chain(self.scheduler.waiting());
            let order: Vec<RequestId> = live.map(|sequence| sequence.id).collect();
            assert!(order.is_sorted(), "first come, first served: {order:?}");
        }
        if self.scheduler.limits().policy == Policy::Priority {
            assert!(self.scheduler.waiting().map(|sequence| -sequence.priority).is_sorted(), "the highest priority first");
        }
    }

    pub fn check_batch(&mut self, batch: &Batch) {
        let limits = *self.scheduler.limits();
        assert!(batch.tokens.len() <= limits.max_num_batched_tokens, "token budget");
        assert!(batch.rows.len() <= limits.max_num_seqs, "seats");
        let block_size = self.scheduler.blocks().block_size();
        let mut written: HashMap<BlockId, RequestId> = HashMap::new();
        let mut rows = HashMap::new();
        for row in &batch.rows {
            assert!(!row.is_empty() && row.len() <= limits.prefill_chunk.max(1));
            assert!(rows.insert(row.id, row).is_none(), "one row a sequence");
            for position in row.start..row.start + row.len() {
                let block = batch.row_blocks(row)[position / block_size];
                assert_eq!(*written.entry(block).or_insert(row.id), row.id, "no block is written by two");
                assert_eq!(self.scheduler.blocks().references(block), 1, "no shared block is written");
            }
        }
        for copy in &batch.copies {
            assert_eq!(self.scheduler.blocks().references(copy.to), 1, "a copy has one holder");
            assert!(self.scheduler.blocks().references(copy.from) > 0, "and somebody holds what it is made of");
            assert!(written.contains_key(&copy.to), "it is made in the step that writes in it");
        }
        // Decodes never wait, and prompts take what they leave.
        let admitted = |id: RequestId| self.scheduler.decisions().admitted.iter().any(|admission| admission.id == id);
        let decoding = self.scheduler.running().iter().filter(|sequence| sequence.is_decoding() && !admitted(sequence.id));
        let mut decodes = 0;
        for sequence in decoding {
            assert!(rows.contains_key(&sequence.id), "{} decodes and was left out", sequence.id);
            decodes += 1;
        }
        let prompts = batch.tokens.len() - decodes;
        assert!(decodes == 0 || prompts <= self.scheduler.prefill_budget(), "prompts keep to their budget");
        let without = self.scheduler.running().iter().chain(self.scheduler.waiting()).map(|sequence| sequence.id);
        self.check_reasons(without.filter(|id| !rows.contains_key(id)).collect());
    }

    /// Who got nothing knows why, and nobody else.
    fn check_reasons(&mut self, without: Vec<RequestId>) {
        let reasons = self.scheduler.reasons();
        let explained: Vec<RequestId> = reasons.iter().map(|(sequence, _)| sequence.id).collect();
        assert_eq!(explained, without, "who got nothing knows why, and nobody else");
        for (sequence, reason) in &reasons {
            match reason {
                Waiting::Budget { spent_on, .. } | Waiting::PrefillBudget { spent_on, .. } => {
                    let mut users = spent_on.clone();
                    users.sort();
                    users.dedup();
                    assert_eq!(users.len(), spent_on.len(), "nobody is named twice");
                }
                Waiting::Seats { running, max_num_seqs } => assert!(running <= max_num_seqs),
                Waiting::Blocks { needed, free, watermark } => assert!(needed + watermark > *free),
                Waiting::SharedPrefix { user, tokens } => {
                    assert!(*tokens > 0 && self.scheduler.running().iter().any(|other| other.user == *user));
                }
                Waiting::Preempted { by } => assert_eq!(sequence.taken_by, Some(*by)),
                Waiting::NotYet => panic!("a step has been made, and {} was there", sequence.id),
                Waiting::Behind { ahead } => assert!(*ahead > 0 && *ahead < self.scheduler.num_waiting()),
                Waiting::PreemptionStep | Waiting::Group { .. } => {}
            }
        }
        self.reasons = reasons.into_iter().map(|(sequence, reason)| (sequence.id.0, reason)).collect();
        let held = self.held().len() as u64;
        self.counted.held += held;
        self.in_order &= held == 0;
    }

    /// The ledger says what was counted here.
    pub fn check_ledger(&self) {
        let ledger = self.scheduler.ledger();
        let counted = &self.counted;
        let recomputed: BTreeMap<(UserId, TakenBy), u64> =
            ledger.recomputed().map(|(user, by, tokens)| ((user, by), tokens)).collect();
        assert_eq!(recomputed, counted.recomputed);
        assert_eq!(ledger.recomputed_total, counted.recomputed.values().sum::<u64>());
        assert_eq!((ledger.asked, ledger.hit, ledger.hit_on_return), (counted.asked, counted.hit, counted.hit_on_return));
        assert_eq!(ledger.recomputed_others, 0);
    }

    pub fn check_refusal(&self, story: &Story, refused: &Refused) {
        let (prompt, limits, blocks) = (story.prompt.len(), self.scheduler.limits(), self.scheduler.blocks());
        match *refused {
            Refused::EmptyPrompt => assert_eq!(prompt, 0),
            Refused::PromptTooLong { max_model_len, .. } => {
                assert!(prompt + 1 > max_model_len && max_model_len == limits.max_model_len);
            }
            Refused::KvTooSmall { needed, total, .. } => {
                assert_eq!((needed, total), (blocks_for(prompt + 1, blocks.block_size()), blocks.total()));
                assert!(needed > total);
            }
            Refused::QueueFull { waiting, max_waiting } => {
                assert!(waiting >= max_waiting && max_waiting == limits.max_waiting);
                assert_eq!(waiting, self.scheduler.num_waiting());
            }
        }
    }

    /// Every answer is the one that the request gets alone, as far as it went; how it ended was checked when it did.
    pub fn check_answers(&self) {
        for (id, story) in self.stories.iter().filter(|(_, story)| story.refused.is_none()) {
            let (expected, _) = alone(&story.prompt, story.max_tokens, usize::MAX, self.ends_every);
            assert!(expected.starts_with(&story.answer), "request {id}, preempted {} times", story.preemptions());
        }
    }
}
