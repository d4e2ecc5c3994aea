//! The engine thread: takes commands, makes steps, tells everyone.
//!
//! The clock is read here and in `clock.rs`, and nowhere else in the engine.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::Model;
use super::api::*;
use super::change;
use super::clock::{Clock, StoppedTime};
use super::core::{Core, StepResults, whole_micros};
use super::recorder::Recorder;
use super::trace::{Record, SUM_EVERY, Sampled, StepData, SubmitRecord, check_sum, micros};
use super::voice::Voice;
use super::witness::{Trial, Trials};
use crate::batch::{Batch, RequestId, UserId};
use crate::sampling::Sampler;
use crate::scheduler::{Request, RowResult};
use crate::text::{StreamDecoder, TextModel};

mod trials;

/// Snapshots are built at most this often while steps are faster.
const FRAME: Duration = Duration::from_millis(33);
/// The slowest pace, in steps a second: the bound on how long a paced engine sleeps between two.
const SLOWEST: f64 = 0.1;

pub(super) struct Worker {
    model: Box<dyn Model>,
    text: Arc<TextModel>,
    inbox: Receiver<Command>,
    out: watch::Sender<Arc<Snapshot>>,
    core: Core,
    voices: HashMap<RequestId, Voice>,
    sampler: Sampler,
    results: Vec<RowResult>,
    texts: Vec<String>,
    trials: Trials,
    recorder: Option<Recorder>,
    clock: Clock,
    steps_left: u32,
    last_start: Option<Instant>,
    published: Option<Instant>,
    stop_at: Option<Instant>,
    inbox_open: bool,
}

impl Worker {
    pub(super) fn new(
        mut core: Core,
        model: Box<dyn Model>,
        text: Arc<TextModel>,
        inbox: Receiver<Command>,
        recorder: Option<Recorder>,
    ) -> Worker {
        let out = watch::channel(Arc::new(core.snapshot(Duration::ZERO))).0;
        Worker {
            model,
            text,
            inbox,
            out,
            core,
            voices: HashMap::new(),
            sampler: Sampler::default(),
            results: Vec::new(),
            texts: Vec::new(),
            trials: Trials::default(),
            recorder,
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
            let what = format!("{FAULT}{}", what.unwrap_or("no message"));
            tracing::error!("{what}");
            let now = self.clock.now();
            self.core.fail(&what, now);
            self.record(|| Record::Fault { what, t: micros(now) });
            self.deliver();
        }
        self.refuse_the_rest();
        self.core.state = RunState::Stopped;
        let (sum, t) = (check_sum(&self.core), micros(self.clock.now()));
        self.record(|| Record::End { t, sum });
        self.recorder = None;
        self.publish();
    }

    /// Writes down what the core is given, if it is to be recorded. What goes wrong with that ends the recording.
    fn record(&mut self, record: impl FnOnce() -> Record) {
        let Some(recorder) = &self.recorder else { return };
        if let Err(why) = recorder.put(record()) {
            self.recorder = None;
            self.core.records.note(self.core.scheduler.step(), NoteKind::RecordingEnded { why });
        }
    }

    /// What came too late is told so, and from then on nothing can come: the inbox is closed before the end is seen.
    fn refuse_the_rest(&mut self) {
        // After a fault nobody knows what blocks are like: they are left alone.
        self.core.borrowed.clear();
        while !self.trials.is_empty() {
            let why = self.core.fault.clone().map_or(NotRun::ShuttingDown, NotRun::Words);
            self.end_trial(Verdict::NotRun { why });
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
        if !self.core.borrowed.is_empty() && self.core.scheduler.is_short_of_blocks() {
            self.put_trial_off();
        }
        if by_hand {
            self.clock.run(true);
            self.steps_left -= 1;
        }
        self.step();
        if by_hand {
            self.clock.run(false);
        }
        if by_hand || self.published.is_none_or(|at| at.elapsed() >= FRAME) {
            self.publish();
        }
        true
    }

    fn paused(&self) -> bool {
        self.core.paused()
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
            self.set_pace(Pace::Full);
        }
        received.ok()
    }

