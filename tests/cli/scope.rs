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
    for (args, words) in [
        (&["history", "list", "--top-k", "3"][..], "--top-k means nothing to `batchroom history`"),
        (&["--max-num-seqs", "3", "history", "list"], "--max-num-seqs means nothing to `batchroom history`"),
        (&["--bots", "3", "history", "list"], "--bots means nothing to `batchroom history`"),
        (&["replay", "no.trace", "--model", "nano"], "--model means nothing to `batchroom replay`"),
    ] {
        let ended = home.run(args);
        assert!(ended.status == Some(2) && ended.err.contains(words), "{ended:?}");
    }
    assert_eq!(home.run(&["history", "list", "--data", "other.db"]).status, Some(0));
    // Those of the room, and of commands that have an engine, are as they were.
    assert!(home.run(&["ask", "--help"]).ok().contains("--top-k"));
}
