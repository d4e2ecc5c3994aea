//! Ctrl-Z and fg under a real shell.

use crate::harness::*;

/// A shell without line editing: it sets no modes of its own, so what the program leaves is what there is.
fn shell() -> Terminal {
    let terminal = Spec::of("sh", &["-i"]).env("PS1", "shell> ").env("ENV", "").start();
    terminal.expect("shell>");
    terminal
}

fn restored(terminal: &Terminal) -> bool {
    let mut cooked = false;
    terminal
        .wait("the shell's screen", |screen| !screen.alternate_screen() && !screen.bracketed_paste() && !screen.hide_cursor());
    for _ in 0..100 {
        cooked = terminal.cooked();
        if cooked {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    cooked
}

fn open_in_shell(terminal: &mut Terminal) {
    terminal.keys(&format!("{} --panes 2 --temperature 0 --max-tokens 400\r", env!("CARGO_BIN_EXE_batchroom")));
    terminal.expect("live batch");
    terminal.send(LONG[0]);
    terminal.wait("decoding", |screen| user_is(screen, "ana", "decode"));
}

#[test]
fn ctrl_z_and_back_three_times() {
    let mut terminal = shell();
    open_in_shell(&mut terminal);
    for round in 1..=3 {
        terminal.keys(&ctrl('z'));
        terminal.wait("the shell", |screen| !screen.alternate_screen() && screen.contents().trim_end().ends_with("shell>"));
        assert!(restored(&terminal), "round {round}: the line discipline is not restored");
        // The shell takes a line and echoes it.
        terminal.keys(&format!("echo round-{round}-$((40 + {round}))\r"));
        terminal.expect(&format!("round-{round}-{}", 40 + round));
        terminal.keys("fg\r");
        terminal.wait("the room", |screen| screen.alternate_screen() && user_is(screen, "ana", "decode"));
        let at = terminal.step();
        terminal.wait("the answer goes on", |screen| step(screen) > Some(at));
        assert!(!terminal.cooked(), "round {round}: no raw mode");
    }
    terminal.keys(&ctrl('c'));
    terminal.expect("– stopped");
    terminal.keys(&ctrl('c'));
    terminal.expect("Quit?");
    terminal.keys("y");
    terminal.wait("the shell", |screen| !screen.alternate_screen() && screen.contents().trim_end().ends_with("shell>"));
    assert!(restored(&terminal), "after the end: the line discipline is not restored");
    terminal.keys("echo status-$?\r");
    terminal.expect("status-0");
    terminal.assert_restored();
    terminal.keys("exit\r");
    terminal.status();
}

/// Somebody else stops the program, which cannot give the terminal back; fg must still bring it all again.
#[test]
fn stopped_by_another_and_back() {
    let mut terminal = shell();
    open_in_shell(&mut terminal);
    let program = terminal.foreground();
    // SAFETY: a plain system call on the program that this test has started.
    assert_eq!(unsafe { libc::kill(program, libc::SIGSTOP) }, 0);
    terminal.expect("shell>");
    // What a shell with line editing does at its prompt.
    terminal.make_cooked();
    terminal.keys("fg\r");
    terminal.wait("the room", |screen| screen.alternate_screen() && user_is(screen, "ana", "decode"));
    terminal.keys(TAB);
    terminal.send(LONG[1]);
    assert!(!terminal.cooked(), "no raw mode");
    terminal.keys(&ctrl('c'));
    terminal.expect("– stopped");
    terminal.keys(&ctrl('c'));
    terminal.expect("Quit?");
    terminal.keys("y");
    terminal.wait("the shell", |screen| !screen.alternate_screen() && screen.contents().trim_end().ends_with("shell>"));
    assert!(restored(&terminal), "the line discipline is not restored");
    terminal.keys("exit\r");
    terminal.status();
}
