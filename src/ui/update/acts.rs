//! What the actions of the key table do, whether they come by key or from the palette.

use super::chat::{close_pane, send, send_all};
use super::model::{model, switch_back};
use super::pace::{set_pace, set_pace_beside};
use super::typing::{edit_in, insert};
use super::{Effect, branches, files, history, pick, slash};
use crate::engine::api::{Pace, RunState};
use crate::ui::editor::Editor;
use crate::ui::keymap::{Action, key_for};
use crate::ui::params::{self, Form};
use crate::ui::settings::Desk;
use crate::ui::state::{Mode, State};
use crate::ui::theme::Theme;
use crate::ui::view::screen;
use crate::ui::words::say;
use crate::ui::{bots, machine, replay};

/// Carries out an action of the key table, whether it came by key or from the palette.
pub fn act(state: &mut State, action: Action) -> Vec<Effect> {
    machine::make_room(state, action);
    if let Some(effects) = machine::act(state, action) {
        return effects;
    }
    if state.replay.is_some()
        && let Some(effects) = replay::act(state, action)
    {
        return effects;
    }
    if state.options.readonly && changes_something(action) {
        state.complain(state.options.theme.tr("this screen is read-only: nothing is sent or changed here"));
        return Vec::new();
    }
    match action {
        Action::Log => vec![Effect::Log],
        Action::Mouse => vec![Effect::Mouse(flip(state, |state| &mut state.mouse, mouse_words))],
        Action::Send if state.broadcast => send_all(state),
        Action::Send => send(state, state.focus),
        Action::Regenerate => branches::regenerate(state, None),
        Action::Continue => branches::go_on(state, None),
        Action::Beside => branches::beside(state, None),
        Action::CopyAnswer => files::copy(state, None),
        Action::OtherEditor => {
            let pane = state.focused();
            vec![Effect::OtherEditor { user: pane.person.user, text: pane.editor.text().to_owned() }]
        }
        Action::SendAll => send_all(state),
        Action::ClosePane if state.panes.len() > 1 && !state.focused().holds_text() => close_pane(state),
        Action::History => history::open(state),
        Action::Cancel if state.focused().live && !state.options.readonly => vec![Effect::Cancel(state.focused().person.user)],
        Action::NewPane => new_pane(state),
        Action::Redraw => vec![Effect::Redraw],
        Action::Suspend => vec![Effect::Suspend],
        other => act_on_engine(state, other).unwrap_or_else(|| {
            act_on_screen(state, other);
            Vec::new()
        }),
    }
}

/// What the engine, the model and the bots are told; None: the action is not for them.
fn act_on_engine(state: &mut State, action: Action) -> Option<Vec<Effect>> {
    Some(match action {
        Action::Pause => {
            let pause = state.snapshot.state != RunState::Paused;
            machine::say_pause(state, pause);
            vec![Effect::Pause(pause)]
        }
        Action::Step => vec![Effect::Pause(true), Effect::Step(1)],
        Action::StepTen => vec![Effect::Pause(true), Effect::Step(10)],
        Action::Slower => set_pace_beside(state, true),
        Action::Faster => set_pace_beside(state, false),
        Action::FullSpeed => set_pace(state, Pace::Full),
        Action::MoreBots => bots::change_number(state, state.bots.wanted() + 1),
        Action::FewerBots => bots::change_number(state, state.bots.wanted().saturating_sub(1)),
        Action::Model => model(state),
        Action::SwitchBack => switch_back(state),
        Action::Witness => {
            flip(state, |state| &mut state.witness, witness_words);
            Vec::new()
        }
        _ => return None,
    })
}

/// Turns something on that is off, or off that is on, and says which; gives what it is now.
fn flip(state: &mut State, which: fn(&mut State) -> &mut bool, words: fn(Theme, bool) -> &'static str) -> bool {
    let on = !*which(state);
    *which(state) = on;
    state.say(words(state.options.theme, on));
    on
}

fn witness_words(theme: Theme, on: bool) -> &'static str {
    theme.tr(if on {
        "witness: from the next prompt on, each answer is computed again alone and compared, bit by bit"
    } else {
        "no witness from the next prompt on"
    })
}

fn mouse_words(theme: Theme, on: bool) -> &'static str {
    theme.tr(if on { "the mouse chooses panes and scrolls; Shift selects text" } else { "the mouse is the terminal's again" })
}

