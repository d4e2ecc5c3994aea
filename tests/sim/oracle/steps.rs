//! Who gets what in each step, worked out once more by looking at everybody.

use std::collections::BTreeMap;

use batchroom::batch::UserId;
use batchroom::scheduler::{FinishReason, Limits, Mode, Policy, TakenBy};

use super::blocks::{Blocks, Name};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Waiting,
    Preempted,
    Running,
    Gone,
}

#[derive(Clone, Debug)]
pub struct Sequence {
    pub id: u64,
    pub user: u32,
    pub priority: i32,
    pub fork_of: Option<u64>,
    pub tokens: Vec<u32>,
    pub prompt_len: usize,
    pub computed: usize,
    high_water: usize,
    pub table: Vec<u32>,
    remembered: usize,
    content: Name,
    pub place: Place,
    /// When it was let in last.
    admission: u64,
}

impl Sequence {
    pub fn new(id: u64, user: u32, priority: i32, fork_of: Option<u64>, prompt: Vec<u32>) -> Sequence {
        Sequence {
            id,
            user,
            priority,
            fork_of,
            prompt_len: prompt.len(),
            tokens: prompt,
            computed: 0,
            high_water: 0,
            table: Vec::new(),
            remembered: 0,
            content: 0,
            place: Place::Waiting,
            admission: 0,
        }
    }

    fn decodes(&self) -> bool {
        self.tokens.len() > self.prompt_len && self.computed + 1 == self.tokens.len()
    }
}

/// One row: request, first position, tokens, blocks, and whether it is a decode and has caught up.
pub type Row = (u64, usize, usize, Vec<u32>, bool, bool);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub rows: Vec<Row>,
    pub copies: Vec<(u32, u32)>,
    /// Request, positions that were there, blocks, and whether it comes back.
    pub admitted: Vec<(u64, usize, usize, bool)>,
    /// Request, who took its blocks, and positions lost.
    pub preempted: Vec<(u64, TakenBy, usize)>,
    pub held: Vec<u64>,
}

pub struct Oracle {
    limits: Limits,
    prefill_budget: usize,
    pub blocks: Blocks,
    /// In order of arrival; who has gone stays.
    pub sequences: Vec<Sequence>,
    service: BTreeMap<u32, u64>,
    /// The service of the last who left with nothing more to be done for them.
    last_left: u64,
    admissions: u64,
    tokens_left: usize,
    prefill_left: usize,
}

impl Oracle {
    pub fn new(limits: Limits, prefill_budget: usize, blocks: Blocks) -> Oracle {
        Oracle {
            limits,
            prefill_budget,
            blocks,
            sequences: Vec::new(),
            service: BTreeMap::new(),
            last_left: 0,
            admissions: 0,
            tokens_left: 0,
            prefill_left: 0,
        }
    }

    /// Indices of those in a place, running ones in the order in which they were let in.
    fn those(&self, place: Place) -> Vec<usize> {
        let mut those: Vec<usize> = (0..self.sequences.len()).filter(|at| self.sequences[*at].place == place).collect();
        those.sort_by_key(|at| (self.sequences[*at].admission * u64::from(place == Place::Running), *at));
        those
    }

    fn served(&self, at: usize) -> u64 {
        self.service.get(&self.sequences[at].user).copied().unwrap_or(0)
    }

    pub fn submit(&mut self, sequence: Sequence) {
        let live = |other: &&Sequence| other.place != Place::Gone;
        let user = sequence.user;
        if self.limits.policy == Policy::Fair && !self.sequences.iter().filter(live).any(|other| other.user == user) {
            let of = |other: &Sequence| self.service.get(&other.user).copied().unwrap_or(0);
            let least = self.sequences.iter().filter(live).map(of).min().unwrap_or(self.last_left);
            let own = self.service.entry(user).or_default();
            *own = (*own).max(least);
        }
        self.sequences.push(sequence);
    }

    pub fn remove(&mut self, id: u64) {
        let at = self.find(id);
        let mut table = std::mem::take(&mut self.sequences[at].table);
        self.blocks.release(&mut table);
        self.sequences[at].place = Place::Gone;
        let user = self.sequences[at].user;
        if !self.sequences.iter().any(|other| other.place != Place::Gone && other.user == user) {
            self.last_left = self.service.get(&user).copied().unwrap_or(0);
        }
    }

    fn find(&self, id: u64) -> usize {
        self.sequences.iter().position(|sequence| sequence.id == id).expect("it came")
    }

    pub fn step(&mut self) -> Step {
        let mut step = Step::default();
        self.make_room(&mut step);
        self.tokens_left = self.limits.max_num_batched_tokens;
        self.prefill_left = usize::MAX;
        let running = self.those(Place::Running);
        let (decodes, prompts): (Vec<usize>, Vec<usize>) = running.into_iter().partition(|at| self.sequences[*at].decodes());
        if !decodes.is_empty() {
            self.prefill_left = self.prefill_budget;
        }
        for at in decodes {
            self.row(&mut step, at, 1);
            self.tokens_left -= 1;
        }
        self.chunks(&mut step, prompts);
        if step.preempted.is_empty() {
            self.admit(&mut step);
        }
        step
    }

