//! AVX2 with FMA and F16C: eight output rows at a time, each panel in two halves.
//!
//! `vpmaddubsw` adds two products in 16 bits and saturates: 4-bit codes are far from that (8 x 15 x 127 fit), 6-bit codes
//! fit two products twice, and 8-bit codes go through it signed, as magnitude times activation with the sign moved over
//! (2 x 128 x 127 fit).

use std::arch::x86_64::*;

use super::activation::ActGroup;
use super::layout::{Layout, PANEL};
use super::panels::{Inputs, Job, each_tile, run_floats};
use super::simd::x86::Avx2;

/// # Safety
/// The CPU has the features named here; `job.out` is good for the job's rows and columns, and nobody else uses them.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn run(job: &Job<'_>) {
    match job.inputs {
        // SAFETY: the features are on here.
        Inputs::Floats(inputs) => unsafe { run_floats::<Avx2>(job, inputs) },
        Inputs::Quantized(inputs) => {
            let inputs = &inputs[..job.rows * job.groups()];
            each_tile(job.rows, 4, |first, rows| {
                let tile = match rows {
                    1 => tile::<1>,
                    2 => tile::<2>,
                    3 => tile::<3>,
                    _ => tile::<4>,
                };
                // SAFETY: `rows` rows from `first` on are in `inputs`.
                unsafe { tile(job, inputs, first) }
            })
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile<const ROWS: usize>(job: &Job<'_>, inputs: &[ActGroup], first: usize) {
    let groups = job.groups();
    let rows: [&[ActGroup]; ROWS] = std::array::from_fn(|row| &inputs[(first + row) * groups..][..groups]);
    for (index, panel, columns) in job.each_panel() {
        for half in 0..2 {
            let mut sums = [_mm256_setzero_ps(); ROWS];
            // SAFETY: the panel is whole, so each unit has all its bytes.
            unsafe {
                match job.layout {
                    Layout::Q4_0 => sum_simple::<0, ROWS>(panel, half, &rows, &mut sums),
                    Layout::Q4_1 => sum_simple::<1, ROWS>(panel, half, &rows, &mut sums),
                    Layout::Q8_0 => sum_simple::<2, ROWS>(panel, half, &rows, &mut sums),
                    Layout::Q4_K => sum_q4_k(panel, half, &rows, &mut sums),
                    _ => sum_q6_k(panel, half, &rows, &mut sums),
                }
            }
            let columns = columns.saturating_sub(half * 8).min(8);
            for (row, sum) in sums.into_iter().enumerate() {
                // SAFETY: row and columns are the job's own.
                unsafe { store(job, index * PANEL + half * 8, columns, first + row, sum) };
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn store(job: &Job<'_>, column: usize, columns: usize, row: usize, sum: __m256) {
    let mut lanes = [0f32; 8];
    // SAFETY: eight floats; then only columns that are the job's own.
    unsafe {
        _mm256_storeu_ps(lanes.as_mut_ptr(), sum);
        let to = job.out.add(row * job.out_stride + column);
        for (index, value) in lanes[..columns].iter().enumerate() {
            *to.add(index) = if job.add { *to.add(index) + value } else { *value };
        }
    }
}

/// # Safety
/// 16 bytes can be read.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn halves(from: *const u8) -> __m256 {
    // SAFETY: the caller's.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(from.cast()) })
}

/// An activation's four bytes from `quad` on, in every lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn spread(act: &ActGroup, quad: usize) -> __m256i {
    let (quads, _) = act.codes.as_chunks::<4>();
    _mm256_set1_epi32(i32::from_le_bytes(quads[quad].map(|byte| byte as u8)))
}

/// Four vectors of packed codes; the low halves are quads 0..4, the high ones 4..8.
///
/// # Safety
/// A group's 256 bytes can be read from `group` on.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn nibbles(group: *const u8, half: usize) -> [__m256i; 4] {
    let mut out = [_mm256_setzero_si256(); 4];
    for (quad, out) in out.iter_mut().enumerate() {
        // SAFETY: inside the 256 bytes.
        *out = unsafe { _mm256_loadu_si256(group.add(quad * 64 + half * 32).cast()) };
    }
    out
}

/// The sums of 32 products of 4-bit codes. Eight sums of two products of at most 15 x 127 fit 16 bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn dot_nibbles(packed: &[__m256i; 4], act: &ActGroup) -> __m256i {
    let low = _mm256_set1_epi8(15);
    let mut sum = _mm256_setzero_si256();
    for (quad, both) in packed.iter().enumerate() {
        let first = _mm256_and_si256(*both, low);
        let second = _mm256_and_si256(_mm256_srli_epi16::<4>(*both), low);
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(first, spread(act, quad)));
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(second, spread(act, quad + 4)));
    }
    _mm256_madd_epi16(sum, _mm256_set1_epi16(1))
}

/// The sums of 32 products of 8-bit codes, which here become signed by flipping their top bit.
///
/// # Safety
/// A group's 512 bytes can be read from `group` on.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn dot_octets<const ROWS: usize>(group: *const u8, half: usize, acts: [&ActGroup; ROWS]) -> [__m256i; ROWS] {
    let mut sums = [_mm256_setzero_si256(); ROWS];
    for quad in 0..8 {
        // SAFETY: inside the 512 bytes.
        let raised = unsafe { _mm256_loadu_si256(group.add(quad * 64 + half * 32).cast()) };
        let codes = _mm256_xor_si256(raised, _mm256_set1_epi8(-128));
        let magnitudes = _mm256_abs_epi8(codes);
        for (sum, act) in sums.iter_mut().zip(acts) {
            let pairs = _mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(spread(act, quad), codes));
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        }
    }
    sums
}

