//! How well a model tells a text, and what it would have chosen at each place.

use batchroom::batch::{Batch, BlockId, RequestId, Row, RowKind, UserId};
use batchroom::model::{Llama, ModelError};
use batchroom::text::TextModel;

/// Tokens of one forward pass.
const CHUNK: usize = 128;

/// What a model made of a text.
#[derive(Clone, Default)]
pub struct Told {
    /// Surprise over all tokens that were told, log2(1 / probability).
    pub bits: f64,
    /// Bytes of those tokens.
    pub bytes: usize,
    /// The likeliest token in the place of each.
    pub choices: Vec<u32>,
}

impl Told {
    pub fn bits_per_byte(&self) -> f64 {
        self.bits / self.bytes as f64
    }

    /// The share of places in which both would choose the same.
    pub fn agreement(&self, other: &Told) -> f64 {
        assert!(!self.choices.is_empty() && self.choices.len() == other.choices.len());
        let same = self.choices.iter().zip(&other.choices).filter(|(a, b)| a == b).count();
        same as f64 / self.choices.len() as f64
    }

    fn add(&mut self, logits: &[f32], token: u32, bytes: usize) {
        let (best, highest) = logits
            .iter()
            .enumerate()
            .fold((0, f32::NEG_INFINITY), |best, (index, logit)| if *logit > best.1 { (index, *logit) } else { best });
        let highest = f64::from(highest);
        let sum: f64 = logits.iter().map(|logit| (f64::from(*logit) - highest).exp()).sum();
        self.bits += (sum.ln() + highest - f64::from(logits[token as usize])) / std::f64::consts::LN_2;
        self.bytes += bytes;
        self.choices.push(best as u32);
    }
}

/// Tells a text in pieces of `window` tokens, none of which knows the one before: all but the first token of each count.
///
/// # Errors
/// When the model cannot: `window` is past its context or its KV memory.
pub fn tell(model: &mut Llama, text: &TextModel, tokens: &[u32], window: usize) -> Result<Told, ModelError> {
    let mut told = Told::default();
    let vocab = model.vocab();
    for piece in tokens.chunks(window) {
        let mut start = 0;
        for tokens in piece.chunks(CHUNK) {
            let blocks = (start + tokens.len()).div_ceil(model.block_size());
            let row = Row {
                id: RequestId(0),
                user: UserId(0),
                start,
                tokens: 0..tokens.len(),
                blocks: 0..blocks,
                kind: RowKind::Prefill,
                samples: false,
            };
            let blocks = (0..blocks as u32).map(BlockId).collect();
            let batch = Batch { step: 1, rows: vec![row], tokens: tokens.to_vec(), blocks, copies: Vec::new() };
            let logits = model.forward_all(&batch)?;
            // Each place tells the next token.
            for (logits, next) in logits.chunks_exact(vocab).zip(&piece[start + 1..]) {
                told.add(logits, *next, text.token_bytes(*next).len());
            }
            start += tokens.len();
        }
    }
    Ok(told)
}
