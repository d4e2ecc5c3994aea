//! The witness: a finished request is computed once more, alone, and what chose its tokens is compared bit by bit.
//!
//! Alone means: batches of one row, whose blocks hold nothing that was computed before, prompts in other chunks than the
//! first time. It is made beside the others' steps and takes part in none of them.

use tokio::sync::mpsc;

use super::api::{Event, Verdict, Witnessed};
use crate::batch::{Batch, BlockId, RequestId, Row, RowKind, UserId};
use crate::sampling::{Sampler, SamplingParams};

/// Finished requests that may wait to be computed once more.
const DUE: usize = 4096;
/// While others have work, one step for a witness comes after so many of theirs.
const EVERY: u32 = 4;

/// What is kept of a request while it runs, to be compared later.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// Prompt, then answer.
    pub tokens: Vec<u32>,
    pub prompt_len: usize,
    /// A digest of the logits that each token of the answer was chosen by.
    pub digests: Vec<u64>,
}

/// A request that is to be computed once more, or is being so.
#[derive(Debug)]
pub(super) struct Trial {
    pub request: RequestId,
    pub user: UserId,
    pub evidence: Evidence,
    pub sampling: SamplingParams,
    pub events: mpsc::Sender<Event>,
    pub table: Vec<BlockId>,
    computed: usize,
}

/// Trials in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Trials {
    due: std::collections::VecDeque<Trial>,
    batch: Batch,
    since: u32,
}

impl Trials {
    pub fn len(&self) -> usize {
        self.due.len()
    }

    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Whether the first has begun.
    pub fn holds_blocks(&self) -> bool {
        self.due.front().is_some_and(|trial| !trial.table.is_empty())
    }

    /// One more. Gives it back when too many wait already.
    pub fn add(&mut self, trial: Trial) -> Option<Trial> {
        if self.due.len() >= DUE {
            return Some(trial);
        }
        self.due.push_back(trial);
        None
    }

    /// Whether a step of a trial comes now: always when nobody else has work.
    pub fn turn(&mut self, others_have_work: bool) -> bool {
        self.since += 1;
        !self.due.is_empty() && (!others_have_work || self.since > EVERY)
    }

    pub fn first(&mut self) -> Option<&mut Trial> {
        self.due.front_mut()
    }

    pub fn pop(&mut self) -> Option<Trial> {
        self.due.pop_front()
    }

    /// The batch of the first trial's next step: prompt tokens up to `chunk`, or one token of the answer.
    pub fn batch(&mut self, step: u64, chunk: usize) -> &Batch {
        self.since = 0;
        let trial = self.due.front().expect("there is a trial");
        let prompt_left = trial.evidence.prompt_len.saturating_sub(trial.computed);
        let tokens = if prompt_left > 0 { prompt_left.min(chunk) } else { 1 };
        let end = trial.computed + tokens;
        self.batch.clear();
        self.batch.step = step;
        self.batch.tokens.extend_from_slice(&trial.evidence.tokens[trial.computed..end]);
        self.batch.blocks.extend_from_slice(&trial.table);
        self.batch.rows.push(Row {
            id: trial.request,
            user: trial.user,
            start: trial.computed,
            tokens: 0..tokens,
            blocks: 0..trial.table.len(),
            kind: if prompt_left > 0 { RowKind::Prefill } else { RowKind::Decode },
            samples: end >= trial.evidence.prompt_len,
        });
        &self.batch
    }

    /// Takes the logits of the batch made last (none when it was not the end of the prompt). A verdict ends the trial.
    pub fn compare(&mut self, logits: &[f32], sampler: &mut Sampler) -> Option<Verdict> {
        let row = &self.batch.rows[0];
        let trial = self.due.front_mut()?;
        trial.computed = row.start + row.len();
        if !row.samples {
            return None;
        }
        let evidence = &trial.evidence;
        let at = trial.computed - evidence.prompt_len;
        let token = evidence.tokens[trial.computed];
        let again = sampler.sample(logits, &trial.sampling, &evidence.tokens[..trial.computed]);
        if digest(logits) != evidence.digests[at] || again != Some(token) {
            return Some(Verdict::Differs { at, token: again != Some(token) });
        }
        (at + 1 == evidence.digests.len()).then_some(Verdict::Same)
    }
}

impl Trial {
    pub fn new(
        request: RequestId,
        user: UserId,
        evidence: Evidence,
        sampling: SamplingParams,
        events: mpsc::Sender<Event>,
    ) -> Trial {
        Trial { request, user, evidence, sampling, events, table: Vec::new(), computed: 0 }
    }

    /// Nothing of it is in blocks any more.
    pub fn begin_anew(&mut self) {
        self.computed = 0;
    }

    pub fn witnessed(&self, verdict: Verdict) -> Witnessed {
        Witnessed { request: self.request, user: self.user, tokens: self.evidence.digests.len(), verdict }
    }
}

/// A sum of the bits of all logits in their order. Any one number that differs by any one bit gives another sum: each step
/// is reversible. Several that differ give the same with a chance of 2^-64.
pub(super) fn digest(logits: &[f32]) -> u64 {
    logits.iter().fold(0xCBF2_9CE4_8422_2325, |sum: u64, logit| {
        (sum ^ u64::from(logit.to_bits())).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_anywhere_is_seen() {
        let logits: Vec<f32> = (0..1000).map(|n| (n as f32).sin()).collect();
        let sum = digest(&logits);
        for at in [0, 1, 499, 999] {
            for bit in [0, 13, 31] {
                let mut other = logits.clone();
                other[at] = f32::from_bits(other[at].to_bits() ^ (1 << bit));
                assert_ne!(digest(&other), sum, "number {at}, bit {bit}");
            }
        }
        assert_ne!(digest(&[0.0]), digest(&[-0.0]), "bits, not values");
    }
}
