//! Logits to a token.

/// How one request's tokens are chosen, and when it ends.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct SamplingParams {
    /// 0 is exactly greedy.
    pub temperature: f32,
    /// Keep the k likeliest tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the likeliest tokens whose probabilities add up to this; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens at least this fraction as likely as the likeliest; 0 keeps all.
    pub min_p: f32,
    /// Divides the logits of tokens already in the sequence (multiplies negative ones); 1 changes nothing.
    pub repetition_penalty: f32,
    /// Tokens of answer at most.
    pub max_tokens: usize,
    pub seed: u64,
    /// The answer ends where one of these would appear; the string itself is not shown.
    pub stop: Vec<String>,
    /// Go on past end-of-generation tokens (for measurements).
    pub ignore_eos: bool,
}

impl Default for SamplingParams {
    fn default() -> Self {
        SamplingParams {
            temperature: 0.7,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repetition_penalty: 1.1,
            max_tokens: 512,
            seed: 0,
            stop: Vec::new(),
            ignore_eos: false,
        }
    }
}

/// A sampling parameter out of its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {value}: it must be {range}")]
pub struct InvalidSampling {
    pub name: &'static str,
    pub value: String,
    pub range: &'static str,
}

impl SamplingParams {
    /// Strings that may end an answer, and how long each may be: bounds what a stream holds back.
    pub const MAX_STOP_STRINGS: usize = 16;
    pub const MAX_STOP_BYTES: usize = 256;

    pub fn check(&self) -> Result<(), InvalidSampling> {
        let float = |name, value: f32, range, ok: bool| {
            if ok && value.is_finite() { Ok(()) } else { Err(InvalidSampling { name, value: value.to_string(), range }) }
        };
        let number = |name, value: usize, range, ok: bool| {
            if ok { Ok(()) } else { Err(InvalidSampling { name, value: value.to_string(), range }) }
        };
        float("temperature", self.temperature, "from 0 (greedy) to 100", (0.0..=100.0).contains(&self.temperature))?;
        float("top_p", self.top_p, "above 0 and at most 1", self.top_p > 0.0 && self.top_p <= 1.0)?;
        float("min_p", self.min_p, "from 0 to 1", (0.0..=1.0).contains(&self.min_p))?;
        let penalty = self.repetition_penalty;
        float("repetition_penalty", penalty, "from 0.01 to 10", (0.01..=10.0).contains(&penalty))?;
        number("max_tokens", self.max_tokens, "at least 1", self.max_tokens > 0)?;
        let stops = self.stop.len();
        number("the number of stop strings", stops, "at most 16", stops <= Self::MAX_STOP_STRINGS)?;
        let longest = self.stop.iter().map(String::len).max().unwrap_or(1);
        let shortest = self.stop.iter().map(String::len).min().unwrap_or(1);
        number("the length of a stop string", longest, "at most 256 bytes", longest <= Self::MAX_STOP_BYTES)?;
        number("the length of a stop string", shortest, "at least 1 byte", shortest > 0)
    }
}

/// Chooses tokens; holds nothing but buffers, so that one serves all sequences.
#[derive(Debug, Default)]
pub struct Sampler {
    logits: Vec<f32>,
    candidates: Vec<(f32, u32)>,
    /// `seen[token] == stamp`: the token has been penalized for this row already.
    seen: Vec<u32>,
    stamp: u32,
}

impl Sampler {
    /// The next token of a sequence, or None when the logits are not all finite numbers.
    ///
    /// `tokens` is the whole sequence so far. The draw depends on the logits, `params` and `tokens` alone: its
    /// random number is a function of (seed, position), so batch mates cannot shift it.
    ///
    /// Order: repetition penalty (Keskar et al. 2019, over the whole sequence), temperature, top-k, top-p
    /// (Holtzman et al. 2020), min-p (Nguyen et al. 2024). At temperature 0 the likeliest token is taken, the
    /// lowest id among equals, and nothing else applies.
    pub fn sample(&mut self, logits: &[f32], params: &SamplingParams, tokens: &[u32]) -> Option<u32> {
        if !all_finite(logits) {
            return None;
        }
        if params.temperature == 0.0 {
            return Some(argmax(logits));
        }
        self.logits.clear();
        self.logits.extend_from_slice(logits);
        if params.repetition_penalty != 1.0 {
            self.penalize(params.repetition_penalty, tokens);
        }
        self.keep_top_k(params.top_k);
        self.make_probabilities(params.temperature);
        let kept = self.nucleus(params.top_p, params.min_p);
        Some(draw(&self.candidates[..kept], uniform(params.seed, tokens.len())))
    }

