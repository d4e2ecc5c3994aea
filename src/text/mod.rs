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
