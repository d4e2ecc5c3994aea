//! The machine room: looking back, one panel alone, frozen panels, presets; as acts and as pictures.

use std::sync::Arc;
use std::time::Duration;

use batchroom::batch::UserId;
use batchroom::engine::api::{RunState, Snapshot, StepRecord, Timeline};
use batchroom::ui::machine::{Panel, Sort};
use batchroom::ui::replay::Reel;
use batchroom::ui::state::{Rooms, State};
use batchroom::ui::theme::{Colors, Theme};
use batchroom::ui::update::{Effect, Msg};
use batchroom::ui::words::Lang;
use crossterm::event::{KeyCode, KeyModifiers};

use crate::layouts::{busy, picture};
use crate::recording::{open, recording};
use crate::sample::{CHANGED, HIT, STEP, fresh, rich};
use crate::{act, key, state, type_text, with};

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 36), (200, 60)];

fn alt(ch: char) -> Msg {
    with(KeyModifiers::ALT, KeyCode::Char(ch))
}

fn at(state: &State) -> u64 {
    state.machine.look.as_ref().and_then(|look| look.record()).map_or(0, |record| record.step)
}

/// A snapshot with so many more steps of nothing at the end.
fn later(steps: u64) -> Snapshot {
    let mut snapshot = rich();
    let newest = snapshot.timeline.back().unwrap().clone();
    for more in 1..=steps {
        let at = newest.at + Duration::from_millis(5 * more);
        snapshot.timeline.push(Arc::new(StepRecord { step: newest.step + more, at, ..StepRecord::default() }));
    }
    snapshot.step += steps;
    snapshot
}

#[test]
fn looking_back_holds_still_while_the_engine_runs_on() {
    let mut state = busy();
    picture(&mut state, 120, 36);
    act(&mut state, key(KeyCode::F(11)));
    assert_eq!(at(&state), STEP);
    let before = picture(&mut state, 120, 36);
    act(&mut state, Msg::Snapshot(Arc::new(later(500))));
    let after = picture(&mut state, 120, 36);
    assert_eq!(at(&state), STEP);
    assert!(after.contains("500 steps and 2.5s back"), "{after}");
    let lanes = |picture: &str| picture.lines().filter(|line| line.contains('■')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lanes(&before), lanes(&after));
    // On from the end of what was held: to what has come since.
    act(&mut state, key(KeyCode::Right));
    assert_eq!(at(&state), STEP + 1);
    act(&mut state, key(KeyCode::End));
    assert_eq!(at(&state), STEP + 500);
    type_text(&mut state, "zz");
    act(&mut state, Msg::Paste("pasted".into()));
    act(&mut state, key(KeyCode::Esc));
    assert!(state.machine.look.is_none());
    assert_eq!(state.focused().editor.text(), "and a draft", "nothing was typed into the draft");
}

#[test]
fn events_are_found_in_both_directions() {
    let mut state = busy();
    picture(&mut state, 120, 36);
    act(&mut state, key(KeyCode::F(11)));
    let mut before = Vec::new();
    for _ in 0..5 {
        act(&mut state, key(KeyCode::Char('p')));
        before.push(at(&state));
    }
    // Preempted, ended, changed, hit; then there is none.
    assert_eq!(before, [4173, 4151, CHANGED, HIT, HIT]);
    assert!(state.notice.as_ref().is_some_and(|notice| notice.text == "no event before this step"));
    act(&mut state, key(KeyCode::Char(']')));
    assert_eq!(at(&state), CHANGED);
    let picture = picture(&mut state, 120, 36);
    assert!(picture.contains("somebody changed max_num_seqs 4 -> 8"), "{picture}");
}

