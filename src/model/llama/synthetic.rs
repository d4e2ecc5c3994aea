//! Weights drawn at random in the shape of a published model: what a step costs depends on shape and type alone.
//!
//! Each panel's rows are drawn as a file would have them (any bits are valid codes; scales are set to sensible numbers)
//! and repacked at once, so a model takes the memory of its panels and no more. A row depends on the seed, its
//! matrix and its place alone, not on threads.

use super::super::error::ModelError;
use super::super::gguf::GgmlType;
use super::super::kernels::{Layout, Matrix, MatrixError, PANEL, Plan, Pool};
use super::super::shapes::Shape;
use super::LlamaConfig;
use super::contents::plain_frequencies;
use super::weights::{Rest, Weights};
use crate::random::{SplitMix64, mix};

/// A synthetic model that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum SyntheticError {
    #[error("there is no weight type `{found}` to draw: choose one of {types}")]
    Type { found: String, types: String },
    #[error(
        "{shape} has rows of {k} weights, which are no whole blocks of {unit} as {found} wants them: the types that fit are {fitting}"
    )]
    RowLength { shape: &'static str, k: usize, unit: usize, found: GgmlType, fitting: String },
}

/// A model to be drawn: shape, one type for all matrices, seed. Biases are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Synthetic {
    shape: Shape,
    ggml_type: GgmlType,
    seed: u64,
}

/// The types that weights can be drawn in: all that the kernels multiply with and whose blocks are known.
pub fn synthetic_types() -> impl Iterator<Item = GgmlType> {
    GgmlType::all()
        .filter(|ggml_type| Layout::of(*ggml_type).is_some_and(|layout| layout.is_float() || ggml_type.halves().is_some()))
}

fn list(types: impl Iterator<Item = GgmlType>) -> String {
    types.map(|ggml_type| ggml_type.name().to_ascii_lowercase()).collect::<Vec<_>>().join(", ")
}

/// A weight type by its name, in whatever case.
///
/// # Errors
/// When there is none to draw weights in; the message lists them.
pub fn parse_type(text: &str) -> Result<GgmlType, SyntheticError> {
    let named = synthetic_types().find(|ggml_type| ggml_type.name().eq_ignore_ascii_case(text));
    named.ok_or_else(|| SyntheticError::Type { found: text.to_owned(), types: list(synthetic_types()) })
}

/// Whether rows of all matrices are whole units of this type's layout; else a length that is not.
fn misfit(shape: &Shape, ggml_type: GgmlType) -> Option<(usize, usize)> {
    let unit = Layout::of(ggml_type).map_or(1, Layout::unit);
    shape.matrices().map(|(k, _)| (k, unit)).find(|(k, unit)| !k.is_multiple_of(*unit))
}

impl Synthetic {
    /// # Errors
    /// When weights of this type cannot be drawn, or rows of this shape are no whole blocks of it.
    pub fn new(shape: &Shape, ggml_type: GgmlType, seed: u64) -> Result<Synthetic, SyntheticError> {
        parse_type(ggml_type.name())?;
        if let Some((k, unit)) = misfit(shape, ggml_type) {
            let fitting = list(synthetic_types().filter(|ggml_type| misfit(shape, *ggml_type).is_none()));
            return Err(SyntheticError::RowLength { shape: shape.name, k, unit, found: ggml_type, fitting });
        }
        Ok(Synthetic { shape: *shape, ggml_type, seed })
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Bytes that the weights take in memory.
    ///
    /// # Errors
    /// None for a model that [`Synthetic::new`] has let through.
    pub fn memory_bytes(&self) -> Result<usize, ModelError> {
        Ok(self.plan(0.0)?.bytes())
    }

    /// All matrices, not yet drawn.
    fn plan(&self, scale_at_one: f32) -> Result<Plan<'static>, ModelError> {
        let mut plan = Plan::default();
        for (number, (k, rows)) in self.shape.matrices().enumerate() {
            // Outputs then are about as large as the inputs.
            let scale = scale_at_one / (k as f32).sqrt();
            let draw = Draw { ggml_type: self.ggml_type, scale, seed: mix(self.seed ^ mix(number as u64)) };
            let make = Box::new(move |first: usize, out: &mut [u8]| draw.rows(first, out));
            plan.add_made(self.ggml_type, rows, k, make).map_err(|error| self.fault(error))?;
        }
        Ok(plan)
    }

