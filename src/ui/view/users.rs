//! The users table: who is where, how fast, with how much memory, and why they wait.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::panel;
use crate::batch::UserId;
use crate::engine::api::{FinishReason, Snapshot, Status, TakenBy, UserView, Waiting};
use crate::ui::machine::Sort;
use crate::ui::people::People;
use crate::ui::theme::{Colors, Theme};
use crate::ui::words::say;
use crate::ui::{format, text};

const STATE: usize = 12;
const GAP: usize = 2;
/// The reason for waiting is a column of its own when this much is left for it.
const REASON_MIN: usize = 40;
const TOTAL: &str = "all";

/// A column of figures.
struct Column {
    head: &'static str,
    /// At least; a longer head makes it wider.
    columns: usize,
    /// The lowest stay longest when the table is narrow.
    rank: u8,
    sort: Option<Sort>,
    cell: fn(&UserView, &Snapshot) -> String,
    total: fn(&Snapshot) -> String,
}

const COLUMNS: [Column; 9] = [
    Column {
        head: "tok/s",
        columns: 5,
        rank: 1,
        sort: Some(Sort::Speed),
        cell: |view, snapshot| format::rate_or_unknown(panel::speed_of(view, snapshot)),
        total: |snapshot| format::rate_or_unknown(panel::speed_now(snapshot)),
    },
    Column {
        head: "TTFT",
        columns: 6,
        rank: 2,
        sort: Some(Sort::Ttft),
        cell: |view, _| format::time_or_unknown(view.ttft),
        total: |_| String::new(),
    },
    Column {
        head: "queue",
        columns: 6,
        rank: 6,
        sort: Some(Sort::Queue),
        cell: |view, _| format::time_or_unknown(view.queued),
        total: |_| String::new(),
    },
    Column {
        head: "ITL p95",
        columns: 7,
        rank: 5,
        sort: Some(Sort::Itl),
        cell: |view, _| format::time_or_unknown(view.itl_p95),
        total: |_| String::new(),
    },
    Column {
        head: "context",
        columns: 7,
        rank: 4,
        sort: Some(Sort::Context),
        cell: |view, _| format::count(view.context as u64),
        total: |_| String::new(),
    },
    Column {
        head: "blocks",
        columns: 6,
        rank: 9,
        sort: None,
        cell: |view, _| format::count(view.kv_blocks as u64),
        total: |snapshot| format::count(snapshot.kv.used as u64),
    },
    Column {
        head: "KV",
        columns: 5,
        rank: 3,
        sort: Some(Sort::Kv),
        cell: |view, snapshot| bytes(view.kv_blocks, snapshot),
        total: |snapshot| bytes(snapshot.kv.used, snapshot),
    },
    Column {
        head: "cached",
        columns: 6,
        rank: 7,
        sort: Some(Sort::Cached),
        cell: |view, _| format::percent(view.cached_tokens as u64, view.prompt_tokens as u64),
        total: |snapshot| format::percent(snapshot.ledger.hit, snapshot.ledger.asked),
    },
    Column {
        head: "preempted",
        columns: 9,
        rank: 8,
        sort: Some(Sort::Preempted),
        cell: |view, _| times(view.preemptions.into()),
        total: |snapshot| times(snapshot.users.iter().map(|view| u64::from(view.preemptions)).sum()),
    },
];

impl Column {
    fn width(&self, theme: Theme) -> usize {
        self.columns.max(text::width(theme.tr(self.head)))
    }
}

fn bytes(blocks: usize, snapshot: &Snapshot) -> String {
    format::bytes_short((blocks as u64).saturating_mul(snapshot.kv.bytes_per_block as u64))
}

fn times(count: u64) -> String {
    if count == 0 { "0".into() } else { format!("×{count}") }
}

