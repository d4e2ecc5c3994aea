//! Activations as the integer kernels want them.
//!
//! Sixteen bits and not eight: the rounding of 8-bit activations moves logits by tenths, which is more than often lies
//! between the first two candidates, so a greedy answer soon leaves the one that float arithmetic gives. With 16 bits
//! the error is 256 times smaller, below that of the other float operations of a step, and the answers are the same.
//! The price is small: one user waits for memory, not for arithmetic.
//!
//! All sums of a group are exact in 32 bits, so nothing depends on the order in which a kernel adds: a code is at most
//! 32767 in magnitude, a weight's at most 128, and `32 * 128 * 32767 < 2^31`. For weights of 4 bits (`32 * 15 * 32767`)
//! and half groups of 6 (`16 * 32 * 32767`) the sum is below 2^24, so that its conversion to a float is exact as well;
//! for those of 8 bits it is rounded once, to nearest, in every kernel family.

use std::marker::PhantomData;
use std::ops::Range;

use super::layout::GROUP;
use super::vector;

/// The largest code.
const LARGEST: f32 = 32767.0;

/// 32 activations as 16-bit integers with one scale.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ActGroup {
    pub codes: [i16; GROUP],
    /// Activation = code * scale.
    pub scale: f32,
    /// scale * sum of codes: what a weight's min is multiplied with.
    pub scaled_sum: f32,
    /// The same of inputs 0..16 and of 16..32.
    pub half_sums: [f32; 2],
}

impl ActGroup {
    pub const ZERO: ActGroup = ActGroup { codes: [0; GROUP], scale: 0.0, scaled_sum: 0.0, half_sums: [0.0; 2] };

    /// Quantizes 32 numbers: scale = largest magnitude / 32767, codes rounded to nearest, ties to even. A group that is
    /// zero (or as good as) becomes zeros, one with an infinity or a NaN becomes zeros with a NaN for its scale.
    #[inline(always)]
    pub(super) fn quantize(values: &[f32; GROUP]) -> ActGroup {
        // Magnitudes compare as integers just as they do as floats, and a NaN is above all of them.
        let magnitude = values.iter().fold(0, |max: u32, value| max.max(value.to_bits() & 0x7fff_ffff));
        let largest = f32::from_bits(magnitude);
        if magnitude >= f32::INFINITY.to_bits() {
            return ActGroup { scale: f32::NAN, scaled_sum: f32::NAN, half_sums: [f32::NAN; 2], ..ActGroup::ZERO };
        }
        if largest < 1e-30 {
            return ActGroup::ZERO;
        }
        let (scale, inverse) = (largest / LARGEST, LARGEST / largest);
        let mut group = ActGroup { scale, ..ActGroup::ZERO };
        let mut sums = [0i32; 2];
        for (half, sum) in sums.iter_mut().enumerate() {
            for index in half * (GROUP / 2)..(half + 1) * (GROUP / 2) {
                let rounded = vector::round_to_int(values[index], inverse);
                group.codes[index] = rounded as i16;
                *sum += rounded;
            }
        }
        group.scaled_sum = scale * (sums[0] + sums[1]) as f32;
        group.half_sums = sums.map(|sum| scale * sum as f32);
        group
    }

    /// Inputs `2 * pair` and `2 * pair + 1` in one integer, for a broadcast.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn pair(&self, pair: usize) -> i32 {
        let [low, high] = self.codes.as_chunks::<2>().0[pair];
        i32::from(low) & 0xffff | i32::from(high) << 16
    }
}

/// Rows of activations lie in bands of at most so many, and a band's groups lie group after group, `[group][row]`: one
/// pointer then reaches all rows of a tile.
pub(super) const BAND: usize = 8;

/// The rows of band `index` out of `rows`: bands are as even as can be.
#[inline(always)]
pub(super) fn band(rows: usize, index: usize) -> Range<usize> {
    let bands = rows.div_ceil(BAND);
    rows * index / bands..rows * (index + 1) / bands
}

/// The band that a row is in.
pub(super) fn band_of(rows: usize, row: usize) -> Range<usize> {
    // Bands differ by one row at most, so the division is never past the band and seldom short of it.
    let mut index = row * rows.div_ceil(BAND) / rows;
    while band(rows, index).end <= row {
        index += 1;
    }
    band(rows, index)
}

/// One row of activations to be written: its groups are `stride` apart.
pub(super) struct RowOut<'a> {
    first: *mut ActGroup,
    stride: usize,
    len: usize,
    groups: PhantomData<&'a mut ActGroup>,
}

impl<'a> RowOut<'a> {
    /// A row by itself.
    pub fn of(groups: &'a mut [ActGroup]) -> RowOut<'a> {
        RowOut { first: groups.as_mut_ptr(), stride: 1, len: groups.len(), groups: PhantomData }
    }

    /// # Safety
    /// `len` groups, `stride` apart from `first` on, are good to be written and nobody else's.
    pub unsafe fn new(first: *mut ActGroup, stride: usize, len: usize) -> RowOut<'a> {
        RowOut { first, stride, len, groups: PhantomData }
    }

    #[inline(always)]
    pub fn put(&mut self, index: usize, group: ActGroup) {
        assert!(index < self.len, "group {index} of {}", self.len);
        // SAFETY: in range, as just checked, and ours alone.
        unsafe { self.first.add(index * self.stride).write(group) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_hold_every_row_once() {
        for rows in 1..200usize {
            let bands: Vec<Range<usize>> = (0..rows.div_ceil(BAND)).map(|index| band(rows, index)).collect();
            assert!(bands.iter().all(|band| (1..=BAND).contains(&band.len())), "{rows} rows: {bands:?}");
            assert_eq!(bands.iter().cloned().flatten().collect::<Vec<_>>(), (0..rows).collect::<Vec<_>>());
            for row in 0..rows {
                assert!(band_of(rows, row).contains(&row), "row {row} of {rows}");
                assert!(bands.contains(&band_of(rows, row)));
            }
        }
    }

    #[test]
    fn codes_give_the_numbers_back_to_sixteen_bits() {
        let values: [f32; GROUP] = std::array::from_fn(|index| (index as f32 * 0.37).sin() * 3.0 - 0.5);
        let group = ActGroup::quantize(&values);
        let largest = values.iter().fold(0f32, |largest, value| largest.max(value.abs()));
        for (code, value) in group.codes.iter().zip(values) {
            assert!((f32::from(*code) * group.scale - value).abs() <= largest / 32767.0 * 0.51, "{code} for {value}");
        }
        assert_eq!(group.codes.iter().map(|code| code.unsigned_abs()).max(), Some(32767));
        let sum: i32 = group.codes.iter().map(|code| i32::from(*code)).sum();
        assert_eq!(group.scaled_sum, group.scale * sum as f32);
    }
}
