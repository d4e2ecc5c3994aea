//! What is printed to the program's standard output and standard error while the screen is up: never on the screen. On Linux
//! anybody may open a process's descriptors, and write what a library would.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::time::Duration;

use crate::harness::*;

fn lead(terminal: &Terminal, fd: i32) -> String {
    let link = std::fs::read_link(format!("/proc/{}/fd/{fd}", terminal.pid())).expect("a descriptor");
    link.to_string_lossy().into_owned()
}

fn print(terminal: &Terminal, fd: i32, text: &str) {
    let path = format!("/proc/{}/fd/{fd}", terminal.pid());
    let mut file = std::fs::File::options().write(true).open(path).expect("a descriptor");
    file.write_all(text.as_bytes()).expect("it is taken");
}

#[test]
fn what_libraries_print_is_in_the_log_and_not_on_the_screen() {
    let mut terminal = Spec::room(&["--panes", "1", "--log", "room.log"]).start();
    terminal.expect("live batch");
    let log = terminal.home().join("room.log");
    for fd in [1, 2] {
        assert!(lead(&terminal, fd).starts_with("pipe:"), "{}", lead(&terminal, fd));
    }
    print(&terminal, 1, "stray words of a library\n");
    print(&terminal, 2, "\x1b[2J\x1b]0;owned\x07stray complaint\n");
    // A line that has no end yet.
    print(&terminal, 2, "stray without an end");
    terminal.settle(Duration::from_millis(500));
    assert!(!String::from_utf8_lossy(&terminal.bytes()).contains("stray"), "{}", terminal.screen());
    terminal.keys("\x1bl");
    for words in ["printed: stray words of a library", "␛[2J␛]0;owned␇stray complaint", "printed: stray without an end"] {
        terminal.expect(words);
    }
    assert!(!String::from_utf8_lossy(&terminal.bytes()).contains("\x1b]0;owned"));
    terminal.keys(ESC);
    terminal.absent("printed: stray");
    terminal.keys(&ctrl('c'));
    terminal.expect("Quit?");
    terminal.keys("y");
    assert_eq!(terminal.status(), 0);
    terminal.assert_restored();
    let log = std::fs::read_to_string(log).expect("a log");
    assert!(log.contains("stray complaint"), "{log}");
    assert!(log.contains("stray words of a library") && !log.contains('\x1b'), "{log:?}");
}

/// Megabytes that a library prints hold up nobody, and the log stays small.
#[test]
fn a_library_that_never_stops_printing_holds_up_nothing() {
    let mut terminal = Spec::room(&["--panes", "1", "--temperature", "0", "--pace", "full", "--max-tokens", "60"]).start();
    terminal.expect("live batch");
    terminal.keys("hello");
    terminal.expect("> hello");
    let path = format!("/proc/{}/fd/1", terminal.pid());
    let printer = std::thread::spawn(move || {
        let mut file = std::fs::File::options().write(true).open(path).expect("a descriptor");
        (0..100_000).for_each(|line| writeln!(file, "flood {line} {}", "x".repeat(80)).expect("it is taken"));
    });
    terminal.keys(ENTER);
    terminal.expect("❯ hello");
    terminal.wait("the answer's end", |screen| {
        screen.contents().contains("cut at max_tokens") || user_is(screen, "ana", "finished") || user_is(screen, "ana", "done")
    });
    printer.join().expect("nine megabytes are taken");
    terminal.settle(Duration::from_millis(500));
    terminal.keys("\x1bl");
    terminal.expect("more lines, which are left out");
}

/// Whoever the terminal is lent to has the real one.
#[test]
fn the_shell_and_an_editor_have_the_real_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let editor = folder.path().join("editor");
    std::fs::write(
        &editor,
        "#!/bin/sh\nled=$(readlink /proc/$$/fd/1)\necho $led > $0.out\ntest -t 1 && test -t 2 && echo from the editor > $1\n",
    )
    .expect("a script");
    let mut mode = std::fs::metadata(&editor).expect("a script").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&editor, mode).expect("a mode");
    let mut terminal = Spec::room(&["--panes", "1"]).env("EDITOR", editor.to_str().expect("UTF-8")).start();
    terminal.expect("live batch");
    for _ in 0..3 {
        terminal.keys("\x1bo");
        terminal.expect("> from the editor");
        terminal.keys(&ctrl('u'));
        terminal.absent("from the editor");
        assert!(lead(&terminal, 1).starts_with("pipe:"), "caught again");
    }
    let led = std::fs::read_to_string(folder.path().join("editor.out")).expect("the editor's word");
    assert!(led.starts_with("/dev/"), "{led}");
}
