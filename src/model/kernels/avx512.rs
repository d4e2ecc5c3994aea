//! AVX-512 with VNNI: one `vpdpwssd` multiplies 16 output rows by 2 inputs and adds to 32-bit sums.
//!
//! A vector of codes is widened to 16 bits once and then meets the activations of every row of the tile, which come
//! out of memory as broadcasts.

use std::arch::x86_64::*;

use super::activation::ActGroup;
use super::layout::{Layout, PANEL};
use super::panels::{Inputs, Job, each_tile, run_floats};
use super::simd::x86::Avx512;

/// Rows of a tile: their float and integer sums and a vector's codes fit the 32 registers.
const TILE: usize = 8;

/// # Safety
/// The CPU has the features named here; `job.out` is good for the job's rows and columns, and nobody else uses them.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn run(job: &Job<'_>) {
    match job.inputs {
        // SAFETY: the features are on here.
        Inputs::Floats(inputs) => unsafe { run_floats::<Avx512>(job, inputs) },
        Inputs::Quantized(inputs) => {
            let inputs = &inputs[..job.rows * job.groups()];
            each_tile(job.rows, TILE, |first, rows| {
                let tile = match rows {
                    1 => of_layout::<1>,
                    2 => of_layout::<2>,
                    3 => of_layout::<3>,
                    4 => of_layout::<4>,
                    5 => of_layout::<5>,
                    6 => of_layout::<6>,
                    7 => of_layout::<7>,
                    _ => of_layout::<8>,
                };
                // SAFETY: `rows` rows from `first` on are in `inputs`.
                unsafe { tile(job, inputs, first) }
            })
        }
    }
}

const Q4_0: u8 = 0;
const Q4_1: u8 = 1;
const Q8_0: u8 = 2;

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn of_layout<const ROWS: usize>(job: &Job<'_>, inputs: &[ActGroup], first: usize) {
    // SAFETY: handed on.
    unsafe {
        match job.layout {
            Layout::Q4_0 => tile::<Q4_0, ROWS>(job, inputs, first),
            Layout::Q4_1 => tile::<Q4_1, ROWS>(job, inputs, first),
            Layout::Q8_0 => tile::<Q8_0, ROWS>(job, inputs, first),
            Layout::Q4_K => tile_q4_k::<ROWS>(job, inputs, first),
            _ => tile_q6_k::<ROWS>(job, inputs, first),
        }
    }
}

/// Adds the products of one pair of inputs, for each row of the tile.
///
/// # Safety
/// Every pointer is good for a group.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn add_pair<const ROWS: usize>(
    sums: &mut [__m512i; ROWS],
    codes: __m512i,
    acts: &[*const ActGroup; ROWS],
    pair: usize,
) {
    for (sum, act) in sums.iter_mut().zip(acts) {
        // SAFETY: the caller's.
        let inputs = unsafe { (**act).pair(pair) };
        *sum = _mm512_dpwssd_epi32(*sum, codes, _mm512_set1_epi32(inputs));
    }
}

/// The integer sums of a group of packed codes of 4 bits.
///
/// # Safety
/// 256 bytes can be read; every pointer is good for a group.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn nibbles<const SIGNED: bool, const ROWS: usize>(from: *const u8, acts: &[*const ActGroup; ROWS]) -> [__m512i; ROWS] {
    let mut sums = [_mm512_setzero_si512(); ROWS];
    for quad in 0..4 {
        // SAFETY: inside the 256 bytes; the rest is the caller's.
        unsafe {
            let all = _mm512_loadu_si512(from.add(quad * 64).cast());
            let codes = if SIGNED {
                [
                    _mm512_srai_epi16::<12>(_mm512_slli_epi16::<12>(all)),
                    _mm512_srai_epi16::<12>(_mm512_slli_epi16::<4>(all)),
                    _mm512_srai_epi16::<12>(_mm512_slli_epi16::<8>(all)),
                    _mm512_srai_epi16::<12>(all),
                ]
            } else {
                let low = _mm512_set1_epi16(15);
                [
                    _mm512_and_si512(all, low),
                    _mm512_and_si512(_mm512_srli_epi16::<8>(all), low),
                    _mm512_and_si512(_mm512_srli_epi16::<4>(all), low),
                    _mm512_srli_epi16::<12>(all),
                ]
            };
            add_pair(&mut sums, codes[0], acts, quad * 2);
            add_pair(&mut sums, codes[1], acts, quad * 2 + 1);
            add_pair(&mut sums, codes[2], acts, quad * 2 + 8);
            add_pair(&mut sums, codes[3], acts, quad * 2 + 9);
        }
    }
    sums
}

