//! Conversations as files: Markdown to read, JSON to take in again.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::reads::{BYTES_MAX, MESSAGES_MAX, Stored, StoredMessage};
use super::{TEXT_MAX, writes};
use crate::text::Role;

/// Format of the JSON.
pub const EXPORT_VERSION: u32 = 1;
/// Format of one conversation as the room exports it.
const CHAT_VERSION: u32 = 1;
/// Bytes of a name, a model's name, a note, a JSON object beside a text.
const SHORT_MAX: usize = 64 << 10;
/// Conversations of one file.
const CONVERSATIONS_MAX: usize = 10_000;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    batchroom_conversations: u32,
    conversations: Vec<Conversation>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Conversation {
    person: String,
    #[serde(default)]
    title: String,
    system: Option<String>,
    #[serde(default)]
    model: String,
    created_unix_ms: i64,
    updated_unix_ms: i64,
    /// The end of the path that is shown.
    leaf: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    draft: Option<String>,
    messages: Vec<Message>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    node: u32,
    parent: Option<u32>,
    role: Role,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    created_unix_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sampling: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    figures: Option<Value>,
    /// The program ended before the answer did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

/// One conversation as the room exports it (`ui/save.rs`): it has no times.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Chat {
    #[serde(rename = "batchroom_chat")]
    _version: u32,
    person: String,
    system: Option<String>,
    /// The pane's; each answer has its own.
    #[serde(rename = "sampling")]
    _sampling: Option<Value>,
    leaf: Option<u32>,
    messages: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: u32,
    parent: Option<u32>,
    role: Role,
    text: String,
    note: Option<String>,
    made_by: Option<MadeBy>,
    figures: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MadeBy {
    model: String,
    sampling: Option<Value>,
}

/// As one of an export of the history, begun and last changed `now`.
fn of_room(chat: Chat, now: i64) -> Conversation {
    let message = |entry: Entry| {
        let (model, sampling) = entry.made_by.map_or((None, None), |made_by| (Some(made_by.model), made_by.sampling));
        Message {
            node: entry.id,
            parent: entry.parent,
            role: entry.role,
            text: entry.text,
            note: entry.note,
            created_unix_ms: now,
            model,
            sampling,
            figures: entry.figures,
            cut: false,
        }
    };
    let messages: Vec<Message> = chat.messages.into_iter().map(message).collect();
    Conversation {
        person: chat.person,
        title: String::new(),
        system: chat.system,
        model: messages.iter().rev().find_map(|message| message.model.clone()).unwrap_or_default(),
        created_unix_ms: now,
        updated_unix_ms: now,
        leaf: chat.leaf,
        draft: None,
        messages,
    }
}

/// Why a file is not taken in.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("it is no export of batchroom: {0}")]
    Json(#[from] serde_json::Error),
    #[error("its format is {found}, and this batchroom knows {EXPORT_VERSION}")]
    Version { found: u32 },
    #[error("it has more than {CONVERSATIONS_MAX} conversations")]
    TooMany,
    #[error("conversation {number}: {what}")]
    Conversation { number: usize, what: String },
}

/// A conversation of a JSON export, ready to be one of a file's.
fn outgoing(stored: &Stored) -> Conversation {
    let object = |text: &Option<String>| text.as_deref().and_then(|text| serde_json::from_str(text).ok());
    Conversation {
        person: stored.person.clone(),
        title: stored.title.clone(),
        system: stored.system.clone(),
        model: stored.model.clone(),
        created_unix_ms: stored.created,
        updated_unix_ms: stored.updated,
        leaf: stored.leaf,
        draft: stored.draft.clone(),
        messages: stored
            .messages
            .iter()
            .map(|message| Message {
                node: message.node,
                parent: message.parent,
                role: message.role,
                text: message.text.clone(),
                note: message.note.clone(),
                created_unix_ms: message.created,
                model: message.model.clone(),
                sampling: object(&message.sampling),
                figures: object(&message.figures),
                cut: message.cut,
            })
            .collect(),
    }
}

/// The whole tree of each, to be taken in again.
pub fn to_json(stored: &[Stored]) -> Result<String, serde_json::Error> {
    let conversations = stored.iter().map(outgoing).collect();
    serde_json::to_string_pretty(&File { batchroom_conversations: EXPORT_VERSION, conversations }).map(|text| escaped(&text))
}

/// JSON whose texts command no terminal: what is no sign of its own is written as `\u009b`, and means the same.
pub fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            // JSON has none of these inside texts, and outside they are its own layout.
            '\n' | '\t' => out.push(letter),
            letter if crate::text::visible(letter) == Some(letter) => out.push(letter),
            letter => letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    out
}

/// What a file has, checked: nothing is believed.
pub fn from_json(text: &str) -> Result<Vec<Stored>, ImportError> {
    /// The version alone, before the rest is held against it.
    #[derive(Deserialize)]
    struct Version {
        batchroom_conversations: Option<u32>,
        batchroom_chat: Option<u32>,
    }
    let version: Version = serde_json::from_str(text)?;
    if let Some(found) = version.batchroom_chat.filter(|found| *found != CHAT_VERSION) {
        return Err(ImportError::Version { found });
    }
    if version.batchroom_chat.is_some() && version.batchroom_conversations.is_none() {
        let chat = of_room(serde_json::from_str(text)?, super::now());
        return incoming(chat).map(|stored| vec![stored]).map_err(|what| ImportError::Conversation { number: 1, what });
    }
    if let Some(found) = version.batchroom_conversations.filter(|found| *found != EXPORT_VERSION) {
        return Err(ImportError::Version { found });
    }
    let file: File = serde_json::from_str(text)?;
    if file.conversations.len() > CONVERSATIONS_MAX {
        return Err(ImportError::TooMany);
    }
    let incoming = |(at, conversation)| incoming(conversation).map_err(|what| ImportError::Conversation { number: at + 1, what });
    file.conversations.into_iter().enumerate().map(incoming).collect()
}

