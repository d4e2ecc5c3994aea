//! Reading memory as fast as it goes and doing nothing with it: the wall that a step for one user runs into.

use super::simd::prefetch;

/// How far before its use memory is asked for, in bytes: as far as the kernels do.
const AHEAD: usize = 4096;

/// Reads every whole 64 bytes of `bytes`, in `STREAMS` places abreast: how many are fastest depends on the machine. What
/// comes out only keeps the reads from being left out.
pub fn read_through<const STREAMS: usize>(bytes: &[u8]) -> u64 {
    let lines = bytes.as_chunks::<64>().0;
    let part = lines.len() / STREAMS;
    let mut sums = [[0u64; 8]; STREAMS];
    for at in 0..part {
        for (stream, sums) in sums.iter_mut().enumerate() {
            let line = &lines[stream * part + at];
            prefetch(line.as_ptr().wrapping_add(AHEAD));
            for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
                *sum = sum.wrapping_add(u64::from_le_bytes(*word));
            }
        }
    }
    let rest = lines[STREAMS * part..].iter().flat_map(|line| line.as_chunks::<8>().0);
    let rest = rest.fold(0u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
    sums.iter().flatten().fold(rest, |all, sum| all.wrapping_add(*sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_read_in_any_number_of_streams() {
        let bytes: Vec<u8> = (0..4096u32 + 3 * 64).map(|index| (index * 7) as u8).collect();
        let sum = bytes.as_chunks::<8>().0.iter().fold(0u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
        assert_eq!([read_through::<1>(&bytes), read_through::<2>(&bytes), read_through::<4>(&bytes)], [sum; 3]);
    }
}
