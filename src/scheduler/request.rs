//! What a client asks of the scheduler, the limits it works under, and its reasons.

use crate::batch::{RequestId, UserId};

/// One request, already in tokens.
#[derive(Clone, Debug)]
pub struct Request {
    pub id: RequestId,
    pub user: UserId,
    pub prompt: Vec<u32>,
    /// Tokens of answer at most.
    pub max_tokens: usize,
}

/// The limits in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Its tokens need more blocks than are free above the watermark.
    Blocks { needed: usize, free: usize, watermark: usize },
    /// First come, first served: it stands behind others that cannot go in yet.
    Behind { ahead: usize },
    /// Its blocks were taken in this step (`by` is None when it ran short itself).
    PreemptedBy { by: Option<UserId> },
    /// Someone was preempted in this step, so nobody new was let in.
    PreemptionStep,
    /// No step has been made since it came.
    NotYet,
}
