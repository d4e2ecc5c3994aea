//! Answers asked for again, prompts written anew, the branches that come of it.

use super::{Effect, chat};
use crate::conversation::{Maker, NodeId};
use crate::text::Role;
use crate::ui::keymap::{Action, key_for};
use crate::ui::state::State;
use crate::ui::talk::Rewriting;
use crate::ui::words::say;

/// Who answers next in a pane, with the seed of that answer.
pub(super) fn maker(state: &mut State, at: usize) -> Maker {
    let seed = state.seed_for(at);
    let sampling = crate::sampling::SamplingParams { seed, ..state.panes[at].sampling.clone() };
    Maker { model: state.snapshot.model.name.clone(), sampling }
}

/// Says that a pane cannot be asked now. False when it can.
fn busy(state: &mut State) -> bool {
    let (theme, name) = (state.options.theme, state.focused().person.name.clone());
    let live = state.focused().live;
    if live {
        state.say_busy(say!(theme, "{} is still being answered: {} stops it", name, key_for(Action::Cancel)));
    }
    live
}

/// The prompt that a message belongs to: itself, or the one that it answers.
fn prompt_of(state: &State, id: NodeId) -> Option<NodeId> {
    let tree = &state.focused().conversation;
    let node = tree.node(id)?;
    match node.role {
        Role::User => Some(id),
        _ => node.parent.filter(|parent| tree.node(*parent).is_some_and(|node| node.role == Role::User)),
    }
}

/// One more answer to a prompt, with another seed. The blocks of what it shares with the last one are shared.
pub(super) fn regenerate(state: &mut State, id: Option<NodeId>) -> Vec<Effect> {
    let theme = state.options.theme;
    let id = id.or_else(|| state.focused().last_prompt());
    let Some(prompt) = id.and_then(|id| prompt_of(state, id)) else {
        state.say(theme.tr("there is no answer yet that could be asked for again"));
        return Vec::new();
    };
    if busy(state) {
        return Vec::new();
    }
    let at = state.focus;
    let maker = maker(state, at);
    if state.panes[at].sampling.temperature == 0.0 {
        state.say(theme.tr("greedy (temperature 0): the answer will be the same again"));
    } else if state.panes[at].seed.is_some() {
        state.say(theme.tr("the seed is fixed: the answer will be the same again"));
    }
    let pane = &mut state.panes[at];
    if let Err(full) = pane.ask_again(prompt, Some(maker.clone())) {
        state.complain(chat::full(theme, full));
        return Vec::new();
    }
    let (user, messages) = (pane.person.user, pane.conversation.messages(pane.system.as_deref(), Some(prompt)));
    vec![Effect::Submit { user, messages, sampling: maker.sampling, fork_of: Some(user) }]
}

/// An answer that has ended goes on where it ended.
pub(super) fn go_on(state: &mut State, id: Option<NodeId>) -> Vec<Effect> {
    let theme = state.options.theme;
    let answer = id.or_else(|| state.focused().last_answer()).filter(|id| {
        state.focused().conversation.node(*id).is_some_and(|node| node.role == Role::Assistant && !node.text.is_empty())
    });
    let Some(answer) = answer else {
        state.say(theme.tr("there is no answer that could go on"));
        return Vec::new();
    };
    if busy(state) {
        return Vec::new();
    }
    let at = state.focus;
    let maker = maker(state, at);
    let pane = &mut state.panes[at];
    pane.ask_more(answer, Some(maker.clone()));
    let (user, messages) = (pane.person.user, pane.conversation.messages(pane.system.as_deref(), Some(answer)));
    vec![Effect::Submit { user, messages, sampling: maker.sampling, fork_of: Some(user) }]
}

