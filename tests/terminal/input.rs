//! Pastes, Vietnamese, emoji, and text that would like to command the terminal.

use std::time::Duration;

use crate::harness::*;

/// Two kilobytes in forty lines, in words that nano knows.
fn lines() -> Vec<String> {
    (1..=40).map(|number| format!("line {number:02} {}", "the cat ".repeat(6).trim_end())).collect()
}

/// The lines are one draft, then one prompt.
#[track_caller]
fn one_prompt(mut terminal: Terminal) {
    terminal.expect("line 40");
    terminal.settle(Duration::from_millis(200));
    assert!(!terminal.screen().contains('❯'), "sent before its time:\n{}", terminal.screen());
    terminal.keys(ENTER);
    terminal.expect("❯ line 01");
    terminal.expect("cut at max_tokens (3)");
    let screen = terminal.screen();
    assert_eq!(screen.matches('❯').count(), 1, "{screen}");
    for line in lines() {
        assert_eq!(screen.matches(&line).count(), 1, "{line:?} in\n{screen}");
    }
}

fn chat_only() -> Terminal {
    let args = ["--panes", "1", "--pace", "full", "--max-tokens", "3", "--temperature", "0"];
    let mut terminal = Spec::room(&args).size(160, 60).start();
    terminal.expect("live batch");
    chats_only(&mut terminal);
    terminal
}

#[test]
fn a_marked_paste_is_one_draft() {
    let text = lines().join("\n");
    assert!(text.len() > 2000);
    let mut terminal = chat_only();
    terminal.paste(&text);
    one_prompt(terminal);
}

#[test]
fn a_paste_that_nobody_marked_is_one_draft() {
    let mut terminal = chat_only();
    terminal.keys(&lines().join("\r"));
    one_prompt(terminal);
}

#[test]
fn a_paste_in_pieces_is_one_draft() {
    let mut terminal = chat_only();
    // Short lines first: the end of each could be a person's Enter.
    for line in lines() {
        terminal.keys(&line);
        terminal.keys("\r");
    }
    terminal.expect("line 40");
    terminal.settle(Duration::from_millis(200));
    assert!(!terminal.screen().contains('❯'), "sent before its time:\n{}", terminal.screen());
}

#[test]
fn vietnamese_is_composed() {
    let mut terminal = Spec::room(&["--panes", "1"]).start();
    terminal.expect("live batch");
    let decomposed = "Xin cha\u{300}o, mo\u{302}\u{323}t ly\u{301} tra\u{300}";
    terminal.keys(decomposed);
    let composed = "Xin ch\u{e0}o, m\u{1ed9}t l\u{fd} tr\u{e0}";
    terminal.expect(&format!("> {composed}"));
    // Again, as a paste, and all drawn anew.
    terminal.keys(&ctrl('u'));
    terminal.absent("Xin");
    terminal.paste(decomposed);
    terminal.keys(&ctrl('l'));
    terminal.expect(&format!("> {composed}"));
    // The last character may not have come in full yet.
    let written = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    assert!(!written.contains(['\u{300}', '\u{301}', '\u{302}', '\u{323}']), "a combining mark was written");
}

#[test]
fn an_emoji_family_is_one_character() {
    let mut terminal = Spec::room(&["--panes", "1"]).start();
    terminal.expect("live batch");
    let family = "👨\u{200d}👩\u{200d}👧";
    terminal.paste(&format!("family {family}"));
    terminal.expect("family");
    let shown = |terminal: &Terminal| String::from_utf8_lossy(&terminal.bytes()).contains(family);
    terminal.settle(Duration::from_millis(100));
    assert!(shown(&terminal), "the family is not written as it is");
    // One Backspace takes all of it.
    terminal.keys("\x7f");
    terminal.keys("|");
    terminal.expect("family |");
}

/// Sequences that must never come from text: titles, colours of sixteen, device queries.
#[track_caller]
fn assert_obeys_nobody(terminal: &Terminal) {
    let written = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    for sequence in ["\x1b]", "\x1b[31m", "\x07", "\x1bP", "\u{9b}", "\x1b[6n"] {
        assert!(!written.contains(sequence), "{sequence:?} reached the terminal");
    }
}

const EVIL: &str = "\x1b]0;owned\x07\x1b[31mred\u{9b}31m";

#[test]
fn escape_sequences_in_a_paste_are_shown() {
    let mut terminal = Spec::room(&["--panes", "1", "--max-tokens", "3", "--pace", "full"]).start();
    terminal.expect("live batch");
    terminal.paste(EVIL);
    terminal.expect("␛]0;owned␇␛[31mred⟨9b⟩31m");
    terminal.keys(ENTER);
    terminal.expect("❯ ␛]0;owned␇␛[31mred");
    terminal.expect("cut at max_tokens (3)");
    assert_obeys_nobody(&terminal);
}

#[test]
fn escape_sequences_in_a_model_file_are_shown() {
    let nano = std::fs::read("assets/batchroom-nano.gguf").expect("the model");
    let folder = tempfile::tempdir().expect("a folder");
    // The file's name for itself: key, type of a string (8), length, string. The length stays, so that the rest of
    // the file stays where it is.
    let key = b"general.name\x08\x00\x00\x00";
    let at = nano.windows(key.len()).position(|window| window == key).expect("a name") + key.len();
    let title = b"\x1b]0;own\x07\x1b[1m";
    let length = u64::from_le_bytes(nano[at..at + 8].try_into().expect("eight bytes"));
    assert!(length >= title.len() as u64);
    let mut evil = nano.clone();
    evil[at + 8..at + 8 + title.len()].copy_from_slice(title);
    let path = folder.path().join("ev\x1b[31mil\x07.gguf");
    std::fs::write(&path, evil).expect("a copy");
    let terminal = Spec::room(&["--model", path.to_str().expect("UTF-8")]).size(200, 50).start();
    terminal.expect("live batch");
    terminal.expect("␛]0;own␇␛[1m");
    assert_obeys_nobody(&terminal);
}

/// As an input method sends it: a word in one burst, composed or not.
#[test]
fn vietnamese_typed_in_bursts_under_its_own_locale() {
    let mut terminal = Spec::room(&["--model", "nano"]).env("LANG", "vi_VN.UTF-8").start();
    terminal.expect("trợ giúp");
    terminal.keys("Tiếng Việt ");
    // The same letters decomposed: base letter, then its marks.
    terminal.keys("Vie\u{302}\u{323}t Nam đo\u{31b}n gia\u{309}n");
    terminal.expect("> Tiếng Việt Việt Nam đơn giản");
    terminal.keys("\x7f");
    terminal.expect("> Tiếng Việt Việt Nam đơn giả");
}
