//! Times and counters. Everything here gets the time handed in; the clock itself is read in `worker.rs`.
//!
//! All times are *engine time*: it stands still while the engine is paused, so that a figure never contains the
//! minutes in which somebody looked at a stopped screen.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::api::{Finished, Itl, Latencies, Longer, Sample, StepParts, Totals};
use crate::histogram::Histogram;

/// Samples kept of each series of the charts; of the finest 60 s.
const HISTORY: usize = 120;
/// How long a sample of each longer series is.
const LONGER: [Duration; 3] = [Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(720)];
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
    /// Of those, the ones that came after another of the same answer: a first token is the end of a prompt, and in no speed.
    pub decoded: usize,
    pub prefilled: usize,
    pub parts: Option<StepParts>,
    /// A single step of a paused engine: it counts, and has no speed.
    pub by_hand: bool,
}

/// What stands at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    pub queue: usize,
    pub used_blocks: usize,
}

/// Counters, speeds of now, and the charts' history.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    totals: Totals,
    steps: VecDeque<StepFigures>,
    history: VecDeque<Sample>,
    /// The newest sample of each is of an interval that is not over.
    longer: Arc<Longer>,
    /// For each of those series: the number of that interval, and of how many short samples it is.
    open_longer: [(u64, u32); LONGER.len()],
    /// Preemptions when the open interval began.
    preempted: u64,
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
    decoded: usize,
    prefilled: usize,
    rows: usize,
    steps: u32,
    busy: Duration,
    /// Of the steps whose parts are known.
    parts: StepParts,
    parted: u32,
    ttft_sum: Duration,
    ttft_count: u32,
    gap_sum: Duration,
    gap_count: u32,
}

impl Metrics {
    pub fn totals_mut(&mut self) -> &mut Totals {
        &mut self.totals
    }

    /// The samples so far. At rest the last one is among them though its time is not over: the end of a short answer
    /// would else be seen with the next one only.
    pub fn history(&self, at_rest: bool, load: Load) -> VecDeque<Sample> {
        let mut history = self.history.clone();
        if at_rest && self.open.steps > 0 {
            push_bounded(&mut history, self.sample(&self.open, load), HISTORY);
        }
        history
    }

    /// The same over longer times, up to the newest short sample.
    pub fn longer(&self) -> Arc<Longer> {
        self.longer.clone()
    }

    pub fn step(&mut self, figures: StepFigures, load: Load) {
        self.totals.steps += 1;
        self.totals.generated_tokens += figures.sampled as u64;
        self.totals.step_time = Some(figures.duration);
        if figures.by_hand {
            // Neither its tokens nor its time are in a speed.
            self.open.start += figures.duration;
            self.steps.clear();
            return;
        }
        self.close_intervals(figures.at, load);
        self.open.decoded += figures.decoded;
        self.open.prefilled += figures.prefilled;
        self.open.rows += figures.rows;
        if let Some(parts) = &figures.parts {
            self.open.parts.add(parts);
            self.open.parted += 1;
        }
        self.open.steps += 1;
        self.open.busy += figures.duration;
        self.steps.push_back(figures);
        self.forget_before(figures.at);
    }

    /// A gap between two tokens of one request.
    pub fn gap(&mut self, gap: Duration) {
        count(&mut self.times.itl, Some(gap));
        self.open.gap_sum += gap;
        self.open.gap_count += 1;
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
        // Of the first step the beginning is not known: what is counted came between its end and the last one's. When the
        // next is overdue the time since then counts too, and the speed fades.
        let between = |first: &StepFigures, last: &StepFigures| {
            let usual = self.step_gap().unwrap_or_default();
            last.at.max(now.saturating_sub(usual)).saturating_sub(first.at).as_secs_f64()
        };
        let span = self.steps.front().zip(self.steps.back()).map_or(0.0, |(first, last)| between(first, last));
        let per_s = |of: fn(&StepFigures) -> usize| match self.steps.iter().skip(1).map(of).sum::<usize>() {
            0 => 0.0,
            sum => sum as f64 / span,
        };
        (self.totals.tokens_per_s, self.totals.steps_per_s) = (per_s(|step| step.decoded), per_s(|_| 1));
        // A prompt is often one step: its time is that step's.
        let busy_since = self.steps.front().map_or(WINDOW, |first| now.saturating_sub(first.at.saturating_sub(first.duration)));
        let prefilled: usize = self.steps.iter().map(|step| step.prefilled).sum();
        self.totals.prefill_tokens_per_s = prefilled as f64 / busy_since.max(Duration::from_millis(1)).as_secs_f64();
        let count = self.steps.len() as u32;
        let busy: Duration = self.steps.iter().map(|step| step.duration).sum();
        self.totals.step_time_mean = (count > 0).then(|| busy / count);
        self.totals.clone()
    }