#[test]
fn a_cursor_is_always_in_view_whatever_the_zoom() {
    let mut state = busy();
    let long: Timeline = (1..=12_000).map(|step| Arc::new(StepRecord { step, ..StepRecord::default() })).collect();
    act(&mut state, Msg::Snapshot(Arc::new(Snapshot { timeline: long, ..rich() })));
    act(&mut state, key(KeyCode::F(11)));
    for _ in 0..8 {
        for act_on in ["home", "end", "pgup", "left", "pgdn"] {
            let code = match act_on {
                "home" => KeyCode::Home,
                "end" => KeyCode::End,
                "pgup" => KeyCode::PageUp,
                "left" => KeyCode::Left,
                _ => KeyCode::PageDown,
            };
            act(&mut state, key(code));
            let picture = picture(&mut state, 100, 30);
            assert_eq!(picture.matches('▲').count(), 1, "{act_on}: {picture}");
        }
        act(&mut state, key(KeyCode::Char('-')));
    }
    let picture = picture(&mut state, 100, 30);
    assert!(picture.contains("100 steps a column"), "{picture}");
    act(&mut state, key(KeyCode::Home));
    assert_eq!(at(&state), 1);
    // A page is a screen of steps.
    let look = state.machine.look.as_ref().unwrap();
    assert_eq!(look.per(), 100);
    act(&mut state, key(KeyCode::Right));
    assert_eq!(at(&state), 2, "one step, however many a column has");
}

#[test]
fn a_replay_goes_to_the_step_under_the_cursor() {
    let mut state = busy();
    state.replay = Some(Reel::new(5_000, None));
    act(&mut state, key(KeyCode::F(11)));
    act(&mut state, key(KeyCode::Char('p')));
    assert_eq!(act(&mut state, key(KeyCode::Enter)), [Effect::Seek(4173)]);
    assert!(state.machine.look.is_none());
    act(&mut state, key(KeyCode::F(11)));
    act(&mut state, key(KeyCode::Esc));
    assert!(state.machine.look.is_none() && state.notice.is_none(), "Esc closes what is open first");
}

#[test]
fn without_a_step_there_is_nothing_to_look_back_at() {
    let mut state = state(fresh());
    act(&mut state, key(KeyCode::F(11)));
    assert!(state.machine.look.is_none());
    assert!(picture(&mut state, 120, 36).contains("there is no step yet to look back at"));
}

#[test]
fn panels_come_alone_one_after_the_other() {
    let mut state = busy();
    for panel in Panel::ALL {
        act(&mut state, key(KeyCode::F(12)));
        assert_eq!(state.machine.alone, Some(panel));
        for (width, height) in [(80, 24), (200, 60), (30, 8)] {
            picture(&mut state, width, height);
        }
        type_text(&mut state, "w");
    }
    act(&mut state, key(KeyCode::F(12)));
    assert_eq!(state.machine.alone, None, "after the last come the rooms");
    act(&mut state, key(KeyCode::F(12)));
    act(&mut state, key(KeyCode::Esc));
    assert_eq!(state.machine.alone, None);
    assert_eq!(state.focused().editor.text(), "and a draft");
}

#[test]
fn older_events_are_scrolled_to() {
    let mut state = busy();
    state.machine.alone = Some(Panel::Notes);
    let newest = picture(&mut state, 80, 10);
    assert!(newest.contains("12 tokens, 2 ahead") && !newest.contains("212 tokens"), "{newest}");
    act(&mut state, key(KeyCode::Home));
    let oldest = picture(&mut state, 80, 10);
    assert!(oldest.contains("212 tokens") && !oldest.contains("12 tokens, 2 ahead"), "{oldest}");
    act(&mut state, key(KeyCode::End));
    assert_eq!(picture(&mut state, 80, 10), newest);
}

#[test]
fn frozen_panels_say_so_and_follow_again() {
    let mut state = busy();
    act(&mut state, alt('z'));
    act(&mut state, Msg::Snapshot(Arc::new(Snapshot { running: 7, ..later(100) })));
    let frozen = picture(&mut state, 200, 60);
    assert!(frozen.contains("frozen at step 4,182") && frozen.contains("step 4,182 · 5.1ms"), "{frozen}");
    assert!(frozen.contains("batch 7/8"), "the header goes on: {frozen}");
    act(&mut state, alt('z'));
    let live = picture(&mut state, 200, 60);
    assert!(!live.contains("frozen at") && live.contains("step 4,282"), "{live}");
}

