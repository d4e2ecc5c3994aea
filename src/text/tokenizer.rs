//! The tokenizer of a model file.

use std::collections::HashSet;

use aho_corasick::{AhoCorasick, MatchKind};
use tokenizers::decoders::DecoderWrapper;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::{NormalizerWrapper, Prepend, Replace, Sequence as NormalizerSequence};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence as PreSequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::{SplitDelimiterBehavior, TokenizerImpl};

use crate::model::gguf::{GgufError, GgufFile};

use super::template::{ChatTemplate, TemplateError};
use super::{Message, Role, TemplateSource};

type Bpe = TokenizerImpl<BPE, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

/// GGML's token types.
const TYPE_CONTROL: i32 = 3;
const TYPE_USER_DEFINED: i32 = 4;
const TYPE_BYTE: i32 = 6;

/// Control tokens that end an answer in one model or another. Files often name only one of theirs.
const END_MARKERS: [&str; 9] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<end_of_turn>",
    "</s>",
    "<|end_of_turn|>",
];

/// What a model file says of its tokenizer, field by field.
#[derive(Clone, Debug, Default)]
pub struct TokenizerData {
    /// `gpt2` (byte-level BPE) or `llama` (SentencePiece BPE).
    pub model: String,
    /// How text is cut before BPE, for instance `smollm`.
    pub pre: Option<String>,
    pub tokens: Vec<String>,
    /// GGML token types; empty: all normal.
    pub types: Vec<i32>,
    pub merges: Vec<String>,
    pub scores: Vec<f32>,
    pub bos: Option<u32>,
    pub unknown: Option<u32>,
    /// Every id that the file names as an end: eos, eot, eom.
    pub ends: Vec<u32>,
    pub add_bos: bool,
    pub add_space_prefix: bool,
    pub template: Option<String>,
}

impl TokenizerData {
    /// Reads the `tokenizer.*` keys. Their contents are judged by [`TextModel::new`].
    pub fn from_gguf(file: &GgufFile) -> Result<TokenizerData, GgufError> {
        let metadata = file.metadata();
        let key = |name: &str| format!("tokenizer.ggml.{name}");
        let model = metadata.require_str(&key("model"))?.to_owned();
        let strings = |found: Option<Vec<&str>>| found.unwrap_or_default().into_iter().map(str::to_owned).collect();
        let mut ends = Vec::new();
        for name in ["eos_token_id", "eot_token_id", "eom_token_id"] {
            ends.extend(metadata.get_u32(&key(name))?);
        }
        Ok(TokenizerData {
            pre: metadata.get_str(&key("pre"))?.map(str::to_owned),
            tokens: strings(Some(metadata.require_str_array(&key("tokens"))?)),
            types: metadata.get_i32_array(&key("token_type"))?.unwrap_or_default(),
            merges: strings(metadata.get_str_array(&key("merges"))?),
            scores: metadata.get_f32_array(&key("scores"))?.unwrap_or_default(),
            bos: metadata.get_u32(&key("bos_token_id"))?,
            unknown: metadata.get_u32(&key("unknown_token_id"))?,
            ends,
            // What llama.cpp takes when the file says nothing.
            add_bos: metadata.get_bool(&key("add_bos_token"))?.unwrap_or(model == "llama"),
            add_space_prefix: metadata.get_bool(&key("add_space_prefix"))?.unwrap_or(model == "llama"),
            template: metadata.get_str("tokenizer.chat_template")?.map(str::to_owned),
            model,
        })
    }
}

