//! Table-driven scenarios: lessons from the trackers of other engines, and promises of this one (`scenarios.toml`).

use std::collections::BTreeMap;

use batchroom::batch::{RequestId, UserId};
use batchroom::scheduler::{Limits, Mode, Policy, Refused, Request, TakenBy, Waiting};
use serde::Deserialize;

use crate::harness::Room;
use crate::shrink::failure;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scenario: Vec<Scenario>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    name: String,
    /// What went wrong elsewhere, or what is promised here.
    lesson: String,
    #[serde(default = "many")]
    max_num_seqs: usize,
    #[serde(default = "budget")]
    max_num_batched_tokens: usize,
    #[serde(default = "budget")]
    prefill_chunk: usize,
    #[serde(default = "context")]
    max_model_len: usize,
    #[serde(default = "many")]
    max_waiting: usize,
    #[serde(default)]
    watermark: usize,
    /// `fcfs`, `fair` or `priority`.
    #[serde(default)]
    policy: String,
    #[serde(default, rename = "static")]
    is_static: bool,
    #[serde(default = "yes")]
    prefix_cache: bool,
    /// What prompts may have of a step while somebody decodes.
    prefill_budget: Option<usize>,
    blocks: usize,
    #[serde(default = "block_size")]
    block_size: usize,
    act: Vec<Act>,
    expect: Expect,
}

fn many() -> usize {
    16
}
fn budget() -> usize {
    256
}
fn context() -> usize {
    4096
}
fn block_size() -> usize {
    16
}
fn yes() -> bool {
    true
}
fn one() -> u64 {
    1
}

/// What happens before step `at` (the first step is 1).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Act {
    at: u64,
    submit: Option<u64>,
    /// So many requests, with ids from `submit` on.
    #[serde(default = "one")]
    count: u64,
    /// The request's id, if not given.
    user: Option<u32>,
    /// Tokens of the prompt that everybody has who has some.
    #[serde(default)]
    shared: usize,
    /// Begins with all that this request has said and heard until now.
    after: Option<u64>,
    /// Has the tokens of this request's prompt, all but the first.
    tail_of: Option<u64>,
    /// Tokens of its own, behind those.
    #[serde(default)]
    prompt: usize,
    #[serde(default)]
    max_tokens: usize,
    #[serde(default)]
    priority: i32,
    fork_of: Option<u64>,
    cancel: Option<u64>,
    fail: Option<u64>,
    /// The next step cannot be computed.
    #[serde(default)]
    fail_step: bool,
    /// All that is remembered is forgotten.
    #[serde(default)]
    forget: bool,
    kv_blocks: Option<usize>,
    seats: Option<usize>,
    context: Option<usize>,
    policy: Option<String>,
    /// The change is refused.
    #[serde(default)]
    refused: bool,
}

/// Why somebody got nothing in a step.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Why {
    step: u64,
    request: u64,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    /// Request and how it ends: `length`, `stop`, `context`, `cancelled`, `failed`, or a refusal.
    #[serde(default)]
    ends: BTreeMap<String, String>,
    /// How all end that are not in `ends`.
    others: Option<String>,
    max_steps: Option<u64>,
    /// Exactly so many.
    steps: Option<u64>,
    /// Request and the most steps between two of its tokens.
    #[serde(default)]
    max_gap: BTreeMap<String, u64>,
    /// Request and the most, and the fewest, steps from submit to its first token.
    #[serde(default)]
    max_wait: BTreeMap<String, u64>,
    #[serde(default)]
    min_wait: BTreeMap<String, u64>,
    /// Request and how often it is preempted.
    #[serde(default)]
    preemptions: BTreeMap<String, usize>,
    /// Request and what took its blocks, each time: `user 1`, `itself`, `seats`, `kv budget`.
    #[serde(default)]
    taken_by: BTreeMap<String, Vec<String>>,
    /// Request and the positions that were there when it was let in, and when it came back.
    #[serde(default)]
    cached: BTreeMap<String, usize>,
    #[serde(default)]
    cached_again: BTreeMap<String, Vec<usize>>,
    /// Request and positions computed a second time, at most.
    #[serde(default)]
    max_recomputed: BTreeMap<String, usize>,
    /// Request and tokens of its answer.
    #[serde(default)]
    answers: BTreeMap<String, usize>,
    /// Tokens of prompts that were computed, of all requests.
    prompts_computed: Option<usize>,
    /// Blocks copied.
    copies: Option<u64>,
    #[serde(default)]
    reasons: Vec<Why>,
    /// Requests in the order of their first tokens.
    #[serde(default)]
    first_tokens: Vec<u64>,
}

