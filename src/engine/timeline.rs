//! The steps that were, oldest first: many of them, and cheap to hand on.
//!
//! A snapshot has all of them. They lie in chunks that are never changed once they are full, so a copy of the timeline is
//! a copy of a few dozen pointers and of the steps since the newest full chunk.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::api::{Between, Rejected, StepRecord};
use crate::scheduler::Waiting;

/// Steps of one chunk.
const CHUNK: usize = 256;
/// Full chunks kept at most: 16,384 steps.
const CHUNKS: usize = 64;
/// Bytes of records kept at most, less what an allocator adds. Below some 6 KB a step, which is a batch of a hundred, the count above is the
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

/// Bytes of a record: itself, its lists as large as they were made, and what their items hold elsewhere.
fn bytes(record: &StepRecord) -> usize {
    let lists = room(&record.rows)
        + room(&record.admitted)
        + room(&record.preempted)
        + room(&record.finished)
        + room(&record.waiting)
        + room(&record.between);
    let reasons: usize = record.waiting.iter().map(|(_, why)| named_in(why)).sum();
    let texts: usize = record.between.iter().map(said_in).sum();
    // The two counters before it, and the pointer to it in its chunk.
    COUNTERS + size_of::<StepRecord>() + size_of::<Arc<StepRecord>>() + lists + reasons + texts
}

/// Of an [`Arc`], before what it holds.
const COUNTERS: usize = 2 * size_of::<usize>();

fn room<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

/// Whom a reason to wait names.
fn named_in(why: &Waiting) -> usize {
    match why {
        Waiting::Budget { spent_on, .. } | Waiting::PrefillBudget { spent_on, .. } => room(spent_on),
        Waiting::Seats { .. }
        | Waiting::Blocks { .. }
        | Waiting::Behind { .. }
        | Waiting::Group { .. }
        | Waiting::SharedPrefix { .. }
        | Waiting::Preempted { .. }
        | Waiting::PreemptionStep
        | Waiting::NotYet => 0,
    }
}

fn said_in(between: &Between) -> usize {
    match between {
        Between::Refused { why: Rejected::Template(words) | Rejected::EngineGone(words) | Rejected::Words(words), .. } => {
            words.capacity()
        }
        Between::Refused { .. } | Between::Changed(_) | Between::ChangeRefused(_) => 0,
    }
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
    use crate::batch::UserId;
    use crate::engine::api::StepRow;

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

    /// Bytes that a value of this record has outside itself make it so much larger.
    fn grows_by(less: &StepRecord, more: &StepRecord) -> usize {
        bytes(more) - bytes(less)
    }

    #[test]
    fn what_items_hold_elsewhere_is_counted() {
        let waits = |names: usize| StepRecord {
            waiting: vec![(UserId(1), Waiting::Budget { max_num_batched_tokens: 8, spent_on: vec![UserId(2); names] })],
            ..StepRecord::default()
        };
        assert_eq!(grows_by(&waits(0), &waits(1_000)), 1_000 * size_of::<UserId>());
        let prefill = |names: usize| StepRecord {
            waiting: vec![(UserId(1), Waiting::PrefillBudget { tokens: 8, spent_on: vec![UserId(2); names] })],
            ..StepRecord::default()
        };
        assert_eq!(grows_by(&prefill(0), &prefill(70)), 70 * size_of::<UserId>());
        let refused = |words: String| StepRecord {
            between: vec![Between::Refused { user: UserId(1), why: Rejected::Words(words) }],
            ..StepRecord::default()
        };
        assert_eq!(grows_by(&refused(String::new()), &refused("x".repeat(4_096))), 4_096);
        assert_eq!(grows_by(&StepRecord::default(), &refused(String::new())), size_of::<Between>());
        // Lists are as large as they were made, however few items they have.
        let roomy = StepRecord { rows: Vec::with_capacity(50), ..StepRecord::default() };
        assert_eq!(grows_by(&StepRecord::default(), &roomy), 50 * size_of::<StepRow>());
    }

    #[test]
    fn a_crowd_that_waits_is_kept_within_the_bound() {
        // A hundred passed over in each step, each told of a hundred others: 40 KB a step, and hardly any rows.
        let spent_on: Vec<UserId> = (0..100).map(UserId).collect();
        let waiting: Vec<(UserId, Waiting)> = (0..64)
            .map(|user| (UserId(user), Waiting::Budget { max_num_batched_tokens: 8, spent_on: spent_on.clone() }))
            .collect();
        // Records share nothing: measured from one, and the same one is put in again and again.
        let one = Arc::new(StepRecord { waiting, ..StepRecord::default() });
        let each = bytes(&one);
        assert!(each > 64 * 100 * size_of::<UserId>());
        let mut timeline = Timeline::default();
        for _ in 0..6_000 {
            timeline.push(one.clone());
        }
        assert!(timeline.bytes <= BYTES, "{}", timeline.bytes);
        assert!(timeline.len() * each <= BYTES + 2 * CHUNK * each && timeline.len() > CHUNK, "{} of {each}", timeline.len());
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
