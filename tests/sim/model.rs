//! A model made of hash sums: what it says depends on every token before, and what it leaves in KV memory does too.

use batchroom::scheduler::FinishReason;

/// The token that ends an answer.
pub const END: u32 = 0;

/// splitmix64 (Steele, Lea, Flood 2014): a seeded stream for workloads and a mixer for the model.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In `low..=high`.
    pub fn range(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low + 1) as u64) as usize
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.range(0, of.len() - 1)]
    }
}

/// A sum of all tokens up to a position, in order: what the model keeps of that position in KV memory. Like real keys and
/// values it is another one when any token before was another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(pub u64);

impl State {
    pub const BEGIN: State = State(0xBA7C);

    pub fn after(self, token: u32) -> State {
        State(Random(self.0 ^ u64::from(token).wrapping_mul(0x100_0000_01B3)).next())
    }

    /// What the model says here: one in `ends_every` tokens ends the answer.
    pub fn says(self, ends_every: u64) -> u32 {
        let mut random = Random(self.0);
        if ends_every > 0 && random.next().is_multiple_of(ends_every) { END } else { 1 + (random.next() % 30_000) as u32 }
    }
}

/// An answer computed alone, with all the memory in the world.
pub fn alone(prompt: &[u32], max_tokens: usize, max_len: usize, ends_every: u64) -> (Vec<u32>, FinishReason) {
    let mut state = prompt.iter().fold(State::BEGIN, |state, token| state.after(*token));
    let mut answer = Vec::new();
    loop {
        let token = state.says(ends_every);
        state = state.after(token);
        answer.push(token);
        let reason = if token == END {
            FinishReason::Stop
        } else if answer.len() >= max_tokens {
            FinishReason::Length
        } else if prompt.len() + answer.len() >= max_len {
            FinishReason::ContextFull
        } else {
            continue;
        };
        return (answer, reason);
    }
}
