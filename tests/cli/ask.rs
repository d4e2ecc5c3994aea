//! `batchroom ask`.

use std::io::{BufRead, BufReader, Read};

use serde_json::{Value, json};

use crate::harness::*;

const QUESTIONS: [&str; 16] = [
    "Say hello.",
    "Who are you?",
    "Tell me a story about a frog.",
    "What is the capital of France?",
    "Tell me a long story about a dog and a cat.",
    "1 + 1 = ?",
    "Why is the sky blue?",
    "Name three animals.",
    "What does a bird eat?",
    "Write a poem about the sea.",
    "How do I bake bread?",
    "What is a friend?",
    "Where do fish live?",
    "Xin chào, bạn khỏe không?",
    "Tell me about the moon.",
    "Count to five.",
];

fn line(value: Value) -> String {
    format!("{value}\n")
}

#[test]
fn greedy_answers_are_the_same_every_time() {
    let home = Home::new();
    let args = greedy(&["--max-tokens", "40", "Tell me a long story about a dog and a cat."]);
    let first = home.run(&args).ok();
    // Known since the model was made: another text means other arithmetic, another template or another tokenizer.
    assert!(first.starts_with("The cat was a little cat named Max who loved to play in the sun."), "{first}");
    assert_eq!(home.run(&args).ok(), first);
    let threads = [&args[..], &["--threads", "1", "--prefill-chunk", "3"]].concat();
    assert_eq!(home.run(&threads).ok(), first, "one thread, small chunks");
}

#[test]
fn a_seed_repeats_a_draw() {
    let home = Home::new();
    let args = ["ask", "--model", "nano", "--temperature", "1", "--seed", "7", "--max-tokens", "24", "Say hello."];
    let first = home.run(&args).ok();
    assert_eq!(home.run(&args).ok(), first);
    let other = args.map(|arg| if arg == "7" { "8" } else { arg });
    assert_ne!(home.run(&other).ok(), first);
}

#[test]
fn the_witness_says_the_same_of_answers_in_one_batch() {
    let answers =
        Home::new().run(&greedy(&["--json", "--witness", "--max-tokens", "12", "One", "Two", "Three", "Four"])).objects();
    assert_eq!(answers.len(), 4);
    for answer in &answers {
        assert!(answer["witness"].as_str().is_some_and(|verdict| verdict.starts_with("same: ")), "{answer}");
    }
    Home::new().run(&["ask", "--witness", "--device", "candle", "Hi"]).refused(&["--device cpu"]);
}

#[test]
fn who_has_a_higher_priority_goes_first_whatever_its_line() {
    let home = Home::new();
    let line = |at: usize| {
        // The first answer is long: all others are there when it ends.
        let tokens = if at == 0 { 200 } else { 4 };
        format!("{{\"id\":{at},\"prompt\":\"Say {at}\",\"max_tokens\":{tokens},\"priority\":{at},\"ignore_eos\":true}}")
    };
    let path = &*home.file("p.jsonl", (0..20).map(line).collect::<Vec<_>>().join("\n"));
    let answers = home
        .run(&["ask", "--json", "--model", "nano", "--policy", "priority", "--max-num-seqs", "1", "--prompts", path])
        .objects();
    let wait = |at: usize| answers[at]["queue_ms"].as_f64().expect("it got in");
    assert!(wait(19) < wait(10) && wait(10) < wait(1), "{:?}", (0..20).map(wait).collect::<Vec<_>>());
}

#[test]
fn json_has_these_fields() {
    let answers = Home::new().run(&greedy(&["--json", "--max-tokens", "8", "Say hello.", "Who are you?"])).objects();
    assert_eq!(answers.len(), 2);
    for (at, answer) in answers.iter().enumerate() {
        let fields: Vec<&str> = answer.as_object().expect("an object").keys().map(String::as_str).collect();
        let mut wanted = [
            "id",
            "text",
            "token_ids",
            "prompt_tokens",
            "finish_reason",
            "ttft_ms",
            "tokens_per_s",
            "cached_tokens",
            "preemptions",
            "queue_ms",
            "e2e_ms",
            "tpot_ms",
            "itl_ms",
            "predicted_ttft_ms",
            "note",
        ];
        wanted.sort_unstable();
        assert_eq!(fields, wanted);
        assert_eq!(answer["id"], at + 1);
        assert_eq!(answer["token_ids"].as_array().expect("ids").len(), 8);
        assert_eq!(answer["finish_reason"], "length");
        assert!(answer["prompt_tokens"].as_u64() > Some(8));
        assert!(answer["ttft_ms"].as_f64() > Some(0.0) && answer["tokens_per_s"].as_f64() > Some(0.0), "{answer}");
        assert!(!answer["text"].as_str().expect("a text").is_empty());
    }
}

