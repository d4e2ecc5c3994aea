//! What a screen, a command or a client says to the engine and hears from it. All of it is plain data.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::batch::{RequestId, RowKind, UserId};
use crate::sampling::{InvalidSampling, SamplingParams};
use crate::scheduler::Refused;
pub use crate::scheduler::{FinishReason, Limits, Waiting};

/// Why a request was not taken. Each carries the numbers that decided it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Rejected {
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
    #[error(transparent)]
    Sampling(#[from] InvalidSampling),
    #[error("{0}")]
    Template(String),
    #[error("the engine is shutting down")]
    ShuttingDown,
    #[error("the engine has stopped: {0}")]
    EngineGone(String),
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
    /// Taken into the batch for the first time.
    Admitted {
        step: u64,
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
        by: Option<UserId>,
    },
    Finished(Finished),
    Rejected(Rejected),
}

/// The end of a request, with its figures.
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
}

/// One request, already in tokens.
#[derive(Debug)]
pub struct Submit {
    pub id: RequestId,
    pub user: UserId,
    pub prompt: Vec<u32>,
    pub sampling: SamplingParams,
    /// Where its events go. Dropping the receiver cancels the request.
    pub events: mpsc::Sender<Event>,
}

/// How the engine's loop goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as the machine can.
    Full,
    /// At most so many steps a second.
    StepsPerSecond(f64),
}

/// What can be asked of the engine thread.
#[derive(Debug)]
pub enum Command {
    Submit(Submit),
    /// A request was refused before it came here: it is counted and among the events like any other.
    Refused {
        user: UserId,
        why: Rejected,
    },
    Cancel(RequestId),
    Pause(bool),
    /// While paused: make so many steps, then stop again.
    Step(u32),
    SetPace(Pace),
    /// Stop taking work, let what runs end until `drain` is over, then cancel the rest and end.
    Shutdown {
        drain: Duration,
    },
}

/// What the loop is doing right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Nothing to do.
    Idle,
    Running,
    /// Stopped by hand; `Step` moves it.
    Paused,
    /// The engine thread has ended.
    Stopped,
}

/// What the model is, for the header and the panels.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInfo {
    /// What a person calls it: `nano`, `smollm2`, or the file's own name.
    pub name: String,
    /// The name that the file gives itself.
    pub title: String,
    /// Weight types, most bytes first, for instance `Q4_1 + Q8_0`.
    pub types: String,
    pub parameters: u64,
    /// Bytes of weights that one step reads.
    pub weight_bytes: u64,
    /// What computes: our CPU kernels (`avx512-vnni`) or candle on a device (`candle-cuda`).
    pub kernels: String,
    pub threads: usize,
    pub vocab: usize,
    pub layers: usize,
    /// The context that the model was made for, in tokens.
    pub context: usize,
    pub kv_bytes_per_token: usize,
}

/// Where a user's newest request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Waiting,
    /// Its prompt (or its recomputed text) is being computed: `computed` of `total` tokens.
    Prefill {
        computed: usize,
        total: usize,
    },
    Decode,
    /// Back in the queue, blocks given up.
    Preempted,
    /// Ended; the figures are the last ones.
    Finished(FinishReason),
}

/// One user's line in the users table.
#[derive(Clone, Debug, PartialEq)]
pub struct UserView {
    pub user: UserId,
    pub request: RequestId,
    pub status: Status,
    pub waiting: Option<Waiting>,
    /// Decode speed now (a window of the newest tokens), prefill and queue excluded. None until it is known.
    pub tokens_per_s: Option<f64>,
    pub ttft: Option<Duration>,
    /// Time in the waiting queue before the first step.
    pub queued: Option<Duration>,
    pub itl_p95: Option<Duration>,
    /// Tokens of its sequence: prompt and answer.
    pub context: usize,
    pub prompt_tokens: usize,
    pub generated_tokens: usize,
    pub kv_blocks: usize,
    pub preemptions: u32,
}

/// Who holds one KV block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOwner {
    Free,
    /// Nobody's now, kept for its contents.
    Cached,
    User(UserId),
    /// Held by more than one sequence.
    Shared,
}

