//! What is asked for, checked, and what it comes to: limits, blocks, load.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::Serialize;

use super::quantity;
use crate::cli::SimulateArgs;
use crate::commands::bench::text::bytes;
use crate::config::{RawConfig, parse_batching, parse_policy};
use crate::launch::BLOCK_SIZE;
use crate::model::shapes::Shape;
use crate::scheduler::{Limits, Mode, Policy};
use crate::simulate::{
    Arrivals, CostModel, Hardware, Length, Load, MAX_REQUESTS, MAX_TOKENS, MAX_USERS, ModelCost, Setup, TraceFormat, TraceReader,
    TraceRow, Workload, nanoseconds,
};

const DEFAULT_USERS: u32 = 16;
/// Requests when nobody says how many; of closed arrivals so many of each person, if that is more.
const DEFAULT_REQUESTS: u64 = 1000;
const DEFAULT_REQUESTS_EACH: u64 = 10;
const DEFAULT_SEATS: usize = 256;
/// With it, and the engine's own default chunk, 64 prompts come on at a time.
const DEFAULT_BATCHED_TOKENS: usize = 4096;
const DEFAULT_CHUNK: usize = 64;
const DEFAULT_WAITING: usize = 65_536;
const DEFAULT_SEED: u64 = 1;
const MAX_SEATS: usize = 65_536;
/// KV blocks at most: 2^28 tokens.
const MAX_BLOCKS: u64 = 1 << 24;
/// Bytes of one line of a file of requests.
const MAX_LINE: u64 = 4096;

/// Everything but the parts that a sweep changes is as it will be simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    pub model: ModelCost,
    pub hardware: Hardware,
    /// Of this machine: what it was measured with.
    pub measured_with: Option<String>,
    pub kv_memory: Option<u64>,
    pub max_num_seqs: usize,
    pub prefill_chunk: usize,
    max_num_batched_tokens: Option<usize>,
    max_model_len: usize,
    max_waiting: usize,
    watermark: usize,
    policy: Policy,
    mode: Mode,
    prefix_cache: bool,
    /// As written: a law, or a file's name.
    pub arrivals: String,
    pub load: Load,
    requests: Option<u64>,
    pub users: u32,
    prompt: Length,
    answer: Length,
    shared_prefix: usize,
    duration: Option<f64>,
    patience: Option<f64>,
    seed: u64,
}

/// What was simulated, as `--json` has it.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    pub shape: &'static str,
    pub weights: &'static str,
    pub kv_type: &'static str,
    pub parameters: u64,
    pub hardware: String,
    pub bandwidth_bytes_per_s: f64,
    pub bandwidth_efficiency: f64,
    pub flops_per_s: f64,
    pub flops_efficiency: f64,
    pub step_overhead_s: f64,
    pub token_overhead_s: f64,
    pub memory_bytes: u64,
    /// All of them, embeddings too.
    pub weight_bytes: u64,
    pub kv_memory_bytes: u64,
    pub kv_bytes_per_token: u64,
    pub block_size: usize,
    pub num_blocks: usize,
    pub max_num_seqs: usize,
    pub max_num_batched_tokens: usize,
    pub prefill_chunk: usize,
    pub max_model_len: usize,
    pub max_waiting: usize,
    pub watermark: usize,
    pub policy: String,
    pub batching: String,
    pub prefix_cache: bool,
    pub arrivals: String,
    pub requests_max: u64,
    pub users: u32,
    /// None: as the file says.
    pub prompt_tokens: Option<String>,
    pub new_tokens: Option<String>,
    pub shared_prefix: usize,
    pub duration_s: Option<f64>,
    pub patience_s: Option<f64>,
}

fn in_range<T: PartialOrd + std::fmt::Display>(name: &str, value: T, low: T, high: T) -> anyhow::Result<T> {
    ensure!(low <= value && value <= high, "{name} is {value}: it must be from {low} to {high}");
    Ok(value)
}