/// Why a user gets no token now, in words.
pub fn why(waiting: &Waiting, people: &People, theme: Theme) -> String {
    match waiting {
        Waiting::Seats { running, max_num_seqs } => say!(theme, "seats full ({} of {})", running, max_num_seqs),
        Waiting::Budget { max_num_batched_tokens, spent_on } => {
            let budget = format::count(*max_num_batched_tokens as u64);
            match names(spent_on, people, theme) {
                names if names.is_empty() => say!(theme, "step budget of {} spent", budget),
                names => say!(theme, "step budget of {} spent on {}", budget, names),
            }
        }
        Waiting::Blocks { needed, free, watermark } => {
            let blocks = theme.plural(*needed, "{} block", "{} blocks");
            let can = format::count(free.saturating_sub(*watermark) as u64);
            match watermark {
                0 => say!(theme, "needs {}, can have {}", blocks, can),
                // What is free or only cached, less what those who run may need.
                kept => {
                    say!(theme, "needs {}, can have {} ({} less {} kept back)", blocks, can, format::count(*free as u64), kept)
                }
            }
        }
        Waiting::Behind { ahead } => theme.plural(*ahead, "behind {} other", "behind {} others"),
        Waiting::PrefillBudget { tokens, spent_on } => {
            let tokens = theme.plural(*tokens, "{} prompt token", "{} prompt tokens");
            match names(spent_on, people, theme) {
                names if names.is_empty() => say!(theme, "the {} that keep to the target ITL are spent", tokens),
                names => say!(theme, "the {} that keep to the target ITL are spent, beside {}", tokens, names),
            }
        }
        Waiting::Group { running } => say!(theme, "static: the group of {} is not done", running),
        Waiting::SharedPrefix { user, tokens } => {
            let tokens = theme.plural(*tokens, "{} token", "{} tokens");
            say!(theme, "{} is computing {} that it will share", panel::name(people, *user), tokens)
        }
        Waiting::Preempted { by: TakenBy::User(by) } => say!(theme, "blocks taken for {}", panel::name(people, *by)),
        Waiting::Preempted { by: TakenBy::Itself } => theme.tr("ran out of blocks itself").into(),
        Waiting::Preempted { by: TakenBy::Seats } => theme.tr("there are fewer seats now").into(),
        Waiting::Preempted { by: TakenBy::KvBudget } => theme.tr("there is less KV memory now").into(),
        Waiting::PreemptionStep => theme.tr("a preemption this step, nobody new let in").into(),
        Waiting::NotYet => theme.tr("not looked at yet").into(),
    }
}

/// The same where there is little room.
pub fn why_short(waiting: &Waiting, people: &People, theme: Theme) -> String {
    match waiting {
        Waiting::Seats { running, max_num_seqs } => say!(theme, "{}/{} seats taken", running, max_num_seqs),
        Waiting::Budget { .. } => theme.tr("step budget spent").into(),
        Waiting::Blocks { needed, free, watermark } => {
            say!(theme, "needs {} blocks, can have {}", needed, free.saturating_sub(*watermark))
        }
        Waiting::Behind { ahead } => say!(theme, "behind {}", ahead),
        Waiting::PrefillBudget { .. } => theme.tr("prompt budget spent").into(),
        Waiting::Group { .. } => theme.tr("group not done").into(),
        Waiting::SharedPrefix { user, .. } => say!(theme, "shares with {}", panel::name(people, *user)),
        Waiting::Preempted { by: TakenBy::User(by) } => say!(theme, "for {}", panel::name(people, *by)),
        Waiting::Preempted { by: TakenBy::Itself } => theme.tr("out of blocks").into(),
        Waiting::Preempted { by: TakenBy::Seats } => theme.tr("fewer seats").into(),
        Waiting::Preempted { by: TakenBy::KvBudget } => theme.tr("less memory").into(),
        Waiting::PreemptionStep => theme.tr("a preemption").into(),
        Waiting::NotYet => theme.tr("next step").into(),
    }
}

/// Up to three names, then how many more.
fn names(users: &[UserId], people: &People, theme: Theme) -> String {
    let mut distinct: Vec<UserId> = Vec::new();
    for user in users {
        if !distinct.contains(user) {
            distinct.push(*user);
        }
    }
    let shown: Vec<String> = distinct.iter().take(3).map(|user| panel::name(people, *user)).collect();
    match distinct.len() - shown.len() {
        0 => shown.join(", "),
        more => say!(theme, "{} and {} more", shown.join(", "), more),
    }
}

/// Where the reason for waiting stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// In a column of its own.
    Column(usize),
    /// On a second line.
    Below,
    /// In place of the figures, which someone who has not begun has not got.
    Inline,
}

struct Table<'a> {
    snapshot: &'a Snapshot,
    people: &'a People,
    theme: Theme,
    width: usize,
    name: usize,
    columns: Vec<&'a Column>,
    reason: Reason,
    sort: Sort,
}

/// Rows that it asks for at most: more people would leave the other panels nothing.
const ROWS: usize = 16;
/// And rows of users that are enough where others need room.
const ENOUGH: usize = 8;

pub fn wanted_height(snapshot: &Snapshot, width: u16) -> u16 {
    let users = snapshot.users.len().clamp(1, ROWS);
    let below = match wide_reason(panel::inner_width(width), Theme::new(Colors::None)) {
        Some(_) => 0,
        None => in_queue(snapshot),
    };
    (2 + 1 + users + below + 1) as u16
}

/// Rows in which the table can be read: a line each for so many, reasons beside them.
pub fn enough_height(snapshot: &Snapshot) -> u16 {
    (2 + 1 + snapshot.users.len().clamp(1, ENOUGH) + 1) as u16
}

/// Users whose reason for waiting would take a second line.
fn in_queue(snapshot: &Snapshot) -> usize {
    snapshot.users.iter().filter(|view| second_line(view)).count()
}

