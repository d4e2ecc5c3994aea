//! Scheduler and block manager a second time, simple and slow, and held against the real ones decision by decision.

mod blocks;
mod steps;

use batchroom::batch::{Batch, RowKind};
use batchroom::scheduler::{Decisions, Mode};

use crate::acts::{Act, Workload};
use crate::harness::Room;
use crate::shrink::{failure, shrink};
use blocks::Blocks;
use steps::{Oracle, Sequence, Step};

/// What the real one decided, in the oracle's words.
fn decided(batch: &Batch, decisions: &Decisions, held: Vec<u64>) -> Step {
    let rows = batch.rows.iter().map(|row| {
        let blocks = batch.row_blocks(row).iter().map(|block| block.0).collect();
        (row.id.0, row.start, row.len(), blocks, row.kind == RowKind::Decode, row.samples)
    });
    let admitted = decisions.admitted.iter();
    let preempted = decisions.preempted.iter();
    Step {
        rows: rows.collect(),
        copies: batch.copies.iter().map(|copy| (copy.from.0, copy.to.0)).collect(),
        admitted: admitted.map(|admission| (admission.id.0, admission.cached, admission.blocks, admission.again)).collect(),
        preempted: preempted.map(|preemption| (preemption.id.0, preemption.by, preemption.lost)).collect(),
        held,
    }
}

/// Plays a workload without changes with both, and compares every step. Gives the room, and the steps that were compared.
fn play(workload: &Workload) -> (Room, Vec<Step>) {
    let mut room = workload.room();
    let mut oracle: Option<Oracle> = None;
    let mut steps = Vec::new();
    for act in &workload.acts {
        match act {
            Act::Steps(count) => {
                for _ in 0..*count {
                    steps.extend(step(&mut room, &mut oracle));
                }
            }
            act => {
                act.play(&mut room);
                let oracle = match act {
                    Act::Submit { .. } | Act::Cancel(_) => oracle.get_or_insert_with(|| begin(workload, &room)),
                    _ => continue,
                };
                tell(oracle, act, &room);
            }
        }
    }
    while room.scheduler.has_work() {
        steps.extend(step(&mut room, &mut oracle));
        assert!(steps.len() < 50_000, "no end");
    }
    (room, steps)
}

fn begin(workload: &Workload, room: &Room) -> Oracle {
    let mut blocks = Blocks::new(workload.capacity, workload.block_size);
    blocks.set_total(workload.blocks);
    Oracle::new(*room.scheduler.limits(), room.scheduler.prefill_budget(), blocks)
}

fn tell(oracle: &mut Oracle, act: &Act, room: &Room) {
    match act {
        Act::Submit { id, user, priority, fork_of, .. } => {
            let story = &room.stories[id];
            if story.refused.is_none() {
                oracle.submit(Sequence::new(*id, *user, *priority, *fork_of, story.prompt.clone()));
            }
        }
        Act::Cancel(id) if oracle.sequences.iter().any(|other| other.id == *id && other.place != steps::Place::Gone) => {
            oracle.remove(*id);
        }
        _ => {}
    }
}

fn step(room: &mut Room, oracle: &mut Option<Oracle>) -> Option<Step> {
    let had_work = room.scheduler.has_work();
    let oracle = oracle.as_mut().filter(|_| had_work);
    let expected = oracle.map(|oracle| (oracle.step(), oracle));
    room.step();
    let (expected, oracle) = expected?;
    let held = room.held();
    let mut found = decided(&room.newest, &room.decisions, Vec::new());
    let mut expected_held = expected.held.clone();
    expected_held.sort_unstable();
    assert!(held.into_iter().eq(expected_held), "who waits for a prefix");
    found.held = expected.held.clone();
    assert_eq!(found, expected, "step {}", room.newest.step);
    for row in &expected.rows {
        let story = &room.stories[&row.0];
        let failed = story.end == Some(batchroom::scheduler::FinishReason::Failed);
        let token = if row.5 && !failed { story.answer.last().copied() } else { None };
        oracle.commit(row, token, story.end);
    }
    // The real one lets go of who has ended after everybody's row, in their order.
    for row in &expected.rows {
        if room.stories[&row.0].end.is_some() {
            oracle.remove(row.0);
        }
    }
    let next: Vec<u32> = room.scheduler.blocks().next_blocks().map(|block| block.0).collect();
    let expected_next: Vec<u32> = oracle.blocks.free.iter().chain(&oracle.blocks.cached).copied().collect();
    assert_eq!(next, expected_next, "the blocks to be handed out next, after step {}", room.newest.step);
    Some(expected)
}

#[test]
fn every_step_is_what_looking_at_everybody_gives() {
    let (mut static_groups, mut preempted, mut copies, mut held, mut returned) = (0, 0, 0, 0, 0);
    for seed in 0..4000 {
        let workload = Workload::random(seed, false);
        let mut outcome = None;
        if let Some(why) = failure(|| outcome = Some(play(&workload))) {
            let same = |other: &Workload| failure(|| _ = play(other)).is_some_and(|other| other.place == why.place);
            let small = shrink(&workload, same);
            let small_why = failure(|| _ = play(&small));
            panic!("seed {seed}: {why:?}\ncut down to {small:?}\nwhich fails with {small_why:?}");
        }
        let (room, steps) = outcome.expect("it was played");
        static_groups += usize::from(room.scheduler.limits().mode == Mode::Static);
        preempted += steps.iter().map(|step| step.preempted.len()).sum::<usize>();
        copies += steps.iter().map(|step| step.copies.len()).sum::<usize>();
        held += steps.iter().map(|step| step.held.len()).sum::<usize>();
        returned += steps.iter().flat_map(|step| &step.admitted).filter(|admitted| admitted.3 && admitted.1 > 0).count();
    }
    println!("{static_groups} static, {preempted} preempted, {copies} copies, {held} held, {returned} back to their own blocks");
    let enough = static_groups > 100 && preempted > 1000 && copies > 500;
    assert!(enough && held > 500 && returned > 200, "{static_groups}, {preempted}, {copies}, {held}, {returned}");
}
