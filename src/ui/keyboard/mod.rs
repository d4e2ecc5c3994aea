//! What the terminal sends, as events. Terminals send more than keys: the colour behind the text, where the cursor is, what they
//! are called; late, in pieces, and to questions that some program before us has asked. None of that is typed text, so all of
//! it is recognised here, byte by byte, and only what a person did goes on.

mod keys;

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyModifiers};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::outside::Gate;

/// What the terminal says, and when.
pub type Heard = (tokio::time::Instant, io::Result<Event>);
pub type Input = mpsc::Receiver<Heard>;

/// Events that wait for the screen at most.
pub const TURN: usize = 512;

/// Esc alone is the key when nothing follows for so long.
const ESC_ALONE: Duration = Duration::from_millis(30);
/// The same for Alt and a character that begins sequences.
const ALT_ALONE: Duration = Duration::from_millis(300);
/// What comes after such a key may still be the rest of a sequence, for so long,
const LATE: Duration = Duration::from_secs(2);
/// if its bytes come as near together as no fingers type.
const NEAR: Duration = Duration::from_millis(60);
/// A sequence that stops in the middle is given up.
const BROKEN: Duration = Duration::from_secs(1);
/// So is a paste without an end; what there is of it counts.
const PASTE_BROKEN: Duration = Duration::from_secs(10);
/// Bytes of a sequence, and of a paste.
const SEQUENCE_MAX: usize = 256;
const PASTE_MAX: usize = 16 << 20;

const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// What is being read.
#[derive(Debug, Default)]
enum Reading {
    /// A key or a sequence, from its first byte.
    #[default]
    Sequence,
    /// The text of a report, which nobody needs; and whether ESC was its last byte.
    Report {
        esc: bool,
    },
    Paste(Vec<u8>),
}

/// Bytes to events.
#[derive(Debug, Default)]
pub struct Parser {
    reading: Reading,
    pending: Vec<u8>,
    /// How many of those have counted as keys already.
    said: usize,
    /// When the last byte came.
    last: Option<Instant>,
    events: Vec<Event>,
}

/// What a sequence is so far.
enum Found {
    More,
    /// A key, or nothing that concerns a person.
    Whole(Option<Event>),
    Paste,
    Report,
    /// Not what it seemed to be.
    Keys,
    /// The same, up to its last byte, which begins something else.
    Broken,
}

impl Parser {
    /// Takes bytes in, and gives the events that they end.
    pub fn feed(&mut self, bytes: &[u8], now: Instant) -> Vec<Event> {
        // The first bytes of a sequence: that this thread comes late is no reason to tear it apart.
        if !(self.said == 0 && self.pending.len() <= 2 && self.pending.starts_with(b"\x1b")) {
            self.rest(now);
        }
        self.last = Some(now);
        for byte in bytes {
            self.push(*byte);
        }
        std::mem::take(&mut self.events)
    }

    /// Nothing more has come: what that means.
    pub fn tick(&mut self, now: Instant) -> Vec<Event> {
        self.rest(now);
        std::mem::take(&mut self.events)
    }

    /// How long the next byte is to be waited for, before `tick`. None: for as long as it takes.
    pub fn patience(&self) -> Option<Duration> {
        Some(match &self.reading {
            Reading::Report { .. } => BROKEN,
            Reading::Paste(_) => PASTE_BROKEN,
            Reading::Sequence => match (self.said, &self.pending[..]) {
                (said, pending) if said == pending.len() => return None,
                (0, [0x1b]) => ESC_ALONE,
                (0, [0x1b, _]) => ALT_ALONE,
                (0, _) => BROKEN,
                _ => NEAR,
            },
        })
    }

    fn rest(&mut self, now: Instant) {
        let Some(last) = self.last else { return };
        let waited = now.saturating_duration_since(last);
        if self.said > 0 && self.said == self.pending.len() && waited >= LATE {
            self.clear();
        }
        if self.patience().is_none_or(|patience| waited < patience) {
            return;
        }
        match std::mem::take(&mut self.reading) {
            Reading::Report { .. } => self.clear(),
            Reading::Paste(text) => self.paste(&text),
            Reading::Sequence => match (self.said, &self.pending[..]) {
                (0, [0x1b]) => {
                    self.key(KeyCode::Esc);
                    self.said = 1;
                }
                (0, &[0x1b, letter]) if letter.is_ascii() => {
                    self.alt(letter);
                    self.said = 2;
                }
                (0, _) => self.clear(),
                _ => self.give_up(),
            },
        }
        // Time goes on from here, for what may still follow.
        self.last = Some(now);
    }

    fn clear(&mut self) {
        self.pending.clear();
        (self.said, self.reading) = (0, Reading::Sequence);
    }

    fn key(&mut self, code: KeyCode) {
        self.events.push(Event::Key(code.into()));
    }

