//! The engine seen from outside: cheap to clone, never blocks on a step.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::api::*;
use crate::batch::{RequestId, UserId};
use crate::sampling::SamplingParams;
use crate::text::Message;

/// A way to talk to one engine.
#[derive(Clone, Debug)]
pub struct EngineHandle {
    snapshots: watch::Receiver<Arc<Snapshot>>,
}

impl EngineHandle {
    /// Renders and tokenizes a conversation and submits it. Everything that can be wrong with it arrives as
    /// `Event::Rejected` on the receiver. Dropping the receiver cancels the request.
    pub fn chat(&self, _user: UserId, _messages: &[Message], _sampling: SamplingParams) -> (RequestId, mpsc::Receiver<Event>) {
        unreachable!("not connected yet")
    }

    pub fn cancel(&self, _id: RequestId) {}

    pub fn pause(&self, _paused: bool) {}

    /// While paused: so many steps, then stop again.
    pub fn step(&self, _steps: u32) {}

    pub fn set_pace(&self, _pace: Pace) {}

    /// The newest state; `changed()` on it wakes at most at the frame rate.
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }

    pub fn shutdown(&self, _drain: Duration) {}
}
