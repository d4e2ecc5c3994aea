//! What is kept, the list of earlier conversations, and a session that comes back.

use std::sync::Arc;
use std::time::Duration;

use batchroom::engine::api::Event;
use batchroom::store::{Fault, Keeping, Missing, PaneRow, Store, StoreError, Stored, StoredMessage, Write};
use batchroom::text::Role;
use batchroom::ui::desk::Desk;
use batchroom::ui::keep::{Keep, OldPane};
use batchroom::ui::seek::Seek;
use batchroom::ui::state::{Mode, Pane, State};
use batchroom::ui::update::history::{ChatRow, Opened};
use batchroom::ui::update::{Effect, Msg};
use batchroom::ui::view::screen;
use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::sample::{fresh, rows};
use crate::{act, key, state, type_text, with};

fn kept() -> State {
    let mut state = state(fresh());
    state.kept = true;
    state
}

fn alt(letter: char) -> Msg {
    with(KeyModifiers::ALT, KeyCode::Char(letter))
}

fn row(id: i64, person: &str, words: &str) -> ChatRow {
    ChatRow { id, person: person.into(), date: "2026-03-01 17:05".into(), words: words.into(), messages: 2, draft: false }
}

fn stored(texts: &[&str]) -> Stored {
    let message = |(at, text): (usize, &&str)| StoredMessage {
        node: at as u32,
        parent: (at as u32).checked_sub(1),
        role: if at % 2 == 0 { Role::User } else { Role::Assistant },
        text: (*text).to_owned(),
        note: None,
        created: 1,
        model: Some("nano".into()),
        sampling: None,
        figures: None,
        cut: false,
    };
    let messages: Vec<StoredMessage> = texts.iter().enumerate().map(message).collect();
    let leaf = (texts.len() as u32).checked_sub(1);
    Stored {
        id: 7,
        person: "ana".into(),
        title: "t".into(),
        system: None,
        model: String::new(),
        created: 1,
        updated: 1,
        leaf,
        draft: None,
        messages,
    }
}

/// The conversation as it is read now.
fn texts(pane: &Pane) -> Vec<&str> {
    pane.conversation.path().into_iter().map(|id| pane.conversation.nodes()[id].text.as_str()).collect()
}

fn screen_of(state: &mut State, columns: u16, lines: u16) -> String {
    let area = Rect::new(0, 0, columns, lines);
    screen::measure(state, area);
    let mut buf = Buffer::empty(area);
    screen::draw(&mut buf, area, state);
    rows(&buf).join("\n")
}

#[test]
fn an_earlier_conversation_is_found_and_opened() {
    let mut state = kept();
    assert_eq!(act(&mut state, alt('y')), [Effect::FindChats(String::new())]);
    let found =
        vec![row(3, "ana", "why is the sky blue"), row(2, "bình", "đường về nhà"), row(1, "chi", "\u{1b}]0;x\u{7}hostile")];
    act(&mut state, Msg::Chats { text: String::new(), found: Ok(found) });
    insta::assert_snapshot!("history-100x30", screen_of(&mut state, 100, 30));
    assert_eq!(act(&mut state, key(KeyCode::Char('b'))), [Effect::FindChats("b".into())]);
    act(&mut state, Msg::Chats { text: String::new(), found: Ok(Vec::new()) });
    assert!(screen_of(&mut state, 100, 30).contains("why is the sky blue"), "an answer to what is no longer asked");
    act(&mut state, Msg::Chats { text: "b".into(), found: Ok(vec![row(2, "bình", "đường"), row(9, "b", "other")]) });
    act(&mut state, key(KeyCode::Down));
    let user = state.focused().person.user;
    assert_eq!(act(&mut state, key(KeyCode::Enter)), [Effect::OpenChat { user, id: 9 }]);
    let opened = Opened::Taken { chat: stored(&["hello", "Hi there"]), copy: false };
    let effects = act(&mut state, Msg::ChatOpened { user, opened: Ok(Box::new(opened)) });
    assert!(matches!(effects[..], [Effect::Opened { id: 7, .. }]), "{effects:?}");
    assert_eq!(state.focused().transcript.turns().len(), 2);
    assert!(state.focused_mut().conversation.take_changes().is_empty(), "nothing new is to be written");

    act(&mut state, alt('y'));
    act(&mut state, key(KeyCode::Esc));
    assert!(matches!(state.mode, Mode::Chat));
}

