//! Arithmetic over 16 lanes, written once.
//!
//! The functions here are inlined into one wrapper per kernel family, where the compiler turns the 16-lane loops
//! into that family's vectors. Rust neither reorders nor contracts float operations, and `mul_add` is a fused
//! multiply-add everywhere, so all families give the same bits.

use super::activation::{ActGroup, RowOut};
use super::layout::GROUP;
use super::simd::Simd;

pub(super) const LANES: usize = 16;
pub(super) type Lanes = [f32; LANES];

/// Adding this rounds a float of magnitude below 2^22 to an integer (ties to even) and leaves it in the low bits.
const ROUNDER: f32 = 12_582_912.0;

/// `value * factor` as the nearest integer; the product must be below 2^22 in magnitude.
#[inline(always)]
pub(super) fn round_to_int(value: f32, factor: f32) -> i32 {
    value.mul_add(factor, ROUNDER).to_bits() as i32 - ROUNDER.to_bits() as i32
}

/// Adds up 16 lanes in a fixed tree.
#[inline(always)]
pub(super) fn sum_lanes(mut lanes: Lanes) -> f32 {
    for width in [8, 4, 2, 1] {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    lanes[0]
}

/// e to the x, within 2 units in the last place; 0 below -87, as at 88 above that.
///
/// Reduction by powers of two and the Taylor polynomial of degree 7 on half of ln 2 to each side.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_145_75;
    const LN2_LOW: f32 = 1.428_606_8e-6;
    let capped = if x < 88.0 { x } else { 88.0 };
    let held = if capped > -87.0 { capped } else { -87.0 };
    let rounded = held.mul_add(std::f32::consts::LOG2_E, ROUNDER);
    let power = rounded - ROUNDER;
    let rest = power.mul_add(-LN2_LOW, power.mul_add(-LN2_HIGH, held));
    let mut sum = 1.0f32 / 5040.0;
    for term in [1.0f32 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum.mul_add(rest, term);
    }
    let scaled = f32::from_bits(sum.to_bits().wrapping_add(rounded.to_bits() << 23));
    if capped > -87.0 { scaled } else { 0.0 }
}

/// One over the root of the mean square of `x` (plus `eps`): the factor of RMSNorm (Zhang and Sennrich, 2019).
#[inline(always)]
fn rms_factor(x: &[f32], eps: f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = chunk[lane].mul_add(chunk[lane], lanes[lane]);
        }
    }
    for (lane, value) in rest.iter().enumerate() {
        lanes[lane] = value.mul_add(*value, lanes[lane]);
    }
    1.0 / (sum_lanes(lanes) / x.len() as f32 + eps).sqrt()
}

/// RMSNorm of one row.
#[inline(always)]
pub(super) fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let factor = rms_factor(x, eps);
    for ((to, value), weight) in out.iter_mut().zip(x).zip(weight) {
        *to = value * factor * weight;
    }
}

/// RMSNorm of one row, quantized on the way. `x` is a whole number of groups.
#[inline(always)]
pub(super) fn rms_norm_quantize(x: &[f32], weight: &[f32], eps: f32, mut out: RowOut<'_>) {
    let factor = rms_factor(x, eps);
    let (values, _) = x.as_chunks::<GROUP>();
    let (weights, _) = weight.as_chunks::<GROUP>();
    for (index, (values, weights)) in values.iter().zip(weights).enumerate() {
        let mut normed = [0.0; GROUP];
        for index in 0..GROUP {
            normed[index] = values[index] * factor * weights[index];
        }
        out.put(index, ActGroup::quantize(&normed));
    }
}

/// Quantizes one row of a whole number of groups.
#[inline(always)]
pub(super) fn quantize(x: &[f32], mut out: RowOut<'_>) {
    for (index, values) in x.as_chunks::<GROUP>().0.iter().enumerate() {
        out.put(index, ActGroup::quantize(values));
    }
}

/// `gate = silu(gate) * up`, where silu(x) = x / (1 + e^-x).
#[inline(always)]
pub(super) fn silu_mul(gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate = *gate / (1.0 + exp(-*gate)) * up;
    }
}

/// Turns neighbouring pairs by the angles whose cosines and sines are given: rotary positions (Su et al., 2021) for weights
/// whose query and key rows are interleaved, as GGUF has them for Llama. Dimensions past the pairs stay.
#[inline(always)]
pub(super) fn rotate(x: &mut [f32], cos: &[f32], sin: &[f32], factor: f32) {
    let (pairs, _) = x.as_chunks_mut::<2>();
    for ((pair, cos), sin) in pairs.iter_mut().zip(cos).zip(sin) {
        let [a, b] = *pair;
        *pair = [a * cos - b * sin, a * sin + b * cos];
    }
    for value in x.iter_mut() {
        *value *= factor;
    }
}

/// Halves: rounded to the nearest, ties to even; what a half cannot hold becomes the largest that it can.
///
/// # Safety
/// The family's CPU features are there and enabled in the caller.
#[inline(always)]
pub(super) unsafe fn to_halves<V: Simd>(x: &[f32], out: &mut [u16]) {
    assert!(x.len() == out.len());
    let most = half::f16::MAX.to_f32_const();
    for (x, out) in x.chunks(LANES).zip(out.chunks_mut(LANES)) {
        let (mut lanes, mut halves) = ([0.0; LANES], [0; LANES]);
        for (lane, value) in lanes.iter_mut().zip(x) {
            *lane = value.clamp(-most, most);
        }
        // SAFETY: both are arrays of 16; the features are the caller's.
        unsafe { V::load(lanes.as_ptr()).store_f16(halves.as_mut_ptr()) };
        out.copy_from_slice(&halves[..out.len()]);
    }
}

/// What turns a vector into 8-bit codes and back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CodeScale {
    /// Number = code * scale.
    pub scale: f32,
    /// Code = number * inverse, rounded; 0 where all codes are 0.
    pub inverse: f32,
}

/// The largest 8-bit code: GGML's Q8_0 leaves -128 out as well.
const LARGEST_CODE: f32 = 127.0;

/// The scale of a vector's 8-bit codes: its largest magnitude / 127. One that is zero (or as good as) gets zeros, one with
/// an infinity or a NaN in it gets a NaN, so that nothing makes sense of it.
#[inline(always)]
pub(super) fn code_scale(x: &[f32], scale: &mut CodeScale) {
    // Magnitudes compare as integers just as they do as floats, and a NaN is above all of them.
    let magnitude = x.iter().fold(0, |max: u32, value| max.max(value.to_bits() & 0x7fff_ffff));
    let largest = f32::from_bits(magnitude);
    *scale = if magnitude >= f32::INFINITY.to_bits() {
        CodeScale { scale: f32::NAN, inverse: 0.0 }
    } else if largest < 1e-30 {
        CodeScale::default()
    } else {
        CodeScale { scale: largest / LARGEST_CODE, inverse: LARGEST_CODE / largest }
    };
}

/// 8-bit codes of numbers: rounded to the nearest, ties to even.
#[inline(always)]
pub(super) fn to_codes(x: &[f32], scale: CodeScale, out: &mut [i8]) {
    if scale.inverse == 0.0 {
        return out.fill(0);
    }
    for (x, out) in x.iter().zip(out) {
        *out = round_to_int(*x, scale.inverse) as i8;
    }
}

/// [`exp`] of every element.
#[inline(always)]
pub(super) fn exp_all(x: &mut [f32]) {
    for value in x {
        *value = exp(*value);
    }
}
