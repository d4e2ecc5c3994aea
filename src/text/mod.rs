//! Tokenizer, chat template, incremental detokenizer: all from the model file, all bounded.

mod decode;
mod template;
mod tokenizer;

pub use decode::{StopMatcher, StreamDecoder};
pub use template::{ChatTemplate, TemplateError, TemplateSource};
pub use tokenizer::{TextModel, TokenizerData, TokenizerError};

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    /// The word that chat templates use.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Message {
    pub role: Role,
    pub content: String,
}

impl Message {
    pub fn new(role: Role, content: impl Into<String>) -> Message {
        Message { role, content: content.into() }
    }
}

/// Text that can go to a terminal: control characters (but newline and tab) become visible stand-ins, so that
/// nothing a model says is obeyed as an escape sequence; what reorders the line is dropped.
pub fn printable(text: &str) -> String {
    text.chars().filter_map(visible).collect()
}

/// What to show for a character; None for those that only reorder others (bidirectional controls).
pub fn visible(c: char) -> Option<char> {
    match c {
        '\n' | '\t' => Some(c),
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + c as u32),
        '\u{7f}' => Some('\u{2421}'),
        '\u{80}'..='\u{9f}' => Some(char::REPLACEMENT_CHARACTER),
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}' => None,
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}' => None,
        _ => Some(c),
    }
}