    pub(super) fn weights(&self, config: &LlamaConfig, pool: &Pool) -> Result<Weights, ModelError> {
        let rms = rms_at_one(self.ggml_type).map_err(|error| self.fault(error))?;
        let matrices = self.plan(1.0 / rms)?.repack(pool).map_err(|error| self.fault(error))?;
        let ones = || vec![1.0; self.shape.embedding];
        let rest = Rest {
            norms: (0..self.shape.layers).map(|_| [ones(), ones()]).collect(),
            own_output: !self.shape.tied,
            output_norm: ones(),
            frequencies: plain_frequencies(config),
            parameters: self.parameters(),
            types: self.ggml_type.name().to_owned(),
        };
        Weights::assemble(matrices, rest).ok_or_else(|| self.bad("a matrix is missing".into()))
    }

    /// Those that there are: without biases.
    fn parameters(&self) -> u64 {
        Shape { qkv_biases: false, ..self.shape }.parameters()
    }

    fn bad(&self, what: String) -> ModelError {
        ModelError::BadTensor { file: format!("synthetic {}", self.shape.name), tensor: String::new(), what }
    }

    fn fault(&self, error: MatrixError) -> ModelError {
        match error {
            MatrixError::OutOfMemory(error) => error.into(),
            MatrixError::Worker(error) => error.into(),
            other => self.bad(other.to_string()),
        }
    }
}

/// Root mean square of random weights of a type whose scales are between a half and one.
fn rms_at_one(ggml_type: GgmlType) -> Result<f32, MatrixError> {
    let k = ggml_type.block_elements().max(32);
    let draw = Draw { ggml_type, scale: 1.0, seed: 1 };
    let mut data = vec![0; PANEL * k / ggml_type.block_elements() * ggml_type.block_bytes()];
    draw.rows(0, &mut data);
    let matrix = Matrix::new(ggml_type, PANEL, k, &data)?;
    let mut row = vec![0.0; k];
    let mut sum = 0.0;
    for index in 0..PANEL {
        matrix.row(index, &mut row);
        sum += row.iter().map(|weight| f64::from(*weight).powi(2)).sum::<f64>();
    }
    Ok((sum / (PANEL * k) as f64).sqrt() as f32)
}

/// One matrix's random numbers.
#[derive(Clone, Copy)]
struct Draw {
    ggml_type: GgmlType,
    /// The largest scale of a quantized type, the largest weight of a float one.
    scale: f32,
    seed: u64,
}

impl Draw {
    fn rows(&self, first: usize, out: &mut [u8]) {
        let mut random = SplitMix64(mix(self.seed ^ first as u64));
        match self.ggml_type {
            GgmlType::F32 => self.floats(out, &mut random, f32::to_le_bytes),
            GgmlType::F16 => self.floats(out, &mut random, |value| half::f16::from_f32(value).to_le_bytes()),
            GgmlType::BF16 => self.floats(out, &mut random, |value| half::bf16::from_f32(value).to_le_bytes()),
            _ => self.blocks(out, &mut random),
        }
    }

    fn floats<const BYTES: usize>(&self, out: &mut [u8], random: &mut SplitMix64, bytes: impl Fn(f32) -> [u8; BYTES]) {
        for to in out.as_chunks_mut::<BYTES>().0 {
            *to = bytes(self.scale * random.signed());
        }
    }

