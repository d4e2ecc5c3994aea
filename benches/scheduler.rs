//! The scheduler's own work in one step, all seats taken: everybody decodes, now and then one ends and the next comes.

use batchroom::batch::{RequestId, UserId};
use batchroom::scheduler::{BlockManager, Limits, Request, RowResult, Scheduler};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

const PROMPT: usize = 64;
/// Tokens of the shortest answer; the longest has twice as many.
const ANSWER: u64 = 256;

struct Flow {
    scheduler: Scheduler,
    results: Vec<RowResult>,
    next: u64,
}

impl Flow {
    fn new(seats: usize) -> Flow {
        let limits = Limits {
            max_num_seqs: seats,
            max_num_batched_tokens: seats + 256,
            prefill_chunk: 64,
            max_model_len: 1024,
            max_waiting: seats,
            watermark: 0,
            ..Limits::default()
        };
        let scheduler = Scheduler::new(limits, BlockManager::new(seats * 64, 16)).expect("valid limits");
        let mut flow = Flow { scheduler, results: Vec::new(), next: 0 };
        (0..seats).for_each(|_| flow.submit());
        // Until those who began together have drifted apart.
        (0..2 * ANSWER).for_each(|_| flow.step());
        assert!(flow.scheduler.running().len() > seats * 9 / 10, "seats are taken");
        flow
    }

    fn submit(&mut self) {
        let id = self.next;
        self.next += 1;
        let max_tokens = (ANSWER + id * 61 % ANSWER) as usize;
        let prompt = (0..PROMPT as u32).map(|at| at * 31 + id as u32).collect();
        let request = Request::new(RequestId(id), UserId(id as u32), prompt, max_tokens);
        self.scheduler.submit(request).expect("room in the queue");
    }

    fn step(&mut self) {
        let batch = self.scheduler.schedule();
        self.results.clear();
        self.results.resize(batch.num_sampled(), RowResult::Token { token: 7, ends: false });
        let outcomes = self.scheduler.commit(batch, &self.results);
        let ended = outcomes.iter().filter(|outcome| outcome.finish.is_some()).count();
        (0..ended).for_each(|_| self.submit());
    }
}

fn steps(c: &mut Criterion) {
    let mut group = c.benchmark_group("scheduler/step");
    for seats in [64, 512] {
        let mut flow = Flow::new(seats);
        group.bench_function(BenchmarkId::from_parameter(seats), |b| b.iter(|| flow.step()));
    }
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
