//! Named sampling parameters of the configuration: `[presets.NAME]`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, option_of};
use crate::sampling::SamplingParams;

/// Presets at most.
const MAX: usize = 64;

/// As written. What is left out is what the answers have anyway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawPreset {
    pub system: Option<String>,
    pub temperature: Option<f32>,
    pub top_k: Option<usize>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
    pub max_tokens: Option<usize>,
    pub stop: Option<Vec<String>>,
}

/// Values of the form of a pane that have a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Preset {
    pub name: String,
    pub sampling: SamplingParams,
    /// None: the pane's stays.
    pub system: Option<String>,
}

/// Checked, each beside what all answers have.
///
/// # Errors
/// A name that could not be typed after `/preset`, or a value out of its range.
pub fn check(raw: BTreeMap<String, RawPreset>, own: &SamplingParams) -> Result<Vec<Preset>, ConfigError> {
    if raw.len() > MAX {
        return Err(ConfigError::entry(&["presets"], &format!("there are {}, and there may be {MAX}", raw.len())));
    }
    let preset = |(name, raw): (String, RawPreset)| {
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.chars().count() > 24 || !name.chars().all(plain) {
            return Err(ConfigError::entry(&["presets", &name], "a name has up to 24 letters, digits, - and _"));
        }
        let sampling = SamplingParams {
            temperature: raw.temperature.unwrap_or(own.temperature),
            top_k: raw.top_k.unwrap_or(own.top_k),
            top_p: raw.top_p.unwrap_or(own.top_p),
            min_p: raw.min_p.unwrap_or(own.min_p),
            repetition_penalty: raw.repetition_penalty.unwrap_or(own.repetition_penalty),
            max_tokens: raw.max_tokens.unwrap_or(own.max_tokens),
            stop: raw.stop.unwrap_or_else(|| own.stop.clone()),
            ..own.clone()
        };
        sampling.check().map_err(|fault| {
            let wanted = format!("it must be {}", fault.range);
            ConfigError::value_in(&["presets", &name, option_of(&fault)], &fault.value, &wanted)
        })?;
        Ok(Preset { name, sampling, system: raw.system })
    };
    raw.into_iter().map(preset).collect()
}
