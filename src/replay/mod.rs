//! A recorded engine, step by step: what it was told is told again to the same core, which comes to the same states.
//!
//! A *frame* is the state right after a step; frame 0 is the beginning, and the last frame has all that came after the
//! last step in it as well.

mod chat;
mod json;
mod machine;
mod read;

use std::path::Path;
use std::time::Duration;

pub use chat::{Said, What};
pub use json::{chats, json, state};
pub use read::{Cut, MAX_FILE, MAX_LINE, ReplayError, Trace};

use crate::batch::UserId;
use crate::engine::Snapshot;
use crate::engine::trace::{Header, Record};
use chat::Chats;
use machine::Machine;

/// Frames between two kept states at first; more when a trace is long.
const SPACING: usize = 256;
/// States kept at most, and bytes of them (about).
const MOST_KEPT: usize = 64;
const KEPT_BYTES: usize = 512 << 20;

/// A trace that has been played through once, at one of its frames.
#[derive(Debug)]
pub struct Replay {
    trace: Trace,
    /// For each frame, how many records have been taken in.
    ends: Vec<usize>,
    /// For each frame, the engine time of its end.
    times: Vec<Duration>,
    chats: Chats,
    /// States to begin from, one each `spacing` frames.
    kept: Vec<Machine>,
    spacing: usize,
    now: Machine,
    frame: usize,
}

impl Replay {
    /// Reads a trace and plays it through, so that whatever is wrong with it is known.
    ///
    /// # Errors
    /// When it cannot be read, is no trace, is damaged, or when this version's scheduler decides otherwise than the one
    /// that wrote it. The message names the line.
    pub fn open(path: &Path) -> Result<Replay, ReplayError> {
        Replay::new(Trace::open(path)?)
    }

    /// The same, of a trace that has been read.
    ///
    /// # Errors
    /// See [`Replay::open`].
    pub fn new(trace: Trace) -> Result<Replay, ReplayError> {
        let mut machine = Machine::new(&trace.header).map_err(|what| trace.fault(1, what))?;
        let most_kept = (KEPT_BYTES / machine::bytes(&trace.header)).clamp(2, MOST_KEPT);
        let (mut ends, mut times) = (vec![0], vec![Duration::ZERO]);
        let (mut kept, mut spacing) = (vec![machine.clone()], SPACING);
        let mut chats = Chats::default();
        for (at, record) in trace.records.iter().enumerate() {
            let frame = ends.len();
            chats.record(frame, record);
            machine.apply(record, |id, event| chats.event(frame, id, event)).map_err(|what| trace.fault(at + 2, what))?;
            // How many wait for the witness is part of the step in which somebody ended.
            if matches!(record, Record::Due(_))
                && let Some(end) = ends.last_mut().filter(|end| **end == at)
            {
                *end += 1;
            }
            if !matches!(record, Record::Step(_)) {
                continue;
            }
            ends.push(at + 1);
            times.push(machine.time());
            if frame.is_multiple_of(spacing) {
                kept.push(machine.clone());
            }
            if kept.len() > most_kept {
                spacing *= 2;
                let mut even = false;
                kept.retain(|_| {
                    even = !even;
                    even
                });
            }
        }
        let last = ends.len() - 1;
        ends[last] = trace.records.len();
        chats.close(last);
        let now = kept[0].clone();
        let mut replay = Replay { trace, ends, times, chats, kept, spacing, now, frame: 0 };
        replay.seek(0)?;
        Ok(replay)
    }

    pub fn header(&self) -> &Header {
        &self.trace.header
    }

    /// Why the trace ends before the engine did, if it does.
    pub fn cut(&self) -> Option<&Cut> {
        self.trace.cut.as_ref()
    }

    /// Steps recorded; frames go from 0 to this.
    pub fn steps(&self) -> usize {
        self.ends.len() - 1
    }

    pub fn frame(&self) -> usize {
        self.frame
    }

    /// Engine time at a frame's end.
    pub fn time(&self, frame: usize) -> Duration {
        self.times[frame.min(self.steps())]
    }

    /// The newest frame that had ended at an engine time.
    pub fn frame_at(&self, time: Duration) -> usize {
        self.times.partition_point(|end| *end <= time).saturating_sub(1)
    }

    /// Everybody who was named or asked something, in that order, with the first name given.
    pub fn people(&self) -> Vec<(UserId, Option<String>)> {
        self.chats.people()
    }

    /// Goes to a frame; past the last is the last.
    ///
    /// # Errors
    /// None that [`Replay::new`] has not found.
    pub fn seek(&mut self, frame: usize) -> Result<(), ReplayError> {
        let frame = frame.min(self.steps());
        let kept = (frame / self.spacing).min(self.kept.len() - 1);
        let from_here = self.frame <= frame && self.frame >= kept * self.spacing;
        if !from_here {
            self.now = self.kept[kept].clone();
        }
        for at in self.now.taken()..self.ends[frame] {
            self.now.apply(&self.trace.records[at], |_, _| ()).map_err(|what| self.trace.fault(at + 2, what))?;
        }
        self.frame = frame;
        Ok(())
    }

    /// The engine as it was, in the words of the live screen.
    pub fn snapshot(&mut self) -> Snapshot {
        self.now.snapshot()
    }

    /// What was said and answered in frames after `from` (none: from the beginning) up to `to`, in order.
    pub fn said(&self, from: Option<usize>, to: usize) -> &[Said] {
        self.chats.between(from, to)
    }
}
