//! The loop: arrivals, the scheduler's step, its time, what came of it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::cost::CostModel;
use super::figures::{Counts, Figures};
use super::source::{Arrival, Source};
use super::timeline::Timeline;
use super::{Arrivals, Length, TraceRow, nanoseconds};
use crate::batch::{Batch, RequestId, RowKind, UserId};
use crate::scheduler::{BlockManager, FinishReason, InvalidLimits, Limits, Outcome, Request, RowResult, Scheduler};

/// Requests of one simulation at most.
pub const MAX_REQUESTS: u64 = 1_000_000_000;
/// Tokens of the prompts of all requests that are there at once at most: 1 GiB of them.
const MAX_HELD: usize = 1 << 28;
/// Low bits of a request's id: its place among those that are there. The number of its arrival is above them, so ids
/// are unique and in order of arrival, and what belongs to one is found without a search.
const PLACE_BITS: u32 = 24;
/// Requests that are submitted in one turn at most, so that whoever wants to stop is heard.
const ARRIVALS_A_TURN: usize = 256;
/// What every answer is made of. Nothing looks at it.
const TOKEN: u32 = 1;

/// Where requests come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    Drawn(Arrivals),
    /// In order of time.
    Trace(Arc<[TraceRow]>),
}

/// What is asked, by whom, when.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub load: Load,
    /// Lengths of prompts and of answers; a trace has its own.
    pub prompt: Length,
    pub answer: Length,
    /// The first tokens of all prompts that are the same.
    pub shared_prefix: usize,
    /// People that the requests come from. At least 1.
    pub users: u32,
    /// Requests at most, up to [`MAX_REQUESTS`].
    pub requests: u64,
    /// Nanosecond from which on no more come.
    pub duration: Option<u64>,
    /// Nanoseconds without a first token after which a person gives up.
    pub patience: Option<u64>,
    pub seed: u64,
}

/// Everything that a simulation is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    pub limits: Limits,
    pub num_blocks: usize,
    pub block_size: usize,
    pub cost: CostModel,
    pub workload: Workload,
}

/// A simulation that cannot go on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimulationError {
    #[error(transparent)]
    Limits(#[from] InvalidLimits),
    #[error(
        "at {seconds:.0} s of virtual time {requests} requests with {tokens} tokens of prompts are waiting or running, and {MAX_HELD} \
         tokens are the most: the load is far above what this hardware serves; lower the load or --max-waiting"
    )]
    TooMuchHeld { seconds: f64, requests: usize, tokens: usize },
    #[error("virtual time ends after 584 years: this hardware is far too slow for this load")]
    EndOfTime,
    #[error("step {step} has nothing to compute though there is work: this is a fault of the scheduler")]
    Stuck { step: u64 },
}

/// A request that is there.
#[derive(Clone, Copy, Debug)]
struct Live {
    id: RequestId,
    user: UserId,
    /// Nanoseconds of its arrival, and of its newest token.
    arrived: u64,
    newest: Option<u64>,
    prompt: usize,
}

/// Requests that are there, by their place.
#[derive(Clone, Debug, Default)]
struct Places {
    live: Vec<Live>,
    free: Vec<u32>,
    arrivals: u64,
    /// Tokens of their prompts.
    held: usize,
}

impl Places {
    fn put(&mut self, arrival: &Arrival) -> RequestId {
        let place = self.free.pop().unwrap_or(self.live.len() as u32);
        self.arrivals += 1;
        let id = RequestId(self.arrivals << PLACE_BITS | u64::from(place));
        let live = Live { id, user: arrival.user, arrived: arrival.time, newest: None, prompt: arrival.prompt };
        match self.live.get_mut(place as usize) {
            Some(old) => *old = live,
            None => self.live.push(live),
        }
        self.held += arrival.prompt;
        id
    }

    /// The request of this id, which is there.
    fn of(&mut self, id: RequestId) -> &mut Live {
        &mut self.live[(id.0 & ((1 << PLACE_BITS) - 1)) as usize]
    }

    fn remove(&mut self, id: RequestId) -> Live {
        let live = *self.of(id);
        // An id that no request has.
        self.of(id).id = RequestId(0);
        self.free.push((id.0 & ((1 << PLACE_BITS) - 1)) as u32);
        self.held -= live.prompt;
        live
    }

    fn count(&self) -> usize {
        self.live.len() - self.free.len()
    }
}

