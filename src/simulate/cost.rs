//! What a step takes: a roofline over the model's products and its attention, and fixed overheads.
//!
//! Sources: the roofline itself is Williams, Waterman and Patterson, "Roofline: an insightful visual performance model"
//! (CACM 2009). That products are shared by all tokens of a step while attention is each row's own is Orca's selective
//! batching (OSDI 2022); that decodes wait for memory and chunks of prompts for arithmetic, so that they fit in one
//! step, is Sarathi-Serve's argument (OSDI 2024). 2 FLOPs a parameter and token: one multiplication, one addition.

use std::fmt;
use std::str::FromStr;

use super::hardware::Hardware;
use crate::batch::Batch;
use crate::model::GgmlType;
use crate::model::shapes::Shape;

/// What keys and values are kept as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvFormat {
    F32,
    #[default]
    F16,
    /// 8-bit codes with a 32-bit scale for each head's numbers, as the engine keeps them.
    Q8_0,
}

impl KvFormat {
    pub fn name(self) -> &'static str {
        match self {
            KvFormat::F32 => "f32",
            KvFormat::F16 => "f16",
            KvFormat::Q8_0 => "q8_0",
        }
    }

    /// Bytes of one position's keys or values, for so many heads of so many numbers.
    fn bytes(self, heads: u64, head_dim: u64) -> u64 {
        let numbers = heads * head_dim;
        match self {
            KvFormat::F32 => 4 * numbers,
            KvFormat::F16 => 2 * numbers,
            KvFormat::Q8_0 => numbers + 4 * heads,
        }
    }
}

impl FromStr for KvFormat {
    type Err = InvalidModel;

    fn from_str(text: &str) -> Result<KvFormat, InvalidModel> {
        let known = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];
        let named = known.into_iter().find(|format| format.name().eq_ignore_ascii_case(text));
        named.ok_or_else(|| InvalidModel::KvFormat(text.to_owned()))
    }
}

/// A model that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidModel {
    #[error("keys and values cannot be kept as `{0}`: choose f32, f16 or q8_0")]
    KvFormat(String),
    #[error("there is no weight type `{found}`: choose one of {list}", list = names(weight_types()))]
    WeightType { found: String },
    #[error(
        "{shape} has rows of {k} weights, which are no whole blocks of {unit} as {found} wants them: the types that fit are {fitting}"
    )]
    RowLength { shape: &'static str, k: usize, unit: usize, found: GgmlType, fitting: String },
}

/// Types that weights are kept in: floats and all quantized types of GGML.
pub fn weight_types() -> impl Iterator<Item = GgmlType> {
    GgmlType::all().filter(|kind| !matches!(kind, GgmlType::I8 | GgmlType::I16 | GgmlType::I32 | GgmlType::I64 | GgmlType::F64))
}

fn names(types: impl Iterator<Item = GgmlType>) -> String {
    types.map(|kind| kind.name().to_ascii_lowercase()).collect::<Vec<_>>().join(", ")
}

/// A length of this shape's rows that is no whole number of blocks of this type.
fn misfit(shape: &Shape, kind: GgmlType) -> Option<usize> {
    shape.matrices().map(|(k, _)| k).find(|k| !k.is_multiple_of(kind.block_elements()))
}

/// A model as memory and arithmetic see it. Counts of bytes and of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCost {
    pub shape: &'static str,
    pub weight_type: &'static str,
    pub kv_format: KvFormat,
    pub parameters: u64,
    /// Tokens that one sequence can have.
    pub context: usize,
    /// Everything that has to be in memory: all matrices, embeddings too, norms and biases.
    pub memory_bytes: u64,
    /// Read once in every step: the layers' matrices, norms, biases.
    pub body_bytes: u64,
    /// Read in steps that want a token: the output matrix (the embeddings again, where they are tied).
    pub output_bytes: u64,
    /// One row of the embeddings, read for each token.
    pub embedding_row_bytes: u64,
    /// Parameters that each token is multiplied with.
    pub body_parameters: u64,
    /// Parameters that the last token of each row that wants a token is multiplied with.
    pub output_parameters: u64,
    /// Keys and values of one position, all layers.
    pub kv_token_bytes: u64,
    /// FLOPs of one query against one key, all layers and heads: 2 x head_dim for the score, 2 x head_dim for the sum.
    pub attention_flops: u64,
}

