//! Whole multiplications: panels shared out over the threads, each read once for all rows.

use std::marker::PhantomData;
use std::ops::Range;

use super::super::pool::{Pool, WorkerPanicked};
use super::Kernels;
use super::activation::{ActGroup, RowOut, band_of};
use super::ahead::{Ahead, Walk};
use super::layout::{GROUP, PANEL};
use super::matrix::Matrix;
use super::panels::{Inputs, Job};

/// Panels that stay in the first caches while the rows pass over them.
const BLOCK_BYTES: usize = 96 * 1024;

/// Rows that the largest tile holds: so many pass over the weights only once.
const TILE: usize = 8;

/// How far before its use a weight is called in, when all rows pass at once.
const AHEAD: usize = 4096;

/// How many of `total` units of `bytes` each are taken at a time: a cacheful when rows pass over them repeatedly, else
/// few enough pieces that taking them costs nothing and enough that a late thread can be helped.
fn grain(total: usize, bytes: usize, rows: usize, pool: &Pool) -> usize {
    if rows > TILE { (BLOCK_BYTES / bytes).max(1) } else { total.div_ceil(pool.threads() * 4) }
}

/// Rows of inputs in the forms that weights want: 16-bit groups for quantized ones, floats for float ones.
#[derive(Default)]
pub struct Activations {
    k: usize,
    rows: usize,
    quantized: bool,
    floating: bool,
    groups: Vec<ActGroup>,
    floats: Vec<f32>,
}

impl Activations {
    /// Sets the size and the forms that [`Activations::fill`] makes, which are those that `readers` want.
    pub fn shape<'a>(&mut self, rows: usize, k: usize, readers: impl IntoIterator<Item = &'a Matrix>) {
        (self.k, self.rows, self.quantized, self.floating) = (k, rows, false, false);
        for reader in readers {
            assert_eq!(reader.k(), k, "a reader of other rows");
            self.quantized |= !reader.layout().is_float();
            self.floating |= reader.layout().is_float();
        }
        let groups = if self.quantized { rows * (k / GROUP) } else { 0 };
        self.groups.resize(groups, ActGroup::ZERO);
        self.floats.resize(if self.floating { rows * k } else { 0 }, 0.0);
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// RMSNorm of `x`, row by row.
    ///
    /// # Errors
    /// When a thread panicked.
    pub fn normed(&mut self, pool: &Pool, kernels: Kernels, x: &[f32], weight: &[f32], eps: f32) -> Result<(), WorkerPanicked> {
        let k = self.k;
        if self.quantized {
            let (rows, groups) = (self.rows, ActTarget::new(&mut self.groups));
            pool.split(rows, |row| {
                // SAFETY: every row is one thread's.
                let out = unsafe { groups.row(rows, row, 0..k / GROUP, k / GROUP) };
                kernels.rms_norm_quantize_row(&x[row * k..][..k], weight, eps, out);
            })?;
        }
        if self.floating {
            pool.chunks(&mut self.floats, k, |row, out| kernels.rms_norm(&x[row * k..][..k], weight, eps, out))?;
        }
        Ok(())
    }

    /// `x` as it is.
    ///
    /// # Errors
    /// When a thread panicked.
    pub fn fill(&mut self, pool: &Pool, kernels: Kernels, x: &[f32]) -> Result<(), WorkerPanicked> {
        let k = self.k;
        if self.quantized {
            let (rows, groups) = (self.rows, ActTarget::new(&mut self.groups));
            pool.split(rows, |row| {
                // SAFETY: every row is one thread's.
                let out = unsafe { groups.row(rows, row, 0..k / GROUP, k / GROUP) };
                kernels.quantize_row(&x[row * k..][..k], out);
            })?;
        }
        if self.floating {
            self.floats.copy_from_slice(&x[..self.rows * k]);
        }
        Ok(())
    }

    /// What `make` writes: it is called with each of `tiles`, ranges of rows of `x` that have every row once, and with each
    /// part of those rows, `part` numbers long, and makes these whole. Where parts are whole groups, whoever made one
    /// quantizes it at once, and threads need not meet in between.
    ///
    /// # Errors
    /// When a thread panicked.
    ///
    /// # Panics
    /// When rows are no whole number of parts.
    #[allow(clippy::too_many_arguments)]
    pub fn made<S: Send>(
        &mut self,
        pool: &Pool,
        kernels: Kernels,
        x: &mut [f32],
        part: usize,
        tiles: &[Range<usize>],
        scratch: &mut [S],
        make: impl Fn(&Range<usize>, usize, &mut TileOut<'_>, &mut S) + Sync,
    ) -> Result<(), WorkerPanicked> {
        assert!(self.k.is_multiple_of(part) && x.len() == self.rows * self.k, "whole rows of whole parts");
        let disjoint =
            tiles.windows(2).all(|pair| pair[0].end == pair[1].start) && tiles.iter().all(|tile| tile.start <= tile.end);
        assert!(
            disjoint && tiles.first().is_none_or(|tile| tile.start == 0) && tiles.last().is_none_or(|tile| tile.end == self.rows)
        );
        let at_once = self.quantized && part.is_multiple_of(GROUP);
        let (rows, k, of, parts, each) = (self.rows, self.k, self.k / GROUP, self.k / part, part / GROUP);
        let groups = ActTarget::new(&mut self.groups);
        let target = Target(x.as_mut_ptr());
        pool.split_with(tiles.len() * parts, scratch, |index, scratch| {
            let (tile, number) = (&tiles[index / parts], index % parts);
            let mut out =
                TileOut { first: target.at(tile.start * k + number * part), rows: tile.len(), stride: k, part, of: PhantomData };
            make(tile, number, &mut out, scratch);
            for row in tile.clone().filter(|_| at_once) {
                let first = number * each;
                // SAFETY: every part is one thread's.
                let to = unsafe { groups.row(rows, row, first..first + each, of) };
                kernels.quantize_row(out.row(row - tile.start), to);
            }
        })?;
        if !at_once {
            return self.fill(pool, kernels, x);
        }
        if self.floating {
            self.floats.copy_from_slice(x);
        }
        Ok(())
    }

    fn inputs(&self, reader: &Matrix) -> Inputs<'_> {
        assert_eq!(reader.k(), self.k, "inputs of another length");
        if reader.layout().is_float() {
            assert!(self.floating && self.floats.len() == self.rows * self.k);
            Inputs::Floats(&self.floats)
        } else {
            assert!(self.quantized && self.groups.len() == self.rows * (self.k / GROUP));
            Inputs::Quantized(&self.groups)
        }
    }
}