/// Who wrote it, what the model was told and how it chose are the conversation's: opening it changes none of them.
#[test]
fn an_earlier_conversation_brings_what_it_was_made_with() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join("batchroom.db"), Missing::Create).unwrap();
    let mut old = stored(&["hello", "Ahoy"]);
    (old.person, old.system) = ("zoe".into(), Some("Talk like a pirate.".into()));
    old.messages[1].sampling = Some("{\"temperature\":0.25,\"max_tokens\":33,\"seed\":9}".into());
    let id = store.insert(&old, None).unwrap();
    let session = store.open_session(true).unwrap();

    let (mut state, mut keep) = (kept(), Keep::default());
    let user = state.focused().person.user;
    let opened = Opened::Taken { chat: store.load(id).unwrap(), copy: false };
    let effects = act(&mut state, Msg::ChatOpened { user, opened: Ok(Box::new(opened)) });
    let [Effect::Opened { key: chat, .. }, Effect::Name { name, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(name, "zoe");
    assert_eq!((state.focused().sampling.temperature, state.focused().sampling.max_tokens), (0.25, 33));
    assert_eq!(state.focused().seed, Some(1), "the pane's own");
    keep.know(*chat);
    let mut writes = vec![Write::Known { chat: *chat, id }];
    writes.extend(keep.writes(&mut state));
    type_text(&mut state, "and you?");
    let sent = act(&mut state, key(KeyCode::Enter));
    let [Effect::Submit { messages, .. }] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((messages[0].role, messages[0].content.as_str()), (Role::System, "Talk like a pirate."));
    writes.extend(keep.writes(&mut state));
    store.write(session.id, &mut Default::default(), &writes).unwrap();
    let after = store.load(id).unwrap();
    assert_eq!((after.person, after.system), (old.person.clone(), old.system.clone()));
    assert_eq!(after.messages.len(), 4);

    // Sampling that cannot be used is as before.
    old.messages[1].sampling = Some("{\"temperature\":-3}".into());
    let opened = Opened::Taken { chat: old, copy: false };
    act(&mut state, Msg::Lost(user));
    act(&mut state, Msg::ChatOpened { user, opened: Ok(Box::new(opened)) });
    assert_eq!(state.focused().sampling.temperature, 0.25);

    // Of two people with one name nobody knows who is meant.
    let other = state.panes[1].person.name.clone();
    let namesake = Stored { id: 99, person: other.clone(), ..stored(&["hello", "Ahoy"]) };
    let opened = Opened::Taken { chat: namesake, copy: false };
    act(&mut state, Msg::ChatOpened { user, opened: Ok(Box::new(opened)) });
    assert_eq!(state.focused().person.name, format!("{other} 2"));
}

#[test]
fn what_cannot_be_opened_changes_nothing() {
    let mut state = kept();
    let user = state.focused().person.user;
    let error = || Arc::new(StoreError::new(std::path::Path::new("/x/batchroom.db"), Fault::Full));
    act(&mut state, Msg::ChatOpened { user, opened: Err(error()) });
    assert!(state.notice.as_ref().is_some_and(|notice| notice.text.contains("/x/batchroom.db is full") && notice.bad));
    let mut wrong = stored(&["a", "b"]);
    wrong.messages[1].parent = Some(5);
    act(&mut state, Msg::ChatOpened { user, opened: Ok(Box::new(Opened::Taken { chat: wrong, copy: false })) });
    assert!(state.focused().transcript.is_empty());
    act(&mut state, Msg::Keeping(Keeping::Ended(error())));
    assert!(!state.kept);
    assert_eq!(act(&mut state, alt('y')), []);
    type_text(&mut state, "hi");
    assert!(matches!(act(&mut state, key(KeyCode::Enter))[..], [Effect::Submit { .. }]), "the chat goes on");
    // A pane that is being answered keeps its conversation.
    state.kept = true;
    act(&mut state, alt('y'));
    act(&mut state, Msg::Chats { text: String::new(), found: Ok(vec![row(1, "a", "b")]) });
    assert_eq!(act(&mut state, key(KeyCode::Enter)), []);
    act(&mut state, Msg::ChatOpened { user, opened: Ok(Box::new(Opened::Taken { chat: stored(&["x"]), copy: true })) });
    assert_eq!(texts(state.focused()), ["hi", ""]);
}

/// Everything that the screen says to the store, written and read again, is what was on the screen.
#[test]
fn a_session_comes_back_from_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("batchroom.db");
    let (mut state, mut keep) = (kept(), Keep::default());
    assert_eq!(keep.writes(&mut state), [], "nothing was done");
    let mut writes = Vec::new();
    type_text(&mut state, "first question");
    act(&mut state, key(KeyCode::Enter));
    writes.extend(keep.writes(&mut state));
    let user = state.focused().person.user;
    for text in ["An ", "answer"] {
        act(&mut state, Msg::Engine(user, Event::Token { step: 1, token: 1, text: text.into() }));
        writes.extend(keep.writes(&mut state));
    }
    state.panes[1].sampling.temperature = 0.25;
    state.panes[1].system = Some("Be kind.".into());
    state.focus = 2;
    type_text(&mut state, "half a dra");
    writes.extend(keep.writes(&mut state));
    assert_eq!(keep.writes(&mut state), [], "all is said");

    let mut store = Store::open(&path, Missing::Create).unwrap();
    let session = store.open_session(false).unwrap();
    store.write(session.id, &mut Default::default(), &writes).unwrap();
    drop((session, store));

    let mut store = Store::open(&path, Missing::Create).unwrap();
    let session = store.open_session(false).unwrap();
    let old: Vec<OldPane> =
        session.panes.iter().map(|(id, row)| OldPane { row: row.clone(), chat: id.map(|id| store.load(id)) }).collect();
    let mut back = kept();
    let brought = back.restore(old, session.focus, 0);
    assert!(brought.lost.is_empty());
    assert_eq!((brought.known.len(), back.panes.len(), back.focus), (1, state.panes.len(), 2));
    assert_eq!(texts(&back.panes[0]), ["first question", "An answer"]);
    assert_eq!(back.panes[0].transcript.turns()[1].note.as_deref(), Some("cut off: the program ended"));
    assert_eq!((back.panes[1].sampling.temperature, back.panes[1].system.as_deref()), (0.25, Some("Be kind.")));
    assert_eq!((back.panes[2].editor.text(), back.panes[3].editor.text()), ("half a dra", ""));
    assert!(screen_of(&mut back, 120, 36).contains("first question"));
}

