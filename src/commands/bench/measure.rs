//! The sweep: the model alone, driven batch by batch over its paged KV memory.

use std::time::Instant;

use anyhow::ensure;

use crate::batch::{Batch, BlockId, RequestId, Row, RowKind, UserId};
use crate::launch::BLOCK_SIZE;
use crate::model::{Llama, ModelError, StepTimes};

/// Users at once, and different numbers of them.
pub const MAX_USERS: usize = 1024;
const MAX_POINTS: usize = 64;
/// Tokens of prompts that are computed in one forward pass.
pub const PREFILL_BATCH: usize = 512;
/// Prefill is measured so often, unless that takes longer than [`PREFILL_SECONDS`].
const PREFILL_RUNS: usize = 5;
const PREFILL_SECONDS: f64 = 2.0;

/// What is to be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Ascending, each once.
    users: Vec<usize>,
    pub prompt_tokens: usize,
    pub new_tokens: usize,
}

impl Sweep {
    /// # Errors
    /// When a number is out of range. Whether the model's context is long enough, [`Sweep::check_context`] says.
    pub fn new(users: &[usize], prompt_tokens: usize, new_tokens: usize) -> anyhow::Result<Sweep> {
        let mut users = users.to_vec();
        users.sort_unstable();
        users.dedup();
        ensure!(!users.is_empty(), "--users names nobody: give numbers such as 1,4,16");
        for count in &users {
            ensure!((1..=MAX_USERS).contains(count), "--users has {count}: it must be from 1 to {MAX_USERS}");
        }
        ensure!(users.len() <= MAX_POINTS, "--users has {} numbers: {MAX_POINTS} are the most", users.len());
        ensure!(prompt_tokens >= 1, "--prompt-tokens is 0: it must be at least 1");
        ensure!(new_tokens >= 1, "--new-tokens is 0: it must be at least 1");
        Ok(Sweep { users, prompt_tokens, new_tokens })
    }

    /// # Errors
    /// When a user's prompt and new tokens are more than the model's context.
    pub fn check_context(&self, model: &str, context: usize) -> anyhow::Result<()> {
        let (prompt, new) = (self.prompt_tokens, self.new_tokens);
        ensure!(
            prompt.checked_add(new).is_some_and(|all| all <= context),
            "--prompt-tokens {prompt} and --new-tokens {new} are more than the context of {model}, which is {context} tokens"
        );
        Ok(())
    }

    pub fn users(&self) -> &[usize] {
        &self.users
    }

    pub fn most_users(&self) -> usize {
        self.users.last().copied().unwrap_or(1)
    }

    fn prompt_blocks(&self) -> usize {
        self.prompt_tokens.div_ceil(BLOCK_SIZE)
    }

    fn blocks_each(&self) -> usize {
        (self.prompt_tokens + self.new_tokens).div_ceil(BLOCK_SIZE)
    }

    /// KV blocks that the largest number of users needs.
    pub fn blocks(&self) -> usize {
        self.most_users() * self.blocks_each()
    }

    /// Block `index` of a user: prompts lie in one piece each, blocks of new tokens by turns, as they are handed out
    /// when all begin together.
    fn block(&self, users: usize, user: usize, index: usize) -> BlockId {
        let prompt = self.prompt_blocks();
        let id = if index < prompt { user * prompt + index } else { users * prompt + (index - prompt) * users + user };
        BlockId(id as u32)
    }
}

/// Times of one number of users.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    pub users: usize,
    /// Seconds that the prompts of all users take: the median of the runs. None when there was no time for one.
    pub prefill: Option<f64>,
    /// Seconds of each decode step.
    pub steps: Vec<f64>,
    /// Where the time of all prefill runs went, and how many there were.
    pub prefill_parts: (StepTimes, usize),
    /// Where the time of all decode steps went.
    pub decode_parts: StepTimes,
}

/// The model being measured.
pub struct Bench<'a> {
    pub model: &'a mut Llama,
    pub sweep: &'a Sweep,
    /// Asked between two forward passes.
    pub stop: &'a dyn Fn() -> bool,
}

