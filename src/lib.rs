//! batchroom: several people chat with one language model at once and watch continuous batching happen.
//!
//! See `ARCHITECTURE.md` for the map. In one breath: `scheduler` (pure) decides who computes what in a step,
//! `model` computes it, `engine` owns both on one thread, `ui` draws its snapshots, `commands` are the rest of
//! the command line.

pub mod batch;
pub mod cli;
pub mod commands;
pub mod config;
pub mod conversation;
pub mod engine;
pub mod fault;
pub mod histogram;
pub mod hub;
pub mod launch;
pub mod log;
pub mod machine;
pub mod model;
pub mod presets;
pub mod random;
pub mod replay;
pub mod room;
pub mod sampling;
pub mod scheduler;
pub mod simulate;
pub mod store;
pub mod stray;
pub mod text;
pub mod ui;