    fn make_room(&mut self, step: &mut Step) {
        let asking = self.those(Place::Running);
        for at in asking {
            while self.sequences[at].place == Place::Running {
                let tokens = self.sequences[at].tokens.len();
                let mut table = std::mem::take(&mut self.sequences[at].table);
                let grown = self.blocks.grow(&mut table, tokens);
                self.sequences[at].table = table;
                if grown {
                    break;
                }
                let victim = self.victim();
                let by = if victim == at { TakenBy::Itself } else { TakenBy::User(UserId(self.sequences[at].user)) };
                step.preempted.push((self.sequences[victim].id, by, self.sequences[victim].computed));
                self.take_blocks(victim);
            }
        }
    }

    fn victim(&self) -> usize {
        let running = self.those(Place::Running);
        let worst = |at: &usize| match self.limits.policy {
            Policy::Fcfs => 0,
            Policy::Priority => -i64::from(self.sequences[*at].priority),
            Policy::Fair => self.served(*at) as i64,
        };
        // Of several the last: who was let in last.
        running.into_iter().max_by_key(worst).expect("somebody asks")
    }

    fn take_blocks(&mut self, at: usize) {
        let mut table = std::mem::take(&mut self.sequences[at].table);
        self.blocks.release(&mut table);
        let victim = &mut self.sequences[at];
        (victim.computed, victim.remembered, victim.content, victim.place) = (0, 0, 0, Place::Preempted);
    }

    /// Beside decodes each prompt gets an equal share of what is left, the shortest first, and one share is kept for whoever
    /// may be let in.
    fn chunks(&mut self, step: &mut Step, mut prompts: Vec<usize>) {
        let bounded = self.prefill_left < usize::MAX;
        let missing = |at: &usize| self.sequences[*at].tokens.len() - self.sequences[*at].computed;
        if bounded {
            prompts.sort_by_key(missing);
        }
        let somebody_waits = self.sequences.iter().any(|other| matches!(other.place, Place::Waiting | Place::Preempted));
        let comes = somebody_waits && self.those(Place::Running).len() < self.limits.max_num_seqs;
        let mut claims = prompts.len() + usize::from(comes);
        for at in prompts {
            let share = self.prefill_left.min(self.tokens_left).div_ceil(claims);
            self.chunk(step, at, if bounded { share } else { usize::MAX });
            claims -= 1;
        }
    }

    fn chunk(&mut self, step: &mut Step, at: usize, most: usize) {
        let sequence = &self.sequences[at];
        let missing = sequence.tokens.len() - sequence.computed;
        let tokens = missing.min(self.limits.prefill_chunk).min(self.tokens_left).min(self.prefill_left).min(most);
        if tokens > 0 {
            self.row(step, at, tokens);
            self.tokens_left -= tokens;
            self.prefill_left -= tokens;
        }
    }

    fn row(&mut self, step: &mut Step, at: usize, tokens: usize) {
        let sequence = &self.sequences[at];
        let end = sequence.computed + tokens;
        let again = sequence.high_water.min(end).saturating_sub(sequence.computed);
        *self.service.entry(sequence.user).or_default() += (tokens - again) as u64;
        let caught_up = end == sequence.tokens.len();
        step.rows.push((sequence.id, sequence.computed, tokens, sequence.table.clone(), sequence.decodes(), caught_up));
    }

    fn admit(&mut self, step: &mut Step) {
        let is_static = self.limits.mode == Mode::Static;
        let group_runs = is_static && !self.those(Place::Running).is_empty();
        let mut reserved = 0;
        loop {
            let running = self.those(Place::Running).len();
            let no_budget = self.tokens_left == 0 || self.prefill_left == 0;
            if running + step.held.len() >= self.limits.max_num_seqs || no_budget && (!is_static || group_runs) {
                return;
            }
            let Some(at) = self.next(group_runs, &step.held) else { return };
            let start = self.start(at);
            if !is_static && self.is_being_computed(at, start.cached) {
                reserved += start.taken;
                step.held.push(self.sequences[at].id);
                continue;
            }
            let watermark = if running == 0 { 0 } else { self.limits.watermark };
            if start.taken + watermark + reserved > self.blocks.available() {
                return;
            }
            self.let_in(step, at, start);
        }
    }

