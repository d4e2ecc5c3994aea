//! A state of the engine as JSON, for scripts: of a recording, or of an engine that runs.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Replay, Said, What};
use crate::engine::{NoteKind, RunState, Snapshot, Status, StepRecord, TakenBy, UserView, Waiting};

/// The present frame.
pub fn json(replay: &mut Replay) -> Value {
    let frame = replay.frame();
    let mut object = state(&replay.snapshot());
    object["frame"] = json!(frame);
    object["frames"] = json!(replay.steps());
    object["time_ms"] = json!(millis(replay.time(frame)));
    object["cut"] = json!(replay.cut().map(ToString::to_string));
    object["chats"] = json!(chats(replay.said(None, frame)));
    object
}

/// What an engine says of itself: times in milliseconds of engine time, users by their numbers.
pub fn state(snapshot: &Snapshot) -> Value {
    json!({
        "step": snapshot.step,
        "state": match snapshot.state {
            RunState::Idle => "idle",
            RunState::Running => "running",
            RunState::Paused => "paused",
            RunState::Stopped => "stopped",
        },
        "fault": snapshot.fault,
        "steps_per_s_at_most": snapshot.pace.steps_per_second(),
        "model": *snapshot.model,
        "limits": snapshot.limits,
        "target_itl_ms": snapshot.target_itl.map(millis),
        "prefill_budget": snapshot.prefill_budget.filter(|budget| *budget < usize::MAX),
        "running": snapshot.running,
        "waiting": snapshot.waiting,
        "users": snapshot.users.iter().map(user).collect::<Vec<_>>(),
        "without_a_token": snapshot.without.iter().map(|without| json!({
            "request": without.request.0, "user": without.user.0, "why": why(&without.why),
        })).collect::<Vec<_>>(),
        "kv": kv(snapshot),
        "totals": totals(snapshot),
        "latency_s": {
            "queue": snapshot.latencies.queue,
            "ttft": snapshot.latencies.ttft,
            "tpot": snapshot.latencies.tpot,
            "itl": snapshot.latencies.itl,
            "end_to_end": snapshot.latencies.end_to_end,
        },
        "ledger": {
            "asked_tokens": snapshot.ledger.asked,
            "hit_tokens": snapshot.ledger.hit,
            "hit_rate": snapshot.ledger.hit_rate(),
            "hit_on_return_tokens": snapshot.ledger.hit_on_return,
            "recomputed_tokens": snapshot.ledger.recomputed_total,
        },
        "last_step": snapshot.timeline.back().map(|record| step(record)),
        "notes": snapshot.notes.iter().map(|note| json!({ "step": note.step, "what": note_words(&note.kind) })).collect::<Vec<_>>(),
    })
}

fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

fn user(view: &UserView) -> Value {
    let (status, computed) = match view.status {
        Status::Waiting => ("waiting", None),
        Status::Prefill { computed, .. } => ("prefill", Some(computed)),
        Status::Decode => ("decode", None),
        Status::Preempted => ("preempted", None),
        Status::Finished(reason) => (reason.as_str(), None),
    };
    json!({
        "user": view.user.0,
        "request": view.request.0,
        "status": status,
        "computed": computed,
        "why": view.waiting.as_ref().map(why),
        "tokens_per_s": view.tokens_per_s,
        "ttft_ms": view.ttft.map(millis),
        "queue_ms": view.queued.map(millis),
        "itl_p95_ms": view.itl_p95.map(millis),
        "prompt_tokens": view.prompt_tokens,
        "generated_tokens": view.generated_tokens,
        "kv_blocks": view.kv_blocks,
        "preemptions": view.preemptions,
        "cached_tokens": view.cached_tokens,
        "predicted_ttft_ms": view.predicted_ttft.map(millis),
    })
}

fn taken_by(by: &TakenBy) -> Value {
    match by {
        TakenBy::User(user) => json!({ "user": user.0 }),
        TakenBy::Itself => json!("itself"),
        TakenBy::Seats => json!("seats"),
        TakenBy::KvBudget => json!("kv_budget"),
    }
}

/// A reason and its numbers.
fn why(why: &Waiting) -> Value {
    let users = |users: &[crate::batch::UserId]| users.iter().map(|user| user.0).collect::<Vec<_>>();
    match why {
        Waiting::Seats { running, max_num_seqs } => json!({ "seats": { "running": running, "max_num_seqs": max_num_seqs } }),
        Waiting::Budget { max_num_batched_tokens, spent_on } => {
            json!({ "budget": { "max_num_batched_tokens": max_num_batched_tokens, "spent_on": users(spent_on) } })
        }
        Waiting::PrefillBudget { tokens, spent_on } => {
            json!({ "prefill_budget": { "tokens": tokens, "spent_on": users(spent_on) } })
        }
        Waiting::Blocks { needed, free, watermark } => {
            json!({ "blocks": { "needed": needed, "free": free, "watermark": watermark } })
        }
        Waiting::Behind { ahead } => json!({ "behind": ahead }),
        Waiting::Preempted { by } => json!({ "preempted": taken_by(by) }),
        Waiting::PreemptionStep => json!("preemption_step"),
        Waiting::Group { running } => json!({ "group": running }),
        Waiting::SharedPrefix { user, tokens } => json!({ "shared_prefix": { "user": user.0, "tokens": tokens } }),
        Waiting::NotYet => json!("not_yet"),
    }
}

