//! Options: what was written (flags and `config.toml`), checked once into what is then trusted.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::model::kernels::KvType;
use crate::presets::{Preset, RawPreset};
use crate::sampling::SamplingParams;
use crate::scheduler::{Mode, Policy};

mod check;
mod mistakes;
mod screen;

pub(crate) use check::{parse_batching, parse_policy, parse_size, parse_time};
pub(crate) use mistakes::option_of;
pub(crate) use screen::parse_pause;

pub use mistakes::{ConfigError, Mistake};
pub use screen::{KeyNames, PaceChoice, ScreenConfig, ThemeChoice};

/// Every option, as written. A flag and a key of `config.toml` have the same name (`--kv-memory`, `kv_memory`);
/// the flag wins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct RawConfig {
    /// Model: nano, smollm2, or the path of a GGUF file [default: smollm2 if it has been fetched, else nano]
    #[arg(long, short, global = true, value_name = "NAME|PATH", help_heading = "Model and engine")]
    pub model: Option<String>,
    /// Where to compute: cpu (own kernels), candle (tensor operations on the CPU, slow, for comparison), cuda or metal
    /// (in builds that have them) [default: cpu]
    #[arg(long, global = true, value_name = "DEVICE", help_heading = "Model and engine")]
    pub device: Option<String>,
    /// Compute threads, with device cpu [default: physical cores]
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "N", help_heading = "Model and engine")]
    pub threads: Option<usize>,
    /// KV memory, for instance 512MiB [default: enough for every seat's whole context, at most 512MiB]
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "SIZE", help_heading = "Model and engine")]
    #[serde(default, deserialize_with = "text_or_number")]
    pub kv_memory: Option<String>,
    /// KV memory as a share, above 0 and up to 1, of the memory that is free once the weights are loaded; instead of
    /// kv_memory
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "F", help_heading = "Model and engine")]
    pub memory_utilization: Option<f64>,
    /// What keys and values are kept as, with device cpu: f16, q8_0 for about half the memory, or f32 for twice
    /// [default: f16]
    #[arg(long, global = true, value_name = "TYPE", help_heading = "Model and engine")]
    pub kv_type: Option<String>,
    /// Sequences in the batch at once at most [default: 8; ask: 16]
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "N", help_heading = "Model and engine")]
    pub max_num_seqs: Option<usize>,
    /// Tokens computed in one step at most [default: 256]
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "N", help_heading = "Model and engine")]
    pub max_num_batched_tokens: Option<usize>,
    /// Tokens of one prompt computed in one step at most [default: 64]
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "N", help_heading = "Model and engine")]
    pub prefill_chunk: Option<usize>,
    /// Tokens of one conversation at most [default: the model's context]
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "N", help_heading = "Model and engine")]
    pub max_model_len: Option<usize>,
    /// Requests in the waiting queue at most [default: 64]
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "N", help_heading = "Model and engine")]
    pub max_waiting: Option<usize>,

    /// Who is let in first: fcfs, fair (by user: who was served the fewest tokens) or priority [default: fcfs]
    #[arg(long, global = true, value_name = "POLICY", help_heading = "Model and engine")]
    pub policy: Option<String>,
    /// When a freed seat is given away: continuous (at the next step) or static (when the whole group is done)
    /// [default: continuous]
    #[arg(long, global = true, value_name = "MODE", help_heading = "Model and engine")]
    pub batching: Option<String>,
    /// Keep what was computed of prompts and answers for whoever begins the same: true or false [default: true]
    #[arg(long, global = true, value_name = "BOOL", help_heading = "Model and engine")]
    pub prefix_cache: Option<bool>,
    /// The longest that a step is to take while somebody decodes, for instance 25ms: prompts get what is left of it, as
    /// measured; prefill_chunk then bounds them only when it is given [default: no such aim]
    #[arg(long, global = true, value_name = "TIME", help_heading = "Model and engine")]
    #[serde(default, deserialize_with = "text_or_number")]
    pub target_itl: Option<String>,
    /// Blocks kept free for running answers when a prompt asks to come in [default: one a seat, at most an eighth]
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "N", help_heading = "Model and engine")]
    pub watermark: Option<usize>,

    /// Record the engine to this file, for `batchroom replay`; it must not exist yet, and contains prompts and answers
    #[arg(long, global = true, value_name = "FILE", help_heading = "Model and engine")]
    pub record: Option<PathBuf>,

    /// System prompt of every conversation
    #[arg(long, global = true, value_name = "TEXT", help_heading = "Answers")]
    pub system: Option<String>,
    /// 0 is exactly greedy [default: 0.7]
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "T", help_heading = "Answers")]
    pub temperature: Option<f32>,
    /// Keep the k likeliest tokens; 0 keeps all [default: 40]
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "K", help_heading = "Answers")]
    pub top_k: Option<usize>,
    /// Keep the likeliest tokens that add up to this probability [default: 0.95]
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "P", help_heading = "Answers")]
    pub top_p: Option<f32>,
    /// Keep tokens at least this fraction as likely as the likeliest [default: 0.05]
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "P", help_heading = "Answers")]
    pub min_p: Option<f32>,
    /// Push down tokens that are there already; 1 changes nothing [default: 1.1]
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "R", help_heading = "Answers")]
    pub repetition_penalty: Option<f32>,
    /// Tokens of one answer at most [default: 512]
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "N", help_heading = "Answers")]
    pub max_tokens: Option<usize>,
    /// Seed of the draws [default: a new one for each answer]
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "N", help_heading = "Answers")]
    pub seed: Option<u64>,
    /// An answer ends where this text would appear (may be given several times)
    #[arg(long, global = true, value_name = "TEXT", help_heading = "Answers")]
    pub stop: Option<Vec<String>>,

    /// Chat panes at the start, 1 to 16 [default: 4]
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Screen")]
    pub panes: Option<usize>,
    /// Names of the panes, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = "Screen")]
    pub names: Option<Vec<String>>,
    /// Steps a second on screen: auto, full or a number [default: auto: 15 for nano, full for the rest]
    #[arg(long, allow_negative_numbers = true, value_name = "PACE", help_heading = "Screen")]
    #[serde(default, deserialize_with = "text_or_number")]
    pub pace: Option<String>,
    /// Frames a second at most [default: 30]
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Screen")]
    pub fps: Option<u32>,
    /// Colours: auto, dark or light (what is behind the text), contrast, 16 (colours of the terminal's own), mono
    /// [default: auto; NO_COLOR means mono]
    #[arg(long, global = true, value_name = "THEME", help_heading = "Screen")]
    pub theme: Option<String>,
    /// Language of the screen: en or vi [default: of the locale]
    #[arg(long, global = true, value_name = "LANG", help_heading = "Screen")]
    pub lang: Option<String>,
    /// Draw with ASCII signs alone (letters of names and texts stay): true or false [default: false]
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Screen")]
    pub ascii: Option<bool>,
    /// Watch only: nothing can be sent or changed: true or false [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Screen")]
    pub readonly: Option<bool>,
    /// Let the mouse choose panes and scroll; selecting text then needs Shift: true or false [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Screen")]
    pub mouse: Option<bool>,
    /// Bots at the start, 0 to 64: people made of program, who chat by themselves [default: 0]
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Screen")]
    pub bots: Option<usize>,
    /// How long a bot thinks before its next prompt, in the mean, for instance 2s [default: 2s]
    #[arg(long, value_name = "TIME", help_heading = "Screen")]
    pub bots_pause: Option<String>,
    /// What bots send: chat, documents or agents [default: chat]
    #[arg(long, value_name = "LOAD", help_heading = "Screen")]
    pub bots_load: Option<String>,
    /// Keys by the name of what they do (in the file only).
    #[arg(skip)]
    pub keys: Option<BTreeMap<String, KeyNames>>,
    /// Keep conversations and open the last ones again: true or false [default: true]
    #[arg(long, global = true, value_name = "BOOL", help_heading = "Screen")]
    pub history: Option<bool>,
    /// Where conversations are kept: a file, or a folder [default: batchroom.db in the user's data folder]
    #[arg(long, global = true, value_name = "FILE|FOLDER", help_heading = "Screen")]
    pub data: Option<PathBuf>,

    /// Named parameters, in the file alone.
    #[arg(skip)]
    #[serde(default)]
    pub presets: BTreeMap<String, RawPreset>,
}

