//! Times and counters. Everything here gets the time handed in; the clock itself is read in `worker.rs`.
//!
//! All times are *engine time*: it stands still while the engine is paused, so that a figure never contains the
//! minutes in which somebody looked at a stopped screen.

use std::collections::VecDeque;
use std::time::Duration;

use super::api::{Finished, Itl, Latencies, Sample, Totals};
use crate::histogram::Histogram;

/// Samples kept for the charts: 60 s.
const HISTORY: usize = 120;
/// Length of one sample.
const INTERVAL: Duration = Duration::from_millis(500);
/// The speeds of "now" are means over this long.
const WINDOW: Duration = Duration::from_secs(1);
/// Token times kept for one sequence's speed of now.
const RECENT: usize = 32;
/// Gaps kept for one sequence's ITL percentile.
const GAPS: usize = 256;
/// Fewer tokens than this say nothing about a speed.
const LEAST: usize = 4;

/// The times of one request.
#[derive(Clone, Debug)]
pub struct RequestTimes {
    submitted: Duration,
    admitted: Option<Duration>,
    first: Option<Duration>,
    /// The newest token, if the next can be measured against it.
    last: Option<Duration>,
    /// Tokens measured against the one before, and the time that they took.
    decoded: usize,
    decoding: Duration,
    /// Preempted since the newest token.
    stalled: bool,
    recent: VecDeque<Duration>,
    gaps: VecDeque<Duration>,
    longest_gap: Duration,
    tokens: usize,
}

impl RequestTimes {
    pub fn new(submitted: Duration) -> RequestTimes {
        RequestTimes {
            submitted,
            admitted: None,
            first: None,
            last: None,
            decoded: 0,
            decoding: Duration::ZERO,
            stalled: false,
            recent: VecDeque::new(),
            gaps: VecDeque::new(),
            longest_gap: Duration::ZERO,
            tokens: 0,
        }
    }

    pub fn admitted(&mut self, at: Duration) {
        self.admitted.get_or_insert(at);
    }

    /// One token more. Gives the gap since the one before, if that can be measured.
    pub fn token(&mut self, at: Duration) -> Option<Duration> {
        self.first.get_or_insert(at);
        self.tokens += 1;
        let gap = self.last.replace(at).map(|last| at.saturating_sub(last));
        if let Some(gap) = gap {
            push_bounded(&mut self.gaps, gap, GAPS);
            self.longest_gap = self.longest_gap.max(gap);
            // Speeds are of decode only; waiting and recompute are in the gap, where a reader felt them.
            if !self.stalled {
                self.decoded += 1;
                self.decoding += gap;
            }
        }
        self.stalled = false;
        push_bounded(&mut self.recent, at, RECENT);
        gap
    }

    /// The next token is not measured against those before: a hand was between them.
    pub fn break_off(&mut self) {
        self.last = None;
        self.recent.clear();
    }

    /// Its blocks are gone: the time until it goes on is in no speed.
    pub fn preempted(&mut self) {
        self.stalled = true;
        self.recent.clear();
    }

    /// Submit to first token, queue included.
    pub fn ttft(&self) -> Option<Duration> {
        Some(self.first?.saturating_sub(self.submitted))
    }

    /// Submit to the first step.
    pub fn queued(&self) -> Option<Duration> {
        Some(self.admitted?.saturating_sub(self.submitted))
    }

    /// Decode speed over the newest tokens; None until there are a few.
    pub fn speed_now(&self) -> Option<f64> {
        if self.recent.len() < LEAST {
            return None;
        }
        rate(self.recent.len() - 1, self.recent.back()?.saturating_sub(*self.recent.front()?))
    }

    /// Decode speed of the whole answer: tokens after the first, over the time that each took after the one before.
    /// Tokens of single steps, and the first after a preemption, are left out.
    pub fn speed_overall(&self) -> Option<f64> {
        rate(self.decoded, self.decoding)
    }

    /// 95th percentile of the gaps between tokens, over the newest 256.
    pub fn itl_p95(&self) -> Option<Duration> {
        self.itl().map(|itl| itl.p95)
    }

