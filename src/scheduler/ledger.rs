//! What preemption cost and what the prefix cache saved, in tokens.

use std::collections::BTreeMap;

use crate::batch::UserId;

use super::request::TakenBy;

/// Pairs of victim and cause that are told apart; the rest is in one sum.
const PAIRS: usize = 1024;

/// Sums since the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Tokens computed a second time, by victim and by what had taken its blocks.
    recomputed: BTreeMap<(UserId, TakenBy), u64>,
    /// Those of pairs that came when there were too many to tell apart.
    pub recomputed_others: u64,
    pub recomputed_total: u64,
    /// Tokens of sequences let in for the first time, and those of them that were found in the cache or in a fork's origin.
    pub asked: u64,
    pub hit: u64,
    /// Tokens that preempted sequences found in the cache on their return: not recomputed.
    pub hit_on_return: u64,
}

impl Ledger {
    /// Tokens computed a second time, by victim and by what had taken its blocks.
    pub fn recomputed(&self) -> impl Iterator<Item = (UserId, TakenBy, u64)> {
        self.recomputed.iter().map(|((victim, by), tokens)| (*victim, *by, *tokens))
    }

    /// Share of the tokens asked for that were found in the cache, from 0 to 1; None before the first.
    pub fn hit_rate(&self) -> Option<f64> {
        (self.asked > 0).then(|| self.hit as f64 / self.asked as f64)
    }

    pub(super) fn recompute(&mut self, victim: UserId, by: TakenBy, tokens: usize) {
        let tokens = tokens as u64;
        self.recomputed_total += tokens;
        if let Some(sum) = self.recomputed.get_mut(&(victim, by)) {
            *sum += tokens;
        } else if self.recomputed.len() < PAIRS {
            self.recomputed.insert((victim, by), tokens);
        } else {
            self.recomputed_others += tokens;
        }
    }

    pub(super) fn admitted(&mut self, tokens: usize, hit: usize, again: bool) {
        if again {
            self.hit_on_return += hit as u64;
        } else {
            self.asked += tokens as u64;
            self.hit += hit as u64;
        }
    }
}
