//! The scheduler and the block manager under load, without a model and without a clock.

mod acts;
mod checked;
mod checks;
mod harness;
mod model;
mod oracle;
mod random;
mod scenarios;
mod shrink;
mod soak;
