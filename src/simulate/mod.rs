//! The real scheduler and block manager on a virtual clock: a model of time in place of weights.
//!
//! Pure: nothing here reads a clock, a file or a thread's state; the same seed gives the same figures. Time is whole
//! nanoseconds. `docs/simulate.md` has the formulas and what they leave out.

mod arrivals;
mod cost;
mod figures;
mod hardware;
mod length;
mod simulation;
mod source;
mod sweep;
mod timeline;
mod trace;

pub use crate::histogram::{Histogram, Summary};
pub use arrivals::{Arrivals, InvalidArrivals, MAX_USERS};
pub use cost::{CostModel, InvalidModel, KvFormat, ModelCost, StepTime, weight_types};
pub use figures::Figures;
pub use hardware::{HARDWARE, Hardware, UnknownHardware};
pub use length::{InvalidLength, Length, MAX_TOKENS};
pub use simulation::{Load, MAX_REQUESTS, Setup, Simulation, SimulationError, Workload};
pub use sweep::{InvalidPoints, Points, knee, power};
pub use timeline::{Moment, Timeline};
pub use trace::{TraceError, TraceFormat, TraceReader, TraceRow};

/// Whole nanoseconds of a number of seconds that is not negative; what is too long becomes the longest.
pub fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// Seconds of whole nanoseconds.
pub fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests;
