//! A conversation as a tree: every answer that was asked for again and every prompt that was written anew stays beside
//! the one before. **Pure**: no clock, no IO; each change is a small value that a store can keep.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::sampling::SamplingParams;
use crate::scheduler::FinishReason;
use crate::text::{Message, Role};

/// A message's place in the tree: they are numbered as they come, so a parent's number is always smaller.
pub type NodeId = usize;

/// Messages of one conversation at most, removed ones included.
pub const MAX_NODES: usize = 20_000;
/// Bytes of text in one conversation at most.
pub const MAX_BYTES: usize = 16 << 20;

/// A bound was hit; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    #[error("this conversation has {MAX_NODES} messages, and no more fit: begin a new one")]
    Nodes,
    #[error("this conversation has {} MiB of text, and no more fits: begin a new one", MAX_BYTES >> 20)]
    Bytes,
}

/// What cannot have been a conversation of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the conversation is damaged: {0}")]
pub struct Damaged(pub String);

/// Who made an answer: enough to have the same one again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Maker {
    /// The model's name.
    pub model: String,
    /// With the seed that was used.
    pub sampling: SamplingParams,
}

/// What an answer took. Times are engine time, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub reason: FinishReason,
    pub prompt_tokens: usize,
    /// Prompt tokens whose keys and values were there already.
    pub cached_tokens: usize,
    /// Tokens generated.
    pub tokens: usize,
    pub ttft_us: Option<u64>,
    /// Decode only.
    pub tokens_per_s: Option<f64>,
    pub preemptions: u32,
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub parent: Option<NodeId>,
    pub role: Role,
    /// As it was written, not cleaned.
    pub text: String,
    /// How it ended, when that is worth a line.
    pub note: Option<String>,
    pub maker: Option<Maker>,
    pub figures: Option<Figures>,
    /// Text is still to come.
    pub open: bool,
    /// Deleted: it and all below have no text, and are on no path. The numbers of the others stay.
    pub removed: bool,
}

/// One change of a tree, as a store keeps it. Applied in order to an empty tree they give the same tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// `id` is the number of messages before it.
    Added {
        id: NodeId,
        parent: Option<NodeId>,
        role: Role,
        text: String,
        maker: Option<Maker>,
        open: bool,
    },
    /// Text at the end of a message.
    Appended {
        id: NodeId,
        text: String,
    },
    /// An answer that had ended goes on.
    Reopened {
        id: NodeId,
        maker: Option<Maker>,
    },
    Ended {
        id: NodeId,
        note: Option<String>,
        figures: Option<Figures>,
    },
    /// Which message the conversation ends with now.
    Leaf(Option<NodeId>),
    /// It and all below.
    Removed(NodeId),
}

/// The tree, and the path through it that is read now.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// Tells the conversations of one session apart; not of two sessions.
    pub key: u64,
    nodes: Vec<Node>,
    leaf: Option<NodeId>,
    bytes: usize,
    /// What has changed since somebody took it; None: nobody will.
    log: Option<Vec<Change>>,
}

impl PartialEq for Conversation {
    /// The same messages, the same path.
    fn eq(&self, other: &Self) -> bool {
        (&self.nodes, self.leaf) == (&other.nodes, other.leaf)
    }
}

impl Conversation {
    /// An empty one, whose changes are to be taken from time to time.
    pub fn kept(key: u64) -> Conversation {
        Conversation { key, log: Some(Vec::new()), ..Conversation::default() }
    }

