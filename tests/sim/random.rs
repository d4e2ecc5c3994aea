//! Thousands of random workloads. A failure prints the seed and a small list of acts that fails as well;
//! `BATCHROOM_SEED=n` runs that one alone, `BATCHROOM_ACTS=file` plays a list.

use crate::acts::Workload;
use crate::harness::Room;
use crate::shrink::play_or_shrink;

/// What the workloads reached.
#[derive(Debug, Default)]
struct Reached {
    requests: usize,
    refused: usize,
    preemptions: usize,
    hits: u64,
    hits_on_return: u64,
    copies: u64,
    held: u64,
    steps: u64,
}

impl Reached {
    fn add(&mut self, room: &Room) {
        self.requests += room.stories.len();
        self.refused += room.stories.values().filter(|story| story.refused.is_some()).count();
        self.preemptions += room.stories.values().map(|story| story.preemptions()).sum::<usize>();
        self.hits += room.counted.hit;
        self.hits_on_return += room.counted.hit_on_return;
        self.copies += room.counted.copies;
        self.held += room.counted.held;
        self.steps += room.steps;
    }
}

#[test]
fn every_request_gets_the_answer_it_gets_alone() {
    if let Ok(path) = std::env::var("BATCHROOM_ACTS") {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let workload: Workload = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        workload.play(None);
        return;
    }
    let seeds = match std::env::var("BATCHROOM_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("BATCHROOM_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..SEEDS,
    };
    let mut reached = Reached::default();
    for seed in seeds.clone() {
        let workload = Workload::random(seed, true);
        match play_or_shrink(&format!("seed {seed}"), &workload) {
            Ok(room) => reached.add(&room),
            Err(why) => panic!("{why}\nrun it alone with BATCHROOM_SEED={seed}"),
        }
    }
    println!("seeds {seeds:?}: {reached:?}");
    if seeds.end - seeds.start > 1 {
        let enough =
            reached.preemptions > 1000 && reached.refused > 1000 && reached.hits > 10_000 && reached.hits_on_return > 1000;
        assert!(enough && reached.copies > 500 && reached.held > 500, "the workloads reach the hard cases: {reached:?}");
    }
}

/// Workloads in one run of the test: seconds, not minutes, in the test profile.
const SEEDS: u64 = 12_000;

#[test]
fn the_same_seed_gives_the_same_trace() {
    let trace = |seed| {
        let workload = Workload::random(seed, true);
        let mut room = workload.room();
        room.trace = Some(Vec::new());
        workload.acts.iter().for_each(|act| act.play(&mut room));
        room.run();
        room.trace
    };
    for seed in 0..50 {
        assert_eq!(trace(seed), trace(seed), "seed {seed}");
    }
}