#[test]
fn a_cut_answer_says_what_cut_it() {
    let home = Home::new();
    // One block is 24 KiB and holds 16 tokens.
    for (limit, value, reason, words) in [
        ("--max-tokens", "8", "length", "cut at max_tokens (8)"),
        ("--max-model-len", "40", "context_full", "cut: the context of 40 tokens is full"),
        ("--kv-memory", "75KiB", "kv_full", "cut: the whole KV memory is full (3 blocks of 16 tokens; --kv-memory gives more)"),
    ] {
        let args = ["--ignore-eos", limit, value, "Say hello."];
        let answer = home.run(&greedy(&[&["--json"], &args[..]].concat())).objects().remove(0);
        assert_eq!((&answer["finish_reason"], &answer["note"]), (&json!(reason), &json!(words)));
        let plain = home.run(&greedy(&args));
        assert_eq!((plain.status, plain.err), (Some(0), format!("batchroom: {words}\n")));
        assert!(!plain.out.contains("cut"), "{}", plain.out);
        let two = home.run(&greedy(&[&args[..], &["Say hello again."]].concat()));
        assert!(two.err.starts_with(&format!("batchroom: prompt 1: {words}\n")), "{}", two.err);
    }
    // One that ends by itself says nothing.
    let whole = home.run(&greedy(&["--json", "Say hello."])).objects().remove(0);
    assert_eq!((&whole["finish_reason"], whole.get("note")), (&json!("stop"), None));
}

#[test]
fn sixteen_prompts_in_one_batch_are_answered_as_one_by_one() {
    let home = Home::new();
    let file: String = QUESTIONS.iter().map(|question| line(json!({"prompt": question}))).collect();
    let path = home.file("questions.jsonl", file);
    let together = home.run(&greedy(&["--json", "--max-tokens", "24", "--prompts", &path])).objects();
    assert_eq!(together.len(), QUESTIONS.len());
    // One at a time: the next begins when the last has ended.
    let alone = home.run(&greedy(&["--json", "--max-tokens", "24", "--max-num-seqs", "1", "--prompts", &path])).objects();
    for (at, (one, other)) in together.iter().zip(&alone).enumerate() {
        assert_eq!(one["id"], at + 1, "answers come in the order of the prompts");
        assert_eq!(one["token_ids"], other["token_ids"], "{}", QUESTIONS[at]);
        assert_eq!(one["text"], other["text"]);
    }
    // And once in a process of its own.
    let single = home.run(&greedy(&["--json", "--max-tokens", "24", QUESTIONS[4]])).objects();
    assert_eq!(single[0]["token_ids"], together[4]["token_ids"]);
}

#[test]
fn draws_with_a_seed_do_not_depend_on_the_batch() {
    let home = Home::new();
    let prompt = |(at, text): (usize, &&str)| line(json!({"prompt": text, "temperature": 0.9, "seed": at, "max_tokens": 24}));
    let path = home.file("drawn.jsonl", QUESTIONS.iter().enumerate().map(prompt).collect::<String>());
    let args = ["ask", "--model", "nano", "--json", "--prompts", &path];
    let together = home.run(&args).objects();
    let alone = home.run(&[&args[..], &["--max-num-seqs", "1"]].concat()).objects();
    let greedy = home.run(&greedy(&["--json", "--max-tokens", "24", QUESTIONS[0], QUESTIONS[1], QUESTIONS[2]])).objects();
    for (one, other) in together.iter().zip(&alone) {
        assert_eq!(one["token_ids"], other["token_ids"]);
    }
    assert!(together.iter().zip(&greedy).any(|(drawn, best)| drawn["token_ids"] != best["token_ids"]), "nothing was drawn");
}