/// The integer sums of some quads of signed bytes, whose first inputs are those of `pair`.
///
/// # Safety
/// 64 bytes can be read for each quad; every pointer is good for a group.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn octets<const QUADS: usize, const ROWS: usize>(
    from: *const u8,
    acts: &[*const ActGroup; ROWS],
    pair: usize,
) -> [__m512i; ROWS] {
    let mut sums = [_mm512_setzero_si512(); ROWS];
    for quad in 0..QUADS {
        // SAFETY: inside what the caller vouches for.
        unsafe {
            let all = _mm512_loadu_si512(from.add(quad * 64).cast());
            add_pair(&mut sums, _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(all)), acts, pair + quad * 2);
            add_pair(&mut sums, _mm512_srai_epi16::<8>(all), acts, pair + quad * 2 + 1);
        }
    }
    sums
}

/// `product * (scale * activation scale) + sum`.
#[inline]
#[target_feature(enable = "avx512f")]
fn scaled(product: __m512i, scale: __m512, act: &ActGroup, sum: __m512) -> __m512 {
    let scale = _mm512_mul_ps(scale, _mm512_set1_ps(act.scale));
    _mm512_fmadd_ps(_mm512_cvtepi32_ps(product), scale, sum)
}

/// # Safety
/// 32 bytes can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn halves(from: *const u8) -> __m512 {
    // SAFETY: the caller's.
    _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(from.cast()) })
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store<const ROWS: usize>(job: &Job<'_>, panel: usize, columns: usize, first: usize, sums: [__m512; ROWS]) {
    for (row, sum) in sums.into_iter().enumerate() {
        // SAFETY: the row and the columns are the job's own; the mask keeps a partial panel inside.
        unsafe {
            let to = job.out.add((first + row) * job.out_stride + panel * PANEL);
            let mask = (0xffff_u32 >> (PANEL - columns)) as __mmask16;
            let sum = if job.add { _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sum) } else { sum };
            _mm512_mask_storeu_ps(to, mask, sum);
        }
    }
}

/// Each row's groups.
#[inline(always)]
fn rows<const ROWS: usize>(job: &Job<'_>, inputs: &[ActGroup], first: usize) -> [*const ActGroup; ROWS] {
    let groups = job.groups();
    std::array::from_fn(|row| inputs[(first + row) * groups..][..groups].as_ptr())
}

