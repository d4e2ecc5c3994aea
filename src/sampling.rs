//! Logits to a token.

/// How one request's tokens are chosen, and when it ends.
#[derive(Clone, Debug, PartialEq)]
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
