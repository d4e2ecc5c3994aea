//! The Llama family (SmolLM2, Llama, TinyLlama): one forward pass over the rows of a batch.
//!
//! RMSNorm, rotary positions, grouped-query attention over paged keys and values, gated feed-forward with SiLU
//! (Touvron et al., 2023). A token's logits depend on its sequence and the weights, and on nothing else: every
//! number is computed in one order, whatever the batch, its chunks, the threads or the kernels.

mod config;
mod contents;
mod forward;
mod parts;
mod plan;
mod synthetic;
mod weights;

use crate::batch::{Batch, BlockCopy};

use super::error::ModelError;
use super::gguf::GgufFile;
use super::kernels::{AttentionShape, KernelKind, Kernels, KvCache, KvType, OutOfMemory, Pool};
pub use config::LlamaConfig;
pub(super) use contents::Contents;
use forward::Buffers;
pub use parts::{StepPart, StepTimes};
pub(super) use plan::{Pages, StepPlan, Token};
pub use synthetic::{Synthetic, SyntheticError, parse_type, synthetic_types};
use weights::Weights;

/// How to run a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelOptions {
    /// Compute threads, the calling one included.
    pub threads: usize,
    /// None: what `BATCHROOM_KERNELS` names, or the fastest.
    pub kernels: Option<KernelKind>,
    /// Positions in a KV block: a multiple of 16.
    pub block_size: usize,
    /// KV blocks.
    pub num_blocks: usize,
    /// What keys and values are kept as.
    pub kv_type: KvType,
}

fn attention_shape(config: &LlamaConfig, block_size: usize) -> AttentionShape {
    AttentionShape { block_size, kv_heads: config.kv_heads, group: config.heads / config.kv_heads, head_dim: config.head_dim }
}

/// Bytes of one KV block of a model of this shape, all layers.
///
/// # Errors
/// When there is no such block size, or no memory for even one.
pub fn kv_block_bytes(config: &LlamaConfig, kv_type: KvType, block_size: usize) -> Result<usize, ModelError> {
    let pages = Pages::new(1, block_size)?;
    // Made, and not worked out a second time: pages take no memory before they are written.
    Ok(KvCache::new(attention_shape(config, pages.block_size), kv_type, config.layers, 1)?.block_bytes())
}

/// A loaded model with its KV memory.
pub struct Llama {
    config: LlamaConfig,
    weights: Weights,
    kernels: Kernels,
    pool: Pool,
    kv: KvCache,
    plan: StepPlan,
    buffers: Buffers,
}

impl Llama {
    /// Checks and repacks the weights and sets up the KV memory.
    ///
    /// # Errors
    /// When the file is not a Llama, is incomplete or of a type that cannot be computed with, when the kernels asked for
    /// cannot run here, or when there is no memory.
    pub fn load(file: &GgufFile, options: ModelOptions) -> Result<Llama, ModelError> {
        Llama::build(LlamaConfig::read(file)?, options, |config, pool| weights::load(file, config, pool))
    }

    /// A model of this shape with weights drawn at random, for measuring: no file is needed.
    ///
    /// # Errors
    /// When the kernels asked for cannot run here, or there is no memory.
    pub fn synthetic(model: &Synthetic, options: ModelOptions) -> Result<Llama, ModelError> {
        Llama::build(model.shape().config(), options, |config, pool| model.weights(config, pool))
    }

    fn build(
        config: LlamaConfig,
        options: ModelOptions,
        weights: impl FnOnce(&LlamaConfig, &Pool) -> Result<Weights, ModelError>,
    ) -> Result<Llama, ModelError> {
        let kernels = Kernels::select(options.kernels)?;
        let pages = Pages::new(options.num_blocks, options.block_size)?;
        let no_thread = |source| OutOfMemory { what: "a compute thread", bytes: 0, source };
        let pool = Pool::new(options.threads.clamp(1, 1024)).map_err(no_thread)?;
        let weights = weights(&config, &pool)?;
        let shape = attention_shape(&config, pages.block_size);
        let kv = KvCache::new(shape, options.kv_type, config.layers, pages.blocks)?;
        Ok(Llama { config, weights, kernels, pool, kv, plan: StepPlan::default(), buffers: Buffers::default() })
    }

    /// Computes a batch, after its copies of blocks. Returns the logits of the rows that sample, `[num_sampled][vocab]`, in
    /// row order.
    ///
    /// # Errors
    /// When the batch does not fit the model or its KV memory (nothing has been copied or computed then), or memory runs out.
    pub fn forward(&mut self, batch: &Batch) -> Result<&[f32], ModelError> {
        self.compute(batch, false)
    }

    /// Computes a batch, after its copies of blocks. Returns the logits at every token, `[tokens][vocab]`, in the batch's order.
    ///
    /// # Errors
    /// As [`Llama::forward`].
    pub fn forward_all(&mut self, batch: &Batch) -> Result<&[f32], ModelError> {
        self.compute(batch, true)
    }

    /// Copies whole KV blocks, in order, in all layers, as they are kept.
    ///
    /// # Errors
    /// When there is no such block (nothing has been copied then).
    pub fn copy_blocks(&mut self, copies: &[BlockCopy]) -> Result<(), ModelError> {
        self.pages().check_copies(copies)?;
        for copy in copies {
            self.kv.copy_block(copy.from, copy.to);
        }
        Ok(())
    }

    /// Other KV memory, of so many blocks; what was in the old one is lost.
    ///
    /// # Errors
    /// When the system will not give so much memory. The old one is still there then.
    pub fn resize_kv(&mut self, num_blocks: usize) -> Result<(), ModelError> {
        self.kv = KvCache::new(*self.kv.shape(), self.kv.kind(), self.config.layers, num_blocks)?;
        Ok(())
    }

    fn pages(&self) -> Pages {
        Pages { blocks: self.kv.blocks(), block_size: self.kv.shape().block_size }
    }

    /// Where the time of all passes since [`Llama::clear_times`] went.
    pub fn times(&self) -> &StepTimes {
        &self.buffers.watch.times
    }

    pub fn clear_times(&mut self) {
        self.buffers.watch.times.clear();
    }

    pub fn config(&self) -> &LlamaConfig {
        &self.config
    }

    pub fn vocab(&self) -> usize {
        self.config.vocab
    }

    /// Number of parameters in the file.
    pub fn parameters(&self) -> u64 {
        self.weights.parameters
    }

    /// Bytes of weights that one step reads, whatever the number of rows.
    pub fn weight_bytes(&self) -> usize {
        self.weights.bytes_per_step()
    }

    /// Types of the weights, most bytes first, for instance `Q4_1 + Q8_0`.
    pub fn types(&self) -> &str {
        &self.weights.types
    }

    pub fn kernels(&self) -> KernelKind {
        self.kernels.kind()
    }

    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    pub fn block_size(&self) -> usize {
        self.kv.shape().block_size
    }

    pub fn num_blocks(&self) -> usize {
        self.kv.blocks()
    }

    pub fn kv_type(&self) -> KvType {
        self.kv.kind()
    }

    /// Bytes of keys and values of one position, all layers.
    pub fn kv_bytes_per_token(&self) -> usize {
        self.kv.block_bytes() / self.block_size()
    }
}