fn policy(name: &str) -> Policy {
    match name {
        "" | "fcfs" => Policy::Fcfs,
        "fair" => Policy::Fair,
        "priority" => Policy::Priority,
        other => panic!("no policy `{other}`"),
    }
}

/// A room after a scenario, and why who got nothing in each step.
struct Played {
    room: Room,
    reasons: BTreeMap<u64, Vec<(u64, String)>>,
}

fn play(scenario: &Scenario) -> Played {
    let limits = Limits {
        max_num_seqs: scenario.max_num_seqs,
        max_num_batched_tokens: scenario.max_num_batched_tokens,
        prefill_chunk: scenario.prefill_chunk,
        max_model_len: scenario.max_model_len,
        max_waiting: scenario.max_waiting,
        watermark: scenario.watermark,
        policy: policy(&scenario.policy),
        mode: if scenario.is_static { Mode::Static } else { Mode::Continuous },
        prefix_cache: scenario.prefix_cache,
    };
    let mut room = Room::new(limits, scenario.blocks, scenario.block_size, 0);
    if let Some(tokens) = scenario.prefill_budget {
        room.set_prefill_budget(tokens);
    }
    let mut played = Played { room, reasons: BTreeMap::new() };
    let last = scenario.act.iter().map(|act| act.at).max().unwrap_or(0);
    for step in 1.. {
        scenario.act.iter().filter(|act| act.at == step).for_each(|act| play_act(act, &mut played.room));
        let had_work = played.room.step();
        let reasons = played.room.reasons.iter().map(|(id, reason)| (*id, in_words(reason)));
        played.reasons.insert(step, reasons.collect());
        if step >= last && !had_work {
            break;
        }
        assert!(step < 10_000, "no end");
    }
    played.room.run();
    played
}

fn play_act(act: &Act, room: &mut Room) {
    for id in act.submit.into_iter().flat_map(|first| first..first + act.count) {
        let request = Request::new(RequestId(id), UserId(act.user.unwrap_or(id as u32)), prompt(act, id, room), act.max_tokens);
        room.submit(Request { priority: act.priority, fork_of: act.fork_of.map(RequestId), ..request });
    }
    if let Some(id) = act.fail {
        let now = room.stories[&id].answer.len();
        room.fails_at.insert(id, now);
    }
    if let Some(id) = act.cancel {
        room.cancel(id);
    }
    room.step_fails |= act.fail_step;
    if act.forget {
        room.forget_all();
    }
    let mut limits = *room.scheduler.limits();
    limits.max_num_seqs = act.seats.unwrap_or(limits.max_num_seqs);
    limits.max_model_len = act.context.unwrap_or(limits.max_model_len);
    limits.policy = act.policy.as_deref().map_or(limits.policy, policy);
    let result = match act.kv_blocks {
        Some(blocks) => room.set_kv_blocks(blocks),
        None if limits != *room.scheduler.limits() => room.set_limits(limits),
        None => return,
    };
    assert_eq!(result.is_err(), act.refused, "{result:?}");
}

fn prompt(act: &Act, id: u64, room: &Room) -> Vec<u32> {
    let mut prompt: Vec<u32> = match (act.after, act.tail_of) {
        (Some(of), _) => room.stories[&of].tokens().collect(),
        // Another first token.
        (None, Some(of)) => room.stories[&of].prompt.iter().enumerate().map(|(at, token)| token + u32::from(at == 0)).collect(),
        (None, None) => (0..act.shared as u32).map(|n| 20_000 + n).collect(),
    };
    prompt.extend((0..act.prompt as u32).map(|n| 1 + (n * 7 + id as u32 * 1000) % 30_000));
    prompt
}

fn in_words(reason: &Waiting) -> String {
    match reason {
        Waiting::Seats { .. } => "seats".into(),
        Waiting::Budget { .. } => "budget".into(),
        Waiting::PrefillBudget { .. } => "prefill budget".into(),
        Waiting::Blocks { .. } => "blocks".into(),
        Waiting::Behind { ahead } => format!("behind {ahead}"),
        Waiting::Preempted { by } => format!("preempted by {}", who(by)),
        Waiting::PreemptionStep => "preemption step".into(),
        Waiting::Group { .. } => "group".into(),
        Waiting::SharedPrefix { user, .. } => format!("shared with user {}", user.0),
        Waiting::NotYet => "not yet".into(),
    }
}

fn who(by: &TakenBy) -> String {
    match by {
        TakenBy::User(user) => format!("user {}", user.0),
        TakenBy::Itself => "itself".into(),
        TakenBy::Seats => "seats".into(),
        TakenBy::KvBudget => "kv budget".into(),
    }
}

