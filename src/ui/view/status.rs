//! The lines above the keys: what model this is and how to get a better one, a fetch, a question, a notice.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::panel::wrapped;
use crate::ui::format::{megabytes, percent, rate, time};
use crate::ui::keeping::Unkept;
use crate::ui::keymap::{Action, key_for};
use crate::ui::pick::Pick;
use crate::ui::state::{Better, Download, Mode, State};
use crate::ui::text::{clip, first_fit, one_line, width};
use crate::ui::theme::Theme;
use crate::ui::words::say;

/// Lines of one notice or question at most.
const MOST: usize = 3;

/// The lines to show now, most urgent last.
pub fn lines(state: &State, columns: usize) -> Vec<(String, Style)> {
    let theme = state.options.theme;
    let mut lines = Vec::new();
    if let Some(reel) = &state.replay {
        lines.push((first_fit(&reel.wordings(theme), columns.saturating_sub(1)), theme.accent()));
    }
    if let Some(wordings) = model_line(state) {
        let style = match state.better {
            Better::Fetching(_) | Better::WaitingToSwitch | Better::Loading | Better::Ready => theme.accent(),
            _ => theme.quiet(),
        };
        lines.push((first_fit(&wordings, columns.saturating_sub(1)), style));
    }
    if let Better::Failed(why) = &state.better {
        // All that was tried has to be readable: long lines go on in the next.
        for line in why.lines().flat_map(|line| wrapped(&one_line(line), columns.saturating_sub(1))) {
            lines.push((line, theme.bad()));
        }
        lines.push((say!(theme, "{} tries again", key_for(Action::Model)), theme.quiet()));
    }
    if state.broadcast {
        lines.push((say!(theme, "» what you send goes to all panes ({} ends that)", key_for(Action::Broadcast)), theme.warn()));
    }
    if let Some((question, style)) = question(state) {
        lines.extend(few(&question, columns.saturating_sub(1)).into_iter().map(|line| (line, style)));
    } else if let Some(notice) = &state.notice {
        let style = if notice.bad { theme.bad() } else { theme.good() };
        // What helps stands at the end of a notice.
        let text = one_line(&notice.text);
        lines.extend(few(&text, columns.saturating_sub(1)).into_iter().map(|line| (line, style)));
    }
    lines
}

/// A sentence on three lines at most.
fn few(text: &str, columns: usize) -> Vec<String> {
    let mut lines = wrapped(text, columns.max(1));
    if lines.len() > MOST {
        // The last line is cut from all that is left.
        let rest = lines.split_off(MOST - 1).join(" ");
        lines.push(clip(&rest, columns));
    }
    lines
}

fn question(state: &State) -> Option<(String, Style)> {
    let theme = state.options.theme;
    match state.mode {
        Mode::Pick(Pick { sure: Some(gone), .. }) => {
            let what = theme.plural(gone, "{} message", "{} messages");
            let words = say!(
                theme,
                "Delete this message and all that follows it, branches too: {}?  d: delete · any other key: keep",
                what
            );
            Some((words, theme.warn()))
        }
        Mode::ConfirmClose => Some((closing(state), theme.warn())),
        Mode::ConfirmClear => {
            let name = &state.focused().person.name;
            let words = match state.kept {
                true => say!(
                    theme,
                    "New conversation for {}? This one is kept ({}).  y: yes · other keys: no",
                    name,
                    key_for(Action::History)
                ),
                false => say!(theme, "New conversation for {}? The present one is lost.  y: yes · any other key: keep it", name),
            };
            Some((words, theme.warn()))
        }
        Mode::ConfirmQuit => {
            let running = match (state.live(), state.kept) {
                (_, _) if state.unkept.is_some() && state.live() == 0 => {
                    state.unkept.as_ref().map(|unkept| unkept.words(theme)).unwrap_or_default()
                }
                (n, true) if state.unkept.is_some() => {
                    let running = theme.plural(n, "{} answer is still running.", "{} answers are still running.");
                    format!("{running} {}", state.unkept.as_ref().map(|unkept| unkept.words(theme)).unwrap_or_default())
                }
                (0, true) => theme.tr("Conversations are kept.").to_owned(),
                (0, false) => theme.tr("Conversations are not kept.").to_owned(),
                (1, true) => theme.tr("One answer ends here and is kept.").to_owned(),
                (1, false) => theme.tr("One answer is still running; conversations are not kept.").to_owned(),
                (n, true) => say!(theme, "{} answers end here and are kept.", n),
                (n, false) => say!(theme, "{} answers are still running; conversations are not kept.", n),
            };
            Some((say!(theme, "Quit? {}  y or Ctrl-C: quit · any other key: stay", running), theme.warn()))
        }
        _ => None,
    }
}

/// Whether a pane is to be closed, and what becomes of all that it holds.
fn closing(state: &State) -> String {
    let (theme, pane) = (state.options.theme, state.focused());
    let name = &pane.person.name;
    let (chat, draft) = (pane.live || !pane.conversation.is_empty(), !pane.unsent().is_empty());
    let key = key_for(Action::History);
    let kept = match (chat, draft) {
        (true, true) => say!(theme, "Its conversation and its draft are kept ({}).", key),
        (true, false) => say!(theme, "Its conversation is kept ({}).", key),
        (false, true) => say!(theme, "Its draft is kept ({}).", key),
        (false, false) => theme.tr("It holds nothing.").to_owned(),
    };
    let lost = match (chat, draft) {
        (true, true) => "Its conversation and its draft are lost.",
        (true, false) => "Its conversation is lost.",
        (false, true) => "Its draft is lost.",
        (false, false) => "It holds nothing.",
    };
    let fate = match &state.unkept {
        // Some of it may be on disk, and some not.
        Some(unkept @ (Unkept::Late(_) | Unkept::Ended(Some(_)))) => unkept.words(theme),
        _ if state.kept => kept,
        _ => theme.tr(lost).to_owned(),
    };
    say!(theme, "Close {}? {}  y: close · any other key: stay", name, fate)
}