    fn penalize(&mut self, penalty: f32, tokens: &[u32]) {
        self.seen.resize(self.logits.len().max(self.seen.len()), 0);
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            self.seen.fill(0);
            self.stamp = 1;
        }
        for &token in tokens {
            let at = token as usize;
            if at < self.logits.len() && self.seen[at] != self.stamp {
                self.seen[at] = self.stamp;
                let logit = &mut self.logits[at];
                *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            }
        }
    }

    /// Fills `candidates` with the k largest logits, likeliest first, in one pass over the vocabulary.
    fn keep_top_k(&mut self, k: usize) {
        let k = if k == 0 { self.logits.len() } else { k.min(self.logits.len()) };
        let room = k.saturating_mul(2).max(256);
        self.candidates.clear();
        let mut floor = f32::NEG_INFINITY;
        for (token, &logit) in self.logits.iter().enumerate() {
            // Equal to the floor loses: the ids seen before are lower.
            if logit > floor || self.candidates.len() < k {
                self.candidates.push((logit, token as u32));
                if self.candidates.len() >= room && room > k {
                    self.candidates.select_nth_unstable_by(k - 1, likelier);
                    self.candidates.truncate(k);
                    floor = self.candidates[k - 1].0;
                }
            }
        }
        self.candidates.sort_unstable_by(likelier);
        self.candidates.truncate(k);
    }

    fn make_probabilities(&mut self, temperature: f32) {
        let best = self.candidates[0].0;
        let mut sum = 0.0;
        for (value, _) in &mut self.candidates {
            *value = ((*value - best) / temperature).exp();
            sum += *value;
        }
        for (value, _) in &mut self.candidates {
            *value /= sum;
        }
    }

    /// How many of the candidates, likeliest first, top-p and min-p leave: at least one.
    fn nucleus(&self, top_p: f32, min_p: f32) -> usize {
        let least = self.candidates[0].0 * min_p;
        let mut sum = 0.0;
        let mut kept = 0;
        for &(probability, _) in &self.candidates {
            if kept > 0 && (sum >= top_p || probability < least) {
                break;
            }
            sum += probability;
            kept += 1;
        }
        kept
    }
}

fn likelier(a: &(f32, u32), b: &(f32, u32)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// Infinities and NaNs poison a sum of `x * 0`, which the compiler turns into a vector loop.
fn all_finite(logits: &[f32]) -> bool {
    let mut sums = [0.0f32; 16];
    let chunks = logits.chunks_exact(16);
    let rest: f32 = chunks.remainder().iter().map(|x| x * 0.0).sum();
    for chunk in chunks {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum += x * 0.0;
        }
    }
    sums.iter().sum::<f32>() + rest == 0.0
}

/// The largest value's index, the lowest among equals. `values` is not empty.
pub fn argmax(values: &[f32]) -> u32 {
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = at;
        }
    }
    best as u32
}

fn draw(candidates: &[(f32, u32)], uniform: f32) -> u32 {
    let total: f32 = candidates.iter().map(|candidate| candidate.0).sum();
    let mut left = uniform * total;
    for &(probability, token) in candidates {
        left -= probability;
        if left < 0.0 {
            return token;
        }
    }
    candidates[candidates.len() - 1].1
}

