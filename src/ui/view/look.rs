//! The steps that were: a cursor over the timeline, and under it the step's decisions in words.

use std::collections::HashSet;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::lanes::{self, Cell, Plot, Window};
use super::{panel, step};
use crate::batch::UserId;
use crate::engine::api::{Snapshot, Timeline};
use crate::ui::keymap::{Action, Stroll, key_in};
use crate::ui::machine::{self, Look};
use crate::ui::people::People;
use crate::ui::state::State;
use crate::ui::theme::Theme;
use crate::ui::words::say;
use crate::ui::{format, text};

/// Rows that the words about a step get at least, if there are as many.
const WORDS: u16 = 9;

/// Columns of steps in an area so wide.
pub fn columns(width: u16, people: &People, look: &Look, theme: Theme) -> usize {
    plot(panel::inner_width(width), people, look, theme).columns
}

fn plot(width: usize, people: &People, look: &Look, theme: Theme) -> Plot {
    let name = panel::name_columns(people, &look.held.users, width / 4)
        .max(text::width(theme.tr("time")))
        .max(text::width(theme.tr("event")));
    Plot::new(width, name)
}

/// Everybody who has something in the window, and the others of the snapshot as far as there is room.
fn who(snapshot: &Snapshot, window: Window, rows: usize) -> (Vec<UserId>, Vec<Vec<Cell>>, usize) {
    let mut users: Vec<UserId> = snapshot.users.iter().map(|view| view.user).collect();
    let mut known: HashSet<UserId> = users.iter().copied().collect();
    let from = window.left * window.per;
    for record in snapshot.timeline.range(from..from + window.columns * window.per) {
        users.extend(record.rows.iter().map(|row| row.user).filter(|user| known.insert(*user)));
    }
    let all = lanes::lanes(snapshot, &users, window);
    let mut places: Vec<usize> = (0..users.len()).collect();
    if users.len() > rows {
        // Who was not there at all goes first, then whoever has least to tell.
        let telling = |at: &usize| all[*at].iter().filter(|cell| **cell != Cell::Absent).count();
        places.sort_by_key(|at| std::cmp::Reverse(telling(at)));
        places.truncate(rows.saturating_sub(1));
        places.sort_unstable();
    }
    let left_out = users.len() - places.len();
    (places.iter().map(|at| users[*at]).collect(), places.iter().map(|at| all[*at].clone()).collect(), left_out)
}

/// Draws both, and gives how far the words can be scrolled.
pub fn draw(buf: &mut Buffer, area: Rect, state: &State, look: &Look, people: &People) -> usize {
    let area = area.intersection(buf.area);
    let theme = state.options.theme;
    let users = look.held.users.len().clamp(3, 40) as u16;
    let picture = (2 + users + 4).min(area.height.saturating_sub(WORDS + 2).max(area.height / 2));
    let top = Rect { height: picture, ..area };
    let under = Rect { y: area.y + picture, height: area.height - picture, ..area };
    picture_of(buf, top, look, state, people);
    let title = theme.tr("what was decided");
    let figures: Vec<String> = look.record().iter().map(|record| say!(theme, "step {}", format::count(record.step))).collect();
    let Some(inner) = panel::frame(buf, under, title, &figures, theme) else { return 0 };
    match look.record() {
        Some(record) => {
            let before = look.place.checked_sub(1).and_then(|place| look.held.timeline.get(place));
            let words = step::sentences(record, before.map(|before| &**before), people, theme);
            step::draw_words(buf, inner, &words, Some(look.scroll), theme)
        }
        None => {
            let key = key_in(state.keys(), Action::Stroll(Stroll::On));
            let words = say!(theme, "The recording is at its beginning, before any step: {} goes on to the first.", key);
            step::draw_words(buf, inner, &[(words, theme.text())], Some(0), theme)
        }
    }
}

