//! The conversations that are kept, and the room in lines that makes them.

use serde_json::Value;

use crate::harness::*;

/// Nano, short and greedy, in a home that keeps what was said.
fn plain(home: &Home, more: &[&str], input: &str) -> Ended {
    let args = ["--plain", "--model", "nano", "--temperature", "0", "--max-tokens", "12"];
    home.run_with_input(&[&args, more].concat(), input.as_bytes())
}

#[test]
fn lines_in_lines_out() {
    let home = Home::new();
    let out = plain(&home, &[], "Say hello.\n@2 Who are you?\n@nobody hi\n/nonsense\n/status\n//tmp is a folder\n").ok();
    for words in [
        "batchroom: batchroom nano answers ana, bình, chi, dũng.",
        "ana: Say hello.",
        "nano to ana: ",
        "nano to bình: ",
        "Nobody here is called nobody",
        "There is no command /nonsense",
        "The engine is ",
        "ana: /tmp is a folder",
        "(ana: end of the answer, 12 tokens, the first after ",
    ] {
        assert!(out.contains(words), "no {words:?} in\n{out}");
    }
    assert!(!out.contains('\x1b'), "nothing moves");
    let answers = home.run(&["history", "search", "hello", "--json"]).objects();
    assert_eq!(answers[0]["conversation"]["person"], "ana");
    assert_eq!(home.run(&["history", "list", "--json"]).objects().len(), 2);

    // The second time the panes are as they were left, and the conversation goes on.
    let out = plain(&home, &[], "And then?\n").ok();
    assert!(out.contains("4 panes of the last session are open again"), "{out}");
    let shown = home.run(&["history", "show", "1"]).ok();
    assert!(shown.contains("ana: Say hello.") && shown.contains("ana: And then?"), "{shown}");
    let vietnamese = home.command(&["--plain", "--model", "nano", "--new"]).env("LANG", "vi_VN.UTF-8").output();
    assert!(vietnamese.is_ok_and(|output| output.status.success()));
}

#[test]
fn nothing_is_kept_when_history_is_off() {
    let home = Home::new();
    let out = plain(&home, &["--history", "false"], "Say hello.\n").ok();
    assert!(out.contains("history is off"), "{out}");
    let ended = home.run(&["history", "list"]);
    assert_eq!((ended.status, ended.out.as_str()), (Some(0), ""));
    assert!(ended.err.contains("there are no conversations yet"), "{}", ended.err);
    home.run(&["history", "show", "1"]).refused(&["there are no conversations yet", "batchroom.db"]);
}

#[test]
fn out_and_in_again() {
    let home = Home::new();
    plain(&home, &[], "Đường về nhà ở đâu?\n@chi Say hello.\n").ok();
    assert!(home.run(&["history", "search", "duong ve"]).ok().contains("Đường về nhà"));
    let markdown = home.run(&["history", "export", "1"]).ok();
    assert!(markdown.starts_with("# ") && markdown.contains("\n## nano\n"), "{markdown}");
    home.run(&["history", "export", "--format", "json", "--output", "all.json"]).ok();
    home.run(&["history", "export", "--format", "json", "--output", "all.json"]).refused(&["all.json", "exists already"]);
    let other = home.path().join("other.db");
    let other = other.to_str().expect("UTF-8");
    home.run(&["history", "import", "all.json", "--data", other]).ok();
    let texts = |data: &[&str]| -> Vec<Value> {
        let args = [&["history", "list", "--json"], data].concat();
        let mut titles: Vec<Value> = home.run(&args).objects().into_iter().map(|line| line["title"].clone()).collect();
        titles.sort_by_key(ToString::to_string);
        titles
    };
    assert_eq!(texts(&["--data", other]), texts(&[]));

    home.file("bad.json", "{\"batchroom_conversations\":1,\"conversations\":[{\"person\":1}]}");
    home.run(&["history", "import", "bad.json"]).refused(&["bad.json", "no export of batchroom"]);
    home.run(&["history", "import", "nowhere.json"]).refused(&["cannot read nowhere.json"]);
    home.run(&["history", "show", "99"]).refused(&["there is no conversation 99"]);
    home.run(&["history", "rm", "1"]).refused(&["nobody can be asked here", "--yes"]);
    home.run(&["history", "rm", "1", "99", "--yes"]).refused(&["there is no conversation 99"]);
    assert_eq!(texts(&[]).len(), 2, "all or none");
    assert!(home.run(&["history", "rm", "1", "--yes"]).ok().contains("1 conversation is removed"));
    assert_eq!(texts(&[]).len(), 1);
    assert_eq!(home.run(&["history", "rm"]).status, Some(2));
}

