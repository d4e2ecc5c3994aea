//! Who is who: a name, a letter and a colour for every user on screen.

use std::collections::HashSet;

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

/// Stands for whoever has no letter of their own.
pub const NO_LETTER: char = '?';

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
    /// Each with a letter of their own: who comes first keeps theirs, the others have what is left, in the order of the
    /// alphabet.
    pub fn new(mut all: Vec<Person>, lang: Lang) -> People {
        let mut taken = HashSet::new();
        let second: Vec<usize> = (0..all.len()).filter(|at| !taken.insert(all[*at].letter)).collect();
        let mut left = ('A'..='Z').chain('a'..='z').chain('0'..='9').filter(|letter| !taken.contains(letter));
        for at in second {
            all[at].letter = left.next().unwrap_or(NO_LETTER);
        }
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
        self.find(user).map_or(NO_LETTER, |person| person.letter)
    }

    pub fn style(&self, user: UserId, theme: Theme) -> Style {
        self.find(user).map_or_else(|| theme.quiet(), |person| person.style(theme))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_the_letter_of_somebody_else() {
        let person = |user: u32, letter| Person { user: UserId(user), name: String::new(), letter, hue: 0 };
        let digit = |at: u32| char::from_digit((at + 1) % 10, 10).unwrap();
        let bots = (0..64).map(|at| person(FIRST_BOT + at, digit(at)));
        let all = [person(0, 'A'), person(1, 'b')].into_iter().chain(bots);
        let people = People::new(all.collect(), Lang::En);
        let letters: Vec<char> = people.all.iter().map(|person| person.letter).collect();
        assert_eq!(letters[..5], ['A', 'b', '1', '2', '3']);
        assert_eq!(letters[12], 'B', "of bot 11: 1 and A are taken");
        let own: Vec<char> = letters.into_iter().filter(|letter| *letter != NO_LETTER).collect();
        assert_eq!(own.len(), 62, "as many as there are letters and digits");
        assert_eq!(own.iter().collect::<HashSet<_>>().len(), own.len());
    }
}
