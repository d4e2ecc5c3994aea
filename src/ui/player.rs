//! The event loop of a replay: keys, signals and the clock in; frames of the recording out.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::burst::into_messages;
use super::keyboard::{self, Heard, Input};
use super::replay::{Feed, LONGEST_REST, Reel, clear, seat};
use super::run::{HUNG_UP, Signals, draw};
use super::state::{Options, State};
use super::terminal::Screen;
use super::update::{Effect, Msg, update};
use super::view::screen::Kept;
use crate::replay::{Replay, ReplayError};

/// Opens the screen on a recording, at a frame, and stays until the person leaves.
///
/// # Errors
/// When the terminal cannot be had, or is lost in a way that no signal says.
pub async fn play(mut replay: Replay, frame: usize, options: Options) -> anyhow::Result<ExitCode> {
    let fps = options.fps.max(1);
    let mut signals = Signals::listen()?;
    let mut state = State::new(options, Arc::new(replay.snapshot()), 0);
    let mut reel = Reel::new(replay.steps(), replay.cut().cloned());
    reel.others = seat(&mut state, &replay.people());
    state.replay = Some(reel);
    let screen = Screen::take()?;
    let mut player = Player {
        state,
        replay,
        shown: Shown::default(),
        screen,
        opened: Instant::now(),
        at: Duration::ZERO,
        ticked: Instant::now(),
        frame: Duration::from_secs(1) / fps,
        next_frame: Instant::now(),
        dirty: true,
        leave: None,
    };
    player.seek(frame)?;
    if player.state.mouse {
        player.screen.mouse(true)?;
    }
    let mut input = keyboard::listen(super::outside::Gate::default())?;
    while player.leave.is_none() {
        player.turn(&mut input, &mut signals).await?;
        if player.dirty && player.screen.is_idle() && Instant::now() >= player.next_frame && player.leave.is_none() {
            player.draw()?;
        }
    }
    Ok(ExitCode::from(player.leave.unwrap_or(0)))
}

/// What of a recording is in the panes.
#[derive(Debug, Default)]
pub struct Shown {
    /// The frame whose conversations they have.
    frame: Option<usize>,
    feed: Feed,
}

impl Shown {
    /// Puts a frame on the screen.
    ///
    /// # Errors
    /// When the recording cannot be followed to there.
    pub fn seek(&mut self, state: &mut State, replay: &mut Replay, frame: usize) -> Result<(), ReplayError> {
        replay.seek(frame)?;
        let frame = replay.frame();
        if self.frame.is_none_or(|shown| shown > frame) {
            clear(state);
            *self = Shown::default();
        }
        self.feed.take(state, replay.said(self.frame, frame));
        self.frame = Some(frame);
        state.snapshot = Arc::new(replay.snapshot());
        if let Some(reel) = &mut state.replay {
            (reel.frame, reel.time) = (frame, replay.time(frame));
        }
        super::machine::sought(state);
        Ok(())
    }
}

struct Player {
    state: State,
    replay: Replay,
    shown: Shown,
    screen: Screen,
    opened: Instant,
    /// Engine time of the recording, and when it was that.
    at: Duration,
    ticked: Instant,
    frame: Duration,
    next_frame: Instant,
    dirty: bool,
    /// Exit code.
    leave: Option<u8>,
}

impl Player {
    async fn turn(&mut self, input: &mut Input, signals: &mut Signals) -> anyhow::Result<()> {
        let playing = self.state.replay.as_ref().is_some_and(|reel| reel.playing);
        let idle = self.screen.idle();
        let frame_due = async {
            match self.dirty || playing {
                true => {
                    idle.await;
                    sleep_until(self.next_frame).await;
                }
                false => std::future::pending().await,
            }
        };
        let notice_over = async {
            match &self.state.notice {
                Some(notice) => sleep_until(self.opened + notice.until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = signals.terminate.recv() => self.leave = Some(128 + 15),
            _ = signals.interrupt.recv() => self.leave = Some(128 + 2),
            _ = signals.hang_up.recv() => self.leave = Some(HUNG_UP),
            _ = signals.stop.recv() => self.suspend(false)?,
            _ = signals.go_on.recv() => {
                self.screen.take_again()?;
                (self.dirty, self.ticked) = (true, Instant::now());
            }
            event = input.recv() => self.input(event, input)?,
            () = frame_due => if playing { self.advance()? },
            () = notice_over => self.take(Msg::Tick)?,
        }
        Ok(())
    }

    fn input(&mut self, first: Option<Heard>, input: &mut Input) -> anyhow::Result<()> {
        let mut burst = Vec::new();
        let mut next = Some(first);
        while let Some(heard) = next {
            let Some((_, Ok(event))) = heard else {
                // The terminal is gone.
                self.leave = Some(HUNG_UP);
                return Ok(());
            };
            burst.push(event);
            next = input.try_recv().ok().map(Some);
        }
        for msg in into_messages(burst, false) {
            match msg {
                Some(msg) => self.take(msg)?,
                None => self.dirty = true,
            }
        }
        Ok(())
    }

    fn take(&mut self, msg: Msg) -> anyhow::Result<()> {
        self.dirty = true;
        let was_playing = self.state.replay.as_ref().is_some_and(|reel| reel.playing);
        for effect in update(&mut self.state, msg, self.opened.elapsed()) {
            match effect {
                Effect::Seek(frame) => self.seek(frame)?,
                Effect::Redraw => self.screen.forget()?,
                Effect::Suspend => self.suspend(true)?,
                Effect::Quit => self.leave = Some(0),
                Effect::Mouse(ours) => self.screen.mouse(ours)?,
                Effect::Copy(text) => self.screen.copy(&text)?,
                Effect::LoadColours => {
                    let highlighter = Arc::new(super::rich::code::Highlighter::load());
                    let _ = update(&mut self.state, Msg::Colours(highlighter), self.opened.elapsed());
                }
                // The others are for an engine, and there is none.
                _ => {}
            }
        }
        if !was_playing {
            self.ticked = Instant::now();
        }
        Ok(())
    }

    /// Goes on by the time that has passed, times the speed.
    fn advance(&mut self) -> anyhow::Result<()> {
        let Some(reel) = &self.state.replay else { return Ok(()) };
        let passed = self.ticked.elapsed().mul_f64(reel.speed());
        self.ticked = Instant::now();
        let (frame, steps) = (reel.frame, reel.steps);
        self.at = self.at.saturating_add(passed);
        if frame < steps {
            // Nobody wants to wait through the hours in which nobody asked anything.
            self.at = self.at.max(self.replay.time(frame + 1).saturating_sub(LONGEST_REST));
        }
        let due = self.replay.frame_at(self.at).max(frame);
        if due > frame {
            let at = self.at;
            self.seek(due)?;
            self.at = at;
        }
        if due == steps
            && let Some(reel) = &mut self.state.replay
        {
            reel.playing = false;
        }
        self.dirty = true;
        Ok(())
    }

    fn seek(&mut self, frame: usize) -> anyhow::Result<()> {
        self.shown.seek(&mut self.state, &mut self.replay, frame)?;
        self.at = self.replay.time(self.replay.frame());
        Ok(())
    }

    fn suspend(&mut self, whole_group: bool) -> std::io::Result<()> {
        self.dirty = true;
        self.screen.suspend(whole_group)?;
        self.ticked = Instant::now();
        Ok(())
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        if draw(&mut self.screen, &mut self.state, &mut Kept::default())? {
            (self.dirty, self.next_frame) = (false, Instant::now() + self.frame);
        } else {
            self.leave = Some(HUNG_UP);
        }
        Ok(())
    }
}