    /// The gaps between tokens: nearest rank over the newest 256, and the longest of all. None below four.
    pub fn itl(&self) -> Option<Itl> {
        if self.gaps.len() < LEAST {
            return None;
        }
        let mut gaps: Vec<Duration> = self.gaps.iter().copied().collect();
        gaps.sort_unstable();
        let rank = |percent: usize| gaps[(gaps.len() * percent).div_ceil(100) - 1];
        Some(Itl { p50: rank(50), p95: rank(95), p99: rank(99), max: self.longest_gap })
    }

    /// Submit to `end`.
    pub fn end_to_end(&self, end: Duration) -> Duration {
        end.saturating_sub(self.submitted)
    }

    /// Time per output token: (end to end - TTFT) / (tokens - 1). None below two tokens.
    pub fn tpot(&self, end: Duration) -> Option<Duration> {
        let others = u32::try_from(self.tokens.checked_sub(1)?).ok().filter(|others| *others > 0)?;
        Some(self.end_to_end(end).saturating_sub(self.ttft()?) / others)
    }
}

fn rate(count: usize, time: Duration) -> Option<f64> {
    (count > 0 && !time.is_zero()).then(|| count as f64 / time.as_secs_f64())
}

pub(super) fn push_bounded<T>(ring: &mut VecDeque<T>, item: T, bound: usize) {
    if ring.len() == bound {
        ring.pop_front();
    }
    ring.push_back(item);
}

/// One step's figures.
#[derive(Clone, Copy, Debug)]
pub struct StepFigures {
    pub at: Duration,
    pub duration: Duration,
    pub rows: usize,
    pub sampled: usize,
    pub prefilled: usize,
    /// A single step of a paused engine: it counts, and has no speed.
    pub by_hand: bool,
}

/// Counters, speeds of now, and the charts' history.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    totals: Totals,
    steps: VecDeque<StepFigures>,
    history: VecDeque<Sample>,
    open: OpenInterval,
    times: Times,
}

/// Times of all requests since the beginning.
#[derive(Clone, Debug, Default)]
struct Times {
    queue: Histogram,
    ttft: Histogram,
    tpot: Histogram,
    itl: Histogram,
    end_to_end: Histogram,
}

fn count(histogram: &mut Histogram, time: Option<Duration>) {
    if let Some(time) = time {
        histogram.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), 1);
    }
}

#[derive(Clone, Debug, Default)]
struct OpenInterval {
    start: Duration,
    sampled: usize,
    rows: usize,
    steps: usize,
    busy: Duration,
    ttft_sum: Duration,
    ttft_count: u32,
}

impl Metrics {
    pub fn totals_mut(&mut self) -> &mut Totals {
        &mut self.totals
    }

    /// The samples so far. At rest the last one is among them though its time is not over: the end of a short answer
    /// would else be seen with the next one only.
    pub fn history(&self, at_rest: bool, queue: usize) -> VecDeque<Sample> {
        let mut history = self.history.clone();
        if at_rest && self.open.steps > 0 {
            push_bounded(&mut history, self.open.sample(queue), HISTORY);
        }
        history
    }

    pub fn step(&mut self, figures: StepFigures, queue: usize) {
        self.totals.steps += 1;
        self.totals.generated_tokens += figures.sampled as u64;
        self.totals.step_time = Some(figures.duration);
        if figures.by_hand {
            // Neither its tokens nor its time are in a speed.
            self.open.start += figures.duration;
            self.steps.clear();
            return;
        }
        self.close_intervals(figures.at, queue);
        self.open.sampled += figures.sampled;
        self.open.rows += figures.rows;
        self.open.steps += 1;
        self.open.busy += figures.duration;
        self.steps.push_back(figures);
        self.forget_before(figures.at);
    }

    /// A gap between two tokens of one request.
    pub fn gap(&mut self, gap: Duration) {
        count(&mut self.times.itl, Some(gap));
    }

    /// A request's end, with its figures.
    pub fn ended(&mut self, end: &Finished) {
        let times = &mut self.times;
        count(&mut times.queue, end.queued);
        count(&mut times.ttft, end.ttft);
        count(&mut times.tpot, end.tpot);
        count(&mut times.end_to_end, Some(end.end_to_end));
    }

