//! Ends and edges: what cannot be scrolled further, what is not thrown away by one key.

use batchroom::ui::state::{Mode, State};
use batchroom::ui::update::Msg;
use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::Rect;

use crate::layouts::{busy, picture};
use crate::machine::crowd;
use crate::{act, key, type_text, with};

fn alt(ch: char) -> Msg {
    with(KeyModifiers::ALT, KeyCode::Char(ch))
}

/// F12 until this panel is alone.
fn alone(state: &mut State, panel: batchroom::ui::machine::Panel) {
    while state.machine.alone != Some(panel) {
        act(state, key(KeyCode::F(12)));
    }
}

#[test]
fn from_the_end_one_line_up_is_one_line_up() {
    use batchroom::ui::machine::Panel;
    for panel in Panel::ALL {
        let mut state = crowd();
        batchroom::ui::view::screen::measure(&mut state, Rect::new(0, 0, 80, 20));
        alone(&mut state, panel);
        let (end, back) = if panel == Panel::Notes { (KeyCode::Home, KeyCode::Down) } else { (KeyCode::End, KeyCode::Up) };
        let top = picture(&mut state, 80, 20);
        act(&mut state, key(end));
        act(&mut state, key(KeyCode::PageDown));
        act(&mut state, key(end));
        let last = picture(&mut state, 80, 20);
        act(&mut state, key(back));
        let up = picture(&mut state, 80, 20);
        assert_eq!(last == up, last == top, "{panel:?} goes back at once:\n{last}\n{up}");
    }
}

#[test]
fn words_about_a_step_and_the_help_end_where_they_end() {
    let mut state = busy();
    batchroom::ui::view::screen::measure(&mut state, Rect::new(0, 0, 80, 20));
    act(&mut state, key(KeyCode::F(11)));
    for open in [KeyCode::F(11), KeyCode::F(1)] {
        if open == KeyCode::F(1) {
            act(&mut state, key(KeyCode::Esc));
            act(&mut state, key(open));
        }
        let top = picture(&mut state, 80, 20);
        for _ in 0..400 {
            act(&mut state, key(KeyCode::Down));
        }
        let last = picture(&mut state, 80, 20);
        assert_ne!(top, last, "there is something to scroll");
        act(&mut state, key(KeyCode::Up));
        assert_ne!(picture(&mut state, 80, 20), last, "one line up is seen");
    }
}

#[test]
fn every_user_is_reached_when_users_are_alone() {
    use batchroom::ui::machine::Panel;
    for panel in [Panel::Users, Panel::Timeline] {
        let mut state = crowd();
        let names: Vec<String> =
            state.snapshot.users.iter().map(|view| state.people().name(view.user).chars().take(10).collect()).collect();
        batchroom::ui::view::screen::measure(&mut state, Rect::new(0, 0, 80, 16));
        alone(&mut state, panel);
        let mut seen = picture(&mut state, 80, 16);
        assert!(!names.iter().all(|name| seen.contains(name.as_str())), "not all fit: {seen}");
        for _ in 0..names.len() {
            act(&mut state, key(KeyCode::Down));
            seen.push_str(&picture(&mut state, 80, 16));
        }
        for name in &names {
            assert!(seen.contains(name.as_str()), "{panel:?}: {name} in {seen}");
        }
    }
}

