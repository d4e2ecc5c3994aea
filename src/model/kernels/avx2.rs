//! AVX2 with FMA and F16C: eight output rows at a time, each panel in two halves.
//!
//! Codes are widened to 16 bits, and `vpmaddwd` adds the products of two inputs in 32 bits, exactly. With AVX-VNNI
//! (`VNNI`) one `vpdpwssd` does that and the addition to the sum.

use std::arch::asm;
use std::arch::x86_64::*;

use super::activation::ActGroup;
use super::layout::{Layout, PANEL};
use super::panels::{Inputs, Job, each_tile, run_floats};
use super::simd::x86::Avx2;

/// # Safety
/// The CPU has the features named here, and AVX-VNNI if `VNNI` says so; `job.out` is good for the job's rows and columns,
/// and nobody else uses them.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn run<const VNNI: bool>(job: &Job<'_>) {
    match job.inputs {
        // SAFETY: the features are on here.
        Inputs::Floats(inputs) => unsafe { run_floats::<Avx2>(job, inputs) },
        Inputs::Quantized(inputs) => {
            job.each_band(inputs, |first, rows, groups| {
                each_tile(rows, 4, |row, count| {
                    let tile = match count {
                        1 => tile::<VNNI, 1>,
                        2 => tile::<VNNI, 2>,
                        3 => tile::<VNNI, 3>,
                        _ => tile::<VNNI, 4>,
                    };
                    // SAFETY: rows `row..row + count` are in the band, which is the job's from row `first` on.
                    unsafe { tile(job, &Rows { groups, stride: rows, row }, first + row) }
                })
            })
        }
    }
}

const Q4_0: u8 = 0;
const Q4_1: u8 = 1;
const Q8_0: u8 = 2;
const Q5_1: u8 = 3;

/// Some rows of a band.
struct Rows<'a> {
    groups: &'a [ActGroup],
    /// Rows of the band.
    stride: usize,
    /// The first of these rows in the band.
    row: usize,
}

impl Rows<'_> {
    #[inline(always)]
    fn of_group<const ROWS: usize>(&self, group: usize) -> [&ActGroup; ROWS] {
        let rows = &self.groups[group * self.stride + self.row..][..ROWS];
        std::array::from_fn(|row| &rows[row])
    }
}

