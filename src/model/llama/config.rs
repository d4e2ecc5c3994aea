//! What a Llama's metadata says about its shape, checked.

use super::super::error::ModelError;
use super::super::gguf::GgufFile;

/// The shape of a model of the Llama family.
#[derive(Clone, Debug, PartialEq)]
pub struct LlamaConfig {
    /// The name that the file gives itself.
    pub name: Option<String>,
    pub layers: usize,
    /// Width of the residual stream.
    pub embedding: usize,
    pub feed_forward: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Leading dimensions of a head that are rotated.
    pub rope_dim: usize,
    pub rope_base: f32,
    /// Positions are divided by this (1 without linear scaling).
    pub rope_divisor: f32,
    pub rms_eps: f32,
    /// The longest context that the model was made for, in tokens.
    pub context: usize,
    pub vocab: usize,
}

const ARCHITECTURE: &str = "llama";

impl LlamaConfig {
    /// Reads and checks the metadata.
    ///
    /// # Errors
    /// When the architecture is another, a value is missing, or the values do not make a model.
    pub fn read(file: &GgufFile) -> Result<LlamaConfig, ModelError> {
        let meta = file.metadata();
        let architecture = meta.require_str("general.architecture")?;
        if architecture != ARCHITECTURE {
            let found = architecture.to_owned();
            return Err(ModelError::UnsupportedArchitecture { file: file.name().into(), found });
        }
        let size = |key: &str| meta.require_u32(&format!("{ARCHITECTURE}.{key}")).map(|value| value as usize);
        let size_or = |key: &str, default: usize| -> Result<usize, ModelError> {
            Ok(meta.get_u32(&format!("{ARCHITECTURE}.{key}"))?.map_or(default, |value| value as usize))
        };
        let number_or = |key: &str, default: f32| -> Result<f32, ModelError> {
            Ok(meta.get_f32(&format!("{ARCHITECTURE}.{key}"))?.unwrap_or(default))
        };
        let (embedding, heads) = (size("embedding_length")?, size("attention.head_count")?);
        let head_dim = size_or("attention.key_length", embedding.checked_div(heads).unwrap_or(0))?;
        let config = LlamaConfig {
            name: meta.get_str("general.name")?.map(str::to_owned),
            layers: size("block_count")?,
            embedding,
            feed_forward: size("feed_forward_length")?,
            heads,
            kv_heads: size_or("attention.head_count_kv", heads)?,
            head_dim,
            rope_dim: size_or("rope.dimension_count", head_dim)?,
            rope_base: number_or("rope.freq_base", 10_000.0)?,
            rope_divisor: rope_divisor(file)?,
            rms_eps: meta.require_f32(&format!("{ARCHITECTURE}.attention.layer_norm_rms_epsilon"))?,
            context: size("context_length")?,
            vocab: file.tensor("token_embd.weight").map_or(0, |tensor| tensor.rows()),
        };
        config.check(file, size_or("attention.value_length", head_dim)?, size_or("expert_count", 0)?)?;
        Ok(config)
    }

    fn check(&self, file: &GgufFile, value_dim: usize, experts: usize) -> Result<(), ModelError> {
        let in_range = |what: &str, value: usize, most: usize| match value {
            0 => Err(bad(file, format!("{what} is 0"))),
            _ if value > most => Err(bad(file, format!("{what} is {value}, and {most} is the most"))),
            _ => Ok(()),
        };
        in_range("the number of layers", self.layers, 1024)?;
        in_range("the embedding length", self.embedding, 1 << 17)?;
        in_range("the feed-forward length", self.feed_forward, 1 << 20)?;
        in_range("the number of heads", self.heads, 1024)?;
        in_range("the number of KV heads", self.kv_heads, self.heads)?;
        in_range("the head dimension", self.head_dim, 1024)?;
        in_range("the context length", self.context, 1 << 24)?;
        let rules = [
            (self.heads.is_multiple_of(self.kv_heads), "the number of heads is no multiple of the number of KV heads"),
            (
                self.rope_dim.is_multiple_of(2) && self.rope_dim <= self.head_dim,
                "the rotated dimensions are odd or more than a head has",
            ),
            (self.rms_eps.is_finite() && self.rms_eps >= 0.0, "the epsilon of the norms is no number from 0"),
            (self.rope_base.is_finite() && self.rope_base > 0.0, "the base of the rotation is no positive number"),
            (value_dim == self.head_dim, "values and keys have different lengths, which is not supported"),
            (experts == 0, "it is a mixture of experts, which is not supported"),
        ];
        match rules.into_iter().find(|(kept, _)| !kept) {
            Some((_, broken)) => Err(bad(file, broken.to_owned())),
            None => Ok(()),
        }
    }
}

/// The factor of linear position scaling. Other ways of scaling (but for `rope_freqs.weight`) are refused.
fn rope_divisor(file: &GgufFile) -> Result<f32, ModelError> {
    let meta = file.metadata();
    let kind = meta.get_str("llama.rope.scaling.type")?.unwrap_or("none");
    let factor = match meta.get_f32("llama.rope.scaling.factor")? {
        Some(factor) => factor,
        None => meta.get_f32("llama.rope.scale_linear")?.unwrap_or(1.0),
    };
    match kind {
        "none" => Ok(1.0),
        "linear" if factor.is_finite() && factor > 0.0 => Ok(factor),
        "linear" => Err(bad(file, format!("the factor of its position scaling is {factor}"))),
        other => Err(bad(file, format!("position scaling of type \"{other}\" is not supported"))),
    }
}

pub(super) fn bad(file: &GgufFile, what: String) -> ModelError {
    ModelError::BadConfig { file: file.name().into(), what }
}
