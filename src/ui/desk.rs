//! The screen's writing desk: its session in the store, the thread that writes, and questions to what was written before.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::keep::{Back, Keep, OldPane};
use super::keeping::Unkept;
use super::seek::Seek;
use super::state::State;
use super::update::Msg;
use super::update::history::{ChatRow, Opened};
use super::words::say;
use crate::batch::UserId;
use crate::store::{Keeper, Keeping, Known, Missing, Store, StoreError, Write};

/// How long the end of the program waits for the disk.
const LAST: Duration = Duration::from_secs(5);
/// Conversations that the screen lists.
const LISTED: usize = 200;

/// How long what the screen has said may take to reach the disk before something else is read.
const FIRST: Duration = Duration::from_millis(500);

/// What is kept, and where.
#[derive(Debug)]
pub struct Desk {
    keeper: Option<Keeper>,
    path: Option<PathBuf>,
    news: Option<watch::Receiver<Keeping>>,
    keep: Keep,
    /// The session as it was left, until it is on the screen.
    old: Option<Old>,
    /// Nothing is to be kept, and that is to be said.
    off: bool,
    /// What was kept is to be read, and nothing to be written.
    reading: bool,
    /// Everything is to be told once more: the file is another.
    anew: bool,
    /// Why nothing is kept, when it was to be.
    fault: Option<Arc<StoreError>>,
    seek: Arc<Seek>,
    /// Files that are being written.
    exports: Arc<AtomicUsize>,
    answers: mpsc::Receiver<Msg>,
    answer: mpsc::Sender<Msg>,
}

#[derive(Debug)]
struct Old {
    panes: Vec<OldPane>,
    focus: usize,
    /// Another program has the last session.
    other: bool,
}

impl Desk {
    /// Nothing is kept.
    pub fn none() -> Desk {
        let (answer, answers) = mpsc::channel(16);
        Desk {
            keeper: None,
            path: None,
            news: None,
            keep: Keep::default(),
            old: None,
            off: false,
            reading: false,
            anew: false,
            fault: None,
            seek: Arc::default(),
            exports: Arc::default(),
            answers,
            answer,
        }
    }

    /// The same, because the person wants it so.
    pub fn off() -> Desk {
        Desk { off: true, ..Desk::none() }
    }

    /// The last session (unless a `fresh` one is wanted) and all earlier ones to be read, and nothing to be written.
    pub fn to_read(path: PathBuf, fresh: bool) -> Desk {
        let read = || -> Result<Old, StoreError> {
            let store = Store::open_to_read(&path)?;
            let (rows, focus) = if fresh { (Vec::new(), 0) } else { store.newest_panes()? };
            let panes = rows.into_iter().map(|(id, row)| OldPane { row, chat: id.map(|id| store.load(id)) }).collect();
            Ok(Old { panes, focus, other: false })
        };
        let desk = Desk { reading: true, ..Desk::none() };
        match read() {
            Ok(old) => Desk { old: Some(old), path: Some(path), ..desk },
            // There is nothing yet, and that is no fault of anybody's.
            Err(StoreError { fault: crate::store::Fault::Missing, .. }) => desk,
            Err(error) => Desk { fault: Some(Arc::new(error)), ..desk },
        }
    }

    /// Opens the store, and the last session unless a `fresh` one is wanted. Waits for the disk, and for a lock as long as is
    /// usual. When it cannot be had, the screen says why.
    pub fn open(path: PathBuf, fresh: bool) -> Desk {
        match Desk::try_open(path.clone(), fresh) {
            Ok(desk) => desk,
            Err(error) if error.may_pass() => {
                let error = Arc::new(error);
                match Keeper::later(path.clone(), error.clone()) {
                    Ok(keeper) => {
                        let news = Some(keeper.news());
                        Desk { keeper: Some(keeper), path: Some(path), news, fault: Some(error), ..Desk::none() }
                    }
                    Err(_) => Desk { fault: Some(error), ..Desk::none() },
                }
            }
            Err(error) => Desk { fault: Some(Arc::new(error)), ..Desk::none() },
        }
    }

