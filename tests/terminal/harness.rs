//! The real program in a pseudo-terminal, and a terminal emulator that sees what a person would see.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use tempfile::TempDir;

/// How long anything may take before a test gives up on it. Nothing waits this long when all is well.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Nano's greedy answers to these go on for hundreds of tokens.
pub const LONG: [&str; 2] = ["Write a story about a princess and a dragon.", "Tell me a story about a wise old wizard."];

pub const ENTER: &str = "\r";
pub const TAB: &str = "\t";
pub const ESC: &str = "\x1b";
pub const F1: &str = "\x1bOP";
pub const F2: &str = "\x1bOQ";
pub const F3: &str = "\x1bOR";
pub const F4: &str = "\x1bOS";
pub const F5: &str = "\x1b[15~";
pub const F6: &str = "\x1b[17~";
pub const F8: &str = "\x1b[19~";
pub const F9: &str = "\x1b[20~";

/// Waits for what is seen elsewhere than on the screen.
#[track_caller]
pub fn within_patience(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Ctrl and a letter.
pub fn ctrl(letter: char) -> String {
    char::from(letter.to_ascii_lowercase() as u8 - b'a' + 1).to_string()
}

/// What a program is started with: size, arguments and an environment that has nothing of the user's but PATH, and
/// nowhere to fetch from.
pub struct Spec {
    size: (u16, u16),
    command: CommandBuilder,
    home: TempDir,
}

impl Spec {
    /// The program itself.
    pub fn room(args: &[&str]) -> Spec {
        Spec::of(env!("CARGO_BIN_EXE_batchroom"), args)
    }

    pub fn of(program: &str, args: &[&str]) -> Spec {
        let home = tempfile::tempdir().expect("a folder");
        let mut command = CommandBuilder::new(program);
        command.args(args);
        command.env_clear();
        command.cwd(home.path());
        let spec = Spec { size: (120, 36), command, home };
        let path = std::env::var("PATH").unwrap_or_default();
        let refusing = "http://127.0.0.1:9";
        let spec = spec.env("PATH", &path).env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
        let spec = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"]
            .iter()
            .fold(spec, |spec, name| spec.env(name, refusing));
        let index = format!("{refusing}/simple");
        let spec = spec.env("PIP_INDEX_URL", &index).env("PIP_RETRIES", "0").env("PIP_CONFIG_FILE", "/dev/null");
        spec.own_folders(true)
    }

    /// The user's own environment, mirrors and proxies included; only the cache is empty.
    pub fn with_network(args: &[&str]) -> Spec {
        let mut spec = Spec::room(args);
        spec.command.env_clear();
        for (name, value) in std::env::vars_os().filter(|(name, _)| name != "NO_COLOR" && name != "HF_HOME") {
            spec.command.env(name, value);
        }
        spec.own_folders(false).env("TERM", "xterm-256color")
    }

    fn own_folders(self, home: bool) -> Spec {
        let root = self.home.path().to_str().expect("a path in UTF-8").to_owned();
        let spec = if home { self.env("HOME", &root) } else { self };
        spec.env("XDG_CACHE_HOME", &format!("{root}/cache"))
            .env("XDG_CONFIG_HOME", &format!("{root}/config"))
            .env("XDG_DATA_HOME", &format!("{root}/data"))
            .env("HF_HOME", &format!("{root}/hub"))
    }

    pub fn env(mut self, name: &str, value: &str) -> Spec {
        self.command.env(name, value);
        self
    }

    pub fn size(mut self, columns: u16, rows: u16) -> Spec {
        self.size = (columns, rows);
        self
    }

    pub fn start(self) -> Terminal {
        let (cols, rows) = self.size;
        let pair = native_pty_system().openpty(PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }).expect("a pty");
        let child = pair.slave.spawn_command(self.command).expect("the program starts");
        drop(pair.slave);
        let seen = Arc::new(Seen {
            now: Mutex::new(Now { parser: vt100::Parser::new(rows, cols, 0), bytes: Vec::new(), closed: false }),
            changed: Condvar::new(),
            leave: AtomicBool::new(false),
            rate: AtomicUsize::new(usize::MAX),
        });
        let fd = pair.master.as_raw_fd().expect("a descriptor");
        let reader = std::thread::spawn({
            let (file, seen) = (duplicate(fd), seen.clone());
            move || read(file, &seen)
        });
        Terminal { writer: Some(duplicate(fd)), master: Some(pair.master), child, seen, reader: Some(reader), home: self.home }
    }
}

