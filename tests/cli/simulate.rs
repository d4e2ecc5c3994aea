//! `simulate`: figures that the documents count, a golden run, sweeps, files, refusals, Ctrl-C.

use std::io::{BufRead, BufReader, Read};

use serde_json::Value;

use super::harness::Home;

/// The chats of 4096 tokens of the documents, on a card of 24 GB.
const CHATS: [&str; 14] = [
    "simulate",
    "--shape",
    "qwen2.5-7b",
    "--memory",
    "24GB",
    "--requests",
    "200",
    "--prompt-tokens",
    "4080",
    "--new-tokens",
    "16",
    "--arrivals",
    "at-once",
    "--json",
];

fn json(home: &Home, args: &[&str]) -> Value {
    serde_json::from_str(&home.run(&[&["simulate", "--json"], args].concat()).ok()).expect("one object")
}

#[test]
fn a_card_of_24_gb_holds_37_chats_of_16_bit_weights_and_83_of_4_bits() {
    let home = Home::new();
    let text = home.run(&[&CHATS[..], &["--weights", "bf16"]].concat()).ok();
    assert!(text.contains("\"peak_running\": 37,"), "{text}");
    let four: Value = serde_json::from_str(&home.run(&[&CHATS[..], &["--weights", "q4_0"]].concat()).ok()).unwrap();
    assert!(matches!(four["peak_running"].as_u64(), Some(83 | 84)), "{four}");
    // With keys and values of 8 bits nearly twice as many; half of them fit in 32 bits.
    let with = |kv: &str| {
        let text = home.run(&[&CHATS[..], &["--weights", "bf16", "--kv-type", kv, "--prefill-chunk", "16"]].concat()).ok();
        serde_json::from_str::<Value>(&text).unwrap()["peak_running"].as_u64().unwrap()
    };
    assert_eq!((with("f32"), with("q8_0")), (18, 72));
}

#[test]
fn the_same_command_gives_the_same_figures() {
    let home = Home::new();
    // Nothing here draws a logarithm, whose last bit is the system's own.
    let args = ["--arrivals", "bursts:40@3", "--requests", "400", "--prompt-tokens", "50..900", "--new-tokens", "10..300"];
    let more = ["--kv-memory", "1.5GB", "--patience", "12s", "--max-num-seqs", "48", "--seed", "7", "--shared-prefix", "32"];
    let mut found = json(&home, &[&args[..], &more[..]].concat());
    assert!(found.as_object_mut().unwrap().remove("wall_s").unwrap().as_f64().unwrap() > 0.0);
    let number = |key: &str| found[key].as_u64().unwrap_or_else(|| panic!("{key} of {found}"));
    assert_eq!(number("requests"), number("completed") + number("refused") + number("cancelled"));
    assert!(number("preemptions") > 0 && number("cancelled") > 0, "{found}");
    insta::assert_snapshot!(serde_json::to_string_pretty(&found).unwrap());
    assert_ne!(json(&home, &[&args[..], &["--seed", "8"]].concat())["virtual_s"], found["virtual_s"]);
}

