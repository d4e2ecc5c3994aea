//! A recorded session of the room, looked at again.

use crate::harness::*;

/// Two chats in the room, recorded. Gives the file.
fn record(folder: &std::path::Path) -> String {
    let file = folder.join("room.trace").to_str().expect("UTF-8").to_owned();
    let args = ["--panes", "2", "--names", "Zoë,Minh", "--temperature", "0", "--max-tokens", "30", "--pace", "full"];
    let mut terminal = Spec::room(&[&args[..], &["--record", &file]].concat()).start();
    terminal.expect("live batch");
    terminal.send(LONG[0]);
    terminal.keys(TAB);
    terminal.send(LONG[1]);
    terminal.expect_times("cut at max_tokens (30)", 2);
    terminal.keys(&ctrl('c'));
    terminal.expect("Quit?");
    terminal.keys("y");
    assert_eq!(terminal.status(), 0);
    file
}

#[test]
fn a_session_is_replayed_forwards_and_backwards() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = record(folder.path());
    let answers = LONG.map(|prompt| ask(prompt, 30));
    let mut terminal = Spec::of(env!("CARGO_BIN_EXE_batchroom"), &["replay", &file]).start();
    for text in ["replay: step 0 of", "paused · 1x", "1 Zoë", "2 Minh", "Space play", "q quit", "Nothing has been asked yet."] {
        terminal.expect(text);
    }
    terminal.keys("\x1b[C");
    terminal.expect("replay: step 1 of");
    terminal.expect("❯ Write a story");
    terminal.keys(F3);
    terminal.expect("replay: step 2 of");
    terminal.keys("\x1b[F");
    terminal.expect_times("cut at max_tokens (30)", 2);
    for answer in &answers {
        terminal.expect(&first_words(answer, 4));
    }
    terminal.expect("■ stopped");
    terminal.keys("\x1b[D");
    terminal.wait("one step back", |screen| !screen.contents().contains("■ stopped"));
    terminal.keys("g5\r");
    terminal.expect("replay: step 5 of");
    terminal.absent("cut at max_tokens");
    // Nothing is typed into a recording.
    terminal.keys("hello");
    terminal.keys("g99999\r");
    terminal.expect("a step is a number from 0 to");
    terminal.absent("hello");
    terminal.keys("++ ");
    terminal.expect("4x");
    terminal.expect_times("cut at max_tokens (30)", 2);
    terminal.keys(F1);
    terminal.expect("go to a step by its number");
    terminal.keys(ESC);
    terminal.wait("no help", |screen| !screen.contents().contains("go to a step by its number"));
    terminal.keys(ESC);
    terminal.expect("Esc once more quits");
    terminal.keys(ESC);
    assert_eq!(terminal.status(), 0);
    terminal.assert_restored();
}
