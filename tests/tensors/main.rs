//! The tensor path on the CPU against our kernels, against transformers, and in an engine.

#[path = "../support/mod.rs"]
mod support;

mod engine;

use std::iter::repeat_with;

use batchroom::batch::{Batch, BlockCopy, BlockId};
use batchroom::model::{GgmlType, GgufFile, KvType, Llama, ModelError, ModelOptions, TensorLlama};
use candle_core::{Device, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use support::random::Random;
use support::sequences::{Manner, Paged, generate, whole};
use support::tiny::Tiny;
use support::{argmax, fixture, ids};

const BLOCK_SIZE: usize = 16;
const BLOCKS: usize = 128;

fn load(file: &GgufFile) -> TensorLlama {
    TensorLlama::load(file, &Device::Cpu, BLOCKS, BLOCK_SIZE).unwrap()
}

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0f32, |largest, value| largest.max(value.abs()))
}

/// The largest difference, relative to the largest of `theirs`.
fn distance(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    let differences: Vec<f32> = ours.iter().zip(theirs).map(|(a, b)| a - b).collect();
    // Not a maximum: that would overlook what is no number.
    assert!(differences.iter().all(|difference| difference.is_finite()));
    largest(&differences) / largest(theirs)
}

/// How far the best is above the second best.
fn margin(logits: &[f32]) -> f32 {
    let best = argmax(logits) as usize;
    let others = logits.iter().enumerate().filter(|(index, _)| *index != best);
    logits[best] - others.fold(f32::NEG_INFINITY, |second, (_, value)| second.max(*value))
}

/// Runs each batch on both paths and holds the logits of every row together. The kernels' logits go on.
struct Both {
    kernels: Llama,
    tensors: TensorLlama,
    /// The most that two rows may be apart, relative to the largest logit.
    tolerance: f32,
    worst: f32,
    /// Choices that were wide enough to have to be the same.
    sure: usize,
}

impl Both {
    fn load(file: &GgufFile, tolerance: f32) -> Both {
        let options =
            ModelOptions { threads: 2, kernels: None, block_size: BLOCK_SIZE, num_blocks: BLOCKS, kv_type: KvType::F32 };
        Both { kernels: Llama::load(file, options).unwrap(), tensors: load(file), tolerance, worst: 0.0, sure: 0 }
    }
}

impl Paged for Both {
    fn run(&mut self, batch: &Batch) -> Result<&[f32], ModelError> {
        let (vocab, ours, theirs) = (self.kernels.vocab(), self.kernels.forward(batch)?, self.tensors.forward(batch)?);
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.chunks_exact(vocab).zip(theirs.chunks_exact(vocab)) {
            let apart = distance(ours, theirs);
            self.worst = self.worst.max(apart);
            assert!(apart <= self.tolerance, "{apart} apart, {} allowed, in {batch:?}", self.tolerance);
            // Neither the best nor the second can have moved further than this.
            if margin(theirs) > 2.0 * self.tolerance * largest(theirs) {
                assert_eq!(argmax(ours), argmax(theirs), "{batch:?}");
                self.sure += 1;
            }
        }
        Ok(ours)
    }

    fn vocab(&self) -> usize {
        self.kernels.vocab()
    }

    fn block_size(&self) -> usize {
        BLOCK_SIZE
    }

    fn num_blocks(&self) -> usize {
        BLOCKS
    }
}

/// Prompts whole and in chunks, prompts among decodes, rows and blocks shuffled, everything lost and computed again.
fn check(name: &str, file: &GgufFile, tolerance: f32) -> Both {
    let mut both = Both::load(file, tolerance);
    let mut random = Random(11);
    let lengths = [1, 40, 16, 7, 33, 3, 17, 64];
    let vocab = both.vocab();
    let prompts: Vec<Vec<u32>> =
        lengths.iter().map(|length| repeat_with(|| random.below(vocab) as u32).take(*length).collect()).collect();
    for manner in [
        Manner::default(),
        Manner { chunk: 7, shuffled: true, seed: 3, ..Manner::default() },
        Manner { chunk: 24, stagger: 1, shuffled: true, seed: 5, ..Manner::default() },
        Manner { chunk: 9, stagger: 2, shuffled: true, preempt_at: Some(9), seed: 6 },
    ] {
        generate(&mut both, &prompts, 5, &manner);
    }
    println!("{name}: at most {} apart, {} choices held together", both.worst, both.sure);
    both
}

#[test]
fn floats_agree_with_the_kernels_in_every_manner() {
    let both = check("float32 fixture", &fixture::file(), 1e-5);
    assert!(both.sure > 150, "only {} choices were sure", both.sure);
}

/// The kernels round activations to 16 bits, the tensors do not.
#[test]
fn nano_agrees_with_the_kernels_in_every_manner() {
    let both = check("nano", &support::nano(), 3e-4);
    assert!(both.sure > 60, "only {} choices were sure", both.sure);
}

#[test]
fn half_turned_heads_and_stretched_waves_agree_with_the_kernels() {
    let mut file = Tiny::new(&[GgmlType::F32], Some(GgmlType::F16)).writer();
    file.u32("llama.rope.dimension_count", 32).str("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4.0);
    let factors = (0..16).flat_map(|pair| (1.0 + pair as f32 / 4.0).to_le_bytes()).collect();
    file.tensor("rope_freqs.weight", &[16], GgmlType::F32, factors);
    check("half turned", &GgufFile::from_vec("half turned", file.bytes()).unwrap(), 1e-5);
}

#[test]
fn a_float32_llama_is_within_1e_5_of_transformers_at_every_position() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("../data/llama/golden.json")).unwrap();
    let expected: Vec<Vec<f32>> = serde_json::from_value(golden["logits"].clone()).unwrap();
    let mut model = load(&fixture::file());
    let batch = whole(&model, &ids(&golden["ids"]));
    let apart = distance(model.forward_all(&batch).unwrap(), &expected.concat());
    println!("{apart} apart");
    assert!(apart <= 1e-5, "{apart} apart");
}

