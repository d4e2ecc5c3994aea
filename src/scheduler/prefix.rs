//! What full blocks hold, so that the same beginning need not be computed twice.
//!
//! A chain: contents are named, and found by the name of what comes before and a hash of their own tokens (the idea of
//! vLLM's automatic prefix caching, whose chains are of hashes; and of the radix tree of SGLang, Zheng et al. 2023). A
//! name is given once and never again, and the tokens themselves are compared, so two prefixes can not be taken for one
//! another, whatever their hashes. One index serves one model: nothing of another model can be in its blocks.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::batch::BlockId;

/// The name of one block's contents, with all that comes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentId(u64);

impl ContentId {
    /// Before the first token.
    pub const ROOT: ContentId = ContentId(0);
}

#[derive(Clone, Copy, Debug)]
struct Held {
    id: ContentId,
    key: (ContentId, u64),
}

/// At most one block for each contents.
#[derive(Clone, Debug)]
pub(super) struct PrefixIndex {
    block_size: usize,
    held: Vec<Option<Held>>,
    /// The tokens of every block, block after block; empty until something is remembered.
    tokens: Vec<u32>,
    by_key: HashMap<(ContentId, u64), BlockId>,
    last_id: u64,
}

impl PrefixIndex {
    pub fn new(blocks: usize, block_size: usize) -> PrefixIndex {
        PrefixIndex { block_size, held: vec![None; blocks], tokens: Vec::new(), by_key: HashMap::new(), last_id: 0 }
    }

    pub fn holds(&self, block: BlockId) -> bool {
        self.held[block.0 as usize].is_some()
    }

    /// Remembers a block's contents. Gives their name; that of another block when it holds the same. Of different
    /// tokens with the same hash only the first are remembered.
    pub fn insert(&mut self, block: BlockId, parent: ContentId, tokens: &[u32]) -> ContentId {
        assert_eq!(tokens.len(), self.block_size, "only full blocks are remembered");
        if self.tokens.is_empty() {
            self.tokens = vec![0; self.held.len() * self.block_size];
            self.by_key.reserve(self.held.len());
        }
        if let Some((_, id)) = self.find(parent, tokens) {
            return id;
        }
        // What hangs on contents that are forgotten cannot be found. A fork may come to share such a block, and knows the
        // contents before it under another name: from now on it is found by that.
        if let Some(held) = self.held[block.0 as usize] {
            let start = block.0 as usize * self.block_size;
            let same = self.tokens[start..start + self.block_size] == *tokens;
            assert!(same && held.key.0 != parent, "a block's contents do not change while somebody holds it");
            self.forget(block);
        }
        self.last_id += 1;
        let id = ContentId(self.last_id);
        let key = (parent, hash(tokens));
        if let Entry::Vacant(entry) = self.by_key.entry(key) {
            entry.insert(block);
            self.held[block.0 as usize] = Some(Held { id, key });
            let start = block.0 as usize * self.block_size;
            self.tokens[start..start + self.block_size].copy_from_slice(tokens);
        }
        id
    }

    /// The block that holds these tokens after `parent`, and the name of that.
    pub fn find(&self, parent: ContentId, tokens: &[u32]) -> Option<(BlockId, ContentId)> {
        if self.by_key.is_empty() {
            return None;
        }
        let block = *self.by_key.get(&(parent, hash(tokens)))?;
        let start = block.0 as usize * self.block_size;
        let held = self.held[block.0 as usize].expect("the index names blocks that hold something");
        (self.tokens[start..start + self.block_size] == *tokens).then_some((block, held.id))
    }

    pub fn forget(&mut self, block: BlockId) {
        if let Some(held) = self.held[block.0 as usize].take() {
            self.by_key.remove(&held.key);
        }
    }

    pub fn clear(&mut self) {
        self.held.fill(None);
        self.by_key.clear();
    }
}

/// FNV-1a over whole tokens (Fowler, Noll, Vo), with the mixer of splitmix64 at the end.
fn hash(tokens: &[u32]) -> u64 {
    let sum =
        tokens.iter().fold(0xCBF2_9CE4_8422_2325, |sum: u64, token| (sum ^ u64::from(*token)).wrapping_mul(0x100_0000_01B3));
    let mixed = (sum ^ (sum >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_with_the_same_hash_are_not_the_same_tokens() {
        let mut index = PrefixIndex::new(2, 2);
        let first = index.insert(BlockId(0), ContentId::ROOT, &[1, 2]);
        // The same key for other tokens, as a collision would have it.
        index.tokens[0] = 9;
        assert_eq!(index.find(ContentId::ROOT, &[1, 2]), None);
        let second = index.insert(BlockId(1), ContentId::ROOT, &[1, 2]);
        assert!(first != second && !index.holds(BlockId(1)), "the second is not remembered, and not taken for the first");
    }

    #[test]
    fn names_are_not_given_twice() {
        let mut index = PrefixIndex::new(1, 1);
        let first = index.insert(BlockId(0), ContentId::ROOT, &[1]);
        index.forget(BlockId(0));
        let second = index.insert(BlockId(0), ContentId::ROOT, &[1]);
        assert_ne!(first, second, "what hung on the first is not found under the second");
    }
}
