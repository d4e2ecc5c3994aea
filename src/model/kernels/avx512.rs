//! AVX-512 with VNNI: one `vpdpwssd` multiplies 16 output rows by 2 inputs and adds to 32-bit sums.
//!
//! A vector of codes is widened to 16 bits once and then meets the activations of every row of the tile, which come
//! out of memory as broadcasts.
//!
//! Functions of the inner loops are `inline(always)`, which cannot go with `target_feature`: they must be called from
//! where the features are on.

use std::arch::asm;
use std::arch::x86_64::*;

use super::activation::{ActGroup, BAND};
use super::layout::{GROUP, Layout, PANEL};
use super::panels::{Inputs, Job, run_floats};
use super::simd::x86::Avx512;

// A band is a tile: the float and integer sums of 8 rows and a vector's codes fit the 32 registers.
const _: () = assert!(BAND == 8);

/// # Safety
/// The CPU has the features named here; `job.out` is good for the job's rows and columns, and nobody else uses them.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn run(job: &Job<'_>) {
    match job.inputs {
        // SAFETY: the features are on here.
        Inputs::Floats(inputs) => unsafe { run_floats::<Avx512>(job, inputs) },
        Inputs::Quantized(inputs) => {
            job.each_band(inputs, |first, rows, band| {
                let tile = match rows {
                    1 => of_layout::<1>,
                    2 => of_layout::<2>,
                    3 => of_layout::<3>,
                    4 => of_layout::<4>,
                    5 => of_layout::<5>,
                    6 => of_layout::<6>,
                    7 => of_layout::<7>,
                    _ => of_layout::<BAND>,
                };
                // SAFETY: `band` holds all groups of `rows` rows.
                unsafe { tile(job, band, first) }
            })
        }
    }
}

const Q4_0: u8 = 0;
const Q4_1: u8 = 1;
const Q8_0: u8 = 2;
const Q5_1: u8 = 3;

/// A band times all panels.
///
/// # Safety
/// As for [`run`], for the band's rows, of which row `first` of the job is the first.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn of_layout<const ROWS: usize>(job: &Job<'_>, band: &[ActGroup], first: usize) {
    // SAFETY: handed on.
    unsafe {
        match job.layout {
            Layout::Q4_0 => tile::<Q4_0, ROWS>(job, band, first),
            Layout::Q4_1 => tile::<Q4_1, ROWS>(job, band, first),
            Layout::Q8_0 => tile::<Q8_0, ROWS>(job, band, first),
            Layout::Q5_1 => tile::<Q5_1, ROWS>(job, band, first),
            Layout::Q2_K => tile_halves::<false, ROWS>(job, band, first),
            Layout::Q3_K => tile_halves::<true, ROWS>(job, band, first),
            Layout::Q4_K => tile_k_mins::<false, ROWS>(job, band, first),
            Layout::Q5_K => tile_k_mins::<true, ROWS>(job, band, first),
            _ => tile_q6_k::<ROWS>(job, band, first),
        }
    }
}

/// Adds the products of inputs `2 * PAIR` and `2 * PAIR + 1`, for each row of the tile.
///
/// # Safety
/// `acts` is good for `ROWS` groups; the features are on in the caller.
#[inline(always)]
unsafe fn add_pair<const PAIR: usize, const ROWS: usize>(sums: &mut [__m512i; ROWS], codes: __m512i, acts: *const ActGroup) {
    macro_rules! of_rows {
        ($($row:literal)*) => { $(if let Some(sum) = sums.get_mut($row) {
            // SAFETY: there are as many groups as sums.
            *sum = unsafe { add_products::<PAIR, $row>(*sum, codes, acts) };
        })* };
    }
    of_rows!(0 1 2 3 4 5 6 7);
}

