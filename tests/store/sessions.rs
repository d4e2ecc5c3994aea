//! Who has what open: sessions, two programs at once, what a program that was killed leaves.

use std::time::{Duration, Instant};

use batchroom::store::{Keeper, Keeping, Known, Write};
use batchroom::text::Role;

use crate::*;

#[test]
fn the_newest_session_comes_back_with_its_panes() {
    let place = Place::new();
    let id = {
        let mut store = place.open();
        let session = store.open_session(false).unwrap();
        assert!(session.panes.is_empty() && !session.other);
        let mut known = Known::new();
        let rows = vec![pane(1, "ana", ""), pane(2, "bình", "a draft\nof two lines")];
        let writes = [begin(1, "ana"), message(1, 0, None, Role::User, "hi"), panes(rows)];
        store.write(session.id, &mut known, &writes).unwrap();
        session.id
    };
    let mut store = place.open();
    let session = store.open_session(false).unwrap();
    assert_eq!(session.id, id);
    let names: Vec<(&str, bool)> = session.panes.iter().map(|(id, row)| (row.name.as_str(), id.is_some())).collect();
    assert_eq!(names, [("ana", true), ("bình", false)]);
    assert_eq!(session.panes[1].1.draft, "a draft\nof two lines");
    drop(session);
    let fresh = store.open_session(true).unwrap();
    assert!(fresh.panes.is_empty() && fresh.id != id);
    drop(fresh);
    let again = store.open_session(false).unwrap();
    assert_eq!(again.id, id, "a session in which nothing was said is not the last one");
}

#[test]
fn two_programs_at_once_have_sessions_of_their_own() {
    let place = Place::new();
    let (mut one, mut two) = (place.open(), place.open());
    let (mut known_one, mut known_two) = (Known::new(), Known::new());
    let first = one.open_session(false).unwrap();
    let row = |chat| panes(vec![pane(chat, "ana", "x")]);
    one.write(first.id, &mut known_one, &[begin(1, "ana"), message(1, 0, None, Role::User, "one"), row(1)]).unwrap();
    let second = two.open_session(false).unwrap();
    assert!(second.other && second.id != first.id && second.panes.is_empty());
    two.write(second.id, &mut known_two, &[begin(1, "bình"), message(1, 0, None, Role::User, "two"), row(1)]).unwrap();
    assert_ne!(known_one[&1], known_two[&1], "numbers never collide");
    assert!(two.open_elsewhere(known_one[&1], Some(second.id)).unwrap());
    assert!(!two.open_elsewhere(known_two[&1], Some(second.id)).unwrap());

    // Both write as fast as they can.
    let writer = |mut store: batchroom::store::Store, session: i64, mut known: Known| {
        std::thread::spawn(move || {
            for node in 1..60 {
                store.write(session, &mut known, &[message(1, node, Some(node - 1), Role::User, "on")]).unwrap();
            }
            store.load(known[&1]).unwrap().messages.len()
        })
    };
    let threads = [writer(one, first.id, known_one), writer(two, second.id, known_two)];
    assert_eq!(threads.map(|thread| thread.join().unwrap()), [60, 60]);
    drop((first, second));
    assert!(std::fs::read_dir(place.path().parent().unwrap()).unwrap().all(|entry| {
        let name = entry.unwrap().file_name();
        !name.to_string_lossy().contains("session")
    }));
}

