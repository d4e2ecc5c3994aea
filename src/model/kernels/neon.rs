//! NEON, as every 64-bit Arm CPU has it: eight output rows at a time, each group of a panel in two halves.
//!
//! The 16-bit words of a quad are sorted into those of even and of odd places, so that a vector is one input of eight
//! output rows. Its codes are widened to 16 bits and meet each row of the tile in `smlal`, which multiplies with one lane
//! of the activations and adds up in 32 bits, exactly.

use std::arch::aarch64::*;
use std::arch::asm;

use super::activation::ActGroup;
use super::layout::{Layout, PANEL};
use super::panels::{Inputs, Job, each_tile, run_floats};
use super::simd::arm::{Neon, widen};

/// # Safety
/// The CPU has NEON; `job.out` is good for the job's rows and columns, and nobody else uses them.
#[target_feature(enable = "neon")]
pub(super) unsafe fn run(job: &Job<'_>) {
    match job.inputs {
        // SAFETY: NEON is on here.
        Inputs::Floats(inputs) => unsafe { run_floats::<Neon>(job, inputs) },
        Inputs::Quantized(inputs) => {
            job.each_band(inputs, |first, rows, groups| {
                each_tile(rows, 4, |row, count| {
                    let tile = match count {
                        1 => tile::<1>,
                        2 => tile::<2>,
                        3 => tile::<3>,
                        _ => tile::<4>,
                    };
                    // Only the last rows of a job ask for weights, the others would call for them too early.
                    let ahead = if first + row + count == job.rows { job.ahead } else { 0 };
                    // SAFETY: rows `row..row + count` are in the band, which is the job's from row `first` on.
                    unsafe { tile(&Tile { job, groups, stride: rows, row, ahead }, first + row) }
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
struct Tile<'a> {
    job: &'a Job<'a>,
    groups: &'a [ActGroup],
    /// Rows of the band.
    stride: usize,
    /// The first of these rows in the band.
    row: usize,
    /// How far ahead weights are asked for; 0: they are not.
    ahead: usize,
}

impl Tile<'_> {
    #[inline(always)]
    fn of_group<const ROWS: usize>(&self, group: usize) -> &[ActGroup; ROWS] {
        self.groups[group * self.stride + self.row..].first_chunk().expect("a band holds all rows of each group")
    }

    /// Asks for the memory that lies ahead of a group's, and for some of the keys and values that are wanted next.
    #[inline(always)]
    fn ask(&self, at: *const u8, bytes: usize) {
        if self.ahead > 0 {
            for line in 0..bytes.div_ceil(64) {
                let at = at.wrapping_add(self.ahead + line * 64);
                // SAFETY: a prefetch reads nothing that the program sees; any address will do.
                unsafe { asm!("prfm pldl2keep, [{at}]", at = in(reg) at.addr(), options(nomem, nostack, preserves_flags)) };
            }
        }
        self.job.walk.ask();
    }
}

/// Eight output rows: integers, or floats.
type Ints = [int32x4_t; 2];
type Floats = [float32x4_t; 2];

/// The sums of `ROWS` rows: 16 output rows in two halves.
type Sums<const ROWS: usize> = [[Floats; 2]; ROWS];

/// `ROWS` rows, from the job's row `first` on, times all panels.
///
/// # Safety
/// As for [`run`], for these rows.
#[target_feature(enable = "neon")]
unsafe fn tile<const ROWS: usize>(tile: &Tile<'_>, first: usize) {
    for (index, panel, columns) in tile.job.each_panel() {
        let mut sums = [[[vdupq_n_f32(0.0); 2]; 2]; ROWS];
        // SAFETY: the panel is whole, so each unit has all its bytes; rows and columns are the job's own.
        unsafe {
            match tile.job.layout {
                Layout::Q4_0 => sum_simple::<Q4_0, ROWS>(panel, tile, &mut sums),
                Layout::Q4_1 => sum_simple::<Q4_1, ROWS>(panel, tile, &mut sums),
                Layout::Q8_0 => sum_simple::<Q8_0, ROWS>(panel, tile, &mut sums),
                Layout::Q5_1 => sum_simple::<Q5_1, ROWS>(panel, tile, &mut sums),
                Layout::Q2_K => sum_halves::<false, ROWS>(panel, tile, &mut sums),
                Layout::Q3_K => sum_halves::<true, ROWS>(panel, tile, &mut sums),
                Layout::Q4_K => sum_k_mins::<false, ROWS>(panel, tile, &mut sums),
                Layout::Q5_K => sum_k_mins::<true, ROWS>(panel, tile, &mut sums),
                _ => sum_q6_k::<ROWS>(panel, tile, &mut sums),
            }
            for (row, [[a, b], [c, d]]) in sums.into_iter().enumerate() {
                tile.job.store(index, columns, first + row, Neon([a, b, c, d]));
            }
        }
    }
}

/// 32 bytes, which are eight output rows of a quad: the first 16-bit words of all, and the second ones.
///
/// # Safety
/// 32 bytes can be read.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn words(from: *const u8) -> [int16x8_t; 2] {
    // SAFETY: the caller's.
    let (low, high) = unsafe { (vld1q_s16(from.cast()), vld1q_s16(from.add(16).cast())) };
    [vuzp1q_s16(low, high), vuzp2q_s16(low, high)]
}

/// The codes of 4 bits that begin at bit `12 - UP` of each word.
#[inline]
#[target_feature(enable = "neon")]
fn four_bits<const SIGNED: bool, const UP: i32>(words: int16x8_t) -> int16x8_t {
    let up = vshlq_n_s16::<UP>(words);
    if SIGNED { vshrq_n_s16::<12>(up) } else { vreinterpretq_s16_u16(vshrq_n_u16::<12>(vreinterpretq_u16_s16(up))) }
}

/// Adds the products of one quad of inputs, for each row of the tile: `codes` in the order of inputs.
#[inline]
#[target_feature(enable = "neon")]
fn add_quad<const ROWS: usize>(sums: &mut [Ints; ROWS], codes: [int16x8_t; 4], acts: &[ActGroup; ROWS], quad: usize) {
    for ([low, high], act) in sums.iter_mut().zip(acts) {
        // SAFETY: reads four numbers from an array of four.
        let inputs = unsafe { vld1_s16(act.codes.as_chunks::<4>().0[quad].as_ptr()) };
        *low = vmlal_lane_s16::<0>(*low, vget_low_s16(codes[0]), inputs);
        *high = vmlal_high_lane_s16::<0>(*high, codes[0], inputs);
        *low = vmlal_lane_s16::<1>(*low, vget_low_s16(codes[1]), inputs);
        *high = vmlal_high_lane_s16::<1>(*high, codes[1], inputs);
        *low = vmlal_lane_s16::<2>(*low, vget_low_s16(codes[2]), inputs);
        *high = vmlal_high_lane_s16::<2>(*high, codes[2], inputs);
        *low = vmlal_lane_s16::<3>(*low, vget_low_s16(codes[3]), inputs);
        *high = vmlal_high_lane_s16::<3>(*high, codes[3], inputs);
    }
}

/// The integer sums of a group of packed codes of 4 bits: of all inputs, or, for 2 `PARTS`, of 0..16 and of 16..32.
///
/// # Safety
/// A group's 256 bytes can be read from `group` on.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn nibbles<const SIGNED: bool, const PARTS: usize, const ROWS: usize>(
    group: *const u8,
    half: usize,
    acts: &[ActGroup; ROWS],
) -> [[Ints; ROWS]; PARTS] {
    let mut sums = [[[vdupq_n_s32(0); 2]; ROWS]; PARTS];
    for quad in 0..4 {
        // SAFETY: inside the 256 bytes.
        let words = unsafe { words(group.add(quad * 64 + half * 32)) };
        let [even, odd] = words.map(|words| [four_bits::<SIGNED, 12>(words), four_bits::<SIGNED, 4>(words)]);
        add_quad(&mut sums[0], [even[0], odd[0], even[1], odd[1]], acts, quad);
        let [even, odd] = words.map(|words| [four_bits::<SIGNED, 8>(words), four_bits::<SIGNED, 0>(words)]);
        add_quad(&mut sums[PARTS - 1], [even[0], odd[0], even[1], odd[1]], acts, quad + 4);
    }
    sums
}

/// The integer sums of some quads of signed bytes, the first of which is number `first` of its group.
///
/// # Safety
/// 64 bytes can be read from `codes` on for each quad.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn octets<const QUADS: usize, const ROWS: usize>(
    codes: *const u8,
    half: usize,
    acts: &[ActGroup; ROWS],
    first: usize,
) -> [Ints; ROWS] {
    let mut sums = [[vdupq_n_s32(0); 2]; ROWS];
    for quad in 0..QUADS {
        // SAFETY: inside what the caller vouches for.
        let [even, odd] = unsafe { words(codes.add(quad * 64 + half * 32)) };
        let low = [even, odd].map(|words| vshrq_n_s16::<8>(vshlq_n_s16::<8>(words)));
        let high = [even, odd].map(|words| vshrq_n_s16::<8>(words));
        add_quad(&mut sums, [low[0], low[1], high[0], high[1]], acts, first + quad);
    }
    sums
}

/// Eight halves as floats.
///
/// # Safety
/// 16 bytes can be read.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn halves(from: *const u8) -> Floats {
    // SAFETY: the caller's.
    widen(unsafe { vld1q_u16(from.cast()) })
}

/// Eight small integers as floats, times `factors`.
///
/// # Safety
/// 8 bytes can be read.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn times_bytes<const SIGNED: bool>(factors: Floats, from: *const u8) -> Floats {
    // SAFETY: the caller's.
    let bytes = unsafe { vld1_u8(from) };
    let wide = if SIGNED { vmovl_s8(vreinterpret_s8_u8(bytes)) } else { vreinterpretq_s16_u16(vmovl_u8(bytes)) };
    let [low, high] = [vmovl_s16(vget_low_s16(wide)), vmovl_high_s16(wide)].map(|wide| vcvtq_f32_s32(wide));
    [vmulq_f32(factors[0], low), vmulq_f32(factors[1], high)]
}

