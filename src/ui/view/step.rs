//! One step in words: what the scheduler decided in it, and why.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::{panel, users};
use crate::batch::{RowKind, UserId};
use crate::engine::api::{Between, FinishReason, Pace, RunState, Snapshot, StepAdmission, StepPreemption, StepRecord, TakenBy};
use crate::ui::keymap::{Action, Glance, key_for};
use crate::ui::people::People;
use crate::ui::text;
use crate::ui::theme::Theme;
use crate::ui::words::say;
use crate::ui::{format, machine, told};

/// Steps a second up to which a person can read what each of them did.
const READABLE: f64 = 4.0;

pub fn wanted_height(_snapshot: &Snapshot, _width: u16) -> u16 {
    16
}

/// The newest step, when steps come slowly enough to be read; else the newest one in which something was decided.
pub fn draw(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, people: &People, theme: Theme) {
    let _ = draw_at(buf, area, snapshot, people, theme, (&Watched::live(snapshot, theme), None));
}

/// Whether each step can be read, and what is said where it cannot.
pub struct Watched {
    pub slow: bool,
    pub hint: String,
}

impl Watched {
    /// Steps of an engine that is there.
    pub fn live(snapshot: &Snapshot, theme: Theme) -> Watched {
        let hint = theme.tr("F4 slows the engine down, F2 stops it: then this is the newest step.").to_owned();
        Watched { slow: readable(snapshot), hint }
    }
}

fn readable(snapshot: &Snapshot) -> bool {
    match (snapshot.state, snapshot.pace) {
        (RunState::Running, Pace::StepsPerSecond(steps)) => steps <= READABLE,
        (RunState::Running, Pace::Full) => false,
        _ => true,
    }
}

/// The same; from line `scroll` on where it is alone. Gives how far it can be scrolled.
pub fn draw_at(
    buf: &mut Buffer,
    area: Rect,
    snapshot: &Snapshot,
    people: &People,
    theme: Theme,
    (watched, scroll): (&Watched, Option<usize>),
) -> usize {
    let slow = watched.slow;
    let timeline = &snapshot.timeline;
    let place = match slow {
        true => timeline.len().checked_sub(1),
        false => timeline.iter().rposition(|record| machine::is_event(record)),
    };
    let title = if slow { theme.tr("the newest step") } else { theme.tr("the newest event") };
    let record = place.and_then(|place| timeline.get(place));
    let figures: Vec<String> = record.iter().map(|record| say!(theme, "step {}", format::count(record.step))).collect();
    let Some(inner) = panel::frame(buf, area, title, &figures, theme) else { return 0 };
    let Some((place, record)) = place.zip(record) else {
        let words = theme.tr("nothing has been decided yet");
        panel::put(buf, inner, 0, Line::styled(text::clip(words, usize::from(inner.width)), theme.quiet()));
        return 0;
    };
    let before = place.checked_sub(1).and_then(|place| timeline.get(place));
    let mut words = sentences(record, before.map(|before| &**before), people, theme);
    if !slow {
        words.push((watched.hint.clone(), theme.quiet()));
    }
    draw_words(buf, inner, &words, scroll, theme)
}

/// Sentences under each other, wrapped, from line `scroll` on; says when there is more. `scroll` is None where it cannot be
/// scrolled: the last line says by which key all of it is shown. Gives how far it can be scrolled.
pub fn draw_words(buf: &mut Buffer, room: Rect, words: &[(String, Style)], scroll: Option<usize>, theme: Theme) -> usize {
    let width = usize::from(room.width);
    let mut lines: Vec<(String, Style)> = Vec::new();
    for (sentence, style) in words {
        lines.extend(panel::wrapped(sentence, width.max(1)).into_iter().map(|line| (line, *style)));
    }
    let rows = usize::from(room.height);
    let most = lines.len().saturating_sub(rows);
    if scroll.is_none() && most > 0 && rows >= 2 {
        let more = lines.len() - (rows - 1);
        for (row, (line, style)) in lines.iter().take(rows - 1).enumerate() {
            panel::put(buf, room, row, Line::styled(line.clone(), *style));
        }
        let key = key_for(Action::Glance(Glance::NextPanel));
        let one = theme.plural(more, "{} more line", "{} more lines");
        let wordings = [say!(theme, "… {}: {} goes through the panels, one alone", one, key), say!(theme, "… {}: {}", one, key)];
        panel::put(buf, room, rows - 1, Line::styled(text::first_fit(&wordings, width), theme.quiet()));
        return 0;
    }
    let scroll = scroll.unwrap_or(0).min(most);
    for (row, (line, style)) in lines.iter().skip(scroll).take(rows).enumerate() {
        panel::put(buf, room, row, Line::styled(line.clone(), *style));
    }
    if most > scroll && rows > 0 {
        let more = theme.plural(most - scroll, "↓ {} line more", "↓ {} lines more");
        let at = width.saturating_sub(text::width(&more) + 1);
        panel::put_at(buf, room, (at, rows - 1), &format!(" {more}"), theme.chosen());
    }
    most
}

