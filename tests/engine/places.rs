//! Priorities, forks, and the figures of an answer.

use super::*;

/// The step of a request's first token.
fn first_step(events: Receiver<Event>) -> u64 {
    let first = all(events).into_iter().find_map(|event| match event {
        Event::Token { step, .. } => Some(step),
        _ => None,
    });
    first.expect("a token")
}

#[test]
fn the_highest_priority_is_let_in_first() {
    let engine = start(Limits { policy: Policy::Priority, max_num_seqs: 1, max_waiting: 8, ..limits() });
    engine.pause(true);
    let submit = |priority| engine.submit_as(UserId(1), vec![5; 3], greedy(4), Place { priority, ..Place::default() }).1;
    let requests = [0, -3, 9, 0].map(submit);
    engine.pause(false);
    assert_eq!(requests.map(first_step), [5, 13, 1, 9], "four steps each");
}

#[test]
fn a_fork_finds_what_its_origin_has_computed() {
    let engine = start(limits());
    engine.pause(true);
    let (origin, events) = engine.submit(UserId(1), vec![5; 20], greedy(30));
    engine.step(4);
    let snapshot = until(&engine, "four steps", |snapshot| snapshot.step == 4);
    let heard = snapshot.user(UserId(1)).unwrap().generated_tokens;
    assert_eq!(heard, 3, "two chunks of prompt, the second with a token");
    let branch: Vec<u32> = [vec![5; 20], vec![100; heard], vec![6; 4]].concat();
    let fork = engine.submit_as(UserId(2), branch, greedy(5), Place { fork_of: Some(origin), ..Place::default() }).1;
    engine.pause(false);
    let events_of_fork = all(fork);
    assert!(events_of_fork.iter().any(|event| matches!(event, Event::Admitted { cached: 22, .. })), "{events_of_fork:?}");
    let Some(Event::Finished(finished)) = events_of_fork.last() else { panic!("{events_of_fork:?}") };
    assert_eq!((finished.cached_tokens, finished.generated_tokens), (22, 5));
    assert_eq!(end(events).generated_tokens, 30);
    let snapshot = until(&engine, "rest", |snapshot| snapshot.running == 0);
    assert_eq!((snapshot.ledger.hit, snapshot.ledger.asked, snapshot.user(UserId(2)).unwrap().cached_tokens), (22, 47, 22));
}

#[test]
fn the_figures_of_an_answer_are_consistent() {
    let engine = start(Limits { max_num_seqs: 1, ..limits() });
    engine.pause(true);
    let requests: Vec<_> = (1..4).map(|user| engine.submit(UserId(user), (1..50).collect(), greedy(40)).1).collect();
    engine.pause(false);
    for (at, request) in requests.into_iter().take(2).enumerate() {
        let finished = end(request);
        let tokens = finished.generated_tokens as u32;
        assert_eq!((tokens, finished.prompt_tokens), (40, 49));
        let (queued, ttft, whole) = (finished.queued.unwrap(), finished.ttft.unwrap(), finished.end_to_end);
        assert!(queued <= ttft && ttft <= whole, "{finished:?}");
        assert_eq!(finished.tpot.unwrap(), (whole - ttft) / (tokens - 1), "what is not TTFT, over the other tokens");
        let itl = finished.itl.unwrap();
        assert!(itl.p50 <= itl.p95 && itl.p95 <= itl.p99 && itl.p99 <= itl.max && itl.max <= whole - ttft, "{itl:?}");
        assert_eq!(finished.cached_tokens, [0, 48][at], "whole blocks of the first one's prompt");
    }
    let one = end(engine.submit(UserId(9), vec![8], greedy(1)).1);
    assert_eq!((one.generated_tokens, one.tpot, one.itl), (1, None, None), "one token has no gap");
}

#[test]
fn a_request_that_never_got_in_has_no_figures_but_its_end() {
    let engine = start(Limits { max_num_seqs: 1, ..limits() });
    engine.pause(true);
    let _first = engine.submit(UserId(1), vec![5; 3], greedy(40)).1;
    let (id, waiting) = engine.submit(UserId(2), vec![5; 3], greedy(40));
    engine.step(2);
    engine.cancel(id);
    let finished = end(waiting);
    assert_eq!((finished.reason, finished.generated_tokens), (FinishReason::Cancelled, 0));
    assert_eq!((finished.queued, finished.ttft, finished.tpot), (None, None, None));
}

#[test]
fn ttft_is_predicted_once_there_is_something_to_go_by() {
    let engine = start(limits());
    let first = end(engine.submit(UserId(1), vec![5; 40], greedy(10)).1);
    assert_eq!(first.predicted_ttft, None, "nothing has been measured");
    for user in 2..6 {
        // Prompts that share nothing.
        let finished = end(engine.submit(UserId(user), vec![user; 40], greedy(10)).1);
        assert!(finished.predicted_ttft.is_some(), "{finished:?}");
    }
    let snapshot = until(&engine, "rest", |snapshot| snapshot.totals.finished == 5);
    let prediction = snapshot.prediction.expect("four were predicted");
    assert_eq!(prediction.requests, 4);
    assert!(prediction.error_median.is_finite() && prediction.ratio_median > 0.0, "{prediction:?}");
}
