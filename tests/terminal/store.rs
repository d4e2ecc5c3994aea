//! What is kept while answers stream: a program that is killed loses at most the last second.

use std::path::Path;
use std::time::{Duration, Instant};

use batchroom::random::SplitMix64;
use batchroom::store::{Missing, Store};

use crate::harness::*;

/// Programs killed, all together, and how many at once.
const KILLS: usize = 50;
const AT_ONCE: usize = 10;
/// What may be lost.
const LOST: Duration = Duration::from_secs(1);

/// How many words of the answer have been seen: the last four of them stand on the screen in a row.
fn seen(screen: &str, answer: &[&str]) -> usize {
    let text: String = screen.split(['│', '┃', '▌', '\n']).map(str::trim).collect::<Vec<_>>().join(" ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (4..=answer.len()).rev().find(|count| text.contains(&answer[count - 4..*count].join(" "))).unwrap_or(0)
}

/// One program that answers, and is killed in the middle of it. Gives the words that were there a second before, and those
/// that are kept.
fn killed(data: &Path, answer: &[&str], after: Duration) -> (usize, usize) {
    let data_flag = data.to_str().expect("UTF-8");
    let args = ["--model", "nano", "--panes", "1", "--pace", "25", "--temperature", "0", "--data", data_flag, "--new"];
    let mut terminal = Spec::room(&args).size(160, 50).start();
    terminal.expect("> ");
    terminal.send(LONG[0]);
    terminal.wait("the first words", |screen| seen(&screen.contents(), answer) > 0);
    let end = Instant::now() + after;
    let mut times = Vec::new();
    while Instant::now() < end {
        times.push((Instant::now(), seen(&terminal.screen(), answer)));
        std::thread::sleep(Duration::from_millis(20));
    }
    let kill = Instant::now();
    terminal.signal(libc::SIGKILL);
    let old = times.iter().rev().find(|(at, _)| kill.duration_since(*at) >= LOST).map_or(0, |(_, words)| *words);
    drop(terminal);

    let store = Store::open(data, Missing::Refuse).expect("it opens");
    let newest = store.list(1).expect("a list").remove(0);
    let stored = store.load(newest.id).expect("a conversation");
    assert_eq!(stored.messages[0].text, LONG[0]);
    let text = stored.messages.get(1).map(|message| message.text.as_str()).unwrap_or_default();
    let kept: Vec<&str> = text.split_whitespace().collect();
    let same = kept.iter().zip(answer).take_while(|(kept, said)| kept == said).count();
    assert!(same + 1 >= kept.len(), "only what was said is kept, the last word perhaps in part: {text:?}");
    (old, kept.len())
}

/// A room whose answers are soon over, over this database.
fn short_answers(data: &Path) -> Terminal {
    let data = data.to_str().expect("UTF-8");
    let args = ["--model", "nano", "--temperature", "0", "--max-tokens", "8", "--pace", "full", "--data", data];
    Spec::room(&args).size(160, 50).start()
}

#[test]
fn a_kill_in_mid_stream_loses_at_most_the_last_second() {
    let seed = std::env::var("BATCHROOM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(5);
    println!("BATCHROOM_SEED={seed}");
    let answer = ask(LONG[0], 200);
    let answer: Vec<&str> = answer.split_whitespace().collect();
    std::thread::scope(|scope| {
        for thread in 0..AT_ONCE {
            let answer = &answer;
            scope.spawn(move || {
                let mut dice = SplitMix64(seed + thread as u64);
                let folder = tempfile::tempdir().expect("a folder");
                let data = folder.path().join("batchroom.db");
                let mut older = 0;
                for round in 0..KILLS / AT_ONCE {
                    let after = Duration::from_millis(1_100 + dice.range(0, 500));
                    let (old, kept) = killed(&data, answer, after);
                    assert!(kept >= old, "{kept} words are kept, and {old} were there a second before");
                    older += old;
                    let damage: String = rusqlite::Connection::open(&data)
                        .and_then(|db| db.query_row("PRAGMA integrity_check", [], |row| row.get(0)))
                        .expect("a database");
                    assert_eq!(
                        (damage.as_str(), Store::open(&data, Missing::Refuse).unwrap().count().unwrap()),
                        ("ok", round as u64 + 1)
                    );
                }
                assert!(older > 0, "something was older than a second");
            });
        }
    });
}

#[test]
fn the_last_session_is_open_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("batchroom.db");
    let data = data.to_str().expect("UTF-8");
    let args = ["--model", "nano", "--panes", "2", "--temperature", "0", "--max-tokens", "12", "--pace", "full", "--data", data];
    let mut terminal = Spec::room(&args).start();
    terminal.expect("> ");
    terminal.send("Say hello.");
    terminal.keys(&ctrl('r'));
    terminal.expect("New name for");
    terminal.keys("zoe\r");
    terminal.expect("zoe");
    terminal.keys(TAB);
    terminal.keys("a draft of b");
    terminal.expect("> a draft of b");
    terminal.keys(&ctrl('c'));
    terminal.expect("Conversations are kept.");
    terminal.keys("y");
    assert_eq!(terminal.status(), 0);

    let mut terminal = Spec::room(&args[..2].iter().chain(&args[10..]).copied().collect::<Vec<_>>()).start();
    for text in ["❯ Say hello.", "zoe", "> a draft of b", "2 panes of the last session are open again"] {
        terminal.expect(text);
    }
    // An earlier conversation in the other pane is in this one already.
    terminal.keys("\x1by");
    terminal.expect("Earlier conversations");
    terminal.expect("zoe");
    terminal.keys("hello\r");
    terminal.expect("that conversation is open in this pane");
    terminal.keys(&ctrl('c'));
    terminal.keys("y");
    assert_eq!(terminal.status(), 0);

    let mut fresh = Spec::room(&["--model", "nano", "--data", data, "--new"]).start();
    fresh.expect("> ");
    fresh.absent("Say hello.");
    fresh.keys("\x1byhel");
    fresh.wait("the row", |screen| screen.contents().contains("zoe"));
    fresh.keys(ENTER);
    fresh.expect("❯ Say hello.");
    fresh.expect("open again: Say hello.");
    fresh.keys(&ctrl('c'));
    fresh.keys("y");
    assert_eq!(fresh.status(), 0);
}

#[test]
fn a_database_that_cannot_be_had_is_said_and_the_chat_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("batchroom.db");
    std::fs::write(&data, "a letter, and no database").expect("a file");
    let data = data.to_str().expect("UTF-8");
    let args = ["--model", "nano", "--temperature", "0", "--max-tokens", "8", "--pace", "full", "--data", data];
    let mut terminal = Spec::room(&args).size(200, 50).start();
    terminal.expect("is not a database of batchroom");
    terminal.send("Say hello.");
    let answer = ask("Say hello.", 8);
    terminal.expect("❯ Say hello.");
    terminal.expect(answer.split_whitespace().next().expect("a word"));
    // Ctrl-C while it answers would stop the answer, and ask nothing.
    terminal.expect("cut at max_tokens (8)");
    terminal.keys(&ctrl('c'));
    terminal.expect("Conversations are not kept.");
    terminal.keys("y");
    assert_eq!(terminal.status(), 0);
    let mut off = Spec::room(&["--model", "nano", "--history", "false", "--data", data]).start();
    off.expect("history is off");
    off.keys(&ctrl('c'));
    off.expect("Conversations are not kept.");
    off.keys("y");
    assert_eq!(off.status(), 0);
    assert_eq!(std::fs::read_to_string(data).unwrap(), "a letter, and no database");
}