impl ModelCost {
    /// # Errors
    /// When there is no such weight type, or rows of this shape are no whole blocks of it.
    pub fn new(shape: &Shape, weight_type: &str, kv_format: KvFormat) -> Result<ModelCost, InvalidModel> {
        let kind = weight_types().find(|kind| kind.name().eq_ignore_ascii_case(weight_type));
        let kind = kind.ok_or_else(|| InvalidModel::WeightType { found: weight_type.to_owned() })?;
        let (unit, block_bytes) = (kind.block_elements() as u64, kind.block_bytes() as u64);
        if let Some(k) = misfit(shape, kind) {
            let fitting = names(weight_types().filter(|kind| misfit(shape, *kind).is_none()));
            return Err(InvalidModel::RowLength { shape: shape.name, k, unit: kind.block_elements(), found: kind, fitting });
        }
        let bytes = |numbers: u64| numbers / unit * block_bytes;
        let layer: u64 = shape.layer_matrices().iter().map(|(k, rows)| (k * rows) as u64).sum();
        let layers = layer * shape.layers as u64;
        let ends = (shape.embedding * shape.vocab) as u64;
        // Quantized files keep norms and biases as 32-bit floats.
        let vectors = shape.parameters() - shape.matrices().map(|(k, rows)| (k * rows) as u64).sum::<u64>();
        let vector_bytes = vectors * if unit == 1 { block_bytes } else { 4 };
        let body_bytes = bytes(layers) + vector_bytes;
        Ok(ModelCost {
            shape: shape.name,
            weight_type: kind.name(),
            kv_format,
            parameters: shape.parameters(),
            context: shape.context,
            memory_bytes: body_bytes + bytes(ends) * if shape.tied { 1 } else { 2 },
            body_bytes,
            output_bytes: bytes(ends),
            embedding_row_bytes: bytes(shape.embedding as u64),
            body_parameters: layers,
            output_parameters: ends,
            kv_token_bytes: 2 * shape.layers as u64 * kv_format.bytes(shape.kv_heads as u64, shape.head_dim as u64),
            attention_flops: 4 * (shape.layers * shape.heads * shape.head_dim) as u64,
        })
    }

    /// Bytes of one block of so many positions.
    pub fn kv_block_bytes(&self, block_size: usize) -> u64 {
        self.kv_token_bytes * block_size as u64
    }
}

/// Where a step's time goes, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepTime {
    /// Products with weights: waiting for memory or for arithmetic, whichever is longer.
    pub products: f64,
    /// Attention: likewise, row by row.
    pub attention: f64,
    /// The fixed part of each step, and of each token.
    pub overhead: f64,
}

impl StepTime {
    pub fn total(&self) -> f64 {
        self.products + self.attention + self.overhead
    }
}

/// A model on a machine: how long each batch takes.
#[derive(Clone, Debug, PartialEq)]
pub struct CostModel {
    model: ModelCost,
    /// Seconds a byte and a FLOP, efficiency included.
    byte: f64,
    flop: f64,
    step_overhead: f64,
    token_overhead: f64,
}

impl CostModel {
    /// The figures of `hardware` must be positive; overheads may be 0.
    pub fn new(model: ModelCost, hardware: &Hardware) -> CostModel {
        CostModel {
            model,
            byte: 1.0 / (hardware.bandwidth * hardware.bandwidth_efficiency),
            flop: 1.0 / (hardware.flops * hardware.flops_efficiency),
            step_overhead: hardware.step_overhead,
            token_overhead: hardware.token_overhead,
        }
    }

    pub fn model(&self) -> &ModelCost {
        &self.model
    }

    /// The longer of moving so many bytes and doing so many FLOPs.
    fn roof(&self, bytes: f64, flops: f64) -> f64 {
        (bytes * self.byte).max(flops * self.flop)
    }

    /// The time that a batch takes.
    pub fn step(&self, batch: &Batch) -> StepTime {
        let (tokens, sampled) = (batch.tokens.len() as f64, batch.num_sampled() as f64);
        let model = &self.model;
        let body_bytes = model.body_bytes as f64 + tokens * model.embedding_row_bytes as f64;
        let mut products = self.roof(body_bytes, 2.0 * tokens * model.body_parameters as f64);
        if sampled > 0.0 {
            products += self.roof(model.output_bytes as f64, 2.0 * sampled * model.output_parameters as f64);
        }
        let attention = batch.rows.iter().map(|row| self.attention(row.start as f64, row.len() as f64)).sum();
        StepTime { products, attention, overhead: self.step_overhead + tokens * self.token_overhead }
    }

    /// Of `len` tokens that have `start` before them: the past is read once for all of them, each attends to all before
    /// it and to itself.
    fn attention(&self, start: f64, len: f64) -> f64 {
        let pairs = len * start + 0.5 * len * (len + 1.0);
        let positions = start + 2.0 * len; // all read, the new ones written first
        self.roof(positions * self.model.kv_token_bytes as f64, pairs * self.model.attention_flops as f64)
    }
}

