//! What is wrong with the options, in plain words: what, where, what is allowed, and an example.

use std::fmt;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{KEYS, MAX_FILE, RawConfig};
use crate::sampling::InvalidSampling;

/// Characters of somebody's own text that an error repeats.
const ECHO: usize = 60;

/// What a person wrote cannot be used. The message says where and what.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} has more than {MAX_FILE} bytes: that is no configuration")]
    TooLarge { path: PathBuf },
    #[error("{path}:{mistake}")]
    Mistake { path: PathBuf, mistake: Mistake },
    #[error("{key} is `{}`: {wanted}", short(.value))]
    Value { key: &'static str, value: String, wanted: String },
    /// In a table of the file: the keys that lead to it, and what is wrong there.
    #[error("{}{words}", short(&.path.join(".")))]
    Entry { path: Vec<String>, words: String },
    #[error("kv_memory and memory_utilization both say how large KV memory is: give one of them")]
    TwoBudgets,
    #[error(transparent)]
    Sampling(#[from] InvalidSampling),
    /// The same, said by a file.
    #[error("{path}:{line}: {fault}")]
    At { path: PathBuf, line: usize, fault: Box<ConfigError> },
}

impl ConfigError {
    /// In an entry of a table, `path` being the keys that lead there.
    pub(crate) fn entry(path: &[&str], wanted: &str) -> ConfigError {
        ConfigError::Entry { path: owned(path), words: format!(": {wanted}") }
    }

    /// A value in an entry of a table.
    pub(crate) fn value_in(path: &[&str], value: &str, wanted: &str) -> ConfigError {
        ConfigError::Entry { path: owned(path), words: format!(" is `{}`: {wanted}", short(value)) }
    }

    /// The option that cannot be used: one key, or those that lead to it.
    fn keys(&self) -> Vec<&str> {
        match self {
            ConfigError::Value { key, .. } => vec![key],
            ConfigError::Entry { path, .. } => path.iter().map(String::as_str).collect(),
            ConfigError::Sampling(fault) => vec![option_of(fault)],
            _ => Vec::new(),
        }
    }

    /// With its place in the file, if it was the file that said it, and no flag.
    pub(super) fn at(self, path: &Path, text: &str, flags: &RawConfig) -> ConfigError {
        let keys = self.keys();
        let Some(key) = keys.first() else { return self };
        let by_flag = toml::Value::try_from(flags).is_ok_and(|flags| {
            // Tables are never given by flags, and are there, empty.
            flags.get(key).is_some_and(|value| value.as_table().is_none_or(|table| !table.is_empty()))
        });
        let parsed = DeTable::parse(text).ok().filter(|_| !by_flag);
        let line = parsed.and_then(|table| place_of(table.get_ref(), &keys)).map(|place| line_of(text, place));
        match line {
            Some(line) => ConfigError::At { path: path.to_owned(), line, fault: Box::new(self) },
            None => self,
        }
    }
}

fn owned(path: &[&str]) -> Vec<String> {
    path.iter().map(|&key| key.to_owned()).collect()
}

/// The option that a parameter out of its range is of.
pub(crate) fn option_of(fault: &InvalidSampling) -> &'static str {
    if fault.name.contains("stop string") { "stop" } else { fault.name }
}

/// Where the last of these keys is written that there is, each in the table of the one before.
fn place_of(table: &DeTable<'_>, keys: &[&str]) -> Option<usize> {
    let (key, rest) = keys.split_first()?;
    let (name, value) = table.iter().find(|(name, _)| name.get_ref() == key)?;
    let below = value.get_ref().as_table().and_then(|table| place_of(table, rest));
    Some(below.unwrap_or(name.span().start))
}

/// What is wrong in a file, and in which line of it (the first is 1).
#[derive(Clone, Debug, PartialEq)]
pub struct Mistake {
    pub line: usize,
    pub words: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.words)
    }
}

impl Mistake {
    fn at(text: &str, place: usize, words: String) -> Mistake {
        Mistake { line: line_of(text, place), words }
    }

