//! What the file of a Llama must hold: every tensor found, its shape held against the metadata, before anything is
//! allotted for it.

use super::super::error::ModelError;
use super::super::gguf::{GgmlType, GgufFile, TensorInfo};
use super::config::{LlamaConfig, bad};

/// The tensors of a Llama. Names and shapes are right; whether a matrix's type can be computed with is for its reader
/// to say.
pub(in crate::model) struct Contents<'a> {
    /// `[vocab][embedding]`; also the output matrix when there is no other.
    pub embedding: &'a TensorInfo,
    pub layers: Vec<LayerContents<'a>>,
    pub output_norm: Vec<f32>,
    pub output: Option<&'a TensorInfo>,
    /// Each rotation's angle per position, in radians.
    pub frequencies: Vec<f32>,
    /// Number of parameters in the file.
    pub parameters: u64,
    /// Names of the matrices' types, most bytes first, for instance `Q4_1 + Q8_0`.
    pub types: String,
}

/// One layer.
pub(in crate::model) struct LayerContents<'a> {
    pub attention_norm: Vec<f32>,
    pub feed_forward_norm: Vec<f32>,
    /// Query, key, value, attention's output, gate, up, down.
    pub matrices: [&'a TensorInfo; 7],
}

impl<'a> Contents<'a> {
    /// Finds and checks everything.
    ///
    /// # Errors
    /// When a tensor is missing or has another shape, a vector is not of floats, or there are tensors that would have
    /// to be computed with and cannot be.
    pub fn read(file: &'a GgufFile, config: &LlamaConfig) -> Result<Contents<'a>, ModelError> {
        if let Some(bias) = file.tensors().iter().find(|tensor| tensor.name.ends_with(".bias")) {
            return Err(bad(file, format!("it has biases (tensor \"{}\"), which are not supported", bias.name)));
        }
        let output_dims = [config.embedding, config.vocab];
        let output = file.tensor("output.weight").map(|_| find(file, "output.weight", &output_dims)).transpose()?;
        Ok(Contents {
            embedding: find(file, "token_embd.weight", &output_dims)?,
            layers: (0..config.layers).map(|layer| read_layer(file, config, layer)).collect::<Result<_, _>>()?,
            output_norm: read_vector(file, "output_norm.weight", config.embedding)?,
            output,
            frequencies: frequencies(file, config)?,
            parameters: file.tensors().iter().map(|tensor| tensor.elements() as u64).sum(),
            types: types(file),
        })
    }

    /// All matrices: the embeddings, those of each layer, the output matrix if it is one of its own.
    pub fn matrices(&self) -> impl Iterator<Item = &'a TensorInfo> {
        let layers = self.layers.iter().flat_map(|layer| layer.matrices);
        std::iter::once(self.embedding).chain(layers).chain(self.output)
    }
}

fn read_layer<'a>(file: &'a GgufFile, config: &LlamaConfig, layer: usize) -> Result<LayerContents<'a>, ModelError> {
    let (embedding, heads) = (config.embedding, config.heads * config.head_dim);
    let (kv, feed_forward) = (config.kv_heads * config.head_dim, config.feed_forward);
    let name = |name: &str| format!("blk.{layer}.{name}.weight");
    let matrix = |what: &str, k: usize, rows: usize| find(file, &name(what), &[k, rows]);
    Ok(LayerContents {
        attention_norm: read_vector(file, &name("attn_norm"), embedding)?,
        feed_forward_norm: read_vector(file, &name("ffn_norm"), embedding)?,
        matrices: [
            matrix("attn_q", embedding, heads)?,
            matrix("attn_k", embedding, kv)?,
            matrix("attn_v", embedding, kv)?,
            matrix("attn_output", heads, embedding)?,
            matrix("ffn_gate", embedding, feed_forward)?,
            matrix("ffn_up", embedding, feed_forward)?,
            matrix("ffn_down", feed_forward, embedding)?,
        ],
    })
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

/// `base^(-2i/d)` for each pair i, divided by the factor of linear scaling.
pub(super) fn plain_frequencies(config: &LlamaConfig) -> Vec<f32> {
    let power = |pair: usize| f64::from(config.rope_base).powf((2 * pair) as f64 / config.rope_dim as f64);
    (0..config.rope_dim / 2).map(|pair| (1.0 / power(pair)) as f32 / config.rope_divisor).collect()
}

/// The plain ones, divided by the file's own factors where it has them (Llama 3 stretches long waves so).
fn frequencies(file: &GgufFile, config: &LlamaConfig) -> Result<Vec<f32>, ModelError> {
    let mut frequencies = plain_frequencies(config);
    if file.tensor("rope_freqs.weight").is_some() {
        let factors = read_vector(file, "rope_freqs.weight", frequencies.len())?;
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