/// A desk with a conversation in two panes of its last session, by the names zoe and yan.
fn last_session(path: &std::path::Path) -> Vec<i64> {
    let mut store = Store::open(path, Missing::Create).unwrap();
    let session = store.open_session(false).unwrap();
    let ids = [(1, "zoe"), (2, "yan")].map(|(_, name)| {
        let chat = Stored { person: name.into(), ..stored(&["hello", "Hi there"]) };
        store.insert(&chat, Some(session.id)).unwrap()
    });
    let pane = |chat: u64, name: &str| PaneRow { chat, name: name.into(), settings: "{}".into(), ..PaneRow::default() };
    let rows = vec![pane(1, "zoe"), pane(2, "yan")];
    let mut known = [(1, ids[0]), (2, ids[1])].into();
    store.write(session.id, &mut known, &[Write::Panes { focus: 0, model: String::new(), rows }]).unwrap();
    ids.to_vec()
}

#[test]
fn one_damaged_conversation_costs_one_pane() {
    for harm in [
        "UPDATE messages SET parent = 77 WHERE conversation = 1",
        "UPDATE conversations SET person = x'00ff' WHERE id = 1",
        "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) INSERT INTO messages(conversation, \
         node, role, text, created, state) SELECT 1, i, 'user', '', 1, 'whole' FROM n",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("batchroom.db");
        assert_eq!(last_session(&path), [1, 2]);
        rusqlite::Connection::open(&path).unwrap().execute_batch(harm).unwrap();
        let (mut state, mut desk) = (state(fresh()), Desk::open(path.clone(), false));
        desk.begin(&mut state, 0);
        assert!(state.kept, "the store is there");
        let said = state.notice.as_ref().map(|notice| notice.text.clone()).unwrap_or_default();
        assert!(said.starts_with("1 conversation of the last session cannot be opened again"), "{said}");
        let names: Vec<&str> = state.panes.iter().map(|pane| pane.person.name.as_str()).collect();
        assert_eq!(names, ["zoe", "yan"], "its name stays");
        assert_eq!((texts(&state.panes[0]).len(), texts(&state.panes[1])), (0, vec!["hello", "Hi there"]));
        state.focus = 1;
        type_text(&mut state, "more");
        act(&mut state, key(KeyCode::Enter));
        desk.keep(&mut state);
        assert!(desk.end());
        let store = Store::open(&path, Missing::Refuse).unwrap();
        assert_eq!((store.load(2).unwrap().messages.len(), store.count().unwrap()), (4, 2), "and what is well goes on");
    }
}

