//! Attention of one token over the KV blocks of its sequence.
//!
//! Keys lie 16 positions abreast (`[block][kv head][tile of 16][dimension][16]`), so 16 scores come out of plain
//! multiply-adds with no sum across lanes. Values lie position after position (`[block][kv head][position][dimension]`).
//! Position p is always lane p % 16 of tile p / 16, and everything adds up in the order of positions: a result
//! depends on the sequence alone, not on chunks, neighbours or where its blocks are.
//!
//! Codes have one scale for each position and head, which lie behind the codes of their head and block
//! (`[block][kv head]`, then codes, then `[position]` scales). A key's scale multiplies the finished score, a value's the
//! position's weight: the loops over dimensions are the same for codes as for floats.

use crate::batch::BlockId;

use super::simd::Simd;
use super::vector::{LANES, Lanes, exp, sum_lanes};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Sizes that all layers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Positions in a block: a multiple of 16.
    pub block_size: usize,
    pub kv_heads: usize,
    /// Query heads for each KV head.
    pub group: usize,
    pub head_dim: usize,
}

impl AttentionShape {
    /// Numbers from one position's values to the next: whole vectors.
    pub fn value_stride(&self) -> usize {
        self.head_dim.next_multiple_of(LANES)
    }

    /// Numbers of one block's keys, all KV heads. `scale`: the numbers whose place a scale takes, 0 where there are none
    /// (see [`KvType::scale_numbers`](super::KvType::scale_numbers)).
    pub fn key_block(&self, scale: usize) -> usize {
        self.kv_heads * (self.head_dim + scale) * self.block_size
    }

    /// Numbers of one block's values, all KV heads.
    pub fn value_block(&self, scale: usize) -> usize {
        self.kv_heads * (self.value_stride() + scale) * self.block_size
    }

    /// Where one head's keys of a block begin.
    fn key_head(&self, block: BlockId, head: usize, scale: usize) -> usize {
        (block.0 as usize * self.kv_heads + head) * (self.head_dim + scale) * self.block_size
    }

    /// Where one head's values of a block begin.
    fn value_head(&self, block: BlockId, head: usize, scale: usize) -> usize {
        (block.0 as usize * self.kv_heads + head) * (self.value_stride() + scale) * self.block_size
    }

    /// Where dimension 0 of a position's key lies; the next dimensions follow 16 numbers apart.
    pub fn key_at(&self, block: BlockId, slot: usize, head: usize, scale: usize) -> usize {
        self.key_head(block, head, scale) + slot / LANES * self.head_dim * LANES + slot % LANES
    }

    /// Where a position's values begin.
    pub fn value_at(&self, block: BlockId, slot: usize, head: usize, scale: usize) -> usize {
        self.value_head(block, head, scale) + slot * self.value_stride()
    }

    /// Where a position's key has its scale, which takes the place of `scale` numbers.
    pub fn key_scale_at(&self, block: BlockId, slot: usize, head: usize, scale: usize) -> usize {
        self.key_head(block, head, scale) + self.head_dim * self.block_size + slot * scale
    }

    /// Where a position's values have their scale.
    pub fn value_scale_at(&self, block: BlockId, slot: usize, head: usize, scale: usize) -> usize {
        self.value_head(block, head, scale) + self.value_stride() * self.block_size + slot * scale
    }
}

