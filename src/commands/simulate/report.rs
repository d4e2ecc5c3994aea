//! The figures of `simulate`, as `--json` has them.

use serde::Serialize;

use super::plan::Settings;
use crate::simulate::{Figures, Timeline, knee, power};

/// One simulation.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    #[serde(flatten)]
    pub figures: Figures,
    /// Tokens a second of all, divided by the mean time from asking to the last token. None when nothing was completed.
    pub power: Option<f64>,
    pub seed: u64,
    /// What it took to simulate.
    pub wall_s: f64,
    /// Stopped before its end.
    pub interrupted: bool,
    pub settings: Settings,
    /// For the charts only.
    #[serde(skip)]
    pub timeline: Timeline,
}

impl Report {
    pub fn power(figures: &Figures) -> Option<f64> {
        power(figures.tokens_per_s, figures.e2e_s.mean)
    }
}

/// One point of a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    pub value: f64,
    #[serde(flatten)]
    pub report: Report,
}

/// A sweep.
#[derive(Clone, Debug, Serialize)]
pub struct SweepReport {
    /// What was changed.
    pub sweep: &'static str,
    /// Ascending.
    pub points: Vec<Point>,
    /// Value of the point with the greatest power.
    pub knee: Option<f64>,
}

impl SweepReport {
    /// Points of a simulation that was stopped count for the knee no more than they say.
    pub fn new(sweep: &'static str, points: Vec<Point>) -> SweepReport {
        let powers: Vec<Option<f64>> =
            points.iter().filter(|point| !point.report.interrupted).map(|point| point.report.power).collect();
        let knee = knee(&powers).map(|at| points[at].value);
        SweepReport { sweep, points, knee }
    }
}
