//! Where a step's time goes.

use std::time::{Duration, Instant};

/// A part of a forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepPart {
    /// Embeddings and the angles of the rotations.
    Begin,
    /// Norm, and the products that give queries, keys and values.
    Qkv,
    /// Rotations, and writing keys and values to their pages.
    Rotate,
    /// Attention over the pages.
    Attention,
    /// The product that follows attention.
    Output,
    /// Norm, the two products of the feed-forward's first half, and its gate.
    GateUp,
    /// The feed-forward's second product.
    Down,
    /// The last norm and the output matrix.
    Logits,
}

impl StepPart {
    /// In the order of a layer.
    pub const ALL: [StepPart; 8] = [
        StepPart::Begin,
        StepPart::Qkv,
        StepPart::Rotate,
        StepPart::Attention,
        StepPart::Output,
        StepPart::GateUp,
        StepPart::Down,
        StepPart::Logits,
    ];

    pub fn name(self) -> &'static str {
        match self {
            StepPart::Begin => "embed",
            StepPart::Qkv => "q, k, v",
            StepPart::Rotate => "rotate",
            StepPart::Attention => "attention",
            StepPart::Output => "output",
            StepPart::GateUp => "gate, up",
            StepPart::Down => "down",
            StepPart::Logits => "logits",
        }
    }
}

/// Time spent in each part, all layers together, since it was last cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimes([Duration; StepPart::ALL.len()]);

impl StepTimes {
    pub fn of(&self, part: StepPart) -> Duration {
        self.0[part as usize]
    }

    pub fn total(&self) -> Duration {
        self.0.iter().sum()
    }

    pub fn clear(&mut self) {
        *self = StepTimes::default();
    }
}

/// Gives the time since it was last asked to the part that has just ended.
pub(super) struct Stopwatch {
    pub times: StepTimes,
    since: Instant,
}

impl Default for Stopwatch {
    fn default() -> Stopwatch {
        Stopwatch { times: StepTimes::default(), since: Instant::now() }
    }
}

impl Stopwatch {
    pub fn start(&mut self) {
        self.since = Instant::now();
    }

    pub fn lap(&mut self, part: StepPart) {
        let now = Instant::now();
        self.times.0[part as usize] += now - self.since;
        self.since = now;
    }
}
