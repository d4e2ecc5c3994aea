//! One forward pass.

use std::ops::Range;

use crate::batch::Batch;

use super::super::error::ModelError;
use super::super::kernels::{Activations, Ahead, AttentionScratch, Gated, Kernels, KvCache, OutOfMemory, Part, Pool};
use super::Llama;
use super::config::LlamaConfig;
use super::parts::{StepPart, Stopwatch};
use super::plan::Token;
use super::weights::{Layer, Weights};

/// Memory of a step, kept for the next.
#[derive(Default)]
pub(super) struct Buffers {
    /// The residual stream, `[tokens][embedding]`.
    residual: Vec<f32>,
    /// Cosines, then sines, of each token's rotations, `[tokens][2][rope_dim / 2]`.
    angles: Vec<f32>,
    /// Queries, keys, values, `[tokens][(heads + 2 * kv_heads) * head_dim]`.
    qkv: Vec<f32>,
    /// Where the keys and values of the batch begin in a layer's memory, when it pays to ask for them ahead.
    pages: Vec<usize>,
    /// What attention gives, `[tokens][heads * head_dim]`.
    attended: Vec<f32>,
    scratch: Vec<AttentionScratch>,
    inputs: Activations,
    inner: Activations,
    gated: Gated,
    logits: Vec<f32>,
    pub watch: Stopwatch,
}

/// Grows (or shrinks, keeping its memory) a buffer.
fn resize(buffer: &mut Vec<f32>, len: usize) -> Result<(), OutOfMemory> {
    let missing = len.saturating_sub(buffer.len());
    let refused = |_| OutOfMemory { what: "a step's numbers", bytes: len * 4, source: std::io::ErrorKind::OutOfMemory.into() };
    buffer.try_reserve(missing).map_err(refused)?;
    buffer.resize(len, 0.0);
    Ok(())
}

impl Llama {
    pub(super) fn compute(&mut self, batch: &Batch, all: bool) -> Result<&[f32], ModelError> {
        let pages = self.pages();
        self.plan.build(batch, &self.config, pages, all)?;
        self.copy_blocks(&batch.copies)?;
        let Llama { config, weights, kernels, pool, kv, plan, buffers } = self;
        if plan.tokens.is_empty() {
            return Ok(&[]);
        }
        buffers.prepare(config, pool, kv, &plan.tokens)?;
        buffers.find_pages(batch, kv, plan.tokens.len());
        resize(&mut buffers.logits, plan.wanted.len() * config.vocab)?;
        let step = Step { config, weights, kernels: *kernels, pool, batch, tokens: &plan.tokens, tiles: &plan.tiles };
        buffers.watch.start();
        step.begin(buffers)?;
        buffers.watch.lap(StepPart::Begin);
        for (index, layer) in weights.layers.iter().enumerate() {
            step.attention(buffers, kv, index, layer)?;
            step.feed_forward(buffers, kv, index, layer)?;
        }
        step.logits(buffers, &plan.wanted)?;
        buffers.watch.lap(StepPart::Logits);
        Ok(&buffers.logits)
    }
}

impl Buffers {
    fn prepare(&mut self, config: &LlamaConfig, pool: &Pool, kv: &KvCache, tokens: &[Token]) -> Result<(), OutOfMemory> {
        resize(&mut self.residual, tokens.len() * config.embedding)?;
        resize(&mut self.angles, tokens.len() * config.rope_dim)?;
        resize(&mut self.qkv, tokens.len() * (config.heads + 2 * config.kv_heads) * config.head_dim)?;
        resize(&mut self.attended, tokens.len() * config.heads * config.head_dim)?;
        let longest = tokens.iter().map(|token| token.position + 1).max().unwrap_or(0);
        self.scratch.resize_with(pool.threads(), AttentionScratch::default);
        for scratch in &mut self.scratch {
            scratch.reserve(kv.shape(), longest);
        }
        Ok(())
    }
}

