//! What the screen costs, and what it sends to the terminal: the same work with the screen (in a pseudo-terminal of 200x60,
//! at the default frame rate) and without (`--once`), in turn. Eight panes stream the answer to one prompt each.
//!
//!     cargo bench --bench screen -- [ROUNDS] [MODEL]
//!
//! Both record what the engine does; tokens per second are those of the steps in which all eight get a token, from the end of
//! the first to the end of the last, so that what happens between steps counts.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_batchroom");
const PROMPT: &str = "Write a story about a princess and a dragon.";
const PANES: usize = 8;
/// How long an answer may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(120);

/// Of one run.
struct Run {
    tokens_per_s: f64,
    /// Sent to the terminal while all eight decoded, bytes a second; 0 without a screen.
    bytes_per_s: f64,
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let rounds: usize = arguments.next().map_or(5, |rounds| rounds.parse().expect("a number of rounds"));
    let model = arguments.next().unwrap_or_else(|| "nano".to_owned());
    println!("{model}: {PANES} panes at 200x60; decode tokens per second of all of them");
    println!("{:>5} {:>10} {:>10} {:>7} {:>14}", "round", "without", "with", "cost", "to terminal");
    let mut costs = Vec::new();
    for round in 1..=rounds {
        let (without, with) = (without_screen(&model), with_screen(&model));
        let cost = (1.0 - with.tokens_per_s / without.tokens_per_s) * 100.0;
        println!(
            "{round:>5} {:>10.0} {:>10.0} {cost:>6.1}% {:>9.1} KB/s",
            without.tokens_per_s,
            with.tokens_per_s,
            with.bytes_per_s / 1e3
        );
        costs.push(cost);
    }
    costs.sort_by(f64::total_cmp);
    println!("median cost {:.1}%, from {:.1}% to {:.1}%", costs[costs.len() / 2], costs[0], costs[costs.len() - 1]);
}

fn arguments(model: &str, home: &Path) -> Vec<String> {
    let record = home.join("trace.jsonl");
    let fixed = ["--model", model, "--temperature", "0", "--max-tokens", "300", "--pace", "full", "--history", "false"];
    let rest = ["--panes", &PANES.to_string(), "--record", record.to_str().expect("UTF-8")].map(str::to_owned);
    fixed.map(str::to_owned).into_iter().chain(rest).collect()
}

fn without_screen(model: &str) -> Run {
    let home = tempfile::tempdir().expect("a folder");
    let status = Command::new(PROGRAM)
        .args(arguments(model, home.path()))
        .args(["--once", "--json", "--prompt", PROMPT])
        .stdout(Stdio::null())
        .status()
        .expect("the program starts");
    assert!(status.success(), "without a screen: {status}");
    Run { tokens_per_s: decode(home.path()).1, bytes_per_s: 0.0 }
}

fn with_screen(model: &str) -> Run {
    let home = tempfile::tempdir().expect("a folder");
    let pair = native_pty_system().openpty(PtySize { rows: 60, cols: 200, pixel_width: 0, pixel_height: 0 }).expect("a terminal");
    let mut command = CommandBuilder::new(PROGRAM);
    command.args(arguments(model, home.path()));
    command.env("TERM", "xterm-256color");
    let mut child = pair.slave.spawn_command(command).expect("the program starts");
    drop(pair.slave);
    let mut output = pair.master.try_clone_reader().expect("a reader");
    let mut keys = pair.master.take_writer().expect("a writer");
    let began = Instant::now();
    // Bytes and when they came.
    let reader = std::thread::spawn(move || {
        let (mut buffer, mut seen) = (vec![0; 1 << 16], Vec::new());
        while let Ok(count @ 1..) = output.read(&mut buffer) {
            seen.push((began.elapsed(), count));
        }
        seen
    });
    wait("its start", || trace(home.path()).iter().any(|line| line.get("user").is_some()));
    std::thread::sleep(Duration::from_millis(500));
    // F9: to all panes.
    keys.write_all(b"\x1b[20~").expect("it reads");
    keys.write_all(PROMPT.as_bytes()).expect("it reads");
    std::thread::sleep(Duration::from_millis(500));
    let sent = began.elapsed();
    keys.write_all(b"\r").expect("it reads");
    wait("the answers", || {
        let lines = trace(home.path());
        lines.iter().any(|line| line.get("step").is_some()) && lines.last().is_some_and(|line| line.get("idle").is_some())
    });
    keys.write_all(b"\x03").expect("it reads");
    std::thread::sleep(Duration::from_millis(300));
    keys.write_all(b"y").expect("it reads");
    let status = child.wait().expect("it ends");
    assert!(status.success(), "with a screen: {status:?}");
    drop(pair.master);
    let seen = reader.join().expect("the reader");
    let (decoded, tokens_per_s) = decode(home.path());
    let until = sent + decoded;
    let bytes: usize = seen.iter().filter(|(at, _)| (sent..until).contains(at)).map(|(_, count)| count).sum();
    Run { tokens_per_s, bytes_per_s: bytes as f64 / decoded.as_secs_f64() }
}

fn wait(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The lines of a recording that are whole.
fn trace(home: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(home.join("trace.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// How long all eight decoded, and tokens per second of all of them.
fn decode(home: &Path) -> (Duration, f64) {
    let lines = trace(home);
    let rows = |step: &Value| step["r"].as_array().map_or(0, Vec::len);
    let full = lines.iter().filter_map(|line| line.get("step")).filter(|step| rows(step) == PANES);
    let ends: Vec<u64> = full.filter_map(|step| Some(step["t"].as_u64()? + step["d"].as_u64()?)).collect();
    assert!(ends.len() > 20, "only {} steps in which all eight decode", ends.len());
    let took = Duration::from_micros(ends[ends.len() - 1] - ends[0]);
    (took, ((ends.len() - 1) * PANES) as f64 / took.as_secs_f64())
}
