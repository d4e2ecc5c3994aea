//! What can be wrong with the database, in words that say what, where, and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::ui::words::Lang;

/// What is wrong.
#[derive(Debug)]
pub enum Fault {
    /// There is no file.
    Missing,
    /// Its folder or the file itself cannot be made.
    Folder(std::io::Error),
    /// A database, or a file, of something else.
    Foreign,
    /// Made by a later version of this program.
    Newer {
        found: i64,
        known: i64,
    },
    /// Made by an earlier version, and only to be read.
    Older {
        found: i64,
        known: i64,
    },
    Damaged(String),
    /// One conversation is; the rest may be well.
    Broken {
        id: i64,
        what: String,
    },
    /// Another program holds it for longer than is waited.
    Locked,
    ReadOnly,
    Full,
    /// A text is longer than may be.
    TooLong,
    /// A question that would not end.
    Interrupted,
    /// There are more rows than are read.
    TooMany {
        what: &'static str,
        most: usize,
    },
    NoConversation(i64),
    Other(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Fault::Foreign,
            Some(ErrorCode::DatabaseCorrupt) => Fault::Damaged(error.to_string()),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Fault::Locked,
            Some(ErrorCode::ReadOnly) => Fault::ReadOnly,
            Some(ErrorCode::DiskFull) => Fault::Full,
            Some(ErrorCode::TooBig) => Fault::TooLong,
            Some(ErrorCode::OperationInterrupted) => Fault::Interrupted,
            // A value of another kind than its column has: nobody but a stranger wrote it.
            None if matches!(
                error,
                rusqlite::Error::InvalidColumnType(..)
                    | rusqlite::Error::FromSqlConversionFailure(..)
                    | rusqlite::Error::IntegralValueOutOfRange(..)
                    | rusqlite::Error::Utf8Error(..)
            ) =>
            {
                Fault::Damaged(error.to_string())
            }
            _ => Fault::Other(error),
        }
    }
}

/// A fault and the file that has it.
#[derive(Debug)]
pub struct StoreError {
    pub path: PathBuf,
    pub fault: Fault,
}

impl StoreError {
    pub fn new(path: &Path, fault: Fault) -> StoreError {
        StoreError { path: path.to_owned(), fault }
    }

    pub fn of(path: &Path, source: rusqlite::Error) -> StoreError {
        StoreError::new(path, source.into())
    }

    /// It may go away by itself: another program ends, a disk is cleared.
    pub fn may_pass(&self) -> bool {
        match &self.fault {
            Fault::Locked | Fault::Full | Fault::Interrupted => true,
            Fault::Other(error) => {
                let code = error.sqlite_error_code();
                matches!(code, Some(ErrorCode::FileLockingProtocolFailed | ErrorCode::SystemIoFailure))
            }
            _ => false,
        }
    }

    /// It is of one conversation, and not of the file.
    pub fn is_of_one(&self) -> bool {
        matches!(self.fault, Fault::Broken { .. } | Fault::TooMany { .. } | Fault::TooLong | Fault::NoConversation(_))
    }

    /// The whole of it as one sentence.
    pub fn words(&self, lang: Lang) -> String {
        let path: &dyn fmt::Display = &self.path.display();
        match &self.fault {
            Fault::Missing => lang.fill("there are no conversations yet: {} does not exist", &[path]),
            Fault::Folder(error) => lang.fill("{} cannot be made ({}): name another place with --data", &[path, error]),
            Fault::Foreign => lang.fill("{} is not a database of batchroom: name another place with --data", &[path]),
            Fault::Newer { found, known } => lang.fill(
                "{} was written by a newer batchroom (its format is {}, this one knows {}): use that, or another --data",
                &[path, found, known],
            ),
            Fault::Older { found, known } => lang.fill(
                "{} was written by an older batchroom (its format is {}, this one writes {}): open it once without --readonly",
                &[path, found, known],
            ),
            Fault::Damaged(what) => {
                lang.fill("{} is damaged ({}): move it away, or name another place with --data", &[path, what])
            }
            Fault::Broken { id, what } => lang.fill("conversation {} in {} is damaged ({})", &[id, path, what]),
            Fault::Locked => lang.fill("{} is locked by another program: end it, or wait", &[path]),
            Fault::ReadOnly => {
                lang.fill("{} cannot be written: make it and its folder writable, or name another place with --data", &[path])
            }
            Fault::Full => lang.fill("the disk of {} is full: free some space", &[path]),
            Fault::TooLong => lang.fill("{}: a text is longer than {} MiB", &[path, &(super::TEXT_MAX >> 20)]),
            Fault::Interrupted => lang.fill("{}: the database takes too long to answer", &[path]),
            Fault::TooMany { what, most } => lang.fill("{}: more than {} {}", &[path, most, what]),
            Fault::NoConversation(id) => lang.fill("there is no conversation {} in {}", &[id, path]),
            Fault::Other(error) => lang.fill("{}: {}", &[path, error]),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(Lang::En))
    }
}

impl std::error::Error for StoreError {}