/// `pace = 30` is as good as `pace = "30"`.
fn text_or_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "it must be a text, such as \"30\", or a number")]
    enum Either {
        Text(String),
        Whole(i64),
        Number(f64),
    }
    Ok(Some(match Either::deserialize(from)? {
        Either::Text(text) => text,
        Either::Whole(number) => number.to_string(),
        Either::Number(number) => number.to_string(),
    }))
}

const MAX_FILE: u64 = 1 << 20;

/// Every key of the file, for suggestions.
pub(crate) const KEYS: &[&str] = &[
    "model",
    "device",
    "threads",
    "kv_memory",
    "memory_utilization",
    "kv_type",
    "max_num_seqs",
    "max_num_batched_tokens",
    "prefill_chunk",
    "max_model_len",
    "max_waiting",
    "policy",
    "batching",
    "prefix_cache",
    "target_itl",
    "watermark",
    "record",
    "system",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "max_tokens",
    "seed",
    "stop",
    "panes",
    "names",
    "pace",
    "fps",
    "theme",
    "lang",
    "ascii",
    "readonly",
    "mouse",
    "bots",
    "bots_pause",
    "bots_load",
    "keys",
    "history",
    "data",
    "presets",
];

/// The user's own file of options.
pub fn default_path() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "batchroom").map(|dirs| dirs.config_dir().join("config.toml"))
}

