//! The snapshot: the engine's state in the words of the screen. Built at the frame rate, not at the step rate.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::api::*;
use super::core::Core;
use super::live::Live;
use super::metrics::Load;
use crate::batch::{RequestId, UserId};
use crate::scheduler::{BlockUse, Scheduler, Sequence, Stage, blocks_for};

const NOTES: usize = 256;
/// Requests whose reason to wait a snapshot carries.
const WITHOUT: usize = 1024;

pub(super) fn snapshot(core: &mut Core, now: Duration) -> Snapshot {
    let totals = core.metrics.totals(now);
    let notes = &core.records.notes;
    let without = without(&core.scheduler);
    let load = Load { queue: core.scheduler.num_waiting(), used_blocks: core.scheduler.blocks().counts().used };
    Snapshot {
        state: core.state,
        fault: core.fault.clone(),
        pace: core.pace,
        model: core.info.clone(),
        limits: *core.scheduler.limits(),
        target_itl: core.cost.target(),
        prefill_budget: core.cost.target().map(|_| core.scheduler.prefill_budget()),
        step: core.scheduler.step(),
        running: core.scheduler.running().len(),
        waiting: core.scheduler.num_waiting(),
        users: users(core, &without),
        without,
        kv: kv(&core.scheduler, core.info.kv_bytes_per_token),
        totals,
        ledger: Arc::new(core.scheduler.ledger().clone()),
        latencies: core.metrics.latencies(),
        prediction: core.records.prediction(),
        witnesses_due: core.witnesses_due,
        timeline: core.records.timeline.clone(),
        history: core.metrics.history(!core.scheduler.has_work(), load),
        longer: core.metrics.longer(),
        notes: notes.range(notes.len().saturating_sub(NOTES)..).cloned().collect(),
    }
}

fn without(scheduler: &Scheduler) -> Vec<Without> {
    let without = |(sequence, why): (&Sequence, Waiting)| Without { request: sequence.id, user: sequence.user, why };
    scheduler.reasons().into_iter().take(WITHOUT).map(without).collect()
}

/// The newest live request of each user, or its last ended one, in order of the users' first requests.
fn users(core: &Core, without: &[Without]) -> Vec<UserView> {
    let reasons: HashMap<RequestId, &Waiting> = without.iter().map(|without| (without.request, &without.why)).collect();
    let mut newest: HashMap<UserId, &Sequence> = HashMap::new();
    for sequence in core.scheduler.running().iter().chain(core.scheduler.waiting()) {
        let known = newest.entry(sequence.user).or_insert(sequence);
        if known.id < sequence.id {
            *known = sequence;
        }
    }
    let view = |user: &UserId| match newest.get(user) {
        Some(sequence) => Some(live(sequence, core.live.get(&sequence.id)?, reasons.get(&sequence.id).map(|why| (*why).clone()))),
        None => core.records.ended.iter().find(|view| view.user == *user).cloned(),
    };
    core.records.users.iter().filter_map(view).collect()
}

fn live(sequence: &Sequence, live: &Live, waiting: Option<Waiting>) -> UserView {
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
        waiting,
        tokens_per_s: live.times.speed_now(),
        ttft: live.times.ttft(),
        queued: live.times.queued(),
        itl_p95: live.times.itl_p95(),
        context: sequence.tokens.len(),
        prompt_tokens: sequence.prompt_len,
        generated_tokens: sequence.num_generated(),
        kv_blocks: sequence.table.len(),
        preemptions: sequence.preemptions,
        cached_tokens: sequence.cached_tokens,
        predicted_ttft: live.predicted_ttft,
    }
}

/// A request as it was at its end: its speed is that of the whole answer, and it holds no blocks any more.
pub(super) fn ended(id: RequestId, live: &Live, reason: FinishReason) -> UserView {
    UserView {
        user: live.user,
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
        cached_tokens: live.cached_tokens,
        predicted_ttft: live.predicted_ttft,
    }
}

fn kv(scheduler: &Scheduler, bytes_per_token: usize) -> KvView {
    let blocks = scheduler.blocks();
    let counts = blocks.counts();
    let uses = blocks.uses();
    let mut holders = vec![None; uses.len()];
    for sequence in scheduler.running() {
        sequence.table.iter().for_each(|block| holders[block.0 as usize] = Some(sequence.user));
    }
    let owner = |(what, holder): (&BlockUse, &Option<UserId>)| match (what, holder) {
        (BlockUse::Spare, _) => None,
        (BlockUse::Free, _) => Some(BlockOwner::Free),
        (BlockUse::Cached, _) => Some(BlockOwner::Cached),
        (BlockUse::Used(1), Some(user)) => Some(BlockOwner::User(*user)),
        (BlockUse::Used(1), None) => Some(BlockOwner::Witness),
        (BlockUse::Used(_), _) => Some(BlockOwner::Shared),
    };
    // A shared block is full: it was counted once for each that holds it.
    let doubles: usize = uses.iter().map(|what| if let BlockUse::Used(count) = what { *count as usize - 1 } else { 0 }).sum();
    let computed: usize = scheduler.running().iter().map(|sequence| sequence.num_computed).sum();
    let borrowed: usize =
        uses.iter().zip(&holders).filter(|(what, holder)| **what == BlockUse::Used(1) && holder.is_none()).count();
    KvView {
        block_size: blocks.block_size(),
        bytes_per_block: blocks.block_size() * bytes_per_token,
        total: blocks.total(),
        used: counts.used,
        cached: counts.cached,
        free: counts.free,
        watermark: scheduler.limits().watermark,
        capacity: blocks.capacity(),
        owners: uses.iter().zip(&holders).filter_map(owner).collect(),
        shared: uses.iter().filter(|what| matches!(what, BlockUse::Used(2..))).count(),
        filled_slots: computed.saturating_sub(doubles * blocks.block_size()) + borrowed * blocks.block_size(),
        reserved_max: scheduler.running().len() * blocks_for(scheduler.limits().max_model_len, blocks.block_size()),
    }
}
