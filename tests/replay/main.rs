//! Recordings: what is replayed is what was, step by step, forwards and backwards; and no damaged file does harm.

#[path = "../support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use batchroom::batch::{Batch, UserId};
use batchroom::engine::{self, *};
use batchroom::replay::{Cut, Replay, Trace, What};
use batchroom::sampling::SamplingParams;
use batchroom::text::{Message, Role, TextModel, TokenizerData};
use support::random::Random;

/// Answers with tokens that depend on the step and the row; fails when the batch holds a marked token.
struct Fake {
    vocab: usize,
    logits: Vec<f32>,
    passes: u32,
}

const FAILS: u32 = 900;

impl engine::Model for Fake {
    fn times(&self) -> Option<engine::PassTimes> {
        let passed = |micros| Duration::from_micros(micros) * self.passes;
        Some(engine::PassTimes { attention: passed(5), products: passed(11) })
    }

    fn forward(&mut self, batch: &Batch) -> Result<&[f32], ForwardError> {
        self.passes += 1;
        if batch.tokens.contains(&FAILS) {
            return Err(ForwardError("out of luck".into()));
        }
        self.logits.clear();
        for row in batch.rows.iter().filter(|row| row.samples) {
            let from = self.logits.len();
            self.logits.resize(from + self.vocab, 0.0);
            // Printable pieces, and another one at each position.
            let token = 100 + (row.start * 7 + row.id.0 as usize * 3) % 400;
            self.logits[from + token] = 9.0;
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

impl Paper {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

const LIMITS: Limits = Limits {
    max_num_seqs: 4,
    max_num_batched_tokens: 64,
    prefill_chunk: 16,
    max_model_len: 512,
    max_waiting: 6,
    watermark: 1,
    policy: Policy::Fcfs,
    mode: Mode::Continuous,
    prefix_cache: true,
};

fn start(max_bytes: u64) -> (EngineHandle, Paper) {
    let text = TextModel::new(&TokenizerData::from_gguf(&support::nano()).unwrap()).unwrap();
    let model = ModelInfo {
        name: "fake".into(),
        title: "fake".into(),
        types: "F32".into(),
        parameters: 0,
        weight_bytes: 0,
        kernels: "none".into(),
        threads: 1,
        vocab: text.vocab(),
        layers: 1,
        context: LIMITS.max_model_len,
        kv_bytes_per_token: 8,
    };
    let fake = Box::new(Fake { vocab: text.vocab(), logits: Vec::new(), passes: 0 });
    let options =
        EngineOptions { limits: LIMITS, num_blocks: 24, capacity: 32, target_itl: None, block_size: 16, pace: Pace::Full, model };
    let paper = Paper::default();
    let recording = Recording { to: Box::new(paper.clone()), started_unix_ms: 1, max_bytes };
    (engine::start_recorded(fake, Arc::new(text), options, Some(recording)).unwrap(), paper)
}

fn greedy(max_tokens: usize) -> SamplingParams {
    SamplingParams { temperature: 0.0, max_tokens, ignore_eos: true, ..SamplingParams::default() }
}

fn until(engine: &EngineHandle, what: &str, wanted: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut snapshots = engine.snapshots();
    let waiting = async { snapshots.wait_for(|snapshot| wanted(snapshot)).await.map(|found| found.clone()) };
    let found = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), waiting).await });
    found.unwrap_or_else(|_| panic!("waited in vain for {what}")).unwrap()
}

/// Steps by hand, and the snapshot after each; what comes in between comes between the same two steps each time.
struct Session {
    engine: EngineHandle,
    live: Vec<Arc<Snapshot>>,
}

impl Session {
    fn steps(&mut self, steps: usize) {
        for _ in 0..steps {
            let next = self.engine.snapshots().borrow().step + 1;
            self.engine.step(1);
            self.live.push(until(&self.engine, "a step", |snapshot| snapshot.step == next));
        }
    }
}