/// `ROWS` rows, from the job's row `first` on, times all panels.
///
/// # Safety
/// As for [`run`], for these rows; the CPU has the features named here.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile<const VNNI: bool, const ROWS: usize>(job: &Job<'_>, rows: &Rows<'_>, first: usize) {
    for (index, panel, columns) in job.each_panel() {
        for half in 0..2 {
            let mut sums = [_mm256_setzero_ps(); ROWS];
            // SAFETY: the panel is whole, so each unit has all its bytes.
            unsafe {
                match job.layout {
                    Layout::Q4_0 => sum_simple::<Q4_0, VNNI, ROWS>(panel, half, rows, &mut sums),
                    Layout::Q4_1 => sum_simple::<Q4_1, VNNI, ROWS>(panel, half, rows, &mut sums),
                    Layout::Q8_0 => sum_simple::<Q8_0, VNNI, ROWS>(panel, half, rows, &mut sums),
                    Layout::Q5_1 => sum_simple::<Q5_1, VNNI, ROWS>(panel, half, rows, &mut sums),
                    Layout::Q2_K => sum_halves::<false, VNNI, ROWS>(panel, half, rows, &mut sums),
                    Layout::Q3_K => sum_halves::<true, VNNI, ROWS>(panel, half, rows, &mut sums),
                    Layout::Q4_K => sum_k_mins::<false, VNNI, ROWS>(panel, half, rows, &mut sums),
                    Layout::Q5_K => sum_k_mins::<true, VNNI, ROWS>(panel, half, rows, &mut sums),
                    _ => sum_q6_k::<VNNI, ROWS>(panel, half, rows, &mut sums),
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

/// Stores (or adds) the first `columns` of eight outputs of one row, from `column` on.
///
/// # Safety
/// `job.out` is good for these columns of this row, and nobody else uses them; the CPU has the features named here.
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

/// Adds the products of one pair of inputs, for each row of the tile.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_pair<const VNNI: bool, const ROWS: usize>(
    sums: &mut [__m256i; ROWS],
    codes: __m256i,
    acts: &[&ActGroup; ROWS],
    pair: usize,
) {
    for (sum, act) in sums.iter_mut().zip(acts) {
        let inputs = _mm256_set1_epi32(act.pair(pair));
        *sum = if VNNI { multiply_add(*sum, codes, inputs) } else { _mm256_add_epi32(*sum, _mm256_madd_epi16(codes, inputs)) };
    }
}

/// `vpdpwssd` of AVX-VNNI, which the compiler knows only under a feature that not every CPU of this file's has.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn multiply_add(mut sum: __m256i, codes: __m256i, inputs: __m256i) -> __m256i {
    // SAFETY: arithmetic on registers; only `run::<true>` comes here, which is for CPUs that have it.
    unsafe {
        asm!(
            "{{vex}} vpdpwssd {sum}, {codes}, {inputs}",
            sum = inout(ymm_reg) sum,
            codes = in(ymm_reg) codes,
            inputs = in(ymm_reg) inputs,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// 32 bytes of packed codes, widened: two pairs from the low halves, two from the high ones.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn four_of<const SIGNED: bool>(all: __m256i) -> [__m256i; 4] {
    if SIGNED {
        [
            _mm256_srai_epi16::<12>(_mm256_slli_epi16::<12>(all)),
            _mm256_srai_epi16::<12>(_mm256_slli_epi16::<4>(all)),
            _mm256_srai_epi16::<12>(_mm256_slli_epi16::<8>(all)),
            _mm256_srai_epi16::<12>(all),
        ]
    } else {
        let low = _mm256_set1_epi16(15);
        [
            _mm256_and_si256(all, low),
            _mm256_and_si256(_mm256_srli_epi16::<8>(all), low),
            _mm256_and_si256(_mm256_srli_epi16::<4>(all), low),
            _mm256_srli_epi16::<12>(all),
        ]
    }
}

/// The integer sums of a group of packed codes of 4 bits.
///
/// # Safety
/// A group's 256 bytes can be read from `group` on.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn nibbles<const SIGNED: bool, const VNNI: bool, const ROWS: usize>(
    group: *const u8,
    half: usize,
    acts: &[&ActGroup; ROWS],
) -> [__m256i; ROWS] {
    let mut sums = [_mm256_setzero_si256(); ROWS];
    for quad in 0..4 {
        // SAFETY: inside the 256 bytes.
        let codes = four_of::<SIGNED>(unsafe { _mm256_loadu_si256(group.add(quad * 64 + half * 32).cast()) });
        add_pair::<VNNI, ROWS>(&mut sums, codes[0], acts, quad * 2);
        add_pair::<VNNI, ROWS>(&mut sums, codes[1], acts, quad * 2 + 1);
        add_pair::<VNNI, ROWS>(&mut sums, codes[2], acts, quad * 2 + 8);
        add_pair::<VNNI, ROWS>(&mut sums, codes[3], acts, quad * 2 + 9);
    }
    sums
}

/// Those of inputs 0..16 only, or, for `part` 1, of 16..32.
///
/// # Safety
/// A group's 256 bytes can be read from `group` on.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn half_nibbles<const SIGNED: bool, const VNNI: bool, const ROWS: usize>(
    group: *const u8,
    half: usize,
    acts: &[&ActGroup; ROWS],
    part: usize,
) -> [__m256i; ROWS] {
    let mut sums = [_mm256_setzero_si256(); ROWS];
    for quad in 0..4 {
        // SAFETY: inside the 256 bytes.
        let codes = four_of::<SIGNED>(unsafe { _mm256_loadu_si256(group.add(quad * 64 + half * 32).cast()) });
        add_pair::<VNNI, ROWS>(&mut sums, codes[part * 2], acts, part * 8 + quad * 2);
        add_pair::<VNNI, ROWS>(&mut sums, codes[part * 2 + 1], acts, part * 8 + quad * 2 + 1);
    }
    sums
}

/// The integer sums of some quads of signed bytes, whose first inputs are those of `pair`.
///
/// # Safety
/// 64 bytes can be read from `group` on for each quad.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn octets<const QUADS: usize, const VNNI: bool, const ROWS: usize>(
    group: *const u8,
    half: usize,
    acts: &[&ActGroup; ROWS],
    pair: usize,
) -> [__m256i; ROWS] {
    let mut sums = [_mm256_setzero_si256(); ROWS];
    for quad in 0..QUADS {
        // SAFETY: inside what the caller vouches for.
        let all = unsafe { _mm256_loadu_si256(group.add(quad * 64 + half * 32).cast()) };
        add_pair::<VNNI, ROWS>(&mut sums, _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(all)), acts, pair + quad * 2);
        add_pair::<VNNI, ROWS>(&mut sums, _mm256_srai_epi16::<8>(all), acts, pair + quad * 2 + 1);
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

/// Adds a panel of a layout of one scale (and min) a group to the sums.
///
/// # Safety
/// `panel` holds whole units of that layout, each row one group for each; the CPU has the features named here.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn sum_simple<const LAYOUT: u8, const VNNI: bool, const ROWS: usize>(
    panel: &[u8],
    half: usize,
    rows: &Rows<'_>,
    sums: &mut [__m256; ROWS],
) {
    let (code_bytes, unit_bytes) = match LAYOUT {
        Q4_0 => (256, Layout::Q4_0.unit_bytes()),
        Q4_1 => (256, Layout::Q4_1.unit_bytes()),
        Q5_1 => (512, Layout::Q5_1.unit_bytes()),
        _ => (512, Layout::Q8_0.unit_bytes()),
    };
    for (group, unit) in panel.chunks_exact(unit_bytes).enumerate() {
        // SAFETY: a unit is its codes, then 32 bytes of scales, then for some 32 of mins.
        unsafe {
            let unit = unit.as_ptr();
            let acts: [&ActGroup; ROWS] = rows.of_group(group);
            let scale = halves(unit.add(code_bytes + half * 16));
            let products = match LAYOUT {
                Q4_0 => nibbles::<true, VNNI, ROWS>(unit, half, &acts),
                Q4_1 => nibbles::<false, VNNI, ROWS>(unit, half, &acts),
                _ => octets::<8, VNNI, ROWS>(unit, half, &acts, 0),
            };
            for row in 0..ROWS {
                sums[row] = scaled(products[row], scale, acts[row], sums[row]);
                if LAYOUT == Q4_1 || LAYOUT == Q5_1 {
                    let min = halves(unit.add(code_bytes + 32 + half * 16));
                    sums[row] = _mm256_fmadd_ps(min, _mm256_set1_ps(acts[row].scaled_sum), sums[row]);
                }
            }
        }
    }
}

/// Q4_K and, `WIDE`, Q5_K: a scale and a min a group.
///
/// # Safety
/// `panel` holds whole units, each row eight groups for each.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn sum_k_mins<const WIDE: bool, const VNNI: bool, const ROWS: usize>(
    panel: &[u8],
    half: usize,
    rows: &Rows<'_>,
    sums: &mut [__m256; ROWS],
) {
    let (layout, code_bytes) = if WIDE { (Layout::Q5_K, 512) } else { (Layout::Q4_K, 256) };
    for (unit_index, unit) in panel.chunks_exact(layout.unit_bytes()).enumerate() {
        // SAFETY: a unit is two vectors of halves and eight groups of codes and 32 bytes.
        unsafe {
            let unit = unit.as_ptr();
            let d = halves(unit.add(half * 16));
            let dmin = halves(unit.add(32 + half * 16));
            for inner in 0..8 {
                let at = unit.add(64 + inner * (code_bytes + 32));
                let acts: [&ActGroup; ROWS] = rows.of_group(unit_index * 8 + inner);
                let products = if WIDE {
                    octets::<8, VNNI, ROWS>(at, half, &acts, 0)
                } else {
                    nibbles::<false, VNNI, ROWS>(at, half, &acts)
                };
                let scale = _mm256_mul_ps(d, bytes::<false>(at.add(code_bytes + half * 8)));
                let min = _mm256_mul_ps(dmin, bytes::<false>(at.add(code_bytes + 16 + half * 8)));
                for row in 0..ROWS {
                    sums[row] = scaled(products[row], scale, acts[row], sums[row]);
                    sums[row] = _mm256_fnmadd_ps(min, _mm256_set1_ps(acts[row].scaled_sum), sums[row]);
                }
            }
        }
    }
}

