//! A model made of hash sums and a KV memory made of plain entries: what a block holds can be checked, and a
//! sequence's tokens depend on everything that it should have in its blocks.

use std::collections::{BTreeMap, HashMap};

use batchroom::batch::{Batch, BlockId, RequestId, UserId};
use batchroom::scheduler::{
    BlockManager, FinishReason, Limits, Outcome, Refused, Request, RowResult, Scheduler, Stage, blocks_for,
};

/// The token that ends an answer.
pub const END: u32 = 0;

/// splitmix64 (Steele, Lea, Flood 2014): a seeded stream for workloads and a mixer for the model.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In `low..=high`.
    pub fn range(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low + 1) as u64) as usize
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// What the model says after these tokens: one in `ends_every` answers ends at each token.
pub fn next_token(tokens: impl Iterator<Item = u32>, ends_every: u64) -> u32 {
    let mut random = Random(0xBA7C);
    for token in tokens {
        random.0 ^= u64::from(token).wrapping_mul(0x100_0000_01B3);
        random.next();
    }
    if ends_every > 0 && random.next().is_multiple_of(ends_every) { END } else { 1 + (random.next() % 30_000) as u32 }
}

/// An answer computed alone, with all the memory in the world.
pub fn alone(prompt: &[u32], max_tokens: usize, max_len: usize, ends_every: u64) -> (Vec<u32>, FinishReason) {
    let mut tokens = prompt.to_vec();
    loop {
        let token = next_token(tokens.iter().copied(), ends_every);
        tokens.push(token);
        let generated = tokens.len() - prompt.len();
        let reason = if token == END {
            FinishReason::Stop
        } else if generated >= max_tokens {
            FinishReason::Length
        } else if tokens.len() >= max_len {
            FinishReason::ContextFull
        } else {
            continue;
        };
        return (tokens.split_off(prompt.len()), reason);
    }
}

/// How one request went.
#[derive(Clone, Debug, Default)]
pub struct Story {
    pub prompt: Vec<u32>,
    pub max_tokens: usize,
    pub answer: Vec<u32>,
    /// The step of each token of the answer.
    pub token_steps: Vec<u64>,
    pub submitted_step: u64,
    pub admitted_step: Option<u64>,
    pub preemptions: u32,
    pub end: Option<FinishReason>,
    pub refused: Option<Refused>,
}

/// A scheduler with the fake model behind it; checks every invariant after every act.
pub struct Room {
    pub scheduler: Scheduler,
    pub stories: BTreeMap<u64, Story>,
    /// Contents of each block's slots: position and token.
    kv: HashMap<(BlockId, usize), (usize, u32)>,
    pub ends_every: u64,
    /// Sequences that fail at their n-th token.
    pub fails_at: HashMap<u64, usize>,
    pub trace: Vec<String>,
    pub steps: u64,
    pub most_running: usize,
}

impl Room {
    pub fn new(limits: Limits, blocks: usize, block_size: usize, ends_every: u64) -> Room {
        let scheduler = Scheduler::new(limits, BlockManager::new(blocks, block_size)).expect("valid limits");
        Room {
            scheduler,
            stories: BTreeMap::new(),
            kv: HashMap::new(),
            ends_every,
            fails_at: HashMap::new(),
            trace: Vec::new(),
            steps: 0,
            most_running: 0,
        }
    }

    pub fn submit(&mut self, id: u64, user: u32, prompt: Vec<u32>, max_tokens: usize) {
        let mut story = Story { prompt: prompt.clone(), max_tokens, submitted_step: self.scheduler.step(), ..Story::default() };
        let queue = self.scheduler.num_waiting();
        match self.scheduler.submit(Request::new(RequestId(id), UserId(user), prompt, max_tokens)) {
            Ok(ahead) => assert_eq!(ahead, queue),
            Err(refused) => story.refused = Some(refused),
        }
        assert!(self.stories.insert(id, story).is_none(), "ids are not used twice");
        self.check();
    }

    pub fn cancel(&mut self, id: u64) {
        let live = self.stories.get(&id).is_some_and(|story| story.end.is_none() && story.refused.is_none());
        let found = self.scheduler.cancel(RequestId(id));
        assert_eq!(found.is_some(), live, "a cancel finds exactly what is live");
        if found.is_some() {
            self.stories.get_mut(&id).expect("live").end = Some(FinishReason::Cancelled);
        }
        self.check();
    }

