//! Colours: decided once, readable on light and dark backgrounds, never the only sign of anything.

use ratatui::style::{Color, Modifier, Style};

use super::words::Lang;

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

/// What is behind the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shade {
    /// Not known: hues of middle brightness, readable on both.
    #[default]
    Either,
    Dark,
    Light,
    /// Only the strongest differences: no grey.
    Contrast,
}

/// Sixteen hues of middle brightness, neighbours far apart: each has a contrast of about 3 or more with black and
/// with white.
const HUES_256: [u8; 16] = [33, 166, 35, 170, 37, 167, 136, 99, 70, 205, 31, 130, 65, 125, 67, 103];
/// The same hues, lighter for a dark background and darker for a light one: contrast of about 6 or more.
const HUES_DARK: [u8; 16] = [75, 215, 78, 177, 80, 210, 147, 141, 113, 218, 117, 180, 108, 175, 116, 146];
const HUES_LIGHT: [u8; 16] = [26, 130, 28, 127, 30, 124, 60, 92, 64, 161, 24, 94, 22, 89, 23, 54];
/// Of bots: tints near grey, so that people stand out.
const TINTS_256: [u8; 6] = [66, 96, 101, 60, 95, 102];
const TINTS_DARK: [u8; 6] = [109, 139, 144, 110, 138, 145];
const TINTS_LIGHT: [u8; 6] = [59, 60, 58, 238, 236, 240];
const HUES_16: [Color; 6] = [Color::LightBlue, Color::Yellow, Color::Green, Color::Magenta, Color::Cyan, Color::Red];

/// The looks of the screen: its styles, its language, its signs.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    colors: Colors,
    shade: Shade,
    lang: Lang,
    ascii: bool,
}

impl Theme {
    pub fn new(colors: Colors) -> Self {
        Theme { colors, shade: Shade::default(), lang: Lang::default(), ascii: false }
    }

    pub fn on(self, shade: Shade) -> Theme {
        Theme { shade, ..self }
    }

    pub fn speaking(self, lang: Lang) -> Theme {
        Theme { lang, ..self }
    }

    /// Drawn with ASCII alone, letters of texts and names excepted.
    pub fn in_ascii(self, ascii: bool) -> Theme {
        Theme { ascii, ..self }
    }

    pub fn colors(self) -> Colors {
        self.colors
    }

    pub fn shade(self) -> Shade {
        self.shade
    }

    pub fn lang(self) -> Lang {
        self.lang
    }

    pub fn ascii(self) -> bool {
        self.ascii
    }

    /// A fixed sentence in the screen's language.
    pub fn tr(self, english: &'static str) -> &'static str {
        self.lang.tr(english)
    }

    pub fn plural(self, count: usize, one: &'static str, many: &'static str) -> String {
        self.lang.plural(count, one, many)
    }

    /// `indexed`: for either background, a dark one, a light one.
    fn pick(self, indexed: [u8; 3], ansi: Color) -> Style {
        match self.colors {
            Colors::None => Style::new(),
            Colors::Ansi16 => Style::new().fg(ansi),
            Colors::Indexed => Style::new().fg(Color::Indexed(match self.shade {
                Shade::Either | Shade::Contrast => indexed[0],
                Shade::Dark => indexed[1],
                Shade::Light => indexed[2],
            })),
        }
    }

    /// A person's own colour.
    pub fn person(self, hue: usize) -> Style {
        let hues = |hues: [u8; 16]| hues[hue % hues.len()];
        self.pick([hues(HUES_256), hues(HUES_DARK), hues(HUES_LIGHT)], HUES_16[hue % HUES_16.len()])
    }

    /// A bot's. With sixteen colours there is none to spare: bots are what has no colour.
    pub fn bot(self, hue: usize) -> Style {
        let tints = |tints: [u8; 6]| tints[hue % tints.len()];
        self.pick([tints(TINTS_256), tints(TINTS_DARK), tints(TINTS_LIGHT)], Color::Reset)
    }

    pub fn text(self) -> Style {
        Style::new()
    }

    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Labels, units, legends.
    pub fn quiet(self) -> Style {
        self.grey([245, 246, 241])
    }

    pub fn border(self) -> Style {
        self.grey([242, 240, 248])
    }

    fn grey(self, indexed: [u8; 3]) -> Style {
        match (self.shade, self.colors) {
            (Shade::Contrast, _) => Style::new(),
            (_, Colors::None) => Style::new().add_modifier(Modifier::DIM),
            _ => self.pick(indexed, Color::DarkGray),
        }
    }

    pub fn good(self) -> Style {
        self.pick([35, 78, 28], Color::Green)
    }

    pub fn warn(self) -> Style {
        self.pick([172, 215, 130], Color::Yellow)
    }

    pub fn bad(self) -> Style {
        self.pick([167, 210, 124], Color::Red).add_modifier(Modifier::BOLD)
    }

    pub fn accent(self) -> Style {
        self.pick([33, 75, 26], Color::Cyan)
    }

    /// A chosen line, a key, a mode that is on.
    pub fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub fn key(self) -> Style {
        self.accent().add_modifier(Modifier::BOLD)
    }
}
