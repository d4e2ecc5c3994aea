//! The workstation: an engine with a screen in front of it.
use crate::config::Config;
use std::process::ExitCode;
pub async fn open(_config: Config) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not connected yet")
}
