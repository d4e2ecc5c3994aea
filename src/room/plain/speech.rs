//! Answers in pieces that can be read out, and the engine's state in sentences.

use crate::engine::{RunState, Status};
use crate::ui::format::{bytes, count, percent, rate, time};
use crate::ui::state::State;
use crate::ui::text::one_line;
use crate::ui::view::users::why;
use crate::ui::words::say;

/// Bytes after which a line is broken at a space, whether or not its sentence has ended.
const LONG: usize = 400;

/// What an answer has said and nobody has read yet.
#[derive(Clone, Debug, Default)]
pub struct Speech {
    text: String,
    /// It was asked to stop.
    pub stopping: bool,
}

impl Speech {
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The next line or sentences, if one is whole; `all`: whatever is left.
    pub fn next(&mut self, all: bool) -> Option<String> {
        loop {
            let end = match (self.text.find('\n'), sentence(&self.text)) {
                // The end of the line, or the last sentence that has ended before it.
                (Some(line), _) => line + 1,
                (None, Some(end)) => end,
                (None, None) if self.text.len() > LONG => {
                    let most = floor(&self.text);
                    self.text[..most].rfind(' ').filter(|at| *at > 0).map_or(most, |at| at + 1)
                }
                (None, None) if all && !self.text.is_empty() => self.text.len(),
                (None, None) => return None,
            };
            let line: String = self.text.drain(..end).collect();
            if !line.trim().is_empty() {
                return Some(line.trim_end().to_owned());
            }
        }
    }
}

/// A place near the bound that is between two characters.
fn floor(text: &str) -> usize {
    (1..=LONG).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// Where the last sentence that has surely ended does: a stop, and a space behind it.
fn sentence(text: &str) -> Option<usize> {
    let ends = text.char_indices().zip(text.chars().skip(1)).filter(|((_, c), next)| ".!?…。！？".contains(*c) && *next == ' ');
    // `1. ` at a line's beginning is no sentence.
    let counts = |at: usize| text[..at].trim_start().chars().any(char::is_alphabetic);
    ends.map(|((at, c), _)| (at, at + c.len_utf8() + 1)).filter(|(at, _)| counts(*at)).last().map(|(_, end)| end)
}

/// What the engine does now.
pub fn status(state: &State) -> Vec<String> {
    let (snapshot, theme) = (&*state.snapshot, state.options.theme);
    let people = state.people();
    let step = count(snapshot.step);
    let doing = match snapshot.state {
        RunState::Idle => say!(theme, "The engine is idle, at step {}.", step),
        RunState::Running => say!(theme, "The engine is running, at step {}.", step),
        RunState::Paused => say!(theme, "The engine is paused, at step {}.", step),
        RunState::Stopped => say!(theme, "The engine has stopped, at step {}.", step),
    };
    let mut lines = vec![
        doing,
        say!(
            theme,
            "Seats: {} of {} taken, {} waiting. All together {} tokens a second.",
            snapshot.running,
            snapshot.limits.max_num_seqs,
            snapshot.waiting,
            rate(snapshot.totals.tokens_per_s)
        ),
    ];
    let kv = &snapshot.kv;
    let total = (kv.total as u64).saturating_mul(kv.bytes_per_block as u64);
    lines.push(say!(
        theme,
        "KV memory: {} used, {} cached, {} free, of {}.",
        percent(kv.used as u64, kv.total as u64),
        percent(kv.cached as u64, kv.total as u64),
        percent(kv.free as u64, kv.total as u64),
        bytes(total)
    ));
    for view in &snapshot.users {
        let name = one_line(&people.name(view.user));
        let tokens = theme.plural(view.generated_tokens, "{} token", "{} tokens");
        lines.push(match view.status {
            Status::Waiting | Status::Preempted => {
                let reason = view.waiting.as_ref().map(|waiting| why(waiting, &people, theme)).unwrap_or_default();
                say!(theme, "{}: waiting. {}", name, reason)
            }
            Status::Prefill { computed, total } => {
                say!(theme, "{}: prefill, {} of {} tokens of the prompt.", name, computed, total)
            }
            Status::Decode => {
                let speed = view.tokens_per_s.map_or_else(|| theme.tr("not known yet").to_owned(), rate);
                say!(theme, "{}: decode, {} so far, tokens a second: {}.", name, tokens, speed)
            }
            Status::Finished(reason) => match view.ttft {
                Some(ttft) => say!(theme, "{}: ended ({}), {}, TTFT {}.", name, reason.as_str(), tokens, time(ttft)),
                None => say!(theme, "{}: ended ({}), {}.", name, reason.as_str(), tokens),
            },
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&str]) -> Vec<String> {
        let mut speech = Speech::default();
        let mut out = Vec::new();
        for piece in pieces {
            speech.push(piece);
            while let Some(line) = speech.next(false) {
                out.push(line);
            }
        }
        while let Some(line) = speech.next(true) {
            out.push(format!("{line}|"));
        }
        out
    }

    #[test]
    fn whole_sentences_and_lines_are_said() {
        assert_eq!(
            lines(&["Hel", "lo. ", "How a", "re you? I am", " 3.5 years old"]),
            ["Hello.", "How are you?", "I am 3.5 years old|"]
        );
        assert_eq!(lines(&["a\n\nb", "\n  c\n"]), ["a", "b", "  c"]);
        assert_eq!(lines(&["1. first thing\n2. second"]), ["1. first thing", "2. second|"]);
        assert!(lines(&["", "\n\n"]).is_empty());
    }

    #[test]
    fn nothing_is_held_back_for_ever() {
        let words = "word ".repeat(300);
        let out = lines(&[&words]);
        assert!(out.len() > 2 && out.iter().all(|line| line.len() <= LONG), "{out:?}");
        let solid = "測".repeat(1000);
        assert_eq!(lines(&[&solid]).concat().replace('|', ""), solid);
    }
}
