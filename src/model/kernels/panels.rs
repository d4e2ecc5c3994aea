//! Panels times rows of activations: what every kernel family implements.
//!
//! One output element is always computed in one order: group after group along the input for quantized weights (the
//! products of a group add up in integers, exactly), even and odd inputs apart for float weights. How many rows
//! a tile has, or who computes it, changes nothing.

use super::activation::{ActGroup, BAND, band};
use super::ahead::Walk;
use super::layout::{GROUP, Layout, PANEL};
use super::repack::{Group, unpack_group};
use super::simd::{Plain, Simd};
use super::vector::Lanes;

/// The inputs of a multiplication: groups band by band (see [`BAND`]), floats row after row.
#[derive(Clone, Copy)]
pub(super) enum Inputs<'a> {
    Quantized(&'a [ActGroup]),
    Floats(&'a [f32]),
}

/// Some panels of one matrix, to be multiplied with all rows.
pub(super) struct Job<'a> {
    pub layout: Layout,
    /// Whole panels.
    pub panels: &'a [u8],
    pub panel_bytes: usize,
    /// Length of an input row.
    pub k: usize,
    /// Outputs of these panels: 16 each, but for a matrix's last one.
    pub outputs: usize,
    pub inputs: Inputs<'a>,
    pub rows: usize,
    /// Where row 0's first output goes.
    pub out: *mut f32,
    /// From one row's outputs to the next row's, in floats.
    pub out_stride: usize,
    /// Add to what is there.
    pub add: bool,
    /// How far before the weights that will be read next are called into the cache while the last rows pass over these.
    pub ahead: usize,
    /// Keys and values to ask for meanwhile.
    pub walk: &'a Walk<'a>,
}

impl Job<'_> {
    /// Groups in one input row.
    #[inline(always)]
    pub fn groups(&self) -> usize {
        self.k / GROUP
    }

    /// The panels, and how many outputs each has.
    #[inline(always)]
    pub fn each_panel(&self) -> impl Iterator<Item = (usize, &[u8], usize)> {
        let panels = self.panels.chunks_exact(self.panel_bytes).enumerate();
        panels.map(|(index, panel)| (index, panel, (self.outputs - index * PANEL).min(PANEL)))
    }

    /// Calls `tile(first row, rows, groups)` for each band, whose groups lie `[group][row]`.
    #[inline(always)]
    pub fn each_band<'b>(&self, inputs: &'b [ActGroup], mut tile: impl FnMut(usize, usize, &'b [ActGroup])) {
        for index in 0..self.rows.div_ceil(BAND) {
            let rows = band(self.rows, index);
            let groups = &inputs[rows.start * self.groups()..rows.end * self.groups()];
            tile(rows.start, rows.len(), groups);
        }
    }

    /// Stores 16 outputs of one row, or as many as the panel has.
    ///
    /// # Safety
    /// `out` is good for this row and these columns, and nobody else uses them.
    #[inline(always)]
    pub unsafe fn store<V: Simd>(&self, panel: usize, columns: usize, row: usize, sum: V) {
        // SAFETY: the caller vouches for the columns; a partial panel goes through memory of its own.
        unsafe {
            let to = self.out.add(row * self.out_stride + panel * PANEL);
            if columns == PANEL {
                let sum = if self.add { V::load(to).add(sum) } else { sum };
                sum.store(to);
                return;
            }
            let mut lanes: Lanes = [0.0; PANEL];
            sum.store(lanes.as_mut_ptr());
            for (column, value) in lanes[..columns].iter().enumerate() {
                let before = if self.add { *to.add(column) } else { 0.0 };
                *to.add(column) = if self.add { before + value } else { *value };
            }
        }
    }
}

/// Cuts `rows` into tiles of at most `most`, as even as can be, and calls `tile(first row, rows)` for each.
#[inline(always)]
pub(super) fn each_tile(rows: usize, most: usize, mut tile: impl FnMut(usize, usize)) {
    let tiles = rows.div_ceil(most);
    for index in 0..tiles {
        let (begin, end) = (rows * index / tiles, rows * (index + 1) / tiles);
        tile(begin, end - begin);
    }
}

/// Plain Rust, for any machine: the reference that the others are held against.
///
/// # Safety
/// `job.out` is good for all rows and columns of the job, and nobody else uses them.
pub(super) unsafe fn run_portable(job: &Job<'_>) {
    // SAFETY: handed on.
    match job.inputs {
        Inputs::Floats(inputs) => unsafe { run_floats::<Plain>(job, inputs) },
        Inputs::Quantized(inputs) => job.each_band(inputs, |first, rows, band| unsafe { tile_portable(job, band, first, rows) }),
    }
}

/// The rows of one band, from the job's row `first` on, times all panels.
///
/// # Safety
/// As for [`run_portable`], for these rows.
unsafe fn tile_portable(job: &Job<'_>, band: &[ActGroup], first: usize, rows: usize) {
    for (index, panel, columns) in job.each_panel() {
        let mut sums = [[0f32; PANEL]; BAND];
        for group in 0..job.groups() {
            let weights = unpack_group(job.layout, panel, group);
            for (row, sums) in sums[..rows].iter_mut().enumerate() {
                add_group(job.layout, &weights, &band[group * rows + row], sums);
            }
        }
        for (row, sums) in sums[..rows].iter().enumerate() {
            // SAFETY: the caller's; `Plain` needs no CPU feature.
            unsafe { job.store(index, columns, first + row, Plain::load(sums.as_ptr())) };
        }
    }
}

