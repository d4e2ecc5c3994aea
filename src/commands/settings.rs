//! `batchroom config`: the file of options, and what is in force.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use crate::config::{Config, EngineConfig, KEYS, KvBudget, PaceChoice, RawConfig, default_path};

/// What `init` writes: every key with its default, all of them comments.
pub const EXAMPLE: &str = include_str!("../../config.example.toml");

pub const EXAMPLES: &str = "Examples:
  batchroom config init                     a commented config.toml to change
  batchroom config show                     what is in force, and where each value comes from
  batchroom --panes 6 config show --json
  batchroom config path";

#[derive(Debug, clap::Subcommand)]
pub enum ConfigCommand {
    /// Write a config.toml with every option, commented; never over one that is there
    Init,
    /// What is in force, and where each value comes from: a flag, the file, or a default
    Show {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Where config.toml is, or would be
    Path,
}

/// `named`: the file of --config.
pub fn settings(command: &ConfigCommand, flags: &RawConfig, named: Option<&Path>) -> anyhow::Result<ExitCode> {
    let path = named.map(Path::to_owned).or_else(default_path);
    let path = path.context("there is no folder for configuration: name a file with --config")?;
    match command {
        ConfigCommand::Init => init(&path)?,
        ConfigCommand::Path => say(&path.display().to_string())?,
        ConfigCommand::Show { json } => {
            let file = RawConfig::read(named)?;
            let config = crate::config::load(flags.clone(), named)?;
            show(flags, &file, &config, &path, *json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn say(line: &str) -> std::io::Result<()> {
    match writeln!(std::io::stdout().lock(), "{}", crate::text::printable(line)) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn init(path: &PathBuf) -> anyhow::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    match std::fs::OpenOptions::new().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} is there already and stays as it is", path.display())
        }
        opened => opened
            .and_then(|mut file| file.write_all(EXAMPLE.as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))?,
    }
    say(&format!("{} is there; every option in it is a comment until you take the # away", path.display()))?;
    Ok(())
}

/// What was said, by key.
fn said(raw: &RawConfig) -> Map<String, Value> {
    let Ok(Value::Object(mut map)) = serde_json::to_value(raw) else { return Map::new() };
    map.retain(|_, value| !value.is_null() && value.as_object().is_none_or(|object| !object.is_empty()));
    map.values_mut().for_each(as_written);
    map
}

fn show(flags: &RawConfig, file: &RawConfig, config: &Config, path: &Path, json: bool) -> anyhow::Result<()> {
    let (flags, mut file) = (said(flags), said(file));
    // Two ways to say one thing: a flag of either puts the file's aside.
    let budget = ["kv_memory", "memory_utilization"];
    if budget.iter().any(|key| flags.contains_key(*key)) {
        budget.iter().for_each(|key| drop(file.remove(*key)));
    }
    let mut all = Map::new();
    for key in KEYS {
        let (value, from) = match (flags.get(*key), file.get(*key)) {
            (Some(value), _) => (value.clone(), "flag"),
            (None, Some(value)) => (value.clone(), "file"),
            (None, None) => (default_of(key, config), "default"),
        };
        if json {
            all.insert((*key).to_owned(), json!({ "value": value, "from": from }));
        } else {
            let shown = match &value {
                Value::String(text) => text.clone(),
                Value::Null => "–".into(),
                other => other.to_string(),
            };
            // How long a block is depends on the model.
            let whole = if *key == "kv_memory" && from != "default" { " (whole blocks of 16 tokens that fit)" } else { "" };
            let shown = format!("{shown}{whole}");
            let from = if from == "flag" { format!("--{}", key.replace('_', "-")) } else { from.to_owned() };
            say(&format!("{key:<24} {shown:<42} {from}"))?;
        }
    }
    let there = path.exists();
    if json {
        let object = json!({ "file": path.display().to_string(), "file_exists": there, "options": all });
        say(&object.to_string())?;
    } else {
        let is = if there { "" } else { " (not there)" };
        say(&format!("\nfile: {}{is}", path.display()))?;
    }
    Ok(())
}

/// The value that is in force when nobody said one. Words, where it depends on the model or the machine.
fn default_of(key: &str, config: &Config) -> Value {
    let EngineConfig { threads, kv_memory, kv_type, max_waiting, policy, mode, prefix_cache, .. } = &config.engine;
    let sampling = &config.sampling;
    match key {
        "model" => "smollm2 if it has been fetched, else nano".into(),
        "device" => "cpu".into(),
        "threads" => (*threads).into(),
        "kv_memory" if *kv_memory == KvBudget::Seats => "every seat's whole context, at most 512MiB".into(),
        "kv_type" => kv_type.to_string().into(),
        "max_num_seqs" => "8 (ask: 16)".into(),
        "max_num_batched_tokens" => 256.into(),
        "prefill_chunk" if config.engine.target_itl.is_none() => 64.into(),
        "prefill_chunk" => "what target_itl leaves".into(),
        "max_model_len" => "the model's context".into(),
        "max_waiting" => (*max_waiting).into(),
        "policy" => policy.to_string().into(),
        "batching" => mode.to_string().into(),
        "prefix_cache" => (*prefix_cache).into(),
        "watermark" => "one block a seat, at most an eighth".into(),
        "temperature" => decimal(sampling.temperature),
        "top_k" => sampling.top_k.into(),
        "top_p" => decimal(sampling.top_p),
        "min_p" => decimal(sampling.min_p),
        "repetition_penalty" => decimal(sampling.repetition_penalty),
        "max_tokens" => sampling.max_tokens.into(),
        "seed" => "a new one for each answer".into(),
        "panes" => config.screen.panes.into(),
        "pace" if config.screen.pace == PaceChoice::Auto => "auto".into(),
        "fps" => config.screen.fps.into(),
        "history" => config.history.into(),
        "data" => match crate::store::place(None) {
            Some(path) => path.display().to_string().into(),
            None => Value::Null,
        },
        _ => Value::Null,
    }
}

/// Numbers of 32 bits have more digits in 64 than anybody wrote.
fn as_written(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(as_written),
        Value::Number(number) => {
            let short = number.as_f64().filter(|wide| number.is_f64() && f64::from(*wide as f32) == *wide);
            if let Some(wide) = short {
                *value = decimal(wide as f32);
            }
        }
        _ => {}
    }
}

/// 0.7 as a person writes it, not as the nearest binary fraction is.
fn decimal(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example up to its tables, and these: what is behind them would be theirs.
    fn halves() -> (&'static str, &'static str) {
        EXAMPLE.split_at(EXAMPLE.find("\n# [keys]\n").expect("tables"))
    }

    /// `# key = value` lines of the example, without their `#`.
    fn uncommented() -> Vec<(String, String)> {
        let key = |line: &str| line.split_once(" = ").map(|(key, _)| key.to_owned());
        let lines = halves().0.lines().filter_map(|line| line.strip_prefix("# "));
        lines.filter_map(|line| key(line).filter(|key| KEYS.contains(&key.as_str())).map(|key| (key, line.to_owned()))).collect()
    }

    #[test]
    fn the_example_has_every_key_once_and_can_be_read() {
        assert_eq!(RawConfig::parse(EXAMPLE).unwrap(), RawConfig::default(), "all of it is comments");
        let lines = uncommented();
        for key in KEYS.iter().filter(|key| !["presets", "keys"].contains(key)) {
            assert_eq!(lines.iter().filter(|(other, _)| other == key).count(), 1, "{key}");
        }
        let tables = halves().1.lines().map(|line| line.strip_prefix("# ").unwrap_or_default());
        let text: String = lines.iter().map(|(_, line)| line.as_str()).chain(tables).map(|line| format!("{line}\n")).collect();
        let all = RawConfig::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(said(&all).len(), KEYS.len(), "each of them says something");
        // It says one thing in two ways; without one of them it can be used.
        RawConfig { memory_utilization: None, ..all }.check().unwrap();
    }

    #[test]
    fn where_values_come_from() {
        let flags = RawConfig { temperature: Some(0.5), memory_utilization: Some(0.5), ..RawConfig::default() };
        assert_eq!(said(&flags).keys().collect::<Vec<_>>(), ["memory_utilization", "temperature"]);
        let config = RawConfig::default().check().unwrap();
        assert_eq!(default_of("temperature", &config), json!(0.7));
        assert_eq!(default_of("max_tokens", &config), json!(512));
    }
}
