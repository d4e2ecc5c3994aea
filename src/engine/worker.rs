//! The engine thread: takes commands, makes steps, tells everyone.
//!
//! The clock is read here and nowhere else in the engine.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::Model;
use super::api::*;
use super::change;
use super::cost::{Ahead, Cost};
use super::handle::EngineOptions;
use super::live::Live;
use super::metrics::{Metrics, StepFigures};
use super::record::Records;
use super::view;
use super::witness::Trials;
use crate::batch::{Batch, RequestId, RowKind, UserId};
use crate::sampling::Sampler;
use crate::scheduler::{Outcome, Request, RowResult, Scheduler, Sequence};
use crate::text::TextModel;

/// Snapshots are built at most this often while steps are faster.
const FRAME: Duration = Duration::from_millis(33);
/// The slowest pace, in steps a second: the bound on how long a paced engine sleeps between two.
const SLOWEST: f64 = 0.1;
/// Why an engine is gone that has no fault.
pub(super) const SHUT_DOWN: &str = "it was shut down";

pub(super) struct Worker {
    model: Box<dyn Model>,
    text: Arc<TextModel>,
    inbox: Receiver<Command>,
    out: watch::Sender<Arc<Snapshot>>,
    core: Core,
    sampler: Sampler,
    results: Vec<RowResult>,
    outcomes: Vec<Outcome>,
    trials: Trials,
    clock: Clock,
    steps_left: u32,
    last_start: Option<Instant>,
    published: Option<Instant>,
    stop_at: Option<Instant>,
    inbox_open: bool,
}

/// What a snapshot is made of.
pub(super) struct Core {
    pub scheduler: Scheduler,
    pub live: HashMap<RequestId, Live>,
    pub metrics: Metrics,
    pub records: Records,
    pub cost: Cost,
    pub witnesses_due: usize,
    pub info: Arc<ModelInfo>,
    pub state: RunState,
    pub pace: Pace,
    pub fault: Option<String>,
}

/// Engine time: wall time without the pauses, and without the time in which the whole process was stopped.
#[derive(Debug)]
pub(super) struct Clock {
    passed: Duration,
    /// When it began to run, and how long the process had been stopped until then.
    since: Option<(Instant, Duration)>,
    stopped: StoppedTime,
}

impl Clock {
    fn new(stopped: StoppedTime) -> Clock {
        let since = Some((Instant::now(), *stopped.hold()));
        Clock { passed: Duration::ZERO, since, stopped }
    }

    pub(super) fn now(&self) -> Duration {
        // Held while the clock is read: the time and what is to be taken off belong together.
        let stopped = self.stopped.hold();
        let running = |(since, before): (Instant, Duration)| since.elapsed().saturating_sub(stopped.saturating_sub(before));
        self.passed + self.since.map_or(Duration::ZERO, running)
    }

    fn run(&mut self, running: bool) {
        self.passed = self.now();
        self.since = running.then(|| (Instant::now(), *self.stopped.hold()));
    }
}

/// How long the process has been stopped in all (Ctrl-Z). Whoever holds it keeps the engine from reading its clock.
#[derive(Clone, Debug, Default)]
pub(super) struct StoppedTime(Arc<Mutex<Duration>>);

impl StoppedTime {
    pub(super) fn hold(&self) -> MutexGuard<'_, Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker {
    pub(super) fn new(
        scheduler: Scheduler,
        model: Box<dyn Model>,
        text: Arc<TextModel>,
        options: &EngineOptions,
        inbox: Receiver<Command>,
    ) -> Worker {
        let mut core = Core {
            scheduler,
            live: HashMap::new(),
            metrics: Metrics::default(),
            records: Records::default(),
            cost: Cost::default(),
            witnesses_due: 0,
            info: Arc::new(options.model.clone()),
            state: RunState::Idle,
            pace: options.pace,
            fault: None,
        };
        core.cost.set_target(options.target_itl);
        let out = watch::channel(Arc::new(view::snapshot(&mut core, Duration::ZERO))).0;
        Worker {
            model,
            text,
            inbox,
            out,
            core,
            sampler: Sampler::default(),
            results: Vec::new(),
            outcomes: Vec::new(),
            trials: Trials::default(),
            clock: Clock::new(StoppedTime::default()),
            steps_left: 0,
            last_start: None,
            published: None,
            stop_at: None,
            inbox_open: true,
        }
    }