    /// Who stands first.
    fn next(&self, group_runs: bool, held: &[u64]) -> Option<usize> {
        let waits = |at: &usize| match self.sequences[*at].place {
            Place::Waiting => !group_runs,
            Place::Preempted => true,
            Place::Running | Place::Gone => false,
        };
        let waiting = (0..self.sequences.len()).filter(|at| waits(at) && !held.contains(&self.sequences[*at].id));
        // Within a lane: those that had been let in before, then who came first.
        let order = |at: &usize| (self.sequences[*at].place != Place::Preempted, *at);
        match self.limits.policy {
            Policy::Fcfs => waiting.min_by_key(order),
            Policy::Priority => waiting.min_by_key(|at| (-self.sequences[*at].priority, order(at))),
            Policy::Fair => {
                let mut fronts: BTreeMap<u32, usize> = BTreeMap::new();
                for at in waiting {
                    let front = fronts.entry(self.sequences[at].user).or_insert(at);
                    if order(&at) < order(front) {
                        *front = at;
                    }
                }
                match group_runs {
                    true => fronts.into_values().next(),
                    false => fronts.into_values().min_by_key(|at| (self.served(*at), *at)),
                }
            }
        }
    }

    fn origin(&self, at: usize) -> Option<&Sequence> {
        let origin = self.sequences[at].fork_of?;
        self.sequences.iter().find(|other| other.id == origin && other.place == Place::Running)
    }

    fn start(&self, at: usize) -> Start {
        let (size, tokens) = (self.blocks.size, &self.sequences[at].tokens);
        let (mut found, content) = match self.limits.prefix_cache {
            true => self.blocks.cached_prefix(tokens),
            false => (Vec::new(), 0),
        };
        let remembered = found.len();
        let (mut cached, mut copy) = (remembered * size, None);
        if let Some(origin) = self.origin(at) {
            let shared = common(&origin.tokens[..origin.computed], &tokens[..tokens.len() - 1]);
            if shared > cached {
                found.extend_from_slice(&origin.table[found.len()..shared / size]);
                cached = shared;
                copy = (!shared.is_multiple_of(size)).then(|| origin.table[shared / size]);
            }
        }
        let unheld = found.iter().filter(|block| self.blocks.references[**block as usize] == 0).count();
        let taken = tokens.len().div_ceil(size) - found.len() + unheld;
        Start { found, remembered, content, cached, copy, taken }
    }

    fn is_being_computed(&self, at: usize, cached: usize) -> bool {
        let sequence = &self.sequences[at];
        let own = &sequence.tokens[..sequence.tokens.len() - 1];
        let of_fork = |origin: &Sequence| !origin.decodes() && common(&origin.tokens, own) > origin.computed.max(cached);
        if self.origin(at).is_some_and(of_fork) {
            return true;
        }
        let size = self.blocks.size;
        let least = self.limits.prefill_chunk.min(self.limits.max_num_batched_tokens).max(size);
        let worth_it = |other: &Sequence| {
            let blocks = common(&other.tokens, own) / size;
            (blocks * size).saturating_sub(other.computed.max(cached)) >= least
        };
        let running = self.sequences.iter().filter(|other| other.place == Place::Running && !other.decodes());
        self.limits.prefix_cache && running.into_iter().any(worth_it)
    }

    fn let_in(&mut self, step: &mut Step, at: usize, start: Start) {
        let size = self.blocks.size;
        let mut table = Vec::new();
        self.blocks.share(&mut table, &start.found);
        assert!(self.blocks.grow(&mut table, self.sequences[at].tokens.len()));
        let mut cached = start.cached;
        match start.copy {
            Some(from) if self.tokens_left > 0 && self.prefill_left > 0 => step.copies.push((from, table[cached / size])),
            Some(_) => cached -= cached % size,
            None => {}
        }
        self.admissions += 1;
        let sequence = &mut self.sequences[at];
        let again = sequence.place == Place::Preempted;
        step.admitted.push((sequence.id, cached, table.len(), again));
        (sequence.remembered, sequence.content) = (start.remembered, start.content);
        (sequence.computed, sequence.high_water) = (cached, sequence.high_water.max(cached));
        (sequence.table, sequence.place, sequence.admission) = (table, Place::Running, self.admissions);
        self.chunk(step, at, usize::MAX);
    }

    /// What came of a row: its token, and how its sequence ended.
    pub fn commit(&mut self, row: &Row, token: Option<u32>, end: Option<FinishReason>) {
        let at = self.find(row.0);
        let size = self.blocks.size;
        let sequence = &mut self.sequences[at];
        sequence.computed = row.1 + row.2;
        sequence.high_water = sequence.high_water.max(sequence.computed);
        if self.limits.prefix_cache && end != Some(FinishReason::Failed) {
            while (sequence.remembered + 1) * size <= sequence.computed {
                let end = (sequence.remembered + 1) * size;
                let block = sequence.table[sequence.remembered];
                sequence.content = self.blocks.remember(block, sequence.content, &sequence.tokens[..end]);
                sequence.remembered += 1;
            }
        }
        sequence.tokens.extend(token);
    }
}

struct Start {
    found: Vec<u32>,
    remembered: usize,
    content: Name,
    cached: usize,
    copy: Option<u32>,
    taken: usize,
}

fn common(a: &[u32], b: &[u32]) -> usize {
    let mut common = 0;
    while common < a.len().min(b.len()) && a[common] == b[common] {
        common += 1;
    }
    common
}
