//! How fast this machine's memory can be read, once somebody has asked for it: the wall that a step for one user runs into.
//! Pure, as `update` is; the measuring itself is an effect.

use std::time::Duration;

use super::format;
use super::keymap::{Action, Glance, key_in};
use super::state::State;
use super::theme::Theme;
use super::update::Effect;
use super::words::say;
use crate::engine::api::{ModelInfo, RunState, Snapshot};
use crate::machine::MemorySpeed;

/// Where that stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Reading {
    #[default]
    Never,
    /// With so many threads. `paused`: a person had paused the engine before.
    Running {
        threads: usize,
        paused: bool,
    },
    Done(Measured),
}

/// What came of it, and when that was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    pub speed: MemorySpeed,
    /// With so many threads, as many as compute the model.
    pub threads: usize,
    /// Time since the screen was opened, and the engine's step.
    pub at: Duration,
    pub step: u64,
}

/// What a chart of bytes read a second is held against.
#[derive(Clone, Debug, PartialEq)]
pub enum Wall {
    Measured(Measured),
    Running,
    /// Not measured; this key does it.
    Key(String),
    /// The model is computed where nothing is measured.
    Device,
    /// A recording does not say what its machine could do.
    Recording,
}

impl Wall {
    pub fn of(state: &State) -> Wall {
        match state.machine.reading {
            _ if state.replay.is_some() => Wall::Recording,
            _ if !in_main_memory(&state.snapshot.model) => Wall::Device,
            Reading::Running { .. } => Wall::Running,
            Reading::Done(measured) if measured.threads == state.snapshot.model.threads => Wall::Measured(measured),
            Reading::Done(_) | Reading::Never => Wall::Key(key_in(state.keys(), Action::Glance(Glance::Measure))),
        }
    }

    /// Bytes a second.
    pub fn bytes_per_s(&self) -> Option<f64> {
        match self {
            Wall::Measured(measured) => Some(measured.speed.bytes_per_s),
            _ => None,
        }
    }

    /// How near to it the steps of now come, longest wording first. `reached`: bytes of weights a second.
    pub fn wordings(&self, snapshot: &Snapshot, reached: Option<f64>, theme: Theme) -> Vec<String> {
        match self {
            Wall::Measured(measured) => measured_wordings(measured, snapshot, reached, theme),
            Wall::Running => vec![theme.tr("memory is being measured…").to_owned(), theme.tr("measuring…").to_owned()],
            Wall::Key(key) if key.is_empty() => vec![theme.tr("what this machine can read is not measured").to_owned()],
            Wall::Key(key) => vec![
                say!(theme, "{} measures how fast this machine's memory can be read", key),
                say!(theme, "{} measures what this machine can read", key),
                say!(theme, "{} measures memory", key),
                say!(theme, "{}: measure", key),
            ],
            Wall::Device => vec![
                theme.tr("what this device can read is not measured: that is done for main memory only").to_owned(),
                theme.tr("what this device can read is not measured").to_owned(),
                theme.tr("device not measured").to_owned(),
            ],
            Wall::Recording => vec![
                theme.tr("what the machine of this recording could read is not known").to_owned(),
                theme.tr("the machine's own speed is not recorded").to_owned(),
                theme.tr("not recorded").to_owned(),
            ],
        }
    }
}

fn measured_wordings(measured: &Measured, snapshot: &Snapshot, reached: Option<f64>, theme: Theme) -> Vec<String> {
    let speed = bytes_a_second(measured.speed.bytes_per_s);
    let share = match reached.map(|reached| reached / measured.speed.bytes_per_s) {
        Some(share) if share.is_finite() => format!("{:.0}%", share * 100.0),
        _ => format::UNKNOWN.to_owned(),
    };
    let short = say!(theme, "{} of {} measured", share, speed);
    let threads = theme.plural(measured.threads, "{} thread", "{} threads");
    let long = say!(theme, "{} of the {} measured at step {} with {}", share, speed, format::count(measured.step), threads);
    let mut wordings = vec![long.clone(), short.clone(), say!(theme, "{} of {}", share, speed), share];
    // Then a step does not have to go to memory for them, and can come past the wall.
    if measured.speed.last_cache.is_some_and(|cache| snapshot.model.weight_bytes <= cache) {
        let weights = format::bytes(snapshot.model.weight_bytes);
        let fit = say!(theme, "{} (weights fit the caches)", short);
        wordings.splice(0..0, [say!(theme, "{}; the weights ({}) fit this machine's caches", long, weights), fit]);
    }
    wordings
}

/// `51.2 GB/s`: decimal, as memory is sold.
pub fn bytes_a_second(value: f64) -> String {
    match value {
        value if !value.is_finite() => format::UNKNOWN.to_owned(),
        value if value >= 999.5e9 => format!("{:.1} TB/s", value / 1e12),
        value if value >= 999.5e6 => format!("{:.1} GB/s", value / 1e9),
        value if value >= 999.5e3 => format!("{:.1} MB/s", value / 1e6),
        value => format!("{:.1} kB/s", value / 1e3),
    }
}

/// Whether the model's weights lie in main memory, where the processor reads them: other devices end what computes by their
/// name.
fn in_main_memory(model: &ModelInfo) -> bool {
    !["-cuda", "-metal"].iter().any(|device| model.kernels.ends_with(device))
}

/// Somebody wants it measured.
pub fn ask(state: &mut State) -> Vec<Effect> {
    let theme = state.options.theme;
    match Wall::of(state) {
        Wall::Recording | Wall::Device => {
            let words = Wall::of(state).wordings(&state.snapshot, None, theme).swap_remove(0);
            state.complain(words);
            Vec::new()
        }
        Wall::Running => {
            state.say(theme.tr("memory is being measured already"));
            Vec::new()
        }
        Wall::Measured(_) | Wall::Key(_) => {
            let (threads, paused) = (state.snapshot.model.threads, state.snapshot.state == RunState::Paused);
            state.machine.reading = Reading::Running { threads, paused };
            state.say(
                theme.tr("measuring how fast this machine's memory can be read: the engine is paused for it, about a second on a quiet machine"),
            );
            vec![Effect::Measure { threads }]
        }
    }
}

/// It is measured, or why it is not.
pub fn measured(state: &mut State, result: Result<MemorySpeed, String>) {
    let theme = state.options.theme;
    let threads = match state.machine.reading {
        Reading::Running { threads, .. } => threads,
        _ => state.snapshot.model.threads,
    };
    match result {
        Ok(speed) => {
            state.machine.reading = Reading::Done(Measured { speed, threads, at: state.now, step: state.snapshot.step });
            let least = Duration::try_from_secs_f64(state.snapshot.model.weight_bytes as f64 / speed.bytes_per_s);
            let (rate, least) = (bytes_a_second(speed.bytes_per_s), format::time_or_unknown(least.ok()));
            state.say(say!(
                theme,
                "memory is read at {} here: a step that fetches all weights from it takes at least {}",
                rate,
                least
            ));
        }
        Err(why) => {
            state.machine.reading = Reading::Never;
            state.complain(say!(theme, "memory was not measured: {}", why));
        }
    }
}

/// What was measured is dated by steps of an engine that is gone.
pub fn on_new_engine(state: &mut State) {
    if matches!(state.machine.reading, Reading::Done(_)) {
        state.machine.reading = Reading::Never;
    }
}

/// Whether it was a person who has paused the engine, and not the measuring.
pub fn paused_by_hand(state: &State) -> bool {
    match state.machine.reading {
        Reading::Running { paused, .. } => paused,
        _ => state.snapshot.state == RunState::Paused,
    }
}
