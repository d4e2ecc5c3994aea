//! Questions that are typed letter by letter: one is answered at a time, and only the newest of those that wait.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::Stopper;

/// What is looked for, and by whom.
#[derive(Default)]
pub struct Seek(Mutex<Asked>);

#[derive(Default)]
struct Asked {
    newest: Option<String>,
    busy: bool,
    stop: Option<Stopper>,
}

impl std::fmt::Debug for Seek {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seek").field("busy", &self.lock().busy).finish_non_exhaustive()
    }
}

impl Seek {
    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a question in the place of the one that waits, and stops the one that is being answered. True: nobody is at it,
    /// and the caller has to see that somebody is, who asks for the [`next`](Seek::next) until there is none.
    pub fn ask(&self, text: String) -> bool {
        let mut asked = self.lock();
        asked.newest = Some(text);
        if let Some(stop) = &asked.stop {
            stop.stop();
        }
        !std::mem::replace(&mut asked.busy, true)
    }

    /// The question that is to be answered now. None: there is none, and whoever was at it has ended.
    pub fn next(&self) -> Option<String> {
        let mut asked = self.lock();
        asked.stop = None;
        let next = asked.newest.take();
        asked.busy = next.is_some();
        next
    }

    /// The answer can be stopped like this. False: something newer is asked already.
    pub fn begin(&self, stop: Stopper) -> bool {
        let mut asked = self.lock();
        asked.stop = Some(stop);
        asked.newest.is_none()
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_late(&self) -> bool {
        self.lock().newest.is_some()
    }
}
