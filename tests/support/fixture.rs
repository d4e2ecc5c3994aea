//! The tiny float32 Llama of `tests/data/llama`.

use batchroom::model::{GgmlType, GgufFile};
use candle_core::{Device, Tensor};

use super::gguf_writer::GgufWriter;

/// The order in which GGUF keeps the rows of queries and keys: neighbouring rows rotate together.
fn interleave(tensor: &Tensor, heads: usize) -> Tensor {
    let (rows, k) = tensor.dims2().unwrap();
    tensor.reshape((heads, 2, rows / heads / 2, k)).unwrap().transpose(1, 2).unwrap().reshape((rows, k)).unwrap()
}

/// A float32 GGUF of the tiny random Llama that transformers has saved.
pub fn file() -> GgufFile {
    let tensors = candle_core::safetensors::load("tests/data/llama/model.safetensors", &Device::Cpu).unwrap();
    let mut file = GgufWriter::default();
    file.str("general.architecture", "llama");
    let sizes = [("block_count", 3), ("context_length", 256), ("embedding_length", 96), ("feed_forward_length", 160)];
    sizes.into_iter().for_each(|(key, value)| _ = file.u32(&format!("llama.{key}"), value));
    file.u32("llama.attention.head_count", 6).u32("llama.attention.head_count_kv", 2);
    file.f32("llama.attention.layer_norm_rms_epsilon", 1e-6).f32("llama.rope.freq_base", 10_000.0);
    let mut add = |name: String, tensor: &Tensor| {
        let dims: Vec<usize> = tensor.dims().iter().rev().copied().collect();
        let values = tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        file.tensor(&name, &dims, GgmlType::F32, values.iter().flat_map(|value| value.to_le_bytes()).collect());
    };
    add("token_embd.weight".into(), &tensors["model.embed_tokens.weight"]);
    add("output_norm.weight".into(), &tensors["model.norm.weight"]);
    for layer in 0..3 {
        let names = [
            ("self_attn.q_proj", "attn_q", 6),
            ("self_attn.k_proj", "attn_k", 2),
            ("self_attn.v_proj", "attn_v", 0),
            ("self_attn.o_proj", "attn_output", 0),
            ("mlp.gate_proj", "ffn_gate", 0),
            ("mlp.up_proj", "ffn_up", 0),
            ("mlp.down_proj", "ffn_down", 0),
            ("input_layernorm", "attn_norm", 0),
            ("post_attention_layernorm", "ffn_norm", 0),
        ];
        for (theirs, ours, heads) in names {
            let tensor = &tensors[&format!("model.layers.{layer}.{theirs}.weight")];
            let turned = if heads > 0 { interleave(tensor, heads) } else { tensor.clone() };
            add(format!("blk.{layer}.{ours}.weight"), &turned);
        }
    }
    GgufFile::from_vec("fixture", file.bytes()).unwrap()
}
