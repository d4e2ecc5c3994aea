//! `batchroom --plain`: lines in, lines out. Nothing is drawn, nothing moves, nothing is written over: for screen readers,
//! terminals that cannot place text, and pipes. Each line says who speaks, and is whole before it is written.

mod speech;

use std::collections::VecDeque;
use std::io::{BufRead, ErrorKind, IsTerminal, Read, Write};
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::lines::Lines;
use crate::batch::UserId;
use crate::commands::INTERRUPTED;
use crate::engine::{Event, FinishReason, Pace, RunState};
use crate::ui::format::time;
use crate::ui::keymap::Action;
use crate::ui::text::{clean, one_line};
use crate::ui::theme::Theme;
use crate::ui::told::fault;
use crate::ui::words::say;
use speech::Speech;

/// Bytes of one line of input.
const LINE_MAX: u64 = 256 << 10;
/// Messages that wait for one person's answer to end.
const AHEAD: usize = 64;
/// Steps of one `/step`.
const STEPS_MAX: u32 = 10_000;

struct Plain {
    lines: Lines,
    theme: Theme,
    /// What each pane's answer has said and is not written yet.
    speech: Vec<Speech>,
    /// What each pane is still to send.
    ahead: Vec<VecDeque<String>>,
    /// Which panes have a draft of an earlier session: nothing here writes drafts.
    drafts: Vec<bool>,
    /// What is typed is on the terminal already.
    echo: bool,
    over: Option<u8>,
}

/// Stays until the input ends and all is answered, or the person leaves.
pub(super) async fn plain(lines: Lines) -> anyhow::Result<ExitCode> {
    let panes = lines.state.panes.len();
    let mut plain = Plain {
        theme: lines.state.options.theme,
        drafts: lines.state.panes.iter().map(|pane| !pane.editor.is_empty()).collect(),
        lines,
        speech: vec![Speech::default(); panes],
        ahead: vec![VecDeque::new(); panes],
        echo: !std::io::stdin().is_terminal(),
        over: None,
    };
    let result = plain.run().await;
    plain.lines.end();
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        result => result.map(|()| ExitCode::from(plain.over.unwrap_or(0))).map_err(Into::into),
    }
}

