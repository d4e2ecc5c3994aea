//! What is found in the cache, shared by a fork, or computed again after a preemption gives the same tokens and the same
//! logits, bit for bit, as each request has alone with nothing to find: the scheduler with the built-in model.

#[path = "../support/mod.rs"]
mod support;

use std::collections::{BTreeMap, HashMap};

use batchroom::batch::{RequestId, UserId};
use batchroom::model::{KvType, Llama, ModelOptions};
use batchroom::scheduler::{BlockManager, FinishReason, Limits, Policy, Request, RowResult, Scheduler};
use support::argmax;
use support::random::Random;
use support::sequences::{Manner, generate};

const BLOCK_SIZE: usize = 16;
const CAPACITY: usize = 64;
/// Tokens of each answer.
const ANSWER: usize = 10;

/// A prompt, and the tokens of its answer with the bits of the logits that each was chosen by.
#[derive(Default)]
struct Chat {
    prompt: Vec<u32>,
    answer: Vec<u32>,
    logits: Vec<Vec<u32>>,
}

impl Chat {
    fn tokens(&self) -> Vec<u32> {
        [&self.prompt[..], &self.answer].concat()
    }
}

/// Scheduler and model, without an engine between them.
struct Room<'a> {
    scheduler: Scheduler,
    model: &'a mut Llama,
    chats: BTreeMap<u64, Chat>,
    preemptions: usize,
    copies: usize,
    cached: BTreeMap<u64, usize>,
}

impl Room<'_> {
    fn submit(&mut self, id: u64, prompt: Vec<u32>, fork_of: Option<u64>) {
        let request = Request::new(RequestId(id), UserId(id as u32), prompt.clone(), ANSWER);
        self.scheduler.submit(Request { fork_of: fork_of.map(RequestId), ..request }).unwrap();
        self.chats.insert(id, Chat { prompt, ..Chat::default() });
    }

    fn step(&mut self) {
        let batch = self.scheduler.schedule();
        let decisions = self.scheduler.decisions();
        self.preemptions += decisions.preempted.len();
        self.copies += batch.copies.len();
        for admission in decisions.admitted.iter().filter(|admission| !admission.again) {
            self.cached.insert(admission.id.0, admission.cached);
        }
        let vocab = self.model.vocab();
        let logits = self.model.forward(&batch).unwrap();
        let sampled = batch.rows.iter().filter(|row| row.samples);
        let mut results = Vec::new();
        for (row, logits) in sampled.zip(logits.chunks_exact(vocab)) {
            let chat = self.chats.get_mut(&row.id.0).unwrap();
            let token = argmax(logits);
            chat.answer.push(token);
            chat.logits.push(logits.iter().map(|logit| logit.to_bits()).collect());
            results.push(RowResult::Token { token, ends: false });
        }
        for outcome in self.scheduler.commit(batch, &results) {
            assert!(matches!(outcome.finish, None | Some(FinishReason::Length)), "{outcome:?}");
        }
    }

    fn run(&mut self) {
        for _ in 0..2000 {
            if !self.scheduler.has_work() {
                return;
            }
            self.step();
        }
        panic!("no end");
    }
}

/// How a day in the room goes.
#[derive(Clone, Copy, Debug)]
struct Day {
    blocks: usize,
    chunk: usize,
    prefix_cache: bool,
    policy: Policy,
}

/// Four come at once with one system prompt; two fork one of them while it answers; then all have a second turn.
fn play<'a>(model: &'a mut Llama, day: Day) -> Room<'a> {
    let mut blocks = BlockManager::new(CAPACITY, BLOCK_SIZE);
    blocks.set_total(day.blocks);
    let limits = Limits {
        prefill_chunk: day.chunk,
        max_num_batched_tokens: 96,
        policy: day.policy,
        prefix_cache: day.prefix_cache,
        ..Limits::default()
    };
    let scheduler = Scheduler::new(limits, blocks).unwrap();
    let mut random = Random(11);
    let vocab = model.vocab();
    let mut draw = |count: usize| (0..count).map(|_| random.below(vocab) as u32).collect::<Vec<u32>>();
    let mut room = Room { scheduler, model, chats: BTreeMap::new(), preemptions: 0, copies: 0, cached: BTreeMap::new() };
    let system = draw(40);
    for id in 1..=4 {
        let own = draw(3 + 4 * id as usize);
        room.submit(id, [&system[..], &own].concat(), None);
    }
    // Until the third has said something.
    while room.chats[&3].answer.len() < 3 {
        room.step();
    }
    let branch = [room.chats[&3].tokens(), draw(5)].concat();
    room.submit(5, branch, Some(3));
    room.submit(6, room.chats[&3].prompt.clone(), Some(3));
    room.run();
    for id in 1..=6 {
        let more = draw(6);
        let prompt = [room.chats[&id].tokens(), more].concat();
        room.submit(id + 10, prompt, None);
    }
    room.run();
    room
}

/// What each prompt gives alone, in a model that finds nothing: the bits of the logits of each token.
type Alone = HashMap<Vec<u32>, Vec<Vec<u32>>>;

fn check(what: &str, chats: &BTreeMap<u64, Chat>, model: &mut Llama, alone: &mut Alone) {
    for (id, chat) in chats {
        // The same prompt comes on every day.
        let compute = || generate(model, std::slice::from_ref(&chat.prompt), ANSWER, &Manner::default()).remove(0);
        let alone = alone.entry(chat.prompt.clone()).or_insert_with(compute);
        assert!(chat.logits == *alone, "{what}: the logits of {id}");
        let logits = |bits: &Vec<u32>| bits.iter().map(|bits| f32::from_bits(*bits)).collect::<Vec<f32>>();
        let tokens: Vec<u32> = alone.iter().map(|bits| argmax(&logits(bits))).collect();
        assert_eq!(chat.answer, tokens, "{what}: the answer of {id}");
    }
}

#[test]
fn what_is_reused_is_what_would_be_computed() {
    let whole = Day { blocks: CAPACITY, chunk: 64, prefix_cache: true, policy: Policy::Fcfs };
    let days = [
        whole,
        Day { chunk: 7, ..whole },
        Day { blocks: 9, ..whole },
        Day { blocks: 9, chunk: 7, policy: Policy::Fair, ..whole },
        Day { prefix_cache: false, ..whole },
        Day { blocks: 9, prefix_cache: false, ..whole },
    ];
    for kv_type in KvType::ALL {
        let options = ModelOptions { threads: 1, kernels: None, block_size: BLOCK_SIZE, num_blocks: CAPACITY, kv_type };
        let mut model = Llama::load(&support::nano(), options).unwrap();
        let mut alone = Alone::new();
        for day in days {
            let what = format!("{kv_type}, {day:?}");
            let room = play(&mut model, day);
            println!("{what}: {} preemptions, {} copies, cached {:?}", room.preemptions, room.copies, room.cached);
            assert_eq!(room.preemptions > 0, day.blocks < CAPACITY, "{what}: preempted when there is little memory");
            if day.blocks == CAPACITY {
                assert!(
                    room.copies == 2 && !room.cached[&5].is_multiple_of(BLOCK_SIZE),
                    "{what}: forks in the middle of a block"
                );
                assert_eq!(room.cached[&6], room.chats[&6].prompt.len() - 1, "{what}: a fork of a whole prompt");
            }
            let found: usize = room.cached.range(11..).map(|(_, cached)| cached).sum();
            assert_eq!(found > 0, day.prefix_cache, "{what}: second turns find their first");
            let chats = room.chats;
            check(&what, &chats, &mut model, &mut alone);
        }
    }
}
