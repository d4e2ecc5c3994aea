//! Random keys, pastes, events and sizes: no panic, and a screen that still answers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use batchroom::batch::UserId;
use batchroom::conversation::Conversation;
use batchroom::engine::api::{Event, FinishReason, Finished, Rejected};
use batchroom::hub::Progress;
use batchroom::store::{Fault, Keeping, StoreError};
use batchroom::ui::rich::code::Highlighter;
use batchroom::ui::save::Saved;
use batchroom::ui::update::history::{ChatRow, Opened};
use batchroom::ui::update::{Effect, Msg};
use batchroom::ui::view::screen;
use crossterm::event::{KeyCode, KeyModifiers};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::sample::{Dice, fresh, rich};
use crate::{act, state, with};

const ACTS: usize = 10_000;
const TEXTS: [&str; 20] = [
    "a",
    " ",
    "測",
    "e\u{301}",
    "👩‍👩‍👧",
    "\u{1b}]0;x\u{7}",
    "\n\n",
    "một đoạn văn dài hơn một dòng, và còn nữa ",
    "# title\n",
    "- item\n",
    "  1. deeper\n",
    "```rust\n",
    "let x = \"測\";\n",
    "~~~\n",
    "| a | b |\n|---|---|\n| 1 | 測測測 |\n",
    "> > quote\n",
    "**b *i ~~s~~*** `c` [l](http://x&#27;y)",
    "&#27;[31m&#x202e;",
    "/set ",
    "<b>",
];

fn any_key(dice: &mut ChaCha8Rng) -> Msg {
    let codes = [
        KeyCode::Enter,
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Esc,
        KeyCode::Backspace,
        KeyCode::Delete,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::PageUp,
        KeyCode::PageDown,
    ];
    // Often enough that two come in a row.
    if dice.next_u32().is_multiple_of(6) {
        return with(KeyModifiers::CONTROL, KeyCode::Char('c'));
    }
    let modifiers = [KeyModifiers::NONE, KeyModifiers::CONTROL, KeyModifiers::ALT, KeyModifiers::SHIFT];
    let modifiers = modifiers[dice.next_u32() as usize % 4];
    let code = match dice.next_u32() % 4 {
        0 => KeyCode::F(1 + (dice.next_u32() % 12) as u8),
        1 => KeyCode::Char((b'a' + (dice.next_u32() % 26) as u8) as char),
        2 => KeyCode::Char(['0', '9', '/', 'y', 'ế', 'd', 'm', 'r', ',', '+', '-', '[', ']'][dice.next_u32() as usize % 13]),
        _ => codes[dice.next_u32() as usize % codes.len()],
    };
    with(modifiers, code)
}

fn any_event(dice: &mut ChaCha8Rng) -> Event {
    match dice.next_u32() % 8 {
        0 => Event::Finished(Finished {
            reason: [FinishReason::Stop, FinishReason::ContextFull, FinishReason::Failed][dice.next_u32() as usize % 3],
            text: "end".into(),
            message: None,
            prompt_tokens: 1,
            generated_tokens: 1,
            ttft: None,
            tokens_per_s: None,
            preemptions: 0,
            cached_tokens: 0,
            queued: None,
            end_to_end: std::time::Duration::ZERO,
            tpot: None,
            itl: None,
            predicted_ttft: None,
        }),
        1 => Event::Rejected(Rejected::EmptyPrompt),
        2 => Event::Preempted { step: 3, by: batchroom::engine::TakenBy::User(UserId(dice.next_u32() % 6)) },
        3 => Event::Admitted { step: 3, cached: 0 },
        _ => Event::Token { step: 1, token: 1, text: TEXTS[dice.next_u32() as usize % TEXTS.len()].into() },
    }
}

/// What the store may say.
fn any_history(dice: &mut ChaCha8Rng) -> Msg {
    let text = |dice: &mut ChaCha8Rng| TEXTS[dice.next_u32() as usize % TEXTS.len()].to_owned();
    let error = || Arc::new(StoreError::new(std::path::Path::new("/x\u{1b}.db"), Fault::Damaged("\n\u{7}".into())));
    match dice.next_u32() % 4 {
        0 => {
            let row = |dice: &mut ChaCha8Rng| ChatRow {
                id: i64::from(dice.next_u32()),
                person: text(dice),
                date: text(dice),
                words: text(dice).repeat(30),
                messages: dice.next_u64(),
            };
            Msg::Chats { text: String::new(), found: Ok((0..dice.next_u32() % 50).map(|_| row(dice)).collect()) }
        }
        1 => Msg::Chats { text: String::new(), found: Err(error()) },
        2 => Msg::Keeping(match dice.next_u32() % 4 {
            0 => Keeping::Well,
            1 => Keeping::Waiting(error()),
            2 => Keeping::Moved,
            _ => Keeping::Ended(error()),
        }),
        _ => Msg::ChatOpened {
            user: UserId(dice.next_u32() % 8),
            opened: Ok(Box::new(Opened::Here { place: dice.next_u32() as usize % 9 })),
        },
    }
}

