//! Options of the screen.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ConfigError, parse_time};
use crate::ui::bots::{Load, PAUSE_MAX};
use crate::ui::keymap::{self, Action, Key};
use crate::ui::theme::{Colors, Shade, Theme};
use crate::ui::words::Lang;

#[derive(Clone, Debug, PartialEq)]
pub struct ScreenConfig {
    /// Somebody said how many there are to be, or their names.
    pub panes_asked: bool,
    pub panes: usize,
    pub names: Vec<String>,
    pub pace: PaceChoice,
    pub fps: u32,
    pub theme: ThemeChoice,
    /// None: that of the locale.
    pub lang: Option<Lang>,
    pub ascii: bool,
    pub readonly: bool,
    pub mouse: bool,
    pub bots: usize,
    pub bots_pause: Option<Duration>,
    pub bots_load: Load,
    /// Keys that are not the usual ones.
    pub keys: Vec<(Action, Vec<Key>)>,
}

impl ScreenConfig {
    /// `lookup` is the environment.
    pub fn theme(&self, lookup: impl Fn(&str) -> Option<String>) -> Theme {
        let (colors, shade) = match self.theme {
            ThemeChoice::Auto => (Colors::detect(&lookup), Shade::Either),
            ThemeChoice::Dark => (Colors::detect(&lookup), Shade::Dark),
            ThemeChoice::Light => (Colors::detect(&lookup), Shade::Light),
            ThemeChoice::Contrast => (Colors::detect(&lookup), Shade::Contrast),
            ThemeChoice::Ansi16 => (Colors::Ansi16, Shade::Either),
            ThemeChoice::Mono => (Colors::None, Shade::Either),
        };
        let lang = self.lang.unwrap_or_else(|| Lang::of_locale(&lookup));
        Theme::new(colors).on(shade).speaking(lang).in_ascii(self.ascii)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThemeChoice {
    /// As many colours as the terminal has, readable on dark and on light.
    Auto,
    Dark,
    Light,
    Contrast,
    Ansi16,
    Mono,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PaceChoice {
    /// A speed that can be watched for a model that would be too fast, full speed for others.
    Auto,
    Full,
    StepsPerSecond(f64),
}

/// One key or several, as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeyNames {
    One(String),
    Several(Vec<String>),
}

pub(super) fn parse_pace(text: &str) -> Result<PaceChoice, ConfigError> {
    match text {
        "auto" => Ok(PaceChoice::Auto),
        "full" => Ok(PaceChoice::Full),
        number => match number.parse::<f64>() {
            Ok(steps) if (0.1..=10_000.0).contains(&steps) => Ok(PaceChoice::StepsPerSecond(steps)),
            _ => Err(ConfigError::Value {
                key: "pace",
                value: text.to_owned(),
                wanted: "it must be auto, full, or steps a second from 0.1 to 10000".into(),
            }),
        },
    }
}

fn wrong<T>(key: &'static str, value: &str, wanted: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError::Value { key, value: value.to_owned(), wanted: wanted.into() })
}

pub(super) fn parse_theme(text: &str) -> Result<ThemeChoice, ConfigError> {
    match text {
        "auto" => Ok(ThemeChoice::Auto),
        "dark" => Ok(ThemeChoice::Dark),
        "light" => Ok(ThemeChoice::Light),
        "contrast" => Ok(ThemeChoice::Contrast),
        "16" => Ok(ThemeChoice::Ansi16),
        "mono" => Ok(ThemeChoice::Mono),
        _ => wrong("theme", text, "it must be auto, dark, light, contrast, 16 or mono"),
    }
}

pub(super) fn parse_lang(text: &str) -> Result<Lang, ConfigError> {
    Lang::named(text).map_or_else(|| wrong("lang", text, "it must be en or vi"), Ok)
}

pub(crate) fn parse_pause(text: &str) -> Result<Duration, ConfigError> {
    let pause = if matches!(text.trim(), "0" | "0s" | "0ms") { Ok(Duration::ZERO) } else { parse_time(text) };
    match pause {
        Ok(pause) if pause <= PAUSE_MAX => Ok(pause),
        _ => wrong("bots_pause", text, "it must be 0 or a time up to 60s, such as 2s"),
    }
}

pub(super) fn parse_load(text: &str) -> Result<Load, ConfigError> {
    Load::named(text).map_or_else(|| wrong("bots_load", text, "it must be chat, documents or agents"), Ok)
}

/// `[keys]` of the file: an action's name and a key, or several; no key at all takes the usual ones away.
pub(super) fn parse_keys(table: BTreeMap<String, KeyNames>) -> Result<Vec<(Action, Vec<Key>)>, ConfigError> {
    let mut keys: Vec<(Action, Vec<Key>)> = Vec::new();
    for (name, names) in table {
        let Some(action) = keymap::action_named(&name) else {
            let near = keymap::nearest_name(&name);
            let hint = near.map_or_else(|| "F1 lists them".to_owned(), |near| format!("did you mean `{near}`?"));
            return Err(ConfigError::entry(&["keys", &name], &format!("there is no action of that name; {hint}")));
        };
        let wrong = |key: &str, wanted: &str| Err(ConfigError::value_in(&["keys", &name], key, wanted));
        let names = match names {
            KeyNames::One(name) => vec![name],
            KeyNames::Several(names) => names,
        };
        let mut parsed = Vec::new();
        for written in names {
            let Some(key) = Key::parse(&written) else {
                return wrong(
                    &written,
                    "it must be a key such as F2, Ctrl-P, Alt-Enter or Shift-Up; letters need Ctrl or Alt and no Shift, Alt-1 to Alt-9 go to panes",
                );
            };
            if key == Key::INTERRUPT && action != Action::Cancel {
                return wrong(&written, "it always stops an answer, or asks to quit");
            }
            if let Some((other, _)) = keys.iter().find(|(_, keys)| keys.contains(&key)) {
                return wrong(&written, &format!("it is given to {} already", keymap::action_name(*other)));
            }
            parsed.push(key);
        }
        keys.push((action, parsed));
    }
    // Without these nobody gets on, or out.
    for needed in [Action::Send, Action::Cancel, Action::Palette] {
        if !keymap::has_key(&keys, needed) {
            let name = keymap::action_name(needed);
            return Err(ConfigError::entry(&["keys", &name], "it would have no key any more: give it another one"));
        }
    }
    Ok(keys)
}