/// The scheduler, its virtual clock, and everything that is counted.
pub struct Simulation {
    scheduler: Scheduler,
    cost: CostModel,
    source: Source,
    shared_prefix: usize,
    patience: Option<u64>,
    /// Requests by the time at which they will be given up.
    deadlines: VecDeque<(u64, RequestId)>,
    places: Places,
    /// Nanoseconds.
    now: u64,
    results: Vec<RowResult>,
    counts: Counts,
    turns: u64,
}

impl Simulation {
    /// # Errors
    /// When the limits contradict each other, or there are no KV blocks.
    pub fn new(setup: Setup) -> Result<Simulation, SimulationError> {
        let Setup { limits, num_blocks, block_size, cost, workload } = setup;
        Ok(Simulation {
            scheduler: Scheduler::new(limits, BlockManager::new(num_blocks, block_size))?,
            cost,
            shared_prefix: workload.shared_prefix,
            patience: workload.patience,
            source: Source::new(workload),
            deadlines: VecDeque::new(),
            places: Places::default(),
            now: 0,
            results: Vec::new(),
            counts: Counts::default(),
            turns: 0,
        })
    }

    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Nanoseconds since the beginning.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Requests that have come.
    pub fn requests(&self) -> u64 {
        self.counts.requests
    }

    pub fn figures(&self) -> Figures {
        self.counts.figures(self.now, self.scheduler.blocks().total())
    }

    pub fn timeline(&self) -> &Timeline {
        &self.counts.timeline
    }

