//! What of a request is no plain data: how its tokens are drawn and become text, and the channel on which it is told.

use tokio::sync::mpsc;

use super::api::*;
use super::witness::{Evidence, Trial, digest};
use crate::batch::{RequestId, UserId};
use crate::sampling::{Sampler, SamplingParams};
use crate::scheduler::RowResult;
use crate::text::{StopMatcher, StreamDecoder, TextModel};

pub(super) struct Voice {
    user: UserId,
    sampling: SamplingParams,
    events: mpsc::Sender<Event>,
    decoder: StreamDecoder,
    stops: StopMatcher,
    /// A stop string came: what is still held is not text.
    stopped: bool,
    /// Tokens told.
    told: usize,
    /// Kept for a witness, if one is wanted.
    evidence: Option<Evidence>,
}

impl Voice {
    /// `prompt` is given when a witness is wanted.
    pub fn new(
        user: UserId,
        sampling: SamplingParams,
        events: mpsc::Sender<Event>,
        decoder: StreamDecoder,
        prompt: Option<Vec<u32>>,
    ) -> Voice {
        Voice {
            user,
            stops: StopMatcher::new(sampling.stop.clone()),
            sampling,
            events,
            decoder,
            stopped: false,
            told: 0,
            evidence: prompt.map(|prompt| Evidence { prompt_len: prompt.len(), tokens: prompt, digests: Vec::new() }),
        }
    }

    pub fn is_abandoned(&self) -> bool {
        self.events.is_closed()
    }

    /// The channel has room for every token and the end; a receiver that is gone is noticed elsewhere.
    pub fn tell(&mut self, event: Event) {
        match event {
            Event::Token { .. } => self.told += 1,
            // Preemptions are not counted beforehand: they never take the room of a token.
            Event::Preempted { .. } => {
                let still_to_come = self.sampling.max_tokens.saturating_sub(self.told) + 2;
                if self.events.capacity() <= still_to_come {
                    return;
                }
            }
            _ => {}
        }
        let _ = self.events.try_send(event);
    }

    /// Samples the next token and works out what of it can be shown. `tokens` is the sequence so far.
    pub fn choose(&mut self, logits: &[f32], tokens: &[u32], sampler: &mut Sampler, text: &TextModel) -> (RowResult, String) {
        let Some(token) = sampler.sample(logits, &self.sampling, tokens) else { return (RowResult::Failed, String::new()) };
        let ends = text.is_end(token) && !self.sampling.ignore_eos;
        let piece = if ends { String::new() } else { self.decoder.push(text, token) };
        let (shown, stopped) = self.stops.push(&piece);
        self.stopped |= stopped;
        if let Some(evidence) = &mut self.evidence {
            evidence.tokens.push(token);
            evidence.digests.push(digest(logits));
        }
        (RowResult::Token { token, ends: ends || stopped }, shown)
    }

    /// The text that was held back until the end.
    pub fn rest(&mut self) -> String {
        let mut text = String::new();
        if !self.stopped {
            let (rest, stopped) = self.stops.push(&self.decoder.flush());
            text.push_str(&rest);
            if !stopped {
                text.push_str(&self.stops.flush());
            }
        }
        text
    }

    /// What a witness needs, once this has ended with at least one token.
    pub fn into_trial(self, request: RequestId) -> Option<Trial> {
        let evidence = self.evidence.filter(|evidence| !evidence.digests.is_empty())?;
        Some(Trial::new(request, self.user, evidence, self.sampling, self.events))
    }
}