fn picture_of(buf: &mut Buffer, area: Rect, look: &Look, state: &State, people: &People) {
    let theme = state.options.theme;
    let Some(inner) = panel::frame(buf, area, theme.tr("looking back"), &figures(look, state), theme) else { return };
    let height = usize::from(inner.height);
    let has = |least: usize| usize::from(height >= least);
    let (mark, ruler, times, legend) = (has(2), has(3), has(4), has(5));
    let mut room = inner;
    room.height = (height - mark - ruler - times - legend) as u16;
    let plot = plot(usize::from(inner.width), people, look, theme);
    let window = Window { left: look.left, per: look.per(), columns: plot.columns };
    let (users, all, left_out) = who(&look.held, window, usize::from(room.height));
    let cursor = Some(look.column());
    let record = look.record();
    for (row, (user, lane)) in users.iter().zip(&all).enumerate() {
        let person = people.style(*user, theme);
        panel::put_at(buf, room, (0, row), &text::clip(&panel::name(people, *user), plot.name), person);
        lanes::draw_lane(buf, room, plot, row, lane, (person, cursor, theme));
        let rows = record.iter().flat_map(|record| &record.rows).filter(|row| row.user == *user);
        let tokens: usize = rows.map(|row| row.tokens).fold(0, usize::saturating_add);
        if tokens > 0 && plot.columns > 0 {
            let count = panel::right(&format::count(tokens as u64), lanes::FIGURE);
            panel::put_at(buf, room, (plot.figures(), row), &count, theme.text());
        }
    }
    let mut used = users.len();
    if left_out > 0 {
        panel::put_at(buf, room, (0, used), &say!(theme, "+{} more", left_out), theme.quiet());
        used += 1;
    }
    let timeline = &look.held.timeline;
    if mark > 0 {
        draw_marks(buf, inner, plot, used, (timeline, window, look.column()), theme);
    }
    if times > 0 {
        lanes::draw_times(buf, inner, plot, used + mark + ruler, (timeline, window, cursor), theme);
    }
    if ruler > 0 {
        lanes::draw_ruler(buf, inner, plot, used + mark, (timeline, window), theme);
    }
    if legend > 0 {
        let failed = all.iter().any(|lane| lane.contains(&Cell::Failed));
        panel::put(buf, inner, height - 1, lanes::legend(usize::from(inner.width), failed, theme));
    }
}

/// Columns in which something was decided, and the cursor: also where colours and reversal cannot be seen.
fn draw_marks(buf: &mut Buffer, room: Rect, plot: Plot, row: usize, shown: (&Timeline, Window, usize), theme: Theme) {
    let (timeline, window, cursor) = shown;
    panel::put_at(buf, room, (0, row), &text::clip(theme.tr("event"), plot.name), theme.quiet());
    let columns = window.used(timeline).min(plot.columns);
    let from = plot.figures() - columns;
    for column in 0..columns {
        let first = (window.left + column) * window.per;
        let telling = timeline.range(first..first + window.per).any(|record| machine::is_event(record));
        match column == cursor {
            true => panel::put_at(buf, room, (from + column, row), "▲", theme.key()),
            false if telling => panel::put_at(buf, room, (from + column, row), "╷", theme.text()),
            false => {}
        }
    }
}

/// Which step, how far back that is, and how many steps a column is.
fn figures(look: &Look, state: &State) -> Vec<String> {
    let theme = state.options.theme;
    let Some(record) = look.record() else { return Vec::new() };
    let (steps, time) = look.back(&state.snapshot);
    let step = format::count(record.step);
    let back = match steps {
        0 => theme.tr("the newest").to_owned(),
        steps => {
            let steps = theme.plural(usize::try_from(steps).unwrap_or(usize::MAX), "{} step", "{} steps");
            say!(theme, "{} and {} back", steps, format::time(time))
        }
    };
    let at = say!(theme, "step {}, {}", step, back);
    let per = theme.plural(look.per(), "{} step a column", "{} steps a column");
    let kept = look.held.timeline.front().map_or(0, |oldest| oldest.step);
    let kept = say!(theme, "kept from step {} on", format::count(kept));
    vec![format!("{at} · {per} · {kept}"), format!("{at} · {per}"), at, say!(theme, "step {}", step)]
}