/// Everything that a record says, a sentence a fact, in the order in which the scheduler decides. `before`: the step before.
pub fn sentences(record: &StepRecord, before: Option<&StepRecord>, people: &People, theme: Theme) -> Vec<(String, Style)> {
    let mut words = vec![(head(record, theme), theme.strong())];
    words.extend(parts(record, theme).map(|sentence| (sentence, theme.quiet())));
    words.extend(record.between.iter().map(|between| outside(between, people, theme)));
    words.extend(record.preempted.iter().map(|preemption| (preempted(preemption, people, theme), theme.bad())));
    words.extend(decodes(record, people, theme).map(|sentence| (sentence, theme.text())));
    words.extend(prefills(record, people, theme).into_iter().map(|sentence| (sentence, theme.text())));
    words.extend(record.admitted.iter().map(|admission| (admitted(admission, people, theme), theme.accent())));
    words.extend(record.finished.iter().map(|(user, reason)| (finished(*user, *reason, people, theme), theme.good())));
    words.extend(waiting(record, people, theme));
    words.push((blocks(record, before, theme), theme.text()));
    let order = theme.tr("The order in every step: blocks for decodes, decodes, chunks of prompts that run, then the queue.");
    words.push((order.to_owned(), theme.quiet()));
    words
}

fn head(record: &StepRecord, theme: Theme) -> String {
    let of_kind = |kind| record.rows.iter().filter(move |row| row.kind == kind);
    let prompts: usize = of_kind(RowKind::Prefill).map(|row| row.tokens).sum();
    let decodes = of_kind(RowKind::Decode).count();
    let (took, used, budget) = (format::time(record.duration), tokens(record.budget_used), tokens(record.budget));
    let share = format::percent(record.budget_used as u64, record.budget as u64);
    let step = format::count(record.step);
    let sums = say!(theme, "{} of prompts and {} decoded", tokens(prompts), decodes);
    say!(theme, "Step {} took {} and spent {} of its budget of {} tokens ({}): {}.", step, took, used, budget, share, sums)
}

fn tokens(count: usize) -> String {
    format::count(count as u64)
}

/// Where the time went, if that is known.
fn parts(record: &StepRecord, theme: Theme) -> Option<String> {
    let parts = record.parts?;
    let known: std::time::Duration = parts.all().iter().fold(std::time::Duration::ZERO, |sum, part| sum.saturating_add(*part));
    let [attention, products, sampling, scheduling] = parts.all().map(format::time);
    let rest = format::time(record.duration.saturating_sub(known));
    Some(say!(
        theme,
        "Of that products with weights {}, attention {}, sampling {}, scheduling {}, the rest {}.",
        products,
        attention,
        sampling,
        scheduling,
        rest
    ))
}

fn outside(between: &Between, people: &People, theme: Theme) -> (String, Style) {
    match between {
        Between::Refused { user, why } => {
            let (name, why) = (panel::name(people, *user), crate::ui::refusal::refused(why, theme));
            (say!(theme, "Before it, {} was refused: {}.", name, why), theme.bad())
        }
        Between::Changed(what) => (say!(theme, "Before it, somebody changed {}.", told::change(what, theme)), theme.warn()),
        Between::ChangeRefused(why) => {
            (say!(theme, "Before it, a change was refused: {}.", told::not_changed(why, theme)), theme.bad())
        }
    }
}