/// Adds `product * (scale * activation scale)` to one half of the sums.
#[inline]
#[target_feature(enable = "neon")]
fn add_scaled<const ROWS: usize>(
    sums: &mut Sums<ROWS>,
    half: usize,
    products: [Ints; ROWS],
    scale: Floats,
    acts: &[ActGroup; ROWS],
) {
    for row in 0..ROWS {
        for part in 0..2 {
            let scale = vmulq_n_f32(scale[part], acts[row].scale);
            sums[row][half][part] = vfmaq_f32(sums[row][half][part], vcvtq_f32_s32(products[row][part]), scale);
        }
    }
}

/// Adds `min * activations` to one half of the sums, or takes it away: `activations` picks one sum of a row's group.
#[inline]
#[target_feature(enable = "neon")]
fn add_mins<const MINUS: bool, const ROWS: usize>(
    sums: &mut Sums<ROWS>,
    half: usize,
    min: Floats,
    acts: &[ActGroup; ROWS],
    activations: impl Fn(&ActGroup) -> f32,
) {
    for row in 0..ROWS {
        let factor = vdupq_n_f32(activations(&acts[row]));
        for part in 0..2 {
            let sum = &mut sums[row][half][part];
            *sum = if MINUS { vfmsq_f32(*sum, min[part], factor) } else { vfmaq_f32(*sum, min[part], factor) };
        }
    }
}

