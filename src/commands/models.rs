//! `batchroom models`: what there is, and the cache.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use serde::Serialize;

use super::fetch_with_bar;
use crate::cli::ModelsCommand;
use crate::hub::{self, NANO, NANO_BYTES, NANO_SHA256, Published, SMOLLM2};

pub async fn models(command: ModelsCommand) -> anyhow::Result<ExitCode> {
    match command {
        ModelsCommand::List { json } => list(json)?,
        ModelsCommand::Pull { name } if name == NANO => say("nano is inside the program: there is nothing to fetch")?,
        ModelsCommand::Pull { name } => {
            let path = fetch_with_bar(published(&name)?).await?;
            say(&format!("{name} is at {}", path.display()))?;
        }
        ModelsCommand::Verify { name, file } => verify(&name, file)?,
        ModelsCommand::Rm { name } if name == NANO => bail!("nano is inside the program and cannot be removed"),
        ModelsCommand::Rm { name } => {
            let there = hub::remove(published(&name)?).with_context(|| format!("{name} cannot be removed"))?;
            say(&format!("{name} {}", if there { "is removed" } else { "was not in the cache" }))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One line to standard output; a reader that has gone is no fault.
fn say(line: &str) -> std::io::Result<()> {
    match writeln!(std::io::stdout().lock(), "{line}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn published(name: &str) -> anyhow::Result<&'static Published> {
    hub::by_name(name).with_context(|| format!("there is no model called `{name}`: the models are nano and smollm2"))
}

#[derive(Serialize)]
struct Line {
    name: &'static str,
    title: &'static str,
    licence: &'static str,
    bytes: u64,
    /// Path in the cache; null when not fetched, and for the model inside the program.
    path: Option<String>,
    available: bool,
}

fn list(json: bool) -> anyhow::Result<()> {
    let nano = Line {
        name: NANO,
        title: "batchroom nano Q8_0",
        licence: "MIT OR Apache-2.0",
        bytes: NANO_BYTES.len() as u64,
        path: None,
        available: true,
    };
    let (cached, damaged) = (hub::cached(&SMOLLM2), hub::damaged(&SMOLLM2));
    let smollm2 = Line {
        name: SMOLLM2.name,
        title: SMOLLM2.title,
        licence: SMOLLM2.licence,
        bytes: SMOLLM2.bytes,
        available: cached.is_some(),
        path: cached.map(|path| path.display().to_string()),
    };
    for line in [nano, smollm2] {
        if json {
            say(&serde_json::to_string(&line)?)?;
            continue;
        }
        let place = match (&line.path, line.available) {
            (None, false) if damaged.is_some() => {
                let bytes = damaged.unwrap_or_default();
                format!("damaged: {bytes} bytes (batchroom models pull {} fetches it again)", line.name)
            }
            (Some(path), _) => path.clone(),
            (None, true) => "inside the program".to_owned(),
            (None, false) => format!("not fetched (batchroom models pull {})", line.name),
        };
        let megabytes = line.bytes as f64 / 1e6;
        say(&format!("{:<8} {:<28} {megabytes:>6.1} MB  {:<18} {place}", line.name, line.title, line.licence))?;
    }
    Ok(())
}

fn verify(name: &str, file: Option<std::path::PathBuf>) -> anyhow::Result<()> {
    if name == NANO && file.is_none() {
        ensure!(hub::sha256(NANO_BYTES) == NANO_SHA256, "nano, inside the program, is damaged: install the program again");
        say("nano, inside the program: size and sha256 are right")?;
        return Ok(());
    }
    if name == NANO {
        bail!("nano is inside the program: there is no file of it to compare {} with", file.unwrap_or_default().display());
    }
    let model = published(name)?;
    let cached = file.is_none();
    // A file of the wrong size is there too: that is just what this is to tell.
    let Some(path) = file.or_else(|| hub::cache_path(model).filter(|path| path.exists())) else {
        bail!("{name} is not in the cache: fetch it with `batchroom models pull {name}`");
    };
    if let Err(error) = hub::verify(model, &path, |_| ()) {
        bail!("{error}{}", if cached { format!("; `batchroom models pull {name}` fetches it again") } else { String::new() });
    }
    say(&format!("{} is {}: size and sha256 are right", path.display(), model.title))?;
    Ok(())
}
