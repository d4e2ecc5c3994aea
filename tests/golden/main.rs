//! Logits and greedy text against references that were computed elsewhere.

#[path = "../support/mod.rs"]
mod support;

use std::path::Path;

use batchroom::model::{GgmlType, GgufFile, Llama, ModelOptions};
use candle_core::{Device, Tensor};
use support::gguf_writer::GgufWriter;
use support::sequences::{Manner, generate, whole};
use support::{argmax, families, ids};

fn options(num_blocks: usize) -> ModelOptions {
    ModelOptions { threads: 2, kernels: None, block_size: 16, num_blocks }
}

/// Tokens chosen greedily after `prompt`.
fn greedy(model: &mut Llama, prompt: &[u32], steps: usize) -> Vec<u32> {
    let logits = generate(model, &[prompt.to_vec()], steps, &Manner::default());
    let floats = |bits: &Vec<u32>| bits.iter().map(|bits| f32::from_bits(*bits)).collect::<Vec<f32>>();
    logits[0].iter().map(|bits| argmax(&floats(bits))).collect()
}

/// The order in which GGUF keeps the rows of queries and keys: neighbouring rows rotate together.
fn interleave(tensor: &Tensor, heads: usize) -> Tensor {
    let (rows, k) = tensor.dims2().unwrap();
    tensor.reshape((heads, 2, rows / heads / 2, k)).unwrap().transpose(1, 2).unwrap().reshape((rows, k)).unwrap()
}

/// A float32 GGUF of the tiny random Llama that transformers has saved.
fn fixture_file() -> GgufFile {
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

#[test]
fn a_float32_llama_is_within_1e_4_of_transformers_at_every_position() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("../data/llama/golden.json")).unwrap();
    let tokens = ids(&golden["ids"]);
    let expected: Vec<Vec<f32>> = serde_json::from_value(golden["logits"].clone()).unwrap();
    let largest = expected.iter().flatten().fold(0f32, |largest, value| largest.max(value.abs()));
    for kind in families() {
        let options = ModelOptions { kernels: Some(kind), ..options(8) };
        let mut model = Llama::load(&fixture_file(), options).unwrap();
        let batch = whole(&model, &tokens);
        let logits = model.forward_all(&batch).unwrap();
        assert_eq!(logits.len(), tokens.len() * 320);
        for (position, (ours, theirs)) in logits.chunks_exact(320).zip(&expected).enumerate() {
            let worst = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
            // Relative to the largest logit; the reference is rounded to 5 decimals.
            assert!(worst <= 1e-4 * largest, "{kind}: off by {worst} at position {position}, largest logit {largest}");
        }
        let prompt = ids(&golden["prompt"]);
        assert_eq!(greedy(&mut model, &prompt, 24), ids(&golden["greedy"]), "{kind}");
    }
}

/// Greedy text must be the reference's up to the first step whose margin is under 1: below that, rounding activations to
/// 8 bits may choose otherwise. Returns how many tokens were held to it.
fn check_greedy(model: &mut Llama, golden: &serde_json::Value) -> usize {
    let mut held = 0;
    for case in golden["cases"].as_array().unwrap() {
        let (prompt, expected) = (ids(&case["prompt"]), ids(&case["greedy"]));
        let margins: Vec<f64> = serde_json::from_value(case["margins"].clone()).unwrap();
        let sure = margins.iter().position(|margin| *margin < 1.0).unwrap_or(margins.len());
        let found = greedy(model, &prompt, expected.len());
        assert_eq!(found[..sure], expected[..sure], "{}", case["messages"]);
        // Past the first close call, a step with the reference's own text before it must still agree where it is sure.
        held += sure + check_forced(model, &prompt, &expected, &margins);
    }
    held
}

/// Feeds the reference's own text and compares every sure choice on the way.
fn check_forced(model: &mut Llama, prompt: &[u32], expected: &[u32], margins: &[f64]) -> usize {
    let tokens = [prompt, &expected[..expected.len() - 1]].concat();
    let batch = whole(model, &tokens);
    let vocab = model.vocab();
    let logits = model.forward_all(&batch).unwrap();
    let choices = logits.chunks_exact(vocab).skip(prompt.len() - 1).map(argmax);
    let sure: Vec<_> = choices.zip(expected).zip(margins).filter(|(_, margin)| **margin >= 1.0).collect();
    for ((found, expected), margin) in &sure {
        assert_eq!(found, *expected, "margin {margin}");
    }
    sure.len()
}

#[test]
fn nano_says_what_transformers_says() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("../data/nano.golden.json")).unwrap();
    let mut model = Llama::load(&support::nano(), options(64)).unwrap();
    let held = check_greedy(&mut model, &golden);
    assert!(held > 60, "only {held} tokens were compared");
}

#[test]
fn smollm2_says_what_transformers_says() {
    let path = support::smollm2();
    let golden: serde_json::Value = serde_json::from_str(include_str!("../data/smollm2.golden.json")).unwrap();
    let file = GgufFile::open(&path).unwrap();
    let mut model = Llama::load(&file, options(64)).unwrap();
    let held = check_greedy(&mut model, &golden);
    assert!(held > 100, "only {held} tokens were compared");
}

#[test]
fn nano_is_close_to_candles_own_quantized_llama() {
    let prompt =
        ids(&serde_json::from_str::<serde_json::Value>(include_str!("../data/nano.golden.json")).unwrap()["cases"][0]["prompt"]);
    let mut reader = std::io::Cursor::new(support::NANO);
    let content = candle_core::quantized::gguf_file::Content::read(&mut reader).unwrap();
    let mut theirs =
        candle_transformers::models::quantized_llama::ModelWeights::from_gguf(content, &mut reader, &Device::Cpu).unwrap();
    let mut model = Llama::load(&support::nano(), options(64)).unwrap();
    let batch = whole(&model, &prompt);
    let ours = model.forward(&batch).unwrap();
    let input = Tensor::from_slice(&prompt, (1, prompt.len()), &Device::Cpu).unwrap();
    let theirs = theirs.forward(&input, 0).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let largest = theirs.iter().fold(0f32, |largest, value| largest.max(value.abs()));
    let worst = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    // Both round activations to 8 bits; candle stores their scale as f16, so the last digits differ.
    assert!(worst <= 0.02 * largest, "off by {worst}, largest logit {largest}");
}
