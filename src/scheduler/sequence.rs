//! One request's tokens and how far they are computed.

use crate::batch::{BlockId, RequestId, UserId};

use super::prefix::ContentId;
use super::request::{Request, TakenBy};

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
/// or one at a time. That one idea covers chunked prefill, decode, prefix hits and recompute.
#[derive(Clone, Debug)]
pub struct Sequence {
    pub id: RequestId,
    pub user: UserId,
    pub priority: i32,
    pub fork_of: Option<RequestId>,
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
    /// Positions that were there already when it was first let in.
    pub cached_tokens: usize,
    pub preemptions: u32,
    /// What took its blocks last.
    pub taken_by: Option<TakenBy>,
    /// When it came: a number that grows with each request.
    pub(super) arrival: u64,
    /// The newest step that computed something for it, 0 before.
    pub(super) served_step: u64,
    /// The step in which it was preempted last, 0 before.
    pub(super) preempted_step: u64,
    /// The newest step when it came.
    pub(super) came_after: u64,
    /// Its user's account of service.
    pub(super) account: usize,
    /// Full blocks whose contents are remembered, and the name of the last.
    pub(super) remembered: usize,
    pub(super) content: ContentId,
}

impl Sequence {
    pub(super) fn new(request: Request, arrival: u64, came_after: u64, account: usize) -> Sequence {
        Sequence {
            id: request.id,
            user: request.user,
            priority: request.priority,
            fork_of: request.fork_of,
            prompt_len: request.prompt.len(),
            tokens: request.prompt,
            max_tokens: request.max_tokens,
            num_computed: 0,
            high_water: 0,
            table: Vec::new(),
            stage: Stage::Waiting,
            cached_tokens: 0,
            preemptions: 0,
            taken_by: None,
            arrival,
            served_step: 0,
            preempted_step: 0,
            came_after,
            account,
            remembered: 0,
            content: ContentId::ROOT,
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
