//! Engine time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::core::whole_micros;

/// Engine time: wall time without the pauses, and without the time in which the whole process was stopped. In whole
/// microseconds.
#[derive(Debug)]
pub(super) struct Clock {
    passed: Duration,
    /// When it began to run, and how long the process had been stopped until then.
    since: Option<(Instant, Duration)>,
    pub(super) stopped: StoppedTime,
}

impl Clock {
    pub(super) fn new(stopped: StoppedTime) -> Clock {
        let since = Some((Instant::now(), *stopped.hold()));
        Clock { passed: Duration::ZERO, since, stopped }
    }

    pub(super) fn now(&self) -> Duration {
        // Held while the clock is read: the time and what is to be taken off belong together.
        let stopped = self.stopped.hold();
        let running = |(since, before): (Instant, Duration)| since.elapsed().saturating_sub(stopped.saturating_sub(before));
        whole_micros(self.passed + self.since.map_or(Duration::ZERO, running))
    }

    pub(super) fn run(&mut self, running: bool) {
        self.passed = self.now();
        self.since = running.then(|| (Instant::now(), *self.stopped.hold()));
    }
}

/// How long the process has been stopped in all (Ctrl-Z). Whoever holds it keeps the engine from reading its clock.
#[derive(Clone, Debug, Default)]
pub(super) struct StoppedTime(Arc<Mutex<Duration>>);

impl StoppedTime {
    pub(super) fn hold(&self) -> MutexGuard<'_, Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_time_has_no_stop_in_it() {
        let began = Instant::now();
        let stopped = StoppedTime::default();
        let clock = Clock::new(stopped.clone());
        let before = clock.now();
        let mut held = stopped.hold();
        let stop = Instant::now();
        let reader = std::thread::spawn(move || clock.now());
        std::thread::sleep(Duration::from_millis(30));
        let lost = stop.elapsed();
        *held += lost;
        drop(held);
        // Read during the stop, and yet without it.
        let after = reader.join().unwrap();
        assert!(before <= after && after <= began.elapsed() - lost, "{before:?}, {after:?}, {lost:?}");
    }
}
