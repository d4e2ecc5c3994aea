//! The pages of KV memory: who holds which, which are free, and which still hold something of use.

use crate::batch::BlockId;

use super::list::{Links, List};
use super::prefix::{ContentId, PrefixIndex};

/// Blocks that `tokens` positions need.
pub fn blocks_for(tokens: usize, block_size: usize) -> usize {
    tokens.div_ceil(block_size)
}

/// Every block of the budget is in exactly one of these: `used + cached + free = total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCounts {
    /// In at least one block table.
    pub used: usize,
    /// In no table, kept for its contents: free as soon as somebody needs it.
    pub cached: usize,
    pub free: usize,
}

/// What one block is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockUse {
    /// In so many block tables.
    Used(u32),
    Cached,
    Free,
    /// Outside of the budget.
    Spare,
}

/// Allots blocks to block tables, takes them back, and remembers what full ones hold.
///
/// A block's reference count is the number of tables that hold it. Freed blocks without remembered contents are
/// reused first, oldest first, so that stale contents are noticed by a reader as late and as visibly as possible;
/// then the cached ones, least recently used first, and of one sequence the tail before the head.
#[derive(Clone, Debug)]
pub struct BlockManager {
    block_size: usize,
    references: Vec<u32>,
    links: Links,
    free: List,
    cached: List,
    /// Physical blocks that the budget leaves out.
    spare: List,
    used: usize,
    contents: PrefixIndex,
    evicted: u64,
}

impl BlockManager {
    /// `total` blocks of `block_size` token positions, all free.
    pub fn new(total: usize, block_size: usize) -> BlockManager {
        assert!(block_size > 0, "a block holds at least one token");
        assert!(u32::try_from(total).is_ok_and(|total| total < u32::MAX), "block ids are 32 bits");
        let mut links = Links::new(total);
        let mut free = List::default();
        (0..total).for_each(|block| free.push_back(&mut links, id(block)));
        BlockManager {
            block_size,
            references: vec![0; total],
            links,
            free,
            cached: List::default(),
            spare: List::default(),
            used: 0,
            contents: PrefixIndex::new(total, block_size),
            evicted: 0,
        }
    }

    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// Blocks that may be in use at once: the budget.
    pub fn total(&self) -> usize {
        self.used + self.cached.len() + self.free.len()
    }

    /// Physical blocks: what the budget can be raised to. Block ids are below it.
    pub fn capacity(&self) -> usize {
        self.references.len()
    }

    /// Blocks that can be had now: the free ones, and the cached ones by forgetting what they hold.
    pub fn num_available(&self) -> usize {
        self.free.len() + self.cached.len()
    }

    pub fn counts(&self) -> BlockCounts {
        BlockCounts { used: self.used, cached: self.cached.len(), free: self.free.len() }
    }

    /// Cached blocks that were given to somebody else, since the beginning.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// How many tables hold this block.
    pub fn references(&self, block: BlockId) -> u32 {
        self.references[block.0 as usize]
    }

    /// What each physical block is there for, by its id.
    pub fn uses(&self) -> Vec<BlockUse> {
        let mut uses: Vec<BlockUse> = self.references.iter().map(|count| BlockUse::Used(*count)).collect();
        for (list, what) in [(&self.free, BlockUse::Free), (&self.cached, BlockUse::Cached), (&self.spare, BlockUse::Spare)] {
            list.iter(&self.links).for_each(|block| uses[block.0 as usize] = what);
        }
        uses
    }

    /// Free blocks in the order in which they will be handed out, then cached ones in the order in which they will be
    /// forgotten.
    pub fn next_blocks(&self) -> impl Iterator<Item = BlockId> {
        self.free.iter(&self.links).chain(self.cached.iter(&self.links))
    }

    /// Blocks that `table` lacks to hold `tokens` positions.
    pub fn lacking(&self, table: &[BlockId], tokens: usize) -> usize {
        blocks_for(tokens, self.block_size).saturating_sub(table.len())
    }

    /// Grows `table` at its end until it holds `tokens` positions. All or nothing: false, with everything as it
    /// was, when there are not enough blocks.
    pub fn grow(&mut self, table: &mut Vec<BlockId>, tokens: usize) -> bool {
        let lacking = self.lacking(table, tokens);
        if lacking > self.num_available() {
            return false;
        }
        for _ in 0..lacking {
            let block = self.take_one();
            self.references[block.0 as usize] = 1;
            self.used += 1;
            table.push(block);
        }
        true
    }

    /// A block that nobody needs, out of all lists and with nothing remembered.
    fn take_one(&mut self) -> BlockId {
        let block = self.free.pop_front(&mut self.links).unwrap_or_else(|| {
            let block = self.cached.pop_front(&mut self.links).expect("blocks were counted");
            self.contents.forget(block);
            self.evicted += 1;
            block
        });
        assert_eq!(self.references(block), 0, "a block that is handed out is in no table");
        block
    }

