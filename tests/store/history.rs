//! What was written: lists, trees, search, export and import.

use std::time::{Duration, Instant};

use batchroom::store::{Fault, Known, Stored, StoredMessage, Write, from_json, to_json, to_markdown};
use batchroom::text::Role;

use crate::*;

#[test]
fn a_tree_comes_back_as_it_was_written() {
    let place = Place::new();
    let mut store = place.open();
    let session = store.open_session(false).unwrap();
    let mut known = Known::new();
    let writes = [
        begin(7, "bình"),
        message(7, 0, None, Role::User, "  Xin\n chào "),
        streaming(7, 1, Some(0)),
        text(7, 1, "Chào "),
        text(7, 1, "bạn"),
        Write::End { chat: 7, node: 1, note: Some("stopped".into()), figures: Some("{\"tokens\":2}".into()) },
        streaming(7, 2, Some(0)),
        message(7, 3, Some(2), Role::User, "below"),
        Write::Leaf { chat: 7, leaf: Some(1) },
    ];
    store.write(session.id, &mut known, &writes).unwrap();
    let stored = store.load(known[&7]).unwrap();
    assert_eq!((stored.person.as_str(), stored.title.as_str(), stored.leaf), ("bình", "Xin chào", Some(1)));
    assert_eq!(stored.path(), [0, 1]);
    let answer = &stored.messages[1];
    assert_eq!((answer.text.as_str(), answer.note.as_deref(), answer.cut), ("Chào bạn", Some("stopped"), false));
    assert_eq!(answer.figures.as_deref(), Some("{\"tokens\":2}"));
    assert!(stored.messages[2].cut, "still streaming");

    let remove = [Write::Remove { chat: 7, node: 2 }, text(99, 0, "of a conversation that never began")];
    store.write(session.id, &mut known, &remove).unwrap();
    let nodes: Vec<u32> = store.load(known[&7]).unwrap().messages.iter().map(|message| message.node).collect();
    assert_eq!(nodes, [0, 1], "and all below");
}

#[test]
fn a_batch_is_written_whole_or_not_at_all() {
    let place = Place::new();
    let mut store = place.open();
    let mut known = Known::new();
    // The second message has the number of the first.
    let bad = [begin(1, "ana"), message(1, 0, None, Role::User, "a"), message(1, 0, None, Role::User, "b")];
    store.write(1, &mut known, &bad).unwrap_err();
    assert!(known.is_empty() && store.list(10).unwrap().is_empty());
}

#[test]
fn vietnamese_is_found_with_and_without_its_marks() {
    let place = Place::new();
    let mut store = place.open();
    let session = store.open_session(false).unwrap().id;
    let street = said(&mut store, session, "Đường phố Hà Nội", "Có nhiều người đi xe đạp.");
    let other = said(&mut store, session, "the sky is 100% blue_", "測試 continuous");
    let found = |text: &str| -> Vec<i64> { store.search(text, 10).unwrap().iter().map(|hit| hit.line.id).collect() };
    for text in ["đường phố", "duong pho", "DUONG", "Đ\u{1b0}\u{1a1}\u{300}ng", "nguoi", "người", "ngu", "dap", "đạp xe"]
    {
        assert_eq!(found(text), [street], "{text}");
    }
    for text in ["sky", "SKY", "sky the", "contin", "測試", "測", "100%", "blue_", "ontin"] {
        assert_eq!(found(text), [other], "{text}");
    }
    for text in ["", "  ", "sky phố", "%", "_%_%", "\" OR 1", "NEAR(", "*"] {
        let wanted: &[i64] = if text == "%" { &[other] } else { &[] };
        assert_eq!(found(text), wanted, "{text:?}");
    }
    let hits = store.search("nguoi", 10).unwrap();
    assert!(hits[0].excerpt.contains("nhiều người đi"), "{hits:?}");
    store.remove(street).unwrap();
    assert!(store.search("nguoi", 10).unwrap().is_empty());
}

#[test]
fn what_is_exported_can_be_imported() {
    let place = Place::new();
    let mut store = place.open();
    let session = store.open_session(false).unwrap().id;
    let id = said(&mut store, session, "# not a heading\nhi", "**bold** answer");
    let stored = store.load(id).unwrap();
    let json = to_json(std::slice::from_ref(&stored)).unwrap();
    let back = from_json(&json).unwrap();
    let other = Place::new();
    let mut fresh = other.open();
    let again = fresh.insert(&back[0], None).unwrap();
    let expected = batchroom::store::Stored { id: again, ..stored.clone() };
    assert_eq!(fresh.load(again).unwrap(), expected);
    assert_eq!(fresh.search("bold", 1).unwrap().len(), 1);
    let markdown = to_markdown(&stored);
    assert!(markdown.contains("## ana\n\n# not a heading\nhi\n") && markdown.contains("**bold** answer"), "{markdown}");
}

