//! KV memory: a map of the blocks by owner, and the sums.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::panel;
use crate::engine::api::{BlockOwner, KvView, Snapshot};
use crate::ui::people::{NO_LETTER, People};
use crate::ui::theme::Theme;
use crate::ui::words::say;
use crate::ui::{format, text};

const SHARED: &str = "#";
/// Of a finished request that is computed once more.
const WITNESS: &str = "=";
const CACHED: &str = "░";
const FREE: &str = "·";
/// Rows of the map that are worth asking for.
const MAP_ROWS: usize = 6;
/// Lines under the map: the sum, the waste, what fits still, the legend.
const LINES: usize = 4;
/// Tokens of a chat, for what fits still.
const CHAT: usize = 2048;

pub fn wanted_height(snapshot: &Snapshot, width: u16) -> u16 {
    let columns = panel::inner_width(width).max(1);
    let blocks = snapshot.kv.owners.len();
    let cells = blocks.div_ceil(blocks_per_cell(blocks, columns * MAP_ROWS));
    let rows = cells.div_ceil(columns).clamp(1, MAP_ROWS);
    (2 + rows + LINES) as u16
}

pub fn draw(buf: &mut Buffer, area: Rect, snapshot: &Snapshot, people: &People, theme: Theme) {
    let kv = &snapshot.kv;
    let area = area.intersection(buf.area);
    // The room inside is known before the frame is drawn, because the map's scale stands in the title.
    let width = panel::inner_width(area.width);
    let height = usize::from(area.height).saturating_sub(2);
    let lines = match height {
        0..=1 => height,
        2 => 1,
        // Letters that nobody explains say nothing.
        3..=4 => 2,
        5 if kv.owners.len() > width => 3,
        _ => LINES,
    };
    let rows = height - lines;
    let scale = blocks_per_cell(kv.owners.len(), width * rows);
    // What the map leaves blank goes to the lines under it.
    let map = if rows > 0 { kv.owners.len().div_ceil(scale).div_ceil(width.max(1)) } else { 0 };
    let lines = (height - map.min(rows)).clamp(lines, LINES.max(lines));
    let Some(inner) = panel::frame(buf, area, theme.tr("KV memory"), &figures(kv, (rows > 0).then_some(scale), theme), theme)
    else {
        return;
    };
    let cells: Vec<BlockOwner> = if rows > 0 { cells(&kv.owners, scale) } else { Vec::new() };
    for (place, owner) in cells.iter().enumerate() {
        let (glyph, style) = paint(*owner, people, theme);
        panel::put_at(buf, inner, (place % width, place / width), &glyph, style);
    }
    let (sum, waste) = (sum(kv, width, theme), waste(snapshot, width, theme));
    let (fits, legend) = (fits(snapshot, width, theme), legend(kv, people, width, theme));
    // The legend before what fits: without it the map cannot be read.
    let under = match lines {
        0..=2 => vec![sum, legend],
        3 => vec![sum, waste, legend],
        _ => vec![sum, waste, fits, legend],
    };
    for (place, line) in under.into_iter().take(lines).enumerate() {
        panel::put(buf, inner, map + place, line);
    }
}

fn figures(kv: &KvView, scale: Option<usize>, theme: Theme) -> Vec<String> {
    let share = format::percent(kv.used as u64, kv.total as u64);
    let full = say!(theme, "{} of {}", share, format::bytes(size(kv.total, kv)));
    let Some(scale) = scale else { return vec![full, share] };
    let cell = theme.plural(scale, "1 cell = {} block", "1 cell = {} blocks");
    if scale == 1 {
        return vec![format!("{full} · {cell}"), full, share];
    }
    // A scale of one is what everyone expects; another one must be said before the size.
    vec![format!("{full} · {cell}"), format!("{share} · {cell}"), say!(theme, "{} · cell = {}", share, scale), share]
}

fn size(blocks: usize, kv: &KvView) -> u64 {
    (blocks as u64).saturating_mul(kv.bytes_per_block as u64)
}

/// The smallest number of blocks a cell at which the map fits.
fn blocks_per_cell(blocks: usize, cells: usize) -> usize {
    if cells == 0 { blocks.max(1) } else { blocks.div_ceil(cells).max(1) }
}

/// The owner that each cell of `scale` blocks shows: one who has blocks in it, and of those the one who has been shown
/// least for the blocks so far, so that everybody has as many cells as blocks. Free only when all are.
fn cells(owners: &[BlockOwner], scale: usize) -> Vec<BlockOwner> {
    let mut due: Vec<(BlockOwner, usize)> = Vec::new();
    let cell = |blocks: &[BlockOwner]| {
        let mut held = 0;
        for owner in blocks.iter().filter(|owner| **owner != BlockOwner::Free) {
            held += 1;
            match due.iter_mut().find(|(other, _)| other == owner) {
                Some((_, count)) => *count += 1,
                None => due.push((*owner, 1)),
            }
        }
        // The first of equals, so that the map does not flicker.
        let here = due.iter_mut().rev().filter(|(owner, _)| blocks.contains(owner));
        let Some((owner, count)) = here.max_by_key(|(_, count)| *count) else { return BlockOwner::Free };
        *count = count.saturating_sub(held);
        *owner
    };
    owners.chunks(scale).map(cell).collect()
}