#[test]
fn users_are_sorted_by_the_column_that_is_marked() {
    let mut state = busy();
    state.machine.alone = Some(Panel::Users);
    let order = |state: &mut State| {
        let picture = picture(state, 120, 20);
        let names = ["ana", "bình", "chi", "dũng"];
        let mut places: Vec<(usize, &str)> =
            names.iter().map(|name| (picture.find(&format!(" {name} ")).unwrap(), *name)).collect();
        places.sort_unstable();
        (places.into_iter().map(|(_, name)| name).collect::<Vec<_>>(), picture)
    };
    assert_eq!(order(&mut state).0, ["ana", "bình", "chi", "dũng"]);
    act(&mut state, alt('s'));
    let (names, picture) = order(&mut state);
    assert_eq!(state.machine.sort, Sort::Speed);
    assert_eq!(names, ["ana", "chi", "dũng", "bình"], "212, 190, 88, none");
    assert!(picture.contains("▾tok/s"), "{picture}");
    act(&mut state, alt('s'));
    let (names, picture) = order(&mut state);
    assert_eq!(names, ["chi", "dũng", "ana", "bình"], "1.2 s, 95 ms, 48 ms, none");
    assert!(picture.contains("▾TTFT"), "{picture}");
}

#[test]
fn the_view_is_named_when_it_changes() {
    let mut state = busy();
    let mut said = Vec::new();
    for _ in 0..3 {
        act(&mut state, key(KeyCode::F(8)));
        said.push(state.notice.as_ref().unwrap().text.split(':').next().unwrap().to_owned());
    }
    assert_eq!(said, ["teach", "chat", "watch"]);
}

#[test]
fn charts_reach_further_back() {
    let mut state = busy();
    state.machine.alone = Some(Panel::Charts);
    for reach in ["60 s", "10 min", "1 h", "24 h", "60 s"] {
        let picture = picture(&mut state, 120, 40);
        assert!(picture.contains(&format!("the last {reach}")), "{picture}");
        act(&mut state, alt('t'));
    }
}

/// Twelve people, the last of whom wait.
pub fn crowd() -> State {
    let mut state = busy();
    let names = ["kim", "linh", "mai", "nam", "oto", "phúc", "quân", "ren"];
    let mut snapshot = rich();
    for (more, name) in names.into_iter().enumerate() {
        state.add_pane();
        let user = UserId(4 + more as u32);
        let pane = state.panes.last_mut().unwrap();
        (pane.person.user, pane.person.name, pane.live) = (user, name.into(), true);
        if more >= 2 {
            let mut view = snapshot.users[if more >= 6 { 4 } else { 0 }].clone();
            view.user = user;
            snapshot.users.push(view);
        }
    }
    state.focus = 0;
    act(&mut state, Msg::Snapshot(Arc::new(snapshot)));
    state
}

#[test]
fn a_full_room_shows_who_waits() {
    let mut state = crowd();
    let picture = picture(&mut state, 120, 36);
    insta::assert_snapshot!("crowd-120x36", picture);
    let users = &picture[picture.find("users").unwrap()..];
    for name in ["kim", "linh", "quân", "ren", "dũng"] {
        assert!(users.contains(name), "{name} waits and is in the table: {picture}");
    }
}

#[test]
fn tabs_count_what_they_cannot_show() {
    let mut state = crowd();
    let tabs = |state: &mut State| picture(state, 80, 24).lines().nth(1).unwrap().to_owned();
    let first = tabs(&mut state);
    assert!(first.contains("4×dũng") && first.trim_end().ends_with('›'), "{first}");
    state.focus = 11;
    let last = tabs(&mut state);
    assert!(last.starts_with('‹') && last.contains("ren") && !last.contains('›'), "{last}");
    for line in [&first, &last] {
        let shown = line.split_whitespace().filter(|word| word.starts_with(|ch: char| ch.is_ascii_digit())).count();
        let hidden = line.split_whitespace().find(|word| word.contains(['‹', '›'])).unwrap();
        let hidden: usize = hidden.trim_matches(['‹', '+', '›']).parse().unwrap();
        assert!(shown + hidden >= 12, "{line}");
    }
}