#[test]
fn little_memory_changes_no_answer() {
    let home = Home::new();
    let prompts = ["Tell me a long story about a dog and a cat.", "Say hello.", "Tell me about the moon."];
    let args = greedy(&[&["--json", "--max-tokens", "70", "--ignore-eos"], &prompts[..]].concat());
    let plenty = home.run(&args).objects();
    // Six blocks of sixteen tokens: one such answer fits, two do not.
    let little = home.run(&[&args[..], &["--kv-memory", "150KiB", "--log", "log"]].concat()).objects();
    for (one, other) in plenty.iter().zip(&little) {
        assert_eq!(one["token_ids"], other["token_ids"]);
        assert_eq!(one["token_ids"].as_array().map(Vec::len), Some(70));
    }
    let log = std::fs::read_to_string(home.path().join("log")).expect("a log");
    assert!(log.contains("Preempted"), "nobody was preempted:\n{log}");
}

#[test]
fn every_kind_of_line() {
    let home = Home::new();
    let known = home.run(&greedy(&["--json", "--max-tokens", "12", "Say hello."])).objects();
    let file = [
        line(json!({"id": "plain", "prompt": "Say hello."})),
        "\n".to_owned(),
        line(json!({"id": ["any", 1], "messages": [{"role": "user", "content": "Say hello."}]})),
        line(json!({"prompt_ids": [1, 830, 282, 201], "max_tokens": 5, "ignore_eos": true})),
        line(json!({"prompt": "Say hello.", "system": "Be kind.", "max_tokens": 3})),
    ];
    // All by standard input.
    let args = greedy(&["--json", "--max-tokens", "12", "--prompts", "-"]);
    let answers = home.run_with_input(&args, file.concat().as_bytes()).objects();
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!("plain"), &json!(["any", 1]), &json!(3), &json!(4)]);
    assert_eq!(answers[0]["token_ids"], known[0]["token_ids"]);
    assert_eq!(answers[1]["token_ids"], known[0]["token_ids"]);
    assert_eq!((&answers[2]["prompt_tokens"], answers[2]["token_ids"].as_array().map(Vec::len)), (&json!(4), Some(5)));
    assert!(answers[3]["prompt_tokens"].as_u64() > answers[0]["prompt_tokens"].as_u64(), "the system prompt counts");
}

#[test]
fn token_ids_are_taken_as_they_are() {
    // The golden prompt of the model's own tests, already in tokens.
    let golden: Value = serde_json::from_slice(&std::fs::read("tests/data/nano.golden.json").expect("a file")).expect("JSON");
    let case = &golden["cases"][0];
    let home = Home::new();
    let path = home.file("p.jsonl", line(json!({"prompt_ids": case["prompt"], "max_tokens": 10})));
    let args = ["ask", "--model", "nano", "--temperature", "0", "--repetition-penalty", "1", "--json", "--prompts", &path];
    let answers = home.run(&args).objects();
    // The reference computes in float32; the first tokens have wide margins.
    assert_eq!(answers[0]["token_ids"].as_array().expect("ids")[..4], case["greedy"].as_array().expect("ids")[..4]);
}

#[test]
fn stop_texts_and_end_of_text() {
    let home = Home::new();
    let full = home.run(&greedy(&["--max-tokens", "40", "Say hello."])).ok();
    let words: Vec<&str> = full.split(' ').collect();
    let stop = words[5];
    let ended =
        home.run(&greedy(&["--json", "--max-tokens", "40", "--stop", "never there", "--stop", stop, "Say hello."])).objects();
    assert_eq!(ended[0]["text"].as_str(), full.split(stop).next());
    assert_eq!(ended[0]["finish_reason"], "stop");

    // This answer ends by itself well before fifty tokens.
    let prompt = "Tell me a story about a frog.";
    let by_itself = home.run(&greedy(&["--json", "--max-tokens", "50", prompt])).objects();
    assert_eq!(by_itself[0]["finish_reason"], "stop");
    let on = home.run(&greedy(&["--json", "--max-tokens", "50", "--ignore-eos", prompt])).objects();
    assert_eq!((&on[0]["finish_reason"], on[0]["token_ids"].as_array().map(Vec::len)), (&json!("length"), Some(50)));
}

#[test]
fn the_prompt_can_come_by_standard_input() {
    let home = Home::new();
    let by_argument = home.run(&greedy(&["--max-tokens", "12", "Say hello."])).ok();
    assert_eq!(home.run_with_input(&greedy(&["--max-tokens", "12"]), b"Say hello.\n").ok(), by_argument);
    assert_eq!(home.run_with_input(&greedy(&["--max-tokens", "12", "-"]), b"Say hello.").ok(), by_argument);
    assert!(by_argument.ends_with('\n') && !by_argument.ends_with("\n\n"));
    home.run_with_input(&greedy(&[]), b" \n").refused(&["standard input is empty"]);
    home.run_with_input(&greedy(&[]), b"\xff\xfe").refused(&["standard input is not UTF-8"]);
}

