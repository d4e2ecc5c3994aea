//! The thread that owns the connection while the screen is open. The screen never waits for the disk: what it says is
//! gathered, pieces of one text joined, and written in one transaction at least every [`EVERY`]; when nothing is new,
//! nothing is written.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::session::Session;
use super::writes::{Known, Write};
use super::{Missing, Store, StoreError};

/// The longest that something new waits for its transaction.
const EVERY: Duration = Duration::from_millis(250);
/// How often is looked whether the file is still the one at its place, while nothing is new.
const LOOK: Duration = Duration::from_secs(3);
/// What waits for longer than this is late.
const LATE: Duration = Duration::from_millis(1500);
/// How long is waited before a lock or a full disk is tried again.
const AGAIN: Duration = Duration::from_secs(2);
/// Bytes that may wait while nothing can be written.
const WAITING_MAX: usize = 64 << 20;

/// How keeping goes.
#[derive(Clone, Debug, Default)]
pub enum Keeping {
    #[default]
    Well,
    /// It is tried again; nothing is lost yet.
    Waiting(Arc<StoreError>),
    /// Nothing more is kept.
    Ended(Arc<StoreError>),
    /// The database can be had now, which could not be had at first: there is a fresh session in it, and what comes after
    /// [`Write::Anew`] is written to that. What is said before is dropped.
    Begun,
    /// The file was removed, or another is in its place: there is a fresh session in the one that is there now, and what comes
    /// after [`Write::Anew`] is written to that. What is said before is dropped.
    Moved,
}

#[derive(Debug)]
struct Queue {
    writes: VecDeque<Write>,
    bytes: usize,
    /// Somebody waits for all of it to be on disk.
    hurry: bool,
    /// The screen has ended.
    over: bool,
    /// Nothing is taken any more.
    closed: bool,
    /// Since when something waits that is not on disk.
    since: Option<Instant>,
    /// When all of it was on disk last: milliseconds since 1970.
    until: Option<i64>,
    /// Transactions are numbered: what was taken in, and what is on disk.
    taken: u64,
    written: u64,
}

#[derive(Debug)]
struct Desk {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flush(&self, longest: Duration) -> bool {
        let end = Instant::now() + longest;
        let mut queue = self.lock();
        queue.hurry = true;
        self.changed.notify_all();
        while !(queue.closed || queue.writes.is_empty() && queue.written == queue.taken) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.writes.is_empty()
    }
}

/// See [`Keeper::flush`].
#[derive(Debug)]
pub struct Flusher(Arc<Desk>);

impl Flusher {
    pub fn flush(&self, longest: Duration) -> bool {
        self.0.flush(longest)
    }
}

/// The screen's side of the thread.
#[derive(Debug)]
pub struct Keeper {
    desk: Arc<Desk>,
    news: watch::Receiver<Keeping>,
    thread: Option<JoinHandle<()>>,
    session: Arc<AtomicI64>,
}

impl Keeper {
    /// Takes the database and the session over. `known`: the conversations that are open already.
    pub fn start(store: Store, session: Session, known: Known) -> std::io::Result<Keeper> {
        let (path, number) = (store.path().to_owned(), session.id);
        let place = Place::of(&path);
        Keeper::spawn(path, place, Some((store, session)), number, known, Keeping::Well)
    }

    /// The database cannot be had now: it is tried again until it can.
    pub fn later(path: PathBuf, why: Arc<StoreError>) -> std::io::Result<Keeper> {
        Keeper::spawn(path, Place::default(), None, 0, Known::new(), Keeping::Waiting(why))
    }

    fn spawn(
        path: PathBuf,
        place: Place,
        open: Option<(Store, Session)>,
        number: i64,
        known: Known,
        keeping: Keeping,
    ) -> std::io::Result<Keeper> {
        let queue = Queue {
            writes: VecDeque::new(),
            bytes: 0,
            hurry: false,
            over: false,
            closed: false,
            since: None,
            until: None,
            taken: 0,
            written: 0,
        };
        let desk = Arc::new(Desk { queue: Mutex::new(queue), changed: Condvar::new() });
        let (say, news) = watch::channel(keeping);
        let id = Arc::new(AtomicI64::new(number));
        let anew = open.is_none();
        let mut writer = Writer { desk: desk.clone(), path, place, open, number: id.clone(), known, say, anew };
        let thread = std::thread::Builder::new().name("store".into()).spawn(move || writer.run())?;
        Ok(Keeper { desk, news, thread: Some(thread), session: id })
    }

