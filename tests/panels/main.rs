//! The machine room's panels, drawn from snapshots made by hand.

#[path = "../support/screens.rs"]
mod sample;

use batchroom::batch::UserId;
use batchroom::engine::api::*;
use batchroom::ui::people::{People, Person};
use batchroom::ui::theme::{Colors, Theme};
use batchroom::ui::view::{charts, header, kv, ledger, notes, signals, step, timeline, times, users};
use batchroom::ui::words::Lang;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use sample::{Dice, fresh, people, rich};

type Draw = fn(&mut Buffer, Rect, &Snapshot, &People, Theme);
type Wanted = fn(&Snapshot, u16) -> u16;

const PANELS: [(&str, Draw, Wanted); 10] = [
    ("header", header::draw, header::wanted_height),
    ("timeline", timeline::draw, timeline::wanted_height),
    ("users", users::draw, users::wanted_height),
    ("kv", kv::draw, kv::wanted_height),
    ("charts", charts::draw, charts::wanted_height),
    ("notes", notes::draw, notes::wanted_height),
    ("step", step::draw, step::wanted_height),
    ("times", times::draw, times::wanted_height),
    ("ledger", ledger::draw, ledger::wanted_height),
    ("signals", signals::draw, signals::wanted_height),
];

fn theme() -> Theme {
    Theme::new(Colors::Indexed)
}

fn render(draw: Draw, snapshot: &Snapshot, width: u16, height: u16) -> Vec<String> {
    let area = Rect::new(0, 0, width, height);
    let mut buf = Buffer::empty(area);
    draw(&mut buf, area, snapshot, &people(), theme());
    sample::rows(&buf)
}

/// A panel at the height it asks for.
fn wanted(name: &str, snapshot: &Snapshot, width: u16) -> Vec<String> {
    let (_, draw, wanted) = PANELS.iter().find(|(panel, ..)| *panel == name).unwrap();
    render(*draw, snapshot, width, wanted(snapshot, width))
}

fn row_of(lines: &[String], word: &str) -> String {
    lines.iter().find(|line| line.contains(word)).unwrap_or_else(|| panic!("no {word:?} in {lines:#?}")).clone()
}

#[test]
fn every_panel_at_useful_widths() {
    for (name, ..) in PANELS {
        for width in [40, 50, 80, 120] {
            insta::assert_snapshot!(format!("{name}-{width}"), wanted(name, &rich(), width).join("\n"));
        }
    }
}

#[test]
fn every_panel_in_vietnamese() {
    for (name, draw, wanted) in PANELS {
        let snapshot = rich();
        let area = Rect::new(0, 0, 80, wanted(&snapshot, 80));
        let mut buf = Buffer::empty(area);
        draw(&mut buf, area, &snapshot, &people(), theme().speaking(Lang::Vi));
        insta::assert_snapshot!(format!("vi-{name}-80"), sample::rows(&buf).join("\n"));
    }
    let missing = batchroom::ui::words::missing();
    assert!(missing.is_empty(), "no Vietnamese for {missing:#?}");
}

#[test]
fn every_panel_before_the_first_prompt() {
    let panels: Vec<String> = PANELS.iter().map(|(name, ..)| wanted(name, &fresh(), 60).join("\n")).collect();
    insta::assert_snapshot!(panels.join("\n"));
}

