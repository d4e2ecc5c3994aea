//! AVX-512 with VNNI: one `vpdpbusd` multiplies 16 output rows by 4 inputs.

use std::arch::x86_64::*;

use super::activation::ActGroup;
use super::layout::{Layout, PANEL};
use super::panels::{Inputs, Job, each_tile, run_floats};
use super::simd::x86::Avx512;

/// # Safety
/// The CPU has the features named here; `job.out` is good for the job's rows and columns, and nobody else uses them.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn run(job: &Job<'_>) {
    match job.inputs {
        // SAFETY: the features are on here.
        Inputs::Floats(inputs) => unsafe { run_floats::<Avx512>(job, inputs) },
        Inputs::Quantized(inputs) => {
            let inputs = &inputs[..job.rows * job.groups()];
            each_tile(job.rows, 8, |first, rows| {
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

/// Eight quads of unsigned codes: 16 rows times 32 inputs.
type Codes = [__m512i; 8];

/// # Safety
/// 256 bytes can be read.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn nibbles(from: *const u8) -> Codes {
    let low = _mm512_set1_epi8(15);
    let mut codes = [_mm512_setzero_si512(); 8];
    for quad in 0..4 {
        // SAFETY: inside the 256 bytes.
        let both = unsafe { _mm512_loadu_si512(from.add(quad * 64).cast()) };
        codes[quad] = _mm512_and_si512(both, low);
        codes[quad + 4] = _mm512_and_si512(_mm512_srli_epi16::<4>(both), low);
    }
    codes
}

/// # Safety
/// 512 bytes can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn octets(from: *const u8) -> Codes {
    let mut codes = [_mm512_setzero_si512(); 8];
    for (quad, codes) in codes.iter_mut().enumerate() {
        // SAFETY: inside the 512 bytes.
        *codes = unsafe { _mm512_loadu_si512(from.add(quad * 64).cast()) };
    }
    codes
}

/// `start` plus the products of some quads of codes with an activation's bytes from `quad` on.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn dot(codes: &[__m512i], act: &ActGroup, quad: usize, start: i32) -> __m512 {
    let (quads, _) = act.codes.as_chunks::<4>();
    let mut sum = _mm512_set1_epi32(start);
    for (codes, bytes) in codes.iter().zip(&quads[quad..]) {
        let bytes = i32::from_le_bytes(bytes.map(|byte| byte as u8));
        sum = _mm512_dpbusd_epi32(sum, *codes, _mm512_set1_epi32(bytes));
    }
    _mm512_cvtepi32_ps(sum)
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

/// Calls the cache lines of `bytes` bytes, `ahead` from here, into the second-level cache.
#[inline]
#[target_feature(enable = "avx512f")]
fn call_in(at: *const u8, ahead: usize, bytes: usize) {
    if ahead > 0 {
        for line in (0..bytes).step_by(64) {
            // SAFETY: a hint about an address, which need not be valid.
            _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(ahead + line).cast());
        }
    }
}

/// Layouts of one scale (and min) a group.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn tile<const LAYOUT: u8, const ROWS: usize>(job: &Job<'_>, inputs: &[ActGroup], first: usize) {
    let groups = job.groups();
    let rows: [*const ActGroup; ROWS] = std::array::from_fn(|row| inputs[(first + row) * groups..][..groups].as_ptr());
    // Only the last rows of all call for what comes after: the others would call for it too early.
    let ahead = if first + ROWS == job.rows { job.ahead } else { 0 };
    for (index, panel, columns) in job.each_panel() {
        let mut at = panel.as_ptr();
        let mut sums = [_mm512_setzero_ps(); ROWS];
        for group in 0..groups {
            // SAFETY: a panel holds `groups` units of the layout, each row `groups` groups.
            unsafe {
                let codes = if LAYOUT == Q8_0 { octets(at) } else { nibbles(at) };
                let code_bytes = if LAYOUT == Q8_0 { 512 } else { 256 };
                let unit_bytes = code_bytes + if LAYOUT == Q4_1 { 64 } else { 32 };
                call_in(at, ahead, unit_bytes);
                let scale = halves(at.add(code_bytes));
                let min = if LAYOUT == Q4_1 { halves(at.add(288)) } else { _mm512_setzero_ps() };
                for row in 0..ROWS {
                    let act = &*rows[row].add(group);
                    let start = match LAYOUT {
                        Q4_0 => act.minus_8,
                        Q8_0 => act.minus_128,
                        _ => 0,
                    };
                    let scale = _mm512_mul_ps(scale, _mm512_set1_ps(act.scale));
                    sums[row] = _mm512_fmadd_ps(dot(&codes, act, 0, start), scale, sums[row]);
                    if LAYOUT == Q4_1 {
                        sums[row] = _mm512_fmadd_ps(min, _mm512_set1_ps(act.scaled_sum), sums[row]);
                    }
                }
                at = at.add(unit_bytes);
            }
        }
        // SAFETY: these are the job's columns.
        unsafe { store(job, index, columns, first, sums) };
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn tile_q4_k<const ROWS: usize>(job: &Job<'_>, inputs: &[ActGroup], first: usize) {
    let groups = job.groups();
    let rows: [*const ActGroup; ROWS] = std::array::from_fn(|row| inputs[(first + row) * groups..][..groups].as_ptr());
    let ahead = if first + ROWS == job.rows { job.ahead } else { 0 };
    for (index, panel, columns) in job.each_panel() {
        let mut sums = [_mm512_setzero_ps(); ROWS];
        for (unit_index, unit) in panel.chunks_exact(Layout::Q4_K.unit_bytes()).enumerate() {
            // SAFETY: a unit is two vectors of halves and eight groups of 288 bytes; each row has eight groups a unit.
            unsafe {
                let d = halves(unit.as_ptr());
                let dmin = halves(unit.as_ptr().add(32));
                for inner in 0..8 {
                    let at = unit.as_ptr().add(64 + inner * 288);
                    call_in(at, ahead, 288);
                    let codes = nibbles(at);
                    let scale = _mm512_mul_ps(d, bytes_u8(at.add(256)));
                    let min = _mm512_mul_ps(dmin, bytes_u8(at.add(272)));
                    for row in 0..ROWS {
                        let act = &*rows[row].add(unit_index * 8 + inner);
                        let scale = _mm512_mul_ps(scale, _mm512_set1_ps(act.scale));
                        sums[row] = _mm512_fmadd_ps(dot(&codes, act, 0, 0), scale, sums[row]);
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
    let groups = job.groups();
    let rows: [*const ActGroup; ROWS] = std::array::from_fn(|row| inputs[(first + row) * groups..][..groups].as_ptr());
    let ahead = if first + ROWS == job.rows { job.ahead } else { 0 };
    for (index, panel, columns) in job.each_panel() {
        let mut sums = [_mm512_setzero_ps(); ROWS];
        for (unit_index, unit) in panel.chunks_exact(Layout::Q6_K.unit_bytes()).enumerate() {
            // SAFETY: a unit is a vector of halves and sixteen groups of 272 bytes; each row has eight groups of 32 a unit.
            unsafe {
                let d = halves(unit.as_ptr());
                for inner in 0..16 {
                    let at = unit.as_ptr().add(32 + inner * 272);
                    call_in(at, ahead, 272);
                    let mut codes = [_mm512_setzero_si512(); 4];
                    for (quad, codes) in codes.iter_mut().enumerate() {
                        *codes = _mm512_loadu_si512(at.add(quad * 64).cast());
                    }
                    let scale = _mm512_mul_ps(d, bytes_i8(at.add(256)));
                    for row in 0..ROWS {
                        let act = &*rows[row].add(unit_index * 8 + inner / 2);
                        let scale = _mm512_mul_ps(scale, _mm512_set1_ps(act.scale));
                        let product = dot(&codes, act, inner % 2 * 4, act.minus_32[inner % 2]);
                        sums[row] = _mm512_fmadd_ps(product, scale, sums[row]);
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
