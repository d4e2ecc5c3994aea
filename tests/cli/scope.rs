//! Help names the options that mean something there, and others are refused.

use super::harness::Home;

#[test]
fn commands_without_an_engine_have_no_options_of_it() {
    let home = Home::new();
    for (command, own, not) in [
        (&["history", "list"][..], &["--data", "--limit"][..], &["--top-k", "--max-num-seqs", "--theme"][..]),
        (&["history"], &["--data"], &["--top-k", "--max-num-seqs", "--panes"]),
        (&["replay"], &["--step", "--theme", "--lang"], &["--top-k", "--max-num-seqs", "--data", "--kv-memory"]),
    ] {
        let help = home.run(&[command, &["--help"]].concat()).ok();
        assert!(own.iter().all(|option| help.contains(option)), "{help}");
        assert!(!not.iter().any(|option| help.contains(option)), "{help}");
    }
    home.run(&["history", "list", "--top-k", "3"]).refused(&["--top-k means nothing to `batchroom history`"]);
    home.run(&["--max-num-seqs", "3", "history", "list"]).refused(&["--max-num-seqs means nothing to `batchroom history`"]);
    home.run(&["--bots", "3", "history", "list"]).refused(&["--bots means nothing to `batchroom history`"]);
    home.run(&["replay", "no.trace", "--model", "nano"]).refused(&["--model means nothing to `batchroom replay`"]);
    home.run(&["history", "list", "--data", "other.db"]).ok();
    // Those of the room, and of commands that have an engine, are as they were.
    assert!(home.run(&["ask", "--help"]).ok().contains("--top-k"));
}