/// Adds a panel of a layout of one scale (and min) a group to the sums.
///
/// # Safety
/// `panel` holds whole units of that layout, each row one group for each; the CPU has NEON.
#[target_feature(enable = "neon")]
unsafe fn sum_simple<const LAYOUT: u8, const ROWS: usize>(panel: &[u8], tile: &Tile<'_>, sums: &mut Sums<ROWS>) {
    let (code_bytes, unit_bytes) = match LAYOUT {
        Q4_0 => (256, Layout::Q4_0.unit_bytes()),
        Q4_1 => (256, Layout::Q4_1.unit_bytes()),
        Q5_1 => (512, Layout::Q5_1.unit_bytes()),
        _ => (512, Layout::Q8_0.unit_bytes()),
    };
    for (group, unit) in panel.chunks_exact(unit_bytes).enumerate() {
        let unit = unit.as_ptr();
        let acts: &[ActGroup; ROWS] = tile.of_group(group);
        tile.ask(unit, unit_bytes);
        for half in 0..2 {
            // SAFETY: a unit is its codes, then 32 bytes of scales, then for some 32 of mins.
            unsafe {
                let products = match LAYOUT {
                    Q4_0 => nibbles::<true, 1, ROWS>(unit, half, acts)[0],
                    Q4_1 => nibbles::<false, 1, ROWS>(unit, half, acts)[0],
                    _ => octets::<8, ROWS>(unit, half, acts, 0),
                };
                let scales = unit.add(code_bytes + half * 16);
                add_scaled(sums, half, products, halves(scales), acts);
                if LAYOUT == Q4_1 || LAYOUT == Q5_1 {
                    add_mins::<false, ROWS>(sums, half, halves(scales.add(PANEL * 2)), acts, |act| act.scaled_sum);
                }
            }
        }
    }
}

