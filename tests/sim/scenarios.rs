//! Table-driven scenarios: each a lesson from the trackers of other engines (`scenarios.toml`).

use std::collections::BTreeMap;

use batchroom::scheduler::{Limits, Refused};
use serde::Deserialize;

use crate::harness::Room;
use crate::model::alone;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scenario: Vec<Scenario>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    name: String,
    /// What went wrong elsewhere.
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

/// What happens before step `at` (the first step is 1).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Act {
    at: u64,
    submit: Option<u64>,
    #[serde(default)]
    prompt: usize,
    #[serde(default)]
    max_tokens: usize,
    cancel: Option<u64>,
    fail: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    /// Request and how it ends: `length`, `stop`, `context`, `cancelled`, `failed`, or a refusal.
    ends: BTreeMap<String, String>,
    max_steps: Option<u64>,
    /// Request and the most steps between two of its tokens.
    #[serde(default)]
    max_gap: BTreeMap<String, u64>,
    /// Request and the most steps from submit to its first token.
    #[serde(default)]
    max_wait: BTreeMap<String, u64>,
    /// Request and how often it is preempted.
    #[serde(default)]
    preemptions: BTreeMap<String, u32>,
    /// Requests in the order of their first tokens.
    #[serde(default)]
    first_tokens: Vec<u64>,
}

fn play(scenario: &Scenario) -> Room {
    let limits = Limits {
        max_num_seqs: scenario.max_num_seqs,
        max_num_batched_tokens: scenario.max_num_batched_tokens,
        prefill_chunk: scenario.prefill_chunk,
        max_model_len: scenario.max_model_len,
        max_waiting: scenario.max_waiting,
        watermark: scenario.watermark,
        ..Limits::default()
    };
    let mut room = Room::new(limits, scenario.blocks, scenario.block_size, 0);
    let mut step = 1;
    let last = scenario.act.iter().map(|act| act.at).max().unwrap_or(0);
    while step <= last {
        for act in scenario.act.iter().filter(|act| act.at == step) {
            if let Some(id) = act.submit {
                let prompt = (0..act.prompt as u32).map(|n| 1 + (n * 7 + id as u32 * 1000) % 30_000).collect();
                room.submit(id, id as u32, prompt, act.max_tokens);
            }
            if let Some(id) = act.fail {
                let now = room.stories[&id].answer.len();
                room.fails_at.insert(id, now);
            }
            if let Some(id) = act.cancel {
                room.cancel(id);
            }
        }
        room.step();
        step += 1;
    }
    room.run();
    room
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

fn check(scenario: &Scenario, room: &Room) {
    let id = |text: &String| text.parse::<u64>().expect("request ids are numbers");
    let expect = &scenario.expect;
    assert_eq!(expect.ends.len(), room.stories.len(), "every request's end is named");
    for (request, end) in &expect.ends {
        assert_eq!(ending(room, id(request)), end, "request {request}");
    }
    if let Some(most) = expect.max_steps {
        assert!(room.steps <= most, "{} steps, expected at most {most}", room.steps);
    }
    for (request, most) in &expect.max_gap {
        let steps = &room.stories[&id(request)].token_steps;
        let gap = steps.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        assert!(gap <= *most, "request {request}: {gap} steps between two tokens, expected at most {most}");
    }
    for (request, most) in &expect.max_wait {
        let story = &room.stories[&id(request)];
        let wait = story.token_steps.first().map(|first| first - story.submitted_step);
        assert!(wait.is_some_and(|wait| wait <= *most), "request {request}: first token after {wait:?} steps");
    }
    for (request, times) in &expect.preemptions {
        assert_eq!(room.stories[&id(request)].preemptions() as u32, *times, "preemptions of request {request}");
    }
    if !expect.first_tokens.is_empty() {
        let mut order = expect.first_tokens.clone();
        order.sort_by_key(|id| room.stories[id].token_steps.first().copied());
        assert_eq!(order, expect.first_tokens);
    }
    let max_len = room.scheduler.max_sequence_len();
    for (id, story) in room.stories.iter().filter(|(_, story)| story.refused.is_none()) {
        let (expected, _) = alone(&story.prompt, story.max_tokens, max_len, 0);
        assert!(expected.starts_with(&story.answer), "request {id} has the tokens it has alone");
    }
}

#[test]
fn lessons_from_other_engines() {
    let file: File = toml::from_str(include_str!("scenarios.toml")).expect("scenarios.toml");
    assert!(file.scenario.len() >= 12);
    for scenario in &file.scenario {
        println!("{}: {}", scenario.name, scenario.lesson);
        let outcome = std::panic::catch_unwind(|| check(scenario, &play(scenario)));
        assert!(outcome.is_ok(), "scenario `{}` failed", scenario.name);
    }
}
