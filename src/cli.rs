//! The command line.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{ConfigCommand, HistoryCommand, Scenario, help};
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
    #[command(flatten)]
    pub room: RoomArgs,
}

/// Commands that have a use for some options of the room only: others are not in their help, and are refused.
const USEFUL: [(&str, &[&str]); 2] =
    [("history", &["data", "config", "log"]), ("replay", &["fps", "theme", "lang", "ascii", "mouse", "config", "log"])];

/// The command line as it is.
pub fn command() -> clap::Command {
    let whole = Cli::command();
    let shared: Vec<Arg> = whole.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    USEFUL.iter().fold(whole, |whole, (name, useful)| {
        let others = shared.iter().filter(|arg| !useful.contains(&arg.get_id().as_str()));
        let hidden: Vec<Arg> = others.map(|arg| arg.clone().hide(true)).collect();
        whole.mut_subcommand(name, |command| command.args(hidden))
    })
}

/// What was written on it.
///
/// # Errors
/// Wrong usage, as clap says it; and help and version, which are no values either.
pub fn parse(args: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Cli, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(args)?;
    let named = matches.subcommand_name().and_then(|named| USEFUL.iter().find(|(name, _)| *name == named));
    if let Some((name, useful)) = named {
        let given = |arg: &&Arg| {
            let id = arg.get_id().as_str();
            !useful.contains(&id) && matches.value_source(id) == Some(ValueSource::CommandLine)
        };
        let option = command.get_arguments().find(given).and_then(Arg::get_long).map(str::to_owned);
        if let Some(option) = option {
            let words = format!("--{option} means nothing to `batchroom {name}`: leave it out");
            return Err(command.error(ErrorKind::UnknownArgument, words));
        }
    }
    Cli::from_arg_matches(&matches)
}

/// How the room is opened, when no command is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Room")]
pub struct RoomArgs {
    /// Open fresh panes; the last ones stay in the history
    #[arg(long)]
    pub new: bool,
    /// Lines in place of a screen: for screen readers, pipes and terminals that cannot place text
    #[arg(long, conflicts_with = "once")]
    pub plain: bool,
    /// No screen: open the engine, print its state as one JSON object, and end (without bots)
    #[arg(long, requires = "json")]
    pub once: bool,
    /// With --once: what is printed
    #[arg(long, requires = "once")]
    pub json: bool,
    /// With --once: send this to every pane first, as it is, and wait for the answers
    #[arg(long, value_name = "TEXT", requires = "once")]
    pub prompt: Option<String>,
}

