//! Databases of every older format, as they were made by it (`v1.sql` is what `.dump` said, with its `user_version`; `v2.sql` is that with what its version added).

use batchroom::store::{Missing, Store, VERSION};
use rusqlite::Connection;

use crate::*;

const FIXTURES: [&str; 2] = [include_str!("v1.sql"), include_str!("v2.sql")];

#[test]
fn every_older_format_has_a_fixture() {
    assert_eq!(FIXTURES.len() as i64, VERSION - 1);
}

#[test]
fn older_databases_are_brought_up_to_date() {
    for (at, fixture) in FIXTURES.iter().enumerate() {
        let place = Place::new();
        let old = Connection::open(place.path()).unwrap();
        old.execute_batch(fixture).unwrap();
        let version: i64 = old.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!(version, at as i64 + 1);
        drop(old);
        let mut store = place.open();
        let stored = store.load(1).unwrap();
        assert_eq!((stored.title.as_str(), stored.path().len()), ("Đường về nhà", 2));
        assert_eq!(stored.messages[2].text, "Một câu trả lời khác, hay hơn.");
        // Of a program that was killed.
        assert_eq!(store.search("duong", 5).unwrap().len(), 1, "words of the old rows are in the index");
        let session = store.open_session(false).unwrap();
        assert_eq!(session.panes[0].1.name, "bình");
        assert_eq!(session.panes[1].1.draft, "a draft");
        drop((session, store));
        Store::open(&place.path(), Missing::Refuse).unwrap();
    }
}

/// Two programs find the old file at once: one of them changes it.
#[test]
fn two_programs_may_meet_an_old_database() {
    let place = Place::new();
    Connection::open(place.path()).unwrap().execute_batch(FIXTURES[0]).unwrap();
    let path = place.path();
    let open = || {
        let path = path.clone();
        std::thread::spawn(move || Store::open(&path, Missing::Refuse).map(|store| store.count().unwrap()))
    };
    for thread in [open(), open(), open()] {
        assert_eq!(thread.join().unwrap().unwrap(), 1);
    }
}
