//! What steps cost, as measured while they are made: for the prompt budget that keeps to a target ITL, and for predicting
//! TTFT.
//!
//! A step's time is taken as the time of its decodes alone plus so much for each prompt token. The first is a mean in which
//! the newest steps weigh most, the second the median of the newest: they follow contexts that grow, other models, and
//! other programs on the machine, and one step that was interrupted changes little.

use std::collections::VecDeque;
use std::time::Duration;

use super::metrics::push_bounded;

/// Decoding rows that are told apart; more are taken as this many.
const MOST_ROWS: usize = 256;
/// Prompt tokens beside decodes as long as nothing has been measured, and at least: few, for the first gap must not be a
/// long one; and not fewer, or a machine whose decodes alone are over the target would hardly ever be done with a prompt.
const FEW: usize = 8;
/// How much a new measurement weighs.
const WEIGHT: f64 = 0.1;
/// Steps with prompts whose cost the next one's is taken from.
const NEWEST: usize = 7;
/// A budget grows by this factor from one step to the next at most: the cost of many tokens is guessed from that of few.
const GROWTH: usize = 2;
/// What of the target is planned for: steps are not all alike.
const SHARE: f64 = 0.9;

/// Measured costs, in seconds.
#[derive(Clone, Debug)]
pub struct Cost {
    target: Option<Duration>,
    /// A step with so many decoding rows and no prompt; 0 where there was none.
    decode: Vec<f64>,
    /// A prompt token beside decodes, in the newest steps.
    token: VecDeque<f64>,
    /// A prompt token in a step without decodes.
    token_alone: VecDeque<f64>,
    /// Prompt tokens of the newest step that had both, and the time that it took.
    mixed_tokens: usize,
    mixed: f64,
}

impl Default for Cost {
    fn default() -> Cost {
        Cost {
            target: None,
            decode: vec![0.0; MOST_ROWS + 1],
            token: VecDeque::new(),
            token_alone: VecDeque::new(),
            mixed_tokens: 0,
            mixed: 0.0,
        }
    }
}

impl Cost {
    pub fn target(&self) -> Option<Duration> {
        self.target
    }

    pub fn set_target(&mut self, target: Option<Duration>) {
        self.target = target;
    }

    /// A step was made with so many decoding rows and prompt tokens.
    pub fn step(&mut self, decodes: usize, prompt_tokens: usize, took: Duration) {
        let took = took.as_secs_f64();
        match (decodes, prompt_tokens) {
            (0, 0) => {}
            (0, tokens) => push_bounded(&mut self.token_alone, took / tokens as f64, NEWEST),
            (rows, 0) => {
                let known = &mut self.decode[rows.min(MOST_ROWS)];
                *known = if *known == 0.0 { took } else { *known + WEIGHT * (took - *known) };
            }
            (rows, tokens) => {
                if let Some(decode) = self.decode_step(rows) {
                    push_bounded(&mut self.token, (took - decode).max(0.0) / tokens as f64, NEWEST);
                }
                (self.mixed_tokens, self.mixed) = (tokens, took);
            }
        }
    }

    /// A step with so many decoding rows and no prompt: as measured, or as near as anything measured says.
    pub fn decode_step(&self, rows: usize) -> Option<f64> {
        let rows = rows.min(MOST_ROWS);
        if self.decode[rows] > 0.0 {
            return Some(self.decode[rows]);
        }
        let nearest = (1..=MOST_ROWS).filter(|known| self.decode[*known] > 0.0).min_by_key(|known| known.abs_diff(rows))?;
        Some(self.decode[nearest])
    }

    /// Prompt tokens that fit a step with so many decoding rows under the target; None without a target.
    pub fn prefill_budget(&self, rows: usize) -> Option<usize> {
        let target = self.target?.as_secs_f64() * SHARE;
        let most = self.mixed_tokens.max(FEW) * GROWTH;
        let (Some(decode), Some(token)) = (self.decode_step(rows), median(&self.token)) else {
            // No step has shown what decodes alone cost: as much as before and more, as long as that is not too long.
            let fits = self.mixed_tokens > 0 && self.mixed * GROWTH as f64 <= target;
            let same = if self.mixed <= target { self.mixed_tokens.max(FEW) } else { FEW };
            return Some(if fits { most } else { same });
        };
        let left = (target - decode).max(0.0);
        Some(((left / token.max(1e-9)) as usize).clamp(FEW, most))
    }

    /// Seconds from now to the first token of a request. None when nothing has been measured to go by.
    pub fn expected_ttft(&self, queue: &Ahead) -> Option<f64> {
        let decodes = queue.remaining.len();
        let step = self.decode_step(decodes.max(1));
        let token = median(&self.token_alone).or(median(&self.token))?;
        // Seats are taken by the next of the queue as they come free, for a mean answer each.
        let wait_steps = queue.steps_to_a_seat()?;
        let wait = if wait_steps > 0.0 { wait_steps * step?.max(queue.least_step) } else { 0.0 };
        // Prompts share what a step may spend on them, and steps with decodes take the time of those too.
        let tokens = queue.prompt_tokens_ahead + queue.prompt_tokens;
        let chunks = tokens.div_ceil(queue.tokens_per_step.max(1)).max(queue.prompt_tokens.div_ceil(queue.chunk.max(1)));
        let decoding = if decodes > 0 { step? * chunks as f64 } else { 0.0 };
        // At a set pace a step takes its turn, however little there is to compute.
        let paced = chunks as f64 * queue.least_step;
        Some(wait + (decoding + tokens as f64 * token).max(paced))
    }
}