    /// Never waits. What nobody can write any more is dropped: the screen has said so.
    pub fn write(&self, write: Write) {
        let mut queue = self.desk.lock();
        if queue.closed {
            return;
        }
        queue.since.get_or_insert_with(Instant::now);
        queue.bytes += write.bytes();
        match (queue.writes.back_mut(), write) {
            (Some(Write::Text { chat, node, text }), Write::Text { chat: same, node: one, text: more })
                if (*chat, *node) == (same, one) =>
            {
                text.push_str(&more);
            }
            // The newest picture of the panes is enough.
            (Some(Write::Panes { .. }), write @ Write::Panes { .. }) => {
                if let Some(old) = queue.writes.pop_back() {
                    queue.bytes = queue.bytes.saturating_sub(old.bytes());
                }
                queue.writes.push_back(write);
            }
            (_, write) => queue.writes.push_back(write),
        }
        self.desk.changed.notify_all();
    }

    /// How keeping goes, from now on.
    pub fn news(&self) -> watch::Receiver<Keeping> {
        self.news.clone()
    }

    pub fn session(&self) -> i64 {
        self.session.load(Ordering::SeqCst)
    }

    /// Whether something of what was said is not on disk though it should be by now.
    pub fn is_late(&self) -> bool {
        let queue = self.desk.lock();
        queue.closed || queue.since.is_some_and(|since| since.elapsed() >= LATE)
    }

    /// When all that was said was on disk last, in milliseconds since 1970. None: never since this began.
    pub fn kept_until(&self) -> Option<i64> {
        self.desk.lock().until
    }

    /// Waits until all that was said is on disk, at most so long. False: it is not.
    pub fn flush(&self, longest: Duration) -> bool {
        self.desk.flush(longest)
    }

    /// For a thread that may wait where the screen may not.
    pub fn flusher(&self) -> Flusher {
        Flusher(self.desk.clone())
    }

    /// Writes what is left and ends. False: it could not be written in that time.
    pub fn finish(mut self, longest: Duration) -> bool {
        let done = self.flush(longest);
        self.desk.lock().over = true;
        self.desk.changed.notify_all();
        if let Some(thread) = self.thread.take().filter(|_| done) {
            let _ = thread.join();
        }
        done
    }
}

impl Drop for Keeper {
    /// However the screen ends, what was said is on disk, unless that takes too long.
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.flush(Duration::from_secs(1));
        }
        self.desk.lock().over = true;
        self.desk.changed.notify_all();
    }
}

/// Which file is at a path, and which is its log of changes: they can be removed, or replaced, while they are open.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Place {
    file: Option<(u64, u64)>,
    log: Option<(u64, u64)>,
}