#[test]
fn pictures_of_each_view_in_both_languages() {
    for (lang, name) in [(Lang::En, "en"), (Lang::Vi, "vi")] {
        let theme = Theme::new(Colors::Indexed).speaking(lang);
        for (width, height) in SIZES {
            for (rooms, view) in [(Rooms::Chats, "chat"), (Rooms::Both, "watch"), (Rooms::Machine, "teach")] {
                let mut state = busy();
                state.options.theme = theme;
                state.rooms = rooms;
                insta::assert_snapshot!(format!("{view}-{name}-{width}x{height}"), picture(&mut state, width, height));
            }
            let mut state = busy();
            state.options.theme = theme;
            picture(&mut state, width, height);
            act(&mut state, key(KeyCode::F(11)));
            act(&mut state, key(KeyCode::Char('p')));
            insta::assert_snapshot!(format!("look-{name}-{width}x{height}"), picture(&mut state, width, height));
        }
    }
}

#[test]
fn pictures_of_panels_alone() {
    for (panel, name) in [
        (Panel::Charts, "charts"),
        (Panel::Step, "step"),
        (Panel::Ledger, "ledger"),
        (Panel::Times, "times"),
        (Panel::Signals, "signals"),
    ] {
        let mut state = busy();
        state.machine.alone = Some(panel);
        insta::assert_snapshot!(format!("alone-{name}-120x36"), picture(&mut state, 120, 36));
    }
}

#[test]
fn each_view_has_a_key_of_its_own() {
    let mut state = busy();
    let views = [('j', Rooms::Machine, "teach"), ('k', Rooms::Chats, "chat"), ('i', Rooms::Both, "watch")];
    for (letter, rooms, name) in views {
        // Also from what has the whole screen.
        for opener in [KeyCode::F(11), KeyCode::F(12), KeyCode::Null] {
            act(&mut state, key(opener));
            act(&mut state, alt(letter));
            assert!(state.rooms == rooms && !state.machine.is_open(), "{name}");
        }
        let said = state.notice.as_ref().unwrap().text.clone();
        assert!(said.starts_with(name) && !said.contains("Alt-"), "{said}");
        // Twice is the same.
        act(&mut state, alt(letter));
        assert_eq!(state.rooms, rooms);
    }
    act(&mut state, key(KeyCode::F(8)));
    let said = state.notice.as_ref().unwrap().text.clone();
    assert!(said.starts_with("teach") && said.contains("(Alt-J goes there at once)"), "{said}");
    state.replay = Some(Reel::new(5_000, None));
    act(&mut state, alt('k'));
    assert_eq!(state.rooms, Rooms::Chats, "over a recording too");
    state.replay = None;
    state.options.readonly = true;
    act(&mut state, alt('i'));
    assert_eq!(state.rooms, Rooms::Both, "and where nothing can be changed");
    for name in ["show_watch", "show_teach", "show_chat", "glance_measure"] {
        assert!(batchroom::ui::keymap::action_named(name).is_some(), "{name} can be given another key");
    }
}

#[test]
fn freezing_says_what_goes_on_and_what_does_not() {
    let notice = |state: &State| state.notice.as_ref().unwrap().text.clone();
    let with_state = |state: &mut State, run: RunState| {
        act(state, Msg::Snapshot(Arc::new(Snapshot { state: run, ..rich() })));
    };
    let mut state = busy();
    act(&mut state, alt('z'));
    assert_eq!(notice(&state), "the panels hold still at step 4,182; the engine runs on, and Alt-Z lets them follow again");
    // Pausing and going on is nothing that frozen panels could show.
    assert_eq!(act(&mut state, key(KeyCode::F(2))), [Effect::Pause(true)]);
    assert_eq!(notice(&state), "the engine is paused; the panels still show step 4,182 (Alt-Z lets them follow)");
    with_state(&mut state, RunState::Paused);
    assert_eq!(act(&mut state, key(KeyCode::F(2))), [Effect::Pause(false)]);
    assert_eq!(notice(&state), "the engine runs; the panels still show step 4,182 (Alt-Z lets them follow)");
    act(&mut state, alt('z'));
    assert_eq!(notice(&state), "the panels follow the engine again");
    act(&mut state, alt('z'));
    let said = notice(&state);
    assert!(said.contains("and the engine is paused: F2 lets it run, Alt-Z lets the panels follow again"), "{said}");
    assert!(!said.contains("runs on"), "{said}");
    act(&mut state, alt('z'));
    with_state(&mut state, RunState::Stopped);
    act(&mut state, alt('z'));
    assert_eq!(notice(&state), "the panels hold still at step 4,182; the engine has stopped");
}