fn kv(snapshot: &Snapshot) -> Value {
    let kv = &snapshot.kv;
    json!({
        "block_size": kv.block_size, "total": kv.total, "used": kv.used, "cached": kv.cached, "free": kv.free,
        "shared": kv.shared, "capacity": kv.capacity, "filled_slots": kv.filled_slots, "reserved_max": kv.reserved_max,
    })
}

fn totals(snapshot: &Snapshot) -> Value {
    let totals = &snapshot.totals;
    json!({
        "steps": totals.steps,
        "prompt_tokens": totals.prompt_tokens,
        "generated_tokens": totals.generated_tokens,
        "finished": totals.finished,
        "cancelled": totals.cancelled,
        "rejected": totals.rejected,
        "preemptions": totals.preemptions,
        "recomputed_tokens": totals.recomputed_tokens,
        "tokens_per_s": totals.tokens_per_s,
        "prefill_tokens_per_s": totals.prefill_tokens_per_s,
    })
}

fn step(record: &StepRecord) -> Value {
    let rows = record.rows.iter().map(|row| {
        json!({
            "user": row.user.0,
            "request": row.request.0,
            "kind": match row.kind { crate::batch::RowKind::Prefill => "prefill", crate::batch::RowKind::Decode => "decode" },
            "start": row.start,
            "tokens": row.tokens,
        })
    });
    json!({
        "step": record.step,
        "duration_ms": millis(record.duration),
        "rows": rows.collect::<Vec<_>>(),
        "admitted": record.admitted.iter().map(|it| {
            json!({ "user": it.user.0, "request": it.request.0, "blocks": it.blocks, "cached": it.cached, "again": it.again })
        }).collect::<Vec<_>>(),
        "preempted": record.preempted.iter().map(|it| {
            json!({ "user": it.user.0, "by": taken_by(&it.by), "lost": it.lost })
        }).collect::<Vec<_>>(),
        "finished": record.finished.iter().map(|(user, end)| json!({ "user": user.0, "reason": end.as_str() })).collect::<Vec<_>>(),
        "waiting": record.waiting.iter().map(|(user, reason)| json!({ "user": user.0, "why": why(reason) })).collect::<Vec<_>>(),
        "budget_used": record.budget_used,
        "budget": record.budget,
        "used_blocks": record.used_blocks,
        "cached_blocks": record.cached_blocks,
        "parts_ms": record.parts.map(|parts| json!({
            "attention": millis(parts.attention),
            "products": millis(parts.products),
            "sampling": millis(parts.sampling),
            "scheduling": millis(parts.scheduling),
        })),
    })
}

fn note_words(kind: &NoteKind) -> String {
    match kind {
        NoteKind::Queued { user, prompt_tokens, ahead } => {
            format!("user {} queued: {prompt_tokens} tokens, {ahead} ahead", user.0)
        }
        NoteKind::Admitted { user, blocks, cached } => {
            format!("user {} admitted with {blocks} blocks, {cached} tokens cached", user.0)
        }
        NoteKind::Chunk { user, start, tokens, last } => {
            format!("user {} {} chunk: {tokens} tokens from {start}", user.0, if *last { "last" } else { "first" })
        }
        NoteKind::Preempted { user, by, lost } => {
            let by = match by {
                TakenBy::User(by) => format!("for user {}", by.0),
                TakenBy::Itself => "by its own lack of blocks".into(),
                TakenBy::Seats => "because there are fewer seats".into(),
                TakenBy::KvBudget => "because there is less KV memory".into(),
            };
            format!("user {} preempted {by}, {lost} tokens lost", user.0)
        }
        NoteKind::Finished { user, reason, generated } => format!("user {} {}: {generated} tokens", user.0, reason.as_str()),
        NoteKind::Rejected { user, why } => format!("user {} refused: {why}", user.0),
        NoteKind::Changed { what } => format!("changed: {what}"),
        NoteKind::ChangeRefused { why } => format!("not changed: {why}"),
        NoteKind::RecordingEnded { why } => format!("recording ended: {why}"),
        NoteKind::Witnessed(witnessed) => format!("user {} witness: {:?}", witnessed.user.0, witnessed.verdict),
    }
}

/// What each user has written and been answered so far, in order.
pub fn chats<'a>(said: impl IntoIterator<Item = &'a Said>) -> Vec<Value> {
    let mut chats: BTreeMap<u32, (String, Vec<Value>)> = BTreeMap::new();
    let mut places = HashMap::new();
    for said in said {
        let (name, turns) = chats.entry(said.user.0).or_default();
        let at = *places.entry(said.request).or_insert(turns.len());
        match &said.what {
            What::Named(new) => *name = new.to_string(),
            What::Asked { words, tokens } => {
                turns.push(json!({ "prompt": words, "prompt_tokens": tokens, "answer": "", "end": null }));
            }
            What::Text(text) => append(turns.get_mut(at), text),
            What::Finished(end) => {
                append(turns.get_mut(at), &end.text);
                if let Some(turn) = turns.get_mut(at) {
                    turn["end"] = json!(end.reason.as_str());
                }
            }
            What::Refused(why) => {
                if let Some(turn) = turns.get_mut(at) {
                    turn["end"] = json!(format!("refused: {why}"));
                }
            }
            What::Admitted | What::Preempted(_) => {}
        }
    }
    chats.into_iter().map(|(user, (name, turns))| json!({ "user": user, "name": name, "turns": turns })).collect()
}

fn append(turn: Option<&mut Value>, text: &str) {
    if let Some(Value::String(answer)) = turn.and_then(|turn| turn.get_mut("answer")) {
        answer.push_str(text);
    }
}
