//! Between the screen's state and the store: what is to be written of what has changed, and a session as it was left.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::state::{MAX_PANES, Pane, State};
use super::talk::{Kept, Parted};
use super::text::{one_line, typed};
use crate::conversation::{Change, Conversation, Damaged, Figures, Maker, Node};
use crate::sampling::SamplingParams;
use crate::store::{PaneRow, StoreError, Stored, Write};
use crate::text::Role;

/// What the store has been told so far.
#[derive(Debug, Default)]
pub struct Keep {
    /// Conversations that it knows.
    begun: HashSet<u64>,
    panes: Vec<Told>,
    focus: usize,
}

/// A pane as the store has it.
#[derive(Debug)]
struct Told {
    row: PaneRow,
    /// What the row's settings say.
    settings: Settings,
}

impl Keep {
    /// A conversation that came from the store.
    pub fn know(&mut self, key: u64) {
        self.begun.insert(key);
    }

    /// All that the screen has, for a store that has nothing of it: another file is in the place of the one before.
    pub fn anew(&mut self, state: &mut State) -> Vec<Write> {
        // What was changed last is in the conversations, and is told with them.
        drop(state.take_changes());
        *self = Keep::default();
        state.kept_as.clear();
        let mut writes = vec![Write::Anew];
        for pane in state.panes.iter().filter(|pane| !pane.conversation.is_empty()) {
            let chat = pane.conversation.key;
            self.begun.insert(chat);
            writes.push(Write::Begin {
                chat,
                person: pane.person.name.clone(),
                system: pane.system.clone(),
                model: state.snapshot.model.name.clone(),
            });
            for (id, node) in pane.conversation.nodes().iter().enumerate().filter(|(_, node)| !node.removed) {
                let Node { parent, role, text, note, maker, figures, open, .. } = node.clone();
                let ended = (!open && (note.is_some() || figures.is_some())).then_some(Change::Ended { id, note, figures });
                writes.push(write(chat, Change::Added { id, parent, role, text, maker, open }));
                writes.extend(ended.map(|ended| write(chat, ended)));
            }
            writes.push(write(chat, Change::Leaf(pane.conversation.leaf())));
        }
        writes.extend(self.drafts(state));
        writes.extend(self.panes(state));
        writes
    }

    /// What was typed in panes that are closed, with a conversation that has nothing else perhaps.
    fn drafts(&mut self, state: &mut State) -> Vec<Write> {
        let mut writes = Vec::new();
        for Parted { key: chat, person, system, draft: text, .. } in std::mem::take(&mut state.parted) {
            if self.begun.insert(chat) {
                writes.push(Write::Begin { chat, person, system, model: state.snapshot.model.name.clone() });
            }
            writes.push(Write::Draft { chat, text });
            if self.panes.iter().all(|told| told.row.chat != chat) && state.panes.iter().all(|pane| pane.conversation.key != chat)
            {
                writes.push(Write::Close { chat });
            }
        }
        writes
    }

    /// What is new since the last time.
    pub fn writes(&mut self, state: &mut State) -> Vec<Write> {
        let mut writes = Vec::new();
        for Kept { user, key, change } in state.take_changes() {
            if self.begun.insert(key) {
                let pane = state.panes.iter().find(|pane| pane.conversation.key == key);
                writes.push(Write::Begin {
                    chat: key,
                    person: state.people().name(user),
                    system: pane.and_then(|pane| pane.system.clone()),
                    model: state.snapshot.model.name.clone(),
                });
            }
            writes.push(write(key, change));
        }
        writes.extend(self.drafts(state));
        // A conversation that has left the screen gets no more of its answer.
        let gone: Vec<u64> = self
            .panes
            .iter()
            .map(|told| told.row.chat)
            .filter(|key| state.panes.iter().all(|pane| pane.conversation.key != *key))
            .collect();
        writes.extend(gone.into_iter().filter(|key| self.begun.contains(key)).map(|chat| Write::Close { chat }));
        writes.extend(self.panes(state));
        writes
    }

