//! What went on when, in a fixed number of equal stretches of virtual time.

/// Stretches at most; there are at least half as many once there is something to see.
const STRETCHES: usize = 48;

/// One stretch of time: sums and maxima, so that two neighbours make one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Requests that came.
    pub arrived: u64,
    pub tokens: u64,
    /// First tokens, and the nanoseconds that all of them together were waited for.
    pub firsts: u64,
    pub ttft_sum: u128,
    pub waiting_max: usize,
    pub running_max: usize,
}

impl Moment {
    /// Both stretches as one.
    pub fn merged(mut self, other: &Moment) -> Moment {
        self.arrived += other.arrived;
        self.tokens += other.tokens;
        self.firsts += other.firsts;
        self.ttft_sum += other.ttft_sum;
        self.waiting_max = self.waiting_max.max(other.waiting_max);
        self.running_max = self.running_max.max(other.running_max);
        self
    }

    /// Seconds to the first token, on average; None when nobody got one.
    pub fn ttft_mean(&self) -> Option<f64> {
        (self.firsts > 0).then(|| self.ttft_sum as f64 / self.firsts as f64 / 1e9)
    }
}

/// The stretches; they double in length whenever time runs past the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    moments: Vec<Moment>,
    /// Nanoseconds of each.
    width: u64,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline { moments: Vec::with_capacity(STRETCHES), width: 1_000_000 }
    }
}

impl Timeline {
    /// The stretch that this time, in nanoseconds, is in.
    pub fn at(&mut self, time: u64) -> &mut Moment {
        while time / self.width >= STRETCHES as u64 {
            self.width = self.width.saturating_mul(2);
            for at in 0..self.moments.len().div_ceil(2) {
                let first = self.moments[2 * at];
                self.moments[at] = self.moments.get(2 * at + 1).map_or(first, |second| first.merged(second));
            }
            self.moments.truncate(self.moments.len().div_ceil(2));
        }
        let at = (time / self.width) as usize;
        if at >= self.moments.len() {
            self.moments.resize(at + 1, Moment::default());
        }
        &mut self.moments[at]
    }

    /// From the beginning on.
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// Nanoseconds of each.
    pub fn width(&self) -> u64 {
        self.width
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn nothing_is_lost_as_time_goes_on() {
        let (mut timeline, mut random, mut now) = (Timeline::default(), SplitMix64(1), 0);
        for count in 1..=5000 {
            now += random.range(0, 100_000_000);
            let moment = timeline.at(now);
            moment.tokens += 1;
            moment.waiting_max = moment.waiting_max.max(count);
            assert!(timeline.moments().len() <= STRETCHES);
            assert_eq!(timeline.moments().iter().map(|moment| moment.tokens).sum::<u64>(), count as u64);
        }
        assert_eq!(timeline.moments().last().unwrap().waiting_max, 5000);
        assert!(timeline.moments().len() > STRETCHES / 2, "the stretches are as short as they can be");
        assert!(timeline.width() * timeline.moments().len() as u64 > now);
    }

    #[test]
    fn the_end_of_time_is_in_the_last_stretch() {
        let mut timeline = Timeline::default();
        timeline.at(u64::MAX).tokens += 1;
        timeline.at(0).tokens += 1;
        assert_eq!(timeline.moments().iter().map(|moment| moment.tokens).sum::<u64>(), 2);
    }
}