impl fmt::Display for KvFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{RequestId, Row, RowKind, UserId};
    use crate::model::shapes::SHAPES;

    fn seven(weight_type: &str) -> ModelCost {
        ModelCost::new(Shape::by_name("qwen2.5-7b").unwrap(), weight_type, KvFormat::F16).unwrap()
    }

    /// Rows of (start, tokens, whether one is sampled).
    fn batch(rows: &[(usize, usize, bool)]) -> Batch {
        let mut batch = Batch::default();
        for (at, (start, len, samples)) in rows.iter().enumerate() {
            let first = batch.tokens.len();
            batch.tokens.resize(first + len, 1);
            batch.rows.push(Row {
                id: RequestId(at as u64),
                user: UserId(0),
                start: *start,
                tokens: first..first + len,
                blocks: 0..0,
                kind: RowKind::Prefill,
                samples: *samples,
            });
        }
        batch
    }

    /// A byte and a FLOP take a second each; no overheads.
    fn unit() -> Hardware {
        Hardware {
            bandwidth: 1.0,
            flops: 1.0,
            bandwidth_efficiency: 1.0,
            flops_efficiency: 1.0,
            step_overhead: 0.0,
            token_overhead: 0.0,
            ..Hardware::by_name("h100").unwrap()
        }
    }

    #[test]
    fn bytes_are_those_of_the_published_models() {
        assert_eq!(seven("bf16").memory_bytes, 15_231_233_024);
        assert_eq!(seven("bf16").kv_token_bytes, 56 * 1024);
        assert_eq!(seven("BF16").kv_block_bytes(16), 917_504);
        assert!((4.28e9..4.30e9).contains(&(seven("q4_0").memory_bytes as f64)));
        for shape in &SHAPES {
            let cost = ModelCost::new(shape, "f16", KvFormat::F16).unwrap();
            assert_eq!(cost.memory_bytes, 2 * shape.parameters(), "{}", shape.name);
            let separate = if shape.tied { 0 } else { cost.output_bytes };
            assert_eq!(cost.body_bytes + cost.output_bytes + separate, cost.memory_bytes);
        }
        let kv = |format| ModelCost::new(&SHAPES[0], "f32", format).unwrap().kv_token_bytes;
        assert_eq!([KvFormat::F32, KvFormat::F16, KvFormat::Q8_0].map(kv), [46_080, 23_040, 12_240]);
    }

    #[test]
    fn types_that_do_not_exist_or_do_not_fit_are_refused() {
        let shape = Shape::by_name("qwen2.5-0.5b").unwrap();
        let message = |kind: &str| ModelCost::new(shape, kind, KvFormat::F16).unwrap_err().to_string();
        assert!(message("q9").contains("`q9`") && message("i8").contains("q4_0, q4_1"));
        let unfit = message("q4_k");
        assert!(unfit.contains("896") && unfit.contains("256") && unfit.contains("q8_0") && !unfit.contains("q6_k"), "{unfit}");
        assert_eq!("Q8_0".parse(), Ok(KvFormat::Q8_0));
        assert!("q4".parse::<KvFormat>().unwrap_err().to_string().contains("`q4`"));
    }

    #[test]
    fn a_lone_decode_waits_for_memory_and_a_long_prompt_for_arithmetic() {
        let model = seven("bf16");
        let on = |hardware: &Hardware, rows: &[(usize, usize, bool)]| CostModel::new(model.clone(), hardware).step(&batch(rows));
        let memory = Hardware { flops: 1e30, ..unit() };
        let lone = on(&memory, &[(99, 1, true)]);
        let read = model.body_bytes + model.output_bytes + model.embedding_row_bytes;
        assert_eq!((lone.products, lone.attention), (read as f64, (101 * model.kv_token_bytes) as f64));
        // The weights are read once, whoever shares the step.
        let eight = on(&memory, &[(99, 1, true); 8]);
        assert_eq!(eight.products - lone.products, 7.0 * model.embedding_row_bytes as f64);
        assert_eq!(eight.attention, 8.0 * lone.attention);
        // No row wants a token: the output matrix is not read.
        assert_eq!(on(&memory, &[(0, 1, false)]).products, (model.body_bytes + model.embedding_row_bytes) as f64);

        let arithmetic = Hardware { bandwidth: 1e30, ..unit() };
        let prompt = on(&arithmetic, &[(100, 50, true)]);
        assert_eq!(prompt.products, 2.0 * (50 * model.body_parameters + model.output_parameters) as f64);
        let pairs: usize = (100..150).map(|position| position + 1).sum();
        assert_eq!(prompt.attention, (pairs as u64 * model.attention_flops) as f64);
        // Cut in two, the same arithmetic.
        let parts = [(100, 20, false), (120, 30, true)].map(|row| on(&arithmetic, &[row]).total());
        assert_eq!(parts.iter().sum::<f64>(), prompt.total());
    }

    #[test]
    fn efficiency_and_overheads_count() {
        let model = seven("q4_0");
        let rows = [(10, 3, true)];
        let whole = CostModel::new(model.clone(), &unit()).step(&batch(&rows));
        let half =
            Hardware { bandwidth_efficiency: 0.5, flops_efficiency: 0.5, step_overhead: 7.0, token_overhead: 2.0, ..unit() };
        let half = CostModel::new(model, &half).step(&batch(&rows));
        assert_eq!((half.products, half.attention, half.overhead), (2.0 * whole.products, 2.0 * whole.attention, 13.0));
    }
}
