//! One person's chat: transcript, a line on how it goes, the draft.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Widget};

use super::panel::{self, speed_of, wrapped};
use super::talk;
use crate::engine::api::{RunState, Status, TakenBy, UserView, Waiting};
use crate::ui::format::{count, percent, rate, rate_or_unknown, time};
use crate::ui::keymap::PICK;
use crate::ui::people::People;
use crate::ui::pick::Pick;
use crate::ui::search::{HITS_MAX, Search};
use crate::ui::state::{Mode, Pane, State, is_live};
use crate::ui::text::{clip, first_fit, width};
use crate::ui::theme::Theme;
use crate::ui::update::slash;
use crate::ui::words::say;

/// Columns before the draft.
pub const PROMPT: usize = 2;
/// Lines of draft shown at most.
const DRAFT_ROWS: u16 = 6;

/// How a pane's inside is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    pub transcript: Rect,
    pub status: Rect,
    pub draft: Rect,
}

/// Divides a pane for the draft that is in it, if one can be written. A refusal has all the rows that it needs, and leaves
/// one to the draft.
pub fn parts(area: Rect, pane: &Pane, drafts: bool, theme: Theme) -> Parts {
    let inner = Rect { x: area.x + 1, y: area.y + 1, width: area.width.saturating_sub(2), height: area.height.saturating_sub(2) };
    let (lines, ..) = pane.editor.layout(usize::from(inner.width).saturating_sub(PROMPT));
    let refusal = refusal(pane, inner.width, theme).len().min(usize::from(inner.height.saturating_sub(1))) as u16;
    let draft = if drafts { (lines.len() as u16).clamp(1, DRAFT_ROWS).min(inner.height - refusal) } else { 0 };
    let status = if refusal > 0 { refusal } else { u16::from(inner.height > draft + 1) };
    let transcript = inner.height - draft - status;
    Parts {
        // A column stays free: text does not touch the border, and the cursor after a full line has a place.
        transcript: Rect { height: transcript, width: inner.width.saturating_sub(1), ..inner },
        status: Rect { y: inner.y + transcript, height: status, ..inner },
        draft: Rect { y: inner.y + transcript + status, height: draft, ..inner },
    }
}

/// Why the last prompt was refused, in lines of so many columns; none if it was not.
fn refusal(pane: &Pane, columns: u16, theme: Theme) -> Vec<String> {
    match &pane.refused {
        Some(why) => wrapped(&say!(theme, "refused: {}", why), usize::from(columns.max(1))),
        None => Vec::new(),
    }
}

/// Draws a pane, and says where the cursor goes if it is this pane's.
pub fn draw(buf: &mut Buffer, area: Rect, state: &State, index: usize, people: &People) -> Option<Position> {
    let pane = &state.panes[index];
    let focused = index == state.focus;
    if area.width < 4 || area.height < 3 {
        return None;
    }
    let theme = state.options.theme;
    let person = pane.person.style(theme);
    let border = if focused { person.add_modifier(Modifier::BOLD) } else { theme.border() };
    let kind = if focused { BorderType::Thick } else { BorderType::Rounded };
    let number = if index < 9 { format!("{} ", index + 1) } else { String::new() };
    let figure = headline(state, pane);
    let room = usize::from(area.width).saturating_sub(6 + width(&figure));
    let called = clip(&pane.person.title(), room.saturating_sub(number.len()));
    let left = room.saturating_sub(number.len() + width(&called) + 1);
    let mut name = vec![
        Span::styled(format!(" {number}"), theme.quiet()),
        Span::styled(format!("{called} "), person.add_modifier(Modifier::BOLD)),
    ];
    let branch = first_fit(&branch(pane, theme), left.saturating_sub(1));
    if !branch.is_empty() {
        name.push(Span::styled(format!("{branch} "), theme.warn()));
    }
    let name = Line::from(name);
    let mut block = Block::bordered().border_type(kind).border_style(border).title(name);
    if !figure.is_empty() && usize::from(area.width) > 10 + width(&figure) {
        block = block.title(Line::from(Span::styled(format!(" {figure} "), headline_style(state, pane))).right_aligned());
    }
    block.render(area, buf);
    let parts = parts(area, pane, state.replay.is_none(), theme);
    talk::draw(buf, parts.transcript, state, pane, person);
    status(buf, parts.status, state, pane, people);
    if focused && let Mode::Search(search) = &state.mode {
        return search_field(buf, parts.draft, state, search);
    }
    commands(buf, parts.transcript, state, pane, focused);
    draft(buf, parts.draft, state, pane, focused)
}