/// A row that misses single steps while it prefills would only make the table jump.
fn second_line(view: &UserView) -> bool {
    view.waiting.is_some() && matches!(view.status, Status::Waiting | Status::Preempted)
}

fn base(name: usize) -> usize {
    2 + name + GAP + STATE
}

/// Columns left for reasons beside all figures and the longest names, if that is enough.
fn wide_reason(width: usize, theme: Theme) -> Option<usize> {
    let figures: usize = COLUMNS.iter().map(|column| GAP + column.width(theme)).sum();
    width.checked_sub(base(panel::NAME_MAX) + figures + GAP).filter(|left| *left >= REASON_MIN)
}

pub fn draw(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, people: &People, theme: Theme) {
    let _ = draw_sorted(buf, area, snapshot, people, theme, (Sort::Arrival, None));
}

/// The same in another order; where it is alone, from the row of user `scroll` on. Gives how far it can be scrolled.
pub fn draw_sorted(
    buf: &mut Buffer,
    area: Rect,
    snapshot: &Snapshot,
    people: &People,
    theme: Theme,
    (sort, scroll): (Sort, Option<usize>),
) -> usize {
    let figures = [say!(theme, "{} running · {} waiting", snapshot.running, snapshot.waiting)];
    let Some(inner) = panel::frame(buf, area, theme.tr("users"), &figures, theme) else { return 0 };
    if snapshot.users.is_empty() {
        let words = text::clip(theme.tr("nobody has asked yet"), usize::from(inner.width));
        panel::put(buf, inner, 0, Line::styled(words, theme.quiet()));
        return 0;
    }
    let height = usize::from(inner.height);
    let head = usize::from(height >= 2);
    let total = usize::from(height >= 4);
    let room = height - head - total;
    let table = Table::new(snapshot, people, theme, usize::from(inner.width), (room, sort));
    if head > 0 {
        panel::put(buf, inner, 0, table.head());
    }
    let who = table.who(room, scroll);
    let rows = table.rows(&who, room, scroll.is_some());
    let used = rows.len();
    for (row, line) in rows.into_iter().enumerate() {
        panel::put(buf, inner, head + row, line);
    }
    if total > 0 {
        panel::put(buf, inner, head + used, table.total());
    }
    who.most
}

impl<'a> Table<'a> {
    fn new(snapshot: &'a Snapshot, people: &'a People, theme: Theme, width: usize, (room, sort): (usize, Sort)) -> Self {
        let name = panel::name_columns(people, &snapshot.users, (width / 4).max(3)).max(text::width(theme.tr(TOTAL)));
        let mut left = width.saturating_sub(base(name));
        let mut ranks: Vec<&Column> = COLUMNS.iter().collect();
        ranks.sort_by_key(|column| column.rank);
        let kept: Vec<u8> = ranks
            .iter()
            .map_while(|column| {
                left = left.checked_sub(GAP + column.width(theme))?;
                Some(column.rank)
            })
            .collect();
        let reason = match wide_reason(width, theme) {
            Some(columns) => Reason::Column(columns + panel::NAME_MAX - name.min(panel::NAME_MAX)),
            None if snapshot.users.len() + in_queue(snapshot) <= room => Reason::Below,
            None => Reason::Inline,
        };
        let columns = COLUMNS.iter().filter(|column| kept.contains(&column.rank)).collect();
        Table { snapshot, people, theme, width, name, columns, reason, sort }
    }

