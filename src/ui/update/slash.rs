//! What is typed after a slash is done, not sent.

use super::{Effect, act, branches, chat, files};
use crate::ui::bots::{self, MAX_BOTS};
use crate::ui::keymap::Action;
use crate::ui::params;
use crate::ui::state::{Mode, State};
use crate::ui::text::one_line;
use crate::ui::words::say;

/// A command and what may follow it.
pub struct Command {
    pub name: &'static str,
    /// What is to be written after it; empty: nothing.
    pub wants: &'static str,
    pub about: &'static str,
}

const fn command_of(name: &'static str, wants: &'static str, about: &'static str) -> Command {
    Command { name, wants, about }
}

pub const COMMANDS: [Command; 22] = [
    command_of("help", "", "all keys"),
    command_of("new", "", "new conversation in this pane"),
    command_of("system", "TEXT", "what the model is told first; nothing: no system prompt"),
    command_of("set", "NAME VALUE", "a parameter, for instance temperature 0.3"),
    command_of("preset", "NAME", "named parameters: precise, balanced, creative, or your own"),
    command_of("params", "", "the form with all of them"),
    command_of("regenerate", "", "answer the last prompt again"),
    command_of("continue", "", "the last answer goes on"),
    command_of("edit", "", "write the last prompt anew"),
    command_of("beside", "", "answer the last prompt in a new pane too"),
    command_of("copy", "", "copy the last answer"),
    command_of("export", "FILE", "write the conversation to a file (.md or .json)"),
    command_of("search", "TEXT", "look for a text in all panes"),
    command_of("history", "", "open an earlier conversation in this pane, or find one"),
    command_of("raw", "", "answers as Markdown, or as they were written"),
    command_of("rename", "NAME", "this pane's name"),
    command_of("all", "TEXT", "send a text to all panes"),
    command_of("pane", "", "one more pane"),
    command_of("close", "", "close this pane"),
    command_of("bots", "NUMBER", "so many bots: people made of program, who chat by themselves"),
    command_of("pause", "", "pause the engine, or let it run"),
    command_of("quit", "", "quit batchroom"),
];

/// The command in a draft, without its slash; None: it is a prompt. Two slashes are one that is sent.
pub fn command(draft: &str) -> Option<&str> {
    draft.strip_prefix('/').filter(|rest| !rest.starts_with('/'))
}

/// What of a draft is sent.
pub fn plain(draft: &str) -> &str {
    if draft.starts_with("//") { &draft[1..] } else { draft }
}

/// The commands that a draft may become, while its first word is being typed.
pub fn candidates(draft: &str) -> Vec<&'static Command> {
    match command(draft) {
        Some(word) if !word.contains(char::is_whitespace) => {
            COMMANDS.iter().filter(|command| command.name.starts_with(word)).collect()
        }
        _ => Vec::new(),
    }
}

/// Tab: what is certain of the word is written. False when there is nothing to complete.
pub(super) fn complete(state: &mut State) -> bool {
    let found = candidates(state.focused().editor.text());
    let Some(first) = found.first() else { return false };
    let common = found.iter().fold(first.name, |common, command| {
        let same = common.bytes().zip(command.name.bytes()).take_while(|(a, b)| a == b).count();
        &common[..same]
    });
    let space = if found.len() == 1 && !first.wants.is_empty() { " " } else { "" };
    let text = format!("/{common}{space}");
    state.focused_mut().editor.set(&text);
    true
}

/// Does what a draft asks for. The draft goes away when it was understood, and is among the earlier prompts.
pub(super) fn run(state: &mut State, at: usize, command: &str) -> Vec<Effect> {
    let theme = state.options.theme;
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let rest = rest.trim();
    let Some(known) = COMMANDS.iter().find(|known| known.name == name) else {
        let name: String = one_line(name).chars().take(24).collect();
        state.complain(say!(
            theme,
            "there is no command /{}: nothing was sent. /help lists them; // begins a prompt with a slash",
            name
        ));
        return Vec::new();
    };
    if known.wants.is_empty() && !rest.is_empty() {
        state.complain(say!(theme, "/{} takes nothing after it: nothing was done", known.name));
        return Vec::new();
    }
    if !known.wants.is_empty() && rest.is_empty() && !matches!(name, "system" | "export" | "search") {
        state.complain(say!(theme, "/{} wants {} after it", known.name, theme.tr(known.wants)));
        return Vec::new();
    }
    let rest = rest.to_owned();
    let typed = state.panes[at].editor.take();
    match obey(state, at, name, &rest) {
        Ok(effects) => effects,
        Err(why) => {
            // It stays, to be put right.
            let pane = &mut state.panes[at];
            if pane.editor.is_empty() {
                pane.editor.set(&typed);
            }
            state.complain(why);
            Vec::new()
        }
    }
}

fn obey(state: &mut State, at: usize, name: &str, rest: &str) -> Result<Vec<Effect>, String> {
    let theme = state.options.theme;
    let action = match name {
        "help" => Action::Help,
        "new" => Action::ClearChat,
        "params" => Action::Params,
        "regenerate" => Action::Regenerate,
        "continue" => Action::Continue,
        "edit" => Action::Rewrite,
        "beside" => Action::Beside,
        "copy" => Action::CopyAnswer,
        "history" => Action::History,
        "raw" => Action::Raw,
        "pane" => Action::NewPane,
        "close" => Action::ClosePane,
        "pause" => Action::Pause,
        "quit" => Action::Quit,
        "system" => {
            let pane = &mut state.panes[at];
            pane.system = Some(rest.to_owned()).filter(|system| !system.is_empty());
            let name = pane.person.name.clone();
            state.say(match rest.is_empty() {
                true => say!(theme, "{}: no system prompt, from the next prompt on", name),
                false => say!(theme, "{}: a new system prompt, from the next prompt on", name),
            });
            return Ok(Vec::new());
        }
        "set" => return params::set(state, at, rest).map(|()| Vec::new()),
        "preset" => return params::take_preset(state, at, rest).map(|()| Vec::new()),
        "export" if rest.is_empty() => Action::Export,
        "export" => return Ok(files::export(state, rest, false)),
        "search" => {
            files::search(state, rest);
            return Ok(Vec::new());
        }
        "bots" => {
            let number = rest.parse().ok().filter(|number| *number <= MAX_BOTS);
            let number = number.ok_or_else(|| say!(theme, "{} is no number from 0 to {}", one_line(rest), MAX_BOTS))?;
            return Ok(bots::change_number(state, number));
        }
        "rename" => return Ok(super::modes::rename(state, rest)),
        _ => {
            if state.live() == state.panes.len() {
                return Err(theme.tr("every pane is still being answered: the draft stays").to_owned());
            }
            return Ok(chat::to_all(state, rest));
        }
    };
    if action == Action::Rewrite {
        branches::rewrite(state, None);
        return Ok(Vec::new());
    }
    Ok(act(state, action))
}

/// Whether the draft of the focused pane is a command that is being typed.
pub(super) fn typing(state: &State) -> bool {
    matches!(state.mode, Mode::Chat) && state.replay.is_none() && !candidates(state.focused().editor.text()).is_empty()
}