impl Place {
    fn of(path: &Path) -> Place {
        Place { file: identity(path), log: identity(&beside(path, "-wal")) }
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<(u64, u64)> {
    path.exists().then_some((0, 0))
}

struct Writer {
    desk: Arc<Desk>,
    path: PathBuf,
    place: Place,
    /// None only while it cannot be had, at first or in place of one that has gone.
    open: Option<(Store, Session)>,
    /// The session's number, for whoever asks questions of its own.
    number: Arc<AtomicI64>,
    known: Known,
    say: watch::Sender<Keeping>,
    /// What is said belongs to a file that has gone, until all is said anew.
    anew: bool,
}

impl Writer {
    fn run(&mut self) {
        let mut batch = Vec::new();
        if self.open.is_none() {
            self.pause();
            if !self.open_again(Keeping::Begun) {
                return;
            }
        }
        while self.gather(&mut batch) {
            if self.is_moved() && !self.open_other() {
                return;
            }
            if !self.put(&mut batch) {
                return;
            }
            batch.clear();
            let mut queue = self.desk.lock();
            queue.written += 1;
            let late = queue.since.is_some_and(|since| since.elapsed() >= LATE);
            queue.since = (!queue.writes.is_empty()).then(Instant::now);
            // What was dropped is said again, and is not there yet.
            if !self.anew {
                queue.until = Some(super::now());
            }
            // With the queue locked: whoever hears of it and asks is told the same.
            let was_well = matches!(*self.say.borrow(), Keeping::Well);
            if !self.anew && (late || !was_well) {
                self.say.send_replace(Keeping::Well);
            }
            drop(queue);
            self.desk.changed.notify_all();
        }
    }

    /// Waits for something new, and then a moment for more of it; now and then there is nothing, and the file is looked for.
    /// False: all is written, and the screen has ended.
    fn gather(&mut self, batch: &mut Vec<Write>) -> bool {
        let mut queue = self.desk.lock();
        while queue.writes.is_empty() {
            if queue.over {
                return false;
            }
            queue.hurry = false;
            let (next, waited) = self.desk.changed.wait_timeout(queue, LOOK).unwrap_or_else(PoisonError::into_inner);
            queue = next;
            if waited.timed_out() && queue.writes.is_empty() && self.is_moved() {
                queue.taken += 1;
                return true;
            }
        }
        let due = Instant::now() + EVERY;
        while !queue.hurry && !queue.over {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            queue = self.desk.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        batch.extend(queue.writes.drain(..));
        queue.bytes = 0;
        queue.taken += 1;
        true
    }

    fn is_moved(&self) -> bool {
        identity(&self.path) != self.place.file
    }

    /// The file has gone: what is in its place now is opened. False: as of `open_again`.
    fn open_other(&mut self) -> bool {
        tracing::warn!(path = %self.path.display(), "the database was removed or replaced");
        self.open = None;
        // What is left of the old file's log would be read as a part of the new one.
        if self.place.log.is_some() && identity(&beside(&self.path, "-wal")) == self.place.log {
            let _ = std::fs::remove_file(beside(&self.path, "-wal"));
            let _ = std::fs::remove_file(beside(&self.path, "-shm"));
        }
        self.open_again(Keeping::Moved)
    }

    /// Opens what is at the path now, or makes it, and begins a session there; then all is to be said anew. False: it cannot be
    /// had, or the screen has ended.
    fn open_again(&mut self, news: Keeping) -> bool {
        loop {
            let opened = Store::open(&self.path, Missing::Create).and_then(|mut store| {
                let session = store.open_session(true)?;
                Ok((store, session))
            });
            match opened {
                Ok((store, session)) => {
                    self.number.store(session.id, Ordering::SeqCst);
                    self.place = Place::of(&self.path);
                    self.open = Some((store, session));
                    self.known.clear();
                    self.anew = true;
                    self.say.send_replace(news);
                    return true;
                }
                Err(error) => {
                    if !self.goes_on(error) {
                        return false;
                    }
                }
            }
        }
    }

    /// One transaction, tried again as long as it may help. False: it never will, or the screen has ended.
    fn put(&mut self, batch: &mut Vec<Write>) -> bool {
        if self.anew {
            // Said before it was known that the file has gone.
            let Some(at) = batch.iter().rposition(|write| *write == Write::Anew) else { return true };
            batch.drain(..=at);
            self.anew = false;
        }
        loop {
            let Some((store, session)) = &mut self.open else { return false };
            let error = match store.write(session.id, &mut self.known, batch) {
                Ok(()) => {
                    self.place.log = identity(&beside(&self.path, "-wal"));
                    return true;
                }
                Err(error) => error,
            };
            if self.is_moved() {
                // It went away in the middle of it.
                return self.open_other();
            }
            if !self.goes_on(error) {
                return false;
            }
        }
    }

    /// Says what is wrong, and waits a while if that may help. False: nothing more is kept.
    fn goes_on(&self, error: StoreError) -> bool {
        tracing::warn!(%error, "nothing is written");
        let mut queue = self.desk.lock();
        if !error.may_pass() || queue.over || queue.bytes > WAITING_MAX {
            queue.closed = true;
            queue.writes.clear();
            drop(queue);
            self.desk.changed.notify_all();
            self.say.send_replace(Keeping::Ended(Arc::new(error)));
            return false;
        }
        drop(queue);
        // Once for each fault, however often it is tried.
        let known = match &*self.say.borrow() {
            Keeping::Waiting(known) => known.to_string() == error.to_string(),
            _ => false,
        };
        if !known {
            self.say.send_replace(Keeping::Waiting(Arc::new(error)));
        }
        self.pause();
        true
    }

    /// Until it is worth another try.
    fn pause(&self) {
        let queue = self.desk.lock();
        let wait = self.desk.changed.wait_timeout_while(queue, AGAIN, |queue| !queue.over);
        drop(wait);
    }
}
