//! Reading ahead: keys and values that the next attention will want are asked for while products keep the arithmetic
//! units busy and the memory idle. Attention itself does little arithmetic for each byte and would wait for all of it.

use std::cell::Cell;
use std::ops::Range;

use super::simd::prefetch;

/// Pages of memory that will be read soon.
#[derive(Clone, Copy)]
pub struct Ahead<'a> {
    memory: &'a [u8],
    /// Where pages begin, in bytes.
    pages: &'a [usize],
    /// Bytes of a page.
    len: usize,
}

impl<'a> Ahead<'a> {
    pub const NOTHING: Ahead<'static> = Ahead { memory: &[], pages: &[], len: 0 };

    /// Pages of `len` bytes at the places `pages` in `memory`. The way ends at a page that is not inside.
    pub fn new(memory: &'a [u8], pages: &'a [usize], len: usize) -> Ahead<'a> {
        Ahead { memory, pages, len }
    }

    /// The pages that go with a piece of some work of `total` indices: pieces that together are the work have together
    /// all the pages, each once.
    pub(super) fn share(&self, piece: &Range<usize>, total: usize) -> Walk<'a> {
        let page = |index: usize| self.pages.len() * index / total.max(1);
        let pages = &self.pages[page(piece.start)..page(piece.end)];
        let ahead = Ahead { pages, ..*self };
        let walk = Walk { ahead, next: Cell::new(0), at: Cell::new(std::ptr::null()), left: Cell::new(0) };
        walk.turn();
        walk
    }
}

/// One piece's way through its pages.
pub(super) struct Walk<'a> {
    ahead: Ahead<'a>,
    next: Cell<usize>,
    at: Cell<*const u8>,
    /// Asks left in this page.
    left: Cell<usize>,
}

/// Bytes of one ask: four cache lines.
const STRIDE: usize = 4 * LINE;
/// Bytes of a cache line.
const LINE: usize = 64;

impl Walk<'_> {
    /// Goes to the next page.
    #[cold]
    #[inline(never)]
    fn turn(&self) {
        let next = self.next.get();
        let page = self.ahead.pages.get(next).and_then(|page| self.ahead.memory.get(*page..)?.get(..self.ahead.len));
        self.next.set(next + 1);
        if let Some(page) = page {
            self.at.set(page.as_ptr());
            self.left.set(page.len() / STRIDE);
        }
    }

    /// Asks for the next few lines, if there are any.
    #[inline(always)]
    pub fn ask(&self) {
        let left = self.left.get();
        if left == 0 {
            return;
        }
        let at = self.at.get();
        for line in 0..STRIDE / LINE {
            prefetch(at.wrapping_add(line * LINE));
        }
        self.at.set(at.wrapping_add(STRIDE));
        self.left.set(left - 1);
        if left == 1 {
            self.turn();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where each ask of a walk begins, in bytes.
    fn asks(walk: &Walk<'_>) -> Vec<usize> {
        let memory = walk.ahead.memory.as_ptr();
        let mut asks = Vec::new();
        while walk.left.get() > 0 {
            asks.push(walk.at.get().addr() - memory.addr());
            walk.ask();
        }
        walk.ask();
        asks
    }

    #[test]
    fn pieces_together_ask_for_every_line_of_every_page_once() {
        let memory = vec![0; 16384];
        let pages = [4096, 0, 12288, 8192, 2048];
        let expected: Vec<usize> = pages.iter().flat_map(|page| [*page, page + 256, page + 512, page + 768]).collect();
        for threads in 1..8 {
            let ahead = Ahead::new(&memory, &pages, 1024);
            let all: Vec<usize> = (0..threads).flat_map(|thread| asks(&ahead.share(&(thread..thread + 1), threads))).collect();
            assert_eq!(all, expected, "{threads} pieces");
        }
    }

    #[test]
    fn pages_outside_end_the_way() {
        let memory = vec![0; 1024];
        assert_eq!(asks(&Ahead::new(&memory, &[0, 512, 0], 768).share(&(0..1), 1)), [0, 256, 512]);
        assert_eq!(asks(&Ahead::new(&memory, &[usize::MAX], 256).share(&(0..1), 1)), [0; 0]);
        assert_eq!(asks(&Ahead::NOTHING.share(&(0..1), 1)), [0; 0]);
    }
}