/// One layer's pages, in the numbers that the cache keeps.
#[derive(Clone, Copy)]
pub enum KvLayer<'a> {
    F32(KvPages<'a, f32>),
    F16(KvPages<'a, Half>),
    Q8_0(KvPages<'a, Code>),
}

/// Keys and values of one layer.
#[derive(Clone, Copy)]
pub struct KvPages<'a, N> {
    pub keys: &'a [N],
    pub values: &'a [N],
}

/// The bits of a half float.
pub type Half = u16;

/// A number as an integer of 8 bits: the number is code * scale.
pub type Code = i8;

/// A number that the cache keeps. All zero bits are a zero.
pub(super) trait KvNumber: Copy {
    /// Numbers whose place a position's scale takes; 0 when a number says all by itself.
    const SCALE: usize;

    /// 16 neighbours as floats.
    ///
    /// # Safety
    /// 16 numbers can be read; the family's CPU features are there and enabled in the caller.
    unsafe fn load<V: Simd>(from: *const Self) -> V;
}

impl KvNumber for f32 {
    const SCALE: usize = 0;

    #[inline(always)]
    unsafe fn load<V: Simd>(from: *const f32) -> V {
        // SAFETY: the caller's.
        unsafe { V::load(from) }
    }
}

impl KvNumber for Half {
    const SCALE: usize = 0;

    #[inline(always)]
    unsafe fn load<V: Simd>(from: *const Half) -> V {
        // SAFETY: the caller's.
        unsafe { V::load_f16(from) }
    }
}

impl KvNumber for Code {
    const SCALE: usize = size_of::<f32>();

    #[inline(always)]
    unsafe fn load<V: Simd>(from: *const Code) -> V {
        // SAFETY: the caller's.
        unsafe { V::load_i8(from) }
    }
}

/// A thread's memory for scores, kept from step to step.
#[derive(Default)]
pub struct Scratch {
    scores: Vec<f32>,
    sums: Vec<f32>,
}

impl Scratch {
    /// Makes room for a group's scores over `positions`.
    pub fn reserve(&mut self, shape: &AttentionShape, positions: usize) {
        let scores = shape.group * positions.next_multiple_of(LANES);
        if self.scores.len() < scores {
            self.scores.resize(scores, 0.0);
        }
        let sums = shape.group * shape.value_stride();
        if self.sums.len() < sums {
            self.sums.resize(sums, 0.0);
        }
    }
}

/// The heads of KV head `head`'s group, for the token at position `count - 1`. `queries` and `out` are
/// `[group][head_dim]`; the queries are rotated and scaled already. `scratch` has room for `count` positions.
///
/// # Safety
/// The family's CPU features are there and enabled in the caller.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn attend<V: Simd>(
    shape: &AttentionShape,
    kv: &KvLayer<'_>,
    table: &[BlockId],
    head: usize,
    count: usize,
    queries: &[f32],
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    // SAFETY: handed on.
    unsafe {
        match kv {
            KvLayer::F32(pages) => attend_pages::<V, f32>(shape, pages, table, head, count, queries, scratch, out),
            KvLayer::F16(pages) => attend_pages::<V, Half>(shape, pages, table, head, count, queries, scratch, out),
            KvLayer::Q8_0(pages) => attend_pages::<V, Code>(shape, pages, table, head, count, queries, scratch, out),
        }
    }
}

/// # Safety
/// As for [`attend`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn attend_pages<V: Simd, N: KvNumber>(
    shape: &AttentionShape,
    kv: &KvPages<'_, N>,
    table: &[BlockId],
    head: usize,
    count: usize,
    queries: &[f32],
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    let stride = count.next_multiple_of(LANES);
    let scores = &mut scratch.scores[..shape.group * stride];
    let tile_at = |tile: usize| {
        let position = tile * LANES;
        let key = shape.key_at(table[position / shape.block_size], position % shape.block_size, head, N::SCALE);
        &kv.keys[key..][..shape.head_dim * LANES]
    };
    // SAFETY: the features are the caller's; slices are cut to what is read.
    unsafe {
        let tiles = stride / LANES;
        let pairs = 2 * shape.group.min(4) <= V::SUMS;
        let mut tile = 0;
        while tile < tiles {
            let next = tile_at((tile + if pairs { 2 } else { 1 }).min(tiles - 1));
            if pairs && tile + 1 < tiles {
                score_heads::<V, N, 2>(shape, [tile_at(tile), tile_at(tile + 1)], next, queries, scores, stride, tile);
                tile += 2;
            } else {
                score_heads::<V, N, 1>(shape, [tile_at(tile)], next, queries, scores, stride, tile);
                tile += 1;
            }
        }
        scale(shape, kv.keys, table, scores, stride, |block, slot| shape.key_scale_at(block, slot, head, N::SCALE));
        for scores in scores.chunks_exact_mut(stride) {
            softmax(scores, count);
        }
        scale(shape, kv.values, table, scores, stride, |block, slot| shape.value_scale_at(block, slot, head, N::SCALE));
        weigh_heads::<V, N>(shape, kv, table, head, count, scores, stride, &mut scratch.sums);
    }
    for (out, sums) in out.chunks_exact_mut(shape.head_dim).zip(scratch.sums.chunks_exact(shape.value_stride())) {
        out.copy_from_slice(&sums[..shape.head_dim]);
    }
}

/// Multiplies each position's numbers, `[head of the group][position]`, by its scale; nothing where there are no scales.
/// What lies in positions that are not written yet is never used.
#[inline(always)]
fn scale<N: KvNumber>(
    shape: &AttentionShape,
    kept: &[N],
    table: &[BlockId],
    numbers: &mut [f32],
    stride: usize,
    at: impl Fn(BlockId, usize) -> usize,
) {
    if N::SCALE == 0 {
        return;
    }
    for position in (0..stride).step_by(LANES) {
        let at = at(table[position / shape.block_size], position % shape.block_size);
        let scales = &kept[at..][..LANES * N::SCALE];
        assert!(size_of_val(scales) == size_of::<Lanes>());
        // SAFETY: just checked; all bits are floats.
        let scales: Lanes = unsafe { scales.as_ptr().cast::<Lanes>().read_unaligned() };
        for numbers in numbers.chunks_exact_mut(stride) {
            for (number, scale) in numbers[position..][..LANES].iter_mut().zip(scales) {
                *number *= scale;
            }
        }
    }
}

