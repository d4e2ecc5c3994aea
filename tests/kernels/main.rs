//! The kernels against each other bit by bit, and against candle and plain arithmetic.

#[path = "../support/mod.rs"]
mod support;

mod lanes;
mod products;