#[test]
fn several_answers_come_in_order_under_their_prompts() {
    let out = Home::new().run(&greedy(&["--max-tokens", "30", "Say hello.", "Who are you?", "Name three animals."])).ok();
    let heads: Vec<&str> = out.lines().filter(|line| line.starts_with("## ")).collect();
    assert_eq!(heads, ["## 1: Say hello.", "## 2: Who are you?", "## 3: Name three animals."]);
}

#[test]
fn bad_lines_are_named() {
    let home = Home::new();
    let bad = |contents: &str, words: &[&str]| {
        let path = home.file("bad.jsonl", contents);
        home.run(&greedy(&["--prompts", &path])).refused(words);
    };
    bad("{\"prompt\": \"a\"}\n{\"promt\": \"b\"}\n", &["bad.jsonl, line 2", "promt"]);
    bad("{\"prompt\": \"a\"}\n\n{\"prompt\": }\n", &["bad.jsonl, line 3"]);
    bad("{\"prompt\": \"a\", \"temperature\": -1}\n", &["bad.jsonl, line 1", "temperature"]);
    bad("{\"messages\": [{\"role\": \"king\", \"content\": \"a\"}]}\n", &["bad.jsonl, line 1", "king"]);
    bad("\n", &["no prompts"]);
    bad("[1, 2]\n", &["bad.jsonl, line 1"]);
    home.run(&greedy(&["--prompts", "nowhere.jsonl"])).refused(&["cannot open nowhere.jsonl"]);
}

#[test]
fn what_cannot_be_answered_says_the_numbers() {
    let home = Home::new();
    let long = "the cat ".repeat(2000);
    let ended = home.run(&greedy(&[&long]));
    assert_eq!((ended.status, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    let numbers = |text: &str| text.split(|c: char| !c.is_ascii_digit()).filter(|piece| piece.len() >= 3).count();
    assert!(ended.err.contains("the prompt has") && ended.err.contains("context") && numbers(&ended.err) >= 2, "{ended:?}");
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");

    // Of several, only the impossible one fails.
    let several = home.run(&greedy(&["--json", "--max-tokens", "4", "Say hello.", &long]));
    assert_eq!(several.status, Some(1));
    let answers: Vec<Value> = several.out.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert_eq!((&answers[0]["finish_reason"], &answers[1]["finish_reason"]), (&json!("length"), &json!("rejected")));
    assert!(answers[1]["error"].as_str().is_some_and(|error| error.contains("the prompt has")));

    let path = home.file("ids.jsonl", line(json!({"prompt_ids": [1, 999_999]})));
    let unknown = home.run(&greedy(&["--prompts", &path]));
    assert!(unknown.status == Some(1) && unknown.err.contains("999999"), "{unknown:?}");
    let path = home.file("empty.jsonl", line(json!({"prompt_ids": []})));
    let empty = home.run(&greedy(&["--prompts", &path]));
    assert!(empty.status == Some(1) && empty.err.contains("the prompt is empty"), "{empty:?}");
    home.run(&greedy(&["--kv-memory", "10KiB", "Say hello."])).refused(&["kv_memory is 10240 bytes", "at least two blocks"]);
    let tiny = home.run(&greedy(&["--kv-memory", "50KiB", &"the cat ".repeat(30)]));
    assert!(tiny.status == Some(1) && tiny.err.contains("raise --kv-memory"), "{tiny:?}");
}

#[test]
fn a_signal_leaves_what_there_is() {
    let home = Home::new();
    let args = greedy(&["--max-tokens", "900", "--ignore-eos", "Tell me a long story about a dog and a cat."]);
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let mut child = home.command(&args).spawn().expect("the program starts");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        // It has begun.
        let mut begun = [0; 32];
        out.read_exact(&mut begun).expect("an answer");
        // SAFETY: a plain system call on our own child.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
        let mut rest = String::new();
        out.read_to_string(&mut rest).expect("UTF-8");
        assert!(rest.ends_with('\n'), "the last line is ended: {rest:?}");
        let output = child.wait_with_output().expect("the program ends");
        let said = &b"batchroom: stopped before all was answered\n"[..];
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(code), said));
    }
}

