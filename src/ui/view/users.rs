//! The users table: who is where, how fast, with how much memory, and why they wait.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::panel;
use crate::batch::UserId;
use crate::engine::api::{FinishReason, Snapshot, Status, TakenBy, UserView, Waiting};
use crate::ui::people::People;
use crate::ui::theme::Theme;
use crate::ui::{format, text};

const STATE: usize = 12;
const GAP: usize = 2;
/// The reason for waiting is a column of its own when this much is left for it.
const REASON_MIN: usize = 40;
const TOTAL: &str = "all";

/// A column of figures.
struct Column {
    head: &'static str,
    columns: usize,
    /// The lowest stay longest when the table is narrow.
    rank: u8,
    cell: fn(&UserView, &Snapshot) -> String,
    total: fn(&Snapshot) -> String,
}

const COLUMNS: [Column; 7] = [
    Column {
        head: "tok/s",
        columns: 5,
        rank: 1,
        cell: |view, snapshot| format::rate_or_unknown(panel::speed_of(view, snapshot)),
        total: |snapshot| format::rate_or_unknown(panel::speed_now(snapshot)),
    },
    Column { head: "TTFT", columns: 6, rank: 2, cell: |view, _| format::time_or_unknown(view.ttft), total: |_| String::new() },
    Column {
        head: "ITL p95",
        columns: 7,
        rank: 5,
        cell: |view, _| format::time_or_unknown(view.itl_p95),
        total: |_| String::new(),
    },
    Column { head: "context", columns: 7, rank: 4, cell: |view, _| format::count(view.context as u64), total: |_| String::new() },
    Column {
        head: "blocks",
        columns: 6,
        rank: 6,
        cell: |view, _| format::count(view.kv_blocks as u64),
        total: |snapshot| format::count(snapshot.kv.used as u64),
    },
    Column {
        head: "KV",
        columns: 5,
        rank: 3,
        cell: |view, snapshot| bytes(view.kv_blocks, snapshot),
        total: |snapshot| bytes(snapshot.kv.used, snapshot),
    },
    Column {
        head: "preempted",
        columns: 9,
        rank: 7,
        cell: |view, _| times(view.preemptions.into()),
        total: |snapshot| times(snapshot.users.iter().map(|view| u64::from(view.preemptions)).sum()),
    },
];

fn bytes(blocks: usize, snapshot: &Snapshot) -> String {
    format::bytes_short((blocks as u64).saturating_mul(snapshot.kv.bytes_per_block as u64))
}

fn times(count: u64) -> String {
    if count == 0 { "0".into() } else { format!("×{count}") }
}

/// Why a user gets no token now, in words.
pub fn why(waiting: &Waiting, people: &People) -> String {
    match waiting {
        Waiting::Seats { running, max_num_seqs } => format!("seats full ({running} of {max_num_seqs})"),
        Waiting::Budget { max_num_batched_tokens, spent_on } => {
            let budget = format::count(*max_num_batched_tokens as u64);
            match names(spent_on, people) {
                names if names.is_empty() => format!("step budget of {budget} spent"),
                names => format!("step budget of {budget} spent on {names}"),
            }
        }
        Waiting::Blocks { needed, free, watermark } => {
            let needs = format!("needs {}, {} free", format::plural(*needed, "block", "blocks"), format::count(*free as u64));
            if *watermark > 0 { format!("{needs} ({watermark} kept back)") } else { needs }
        }
        Waiting::Behind { ahead } => format!("behind {}", format::plural(*ahead, "other", "others")),
        Waiting::PrefillBudget { tokens, spent_on } => {
            let budget = format!("the {} that keep to the target ITL", format::plural(*tokens, "prompt token", "prompt tokens"));
            match names(spent_on, people) {
                names if names.is_empty() => format!("{budget} are spent"),
                names => format!("{budget} are spent, beside {names}"),
            }
        }
        Waiting::Group { running } => format!("static: the group of {running} is not done"),
        Waiting::SharedPrefix { user, tokens } => {
            format!(
                "{} is computing {} that it will share",
                panel::name(people, *user),
                format::plural(*tokens, "token", "tokens")
            )
        }
        Waiting::Preempted { by: TakenBy::User(by) } => format!("blocks taken for {}", panel::name(people, *by)),
        Waiting::Preempted { by: TakenBy::Itself } => "ran out of blocks itself".into(),
        Waiting::Preempted { by: TakenBy::Seats } => "there are fewer seats now".into(),
        Waiting::Preempted { by: TakenBy::KvBudget } => "there is less KV memory now".into(),
        Waiting::PreemptionStep => "a preemption this step, nobody new let in".into(),
        Waiting::NotYet => "not looked at yet".into(),
    }
}

