//! How much each user has been served, for the fair policy.

use std::collections::{HashMap, VecDeque};

use crate::batch::UserId;

/// Accounts of users with nothing live that are kept.
const IDLE: usize = 1024;

#[derive(Clone, Debug)]
struct Account {
    user: UserId,
    /// Tokens computed for this user, of prompts and answers, each counted once.
    service: u64,
    /// Sequences waiting or running.
    live: usize,
    /// Which time it became idle last.
    rest: u64,
}

/// An account for each user that has something waiting or running, and of the last that had.
///
/// A user who comes back begins no lower than the least served of the others stands: what was not used is not saved up.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    accounts: Vec<Account>,
    by_user: HashMap<UserId, usize>,
    /// Accounts that became idle, oldest first, and which time that was; some are in use again.
    idle: VecDeque<(usize, u64)>,
    rests: u64,
    /// The service of whoever became idle last: where people begin when nobody else is there.
    last_left: u64,
}

impl Accounts {
    /// The account of a user who has one more live sequence. With `lift` one that was idle begins no lower than the
    /// least of the others.
    pub fn open(&mut self, user: UserId, lift: bool) -> usize {
        let at = match self.by_user.get(&user) {
            Some(at) => *at,
            None => self.add(user),
        };
        if self.accounts[at].live == 0 && lift {
            let live = self.accounts.iter().filter(|account| account.live > 0);
            let least = live.map(|account| account.service).min().unwrap_or(self.last_left);
            self.accounts[at].service = self.accounts[at].service.max(least);
        }
        self.accounts[at].live += 1;
        at
    }

    fn add(&mut self, user: UserId) -> usize {
        let account = Account { user, service: 0, live: 0, rest: 0 };
        let at = match self.longest_idle() {
            Some(at) => {
                self.by_user.remove(&self.accounts[at].user);
                self.accounts[at] = account;
                at
            }
            None => {
                self.accounts.push(account);
                self.accounts.len() - 1
            }
        };
        self.by_user.insert(user, at);
        at
    }

    /// An account that can be given to somebody else.
    fn longest_idle(&mut self) -> Option<usize> {
        while self.idle.len() > IDLE {
            let (at, rest) = self.idle.pop_front()?;
            if self.accounts[at].live == 0 && self.accounts[at].rest == rest {
                return Some(at);
            }
        }
        None
    }

    /// One of the sequences of this account has ended.
    pub fn close(&mut self, at: usize) {
        let account = &mut self.accounts[at];
        account.live -= 1;
        if account.live == 0 {
            self.rests += 1;
            self.last_left = account.service;
            account.rest = self.rests;
            self.idle.push_back((at, self.rests));
            if self.idle.len() > 4 * IDLE {
                let accounts = &self.accounts;
                self.idle.retain(|(at, rest)| accounts[*at].live == 0 && accounts[*at].rest == *rest);
            }
        }
    }

    pub fn service(&self, at: usize) -> u64 {
        self.accounts[at].service
    }

    pub fn charge(&mut self, at: usize, tokens: usize) {
        self.accounts[at].service += tokens as u64;
    }

    /// Everybody begins anew.
    pub fn reset(&mut self) {
        self.accounts.iter_mut().for_each(|account| account.service = 0);
        self.last_left = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_saved_up_and_nothing_is_forgiven() {
        let mut accounts = Accounts::default();
        let a = accounts.open(UserId(1), true);
        accounts.charge(a, 100);
        let b = accounts.open(UserId(2), true);
        assert_eq!(accounts.service(b), 100, "who comes late does not begin at nothing");
        accounts.charge(b, 50);
        accounts.close(b);
        accounts.charge(a, 10);
        let b = accounts.open(UserId(2), true);
        assert_eq!(accounts.service(b), 150, "who had more keeps it");
        accounts.close(b);
        accounts.charge(a, 90);
        let b = accounts.open(UserId(2), true);
        assert_eq!(accounts.service(b), 200, "and who had less is lifted");
    }

    #[test]
    fn a_pause_of_everybody_gives_a_newcomer_no_head_start() {
        let mut accounts = Accounts::default();
        let a = accounts.open(UserId(1), true);
        accounts.charge(a, 100_000);
        accounts.close(a);
        let b = accounts.open(UserId(2), true);
        let a = accounts.open(UserId(1), true);
        assert_eq!((accounts.service(a), accounts.service(b)), (100_000, 100_000));
    }

    #[test]
    fn accounts_are_bounded_by_who_is_there() {
        let mut accounts = Accounts::default();
        for user in 0..20 * IDLE as u32 {
            let at = accounts.open(UserId(user), true);
            accounts.close(at);
        }
        assert!(accounts.accounts.len() <= IDLE + 2 && accounts.by_user.len() <= IDLE + 2 && accounts.idle.len() <= 4 * IDLE + 1);
        let again = accounts.open(UserId(20 * IDLE as u32 - 1), true);
        assert_eq!(accounts.accounts[again].user, UserId(20 * IDLE as u32 - 1));
    }
}
