//! `--record` and `replay`: what is written, what comes out again, and what is refused.

use serde_json::Value;

use super::harness::{Home, greedy};

fn state(home: &Home, args: &[&str]) -> Value {
    let mut objects = home.run(&[&["replay", "a.trace", "--json"], args].concat()).objects();
    assert_eq!(objects.len(), 1);
    objects.remove(0)
}

/// Little memory and four prompts with one beginning: preemption and prefix hits.
fn recorded(home: &Home) -> Vec<Value> {
    let lines: Vec<String> = (1..=4)
        .map(|n| {
            format!("{{\"id\":\"q{n}\",\"user\":\"user-{n}\",\"prompt\":\"Tell me a long story about a wise old wizard. {n}\"}}")
        })
        .collect();
    home.file("q.jsonl", lines.join("\n"));
    let args = ["--prompts", "q.jsonl", "--json", "--ignore-eos", "--max-tokens", "90", "--kv-memory", "600KiB"];
    home.run(&greedy(&[&args[..], &["--record", "a.trace"]].concat())).objects()
}

#[test]
fn what_ask_said_is_replayed() {
    let home = Home::new();
    let answers = recorded(&home);
    let end = state(&home, &[]);
    assert_eq!((end["state"].as_str(), end["cut"].as_str()), (Some("stopped"), None));
    assert_eq!(end["totals"]["finished"], 4);
    assert!(end["totals"]["preemptions"].as_u64().unwrap() > 0, "{}", end["totals"]);
    let chats = end["chats"].as_array().unwrap();
    assert_eq!(chats.len(), 4);
    for (answer, chat) in answers.iter().zip(chats) {
        let turn = &chat["turns"][0];
        assert_eq!((&turn["answer"], &turn["end"]), (&answer["text"], &answer["finish_reason"]));
        assert!(turn["prompt"].as_str().unwrap().starts_with("Tell me a long story"));
        assert!(chat["name"].as_str().unwrap().starts_with("user-"));
    }
    let preemptions: u64 = answers.iter().map(|answer| answer["preemptions"].as_u64().unwrap()).sum();
    assert_eq!(end["totals"]["preemptions"], preemptions);
    let steps = end["frames"].as_u64().unwrap();
    assert_eq!(end["step"], steps);
    let middle = state(&home, &["--step", "20"]);
    assert_eq!((middle["step"].as_u64(), middle["state"].as_str()), (Some(20), Some("running")));
    assert_eq!(middle["last_step"]["step"], 20);
    let kv = &middle["kv"];
    let parts: u64 = ["used", "cached", "free"].iter().map(|part| kv[part].as_u64().unwrap()).sum();
    assert_eq!(kv["total"], parts);
    assert_eq!(state(&home, &["--step", "0"])["running"], 0);
    home.run(&["replay", "a.trace", "--json", "--step", "99999"]).refused(&["--step is 99999", &steps.to_string()]);
}

#[cfg(unix)]
#[test]
fn a_trace_is_for_its_owner_and_overwrites_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let args = greedy(&["--max-tokens", "3", "--record", "a.trace", "Say hello."]);
    home.run(&args).ok();
    let path = home.path().join("a.trace");
    let before = std::fs::read(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    home.run(&args).refused(&["--record a.trace is there already", "remove it"]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let nowhere = greedy(&["--max-tokens", "3", "--record", "no/such/folder", "Say hello."]);
    home.run(&nowhere).refused(&["--record: cannot write no/such/folder"]);
}

#[test]
fn what_is_no_trace_is_refused() {
    let home = Home::new();
    home.run(&["replay", "a.trace", "--json"]).refused(&["cannot read a.trace"]);
    home.file("a.trace", "hello\n");
    home.run(&["replay", "a.trace", "--json"]).refused(&["a.trace is no trace of batchroom"]);
    home.file("a.trace", "{\"batchroom_trace\":7,\"future\":true}\n");
    home.run(&["replay", "a.trace", "--json"]).refused(&["newer version", "7"]);
    home.run(&["replay", "a.trace"]).refused(&["the replay needs a terminal", "batchroom replay --json"]);
}

#[test]
fn a_damaged_line_is_named() {
    let home = Home::new();
    home.run(&greedy(&["--max-tokens", "8", "--record", "a.trace", "Say hello."])).ok();
    let text = std::fs::read_to_string(home.path().join("a.trace")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[3] = "{\"step\":{\"n\":\"two\"}}";
    home.file("a.trace", lines.join("\n") + "\n");
    home.run(&["replay", "a.trace", "--json"]).refused(&["a.trace, line 4: ", "column"]);
}
