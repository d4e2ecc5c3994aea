//! When requests come.

use std::fmt;
use std::str::FromStr;

use crate::random::SplitMix64;

/// Seconds of a day.
const DAY: f64 = 86_400.0;
const MAX_RATE: f64 = 1e6;
const MAX_SECONDS: f64 = 1e8;
/// People of one workload at most.
pub const MAX_USERS: u32 = 1_000_000;

/// A law of arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// All at the beginning.
    AtOnce,
    /// So many a second on average, each without regard to the others.
    Poisson { rate: f64 },
    /// So many at once, every so many seconds, from the beginning on.
    Bursts { size: u32, every: f64 },
    /// Poisson with a rate that goes from 0 at midnight (the beginning) to the peak at noon and back, as a sine does.
    Day { peak: f64 },
    /// So many people (None: as `--users` says). Each asks, reads the answer for an exponentially distributed time of
    /// this mean, and asks again.
    Closed { users: Option<u32>, think: f64 },
}

/// No law of arrivals.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no kind of arrivals: write at-once, poisson:RATE, bursts:SIZE@SECONDS, day:PEAK_RATE, closed:USERS[,think=SECONDS], or \
     a file that ends in .csv or .jsonl (rates up to {MAX_RATE} a second, at most {MAX_USERS} users)"
)]
pub struct InvalidArrivals(String);

impl FromStr for Arrivals {
    type Err = InvalidArrivals;

    fn from_str(text: &str) -> Result<Arrivals, InvalidArrivals> {
        parse(text).ok_or_else(|| InvalidArrivals(text.to_owned()))
    }
}

fn number(text: &str, low: f64, high: f64) -> Option<f64> {
    text.trim().parse().ok().filter(|value| (low..=high).contains(value))
}

fn count(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|count| (1..=MAX_USERS).contains(count))
}

fn parse(text: &str) -> Option<Arrivals> {
    let (kind, parameters) = text.split_once(':').unwrap_or((text, ""));
    // A rate of 0 would be a load that never comes.
    let rate = |text| number(text, 1e-6, MAX_RATE);
    match (kind, parameters) {
        ("at-once", "") => Some(Arrivals::AtOnce),
        ("poisson", parameters) => Some(Arrivals::Poisson { rate: rate(parameters)? }),
        ("day", parameters) => Some(Arrivals::Day { peak: rate(parameters)? }),
        ("bursts", parameters) => {
            let (size, every) = parameters.split_once('@')?;
            Some(Arrivals::Bursts { size: count(size)?, every: number(every, 1e-6, MAX_SECONDS)? })
        }
        ("closed", "") => Some(Arrivals::Closed { users: None, think: 0.0 }),
        ("closed", parameters) => {
            let (mut users, mut think) = (None, 0.0);
            for part in parameters.split(',') {
                match part.trim().strip_prefix("think=") {
                    Some(seconds) => think = number(seconds, 0.0, MAX_SECONDS)?,
                    None => users = Some(count(part)?),
                }
            }
            Some(Arrivals::Closed { users, think })
        }
        _ => None,
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arrivals::AtOnce => write!(f, "at-once"),
            Arrivals::Poisson { rate } => write!(f, "poisson:{rate}"),
            Arrivals::Bursts { size, every } => write!(f, "bursts:{size}@{every}"),
            Arrivals::Day { peak } => write!(f, "day:{peak}"),
            Arrivals::Closed { users: Some(users), think } => write!(f, "closed:{users},think={think}"),
            Arrivals::Closed { users: None, think } => write!(f, "closed:think={think}"),
        }
    }
}

/// Times of arrival, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Times {
    law: Arrivals,
    random: SplitMix64,
    /// Seconds at which the newest came, and how many there were.
    now: f64,
    count: u64,
}

impl Times {
    pub fn new(law: Arrivals, seed: u64) -> Times {
        Times { law, random: SplitMix64(seed), now: 0.0, count: 0 }
    }

    /// Seconds of the next arrival. (Those of a closed law depend on the answers: all of its first are at 0.)
    pub fn next(&mut self) -> f64 {
        self.now = match self.law {
            Arrivals::AtOnce | Arrivals::Closed { .. } => 0.0,
            Arrivals::Poisson { rate } => self.now + self.random.exponential(1.0 / rate),
            Arrivals::Bursts { size, every } => (self.count / u64::from(size)) as f64 * every,
            Arrivals::Day { peak } => self.next_of_day(peak),
        };
        self.count += 1;
        self.now
    }

    /// By thinning (Lewis and Shedler, 1979): arrivals at the peak's rate, each kept with the probability that the rate
    /// of its hour has of the peak's.
    fn next_of_day(&mut self, peak: f64) -> f64 {
        let mut time = self.now;
        loop {
            time += self.random.exponential(1.0 / peak);
            let share = 0.5 - 0.5 * (std::f64::consts::TAU * time / DAY).cos();
            if self.random.unit() < share {
                return time;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_written_again() {
        for text in ["at-once", "poisson:0.5", "bursts:20@7.5", "day:3", "closed:40,think=12", "closed:think=0"] {
            assert_eq!(text.parse::<Arrivals>().unwrap().to_string(), text);
        }
        assert_eq!("closed".parse(), Ok(Arrivals::Closed { users: None, think: 0.0 }));
        assert_eq!("closed:9".parse(), Ok(Arrivals::Closed { users: Some(9), think: 0.0 }));
        let bad = ["", "poisson", "poisson:0", "poisson:-1", "poisson:nan", "poisson:1e9", "at-once:5", "bursts:5", "bursts:0@1"];
        let more =
            ["bursts:5@0", "day:", "closed:0", "closed:9,think=-1", "closed:9,think", "closed:9,", "closed:99999999", "soon"];
        for bad in bad.iter().chain(&more) {
            assert!(bad.parse::<Arrivals>().unwrap_err().to_string().contains(&format!("`{bad}`")));
        }
    }

    #[test]
    fn rates_are_those_asked_for() {
        let last = |text: &str, count: usize| {
            let mut times = Times::new(text.parse().unwrap(), 5);
            (0..count).map(|_| times.next()).last().unwrap()
        };
        assert!((100_000.0 / last("poisson:50", 100_000) / 50.0 - 1.0).abs() < 0.02);
        assert_eq!(last("bursts:20@7.5", 41), 15.0);
        assert_eq!(last("at-once", 1000), 0.0);
    }

    #[test]
    fn a_day_is_quiet_at_night_and_busy_at_noon() {
        let mut times = Times::new("day:2".parse().unwrap(), 6);
        let mut hours = [0.0; 24];
        loop {
            let time = times.next();
            if time >= DAY {
                break;
            }
            hours[(time / 3600.0) as usize] += 1.0;
        }
        let all: f64 = hours.iter().sum();
        assert!((all / DAY - 1.0).abs() < 0.02, "half the peak on average: {all}");
        for (hour, found) in hours.iter().enumerate() {
            let middle = std::f64::consts::TAU * (hour as f64 + 0.5) / 24.0;
            let expected = 3600.0 * (1.0 - middle.cos());
            // Five standard deviations, and what a straight line across an hour misses.
            assert!((found - expected).abs() < 5.0 * expected.sqrt() + 30.0, "hour {hour}: {found} for {expected}");
        }
    }

    #[test]
    fn times_never_go_back() {
        for law in ["at-once", "poisson:1000000", "bursts:3@0.1", "day:5"] {
            let mut times = Times::new(law.parse().unwrap(), 8);
            let drawn: Vec<f64> = (0..10_000).map(|_| times.next()).collect();
            assert!(drawn.is_sorted(), "{law}");
        }
    }
}
