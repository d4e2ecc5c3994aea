//! What a screen, a command or a client says to the engine and hears from it. All of it is plain data.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

pub use super::timeline::Timeline;
pub use super::told::{Change, FAULT, NOT_FINITE, NotChanged, NotRun, RecordingEnd, SHUT_DOWN, Setting, differences};
use crate::batch::{RequestId, RowKind, UserId};
pub use crate::histogram::Summary;
use crate::sampling::{InvalidSampling, SamplingParams};
use crate::scheduler::Refused;
pub use crate::scheduler::{FinishReason, InvalidLimits, Ledger, Limits, Mode, Policy, TakenBy, Waiting};

mod snapshot;
mod steps;

pub use snapshot::*;
pub use steps::*;

/// Why a request was not taken. Each carries the numbers that decided it. In a recording what has no number is its English
/// sentence, as it always was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Rejected {
    #[serde(rename = "the prompt is empty")]
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error("the prompt has {prompt} tokens, and with at least one token of answer that is over the context of {max_model_len}")]
    PromptTooLong { prompt: usize, max_model_len: usize },
    #[error(
        "the prompt has {prompt} tokens and needs {needed} KV blocks, and the whole KV memory has {total} (raise --kv-memory)"
    )]
    KvTooSmall { prompt: usize, needed: usize, total: usize },
    #[error("the queue is full: {waiting} of {max_waiting} requests are waiting{}", estimate(.wait))]
    QueueFull { waiting: usize, max_waiting: usize, wait: Option<Duration> },
    #[error("token {token} is not in the vocabulary of {vocab}")]
    UnknownToken { token: u32, vocab: usize },
    #[error("the conversation has {bytes} bytes, more than fit a context of {max_model_len} tokens in any language")]
    TooManyBytes { bytes: usize, max_model_len: usize },
    #[serde(skip)]
    #[error(transparent)]
    Sampling(#[from] InvalidSampling),
    /// What the template says.
    #[error("the model's chat template refuses this conversation: {0}")]
    Template(String),
    #[serde(rename = "the engine is shutting down")]
    #[error("the engine is shutting down")]
    ShuttingDown,
    #[error("the engine has stopped: {0}")]
    EngineGone(String),
    /// In words only: what a tokenizer says, or an older recording.
    #[serde(untagged)]
    #[error("{0}")]
    Words(String),
}

impl Rejected {
    /// As a recording can have it.
    pub(super) fn recorded(&self) -> Rejected {
        match self {
            Rejected::Sampling(error) => Rejected::Words(error.to_string()),
            other => other.clone(),
        }
    }
}

fn estimate(wait: &Option<Duration>) -> String {
    match wait {
        Some(wait) => format!(", about {:.1} s until a place is free (estimated from recent answers)", wait.as_secs_f64()),
        None => String::new(),
    }
}

/// What happened to one request, in order, on its own channel. The last is `Finished`, `Rejected`, or the
/// channel's end.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// In the waiting queue, with so many before it.
    Queued {
        ahead: usize,
        prompt_tokens: usize,
    },
    /// Taken into the batch for the first time; so many of its positions were there already.
    Admitted {
        step: u64,
        cached: usize,
    },
    /// One token sampled. `text` is what became printable with it: may be empty (half a character, or the
    /// beginning of a possible stop string).
    Token {
        step: u64,
        token: u32,
        text: String,
    },
    /// Its blocks were taken to let others go on; it will come back and its text stays.
    Preempted {
        step: u64,
        by: TakenBy,
    },
    Finished(Finished),
    Rejected(Rejected),
    /// After `Finished`, where a witness was asked for.
    Witnessed(Witnessed),
}

