//! One forward pass in tensor operations.

use candle_core::{Device, Module, Result, Tensor};
use candle_nn::ops::{rms_norm, softmax_last_dim};
use candle_nn::rotary_emb::rope_i;

use crate::batch::Batch;

use super::super::error::ModelError;
use super::super::llama::{LlamaConfig, Pages, Token};
use super::weights::{Layer, Weights};
use super::{LayerKv, TensorLlama};

impl TensorLlama {
    pub(super) fn compute(&mut self, batch: &Batch, all: bool) -> std::result::Result<&[f32], ModelError> {
        self.plan.build(batch, &self.config, self.pages, all)?;
        self.copy_blocks(&batch.copies)?;
        self.logits.clear();
        if self.plan.tokens.is_empty() {
            return Ok(&[]);
        }
        let (config, tokens) = (&self.config, &self.plan.tokens);
        let step = Step::new(config, &self.weights, batch, tokens, self.pages, &self.device)?;
        let mut residual = step.embeddings(tokens)?;
        for (layer, kv) in self.weights.layers.iter().zip(&self.kv) {
            residual = step.attention(&residual, layer, kv)?;
            residual = step.feed_forward(&residual, layer)?;
        }
        if !self.plan.wanted.is_empty() {
            self.logits = step.logits(&residual, &self.plan.wanted)?;
        }
        Ok(&self.logits)
    }
}

/// What stays the same through a step.
struct Step<'a> {
    config: &'a LlamaConfig,
    weights: &'a Weights,
    device: &'a Device,
    /// Cosines and sines of each token's rotations, `[tokens][1][rope_dim / 2]`.
    cos: Tensor,
    sin: Tensor,
    /// Each token's slot in the cache, once for every number written there, `[tokens][kv_heads * head_dim]`.
    targets: Tensor,
    rows: Vec<Past>,
}

/// What a row attends to.
struct Past {
    /// The row's tokens in the batch: the first, and how many.
    first: usize,
    count: usize,
    /// Slots of the positions from 0 to the row's last, `[positions]`.
    slots: Tensor,
    /// 0 where a token may look and negative infinity where it may not, `[count][positions]`. None for a single token,
    /// which sees everything.
    mask: Option<Tensor>,
}

impl Past {
    fn new(batch: &Batch, index: usize, first: usize, pages: Pages, device: &Device) -> Result<Past> {
        let row = &batch.rows[index];
        let (table, size) = (batch.row_blocks(row), pages.block_size);
        let (count, end) = (row.len(), row.start + row.len());
        let slots = Tensor::from_iter((0..end).map(|at| table[at / size].0 * size as u32 + (at % size) as u32), device)?;
        let hidden = |query: usize, key: usize| if key > row.start + query { f32::NEG_INFINITY } else { 0.0 };
        let mask = || {
            let mask = (0..count).flat_map(|query| (0..end).map(move |key| hidden(query, key)));
            Tensor::from_iter(mask, device)?.reshape((count, end))
        };
        let mask = (count > 1).then(mask).transpose()?;
        Ok(Past { first, count, slots, mask })
    }
}

