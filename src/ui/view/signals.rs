//! What is short: signs that the machine is full, each with its evidence and what helps, the cheapest first; and how memory
//! use went over the day.
//!
//! Every sign has a rule that is said with it. Nothing here is a guess about causes that the figures do not show.

use std::collections::VecDeque;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{panel, step};
use crate::engine::api::{Sample, Snapshot, Waiting};
use crate::ui::format;
use crate::ui::people::People;
use crate::ui::theme::Theme;
use crate::ui::words::say;

/// Memory in use from which on it is called nearly full, in hundredths.
const NEARLY_FULL: usize = 90;
/// Samples in which something was in use that a verdict needs.
const ENOUGH: usize = 12;
/// A fall of this share of the whole range between two samples is a tooth.
const TOOTH: f64 = 0.3;
/// Teeth that make a saw.
const TEETH: usize = 3;

pub fn wanted_height(_snapshot: &Snapshot, _width: u16) -> u16 {
    10
}

pub fn draw(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, people: &People, theme: Theme) {
    let _ = draw_at(buf, area, snapshot, people, theme, None);
}

/// The same, from line `scroll` on; gives how far it can be scrolled.
pub fn draw_scrolled(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, people: &People, theme: Theme, scroll: usize) -> usize {
    draw_at(buf, area, snapshot, people, theme, Some(scroll))
}

/// `scroll` is None where there are others beside it.
fn draw_at(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, _: &People, theme: Theme, scroll: Option<usize>) -> usize {
    let signs = signs(snapshot, theme);
    let figures = match signs.len() {
        0 => vec![theme.tr("nothing").to_owned()],
        signs => vec![theme.plural(signs, "{} sign", "{} signs")],
    };
    let Some(inner) = panel::frame(buf, area, theme.tr("what is short"), &figures, theme) else { return 0 };
    let mut words: Vec<(String, Style)> = Vec::new();
    if signs.is_empty() {
        let none = "No sign that anything is short: nobody waits for seats, blocks or budget, and nobody was preempted lately.";
        words.push((theme.tr(none).to_owned(), theme.good()));
    }
    for sign in signs {
        words.push((sign.what, theme.warn()));
        let remedies = sign.remedies.iter().enumerate().map(|(at, remedy)| format!("{}. {remedy}", at + 1));
        words.extend(remedies.map(|remedy| (format!("  {remedy}"), theme.text())));
    }
    words.extend(verdict(snapshot, theme).map(|verdict| (verdict, theme.text())));
    step::draw_words(buf, inner, &words, scroll, theme)
}

/// What is short, with the figures that show it, and what helps.
struct Sign {
    what: String,
    remedies: Vec<String>,
}

fn signs(snapshot: &Snapshot, theme: Theme) -> Vec<Sign> {
    let all = [memory(snapshot, theme), seats(snapshot, theme), budget(snapshot, theme), slow(snapshot, theme)];
    all.into_iter().flatten().collect()
}

fn waits(snapshot: &Snapshot, which: fn(&Waiting) -> bool) -> bool {
    snapshot
        .without
        .iter()
        .map(|without| &without.why)
        .chain(snapshot.users.iter().filter_map(|view| view.waiting.as_ref()))
        .any(which)
}

/// Preemptions of the last ten minutes. The series of ten minutes is behind by one of its samples at most, and the minute by
/// one of its own: what is newer comes from the minute, and from the steps themselves.
fn preempted_lately(snapshot: &Snapshot) -> u64 {
    const LATELY: Duration = Duration::from_secs(600);
    let newest = snapshot.timeline.back().map_or(Duration::ZERO, |record| record.at);
    if newest <= LATELY {
        // All of it has happened lately.
        return snapshot.totals.preemptions;
    }
    let upto = |series: &VecDeque<Sample>| series.back().map_or(Duration::ZERO, |sample| sample.at);
    let sum = |samples: &mut dyn Iterator<Item = u64>| samples.fold(0, u64::saturating_add);
    let (long, minute) = (upto(&snapshot.longer[0]), upto(&snapshot.history));
    let of_minute = snapshot.history.iter().filter(|sample| sample.at > long);
    let of_steps = snapshot.timeline.iter().filter(|record| record.at > long.max(minute));
    sum(&mut snapshot.longer[0].iter().map(|sample| u64::from(sample.preemptions)))
        .saturating_add(sum(&mut of_minute.map(|sample| u64::from(sample.preemptions))))
        .saturating_add(sum(&mut of_steps.map(|record| record.preempted.len() as u64)))
}