fn paint(owner: BlockOwner, people: &People, theme: Theme) -> (String, Style) {
    match owner {
        BlockOwner::Free => (FREE.into(), theme.quiet()),
        BlockOwner::Cached => (CACHED.into(), theme.quiet()),
        BlockOwner::Shared => (SHARED.into(), theme.strong().add_modifier(Modifier::REVERSED)),
        BlockOwner::Witness => (WITNESS.into(), theme.strong()),
        BlockOwner::User(user) => {
            let style = people.style(user, theme).add_modifier(Modifier::REVERSED);
            (panel::letter(people, user).to_string(), style)
        }
    }
}

fn sum(kv: &KvView, width: usize, theme: Theme) -> Line<'static> {
    let [used, cached, free, total] = [kv.used, kv.cached, kv.free, kv.total].map(|blocks| format::count(blocks as u64));
    let [used_size, free_size] = [kv.used, kv.free].map(|blocks| format::bytes(size(blocks, kv)));
    let token = format::bytes((kv.bytes_per_block / kv.block_size.max(1)) as u64);
    let sum = say!(theme, "used {} + cached {} + free {} = {}", used, cached, free, total);
    let long = say!(theme, "used {} ({}) + cached {} + free {} ({}) = {}", used, used_size, cached, free, free_size, total);
    let line = text::first_fit(
        &[
            say!(theme, "{} blocks of {} tokens, {} a token", long, kv.block_size, token),
            say!(theme, "{} blocks of {} tokens ({} a token)", sum, kv.block_size, token),
            say!(theme, "{} blocks of {} tokens", sum, kv.block_size),
            say!(theme, "{} blocks", sum),
            sum,
            say!(theme, "{} used + {} cached + {} free", used, cached, free),
            say!(theme, "used {} of {}", used, total),
            format!("{used}/{total}"),
        ],
        width,
    );
    Line::styled(line, theme.text())
}

/// The share of the slots in use that hold nothing, and what reserving the whole context for everybody would take.
pub(super) fn waste_wordings(snapshot: &Snapshot, theme: Theme) -> Vec<String> {
    let kv = &snapshot.kv;
    let slots = kv.used.saturating_mul(kv.block_size);
    let empty = slots.saturating_sub(kv.filled_slots);
    if slots == 0 {
        return vec![theme.tr("nothing in use, nothing wasted").to_owned(), theme.tr("nothing in use").to_owned()];
    }
    let (share, reserved) = (tenths(empty, slots), format::percent(kv.reserved_max as u64, kv.total as u64));
    let context = format::count(snapshot.limits.max_model_len as u64);
    let (empty, slots) = (format::count(empty as u64), format::count(slots as u64));
    // Everybody in the batch with room for a whole context: how it was done before there were pages.
    let long = say!(
        theme,
        "waste: {} of {} token places in used blocks are empty ({}) · a whole context ({} tokens) set aside for each of {} would take {} of this memory",
        empty,
        slots,
        share,
        context,
        snapshot.running,
        reserved
    );
    let middle = say!(
        theme,
        "waste: {} of {} token places are empty ({}) · a whole context ({}) set aside for each would take {}",
        empty,
        slots,
        share,
        context,
        reserved
    );
    vec![
        long,
        middle,
        say!(theme, "waste {} (empty places) · a whole context for each would take {}", share, reserved),
        say!(theme, "waste {} · a whole context for each: {}", share, reserved),
        say!(theme, "waste: {} of {} places empty", empty, slots),
        say!(theme, "waste {}", share),
    ]
}

fn waste(snapshot: &Snapshot, width: usize, theme: Theme) -> Line<'static> {
    Line::styled(text::first_fit(&waste_wordings(snapshot, theme), width), theme.text())
}

/// How many more chats fit into what is free or only cached, and into the whole memory; less what is kept back, both. Those that
/// were preempted hold nothing, so they are among the chats that have to fit.
fn fits(snapshot: &Snapshot, width: usize, theme: Theme) -> Line<'static> {
    let kv = &snapshot.kv;
    let tokens = CHAT.min(snapshot.limits.max_model_len);
    let blocks = tokens.div_ceil(kv.block_size.max(1)).max(1);
    let now = kv.free.saturating_add(kv.cached).saturating_sub(kv.watermark) / blocks;
    let empty = kv.total.saturating_sub(kv.watermark) / blocks;
    let size = if tokens.is_multiple_of(1024) { format!("{}k", tokens / 1024) } else { format::count(tokens as u64) };
    let long = theme.plural(now, "{} more chat of {1} tokens fits now", "{} more chats of {1} tokens fit now");
    let (long, count) = (long.replace("{1}", &size), format::count(empty as u64));
    let (needs, bytes) = (format::count(blocks as u64), format::bytes(self::size(blocks, kv)));
    let wordings = [
        say!(theme, "{}, {} with the memory empty; one is {} blocks, {}", long, count, needs, bytes),
        say!(theme, "{}, {} with the memory empty", long, count),
        long,
        format!("+{now} × {size}"),
    ];
    Line::styled(text::first_fit(&wordings, width), theme.text())
}