/// Q2_K and, `SIGNED`, Q3_K: codes of 4 bits, and for each half of a group a scale (and a min).
///
/// # Safety
/// `panel` holds whole units, each row eight groups for each.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn sum_halves<const SIGNED: bool, const VNNI: bool, const ROWS: usize>(
    panel: &[u8],
    half: usize,
    rows: &Rows<'_>,
    sums: &mut [__m256; ROWS],
) {
    let (layout, head, group_bytes) = if SIGNED { (Layout::Q3_K, 32, 288) } else { (Layout::Q2_K, 64, 320) };
    for (unit_index, unit) in panel.chunks_exact(layout.unit_bytes()).enumerate() {
        // SAFETY: a unit is its head of halves and eight groups.
        unsafe {
            let unit = unit.as_ptr();
            let d = halves(unit.add(half * 16));
            for inner in 0..8 {
                let at = unit.add(head + inner * group_bytes);
                let acts: [&ActGroup; ROWS] = rows.of_group(unit_index * 8 + inner);
                for part in 0..2 {
                    let products = half_nibbles::<SIGNED, VNNI, ROWS>(at, half, &acts, part);
                    let scale = _mm256_mul_ps(d, bytes::<SIGNED>(at.add(256 + part * 16 + half * 8)));
                    for row in 0..ROWS {
                        sums[row] = scaled(products[row], scale, acts[row], sums[row]);
                    }
                }
                if !SIGNED {
                    let dmin = halves(unit.add(32 + half * 16));
                    for part in 0..2 {
                        let min = _mm256_mul_ps(dmin, bytes::<false>(at.add(288 + part * 16 + half * 8)));
                        for row in 0..ROWS {
                            sums[row] = _mm256_fnmadd_ps(min, _mm256_set1_ps(acts[row].half_sums[part]), sums[row]);
                        }
                    }
                }
            }
        }
    }
}