/// The same where there is little room.
pub fn why_short(waiting: &Waiting, people: &People) -> String {
    match waiting {
        Waiting::Seats { running, max_num_seqs } => format!("{running}/{max_num_seqs} seats taken"),
        Waiting::Budget { .. } => "step budget spent".into(),
        Waiting::Blocks { needed, free, .. } => format!("{needed} blocks, {free} free"),
        Waiting::Behind { ahead } => format!("behind {ahead}"),
        Waiting::PrefillBudget { .. } => "prompt budget spent".into(),
        Waiting::Group { .. } => "group not done".into(),
        Waiting::SharedPrefix { user, .. } => format!("shares with {}", panel::name(people, *user)),
        Waiting::Preempted { by: TakenBy::User(by) } => format!("for {}", panel::name(people, *by)),
        Waiting::Preempted { by: TakenBy::Itself } => "out of blocks".into(),
        Waiting::Preempted { by: TakenBy::Seats } => "fewer seats".into(),
        Waiting::Preempted { by: TakenBy::KvBudget } => "less memory".into(),
        Waiting::PreemptionStep => "a preemption".into(),
        Waiting::NotYet => "next step".into(),
    }
}

/// Up to three names, then how many more.
fn names(users: &[UserId], people: &People) -> String {
    let mut distinct: Vec<UserId> = Vec::new();
    for user in users {
        if !distinct.contains(user) {
            distinct.push(*user);
        }
    }
    let shown: Vec<String> = distinct.iter().take(3).map(|user| panel::name(people, *user)).collect();
    match distinct.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
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
}