/// Prefix hits, preemption, a fork, cancels, refusals, changed limits, a failed step, a witness, names.
fn eventful() -> (Vec<Arc<Snapshot>>, Vec<u8>, HashMap<UserId, String>) {
    let (engine, paper) = start(1 << 30);
    let mut session = Session { engine: engine.clone(), live: Vec::new() };
    engine.name(UserId(1), "ana");
    engine.name(UserId(2), "bình");
    engine.pause(true);
    let chat = |user, text: &str, max| engine.chat(UserId(user), &[Message::new(Role::User, text)], greedy(max));
    let (first, first_events) = chat(1, "Tell me about the blocks of memory that a chat needs, please, at length.", 150);
    session.steps(8);
    let place = Place { fork_of: Some(first), priority: 3, witness: true, ..Place::default() };
    let fork = engine.submit_as(UserId(2), (0..60).map(|n| 200 + n % 50).collect(), greedy(9), place).1;
    let mut others: Vec<_> =
        (3..6).map(|user| engine.submit(UserId(user), (0..70).map(|n| 300 + n % 30).collect(), greedy(120)).1).collect();
    session.steps(60);
    engine.set_limits(Limits { max_num_seqs: 2, prefill_chunk: 8, ..LIMITS });
    session.steps(10);
    engine.set_limits(Limits { max_num_seqs: 3, policy: Policy::Fair, ..LIMITS });
    engine.set_kv_blocks(16);
    session.steps(10);
    engine.set_kv_blocks(1);
    engine.set_kv_blocks(28);
    engine.set_target_itl(Some(Duration::from_micros(1500)));
    let refused = engine.submit(UserId(7), vec![5; 600], greedy(1)).1;
    let unknown = engine.submit(UserId(7), vec![1 << 30], greedy(1)).1;
    session.steps(20);
    engine.cancel(first);
    drop(others.remove(0));
    engine.set_pace(Pace::StepsPerSecond(1e6));
    session.steps(5);
    let failing = engine.submit(UserId(8), vec![5, FAILS], greedy(4)).1;
    // A step that cannot be computed ends everybody who is in it.
    let there = |session: &Session| {
        let snapshot = session.live.last().unwrap();
        snapshot.running + snapshot.waiting > 0 && !matches!(snapshot.user(UserId(8)).unwrap().status, Status::Finished(_))
    };
    session.steps(1);
    while there(&session) {
        session.steps(1);
    }
    let again = engine.submit(UserId(2), (0..60).map(|n| 200 + n % 50).collect(), greedy(40)).1;
    session.steps(20);
    engine.pause(false);
    until(&engine, "rest", |snapshot| snapshot.state == RunState::Idle && snapshot.witnesses_due == 0);
    engine.shutdown(Duration::ZERO);
    let last = until(&engine, "the end", |snapshot| snapshot.state == RunState::Stopped);
    assert!(engine.recorded(Duration::from_secs(20)), "the recording is written");
    session.live.push(last);
    let mut texts = HashMap::new();
    for (user, mut events) in [(1, first_events), (2, fork), (7, refused), (7, unknown), (8, failing), (2, again)] {
        let text: &mut String = texts.entry(UserId(user)).or_default();
        while let Some(event) = events.blocking_recv() {
            match event {
                Event::Token { text: piece, .. } => text.push_str(&piece),
                Event::Finished(end) => text.push_str(&end.text),
                _ => {}
            }
        }
    }
    (session.live, paper.bytes(), texts)
}

fn read(bytes: &[u8]) -> Result<Replay, String> {
    let trace = Trace::read(bytes, "t").map_err(|error| error.to_string())?;
    Replay::new(trace).map_err(|error| error.to_string())
}

/// Without the speeds of now: a live snapshot is made a moment later.
fn counted(totals: &Totals) -> Totals {
    Totals { tokens_per_s: 0.0, prefill_tokens_per_s: 0.0, steps_per_s: 0.0, step_time_mean: None, ..totals.clone() }
}

/// What of a live snapshot is of the step itself: commands that came after it are not in it yet.
fn same(live: &Snapshot, replayed: &Snapshot) {
    let step = live.step;
    assert_eq!(live.timeline, replayed.timeline, "step {step}");
    assert_eq!(live.kv, replayed.kv, "step {step}");
    assert_eq!(live.ledger, replayed.ledger, "step {step}");
    assert_eq!(live.users, replayed.users, "step {step}");
    assert_eq!(counted(&live.totals), counted(&replayed.totals), "step {step}");
    assert_eq!(live.limits, replayed.limits, "step {step}");
    assert_eq!(live.history, replayed.history, "step {step}");
    assert_eq!((live.running, live.waiting, live.witnesses_due), (replayed.running, replayed.waiting, replayed.witnesses_due));
    assert_eq!((live.prefill_budget, live.prediction), (replayed.prefill_budget, replayed.prediction), "step {step}");
    let words = |snapshot: &Snapshot| -> Vec<(u64, String)> {
        let said = |kind: &NoteKind| match kind {
            NoteKind::Rejected { user, why } => format!("{user:?} {why}"),
            other => format!("{other:?}"),
        };
        snapshot.notes.iter().map(|note| (note.step, said(&note.kind))).collect()
    };
    assert_eq!(words(live), words(replayed), "step {step}");
}

