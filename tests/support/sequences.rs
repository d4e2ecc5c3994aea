//! Runs sequences through a model in many ways, to see that the way does not matter.

use std::collections::VecDeque;

use batchroom::batch::{Batch, BlockId, RequestId, Row, RowKind, UserId};
use batchroom::model::{Llama, ModelError, TensorLlama};

use super::argmax;
use super::random::Random;

/// What runs batches over pages.
pub trait Paged {
    fn run(&mut self, batch: &Batch) -> Result<&[f32], ModelError>;
    fn vocab(&self) -> usize;
    fn block_size(&self) -> usize;
    fn num_blocks(&self) -> usize;
}

macro_rules! paged {
    ($model:ty) => {
        impl Paged for $model {
            fn run(&mut self, batch: &Batch) -> Result<&[f32], ModelError> {
                self.forward(batch)
            }
            fn vocab(&self) -> usize {
                self.vocab()
            }
            fn block_size(&self) -> usize {
                self.block_size()
            }
            fn num_blocks(&self) -> usize {
                self.num_blocks()
            }
        }
    };
}

paged!(Llama);
paged!(TensorLlama);

/// How sequences are put into batches.
#[derive(Clone, Debug)]
pub struct Manner {
    /// Tokens of one row at most.
    pub chunk: usize,
    /// Sequence i begins in step i times this: prompts then meet decodes.
    pub stagger: usize,
    /// Rows in another order each step, blocks from all over.
    pub shuffled: bool,
    /// After so many steps, everybody gives up its blocks and begins again (keeping its text).
    pub preempt_at: Option<usize>,
    pub seed: u64,
}

impl Default for Manner {
    fn default() -> Self {
        Manner { chunk: usize::MAX, stagger: 0, shuffled: false, preempt_at: None, seed: 1 }
    }
}

struct Sequence {
    tokens: Vec<u32>,
    computed: usize,
    table: Vec<BlockId>,
    /// Bits of the logits that each new token was chosen by.
    logits: Vec<Vec<u32>>,
}

/// Generates `steps` tokens greedily for each prompt. Returns, for each, the bits of the logits of every choice.
pub fn generate(model: &mut impl Paged, prompts: &[Vec<u32>], steps: usize, manner: &Manner) -> Vec<Vec<Vec<u32>>> {
    let mut random = Random(manner.seed);
    let mut free: Vec<BlockId> = (0..model.num_blocks() as u32).map(BlockId).collect();
    if manner.shuffled {
        random.shuffle(&mut free);
    }
    let mut free = VecDeque::from(free);
    let sequence = |prompt: &Vec<u32>| Sequence { tokens: prompt.clone(), computed: 0, table: Vec::new(), logits: Vec::new() };
    let mut sequences: Vec<Sequence> = prompts.iter().map(sequence).collect();
    for step in 0.. {
        if manner.preempt_at == Some(step) {
            for sequence in &mut sequences {
                free.extend(sequence.table.drain(..));
                sequence.computed = 0;
            }
        }
        let mut order: Vec<usize> = (0..sequences.len()).filter(|index| sequences[*index].logits.len() < steps).collect();
        if order.is_empty() {
            break;
        }
        order.retain(|index| index * manner.stagger <= step);
        if manner.shuffled {
            random.shuffle(&mut order);
        }
        run_step(model, &mut sequences, &order, manner.chunk, &mut free);
    }
    sequences.into_iter().map(|sequence| sequence.logits).collect()
}

fn run_step(model: &mut impl Paged, sequences: &mut [Sequence], order: &[usize], chunk: usize, free: &mut VecDeque<BlockId>) {
    let mut batch = Batch::default();
    for index in order {
        let sequence = &mut sequences[*index];
        let count = (sequence.tokens.len() - sequence.computed).min(chunk);
        let end = sequence.computed + count;
        while sequence.table.len() * model.block_size() < end {
            sequence.table.push(free.pop_front().expect("enough blocks"));
        }
        let (tokens, blocks) = (batch.tokens.len(), batch.blocks.len());
        batch.tokens.extend(&sequence.tokens[sequence.computed..end]);
        batch.blocks.extend(&sequence.table);
        batch.rows.push(Row {
            id: RequestId(*index as u64),
            user: UserId(*index as u32),
            start: sequence.computed,
            tokens: tokens..tokens + count,
            blocks: blocks..blocks + sequence.table.len(),
            kind: if count == 1 { RowKind::Decode } else { RowKind::Prefill },
            samples: end == sequence.tokens.len(),
        });
        sequence.computed = end;
    }
    let vocab = model.vocab();
    let logits = model.run(&batch).unwrap();
    assert_eq!(logits.len(), batch.num_sampled() * vocab);
    let sampling = batch.rows.iter().zip(order).filter(|(row, _)| row.samples);
    for ((_, index), logits) in sampling.zip(logits.chunks_exact(vocab)) {
        let sequence = &mut sequences[*index];
        sequence.logits.push(logits.iter().map(|value| value.to_bits()).collect());
        sequence.tokens.push(argmax(logits));
    }
}

/// A batch of one row: positions `0..tokens.len()` in the first blocks.
pub fn whole(model: &impl Paged, tokens: &[u32]) -> Batch {
    let blocks = tokens.len().div_ceil(model.block_size());
    let row = Row {
        id: RequestId(0),
        user: UserId(0),
        start: 0,
        tokens: 0..tokens.len(),
        blocks: 0..blocks,
        kind: RowKind::Prefill,
        samples: true,
    };
    let blocks = (0..blocks as u32).map(BlockId).collect();
    Batch { step: 1, rows: vec![row], tokens: tokens.to_vec(), blocks, copies: Vec::new() }
}
