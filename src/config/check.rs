//! What was written, checked once: ranges, names, what excludes what.

use std::time::Duration;

use super::screen::{self, parse_pace};
use super::{Config, ConfigError, DeviceChoice, EngineConfig, KvBudget, PaceChoice, RawConfig, ScreenConfig, ThemeChoice};
use crate::model::kernels::KvType;
use crate::sampling::SamplingParams;
use crate::scheduler::{Mode, Policy};
use crate::ui::bots::Load;

impl RawConfig {
    /// Checks everything that can be checked without the model.
    ///
    /// # Errors
    /// The first option that cannot be used: its key, what it is, and what it must be.
    pub fn check(self) -> Result<Config, ConfigError> {
        let sampling = self.sampling()?;
        let (engine, screen) = (self.engine()?, self.screen()?);
        let presets = crate::presets::check(self.presets, &sampling)?;
        Ok(Config {
            model: self.model,
            engine,
            record: self.record,
            sampling,
            presets,
            seed: self.seed,
            system: self.system,
            screen,
            history: self.history.unwrap_or(true),
            data: self.data,
        })
    }

    /// How tokens are chosen.
    fn sampling(&self) -> Result<SamplingParams, ConfigError> {
        let defaults = SamplingParams::default();
        let sampling = SamplingParams {
            temperature: self.temperature.unwrap_or(defaults.temperature),
            top_k: self.top_k.unwrap_or(defaults.top_k),
            top_p: self.top_p.unwrap_or(defaults.top_p),
            min_p: self.min_p.unwrap_or(defaults.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(defaults.repetition_penalty),
            max_tokens: self.max_tokens.unwrap_or(defaults.max_tokens),
            seed: 0,
            stop: self.stop.clone().unwrap_or_default(),
            ignore_eos: false,
        };
        sampling.check()?;
        Ok(sampling)
    }

    /// What the engine is made with.
    fn engine(&self) -> Result<EngineConfig, ConfigError> {
        let device = self.device.as_deref().map_or(Ok(DeviceChoice::Cpu), parse_device)?;
        let limit = |key, value: Option<usize>, low, high| value.map(|value| in_range(key, value, low, high)).transpose();
        Ok(EngineConfig {
            device,
            threads: in_range("threads", self.threads.unwrap_or_else(crate::machine::default_threads), 1, 256)?,
            kv_memory: kv_budget(self.kv_memory.as_deref(), self.memory_utilization, device)?,
            kv_type: self.kv_type.as_deref().map_or(Ok(KvType::default()), |text| parse_kv_type(text, device))?,
            max_num_seqs: limit("max_num_seqs", self.max_num_seqs, 1, 1024)?,
            max_num_batched_tokens: limit("max_num_batched_tokens", self.max_num_batched_tokens, 1, 1 << 20)?,
            prefill_chunk: limit("prefill_chunk", self.prefill_chunk, 1, 1 << 20)?,
            max_model_len: limit("max_model_len", self.max_model_len, 2, 1 << 24)?,
            max_waiting: in_range("max_waiting", self.max_waiting.unwrap_or(64), 1, 65_536)?,
            policy: self.policy.as_deref().map_or(Ok(Policy::default()), parse_policy)?,
            mode: self.batching.as_deref().map_or(Ok(Mode::default()), parse_batching)?,
            prefix_cache: self.prefix_cache.unwrap_or(true),
            target_itl: self.target_itl.as_deref().map(parse_time).transpose()?,
            watermark: limit("watermark", self.watermark, 0, 1 << 20)?,
        })
    }

    /// What the screen is opened with.
    fn screen(&self) -> Result<ScreenConfig, ConfigError> {
        Ok(ScreenConfig {
            panes_asked: self.panes.is_some() || self.names.is_some(),
            panes: in_range("panes", self.panes.unwrap_or(4), 1, 16)?,
            names: self.names.clone().unwrap_or_default(),
            pace: self.pace.as_deref().map_or(Ok(PaceChoice::Auto), parse_pace)?,
            fps: in_range("fps", self.fps.unwrap_or(30) as usize, 1, 120)? as u32,
            theme: self.theme.as_deref().map_or(Ok(ThemeChoice::Auto), screen::parse_theme)?,
            lang: self.lang.as_deref().map(screen::parse_lang).transpose()?,
            ascii: self.ascii.unwrap_or(false),
            readonly: self.readonly.unwrap_or(false),
            mouse: self.mouse.unwrap_or(false),
            bots: in_range("bots", self.bots.unwrap_or(0), 0, crate::ui::bots::MAX_BOTS)?,
            bots_pause: self.bots_pause.as_deref().map(screen::parse_pause).transpose()?,
            bots_load: self.bots_load.as_deref().map_or(Ok(Load::default()), screen::parse_load)?,
            keys: screen::parse_keys(self.keys.clone().unwrap_or_default())?,
        })
    }
}

fn in_range(key: &'static str, value: usize, low: usize, high: usize) -> Result<usize, ConfigError> {
    if (low..=high).contains(&value) {
        Ok(value)
    } else {
        Err(ConfigError::Value { key, value: value.to_string(), wanted: format!("it must be from {low} to {high}") })
    }
}

fn parse_kv_type(text: &str, device: DeviceChoice) -> Result<KvType, ConfigError> {
    let wrong = |wanted: &str| ConfigError::Value { key: "kv_type", value: text.to_owned(), wanted: wanted.to_owned() };
    match text.parse() {
        Ok(KvType::Q8_0 | KvType::F16) if device != DeviceChoice::Cpu => {
            Err(wrong("tensor operations keep f32: leave it out, or use --device cpu"))
        }
        Ok(kind) => Ok(kind),
        Err(_) => Err(wrong("it must be f16, q8_0 or f32")),
    }
}

fn kv_budget(bytes: Option<&str>, share: Option<f64>, device: DeviceChoice) -> Result<KvBudget, ConfigError> {
    let wrong = |share: f64, wanted: &str| {
        Err(ConfigError::Value { key: "memory_utilization", value: share.to_string(), wanted: wanted.to_owned() })
    };
    match (bytes, share) {
        (None, None) => Ok(KvBudget::Seats),
        (Some(_), Some(_)) => Err(ConfigError::TwoBudgets),
        (Some(bytes), None) => Ok(KvBudget::Bytes(parse_size(bytes)?)),
        (None, Some(share)) if !(share > 0.0 && share <= 1.0) => wrong(share, "it must be above 0 and at most 1"),
        (None, Some(share)) => match device {
            DeviceChoice::Cpu | DeviceChoice::Candle => Ok(KvBudget::ShareOfFree(share)),
            DeviceChoice::Cuda | DeviceChoice::Metal => {
                wrong(share, "it is a share of main memory: with this device, give kv_memory")
            }
        },
    }
}

/// `512MiB`, `1.5GB`, `4096`: binary units with an i, decimal ones without.
pub(crate) fn parse_size(text: &str) -> Result<u64, ConfigError> {
    let error = || ConfigError::Value {
        key: "kv_memory",
        value: text.to_owned(),
        wanted: "it must be a size such as 512MiB, 1.5GB or 4096 (bytes)".into(),
    };
    let compact = text.trim().to_ascii_lowercase();
    let split = compact.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(compact.len());
    let (number, unit) = compact.split_at(split);
    let factor: u64 = match unit.trim() {
        "" | "b" => 1,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        "tib" | "t" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(error()),
    };
    let bytes = number.parse::<f64>().map_err(|_| error())? * factor as f64;
    if bytes >= 1.0 && bytes < (1u64 << 60) as f64 { Ok(bytes as u64) } else { Err(error()) }
}

pub(crate) fn parse_policy(text: &str) -> Result<Policy, ConfigError> {
    let wanted = || "it must be fcfs, fair or priority".into();
    let known = [Policy::Fcfs, Policy::Fair, Policy::Priority].into_iter().find(|policy| policy.to_string() == text);
    known.ok_or_else(|| ConfigError::Value { key: "policy", value: text.to_owned(), wanted: wanted() })
}

pub(crate) fn parse_batching(text: &str) -> Result<Mode, ConfigError> {
    let wanted = || "it must be continuous or static".into();
    let known = [Mode::Continuous, Mode::Static].into_iter().find(|mode| mode.to_string() == text);
    known.ok_or_else(|| ConfigError::Value { key: "batching", value: text.to_owned(), wanted: wanted() })
}

/// `25ms`, `0.025s`.
pub(crate) fn parse_time(text: &str) -> Result<Duration, ConfigError> {
    let seconds = |number: &str, unit: f64| number.trim().parse::<f64>().ok().map(|number| number * unit);
    let time = match text.trim().strip_suffix("ms") {
        Some(number) => seconds(number, 1e-3),
        None => text.trim().strip_suffix('s').and_then(|number| seconds(number, 1.0)),
    };
    let wanted = || "it must be a time from 0.1ms to 60s, such as 25ms".into();
    let known = time.filter(|time| (1e-4..=60.0).contains(time)).map(Duration::from_secs_f64);
    known.ok_or_else(|| ConfigError::Value { key: "target_itl", value: text.to_owned(), wanted: wanted() })
}

fn parse_device(text: &str) -> Result<DeviceChoice, ConfigError> {
    match text {
        "cpu" => Ok(DeviceChoice::Cpu),
        "candle" => Ok(DeviceChoice::Candle),
        "cuda" => Ok(DeviceChoice::Cuda),
        "metal" => Ok(DeviceChoice::Metal),
        other => Err(ConfigError::Value {
            key: "device",
            value: other.to_owned(),
            wanted: "it must be cpu, candle, cuda or metal".into(),
        }),
    }
}