fn preempted(preemption: &StepPreemption, people: &People, theme: Theme) -> String {
    let name = panel::name(people, preemption.user);
    let lost = theme.plural(preemption.lost, "{} token", "{} tokens");
    let why = match preemption.by {
        TakenBy::User(by) => say!(theme, "no block was free for the next token of {}", panel::name(people, by)),
        TakenBy::Itself => theme.tr("no block was free for its own next token, and it came last").to_owned(),
        TakenBy::Seats => theme.tr("there are fewer seats now").to_owned(),
        TakenBy::KvBudget => theme.tr("there is less KV memory now").to_owned(),
    };
    say!(
        theme,
        "{} was preempted: {}. It gives up {}, to be computed again on its return, less what the cache still has then.",
        name,
        why,
        lost
    )
}

fn admitted(admission: &StepAdmission, people: &People, theme: Theme) -> String {
    let name = panel::name(people, admission.user);
    let blocks = theme.plural(admission.blocks, "{} block", "{} blocks");
    let who = match admission.again {
        true => say!(theme, "{} came back, with {} for all of its text", name, blocks),
        false => say!(theme, "{} was let in, with {} for its prompt", name, blocks),
    };
    match admission.cached {
        0 => say!(theme, "{}; nothing of it was cached.", who),
        cached => {
            let cached = theme.plural(cached, "{} token", "{} tokens");
            say!(theme, "{}; {} of it were in KV memory already and are not computed.", who, cached)
        }
    }
}

/// All decodes in one sentence.
fn decodes(record: &StepRecord, people: &People, theme: Theme) -> Option<String> {
    let rows = record.rows.iter().filter(|row| row.kind == RowKind::Decode);
    let who: Vec<String> = rows
        .map(|row| {
            let (name, position) = (panel::name(people, row.user), tokens(row.start));
            say!(theme, "{} at position {}", name, position)
        })
        .collect();
    (!who.is_empty()).then(|| say!(theme, "Decode, one token each: {}.", who.join(", ")))
}

fn prefills(record: &StepRecord, people: &People, theme: Theme) -> Vec<String> {
    let rows = record.rows.iter().filter(|row| row.kind == RowKind::Prefill);
    rows.map(|row| {
        let (name, from) = (panel::name(people, row.user), tokens(row.start));
        let to = tokens(row.start.saturating_add(row.tokens).saturating_sub(1));
        let chunk = theme.plural(row.tokens, "{} token", "{} tokens");
        say!(theme, "Prefill of {}: positions {} to {}, a chunk of {}.", name, from, to, chunk)
    })
    .collect()
}

fn finished(user: UserId, reason: FinishReason, people: &People, theme: Theme) -> String {
    let why = match reason {
        FinishReason::Stop => "it said that it was done",
        FinishReason::Length => "at its token limit",
        FinishReason::ContextFull => "the context is full",
        FinishReason::KvFull => "the KV memory is full",
        FinishReason::Cancelled => "it was cancelled",
        FinishReason::Failed => "it failed",
    };
    say!(theme, "{} ended: {}. Its blocks are free again, or kept in the cache.", panel::name(people, user), theme.tr(why))
}

fn waiting(record: &StepRecord, people: &People, theme: Theme) -> Vec<(String, Style)> {
    if record.waiting.is_empty() {
        return vec![(theme.tr("Nobody had to wait.").to_owned(), theme.quiet())];
    }
    let sentence = |(user, why): &(UserId, _)| {
        say!(theme, "{} got nothing: {}.", panel::name(people, *user), users::why(why, people, theme))
    };
    record.waiting.iter().map(|waiting| (sentence(waiting), theme.warn())).collect()
}

fn blocks(record: &StepRecord, before: Option<&StepRecord>, theme: Theme) -> String {
    let free = record.total_blocks.saturating_sub(record.used_blocks).saturating_sub(record.cached_blocks);
    let [used, cached, free, total] =
        [record.used_blocks, record.cached_blocks, free, record.total_blocks].map(|blocks| format::count(blocks as u64));
    let sum = say!(theme, "KV memory after it: used {} + cached {} + free {} = {} blocks", used, cached, free, total);
    let change = before.map_or(0, |before| record.used_blocks as i128 - before.used_blocks as i128);
    match change {
        0 => format!("{sum}."),
        change => say!(theme, "{} ({} in use than a step before).", sum, more_or_fewer(change, theme)),
    }
}

fn more_or_fewer(change: i128, theme: Theme) -> String {
    let count = usize::try_from(change.unsigned_abs()).unwrap_or(usize::MAX);
    if change > 0 { theme.plural(count, "{} more", "{} more") } else { theme.plural(count, "{} fewer", "{} fewer") }
}