    pub(super) fn stopped_time(&self) -> StoppedTime {
        self.clock.stopped.clone()
    }

    pub(super) fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.out.subscribe()
    }

    /// Until shut down. A panic (a bug) ends the engine with a message in the last snapshot, not the program.
    pub(super) fn run(mut self) {
        let ended = catch_unwind(AssertUnwindSafe(|| while self.turn() {}));
        if let Err(panic) = ended {
            let what = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            let what = format!("a fault in the engine: {}", what.unwrap_or("no message"));
            tracing::error!("{what}");
            self.core.fault = Some(what.clone());
            for (_, mut live) in self.core.live.drain() {
                live.finish(FinishReason::Failed, Some(what.clone()), self.clock.now());
            }
        }
        self.refuse_the_rest();
        self.core.state = RunState::Stopped;
        self.publish();
    }

    /// What came too late is told so, and from then on nothing can come: the inbox is closed before the end is seen.
    fn refuse_the_rest(&mut self) {
        while !self.trials.is_empty() {
            self.end_trial(Verdict::NotRun { why: "the engine is shutting down".into() });
        }
        let inbox = std::mem::replace(&mut self.inbox, sync_channel(0).1);
        let why = self.core.fault.clone().unwrap_or_else(|| SHUT_DOWN.into());
        for command in inbox.try_iter() {
            if let Command::Submit(submit) = command {
                let _ = submit.events.try_send(Event::Rejected(Rejected::EngineGone(why.clone())));
            }
        }
    }

    /// Commands, then at most one step. False when it is over.
    fn turn(&mut self) -> bool {
        if !self.take_commands() {
            return false;
        }
        self.cancel_abandoned();
        if !self.paused() && self.trials.turn(self.core.scheduler.has_work()) {
            self.trial_step();
        }
        if !self.core.scheduler.has_work() || !self.may_step() {
            return true;
        }
        let by_hand = self.paused();
        if self.trials.holds_blocks() && self.core.scheduler.is_short_of_blocks() {
            self.put_trial_off();
        }
        if by_hand {
            self.break_off();
            self.clock.run(true);
            self.steps_left -= 1;
        }
        self.step();
        if by_hand {
            self.clock.run(false);
            self.break_off();
        }
        if by_hand || self.published.is_none_or(|at| at.elapsed() >= FRAME) {
            self.publish();
        }
        true
    }

    /// Speeds are not measured over what a hand has done.
    fn break_off(&mut self) {
        self.core.live.values_mut().for_each(|live| live.times.break_off());
    }

    fn paused(&self) -> bool {
        self.core.state == RunState::Paused
    }

    fn may_step(&self) -> bool {
        if self.paused() { self.steps_left > 0 } else { self.due_in().is_zero() }
    }

    /// How long the pace still holds the next step back.
    fn due_in(&self) -> Duration {
        match (self.core.pace, self.last_start) {
            (Pace::StepsPerSecond(steps), Some(start)) => {
                Duration::from_secs_f64(1.0 / steps.max(SLOWEST)).saturating_sub(start.elapsed())
            }
            _ => Duration::ZERO,
        }
    }

    /// Takes all commands there are; sleeps for one when there is nothing else to do. False ends the engine.
    fn take_commands(&mut self) -> bool {
        loop {
            if self.stop_at.is_some_and(|at| Instant::now() >= at) {
                self.cancel_all(|_| true);
            }
            let over = self.stop_at.is_some() || !self.inbox_open;
            let past = self.stop_at.is_some_and(|at| Instant::now() >= at);
            if over && !self.core.scheduler.has_work() && (self.trials.is_empty() || past) {
                return false;
            }
            match self.next_command() {
                Some(command) => self.obey(command),
                None => return true,
            }
        }
    }

    fn next_command(&mut self) -> Option<Command> {
        match self.inbox.try_recv() {
            Ok(command) => return Some(command),
            Err(TryRecvError::Disconnected) => {
                self.inbox_open = false;
                return None;
            }
            Err(TryRecvError::Empty) => {}
        }
        let idle = !self.core.scheduler.has_work();
        let held = self.paused() && self.steps_left == 0;
        if idle && !held && !self.trials.is_empty() {
            return None;
        }
        if idle || held {
            self.rest(idle);
            return self.wait(self.stop_at.map(|at| at.saturating_duration_since(Instant::now())));
        }
        let due = if self.paused() { Duration::ZERO } else { self.due_in() };
        if due.is_zero() {
            return None;
        }
        // A slow pace leaves time to show each step, and every token of it.
        self.publish();
        self.wait(Some(due))
    }

    fn wait(&mut self, longest: Option<Duration>) -> Option<Command> {
        let received = match longest {
            Some(longest) => self.inbox.recv_timeout(longest),
            None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        if let Err(RecvTimeoutError::Disconnected) = received {
            // Nobody is left to step or to watch: end what runs as fast as can be.
            self.inbox_open = false;
            self.steps_left = u32::MAX;
            self.core.pace = Pace::Full;
        }
        received.ok()
    }

    /// Before the thread sleeps: everybody sees the last state.
    fn rest(&mut self, idle: bool) {
        if idle && self.core.state == RunState::Running {
            self.core.state = RunState::Idle;
        }
        if idle {
            self.steps_left = 0;
            self.core.metrics.close_intervals(self.clock.now(), 0);
        }
        self.publish();
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(submit) => self.submit(submit),
            Command::Refused { user, why } => self.refused(user, why),
            Command::Cancel(id) => self.cancel(id),
            Command::Pause(true) if !self.paused() => {
                self.clock.run(false);
                (self.core.state, self.steps_left) = (RunState::Paused, 0);
            }
            Command::Pause(false) if self.paused() => {
                self.clock.run(true);
                self.core.state = if self.core.scheduler.has_work() { RunState::Running } else { RunState::Idle };
            }
            Command::Pause(_) => {}
            Command::Step(steps) => {
                // With nothing to do a step is not saved up: it would be made unasked later.
                if self.paused() && self.core.scheduler.has_work() {
                    self.steps_left = self.steps_left.saturating_add(steps);
                }
            }
            Command::SetPace(pace) => self.core.pace = pace,
            Command::SetLimits(limits) => change::set_limits(&mut self.core, limits),
            Command::SetKvBlocks(blocks) => {
                self.put_trial_off();
                change::set_kv_blocks(&mut self.core, blocks);
            }
            Command::SetTargetItl(target) => change::set_target_itl(&mut self.core, target),
            Command::Shutdown { drain } => {
                self.stop_at.get_or_insert(Instant::now() + drain);
                if self.paused() {
                    self.clock.run(true);
                    self.core.state = RunState::Running;
                }
            }
        }
    }

    fn submit(&mut self, submit: Submit) {
        let now = self.clock.now();
        let Submit { id, user, prompt, sampling, place, events } = submit;
        let prompt_tokens = prompt.len();
        let predicted_ttft = self.core.expected_ttft(&prompt);
        let evidence = place.witness.then(|| prompt.clone());
        let max_tokens = sampling.max_tokens;
        let request = Request { id, user, prompt, max_tokens, priority: place.priority, fork_of: place.fork_of };
        let refused = match self.stop_at {
            Some(_) => Err(Rejected::ShuttingDown),
            None => self.core.scheduler.submit(request).map_err(Rejected::from),
        };
        match refused {
            Ok(ahead) => {
                let mut live = Live::new(user, prompt_tokens, sampling, events, now);
                live.predicted_ttft = predicted_ttft;
                if let Some(prompt) = evidence {
                    live.keep_evidence(prompt);
                }
                live.tell(Event::Queued { ahead, prompt_tokens });
                self.core.live.insert(id, live);
                self.core.records.note(self.core.scheduler.step(), NoteKind::Queued { user, prompt_tokens, ahead });
                self.core.records.joined(user);
                if self.core.state == RunState::Idle {
                    self.core.state = RunState::Running;
                }
            }
            Err(mut why) => {
                if let Rejected::QueueFull { wait, .. } = &mut why {
                    *wait = self.core.records.expected_wait(self.core.scheduler.limits().max_num_seqs);
                }
                let _ = events.try_send(Event::Rejected(why.clone()));
                self.refused(user, why);
            }
        }
    }

    fn refused(&mut self, user: UserId, why: Rejected) {
        self.core.metrics.totals_mut().rejected += 1;
        self.core.records.note(self.core.scheduler.step(), NoteKind::Rejected { user, why });
    }

    fn cancel(&mut self, id: RequestId) {
        if self.core.scheduler.cancel(id).is_some() {
            self.finish(id, FinishReason::Cancelled, None);
        }
    }

    /// A dropped receiver is a cancel: nobody reads on.
    fn cancel_abandoned(&mut self) {
        self.cancel_all(Live::is_abandoned);
    }

    fn cancel_all(&mut self, which: fn(&Live) -> bool) {
        if self.core.live.values().any(which) {
            let mut ids: Vec<RequestId> = self.core.live.iter().filter(|(_, live)| which(live)).map(|(id, _)| *id).collect();
            ids.sort_unstable();
            ids.into_iter().for_each(|id| self.cancel(id));
        }
    }

    /// Schedule, forward, sample, commit.
    fn step(&mut self) {
        self.last_start = Some(Instant::now());
        let started = self.clock.now();
        self.core.keep_to_target();
        let batch = self.core.scheduler.schedule();
        self.tell_decisions();
        let fault = match self.model.forward(&batch) {
            Ok(logits) => {
                let vocab = logits.len() / batch.num_sampled().max(1);
                sample(&mut self.core, &batch, logits, vocab, &mut self.sampler, &self.text, &mut self.results);
                None
            }
            Err(error) => {
                self.results.clear();
                Some(error.to_string())
            }
        };
        self.commit(batch, fault, started);
    }

    fn tell_decisions(&mut self) {
        let now = self.clock.now();
        let core = &mut self.core;
        let step = core.scheduler.step();
        let decisions = core.scheduler.decisions();
        for admission in &decisions.admitted {
            let Some(live) = core.live.get_mut(&admission.id) else { continue };
            live.admitted(now, step, admission.cached);
            let (user, blocks, cached) = (admission.user, admission.blocks, admission.cached);
            core.records.note(step, NoteKind::Admitted { user, blocks, cached });
        }
        core.metrics.totals_mut().recomputed_tokens += decisions.recomputed as u64;
        if !decisions.preempted.is_empty() {
            let preempted = decisions.preempted.clone();
            change::tell_preempted(core, &preempted);
        }
    }

    /// `started` in engine time.
    fn commit(&mut self, batch: Batch, fault: Option<String>, started: Duration) {
        let mut record = self.core.records.begin(&batch, &self.core.scheduler);
        let prefilled: usize = batch.rows.iter().filter(|row| row.kind == RowKind::Prefill).map(|row| row.len()).sum();
        let rows = batch.rows.len();
        let sampled = self.results.iter().filter(|result| matches!(result, RowResult::Token { .. })).count();
        let decodes = batch.rows.iter().filter(|row| row.kind == RowKind::Decode).count();
        self.outcomes.clear();
        match fault {
            Some(_) => self.outcomes.extend_from_slice(self.core.scheduler.fail(batch)),
            None => self.outcomes.extend_from_slice(self.core.scheduler.commit(batch, &self.results)),
        }
        let now = self.clock.now();
        for at in 0..self.outcomes.len() {
            let Outcome { id, finish } = self.outcomes[at];
            let Some(live) = self.core.live.get_mut(&id) else { continue };
            if let Some(ttft) = live.send_fresh(record.step, now) {
                self.core.metrics.first_token(ttft);
                if let Some(predicted) = live.predicted_ttft {
                    self.core.records.predicted(predicted, ttft);
                }
            }
            if let Some(reason) = finish {
                record.finished.push((live.user(), reason));
                self.finish(id, reason, fault.clone());
            }
        }
        self.core.metrics.totals_mut().prompt_tokens += prefilled as u64;
        record.duration = self.clock.now().saturating_sub(started);
        let figures = StepFigures { at: now, duration: record.duration, rows, sampled, prefilled, by_hand: self.paused() };
        if fault.is_none() {
            self.core.cost.step(decodes, prefilled, record.duration);
        }
        self.core.records.end(record, &self.core.scheduler);
        let queue = self.core.scheduler.num_waiting();
        self.core.metrics.step(figures, queue);
    }

    /// The end of a request that the scheduler has let go of.
    fn finish(&mut self, id: RequestId, reason: FinishReason, message: Option<String>) {
        let Some(mut live) = self.core.live.remove(&id) else { return };
        let now = self.clock.now();
        let message = message.or_else(|| self.no_room(reason, live.generated));
        let generated = live.finish(reason, message, now);
        if matches!(reason, FinishReason::Stop | FinishReason::Length) {
            self.core.records.answered(generated);
        }
        let totals = self.core.metrics.totals_mut();
        match reason {
            FinishReason::Cancelled => totals.cancelled += 1,
            _ => totals.finished += 1,
        }
        let step = self.core.scheduler.step();
        self.core.records.note(step, NoteKind::Finished { user: live.user(), reason, generated });
        self.core.records.ended(view::ended(id, &live, reason), live.service_time(now));
        if let Some(trial) = live.into_trial(id).filter(|_| reason != FinishReason::Failed)
            && let Some(trial) = self.trials.add(trial)
        {
            let why = "too many others wait to be computed once more".into();
            let witnessed = trial.witnessed(Verdict::NotRun { why });
            self.witnessed(&trial, witnessed);
        }
        self.core.witnesses_due = self.trials.len();
    }

    /// The trial that is being made gives its blocks back and begins anew later: it stands in nobody's way.
    fn put_trial_off(&mut self) {
        if let Some(trial) = self.trials.first() {
            self.core.scheduler.return_blocks(&mut trial.table);
            trial.begin_anew();
        }
    }

    /// One step of the first trial: see `witness.rs`.
    fn trial_step(&mut self) {
        let core = &mut self.core;
        if core.scheduler.is_short_of_blocks() {
            return;
        }
        let chunk = core.scheduler.limits().max_num_batched_tokens;
        let Some(trial) = self.trials.first() else { return };
        let tokens = trial.evidence.tokens.len();
        if !core.scheduler.borrow_blocks(&mut trial.table, tokens) {
            // As long as somebody runs, blocks may come free.
            if !core.scheduler.has_work() {
                let why = format!("{tokens} tokens do not fit the KV budget any more");
                self.end_trial(Verdict::NotRun { why });
            }
            return;
        }
        let batch = self.trials.batch(core.scheduler.step(), chunk);
        let verdict = match self.model.forward(batch) {
            Ok(logits) => self.trials.compare(logits, &mut self.sampler),
            Err(error) => Some(Verdict::NotRun { why: error.to_string() }),
        };
        if let Some(verdict) = verdict {
            self.end_trial(verdict);
        }
    }

    fn end_trial(&mut self, verdict: Verdict) {
        let Some(mut trial) = self.trials.pop() else { return };
        self.core.scheduler.return_blocks(&mut trial.table);
        self.core.witnesses_due = self.trials.len();
        let witnessed = trial.witnessed(verdict);
        self.witnessed(&trial, witnessed);
    }

    fn witnessed(&mut self, trial: &super::witness::Trial, witnessed: Witnessed) {
        let _ = trial.events.try_send(Event::Witnessed(witnessed.clone()));
        self.core.records.note(self.core.scheduler.step(), NoteKind::Witnessed(witnessed));
    }

    /// What was full when an answer was cut, with its number.
    fn no_room(&self, reason: FinishReason, generated: usize) -> Option<String> {
        let blocks = self.core.scheduler.blocks();
        match reason {
            FinishReason::Length => Some(format!("cut at max_tokens ({generated})")),
            FinishReason::ContextFull => {
                Some(format!("cut: the context of {} tokens is full", self.core.scheduler.limits().max_model_len))
            }
            FinishReason::KvFull => Some(format!(
                "cut: the whole KV memory is full ({} blocks of {} tokens; --kv-memory gives more)",
                blocks.total(),
                blocks.block_size()
            )),
            FinishReason::Stop | FinishReason::Cancelled | FinishReason::Failed => None,
        }
    }

    fn publish(&mut self) {
        self.published = Some(Instant::now());
        let now = self.clock.now();
        self.out.send_replace(Arc::new(view::snapshot(&mut self.core, now)));
    }
}

