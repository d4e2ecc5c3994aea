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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Prompt tokens that were not computed because their keys and values were there.
    pub cached_tokens: usize,
    pub predicted_ttft: Option<Duration>,
}

/// A live request that got no token in the newest step.
#[derive(Clone, Debug, PartialEq)]
pub struct Without {
    pub request: RequestId,
    pub user: UserId,
    pub why: Waiting,
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
    /// Held by a finished request that is being computed once more.
    Witness,
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
    /// What the budget can be raised to, in blocks.
    pub capacity: usize,
    /// One entry for each block of the budget.
    pub owners: Arc<[BlockOwner]>,
    /// Used blocks that more than one sequence holds.
    pub shared: usize,
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
    /// Position of the first token computed.
    pub start: usize,
    pub tokens: usize,
}

/// A sequence let into the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepAdmission {
    pub user: UserId,
    pub request: RequestId,
    pub blocks: usize,
    /// Positions that were there already.
    pub cached: usize,
    /// It had been preempted before.
    pub again: bool,
}

/// A sequence whose blocks were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepPreemption {
    pub user: UserId,
    pub by: TakenBy,
    /// Positions given up: as many are to be computed again, unless the prefix cache still has them then.
    pub lost: usize,
}

/// A sequence that ended.
pub type StepFinish = (UserId, FinishReason);

/// What happened between two steps.
#[derive(Clone, Debug, PartialEq)]
pub enum Between {
    Refused { user: UserId, why: Rejected },
    Changed(Change),
    ChangeRefused(NotChanged),
}

/// Where the time of one step went. What is in none of them (embeddings, copies of blocks) is the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepParts {
    /// Rotations, writing keys and values, and attention over the pages.
    pub attention: Duration,
    /// Products with weights, and the norms before them.
    pub products: Duration,
    /// From logits to tokens and text.
    pub sampling: Duration,
    /// Deciding who computes what.
    pub scheduling: Duration,
}

impl StepParts {
    /// In the order of the fields.
    pub fn all(&self) -> [Duration; 4] {
        [self.attention, self.products, self.sampling, self.scheduling]
    }

    pub fn add(&mut self, other: &StepParts) {
        self.attention += other.attention;
        self.products += other.products;
        self.sampling += other.sampling;
        self.scheduling += other.scheduling;
    }

    pub fn over(&self, steps: u32) -> StepParts {
        let steps = steps.max(1);
        StepParts {
            attention: self.attention / steps,
            products: self.products / steps,
            sampling: self.sampling / steps,
            scheduling: self.scheduling / steps,
        }
    }
}

/// What one step did: the timeline's column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepRecord {
    pub step: u64,
    /// Engine time at its end.
    pub at: Duration,
    /// Schedule to commit.
    pub duration: Duration,
    /// None: the model does not say.
    pub parts: Option<StepParts>,
    pub rows: Vec<StepRow>,
    pub admitted: Vec<StepAdmission>,
    pub preempted: Vec<StepPreemption>,
    pub finished: Vec<StepFinish>,
    /// Who got nothing in this step, and why: passed-over running sequences, then the queue in its order. At most 64.
    pub waiting: Vec<(UserId, Waiting)>,
    /// Refusals and changes since the step before: at most 16.
    pub between: Vec<Between>,
    /// Blocks after it: `used + cached + free = total`.
    pub used_blocks: usize,
    pub cached_blocks: usize,
    pub total_blocks: usize,
    /// Tokens computed, of `max_num_batched_tokens`.
    pub budget_used: usize,
    pub budget: usize,
    /// Of those, what prompts could have beside decodes; None: no such limit.
    pub prefill_budget: Option<usize>,
}

