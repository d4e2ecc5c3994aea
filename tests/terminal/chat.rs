//! Chats side by side, the engine's keys, stopping, preemption.

use std::time::Duration;

use crate::harness::*;

#[test]
fn opens_on_nano_without_network_or_question() {
    let terminal = Spec::room(&[]).start();
    for text in ["nano", "live batch", "users", "ana", "bình", "chi", "dũng", "○ idle", "Ctrl-G fetches", "F1 help"] {
        terminal.expect(text);
    }
    terminal.expect_times("Type below, then Enter.", 4);
    terminal.settle(Duration::from_millis(200));
    terminal.absent("y or Ctrl-C");
}

#[test]
fn two_panes_are_answered_in_one_batch() {
    let answers = LONG.map(|prompt| ask(prompt, 40));
    let mut terminal = Spec::room(&["--panes", "2", "--temperature", "0", "--max-tokens", "40"]).start();
    terminal.expect("live batch");
    terminal.send(LONG[0]);
    terminal.keys(TAB);
    terminal.send(LONG[1]);
    terminal.wait("both decoding", |screen| user_is(screen, "ana", "decode") && user_is(screen, "bình", "decode"));
    terminal.expect("0 prompt + 2 decode");
    for answer in &answers {
        terminal.expect(&first_words(answer, 4));
    }
    terminal.expect_times("cut at max_tokens (40)", 2);
    terminal.wait("both ended", |screen| user_is(screen, "ana", "done: length") && user_is(screen, "bình", "done: length"));
}

#[test]
fn pause_step_and_pace() {
    let mut terminal = Spec::room(&["--panes", "1", "--temperature", "0"]).start();
    terminal.expect("paced 15 steps/s");
    terminal.send(LONG[0]);
    terminal.wait("decoding", |screen| user_is(screen, "ana", "decode"));
    terminal.keys(F2);
    terminal.expect("‖ paused");
    let at = terminal.step();
    terminal.settle(Duration::from_millis(300));
    assert_eq!(terminal.step(), at, "the step number moves while paused");
    for more in 1..=2 {
        terminal.keys(F3);
        terminal.wait("one step more", |screen| step(screen) == Some(at + more));
        terminal.settle(Duration::from_millis(300));
        assert_eq!(terminal.step(), at + more, "more than one step");
    }
    terminal.expect("‖ paused");
    terminal.keys(F4);
    terminal.expect("paced 8.0 steps/s");
    terminal.keys(F5);
    terminal.expect("paced 15 steps/s");
    terminal.keys(F5);
    terminal.expect("paced 30 steps/s");
    terminal.keys(F2);
    terminal.expect("▶ running");
    terminal.wait("steps again", |screen| step(screen) > Some(at + 2));
    terminal.keys(F6);
    terminal.absent("paced");
    terminal.wait("the end", |screen| user_is(screen, "ana", "done:"));
}

#[test]
fn ctrl_c_stops_one_answer_and_then_asks() {
    let mut terminal = Spec::room(&["--panes", "2", "--temperature", "0"]).start();
    terminal.expect("live batch");
    terminal.send(LONG[0]);
    terminal.keys(TAB);
    terminal.send(LONG[1]);
    terminal.wait("both decoding", |screen| user_is(screen, "ana", "decode") && user_is(screen, "bình", "decode"));
    terminal.keys(&ctrl('c'));
    terminal.expect("– stopped");
    terminal.wait("bình stopped", |screen| user_is(screen, "bình", "cancelled"));
    let at = terminal.step();
    terminal.wait("ana goes on", |screen| step(screen) > Some(at + 3) && user_is(screen, "ana", "decode"));

    terminal.keys(&ctrl('c'));
    terminal.expect("Quit? One answer ends here");
    terminal.keys("n");
    terminal.absent("Quit?");
    terminal.keys(&ctrl('c'));
    terminal.expect("Quit?");
    terminal.keys(&ctrl('c'));
    assert_eq!(terminal.status(), 0);
    terminal.assert_restored();
}

/// The focused pane's text without its frame, when it is alone on the screen, as one line.
fn alone(screen: &vt100::Screen) -> String {
    let (_, columns) = screen.size();
    let rows: Vec<String> = screen.rows(1, columns - 2).collect();
    rows.iter().flat_map(|row| row.trim_matches(['┃', '│', '▌']).split_whitespace()).collect::<Vec<_>>().join(" ")
}

#[test]
fn preempted_answers_are_what_they_would_be_alone() {
    // Six blocks of sixteen tokens: two such answers do not fit together, one does.
    let max = 70;
    let args = ["--kv-memory", "150KiB", "--panes", "2", "--temperature", "0", "--pace", "full"];
    let max_tokens = max.to_string();
    let answers = LONG.map(|prompt| ask(prompt, max));
    let mut terminal = Spec::room(&[&args[..], &["--max-tokens", &max_tokens]].concat()).size(200, 60).start();
    terminal.expect("live batch");
    // Both are asked before the first step.
    terminal.keys(F2);
    terminal.expect("‖ paused");
    terminal.send(LONG[0]);
    terminal.keys(TAB);
    terminal.send(LONG[1]);
    terminal.keys(F2);
    terminal.expect_times(&format!("cut at max_tokens ({max})"), 2);
    terminal.wait("a preemption in the events", |screen| {
        machine(screen).iter().any(|row| row.contains("preempted for ") || row.contains("preempted, no block"))
    });
    terminal.wait("a preemption in a pane", |screen| screen.contents().contains("preempted 1×"));

    // One pane alone on the screen, for its whole text.
    chats_only(&mut terminal);
    terminal.keys(&ctrl('o'));
    for answer in answers.iter().rev() {
        let wanted = answer.split_whitespace().collect::<Vec<_>>().join(" ");
        terminal.wait(&format!("{wanted:?}"), |screen| alone(screen).contains(&wanted));
        terminal.keys(TAB);
    }
}
