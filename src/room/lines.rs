//! The room without a screen: the same state and the same updates as behind it, for `--plain` and `--once`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use crate::batch::{RequestId, UserId};
use crate::engine::{EngineHandle, Event, RunState, Snapshot};
use crate::ui::bots;
use crate::ui::desk::Desk;
use crate::ui::keymap::Action;
use crate::ui::run::Before;
use crate::ui::state::{Options, State};
use crate::ui::update::{Effect, Msg, act, ask, update};

/// An engine and the people at it.
pub(super) struct Lines {
    pub state: State,
    pub engine: EngineHandle,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    requests: HashMap<UserId, (RequestId, mpsc::Receiver<Event>)>,
    desk: Desk,
    opened: Instant,
}

impl Lines {
    pub fn new(engine: EngineHandle, options: Options, seed: u64, before: Before) -> Lines {
        let mut snapshots = engine.snapshots();
        let first = snapshots.borrow_and_update().clone();
        let mut state = State::new(options, first, seed);
        let Before { mut desk, least } = before;
        desk.begin(&mut state, least);
        for pane in &state.panes {
            engine.name(pane.person.user, &pane.person.name);
        }
        let wanted = state.options.bots;
        let named = bots::set_number(&mut state, wanted);
        let mut lines = Lines { state, engine, snapshots, requests: HashMap::new(), desk, opened: Instant::now() };
        named.into_iter().for_each(|effect| lines.carry_out(effect));
        lines
    }

    /// Sends a text as the person of a pane, as it is: no slash in it is a command. What the engine says to it comes with
    /// `hear`.
    pub fn send(&mut self, pane: usize, text: &str) {
        self.state.focus = pane;
        self.state.now = self.opened.elapsed();
        for effect in ask(&mut self.state, pane, text) {
            self.carry_out(effect);
        }
        self.desk.keep(&mut self.state);
    }

    /// Does what a key of the screen would, in the pane that has the focus.
    pub fn act(&mut self, action: Action) {
        self.state.now = self.opened.elapsed();
        for effect in act(&mut self.state, action) {
            self.carry_out(effect);
        }
        self.desk.keep(&mut self.state);
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Submit { user, messages, sampling, .. } => {
                let request = self.engine.chat(user, &messages, sampling);
                self.requests.insert(user, request);
            }
            Effect::Cancel(user) => {
                if let Some((id, _)) = self.requests.get(&user) {
                    self.engine.cancel(*id);
                }
            }
            Effect::Abandon(user) => {
                if let Some((id, _)) = self.requests.remove(&user) {
                    self.engine.cancel(id);
                }
            }
            Effect::Pause(paused) => self.engine.pause(paused),
            Effect::Step(steps) => self.engine.step(steps),
            Effect::SetPace(pace) => self.engine.set_pace(pace),
            Effect::Name { user, name } => self.engine.name(user, &name),
            // The rest is of a screen.
            _ => {}
        }
    }

    /// Waits for news of the engine, or of what is kept. False: the engine has ended.
    pub async fn news(&mut self) -> bool {
        let (due, now) = (bots::next(&self.state), self.opened.elapsed());
        let bot_due = async {
            match due {
                Some(due) => tokio::time::sleep(due.saturating_sub(now)).await,
                None => std::future::pending().await,
            }
        };
        let msg = tokio::select! {
            () = bot_due => Msg::Tick,
            changed = self.snapshots.changed() => return changed.is_ok(),
            msg = self.desk.news() => msg,
        };
        self.take(msg);
        true
    }

    /// Takes in what the engine has said so far, and gives it, in order for each person.
    pub fn hear(&mut self) -> Vec<(UserId, Event)> {
        let snapshot = self.snapshots.borrow_and_update().clone();
        self.take(Msg::Snapshot(snapshot));
        let mut heard = Vec::new();
        let mut users: Vec<UserId> = self.requests.keys().copied().collect();
        users.sort_by_key(|user| user.0);
        for user in users {
            while let Some((_, events)) = self.requests.get_mut(&user) {
                match events.try_recv() {
                    Ok(event) => {
                        if matches!(event, Event::Finished(_) | Event::Rejected(_)) {
                            self.requests.remove(&user);
                        }
                        self.take(Msg::Engine(user, event.clone()));
                        heard.push((user, event));
                    }
                    Err(mpsc::error::TryRecvError::Empty) => break,
                    Err(mpsc::error::TryRecvError::Disconnected) => {
                        self.requests.remove(&user);
                        self.take(Msg::Lost(user));
                    }
                }
            }
        }
        heard
    }

    fn take(&mut self, msg: Msg) {
        let now = self.opened.elapsed();
        for effect in update(&mut self.state, msg, now) {
            self.carry_out(effect);
        }
        self.desk.keep(&mut self.state);
    }

    pub fn request_of(&self, user: UserId) -> Option<RequestId> {
        self.requests.get(&user).map(|(id, _)| *id)
    }

    /// No person is being answered, or nobody will be any more; bots never end.
    pub fn quiet(&self) -> bool {
        let asked = |user: &UserId| self.state.panes.iter().any(|pane| pane.person.user == *user);
        !self.requests.keys().any(asked) || self.state.snapshot.state == RunState::Stopped
    }

    /// Stops the answers of all people; their ends are still to come.
    pub fn cancel_all(&self) {
        let requests = self.state.panes.iter().filter_map(|pane| self.request_of(pane.person.user));
        requests.for_each(|id| self.engine.cancel(id));
    }

    pub fn end(mut self) {
        self.desk.keep(&mut self.state);
        if !self.desk.end() {
            crate::commands::complain(format_args!("the last words may not be kept"));
        }
        self.engine.shutdown(Duration::ZERO);
        if !self.engine.recorded(Duration::from_secs(5)) {
            crate::commands::complain(format_args!("the recording may lack its end: its disk is slow"));
        }
    }
}