#[test]
fn a_recording_is_looked_into_from_its_beginning() {
    let mut replay = recording();
    let (mut state, mut shown) = open(&mut replay);
    let first = picture(&mut state, 200, 60);
    assert!(first.contains("the recording is at its beginning: → goes on by a step, Space plays it"), "{first}");
    assert!(!first.to_lowercase().contains("type a prompt"), "{first}");
    act(&mut state, key(KeyCode::F(11)));
    assert!(state.machine.look.is_some(), "there is nothing yet, and a way on");
    let empty = picture(&mut state, 120, 36);
    assert!(empty.contains("before any step: → goes on to the first"), "{empty}");
    for code in [KeyCode::Left, KeyCode::Home, KeyCode::End, KeyCode::PageDown, KeyCode::Char('p'), KeyCode::Char('-')] {
        assert_eq!(act(&mut state, key(code)), []);
        picture(&mut state, 80, 24);
    }
    for step in 1..=3 {
        assert_eq!(act(&mut state, key(KeyCode::Right)), [Effect::Seek(step)]);
        shown.seek(&mut state, &mut replay, step).unwrap();
        assert_eq!(at(&state), step as u64, "the recording goes on under the cursor");
    }
    act(&mut state, key(KeyCode::Left));
    assert_eq!(act(&mut state, key(KeyCode::Right)), [], "what is held is walked through first");
    assert_eq!(at(&state), 3);
    let last = replay.steps();
    shown.seek(&mut state, &mut replay, last).unwrap();
    act(&mut state, key(KeyCode::End));
    assert_eq!(at(&state), last as u64);
    assert_eq!(act(&mut state, key(KeyCode::Right)), [], "there is no more");
}

#[test]
fn events_stay_however_many_people_there_are() {
    let mut state = crowd();
    for rooms in [Rooms::Both, Rooms::Machine] {
        state.rooms = rooms;
        for (width, height) in [(120, 36), (200, 60), (120, 30)] {
            let picture = picture(&mut state, width, height);
            assert!(picture.contains("events") && picture.contains("12 tokens, 2 ahead"), "{picture}");
            assert!(picture.contains("live batch") && picture.contains("users"), "{picture}");
        }
    }
}

#[test]
fn a_recording_that_stands_still_shows_its_newest_step() {
    let mut state = busy();
    state.rooms = Rooms::Machine;
    let mut reel = Reel::new(5_000, None);
    reel.playing = true;
    state.replay = Some(reel);
    let playing = picture(&mut state, 160, 45);
    assert!(playing.contains("the newest event") && !playing.contains("F4 slows"), "{playing}");
    state.replay.as_mut().unwrap().playing = false;
    let paused = picture(&mut state, 160, 45);
    assert!(paused.contains("the newest step") && !paused.contains("the newest event"), "{paused}");
    act(&mut state, key(KeyCode::Char('n')));
    assert!(state.notice.take().is_some_and(|notice| notice.text.contains("F11")), "n says where it works");
}

#[test]
fn what_has_no_room_says_how_it_is_seen() {
    let mut state = busy();
    state.rooms = Rooms::Machine;
    for (columns, lines) in [(80, 24), (120, 36)] {
        let shown = picture(&mut state, columns, lines);
        assert!(shown.contains(" of 9 panels"), "{shown}");
        assert!(!shown.contains('↓'), "nothing scrolls there: {shown}");
    }
}
