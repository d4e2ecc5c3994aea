//! Fewer bytes to the terminal. A frame's changes are cells here and there: where text scrolls, a letter in seven happens to be
//! what stood there before, and going around it takes eight bytes for the cursor's way. Writing it once more takes one.

use ratatui::buffer::Cell;

use super::text;

/// Bytes that are gone over rather than jumped: a jump (`CSI row;column H`) takes as many at least, and one more.
const JUMP: usize = 7;

/// What the terminal shows, as far as it is known.
#[derive(Debug, Default)]
pub struct Bridge {
    /// By row and column; None where half of a wide character stands, or may stand.
    rows: Vec<Vec<Option<Cell>>>,
    /// What has not been drawn is blank.
    blank: bool,
}

impl Bridge {
    /// Everything was cleared, or (`blank` is false) nothing is known any more.
    pub fn forget(&mut self, blank: bool) {
        self.rows.clear();
        self.blank = blank;
    }

    /// The changed cells, row by row from the left, with what lies between two of them where that is shorter than the
    /// cursor's way around it. From now on they are what the terminal shows.
    pub fn fill<'a>(&mut self, changed: impl Iterator<Item = (u16, u16, &'a Cell)>) -> Vec<(u16, u16, Cell)> {
        let mut all: Vec<(u16, u16, Cell)> = Vec::new();
        for (x, y, cell) in changed {
            if let Some((before_x, before_y, before)) = all.last()
                && *before_y == y
            {
                let end = before_x + width(before);
                let between = self.between(before, end..x, y);
                all.extend((end..).zip(between).map(|(x, cell)| (x, y, cell)));
            }
            self.show(x, y, cell);
            all.push((x, y, cell.clone()));
        }
        all
    }

    /// The cells in these columns, if they are all known, look like `pen` and are few; nothing otherwise.
    fn between(&self, pen: &Cell, columns: std::ops::Range<u16>, y: u16) -> Vec<Cell> {
        if columns.len() > JUMP {
            return Vec::new();
        }
        let alike = |cell: &Cell| {
            (cell.fg, cell.bg, cell.underline_color, cell.modifier) == (pen.fg, pen.bg, pen.underline_color, pen.modifier)
                && width(cell) == 1
        };
        let cells: Option<Vec<Cell>> = columns.map(|x| self.at(x, y).filter(alike)).collect();
        cells.filter(|cells| cells.iter().map(|cell| cell.symbol().len()).sum::<usize>() <= JUMP).unwrap_or_default()
    }

    fn at(&self, x: u16, y: u16) -> Option<Cell> {
        match self.rows.get(usize::from(y)).and_then(|row| row.get(usize::from(x))) {
            Some(cell) => cell.clone(),
            None => self.blank.then(Cell::default),
        }
    }

    fn show(&mut self, x: u16, y: u16, cell: &Cell) {
        let (x, y) = (usize::from(x), usize::from(y));
        let unseen = self.blank.then(Cell::default);
        if self.rows.len() <= y {
            self.rows.resize(y + 1, Vec::new());
        }
        let row = &mut self.rows[y];
        let end = x + usize::from(width(cell));
        if row.len() < end {
            row.resize(end, unseen);
        }
        // A wide character whose second half is overwritten is gone.
        if let Some(before) = x.checked_sub(1)
            && row[before].as_ref().is_some_and(|cell| width(cell) > 1)
        {
            row[before] = None;
        }
        // What is left of one whose first half is overwritten, too.
        let lost = row[x].as_ref().map_or(1, width).max(width(cell));
        row[x] = Some(cell.clone());
        for half in row.iter_mut().skip(x + 1).take(usize::from(lost) - 1) {
            *half = None;
        }
    }
}

fn width(cell: &Cell) -> u16 {
    (text::width(cell.symbol()) as u16).max(1)
}

#[cfg(test)]
mod tests {
    use ratatui::backend::{Backend, CrosstermBackend};
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;
    use ratatui::style::{Color, Style};

    use super::*;
    use crate::random::SplitMix64;

    const AREA: Rect = Rect { x: 0, y: 0, width: 40, height: 6 };

    fn bytes(cells: impl Iterator<Item = (u16, u16, Cell)>) -> Vec<u8> {
        let (cells, mut bytes): (Vec<_>, _) = (cells.collect(), Vec::new());
        CrosstermBackend::new(&mut bytes).draw(cells.iter().map(|(x, y, cell)| (*x, *y, cell))).expect("memory");
        bytes
    }

    /// A screen of words, some of them wide, in a few styles.
    fn screen(random: &mut SplitMix64) -> Buffer {
        const WORDS: [&str; 8] = ["a", "the ", "engine ", "測試", "é", "   ", "─│", "x"];
        let mut buffer = Buffer::empty(AREA);
        for y in 0..AREA.height {
            let mut x = 0;
            while x < AREA.width {
                let style = match random.range(0, 5) {
                    0 => Style::new().fg(Color::Red),
                    1 => Style::new().fg(Color::Indexed(99)).bg(Color::Blue),
                    _ => Style::new(),
                };
                let (end, _) = buffer.set_stringn(x, y, WORDS[random.range(0, 7) as usize], usize::from(AREA.width - x), style);
                x = end.max(x + 1);
            }
        }
        buffer
    }

    /// What stands in each cell and what it looks like; never written is a blank.
    fn seen(parser: &vt100::Parser) -> Vec<(String, vt100::Color, vt100::Color)> {
        let cell = |y, x| {
            let cell = parser.screen().cell(y, x).expect("inside");
            let text = if cell.has_contents() { cell.contents().to_owned() } else { " ".to_owned() };
            (text, cell.fgcolor(), cell.bgcolor())
        };
        (0..AREA.height).flat_map(|y| (0..AREA.width).map(move |x| (y, x))).map(|(y, x)| cell(y, x)).collect()
    }

    #[test]
    fn the_terminal_shows_the_same_for_fewer_bytes() {
        let seed = 7;
        let mut random = SplitMix64(seed);
        let mut bridge = Bridge::default();
        bridge.forget(true);
        let (mut plain, mut bridged) =
            (vt100::Parser::new(AREA.height, AREA.width, 0), vt100::Parser::new(AREA.height, AREA.width, 0));
        let (mut before, mut sums) = (Buffer::empty(AREA), [0, 0]);
        for round in 0..400 {
            let next = screen(&mut random);
            let changed = before.diff(&next);
            let one = bytes(changed.iter().map(|(x, y, cell)| (*x, *y, (*cell).clone())));
            let other = bytes(bridge.fill(changed.iter().map(|(x, y, cell)| (*x, *y, *cell))).into_iter());
            plain.process(&one);
            bridged.process(&other);
            assert_eq!(seen(&plain), seen(&bridged), "seed {seed}, round {round}");
            sums[0] += one.len();
            sums[1] += other.len();
            before = next;
        }
        assert!(sums[1] < sums[0], "{sums:?}");
    }

    #[test]
    fn what_is_not_known_is_not_written() {
        let mut bridge = Bridge::default();
        let mut buffer = Buffer::empty(AREA);
        buffer.set_string(0, 0, "a b", Style::new());
        let ends = [(0, 0, buffer[(0, 0)].clone()), (2, 0, buffer[(2, 0)].clone())];
        let ends = || ends.iter().map(|(x, y, cell)| (*x, *y, cell));
        assert_eq!(bridge.fill(ends()).len(), 2);
        bridge.forget(true);
        assert_eq!(bridge.fill(ends()).len(), 3, "a cleared screen is blank");
        bridge.forget(false);
        assert_eq!(bridge.fill(ends()).len(), 2);
    }
}
