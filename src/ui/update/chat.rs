//! Prompts out, answers in.

use super::{Effect, branches, slash};
use crate::batch::UserId;
use crate::conversation::Full;
use crate::engine::api::{Event, FinishReason, Finished, Snapshot};
use crate::ui::keymap::{self, Action};
use crate::ui::refusal;
use crate::ui::state::State;
use crate::ui::talk::{Rewriting, changes, figures};
use crate::ui::theme::Theme;
use crate::ui::told;
use crate::ui::words::say;

/// A bound of conversations in the screen's language.
pub(super) fn full(theme: Theme, full: Full) -> String {
    let new = keymap::key_for(Action::ClearChat);
    match full {
        Full::Nodes => say!(theme, "this conversation has as many messages as one may have: {} begins a new one", new),
        Full::Bytes => say!(theme, "this conversation has as much text as one may have: {} begins a new one", new),
    }
}

/// Sends a pane's draft, or does what it says when it begins with a slash.
pub(super) fn send(state: &mut State, at: usize) -> Vec<Effect> {
    let theme = state.options.theme;
    let pane = &state.panes[at];
    if pane.editor.text().trim().is_empty() {
        return Vec::new();
    }
    if let Some(command) = slash::command(pane.editor.text()).map(str::to_owned) {
        return slash::run(state, at, &command);
    }
    if pane.live {
        let name = pane.person.name.clone();
        let key = keymap::key_for(Action::Cancel);
        state.say_busy(say!(theme, "{} is still being answered: {} stops it, the draft stays", name, key));
        return Vec::new();
    }
    let draft = state.panes[at].editor.take();
    let rewriting = state.panes[at].rewriting.take();
    submit(state, at, slash::plain(&draft), rewriting).into_iter().collect()
}

/// Sends a text in a pane as it is: a slash in it is no command, and the draft stays.
pub fn ask(state: &mut State, at: usize, text: &str) -> Vec<Effect> {
    let theme = state.options.theme;
    let text = crate::ui::text::typed(text);
    if state.options.readonly {
        state.complain(theme.tr("this screen is read-only: nothing is sent or changed here"));
        return Vec::new();
    }
    if state.panes[at].live || text.trim().is_empty() {
        return Vec::new();
    }
    state.panes[at].editor.keep(&text);
    submit(state, at, &text, None).into_iter().collect()
}

/// Asks in a pane, in place of the message that is written anew if there is one; the text goes back to the editor when the
/// conversation is full.
pub(super) fn submit(state: &mut State, at: usize, draft: &str, rewriting: Option<Rewriting>) -> Option<Effect> {
    let theme = state.options.theme;
    let maker = branches::maker(state, at);
    let pane = &mut state.panes[at];
    let user = pane.person.user;
    let (parent, fork_of) = match rewriting {
        Some(rewriting) => {
            pane.editor.set(&rewriting.draft);
            (pane.conversation.node(rewriting.node).and_then(|node| node.parent), Some(user))
        }
        None => (pane.conversation.leaf(), None),
    };
    if let Err(over) = pane.ask(parent, draft, Some(maker.clone())) {
        if pane.editor.is_empty() {
            pane.editor.set(draft);
        }
        state.complain(full(theme, over));
        return None;
    }
    let prompt = pane.last_prompt();
    let messages = pane.conversation.messages(pane.system.as_deref(), prompt);
    Some(Effect::Submit { user, messages, sampling: maker.sampling, fork_of })
}

/// The focused pane's draft to every pane that is free.
pub(super) fn send_all(state: &mut State) -> Vec<Effect> {
    let theme = state.options.theme;
    let focus = state.focus;
    if state.focused().editor.text().trim().is_empty() {
        return Vec::new();
    }
    if let Some(command) = slash::command(state.focused().editor.text()).map(str::to_owned) {
        return slash::run(state, focus, &command);
    }
    let draft = slash::plain(state.focused().editor.text()).to_owned();
    let busy = state.live();
    if busy == state.panes.len() {
        state.say_busy(theme.tr("every pane is still being answered: the draft stays"));
        return Vec::new();
    }
    // In the pane that it was written in, it may be a message written anew; while that pane is busy, it stays there as that.
    let rewriting = match state.focused().live {
        true => None,
        false => state.focused_mut().rewriting.take(),
    };
    if state.focused().rewriting.is_none() {
        let _ = state.panes[focus].editor.take();
    }
    ask_all(state, &draft, rewriting)
}

/// A text to every pane that is free, as the next prompt: a pane that writes a message anew goes on with that.
pub(super) fn to_all(state: &mut State, draft: &str) -> Vec<Effect> {
    ask_all(state, draft, None)
}