impl Bench<'_> {
    /// Once through all that will be measured: memory is touched, threads are awake.
    ///
    /// # Errors
    /// When the model fails.
    pub fn warm_up(&mut self) -> Result<(), ModelError> {
        self.prefill(1)?;
        self.decode(1, &mut Batch::default(), 0)?;
        Ok(())
    }

    /// Measures one number of users. When told to stop, what has been measured until then.
    ///
    /// # Errors
    /// When the model fails.
    pub fn point(&mut self, users: usize) -> Result<Point, ModelError> {
        let mut point = Point { users, ..Point::default() };
        let mut runs = Vec::new();
        self.model.clear_times();
        while runs.len() < PREFILL_RUNS && runs.iter().sum::<f64>() < PREFILL_SECONDS {
            let Some(seconds) = self.prefill(users)? else { return Ok(point) };
            runs.push(seconds);
        }
        point.prefill = Some(quantile(&runs, 0.5));
        point.prefill_parts = (*self.model.times(), runs.len());
        let mut batch = Batch::default();
        // Not counted: the first step of this size grows the model's buffers. It is computed once more below.
        self.decode(users, &mut batch, 0)?;
        self.model.clear_times();
        for step in 0..self.sweep.new_tokens {
            if (self.stop)() {
                break;
            }
            point.steps.push(self.decode(users, &mut batch, step)?);
        }
        point.decode_parts = *self.model.times();
        Ok(point)
    }

    /// Seconds that the forward passes over all prompts take. None when told to stop.
    fn prefill(&mut self, users: usize) -> Result<Option<f64>, ModelError> {
        let mut seconds = 0.0;
        let mut batch = Batch::default();
        let len = self.sweep.prompt_tokens;
        let all = users * len;
        for first in (0..all).step_by(PREFILL_BATCH) {
            if (self.stop)() {
                return Ok(None);
            }
            let end = all.min(first + PREFILL_BATCH);
            batch.clear();
            for user in first / len..end.div_ceil(len) {
                let (from, to) = (first.max(user * len) - user * len, end.min((user + 1) * len) - user * len);
                self.add_row(&mut batch, users, user, from, to - from, RowKind::Prefill);
            }
            seconds += self.forward(&batch)?;
        }
        Ok(Some(seconds))
    }

    /// Seconds of one decode step for everybody, at position prompt + `step`.
    fn decode(&mut self, users: usize, batch: &mut Batch, step: usize) -> Result<f64, ModelError> {
        batch.clear();
        for user in 0..users {
            self.add_row(batch, users, user, self.sweep.prompt_tokens + step, 1, RowKind::Decode);
        }
        self.forward(batch)
    }

    fn forward(&mut self, batch: &Batch) -> Result<f64, ModelError> {
        let begun = Instant::now();
        self.model.forward(batch)?;
        Ok(begun.elapsed().as_secs_f64())
    }

    fn add_row(&self, batch: &mut Batch, users: usize, user: usize, start: usize, len: usize, kind: RowKind) {
        let (tokens, blocks) = (batch.tokens.len(), batch.blocks.len());
        let vocab = self.model.vocab();
        // Which tokens makes no difference, but for their embeddings: from all over the vocabulary.
        batch.tokens.extend((start..start + len).map(|position| ((user * 10_007 + position * 7_919) % vocab) as u32));
        let needed = (start + len).div_ceil(BLOCK_SIZE);
        batch.blocks.extend((0..needed).map(|index| self.sweep.block(users, user, index)));
        batch.rows.push(Row {
            id: RequestId(user as u64),
            user: UserId(user as u32),
            start,
            tokens: tokens..batch.tokens.len(),
            blocks: blocks..batch.blocks.len(),
            kind,
            samples: kind == RowKind::Decode || start + len == self.sweep.prompt_tokens,
        });
    }
}

