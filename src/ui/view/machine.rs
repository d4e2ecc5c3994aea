//! The machine room: which panels stand where, one of them alone, or the steps that were.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{charts, kv, ledger, look, notes, signals, step, timeline, times, users};
use crate::ui::keymap::{Action, Film, Glance, key_in};
use crate::ui::machine::Panel;
use crate::ui::people::People;
use crate::ui::reading::Wall;
use crate::ui::state::{Rooms, State};
use crate::ui::text;
use crate::ui::words::say;

/// Tells the walk through the steps how many columns there are.
pub fn measure(state: &mut State, area: Rect) {
    let people = state.people();
    let theme = state.options.theme;
    if let Some(look) = &mut state.machine.look {
        let columns = look::columns(area.width, &people, look, theme);
        look.fit(columns);
    }
}

/// The panels of the machine room, as many as have room: the timeline first, then users, memory, charts, events.
pub fn draw(buf: &mut Buffer, area: Rect, state: &State, people: &People) {
    if area.height == 0 || area.width == 0 {
        return;
    }
    if state.machine.is_open() {
        let _ = draw_open(buf, area, state, people, None);
        return;
    }
    if state.rooms == Rooms::Machine && area.width >= 120 {
        let left = Rect { width: area.width / 2, ..area };
        let right = Rect { x: area.x + left.width, width: area.width - left.width, ..area };
        let there = stack(buf, left, state, people, &[Panel::Timeline, Panel::Users, Panel::Step, Panel::Notes])
            + stack(buf, right, state, people, &[Panel::Kv, Panel::Charts, Panel::Times, Panel::Ledger, Panel::Signals]);
        others(buf, right, there, state);
    } else if state.rooms == Rooms::Machine {
        let all = [Panel::Timeline, Panel::Step, Panel::Users, Panel::Kv, Panel::Charts, Panel::Notes];
        let there = stack(buf, area, state, people, &all);
        others(buf, area, there, state);
    } else {
        let _ = stack(buf, area, state, people, &[Panel::Timeline, Panel::Users, Panel::Kv, Panel::Charts, Panel::Notes]);
    }
}

/// On the lower border, where not all panels have room: how many are there, and the key that shows the others.
fn others(buf: &mut Buffer, area: Rect, there: usize, state: &State) {
    let (theme, all) = (state.options.theme, Panel::ALL.len());
    if there >= all || area.height < 3 {
        return;
    }
    let key = key_in(state.keys(), Action::Glance(Glance::NextPanel));
    let wordings = [
        format!(" {} ", say!(theme, "{} of {} panels are here · {} shows each of them alone", there, all, key)),
        format!(" {} ", say!(theme, "{} of {} panels · {}: each", there, all, key)),
        String::new(),
    ];
    let words = text::first_fit(&wordings, usize::from(area.width.saturating_sub(4)));
    let at = area.right().saturating_sub(2 + text::width(&words) as u16);
    buf.set_string(at, area.bottom() - 1, words, theme.key());
}

impl Panel {
    /// Rows below which it says nothing.
    fn least(self) -> u16 {
        match self {
            Panel::Timeline | Panel::Users | Panel::Kv | Panel::Charts => 5,
            Panel::Step => 6,
            Panel::Times => 9,
            Panel::Ledger => 7,
            Panel::Signals => 6,
            Panel::Notes => 4,
        }
    }

    /// Rows with which it can be read, where everything it wants would leave others none.
    fn enough(self, state: &State, columns: u16) -> u16 {
        let wanted = self.wanted(state, columns);
        match self {
            Panel::Timeline => wanted.min(11),
            Panel::Users => wanted.min(users::enough_height(state.shown())),
            Panel::Kv => wanted.min(6),
            Panel::Step => wanted.min(8),
            other => other.least(),
        }
    }

    fn wanted(self, state: &State, columns: u16) -> u16 {
        let snapshot = state.shown();
        match self {
            Panel::Timeline => timeline::wanted_height(snapshot, columns),
            Panel::Step => step::wanted_height(snapshot, columns),
            Panel::Users => users::wanted_height(snapshot, columns),
            Panel::Kv => kv::wanted_height(snapshot, columns),
            Panel::Charts => charts::wanted_height(snapshot, columns),
            Panel::Times => times::wanted_height(snapshot, columns),
            Panel::Ledger => ledger::wanted_height(snapshot, columns),
            Panel::Signals => signals::wanted_height(snapshot, columns),
            Panel::Notes => notes::wanted_height(snapshot, columns),
        }
    }

