//! The Llama family in tensor operations, for candle's devices: the same files, batches and block tables as
//! [`Llama`](super::Llama), no kernels of our own.
//!
//! On CUDA and Metal (features `cuda` and `metal`) the weights stay quantized and candle's quantized products read
//! them there. On the CPU they are turned into `f32`, so that this path, which shares no arithmetic with our kernels,
//! is what those are held against in tests; it is slow, and it takes four bytes a weight.
//!
//! Only the CPU is tested: the builds with `cuda` and `metal` use the same operations, all of which candle has for those
//! devices, but nobody has yet compiled or run them.
//!
//! What it does not have of the kernels' promises: logits are close, not the same bits, when a batch is put together
//! otherwise, and rows attend one after the other, some ten operations each.

mod forward;
mod weights;

use candle_core::{DType, Device, DeviceLocation, Tensor};

use crate::batch::{Batch, BlockCopy};

use super::error::ModelError;
use super::gguf::GgufFile;
use super::kernels::OutOfMemory;
use super::llama::{LlamaConfig, Pages, StepPlan};
use weights::Weights;

/// A model on a device of candle's, with its KV memory there.
pub struct TensorLlama {
    config: LlamaConfig,
    weights: Weights,
    device: Device,
    /// Layer by layer.
    kv: Vec<LayerKv>,
    pages: Pages,
    plan: StepPlan,
    logits: Vec<f32>,
}

/// Keys and values of one layer, each `[num_blocks * block_size][kv_heads * head_dim]`: a block's positions are
/// neighbours.
struct LayerKv {
    keys: Tensor,
    values: Tensor,
}

impl TensorLlama {
    /// Checks the file, brings the weights to `device` and sets up KV memory of `num_blocks` blocks there.
    ///
    /// # Errors
    /// When the file is not a Llama, is incomplete or of a type that candle does not compute with, when the block size
    /// is no multiple of 16, or when there is no memory.
    pub fn load(file: &GgufFile, device: &Device, num_blocks: usize, block_size: usize) -> Result<TensorLlama, ModelError> {
        let config = LlamaConfig::read(file)?;
        let pages = Pages::new(num_blocks, block_size)?;
        let weights = weights::load(file, &config, device)?;
        let kv = kv_memory(&config, pages, device)?;
        let device = device.clone();
        Ok(TensorLlama { config, weights, device, kv, pages, plan: StepPlan::default(), logits: Vec::new() })
    }

    /// Computes a batch, after its copies of blocks. Returns the logits of the rows that sample, `[num_sampled][vocab]`, in
    /// row order.
    ///
    /// # Errors
    /// When the batch does not fit the model or its KV memory (nothing has been copied or computed then), or the device fails.
    pub fn forward(&mut self, batch: &Batch) -> Result<&[f32], ModelError> {
        self.compute(batch, false)
    }

    /// Computes a batch, after its copies of blocks. Returns the logits at every token, `[tokens][vocab]`, in the batch's order.
    ///
    /// # Errors
    /// As [`TensorLlama::forward`].
    pub fn forward_all(&mut self, batch: &Batch) -> Result<&[f32], ModelError> {
        self.compute(batch, true)
    }

    /// Copies whole KV blocks, in order, in all layers.
    ///
    /// # Errors
    /// When there is no such block (nothing has been copied then), or the device fails.
    pub fn copy_blocks(&mut self, copies: &[BlockCopy]) -> Result<(), ModelError> {
        self.pages.check_copies(copies)?;
        let size = self.pages.block_size;
        // One after the other: a copy's source may be the target of the one before.
        for BlockCopy { from, to } in copies {
            for kept in self.kv.iter().flat_map(|layer| [&layer.keys, &layer.values]) {
                let block = kept.narrow(0, from.0 as usize * size, size)?.force_contiguous()?;
                kept.slice_set(&block, 0, to.0 as usize * size)?;
            }
        }
        Ok(())
    }

    /// Other KV memory, of so many blocks; what was in the old one is lost.
    ///
    /// # Errors
    /// When there is no memory for it. The old one is still there then.
    pub fn resize_kv(&mut self, num_blocks: usize) -> Result<(), ModelError> {
        let pages = Pages::new(num_blocks, self.pages.block_size)?;
        self.kv = kv_memory(&self.config, pages, &self.device)?;
        self.pages = pages;
        Ok(())
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

    /// Bytes of weights that one step reads, as they lie on the device.
    pub fn weight_bytes(&self) -> usize {
        self.weights.bytes_per_step
    }

    /// Types of the weights in the file, most bytes first, for instance `Q4_1 + Q8_0`.
    pub fn types(&self) -> &str {
        &self.weights.types
    }

    /// Where it computes: `candle-cpu`, `candle-cuda` or `candle-metal`.
    pub fn backend(&self) -> &'static str {
        match self.device.location() {
            DeviceLocation::Cpu => "candle-cpu",
            DeviceLocation::Cuda { .. } => "candle-cuda",
            DeviceLocation::Metal { .. } => "candle-metal",
        }
    }

    /// Threads that compute: on the CPU candle's own (`RAYON_NUM_THREADS` changes their number), else the calling one.
    pub fn threads(&self) -> usize {
        if self.device.is_cpu() { candle_core::utils::get_num_threads() } else { 1 }
    }

    pub fn block_size(&self) -> usize {
        self.pages.block_size
    }

    pub fn num_blocks(&self) -> usize {
        self.pages.blocks
    }

    /// Bytes of keys and values of one position, all layers.
    pub fn kv_bytes_per_token(&self) -> usize {
        TensorLlama::kv_bytes_per_token_of(&self.config)
    }

    /// The same of a model of this shape.
    pub fn kv_bytes_per_token_of(config: &LlamaConfig) -> usize {
        2 * config.layers * config.kv_heads * config.head_dim * size_of::<f32>()
    }
}

fn kv_memory(config: &LlamaConfig, pages: Pages, device: &Device) -> Result<Vec<LayerKv>, ModelError> {
    let width = config.kv_heads * config.head_dim;
    // Slots are numbered in 32 bits.
    let slots = pages.blocks.checked_mul(pages.block_size).filter(|slots| u32::try_from(*slots).is_ok());
    let bytes = slots.and_then(|slots| slots.checked_mul(width)?.checked_mul(2 * config.layers)?.checked_mul(size_of::<f32>()));
    reserve(device, bytes.unwrap_or(usize::MAX), "the KV cache")?;
    let zeros = || Tensor::zeros((pages.slots(), width), DType::F32, device);
    (0..config.layers).map(|_| Ok(LayerKv { keys: zeros()?, values: zeros()? })).collect()
}

/// Asks the system for main memory and gives it back: candle would end the program where this gives an error.
/// A device says itself when it is full.
fn reserve(device: &Device, bytes: usize, what: &'static str) -> Result<(), OutOfMemory> {
    let asked = if device.is_cpu() || bytes == usize::MAX { bytes } else { 0 };
    let refused = |_| OutOfMemory { what, bytes, source: std::io::ErrorKind::OutOfMemory.into() };
    Vec::<u8>::new().try_reserve_exact(asked).map_err(refused)
}