#[test]
fn every_step_is_what_it_was() {
    let (live, bytes, texts) = eventful();
    let mut replay = read(&bytes).unwrap();
    assert_eq!(replay.cut(), None);
    let last = live.last().unwrap();
    assert_eq!(replay.steps() as u64, last.step);
    let totals = &last.totals;
    assert!(totals.preemptions > 0 && totals.cancelled == 2 && totals.rejected == 2, "{totals:?}");
    assert!(last.ledger.hit > 0, "something was found in the cache");
    assert!(last.notes.iter().any(|note| matches!(note.kind, NoteKind::Witnessed(_))));
    for live in &live {
        replay.seek(live.step as usize).unwrap();
        same(live, &replay.snapshot());
    }
    assert_eq!(replay.snapshot().state, RunState::Stopped);
    let mut told: HashMap<UserId, String> = HashMap::new();
    for said in replay.said(None, replay.steps()) {
        match &said.what {
            What::Text(text) => told.entry(said.user).or_default().push_str(text),
            What::Finished(end) => told.entry(said.user).or_default().push_str(&end.text),
            _ => {}
        }
    }
    for (user, text) in texts.iter().filter(|(_, text)| !text.is_empty()) {
        assert_eq!(told.get(user), Some(text), "{user:?}");
    }
    let people = replay.people();
    assert_eq!(people[0], (UserId(1), Some("ana".into())));
    assert!(people.contains(&(UserId(8), None)));
}

#[test]
fn backwards_is_the_same_as_forwards() {
    let (_, bytes, _) = eventful();
    let mut replay = read(&bytes).unwrap();
    let forwards: Vec<Snapshot> = (0..=replay.steps())
        .map(|step| {
            replay.seek(step).unwrap();
            replay.snapshot()
        })
        .collect();
    for step in (0..=replay.steps()).rev() {
        replay.seek(step).unwrap();
        assert_eq!(replay.snapshot(), forwards[step], "step {step}");
    }
    let mut random = Random(7);
    for _ in 0..60 {
        let step = random.below(replay.steps() + 1);
        replay.seek(step).unwrap();
        assert_eq!(replay.snapshot(), forwards[step], "step {step}, seed 7");
    }
}

#[test]
fn a_recording_that_breaks_off_is_played_to_there() {
    let (_, bytes, _) = eventful();
    let whole = read(&bytes).unwrap().steps();
    let middle = bytes.len() / 2;
    let line = middle + bytes[middle..].iter().position(|byte| *byte == b'\n').unwrap();
    let half = &bytes[..line + 8];
    let replay = read(half).unwrap();
    assert!(replay.steps() > 0 && replay.steps() < whole);
    assert_eq!(replay.cut(), Some(&Cut::LastLine));
    let lines = half.iter().rposition(|byte| *byte == b'\n').unwrap();
    assert_eq!(read(&half[..=lines]).unwrap().cut(), Some(&Cut::NoEnd));
}

#[test]
fn the_size_is_bounded_and_said() {
    let (engine, paper) = start(2000);
    let mut events = engine.submit(UserId(1), vec![5; 3], greedy(300)).1;
    while events.blocking_recv().is_some() {}
    assert!(engine.recorded(Duration::from_secs(20)), "the writer has ended, and the engine has not");
    // What is recorded next finds that out.
    engine.set_pace(Pace::Full);
    let snapshot = until(&engine, "the note", |snapshot| {
        snapshot.notes.iter().any(|note| matches!(note.kind, NoteKind::RecordingEnded { .. }))
    });
    assert!(snapshot.step >= 300, "and the engine goes on");
    assert!(engine.recorded(Duration::from_secs(20)));
    assert!(paper.bytes().len() < 2200);
    let replay = read(&paper.bytes()).unwrap();
    assert!(replay.steps() > 5);
    assert_eq!(replay.cut(), Some(&Cut::Recording(RecordingEnd::Full)));
}

