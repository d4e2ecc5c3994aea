//! Panes: broadcast, new, rename, zoom, close; help and the list of everything; sizes.

use crate::harness::*;

#[test]
fn broadcast_new_rename_zoom_close() {
    let mut terminal = Spec::room(&["--panes", "2", "--max-tokens", "6", "--pace", "full"]).start();
    terminal.expect("live batch");
    terminal.keys(F9);
    terminal.expect("what you send goes to all panes");
    terminal.keys("Say hello.");
    terminal.expect("» Say hello.");
    terminal.keys(ENTER);
    terminal.expect_times("❯ Say hello.", 2);
    terminal.keys(F9);
    terminal.absent("goes to all panes");

    terminal.keys(&ctrl('t'));
    terminal.expect("3 chi");
    terminal.keys(&ctrl('r'));
    terminal.expect("New name for chi");
    terminal.keys(&ctrl('u'));
    terminal.keys("zoë");
    terminal.keys(ENTER);
    terminal.expect("3 zoë");

    terminal.keys(&ctrl('o'));
    terminal.absent("❯ Say hello.");
    terminal.keys(&ctrl('o'));
    terminal.expect_times("❯ Say hello.", 2);

    // An empty pane goes without a question, one with text does not.
    terminal.keys(&ctrl('x'));
    terminal.absent("zoë");
    terminal.keys(&ctrl('x'));
    terminal.expect("Close bình? Its conversation is kept");
    terminal.keys(ESC);
    terminal.absent("Close bình?");
    terminal.expect("2 bình");
    terminal.keys(&ctrl('x'));
    terminal.expect("Close bình?");
    terminal.keys("y");
    terminal.absent("2 bình");
    terminal.keys(&ctrl('x'));
    terminal.expect("this is the last pane");
}

#[test]
fn help_lists_the_keys_and_the_list_of_everything_runs_them() {
    let mut terminal = Spec::room(&[]).size(120, 60).start();
    terminal.expect("live batch");
    terminal.keys(F1);
    for text in ["Machine room", "Ctrl-T", "new pane: one more person", "Shift-F3", "pause the engine, or let it run"] {
        terminal.expect(text);
    }
    terminal.keys(ESC);
    terminal.absent("new pane: one more person");

    terminal.keys(&ctrl('p'));
    terminal.expect("type to find");
    terminal.keys("let it run");
    terminal.absent("new pane: one more person");
    terminal.keys(ENTER);
    terminal.expect("‖ paused");
    terminal.absent("type to find");
}

#[test]
fn resized_in_mid_stream() {
    let mut terminal = Spec::room(&["--panes", "2", "--temperature", "0", "--max-tokens", "60"]).start();
    terminal.expect("live batch");
    terminal.send(LONG[0]);
    terminal.wait("decoding", |screen| user_is(screen, "ana", "decode"));
    terminal.resize(80, 24);
    terminal.wait("a redraw at 80x24", |screen| {
        let rows: Vec<String> = screen.rows(0, 80).collect();
        rows[0].contains("running") && rows[23].contains("F1 help") && rows.iter().any(|row| row.contains("live batch"))
    });
    terminal.resize(10, 3);
    terminal.wait("a redraw at 10x3", |screen| screen.contents().contains("60×16"));
    terminal.resize(120, 36);
    terminal.wait("a redraw at 120x36", |screen| {
        let rows: Vec<String> = screen.rows(0, 120).collect();
        rows[35].contains("F1 help") && rows.iter().any(|row| row.contains("live batch")) && !rows.concat().contains("60×16")
    });
    terminal.expect("cut at max_tokens (60)");
    terminal.keys(TAB);
    terminal.send("Say hello.");
    terminal.wait("an answer", |screen| user_is(screen, "bình", "done:"));
}
