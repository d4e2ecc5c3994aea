//! A terminal that takes its time, or nothing at all: the engine goes on, memory does not grow, signals are heard.

use std::time::{Duration, Instant};

use crate::harness::{F2, Spec};

/// The step that the timeline's title names.
fn step(screen: &str) -> u64 {
    let after = screen.split("live batch — step ").nth(1).unwrap_or_else(|| panic!("no step in:\n{screen}"));
    let digits: String = after.chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

#[test]
fn a_terminal_of_two_kilobytes_a_second_holds_up_nothing() {
    let mut room = Spec::room(&["--model", "nano", "--pace", "full", "--bots", "8", "--bots-pause", "0"]).start();
    room.wait("steps", |screen| screen.contents().contains("live batch — step "));
    room.expect("bot 8");
    let before = (step(&room.screen()), room.resident(), room.written());
    room.take_only(2048);
    let began = Instant::now();
    std::thread::sleep(Duration::from_secs(4));
    let written = room.written() - before.2;
    assert!(written < 2 * 2048 * 5, "the terminal was slow: {written} bytes");
    let grown = room.resident().saturating_sub(before.1);
    assert!(grown < 64 << 20, "{grown} bytes more");
    // A key is heard at once, though its frame is not seen at once: the engine is paused well before what is on its way here
    // has been read.
    room.keys(F2);
    std::thread::sleep(Duration::from_millis(300));
    let took = began.elapsed();
    room.take_only(usize::MAX);
    room.expect("paused");
    let steps = step(&room.screen()) - before.0;
    // At this speed a screen that waited for the terminal would have made a few dozen steps of its bots' answers.
    assert!(steps > 200, "{steps} steps in {took:?}");
}

#[test]
fn a_terminal_that_takes_nothing_does_not_keep_the_program_from_ending() {
    let mut room = Spec::room(&["--model", "nano", "--pace", "full", "--bots", "8", "--bots-pause", "0"]).size(200, 60).start();
    room.expect("bot 8");
    room.take_only(0);
    // Enough frames for the line to be full.
    std::thread::sleep(Duration::from_secs(2));
    room.signal(libc::SIGTERM);
    let began = Instant::now();
    let status = room.status_unread();
    assert_eq!(status, 128 + 15);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn a_slow_terminal_is_given_back_whole() {
    let args = ["--model", "nano", "--pace", "full", "--bots", "8", "--bots-pause", "0", "--mouse"];
    let mut room = Spec::room(&args).size(200, 60).start();
    room.expect("bot 8");
    room.take_only(2048);
    // Enough frames for the line to be full.
    std::thread::sleep(Duration::from_secs(2));
    room.signal(libc::SIGTERM);
    let status = room.status();
    assert_eq!(status, 128 + 15);
    room.take_only(usize::MAX);
    room.assert_restored();
    assert!(room.cooked(), "lines, echo, signals");
}
