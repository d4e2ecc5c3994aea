//! `bench`: figures of every kind, refusals, and Ctrl-C.

use std::io::{BufRead, BufReader, Read};

use serde_json::Value;

use super::harness::{Ended, Home};

const SMALL: [&str; 9] = ["bench", "--model", "nano", "--users", "2,1", "--prompt-tokens", "8", "--new-tokens", "4"];

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

fn positive(value: &Value, key: &str) -> f64 {
    let number = value[key].as_f64().unwrap_or_else(|| panic!("{key} of {value} is a number"));
    assert!(number > 0.0 && number.is_finite(), "{key} is {number}");
    number
}

fn near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 1e-9
}

#[test]
fn json_has_every_figure_and_they_agree() {
    let home = Home::new();
    let objects = home.run(&[&SMALL[..], &["--json", "--threads", "2"]].concat()).objects();
    let [report] = objects.as_slice() else { panic!("one object: {objects:?}") };
    assert_eq!(keys(report), ["decode", "device", "memory_bandwidth_gb_per_s", "model", "prefill"]);
    assert_eq!(keys(&report["model"]), ["file", "name", "parameters", "sha256", "types", "weight_bytes"]);
    assert_eq!(keys(&report["device"]), ["cpu", "kernels", "threads"]);
    assert_eq!((report["device"]["threads"].as_u64(), report["model"]["sha256"].as_str().map(str::len)), (Some(2), Some(64)));
    let (weights, memory) = (positive(&report["model"], "weight_bytes"), positive(report, "memory_bandwidth_gb_per_s"));
    let decode = report["decode"].as_array().unwrap();
    assert_eq!(decode.iter().map(|row| row["users"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    let alone = positive(&decode[0], "tokens_per_s");
    for row in decode {
        let expected = [
            "bandwidth_gb_per_s",
            "bandwidth_share",
            "context",
            "speedup",
            "step_ms_median",
            "step_ms_p95",
            "steps",
            "tokens_per_s",
            "tokens_per_s_per_user",
            "users",
            "weight_bytes_per_token",
        ];
        assert_eq!(keys(row), expected);
        let (users, speed) = (positive(row, "users"), positive(row, "tokens_per_s"));
        assert_eq!((row["context"].as_u64(), row["steps"].as_u64()), (Some(8), Some(4)));
        assert!(positive(row, "step_ms_median") <= positive(row, "step_ms_p95"));
        assert!(near(positive(row, "tokens_per_s_per_user"), speed / users) && near(positive(row, "speedup"), speed / alone));
        assert!(near(positive(row, "weight_bytes_per_token"), weights / users));
        assert!(near(positive(row, "bandwidth_gb_per_s"), weights * speed / users / 1e9));
        assert!(near(positive(row, "bandwidth_share"), positive(row, "bandwidth_gb_per_s") / memory));
    }
    for (row, users) in report["prefill"].as_array().unwrap().iter().zip([1, 2]) {
        assert_eq!(keys(row), ["prompt_tokens", "tokens_per_s", "users"]);
        assert_eq!((row["users"].as_u64(), row["prompt_tokens"].as_u64()), (Some(users), Some(8)));
        positive(row, "tokens_per_s");
    }
}

#[test]
fn the_table_and_its_chart_go_through_a_pipe() {
    let home = Home::new();
    let text = home.run(&SMALL).ok();
    assert!(text.is_ascii(), "no locale is set: {text}");
    for part in ["model    batchroom nano: ", "users context steps", "\n    2       8     4 ", "##", "\nprefill\n"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let unicode = Ended::of(home.command(&SMALL).env("LANG", "en_US.UTF-8").output().unwrap()).ok();
    assert!(unicode.contains("██") && !unicode.contains("##"), "{unicode}");
}

#[test]
fn a_synthetic_model_needs_no_file() {
    let home = Home::new();
    let small = ["--users", "1", "--prompt-tokens", "2", "--new-tokens", "1", "--json"];
    let objects = home.run(&[&["bench", "--synthetic", "SmolLM2-135M"], &small[..]].concat()).objects();
    let model = &objects[0]["model"];
    assert_eq!((model["name"].as_str(), model["types"].as_str()), (Some("synthetic smollm2-135m"), Some("Q4_0")));
    assert_eq!((&model["file"], &model["sha256"]), (&Value::Null, &Value::Null));
    assert_eq!(model["parameters"].as_u64(), Some(134_515_008));
    assert_eq!(objects[0]["decode"][0]["steps"].as_u64(), Some(1));
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is() {
    let home = Home::new();
    let bench = |args: &[&str]| home.run(&[&["bench", "--model", "nano"], args].concat());
    bench(&["--users", "0"]).refused(&["--users has 0", "1 to 1024"]);
    bench(&["--users", "1,5000"]).refused(&["--users has 5000", "1 to 1024"]);
    bench(&["--new-tokens", "0"]).refused(&["--new-tokens is 0"]);
    bench(&["--prompt-tokens", "1000", "--new-tokens", "100"]).refused(&["1000", "100", "batchroom nano", "1024 tokens"]);
    bench(&["--device", "candle"]).refused(&["--device cpu"]);
    bench(&["--synthetic", "gpt-5"]).refused(&["`gpt-5`", "qwen2.5-0.5b", "llama-3-8b"]);
    bench(&["--synthetic", "smollm2-135m", "--type", "q9"]).refused(&["`q9`", "q4_0", "f16"]);
    bench(&["--synthetic", "qwen2.5-0.5b", "--type", "q4_k"]).refused(&["rows of 896", "256", "q4_0, q4_1", "q8_0"]);
    home.run(&["bench", "--model", "no-such.gguf"]).refused(&["no-such.gguf"]);
    // Twenty terabytes of keys and values: no machine has them.
    let large = ["--synthetic", "qwen2.5-72b", "--users", "1024", "--prompt-tokens", "30000"];
    bench(&large).refused(&["of memory", "of weights", "1024 users of 30064 tokens", "are available"]);
    for args in [["--users", "many"], ["--type", "q4_0"]] {
        assert_eq!(bench(&args).status, Some(2), "{args:?}");
    }
}

#[test]
fn ctrl_c_ends_it_with_what_there_is() {
    let home = Home::new();
    let args = ["bench", "--model", "nano", "--users", "1,256", "--prompt-tokens", "900", "--new-tokens", "100"];
    let mut child = home.command(&args).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    // One user has been measured; two hundred take seconds.
    while !text.contains("\n    1 ") {
        assert_ne!(out.read_line(&mut text).unwrap(), 0, "{text}");
    }
    // SAFETY: the child is ours and has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    out.read_to_string(&mut text).unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(130), ""), "{text}");
    assert!(text.contains("#") && text.contains("\nprefill\n") && !text.contains("\n  256 "), "{text}");
}