    fn panes(&mut self, state: &State) -> Option<Write> {
        let defaults = (&state.options.sampling, state.options.seed, state.options.system.as_deref());
        // Asked after every message: nothing is serialized before it is found to be new.
        let same = |Told { row, settings: told }: &Told, pane: &Pane| {
            let (chat, name, draft) = (pane.conversation.key, &pane.person.name, draft_of(pane));
            row.chat == chat
                && row.name == *name
                && row.draft == draft
                && row.system == pane.system
                && *told == settings(pane, defaults)
        };
        let still = self.focus == state.focus
            && self.panes.len() == state.panes.len()
            && self.panes.iter().zip(&state.panes).all(|(told, pane)| same(told, pane));
        // Nothing has been done yet: an untouched screen is no session to come back to.
        if still || (self.panes.is_empty() && self.begun.is_empty() && state.panes.iter().all(|pane| untouched(pane, defaults))) {
            return None;
        }
        self.focus = state.focus;
        let tell = |pane: &Pane| {
            let settings = settings(pane, defaults);
            let row = PaneRow {
                chat: pane.conversation.key,
                name: pane.person.name.clone(),
                system: pane.system.clone(),
                settings: serde_json::to_string(&settings).unwrap_or_else(|_| "{}".into()),
                draft: draft_of(pane).to_owned(),
            };
            Told { row, settings }
        };
        self.panes = state.panes.iter().map(tell).collect();
        let rows = self.panes.iter().map(|told| told.row.clone()).collect();
        Some(Write::Panes { focus: state.focus, model: state.snapshot.model.name.clone(), rows })
    }
}

/// What comes back as the draft: the own one, when another message is being written anew.
fn draft_of(pane: &Pane) -> &str {
    match &pane.rewriting {
        Some(rewriting) if pane.editor.is_empty() => &rewriting.draft,
        _ => pane.editor.text(),
    }
}

type Defaults<'a> = (&'a SamplingParams, Option<u64>, Option<&'a str>);

fn untouched(pane: &Pane, defaults: Defaults<'_>) -> bool {
    pane.editor.is_empty() && settings(pane, defaults) == Settings::default()
}

fn write(chat: u64, change: Change) -> Write {
    let id = |node: usize| u32::try_from(node).unwrap_or(u32::MAX);
    let json = |sampling: &SamplingParams| serde_json::to_string(sampling).ok();
    match change {
        Change::Added { id: node, parent, role, text, maker, open } => Write::Message {
            chat,
            node: id(node),
            parent: parent.map(id),
            role,
            text,
            sampling: maker.as_ref().and_then(|maker| json(&maker.sampling)),
            model: maker.map(|maker| maker.model),
            streaming: open,
        },
        Change::Appended { id: node, text } => Write::Text { chat, node: id(node), text },
        Change::Reopened { id: node, maker } => Write::Resume {
            chat,
            node: id(node),
            sampling: maker.as_ref().and_then(|maker| json(&maker.sampling)),
            model: maker.map(|maker| maker.model),
        },
        Change::Ended { id: node, note, figures } => {
            Write::End { chat, node: id(node), note, figures: figures.and_then(|figures| serde_json::to_string(&figures).ok()) }
        }
        Change::Leaf(leaf) => Write::Leaf { chat, leaf: leaf.map(id) },
        Change::Removed(node) => Write::Remove { chat, node: id(node) },
    }
}

/// What a pane has of its own; what is as the configuration says is left out, so that a changed configuration counts.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Settings {
    /// Two layers: not said, and said to be none.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    system: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    seed: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_p: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repetition_penalty: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i32>,
}

fn said<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(from).map(Some)
}

fn settings(pane: &Pane, (sampling, seed, system): Defaults<'_>) -> Settings {
    fn differs<T: PartialEq + Clone>(own: &T, default: &T) -> Option<T> {
        (own != default).then(|| own.clone())
    }
    let own = &pane.sampling;
    Settings {
        system: differs(&pane.system.as_deref(), &system).map(|system| system.map(str::to_owned)),
        seed: differs(&pane.seed, &seed),
        temperature: differs(&own.temperature, &sampling.temperature),
        top_k: differs(&own.top_k, &sampling.top_k),
        top_p: differs(&own.top_p, &sampling.top_p),
        min_p: differs(&own.min_p, &sampling.min_p),
        repetition_penalty: differs(&own.repetition_penalty, &sampling.repetition_penalty),
        max_tokens: differs(&own.max_tokens, &sampling.max_tokens),
        stop: differs(&own.stop, &sampling.stop),
        priority: differs(&pane.priority, &0),
    }
}

