//! What is asked and answered in a pane: the tree of the conversation and the path on screen change together.

use super::state::{Pane, State};
use crate::batch::UserId;
use crate::conversation::{Change, Figures, Full, Maker, NodeId};
use crate::engine::api::Finished;
use crate::text::Role;

/// An answer that is waited for, and how it was asked for: what is to be taken back when it is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub answer: NodeId,
    pub by: By,
}

#[derive(Clone, Debug, PartialEq)]
pub enum By {
    /// By this prompt, which was sent with it.
    Prompt(NodeId),
    /// Once more, for a prompt that was there.
    Again,
    /// It goes on; what stood under it.
    More { note: Option<String>, figures: Option<Figures> },
}

/// A message being written anew, and the draft that was put aside for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewriting {
    pub node: NodeId,
    pub draft: String,
}

/// A change of a conversation that a store can keep.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    pub user: UserId,
    /// Of the conversation.
    pub key: u64,
    pub change: Change,
}

/// What was typed in a pane that is closed, and not sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Parted {
    pub user: UserId,
    /// Of the conversation.
    pub key: u64,
    pub person: String,
    pub system: Option<String>,
    pub draft: String,
}

impl Pane {
    /// All that was typed here and not sent: the message that is written anew, and the draft that was put aside for it.
    pub fn unsent(&self) -> String {
        let aside = self.rewriting.as_ref().map_or("", |rewriting| rewriting.draft.as_str());
        let texts = [self.editor.text(), aside].into_iter().filter(|text| !text.trim().is_empty());
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// The same, to be kept with the conversation, if there is anything.
    pub fn parted(&self) -> Option<Parted> {
        let draft = self.unsent();
        (!draft.is_empty()).then(|| Parted {
            user: self.person.user,
            key: self.conversation.key,
            person: self.person.name.clone(),
            system: self.system.clone(),
            draft,
        })
    }

    fn wait(&mut self, answer: NodeId, by: By) {
        (self.live, self.preempted_by, self.refused) = (true, None, None);
        self.asked = Some(Asked { answer, by });
        self.transcript.show(&self.conversation);
    }

    /// A prompt after `parent`, and an answer that is waited for.
    ///
    /// # Errors
    /// When the conversation is full; nothing was changed then.
    pub fn ask(&mut self, parent: Option<NodeId>, prompt: &str, maker: Option<Maker>) -> Result<(), Full> {
        let before = self.conversation.leaf();
        let node = self.conversation.add(parent, Role::User, prompt, None, false)?;
        match self.conversation.add(Some(node), Role::Assistant, "", maker, true) {
            Ok(answer) => {
                self.wait(answer, By::Prompt(node));
                self.transcript.to_bottom();
                Ok(())
            }
            Err(full) => {
                self.conversation.remove(node);
                self.conversation.go(before);
                Err(full)
            }
        }
    }

    /// Another answer to a prompt that is there.
    ///
    /// # Errors
    /// When the conversation is full.
    pub fn ask_again(&mut self, prompt: NodeId, maker: Option<Maker>) -> Result<(), Full> {
        let answer = self.conversation.add(Some(prompt), Role::Assistant, "", maker, true)?;
        self.wait(answer, By::Again);
        self.transcript.to_bottom();
        Ok(())
    }

    /// An answer goes on where it ended. What came after it stays as a branch of its own.
    pub fn ask_more(&mut self, answer: NodeId, maker: Option<Maker>) {
        let Some(node) = self.conversation.node(answer) else { return };
        let by = By::More { note: node.note.clone(), figures: node.figures.clone() };
        self.conversation.reopen(answer, maker);
        self.conversation.go(Some(answer));
        // Shown anew, since it had ended.
        while self.transcript.last().is_some_and(|turn| turn.node != Some(answer)) {
            self.transcript.pop();
        }
        self.transcript.pop();
        self.wait(answer, by);
        self.transcript.to_bottom();
    }

    /// More of the answer.
    ///
    /// # Errors
    /// When the conversation is full; what fits was taken.
    pub fn hear(&mut self, text: &str) -> Result<(), Full> {
        let Some(answer) = self.asked.as_ref().map(|asked| asked.answer) else { return Ok(()) };
        let result = self.conversation.append(answer, text);
        // Another branch may be on screen.
        if self.transcript.last().is_some_and(|turn| turn.node == Some(answer)) {
            self.transcript.append(text);
        }
        result
    }

    /// The answer is over.
    pub fn conclude(&mut self, note: Option<String>, figures: Option<Figures>) {
        (self.live, self.preempted_by) = (false, None);
        let Some(asked) = self.asked.take() else { return };
        if self.transcript.last().is_some_and(|turn| turn.node == Some(asked.answer)) {
            self.transcript.close(note.clone());
        }
        let figures = figures.map(|new| match asked.by {
            By::More { figures: Some(old), .. } => added(old, new),
            _ => new,
        });
        self.conversation.end(asked.answer, note, figures);
    }

    /// The answer was refused: all is as it was before it was asked for. Gives the prompt that was sent with it.
    pub fn take_back(&mut self) -> Option<String> {
        (self.live, self.preempted_by) = (false, None);
        let asked = self.asked.take()?;
        let prompt = match asked.by {
            By::Prompt(prompt) => {
                let text = self.conversation.node(prompt).map(|node| node.text.clone());
                self.conversation.remove(prompt);
                text
            }
            By::Again => {
                self.conversation.remove(asked.answer);
                None
            }
            By::More { note, figures } => {
                self.conversation.end(asked.answer, note, figures);
                while self.transcript.last().is_some_and(|turn| turn.node != Some(asked.answer)) {
                    self.transcript.pop();
                }
                self.transcript.pop();
                None
            }
        };
        self.transcript.show(&self.conversation);
        prompt
    }

    /// Whether the answer that is being written is on screen: another branch may be.
    pub fn shows_answer(&self) -> bool {
        let answering = self.asked.as_ref().map(|asked| asked.answer);
        answering.is_none() || self.transcript.last().and_then(|turn| turn.node) == answering
    }

    /// The answer that the conversation ends with now.
    pub fn last_answer(&self) -> Option<NodeId> {
        let path = self.conversation.path();
        path.into_iter().rev().find(|id| self.conversation.node(*id).is_some_and(|node| node.role == Role::Assistant))
    }

    /// The own message that the conversation has last.
    pub fn last_prompt(&self) -> Option<NodeId> {
        let path = self.conversation.path();
        path.into_iter().rev().find(|id| self.conversation.node(*id).is_some_and(|node| node.role == Role::User))
    }
}

impl State {
    /// What all conversations have changed since the last time.
    pub fn take_changes(&mut self) -> Vec<Kept> {
        let mut kept = std::mem::take(&mut self.left);
        for pane in &mut self.panes {
            kept.extend(changes(pane));
        }
        kept
    }
}

/// What one pane's conversation has changed.
pub fn changes(pane: &mut Pane) -> Vec<Kept> {
    let (user, key) = (pane.person.user, pane.conversation.key);
    pane.conversation.take_changes().into_iter().map(|change| Kept { user, key, change }).collect()
}

/// The figures of an answer that went on: the first prompt and the first token, all tokens, the newest speed.
fn added(old: Figures, new: Figures) -> Figures {
    Figures {
        prompt_tokens: old.prompt_tokens,
        cached_tokens: old.cached_tokens,
        tokens: old.tokens.saturating_add(new.tokens),
        ttft_us: old.ttft_us.or(new.ttft_us),
        preemptions: old.preemptions.saturating_add(new.preemptions),
        ..new
    }
}

/// The figures of an answer that has ended, as they are kept.
pub fn figures(end: &Finished) -> Figures {
    Figures {
        reason: end.reason,
        prompt_tokens: end.prompt_tokens,
        cached_tokens: end.cached_tokens,
        tokens: end.generated_tokens,
        ttft_us: end.ttft.map(|ttft| u64::try_from(ttft.as_micros()).unwrap_or(u64::MAX)),
        tokens_per_s: end.tokens_per_s,
        preemptions: end.preemptions,
    }
}
