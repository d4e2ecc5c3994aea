//! The engine thread from outside, with a model that can be made to fail.

mod changes;
mod places;
mod steps;
#[path = "../support/mod.rs"]
mod support;
mod witness;

use std::sync::Arc;
use std::time::Duration;

use batchroom::batch::{Batch, UserId};
use batchroom::engine::{self, *};
use batchroom::sampling::SamplingParams;
use batchroom::text::{Message, Role, TextModel, TokenizerData};
use tokio::sync::mpsc::Receiver;

/// Says the token 100 for ever; fails, panics or gives no numbers when the batch holds a marked token.
#[derive(Default)]
struct Fake {
    vocab: usize,
    logits: Vec<f32>,
    /// A batch of several rows has other logits than one of one row, and says another token if so wished.
    company: Company,
    /// A batch is computed for each permit, and without one when the other end is gone.
    gate: Option<std::sync::mpsc::Receiver<()>>,
    failed_once: bool,
    passes: u32,
}

/// What each pass says it has spent.
const ATTENTION: Duration = Duration::from_micros(3);
const PRODUCTS: Duration = Duration::from_micros(7);

/// What others in the batch do to a row's logits. In a model that is right: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Company {
    #[default]
    Nothing,
    /// One bit of one logit, which chooses no token.
    Bit,
    Token,
}

const FAILS: u32 = 900;
const PANICS: u32 = 901;
const NO_NUMBER: u32 = 902;
/// Fails the first time.
const FAILS_ONCE: u32 = 903;

impl engine::Model for Fake {
    fn times(&self) -> Option<PassTimes> {
        Some(PassTimes { attention: ATTENTION * self.passes, products: PRODUCTS * self.passes })
    }

    fn forward(&mut self, batch: &Batch) -> Result<&[f32], ForwardError> {
        self.passes += 1;
        if let Some(gate) = &self.gate {
            let _ = gate.recv();
        }
        if batch.tokens.contains(&FAILS) || batch.tokens.contains(&FAILS_ONCE) && !std::mem::replace(&mut self.failed_once, true)
        {
            return Err(ForwardError("out of luck".into()));
        }
        assert!(!batch.tokens.contains(&PANICS), "asked to panic");
        let company = if batch.rows.len() > 1 { self.company } else { Company::Nothing };
        self.logits.clear();
        for row in batch.rows.iter().filter(|row| row.samples) {
            let from = self.logits.len();
            self.logits.resize(from + self.vocab, 0.0);
            self.logits[from + 100] = if batch.row_tokens(row).contains(&NO_NUMBER) { f32::NAN } else { 9.0 };
            match company {
                Company::Nothing => {}
                Company::Bit => self.logits[from + 7] = f32::from_bits(1),
                Company::Token => self.logits[from + 101] = 10.0,
            }
        }
        Ok(&self.logits)
    }
}

fn start(limits: Limits) -> EngineHandle {
    start_with(limits, 64, Fake::default())
}

fn start_with(limits: Limits, num_blocks: usize, fake: Fake) -> EngineHandle {
    let text = TextModel::new(&TokenizerData::from_gguf(&support::nano()).unwrap()).unwrap();
    let info = ModelInfo {
        name: "fake".into(),
        title: "fake".into(),
        types: "F32".into(),
        parameters: 0,
        weight_bytes: 0,
        kernels: "none".into(),
        threads: 1,
        vocab: text.vocab(),
        layers: 1,
        context: limits.max_model_len,
        kv_bytes_per_token: 8,
    };
    let model = Box::new(Fake { vocab: text.vocab(), ..fake });
    let options =
        EngineOptions { limits, num_blocks, capacity: 64, target_itl: None, block_size: 16, pace: Pace::Full, model: info };
    engine::start(model, Arc::new(text), options).unwrap()
}

fn limits() -> Limits {
    Limits {
        max_num_seqs: 4,
        max_num_batched_tokens: 64,
        prefill_chunk: 16,
        max_model_len: 512,
        max_waiting: 2,
        ..Limits::default()
    }
}

fn greedy(max_tokens: usize) -> SamplingParams {
    SamplingParams { temperature: 0.0, max_tokens, ..SamplingParams::default() }
}

/// All events until the channel ends.
fn all(mut events: Receiver<Event>) -> Vec<Event> {
    std::iter::from_fn(|| events.blocking_recv()).collect()
}

fn end(events: Receiver<Event>) -> Finished {
    match all(events).pop() {
        Some(Event::Finished(finished)) => finished,
        other => panic!("ended with {other:?}"),
    }
}

