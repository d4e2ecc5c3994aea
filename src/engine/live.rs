//! One request in figures: its times and counts. Plain data; its text and its channel are in `voice`.

use std::time::Duration;

use super::api::*;
use super::metrics::RequestTimes;
use crate::batch::UserId;

#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub user: UserId,
    pub times: RequestTimes,
    pub prompt_tokens: usize,
    pub generated: usize,
    pub preemptions: u32,
    pub cached_tokens: usize,
    pub predicted_ttft: Option<Duration>,
    admitted_at: Option<Duration>,
}

impl Live {
    pub fn new(user: UserId, prompt_tokens: usize, predicted_ttft: Option<Duration>, now: Duration) -> Live {
        Live {
            user,
            times: RequestTimes::new(now),
            prompt_tokens,
            generated: 0,
            preemptions: 0,
            cached_tokens: 0,
            predicted_ttft,
            admitted_at: None,
        }
    }

    /// Let into the batch. True when it is for the first time.
    pub fn admitted(&mut self, now: Duration, cached: usize) -> bool {
        let first = self.admitted_at.is_none();
        if first {
            self.admitted_at = Some(now);
            self.cached_tokens = cached;
            self.times.admitted(now);
        }
        first
    }

    pub fn preempted(&mut self) {
        self.preemptions += 1;
        self.times.preempted();
    }

    /// One token more. Gives the TTFT when it was the first, and the gap since the one before.
    pub fn token(&mut self, now: Duration) -> (Option<Duration>, Option<Duration>) {
        self.generated += 1;
        let gap = self.times.token(now);
        (if self.generated == 1 { self.times.ttft() } else { None }, gap)
    }

    /// The end and its figures. The rest of the text is added by who has it.
    pub fn finished(&self, reason: FinishReason, message: Option<String>, now: Duration) -> Finished {
        let message = match (reason, message) {
            (FinishReason::Failed, None) => Some(NOT_FINITE.into()),
            (_, message) => message,
        };
        Finished {
            reason,
            text: String::new(),
            message,
            prompt_tokens: self.prompt_tokens,
            generated_tokens: self.generated,
            ttft: self.times.ttft(),
            tokens_per_s: self.times.speed_overall(),
            preemptions: self.preemptions,
            cached_tokens: self.cached_tokens,
            queued: self.times.queued(),
            end_to_end: self.times.end_to_end(now),
            tpot: self.times.tpot(now),
            itl: self.times.itl(),
            predicted_ttft: self.predicted_ttft,
        }
    }

    /// How long it has been in the batch or had to come back to it.
    pub fn service_time(&self, now: Duration) -> Option<Duration> {
        Some(now.saturating_sub(self.admitted_at?))
    }
}