/// A tokenizer that cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    #[error("tokenizer.ggml.model is `{0}`: only `gpt2` (byte-level BPE) and `llama` (SentencePiece) are supported")]
    UnsupportedModel(String),
    #[error("tokenizer.ggml.pre is `{0}`: supported are {SUPPORTED_PRE}")]
    UnsupportedPre(String),
    #[error("the tokenizer has no tokens")]
    NoTokens,
    #[error("the tokenizer has {types} token types for {tokens} tokens")]
    TypesMismatch { tokens: usize, types: usize },
    #[error("the tokenizer has {scores} scores for {tokens} tokens")]
    ScoresMismatch { tokens: usize, scores: usize },
    #[error("merge {index} of the tokenizer (`{merge}`) is not two tokens with a space between")]
    BadMerge { index: usize, merge: String },
    #[error("token id {id} is named as {what}, and the vocabulary has {tokens} tokens")]
    IdOutOfRange { what: &'static str, id: u32, tokens: usize },
    #[error("the tokenizer cannot be built: {0}")]
    Build(String),
    #[error(transparent)]
    Template(#[from] TemplateError),
}

const SUPPORTED_PRE: &str = "gpt-2, smollm, llama-bpe, qwen2";

/// Tokenizer, detokenizer and chat template of one model. Shared, never changed.
#[derive(Debug)]
pub struct TextModel {
    bpe: Bpe,
    /// Finds tokens that are taken whole from any text (user-defined), never control tokens.
    user_defined: Option<Marker>,
    /// Finds those and the control tokens: for text that a template wrote.
    control: Option<Marker>,
    control_strings: Vec<String>,
    bytes: Vec<u8>,
    /// `bytes[offsets[t]..offsets[t + 1]]` is what token t prints.
    offsets: Vec<u32>,
    is_end: Vec<bool>,
    bos: Option<u32>,
    add_bos: bool,
    strips_first_space: bool,
    template: ChatTemplate,
}

#[derive(Debug)]
struct Marker {
    automaton: AhoCorasick,
    ids: Vec<u32>,
}

impl Marker {
    fn new(data: &TokenizerData, types: &[i32]) -> Result<Option<Marker>, TokenizerError> {
        let (ids, strings): (Vec<u32>, Vec<&str>) = data
            .tokens
            .iter()
            .enumerate()
            .filter(|(id, token)| !token.is_empty() && data.types.get(*id).is_some_and(|kind| types.contains(kind)))
            .map(|(id, token)| (id as u32, token.as_str()))
            .unzip();
        if ids.is_empty() {
            return Ok(None);
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(strings)
            .map_err(|error| TokenizerError::Build(error.to_string()))?;
        Ok(Some(Marker { automaton, ids }))
    }
}

impl TextModel {
    pub fn new(data: &TokenizerData) -> Result<TextModel, TokenizerError> {
        check(data)?;
        let bpe = match data.model.as_str() {
            "gpt2" => byte_level_bpe(data)?,
            "llama" => sentencepiece_bpe(data)?,
            other => return Err(TokenizerError::UnsupportedModel(other.to_owned())),
        };
        let (bytes, offsets) = printed_bytes(data);
        let control_strings: Vec<String> =
            data.tokens.iter().enumerate().filter(|(id, _)| is_control(data, *id)).map(|(_, token)| token.clone()).collect();
        let is_end = end_flags(data);
        let name = |id: Option<u32>| id.and_then(|id| data.tokens.get(id as usize)).map_or("", String::as_str);
        let chatml = data.tokens.iter().any(|token| token == "<|im_start|>");
        let template = ChatTemplate::new(data.template.as_deref(), chatml, name(data.bos), name(data.ends.first().copied()))?;
        Ok(TextModel {
            bpe,
            user_defined: Marker::new(data, &[TYPE_USER_DEFINED])?,
            control: Marker::new(data, &[TYPE_CONTROL, TYPE_USER_DEFINED])?,
            control_strings,
            bytes,
            offsets,
            is_end,
            bos: data.bos,
            add_bos: data.add_bos,
            strips_first_space: data.model == "llama" && data.add_space_prefix,
            template,
        })
    }

    pub fn vocab(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether the model ends its answer with this token.
    pub fn is_end(&self, token: u32) -> bool {
        self.is_end.get(token as usize).copied().unwrap_or(false)
    }

    pub fn template_source(&self) -> TemplateSource {
        self.template.source()
    }

    /// What a token prints; nothing for control tokens.
    pub fn token_bytes(&self, token: u32) -> &[u8] {
        let at = token as usize;
        if at + 1 >= self.offsets.len() {
            return &[];
        }
        &self.bytes[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }

    pub(super) fn strips_first_space(&self) -> bool {
        self.strips_first_space
    }

    /// A person's text: what looks like a control token in it stays text.
    pub fn encode_text(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.encode_with(self.user_defined.as_ref(), text, None)
    }

    /// Text that a template wrote: control tokens are taken as such. No BOS is added.
    pub fn encode_with_control(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.encode_with(self.control.as_ref(), text, None)
    }

    /// A conversation, rendered by the chat template and tokenized. Control tokens come from the template alone;
    /// BOS is there once if the model wants it, whether its template writes it or not. When the last message is the
    /// assistant's, it is to go on with it: nothing stands after it.
    pub fn encode_chat(&self, messages: &[Message]) -> Result<Vec<u32>, TokenizerError> {
        let guard = free_noncharacter(messages);
        let guarded: Vec<Message> =
            messages.iter().map(|message| Message::new(message.role, self.guard(&message.content, guard))).collect();
        let (asked, begun) = match guarded.split_last() {
            Some((last, before)) if last.role == Role::Assistant => (before, last.content.as_str()),
            _ => (&guarded[..], ""),
        };
        let rendered = self.template.render(asked)? + begun;
        let mut ids = self.encode_with(self.control.as_ref(), &rendered, Some(guard))?;
        if let Some(bos) = self.bos.filter(|bos| self.add_bos && ids.first() != Some(bos)) {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    /// Puts `guard` before everything in a message that would read as a control token, alone or together with
    /// what the template writes around it.
    fn guard(&self, content: &str, guard: char) -> String {
        let mut starts: Vec<usize> = Vec::new();
        for token in self.control_strings.iter().filter(|token| !token.is_empty()) {
            let mut from = 0;
            while let Some(at) = content[from..].find(token.as_str()) {
                starts.push(from + at);
                let step = content[from + at..].chars().next().map_or(1, char::len_utf8);
                from += at + step;
            }
            if proper_overlap(token, content) > 0 {
                starts.push(0);
            }
            let tail = proper_overlap(content, token);
            if tail > 0 {
                starts.push(content.len() - tail);
            }
        }
        starts.sort_unstable();
        starts.dedup();
        let mut out = String::with_capacity(content.len() + starts.len() * guard.len_utf8());
        let mut from = 0;
        for at in starts {
            out.push_str(&content[from..at]);
            out.push(guard);
            from = at;
        }
        out.push_str(&content[from..]);
        out
    }

    /// Cuts out the tokens that `marker` finds and encodes what lies between. A find right after `guard`, or with
    /// one inside, is text; guards are dropped.
    fn encode_with(&self, marker: Option<&Marker>, text: &str, guard: Option<char>) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::new();
        let Some(marker) = marker else {
            self.encode_plain(text, guard, &mut ids)?;
            return Ok(ids);
        };
        let (mut from, mut search) = (0, 0);
        while let Some(found) = marker.automaton.find(aho_corasick::Input::new(text).span(search..text.len())) {
            if guard.is_some_and(|guard| text[..found.start()].ends_with(guard)) {
                search = found.start() + text[found.start()..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            self.encode_plain(&text[from..found.start()], guard, &mut ids)?;
            ids.push(marker.ids[found.pattern().as_usize()]);
            (from, search) = (found.end(), found.end());
        }
        self.encode_plain(&text[from..], guard, &mut ids)?;
        Ok(ids)
    }

    fn encode_plain(&self, text: &str, guard: Option<char>, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let clean;
        let text = match guard {
            Some(guard) if text.contains(guard) => {
                clean = text.replace(guard, "");
                clean.as_str()
            }
            _ => text,
        };
        if text.is_empty() {
            return Ok(());
        }
        let encoding = self.bpe.encode_fast(text, false).map_err(|error| TokenizerError::Build(error.to_string()))?;
        ids.extend_from_slice(encoding.get_ids());
        Ok(())
    }
}

/// Length of the longest end of `a` that is a beginning of `b`, not all of either.
fn proper_overlap(a: &str, b: &str) -> usize {
    let longest = a.len().min(b.len()).saturating_sub(1);
    (1..=longest).rev().find(|n| b.is_char_boundary(*n) && a.ends_with(&b[..*n])).unwrap_or(0)
}

/// One of Unicode's noncharacters that none of the messages contains. There are 32, and a text that has them all
/// loses its copies of the last: they have no meaning in interchange.
fn free_noncharacter(messages: &[Message]) -> char {
    ('\u{FDD0}'..='\u{FDEF}').find(|c| messages.iter().all(|message| !message.content.contains(*c))).unwrap_or('\u{FDEF}')
}

fn is_control(data: &TokenizerData, id: usize) -> bool {
    data.types.get(id) == Some(&TYPE_CONTROL)
}

fn check(data: &TokenizerData) -> Result<(), TokenizerError> {
    let tokens = data.tokens.len();
    if tokens == 0 {
        return Err(TokenizerError::NoTokens);
    }
    if !data.types.is_empty() && data.types.len() != tokens {
        return Err(TokenizerError::TypesMismatch { tokens, types: data.types.len() });
    }
    if data.model == "llama" && data.scores.len() != tokens {
        return Err(TokenizerError::ScoresMismatch { tokens, scores: data.scores.len() });
    }
    let named = data.ends.iter().map(|id| ("an end of generation", *id)).chain(data.bos.map(|id| ("the beginning of text", id)));
    for (what, id) in named {
        if id as usize >= tokens {
            return Err(TokenizerError::IdOutOfRange { what, id, tokens });
        }
    }
    Ok(())
}

fn end_flags(data: &TokenizerData) -> Vec<bool> {
    let mut flags: Vec<bool> =
        data.tokens.iter().enumerate().map(|(id, token)| is_control(data, id) && END_MARKERS.contains(&token.as_str())).collect();
    for id in &data.ends {
        flags[*id as usize] = true;
    }
    flags
}

fn vocabulary(data: &TokenizerData) -> Vocab {
    // The first of two equal strings is the one that text is encoded to.
    let mut seen = HashSet::new();
    data.tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| seen.insert(token.as_str()))
        .map(|(id, token)| (token.clone(), id as u32))
        .collect()
}

/// GPT-2's BPE over bytes, cut up as `pre` says.
fn byte_level_bpe(data: &TokenizerData) -> Result<Bpe, TokenizerError> {
    let build = |error: tokenizers::Error| TokenizerError::Build(error.to_string());
    let mut merges = Vec::with_capacity(data.merges.len());
    for (index, merge) in data.merges.iter().enumerate() {
        let Some((left, right)) = merge.split_once(' ').filter(|(left, right)| !left.is_empty() && !right.is_empty()) else {
            return Err(TokenizerError::BadMerge { index, merge: merge.chars().take(40).collect() });
        };
        merges.push((left.to_owned(), right.to_owned()));
    }
    let pre = data.pre.as_deref().unwrap_or("gpt-2");
    let bpe =
        BPE::builder().vocab_and_merges(vocabulary(data), merges).ignore_merges(pre == "llama-bpe").build().map_err(build)?;
    let split = |pattern: &str| {
        let pattern = SplitPattern::Regex(pattern.to_owned());
        Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map(PreTokenizerWrapper::Split).map_err(build)
    };
    let bytes = |use_regex| PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, false, use_regex));
    let steps = match pre {
        "gpt-2" | "default" => vec![bytes(true)],
        "smollm" => vec![PreTokenizerWrapper::Digits(Digits::new(true)), bytes(true)],
        "llama-bpe" | "llama-v3" | "llama3" => vec![split(&cl100k("\\p{N}{1,3}"))?, bytes(false)],
        "qwen2" => vec![split(&cl100k("\\p{N}"))?, bytes(false)],
        other => return Err(TokenizerError::UnsupportedPre(other.to_owned())),
    };
    let mut tokenizer = Bpe::new(bpe);
    tokenizer.with_pre_tokenizer(Some(PreTokenizerWrapper::Sequence(PreSequence::new(steps))));
    Ok(tokenizer)
}

/// The cutting pattern of tiktoken's cl100k family, which differ in how digits are grouped.
fn cl100k(digits: &str) -> String {
    format!(
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{{L}}\\p{{N}}]?\\p{{L}}+|{digits}| ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    )
}

/// SentencePiece's BPE: a pair is merged when the result is a token, the best score first. The list of merges is
/// worked out from the scores, as transformers does for its fast tokenizers.
fn sentencepiece_bpe(data: &TokenizerData) -> Result<Bpe, TokenizerError> {
    let build = |error: tokenizers::Error| TokenizerError::Build(error.to_string());
    let known: std::collections::HashMap<&str, u32> = vocabulary_ref(data);
    let mut ranked: Vec<(f32, u32, &str, &str)> = Vec::new();
    for (id, token) in data.tokens.iter().enumerate() {
        // Pieces are a few dozen bytes; a longer one is not worth its square of splits.
        if token.len() > 256 {
            continue;
        }
        for (at, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(at);
            if known.contains_key(left) && known.contains_key(right) {
                ranked.push((data.scores[id], id as u32, left, right));
            }
        }
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| (known[a.2], known[a.3]).cmp(&(known[b.2], known[b.3]))));
    let merges = ranked.into_iter().map(|(_, _, left, right)| (left.to_owned(), right.to_owned())).collect();
    let mut builder = BPE::builder().vocab_and_merges(vocabulary(data), merges).byte_fallback(true).fuse_unk(true);
    if let Some(unknown) = data.unknown.and_then(|id| data.tokens.get(id as usize)) {
        builder = builder.unk_token(unknown.clone());
    }
    let mut steps = Vec::new();
    if data.add_space_prefix {
        steps.push(NormalizerWrapper::Prepend(Prepend::new("▁".to_owned())));
    }
    steps.push(NormalizerWrapper::Replace(Replace::new(" ", "▁").map_err(build)?));
    let mut tokenizer = Bpe::new(builder.build().map_err(build)?);
    tokenizer.with_normalizer(Some(NormalizerWrapper::Sequence(NormalizerSequence::new(steps)))).map_err(build)?;
    Ok(tokenizer)
}

fn vocabulary_ref(data: &TokenizerData) -> std::collections::HashMap<&str, u32> {
    data.tokens.iter().enumerate().rev().map(|(id, token)| (token.as_str(), id as u32)).collect()
}

/// What each token prints, all in one buffer.
fn printed_bytes(data: &TokenizerData) -> (Vec<u8>, Vec<u32>) {
    let byte_level = byte_level_alphabet();
    let mut bytes = Vec::new();
    let mut offsets = Vec::with_capacity(data.tokens.len() + 1);
    for (id, token) in data.tokens.iter().enumerate() {
        offsets.push(bytes.len() as u32);
        let kind = data.types.get(id).copied().unwrap_or(1);
        if kind == TYPE_CONTROL {
            continue;
        }
        if data.model == "llama" {
            match (kind == TYPE_BYTE).then(|| byte_token(token)).flatten() {
                Some(byte) => bytes.push(byte),
                None => bytes.extend_from_slice(token.replace('▁', " ").as_bytes()),
            }
        } else if kind == TYPE_USER_DEFINED {
            bytes.extend_from_slice(token.as_bytes());
        } else {
            for c in token.chars() {
                match byte_level.get(c as usize).copied().flatten() {
                    Some(byte) => bytes.push(byte),
                    None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                }
            }
        }
    }
    offsets.push(bytes.len() as u32);
    (bytes, offsets)
}

/// `<0x0A>` is the byte 10.
fn byte_token(token: &str) -> Option<u8> {
    u8::from_str_radix(token.strip_prefix("<0x")?.strip_suffix('>')?, 16).ok()
}

/// GPT-2's printable stand-ins for the 256 bytes, as a table from character to byte: printable Latin-1 stands for
/// itself, the rest for U+0100 and up, in order.
fn byte_level_alphabet() -> Vec<Option<u8>> {
    let mut table = vec![None; 0x144];
    let mut next = 0x100;
    for byte in 0..=255u8 {
        let stands_for_itself = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        let at = if stands_for_itself {
            byte as usize
        } else {
            next += 1;
            next - 1
        };
        table[at] = Some(byte);
    }
    table
}
