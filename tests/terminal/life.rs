//! Ways to end, and what is then left of the terminal; and silence when nothing happens.

use std::time::{Duration, Instant};

use crate::harness::*;

/// A room in mid-answer.
fn busy() -> Terminal {
    let mut terminal = Spec::room(&["--panes", "2", "--temperature", "0"]).start();
    terminal.expect("live batch");
    terminal.send(LONG[0]);
    terminal.wait("decoding", |screen| user_is(screen, "ana", "decode"));
    terminal
}

#[track_caller]
fn ended_by(signal: i32) {
    let mut terminal = busy();
    terminal.signal(signal);
    assert_eq!(terminal.status(), 128 + signal as u32);
    terminal.assert_restored();
}

#[test]
fn sigterm_ends_it() {
    ended_by(libc::SIGTERM);
}

#[test]
fn sigint_ends_it() {
    ended_by(libc::SIGINT);
}

#[test]
fn sighup_ends_it() {
    ended_by(libc::SIGHUP);
}

#[test]
fn a_dropped_line_ends_it() {
    let mut terminal = busy();
    terminal.hang_up();
    assert_eq!(terminal.status(), 128 + libc::SIGHUP as u32);
}

#[test]
fn a_dropped_line_ends_it_when_nothing_happens() {
    let mut terminal = Spec::room(&[]).start();
    terminal.expect("live batch");
    terminal.settle(Duration::from_millis(200));
    terminal.hang_up();
    assert_eq!(terminal.status(), 128 + libc::SIGHUP as u32);
}

/// In a session of its own no signal tells the program that its terminal is gone; it must not go on reading nothing.
#[test]
fn a_dropped_line_that_nobody_tells_of_ends_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let code = folder.path().join("code");
    let script = format!("trap '' HUP; setsid --wait {} ; echo $? > {}", env!("CARGO_BIN_EXE_batchroom"), code.display());
    let mut terminal = Spec::of("sh", &["-c", &script]).start();
    terminal.expect("live batch");
    // Nothing more is written: writing would find out.
    terminal.settle(Duration::from_millis(300));
    terminal.hang_up();
    let end = Instant::now() + PATIENCE;
    let said = || std::fs::read_to_string(&code).ok().filter(|text| !text.is_empty());
    while said().is_none() {
        assert!(Instant::now() < end, "the program does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(said().as_deref(), Some("129\n"));
}

#[test]
#[cfg(debug_assertions)]
fn a_panic_is_reported_on_a_terminal_that_is_back() {
    let mut terminal = Spec::room(&[]).env("BATCHROOM_TEST_PANIC", "screen").start();
    assert_eq!(terminal.status(), 101);
    terminal.assert_restored();
    let screen = terminal.screen();
    assert!(screen.contains("asked for by BATCHROOM_TEST_PANIC"), "{screen}");
    assert!(screen.contains("run.rs"), "{screen}");
    // Lines begin at the left: the report came after the line discipline was back.
    assert!(screen.lines().any(|line| line.starts_with("thread 'main'")), "{screen}");
}

#[test]
fn nothing_is_written_when_nothing_happens() {
    let mut terminal = Spec::room(&["--max-tokens", "4", "--pace", "full"]).start();
    terminal.expect("live batch");
    terminal.settle(Duration::from_millis(400));
    let before = terminal.written();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(terminal.written(), before, "before the first prompt");

    terminal.send("Say hello.");
    terminal.expect("cut at max_tokens (4)");
    terminal.settle(Duration::from_millis(1200));
    let before = terminal.written();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(terminal.written(), before, "after the last answer");
}