/// `sum` plus the products of two neighbouring inputs of group `ROW`.
///
/// The intrinsic would be `_mm512_dpwssd_epi32`, but the compiler takes half of those apart again, into a broadcast, a
/// multiplication and an addition, to shorten a chain that nobody waits for.
///
/// # Safety
/// `acts` is good for more than `ROW` groups.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn add_products<const PAIR: usize, const ROW: usize>(mut sum: __m512i, codes: __m512i, acts: *const ActGroup) -> __m512i {
    const { assert!(PAIR < GROUP / 2 && std::mem::offset_of!(ActGroup, codes) == 0) };
    // SAFETY: reads two codes of one group, which the caller vouches for, and touches nothing else.
    unsafe {
        asm!(
            "vpdpwssd {sum}, {codes}, dword ptr [{acts} + {offset}]{{1to16}}",
            sum = inout(zmm_reg) sum,
            codes = in(zmm_reg) codes,
            acts = in(reg) acts,
            offset = const ROW * size_of::<ActGroup>() + PAIR * 4,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    sum
}

/// The integer sums of a group of packed codes of 4 bits.
///
/// # Safety
/// 256 bytes can be read; `acts` is good for `ROWS` groups; the features are on in the caller.
#[inline(always)]
unsafe fn nibbles<const SIGNED: bool, const ROWS: usize>(from: *const u8, acts: *const ActGroup) -> [__m512i; ROWS] {
    // SAFETY: each reads 64 of the 256 bytes; the rest is the caller's.
    unsafe {
        let mut sums = [_mm512_setzero_si512(); ROWS];
        let codes = four_of::<SIGNED>(from);
        add_pair::<0, ROWS>(&mut sums, codes[0], acts);
        add_pair::<1, ROWS>(&mut sums, codes[1], acts);
        add_pair::<8, ROWS>(&mut sums, codes[2], acts);
        add_pair::<9, ROWS>(&mut sums, codes[3], acts);
        let codes = four_of::<SIGNED>(from.add(64));
        add_pair::<2, ROWS>(&mut sums, codes[0], acts);
        add_pair::<3, ROWS>(&mut sums, codes[1], acts);
        add_pair::<10, ROWS>(&mut sums, codes[2], acts);
        add_pair::<11, ROWS>(&mut sums, codes[3], acts);
        let codes = four_of::<SIGNED>(from.add(128));
        add_pair::<4, ROWS>(&mut sums, codes[0], acts);
        add_pair::<5, ROWS>(&mut sums, codes[1], acts);
        add_pair::<12, ROWS>(&mut sums, codes[2], acts);
        add_pair::<13, ROWS>(&mut sums, codes[3], acts);
        let codes = four_of::<SIGNED>(from.add(192));
        add_pair::<6, ROWS>(&mut sums, codes[0], acts);
        add_pair::<7, ROWS>(&mut sums, codes[1], acts);
        add_pair::<14, ROWS>(&mut sums, codes[2], acts);
        add_pair::<15, ROWS>(&mut sums, codes[3], acts);
        sums
    }
}

/// 64 bytes of packed codes, widened: two pairs from the low halves, two from the high ones.
///
/// # Safety
/// 64 bytes can be read; the features are on in the caller.
#[inline(always)]
unsafe fn four_of<const SIGNED: bool>(from: *const u8) -> [__m512i; 4] {
    // SAFETY: the caller's.
    unsafe {
        let all = _mm512_loadu_si512(from.cast());
        if SIGNED {
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
        }
    }
}

/// Adds the products of four quads of signed bytes: inputs 0..16, or 16..32 for `HALF` 1.
///
/// # Safety
/// 256 bytes can be read; `acts` is good for `ROWS` groups; the features are on in the caller.
#[inline(always)]
unsafe fn octets<const HALF: usize, const ROWS: usize>(sums: &mut [__m512i; ROWS], from: *const u8, acts: *const ActGroup) {
    // SAFETY: each reads 64 of the 256 bytes; the rest is the caller's.
    unsafe {
        let codes = [two_of(from), two_of(from.add(64)), two_of(from.add(128)), two_of(from.add(192))];
        if HALF == 0 {
            add_pair::<0, ROWS>(sums, codes[0][0], acts);
            add_pair::<1, ROWS>(sums, codes[0][1], acts);
            add_pair::<2, ROWS>(sums, codes[1][0], acts);
            add_pair::<3, ROWS>(sums, codes[1][1], acts);
            add_pair::<4, ROWS>(sums, codes[2][0], acts);
            add_pair::<5, ROWS>(sums, codes[2][1], acts);
            add_pair::<6, ROWS>(sums, codes[3][0], acts);
            add_pair::<7, ROWS>(sums, codes[3][1], acts);
        } else {
            add_pair::<8, ROWS>(sums, codes[0][0], acts);
            add_pair::<9, ROWS>(sums, codes[0][1], acts);
            add_pair::<10, ROWS>(sums, codes[1][0], acts);
            add_pair::<11, ROWS>(sums, codes[1][1], acts);
            add_pair::<12, ROWS>(sums, codes[2][0], acts);
            add_pair::<13, ROWS>(sums, codes[2][1], acts);
            add_pair::<14, ROWS>(sums, codes[3][0], acts);
            add_pair::<15, ROWS>(sums, codes[3][1], acts);
        }
    }
}

/// The integer sums of a group of signed bytes.
///
/// # Safety
/// 512 bytes can be read; `acts` is good for `ROWS` groups; the features are on in the caller.
#[inline(always)]
unsafe fn whole_octets<const ROWS: usize>(from: *const u8, acts: *const ActGroup) -> [__m512i; ROWS] {
    // SAFETY: handed on.
    unsafe {
        let mut sums = [_mm512_setzero_si512(); ROWS];
        octets::<0, ROWS>(&mut sums, from, acts);
        octets::<1, ROWS>(&mut sums, from.add(256), acts);
        sums
    }
}

/// The integer sums of inputs 0..16 of a group of packed codes of 4 bits, or of 16..32 for `HALF` 1.
///
/// # Safety
/// 256 bytes can be read; `acts` is good for `ROWS` groups; the features are on in the caller.
#[inline(always)]
unsafe fn half_nibbles<const HALF: usize, const SIGNED: bool, const ROWS: usize>(
    from: *const u8,
    acts: *const ActGroup,
) -> [__m512i; ROWS] {
    // SAFETY: registers only.
    let mut sums = unsafe { [_mm512_setzero_si512(); ROWS] };
    macro_rules! quads {
        ($first:literal: $($quad:literal)*) => { $(
            let codes = four_of::<SIGNED>(from.add($quad * 64));
            add_pair::<{ $first * 8 + 2 * $quad }, ROWS>(&mut sums, codes[2 * $first], acts);
            add_pair::<{ $first * 8 + 2 * $quad + 1 }, ROWS>(&mut sums, codes[2 * $first + 1], acts);
        )* };
    }
    // SAFETY: each reads 64 of the 256 bytes; the rest is the caller's.
    unsafe {
        if HALF == 0 {
            quads!(0: 0 1 2 3);
        } else {
            quads!(1: 0 1 2 3);
        }
    }
    sums
}

/// 64 signed bytes, widened: two pairs.
///
/// # Safety
/// 64 bytes can be read; the features are on in the caller.
#[inline(always)]
unsafe fn two_of(from: *const u8) -> [__m512i; 2] {
    // SAFETY: the caller's.
    unsafe {
        let all = _mm512_loadu_si512(from.cast());
        [_mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(all)), _mm512_srai_epi16::<8>(all)]
    }
}