/// KV memory: somebody was preempted in the last ten minutes, or waits for blocks.
fn memory(snapshot: &Snapshot, theme: Theme) -> Option<Sign> {
    let kv = &snapshot.kv;
    let lately = preempted_lately(snapshot);
    let waited =
        waits(snapshot, |why| matches!(why, Waiting::Blocks { .. } | Waiting::Preempted { .. } | Waiting::PreemptionStep));
    let full = kv.used.saturating_mul(100) >= kv.total.saturating_mul(NEARLY_FULL) && kv.total > 0;
    if lately == 0 && !waited {
        return None;
    }
    let (share, again) = (format::percent(kv.used as u64, kv.total as u64), format::count(snapshot.ledger.recomputed_total));
    let (lately, full_words) = (format::count(lately), if full { theme.tr("nearly full") } else { theme.tr("not full now") });
    let what = say!(
        theme,
        "KV memory: {} preemptions in 10 min, {} tokens computed again since the start; {} in use, {}.",
        lately,
        again,
        share,
        full_words
    );
    let longest = snapshot.users.iter().map(|view| view.context).max().unwrap_or(0);
    let mut remedies = Vec::new();
    // A cap helps where it cuts something: blocks are taken as texts grow.
    if longest * 2 > snapshot.limits.max_model_len {
        let (context, longest) = (format::count(snapshot.limits.max_model_len as u64), format::count(longest as u64));
        remedies.push(say!(
            theme,
            "cap the context: max_model_len is {}, the longest conversation has {} tokens",
            context,
            longest
        ));
    }
    if kv.capacity > kv.total {
        let more = format::bytes(((kv.capacity - kv.total) as u64).saturating_mul(kv.bytes_per_block as u64));
        remedies.push(say!(theme, "a larger KV budget (F10, kv_memory): {} are there and not used", more));
    }
    remedies.push(theme.tr("smaller numbers in KV memory: start with kv_type q8_0 (8.5 bits a number; f16 takes 16)").to_owned());
    remedies.push(theme.tr("more memory, or another machine or GPU").to_owned());
    Some(Sign { what, remedies })
}

/// Seats: somebody waits for one.
fn seats(snapshot: &Snapshot, theme: Theme) -> Option<Sign> {
    if !waits(snapshot, |why| matches!(why, Waiting::Seats { .. })) {
        return None;
    }
    let (waiting, seats) = (snapshot.waiting, snapshot.limits.max_num_seqs);
    let step = format::time_or_unknown(snapshot.totals.step_time_mean.or(snapshot.totals.step_time));
    let share = format::percent(snapshot.kv.used as u64, snapshot.kv.total as u64);
    let what = say!(theme, "Seats: all {} are taken and {} wait; a step takes {}, KV {}.", seats, waiting, step, share);
    let remedies = vec![
        theme.tr("more seats (max_num_seqs), as long as steps stay short enough and blocks are free").to_owned(),
        theme.tr("shorter answers (max_tokens): a seat comes free earlier").to_owned(),
        theme.tr("a second engine, on another machine or GPU").to_owned(),
    ];
    Some(Sign { what, remedies })
}

/// The step's budget: prompts wait for it.
fn budget(snapshot: &Snapshot, theme: Theme) -> Option<Sign> {
    if !waits(snapshot, |why| matches!(why, Waiting::Budget { .. } | Waiting::PrefillBudget { .. })) {
        return None;
    }
    let tokens = format::count(snapshot.limits.max_num_batched_tokens as u64);
    let speed = format::rate(snapshot.totals.prefill_tokens_per_s);
    let what = say!(theme, "Budget: prompts wait for the {} tokens of a step; {} prompt tokens a second now.", tokens, speed);
    let remedies = vec![
        theme.tr("the same beginning in all prompts: what is cached costs no budget").to_owned(),
        theme.tr("a larger budget (max_num_batched_tokens): TTFT gets shorter, ITL longer").to_owned(),
        theme.tr("a faster machine: more threads, a GPU").to_owned(),
    ];
    Some(Sign { what, remedies })
}

