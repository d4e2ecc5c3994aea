//! How fast memory can be read: asked for, measured, said beside the chart; and not where it would not be true.

use std::sync::Arc;
use std::time::Duration;

use batchroom::engine::api::{ModelInfo, RunState, Snapshot};
use batchroom::machine::MemorySpeed;
use batchroom::ui::machine::Panel;
use batchroom::ui::reading::{Measured, Reading, paused_by_hand};
use batchroom::ui::replay::Reel;
use batchroom::ui::state::State;
use batchroom::ui::update::{Effect, Msg};
use crossterm::event::{KeyCode, KeyModifiers};

use crate::layouts::{busy, picture};
use crate::sample::rich;
use crate::{act, key, with};

fn charts() -> State {
    let mut state = busy();
    state.machine.alone = Some(Panel::Charts);
    state
}

fn with_model(state: &mut State, change: impl FnOnce(&mut ModelInfo)) {
    let mut model = (*state.snapshot.model).clone();
    change(&mut model);
    let snapshot = Snapshot { model: Arc::new(model), ..(*state.snapshot).clone() };
    act(state, Msg::Snapshot(Arc::new(snapshot)));
}

fn measured(state: &mut State, bytes_per_s: f64, last_cache: Option<u64>) {
    act(state, Msg::Measured(Ok(MemorySpeed { bytes_per_s, last_cache })));
}

#[test]
fn it_is_measured_when_asked_for_and_stands_beside_the_chart() {
    let mut state = charts();
    let before = picture(&mut state, 200, 60);
    assert!(before.contains("Alt-X measures how fast this machine's memory can be read"), "{before}");
    // Alone, letters are keys.
    assert_eq!(act(&mut state, key(KeyCode::Char('x'))), [Effect::Measure { threads: 2 }]);
    assert_eq!(state.machine.reading, Reading::Running { threads: 2, paused: false });
    let running = picture(&mut state, 200, 60);
    assert!(running.contains("memory is being measured…"), "{running}");
    assert_eq!(act(&mut state, key(KeyCode::Char('x'))), [], "one at a time");
    measured(&mut state, 51.2e9, Some(32 << 20));
    let Reading::Done(Measured { speed, threads, at, step }) = state.machine.reading else { panic!("measured") };
    assert_eq!((speed.bytes_per_s, threads, at, step), (51.2e9, 2, state.now, 4182));
    assert!(at > Duration::ZERO);
    // 98 MB in 5.1 ms are 19.2 GB/s, of 51.2 GB/s 38 %; all of them take 1.9 ms at least.
    let after = picture(&mut state, 200, 60);
    assert!(after.contains("38% of the 51.2 GB/s measured at step 4,182 with 2 threads"), "{after}");
    assert!(after.contains("51G ┤╌"), "the axis has it: {after}");
    assert!(after.contains("a step that fetches all weights from it takes at least 1.9ms"), "{after}");
    assert!(!after.contains("caches"), "{after}");
    // In the row of small curves as well.
    state.machine.alone = None;
    state.rooms = batchroom::ui::state::Rooms::Machine;
    let small = picture(&mut state, 200, 60);
    assert!(small.contains("B/s: 38% of the 51.2 GB/s measured"), "{small}");
    assert!(small.contains(" 19 GB/s"), "the same unit: {small}");
}

#[test]
fn weights_that_caches_hold_are_said_to_be() {
    let mut state = charts();
    act(&mut state, with(KeyModifiers::ALT, KeyCode::Char('x')));
    measured(&mut state, 10e9, Some(480 << 20));
    let shown = picture(&mut state, 200, 60);
    assert!(shown.contains("192% of 10.0 GB/s measured (weights fit the caches)"), "{shown}");
}

#[test]
fn a_failure_says_why_and_it_can_be_asked_for_again() {
    let mut state = charts();
    act(&mut state, key(KeyCode::Char('x')));
    act(&mut state, Msg::Measured(Err("the engine was let run meanwhile".into())));
    assert!(picture(&mut state, 120, 36).contains("memory was not measured: the engine was let run meanwhile"));
    assert_eq!(act(&mut state, key(KeyCode::Char('x'))), [Effect::Measure { threads: 2 }]);
}

#[test]
fn nothing_is_measured_where_it_would_say_nothing() {
    for (kernels, main_memory) in [("candle-cuda", false), ("candle-metal", false), ("candle-cpu", true), ("neon", true)] {
        let mut state = charts();
        with_model(&mut state, |model| model.kernels = kernels.into());
        let effects = act(&mut state, key(KeyCode::Char('x')));
        assert_eq!(!effects.is_empty(), main_memory, "{kernels}");
        let says = picture(&mut state, 200, 60).contains("what this device can read is not measured");
        assert_eq!(says, !main_memory, "{kernels}");
    }
    let mut state = charts();
    state.replay = Some(Reel::new(9, None));
    assert_eq!(act(&mut state, key(KeyCode::Char('x'))), []);
    assert!(picture(&mut state, 200, 60).contains("what the machine of this recording could read is not known"));
}

#[test]
fn another_number_of_threads_is_another_speed() {
    let mut state = charts();
    act(&mut state, key(KeyCode::Char('x')));
    measured(&mut state, 51.2e9, None);
    with_model(&mut state, |model| model.threads = 4);
    state.notice = None;
    let shown = picture(&mut state, 200, 60);
    assert!(shown.contains("Alt-X measures") && !shown.contains("51.2"), "{shown}");
    assert_eq!(act(&mut state, key(KeyCode::Char('x'))), [Effect::Measure { threads: 4 }]);
}

#[test]
fn a_new_engine_is_measured_anew() {
    let mut state = charts();
    act(&mut state, key(KeyCode::Char('x')));
    act(&mut state, Msg::Switched(Ok("smollm2".into())));
    assert!(matches!(state.machine.reading, Reading::Running { .. }), "that goes on");
    measured(&mut state, 51.2e9, None);
    act(&mut state, Msg::Switched(Err("no".into())));
    assert!(matches!(state.machine.reading, Reading::Done(_)));
    act(&mut state, Msg::Switched(Ok("smollm2".into())));
    assert_eq!(state.machine.reading, Reading::Never, "its step was another engine's");
}

#[test]
fn a_pause_of_the_measuring_is_nobodys() {
    let paused = || Msg::Snapshot(Arc::new(Snapshot { state: RunState::Paused, ..rich() }));
    let mut state = charts();
    act(&mut state, key(KeyCode::Char('x')));
    act(&mut state, paused());
    assert!(!paused_by_hand(&state), "a new engine is not paused for it");
    let mut state = charts();
    act(&mut state, paused());
    assert!(paused_by_hand(&state));
    act(&mut state, key(KeyCode::Char('x')));
    assert!(paused_by_hand(&state), "it was before");
}
