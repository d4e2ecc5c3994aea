//! A Llama's weights, repacked for the kernels.

use super::super::error::ModelError;
use super::super::gguf::GgufFile;
use super::super::kernels::{Matrix, MatrixError, Plan, Pool, SUPPORTED_TYPES};
use super::config::{LlamaConfig, bad};
use super::contents::Contents;

/// One layer.
pub(super) struct Layer {
    pub attention_norm: Vec<f32>,
    pub query: Matrix,
    pub key: Matrix,
    pub value: Matrix,
    pub output: Matrix,
    pub feed_forward_norm: Vec<f32>,
    pub gate: Matrix,
    pub up: Matrix,
    pub down: Matrix,
}

/// All weights.
pub(super) struct Weights {
    /// Token embeddings; also the output matrix when there is no other.
    pub embedding: Matrix,
    pub layers: Vec<Layer>,
    pub output_norm: Vec<f32>,
    pub output: Option<Matrix>,
    /// Each rotation's angle per position.
    pub frequencies: Vec<f32>,
    /// Number of parameters in the file.
    pub parameters: u64,
    /// Names of types, most bytes first.
    pub types: String,
}

/// Everything of a model but its matrices.
pub(super) struct Rest {
    /// Of attention and of the feed-forward, layer by layer.
    pub norms: Vec<[Vec<f32>; 2]>,
    /// Whether the output matrix is one of its own, the last of all.
    pub own_output: bool,
    pub output_norm: Vec<f32>,
    pub frequencies: Vec<f32>,
    pub parameters: u64,
    pub types: String,
}

impl Weights {
    /// `matrices` are the embeddings, those of each layer (in the order of [`Layer`]), and an output matrix of its own
    /// if there is one. None when there are too few.
    pub fn assemble(matrices: Vec<Matrix>, rest: Rest) -> Option<Weights> {
        let mut matrices = matrices.into_iter();
        let mut next = || matrices.next();
        let embedding = next()?;
        let mut layers = Vec::with_capacity(rest.norms.len());
        for [attention_norm, feed_forward_norm] in rest.norms {
            let (query, key, value, output) = (next()?, next()?, next()?, next()?);
            let (gate, up, down) = (next()?, next()?, next()?);
            layers.push(Layer { attention_norm, query, key, value, output, feed_forward_norm, gate, up, down });
        }
        let output = if rest.own_output { Some(next()?) } else { None };
        let Rest { output_norm, frequencies, parameters, types, .. } = rest;
        Some(Weights { embedding, layers, output_norm, output, frequencies, parameters, types })
    }

    pub fn output(&self) -> &Matrix {
        self.output.as_ref().unwrap_or(&self.embedding)
    }

    /// Bytes that one step reads: all matrices once (of separate embeddings only single rows), and the norms.
    pub fn bytes_per_step(&self) -> usize {
        let layer = |layer: &Layer| {
            let matrices = [&layer.query, &layer.key, &layer.value, &layer.output, &layer.gate, &layer.up, &layer.down];
            let norms = layer.attention_norm.len() + layer.feed_forward_norm.len();
            matrices.iter().map(|matrix| matrix.bytes()).sum::<usize>() + norms * size_of::<f32>()
        };
        self.layers.iter().map(layer).sum::<usize>() + self.output().bytes() + self.output_norm.len() * size_of::<f32>()
    }
}

/// Finds, checks and repacks everything.
pub(super) fn load(file: &GgufFile, config: &LlamaConfig, pool: &Pool) -> Result<Weights, ModelError> {
    let contents = Contents::read(file, config)?;
    // All types are checked before anything is repacked.
    let mut plan = Plan::default();
    for tensor in contents.matrices() {
        let added = plan.add(tensor.ggml_type, tensor.rows(), tensor.row_len(), file.data(tensor));
        added.map_err(|error| matrix_error(file, &tensor.name, error))?;
    }
    let matrices = plan.repack(pool).map_err(|error| matrix_error(file, "", error))?;
    let Contents { layers, output_norm, output, frequencies, parameters, types, .. } = contents;
    let norms = layers.into_iter().map(|layer| [layer.attention_norm, layer.feed_forward_norm]).collect();
    let rest = Rest { norms, own_output: output.is_some(), output_norm, frequencies, parameters, types };
    Weights::assemble(matrices, rest).ok_or_else(|| bad(file, "a matrix is missing".into()))
}

fn matrix_error(file: &GgufFile, name: &str, error: MatrixError) -> ModelError {
    let (file, tensor) = (file.name().to_owned(), name.to_owned());
    match error {
        MatrixError::Type(found) => ModelError::UnsupportedType { file, tensor, found, supported: SUPPORTED_TYPES },
        MatrixError::OutOfMemory(error) => error.into(),
        MatrixError::Worker(error) => error.into(),
        other => ModelError::BadTensor { file, tensor, what: other.to_string() },
    }
}
