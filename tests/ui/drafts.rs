//! What is typed and not sent is not lost when its pane goes.

use batchroom::store::{Missing, Store};
use batchroom::ui::desk::Desk;
use batchroom::ui::keeping::Unkept;
use batchroom::ui::state::{Mode, State};
use batchroom::ui::update::history::Opened;
use batchroom::ui::update::{Effect, Msg};
use batchroom::ui::view::status;
use crossterm::event::{KeyCode, KeyModifiers};

use crate::acts::{finished, send};
use crate::sample::fresh;
use crate::{act, key, state, type_text, with};

fn close(state: &mut State) {
    act(state, with(KeyModifiers::CONTROL, KeyCode::Char('x')));
}

/// What the question says.
fn asked(state: &State) -> String {
    status::lines(state, 200).into_iter().map(|(line, _)| line).find(|line| line.starts_with("Close ")).unwrap_or_default()
}

#[test]
fn the_question_says_what_becomes_of_all_that_the_pane_holds() {
    let late = Some(Unkept::Late(Some("17:05".into())));
    for (chat, draft, kept, unkept, words) in [
        (false, "a draft", true, None, "Its draft is kept (Alt-Y)."),
        (true, "", true, None, "Its conversation is kept (Alt-Y)."),
        (true, "a draft", true, None, "Its conversation and its draft are kept (Alt-Y)."),
        (false, "a draft", false, Some(Unkept::Off), "Its draft is lost."),
        (true, "", false, Some(Unkept::Never), "Its conversation is lost."),
        (true, "a draft", false, Some(Unkept::Off), "Its conversation and its draft are lost."),
        (true, "", true, late, "Kept up to 17:05; what came since waits for the database"),
        (true, "", false, Some(Unkept::Ended(Some("17:05".into()))), "Kept up to 17:05; what came since is not kept."),
    ] {
        let mut state = state(fresh());
        (state.kept, state.unkept) = (kept, unkept);
        if chat {
            send(&mut state, "hello");
        }
        type_text(&mut state, draft);
        close(&mut state);
        assert!(asked(&state).contains(words), "{words}: {}", asked(&state));
    }
    // Nothing to lose: nothing is asked.
    let mut state = state(fresh());
    type_text(&mut state, "  ");
    close(&mut state);
    assert_eq!((state.panes.len(), asked(&state).as_str()), (3, ""));
}

#[test]
fn a_draft_of_a_closed_pane_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("batchroom.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut state, mut desk) = (state(fresh()), Desk::open(path.clone(), true));
        desk.begin(&mut state, 0);
        // One pane with a draft alone, one with a conversation and a message that is written anew over a draft.
        type_text(&mut state, "only a draft\nof two lines");
        desk.keep(&mut state);
        close(&mut state);
        act(&mut state, key(KeyCode::Char('y')));
        desk.keep(&mut state);
        assert_eq!(state.panes.len(), 3);
        desk.find(String::new());
        let found = loop {
            match desk.news().await {
                Msg::Chats { found, .. } => break found.unwrap(),
                Msg::Keeping(_) => {}
                other => panic!("{other:?}"),
            }
        };
        // The list may come before the disk has it: what is opened waits for that.
        drop(found);
        type_text(&mut state, "of the other pane");
        desk.keep(&mut state);
        desk.fetch(state.focused().person.user, 1);
        let opened = loop {
            match desk.news().await {
                Msg::ChatOpened { user, opened } => break Msg::ChatOpened { user, opened },
                Msg::Keeping(_) => {}
                other => panic!("{other:?}"),
            }
        };
        for effect in act(&mut state, opened) {
            if let Effect::Opened { key, id } = effect {
                desk.know(key, id);
            }
        }
        desk.keep(&mut state);
        assert_eq!(state.focused().editor.text(), "only a draft\nof two lines");
        assert!(desk.end());
    });
    let mut store = Store::open(&path, Missing::Refuse).unwrap();
    // That of the pane is the pane's again; the other one is kept in its place.
    let lines = store.list(9).unwrap();
    let drafts: Vec<_> = lines.iter().map(|line| (line.id, line.messages, line.draft.as_deref())).collect();
    assert_eq!(drafts.len(), 2, "{drafts:?}");
    assert!(drafts.contains(&(1, 0, None)) && drafts.contains(&(2, 0, Some("of the other pane"))), "{drafts:?}");
    assert_eq!(store.search("other", 9).unwrap()[0].role, "draft");
    let session = store.open_session(false).unwrap();
    assert!(session.panes.iter().any(|(id, row)| *id == Some(1) && row.draft == "only a draft\nof two lines"), "{session:?}");
}

#[test]
fn a_message_written_anew_and_the_draft_put_aside_for_it_are_both_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("batchroom.db");
    let (mut state, mut desk) = (state(fresh()), Desk::open(path.clone(), true));
    desk.begin(&mut state, 0);
    send(&mut state, "first");
    let user = state.focused().person.user;
    act(&mut state, Msg::Engine(user, finished(batchroom::engine::api::FinishReason::Stop)));
    type_text(&mut state, "put aside");
    act(&mut state, with(KeyModifiers::ALT, KeyCode::Char('e')));
    assert!(state.focused().rewriting.is_some());
    type_text(&mut state, " anew");
    desk.keep(&mut state);
    close(&mut state);
    assert!(matches!(state.mode, Mode::ConfirmClose));
    act(&mut state, key(KeyCode::Char('y')));
    desk.keep(&mut state);
    assert!(desk.end());
    let store = Store::open(&path, Missing::Refuse).unwrap();
    let chat = store.load(1).unwrap();
    assert_eq!(chat.draft.as_deref(), Some("first anew\n\nput aside"));
    // It goes out and comes in with the rest.
    let back = batchroom::store::from_json(&batchroom::store::to_json(&[chat]).unwrap()).unwrap();
    assert_eq!(back[0].draft.as_deref(), Some("first anew\n\nput aside"));
    let mut other = crate::state(fresh());
    let user = other.focused().person.user;
    act(&mut other, Msg::ChatOpened { user, opened: Ok(Box::new(Opened::Taken { chat: back[0].clone(), copy: false })) });
    assert_eq!(other.focused().editor.text(), "first anew\n\nput aside");
}
