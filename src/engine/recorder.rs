//! Writes a trace beside the engine: a thread of its own, which the engine never waits for.

use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::api::RecordingEnd;
use super::trace::{Header, Record};

/// Records that may wait for the disk, and bytes of them (about).
const PENDING: usize = 65_536;
const PENDING_BYTES: u64 = 64 << 20;
/// Bytes of a trace at most, when nobody says otherwise.
pub const MAX_BYTES: u64 = 1 << 30;

/// Where a trace goes.
pub struct Recording {
    pub to: Box<dyn Write + Send>,
    /// When it began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    pub max_bytes: u64,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

/// The engine's end of a recording. Dropped, it lets the writer finish.
pub(super) struct Recorder {
    records: SyncSender<(Record, u64)>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
pub(super) struct Shared {
    pending: AtomicU64,
    end: Mutex<End>,
    over: Condvar,
}

#[derive(Debug, Default)]
struct End {
    /// All that will be written is written.
    over: bool,
    /// Why it ended before the engine did.
    why: Option<RecordingEnd>,
}

impl Shared {
    fn end(&self, why: Option<RecordingEnd>, over: bool) {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.over |= over;
        end.why = end.why.take().or(why);
        drop(end);
        self.over.notify_all();
    }

    /// Waits until everything is written, at most so long. False when it is not.
    pub fn wait(&self, longest: Duration) -> bool {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.over.wait_timeout_while(end, longest, |end| !end.over);
        waited.unwrap_or_else(PoisonError::into_inner).0.over
    }

    fn why(&self) -> Option<RecordingEnd> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).why.clone()
    }
}

impl Recorder {
    pub fn start(recording: Recording, header: &Header) -> std::io::Result<Recorder> {
        let (records, inbox) = sync_channel(PENDING);
        let shared = Arc::new(Shared::default());
        let first = serde_json::to_string(header)?;
        let mut writer = Writer { to: BufWriter::new(recording.to), left: recording.max_bytes, shared: shared.clone() };
        std::thread::Builder::new().name("trace".into()).spawn(move || writer.run(&first, &inbox))?;
        Ok(Recorder { records, shared })
    }

    pub fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Hands a record over.
    ///
    /// # Errors
    /// Why nothing more is recorded.
    pub fn put(&self, record: Record) -> Result<(), RecordingEnd> {
        let bytes = size(&record);
        let waiting = self.shared.pending.fetch_add(bytes, Ordering::Relaxed);
        if let Some(why) = self.shared.why() {
            return Err(why);
        }
        if waiting + bytes > PENDING_BYTES || self.records.try_send((record, bytes)).is_err() {
            return Err(self.shared.why().unwrap_or(RecordingEnd::Slow));
        }
        Ok(())
    }
}

/// About the bytes of a record while it waits.
fn size(record: &Record) -> u64 {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let bytes = match record {
        Record::Submit(submit) => submit.prompt.len() * 4 + text(&submit.said),
        Record::Step(step) => step.r.len() * 48 + step.rest.iter().map(|(_, text)| text.len() + 32).sum::<usize>(),
        Record::Refused { why, said, .. } => why.to_string().len() + text(said),
        Record::Cancel { rest, .. } => rest.len(),
        Record::User { name, .. } => name.len(),
        _ => 0,
    };
    bytes as u64 + 128
}

struct Writer {
    to: BufWriter<Box<dyn Write + Send>>,
    /// Bytes that may still be written.
    left: u64,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(&mut self, first: &str, inbox: &Receiver<(Record, u64)>) {
        let result = self.line(first).and_then(|()| self.take_all(inbox));
        let flushed = self.to.flush().map_err(RecordingEnd::of);
        self.shared.end(result.and(flushed).err(), true);
    }

    fn take_all(&mut self, inbox: &Receiver<(Record, u64)>) -> Result<(), RecordingEnd> {
        loop {
            let next = match inbox.try_recv() {
                // Nothing more for now: whoever looks at the file sees all there is.
                Err(TryRecvError::Empty) => {
                    self.to.flush().map_err(RecordingEnd::of)?;
                    inbox.recv()
                }
                Err(TryRecvError::Disconnected) => Err(RecvError),
                Ok(next) => Ok(next),
            };
            let Ok((record, bytes)) = next else { return Ok(()) };
            self.shared.pending.fetch_sub(bytes, Ordering::Relaxed);
            let line = serde_json::to_string(&record).map_err(RecordingEnd::of)?;
            self.line(&line)?;
        }
    }

    fn line(&mut self, line: &str) -> Result<(), RecordingEnd> {
        let bytes = line.len() as u64 + 1;
        if bytes > self.left {
            let why = RecordingEnd::Full;
            if let Ok(line) = serde_json::to_string(&Record::Cut { why: why.clone() }) {
                let _ = self.to.write_all(line.as_bytes()).and_then(|()| self.to.write_all(b"\n"));
            }
            return Err(why);
        }
        self.left -= bytes;
        let written = self.to.write_all(line.as_bytes()).and_then(|()| self.to.write_all(b"\n"));
        written.map_err(RecordingEnd::of)
    }
}
