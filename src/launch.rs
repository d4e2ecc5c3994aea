//! From a name to a running engine: file, tokenizer, weights, KV memory, thread.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use candle_core::Device;

use crate::batch::Batch;
use crate::config::{DeviceChoice, EngineConfig, KvBudget, PaceChoice};
use crate::engine::{
    self, EngineHandle, EngineOptions, ForwardError, Limits, MAX_TRACE_BYTES, ModelInfo, Pace, Recording, StartError,
};
use crate::hub::{self, Choice, NANO_BYTES};
use crate::machine;
use crate::model::{GgufError, GgufFile, Llama, LlamaConfig, ModelError, ModelOptions, StepPart, TensorLlama, kv_block_bytes};
use crate::scheduler::InvalidLimits;
use crate::text::{TextModel, TokenizerData, TokenizerError};

/// Positions in a KV block.
pub const BLOCK_SIZE: usize = 16;
/// Block ids are 32 bits, and so are the numbers of positions on the tensor path.
const MAX_BLOCKS: u64 = u32::MAX as u64 / BLOCK_SIZE as u64;
/// One to read and one to write: a sequence that fills its only block could not go on.
const LEAST_BLOCKS: u64 = 2;
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
    #[error(
        "memory_utilization is {share}: of {free} bytes that are free with {model} loaded that is {bytes}, and one block of {BLOCK_SIZE} tokens takes {block}: give a larger share, or kv_memory"
    )]
    ShareTooSmall { model: String, share: f64, free: u64, bytes: u64, block: u64 },
    #[error("this system does not say how much memory is free: give kv_memory instead of memory_utilization")]
    FreeUnknown,
    #[error("--record {} is there already, and nothing is written over: give another name, or remove it", .0.display())]
    RecordExists(PathBuf),
    #[error("--record: cannot write {}: {source}", .path.display())]
    Record { path: PathBuf, source: std::io::Error },
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
///
/// # Errors
/// When the model cannot be used as it is configured, or the thread cannot be had.
pub fn launch(choice: &Choice, config: &EngineConfig, default_seats: usize, pace: Pace) -> Result<EngineHandle, LaunchError> {
    launch_recorded(choice, config, default_seats, pace, None)
}

/// The same, and records the engine to a file that must not exist yet.
///
/// # Errors
/// As [`launch`], and when there is such a file or it cannot be made.
pub fn launch_recorded(
    choice: &Choice,
    config: &EngineConfig,
    default_seats: usize,
    pace: Pace,
    record: Option<&Path>,
) -> Result<EngineHandle, LaunchError> {
    if let Some(path) = record.filter(|path| path.symlink_metadata().is_ok()) {
        return Err(LaunchError::RecordExists(path.to_owned()));
    }
    let file = open(choice)?;
    let name = choice.name();
    let shape = LlamaConfig::read(&file)?;
    let tokenizer = TokenizerData::from_gguf(&file)?;
    let text = TextModel::new(&tokenizer).map_err(|source| LaunchError::Tokenizer { file: file.name().to_owned(), source })?;
    if text.vocab() > shape.vocab {
        return Err(LaunchError::VocabMismatch { file: file.name().to_owned(), tokens: text.vocab(), vocab: shape.vocab });
    }
    let mut limits = limits(&name, &shape, config, default_seats)?;
    limits.check()?;
    let kv = KvSize { model: &name, block_bytes: block_bytes(&shape, config)?, seats: &limits };
    let loaded = load(&file, config, &kv)?;
    let num_blocks = loaded.num_blocks;
    limits.watermark = config.watermark.unwrap_or_else(|| watermark(num_blocks, limits.max_num_seqs));
    limits.check()?;
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
        capacity: loaded.capacity,
        target_itl: config.target_itl,
        block_size: BLOCK_SIZE,
        pace,
        model: info,
    };
    let recording = record.map(recording).transpose()?;
    Ok(engine::start_recorded(loaded.model, Arc::new(text), options, recording)?)
}

/// A new file for a trace, for its owner's eyes only.
fn recording(path: &Path) -> Result<Recording, LaunchError> {
    let to = create(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => LaunchError::RecordExists(path.to_owned()),
        _ => LaunchError::Record { path: path.to_owned(), source },
    })?;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let started_unix_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    Ok(Recording { to: Box::new(to), started_unix_ms, max_bytes: MAX_TRACE_BYTES })
}