/// Gives a pane its own settings again. What cannot be used is left as the configuration has it.
fn apply(pane: &mut Pane, text: &str) {
    let Ok(settings) = serde_json::from_str::<Settings>(text) else { return };
    let own = &pane.sampling;
    let sampling = SamplingParams {
        temperature: settings.temperature.unwrap_or(own.temperature),
        top_k: settings.top_k.unwrap_or(own.top_k),
        top_p: settings.top_p.unwrap_or(own.top_p),
        min_p: settings.min_p.unwrap_or(own.min_p),
        repetition_penalty: settings.repetition_penalty.unwrap_or(own.repetition_penalty),
        max_tokens: settings.max_tokens.unwrap_or(own.max_tokens),
        stop: settings.stop.unwrap_or_else(|| own.stop.clone()),
        ..own.clone()
    };
    if sampling.check().is_ok() {
        pane.sampling = sampling;
    }
    if let Some(priority) = settings.priority {
        pane.priority = priority;
    }
    if let Some(seed) = settings.seed {
        pane.seed = seed;
    }
    if let Some(system) = settings.system {
        pane.system = system.map(|text| typed(&text));
    }
}

/// One pane of the last session.
#[derive(Debug)]
pub struct OldPane {
    pub row: PaneRow,
    /// Its conversation, or why it cannot be had.
    pub chat: Option<Result<Stored, StoreError>>,
}

/// What came of bringing a session back.
#[derive(Debug, Default)]
pub struct Back {
    /// The numbers of the conversations that are open again, here and in the store.
    pub known: Vec<(u64, i64)>,
    /// Why others are not.
    pub lost: Vec<String>,
}

/// A conversation of the store as one of the screen.
///
/// # Errors
/// When it is no tree, or over the screen's bounds.
pub fn conversation(key: u64, stored: &Stored, cut: &str) -> Result<Conversation, Damaged> {
    let mut nodes: Vec<Node> = Vec::with_capacity(stored.messages.len());
    let most = crate::conversation::MAX_NODES;
    for message in &stored.messages {
        let at = message.node as usize;
        if at >= most {
            return Err(Damaged(format!("message {at} is over the bound of {most}")));
        }
        // A number that is missing was deleted.
        while nodes.len() < at {
            nodes.push(Node { removed: true, ..node(Role::User, String::new()) });
        }
        let sampling = message.sampling.as_deref().and_then(|text| serde_json::from_str::<SamplingParams>(text).ok());
        let maker = message.model.clone().map(|model| Maker { model, sampling: sampling.unwrap_or_default() });
        nodes.push(Node {
            parent: message.parent.map(|parent| parent as usize),
            note: message.note.as_deref().map(one_line),
            maker,
            figures: message.figures.as_deref().and_then(|text| serde_json::from_str::<Figures>(text).ok()),
            open: message.cut,
            ..node(message.role, message.text.clone())
        });
    }
    Conversation::restore(key, nodes, stored.leaf.map(|leaf| leaf as usize), cut)
}

fn node(role: Role, text: String) -> Node {
    Node { parent: None, role, text, note: None, maker: None, figures: None, open: false, removed: false }
}

/// What the last answer of the path was made with, if that is whole and can be used.
fn last_sampling(stored: &Stored) -> Option<SamplingParams> {
    let answers = stored.path().into_iter().rev().map(|at| &stored.messages[at]);
    let kept = answers.filter(|message| message.role == Role::Assistant).find_map(|message| message.sampling.as_deref())?;
    serde_json::from_str::<SamplingParams>(kept).ok().filter(|sampling| sampling.check().is_ok())
}