/// Flags and the file together, checked. `path`: the file of --config.
///
/// # Errors
/// What cannot be used, with its place in the file when it was the file that said it.
pub fn load(flags: RawConfig, path: Option<&Path>) -> Result<Config, ConfigError> {
    let file = RawConfig::read(path)?;
    let said = flags.clone();
    flags.or(file).check().map_err(|error| {
        let Some(path) = path.map(Path::to_owned).or_else(default_path) else { return error };
        // It was there and could be read a moment ago; if it has gone since, the error is as good without a place.
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        error.at(&path, &text, &said)
    })
}

impl RawConfig {
    /// The user's `config.toml`, if there is one; `path` names another, which must be there.
    pub fn read(path: Option<&Path>) -> Result<RawConfig, ConfigError> {
        let Some(file) = path.map(Path::to_owned).or_else(default_path) else { return Ok(RawConfig::default()) };
        let read = |source| ConfigError::Read { path: file.clone(), source };
        let opened = match std::fs::File::open(&file) {
            Ok(opened) => opened,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && path.is_none() => return Ok(RawConfig::default()),
            Err(error) => return Err(read(error)),
        };
        // A device or a pipe has no length beforehand: what counts is what comes.
        let mut text = String::new();
        opened.take(MAX_FILE + 1).read_to_string(&mut text).map_err(read)?;
        if text.len() as u64 > MAX_FILE {
            return Err(ConfigError::TooLarge { path: file });
        }
        RawConfig::parse(&text).map_err(|mistake| ConfigError::Mistake { path: file, mistake })
    }

    /// What a file says.
    ///
    /// # Errors
    /// The first mistake in it: where it is, and what would be right.
    pub(crate) fn parse(text: &str) -> Result<RawConfig, Mistake> {
        mistakes::first(text).map_or(Ok(()), Err)?;
        toml::from_str(text).map_err(|error| Mistake::of(text, &error))
    }

