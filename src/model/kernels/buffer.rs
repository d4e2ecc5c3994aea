//! Memory for weights and KV pages: zeroed, on page borders, committed only where it is touched.

use memmap2::MmapMut;

/// Memory that the machine would not give.
#[derive(Debug, thiserror::Error)]
#[error("{bytes} bytes for {what} could not be had ({source}): close other programs, or ask for less")]
pub struct OutOfMemory {
    pub what: &'static str,
    pub bytes: usize,
    pub source: std::io::Error,
}

/// A zeroed range of memory of its own, aligned to a page (at least 4096 bytes).
#[derive(Debug)]
pub struct Buffer {
    map: MmapMut,
    len: usize,
}

impl Buffer {
    /// Asks for `bytes` zeroed bytes. Pages take no memory before they are written.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn zeroed(bytes: usize, what: &'static str) -> Result<Buffer, OutOfMemory> {
        let map = MmapMut::map_anon(bytes.max(1)).map_err(|source| OutOfMemory { what, bytes, source })?;
        Ok(Buffer { map, len: bytes })
    }

    /// Asks for large pages: fewer page-table misses on long walks over memory that will be written in full. Only
    /// advice, so a refusal does not matter.
    pub fn in_large_pages(self) -> Buffer {
        #[cfg(target_os = "linux")]
        let _ = self.map.advise(memmap2::Advice::HugePage);
        self
    }

    pub fn bytes(&self) -> &[u8] {
        &self.map[..self.len]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map[..self.len]
    }

    /// The same memory as numbers; a rest of less than one is left out.
    pub fn numbers<N: Number>(&self) -> &[N] {
        // SAFETY: every bit pattern is a `Number`, the lifetime is that of the borrow, and `align_to` keeps to the bounds.
        let (head, numbers, _) = unsafe { self.bytes().align_to::<N>() };
        debug_assert!(head.is_empty(), "a mapping begins on a page border");
        numbers
    }

    /// The same memory as numbers; a rest of less than one is left out.
    pub fn numbers_mut<N: Number>(&mut self) -> &mut [N] {
        // SAFETY: as in `numbers`, and the borrow is exclusive.
        let (head, numbers, _) = unsafe { self.bytes_mut().align_to_mut::<N>() };
        debug_assert!(head.is_empty(), "a mapping begins on a page border");
        numbers
    }
}

/// A type of which every bit pattern is a value.
///
/// # Safety
/// That is so, and its alignment is no more than a page.
pub unsafe trait Number: Copy {}

// SAFETY: a plain number.
unsafe impl Number for f32 {}
// SAFETY: a plain number.
unsafe impl Number for u16 {}
// SAFETY: a plain number.
unsafe impl Number for i8 {}
