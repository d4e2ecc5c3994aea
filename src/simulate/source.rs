//! The requests of a workload, in the order in which they come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::arrivals::{Arrivals, Times};
use super::simulation::{Load, Workload};
use super::trace::TraceRow;
use super::{Length, nanoseconds};
use crate::batch::UserId;
use crate::random::{SplitMix64, mix};

/// Seconds at least before a person of a closed load who was refused asks again.
const AFTER_REFUSAL: f64 = 1.0;

/// A request that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Nanoseconds.
    pub time: u64,
    pub user: UserId,
    pub prompt: usize,
    pub answer: usize,
}

/// Where the next request comes from.
enum Origin {
    /// Arrivals that nothing in the simulation changes.
    Open { times: Times, next: u64 },
    /// People who are reading: when each asks again, and who it is.
    Closed { readers: BinaryHeap<Reverse<(u64, u32)>>, think: f64 },
    /// Recorded ones, and how many of them have come.
    Trace { rows: Arc<[TraceRow]>, come: usize },
}

/// Gives out a workload's requests.
pub(super) struct Source {
    origin: Origin,
    draws: Draws,
    /// Requests still to come at most.
    left: u64,
    /// Nanosecond from which on none comes.
    end: u64,
}

/// What is drawn for each request. Each stream of random numbers has a seed of its own, so that a change of one thing
/// (say, of the answers' lengths) leaves the others as they were.
struct Draws {
    prompt: Length,
    answer: Length,
    users: u32,
    prompts: SplitMix64,
    answers: SplitMix64,
    people: SplitMix64,
    thinking: SplitMix64,
}

impl Draws {
    fn arrival(&mut self, time: u64, user: Option<u32>) -> Arrival {
        let user = user.unwrap_or_else(|| self.people.range(0, u64::from(self.users) - 1) as u32);
        let (prompt, answer) = (self.prompt.draw(&mut self.prompts), self.answer.draw(&mut self.answers));
        Arrival { time, user: UserId(user), prompt, answer }
    }
}

impl Source {
    pub fn new(workload: Workload) -> Source {
        let seed = |number| mix(workload.seed ^ mix(number));
        let mut draws = Draws {
            prompt: workload.prompt,
            answer: workload.answer,
            users: workload.users.max(1),
            prompts: SplitMix64(seed(1)),
            answers: SplitMix64(seed(2)),
            people: SplitMix64(seed(3)),
            thinking: SplitMix64(seed(4)),
        };
        let origin = match workload.load {
            Load::Trace(rows) => Origin::Trace { rows, come: 0 },
            Load::Drawn(Arrivals::Closed { users, think }) => {
                let first = |user| Reverse((nanoseconds(draws.thinking.exponential(think)), user));
                Origin::Closed { readers: (0..users.unwrap_or(draws.users)).map(first).collect(), think }
            }
            Load::Drawn(law) => {
                let mut times = Times::new(law, seed(5));
                let next = nanoseconds(times.next());
                Origin::Open { times, next }
            }
        };
        Source { origin, draws, left: workload.requests, end: workload.duration.unwrap_or(u64::MAX) }
    }

    /// When the next request comes, in nanoseconds; None when there is none, or none before an answer has been read.
    pub fn next_time(&self) -> Option<u64> {
        let time = match &self.origin {
            Origin::Open { next, .. } => Some(*next),
            Origin::Closed { readers, .. } => readers.peek().map(|Reverse((time, _))| *time),
            Origin::Trace { rows, come } => rows.get(*come).map(|row| row.time),
        };
        time.filter(|time| self.left > 0 && *time < self.end)
    }

    /// The next request, if it comes by this time.
    pub fn take(&mut self, now: u64) -> Option<Arrival> {
        let time = self.next_time().filter(|time| *time <= now)?;
        self.left -= 1;
        match &mut self.origin {
            Origin::Open { times, next } => {
                *next = nanoseconds(times.next());
                Some(self.draws.arrival(time, None))
            }
            Origin::Closed { readers, .. } => {
                let Reverse((_, user)) = readers.pop()?;
                Some(self.draws.arrival(time, Some(user)))
            }
            Origin::Trace { rows, come } => {
                let row = *rows.get(*come)?;
                *come += 1;
                Some(Arrival { time, user: UserId(row.user), prompt: row.prompt, answer: row.answer })
            }
        }
    }

    /// A request of this person is over: with a closed load, there will be another one.
    pub fn over(&mut self, user: UserId, now: u64, refused: bool) {
        if let Origin::Closed { readers, think } = &mut self.origin {
            let reading = self.draws.thinking.exponential(*think);
            let reading = if refused { reading.max(AFTER_REFUSAL) } else { reading };
            readers.push(Reverse((now.saturating_add(nanoseconds(reading)), user.0)));
        }
    }
}