impl Core {
    /// What prompts may have of the next step, so that decodes keep to the target ITL.
    pub(super) fn keep_to_target(&mut self) {
        let decodes = self.scheduler.running().iter().filter(|sequence| sequence.is_decoding()).count();
        self.scheduler.set_prefill_budget(self.cost.prefill_budget(decodes).unwrap_or(usize::MAX));
    }

    /// What TTFT a request that comes now can expect; None when nothing is known to go by.
    fn expected_ttft(&self, prompt: &[u32]) -> Option<Duration> {
        let scheduler = &self.scheduler;
        let limits = scheduler.limits();
        let running = scheduler.running();
        let mean_answer = self.records.mean_answer();
        let remaining = |sequence: &Sequence| {
            let most = sequence.max_tokens.saturating_sub(sequence.num_generated()) as f64;
            // An answer that is already longer than most gets as much again as a quarter of those.
            mean_answer.map_or(most, |mean| (mean - sequence.num_generated() as f64).max(mean / 4.0).min(most))
        };
        let most_answers = running.iter().map(|sequence| sequence.max_tokens as f64).fold(0.0, f64::max);
        let prefill: usize = running.iter().filter(|other| !other.is_decoding()).map(Sequence::remaining).sum();
        let budget = limits.max_num_batched_tokens.saturating_sub(running.len()).min(scheduler.prefill_budget());
        let ahead = Ahead {
            remaining: running.iter().map(remaining).collect(),
            free_seats: limits.max_num_seqs.saturating_sub(running.len()),
            waiting: scheduler.num_waiting(),
            mean_answer: mean_answer.unwrap_or(most_answers),
            prompt_tokens_ahead: prefill + scheduler.waiting().map(Sequence::remaining).sum::<usize>(),
            prompt_tokens: prompt.len().saturating_sub(scheduler.cached_tokens(prompt)),
            tokens_per_step: budget,
            chunk: limits.prefill_chunk,
        };
        self.cost.expected_ttft(&ahead).map(Duration::from_secs_f64)
    }
}