/// Q4_K and, `WIDE`, Q5_K: a scale and a min a group.
///
/// # Safety
/// `panel` holds whole units, each row eight groups for each; the CPU has NEON.
#[target_feature(enable = "neon")]
unsafe fn sum_k_mins<const WIDE: bool, const ROWS: usize>(panel: &[u8], tile: &Tile<'_>, sums: &mut Sums<ROWS>) {
    let (layout, code_bytes) = if WIDE { (Layout::Q5_K, 512) } else { (Layout::Q4_K, 256) };
    for (unit_index, unit) in panel.chunks_exact(layout.unit_bytes()).enumerate() {
        for inner in 0..8 {
            let at = unit[64 + inner * (code_bytes + 32)..].as_ptr();
            let acts: &[ActGroup; ROWS] = tile.of_group(unit_index * 8 + inner);
            tile.ask(at, code_bytes + 32);
            for half in 0..2 {
                // SAFETY: a unit is two vectors of halves and eight groups of codes and 32 bytes.
                unsafe {
                    let products =
                        if WIDE { octets::<8, ROWS>(at, half, acts, 0) } else { nibbles::<false, 1, ROWS>(at, half, acts)[0] };
                    let [d, dmin] = [0, 32].map(|numbers| halves(unit.as_ptr().add(numbers + half * 16)));
                    let scales = at.add(code_bytes + half * 8);
                    add_scaled(sums, half, products, times_bytes::<false>(d, scales), acts);
                    let min = times_bytes::<false>(dmin, scales.add(PANEL));
                    add_mins::<true, ROWS>(sums, half, min, acts, |act| act.scaled_sum);
                }
            }
        }
    }
}

/// Q2_K and, `SIGNED`, Q3_K: codes of 4 bits, and for each half of a group a scale (and a min).
///
/// # Safety
/// `panel` holds whole units, each row eight groups for each; the CPU has NEON.
#[target_feature(enable = "neon")]
unsafe fn sum_halves<const SIGNED: bool, const ROWS: usize>(panel: &[u8], tile: &Tile<'_>, sums: &mut Sums<ROWS>) {
    let (layout, head, group_bytes) = if SIGNED { (Layout::Q3_K, 32, 288) } else { (Layout::Q2_K, 64, 320) };
    for (unit_index, unit) in panel.chunks_exact(layout.unit_bytes()).enumerate() {
        for inner in 0..8 {
            let at = unit[head + inner * group_bytes..].as_ptr();
            let acts: &[ActGroup; ROWS] = tile.of_group(unit_index * 8 + inner);
            tile.ask(at, group_bytes);
            for half in 0..2 {
                // SAFETY: a unit is its head of halves and eight groups of codes, two vectors of scales (and two of mins).
                unsafe {
                    let products = nibbles::<SIGNED, 2, ROWS>(at, half, acts);
                    let d = halves(unit.as_ptr().add(half * 16));
                    let scales = at.add(256 + half * 8);
                    add_scaled(sums, half, products[0], times_bytes::<SIGNED>(d, scales), acts);
                    add_scaled(sums, half, products[1], times_bytes::<SIGNED>(d, scales.add(PANEL)), acts);
                    if !SIGNED {
                        let dmin = halves(unit.as_ptr().add(32 + half * 16));
                        let [first, second] = [2, 3].map(|row| times_bytes::<false>(dmin, scales.add(row * PANEL)));
                        add_mins::<true, ROWS>(sums, half, first, acts, |act| act.half_sums[0]);
                        add_mins::<true, ROWS>(sums, half, second, acts, |act| act.half_sums[1]);
                    }
                }
            }
        }
    }
}

/// # Safety
/// `panel` holds whole units of Q6_K, each row eight groups for each; the CPU has NEON.
#[target_feature(enable = "neon")]
unsafe fn sum_q6_k<const ROWS: usize>(panel: &[u8], tile: &Tile<'_>, sums: &mut Sums<ROWS>) {
    for (unit_index, unit) in panel.chunks_exact(Layout::Q6_K.unit_bytes()).enumerate() {
        for inner in 0..16 {
            let at = unit[32 + inner * 272..].as_ptr();
            let acts: &[ActGroup; ROWS] = tile.of_group(unit_index * 8 + inner / 2);
            tile.ask(at, 272);
            for half in 0..2 {
                // SAFETY: a unit is a vector of halves and sixteen groups of 256 bytes of codes and 16 scales.
                unsafe {
                    let products = octets::<4, ROWS>(at, half, acts, inner % 2 * 4);
                    let d = halves(unit.as_ptr().add(half * 16));
                    add_scaled(sums, half, products, times_bytes::<true>(d, at.add(256 + half * 8)), acts);
                }
            }
        }
    }
}
