//! Options, the configuration file, help, wrong usage.

use crate::harness::*;

#[test]
fn mistakes_in_the_file_are_shown() {
    let home = Home::new();
    let bad = |contents: &str, words: &[&str]| {
        let path = home.file("my.toml", contents);
        let ended = home.run(&["--config", &path, "ask", "Say hello."]);
        assert_eq!((ended.status, ended.out.as_str()), (Some(1), ""), "{ended:?}");
        for word in words.iter().chain(&["my.toml"]) {
            assert!(ended.err.contains(word), "no {word:?} in {ended:?}");
        }
        assert!(!ended.err.contains("panicked"), "{ended:?}");
    };
    bad("temprature = 0.5\n", &["my.toml:1: `temprature`", "did you mean `temperature`?"]);
    bad("panes = 3\nkv-memory = \"1GiB\"\n", &["my.toml:2:", "did you mean `kv_memory`?"]);
    bad("panes = 3\n\ntop_k = \"many\"\n", &["my.toml:3: top_k is the text \"many\"", "a whole number", "such as 40"]);
    bad("panes = \n", &["my.toml:1:", "TOML", "panes = 4"]);
    bad("fps = 30\n\npanes = 17\n", &["my.toml:3: panes is `17`: it must be from 1 to 16"]);
    bad("zzz = 1\n", &["zzz"]);
}

#[test]
fn values_out_of_range_are_refused() {
    let home = Home::new();
    let ask = |option: &str, value: &str| home.run(&["ask", "--model", "nano", option, value, "Say hello."]);
    ask("--kv-memory", "much").refused(&["kv_memory is `much`", "512MiB"]);
    ask("--memory-utilization", "1.5").refused(&["memory_utilization is `1.5`", "above 0 and at most 1"]);
    ask("--memory-utilization", "1e-12").refused(&["memory_utilization is 0.000000000001", "one block", "larger share"]);
    ask("--kv-type", "q4_0").refused(&["kv_type is `q4_0`", "f16, q8_0 or f32"]);
    home.run(&["ask", "--model", "nano", "--kv-memory", "1MiB", "--memory-utilization", "0.5", "Say hello."]).refused(&[
        "kv_memory",
        "memory_utilization",
        "give one of them",
    ]);
    ask("--threads", "0").refused(&["threads is `0`", "from 1 to 256"]);
    ask("--temperature", "nan").refused(&["temperature"]);
    ask("--top-p", "0").refused(&["top_p"]);
    ask("--max-tokens", "0").refused(&["max_tokens"]);
    ask("--max-model-len", "9999999").refused(&["max_model_len is 9999999", "context"]);
    home.run(&["--panes", "17"]).refused(&["panes is `17`", "from 1 to 16"]);
    home.run(&["--pace", "soon"]).refused(&["pace is `soon`"]);
}

#[test]
fn the_file_counts_and_a_flag_wins() {
    let home = Home::new();
    home.file("config/batchroom/config.toml", "max_tokens = 5\ntemperature = 0.0\nmodel = \"nano\"\n");
    let ids = |args: &[&str]| home.run(args).objects()[0]["token_ids"].as_array().map(Vec::len);
    assert_eq!(ids(&["ask", "--json", "Say hello."]), Some(5));
    assert_eq!(ids(&["ask", "--json", "--max-tokens", "3", "Say hello."]), Some(3));
    let other = home.file("other.toml", "max_tokens = 4\ntemperature = 0.0\nmodel = \"nano\"\n");
    assert_eq!(ids(&["ask", "--json", "--config", &other, "Say hello."]), Some(4));
    home.run(&["--config", "nowhere.toml", "ask", "Say hello."]).refused(&["cannot read nowhere.toml"]);
    home.run(&["--config", "/", "ask", "Say hello."]).refused(&["cannot read /"]);
}

#[test]
fn help_has_examples() {
    let home = Home::new();
    for (args, words) in [
        (&["--help"][..], &["Examples:", "batchroom --model smollm2 --panes 6", "--kv-memory", "Usage:"][..]),
        (&["ask", "--help"], &["Examples:", "--prompts questions.jsonl", "prompt_ids"]),
        (&["simulate", "--help"], &["Examples:", "poisson:RATE", "--sweep users=10..400", "Kleinrock", "--max-num-seqs [256]"]),
        (&["models", "--help"], &["Example:", "batchroom models pull smollm2"]),
    ] {
        let out = home.run(args).ok();
        for word in words {
            assert!(out.contains(word), "no {word:?} in {out}");
        }
    }
    assert_eq!(home.run(&["--version"]).ok(), format!("batchroom {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_usage_is_status_two() {
    let home = Home::new();
    for args in [
        &["--nonsense"][..],
        &["ask", "--max-tokens", "many", "x"],
        &["ask", "--prompts", "a", "b"],
        &["models"],
        &["models", "pull"],
        &["serve"],
    ] {
        let ended = home.run(args);
        assert_eq!((ended.status, ended.out.as_str()), (Some(2), ""), "{args:?}: {ended:?}");
        assert!(ended.err.contains("--help"), "{args:?}: {ended:?}");
    }
    // What a number is, in plain words.
    for (option, value, words) in [
        ("--panes", "many", "it must be a whole number, 0 or more"),
        ("--seed", "-1", "it must be a whole number, 0 or more"),
        ("--threads", "99999999999999999999", "the number is too large"),
        ("--temperature", "hot", "it must be a number"),
    ] {
        let ended = home.run(&[option, value]);
        assert!(ended.status == Some(2) && ended.err.contains(words), "{ended:?}");
    }
    let ended = home.run(&["ask", "--temprature", "0", "x"]);
    assert!(ended.status == Some(2) && ended.err.contains("--temperature"), "{ended:?}");
}

#[test]
fn the_log_goes_to_its_file_only() {
    let home = Home::new();
    let args = greedy(&["--max-tokens", "4", "--log", "batchroom.log", "Say hello."]);
    home.run(&args).ok();
    let log = std::fs::read_to_string(home.path().join("batchroom.log")).expect("a log");
    for words in ["engine starts", "Admitted", "Finished"] {
        assert!(log.contains(words), "no {words} in\n{log}");
    }
    assert!(!log.contains("hello"), "what people write is not in the log:\n{log}");
    let nowhere = home.run(&greedy(&["--log", "no/such/folder", "Say hello."]));
    nowhere.refused(&["cannot write the log to no/such/folder"]);
}
