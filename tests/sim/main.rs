//! The scheduler and the block manager under load, without a model and without a clock.

mod harness;
mod random;
mod scenarios;
mod soak;
