//! The words of a trace file: what an engine was told and what its model answered. `docs/trace.md` describes them.
//!
//! The scheduler is a pure function of its inputs, so a trace holds the inputs; every block table, reason and decision
//! comes out of them again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::api::{Limits, ModelInfo, RecordingEnd, Rejected, Verdict};
use super::core::Core;

/// The version of the format that this program writes, and the newest that it reads.
pub const VERSION: u32 = 1;
/// A check sum is written with each step whose number is a multiple of this.
pub(crate) const SUM_EVERY: u64 = 64;

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    pub batchroom_trace: u32,
    /// The version of the program that wrote it.
    pub program: String,
    pub model: ModelInfo,
    pub limits: Limits,
    pub kv: KvHeader,
    /// Steps a second; none: full speed.
    pub pace: Option<f64>,
    pub target_itl_us: Option<u64>,
    /// When it began, in milliseconds since 1970 (UTC).
    pub started_unix_ms: u64,
}

/// KV memory, in blocks of `block_size` tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KvHeader {
    pub blocks: usize,
    pub capacity: usize,
    pub block_size: usize,
}

/// Every other line: one input, in the order in which the engine took them. Times are engine time in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Record {
    /// What a user is called from now on.
    User {
        user: u32,
        name: String,
    },
    /// A request that came to the scheduler, which took it or refused it.
    Submit(Box<SubmitRecord>),
    /// A request that was refused before it came there.
    Refused {
        user: u32,
        why: Rejected,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<String>,
    },
    Cancel {
        id: u64,
        t: u64,
        /// Text that had been held back.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        rest: String,
    },
    Limits(Limits),
    KvBlocks(usize),
    TargetItl {
        us: Option<u64>,
    },
    /// Prompt tokens that the steps from here on may compute beside decodes; none: as many as there is room for.
    Prefill(Option<usize>),
    Step(Box<StepData>),
    Pause {
        on: bool,
    },
    /// Steps a second; none: full speed.
    Pace(Option<f64>),
    /// Nothing was left to do.
    Idle {
        t: u64,
    },
    /// The witness took blocks for so many tokens.
    Borrow(usize),
    /// And gave them back.
    Return {},
    Witness {
        id: u64,
        user: u32,
        tokens: usize,
        verdict: Verdict,
    },
    /// Requests that wait for the witness.
    Due(usize),
    /// The engine ended by a bug.
    Fault {
        what: String,
        t: u64,
    },
    /// Nothing was recorded from here on.
    Cut {
        why: RecordingEnd,
    },
    /// The engine ended.
    End {
        t: u64,
        sum: String,
    },
}

/// The words that begin a line, for telling an unknown one from a damaged one.
pub(crate) const KINDS: [&str; 19] = [
    "user",
    "submit",
    "refused",
    "cancel",
    "limits",
    "kv_blocks",
    "target_itl",
    "prefill",
    "step",
    "pause",
    "pace",
    "idle",
    "borrow",
    "return",
    "witness",
    "due",
    "fault",
    "cut",
    "end",
];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitRecord {
    pub id: u64,
    pub user: u32,
    pub t: u64,
    pub prompt: Vec<u32>,
    pub max_tokens: usize,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_of: Option<u64>,
    /// The TTFT that was expected, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft: Option<u64>,
    /// The newest message of the conversation, as it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

/// What came of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepData {
    /// The step's number.
    pub n: u64,
    /// When it began, and how long it took.
    pub t: u64,
    pub d: u64,
    /// One for each row that wanted a token, in row order; null: no token could be had.
    pub r: Vec<Option<Sampled>>,
    /// Text that had been held back from requests which ended in this step, by request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rest: Vec<(u64, String)>,
    /// Why nothing was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Where the time went, in microseconds: attention, products, sampling, scheduling; none: the model does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<[u64; 4]>,
    /// A check sum of the scheduler's state after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<String>,
}

/// `[token, text]`, or `[token, text, true]` when it ends the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Sampled {
    Token(u32, String),
    Last(u32, String, bool),
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// Microseconds of a time in whole ones.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A sum over what the scheduler holds: who runs and waits, how far, and in which blocks (FNV-1a, 64 bits).
pub(crate) fn check_sum(core: &Core) -> String {
    let mut sum = 0xCBF2_9CE4_8422_2325_u64;
    let mut add = |number: u64| {
        for byte in number.to_le_bytes() {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    };
    let scheduler = &core.scheduler;
    let counts = scheduler.blocks().counts();
    [scheduler.step(), counts.used as u64, counts.cached as u64, counts.free as u64].into_iter().for_each(&mut add);
    for sequence in scheduler.running() {
        [sequence.id.0, sequence.num_computed as u64, sequence.tokens.len() as u64].into_iter().for_each(&mut add);
        sequence.table.iter().for_each(|block| add(u64::from(block.0)));
    }
    scheduler.waiting().for_each(|sequence| add(sequence.id.0));
    format!("{sum:016x}")
}