/// One point of the charts: an interval of engine time, as long as the samples of its series are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Engine time at the end of the interval (stands still while paused).
    pub at: Duration,
    /// Tokens sampled per second in this interval, all users.
    pub tokens_per_s: f64,
    /// Prompt tokens computed per second.
    pub prefill_per_s: f64,
    /// Mean number of rows of a step; 0 when there was none.
    pub batch: f64,
    /// Waiting at its end; in a longer interval the most at the end of one of the short ones.
    pub queue: usize,
    /// Blocks in use at its end, likewise.
    pub used_blocks: usize,
    pub preemptions: u32,
    /// Mean TTFT of the requests that had their first token in this interval.
    pub ttft: Option<Duration>,
    pub first_tokens: u32,
    /// Mean gap between two tokens of one request.
    pub itl: Option<Duration>,
    pub gaps: u32,
    /// Mean of its steps.
    pub step: Option<Duration>,
    pub steps: u32,
    /// Means of its steps; None where the model does not say.
    pub parts: Option<StepParts>,
}

/// Something worth a line in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub step: u64,
    pub kind: NoteKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum NoteKind {
    Queued {
        user: UserId,
        prompt_tokens: usize,
        ahead: usize,
    },
    Admitted {
        user: UserId,
        blocks: usize,
        cached: usize,
    },
    /// The first or the last chunk of a prompt that took more than one.
    Chunk {
        user: UserId,
        start: usize,
        tokens: usize,
        last: bool,
    },
    Preempted {
        user: UserId,
        by: TakenBy,
        lost: usize,
    },
    Finished {
        user: UserId,
        reason: FinishReason,
        generated: usize,
    },
    Rejected {
        user: UserId,
        why: Rejected,
    },
    /// Somebody changed a limit while the engine ran.
    Changed {
        what: Change,
    },
    ChangeRefused {
        why: NotChanged,
    },
    /// The trace ends here, before the engine does.
    RecordingEnded {
        why: RecordingEnd,
    },
    Witnessed(Witnessed),
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

/// Times of all requests since the engine began, in seconds of engine time: percentiles within 0.4 %, mean and longest. All
/// but `itl` are of requests that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latencies {
    /// Submit to the first step.
    pub queue: Summary,
    /// Submit to the first token, queue included.
    pub ttft: Summary,
    /// Time per output token: (end to end - TTFT) / (tokens - 1).
    pub tpot: Summary,
    /// Each gap between two tokens of one request, others' prompts and preemptions included; not those around steps by hand.
    pub itl: Summary,
    /// Submit to the end.
    pub end_to_end: Summary,
}

/// Predicted TTFT held against what came of it, over the newest requests (at most 64).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    pub requests: usize,
    /// Median of |predicted - actual| / actual.
    pub error_median: f64,
    /// Median of predicted / actual: above 1 it expects too much.
    pub ratio_median: f64,
}

/// The engine as it was after one step: everything the panels draw. Built at the frame rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub state: RunState,
    /// Why the engine thread ended, when it was not asked to.
    pub fault: Option<String>,
    pub pace: Pace,
    pub model: Arc<ModelInfo>,
    pub limits: Limits,
    pub target_itl: Option<Duration>,
    /// Prompt tokens that a step may compute at most while somebody decodes; None: no such limit.
    pub prefill_budget: Option<usize>,
    /// The newest step's number; 0 before the first.
    pub step: u64,
    pub running: usize,
    pub waiting: usize,
    /// Every user that has asked something, in order of their first request; live ones and the last ended.
    pub users: Vec<UserView>,
    /// Everyone who got no token in the newest step, and why: passed-over running requests, then the queue in its order. At
    /// most 1,024.
    pub without: Vec<Without>,
    pub kv: KvView,
    pub totals: Totals,
    pub ledger: Arc<Ledger>,
    pub latencies: Latencies,
    /// How well TTFT was predicted lately.
    pub prediction: Option<Prediction>,
    /// Requests that wait to be computed once more.
    pub witnesses_due: usize,
    /// Oldest first, bounded: 10,000 steps and more.
    pub timeline: Timeline,
    /// One sample each half second of engine time, oldest first, bounded (60 s).
    pub history: VecDeque<Sample>,
    /// The same over 10 minutes, an hour and a day: one sample each 5 s, 30 s and 12 min, oldest first.
    pub longer: Arc<Longer>,
    /// Oldest first, bounded.
    pub notes: VecDeque<Note>,
}

/// Longer histories than the last minute: of 120 samples each, and how long one of them is.
pub type Longer = [VecDeque<Sample>; 3];

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