/// Waits until the newest snapshot is as wanted.
fn until(engine: &EngineHandle, what: &str, wanted: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut snapshots = engine.snapshots();
    let waiting = async { snapshots.wait_for(|snapshot| wanted(snapshot)).await.map(|found| found.clone()) };
    let found = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), waiting).await });
    found.unwrap_or_else(|_| panic!("waited in vain for {what}")).unwrap()
}

#[test]
fn events_come_in_order_and_add_up() {
    let engine = start(limits());
    let events = all(engine.chat(UserId(1), &[Message::new(Role::User, "hello")], greedy(5)).1);
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| match event {
            Event::Queued { .. } => "queued",
            Event::Admitted { .. } => "admitted",
            Event::Token { .. } => "token",
            Event::Finished(_) => "finished",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["queued", "admitted", "token", "token", "token", "token", "token", "finished"]);
    let Some(Event::Finished(finished)) = events.last() else { panic!() };
    assert_eq!((finished.reason, finished.generated_tokens), (FinishReason::Length, 5));
    assert!(finished.ttft.is_some() && finished.tokens_per_s.is_some());
    let snapshot = until(&engine, "idle", |snapshot| snapshot.state == RunState::Idle && snapshot.totals.finished == 1);
    let available = snapshot.kv.free + snapshot.kv.cached;
    assert_eq!((snapshot.kv.used, available, snapshot.totals.generated_tokens), (0, 64, 5));
    assert_eq!(snapshot.totals.prompt_tokens as usize, finished.prompt_tokens);
    assert_eq!(snapshot.timeline.len() as u64, snapshot.step);
    let tokens: f64 = snapshot.history.iter().map(|sample| sample.tokens_per_s / 2.0).sum();
    assert_eq!(tokens, 4.0, "all but the first, which is TTFT's, are in the chart, each sample half a second");
}

#[test]
fn paused_it_moves_by_the_steps_it_is_given() {
    let engine = start(limits());
    engine.pause(true);
    let (_, mut events) = engine.submit(UserId(1), vec![5; 3], greedy(50));
    engine.step(3);
    let snapshot = until(&engine, "three steps", |snapshot| snapshot.step == 3);
    assert_eq!(snapshot.state, RunState::Paused);
    let view = snapshot.user(UserId(1)).unwrap();
    assert_eq!((view.status, view.generated_tokens), (Status::Decode, 3));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(engine.snapshots().borrow().step, 3, "and not by one more");
    assert_eq!((view.tokens_per_s, snapshot.totals.tokens_per_s), (None, 0.0), "steps by hand have no speed");
    engine.step(47);
    let end = std::iter::from_fn(|| events.blocking_recv()).find_map(|event| match event {
        Event::Finished(finished) => Some(finished),
        _ => None,
    });
    let end = end.expect("an end");
    assert_eq!((end.generated_tokens, end.tokens_per_s), (50, None));
    assert!(end.ttft.is_some());
}

#[test]
fn after_a_pause_the_rest_goes_by_itself() {
    let engine = start(limits());
    engine.pause(true);
    let (_, events) = engine.submit(UserId(1), vec![5; 3], greedy(50));
    engine.step(3);
    until(&engine, "three steps", |snapshot| snapshot.step == 3);
    engine.pause(false);
    let end = end(events);
    assert_eq!(end.generated_tokens, 50);
    assert!(end.tokens_per_s.is_some());
}

#[test]
fn a_dropped_receiver_is_a_cancel_and_hurts_nobody() {
    let engine = start(limits());
    engine.set_pace(Pace::StepsPerSecond(200.0));
    let (_, gone) = engine.submit(UserId(1), vec![5; 3], greedy(400));
    let (_, stays) = engine.submit(UserId(2), vec![5; 3], greedy(40));
    drop(gone);
    assert_eq!(end(stays).reason, FinishReason::Length);
    let snapshot = until(&engine, "rest", |snapshot| snapshot.running == 0);
    assert_eq!((snapshot.totals.cancelled, snapshot.kv.used), (1, 0));
}

#[test]
fn the_queue_is_bounded_and_says_its_depth() {
    let engine = start(Limits { max_num_seqs: 1, ..limits() });
    engine.pause(true);
    let receivers: Vec<_> = (0..5).map(|user| engine.submit(UserId(user), vec![5; 3], greedy(4)).1).collect();
    engine.pause(false);
    let ends: Vec<Event> = receivers.into_iter().map(|events| all(events).pop().unwrap()).collect();
    let full = |event: &&Event| matches!(event, Event::Rejected(Rejected::QueueFull { waiting: 2, max_waiting: 2, .. }));
    assert_eq!(ends.iter().filter(full).count(), 3, "{ends:?}");
    assert_eq!(ends.iter().filter(|event| matches!(event, Event::Finished(_))).count(), 2);
}

