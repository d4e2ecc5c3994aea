//! What a simulation comes to.

use serde::Serialize;

use super::cost::StepTime;
use super::seconds;
use super::timeline::Timeline;
use crate::histogram::{Histogram, Summary};

/// The figures, as `--json` has them. Times are in seconds of virtual time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// That came. Each was completed, refused, cancelled, or is still there (`unfinished`).
    pub requests: u64,
    pub completed: u64,
    /// The queue was full, or the request can never run.
    pub refused: u64,
    /// Given up by the person (`--patience`) before the first token.
    pub cancelled: u64,
    /// Still there when the simulation was stopped.
    pub unfinished: u64,
    /// Completed before the length asked for: the context or the whole KV memory was full.
    pub cut: u64,
    pub preemptions: u64,
    /// Positions computed a second time after a preemption.
    pub recomputed_tokens: u64,
    /// Positions that were in the prefix cache and were not computed.
    pub cached_tokens: u64,
    pub peak_running: usize,
    pub peak_waiting: usize,
    /// From asking to the first token.
    pub ttft_s: Summary,
    /// From one token to the next.
    pub itl_s: Summary,
    /// From asking to being let in for the first time.
    pub queue_s: Summary,
    /// From asking to the last token.
    pub e2e_s: Summary,
    /// Tokens of answers.
    pub generated_tokens: u64,
    /// Positions of prompts that were computed, and of what was recomputed.
    pub prefill_tokens: u64,
    /// `generated_tokens` / `virtual_s`
    pub tokens_per_s: f64,
    /// `prefill_tokens` / `virtual_s`
    pub prefill_tokens_per_s: f64,
    /// Share of all KV blocks in use, over virtual time and at most.
    pub kv_use_mean: f64,
    pub kv_use_peak: f64,
    pub steps: u64,
    /// From the beginning to the end of the last step.
    pub virtual_s: f64,
    /// Share of virtual time in which there was a step, and what it went to.
    pub busy_share: f64,
    pub products_share: f64,
    pub attention_share: f64,
    pub overhead_share: f64,
}

/// Everything that is counted along the way, in a fixed amount of memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub requests: u64,
    pub completed: u64,
    pub refused: u64,
    pub cancelled: u64,
    pub cut: u64,
    pub preemptions: u64,
    pub recomputed_tokens: u64,
    pub cached_tokens: u64,
    pub peak_running: usize,
    pub peak_waiting: usize,
    pub ttft: Histogram,
    pub itl: Histogram,
    pub queue: Histogram,
    pub e2e: Histogram,
    pub generated_tokens: u64,
    pub prefill_tokens: u64,
    /// Used blocks x nanoseconds.
    pub kv_use: u128,
    pub kv_peak: usize,
    pub steps: u64,
    /// Nanoseconds in steps.
    pub busy: u64,
    pub spent: StepTime,
    pub timeline: Timeline,
}

impl Counts {
    /// The figures at this time, in nanoseconds, of so many KV blocks.
    pub fn figures(&self, now: u64, blocks: usize) -> Figures {
        // Nothing has happened in no time: 0, not NaN.
        let over = |value: f64, whole: f64| if whole > 0.0 { value / whole } else { 0.0 };
        let virtual_s = seconds(now);
        let spent = self.spent.total();
        Figures {
            requests: self.requests,
            completed: self.completed,
            refused: self.refused,
            cancelled: self.cancelled,
            unfinished: self.requests - self.completed - self.refused - self.cancelled,
            cut: self.cut,
            preemptions: self.preemptions,
            recomputed_tokens: self.recomputed_tokens,
            cached_tokens: self.cached_tokens,
            peak_running: self.peak_running,
            peak_waiting: self.peak_waiting,
            ttft_s: self.ttft.summary(),
            itl_s: self.itl.summary(),
            queue_s: self.queue.summary(),
            e2e_s: self.e2e.summary(),
            generated_tokens: self.generated_tokens,
            prefill_tokens: self.prefill_tokens,
            tokens_per_s: over(self.generated_tokens as f64, virtual_s),
            prefill_tokens_per_s: over(self.prefill_tokens as f64, virtual_s),
            kv_use_mean: over(self.kv_use as f64 / 1e9, virtual_s * blocks as f64),
            kv_use_peak: over(self.kv_peak as f64, blocks as f64),
            steps: self.steps,
            virtual_s,
            busy_share: over(seconds(self.busy), virtual_s),
            products_share: over(self.spent.products, spent),
            attention_share: over(self.spent.attention, spent),
            overhead_share: over(self.spent.overhead, spent),
        }
    }
}
