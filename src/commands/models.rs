//! `batchroom models`: what there is, and the cache.

use std::process::ExitCode;

use anyhow::{Context, bail};
use serde::Serialize;

use super::fetch_with_bar;
use crate::cli::ModelsCommand;
use crate::hub::{self, NANO, NANO_BYTES, Published, SMOLLM2};

pub async fn models(command: ModelsCommand) -> anyhow::Result<ExitCode> {
    match command {
        ModelsCommand::List { json } => list(json)?,
        ModelsCommand::Pull { name } if name == NANO => println!("nano is inside the program: there is nothing to fetch"),
        ModelsCommand::Pull { name } => {
            let path = fetch_with_bar(published(&name)?).await?;
            println!("{name} is at {}", path.display());
        }
        ModelsCommand::Verify { name, file } => verify(&name, file)?,
        ModelsCommand::Rm { name } if name == NANO => bail!("nano is inside the program and cannot be removed"),
        ModelsCommand::Rm { name } => {
            let there = hub::remove(published(&name)?).with_context(|| format!("{name} cannot be removed"))?;
            println!("{name} {}", if there { "is removed" } else { "was not in the cache" });
        }
    }
    Ok(ExitCode::SUCCESS)
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
    let cached = hub::cached(&SMOLLM2);
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
            println!("{}", serde_json::to_string(&line)?);
            continue;
        }
        let place = match (&line.path, line.available) {
            (Some(path), _) => path.clone(),
            (None, true) => "inside the program".to_owned(),
            (None, false) => format!("not fetched (batchroom models pull {})", line.name),
        };
        let megabytes = line.bytes as f64 / 1e6;
        println!("{:<8} {:<28} {megabytes:>6.1} MB  {:<18} {place}", line.name, line.title, line.licence);
    }
    Ok(())
}

fn verify(name: &str, file: Option<std::path::PathBuf>) -> anyhow::Result<()> {
    if name == NANO && file.is_none() {
        println!("nano is inside the program: it was checked when the program was built");
        return Ok(());
    }
    let model = published(name)?;
    let path = match file.or_else(|| hub::cached(model)) {
        Some(path) => path,
        None => bail!("{name} is not in the cache: fetch it with `batchroom models pull {name}`"),
    };
    hub::verify(model, &path, |_| ()).with_context(|| {
        format!("remove it with `batchroom models rm {name}` and fetch it again with `batchroom models pull {name}`")
    })?;
    println!("{} is {}: size and sha256 are right", path.display(), model.title);
    Ok(())
}
