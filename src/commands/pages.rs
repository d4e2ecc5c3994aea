//! `batchroom completions` and `batchroom man`: what shells and `man` know of the command line, from its own definition.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap_complete::Shell;

use crate::cli;

pub const COMPLETIONS_EXAMPLES: &str = "Examples:
  batchroom completions bash > ~/.local/share/bash-completion/completions/batchroom
  batchroom completions zsh > \"${fpath[1]}/_batchroom\"
  batchroom completions fish > ~/.config/fish/completions/batchroom.fish";

pub const MAN_EXAMPLES: &str = "Examples:
  batchroom man | man -l -
  batchroom man ~/.local/share/man/man1      a page for each command";

pub fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "batchroom", &mut out);
    to_stdout(&out)
}

/// The page of the program to standard output, or those of the program and each command into a folder.
pub fn man(folder: Option<&Path>) -> anyhow::Result<ExitCode> {
    let command = cli::command().disable_help_subcommand(true);
    let Some(folder) = folder else {
        let mut out = Vec::new();
        clap_mangen::Man::new(command).render(&mut out)?;
        return to_stdout(&out);
    };
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    clap_mangen::generate_to(command, folder).with_context(|| format!("cannot write to {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn to_stdout(bytes: &[u8]) -> anyhow::Result<ExitCode> {
    match std::io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        written => written.map(|()| ExitCode::SUCCESS).map_err(Into::into),
    }
}
