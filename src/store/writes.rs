//! What a screen says to the database, and how it gets there: one transaction for all that is waiting.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::session::PaneRow;
use super::{Store, StoreError, now};
use crate::text::Role;

/// Characters of a title.
const TITLE: usize = 80;

/// One thing to be written. `chat` is the screen's own number of a conversation: the database gives it one of its own when
/// it begins.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// A conversation begins.
    Begin { chat: u64, person: String, system: Option<String>, model: String },
    /// It is one of the database's, opened again.
    Known { chat: u64, id: i64 },
    /// What was typed in its pane and not sent, as the pane goes: it comes back with the conversation.
    Draft { chat: u64, text: String },
    /// It has left the screen: what still streams in it ends where it is. One that holds nothing goes.
    Close { chat: u64 },
    /// A message is there: whole, or the beginning of one that streams. Its parent is there already.
    Message {
        chat: u64,
        node: u32,
        parent: Option<u32>,
        role: Role,
        text: String,
        model: Option<String>,
        sampling: Option<String>,
        streaming: bool,
    },
    /// More of a message that streams.
    Text { chat: u64, node: u32, text: String },
    /// The end of a message that streamed.
    End { chat: u64, node: u32, note: Option<String>, figures: Option<String> },
    /// A message that had ended goes on.
    Resume { chat: u64, node: u32, model: Option<String>, sampling: Option<String> },
    /// A message is taken away, and all below it.
    Remove { chat: u64, node: u32 },
    /// The end of the path that is shown.
    Leaf { chat: u64, leaf: Option<u32> },
    /// What follows is everything that the screen has: the file is another than before.
    Anew,
    /// All panes as they are now, left to right.
    Panes { focus: usize, model: String, rows: Vec<PaneRow> },
}

impl Write {
    /// Bytes that it holds, about.
    pub fn bytes(&self) -> usize {
        const ROOM: usize = 64;
        let long = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        ROOM + match self {
            Write::Begin { person, system, model, .. } => person.len() + long(system) + model.len(),
            Write::Message { text, model, sampling, .. } => text.len() + long(model) + long(sampling),
            Write::Text { text, .. } | Write::Draft { text, .. } => text.len(),
            Write::End { note, figures, .. } => long(note) + long(figures),
            Write::Resume { model, sampling, .. } => long(model) + long(sampling),
            Write::Anew | Write::Known { .. } | Write::Close { .. } | Write::Remove { .. } | Write::Leaf { .. } => 0,
            Write::Panes { rows, .. } => rows.iter().map(PaneRow::bytes).sum(),
        }
    }
}

/// The database's numbers of the conversations that a screen speaks of.
pub type Known = HashMap<u64, i64>;

impl Store {
    /// Writes all of it, or nothing. `known` learns the numbers of those that begin.
    pub fn write(&mut self, session: i64, known: &mut Known, writes: &[Write]) -> Result<(), StoreError> {
        let path = self.path.clone();
        let now = now();
        let mut learned = known.clone();
        let clock = self.clock.clone();
        let mut all = || -> rusqlite::Result<()> {
            clock.restart();
            let change = self.db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            for write in writes {
                clock.restart();
                apply(&change, session, &mut learned, write, now)?;
            }
            clock.restart();
            change.prepare_cached("UPDATE sessions SET updated = ? WHERE id = ?")?.execute([now, session])?;
            change.commit()
        };
        all().map_err(|source| StoreError::of(&path, source))?;
        *known = learned;
        Ok(())
    }
}

fn apply(db: &Connection, session: i64, known: &mut Known, write: &Write, now: i64) -> rusqlite::Result<()> {
    match write {
        Write::Begin { chat, person, system, model } => {
            let sql = "INSERT INTO conversations(session, person, system, model, created, updated) VALUES(?, ?, ?, ?, ?, ?)";
            db.prepare_cached(sql)?.execute(params![session, person, system, model, now, now])?;
            known.insert(*chat, db.last_insert_rowid());
        }
        Write::Known { chat, id } => {
            known.insert(*chat, *id);
        }
        // The thread that writes has taken it in.
        Write::Anew => {}
        Write::Close { chat } => {
            if let Some(id) = known.remove(chat) {
                let sql = "UPDATE messages SET state = 'cut' WHERE conversation = ? AND state = 'streaming'";
                db.prepare_cached(sql)?.execute([id])?;
                let sql = "DELETE FROM conversations WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM messages WHERE conversation = ?1) \
                           AND NOT EXISTS (SELECT 1 FROM drafts WHERE conversation = ?1)";
                db.prepare_cached(sql)?.execute([id])?;
            }
        }
        Write::Panes { focus, model, rows } => {
            let sql = "UPDATE sessions SET focus = ?, model = ? WHERE id = ?";
            db.prepare_cached(sql)?.execute(params![*focus as i64, model, session])?;
            panes(db, session, known, rows)?;
        }
        Write::Message { chat, .. }
        | Write::Text { chat, .. }
        | Write::Draft { chat, .. }
        | Write::End { chat, .. }
        | Write::Resume { chat, .. }
        | Write::Remove { chat, .. }
        | Write::Leaf { chat, .. } => {
            // What belongs to a conversation that never began is nobody's.
            let Some(id) = known.get(chat).copied() else { return Ok(()) };
            message(db, id, write, now)?;
            db.prepare_cached("UPDATE conversations SET updated = ? WHERE id = ?")?.execute([now, id])?;
        }
    }
    Ok(())
}

