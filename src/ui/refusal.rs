//! The engine's refusals and ends in the screen's language, with the numbers that decided them.

use super::format::count;
use super::text::one_line;
use super::theme::Theme;
use super::told;
use super::words::say;
use crate::engine::api::{FinishReason, Finished, Rejected, Snapshot};

/// Why a prompt was not taken.
pub fn refused(why: &Rejected, theme: Theme) -> String {
    let number = |value: &usize| count(*value as u64);
    match why {
        Rejected::EmptyPrompt => theme.tr("the prompt is empty").to_owned(),
        Rejected::PromptTooLong { prompt, max_model_len } => say!(
            theme,
            "the prompt has {} tokens, and with at least one token of answer that is over the context of {}",
            number(prompt),
            number(max_model_len)
        ),
        Rejected::KvTooSmall { prompt, needed, total } => say!(
            theme,
            "the prompt has {} tokens and needs {} KV blocks, and the whole KV memory has {} (F10: kv_memory)",
            number(prompt),
            number(needed),
            number(total)
        ),
        Rejected::QueueFull { waiting, max_waiting, wait } => {
            let full = say!(theme, "the queue is full: {} of {} requests are waiting", number(waiting), number(max_waiting));
            match wait {
                Some(wait) => {
                    let seconds = format!("{:.1}", wait.as_secs_f64());
                    say!(theme, "{}, about {} s until a place is free (estimated from recent answers)", full, seconds)
                }
                None => full,
            }
        }
        Rejected::ShuttingDown => theme.tr("the engine is shutting down").to_owned(),
        Rejected::EngineGone(fault) => say!(theme, "the engine has stopped: {}", told::fault(fault, theme)),
        Rejected::TooManyBytes { bytes, max_model_len } => say!(
            theme,
            "the conversation has {} bytes, more than fit a context of {} tokens in any language",
            number(bytes),
            number(max_model_len)
        ),
        Rejected::UnknownToken { token, vocab } => {
            say!(theme, "token {} is not in the vocabulary of {}", token, number(vocab))
        }
        Rejected::Sampling(error) => format!("{} {}: {}", error.name, error.value, super::params::out_of_range(error, theme)),
        Rejected::Template(said) => say!(theme, "the model's chat template refuses this conversation: {}", one_line(said)),
        Rejected::Words(words) => one_line(words),
    }
}

/// What had no more room for an answer; None: it did not end for lack of room.
pub fn no_room(end: &Finished, snapshot: &Snapshot, theme: Theme) -> Option<String> {
    match end.reason {
        FinishReason::Length => Some(say!(theme, "cut at max_tokens ({})", count(end.generated_tokens as u64))),
        FinishReason::ContextFull => {
            Some(say!(theme, "cut: the context of {} tokens is full", count(snapshot.limits.max_model_len as u64)))
        }
        FinishReason::KvFull => {
            Some(say!(theme, "cut: the whole KV memory is full ({} blocks; F10: kv_memory)", count(snapshot.kv.total as u64)))
        }
        FinishReason::Stop | FinishReason::Cancelled | FinishReason::Failed => None,
    }
}