/// What a read-only screen does not do.
fn changes_something(action: Action) -> bool {
    !matches!(
        action,
        Action::NextPane
            | Action::PrevPane
            | Action::FocusPane(_)
            | Action::Zoom
            | Action::View
            | Action::PageUp
            | Action::PageDown
            | Action::LineUp
            | Action::LineDown
            | Action::Top
            | Action::Bottom
            | Action::Help
            | Action::Palette
            | Action::Mouse
            | Action::Raw
            | Action::BranchBefore
            | Action::BranchAfter
            | Action::Log
            | Action::History
            | Action::Search
            | Action::CopyAnswer
            | Action::Export
            | Action::Redraw
            | Action::Suspend
            | Action::Quit
            | Action::Cancel
            | Action::Back
    )
}

/// The actions that change the screen alone.
fn act_on_screen(state: &mut State, action: Action) {
    match action {
        Action::Newline => insert(state, "\n"),
        Action::Edit(edit) => {
            let columns = state.focused().transcript.columns() + crate::ui::transcript::GUTTER;
            edit_in(&mut state.focused_mut().editor, edit, columns);
        }
        Action::Rewrite => branches::rewrite(state, None),
        Action::BranchBefore => branches::switch(state, None, -1),
        Action::BranchAfter => branches::switch(state, None, 1),
        Action::PickMessage => pick::open(state),
        Action::Export => files::ask_where(state),
        Action::Search => files::search(state, ""),
        Action::Raw => {
            let transcript = &mut state.focused_mut().transcript;
            let raw = transcript.markdown();
            transcript.set_markdown(!raw);
            let theme = state.options.theme;
            // On plain text nothing else shows it.
            state.say(match raw {
                true => say!(theme, "this pane shows answers as they were written: {} renders them again", key_for(Action::Raw)),
                false => theme.tr("this pane renders Markdown again").to_owned(),
            });
        }
        Action::Back if branches::stop_rewriting(state) => {}
        Action::NextPane if slash::typing(state) && slash::complete(state) => {}
        Action::NextPane => state.focus = (state.focus + 1) % state.panes.len(),
        Action::PrevPane => state.focus = (state.focus + state.panes.len() - 1) % state.panes.len(),
        Action::FocusPane(number) => {
            if let Some(at) = usize::from(number).checked_sub(1).filter(|at| *at < state.panes.len()) {
                state.focus = at;
            }
        }
        Action::Zoom => {
            state.zoom = !state.zoom;
            if !state.zoom && state.panes.len() > 1 && screen::panes_shown(state) <= 1 {
                state.say(state.options.theme.tr("only one pane fits here: Tab and Alt-1 to Alt-9 go to the others"));
            }
        }
        Action::Broadcast => state.broadcast = !state.broadcast,
        Action::PageUp => scroll(state, |rows| -(rows as isize - 1).max(1)),
        Action::PageDown => scroll(state, |rows| (rows as isize - 1).max(1)),
        Action::LineUp => scroll(state, |_| -1),
        Action::LineDown => scroll(state, |_| 1),
        Action::Top => state.focused_mut().transcript.to_top(),
        Action::Bottom => state.focused_mut().transcript.to_bottom(),
        Action::ClosePane if state.panes.len() == 1 => {
            state.complain(state.options.theme.tr("this is the last pane: Ctrl-C quits"))
        }
        other => {
            if let Some(mode) = opened_by(state, other) {
                state.mode = mode;
            }
        }
    }
}

/// What an action opens over the chat, or asks.
fn opened_by(state: &State, action: Action) -> Option<Mode> {
    match action {
        Action::ClosePane => Some(Mode::ConfirmClose),
        Action::Rename => Some(Mode::Rename(Editor::default())),
        Action::Params => {
            let presets = params::presets(&state.options.sampling, &state.options.presets);
            Some(Mode::Params(Form::of(state.focused(), presets)))
        }
        Action::Cancel | Action::Quit => Some(Mode::ConfirmQuit),
        Action::ClearChat => (!state.focused().transcript.is_empty()).then_some(Mode::ConfirmClear),
        Action::Settings => Some(Mode::Settings(Desk::default())),
        Action::Help => Some(Mode::Help { scroll: 0 }),
        Action::Palette => Some(Mode::Palette { filter: Editor::default(), chosen: 0 }),
        _ => None,
    }
}

pub(super) fn new_pane(state: &mut State) -> Vec<Effect> {
    if state.add_pane() {
        return vec![named(state)];
    }
    let words = say!(state.options.theme, "there are {} panes already, and no more fit", state.panes.len());
    state.complain(words);
    Vec::new()
}

/// What the focused pane is called.
pub(super) fn named(state: &State) -> Effect {
    let person = &state.focused().person;
    Effect::Name { user: person.user, name: person.name.clone() }
}

fn scroll(state: &mut State, by: fn(usize) -> isize) {
    let transcript = &mut state.focused_mut().transcript;
    transcript.scroll_by(by(transcript.rows()));
}
