//! From a name to a running engine: file, tokenizer, weights, KV memory, thread.

use std::sync::Arc;

use candle_core::Device;

use crate::batch::Batch;
use crate::config::{DeviceChoice, EngineConfig, PaceChoice};
use crate::engine::{self, EngineHandle, EngineOptions, ForwardError, Limits, ModelInfo, Pace, StartError};
use crate::hub::{self, Choice, NANO_BYTES};
use crate::model::{GgufError, GgufFile, KvType, Llama, LlamaConfig, ModelError, ModelOptions, TensorLlama};
use crate::scheduler::InvalidLimits;
use crate::text::{TextModel, TokenizerData, TokenizerError};

/// Positions in a KV block.
pub const BLOCK_SIZE: usize = 16;
/// Block ids are 32 bits.
const MAX_BLOCKS: u64 = u32::MAX as u64;
/// Tokens of a prompt in one step at most, when nobody says otherwise.
const DEFAULT_CHUNK: usize = 64;
/// KV memory at most, when nobody says otherwise.
const DEFAULT_KV_BYTES: u64 = 512 << 20;
/// Steps a second of the smallest model on screen under `pace = "auto"`.
pub const WATCHABLE: f64 = 15.0;

/// Why an engine cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("{0} is not in the cache: fetch it with `batchroom models pull {0}`")]
    NotFetched(&'static str),
    #[error("{source}; `batchroom models pull {name}` fetches it again")]
    Damaged { name: &'static str, source: hub::VerifyError },
    #[error(transparent)]
    Gguf(#[from] GgufError),
    #[error("{file}: {source}")]
    Tokenizer { file: String, source: TokenizerError },
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Limits(#[from] InvalidLimits),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("device {0} is not in this build: build it with `cargo build --release --features {0}`, or use --device cpu")]
    NotBuilt(&'static str),
    #[error("the {name} device cannot be used ({source}): check its driver, or use --device cpu")]
    Device { name: &'static str, source: candle_core::Error },
    #[error("{file}: the tokenizer has {tokens} tokens and the model {vocab}")]
    VocabMismatch { file: String, tokens: usize, vocab: usize },
    #[error("max_model_len is {asked}, and the context of {model} is {context} tokens")]
    ContextTooLong { model: String, asked: usize, context: usize },
    #[error(
        "kv_memory is {bytes} bytes, and one block of {BLOCK_SIZE} tokens of {model} takes {block}: give at least two blocks"
    )]
    KvTooSmall { model: String, bytes: u64, block: u64 },
}

/// The model to open when none is named: smollm2 once it is in the cache, else nano.
pub fn default_choice() -> Choice {
    match hub::cached(&hub::SMOLLM2) {
        Some(_) => Choice::Published(&hub::SMOLLM2),
        None => Choice::Nano,
    }
}

/// What `pace` comes to for a model.
pub fn pace_for(choice: &Choice, pace: PaceChoice) -> Pace {
    match (pace, choice) {
        (PaceChoice::Auto, Choice::Nano) => Pace::StepsPerSecond(WATCHABLE),
        (PaceChoice::Auto | PaceChoice::Full, _) => Pace::Full,
        (PaceChoice::StepsPerSecond(steps), _) => Pace::StepsPerSecond(steps),
    }
}

/// The file of a model; a published one is held against its sum.
///
/// # Errors
/// When it is not there, damaged, or no GGUF file.
pub fn open(choice: &Choice) -> Result<GgufFile, LaunchError> {
    match choice {
        Choice::Nano => Ok(GgufFile::from_static("batchroom-nano.gguf (built in)", NANO_BYTES)?),
        Choice::Published(model) => {
            let path = hub::cached(model).ok_or(LaunchError::NotFetched(model.name))?;
            hub::verify(model, &path, |_| ()).map_err(|source| LaunchError::Damaged { name: model.name, source })?;
            Ok(GgufFile::open(&path)?)
        }
        Choice::Path(path) => Ok(GgufFile::open(path)?),
    }
}

/// Loads a model and starts its engine. Blocks while it loads.
pub fn launch(choice: &Choice, config: &EngineConfig, default_seats: usize, pace: Pace) -> Result<EngineHandle, LaunchError> {
    let file = open(choice)?;
    let name = choice.name();
    let shape = LlamaConfig::read(&file)?;
    let tokenizer = TokenizerData::from_gguf(&file)?;
    let text = TextModel::new(&tokenizer).map_err(|source| LaunchError::Tokenizer { file: file.name().to_owned(), source })?;
    if text.vocab() > shape.vocab {
        return Err(LaunchError::VocabMismatch { file: file.name().to_owned(), tokens: text.vocab(), vocab: shape.vocab });
    }
    let (mut limits, num_blocks) = size(&name, &shape, config, default_seats)?;
    limits.watermark = config.watermark.unwrap_or_else(|| watermark(num_blocks, limits.max_num_seqs));
    limits.check()?;
    let loaded = load(&file, config, num_blocks)?;
    let info = ModelInfo {
        title: title(choice, &shape),
        name,
        vocab: shape.vocab,
        layers: shape.layers,
        context: shape.context,
        types: loaded.types,
        parameters: loaded.parameters,
        weight_bytes: loaded.weight_bytes as u64,
        kernels: loaded.kernels,
        threads: loaded.threads,
        kv_bytes_per_token: loaded.kv_bytes_per_token,
    };
    tracing::info!(
        model = info.title,
        types = info.types,
        kernels = info.kernels,
        threads = info.threads,
        num_blocks,
        ?limits,
        ?pace,
        "engine starts"
    );
    let options = EngineOptions {
        limits,
        num_blocks,
        capacity: num_blocks,
        target_itl: config.target_itl,
        block_size: BLOCK_SIZE,
        pace,
        model: info,
    };
    Ok(engine::start(loaded.model, Arc::new(text), options)?)
}

/// A model in memory, and what it says of itself.
struct Loaded {
    model: Box<dyn engine::Model>,
    types: String,
    parameters: u64,
    weight_bytes: usize,
    kernels: String,
    threads: usize,
    kv_bytes_per_token: usize,
}

fn load(file: &GgufFile, config: &EngineConfig, num_blocks: usize) -> Result<Loaded, LaunchError> {
    let Some(device) = open_device(config.device)? else {
        let options =
            ModelOptions { threads: config.threads, kernels: None, block_size: BLOCK_SIZE, num_blocks, kv_type: config.kv_type };
        let model = Llama::load(file, options)?;
        return Ok(Loaded {
            types: model.types().to_owned(),
            parameters: model.parameters(),
            weight_bytes: model.weight_bytes(),
            kernels: model.kernels().to_string(),
            threads: model.threads(),
            kv_bytes_per_token: model.kv_bytes_per_token(),
            model: Box::new(model),
        });
    };
    let model = TensorLlama::load(file, &device, num_blocks, BLOCK_SIZE)?;
    Ok(Loaded {
        types: model.types().to_owned(),
        parameters: model.parameters(),
        weight_bytes: model.weight_bytes(),
        kernels: model.backend().to_owned(),
        threads: model.threads(),
        kv_bytes_per_token: model.kv_bytes_per_token(),
        model: Box::new(model),
    })
}

/// The device for tensor operations; none for our own kernels.
fn open_device(choice: DeviceChoice) -> Result<Option<Device>, LaunchError> {
    match choice {
        DeviceChoice::Cpu => Ok(None),
        DeviceChoice::Candle => Ok(Some(Device::Cpu)),
        DeviceChoice::Cuda => first_gpu("cuda", cfg!(feature = "cuda"), Device::new_cuda).map(Some),
        DeviceChoice::Metal => first_gpu("metal", cfg!(feature = "metal"), Device::new_metal).map(Some),
    }
}

fn first_gpu(
    name: &'static str,
    built: bool,
    open: impl Fn(usize) -> candle_core::Result<Device>,
) -> Result<Device, LaunchError> {
    if !built {
        return Err(LaunchError::NotBuilt(name));
    }
    open(0).map_err(|source| LaunchError::Device { name, source })
}

/// Limits and number of KV blocks for a model of this shape.
fn size(name: &str, shape: &LlamaConfig, config: &EngineConfig, default_seats: usize) -> Result<(Limits, usize), LaunchError> {
    let max_model_len = match config.max_model_len {
        Some(asked) if asked > shape.context => {
            return Err(LaunchError::ContextTooLong { model: name.to_owned(), asked, context: shape.context });
        }
        Some(asked) => asked,
        None => shape.context,
    };
    let max_num_seqs = config.max_num_seqs.unwrap_or(default_seats);
    // A step has room for every seat's decode, whatever was asked for.
    let max_num_batched_tokens = config.max_num_batched_tokens.unwrap_or(256.max(max_num_seqs));
    // With a target for the gaps it is that which bounds a chunk.
    let chunk = if config.target_itl.is_some() { max_num_batched_tokens } else { DEFAULT_CHUNK };
    let limits = Limits {
        max_num_seqs,
        max_num_batched_tokens,
        prefill_chunk: config.prefill_chunk.unwrap_or(chunk),
        max_model_len,
        max_waiting: config.max_waiting,
        watermark: 0,
        policy: config.policy,
        mode: config.mode,
        prefix_cache: config.prefix_cache,
    };
    let number = if config.device == DeviceChoice::Cpu { config.kv_type } else { KvType::F32 }.bytes() as u64;
    // Keys and values of every layer: 2 x layers x kv_heads x head_dim numbers a token.
    let token_bytes = 2 * shape.layers as u64 * shape.kv_heads as u64 * shape.head_dim as u64 * number;
    let block_bytes = token_bytes * BLOCK_SIZE as u64;
    let whole = (max_model_len.div_ceil(BLOCK_SIZE) as u64).saturating_mul(max_num_seqs as u64).max(2);
    let blocks = match config.kv_memory {
        Some(bytes) => bytes / block_bytes,
        None => whole.min((DEFAULT_KV_BYTES / block_bytes).max(2)),
    };
    if blocks < 2 {
        let bytes = config.kv_memory.unwrap_or(DEFAULT_KV_BYTES);
        return Err(LaunchError::KvTooSmall { model: name.to_owned(), bytes, block: block_bytes });
    }
    Ok((limits, usize::try_from(blocks.min(MAX_BLOCKS)).unwrap_or(usize::MAX)))
}

/// A block for every seat, but never more than an eighth of a small pool.
fn watermark(num_blocks: usize, seats: usize) -> usize {
    seats.min(num_blocks / 8)
}

/// What the file calls itself; the weight types are shown beside it.
pub fn title(choice: &Choice, shape: &LlamaConfig) -> String {
    match choice {
        Choice::Published(published) => published.model.to_owned(),
        Choice::Nano | Choice::Path(_) => shape.name.clone().unwrap_or_else(|| choice.name()),
    }
}

impl engine::Model for Llama {
    fn forward(&mut self, batch: &Batch) -> Result<&[f32], ForwardError> {
        Llama::forward(self, batch).map_err(|error| ForwardError(error.to_string()))
    }
}

impl engine::Model for TensorLlama {
    fn forward(&mut self, batch: &Batch) -> Result<&[f32], ForwardError> {
        TensorLlama::forward(self, batch).map_err(|error| ForwardError(error.to_string()))
    }
}