/// From so many tokens on a step is bound by arithmetic, and memory has time to spare.
const AHEAD_TOKENS: usize = 8;
/// Bytes that are asked for ahead at most, which the caches hold until they are wanted.
const AHEAD_BYTES: usize = 4 << 20;

impl Buffers {
    fn find_pages(&mut self, batch: &Batch, kv: &KvCache, tokens: usize) {
        self.pages.clear();
        if tokens < AHEAD_TOKENS {
            return;
        }
        let most = AHEAD_BYTES / kv.layer_block_bytes()[0];
        for row in &batch.rows {
            let used = (row.start + row.len()).div_ceil(kv.shape().block_size);
            let room = most.saturating_sub(self.pages.len()) / 2;
            let blocks = batch.row_blocks(row).iter().take(used.min(room));
            self.pages.extend(blocks.flat_map(|block| kv.pages(*block)));
        }
    }
}

/// What stays the same through a step.
struct Step<'a> {
    config: &'a LlamaConfig,
    weights: &'a Weights,
    kernels: Kernels,
    pool: &'a Pool,
    batch: &'a Batch,
    tokens: &'a [Token],
    /// Tokens of one sequence that follow one another, a few at a time.
    tiles: &'a [Range<usize>],
}

impl Step<'_> {
    /// Embeddings and rotations.
    fn begin(&self, buffers: &mut Buffers) -> Result<(), ModelError> {
        let (embedding, tokens) = (&self.weights.embedding, self.tokens);
        self.pool.chunks(&mut buffers.residual, self.config.embedding, |index, out| {
            embedding.row(tokens[index].id as usize, out);
        })?;
        if self.config.rope_dim > 0 {
            self.pool.chunks(&mut buffers.angles, self.config.rope_dim, |index, out| {
                let (cos, sin) = out.split_at_mut(self.config.rope_dim / 2);
                for ((cos, sin), frequency) in cos.iter_mut().zip(sin).zip(&self.weights.frequencies) {
                    let angle = f64::from(tokens[index].position as f32 * frequency);
                    (*cos, *sin) = (angle.cos() as f32, angle.sin() as f32);
                }
            })?;
        }
        Ok(())
    }

    /// Attention and its residual.
    fn attention(&self, buffers: &mut Buffers, kv: &mut KvCache, index: usize, layer: &Layer) -> Result<(), ModelError> {
        let Buffers { residual, angles, qkv, attended, scratch, inputs, watch, .. } = buffers;
        let (config, kernels, pool, tokens) = (self.config, self.kernels, self.pool, self.tokens);
        let (dim, heads, kv_heads) = (config.head_dim, config.heads, config.kv_heads);
        let width = (heads + 2 * kv_heads) * dim;

        inputs.shape(tokens.len(), config.embedding, [&layer.query, &layer.key, &layer.value]);
        inputs.normed(pool, kernels, residual, &layer.attention_norm, config.rms_eps)?;
        let parts = [(&layer.query, 0), (&layer.key, heads * dim), (&layer.value, (heads + kv_heads) * dim)];
        let parts = parts.map(|(weights, column)| Part { weights, column });
        kernels.multiply(pool, &parts, inputs, qkv, width, false, Ahead::NOTHING)?;
        watch.lap(StepPart::Qkv);

        let writer = kv.writer(index);
        let scale = 1.0 / (dim as f32).sqrt();
        pool.chunks(qkv, width, |index, row| {
            let (cos, sin) = angles[index * config.rope_dim..][..config.rope_dim].split_at(config.rope_dim / 2);
            let (queries, rest) = row.split_at_mut(heads * dim);
            let (keys, values) = rest.split_at_mut(kv_heads * dim);
            queries.chunks_exact_mut(dim).for_each(|head| kernels.rotate(head, cos, sin, scale));
            keys.chunks_exact_mut(dim).for_each(|head| kernels.rotate(head, cos, sin, 1.0));
            // SAFETY: the plan has made sure that no two tokens of a batch have one slot.
            unsafe { writer.write(kernels, tokens[index].slot, keys, values) };
        })?;
        watch.lap(StepPart::Rotate);

        let (layer_kv, shape) = (kv.layer(index), kv.shape());
        let group = shape.group * dim;
        inputs.shape(tokens.len(), heads * dim, [&layer.output]);
        inputs.made(pool, kernels, attended, group, self.tiles, scratch, |tile, head, out, scratch| {
            let token = &tokens[tile.start];
            let (table, count) = (self.batch.row_blocks(&self.batch.rows[token.row]), token.position + 1);
            let queries = |index: usize| &qkv[index * width + head * group..][..group];
            if tile.len() == 1 {
                let (queries, out) = (queries(tile.start), out.row(0));
                return kernels.attend(shape, &layer_kv, table, head, 1, count, queries, scratch, out);
            }
            // Several tokens' queries lie together while they are at work, and so does what comes of them.
            let (mut together, mut found) = (std::mem::take(&mut scratch.queries), std::mem::take(&mut scratch.out));
            for (index, queries) in tile.clone().map(queries).enumerate() {
                together[index * group..][..group].copy_from_slice(queries);
            }
            kernels.attend(shape, &layer_kv, table, head, tile.len(), count, &together, scratch, &mut found);
            for index in 0..tile.len() {
                out.row(index).copy_from_slice(&found[index * group..][..group]);
            }
            (scratch.queries, scratch.out) = (together, found);
        })?;
        watch.lap(StepPart::Attention);

        let parts = [Part { weights: &layer.output, column: 0 }];
        kernels.multiply(pool, &parts, inputs, residual, config.embedding, true, Ahead::NOTHING)?;
        watch.lap(StepPart::Output);
        Ok(())
    }

    /// The gated feed-forward and its residual.
    fn feed_forward(&self, buffers: &mut Buffers, kv: &KvCache, index: usize, layer: &Layer) -> Result<(), ModelError> {
        let Buffers { residual, inputs, inner, gated, pages, watch, .. } = buffers;
        let (config, kernels, pool) = (self.config, self.kernels, self.pool);
        inputs.shape(self.tokens.len(), config.embedding, [&layer.gate, &layer.up]);
        inputs.normed(pool, kernels, residual, &layer.feed_forward_norm, config.rms_eps)?;
        // The next layer's keys and values, shared out by work: gate and up are two matrices of three.
        let (next, len) = (kv.layer_bytes(index + 1), kv.layer_block_bytes()[0]);
        let (most, rest) = pages.split_at(pages.len() * 2 / 3);
        let (most, rest) = (Ahead::new(next, most, len), Ahead::new(next, rest, len));
        inner.shape(self.tokens.len(), config.feed_forward, [&layer.down]);
        kernels.gated(pool, &layer.gate, &layer.up, inputs, gated, inner, most)?;
        watch.lap(StepPart::GateUp);
        let parts = [Part { weights: &layer.down, column: 0 }];
        kernels.multiply(pool, &parts, inner, residual, config.embedding, true, rest)?;
        watch.lap(StepPart::Down);
        Ok(())
    }

    /// The last norm and the output matrix, for the tokens that are wanted.
    fn logits(&self, buffers: &mut Buffers, wanted: &[usize]) -> Result<(), ModelError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let Buffers { residual, inputs, logits, .. } = buffers;
        let (embedding, output) = (self.config.embedding, self.weights.output());
        // Moved to the front: `wanted` ascends, so nothing is overwritten before it has moved.
        for (to, from) in wanted.iter().enumerate() {
            residual.copy_within(from * embedding..(from + 1) * embedding, to * embedding);
        }
        inputs.shape(wanted.len(), embedding, [output]);
        inputs.normed(self.pool, self.kernels, residual, &self.weights.output_norm, self.config.rms_eps)?;
        let parts = [Part { weights: output, column: 0 }];
        Ok(self.kernels.multiply(self.pool, &parts, inputs, logits, self.config.vocab, false, Ahead::NOTHING)?)
    }
}