    fn draw(self, buf: &mut Buffer, area: Rect, state: &State, people: &People) {
        let (snapshot, theme) = (state.shown(), state.options.theme);
        match self {
            Panel::Timeline => {
                let _ = timeline::draw_scrolled(buf, area, snapshot, people, theme, (None, &invitation(state)));
            }
            Panel::Step => {
                let _ = step::draw_at(buf, area, snapshot, people, theme, (&watched(state), None));
            }
            Panel::Users => {
                let _ = users::draw_sorted(buf, area, snapshot, people, theme, (state.machine.sort, None));
            }
            Panel::Kv => kv::draw(buf, area, snapshot, people, theme),
            Panel::Charts => charts::draw_over(buf, area, snapshot, theme, (state.machine.span, &Wall::of(state))),
            Panel::Times => times::draw(buf, area, snapshot, people, theme),
            Panel::Ledger => ledger::draw(buf, area, snapshot, people, theme),
            Panel::Signals => signals::draw(buf, area, snapshot, people, theme),
            Panel::Notes => notes::draw(buf, area, snapshot, people, theme),
        }
    }
}

/// Whether steps can be read one by one: in a recording the engine's pace is not what one sees.
fn watched(state: &State) -> step::Watched {
    let theme = state.options.theme;
    match &state.replay {
        None => step::Watched::live(state.shown(), theme),
        Some(reel) => step::Watched {
            slow: !reel.playing,
            hint: say!(
                theme,
                "{} stops the recording: then this is its newest step.",
                key_in(state.keys(), Action::Replay(Film::Play))
            ),
        },
    }
}

/// What can be done before the first step.
fn invitation(state: &State) -> String {
    let theme = state.options.theme;
    let key = |film| key_in(state.keys(), Action::Replay(film));
    if state.replay.is_some() {
        return say!(
            theme,
            "the recording is at its beginning: {} goes on by a step, {} plays it",
            key(Film::On),
            key(Film::Play)
        );
    }
    if state.options.readonly {
        return theme.tr("no step yet; this screen is read-only and sends nothing").to_owned();
    }
    theme.tr(timeline::INVITATION).to_owned()
}

/// How far what has the whole screen can be scrolled.
pub fn most(state: &State, area: Rect) -> usize {
    let people = state.people();
    if !state.machine.is_open() || area.is_empty() {
        return 0;
    }
    draw_open(&mut Buffer::empty(area), area, state, &people, Some(usize::MAX))
}

/// What has the whole screen; gives how far it can be scrolled. `scroll`: in place of how far it was.
fn draw_open(buf: &mut Buffer, area: Rect, state: &State, people: &People, scroll: Option<usize>) -> usize {
    match (&state.machine.look, state.machine.alone) {
        (Some(look), _) => look::draw(buf, area, state, look, people),
        (None, Some(panel)) => draw_alone(buf, area, panel, state, people, scroll.unwrap_or(state.machine.scroll)),
        (None, None) => 0,
    }
}

/// One panel on all of the area, with more in it where it has more.
fn draw_alone(buf: &mut Buffer, area: Rect, panel: Panel, state: &State, people: &People, scroll: usize) -> usize {
    let (snapshot, theme) = (state.shown(), state.options.theme);
    match panel {
        Panel::Step => step::draw_at(buf, area, snapshot, people, theme, (&watched(state), Some(scroll))),
        Panel::Charts => charts::draw_large(buf, area, snapshot, theme, (state.machine.span, &Wall::of(state)), scroll),
        Panel::Ledger => ledger::draw_scrolled(buf, area, snapshot, people, theme, scroll),
        Panel::Signals => signals::draw_scrolled(buf, area, snapshot, people, theme, scroll),
        Panel::Notes => notes::draw_scrolled(buf, area, snapshot, people, theme, scroll),
        Panel::Timeline => timeline::draw_scrolled(buf, area, snapshot, people, theme, (Some(scroll), &invitation(state))),
        Panel::Users => users::draw_sorted(buf, area, snapshot, people, theme, (state.machine.sort, Some(scroll))),
        Panel::Times => times::draw_scrolled(buf, area, snapshot, people, theme, scroll),
        Panel::Kv => {
            panel.draw(buf, area, state, people);
            0
        }
    }
}

