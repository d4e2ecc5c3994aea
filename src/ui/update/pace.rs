//! Slow motion: the engine's pace, rung by rung.

use super::Effect;
use crate::engine::api::Pace;
use crate::ui::state::State;

/// Steps a second, from fast to slow; None is full speed.
const LADDER: [Option<f64>; 9] =
    [None, Some(60.0), Some(30.0), Some(15.0), Some(8.0), Some(4.0), Some(2.0), Some(1.0), Some(0.5)];

pub(in crate::ui) fn set_pace(state: &mut State, pace: Pace) -> Vec<Effect> {
    state.pace = Some(pace);
    vec![Effect::SetPace(pace)]
}

pub(in crate::ui) fn set_pace_beside(state: &mut State, slower: bool) -> Vec<Effect> {
    let pace = pace_beside(state, slower);
    set_pace(state, pace)
}

fn pace_beside(state: &State, slower: bool) -> Pace {
    let now = state.paced();
    // The present pace may be any number: the nearest rung on the wanted side.
    let speed = |rung: &Option<f64>| rung.unwrap_or(f64::INFINITY);
    let rung = if slower {
        LADDER.iter().find(|rung| speed(rung) < speed(&now)).unwrap_or(&LADDER[LADDER.len() - 1])
    } else {
        LADDER.iter().rev().find(|rung| speed(rung) > speed(&now)).unwrap_or(&LADDER[0])
    };
    rung.map_or(Pace::Full, Pace::StepsPerSecond)
}