/// Eight small integers.
///
/// # Safety
/// 8 bytes can be read.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn bytes<const SIGNED: bool>(from: *const u8) -> __m256 {
    // SAFETY: the caller's.
    let all = unsafe { _mm_loadl_epi64(from.cast()) };
    _mm256_cvtepi32_ps(if SIGNED { _mm256_cvtepi8_epi32(all) } else { _mm256_cvtepu8_epi32(all) })
}

/// # Safety
/// `panel` holds whole units of Q6_K, each row eight groups for each.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn sum_q6_k<const VNNI: bool, const ROWS: usize>(panel: &[u8], half: usize, rows: &Rows<'_>, sums: &mut [__m256; ROWS]) {
    for (unit_index, unit) in panel.chunks_exact(Layout::Q6_K.unit_bytes()).enumerate() {
        // SAFETY: a unit is a vector of halves and sixteen groups of 272 bytes.
        unsafe {
            let unit = unit.as_ptr();
            let d = halves(unit.add(half * 16));
            for inner in 0..16 {
                let at = unit.add(32 + inner * 272);
                let acts: [&ActGroup; ROWS] = rows.of_group(unit_index * 8 + inner / 2);
                let products = octets::<4, VNNI, ROWS>(at, half, &acts, inner % 2 * 8);
                let scale = _mm256_mul_ps(d, bytes::<true>(at.add(256 + half * 8)));
                for row in 0..ROWS {
                    sums[row] = scaled(products[row], scale, acts[row], sums[row]);
                }
            }
        }
    }
}