/// KV memory. `used + cached + free = total`.
#[derive(Clone, Debug, PartialEq)]
pub struct KvView {
    pub block_size: usize,
    pub bytes_per_block: usize,
    pub total: usize,
    pub used: usize,
    pub cached: usize,
    pub free: usize,
    /// Kept free for running decodes when a new prompt asks.
    pub watermark: usize,
    /// One entry a block.
    pub owners: Arc<[BlockOwner]>,
    /// Token slots filled in used blocks: `used * block_size - filled` are wasted now.
    pub filled_slots: usize,
    /// Blocks that reserving `max_model_len` for each running sequence would take.
    pub reserved_max: usize,
}

/// One sequence's part of a recorded step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRow {
    pub user: UserId,
    pub request: RequestId,
    pub kind: RowKind,
    pub tokens: usize,
}

/// What one step did: the timeline's column.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRecord {
    pub step: u64,
    /// Schedule to commit.
    pub duration: Duration,
    pub rows: Vec<StepRow>,
    pub admitted: Vec<UserId>,
    /// Victim and the one whose blocks ran short (None: itself).
    pub preempted: Vec<(UserId, Option<UserId>)>,
    pub finished: Vec<(UserId, FinishReason)>,
    /// Users in the waiting queue after the step.
    pub waiting: Vec<UserId>,
    pub used_blocks: usize,
    /// Tokens computed, of `max_num_batched_tokens`.
    pub budget_used: usize,
    pub budget: usize,
}

/// One point of the charts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Engine time at the end of the interval (stands still while paused).
    pub at: Duration,
    /// Tokens sampled per second in this interval, all users.
    pub tokens_per_s: f64,
    /// Mean number of rows of a step; 0 when there was none.
    pub batch: f64,
    pub queue: usize,
    /// Mean TTFT of the requests that had their first token in this interval.
    pub ttft: Option<Duration>,
    pub step: Option<Duration>,
}

/// Something worth a line in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub step: u64,
    pub kind: NoteKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum NoteKind {
    Queued { user: UserId, prompt_tokens: usize, ahead: usize },
    Admitted { user: UserId, blocks: usize },
    Preempted { user: UserId, by: Option<UserId>, recompute: usize },
    Finished { user: UserId, reason: FinishReason, generated: usize },
    Rejected { user: UserId, why: Rejected },
}

/// Counters since the engine began, and the speeds of now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    pub steps: u64,
    pub prompt_tokens: u64,
    pub generated_tokens: u64,
    pub finished: u64,
    pub cancelled: u64,
    pub rejected: u64,
    pub preemptions: u64,
    /// Tokens computed a second time because of preemption.
    pub recomputed_tokens: u64,
    /// Tokens sampled per second, all users, over the newest second of engine time.
    pub tokens_per_s: f64,
    /// Prompt tokens computed per second in the same second.
    pub prefill_tokens_per_s: f64,
    pub steps_per_s: f64,
    /// The newest step, schedule to commit.
    pub step_time: Option<Duration>,
    /// Mean of the newest second's steps.
    pub step_time_mean: Option<Duration>,
}

/// The engine as it was after one step: everything the panels draw. Built at the frame rate.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub state: RunState,
    /// Why the engine thread ended, when it was not asked to.
    pub fault: Option<String>,
    pub pace: Pace,
    pub model: Arc<ModelInfo>,
    pub limits: Limits,
    /// The newest step's number; 0 before the first.
    pub step: u64,
    pub running: usize,
    pub waiting: usize,
    /// Every user that has asked something, in order of their first request; live ones and the last ended.
    pub users: Vec<UserView>,
    pub kv: KvView,
    pub totals: Totals,
    /// Oldest first, bounded.
    pub timeline: VecDeque<Arc<StepRecord>>,
    /// One sample each half second of engine time, oldest first, bounded (60 s).
    pub history: VecDeque<Sample>,
    /// Oldest first, bounded.
    pub notes: VecDeque<Note>,
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

impl Snapshot {
    pub fn user(&self, user: UserId) -> Option<&UserView> {
        self.users.iter().find(|view| view.user == user)
    }
}
