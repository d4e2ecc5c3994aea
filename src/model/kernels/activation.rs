//! Activations as the integer kernels want them.

use super::layout::GROUP;
use super::vector;

/// 32 activations as signed bytes with one scale, and the sums that turn unsigned weight codes into signed ones.
///
/// With weight codes `u = w + offset`, `sum(w * a) = sum(u * a) - offset * sum(a)`: the last term starts the
/// integer accumulator, so nothing is rounded.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct ActGroup {
    pub codes: [i8; GROUP],
    /// Activation = code * scale.
    pub scale: f32,
    /// scale * sum of codes: what a weight's min is multiplied with.
    pub scaled_sum: f32,
    /// -8 * sum of codes.
    pub minus_8: i32,
    /// -128 * sum of codes.
    pub minus_128: i32,
    /// -32 * sum of codes 0..16, and of 16..32.
    pub minus_32: [i32; 2],
    spare: [i32; 2],
}

impl ActGroup {
    pub const ZERO: ActGroup =
        ActGroup { codes: [0; GROUP], scale: 0.0, scaled_sum: 0.0, minus_8: 0, minus_128: 0, minus_32: [0; 2], spare: [0; 2] };

    /// Quantizes 32 numbers: scale = largest magnitude / 127, codes rounded to nearest, ties to even. A group that is
    /// zero (or as good as) becomes zeros, one with an infinity or a NaN becomes zeros with a NaN for its scale.
    #[inline(always)]
    pub(super) fn quantize(values: &[f32; GROUP]) -> ActGroup {
        // Magnitudes compare as integers just as they do as floats, and a NaN is above all of them.
        let magnitude = values.iter().fold(0, |max: u32, value| max.max(value.to_bits() & 0x7fff_ffff));
        let largest = f32::from_bits(magnitude);
        let (scale, inverse) = if magnitude >= f32::INFINITY.to_bits() {
            (f32::NAN, 0.0)
        } else if largest < 1e-30 {
            (0.0, 0.0)
        } else {
            (largest / 127.0, 127.0 / largest)
        };
        let mut codes = [0i8; GROUP];
        let mut sums = [0i32; 2];
        if inverse != 0.0 {
            for (code, value) in codes.iter_mut().zip(values) {
                *code = vector::round_to_int(*value, inverse) as i8;
            }
            for half in 0..2 {
                sums[half] = codes[half * 16..][..16].iter().map(|code| i32::from(*code)).sum();
            }
        }
        let sum = sums[0] + sums[1];
        ActGroup {
            codes,
            scale,
            scaled_sum: scale * sum as f32,
            minus_8: -8 * sum,
            minus_128: -128 * sum,
            minus_32: [-32 * sums[0], -32 * sums[1]],
            spare: [0; 2],
        }
    }
}