/// What the model line says, longest wording first.
fn model_line(state: &State) -> Option<Vec<String>> {
    let theme = state.options.theme;
    let key = key_for(Action::Model);
    let (title, size) = (&state.options.better_title, megabytes(state.options.better_bytes));
    match &state.better {
        Better::InUse => None,
        Better::Absent => Some(vec![
            say!(theme, "This is nano, a tiny, naive model that comes with the program. {} fetches {} ({}).", key, title, size),
            say!(theme, "nano is tiny and naive: {} fetches {} ({})", key, title, size),
            say!(theme, "nano is naive: {} fetches a better model", key),
        ]),
        Better::Failed(_) => None,
        Better::Fetching(download) => Some(fetch_words(theme, download, title, &key)),
        Better::Ready => Some(vec![
            say!(theme, "{} is here: {} switches to it, every chat stays.", title, key),
            say!(theme, "{} switches to {}", key, title),
        ]),
        Better::WaitingToSwitch => {
            let running = theme.plural(state.live(), "{} running answer", "{} running answers");
            Some(vec![
                say!(theme, "{} takes over after the {}; {} again stops them and switches now.", title, running, key),
                say!(theme, "switching after the {}; {} again: now", running, key),
            ])
        }
        Better::Loading => Some(vec![theme.tr("Loading the model…").to_owned()]),
    }
}

fn fetch_words(theme: Theme, download: &Download, title: &str, key: &str) -> Vec<String> {
    let Some(total) = download.total.filter(|total| *total > 0) else {
        return vec![say!(theme, "Fetching {}: {}… ({} stops it)", title, one_line(&download.source), key)];
    };
    let share = percent(download.done.min(total), total);
    let filled = (download.done.min(total) * 20 / total) as usize;
    let bar = format!("{}{}", "█".repeat(filled), "░".repeat(20 - filled));
    let mut figures = say!(theme, "{} of {}", megabytes(download.done), megabytes(total));
    if let Some(speed) = download.rate.filter(|speed| *speed > 0.0) {
        let left = std::time::Duration::from_secs_f64(total.saturating_sub(download.done) as f64 / speed);
        figures.push_str(&say!(theme, ", {}B/s, {} left", rate(speed), time(left)));
    }
    let source = one_line(&download.source);
    let stops = say!(theme, "({} stops it)", key);
    let fetching = say!(theme, "Fetching {}", title);
    vec![
        format!("{fetching}: {source}  {bar} {share}  {figures}  {stops}"),
        format!("{source} {bar} {share} {figures} {stops}"),
        format!("{source} {share} {stops}"),
    ]
}

pub fn draw(buf: &mut Buffer, area: Rect, lines: &[(String, Style)]) {
    let skip = lines.len().saturating_sub(usize::from(area.height));
    for (row, (text, style)) in lines.iter().skip(skip).enumerate() {
        buf.set_stringn(area.x + 1, area.y + row as u16, text, usize::from(area.width.saturating_sub(1)), *style);
    }
}

/// The keys, as many as fit.
pub fn footer(buf: &mut Buffer, area: Rect, state: &State) {
    let theme = state.options.theme;
    // What is on has its room first: keys that are cut cannot be read.
    let marks = marks(state);
    let taken = if marks.is_empty() { 0 } else { width(&marks) + 2 };
    let taken = if taken < usize::from(area.width) { taken } else { 0 };
    let room = usize::from(area.width) - taken;
    let mut spans = vec![Span::raw(" ")];
    let mut used = 1;
    // Help is always there: it stands first in what must fit.
    let help = state.keys().iter().filter(|binding| binding.action == Action::Help);
    let others = state.keys().iter().filter(|binding| !binding.short.is_empty() && binding.action != Action::Help);
    for binding in help.chain(others) {
        let Some(key) = binding.keys.first() else { continue };
        let (key, word) = (key.label(), theme.tr(binding.short));
        let (gap, columns) = (if used > 1 { 3 } else { 0 }, width(&key) + 1 + width(word));
        if used + gap + columns > room {
            break;
        }
        used += gap + columns;
        spans.push(Span::raw(" ".repeat(gap)));
        spans.push(Span::styled(key, theme.key()));
        spans.push(Span::styled(format!(" {word}"), theme.quiet()));
    }
    buf.set_line(area.x, area.y, &Line::from(spans), area.width);
    if taken > 0 {
        buf.set_stringn(area.right() - taken as u16, area.y, format!(" {marks} "), taken, theme.warn());
    }
}

/// What is on, at the right of the keys: it must not be forgotten.
fn marks(state: &State) -> String {
    let theme = state.options.theme;
    let mut marks = Vec::new();
    if state.options.readonly {
        marks.push(theme.tr("read-only").to_owned());
    }
    if state.witness {
        marks.push(say!(theme, "witness on ({})", key_for(Action::Witness)));
    }
    if state.mouse {
        marks.push(say!(theme, "mouse on ({})", key_for(Action::Mouse)));
    }
    marks.join(" · ")
}
