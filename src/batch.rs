//! What one forward pass computes: the only vocabulary that the scheduler and the model share.
//!
//! A [`Batch`] is flat: all tokens of all rows in one list, all block tables in another, so that a step
//! reuses the same few buffers instead of allocating.

use std::fmt;
use std::ops::Range;

/// One request, unique for the life of an engine, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Who asked: a chat pane, a line of a prompts file, later an HTTP client. Colours and accounts go by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserId(pub u32);

/// Index of one fixed-size page of KV memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// What a row is doing, for the eye and for the accounts; the arithmetic is the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowKind {
    /// Positions whose tokens were known before: a prompt, or text recomputed after a preemption.
    Prefill,
    /// The one newest token of a sequence whose whole past is computed.
    Decode,
}

/// One sequence's share of a forward pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub id: RequestId,
    pub user: UserId,
    /// Position in its sequence of the first token computed here.
    pub start: usize,
    /// Where this row's tokens lie in [`Batch::tokens`].
    pub tokens: Range<usize>,
    /// Where this row's block table lies in [`Batch::blocks`]; it covers positions `0..start + tokens.len()`.
    pub blocks: Range<usize>,
    pub kind: RowKind,
    /// Whether the logits of the last token are wanted (the row has caught up with its sequence).
    pub samples: bool,
}

impl Row {
    /// Number of tokens that this row computes.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// A row always computes at least one token; this is here for completeness.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
}

/// A whole block whose keys and values are written over another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockCopy {
    pub from: BlockId,
    pub to: BlockId,
}

/// The rows of one forward pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The step's number, from 1.
    pub step: u64,
    pub rows: Vec<Row>,
    /// Token ids of all rows, row after row.
    pub tokens: Vec<u32>,
    /// Block tables of all rows, row after row.
    pub blocks: Vec<BlockId>,
    /// Whole blocks to be copied, in order, before anything of this batch is computed (copy-on-write of a forked
    /// sequence).
    pub copies: Vec<BlockCopy>,
}

impl Batch {
    /// Whether nothing is computed. There may still be [`Batch::copies`] to carry out.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Token ids of one row.
    pub fn row_tokens(&self, row: &Row) -> &[u32] {
        &self.tokens[row.tokens.clone()]
    }

    /// Block table of one row.
    pub fn row_blocks(&self, row: &Row) -> &[BlockId] {
        &self.blocks[row.blocks.clone()]
    }

    /// How many rows want logits: the model returns that many vectors, in row order.
    pub fn num_sampled(&self) -> usize {
        self.rows.iter().filter(|row| row.samples).count()
    }

    pub fn clear(&mut self) {
        self.rows.clear();
        self.tokens.clear();
        self.blocks.clear();
        self.copies.clear();
    }
}