#[test]
fn text_and_charts_go_through_a_pipe() {
    let home = Home::new();
    let args = ["simulate", "--hardware", "h100", "--arrivals", "poisson:60", "--requests", "2000", "--patience", "10s"];
    let text = home.run(&args).ok();
    assert!(text.is_ascii(), "no locale is set: {text}");
    for part in [
        "model     qwen2.5-7b: 7.62 G parameters",
        "h100: 80.0 GB",
        "seed 1",
        "2,000 requests: ",
        "first token ",
        "##",
        "1us a token",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}

#[test]
fn a_sweep_has_a_table_and_a_knee() {
    let home = Home::new();
    let sweep = json(&home, &["--sweep", "users=2..128", "--points", "7", "--hardware", "a100-80gb", "--requests", "300"]);
    let points = sweep["points"].as_array().unwrap();
    let values: Vec<f64> = points.iter().map(|point| point["value"].as_f64().unwrap()).collect();
    assert_eq!(values, [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]);
    let speeds: Vec<f64> = points.iter().map(|point| point["tokens_per_s"].as_f64().unwrap()).collect();
    assert!(speeds.is_sorted(), "more people share each step: {speeds:?}");
    let power = |point: &Value| point["power"].as_f64().unwrap();
    let best = points.iter().max_by(|a, b| power(a).total_cmp(&power(b))).unwrap();
    assert_eq!(sweep["knee"], best["value"]);
    assert!(points.iter().zip(values).all(|(point, value)| point["settings"]["users"].as_f64() == Some(value)));

    let text = home.run(&["simulate", "--sweep", "max-num-seqs=4,64", "--arrivals", "poisson:20", "--requests", "200"]).ok();
    assert!(text.contains(" max-num-seqs ") && text.contains("\nknee: max-num-seqs ") && text.contains("##"), "{text}");
    let text = home.run(&["simulate", "--sweep", "kv-memory=1GB,4GB", "--requests", "50"]).ok();
    assert!(text.contains("1.0 GB") && text.contains("4.0 GB"), "{text}");
}

#[test]
fn files_are_loads_and_bad_rows_are_named() {
    let home = Home::new();
    let csv = home.file("load.csv", "time,prompt,output,user\n0,100,5,1\n2.5,200,6,2\n");
    let jsonl = home
        .file("load.jsonl", "{\"time\": 0, \"prompt\": 100, \"output\": 5}\n\n{\"time\": 2.5, \"prompt\": 200, \"output\": 6}\n");
    for file in [&csv, &jsonl] {
        let found = json(&home, &["--arrivals", file]);
        assert_eq!((found["completed"].as_u64(), found["generated_tokens"].as_u64()), (Some(2), Some(11)), "{found}");
        assert_eq!((found["prefill_tokens"].as_u64(), &found["settings"]["prompt_tokens"]), (Some(300), &Value::Null));
    }
    let refused = |name: &str, contents: &[u8], words: &[&str]| {
        let file = home.file(name, contents);
        home.run(&["simulate", "--arrivals", &file]).refused(&[&[name], words].concat());
    };
    refused("a.csv", b"time,prompt,output\n0,1,1\n1,zero,1\n", &["line 3", "prompt is `zero`"]);
    refused("b.csv", b"0,1\n", &["line 1", "time,prompt,output"]);
    refused("c.csv", b"", &["no requests"]);
    refused("d.csv", &[0xff, 0xfe, b'\n'], &["line 1", "utf-8"]);
    refused("e.csv", &b"1".repeat(1 << 20), &["line 1", "longer than 4096 bytes"]);
    refused(
        "f.jsonl",
        b"{\"time\": 0, \"prompt\": 1, \"output\": 1}\n{\"time\": -1, \"prompt\": 1, \"output\": 1}\n",
        &["line 2", "time is `-1`"],
    );
    refused("g.jsonl", b"{\"time\": 0}\n", &["line 1", "prompt"]);
    home.run(&["simulate", "--arrivals", "nowhere.csv"]).refused(&["cannot open nowhere.csv"]);
}

#[test]
fn what_cannot_be_simulated_is_refused_with_numbers() {
    let home = Home::new();
    let refused = |args: &[&str], words: &[&str]| home.run(&[&["simulate"], args].concat()).refused(words);
    refused(&["--shape", "llama-3.1-70b"], &["141.1 GB", "24.0 GB", "24000000000 bytes", "llama-3.1-70b", "BF16"]);
    refused(&["--memory", "15231233025"], &["15231233024 bytes", "no room for keys and values"]);
    refused(&["--kv-memory", "20GB"], &["--kv-memory is 20.0 GB", "8.8 GB", "15.2 GB"]);
    refused(&["--kv-memory", "1MB", "--shape", "llama-2-7b"], &["1000000 bytes", "8388608"]);
    refused(&["--memory", "900TB", "--shape", "smollm2-135m"], &["blocks", "--kv-memory"]);
    refused(&["--shape", "gpt-5"], &["`gpt-5`", "qwen2.5-7b"]);
    refused(&["--weights", "q9"], &["`q9`", "q4_0"]);
    refused(&["--weights", "q4_k", "--shape", "qwen2.5-0.5b"], &["896", "q8_0"]);
    refused(&["--hardware", "abacus"], &["`abacus`", "rtx-4090", "this-machine"]);
    refused(&["--kv-type", "q2"], &["`q2`", "q8_0"]);
    refused(&["--arrivals", "poisson:0"], &["--arrivals", "`poisson:0`", "bursts:SIZE@SECONDS"]);
    refused(&["--arrivals", "closed:5", "--users", "6"], &["--users 6", "closed:5"]);
    refused(&["--prompt-tokens", "0"], &["--prompt-tokens", "`0`"]);
    refused(&["--requests", "0"], &["--requests is 0", "1000000000"]);
    refused(&["--users", "9999999"], &["--users is 9999999"]);
    refused(&["--max-num-seqs", "0"], &["--max-num-seqs is 0"]);
    refused(&["--max-num-seqs", "100", "--max-num-batched-tokens", "50"], &["max_num_batched_tokens (50)", "(100)"]);
    refused(&["--max-model-len", "40000"], &["--max-model-len is 40000", "32768"]);
    refused(&["--bandwidth", "fast"], &["--bandwidth is `fast`", "1008GB/s"]);
    refused(&["--flops-efficiency", "1.5"], &["--flops-efficiency is 1.5"]);
    refused(&["--sweep", "speed=1..2"], &["--sweep", "prefill-chunk"]);
    refused(&["--sweep", "users=1..9", "--arrivals", "at-once"], &["closed", "at-once"]);
    refused(&["--sweep", "users=1..9", "--users", "5"], &["--sweep users", "--users", "give one of them"]);
    refused(&["--sweep", "max-num-seqs=1..9", "--max-num-seqs", "5"], &["--max-num-seqs", "give one of them"]);
    refused(&["--sweep", "rate=1..9"], &["poisson", "closed"]);
    refused(&["--sweep", "kv-memory=1GB..20GB"], &["--kv-memory is", "8.8 GB"]);
    assert_eq!(home.run(&["simulate", "--points", "4"]).status, Some(2), "points of what?");
}

#[test]
fn this_machines_configuration_counts_only_when_it_is_named() {
    let home = Home::new();
    let file = home.file("config/batchroom/config.toml", "max_num_seqs = 2\n");
    let seats = |args: &[&str]| json(&home, &[args, &["--requests", "20"]].concat())["settings"]["max_num_seqs"].as_u64();
    assert_eq!((seats(&[]), seats(&["--config", &file])), (Some(256), Some(2)));
    assert_eq!(seats(&["--config", &file, "--max-num-seqs", "3"]), Some(3));
    home.run(&["simulate", "--config", "nowhere.toml"]).refused(&["nowhere.toml"]);
}

#[test]
fn ctrl_c_ends_it_with_what_there_is() {
    let home = Home::new();
    let args = ["simulate", "--arrivals", "poisson:5", "--requests", "1000000000", "--new-tokens", "500"];
    let mut child = home.command(&args).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("seed 1") {
        assert_ne!(out.read_line(&mut text).unwrap(), 0, "{text}");
    }
    // It has begun; now it is certainly in the middle.
    std::thread::sleep(std::time::Duration::from_millis(300));
    // SAFETY: the child is ours and has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    out.read_to_string(&mut text).unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(130), ""), "{text}");
    assert!(text.contains("first token ") && text.contains("stopped before its end"), "{text}");
}
