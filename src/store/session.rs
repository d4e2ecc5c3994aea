//! Who has what open. A running program holds its session by a lock on a small file beside the database, which the system
//! takes back whatever ends the program.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};

use super::{Store, StoreError, Stored, now};

/// Sessions that are remembered.
const KEPT: i64 = 20;
/// Panes of a session that are read at most.
const PANES: usize = 64;

/// One pane as it was left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PaneRow {
    /// The screen's number of its conversation.
    pub chat: u64,
    pub name: String,
    /// Its system prompt, which the conversation keeps; not read back here.
    pub system: Option<String>,
    /// System prompt and sampling, where they are not those of the configuration: a JSON object.
    pub settings: String,
    pub draft: String,
}

impl PaneRow {
    pub(super) fn bytes(&self) -> usize {
        self.name.len() + self.system.as_ref().map_or(0, String::len) + self.settings.len() + self.draft.len()
    }
}

/// A session that this program has open.
#[derive(Debug)]
pub struct Session {
    pub id: i64,
    /// Panes of the last time, each with its conversation's number in the database. Empty: a new session.
    pub panes: Vec<(Option<i64>, PaneRow)>,
    pub focus: usize,
    /// The newest session is open in another program.
    pub other: bool,
    hold: Hold,
}

/// Locked as long as it lives, and gone with it.
#[derive(Debug)]
struct Hold {
    path: PathBuf,
    _file: File,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Hold {
    /// None: somebody else has it.
    fn take(path: PathBuf) -> std::io::Result<Option<Hold>> {
        loop {
            let mut options = File::options();
            options.write(true).create(true).truncate(false);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let file = options.open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Whoever had it may have removed the file between the two: then this lock is on a file without a name.
            if same(&file, &path) {
                return Ok(Some(Hold { path, _file: file }));
            }
        }
    }
}

#[cfg(unix)]
fn same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), path.metadata()) {
        (Ok(ours), Ok(named)) => (ours.dev(), ours.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn same(_: &File, path: &Path) -> bool {
    path.exists()
}

impl Store {
    fn hold(&self, session: i64) -> std::io::Result<Option<Hold>> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!("-session-{session}"));
        Hold::take(PathBuf::from(name))
    }

    /// Whether a running program has this session open (this one too).
    fn is_open(&self, session: i64) -> bool {
        matches!(self.hold(session), Ok(None))
    }

    /// Opens the newest session again, or a fresh one: when asked for, when there is none, or when another program has it.
    /// What programs that ended in mid-answer have left open is closed.
    pub fn open_session(&mut self, fresh: bool) -> Result<Session, StoreError> {
        self.close_cut()?;
        let newest = if fresh { None } else { self.newest()? };
        let held = match newest {
            Some(id) => self.hold(id).map_err(|error| self.no_hold(error))?.map(|hold| (id, hold)),
            None => None,
        };
        let other = newest.is_some() && held.is_none();
        let session = match held {
            Some((id, hold)) => {
                let (panes, focus) = self.panes_of(id)?;
                Session { id, panes, focus, other, hold }
            }
            None => self.fresh_session(other)?,
        };
        self.forget_old(session.id)?;
        Ok(session)
    }

    /// The panes of the newest session, and which of them had the focus; nothing is opened, nobody else is in the way.
    ///
    /// # Errors
    /// When it cannot be read.
    #[allow(clippy::type_complexity, reason = "a list and a number")]
    pub fn newest_panes(&self) -> Result<(Vec<(Option<i64>, PaneRow)>, usize), StoreError> {
        self.newest()?.map_or(Ok((Vec::new(), 0)), |id| self.panes_of(id))
    }

    fn no_hold(&self, error: std::io::Error) -> StoreError {
        StoreError::new(&self.path, super::Fault::Folder(error))
    }

    fn fresh_session(&mut self, other: bool) -> Result<Session, StoreError> {
        loop {
            let sql = "INSERT INTO sessions(opened, updated) VALUES(?1, ?1)";
            self.db().execute(sql, [now()]).map_err(|source| self.fault(source))?;
            let id = self.db().last_insert_rowid();
            if let Some(hold) = self.hold(id).map_err(|error| self.no_hold(error))? {
                return Ok(Session { id, panes: Vec::new(), focus: 0, other, hold });
            }
        }
    }

    /// The newest session that has something in it.
    fn newest(&self) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT id FROM sessions WHERE EXISTS(SELECT 1 FROM panes WHERE session = sessions.id \
                   AND (conversation IS NOT NULL OR draft <> '' OR settings <> '{}')) ORDER BY updated DESC, id DESC LIMIT 1";
        self.db().query_row(sql, [], |row| row.get(0)).optional().map_err(|source| self.fault(source))
    }

    #[allow(clippy::type_complexity, reason = "a list and a number")]
    fn panes_of(&self, session: i64) -> Result<(Vec<(Option<i64>, PaneRow)>, usize), StoreError> {
        let read = || {
            let sql = "SELECT conversation, name, settings, draft FROM panes WHERE session = ? ORDER BY place LIMIT ?";
            let mut statement = self.db().prepare(sql)?;
            let rows = statement.query_map(params![session, PANES as i64], |row| {
                Ok((row.get(0)?, PaneRow { name: row.get(1)?, settings: row.get(2)?, draft: row.get(3)?, ..PaneRow::default() }))
            })?;
            let panes = rows.collect::<rusqlite::Result<Vec<_>>>()?;
            let focus: i64 = self.db().query_row("SELECT focus FROM sessions WHERE id = ?", [session], |row| row.get(0))?;
            Ok((panes, usize::try_from(focus).unwrap_or(0)))
        };
        read().map_err(|source| self.fault(source))
    }

    /// Answers that were streaming in a program that has ended: they are what they are.
    pub(super) fn close_cut(&mut self) -> Result<(), StoreError> {
        let sql = "SELECT DISTINCT c.id, c.session FROM messages m JOIN conversations c ON c.id = m.conversation \
                   WHERE m.state = 'streaming' LIMIT 1000";
        let read = || {
            let mut statement = self.db().prepare(sql)?;
            let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?)))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        for (conversation, session) in read().map_err(|source| self.fault(source))? {
            if session.is_none_or(|session| !self.is_open(session)) {
                let sql = "UPDATE messages SET state = 'cut' WHERE conversation = ? AND state = 'streaming'";
                self.db().execute(sql, [conversation]).map_err(|source| self.fault(source))?;
            }
        }
        Ok(())
    }

    /// Whether another session than this has the conversation open now.
    pub fn open_elsewhere(&self, conversation: i64, session: Option<i64>) -> Result<bool, StoreError> {
        let sql = "SELECT session FROM conversations WHERE id = ?";
        let holder = self.db().query_row(sql, [conversation], |row| row.get::<_, Option<i64>>(0)).optional();
        let holder = holder.map_err(|source| self.fault(source))?.flatten();
        Ok(holder.is_some_and(|holder| Some(holder) != session && self.is_open(holder)))
    }

    /// Makes a conversation this session's, unless another that is open has it. One transaction: of two screens that want it
    /// at once, one gets it.
    fn claim(&self, conversation: i64, session: i64) -> Result<bool, StoreError> {
        let claim = || {
            let change = Transaction::new_unchecked(self.db(), TransactionBehavior::Immediate)?;
            let sql = "SELECT session FROM conversations WHERE id = ?";
            let holder = change.query_row(sql, [conversation], |row| row.get::<_, Option<i64>>(0)).optional()?.flatten();
            if holder.is_some_and(|holder| holder != session && self.is_open(holder)) {
                return Ok(false);
            }
            change.execute("UPDATE conversations SET session = ? WHERE id = ?", [session, conversation])?;
            change.commit()?;
            Ok(true)
        };
        claim().map_err(|source| self.fault(source))
    }

    /// A conversation for a pane of this session: the one that is there, or, while another program has that, a copy of it.
    /// True: it is a copy.
    pub fn take(&mut self, conversation: i64, session: i64) -> Result<(Stored, bool), StoreError> {
        let own = self.claim(conversation, session)?;
        let mut stored = self.load(conversation)?;
        if !own {
            stored.id = self.insert(&stored, Some(session))?;
        }
        Ok((stored, !own))
    }

    /// Which pane of this session has the conversation.
    pub fn place_of(&self, conversation: i64, session: i64) -> Result<Option<usize>, StoreError> {
        let sql = "SELECT place FROM panes WHERE session = ? AND conversation = ? LIMIT 1";
        let place = self.db().query_row(sql, [session, conversation], |row| row.get::<_, i64>(0)).optional();
        Ok(place.map_err(|source| self.fault(source))?.and_then(|place| usize::try_from(place).ok()))
    }

    /// Sessions beyond the newest go; their conversations stay.
    fn forget_old(&mut self, own: i64) -> Result<(), StoreError> {
        let read = || {
            let mut statement =
                self.db().prepare("SELECT id FROM sessions ORDER BY updated DESC, id DESC LIMIT 1000 OFFSET ?")?;
            let rows = statement.query_map([KEPT], |row| row.get::<_, i64>(0))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        for id in read().map_err(|source| self.fault(source))? {
            if id != own && !self.is_open(id) {
                self.db().execute("DELETE FROM sessions WHERE id = ?", [id]).map_err(|source| self.fault(source))?;
            }
        }
        Ok(())
    }
}

impl Session {
    /// The file that is locked.
    pub fn lock_path(&self) -> &Path {
        &self.hold.path
    }
}
