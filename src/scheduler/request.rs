//! What a client asks of the scheduler, the limits it works under, and its reasons.

use serde::{Deserialize, Serialize};

use crate::batch::{RequestId, UserId};

/// One request, already in tokens.
#[derive(Clone, Debug)]
pub struct Request {
    pub id: RequestId,
    pub user: UserId,
    pub prompt: Vec<u32>,
    /// Tokens of answer at most.
    pub max_tokens: usize,
    /// More comes first, under [`Policy::Priority`].
    pub priority: i32,
    /// A request that it begins like. If that one is running when this one is let in, what they have in common is
    /// shared, to the token: a fork.
    pub fork_of: Option<RequestId>,
}

impl Request {
    /// A request of ordinary priority that is no fork.
    pub fn new(id: RequestId, user: UserId, prompt: Vec<u32>, max_tokens: usize) -> Request {
        Request { id, user, prompt, max_tokens, priority: 0, fork_of: None }
    }
}

/// Who is let in first, and whose blocks are taken first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// First come, first served; the youngest is preempted.
    #[default]
    Fcfs,
    /// By user, not by request: who has been served the fewest tokens, of prompts and answers; the user who has been
    /// served the most is preempted (the virtual token counter of Sheng et al., "Fairness in Serving Large Language
    /// Models", OSDI 2024, with equal weights).
    Fair,
    /// The highest priority first, and within one first come, first served; the lowest is preempted.
    Priority,
}

/// When a place is given to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// At every step (iteration-level scheduling, Orca, OSDI 2022).
    #[default]
    Continuous,
    /// When the whole group is done: for comparison.
    Static,
}

/// The limits in force. All of them can be changed between two steps (see [`super::Scheduler::set_limits`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Sequences running at once at most: the seats of the batch.
    pub max_num_seqs: usize,
    /// Tokens computed in one step at most, prompts and decodes together.
    pub max_num_batched_tokens: usize,
    /// Tokens of one prompt computed in one step at most.
    pub prefill_chunk: usize,
    /// Tokens of one sequence at most, prompt and answer together.
    pub max_model_len: usize,
    /// Requests in the waiting queue at most; past it they are refused.
    pub max_waiting: usize,
    /// Blocks kept free for running decodes when a new prompt asks to come in.
    pub watermark: usize,
    pub policy: Policy,
    pub mode: Mode,
    /// Whether full blocks are kept for their contents, and found again.
    pub prefix_cache: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_num_seqs: 8,
            max_num_batched_tokens: 256,
            prefill_chunk: 64,
            max_model_len: 4096,
            max_waiting: 64,
            watermark: 0,
            policy: Policy::Fcfs,
            mode: Mode::Continuous,
            prefix_cache: true,
        }
    }
}

/// Limits that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLimits {
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    #[error(
        "max_num_batched_tokens ({budget}) is below max_num_seqs ({seats}): every running sequence needs one token of each step; \
         raise the first or lower the second"
    )]
    BudgetBelowSeats { budget: usize, seats: usize },
    #[error("a KV budget of {blocks} blocks is too small: one live conversation alone needs {needed}")]
    BelowLive { blocks: usize, user: UserId, needed: usize },
    #[error("a KV budget of {blocks} blocks is more than this engine was started with: it has {capacity}")]
    OverCapacity { blocks: usize, capacity: usize },
    #[error("a KV budget of {blocks} blocks is too small at this moment: {lent} hold an answer that is being computed once more")]
    BelowLent { blocks: usize, lent: usize },
}

impl Limits {
    /// Checks what the scheduler's progress rests on: every running sequence gets its token in every step.
    pub fn check(&self) -> Result<(), InvalidLimits> {
        let named = [
            ("max_num_seqs", self.max_num_seqs),
            ("max_num_batched_tokens", self.max_num_batched_tokens),
            ("prefill_chunk", self.prefill_chunk),
            ("max_model_len", self.max_model_len),
            ("max_waiting", self.max_waiting),
        ];
        if let Some((name, _)) = named.into_iter().find(|(_, value)| *value == 0) {
            return Err(InvalidLimits::Zero(name));
        }
        if self.max_num_batched_tokens < self.max_num_seqs {
            return Err(InvalidLimits::BudgetBelowSeats { budget: self.max_num_batched_tokens, seats: self.max_num_seqs });
        }
        Ok(())
    }
}

/// Why a request is not taken at all. Each carries the numbers that decided it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    EmptyPrompt,
    /// Prompt and one token of answer are over `max_model_len`.
    PromptTooLong {
        prompt: usize,
        max_model_len: usize,
    },
    /// Prompt and one token of answer need more blocks than there are.
    KvTooSmall {
        prompt: usize,
        needed: usize,
        total: usize,
    },
    QueueFull {
        waiting: usize,
        max_waiting: usize,
    },
}

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// An end-of-generation token, or a stop string.
    Stop,
    /// `max_tokens` reached.
    Length,
    /// The context (`max_model_len`) is full.
    ContextFull,
    /// The whole KV memory is full, and is smaller than the context.
    KvFull,
    Cancelled,
    /// The step failed for this sequence; the message says how.
    Failed,
}

impl FinishReason {
    /// The word that `--json` prints.
    pub fn as_str(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::ContextFull => "context_full",
            FinishReason::KvFull => "kv_full",
            FinishReason::Cancelled => "cancelled",
            FinishReason::Failed => "failed",
        }
    }
}

/// Why a live sequence got no token in the newest step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// All seats (`max_num_seqs`) are taken.
    Seats { running: usize, max_num_seqs: usize },
    /// The step's token budget was spent on others.
    Budget { max_num_batched_tokens: usize, spent_on: Vec<UserId> },
    /// Prompts of others took what a step may spend on prompts while somebody decodes (see
    /// [`super::Scheduler::set_prefill_budget`]).
    PrefillBudget { tokens: usize, spent_on: Vec<UserId> },
    /// Its tokens need more blocks than can be had above the watermark: `needed` beside those it would share, `free`
    /// with those that are only cached.
    Blocks { needed: usize, free: usize, watermark: usize },
    /// It stands behind others that cannot go in yet.
    Behind { ahead: usize },
    /// Its blocks were taken in this step.
    Preempted { by: TakenBy },
    /// Someone was preempted in this step, so nobody new was let in.
    PreemptionStep,
    /// Static batching: the group that runs is not done.
    Group { running: usize },
    /// `user` is computing so many tokens that it would have to compute as well: it will share them.
    SharedPrefix { user: UserId, tokens: usize },
    /// No step has been made since it came.
    NotYet,
}

/// Who or what took a sequence's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TakenBy {
    /// This user's sequence needed a block.
    User(UserId),
    /// It ran short itself.
    Itself,
    /// `max_num_seqs` was lowered.
    Seats,
    /// The KV budget was lowered.
    KvBudget,
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Policy::Fcfs => "fcfs",
            Policy::Fair => "fair",
            Policy::Priority => "priority",
        })
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::Continuous => "continuous",
            Mode::Static => "static",
        })
    }
}