    /// Before the thread sleeps: everybody sees the last state.
    fn rest(&mut self, idle: bool) {
        if idle {
            self.steps_left = 0;
            let now = self.clock.now();
            self.core.rest(now);
            self.record(|| Record::Idle { t: micros(now) });
        }
        self.publish();
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(submit) => self.submit(submit),
            Command::Refused { user, why, said } => self.refused(user, why, said),
            Command::Name { user, name } => self.record(|| Record::User { user: user.0, name }),
            Command::Cancel(id) => self.cancel(id),
            Command::Pause(paused) if paused != self.paused() => self.pause(paused),
            Command::Pause(_) => {}
            Command::Step(steps) => {
                // With nothing to do a step is not saved up: it would be made unasked later.
                if self.paused() && self.core.scheduler.has_work() {
                    self.steps_left = self.steps_left.saturating_add(steps);
                }
            }
            Command::SetPace(pace) => self.set_pace(pace),
            Command::SetLimits(limits) => {
                change::set_limits(&mut self.core, limits);
                self.record(|| Record::Limits(limits));
                self.deliver();
            }
            Command::SetKvBlocks(blocks) => {
                self.put_trial_off();
                change::set_kv_blocks(&mut self.core, blocks);
                self.record(|| Record::KvBlocks(blocks));
                self.deliver();
            }
            Command::SetTargetItl(target) => {
                let target = target.map(whole_micros);
                change::set_target_itl(&mut self.core, target);
                self.record(|| Record::TargetItl { us: target.map(micros) });
                self.keep_to_target();
            }
            Command::Shutdown { drain } => {
                self.stop_at.get_or_insert(Instant::now() + drain);
                if self.paused() {
                    self.pause(false);
                }
            }
        }
    }

    fn pause(&mut self, paused: bool) {
        self.clock.run(!paused);
        self.core.pause(paused);
        if paused {
            self.steps_left = 0;
        }
        self.record(|| Record::Pause { on: paused });
    }

    fn set_pace(&mut self, pace: Pace) {
        self.core.pace = pace;
        self.record(|| Record::Pace(pace.steps_per_second()));
    }

    fn submit(&mut self, submit: Submit) {
        let Submit { id, user, prompt, sampling, place, events, said } = submit;
        if self.stop_at.is_some() {
            let _ = events.try_send(Event::Rejected(Rejected::ShuttingDown));
            return self.refused(user, Rejected::ShuttingDown, said);
        }
        let (now, predicted) = (self.clock.now(), self.core.expected_ttft(&prompt));
        let evidence = place.witness.then(|| prompt.clone());
        let max_tokens = sampling.max_tokens;
        self.record(|| {
            Record::Submit(Box::new(SubmitRecord {
                id: id.0,
                user: user.0,
                t: micros(now),
                prompt: prompt.clone(),
                max_tokens,
                priority: place.priority,
                fork_of: place.fork_of.map(|origin| origin.0),
                ttft: predicted.map(micros),
                said,
            }))
        });
        let request = Request { id, user, prompt, max_tokens, priority: place.priority, fork_of: place.fork_of };
        match self.core.submit(request, predicted, now) {
            Ok(()) => {
                let decoder = if place.continues { StreamDecoder::within() } else { StreamDecoder::default() };
                self.voices.insert(id, Voice::new(user, sampling, events, decoder, evidence));
                self.deliver();
            }
            Err(why) => {
                let _ = events.try_send(Event::Rejected(why));
            }
        }
    }

    fn refused(&mut self, user: UserId, why: Rejected, said: Option<String>) {
        self.record(|| Record::Refused { user: user.0, why: why.recorded(), said });
        self.core.refused(user, why);
    }

    fn cancel(&mut self, id: RequestId) {
        let now = self.clock.now();
        if self.core.cancel(id, now) {
            let rest = self.deliver().into_iter().map(|(_, text)| text).collect();
            self.record(|| Record::Cancel { id: id.0, t: micros(now), rest });
            self.give_up_trials();
        }
    }

    /// Tells requests what the core has for them. Gives the text that was held back from those that ended.
    fn deliver(&mut self) -> Vec<(u64, String)> {
        let mut rests = Vec::new();
        for (id, event) in self.core.outbox.drain(..) {
            let Event::Finished(mut end) = event else {
                if let Some(voice) = self.voices.get_mut(&id) {
                    voice.tell(event);
                }
                continue;
            };
            let Some(mut voice) = self.voices.remove(&id) else { continue };
            end.text = voice.rest();
            if self.recorder.is_some() && !end.text.is_empty() {
                rests.push((id.0, end.text.clone()));
            }
            let failed = end.reason == FinishReason::Failed;
            voice.tell(Event::Finished(end));
            if !failed && let Some(trial) = voice.into_trial(id) {
                self.trials.add(trial);
            }
        }
        rests
    }

    /// A dropped receiver is a cancel: nobody reads on.
    fn cancel_abandoned(&mut self) {
        self.cancel_all(Voice::is_abandoned);
    }

    fn cancel_all(&mut self, which: fn(&Voice) -> bool) {
        if self.voices.values().any(which) {
            let mut ids: Vec<RequestId> = self.voices.iter().filter(|(_, voice)| which(voice)).map(|(id, _)| *id).collect();
            ids.sort_unstable();
            ids.into_iter().for_each(|id| self.cancel(id));
        }
    }

    /// What prompts may have of the next step.
    fn keep_to_target(&mut self) {
        let tokens = self.core.prefill_budget_wanted();
        if tokens != self.core.scheduler.prefill_budget() {
            self.core.scheduler.set_prefill_budget(tokens);
            self.record(|| Record::Prefill((tokens < usize::MAX).then_some(tokens)));
        }
    }

    /// Schedule, forward, sample, commit.
    fn step(&mut self) {
        self.last_start = Some(Instant::now());
        let started = self.clock.now();
        self.keep_to_target();
        let batch = self.core.schedule(started);
        self.deliver();
        self.results.clear();
        self.texts.clear();
        let before = self.model.times();
        let scheduled = self.clock.now();
        let mut computed = scheduled;
        let fault = match self.model.forward(&batch) {
            Ok(logits) => {
                computed = self.clock.now();
                let vocab = logits.len() / batch.num_sampled().max(1);
                let Worker { core, voices, sampler, text, results, texts, .. } = self;
                let wanting = batch.rows.iter().enumerate().filter(|(_, row)| row.samples);
                for ((at, row), logits) in wanting.zip(logits.chunks_exact(vocab.max(1))) {
                    let tokens = &core.scheduler.sequence_of_row(at).tokens;
                    let chosen = voices.get_mut(&row.id).map(|voice| voice.choose(logits, tokens, sampler, text));
                    let (result, text) = chosen.unwrap_or((RowResult::Failed, String::new()));
                    results.push(result);
                    texts.push(text);
                }
                None
            }
            Err(error) => {
                self.results.resize(batch.num_sampled(), RowResult::Failed);
                self.texts.resize(batch.num_sampled(), String::new());
                Some(error.to_string())
            }
        };
        let ended = self.clock.now();
        let passed = before.zip(self.model.times()).filter(|_| fault.is_none());
        let parts = passed.map(|(before, after)| StepParts {
            attention: whole_micros(after.attention.saturating_sub(before.attention)),
            products: whole_micros(after.products.saturating_sub(before.products)),
            sampling: ended.saturating_sub(computed),
            scheduling: scheduled.saturating_sub(started),
        });
        self.commit(batch, fault, (started, ended), parts);
    }

    /// `started` and `ended` in engine time.
    fn commit(&mut self, batch: Batch, fault: Option<String>, (started, ended): (Duration, Duration), parts: Option<StepParts>) {
        let mut data = self.recorder.is_some().then(|| StepData {
            n: batch.step,
            t: micros(started),
            d: micros(ended.saturating_sub(started)),
            r: self.results.iter().zip(&self.texts).map(|(result, text)| sampled(*result, text)).collect(),
            rest: Vec::new(),
            fault: fault.clone(),
            p: parts.map(|parts| parts.all().map(micros)),
            sum: None,
        });
        let results = StepResults { results: &self.results, texts: &mut self.texts, fault, started, ended, parts };
        self.core.commit(batch, results);
        let rests = self.deliver();
        if let Some(mut data) = data.take() {
            data.rest = rests;
            data.sum = data.n.is_multiple_of(SUM_EVERY).then(|| check_sum(&self.core));
            self.record(|| Record::Step(Box::new(data)));
        }
        self.give_up_trials();
    }

    fn publish(&mut self) {
        self.published = Some(Instant::now());
        let now = self.clock.now();
        self.out.send_replace(Arc::new(self.core.snapshot(now)));
    }
}

fn sampled(result: RowResult, text: &str) -> Option<Sampled> {
    match result {
        RowResult::Token { token, ends: false } => Some(Sampled::Token(token, text.to_owned())),
        RowResult::Token { token, ends: true } => Some(Sampled::Last(token, text.to_owned(), true)),
        RowResult::Failed => None,
    }
}