    /// Puts blocks that are held by others, or cached, at the end of `table`: from now on they are shared.
    pub fn share(&mut self, table: &mut Vec<BlockId>, blocks: &[BlockId]) {
        for &block in blocks {
            if self.references(block) == 0 {
                self.cached.remove(&mut self.links, block);
                self.used += 1;
            }
            self.references[block.0 as usize] += 1;
            table.push(block);
        }
    }

    /// Gives back all blocks of `table`, last first, and empties it. What is remembered of them stays remembered.
    pub fn release(&mut self, table: &mut Vec<BlockId>) {
        while let Some(block) = table.pop() {
            let references = &mut self.references[block.0 as usize];
            assert!(*references > 0, "a block in a table has a reference");
            *references -= 1;
            if *references == 0 {
                self.used -= 1;
                let list = if self.contents.holds(block) { &mut self.cached } else { &mut self.free };
                list.push_back(&mut self.links, block);
            }
        }
    }

    /// Remembers what a full and computed block holds, after what `parent` holds. Gives the name of those contents:
    /// of another block, when one holds the same already.
    pub fn remember(&mut self, block: BlockId, parent: ContentId, tokens: &[u32]) -> ContentId {
        debug_assert!(self.references(block) > 0, "only who holds a block knows what is in it");
        self.contents.insert(block, parent, tokens)
    }

    /// The blocks that hold the beginning of `tokens`, as far as it is remembered in whole blocks, and the name of the
    /// last one's contents. At least one token is left out: without one to compute there are no logits.
    pub fn cached_prefix(&self, tokens: &[u32], found: &mut Vec<BlockId>) -> ContentId {
        found.clear();
        let most = tokens.len().saturating_sub(1) / self.block_size;
        let mut parent = ContentId::ROOT;
        for tokens in tokens.chunks_exact(self.block_size).take(most) {
            let Some((block, content)) = self.contents.find(parent, tokens) else { break };
            found.push(block);
            parent = content;
        }
        parent
    }

    /// Forgets what is in all blocks. Those that were kept for it are free.
    pub fn forget_all(&mut self) {
        self.contents.clear();
        while let Some(block) = self.cached.pop_front(&mut self.links) {
            self.free.push_back(&mut self.links, block);
        }
    }

    /// Makes the budget so many blocks, at most [`BlockManager::capacity`]. Whoever calls it has seen to it that no
    /// more are in use.
    pub fn set_total(&mut self, total: usize) {
        assert!(self.used <= total && total <= self.capacity(), "the budget holds what is in use, and is physically there");
        while self.total() > total {
            let block = self.free.pop_back(&mut self.links).unwrap_or_else(|| self.take_one());
            self.spare.push_front(&mut self.links, block);
        }
        while self.total() < total {
            let block = self.spare.pop_front(&mut self.links).expect("what is not in the budget is spare");
            self.free.push_back(&mut self.links, block);
        }
    }
}