fn duplicate(fd: i32) -> File {
    // SAFETY: dup gives a new descriptor that nobody else owns; the assertion keeps -1 out.
    unsafe {
        let copy = libc::dup(fd);
        assert!(copy >= 0, "cannot duplicate the pty");
        libc::fcntl(copy, libc::F_SETFD, libc::FD_CLOEXEC);
        File::from(OwnedFd::from_raw_fd(copy))
    }
}

struct Now {
    parser: vt100::Parser,
    /// Everything the program has written.
    bytes: Vec<u8>,
    closed: bool,
}

struct Seen {
    now: Mutex<Now>,
    changed: Condvar,
    leave: AtomicBool,
    /// Bytes taken a second; usize::MAX: all of them.
    rate: AtomicUsize,
}

/// Feeds the emulator. Polls, so that the descriptor can be closed while nothing comes.
fn read(mut file: File, seen: &Seen) {
    use std::io::Read;
    let mut buffer = [0; 16384];
    while !seen.leave.load(Ordering::SeqCst) {
        let mut wait = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd of ours.
        if unsafe { libc::poll(&mut wait, 1, 20) } == 0 {
            continue;
        }
        let rate = seen.rate.load(Ordering::SeqCst);
        const TURNS: usize = 50;
        if rate != usize::MAX {
            std::thread::sleep(Duration::from_secs(1) / TURNS as u32);
        }
        let most = (rate / TURNS).min(buffer.len());
        if most == 0 {
            continue;
        }
        let count = file.read(&mut buffer[..most]).unwrap_or(0);
        let mut now = seen.now.lock().expect("the reader");
        if count == 0 {
            now.closed = true;
        } else {
            now.parser.process(&buffer[..count]);
            now.bytes.extend_from_slice(&buffer[..count]);
        }
        seen.changed.notify_all();
        if count == 0 {
            return;
        }
    }
}

/// A program running in a terminal.
pub struct Terminal {
    master: Option<Box<dyn MasterPty + Send>>,
    writer: Option<File>,
    child: Box<dyn Child + Send + Sync>,
    seen: Arc<Seen>,
    reader: Option<JoinHandle<()>>,
    home: TempDir,
}