/// One token for each row that wants one, from its own logits, parameters and random stream.
fn sample(
    core: &mut Core,
    batch: &Batch,
    logits: &[f32],
    vocab: usize,
    sampler: &mut Sampler,
    text: &TextModel,
    results: &mut Vec<RowResult>,
) {
    results.clear();
    let wanting = batch.rows.iter().enumerate().filter(|(_, row)| row.samples);
    for ((at, row), logits) in wanting.zip(logits.chunks_exact(vocab.max(1))) {
        let tokens = &core.scheduler.sequence_of_row(at).tokens;
        let live = core.live.get_mut(&row.id);
        results.push(live.map_or(RowResult::Failed, |live| live.choose(logits, tokens, sampler, text)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_time_has_no_stop_in_it() {
        let began = Instant::now();
        let stopped = StoppedTime::default();
        let clock = Clock::new(stopped.clone());
        let before = clock.now();
        let mut held = stopped.hold();
        let stop = Instant::now();
        let reader = std::thread::spawn(move || clock.now());
        std::thread::sleep(Duration::from_millis(30));
        let lost = stop.elapsed();
        *held += lost;
        drop(held);
        // Read during the stop, and yet without it.
        let after = reader.join().unwrap();
        assert!(before <= after && after <= began.elapsed() - lost, "{before:?}, {after:?}, {lost:?}");
    }
}
