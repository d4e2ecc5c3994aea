//! Looking for a text in the conversations.

use super::editor::Editor;
use super::state::Pane;
use super::transcript::Place;

/// Places that are counted; what comes after them is not gone to.
pub const HITS_MAX: usize = 10_000;

/// A search that is open.
#[derive(Clone, Debug, Default)]
pub struct Search {
    pub editor: Editor,
    /// In all panes, not only in the one that it was opened in.
    pub all: bool,
    /// The pane that it began in: its hits come first.
    pub from: usize,
    pub hits: Vec<Hit>,
    /// Which of them is shown.
    pub at: usize,
    /// `n` and `N` go on and back; until Enter they are letters.
    pub walking: bool,
}

/// Where the text occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    pub pane: usize,
    pub place: Place,
}

impl Search {
    /// What is looked for, in small letters.
    pub fn needle(&self) -> Vec<char> {
        self.editor.text().chars().flat_map(char::to_lowercase).collect()
    }

    /// Looks again; in order of the panes, the one that it began in first.
    pub fn look(&mut self, panes: &[Pane]) {
        let needle = self.needle();
        self.hits.clear();
        let from = self.from.min(panes.len().saturating_sub(1));
        let order = (from..panes.len()).chain(0..from);
        for pane in order.take(if self.all { panes.len() } else { 1 }) {
            let places = panes[pane].transcript.find(&needle);
            self.hits.extend(places.into_iter().take(HITS_MAX - self.hits.len()).map(|place| Hit { pane, place }));
        }
        self.at = self.at.min(self.hits.len().saturating_sub(1));
    }
}
