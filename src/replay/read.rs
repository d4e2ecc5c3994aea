//! Reads a trace file: bounded, and every fault has its line.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;

use crate::engine::RecordingEnd;
use crate::engine::trace::{Header, KINDS, Record, VERSION};

/// Bytes of a trace at most, and of one of its lines.
pub const MAX_FILE: u64 = 1 << 30;
pub const MAX_LINE: u64 = 16 << 20;

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("cannot read {name}: {source}")]
    Read { name: String, source: std::io::Error },
    #[error("{name} is no trace of batchroom: {what}")]
    NoTrace { name: String, what: String },
    #[error("{name}, line {line}: {what}")]
    Line { name: String, line: usize, what: String },
    #[error("{name}: more than {MAX_FILE} bytes")]
    TooLarge { name: String },
    #[error(
        "{name} was written by a newer version: its format is {version}, and this program knows {VERSION}; \
         replay it with the version that wrote it"
    )]
    Newer { name: String, version: u32 },
}

/// A trace as it was read: record `n` is line `n + 2`.
#[derive(Clone, Debug)]
pub struct Trace {
    name: String,
    pub header: Header,
    pub records: Vec<Record>,
    /// Why it ends before the engine did.
    pub cut: Option<Cut>,
}

#[derive(Deserialize)]
struct Version {
    batchroom_trace: u32,
}

/// Why a recording is not whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cut {
    /// It says so itself.
    #[error(transparent)]
    Recording(RecordingEnd),
    #[error("its last line breaks off")]
    LastLine,
    #[error("it ends before the engine did")]
    NoEnd,
}

impl Trace {
    /// # Errors
    /// When the file cannot be read or is no whole trace; a last line that breaks off is let pass, and said.
    pub fn open(path: &Path) -> Result<Trace, ReplayError> {
        let name = path.display().to_string();
        match std::fs::File::open(path) {
            Ok(file) => Trace::read(BufReader::new(file), &name),
            Err(source) => Err(ReplayError::Read { name, source }),
        }
    }

    /// The same from anything. `name` is for messages.
    ///
    /// # Errors
    /// See [`Trace::open`].
    pub fn read(from: impl BufRead, name: &str) -> Result<Trace, ReplayError> {
        let mut lines = Lines { from, name, number: 0, bytes: Vec::new(), left: MAX_FILE };
        let header = match lines.next()? {
            Some(_) => header(&lines.bytes, name)?,
            None => return Err(ReplayError::NoTrace { name: name.to_owned(), what: "it is empty".into() }),
        };
        let mut trace = Trace { name: name.to_owned(), header, records: Vec::new(), cut: None };
        let mut ended = false;
        while let Some(whole) = lines.next()? {
            if ended {
                return Err(trace.fault(lines.number, "something after the end".into()));
            }
            match record(&lines.bytes) {
                Ok(record) => {
                    ended = matches!(record, Record::End { .. } | Record::Cut { .. });
                    if let Record::Cut { why } = &record {
                        trace.cut = Some(Cut::Recording(why.clone()));
                    }
                    trace.records.push(record);
                }
                Err(_) if !whole => {
                    trace.cut = Some(Cut::LastLine);
                    return Ok(trace);
                }
                Err(what) => return Err(trace.fault(lines.number, what)),
            }
        }
        if !ended {
            trace.cut = Some(Cut::NoEnd);
        }
        Ok(trace)
    }

    /// A fault of one line.
    pub(super) fn fault(&self, line: usize, what: String) -> ReplayError {
        ReplayError::Line { name: self.name.clone(), line, what }
    }
}

fn header(line: &[u8], name: &str) -> Result<Header, ReplayError> {
    let no_trace = |error: serde_json::Error| ReplayError::NoTrace { name: name.to_owned(), what: words(&error) };
    let version = serde_json::from_slice::<Version>(line).map_err(no_trace)?.batchroom_trace;
    if version > VERSION {
        return Err(ReplayError::Newer { name: name.to_owned(), version });
    }
    if version == 0 {
        return Err(ReplayError::NoTrace { name: name.to_owned(), what: "there is no version 0".into() });
    }
    let fault = |error: serde_json::Error| ReplayError::Line { name: name.to_owned(), line: 1, what: words(&error) };
    serde_json::from_slice(line).map_err(fault)
}

fn record(line: &[u8]) -> Result<Record, String> {
    serde_json::from_slice(line).map_err(|error| match kind(line) {
        Some(kind) if !KINDS.contains(&kind) => {
            format!("`{}` is nothing that this version knows: written by a newer version", crate::text::printable(kind))
        }
        _ => words(&error),
    })
}

/// The word that begins a line, if it looks like a record.
fn kind(line: &[u8]) -> Option<&str> {
    let rest = line.trim_ascii_start().strip_prefix(b"{")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = rest.iter().take(64).position(|byte| *byte == b'"')?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// What is wrong, with its column: the line is said by others.
fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    let what: String = crate::text::printable(what).chars().take(300).collect();
    format!("{what} (column {})", error.column())
}

struct Lines<'a, R> {
    from: R,
    name: &'a str,
    number: usize,
    /// The newest line, without its end.
    bytes: Vec<u8>,
    /// Bytes that the file may still have.
    left: u64,
}

impl<R: BufRead> Lines<'_, R> {
    /// Reads a line; says whether it is whole. None at the end.
    fn next(&mut self) -> Result<Option<bool>, ReplayError> {
        let name = || self.name.to_owned();
        self.bytes.clear();
        let read = (&mut self.from).take(MAX_LINE + 1).read_until(b'\n', &mut self.bytes);
        let count = read.map_err(|source| ReplayError::Read { name: name(), source })? as u64;
        if count == 0 {
            return Ok(None);
        }
        self.number += 1;
        if count > MAX_LINE {
            let what = format!("longer than {MAX_LINE} bytes");
            return Err(ReplayError::Line { name: name(), line: self.number, what });
        }
        self.left = self.left.checked_sub(count).ok_or_else(|| ReplayError::TooLarge { name: name() })?;
        let whole = self.bytes.last() == Some(&b'\n');
        if whole {
            self.bytes.pop();
        }
        Ok(Some(whole))
    }
}