fn tenths(part: usize, whole: usize) -> String {
    match part as f64 * 100.0 / whole.max(1) as f64 {
        0.0 => "0%".into(),
        share if share < 0.1 => "<0.1%".into(),
        share => format!("{share:.1}%"),
    }
}

/// The signs, then the owners on the map by letter and name: as many as fit, and how many are left out. Those without a letter
/// of their own are counted together.
fn legend(kv: &KvView, people: &People, width: usize, theme: Theme) -> Line<'static> {
    let mut owners: Vec<BlockOwner> = Vec::new();
    for owner in kv.owners.iter().filter(|owner| matches!(owner, BlockOwner::User(_))) {
        if owners.last() != Some(owner) && !owners.contains(owner) {
            owners.push(*owner);
        }
    }
    let (own, nameless): (Vec<_>, Vec<_>) = owners
        .into_iter()
        .map(|owner| (owner, paint(owner, people, theme)))
        .partition(|(_, (glyph, _))| !glyph.starts_with(NO_LETTER));
    let mut entries: Vec<(String, Style, String)> = Vec::new();
    let signs = [BlockOwner::Free, BlockOwner::Cached, BlockOwner::Shared, BlockOwner::Witness];
    for sign in signs.into_iter().filter(|sign| *sign == BlockOwner::Free || kv.owners.contains(sign)) {
        let (glyph, style) = paint(sign, people, theme);
        entries.push((glyph, style, word(sign, people, theme)));
    }
    if let Some((_, (glyph, style))) = nameless.first() {
        entries.push((glyph.clone(), *style, theme.plural(nameless.len(), "{} other", "{} others")));
    }
    entries.extend(own.into_iter().map(|(owner, (glyph, style))| (glyph, style, word(owner, people, theme))));
    let columns = |(glyph, _, word): &(String, Style, String)| text::width(glyph) + 1 + text::width(word);
    let sum = |entries: &[(String, Style, String)]| entries.iter().map(columns).sum::<usize>() + 2 * entries.len();
    let more = |left: usize| if left > 0 { format!("+{left}") } else { String::new() };
    let fits = |count: &usize| {
        let (entries, more) = (sum(&entries[..*count]), text::width(&more(entries.len() - count)));
        // The gap after the last one is only there before what is left out.
        if more > 0 { entries + more <= width } else { entries <= width + 2 }
    };
    let shown = (0..=entries.len()).rev().find(fits).unwrap_or(0);
    let more = more(entries.len() - shown);
    let mut spans = Vec::new();
    for (glyph, style, word) in entries.into_iter().take(shown) {
        if !spans.is_empty() {
            spans.push(Span::raw("  "));
        }
        spans.push(Span::styled(glyph, style));
        spans.push(Span::styled(format!(" {word}"), theme.quiet()));
    }
    if shown > 0 && !more.is_empty() {
        spans.push(Span::styled(format!("  {more}"), theme.quiet()));
    }
    Line::from(spans)
}

fn word(owner: BlockOwner, people: &People, theme: Theme) -> String {
    match owner {
        BlockOwner::User(user) => text::clip(&panel::name(people, user), panel::NAME_MAX),
        BlockOwner::Shared => theme.tr("shared").into(),
        BlockOwner::Witness => theme.tr("witness").into(),
        BlockOwner::Cached => theme.tr("cached").into(),
        BlockOwner::Free => theme.tr("free").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::UserId;

    #[test]
    fn everybody_has_as_many_cells_as_blocks() {
        let user = |id| BlockOwner::User(UserId(id));
        let shown = |owners: &[BlockOwner], scale, id| cells(owners, scale).iter().filter(|owner| **owner == user(id)).count();
        // Four by turns, one letter a block: two of them would never be first in a cell of two.
        let owners: Vec<BlockOwner> = (0..64).map(|block| user(block % 4)).collect();
        for scale in [2, 3, 4, 8] {
            for id in 0..4 {
                let (found, fair) = (shown(&owners, scale, id), 16 / scale);
                assert!(found.abs_diff(fair) <= 1, "{found} cells of {fair}, scale {scale}");
            }
        }
        let alone = [user(1), BlockOwner::Free, BlockOwner::Free, BlockOwner::Free];
        assert_eq!(cells(&alone, 2), [user(1), BlockOwner::Free]);
        assert_eq!(cells(&owners, 1), owners);
    }
}
