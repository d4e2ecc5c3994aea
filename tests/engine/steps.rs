//! What the record of a step says: decisions, reasons, what came before it, where its time went.

use super::*;

#[test]
fn a_record_says_what_was_decided_and_where_the_time_went() {
    let engine = start(limits());
    engine.pause(true);
    // Three would wait, and two may.
    let answers = [1, 2, 3].map(|user| engine.submit(UserId(user), vec![user; 40], greedy(3)).1);
    engine.set_limits(Limits { max_num_seqs: 1, ..limits() });
    engine.step(1);
    let snapshot = until(&engine, "a step", |snapshot| snapshot.step == 1);
    let record = snapshot.timeline.back().unwrap();
    let [Between::Refused { user: UserId(3), why }, Between::Changed(what)] = &record.between[..] else {
        panic!("{:?}", record.between)
    };
    assert!(matches!(why, Rejected::QueueFull { waiting: 2, max_waiting: 2, .. }), "{why}");
    assert_eq!(*what, Change::Limits { old: limits(), new: Limits { max_num_seqs: 1, ..limits() } });
    let [admission] = record.admitted[..] else { panic!("{:?}", record.admitted) };
    assert_eq!((admission.user, admission.blocks, admission.cached, admission.again), (UserId(1), 3, 0, false));
    assert_eq!(record.waiting, [(UserId(2), Waiting::Seats { running: 1, max_num_seqs: 1 })]);
    assert_eq!((record.used_blocks, record.cached_blocks, record.total_blocks), (3, 0, 64));
    assert_eq!((record.budget_used, record.budget, record.prefill_budget), (16, 64, None));
    let parts = record.parts.expect("the model keeps an account");
    assert_eq!((parts.attention, parts.products), (ATTENTION, PRODUCTS));
    assert!(parts.sampling + parts.scheduling <= record.duration, "{parts:?} of {:?}", record.duration);
    engine.step(2);
    let snapshot = until(&engine, "three steps", |snapshot| snapshot.step == 3);
    let [first, second, third] = [0, 1, 2].map(|place| snapshot.timeline.get(place).unwrap());
    assert!(second.between.is_empty() && third.between.is_empty(), "it belongs to one step");
    assert!(first.at <= second.at && second.at <= third.at, "{:?}, {:?}, {:?}", first.at, second.at, third.at);
    let chunks = snapshot.notes.iter().filter_map(|note| match note.kind {
        NoteKind::Chunk { user, start, tokens, last } => Some((note.step, user, start, tokens, last)),
        _ => None,
    });
    assert_eq!(
        chunks.collect::<Vec<_>>(),
        [(1, UserId(1), 0, 16, false), (3, UserId(1), 32, 8, true)],
        "not the second of three"
    );
    engine.pause(false);
    let [first, second, third] = answers;
    assert_eq!((end(first).generated_tokens, end(second).generated_tokens), (3, 3));
    assert!(matches!(all(third)[..], [Event::Rejected(Rejected::QueueFull { .. })]));
}

#[test]
fn a_preemption_is_in_the_record_with_what_it_costs() {
    // Twelve blocks of 16: two answers of 100 tokens do not fit.
    let engine = start_with(limits(), 12, Fake::default());
    let answers = [1, 2].map(|user| engine.submit(UserId(user), vec![user; 40], greedy(100)).1);
    let ends = answers.map(end);
    assert_eq!(ends.each_ref().map(|end| end.generated_tokens), [100, 100]);
    let snapshot = until(&engine, "rest", |snapshot| snapshot.totals.finished == 2);
    let preempted: Vec<StepPreemption> = snapshot.timeline.iter().flat_map(|record| record.preempted.iter().copied()).collect();
    assert_eq!(preempted.len() as u64, snapshot.totals.preemptions);
    assert!(!preempted.is_empty() && preempted.iter().all(|it| it.user == UserId(2) && it.by == TakenBy::User(UserId(1))));
    let back: usize =
        snapshot.timeline.iter().flat_map(|record| &record.admitted).filter(|it| it.again).map(|it| it.cached).sum();
    let lost: usize = preempted.iter().map(|it| it.lost).sum();
    assert_eq!(lost as u64, snapshot.ledger.recomputed_total + back as u64, "given up is computed again, or was still cached");
    for record in snapshot.timeline.iter() {
        assert!(record.used_blocks + record.cached_blocks <= record.total_blocks);
    }
}