/// The smallest of `values` that at least this share of them does not exceed (nearest rank). NaN of none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashSet;

    use super::*;
    use crate::hub::NANO_BYTES;
    use crate::model::{GgufFile, KvType, ModelOptions};

    fn nano(sweep: &Sweep) -> Llama {
        let kv_type = KvType::default();
        let options = ModelOptions { threads: 1, kernels: None, block_size: BLOCK_SIZE, num_blocks: sweep.blocks(), kv_type };
        Llama::load(&GgufFile::from_static("nano", NANO_BYTES).unwrap(), options).unwrap()
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let error = |users: &[usize], prompt, new| Sweep::new(users, prompt, new).unwrap_err().to_string();
        assert!(error(&[1, 0], 8, 8).contains("--users has 0: it must be from 1 to 1024"));
        assert!(error(&[1025], 8, 8).contains("--users has 1025"));
        assert!(error(&[], 8, 8).contains("names nobody"));
        assert!(error(&[1], 0, 8).contains("--prompt-tokens is 0"));
        assert!(error(&[1], 8, 0).contains("--new-tokens is 0"));
        assert!(error(&(1..=65).collect::<Vec<_>>(), 8, 8).contains("64 are the most"));
        let sweep = Sweep::new(&[4, 1, 4], 1000, 25).unwrap();
        assert_eq!((sweep.users(), sweep.most_users()), ([1, 4].as_slice(), 4));
        sweep.check_context("nano", 1025).unwrap();
        let message = sweep.check_context("nano", 1024).unwrap_err().to_string();
        assert!(message.contains("--prompt-tokens 1000") && message.contains("1024"), "{message}");
        assert!(Sweep::new(&[1], usize::MAX, 2).unwrap().check_context("nano", 1024).is_err());
    }

    #[test]
    fn no_two_users_share_a_block() {
        let sweep = Sweep::new(&[5], 40, 50).unwrap();
        let blocks: HashSet<BlockId> = (0..5)
            .flat_map(|user| (0..sweep.blocks_each()).map(move |index| (user, index)))
            .map(|(user, index)| sweep.block(5, user, index))
            .collect();
        assert_eq!(blocks.len(), sweep.blocks());
        assert!(blocks.iter().all(|block| (block.0 as usize) < sweep.blocks()));
    }

    #[test]
    fn every_step_is_measured() {
        // Prompts that end inside a forward pass and inside a block.
        let sweep = Sweep::new(&[1, 3], 300, 5).unwrap();
        let mut model = nano(&sweep);
        let mut bench = Bench { model: &mut model, sweep: &sweep, stop: &|| false };
        bench.warm_up().unwrap();
        for users in [1, 3] {
            let point = bench.point(users).unwrap();
            assert_eq!((point.users, point.steps.len()), (users, 5));
            let all: f64 = point.steps.iter().sum();
            let parts = point.decode_parts.total().as_secs_f64();
            assert!(parts > 0.0 && parts <= all, "the parts are within the steps: {parts} of {all} s");
            assert!(point.prefill_parts.1 > 0 && !point.prefill_parts.0.total().is_zero());
            assert!(point.prefill.is_some_and(|seconds| seconds > 0.0) && point.steps.iter().all(|seconds| *seconds > 0.0));
        }
    }

    #[test]
    fn told_to_stop_it_gives_what_there_is() {
        let sweep = Sweep::new(&[2], 8, 50).unwrap();
        let mut model = nano(&sweep);
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() > 12
        };
        let point = Bench { model: &mut model, sweep: &sweep, stop: &stop }.point(2).unwrap();
        assert!(point.prefill.is_some() && (1..50).contains(&point.steps.len()), "{point:?}");
        let point = Bench { model: &mut model, sweep: &sweep, stop: &|| true }.point(2).unwrap();
        assert_eq!(point, Point { users: 2, ..Point::default() });
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.95, 1.0].map(|share| quantile(&values, share)), [1.0, 10.0, 19.0, 20.0]);
        assert_eq!(quantile(&[3.0], 0.95), 3.0);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
