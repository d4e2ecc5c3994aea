//! A conversation written to a file: as Markdown to be read, as JSON with everything in it.

use serde::Serialize;

use super::editor::Editor;
use super::state::Pane;
use crate::conversation::{Figures, Maker, NodeId};
use crate::sampling::SamplingParams;
use crate::store;
use crate::text::Role;

/// Where it is to go.
#[derive(Clone, Debug)]
pub struct Save {
    pub path: Editor,
    /// Why it is not there yet.
    pub problem: Option<String>,
    /// A file of that name is there: the next Enter replaces it.
    pub exists: Option<String>,
}

impl Save {
    pub fn to(path: &str) -> Save {
        Save { path: Editor::with_text(path), problem: None, exists: None }
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Saved {
    /// The whole path, and bytes.
    Done {
        path: String,
        bytes: usize,
    },
    /// Nothing was written.
    Exists(String),
    Failed {
        path: String,
        why: String,
    },
}

/// A name for a pane's file that no folder and no other system minds.
pub fn name_for(person: &str) -> String {
    let letters = person.chars().map(|c| if c.is_alphanumeric() { c } else { '-' });
    format!("batchroom-{}.md", letters.collect::<String>().trim_matches('-'))
}

/// By the ending of the path: `.json`, else Markdown.
pub fn text_for(path: &str, pane: &Pane) -> String {
    if path.to_lowercase().ends_with(".json") { json(pane) } else { markdown(pane) }
}

/// The path that is read now.
pub fn markdown(pane: &Pane) -> String {
    let person = pane.person.name.as_str();
    let path = pane.conversation.path().into_iter().map(|id| &pane.conversation.nodes()[id]).map(|node| {
        let who = match (&node.maker, node.role) {
            (Some(maker), Role::Assistant) => maker.model.as_str(),
            (_, Role::User) => person,
            (_, role) => role.as_str(),
        };
        (who, node.text.as_str(), node.note.as_deref())
    });
    store::markdown(person, None, pane.system.as_deref(), path)
}

#[derive(Serialize)]
struct File<'a> {
    batchroom_chat: u32,
    person: &'a str,
    system: Option<&'a str>,
    sampling: &'a SamplingParams,
    leaf: Option<NodeId>,
    messages: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    id: NodeId,
    parent: Option<NodeId>,
    role: Role,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    made_by: Option<&'a Maker>,
    #[serde(skip_serializing_if = "Option::is_none")]
    figures: Option<&'a Figures>,
}

/// All branches, with who made them and what they took.
pub fn json(pane: &Pane) -> String {
    let tree = &pane.conversation;
    let entry = |id: NodeId| {
        let node = tree.node(id)?;
        Some(Entry {
            id,
            parent: node.parent,
            role: node.role,
            text: &node.text,
            note: node.note.as_deref(),
            made_by: node.maker.as_ref(),
            figures: node.figures.as_ref(),
        })
    };
    let file = File {
        batchroom_chat: 1,
        person: &pane.person.name,
        system: pane.system.as_deref(),
        sampling: &pane.sampling,
        leaf: tree.leaf(),
        messages: (0..tree.nodes().len()).filter_map(entry).collect(),
    };
    // Plain data without maps: it cannot fail.
    store::escaped(&serde_json::to_string_pretty(&file).unwrap_or_default()) + "\n"
}