    /// Ends the intervals that are over at `now`. After a long rest only the newest 60 s are filled in.
    pub fn close_intervals(&mut self, now: Duration, load: Load) {
        let longest = INTERVAL * HISTORY as u32;
        if now.saturating_sub(self.open.start) > longest {
            self.close(now - longest, load);
        }
        while now.saturating_sub(self.open.start) >= INTERVAL {
            self.close(self.open.start + INTERVAL, load);
        }
    }

    /// Ends the open interval; the next begins at `next`.
    fn close(&mut self, next: Duration, load: Load) {
        let open = std::mem::replace(&mut self.open, OpenInterval { start: next, ..OpenInterval::default() });
        let sample = self.sample(&open, load);
        self.preempted = self.totals.preemptions;
        push_bounded(&mut self.history, sample, HISTORY);
        let longer = Arc::make_mut(&mut self.longer);
        for ((series, open), length) in longer.iter_mut().zip(&mut self.open_longer).zip(LONGER) {
            lengthen(series, open, length, &sample);
        }
    }

    fn sample(&self, open: &OpenInterval, load: Load) -> Sample {
        let mean = |sum: Duration, count: u32| (count > 0).then(|| sum / count);
        Sample {
            at: open.start + INTERVAL,
            tokens_per_s: open.decoded as f64 / INTERVAL.as_secs_f64(),
            prefill_per_s: open.prefilled as f64 / INTERVAL.as_secs_f64(),
            batch: if open.steps == 0 { 0.0 } else { open.rows as f64 / f64::from(open.steps) },
            queue: load.queue,
            used_blocks: load.used_blocks,
            preemptions: u32::try_from(self.totals.preemptions.saturating_sub(self.preempted)).unwrap_or(u32::MAX),
            ttft: mean(open.ttft_sum, open.ttft_count),
            first_tokens: open.ttft_count,
            itl: mean(open.gap_sum, open.gap_count),
            gaps: open.gap_count,
            step: mean(open.busy, open.steps),
            steps: open.steps,
            parts: (open.parted > 0).then(|| open.parts.over(open.parted)),
        }
    }

    /// Keeps the newest second, and however slow steps come two of them, or no speed could be told; until the next is so late
    /// that there is none.
    fn forget_before(&mut self, now: Duration) {
        let late = self.step_gap().unwrap_or_default().saturating_mul(2).max(WINDOW);
        if self.steps.back().is_some_and(|newest| newest.at + late < now) {
            self.steps.clear();
        }
        while self.steps.len() > 2 && self.steps[0].at + WINDOW < now {
            self.steps.pop_front();
        }
    }

    /// From one step's end to the next one's, in the newest two.
    fn step_gap(&self) -> Option<Duration> {
        let newest = self.steps.len().checked_sub(2)?;
        Some(self.steps[newest + 1].at.saturating_sub(self.steps[newest].at))
    }
}

/// Takes a short sample into a longer series, whose newest sample is of interval `open.0` and of `open.1` short ones.
/// Intervals in which there was none are filled in.
fn lengthen(series: &mut VecDeque<Sample>, open: &mut (u64, u32), length: Duration, sample: &Sample) {
    let begin = sample.at.saturating_sub(INTERVAL);
    let number = (begin.as_nanos() / length.as_nanos()) as u64;
    let end = |number: u64| length.saturating_mul(u32::try_from(number + 1).unwrap_or(u32::MAX));
    if let (Some(newest), true) = (series.back_mut(), number <= open.0) {
        *newest = join(newest, open.1, sample);
        open.1 += 1;
        return;
    }
    if !series.is_empty() {
        let first = (open.0 + 1).max(number.saturating_sub(HISTORY as u64));
        for missing in first..number {
            push_bounded(series, Sample { at: end(missing), ..Sample::default() }, HISTORY);
        }
    }
    push_bounded(series, Sample { at: end(number), ..*sample }, HISTORY);
    *open = (number, 1);
}

