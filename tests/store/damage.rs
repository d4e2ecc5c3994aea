//! Files that are damaged, locked, newer, of something else, or made to do harm.

use std::time::{Duration, Instant};

use batchroom::random::SplitMix64;
use batchroom::store::{Fault, Missing, Store, StoreError};
use rusqlite::Connection;

use crate::*;

fn refused(place: &Place) -> StoreError {
    Store::open(&place.path(), Missing::Create).expect_err("it is refused")
}

/// The database as another program sees it.
fn other(place: &Place) -> Connection {
    Connection::open(place.path()).expect("a database")
}

#[test]
fn files_of_something_else_stay_as_they_are() {
    for contents in [&b"hello, I am a letter\n"[..], &[0xff; 5000], &b"SQLite format 3\0 and then nothing"[..]] {
        let place = Place::new();
        std::fs::write(place.path(), contents).unwrap();
        let error = refused(&place);
        assert!(matches!(error.fault, Fault::Foreign | Fault::Damaged(_)), "{error}");
        assert!(error.to_string().contains("--data"), "{error}");
        assert_eq!(std::fs::read(place.path()).unwrap(), contents);
    }
    let place = Place::new();
    other(&place).execute_batch("CREATE TABLE recipes(id INTEGER)").unwrap();
    assert!(matches!(refused(&place).fault, Fault::Foreign));
    let place = Place::new();
    std::fs::create_dir(place.path()).unwrap();
    assert!(refused(&place).to_string().contains("batchroom.db"));
    let missing = Store::open(&Place::new().path(), Missing::Refuse).unwrap_err();
    assert!(matches!(missing.fault, Fault::Missing));
}

#[cfg(unix)]
#[test]
fn it_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/batchroom.db");
    let mut store = Store::open(&path, Missing::Create).unwrap();
    let session = store.open_session(false).unwrap();
    said(&mut store, session.id, "a", "b");
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", entry.file_name());
    }
}

#[test]
fn a_newer_format_is_refused_with_both_numbers() {
    let place = Place::new();
    drop(place.open());
    other(&place).execute_batch("PRAGMA user_version = 77").unwrap();
    let error = refused(&place).to_string();
    assert!(error.contains("newer batchroom") && error.contains("77"), "{error}");
}

#[test]
fn a_lock_is_waited_for_and_then_said() {
    let place = Place::new();
    let mut store = place.open();
    let session = store.open_session(false).unwrap();
    let lock = other(&place);
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let since = Instant::now();
    let error = store.write(session.id, &mut Known::new(), &[begin(1, "ana")]).unwrap_err();
    assert!(error.may_pass() && since.elapsed() > Duration::from_secs(2), "{error}");
    assert!(error.to_string().contains("locked by another program"), "{error}");
    assert!(store.list(5).unwrap().is_empty(), "reading goes on");
    lock.execute_batch("COMMIT").unwrap();
    store.write(session.id, &mut Known::new(), &[begin(1, "ana")]).unwrap();
}

/// What is in the schema is run by whoever opens the file: it has to be ours.
#[test]
fn a_schema_that_is_not_ours_is_refused() {
    for harm in [
        "CREATE TRIGGER more AFTER INSERT ON conversations BEGIN DELETE FROM messages; END",
        "CREATE VIEW extra AS SELECT 1",
        "DROP INDEX messages_parent",
        "DROP TABLE panes; CREATE VIEW panes AS SELECT 1 AS session, 0 AS place, 1 AS conversation, '' AS name, '{}' AS settings, \
         '' AS draft",
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'TEXT NOT NULL', 'TEXT') WHERE name = 'panes'",
    ] {
        let place = Place::new();
        drop(place.open());
        other(&place).execute_batch(harm).unwrap();
        assert!(matches!(refused(&place).fault, Fault::Damaged(_) | Fault::Foreign), "{harm}");
    }
}

#[test]
fn rows_that_are_not_ours_are_errors() {
    let conversation = "INSERT INTO conversations(id, person, created, updated, leaf) VALUES(1, 'a', 1, 1, NULL)";
    let message = |values: &str| {
        format!(
            "{conversation}; INSERT INTO messages(conversation, node, parent, role, text, created, state) VALUES(1, {values}, 1, 'whole')"
        )
    };
    for harm in [
        message("0, 0, 'user', 'its own parent'"),
        message("0, 5, 'user', 'a parent that is not there'"),
        message("-1, NULL, 'user', 'x'"),
        message("'zero', NULL, 'user', 'x'"),
        message("99999999999, NULL, 'user', 'x'"),
        message("0, NULL, 'user', x'fffe'"),
        message("0, NULL, 'user', zeroblob(30000000)"),
        message("0, NULL, 'user', CAST(zeroblob(17000000) AS TEXT)"),
        format!("{conversation}; UPDATE conversations SET leaf = 9"),
        format!("{conversation}; UPDATE conversations SET person = x'00ff'"),
        format!("{conversation}; UPDATE conversations SET updated = 'yesterday'"),
        format!(
            "{conversation}; INSERT INTO messages(conversation, node, role, text, created, state) \
             WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 50001) \
             SELECT 1, i, 'user', '', 1, 'streaming' FROM n"
        ),
    ] {
        let place = Place::new();
        drop(place.open());
        other(&place).execute_batch(&harm).unwrap_or_else(|error| panic!("{error}: {harm}"));
        let mut store = place.open();
        let (listed, loaded) = (store.list(10), store.load(1));
        assert!(listed.is_err() || loaded.is_err(), "{harm}");
        for error in [listed.err(), loaded.err()].into_iter().flatten() {
            assert!(error.to_string().contains("batchroom.db"), "{error}");
        }
        let _ = (store.open_session(false), store.search("x", 10));
    }
}

/// Bytes changed anywhere: an error or not, never a panic.
#[test]
fn damage_anywhere_is_no_panic() {
    let place = Place::new();
    {
        let mut store = place.open();
        let session = store.open_session(false).unwrap();
        for round in 0..20 {
            said(&mut store, session.id, &format!("question {round}"), &"an answer of some words ".repeat(40));
        }
    }
    other(&place).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let whole = std::fs::read(place.path()).unwrap();
    let mut faults = 0;
    for seed in 0..150 {
        let mut dice = SplitMix64(seed);
        let mut bytes = whole.clone();
        match seed % 3 {
            0 => bytes.truncate(dice.range(1, whole.len() as u64 - 1) as usize),
            1 => (0..40).for_each(|_| bytes[dice.range(0, whole.len() as u64 - 1) as usize] = dice.range(0, 255) as u8),
            _ => {
                let at = dice.range(0, whole.len() as u64 - 4097) as usize;
                bytes[at..at + 4096].iter_mut().for_each(|byte| *byte = dice.range(0, 255) as u8);
            }
        }
        let damaged = Place::new();
        std::fs::write(damaged.path(), &bytes).unwrap();
        let used = || -> Result<(), StoreError> {
            let mut store = Store::open(&damaged.path(), Missing::Create)?;
            let session = store.open_session(false)?;
            for line in store.list(100)? {
                store.load(line.id)?;
            }
            store.search("answer", 10)?;
            store.write(session.id, &mut Known::new(), &[begin(1, "ana")])
        };
        faults += usize::from(used().is_err());
    }
    assert!(faults > 30, "{faults} of 150 were found");
}
