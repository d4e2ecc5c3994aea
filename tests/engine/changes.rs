//! Limits changed while the engine runs: what is told, and that a refusal changes nothing.

use super::*;

/// What the notes say of changes, and of those that were refused.
fn told(snapshot: &Snapshot) -> Vec<Result<String, String>> {
    let changes = snapshot.notes.iter().filter_map(|note| match &note.kind {
        NoteKind::Changed { what } => Some(Ok(what.to_string())),
        NoteKind::ChangeRefused { why } => Some(Err(why.to_string())),
        _ => None,
    });
    changes.collect()
}

/// An engine that is paused with two users in the middle of their answers.
fn two_in_the_middle() -> (EngineHandle, [Receiver<Event>; 2]) {
    let engine = start(limits());
    engine.pause(true);
    let events = [1, 2].map(|user| engine.submit(UserId(user), vec![user; 40], greedy(30)).1);
    engine.step(6);
    until(&engine, "six steps", |snapshot| snapshot.step == 6);
    (engine, events)
}

#[test]
fn changes_are_told_and_nobody_is_ended() {
    let (engine, [first, second]) = two_in_the_middle();
    engine.set_limits(Limits { max_num_seqs: 1, policy: Policy::Fair, mode: Mode::Static, prefix_cache: false, ..limits() });
    engine.set_kv_blocks(10);
    engine.set_target_itl(Some(Duration::from_millis(50)));
    engine.set_target_itl(None);
    // The pause brings a snapshot.
    engine.step(1);
    let snapshot = until(&engine, "four notes", |snapshot| told(snapshot).len() == 4);
    let expected = [
        "max_num_seqs 4 -> 1, policy fcfs -> fair, mode continuous -> static, prefix_cache on -> off",
        "KV budget 64 -> 10 blocks",
        "target_itl none -> 50 ms",
        "target_itl 50 ms -> none",
    ];
    assert_eq!(told(&snapshot), expected.map(|what| Ok(what.to_owned())));
    assert_eq!((snapshot.limits.max_num_seqs, snapshot.kv.total, snapshot.kv.capacity), (1, 10, 64));
    assert_eq!(snapshot.totals.preemptions, 1);
    engine.pause(false);
    let (first, second) = (all(first), all(second));
    let preempted =
        |events: &[Event]| events.iter().filter(|event| matches!(event, Event::Preempted { by: TakenBy::Seats, .. })).count();
    assert_eq!((preempted(&first), preempted(&second)), (0, 1), "the one that gives way hears of it");
    for events in [first, second] {
        let Some(Event::Finished(finished)) = events.last() else { panic!("{events:?}") };
        assert_eq!((finished.reason, finished.generated_tokens), (FinishReason::Length, 30));
    }
}

#[test]
fn a_change_that_cannot_be_changes_nothing() {
    let (engine, [first, second]) = two_in_the_middle();
    engine.set_limits(Limits { max_num_batched_tokens: 3, ..limits() });
    engine.set_limits(Limits { prefill_chunk: 0, ..limits() });
    engine.set_limits(Limits { max_model_len: 513, ..limits() });
    engine.set_kv_blocks(65);
    engine.set_kv_blocks(0);
    // Forty tokens and those of the answer: three blocks each.
    engine.set_kv_blocks(2);
    engine.step(1);
    let snapshot = until(&engine, "six refusals", |snapshot| told(snapshot).len() == 6);
    let numbers = [&["max_num_batched_tokens (3)", "max_num_seqs (4)"][..], &["prefill_chunk"], &["513", "512"], &["65", "64"]];
    let numbers = numbers.into_iter().chain([&["at least 1"][..], &["2 blocks", "needs 3"]]);
    for (told, numbers) in told(&snapshot).into_iter().zip(numbers) {
        let why = told.expect_err("refused");
        assert!(numbers.iter().all(|number| why.contains(number)), "{why}");
    }
    assert_eq!((snapshot.limits, snapshot.kv.total, snapshot.totals.preemptions), (limits(), 64, 0));
    engine.pause(false);
    assert_eq!([end(first), end(second)].map(|finished| (finished.generated_tokens, finished.preemptions)), [(30, 0); 2]);
}

#[test]
fn the_limits_as_they_are_change_nothing_and_are_not_told() {
    let engine = start(limits());
    engine.set_limits(limits());
    assert_eq!(end(engine.submit(UserId(1), vec![5], greedy(2)).1).generated_tokens, 2);
    assert_eq!(told(&until(&engine, "rest", |snapshot| snapshot.totals.finished == 1)), []);
}

#[test]
fn a_target_for_the_gaps_bounds_what_prompts_get() {
    let engine = start(limits());
    assert_eq!(end(engine.submit(UserId(1), vec![5; 40], greedy(20)).1).generated_tokens, 20);
    assert_eq!(until(&engine, "rest", |snapshot| snapshot.totals.finished == 1).prefill_budget, None);
    engine.set_target_itl(Some(Duration::from_micros(1)));
    let (_, long) = engine.submit(UserId(1), vec![5; 3], greedy(100));
    let (_, prompt) = engine.submit(UserId(2), (1..80).collect(), greedy(5));
    assert_eq!(
        [end(long), end(prompt)].map(|finished| finished.generated_tokens),
        [100, 5],
        "an aim that cannot be kept stops nobody"
    );
    let snapshot = until(&engine, "rest", |snapshot| snapshot.totals.finished == 3);
    assert_eq!(snapshot.target_itl, Some(Duration::from_micros(1)));
    assert!(snapshot.prefill_budget.is_some());
}