fn message(db: &Connection, id: i64, write: &Write, now: i64) -> rusqlite::Result<()> {
    match write {
        Write::Message { node, parent, role, text, model, sampling, streaming, .. } => {
            let state = if *streaming { "streaming" } else { "whole" };
            let sql = "INSERT INTO messages(conversation, node, parent, role, text, created, model, sampling, state) \
                       VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)";
            db.prepare_cached(sql)?.execute(params![id, node, parent, role.as_str(), text, now, model, sampling, state])?;
            if *role == Role::User {
                let sql = "UPDATE conversations SET title = ? WHERE id = ? AND title = ''";
                db.prepare_cached(sql)?.execute(params![title(text), id])?;
            }
        }
        Write::Text { node, text, .. } => {
            let sql = "UPDATE messages SET text = text || ? WHERE conversation = ? AND node = ?";
            db.prepare_cached(sql)?.execute(params![text, id, node])?;
        }
        Write::Draft { text, .. } => {
            let sql = "INSERT INTO drafts(conversation, text) VALUES(?, ?) ON CONFLICT DO UPDATE SET text = excluded.text";
            db.prepare_cached(sql)?.execute(params![id, text])?;
        }
        Write::End { node, note, figures, .. } => {
            let sql = "UPDATE messages SET state = 'whole', note = ?, figures = ? WHERE conversation = ? AND node = ?";
            db.prepare_cached(sql)?.execute(params![note, figures, id, node])?;
        }
        Write::Resume { node, model, sampling, .. } => {
            let sql = "UPDATE messages SET state = 'streaming', note = NULL, figures = NULL, model = coalesce(?, model), \
                       sampling = coalesce(?, sampling) WHERE conversation = ? AND node = ?";
            db.prepare_cached(sql)?.execute(params![model, sampling, id, node])?;
        }
        Write::Remove { node, .. } => {
            let sql = "WITH RECURSIVE below(node) AS (VALUES(?2) UNION SELECT m.node FROM messages m JOIN below b \
                       ON m.parent = b.node WHERE m.conversation = ?1) \
                       DELETE FROM messages WHERE conversation = ?1 AND node IN below";
            db.prepare_cached(sql)?.execute(params![id, node])?;
        }
        Write::Leaf { leaf, .. } => {
            db.prepare_cached("UPDATE conversations SET leaf = ? WHERE id = ?")?.execute(params![leaf, id])?;
        }
        Write::Anew | Write::Begin { .. } | Write::Known { .. } | Write::Close { .. } | Write::Panes { .. } => {}
    }
    Ok(())
}

/// The panes of a session: those that are the same are left alone, since drafts can be long.
fn panes(db: &Connection, session: i64, known: &Known, rows: &[PaneRow]) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM panes WHERE session = ? AND place >= ?")?.execute(params![session, rows.len() as i64])?;
    for (place, row) in rows.iter().enumerate() {
        let conversation = known.get(&row.chat);
        let sql = "INSERT INTO panes(session, place, conversation, name, settings, draft) VALUES(?1, ?2, ?3, ?4, ?5, ?6) \
                   ON CONFLICT(session, place) DO UPDATE SET conversation = ?3, name = ?4, settings = ?5, draft = ?6 \
                   WHERE conversation IS NOT ?3 OR name <> ?4 OR settings <> ?5 OR draft <> ?6";
        db.prepare_cached(sql)?.execute(params![session, place as i64, conversation, row.name, row.settings, row.draft])?;
        // A conversation of an older session is now this one's.
        if let Some(id) = conversation {
            let sql = "UPDATE conversations SET session = ?1, person = ?2, system = ?3 \
                       WHERE id = ?4 AND (session IS NOT ?1 OR person <> ?2 OR system IS NOT ?3)";
            db.prepare_cached(sql)?.execute(params![session, row.name, row.system, id])?;
            // Its draft is the pane's from now on.
            db.prepare_cached("DELETE FROM drafts WHERE conversation = ?")?.execute([id])?;
        }
    }
    Ok(())
}

/// The first words of a prompt, on one line.
pub(super) fn title(text: &str) -> String {
    let words: String = text.split_whitespace().flat_map(|word| [word, " "]).flat_map(str::chars).take(TITLE + 1).collect();
    let words = words.trim_end();
    if words.chars().count() > TITLE { words.chars().take(TITLE - 1).chain(['…']).collect() } else { words.to_owned() }
}
