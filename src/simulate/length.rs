//! How long prompts and answers are.

use std::fmt;
use std::str::FromStr;

use crate::random::SplitMix64;

/// Tokens of one prompt or one answer at most.
pub const MAX_TOKENS: usize = 1 << 20;

/// A distribution of numbers of tokens, always from 1 to [`MAX_TOKENS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    Fixed(usize),
    /// Each number from the first to the second, both included, as often.
    Uniform(usize, usize),
    /// With this mean; `sigma` is the standard deviation of its natural logarithm. Many short ones and a long tail, as
    /// conversations have.
    LogNormal {
        mean: f64,
        sigma: f64,
    },
}

/// No distribution of lengths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no number of tokens: write 200, 100..300 or lognormal:MEAN,SIGMA (tokens from 1 to {MAX_TOKENS}, sigma from 0 to 5)"
)]
pub struct InvalidLength(String);

impl Length {
    pub fn draw(self, random: &mut SplitMix64) -> usize {
        match self {
            Length::Fixed(tokens) => tokens,
            Length::Uniform(low, high) => random.range(low as u64, high as u64) as usize,
            Length::LogNormal { mean, sigma } => {
                // The mean of a log-normal distribution is exp(mu + sigma^2 / 2).
                let mu = mean.ln() - 0.5 * sigma * sigma;
                ((mu + sigma * random.normal()).exp().round() as usize).clamp(1, MAX_TOKENS)
            }
        }
    }
}

impl FromStr for Length {
    type Err = InvalidLength;

    fn from_str(text: &str) -> Result<Length, InvalidLength> {
        let error = || InvalidLength(text.to_owned());
        let tokens = |text: &str| {
            let number = text.trim().parse().ok();
            number.filter(|tokens| (1..=MAX_TOKENS).contains(tokens)).ok_or_else(error)
        };
        if let Some(parameters) = text.strip_prefix("lognormal:") {
            let (mean, sigma) = parameters.split_once(',').ok_or_else(error)?;
            let mean: f64 = mean.trim().parse().map_err(|_| error())?;
            let sigma: f64 = sigma.trim().parse().map_err(|_| error())?;
            let fine = (1.0..=MAX_TOKENS as f64).contains(&mean) && (0.0..=5.0).contains(&sigma);
            return if fine { Ok(Length::LogNormal { mean, sigma }) } else { Err(error()) };
        }
        match text.split_once("..") {
            Some((low, high)) => {
                let (low, high) = (tokens(low)?, tokens(high)?);
                if low <= high { Ok(Length::Uniform(low, high)) } else { Err(error()) }
            }
            None => tokens(text).map(Length::Fixed),
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Length::Fixed(tokens) => write!(f, "{tokens}"),
            Length::Uniform(low, high) => write!(f, "{low}..{high}"),
            Length::LogNormal { mean, sigma } => write!(f, "lognormal:{mean},{sigma}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_written_again() {
        for text in ["1", "4080", "10..20", "7..7", "lognormal:300,1.2"] {
            assert_eq!(text.parse::<Length>().unwrap().to_string(), text);
        }
        for bad in ["", "0", "-1", "1.5", "20..10", "0..5", "..", "5..", "1048577", "lognormal:", "lognormal:5", "lognormal:0,1"]
        {
            assert!(bad.parse::<Length>().unwrap_err().to_string().contains(&format!("`{bad}`")));
        }
        for bad in ["lognormal:nan,1", "lognormal:10,nan", "lognormal:10,6", "lognormal:1e9,1", "normal:5,1"] {
            assert!(bad.parse::<Length>().is_err(), "{bad}");
        }
    }

    #[test]
    fn means_are_those_asked_for() {
        for (text, mean) in [("7", 7.0), ("100..300", 200.0), ("lognormal:400,1", 400.0), ("lognormal:50,0", 50.0)] {
            let (length, mut random): (Length, _) = (text.parse().unwrap(), SplitMix64(3));
            let sum: usize = (0..200_000).map(|_| length.draw(&mut random)).sum();
            let found = sum as f64 / 200_000.0;
            assert!((found / mean - 1.0).abs() < 0.02, "{text}: {found}");
        }
    }

    #[test]
    fn the_longest_tail_stays_in_bounds() {
        let (length, mut random) = (Length::LogNormal { mean: MAX_TOKENS as f64, sigma: 5.0 }, SplitMix64(4));
        assert!((0..10_000).all(|_| (1..=MAX_TOKENS).contains(&length.draw(&mut random))));
    }
}
