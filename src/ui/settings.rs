//! The knobs of the engine: what each is now, what it may be, what it trades, and what came of the newest change.

use std::time::Duration;

use super::editor::Editor;
use super::format::{self, bytes, count, rate};
use super::state::State;
use super::theme::Theme;
use super::update::Effect;
use super::words::say;
use crate::engine::api::{Change, Limits, Mode, NotChanged, NoteKind, Pace, Policy, Sample, Snapshot};

/// Samples (half seconds) that are held against each other: before a change, and the newest since.
const COMPARED: usize = 10;
const SAMPLE: Duration = Duration::from_millis(500);
/// Turns that come faster than this are one change.
const TURNING: Duration = Duration::from_secs(3);
/// A change that the snapshot does not show by then was refused.
const IN_FLIGHT: Duration = Duration::from_millis(600);
/// Values that the arrows go through, times powers of ten and two: near enough to see a difference, far enough to get
/// anywhere.
const RUNGS: [usize; 31] = [
    1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192,
    16384, 32768, 65536,
];
const TARGETS_MS: [u64; 12] = [5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 200, 500];

/// One thing that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knob {
    Seats,
    Budget,
    Chunk,
    TargetItl,
    KvBudget,
    Watermark,
    Policy,
    Batching,
    PrefixCache,
    MaxLen,
    MaxWaiting,
    Pace,
    Bots,
    BotsPause,
    BotsLoad,
}

impl Knob {
    pub const ALL: [Knob; 15] = [
        Knob::Seats,
        Knob::Budget,
        Knob::Chunk,
        Knob::TargetItl,
        Knob::KvBudget,
        Knob::Watermark,
        Knob::Policy,
        Knob::Batching,
        Knob::PrefixCache,
        Knob::MaxLen,
        Knob::MaxWaiting,
        Knob::Pace,
        Knob::Bots,
        Knob::BotsPause,
        Knob::BotsLoad,
    ];