    /// What only the reader of TOML knows: how its own signs are written.
    pub(super) fn of(text: &str, error: &toml::de::Error) -> Mistake {
        let place = error.span().map_or(0, |span| span.start);
        let line = text[..floor(text, place)].rsplit('\n').next().unwrap_or_default();
        let rest = text[floor(text, place)..].split('\n').next().unwrap_or_default();
        let message = short(error.message().lines().next().unwrap_or_default());
        let shown = short(format!("{line}{rest}").trim());
        let words =
            format!("this is not written as TOML is ({message}): `{shown}`; a line is `key = value`, such as `panes = 4`");
        Mistake::at(text, place, words)
    }
}

fn floor(text: &str, place: usize) -> usize {
    let place = place.min(text.len());
    (0..=place).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn line_of(text: &str, place: usize) -> usize {
    1 + text.as_bytes()[..place.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

/// Somebody's own text as part of an error: one line of it, and not too much.
fn short(text: &str) -> String {
    let line: String = crate::text::printable(text).chars().map(|c| if c == '\n' { ' ' } else { c }).take(ECHO + 1).collect();
    if line.chars().count() > ECHO { line.chars().take(ECHO - 1).chain(['…']).collect() } else { line }
}

/// What a key may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Whole,
    Number,
    YesNo,
    Texts,
    /// `"30"` and `30` alike.
    TextOrNumber,
    /// `[keys]`: keys by the names of actions.
    Keys,
    /// `[presets.NAME]`.
    Presets,
}

impl Kind {
    fn words(self) -> &'static str {
        match self {
            Kind::Text => "a text in quotes",
            Kind::Whole => "a whole number, 0 or more",
            Kind::Number => "a number",
            Kind::YesNo => "true or false",
            Kind::Texts => "a list of texts in brackets",
            Kind::TextOrNumber => "a number, or a text in quotes",
            Kind::Keys => "a table: a line [keys], and below it lines with an action's name and a key",
            Kind::Presets => "tables: a line [presets.NAME], and below it what the preset sets",
        }
    }
}

/// Of every key, what it is given, and an example.
const KINDS: &[(&str, Kind, &str)] = &[
    ("model", Kind::Text, "\"smollm2\""),
    ("device", Kind::Text, "\"cpu\""),
    ("threads", Kind::Whole, "4"),
    ("kv_memory", Kind::TextOrNumber, "\"512MiB\""),
    ("memory_utilization", Kind::Number, "0.5"),
    ("kv_type", Kind::Text, "\"f16\""),
    ("max_num_seqs", Kind::Whole, "8"),
    ("max_num_batched_tokens", Kind::Whole, "256"),
    ("prefill_chunk", Kind::Whole, "64"),
    ("max_model_len", Kind::Whole, "2048"),
    ("max_waiting", Kind::Whole, "64"),
    ("policy", Kind::Text, "\"fair\""),
    ("batching", Kind::Text, "\"continuous\""),
    ("prefix_cache", Kind::YesNo, "true"),
    ("target_itl", Kind::TextOrNumber, "\"25ms\""),
    ("watermark", Kind::Whole, "2"),
    ("record", Kind::Text, "\"run.trace\""),
    ("system", Kind::Text, "\"Answer in one sentence.\""),
    ("temperature", Kind::Number, "0.7"),
    ("top_k", Kind::Whole, "40"),
    ("top_p", Kind::Number, "0.95"),
    ("min_p", Kind::Number, "0.05"),
    ("repetition_penalty", Kind::Number, "1.1"),
    ("max_tokens", Kind::Whole, "512"),
    ("seed", Kind::Whole, "7"),
    ("stop", Kind::Texts, "[\"END\"]"),
    ("panes", Kind::Whole, "4"),
    ("names", Kind::Texts, "[\"ana\", \"bình\"]"),
    ("pace", Kind::TextOrNumber, "15"),
    ("fps", Kind::Whole, "30"),
    ("theme", Kind::Text, "\"dark\""),
    ("lang", Kind::Text, "\"vi\""),
    ("ascii", Kind::YesNo, "true"),
    ("readonly", Kind::YesNo, "true"),
    ("mouse", Kind::YesNo, "true"),
    ("bots", Kind::Whole, "4"),
    ("bots_pause", Kind::Text, "\"2s\""),
    ("bots_load", Kind::Text, "\"chat\""),
    ("keys", Kind::Keys, "pause = \"F2\""),
    ("history", Kind::YesNo, "true"),
    ("data", Kind::Text, "\"/home/me/chats.db\""),
    ("presets", Kind::Presets, "temperature = 0.2"),
];

/// Keys of `[presets.NAME]`.
const OF_PRESETS: &[&str] = &["system", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "max_tokens", "stop"];

/// The first mistake in a file: TOML that is none, a key that nobody knows, a value of another kind.
pub(super) fn first(text: &str) -> Option<Mistake> {
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => return Some(Mistake::of(text, &error)),
    };
    let mut mistakes: Vec<(usize, String)> = Vec::new();
    for (name, value) in table.get_ref().iter() {
        match kind_of(name.get_ref(), KEYS) {
            Some((Kind::Presets, _)) => presets(value, &mut mistakes),
            Some((kind, example)) => mistakes.extend(other_kind(name.get_ref(), value, kind, example)),
            None => mistakes.push((name.span().start, unknown("an option", name.get_ref(), KEYS))),
        }
    }
    let (place, words) = mistakes.into_iter().min_by_key(|(place, _)| *place)?;
    Some(Mistake::at(text, place, words))
}