/// Lines of standard input, one at a time; the channel's end is the input's.
fn input() -> std::io::Result<mpsc::Receiver<std::io::Result<String>>> {
    let (sender, receiver) = mpsc::channel(1);
    let read = move || {
        let stdin = std::io::stdin();
        loop {
            let mut bytes = Vec::new();
            let line = match stdin.lock().take(LINE_MAX).read_until(b'\n', &mut bytes) {
                Ok(0) => return,
                Ok(_) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
                Err(error) => Err(error),
            };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("input".into()).spawn(read)?;
    Ok(receiver)
}

impl Plain {
    async fn run(&mut self) -> std::io::Result<()> {
        self.welcome()?;
        self.notice()?;
        let mut input = input()?;
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let mut hang_up = signal(SignalKind::hangup())?;
        let mut open = true;
        while self.over.is_none() && (open || !self.done()) {
            // A message for somebody who has as many waiting as may be is not even read.
            let room = self.ahead.iter().all(|ahead| ahead.len() < AHEAD);
            tokio::select! {
                _ = interrupt.recv() => self.interrupted()?,
                _ = terminate.recv() => self.over = Some(128 + 15),
                _ = hang_up.recv() => self.over = Some(128 + 1),
                line = input.recv(), if open && room => match line {
                    Some(line) => self.take(&line?)?,
                    None => open = false,
                },
                news = self.lines.news() => if !news { self.over = Some(1) },
            }
            self.hear()?;
        }
        Ok(())
    }

    fn done(&self) -> bool {
        self.lines.quiet() && self.ahead.iter().all(VecDeque::is_empty)
    }

    fn put(&self, line: &str) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", clean(line))?;
        out.flush()
    }

    fn name(&self, pane: usize) -> String {
        self.lines.state.panes[pane].person.name.clone()
    }

    fn model(&self) -> String {
        one_line(&self.lines.state.snapshot.model.name)
    }

    fn welcome(&self) -> std::io::Result<()> {
        let names: Vec<String> = (0..self.lines.state.panes.len()).map(|pane| self.name(pane)).collect();
        let title = one_line(&self.lines.state.snapshot.model.title);
        self.put(&say!(self.theme, "batchroom: {} answers {}.", title, names.join(", ")))?;
        let words = say!(
            self.theme,
            "A line is a message of {}; @name before it makes it another's. /help lists the commands.",
            names[0]
        );
        self.put(&words)
    }

    /// What a screen would say for a while.
    fn notice(&mut self) -> std::io::Result<()> {
        self.lines.state.notice.take().map_or(Ok(()), |notice| self.put(&one_line(&notice.text)))
    }

    /// Ctrl-C: first the answers, then the program.
    fn interrupted(&mut self) -> std::io::Result<()> {
        if self.done() {
            self.over = Some(INTERRUPTED);
            return Ok(());
        }
        self.ahead.iter_mut().for_each(VecDeque::clear);
        if self.speech.iter().any(|speech| speech.stopping) {
            self.over = Some(INTERRUPTED);
            return Ok(());
        }
        self.speech.iter_mut().for_each(|speech| speech.stopping = true);
        self.lines.cancel_all();
        self.put(self.theme.tr("Stopping the answers. Ctrl-C once more ends the program."))
    }

    fn take(&mut self, line: &str) -> std::io::Result<()> {
        let line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        if let Some(command) = line.strip_prefix('/').filter(|rest| !rest.starts_with('/')) {
            return self.command(command);
        }
        // Two slashes are one of a message.
        let line = if line.starts_with("//") { &line[1..] } else { line };
        let (pane, text) = match line.strip_prefix('@').map(|rest| rest.split_once(char::is_whitespace).unwrap_or((rest, ""))) {
            None => (0, line),
            Some((name, text)) => match self.find(name) {
                Some(pane) if !text.trim().is_empty() => (pane, text.trim()),
                Some(pane) => return self.put(&say!(self.theme, "There is no message for {} in that line.", self.name(pane))),
                None => return self.put(&say!(self.theme, "Nobody here is called {}: /who says who is.", one_line(name))),
            },
        };
        self.ask(pane, text)
    }

    /// By name, by its beginning if that is one person's only, or by number.
    fn find(&self, name: &str) -> Option<usize> {
        let low = name.trim_end_matches([':', ',']).to_lowercase();
        let names: Vec<String> = self.lines.state.panes.iter().map(|pane| pane.person.name.to_lowercase()).collect();
        if let Some(at) = names.iter().position(|other| *other == low) {
            return Some(at);
        }
        if let Some(at) = low.parse::<usize>().ok().and_then(|number| number.checked_sub(1)) {
            return (at < names.len()).then_some(at);
        }
        let mut beginning = names.iter().enumerate().filter(|(_, other)| !low.is_empty() && other.starts_with(&low));
        match (beginning.next(), beginning.next()) {
            (Some((at, _)), None) => Some(at),
            _ => None,
        }
    }

    fn ask(&mut self, pane: usize, text: &str) -> std::io::Result<()> {
        if self.echo {
            self.put(&say!(self.theme, "{}: {}", self.name(pane), text))?;
        }
        let busy = self.lines.state.panes[pane].live;
        self.ahead[pane].push_back(text.to_owned());
        if busy && !self.echo {
            return self.put(&say!(self.theme, "{} is still being answered: this is sent afterwards.", self.name(pane)));
        }
        Ok(())
    }

    /// What the engine says, and what can be sent now.
    fn hear(&mut self) -> std::io::Result<()> {
        loop {
            for (user, event) in self.lines.hear() {
                self.event(user, event)?;
            }
            self.notice()?;
            let free = |pane: &usize| !self.lines.state.panes[*pane].live && !self.ahead[*pane].is_empty();
            let Some(pane) = (0..self.ahead.len()).find(free) else { return Ok(()) };
            if let Some(text) = self.ahead[pane].pop_front() {
                self.speech[pane] = Speech::default();
                self.lines.send(pane, &text);
            }
        }
    }

    fn event(&mut self, user: UserId, event: Event) -> std::io::Result<()> {
        let Some(pane) = self.lines.state.panes.iter().position(|pane| pane.person.user == user) else { return Ok(()) };
        match event {
            Event::Token { text, .. } => {
                self.speech[pane].push(&text);
                self.speak(pane, false)
            }
            Event::Finished(end) => {
                self.speech[pane].push(&end.text);
                self.speak(pane, true)?;
                self.speech[pane].stopping = false;
                let (name, tokens) = (self.name(pane), self.theme.plural(end.generated_tokens, "{} token", "{} tokens"));
                let words = match (end.reason, end.ttft) {
                    (FinishReason::Cancelled, _) => say!(self.theme, "({}: stopped after {})", name, tokens),
                    (FinishReason::Failed, _) => {
                        say!(self.theme, "({}: failed: {})", name, fault(&end.message.unwrap_or_default(), self.theme))
                    }
                    (_, Some(ttft)) => {
                        say!(self.theme, "({}: end of the answer, {}, the first after {})", name, tokens, time(ttft))
                    }
                    (_, None) => say!(self.theme, "({}: end of the answer, {})", name, tokens),
                };
                self.put(&words)
            }
            Event::Rejected(why) => {
                // The screen puts a refused prompt back into the draft; here it has been said.
                if !self.drafts[pane] {
                    self.lines.state.panes[pane].editor = crate::ui::editor::Editor::default();
                }
                self.put(&say!(self.theme, "({}: refused: {})", self.name(pane), crate::ui::refusal::refused(&why, self.theme)))
            }
            Event::Preempted { .. } => {
                self.put(&say!(self.theme, "({}: preempted, its blocks were taken for another; it comes back)", self.name(pane)))
            }
            Event::Queued { .. } | Event::Admitted { .. } | Event::Witnessed(_) => Ok(()),
        }
    }

    /// Whole lines and sentences of an answer.
    fn speak(&mut self, pane: usize, all: bool) -> std::io::Result<()> {
        while let Some(line) = self.speech[pane].next(all) {
            let (model, name) = (self.model(), self.name(pane));
            self.put(&say!(self.theme, "{} to {}: {}", model, name, line))?;
        }
        Ok(())
    }

    fn command(&mut self, command: &str) -> std::io::Result<()> {
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        if self.lines.state.options.readonly && matches!(name, "all" | "stop" | "pause" | "step" | "pace") {
            return self.put(self.theme.tr("this screen is read-only: nothing is sent or changed here"));
        }
        let rest = rest.trim();
        match name {
            "help" | "?" => self.help(),
            "who" => self.who(),
            "status" => self.status(),
            "all" if !rest.is_empty() => (0..self.ahead.len()).try_for_each(|pane| self.ask(pane, rest)),
            "all" => self.put(self.theme.tr("/all TEXT sends the text for everybody.")),
            "stop" => self.stop(rest),
            "pause" => {
                let paused = self.lines.state.snapshot.state == RunState::Paused;
                self.lines.act(Action::Pause);
                self.put(self.theme.tr(if paused {
                    "The engine runs."
                } else {
                    "The engine is paused: /step makes a step, /pause lets it run."
                }))
            }
            "step" => match rest.parse::<u32>() {
                Ok(steps @ 1..=STEPS_MAX) => self.step(steps),
                Err(_) if rest.is_empty() => self.step(1),
                _ => self.put(&say!(self.theme, "/step N makes N steps, 1 to {}.", STEPS_MAX)),
            },
            "pace" => self.pace(rest),
            "quit" | "exit" => {
                self.over = Some(0);
                Ok(())
            }
            other => self.put(&say!(
                self.theme,
                "There is no command /{}: /help lists them. Two slashes begin a message with one.",
                one_line(other)
            )),
        }
    }

    fn step(&mut self, steps: u32) -> std::io::Result<()> {
        self.lines.engine.pause(true);
        self.lines.engine.step(steps);
        let steps = self.theme.plural(steps as usize, "{} step", "{} steps");
        self.put(&say!(self.theme, "The engine is paused and makes {}.", steps))
    }

    fn pace(&mut self, rest: &str) -> std::io::Result<()> {
        match rest.parse::<f64>() {
            Ok(steps) if (0.1..=10_000.0).contains(&steps) => {
                self.lines.engine.set_pace(Pace::StepsPerSecond(steps));
                self.put(&say!(self.theme, "At most {} steps a second.", steps))
            }
            _ if rest == "full" => {
                self.lines.engine.set_pace(Pace::Full);
                self.put(self.theme.tr("Full speed."))
            }
            _ => self.put(self.theme.tr("/pace N is N steps a second, 0.1 to 10000; /pace full is full speed.")),
        }
    }

    fn stop(&mut self, rest: &str) -> std::io::Result<()> {
        let pane = if rest.is_empty() { Some(0) } else { self.find(rest.trim_start_matches('@')) };
        match pane {
            None => self.put(&say!(self.theme, "Nobody here is called {}: /who says who is.", one_line(rest))),
            Some(pane) if self.lines.state.panes[pane].live => {
                self.ahead[pane].clear();
                self.lines.state.focus = pane;
                self.lines.act(Action::Cancel);
                Ok(())
            }
            Some(pane) => self.put(&say!(self.theme, "{} is not being answered.", self.name(pane))),
        }
    }

    fn help(&self) -> std::io::Result<()> {
        let tr = |words| self.theme.tr(words);
        for line in [
            tr("TEXT: a message of the first person. @name TEXT: a message of another."),
            tr("/all TEXT: the same message of everybody, in one batch."),
            tr("/who: who is here. /status: what the engine does, in sentences."),
            tr("/stop NAME: stop that answer. Ctrl-C: stop all answers; once more: quit."),
            tr("/pause: pause the engine, or let it run. /step N: make N steps. /pace N: N steps a second."),
            tr("/quit: quit. The end of the input (Ctrl-D) quits when all is answered."),
        ] {
            self.put(line)?;
        }
        Ok(())
    }

    fn who(&self) -> std::io::Result<()> {
        for pane in 0..self.lines.state.panes.len() {
            let live = if self.lines.state.panes[pane].live { "{} {}: is being answered" } else { "{} {}: free" };
            self.put(&self.theme.lang().fill(live, &[&(pane + 1), &self.name(pane)]))?;
        }
        Ok(())
    }

    fn status(&self) -> std::io::Result<()> {
        for line in speech::status(&self.lines.state) {
            self.put(&line)?;
        }
        Ok(())
    }
}