    fn try_open(path: PathBuf, fresh: bool) -> Result<Desk, StoreError> {
        let mut store = Store::open(&path, Missing::Create)?;
        let session = store.open_session(fresh)?;
        let mut panes = Vec::with_capacity(session.panes.len());
        for (id, row) in &session.panes {
            // A conversation of this session may be open in a later one by now.
            let chat = match id.map(|id| store.take(id, session.id)) {
                Some(Err(error)) if !error.is_of_one() => return Err(error),
                taken => taken.map(|taken| taken.map(|(chat, _)| chat)),
            };
            panes.push(OldPane { row: row.clone(), chat });
        }
        let old = Old { panes, focus: session.focus, other: session.other };
        let keeper = Keeper::start(store, session, Known::new());
        let keeper = keeper.map_err(|error| StoreError::new(&path, crate::store::Fault::Folder(error)))?;
        let news = Some(keeper.news());
        Ok(Desk { keeper: Some(keeper), path: Some(path), news, old: Some(old), ..Desk::none() })
    }

    /// Puts the last session on the screen, and says what was done. `least`: panes that were asked for.
    pub fn begin(&mut self, state: &mut State, least: usize) {
        let theme = state.options.theme;
        state.kept = self.keeper.is_some();
        state.readable = self.path.is_some();
        if self.reading
            && let Some(fault) = self.fault.take()
        {
            return state.complain(fault.words(theme.lang()));
        }
        if let (Some(fault), Some(_)) = (&self.fault, &self.keeper) {
            let why = fault.words(theme.lang());
            self.fault = None;
            state.unkept = Some(Unkept::Late(None));
            return state.complain(say!(
                theme,
                "{}. It is tried again; until then nothing is kept, and the last session stays in the history.",
                why
            ));
        }
        if let Some(fault) = self.fault.take() {
            state.unkept = Some(Unkept::Never);
            return state.complain(say!(theme, "{}. Nothing of this session is kept.", fault.words(theme.lang())));
        }
        if self.off {
            state.unkept = Some(Unkept::Off);
            return state.say(theme.tr("history is off: nothing of this session is kept"));
        }
        let Some(old) = self.old.take() else { return };
        let (many, asked) = (old.panes.len(), least);
        if many > 0 {
            let Back { known, lost } = state.restore(old.panes, old.focus, asked);
            for (key, id) in known {
                self.know(key, id);
            }
            if let Some(why) = lost.first() {
                let what = "{} conversation of the last session cannot be opened again and stays in the history";
                let many = "{} conversations of the last session cannot be opened again and stay in the history";
                return state.complain(say!(theme, "{}: {}", theme.plural(lost.len(), what, many), why));
            }
            let panes =
                theme.plural(many, "{} pane of the last session is open again", "{} panes of the last session are open again");
            match self.reading {
                true => state.say(say!(theme, "{} (to read only: nothing is sent or changed)", panes)),
                false => state.say(say!(theme, "{} (--new begins afresh)", panes)),
            }
        } else if old.other {
            state.say(theme.tr("another batchroom has the last session open: this is a new one"));
        }
    }

    fn write(&self, write: Write) {
        if let Some(keeper) = &self.keeper {
            keeper.write(write);
        }
    }

    /// Sends off whatever has changed.
    pub fn keep(&mut self, state: &mut State) {
        match &self.keeper {
            Some(keeper) => {
                let writes = match std::mem::take(&mut self.anew) {
                    true => self.keep.anew(state),
                    false => self.keep.writes(state),
                };
                // As it is now, whoever asks next.
                let until = || keeper.kept_until().map(crate::store::clock_time);
                state.unkept = match &state.unkept {
                    Some(Unkept::Ended(None)) => Some(Unkept::Ended(until())),
                    Some(Unkept::Late(None)) => Some(Unkept::Late(until())),
                    None if keeper.is_late() => Some(Unkept::Late(until())),
                    other => other.clone(),
                };
                writes.into_iter().for_each(|write| self.write(write));
            }
            None => {
                drop(state.take_changes());
                state.parted.clear();
            }
        }
    }