    /// `self` where it says something, else `other`.
    pub fn or(self, other: RawConfig) -> RawConfig {
        // Two ways to say one thing: the flag of one wins over the file's other.
        let says = self.kv_memory.is_some() || self.memory_utilization.is_some();
        let (kv_memory, memory_utilization) = match says {
            true => (self.kv_memory, self.memory_utilization),
            false => (other.kv_memory, other.memory_utilization),
        };
        RawConfig {
            model: self.model.or(other.model),
            device: self.device.or(other.device),
            threads: self.threads.or(other.threads),
            kv_memory,
            memory_utilization,
            kv_type: self.kv_type.or(other.kv_type),
            max_num_seqs: self.max_num_seqs.or(other.max_num_seqs),
            max_num_batched_tokens: self.max_num_batched_tokens.or(other.max_num_batched_tokens),
            prefill_chunk: self.prefill_chunk.or(other.prefill_chunk),
            max_model_len: self.max_model_len.or(other.max_model_len),
            max_waiting: self.max_waiting.or(other.max_waiting),
            policy: self.policy.or(other.policy),
            batching: self.batching.or(other.batching),
            prefix_cache: self.prefix_cache.or(other.prefix_cache),
            target_itl: self.target_itl.or(other.target_itl),
            watermark: self.watermark.or(other.watermark),
            record: self.record.or(other.record),
            system: self.system.or(other.system),
            temperature: self.temperature.or(other.temperature),
            top_k: self.top_k.or(other.top_k),
            top_p: self.top_p.or(other.top_p),
            min_p: self.min_p.or(other.min_p),
            repetition_penalty: self.repetition_penalty.or(other.repetition_penalty),
            max_tokens: self.max_tokens.or(other.max_tokens),
            seed: self.seed.or(other.seed),
            stop: self.stop.or(other.stop),
            panes: self.panes.or(other.panes),
            names: self.names.or(other.names),
            pace: self.pace.or(other.pace),
            fps: self.fps.or(other.fps),
            theme: self.theme.or(other.theme),
            lang: self.lang.or(other.lang),
            ascii: self.ascii.or(other.ascii),
            readonly: self.readonly.or(other.readonly),
            mouse: self.mouse.or(other.mouse),
            bots: self.bots.or(other.bots),
            bots_pause: self.bots_pause.or(other.bots_pause),
            bots_load: self.bots_load.or(other.bots_load),
            keys: self.keys.or(other.keys),
            history: self.history.or(other.history),
            data: self.data.or(other.data),
            presets: if self.presets.is_empty() { other.presets } else { self.presets },
        }
    }
}

/// Checked options.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub model: Option<String>,
    pub engine: EngineConfig,
    /// Where the engine of the room or of `ask` is recorded.
    pub record: Option<PathBuf>,
    pub sampling: SamplingParams,
    /// Named values of the form.
    pub presets: Vec<Preset>,
    /// None: a new seed for each answer.
    pub seed: Option<u64>,
    pub system: Option<String>,
    pub screen: ScreenConfig,
    /// Conversations are kept, and opened again.
    pub history: bool,
    /// Where. None: in the user's data folder.
    pub data: Option<PathBuf>,
}

/// What an engine is made with, beside the model.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineConfig {
    pub device: DeviceChoice,
    /// Of our own kernels; candle has its own.
    pub threads: usize,
    pub kv_memory: KvBudget,
    /// Of our own kernels; tensor operations keep f32.
    pub kv_type: KvType,
    pub max_num_seqs: Option<usize>,
    pub max_num_batched_tokens: Option<usize>,
    pub prefill_chunk: Option<usize>,
    pub max_model_len: Option<usize>,
    pub max_waiting: usize,
    pub policy: Policy,
    pub mode: Mode,
    pub prefix_cache: bool,
    pub target_itl: Option<Duration>,
    pub watermark: Option<usize>,
}

/// How large KV memory is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KvBudget {
    /// Enough for every seat's whole context, within bounds.
    Seats,
    Bytes(u64),
    /// A share, above 0 and up to 1, of the memory that is free once the weights are loaded.
    ShareOfFree(f64),
}

/// What computes the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// Our own kernels.
    Cpu,
    /// Tensor operations on the CPU.
    Candle,
    /// Tensor operations on the first NVIDIA GPU.
    Cuda,
    /// Tensor operations on the GPU of a Mac.
    Metal,
}

#[cfg(test)]
mod tests;
