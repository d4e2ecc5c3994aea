//! The pages that keys and values live in.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use crate::batch::BlockId;

use super::Kernels;
use super::attention::{AttentionShape, Code, Half, KvLayer, KvPages};
use super::buffer::{Buffer, Number, OutOfMemory};
use super::vector::{CodeScale, LANES};

/// What a key or a value is kept as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvType {
    /// 32 bits: as computed.
    F32,
    /// 16 bits: half the memory and half the traffic, rounded once when written (11 significant bits).
    #[default]
    F16,
    /// 8-bit codes, -127 to 127, with one 32-bit scale for each vector of a head: `8 + 32 / head_dim` bits a number (8.5 for
    /// heads of 64, as GGML's type of this name).
    Q8_0,
}

impl KvType {
    pub const ALL: [KvType; 3] = [KvType::F32, KvType::F16, KvType::Q8_0];

    pub fn name(self) -> &'static str {
        match self {
            KvType::F32 => "f32",
            KvType::F16 => "f16",
            KvType::Q8_0 => "q8_0",
        }
    }

    /// Bytes of one number, without scales.
    pub fn bytes(self) -> usize {
        match self {
            KvType::F32 => size_of::<f32>(),
            KvType::F16 => size_of::<Half>(),
            KvType::Q8_0 => size_of::<Code>(),
        }
    }

    /// Numbers whose place the scale of one head's keys or values at one position takes; 0 when there are no scales.
    pub fn scale_numbers(self) -> usize {
        match self {
            KvType::F32 | KvType::F16 => 0,
            KvType::Q8_0 => size_of::<f32>() / size_of::<Code>(),
        }
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No type of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("keys and values cannot be kept as \"{0}\": choose f16, q8_0 or f32")]
pub struct UnknownKvType(String);

impl FromStr for KvType {
    type Err = UnknownKvType;

    fn from_str(text: &str) -> Result<KvType, UnknownKvType> {
        let named = KvType::ALL.into_iter().find(|kind| kind.name() == text);
        named.ok_or_else(|| UnknownKvType(text.to_owned()))
    }
}

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
    kind: KvType,
    layers: usize,
    blocks: usize,
    buffer: Buffer,
}

impl KvCache {
    /// # Errors
    /// When the system will not give so much memory.
    pub fn new(shape: AttentionShape, kind: KvType, layers: usize, blocks: usize) -> Result<KvCache, OutOfMemory> {
        let scale = kind.scale_numbers();
        let block = shape.key_block(scale) + shape.value_block(scale);
        let numbers = blocks.checked_mul(block).and_then(|numbers| numbers.checked_mul(layers));
        let bytes = numbers.and_then(|numbers| numbers.checked_mul(kind.bytes()));
        let bytes = bytes.filter(|bytes| isize::try_from(*bytes).is_ok()).ok_or_else(|| OutOfMemory {
            what: "the KV cache",
            bytes: usize::MAX,
            source: std::io::ErrorKind::OutOfMemory.into(),
        })?;
        Ok(KvCache { shape, kind, layers, blocks, buffer: Buffer::zeroed(bytes, "the KV cache")? })
    }

    pub fn shape(&self) -> &AttentionShape {
        &self.shape
    }

    pub fn kind(&self) -> KvType {
        self.kind
    }

    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Bytes of one block, all layers, scales included.
    pub fn block_bytes(&self) -> usize {
        let [keys, values] = self.layer_block_bytes();
        (keys + values) * self.layers
    }

    /// Bytes of one block's keys and of its values in one layer.
    pub fn layer_block_bytes(&self) -> [usize; 2] {
        let scale = self.kind.scale_numbers();
        [self.shape.key_block(scale), self.shape.value_block(scale)].map(|numbers| numbers * self.kind.bytes())
    }

    /// Where a layer's keys begin, its values begin, and it ends, in bytes.
    fn bounds(&self, layer: usize) -> [usize; 3] {
        let [keys, values] = self.layer_block_bytes().map(|bytes| bytes * self.blocks);
        let begin = (keys + values) * layer;
        [begin, begin + keys, begin + keys + values]
    }

    fn layer_pages<N: Number>(&self, layer: usize) -> KvPages<'_, N> {
        let [begin, middle, end] = self.bounds(layer).map(|bytes| bytes / size_of::<N>());
        let numbers = self.buffer.numbers();
        KvPages { keys: &numbers[begin..middle], values: &numbers[middle..end] }
    }

    /// One layer, to read.
    pub fn layer(&self, layer: usize) -> KvLayer<'_> {
        match self.kind {
            KvType::F32 => KvLayer::F32(self.layer_pages(layer)),
            KvType::F16 => KvLayer::F16(self.layer_pages(layer)),
            KvType::Q8_0 => KvLayer::Q8_0(self.layer_pages(layer)),
        }
    }

    /// All bytes of a layer, keys before values. Empty when there is no such layer.
    pub fn layer_bytes(&self, layer: usize) -> &[u8] {
        let [begin, _, end] = self.bounds(layer);
        self.buffer.bytes().get(begin..end).unwrap_or_default()
    }

    /// Where a block's keys and values begin in [`KvCache::layer_bytes`].
    pub fn pages(&self, block: BlockId) -> [usize; 2] {
        let [keys, values] = self.layer_block_bytes();
        [block.0 as usize * keys, self.blocks * keys + block.0 as usize * values]
    }

    /// One layer, to be written by several threads.
    pub fn writer(&mut self, layer: usize) -> KvWriter<'_> {
        let [begin, middle, end] = self.bounds(layer);
        let (keys, values) = self.buffer.bytes_mut()[begin..end].split_at_mut(middle - begin);
        let (shape, kind, blocks) = (self.shape, self.kind, self.blocks);
        KvWriter { shape, kind, blocks, keys: keys.as_mut_ptr(), values: values.as_mut_ptr(), cache: PhantomData }
    }

    /// Copies one block's contents to another, in all layers.
    ///
    /// # Panics
    /// When there is no such block.
    pub fn copy_block(&mut self, from: BlockId, to: BlockId) {
        let (from, to) = (from.0 as usize, to.0 as usize);
        assert!(from < self.blocks && to < self.blocks, "block {from} to {to} of {}", self.blocks);
        let [keys, values] = self.layer_block_bytes();
        for layer in 0..self.layers {
            let [begin, middle, _] = self.bounds(layer);
            let bytes = self.buffer.bytes_mut();
            bytes.copy_within(begin + from * keys..begin + (from + 1) * keys, begin + to * keys);
            bytes.copy_within(middle + from * values..middle + (from + 1) * values, middle + to * values);
        }
    }
}

