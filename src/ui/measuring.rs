//! Measures this machine's memory on a thread of its own, while the engine stands still.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::run::Services;
use crate::engine::{EngineHandle, RunState};
use crate::machine::MemorySpeed;

/// How often the engine is looked at until it stands still, and how long that is waited for: its steps may be long ones.
const LOOK: Duration = Duration::from_millis(5);
const LOOKS: u32 = 6_000;

/// A measurement that goes on.
pub(super) struct Measuring(oneshot::Receiver<Result<MemorySpeed, String>>);

impl Measuring {
    pub fn start(engine: EngineHandle, services: Arc<dyn Services>, threads: usize) -> Measuring {
        let (sender, receiver) = oneshot::channel();
        let measure = move || {
            // Nobody may be there to hear it any more.
            let _ = sender.send(measure(&engine, &*services, threads));
        };
        // Without a thread the sender is dropped, and that is what is heard.
        if let Err(error) = std::thread::Builder::new().name("measure".into()).spawn(measure) {
            tracing::warn!(%error, "no thread to measure memory with");
        }
        Measuring(receiver)
    }
}

/// Waits for the one that goes on, if there is one, and takes it away.
pub(super) async fn done(measuring: &mut Option<Measuring>) -> Result<MemorySpeed, String> {
    let Some(Measuring(result)) = measuring else { return std::future::pending().await };
    let result = result.await.unwrap_or_else(|_| Err("the thread that measures is gone".to_owned()));
    *measuring = None;
    result
}

