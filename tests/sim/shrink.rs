//! Cuts a workload that fails down to a small one that still does (delta debugging: Zeller and Hildebrandt, 2002).

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::acts::{Act, Prompt, Workload};
use crate::harness::Plant;

/// Workloads played at most while one is cut down.
const PLAYS: usize = 4000;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static PLACE: Cell<Option<String>> = const { Cell::new(None) };
}

/// A panic: where, and what it says.
#[derive(Clone, Debug)]
pub struct Failure {
    pub place: String,
    pub what: String,
}

/// How `act` panics; None when it does not. Nothing of it is printed.
pub fn failure(act: impl FnOnce()) -> Option<Failure> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                PLACE.set(info.location().map(|place| format!("{}:{}", place.file(), place.line())));
            } else {
                loud(info);
            }
        }));
    });
    QUIET.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(act));
    QUIET.set(false);
    let panic = outcome.err()?;
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    let what = text.unwrap_or("a panic without words").to_owned();
    Some(Failure { place: PLACE.take().unwrap_or_default(), what })
}

/// A workload that fails, as small as could be found.
pub fn shrink(workload: &Workload, fails: impl Fn(&Workload) -> bool) -> Workload {
    let mut search = Search { best: workload.clone(), plays: 0, fails };
    loop {
        let before = search.best.clone();
        search.remove_chunks();
        search.lower_numbers();
        search.lower_room();
        if search.best == before || search.plays >= PLAYS {
            return search.best;
        }
    }
}

struct Search<F> {
    best: Workload,
    plays: usize,
    fails: F,
}

impl<F: Fn(&Workload) -> bool> Search<F> {
    /// Takes `other` for the best when it fails as well.
    fn attempt(&mut self, other: Workload) -> bool {
        if self.plays >= PLAYS {
            return false;
        }
        self.plays += 1;
        let fails = (self.fails)(&other);
        if fails {
            self.best = other;
        }
        fails
    }

    /// Halves, quarters, and so on down to single acts.
    fn remove_chunks(&mut self) {
        let mut size = self.best.acts.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < self.best.acts.len() {
                let mut other = self.best.clone();
                other.acts.drain(at..(at + size).min(other.acts.len()));
                // What stood behind the chunk has moved into its place.
                if !self.attempt(other) {
                    at += size;
                }
            }
            size /= 2;
        }
    }

    fn lower_numbers(&mut self) {
        for at in 0..self.best.acts.len() {
            while self.lower_one(at) {}
        }
    }

    fn lower_one(&mut self, at: usize) -> bool {
        self.best.acts[at].lowered().into_iter().any(|act| {
            let mut other = self.best.clone();
            other.acts[at] = act;
            self.attempt(other)
        })
    }

    /// Fewer blocks, and answers that do not end by themselves.
    fn lower_room(&mut self) {
        self.attempt(Workload { ends_every: 0, ..self.best.clone() });
        for _ in 0..64 {
            let blocks = self.best.blocks;
            if blocks < 2 || !self.attempt(Workload { blocks: blocks - 1, capacity: blocks - 1, ..self.best.clone() }) {
                break;
            }
        }
    }
}

/// Plays a workload; one that fails is cut down, and printed so that it can be played again.
pub fn play_or_shrink(name: &str, workload: &Workload) -> Result<crate::harness::Room, String> {
    let mut room = None;
    let Some(why) = failure(|| room = Some(workload.play(None))) else { return Ok(room.expect("it was played")) };
    // The same failure, not just any.
    let same = |other: &Workload| failure(|| _ = other.play(None)).filter(|other| other.place == why.place);
    let small = shrink(workload, |other| same(other).is_some());
    let small_why = same(&small).expect("it fails like the whole").what;
    let acts: Vec<String> = small.acts.iter().map(|act| format!("  {act:?}")).collect();
    let json = serde_json::to_string(&small).expect("a workload is plain data");
    let Failure { place, what } = why;
    Err(format!(
        "{name}: {place}: {what}\ncut down from {} acts to {}, which fail with: {small_why}\n{}\n\
         put this into a file and play it again with BATCHROOM_ACTS=file:\n{json}",
        workload.acts.len(),
        small.acts.len(),
        acts.join("\n")
    ))
}

/// The first seed whose workload fails with this mistake in it, and what it is cut down to.
fn planted(plant: Plant) -> (Workload, Workload) {
    let fails = |workload: &Workload| failure(|| _ = workload.play(Some(plant))).is_some();
    let seed = (0..2000).find(|seed| fails(&Workload::random(*seed, true))).expect("some workload shows it");
    println!("{plant:?}: seed {seed}");
    let whole = Workload::random(seed, true);
    let small = shrink(&whole, fails);
    println!("{} acts cut down to {:#?}", whole.acts.len(), small.acts);
    (whole, small)
}

#[test]
fn a_planted_fault_is_cut_down_to_what_it_takes() {
    let (whole, small) = planted(Plant::WrongAfterReturn);
    assert!(failure(|| _ = small.play(None)).is_none(), "it is the planted fault that fails");
    // Somebody has to be preempted and come back: a request or two, and what takes the blocks.
    assert!(small.acts.len() <= 6 && small.acts.len() < whole.acts.len() / 2, "{small:#?}");
    let (_, small) = planted(Plant::NoCopies);
    let forks = |act: &&Act| matches!(act, Act::Submit { fork_of: Some(_), .. });
    let submits = small.acts.iter().filter(|act| matches!(act, Act::Submit { .. })).count();
    assert_eq!((small.acts.iter().filter(forks).count(), submits), (1, 2), "a request and its fork: {small:#?}");
    assert!(small.acts.len() <= 5, "{small:#?}");
}

#[test]
fn a_list_of_acts_can_be_written_down_and_played_again() {
    for seed in 0..20 {
        let workload = Workload::random(seed, true);
        let json = serde_json::to_string(&workload).unwrap();
        assert_eq!(serde_json::from_str::<Workload>(&json).unwrap(), workload);
    }
}

#[test]
fn lower_numbers_end() {
    let prompt = Prompt::Branch { of: 3, keep: 50, own: 9 };
    let submit = Act::Submit { id: 4, user: 2, prompt, max_tokens: 30, priority: 1, fork_of: Some(3), fails_at: Some(2) };
    let mut act = submit;
    for count in 0.. {
        assert!(count < 100, "{act:?}");
        let Some(next) = act.lowered().into_iter().next() else { break };
        act = next;
    }
    assert!(matches!(act, Act::Submit { max_tokens: 1, fork_of: None, fails_at: None, user: 0, .. }), "{act:?}");
}
