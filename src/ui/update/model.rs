//! The better model: fetched, switched to, switched back.

use super::Effect;
use crate::hub::Progress;
use crate::ui::state::{Better, Download, State};
use crate::ui::words::say;
use crate::ui::{bots, reading};

pub(super) fn model(state: &mut State) -> Vec<Effect> {
    match state.better.clone() {
        Better::InUse if state.on_small_model() => vec![],
        Better::InUse => {
            let title = &state.snapshot.model.title;
            let words =
                say!(state.options.theme, "{} is in use; \u{201c}switch back\u{201d} is in the list of everything", title);
            state.say(words);
            vec![]
        }
        Better::Absent | Better::Failed(_) => {
            state.better = Better::Fetching(Download {
                source: state.options.theme.tr("looking for a way").into(),
                began: state.now,
                ..Download::default()
            });
            vec![Effect::Fetch]
        }
        Better::Fetching(_) => {
            state.better = Better::Absent;
            state.say(state.options.theme.tr("the download was stopped"));
            vec![Effect::CancelFetch]
        }
        Better::Ready if state.live() > 0 => {
            state.better = Better::WaitingToSwitch;
            vec![]
        }
        Better::Ready | Better::WaitingToSwitch => switch_now(state),
        Better::Loading => vec![],
    }
}

pub(super) fn switch_now(state: &mut State) -> Vec<Effect> {
    state.better = Better::Loading;
    vec![Effect::Switch(state.options.better_name.clone())]
}

pub(super) fn switch_if_waiting(state: &mut State) -> Vec<Effect> {
    if state.better == Better::WaitingToSwitch && state.live() == 0 { switch_now(state) } else { Vec::new() }
}

pub(super) fn switch_back(state: &mut State) -> Vec<Effect> {
    if state.on_small_model() || state.better == Better::Loading {
        return Vec::new();
    }
    if state.live() > 0 {
        state.say(state.options.theme.tr("answers are still running: stop them first (Ctrl-C in each pane)"));
        return Vec::new();
    }
    state.better = Better::Loading;
    vec![Effect::Switch(state.options.small_name.clone())]
}

pub(super) fn on_progress(state: &mut State, progress: Progress) {
    let Better::Fetching(download) = &mut state.better else { return };
    if download.source != progress.source {
        download.began = state.now;
    }
    let passed = state.now.saturating_sub(download.began).as_secs_f64();
    download.rate = (passed > 0.5 && progress.done > 0).then(|| progress.done as f64 / passed);
    (download.source, download.done, download.total) = (progress.source, progress.done, progress.total);
}

pub(super) fn on_fetched(state: &mut State, result: Result<(), String>) -> Vec<Effect> {
    if !matches!(state.better, Better::Fetching(_)) {
        return Vec::new();
    }
    let wanted = std::mem::take(&mut state.wanted);
    match result {
        Ok(()) => state.better = Better::Ready,
        Err(why) => state.better = Better::Failed(why),
    }
    if wanted && state.better == Better::Ready { model(state) } else { Vec::new() }
}

/// A model was loaded and its engine took over, or not.
pub(super) fn on_switched(state: &mut State, result: Result<String, String>) -> Vec<Effect> {
    let mut effects = Vec::new();
    if result.is_ok() {
        // What the panels held was of the engine before.
        (state.machine.frozen, state.machine.look) = (None, None);
        reading::on_new_engine(state);
        bots::on_lost(state, None);
        effects = state.settings.for_new_engine(&state.snapshot.limits);
    }
    say_switched(state, result);
    effects
}

fn say_switched(state: &mut State, result: Result<String, String>) {
    let small = state.options.small_name.clone();
    match result {
        Ok(name) if name == small => {
            state.better = Better::Ready;
            let words = say!(state.options.theme, "{} answers now; every chat is still here", name);
            state.say(words);
        }
        Ok(_) => {
            state.better = Better::InUse;
            let words = say!(state.options.theme, "{} answers now; every chat is still here", state.options.better_title);
            state.say(words);
        }
        // Fetching looks at the file again, and replaces it if it is damaged.
        Err(why) if state.on_small_model() => state.better = Better::Failed(why),
        Err(why) => {
            state.better = Better::InUse;
            state.complain(why);
        }
    }
}
