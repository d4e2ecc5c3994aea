//! The second computation's turns: what of it is due, one step of it, and what came of it. See `witness.rs`.

use super::*;

impl Worker {
    /// What is over the bound of trials is told so; and how many there are.
    pub(super) fn give_up_trials(&mut self) {
        while let Some(trial) = self.trials.take_surplus() {
            self.witnessed(&trial, Verdict::NotRun { why: NotRun::TooMany });
        }
        self.count_trials();
    }

    pub(super) fn count_trials(&mut self) {
        let due = self.trials.len();
        if due != self.core.witnesses_due {
            self.core.witnesses_due = due;
            self.record(|| Record::Due(due));
        }
    }

    /// The trial that is being made gives its blocks back and begins anew later: it stands in nobody's way.
    pub(super) fn put_trial_off(&mut self) {
        if !self.core.borrowed.is_empty() {
            self.core.give_back();
            self.record(|| Record::Return {});
            self.trials.begin_anew();
        }
    }

    /// One step of the first trial: see `witness.rs`.
    pub(super) fn trial_step(&mut self) {
        if self.core.scheduler.is_short_of_blocks() {
            return;
        }
        let limits = self.core.scheduler.limits();
        // Beside others no larger a piece than a prompt of theirs would get.
        let chunk = match self.core.scheduler.has_work() {
            true => limits.prefill_chunk.min(self.core.scheduler.prefill_budget()).min(limits.max_num_batched_tokens),
            false => limits.max_num_batched_tokens,
        };
        let Some(trial) = self.trials.first() else { return };
        let tokens = trial.evidence.tokens.len();
        let before = self.core.borrowed.len();
        if !self.core.borrow(tokens) {
            // As long as somebody runs, blocks may come free.
            if !self.core.scheduler.has_work() {
                self.end_trial(Verdict::NotRun { why: NotRun::NoRoom { tokens } });
            }
            return;
        }
        if self.core.borrowed.len() > before {
            self.record(|| Record::Borrow(tokens));
        }
        let batch = self.trials.batch(self.core.scheduler.step(), chunk, &self.core.borrowed);
        let verdict = match self.model.forward(batch) {
            Ok(logits) => self.trials.compare(logits, &mut self.sampler),
            Err(error) => Some(Verdict::NotRun { why: NotRun::Words(error.to_string()) }),
        };
        if let Some(verdict) = verdict {
            self.end_trial(verdict);
        }
    }

    pub(super) fn end_trial(&mut self, verdict: Verdict) {
        let Some(trial) = self.trials.pop() else { return };
        if !self.core.borrowed.is_empty() {
            self.core.give_back();
            self.record(|| Record::Return {});
        }
        self.count_trials();
        self.witnessed(&trial, verdict);
    }

    pub(super) fn witnessed(&mut self, trial: &Trial, verdict: Verdict) {
        let witnessed = trial.witnessed(verdict);
        let _ = trial.events.try_send(Event::Witnessed(witnessed.clone()));
        self.record(|| Record::Witness {
            id: witnessed.request.0,
            user: witnessed.user.0,
            tokens: witnessed.tokens,
            verdict: witnessed.verdict.clone(),
        });
        self.core.witnessed(witnessed);
    }
}
