//! What the panels of the machine room share: the frame with its title, columns, and the order of users.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Padding, Widget};

use crate::batch::UserId;
use crate::engine::api::{RunState, Snapshot, Status, UserView};
use crate::ui::people::People;
use crate::ui::text;
use crate::ui::theme::Theme;
use crate::ui::words::say;

/// Names take so many columns at most.
pub const NAME_MAX: usize = 10;
/// Panels at least this wide keep a blank column inside each border.
const PADDED_FROM: u16 = 24;

/// Draws border and title (`name — figures`, the first figures that fit) and returns the room inside. None: the area
/// is too small for a border, and holds the title alone.
pub fn frame(buf: &mut Buffer, area: Rect, name: &str, figures: &[String], theme: Theme) -> Option<Rect> {
    let area = area.intersection(buf.area);
    if area.is_empty() {
        return None;
    }
    let bordered = area.height >= 3 && area.width >= 12;
    let room = usize::from(if bordered { area.width - 4 } else { area.width });
    let taken = text::width(name) + 3;
    // The title lies on the border's cells and must not take their colour.
    let plain = Style::new().fg(Color::Reset).remove_modifier(Modifier::DIM);
    let mut title = vec![Span::styled(text::clip(name, room), plain.patch(theme.strong()))];
    if let Some(figures) = figures.iter().find(|figures| taken + text::width(figures) <= room) {
        title.push(Span::styled(" — ", theme.quiet()));
        title.push(Span::styled(figures.clone(), plain.patch(theme.text())));
    }
    if !bordered {
        buf.set_line(area.x, area.y, &Line::from(title), area.width);
        return None;
    }
    title.insert(0, Span::raw(" "));
    title.push(Span::raw(" "));
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.border())
        .title(Line::from(title))
        .padding(Padding::horizontal(u16::from(area.width >= PADDED_FROM)));
    let inner = block.inner(area);
    block.render(area, buf);
    Some(inner)
}

/// Columns inside the frame of a panel so wide.
pub fn inner_width(width: u16) -> usize {
    usize::from(width).saturating_sub(if width >= PADDED_FROM { 4 } else { 2 })
}

/// Writes one line at a row of the area; nothing when there is no such row.
pub fn put(buf: &mut Buffer, area: Rect, row: usize, line: Line<'_>) {
    if row < usize::from(area.height) {
        buf.set_line(area.x, area.y + row as u16, &line, area.width);
    }
}

/// Writes at a column of a row, up to the area's right edge.
pub fn put_at(buf: &mut Buffer, area: Rect, (column, row): (usize, usize), content: &str, style: Style) {
    if row < usize::from(area.height) && column < usize::from(area.width) {
        let room = usize::from(area.width) - column;
        buf.set_stringn(area.x + column as u16, area.y + row as u16, content, room, style);
    }
}

/// Text at the left of so many columns, clipped when too long.
pub fn left(content: &str, columns: usize) -> String {
    let mut out = text::clip(content, columns);
    out.extend(std::iter::repeat_n(' ', columns.saturating_sub(text::width(&out))));
    out
}

/// Text at the right of so many columns, clipped when too long.
pub fn right(content: &str, columns: usize) -> String {
    let content = text::clip(content, columns);
    let mut out = " ".repeat(columns.saturating_sub(text::width(&content)));
    out.push_str(&content);
    out
}

/// Breaks a text into lines of so many columns.
pub fn wrapped(content: &str, columns: usize) -> Vec<String> {
    let mut wrap = text::Wrap::default();
    wrap.update(content, columns);
    wrap.lines().iter().map(|(start, end)| content[*start..*end].trim_end().to_owned()).collect()
}

/// A person's name as it may be shown.
pub fn name(people: &People, user: UserId) -> String {
    text::one_line(&people.name(user))
}

/// The letter that stands for a person, always one column wide.
pub fn letter(people: &People, user: UserId) -> char {
    let letter = people.letter(user);
    if text::width(letter.encode_utf8(&mut [0; 4])) == 1 && !letter.is_control() { letter } else { '?' }
}

/// Columns that the names of these users need.
pub fn name_columns(people: &People, users: &[UserView], most: usize) -> usize {
    let widest = users.iter().map(|view| text::width(&name(people, view.user))).max().unwrap_or(0);
    widest.min(NAME_MAX).min(most)
}

