//! The one thread that owns the scheduler and the model, and what others say to it.

pub mod api;
mod handle;

pub use api::*;
pub use handle::EngineHandle;
