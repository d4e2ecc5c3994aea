//! Who computes what in the next step, and in which blocks of KV memory.
//!
//! Pure: no clock, no threads, no IO, no tensors. Time is the step's number. Everything here can be driven by
//! a test with a seed (`tests/sim`).

mod accounts;
mod admit;
mod block;
mod change;
mod ledger;
mod list;
mod prefix;
mod queue;
mod reasons;
mod request;
#[allow(clippy::module_inception)]
mod scheduler;
mod sequence;

pub use block::{BlockCounts, BlockManager, BlockUse, blocks_for};
pub use ledger::Ledger;
pub use prefix::ContentId;
pub use request::{FinishReason, InvalidLimits, Limits, Mode, Policy, Refused, Request, TakenBy, Waiting};
pub use scheduler::{Admission, Decisions, Outcome, Preemption, RowResult, Scheduler};
pub use sequence::{Sequence, Stage};
