//! The layers of ARCHITECTURE.md, and the size of files.

use std::path::{Path, PathBuf};

fn rust_files(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    assert!(!files.is_empty(), "{folder} has files");
    files
}

/// The code of a file, without comments and without its tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn must_not_name(folder: &str, words: &[&str]) {
    for path in rust_files(folder) {
        let code = code(&path);
        for word in words {
            assert!(!code.contains(word), "{} names {word}", path.display());
        }
    }
}

#[test]
fn the_scheduler_is_pure() {
    let impure =
        ["candle", "tokio", "std::time", "std::fs", "std::net", "std::thread", "Instant", "crate::model", "crate::engine"];
    must_not_name("src/scheduler", &impure);
}

#[test]
fn the_simulator_is_pure() {
    let impure =
        ["candle", "tokio", "std::time", "std::fs", "std::net", "std::thread", "Instant", "crate::engine", "crate::machine"];
    must_not_name("src/simulate", &impure);
    must_not_name("src/scheduler", &["crate::simulate"]);
}

#[test]
fn the_model_does_not_know_the_scheduler() {
    must_not_name("src/model", &["crate::scheduler", "crate::engine", "crate::ui"]);
}

#[test]
fn only_the_tensor_path_knows_candle() {
    for folder in ["src/engine", "src/scheduler", "src/ui", "src/text", "src/model/kernels", "src/model/llama", "src/model/gguf"]
    {
        must_not_name(folder, &["candle"]);
    }
}

#[test]
fn drawing_and_updating_know_data_only() {
    let engine = ["EngineHandle", "crate::scheduler", "crate::model", "crate::launch", "std::fs", "Instant::now", "tokio"];
    must_not_name("src/ui/view", &engine);
    must_not_name("src/ui/update", &engine);
    must_not_name("src/ui/rich", &engine);
    let data = [
        "state",
        "transcript",
        "turn",
        "talk",
        "editor",
        "params",
        "search",
        "save",
        "pick",
        "keep",
        "machine",
        "settings",
        "bots",
    ];
    for file in data.map(|name| format!("src/ui/{name}.rs")).into_iter().chain(["src/conversation.rs".to_owned()]) {
        let code = code(&Path::new(env!("CARGO_MANIFEST_DIR")).join(&file));
        for word in engine.into_iter().filter(|word| *word != "crate::scheduler") {
            assert!(!code.contains(word), "{file} names {word}");
        }
    }
}

#[test]
fn the_clock_is_read_where_it_may_be() {
    let allowed = [
        "src/engine/worker.rs",
        "src/engine/clock.rs",
        "src/ui/run.rs",
        "src/ui/keyboard/mod.rs",
        "src/ui/keyboard/tests.rs",
        "src/ui/player.rs",
        "src/room/lines.rs",
    ];
    for folder in ["src/engine", "src/ui", "src/room", "src/scheduler", "src/text", "src/replay"] {
        for path in rust_files(folder) {
            let name = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().to_string_lossy().into_owned();
            if !allowed.contains(&name.as_str()) {
                assert!(!code(&path).contains("Instant::now"), "{name} reads the clock");
            }
        }
    }
}

#[test]
fn what_a_replay_drives_is_pure() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in ["src/engine/core.rs", "src/replay/machine.rs", "src/replay/chat.rs", "src/ui/replay.rs"] {
        let code = code(&root.join(file));
        for word in ["tokio", "std::fs", "std::thread", "Instant", "SystemTime", "crate::model"] {
            assert!(!code.contains(word), "{file} names {word}");
        }
    }
}

#[test]
fn files_are_one_room_each() {
    for folder in ["src", "tests"] {
        for path in rust_files(folder) {
            let lines = std::fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines <= 700, "{} has {lines} lines", path.display());
        }
    }
}
