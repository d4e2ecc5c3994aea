//! The figures of `bench`, as `--json` has them.

use serde::Serialize;

use super::measure::{Point, Sweep, quantile};
use crate::model::StepTimes;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub model: ModelFigures,
    pub device: Device,
    /// What keys and values are kept as; for the table only.
    #[serde(skip)]
    pub kv_type: String,
    /// 1 GB = 1e9 bytes.
    pub memory_bandwidth_gb_per_s: f64,
    pub decode: Vec<Decode>,
    pub prefill: Vec<Prefill>,
    /// For `--parts` only.
    #[serde(skip)]
    pub parts: Vec<Parts>,
}

/// Where the time of some passes went.
#[derive(Clone, Debug)]
pub struct Parts {
    pub users: usize,
    /// Prompts; else decode steps.
    pub prefill: bool,
    pub times: StepTimes,
    pub passes: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct ModelFigures {
    pub name: String,
    /// None for a synthetic model, as is `sha256`.
    pub file: Option<String>,
    pub sha256: Option<String>,
    pub parameters: u64,
    /// Bytes of weights that a step reads: embeddings count only where they are the output matrix too.
    pub weight_bytes: u64,
    pub types: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct Device {
    pub cpu: String,
    pub kernels: String,
    pub threads: usize,
}

/// Decode at one number of users.
#[derive(Clone, Debug, Serialize)]
pub struct Decode {
    pub users: usize,
    /// Positions that each user has computed before the first step; one more with each step.
    pub context: usize,
    pub steps: usize,
    pub step_ms_median: f64,
    pub step_ms_p95: f64,
    /// Of all users: users x steps / the sum of the steps' times.
    pub tokens_per_s: f64,
    pub tokens_per_s_per_user: f64,
    /// Over one user in this run; None when that was not measured.
    pub speedup: Option<f64>,
    /// `weight_bytes` / users.
    pub weight_bytes_per_token: f64,
    /// `weight_bytes` x steps / the sum of the steps' times.
    pub bandwidth_gb_per_s: f64,
    /// Of the measured bandwidth.
    pub bandwidth_share: f64,
}

/// Prompts of so many users together.
#[derive(Clone, Debug, Serialize)]
pub struct Prefill {
    pub users: usize,
    /// Of each.
    pub prompt_tokens: usize,
    /// Of all users.
    pub tokens_per_s: f64,
}

impl Report {
    /// Takes a point in, and says what it comes to.
    pub fn add(&mut self, sweep: &Sweep, point: &Point) {
        if let Some(seconds) = point.prefill {
            let tokens_per_s = (point.users * sweep.prompt_tokens) as f64 / seconds;
            self.prefill.push(Prefill { users: point.users, prompt_tokens: sweep.prompt_tokens, tokens_per_s });
        }
        let (times, passes) = point.prefill_parts;
        let prefill = Parts { users: point.users, prefill: true, times, passes };
        let decode = Parts { users: point.users, prefill: false, times: point.decode_parts, passes: point.steps.len() };
        self.parts.extend([prefill, decode].into_iter().filter(|parts| parts.passes > 0));
        if !point.steps.is_empty() {
            self.decode.push(self.decode(sweep, point));
        }
    }

    fn decode(&self, sweep: &Sweep, point: &Point) -> Decode {
        let (users, steps) = (point.users as f64, point.steps.len() as f64);
        let seconds: f64 = point.steps.iter().sum();
        let tokens_per_s = users * steps / seconds;
        let bandwidth = self.model.weight_bytes as f64 * steps / seconds / 1e9;
        let alone = self.decode.iter().find(|decode| decode.users == 1).map(|decode| decode.tokens_per_s);
        let alone = alone.or((point.users == 1).then_some(tokens_per_s));
        Decode {
            users: point.users,
            context: sweep.prompt_tokens,
            steps: point.steps.len(),
            step_ms_median: quantile(&point.steps, 0.5) * 1e3,
            step_ms_p95: quantile(&point.steps, 0.95) * 1e3,
            tokens_per_s,
            tokens_per_s_per_user: tokens_per_s / users,
            speedup: alone.map(|alone| tokens_per_s / alone),
            weight_bytes_per_token: self.model.weight_bytes as f64 / users,
            bandwidth_gb_per_s: bandwidth,
            bandwidth_share: bandwidth / self.memory_bandwidth_gb_per_s,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A model of 100 MB on a machine of 50 GB/s, with a point for each number of users: their steps take so many ms.
    pub fn report(points: &[(usize, &[f64])]) -> Report {
        let users: Vec<usize> = points.iter().map(|(users, _)| *users).collect();
        let sweep = Sweep::new(&users, 128, 4).unwrap();
        let mut report = Report {
            model: ModelFigures {
                name: "some model".into(),
                file: Some("some.gguf".into()),
                sha256: Some("ab".repeat(32)),
                parameters: 134_500_000,
                weight_bytes: 100_000_000,
                types: "Q4_1".into(),
            },
            device: Device { cpu: "Some CPU".into(), kernels: "avx2".into(), threads: 2 },
            kv_type: "f16".into(),
            memory_bandwidth_gb_per_s: 50.0,
            decode: Vec::new(),
            prefill: Vec::new(),
            parts: Vec::new(),
        };
        for (users, ms) in points {
            let steps = ms.iter().map(|ms| ms / 1e3).collect();
            report.add(&sweep, &Point { users: *users, prefill: Some(0.064), steps, ..Point::default() });
        }
        report
    }

    #[test]
    fn figures_follow_their_definitions() {
        let report = report(&[(1, &[2.0, 3.0, 2.0, 3.0]), (10, &[5.0, 5.0, 4.0, 6.0])]);
        let [one, ten] = report.decode.as_slice() else { panic!("two points") };
        assert!((one.tokens_per_s - 400.0).abs() < 1e-9 && (one.step_ms_median, one.step_ms_p95) == (2.0, 3.0));
        assert!((one.bandwidth_gb_per_s - 40.0).abs() < 1e-9 && (one.bandwidth_share - 0.8).abs() < 1e-9);
        assert!((ten.tokens_per_s - 2000.0).abs() < 1e-9 && (ten.tokens_per_s_per_user - 200.0).abs() < 1e-9);
        assert!((one.speedup.unwrap() - 1.0).abs() < 1e-9 && (ten.speedup.unwrap() - 5.0).abs() < 1e-9);
        assert_eq!(ten.weight_bytes_per_token, 10_000_000.0);
        assert!((report.prefill[1].tokens_per_s - 20_000.0).abs() < 1e-6);
    }

    #[test]
    fn without_one_user_there_is_no_speed_up() {
        assert_eq!(report(&[(2, &[1.0]), (4, &[1.0])]).decode.iter().filter_map(|decode| decode.speedup).count(), 0);
    }

    #[test]
    fn a_point_that_was_stopped_leaves_out_what_was_not_measured() {
        let mut report = report(&[(1, &[1.0])]);
        let sweep = Sweep::new(&[2], 128, 4).unwrap();
        report.add(&sweep, &Point { users: 2, ..Point::default() });
        assert_eq!((report.decode.len(), report.prefill.len()), (1, 1));
        report.add(&sweep, &Point { users: 2, prefill: Some(1.0), steps: vec![1.0], ..Point::default() });
        assert_eq!((report.decode[1].steps, report.prefill.len()), (1, 2));
    }
}