/// Two screens that ask for the same conversation at once: one has it, the other a copy, and both can write.
#[test]
fn a_conversation_is_open_in_one_screen() {
    let place = Place::new();
    let mut store = place.open();
    let before = store.open_session(true).unwrap();
    let id = said(&mut store, before.id, "whose is it?", "mine");
    drop(before);
    for _ in 0..10 {
        let both = std::sync::Barrier::new(2);
        let taken: Vec<(i64, bool)> = std::thread::scope(|scope| {
            let screen = || {
                let mut store = place.open();
                let session = store.open_session(true).unwrap();
                both.wait();
                let (chat, copy) = store.take(id, session.id).unwrap();
                let mut known = Known::from([(1, chat.id)]);
                both.wait();
                store.write(session.id, &mut known, &[message(1, 2, Some(1), Role::User, "and now?")]).unwrap();
                store.write(session.id, &mut known, &[Write::Remove { chat: 1, node: 2 }]).unwrap();
                both.wait();
                (chat.id, copy)
            };
            let threads = [scope.spawn(screen), scope.spawn(screen)];
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(taken.iter().filter(|(taken, copy)| *taken == id && !copy).count(), 1, "{taken:?}");
        assert_eq!(taken.iter().filter(|(_, copy)| *copy).count(), 1, "{taken:?}");
    }
    let one = store.open_session(true).unwrap();
    assert!(!store.take(id, one.id).unwrap().1, "those who had it have ended");
    assert!(!store.take(id, one.id).unwrap().1, "it is this one's already");
}

#[test]
fn what_streamed_in_a_program_that_died_is_cut_off() {
    let place = Place::new();
    let mut store = place.open();
    let session = store.open_session(false).unwrap();
    let mut known = Known::new();
    let writes = [begin(1, "ana"), message(1, 0, None, Role::User, "hi"), streaming(1, 1, Some(0)), text(1, 1, "half an ans")];
    store.write(session.id, &mut known, &writes).unwrap();
    // Somebody else comes while it is still at it.
    place.open().open_session(false).unwrap();
    store.write(session.id, &mut known, &[text(1, 1, "wer")]).unwrap();
    assert!(store.search("answer", 1).unwrap().len() == 1, "also before its end");
    drop(session);
    let mut store = place.open();
    store.open_session(false).unwrap();
    let stored = store.load(known[&1]).unwrap();
    assert_eq!((stored.messages[1].text.as_str(), stored.messages[1].cut), ("half an answer", true));
}

#[test]
fn old_sessions_are_forgotten_and_conversations_stay() {
    let place = Place::new();
    let mut store = place.open();
    for round in 0..30 {
        let session = store.open_session(true).unwrap();
        said(&mut store, session.id, &format!("round {round}"), "yes");
    }
    assert_eq!((store.count().unwrap(), store.list(5).unwrap().len()), (30, 5));
    assert_eq!(store.list(1).unwrap()[0].title, "round 29", "the newest first");
}

#[test]
fn the_keeper_writes_within_its_time_and_joins_pieces() {
    let place = Place::new();
    let mut store = place.open();
    let session = store.open_session(false).unwrap();
    let keeper = Keeper::start(store, session, Known::new()).unwrap();
    keeper.write(begin(1, "ana"));
    keeper.write(message(1, 0, None, Role::User, "hi"));
    keeper.write(streaming(1, 1, Some(0)));
    for _ in 0..1000 {
        keeper.write(text(1, 1, "x"));
    }
    let (reader, since) = (place.open(), Instant::now());
    while reader.list(1).unwrap().first().is_none_or(|line| line.messages < 2) {
        assert!(since.elapsed() < Duration::from_secs(10), "nothing is written");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(reader.load(1).unwrap().messages[1].text.len(), 1000);
    keeper.write(text(1, 1, "end"));
    keeper.write(Write::End { chat: 1, node: 1, note: None, figures: None });
    assert!(keeper.finish(Duration::from_secs(10)));
    assert!(reader.load(1).unwrap().messages[1].text.ends_with("xend"));
    assert!(!reader.load(1).unwrap().messages[1].cut);
}

#[test]
fn a_full_disk_is_said_and_waited_out() {
    let place = Place::new();
    let mut store = place.open();
    let session = store.open_session(false).unwrap();
    let large = said(&mut store, session.id, "much room", &"taken ".repeat(200_000));
    // As many as there are.
    store.set_most_pages(1).unwrap();
    let keeper = Keeper::start(store, session, Known::new()).unwrap();
    let news = keeper.news();
    keeper.write(begin(1, "ana"));
    keeper.write(message(1, 0, None, Role::User, &"long ".repeat(10_000)));
    assert!(!keeper.flush(Duration::from_millis(800)));
    let said = match &*news.borrow() {
        Keeping::Waiting(error) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(said.contains("the disk of") && said.contains("batchroom.db is full"), "{said}");
    // Somebody makes room.
    place.open().remove(large).unwrap();
    assert!(keeper.flush(Duration::from_secs(30)), "it is tried again");
    assert!(matches!(&*news.borrow(), Keeping::Well));
    let kept = place.open().list(1).unwrap().remove(0);
    assert_eq!(place.open().load(kept.id).unwrap().messages[0].text.len(), 50_000, "nothing is lost");
    // And once more, to the end.
    keeper.write(message(1, 1, Some(0), Role::User, &"long ".repeat(400_000)));
    assert!(!keeper.finish(Duration::from_millis(800)), "it ends all the same");
}

#[test]
fn a_database_that_goes_away_is_noticed_and_all_is_said_anew() {
    for replaced in [false, true] {
        let place = Place::new();
        let mut store = place.open();
        let session = store.open_session(false).unwrap();
        let keeper = Keeper::start(store, session, Known::new()).unwrap();
        let mut news = keeper.news();
        keeper.write(begin(1, "ana"));
        keeper.write(message(1, 0, None, Role::User, "before"));
        assert!(keeper.flush(Duration::from_secs(10)) && !keeper.is_late());
        assert!(keeper.kept_until().is_some());
        std::fs::remove_file(place.path()).unwrap();
        if replaced {
            // Another database, made elsewhere.
            let other = Place::new();
            let mut made = other.open();
            let session = made.open_session(false).unwrap();
            said(&mut made, session.id, "of the other", "yes");
            drop((made, session));
            std::fs::copy(other.path(), place.path()).unwrap();
        }
        // Nothing is said meanwhile: it is noticed all the same.
        let since = Instant::now();
        while !news.has_changed().unwrap() {
            assert!(since.elapsed() < Duration::from_secs(20), "nobody has noticed");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(matches!(&*news.borrow_and_update(), Keeping::Moved));
        keeper.write(message(1, 1, Some(0), Role::User, "said before the screen has heard of it"));
        keeper.write(Write::Anew);
        keeper.write(begin(1, "ana"));
        keeper.write(message(1, 0, None, Role::User, "before"));
        keeper.write(message(1, 1, Some(0), Role::User, "after"));
        assert!(keeper.finish(Duration::from_secs(10)));
        let store = place.open();
        let lines = store.list(10).unwrap();
        assert_eq!(lines.len(), if replaced { 2 } else { 1 }, "{lines:?}");
        let texts: Vec<String> = store.load(lines[0].id).unwrap().messages.into_iter().map(|message| message.text).collect();
        assert_eq!(texts, ["before", "after"]);
    }
}

#[test]
fn reading_changes_nothing() {
    let place = Place::new();
    assert!(matches!(Store::open_to_read(&place.path()).unwrap_err().fault, batchroom::store::Fault::Missing));
    assert!(!place.path().exists());
    let mut store = place.open();
    let session = store.open_session(false).unwrap();
    let id = said(&mut store, session.id, "a question", "an answer");
    drop((store, session));
    let before = std::fs::read(place.path()).unwrap();
    let reader = Store::open_to_read(&place.path()).unwrap();
    assert_eq!(reader.list(10).unwrap().len(), 1);
    assert_eq!(reader.load(id).unwrap().messages[0].text, "a question");
    assert_eq!(reader.search("answer", 10).unwrap().len(), 1);
    let mut reader = reader;
    assert!(reader.write(1, &mut Known::new(), &[begin(1, "ana")]).is_err() && reader.open_session(true).is_err());
    drop(reader);
    assert_eq!(std::fs::read(place.path()).unwrap(), before);
}
