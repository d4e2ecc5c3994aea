//! What the engine is like at one moment: everything that a screen is drawn from.

use super::*;

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
    /// Tokens decoded per second, all users, over the newest second of engine time (two steps, when they are slower than that).
    /// First tokens belong to TTFT and are in no speed.
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

impl Snapshot {
    pub fn user(&self, user: UserId) -> Option<&UserView> {
        self.users.iter().find(|view| view.user == user)
    }
}