fn ending(room: &Room, id: u64) -> &'static str {
    let story = &room.stories[&id];
    match (&story.refused, story.end) {
        (Some(Refused::EmptyPrompt), _) => "empty prompt",
        (Some(Refused::PromptTooLong { .. }), _) => "prompt too long",
        (Some(Refused::KvTooSmall { .. }), _) => "kv too small",
        (Some(Refused::QueueFull { .. }), _) => "queue full",
        (None, Some(reason)) => reason.as_str(),
        (None, None) => "still live",
    }
}

fn id(text: &str) -> u64 {
    text.parse().expect("request ids are numbers")
}

fn check(scenario: &Scenario, played: &Played) {
    let (expect, room) = (&scenario.expect, &played.room);
    for request in room.stories.keys() {
        let end = expect.ends.get(&request.to_string()).or(expect.others.as_ref());
        assert_eq!(Some(ending(room, *request)), end.map(String::as_str), "the end of request {request}");
    }
    assert!(expect.ends.keys().all(|request| room.stories.contains_key(&id(request))));
    if let Some(most) = expect.max_steps {
        assert!(room.steps <= most, "{} steps, expected at most {most}", room.steps);
    }
    if let Some(steps) = expect.steps {
        assert_eq!(room.steps, steps, "steps");
    }
    check_times(expect, room);
    check_memory(expect, room);
    for why in &expect.reasons {
        let reasons = played.reasons.get(&why.step).expect("a step that was made");
        let found = reasons.iter().find(|(id, _)| *id == why.request).map(|(_, reason)| reason.as_str());
        assert_eq!(found, Some(why.reason.as_str()), "request {} in step {}", why.request, why.step);
    }
    room.check_answers();
}

fn check_times(expect: &Expect, room: &Room) {
    for (request, most) in &expect.max_gap {
        let steps = &room.stories[&id(request)].token_steps;
        let gap = steps.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        assert!(gap <= *most, "request {request}: {gap} steps between two tokens, expected at most {most}");
    }
    let wait = |request: &str| {
        let story = &room.stories[&id(request)];
        story.token_steps.first().map(|first| first - story.submitted_step)
    };
    for (request, most) in &expect.max_wait {
        assert!(
            wait(request).is_some_and(|wait| wait <= *most),
            "request {request}: first token after {:?} steps",
            wait(request)
        );
    }
    for (request, least) in &expect.min_wait {
        assert!(
            wait(request).is_some_and(|wait| wait >= *least),
            "request {request}: first token after {:?} steps",
            wait(request)
        );
    }
    if !expect.first_tokens.is_empty() {
        let mut order = expect.first_tokens.clone();
        order.sort_by_key(|id| room.stories[id].token_steps.first().copied());
        assert_eq!(order, expect.first_tokens);
    }
}

fn check_memory(expect: &Expect, room: &Room) {
    for (request, times) in &expect.preemptions {
        assert_eq!(room.stories[&id(request)].preemptions(), *times, "preemptions of request {request}");
    }
    for (request, takers) in &expect.taken_by {
        let found: Vec<String> = room.stories[&id(request)].taken_by.iter().map(who).collect();
        assert_eq!(found, *takers, "what took the blocks of request {request}");
    }
    for (request, cached) in &expect.cached {
        assert_eq!(room.stories[&id(request)].cached, *cached, "positions that were there for request {request}");
    }
    for (request, cached) in &expect.cached_again {
        assert_eq!(room.stories[&id(request)].cached_again, *cached, "positions that request {request} came back to");
    }
    for (request, most) in &expect.max_recomputed {
        let recomputed = room.stories[&id(request)].recomputed;
        assert!(recomputed <= *most, "request {request}: {recomputed} positions computed again, expected at most {most}");
    }
    for (request, tokens) in &expect.answers {
        assert_eq!(room.stories[&id(request)].answer.len(), *tokens, "the answer of request {request}");
    }
    if let Some(tokens) = expect.prompts_computed {
        let computed = room.stories.values().filter(|story| story.admitted_step.is_some());
        assert_eq!(computed.map(|story| story.prompt.len() - story.cached).sum::<usize>(), tokens, "prompt tokens computed");
    }
    if let Some(copies) = expect.copies {
        assert_eq!(room.counted.copies, copies, "blocks copied");
    }
}

#[test]
fn scenarios() {
    let file: File = toml::from_str(include_str!("scenarios.toml")).expect("scenarios.toml");
    assert!(file.scenario.len() >= 50, "{} scenarios", file.scenario.len());
    let mut failures = Vec::new();
    for scenario in &file.scenario {
        println!("{}: {}", scenario.name, scenario.lesson);
        if let Some(why) = failure(|| check(scenario, &play(scenario))) {
            failures.push(format!("scenario `{}`: {}: {}", scenario.name, why.place, why.what));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