#[test]
fn who_leaves_while_the_database_is_locked_has_the_terminal_back_and_is_told_what_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("batchroom.db");
    let mut terminal = short_answers(&data);
    terminal.send("Say hello.");
    terminal.expect("cut at max_tokens (8)");
    terminal.settle(Duration::from_millis(600));
    let other = rusqlite::Connection::open(&data).expect("the database");
    other.execute_batch("BEGIN EXCLUSIVE").expect("a lock");
    terminal.send("Say goodbye.");
    // Ctrl-C while it answers would stop the answer, and ask nothing.
    terminal.expect_times("cut at max_tokens (8)", 2);
    terminal.keys(&ctrl('c'));
    terminal.expect("y or Ctrl-C");
    terminal.keys("y");
    // On the shell's own screen.
    terminal.wait("the shell", |screen| !screen.alternate_screen());
    terminal.expect("is not kept");
    assert_eq!(terminal.status(), 0);
    terminal.assert_restored();
}

/// The file goes while the room runs: what is open is not lost with it.
#[test]
fn a_database_that_is_removed_is_begun_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("batchroom.db");
    let mut terminal = short_answers(&data);
    terminal.send("Say hello.");
    terminal.expect("cut at max_tokens (8)");
    terminal.settle(Duration::from_millis(600));
    std::fs::remove_file(&data).expect("it goes");
    terminal.expect("was removed or replaced");
    terminal.send("Say goodbye.");
    terminal.expect_times("cut at max_tokens (8)", 2);
    terminal.keys(&ctrl('c'));
    terminal.expect("Conversations are kept.");
    terminal.keys("y");
    assert_eq!(terminal.status(), 0);
    let store = Store::open(&data, Missing::Refuse).expect("it is there again");
    let line = store.list(5).expect("a list").remove(0);
    let texts: Vec<String> = store.load(line.id).expect("whole").messages.into_iter().map(|message| message.text).collect();
    assert_eq!((texts.len(), texts[0].as_str(), texts[2].as_str()), (4, "Say hello.", "Say goodbye."));
}

