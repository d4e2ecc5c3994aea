//! A pane's conversation as it is shown: the path that is read now, bounded, and holding still while it is read.

use std::sync::Arc;

use super::rich::code::Highlighter;
use super::turn::{Anchor, Page};
pub use super::turn::{Shown, Turn, TurnLine};
use crate::conversation::Conversation;
use crate::text::Role;

/// Bytes of shown text in one pane at most; the oldest lines go first. The conversation itself is kept whole.
pub const SHOWN_MAX: usize = 1 << 20;
/// Blocks and lines of code in one pane at most, likewise.
const ROWS_MAX: usize = 10_000;

/// Columns before the text of a turn.
pub const GUTTER: usize = 2;

/// Where the top line of the view is: it stays on the same text whatever is appended and however it is wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scroll {
    /// The bottom is in view, also when it moves.
    Follow,
    At {
        turn: usize,
        anchor: Anchor,
    },
}

/// A place where a searched text occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub turn: usize,
    anchor: Anchor,
}

/// The path through a conversation that is read now, and the view on it.
#[derive(Clone, Debug)]
pub struct Transcript {
    turns: Vec<Turn>,
    page: Page,
    rows: usize,
    scroll: Scroll,
    /// Text came while the view was held elsewhere.
    unseen: bool,
    lines_cut: u64,
    /// Of turns that are gone.
    work: u64,
}

impl Default for Transcript {
    fn default() -> Self {
        Transcript {
            turns: Vec::new(),
            page: Page { columns: 40, markdown: true, highlighter: None },
            rows: 10,
            scroll: Scroll::Follow,
            unseen: false,
            lines_cut: 0,
            work: 0,
        }
    }
}

impl Transcript {
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// An empty one of the same size and looks.
    pub fn cleared(&self) -> Transcript {
        Transcript { page: self.page.clone(), rows: self.rows, ..Transcript::default() }
    }

    /// Adds a message. An own message brings the view back to the bottom.
    pub fn push(&mut self, role: Role, text: &str) {
        self.turns.push(Turn::new(role, text, &self.page));
        if role == Role::User {
            self.to_bottom();
        } else {
            self.touched();
        }
        self.bound();
    }

    /// Shows the path that the conversation is on now. What is there already stays as it is.
    pub fn show(&mut self, conversation: &Conversation) {
        let path = conversation.path();
        let same = self.turns.iter().zip(&path).take_while(|(turn, node)| turn.node == Some(**node)).count();
        while self.turns.len() > same {
            self.pop();
        }
        for id in &path[same..] {
            let node = &conversation.nodes()[*id];
            let mut turn = Turn::new(node.role, &node.text, &self.page);
            turn.node = Some(*id);
            if !node.open && (node.role == Role::Assistant || node.note.is_some()) {
                turn.close(node.note.clone(), &self.page);
            }
            self.turns.push(turn);
        }
        for (turn, place) in self.turns.iter_mut().zip(conversation.places(&path)) {
            turn.place = place;
        }
        if let Scroll::At { turn, .. } = self.scroll
            && turn >= same
        {
            self.to_bottom();
        }
        self.bound();
    }

    /// Appends to the last message.
    pub fn append(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(turn) = self.turns.last_mut() {
            turn.push(text, &self.page);
            self.touched();
            self.bound();
        }
    }

    /// The last message is complete; `note` says how it ended when that is worth a line.
    pub fn close(&mut self, note: Option<String>) {
        if let Some(turn) = self.turns.last_mut() {
            turn.close(note, &self.page);
        }
    }

    /// Takes back the last message.
    pub fn pop(&mut self) -> Option<Turn> {
        let turn = self.turns.pop()?;
        self.work += turn.work;
        Some(turn)
    }

    pub fn last(&self) -> Option<&Turn> {
        self.turns.last()
    }

    fn touched(&mut self) {
        if self.scroll != Scroll::Follow {
            self.unseen = true;
        }
    }

    /// There is code whose words could be told apart, if somebody loaded the grammars.
    pub fn wants_colours(&self) -> bool {
        self.page.highlighter.is_none() && self.turns.iter().any(Turn::has_code)
    }

    /// From now on words of code are told apart.
    pub fn colour(&mut self, highlighter: &Arc<Highlighter>) {
        self.page.highlighter = Some(highlighter.clone());
        let page = &self.page;
        self.turns.iter_mut().filter(|turn| turn.has_code()).for_each(|turn| turn.show_anew(page));
    }

    pub fn markdown(&self) -> bool {
        self.page.markdown
    }

    /// Answers as Markdown, or as they were written.
    pub fn set_markdown(&mut self, markdown: bool) {
        self.page.markdown = markdown;
        let page = &self.page;
        self.turns.iter_mut().filter(|turn| turn.role == Role::Assistant).for_each(|turn| turn.show_anew(page));
    }

    fn bound(&mut self) {
        let sum = |turns: &[Turn]| turns.iter().fold((0, 0), |sum, turn| (sum.0 + turn.bytes(), sum.1 + turn.rows()));
        let newest = self.turns.len().saturating_sub(1);
        let (mut bytes, mut rows) = sum(&self.turns);
        for turn in &mut self.turns[..newest] {
            if bytes <= SHOWN_MAX && rows <= ROWS_MAX {
                return;
            }
            if !turn.hidden() {
                self.lines_cut += turn.height() as u64;
                (bytes, rows) = (bytes - turn.bytes(), rows - turn.rows());
                turn.hide();
            }
        }
        if (bytes > SHOWN_MAX || rows > ROWS_MAX)
            && let Some(turn) = self.turns.last_mut()
        {
            self.lines_cut += turn.halve() as u64;
        }
    }

