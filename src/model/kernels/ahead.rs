//! Reading ahead: keys and values that the next attention will want are asked for while products keep the arithmetic
//! units busy and the memory idle. Attention itself does little arithmetic for each byte and would wait for all of it.

use std::cell::Cell;
use std::ops::Range;

/// Pages of memory that will be read soon.
#[derive(Clone, Copy)]
pub struct Ahead<'a> {
    memory: &'a [f32],
    /// Where pages begin, in floats.
    pages: &'a [usize],
    /// Floats of a page.
    len: usize,
}

impl<'a> Ahead<'a> {
    pub const NOTHING: Ahead<'static> = Ahead { memory: &[], pages: &[], len: 0 };

    /// Pages of `len` floats at the places `pages` in `memory`. The way ends at a page that is not inside.
    pub fn new(memory: &'a [f32], pages: &'a [usize], len: usize) -> Ahead<'a> {
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
    at: Cell<*const f32>,
    /// Asks left in this page.
    left: Cell<usize>,
}

/// Floats of one ask: four cache lines.
const STRIDE: usize = 4 * LINE;
/// Floats of a cache line.
const LINE: usize = 16;

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

#[inline(always)]
fn prefetch(at: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program sees; any address will do.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where each ask of a walk begins, in floats.
    fn asks(walk: &Walk<'_>) -> Vec<usize> {
        let memory = walk.ahead.memory.as_ptr();
        let mut asks = Vec::new();
        while walk.left.get() > 0 {
            asks.push((walk.at.get().addr() - memory.addr()) / size_of::<f32>());
            walk.ask();
        }
        walk.ask();
        asks
    }

    #[test]
    fn pieces_together_ask_for_every_line_of_every_page_once() {
        let memory = vec![0.0; 4096];
        let pages = [1024, 0, 3072, 2048, 512];
        let expected: Vec<usize> = pages.iter().flat_map(|page| [*page, page + 64, page + 128, page + 192]).collect();
        for threads in 1..8 {
            let ahead = Ahead::new(&memory, &pages, 256);
            let all: Vec<usize> = (0..threads).flat_map(|thread| asks(&ahead.share(&(thread..thread + 1), threads))).collect();
            assert_eq!(all, expected, "{threads} pieces");
        }
    }

    #[test]
    fn pages_outside_end_the_way() {
        let memory = vec![0.0; 256];
        assert_eq!(asks(&Ahead::new(&memory, &[0, 128, 0], 192).share(&(0..1), 1)), [0, 64, 128]);
        assert_eq!(asks(&Ahead::new(&memory, &[usize::MAX], 64).share(&(0..1), 1)), [0; 0]);
        assert_eq!(asks(&Ahead::NOTHING.share(&(0..1), 1)), [0; 0]);
    }
}