/// The session was closed, one of its conversations went on in another screen, and then the session comes back.
#[test]
fn a_conversation_that_went_on_elsewhere_comes_back_as_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("batchroom.db");
    let ids = last_session(&path);
    let mut other = Store::open(&path, Missing::Refuse).unwrap();
    let elsewhere = other.open_session(true).unwrap();
    assert!(!other.take(ids[0], elsewhere.id).unwrap().1);
    let (mut state, mut desk) = (state(fresh()), Desk::open(path.clone(), false));
    desk.begin(&mut state, 0);
    assert_eq!(texts(&state.panes[0]), ["hello", "Hi there"]);
    type_text(&mut state, "here");
    act(&mut state, key(KeyCode::Enter));
    desk.keep(&mut state);
    assert!(desk.end());
    assert_eq!((other.load(ids[0]).unwrap().messages.len(), other.count().unwrap()), (2, 3));
}

/// What the disk does is nothing that keys wait for.
#[test]
fn the_screen_does_not_wait_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("batchroom.db");
    last_session(&path);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut state, mut desk) = (state(fresh()), Desk::open(path.clone(), true));
        desk.begin(&mut state, 0);
        let lock = rusqlite::Connection::open(&path).unwrap();
        lock.execute_batch("BEGIN IMMEDIATE").unwrap();
        type_text(&mut state, "a draft");
        desk.keep(&mut state);
        let (user, since) = (state.focused().person.user, std::time::Instant::now());
        desk.fetch(user, 1);
        assert!(since.elapsed() < Duration::from_millis(250), "{:?}", since.elapsed());
        lock.execute_batch("COMMIT").unwrap();
        let opened = desk.news().await;
        assert!(matches!(&opened, Msg::ChatOpened { opened: Ok(_), .. }), "{opened:?}");
        let effects = act(&mut state, opened.clone());
        assert!(matches!(effects[0], Effect::Opened { id: 1, .. }), "{effects:?}");
        // A second pane that has asked for it meanwhile is shown where it is.
        state.focus = 1;
        let Msg::ChatOpened { opened, .. } = opened else { unreachable!() };
        let second = Msg::ChatOpened { user: state.focused().person.user, opened };
        assert_eq!(act(&mut state, second), []);
        assert_eq!((state.focus, texts(&state.panes[1]).len()), (0, 0));

        for text in ["h", "he", "hel", "hell", "hello"] {
            desk.find(text.into());
        }
        let mut answers = Vec::new();
        while answers.last().is_none_or(|text| text != "hello") {
            match desk.news().await {
                Msg::Chats { text, found: Ok(_) } => answers.push(text),
                Msg::Keeping(_) => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(desk.end());
    });
}

