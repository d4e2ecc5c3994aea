//! How fast this machine's memory can be read: the wall that decoding for one user runs into.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::machine;
use crate::model::kernels::{Buffer, OutOfMemory, Pool, read_through};

/// Bytes to read when the machine has them to spare and its caches are not larger still.
const BYTES: u64 = 512 << 20;
const MOST_BYTES: u64 = 4 << 30;
/// All of it is read in every manner at least so often, and again until so much time has passed.
const PASSES: usize = 3;
const TIME: Duration = Duration::from_secs(1);
/// What a thread takes at a time.
const PIECE: usize = 1 << 20;

/// Bytes to read: eight times the largest cache, at most a quarter of the memory that is left.
fn bytes() -> usize {
    let wanted = machine::last_cache().map_or(BYTES, |cache| cache.saturating_mul(8)).clamp(BYTES, MOST_BYTES);
    let most = machine::available_memory().map_or(BYTES, |available| available / 4).max(PIECE as u64);
    usize::try_from(wanted.min(most)).unwrap_or(PIECE) / PIECE * PIECE
}

/// Bytes a second that all threads of a pool together read from memory: the best of many passes over a buffer much
/// larger than the caches, each thread going through a share of its own, in order.
///
/// # Errors
/// When there is no memory or no thread to measure with.
pub fn measure(threads: usize) -> anyhow::Result<f64> {
    let pool = Pool::new(threads).map_err(|source| OutOfMemory { what: "a compute thread", bytes: 0, source })?;
    let mut buffer = Buffer::zeroed(bytes(), "measuring memory bandwidth")?.in_large_pages();
    // Pages that nobody has written all lead to one page of zeros, which the caches would hold.
    pool.chunks(buffer.bytes_mut(), PIECE, |index, piece| piece.fill(index as u8))?;
    let pieces = buffer.bytes().len() / PIECE;
    let mut best = f64::INFINITY;
    let started = Instant::now();
    let mut passes = 0;
    while passes < PASSES || started.elapsed() < TIME {
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
