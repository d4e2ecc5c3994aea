//! Ordered lists of blocks with removal from the middle in constant time.

use crate::batch::BlockId;

const NONE: u32 = u32::MAX;

/// Each block's neighbours in the one list that it is in.
#[derive(Clone, Debug)]
pub(super) struct Links {
    previous: Vec<u32>,
    next: Vec<u32>,
}

impl Links {
    pub fn new(blocks: usize) -> Links {
        Links { previous: vec![NONE; blocks], next: vec![NONE; blocks] }
    }
}

/// A doubly linked list through [`Links`]. A block is in at most one list at a time: that is the caller's care.
#[derive(Clone, Debug)]
pub(super) struct List {
    first: u32,
    last: u32,
    len: usize,
}

impl Default for List {
    fn default() -> List {
        List { first: NONE, last: NONE, len: 0 }
    }
}

impl List {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn push_back(&mut self, links: &mut Links, block: BlockId) {
        self.insert(links, block.0, self.last, NONE);
    }

    pub fn push_front(&mut self, links: &mut Links, block: BlockId) {
        self.insert(links, block.0, NONE, self.first);
    }

    fn insert(&mut self, links: &mut Links, block: u32, previous: u32, next: u32) {
        links.previous[block as usize] = previous;
        links.next[block as usize] = next;
        self.join(links, previous, block);
        self.join(links, block, next);
        self.len += 1;
    }

    pub fn pop_front(&mut self, links: &mut Links) -> Option<BlockId> {
        self.pop(links, self.first)
    }

    pub fn pop_back(&mut self, links: &mut Links) -> Option<BlockId> {
        self.pop(links, self.last)
    }

    fn pop(&mut self, links: &mut Links, block: u32) -> Option<BlockId> {
        if block == NONE {
            return None;
        }
        self.remove(links, BlockId(block));
        Some(BlockId(block))
    }

    /// Takes a block out that is in this list.
    pub fn remove(&mut self, links: &mut Links, block: BlockId) {
        let at = block.0 as usize;
        let (previous, next) = (links.previous[at], links.next[at]);
        // The ends of the list and its neighbours' links say the same, whichever side is asked.
        if previous == NONE {
            assert_eq!(self.first, block.0, "the block is in this list");
            self.first = next;
        } else {
            links.next[previous as usize] = next;
        }
        if next == NONE {
            assert_eq!(self.last, block.0, "the block is in this list");
            self.last = previous;
        } else {
            links.previous[next as usize] = previous;
        }
        self.len -= 1;
    }

    fn join(&mut self, links: &mut Links, left: u32, right: u32) {
        match left {
            NONE => self.first = right,
            left => links.next[left as usize] = right,
        }
        match right {
            NONE => self.last = left,
            right => links.previous[right as usize] = left,
        }
    }

    /// First to last.
    pub fn iter<'a>(&self, links: &'a Links) -> impl Iterator<Item = BlockId> + use<'a> {
        let some = |block: u32| (block != NONE).then_some(block);
        std::iter::successors(some(self.first), move |block| some(links.next[*block as usize])).map(BlockId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn a_list_does_what_a_deque_does() {
        let mut links = Links::new(16);
        let (mut list, mut deque) = (List::default(), VecDeque::new());
        let mut seed = 7u64;
        for _ in 0..10_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let block = BlockId((seed >> 40) as u32 % 16);
            match (seed >> 60) % 4 {
                0 | 1 if deque.contains(&block) => {
                    list.remove(&mut links, block);
                    deque.retain(|other| *other != block);
                }
                0 => {
                    list.push_back(&mut links, block);
                    deque.push_back(block);
                }
                1 => {
                    list.push_front(&mut links, block);
                    deque.push_front(block);
                }
                2 => assert_eq!(list.pop_front(&mut links), deque.pop_front()),
                _ => assert_eq!(list.pop_back(&mut links), deque.pop_back()),
            }
            assert!(list.iter(&links).eq(deque.iter().copied()) && list.len() == deque.len());
        }
    }
}
