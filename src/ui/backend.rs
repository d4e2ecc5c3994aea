//! Ratatui's way to the terminal, on a descriptor of our own: crossterm asks /dev/tty how large it is, or standard output, and a
//! session without a terminal of its own has no /dev/tty.

use std::fs::File;
use std::io;

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};

use super::bridge::Bridge;
use super::outlet::Frame;

/// Columns and rows that are drawn at most: a terminal may say that it has 65,535 of each, and every cell takes memory.
const MOST: (u16, u16) = (2000, 1000);

/// What frames are drawn through.
#[derive(Debug)]
pub struct Own {
    inner: CrosstermBackend<Frame>,
    terminal: File,
    bridge: Bridge,
}

impl Own {
    pub fn new(frame: Frame, terminal: File) -> Own {
        Own { inner: CrosstermBackend::new(frame), terminal, bridge: Bridge::default() }
    }
}

impl io::Write for Own {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::Write::flush(&mut self.inner)
    }
}

impl Backend for Own {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        let cells = self.bridge.fill(content);
        self.inner.draw(cells.iter().map(|(x, y, cell)| (*x, *y, cell)))
    }

    fn append_lines(&mut self, count: u16) -> io::Result<()> {
        self.bridge.forget(false);
        self.inner.append_lines(count)
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.inner.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.inner.show_cursor()
    }

    /// Not to be had: the thread that reads the terminal would get the answer.
    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.inner.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.bridge.forget(true);
        self.inner.clear()
    }

    fn clear_region(&mut self, which: ClearType) -> io::Result<()> {
        self.bridge.forget(matches!(which, ClearType::All));
        self.inner.clear_region(which)
    }

    fn size(&self) -> io::Result<Size> {
        let size = rustix::termios::tcgetwinsize(&self.terminal)?;
        Ok(Size::new(size.ws_col.min(MOST.0), size.ws_row.min(MOST.1)))
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        let size = rustix::termios::tcgetwinsize(&self.terminal)?;
        Ok(WindowSize { columns_rows: Size::new(size.ws_col, size.ws_row), pixels: Size::new(size.ws_xpixel, size.ws_ypixel) })
    }

    fn flush(&mut self) -> io::Result<()> {
        Backend::flush(&mut self.inner)
    }
}
