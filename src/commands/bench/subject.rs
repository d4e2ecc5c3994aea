//! What is measured: a model file, or weights drawn at random. Known before anything is loaded.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

use super::measure::{MAX_USERS, PREFILL_BATCH, Sweep};
use super::report::ModelFigures;
use super::text::bytes;
use crate::hub::{Choice, NANO_BYTES};
use crate::launch::{self, BLOCK_SIZE};
use crate::model::shapes::Shape;
use crate::model::{GgufFile, KvType, Llama, LlamaConfig, ModelOptions, Synthetic, kv_block_bytes, parse_type};

/// The seed of synthetic weights: the same weights in every run.
const SEED: u64 = 1;

pub enum Subject {
    File { choice: Choice, file: GgufFile, config: LlamaConfig },
    Synthetic { model: Synthetic, config: LlamaConfig },
}

impl Subject {
    pub fn open(choice: Choice) -> anyhow::Result<Subject> {
        let file = launch::open(&choice)?;
        let config = LlamaConfig::read(&file)?;
        Ok(Subject::File { choice, file, config })
    }

    pub fn synthetic(shape: &str, weight_type: Option<&str>) -> anyhow::Result<Subject> {
        let shape = Shape::by_name(shape)?;
        let model = Synthetic::new(shape, parse_type(weight_type.unwrap_or("q4_0"))?, SEED)?;
        Ok(Subject::Synthetic { model, config: shape.config() })
    }

    pub fn name(&self) -> String {
        match self {
            Subject::File { choice, config, .. } => launch::title(choice, config),
            Subject::Synthetic { model, .. } => format!("synthetic {}", model.shape().name),
        }
    }

    pub fn config(&self) -> &LlamaConfig {
        match self {
            Subject::File { config, .. } | Subject::Synthetic { config, .. } => config,
        }
    }

    /// # Errors
    /// When weights, KV memory and a step's numbers are more than `available` bytes. What is not known fits.
    pub fn check_memory(&self, sweep: &Sweep, kv_type: KvType, available: Option<u64>) -> anyhow::Result<()> {
        let Some(available) = available else { return Ok(()) };
        let weights = match self {
            // Repacked, a matrix is as large as in its file (to within a few percent).
            Subject::File { file, .. } => file.tensors().iter().map(|tensor| tensor.range.len()).sum(),
            Subject::Synthetic { model, .. } => model.memory_bytes()?,
        };
        let kv = (sweep.blocks() as u64).saturating_mul(kv_block_bytes(self.config(), kv_type, BLOCK_SIZE)? as u64);
        let step = step_bytes(self.config(), sweep);
        let all = (weights as u64).saturating_add(kv).saturating_add(step);
        if all <= available {
            return Ok(());
        }
        let (users, positions) = (sweep.most_users(), sweep.prompt_tokens + sweep.new_tokens);
        bail!(
            "{} needs {} of memory ({} of weights, {} of keys and values for {users} users of {positions} tokens, {} for a step), and {} are available: ask for fewer users or tokens, or for a smaller shape or type",
            self.name(),
            bytes(all as f64),
            bytes(weights as f64),
            bytes(kv as f64),
            bytes(step as f64),
            bytes(available as f64)
        )
    }

    /// # Errors
    /// When the model cannot be loaded.
    pub fn load(&self, sweep: &Sweep, threads: usize, kv_type: KvType) -> anyhow::Result<Llama> {
        let num_blocks = sweep.blocks();
        let options = ModelOptions { threads, kernels: None, block_size: BLOCK_SIZE, num_blocks, kv_type };
        Ok(match self {
            Subject::File { file, .. } => Llama::load(file, options)?,
            Subject::Synthetic { model, .. } => Llama::synthetic(model, options)?,
        })
    }

    pub fn figures(&self, model: &Llama) -> anyhow::Result<ModelFigures> {
        let (file, sha256) = match self {
            Subject::File { choice: Choice::Nano, .. } => {
                (Some("batchroom-nano.gguf (built in)".to_owned()), Some(hex(&Sha256::digest(NANO_BYTES))))
            }
            // `launch::open` has just held the file against it.
            Subject::File { choice: Choice::Published(published), .. } => {
                (Some(published.file.to_owned()), Some(published.sha256.to_owned()))
            }
            Subject::File { choice: Choice::Path(path), .. } => (Some(path.display().to_string()), Some(sha256_of(path)?)),
            Subject::Synthetic { .. } => (None, None),
        };
        Ok(ModelFigures {
            name: self.name(),
            file,
            sha256,
            parameters: model.parameters(),
            weight_bytes: model.weight_bytes() as u64,
            types: model.types().to_owned(),
        })
    }
}

/// Bytes that the numbers of one forward pass take at most, roughly: activations in two forms, logits.
fn step_bytes(config: &LlamaConfig, sweep: &Sweep) -> u64 {
    let users = sweep.most_users().min(MAX_USERS) as u64;
    let tokens = users.max(PREFILL_BATCH as u64);
    let heads = (2 * config.heads + 2 * config.kv_heads) * config.head_dim;
    let floats = 3 * config.embedding + heads + 4 * config.feed_forward;
    (tokens * floats as u64 + users * config.vocab as u64).saturating_mul(4)
}

fn sha256_of(path: &Path) -> anyhow::Result<String> {
    let fault = || format!("cannot read {}", path.display());
    let mut file = std::fs::File::open(path).with_context(fault)?;
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).with_context(fault)? {
            0 => return Ok(hex(&sum.finalize())),
            count => sum.update(&buffer[..count]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_both_figures() {
        let sweep = Sweep::new(&[1, 16], 128, 64).unwrap();
        let seven = Subject::synthetic("qwen2.5-7b", Some("q4_0")).unwrap();
        seven.check_memory(&sweep, KvType::F16, None).unwrap();
        seven.check_memory(&sweep, KvType::F16, Some(8_000_000_000)).unwrap();
        let message = seven.check_memory(&sweep, KvType::F16, Some(4_000_000_000)).unwrap_err().to_string();
        for part in ["synthetic qwen2.5-7b", "4.3 GB of weights", "16 users of 192 tokens", "4.0 GB are available"] {
            assert!(message.contains(part), "no {part:?} in {message}");
        }
    }

    #[test]
    fn the_built_in_model_is_known_by_its_sum() {
        let sweep = Sweep::new(&[1], 8, 4).unwrap();
        let nano = Subject::open(Choice::Nano).unwrap();
        let figures = nano.figures(&nano.load(&sweep, 1, KvType::F16).unwrap()).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), NANO_BYTES).unwrap();
        assert_eq!(figures.sha256.unwrap(), sha256_of(file.path()).unwrap());
        assert!(figures.parameters > figures.weight_bytes / 2 && figures.types.starts_with("Q8_0"));
    }
}