impl Terminal {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.seen.now.lock().expect("the reader")
    }

    /// The folder that the program runs in.
    pub fn home(&self) -> &std::path::Path {
        self.home.path()
    }

    /// What is on the screen, row by row.
    pub fn screen(&self) -> String {
        self.now().parser.screen().contents()
    }

    /// Waits until the screen is as wanted; what was wanted is said if that does not happen.
    #[track_caller]
    pub fn wait(&self, what: &str, wanted: impl FnMut(&vt100::Screen) -> bool) {
        self.wait_for(PATIENCE, what, wanted);
    }

    /// The same, for what is known to be slow.
    #[track_caller]
    pub fn wait_for(&self, patience: Duration, what: &str, mut wanted: impl FnMut(&vt100::Screen) -> bool) {
        let end = Instant::now() + patience;
        let mut now = self.now();
        while !wanted(now.parser.screen()) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || now.closed {
                let (text, closed) = (now.parser.screen().contents(), now.closed);
                drop(now);
                panic!("waited in vain for {what} (the program has {}):\n{text}", if closed { "ended" } else { "not ended" });
            }
            now = self.seen.changed.wait_timeout(now, left).expect("the reader").0;
        }
    }

    #[track_caller]
    pub fn expect(&self, text: &str) {
        self.wait(&format!("{text:?}"), |screen| screen.contents().contains(text));
    }

    /// The text goes away, or was never there.
    #[track_caller]
    pub fn absent(&self, text: &str) {
        self.wait(&format!("the end of {text:?}"), |screen| !screen.contents().contains(text));
    }

    /// The text comes often enough.
    #[track_caller]
    pub fn expect_times(&self, text: &str, times: usize) {
        self.wait(&format!("{times} times {text:?}"), |screen| screen.contents().matches(text).count() >= times);
    }

    /// Everything written so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.now().bytes.clone()
    }

    pub fn written(&self) -> usize {
        self.now().bytes.len()
    }

    /// Types, as a keyboard does: bytes.
    pub fn keys(&mut self, keys: &str) {
        self.raw(keys.as_bytes());
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.writer.as_mut().expect("the line is open").write_all(bytes).expect("the program reads");
    }

    /// Types a text and waits until it is in the draft, then sends it.
    #[track_caller]
    pub fn send(&mut self, text: &str) {
        self.keys(text);
        self.expect(&format!("> {text}"));
        self.keys(ENTER);
        self.expect(&format!("❯ {text}"));
    }

    /// A paste by a terminal that marks it.
    pub fn paste(&mut self, text: &str) {
        self.keys(&format!("\x1b[200~{text}\x1b[201~"));
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.now().parser.screen_mut().set_size(rows, columns);
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        self.master.as_ref().expect("the line is open").resize(size).expect("a size");
    }

    /// From now on the terminal takes so many bytes a second at most; usize::MAX: all there are.
    pub fn take_only(&self, rate: usize) {
        self.seen.rate.store(rate, Ordering::SeqCst);
    }

    /// Resident memory of the program, in bytes.
    pub fn resident(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.pid())).expect("a running process");
        let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).expect("pages");
        pages * 4096
    }

    pub fn pid(&self) -> i32 {
        self.child.process_id().expect("a process") as i32
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a plain system call on our own child.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    /// Waits for the end and gives the exit status as a shell says it.
    #[track_caller]
    pub fn status(&mut self) -> u32 {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                self.drain();
                assert!(status.signal().is_none(), "killed: {status:?}");
                return status.exit_code();
            }
            if Instant::now() > end {
                panic!("the program does not end:\n{}", self.screen());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The same, when nobody reads the line.
    #[track_caller]
    pub fn status_unread(&mut self) -> u32 {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                assert!(status.signal().is_none(), "killed: {status:?}");
                return status.exit_code();
            }
            assert!(Instant::now() < end, "the program does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// After the end: what is still in the line.
    fn drain(&self) {
        let mut now = self.now();
        while !now.closed && !self.seen.leave.load(Ordering::SeqCst) {
            let (next, timed_out) = self.seen.changed.wait_timeout(now, PATIENCE).expect("the reader");
            now = next;
            if timed_out.timed_out() {
                return;
            }
        }
    }

    /// The line drops: nobody has the other end any more.
    pub fn hang_up(&mut self) {
        self.seen.leave.store(true, Ordering::SeqCst);
        self.reader.take().expect("a reader").join().expect("a reader");
        self.writer = None;
        self.master = None;
    }

    /// Whether the line discipline does what a shell wants: lines, echo, signals.
    pub fn cooked(&self) -> bool {
        let fd = self.master.as_ref().and_then(|master| master.as_raw_fd()).expect("the line is open");
        // SAFETY: a plain system call that fills a structure of ours; all-zero is a valid value of it.
        let modes = unsafe {
            let mut modes: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(fd, &mut modes), 0);
            modes
        };
        let wanted = libc::ICANON | libc::ECHO | libc::ISIG;
        modes.c_lflag & wanted == wanted && modes.c_oflag & libc::OPOST != 0 && modes.c_iflag & libc::ICRNL != 0
    }

    /// Sets the modes of a shell's prompt, as a shell with line editing does after a job of its was stopped.
    pub fn make_cooked(&self) {
        let fd = self.master.as_ref().and_then(|master| master.as_raw_fd()).expect("the line is open");
        // SAFETY: plain system calls on a structure of ours; all-zero is a valid value of it.
        unsafe {
            let mut modes: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(fd, &mut modes), 0);
            modes.c_lflag |= libc::ICANON | libc::ECHO | libc::ISIG | libc::IEXTEN;
            modes.c_iflag |= libc::ICRNL;
            modes.c_oflag |= libc::OPOST | libc::ONLCR;
            assert_eq!(libc::tcsetattr(fd, libc::TCSANOW, &modes), 0);
        }
    }

    /// The process group that has the terminal now.
    pub fn foreground(&self) -> i32 {
        self.master.as_ref().and_then(|master| master.process_group_leader()).expect("a foreground process")
    }

    /// The program has left nothing behind: screen, paste mode, cursor, keyboard, line discipline.
    #[track_caller]
    pub fn assert_restored(&self) {
        {
            let now = self.now();
            let screen = now.parser.screen();
            assert!(!screen.alternate_screen(), "still on the alternate screen");
            assert!(!screen.bracketed_paste(), "bracketed paste is still on");
            assert!(!screen.hide_cursor(), "the cursor is still hidden");
            let text = String::from_utf8_lossy(&now.bytes);
            let after = |on: &str, off: &str| text.rfind(on) < text.rfind(off);
            assert!(after("\x1b[?1049h", "\x1b[?1049l"), "the alternate screen is not left");
            assert!(after("\x1b[?2004h", "\x1b[?2004l"), "bracketed paste is not ended");
            assert!(after("\x1b[?25l", "\x1b[?25h"), "the cursor is not shown");
            assert!(after("\x1b[?2026h", "\x1b[?2026l"), "a synchronized update is still open");
            assert_eq!(text.matches("\x1b[>1u").count(), text.matches("\x1b[<1u").count(), "keyboard flags are left");
        }
        assert!(self.cooked(), "the line discipline is not restored");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.seen.leave.store(true, Ordering::SeqCst);
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// What `batchroom ask` answers to one prompt alone, greedily.
pub fn ask(prompt: &str, max_tokens: usize) -> String {
    let home = tempfile::tempdir().expect("a folder");
    let max_tokens = max_tokens.to_string();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_batchroom"))
        .args(["ask", "--model", "nano", "--temperature", "0", "--max-tokens", &max_tokens, prompt])
        .env("HOME", home.path())
        .env("XDG_CACHE_HOME", home.path())
        .env("XDG_CONFIG_HOME", home.path())
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The first words of a text.
pub fn first_words(text: &str, count: usize) -> String {
    text.split_whitespace().take(count).collect::<Vec<_>>().join(" ")
}

/// The right part of the screen, where the machine room is when both rooms stand side by side.
pub fn machine(screen: &vt100::Screen) -> Vec<String> {
    let (_, columns) = screen.size();
    let width = (columns * 45 / 100).clamp(50, 96);
    screen.rows(columns - width, width).collect()
}

/// Whether the users table has this user in this state.
pub fn user_is(screen: &vt100::Screen, name: &str, state: &str) -> bool {
    let words = |row: &String| {
        let mut words = row.trim_start_matches(['│', ' ']).split_whitespace();
        (words.nth(1).map(str::to_owned), words.collect::<Vec<_>>().join(" "))
    };
    machine(screen).iter().map(words).any(|(user, rest)| user.as_deref() == Some(name) && rest.starts_with(state))
}

/// The newest step's number, from the title of the live batch.
pub fn step(screen: &vt100::Screen) -> Option<u64> {
    let rows = machine(screen);
    let title = rows.iter().find(|row| row.contains("live batch"))?;
    title.split("step ").nth(1)?.split_whitespace().next()?.parse().ok()
}

impl Terminal {
    /// Waits until the program has written nothing for a while.
    #[track_caller]
    pub fn settle(&self, quiet: Duration) {
        let end = Instant::now() + PATIENCE;
        let mut before = self.written();
        loop {
            std::thread::sleep(quiet);
            let now = self.written();
            if now == before {
                return;
            }
            assert!(Instant::now() < end, "the program never stops writing:\n{}", self.screen());
            before = now;
        }
    }

    /// The step number on the screen, once there is one.
    #[track_caller]
    pub fn step(&self) -> u64 {
        self.wait("a step number", |screen| step(screen).is_some());
        step(self.now().parser.screen()).expect("a step number")
    }
}

/// From both rooms to the panels alone, and from there to the chats alone.
#[track_caller]
pub fn chats_only(terminal: &mut Terminal) {
    terminal.keys(F8);
    terminal.keys(F8);
    terminal.absent("live batch");
}
