//! The snapshot: the engine's state in the words of the screen. Built at the frame rate, not at the step rate.

use std::sync::Arc;
use std::time::Duration;

use super::api::*;
use super::live::Live;
use super::worker::Core;
use crate::batch::{RequestId, UserId};
use crate::scheduler::{Scheduler, Sequence, Stage, blocks_for};

/// Steps of the timeline that a snapshot carries: more than any terminal is wide.
const COLUMNS: usize = 512;
const NOTES: usize = 64;

pub(super) fn snapshot(core: &mut Core, now: Duration) -> Snapshot {
    let totals = core.metrics.totals(now);
    let timeline = &core.records.timeline;
    let notes = &core.records.notes;
    Snapshot {
        state: core.state,
        fault: core.fault.clone(),
        pace: core.pace,
        model: core.info.clone(),
        limits: *core.scheduler.limits(),
        step: core.scheduler.step(),
        running: core.scheduler.running().len(),
        waiting: core.scheduler.waiting().len(),
        users: users(core),
        kv: kv(&core.scheduler, core.info.kv_bytes_per_token),
        totals,
        timeline: timeline.range(timeline.len().saturating_sub(COLUMNS)..).cloned().collect(),
        history: core.metrics.history(!core.scheduler.has_work(), core.scheduler.waiting().len()),
        notes: notes.range(notes.len().saturating_sub(NOTES)..).cloned().collect(),
    }
}

/// The newest live request of each user, or its last ended one, in order of the users' first requests.
fn users(core: &Core) -> Vec<UserView> {
    let sequences = || core.scheduler.running().iter().chain(core.scheduler.waiting());
    let view = |user: &UserId| {
        let newest = sequences().filter(|sequence| sequence.user == *user).max_by_key(|sequence| sequence.id);
        match newest {
            Some(sequence) => Some(live(sequence, core.live.get(&sequence.id)?)),
            None => core.records.ended.iter().find(|view| view.user == *user).cloned(),
        }
    };
    core.records.users.iter().filter_map(view).collect()
}

fn live(sequence: &Sequence, live: &Live) -> UserView {
    let status = match sequence.stage {
        Stage::Waiting => Status::Waiting,
        Stage::Preempted => Status::Preempted,
        // The newest token of a decoding sequence is always still to be computed.
        Stage::Running if sequence.remaining() == 1 && sequence.num_generated() > 0 => Status::Decode,
        Stage::Running => Status::Prefill { computed: sequence.num_computed, total: sequence.tokens.len() },
    };
    UserView {
        user: sequence.user,
        request: sequence.id,
        status,
        waiting: sequence.waiting.clone(),
        tokens_per_s: live.times.speed_now(),
        ttft: live.times.ttft(),
        queued: live.times.queued(),
        itl_p95: live.times.itl_p95(),
        context: sequence.tokens.len(),
        prompt_tokens: sequence.prompt_len,
        generated_tokens: sequence.num_generated(),
        kv_blocks: sequence.table.len(),
        preemptions: sequence.preemptions,
    }
}

/// A request as it was at its end: its speed is that of the whole answer, and it holds no blocks any more.
pub(super) fn ended(id: RequestId, live: &Live, reason: FinishReason) -> UserView {
    UserView {
        user: live.user(),
        request: id,
        status: Status::Finished(reason),
        waiting: None,
        tokens_per_s: live.times.speed_overall(),
        ttft: live.times.ttft(),
        queued: live.times.queued(),
        itl_p95: live.times.itl_p95(),
        context: live.prompt_tokens + live.generated,
        prompt_tokens: live.prompt_tokens,
        generated_tokens: live.generated,
        kv_blocks: 0,
        preemptions: live.preemptions,
    }
}

fn kv(scheduler: &Scheduler, bytes_per_token: usize) -> KvView {
    let blocks = scheduler.blocks();
    let counts = blocks.counts();
    let mut owners = vec![BlockOwner::Free; blocks.total()];
    for sequence in scheduler.running() {
        for block in &sequence.table {
            owners[block.0 as usize] =
                if blocks.references(*block) > 1 { BlockOwner::Shared } else { BlockOwner::User(sequence.user) };
        }
    }
    KvView {
        block_size: blocks.block_size(),
        bytes_per_block: blocks.block_size() * bytes_per_token,
        total: blocks.total(),
        used: counts.used,
        cached: counts.cached,
        free: counts.free,
        watermark: scheduler.limits().watermark,
        owners: Arc::from(owners),
        filled_slots: scheduler.running().iter().map(|sequence| sequence.num_computed).sum(),
        reserved_max: scheduler.running().len() * blocks_for(scheduler.limits().max_model_len, blocks.block_size()),
    }
}