    fn blocks(&self, out: &mut [u8], random: &mut SplitMix64) {
        for to in out.chunks_mut(8) {
            to.copy_from_slice(&random.bits().to_le_bytes()[..to.len()]);
        }
        let halves = self.ggml_type.halves().unwrap_or_default();
        for block in out.chunks_exact_mut(self.ggml_type.block_bytes()) {
            for half in block[halves.clone()].as_chunks_mut::<2>().0 {
                // Of both signs, so that weights which are never negative before scaling have no mean.
                let drawn = random.signed();
                let scale = self.scale * (0.5f32.copysign(drawn) + 0.5 * drawn);
                *half = half::f16::from_f32(scale).to_le_bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ModelOptions;
    use super::*;
    use crate::batch::{Batch, BlockId, RequestId, Row, RowKind, UserId};
    use crate::model::shapes::SHAPES;
    use crate::model::{KvType, Llama};

    /// Small, and whole blocks of every type.
    const TINY: Shape = Shape {
        name: "tiny",
        layers: 2,
        embedding: 256,
        feed_forward: 512,
        heads: 4,
        kv_heads: 2,
        head_dim: 64,
        vocab: 300,
        tied: false,
        qkv_biases: true,
        rope_base: 10_000.0,
        rms_eps: 1e-5,
        context: 64,
    };

    fn logits(model: &Synthetic, threads: usize) -> Vec<f32> {
        let options = ModelOptions { threads, kernels: None, block_size: 16, num_blocks: 1, kv_type: KvType::default() };
        let mut llama = Llama::synthetic(model, options).unwrap();
        let row = Row {
            id: RequestId(0),
            user: UserId(0),
            start: 0,
            tokens: 0..3,
            blocks: 0..1,
            kind: RowKind::Prefill,
            samples: true,
        };
        let batch = Batch { step: 1, rows: vec![row], tokens: vec![7, 8, 299], blocks: vec![BlockId(0)], copies: Vec::new() };
        llama.forward(&batch).unwrap().to_vec()
    }

    #[test]
    fn every_type_gives_numbers_that_depend_on_the_seed_alone() {
        for ggml_type in synthetic_types() {
            let model = Synthetic::new(&TINY, ggml_type, 1).unwrap();
            let first = logits(&model, 1);
            let rms = (first.iter().map(|logit| logit * logit).sum::<f32>() / first.len() as f32).sqrt();
            assert!((0.2..5.0).contains(&rms), "{ggml_type}: logits of about {rms}");
            assert_eq!(first, logits(&model, 3), "{ggml_type}: on other threads");
            assert_ne!(first, logits(&Synthetic::new(&TINY, ggml_type, 2).unwrap(), 1), "{ggml_type}: another seed");
        }
    }

    #[test]
    fn memory_is_known_beforehand() {
        for ggml_type in synthetic_types() {
            let model = Synthetic::new(&TINY, ggml_type, 1).unwrap();
            let options = ModelOptions { threads: 1, kernels: None, block_size: 16, num_blocks: 1, kv_type: KvType::default() };
            let llama = Llama::synthetic(&model, options).unwrap();
            let norms = 5 * 256 * 4;
            let embeddings = llama.weight_bytes() - norms;
            let all = model.memory_bytes().unwrap();
            assert!(all > embeddings && all < 2 * embeddings, "{ggml_type}: {all} bytes, {embeddings} read a step");
            assert_eq!(llama.parameters() + 2 * (4 + 2 * 2) * 64, TINY.parameters());
        }
    }

    #[test]
    fn a_shape_whose_rows_are_no_whole_blocks_names_the_types_that_fit() {
        let shape = Shape::by_name("qwen2.5-0.5b").unwrap();
        let message = Synthetic::new(shape, GgmlType::Q4_K, 1).unwrap_err().to_string();
        assert!(message.contains("896") && message.contains("256") && message.contains("q8_0"), "{message}");
        assert!(!message.contains("q6_k"), "{message}");
        for shape in &SHAPES {
            Synthetic::new(shape, GgmlType::Q4_0, 1).unwrap();
        }
    }

    #[test]
    fn a_type_that_cannot_be_drawn_lists_those_that_can() {
        assert_eq!(parse_type("Q4_K").unwrap(), GgmlType::Q4_K);
        for bad in ["q4", "i8", "q8_k", ""] {
            let message = parse_type(bad).unwrap_err().to_string();
            assert!(message.contains(&format!("`{bad}`")) && message.contains("q4_0, q4_1"), "{message}");
        }
    }
}
