//! Conversations on disk: one SQLite file, written while answers stream.
//!
//! `schema` is its tables and how older ones become them, `writes` what a screen says to it, `reads` what comes back,
//! `search` finds text, `session` is who has what open, `keeper` the thread that owns the connection, `exchange` the files
//! that go out and come in. A database is a file from outside: whatever is in it, the worst that happens is an error.

mod date;
mod exchange;
mod fault;
mod keeper;
mod reads;
mod schema;
mod search;
mod session;
mod writes;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

pub use date::{clock_time, date};
pub use exchange::{EXPORT_VERSION, ImportError, escaped, from_json, markdown, to_json, to_markdown};
pub use fault::{Fault, StoreError};
pub use keeper::{Flusher, Keeper, Keeping};
pub use reads::{LIST_MAX, Line, Stored, StoredMessage};
pub use schema::VERSION;
pub use search::Hit;
pub use session::{PaneRow, Session};
pub use writes::{Known, Write};

/// Bytes of one text in the file at most; SQLite refuses longer ones, in both directions.
pub const TEXT_MAX: usize = 16 << 20;
/// How long somebody else's transaction is waited for.
pub const BUSY: Duration = Duration::from_secs(3);
/// Steps of SQLite's machine between two looks at the clock, and how long one question to the database may take: a
/// hostile schema can ask for for ever.
const LOOK: i32 = 10_000;
const LONGEST: Duration = Duration::from_secs(20);

/// An open database.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    db: Connection,
    clock: Arc<Clock>,
}

/// When the statement that runs began, and how long it may go on.
#[derive(Debug)]
struct Clock {
    born: Instant,
    /// Milliseconds since then, and milliseconds.
    began: AtomicU64,
    longest: AtomicU64,
}

impl Clock {
    fn new() -> Clock {
        Clock { born: Instant::now(), began: AtomicU64::new(0), longest: AtomicU64::new(LONGEST.as_millis() as u64) }
    }

    fn since(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Another statement begins. SQLite does not say so by itself, and many short ones are no long one.
    fn restart(&self) {
        self.began.store(self.since(), Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.since().saturating_sub(self.began.load(Ordering::Relaxed)) > self.longest.load(Ordering::Relaxed)
    }
}

/// What is done when there is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Create,
    Refuse,
}

/// Where conversations are kept: `asked` is a file, or a folder that has or gets a `batchroom.db`. None: the user's data
/// folder. Gives None where there is no such folder.
pub fn place(asked: Option<&Path>) -> Option<PathBuf> {
    match asked {
        Some(path) if path.is_dir() || path.to_string_lossy().ends_with('/') => Some(path.join("batchroom.db")),
        Some(path) => Some(path.to_owned()),
        None => Some(directories::ProjectDirs::from("", "", "batchroom")?.data_dir().join("batchroom.db")),
    }
}

/// Now, as the database has it: milliseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl Store {
    /// Opens a database, makes it if it is not there, and brings an older one up to date.
    pub fn open(path: &Path, missing: Missing) -> Result<Store, StoreError> {
        let fail = |fault| StoreError::new(path, fault);
        if missing == Missing::Refuse && !path.exists() {
            return Err(fail(Fault::Missing));
        }
        prepare(path).map_err(|source| fail(Fault::Folder(source)))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
        let mut db = Connection::open_with_flags(path, flags).map_err(|source| StoreError::of(path, source))?;
        let clock = Arc::new(Clock::new());
        set_up(&mut db, clock.clone()).and_then(|()| schema::bring_up_to_date(&mut db)).map_err(fail)?;
        Ok(Store { path: path.to_owned(), db, clock })
    }

    /// Opens a database to read from, and nothing else: no table of it is changed, none is made.
    ///
    /// # Errors
    /// As `open`; and when it is of an older format, which only writing could bring up to date.
    pub fn open_to_read(path: &Path) -> Result<Store, StoreError> {
        let fail = |fault| StoreError::new(path, fault);
        if !path.exists() {
            return Err(fail(Fault::Missing));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
        let mut db = Connection::open_with_flags(path, flags).map_err(|source| StoreError::of(path, source))?;
        let clock = Arc::new(Clock::new());
        bound(&mut db, clock.clone()).and_then(|()| schema::is_up_to_date(&db)).map_err(fail)?;
        Ok(Store { path: path.to_owned(), db, clock })
    }

    /// The connection, for the next statement: each has its own time.
    fn db(&self) -> &Connection {
        self.clock.restart();
        &self.db
    }

    /// Ends a question that is being answered, from another thread: its answer is [`Fault::Interrupted`].
    pub fn stopper(&self) -> Stopper {
        Stopper(self.db.get_interrupt_handle())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn fault(&self, source: rusqlite::Error) -> StoreError {
        StoreError::of(&self.path, source)
    }

    fn damaged(&self, what: impl Into<String>) -> StoreError {
        StoreError::new(&self.path, Fault::Damaged(what.into()))
    }

    /// For tests: how long one statement may go on.
    #[doc(hidden)]
    pub fn set_longest(&self, longest: Duration) {
        self.clock.longest.store(longest.as_millis() as u64, Ordering::Relaxed);
    }

    /// For tests: a disk of so many pages of 4 KiB.
    #[doc(hidden)]
    pub fn set_most_pages(&self, pages: u32) -> Result<(), StoreError> {
        let set = self.db().query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()));
        set.map_err(|source| self.fault(source))
    }
}

/// Stops the question that a store is answering.
pub struct Stopper(rusqlite::InterruptHandle);

impl Stopper {
    pub fn stop(&self) {
        self.0.interrupt();
    }
}

/// The folder and the empty file, for their owner's eyes only: what people write is in it.
fn prepare(path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        opened => opened.map(|_| ()),
    }
}

/// Bounds first, before anything of the file is looked at.
fn bound(db: &mut Connection, clock: Arc<Clock>) -> Result<(), Fault> {
    db.busy_timeout(BUSY)?;
    db.set_limit(Limit::SQLITE_LIMIT_LENGTH, TEXT_MAX as i32)?;
    db.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    db.set_limit(Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 8)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    db.pragma_update(None, "cell_size_check", true)?;
    db.pragma_update(None, "mmap_size", 0)?;
    db.pragma_update(None, "foreign_keys", true)?;
    // No statement goes on for longer than [`LONGEST`].
    Ok(db.progress_handler(LOOK, Some(move || clock.is_over()))?)
}

fn set_up(db: &mut Connection, clock: Arc<Clock>) -> Result<(), Fault> {
    bound(db, clock)?;
    // WAL: a reader never waits, and a program that is killed leaves a whole database. FULL in place of NORMAL: the log is
    // synced with each transaction (four a second at most, and only while something is new), or a power cut could take
    // more than the last second.
    let mode: String = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        tracing::warn!(mode, "the database is not in WAL mode");
    }
    db.pragma_update(None, "synchronous", "FULL")?;
    Ok(())
}
