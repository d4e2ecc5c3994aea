//! A few threads that do one thing together, many times a step.
//!
//! Handing out work takes well under a microsecond while the threads are awake: they spin on one word. Left without
//! work for a moment they park, so that an idle program uses no CPU.
//!
//! Work is a range of indices. Every thread begins with a contiguous share of its own (memory is read in order) and,
//! done with that, helps the others. A thread that the system keeps from running is not waited for unless it holds
//! a piece: the others do its share. What an index computes never depends on who computes it.

use std::any::Any;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a thread spins for its next work before it parks: about a tenth of a millisecond.
const SPINS: u32 = 2_000;
/// After so many turns a spinning thread lets others run: there may be more threads than cores.
const SPINS_BEFORE_YIELD: u32 = 200;
/// Looks between two pauses. Without them a virtual machine's host takes many pauses in a row for a lock whose holder is
/// not running, and takes the processor away.
const LOOKS: u32 = 40;

/// A bug in a kernel: some thread panicked. The step's results are not to be used.
#[derive(Debug, thiserror::Error)]
#[error("a compute thread failed ({0}): this is a bug, please report it")]
pub struct WorkerPanicked(String);

/// A thread's work: takes pieces until there are none.
type Work<'a> = dyn Fn(usize) + Sync + 'a;

/// On a cache line of its own, so that the one who counts does not disturb those who wait for something else.
#[repr(align(128))]
#[derive(Default)]
struct Alone<T>(T);

/// In [`Shared::state`]: workers may still join. Above it the number of the work, below it the workers inside.
const OPEN: u64 = 1 << 31;
const ACTIVE: u64 = OPEN - 1;

/// The number of the work, which changes with each.
fn number(state: u64) -> u64 {
    state >> 32
}

#[derive(Default)]
struct Shared {
    state: Alone<AtomicU64>,
    /// Written while no worker is inside, read only by those who are.
    work: UnsafeCell<Option<*const Work<'static>>>,
    ending: AtomicBool,
    parked: AtomicUsize,
    wake: Condvar,
    caller_sleeps: AtomicBool,
    finished: Condvar,
    sleep: Mutex<()>,
    failure: Mutex<Option<String>>,
}

// SAFETY: `work` is written by the one caller that `Pool::busy` lets in, while no worker is inside; what it points to
// is `Sync` and outlives every worker's visit.
unsafe impl Send for Shared {}
// SAFETY: the same.
unsafe impl Sync for Shared {}

/// Whether others want the processors. Where another program keeps one busy, a worker is stopped in the middle of a
/// piece again and again, for milliseconds in which the caller can only wait: one thread alone is then faster.
struct Pressure {
    since: Instant,
    /// Work handed out since then.
    works: u32,
    /// Time slept for stopped workers since then.
    lost: Duration,
    /// So many more works without workers.
    alone: u32,
    /// And so many the next time.
    next: u32,
}

impl Default for Pressure {
    fn default() -> Self {
        Pressure { since: Instant::now(), works: 0, lost: Duration::ZERO, alone: 0, next: Self::FIRST }
    }
}

impl Pressure {
    /// Works between two looks at the clock: a few steps of a model.
    const WINDOW: u32 = 512;
    const FIRST: u32 = 1024;
    const LAST: u32 = 4096;

    /// Counts a work, and says whether the caller had better do it alone.
    fn be_alone(&mut self) -> bool {
        if self.alone > 0 {
            self.alone -= 1;
            if self.alone == 0 {
                (self.since, self.works, self.lost) = (Instant::now(), 0, Duration::ZERO);
            }
            return true;
        }
        self.works += 1;
        if self.works == Self::WINDOW {
            if self.lost * 2 > self.since.elapsed() {
                self.alone = self.next;
                self.next = (self.next * 4).min(Self::LAST);
            } else {
                self.next = Self::FIRST;
            }
            (self.since, self.works, self.lost) = (Instant::now(), 0, Duration::ZERO);
        }
        false
    }
}