/// The reference has the same weights and rounds nothing either: every choice but the closest must be its own.
#[test]
fn nano_chooses_what_transformers_chooses() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("../data/nano.golden.json")).unwrap();
    let mut model = load(&support::nano());
    let mut held = 0;
    for case in golden["cases"].as_array().unwrap() {
        let (prompt, expected) = (ids(&case["prompt"]), ids(&case["greedy"]));
        let margins: Vec<f64> = serde_json::from_value(case["margins"].clone()).unwrap();
        let batch = whole(&model, &[&prompt, &expected[..expected.len() - 1]].concat());
        let vocab = model.vocab();
        let logits = model.forward_all(&batch).unwrap();
        let choices = logits.chunks_exact(vocab).skip(prompt.len() - 1).map(argmax);
        for ((found, expected), _) in choices.zip(&expected).zip(margins).filter(|(_, margin)| *margin >= 1e-3) {
            assert_eq!(found, *expected, "choice {held}, {}", case["messages"]);
            held += 1;
        }
    }
    assert!(held > 180, "only {held} choices were held together");
}

/// What our kernels have no layout for, against candle's own model, which rounds activations to 8 bits.
#[test]
fn types_without_kernels_agree_with_candles_own_llama() {
    use GgmlType::{Q2_K, Q3_K, Q5_0, Q5_1, Q5_K};
    let mut random = Random(21);
    let prompt: Vec<u32> = (0..24).map(|_| random.below(101) as u32).collect();
    for ggml_type in [Q2_K, Q3_K, Q5_0, Q5_1, Q5_K] {
        let mut file = Tiny::new(&[ggml_type], None).writer();
        let bytes = file.u32("llama.rope.dimension_count", 64).bytes();
        let mut model = load(&GgufFile::from_vec("tiny", bytes.clone()).unwrap());
        let mut reader = std::io::Cursor::new(bytes);
        let content = candle_core::quantized::gguf_file::Content::read(&mut reader).unwrap();
        let mut theirs = ModelWeights::from_gguf(content, &mut reader, &Device::Cpu).unwrap();
        let input = Tensor::from_slice(&prompt, (1, prompt.len()), &Device::Cpu).unwrap();
        let theirs = theirs.forward(&input, 0).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let batch = whole(&model, &prompt);
        let apart = distance(model.forward(&batch).unwrap(), &theirs);
        println!("{ggml_type}: {apart} apart");
        assert!(apart <= 0.05, "{ggml_type}: {apart} apart");
    }
}

#[test]
fn tensors_at_odd_addresses_are_read_like_others() {
    let writer = Tiny::new(&[GgmlType::F32, GgmlType::Q4_1], None).writer();
    let batch = |model: &TensorLlama| whole(model, &[1, 2, 3]);
    let mut even = load(&GgufFile::from_vec("even", writer.bytes()).unwrap());
    let expected = even.forward(&batch(&even)).unwrap().to_vec();
    for name in ["a", "bb", "ccc", "dddd"] {
        // The length of the name moves all that comes after it.
        let mut odd = writer.clone();
        odd.alignment = 1;
        let bytes = odd.u32("general.alignment", 1).str("general.author", name).bytes();
        let mut odd = load(&GgufFile::from_vec("odd", bytes).unwrap());
        assert_eq!(odd.forward(&batch(&odd)).unwrap(), expected, "{name}");
    }
}

/// Here logits are the same bits only for the same rows, so trunk and branch go on one after the other.
#[test]
fn a_fork_goes_on_in_a_copied_block() {
    support::forks::check("float32 fixture", &mut load(&fixture::file()), false);
    support::forks::check("nano", &mut load(&support::nano()), false);
}

#[test]
fn what_cannot_be_is_an_error() {
    let file = support::nano();
    let error = |result: Result<TensorLlama, ModelError>| result.map(|_| ()).unwrap_err().to_string();
    for num_blocks in [usize::MAX, usize::MAX / 16, 1 << 40] {
        assert!(error(TensorLlama::load(&file, &Device::Cpu, num_blocks, 16)).contains("KV cache"));
    }
    assert!(error(TensorLlama::load(&file, &Device::Cpu, 8, 10)).contains("multiple of 16"));
    let lacking = Tiny::new(&[GgmlType::F32], None).writer().without("blk.1.ffn_up.weight").bytes();
    let lacking = GgufFile::from_vec("lacking", lacking).unwrap();
    assert!(error(TensorLlama::load(&lacking, &Device::Cpu, 8, 16)).contains("\"blk.1.ffn_up.weight\" is missing"));

    let mut model = load(&file);
    let good = whole(&model, &[5, 6, 7]);
    let expected = model.forward(&good).unwrap().to_vec();
    let mut bad = good.clone();
    bad.tokens[1] = model.vocab() as u32;
    assert!(model.forward(&bad).unwrap_err().to_string().contains("the vocabulary has"));
    bad.clone_from(&good);
    bad.blocks[0].0 = BLOCKS as u32;
    assert!(model.forward(&bad).unwrap_err().to_string().contains("has block 128 of 128"));
    bad.clone_from(&good);
    bad.copies = vec![BlockCopy { from: BlockId(BLOCKS as u32), to: BlockId(0) }];
    assert!(model.forward(&bad).unwrap_err().to_string().contains("block 128 is to be copied to 0, and there are 128"));
    assert_eq!(model.forward(&Batch::default()).unwrap(), &[0f32; 0]);
    assert_eq!(model.forward(&good).unwrap(), expected);
}
