//! Colours: decided once, readable on light and dark backgrounds, never the only sign of anything.

use ratatui::style::{Color, Modifier, Style};

/// How many colours the terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    /// NO_COLOR: bold, dim and reverse only.
    None,
    Ansi16,
    /// 256 and more: the hues used here are all in the 256-colour cube, whose values no theme changes.
    Indexed,
}

impl Colors {
    /// Reads NO_COLOR, COLORTERM and TERM as usual: `lookup` is the environment.
    pub fn detect(lookup: impl Fn(&str) -> Option<String>) -> Colors {
        let set = |name: &str| lookup(name).filter(|value| !value.is_empty());
        if set("NO_COLOR").is_some() {
            return Colors::None;
        }
        let term = set("TERM").unwrap_or_default();
        if set("COLORTERM").is_some() || term.contains("256color") || term.contains("direct") || term.contains("kitty") {
            Colors::Indexed
        } else {
            Colors::Ansi16
        }
    }
}

/// Sixteen hues of middle brightness, neighbours far apart: each has a contrast of about 3 or more with black and
/// with white.
const HUES_256: [u8; 16] = [33, 166, 35, 170, 37, 167, 136, 99, 70, 205, 31, 130, 65, 125, 67, 103];
const HUES_16: [Color; 6] = [Color::Blue, Color::Yellow, Color::Green, Color::Magenta, Color::Cyan, Color::Red];

/// The styles of the screen.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    colors: Colors,
}

impl Theme {
    pub fn new(colors: Colors) -> Self {
        Theme { colors }
    }

    fn pick(self, indexed: u8, ansi: Color) -> Style {
        match self.colors {
            Colors::None => Style::new(),
            Colors::Ansi16 => Style::new().fg(ansi),
            Colors::Indexed => Style::new().fg(Color::Indexed(indexed)),
        }
    }

    /// A person's own colour.
    pub fn person(self, hue: usize) -> Style {
        match self.colors {
            Colors::None => Style::new(),
            Colors::Ansi16 => Style::new().fg(HUES_16[hue % HUES_16.len()]),
            Colors::Indexed => Style::new().fg(Color::Indexed(HUES_256[hue % HUES_256.len()])),
        }
    }

    pub fn text(self) -> Style {
        Style::new()
    }

    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Labels, units, legends.
    pub fn quiet(self) -> Style {
        match self.colors {
            Colors::None => Style::new().add_modifier(Modifier::DIM),
            Colors::Ansi16 => Style::new().fg(Color::DarkGray),
            Colors::Indexed => Style::new().fg(Color::Indexed(245)),
        }
    }

    pub fn border(self) -> Style {
        match self.colors {
            Colors::None => Style::new().add_modifier(Modifier::DIM),
            Colors::Ansi16 => Style::new().fg(Color::DarkGray),
            Colors::Indexed => Style::new().fg(Color::Indexed(242)),
        }
    }

    pub fn good(self) -> Style {
        self.pick(35, Color::Green)
    }

    pub fn warn(self) -> Style {
        self.pick(172, Color::Yellow)
    }

    pub fn bad(self) -> Style {
        self.pick(167, Color::Red).add_modifier(Modifier::BOLD)
    }

    pub fn accent(self) -> Style {
        self.pick(33, Color::Cyan)
    }

    /// A chosen line, a key, a mode that is on.
    pub fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub fn key(self) -> Style {
        self.accent().add_modifier(Modifier::BOLD)
    }
}
