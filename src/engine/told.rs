//! What the engine tells of itself, as values with their numbers: a screen says them in its own language; `Display` is
//! English, for logs, commands and recordings.

use std::fmt::{Display, Formatter, Result};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::scheduler::{InvalidLimits, Limits, Mode, Policy};

/// How a fault begins that ended the engine; what follows is the panic's own text.
pub const FAULT: &str = "a fault in the engine: ";
/// Why an engine is gone that has no fault.
pub const SHUT_DOWN: &str = "it was shut down";
/// Why an answer failed when the step itself did not.
pub const NOT_FINITE: &str = "the model's logits are not finite numbers for this sequence";

/// What the engine runs with was changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// At least one of them is another.
    Limits {
        old: Limits,
        new: Limits,
    },
    /// In blocks.
    KvBlocks {
        old: usize,
        new: usize,
    },
    TargetItl {
        old: Option<Duration>,
        new: Option<Duration>,
    },
}

/// What one limit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    Number(usize),
    Switch(bool),
    Policy(Policy),
    Mode(Mode),
}

/// The limits that differ: the name in `config.toml`, old, new.
pub fn differences(old: &Limits, new: &Limits) -> Vec<(&'static str, Setting, Setting)> {
    let number = |name, of: fn(&Limits) -> usize| (name, Setting::Number(of(old)), Setting::Number(of(new)));
    let pairs = [
        number("max_num_seqs", |limits| limits.max_num_seqs),
        number("max_num_batched_tokens", |limits| limits.max_num_batched_tokens),
        number("prefill_chunk", |limits| limits.prefill_chunk),
        number("max_model_len", |limits| limits.max_model_len),
        number("max_waiting", |limits| limits.max_waiting),
        number("watermark", |limits| limits.watermark),
        ("policy", Setting::Policy(old.policy), Setting::Policy(new.policy)),
        ("mode", Setting::Mode(old.mode), Setting::Mode(new.mode)),
        ("prefix_cache", Setting::Switch(old.prefix_cache), Setting::Switch(new.prefix_cache)),
    ];
    pairs.into_iter().filter(|(_, old, new)| old != new).collect()
}

impl Display for Setting {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Setting::Number(number) => number.fmt(f),
            Setting::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Setting::Policy(policy) => policy.fmt(f),
            Setting::Mode(mode) => mode.fmt(f),
        }
    }
}

impl Display for Change {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let target =
            |target: &Option<Duration>| target.map_or("none".to_owned(), |target| format!("{} ms", target.as_secs_f64() * 1e3));
        match self {
            Change::Limits { old, new } => {
                let all = differences(old, new).into_iter().map(|(name, old, new)| format!("{name} {old} -> {new}"));
                f.write_str(&all.collect::<Vec<_>>().join(", "))
            }
            Change::KvBlocks { old, new } => write!(f, "KV budget {old} -> {new} blocks"),
            Change::TargetItl { old, new } => write!(f, "target_itl {} -> {}", target(old), target(new)),
        }
    }
}

/// A change that cannot be; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotChanged {
    #[error("max_model_len {max_model_len}: the context of the model is {context} tokens")]
    OverContext { max_model_len: usize, context: usize },
    #[error(transparent)]
    Limits(#[from] InvalidLimits),
}

/// Why a finished request was not computed once more. In a recording what has no number is its English sentence, as it
/// always was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NotRun {
    #[serde(rename = "the engine is shutting down")]
    #[error("the engine is shutting down")]
    ShuttingDown,
    #[serde(rename = "too many others wait to be computed once more")]
    #[error("too many others wait to be computed once more")]
    TooMany,
    #[error("{tokens} tokens do not fit the KV budget any more")]
    NoRoom { tokens: usize },
    /// A fault of the model or of the engine; or what an older recording says.
    #[serde(untagged)]
    #[error("{0}")]
    Words(String),
}

/// Why a recording ended before its engine. In a recording as its English sentence, likewise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RecordingEnd {
    #[serde(rename = "the trace has reached its greatest size")]
    #[error("the trace has reached its greatest size")]
    Full,
    #[serde(rename = "the disk is slower than the engine")]
    #[error("the disk is slower than the engine")]
    Slow,
    /// The system's own words.
    #[error("the trace cannot be written: {error}")]
    Disk { error: String },
    /// What a recording says that is none of these.
    #[serde(untagged)]
    #[error("{0}")]
    Words(String),
}

impl RecordingEnd {
    pub(super) fn of(error: impl Display) -> RecordingEnd {
        RecordingEnd::Disk { error: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_of_older_recordings_are_the_values_they_were() {
        let not_run = |text: &str| serde_json::from_str::<NotRun>(text).unwrap();
        assert_eq!(not_run(r#""the engine is shutting down""#), NotRun::ShuttingDown);
        let old = "9 tokens do not fit the KV budget any more";
        assert_eq!(not_run(&format!("{old:?}")), NotRun::Words(old.into()));
        for reason in [NotRun::ShuttingDown, NotRun::TooMany, NotRun::NoRoom { tokens: 9 }, NotRun::Words("x".into())] {
            let written = serde_json::to_string(&reason).unwrap();
            assert_eq!(not_run(&written), reason, "{written}");
        }
        let end = |text: &str| serde_json::from_str::<RecordingEnd>(text).unwrap();
        assert_eq!(end(r#""the trace has reached its greatest size""#), RecordingEnd::Full);
        assert_eq!(end(r#""the disk is full""#), RecordingEnd::Words("the disk is full".into()));
        for reason in [RecordingEnd::Full, RecordingEnd::Slow] {
            assert_eq!(serde_json::to_string(&reason).unwrap(), format!("{:?}", reason.to_string()), "as it always was");
        }
    }
}
