//! Prompts out, answers in.

use super::Effect;
use crate::batch::UserId;
use crate::engine::api::{Event, FinishReason};
use crate::sampling::SamplingParams;
use crate::text::Role;
use crate::ui::keymap::{self, Action};
use crate::ui::state::State;

/// Sends a pane's draft. None when there is nothing to send, or it still answers.
pub(super) fn send(state: &mut State, at: usize) -> Option<Effect> {
    let pane = &state.panes[at];
    if pane.editor.text().trim().is_empty() {
        return None;
    }
    if pane.live {
        let name = pane.person.name.clone();
        state.say(format!("{name} is still being answered: Ctrl-C stops it, the draft stays"));
        return None;
    }
    let draft = state.panes[at].editor.take();
    Some(submit(state, at, &draft))
}

pub(super) fn submit(state: &mut State, at: usize, draft: &str) -> Effect {
    let seed = state.seed_for(at);
    let pane = &mut state.panes[at];
    pane.refused = None;
    pane.preempted_by = None;
    pane.transcript.push(Role::User, draft);
    let messages = pane.transcript.messages(pane.system.as_deref());
    pane.transcript.push(Role::Assistant, "");
    pane.live = true;
    Effect::Submit { user: pane.person.user, messages, sampling: SamplingParams { seed, ..pane.sampling.clone() } }
}

/// The focused pane's draft to every pane that is free.
pub(super) fn send_all(state: &mut State) -> Vec<Effect> {
    if state.focused().editor.text().trim().is_empty() {
        return Vec::new();
    }
    let busy = state.live();
    if busy == state.panes.len() {
        state.say("every pane is still being answered: the draft stays");
        return Vec::new();
    }
    let focus = state.focus;
    let draft = state.panes[focus].editor.take();
    let free: Vec<usize> = (0..state.panes.len()).filter(|at| !state.panes[*at].live).collect();
    let effects: Vec<Effect> = free
        .iter()
        .map(|at| {
            state.panes[*at].editor.keep(&draft);
            submit(state, *at, &draft)
        })
        .collect();
    if busy > 0 {
        let who = if busy == 1 { "one pane is" } else { &format!("{busy} panes are") };
        state.say(format!("sent to {} of {}: {who} still being answered", effects.len(), state.panes.len()));
    }
    effects
}

pub(super) fn clear(state: &mut State) -> Vec<Effect> {
    let pane = state.focused_mut();
    let was_live = std::mem::take(&mut pane.live);
    pane.transcript = crate::ui::transcript::Transcript::default();
    pane.preempted_by = None;
    if was_live { vec![Effect::Abandon(pane.person.user)] } else { Vec::new() }
}

pub(super) fn close_pane(state: &mut State) -> Vec<Effect> {
    let pane = state.panes.remove(state.focus);
    state.remember(pane.person.clone());
    state.focus = state.focus.min(state.panes.len() - 1);
    if pane.live { vec![Effect::Abandon(pane.person.user)] } else { Vec::new() }
}

pub(in crate::ui) fn on_event(state: &mut State, user: UserId, event: Event) {
    let Some(pane) = state.pane_of(user) else { return };
    match event {
        Event::Queued { .. } => {}
        Event::Admitted { .. } => pane.preempted_by = None,
        Event::Token { text, .. } => {
            pane.preempted_by = None;
            pane.transcript.append(&text);
        }
        Event::Preempted { by, .. } => pane.preempted_by = Some(by),
        Event::Witnessed(_) => {}
        Event::Finished(end) => {
            pane.live = false;
            pane.preempted_by = None;
            pane.transcript.append(&end.text);
            let note = match end.reason {
                FinishReason::Stop if end.generated_tokens <= 1 => Some("(an empty answer)".to_owned()),
                FinishReason::Stop => None,
                FinishReason::Length => end.message,
                FinishReason::ContextFull | FinishReason::KvFull => {
                    let new = keymap::key_for(Action::ClearChat);
                    Some(format!("{}. {new} begins a new conversation", end.message.unwrap_or_default()))
                }
                FinishReason::Cancelled => Some("stopped".to_owned()),
                FinishReason::Failed => Some(format!("failed: {}", end.message.unwrap_or_default())),
            };
            pane.transcript.close(note);
        }
        Event::Rejected(why) => {
            pane.live = false;
            pane.transcript.pop();
            if let Some(prompt) = pane.transcript.pop()
                && pane.editor.is_empty()
            {
                pane.editor.set(&prompt.text);
            }
            pane.refused = Some(crate::ui::text::one_line(&why.to_string()));
        }
    }
}