/// Between two steps: what is read then is read by nobody else, and nobody's step is slowed.
fn measure(engine: &EngineHandle, services: &dyn Services, threads: usize) -> Result<MemorySpeed, String> {
    let snapshots = engine.snapshots();
    let now = || {
        let snapshot = snapshots.borrow();
        (snapshot.state, snapshot.step)
    };
    let stands_still = |state| matches!(state, RunState::Paused | RunState::Stopped);
    let ran = !stands_still(now().0);
    if ran {
        engine.pause(true);
    }
    for _ in 0..LOOKS {
        if stands_still(now().0) {
            break;
        }
        std::thread::sleep(LOOK);
    }
    let before = now();
    let result = match stands_still(before.0) {
        true => services.memory_speed(threads).map_err(|error| crate::fault::words(&error)),
        false => Err("the engine is in a step that takes longer than 30 s".to_owned()),
    };
    // Whoever let it go on, or made a step by hand, has it as they left it.
    let disturbed = now() != before;
    if ran && !disturbed {
        engine.pause(false);
    }
    match result {
        Ok(_) if disturbed => Err("the engine was let run meanwhile".to_owned()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use tokio::sync::{mpsc, watch};

    use super::*;
    use crate::batch::{Batch, UserId};
    use crate::engine::{self, EngineOptions, Event, ForwardError, Limits, ModelInfo, Pace, start};
    use crate::hub::Progress;
    use crate::model::GgufFile;
    use crate::sampling::SamplingParams;
    use crate::text::{TextModel, TokenizerData};

    /// Says the same token for ever.
    struct Babble(Vec<f32>, usize);

    impl engine::Model for Babble {
        fn forward(&mut self, batch: &Batch) -> Result<&[f32], ForwardError> {
            self.0.clear();
            for _ in batch.rows.iter().filter(|row| row.samples) {
                let from = self.0.len();
                self.0.resize(from + self.1, 0.0);
                self.0[from + 300] = 1.0;
            }
            Ok(&self.0)
        }
    }

    fn running() -> (EngineHandle, mpsc::Receiver<Event>) {
        let file = GgufFile::from_static("nano", crate::hub::NANO_BYTES).unwrap();
        let text = TextModel::new(&TokenizerData::from_gguf(&file).unwrap()).unwrap();
        let limits = Limits { max_num_seqs: 1, max_num_batched_tokens: 8, max_model_len: 4_096, ..Limits::default() };
        let model = ModelInfo {
            name: String::new(),
            title: String::new(),
            types: String::new(),
            parameters: 0,
            weight_bytes: 0,
            kernels: String::new(),
            threads: 1,
            vocab: text.vocab(),
            layers: 1,
            context: 4_096,
            kv_bytes_per_token: 1,
        };
        let babble = Box::new(Babble(Vec::new(), text.vocab()));
        let options = EngineOptions {
            limits,
            num_blocks: 300,
            capacity: 300,
            target_itl: None,
            block_size: 16,
            pace: Pace::StepsPerSecond(200.0),
            model,
        };
        let engine = start(babble, Arc::new(text), options).unwrap();
        let sampling = SamplingParams { temperature: 0.0, max_tokens: 4_000, ignore_eos: true, ..SamplingParams::default() };
        let events = engine.submit(UserId(1), vec![5; 3], sampling).1;
        wait(&engine, |step, state| step > 2 && state == RunState::Running);
        (engine, events)
    }

    fn wait(engine: &EngineHandle, wanted: impl Fn(u64, RunState) -> bool) {
        let snapshots = engine.snapshots();
        for _ in 0..2_000 {
            let (step, state) = (snapshots.borrow().step, snapshots.borrow().state);
            if wanted(step, state) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        panic!("waited in vain");
    }

    /// Measures nothing, looks at the engine, and does something to it.
    struct Looks(EngineHandle, fn(&EngineHandle));

    impl Services for Looks {
        fn launch(&self, _: &str) -> anyhow::Result<EngineHandle> {
            anyhow::bail!("not asked")
        }

        fn memory_speed(&self, _: usize) -> anyhow::Result<MemorySpeed> {
            let snapshots = self.0.snapshots();
            let step = snapshots.borrow().step;
            assert_eq!(snapshots.borrow().state, RunState::Paused);
            std::thread::sleep(8 * LOOK);
            assert_eq!(snapshots.borrow().step, step, "nobody reads weights meanwhile");
            (self.1)(&self.0);
            Ok(MemorySpeed { bytes_per_s: 1e9, last_cache: None })
        }

        fn fetch(&self, _: watch::Sender<Progress>) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> {
            Box::pin(async { Err("not asked".to_owned()) })
        }
    }

    #[test]
    fn the_engine_stands_still_and_goes_on() {
        let (engine, _events) = running();
        let speed = measure(&engine, &Looks(engine.clone(), |_| {}), 1);
        assert_eq!(speed.map(|speed| speed.bytes_per_s), Ok(1e9));
        let step = engine.snapshots().borrow().step;
        wait(&engine, |now, state| state == RunState::Running && now > step);
    }

    #[test]
    fn who_has_paused_it_finds_it_paused() {
        let (engine, _events) = running();
        engine.pause(true);
        wait(&engine, |_, state| state == RunState::Paused);
        assert!(measure(&engine, &Looks(engine.clone(), |_| {}), 1).is_ok());
        std::thread::sleep(4 * LOOK);
        assert_eq!(engine.snapshots().borrow().state, RunState::Paused);
    }

    #[test]
    fn what_was_disturbed_is_no_figure() {
        let (engine, _events) = running();
        let let_run = |engine: &EngineHandle| {
            engine.pause(false);
            wait(engine, |_, state| state == RunState::Running);
        };
        let error = measure(&engine, &Looks(engine.clone(), let_run), 1).unwrap_err();
        assert!(error.contains("let run meanwhile"), "{error}");
        // A step by hand: whoever made it goes on making steps by hand.
        let step = |engine: &EngineHandle| {
            let before = engine.snapshots().borrow().step;
            engine.step(1);
            wait(engine, |now, _| now > before);
        };
        wait(&engine, |_, state| state == RunState::Running);
        assert!(measure(&engine, &Looks(engine.clone(), step), 1).is_err());
        std::thread::sleep(4 * LOOK);
        assert_eq!(engine.snapshots().borrow().state, RunState::Paused);
    }
}