#[test]
fn while_nothing_can_be_kept_there_is_a_mark_and_the_question_is_true() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("batchroom.db");
    let mut terminal = short_answers(&data);
    terminal.send("Say hello.");
    terminal.expect("cut at max_tokens (8)");
    terminal.settle(Duration::from_millis(600));
    let other = rusqlite::Connection::open(&data).expect("the database");
    other.execute_batch("BEGIN EXCLUSIVE").expect("a lock");
    terminal.send("Say goodbye.");
    terminal.expect("✗ not kept since");
    terminal.keys(&ctrl('c'));
    terminal.expect("Kept up to");
    terminal.expect("waits for the database");
    terminal.keys("n");
    terminal.absent("Kept up to");
    other.execute_batch("ROLLBACK").expect("the lock ends");
    terminal.absent("✗ not kept");
    terminal.keys(&ctrl('c'));
    terminal.expect("Conversations are kept.");
    terminal.keys("y");
    assert_eq!(terminal.status(), 0);
}

/// The lock ends in its own time, and nobody touches a key: all is written, and the mark goes.
#[test]
fn what_waited_for_a_lock_is_written_when_it_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("batchroom.db");
    let mut terminal = short_answers(&data);
    terminal.expect("> ");
    terminal.settle(Duration::from_millis(600));
    let other = rusqlite::Connection::open(&data).expect("the database");
    other.execute_batch("BEGIN EXCLUSIVE").expect("a lock");
    terminal.send("Say hello.");
    terminal.expect("cut at max_tokens (8)");
    terminal.expect("It is tried again");
    std::thread::sleep(Duration::from_millis(1500));
    terminal.expect("✗ nothing kept yet");
    other.execute_batch("ROLLBACK").expect("the lock ends");
    terminal.expect("conversations are kept again");
    terminal.absent("✗ nothing kept yet");
    assert_eq!(kept(&data), ["Say hello."]);
}

#[test]
fn a_database_that_is_locked_at_first_is_had_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("batchroom.db");
    drop(Store::open(&data, Missing::Create).expect("a database"));
    let other = rusqlite::Connection::open(&data).expect("the database");
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").expect("a lock");
    let args = ["--model", "nano", "--temperature", "0", "--max-tokens", "8", "--pace", "full", "--data", data.to_str().unwrap()];
    let mut terminal = Spec::room(&args).size(200, 50).start();
    terminal.expect("the last session stays in the history");
    terminal.expect("✗ nothing kept yet");
    terminal.send("Say hello.");
    terminal.expect("cut at max_tokens (8)");
    terminal.keys("a draft");
    terminal.expect("> a draft");
    drop(other);
    terminal.expect("conversations are kept again");
    terminal.absent("✗ nothing kept yet");
    assert_eq!(kept(&data), ["Say hello."]);
    terminal.keys(&ctrl('c'));
    terminal.expect("Conversations are kept.");
    terminal.keys("y");
    assert_eq!(terminal.status(), 0);
}

/// The titles of what is on disk.
fn kept(data: &Path) -> Vec<String> {
    let store = Store::open(data, Missing::Refuse).expect("it is there");
    store.list(9).expect("a list").into_iter().map(|line| line.title).collect()
}

#[test]
fn a_draft_of_a_closed_pane_is_in_the_list_and_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("batchroom.db");
    let args = ["--model", "nano", "--panes", "1", "--data", data.to_str().unwrap()];
    let mut terminal = Spec::room(&args).size(160, 50).start();
    terminal.expect("> ");
    terminal.keys(&ctrl('t'));
    terminal.keys("words of mine");
    terminal.expect("> words of mine");
    terminal.keys(&ctrl('x'));
    terminal.expect("Its draft is kept (Alt-Y).");
    terminal.keys("y");
    terminal.absent("words of mine");
    terminal.settle(Duration::from_millis(600));
    terminal.keys("\x1by");
    terminal.expect("(draft) words of mine");
    terminal.keys(ENTER);
    terminal.expect("> words of mine");
}

#[test]
fn who_only_reads_sees_what_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("batchroom.db");
    let args = ["--model", "nano", "--temperature", "0", "--max-tokens", "8", "--pace", "full", "--data", data.to_str().unwrap()];
    let mut terminal = Spec::room(&args).start();
    terminal.send("Say hello.");
    terminal.expect("cut at max_tokens (8)");
    terminal.keys(&ctrl('c'));
    terminal.expect("Conversations are kept.");
    terminal.keys("y");
    assert_eq!(terminal.status(), 0);
    let before = std::fs::read(&data).expect("a database");
    let mut reader = Spec::room(&[&args[..], &["--readonly"]].concat()).start();
    reader.expect("❯ Say hello.");
    reader.expect("to read only");
    reader.keys("\x1by");
    reader.expect("Earlier conversations");
    reader.expect("Say hello.");
    reader.keys(ESC);
    reader.absent("Earlier conversations");
    reader.keys(&ctrl('c'));
    reader.expect("Quit?");
    reader.keys("y");
    assert_eq!(reader.status(), 0);
    assert_eq!(std::fs::read(&data).expect("a database"), before, "nothing is written");
}
