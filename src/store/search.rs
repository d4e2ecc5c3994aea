//! Finding text: whole words and beginnings of words, with or without their marks; else any piece of text as it stands.

use rusqlite::params;
use unicode_normalization::UnicodeNormalization;

use super::reads::{LINE, Line, line};
use super::{Store, StoreError};

/// Words of a question that count.
const WORDS_MAX: usize = 16;
/// Characters of a word that count.
const WORD_MAX: usize = 64;
/// Characters before and after what was found.
const BEFORE: usize = 30;
const AFTER: usize = 80;

/// A message that has what was looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub line: Line,
    pub node: u32,
    /// `draft`: it is no message, but was typed and not sent.
    pub role: String,
    /// Around the first of the words, on one line.
    pub excerpt: String,
}

impl Store {
    /// The newest conversation first, one hit each: that of its newest message which has all the words.
    pub fn search(&self, text: &str, most: usize) -> Result<Vec<Hit>, StoreError> {
        let words = words(text);
        let piece: String = text.trim().chars().take(WORDS_MAX * WORD_MAX).collect();
        if piece.is_empty() {
            return Ok(Vec::new());
        }
        let mut hits = match query(&words) {
            Some(query) => self.indexed(&query, &words, most).map_err(|source| self.fault(source))?,
            None => Vec::new(),
        };
        if hits.is_empty() {
            // Signs, the middle of a word, a language without spaces, an answer that still streams.
            hits = self.scanned(&piece, most).map_err(|source| self.fault(source))?;
        }
        for hit in self.drafts(&piece, most).map_err(|source| self.fault(source))? {
            if hits.len() < most && hits.iter().all(|other| other.line.id != hit.line.id) {
                hits.push(hit);
            }
        }
        Ok(hits)
    }

    /// What was typed and not sent: few, and in no index.
    fn drafts(&self, piece: &str, most: usize) -> rusqlite::Result<Vec<Hit>> {
        let sql = format!(
            "SELECT {LINE}, 0, 'draft', substr(n.text, 1, 200000) FROM drafts n JOIN conversations c ON c.id = n.conversation \
             WHERE n.text LIKE ?1 ESCAPE '\\' ORDER BY c.updated DESC, c.id DESC LIMIT ?2"
        );
        self.hits(&sql, &like(piece), &[piece.to_owned()], most)
    }

    fn indexed(&self, query: &str, words: &[String], most: usize) -> rusqlite::Result<Vec<Hit>> {
        let sql = format!(
            "SELECT {LINE}, n.node, n.role, substr(n.text, 1, 200000) FROM messages n JOIN conversations c ON c.id = n.conversation \
             WHERE n.id IN (SELECT max(m.id) FROM words w JOIN messages m ON m.id = w.rowid WHERE w.text MATCH ?1 \
             GROUP BY m.conversation) ORDER BY c.updated DESC, c.id DESC LIMIT ?2"
        );
        self.hits(&sql, query, words, most)
    }

    fn scanned(&self, piece: &str, most: usize) -> rusqlite::Result<Vec<Hit>> {
        let sql = format!(
            "SELECT {LINE}, n.node, n.role, substr(n.text, 1, 200000) FROM messages n JOIN conversations c ON c.id = n.conversation \
             WHERE n.id IN (SELECT max(m.id) FROM messages m WHERE m.text LIKE ?1 ESCAPE '\\' \
             GROUP BY m.conversation) ORDER BY c.updated DESC, c.id DESC LIMIT ?2"
        );
        self.hits(&sql, &like(piece), &[piece.to_owned()], most)
    }

    fn hits(&self, sql: &str, pattern: &str, words: &[String], most: usize) -> rusqlite::Result<Vec<Hit>> {
        let mut statement = self.db().prepare_cached(sql)?;
        let rows = statement.query_map(params![pattern, most.min(super::reads::LIST_MAX) as i64], |row| {
            let text: String = row.get(10)?;
            Ok(Hit { line: line(row)?, node: row.get(8)?, role: row.get(9)?, excerpt: excerpt(&text, words) })
        })?;
        rows.collect()
    }
}

/// The pattern of any text that has this piece.
fn like(piece: &str) -> String {
    let pattern = piece.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{pattern}%")
}

/// A text without what differs between two ways to write the same: case, accents and tones, the stroke of đ.
fn bare(text: &str) -> String {
    text.chars().map(bare_char).collect()
}

/// The first character of a decomposition, in lower case: one for one, so that places stay.
fn bare_char(c: char) -> char {
    let base = std::iter::once(c).nfd().next().unwrap_or(c);
    let base = base.to_lowercase().next().unwrap_or(base);
    if base == 'đ' { 'd' } else { base }
}

fn words(text: &str) -> Vec<String> {
    let composed: String = text.nfc().collect();
    let words = composed.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.take(WORDS_MAX).map(|word| bare(word).chars().take(WORD_MAX).collect()).collect()
}

/// The index's question: all of the words, each as the beginning of one. None: there are none.
fn query(words: &[String]) -> Option<String> {
    let terms: Vec<String> = words.iter().map(|word| format!("\"{word}\"*")).collect();
    (!terms.is_empty()).then(|| terms.join(" "))
}

/// The text around the first place of any of the words, on one line.
fn excerpt(text: &str, words: &[String]) -> String {
    let shown: Vec<char> = text.nfc().collect();
    let folded: Vec<char> = shown.iter().copied().map(bare_char).collect();
    let starts = |word: &String| {
        let word: Vec<char> = word.chars().map(bare_char).collect();
        let found = |from: usize| folded.get(from..from + word.len()).is_some_and(|piece| piece == word.as_slice());
        let begins = |at: &usize| *at == 0 || !folded[at - 1].is_alphanumeric();
        (0..folded.len()).filter(begins).find(|at| found(*at)).or_else(|| (0..folded.len()).find(|at| found(*at)))
    };
    let at = words.iter().filter_map(starts).min().unwrap_or(0);
    let (from, to) = (at.saturating_sub(BEFORE), (at + AFTER).min(shown.len()));
    let piece: String = shown[from..to].iter().collect();
    let piece = piece.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{}{piece}{}", if from > 0 { "…" } else { "" }, if to < shown.len() { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vietnamese_is_the_same_with_and_without_its_marks() {
        assert_eq!(words("Đường  phố, người!"), ["duong", "pho", "nguoi"]);
        assert_eq!(words("Đ\u{1b0}\u{1a1}\u{300}ng"), ["duong"], "composed first");
        assert_eq!(query(&words("a \"b\" OR c*")).as_deref(), Some("\"a\"* \"b\"* \"or\"* \"c\"*"));
        assert_eq!(query(&words("+-*/ \"")), None);
    }

    #[test]
    fn an_excerpt_is_around_the_word() {
        let text = format!("{}\nngười ta nói {}", "x ".repeat(60), "y ".repeat(90));
        let piece = excerpt(&text, &["nguoi".into()]);
        assert!(piece.starts_with('…') && piece.ends_with('…') && piece.contains("người ta nói"), "{piece}");
        assert_eq!(excerpt("short", &["none".into()]), "short");
        assert_eq!(excerpt("", &[]), "");
    }
}