    /// Of all requests that have ended, and of all gaps.
    pub fn latencies(&self) -> Latencies {
        let Times { queue, ttft, tpot, itl, end_to_end } = &self.times;
        Latencies {
            queue: queue.summary(),
            ttft: ttft.summary(),
            tpot: tpot.summary(),
            itl: itl.summary(),
            end_to_end: end_to_end.summary(),
        }
    }

    pub fn first_token(&mut self, ttft: Duration) {
        self.open.ttft_sum += ttft;
        self.open.ttft_count += 1;
    }

    /// Counters, and the speeds at `now`.
    pub fn totals(&mut self, now: Duration) -> Totals {
        self.forget_before(now);
        let sum = |of: fn(&StepFigures) -> usize| self.steps.iter().map(of).sum::<usize>() as f64;
        // The window is as long as what is in it when the engine has just begun.
        let span = self.steps.front().map_or(WINDOW, |first| now.saturating_sub(first.at.saturating_sub(first.duration)));
        let span = span.clamp(Duration::from_millis(1), WINDOW).as_secs_f64();
        self.totals.tokens_per_s = sum(|step| step.sampled) / span;
        self.totals.prefill_tokens_per_s = sum(|step| step.prefilled) / span;
        self.totals.steps_per_s = self.steps.len() as f64 / span;
        let count = self.steps.len() as u32;
        let busy: Duration = self.steps.iter().map(|step| step.duration).sum();
        self.totals.step_time_mean = (count > 0).then(|| busy / count);
        self.totals.clone()
    }

    /// Ends the intervals that are over at `now`. After a long rest only the newest 60 s are filled in.
    pub fn close_intervals(&mut self, now: Duration, queue: usize) {
        let longest = INTERVAL * HISTORY as u32;
        if now.saturating_sub(self.open.start) > longest {
            let open = std::mem::take(&mut self.open);
            push_bounded(&mut self.history, open.sample(queue), HISTORY);
            self.open.start = now - longest;
        }
        while now.saturating_sub(self.open.start) >= INTERVAL {
            let end = self.open.start + INTERVAL;
            let open = std::mem::replace(&mut self.open, OpenInterval { start: end, ..OpenInterval::default() });
            push_bounded(&mut self.history, open.sample(queue), HISTORY);
        }
    }

    fn forget_before(&mut self, now: Duration) {
        while self.steps.front().is_some_and(|step| step.at + WINDOW < now) {
            self.steps.pop_front();
        }
    }
}