fn many(count: u32) -> Vec<Stored> {
    let message = |node: u32, role, text: String| StoredMessage {
        node,
        parent: node.checked_sub(1),
        role,
        text,
        note: None,
        created: 1,
        model: None,
        sampling: None,
        figures: None,
        cut: false,
    };
    let one = |at: u32| Stored {
        id: 0,
        person: "ana".into(),
        title: format!("question {at}"),
        system: None,
        model: String::new(),
        created: 1,
        updated: i64::from(at),
        leaf: Some(1),
        draft: None,
        messages: vec![message(0, Role::User, format!("question {at}")), message(1, Role::Assistant, "some words ".repeat(40))],
    };
    (0..count).map(one).collect()
}

/// A statement has its time, and so has each of many; what takes longer than one may is done to the end.
#[test]
fn many_are_taken_in_and_removed_whole() {
    let place = Place::new();
    let mut store = place.open();
    let longest = Duration::from_millis(150);
    store.set_longest(longest);
    let (mut ids, since) = (Vec::new(), Instant::now());
    while since.elapsed() < 6 * longest {
        ids.extend(store.insert_all(&many(1_500), None).unwrap());
    }
    assert_eq!((store.ids().unwrap(), store.count().unwrap()), (ids.clone(), ids.len() as u64));
    // One that would go on for ever is stopped all the same.
    store.set_longest(Duration::ZERO);
    let error = store.search("%_words that nobody has said", 10).unwrap_err();
    assert!(matches!(error.fault, Fault::Interrupted), "{error}");
    store.set_longest(Duration::from_secs(20));

    // All of them, or none.
    let mut bad = many(3);
    bad[2].messages[1].parent = Some(9);
    assert!(store.insert_all(&bad, None).is_err());
    bad[2] = many(1).remove(0);
    bad[2].messages[1].text = "x".repeat(batchroom::store::TEXT_MAX + 1);
    assert!(store.insert_all(&bad, None).is_err());
    assert_eq!(store.count().unwrap(), ids.len() as u64);
    assert_eq!(store.remove_all(&ids).unwrap(), ids.len());
    assert_eq!(store.count().unwrap(), 0);
}

#[test]
fn an_import_is_checked() {
    let error = |text: &str| from_json(text).unwrap_err().to_string();
    let file = |messages: &str, leaf: &str| {
        format!(
            "{{\"batchroom_conversations\":1,\"conversations\":[{{\"person\":\"a\",\"system\":null,\"created_unix_ms\":1,\
             \"updated_unix_ms\":2,\"leaf\":{leaf},\"messages\":[{messages}]}}]}}"
        )
    };
    let node = |node: i64, parent: &str| {
        format!("{{\"node\":{node},\"parent\":{parent},\"role\":\"user\",\"text\":\"x\",\"created_unix_ms\":1}}")
    };
    assert_eq!(from_json(&file(&node(0, "null"), "0")).unwrap()[0].title, "x");
    assert!(error("{}").contains("no export of batchroom"));
    assert!(error("hello").contains("no export of batchroom"));
    assert!(error("{\"batchroom_conversations\":9,\"what\":1}").contains("its format is 9"));
    assert!(error(&file(&node(0, "7"), "null")).contains("conversation 1: message 0 has a parent that is not before it"));
    assert!(error(&file(&node(0, "0"), "null")).contains("parent"));
    assert!(error(&file(&[node(0, "null"), node(0, "null")].join(","), "null")).contains("not in its place"));
    assert!(error("{\"batchroom_chat\":7,\"what\":1}").contains("its format is 7"));
    assert!(error("{\"batchroom_chat\":1,\"person\":\"a\",\"messages\":[],\"what\":1}").contains("what"));
    let chat = "{\"batchroom_chat\":1,\"person\":\"a\",\"system\":null,\"sampling\":{},\"leaf\":4,\"messages\":[]}";
    assert!(error(chat).contains("newest message is 4"));
    assert!(error(&file(&node(0, "null"), "3")).contains("newest message is 3"));
    assert!(error(&file(&node(-1, "null"), "null")).contains("no export"));
    assert!(error(&file(&node(0, "null").replace("user", "wizard"), "null")).contains("wizard"));
    let sampling = node(0, "null").replace("\"text\"", "\"sampling\":[1],\"text\"");
    assert!(error(&file(&sampling, "null")).contains("must be an object"));
}
