//! A batch, checked: what each of its tokens is, where it stands, and where its keys and values go.

use std::ops::Range;

use crate::batch::{Batch, BlockCopy, Row};

use super::super::error::ModelError;
use super::super::kernels::{Slot, TOKENS};
use super::config::LlamaConfig;

/// The pages of a KV memory, for a batch to be held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) struct Pages {
    pub blocks: usize,
    /// Positions in a block.
    pub block_size: usize,
}

impl Pages {
    /// # Errors
    /// When the kernels have no layout for such a block.
    pub fn new(blocks: usize, block_size: usize) -> Result<Pages, ModelError> {
        if block_size == 0 || block_size > 1024 || !block_size.is_multiple_of(16) {
            return Err(ModelError::BlockSize(block_size));
        }
        Ok(Pages { blocks, block_size })
    }

    /// Positions in all blocks.
    pub fn slots(self) -> usize {
        self.blocks.saturating_mul(self.block_size)
    }

    /// # Errors
    /// When a copy is from or to a block that is not there.
    pub fn check_copies(self, copies: &[BlockCopy]) -> Result<(), ModelError> {
        let outside = |copy: &&BlockCopy| copy.from.0 as usize >= self.blocks || copy.to.0 as usize >= self.blocks;
        match copies.iter().find(outside) {
            None => Ok(()),
            Some(BlockCopy { from, to }) => {
                Err(ModelError::BadBatch(format!("block {} is to be copied to {}, and there are {}", from.0, to.0, self.blocks)))
            }
        }
    }
}

/// One token of a batch.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct Token {
    pub id: u32,
    /// Its row's number in the batch.
    pub row: usize,
    pub position: usize,
    pub slot: Slot,
}

/// The checked batch. Kept from step to step, so that its memory is.
#[derive(Default)]
pub(in crate::model) struct StepPlan {
    pub tokens: Vec<Token>,
    /// Tokens of one row, as many at a time as are attended to together; all tokens in order.
    pub tiles: Vec<Range<usize>>,
    /// Indices of the tokens whose logits are wanted.
    pub wanted: Vec<usize>,
    /// For each slot of the cache, the last step that wrote it.
    written: Vec<u32>,
    step: u32,
}

impl StepPlan {
    /// Checks `batch` against the model and the cache.
    ///
    /// # Errors
    /// When a copy's or a row's block or a token does not exist, a row is empty or out of its lists, a position is past
    /// the context, a table is too short, or two tokens would be written to one place.
    pub fn build(&mut self, batch: &Batch, config: &LlamaConfig, pages: Pages, all: bool) -> Result<(), ModelError> {
        pages.check_copies(&batch.copies)?;
        self.tokens.clear();
        self.wanted.clear();
        self.tiles.clear();
        self.written.resize(pages.slots(), 0);
        self.step = self.step.checked_add(1).unwrap_or_else(|| {
            self.written.fill(0);
            1
        });
        for (index, row) in batch.rows.iter().enumerate() {
            self.add_row(batch, index, row, config, pages)
                .map_err(|what| ModelError::BadBatch(format!("row {index} ({}) {what}", row.id)))?;
            let (first, end) = (self.tokens.len() - row.len(), self.tokens.len());
            self.tiles.extend((first..end).step_by(TOKENS).map(|from| from..end.min(from + TOKENS)));
            match (all, row.samples) {
                (true, _) => self.wanted.extend(first..end),
                (false, true) => self.wanted.push(end - 1),
                (false, false) => {}
            }
        }
        Ok(())
    }

    fn add_row(&mut self, batch: &Batch, index: usize, row: &Row, config: &LlamaConfig, pages: Pages) -> Result<(), String> {
        let size = pages.block_size;
        let ids = batch.tokens.get(row.tokens.clone()).filter(|ids| !ids.is_empty());
        let ids = ids.ok_or_else(|| format!("has the tokens {:?} of {}", row.tokens, batch.tokens.len()))?;
        let table = batch.blocks.get(row.blocks.clone());
        let table = table.ok_or_else(|| format!("has the blocks {:?} of {}", row.blocks, batch.blocks.len()))?;
        let end = row.start.checked_add(ids.len()).filter(|end| *end <= config.context);
        let end = end.ok_or_else(|| format!("reaches {} + {} positions of {}", row.start, ids.len(), config.context))?;
        let needed = end.div_ceil(size);
        if table.len() < needed {
            return Err(format!("has {} blocks and needs {needed} for {end} positions", table.len()));
        }
        if let Some(block) = table[..needed].iter().find(|block| block.0 as usize >= pages.blocks) {
            return Err(format!("has block {} of {}", block.0, pages.blocks));
        }
        for (offset, id) in ids.iter().enumerate() {
            if *id as usize >= config.vocab {
                return Err(format!("has token {id}, and the vocabulary has {}", config.vocab));
            }
            let position = row.start + offset;
            let slot = Slot { block: table[position / size], slot: position % size };
            let mark = &mut self.written[slot.block.0 as usize * size + slot.slot];
            if std::mem::replace(mark, self.step) == self.step {
                return Err(format!(
                    "writes position {position} into block {}, slot {}, like another token",
                    slot.block.0, slot.slot
                ));
            }
            self.tokens.push(Token { id: *id, row: index, position, slot });
        }
        Ok(())
    }
}
