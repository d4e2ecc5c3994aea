//! The steps that were, oldest first: many of them, and cheap to hand on.
//!
//! A snapshot has all of them. They lie in chunks that are never changed once they are full, so a copy of the timeline is
//! a copy of a few dozen pointers and of the steps since the newest full chunk.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::api::{StepAdmission, StepFinish, StepPreemption, StepRecord, StepRow};
use crate::batch::UserId;
use crate::scheduler::Waiting;

/// Steps of one chunk.
const CHUNK: usize = 256;
/// Full chunks kept at most: 16,384 steps.
const CHUNKS: usize = 64;
/// Bytes of records kept at most (about). Below some 6 KB a step, which is a batch of a hundred, the count above is the
/// bound that is met first.
const BYTES: usize = 96 << 20;

#[derive(Clone, Debug, PartialEq)]
struct Chunk {
    steps: Arc<[Arc<StepRecord>]>,
    bytes: usize,
}

/// Steps in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    full: VecDeque<Chunk>,
    /// Fewer than a chunk.
    newest: Vec<Arc<StepRecord>>,
    bytes: usize,
}

/// About the bytes of a record.
fn bytes(record: &StepRecord) -> usize {
    let lists = record.rows.len() * size_of::<StepRow>()
        + record.admitted.len() * size_of::<StepAdmission>()
        + record.preempted.len() * size_of::<StepPreemption>()
        + record.finished.len() * size_of::<StepFinish>()
        + record.waiting.len() * size_of::<(UserId, Waiting)>();
    let texts: usize = record.between.iter().map(|_| 256).sum();
    size_of::<StepRecord>() + lists + texts + 64
}

impl Timeline {
    pub fn push(&mut self, record: Arc<StepRecord>) {
        self.newest.push(record);
        if self.newest.len() < CHUNK {
            return;
        }
        let size = self.newest.iter().map(|record| bytes(record)).sum();
        self.full.push_back(Chunk { steps: self.newest.drain(..).collect(), bytes: size });
        self.bytes += size;
        while self.full.len() > CHUNKS || (self.bytes > BYTES && self.full.len() > 1) {
            let Some(oldest) = self.full.pop_front() else { break };
            self.bytes -= oldest.bytes;
        }
    }

    pub fn len(&self) -> usize {
        self.full.len() * CHUNK + self.newest.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// By place, the oldest at 0.
    pub fn get(&self, at: usize) -> Option<&Arc<StepRecord>> {
        match self.full.get(at / CHUNK) {
            Some(chunk) => chunk.steps.get(at % CHUNK),
            None => self.newest.get(at - self.full.len() * CHUNK),
        }
    }

    pub fn front(&self) -> Option<&Arc<StepRecord>> {
        self.get(0)
    }

    pub fn back(&self) -> Option<&Arc<StepRecord>> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Those at these places that there are.
    pub fn range(&self, places: Range<usize>) -> impl DoubleEndedIterator<Item = &Arc<StepRecord>> + ExactSizeIterator + Clone {
        (places.start.min(self.len())..places.end.min(self.len())).map(|at| self.get(at).expect("within the bounds"))
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<StepRecord>> + ExactSizeIterator + Clone {
        self.range(0..self.len())
    }

    /// The place of a step by its number, or of the nearest one that is kept. None when there is none at all.
    pub fn place_of(&self, step: u64) -> Option<usize> {
        let last = self.len().checked_sub(1)?;
        let (mut from, mut to) = (0, last);
        while from < to {
            let middle = from + (to - from) / 2;
            if self.get(middle).is_some_and(|record| record.step < step) { from = middle + 1 } else { to = middle }
        }
        Some(from)
    }
}

impl FromIterator<Arc<StepRecord>> for Timeline {
    fn from_iter<T: IntoIterator<Item = Arc<StepRecord>>>(records: T) -> Timeline {
        let mut timeline = Timeline::default();
        records.into_iter().for_each(|record| timeline.push(record));
        timeline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(step: u64, rows: usize) -> Arc<StepRecord> {
        let row = StepRow {
            user: UserId(1),
            request: crate::batch::RequestId(1),
            kind: crate::batch::RowKind::Decode,
            start: 0,
            tokens: 1,
        };
        Arc::new(StepRecord { step, rows: vec![row; rows], ..StepRecord::default() })
    }

    #[test]
    fn it_keeps_more_than_ten_thousand_steps_and_no_more_than_its_bound() {
        let mut timeline = Timeline::default();
        for step in 1..=40_000u64 {
            timeline.push(record(step, 1));
            assert!(timeline.len() <= (CHUNKS + 1) * CHUNK);
        }
        assert!(timeline.len() >= 10_000, "{}", timeline.len());
        let steps: Vec<u64> = timeline.iter().map(|record| record.step).collect();
        assert!(steps.windows(2).all(|pair| pair[1] == pair[0] + 1));
        assert_eq!((timeline.back().unwrap().step, *steps.last().unwrap()), (40_000, 40_000));
        assert_eq!(timeline.front().unwrap().step, steps[0]);
        for step in [steps[0], steps[0] + 1, 33_333, 39_999, 40_000] {
            assert_eq!(timeline.get(timeline.place_of(step).unwrap()).unwrap().step, step);
        }
        assert_eq!(timeline.place_of(1), Some(0), "gone: the oldest is nearest");
        assert_eq!(timeline.place_of(u64::MAX), Some(timeline.len() - 1));
        assert_eq!(timeline.range(steps.len() - 2..usize::MAX).map(|record| record.step).collect::<Vec<_>>(), [39_999, 40_000]);
    }

    #[test]
    fn large_batches_are_kept_for_fewer_steps_in_as_much_memory() {
        let mut timeline = Timeline::default();
        for step in 1..=8_000 {
            timeline.push(record(step, 1_000));
        }
        assert!(timeline.bytes <= BYTES && timeline.len() < 8_000 && timeline.len() > CHUNK, "{}", timeline.len());
        assert_eq!(timeline.bytes, timeline.full.iter().map(|chunk| chunk.bytes).sum::<usize>());
    }

    #[test]
    fn a_copy_shares_what_is_full() {
        let timeline: Timeline = (1..=1000).map(|step| record(step, 1)).collect();
        let mut copy = timeline.clone();
        copy.push(record(1001, 1));
        assert_eq!((timeline.len(), copy.len()), (1000, 1001));
        assert!(timeline.full.iter().zip(&copy.full).all(|(a, b)| Arc::ptr_eq(&a.steps, &b.steps)));
    }
}