/// Puts an own message into the editor: what is sent then stands beside it. The draft comes back afterwards.
pub(super) fn rewrite(state: &mut State, id: Option<NodeId>) {
    let theme = state.options.theme;
    let id = id.or_else(|| state.focused().last_prompt());
    let pane = state.focused_mut();
    let text = id.and_then(|id| pane.conversation.node(id).filter(|node| node.role == Role::User).map(|node| node.text.clone()));
    let (Some(node), Some(text)) = (id, text) else {
        return state.say(theme.tr("only an own message can be written anew"));
    };
    let draft = match pane.rewriting.take() {
        Some(before) => before.draft,
        None => pane.editor.text().to_owned(),
    };
    pane.editor.set(&text);
    pane.rewriting = Some(Rewriting { node, draft });
}

/// Leaves a rewriting: the draft is back, and what was written stays among the earlier prompts.
pub(super) fn stop_rewriting(state: &mut State) -> bool {
    let pane = state.focused_mut();
    let Some(rewriting) = pane.rewriting.take() else { return false };
    let written = pane.editor.text().to_owned();
    pane.editor.keep(&written);
    pane.editor.set(&rewriting.draft);
    true
}

/// The branch before or after, at a message or at the last place that has several.
pub(super) fn switch(state: &mut State, id: Option<NodeId>, by: isize) {
    let theme = state.options.theme;
    let pane = state.focused_mut();
    let path = pane.conversation.path();
    let forks = |id: &NodeId| pane.conversation.place(*id).1 > 1;
    let at = id.filter(forks).or_else(|| path.iter().rev().find(|id| forks(id)).copied());
    match at {
        Some(at) => {
            pane.conversation.switch(at, by);
            pane.transcript.show(&pane.conversation);
            state.notice = state.notice.take().filter(|notice| notice.bad);
        }
        None => {
            let (again, rewrite) = (key_for(Action::Regenerate), key_for(Action::Rewrite));
            state.say(say!(theme, "there are no branches yet: {} answers again, {} rewrites the prompt", again, rewrite));
        }
    }
}

/// Another answer to the same prompt in a new pane beside this one: a fork of the running request, if it still runs.
pub(super) fn beside(state: &mut State, id: Option<NodeId>) -> Vec<Effect> {
    let theme = state.options.theme;
    let id = id.or_else(|| state.focused().last_prompt());
    let Some(prompt) = id.and_then(|id| prompt_of(state, id)) else {
        state.say(theme.tr("there is no prompt yet that could be answered in another pane"));
        return Vec::new();
    };
    let from = state.focus;
    let mut effects = super::acts::new_pane(state);
    if effects.is_empty() {
        return effects;
    }
    let key = state.new_conversation().key;
    let origin = &state.panes[from];
    let (user, system, sampling) = (origin.person.user, origin.system.clone(), origin.sampling.clone());
    let branch = origin.conversation.branch_off(key, prompt);
    let at = state.focus;
    let pane = &mut state.panes[at];
    (pane.system, pane.sampling, pane.conversation) = (system, sampling, branch);
    pane.transcript.show(&pane.conversation);
    let prompt = pane.conversation.leaf();
    let maker = maker(state, at);
    let pane = &mut state.panes[at];
    if let Some(prompt) = prompt
        && pane.ask_again(prompt, Some(maker.clone())).is_ok()
    {
        let messages = pane.conversation.messages(pane.system.as_deref(), Some(prompt));
        let own = pane.person.user;
        effects.push(Effect::Submit { user: own, messages, sampling: maker.sampling, fork_of: Some(user) });
    }
    effects
}

/// Deletes a message and all below it.
pub(super) fn remove(state: &mut State, id: NodeId) -> Vec<Effect> {
    let pane = state.focused_mut();
    let answering = pane.asked.as_ref().map(|asked| asked.answer);
    let stopped = answering.is_some_and(|answer| pane.conversation.is_below(answer, id));
    if stopped {
        (pane.live, pane.asked, pane.preempted_by) = (false, None, None);
    }
    if pane.rewriting.as_ref().is_some_and(|rewriting| pane.conversation.is_below(rewriting.node, id)) {
        stop_rewriting(state);
    }
    let pane = state.focused_mut();
    pane.conversation.remove(id);
    pane.transcript.show(&pane.conversation);
    if stopped { vec![Effect::Abandon(pane.person.user)] } else { Vec::new() }
}
