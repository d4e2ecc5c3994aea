//! Percentiles of any number of times in a fixed amount of memory.

use serde::Serialize;

/// Seconds of whole nanoseconds.
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Bits of a value below its highest that its bucket keeps.
const KEPT: u32 = 7;
/// Buckets of one power of two.
const STEP: usize = 1 << KEPT;
const BUCKETS: usize = (64 - KEPT as usize + 1) * STEP;

/// Counts of nanoseconds in buckets whose width grows with the value, as in HdrHistogram (Tene, 2012): values below
/// 128 are exact, above that a bucket is at most a 128th of its values wide. A percentile is given as the middle of its
/// bucket, so it is within 1/256 (0.4 %) of the value that has this rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    largest: u64,
}

/// What a histogram comes to, in seconds; all None when nothing was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    pub p50: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub mean: Option<f64>,
    pub max: Option<f64>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], total: 0, sum: 0, largest: 0 }
    }
}

fn bucket(value: u64) -> usize {
    let shift = (63 - KEPT).saturating_sub(value.leading_zeros());
    // The highest bit of `value >> shift` is at KEPT, except for small values, which are their own buckets.
    shift as usize * STEP + (value >> shift) as usize
}

/// The middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let shift = (bucket / STEP).saturating_sub(1);
    let low = ((bucket - shift * STEP) as u64) << shift;
    low + ((1u64 << shift) - 1) / 2
}

impl Histogram {
    /// Counts `value` so many times.
    pub fn add(&mut self, value: u64, times: u64) {
        if times > 0 {
            self.counts[bucket(value)] += times;
            self.total += times;
            self.sum += u128::from(value) * u128::from(times);
            self.largest = self.largest.max(value);
        }
    }

    /// How many values were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The smallest value that at least this share of all does not exceed (nearest rank), as its bucket's middle.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let rank = ((share * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let mut below = 0;
        let found = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        found.map(|bucket| middle(bucket).min(self.largest))
    }

    /// The mean, which is exact.
    pub fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum as f64 / self.total as f64)
    }

    /// In seconds.
    pub fn summary(&self) -> Summary {
        let quantile = |share| self.quantile(share).map(seconds);
        Summary {
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            mean: self.mean().map(|mean| mean / 1e9),
            max: (self.total > 0).then(|| seconds(self.largest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn every_value_lies_within_half_a_bucket_of_its_middle() {
        let mut random = SplitMix64(1);
        let drawn = (0..200_000).map(|at| random.bits() >> (at % 64));
        let edges = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for value in drawn.chain(edges).chain([u64::MAX]) {
            let found = middle(bucket(value));
            let error = found.abs_diff(value) as f64 / value.max(1) as f64;
            assert!(error <= 1.0 / 256.0, "{value} is given as {found}");
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn buckets_are_in_order_and_leave_no_gap() {
        let values: Vec<u64> = (0..100_000).chain((1..50).map(|bit| 1 << bit)).collect();
        let mut sorted = values.clone();
        sorted.sort_unstable();
        assert!(sorted.is_sorted_by_key(|value| bucket(*value)));
        for value in 0..100_000 {
            assert!(bucket(value + 1) - bucket(value) <= 1, "after {value}");
        }
    }

    #[test]
    fn quantiles_are_within_one_per_cent_of_the_sorted_values() {
        let mut random = SplitMix64(7);
        let mut values: Vec<u64> = (0..20_001).map(|_| crate::simulate::nanoseconds((2.0 * random.normal()).exp())).collect();
        let mut histogram = Histogram::default();
        values.iter().for_each(|value| histogram.add(*value, 1));
        values.sort_unstable();
        for share in [0.0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0] {
            let rank = ((share * values.len() as f64).ceil() as usize).max(1);
            let (exact, found) = (values[rank - 1] as f64, histogram.quantile(share).unwrap() as f64);
            assert!((found / exact - 1.0).abs() <= 0.01, "{share}: {found} for {exact}");
        }
        let mean = values.iter().map(|value| *value as f64).sum::<f64>() / values.len() as f64;
        assert!((histogram.mean().unwrap() / mean - 1.0).abs() < 1e-12);
        assert_eq!(histogram.summary().max, Some(seconds(*values.last().unwrap())));
    }

    #[test]
    fn nothing_counted_is_nothing_known() {
        let mut histogram = Histogram::default();
        histogram.add(5, 0);
        assert_eq!((histogram.summary(), histogram.total()), (Summary::default(), 0));
        histogram.add(5, 3);
        assert_eq!((histogram.quantile(0.5), histogram.total()), (Some(5), 3));
    }
}