#[test]
fn only_the_newest_of_what_is_typed_is_looked_for() {
    let seek = Seek::default();
    assert!(seek.ask("a".into()), "somebody begins");
    assert_eq!(seek.next().as_deref(), Some("a"));
    assert!(!seek.is_late());
    assert!(!seek.ask("ab".into()) && !seek.ask("abc".into()), "one at a time");
    assert!(seek.is_late());
    assert_eq!((seek.next().as_deref(), seek.next()), (Some("abc"), None));
    assert!(seek.ask("d".into()), "and again");

    // What is being answered is stopped.
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("batchroom.db"), Missing::Create).unwrap();
    assert_eq!(seek.next().as_deref(), Some("d"));
    assert!(seek.begin(store.stopper()));
    seek.ask("e".into());
    assert!(!seek.begin(store.stopper()), "nobody waits for it");
}

/// What the room writes to a file, the history takes in.
#[test]
fn an_export_of_a_pane_can_be_imported() {
    let mut state = kept();
    state.panes[0].system = Some("Be kind.".into());
    type_text(&mut state, "first question");
    act(&mut state, key(KeyCode::Enter));
    let user = state.focused().person.user;
    act(&mut state, Msg::Engine(user, Event::Token { step: 1, token: 1, text: "An answer".into() }));
    let text = batchroom::ui::save::json(&state.panes[0]);
    let mut back = batchroom::store::from_json(&text).unwrap();
    let chat = back.remove(0);
    assert_eq!((chat.person.as_str(), chat.title.as_str(), chat.system.as_deref()), ("ana", "first question", Some("Be kind.")));
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join("batchroom.db"), Missing::Create).unwrap();
    let id = store.insert(&chat, None).unwrap();
    let mut other = kept();
    let opened = Opened::Taken { chat: store.load(id).unwrap(), copy: false };
    act(&mut other, Msg::ChatOpened { user, opened: Ok(Box::new(opened)) });
    assert_eq!(texts(other.focused()), ["first question", "An answer"]);
    assert!(chat.messages[1].sampling.as_deref().is_some_and(|json| json.contains("temperature")));
}

#[test]
fn a_conversation_that_leaves_the_screen_is_closed() {
    let (mut state, mut keep) = (kept(), Keep::default());
    type_text(&mut state, "q");
    act(&mut state, key(KeyCode::Enter));
    keep.writes(&mut state);
    act(&mut state, with(KeyModifiers::CONTROL, KeyCode::Char('n')));
    assert!(screen_of(&mut state, 120, 36).contains("This one is kept (Alt-Y)"));
    act(&mut state, key(KeyCode::Char('y')));
    let writes = keep.writes(&mut state);
    assert!(writes.iter().any(|write| matches!(write, Write::Close { .. })), "{writes:?}");
}

/// A database is from outside: names, settings and drafts of any kind.
#[test]
fn a_hostile_session_is_harmless() {
    let mut state = kept();
    let long = "x".repeat(1_000_000);
    let old: Vec<OldPane> = ["\u{1b}[2J\n", "", long.as_str(), "ok"]
        .iter()
        .cycle()
        .take(40)
        .map(|text| OldPane {
            row: PaneRow {
                name: (*text).to_owned(),
                settings: "{\"temperature\":-4,\"system\":\"\\u001b]0;x\\u0007\",\"stop\":7}".into(),
                draft: (*text).to_owned(),
                ..PaneRow::default()
            },
            chat: None,
        })
        .collect();
    state.restore(old, usize::MAX, 0);
    assert_eq!(state.panes.len(), batchroom::ui::state::MAX_PANES);
    let text = screen_of(&mut state, 160, 45);
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(state.panes.iter().all(|pane| pane.sampling.check().is_ok()));
}