/// Where the shown conversation has other branches, and which one is shown, longest wording first: it stands in the title,
/// since the place itself may have scrolled away. The place is the last one, which the keys change.
fn branch(pane: &Pane, theme: Theme) -> Vec<String> {
    let forks = pane.transcript.turns().iter().enumerate().filter(|(_, turn)| turn.place.1 > 1);
    let (count, last) = forks.fold((0, None), |(count, _), (at, turn)| (count + 1, Some((at + 1, turn.place))));
    let Some((message, (at, of))) = last else { return vec![String::new()] };
    let one = say!(theme, "├ branch {}/{} at message {}", at, of, message);
    let short = [one.clone(), format!("├ {at}/{of}"), String::new()];
    let more =
        (count > 1).then(|| format!("{one} {}", theme.plural(count - 1, "(and {} place before)", "(and {} places before)")));
    more.into_iter().chain(short).collect()
}

/// What the pane's title says on the right.
fn headline(state: &State, pane: &Pane) -> String {
    let theme = state.options.theme;
    if !pane.live {
        return String::new();
    }
    match state.view_of(pane).filter(|view| is_live(view)) {
        None => theme.tr("… sending").into(),
        Some(view) => match view.status {
            Status::Waiting => theme.tr("◌ waiting").into(),
            Status::Preempted => theme.tr("× preempted").into(),
            Status::Prefill { computed, total } => format!("◐ prefill {}", percent(computed as u64, total as u64)),
            Status::Decode => match speed_of(view, &state.snapshot) {
                Some(speed) => format!("● {} tok/s", rate(speed)),
                None => "● decode".into(),
            },
            Status::Finished(_) => String::new(),
        },
    }
}

fn headline_style(state: &State, pane: &Pane) -> Style {
    let theme = state.options.theme;
    match state.view_of(pane).map(|view| view.status) {
        Some(Status::Preempted) => theme.bad(),
        Some(Status::Waiting) => theme.warn(),
        _ => theme.good(),
    }
}

fn status(buf: &mut Buffer, area: Rect, state: &State, pane: &Pane, people: &People) {
    if area.height == 0 {
        return;
    }
    let theme = state.options.theme;
    let room = usize::from(area.width);
    let refusal = refusal(pane, area.width, theme);
    if !refusal.is_empty() {
        let cut = refusal.len() > usize::from(area.height);
        for (row, line) in (area.y..area.bottom()).zip(&refusal) {
            buf.set_stringn(area.x, row, line, room, theme.bad());
        }
        if cut {
            buf.set_string(area.right() - 1, area.bottom() - 1, "…", theme.bad());
        }
        return;
    }
    let (wordings, style) = status_words(state, pane, people);
    let text = first_fit(&wordings, room.saturating_sub(1));
    buf.set_stringn(area.x, area.y, "╌".repeat(room), room, theme.border());
    if !text.is_empty() {
        buf.set_stringn(area.x, area.y, format!("{text} "), room, style);
    }
}

/// The line under the transcript: what the keys do in a mode, a reason to wait, or the figures; longest wording first.
fn status_words(state: &State, pane: &Pane, people: &People) -> (Vec<String>, Style) {
    let theme = state.options.theme;
    let focused = std::ptr::eq(pane, state.focused());
    match &state.mode {
        Mode::Pick(Pick { sure: Some(gone), .. }) if focused => return (deleting(*gone, theme), theme.bad()),
        Mode::Pick(_) if focused => return (picking(theme), theme.key()),
        Mode::Search(search) if focused => return (searching(search, theme), theme.key()),
        _ => {}
    }
    if pane.rewriting.is_some() {
        let long = theme.tr("writes a message anew: Enter sends it as a branch · Esc leaves it, the draft comes back");
        let short = theme.tr("a branch: Enter sends · Esc leaves");
        return (vec![long.into(), short.into()], theme.warn());
    }
    if !pane.live {
        return (ended(state, pane), theme.quiet());
    }
    let Some(view) = state.view_of(pane).filter(|view| is_live(view)) else { return (vec![String::new()], theme.quiet()) };
    let (wordings, style) = match &view.waiting {
        Some(why) => waiting(state, view, why, people),
        None => (figures(state, view), theme.quiet()),
    };
    match pane.shows_answer() {
        true => (wordings, style),
        // These figures are not of what is on screen.
        false => {
            let of = |wording: &String| say!(theme, "another branch is being answered: {}", wording);
            let short = [theme.tr("another branch is being answered").to_owned(), theme.tr("another branch answers").to_owned()];
            (wordings.iter().map(of).chain(short).collect(), style)
        }
    }
}

