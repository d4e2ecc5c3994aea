//! How fast this machine's memory can be read: the wall that decoding for one user runs into.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::machine::{self, MemorySpeed};
use crate::model::kernels::{Buffer, OutOfMemory, Pool, read_through};

/// What a thread takes at a time.
const PIECE: usize = 1 << 20;

/// How much is read, and for how long.
struct Effort {
    /// So many times the largest cache, within these bounds.
    caches: u64,
    least: u64,
    most: u64,
    /// All of it is read in every manner at least so often, and again until so much time has passed.
    passes: usize,
    time: Duration,
}

/// For whoever waits for figures.
const THOROUGH: Effort = Effort { caches: 8, least: 512 << 20, most: 4 << 30, passes: 3, time: Duration::from_secs(1) };
/// For whoever has a room full of people meanwhile: about a second, most of which the machine takes to give the memory.
const BRIEF: Effort = Effort { caches: 2, least: 256 << 20, most: 1 << 30, passes: 1, time: Duration::from_millis(300) };
/// Less than this any cache could hold.
const TOO_LITTLE: usize = 64 << 20;

impl Effort {
    /// Bytes to read: at most a quarter of the memory that is left.
    fn bytes(&self) -> usize {
        let wanted = machine::last_cache().map_or(self.least, |cache| cache.saturating_mul(self.caches));
        let most = machine::available_memory().map_or(self.least, |available| available / 4).max(PIECE as u64);
        usize::try_from(wanted.clamp(self.least, self.most).min(most)).unwrap_or(PIECE) / PIECE * PIECE
    }
}

/// Bytes a second that all threads of a pool together read from memory: the best of many passes over a buffer much
/// larger than the caches, each thread going through a share of its own, in order.
///
/// # Errors
/// When there is no memory or no thread to measure with.
pub fn measure(threads: usize) -> anyhow::Result<f64> {
    read(threads, &THOROUGH, THOROUGH.bytes())
}

/// The same with less effort: in at most 1 GiB, which is given back.
///
/// # Errors
/// Likewise, and when so little memory is left that caches would be measured.
pub fn memory_speed(threads: usize) -> anyhow::Result<MemorySpeed> {
    let bytes = BRIEF.bytes();
    anyhow::ensure!(bytes >= TOO_LITTLE, "too little memory is left to read past the caches: close other programs");
    Ok(MemorySpeed { bytes_per_s: read(threads, &BRIEF, bytes)?, last_cache: machine::last_cache() })
}

fn read(threads: usize, effort: &Effort, bytes: usize) -> anyhow::Result<f64> {
    let pool = Pool::new(threads).map_err(|source| OutOfMemory { what: "a compute thread", bytes: 0, source })?;
    let mut buffer = Buffer::zeroed(bytes, "measuring memory bandwidth")?.in_large_pages();
    // Pages that nobody has written all lead to one page of zeros, which the caches would hold.
    pool.chunks(buffer.bytes_mut(), PIECE, |index, piece| piece.fill(index as u8))?;
    let pieces = buffer.bytes().len() / PIECE;
    let mut best = f64::INFINITY;
    let started = Instant::now();
    let mut passes = 0;
    while passes < effort.passes || started.elapsed() < effort.time {
        passes += 1;
        for read in [read_through::<1> as fn(&[u8]) -> u64, read_through::<2>, read_through::<4>] {
            let begun = Instant::now();
            pool.share_out(pieces, 1, |_, piece| {
                black_box(read(&buffer.bytes()[piece.start * PIECE..piece.end * PIECE]));
            })?;
            best = best.min(begun.elapsed().as_secs_f64());
        }
    }
    Ok(buffer.bytes().len() as f64 / best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brief_look_keeps_to_its_bounds_and_finds_a_speed() {
        let bytes = BRIEF.bytes();
        assert!(bytes as u64 <= BRIEF.most && bytes.is_multiple_of(PIECE), "{bytes}");
        // Of any size: the figure is bytes over time.
        let small = Effort { time: Duration::ZERO, ..BRIEF };
        let speed = read(1, &small, 8 * PIECE).unwrap();
        assert!(speed.is_finite() && speed > 1e6, "{speed}");
    }
}
