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
        let why = NotChanged::OverContext { max_model_len: limits.max_model_len, context: core.info.context };
        return refused(core, why);
    }
    match core.scheduler.set_limits(limits) {
        Ok(preempted) => {
            if !differences(&old, &limits).is_empty() {
                changed(core, Change::Limits { old, new: limits });
            }
            core.preempted_between.extend(preempted.iter().map(step_preemption));
            tell_preempted(core, &preempted);
        }
        Err(error) => refused(core, error.into()),
    }
}

pub(crate) fn set_kv_blocks(core: &mut Core, blocks: usize) {
    let old = core.scheduler.blocks().total();
    match core.scheduler.set_kv_blocks(blocks) {
        Ok(preempted) => {
            changed(core, Change::KvBlocks { old, new: blocks });
            core.preempted_between.extend(preempted.iter().map(step_preemption));
            tell_preempted(core, &preempted);
        }
        Err(error) => refused(core, error.into()),
    }
}

pub(crate) fn set_target_itl(core: &mut Core, target: Option<Duration>) {
    let what = Change::TargetItl { old: core.cost.target(), new: target };
    core.cost.set_target(target);
    changed(core, what);
}

fn changed(core: &mut Core, what: Change) {
    core.records.note(core.scheduler.step(), NoteKind::Changed { what });
}

fn refused(core: &mut Core, why: NotChanged) {
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