/// `rewriting` is what the focused pane writes anew with this.
fn ask_all(state: &mut State, draft: &str, mut rewriting: Option<Rewriting>) -> Vec<Effect> {
    let theme = state.options.theme;
    let busy = state.live();
    let free: Vec<usize> = (0..state.panes.len()).filter(|at| !state.panes[*at].live).collect();
    let mut effects = Vec::new();
    for at in free {
        state.panes[at].editor.keep(draft);
        let anew = if at == state.focus { rewriting.take() } else { None };
        effects.extend(submit(state, at, draft, anew));
    }
    if busy > 0 {
        let (sent, all) = (effects.len(), state.panes.len());
        state.say(match busy {
            1 => say!(theme, "sent to {} of {}: one pane is still being answered", sent, all),
            _ => say!(theme, "sent to {} of {}: {} panes are still being answered", sent, all, busy),
        });
    }
    effects
}

pub(super) fn clear(state: &mut State) -> Vec<Effect> {
    let conversation = state.new_conversation();
    let focus = state.focus;
    let left = changes(&mut state.panes[focus]);
    state.left.extend(left);
    let pane = state.focused_mut();
    let was_live = std::mem::take(&mut pane.live);
    pane.transcript = pane.transcript.cleared();
    pane.conversation = conversation;
    (pane.preempted_by, pane.asked) = (None, None);
    if let Some(rewriting) = pane.rewriting.take() {
        let written = pane.editor.text().to_owned();
        pane.editor.keep(&written);
        pane.editor.set(&rewriting.draft);
    }
    if was_live { vec![Effect::Abandon(pane.person.user)] } else { Vec::new() }
}

pub(super) fn close_pane(state: &mut State) -> Vec<Effect> {
    let mut pane = state.panes.remove(state.focus);
    state.left.extend(changes(&mut pane));
    state.parted.extend(pane.parted());
    state.remember(pane.person.clone());
    state.focus = state.focus.min(state.panes.len() - 1);
    if pane.live { vec![Effect::Abandon(pane.person.user)] } else { Vec::new() }
}

pub(in crate::ui) fn on_event(state: &mut State, user: UserId, event: Event) {
    let theme = state.options.theme;
    if matches!(event, Event::Finished(_) | Event::Rejected(_)) && state.notice.as_ref().is_some_and(|notice| notice.of_answers) {
        state.notice = None;
    }
    let ending = match &event {
        Event::Finished(end) => ending(theme, end, &state.snapshot),
        _ => None,
    };
    let Some(pane) = state.pane_of(user) else { return };
    match event {
        Event::Queued { .. } | Event::Witnessed(_) => {}
        Event::Admitted { .. } => pane.preempted_by = None,
        Event::Token { text, .. } => {
            pane.preempted_by = None;
            if let Err(over) = pane.hear(&text) {
                state.complain(full(theme, over));
            }
        }
        Event::Preempted { by, .. } => pane.preempted_by = Some(by),
        Event::Finished(end) => {
            let kept = pane.hear(&end.text);
            pane.conclude(ending, Some(figures(&end)));
            if let Err(over) = kept {
                state.complain(full(theme, over));
            }
        }
        Event::Rejected(why) => {
            if let Some(prompt) = pane.take_back()
                && pane.editor.is_empty()
            {
                pane.editor.set(&prompt);
            }
            pane.refused = Some(refusal::refused(&why, theme));
        }
    }
}

/// How an answer ended, when that is worth a line.
fn ending(theme: Theme, end: &Finished, snapshot: &Snapshot) -> Option<String> {
    let message = refusal::no_room(end, snapshot, theme);
    let message = message.filter(|_| end.message.is_some()).or_else(|| end.message.clone()).unwrap_or_default();
    match end.reason {
        FinishReason::Stop if end.generated_tokens <= 1 => Some(theme.tr("(an empty answer)").to_owned()),
        FinishReason::Stop => None,
        FinishReason::Length if message.is_empty() => None,
        FinishReason::Length => Some(say!(theme, "{}. {} goes on", message, keymap::key_for(Action::Continue))),
        FinishReason::ContextFull | FinishReason::KvFull => {
            Some(say!(theme, "{}. {} begins a new conversation", message, keymap::key_for(Action::ClearChat)))
        }
        FinishReason::Cancelled => Some(theme.tr("stopped").to_owned()),
        FinishReason::Failed => Some(say!(theme, "failed: {}", told::fault(&message, theme))),
    }
}