const EXAMPLES: &str = "Examples:
  batchroom                                the room, with four panes
  batchroom --model smollm2 --panes 6      six people on SmolLM2
  batchroom --kv-memory 600KiB --max-tokens 200   little memory: watch preemption
  batchroom ask \"Why is the sky blue?\"     one answer to standard output
  batchroom --record room.trace            record what the engine does (and all prompts and answers)
  batchroom replay room.trace              look at it again, step by step
  batchroom history search \"blue sky\"     what was said in earlier sessions
  batchroom --plain                        lines in place of a screen
  batchroom --once --json --prompt \"Hi\"   the engine's state after an answer in every pane, for scripts
  batchroom bench                          users against tokens per second, on this machine
  batchroom simulate --sweep users=10..400 --hardware h100    the scheduler on a virtual clock: any hardware";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// One answer, or many in one batch, to standard output
    #[command(after_help = ASK_EXAMPLES)]
    Ask(AskArgs),
    /// Users against step time and tokens per second, on this machine
    ///
    /// Measures how fast this machine reads memory, and then the model alone: for each number of users, prefill of
    /// their prompts and decode steps in which each of them gets one token, over paged KV memory. A step is one forward
    /// pass up to the logits; sampling, scheduler and screen are not part of it.
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
    /// The scheduler alone, on a virtual clock: thousands of users, hours of arrivals, any hardware
    ///
    /// Runs the very scheduler and block manager of the engine, with a model of time in place of weights: what a step
    /// reads and computes, over the bandwidth and the FLOP/s of some hardware. docs/simulate.md has the formulas, and what
    /// they leave out.
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(Box<SimulateArgs>),
    /// A recorded engine on the screen, step by step, forwards and backwards
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// List, fetch, check or remove models
    #[command(subcommand, after_help = "Example:\n  batchroom models pull smollm2")]
    Models(ModelsCommand),
    /// The conversations that are kept: list, show, search, export, import, remove
    #[command(subcommand, after_help = help::HISTORY)]
    History(HistoryCommand),
    /// The file of options, and what is in force
    #[command(subcommand, after_help = help::CONFIG)]
    Config(ConfigCommand),
    /// Completions of commands and options, for a shell
    #[command(after_help = help::COMPLETIONS)]
    Completions {
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// The manual page, or one for each command in a folder
    #[command(after_help = help::MAN)]
    Man {
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

const ASK_EXAMPLES: &str = "Examples:
  batchroom ask \"What is the capital of France?\"
  git diff | batchroom ask --system \"Describe this change in one line\"
  batchroom ask --json \"Say hello\" \"Say goodbye\"
  batchroom ask --prompts questions.jsonl --max-num-seqs 8 --json
  batchroom ask --witness --temperature 0 \"One\" \"Two\" \"Three\"

A line of questions.jsonl has a prompt, messages or token ids; all else is optional:
  {\"id\": \"a\", \"prompt\": \"1 + 1 = ?\", \"max_tokens\": 8, \"temperature\": 0, \"seed\": 1, \"system\": \"Be short.\"}
  {\"id\": \"b\", \"messages\": [{\"role\": \"user\", \"content\": \"Say hello.\"}]}
  {\"id\": \"c\", \"prompt_ids\": [1, 403, 198], \"ignore_eos\": true}
  {\"prompt\": \"Hi\", \"user\": \"ana\", \"priority\": 5}      (for --policy fair and --policy priority)

What --json says, times in ms: ttft from submit to first token, queue included; queue from submit to the first step;
e2e from submit to the end; tpot = (e2e - ttft) / (tokens - 1); itl the gaps between tokens; cached_tokens those of
the prompt whose keys and values were there already; predicted_ttft what was expected at submit, a rough guess from
what steps cost so far; tokens_per_s leaves out the time after a preemption.";

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
    /// Compute every answer once more at its end, alone, compare token by token and logit by logit, and say the verdict
    /// (exit status 1 if one differs, or could not be computed again)
    #[arg(long)]
    pub witness: bool,
}

const BENCH_EXAMPLES: &str = "Examples:
  batchroom bench
  batchroom bench --model path/to/model.gguf --users 1,8,64 --threads 8
  batchroom bench --synthetic qwen2.5-7b --type q4_0 --users 1,16     no file: random weights in that shape
  batchroom bench --json > bench.json
  batchroom bench --scenario long-prompt --target-itl 12ms     what seven chats feel of a 3,000-token prompt
  batchroom bench --scenario shared-prefix                     what the prefix cache saves

What the figures are:
  context    positions that each user has before the first step; one more with each step
  step ms    median over the steps; 95 % of them took p95 ms or less
  tok/s      of all users: users x steps / the sum of the steps' times; each: divided by users
  speed-up   tok/s over that of one user in this run (none when 1 is not in --users)
  MB/token   weights that a step reads, divided by the users that share it (1 MB = 1e6 bytes)
  GB/s       weights that a step reads / its mean time (without KV memory and activations)
  memory     that GB/s as a share of the memory bandwidth measured at the start
  prefill    prompt tokens of all users / the time of their forward passes (of 512 tokens at most)

Ctrl-C ends it with what has been measured so far, exit status 130. BATCHROOM_KERNELS names kernels
(portable, neon, avx2, avx-vnni, avx512). Of the options of model and engine, --model, --threads and
--kv-type matter for the sweep; all of them for a --scenario, which prints one JSON object a line.";

#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    /// Numbers of users at once, separated by commas
    #[arg(long, allow_negative_numbers = true, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4,8,16,32")]
    pub users: Vec<usize>,
    /// Tokens of each user's prompt [default: 128; long-prompt: 3000, shared-prefix: 600 in common]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub prompt_tokens: Option<usize>,
    /// Decode steps for each number of users: new tokens of each user
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 64)]
    pub new_tokens: usize,
    /// In place of a model: random weights in the shape of a published one (biases of Qwen2.5's queries, keys and values
    /// are left out). A wrong name lists the shapes
    #[arg(long, value_name = "SHAPE")]
    pub synthetic: Option<String>,
    /// Weight type of a synthetic model, for all of its matrices; a wrong name lists the types [default: q4_0]
    #[arg(long = "type", value_name = "TYPE", requires = "synthetic")]
    pub weight_type: Option<String>,
    /// In place of the sweep: the whole engine in a situation that is hard for schedulers
    #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = ["synthetic", "users", "new_tokens", "parts"])]
    pub scenario: Option<Scenario>,
    /// Also print where a step's time goes: products, attention and the rest
    #[arg(long, conflicts_with = "json")]
    pub parts: bool,
    /// Print one JSON object; with --scenario one a line
    #[arg(long)]
    pub json: bool,
}

const SIMULATE_EXAMPLES: &str = "Examples:
  batchroom simulate --hardware h100 --arrivals poisson:20
  batchroom simulate --weights q4_0 --memory 24GB --arrivals at-once --requests 200 --prompt-tokens 4080 --new-tokens 16
  batchroom simulate --sweep users=10..400 --hardware h200 --shape llama-3.1-70b --weights q8_0
  batchroom simulate --sweep prefill-chunk=16..2048 --arrivals poisson:2 --prompt-tokens lognormal:2000,1
  batchroom simulate --arrivals day:8 --duration 24h --patience 30s
  batchroom simulate --arrivals requests.csv --json
  batchroom simulate --hardware this-machine --shape smollm2-135m --weights q4_0 --arrivals closed:8,think=5
  batchroom simulate --bandwidth 1008GB/s --flops 165T --memory 24GB --step-overhead 2ms

Arrivals:
  at-once               all at the beginning
  poisson:RATE          so many a second, at random
  bursts:SIZE@SECONDS   so many together, every so many seconds
  day:PEAK_RATE         at random; none at midnight (the beginning), the peak at noon
  closed:USERS,think=S  people who ask, read the answer for S seconds on average, and ask again
  FILE.csv, FILE.jsonl  lines of `time,prompt,output[,user]` (seconds, tokens), or objects with these keys

Lengths (--prompt-tokens, --new-tokens): 200, 100..300 or lognormal:MEAN,SIGMA.

A sweep is of users, rate, max-num-seqs, prefill-chunk or kv-memory: NAME=LOW..HIGH for --points geometric steps, or
NAME=A,B,C. Its knee is the point with the greatest power (Kleinrock, 1979): tokens a second of all, divided by the
mean time from asking to the last token.

Options of the engine that count here, as flags (config.toml is this machine's and is read only if --config names it), with
defaults of their own: --kv-memory [what the weights leave of the memory], --kv-type f32, f16 or q8_0 [f16],
--max-num-seqs [256], --max-num-batched-tokens [4096], --prefill-chunk [64], --max-model-len [the shape's context],
--max-waiting [65536], --watermark [0], --policy fcfs or fair, --batching, --prefix-cache, --seed [1]. Ctrl-C ends it with what there is so far, exit status 130.";

#[derive(Debug, clap::Args)]
pub struct SimulateArgs {
    /// Shape of the model; a wrong name lists the shapes
    #[arg(long, value_name = "SHAPE", default_value = "qwen2.5-7b", help_heading = "Model and hardware")]
    pub shape: String,
    /// Type of all weights; a wrong name lists the types
    #[arg(long, value_name = "TYPE", default_value = "bf16", help_heading = "Model and hardware")]
    pub weights: String,
    /// Hardware by name (a wrong one lists them), or this-machine, which is measured first
    #[arg(long, value_name = "NAME", default_value = "rtx-4090", help_heading = "Model and hardware")]
    pub hardware: String,
    /// Memory bandwidth in place of the hardware's, for instance 1008GB/s
    #[arg(long, value_name = "RATE", help_heading = "Model and hardware")]
    pub bandwidth: Option<String>,
    /// Dense 16-bit FLOP/s in place of the hardware's, for instance 165T
    #[arg(long, value_name = "RATE", help_heading = "Model and hardware")]
    pub flops: Option<String>,
    /// Memory for weights, keys and values in place of the hardware's, for instance 24GB (1 GB = 1e9 bytes)
    #[arg(long, value_name = "SIZE", help_heading = "Model and hardware")]
    pub memory: Option<String>,
    /// Share of the bandwidth that is reached [default: 0.8, an assumption; of this machine: measured]
    #[arg(long, value_name = "SHARE", help_heading = "Model and hardware")]
    pub bandwidth_efficiency: Option<f64>,
    /// Share of the FLOP/s that is reached [default: 0.6, an assumption; of this machine: measured]
    #[arg(long, value_name = "SHARE", help_heading = "Model and hardware")]
    pub flops_efficiency: Option<f64>,
    /// Time that every step takes beside its arithmetic [default: 1ms, an assumption]
    #[arg(long, value_name = "TIME", help_heading = "Model and hardware")]
    pub step_overhead: Option<String>,
    /// Time that every token of a step takes beside its arithmetic [default: 1us, an assumption]
    #[arg(long, value_name = "TIME", help_heading = "Model and hardware")]
    pub token_overhead: Option<String>,

    /// When requests come (see below)
    #[arg(long, value_name = "LAW|FILE", default_value = "closed", help_heading = "Load")]
    pub arrivals: String,
    /// Requests at most [default: 1000, or 10 a person if that is more; all of a file; all that come within --duration]
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Load")]
    pub requests: Option<u64>,
    /// No more requests come after this time, for instance 90s, 30m, 24h
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    pub duration: Option<String>,
    /// People: those of closed arrivals, or those whom the requests of others are dealt to [default: 16]
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Load")]
    pub users: Option<u32>,
    /// Tokens of each prompt (see below)
    #[arg(long, allow_negative_numbers = true, value_name = "LENGTH", default_value = "512", help_heading = "Load")]
    pub prompt_tokens: String,
    /// Tokens of each answer (see below)
    #[arg(long, allow_negative_numbers = true, value_name = "LENGTH", default_value = "128", help_heading = "Load")]
    pub new_tokens: String,
    /// The first tokens of all prompts that are the same, as of agents with one instruction
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 0, help_heading = "Load")]
    pub shared_prefix: usize,
    /// Whoever has no first token after this time gives up, for instance 30s
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    pub patience: Option<String>,

    /// Simulate this for several values: users, rate, max-num-seqs, prefill-chunk or kv-memory (see below)
    #[arg(long, value_name = "NAME=LOW..HIGH")]
    pub sweep: Option<String>,
    /// Points of a sweep from LOW to HIGH
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 8, requires = "sweep")]
    pub points: usize,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

const REPLAY_EXAMPLES: &str = "Examples:
  batchroom --record room.trace                    record a session in the room
  batchroom ask --record ask.trace \"Why?\" \"How?\"    or the answers of ask
  batchroom replay room.trace
  batchroom replay room.trace --step 128
  batchroom replay room.trace --step 128 --json    the engine after step 128, without a screen

Keys: Space plays and pauses, Left and Right go one step, PgUp and PgDn 100 steps, Home and End to the ends, + and -
change the speed, g goes to a step, q quits, F1 lists them all. No model is needed: the recording has what it answered.
A trace contains prompts and answers; docs/trace.md describes the format.";

#[derive(Debug, clap::Args)]
pub struct ReplayArgs {
    /// The recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Begin at the state after this step; 0 is the beginning
    #[arg(long, value_name = "N")]
    pub step: Option<usize>,
    /// Print the state after --step (else the last one) as one JSON object, without a screen
    #[arg(long)]
    pub json: bool,
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