#[test]
fn what_was_decided_otherwise_is_said_with_its_line() {
    let (_, bytes, _) = eventful();
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let with = |at: usize, line: &str| {
        let mut lines = lines.clone();
        lines[at] = line;
        read((lines.join("\n") + "\n").as_bytes()).map(|replay| replay.steps()).unwrap_err()
    };
    let sum = lines.iter().position(|line| line.contains("\"sum\"")).unwrap();
    let error = with(sum, &lines[sum].replace("\"sum\":\"", "\"sum\":\"f"));
    assert!(error.starts_with(&format!("t, line {}: step 64 was decided otherwise by this version", sum + 1)), "{error}");
    // One token more or less than the scheduler asks for.
    let step = lines.iter().position(|line| line.starts_with("{\"step\"") && line.contains("\"r\":[]")).unwrap();
    let error = with(step, &lines[step].replace("\"r\":[]", "\"r\":[[5,\"\"]]"));
    assert!(error.contains(&format!("line {}", step + 1)) && error.contains("otherwise"), "{error}");
    let error = with(3, "{\"telepathy\":{\"t\":1}}");
    assert!(error.contains("line 4: `telepathy`") && error.contains("newer version"), "{error}");
    let error = with(1, "{\"cancel\":{\"id\":99,\"t\":0}}");
    assert!(error.contains("line 2: request 99 is cancelled and not there"), "{error}");
    let error = with(0, &lines[0].replace("\"batchroom_trace\":1", "\"batchroom_trace\":2"));
    assert!(error.contains("newer version"), "{error}");
    let error = with(0, &lines[0].replace("\"capacity\":32", "\"capacity\":99999999999"));
    assert!(error.contains("line 1") && error.contains("99999999999"), "{error}");
    assert!(read(b"").unwrap_err().contains("empty"));
    assert!(read(b"GGUF\x03\0\0\0").unwrap_err().contains("is no trace of batchroom"));
}

#[test]
fn damaged_files_are_errors() {
    let (_, bytes, _) = eventful();
    // The first part has all kinds of harm in it, and goes fast.
    let bytes = &bytes[..bytes.len().min(12_000)];
    let mut random = Random(23);
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..1500 {
        let mut damaged = bytes.to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(damaged.len());
            match random.below(4) {
                0 => damaged[at] = random.below(256) as u8,
                1 => damaged[at] = b'0' + random.below(10) as u8,
                2 => drop(damaged.drain(at..(at + random.below(40)).min(damaged.len()))),
                _ => {
                    let from = random.below(damaged.len());
                    let piece = damaged[from..(from + random.below(200)).min(damaged.len())].to_vec();
                    damaged.splice(at..at, piece);
                }
            }
        }
        match read(&damaged) {
            Ok(mut replay) => {
                taken += 1;
                replay.seek(usize::MAX).unwrap();
                replay.snapshot();
            }
            Err(error) => {
                refused += 1;
                assert!(error.contains("line ") || error.contains("no trace") || error.contains("newer"), "{error}");
            }
        }
    }
    assert!(refused > 300 && taken > 0, "{refused} refused, {taken} taken, seed 23");
}

#[test]
fn refusals_are_read_as_they_are_written_now_and_as_they_were() {
    let (_, bytes, _) = eventful();
    let text = String::from_utf8(bytes).unwrap();
    let first = |why: &str| {
        let mut lines: Vec<&str> = text.lines().collect();
        let line = format!("{{\"refused\":{{\"user\":3,\"why\":{why}}}}}");
        lines.insert(1, &line);
        let mut replay = read((lines.join("\n") + "\n").as_bytes()).unwrap();
        replay.seek(1).unwrap();
        let notes = replay.snapshot().notes;
        let refused = notes.into_iter().find_map(|note| match note.kind {
            NoteKind::Rejected { user: UserId(3), why } => Some(why),
            _ => None,
        });
        refused.expect("it is among the events")
    };
    let old = "the conversation has 9 bytes, more than fit a context of 2 tokens in any language";
    assert_eq!(first(&format!("{old:?}")), Rejected::Words(old.into()));
    assert_eq!(first("\"the engine is shutting down\""), Rejected::ShuttingDown);
    for why in [Rejected::TooManyBytes { bytes: 9, max_model_len: 2 }, Rejected::Template("no".into()), Rejected::EmptyPrompt] {
        assert_eq!(first(&serde_json::to_string(&why).unwrap()), why);
    }
}