impl Plan {
    /// # Errors
    /// When something is out of range, contradicts itself, or a file cannot be read.
    pub fn new(args: &SimulateArgs, options: &RawConfig, hardware: (Hardware, Option<String>)) -> anyhow::Result<Plan> {
        let idle = [
            ("--target-itl", options.target_itl.is_some()),
            ("--memory-utilization", options.memory_utilization.is_some()),
            ("--device", options.device.is_some()),
            ("--model", options.model.is_some()),
        ];
        if let Some((name, _)) = idle.into_iter().find(|(_, given)| *given) {
            bail!("{name} is of the engine and means nothing to a simulation: leave it out (--help lists what counts here)");
        }
        ensure!(
            options.policy.as_deref() != Some("priority"),
            "no load of a simulation has priorities: use --policy fcfs or fair"
        );
        let kv_format = options.kv_type.as_deref().map_or(Ok(Default::default()), str::parse)?;
        let model = ModelCost::new(Shape::by_name(&args.shape)?, &args.weights, kv_format)?;
        let (hardware, measured_with) = hardware;
        let max_model_len = options.max_model_len.unwrap_or(model.context);
        in_range("--max-model-len", max_model_len, 2, model.context)?;
        let (arrivals, load, users) = load(args)?;
        let time = |name, text: &Option<String>| text.as_deref().map(|text| quantity::time(name, text)).transpose();
        let (duration, patience) = (time("--duration", &args.duration)?, time("--patience", &args.patience)?);
        let batched = options.max_num_batched_tokens;
        let plan = Plan {
            hardware: override_hardware(hardware, args)?,
            measured_with,
            kv_memory: options.kv_memory.as_deref().map(|text| quantity::size("--kv-memory", text)).transpose()?,
            max_num_seqs: options.max_num_seqs.unwrap_or(DEFAULT_SEATS),
            prefill_chunk: options.prefill_chunk.unwrap_or(DEFAULT_CHUNK),
            max_num_batched_tokens: batched
                .map(|tokens| in_range("--max-num-batched-tokens", tokens, 1, MAX_TOKENS))
                .transpose()?,
            max_model_len,
            max_waiting: in_range("--max-waiting", options.max_waiting.unwrap_or(DEFAULT_WAITING), 1, MAX_TOKENS)?,
            watermark: in_range("--watermark", options.watermark.unwrap_or(0), 0, MAX_BLOCKS as usize)?,
            policy: options.policy.as_deref().map_or(Ok(Policy::default()), parse_policy)?,
            mode: options.batching.as_deref().map_or(Ok(Mode::default()), parse_batching)?,
            prefix_cache: options.prefix_cache.unwrap_or(true),
            arrivals,
            load,
            requests: args.requests.map(|requests| in_range("--requests", requests, 1, MAX_REQUESTS)).transpose()?,
            users,
            prompt: args.prompt_tokens.parse().context("--prompt-tokens")?,
            answer: args.new_tokens.parse().context("--new-tokens")?,
            shared_prefix: in_range("--shared-prefix", args.shared_prefix, 0, MAX_TOKENS)?,
            duration,
            patience,
            seed: options.seed.unwrap_or(DEFAULT_SEED),
            model,
        };
        plan.check()?;
        Ok(plan)
    }

