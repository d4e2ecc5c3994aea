//! What people wrote and were answered, by frame.

use std::collections::HashMap;

use crate::batch::{RequestId, UserId};
use crate::engine::trace::Record;
use crate::engine::{Event, Finished, Rejected, TakenBy};

/// One piece of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The first frame that has it.
    pub frame: usize,
    pub user: UserId,
    /// The request it belongs to: one of a user may begin before another of theirs has ended. None for a name.
    pub request: Option<RequestId>,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    Named(Box<str>),
    /// A prompt; without its words when it came as token ids.
    Asked {
        words: Option<Box<str>>,
        tokens: usize,
    },
    Text(Box<str>),
    Admitted,
    Preempted(TakenBy),
    Finished(Box<Finished>),
    Refused(Rejected),
}

#[derive(Debug, Default)]
pub(super) struct Chats {
    said: Vec<Said>,
    /// Whose a request is, as long as it is read.
    owners: HashMap<RequestId, UserId>,
    /// Requests that never came to the engine have numbers from the other end.
    refused: u64,
}

impl Chats {
    fn push(&mut self, frame: usize, user: UserId, request: Option<RequestId>, what: What) {
        self.said.push(Said { frame, user, request, what });
    }

    /// What people say is in the records themselves.
    pub fn record(&mut self, frame: usize, record: &Record) {
        match record {
            Record::User { user, name } => self.push(frame, UserId(*user), None, What::Named(name.as_str().into())),
            Record::Submit(submit) => {
                let words = submit.said.as_deref().map(Into::into);
                let (id, user) = (RequestId(submit.id), UserId(submit.user));
                self.owners.insert(id, user);
                self.push(frame, user, Some(id), What::Asked { words, tokens: submit.prompt.len() });
            }
            Record::Refused { user, why, said } => {
                let words = said.as_deref().map(Into::into);
                let (id, user) = (Some(RequestId(u64::MAX - self.refused)), UserId(*user));
                self.refused += 1;
                self.push(frame, user, id, What::Asked { words, tokens: 0 });
                self.push(frame, user, id, What::Refused(why.clone()));
            }
            _ => {}
        }
    }

    /// What the engine told a request.
    pub fn event(&mut self, frame: usize, id: RequestId, event: Event) {
        let Some(&user) = self.owners.get(&id) else { return };
        let what = match event {
            Event::Token { text, .. } if text.is_empty() => return,
            Event::Token { text, .. } => What::Text(text.into()),
            Event::Admitted { .. } => What::Admitted,
            Event::Preempted { by, .. } => What::Preempted(by),
            Event::Finished(end) => What::Finished(Box::new(end)),
            Event::Rejected(why) => What::Refused(why),
            Event::Queued { .. } | Event::Witnessed(_) => return,
        };
        if matches!(what, What::Finished(_) | What::Refused(_)) {
            self.owners.remove(&id);
        }
        self.push(frame, user, Some(id), what);
    }

    /// What came after the last step belongs to the last frame.
    pub fn close(&mut self, last: usize) {
        self.said.iter_mut().rev().take_while(|said| said.frame > last).for_each(|said| said.frame = last);
        self.owners = HashMap::new();
    }

    pub fn people(&self) -> Vec<(UserId, Option<String>)> {
        let mut people: Vec<(UserId, Option<String>)> = Vec::new();
        let mut places = HashMap::new();
        for said in &self.said {
            let at = *places.entry(said.user).or_insert_with(|| {
                people.push((said.user, None));
                people.len() - 1
            });
            if let What::Named(name) = &said.what {
                people[at].1.get_or_insert_with(|| name.to_string());
            }
        }
        people
    }

    /// In frames after `from`, or from the beginning on.
    pub fn between(&self, from: Option<usize>, to: usize) -> &[Said] {
        let up_to = |frame: usize| self.said.partition_point(|said| said.frame <= frame);
        let begin = from.map_or(0, up_to);
        &self.said[begin..up_to(to).max(begin)]
    }
}
