//! Attention of one token, or of a few that follow one another, over the KV blocks of their sequence.
//!
//! Several tokens share what is loaded and converted; each adds up by itself, in the same order as alone.
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

/// Tokens of one sequence that are attended to together at most.
pub const TOKENS: usize = 4;

/// Positions whose values are gone through at a time by several tokens: they stay in the first cache for all of them.
const STRETCH: usize = 128;

/// A thread's memory for scores, kept from step to step.
#[derive(Default)]
pub struct Scratch {
    scores: Vec<f32>,
    sums: Vec<f32>,
    /// Queries of several tokens, `[token][group][head_dim]`, and what becomes of them.
    pub(in crate::model) queries: Vec<f32>,
    pub(in crate::model) out: Vec<f32>,
}

impl Scratch {
    /// Makes room for a group's scores over `positions`, of up to [`TOKENS`] tokens.
    pub fn reserve(&mut self, shape: &AttentionShape, positions: usize) {
        let heads = TOKENS * shape.group;
        let grow = |numbers: &mut Vec<f32>, len: usize| numbers.resize(numbers.len().max(len), 0.0);
        grow(&mut self.scores, heads * positions.next_multiple_of(LANES));
        grow(&mut self.sums, heads * shape.value_stride());
        grow(&mut self.queries, heads * shape.head_dim);
        grow(&mut self.out, heads * shape.head_dim);
    }
}