    /// The next thing that the screen is to hear.
    pub async fn news(&mut self) -> Msg {
        let changed = async {
            match &mut self.news {
                Some(news) => match news.changed().await {
                    Ok(()) => {
                        let keeping = news.borrow_and_update().clone();
                        self.anew |= matches!(keeping, Keeping::Moved | Keeping::Begun);
                        Msg::Keeping(keeping)
                    }
                    Err(_) => std::future::pending().await,
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            msg = changed => msg,
            Some(msg) = self.answers.recv() => msg,
        }
    }

    /// Looks for conversations: the newest, or those that have a text. The answer comes as news.
    pub fn find(&self, text: String) {
        let Some(path) = self.path.clone() else { return };
        if !self.seek.ask(text) {
            return;
        }
        let (answer, seek, reading) = (self.answer.clone(), self.seek.clone(), self.reading);
        tokio::task::spawn_blocking(move || {
            while let Some(text) = seek.next() {
                let found = look(&path, &text, &seek, reading).map_err(Arc::new);
                if !seek.is_late() {
                    let _ = answer.blocking_send(Msg::Chats { text, found });
                }
            }
        });
    }

    /// Brings a conversation for a person's pane. One that another program has open comes as a copy.
    pub fn fetch(&mut self, user: UserId, id: i64) {
        if let (Some(path), true) = (self.path.clone(), self.reading) {
            let answer = self.answer.clone();
            tokio::task::spawn_blocking(move || {
                let chat = Store::open_to_read(&path).and_then(|store| store.load(id)).map_err(Arc::new);
                let opened = chat.map(|chat| Box::new(Opened::Taken { chat, copy: false }));
                let _ = answer.blocking_send(Msg::ChatOpened { user, opened });
            });
            return;
        }
        let (Some(path), Some(keeper)) = (self.path.clone(), &self.keeper) else { return };
        let (session, flusher) = (keeper.session(), keeper.flusher());
        let answer = self.answer.clone();
        tokio::task::spawn_blocking(move || {
            // What this screen has said of it comes first.
            flusher.flush(FIRST);
            let opened = bring(&path, id, session).map_err(Arc::new);
            let _ = answer.blocking_send(Msg::ChatOpened { user, opened: opened.map(Box::new) });
        });
    }

    /// Writes a file; a slow disk holds up nobody. What came of it comes as news.
    pub fn export(&self, path: String, text: String, replace: bool) {
        let (answer, exports) = (self.answer.clone(), self.exports.clone());
        exports.fetch_add(1, Ordering::SeqCst);
        tokio::task::spawn_blocking(move || {
            let saved = super::outside::write(&path, &text, replace);
            exports.fetch_sub(1, Ordering::SeqCst);
            let _ = answer.blocking_send(Msg::Saved(saved));
        });
    }

    /// A conversation of the store is on the screen now.
    pub fn know(&mut self, key: u64, id: i64) {
        self.keep.know(key);
        self.write(Write::Known { chat: key, id });
    }

    /// Writes what is left. False: some of it could not be written.
    pub fn end(mut self) -> bool {
        // Half a file is no export.
        const TURN: Duration = Duration::from_millis(10);
        let mut left = LAST;
        while self.exports.load(Ordering::SeqCst) > 0 && !left.is_zero() {
            std::thread::sleep(TURN);
            left = left.saturating_sub(TURN);
        }
        self.keeper.take().is_none_or(|keeper| keeper.finish(LAST))
    }
}

fn look(path: &std::path::Path, text: &str, seek: &Seek, reading: bool) -> Result<Vec<ChatRow>, StoreError> {
    let store = if reading { Store::open_to_read(path)? } else { Store::open(path, Missing::Refuse)? };
    if !seek.begin(store.stopper()) {
        return Ok(Vec::new());
    }
    let row = |line: crate::store::Line, excerpt: Option<String>| ChatRow {
        id: line.id,
        person: line.person,
        date: crate::store::date(line.updated),
        draft: line.title.is_empty() && line.draft.is_some(),
        words: excerpt.unwrap_or(if line.title.is_empty() { line.draft.unwrap_or_default() } else { line.title }),
        messages: line.messages,
    };
    if text.trim().is_empty() {
        return Ok(store.list(LISTED)?.into_iter().map(|line| row(line, None)).collect());
    }
    Ok(store.search(text, LISTED)?.into_iter().map(|hit| row(hit.line, Some(hit.excerpt))).collect())
}

fn bring(path: &std::path::Path, id: i64, session: i64) -> Result<Opened, StoreError> {
    let mut store = Store::open(path, Missing::Refuse)?;
    if let Some(place) = store.place_of(id, session)? {
        return Ok(Opened::Here { place });
    }
    let (chat, copy) = store.take(id, session)?;
    Ok(Opened::Taken { chat, copy })
}