    /// Lines that scrolled out of the bound.
    pub fn lines_cut(&self) -> u64 {
        self.lines_cut
    }

    /// Sets the size of the view in cells, gutter included, and brings what is still written up to date.
    pub fn resize(&mut self, columns: usize, rows: usize) {
        let columns = columns.saturating_sub(GUTTER).max(1);
        let other = columns != self.page.columns;
        self.page.columns = columns;
        let page = &self.page;
        self.turns.iter_mut().for_each(|turn| if other { turn.rewrap(page) } else { turn.settle(page) });
        self.rows = rows.max(1);
        self.settle();
    }

    /// Visual lines in all, without the blank one under the last turn.
    pub fn height(&self) -> usize {
        self.turns.iter().map(Turn::height).sum::<usize>().saturating_sub(1)
    }

    /// Index of the top visible line.
    pub fn top(&self) -> usize {
        let bottom = self.height().saturating_sub(self.rows);
        match self.scroll {
            Scroll::Follow => bottom,
            Scroll::At { turn, anchor } => self.line_of(turn, &anchor).min(bottom),
        }
    }

    fn line_of(&self, turn: usize, anchor: &Anchor) -> usize {
        let before: usize = self.turns.iter().take(turn).map(Turn::height).sum();
        before + self.turns.get(turn).map_or(0, |turn| turn.line_of(anchor))
    }

    /// Lines below the view.
    pub fn below(&self) -> usize {
        self.height().saturating_sub(self.top() + self.rows)
    }

    /// The view is held away from the bottom and text has come since.
    pub fn unseen(&self) -> bool {
        self.unseen
    }

    pub fn following(&self) -> bool {
        self.scroll == Scroll::Follow
    }

    /// Columns of text, without the gutter.
    pub fn columns(&self) -> usize {
        self.page.columns
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn scroll_by(&mut self, lines: isize) {
        let top = self.top().saturating_add_signed(lines);
        if top + self.rows >= self.height() {
            self.to_bottom();
        } else {
            self.hold(top);
        }
    }

    pub fn to_top(&mut self) {
        if self.height() > self.rows {
            self.hold(0);
        }
    }

    pub fn to_bottom(&mut self) {
        self.scroll = Scroll::Follow;
        self.unseen = false;
    }

    /// Brings a message into view: all of it if it fits, else its beginning.
    pub fn reveal(&mut self, turn: usize) {
        let Some(height) = self.turns.get(turn).map(Turn::height) else { return };
        let first: usize = self.turns.iter().take(turn).map(Turn::height).sum();
        self.bring(first, height.saturating_sub(1));
    }

    /// Brings a place into view, with some lines around it.
    pub fn reveal_place(&mut self, place: &Place) {
        let line = self.line_of(place.turn, &place.anchor);
        let around = self.rows / 3;
        self.bring(line.saturating_sub(around), 2 * around + 1);
    }

    fn bring(&mut self, first: usize, lines: usize) {
        let (top, bottom) = (self.top(), self.top() + self.rows);
        if first >= top && first + lines <= bottom {
            return;
        }
        let top = if first < top || lines >= self.rows { first } else { first + lines - self.rows };
        if top + self.rows >= self.height() { self.to_bottom() } else { self.hold(top) }
    }

    fn hold(&mut self, mut top: usize) {
        for (index, turn) in self.turns.iter().enumerate() {
            let height = turn.height();
            if top < height {
                self.scroll = Scroll::At { turn: index, anchor: turn.anchor(top) };
                return;
            }
            top -= height;
        }
        self.to_bottom();
    }

    /// A held view that has come to the bottom (the window grew) follows again.
    fn settle(&mut self) {
        if self.scroll != Scroll::Follow && self.below() == 0 {
            self.to_bottom();
        }
    }

    /// Where a text (in small letters) occurs, from the top.
    pub fn find(&self, needle: &[char]) -> Vec<Place> {
        let mut places = Vec::new();
        for (turn, shown) in self.turns.iter().enumerate() {
            let mut anchors = Vec::new();
            shown.find(needle, &mut anchors);
            places.extend(anchors.into_iter().map(|anchor| Place { turn, anchor }));
        }
        places
    }

    /// The visible lines, top first, each with the number of its message.
    pub fn visible(&self) -> impl Iterator<Item = (usize, TurnLine<'_>)> {
        let mut skip = self.top();
        let mut first = self.turns.len();
        for (index, turn) in self.turns.iter().enumerate() {
            if skip < turn.height() {
                first = index;
                break;
            }
            skip -= turn.height();
        }
        let turns = self.turns.iter().enumerate().skip(first);
        let from = move |at: usize| if at == first { skip } else { 0 };
        turns.flat_map(move |(at, turn)| (from(at)..turn.height()).map(move |index| (at, turn.line(index)))).take(self.rows)
    }

    /// Graphemes looked at while wrapping and bytes made into rows, all messages: grows in proportion to the text, whatever
    /// its pieces.
    pub fn wrap_work(&self) -> u64 {
        self.work + self.turns.iter().map(|turn| turn.work).sum::<u64>()
    }
}