/// One group of 32: the integer products, scaled and added. Two scales in it add twice.
fn add_group(layout: Layout, weights: &Group, act: &ActGroup, sums: &mut Lanes) {
    let mut dots = [[0i32; PANEL]; 2];
    for (input, code) in act.codes.iter().enumerate() {
        for lane in 0..PANEL {
            dots[input / 16][lane] += i32::from(weights.codes[input][lane]) * i32::from(*code);
        }
    }
    for lane in 0..PANEL {
        let [first, second] = [dots[0][lane], dots[1][lane]];
        let [scale, scale_second] = [weights.scales[0][lane] * act.scale, weights.scales[1][lane] * act.scale];
        if layout.has_two_scales() {
            sums[lane] = (first as f32).mul_add(scale, sums[lane]);
            sums[lane] = (second as f32).mul_add(scale_second, sums[lane]);
        } else {
            sums[lane] = ((first + second) as f32).mul_add(scale, sums[lane]);
        }
        if layout == Layout::Q2_K {
            sums[lane] = weights.mins[0][lane].mul_add(act.half_sums[0], sums[lane]);
            sums[lane] = weights.mins[1][lane].mul_add(act.half_sums[1], sums[lane]);
        } else if matches!(layout, Layout::Q4_1 | Layout::Q5_1 | Layout::Q4_K | Layout::Q5_K) {
            sums[lane] = weights.mins[0][lane].mul_add(act.scaled_sum, sums[lane]);
        }
    }
}

/// Float weights, any family.
///
/// # Safety
/// As for [`run_portable`], and the family's CPU features are there and enabled in the caller.
#[inline(always)]
pub(super) unsafe fn run_floats<V: Simd>(job: &Job<'_>, inputs: &[f32]) {
    // No closures on this way: they would be compiled without the family's features.
    let tiles = job.rows.div_ceil(V::FLOAT_TILE);
    for tile in 0..tiles {
        let (first, end) = (job.rows * tile / tiles, job.rows * (tile + 1) / tiles);
        let inputs = &inputs[first * job.k..end * job.k];
        // SAFETY: handed on.
        unsafe {
            match end - first {
                1 => floats_of_layout::<V, 1>(job, inputs, first),
                2 => floats_of_layout::<V, 2>(job, inputs, first),
                3 => floats_of_layout::<V, 3>(job, inputs, first),
                4 => floats_of_layout::<V, 4>(job, inputs, first),
                5 => floats_of_layout::<V, 5>(job, inputs, first),
                6 => floats_of_layout::<V, 6>(job, inputs, first),
                7 => floats_of_layout::<V, 7>(job, inputs, first),
                _ => floats_of_layout::<V, 8>(job, inputs, first),
            }
        }
    }
}

const F32: u8 = 0;
const F16: u8 = 1;
const BF16: u8 = 2;

/// [`floats`] for the job's layout; nothing for a tile of more rows than the family has.
///
/// # Safety
/// As for [`floats`].
#[inline(always)]
unsafe fn floats_of_layout<V: Simd, const ROWS: usize>(job: &Job<'_>, inputs: &[f32], first: usize) {
    if ROWS > V::FLOAT_TILE {
        return;
    }
    // SAFETY: handed on.
    unsafe {
        match job.layout {
            Layout::F32 => floats::<V, F32, ROWS>(job, inputs, first),
            Layout::BF16 => floats::<V, BF16, ROWS>(job, inputs, first),
            _ => floats::<V, F16, ROWS>(job, inputs, first),
        }
    }
}

/// 16 weights of a float layout.
///
/// # Safety
/// 64 bytes (F32) or 32 (F16, BF16) can be read from `at` on, and the family's CPU features are there and enabled in the
/// caller.
#[inline(always)]
unsafe fn load<V: Simd, const LAYOUT: u8>(at: *const u8) -> V {
    // SAFETY: the caller's.
    unsafe {
        match LAYOUT {
            F32 => V::load(at.cast()),
            F16 => V::load_f16(at.cast()),
            _ => V::load_bf16(at.cast()),
        }
    }
}

/// `ROWS` rows of inputs, those of the job's row `first` and on, times all panels.
///
/// # Safety
/// As for [`run_floats`], for these rows; `inputs` holds `ROWS` rows of `job.k`, and each panel `job.k` units.
#[inline(always)]
unsafe fn floats<V: Simd, const LAYOUT: u8, const ROWS: usize>(job: &Job<'_>, inputs: &[f32], first: usize) {
    let step = job.layout.unit_bytes();
    debug_assert!(inputs.len() >= ROWS * job.k && job.panel_bytes >= job.k * step);
    let input = inputs.as_ptr();
    for (index, panel, columns) in job.each_panel() {
        // SAFETY: `k` steps of weights are in the panel, `k` inputs in each of `ROWS` rows.
        unsafe {
            let mut even = [V::splat(0.0); ROWS];
            let mut odd = [V::splat(0.0); ROWS];
            let mut at = panel.as_ptr();
            for pair in 0..job.k / 2 {
                let (low, high): (V, V) = (load::<V, LAYOUT>(at), load::<V, LAYOUT>(at.add(step)));
                at = at.add(2 * step);
                for row in 0..ROWS {
                    let from = input.add(row * job.k + pair * 2);
                    even[row] = low.mul_add(V::splat(*from), even[row]);
                    odd[row] = high.mul_add(V::splat(*from.add(1)), odd[row]);
                }
            }
            for row in 0..ROWS {
                if job.k % 2 == 1 {
                    even[row] = load::<V, LAYOUT>(at).mul_add(V::splat(*input.add(row * job.k + job.k - 1)), even[row]);
                }
                job.store(index, columns, first + row, even[row].add(odd[row]));
            }
        }
    }
}
