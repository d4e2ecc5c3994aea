//! A recording to look at: three people, a second turn, a cancelled answer and some preemption, made by a model without
//! weights.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use batchroom::batch::{Batch, UserId};
use batchroom::engine::{self, *};
use batchroom::model::GgufFile;
use batchroom::replay::{Replay, Trace};
use batchroom::sampling::SamplingParams;
use batchroom::text::{Message, Role, TextModel, TokenizerData};
use batchroom::ui::player::Shown;
use batchroom::ui::replay::{Reel, seat};
use batchroom::ui::state::State;

use crate::sample;

/// Answers with printable tokens that depend on the position and the row.
struct Babble {
    vocab: usize,
    logits: Vec<f32>,
}

impl engine::Model for Babble {
    fn forward(&mut self, batch: &Batch) -> Result<&[f32], ForwardError> {
        self.logits.clear();
        for row in batch.rows.iter().filter(|row| row.samples) {
            let from = self.logits.len();
            self.logits.resize(from + self.vocab, 0.0);
            self.logits[from + 100 + (row.start * 7 + row.id.0 as usize * 3) % 400] = 9.0;
        }
        Ok(&self.logits)
    }
}

/// A file in memory.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn start() -> (EngineHandle, Paper) {
    let file = GgufFile::from_static("nano", batchroom::hub::NANO_BYTES).unwrap();
    let text = TextModel::new(&TokenizerData::from_gguf(&file).unwrap()).unwrap();
    let limits = Limits {
        max_num_seqs: 4,
        max_num_batched_tokens: 64,
        prefill_chunk: 16,
        max_model_len: 256,
        max_waiting: 6,
        watermark: 1,
        ..Limits::default()
    };
    let model = ModelInfo {
        name: "babble".into(),
        title: "babble".into(),
        types: "F32".into(),
        parameters: 0,
        weight_bytes: 0,
        kernels: "none".into(),
        threads: 1,
        vocab: text.vocab(),
        layers: 1,
        context: 256,
        kv_bytes_per_token: 8,
    };
    let babble = Box::new(Babble { vocab: text.vocab(), logits: Vec::new() });
    let options =
        EngineOptions { limits, num_blocks: 16, capacity: 16, target_itl: None, block_size: 16, pace: Pace::Full, model };
    let paper = Paper::default();
    let recording = Recording { to: Box::new(paper.clone()), started_unix_ms: 1, max_bytes: 1 << 24 };
    (engine::start_recorded(babble, Arc::new(text), options, Some(recording)).unwrap(), paper)
}

fn until(engine: &EngineHandle, wanted: impl Fn(&Snapshot) -> bool) {
    let snapshots = engine.snapshots();
    for _ in 0..4_000 {
        if wanted(&snapshots.borrow()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("waited in vain");
}

/// A recording of a hundred steps and more, the same in everything but its times.
pub fn recording() -> Replay {
    let (engine, paper) = start();
    for (user, name) in [(1, "ana"), (2, "bình"), (3, "ch\u{1b}i")] {
        engine.name(UserId(user), name);
    }
    engine.pause(true);
    let ask = |user, text: &str, max_tokens| {
        let sampling = SamplingParams { temperature: 0.0, max_tokens, ignore_eos: true, ..SamplingParams::default() };
        engine.chat(UserId(user), &[Message::new(Role::User, text)], sampling)
    };
    let first = ask(1, "Tell me of the blocks of memory that a chat needs, at length.", 90);
    let _second = ask(2, "What is a batch? `code` and **words**", 110);
    let third = ask(3, "Kể một câu chuyện dài.", 100);
    engine.step(20);
    until(&engine, |snapshot| snapshot.step == 20);
    engine.cancel(third.0);
    let _again = ask(3, "And then?", 40);
    engine.pause(false);
    until(&engine, |snapshot| snapshot.state == RunState::Idle && snapshot.totals.finished >= 3);
    engine.shutdown(Duration::ZERO);
    assert!(engine.recorded(Duration::from_secs(20)), "the recording is written");
    drop(first);
    let bytes = paper.0.lock().unwrap().clone();
    Replay::new(Trace::read(&bytes[..], "t").unwrap()).unwrap()
}

/// A screen on a recording, at its beginning.
pub fn open(replay: &mut Replay) -> (State, Shown) {
    let mut state = State::new(sample::options(), Arc::new(replay.snapshot()), 0);
    let mut reel = Reel::new(replay.steps(), replay.cut().cloned());
    reel.others = seat(&mut state, &replay.people());
    state.replay = Some(reel);
    let mut shown = Shown::default();
    shown.seek(&mut state, replay, 0).unwrap();
    (state, shown)
}