impl Shared {
    /// Returns when no worker is inside. Soon sleeps: a worker that the system has stopped inside a piece is moved to
    /// the processor that this leaves idle. Returns how long it slept.
    fn wait_for_workers(&self) -> Duration {
        let state = &self.state.0;
        if spin_until(|| state.load(Ordering::Acquire) & ACTIVE == 0, 4 * SPINS) {
            return Duration::ZERO;
        }
        let begin = Instant::now();
        let mut guard = lock(&self.sleep);
        // Pairs with the last worker's look at it: one of the two sees the other.
        self.caller_sleeps.store(true, Ordering::SeqCst);
        while state.load(Ordering::SeqCst) & ACTIVE != 0 {
            guard = self.finished.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.caller_sleeps.store(false, Ordering::SeqCst);
        begin.elapsed()
    }

    /// A worker leaves.
    fn leave(&self) {
        self.state.0.fetch_sub(1, Ordering::SeqCst);
        if self.caller_sleeps.load(Ordering::SeqCst) {
            drop(lock(&self.sleep));
            self.finished.notify_all();
        }
    }
}

/// The calling thread and `threads - 1` others.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    busy: AtomicBool,
    /// For each thread, the next index of its share that nobody has taken.
    shares: Vec<Alone<AtomicUsize>>,
    pressure: Mutex<Pressure>,
}

