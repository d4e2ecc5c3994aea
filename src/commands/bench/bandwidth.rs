//! How fast this machine's memory can be read: the wall that decoding for one user runs into.

use std::hint::black_box;
use std::time::Instant;

use crate::machine;
use crate::model::kernels::{Buffer, OutOfMemory, Pool};

/// Bytes to read when the machine has them to spare and its caches are not larger still.
const BYTES: u64 = 512 << 20;
const MOST_BYTES: u64 = 4 << 30;
/// How often all of it is read, in each manner.
const PASSES: usize = 7;
/// What a thread takes at a time.
const PIECE: usize = 1 << 20;

/// Bytes to read: eight times the largest cache, at most a quarter of the memory that is left.
fn bytes() -> usize {
    let wanted = machine::last_cache().map_or(BYTES, |cache| cache.saturating_mul(8)).clamp(BYTES, MOST_BYTES);
    let most = machine::available_memory().map_or(BYTES, |available| available / 4).max(PIECE as u64);
    usize::try_from(wanted.min(most)).unwrap_or(PIECE) / PIECE * PIECE
}

/// Bytes a second that all threads of a pool together read from memory: the best of several passes over a buffer much
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
    for _ in 0..PASSES {
        for streams in [read::<1> as fn(&[u8]) -> u64, read::<4>] {
            let begun = Instant::now();
            pool.share_out(pieces, 1, |_, piece| {
                black_box(streams(&buffer.bytes()[piece.start * PIECE..piece.end * PIECE]));
            })?;
            best = best.min(begun.elapsed().as_secs_f64());
        }
    }
    Ok(buffer.bytes().len() as f64 / best)
}

/// Reads every byte, in so many places abreast: which is faster depends on the machine's prefetchers. What comes out
/// only keeps the reads from being left out.
fn read<const STREAMS: usize>(bytes: &[u8]) -> u64 {
    let words = bytes.as_chunks::<64>().0;
    let part = words.len() / STREAMS;
    let mut sums = [[0u64; 8]; STREAMS];
    for at in 0..part {
        for (stream, sums) in sums.iter_mut().enumerate() {
            for (sum, word) in sums.iter_mut().zip(words[stream * part + at].as_chunks::<8>().0) {
                *sum = sum.wrapping_add(u64::from_le_bytes(*word));
            }
        }
    }
    sums.iter().flatten().fold(0, |all, sum| all.wrapping_add(*sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read_in_either_manner() {
        let bytes: Vec<u8> = (0..4096u32).map(|index| (index * 7) as u8).collect();
        let sum = bytes.as_chunks::<8>().0.iter().fold(0u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
        assert_eq!((read::<1>(&bytes), read::<4>(&bytes)), (sum, sum));
    }
}
