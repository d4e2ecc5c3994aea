//! The pages of KV memory: who holds which, and which are free.

use std::collections::VecDeque;

use crate::batch::BlockId;

/// Blocks that `tokens` positions need.
pub fn blocks_for(tokens: usize, block_size: usize) -> usize {
    tokens.div_ceil(block_size)
}

/// Every block is in exactly one of these: `used + cached + free = total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCounts {
    /// In at least one block table.
    pub used: usize,
    /// In no table, kept for its contents. Always 0 as long as there is no prefix cache.
    pub cached: usize,
    pub free: usize,
}

/// Allots blocks to block tables and takes them back.
///
/// Knows nothing of contents: the model writes them. A block's reference count is the number of tables that
/// hold it. Freed blocks are reused oldest first, so that stale contents are noticed by a reader as late and as
/// visibly as possible, and the map on screen does not flicker between the same few cells.
#[derive(Clone, Debug)]
pub struct BlockManager {
    block_size: usize,
    references: Vec<u32>,
    free: VecDeque<BlockId>,
}

impl BlockManager {
    /// `total` blocks of `block_size` token positions, all free.
    pub fn new(total: usize, block_size: usize) -> BlockManager {
        assert!(block_size > 0, "a block holds at least one token");
        let last = u32::try_from(total).expect("block ids are 32 bits");
        BlockManager { block_size, references: vec![0; total], free: (0..last).map(BlockId).collect() }
    }

    pub fn block_size(&self) -> usize {
        self.block_size
    }

    pub fn total(&self) -> usize {
        self.references.len()
    }

    pub fn num_free(&self) -> usize {
        self.free.len()
    }

    pub fn counts(&self) -> BlockCounts {
        BlockCounts { used: self.total() - self.free.len(), cached: 0, free: self.free.len() }
    }

    /// How many tables hold this block.
    pub fn references(&self, block: BlockId) -> u32 {
        self.references[block.0 as usize]
    }

    /// Blocks that `table` lacks to hold `tokens` positions.
    pub fn lacking(&self, table: &[BlockId], tokens: usize) -> usize {
        blocks_for(tokens, self.block_size).saturating_sub(table.len())
    }

    /// Grows `table` at its end until it holds `tokens` positions. All or nothing: false, with everything as it
    /// was, when there are not enough free blocks.
    pub fn grow(&mut self, table: &mut Vec<BlockId>, tokens: usize) -> bool {
        let lacking = self.lacking(table, tokens);
        if lacking > self.free.len() {
            return false;
        }
        for block in self.free.drain(..lacking) {
            let references = &mut self.references[block.0 as usize];
            assert_eq!(*references, 0, "a free block is in no table");
            *references = 1;
            table.push(block);
        }
        true
    }

    /// Gives back all blocks of `table`, last first, and empties it.
    pub fn release(&mut self, table: &mut Vec<BlockId>) {
        while let Some(block) = table.pop() {
            let references = &mut self.references[block.0 as usize];
            assert!(*references > 0, "a block in a table has a reference");
            *references -= 1;
            if *references == 0 {
                self.free.push_back(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(table: &[BlockId]) -> Vec<u32> {
        table.iter().map(|block| block.0).collect()
    }

    #[test]
    fn a_table_grows_only_when_a_block_is_full() {
        let mut blocks = BlockManager::new(4, 16);
        let mut table = Vec::new();
        for (tokens, expected) in [(1, vec![0]), (16, vec![0]), (17, vec![0, 1]), (64, vec![0, 1, 2, 3])] {
            assert!(blocks.grow(&mut table, tokens));
            assert_eq!(ids(&table), expected, "{tokens} tokens");
        }
        assert_eq!(blocks.counts(), BlockCounts { used: 4, cached: 0, free: 0 });
    }

    #[test]
    fn a_failed_allocation_leaves_everything_as_it_was() {
        let mut blocks = BlockManager::new(3, 4);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        assert!(blocks.grow(&mut a, 8));
        assert!(!blocks.grow(&mut b, 8), "two blocks wanted, one free");
        assert_eq!((ids(&a), ids(&b)), (vec![0, 1], vec![]));
        assert_eq!(blocks.counts(), BlockCounts { used: 2, cached: 0, free: 1 });
        assert!(blocks.grow(&mut b, 4), "one block still fits");
        assert_eq!(ids(&b), [2]);
    }

    #[test]
    fn freed_blocks_come_back_oldest_first_tails_before_heads() {
        let mut blocks = BlockManager::new(4, 1);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        assert!(blocks.grow(&mut a, 3));
        blocks.release(&mut a);
        assert!(a.is_empty());
        assert!(blocks.grow(&mut b, 4));
        assert_eq!(ids(&b), [3, 2, 1, 0]);
    }
}
