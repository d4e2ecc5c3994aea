//! Screens with their colours: what a terminal has after the bytes that are sent to it, in every theme.

use batchroom::machine::MemorySpeed;
use batchroom::ui::machine::Panel;
use batchroom::ui::state::{Rooms, State};
use batchroom::ui::theme::{Colors, Shade, Theme};
use batchroom::ui::update::Msg;
use batchroom::ui::view::screen;
use batchroom::ui::words::Lang;
use crossterm::event::KeyCode;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};

use crate::layouts::busy;
use crate::sample::rich;
use crate::{act, key, state};

/// The rows of a terminal emulator: runs of one look, its colours and attributes before each.
fn picture(state: &mut State, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    screen::measure(state, area);
    let mut bytes = Vec::new();
    let options = TerminalOptions { viewport: Viewport::Fixed(area) };
    let mut terminal = Terminal::with_options(CrosstermBackend::new(&mut bytes), options).unwrap();
    let draw = |frame: &mut ratatui::Frame<'_>| {
        screen::draw(frame.buffer_mut(), area, state);
    };
    terminal.draw(draw).unwrap();
    drop(terminal);
    let mut parser = vt100::Parser::new(height, width, 0);
    parser.process(&bytes);
    let shown = parser.screen();
    let mut lines = Vec::new();
    for row in 0..height {
        let (mut line, mut last) = (String::new(), String::new());
        for cell in (0..width).filter_map(|column| shown.cell(row, column)).filter(|cell| !cell.is_wide_continuation()) {
            let look = look(cell);
            if look != last {
                line.push_str(&format!("⟦{look}⟧"));
                last = look;
            }
            line.push_str(if cell.has_contents() { cell.contents() } else { " " });
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

fn look(cell: &vt100::Cell) -> String {
    let colour = |colour: vt100::Color| match colour {
        vt100::Color::Default => String::new(),
        vt100::Color::Idx(index) => index.to_string(),
        vt100::Color::Rgb(red, green, blue) => format!("{red:02x}{green:02x}{blue:02x}"),
    };
    let mut look = colour(cell.fgcolor());
    if cell.bgcolor() != vt100::Color::Default {
        look.push_str(&format!("/{}", colour(cell.bgcolor())));
    }
    for (on, sign) in [(cell.bold(), 'b'), (cell.dim(), 'd'), (cell.inverse(), 'r'), (cell.underline(), 'u')] {
        if on {
            look.push(sign);
        }
    }
    look
}

fn with_theme(theme: Theme) -> State {
    let mut state = state(rich());
    state.options.theme = theme;
    // The line under its conversation has figures in it.
    state.panes[0].live = true;
    state
}

#[test]
fn every_theme() {
    let themes = [
        ("auto", Theme::new(Colors::Indexed)),
        ("dark", Theme::new(Colors::Indexed).on(Shade::Dark)),
        ("light", Theme::new(Colors::Indexed).on(Shade::Light)),
        ("contrast", Theme::new(Colors::Indexed).on(Shade::Contrast)),
        ("sixteen", Theme::new(Colors::Ansi16)),
        ("mono", Theme::new(Colors::None)),
        ("ascii", Theme::new(Colors::Indexed).in_ascii(true)),
    ];
    for (name, theme) in themes {
        insta::assert_snapshot!(format!("colours-{name}-80x24"), picture(&mut with_theme(theme), 80, 24));
    }
    let plain = picture(&mut with_theme(Theme::new(Colors::None)), 120, 36);
    let coloured = |look: &str| look.trim_end_matches(['b', 'd', 'r', 'u']).chars().any(|c| c.is_ascii_hexdigit());
    let looks = plain.split('⟦').skip(1).filter_map(|run| run.split('⟧').next());
    assert!(looks.into_iter().all(|look| !coloured(look)), "no colour where none is wanted");
}

#[test]
fn the_knobs_in_both_languages() {
    for (name, lang) in [("en", Lang::En), ("vi", Lang::Vi)] {
        for (width, height) in [(80, 24), (120, 36), (200, 60)] {
            let mut state = with_theme(Theme::new(Colors::Indexed).speaking(lang));
            act(&mut state, key(KeyCode::F(10)));
            (0..4).for_each(|_| drop(act(&mut state, key(KeyCode::Down))));
            insta::assert_snapshot!(format!("knobs-{name}-{width}x{height}"), picture(&mut state, width, height));
        }
    }
}

const LANGS: [(&str, Lang); 2] = [("en", Lang::En), ("vi", Lang::Vi)];
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 36), (200, 60)];

/// People at work, in this language; memory has been measured.
fn at_work(lang: Lang) -> State {
    let mut state = busy();
    state.options.theme = Theme::new(Colors::Indexed).speaking(lang);
    act(&mut state, Msg::Measured(Ok(MemorySpeed { bytes_per_s: 51.2e9, last_cache: Some(32 << 20) })));
    state.notice = None;
    state
}

#[test]
fn each_panel_alone() {
    for (name, lang) in LANGS {
        for panel in Panel::ALL {
            let mut state = at_work(lang);
            state.machine.alone = Some(panel);
            let panel = format!("{panel:?}").to_lowercase();
            for (width, height) in SIZES {
                insta::assert_snapshot!(format!("panel-{panel}-{name}-{width}x{height}"), picture(&mut state, width, height));
            }
        }
    }
}

#[test]
fn each_view() {
    for (name, lang) in LANGS {
        for (rooms, view) in [(Rooms::Both, "watch"), (Rooms::Machine, "teach"), (Rooms::Chats, "chat")] {
            let mut state = at_work(lang);
            state.rooms = rooms;
            for (width, height) in SIZES {
                insta::assert_snapshot!(format!("view-{view}-{name}-{width}x{height}"), picture(&mut state, width, height));
            }
        }
    }
}