fn kind_of(name: &str, among: &[&str]) -> Option<(Kind, &'static str)> {
    let known = KINDS.iter().find(|(key, ..)| *key == name && among.contains(key));
    known.map(|(_, kind, example)| (*kind, *example))
}

fn presets(value: &Spanned<DeValue<'_>>, mistakes: &mut Vec<(usize, String)>) {
    let Some(tables) = value.get_ref().as_table() else {
        return mistakes.extend(other_kind("presets", value, Kind::Presets, "temperature = 0.2"));
    };
    for (preset, value) in tables.iter() {
        let Some(table) = value.get_ref().as_table() else {
            mistakes.extend(other_kind(&format!("presets.{}", preset.get_ref()), value, Kind::Presets, "temperature = 0.2"));
            continue;
        };
        for (name, value) in table.iter() {
            match kind_of(name.get_ref(), OF_PRESETS) {
                Some((kind, example)) => {
                    mistakes.extend(other_kind(
                        &format!("presets.{}.{}", preset.get_ref(), name.get_ref()),
                        value,
                        kind,
                        example,
                    ));
                }
                None => mistakes.push((name.span().start, unknown("something of a preset", name.get_ref(), OF_PRESETS))),
            }
        }
    }
}

fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let near = |known: &&str| strsim::jaro_winkler(known, &name.replace('-', "_"));
    let hint = known.iter().copied().filter(|known| near(known) > 0.8).max_by(|a, b| near(a).total_cmp(&near(b)));
    let hint = match hint {
        Some(hint) => format!("did you mean `{hint}`?"),
        None => "`batchroom config init` writes a file with all of them".to_owned(),
    };
    format!("`{}` is not {what}: {hint}", short(name))
}

/// Where and why a value cannot be what its key is given.
fn other_kind(key: &str, value: &Spanned<DeValue<'_>>, kind: Kind, example: &str) -> Option<(usize, String)> {
    let found = value.get_ref();
    let whole = |value: &DeValue<'_>| whole_number(value).is_some_and(|number| number >= 0);
    // `inf` is a number to TOML, and one that is too large is none.
    let too_large = |text: &str| !text.contains("inf") && text.replace('_', "").parse::<f64>().is_ok_and(f64::is_infinite);
    let float = |value: &DeValue<'_>| value.as_float().is_some_and(|number| !too_large(number.as_str()));
    let number = |value: &DeValue<'_>| float(value) || whole_number(value).is_some();
    let all_texts = |value: &DeValue<'_>| value.as_array().is_some_and(|all| all.iter().all(|one| one.get_ref().is_str()));
    let fits = match kind {
        Kind::Text => found.is_str(),
        Kind::Whole => whole(found) && !(key == "fps" && whole_number(found).is_some_and(|fps| fps > i64::from(u32::MAX))),
        Kind::Number => number(found),
        Kind::YesNo => found.is_bool(),
        Kind::Texts => all_texts(found),
        Kind::TextOrNumber => found.is_str() || number(found),
        Kind::Keys => {
            let keys = found.as_table().map(|table| table.iter().collect::<Vec<_>>());
            let Some(keys) = keys else { return Some((value.span().start, wrong(key, found, kind, example))) };
            let bad = keys.into_iter().find(|(_, value)| !value.get_ref().is_str() && !all_texts(value.get_ref()));
            return bad.map(|(name, value)| {
                let words = format!(
                    "keys.{} is {}: it must be a key in quotes, or a list of them, such as \"F2\" or [\"F2\", \"Alt-P\"]",
                    short(name.get_ref()),
                    shown(value.get_ref())
                );
                (value.span().start, words)
            });
        }
        Kind::Presets => false,
    };
    (!fits).then(|| (value.span().start, wrong(key, found, kind, example)))
}

