//! The machine room: which panels stand where, one of them alone, or the steps that were.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{charts, kv, ledger, look, notes, signals, step, timeline, times, users};
use crate::ui::machine::Panel;
use crate::ui::people::People;
use crate::ui::state::{Rooms, State};

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
        stack(buf, left, state, people, &[Panel::Timeline, Panel::Users, Panel::Step, Panel::Notes]);
        stack(buf, right, state, people, &[Panel::Kv, Panel::Charts, Panel::Times, Panel::Ledger, Panel::Signals]);
    } else if state.rooms == Rooms::Machine {
        stack(buf, area, state, people, &[Panel::Timeline, Panel::Step, Panel::Users, Panel::Kv, Panel::Charts, Panel::Notes]);
    } else {
        stack(buf, area, state, people, &[Panel::Timeline, Panel::Users, Panel::Kv, Panel::Charts, Panel::Notes]);
    }
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
            Panel::Timeline => timeline::draw(buf, area, snapshot, people, theme),
            Panel::Step => step::draw(buf, area, snapshot, people, theme),
            Panel::Users => {
                let _ = users::draw_sorted(buf, area, snapshot, people, theme, (state.machine.sort, None));
            }
            Panel::Kv => kv::draw(buf, area, snapshot, people, theme),
            Panel::Charts => charts::draw_over(buf, area, snapshot, people, theme, state.machine.span),
            Panel::Times => times::draw(buf, area, snapshot, people, theme),
            Panel::Ledger => ledger::draw(buf, area, snapshot, people, theme),
            Panel::Signals => signals::draw(buf, area, snapshot, people, theme),
            Panel::Notes => notes::draw(buf, area, snapshot, people, theme),
        }
    }
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
        Panel::Step => step::draw_scrolled(buf, area, snapshot, people, theme, scroll),
        Panel::Charts => charts::draw_large(buf, area, snapshot, theme, state.machine.span, scroll),
        Panel::Ledger => ledger::draw_scrolled(buf, area, snapshot, people, theme, scroll),
        Panel::Signals => signals::draw_scrolled(buf, area, snapshot, people, theme, scroll),
        Panel::Notes => notes::draw_scrolled(buf, area, snapshot, people, theme, scroll),
        Panel::Timeline => timeline::draw_scrolled(buf, area, snapshot, people, theme, Some(scroll)),
        Panel::Users => users::draw_sorted(buf, area, snapshot, people, theme, (state.machine.sort, Some(scroll))),
        Panel::Times => times::draw_scrolled(buf, area, snapshot, people, theme, scroll),
        Panel::Kv => {
            panel.draw(buf, area, state, people);
            0
        }
    }
}

/// One under the other. Panels from the end go away until the first three have all the rows that they want, or
/// there are no more than three; then each gets at least what it needs, and the rest goes where more is wanted.
fn stack(buf: &mut Buffer, area: Rect, state: &State, people: &People, panels: &[Panel]) {
    let least = |panels: &[Panel]| panels.iter().map(|panel| panel.least()).sum::<u16>();
    let first = panels.len().min(3);
    let wanted: u16 = panels[..first].iter().map(|panel| panel.wanted(state, area.width)).sum();
    let mut kept = panels.len();
    while kept > first && wanted + least(&panels[first..kept]) > area.height {
        kept -= 1;
    }
    // Two that can be read are worth more than three that cannot.
    if kept == 3 && area.height < wanted {
        let two: u16 = panels[..2].iter().map(|panel| panel.wanted(state, area.width)).sum();
        kept = if two + panels[2].least() > area.height { 2 } else { 3 };
    }
    let panels = &panels[..kept.min(panels.len())];
    let scarce = area.height < least(panels) + 4;
    let mut shares: Vec<(Panel, u16)> = Vec::new();
    let mut left = area.height;
    for panel in panels {
        let rows =
            if scarce { panel.wanted(state, area.width).clamp(panel.least(), left.max(panel.least())) } else { panel.least() };
        if left >= rows {
            shares.push((*panel, rows));
            left -= rows;
        }
    }
    for (panel, rows) in &mut shares {
        let more = panel.wanted(state, area.width).saturating_sub(*rows).min(left);
        *rows += more;
        left -= more;
    }
    // What nobody wants goes to the last panel: events and charts have use for any number of rows.
    if let Some((_, rows)) = shares.last_mut() {
        *rows += left;
    }
    let mut y = area.y;
    for (panel, rows) in shares {
        panel.draw(buf, Rect { y, height: rows, ..area }, state, people);
        y += rows;
    }
}
