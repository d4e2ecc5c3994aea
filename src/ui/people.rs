//! Who is who: a name, a letter and a colour for every user on screen.

use ratatui::style::Style;

use super::theme::Theme;
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

/// Everybody on screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct People(pub Vec<Person>);

impl People {
    pub fn find(&self, user: UserId) -> Option<&Person> {
        self.0.iter().find(|person| person.user == user)
    }

    /// A closed pane's user is still named by number.
    pub fn name(&self, user: UserId) -> String {
        self.find(user).map_or_else(|| format!("user {}", user.0), |person| person.name.clone())
    }

    pub fn letter(&self, user: UserId) -> char {
        self.find(user).map_or('?', |person| person.letter)
    }

    pub fn style(&self, user: UserId, theme: Theme) -> Style {
        self.find(user).map_or_else(|| theme.quiet(), |person| theme.person(person.hue))
    }
}