/// What came of computing a finished request once more, alone: every logit that chose a token, bit by bit, and every
/// token.
#[derive(Clone, Debug, PartialEq)]
pub struct Witnessed {
    pub request: RequestId,
    pub user: UserId,
    /// Tokens compared.
    pub tokens: usize,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Verdict {
    /// All tokens, and all logits that they were chosen by, are the same bits.
    Same,
    /// From this token of the answer on (0: the first) the logits are others; `token`: and so was what was chosen.
    Differs { at: usize, token: bool },
    /// It could not be computed again.
    NotRun { why: NotRun },
}

/// The end of a request, with its figures. All times are engine time.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    pub reason: FinishReason,
    /// The rest of the text that was held back until now.
    pub text: String,
    /// What went wrong (`Failed`), or what had no more room for it (`Length`, `ContextFull`, `KvFull`).
    pub message: Option<String>,
    pub prompt_tokens: usize,
    pub generated_tokens: usize,
    /// Submit to first token, queue included. None when there was no token.
    pub ttft: Option<Duration>,
    /// Decode only: tokens after the first, over the time from the first to the last; single steps are left out.
    pub tokens_per_s: Option<f64>,
    pub preemptions: u32,
    /// Prompt tokens that were not computed because their keys and values were there.
    pub cached_tokens: usize,
    /// Submit to the first step. None when it never got into the batch.
    pub queued: Option<Duration>,
    /// Submit to the end.
    pub end_to_end: Duration,
    /// Time per output token: (end to end - TTFT) / (tokens - 1). None below two tokens.
    pub tpot: Option<Duration>,
    pub itl: Option<Itl>,
    /// What TTFT was expected to be when the request came. None when nothing was known to go by.
    pub predicted_ttft: Option<Duration>,
}

/// Gaps between a request's tokens (inter-token latency), preemptions and others' prompts included: percentiles by nearest
/// rank over the newest 256, and the longest of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Itl {
    pub p50: Duration,
    pub p95: Duration,
    pub p99: Duration,
    pub max: Duration,
}

/// What a request is beside its tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// More comes first, under [`Policy::Priority`].
    pub priority: i32,
    /// A request that it begins like: see [`crate::scheduler::Request::fork_of`].
    pub fork_of: Option<RequestId>,
    /// Whether it is to be computed once more at its end, alone, and compared.
    pub witness: bool,
    /// Its prompt ends within an answer, which goes on: a space at the beginning of what comes is text.
    pub continues: bool,
}

/// One request, already in tokens.
#[derive(Debug)]
pub struct Submit {
    pub id: RequestId,
    pub user: UserId,
    pub prompt: Vec<u32>,
    pub sampling: SamplingParams,
    pub place: Place,
    /// Where its events go. Dropping the receiver cancels the request.
    pub events: mpsc::Sender<Event>,
    /// The newest message of its conversation, for a recording.
    pub said: Option<String>,
}

/// How the engine's loop goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as the machine can.
    Full,
    /// At most so many steps a second.
    StepsPerSecond(f64),
}

impl Pace {
    /// None: full speed.
    pub fn steps_per_second(self) -> Option<f64> {
        match self {
            Pace::Full => None,
            Pace::StepsPerSecond(steps) => Some(steps),
        }
    }
}

impl From<Option<f64>> for Pace {
    fn from(steps: Option<f64>) -> Pace {
        steps.map_or(Pace::Full, Pace::StepsPerSecond)
    }
}

/// What can be asked of the engine thread.
#[derive(Debug)]
pub enum Command {
    Submit(Submit),
    /// A request was refused before it came here: it is counted and among the events like any other.
    Refused {
        user: UserId,
        why: Rejected,
        said: Option<String>,
    },
    /// What a user is called, for a recording.
    Name {
        user: UserId,
        name: String,
    },
    Cancel(RequestId),
    Pause(bool),
    /// While paused: make so many steps, then stop again.
    Step(u32),
    SetPace(Pace),
    /// From the next step on.
    SetLimits(Limits),
    /// KV budget in blocks.
    SetKvBlocks(usize),
    /// The longest that a step is to take while somebody decodes: prompts get what is left of it. None: no such aim.
    SetTargetItl(Option<Duration>),
    /// Stop taking work, let what runs end until `drain` is over, then cancel the rest and end.
    Shutdown {
        drain: Duration,
    },
}

impl From<Refused> for Rejected {
    fn from(refused: Refused) -> Rejected {
        match refused {
            Refused::EmptyPrompt => Rejected::EmptyPrompt,
            Refused::PromptTooLong { prompt, max_model_len } => Rejected::PromptTooLong { prompt, max_model_len },
            Refused::KvTooSmall { prompt, needed, total } => Rejected::KvTooSmall { prompt, needed, total },
            Refused::QueueFull { waiting, max_waiting } => Rejected::QueueFull { waiting, max_waiting, wait: None },
        }
    }
}
