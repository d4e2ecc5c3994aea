//! Why somebody got nothing in the newest step: worked out when somebody asks.

use crate::batch::{RequestId, UserId};

use super::request::Waiting;
use super::scheduler::Scheduler;
use super::sequence::Sequence;

/// Where admission stopped in the newest step.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop {
    /// Why the first of the queue did not get in; None when nobody was left.
    pub head: Option<Waiting>,
    /// Who waits for a prefix that somebody is computing, whose, and how many tokens of it.
    pub held: Vec<(RequestId, UserId, usize)>,
    /// Tokens of the step's budget that nobody used, and of what prompts may have of it.
    pub budget_left: usize,
    pub prefill_left: usize,
}

impl Scheduler {
    /// For everyone who got no token in the newest step, why: passed-over running sequences in order of admission, then
    /// the waiting ones in the order in which they will be let in.
    pub fn reasons(&self) -> Vec<(&Sequence, Waiting)> {
        let passed_over = self.running.iter().filter(|sequence| sequence.served_step != self.step);
        let mut reasons: Vec<(&Sequence, Waiting)> = passed_over.map(|sequence| (sequence, self.no_budget())).collect();
        let mut ahead = 0;
        for sequence in self.waiting() {
            let reason = self.why(sequence, ahead);
            // Who is let pass is in nobody's way.
            ahead += usize::from(!matches!(reason, Waiting::SharedPrefix { .. }));
            reasons.push((sequence, reason));
        }
        reasons
    }

    fn why(&self, sequence: &Sequence, ahead: usize) -> Waiting {
        if let Some((_, user, tokens)) = self.stop.held.iter().find(|(id, ..)| *id == sequence.id) {
            return Waiting::SharedPrefix { user: *user, tokens: *tokens };
        }
        if self.step > 0 && sequence.preempted_step == self.step {
            let by = sequence.taken_by.expect("who was preempted knows by whom");
            return Waiting::Preempted { by };
        }
        if sequence.came_after == self.step {
            return Waiting::NotYet;
        }
        if ahead > 0 {
            return Waiting::Behind { ahead };
        }
        match &self.stop.head {
            Some(Waiting::Budget { .. } | Waiting::PrefillBudget { .. }) | None => self.no_budget(),
            Some(reason) => reason.clone(),
        }
    }

    /// Which budget was spent, and on whom.
    fn no_budget(&self) -> Waiting {
        let mut spent_on: Vec<UserId> = Vec::new();
        for sequence in self.running.iter().filter(|sequence| sequence.served_step == self.step) {
            if !spent_on.contains(&sequence.user) {
                spent_on.push(sequence.user);
            }
        }
        if self.stop.budget_left > 0 && self.stop.prefill_left == 0 {
            Waiting::PrefillBudget { tokens: self.prefill_budget, spent_on }
        } else {
            Waiting::Budget { max_num_batched_tokens: self.limits.max_num_batched_tokens, spent_on }
        }
    }
}