    fn alt(&mut self, letter: u8) {
        let mut key = keys::control(letter).unwrap_or_else(|| keys::typed(char::from(letter)));
        key.modifiers |= KeyModifiers::ALT;
        self.events.push(Event::Key(key));
    }

    fn paste(&mut self, text: &[u8]) {
        self.clear();
        self.events.push(Event::Paste(String::from_utf8_lossy(text).into_owned()));
    }

    /// It was typed after all: what has not counted yet counts by itself.
    fn give_up(&mut self) {
        let (bytes, said) = (std::mem::take(&mut self.pending), self.said);
        self.clear();
        let from = match (said, &bytes[..]) {
            (0, &[0x1b, letter, ..]) => {
                self.alt(letter);
                2
            }
            _ => said,
        };
        bytes[from..].iter().for_each(|byte| self.push(*byte));
    }

    fn push(&mut self, byte: u8) {
        match &mut self.reading {
            Reading::Paste(text) => {
                text.push(byte);
                if text.ends_with(PASTE_ENDS) {
                    let text = std::mem::take(text);
                    self.paste(&text[..text.len() - PASTE_ENDS.len()]);
                } else if text.len() >= PASTE_MAX + PASTE_ENDS.len() {
                    // What is over the bound is left out, up to the end of the paste.
                    text.remove(PASTE_MAX);
                }
            }
            Reading::Report { esc } => match (*esc, byte) {
                (true, b'\\') | (false, 0x07 | 0x18 | 0x1a) => self.clear(),
                (false, 0x1b) => *esc = true,
                (true, _) => {
                    // Another sequence has begun in the middle of this one.
                    self.clear();
                    self.push(0x1b);
                    self.push(byte);
                }
                (false, 0x20..=0x7e | 0x80..) => {}
                // A key: no report has that inside.
                (false, _) => {
                    self.clear();
                    self.push(byte);
                }
            },
            Reading::Sequence => self.lengthen(byte),
        }
    }

    fn lengthen(&mut self, byte: u8) {
        self.pending.push(byte);
        match found(&self.pending, self.said) {
            Found::More if self.pending.len() < SEQUENCE_MAX => {}
            Found::More => self.clear(),
            Found::Whole(event) => {
                self.clear();
                self.events.extend(event);
            }
            Found::Paste => {
                self.clear();
                self.reading = Reading::Paste(Vec::new());
            }
            Found::Report => {
                self.clear();
                self.reading = Reading::Report { esc: false };
            }
            Found::Keys if self.said == self.pending.len() => self.clear(),
            Found::Keys => self.give_up(),
            Found::Broken if self.said > 0 => self.give_up(),
            Found::Broken => {
                if self.pending == [0x1b, 0x1b] {
                    self.key(KeyCode::Esc);
                }
                self.clear();
                self.push(byte);
            }
        }
    }
}

fn found(bytes: &[u8], said: usize) -> Found {
    match bytes {
        [0x1b] => Found::More,
        [0x1b, 0x1b] => Found::Broken,
        // After an Esc that has counted: what begins a late sequence, and what is typed.
        [0x1b, b'[' | b']' | b'P' | b'_'] => Found::More,
        [0x1b, b'O'] if said == 0 => Found::More,
        [0x1b, b'O', letter] if said == 0 => Found::Whole(keys::ss3(*letter)),
        [0x1b, b'[', rest @ ..] => csi(rest, said),
        [0x1b, b']', rest @ ..] => operating(rest),
        [0x1b, b'P', rest @ ..] => device(rest),
        [0x1b, b'_', b'G', ..] => Found::Report,
        [0x1b, ..] if said > 0 => Found::Keys,
        [0x1b, b'_', ..] => Found::Keys,
        [0x1b, rest @ ..] => match character(rest) {
            Found::Whole(Some(Event::Key(mut key))) => {
                key.modifiers |= KeyModifiers::ALT;
                Found::Whole(Some(Event::Key(key)))
            }
            other => other,
        },
        bytes => character(bytes),
    }
}

/// One character, or one control character.
fn character(bytes: &[u8]) -> Found {
    match bytes {
        [byte] if byte.is_ascii_control() => Found::Whole(keys::control(*byte).map(Event::Key)),
        bytes => match std::str::from_utf8(bytes) {
            Ok(text) => Found::Whole(text.chars().next().map(|letter| Event::Key(keys::typed(letter)))),
            Err(error) if error.error_len().is_none() => Found::More,
            // No UTF-8: the byte that does not belong begins something else, unless it is the first.
            Err(_) if bytes.len() == 1 => Found::Whole(None),
            Err(_) => Found::Broken,
        },
    }
}

