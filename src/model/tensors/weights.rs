//! A Llama's weights on a device.

use std::borrow::Cow;

use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{Device, Tensor};

use super::super::error::ModelError;
use super::super::gguf::{GgmlType, GgufFile, TensorInfo};
use super::super::llama::{Contents, LlamaConfig};
use super::reserve;

const SUPPORTED_TYPES: &str = "Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, F16, BF16, F32";

/// One layer. Matrices are `[outputs][inputs]`, norms `[embedding]`.
pub(super) struct Layer {
    pub attention_norm: Tensor,
    pub query: QMatMul,
    pub key: QMatMul,
    pub value: QMatMul,
    pub output: QMatMul,
    pub feed_forward_norm: Tensor,
    pub gate: QMatMul,
    pub up: QMatMul,
    pub down: QMatMul,
}

/// All weights.
pub(super) struct Weights {
    /// Token embeddings; also the output matrix when there is no other.
    pub embedding: QMatMul,
    pub layers: Vec<Layer>,
    pub output_norm: Tensor,
    pub output: Option<QMatMul>,
    /// Each rotation's angle per position, in radians.
    pub frequencies: Vec<f32>,
    pub parameters: u64,
    pub types: String,
    pub bytes_per_step: usize,
}

impl Weights {
    pub fn output(&self) -> &QMatMul {
        self.output.as_ref().unwrap_or(&self.embedding)
    }
}

/// Finds, checks and brings everything to the device.
pub(super) fn load(file: &GgufFile, config: &LlamaConfig, device: &Device) -> Result<Weights, ModelError> {
    let contents = Contents::read(file, config)?;
    let mut bytes = 0;
    for tensor in contents.matrices() {
        candle_type(file, tensor)?;
        bytes += stored_bytes(tensor, device);
    }
    reserve(device, bytes, "the weights")?;
    let matrix = |tensor: &TensorInfo| read_matrix(file, tensor, device);
    let norm = |values: &[f32]| Tensor::from_slice(values, values.len(), device);
    let mut layers = Vec::with_capacity(contents.layers.len());
    for layer in &contents.layers {
        let [query, key, value, output, gate, up, down] = layer.matrices;
        layers.push(Layer {
            attention_norm: norm(&layer.attention_norm)?,
            query: matrix(query)?,
            key: matrix(key)?,
            value: matrix(value)?,
            output: matrix(output)?,
            feed_forward_norm: norm(&layer.feed_forward_norm)?,
            gate: matrix(gate)?,
            up: matrix(up)?,
            down: matrix(down)?,
        });
    }
    Ok(Weights {
        embedding: matrix(contents.embedding)?,
        layers,
        output_norm: norm(&contents.output_norm)?,
        output: contents.output.map(matrix).transpose()?,
        frequencies: contents.frequencies,
        parameters: contents.parameters,
        types: contents.types,
        // Of separate embeddings a step reads single rows.
        bytes_per_step: bytes - contents.output.map_or(0, |_| stored_bytes(contents.embedding, device)),
    })
}

/// candle's name of a matrix's type.
fn candle_type(file: &GgufFile, tensor: &TensorInfo) -> Result<GgmlDType, ModelError> {
    Ok(match tensor.ggml_type {
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
        found => {
            let (file, tensor) = (file.name().into(), tensor.name.clone());
            return Err(ModelError::UnsupportedType { file, tensor, found, supported: SUPPORTED_TYPES });
        }
    })
}

/// Bytes that a matrix takes on the device: candle widens floats, and on the CPU everything is.
fn stored_bytes(tensor: &TensorInfo, device: &Device) -> usize {
    let widened = device.is_cpu() || matches!(tensor.ggml_type, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16);
    if widened { tensor.elements().saturating_mul(size_of::<f32>()) } else { tensor.range.len() }
}

fn read_matrix(file: &GgufFile, tensor: &TensorInfo, device: &Device) -> Result<QMatMul, ModelError> {
    let mut copy = Vec::new();
    let data = aligned(file.data(tensor), &mut copy);
    let storage = QStorage::from_data(Cow::Borrowed(data), device, candle_type(file, tensor)?)?;
    let quantized = QTensor::new(storage, (tensor.rows(), tensor.row_len()))?;
    Ok(if device.is_cpu() { QMatMul::Tensor(quantized.dequantize(device)?) } else { QMatMul::from_qtensor(quantized)? })
}

/// The same bytes at a multiple of 4, which candle insists on and a file's own alignment need not give.
fn aligned<'a>(data: &'a [u8], copy: &'a mut Vec<u8>) -> &'a [u8] {
    const ALIGNMENT: usize = 4;
    if data.as_ptr().align_offset(ALIGNMENT) == 0 {
        return data;
    }
    copy.resize(data.len() + ALIGNMENT, 0);
    let place = copy.as_ptr().align_offset(ALIGNMENT);
    let place = &mut copy[place..place + data.len()];
    place.copy_from_slice(data);
    place
}