#[test]
fn the_header_says_what_stands_still_and_why() {
    let mut lines = Vec::new();
    let mut show =
        |snapshot: &Snapshot| lines.extend([120, 80, 40].map(|width| render(header::draw, snapshot, width, 1).join("")));
    let mut snapshot = rich();
    snapshot.pace = Pace::StepsPerSecond(15.0);
    show(&snapshot);
    snapshot.state = RunState::Paused;
    show(&snapshot);
    snapshot.state = RunState::Stopped;
    snapshot.fault = Some("the engine thread panicked: index out of bounds".into());
    show(&snapshot);
    show(&fresh());
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn the_header_never_cuts_a_word_and_always_says_the_state() {
    let whole = render(header::draw, &rich(), 200, 1).join("");
    let known: Vec<&str> = whole.split_whitespace().chain(["smollm2"]).collect();
    for width in 1..200 {
        let line = render(header::draw, &rich(), width, 1).join("");
        assert!(line.contains('▶'), "{width}: {line:?}");
        assert!(line.split_whitespace().all(|word| known.contains(&word)), "{width}: {line:?}");
    }
}

#[test]
fn the_timeline_shows_each_step_of_each_user_as_it_was() {
    let lines = wanted("timeline", &rich(), 90);
    let cells = |name: &str| row_of(&lines, name);
    assert!(cells("ana").contains("    ▓▓▓▓░▒■■■■"), "chunks by size, then decodes: {}", cells("ana"));
    assert!(cells("bình").contains("·······▓▓▓"), "{}", cells("bình"));
    assert!(cells("bình").contains(" 144 "), "tokens of the newest step: {}", cells("bình"));
    assert!(cells("chi").contains("■■✓   "), "{}", cells("chi"));
    assert!(cells("dũng").contains("■×········"), "{}", cells("dũng"));
    assert!(!cells("dũng").contains('1'), "no token in the newest step: {}", cells("dũng"));
    assert!(cells("測試").contains(" ···"), "{}", cells("測試"));
    assert!(row_of(&lines, "budget").contains("145/256"), "{}", row_of(&lines, "budget"));
    assert!(row_of(&lines, "budget").contains("144 of prompts + 1 decoded"));
}

#[test]
fn step_numbers_stand_under_their_columns() {
    let lines = wanted("timeline", &rich(), 90);
    let ruler: Vec<char> = row_of(&lines, "╵4,170").chars().collect();
    let ana: Vec<char> = row_of(&lines, "ana").chars().collect();
    let newest = ana.iter().rposition(|cell| *cell == '■').unwrap();
    let tick = |step: &str| {
        let text: String = ruler.iter().collect();
        text[..text.find(step).unwrap()].chars().count()
    };
    assert_eq!(newest - tick("╵4,170"), 12, "step 4182 is the newest");
    assert_eq!(newest - tick("╵4,150"), 32);
    let chi: Vec<char> = row_of(&lines, "chi").chars().collect();
    let ended = chi.iter().position(|cell| *cell == '✓').unwrap();
    assert_eq!(ended as i64 - tick("╵4,150") as i64, 1, "chi ended at step 4151");
}

#[test]
fn a_request_that_got_nothing_for_a_while_was_waiting_even_if_no_record_says_so() {
    let mut snapshot = rich();
    let silent = |record: &std::sync::Arc<StepRecord>| {
        let mut record = StepRecord::clone(record);
        record.waiting.clear();
        std::sync::Arc::new(record)
    };
    snapshot.timeline = snapshot.timeline.iter().map(silent).collect();
    let lines = wanted("timeline", &snapshot, 90);
    assert!(row_of(&lines, "dũng").contains("■×········"), "{}", row_of(&lines, "dũng"));
    assert!(row_of(&lines, "chi").contains("■✓   "), "an ended one does not wait");
    assert!(!row_of(&lines, "eva").contains('·'), "nothing is known of one that never ran");
}

#[test]
fn more_users_than_rows_keeps_the_live_ones() {
    for (name, draw, height) in [("timeline", timeline::draw as Draw, 8), ("users", users::draw as Draw, 8)] {
        let lines = render(draw, &rich(), 70, height);
        assert!(lines.iter().any(|line| line.contains("more")), "{name}: {lines:#?}");
        let last = if name == "users" { "測試" } else { "ana" };
        assert!(lines.iter().any(|line| line.contains(last)), "{name}: {lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("chi ")), "{name}: chi has ended: {lines:#?}");
        let left_out = if name == "users" { "+3 more: 1 prefill, 1 decode, 1 ended" } else { "more: " };
        assert!(lines.iter().any(|line| line.contains(left_out)), "{name}: {lines:#?}");
    }
}

/// The numbers in a text, separators left out.
fn numbers(text: &str) -> Vec<u64> {
    let plain = text.replace(',', "");
    plain.split(|ch: char| !ch.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[test]
fn blocks_on_screen_add_up() {
    for width in [40, 50, 66, 80, 300] {
        let lines = wanted("kv", &rich(), width);
        let sum = numbers(&row_of(&lines, "free 80").replace(" (115 MiB)", "").replace(" (56 MiB)", "")).to_vec();
        assert_eq!(sum[0] + sum[1] + sum[2], sum[3], "{width}: {lines:#?}");
    }
    // At one block a cell the map holds exactly what the sum says.
    let lines = wanted("kv", &rich(), 80);
    assert!(lines[0].contains("1 cell = 1 block"), "{}", lines[0]);
    let map: String = lines[1..5].join("");
    let count = |glyph: char| map.chars().filter(|ch| *ch == glyph).count();
    assert_eq!((count('a'), count('b'), count('#')), (78, 82, 4));
    assert_eq!(count('a') + count('b') + count('#'), rich().kv.used);
    assert_eq!((count('░'), count('·')), (12, 80));
}

#[test]
fn a_cell_of_many_blocks_is_free_only_when_all_are() {
    let mut snapshot = rich();
    let mut owners = vec![BlockOwner::Free; 4096];
    owners[1000] = BlockOwner::User(UserId(3));
    owners[2000..2003].fill(BlockOwner::User(UserId(1)));
    owners[2003..2005].fill(BlockOwner::User(UserId(0)));
    snapshot.kv = KvView { total: 4096, used: 6, cached: 0, free: 4090, owners: owners.into(), ..snapshot.kv };
    let lines = render(kv::draw, &snapshot, 36, 10);
    assert!(lines[0].contains("cell = 32"), "{}", lines[0]);
    let map: String = lines[1..5].join("");
    let count = |glyph: char| map.chars().filter(|ch| *ch == glyph).count();
    assert_eq!((count('d'), count('b'), count('a'), count('·')), (1, 1, 0, 126), "{lines:#?}");
}

#[test]
fn the_table_says_each_state_and_its_total() {
    let lines = wanted("users", &rich(), 104);
    for state in ["decode", "prefill 64%", "done: stop", "preempted", "waiting"] {
        row_of(&lines, state);
    }
    let total = row_of(&lines, " all ");
    assert!(total.contains("batch 2/8") && total.contains("212") && total.contains("164"), "{total}");
    assert!(total.contains("×2"), "{total}");
    assert_eq!(lines.iter().filter(|line| line.contains('└')).count(), 3, "each reason on its own line: {lines:#?}");
    let wide = wanted("users", &rich(), 160);
    assert!(row_of(&wide, "dũng").contains("needs 21 blocks, can have 11"), "{wide:#?}");
    let low = render(users::draw, &rich(), 60, 10);
    assert!(row_of(&low, "測試").contains("step budget spent"), "{low:#?}");
}

#[test]
fn nobody_has_a_speed_while_paused() {
    let mut snapshot = rich();
    snapshot.state = RunState::Paused;
    for width in [60, 90, 160] {
        let lines = wanted("users", &snapshot, width);
        let speed = |name: &str, place: usize| row_of(&lines, name).split_whitespace().nth(place).unwrap().to_owned();
        assert_eq!(speed("ana", 4), "–", "a running one: {lines:#?}");
        assert_eq!(speed("chi", 5), "190", "an answer that has ended keeps its figure: {lines:#?}");
        assert_eq!(speed(" all ", 4), "–", "{lines:#?}");
    }
    assert!(render(header::draw, &snapshot, 120, 1).join("").contains("   – tok/s"));
    let charts = wanted("charts", &snapshot, 80);
    assert!(charts[0].contains("– now") && !charts.iter().any(|line| line.contains("212")), "{charts:#?}");
}

#[test]
fn reasons_for_waiting_in_words() {
    let people = people();
    let id = UserId;
    let say = |waiting| users::why(&waiting, &people, theme());
    assert_eq!(say(Waiting::Seats { running: 8, max_num_seqs: 8 }), "seats full (8 of 8)");
    let budget = |spent_on| Waiting::Budget { max_num_batched_tokens: 256, spent_on };
    assert_eq!(say(budget(vec![id(0), id(2), id(0)])), "step budget of 256 spent on ana, chi");
    let many = vec![id(0), id(1), id(2), id(3), id(77)];
    assert_eq!(say(budget(many)), "step budget of 256 spent on ana, bình, chi and 2 more");
    assert_eq!(say(budget(Vec::new())), "step budget of 256 spent");
    let blocks = |watermark| Waiting::Blocks { needed: 7, free: 3, watermark };
    assert_eq!(say(blocks(1)), "needs 7 blocks, can have 2 (3 less 1 kept back)");
    assert_eq!(say(blocks(0)), "needs 7 blocks, can have 3");
    assert_eq!(say(Waiting::Behind { ahead: 1 }), "behind 1 other");
    assert_eq!(say(Waiting::Behind { ahead: 2 }), "behind 2 others");
    assert_eq!(say(Waiting::Preempted { by: TakenBy::User(id(0)) }), "blocks taken for ana");
    assert_eq!(say(Waiting::SharedPrefix { user: id(2), tokens: 600 }), "chi is computing 600 tokens that it will share");
    assert_eq!(say(Waiting::NotYet), "not looked at yet");
}

#[test]
fn the_newest_note_is_always_there() {
    for height in 3..12 {
        for width in [24, 40, 80] {
            let lines = render(notes::draw, &rich(), width, height);
            let mut inside = lines[1..lines.len() - 1].iter().map(|line| line.trim_matches(['│', ' ']));
            let last = inside.rfind(|line| !line.is_empty()).unwrap();
            assert!(last.ends_with("ahead"), "{width}x{height}: {lines:#?}");
        }
    }
}

#[test]
fn text_from_outside_is_never_obeyed() {
    let mut snapshot = rich();
    snapshot.model = std::sync::Arc::new(ModelInfo { title: "evil\u{1b}[31m\nmodel".into(), ..(*snapshot.model).clone() });
    let person = Person { user: UserId(0), name: "a\u{1b}[2J\u{202e}b".into(), letter: '\u{1b}', hue: 0 };
    let people = People::new(vec![person], Lang::En);
    for (name, draw, _) in PANELS {
        let area = Rect::new(0, 0, 100, 14);
        let mut buf = Buffer::empty(area);
        draw(&mut buf, area, &snapshot, &people, theme());
        let hostile = |ch: char| ch.is_control() || ch == '\u{202e}';
        assert!(buf.content.iter().all(|cell| !cell.symbol().contains(hostile)), "{name}");
    }
}

#[test]
fn any_snapshot_at_any_size_stays_inside_its_area() {
    const SEED: u64 = 0x0ba7_c400;
    println!("seed {SEED:#x}");
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(SEED));
    let whole = Rect::new(0, 0, 126, 46);
    let mut untouched = ratatui::buffer::Cell::new("@");
    untouched.set_style(ratatui::style::Style::new().bold());
    let themes = [Colors::None, Colors::Ansi16, Colors::Indexed].map(Theme::new);
    let mut snapshots: Vec<Snapshot> = (0..24).map(|_| dice.snapshot()).collect();
    snapshots.extend([rich(), fresh()]);
    let mut buf = Buffer::filled(whole, untouched.clone());
    for width in 0..=120u16 {
        for height in 0..=40u16 {
            let (name, draw, wanted) = PANELS[dice.below(PANELS.len())];
            let pick = dice.below(snapshots.len());
            let area = Rect::new(3, 3, width, height);
            draw(&mut buf, area, &snapshots[pick], &people(), themes[dice.below(3)]);
            let tall = wanted(&snapshots[pick], width);
            assert!((1..=60).contains(&tall), "{name} asks for {tall} rows");
            for y in 0..whole.height {
                for x in 0..whole.width {
                    let cell = &mut buf[(x, y)];
                    if area.contains((x, y).into()) {
                        *cell = untouched.clone();
                    } else {
                        assert_eq!(*cell, untouched, "{name} at {width}x{height} with snapshot {pick} wrote to {x},{y}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_panel_survives_every_small_size_and_an_area_beyond_the_buffer() {
    for (_, draw, _) in PANELS {
        for snapshot in [rich(), fresh()] {
            for width in 0..=44 {
                for height in 0..=16 {
                    render(draw, &snapshot, width, height);
                }
            }
            render(draw, &snapshot, 300, 100);
            let mut buf = Buffer::empty(Rect::new(2, 2, 20, 6));
            for area in [Rect::new(0, 0, 60, 30), Rect::new(10, 5, 60, 30), Rect::new(50, 50, 5, 5)] {
                draw(&mut buf, area, &snapshot, &people(), theme());
            }
        }
    }
}

/// What is short counts what has happened in the first moments too, and so do the parts of a step.
#[test]
fn figures_of_less_than_a_sample_are_there() {
    let mut snapshot = rich();
    snapshot.history.clear();
    snapshot.longer = std::sync::Arc::default();
    snapshot.totals.preemptions = 2;
    let lines = wanted("signals", &snapshot, 120);
    let words = lines.join(" ");
    assert!(words.contains("2 preemptions in 10 min"), "{lines:#?}");
    snapshot.history = rich().history.into_iter().map(|sample| Sample { parts: None, ..sample }).collect();
    let known = snapshot.timeline.iter().any(|record| record.parts.is_some());
    let words = wanted("charts", &snapshot, 120).join(" ");
    assert_eq!(words.contains("products with weights"), known, "{words}");
}

#[test]
fn the_signs_of_the_map_are_explained_however_many_own_it() {
    let mut snapshot = rich();
    let owners: Vec<BlockOwner> = (0..64)
        .map(|at| match at {
            0 => BlockOwner::Free,
            1 => BlockOwner::Cached,
            2 => BlockOwner::Shared,
            at => BlockOwner::User(UserId(at)),
        })
        .collect();
    snapshot.kv = KvView { total: 64, used: 62, cached: 1, free: 1, owners: owners.into(), ..snapshot.kv };
    let lines = wanted("kv", &snapshot, 60);
    let legend = row_of(&lines, "· free");
    assert!(legend.contains("░ cached") && legend.contains("# shared"), "{legend}");
    assert!(legend.contains("? ") && legend.contains("others"), "who has no letter is counted: {legend}");
}

#[test]
fn lines_that_the_map_leaves_blank_are_used() {
    let mut snapshot = rich();
    let owners = vec![BlockOwner::Free; 20];
    snapshot.kv = KvView { total: 20, used: 0, cached: 0, free: 20, owners: owners.into(), ..snapshot.kv };
    let lines = render(kv::draw, &snapshot, 54, 6);
    assert!(lines.iter().any(|line| line.contains("nothing in use")), "{lines:#?}");
    assert!(lines.iter().all(|line| !line.trim_matches(['│', ' ']).is_empty()), "no line is blank: {lines:#?}");
}
