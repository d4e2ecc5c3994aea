//! A few threads that do one thing together, many times a step.
//!
//! Handing out work takes well under a microsecond while the threads are awake: they spin on one counter. Left
//! without work for a moment they park, so that an idle program uses no CPU. Work is cut by index, and what an index
//! computes never depends on who computes it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// How long a thread spins for its next work before it parks: about a tenth of a millisecond.
const SPINS: u32 = 4_000;
/// After so many turns a spinning thread lets others run: there may be more threads than cores.
const SPINS_BEFORE_YIELD: u32 = 400;

/// A bug in a kernel: some thread panicked. The step's results are not to be used.
#[derive(Debug, thiserror::Error)]
#[error("a compute thread failed ({0}): this is a bug, please report it")]
pub struct WorkerPanicked(String);

type Work<'a> = dyn Fn(usize) + Sync + 'a;

/// On a cache line of its own, so that the one who counts does not disturb those who wait for something else.
#[repr(align(128))]
#[derive(Default)]
struct Alone<T>(T);

#[derive(Default)]
struct Shared {
    /// Counts the pieces of work handed out. A change means: there is one, or the end.
    epoch: Alone<AtomicUsize>,
    /// Workers that have finished the current piece.
    finished: Alone<AtomicUsize>,
    /// The piece itself; valid from the change of `epoch` until all have finished.
    work: Mutex<Option<WorkPointer>>,
    ending: AtomicBool,
    parked: AtomicUsize,
    wake: Condvar,
    sleep: Mutex<()>,
    failure: Mutex<Option<String>>,
}

#[derive(Clone, Copy)]
struct WorkPointer(*const Work<'static>);

// SAFETY: what it points to is `Sync`, and `Pool::run` does not return before every worker is done with it.
unsafe impl Send for WorkPointer {}

/// The calling thread and `threads - 1` others.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    busy: AtomicBool,
}

impl Pool {
    /// Starts a pool of `threads` in all, the caller included (at least 1).
    ///
    /// # Errors
    /// When the system will not start a thread.
    pub fn new(threads: usize) -> std::io::Result<Pool> {
        let mut pool = Pool { shared: Arc::default(), workers: Vec::new(), busy: AtomicBool::new(false) };
        for index in 1..threads.max(1) {
            let shared = Arc::clone(&pool.shared);
            let worker = std::thread::Builder::new().name(format!("compute-{index}"));
            pool.workers.push(worker.spawn(move || serve(&shared, index))?);
        }
        Ok(pool)
    }

    /// Threads, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `work(thread)` once for each thread, all at once, and waits for all.
    ///
    /// When the pool is in use already (by another caller, or from inside such work), the caller does it all.
    ///
    /// # Errors
    /// When one of them panicked; all have ended by then.
    pub fn run(&self, work: &(dyn Fn(usize) + Sync)) -> Result<(), WorkerPanicked> {
        if self.workers.is_empty() || self.busy.swap(true, Ordering::Acquire) {
            return guarded(|| (0..self.threads()).for_each(work)).map_err(WorkerPanicked);
        }
        self.hand_out(work);
        let own = guarded(|| work(0));
        spin_until(|| self.shared.finished.0.load(Ordering::Acquire) == self.workers.len(), u32::MAX);
        let others = lock(&self.shared.failure).take();
        self.busy.store(false, Ordering::Release);
        match own.err().or(others) {
            Some(message) => Err(WorkerPanicked(message)),
            None => Ok(()),
        }
    }

    fn hand_out(&self, work: &Work<'_>) {
        // SAFETY: only the lifetime changes. `run` waits for all workers before it returns, so none of them holds the
        // pointer when what it points to goes away.
        let work = unsafe { std::mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
        *lock(&self.shared.work) = Some(WorkPointer(work));
        self.shared.finished.0.store(0, Ordering::Relaxed);
        // Pairs with the worker's check in `park`: one of the two sees the other.
        self.shared.epoch.0.fetch_add(1, Ordering::SeqCst);
        if self.shared.parked.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.shared.sleep));
            self.shared.wake.notify_all();
        }
    }

    /// Calls `each(index)` for `0..count`, every thread a contiguous part.
    ///
    /// # Errors
    /// As [`Pool::run`].
    pub fn split(&self, count: usize, each: impl Fn(usize) + Sync) -> Result<(), WorkerPanicked> {
        let threads = self.threads();
        if count == 1 {
            return guarded(|| each(0)).map_err(WorkerPanicked);
        }
        self.run(&|thread| (count * thread / threads..count * (thread + 1) / threads).for_each(&each))
    }

    /// Calls `each(index, part)` for every part of `chunk` elements of `data`, every thread a contiguous range of parts.
    ///
    /// # Errors
    /// As [`Pool::run`].
    pub fn chunks<T: Send>(
        &self,
        data: &mut [T],
        chunk: usize,
        each: impl Fn(usize, &mut [T]) + Sync,
    ) -> Result<(), WorkerPanicked> {
        let parts = Parts::new(data, chunk);
        // SAFETY: `split` gives every index to one thread, once.
        self.split(parts.count, |index| each(index, unsafe { parts.get(index) }))
    }

    /// Like [`Pool::chunks`], but whoever is free takes the next part, and every thread has a scratch of its own.
    /// For parts of unlike cost. `scratch` holds at least one for each thread.
    ///
    /// # Errors
    /// As [`Pool::run`].
    pub fn chunks_with<T: Send, S: Send>(
        &self,
        data: &mut [T],
        chunk: usize,
        scratch: &mut [S],
        each: impl Fn(usize, &mut [T], &mut S) + Sync,
    ) -> Result<(), WorkerPanicked> {
        assert!(scratch.len() >= self.threads(), "a scratch for each thread");
        let parts = Parts::new(data, chunk);
        let scratch = Parts::new(scratch, 1);
        let next = AtomicUsize::new(0);
        self.run(&|thread| {
            // SAFETY: `run` uses every thread number once at a time.
            let scratch = unsafe { scratch.get(thread) };
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= parts.count {
                    break;
                }
                // SAFETY: the counter gives every index once.
                each(index, unsafe { parts.get(index) }, &mut scratch[0]);
            }
        })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        self.shared.epoch.0.fetch_add(1, Ordering::SeqCst);
        drop(lock(&self.shared.sleep));
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

