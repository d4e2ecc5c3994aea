//! What comes back from the database, within bounds.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior};

use super::{Fault, Store, StoreError, now};
use crate::text::Role;

/// Messages of one conversation, and bytes of their texts, at most.
pub const MESSAGES_MAX: usize = 50_000;
pub const BYTES_MAX: usize = 64 << 20;
/// Conversations that are listed at once.
pub const LIST_MAX: usize = 1_000;

/// A conversation in a list.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Line {
    pub id: i64,
    pub person: String,
    pub title: String,
    pub model: String,
    /// Milliseconds since 1970.
    pub created: i64,
    pub updated: i64,
    pub messages: u64,
    /// The first words of what was typed and not sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
}

/// A conversation, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub id: i64,
    pub person: String,
    pub title: String,
    pub system: Option<String>,
    pub model: String,
    pub created: i64,
    pub updated: i64,
    /// The end of the path that is shown.
    pub leaf: Option<u32>,
    /// What was typed and not sent when its pane was closed.
    pub draft: Option<String>,
    /// By their numbers; every parent comes before its children.
    pub messages: Vec<StoredMessage>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredMessage {
    pub node: u32,
    pub parent: Option<u32>,
    pub role: Role,
    pub text: String,
    pub note: Option<String>,
    pub created: i64,
    pub model: Option<String>,
    /// JSON objects, if any.
    pub sampling: Option<String>,
    pub figures: Option<String>,
    /// The program ended before the answer did.
    pub cut: bool,
}

impl Stored {
    /// Places of the messages from the first to the leaf.
    pub fn path(&self) -> Vec<usize> {
        let mut path = Vec::new();
        let at = |node: u32| self.messages.binary_search_by_key(&node, |message| message.node).ok();
        let mut next = self.leaf.and_then(at).or_else(|| self.messages.len().checked_sub(1));
        while let Some(place) = next {
            path.push(place);
            next = self.messages[place].parent.and_then(at).filter(|parent| *parent < place);
        }
        path.reverse();
        path
    }

    /// What is wrong with the tree, if anything: numbers that do not rise, a parent that is not before its child, a leaf that
    /// is not there.
    pub fn fault(&self) -> Option<String> {
        let mut seen: Vec<u32> = Vec::with_capacity(self.messages.len());
        for message in &self.messages {
            if seen.last().is_some_and(|last| *last >= message.node) {
                return Some(format!("message {} is not in its place", message.node));
            }
            if message.parent.is_some_and(|parent| seen.binary_search(&parent).is_err()) {
                return Some(format!("message {} has a parent that is not before it", message.node));
            }
            seen.push(message.node);
        }
        let lost = self.leaf.filter(|leaf| seen.binary_search(leaf).is_err());
        lost.map(|leaf| format!("its newest message is {leaf}, and there is none of that number"))
    }
}

impl Store {
    /// The newest conversations first.
    pub fn list(&self, most: usize) -> Result<Vec<Line>, StoreError> {
        let read = || {
            let sql = format!("SELECT {LINE} FROM conversations c ORDER BY updated DESC, id DESC LIMIT ?");
            let mut statement = self.db().prepare_cached(&sql)?;
            let rows = statement.query_map([most.min(LIST_MAX) as i64], line)?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|source| self.fault(source))
    }

    pub fn line(&self, id: i64) -> Result<Line, StoreError> {
        let read = self.db().query_row(&format!("SELECT {LINE} FROM conversations c WHERE id = ?"), [id], line).optional();
        read.map_err(|source| self.fault(source))?.ok_or_else(|| StoreError::new(&self.path, Fault::NoConversation(id)))
    }

    /// The numbers of all of them, the oldest first.
    pub fn ids(&self) -> Result<Vec<i64>, StoreError> {
        let read = || {
            let mut statement = self.db().prepare("SELECT id FROM conversations ORDER BY id")?;
            let rows = statement.query_map([], |row| row.get(0))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|source| self.fault(source))
    }

    /// How many conversations there are.
    pub fn count(&self) -> Result<u64, StoreError> {
        let count = self.db().query_row("SELECT count(*) FROM conversations", [], |row| row.get::<_, i64>(0));
        count.map(|count| count as u64).map_err(|source| self.fault(source))
    }

    /// One conversation, whole.
    pub fn load(&self, id: i64) -> Result<Stored, StoreError> {
        let mut stored = self
            .head(id)
            .map_err(|source| self.broken(id, source))?
            .ok_or_else(|| StoreError::new(&self.path, Fault::NoConversation(id)))?;
        let (count, bytes): (i64, i64) = self
            .db()
            .query_row(
                "SELECT count(*), coalesce(sum(length(CAST(text AS BLOB))), 0) FROM messages WHERE conversation = ?",
                [id],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .map_err(|source| self.fault(source))?;
        if count > MESSAGES_MAX as i64 {
            return Err(StoreError::new(&self.path, Fault::TooMany { what: "messages", most: MESSAGES_MAX }));
        }
        if bytes > BYTES_MAX as i64 {
            return Err(StoreError::new(&self.path, Fault::TooMany { what: "bytes", most: BYTES_MAX }));
        }
        stored.messages = self.messages(id).map_err(|source| self.broken(id, source))?;
        match stored.fault() {
            Some(what) => Err(StoreError::new(&self.path, Fault::Broken { id, what })),
            None => Ok(stored),
        }
    }

    /// What is wrong with one conversation, if no more than that is.
    fn broken(&self, id: i64, source: rusqlite::Error) -> StoreError {
        let of_file = source.sqlite_error_code().is_some();
        match Fault::from(source) {
            Fault::Damaged(what) if !of_file => StoreError::new(&self.path, Fault::Broken { id, what }),
            fault => StoreError::new(&self.path, fault),
        }
    }

    fn head(&self, id: i64) -> rusqlite::Result<Option<Stored>> {
        let sql = "SELECT id, person, title, system, model, created, updated, leaf, \
                   (SELECT text FROM drafts WHERE conversation = conversations.id) FROM conversations WHERE id = ?";
        let read = |row: &Row<'_>| {
            Ok(Stored {
                id: row.get(0)?,
                person: row.get(1)?,
                title: row.get(2)?,
                system: row.get(3)?,
                model: row.get(4)?,
                created: row.get(5)?,
                updated: row.get(6)?,
                leaf: row.get(7)?,
                draft: row.get(8)?,
                messages: Vec::new(),
            })
        };
        self.db().query_row(sql, [id], read).optional()
    }

