//! A recording on the screen: where it is, its keys, and how conversations come into the panes. Pure, as `update` is.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crossterm::event::KeyEvent;

use super::editor::Editor;
use super::format::{count, rate, time};
use super::keymap::{Action, Film, Glance, LOOK, Stroll, key_in, lookup};
use super::people::Person;
use super::state::{MAX_PANES, Mode, State};
use super::theme::Theme;
use super::update::{Effect, on_event};
use super::words::say;
use super::{refusal, told};
use crate::batch::{RequestId, UserId};
use crate::conversation::Conversation;
use crate::engine::api::Event;
use crate::replay::{Cut, Said, What};

/// Steps of one long stride.
const FAR: usize = 100;
/// The speed is two to the power of this, at least and at most.
const SLOWEST: i32 = -5;
const FASTEST: i32 = 7;
/// A rest of the engine that is longer is shortened to this, in engine time.
pub const LONGEST_REST: Duration = Duration::from_secs(1);

/// Where a recording is, as the screen shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reel {
    /// The frame on screen: the state after so many steps.
    pub frame: usize,
    pub steps: usize,
    /// Engine time.
    pub time: Duration,
    pub playing: bool,
    /// Two to the power of this, times as fast as it was.
    power: i32,
    /// Why the recording ends before the engine did.
    pub cut: Option<Cut>,
    /// People whose panes have no room on the screen.
    pub others: usize,
    /// Esc was the newest key: once more is quit.
    leaving: bool,
}

impl Reel {
    pub fn new(steps: usize, cut: Option<Cut>) -> Reel {
        Reel { steps, cut, ..Reel::default() }
    }

    /// How many times as fast as it was.
    pub fn speed(&self) -> f64 {
        f64::from(self.power).exp2()
    }

    /// The line above the keys, longest wording first.
    pub fn wordings(&self, theme: Theme) -> Vec<String> {
        let step = say!(theme, "replay: step {} of {}", count(self.frame as u64), count(self.steps as u64));
        let state = theme.tr(if self.playing { "playing" } else { "paused" });
        let speed = match self.power {
            power if power < 0 => format!("1/{}x", 1 << -power),
            _ => format!("{}x", rate(self.speed()).trim_end_matches(".0")),
        };
        let short = format!("{step} · {state} · {speed}");
        let mut long = format!("{short} · {}", time(self.time));
        if self.others > 0 {
            long.push_str(&format!(" · {}", say!(theme, "{} more users", self.others)));
        }
        let end = self.cut.as_ref().filter(|_| self.frame == self.steps);
        let cut = end.map_or(long.clone(), |why| {
            format!("{long} · {}", say!(theme, "the recording is not whole: {}", told::cut(why, theme)))
        });
        vec![cut, long, short, step]
    }
}

impl Reel {
    /// Plays, stops, goes elsewhere: to the frame that comes back.
    fn turn(&mut self, film: Film) -> Option<usize> {
        let frame = match film {
            Film::Play => {
                self.playing = !self.playing;
                // At the end there is nothing to play but all of it.
                return (self.playing && self.frame == self.steps).then_some(0);
            }
            Film::Slower => {
                self.power = (self.power - 1).max(SLOWEST);
                return None;
            }
            Film::Faster => {
                self.power = (self.power + 1).min(FASTEST);
                return None;
            }
            Film::GoTo => return None,
            Film::On => self.frame.saturating_add(1),
            Film::Back => self.frame.saturating_sub(1),
            Film::FarOn => self.frame.saturating_add(FAR),
            Film::FarBack => self.frame.saturating_sub(FAR),
            Film::First => 0,
            Film::Last => self.steps,
        };
        self.playing &= !matches!(film, Film::On | Film::Back | Film::Last);
        Some(frame.min(self.steps))
    }
}

/// What an action does in a replay; None: the same as in the room.
pub fn act(state: &mut State, action: Action) -> Option<Vec<Effect>> {
    let reel = state.replay.as_mut()?;
    let leaving = std::mem::take(&mut reel.leaving);
    Some(match action {
        Action::Replay(Film::GoTo) => {
            state.mode = Mode::GoTo(Editor::default());
            Vec::new()
        }
        Action::Replay(film) => reel.turn(film).map(Effect::Seek).into_iter().collect(),
        Action::Quit | Action::Cancel => vec![Effect::Quit],
        Action::Back if leaving => vec![Effect::Quit],
        Action::Back => {
            reel.leaving = true;
            state.say(state.options.theme.tr("Esc once more quits"));
            Vec::new()
        }
        Action::NextPane
        | Action::PrevPane
        | Action::FocusPane(_)
        | Action::Zoom
        | Action::LineUp
        | Action::LineDown
        | Action::Top
        | Action::Bottom
        | Action::Search
        | Action::CopyAnswer
        | Action::Raw
        | Action::Mouse
        | Action::Help
        | Action::Palette
        | Action::Redraw
        | Action::Suspend => return None,
        // Nothing of a recording can be changed.
        _ => Vec::new(),
    })
}

/// A key that does nothing here, and would among the steps that were: says so.
pub fn says_where(state: &mut State, key: KeyEvent) {
    let action = lookup(LOOK, &key);
    if let Some(action @ Action::Stroll(Stroll::EventBack | Stroll::EventOn)) = action {
        let (typed, look) = (key_in(LOOK, action), key_in(state.keys(), Action::Glance(Glance::LookBack)));
        let words = say!(state.options.theme, "{} goes from event to event among the steps that were: {} first", typed, look);
        state.say(words);
    }
}

