//! The screen's writing desk: its session in the store, the thread that writes, and questions to what was written before.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::keep::{Keep, OldPane};
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
    /// Why nothing is kept, when it was to be.
    fault: Option<Arc<StoreError>>,
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
        Desk { keeper: None, path: None, news: None, keep: Keep::default(), old: None, off: false, fault: None, answers, answer }
    }

    /// The same, because the person wants it so.
    pub fn off() -> Desk {
        Desk { off: true, ..Desk::none() }
    }

    /// Opens the store, and the last session unless a `fresh` one is wanted. Waits for the disk, and for a lock as long as is
    /// usual. When it cannot be had, the screen says why.
    pub fn open(path: PathBuf, fresh: bool) -> Desk {
        match Desk::try_open(path, fresh) {
            Ok(desk) => desk,
            Err(error) => Desk { fault: Some(Arc::new(error)), ..Desk::none() },
        }
    }

    fn try_open(path: PathBuf, fresh: bool) -> Result<Desk, StoreError> {
        let mut store = Store::open(&path, Missing::Create)?;
        let session = store.open_session(fresh)?;
        let load = |(id, row): &(Option<i64>, crate::store::PaneRow)| {
            let chat = id.map(|id| store.load(id)).transpose()?;
            Ok(OldPane { row: row.clone(), chat })
        };
        let panes = session.panes.iter().map(load).collect::<Result<Vec<_>, StoreError>>()?;
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
        if let Some(fault) = self.fault.take() {
            return state.complain(say!(theme, "{}. Nothing of this session is kept.", fault.words(theme.lang())));
        }
        if self.off {
            return state.say(theme.tr("history is off: nothing of this session is kept"));
        }
        let Some(old) = self.old.take() else { return };
        let (many, asked) = (old.panes.len(), least);
        if many > 0 {
            for (key, id) in state.restore(old.panes, old.focus, asked) {
                self.keep.know(key);
                self.write(Write::Known { chat: key, id });
            }
            let panes =
                theme.plural(many, "{} pane of the last session is open again", "{} panes of the last session are open again");
            state.say(say!(theme, "{} (--new begins afresh)", panes));
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
        match self.keeper {
            Some(_) => {
                let writes = self.keep.writes(state);
                writes.into_iter().for_each(|write| self.write(write));
            }
            None => drop(state.take_changes()),
        }
    }

    /// The next thing that the screen is to hear.
    pub async fn news(&mut self) -> Msg {
        let changed = async {
            match &mut self.news {
                Some(news) => match news.changed().await {
                    Ok(()) => Msg::Keeping(news.borrow_and_update().clone()),
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
        let answer = self.answer.clone();
        tokio::task::spawn_blocking(move || {
            let found = look(&path, &text).map_err(Arc::new);
            let _ = answer.blocking_send(Msg::Chats { text, found });
        });
    }

    /// Brings a conversation for a person's pane. One that another program has open comes as a copy.
    pub fn fetch(&mut self, user: UserId, id: i64) {
        let (Some(path), Some(keeper)) = (self.path.clone(), &self.keeper) else { return };
        // What this screen has said of it comes first.
        let session = keeper.session();
        keeper.flush(Duration::from_millis(500));
        let answer = self.answer.clone();
        tokio::task::spawn_blocking(move || {
            let opened = bring(&path, id, session).map_err(Arc::new);
            let _ = answer.blocking_send(Msg::ChatOpened { user, opened: opened.map(Box::new) });
        });
    }

    /// A conversation of the store is on the screen now.
    pub fn know(&mut self, key: u64, id: i64) {
        self.keep.know(key);
        self.write(Write::Known { chat: key, id });
    }

    /// Writes what is left. False: some of it could not be written.
    pub fn end(mut self) -> bool {
        self.keeper.take().is_none_or(|keeper| keeper.finish(LAST))
    }
}

fn look(path: &std::path::Path, text: &str) -> Result<Vec<ChatRow>, StoreError> {
    let store = Store::open(path, Missing::Refuse)?;
    let row = |line: crate::store::Line, excerpt: Option<String>| ChatRow {
        id: line.id,
        person: line.person,
        date: crate::store::date(line.updated),
        words: excerpt.unwrap_or(line.title),
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
    if !store.open_elsewhere(id, Some(session))? {
        return Ok(Opened::Taken { chat: store.load(id)?, copy: false });
    }
    let mut chat = store.load(id)?;
    chat.id = store.insert(&chat, Some(session))?;
    Ok(Opened::Taken { chat, copy: true })
}