/// The figures of the answer that the shown branch ends with, as they were when it ended.
fn ended(state: &State, pane: &Pane) -> Vec<String> {
    let theme = state.options.theme;
    let shown = pane.transcript.last().and_then(|turn| turn.node).and_then(|node| pane.conversation.node(node));
    let Some(figures) = shown.and_then(|node| node.figures.as_ref()) else { return vec![String::new()] };
    let mut pieces = Vec::new();
    if let Some(ttft) = figures.ttft_us {
        pieces.push(format!("TTFT {}", time(Duration::from_micros(ttft))));
    }
    if let Some(speed) = figures.tokens_per_s {
        pieces.push(format!("{} tok/s", rate(speed)));
    }
    let most = count(state.snapshot.limits.max_model_len as u64);
    pieces.push(say!(theme, "ctx {} of {}", count(figures.prompt_tokens.saturating_add(figures.tokens) as u64), most));
    with_more(pieces, figures.cached_tokens, figures.preemptions, theme)
}

/// What was asked before messages are deleted, in short: the question itself stands below all panes.
fn deleting(gone: usize, theme: Theme) -> Vec<String> {
    let what = theme.plural(gone, "{} message", "{} messages");
    vec![say!(theme, "D once more deletes {} · any other key keeps them", what), say!(theme, "D again deletes {}", what)]
}

/// The keys of choosing a message.
fn picking(theme: Theme) -> Vec<String> {
    let words: Vec<String> = PICK
        .iter()
        .filter(|binding| !binding.short.is_empty())
        .map(|binding| format!("{} {}", binding.keys[0].label(), theme.tr(binding.short)))
        .collect();
    let arrows = theme.tr("↑ ↓ message");
    let leave = theme.tr("Esc leaves");
    let cut = |count: usize| format!("{arrows} · {} · {leave}", words[..count.min(words.len())].join(" · "));
    vec![cut(words.len()), cut(4), cut(3), cut(2), theme.tr("↑ ↓ message").to_owned()]
}

fn searching(search: &Search, theme: Theme) -> Vec<String> {
    let found = match search.hits.len() {
        _ if search.editor.is_empty() => theme.tr("type what to look for").to_owned(),
        0 => theme.tr("not found").to_owned(),
        HITS_MAX => say!(theme, "{} of the first {}", search.at + 1, HITS_MAX),
        all => say!(theme, "{} of {}", search.at + 1, all),
    };
    let scope = if search.all { theme.tr("Tab: this pane only") } else { theme.tr("Tab: all panes") };
    let keys = theme.tr("↑ ↓ go on · Esc closes");
    vec![format!("{found} · {keys} · {scope}"), format!("{found} · {scope}"), found]
}

/// Why it waits, and how long that may take.
fn waiting(state: &State, view: &UserView, why: &Waiting, people: &People) -> (Vec<String>, Style) {
    let theme = state.options.theme;
    let words = super::users::why(why, people, theme);
    let preempted = matches!(why, Waiting::Preempted { .. }) || view.status == Status::Preempted;
    // For whom stands there as long as it waits, not for the one step in which it is the reason.
    let taken_by = state.panes.iter().find(|pane| pane.person.user == view.user).and_then(|pane| pane.preempted_by);
    let by = match taken_by.filter(|_| preempted && !matches!(why, Waiting::Preempted { .. })) {
        Some(TakenBy::User(by)) => Some(panel::name(people, by)),
        _ => None,
    };
    let named = by.is_some();
    let [head, short_head] = match (preempted, by) {
        (true, Some(by)) => [say!(theme, "preempted for {}, its text stays", by), say!(theme, "preempted for {}", by)],
        (true, None) => ["preempted, its text stays", "preempted"].map(|words| theme.tr(words).to_owned()),
        (false, _) => [theme.tr("waits").to_owned(), theme.tr("waits").to_owned()],
    };
    let paused = if state.snapshot.state == RunState::Paused { format!(" ({})", theme.tr("paused")) } else { String::new() };
    let short = super::users::why_short(why, people, theme);
    let mut wordings = vec![
        format!("{head}: {words}{paused}"),
        format!("{head}: {words}"),
        format!("{short_head}: {words}"),
        format!("{short_head}: {short}"),
        if named { short_head.clone() } else { short },
    ];
    // Expected when it came: by now a part of it is over.
    if let Some(expected) = view.predicted_ttft.filter(|_| view.ttft.is_none()) {
        let expected = say!(theme, "first token {} after Enter, estimated", time(expected));
        wordings.insert(0, format!("{head}: {words}{paused} · {expected}"));
        wordings.insert(3, format!("{short_head} · {expected}"));
    }
    (wordings, if preempted { theme.bad() } else { theme.warn() })
}

