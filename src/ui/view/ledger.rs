//! What preemption cost and what the prefix cache saved, in tokens; what the KV memory wastes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::{kv, panel, times};
use crate::batch::UserId;
use crate::engine::api::{Snapshot, TakenBy};
use crate::ui::people::People;
use crate::ui::theme::Theme;
use crate::ui::words::say;
use crate::ui::{format, text};

/// Victims that are worth a line without being asked for.
const VICTIMS: usize = 4;

pub fn wanted_height(snapshot: &Snapshot, _width: u16) -> u16 {
    (2 + 5 + snapshot.ledger.recomputed().take(VICTIMS).count()) as u16
}

pub fn draw(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, people: &People, theme: Theme) {
    let _ = draw_scrolled(buf, area, snapshot, people, theme, 0);
}

/// The same, with the first `scroll` victims left out; gives how many can be.
pub fn draw_scrolled(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, people: &People, theme: Theme, scroll: usize) -> usize {
    let ledger = &snapshot.ledger;
    let share = |part: u64| format::percent(part, ledger.asked);
    let cached = (ledger.asked > 0).then(|| say!(theme, "{} of all prompts cached", share(ledger.hit)));
    let figures: Vec<String> = cached.into_iter().chain((ledger.asked > 0).then(|| share(ledger.hit))).collect();
    let Some(inner) = panel::frame(buf, area, theme.tr("cache saves, preemption costs"), &figures, theme) else {
        return 0;
    };
    let (width, height) = (usize::from(inner.width), usize::from(inner.height));
    let mut lines: Vec<(String, Style)> = vec![
        (text::first_fit(&saved(snapshot, theme), width), theme.good()),
        (text::first_fit(&paid(snapshot, theme), width), if ledger.recomputed_total > 0 { theme.warn() } else { theme.text() }),
    ];
    let mut victims = victims(snapshot, people, theme);
    let tail = [
        text::first_fit(&returns(snapshot, theme), width),
        text::first_fit(&kv::waste_wordings(snapshot, theme), width),
        text::first_fit(&times::prediction_wordings(snapshot.prediction.as_ref(), theme), width),
    ];
    // Victims give way to the sums, and the last line of them says how many there are.
    let room = height.saturating_sub(lines.len() + tail.len()).max(usize::from(height > lines.len()));
    let most = victims.len().saturating_sub(room);
    victims.drain(..scroll.min(most));
    if victims.len() > room {
        let left = victims.len() - room.saturating_sub(1);
        victims.truncate(room.saturating_sub(1));
        victims.push(theme.plural(left, "{} more", "{} more"));
    }
    lines.extend(victims.into_iter().map(|words| (format!("  {}", text::clip(&words, width.saturating_sub(2))), theme.text())));
    lines.extend(tail.into_iter().map(|words| (words, theme.text())));
    for (row, (words, style)) in lines.into_iter().enumerate() {
        panel::put(buf, inner, row, Line::styled(words, style));
    }
    most
}

fn saved(snapshot: &Snapshot, theme: Theme) -> Vec<String> {
    let ledger = &snapshot.ledger;
    if ledger.asked == 0 {
        return vec![theme.tr("prefix cache: no prompt has come yet").to_owned(), String::new()];
    }
    let [hit, asked] = [ledger.hit, ledger.asked].map(format::count);
    let share = format::percent(ledger.hit, ledger.asked);
    vec![
        say!(theme, "prefix cache: {} of {} prompt tokens were there ({}), not computed", hit, asked, share),
        say!(theme, "prefix cache saved {} of {} tokens ({})", hit, asked, share),
        say!(theme, "saved {} of {}", hit, asked),
    ]
}

fn paid(snapshot: &Snapshot, theme: Theme) -> Vec<String> {
    let ledger = &snapshot.ledger;
    let all = snapshot.totals.prompt_tokens.saturating_add(snapshot.totals.generated_tokens);
    let (again, share) = (format::count(ledger.recomputed_total), format::percent(ledger.recomputed_total, all));
    let preemptions = usize::try_from(snapshot.totals.preemptions).unwrap_or(usize::MAX);
    let times = theme.plural(preemptions, "preempted {} time", "preempted {} times");
    vec![
        say!(theme, "{}: {} tokens computed again so far ({} of all)", times, again, share),
        say!(theme, "{}: {} tokens computed again", times, again),
        say!(theme, "computed again: {}", again),
    ]
}

fn returns(snapshot: &Snapshot, theme: Theme) -> Vec<String> {
    let found = format::count(snapshot.ledger.hit_on_return);
    vec![
        say!(theme, "on coming back, {} tokens were still in the cache: not computed again", found),
        say!(theme, "on coming back, {} tokens still cached", found),
        String::new(),
    ]
}

/// Who computed how much again, and for whom or what; the most first.
fn victims(snapshot: &Snapshot, people: &People, theme: Theme) -> Vec<String> {
    let ledger = &snapshot.ledger;
    let mut pairs: Vec<(UserId, TakenBy, u64)> = ledger.recomputed().collect();
    pairs.sort_by_key(|(.., tokens)| std::cmp::Reverse(*tokens));
    let words = |(victim, by, tokens): &(UserId, TakenBy, u64)| {
        let (name, tokens) = (panel::name(people, *victim), format::count(*tokens));
        match by {
            TakenBy::User(by) => say!(theme, "{}: {}, blocks taken for {}", name, tokens, panel::name(people, *by)),
            TakenBy::Itself => say!(theme, "{}: {}, no block was free for itself", name, tokens),
            TakenBy::Seats => say!(theme, "{}: {}, fewer seats", name, tokens),
            TakenBy::KvBudget => say!(theme, "{}: {}, less KV memory", name, tokens),
        }
    };
    let mut words: Vec<String> = pairs.iter().map(words).collect();
    if ledger.recomputed_others > 0 {
        words.push(say!(theme, "others: {}", format::count(ledger.recomputed_others)));
    }
    words
}