impl Pool {
    /// Starts a pool of `threads` in all, the caller included (at least 1).
    ///
    /// # Errors
    /// When the system will not start a thread.
    pub fn new(threads: usize) -> std::io::Result<Pool> {
        let threads = threads.max(1);
        let shares = (0..threads).map(|_| Alone::default()).collect();
        let (shared, busy, pressure) = (Arc::default(), AtomicBool::new(false), Mutex::default());
        let mut pool = Pool { shared, workers: Vec::new(), busy, shares, pressure };
        for index in 1..threads {
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

    /// Calls `each(thread, piece)` for pieces of at most `grain` indices that together are `0..count`, on all threads, and
    /// returns when all are done. A thread's number is never used twice at a time.
    ///
    /// When the pool is in use already (by another caller, or from inside such work), the caller does it all.
    ///
    /// # Errors
    /// When a piece panicked; the others have been done.
    pub fn share_out(&self, count: usize, grain: usize, each: impl Fn(usize, Range<usize>) + Sync) -> Result<(), WorkerPanicked> {
        let grain = grain.max(1);
        let by_oneself = || guarded(|| (0..count).step_by(grain).for_each(|begin| each(0, begin..count.min(begin + grain))));
        if count <= 1 || self.workers.is_empty() || self.busy.swap(true, Ordering::Acquire) {
            return by_oneself();
        }
        if lock(&self.pressure).be_alone() {
            let outcome = by_oneself();
            self.busy.store(false, Ordering::Release);
            return outcome;
        }
        let threads = self.threads();
        let share = |thread: usize| count * thread / threads..count * (thread + 1) / threads;
        for (thread, next) in self.shares.iter().enumerate() {
            // Nobody is inside; the change of `state` makes these seen.
            next.0.store(share(thread).start, Ordering::Relaxed);
        }
        let outcome = self.run(&|thread| {
            for owner in (thread..threads).chain(0..thread) {
                let end = share(owner).end;
                loop {
                    let begin = self.shares[owner].0.fetch_add(grain, Ordering::Relaxed);
                    if begin >= end {
                        break;
                    }
                    each(thread, begin..end.min(begin + grain));
                }
            }
        });
        self.busy.store(false, Ordering::Release);
        outcome
    }

    /// Runs `work` on this thread, and on those workers that come while this one is at it; waits for them.
    fn run(&self, work: &Work<'_>) -> Result<(), WorkerPanicked> {
        let state = &self.shared.state.0;
        // SAFETY: only the lifetime changes, and the cell is this caller's: workers look into it only after they have
        // joined, which they can from the store on, and this function waits for all who have before it returns.
        unsafe { *self.shared.work.get() = Some(std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work)) };
        let next = number(state.load(Ordering::Relaxed)).wrapping_add(1);
        // Pairs with the worker's look before it sleeps: one of the two sees the other.
        state.store((next << 32) | OPEN, Ordering::SeqCst);
        if self.shared.parked.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.shared.sleep));
            self.shared.wake.notify_all();
        }
        let own = guarded(|| work(0));
        state.fetch_and(!OPEN, Ordering::AcqRel);
        let lost = self.shared.wait_for_workers();
        if !lost.is_zero() {
            lock(&self.pressure).lost += lost;
        }
        let others = lock(&self.shared.failure).take();
        own.and(others.map_or(Ok(()), |message| Err(WorkerPanicked(message))))
    }

    /// Calls `each(index)` for `0..count`.
    ///
    /// # Errors
    /// When one panicked.
    pub fn split(&self, count: usize, each: impl Fn(usize) + Sync) -> Result<(), WorkerPanicked> {
        self.share_out(count, 1, |_, piece| piece.for_each(&each))
    }

    /// Calls `each(index, part)` for every part of `chunk` elements of `data`.
    ///
    /// # Errors
    /// When one panicked.
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

    /// Like [`Pool::chunks`], and every thread has a scratch of its own. `scratch` holds at least one for each thread.
    ///
    /// # Errors
    /// When one panicked.
    pub fn chunks_with<T: Send, S: Send>(
        &self,
        data: &mut [T],
        chunk: usize,
        scratch: &mut [S],
        each: impl Fn(usize, &mut [T], &mut S) + Sync,
    ) -> Result<(), WorkerPanicked> {
        let parts = Parts::new(data, chunk);
        // SAFETY: `split_with` gives every index to one thread, once.
        self.split_with(parts.count, scratch, |index, scratch| each(index, unsafe { parts.get(index) }, scratch))
    }

    /// Like [`Pool::split`], and every thread has a scratch of its own. `scratch` holds at least one for each thread.
    ///
    /// # Errors
    /// When one panicked.
    pub fn split_with<S: Send>(
        &self,
        count: usize,
        scratch: &mut [S],
        each: impl Fn(usize, &mut S) + Sync,
    ) -> Result<(), WorkerPanicked> {
        assert!(scratch.len() >= self.threads(), "a scratch for each thread");
        let scratch = Parts::new(scratch, 1);
        self.share_out(count, 1, |thread, piece| {
            // SAFETY: a thread's number is used once at a time.
            let scratch = unsafe { scratch.get(thread) };
            piece.for_each(|index| each(index, &mut scratch[0]));
        })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        self.shared.state.0.fetch_add(1 << 32, Ordering::SeqCst);
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

fn guarded(work: impl FnOnce()) -> Result<(), WorkerPanicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| WorkerPanicked(message_of(panic.as_ref())))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// Spins until `done`, or until it has turned `most` times; says whether it was done.
fn spin_until(done: impl Fn() -> bool, most: u32) -> bool {
    for turn in 1..=most {
        for _ in 0..LOOKS {
            if done() {
                return true;
            }
        }
        if turn.is_multiple_of(SPINS_BEFORE_YIELD) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
    false
}

/// A worker's life.
fn serve(shared: &Shared, index: usize) {
    let state = &shared.state.0;
    let mut seen = 0;
    loop {
        if !spin_until(|| number(state.load(Ordering::Acquire)) != seen, SPINS) {
            park(shared, seen);
        }
        let join = |state: u64| (state & OPEN != 0).then_some(state + 1);
        let joined = state.fetch_update(Ordering::AcqRel, Ordering::Acquire, join);
        seen = number(joined.unwrap_or_else(|state| state));
        if joined.is_err() {
            // Done without this one, or no more will come: asked only now, since what was just seen may be the end's number,
            // after which nobody would be woken.
            if shared.ending.load(Ordering::SeqCst) {
                return;
            }
            continue;
        }
        // SAFETY: having joined, this worker is waited for: the work stays until it has counted itself out.
        let outcome = guarded(|| unsafe {
            if let Some(work) = *shared.work.get() {
                (*work)(index);
            }
        });
        if let Err(WorkerPanicked(message)) = outcome {
            *lock(&shared.failure) = Some(message);
        }
        shared.leave();
    }
}

/// Sleeps until there is other work than `seen`.
fn park(shared: &Shared, seen: u64) {
    let mut guard = lock(&shared.sleep);
    shared.parked.fetch_add(1, Ordering::SeqCst);
    while number(shared.state.0.load(Ordering::SeqCst)) == seen {
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
    fn pieces_cover_the_range_and_no_number_is_used_twice_at_a_time() {
        let pool = Pool::new(4).unwrap();
        for (count, grain) in [(1, 1), (5, 100), (100, 7), (1000, 1), (64, 0)] {
            let done: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            let inside: Vec<AtomicBool> = (0..4).map(|_| AtomicBool::new(false)).collect();
            pool.share_out(count, grain, |thread, piece| {
                assert!(!inside[thread].swap(true, Ordering::SeqCst), "thread {thread} twice");
                assert!(!piece.is_empty() && piece.len() <= grain.max(1));
                piece.for_each(|index| _ = done[index].fetch_add(1, Ordering::Relaxed));
                inside[thread].store(false, Ordering::SeqCst);
            })
            .unwrap();
            assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn a_panic_is_an_error_and_the_pool_lives_on() {
        let pool = Pool::new(3).unwrap();
        for guilty in [0, 1, 17, 99] {
            let error = pool.split(100, |index| assert!(index != guilty, "index {guilty} gives up")).unwrap_err();
            assert!(error.to_string().contains("gives up"), "{error}");
            pool.split(100, |_| ()).unwrap();
        }
    }

    #[test]
    fn a_thread_that_does_not_come_is_not_missed() {
        let pool = Pool::new(2).unwrap();
        // The worker is held in its first piece until the caller has done all the others.
        let left = AtomicUsize::new(100);
        pool.share_out(100, 1, |thread, _| {
            left.fetch_sub(1, Ordering::SeqCst);
            while thread == 1 && left.load(Ordering::SeqCst) > 0 {
                std::thread::yield_now();
            }
        })
        .unwrap();
        assert_eq!(left.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn alone_while_workers_are_stopped_and_together_again_after() {
        let mut pressure = Pressure::default();
        let mut window = |lost: Duration| {
            // A window that ends with so much time lost, then all the works that it makes the caller do alone.
            assert!((1..Pressure::WINDOW).all(|_| !pressure.be_alone()));
            pressure.lost = lost;
            assert!(!pressure.be_alone());
            let mut alone = 0;
            while pressure.alone > 0 {
                assert!(pressure.be_alone());
                alone += 1;
            }
            alone
        };
        let all = Duration::from_secs(3600);
        assert_eq!([Duration::ZERO, all, all, Duration::ZERO, all].map(&mut window), [0, 1024, 4096, 0, 1024]);
    }

    #[test]
    fn work_inside_work_is_done_by_the_one_who_asks() {
        let pool = Pool::new(2).unwrap();
        let count = AtomicUsize::new(0);
        pool.split(4, |_| pool.split(3, |_| _ = count.fetch_add(1, Ordering::Relaxed)).unwrap()).unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 12);
    }

    #[test]
    fn parked_workers_come_back() {
        let pool = Pool::new(2).unwrap();
        for _ in 0..3 {
            while pool.shared.parked.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            // Each of two pieces waits for the other: it takes two threads.
            let inside = AtomicUsize::new(0);
            pool.split(2, |_| {
                inside.fetch_add(1, Ordering::SeqCst);
                while inside.load(Ordering::SeqCst) < 2 {
                    std::thread::yield_now();
                }
            })
            .unwrap();
        }
    }
}
