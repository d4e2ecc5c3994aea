//! A Llama's tensors, checked against its shape and repacked.

use super::super::error::ModelError;
use super::super::gguf::{GgmlType, GgufFile, TensorInfo};
use super::super::kernels::{Matrix, MatrixError, Plan, Pool, SUPPORTED_TYPES};
use super::config::{LlamaConfig, bad};

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

impl Weights {
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

/// The matrices of one layer: name, inputs, outputs.
fn layer_matrices(config: &LlamaConfig) -> [(&'static str, usize, usize); 7] {
    let (embedding, heads) = (config.embedding, config.heads * config.head_dim);
    let kv = config.kv_heads * config.head_dim;
    [
        ("attn_q", embedding, heads),
        ("attn_k", embedding, kv),
        ("attn_v", embedding, kv),
        ("attn_output", heads, embedding),
        ("ffn_gate", embedding, config.feed_forward),
        ("ffn_up", embedding, config.feed_forward),
        ("ffn_down", config.feed_forward, embedding),
    ]
}

/// Finds, checks and repacks everything.
pub(super) fn load(file: &GgufFile, config: &LlamaConfig, pool: &Pool) -> Result<Weights, ModelError> {
    if let Some(bias) = file.tensors().iter().find(|tensor| tensor.name.ends_with(".bias")) {
        return Err(bad(file, format!("it has biases (tensor \"{}\"), which are not supported", bias.name)));
    }
    // All that is named is checked before anything is repacked.
    let mut plan = Plan::default();
    plan_matrix(file, &mut plan, "token_embd.weight", config.embedding, config.vocab)?;
    for layer in 0..config.layers {
        for (name, k, rows) in layer_matrices(config) {
            plan_matrix(file, &mut plan, &format!("blk.{layer}.{name}.weight"), k, rows)?;
        }
    }
    let separate = file.tensor("output.weight").is_some();
    if separate {
        plan_matrix(file, &mut plan, "output.weight", config.embedding, config.vocab)?;
    }
    let norm = |name: &str| read_vector(file, name, config.embedding);
    let mut norms = Vec::new();
    for layer in 0..config.layers {
        norms.push((norm(&format!("blk.{layer}.attn_norm.weight"))?, norm(&format!("blk.{layer}.ffn_norm.weight"))?));
    }
    let output_norm = norm("output_norm.weight")?;
    let frequencies = frequencies(file, config)?;
    let matrices = plan.repack(pool).map_err(|error| matrix_error(file, "", error))?;
    let mut matrices = matrices.into_iter();
    // The plan's order is the order here; it has exactly one matrix for each.
    let mut next = || matrices.next().ok_or_else(|| bad(file, "a matrix is missing".into()));
    let embedding = next()?;
    let mut layers = Vec::with_capacity(norms.len());
    for (attention_norm, feed_forward_norm) in norms {
        let (query, key, value, output) = (next()?, next()?, next()?, next()?);
        let (gate, up, down) = (next()?, next()?, next()?);
        layers.push(Layer { attention_norm, query, key, value, output, feed_forward_norm, gate, up, down });
    }
    let output = if separate { Some(next()?) } else { None };
    let parameters = file.tensors().iter().map(|tensor| tensor.elements() as u64).sum();
    Ok(Weights { embedding, layers, output_norm, output, frequencies, parameters, types: types(file) })
}

fn find<'a>(file: &'a GgufFile, name: &str, dims: &[usize]) -> Result<&'a TensorInfo, ModelError> {
    let missing = || ModelError::MissingTensor { file: file.name().into(), tensor: name.into() };
    let tensor = file.tensor(name).ok_or_else(missing)?;
    if tensor.dims != dims {
        return Err(ModelError::WrongShape {
            file: file.name().into(),
            tensor: name.into(),
            expected: dims.to_vec(),
            found: tensor.dims.clone(),
        });
    }
    Ok(tensor)
}

fn plan_matrix<'a>(file: &'a GgufFile, plan: &mut Plan<'a>, name: &str, k: usize, rows: usize) -> Result<(), ModelError> {
    let tensor = find(file, name, &[k, rows])?;
    plan.add(tensor.ggml_type, rows, k, file.data(tensor)).map_err(|error| matrix_error(file, name, error))
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

/// A vector of floats in any of the float types.
fn read_vector(file: &GgufFile, name: &str, len: usize) -> Result<Vec<f32>, ModelError> {
    let tensor = find(file, name, &[len])?;
    let data = file.data(tensor);
    let floats = match tensor.ggml_type {
        GgmlType::F32 => data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
        GgmlType::F16 => data.as_chunks().0.iter().map(|bytes| half::f16::from_le_bytes(*bytes).to_f32()).collect(),
        GgmlType::BF16 => data.as_chunks().0.iter().map(|bytes| half::bf16::from_le_bytes(*bytes).to_f32()).collect(),
        found => {
            let (file, tensor) = (file.name().into(), name.into());
            return Err(ModelError::UnsupportedType { file, tensor, found, supported: "F32, F16, BF16" });
        }
    };
    Ok(floats)
}

/// `base^(-2i/d)` for each pair i, divided by the file's own factors where it has them (Llama 3 stretches long waves so).
fn frequencies(file: &GgufFile, config: &LlamaConfig) -> Result<Vec<f32>, ModelError> {
    let pairs = config.rope_dim / 2;
    let power = |pair: usize| f64::from(config.rope_base).powf((2 * pair) as f64 / config.rope_dim as f64);
    let mut frequencies: Vec<f32> = (0..pairs).map(|pair| (1.0 / power(pair)) as f32 / config.rope_divisor).collect();
    if file.tensor("rope_freqs.weight").is_some() {
        let factors = read_vector(file, "rope_freqs.weight", pairs)?;
        for (frequency, factor) in frequencies.iter_mut().zip(factors) {
            if !(factor.is_finite() && factor > 0.0) {
                return Err(bad(file, format!("rope_freqs.weight holds {factor}, which is no positive number")));
            }
            *frequency /= factor;
        }
    }
    Ok(frequencies)
}

/// The types of the matrices, most bytes first, for instance `Q4_1 + Q8_0`.
fn types(file: &GgufFile) -> String {
    let mut bytes: Vec<(usize, GgmlType)> = Vec::new();
    for tensor in file.tensors().iter().filter(|tensor| tensor.dims.len() > 1) {
        match bytes.iter_mut().find(|(_, ggml_type)| *ggml_type == tensor.ggml_type) {
            Some((sum, _)) => *sum += tensor.range.len(),
            None => bytes.push((tensor.range.len(), tensor.ggml_type)),
        }
    }
    bytes.sort_by(|a, b| b.cmp(a));
    bytes.iter().map(|(_, ggml_type)| ggml_type.name()).collect::<Vec<_>>().join(" + ")
}