/// Writes positions of one layer.
pub struct KvWriter<'a> {
    shape: AttentionShape,
    kind: KvType,
    blocks: usize,
    keys: *mut u8,
    values: *mut u8,
    cache: PhantomData<&'a mut KvCache>,
}

// SAFETY: writing is unsafe, and its contract is that no two threads write one slot.
unsafe impl Sync for KvWriter<'_> {}

/// Dimensions that are rounded at a time.
const PIECE: usize = 4 * LANES;

impl KvWriter<'_> {
    /// Stores one position's keys and values, each `[kv head][head_dim]`.
    ///
    /// # Safety
    /// Nobody else writes this slot at the same time.
    ///
    /// # Panics
    /// When there is no such slot, or a row has another length.
    pub unsafe fn write(&self, kernels: Kernels, at: Slot, keys: &[f32], values: &[f32]) {
        let shape = &self.shape;
        assert!((at.block.0 as usize) < self.blocks && at.slot < shape.block_size, "no such slot: {at:?}");
        assert!(keys.len() == shape.kv_heads * shape.head_dim && values.len() == keys.len(), "whole rows");
        let heads = keys.chunks_exact(shape.head_dim).zip(values.chunks_exact(shape.head_dim));
        let scale = self.kind.scale_numbers();
        for (head, (keys, values)) in heads.enumerate() {
            let (key, value) = (shape.key_at(at.block, at.slot, head, scale), shape.value_at(at.block, at.slot, head, scale));
            match self.kind {
                // SAFETY: block, slot, head and dimension are in range, so these numbers are inside the layer's part of the
                // buffer, which this writer has borrowed; they belong to this slot alone.
                KvType::F32 => unsafe { self.put(key, value, keys, values) },
                KvType::F16 => {
                    for (index, (keys, values)) in keys.chunks(PIECE).zip(values.chunks(PIECE)).enumerate() {
                        let mut halves = [[0; PIECE]; 2];
                        kernels.to_halves(keys, &mut halves[0][..keys.len()]);
                        kernels.to_halves(values, &mut halves[1][..keys.len()]);
                        let (key, value) = (key + index * PIECE * LANES, value + index * PIECE);
                        // SAFETY: the same.
                        unsafe { self.put(key, value, &halves[0][..keys.len()], &halves[1][..keys.len()]) };
                    }
                }
                KvType::Q8_0 => {
                    let mut scales = [CodeScale::default(); 2];
                    kernels.code_scale(keys, &mut scales[0]);
                    kernels.code_scale(values, &mut scales[1]);
                    for (index, (keys, values)) in keys.chunks(PIECE).zip(values.chunks(PIECE)).enumerate() {
                        let mut codes = [[0; PIECE]; 2];
                        kernels.to_codes(keys, scales[0], &mut codes[0][..keys.len()]);
                        kernels.to_codes(values, scales[1], &mut codes[1][..keys.len()]);
                        let (key, value) = (key + index * PIECE * LANES, value + index * PIECE);
                        // SAFETY: the same.
                        unsafe { self.put(key, value, &codes[0][..keys.len()], &codes[1][..keys.len()]) };
                    }
                    let key = shape.key_scale_at(at.block, at.slot, head, scale);
                    let value = shape.value_scale_at(at.block, at.slot, head, scale);
                    // SAFETY: the same: a code is a byte, and the places of scales lie behind the codes of their head and block.
                    unsafe {
                        self.keys.add(key).cast::<f32>().write_unaligned(scales[0].scale);
                        self.values.add(value).cast::<f32>().write_unaligned(scales[1].scale);
                    }
                }
            }
        }
    }

    /// Puts a key from number `key` on, each dimension 16 numbers after the other, and a value from number `value` on.
    ///
    /// # Safety
    /// These places are inside the layer, and nobody else uses them.
    unsafe fn put<N: Number>(&self, key: usize, value: usize, keys: &[N], values: &[N]) {
        // SAFETY: the caller's.
        unsafe {
            let to = self.keys.cast::<N>().add(key);
            for (dim, key) in keys.iter().enumerate() {
                *to.add(dim * LANES) = *key;
            }
            let to = self.values.cast::<N>().add(value);
            std::ptr::copy_nonoverlapping(values.as_ptr(), to, values.len());
        }
    }
}