/// The sample of `count` short ones and one more.
fn join(sum: &Sample, count: u32, one: &Sample) -> Sample {
    let weigh = |a: f64, of_a: u32, b: f64, of_b: u32| {
        let both = f64::from(of_a) + f64::from(of_b);
        if both == 0.0 { 0.0 } else { (a * f64::from(of_a) + b * f64::from(of_b)) / both }
    };
    let times = |a: Option<Duration>, of_a: u32, b: Option<Duration>, of_b: u32| match (a, b) {
        (Some(a), Some(b)) => Some(Duration::from_secs_f64(weigh(a.as_secs_f64(), of_a, b.as_secs_f64(), of_b))),
        (a, b) => a.or(b),
    };
    let steps = (sum.steps, one.steps);
    let parts = |of: fn(&StepParts) -> Duration| {
        times(sum.parts.as_ref().map(of), steps.0, one.parts.as_ref().map(of), steps.1).unwrap_or_default()
    };
    Sample {
        at: sum.at,
        tokens_per_s: weigh(sum.tokens_per_s, count, one.tokens_per_s, 1),
        prefill_per_s: weigh(sum.prefill_per_s, count, one.prefill_per_s, 1),
        batch: weigh(sum.batch, steps.0, one.batch, steps.1),
        queue: sum.queue.max(one.queue),
        used_blocks: sum.used_blocks.max(one.used_blocks),
        preemptions: sum.preemptions.saturating_add(one.preemptions),
        ttft: times(sum.ttft, sum.first_tokens, one.ttft, one.first_tokens),
        first_tokens: sum.first_tokens.saturating_add(one.first_tokens),
        itl: times(sum.itl, sum.gaps, one.itl, one.gaps),
        gaps: sum.gaps.saturating_add(one.gaps),
        step: times(sum.step, steps.0, one.step, steps.1),
        steps: steps.0.saturating_add(steps.1),
        parts: (sum.parts.is_some() || one.parts.is_some()).then(|| StepParts {
            attention: parts(|parts| parts.attention),
            products: parts(|parts| parts.products),
            sampling: parts(|parts| parts.sampling),
            scheduling: parts(|parts| parts.scheduling),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Load = Load { queue: 0, used_blocks: 0 };
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
        StepFigures { at, duration: MS(10), rows, sampled: rows, decoded: rows, prefilled: 0, parts: None, by_hand: false }
    }

    #[test]
    fn tokens_of_single_steps_have_no_speed() {
        let mut times = RequestTimes::new(MS(0));
        let mut metrics = Metrics::default();
        for at in [100, 110, 120, 130] {
            times.token(MS(at));
            metrics.step(step(MS(at), 1), NONE);
        }
        for at in [131, 132, 133] {
            times.break_off();
            times.token(MS(at));
            times.break_off();
            metrics.step(StepFigures { duration: MS(1), by_hand: true, ..step(MS(at), 1) }, NONE);
        }
        assert_eq!((times.speed_now(), metrics.totals(MS(133)).tokens_per_s), (None, 0.0));
        for at in [143, 153, 163, 173] {
            times.token(MS(at));
            metrics.step(step(MS(at), 1), NONE);
        }
        assert_eq!((times.speed_now(), times.speed_overall()), (Some(100.0), Some(100.0)));
        let totals = metrics.totals(MS(173));
        assert_eq!((totals.tokens_per_s, totals.generated_tokens), (100.0, 11));
        metrics.close_intervals(MS(502), NONE);
        assert_eq!(metrics.history(false, NONE).len(), 0, "the time of single steps is in no interval");
        metrics.close_intervals(MS(503), NONE);
        assert_eq!(metrics.history(false, NONE)[0].tokens_per_s, 16.0, "nor are their tokens");
    }

    #[test]
    fn history_has_a_zero_for_every_idle_half_second_and_is_bounded() {
        let mut metrics = Metrics::default();
        metrics.step(step(MS(100), 4), NONE);
        metrics.step(step(MS(2100), 4), NONE);
        let speeds: Vec<f64> = metrics.history(false, NONE).iter().map(|sample| sample.tokens_per_s).collect();
        assert_eq!(speeds, [8.0, 0.0, 0.0, 0.0]);
        metrics.close_intervals(Duration::from_secs(3600), NONE);
        assert_eq!(metrics.history(false, NONE).len(), HISTORY);
        let history = metrics.history(false, NONE);
        let last = history.back().unwrap();
        assert_eq!((last.at, last.tokens_per_s), (Duration::from_secs(3600), 0.0));
    }

    #[test]
    fn the_end_of_a_short_answer_is_seen_at_rest() {
        let mut metrics = Metrics::default();
        metrics.step(step(MS(100), 4), NONE);
        assert_eq!(metrics.history(false, NONE).len(), 0);
        let at_rest = metrics.history(true, NONE);
        assert_eq!((at_rest.len(), at_rest[0].tokens_per_s), (1, 8.0));
        metrics.step(step(MS(300), 2), NONE);
        metrics.close_intervals(MS(600), NONE);
        let later = metrics.history(true, NONE);
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
            metrics.step(step(MS(n * 10), 2), NONE);
        }
        assert_eq!(metrics.totals(MS(1000)).tokens_per_s, 200.0);
        assert_eq!(metrics.totals(MS(1000)).step_time_mean, Some(MS(10)));
        assert_eq!(metrics.totals(MS(5000)).tokens_per_s, 0.0);
        assert_eq!(metrics.totals(MS(5000)).generated_tokens, 200);
    }

    #[test]
    fn the_speed_of_all_is_that_of_each_together_however_slow() {
        for (gap, users) in [(2000, 4), (1000, 4), (500, 1), (66, 6), (1, 8)] {
            let mut times: Vec<RequestTimes> = (0..users).map(|_| RequestTimes::new(MS(0))).collect();
            let mut metrics = Metrics::default();
            // The prompts' step gives the first tokens.
            metrics.step(StepFigures { decoded: 0, ..step(MS(gap), users) }, NONE);
            times.iter_mut().for_each(|times| _ = times.token(MS(gap)));
            assert_eq!(metrics.totals(MS(gap)).tokens_per_s, 0.0, "one step is no speed");
            for n in 2..=12 {
                metrics.step(step(MS(n * gap), users), NONE);
                times.iter_mut().for_each(|times| _ = times.token(MS(n * gap)));
                for later in [0, gap / 2, gap] {
                    let all = metrics.totals(MS(n * gap + later)).tokens_per_s;
                    let each: f64 = times.iter().filter_map(RequestTimes::speed_now).sum();
                    assert!(n < 4 || (all - each).abs() < 1e-6 * each, "{users} users, {gap} ms: {all} of {each}");
                }
            }
        }
    }

    #[test]
    fn longer_series_are_of_the_short_samples_and_have_no_gap() {
        let mut metrics = Metrics::default();
        // 30 s of ten steps a second, two tokens each.
        for n in 1..=300 {
            metrics.gap(MS(100));
            metrics.step(step(MS(n * 100), 2), Load { queue: n as usize % 7, used_blocks: n as usize });
        }
        let longer = metrics.longer();
        let ends: Vec<u64> = longer[0].iter().map(|sample| sample.at.as_secs()).collect();
        assert_eq!(ends, [5, 10, 15, 20, 25, 30]);
        // A step stands for the interval in which it ended.
        let whole = longer[0][2];
        assert_eq!((whole.tokens_per_s, whole.steps, whole.gaps), (20.0, 50, 50), "{whole:?}");
        assert_eq!((whole.batch, whole.step, whole.itl), (2.0, Some(MS(10)), Some(MS(100))));
        assert_eq!((longer[1].len(), longer[2].len()), (1, 1), "what is not over is there too");
        // Two hours of rest, then one step.
        metrics.step(step(Duration::from_secs(7230), 2), NONE);
        let longer = metrics.longer();
        for (series, length) in longer.iter().zip(LONGER) {
            let ends: Vec<Duration> = series.iter().map(|sample| sample.at).collect();
            assert!(ends.windows(2).all(|pair| pair[1] == pair[0] + length), "{length:?}: {ends:?}");
            assert!(series.len() <= HISTORY);
        }
        assert_eq!(longer[1].len(), HISTORY);
        assert_eq!(longer[2].len(), 11);
        assert!(longer[2][0].tokens_per_s > 0.0 && longer[2][5].tokens_per_s == 0.0);
    }
}
