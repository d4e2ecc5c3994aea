//! Whether what is said here is on disk, as it is shown: a mark that stays, and what the question before the end says.

use super::theme::Theme;
use super::words::say;

/// Why something of this session is not on disk. The time is that of the clock (`17:05`) when all of it was; None: never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unkept {
    /// The person wants it so.
    Off,
    /// The database could not be had.
    Never,
    /// It waits: the database is locked, or the disk is full.
    Late(Option<String>),
    /// Nothing more is written.
    Ended(Option<String>),
}

impl Unkept {
    /// For the line at the top, longest wording first.
    pub fn mark(&self, theme: Theme) -> [String; 2] {
        let short = format!("✗ {}", theme.tr("not kept"));
        let long = match self {
            Unkept::Off => format!("✗ {}", theme.tr("history is off")),
            // Since when: since the beginning.
            Unkept::Late(None) => format!("✗ {}", theme.tr("nothing kept yet")),
            Unkept::Never | Unkept::Ended(None) => short.clone(),
            Unkept::Late(Some(time)) | Unkept::Ended(Some(time)) => format!("✗ {}", say!(theme, "not kept since {}", time)),
        };
        [long, short]
    }

    /// For the question before the end.
    pub fn words(&self, theme: Theme) -> String {
        match self {
            Unkept::Off | Unkept::Never | Unkept::Ended(None) => theme.tr("Conversations are not kept.").to_owned(),
            Unkept::Late(None) => theme.tr("Nothing of this session is kept yet: the database cannot be written now.").to_owned(),
            Unkept::Late(Some(time)) => {
                say!(theme, "Kept up to {}; what came since waits for the database, and is lost if that stays so.", time)
            }
            Unkept::Ended(Some(time)) => say!(theme, "Kept up to {}; what came since is not kept.", time),
        }
    }
}
