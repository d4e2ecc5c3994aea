//! `batchroom replay`: a recorded engine on the screen, or one state of it as JSON.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use anyhow::bail;

use crate::cli::ReplayArgs;
use crate::config::Config;
use crate::replay::{Replay, json};
use crate::room::{need_terminal, options_of};
use crate::ui::player::play;

pub async fn replay(args: ReplayArgs, config: Config) -> anyhow::Result<ExitCode> {
    if !args.json {
        need_terminal("the replay", "batchroom replay --json")?;
    }
    let mut replay = Replay::open(&args.file)?;
    if let Some(step) = args.step.filter(|step| *step > replay.steps()) {
        bail!("--step is {step}, and {} has {} steps", args.file.display(), replay.steps());
    }
    if !args.json {
        return play(replay, args.step.unwrap_or(0), options_of(&config)).await;
    }
    replay.seek(args.step.unwrap_or(usize::MAX))?;
    match writeln!(std::io::stdout().lock(), "{}", json(&mut replay)) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        written => written.map(|()| ExitCode::SUCCESS).map_err(Into::into),
    }
}