/// What follows ESC [.
fn csi(rest: &[u8], said: usize) -> Found {
    match rest {
        // Alt-[ has counted: parameters make it a report, a letter is typed.
        [first, ..] if said == 2 && !matches!(first, b'0'..=b'?') => Found::Keys,
        [b'['] => Found::More,
        [b'[', letter] => Found::Whole(keys::console(*letter)),
        [b'M'] | [b'M', _] | [b'M', _, _] => Found::More,
        [b'M', button, column, row] => Found::Whole(keys::old_mouse([*button, *column, *row])),
        b"200~" => Found::Paste,
        [parameters @ .., last] => match last {
            0x20..=0x3f => Found::More,
            0x40..=0x7e => Found::Whole(keys::csi(parameters, *last)),
            _ => Found::Broken,
        },
        [] => Found::More,
    }
}

/// What follows ESC ]: a number and a semicolon make it a report.
fn operating(rest: &[u8]) -> Found {
    match rest.split_last() {
        Some((b';', digits)) if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => Found::Report,
        Some((b'0'..=b'9', _)) | None => Found::More,
        Some((0x1b, _)) => Found::Broken,
        Some(_) => Found::Keys,
    }
}

/// What follows ESC P: parameters or intermediate bytes, and then a letter, make it a report.
fn device(rest: &[u8]) -> Found {
    match rest.split_last() {
        Some((0x21..=0x3f, _)) | None => Found::More,
        Some((0x40..=0x7e, before)) if !before.is_empty() => Found::Report,
        // The name of a terminal begins with a bar, and that is a letter here.
        Some((0x1b, _)) => Found::Broken,
        Some(_) => Found::Keys,
    }
}

/// Wakes the thread that reads the terminal.
static WAKE: Mutex<Option<PipeWriter>> = Mutex::new(None);

/// The thread that reads the terminal looks at its gate.
pub fn wake() {
    if let Some(pipe) = &mut *WAKE.lock().unwrap_or_else(PoisonError::into_inner) {
        let _ = pipe.write(b"!");
    }
}

/// A thread that reads the terminal: unlike a stream, a channel can be asked for what is there already. Sizes come too.
///
/// # Errors
/// When there is no thread, no pipe or no signal to be had.
pub fn listen(gate: Gate) -> io::Result<Input> {
    let (sender, receiver) = mpsc::channel(TURN);
    let (woken, wake) = io::pipe()?;
    *WAKE.lock().unwrap_or_else(PoisonError::into_inner) = Some(wake);
    let keys = sender.clone();
    std::thread::Builder::new().name("input".into()).spawn(move || read(&gate, &woken, &keys))?;
    let mut resized = signal(SignalKind::window_change())?;
    let sizes = sender.clone();
    tokio::spawn(async move {
        // The size itself is asked for when it is drawn.
        while resized.recv().await.is_some() && sizes.send((Instant::now().into(), Ok(Event::Resize(0, 0)))).await.is_ok() {}
    });
    // When the terminal is gone and no signal says so (another session's terminal, for instance), reading it may give
    // nothing for ever.
    let watch = move || {
        let gone = super::terminal::wait_for_hang_up();
        let _ = sender.blocking_send((Instant::now().into(), Err(gone)));
    };
    std::thread::Builder::new().name("hang-up".into()).spawn(watch)?;
    Ok(receiver)
}

fn read(gate: &Gate, woken: &PipeReader, events: &mpsc::Sender<Heard>) {
    let mut parser = Parser::default();
    let mut bytes = [0; 4096];
    loop {
        let came = wait([libc::STDIN_FILENO, woken.as_raw_fd()], parser.patience());
        if came[1] {
            let _ = (&mut &*woken).read(&mut [0; 64]);
        }
        gate.pass();
        let heard = match came[0] && wait([libc::STDIN_FILENO, -1], Some(Duration::ZERO))[0] {
            // Another may have read it at the gate.
            true => match read_keys(&mut bytes) {
                Ok(0) => return drop(events.blocking_send((Instant::now().into(), Err(io::ErrorKind::UnexpectedEof.into())))),
                Ok(count) => parser.feed(&bytes[..count], Instant::now()),
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => continue,
                Err(error) => return drop(events.blocking_send((Instant::now().into(), Err(error)))),
            },
            false => parser.tick(Instant::now()),
        };
        let now = Instant::now().into();
        for event in heard {
            if events.blocking_send((now, Ok(event))).is_err() {
                return;
            }
        }
    }
}

/// Standard input, without a buffer of this program's in between.
fn read_keys(bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is ours, and as long as is said.
    let count = unsafe { libc::read(libc::STDIN_FILENO, bytes.as_mut_ptr().cast(), bytes.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Which of them have something to read (or are gone), at most so long.
fn wait(fds: [RawFd; 2], longest: Option<Duration>) -> [bool; 2] {
    let mut polled = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let timeout = longest.map_or(-1, |longest| i32::try_from(longest.as_millis()).unwrap_or(i32::MAX));
    // SAFETY: two valid pollfds of ours; a negative descriptor is left alone.
    let count = unsafe { libc::poll(polled.as_mut_ptr(), 2, timeout) };
    polled.map(|one| count > 0 && one.revents != 0)
}

#[cfg(test)]
mod tests;