/// Scores of `TILES` times 16 positions, for all heads of the group, up to four heads at a time.
///
/// # Safety
/// The family's CPU features are there and enabled in the caller.
#[inline(always)]
unsafe fn score_heads<V: Simd, N: KvNumber, const TILES: usize>(
    shape: &AttentionShape,
    keys: [&[N]; TILES],
    next: &[N],
    queries: &[f32],
    scores: &mut [f32],
    stride: usize,
    tile: usize,
) {
    let mut head = 0;
    while head < shape.group {
        let heads = (shape.group - head).min(4);
        let queries = &queries[head * shape.head_dim..][..heads * shape.head_dim];
        let scores = &mut scores[head * stride..][..heads * stride];
        // SAFETY: the features are the caller's.
        unsafe {
            match heads {
                1 => score::<V, N, TILES, 1>(keys, next, queries, scores, stride, tile),
                2 => score::<V, N, TILES, 2>(keys, next, queries, scores, stride, tile),
                3 => score::<V, N, TILES, 3>(keys, next, queries, scores, stride, tile),
                _ => score::<V, N, TILES, 4>(keys, next, queries, scores, stride, tile),
            }
        }
        head += heads;
    }
}

/// Scores of these tiles for `HEADS` heads, in registers.
///
/// # Safety
/// The family's CPU features are there and enabled in the caller.
#[inline(always)]
unsafe fn score<V: Simd, N: KvNumber, const TILES: usize, const HEADS: usize>(
    keys: [&[N]; TILES],
    next: &[N],
    queries: &[f32],
    scores: &mut [f32],
    stride: usize,
    tile: usize,
) {
    let dims = queries.len() / HEADS;
    assert!(keys.iter().all(|keys| keys.len() >= dims * LANES) && scores.len() >= HEADS * stride);
    assert!((tile + TILES) * LANES <= stride);
    // SAFETY: just checked; the features are the caller's.
    unsafe {
        let mut sums = [[V::splat(0.0); HEADS]; TILES];
        for dim in 0..dims {
            // One ask for each line of 64 bytes.
            for index in (0..TILES).filter(|_| (dim * LANES * size_of::<N>()).is_multiple_of(LINE)) {
                V::call_in(next.as_ptr().wrapping_add((index * dims + dim) * LANES).cast());
            }
            for head in 0..HEADS {
                let query = V::splat(*queries.as_ptr().add(head * dims + dim));
                for index in 0..TILES {
                    sums[index][head] = N::load::<V>(keys[index].as_ptr().add(dim * LANES)).mul_add(query, sums[index][head]);
                }
            }
        }
        for (index, sums) in sums.into_iter().enumerate() {
            for (head, sum) in sums.into_iter().enumerate() {
                sum.store(scores.as_mut_ptr().add(head * stride + (tile + index) * LANES));
            }
        }
    }
}

/// Turns scores into weights that add up to one; positions from `count` on get none.
#[inline(always)]
fn softmax(scores: &mut [f32], count: usize) {
    for score in &mut scores[count..] {
        *score = f32::NEG_INFINITY;
    }
    let (tiles, _) = scores.as_chunks_mut::<LANES>();
    let mut highest: Lanes = [f32::NEG_INFINITY; LANES];
    for tile in tiles.iter() {
        for lane in 0..LANES {
            highest[lane] = if tile[lane] > highest[lane] { tile[lane] } else { highest[lane] };
        }
    }
    let highest = highest.iter().fold(f32::NEG_INFINITY, |most, score| if *score > most { *score } else { most });
    let mut sums: Lanes = [0.0; LANES];
    for tile in tiles.iter_mut() {
        for lane in 0..LANES {
            tile[lane] = exp(tile[lane] - highest);
            sums[lane] += tile[lane];
        }
    }
    let share = 1.0 / sum_lanes(sums);
    for score in scores.iter_mut() {
        *score *= share;
    }
}