    /// Goes on until all requests are over or `stop`, which is asked now and then, says so. Whether it went to the end.
    ///
    /// # Errors
    /// When more is waiting than there is room for.
    pub fn run(&mut self, mut stop: impl FnMut(&Simulation) -> bool) -> Result<bool, SimulationError> {
        while self.turn(|_, _| ())? {
            self.turns += 1;
            if self.turns.is_multiple_of(64) && stop(self) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One turn: what has come by now is submitted; once all of it is, the scheduler makes a step, or, where there is
    /// nothing to do, the clock goes on to the next arrival. False when there is none. `look` sees each batch before it is committed.
    ///
    /// # Errors
    /// When more is waiting than there is room for.
    pub fn turn(&mut self, look: impl FnOnce(&Scheduler, &Batch)) -> Result<bool, SimulationError> {
        self.arrive()?;
        if self.source.next_time().is_some_and(|next| next <= self.now) {
            return Ok(true);
        }
        self.give_up();
        if self.scheduler.has_work() {
            self.step(look)?;
            return Ok(true);
        }
        let next = self.source.next_time();
        self.now = next.map_or(self.now, |next| next.max(self.now));
        Ok(next.is_some())
    }

    fn arrive(&mut self) -> Result<(), SimulationError> {
        for _ in 0..ARRIVALS_A_TURN {
            let Some(arrival) = self.source.take(self.now) else { break };
            self.counts.requests += 1;
            self.counts.timeline.at(arrival.time).arrived += 1;
            let id = self.places.put(&arrival);
            let held = self.places.held;
            if held > MAX_HELD {
                let (seconds, requests) = (super::seconds(self.now), self.places.count());
                return Err(SimulationError::TooMuchHeld { seconds, requests, tokens: held });
            }
            let prompt = self.prompt(arrival.prompt);
            let request = Request::new(id, arrival.user, prompt, arrival.answer);
            if self.scheduler.submit(request).is_err() {
                self.counts.refused += 1;
                self.places.remove(id);
                self.source.over(arrival.user, self.now, true);
            } else if let Some(patience) = self.patience {
                self.deadlines.push_back((arrival.time.saturating_add(patience), id));
            }
        }
        Ok(())
    }

    /// A prompt that has the shared prefix and nothing else in common with any other.
    fn prompt(&self, len: usize) -> Vec<u32> {
        let mut tokens = vec![TOKEN; len];
        if let Some(first) = tokens.get_mut(self.shared_prefix) {
            // Four thousand million requests later it would repeat: far more than a prefix cache remembers.
            *first = self.places.arrivals as u32;
        }
        tokens
    }

    /// Those who have waited too long for their first token go.
    fn give_up(&mut self) {
        while let Some((deadline, id)) = self.deadlines.front().copied() {
            let live = *self.places.of(id);
            let waits = live.id == id && live.newest.is_none();
            if waits && deadline > self.now {
                break;
            }
            self.deadlines.pop_front();
            if waits && self.scheduler.cancel(id).is_some() {
                self.places.remove(id);
                self.counts.cancelled += 1;
                self.source.over(live.user, self.now, false);
            }
        }
        // Those behind one that waits may long be over.
        if self.deadlines.len() > 2 * self.places.count() + 64 {
            let places = &mut self.places;
            self.deadlines.retain(|(_, id)| places.of(*id).id == *id);
        }
    }

    fn step(&mut self, look: impl FnOnce(&Scheduler, &Batch)) -> Result<(), SimulationError> {
        let begun = self.now;
        let batch = self.scheduler.schedule();
        if batch.is_empty() {
            return Err(SimulationError::Stuck { step: batch.step });
        }
        look(&self.scheduler, &batch);
        let spent = self.cost.step(&batch);
        // A step that takes no time would be one of infinitely many.
        let took = nanoseconds(spent.total()).max(1);
        self.now = begun.checked_add(took).filter(|now| *now < u64::MAX).ok_or(SimulationError::EndOfTime)?;
        self.note_decisions(begun);
        self.note_use(took);
        let counts = &mut self.counts;
        counts.steps += 1;
        counts.busy += took;
        counts.spent.products += spent.products;
        counts.spent.attention += spent.attention;
        counts.spent.overhead += spent.overhead;
        let decodes = batch.rows.iter().filter(|row| row.kind == RowKind::Decode).count();
        counts.prefill_tokens += (batch.tokens.len() - decodes) as u64;
        self.results.resize(batch.num_sampled(), RowResult::Token { token: TOKEN, ends: false });
        let outcomes = self.scheduler.commit(batch, &self.results);
        note_outcomes(outcomes, (begun, self.now), &mut self.places, &mut self.source, &mut self.counts);
        Ok(())
    }

    fn note_decisions(&mut self, begun: u64) {
        let decisions = self.scheduler.decisions();
        for admission in decisions.admitted.iter().filter(|admission| !admission.again) {
            let arrived = self.places.of(admission.id).arrived;
            self.counts.queue.add(begun - arrived, 1);
        }
        self.counts.preemptions += decisions.preempted.len() as u64;
        self.counts.recomputed_tokens += decisions.recomputed as u64;
        let ledger = self.scheduler.ledger();
        self.counts.cached_tokens = ledger.hit + ledger.hit_on_return;
    }

    fn note_use(&mut self, took: u64) {
        let (running, waiting) = (self.scheduler.running().len(), self.scheduler.num_waiting());
        let used = self.scheduler.blocks().counts().used;
        let counts = &mut self.counts;
        counts.peak_running = counts.peak_running.max(running);
        counts.peak_waiting = counts.peak_waiting.max(waiting);
        counts.kv_peak = counts.kv_peak.max(used);
        counts.kv_use += used as u128 * u128::from(took);
        let moment = counts.timeline.at(self.now);
        moment.running_max = moment.running_max.max(running);
        moment.waiting_max = moment.waiting_max.max(waiting);
    }
}

/// Counts the tokens that a step from `begun` to `now` has brought, and those who have got their last one.
fn note_outcomes(outcomes: &[Outcome], (begun, now): (u64, u64), places: &mut Places, source: &mut Source, counts: &mut Counts) {
    let mut in_step = 0;
    let (mut firsts, mut waited) = (0, 0u128);
    for outcome in outcomes {
        let live = places.of(outcome.id);
        match live.newest.replace(now) {
            // Most have got their last token in the step before: one count for all of them.
            Some(newest) if newest == begun => in_step += 1,
            Some(newest) => counts.itl.add(now - newest, 1),
            None => {
                counts.ttft.add(now - live.arrived, 1);
                firsts += 1;
                waited += u128::from(now - live.arrived);
            }
        }
        if let Some(reason) = outcome.finish {
            counts.completed += 1;
            counts.cut += u64::from(reason != FinishReason::Length);
            let live = places.remove(outcome.id);
            counts.e2e.add(now - live.arrived, 1);
            source.over(live.user, now, false);
        }
    }
    counts.itl.add(now - begun, in_step);
    counts.generated_tokens += outcomes.len() as u64;
    let moment = counts.timeline.at(now);
    moment.tokens += outcomes.len() as u64;
    moment.firsts += firsts;
    moment.ttft_sum += waited;
}
