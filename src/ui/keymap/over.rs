//! The keys while something of the machine room has the whole screen: its own, and those of what lies under it that still make
//! sense there. The palette offers everything else of the room too.

use std::sync::OnceLock;

use super::{ALONE, Action, Binding, Group, Key, LOOK, REPLAY, Stroll, room};

/// What has the whole screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    Look,
    Alone,
}

static KEYS: [OnceLock<Vec<Binding>>; 4] = [const { OnceLock::new() }; 4];
static OFFERED: [OnceLock<Vec<Binding>>; 4] = [const { OnceLock::new() }; 4];

/// The keys that are in force over the room, or over a recording.
pub fn over(view: View, film: bool) -> &'static [Binding] {
    KEYS[place(view, film)].get_or_init(|| keys(view, film))
}

/// The same, and all else that can be done when the view is left for it.
pub fn offered_over(view: View, film: bool) -> &'static [Binding] {
    OFFERED[place(view, film)].get_or_init(|| {
        let mut rows = keys(view, film);
        let rest: Vec<Binding> = under(film).iter().filter(|row| !has(&rows, row.action)).copied().collect();
        // Their keys are not in force here.
        rows.extend(rest.into_iter().map(|row| Binding { keys: &[], ..row }));
        rows
    })
}

fn place(view: View, film: bool) -> usize {
    usize::from(view == View::Alone) * 2 + usize::from(film)
}

fn under(film: bool) -> &'static [Binding] {
    if film { REPLAY } else { room() }
}

fn has(rows: &[Binding], action: Action) -> bool {
    rows.iter().any(|row| row.action == action)
}

fn keys(view: View, film: bool) -> Vec<Binding> {
    let table = if view == View::Look { LOOK } else { ALONE };
    let engine = |action| matches!(action, Action::Pause | Action::Step | Action::Slower | Action::Faster | Action::FullSpeed);
    // The engine's keys come from below, where they may be other ones. Only a recording can be taken to a step.
    let own = |row: &&Binding| !engine(row.action) && (film || row.action != Action::Stroll(Stroll::Seek));
    let mut rows: Vec<Binding> = table.iter().filter(own).copied().collect();
    for row in under(film) {
        let here = matches!(row.group, Group::Engine | Group::Replay | Group::Program);
        if !here || has(&rows, row.action) || matches!(row.action, Action::Back | Action::Quit) {
            continue;
        }
        let free: Vec<Key> = row.keys.iter().filter(|key| rows.iter().all(|row| !row.keys.contains(key))).copied().collect();
        if !free.is_empty() {
            // Once in the life of the program.
            rows.push(Binding { keys: free.leak(), ..*row });
        }
    }
    rows
}
