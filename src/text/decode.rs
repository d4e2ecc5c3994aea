//! Tokens to text, one at a time, without ever showing half a character or a part of a stop string.

use super::tokenizer::TextModel;

/// Turns one sequence's tokens into text as they come.
///
/// A character whose bytes are spread over several tokens is held back until it is whole; bytes that can never
/// become one are shown as U+FFFD.
#[derive(Clone, Debug, Default)]
pub struct StreamDecoder {
    /// At most three bytes: the beginning of a character.
    pending: Vec<u8>,
    started: bool,
}

impl StreamDecoder {
    /// In the middle of a text: a space at the beginning is one.
    pub fn within() -> StreamDecoder {
        StreamDecoder { started: true, ..StreamDecoder::default() }
    }

    /// What became printable with this token.
    pub fn push(&mut self, text: &TextModel, token: u32) -> String {
        let mut bytes = text.token_bytes(token);
        if !self.started && !bytes.is_empty() {
            self.started = true;
            if text.strips_first_space() && bytes.first() == Some(&b' ') {
                bytes = &bytes[1..];
            }
        }
        self.pending.extend_from_slice(bytes);
        self.take_whole()
    }

    /// The end of the sequence: what is still held can no longer become a character.
    pub fn flush(&mut self) -> String {
        let rest = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        rest
    }

    fn take_whole(&mut self) -> String {
        let mut out = String::new();
        loop {
            match std::str::from_utf8(&self.pending) {
                Ok(whole) => {
                    out.push_str(whole);
                    self.pending.clear();
                    return out;
                }
                Err(error) => {
                    let valid = error.valid_up_to();
                    out.push_str(&String::from_utf8_lossy(&self.pending[..valid]));
                    let Some(bad) = error.error_len() else {
                        self.pending.drain(..valid);
                        return out;
                    };
                    out.push(char::REPLACEMENT_CHARACTER);
                    self.pending.drain(..valid + bad);
                }
            }
        }
    }
}

/// Ends a text where one of the stop strings would appear, even when it is spread over tokens.
#[derive(Clone, Debug)]
pub struct StopMatcher {
    stops: Vec<String>,
    /// The end of the text so far, as long as it may be the beginning of a stop string.
    held: String,
}

impl StopMatcher {
    pub fn new(stops: Vec<String>) -> StopMatcher {
        StopMatcher { stops, held: String::new() }
    }

    /// What may be shown now, and whether a stop string came (the text before it is then all there is).
    pub fn push(&mut self, text: &str) -> (String, bool) {
        if self.stops.is_empty() {
            return (text.to_owned(), false);
        }
        self.held.push_str(text);
        let first = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min();
        if let Some(at) = first {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let keep = self.stops.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// The end of the sequence: what was held back is text after all.
    pub fn flush(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Length of the longest end of `text` that is a beginning of `stop` (and not all of it).
fn overlap(text: &str, stop: &str) -> usize {
    let longest = text.len().min(stop.len() - 1);
    (1..=longest).rev().find(|n| stop.is_char_boundary(*n) && text.ends_with(&stop[..*n])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_string_over_several_pieces_is_never_shown_in_part() {
        let mut stops = StopMatcher::new(vec!["END".into(), "\nuser".into()]);
        let mut shown = String::new();
        for piece in ["abc E", "N", "E EN", "D tail"] {
            let (text, stopped) = stops.push(piece);
            shown.push_str(&text);
            assert!(!shown.contains("END"));
            assert_eq!(stopped, piece == "D tail");
        }
        assert_eq!(shown, "abc ENE ");
    }

    #[test]
    fn what_was_held_for_a_stop_string_comes_at_the_end() {
        let mut stops = StopMatcher::new(vec!["hết".into()]);
        assert_eq!(stops.push("xin hế"), ("xin ".into(), false));
        assert_eq!(stops.flush(), "hế");
    }

    #[test]
    fn the_earliest_stop_wins() {
        let mut stops = StopMatcher::new(vec!["bbb".into(), "a".into()]);
        assert_eq!(stops.push("xabbb"), ("x".into(), true));
    }
}