#[test]
fn a_failed_step_ends_its_sequences_and_the_engine_goes_on() {
    let engine = start(limits());
    let failed = end(engine.submit(UserId(1), vec![5, FAILS], greedy(4)).1);
    assert_eq!((failed.reason, failed.message.as_deref()), (FinishReason::Failed, Some("out of luck")));
    assert_eq!(end(engine.submit(UserId(2), vec![5], greedy(4)).1).reason, FinishReason::Length);
}

#[test]
fn what_a_failed_step_should_have_computed_is_found_by_nobody() {
    let engine = start(limits());
    // One block, and the step that computes it fails.
    let prompt: Vec<u32> = (1..16).chain([FAILS_ONCE]).collect();
    let failed = end(engine.submit(UserId(1), prompt.clone(), greedy(4)).1);
    assert_eq!((failed.reason, failed.generated_tokens), (FinishReason::Failed, 0));
    let longer: Vec<u32> = prompt.iter().copied().chain([7; 8]).collect();
    let again = end(engine.submit(UserId(2), longer.clone(), greedy(4)).1);
    assert_eq!((again.reason, again.cached_tokens), (FinishReason::Length, 0), "its own computation, not the failed one");
    assert_eq!(end(engine.submit(UserId(3), longer, greedy(4)).1).cached_tokens, 16, "which then is remembered");
    let snapshot = until(&engine, "all three", |snapshot| snapshot.totals.finished == 3);
    assert_eq!((snapshot.totals.generated_tokens, snapshot.kv.used), (8, 0), "no token of the failed step is counted");
}

#[test]
fn logits_that_are_no_numbers_fail_that_sequence_only() {
    let engine = start(limits());
    engine.pause(true);
    let bad = engine.submit(UserId(1), vec![5, NO_NUMBER], greedy(4)).1;
    let good = engine.submit(UserId(2), vec![5, 6], greedy(4)).1;
    engine.pause(false);
    let bad = end(bad);
    assert!(bad.reason == FinishReason::Failed && bad.message.unwrap().contains("not finite"));
    assert_eq!(end(good).reason, FinishReason::Length);
}

#[test]
fn a_panic_is_said_and_everybody_is_told() {
    let engine = start(limits());
    let told = end(engine.submit(UserId(1), vec![5, PANICS], greedy(4)).1);
    assert!(told.reason == FinishReason::Failed && told.message.unwrap().contains("asked to panic"));
    until(&engine, "the end", |snapshot| snapshot.state == RunState::Stopped && snapshot.fault.is_some());
    let later = all(engine.submit(UserId(1), vec![5], greedy(4)).1);
    assert!(matches!(&later[..], [Event::Rejected(Rejected::EngineGone(why))] if why.contains("asked to panic")), "{later:?}");
}

#[test]
fn shutdown_drains_and_then_cancels() {
    let engine = start(limits());
    let short = engine.submit(UserId(1), vec![5], greedy(4)).1;
    engine.shutdown(Duration::from_secs(20));
    let late = engine.submit(UserId(2), vec![5], greedy(4)).1;
    assert_eq!(end(short).reason, FinishReason::Length);
    assert!(matches!(all(late).last(), Some(Event::Rejected(Rejected::ShuttingDown | Rejected::EngineGone(_)))));

    let engine = start(limits());
    engine.pause(true);
    let endless = engine.submit(UserId(1), vec![5], greedy(400)).1;
    engine.shutdown(Duration::ZERO);
    assert_eq!(end(endless).reason, FinishReason::Cancelled);
}

#[test]
fn what_cannot_be_is_refused_with_its_numbers() {
    let engine = start(limits());
    let refusal = |prompt: Vec<u32>, sampling| match all(engine.submit(UserId(1), prompt, sampling).1).pop() {
        Some(Event::Rejected(why)) => why.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refusal(vec![5; 512], greedy(1)).contains("512"));
    assert!(refusal(vec![], greedy(1)).contains("empty"));
    assert!(refusal(vec![999_999], greedy(1)).contains("999999"));
    assert!(refusal(vec![5], SamplingParams { top_p: 7.0, ..greedy(1) }).contains("top_p"));
    let huge = [Message::new(Role::User, "x".repeat(512 * 128 + 1))];
    assert!(matches!(&all(engine.chat(UserId(1), &huge, greedy(1)).1)[..], [Event::Rejected(Rejected::TooManyBytes { .. })]));
    // Whoever refused, engine or handle: all five are counted, and told with their reasons.
    let snapshot = until(&engine, "five refusals", |snapshot| snapshot.totals.rejected == 5);
    let told = snapshot.notes.iter().filter(|note| matches!(note.kind, NoteKind::Rejected { user: UserId(1), .. }));
    assert_eq!(told.count(), 5, "{:?}", snapshot.notes);
}
