//! What leaves the screen: the clipboard, files, the person's own editor.

use crate::harness::*;

const ALT_C: &str = "\x1bc";
const ALT_M: &str = "\x1bm";
const ALT_O: &str = "\x1bo";
const ALT_W: &str = "\x1bw";

fn room() -> Spec {
    Spec::room(&["--model", "nano", "--panes", "1", "--temperature", "0", "--max-tokens", "4", "--pace", "full"])
}

#[track_caller]
fn written(terminal: &Terminal, what: &str) {
    terminal.wait(&format!("{what:?} among the bytes"), |_| true);
    let end = std::time::Instant::now() + PATIENCE;
    while !String::from_utf8_lossy(&terminal.bytes()).contains(what) {
        assert!(std::time::Instant::now() < end, "{what:?} was not written");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_copy_goes_to_the_terminal_and_through_tmux() {
    for tmux in [false, true] {
        let spec = if tmux { room().env("TMUX", "/tmp/tmux-0/default,1,0") } else { room() };
        let mut terminal = spec.start();
        terminal.send("Hello there");
        terminal.expect("Alt-G goes on");
        terminal.keys(ALT_C);
        terminal.expect("OSC 52");
        terminal.keys(ALT_M);
        terminal.expect("Esc leaves");
        terminal.raw(b"\x1b[A");
        terminal.keys("c");
        written(&terminal, "\x1b]52;c;SGVsbG8gdGhlcmU=\x07");
        assert_eq!(String::from_utf8_lossy(&terminal.bytes()).contains("\x1bPtmux;\x1b\x1b]52;c;"), tmux);
    }
}

#[test]
fn the_draft_goes_to_an_editor_and_comes_back() {
    let mut terminal = room().env("VISUAL", "sed -i s/draft/edited/").start();
    terminal.keys("my draft");
    terminal.expect("> my draft");
    terminal.keys(ALT_O);
    terminal.expect("> my edited");
    terminal.keys("!");
    terminal.expect("> my edited!");
    terminal.keys(&ctrl('c'));
    terminal.expect("quit");
    terminal.keys("y");
    assert_eq!(terminal.status(), 0);
    terminal.assert_restored();
}

#[test]
fn an_editor_that_crashes_leaves_its_modes_to_nobody() {
    let editor = "f() { stty raw -echo; kill -SEGV $$; }; f";
    let mut terminal = room().env("VISUAL", editor).start();
    terminal.keys("my draft");
    terminal.expect("> my draft");
    terminal.keys(ALT_O);
    terminal.expect("as it was");
    terminal.keys(&ctrl('c'));
    terminal.expect("quit");
    terminal.keys("y");
    assert_eq!(terminal.status(), 0);
    terminal.assert_restored();
}

#[test]
fn an_editor_has_the_keyboard_to_itself_and_a_private_file() {
    let editor = "f() { stat -c %a \"$1\" > mode; read line; echo \"$line $(cat mode)\" > \"$1\"; }; f";
    let mut terminal = room().env("EDITOR", editor).start();
    terminal.expect("Type a prompt");
    for round in ["one", "two", "three"] {
        terminal.keys(ALT_O);
        terminal.wait("the alternate screen to be left", |screen| !screen.alternate_screen());
        // The modes follow what is written.
        within_patience("a terminal as a shell has it", || terminal.cooked());
        terminal.keys(&format!("typed {round}\n"));
        terminal.expect(&format!("> typed {round} 600"));
        terminal.wait("the screen", |screen| screen.alternate_screen());
    }
}

#[test]
fn an_editor_that_fails_changes_nothing() {
    for editor in ["false", "no-such-editor-at-all"] {
        let mut terminal = room().env("VISUAL", editor).start();
        terminal.keys("my draft");
        terminal.expect("> my draft");
        terminal.keys(ALT_O);
        terminal.expect("the draft is as it was");
        terminal.expect("> my draft");
        terminal.keys("!");
        terminal.expect("> my draft!");
    }
}

#[test]
fn answers_go_on_while_an_editor_is_open() {
    let mut terminal = room().env("EDITOR", "f() { read line; echo \"$line\" > \"$1\"; }; f").start();
    terminal.keys("Hello there");
    terminal.expect("> Hello there");
    terminal.keys(ENTER);
    terminal.keys(ALT_O);
    terminal.wait("the alternate screen to be left", |screen| !screen.alternate_screen());
    terminal.keys("back\n");
    terminal.expect("> back");
    terminal.expect("Alt-G goes on");
}

#[test]
fn a_conversation_is_written_to_a_file_once() {
    let mut terminal = room().start();
    terminal.send("Hello there");
    terminal.expect("Alt-G goes on");
    for first in [true, false] {
        terminal.keys(ALT_W);
        terminal.expect("batchroom-ana.md");
        terminal.keys(ENTER);
        if first {
            terminal.expect("written, for your eyes only: ");
        } else {
            terminal.expect("is there already");
            terminal.keys(ESC);
        }
    }
}

/// An answer that was cut and goes on is the answer that was not cut: nothing of the prompt stands between.
#[test]
fn an_answer_that_goes_on_is_the_whole_answer() {
    let whole = ask("Hello there", 8);
    let words = whole.split_whitespace().count() - 1;
    let mut terminal = room().size(160, 36).start();
    terminal.send("Hello there");
    terminal.expect("Alt-G goes on");
    assert!(!terminal.screen().contains(&first_words(&whole, words)), "it was cut: {}", terminal.screen());
    terminal.keys("\x1bg");
    terminal.expect(&first_words(&whole, words));
    terminal.keys("\x1br");
    terminal.expect("2/2");
    terminal.keys("\x1b,");
    terminal.expect("1/2");
    terminal.expect(&first_words(&whole, words));
}