/// Times are of the years 1 to 9999: no others can be written as dates.
fn in_range(what: &str, unix_ms: i64) -> Result<(), String> {
    const FIRST: i64 = -62_135_596_800_000;
    const LAST: i64 = 253_402_300_799_999;
    match (FIRST..=LAST).contains(&unix_ms) {
        true => Ok(()),
        false => {
            Err(format!("the time when {what} is {unix_ms}: it must be in milliseconds since 1970, of a year from 1 to 9999"))
        }
    }
}

/// What stands beside the texts is short.
fn short(what: &str, text: &str) -> Result<(), String> {
    match text.len() > SHORT_MAX {
        true => Err(format!("{what} is longer than {SHORT_MAX} bytes")),
        false => Ok(()),
    }
}

fn incoming_message(message: Message) -> Result<StoredMessage, String> {
    let node = message.node;
    let object = |what: &str, value: Option<Value>| match value {
        None => Ok(None),
        Some(value @ Value::Object(_)) => {
            let text = value.to_string();
            short(what, &text).map(|()| Some(text))
        }
        Some(_) => Err(format!("message {node}: `{what}` must be an object")),
    };
    short("a note", message.note.as_deref().unwrap_or_default())?;
    short("a model's name", message.model.as_deref().unwrap_or_default())?;
    if message.text.len() > TEXT_MAX / 2 {
        return Err(format!("message {node} is longer than {} MiB", TEXT_MAX >> 21));
    }
    in_range(&format!("message {node} was written"), message.created_unix_ms)?;
    Ok(StoredMessage {
        node,
        parent: message.parent,
        role: message.role,
        sampling: object("sampling", message.sampling)?,
        figures: object("figures", message.figures)?,
        text: message.text,
        note: message.note,
        created: message.created_unix_ms,
        model: message.model,
        cut: message.cut,
    })
}

fn incoming(conversation: Conversation) -> Result<Stored, String> {
    if conversation.messages.len() > MESSAGES_MAX {
        return Err(format!("it has more than {MESSAGES_MAX} messages"));
    }
    let bytes: usize = conversation.messages.iter().map(|message| message.text.len()).sum();
    if bytes > BYTES_MAX {
        return Err(format!("it has more than {} MiB of text", BYTES_MAX >> 20));
    }
    short("the person's name", &conversation.person)?;
    short("the title", &conversation.title)?;
    short("the model's name", &conversation.model)?;
    if conversation.draft.as_ref().is_some_and(|draft| draft.len() > TEXT_MAX / 2) {
        return Err(format!("its draft is longer than {} MiB", TEXT_MAX >> 21));
    }
    let messages = conversation.messages.into_iter().map(incoming_message).collect::<Result<Vec<_>, _>>()?;
    let first = messages.iter().find(|message| message.role == Role::User);
    in_range("it began", conversation.created_unix_ms)?;
    in_range("it was changed last", conversation.updated_unix_ms)?;
    let title = match conversation.title.is_empty() {
        true => first.map(|message| writes::title(&message.text)).unwrap_or_default(),
        false => conversation.title,
    };
    let stored = Stored {
        id: 0,
        person: conversation.person,
        title,
        system: conversation.system,
        model: conversation.model,
        created: conversation.created_unix_ms,
        updated: conversation.updated_unix_ms,
        leaf: conversation.leaf,
        draft: conversation.draft,
        messages,
    };
    stored.fault().map_or(Ok(stored), Err)
}

/// One text of a page: who says it, what, and what stands under it.
pub type Said<'a> = (&'a str, &'a str, Option<&'a str>);

/// A conversation to be read, as history and room write it: headings are who speaks, texts are as they were written.
pub fn markdown<'a>(title: &str, under: Option<&str>, system: Option<&str>, said: impl IntoIterator<Item = Said<'a>>) -> String {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut out = format!("# {}\n", one_line(title));
    if let Some(under) = under {
        out.push_str(&format!("\n{}\n", one_line(under)));
    }
    if let Some(system) = system {
        out.push_str(&format!("\n## system\n\n{}\n", system.trim_end()));
    }
    for (who, text, note) in said {
        out.push_str(&format!("\n## {}\n\n{}\n", one_line(who), text.trim_end()));
        if let Some(note) = note {
            out.push_str(&format!("\n*{}*\n", one_line(note)));
        }
    }
    // To be read, on a terminal too.
    crate::text::printable(&out)
}

/// The path that is shown, to be read.
pub fn to_markdown(stored: &Stored) -> String {
    let title = if stored.title.is_empty() { &stored.person } else { &stored.title };
    let date = super::date::date(stored.created);
    let parts = [stored.person.as_str(), &date, &stored.model];
    let under = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let path = stored.path().into_iter().map(|at| &stored.messages[at]).map(|message| {
        let who = match message.role {
            Role::User => stored.person.as_str(),
            Role::Assistant => message.model.as_deref().unwrap_or("assistant"),
            Role::System => "system",
        };
        let note = message.note.as_deref().or(message.cut.then_some("cut off: the program ended"));
        (who, message.text.as_str(), note)
    });
    let draft = stored.draft.as_deref().map(|draft| ("draft", draft, None));
    markdown(title, Some(&under), stored.system.as_deref(), path.chain(draft))
}