fn figures(state: &State, view: &UserView) -> Vec<String> {
    let theme = state.options.theme;
    let mut figures = Vec::new();
    match (view.ttft, view.predicted_ttft) {
        (Some(ttft), _) => figures.push(format!("TTFT {}", time(ttft))),
        (None, Some(expected)) if is_live(view) => figures.push(say!(theme, "TTFT about {}, estimated", time(expected))),
        _ => {}
    }
    if view.tokens_per_s.is_some() || (is_live(view) && state.snapshot.state == RunState::Paused) {
        figures.push(format!("{} tok/s", rate_or_unknown(speed_of(view, &state.snapshot))));
    }
    let most = count(state.snapshot.limits.max_model_len as u64);
    figures.push(say!(theme, "ctx {} of {}", count(view.context as u64), most));
    with_more(figures, view.cached_tokens, view.preemptions, theme)
}

/// Figures with what is said only when there is room for it; longest wording first, the last is without the context.
fn with_more(mut figures: Vec<String>, cached: usize, preempted: u32, theme: Theme) -> Vec<String> {
    let mut wordings = vec![figures.join(" · "), figures[..figures.len().saturating_sub(1)].join(" · ")];
    if cached > 0 {
        figures.push(say!(theme, "cached {}", count(cached as u64)));
        wordings.insert(0, figures.join(" · "));
    }
    if preempted > 0 {
        figures.push(say!(theme, "preempted {}×", preempted));
        wordings.insert(0, figures.join(" · "));
    }
    wordings
}

/// What a slash may become, over the last lines of the transcript.
fn commands(buf: &mut Buffer, area: Rect, state: &State, pane: &Pane, focused: bool) {
    let theme = state.options.theme;
    if !focused || state.replay.is_some() || !matches!(state.mode, Mode::Chat) || area.height < 2 {
        return;
    }
    let found = slash::candidates(pane.editor.text());
    let rows = found.len().min(usize::from(area.height) - 1).min(8);
    let more = found.len() - rows;
    for (at, command) in found.iter().take(rows).enumerate() {
        let y = area.bottom() - (rows - at) as u16;
        let room = usize::from(area.width);
        let name = format!(" /{} {}", command.name, theme.tr(command.wants));
        let mut line = format!("{name:<20} {}", theme.tr(command.about));
        if at + 1 == rows && more > 0 {
            line = say!(theme, " … {} more; go on typing, Tab completes", more + 1);
        }
        let line = clip(&line, room);
        let fill = " ".repeat(room.saturating_sub(width(&line)));
        buf.set_stringn(area.x, y, format!("{line}{fill}"), room, theme.chosen());
    }
}

/// What is looked for, in place of the draft.
fn search_field(buf: &mut Buffer, area: Rect, state: &State, search: &Search) -> Option<Position> {
    if area.height == 0 || area.width < 4 {
        return None;
    }
    Some(super::popup::field(buf, Rect { height: 1, ..area }, state, &search.editor, "/ "))
}

fn draft(buf: &mut Buffer, area: Rect, state: &State, pane: &Pane, focused: bool) -> Option<Position> {
    let theme = state.options.theme;
    if area.height == 0 || usize::from(area.width) <= PROMPT {
        return None;
    }
    let mark = if state.broadcast { "» " } else { "> " };
    let style = if focused { theme.key() } else { theme.quiet() };
    buf.set_stringn(area.x, area.y, mark, PROMPT, style);
    let columns = usize::from(area.width) - PROMPT;
    let (lines, row, column) = pane.editor.layout(columns);
    let first = (row + 1).saturating_sub(usize::from(area.height));
    for (at, (start, end)) in lines.iter().skip(first).take(usize::from(area.height)).enumerate() {
        let text = &pane.editor.text()[*start..*end];
        buf.set_stringn(area.x + PROMPT as u16, area.y + at as u16, text, columns, theme.text());
    }
    focused
        .then(|| Position { x: (area.x + PROMPT as u16 + column as u16).min(area.right() - 1), y: area.y + (row - first) as u16 })
}
