//! Arguments, one function per command, exit code.

use std::process::ExitCode;

use batchroom::cli::{self, Cli, Command, RoomArgs};
use batchroom::config::{self, RawConfig};
use batchroom::hub::FetchError;
use batchroom::{commands, fault, room};

fn main() -> ExitCode {
    let cli = cli::parse(std::env::args_os()).unwrap_or_else(|error| usage(&error));
    match run(cli) {
        Ok(code) => code,
        Err(error) => match error.downcast_ref() {
            // Said already, where it was stopped.
            Some(FetchError::Stopped { code }) => ExitCode::from(*code),
            _ => {
                commands::complain(format_args!("{}", fault::words(&error)));
                ExitCode::FAILURE
            }
        },
    }
}

/// Wrong usage, said as clap says it; what it has from Rust's own number parsers is put into plain words.
fn usage(error: &clap::Error) -> ! {
    const WORDS: [(&str, &str); 5] = [
        ("invalid digit found in string", "it must be a whole number, 0 or more"),
        ("number too large to fit in target type", "the number is too large"),
        ("number too small to fit in target type", "the number is too small"),
        ("invalid float literal", "it must be a number"),
        ("cannot parse integer from empty string", "it must be a whole number, 0 or more"),
    ];
    let said = error.to_string();
    if !error.use_stderr() || !WORDS.iter().any(|(theirs, _)| said.contains(theirs)) {
        error.exit();
    }
    let plain = WORDS.iter().fold(said, |said, (theirs, ours)| said.replace(theirs, ours));
    eprint!("{}", batchroom::text::printable(&plain));
    std::process::exit(error.exit_code());
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let _log = batchroom::log::begin(cli.log.as_deref())?;
    if let Some(Command::Simulate(args)) = cli.command {
        // Of another machine, mostly: what config.toml says of this one counts only if it is asked for.
        let file = cli.config.map_or(Ok(RawConfig::default()), |path| RawConfig::read(Some(&path)))?;
        return commands::block_on(commands::simulate(*args, cli.options.or(file)));
    }
    match &cli.command {
        Some(Command::Config(command)) => return commands::settings(command, &cli.options, cli.config.as_deref()),
        Some(Command::Completions { shell }) => return commands::completions(*shell),
        Some(Command::Man { folder }) => return commands::man(folder.as_deref()),
        Some(_) if cli.room != RoomArgs::default() => {
            anyhow::bail!("--new, --plain and --once are of the room: give them without a command")
        }
        _ => {}
    }
    let config = config::load(cli.options, cli.config.as_deref())?;
    match cli.command {
        None => commands::block_on(room::open(config, cli.room)),
        Some(Command::Ask(args)) => commands::block_on(commands::ask(args, config)),
        Some(Command::Bench(args)) => commands::block_on(commands::bench(args, config)),
        Some(Command::Simulate(_)) => unreachable!("simulated above"),
        Some(Command::Replay(args)) => commands::block_on(commands::replay(args, config)),
        Some(Command::Models(command)) => commands::block_on(commands::models(command)),
        Some(Command::History(command)) => commands::history(command, &config),
        Some(Command::Config(_) | Command::Completions { .. } | Command::Man { .. }) => unreachable!("done above"),
    }
}