/// Rows from which on the events keep their few, whoever else is there: what happened is told nowhere else.
const EVENTS_FROM: u16 = 26;

/// Rows of a chart that is one line: the newest value, and how it went.
const LINE: u16 = 3;
/// Rows with which a panel says something of everybody, where there is little room.
const FEW: u16 = 8;

/// One under the other, each with at least what it needs; the rest goes where more is wanted. Gives how many there are.
fn stack(buf: &mut Buffer, area: Rect, state: &State, people: &People, panels: &[Panel]) -> usize {
    let events = panels.contains(&Panel::Notes) && area.height >= EVENTS_FROM;
    // And the newest speed has its line there.
    let speed = events && panels.contains(&Panel::Charts);
    let kept_apart = |panel: &Panel| events && (*panel == Panel::Notes || *panel == Panel::Charts);
    let others: Vec<Panel> = panels.iter().copied().filter(|panel| !kept_apart(panel)).collect();
    let wanted = |panel: Panel| panel.wanted(state, area.width);
    let enough = |panel: Panel| panel.enough(state, area.width);
    let room = area.height - if events { Panel::Notes.least() } else { 0 } - if speed { LINE } else { 0 };
    // With few rows the first panels have what they want; with more of them, what they need, so that more are there.
    let goal = |panel: Panel| if events { enough(panel) } else { wanted(panel) };
    let mut there = kept(&others, room, goal);
    if speed && there.len() < 3 {
        // Memory is worth more than rows for every user.
        there = kept(&others, room, |panel| enough(panel).min(FEW));
    }
    let mut shares = least_shares(there, room, wanted);
    if speed {
        shares.push((Panel::Charts, LINE));
    }
    if events {
        shares.push((Panel::Notes, Panel::Notes.least()));
    }
    let mut left = area.height.saturating_sub(shares.iter().map(|(_, rows)| rows).sum());
    let mut share_out = |goal: &dyn Fn(Panel) -> u16, all: bool| {
        for (panel, rows) in &mut shares {
            let more = goal(*panel).saturating_sub(*rows);
            // The table of users puts reasons on lines of their own when there are lines for all of them.
            if more <= left || !(all && *panel == Panel::Users) {
                *rows += more.min(left);
                left -= more.min(left);
            }
        }
    };
    share_out(&enough, false);
    share_out(&wanted, true);
    // What nobody wants goes to the last panel: events and charts have use for any number of rows.
    if let Some((_, rows)) = shares.last_mut() {
        *rows += left;
    }
    let mut y = area.y;
    let there = shares.len();
    for (panel, rows) in shares {
        panel.draw(buf, Rect { y, height: rows, ..area }, state, people);
        y += rows;
    }
    there
}

/// The panels that there is room for: those from the end go away until the first three have the rows of their goal, or there
/// are no more than three.
fn kept(panels: &[Panel], room: u16, goal: impl Fn(Panel) -> u16) -> &[Panel] {
    let least = |panels: &[Panel]| panels.iter().map(|panel| panel.least()).sum::<u16>();
    let all = |panels: &[Panel]| panels.iter().map(|panel| goal(*panel)).sum::<u16>();
    let first = panels.len().min(3);
    let mut kept = panels.len();
    while kept > first && all(&panels[..first]) + least(&panels[first..kept]) > room {
        kept -= 1;
    }
    // Two that can be read are worth more than three that cannot.
    if kept == 3 && room < all(&panels[..3]) && all(&panels[..2]) + panels[2].least() > room {
        kept = 2;
    }
    &panels[..kept]
}

/// What each needs; where there is little, the first ones get what they want.
fn least_shares(panels: &[Panel], room: u16, wanted: impl Fn(Panel) -> u16) -> Vec<(Panel, u16)> {
    let scarce = room < panels.iter().map(|panel| panel.least()).sum::<u16>() + 4;
    let mut shares = Vec::new();
    let mut left = room;
    for panel in panels {
        let rows = if scarce { wanted(*panel).clamp(panel.least(), left.max(panel.least())) } else { panel.least() };
        if left >= rows {
            shares.push((*panel, rows));
            left -= rows;
        }
    }
    shares
}