    /// As `config.toml` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Knob::Seats => "max_num_seqs",
            Knob::Budget => "max_num_batched_tokens",
            Knob::Chunk => "prefill_chunk",
            Knob::TargetItl => "target_itl",
            Knob::KvBudget => "kv_memory",
            Knob::Watermark => "watermark",
            Knob::Policy => "policy",
            Knob::Batching => "batching",
            Knob::PrefixCache => "prefix_cache",
            Knob::MaxLen => "max_model_len",
            Knob::MaxWaiting => "max_waiting",
            Knob::Pace => "pace",
            Knob::Bots => "bots",
            Knob::BotsPause => "bots_pause",
            Knob::BotsLoad => "bots_load",
        }
    }

    /// What it is, and what more and less of it trade.
    pub fn about(self) -> &'static str {
        match self {
            Knob::Seats => {
                "Seats of the batch: sequences that run at once. More: more tokens a second in all, each one slower, more KV \
                 memory. Fewer: the others wait; a running one without a seat is preempted and keeps its text."
            }
            Knob::Budget => {
                "Tokens that one step computes at most: first one for each running answer, then pieces of prompts. More: prompts \
                 are done sooner. Fewer: shorter steps, so answers flow evenly."
            }
            Knob::Chunk => {
                "Tokens of one prompt in one step at most. Large: a long prompt is done soon, and everybody else stands still \
                 meanwhile. Small: it goes on between the others' tokens and takes longer itself."
            }
            Knob::TargetItl => {
                "How long a step may take while somebody decodes: prompts get what is left of it, as steps are measured. Low: \
                 even answers, slow prompts. off: prefill_chunk alone decides."
            }
            Knob::KvBudget => {
                "Memory for keys and values, in blocks. More: more and longer conversations at once. Less: preemption. \
                 Shrinking it preempts the youngest, and ends nobody."
            }
            Knob::Watermark => {
                "Blocks kept free when a new prompt asks to come in. More: fewer preemptions, later admission. 0: everybody comes \
                 in who fits just now, and may be preempted soon."
            }
            Knob::Policy => {
                "Who is let in first, and who is preempted. fcfs: in order of arrival. fair: by user, whoever was served the \
                 fewest tokens. priority: the highest first."
            }
            Knob::Batching => {
                "continuous: a freed seat is given away at the next step. static: only when the whole group is done, so the \
                 fastest waits for the slowest; for comparison."
            }
            Knob::PrefixCache => {
                "Keeps computed blocks for whoever begins with the same text: the next turn of a chat computes only what is new. \
                 off: everything is computed every time."
            }
            Knob::MaxLen => {
                "Tokens of one conversation at most. Lower: each needs less memory, so more fit; a longer one ends with its next \
                 token."
            }
            Knob::MaxWaiting => {
                "Requests that may wait. Past it they are refused at once, with the reason: a short queue fails fast, a long one \
                 slowly."
            }
            Knob::Pace => "Steps a second, for watching. Changes no result; figures that depend on it say that they are paced.",
            Knob::Bots => "People made of program, who chat by themselves: load to watch. They are called bot 1, bot 2, ...",
            Knob::BotsPause => "How long a bot thinks between an answer and its next prompt, in the mean. Shorter: more load.",
            Knob::BotsLoad => {
                "What bots send. chat: short questions, several turns. documents: long prompts, short answers. agents: many short \
                 moves behind one long instruction that all of them share."
            }
        }
    }

    /// What it is now, as a person says it.
    pub fn value(self, state: &State) -> String {
        let (limits, snapshot, theme) = (state.settings.limits(state), &*state.snapshot, state.options.theme);
        match self {
            Knob::Seats | Knob::Budget | Knob::Chunk | Knob::Watermark | Knob::MaxLen | Knob::MaxWaiting => {
                count(self.number(&limits) as u64)
            }
            Knob::TargetItl => match state.settings.target(state) {
                Some(target) => format::time(target),
                None => theme.tr("off").to_owned(),
            },
            Knob::KvBudget => {
                let blocks = state.settings.kv_blocks(state);
                format!(
                    "{} · {}",
                    theme.plural(blocks, "{} block", "{} blocks"),
                    bytes((blocks as u64).saturating_mul(snapshot.kv.bytes_per_block as u64))
                )
            }
            Knob::Policy => limits.policy.to_string(),
            Knob::Batching => limits.mode.to_string(),
            Knob::PrefixCache => theme.tr(if limits.prefix_cache { "on" } else { "off" }).to_owned(),
            Knob::Pace => match state.pace.unwrap_or(snapshot.pace) {
                Pace::Full => theme.tr("full speed").to_owned(),
                Pace::StepsPerSecond(steps) => say!(theme, "{} steps/s", rate(steps)),
            },
            Knob::Bots => count(state.bots.wanted() as u64),
            Knob::BotsPause => format::time(state.bots.pause()),
            Knob::BotsLoad => state.bots.load().name().to_owned(),
        }
    }

    /// What it may be.
    pub fn range(self, state: &State) -> String {
        let (low, high) = match self {
            Knob::TargetItl => return state.options.theme.tr("off, 1 ms to 60 s").to_owned(),
            Knob::Policy => return "fcfs, fair, priority".into(),
            Knob::Batching => return "continuous, static".into(),
            Knob::PrefixCache => return state.options.theme.tr("on, off").to_owned(),
            Knob::Pace => return state.options.theme.tr("0.1 to full speed").to_owned(),
            Knob::BotsPause => return state.options.theme.tr("0 to 60 s").to_owned(),
            Knob::KvBudget => {
                let most = self.bounds(state).1;
                let size = bytes((most as u64).saturating_mul(state.snapshot.kv.bytes_per_block as u64));
                return say!(state.options.theme, "1 to {} blocks ({})", count(most as u64), size);
            }
            Knob::BotsLoad => return "chat, documents, agents".into(),
            _ => self.bounds(state),
        };
        say!(state.options.theme, "{} to {}", count(low as u64), count(high as u64))
    }

    /// Of the knobs that are whole numbers.
    fn bounds(self, state: &State) -> (usize, usize) {
        let limits = state.settings.limits(state);
        match self {
            // Every running sequence needs a token of each step.
            Knob::Seats => (1, limits.max_num_batched_tokens.min(1024)),
            Knob::Budget => (limits.max_num_seqs, 1 << 16),
            Knob::Chunk => (1, 1 << 16),
            Knob::KvBudget => (1, state.snapshot.kv.capacity),
            Knob::Watermark => (0, state.snapshot.kv.total),
            Knob::MaxLen => (2, state.snapshot.model.context.max(2)),
            Knob::MaxWaiting => (1, 1 << 16),
            Knob::Bots => (0, super::bots::MAX_BOTS),
            _ => (0, usize::MAX),
        }
    }

    fn number(self, limits: &Limits) -> usize {
        match self {
            Knob::Seats => limits.max_num_seqs,
            Knob::Budget => limits.max_num_batched_tokens,
            Knob::Chunk => limits.prefill_chunk,
            Knob::Watermark => limits.watermark,
            Knob::MaxLen => limits.max_model_len,
            _ => limits.max_waiting,
        }
    }

    /// The next value up or down.
    pub fn turn(self, state: &mut State, up: bool) -> Vec<Effect> {
        let limits = state.settings.limits(state);
        match self {
            Knob::TargetItl => {
                let now = state.settings.target(state).map(|target| target.as_millis() as u64);
                let next = match (now, up) {
                    (None, true) => Some(TARGETS_MS[0]),
                    (None, false) => None,
                    (Some(now), true) => TARGETS_MS.into_iter().find(|ms| *ms > now).or(Some(now)),
                    (Some(now), false) => TARGETS_MS.into_iter().rev().find(|ms| *ms < now),
                };
                set_target(state, next.map(Duration::from_millis))
            }
            Knob::KvBudget => {
                let now = state.settings.kv_blocks(state);
                // About a tenth, and at least one.
                let step = (now / 10).max(1);
                let next = if up { now.saturating_add(step) } else { now.saturating_sub(step) };
                self.set_number(state, next.clamp(1, self.bounds(state).1.max(1)))
            }
            Knob::Policy => {
                const ALL: [Policy; 3] = [Policy::Fcfs, Policy::Fair, Policy::Priority];
                set_limits(state, Limits { policy: beside(&ALL, limits.policy, up), ..limits })
            }
            Knob::Batching => {
                set_limits(state, Limits { mode: beside(&[Mode::Continuous, Mode::Static], limits.mode, up), ..limits })
            }
            Knob::PrefixCache => set_limits(state, Limits { prefix_cache: !limits.prefix_cache, ..limits }),
            Knob::Pace => super::update::set_pace_beside(state, !up),
            Knob::BotsPause => {
                let next = super::bots::pause_beside(state.bots.pause(), up);
                state.bots.set_pause(next);
                Vec::new()
            }
            Knob::BotsLoad => {
                let next = beside(&super::bots::Load::ALL, state.bots.load(), up);
                state.bots.set_load(next);
                Vec::new()
            }
            _ => {
                let now = if self == Knob::Bots { state.bots.wanted() } else { self.number(&limits) };
                let next = if up {
                    RUNGS.into_iter().find(|rung| *rung > now).unwrap_or(now)
                } else {
                    RUNGS.into_iter().rev().find(|rung| *rung < now).unwrap_or(0)
                };
                let (low, high) = self.bounds(state);
                self.set_number(state, next.clamp(low, high.max(low)))
            }
        }
    }

    /// What was typed; or what is wrong with it.
    pub fn typed(self, state: &mut State, text: &str) -> Result<Vec<Effect>, String> {
        let text = text.trim();
        let theme = state.options.theme;
        let wrong =
            |state: &State| say!(theme, "{} cannot be `{}`: {}", self.name(), super::text::one_line(text), self.range(state));
        let limits = state.settings.limits(state);
        match self {
            Knob::TargetItl => match target_typed(text) {
                Some(target) => Ok(set_target(state, target)),
                None => Err(wrong(state)),
            },
            Knob::KvBudget => {
                let blocks = blocks_typed(text, state.snapshot.kv.bytes_per_block);
                blocks.and_then(|blocks| self.checked(state, blocks)).ok_or_else(|| wrong(state))
            }
            Knob::Policy => {
                let policy = [Policy::Fcfs, Policy::Fair, Policy::Priority].into_iter().find(|policy| policy.to_string() == text);
                Ok(set_limits(state, Limits { policy: policy.ok_or_else(|| wrong(state))?, ..limits }))
            }
            Knob::Batching => {
                let mode = [Mode::Continuous, Mode::Static].into_iter().find(|mode| mode.to_string() == text);
                Ok(set_limits(state, Limits { mode: mode.ok_or_else(|| wrong(state))?, ..limits }))
            }
            Knob::PrefixCache => match text {
                "on" | "true" => Ok(set_limits(state, Limits { prefix_cache: true, ..limits })),
                "off" | "false" => Ok(set_limits(state, Limits { prefix_cache: false, ..limits })),
                _ => Err(wrong(state)),
            },
            Knob::Pace => match pace_typed(text) {
                Some(pace) => Ok(super::update::set_pace(state, pace)),
                None => Err(wrong(state)),
            },
            Knob::BotsPause => {
                state.bots.set_pause(crate::config::parse_pause(text).map_err(|_| wrong(state))?);
                Ok(Vec::new())
            }
            Knob::BotsLoad => {
                state.bots.set_load(super::bots::Load::named(text).ok_or_else(|| wrong(state))?);
                Ok(Vec::new())
            }
            _ => {
                let number = text.replace([',', '_', ' '], "").parse().map_err(|_| wrong(state))?;
                self.checked(state, number).ok_or_else(|| wrong(state))
            }
        }
    }

    fn checked(self, state: &mut State, value: usize) -> Option<Vec<Effect>> {
        let (low, high) = self.bounds(state);
        (low..=high).contains(&value).then(|| self.set_number(state, value))
    }

    fn set_number(self, state: &mut State, value: usize) -> Vec<Effect> {
        let mut limits = state.settings.limits(state);
        match self {
            Knob::Seats => limits.max_num_seqs = value,
            Knob::Budget => limits.max_num_batched_tokens = value,
            Knob::Chunk => limits.prefill_chunk = value,
            Knob::Watermark => limits.watermark = value,
            Knob::MaxLen => limits.max_model_len = value,
            Knob::MaxWaiting => limits.max_waiting = value,
            Knob::KvBudget => return set_kv(state, value),
            Knob::Bots => return super::bots::set_number(state, value),
            _ => return Vec::new(),
        }
        set_limits(state, limits)
    }
}