    /// From its messages as they were kept. What was still being answered ends where it is, with `note`.
    ///
    /// # Errors
    /// When they are no tree, or over the bounds.
    pub fn restore(key: u64, mut nodes: Vec<Node>, leaf: Option<NodeId>, note: &str) -> Result<Conversation, Damaged> {
        if nodes.len() > MAX_NODES {
            return Err(Damaged(Full::Nodes.to_string()));
        }
        let bytes = nodes.iter().fold(0usize, |sum, node| sum.saturating_add(node.text.len()));
        if bytes > MAX_BYTES {
            return Err(Damaged(Full::Bytes.to_string()));
        }
        for id in 0..nodes.len() {
            let Some(parent) = nodes[id].parent else { continue };
            if parent >= id {
                return Err(Damaged(format!("message {id} comes after {parent}, which comes later")));
            }
            if nodes[parent].removed && !nodes[id].removed {
                return Err(Damaged(format!("message {id} comes after {parent}, which was deleted")));
            }
        }
        if let Some(leaf) = leaf
            && nodes.get(leaf).is_none_or(|node| node.removed)
        {
            return Err(Damaged(format!("it ends with message {leaf}, which is not there")));
        }
        for node in nodes.iter_mut().filter(|node| node.open) {
            node.open = false;
            node.note = Some(note.to_owned());
        }
        Ok(Conversation { key, nodes, leaf, bytes, log: Some(Vec::new()) })
    }

