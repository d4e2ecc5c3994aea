//! One request's tokens and how far they are computed.

use crate::batch::{BlockId, RequestId, UserId};

use super::request::{Request, Waiting};

/// Where a live sequence stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Waiting,
    /// In the waiting queue again, its blocks given up.
    Preempted,
    Running,
}

/// A request that has been taken.
///
/// There is no prefill phase and no decode phase: `num_computed` catches up with `tokens.len()`, many at a time
/// or one at a time. That one idea covers chunked prefill, decode and recompute.
#[derive(Clone, Debug)]
pub struct Sequence {
    pub id: RequestId,
    pub user: UserId,
    /// Prompt, then answer.
    pub tokens: Vec<u32>,
    pub prompt_len: usize,
    pub max_tokens: usize,
    /// Positions whose keys and values are in `table`'s blocks.
    pub num_computed: usize,
    /// The most that `num_computed` has ever been: what lies below was computed before.
    pub high_water: usize,
    pub table: Vec<BlockId>,
    pub stage: Stage,
    pub preemptions: u32,
    /// Why it got nothing in the newest step; None when it got something.
    pub waiting: Option<Waiting>,
}

impl Sequence {
    pub(super) fn new(request: Request) -> Sequence {
        Sequence {
            id: request.id,
            user: request.user,
            prompt_len: request.prompt.len(),
            tokens: request.prompt,
            max_tokens: request.max_tokens,
            num_computed: 0,
            high_water: 0,
            table: Vec::new(),
            stage: Stage::Waiting,
            preemptions: 0,
            waiting: Some(Waiting::NotYet),
        }
    }

    pub fn num_generated(&self) -> usize {
        self.tokens.len() - self.prompt_len
    }

    /// Tokens whose keys and values are missing. Never 0 for a live sequence: the newest token is always one.
    pub fn remaining(&self) -> usize {
        self.tokens.len() - self.num_computed
    }

    /// Whether all but the newest token is computed, and that one was sampled here.
    pub fn is_decoding(&self) -> bool {
        self.remaining() == 1 && self.num_generated() > 0
    }
}