/// None: it is no such time, or out of range. Some(None): no aim.
fn target_typed(text: &str) -> Option<Option<Duration>> {
    match text {
        "off" | "none" | "0" => Some(None),
        text => {
            let target = crate::config::parse_time(text).ok()?;
            (Duration::from_millis(1)..=Duration::from_secs(60)).contains(&target).then_some(Some(target))
        }
    }
}

/// A number of blocks, or a size in bytes.
fn blocks_typed(text: &str, bytes_per_block: usize) -> Option<usize> {
    text.parse().ok().or_else(|| {
        let bytes = crate::config::parse_size(text).ok()?;
        usize::try_from(bytes / bytes_per_block.max(1) as u64).ok()
    })
}

fn pace_typed(text: &str) -> Option<Pace> {
    match text {
        "full" => Some(Pace::Full),
        text => text.parse().ok().filter(|steps| (0.1..=10_000.0).contains(steps)).map(Pace::StepsPerSecond),
    }
}

fn beside<T: Copy + PartialEq>(all: &[T], now: T, up: bool) -> T {
    let at = all.iter().position(|one| *one == now).unwrap_or(0);
    let step = if up { 1 } else { all.len() - 1 };
    all[(at + step) % all.len()]
}

fn set_limits(state: &mut State, limits: Limits) -> Vec<Effect> {
    if limits == state.settings.limits(state) {
        return Vec::new();
    }
    state.settings.mark(&state.snapshot, state.now);
    state.settings.chosen = Some(limits);
    state.settings.flying.limits = Some((limits, state.now));
    vec![Effect::SetLimits(limits)]
}

