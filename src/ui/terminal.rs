//! The terminal while the screen has it: raw mode and alternate screen, given back on every way out.

use std::io::{self, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, KeyboardEnhancementFlags, PopKeyboardEnhancementFlags,
    PushKeyboardEnhancementFlags,
};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;

/// Whether the terminal is ours now: what `restore` has to undo.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// The terminal, taken. Dropping it gives it back.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    pub fn take() -> io::Result<Screen> {
        restore_on_panic();
        enter().inspect_err(|_| restore())?;
        match Terminal::new(CrosstermBackend::new(io::stdout())) {
            Ok(terminal) => Ok(Screen { terminal }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    /// Draws one frame: the terminal shows it whole or not at all, and gets only what has changed.
    pub fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(draw)?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)
    }

    pub fn size(&self) -> io::Result<ratatui::layout::Size> {
        self.terminal.size()
    }

    /// Everything is drawn again with the next frame.
    pub fn forget(&mut self) -> io::Result<()> {
        // `Terminal::clear` would ask the terminal where its cursor is, and wait in vain for the answer: the thread
        // that reads the terminal holds it. A resize to the same size clears without a question.
        let size = self.size()?;
        self.terminal.resize(Rect::new(0, 0, size.width, size.height))
    }

    /// Gives the terminal back, stops the program as Ctrl-Z does, and takes the terminal again when it is continued.
    pub fn suspend(&mut self, whole_group: bool) -> io::Result<()> {
        restore();
        stop(whole_group);
        self.take_again()
    }

    /// After somebody else may have had the terminal: when the program was stopped by another, nobody gave it back.
    pub fn take_again(&mut self) -> io::Result<()> {
        enter()?;
        self.forget()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn enter() -> io::Result<()> {
    if ENTERED.load(Ordering::SeqCst) && !is_raw() {
        // The shell has set its own modes behind our back, and `enable_raw_mode` would believe that ours still hold.
        disable_raw_mode()?;
    }
    enable_raw_mode()?;
    let again = ENTERED.swap(true, Ordering::SeqCst);
    let mut out = io::stdout();
    // A terminal without an alternate screen would show through what was there.
    execute!(out, EnterAlternateScreen, Clear(ClearType::All), EnableBracketedPaste)?;
    if again {
        // The keyboard flags are a stack: what is pushed once is popped once.
        return Ok(());
    }
    // Terminals that do not know it ignore it; those that do can tell Shift-Enter from Enter.
    execute!(out, PushKeyboardEnhancementFlags(KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES))
}

/// Whether the terminal itself is still in raw mode.
#[cfg(unix)]
fn is_raw() -> bool {
    // SAFETY: a plain system call that fills a structure of ours; all-zero is a valid value of it.
    let (found, modes) = unsafe {
        let mut modes: libc::termios = std::mem::zeroed();
        (libc::tcgetattr(libc::STDIN_FILENO, &mut modes), modes)
    };
    found == 0 && modes.c_lflag & (libc::ICANON | libc::ECHO | libc::ISIG) == 0
}

#[cfg(not(unix))]
fn is_raw() -> bool {
    true
}

/// Returns when nobody has the other end of the terminal any more.
#[cfg(unix)]
pub fn wait_for_hang_up() -> io::Error {
    let mut terminal = libc::pollfd { fd: libc::STDIN_FILENO, events: 0, revents: 0 };
    loop {
        // SAFETY: one valid pollfd of ours. Without events it waits for the hang-up alone, which is always reported.
        let count = unsafe { libc::poll(&mut terminal, 1, -1) };
        let error = io::Error::last_os_error();
        if count >= 0 {
            return io::Error::new(io::ErrorKind::BrokenPipe, "the terminal is gone");
        }
        if error.kind() != io::ErrorKind::Interrupted {
            return error;
        }
    }
}

#[cfg(not(unix))]
pub fn wait_for_hang_up() -> io::Error {
    loop {
        std::thread::park();
    }
}

/// To the terminal's clipboard (OSC 52), which may be on another machine. tmux hands on what is wrapped for it, if it is
/// allowed to (`allow-passthrough`), and takes the plain sequence itself (`set-clipboard`).
pub fn copy(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(clipboard(text, std::env::var_os("TMUX").is_some()).as_bytes())?;
    out.flush()
}

fn clipboard(text: &str, tmux: bool) -> String {
    let plain = format!("\x1b]52;c;{}\x07", base64(text.as_bytes()));
    if tmux { format!("{plain}\x1bPtmux;\x1b{plain}\x1b\\") } else { plain }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at)) as usize & 63];
            out.push(if at <= three.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

/// Undoes `enter`, as often as it is called. Errors are ignored: the terminal may be gone.
pub fn restore() {
    if ENTERED.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout();
        let _ = execute!(
            out,
            EndSynchronizedUpdate,
            PopKeyboardEnhancementFlags,
            DisableBracketedPaste,
            LeaveAlternateScreen,
            cursor::Show
        );
        let _ = disable_raw_mode();
        let _ = out.flush();
    }
}

/// A panic of the screen's own thread is reported after the terminal is back. Panics of other threads are caught
/// there and reported by the screen.
fn restore_on_panic() {
    let screen_thread = std::thread::current().id();
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!("{panic}");
        if std::thread::current().id() == screen_thread {
            restore();
            report(panic);
        }
    }));
}

/// Stops the program where somebody else has the terminal: nothing is to be given back.
pub fn stop_here() {
    stop(false);
}

/// Wakes whoever reads the terminal, as a new size would.
#[cfg(unix)]
pub fn wake_input() {
    // SAFETY: a plain system call on our own process.
    unsafe {
        libc::kill(libc::getpid(), libc::SIGWINCH);
    }
}

#[cfg(not(unix))]
pub fn wake_input() {}

#[cfg(unix)]
fn stop(whole_group: bool) {
    // SAFETY: plain system calls on our own process and process group; the old disposition is put back. With the
    // default one, a stop signal is ignored where no shell could ever continue us (an orphaned process group).
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        let mut default: libc::sigaction = std::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(libc::SIGTSTP, &default, &mut old);
        // `cargo run` in front of us has to stop too, or the shell does not come back.
        if whole_group {
            libc::kill(0, libc::SIGTSTP);
        } else {
            libc::raise(libc::SIGTSTP);
        }
        libc::sigaction(libc::SIGTSTP, &old, std::ptr::null_mut());
    }
}

#[cfg(not(unix))]
fn stop(_whole_group: bool) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_is_base64_and_tmux_gets_it_wrapped_too() {
        for (text, letters) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("測\n", "5risCg=="), ("~~~~?", "fn5+fj8=")]
        {
            assert_eq!(base64(text.as_bytes()), letters, "{text:?}");
        }
        assert_eq!(clipboard("foo", false), "\x1b]52;c;Zm9v\x07");
        assert_eq!(clipboard("foo", true), "\x1b]52;c;Zm9v\x07\x1bPtmux;\x1b\x1b]52;c;Zm9v\x07\x1b\\");
    }
}
