//! A long stay: the simulator drives the scheduler through loads of every kind, and every invariant is checked at every
//! step.

use batchroom::model::shapes::Shape;
use batchroom::random::SplitMix64;
use batchroom::scheduler::{Limits, Mode, Policy};
use batchroom::simulate::{CostModel, Figures, Hardware, KvFormat, Load, ModelCost, Setup, Simulation, Workload, nanoseconds};

use crate::checked::Checked;

const STEPS: u64 = 200_000;

/// Loads of every kind on a small machine that is short of something: seats, budget, blocks or room in the queue.
fn setup(seed: u64) -> Setup {
    let mut random = SplitMix64(seed);
    let mut range = |low: u64, high: u64| random.range(low, high) as usize;
    let max_num_seqs = range(1, 16);
    let limits = Limits {
        max_num_seqs,
        max_num_batched_tokens: max_num_seqs + range(0, 64),
        prefill_chunk: range(1, 64),
        max_model_len: range(50, 400),
        max_waiting: range(1, 40),
        watermark: range(0, 4),
        policy: [Policy::Fcfs, Policy::Fair, Policy::Priority][range(0, 2)],
        mode: [Mode::Continuous, Mode::Static][usize::from(range(0, 4) == 0)],
        prefix_cache: range(0, 1) == 1,
    };
    let (num_blocks, rate) = (range(8, 120), range(1, 40));
    let law = match range(0, 4) {
        0 => "at-once".into(),
        1 => format!("poisson:{rate}"),
        2 => format!("bursts:{rate}@{}", range(1, 5)),
        3 => format!("day:{rate}"),
        _ => format!("closed:{rate},think={}", range(0, 3)),
    };
    let length = |low: usize, high: usize| format!("{low}..{high}").parse().unwrap();
    let prompt = if range(0, 3) == 0 { "lognormal:60,1".parse().unwrap() } else { length(1, range(2, 200)) };
    let model = ModelCost::new(Shape::by_name("smollm2-135m").unwrap(), "q4_0", KvFormat::F16).unwrap();
    let hardware = Hardware { bandwidth: 1e9, ..Hardware::by_name("l4").unwrap() };
    let workload = Workload {
        load: Load::Drawn(law.parse().unwrap()),
        prompt,
        answer: length(1, range(2, 120)),
        shared_prefix: range(0, 1) * 20,
        users: range(1, 9) as u32,
        requests: range(100, 400) as u64,
        duration: None,
        patience: (range(0, 1) == 1).then(|| nanoseconds(range(1, 20) as f64)),
        seed,
    };
    Setup { limits, num_blocks, block_size: [1, 4, 16][range(0, 2)], cost: CostModel::new(model, &hardware), workload }
}

/// Plays a whole workload, every invariant checked before and after each commit.
fn play(seed: u64) -> Figures {
    let mut simulation = Simulation::new(setup(seed)).expect("valid limits");
    while simulation.turn(|scheduler, batch| {
        let checked = Checked { scheduler };
        checked.check_batch(batch);
        checked.check();
    }) == Ok(true)
    {
        Checked { scheduler: simulation.scheduler() }.check();
    }
    let figures = simulation.figures();
    assert!(!simulation.scheduler().has_work() && figures.unfinished == 0, "it ends: {figures:?}");
    assert_eq!(simulation.scheduler().blocks().counts().used, 0, "all blocks came back");
    assert_eq!(figures.requests, figures.completed + figures.refused + figures.cancelled);
    figures
}

#[test]
fn two_hundred_thousand_steps_of_any_load_keep_every_invariant() {
    let first = match std::env::var("BATCHROOM_SEED") {
        Ok(seed) => seed.parse().expect("BATCHROOM_SEED is a number"),
        Err(_) => 1,
    };
    let (mut steps, mut seed) = (0, first);
    let (mut preemptions, mut refused, mut cancelled, mut completed) = (0, 0, 0, 0);
    while steps < STEPS {
        let outcome = std::panic::catch_unwind(|| play(seed));
        let Ok(figures) = outcome else { panic!("seed {seed} failed: run it first with BATCHROOM_SEED={seed}") };
        steps += figures.steps;
        preemptions += figures.preemptions;
        refused += figures.refused;
        cancelled += figures.cancelled;
        completed += figures.completed;
        seed += 1;
    }
    println!(
        "seeds {first}..{seed}: {steps} steps, {completed} completed, {refused} refused, {cancelled} given up, {preemptions} preemptions"
    );
    assert!(preemptions > 1000 && refused > 1000 && cancelled > 100 && completed > 1000, "the loads reach the hard cases");
}
