//! Workloads as lists of acts: made from a seed first and played then, so that a list that fails can be cut down.

use batchroom::batch::{RequestId, UserId};
use batchroom::scheduler::{InvalidLimits, Limits, Mode, Policy, Request};
use serde::{Deserialize, Serialize};

use crate::harness::{Plant, Room};
use crate::model::{END, Random};

/// Where a prompt comes from. A request that is named and not there counts as one without text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Prompt {
    /// The first `shared` tokens of a text that many begin with, then `own` ones.
    Family { family: u32, shared: usize, own: usize },
    /// Prompt and answer of an earlier request as far as it is, then `own` tokens more.
    FollowUp { of: u64, own: usize },
    /// The first `keep` percent of that, then `own` tokens more.
    Branch { of: u64, keep: usize, own: usize },
}

/// One thing that somebody does. Numbers that contradict each other are refused by the scheduler, and checked to change
/// nothing; so every list can be played.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Act {
    Submit {
        id: u64,
        user: u32,
        prompt: Prompt,
        max_tokens: usize,
        priority: i32,
        fork_of: Option<u64>,
        fails_at: Option<usize>,
    },
    Cancel(u64),
    Steps(usize),
    /// A step that cannot be computed.
    FailedStep,
    Seats(usize),
    Budget(usize),
    Chunk(usize),
    Context(usize),
    Queue(usize),
    Watermark(usize),
    Policy(usize),
    Static(bool),
    PrefixCache(bool),
    KvBlocks(usize),
    PrefillBudget(usize),
    ForgetAll,
    Borrow(usize),
    Return,
}

/// A room and what happens in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    pub blocks: usize,
    pub capacity: usize,
    pub block_size: usize,
    /// One in so many tokens ends an answer; 0: none.
    pub ends_every: u64,
    /// The limits of the beginning are the first acts, before anybody comes.
    pub acts: Vec<Act>,
}

fn policy(number: usize) -> Policy {
    [Policy::Fcfs, Policy::Fair, Policy::Priority][number % 3]
}

/// A token of a text that many begin with.
fn family_token(family: u32, position: usize) -> u32 {
    1 + (Random(u64::from(family) << 32 | position as u64).next() % 4) as u32
}

impl Prompt {
    fn tokens(&self, id: u64, room: &Room) -> Vec<u32> {
        let earlier = |of: &u64| match room.stories.get(of) {
            Some(story) => story.tokens().filter(|token| *token != END).collect(),
            None => Vec::new(),
        };
        let (mut tokens, own): (Vec<u32>, usize) = match self {
            Prompt::Family { family, shared, own } => ((0..*shared).map(|at| family_token(*family, at)).collect(), *own),
            Prompt::FollowUp { of, own } => (earlier(of), *own),
            Prompt::Branch { of, keep, own } => {
                let mut tokens = earlier(of);
                tokens.truncate(tokens.len() * keep / 100);
                (tokens, *own)
            }
        };
        tokens.extend((0..own).map(|at| 1 + (Random(id << 32 | at as u64).next() % 30_000) as u32));
        tokens
    }
}

impl Workload {
    /// Arrivals, turns, forks, cancels, failures and changes, all from one number.
    pub fn random(seed: u64, changes: bool) -> Workload {
        let mut random = Random(seed);
        let capacity = if random.chance(15) { random.range(1, 12) } else { random.range(8, 60) };
        let blocks = if random.chance(70) { capacity } else { random.range(1, capacity) };
        let block_size = random.pick(&[1, 2, 4, 16]);
        let ends_every = random.range(0, 40) as u64;
        let seats = random.range(1, 8);
        let mut acts = vec![
            Act::Seats(seats),
            Act::Budget(seats + random.range(0, 40)),
            Act::Chunk(random.range(1, 40)),
            Act::Context(if random.chance(15) { random.range(4, 30) } else { random.range(30, 200) }),
            Act::Queue(random.range(1, 24)),
            Act::Watermark(random.range(0, 3)),
            Act::Policy(random.range(0, 2)),
            Act::Static(random.chance(20)),
            Act::PrefixCache(random.chance(75)),
        ];
        if random.chance(25) {
            acts.push(Act::PrefillBudget(random.range(0, 30)));
        }
        let mut rates = Rates::new(&mut random, changes);
        for _ in 0..random.range(5, 60) {
            while random.chance(rates.arrivals) && rates.last < 50 {
                let act = rates.submit(&mut random);
                acts.push(act);
            }
            if rates.last > 0 && random.chance(rates.cancels) {
                acts.push(Act::Cancel(random.range(1, rates.last as usize) as u64));
            }
            if random.chance(rates.changes) {
                let change = rates.change(&mut random, capacity);
                acts.push(change);
            }
            match acts.last_mut() {
                Some(Act::Steps(steps)) => *steps += 1,
                _ => acts.push(Act::Steps(1)),
            }
        }
        Workload { blocks, capacity, block_size, ends_every, acts }
    }