/// In [0, 1), a function of (seed, position) alone: ChaCha8's stream of the seed, at the position.
fn uniform(seed: u64, position: usize) -> f32 {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{RngCore, SeedableRng};
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_word_pos(position as u128);
    (random.next_u32() >> 8) as f32 / (1u32 << 24) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> SamplingParams {
        SamplingParams {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            ..SamplingParams::default()
        }
    }

    /// How often each token is drawn over 4,000 positions.
    fn histogram(logits: &[f32], params: &SamplingParams) -> Vec<usize> {
        let mut sampler = Sampler::default();
        let mut counts = vec![0; logits.len()];
        let tokens = vec![0; 4000];
        for position in 0..4000 {
            counts[sampler.sample(logits, params, &tokens[..position]).unwrap() as usize] += 1;
        }
        counts
    }

    #[test]
    fn temperature_zero_takes_the_best_and_the_lowest_id_among_equals() {
        let greedy = SamplingParams { temperature: 0.0, repetition_penalty: 2.0, ..params() };
        let mut sampler = Sampler::default();
        assert_eq!(sampler.sample(&[1.0, 3.0, 3.0, -1.0], &greedy, &[1, 1, 1]), Some(1));
    }

    #[test]
    fn draws_follow_the_softmax() {
        let logits = [0.0f32, (3.0f32).ln(), f32::MIN];
        let counts = histogram(&logits, &params());
        assert!((2900..3100).contains(&counts[1]), "three quarters of 4000, got {counts:?}");
        assert_eq!(counts[2], 0);
    }

    #[test]
    fn top_k_top_p_and_min_p_cut_the_tail() {
        // Probabilities 1/2, 1/4, 1/8, 1/16, 1/16.
        let logits: Vec<f32> = [8.0f32, 4.0, 2.0, 1.0, 1.0].iter().map(|x| x.ln()).collect();
        let kept = |params: &SamplingParams| histogram(&logits, params).iter().filter(|count| **count > 0).count();
        assert_eq!(kept(&params()), 5);
        assert_eq!(kept(&SamplingParams { top_k: 2, ..params() }), 2);
        assert_eq!(kept(&SamplingParams { top_p: 0.8, ..params() }), 3);
        assert_eq!(kept(&SamplingParams { min_p: 0.4, ..params() }), 2);
        assert_eq!(kept(&SamplingParams { top_p: 1e-6, ..params() }), 1);
    }

    #[test]
    fn top_k_of_a_large_vocabulary_is_the_sorted_head() {
        let mut sampler = Sampler::default();
        let mut state = 7u32;
        sampler.logits = (0..5000)
            .map(|_| {
                state = state.wrapping_mul(1664525).wrapping_add(1013904223);
                // Few distinct values: many ties.
                (state >> 24) as f32
            })
            .collect();
        let mut expected: Vec<(f32, u32)> = sampler.logits.iter().enumerate().map(|(i, x)| (*x, i as u32)).collect();
        expected.sort_by(likelier);
        for k in [1, 40, 200, 4999, 5000, 9000] {
            sampler.keep_top_k(k);
            assert_eq!(sampler.candidates, expected[..k.min(5000)], "k = {k}");
        }
    }

    #[test]
    fn the_penalty_counts_a_token_once_and_pushes_down_both_signs() {
        let mut sampler = Sampler { logits: vec![2.0, -2.0, 2.0], ..Sampler::default() };
        sampler.penalize(2.0, &[0, 0, 1, 99]);
        assert_eq!(sampler.logits, [1.0, -4.0, 2.0]);
    }

    #[test]
    fn a_draw_depends_on_seed_and_position_only() {
        let logits: Vec<f32> = (0..100).map(|i| (i % 7) as f32 / 7.0).collect();
        let other: Vec<f32> = vec![0.0; 300];
        let params = params();
        let mut mixed = Sampler::default();
        let mut alone = Sampler::default();
        let tokens = [5; 50];
        for position in 0..50 {
            mixed.sample(&other, &params, &tokens[..position]);
            let together = mixed.sample(&logits, &params, &tokens[..position]);
            assert_eq!(together, alone.sample(&logits, &params, &tokens[..position]));
        }
        let first = |seed| alone_first(&logits, seed);
        assert_ne!((0..8).map(first).collect::<Vec<_>>(), vec![first(0); 8], "seeds differ");
    }

    fn alone_first(logits: &[f32], seed: u64) -> Option<u32> {
        Sampler::default().sample(logits, &SamplingParams { seed, ..params() }, &[])
    }

    #[test]
    fn logits_that_are_no_numbers_give_no_token() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in [0, 15, 16, 20] {
                let mut logits = vec![0.0; 21];
                logits[at] = bad;
                assert_eq!(Sampler::default().sample(&logits, &params(), &[]), None);
            }
        }
    }

    #[test]
    fn parameters_out_of_range_are_named() {
        let bad = SamplingParams { top_p: 0.0, ..params() };
        assert_eq!(bad.check().unwrap_err().to_string(), "top_p is 0: it must be above 0 and at most 1");
        assert!(SamplingParams::default().check().is_ok());
        assert!(SamplingParams { temperature: f32::NAN, ..params() }.check().is_err());
        assert!(SamplingParams { stop: vec![String::new()], ..params() }.check().is_err());
    }
}