fn set_kv(state: &mut State, blocks: usize) -> Vec<Effect> {
    if blocks == state.settings.kv_blocks(state) {
        return Vec::new();
    }
    state.settings.mark(&state.snapshot, state.now);
    state.settings.flying.kv_blocks = Some((blocks, state.now));
    vec![Effect::SetKvBlocks(blocks)]
}

fn set_target(state: &mut State, target: Option<Duration>) -> Vec<Effect> {
    if target == state.settings.target(state) {
        return Vec::new();
    }
    state.settings.mark(&state.snapshot, state.now);
    state.settings.target_chosen = Some(target);
    state.settings.flying.target = Some((target, state.now));
    vec![Effect::SetTargetItl(target)]
}

/// What was asked for and is not in a snapshot yet: the next turn of a knob goes on from there.
#[derive(Clone, Debug, Default)]
struct Flying {
    limits: Option<(Limits, Duration)>,
    kv_blocks: Option<(usize, Duration)>,
    target: Option<(Option<Duration>, Duration)>,
}

/// What was in force before somebody began to turn.
#[derive(Clone, Copy, Debug)]
struct Before {
    limits: Limits,
    kv_blocks: usize,
    target: Option<Duration>,
    /// Engine time.
    at: Duration,
    /// When it was turned last, on the screen's clock.
    turned: Duration,
}