impl OpenInterval {
    fn sample(&self, queue: usize) -> Sample {
        Sample {
            at: self.start + INTERVAL,
            tokens_per_s: self.sampled as f64 / INTERVAL.as_secs_f64(),
            batch: if self.steps == 0 { 0.0 } else { self.rows as f64 / self.steps as f64 },
            queue,
            ttft: (self.ttft_count > 0).then(|| self.ttft_sum / self.ttft_count),
            step: (self.steps > 0).then(|| self.busy / self.steps as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_speed_is_decode_only_and_needs_a_few_tokens() {
        let mut times = RequestTimes::new(MS(0));
        times.admitted(MS(400));
        for (n, at) in [500, 510, 520, 530, 540].into_iter().enumerate() {
            times.token(MS(at));
            assert_eq!(times.speed_now().is_some(), n >= 3);
        }
        assert_eq!(times.ttft(), Some(MS(500)), "queue and prefill are in TTFT");
        assert_eq!(times.queued(), Some(MS(400)));
        assert_eq!(times.speed_now(), Some(100.0), "and not in tok/s");
        assert_eq!(times.speed_overall(), Some(100.0));
        assert_eq!(times.itl_p95(), Some(MS(10)));
    }

    #[test]
    fn one_token_has_no_speed() {
        let mut times = RequestTimes::new(MS(0));
        times.token(MS(5));
        assert_eq!((times.speed_now(), times.speed_overall(), times.itl_p95()), (None, None, None));
    }

    fn step(at: Duration, rows: usize) -> StepFigures {
        StepFigures { at, duration: MS(10), rows, sampled: rows, prefilled: 0, by_hand: false }
    }

    #[test]
    fn tokens_of_single_steps_have_no_speed() {
        let mut times = RequestTimes::new(MS(0));
        let mut metrics = Metrics::default();
        for at in [100, 110, 120, 130] {
            times.token(MS(at));
            metrics.step(step(MS(at), 1), 0);
        }
        for at in [131, 132, 133] {
            times.break_off();
            times.token(MS(at));
            times.break_off();
            metrics.step(StepFigures { duration: MS(1), by_hand: true, ..step(MS(at), 1) }, 0);
        }
        assert_eq!((times.speed_now(), metrics.totals(MS(133)).tokens_per_s), (None, 0.0));
        for at in [143, 153, 163, 173] {
            times.token(MS(at));
            metrics.step(step(MS(at), 1), 0);
        }
        assert_eq!((times.speed_now(), times.speed_overall()), (Some(100.0), Some(100.0)));
        let totals = metrics.totals(MS(173));
        assert_eq!((totals.tokens_per_s, totals.generated_tokens), (100.0, 11));
        metrics.close_intervals(MS(502), 0);
        assert_eq!(metrics.history(false, 0).len(), 0, "the time of single steps is in no interval");
        metrics.close_intervals(MS(503), 0);
        assert_eq!(metrics.history(false, 0)[0].tokens_per_s, 16.0, "nor are their tokens");
    }

    #[test]
    fn history_has_a_zero_for_every_idle_half_second_and_is_bounded() {
        let mut metrics = Metrics::default();
        metrics.step(step(MS(100), 4), 0);
        metrics.step(step(MS(2100), 4), 1);
        let speeds: Vec<f64> = metrics.history(false, 0).iter().map(|sample| sample.tokens_per_s).collect();
        assert_eq!(speeds, [8.0, 0.0, 0.0, 0.0]);
        metrics.close_intervals(Duration::from_secs(3600), 0);
        assert_eq!(metrics.history(false, 0).len(), HISTORY);
        let history = metrics.history(false, 0);
        let last = history.back().unwrap();
        assert_eq!((last.at, last.tokens_per_s), (Duration::from_secs(3600), 0.0));
    }

    #[test]
    fn the_end_of_a_short_answer_is_seen_at_rest() {
        let mut metrics = Metrics::default();
        metrics.step(step(MS(100), 4), 0);
        assert_eq!(metrics.history(false, 0).len(), 0);
        let at_rest = metrics.history(true, 0);
        assert_eq!((at_rest.len(), at_rest[0].tokens_per_s), (1, 8.0));
        metrics.step(step(MS(300), 2), 0);
        metrics.close_intervals(MS(600), 0);
        let later = metrics.history(true, 0);
        assert_eq!((later.len(), later[0].tokens_per_s), (1, 12.0), "once, and whole");
    }

    #[test]
    fn a_preemption_is_in_the_gaps_and_in_no_speed() {
        let mut times = RequestTimes::new(MS(0));
        (1..=5).for_each(|token| _ = times.token(MS(token * 10)));
        times.preempted();
        assert_eq!(times.speed_now(), None);
        (1..=5).for_each(|token| _ = times.token(MS(5000 + token * 10)));
        assert_eq!((times.speed_now(), times.speed_overall()), (Some(100.0), Some(100.0)));
        assert_eq!(times.itl_p95(), Some(MS(4960)));
    }

    #[test]
    fn the_speed_of_now_fades_when_nothing_happens() {
        let mut metrics = Metrics::default();
        for n in 1..=100 {
            metrics.step(step(MS(n * 10), 2), 0);
        }
        assert_eq!(metrics.totals(MS(1000)).tokens_per_s, 200.0);
        assert_eq!(metrics.totals(MS(1000)).step_time_mean, Some(MS(10)));
        assert_eq!(metrics.totals(MS(5000)).tokens_per_s, 0.0);
        assert_eq!(metrics.totals(MS(5000)).generated_tokens, 200);
    }
}