/// What stands between a new request and its first token.
#[derive(Clone, Debug, Default)]
pub struct Ahead {
    /// Tokens that each running answer is expected to have still.
    pub remaining: Vec<f64>,
    pub free_seats: usize,
    /// Requests before it in the queue.
    pub waiting: usize,
    /// Tokens of an answer, as the last ones had.
    pub mean_answer: f64,
    /// Of running sequences and of those before it.
    pub prompt_tokens_ahead: usize,
    /// Its own, without those that are cached.
    pub prompt_tokens: usize,
    /// Prompt tokens of a step, all together and of one prompt.
    pub tokens_per_step: usize,
    pub chunk: usize,
    /// Seconds from one step to the next at least: of the pace. 0 at full speed.
    pub least_step: f64,
}

impl Ahead {
    /// Decode steps until a seat is free for it.
    fn steps_to_a_seat(&self) -> Option<f64> {
        let mut ends = self.remaining.clone();
        ends.resize(ends.len() + self.free_seats, 0.0);
        for _ in 0..self.waiting {
            let first = ends.iter_mut().min_by(|a, b| a.total_cmp(b))?;
            *first += self.mean_answer;
        }
        ends.into_iter().min_by(f64::total_cmp)
    }
}

fn median(values: &VecDeque<f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.iter().copied().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: f64) -> Duration {
        Duration::from_secs_f64(ms / 1e3)
    }

    #[test]
    fn the_budget_is_what_the_target_leaves() {
        let mut cost = Cost::default();
        assert_eq!(cost.prefill_budget(4), None, "no target, no budget");
        cost.set_target(Some(ms(20.0)));
        assert_eq!(cost.prefill_budget(4), Some(FEW));
        for _ in 0..50 {
            cost.step(4, 0, ms(8.0));
            cost.step(4, 20, ms(18.0));
        }
        assert_eq!(cost.prefill_budget(4), Some(20), "(20 x 0.9 - 8) / 0.5");
        cost.set_target(Some(ms(5.0)));
        assert_eq!(cost.prefill_budget(4), Some(FEW), "prompts go on even when decodes alone are over it");
    }

    #[test]
    fn without_a_step_of_decodes_alone_the_budget_grows_while_steps_are_short() {
        let mut cost = Cost::default();
        cost.set_target(Some(ms(100.0)));
        let mut budgets = Vec::new();
        for _ in 0..6 {
            let tokens = cost.prefill_budget(4).unwrap();
            budgets.push(tokens);
            cost.step(4, tokens, ms(8.0 + 0.5 * tokens as f64));
        }
        assert_eq!(budgets, [8, 16, 32, 64, 128, 128], "8 + 32 ms twice is below 90, 8 + 64 ms twice is not");
    }

    #[test]
    fn one_step_that_was_interrupted_changes_little_and_a_budget_grows_step_by_step() {
        let mut cost = Cost::default();
        cost.set_target(Some(ms(20.0)));
        cost.step(4, 0, ms(8.0));
        let mut budgets = Vec::new();
        for _ in 0..5 {
            let tokens = cost.prefill_budget(4).unwrap();
            budgets.push(tokens);
            cost.step(4, tokens, ms(8.0 + 0.1 * tokens as f64));
        }
        assert_eq!(budgets, [8, 16, 32, 64, 100]);
        cost.step(4, 100, ms(500.0));
        assert_eq!(cost.prefill_budget(4), Some(100));
        for _ in 0..NEWEST {
            cost.step(4, 50, ms(18.0));
        }
        assert_eq!(cost.prefill_budget(4), Some(50), "but what stays is believed");
    }

    #[test]
    fn ttft_is_the_way_to_a_seat_and_the_prompts_before() {
        let mut cost = Cost::default();
        let ahead = Ahead {
            remaining: vec![30.0, 10.0],
            free_seats: 0,
            waiting: 0,
            mean_answer: 50.0,
            prompt_tokens_ahead: 0,
            prompt_tokens: 100,
            tokens_per_step: 50,
            chunk: 50,
            least_step: 0.0,
        };
        assert_eq!(cost.expected_ttft(&ahead), None, "nothing is known yet");
        cost.step(0, 100, ms(100.0));
        cost.step(2, 0, ms(5.0));
        let near = |seconds: Option<f64>, expected: f64| (seconds.unwrap() - expected).abs() < 1e-9;
        assert!(near(cost.expected_ttft(&ahead), 0.05 + 0.01 + 0.1), "10 steps, two chunks beside decodes, 100 tokens");
        assert!(
            near(cost.expected_ttft(&Ahead { waiting: 1, ..ahead.clone() }), 0.15 + 0.11),
            "the next seat after that: 30 steps"
        );
        assert!(
            near(cost.expected_ttft(&Ahead { waiting: 2, ..ahead.clone() }), 0.3 + 0.11),
            "10 + 50 steps, and the other in between"
        );
        assert!(near(cost.expected_ttft(&Ahead { remaining: vec![], free_seats: 1, ..ahead.clone() }), 0.1));
        let paced = Ahead { least_step: 0.5, ..ahead.clone() };
        assert!(near(cost.expected_ttft(&paced), 5.0 + 1.0), "10 steps and two chunks, half a second each");
        let burst = Ahead { remaining: vec![30.0], free_seats: 1, waiting: 2, ..ahead };
        assert!(near(cost.expected_ttft(&burst), 0.25 + 0.11), "one takes the free seat until 50, one the other until 80");
    }
}