/// More than are listed at once.
#[test]
fn all_are_removed() {
    let home = Home::new();
    let one = "{\"person\":\"ana\",\"system\":null,\"created_unix_ms\":1,\"updated_unix_ms\":2,\"leaf\":0,\"messages\":[{\"node\":0,\
               \"parent\":null,\"role\":\"user\",\"text\":\"hello\",\"created_unix_ms\":1}]}";
    let all = vec![one; 1_203].join(",");
    home.file("all.json", format!("{{\"batchroom_conversations\":1,\"conversations\":[{all}]}}"));
    home.run(&["history", "import", "all.json"]).ok();
    home.run(&["history", "rm", "--all"]).refused(&["nobody can be asked here"]);
    assert!(home.run(&["history", "rm", "--all", "--yes"]).ok().contains("1203 conversations are removed"));
    assert_eq!(home.run(&["history", "list", "--json"]).objects().len(), 0);
    assert!(home.run(&["history", "rm", "--all", "--yes"]).err.contains("nothing to remove"));
}

/// What is given as a prompt is one, with slashes too.
#[test]
fn a_prompt_for_a_state_is_no_command() {
    let home = Home::new();
    let args = ["--once", "--json", "--model", "nano", "--temperature", "0", "--max-tokens", "4", "--panes", "1", "--prompt"];
    for prompt in ["/help", "/etc/hosts, what is it?", "//x", "/quit"] {
        let state = home.run(&[&args[..], &[prompt]].concat()).objects().remove(0);
        let turn = &state["chats"][0]["turns"][0];
        assert_eq!(turn["prompt"], prompt);
        assert!(turn["answer"].as_str().is_some_and(|answer| !answer.is_empty()), "{prompt}: {state}");
    }
    let ended = home.run(&[&["--readonly"], &args[..], &["hi"]].concat());
    assert_eq!((ended.status, ended.out.as_str()), (Some(2), ""), "{}", ended.err);
    assert!(ended.err.contains("--prompt") && ended.err.contains("--readonly"), "{}", ended.err);
}

#[test]
fn slashes_and_bots_in_lines() {
    let home = Home::new();
    let out = plain(&home, &["--panes", "1"], "//help me\n@1 /quit\n").ok();
    assert_eq!(out.matches("(ana: end of the answer, 12 tokens").count(), 2, "{out}");
    // Bots are at it meanwhile, and nobody waits for them.
    let more = ["--panes", "1", "--bots", "3", "--bots-pause", "0", "--record", "bots.trace"];
    plain(&home, &more, "Say hello.\nAnd then?\n").ok();
    let after = home.run(&["replay", "bots.trace", "--json"]).objects().remove(0);
    let names: Vec<&Value> = after["chats"].as_array().expect("chats").iter().map(|chat| &chat["name"]).collect();
    assert!(names.contains(&&"bot 1".into()), "{after}");
}

#[test]
fn a_read_only_room_writes_nothing() {
    let home = Home::new();
    let data = home.path().join("kept.db");
    let data = data.to_str().expect("UTF-8");
    let out = plain(&home, &["--readonly", "--data", data], "Say hello.\n/step 3\n").ok();
    assert!(out.contains("read-only") && !out.contains("nano to ana"), "{out}");
    assert!(!std::path::Path::new(data).exists());
    plain(&home, &["--data", data], "Say hello.\n").ok();
    let kept = home.run(&["history", "list", "--json", "--data", data]).out;
    plain(&home, &["--readonly", "--data", data], "Say hello.\n").ok();
    assert_eq!(home.run(&["history", "list", "--json", "--data", data]).out, kept);
}

#[test]
fn a_state_for_scripts() {
    let home = Home::new();
    let args = ["--once", "--json", "--model", "nano", "--temperature", "0", "--max-tokens", "6", "--panes", "3"];
    let state = home.run(&args).objects().remove(0);
    assert_eq!((&state["state"], &state["chats"][2]["name"]), (&"idle".into(), &"chi".into()));
    let state = home.run(&[&args[..], &["--prompt", "Say hello."]].concat()).objects().remove(0);
    assert_eq!((&state["totals"]["finished"], &state["running"]), (&3.into(), &0.into()));
    for chat in state["chats"].as_array().expect("chats") {
        let turn = &chat["turns"][0];
        assert_eq!((&turn["prompt"], &turn["end"]), (&"Say hello.".into(), &"length".into()));
        assert!(turn["answer"].as_str().is_some_and(|answer| !answer.is_empty()) && turn["prompt_tokens"].as_u64() > Some(0));
    }
    assert_eq!(home.run(&["--once"]).status, Some(2));
    home.run(&["--new", "ask", "x"]).refused(&["--new, --plain and --once are of the room"]);
}

