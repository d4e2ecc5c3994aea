//! What this machine can do, in the words of a roofline: for `simulate --hardware this-machine`.

use super::bandwidth;
use super::measure::{Bench, Sweep, quantile};
use super::subject::Subject;
use crate::model::KvType;

/// A small model whose weights do not fit in most caches, drawn in a second.
const SHAPE: &str = "smollm2-135m";
/// Its weight type where the one that was asked for cannot be drawn in this shape.
const OTHERWISE: &str = "q4_0";
const PROMPT: usize = 512;
const STEPS: usize = 64;

/// Figures of this machine's memory and of its products, as a forward pass reaches them.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Bytes a second that all threads together read.
    pub bandwidth: f64,
    /// Share of it that decode steps of one user reach with the model's weights.
    pub share: f64,
    /// FLOPs a second of a long prompt: 2 a parameter and token.
    pub flops: f64,
    /// What was measured with: shape and weight type.
    pub model: String,
}

/// Measures with a synthetic model of this weight type (of another one, where it cannot be drawn): a few seconds.
///
/// # Errors
/// When there is no memory, or no thread, to measure with.
pub fn calibrate(threads: usize, weight_type: &str) -> anyhow::Result<Calibration> {
    let bandwidth = bandwidth::measure(threads)?;
    let subject = Subject::synthetic(SHAPE, Some(weight_type)).or_else(|_| Subject::synthetic(SHAPE, Some(OTHERWISE)))?;
    let sweep = Sweep::new(&[1], PROMPT, STEPS)?;
    let mut model = subject.load(&sweep, threads, KvType::F16)?;
    let mut bench = Bench { model: &mut model, sweep: &sweep, stop: &|| false };
    bench.warm_up()?;
    let point = bench.point(1)?;
    let step = quantile(&point.steps, 0.5);
    let prefill = point.prefill.unwrap_or(f64::INFINITY);
    Ok(Calibration {
        bandwidth,
        share: (model.weight_bytes() as f64 / step / bandwidth).min(1.0),
        flops: 2.0 * model.parameters() as f64 * PROMPT as f64 / prefill,
        model: format!("{SHAPE} {}", model.types()),
    })
}
