//! Limits changed while the engine runs, and what is said of it.

use std::time::Duration;

use super::api::*;
use super::core::Core;
use super::record::step_preemption;
use crate::scheduler::Preemption;

/// Carries one change out. What is preempted for it is told like any other preemption.
pub(crate) fn set_limits(core: &mut Core, limits: Limits) {
    let old = *core.scheduler.limits();
    if limits.max_model_len > core.info.context {
        let why = format!("max_model_len {}: the context of the model is {} tokens", limits.max_model_len, core.info.context);
        return refused(core, why);
    }
    match core.scheduler.set_limits(limits) {
        Ok(preempted) => {
            changed(core, differences(&old, &limits).join(", "));
            core.preempted_between.extend(preempted.iter().map(step_preemption));
            tell_preempted(core, &preempted);
        }
        Err(error) => refused(core, error.to_string()),
    }
}

pub(crate) fn set_kv_blocks(core: &mut Core, blocks: usize) {
    let old = core.scheduler.blocks().total();
    match core.scheduler.set_kv_blocks(blocks) {
        Ok(preempted) => {
            changed(core, format!("KV budget {old} -> {blocks} blocks"));
            core.preempted_between.extend(preempted.iter().map(step_preemption));
            tell_preempted(core, &preempted);
        }
        Err(error) => refused(core, error.to_string()),
    }
}

pub(crate) fn set_target_itl(core: &mut Core, target: Option<Duration>) {
    let say = |target: Option<Duration>| target.map_or("none".to_owned(), |target| format!("{} ms", target.as_secs_f64() * 1e3));
    let what = format!("target_itl {} -> {}", say(core.cost.target()), say(target));
    core.cost.set_target(target);
    changed(core, what);
}

/// Each limit that is another, with both values.
fn differences(old: &Limits, new: &Limits) -> Vec<String> {
    let on = |on: bool| if on { "on" } else { "off" }.to_owned();
    let pairs = [
        ("max_num_seqs", old.max_num_seqs.to_string(), new.max_num_seqs.to_string()),
        ("max_num_batched_tokens", old.max_num_batched_tokens.to_string(), new.max_num_batched_tokens.to_string()),
        ("prefill_chunk", old.prefill_chunk.to_string(), new.prefill_chunk.to_string()),
        ("max_model_len", old.max_model_len.to_string(), new.max_model_len.to_string()),
        ("max_waiting", old.max_waiting.to_string(), new.max_waiting.to_string()),
        ("watermark", old.watermark.to_string(), new.watermark.to_string()),
        ("policy", old.policy.to_string(), new.policy.to_string()),
        ("mode", old.mode.to_string(), new.mode.to_string()),
        ("prefix_cache", on(old.prefix_cache), on(new.prefix_cache)),
    ];
    let changed = pairs.into_iter().filter(|(_, old, new)| old != new);
    changed.map(|(name, old, new)| format!("{name} {old} -> {new}")).collect()
}

fn changed(core: &mut Core, what: String) {
    if !what.is_empty() {
        core.records.note(core.scheduler.step(), NoteKind::Changed { what });
    }
}

fn refused(core: &mut Core, why: String) {
    core.records.note(core.scheduler.step(), NoteKind::ChangeRefused { why });
}

/// Everybody whose blocks were taken hears of it.
pub(super) fn tell_preempted(core: &mut Core, preempted: &[Preemption]) {
    let step = core.scheduler.step();
    for preemption in preempted {
        let Some(live) = core.live.get_mut(&preemption.id) else { continue };
        live.preempted();
        let Preemption { id, user, by, lost } = *preemption;
        core.outbox.push((id, Event::Preempted { step, by }));
        core.records.note(step, NoteKind::Preempted { user, by, lost });
    }
    core.metrics.totals_mut().preemptions += preempted.len() as u64;
}