#[test]
fn standard_error_that_nobody_can_read_is_no_fault() {
    let home = Home::new();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let run = |args: &[&str]| home.command(args).stderr(full()).status().expect("the program starts").code();
    assert_eq!(run(&greedy(&["--max-tokens", "2", "Say hello."])), Some(0));
    assert_eq!(run(&["ask", "--model", "no/such/file", "Say hello."]), Some(1));
}

#[test]
fn an_interrupt_still_gives_objects() {
    let home = Home::new();
    let file = [
        line(json!({"prompt": "Say hello.", "max_tokens": 1})),
        line(json!({"prompt": "Say hello.", "max_tokens": 900, "ignore_eos": true})),
        line(json!({"prompt": "Who are you?", "max_tokens": 900, "ignore_eos": true})),
    ];
    let path = home.file("three.jsonl", file.concat());
    let args = greedy(&["--json", "--max-num-seqs", "1", "--prompts", &path]);
    let mut child = home.command(&args).spawn().expect("the program starts");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    // The first answer is there, the second has begun or will at once.
    let mut first = String::new();
    out.read_line(&mut first).expect("an answer");
    // SAFETY: a plain system call on our own child.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("UTF-8");
    let reasons: Vec<Value> = [first.as_str()]
        .into_iter()
        .chain(rest.lines())
        .map(|line| serde_json::from_str::<Value>(line).expect("a whole object")["finish_reason"].clone())
        .collect();
    assert_eq!(reasons[0], "length");
    assert!(reasons.len() <= 3 && reasons[1..].iter().all(|reason| reason == "cancelled"), "{reasons:?}");
    assert_eq!(child.wait().expect("the program ends").code(), Some(130));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let home = Home::new();
    for args in [
        greedy(&["--max-tokens", "400", "--ignore-eos", "Say hello."]),
        greedy(&["--json", "--max-tokens", "40", "Say hello.", "Who are you?", "Name three animals."]),
    ] {
        let mut child = home.command(&args).spawn().expect("the program starts");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut first = Vec::new();
        out.fill_buf().map(|bytes| first.extend_from_slice(bytes)).expect("an answer");
        drop(out);
        let output = child.wait_with_output().expect("the program ends");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
    }
}

/// Ids of the answers to `prompts`, `seats` at a time, from SmolLM2 in the user's own cache.
fn smollm2_ids(prompts: &str, seats: &str) -> Vec<serde_json::Value> {
    let cache = batchroom::hub::models_dir().expect("a cache");
    let cache = cache.parent().and_then(std::path::Path::parent).expect("two folders up");
    let home = Home::new();
    let file = home.file("prompts.jsonl", prompts);
    let args = ["ask", "--model", "smollm2", "--prompts", &file, "--json", "--max-num-seqs", seats];
    let output = home.command(&args).env("XDG_CACHE_HOME", cache).output().expect("the program starts");
    Ended::of(output).objects().into_iter().map(|answer| answer["token_ids"].clone()).collect()
}

#[test]
fn sixteen_together_on_smollm2_are_the_sixteen_one_by_one() {
    // Fetched by the program's own code, with the user's own network.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let progress = tokio::sync::watch::channel(batchroom::hub::Progress::default()).0;
    runtime.block_on(batchroom::hub::fetch(&batchroom::hub::SMOLLM2, progress)).expect("smollm2");
    let places = ["sea", "forest", "desert", "city", "river", "farm", "sky", "cave"];
    let line = |at: usize| {
        let text = format!("Name {} things that are found in the {}.", at + 2, places[at % 8]);
        json!({"prompt": text, "temperature": 0, "max_tokens": 12}).to_string()
    };
    let prompts = (0..16).map(line).collect::<Vec<_>>().join("\n");
    let together = smollm2_ids(&prompts, "16");
    assert_eq!(together.len(), 16);
    assert_eq!(together, smollm2_ids(&prompts, "1"));
}

#[test]
fn more_prompts_than_seats_are_all_answered() {
    let home = Home::new();
    let lines: Vec<String> = (0..300).map(|n| json!({"prompt": format!("hi {n}")}).to_string()).collect();
    let file = home.file("many.jsonl", lines.join("\n"));
    let args = ["ask", "--prompts", &file, "--json", "--max-tokens", "2", "--max-num-seqs", "64", "--max-waiting", "1"];
    let answers = home.run(&args).objects();
    assert_eq!(answers.len(), 300);
    assert!(answers.iter().all(|answer| answer.get("error").is_none()));
}
