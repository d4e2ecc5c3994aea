//! The witness: an answer computed once more, alone, and compared bit by bit.

use std::sync::mpsc;

use super::*;

const WITNESS: Place = Place { priority: 0, fork_of: None, witness: true, continues: false };

/// The verdict, with the end before it.
fn verdict(events: Receiver<Event>) -> (Finished, Witnessed) {
    let mut events = all(events);
    match (events.pop(), events.pop()) {
        (Some(Event::Witnessed(witnessed)), Some(Event::Finished(finished))) => (finished, witnessed),
        other => panic!("ended with {other:?}"),
    }
}

#[test]
fn a_model_that_depends_on_nothing_else_is_told_to_be_the_same() {
    let engine = start(Limits { max_waiting: 8, ..limits() });
    engine.pause(true);
    let others: Vec<_> = (1..4).map(|user| engine.submit(UserId(user), vec![user; 30], greedy(20)).1).collect();
    let (id, events) = engine.submit_as(UserId(9), vec![9; 40], greedy(12), WITNESS);
    engine.pause(false);
    let (finished, witnessed) = verdict(events);
    assert_eq!((finished.generated_tokens, witnessed.tokens), (12, 12));
    assert_eq!((witnessed.request, witnessed.user, witnessed.verdict), (id, UserId(9), Verdict::Same));
    others.into_iter().for_each(|events| assert_eq!(end(events).generated_tokens, 20));
    let snapshot = until(&engine, "rest", |snapshot| snapshot.witnesses_due == 0 && snapshot.totals.finished == 4);
    assert!(snapshot.notes.iter().any(|note| matches!(&note.kind, NoteKind::Witnessed(witnessed) if witnessed.request == id)));
    assert_eq!((snapshot.kv.used, snapshot.totals.generated_tokens), (0, 72), "what a witness computes is nobody's token");
}

/// What the witness says of an answer that has company from its fourth token on.
fn with_company(company: Company) -> Verdict {
    let engine = start_with(limits(), 64, Fake { company, ..Fake::default() });
    engine.pause(true);
    let (_, events) = engine.submit_as(UserId(1), vec![5; 3], greedy(8), WITNESS);
    engine.step(3);
    until(&engine, "three steps", |snapshot| snapshot.step == 3);
    let other = engine.submit(UserId(2), vec![6; 3], greedy(8)).1;
    engine.pause(false);
    let verdict = verdict(events).1.verdict;
    assert_eq!(end(other).generated_tokens, 8);
    verdict
}

#[test]
fn one_bit_that_others_change_is_seen_where_it_first_was() {
    assert_eq!(with_company(Company::Nothing), Verdict::Same);
    assert_eq!(with_company(Company::Bit), Verdict::Differs { at: 3, token: false });
    assert_eq!(with_company(Company::Token), Verdict::Differs { at: 3, token: true });
}

#[test]
fn what_does_not_fit_any_more_is_not_computed_again() {
    let engine = start(limits());
    engine.pause(true);
    let (_, events) = engine.submit_as(UserId(1), vec![5; 100], greedy(20), WITNESS);
    engine.step(100);
    until(&engine, "its end", |snapshot| snapshot.totals.finished == 1);
    engine.set_kv_blocks(4);
    engine.pause(false);
    let Verdict::NotRun { why } = verdict(events).1.verdict else { panic!("it has no room") };
    assert_eq!(why, NotRun::NoRoom { tokens: 120 });
}

/// An engine whose witness, of 48 tokens of prompt and 12 of answer, has begun, and waits for permits.
fn in_the_middle(num_blocks: usize) -> (EngineHandle, Receiver<Event>, mpsc::SyncSender<()>) {
    // Without room in between: whoever has given a permit knows that it was taken.
    let (permits, gate) = mpsc::sync_channel(0);
    let limits = Limits { max_num_batched_tokens: 16, ..limits() };
    let engine = start_with(limits, num_blocks, Fake { gate: Some(gate), ..Fake::default() });
    let (_, mut events) = engine.submit_as(UserId(1), vec![5; 48], greedy(12), WITNESS);
    // The prompt's three chunks, of which the last gives a token, and eleven more tokens.
    (0..3 + 11).for_each(|_| permits.send(()).unwrap());
    while !matches!(events.blocking_recv(), Some(Event::Finished(_))) {}
    // The witness's first step.
    permits.send(()).unwrap();
    (engine, events, permits)
}

#[test]
fn the_kv_budget_can_shrink_below_what_a_witness_holds() {
    let (engine, events, permits) = in_the_middle(64);
    engine.set_kv_blocks(2);
    drop(permits);
    let told = all(events);
    assert!(matches!(&told[..], [Event::Witnessed(Witnessed { verdict: Verdict::NotRun { .. }, .. })]), "{told:?}");
    let snapshot = until(&engine, "the change", |snapshot| snapshot.kv.total == 2);
    assert_eq!((&snapshot.fault, snapshot.kv.used), (&None, 0));
    assert_eq!(end(engine.submit(UserId(2), vec![5], greedy(4)).1).generated_tokens, 4, "and it goes on");
}

#[test]
fn a_witness_stands_in_nobodys_way() {
    // Four blocks are the witness's; the other needs all of the five.
    let (engine, events, permits) = in_the_middle(5);
    let other = engine.submit(UserId(2), vec![6; 20], greedy(60)).1;
    drop(permits);
    let finished = end(other);
    assert_eq!((finished.reason, finished.preemptions), (FinishReason::Length, 0));
    let told = all(events);
    assert!(matches!(&told[..], [Event::Witnessed(Witnessed { verdict: Verdict::Same, .. })]), "{told:?}");
}

#[test]
fn an_engine_that_is_shut_down_still_gives_its_verdicts() {
    let (engine, events, permits) = in_the_middle(64);
    engine.shutdown(Duration::from_secs(20));
    drop(permits);
    assert!(matches!(all(events)[..], [Event::Witnessed(Witnessed { verdict: Verdict::Same, .. })]));

    let (engine, events, permits) = in_the_middle(64);
    engine.shutdown(Duration::ZERO);
    drop(permits);
    let told = all(events);
    assert!(matches!(&told[..], [Event::Witnessed(Witnessed { verdict: Verdict::NotRun { .. }, .. })]), "{told:?}");
    until(&engine, "the end", |snapshot| snapshot.state == RunState::Stopped && snapshot.fault.is_none());
}