pub fn wanted_height(snapshot: &Snapshot, width: u16) -> u16 {
    let users = snapshot.users.len().clamp(1, 1000);
    let below = match wide_reason(panel::inner_width(width)) {
        Some(_) => 0,
        None => in_queue(snapshot),
    };
    (2 + 1 + users + below + 1) as u16
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
fn wide_reason(width: usize) -> Option<usize> {
    let figures: usize = COLUMNS.iter().map(|column| GAP + column.columns).sum();
    width.checked_sub(base(panel::NAME_MAX) + figures + GAP).filter(|left| *left >= REASON_MIN)
}

pub fn draw(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, people: &People, theme: Theme) {
    let figures = [format!("{} running · {} waiting", snapshot.running, snapshot.waiting)];
    let Some(inner) = panel::frame(buf, area, "users", &figures, theme) else { return };
    if snapshot.users.is_empty() {
        panel::put(buf, inner, 0, Line::styled(text::clip("nobody has asked yet", usize::from(inner.width)), theme.quiet()));
        return;
    }
    let height = usize::from(inner.height);
    let head = usize::from(height >= 2);
    let total = usize::from(height >= 4);
    let room = height - head - total;
    let table = Table::new(snapshot, people, theme, usize::from(inner.width), room);
    if head > 0 {
        panel::put(buf, inner, 0, table.head());
    }
    let rows = table.rows(room);
    let used = rows.len();
    for (row, line) in rows.into_iter().enumerate() {
        panel::put(buf, inner, head + row, line);
    }
    if total > 0 {
        panel::put(buf, inner, head + used, table.total());
    }
}

impl<'a> Table<'a> {
    fn new(snapshot: &'a Snapshot, people: &'a People, theme: Theme, width: usize, room: usize) -> Self {
        let name = panel::name_columns(people, &snapshot.users, (width / 4).max(3)).max(TOTAL.len());
        let mut left = width.saturating_sub(base(name));
        let mut ranks: Vec<&Column> = COLUMNS.iter().collect();
        ranks.sort_by_key(|column| column.rank);
        let kept: Vec<u8> = ranks
            .iter()
            .map_while(|column| {
                left = left.checked_sub(GAP + column.columns)?;
                Some(column.rank)
            })
            .collect();
        let reason = match wide_reason(width) {
            Some(columns) => Reason::Column(columns + panel::NAME_MAX - name.min(panel::NAME_MAX)),
            None if snapshot.users.len() + in_queue(snapshot) <= room => Reason::Below,
            None => Reason::Inline,
        };
        let columns = COLUMNS.iter().filter(|column| kept.contains(&column.rank)).collect();
        Table { snapshot, people, theme, width, name, columns, reason }
    }

    fn head(&self) -> Line<'static> {
        let mut line = format!("{}  {}", panel::left("user", self.name + 2), panel::left("state", STATE));
        for column in &self.columns {
            line.push_str("  ");
            line.push_str(&panel::right(column.head, column.columns));
        }
        if matches!(self.reason, Reason::Column(_)) {
            line.push_str("  why it waits");
        }
        Line::styled(line, self.theme.quiet())
    }

    fn rows(&self, room: usize) -> Vec<Line<'static>> {
        let (shown, left_out) = panel::pick_users(self.snapshot, room);
        let mut lines = Vec::new();
        for view in shown {
            lines.push(self.row(view));
            if self.reason == Reason::Below && second_line(view) {
                let reason = text::clip(&format!("└ {}", self.reason_of(view)), self.width.saturating_sub(2));
                lines.push(Line::styled(format!("  {reason}"), self.theme.quiet()));
            }
        }
        if left_out > 0 && room > 0 {
            lines.push(Line::styled(format!("+{left_out} more"), self.theme.quiet()));
        }
        lines
    }

    fn reason_of(&self, view: &UserView) -> String {
        view.waiting.as_ref().map(|waiting| why(waiting, self.people)).unwrap_or_default()
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
            spans.push(Span::styled(format!("  {}", text::clip(&self.reason_of(view), left)), self.theme.quiet()));
            return Line::from(spans);
        }
        let figures = if panel::is_live(view) { self.theme.text() } else { self.theme.quiet() };
        for column in &self.columns {
            let cell = panel::right(&(column.cell)(view, self.snapshot), column.columns);
            spans.push(Span::styled(format!("  {cell}"), figures));
        }
        if let Reason::Column(columns) = self.reason {
            spans.push(Span::styled(format!("  {}", text::clip(&self.reason_of(view), columns)), self.theme.quiet()));
        }
        Line::from(spans)
    }

    fn total(&self) -> Line<'static> {
        let seats = format!("batch {}/{}", self.snapshot.running, self.snapshot.limits.max_num_seqs);
        let mut line = format!("{}  {}", panel::left(TOTAL, self.name + 2), panel::left(&seats, STATE));
        for column in &self.columns {
            line.push_str("  ");
            line.push_str(&panel::right(&(column.total)(self.snapshot), column.columns));
        }
        Line::styled(line, self.theme.strong())
    }
}

/// A user's state in at most twelve columns.
fn state(view: &UserView, theme: Theme) -> (String, Style) {
    match view.status {
        Status::Waiting => ("waiting".into(), theme.warn()),
        Status::Prefill { computed, total } => {
            (format!("prefill {}", format::percent(computed as u64, total as u64)), theme.accent())
        }
        Status::Decode => ("decode".into(), theme.good()),
        Status::Preempted => ("preempted".into(), theme.bad()),
        Status::Finished(reason) => match reason {
            FinishReason::Stop => ("done: stop".into(), theme.quiet()),
            FinishReason::Length => ("done: length".into(), theme.quiet()),
            FinishReason::ContextFull => ("context full".into(), theme.warn()),
            FinishReason::KvFull => ("KV full".into(), theme.warn()),
            FinishReason::Cancelled => ("cancelled".into(), theme.quiet()),
            FinishReason::Failed => ("failed".into(), theme.bad()),
        },
    }
}
