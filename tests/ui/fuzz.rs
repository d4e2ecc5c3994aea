//! Random keys, mouse events, pastes, news of the engine, looks and sizes, in the room and over a recording: no panic, and a
//! screen that still answers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use batchroom::batch::UserId;
use batchroom::conversation::Conversation;
use batchroom::engine::api::{Event, FinishReason, Finished, Rejected, RunState, Snapshot};
use batchroom::hub::Progress;
use batchroom::machine::MemorySpeed;
use batchroom::replay::Replay;
use batchroom::store::{Fault, Keeping, StoreError};
use batchroom::ui::player::Shown;
use batchroom::ui::rich::code::Highlighter;
use batchroom::ui::save::Saved;
use batchroom::ui::state::{Mode, State};
use batchroom::ui::theme::{Colors, Shade, Theme};
use batchroom::ui::update::history::{ChatRow, Opened};
use batchroom::ui::update::{Effect, Msg, update};
use batchroom::ui::view::screen::{self, Kept};
use batchroom::ui::words::Lang;
use crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::recording::{open, recording};
use crate::sample::{Dice, fresh, rich};
use crate::{act, key, state, with};

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
        2 => KeyCode::Char(['0', '9', '/', 'y', 'ế', 'd', 'm', 'r', ',', '+', '-', '=', '[', ']'][dice.next_u32() as usize % 14]),
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
                draft: dice.next_u32().is_multiple_of(2),
            };
            Msg::Chats { text: String::new(), found: Ok((0..dice.next_u32() % 50).map(|_| row(dice)).collect()) }
        }
        1 => Msg::Chats { text: String::new(), found: Err(error()) },
        2 => Msg::Keeping(match dice.next_u32() % 5 {
            0 => Keeping::Well,
            4 => Keeping::Begun,
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

fn any_mouse(dice: &mut ChaCha8Rng) -> Msg {
    let kinds = [
        MouseEventKind::Down(MouseButton::Left),
        MouseEventKind::Down(MouseButton::Right),
        MouseEventKind::Up(MouseButton::Left),
        MouseEventKind::Drag(MouseButton::Left),
        MouseEventKind::Moved,
        MouseEventKind::ScrollUp,
        MouseEventKind::ScrollDown,
        MouseEventKind::ScrollLeft,
    ];
    let kind = kinds[dice.next_u32() as usize % kinds.len()];
    // Often beyond the screen as it is now: a window gets smaller while an event is on its way.
    let place =
        |dice: &mut ChaCha8Rng| if dice.next_u32().is_multiple_of(16) { u16::MAX } else { (dice.next_u32() % 120) as u16 };
    Msg::Mouse(MouseEvent { kind, column: place(dice), row: place(dice), modifiers: KeyModifiers::NONE })
}

/// Somebody: of a pane, a bot, or nobody.
fn anybody(dice: &mut ChaCha8Rng) -> UserId {
    UserId(if dice.next_u32().is_multiple_of(4) { (1 << 20) + dice.next_u32() % 4 } else { dice.next_u32() % 8 })
}

fn any_answer(dice: &mut ChaCha8Rng, highlighter: &Arc<Highlighter>) -> Msg {
    let text = TEXTS[dice.next_u32() as usize % TEXTS.len()];
    match dice.next_u32() % 16 {
        0 => Msg::Saved(Saved::Exists("a\u{1b}b".into())),
        1 => Msg::Saved(Saved::Failed { path: "x".into(), why: "no\u{7}".into() }),
        2 => Msg::Edited(anybody(dice), Ok(text.into())),
        3 => Msg::Edited(UserId(0), Err("e".into())),
        4 => Msg::Colours(highlighter.clone()),
        5 => Msg::Fetch(Progress { source: "x".into(), done: dice.next_u64(), total: Some(dice.next_u64() % 1000) }),
        6 => Msg::Fetched(Ok(())),
        7 => Msg::Fetched(Err("a\nb\nc".into())),
        8 | 9 => any_history(dice),
        10 => Msg::Lost(anybody(dice)),
        11 => Msg::Measured(Err("no\u{1b} memory".into())),
        12 => {
            let bytes_per_s = [0.0, f64::NAN, f64::INFINITY, 2e10][dice.next_u32() as usize % 4];
            Msg::Measured(Ok(MemorySpeed { bytes_per_s, last_cache: Some(dice.next_u64()) }))
        }
        13 => Msg::Log(vec![text.repeat(9); dice.next_u32() as usize % 40]),
        _ => Msg::Switched(if dice.next_u32().is_multiple_of(2) { Ok("smollm2".into()) } else { Err("no\u{7}".into()) }),
    }
}

/// What may happen next in the room.
fn any_act(dice: &mut ChaCha8Rng, highlighter: &Arc<Highlighter>) -> Msg {
    match dice.next_u32() % 20 {
        0..=8 => any_key(dice),
        9 => Msg::Paste(TEXTS[dice.next_u32() as usize % TEXTS.len()].repeat(1 + dice.next_u32() as usize % 40)),
        10 => Msg::Snapshot(Arc::new(if dice.next_u32().is_multiple_of(2) { rich() } else { random_snapshot(dice) })),
        // The engine is gone: the last snapshot says why, and then its channels end.
        11 if dice.next_u32().is_multiple_of(4) => {
            Msg::Snapshot(Arc::new(Snapshot { state: RunState::Stopped, fault: Some("gone\u{1b}\n".into()), ..rich() }))
        }
        11 | 12 => any_mouse(dice),
        // Branches come from it, and by chance it is pressed too seldom.
        13 if dice.next_u32().is_multiple_of(2) => with(KeyModifiers::ALT, KeyCode::Char('r')),
        13 => Msg::Tick,
        14 | 15 => any_answer(dice, highlighter),
        _ => Msg::Engine(anybody(dice), any_event(dice)),
    }
}

/// How it looks and what it may do, as if started with other options.
fn change_looks(dice: &mut ChaCha8Rng, state: &mut State) {
    let colors = [Colors::Indexed, Colors::Ansi16, Colors::None][dice.next_u32() as usize % 3];
    let shade = [Shade::Either, Shade::Dark, Shade::Light, Shade::Contrast][dice.next_u32() as usize % 4];
    let lang = [Lang::En, Lang::Vi][dice.next_u32() as usize % 2];
    let ascii = dice.next_u32().is_multiple_of(4);
    state.options.theme = Theme::new(colors).on(shade).speaking(lang).in_ascii(ascii);
    state.options.readonly = dice.next_u32().is_multiple_of(6);
}

/// Draws at some size and looks at every cell.
fn look(dice: &mut ChaCha8Rng, state: &mut State) {
    // Mostly small sizes, where things are tight; sometimes the largest.
    let size = |dice: &mut ChaCha8Rng, most: u32| {
        1 + (dice.next_u32() % if dice.next_u32().is_multiple_of(8) { most } else { 60 }) as u16
    };
    let area = Rect::new(0, 0, size(dice, 300), size(dice, 100));
    screen::measure(state, area);
    let mut buf = Buffer::empty(area);
    let mut kept = Kept::default();
    if let Some(cursor) = screen::draw_again(&mut buf, area, state, &mut kept) {
        assert!(area.contains(cursor), "{cursor:?} in {area:?}");
    }
    if dice.next_u32().is_multiple_of(4) {
        more_text_leaves_the_machine_room(state, area, anybody(dice), &mut kept);
    }
    let controls = |symbol: &str| symbol.chars().any(|c| c.is_control());
    assert!(!buf.content.iter().any(|cell| controls(cell.symbol())), "a control character on screen");
}

/// What is kept of the machine room while only text comes is what would be drawn.
fn more_text_leaves_the_machine_room(state: &State, area: Rect, user: UserId, kept: &mut Kept) {
    let (mut state, now) = (state.clone(), state.now);
    update(&mut state, Msg::Engine(user, Event::Token { step: 1, token: 1, text: "more\n".into() }), now);
    screen::measure(&mut state, area);
    let (mut anew, mut again) = (Buffer::empty(area), Buffer::empty(area));
    screen::draw(&mut anew, area, &state);
    screen::draw_again(&mut again, area, &state, kept);
    assert_eq!(anew, again);
}

/// Whoever presses Esc a few times is back, has help with F1, and a draft that takes what is typed.
fn still_answers(state: &State) {
    let mut state = state.clone();
    let area = Rect::new(0, 0, 80, 24);
    for _ in 0..8 {
        act(&mut state, key(KeyCode::Esc));
    }
    assert!(matches!(state.mode, Mode::Chat) && !state.machine.is_open(), "Esc closes what is open: {:?}", state.mode);
    let drawn = |state: &mut State| {
        screen::measure(state, area);
        let mut buf = Buffer::empty(area);
        screen::draw(&mut buf, area, state);
        buf
    };
    let before = drawn(&mut state);
    act(&mut state, key(KeyCode::F(1)));
    assert!(matches!(state.mode, Mode::Help { .. }));
    assert_ne!(before, drawn(&mut state), "help is seen");
    act(&mut state, key(KeyCode::Esc));
    if state.options.readonly || state.replay.is_some() {
        return;
    }
    act(&mut state, with(KeyModifiers::CONTROL, KeyCode::Char('u')));
    let length = state.focused().editor.text().len();
    act(&mut state, key(KeyCode::Char('x')));
    assert_eq!(state.focused().editor.text().len(), length + 1, "what is typed is in the draft");
}

/// A recording on a screen of its own.
struct Cinema {
    replay: Replay,
    state: State,
    shown: Shown,
    /// Frames that were shown.
    frames: HashSet<usize>,
}

impl Cinema {
    fn new() -> Cinema {
        let mut replay = recording();
        let (state, shown) = open(&mut replay);
        Cinema { replay, state, shown, frames: HashSet::new() }
    }

    /// One act, and what the player does about it; or it has played on.
    fn act(&mut self, dice: &mut ChaCha8Rng) {
        let playing = self.state.replay.as_ref().is_some_and(|reel| reel.playing);
        let msg = match dice.next_u32() % 8 {
            0 if playing => {
                let frame = self.replay.frame() + 1 + dice.next_u32() as usize % 20;
                return self.seek(frame.min(self.replay.steps()));
            }
            0 => Msg::Tick,
            1 => any_mouse(dice),
            2 => Msg::Paste("12".into()),
            3 => key([' ', 'g', '1', '7', '+', '-', '=', 'q'].map(KeyCode::Char)[dice.next_u32() as usize % 8]),
            4 => key([KeyCode::Left, KeyCode::Right, KeyCode::PageDown, KeyCode::End][dice.next_u32() as usize % 4]),
            5 => key([KeyCode::F(11), KeyCode::F(12), KeyCode::Enter, KeyCode::Home][dice.next_u32() as usize % 4]),
            _ => any_key(dice),
        };
        for effect in act(&mut self.state, msg) {
            match effect {
                Effect::Seek(frame) => self.seek(frame),
                Effect::Submit { .. } | Effect::Pause(_) | Effect::Step(_) | Effect::SetLimits(_) | Effect::Measure { .. } => {
                    panic!("a recording cannot be changed: {effect:?}")
                }
                _ => {}
            }
        }
    }

    fn seek(&mut self, frame: usize) {
        assert!(frame <= self.replay.steps(), "{frame} of {}", self.replay.steps());
        self.shown.seek(&mut self.state, &mut self.replay, frame).unwrap();
        self.frames.insert(frame);
        let reel = self.state.replay.as_ref().unwrap();
        assert_eq!((reel.frame, self.state.snapshot.step), (frame, frame as u64));
    }
}

/// What the store would have, held against what is there.
fn check_kept(state: &State, kept: &mut HashMap<u64, Conversation>) {
    for pane in &state.panes {
        let tree = kept.entry(pane.conversation.key).or_default();
        assert!(*tree == pane.conversation, "what is kept is what is there");
        let shown: Vec<_> = pane.transcript.turns().iter().filter_map(|turn| turn.node).collect();
        assert_eq!(shown, pane.conversation.path(), "what is shown is the path");
        assert_eq!(pane.asked.is_some(), pane.live, "an answer is waited for");
    }
}

#[test]
fn anything_may_happen() {
    let seed = std::env::var("BATCHROOM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(11);
    println!("BATCHROOM_SEED={seed}");
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let mut state = state(fresh());
    let mut cinema = Cinema::new();
    let mut quits = 0;
    let mut bots = 0;
    let highlighter = Arc::new(Highlighter::load());
    let mut kept: HashMap<u64, Conversation> = HashMap::new();
    let mut modes = HashSet::new();
    for turn in 0..ACTS {
        if turn.is_multiple_of(50) {
            change_looks(&mut dice, &mut state);
            change_looks(&mut dice, &mut cinema.state);
        }
        if turn.is_multiple_of(64) {
            still_answers(&state);
            still_answers(&cinema.state);
        }
        if dice.next_u32().is_multiple_of(6) {
            cinema.act(&mut dice);
            look(&mut dice, &mut cinema.state);
            continue;
        }
        let msg = match dice.next_u32() % 80 {
            0 => {
                state.kept = true;
                with(KeyModifiers::ALT, KeyCode::Char('y'))
            }
            _ => any_act(&mut dice, &highlighter),
        };
        let readonly = state.options.readonly;
        for effect in act(&mut state, msg) {
            quits += usize::from(effect == Effect::Quit);
            if let Effect::Submit { user, .. } = &effect {
                bots += usize::from(user.0 >= 1 << 20);
                assert!(!readonly || user.0 >= 1 << 20, "nothing is sent from a screen that is read-only");
            }
        }
        assert!(!state.panes.is_empty() && state.focus < state.panes.len());
        modes.insert(std::mem::discriminant(&state.mode));
        for batchroom::ui::talk::Kept { key, change, .. } in state.take_changes() {
            kept.entry(key).or_default().apply(change).expect("a change of this tree");
        }
        if dice.next_u32().is_multiple_of(16) {
            check_kept(&state, &mut kept);
        }
        look(&mut dice, &mut state);
    }
    assert!(quits > 0, "the fuzz reaches the way out");
    assert!(bots > 0, "bots have sent something");
    assert!(modes.len() > 8, "the fuzz opens what can be opened: {}", modes.len());
    assert!(kept.values().any(|tree| tree.nodes().iter().any(|node| node.removed)), "and deletes");
    assert!(kept.values().any(|tree| (0..tree.nodes().len()).any(|id| tree.place(id).1 > 1)), "and branches");
    assert!(cinema.frames.len() > 20 && cinema.frames.contains(&cinema.replay.steps()), "and plays: {:?}", cinema.frames);
}

fn random_snapshot(dice: &mut ChaCha8Rng) -> Snapshot {
    Dice(ChaCha8Rng::seed_from_u64(dice.next_u64())).snapshot()
}