/// What TOML can have as a whole number: 64 bits.
fn whole_number(value: &DeValue<'_>) -> Option<i64> {
    let number = value.as_integer()?;
    i64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
}

fn wrong(key: &str, found: &DeValue<'_>, kind: Kind, example: &str) -> String {
    format!("{} is {}: it must be {}, such as {example}", short(key), shown(found), kind.words())
}

/// A value as it was written, or what it is.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text \"{}\"", short(text)),
        DeValue::Integer(number) => short(number.as_str()),
        DeValue::Float(number) => short(number.as_str()),
        DeValue::Boolean(yes) => yes.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        RawConfig::parse(text).map(|_| String::new()).unwrap_or_else(|mistake| mistake.to_string())
    }

    #[test]
    fn every_key_has_a_kind_and_an_example_that_fits() {
        assert_eq!(KINDS.iter().map(|(key, ..)| *key).collect::<Vec<_>>(), KEYS);
        for (key, kind, example) in KINDS {
            let text = match kind {
                Kind::Keys => format!("[keys]\n{example}"),
                Kind::Presets => format!("[presets.one]\n{example}"),
                _ => format!("{key} = {example}"),
            };
            assert_eq!(words(&text), "", "{text}");
        }
    }

    /// Values of every kind for every key: what is refused is refused in plain words.
    #[test]
    fn mistakes_are_plain_words() {
        let values = [
            "-1",
            "1.5",
            "true",
            "\"text\"",
            "[1]",
            "[\"a\"]",
            "{ a = 1 }",
            "2020-01-01",
            "99999999999999999999",
            "nan",
            "1e999",
        ];
        for (key, ..) in KINDS {
            for value in values {
                let said = words(&format!("# first\n{key} = {value}\n"));
                for bad in ["expected", "invalid type", "usize", "u32", "u64", "f32", "struct", "enum", "variant", "untagged"] {
                    assert!(!said.contains(bad), "{key} = {value}: {said}");
                }
                assert!(said.is_empty() || said.starts_with("2: ") && said.contains("must be"), "{key} = {value}: {said}");
            }
        }
        assert_eq!(
            words("\n\npanes = \"four\""),
            "3: panes is the text \"four\": it must be a whole number, 0 or more, such as 4"
        );
        assert_eq!(
            words("[presets.a]\ntop_k = 1.5"),
            "2: presets.a.top_k is 1.5: it must be a whole number, 0 or more, such as 40"
        );
        assert_eq!(words("[presets.a]\ntopk = 1"), "2: `topk` is not something of a preset: did you mean `top_k`?");
        assert!(words("[keys]\npause = 2").starts_with("2: keys.pause is 2: it must be a key"), "{}", words("[keys]\npause = 2"));
        assert!(words("panes = 1\npanes = 2").contains("TOML"), "{}", words("panes = 1\npanes = 2"));
    }

    #[test]
    fn nothing_long_is_repeated() {
        let long = "x".repeat(100_000);
        for text in [
            format!("{long} = 1"),
            format!("panes = \"{long}\""),
            format!("panes = {long}"),
            format!("panes = [{}", "1,".repeat(50_000)),
            format!("[keys]\n{long} = 1"),
            format!("[presets.{long}]\n{long} = 1"),
            format!("{long}\x1b[31m"),
        ] {
            let said = words(&text);
            assert!(!said.is_empty() && said.len() < 500, "{} bytes", said.len());
            assert!(!said.contains('\x1b'));
        }
        let value = ConfigError::Value { key: "theme", value: long, wanted: "it must be dark".into() };
        assert!(value.to_string().len() < 300);
    }
}