/// The weighted sums of values, for all heads of the group: up to four heads by four vectors at a time, as many as the
/// family has registers for.
///
/// # Safety
/// The family's CPU features are there and enabled in the caller.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn weigh_heads<V: Simd, N: KvNumber>(
    shape: &AttentionShape,
    kv: &KvPages<'_, N>,
    table: &[BlockId],
    head: usize,
    count: usize,
    scores: &[f32],
    stride: usize,
    sums: &mut [f32],
) {
    let vectors = shape.value_stride() / LANES;
    let pages = Pages { shape, values: kv.values, table, head, count };
    let mut first = 0;
    while first < shape.group {
        let heads = (shape.group - first).min(4);
        let scores = &scores[first * stride..][..heads * stride];
        let sums = &mut sums[first * shape.value_stride()..][..heads * shape.value_stride()];
        let mut vector = 0;
        while vector < vectors {
            let wide = match (vectors - vector).min(V::SUMS / heads) {
                4.. => 4,
                2..4 => 2,
                _ => 1,
            };
            // SAFETY: the features are the caller's.
            unsafe {
                match (heads, wide) {
                    (1, 1) => weigh::<V, N, 1, 1>(&pages, scores, stride, vector, sums),
                    (1, 2) => weigh::<V, N, 1, 2>(&pages, scores, stride, vector, sums),
                    (1, _) => weigh::<V, N, 1, 4>(&pages, scores, stride, vector, sums),
                    (2, 1) => weigh::<V, N, 2, 1>(&pages, scores, stride, vector, sums),
                    (2, 2) => weigh::<V, N, 2, 2>(&pages, scores, stride, vector, sums),
                    (2, _) => weigh::<V, N, 2, 4>(&pages, scores, stride, vector, sums),
                    (3, 1) => weigh::<V, N, 3, 1>(&pages, scores, stride, vector, sums),
                    (3, 2) => weigh::<V, N, 3, 2>(&pages, scores, stride, vector, sums),
                    (3, _) => weigh::<V, N, 3, 4>(&pages, scores, stride, vector, sums),
                    (_, 1) => weigh::<V, N, 4, 1>(&pages, scores, stride, vector, sums),
                    (_, 2) => weigh::<V, N, 4, 2>(&pages, scores, stride, vector, sums),
                    (_, _) => weigh::<V, N, 4, 4>(&pages, scores, stride, vector, sums),
                }
            }
            vector += wide;
        }
        first += heads;
    }
}

/// The values of one KV head of one sequence.
struct Pages<'a, N> {
    shape: &'a AttentionShape,
    values: &'a [N],
    table: &'a [BlockId],
    head: usize,
    count: usize,
}

/// `WIDE` vectors of the weighted sums of `HEADS` heads, in registers.
///
/// # Safety
/// The family's CPU features are there and enabled in the caller.
#[inline(always)]
unsafe fn weigh<V: Simd, N: KvNumber, const HEADS: usize, const WIDE: usize>(
    pages: &Pages<'_, N>,
    scores: &[f32],
    stride: usize,
    vector: usize,
    out: &mut [f32],
) {
    let step = pages.shape.value_stride();
    let size = pages.shape.block_size;
    assert!(scores.len() >= HEADS * stride && pages.count <= stride);
    assert!(out.len() >= HEADS * step && (vector + WIDE) * LANES <= step);
    // SAFETY: just checked, and each block's slice is cut to what is read; the features are the caller's.
    unsafe {
        let mut sums = [[V::splat(0.0); WIDE]; HEADS];
        for (index, block) in pages.table.iter().enumerate() {
            let begin = index * size;
            if begin >= pages.count {
                break;
            }
            let positions = size.min(pages.count - begin);
            let values = &pages.values[pages.shape.value_at(*block, 0, pages.head, N::SCALE)..][..positions * step];
            let at = |block: &BlockId| pages.shape.value_at(*block, 0, pages.head, N::SCALE);
            let next = pages.table.get(index + 1);
            let next = next.map_or(values.as_ptr(), |next| pages.values.as_ptr().wrapping_add(at(next)));
            for slot in 0..positions {
                let from = values.as_ptr().add(slot * step + vector * LANES);
                for wide in 0..WIDE {
                    if (wide * LANES * size_of::<N>()).is_multiple_of(LINE) {
                        V::call_in(next.wrapping_add(slot * step + (vector + wide) * LANES).cast());
                    }
                    let value: V = N::load(from.add(wide * LANES));
                    for (head, sums) in sums.iter_mut().enumerate() {
                        let weight = V::splat(*scores.as_ptr().add(head * stride + begin + slot));
                        sums[wide] = value.mul_add(weight, sums[wide]);
                    }
                }
            }
        }
        for (head, sums) in sums.into_iter().enumerate() {
            for (wide, sum) in sums.into_iter().enumerate() {
                sum.store(out.as_mut_ptr().add(head * step + (vector + wide) * LANES));
            }
        }
    }
}