#[test]
fn anything_may_happen() {
    let seed = std::env::var("BATCHROOM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(11);
    println!("BATCHROOM_SEED={seed}");
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let mut state = state(fresh());
    let mut quits = 0;
    let highlighter = Arc::new(Highlighter::load());
    let mut kept: HashMap<u64, Conversation> = HashMap::new();
    let mut modes = HashSet::new();
    for _ in 0..ACTS {
        let msg = match dice.next_u32() % 10 {
            0..=4 => any_key(&mut dice),
            5 => Msg::Paste(TEXTS[dice.next_u32() as usize % TEXTS.len()].repeat(1 + dice.next_u32() as usize % 40)),
            6 => Msg::Snapshot(Arc::new(if dice.next_u32().is_multiple_of(2) { rich() } else { random_snapshot(&mut dice) })),
            7 if dice.next_u32().is_multiple_of(3) => match dice.next_u32() % 5 {
                0 => Msg::Saved(Saved::Exists("a\u{1b}b".into())),
                1 => Msg::Saved(Saved::Failed { path: "x".into(), why: "no\u{7}".into() }),
                2 => Msg::Edited(UserId(dice.next_u32() % 8), Ok(TEXTS[dice.next_u32() as usize % TEXTS.len()].into())),
                3 => Msg::Edited(UserId(0), Err("e".into())),
                _ => Msg::Colours(highlighter.clone()),
            },
            7 => match dice.next_u32() % 8 {
                0 => Msg::Fetch(Progress { source: "x".into(), done: dice.next_u64(), total: Some(dice.next_u64() % 1000) }),
                1 => Msg::Fetched(Ok(())),
                2 => Msg::Fetched(Err("a\nb\nc".into())),
                3 => any_history(&mut dice),
                4 => {
                    state.kept = true;
                    with(KeyModifiers::ALT, KeyCode::Char('y'))
                }
                _ => Msg::Switched(Ok("smollm2".into())),
            },
            _ => Msg::Engine(UserId(dice.next_u32() % 8), any_event(&mut dice)),
        };
        quits += act(&mut state, msg).iter().filter(|effect| **effect == Effect::Quit).count();
        assert!(!state.panes.is_empty() && state.focus < state.panes.len());
        modes.insert(std::mem::discriminant(&state.mode));
        for batchroom::ui::talk::Kept { key, change, .. } in state.take_changes() {
            kept.entry(key).or_default().apply(change).expect("a change of this tree");
        }
        let now = dice.next_u32().is_multiple_of(16);
        for pane in state.panes.iter().filter(|_| now) {
            let tree = kept.entry(pane.conversation.key).or_default();
            assert!(*tree == pane.conversation, "what is kept is what is there");
            let shown: Vec<_> = pane.transcript.turns().iter().filter_map(|turn| turn.node).collect();
            assert_eq!(shown, pane.conversation.path(), "what is shown is the path");
            assert_eq!(pane.asked.is_some(), pane.live, "an answer is waited for");
        }
        // Mostly small sizes, where things are tight; sometimes the largest.
        let size = |dice: &mut ChaCha8Rng, most: u32| {
            1 + (dice.next_u32() % if dice.next_u32().is_multiple_of(8) { most } else { 60 }) as u16
        };
        let area = Rect::new(0, 0, size(&mut dice, 300), size(&mut dice, 100));
        screen::measure(&mut state, area);
        let mut buf = Buffer::empty(area);
        if let Some(cursor) = screen::draw(&mut buf, area, &state) {
            assert!(area.contains(cursor), "{cursor:?} in {area:?}");
        }
        let controls = |symbol: &str| symbol.chars().any(|c| c.is_control());
        assert!(!buf.content.iter().any(|cell| controls(cell.symbol())), "a control character on screen");
    }
    assert!(quits > 0, "the fuzz reaches the way out");
    assert!(modes.len() > 8, "the fuzz opens what can be opened: {}", modes.len());
    assert!(kept.values().any(|tree| tree.nodes().iter().any(|node| node.removed)), "and deletes");
    assert!(kept.values().any(|tree| (0..tree.nodes().len()).any(|id| tree.place(id).1 > 1)), "and branches");
}

fn random_snapshot(dice: &mut ChaCha8Rng) -> batchroom::engine::api::Snapshot {
    Dice(ChaCha8Rng::seed_from_u64(dice.next_u64())).snapshot()
}
