//! The room in lines, at a terminal that cannot place text.

use crate::harness::*;

fn dumb(more: &[&str]) -> Terminal {
    let args = ["--plain", "--model", "nano", "--temperature", "0", "--panes", "2"];
    Spec::room(&[&args, more].concat()).env("TERM", "dumb").start()
}

#[test]
fn whole_lines_and_nothing_that_moves() {
    let mut terminal = dumb(&["--max-tokens", "20"]);
    terminal.expect("batchroom: batchroom nano answers ana, bình.");
    terminal.keys("@bình Say hello.\n");
    terminal.expect("nano to bình: ");
    terminal.expect("(bình: end of the answer, ");
    terminal.keys("/who\n");
    terminal.expect("2 bình: free");
    terminal.keys("\x04");
    assert_eq!(terminal.status(), 0);
    assert!(!terminal.bytes().contains(&0x1b), "no escape sequence");
}

#[test]
fn ctrl_c_stops_the_answers_and_then_the_program() {
    let mut terminal = dumb(&["--max-tokens", "900", "--pace", "30"]);
    terminal.expect("/help lists the commands.");
    terminal.keys(&format!("/all {}\n", LONG[0]));
    terminal.expect("nano to ana: ");
    terminal.keys("Another one.\n");
    terminal.expect("ana is still being answered: this is sent afterwards.");
    terminal.keys(&ctrl('c'));
    terminal.expect("Stopping the answers.");
    terminal.expect("(ana: stopped after ");
    terminal.expect("(bình: stopped after ");
    terminal.keys(&ctrl('c'));
    assert_eq!(terminal.status(), 130);
}
