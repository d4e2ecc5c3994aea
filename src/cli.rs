//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::config::RawConfig;

/// Several people chat with one language model at once, on one continuous batch that you can watch.
#[derive(Debug, Parser)]
#[command(name = "batchroom", version, about, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub options: RawConfig,
    /// Configuration file [default: config.toml in the user's configuration folder, if it is there]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Write a log to this file (its detail: RUST_LOG, for instance RUST_LOG=batchroom=debug)
    #[arg(long, global = true, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  batchroom                                the room, with four panes
  batchroom --model smollm2 --panes 6      six people on SmolLM2
  batchroom --kv-memory 300KiB             little memory: watch preemption
  batchroom ask \"Why is the sky blue?\"     one answer to standard output";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// One answer, or many in one batch, to standard output
    #[command(after_help = ASK_EXAMPLES)]
    Ask(AskArgs),
    /// List, fetch, check or remove models
    #[command(subcommand, after_help = "Example:\n  batchroom models pull smollm2")]
    Models(ModelsCommand),
}

const ASK_EXAMPLES: &str = "Examples:
  batchroom ask \"What is the capital of France?\"
  git diff | batchroom ask --system \"Describe this change in one line\"
  batchroom ask --json \"Say hello\" \"Say goodbye\"
  batchroom ask --prompts questions.jsonl --max-num-seqs 8 --json

A line of questions.jsonl has a prompt, messages or token ids; all else is optional:
  {\"id\": \"a\", \"prompt\": \"1 + 1 = ?\", \"max_tokens\": 8, \"temperature\": 0, \"seed\": 1, \"system\": \"Be short.\"}
  {\"id\": \"b\", \"messages\": [{\"role\": \"user\", \"content\": \"Say hello.\"}]}
  {\"id\": \"c\", \"prompt_ids\": [1, 4093, 198], \"ignore_eos\": true}";

#[derive(Debug, clap::Args)]
pub struct AskArgs {
    /// Prompts, all answered in one batch; without any, standard input is the prompt
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,
    /// A file with one JSON object a line (`-`: standard input)
    #[arg(long, value_name = "FILE.jsonl", conflicts_with = "prompt")]
    pub prompts: Option<PathBuf>,
    /// Print one JSON object a line for each answer
    #[arg(long)]
    pub json: bool,
    /// Go on past the model's end of text, up to --max-tokens
    #[arg(long)]
    pub ignore_eos: bool,
}

#[derive(Debug, Subcommand)]
pub enum ModelsCommand {
    /// What there is, and what is fetched
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Fetch a model into the cache
    Pull {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Check a fetched model, or any file against a model's sum
    Verify {
        #[arg(value_name = "NAME")]
        name: String,
        /// This file instead of the cached one
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Remove a model from the cache
    Rm {
        #[arg(value_name = "NAME")]
        name: String,
    },
}