impl State {
    /// The panes of the last session in place of the present ones; more of these stay at the end, where `least` asks for
    /// them.
    pub fn restore(&mut self, old: Vec<OldPane>, focus: usize, least: usize) -> Back {
        let lang = self.options.theme.lang();
        let wanted = old.len().clamp(1, MAX_PANES).max(least.min(MAX_PANES));
        while self.panes.len() < wanted && self.add_pane() {}
        self.panes.truncate(wanted);
        let mut back = Back::default();
        for (at, OldPane { row, chat }) in old.into_iter().take(MAX_PANES).enumerate() {
            self.rename(at, &row.name);
            let pane = &mut self.panes[at];
            apply(pane, &row.settings);
            pane.editor.insert(&row.draft);
            match chat {
                None => {}
                Some(Err(error)) => back.lost.push(one_line(&error.words(lang))),
                Some(Ok(stored)) => match self.show_chat(at, &stored) {
                    Ok(key) => back.known.push((key, stored.id)),
                    Err(damaged) => back.lost.push(format!("{}: {damaged}", stored.id)),
                },
            }
        }
        self.focus = focus.min(self.panes.len() - 1);
        back
    }

    /// The name, with a number behind it where another pane has it: two of one name could not be told apart in the panels.
    fn unlike_others(&self, at: usize, name: &str) -> String {
        let taken = |name: &str| self.panes.iter().enumerate().any(|(other, pane)| other != at && pane.person.name == name);
        let short: String = name.chars().take(20).collect();
        let numbered = (2..=MAX_PANES + 1).map(|number| format!("{short} {number}"));
        std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken(name)).unwrap_or(short)
    }

    fn rename(&mut self, at: usize, name: &str) {
        let name: String = one_line(name.trim()).chars().take(24).collect();
        if !name.is_empty() {
            let letter = self.free_letter(&name, Some(at));
            let person = &mut self.panes[at].person;
            (person.name, person.letter) = (name, letter);
        }
    }

    /// Opens an earlier conversation in a pane, in place of the one that is there: with its person and its system prompt,
    /// and with the sampling of its last answer, if that was kept.
    ///
    /// # Errors
    /// When it cannot be one of the screen; the pane stays as it is then.
    pub fn open_chat(&mut self, at: usize, stored: &Stored) -> Result<u64, Damaged> {
        // A draft of its own takes the place of the one here, which stays with what it was written for.
        let parted = stored.draft.as_ref().and_then(|_| self.panes[at].parted());
        let key = self.show_chat(at, stored)?;
        self.parted.extend(parted);
        let name = self.unlike_others(at, &stored.person);
        self.rename(at, &name);
        if let Some(draft) = &stored.draft {
            let pane = &mut self.panes[at];
            pane.rewriting = None;
            pane.editor.set("");
            pane.editor.insert(&typed(draft));
        }
        let pane = &mut self.panes[at];
        pane.system = stored.system.as_deref().map(typed).filter(|system| !system.is_empty());
        if let Some(sampling) = last_sampling(stored) {
            pane.sampling = SamplingParams { seed: pane.sampling.seed, ignore_eos: pane.sampling.ignore_eos, ..sampling };
        }
        Ok(key)
    }

    /// The pane that shows a conversation of the store, by the store's number.
    pub(super) fn place_of(&self, id: i64) -> Option<usize> {
        self.panes.iter().position(|pane| self.kept_as.get(&pane.conversation.key) == Some(&id))
    }

    /// The messages alone: the pane's own settings stay.
    fn show_chat(&mut self, at: usize, stored: &Stored) -> Result<u64, Damaged> {
        let key = self.new_conversation().key;
        let cut = self.options.theme.tr("cut off: the program ended");
        let chat = conversation(key, stored, cut)?;
        self.kept_as.retain(|key, _| self.panes.iter().any(|pane| pane.conversation.key == *key));
        self.kept_as.insert(key, stored.id);
        let pane = &mut self.panes[at];
        let left = super::talk::changes(pane);
        pane.conversation = chat;
        pane.transcript = pane.transcript.cleared();
        pane.transcript.show(&pane.conversation);
        let mut prompts: Vec<&str> = pane
            .conversation
            .path()
            .into_iter()
            .map(|id| &pane.conversation.nodes()[id])
            .filter(|node| node.role == Role::User)
            .map(|node| node.text.as_str())
            .collect();
        prompts.drain(..prompts.len().saturating_sub(50));
        prompts.into_iter().for_each(|prompt| pane.editor.keep(prompt));
        self.left.extend(left);
        Ok(key)
    }
}
