//! Who is who: a name, a letter and a colour for every user on screen.

use ratatui::style::Style;

use super::theme::Theme;
use super::words::Lang;
use crate::batch::UserId;

/// One user of the engine as the screen names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    pub user: UserId,
    pub name: String,
    /// Stands for them in the block map: colour is never the only sign.
    pub letter: char,
    pub hue: usize,
}

/// User ids of bots begin here: no pane gets as far, so a recording tells them apart too.
pub const FIRST_BOT: u32 = 1 << 20;
/// Stands before a bot's name wherever names are: a person can be called "bot 1".
pub const BOT_SIGN: char = '◇';

/// Whether this user is made of program.
pub fn is_bot(user: UserId) -> bool {
    user.0 >= FIRST_BOT
}

impl Person {
    /// Their own colour: bots have colours of their own.
    pub fn style(&self, theme: Theme) -> Style {
        if is_bot(self.user) { theme.bot(self.hue) } else { theme.person(self.hue) }
    }

    /// The name with a bot's sign.
    pub fn title(&self) -> String {
        if is_bot(self.user) { format!("{BOT_SIGN}{}", self.name) } else { self.name.clone() }
    }
}

/// Everybody on screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct People {
    all: Vec<Person>,
    /// For whoever has no name.
    lang: Lang,
}

impl People {
    pub fn new(all: Vec<Person>, lang: Lang) -> People {
        People { all, lang }
    }

    pub fn find(&self, user: UserId) -> Option<&Person> {
        self.all.iter().find(|person| person.user == user)
    }

    /// A user that nobody remembers is still named by number. Bots have their sign.
    pub fn name(&self, user: UserId) -> String {
        self.find(user).map_or_else(|| self.lang.fill("user {}", &[&user.0]), Person::title)
    }

    pub fn letter(&self, user: UserId) -> char {
        self.find(user).map_or('?', |person| person.letter)
    }

    pub fn style(&self, user: UserId, theme: Theme) -> Style {
        self.find(user).map_or_else(|| theme.quiet(), |person| person.style(theme))
    }
}