#[test]
fn options_are_written_and_shown() {
    let home = Home::new();
    let path = home.run(&["config", "path"]).ok();
    assert!(path.trim_end().ends_with("config/batchroom/config.toml"), "{path}");
    home.run(&["config", "init"]).ok();
    home.run(&["config", "init"]).refused(&["config.toml", "is there already"]);
    let written = std::fs::read_to_string(path.trim_end()).expect("a file");
    assert_eq!(written, include_str!("../../config.example.toml"));
    std::fs::write(path.trim_end(), "pace = 30\ntop_k = 5\nkv_memory = \"1MiB\"\n").expect("a file");
    let shown = home.run(&["--top-k", "7", "--memory-utilization", "0.5", "config", "show", "--json"]).objects().remove(0);
    let option =
        |key: &str| (shown["options"][key]["value"].clone(), shown["options"][key]["from"].as_str().unwrap_or("").to_owned());
    assert_eq!(option("pace"), ("30".into(), "file".into()));
    assert_eq!(option("top_k"), (7.into(), "flag".into()));
    assert_eq!(option("memory_utilization"), (0.5.into(), "flag".into()));
    assert_eq!(option("kv_memory").1, "default", "put aside by the flag");
    assert_eq!(option("max_tokens"), (512.into(), "default".into()));
    home.run(&["--panes", "99", "config", "show"]).refused(&["panes is `99`"]);
}

#[test]
fn shells_and_man_know_the_commands() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = home.run(&["completions", shell]).ok();
        assert!(script.contains("history") && script.contains("max-num-seqs"), "{shell}");
    }
    assert_eq!(home.run(&["completions", "tcsh"]).status, Some(2));
    assert!(home.run(&["man"]).ok().contains(".TH batchroom 1"));
    home.run(&["man", "pages"]).ok();
    for page in ["batchroom.1", "batchroom-history-search.1", "batchroom-ask.1"] {
        assert!(home.path().join("pages").join(page).exists(), "{page}");
    }
}

#[test]
fn a_database_that_cannot_be_written_is_said() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let home = Home::new();
    let folder = home.path().join("kept");
    std::fs::create_dir(&folder).expect("a folder");
    let data = folder.to_str().expect("UTF-8");
    plain(&home, &["--data", data], "Say hello.\n").ok();
    let allow = |path: &std::path::Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our own");
    };
    allow(home.path(), 0o755);
    allow(&folder.join("batchroom.db"), 0o444);
    allow(&folder, 0o555);
    let mut command = home.command(&["--plain", "--model", "nano", "--max-tokens", "4", "--data", data]);
    // Root may write anywhere.
    // SAFETY: a plain system call.
    if unsafe { libc::geteuid() } == 0 {
        command.uid(65_534).gid(65_534);
    }
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().expect("the program starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), b"Say hello.\n").expect("it reads");
    let out = Ended::of(child.wait_with_output().expect("it ends")).ok();
    allow(&folder, 0o755);
    assert!(out.contains("batchroom.db cannot be written") && out.contains("Nothing of this session is kept."), "{out}");
    assert!(out.contains("nano to ana: "), "the chat works: {out}");
    assert_eq!(home.run(&["history", "list", "--json", "--data", data]).objects().len(), 1);
}

/// A pipe today is a terminal tomorrow: what people and models wrote commands neither; JSON stays exact.
#[test]
fn nothing_that_is_shown_commands_a_terminal() {
    let home = Home::new();
    let evil = "a\\u001b]0;owned\\u0007 \\u009b31m\\u007f\\u202e end";
    let file = |created: &str, written: &str| {
        format!(
            "{{\"batchroom_conversations\":1,\"conversations\":[{{\"person\":\"{evil}\",\"system\":null,\"created_unix_ms\":{created},\
             \"updated_unix_ms\":2,\"leaf\":0,\"messages\":[{{\"node\":0,\"parent\":null,\"role\":\"user\",\"text\":\"{evil}\",\
             \"created_unix_ms\":{written}}}]}}]}}"
        )
    };
    home.file("evil.json", file("1", "1"));
    home.run(&["history", "import", "evil.json"]).ok();
    let wild = |text: &str| text.chars().any(|c| matches!(c, '\u{1b}' | '\u{7}' | '\u{7f}'..='\u{9f}' | '\u{202e}'));
    let exact = "a\u{1b}]0;owned\u{7} \u{9b}31m\u{7f}\u{202e} end";
    for args in [
        &["history", "list"][..],
        &["history", "show", "1"],
        &["history", "search", "owned"],
        &["history", "export", "1"],
        &["history", "list", "--json"],
        &["history", "show", "1", "--json"],
        &["history", "search", "owned", "--json"],
        &["history", "export", "1", "--format", "json"],
    ] {
        let out = home.run(args).ok();
        assert!(out.contains("owned") && !wild(&out), "{args:?}: {out:?}");
    }
    assert_eq!(home.run(&["history", "show", "1", "--json"]).objects()[0]["messages"][0]["text"], exact);
    home.run(&["history", "export", "1", "--format", "json", "--output", "all.json"]).ok();
    let mode = std::fs::metadata(home.path().join("all.json")).expect("a file").permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
    home.run(&["history", "import", "all.json"]).ok();
    assert_eq!(home.run(&["history", "show", "2", "--json"]).objects()[0]["person"], exact);

    for (created, written, words) in [
        ("99999999999999999", "1", "the time when it began is 99999999999999999"),
        ("1", "-62135596800001", "message 0 was written"),
    ] {
        home.file("late.json", file(created, written));
        home.run(&["history", "import", "late.json"]).refused(&["conversation 1", words, "a year from 1 to 9999"]);
    }
}