/// What the screen knows of the knobs beside the snapshot.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    flying: Flying,
    /// Before the newest change; several quick turns are one.
    before: Option<Before>,
    /// What a person has set, for an engine that takes over.
    chosen: Option<Limits>,
    target_chosen: Option<Option<Duration>>,
}

impl Settings {
    fn fresh<T: Copy>(flying: Option<(T, Duration)>, now: Duration) -> Option<T> {
        flying.filter(|(_, at)| now.saturating_sub(*at) < IN_FLIGHT).map(|(value, _)| value)
    }

    /// In force, or on their way.
    pub fn limits(&self, state: &State) -> Limits {
        Settings::fresh(self.flying.limits, state.now).unwrap_or(state.snapshot.limits)
    }

    pub fn kv_blocks(&self, state: &State) -> usize {
        Settings::fresh(self.flying.kv_blocks, state.now).unwrap_or(state.snapshot.kv.total)
    }

    pub fn target(&self, state: &State) -> Option<Duration> {
        Settings::fresh(self.flying.target, state.now).unwrap_or(state.snapshot.target_itl)
    }

    fn mark(&mut self, snapshot: &Snapshot, now: Duration) {
        if let Some(before) = self.before.as_mut().filter(|before| now.saturating_sub(before.turned) < TURNING) {
            before.turned = now;
            return;
        }
        let (limits, kv_blocks, target) = (snapshot.limits, snapshot.kv.total, snapshot.target_itl);
        let at = snapshot.history.back().map_or(Duration::ZERO, |sample| sample.at);
        self.before = Some(Before { limits, kv_blocks, target, at, turned: now });
    }

    /// The change that a change is the end of: from what was in force before the first of several quick turns.
    fn whole(&self, change: &Change) -> Change {
        let Some(before) = &self.before else { return *change };
        match *change {
            Change::Limits { new, .. } if before.limits != new => Change::Limits { old: before.limits, new },
            Change::KvBlocks { new, .. } if before.kv_blocks != new => Change::KvBlocks { old: before.kv_blocks, new },
            Change::TargetItl { new, .. } if before.target != new => Change::TargetItl { old: before.target, new },
            _ => *change,
        }
    }

    /// A new snapshot: what it shows is no longer on its way.
    pub fn seen(&mut self, snapshot: &Snapshot) {
        if self.flying.limits.is_some_and(|(limits, _)| limits == snapshot.limits) {
            self.flying.limits = None;
        }
        if self.flying.kv_blocks.is_some_and(|(blocks, _)| blocks == snapshot.kv.total) {
            self.flying.kv_blocks = None;
        }
        if self.flying.target.is_some_and(|(target, _)| target == snapshot.target_itl) {
            self.flying.target = None;
        }
    }