/// A slice cut into equal parts (the last may be shorter) that threads take by index.
struct Parts<T> {
    data: *mut T,
    len: usize,
    chunk: usize,
    count: usize,
}

// SAFETY: it only hands out disjoint parts, and `T` may be used from any thread.
unsafe impl<T: Send> Sync for Parts<T> {}

impl<T> Parts<T> {
    fn new(data: &mut [T], chunk: usize) -> Parts<T> {
        let chunk = chunk.max(1);
        Parts { data: data.as_mut_ptr(), len: data.len(), chunk, count: data.len().div_ceil(chunk) }
    }

    /// # Safety
    /// The slice that this was made from is still borrowed, and no two users have the same index at a time.
    #[allow(clippy::mut_from_ref)]
    unsafe fn get(&self, index: usize) -> &mut [T] {
        let begin = (index * self.chunk).min(self.len);
        let len = self.chunk.min(self.len - begin);
        // SAFETY: inside the slice; parts of different indices do not overlap.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(begin), len) }
    }
}

/// The state behind these locks is always whole, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn guarded(work: impl FnOnce()) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message_of(panic.as_ref()))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// Spins until `done`, or until it has turned `most` times; says whether it was done.
fn spin_until(done: impl Fn() -> bool, most: u32) -> bool {
    let mut turns = 0u32;
    while !done() {
        if turns >= most {
            return false;
        }
        turns = turns.saturating_add(1);
        if turns.is_multiple_of(SPINS_BEFORE_YIELD) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
    true
}

/// A worker's life.
fn serve(shared: &Shared, index: usize) {
    let mut seen = 0;
    loop {
        if !spin_until(|| shared.epoch.0.load(Ordering::Acquire) != seen, SPINS) {
            park(shared, seen);
        }
        seen = shared.epoch.0.load(Ordering::Acquire);
        if shared.ending.load(Ordering::SeqCst) {
            return;
        }
        let work = *lock(&shared.work);
        if let Some(work) = work {
            // SAFETY: `Pool::run` keeps it alive until this worker has counted itself finished below.
            let outcome = guarded(|| unsafe { (*work.0)(index) });
            if let Err(message) = outcome {
                *lock(&shared.failure) = Some(message);
            }
        }
        shared.finished.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Sleeps until the epoch is another than `seen`.
fn park(shared: &Shared, seen: usize) {
    let mut guard = lock(&shared.sleep);
    shared.parked.fetch_add(1, Ordering::SeqCst);
    while shared.epoch.0.load(Ordering::SeqCst) == seen {
        guard = shared.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
    shared.parked.fetch_sub(1, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_once() {
        for threads in [1, 2, 3, 5] {
            let pool = Pool::new(threads).unwrap();
            for len in [0usize, 1, 2, 7, 64, 1000] {
                let mut data = vec![0u32; len];
                pool.chunks(&mut data, 3, |index, part| part.iter_mut().for_each(|value| *value += 1 + index as u32)).unwrap();
                let expected: Vec<u32> = (0..len).map(|index| 1 + index as u32 / 3).collect();
                assert_eq!(data, expected);
                let mut scratch = vec![0usize; threads];
                pool.chunks_with(&mut data, 1, &mut scratch, |_, part, count| {
                    part[0] = 0;
                    *count += 1;
                })
                .unwrap();
                assert_eq!(scratch.iter().sum::<usize>(), len);
            }
        }
    }

    #[test]
    fn a_panic_is_an_error_and_the_pool_lives_on() {
        let pool = Pool::new(3).unwrap();
        for guilty in 0..3 {
            let error = pool.run(&|thread| assert!(thread != guilty, "thread {guilty} gives up")).unwrap_err();
            assert!(error.to_string().contains("gives up"), "{error}");
            pool.run(&|_| ()).unwrap();
        }
    }

    #[test]
    fn work_inside_work_is_done_by_the_one_who_asks() {
        let pool = Pool::new(2).unwrap();
        let count = AtomicUsize::new(0);
        pool.run(&|_| pool.run(&|_| _ = count.fetch_add(1, Ordering::Relaxed)).unwrap()).unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn parked_workers_come_back() {
        let pool = Pool::new(2).unwrap();
        for _ in 0..3 {
            while pool.shared.parked.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            let count = AtomicUsize::new(0);
            pool.run(&|_| _ = count.fetch_add(1, Ordering::Relaxed)).unwrap();
            assert_eq!(count.load(Ordering::Relaxed), 2);
        }
    }
}
