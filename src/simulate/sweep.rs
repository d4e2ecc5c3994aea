//! Points of a sweep, and where its knee is.

/// Points at most.
const MAX_POINTS: usize = 64;

/// Values that a sweep takes, ascending, each once.
#[derive(Clone, Debug, PartialEq)]
pub struct Points(Vec<f64>);

/// No points to take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPoints {
    #[error("a sweep has from 2 to {MAX_POINTS} points, and {0} are asked for")]
    Count(usize),
    #[error("a sweep goes from a smaller value to a larger one, both above 0")]
    Range,
}

impl Points {
    /// From `low` to `high`, each larger than the one before by the same factor; whole numbers if `whole`, where points
    /// that fall together count once.
    ///
    /// # Errors
    /// When the ends are no range of positive numbers, or there are too few points or too many.
    pub fn geometric(low: f64, high: f64, count: usize, whole: bool) -> Result<Points, InvalidPoints> {
        if !(low > 0.0 && low < high && high.is_finite()) {
            return Err(InvalidPoints::Range);
        }
        if !(2..=MAX_POINTS).contains(&count) {
            return Err(InvalidPoints::Count(count));
        }
        let factor = (high / low).powf(1.0 / (count - 1) as f64);
        // The ends are exact: powers are not.
        let inner = (1..count - 1).map(|at| low * factor.powi(at as i32));
        Points::list(std::iter::once(low).chain(inner).chain([high]).collect(), whole)
    }

    /// These values.
    ///
    /// # Errors
    /// When one is not positive, or there are none or too many.
    pub fn list(mut values: Vec<f64>, whole: bool) -> Result<Points, InvalidPoints> {
        if whole {
            values.iter_mut().for_each(|value| *value = value.round());
        }
        if !values.iter().all(|value| *value > 0.0 && value.is_finite()) {
            return Err(InvalidPoints::Range);
        }
        values.sort_by(f64::total_cmp);
        values.dedup();
        if values.is_empty() || values.len() > MAX_POINTS { Err(InvalidPoints::Count(values.len())) } else { Ok(Points(values)) }
    }

    pub fn values(&self) -> &[f64] {
        &self.0
    }
}

/// Kleinrock's power: tokens a second of all, divided by the mean seconds from asking to the last token ("Power and
/// deterministic rules of thumb for probabilistic problems in computer communications", ICC 1979). It grows while more
/// load brings more tokens, and falls once it only brings longer waits. None when nothing ended.
pub fn power(tokens_per_s: f64, mean_seconds: Option<f64>) -> Option<f64> {
    mean_seconds.filter(|seconds| *seconds > 0.0).map(|seconds| tokens_per_s / seconds)
}

/// The knee of a sweep: the point with the greatest power, the first of several. None when none has any.
pub fn knee(powers: &[Option<f64>]) -> Option<usize> {
    let known = powers.iter().enumerate().filter_map(|(at, power)| Some((at, (*power)?)));
    known
        .fold(
            None,
            |best: Option<(usize, f64)>, point| if best.is_some_and(|best| best.1 >= point.1) { best } else { Some(point) },
        )
        .map(|best| best.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_apart_by_one_factor() {
        assert_eq!(Points::geometric(1.0, 1000.0, 4, true).unwrap().values(), [1.0, 10.0, 100.0, 1000.0]);
        let points = Points::geometric(10.0, 400.0, 8, false).unwrap();
        let factors: Vec<f64> = points.values().windows(2).map(|pair| pair[1] / pair[0]).collect();
        assert!(factors.iter().all(|factor| (factor / factors[0] - 1.0).abs() < 1e-9), "{factors:?}");
        assert_eq!(Points::geometric(1.0, 3.0, 20, true).unwrap().values(), [1.0, 2.0, 3.0]);
        assert_eq!(Points::list(vec![4.0, 1.0, 4.0], true).unwrap().values(), [1.0, 4.0]);
    }

    #[test]
    fn what_is_no_sweep_is_refused() {
        for (low, high) in [(0.0, 5.0), (5.0, 5.0), (5.0, 1.0), (1.0, f64::INFINITY), (f64::NAN, 2.0)] {
            assert_eq!(Points::geometric(low, high, 4, false), Err(InvalidPoints::Range));
        }
        for count in [0, 1, 65] {
            assert_eq!(Points::geometric(1.0, 5.0, count, false), Err(InvalidPoints::Count(count)));
        }
        assert_eq!(Points::list(vec![0.2], true), Err(InvalidPoints::Range));
    }

    #[test]
    fn the_knee_is_where_power_is_greatest() {
        // A machine that gives 100 tokens a second to 4 users at most, 10 s each until then.
        let points = [1.0, 2.0, 4.0, 8.0, 16.0].map(|users: f64| (25.0 * users.min(4.0), 10.0 * (users / 4.0).max(1.0)));
        assert_eq!(knee(&points.map(|(rate, seconds)| power(rate, Some(seconds)))), Some(2));
        assert_eq!(knee(&[None, Some(1.0), None, Some(1.0)]), Some(1));
        assert_eq!(knee(&[power(5.0, None), None]), None);
    }
}