    /// What a person has set, put to an engine with these limits. What depends on the model stays that engine's own.
    pub fn for_new_engine(&self, theirs: &Limits) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(limits) = self.chosen {
            let (max_model_len, watermark) = (theirs.max_model_len, theirs.watermark);
            effects.push(Effect::SetLimits(Limits { max_model_len, watermark, ..limits }));
        }
        if let Some(target) = self.target_chosen {
            effects.push(Effect::SetTargetItl(target));
        }
        effects
    }
}

/// The panel of knobs, open.
#[derive(Clone, Debug, Default)]
pub struct Desk {
    pub at: usize,
    /// A value being typed.
    pub typing: Option<Editor>,
    pub error: Option<String>,
}

impl Desk {
    pub fn knob(&self) -> Knob {
        Knob::ALL[self.at.min(Knob::ALL.len() - 1)]
    }
}

/// The newest change, or why one was refused.
pub fn newest_change(state: &State) -> Option<Result<Change, &NotChanged>> {
    state.snapshot.notes.iter().rev().find_map(|note| match &note.kind {
        NoteKind::Changed { what } => Some(Ok(state.settings.whole(what))),
        NoteKind::ChangeRefused { why } => Some(Err(why)),
        _ => None,
    })
}

/// Name, the mean of five seconds before the newest change, and that of the newest five seconds of what is since. None: nothing
/// was changed, or nothing is known yet.
pub fn compared(state: &State) -> Option<Vec<(&'static str, String, String)>> {
    let at = state.settings.before?.at;
    let history = &state.snapshot.history;
    let before: Vec<&Sample> = history.iter().rev().filter(|sample| sample.at <= at).take(COMPARED).collect();
    let mut since: Vec<&Sample> = history.iter().filter(|sample| sample.at > at).collect();
    // The first has something of before in it.
    if since.len() > 1 {
        since.remove(0);
    }
    since.drain(..since.len().saturating_sub(COMPARED));
    if before.is_empty() || since.is_empty() {
        return None;
    }
    let mean = |samples: &[&Sample], value: &dyn Fn(&Sample) -> Option<f64>| {
        let values: Vec<f64> = samples.iter().filter_map(|sample| value(sample)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    type Figure = (&'static str, Box<dyn Fn(&Sample) -> Option<f64>>, fn(f64) -> String);
    let time: fn(f64) -> String = |value| format::time(Duration::from_secs_f64(value));
    let figures: [Figure; 5] = [
        ("tok/s", Box::new(|sample| Some(sample.tokens_per_s)), rate),
        ("batch", Box::new(|sample| Some(sample.batch)), rate),
        ("queue", Box::new(|sample| Some(sample.queue as f64)), rate),
        ("TTFT", Box::new(move |sample| seconds(sample.ttft)), time),
        ("step", Box::new(move |sample| seconds(sample.step)), time),
    ];
    let words = |value: Option<f64>, say: fn(f64) -> String| value.map_or_else(|| format::UNKNOWN.to_owned(), say);
    let line = |(name, value, say): &Figure| {
        (state.options.theme.tr(name), words(mean(&before, value), *say), words(mean(&since, value), *say))
    };
    Some(figures.iter().map(line).collect())
}

/// What the figures are of, for the line above them; longest wording first.
pub fn since(state: &State, theme: Theme) -> Vec<String> {
    let at = state.settings.before.map_or(Duration::ZERO, |before| before.at);
    let now = state.snapshot.history.back().map_or(at, |sample| sample.at);
    let time = format::time(now.saturating_sub(at));
    match now.saturating_sub(at) <= COMPARED as u32 * SAMPLE {
        true => vec![say!(theme, "5 s before → {} since", time), theme.tr("before → now").to_owned()],
        false => vec![say!(theme, "5 s before → newest 5 s, {} since the change", time), theme.tr("before → now").to_owned()],
    }
}