fn id(block: usize) -> BlockId {
    BlockId(u32::try_from(block).expect("block ids are 32 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(table: &[BlockId]) -> Vec<u32> {
        table.iter().map(|block| block.0).collect()
    }

    fn counts(blocks: &BlockManager) -> (usize, usize, usize) {
        let BlockCounts { used, cached, free } = blocks.counts();
        assert_eq!(used + cached + free, blocks.total());
        (used, cached, free)
    }

    /// Fills a table with `tokens` and remembers its full blocks.
    fn fill(blocks: &mut BlockManager, table: &mut Vec<BlockId>, tokens: &[u32]) {
        assert!(blocks.grow(table, tokens.len()));
        let mut parent = ContentId::ROOT;
        for (block, tokens) in table.iter().zip(tokens.chunks_exact(blocks.block_size())) {
            parent = blocks.remember(*block, parent, tokens);
        }
    }

    fn hit(blocks: &BlockManager, tokens: &[u32]) -> Vec<u32> {
        let mut found = Vec::new();
        blocks.cached_prefix(tokens, &mut found);
        ids(&found)
    }

    #[test]
    fn a_table_grows_only_when_a_block_is_full() {
        let mut blocks = BlockManager::new(4, 16);
        let mut table = Vec::new();
        for (tokens, expected) in [(1, vec![0]), (16, vec![0]), (17, vec![0, 1]), (64, vec![0, 1, 2, 3])] {
            assert!(blocks.grow(&mut table, tokens));
            assert_eq!(ids(&table), expected, "{tokens} tokens");
        }
        assert_eq!(counts(&blocks), (4, 0, 0));
    }

    #[test]
    fn a_failed_allocation_leaves_everything_as_it_was() {
        let mut blocks = BlockManager::new(4, 4);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        fill(&mut blocks, &mut a, &[1, 2, 3, 4]);
        blocks.release(&mut a);
        assert!(blocks.grow(&mut a, 8));
        let before: Vec<BlockId> = blocks.next_blocks().collect();
        assert!(!blocks.grow(&mut b, 12), "three blocks wanted, one free and one cached");
        assert_eq!((ids(&a), ids(&b), counts(&blocks), blocks.evicted()), (vec![1, 2], vec![], (2, 1, 1), 0));
        assert!(blocks.next_blocks().eq(before), "and the lists are in their old order");
        assert_eq!(hit(&blocks, &[1, 2, 3, 4, 5]), [0], "nothing is forgotten for nothing");
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

    #[test]
    fn a_prefix_is_found_in_whole_blocks_and_one_token_is_always_left() {
        let mut blocks = BlockManager::new(8, 2);
        let mut a = Vec::new();
        fill(&mut blocks, &mut a, &[1, 2, 3, 4, 5]);
        assert_eq!(hit(&blocks, &[1, 2, 3, 4, 9]), [0, 1]);
        assert_eq!(hit(&blocks, &[1, 2, 3, 4]), [0], "the last token is to be computed");
        assert_eq!(hit(&blocks, &[1, 2, 3, 9, 9]), [0]);
        assert_eq!(hit(&blocks, &[3, 4, 1]), [] as [u32; 0], "the same tokens elsewhere are something else");
        assert_eq!(hit(&blocks, &[1]), [] as [u32; 0]);
    }

    #[test]
    fn hits_take_blocks_out_of_the_lru_list_and_put_them_at_its_end_again() {
        let mut blocks = BlockManager::new(4, 2);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        fill(&mut blocks, &mut a, &[1, 2, 3, 4]);
        fill(&mut blocks, &mut b, &[5, 6, 7, 8]);
        blocks.release(&mut a);
        blocks.release(&mut b);
        assert_eq!(
            (counts(&blocks), blocks.next_blocks().map(|block| block.0).collect::<Vec<_>>()),
            ((0, 4, 0), vec![1, 0, 3, 2])
        );
        let mut found = Vec::new();
        blocks.cached_prefix(&[1, 2, 9], &mut found);
        blocks.share(&mut a, &found);
        assert_eq!((ids(&a), counts(&blocks)), (vec![0], (1, 3, 0)));
        blocks.share(&mut b, &found);
        assert_eq!((blocks.references(BlockId(0)), counts(&blocks)), (2, (1, 3, 0)), "a shared block counts once");
        blocks.release(&mut b);
        assert_eq!(counts(&blocks), (1, 3, 0));
        blocks.release(&mut a);
        assert_eq!(blocks.next_blocks().map(|block| block.0).collect::<Vec<_>>(), [1, 3, 2, 0]);
    }

    #[test]
    fn what_is_not_remembered_goes_first_then_the_least_recently_used() {
        let mut blocks = BlockManager::new(4, 2);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        fill(&mut blocks, &mut a, &[1, 2, 3, 4, 5]);
        blocks.release(&mut a);
        assert_eq!((counts(&blocks), hit(&blocks, &[1, 2, 3, 4, 5])), ((0, 2, 2), vec![0, 1]));
        assert!(blocks.grow(&mut b, 6));
        assert_eq!((ids(&b), blocks.evicted()), (vec![3, 2, 1], 1), "the tail of what was cached");
        assert_eq!(hit(&blocks, &[1, 2, 3, 4, 5]), [0]);
        assert!(blocks.grow(&mut b, 8));
        assert_eq!((ids(&b), hit(&blocks, &[1, 2, 3])), (vec![3, 2, 1, 0], vec![]));
    }

    #[test]
    fn the_same_contents_are_remembered_once() {
        let mut blocks = BlockManager::new(4, 2);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        fill(&mut blocks, &mut a, &[1, 2, 3, 4]);
        fill(&mut blocks, &mut b, &[1, 2, 3, 4]);
        assert_eq!(hit(&blocks, &[1, 2, 3, 4, 5]), [0, 1]);
        blocks.release(&mut b);
        assert_eq!(counts(&blocks), (2, 0, 2), "the double is simply free");
    }

    #[test]
    fn the_budget_shrinks_over_free_and_cached_blocks_and_grows_again() {
        let mut blocks = BlockManager::new(6, 2);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        fill(&mut blocks, &mut a, &[1, 2, 3, 4]);
        blocks.release(&mut a);
        assert!(blocks.grow(&mut b, 4));
        blocks.set_total(3);
        assert_eq!((counts(&blocks), hit(&blocks, &[1, 2, 3])), ((2, 1, 0), vec![0]));
        assert!(!blocks.grow(&mut b, 8));
        blocks.set_total(2);
        assert_eq!((counts(&blocks), blocks.capacity(), hit(&blocks, &[1, 2, 3])), ((2, 0, 0), 6, vec![]));
        blocks.set_total(6);
        assert!(blocks.grow(&mut b, 12));
        let mut all = ids(&b);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn forgetting_frees_what_was_kept() {
        let mut blocks = BlockManager::new(3, 2);
        let mut a = Vec::new();
        fill(&mut blocks, &mut a, &[1, 2, 3, 4]);
        blocks.release(&mut a);
        blocks.forget_all();
        assert_eq!((counts(&blocks), hit(&blocks, &[1, 2, 3])), ((0, 0, 3), vec![]));
    }
}