    /// # Errors
    /// When what a sweep may change is out of range.
    pub fn check(&self) -> anyhow::Result<()> {
        in_range("--max-num-seqs", self.max_num_seqs, 1, MAX_SEATS)?;
        in_range("--prefill-chunk", self.prefill_chunk, 1, MAX_TOKENS)?;
        Ok(())
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Bytes for keys and values.
    fn kv_bytes(&self) -> anyhow::Result<u64> {
        let (weights, memory) = (self.model.memory_bytes, self.hardware.memory);
        let block = self.model.kv_block_bytes(BLOCK_SIZE);
        let say = |value: u64| bytes(value as f64);
        let (kind, shape) = (self.model.weight_type, self.model.shape);
        let Some(left) = memory.checked_sub(weights).filter(|left| *left >= block) else {
            bail!(
                "the weights of {shape} in {kind} are {} ({weights} bytes), and the memory is {} ({memory} bytes): there is no room for \
                 keys and values; take a smaller weight type, a smaller shape or more --memory",
                say(weights),
                say(memory)
            );
        };
        let Some(asked) = self.kv_memory else { return Ok(left) };
        ensure!(asked >= block, "--kv-memory is {asked} bytes, and one block of {BLOCK_SIZE} tokens of {shape} takes {block}");
        ensure!(
            asked <= left,
            "--kv-memory is {}, and the weights of {shape} in {kind} ({}) leave {} of the memory ({})",
            say(asked),
            say(weights),
            say(left),
            say(memory)
        );
        Ok(asked)
    }

    /// What is simulated.
    ///
    /// # Errors
    /// When the weights do not fit, or the limits contradict each other.
    pub fn settle(&self) -> anyhow::Result<(Setup, Settings)> {
        let kv_memory = self.kv_bytes()?;
        let blocks = kv_memory / self.model.kv_block_bytes(BLOCK_SIZE);
        ensure!(
            blocks <= MAX_BLOCKS,
            "{} of keys and values are {blocks} blocks of {BLOCK_SIZE} tokens, and {MAX_BLOCKS} are the most: give less with --kv-memory",
            bytes(kv_memory as f64)
        );
        let limits = Limits {
            max_num_seqs: self.max_num_seqs,
            max_num_batched_tokens: self.max_num_batched_tokens.unwrap_or(DEFAULT_BATCHED_TOKENS.max(self.max_num_seqs)),
            prefill_chunk: self.prefill_chunk,
            max_model_len: self.max_model_len,
            max_waiting: self.max_waiting,
            watermark: self.watermark,
            policy: self.policy,
            mode: self.mode,
            prefix_cache: self.prefix_cache,
        };
        limits.check()?;
        let workload = self.workload();
        let settings = self.settings(&limits, kv_memory, blocks as usize, workload.requests);
        let cost = CostModel::new(self.model.clone(), &self.hardware);
        Ok((Setup { limits, num_blocks: blocks as usize, block_size: BLOCK_SIZE, cost, workload }, settings))
    }

    fn workload(&self) -> Workload {
        let requests = self.requests.unwrap_or_else(|| match &self.load {
            Load::Trace(rows) => rows.len() as u64,
            Load::Drawn(Arrivals::AtOnce) => DEFAULT_REQUESTS,
            Load::Drawn(_) if self.duration.is_some() => MAX_REQUESTS,
            Load::Drawn(Arrivals::Closed { .. }) => DEFAULT_REQUESTS.max(DEFAULT_REQUESTS_EACH * u64::from(self.users)),
            Load::Drawn(_) => DEFAULT_REQUESTS,
        });
        Workload {
            load: self.load.clone(),
            prompt: self.prompt,
            answer: self.answer,
            shared_prefix: self.shared_prefix,
            users: self.users,
            requests,
            duration: self.duration.map(nanoseconds),
            patience: self.patience.map(nanoseconds),
            seed: self.seed,
        }
    }

    fn settings(&self, limits: &Limits, kv_memory_bytes: u64, num_blocks: usize, requests_max: u64) -> Settings {
        let drawn = matches!(self.load, Load::Drawn(_));
        let Hardware { bandwidth, flops, .. } = self.hardware;
        Settings {
            shape: self.model.shape,
            weights: self.model.weight_type,
            kv_type: self.model.kv_format.name(),
            parameters: self.model.parameters,
            hardware: self.hardware.name.clone(),
            bandwidth_bytes_per_s: bandwidth,
            bandwidth_efficiency: self.hardware.bandwidth_efficiency,
            flops_per_s: flops,
            flops_efficiency: self.hardware.flops_efficiency,
            step_overhead_s: self.hardware.step_overhead,
            token_overhead_s: self.hardware.token_overhead,
            memory_bytes: self.hardware.memory,
            weight_bytes: self.model.memory_bytes,
            kv_memory_bytes,
            kv_bytes_per_token: self.model.kv_token_bytes,
            block_size: BLOCK_SIZE,
            num_blocks,
            max_num_seqs: limits.max_num_seqs,
            max_num_batched_tokens: limits.max_num_batched_tokens,
            prefill_chunk: limits.prefill_chunk,
            max_model_len: limits.max_model_len,
            max_waiting: limits.max_waiting,
            watermark: limits.watermark,
            policy: limits.policy.to_string(),
            batching: limits.mode.to_string(),
            prefix_cache: limits.prefix_cache,
            arrivals: match &self.load {
                Load::Drawn(law) => law.to_string(),
                Load::Trace(_) => self.arrivals.clone(),
            },
            requests_max,
            users: self.users,
            prompt_tokens: drawn.then(|| self.prompt.to_string()),
            new_tokens: drawn.then(|| self.answer.to_string()),
            shared_prefix: self.shared_prefix,
            duration_s: self.duration,
            patience_s: self.patience,
        }
    }
}

/// The hardware with the figures that were given by hand.
fn override_hardware(mut hardware: Hardware, args: &SimulateArgs) -> anyhow::Result<Hardware> {
    let given = [&args.bandwidth, &args.flops, &args.memory].iter().filter(|figure| figure.is_some()).count();
    match given {
        0 => {}
        3 => hardware.name = "as given".into(),
        _ => hardware.name.push_str(" (changed)"),
    }
    if let Some(text) = &args.bandwidth {
        hardware.bandwidth = quantity::bandwidth("--bandwidth", text)?;
    }
    if let Some(text) = &args.flops {
        hardware.flops = quantity::flops("--flops", text)?;
    }
    if let Some(text) = &args.memory {
        hardware.memory = quantity::size("--memory", text)?;
    }
    if let Some(share) = args.bandwidth_efficiency {
        hardware.bandwidth_efficiency = quantity::share("--bandwidth-efficiency", share)?;
    }
    if let Some(share) = args.flops_efficiency {
        hardware.flops_efficiency = quantity::share("--flops-efficiency", share)?;
    }
    if let Some(text) = &args.step_overhead {
        hardware.step_overhead = quantity::time("--step-overhead", text)?;
    }
    if let Some(text) = &args.token_overhead {
        hardware.token_overhead = quantity::time("--token-overhead", text)?;
    }
    Ok(hardware)
}

/// Arrivals as written, what they are, and how many people there are.
fn load(args: &SimulateArgs) -> anyhow::Result<(String, Load, u32)> {
    let users = args.users.map(|users| in_range("--users", users, 1, MAX_USERS)).transpose()?;
    let format = match Path::new(&args.arrivals).extension().and_then(|extension| extension.to_str()) {
        Some("csv") => Some(TraceFormat::Csv),
        Some("jsonl") => Some(TraceFormat::JsonLines),
        _ => None,
    };
    if let Some(format) = format {
        let rows = read_trace(&args.arrivals, format)?;
        let mut people: Vec<u32> = rows.iter().map(|row| row.user).collect();
        people.sort_unstable();
        people.dedup();
        return Ok((args.arrivals.clone(), Load::Trace(rows.into()), people.len() as u32));
    }
    let law = args.arrivals.parse().context("--arrivals")?;
    let (law, users) = match law {
        Arrivals::Closed { users: Some(own), .. } if users.is_some_and(|users| users != own) => {
            bail!("--arrivals {law} and --users {} are two numbers of people: give one", users.unwrap_or_default())
        }
        Arrivals::Closed { users: own, think } => {
            let users = own.or(users).unwrap_or(DEFAULT_USERS);
            (Arrivals::Closed { users: Some(users), think }, users)
        }
        law => (law, users.unwrap_or(DEFAULT_USERS)),
    };
    Ok((args.arrivals.clone(), Load::Drawn(law), users))
}

fn read_trace(name: &str, format: TraceFormat) -> anyhow::Result<Vec<TraceRow>> {
    let mut file = BufReader::new(std::fs::File::open(name).with_context(|| format!("cannot open {name}"))?);
    let mut reader = TraceReader::new(format);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let count = (&mut file).take(MAX_LINE + 1).read_until(b'\n', &mut line).with_context(|| format!("cannot read {name}"))?;
        if count == 0 {
            break;
        }
        let at = || format!("{name}, line {number}");
        ensure!(line.len() as u64 <= MAX_LINE, "{}: longer than {MAX_LINE} bytes", at());
        // A byte order mark, as some editors write one.
        let text = if number == 1 { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&line) } else { &line };
        reader.line(std::str::from_utf8(text).with_context(at)?).with_context(at)?;
    }
    reader.end().with_context(|| name.to_owned())
}
