//! One request inside the engine: its text, its times, its channel.

use std::time::Duration;

use tokio::sync::mpsc;

use super::api::*;
use super::metrics::RequestTimes;
use super::witness::{Evidence, Trial, digest};
use crate::batch::{RequestId, UserId};
use crate::sampling::{Sampler, SamplingParams};
use crate::scheduler::RowResult;
use crate::text::{StopMatcher, StreamDecoder, TextModel};

pub(super) struct Live {
    user: UserId,
    sampling: SamplingParams,
    events: mpsc::Sender<Event>,
    decoder: StreamDecoder,
    stops: StopMatcher,
    /// Sampled in the step that is being made: token and what became printable.
    fresh: Option<(u32, String)>,
    /// A stop string came: what is still held is not text.
    stopped: bool,
    pub times: RequestTimes,
    pub prompt_tokens: usize,
    pub generated: usize,
    pub preemptions: u32,
    pub cached_tokens: usize,
    pub predicted_ttft: Option<Duration>,
    /// Kept for a witness, if one is wanted.
    evidence: Option<Evidence>,
    admitted_at: Option<Duration>,
}

impl Live {
    pub fn new(user: UserId, prompt_tokens: usize, sampling: SamplingParams, events: mpsc::Sender<Event>, now: Duration) -> Live {
        Live {
            user,
            stops: StopMatcher::new(sampling.stop.clone()),
            sampling,
            events,
            decoder: StreamDecoder::default(),
            fresh: None,
            stopped: false,
            times: RequestTimes::new(now),
            prompt_tokens,
            generated: 0,
            preemptions: 0,
            cached_tokens: 0,
            predicted_ttft: None,
            evidence: None,
            admitted_at: None,
        }
    }

    pub fn user(&self) -> UserId {
        self.user
    }

    pub fn is_abandoned(&self) -> bool {
        self.events.is_closed()
    }

    /// The channel has room for every token and the end; a receiver that is gone is noticed elsewhere.
    pub fn tell(&self, event: Event) {
        let _ = self.events.try_send(event);
    }

    /// Keeps what a witness will need.
    pub fn keep_evidence(&mut self, prompt: Vec<u32>) {
        self.evidence = Some(Evidence { prompt_len: prompt.len(), tokens: prompt, digests: Vec::new() });
    }

    pub fn admitted(&mut self, now: Duration, step: u64, cached: usize) {
        if self.admitted_at.is_none() {
            self.admitted_at = Some(now);
            self.cached_tokens = cached;
            self.times.admitted(now);
            self.tell(Event::Admitted { step, cached });
        }
    }

    pub fn preempted(&mut self, step: u64, by: TakenBy) {
        self.preemptions += 1;
        self.times.preempted();
        // Preemptions are not counted beforehand: they never take the room of a token.
        let still_to_come = self.sampling.max_tokens.saturating_sub(self.generated) + 2;
        if self.events.capacity() > still_to_come {
            self.tell(Event::Preempted { step, by });
        }
    }

    /// Samples the next token and works out what of it can be shown. `tokens` is the sequence so far.
    pub fn choose(&mut self, logits: &[f32], tokens: &[u32], sampler: &mut Sampler, text: &TextModel) -> RowResult {
        let Some(token) = sampler.sample(logits, &self.sampling, tokens) else { return RowResult::Failed };
        let ends = text.is_end(token) && !self.sampling.ignore_eos;
        let piece = if ends { String::new() } else { self.decoder.push(text, token) };
        let (shown, stopped) = self.stops.push(&piece);
        self.stopped |= stopped;
        if let Some(evidence) = &mut self.evidence {
            evidence.tokens.push(token);
            evidence.digests.push(digest(logits));
        }
        self.fresh = Some((token, shown));
        RowResult::Token { token, ends: ends || stopped }
    }

    /// Sends what `choose` found, now that it is committed. Gives the TTFT when it was the first token.
    pub fn send_fresh(&mut self, step: u64, now: Duration) -> Option<Duration> {
        let (token, text) = self.fresh.take()?;
        self.generated += 1;
        self.times.token(now);
        self.tell(Event::Token { step, token, text });
        if self.generated == 1 { self.times.ttft() } else { None }
    }

    /// Says the end, and gives the number of tokens generated.
    pub fn finish(&mut self, reason: FinishReason, message: Option<String>, now: Duration) -> usize {
        let mut text = String::new();
        if !self.stopped {
            let (rest, stopped) = self.stops.push(&self.decoder.flush());
            text.push_str(&rest);
            if !stopped {
                text.push_str(&self.stops.flush());
            }
        }
        let message = match (reason, message) {
            (FinishReason::Failed, None) => Some("the model's logits are not finite numbers for this sequence".into()),
            (_, message) => message,
        };
        self.tell(Event::Finished(Finished {
            reason,
            text,
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
        }));
        self.generated
    }

    /// What a witness needs, once this has ended with at least one token.
    pub fn into_trial(self, request: RequestId) -> Option<Trial> {
        let evidence = self.evidence.filter(|evidence| !evidence.digests.is_empty())?;
        Some(Trial::new(request, self.user, evidence, self.sampling, self.events))
    }

    /// How long it has been in the batch or had to come back to it.
    pub fn service_time(&self, now: Duration) -> Option<Duration> {
        Some(now.saturating_sub(self.admitted_at?))
    }
}