#[test]
fn one_esc_does_not_throw_away_what_was_typed() {
    let mut state = crate::state(crate::sample::fresh());
    crate::acts::send(&mut state, "hello");
    act(&mut state, Msg::Engine(batchroom::batch::UserId(0), crate::acts::finished(batchroom::engine::api::FinishReason::Stop)));
    for open in [alt('p'), with(KeyModifiers::CONTROL, KeyCode::Char('r')), alt('w')] {
        act(&mut state, open.clone());
        assert!(!matches!(state.mode, Mode::Chat), "{open:?} opens something");
        act(&mut state, key(KeyCode::Esc));
        assert!(matches!(state.mode, Mode::Chat), "nothing was typed: one Esc");
        act(&mut state, open.clone());
        type_text(&mut state, "a pirate");
        act(&mut state, key(KeyCode::Esc));
        assert!(!matches!(state.mode, Mode::Chat), "{open:?}: the first Esc asks");
        let shown = picture(&mut state, 80, 24);
        assert!(shown.contains("Esc once more discards"), "{shown}");
        type_text(&mut state, "x");
        act(&mut state, key(KeyCode::Esc));
        assert!(!matches!(state.mode, Mode::Chat), "typing on takes that back");
        act(&mut state, key(KeyCode::Esc));
        assert!(matches!(state.mode, Mode::Chat), "the second does it");
    }
    act(&mut state, key(KeyCode::F(10)));
    act(&mut state, key(KeyCode::Char('7')));
    // A value is typed again in a moment: it is not asked for.
    act(&mut state, key(KeyCode::Esc));
    assert!(matches!(&state.mode, Mode::Settings(desk) if desk.typing.is_none() && desk.error.is_none()));
}

#[test]
fn the_help_is_whole_at_eighty_columns() {
    let mut state = busy();
    batchroom::ui::view::screen::measure(&mut state, Rect::new(0, 0, 80, 24));
    act(&mut state, key(KeyCode::F(1)));
    let mut seen = String::new();
    for _ in 0..300 {
        let shown = picture(&mut state, 80, 24);
        seen.push_str(&shown.replace(['│', '\n'], " "));
        act(&mut state, key(KeyCode::Down));
    }
    let words: Vec<&str> = seen.split_whitespace().collect();
    let seen = words.join(" ");
    for (_, about) in batchroom::ui::view::popup::GLOSSARY {
        assert!(seen.contains(about), "{about}");
    }
}

fn film() -> State {
    let mut state = busy();
    state.replay = Some(batchroom::ui::replay::Reel::new(100, None));
    state
}

#[test]
fn a_recording_plays_on_with_one_panel_alone_and_while_looking_back() {
    use batchroom::ui::update::Effect;
    for open in [KeyCode::F(11), KeyCode::F(12)] {
        let mut state = film();
        act(&mut state, key(open));
        assert!(state.machine.is_open());
        act(&mut state, key(KeyCode::Char(' ')));
        assert!(state.replay.as_ref().unwrap().playing, "Space plays");
        act(&mut state, key(KeyCode::F(2)));
        assert!(!state.replay.as_ref().unwrap().playing, "F2 pauses");
        assert_eq!(act(&mut state, key(KeyCode::F(3))), [Effect::Seek(1)], "F3 steps");
        assert_eq!(act(&mut state, with(KeyModifiers::ALT, KeyCode::Char('u'))), [Effect::Mouse(true)]);
        assert!(state.machine.is_open(), "all that without leaving");
        act(&mut state, key(KeyCode::F(1)));
        let shown = picture(&mut state, 200, 100);
        assert!(!shown.contains("let it run"), "no key of an engine: {shown}");
    }
}

#[test]
fn a_view_has_the_engines_keys_and_the_palette_has_all() {
    use batchroom::ui::keymap::Action;
    use batchroom::ui::update::Effect;
    for open in [KeyCode::F(11), KeyCode::F(12)] {
        let mut state = busy();
        act(&mut state, key(open));
        assert_eq!(act(&mut state, alt('0')), [Effect::Pause(true), Effect::Step(10)]);
        act(&mut state, alt('h'));
        assert!(state.witness && state.machine.is_open());
        act(&mut state, key(KeyCode::F(10)));
        assert!(matches!(state.mode, Mode::Settings(_)) && !state.machine.is_open(), "knobs need room");
        act(&mut state, key(KeyCode::Esc));
        act(&mut state, key(open));
        for row in batchroom::ui::keymap::TABLE {
            let edits = matches!(row.action, Action::Edit(_));
            assert!(edits || state.offered().iter().any(|offered| offered.action == row.action), "{row:?}");
        }
        act(&mut state, with(KeyModifiers::CONTROL, KeyCode::Char('p')));
        type_text(&mut state, "rename this pane");
        act(&mut state, key(KeyCode::Enter));
        assert!(matches!(state.mode, Mode::Rename(_)) && !state.machine.is_open());
    }
}