impl<'a> Step<'a> {
    fn new(
        config: &'a LlamaConfig,
        weights: &'a Weights,
        batch: &Batch,
        tokens: &[Token],
        pages: Pages,
        device: &'a Device,
    ) -> Result<Step<'a>> {
        let angle = |token: &Token| {
            let position = token.position as f32;
            weights.frequencies.iter().map(move |frequency| f64::from(position * frequency))
        };
        let table = |of: fn(f64) -> f64| {
            let values = tokens.iter().flat_map(angle).map(|angle| of(angle) as f32);
            Tensor::from_iter(values, device)?.reshape((tokens.len(), 1, weights.frequencies.len()))
        };
        let slot = |token: &Token| token.slot.block.0 * pages.block_size as u32 + token.slot.slot as u32;
        let targets = Tensor::from_iter(tokens.iter().map(slot), device)?.unsqueeze(1)?;
        let targets = targets.broadcast_as((tokens.len(), config.kv_heads * config.head_dim))?.contiguous()?;
        let mut first = 0;
        let mut rows = Vec::with_capacity(batch.rows.len());
        for (index, row) in batch.rows.iter().enumerate() {
            rows.push(Past::new(batch, index, first, pages, device)?);
            first += row.len();
        }
        Ok(Step { config, weights, device, cos: table(f64::cos)?, sin: table(f64::sin)?, targets, rows })
    }

    /// `[tokens][embedding]`.
    fn embeddings(&self, tokens: &[Token]) -> Result<Tensor> {
        let ids = Tensor::from_iter(tokens.iter().map(|token| token.id), self.device)?;
        self.weights.embedding.embedding(&ids)
    }

    /// Attention, added to the residual stream.
    fn attention(&self, residual: &Tensor, layer: &Layer, kv: &LayerKv) -> Result<Tensor> {
        let (heads, kv_heads) = (self.config.heads, self.config.kv_heads);
        let inputs = rms_norm(residual, &layer.attention_norm, self.config.rms_eps)?;
        let queries = self.rotate(&layer.query.forward(&inputs)?, heads)?;
        let keys = self.rotate(&layer.key.forward(&inputs)?, kv_heads)?;
        // All new keys and values are in the cache before any row reads its own from there.
        kv.keys.scatter_set(&self.targets, &keys.flatten_from(1)?, 0)?;
        kv.values.scatter_set(&self.targets, &layer.value.forward(&inputs)?, 0)?;
        let rows = self.rows.iter().map(|row| self.attend(row, &queries.narrow(0, row.first, row.count)?, kv));
        let attended = Tensor::cat(&rows.collect::<Result<Vec<_>>>()?, 0)?;
        residual + layer.output.forward(&attended)?
    }

    /// Turns neighbouring dimensions, as GGUF has the rows of Llama's queries and keys, by their position's angles:
    /// `[tokens][heads * head_dim]` to `[tokens][heads][1][head_dim]`.
    fn rotate(&self, heads_of_tokens: &Tensor, heads: usize) -> Result<Tensor> {
        let (dim, turned) = (self.config.head_dim, self.config.rope_dim);
        let all = heads_of_tokens.reshape(((), heads, 1, dim))?;
        match turned {
            0 => Ok(all),
            _ if turned == dim => rope_i(&all, &self.cos, &self.sin),
            _ => {
                let front = rope_i(&all.narrow(3, 0, turned)?.contiguous()?, &self.cos, &self.sin)?;
                Tensor::cat(&[front, all.narrow(3, turned, dim - turned)?], 3)
            }
        }
    }

    /// Grouped-query attention of one row over its own past: queries `[count][heads][1][head_dim]` to
    /// `[count][heads * head_dim]`.
    fn attend(&self, row: &Past, queries: &Tensor, kv: &LayerKv) -> Result<Tensor> {
        let (kv_heads, dim) = (self.config.kv_heads, self.config.head_dim);
        let group = self.config.heads / kv_heads;
        let positions = row.slots.elem_count();
        let past = |cache: &Tensor| {
            let rows = cache.index_select(&row.slots, 0)?.reshape((positions, kv_heads, dim))?;
            rows.transpose(0, 1)?.contiguous()
        };
        // The queries that share a KV head lie together, so that it is read once: `[kv_heads][group * count][head_dim]`.
        let queries = queries.reshape((row.count, kv_heads, group, dim))?.permute((1, 2, 0, 3))?;
        let queries = queries.contiguous()?.reshape((kv_heads, group * row.count, dim))?;
        let scores = (queries.matmul(&past(&kv.keys)?.t()?)? * (1.0 / (dim as f64).sqrt()))?;
        let scores = match &row.mask {
            Some(mask) => scores.reshape((kv_heads, group, row.count, positions))?.broadcast_add(mask)?,
            None => scores,
        };
        let weights = softmax_last_dim(&scores)?.reshape((kv_heads, group * row.count, positions))?;
        let attended = weights.matmul(&past(&kv.values)?)?.reshape((kv_heads, group, row.count, dim))?;
        attended.permute((2, 0, 1, 3))?.contiguous()?.reshape((row.count, kv_heads * group * dim))
    }

    /// The gated feed-forward, added to the residual stream.
    fn feed_forward(&self, residual: &Tensor, layer: &Layer) -> Result<Tensor> {
        let inputs = rms_norm(residual, &layer.feed_forward_norm, self.config.rms_eps)?;
        let gated = (layer.gate.forward(&inputs)?.silu()? * layer.up.forward(&inputs)?)?;
        residual + layer.down.forward(&gated)?
    }

    /// The last norm and the output matrix, for the tokens that are wanted: `[wanted][vocab]`.
    fn logits(&self, residual: &Tensor, wanted: &[usize]) -> Result<Vec<f32>> {
        let wanted = Tensor::from_iter(wanted.iter().map(|index| *index as u32), self.device)?;
        let inputs = rms_norm(&residual.index_select(&wanted, 0)?, &self.weights.output_norm, self.config.rms_eps)?;
        self.weights.output().forward(&inputs)?.flatten_all()?.to_vec1()
    }
}
