//! What terminals send unasked, late or in pieces: the colour behind the text, where the cursor is, what they are called.
//! None of it is typed.

use std::time::Duration;

use crate::harness::*;

const REPORTS: [&str; 12] = [
    "\x1b]11;rgb:1e1e/1e1e/1e1e\x07",
    "\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\",
    "\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
    "\x1b[?62;22c",
    "\x1b[>0;276;0c",
    "\x1b[12;40R",
    "\x1b[I",
    "\x1b[O",
    "\x1bP>|XTerm(370)\x1b\\",
    "\x1bP!|00000000\x1b\\",
    "\x1b[?2026;2$y",
    "\x1b[?997;1n",
];

#[test]
fn reports_of_the_terminal_never_land_in_a_draft() {
    let mut terminal = Spec::room(&["--panes", "1"]).start();
    terminal.expect("live batch");
    for (round, report) in REPORTS.iter().enumerate() {
        terminal.keys(report);
        terminal.keys(&format!("word {round} "));
        terminal.expect(&format!("> word {round} "));
        // Late, and in pieces: after its ESC, in the middle, before its end.
        for cut in [1, 2, report.len() / 2, report.len() - 1] {
            terminal.raw(&report.as_bytes()[..cut]);
            std::thread::sleep(Duration::from_millis(150));
            terminal.raw(&report.as_bytes()[cut..]);
        }
        terminal.keys("end");
        terminal.wait("the draft alone", |screen| {
            let text = screen.contents();
            let line = text.lines().find(|line| line.contains(&format!("> word {round} end")));
            line.is_some_and(|line| !["rgb", "XTerm", ";", "276", "|00"].iter().any(|piece| line.contains(piece)))
        });
        terminal.keys(&ctrl('u'));
        terminal.absent("word");
    }
}

#[test]
fn esc_and_torn_keys_still_work() {
    let mut terminal = Spec::room(&["--panes", "2"]).start();
    terminal.expect("live batch");
    terminal.keys(F1);
    terminal.expect("Help");
    terminal.settle(Duration::from_millis(200));
    terminal.keys(ESC);
    terminal.absent("Help");
    terminal.keys("abc");
    terminal.expect("> abc");
    // The arrow's bytes come one by one: the cursor goes left, and nothing is written.
    for byte in [0x1b, b'[', b'D'] {
        terminal.raw(&[byte]);
        std::thread::sleep(Duration::from_millis(10));
    }
    terminal.keys("x");
    terminal.expect("> abxc");
}
