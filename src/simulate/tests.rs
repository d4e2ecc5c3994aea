//! The whole loop on small loads whose course is known.

use super::*;
use crate::model::shapes::Shape;
use crate::scheduler::Limits;

fn limits() -> Limits {
    Limits {
        max_num_seqs: 4,
        max_num_batched_tokens: 64,
        prefill_chunk: 32,
        max_model_len: 256,
        max_waiting: 100,
        ..Limits::default()
    }
}

/// Steps take one second each, whatever they compute.
fn one_second_steps() -> CostModel {
    let model = ModelCost::new(Shape::by_name("smollm2-135m").unwrap(), "q4_0", KvFormat::F16).unwrap();
    let fast =
        Hardware { bandwidth: 1e30, flops: 1e30, step_overhead: 1.0, token_overhead: 0.0, ..Hardware::by_name("h100").unwrap() };
    CostModel::new(model, &fast)
}

fn workload(arrivals: &str, prompt: &str, answer: &str, requests: u64) -> Workload {
    Workload {
        load: Load::Drawn(arrivals.parse().unwrap()),
        prompt: prompt.parse().unwrap(),
        answer: answer.parse().unwrap(),
        shared_prefix: 0,
        users: 3,
        requests,
        duration: None,
        patience: None,
        seed: 1,
    }
}

fn setup(workload: Workload) -> Setup {
    Setup { limits: limits(), num_blocks: 64, block_size: 16, cost: one_second_steps(), workload }
}

fn run(setup: Setup) -> Figures {
    let mut simulation = Simulation::new(setup).unwrap();
    assert_eq!(simulation.run(|_| false), Ok(true));
    simulation.figures()
}

/// Within the error of the percentiles.
fn near(found: Option<f64>, expected: f64) -> bool {
    found.is_some_and(|found| (found - expected).abs() <= expected / 256.0)
}

#[test]
fn one_request_takes_the_steps_that_it_takes() {
    // 40 tokens of prompt in chunks of 32: two steps to the first token, then one for each of the other four.
    let figures = run(setup(workload("at-once", "40", "5", 1)));
    assert_eq!((figures.requests, figures.completed, figures.steps), (1, 1, 6));
    assert_eq!((figures.generated_tokens, figures.prefill_tokens), (5, 40));
    assert_eq!(figures.virtual_s, 6.0);
    assert!(near(figures.ttft_s.p50, 2.0) && near(figures.itl_s.p99, 1.0) && near(figures.e2e_s.p50, 6.0), "{figures:?}");
    assert_eq!((figures.queue_s.max, figures.ttft_s.max), (Some(0.0), Some(2.0)));
    assert_eq!((figures.tokens_per_s, figures.busy_share, figures.overhead_share), (5.0 / 6.0, 1.0, 1.0));
    // Three blocks of 64 in every step.
    assert_eq!((figures.kv_use_mean, figures.kv_use_peak), (3.0 / 64.0, 3.0 / 64.0));
}

#[test]
fn those_who_come_during_a_step_wait_for_its_end() {
    // Two every 2.5 seconds: at 0 and 2.5.
    let figures = run(setup(workload("bursts:2@2.5", "10", "3", 4)));
    assert_eq!((figures.completed, figures.steps, figures.virtual_s), (4, 6, 6.0));
    assert_eq!(figures.queue_s.max, Some(0.5));
    assert_eq!(figures.ttft_s.max, Some(1.5));
    // A pause that nobody fills is in the virtual time and in no step.
    let figures = run(setup(workload("bursts:1@10", "10", "3", 2)));
    assert_eq!((figures.steps, figures.virtual_s, figures.busy_share), (6, 13.0, 6.0 / 13.0));
}

#[test]
fn closed_loads_ask_again_when_they_have_read() {
    // Three people, no pause: all of them are in every step, and each request takes three.
    let figures = run(setup(workload("closed:3", "10", "3", 30)));
    assert_eq!((figures.completed, figures.steps, figures.peak_running), (30, 30, 3));
    // One person who reads for a minute on average, from before the first request.
    let figures = run(setup(workload("closed:1,think=60", "10", "3", 2000)));
    let cycle = figures.virtual_s / 2000.0;
    assert!((cycle / 63.0 - 1.0).abs() < 0.1, "{cycle} s from one question to the next");
}

#[test]
fn refusals_and_impatience_are_counted() {
    let mut crowd = setup(workload("at-once", "10", "5", 200));
    crowd.limits.max_waiting = 20;
    let figures = run(crowd.clone());
    assert_eq!((figures.requests, figures.refused, figures.completed), (200, 180, 20));
    // Four at a time, five seconds each: whoever is not in by the tenth second has no token by the tenth.
    crowd.workload.patience = Some(nanoseconds(9.5));
    let figures = run(crowd.clone());
    assert_eq!((figures.completed, figures.cancelled, figures.unfinished), (8, 12, 0));
    // A prompt that can never run.
    let figures = run(setup(workload("at-once", "300", "5", 3)));
    assert_eq!((figures.refused, figures.steps, figures.ttft_s.p50), (3, 0, None));
    // Refused people of a closed load come back, and time goes on.
    crowd.workload = workload("closed:30", "10", "5", 3000);
    crowd.limits.max_waiting = 1;
    let figures = run(crowd);
    assert!(figures.refused > 0 && figures.completed > 20 && figures.requests == 3000, "{figures:?}");
}