/// Layouts of one scale (and min) a group.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn tile<const LAYOUT: u8, const ROWS: usize>(job: &Job<'_>, inputs: &[ActGroup], first: usize) {
    let groups = job.groups();
    let rows = rows::<ROWS>(job, inputs, first);
    for (index, panel, columns) in job.each_panel() {
        let mut at = panel.as_ptr();
        let mut sums = [_mm512_setzero_ps(); ROWS];
        for group in 0..groups {
            // SAFETY: a panel holds `groups` units of the layout, each row `groups` groups.
            unsafe {
                let acts: [*const ActGroup; ROWS] = std::array::from_fn(|row| rows[row].add(group));
                let products = match LAYOUT {
                    Q4_0 => nibbles::<true, ROWS>(at, &acts),
                    Q4_1 => nibbles::<false, ROWS>(at, &acts),
                    _ => octets::<8, ROWS>(at, &acts, 0),
                };
                let code_bytes = if LAYOUT == Q8_0 { 512 } else { 256 };
                let scale = halves(at.add(code_bytes));
                let min = if LAYOUT == Q4_1 { halves(at.add(288)) } else { _mm512_setzero_ps() };
                for row in 0..ROWS {
                    let act = &*acts[row];
                    sums[row] = scaled(products[row], scale, act, sums[row]);
                    if LAYOUT == Q4_1 {
                        sums[row] = _mm512_fmadd_ps(min, _mm512_set1_ps(act.scaled_sum), sums[row]);
                    }
                }
                at = at.add(code_bytes + if LAYOUT == Q4_1 { 64 } else { 32 });
            }
        }
        // SAFETY: these are the job's columns.
        unsafe { store(job, index, columns, first, sums) };
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn tile_q4_k<const ROWS: usize>(job: &Job<'_>, inputs: &[ActGroup], first: usize) {
    let rows = rows::<ROWS>(job, inputs, first);
    for (index, panel, columns) in job.each_panel() {
        let mut sums = [_mm512_setzero_ps(); ROWS];
        for (unit_index, unit) in panel.chunks_exact(Layout::Q4_K.unit_bytes()).enumerate() {
            // SAFETY: a unit is two vectors of halves and eight groups of 288 bytes; each row has eight groups a unit.
            unsafe {
                let d = halves(unit.as_ptr());
                let dmin = halves(unit.as_ptr().add(32));
                for inner in 0..8 {
                    let at = unit.as_ptr().add(64 + inner * 288);
                    let acts: [*const ActGroup; ROWS] = std::array::from_fn(|row| rows[row].add(unit_index * 8 + inner));
                    let products = nibbles::<false, ROWS>(at, &acts);
                    let scale = _mm512_mul_ps(d, bytes_u8(at.add(256)));
                    let min = _mm512_mul_ps(dmin, bytes_u8(at.add(272)));
                    for row in 0..ROWS {
                        let act = &*acts[row];
                        sums[row] = scaled(products[row], scale, act, sums[row]);
                        sums[row] = _mm512_fnmadd_ps(min, _mm512_set1_ps(act.scaled_sum), sums[row]);
                    }
                }
            }
        }
        // SAFETY: these are the job's columns.
        unsafe { store(job, index, columns, first, sums) };
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn tile_q6_k<const ROWS: usize>(job: &Job<'_>, inputs: &[ActGroup], first: usize) {
    let rows = rows::<ROWS>(job, inputs, first);
    for (index, panel, columns) in job.each_panel() {
        let mut sums = [_mm512_setzero_ps(); ROWS];
        for (unit_index, unit) in panel.chunks_exact(Layout::Q6_K.unit_bytes()).enumerate() {
            // SAFETY: a unit is a vector of halves and sixteen groups of 272 bytes; each row has eight groups of 32 a unit.
            unsafe {
                let d = halves(unit.as_ptr());
                for inner in 0..16 {
                    let at = unit.as_ptr().add(32 + inner * 272);
                    let acts: [*const ActGroup; ROWS] = std::array::from_fn(|row| rows[row].add(unit_index * 8 + inner / 2));
                    let products = octets::<4, ROWS>(at, &acts, inner % 2 * 8);
                    let scale = _mm512_mul_ps(d, bytes_i8(at.add(256)));
                    for row in 0..ROWS {
                        sums[row] = scaled(products[row], scale, &*acts[row], sums[row]);
                    }
                }
            }
        }
        // SAFETY: these are the job's columns.
        unsafe { store(job, index, columns, first, sums) };
    }
}

/// # Safety
/// 16 bytes can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn bytes_u8(from: *const u8) -> __m512 {
    // SAFETY: the caller's.
    _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(from.cast()) }))
}

/// # Safety
/// 16 bytes can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn bytes_i8(from: *const u8) -> __m512 {
    // SAFETY: the caller's.
    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(unsafe { _mm_loadu_si128(from.cast()) }))
}
