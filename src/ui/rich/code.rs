//! Words of code told apart: keywords, texts, numbers, comments. Loading the grammars takes a while, so somebody else does it.

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

use super::{Ink, Kind};

/// Bytes of one line that are looked at; grammars are slow on lines that nobody wrote by hand.
const LINE_MAX: usize = 1024;
/// Lines of one block that are looked at.
const LINES_MAX: usize = 2_000;

/// Grammars, and what their scopes mean here.
pub struct Highlighter {
    syntaxes: SyntaxSet,
    kinds: Vec<(Scope, Kind)>,
}

impl std::fmt::Debug for Highlighter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Highlighter({} grammars)", self.syntaxes.syntaxes().len())
    }
}

const KINDS: [(&str, Kind); 16] = [
    ("comment", Kind::Comment),
    ("punctuation.definition.comment", Kind::Comment),
    ("string", Kind::Literal),
    ("punctuation.definition.string", Kind::Literal),
    ("constant", Kind::Number),
    ("keyword.operator", Kind::Text),
    ("keyword", Kind::Keyword),
    ("storage.type.function", Kind::Keyword),
    ("storage", Kind::Keyword),
    ("entity.name.function", Kind::Name),
    ("support.function", Kind::Name),
    ("entity.name.tag", Kind::Keyword),
    ("entity.name", Kind::Type),
    ("support.type", Kind::Type),
    ("support.class", Kind::Type),
    ("entity.other.attribute-name", Kind::Name),
];

/// Where in its grammar a block of code is.
#[derive(Clone)]
pub struct Progress {
    parse: ParseState,
    stack: ScopeStack,
    lines: usize,
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Progress({} lines)", self.lines)
    }
}

impl Highlighter {
    /// Unpacks the grammars: some tens of milliseconds.
    pub fn load() -> Highlighter {
        let kinds = KINDS.iter().filter_map(|(name, kind)| Scope::new(name).ok().map(|scope| (scope, *kind)));
        Highlighter { syntaxes: two_face::syntax::extra_newlines(), kinds: kinds.collect() }
    }

    /// At the beginning of code in this language; None: it has no grammar.
    pub fn begin(&self, language: &str) -> Option<Progress> {
        let syntax = self.syntaxes.find_syntax_by_token(language)?;
        Some(Progress { parse: ParseState::new(syntax), stack: ScopeStack::new(), lines: 0 })
    }

    /// The pieces of one line: where each ends, and what it is.
    pub fn line(&self, progress: &mut Progress, text: &str) -> Vec<(usize, Ink)> {
        let plain = vec![(text.len(), Ink::of(Kind::Code))];
        progress.lines += 1;
        if text.len() > LINE_MAX || progress.lines > LINES_MAX {
            return plain;
        }
        let Ok(ops) = progress.parse.parse_line(&format!("{text}\n"), &self.syntaxes) else { return plain };
        let mut pieces: Vec<(usize, Ink)> = Vec::new();
        let mut from = 0;
        for (at, op) in ops {
            let at = at.min(text.len());
            if at > from && text.is_char_boundary(at) {
                self.piece(&mut pieces, at, &progress.stack);
                from = at;
            }
            if progress.stack.apply(&op).is_err() {
                return plain;
            }
        }
        if text.len() > from {
            self.piece(&mut pieces, text.len(), &progress.stack);
        }
        pieces
    }

    fn piece(&self, pieces: &mut Vec<(usize, Ink)>, end: usize, stack: &ScopeStack) {
        let kind_of = |scope: &Scope| self.kinds.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope)).map(|(_, kind)| *kind);
        let ink = Ink::of(stack.scopes.iter().rev().find_map(kind_of).unwrap_or_default());
        match pieces.last_mut() {
            Some((last, same)) if *same == ink => *last = end,
            _ => pieces.push((end, ink)),
        }
    }
}
