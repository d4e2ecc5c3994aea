//! A seeded stream of random numbers for everything that must come out the same again.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From -1 to 1.
    pub fn signed(&mut self) -> f32 {
        (self.bits() >> 40) as f32 * (2.0 / (1u64 << 24) as f32) - 1.0
    }

    /// In `0.0..1.0`, all 53 bits of it random.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// In `low..=high`, each as likely (to within 2^-64 of the range's length).
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        let span = u128::from(high.saturating_sub(low)) + 1;
        low + ((u128::from(self.bits()) * span) >> 64) as u64
    }

    /// Exponentially distributed with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.unit()).ln() * mean
    }

    /// Of the standard normal distribution (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// One well mixed number for another: seeds of streams that have nothing to do with each other.
pub fn mix(value: u64) -> u64 {
    SplitMix64(value).bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        // The first outputs for seed 1234567, as in the reference implementation's test vectors.
        let mut random = SplitMix64(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(expected.map(|_| random.bits()), expected);
    }

    #[test]
    fn means_and_spreads_are_those_of_the_distributions() {
        const N: usize = 200_000;
        let mut random = SplitMix64(1);
        let mut moments = |draw: &mut dyn FnMut(&mut SplitMix64) -> f64| {
            let values: Vec<f64> = (0..N).map(|_| draw(&mut random)).collect();
            let mean = values.iter().sum::<f64>() / N as f64;
            (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / N as f64).sqrt())
        };
        // Five standard errors, all below 0.02 of these spreads.
        let near = |found: (f64, f64), mean: f64, spread: f64| {
            assert!((found.0 - mean).abs() < 0.02 * spread && (found.1 / spread - 1.0).abs() < 0.02, "{found:?}");
        };
        near(moments(&mut |random| random.unit()), 0.5, 1.0 / 12f64.sqrt());
        near(moments(&mut |random| random.exponential(3.0)), 3.0, 3.0);
        near(moments(&mut SplitMix64::normal), 0.0, 1.0);
        near(moments(&mut |random| random.range(10, 19) as f64), 14.5, (99.0f64 / 12.0).sqrt());
    }

    #[test]
    fn a_range_reaches_both_ends_and_no_further() {
        let mut random = SplitMix64(2);
        let mut seen = [0; 4];
        (0..1000).for_each(|_| seen[random.range(7, 10) as usize - 7] += 1);
        assert!(seen.iter().all(|count| *count > 150), "{seen:?}");
        assert_eq!(random.range(5, 5), 5);
        random.range(0, u64::MAX);
    }
}
