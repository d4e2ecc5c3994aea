//! What is kept, the list of earlier conversations, and a session that comes back.

use std::sync::Arc;

use batchroom::engine::api::Event;
use batchroom::store::{Fault, Keeping, Missing, PaneRow, Store, StoreError, Stored, StoredMessage, Write};
use batchroom::text::Role;
use batchroom::ui::keep::{Keep, OldPane};
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
    ChatRow { id, person: person.into(), date: "2026-03-01 17:05".into(), words: words.into(), messages: 2 }
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
        session.panes.iter().map(|(id, row)| OldPane { row: row.clone(), chat: id.map(|id| store.load(id).unwrap()) }).collect();
    let mut back = kept();
    let known = back.restore(old, session.focus, 0);
    assert_eq!((known.len(), back.panes.len(), back.focus), (1, state.panes.len(), 2));
    assert_eq!(texts(&back.panes[0]), ["first question", "An answer"]);
    assert_eq!(back.panes[0].transcript.turns()[1].note.as_deref(), Some("cut off: the program ended"));
    assert_eq!((back.panes[1].sampling.temperature, back.panes[1].system.as_deref()), (0.25, Some("Be kind.")));
    assert_eq!((back.panes[2].editor.text(), back.panes[3].editor.text()), ("half a dra", ""));
    assert!(screen_of(&mut back, 120, 36).contains("first question"));
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
