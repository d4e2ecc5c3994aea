//! Small random models of the Llama family.

use batchroom::model::GgmlType;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};

use super::gguf_writer::GgufWriter;
use super::random::Random;

/// The shape of a model, and the types of its matrices in turn.
#[derive(Clone)]
pub struct Tiny {
    pub layers: usize,
    pub embedding: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub feed_forward: usize,
    pub vocab: usize,
    pub context: usize,
    /// Cycled through, matrix after matrix.
    pub types: Vec<GgmlType>,
    /// A type for the output matrix, or none for tied embeddings.
    pub output: Option<GgmlType>,
    pub seed: u64,
}

impl Tiny {
    /// Sizes that every type can hold, with an odd vocabulary.
    pub fn new(types: &[GgmlType], output: Option<GgmlType>) -> Tiny {
        let types = types.to_vec();
        Tiny {
            layers: 2,
            embedding: 256,
            heads: 4,
            kv_heads: 2,
            feed_forward: 256,
            vocab: 101,
            context: 512,
            types,
            output,
            seed: 7,
        }
    }

    pub fn writer(&self) -> GgufWriter {
        let mut file = GgufWriter::default();
        let mut random = Random(self.seed);
        let head_dim = self.embedding / self.heads;
        file.str("general.architecture", "llama").str("general.name", "tiny");
        file.u32("llama.block_count", self.layers as u32).u32("llama.context_length", self.context as u32);
        file.u32("llama.embedding_length", self.embedding as u32).u32("llama.feed_forward_length", self.feed_forward as u32);
        file.u32("llama.attention.head_count", self.heads as u32).u32("llama.attention.head_count_kv", self.kv_heads as u32);
        file.f32("llama.attention.layer_norm_rms_epsilon", 1e-5).f32("llama.rope.freq_base", 10_000.0);
        let mut types = self.types.iter().cycle();
        let mut matrix = |file: &mut GgufWriter, name: &str, k: usize, rows: usize, ggml_type: Option<GgmlType>| {
            let ggml_type = ggml_type.unwrap_or_else(|| *types.next().unwrap());
            file.tensor(name, &[k, rows], ggml_type, encode(ggml_type, &random.floats(k * rows, 0.15), k));
        };
        matrix(&mut file, "token_embd.weight", self.embedding, self.vocab, None);
        let (embedding, feed_forward, kv) = (self.embedding, self.feed_forward, self.kv_heads * head_dim);
        for layer in 0..self.layers {
            for (name, k, rows) in [
                ("attn_q", embedding, embedding),
                ("attn_k", embedding, kv),
                ("attn_v", embedding, kv),
                ("attn_output", embedding, embedding),
                ("ffn_gate", embedding, feed_forward),
                ("ffn_up", embedding, feed_forward),
                ("ffn_down", feed_forward, embedding),
            ] {
                matrix(&mut file, &format!("blk.{layer}.{name}.weight"), k, rows, None);
            }
        }
        if self.output.is_some() {
            matrix(&mut file, "output.weight", embedding, self.vocab, self.output);
        }
        let mut norm = |file: &mut GgufWriter, name: &str| {
            let weights: Vec<f32> = random.floats(embedding, 0.2).iter().map(|value| value + 1.0).collect();
            file.tensor(name, &[embedding], GgmlType::F32, encode(GgmlType::F32, &weights, embedding));
        };
        for layer in 0..self.layers {
            norm(&mut file, &format!("blk.{layer}.attn_norm.weight"));
            norm(&mut file, &format!("blk.{layer}.ffn_norm.weight"));
        }
        norm(&mut file, "output_norm.weight");
        file
    }
}

/// candle's name of a type.
pub fn candle_type(ggml_type: GgmlType) -> GgmlDType {
    match ggml_type {
        GgmlType::F32 => GgmlDType::F32,
        GgmlType::F16 => GgmlDType::F16,
        GgmlType::BF16 => GgmlDType::BF16,
        GgmlType::Q4_0 => GgmlDType::Q4_0,
        GgmlType::Q4_1 => GgmlDType::Q4_1,
        GgmlType::Q5_0 => GgmlDType::Q5_0,
        GgmlType::Q5_1 => GgmlDType::Q5_1,
        GgmlType::Q8_0 => GgmlDType::Q8_0,
        GgmlType::Q2_K => GgmlDType::Q2K,
        GgmlType::Q3_K => GgmlDType::Q3K,
        GgmlType::Q4_K => GgmlDType::Q4K,
        GgmlType::Q5_K => GgmlDType::Q5K,
        GgmlType::Q6_K => GgmlDType::Q6K,
        other => panic!("no tests for {other}"),
    }
}

/// Rows of `k` numbers as a file holds them; quantized by candle.
pub fn encode(ggml_type: GgmlType, values: &[f32], k: usize) -> Vec<u8> {
    let tensor = Tensor::from_slice(values, (values.len() / k, k), &Device::Cpu).unwrap();
    QTensor::quantize(&tensor, candle_type(ggml_type)).unwrap().data().unwrap().into_owned()
}
