//! Earlier conversations: a list with a search over all texts; Enter opens one in this pane.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent};

use super::{Effect, type_into};
use crate::batch::UserId;
use crate::store::{Keeping, StoreError, Stored};
use crate::ui::editor::Editor;
use crate::ui::keeping::Unkept;
use crate::ui::keymap::{Action, key_for};
use crate::ui::state::{Mode, State};
use crate::ui::text::{clip, one_line};
use crate::ui::words::say;

/// A conversation in the list.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRow {
    pub id: i64,
    pub person: String,
    pub date: String,
    /// Its first words, or those around what was found.
    pub words: String,
    pub messages: u64,
    /// It has nothing but what was typed and not sent.
    pub draft: bool,
}

/// The list, open over the screen.
#[derive(Clone, Debug, Default)]
pub struct Shelf {
    pub filter: Editor,
    pub chosen: usize,
    pub rows: Vec<ChatRow>,
    /// What the rows are the answer to; None: none has come yet.
    pub answered: Option<String>,
    pub fault: Option<String>,
}

/// What came of opening a conversation.
#[derive(Clone, Debug)]
pub enum Opened {
    /// It is in a pane already.
    Here {
        place: usize,
    },
    Taken {
        chat: Stored,
        copy: bool,
    },
}

/// Opens the list.
pub(super) fn open(state: &mut State) -> Vec<Effect> {
    if !state.kept && !state.readable {
        let theme = state.options.theme;
        state.complain(theme.tr("conversations are not kept: there are no earlier ones"));
        return Vec::new();
    }
    state.mode = Mode::Shelf(Shelf::default());
    vec![Effect::FindChats(String::new())]
}

pub(super) fn on_key(state: &mut State, key: KeyEvent, action: Option<Action>, mut shelf: Shelf) -> Vec<Effect> {
    let last = shelf.rows.len().saturating_sub(1);
    let mut effects = Vec::new();
    match (key.code, action) {
        (KeyCode::Esc, _) | (_, Some(Action::Cancel | Action::History)) => return effects,
        (KeyCode::Enter, _) => {
            let Some(row) = shelf.rows.get(shelf.chosen.min(last)) else {
                state.mode = Mode::Shelf(shelf);
                return effects;
            };
            let pane = state.focused();
            if !pane.live {
                return vec![Effect::OpenChat { user: pane.person.user, id: row.id }];
            }
            let (theme, name) = (state.options.theme, pane.person.name.clone());
            state.say(say!(theme, "{} is still being answered: {} stops it", name, key_for(Action::Cancel)));
            return effects;
        }
        (KeyCode::Down, _) => shelf.chosen = (shelf.chosen + 1).min(last),
        (KeyCode::Up, _) => shelf.chosen = shelf.chosen.min(last).saturating_sub(1),
        (KeyCode::PageDown, _) => shelf.chosen = (shelf.chosen + 10).min(last),
        (KeyCode::PageUp, _) => shelf.chosen = shelf.chosen.min(last).saturating_sub(10),
        _ => {
            let before = shelf.filter.text().to_owned();
            type_into(&mut shelf.filter, key, action);
            if shelf.filter.text() != before {
                effects.push(Effect::FindChats(shelf.filter.text().to_owned()));
            }
        }
    }
    state.mode = Mode::Shelf(shelf);
    effects
}

/// A paste into the list's field.
pub(super) fn paste(shelf: &mut Shelf, text: &str) -> Vec<Effect> {
    shelf.filter.insert(&text.replace(['\n', '\r'], " "));
    vec![Effect::FindChats(shelf.filter.text().to_owned())]
}

pub(super) fn on_found(state: &mut State, text: &str, found: Result<Vec<ChatRow>, Arc<StoreError>>) {
    let lang = state.options.theme.lang();
    let Mode::Shelf(shelf) = &mut state.mode else { return };
    // An answer to what is no longer asked.
    if shelf.filter.text() != text {
        return;
    }
    shelf.answered = Some(text.to_owned());
    shelf.chosen = 0;
    match found {
        Ok(mut rows) => {
            for row in rows.iter_mut().filter(|row| row.draft) {
                row.words = format!("({}) {}", state.options.theme.tr("draft"), row.words);
            }
            (shelf.rows, shelf.fault) = (rows, None);
        }
        Err(error) => (shelf.rows, shelf.fault) = (Vec::new(), Some(one_line(&error.words(lang)))),
    }
}

pub(super) fn on_opened(state: &mut State, user: UserId, opened: Result<Box<Opened>, Arc<StoreError>>) -> Vec<Effect> {
    let theme = state.options.theme;
    let Some(at) = state.panes.iter().position(|pane| pane.person.user == user) else { return Vec::new() };
    let before = state.panes[at].person.name.clone();
    match opened.map(|opened| *opened) {
        Err(error) => state.complain(error.words(theme.lang())),
        Ok(Opened::Here { place }) if place < state.panes.len() => {
            state.focus = place;
            state.say(theme.tr("that conversation is open in this pane"));
        }
        Ok(Opened::Here { .. }) => {}
        // Two panes have asked for it, one after the other.
        Ok(Opened::Taken { chat, .. }) if state.place_of(chat.id).is_some() => {
            state.focus = state.place_of(chat.id).unwrap_or(at);
            state.say(theme.tr("that conversation is open in this pane"));
        }
        Ok(Opened::Taken { .. }) if state.panes[at].live => {
            let name = state.panes[at].person.name.clone();
            state.say(say!(theme, "{} is still being answered: {} stops it", name, key_for(Action::Cancel)));
        }
        Ok(Opened::Taken { chat, copy }) => match state.open_chat(at, &chat) {
            Err(damaged) => state.complain(damaged.to_string()),
            Ok(key) => {
                state.focus = at;
                let title = match chat.draft.as_deref() {
                    Some(draft) if chat.title.is_empty() => clip(&one_line(draft.trim()), 60),
                    _ => one_line(&chat.title),
                };
                state.say(match copy {
                    true => say!(theme, "another batchroom has it open: this is a copy of {}", title),
                    false => say!(theme, "open again: {}", title),
                });
                let person = &state.panes[at].person;
                let named = Effect::Name { user, name: person.name.clone() };
                let renamed = (person.name != before).then_some(named);
                return std::iter::once(Effect::Opened { key, id: chat.id }).chain(renamed).collect();
            }
        },
    }
    Vec::new()
}

/// Keeping goes wrong, or goes on.
pub(super) fn on_keeping(state: &mut State, keeping: Keeping) {
    let theme = state.options.theme;
    match keeping {
        Keeping::Well => {
            state.kept = true;
            // A transaction may have been late without anybody seeing it.
            if state.unkept.take().is_some() {
                state.say(theme.tr("conversations are kept again; nothing is missing"));
            }
        }
        // All is told now; when that is on disk it is said.
        Keeping::Begun => state.kept = true,
        Keeping::Moved => {
            state.complain(theme.tr(
                "the database was removed or replaced: a new one is begun, with what is open here; the rest went with the old one",
            ));
        }
        Keeping::Waiting(error) => {
            // When it was well last is told with the next change; until then this much is known.
            state.unkept.get_or_insert(Unkept::Late(None));
            state.complain(say!(theme, "{}. It is tried again; until then nothing is kept.", error.words(theme.lang())));
        }
        Keeping::Ended(error) => {
            state.kept = false;
            let until = match state.unkept.take() {
                Some(Unkept::Late(until)) => until,
                _ => None,
            };
            state.unkept = Some(Unkept::Ended(until));
            state.complain(say!(theme, "{}. Nothing more of this session is kept.", error.words(theme.lang())));
        }
    }
}
