//! The one thread that owns the scheduler and the model, and what others say to it.

pub mod api;
pub(crate) mod change;
mod clock;
pub(crate) mod core;
mod cost;
mod handle;
mod live;
mod metrics;
mod record;
mod recorder;
mod timeline;
mod told;
pub mod trace;
mod view;
mod voice;
mod witness;
mod worker;

pub use api::*;
pub use handle::{EngineHandle, EngineOptions, StartError, start, start_recorded};
pub use recorder::{MAX_BYTES as MAX_TRACE_BYTES, Recording};

use std::time::Duration;

use crate::batch::Batch;

/// What the engine needs of a model. The arithmetic lives behind it; so does every tensor.
pub trait Model: Send {
    /// Computes all rows of a batch and gives the logits of the rows with `samples`, in row order:
    /// `[num_sampled][vocab]`.
    fn forward(&mut self, batch: &Batch) -> Result<&[f32], ForwardError>;

    /// Where the time of all passes so far went; None when it keeps no account of that.
    fn times(&self) -> Option<PassTimes> {
        None
    }
}

/// Time spent in the parts of forward passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassTimes {
    /// Rotations, writing keys and values, and attention.
    pub attention: Duration,
    /// Products with weights, and the norms before them.
    pub products: Duration,
}

/// A step that could not be computed; its sequences end with this message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ForwardError(pub String);
