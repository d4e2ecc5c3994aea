//! What happened: steps, what was decided between them, points of the charts, lines of the log.

use super::*;

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
    /// Tokens decoded per second in this interval, all users; without the first tokens of answers.
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
