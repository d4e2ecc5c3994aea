//! The thread that owns the connection while the screen is open. The screen never waits for the disk: what it says is
//! gathered, pieces of one text joined, and written in one transaction at least every [`EVERY`]; when nothing is new,
//! nothing is written.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::session::Session;
use super::writes::{Known, Write};
use super::{Store, StoreError};

/// The longest that something new waits for its transaction.
const EVERY: Duration = Duration::from_millis(250);
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
    session: i64,
}

impl Keeper {
    /// Takes the database and the session over. `known`: the conversations that are open already.
    pub fn start(store: Store, session: Session, known: Known) -> std::io::Result<Keeper> {
        let queue = Queue { writes: VecDeque::new(), bytes: 0, hurry: false, over: false, closed: false, taken: 0, written: 0 };
        let desk = Arc::new(Desk { queue: Mutex::new(queue), changed: Condvar::new() });
        let (say, news) = watch::channel(Keeping::Well);
        let id = session.id;
        let mut writer = Writer { desk: desk.clone(), store, session, known, say };
        let thread = std::thread::Builder::new().name("store".into()).spawn(move || writer.run())?;
        Ok(Keeper { desk, news, thread: Some(thread), session: id })
    }

    /// Never waits. What nobody can write any more is dropped: the screen has said so.
    pub fn write(&self, write: Write) {
        let mut queue = self.desk.lock();
        if queue.closed {
            return;
        }
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
        self.session
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

struct Writer {
    desk: Arc<Desk>,
    store: Store,
    session: Session,
    known: Known,
    say: watch::Sender<Keeping>,
}

impl Writer {
    fn run(&mut self) {
        let mut batch = Vec::new();
        while self.gather(&mut batch) {
            if !self.put(&batch) {
                return;
            }
            batch.clear();
            self.desk.lock().written += 1;
            self.desk.changed.notify_all();
        }
    }

    /// Waits for something new, and then a moment for more of it. False: all is written, and the screen has ended.
    fn gather(&mut self, batch: &mut Vec<Write>) -> bool {
        let mut queue = self.desk.lock();
        while queue.writes.is_empty() {
            if queue.over {
                return false;
            }
            queue.hurry = false;
            queue = self.desk.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
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

    /// One transaction, tried again as long as it may help. False: it never will, or the screen has ended.
    fn put(&mut self, batch: &[Write]) -> bool {
        loop {
            let error = match self.store.write(self.session.id, &mut self.known, batch) {
                Ok(()) => {
                    if !matches!(*self.say.borrow(), Keeping::Well) {
                        self.say.send_replace(Keeping::Well);
                    }
                    return true;
                }
                Err(error) => error,
            };
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
            self.say.send_replace(Keeping::Waiting(Arc::new(error)));
            let queue = self.desk.lock();
            let wait = self.desk.changed.wait_timeout_while(queue, AGAIN, |queue| !queue.over);
            drop(wait);
        }
    }
}
