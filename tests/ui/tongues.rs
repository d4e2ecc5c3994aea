//! Everything that can be opened, drawn in Vietnamese: nothing is left in English.

use batchroom::ui::view::screen;
use batchroom::ui::words::{self, Lang};
use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::sample::{fresh, rich};
use crate::{act, key, state, type_text, with};

#[test]
fn every_view_speaks_vietnamese() {
    let openers =
        (1..=12).map(|number| key(KeyCode::F(number))).chain("abcdefghijklmnopqrstuvwxyz,.=-".chars().flat_map(|letter| {
            [with(KeyModifiers::ALT, KeyCode::Char(letter)), with(KeyModifiers::CONTROL, KeyCode::Char(letter))]
        }));
    for opener in openers {
        for snapshot in [rich(), fresh()] {
            let mut state = state(snapshot);
            state.options.theme = state.options.theme.speaking(Lang::Vi);
            type_text(&mut state, "xin chào");
            act(&mut state, key(KeyCode::Enter));
            act(&mut state, opener.clone());
            for code in
                [KeyCode::Null, KeyCode::Down, KeyCode::Left, KeyCode::Char('n'), KeyCode::Enter, KeyCode::F(12), KeyCode::F(12)]
            {
                act(&mut state, key(code));
                for (width, height) in [(80, 24), (120, 36), (200, 60)] {
                    let area = Rect::new(0, 0, width, height);
                    screen::measure(&mut state, area);
                    screen::draw(&mut Buffer::empty(area), area, &state);
                }
            }
        }
    }
    assert_eq!(words::missing(), Vec::<&str>::new());
}