/// The same part of rows that follow one another.
pub struct TileOut<'a> {
    first: *mut f32,
    rows: usize,
    stride: usize,
    part: usize,
    of: PhantomData<&'a mut f32>,
}

impl TileOut<'_> {
    /// The part of one of the rows, from 0.
    pub fn row(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.rows);
        // SAFETY: `made` gives every part of every row to one thread, and the rows are whole.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(row * self.stride), self.part) }
    }
}

/// A matrix and the column of the output where its first row's result goes.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    pub weights: &'a Matrix,
    pub column: usize,
}

/// Memory that threads write at places that they have agreed on.
#[derive(Clone, Copy)]
struct Target(*mut f32);

// SAFETY: `multiply` and `gated` give every column to one thread.
unsafe impl Sync for Target {}

impl Target {
    fn at(&self, column: usize) -> *mut f32 {
        self.0.wrapping_add(column)
    }
}

impl Kernels {
    /// `out[row][column + output] (+)= inputs[row] . weights[output]` for all parts, whose columns must not overlap.
    /// `out` is `[rows][stride]`. `ahead` is asked for on the way.
    ///
    /// # Errors
    /// When a thread panicked.
    #[allow(clippy::too_many_arguments)]
    pub fn multiply(
        self,
        pool: &Pool,
        parts: &[Part<'_>],
        inputs: &Activations,
        out: &mut [f32],
        stride: usize,
        add: bool,
        ahead: Ahead<'_>,
    ) -> Result<(), WorkerPanicked> {
        assert!(out.len() >= inputs.rows() * stride, "room for all rows");
        let mut columns = 0;
        for part in parts {
            assert!(part.column >= columns && part.column + part.weights.rows() <= stride, "parts side by side");
            columns = part.column + part.weights.rows();
        }
        let target = Target(out.as_mut_ptr());
        let total: usize = parts.iter().map(|part| part.weights.panels()).sum();
        let bytes = parts.iter().map(|part| part.weights.panel_bytes()).max().unwrap_or(1);
        pool.share_out(total, grain(total, bytes, inputs.rows(), pool), |_, piece| {
            let walk = ahead.share(&piece, total);
            let mut first = 0;
            for part in parts {
                let range = first..first + part.weights.panels();
                let (from, to) = (piece.start.clamp(range.start, range.end), piece.end.clamp(range.start, range.end));
                // SAFETY: the columns of these panels are this piece's alone, and inside `out` (both checked above).
                unsafe { self.panel_block(part, from - first..to - first, inputs, &target, stride, add, &walk) };
                first = range.end;
            }
        })
    }

    /// Some panels of one part, for all rows.
    ///
    /// # Safety
    /// `target` is good for the columns of these panels in all rows, and nobody else uses them.
    #[allow(clippy::too_many_arguments)]
    unsafe fn panel_block(
        self,
        part: &Part<'_>,
        panels: Range<usize>,
        inputs: &Activations,
        target: &Target,
        stride: usize,
        add: bool,
        walk: &Walk<'_>,
    ) {
        if panels.is_empty() {
            return;
        }
        let weights = part.weights;
        let job = Job {
            layout: weights.layout(),
            panels: weights.panel_range(panels.clone()),
            panel_bytes: weights.panel_bytes(),
            k: weights.k(),
            outputs: weights.rows().min(panels.end * PANEL) - panels.start * PANEL,
            inputs: inputs.inputs(weights),
            rows: inputs.rows(),
            out: target.at(part.column + panels.start * PANEL),
            out_stride: stride,
            add,
            walk,
            ahead: if inputs.rows() <= TILE { AHEAD } else { panels.len() * weights.panel_bytes() },
        };
        // SAFETY: handed on.
        unsafe { self.panels(&job) };
    }

    /// The gated feed-forward's first half: `out = silu(gate x) * (up x)`, made ready for the matrix that reads it.
    /// `ahead` is asked for on the way.
    ///
    /// # Errors
    /// When a thread panicked.
    #[allow(clippy::too_many_arguments)]
    pub fn gated(
        self,
        pool: &Pool,
        gate: &Matrix,
        up: &Matrix,
        inputs: &Activations,
        scratch: &mut Gated,
        out: &mut Activations,
        ahead: Ahead<'_>,
    ) -> Result<(), WorkerPanicked> {
        let (rows, width) = (inputs.rows(), gate.rows());
        assert!(up.rows() == width && out.k == width && out.rows == rows, "shapes that belong together");
        scratch.both.resize(rows * 2 * width, 0.0);
        let target = Target(scratch.both.as_mut_ptr());
        let groups = ActTarget::new(&mut out.groups);
        let floats = Target(out.floats.as_mut_ptr());
        let (quantized, floating) = (out.quantized, out.floating);
        // Cut at whole groups of 32 outputs, so that each thread quantizes what it made.
        let total = width.div_ceil(GROUP);
        let pair = GROUP / PANEL;
        let grain = grain(total, 2 * pair * gate.panel_bytes(), rows, pool);
        pool.share_out(total, grain, |_, piece| {
            let walk = ahead.share(&piece, total);
            for (weights, column) in [(gate, 0), (up, width)] {
                let panels = piece.start * pair..(piece.end * pair).min(weights.panels());
                // SAFETY: groups, and with them panels and columns, belong to one piece each.
                unsafe { self.panel_block(&Part { weights, column }, panels, inputs, &target, 2 * width, false, &walk) };
            }
            let columns = piece.start * GROUP..(piece.end * GROUP).min(width);
            for row in 0..rows {
                // SAFETY: the same columns of `both`, which were written just above, and of `out`.
                unsafe {
                    let at = row * 2 * width + columns.start;
                    let gate = std::slice::from_raw_parts_mut(target.at(at), columns.len());
                    let up = std::slice::from_raw_parts(target.at(at + width), columns.len());
                    self.silu_mul_in_place(gate, up);
                    if quantized {
                        self.quantize_row(gate, groups.row(rows, row, piece.clone(), width / GROUP));
                    }
                    if floating {
                        let to = floats.at(row * width + columns.start);
                        std::slice::from_raw_parts_mut(to, columns.len()).copy_from_slice(gate);
                    }
                }
            }
        })
    }
}

/// Groups that threads write at places that they have agreed on.
struct ActTarget {
    groups: *mut ActGroup,
    len: usize,
}

// SAFETY: whoever uses it gives every group to one thread.
unsafe impl Sync for ActTarget {}

impl ActTarget {
    fn new(groups: &mut [ActGroup]) -> ActTarget {
        ActTarget { groups: groups.as_mut_ptr(), len: groups.len() }
    }

    /// Some groups of one row out of `rows`, each of `of` groups.
    ///
    /// # Safety
    /// The memory is still borrowed, and nobody else has these groups of this row.
    unsafe fn row<'a>(&self, rows: usize, row: usize, groups: Range<usize>, of: usize) -> RowOut<'a> {
        assert!(row < rows && groups.end <= of && rows * of <= self.len);
        let band = band_of(rows, row);
        let first = band.start * of + groups.start * band.len() + (row - band.start);
        // SAFETY: a band's last group ends where the next band begins, so these are inside, as just checked.
        unsafe { RowOut::new(self.groups.add(first), band.len(), groups.len()) }
    }
}

/// Memory of [`Kernels::gated`], kept from step to step.
#[derive(Default)]
pub struct Gated {
    both: Vec<f32>,
}
