//! The pages that keys and values live in.

use std::marker::PhantomData;

use crate::batch::BlockId;

use super::attention::{AttentionShape, KvLayer};
use super::buffer::{Buffer, OutOfMemory};
use super::vector::LANES;

/// One position's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub block: BlockId,
    /// Position inside the block.
    pub slot: usize,
}

/// Keys and values of all layers: `blocks` pages each, zero at first and taking memory only once written.
#[derive(Debug)]
pub struct KvCache {
    shape: AttentionShape,
    layers: usize,
    blocks: usize,
    buffer: Buffer,
}

impl KvCache {
    /// # Errors
    /// When the system will not give so much memory.
    pub fn new(shape: AttentionShape, layers: usize, blocks: usize) -> Result<KvCache, OutOfMemory> {
        let block = shape.key_block() + shape.value_block();
        let bytes =
            blocks.checked_mul(block).and_then(|floats| floats.checked_mul(layers)).and_then(|floats| floats.checked_mul(4));
        let bytes = bytes.filter(|bytes| isize::try_from(*bytes).is_ok()).ok_or_else(|| OutOfMemory {
            what: "the KV cache",
            bytes: usize::MAX,
            source: std::io::ErrorKind::OutOfMemory.into(),
        })?;
        Ok(KvCache { shape, layers, blocks, buffer: Buffer::zeroed(bytes, "the KV cache")? })
    }

    pub fn shape(&self) -> &AttentionShape {
        &self.shape
    }

    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Bytes of one block, all layers.
    pub fn block_bytes(&self) -> usize {
        (self.shape.key_block() + self.shape.value_block()) * self.layers * size_of::<f32>()
    }

    /// Where a layer's keys begin, its values begin, and it ends, in floats.
    fn bounds(&self, layer: usize) -> (usize, usize, usize) {
        let (keys, values) = (self.shape.key_block() * self.blocks, self.shape.value_block() * self.blocks);
        let begin = (keys + values) * layer;
        (begin, begin + keys, begin + keys + values)
    }

    /// One layer, to read.
    pub fn layer(&self, layer: usize) -> KvLayer<'_> {
        let (begin, middle, end) = self.bounds(layer);
        let floats = self.buffer.floats();
        KvLayer { keys: &floats[begin..middle], values: &floats[middle..end] }
    }

    /// All floats of a layer, keys before values. Empty when there is no such layer.
    pub fn layer_floats(&self, layer: usize) -> &[f32] {
        let (begin, _, end) = self.bounds(layer);
        self.buffer.floats().get(begin..end).unwrap_or_default()
    }

    /// Where a block's keys and values begin in [`KvCache::layer_floats`].
    pub fn pages(&self, block: BlockId) -> [usize; 2] {
        let (keys, values) = (self.shape.key_block(), self.shape.value_block());
        [block.0 as usize * keys, self.blocks * keys + block.0 as usize * values]
    }

    /// One layer, to be written by several threads.
    pub fn writer(&mut self, layer: usize) -> KvWriter<'_> {
        let (begin, middle, end) = self.bounds(layer);
        let (shape, blocks) = (self.shape, self.blocks);
        let (keys, values) = self.buffer.floats_mut()[begin..end].split_at_mut(middle - begin);
        KvWriter { shape, blocks, keys: keys.as_mut_ptr(), values: values.as_mut_ptr(), cache: PhantomData }
    }

    /// Copies one block's contents to another, in all layers.
    ///
    /// # Panics
    /// When there is no such block.
    pub fn copy_block(&mut self, from: BlockId, to: BlockId) {
        let (from, to) = (from.0 as usize, to.0 as usize);
        assert!(from < self.blocks && to < self.blocks, "block {from} to {to} of {}", self.blocks);
        let (keys, values) = (self.shape.key_block(), self.shape.value_block());
        for layer in 0..self.layers {
            let (begin, middle, _) = self.bounds(layer);
            let floats = self.buffer.floats_mut();
            floats.copy_within(begin + from * keys..begin + (from + 1) * keys, begin + to * keys);
            floats.copy_within(middle + from * values..middle + (from + 1) * values, middle + to * values);
        }
    }
}

/// Writes positions of one layer.
pub struct KvWriter<'a> {
    shape: AttentionShape,
    blocks: usize,
    keys: *mut f32,
    values: *mut f32,
    cache: PhantomData<&'a mut KvCache>,
}

// SAFETY: writing is unsafe, and its contract is that no two threads write one slot.
unsafe impl Sync for KvWriter<'_> {}

impl KvWriter<'_> {
    /// Stores one position's keys and values, each `[kv head][head_dim]`.
    ///
    /// # Safety
    /// Nobody else writes this slot at the same time.
    ///
    /// # Panics
    /// When there is no such slot, or a row has another length.
    pub unsafe fn write(&self, at: Slot, keys: &[f32], values: &[f32]) {
        let shape = &self.shape;
        assert!((at.block.0 as usize) < self.blocks && at.slot < shape.block_size, "no such slot: {at:?}");
        assert!(keys.len() == shape.kv_heads * shape.head_dim && values.len() == keys.len(), "whole rows");
        let heads = keys.chunks_exact(shape.head_dim).zip(values.chunks_exact(shape.head_dim));
        for (head, (keys, values)) in heads.enumerate() {
            // SAFETY: block, slot, head and dimension are in range, so these floats are inside the layer's part of the
            // buffer, which this writer has borrowed; they belong to this slot alone.
            unsafe {
                let to = self.keys.add(shape.key_at(at.block, at.slot, head));
                for (dim, key) in keys.iter().enumerate() {
                    *to.add(dim * LANES) = *key;
                }
                let to = self.values.add(shape.value_at(at.block, at.slot, head));
                std::ptr::copy_nonoverlapping(values.as_ptr(), to, values.len());
            }
        }
    }
}