    fn head(&self) -> Line<'static> {
        let theme = self.theme;
        let mut line = format!("{}  {}", panel::left(theme.tr("user"), self.name + 2), panel::left(theme.tr("state"), STATE));
        for column in &self.columns {
            let head = theme.tr(column.head);
            let sorted = column.sort.is_some_and(|sort| sort == self.sort);
            let head = if sorted { format!("▾{head}") } else { head.to_owned() };
            line.push(' ');
            line.push_str(&panel::right(&head, column.width(theme) + 1));
        }
        if matches!(self.reason, Reason::Column(_)) {
            line.push_str("  ");
            line.push_str(theme.tr("why it waits"));
        }
        Line::styled(line, theme.quiet())
    }

    /// Who has a row. In an order that was asked for, and where it can be scrolled, that order alone decides.
    fn who(&self, room: usize, scroll: Option<usize>) -> panel::Shown<'a> {
        if self.sort == Sort::Arrival && scroll.is_none() {
            let (shown, left_out) = panel::pick_users(self.snapshot, room, panel::First::Waiting);
            return panel::Shown { shown, left_out, most: 0 };
        }
        let mut users: Vec<&UserView> = self.snapshot.users.iter().collect();
        if self.sort != Sort::Arrival {
            // Stable: equals stay in the order in which they came.
            users.sort_by(|a, b| self.key(b).total_cmp(&self.key(a)));
        }
        panel::window(users, room, scroll.unwrap_or(0))
    }

    fn rows(&self, who: &panel::Shown<'_>, room: usize, scrolls: bool) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for view in &who.shown {
            lines.push(self.row(view));
            if self.reason == Reason::Below && second_line(view) {
                let reason = self.reason_in(view, self.width.saturating_sub(4));
                let reason = text::clip(&format!("  └ {reason}"), self.width);
                lines.push(Line::styled(reason, self.theme.quiet()));
            }
        }
        if let Some(words) = panel::left_out_words(&who.left_out, self.theme).filter(|_| room > 0) {
            let words = if scrolls { format!("↑ ↓ {words}") } else { words };
            lines.push(Line::styled(text::clip(&words, self.width), self.theme.quiet()));
        }
        lines
    }

    /// What the rows are sorted by, the largest first; what is not known is last.
    fn key(&self, view: &UserView) -> f64 {
        let seconds = |time: Option<std::time::Duration>| time.map(|time| time.as_secs_f64());
        let key = match self.sort {
            Sort::Arrival => None,
            Sort::Speed => panel::speed_of(view, self.snapshot),
            Sort::Ttft => seconds(view.ttft),
            Sort::Queue => seconds(view.queued),
            Sort::Itl => seconds(view.itl_p95),
            Sort::Context => Some(view.context as f64),
            Sort::Kv => Some(view.kv_blocks as f64),
            Sort::Cached => (view.prompt_tokens > 0).then(|| view.cached_tokens as f64 / view.prompt_tokens as f64),
            Sort::Preempted => Some(f64::from(view.preemptions)),
        };
        key.filter(|key| !key.is_nan()).unwrap_or(f64::NEG_INFINITY)
    }

    /// Why it waits, in the words that fit.
    fn reason_in(&self, view: &UserView, columns: usize) -> String {
        let words = |waiting: &Waiting| [why, why_short].map(|words| words(waiting, self.people, self.theme));
        view.waiting.as_ref().map(|waiting| text::first_fit(&words(waiting), columns)).unwrap_or_default()
    }

    fn row(&self, view: &UserView) -> Line<'static> {
        let person = self.people.style(view.user, self.theme);
        let (state, style) = state(view, self.theme);
        let mut spans = vec![
            Span::styled(format!("{} ", panel::letter(self.people, view.user)), person),
            Span::styled(panel::left(&panel::name(self.people, view.user), self.name), person),
            Span::raw("  "),
            Span::styled(panel::left(&state, STATE), style),
        ];
        if self.reason == Reason::Inline && second_line(view) && view.ttft.is_none() {
            let left = self.width.saturating_sub(base(self.name) + GAP);
            spans.push(Span::styled(format!("  {}", self.reason_in(view, left)), self.theme.quiet()));
            return Line::from(spans);
        }
        let figures = if panel::is_live(view) { self.theme.text() } else { self.theme.quiet() };
        for column in &self.columns {
            let cell = panel::right(&(column.cell)(view, self.snapshot), column.width(self.theme));
            spans.push(Span::styled(format!("  {cell}"), figures));
        }
        if let Reason::Column(columns) = self.reason {
            spans.push(Span::styled(format!("  {}", self.reason_in(view, columns)), self.theme.quiet()));
        }
        Line::from(spans)
    }

    fn total(&self) -> Line<'static> {
        let seats = format!("batch {}/{}", self.snapshot.running, self.snapshot.limits.max_num_seqs);
        let mut line = format!("{}  {}", panel::left(self.theme.tr(TOTAL), self.name + 2), panel::left(&seats, STATE));
        for column in &self.columns {
            line.push_str("  ");
            line.push_str(&panel::right(&(column.total)(self.snapshot), column.width(self.theme)));
        }
        Line::styled(line, self.theme.strong())
    }
}

/// A user's state in at most twelve columns.
fn state(view: &UserView, theme: Theme) -> (String, Style) {
    let (words, style) = match view.status {
        Status::Prefill { computed, total } => {
            return (format!("prefill {}", format::percent(computed as u64, total as u64)), theme.accent());
        }
        Status::Waiting => ("waiting", theme.warn()),
        Status::Decode => ("decode", theme.good()),
        Status::Preempted => ("× preempted", theme.bad()),
        Status::Finished(reason) => match reason {
            FinishReason::Stop => ("done: stop", theme.quiet()),
            FinishReason::Length => ("done: length", theme.quiet()),
            FinishReason::ContextFull => ("context full", theme.warn()),
            FinishReason::KvFull => ("KV full", theme.warn()),
            FinishReason::Cancelled => ("cancelled", theme.quiet()),
            FinishReason::Failed => ("! failed", theme.bad()),
        },
    };
    (theme.tr(words).into(), style)
}