/// The heads of KV head `head`'s group, for `tokens` tokens (at most [`TOKENS`]), of which the first is at position
/// `count - 1` and the others follow. `queries` and `out` are `[token][group][head_dim]`; the queries are rotated and scaled
/// already. `scratch` has room for the last token's positions.
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
    tokens: usize,
    count: usize,
    queries: &[f32],
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    assert!((1..=TOKENS).contains(&tokens) && count > 0);
    // SAFETY: handed on.
    unsafe {
        match kv {
            KvLayer::F32(pages) => attend_pages::<V, f32>(shape, pages, table, head, tokens, count, queries, scratch, out),
            KvLayer::F16(pages) => attend_pages::<V, Half>(shape, pages, table, head, tokens, count, queries, scratch, out),
            KvLayer::Q8_0(pages) => attend_pages::<V, Code>(shape, pages, table, head, tokens, count, queries, scratch, out),
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
    tokens: usize,
    count: usize,
    queries: &[f32],
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    // A token's heads and the next one's are alike: each has a row of scores.
    let heads = tokens * shape.group;
    let stride = (count + tokens - 1).next_multiple_of(LANES);
    let scores = &mut scratch.scores[..heads * stride];
    let sums = &mut scratch.sums[..heads * shape.value_stride()];
    let queries = &queries[..heads * shape.head_dim];
    let tile_at = |tile: usize| {
        let position = tile * LANES;
        let key = shape.key_at(table[position / shape.block_size], position % shape.block_size, head, N::SCALE);
        &kv.keys[key..][..shape.head_dim * LANES]
    };
    // SAFETY: the features are the caller's; slices are cut to what is read.
    unsafe {
        let tiles = stride / LANES;
        let pairs = tokens == 1 && 2 * shape.group.min(4) <= V::SUMS;
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
        for (row, scores) in scores.chunks_exact_mut(stride).enumerate() {
            softmax(scores, count + row / shape.group);
        }
        scale(shape, kv.values, table, scores, stride, |block, slot| shape.value_scale_at(block, slot, head, N::SCALE));
        sums.fill(0.0);
        let pages = |from, to| Pages { shape, values: kv.values, table, head, from, to };
        // What all of them see; in stretches when there are several.
        let stretch = if tokens == 1 { count } else { STRETCH };
        for from in (0..count).step_by(stretch) {
            weigh_heads::<V, N>(&pages(from, count.min(from + stretch)), scores, stride, sums);
        }
        // And what only the later ones see.
        for token in 1..tokens {
            let rows = token * shape.group..(token + 1) * shape.group;
            let scores = &scores[rows.start * stride..rows.end * stride];
            let sums = &mut sums[rows.start * shape.value_stride()..rows.end * shape.value_stride()];
            weigh_heads::<V, N>(&pages(count, count + token), scores, stride, sums);
        }
    }
    for (out, sums) in out.chunks_exact_mut(shape.head_dim).zip(sums.chunks_exact(shape.value_stride())) {
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

/// Scores of `TILES` times 16 positions, for all heads that there are queries of: up to four heads at a time, or twelve of
/// one tile where there are registers for them.
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
    let all = queries.len() / shape.head_dim;
    let mut head = 0;
    while head < all {
        let heads = match all - head {
            12.. if TILES == 1 && V::SUMS >= 12 => 12,
            6.. if TILES == 1 && V::SUMS >= 6 => 6,
            left => left.min(4),
        };
        let queries = &queries[head * shape.head_dim..][..heads * shape.head_dim];
        let scores = &mut scores[head * stride..][..heads * stride];
        // SAFETY: the features are the caller's.
        unsafe {
            match heads {
                12 => score::<V, N, TILES, 12>(keys, next, queries, scores, stride, tile),
                6 => score::<V, N, TILES, 6>(keys, next, queries, scores, stride, tile),
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

/// Adds the weighted values of these positions to the sums, for all heads that there are scores of: up to four heads by four
/// vectors at a time, or twelve heads by one, as many as the family has registers for.
///
/// # Safety
/// The family's CPU features are there and enabled in the caller.
#[inline(always)]
unsafe fn weigh_heads<V: Simd, N: KvNumber>(pages: &Pages<'_, N>, scores: &[f32], stride: usize, sums: &mut [f32]) {
    let step = pages.shape.value_stride();
    let (all, vectors) = (scores.len() / stride, step / LANES);
    let mut first = 0;
    while first < all {
        let heads = match all - first {
            12.. if V::SUMS >= 12 => 12,
            left => left.min(4),
        };
        let scores = &scores[first * stride..][..heads * stride];
        let sums = &mut sums[first * step..][..heads * step];
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
                    (12, _) => weigh::<V, N, 12, 1>(pages, scores, stride, vector, sums),
                    (1, 1) => weigh::<V, N, 1, 1>(pages, scores, stride, vector, sums),
                    (1, 2) => weigh::<V, N, 1, 2>(pages, scores, stride, vector, sums),
                    (1, _) => weigh::<V, N, 1, 4>(pages, scores, stride, vector, sums),
                    (2, 1) => weigh::<V, N, 2, 1>(pages, scores, stride, vector, sums),
                    (2, 2) => weigh::<V, N, 2, 2>(pages, scores, stride, vector, sums),
                    (2, _) => weigh::<V, N, 2, 4>(pages, scores, stride, vector, sums),
                    (3, 1) => weigh::<V, N, 3, 1>(pages, scores, stride, vector, sums),
                    (3, 2) => weigh::<V, N, 3, 2>(pages, scores, stride, vector, sums),
                    (3, _) => weigh::<V, N, 3, 4>(pages, scores, stride, vector, sums),
                    (_, 1) => weigh::<V, N, 4, 1>(pages, scores, stride, vector, sums),
                    (_, 2) => weigh::<V, N, 4, 2>(pages, scores, stride, vector, sums),
                    (_, _) => weigh::<V, N, 4, 4>(pages, scores, stride, vector, sums),
                }
            }
            vector += wide;
        }
        first += heads;
    }
}

/// The values of one KV head of one sequence, in positions `from..to`.
struct Pages<'a, N> {
    shape: &'a AttentionShape,
    values: &'a [N],
    table: &'a [BlockId],
    head: usize,
    from: usize,
    to: usize,
}

/// Adds to `WIDE` vectors of the weighted sums of `HEADS` heads, in registers.
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
    assert!(scores.len() >= HEADS * stride && pages.to <= stride);
    assert!(out.len() >= HEADS * step && (vector + WIDE) * LANES <= step);
    // SAFETY: just checked, and each block's slice is cut to what is read; the features are the caller's.
    unsafe {
        let place = |head: usize, wide: usize| head * step + (vector + wide) * LANES;
        let mut sums: [[V; WIDE]; HEADS] =
            std::array::from_fn(|head| std::array::from_fn(|wide| V::load(out.as_ptr().add(place(head, wide)))));
        for index in pages.from / size..pages.to.div_ceil(size) {
            let begin = index * size;
            let (first, end) = (pages.from.saturating_sub(begin), size.min(pages.to - begin));
            let at = |block: &BlockId| pages.shape.value_at(*block, 0, pages.head, N::SCALE);
            let values = &pages.values[at(&pages.table[index])..][..end * step];
            let next = pages.table.get(index + 1);
            let next = next.map_or(values.as_ptr(), |next| pages.values.as_ptr().wrapping_add(at(next)));
            for slot in first..end {
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
                sum.store(out.as_mut_ptr().add(place(head, wide)));
            }
        }
    }
}