/// What was typed as a step's number.
pub fn go_to(state: &mut State, typed: &str) -> Vec<Effect> {
    let Some(reel) = &mut state.replay else { return Vec::new() };
    let digits: String = typed.chars().filter(|c| !c.is_whitespace() && !matches!(c, ',' | '.' | '_')).collect();
    match digits.parse::<usize>() {
        Ok(step) if step <= reel.steps => {
            reel.playing = false;
            vec![Effect::Seek(step)]
        }
        _ => {
            let steps = reel.steps;
            state.complain(say!(state.options.theme, "a step is a number from 0 to {}", steps));
            Vec::new()
        }
    }
}

/// Puts what was said into the panes. A person whose second prompt came while the first was still being answered has them
/// one after the other, as a pane shows them.
#[derive(Clone, Debug, Default)]
pub struct Feed {
    open: HashMap<UserId, VecDeque<(RequestId, Vec<What>)>>,
}

impl Feed {
    pub fn take(&mut self, state: &mut State, said: &[Said]) {
        for Said { user, request, what, .. } in said {
            match (request, what) {
                (None, What::Named(name)) => rename(state, *user, name),
                (None, _) => {}
                (Some(request), what) => self.hear(state, *user, *request, what),
            }
        }
    }

    fn hear(&mut self, state: &mut State, user: UserId, request: RequestId, what: &What) {
        let open = self.open.entry(user).or_default();
        if matches!(what, What::Asked { .. }) {
            open.push_back((request, Vec::new()));
        }
        if open.front().is_none_or(|(first, _)| *first != request) {
            if let Some((_, held)) = open.iter_mut().find(|(id, _)| *id == request) {
                held.push(what.clone());
            }
            return;
        }
        show(state, user, what);
        let mut over = is_end(what);
        while over {
            open.pop_front();
            let Some((_, held)) = open.front_mut() else { break };
            let held = std::mem::take(held);
            held.iter().for_each(|what| show(state, user, what));
            over = held.iter().any(is_end);
        }
        if open.is_empty() {
            self.open.remove(&user);
        }
    }
}

fn is_end(what: &What) -> bool {
    matches!(what, What::Finished(_) | What::Refused(_))
}

fn rename(state: &mut State, user: UserId, name: &str) {
    let name: String = super::text::one_line(name.trim()).chars().take(24).collect();
    let Some(at) = state.panes.iter().position(|pane| pane.person.user == user) else { return };
    if !name.is_empty() && state.panes[at].person.name != name {
        let letter = state.free_letter(&name, Some(at));
        let person = &mut state.panes[at].person;
        (person.name, person.letter) = (name, letter);
    }
}

fn show(state: &mut State, user: UserId, what: &What) {
    let theme = state.options.theme;
    let event = match what {
        What::Named(_) => return,
        What::Asked { words, tokens } => {
            let Some(pane) = state.pane_of(user) else { return };
            let prompt = words.as_deref().map_or_else(|| say!(theme, "({} token ids)", tokens), str::to_owned);
            // A recording that is longer than a conversation may be goes on in a new one.
            let after = pane.conversation.leaf();
            if pane.ask(after, &prompt, None).is_err() {
                pane.conversation = Conversation::default();
                pane.transcript = pane.transcript.cleared();
                let _ = pane.ask(None, &prompt, None);
            }
            return;
        }
        What::Refused(why) => {
            let Some(pane) = state.pane_of(user) else { return };
            return pane.conclude(Some(say!(theme, "refused: {}", refusal::refused(why, theme))), None);
        }
        What::Text(text) => Event::Token { step: 0, token: 0, text: text.to_string() },
        What::Admitted => Event::Admitted { step: 0, cached: 0 },
        What::Preempted(by) => Event::Preempted { step: 0, by: *by },
        What::Finished(end) => Event::Finished((**end).clone()),
    };
    on_event(state, user, event);
}

/// The panes of the people of a recording, each with the name that was given first; who has no pane is known by name. Gives
/// the number of those.
pub fn seat(state: &mut State, people: &[(UserId, Option<String>)]) -> usize {
    let theme = state.options.theme;
    while state.panes.len() < people.len().min(MAX_PANES) {
        state.add_pane();
    }
    // No letter is taken by a name that nobody has.
    for (pane, (user, name)) in state.panes.iter_mut().zip(people) {
        pane.person =
            Person { user: *user, name: name.clone().unwrap_or_else(|| say!(theme, "user {}", user.0)), ..pane.person.clone() };
        pane.person.letter = '?';
    }
    for at in 0..state.panes.len().min(people.len()) {
        let name: String = super::text::one_line(state.panes[at].person.name.trim()).chars().take(24).collect();
        state.panes[at].person.letter = state.free_letter(&name, Some(at));
        state.panes[at].person.name = name;
    }
    for (at, (user, name)) in people.iter().enumerate().skip(MAX_PANES) {
        let name = name.as_deref().map_or_else(|| say!(theme, "user {}", user.0), super::text::one_line);
        let letter = state.free_letter(&name, None);
        state.remember(Person { user: *user, name, letter, hue: at % MAX_PANES });
    }
    state.focus = 0;
    people.len().saturating_sub(MAX_PANES)
}

/// Empty panes, as at the beginning.
pub fn clear(state: &mut State) {
    for pane in &mut state.panes {
        pane.transcript = pane.transcript.cleared();
        // Nobody keeps what is recorded already.
        (pane.conversation, pane.asked) = (Conversation::default(), None);
        pane.live = false;
        pane.preempted_by = None;
    }
}