/// Tokens sampled per second now. The engine's second stands still when there is nothing to do; the speed then is 0.
/// None while paused: steps made by hand come as fast as a finger, which is no speed.
pub fn speed_now(snapshot: &Snapshot) -> Option<f64> {
    match snapshot.state {
        RunState::Idle | RunState::Stopped => Some(0.0),
        RunState::Running => Some(snapshot.totals.tokens_per_s),
        RunState::Paused => None,
    }
}

/// A user's decode speed: now, or of the whole answer once it has ended. None where it is not known, and while a
/// running one is paused.
pub fn speed_of(view: &UserView, snapshot: &Snapshot) -> Option<f64> {
    let paused = snapshot.state == RunState::Paused && is_live(view);
    view.tokens_per_s.filter(|_| !paused)
}

/// Whether this user's newest request is still in the engine.
pub fn is_live(view: &UserView) -> bool {
    !matches!(view.status, Status::Finished(_))
}

/// Who stays longest where not all users fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// All live ones alike: whoever came first.
    Live,
    /// Those that wait, then those that get on.
    Waiting,
}

/// The users to show in so many rows, in their own order, and those that are left out. Those that have ended go before all
/// others, and one row is kept to say who is missing.
pub fn pick_users(snapshot: &Snapshot, rows: usize, first: First) -> (Vec<&UserView>, Vec<&UserView>) {
    let users = &snapshot.users;
    if users.len() <= rows {
        return (users.iter().collect(), Vec::new());
    }
    let rank = |view: &UserView| match view.status {
        Status::Finished(_) => 4,
        _ if first == First::Live => 0,
        Status::Preempted => 0,
        Status::Waiting => 1,
        Status::Prefill { .. } => 2,
        Status::Decode => 3,
    };
    let mut places: Vec<usize> = (0..users.len()).collect();
    places.sort_by_key(|at| rank(&users[*at]));
    let (shown, left_out) = places.split_at(rows.saturating_sub(1).min(users.len()));
    let in_order = |places: &[usize]| {
        let mut places = places.to_vec();
        places.sort_unstable();
        places.into_iter().map(|at| &users[at]).collect()
    };
    (in_order(shown), in_order(left_out))
}

/// Users and how many rows they can be scrolled by: who is shown in so many rows from row `scroll` on, who is not.
pub struct Shown<'a> {
    pub shown: Vec<&'a UserView>,
    pub left_out: Vec<&'a UserView>,
    pub most: usize,
}

/// A window on users in an order of one's own; as above, one row is kept to say who is missing.
pub fn window(mut users: Vec<&UserView>, rows: usize, scroll: usize) -> Shown<'_> {
    if users.len() <= rows {
        return Shown { shown: users, left_out: Vec::new(), most: 0 };
    }
    let rows = rows.saturating_sub(1);
    let most = users.len() - rows;
    let first = scroll.min(most);
    let shown = users.drain(first..first + rows).collect();
    Shown { shown, left_out: users, most }
}

/// `+3 more: 2 decode, 1 ended`; None when nobody is left out.
pub fn left_out_words(left_out: &[&UserView], theme: Theme) -> Option<String> {
    let count = |which: fn(&Status) -> bool| left_out.iter().filter(|view| which(&view.status)).count();
    let kinds = [
        (count(|status| matches!(status, Status::Preempted)), "{} preempted"),
        (count(|status| matches!(status, Status::Waiting)), "{} waiting"),
        (count(|status| matches!(status, Status::Prefill { .. })), "{} prefill"),
        (count(|status| matches!(status, Status::Decode)), "{} decode"),
        (count(|status| matches!(status, Status::Finished(_))), "{} ended"),
    ];
    let kinds: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, words)| theme.lang().fill(words, &[count])).collect();
    (!left_out.is_empty()).then(|| say!(theme, "+{} more: {}", left_out.len(), kinds.join(", ")))
}

/// Cells of a gauge that stand for `part` of `whole`: none only when none, all only when all.
pub fn gauge_cells(part: usize, whole: usize, cells: usize) -> usize {
    if whole == 0 || part == 0 || cells == 0 {
        return 0;
    }
    if part >= whole {
        return cells;
    }
    let exact = (part as f64 / whole as f64 * cells as f64).round() as usize;
    exact.clamp(1, cells.saturating_sub(1).max(1))
}