#[test]
fn a_full_kv_memory_preempts_and_a_full_context_cuts() {
    let mut small = setup(workload("at-once", "30", "60", 4));
    small.num_blocks = 12;
    let figures = run(small);
    assert!(figures.preemptions > 0 && figures.recomputed_tokens > 0 && figures.kv_use_peak == 1.0, "{figures:?}");
    assert_eq!((figures.completed, figures.generated_tokens, figures.cut), (4, 240, 0));
    let figures = run(setup(workload("at-once", "200", "100", 2)));
    assert_eq!((figures.completed, figures.cut, figures.generated_tokens), (2, 2, 112));
}

#[test]
fn a_trace_is_played_as_recorded() {
    let mut reader = TraceReader::new(TraceFormat::Csv);
    ["0,10,3", "100.5,40,2", "100.5,10,2"].iter().for_each(|line| reader.line(line).unwrap());
    let rows: std::sync::Arc<[TraceRow]> = reader.end().unwrap().into();
    let recorded = Workload { load: Load::Trace(rows), ..workload("at-once", "1", "1", 3) };
    let figures = run(setup(recorded.clone()));
    assert_eq!((figures.completed, figures.prefill_tokens, figures.generated_tokens), (3, 60, 7));
    assert_eq!(figures.virtual_s, 103.5);
    let figures = run(setup(Workload { duration: Some(nanoseconds(50.0)), ..recorded }));
    assert_eq!(figures.requests, 1);
}

#[test]
fn the_same_seed_gives_the_same_figures_and_another_one_others() {
    let seeded = |seed| run(setup(Workload { seed, ..workload("poisson:0.5", "1..60", "lognormal:10,1", 500) }));
    assert_eq!(seeded(7), seeded(7));
    assert_ne!(seeded(7), seeded(8));
}

#[test]
fn stopped_it_gives_what_there_is_and_can_go_on() {
    let whole = run(setup(workload("poisson:0.5", "1..60", "1..20", 500)));
    let mut simulation = Simulation::new(setup(workload("poisson:0.5", "1..60", "1..20", 500))).unwrap();
    assert_eq!(simulation.run(|simulation| simulation.requests() > 100), Ok(false));
    let part = simulation.figures();
    assert!((100..200).contains(&part.requests) && part.completed + part.unfinished == part.requests, "{part:?}");
    assert_eq!(simulation.run(|_| false), Ok(true));
    assert_eq!(simulation.figures(), whole);
}

#[test]
fn more_than_can_be_held_is_an_error_with_numbers() {
    let mut crowd = setup(workload("at-once", "1000000", "5", 1000));
    crowd.limits.max_model_len = usize::MAX;
    crowd.limits.max_waiting = 1000;
    crowd.num_blocks = 1 << 17;
    let message = Simulation::new(crowd).unwrap().run(|_| false).unwrap_err().to_string();
    assert!(message.contains("269 requests with 269000000 tokens") && message.contains("--max-waiting"), "{message}");
}

#[test]
fn documents_count_37_chats_with_16_bits_and_83_with_4() {
    // 24 GB; 15.2 GB of 16-bit weights, 4.3 GB at 4 bits; 4096-token chats of 56 KiB a token.
    for (weights, chats) in [("bf16", 37..=37), ("q4_0", 83..=84)] {
        let card = Hardware::by_name("rtx-4090").unwrap();
        let model = ModelCost::new(Shape::by_name("qwen2.5-7b").unwrap(), weights, KvFormat::F16).unwrap();
        let num_blocks = ((card.memory - model.memory_bytes) / model.kv_block_bytes(16)) as usize;
        let limits = Limits {
            max_num_seqs: 256,
            max_num_batched_tokens: 4096,
            prefill_chunk: 64,
            max_model_len: model.context,
            max_waiting: 200,
            ..Limits::default()
        };
        let cost = CostModel::new(model, &card);
        let workload = workload("at-once", "4080", "16", 200);
        let figures = run(Setup { limits, num_blocks, block_size: 16, cost, workload });
        assert!(chats.contains(&figures.peak_running), "{weights}: {}", figures.peak_running);
        assert_eq!((figures.completed, figures.generated_tokens), (200, 3200));
    }
}

#[test]
fn a_shared_prefix_is_computed_once_where_it_is_cached() {
    let mut agents = setup(Workload { shared_prefix: 64, ..workload("bursts:1@20", "80", "3", 10) });
    agents.limits.prefix_cache = true;
    let figures = run(agents.clone());
    // Nine find the prefix's four blocks; the rest of each prompt is its own.
    assert_eq!((figures.cached_tokens, figures.prefill_tokens), (9 * 64, 800 - 9 * 64));
    agents.workload.shared_prefix = 0;
    assert_eq!(run(agents.clone()).cached_tokens, 0, "prompts have nothing in common by chance");
    agents.workload.shared_prefix = 64;
    agents.limits.prefix_cache = false;
    assert_eq!(run(agents).cached_tokens, 0);
}