    /// The room after all acts, with everybody at the end.
    pub fn play(&self, plant: Option<Plant>) -> Room {
        let mut room = self.room();
        room.plant = plant;
        for act in &self.acts {
            act.play(&mut room);
        }
        room.run();
        room.check_answers();
        room
    }

    pub fn room(&self) -> Room {
        Room::with_capacity(Limits::default(), self.blocks, self.capacity, self.block_size, self.ends_every)
    }
}

/// What is likely in one workload.
struct Rates {
    arrivals: u64,
    cancels: u64,
    failures: u64,
    changes: u64,
    /// Of prompts: that one goes on from an earlier one.
    turns: u64,
    families: u32,
    last: u64,
}

impl Rates {
    fn new(random: &mut Random, changes: bool) -> Rates {
        Rates {
            arrivals: random.range(5, 60) as u64,
            cancels: random.range(0, 10) as u64,
            failures: random.range(0, 8) as u64,
            changes: if changes && random.chance(60) { random.range(1, 25) as u64 } else { 0 },
            turns: random.range(0, 60) as u64,
            families: random.range(1, 3) as u32,
            last: 0,
        }
    }

    fn submit(&mut self, random: &mut Random) -> Act {
        self.last += 1;
        let id = self.last;
        let earlier = random.range(1, id as usize) as u64;
        let own = if random.chance(4) { random.range(0, 140) } else { random.range(0, 20) };
        let (mut prompt, mut fork_of) =
            (Prompt::Family { family: random.range(1, self.families as usize) as u32, shared: random.range(0, 30), own }, None);
        if random.chance(self.turns) {
            prompt = match random.chance(50) {
                true => Prompt::FollowUp { of: earlier, own: random.range(1, 10) },
                false => Prompt::Branch { of: earlier, keep: random.range(0, 100), own: random.range(1, 10) },
            };
            fork_of = random.chance(70).then_some(earlier);
        }
        let fails_at = random.chance(self.failures).then(|| random.range(0, 5));
        let (user, max_tokens) = (random.range(0, 5) as u32, random.range(1, 40));
        Act::Submit { id, user, prompt, max_tokens, priority: random.range(0, 3) as i32 - 1, fork_of, fails_at }
    }

    fn change(&self, random: &mut Random, capacity: usize) -> Act {
        match random.range(0, 14) {
            0 => Act::Seats(random.range(1, 9)),
            1 => Act::Budget(random.range(1, 48)),
            2 => Act::Chunk(random.range(0, 40)),
            3 => Act::Context(random.range(4, 200)),
            4 => Act::Queue(random.range(1, 24)),
            5 => Act::Watermark(random.range(0, 4)),
            6 => Act::Policy(random.range(0, 2)),
            7 => Act::Static(random.chance(50)),
            8 => Act::PrefixCache(random.chance(60)),
            9 | 10 => Act::KvBlocks(random.range(0, capacity + 1)),
            11 => Act::PrefillBudget(random.range(0, 30)),
            12 if random.chance(50) => Act::ForgetAll,
            12 => Act::FailedStep,
            13 => Act::Borrow(random.range(1, 40)),
            _ => Act::Return,
        }
    }
}

impl Act {
    pub fn play(&self, room: &mut Room) {
        match self {
            Act::Submit { id, user, prompt, max_tokens, priority, fork_of, fails_at } => {
                let prompt = prompt.tokens(*id, room);
                if let Some(at) = fails_at {
                    room.fails_at.insert(*id, *at);
                }
                room.submit(Request {
                    priority: *priority,
                    fork_of: fork_of.map(RequestId),
                    ..Request::new(RequestId(*id), UserId(*user), prompt, *max_tokens)
                });
            }
            Act::Cancel(id) => room.cancel(*id),
            Act::Steps(steps) => (0..*steps).for_each(|_| _ = room.step()),
            Act::FailedStep => {
                room.step_fails = true;
                room.step();
            }
            Act::KvBlocks(blocks) => self.held_to_reason(room.set_kv_blocks(*blocks)),
            Act::PrefillBudget(tokens) => room.set_prefill_budget(*tokens),
            Act::ForgetAll => room.forget_all(),
            Act::Borrow(tokens) => _ = room.borrow_blocks(*tokens),
            Act::Return => room.return_blocks(),
            limit => {
                let mut limits = *room.scheduler.limits();
                limit.set(&mut limits);
                self.held_to_reason(room.set_limits(limits));
            }
        }
    }

    fn set(&self, limits: &mut Limits) {
        match *self {
            Act::Seats(seats) => {
                limits.max_num_seqs = seats;
            }
            Act::Budget(tokens) => limits.max_num_batched_tokens = tokens,
            Act::Chunk(tokens) => limits.prefill_chunk = tokens,
            Act::Context(tokens) => limits.max_model_len = tokens,
            Act::Queue(requests) => limits.max_waiting = requests,
            Act::Watermark(blocks) => limits.watermark = blocks,
            Act::Policy(number) => limits.policy = policy(number),
            Act::Static(on) => limits.mode = if on { Mode::Static } else { Mode::Continuous },
            Act::PrefixCache(on) => limits.prefix_cache = on,
            _ => {}
        }
    }