fn create(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
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
    /// The KV budget, and what it can be raised to.
    num_blocks: usize,
    capacity: usize,
}

/// The weights, and then KV memory: some of what is free is known only then.
fn load(file: &GgufFile, config: &EngineConfig, kv: &KvSize<'_>) -> Result<Loaded, LaunchError> {
    let (budget, share) = match config.kv_memory {
        // In between there is the least KV memory: untouched, it takes nothing.
        KvBudget::ShareOfFree(_) => (LEAST_BLOCKS as usize, true),
        budget => (kv.blocks(budget, None)?, false),
    };
    let resized = || kv.blocks(config.kv_memory, machine::available_memory());
    let Some(device) = open_device(config.device)? else {
        let options = ModelOptions {
            threads: config.threads,
            kernels: None,
            block_size: BLOCK_SIZE,
            // Untouched memory takes nothing: a small budget can be raised while the engine runs.
            num_blocks: budget.max(kv.blocks(KvBudget::Seats, None)?),
            kv_type: config.kv_type,
        };
        let mut model = Llama::load(file, options)?;
        if share {
            model.resize_kv(resized()?)?;
        }
        return Ok(Loaded {
            types: model.types().to_owned(),
            parameters: model.parameters(),
            weight_bytes: model.weight_bytes(),
            kernels: model.kernels().to_string(),
            threads: model.threads(),
            kv_bytes_per_token: model.kv_bytes_per_token(),
            num_blocks: if share { model.num_blocks() } else { budget },
            capacity: model.num_blocks(),
            model: Box::new(model),
        });
    };
    let mut model = TensorLlama::load(file, &device, budget, BLOCK_SIZE)?;
    if share {
        model.resize_kv(resized()?)?;
    }
    Ok(Loaded {
        types: model.types().to_owned(),
        parameters: model.parameters(),
        weight_bytes: model.weight_bytes(),
        kernels: model.backend().to_owned(),
        threads: model.threads(),
        kv_bytes_per_token: model.kv_bytes_per_token(),
        num_blocks: model.num_blocks(),
        capacity: model.num_blocks(),
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

/// Limits for a model of this shape.
fn limits(name: &str, shape: &LlamaConfig, config: &EngineConfig, default_seats: usize) -> Result<Limits, LaunchError> {
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
    Ok(Limits {
        max_num_seqs,
        max_num_batched_tokens,
        prefill_chunk: config.prefill_chunk.unwrap_or(chunk),
        max_model_len,
        max_waiting: config.max_waiting,
        watermark: 0,
        policy: config.policy,
        mode: config.mode,
        prefix_cache: config.prefix_cache,
    })
}

/// Bytes of one KV block, all layers, as they will lie in memory.
fn block_bytes(shape: &LlamaConfig, config: &EngineConfig) -> Result<u64, ModelError> {
    Ok(match config.device {
        DeviceChoice::Cpu => kv_block_bytes(shape, config.kv_type, BLOCK_SIZE)?,
        _ => TensorLlama::kv_bytes_per_token_of(shape) * BLOCK_SIZE,
    } as u64)
}

/// What the number of KV blocks depends on.
struct KvSize<'a> {
    model: &'a str,
    /// Bytes of one block, all layers.
    block_bytes: u64,
    seats: &'a Limits,
}

impl KvSize<'_> {
    /// The number of blocks that a budget comes to. `free`: bytes of memory that are free, the weights being loaded; only a
    /// share needs it.
    ///
    /// | | blocks, rounded down, 2 to 268,435,455 |
    /// |---|---|
    /// | nothing said | the least of (seats x blocks of the longest conversation) and 512 MiB / block |
    /// | bytes | bytes / block |
    /// | share | share x free / block |
    fn blocks(&self, budget: KvBudget, free: Option<u64>) -> Result<usize, LaunchError> {
        let (model, block) = (self.model.to_owned(), self.block_bytes);
        let blocks = match budget {
            KvBudget::Seats => {
                let longest = self.seats.max_model_len.div_ceil(BLOCK_SIZE) as u64;
                let whole = longest.saturating_mul(self.seats.max_num_seqs as u64);
                whole.min(DEFAULT_KV_BYTES / block).max(LEAST_BLOCKS)
            }
            KvBudget::Bytes(bytes) if bytes / block < LEAST_BLOCKS => {
                return Err(LaunchError::KvTooSmall { model, bytes, block });
            }
            KvBudget::Bytes(bytes) => bytes / block,
            KvBudget::ShareOfFree(share) => {
                let free = free.ok_or(LaunchError::FreeUnknown)?;
                let bytes = (share * free as f64) as u64;
                if bytes / block < LEAST_BLOCKS {
                    return Err(LaunchError::ShareTooSmall { model, share, free, bytes, block });
                }
                bytes / block
            }
        };
        Ok(usize::try_from(blocks.min(MAX_BLOCKS)).unwrap_or(usize::MAX))
    }
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

    fn times(&self) -> Option<engine::PassTimes> {
        let times = Llama::times(self);
        let sum = |parts: &[StepPart]| parts.iter().map(|part| times.of(*part)).sum();
        Some(engine::PassTimes {
            attention: sum(&[StepPart::Rotate, StepPart::Attention]),
            products: sum(&[StepPart::Qkv, StepPart::Output, StepPart::GateUp, StepPart::Down, StepPart::Logits]),
        })
    }
}

impl engine::Model for TensorLlama {
    fn forward(&mut self, batch: &Batch) -> Result<&[f32], ForwardError> {
        TensorLlama::forward(self, batch).map_err(|error| ForwardError(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RawConfig;
    use crate::model::KvType;

    fn limits() -> Limits {
        let config = RawConfig::default().check().unwrap().engine;
        let shape = LlamaConfig::read(&open(&Choice::Nano).unwrap()).unwrap();
        super::limits("nano", &shape, &config, 8).unwrap()
    }

    fn size(limits: &Limits) -> KvSize<'_> {
        KvSize { model: "nano", block_bytes: 24 << 10, seats: limits }
    }

    #[test]
    fn a_budget_is_a_number_of_blocks() {
        let limits = limits();
        let kv = size(&limits);
        let whole = limits.max_model_len.div_ceil(BLOCK_SIZE) * 8;
        assert_eq!(kv.blocks(KvBudget::Seats, None).unwrap(), whole);
        assert_eq!(kv.blocks(KvBudget::Bytes(100 << 10), None).unwrap(), 4);
        // Nine tenths of ten blocks and a half; more than all seats can use when there is more.
        assert_eq!(kv.blocks(KvBudget::ShareOfFree(0.9), Some(252 << 10)).unwrap(), 9);
        assert!(kv.blocks(KvBudget::ShareOfFree(1.0), Some(1 << 40)).unwrap() > whole);
        assert_eq!(kv.blocks(KvBudget::ShareOfFree(1.0), Some(u64::MAX)).unwrap() as u64, MAX_BLOCKS);
    }

    #[test]
    fn a_budget_of_less_than_two_blocks_is_refused_with_its_numbers() {
        let limits = limits();
        let refused = |budget, free| size(&limits).blocks(budget, free).unwrap_err().to_string();
        let bytes = refused(KvBudget::Bytes(48 * 1024 - 1), None);
        assert!(["kv_memory is 49151 bytes", "takes 24576"].iter().all(|words| bytes.contains(words)), "{bytes}");
        let share = refused(KvBudget::ShareOfFree(0.25), Some(100_000));
        let words = ["memory_utilization is 0.25", "100000", "25000", "24576"];
        assert!(words.iter().all(|words| share.contains(words)), "{share}");
        assert!(refused(KvBudget::ShareOfFree(0.25), None).contains("give kv_memory"));
    }

    #[test]
    fn a_block_counts_what_it_takes() {
        let file = open(&Choice::Nano).unwrap();
        let shape = LlamaConfig::read(&file).unwrap();
        for kv_type in KvType::ALL {
            let config = EngineConfig { kv_type, ..RawConfig::default().check().unwrap().engine };
            let options = ModelOptions { threads: 1, kernels: None, block_size: BLOCK_SIZE, num_blocks: 2, kv_type };
            let mut model = Llama::load(&file, options).unwrap();
            assert_eq!(block_bytes(&shape, &config).unwrap(), (model.kv_bytes_per_token() * BLOCK_SIZE) as u64, "{kv_type}");
            model.resize_kv(5).unwrap();
            assert_eq!(model.num_blocks(), 5);
        }
        let config = EngineConfig { device: DeviceChoice::Candle, ..RawConfig::default().check().unwrap().engine };
        let model = TensorLlama::load(&file, &Device::Cpu, 2, BLOCK_SIZE).unwrap();
        assert_eq!(block_bytes(&shape, &config).unwrap(), (model.kv_bytes_per_token() * BLOCK_SIZE) as u64);
    }
}
