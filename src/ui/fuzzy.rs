//! Finding by what one remembers of a name: words in any order, letters left out, accents or none.

use unicode_normalization::UnicodeNormalization;

/// Lower case, without accents: `Đường` is found by `duong`.
pub fn fold(text: &str) -> String {
    let plain = |ch: char| match ch {
        'đ' | 'Đ' => 'd',
        ch => ch,
    };
    let marks = |ch: &char| !unicode_normalization::char::is_combining_mark(*ch);
    text.nfd().filter(marks).map(plain).flat_map(char::to_lowercase).collect()
}

/// How well a filter fits a text, both folded; higher is better, None is not at all. Every word of the filter has to be
/// there: as it is (best at the start of a word), or at least its letters in order within one stretch.
pub fn score(filter: &str, text: &str) -> Option<i32> {
    filter.split_whitespace().map(|word| word_score(word, text)).sum()
}

fn word_score(word: &str, text: &str) -> Option<i32> {
    let starts_word = |at: usize| at == 0 || !text[..at].ends_with(char::is_alphanumeric);
    let whole = text.match_indices(word).map(|(at, _)| {
        let place = if starts_word(at) { 200 } else { 100 };
        // Earlier is better, a little.
        place - (at as i32).min(99) / 4
    });
    whole.max().or_else(|| in_order(word, text))
}

/// The letters in order: fewer skipped is better, and no more may be skipped than three for each letter.
fn in_order(word: &str, text: &str) -> Option<i32> {
    let letters: Vec<char> = word.chars().collect();
    let text: Vec<char> = text.chars().collect();
    if letters.len() < 2 {
        return None;
    }
    let mut best: Option<i32> = None;
    for start in (0..text.len()).filter(|at| text[*at] == letters[0]) {
        let mut at = start + 1;
        let found = letters[1..].iter().all(|letter| {
            let next = text[at..].iter().position(|ch| ch == letter);
            at += next.map_or(0, |skipped| skipped + 1);
            next.is_some()
        });
        let skipped = at - start - letters.len().min(at - start);
        if found && skipped <= 3 * letters.len() {
            best = best.max(Some(50 - skipped as i32));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accents_do_not_matter() {
        assert_eq!(fold("Đường phố Việt"), "duong pho viet");
    }

    #[test]
    fn better_fits_score_higher() {
        let score = |filter: &str, text: &str| score(&fold(filter), &fold(text));
        assert!(score("pause", "pause the engine") > score("engine", "pause the engine"));
        assert!(score("eng", "pause the engine") > score("ause", "pause the engine"));
        assert!(score("pte", "pause the engine").is_some_and(|score| score > 0));
        assert!(score("engine pause", "pause the engine").is_some());
        assert_eq!(score("stop pause", "pause the engine"), None);
        assert_eq!(score("xyz", "pause the engine"), None);
        assert_eq!(score("", "anything"), Some(0));
        assert!(score("tam dung", "tạm dừng máy").is_some());
    }
}