/// `product * (scale * activation scale) + sum`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scaled(product: __m256i, scale: __m256, act: &ActGroup, sum: __m256) -> __m256 {
    let scale = _mm256_mul_ps(scale, _mm256_set1_ps(act.scale));
    _mm256_fmadd_ps(_mm256_cvtepi32_ps(product), scale, sum)
}

/// Q4_0 (0), Q4_1 (1) and Q8_0 (2).
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn sum_simple<const LAYOUT: u8, const ROWS: usize>(
    panel: &[u8],
    half: usize,
    rows: &[&[ActGroup]; ROWS],
    sums: &mut [__m256; ROWS],
) {
    let (code_bytes, unit_bytes) = match LAYOUT {
        0 => (256, Layout::Q4_0.unit_bytes()),
        1 => (256, Layout::Q4_1.unit_bytes()),
        _ => (512, Layout::Q8_0.unit_bytes()),
    };
    for (group, unit) in panel.chunks_exact(unit_bytes).enumerate() {
        // SAFETY: a unit is its codes, then 32 bytes of scales, for Q4_1 32 of mins.
        unsafe {
            let unit = unit.as_ptr();
            let acts: [&ActGroup; ROWS] = std::array::from_fn(|row| &rows[row][group]);
            let scale = halves(unit.add(code_bytes + half * 16));
            if LAYOUT == 2 {
                let products = dot_octets(unit, half, acts);
                for row in 0..ROWS {
                    sums[row] = scaled(products[row], scale, acts[row], sums[row]);
                }
                continue;
            }
            let packed = nibbles(unit, half);
            for row in 0..ROWS {
                let mut product = dot_nibbles(&packed, acts[row]);
                if LAYOUT == 0 {
                    product = _mm256_add_epi32(product, _mm256_set1_epi32(acts[row].minus_8));
                }
                sums[row] = scaled(product, scale, acts[row], sums[row]);
                if LAYOUT == 1 {
                    let min = halves(unit.add(288 + half * 16));
                    sums[row] = _mm256_fmadd_ps(min, _mm256_set1_ps(acts[row].scaled_sum), sums[row]);
                }
            }
        }
    }
}

/// # Safety
/// `panel` holds whole units of Q4_K, each row eight groups for each.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn sum_q4_k<const ROWS: usize>(panel: &[u8], half: usize, rows: &[&[ActGroup]; ROWS], sums: &mut [__m256; ROWS]) {
    for (unit_index, unit) in panel.chunks_exact(Layout::Q4_K.unit_bytes()).enumerate() {
        // SAFETY: a unit is two vectors of halves and eight groups of 288 bytes.
        unsafe {
            let unit = unit.as_ptr();
            let d = halves(unit.add(half * 16));
            let dmin = halves(unit.add(32 + half * 16));
            for inner in 0..8 {
                let at = unit.add(64 + inner * 288);
                let packed = nibbles(at, half);
                let bytes = |from: *const u8| _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast())));
                let scale = _mm256_mul_ps(d, bytes(at.add(256 + half * 8)));
                let min = _mm256_mul_ps(dmin, bytes(at.add(272 + half * 8)));
                for row in 0..ROWS {
                    let act = &rows[row][unit_index * 8 + inner];
                    sums[row] = scaled(dot_nibbles(&packed, act), scale, act, sums[row]);
                    sums[row] = _mm256_fnmadd_ps(min, _mm256_set1_ps(act.scaled_sum), sums[row]);
                }
            }
        }
    }
}

/// # Safety
/// `panel` holds whole units of Q6_K, each row eight groups for each.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn sum_q6_k<const ROWS: usize>(panel: &[u8], half: usize, rows: &[&[ActGroup]; ROWS], sums: &mut [__m256; ROWS]) {
    for (unit_index, unit) in panel.chunks_exact(Layout::Q6_K.unit_bytes()).enumerate() {
        // SAFETY: a unit is a vector of halves and sixteen groups of 272 bytes.
        unsafe {
            let unit = unit.as_ptr();
            let d = halves(unit.add(half * 16));
            for inner in 0..16 {
                let at = unit.add(32 + inner * 272);
                let codes = nibbles(at, half);
                let signed = _mm256_cvtepi8_epi32(_mm_loadl_epi64(at.add(256 + half * 8).cast()));
                let scale = _mm256_mul_ps(d, _mm256_cvtepi32_ps(signed));
                for row in 0..ROWS {
                    let act = &rows[row][unit_index * 8 + inner / 2];
                    let mut product = _mm256_set1_epi32(act.minus_32[inner % 2]);
                    for pair in 0..2 {
                        let pairs = |quad: usize| _mm256_maddubs_epi16(codes[quad], spread(act, inner % 2 * 4 + quad));
                        let both = _mm256_add_epi16(pairs(pair * 2), pairs(pair * 2 + 1));
                        product = _mm256_add_epi32(product, _mm256_madd_epi16(both, _mm256_set1_epi16(1)));
                    }
                    sums[row] = scaled(product, scale, act, sums[row]);
                }
            }
        }
    }
}