/// Asks for the memory of a unit some units ahead. A tile of several rows spends so much time on each unit that the
/// hardware does not run ahead far enough by itself.
#[inline(always)]
fn prefetch(at: *const u8, ahead: usize, bytes: usize) {
    if ahead > 0 {
        for line in 0..bytes.div_ceil(64) {
            // SAFETY: a prefetch reads nothing that the program sees; any address will do.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(ahead + line * 64).cast()) };
        }
    }
}

/// How far ahead a tile asks for weights: only the last rows of a job do, the others would call for them too early.
fn ahead<const ROWS: usize>(job: &Job<'_>, first: usize) -> usize {
    if first + ROWS == job.rows { job.ahead } else { 0 }
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

/// # Safety
/// The rows and the columns are the job's own.
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

/// Layouts of one scale (and min) a group.
///
/// # Safety
/// As for [`of_layout`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn tile<const LAYOUT: u8, const ROWS: usize>(job: &Job<'_>, band: &[ActGroup], first: usize) {
    let groups = job.groups();
    let (code_bytes, unit_bytes) = match LAYOUT {
        Q4_0 => (256, Layout::Q4_0.unit_bytes()),
        Q4_1 => (256, Layout::Q4_1.unit_bytes()),
        Q5_1 => (512, Layout::Q5_1.unit_bytes()),
        _ => (512, Layout::Q8_0.unit_bytes()),
    };
    let has_min = LAYOUT == Q4_1 || LAYOUT == Q5_1;
    assert!(band.len() == job.groups() * ROWS);
    let ahead = ahead::<ROWS>(job, first);
    for (index, panel, columns) in job.each_panel() {
        let mut at = panel.as_ptr();
        let mut sums = [_mm512_setzero_ps(); ROWS];
        for group in 0..groups {
            // SAFETY: a panel holds `groups` units of the layout, each row `groups` groups.
            unsafe {
                let acts = band.as_ptr().add(group * ROWS);
                prefetch(at, ahead, unit_bytes);
                job.walk.ask();
                let products = match LAYOUT {
                    Q4_0 => nibbles::<true, ROWS>(at, acts),
                    Q4_1 => nibbles::<false, ROWS>(at, acts),
                    _ => whole_octets::<ROWS>(at, acts),
                };
                let scale = halves(at.add(code_bytes));
                let min = if has_min { halves(at.add(code_bytes + 32)) } else { _mm512_setzero_ps() };
                for row in 0..ROWS {
                    let act = &*acts.add(row);
                    sums[row] = scaled(products[row], scale, act, sums[row]);
                    if has_min {
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

/// Q4_K and, `WIDE`, Q5_K: a scale and a min a group.
///
/// # Safety
/// As for [`of_layout`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn tile_k_mins<const WIDE: bool, const ROWS: usize>(job: &Job<'_>, band: &[ActGroup], first: usize) {
    assert!(band.len() == job.groups() * ROWS);
    let ahead = ahead::<ROWS>(job, first);
    let (layout, code_bytes) = if WIDE { (Layout::Q5_K, 512) } else { (Layout::Q4_K, 256) };
    for (index, panel, columns) in job.each_panel() {
        let mut sums = [_mm512_setzero_ps(); ROWS];
        for (unit_index, unit) in panel.chunks_exact(layout.unit_bytes()).enumerate() {
            // SAFETY: a unit is two vectors of halves and eight groups of codes and 32 bytes; each row has eight groups a
            // unit.
            unsafe {
                let d = halves(unit.as_ptr());
                let dmin = halves(unit.as_ptr().add(32));
                for inner in 0..8 {
                    let at = unit.as_ptr().add(64 + inner * (code_bytes + 32));
                    let acts = band.as_ptr().add((unit_index * 8 + inner) * ROWS);
                    prefetch(at, ahead, code_bytes + 32);
                    job.walk.ask();
                    let products = if WIDE { whole_octets::<ROWS>(at, acts) } else { nibbles::<false, ROWS>(at, acts) };
                    let scale = _mm512_mul_ps(d, bytes_u8(at.add(code_bytes)));
                    let min = _mm512_mul_ps(dmin, bytes_u8(at.add(code_bytes + 16)));
                    for row in 0..ROWS {
                        let act = &*acts.add(row);
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

/// Q2_K and, `SIGNED`, Q3_K: codes of 4 bits, and for each half of a group a scale (and a min).
///
/// # Safety
/// As for [`of_layout`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn tile_halves<const SIGNED: bool, const ROWS: usize>(job: &Job<'_>, band: &[ActGroup], first: usize) {
    assert!(band.len() == job.groups() * ROWS);
    let ahead = ahead::<ROWS>(job, first);
    let (layout, head, group_bytes) = if SIGNED { (Layout::Q3_K, 32, 288) } else { (Layout::Q2_K, 64, 320) };
    for (index, panel, columns) in job.each_panel() {
        let mut sums = [_mm512_setzero_ps(); ROWS];
        for (unit_index, unit) in panel.chunks_exact(layout.unit_bytes()).enumerate() {
            // SAFETY: a unit is its head of halves and eight groups; each row has eight groups a unit.
            unsafe {
                let d = halves(unit.as_ptr());
                for inner in 0..8 {
                    let at = unit.as_ptr().add(head + inner * group_bytes);
                    let acts = band.as_ptr().add((unit_index * 8 + inner) * ROWS);
                    prefetch(at, ahead, group_bytes);
                    job.walk.ask();
                    let small = |at| if SIGNED { bytes_i8(at) } else { bytes_u8(at) };
                    let products = half_nibbles::<0, SIGNED, ROWS>(at, acts);
                    let scale = _mm512_mul_ps(d, small(at.add(256)));
                    for row in 0..ROWS {
                        sums[row] = scaled(products[row], scale, &*acts.add(row), sums[row]);
                    }
                    let products = half_nibbles::<1, SIGNED, ROWS>(at, acts);
                    let scale = _mm512_mul_ps(d, small(at.add(272)));
                    for row in 0..ROWS {
                        sums[row] = scaled(products[row], scale, &*acts.add(row), sums[row]);
                    }
                    if !SIGNED {
                        let dmin = halves(unit.as_ptr().add(32));
                        let mins = [288, 304].map(|min| _mm512_mul_ps(dmin, bytes_u8(at.add(min))));
                        for row in 0..ROWS {
                            let [low, high] = (*acts.add(row)).half_sums;
                            sums[row] = _mm512_fnmadd_ps(mins[0], _mm512_set1_ps(low), sums[row]);
                            sums[row] = _mm512_fnmadd_ps(mins[1], _mm512_set1_ps(high), sums[row]);
                        }
                    }
                }
            }
        }
        // SAFETY: these are the job's columns.
        unsafe { store(job, index, columns, first, sums) };
    }
}

/// Q6_K: codes of 8 bits, and for each half of a group a scale.
///
/// # Safety
/// As for [`of_layout`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn tile_q6_k<const ROWS: usize>(job: &Job<'_>, band: &[ActGroup], first: usize) {
    assert!(band.len() == job.groups() * ROWS);
    let ahead = ahead::<ROWS>(job, first);
    for (index, panel, columns) in job.each_panel() {
        let mut sums = [_mm512_setzero_ps(); ROWS];
        for (unit_index, unit) in panel.chunks_exact(Layout::Q6_K.unit_bytes()).enumerate() {
            // SAFETY: a unit is a vector of halves and sixteen groups of 272 bytes; each row has eight groups of 32 a unit.
            unsafe {
                let d = halves(unit.as_ptr());
                for inner in 0..16 {
                    let at = unit.as_ptr().add(32 + inner * 272);
                    let acts = band.as_ptr().add((unit_index * 8 + inner / 2) * ROWS);
                    prefetch(at, ahead, 272);
                    job.walk.ask();
                    let mut products = [_mm512_setzero_si512(); ROWS];
                    if inner % 2 == 0 {
                        octets::<0, ROWS>(&mut products, at, acts);
                    } else {
                        octets::<1, ROWS>(&mut products, at, acts);
                    }
                    let scale = _mm512_mul_ps(d, bytes_i8(at.add(256)));
                    for row in 0..ROWS {
                        sums[row] = scaled(products[row], scale, &*acts.add(row), sums[row]);
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
