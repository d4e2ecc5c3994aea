//! The store: what is written comes back, older files are brought up to date, and whatever else a file is, it is an error.

mod damage;
mod history;
mod migrations;
mod sessions;

use std::path::PathBuf;

use batchroom::store::{Known, Missing, PaneRow, Store, Write};
use batchroom::text::Role;
use tempfile::TempDir;

/// A database in a folder of its own.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("batchroom.db")
    }

    fn open(&self) -> Store {
        Store::open(&self.path(), Missing::Create).expect("a database")
    }
}

fn message(chat: u64, node: u32, parent: Option<u32>, role: Role, text: &str) -> Write {
    Write::Message { chat, node, parent, role, text: text.into(), model: None, sampling: None, streaming: false }
}

fn streaming(chat: u64, node: u32, parent: Option<u32>) -> Write {
    Write::Message {
        chat,
        node,
        parent,
        role: Role::Assistant,
        text: String::new(),
        model: Some("nano".into()),
        sampling: Some("{\"temperature\":0}".into()),
        streaming: true,
    }
}

fn begin(chat: u64, person: &str) -> Write {
    Write::Begin { chat, person: person.into(), system: None, model: "nano".into() }
}

fn text(chat: u64, node: u32, text: &str) -> Write {
    Write::Text { chat, node, text: text.into() }
}

fn pane(chat: u64, name: &str, draft: &str) -> PaneRow {
    PaneRow { chat, name: name.into(), settings: "{}".into(), draft: draft.into(), system: None }
}

fn panes(rows: Vec<PaneRow>) -> Write {
    Write::Panes { focus: 0, model: "nano".into(), rows }
}

/// One question and its answer, as a conversation of its own; its number.
fn said(store: &mut Store, session: i64, question: &str, answer: &str) -> i64 {
    let mut known = Known::new();
    let writes = [
        begin(1, "ana"),
        message(1, 0, None, Role::User, question),
        message(1, 1, Some(0), Role::Assistant, answer),
        Write::Leaf { chat: 1, leaf: Some(1) },
    ];
    store.write(session, &mut known, &writes).expect("written");
    known[&1]
}