/// Steps: longer than the target that was set.
fn slow(snapshot: &Snapshot, theme: Theme) -> Option<Sign> {
    let (target, p95) = (snapshot.target_itl?, snapshot.latencies.itl.p95?);
    let p95 = Duration::try_from_secs_f64(p95).ok().filter(|p95| *p95 > target)?;
    let what = say!(theme, "Steps: ITL p95 is {}, and the target is {}.", format::time(p95), format::time(target));
    let remedies = vec![
        theme.tr("fewer seats (max_num_seqs): shorter steps, a longer queue").to_owned(),
        theme.tr("smaller weights (another quantization, another model): fewer bytes a step").to_owned(),
        theme.tr("a faster machine: more threads, a GPU").to_owned(),
    ];
    Some(Sign { what, remedies })
}

/// How memory use went over the day, as far as there was one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Course {
    /// Up, and hardly ever down: from so many blocks to so many.
    Climb(usize, usize),
    /// Up and down again: so many falls.
    Saw(usize),
    Level,
}

/// None: too little has happened.
fn course(samples: &[Sample]) -> Option<Course> {
    // Time in which nobody asked anything says nothing about a trend.
    let used: Vec<f64> = samples.iter().filter(|sample| sample.steps > 0).map(|sample| sample.used_blocks as f64).collect();
    if used.len() < ENOUGH {
        return None;
    }
    let (low, high) = (used.iter().copied().fold(f64::MAX, f64::min), used.iter().copied().fold(0.0, f64::max));
    let range = high - low;
    if range <= 0.1 * high {
        return Some(Course::Level);
    }
    let teeth = used.windows(2).filter(|pair| pair[0] - pair[1] >= TOOTH * range).count();
    if teeth >= TEETH {
        return Some(Course::Saw(teeth));
    }
    let third = used.len() / 3;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (first, last) = (mean(&used[..third]), mean(&used[used.len() - third..]));
    Some(if last - first >= 0.3 * range && teeth == 0 { Course::Climb(first as usize, last as usize) } else { Course::Level })
}

fn verdict(snapshot: &Snapshot, theme: Theme) -> Option<String> {
    // Of the longest series in which enough has happened.
    let series = snapshot.longer.iter().zip(["10 min", "1 h", "24 h"]).rev();
    let (course, span) =
        series.filter_map(|(series, span)| Some((course(&series.iter().copied().collect::<Vec<_>>())?, span))).next()?;
    Some(match course {
        Course::Climb(from, to) => {
            let (from, to) = (format::count(from as u64), format::count(to as u64));
            say!(
                theme,
                "Memory over {}: a climb, from {} to {} blocks with no fall: more people, or longer texts.",
                span,
                from,
                to
            )
        }
        Course::Saw(falls) => {
            let falls = theme.plural(falls, "{} fall", "{} falls");
            say!(theme, "Memory over {}: a sawtooth, {}: answers end and give their blocks back.", span, falls)
        }
        Course::Level => say!(theme, "Memory over {}: level, neither a climb nor a sawtooth.", span),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(used: impl Iterator<Item = usize>) -> Vec<Sample> {
        used.map(|used_blocks| Sample { used_blocks, steps: 10, ..Sample::default() }).collect()
    }

    #[test]
    fn a_day_climbs_or_is_a_saw_or_is_level() {
        assert_eq!(course(&day(0..5)), None, "too little has happened");
        assert_eq!(course(&day((0..60).map(|at| 10 + at))), Some(Course::Climb(19, 59)));
        assert_eq!(course(&day((0..60).map(|at| (at % 10) * 12))), Some(Course::Saw(5)));
        assert_eq!(course(&day((0..60).map(|at| 100 + at % 2))), Some(Course::Level));
        let rest = day((0..60).map(|at| at % 7)).into_iter().map(|sample| Sample { steps: 0, ..sample }).collect::<Vec<_>>();
        assert_eq!(course(&rest), None, "rest is no trend");
        assert_eq!(course(&day((0..60).map(|at| if at < 30 { at } else { 60 - at }))), Some(Course::Level), "up and down once");
    }
}
