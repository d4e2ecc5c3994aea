//! The waiting queue, in the order that a policy gives it.

use std::collections::{BTreeMap, VecDeque};

use crate::batch::RequestId;

use super::accounts::Accounts;
use super::request::Policy;
use super::sequence::{Sequence, Stage};

/// Waiting sequences in lanes: one under fcfs, one a priority, or one a user. Within a lane those that had been let in
/// before come first, then who came first. Taking the next and putting one in cost no more with a long queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    policy: Policy,
    lanes: BTreeMap<i64, VecDeque<Sequence>>,
    len: usize,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sorts everything anew.
    pub fn set_policy(&mut self, policy: Policy) {
        if policy == self.policy {
            return;
        }
        self.policy = policy;
        let mut all: Vec<Sequence> = std::mem::take(&mut self.lanes).into_values().flatten().collect();
        all.sort_by_key(|sequence| sequence.arrival);
        self.len = 0;
        all.into_iter().for_each(|sequence| self.insert(sequence));
    }

    fn lane(&self, sequence: &Sequence) -> i64 {
        match self.policy {
            Policy::Fcfs => 0,
            Policy::Priority => -i64::from(sequence.priority),
            Policy::Fair => i64::from(sequence.user.0),
        }
    }

    /// Puts one in its place: at the end of its lane when it is the newest.
    pub fn insert(&mut self, sequence: Sequence) {
        let lane = self.lanes.entry(self.lane(&sequence)).or_default();
        let after = |other: &Sequence| (other.stage != Stage::Preempted, other.arrival);
        let at = match lane.back() {
            Some(last) if after(last) > after(&sequence) => lane.partition_point(|other| after(other) < after(&sequence)),
            _ => lane.len(),
        };
        lane.insert(at, sequence);
        self.len += 1;
    }

    /// The lane that is served next.
    fn next_lane(&self, accounts: &Accounts) -> Option<i64> {
        let served = |lane: &VecDeque<Sequence>| lane.front().map(|front| (accounts.service(front.account), front.arrival));
        match self.policy {
            Policy::Fcfs | Policy::Priority => self.lanes.keys().next().copied(),
            Policy::Fair => self.lanes.iter().min_by_key(|(_, lane)| served(lane)).map(|(lane, _)| *lane),
        }
    }

    /// Who is served next.
    pub fn first(&self, accounts: &Accounts) -> Option<&Sequence> {
        self.lanes.get(&self.next_lane(accounts)?)?.front()
    }

    pub fn pop(&mut self, accounts: &Accounts) -> Option<Sequence> {
        let lane = self.next_lane(accounts)?;
        self.take(lane, 0)
    }

    /// The first that had been let in before, of the whole queue.
    pub fn pop_preempted(&mut self) -> Option<Sequence> {
        let is_preempted = |lane: &VecDeque<Sequence>| lane.front().is_some_and(|front| front.stage == Stage::Preempted);
        let lane = *self.lanes.iter().find(|(_, lane)| is_preempted(lane))?.0;
        self.take(lane, 0)
    }

    pub fn remove(&mut self, id: RequestId) -> Option<Sequence> {
        let place = |lane: &VecDeque<Sequence>| lane.iter().position(|sequence| sequence.id == id);
        let (lane, at) = self.lanes.iter().find_map(|(key, lane)| Some((*key, place(lane)?)))?;
        self.take(lane, at)
    }

    fn take(&mut self, key: i64, at: usize) -> Option<Sequence> {
        let lane = self.lanes.get_mut(&key)?;
        let sequence = lane.remove(at)?;
        // A lane that is kept has somebody in it; the one lane of fcfs is kept for its memory.
        if lane.is_empty() && self.policy != Policy::Fcfs {
            self.lanes.remove(&key);
        }
        self.len -= 1;
        Some(sequence)
    }

    /// In the order in which they will be let in; under [`Policy::Fair`], if all ask for about as much: turn by turn.
    pub fn iter<'a>(&'a self, accounts: &'a Accounts) -> Box<dyn Iterator<Item = &'a Sequence> + 'a> {
        if self.policy != Policy::Fair {
            return Box::new(self.lanes.values().flatten());
        }
        let mut turns: Vec<(usize, &Sequence)> = self.lanes.values().flat_map(|lane| lane.iter().enumerate()).collect();
        turns.sort_by_key(|(turn, sequence)| (*turn, accounts.service(sequence.account), sequence.arrival));
        Box::new(turns.into_iter().map(|(_, sequence)| sequence))
    }
}