    /// A change is refused for a reason that its numbers show.
    fn held_to_reason(&self, result: Result<(), InvalidLimits>) {
        match (self, result) {
            (_, Ok(())) => {}
            (_, Err(InvalidLimits::Zero(_))) => {
                assert!(matches!(
                    self,
                    Act::Chunk(0) | Act::KvBlocks(0) | Act::Seats(0) | Act::Budget(0) | Act::Context(0) | Act::Queue(0)
                ));
            }
            (_, Err(InvalidLimits::BudgetBelowSeats { budget, seats })) => assert!(budget < seats),
            (Act::KvBlocks(wanted), Err(InvalidLimits::OverCapacity { blocks, capacity })) => {
                assert!(*wanted == blocks && blocks > capacity);
            }
            (Act::KvBlocks(wanted), Err(InvalidLimits::BelowLive { blocks, needed, .. })) => {
                assert!(*wanted == blocks && blocks < needed);
            }
            (Act::KvBlocks(wanted), Err(InvalidLimits::BelowLent { blocks, lent })) => {
                assert!(*wanted == blocks && blocks < lent);
            }
            (act, Err(why)) => panic!("{act:?}: {why}"),
        }
    }

    /// The same with lower numbers, boldest first.
    pub fn lowered(&self) -> Vec<Act> {
        let lower = |number: usize, least: usize| -> Vec<usize> {
            let mut lower = vec![least, (number + least) / 2, number.saturating_sub(1).max(least)];
            lower.retain(|lower| *lower < number);
            lower.dedup();
            lower
        };
        let each = |number: usize, least: usize, act: fn(usize) -> Act| lower(number, least).into_iter().map(act).collect();
        match self {
            Act::Submit { .. } => self.lowered_submit(lower),
            Act::Steps(steps) => each(*steps, 1, Act::Steps),
            Act::Seats(seats) => each(*seats, 1, Act::Seats),
            Act::Budget(tokens) => each(*tokens, 1, Act::Budget),
            Act::Chunk(tokens) => each(*tokens, 1, Act::Chunk),
            Act::Context(tokens) => each(*tokens, 1, Act::Context),
            Act::Queue(requests) => each(*requests, 1, Act::Queue),
            Act::Watermark(blocks) => each(*blocks, 0, Act::Watermark),
            Act::Policy(number) => each(*number, 0, Act::Policy),
            Act::KvBlocks(blocks) => each(*blocks, 1, Act::KvBlocks),
            Act::PrefillBudget(tokens) => each(*tokens, 0, Act::PrefillBudget),
            Act::Borrow(tokens) => each(*tokens, 1, Act::Borrow),
            Act::Cancel(_) | Act::FailedStep | Act::Static(_) | Act::PrefixCache(_) | Act::ForgetAll | Act::Return => Vec::new(),
        }
    }

    fn lowered_submit(&self, lower: impl Fn(usize, usize) -> Vec<usize>) -> Vec<Act> {
        let Act::Submit { prompt, max_tokens, user, priority, fork_of, fails_at, .. } = self else { return Vec::new() };
        let mut found = Vec::new();
        let mut with = |change: &dyn Fn(&mut Act)| {
            let mut act = self.clone();
            change(&mut act);
            found.push(act);
        };
        for tokens in lower(*max_tokens, 1) {
            with(&|act| {
                if let Act::Submit { max_tokens, .. } = act {
                    *max_tokens = tokens
                }
            });
        }
        let prompts: Vec<Prompt> = match *prompt {
            Prompt::Family { family, shared, own } => {
                let shared_lower = lower(shared, 0).into_iter().map(|shared| Prompt::Family { family, shared, own });
                shared_lower.chain(lower(own, 0).into_iter().map(|own| Prompt::Family { family, shared, own })).collect()
            }
            Prompt::FollowUp { of, own } => {
                let plain = std::iter::once(Prompt::Family { family: 1, shared: 0, own });
                plain.chain(lower(own, 0).into_iter().map(|own| Prompt::FollowUp { of, own })).collect()
            }
            Prompt::Branch { of, keep, own } => {
                let plain = std::iter::once(Prompt::Family { family: 1, shared: 0, own });
                plain.chain(lower(own, 0).into_iter().map(|own| Prompt::Branch { of, keep, own })).collect()
            }
        };
        for lower in prompts {
            with(&|act| {
                if let Act::Submit { prompt, .. } = act {
                    *prompt = lower.clone()
                }
            });
        }
        if fork_of.is_some() {
            with(&|act| {
                if let Act::Submit { fork_of, .. } = act {
                    *fork_of = None
                }
            });
        }
        if fails_at.is_some() {
            with(&|act| {
                if let Act::Submit { fails_at, .. } = act {
                    *fails_at = None
                }
            });
        }
        if *priority != 0 || *user != 0 {
            with(&|act| {
                if let Act::Submit { priority, user, .. } = act {
                    (*priority, *user) = (0, 0);
                }
            });
        }
        found
    }
}