    /// What has changed since the last time, oldest first.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub fn is_empty(&self) -> bool {
        self.leaf.is_none() && self.nodes.iter().all(|node| node.removed)
    }

    /// All messages by number, removed ones included.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A message that is there.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id).filter(|node| !node.removed)
    }

    /// The message that the conversation ends with now.
    pub fn leaf(&self) -> Option<NodeId> {
        self.leaf
    }

    /// Bytes of text, all branches together.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// From the first message to this one.
    pub fn path_to(&self, id: NodeId) -> Vec<NodeId> {
        let mut path = Vec::new();
        let mut next = self.node(id).map(|_| id);
        while let Some(id) = next {
            path.push(id);
            next = self.nodes[id].parent;
        }
        path.reverse();
        path
    }

    /// From the first message to the one that it ends with now.
    pub fn path(&self) -> Vec<NodeId> {
        self.leaf.map(|leaf| self.path_to(leaf)).unwrap_or_default()
    }

    /// The messages that stand at the same place, this one among them, oldest first.
    pub fn siblings(&self, id: NodeId) -> Vec<NodeId> {
        let Some(node) = self.node(id) else { return Vec::new() };
        // None is older than its parent.
        let from = node.parent.map_or(0, |parent| parent + 1);
        (from..self.nodes.len()).filter(|other| !self.nodes[*other].removed && self.nodes[*other].parent == node.parent).collect()
    }

    /// Which of its siblings it is, from 1, and how many there are.
    pub fn place(&self, id: NodeId) -> (usize, usize) {
        let siblings = self.siblings(id);
        (siblings.iter().position(|other| *other == id).map_or(0, |at| at + 1), siblings.len())
    }

    /// The same for each message of a path, in one go.
    pub fn places(&self, path: &[NodeId]) -> Vec<(usize, usize)> {
        let mut children: HashMap<Option<NodeId>, Vec<NodeId>> = HashMap::new();
        for (id, node) in self.nodes.iter().enumerate().filter(|(_, node)| !node.removed) {
            children.entry(node.parent).or_default().push(id);
        }
        let place = |id: &NodeId| {
            let siblings = self.node(*id).and_then(|node| children.get(&node.parent));
            siblings.map_or((0, 0), |all| (all.partition_point(|other| other < id) + 1, all.len()))
        };
        path.iter().map(place).collect()
    }

    /// A conversation of its own that is the path to a message.
    pub fn branch_off(&self, key: u64, last: NodeId) -> Conversation {
        let mut branch = Conversation::kept(key);
        for (at, id) in self.path_to(last).into_iter().enumerate() {
            let Node { role, text, note, maker, figures, .. } = self.nodes[id].clone();
            branch.note(Change::Added { id: at, parent: at.checked_sub(1), role, text, maker, open: false });
            if note.is_some() || figures.is_some() {
                branch.note(Change::Ended { id: at, note, figures });
            }
            branch.go(Some(at));
        }
        branch
    }

    /// Whatever was said last below a message (itself, when nothing was).
    pub fn newest_below(&self, id: NodeId) -> NodeId {
        // Children have higher numbers: the highest of all below has no child.
        let mut below = vec![false; self.nodes.len().saturating_sub(id)];
        let mut newest = id;
        for other in id..self.nodes.len() {
            let node = &self.nodes[other];
            let inside = other == id || node.parent.is_some_and(|parent| parent >= id && below[parent - id]);
            if inside && !node.removed {
                below[other - id] = true;
                newest = other;
            }
        }
        newest
    }

    /// Whether `id` is `above` or below it.
    pub fn is_below(&self, id: NodeId, above: NodeId) -> bool {
        self.path_to(id).contains(&above)
    }

    /// What a model is told up to a message: messages of one role in a row are joined, since many templates insist on
    /// taking turns.
    pub fn messages(&self, system: Option<&str>, last: Option<NodeId>) -> Vec<Message> {
        let mut messages: Vec<Message> = Vec::new();
        if let Some(system) = system.filter(|text| !text.is_empty()) {
            messages.push(Message::new(Role::System, system));
        }
        let path = last.map(|id| self.path_to(id)).unwrap_or_default();
        for node in path.into_iter().map(|id| &self.nodes[id]).filter(|node| !node.text.is_empty()) {
            match messages.last_mut() {
                Some(last) if last.role == node.role => {
                    last.content.push_str("\n\n");
                    last.content.push_str(&node.text);
                }
                _ => messages.push(Message::new(node.role, node.text.clone())),
            }
        }
        messages
    }

    /// A whole message at the end.
    ///
    /// # Errors
    /// When the conversation is full.
    pub fn say(&mut self, role: Role, text: &str) -> Result<NodeId, Full> {
        self.add(self.leaf, role, text, None, false)
    }

    /// A message at any place: after `parent`, beside what came after it until now. The conversation ends with it then.
    /// With `open`, text and an end are still to come.
    ///
    /// # Errors
    /// When the conversation is full.
    pub fn add(
        &mut self,
        parent: Option<NodeId>,
        role: Role,
        text: &str,
        maker: Option<Maker>,
        open: bool,
    ) -> Result<NodeId, Full> {
        if self.nodes.len() >= MAX_NODES {
            return Err(Full::Nodes);
        }
        if text.len() > MAX_BYTES - self.bytes {
            return Err(Full::Bytes);
        }
        let id = self.nodes.len();
        let parent = parent.filter(|parent| self.node(*parent).is_some());
        self.note(Change::Added { id, parent, role, text: text.to_owned(), maker, open });
        self.go(Some(id));
        Ok(id)
    }

    /// Text at the end of a message. What is over the bound is left out.
    ///
    /// # Errors
    /// When some of it did not fit.
    pub fn append(&mut self, id: NodeId, text: &str) -> Result<(), Full> {
        if text.is_empty() || self.node(id).is_none() {
            return Ok(());
        }
        let room = MAX_BYTES - self.bytes;
        let fits = (0..=text.len().min(room)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        if fits > 0 {
            self.note(Change::Appended { id, text: text[..fits].to_owned() });
        }
        if fits < text.len() { Err(Full::Bytes) } else { Ok(()) }
    }

    /// Nothing more comes; `note` says how it ended when that is worth a line.
    pub fn end(&mut self, id: NodeId, note: Option<String>, figures: Option<Figures>) {
        if self.node(id).is_some() {
            self.note(Change::Ended { id, note, figures });
        }
    }

    /// An answer that had ended goes on.
    pub fn reopen(&mut self, id: NodeId, maker: Option<Maker>) {
        if self.node(id).is_some() {
            self.note(Change::Reopened { id, maker });
        }
    }

    /// Reads on with another sibling (`by` further on, round and round), and whatever was said last below it. False when
    /// there is no other.
    pub fn switch(&mut self, id: NodeId, by: isize) -> bool {
        let siblings = self.siblings(id);
        let Some(at) = siblings.iter().position(|other| *other == id).filter(|_| siblings.len() > 1) else { return false };
        let to = siblings[(at as isize + by).rem_euclid(siblings.len() as isize) as usize];
        self.go(Some(self.newest_below(to)));
        true
    }

    /// Ends the conversation with this message for now; what came after it stays beside what comes.
    pub fn go(&mut self, leaf: Option<NodeId>) {
        let leaf = leaf.filter(|leaf| self.node(*leaf).is_some());
        if leaf != self.leaf {
            self.note(Change::Leaf(leaf));
        }
    }

    /// Deletes a message and all below it. Where the path went through it, it goes through the sibling before, else the
    /// one after, else it ends with the parent.
    pub fn remove(&mut self, id: NodeId) {
        let Some(node) = self.node(id) else { return };
        let parent = node.parent;
        let through = self.path().contains(&id);
        let siblings = self.siblings(id);
        let at = siblings.iter().position(|other| *other == id).unwrap_or(0);
        let beside = at.checked_sub(1).and_then(|before| siblings.get(before)).or(siblings.get(at + 1)).copied();
        if through {
            self.go(beside.map(|beside| self.newest_below(beside)).or(parent));
        }
        self.note(Change::Removed(id));
    }

    /// Makes a change and remembers it.
    fn note(&mut self, change: Change) {
        if let Some(log) = &mut self.log {
            match (log.last_mut(), &change) {
                (Some(Change::Appended { id, text }), Change::Appended { id: same, text: more }) if id == same => {
                    text.push_str(more);
                }
                _ => log.push(change.clone()),
            }
        }
        self.make(change);
    }

    /// Makes a change that was made elsewhere, and remembers nothing of it.
    ///
    /// # Errors
    /// When there is nothing that it could be made to, or a bound is hit.
    pub fn apply(&mut self, change: Change) -> Result<(), Damaged> {
        let known = |id: NodeId| self.node(id).map(|_| ()).ok_or_else(|| Damaged(format!("there is no message {id}")));
        match &change {
            Change::Added { id, parent, text, .. } => {
                parent.map_or(Ok(()), known)?;
                if *id != self.nodes.len() {
                    return Err(Damaged(format!("message {id} is to come after {} others", self.nodes.len())));
                }
                if *id >= MAX_NODES || text.len() > MAX_BYTES - self.bytes {
                    return Err(Damaged("it is over its bounds".into()));
                }
            }
            Change::Appended { id, text } => {
                known(*id)?;
                if text.len() > MAX_BYTES - self.bytes {
                    return Err(Damaged(Full::Bytes.to_string()));
                }
            }
            Change::Reopened { id, .. } | Change::Ended { id, .. } | Change::Removed(id) | Change::Leaf(Some(id)) => known(*id)?,
            Change::Leaf(None) => {}
        }
        self.make(change);
        Ok(())
    }

    fn make(&mut self, change: Change) {
        match change {
            Change::Added { parent, role, text, maker, open, .. } => {
                self.bytes += text.len();
                self.nodes.push(Node { parent, role, text, note: None, maker, figures: None, open, removed: false });
            }
            Change::Appended { id, text } => {
                self.bytes += text.len();
                self.nodes[id].text.push_str(&text);
            }
            Change::Reopened { id, maker } => {
                let node = &mut self.nodes[id];
                (node.open, node.note, node.figures) = (true, None, None);
                node.maker = maker.or(node.maker.take());
            }
            Change::Ended { id, note, figures } => {
                let node = &mut self.nodes[id];
                (node.open, node.note, node.figures) = (false, note, figures);
            }
            Change::Leaf(leaf) => self.leaf = leaf,
            Change::Removed(id) => self.remove_below(id),
        }
    }

    fn remove_below(&mut self, id: NodeId) {
        for other in id..self.nodes.len() {
            let gone = other == id || self.nodes[other].parent.is_some_and(|parent| self.nodes[parent].removed);
            if gone && !self.nodes[other].removed {
                let node = &mut self.nodes[other];
                self.bytes -= node.text.len();
                *node = Node { parent: node.parent, role: node.role, removed: true, ..Node::nothing() };
            }
        }
        // A store that says otherwise is obeyed at once.
        if self.leaf.is_some_and(|leaf| self.nodes[leaf].removed) {
            self.leaf = self.nodes[id].parent;
        }
    }
}

impl Node {
    fn nothing() -> Node {
        Node {
            parent: None,
            role: Role::User,
            text: String::new(),
            note: None,
            maker: None,
            figures: None,
            open: false,
            removed: false,
        }
    }
}

#[cfg(test)]
mod tests;
