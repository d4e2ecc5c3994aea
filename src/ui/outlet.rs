//! Frames on their way to the terminal, on a thread of their own: a terminal that takes nothing (a slow line, a stopped
//! reader) holds up frames and nothing else. One frame is on its way at most; the next is drawn when it has been taken.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

/// Bytes written at once: what is not written yet can be given up.
const PIECE: usize = 512;
/// The rest of the frame on its way is given up.
static CUT: AtomicBool = AtomicBool::new(false);
/// A frame is on its way: a program has one terminal, and whoever gives it back on a panic has no outlet to ask.
static ON_ITS_WAY: AtomicBool = AtomicBool::new(false);

/// What is drawn, until it is sent.
#[derive(Clone, Debug, Default)]
pub struct Frame(Arc<Mutex<Vec<u8>>>);

impl Frame {
    fn take(&self) -> Vec<u8> {
        self.0.lock().map(|mut bytes| std::mem::take(&mut *bytes)).unwrap_or_default()
    }
}

impl Write for Frame {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Ok(mut frame) = self.0.lock() {
            frame.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why the terminal takes nothing any more: the error's number.
type Gone = Option<i32>;

/// The thread that writes, from outside.
#[derive(Debug)]
pub struct Outlet {
    frame: Frame,
    bytes: SyncSender<Vec<u8>>,
    /// (A frame is on its way, the terminal is gone.)
    state: watch::Receiver<(bool, Gone)>,
    busy: watch::Sender<(bool, Gone)>,
}

impl Outlet {
    /// # Errors
    /// When there is no standard output, or no thread to be had.
    pub fn open() -> io::Result<Outlet> {
        // A descriptor of its own: nobody who wants standard output waits for a frame.
        let mut out = crate::stray::terminal()?;
        let (bytes, frames) = mpsc::sync_channel::<Vec<u8>>(1);
        let (busy, state) = watch::channel((false, None));
        let done = busy.clone();
        let write = move || {
            for frame in frames {
                let result = write_in_pieces(&mut out, &frame);
                let gone = result.err().map(|error| error.raw_os_error().unwrap_or(libc::EIO));
                ON_ITS_WAY.store(false, Ordering::SeqCst);
                let _ = done.send((false, gone));
                if gone.is_some() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("outlet".into()).spawn(write)?;
        Ok(Outlet { frame: Frame::default(), bytes, state, busy })
    }

    /// Where a frame is written.
    pub fn frame(&self) -> Frame {
        self.frame.clone()
    }

    /// Whether a frame would be sent at once.
    pub fn is_idle(&self) -> bool {
        !self.state.borrow().0
    }

    /// Until a frame would be sent at once. Borrows nothing.
    pub fn idle(&self) -> impl Future<Output = ()> + use<> {
        let mut state = self.state.clone();
        async move {
            let _ = state.wait_for(|(busy, _)| !busy).await;
        }
    }

    /// Sends what was written into the frame.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn send(&self) -> io::Result<()> {
        if let Some(errno) = self.state.borrow().1 {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let bytes = self.frame.take();
        if bytes.is_empty() {
            return Ok(());
        }
        let _ = self.busy.send((true, None));
        ON_ITS_WAY.store(true, Ordering::SeqCst);
        self.bytes.send(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EIO))
    }
}

fn write_in_pieces(out: &mut File, frame: &[u8]) -> io::Result<()> {
    for piece in frame.chunks(PIECE) {
        if CUT.load(Ordering::SeqCst) {
            break;
        }
        out.write_all(piece)?;
    }
    Ok(())
}

/// Gives up the frame on its way, if it is not taken at once, with what the line still holds of it, and waits for the piece that
/// is being written, at most so long. The terminal may be left in the middle of a sequence. False when it takes nothing at all.
pub fn cut(longest: Duration) -> bool {
    const AT_ONCE: Duration = Duration::from_millis(200);
    if drained(AT_ONCE) {
        return true;
    }
    CUT.store(true, Ordering::SeqCst);
    super::terminal::forget_unread();
    let taken = drained(longest);
    CUT.store(false, Ordering::SeqCst);
    taken
}

/// Waits until the terminal has taken the frame on its way, if there is one, at most so long. False when it has not.
pub fn drained(longest: Duration) -> bool {
    const LOOK: Duration = Duration::from_millis(2);
    let mut left = longest;
    while ON_ITS_WAY.load(Ordering::SeqCst) {
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(LOOK.min(left));
        left = left.saturating_sub(LOOK);
    }
    true
}