    /// One step. False when there was nothing to do.
    pub fn step(&mut self) -> bool {
        let had_work = self.scheduler.has_work();
        let batch = self.scheduler.schedule();
        assert_eq!(!batch.is_empty(), had_work, "while there is work, every step does some of it");
        self.most_running = self.most_running.max(self.scheduler.running().len());
        Checked { scheduler: &self.scheduler }.check_batch(&batch);
        self.check();
        self.note_decisions();
        let results: Vec<RowResult> = self.compute(&batch);
        self.trace.push(format!("{batch:?} {:?}", self.scheduler.decisions()));
        let step = batch.step;
        let outcomes: Vec<Outcome> = self.scheduler.commit(batch, &results).to_vec();
        assert_eq!(outcomes.len(), results.len());
        for (outcome, result) in outcomes.iter().zip(&results) {
            let story = self.stories.get_mut(&outcome.id.0).expect("known");
            if let RowResult::Token { token, .. } = result {
                story.answer.push(*token);
                story.token_steps.push(step);
            }
            story.end = outcome.finish;
        }
        self.check();
        if had_work {
            self.steps += 1;
        }
        had_work
    }

    /// Steps until nothing is left; a bound far above what any fair schedule needs.
    pub fn run(&mut self) {
        let work: usize = self.stories.values().map(|story| story.prompt.len() + story.max_tokens + 4).sum();
        let bound = self.steps + 64 * work as u64 + 64;
        while self.step() {
            assert!(self.steps < bound, "no end after {} steps: {:?}", self.steps, self.scheduler.running());
        }
        for (id, story) in &self.stories {
            assert!(story.end.is_some() || story.refused.is_some(), "request {id} neither ended nor was refused");
        }
        assert_eq!(self.scheduler.blocks().counts().used, 0, "all blocks came back");
    }

    fn note_decisions(&mut self) {
        let step = self.scheduler.step();
        let decisions = self.scheduler.decisions();
        if !decisions.preempted.is_empty() {
            assert!(decisions.admitted.is_empty(), "nobody is let in in a step that preempts");
        }
        for preemption in &decisions.preempted {
            self.stories.get_mut(&preemption.id.0).expect("known").preemptions += 1;
        }
        for admission in &decisions.admitted {
            let story = self.stories.get_mut(&admission.id.0).expect("known");
            assert_eq!(admission.again, story.admitted_step.is_some());
            story.admitted_step.get_or_insert(step);
        }
    }

    /// Reads each row's past from its blocks, writes its new positions, and says the next token from what it read.
    fn compute(&mut self, batch: &Batch) -> Vec<RowResult> {
        let block_size = self.scheduler.blocks().block_size();
        for copy in &batch.copies {
            for slot in 0..block_size {
                match self.kv.get(&(copy.from, slot)).copied() {
                    Some(entry) => self.kv.insert((copy.to, slot), entry),
                    None => self.kv.remove(&(copy.to, slot)),
                };
            }
        }
        let mut results = Vec::new();
        for row in &batch.rows {
            let table = batch.row_blocks(row);
            let story = &self.stories[&row.id.0];
            let known: Vec<u32> = story.prompt.iter().chain(&story.answer).copied().collect();
            for (offset, token) in batch.row_tokens(row).iter().enumerate() {
                let position = row.start + offset;
                assert_eq!(*token, known[position], "a row computes its own tokens");
                self.kv.insert((table[position / block_size], position % block_size), (position, *token));
            }
            if row.samples {
                let end = row.start + row.len();
                let read = (0..end).map(|position| {
                    let (at, token) = self.kv[&(table[position / block_size], position % block_size)];
                    assert_eq!(at, position, "a block holds the positions that its table says");
                    token
                });
                let token = next_token(read, self.ends_every);
                let fails = self.fails_at.get(&row.id.0) == Some(&story.answer.len());
                results.push(if fails { RowResult::Failed } else { RowResult::Token { token, ends: token == END } });
            }
        }
        results
    }

    fn check(&self) {
        Checked { scheduler: &self.scheduler }.check();
    }
}

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
        // Decodes never wait.
        for sequence in self.scheduler.running().iter().filter(|sequence| sequence.is_decoding()) {
            assert!(batch.rows.iter().any(|row| row.id == sequence.id), "{} decodes and was left out", sequence.id);
        }
    }

    /// After every act.
    pub fn check(&self) {
        let blocks = self.scheduler.blocks();
        let counts = blocks.counts();
        assert_eq!(counts.used + counts.cached + counts.free, blocks.total());
        let mut holders = vec![0; blocks.total()];
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
        let order: Vec<RequestId> =
            self.scheduler.running().iter().chain(self.scheduler.waiting()).map(|sequence| sequence.id).collect();
        assert!(order.is_sorted(), "first come, first served: {order:?}");
    }
}