    fn messages(&self, id: i64) -> rusqlite::Result<Vec<StoredMessage>> {
        let sql = "SELECT node, parent, role, text, note, created, model, sampling, figures, state FROM messages \
                   WHERE conversation = ? ORDER BY node LIMIT ?";
        let mut statement = self.db().prepare_cached(sql)?;
        let rows = statement.query_map([id, MESSAGES_MAX as i64], |row| {
            let role: String = row.get(2)?;
            Ok(StoredMessage {
                node: row.get(0)?,
                parent: row.get(1)?,
                role: match role.as_str() {
                    "system" => Role::System,
                    "assistant" => Role::Assistant,
                    _ => Role::User,
                },
                text: row.get(3)?,
                note: row.get(4)?,
                created: row.get(5)?,
                model: row.get(6)?,
                sampling: row.get(7)?,
                figures: row.get(8)?,
                cut: row.get::<_, String>(9)? != "whole",
            })
        })?;
        rows.collect()
    }

    /// Writes a conversation that came from elsewhere, as a new one, and gives its number.
    pub fn insert(&mut self, stored: &Stored, session: Option<i64>) -> Result<i64, StoreError> {
        Ok(self.insert_all(std::slice::from_ref(stored), session)?[0])
    }

    /// The same with many: all of them, or none.
    pub fn insert_all(&mut self, all: &[Stored], session: Option<i64>) -> Result<Vec<i64>, StoreError> {
        if let Some(what) = all.iter().find_map(Stored::fault) {
            return Err(self.damaged(what));
        }
        let clock = self.clock.clone();
        let one = |change: &Connection, stored: &Stored| -> rusqlite::Result<i64> {
            clock.restart();
            change.execute(
                "INSERT INTO conversations(session, person, title, system, model, created, updated, leaf) \
                 VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
                rusqlite::params![
                    session,
                    stored.person,
                    stored.title,
                    stored.system,
                    stored.model,
                    stored.created,
                    stored.updated.min(now()),
                    stored.leaf
                ],
            )?;
            let id = change.last_insert_rowid();
            let sql = "INSERT INTO messages(conversation, node, parent, role, text, note, created, model, sampling, figures, \
                       state) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
            if let Some(draft) = &stored.draft {
                change.execute("INSERT INTO drafts(conversation, text) VALUES(?, ?)", rusqlite::params![id, draft])?;
            }
            for message in &stored.messages {
                clock.restart();
                change.prepare_cached(sql)?.execute(rusqlite::params![
                    id,
                    message.node,
                    message.parent,
                    message.role.as_str(),
                    message.text,
                    message.note,
                    message.created,
                    message.model,
                    message.sampling,
                    message.figures,
                    if message.cut { "cut" } else { "whole" },
                ])?;
            }
            Ok(id)
        };
        self.change(|change| all.iter().map(|stored| one(change, stored)).collect())
    }

    /// Removes a conversation and all of its messages. False: there was none of that number.
    pub fn remove(&mut self, id: i64) -> Result<bool, StoreError> {
        self.remove_all(&[id]).map(|count| count > 0)
    }

    /// Removes all of these, or none; gives how many there were.
    pub fn remove_all(&mut self, ids: &[i64]) -> Result<usize, StoreError> {
        let clock = self.clock.clone();
        self.change(|change| {
            let mut delete = change.prepare_cached("DELETE FROM conversations WHERE id = ?")?;
            let one = |id: &i64| {
                clock.restart();
                delete.execute([id])
            };
            ids.iter().map(one).sum()
        })
    }

    /// One transaction.
    fn change<T>(&mut self, what: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let write = || {
            let change = Transaction::new_unchecked(self.db(), TransactionBehavior::Immediate)?;
            let done = what(&change)?;
            self.clock.restart();
            change.commit()?;
            Ok(done)
        };
        write().map_err(|source| self.fault(source))
    }
}

/// The columns of [`Line`], of `conversations c`.
pub(super) const LINE: &str = "c.id, c.person, c.title, c.model, c.created, c.updated, \
     (SELECT count(*) FROM messages m WHERE m.conversation = c.id), \
     (SELECT substr(d.text, 1, 1000) FROM drafts d WHERE d.conversation = c.id)";

pub(super) fn line(row: &Row<'_>) -> rusqlite::Result<Line> {
    Ok(Line {
        id: row.get(0)?,
        person: row.get(1)?,
        title: row.get(2)?,
        model: row.get(3)?,
        created: row.get(4)?,
        updated: row.get(5)?,
        messages: row.get::<_, i64>(6)?.max(0) as u64,
        draft: row.get::<_, Option<String>>(7)?.map(|draft| super::writes::title(&draft)),
    })
}
