//! The terminal while the screen has it: raw mode and alternate screen, given back on every way out.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture, KeyboardEnhancementFlags,
    PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::Terminal;
use ratatui::backend::Backend;
use ratatui::layout::Rect;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use super::backend::Own;
use super::outlet::{self, Outlet};
use crate::stray;

/// Whether the terminal is ours now: what `restore` has to undo.
static ENTERED: AtomicBool = AtomicBool::new(false);
/// Whether the mouse is ours while the terminal is.
static MOUSE: AtomicBool = AtomicBool::new(false);
/// Whether our keyboard flags are on the terminal's stack.
static PUSHED: AtomicBool = AtomicBool::new(false);

/// How long a piece of a frame on its way is waited for before something else is said to the terminal.
const LAST_PIECE: Duration = Duration::from_secs(2);
/// Ends whatever sequence a frame that was given up has begun (CAN, then ST).
const CANCEL: &[u8] = b"\x18\x1b\\";

/// The terminal, taken. Dropping it gives it back.
pub struct Screen {
    terminal: Terminal<Own>,
    outlet: Outlet,
    /// The terminal's modes as they were before another program had it.
    lent: Option<Termios>,
}

impl Screen {
    pub fn take() -> io::Result<Screen> {
        restore_on_panic();
        enter().inspect_err(|_| restore())?;
        let opened = Outlet::open().and_then(|outlet| {
            let terminal = Terminal::new(Own::new(outlet.frame(), stray::terminal()?))?;
            Ok(Screen { terminal, outlet, lent: None })
        });
        opened.inspect_err(|_| restore())
    }

    /// Draws one frame: the terminal shows it whole or not at all, and gets only what has changed. Only when the one before
    /// has been taken.
    pub fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(draw)?;
        queue!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        self.outlet.send()
    }

    /// Whether the terminal has taken the frame before.
    pub fn is_idle(&self) -> bool {
        self.outlet.is_idle()
    }

    /// Until it has.
    pub fn idle(&self) -> impl Future<Output = ()> + use<> {
        self.outlet.idle()
    }

    pub fn size(&self) -> io::Result<ratatui::layout::Size> {
        self.terminal.backend().size()
    }

    /// To the terminal's clipboard (OSC 52), which may be on another machine. tmux hands on what is wrapped for it, if it is
    /// allowed to (`allow-passthrough`), and takes the plain sequence itself (`set-clipboard`). Goes with the next frame
    /// when one is on its way.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        let tmux = std::env::var_os("TMUX").is_some();
        self.outlet.frame().write_all(clipboard(text, tmux).as_bytes())?;
        if self.is_idle() { self.outlet.send() } else { Ok(()) }
    }

    /// Takes the mouse, or leaves it to the terminal, which then selects text with it.
    pub fn mouse(&mut self, ours: bool) -> io::Result<()> {
        MOUSE.store(ours, Ordering::SeqCst);
        let mut frame = self.outlet.frame();
        if ours { queue!(frame, EnableMouseCapture) } else { queue!(frame, DisableMouseCapture) }?;
        // It goes with the next frame when one is on its way.
        if self.is_idle() { self.outlet.send() } else { Ok(()) }
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
        self.give_back();
        stop(whole_group);
        self.take_again()
    }

    /// Gives the terminal to a program of the person's, such as an editor.
    pub fn lend(&mut self) {
        self.give_back();
        self.lent = tcgetattr(std::io::stdin()).ok();
    }

    /// Takes it back, however that program has left it: one that crashed leaves its modes, and they are not the shell's.
    pub fn take_back(&mut self) -> io::Result<()> {
        if let Some(modes) = self.lent.take() {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &modes);
            if !MOUSE.load(Ordering::SeqCst) {
                execute!(stray::terminal()?, DisableMouseCapture)?;
            }
        }
        self.take_again()
    }

    /// After somebody else may have had the terminal: when the program was stopped by another, nobody gave it back.
    pub fn take_again(&mut self) -> io::Result<()> {
        outlet::cut(LAST_PIECE);
        enter()?;
        self.forget()
    }
}

impl Screen {
    /// A terminal that takes nothing any more is not waited for: its modes are put back, and it is told nothing.
    pub fn give_back(&self) {
        if outlet::cut(LAST_PIECE) {
            restore();
        } else if ENTERED.swap(false, Ordering::SeqCst) {
            let _ = disable_raw_mode();
            stray::release();
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.give_back();
    }
}

fn enter() -> io::Result<()> {
    if ENTERED.load(Ordering::SeqCst) && !is_raw() {
        // The shell has set its own modes behind our back, and `enable_raw_mode` would believe that ours still hold.
        disable_raw_mode()?;
    }
    enable_raw_mode()?;
    ENTERED.store(true, Ordering::SeqCst);
    let mut out = stray::terminal()?;
    if let Err(error) = stray::catch() {
        tracing::warn!(%error, "what libraries print is not caught");
    }
    // A terminal without an alternate screen would show through what was there.
    execute!(out, EnterAlternateScreen, Clear(ClearType::All), EnableBracketedPaste)?;
    if MOUSE.load(Ordering::SeqCst) {
        execute!(out, EnableMouseCapture)?;
    }
    // The keyboard flags are a stack: what is pushed once is popped once.
    if PUSHED.swap(true, Ordering::SeqCst) {
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

/// Throws away what was written to the terminal and not read by it: tens of kilobytes, for which a slow line needs half a minute.
#[cfg(unix)]
pub fn forget_unread() {
    if let Ok(terminal) = stray::terminal() {
        let _ = rustix::termios::tcflush(&terminal, rustix::termios::QueueSelector::OFlush);
    }
}

#[cfg(not(unix))]
pub fn forget_unread() {}

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
        let pushed = PUSHED.swap(false, Ordering::SeqCst);
        if let Ok(mut out) = stray::terminal() {
            let _ = leave(&mut out, pushed);
        }
        let _ = disable_raw_mode();
        stray::release();
    }
}

fn leave(out: &mut impl Write, pushed: bool) -> io::Result<()> {
    out.write_all(CANCEL)?;
    if MOUSE.load(Ordering::SeqCst) {
        execute!(out, DisableMouseCapture)?;
    }
    queue!(out, EndSynchronizedUpdate)?;
    if pushed {
        queue!(out, PopKeyboardEnhancementFlags)?;
    }
    execute!(out, DisableBracketedPaste, LeaveAlternateScreen, cursor::Show)
}

/// A panic of the screen's own thread is reported after the terminal is back. Panics of other threads are caught
/// there and reported by the screen.
fn restore_on_panic() {
    let screen_thread = std::thread::current().id();
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!("{panic}");
        if std::thread::current().id() == screen_thread {
            outlet::cut(LAST_PIECE);
            restore();
            report(panic);
        }
    }));
}

/// Stops the program where somebody else has the terminal: nothing is to be given back.
pub fn stop_here() {
    stop(false);
}

/// Wakes whoever reads the terminal, without a key.
pub fn wake_input() {
    super::keyboard::wake();
}

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
