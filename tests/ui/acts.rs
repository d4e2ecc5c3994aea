//! Keys and events to effects.

use std::sync::Arc;

use batchroom::batch::UserId;
use batchroom::engine::api::{Event, FinishReason, Finished, Pace, Rejected, RunState};
use batchroom::hub::Progress;
use batchroom::text::Role;
use batchroom::ui::state::{Better, Mode, Rooms, State};
use batchroom::ui::update::{Effect, Msg};
use crossterm::event::{KeyCode, KeyModifiers};

use crate::sample::fresh;
use crate::{act, key, state, type_text, with};

const CTRL: KeyModifiers = KeyModifiers::CONTROL;

pub fn finished(reason: FinishReason) -> Event {
    Event::Finished(Finished {
        reason,
        text: String::new(),
        message: None,
        prompt_tokens: 5,
        generated_tokens: 7,
        ttft: None,
        tokens_per_s: None,
        preemptions: 0,
        cached_tokens: 0,
        queued: None,
        end_to_end: std::time::Duration::ZERO,
        tpot: None,
        itl: None,
        predicted_ttft: None,
    })
}

pub fn token(text: &str) -> Event {
    Event::Token { step: 1, token: 9, text: text.into() }
}

/// Types a prompt in the focused pane and sends it.
pub fn send(state: &mut State, text: &str) -> Vec<Effect> {
    type_text(state, text);
    act(state, key(KeyCode::Enter))
}

#[test]
fn enter_sends_the_conversation_so_far() {
    let mut state = state(fresh());
    let [Effect::Submit { user, messages, sampling, fork_of: None }] = &send(&mut state, "hello")[..] else {
        panic!("one submit")
    };
    assert_eq!((*user, messages.len(), sampling.seed), (UserId(0), 1, 1));
    act(&mut state, Msg::Engine(UserId(0), token("Hi ")));
    act(&mut state, Msg::Engine(UserId(0), token("there")));
    assert_eq!(send(&mut state, "more"), [], "it is still being answered");
    assert_eq!(state.focused().editor.text(), "more", "and the draft stays");
    act(&mut state, Msg::Engine(UserId(0), finished(FinishReason::Stop)));
    let [Effect::Submit { messages, .. }] = &act(&mut state, key(KeyCode::Enter))[..] else { panic!("one submit") };
    let turns: Vec<(Role, &str)> = messages.iter().map(|message| (message.role, message.content.as_str())).collect();
    assert_eq!(turns, [(Role::User, "hello"), (Role::Assistant, "Hi there"), (Role::User, "more")]);
}

#[test]
fn a_pane_says_what_cut_its_answer() {
    for (reason, message, shown) in [
        (FinishReason::Length, "cut at max_tokens (7)", "cut at max_tokens (7). Alt-G goes on"),
        (FinishReason::ContextFull, "cut: context", "cut: the context of 8,192 tokens is full. Ctrl-N begins a new conversation"),
        (
            FinishReason::KvFull,
            "cut: KV memory",
            "cut: the whole KV memory is full (256 blocks; F10: kv_memory). Ctrl-N begins a new conversation",
        ),
        (FinishReason::Failed, "broken", "failed: broken"),
    ] {
        let mut state = state(fresh());
        send(&mut state, "hello");
        let Event::Finished(end) = finished(reason) else { unreachable!() };
        act(&mut state, Msg::Engine(UserId(0), Event::Finished(Finished { message: Some(message.into()), ..end })));
        assert_eq!(state.focused().transcript.last().and_then(|turn| turn.note.as_deref()), Some(shown));
    }
}

#[test]
fn f8_shows_the_panels_then_the_chats_then_both() {
    let mut state = state(fresh());
    for rooms in [Rooms::Machine, Rooms::Chats, Rooms::Both] {
        act(&mut state, key(KeyCode::F(8)));
        assert_eq!(state.rooms, rooms);
    }
}

#[test]
fn nothing_is_sent_from_an_empty_draft() {
    let mut state = state(fresh());
    assert_eq!(send(&mut state, "  "), []);
    assert!(state.focused().transcript.is_empty());
}

#[test]
fn a_refused_prompt_comes_back_to_the_editor_with_the_reason() {
    let mut state = state(fresh());
    send(&mut state, "too much");
    let why = Rejected::QueueFull { waiting: 64, max_waiting: 64, wait: None };
    act(&mut state, Msg::Engine(UserId(0), Event::Rejected(why)));
    assert_eq!(state.focused().editor.text(), "too much");
    assert!(state.focused().transcript.is_empty());
    assert!(state.focused().refused.as_ref().unwrap().contains("64 of 64"));
    assert!(!state.focused().live);
}

#[test]
fn broadcast_goes_to_every_pane_that_is_free() {
    let mut state = state(fresh());
    send(&mut state, "first");
    act(&mut state, key(KeyCode::F(9)));
    act(&mut state, key(KeyCode::Tab));
    let users: Vec<UserId> = send(&mut state, "to all")
        .into_iter()
        .map(|effect| match effect {
            Effect::Submit { user, .. } => user,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(users, [UserId(1), UserId(2), UserId(3)]);
    assert!(state.notice.as_ref().unwrap().text.contains("sent to 3 of 4: one pane"));
}

#[test]
fn ctrl_c_stops_the_focused_answer_and_else_asks_to_quit() {
    let mut state = state(fresh());
    send(&mut state, "x");
    let ctrl_c = || with(CTRL, KeyCode::Char('c'));
    assert_eq!(act(&mut state, ctrl_c()), [Effect::Cancel(UserId(0))]);
    act(&mut state, Msg::Engine(UserId(0), finished(FinishReason::Cancelled)));
    assert_eq!(state.focused().transcript.last().unwrap().note.as_deref(), Some("stopped"));
    assert_eq!(act(&mut state, ctrl_c()), []);
    assert!(matches!(state.mode, Mode::ConfirmQuit));
    assert_eq!(act(&mut state, key(KeyCode::Esc)), [], "any other key stays");
    act(&mut state, ctrl_c());
    assert_eq!(act(&mut state, ctrl_c()), [Effect::Quit]);
}

#[test]
fn closing_asks_when_something_would_be_lost() {
    let mut state = state(fresh());
    let close = || with(CTRL, KeyCode::Char('x'));
    type_text(&mut state, "a draft");
    act(&mut state, close());
    assert!(matches!(state.mode, Mode::ConfirmClose));
    act(&mut state, key(KeyCode::Char('n')));
    assert_eq!((state.panes.len(), state.focused().editor.text()), (4, "a draft"));
    act(&mut state, key(KeyCode::Tab));
    act(&mut state, close());
    assert_eq!(state.panes.len(), 3, "an empty pane closes at once");
    for _ in 0..6 {
        act(&mut state, close());
        act(&mut state, key(KeyCode::Char('y')));
    }
    assert_eq!(state.panes.len(), 1, "the last one stays");
}

#[test]
fn closing_a_pane_cancels_its_answer() {
    let mut state = state(fresh());
    send(&mut state, "x");
    act(&mut state, with(CTRL, KeyCode::Char('x')));
    assert_eq!(act(&mut state, key(KeyCode::Char('y'))), [Effect::Abandon(UserId(0))]);
}

#[test]
fn panes_come_with_names_letters_and_colours_of_their_own() {
    let mut state = state(fresh());
    for _ in 0..20 {
        act(&mut state, with(CTRL, KeyCode::Char('t')));
    }
    assert_eq!(state.panes.len(), 16);
    for one in &state.panes {
        let same = |other: &&batchroom::ui::state::Pane| {
            other.person.name == one.person.name || other.person.letter == one.person.letter || other.person.hue == one.person.hue
        };
        assert_eq!(state.panes.iter().filter(same).count(), 1, "{:?}", one.person);
    }
}

#[test]
fn rename_keeps_what_was_typed() {
    let mut state = state(fresh());
    act(&mut state, with(CTRL, KeyCode::Char('r')));
    act(&mut state, key(KeyCode::Enter));
    assert_eq!(state.focused().person.name, "ana", "nothing typed keeps the name");
    act(&mut state, with(CTRL, KeyCode::Char('r')));
    type_text(&mut state, "Thủy");
    act(&mut state, key(KeyCode::Enter));
    assert_eq!((state.focused().person.name.as_str(), state.focused().person.letter), ("Thủy", 'T'));
    assert!(state.focused().editor.is_empty(), "the draft is untouched");
}

#[test]
fn a_new_conversation_asks_when_there_is_one() {
    let mut state = state(fresh());
    let clear = || with(CTRL, KeyCode::Char('n'));
    act(&mut state, clear());
    assert!(matches!(state.mode, Mode::Chat), "nothing would be lost");
    send(&mut state, "hello");
    act(&mut state, clear());
    assert_eq!(act(&mut state, key(KeyCode::Esc)), []);
    assert!(!state.focused().transcript.is_empty());
    act(&mut state, clear());
    assert_eq!(act(&mut state, key(KeyCode::Char('y'))), [Effect::Abandon(UserId(0))]);
    assert!(state.focused().transcript.is_empty() && !state.focused().live);
}

#[test]
fn a_closed_panes_person_keeps_the_name() {
    let mut state = state(fresh());
    act(&mut state, with(CTRL, KeyCode::Char('x')));
    assert_eq!((state.panes.len(), state.people().name(UserId(0))), (3, "ana".to_owned()));
}

#[test]
fn pause_step_and_pace() {
    let mut state = state(fresh());
    assert_eq!(act(&mut state, key(KeyCode::F(2))), [Effect::Pause(true)]);
    let mut paused = fresh();
    paused.state = RunState::Paused;
    paused.pace = Pace::StepsPerSecond(20.0);
    act(&mut state, Msg::Snapshot(Arc::new(paused)));
    assert_eq!(act(&mut state, key(KeyCode::F(2))), [Effect::Pause(false)]);
    assert_eq!(act(&mut state, key(KeyCode::F(3))), [Effect::Pause(true), Effect::Step(1)]);
    assert_eq!(act(&mut state, key(KeyCode::F(4))), [Effect::SetPace(Pace::StepsPerSecond(15.0))]);
    assert_eq!(act(&mut state, key(KeyCode::F(5))), [Effect::SetPace(Pace::StepsPerSecond(30.0))]);
    assert_eq!(act(&mut state, key(KeyCode::F(6))), [Effect::SetPace(Pace::Full)]);
}

#[test]
fn a_fetch_can_be_stopped_and_begun_again_and_the_switch_waits_for_answers() {
    let mut state = state(fresh());
    let model = || with(CTRL, KeyCode::Char('g'));
    assert_eq!(act(&mut state, model()), [Effect::Fetch]);
    assert_eq!(act(&mut state, model()), [Effect::CancelFetch]);
    assert_eq!(act(&mut state, model()), [Effect::Fetch]);
    act(&mut state, Msg::Fetch(Progress { source: "pip".into(), done: 10, total: Some(100) }));
    assert!(matches!(&state.better, Better::Fetching(download) if download.done == 10));
    send(&mut state, "meanwhile");
    act(&mut state, Msg::Fetched(Ok(())));
    assert_eq!(act(&mut state, model()), [], "an answer is running");
    assert_eq!(state.better, Better::WaitingToSwitch);
    let effects = act(&mut state, Msg::Engine(UserId(0), finished(FinishReason::Stop)));
    assert_eq!(effects, [Effect::Switch("smollm2".into())]);
    act(&mut state, Msg::Switched(Ok("smollm2".into())));
    assert_eq!(state.better, Better::InUse);
    assert!(!state.focused().transcript.is_empty(), "the chat is still there");
}

#[test]
fn a_failed_fetch_says_all_that_was_tried() {
    let mut state = state(fresh());
    act(&mut state, with(CTRL, KeyCode::Char('g')));
    act(&mut state, Msg::Fetched(Err("smollm2 could not be fetched.\n  cache: no\n  hub: no".into())));
    let lines = batchroom::ui::view::status::lines(&state, 120);
    let text: Vec<&str> = lines.iter().map(|(text, _)| text.as_str()).collect();
    assert!(text.iter().any(|line| line.contains("hub: no")) && text.iter().any(|line| line.contains("Ctrl-G")), "{text:?}");
}

#[test]
fn parameters_are_the_panes_own_and_a_wrong_one_changes_nothing() {
    let mut state = state(fresh());
    act(&mut state, with(KeyModifiers::ALT, KeyCode::Char('p')));
    type_text(&mut state, "Be short.");
    act(&mut state, key(KeyCode::Down));
    act(&mut state, with(CTRL, KeyCode::Char('u')));
    type_text(&mut state, "-3");
    act(&mut state, key(KeyCode::Enter));
    assert!(matches!(&state.mode, Mode::Params(form) if form.errors[1].as_ref().unwrap().contains("from 0")));
    assert_eq!(state.focused().system, None);
    act(&mut state, with(CTRL, KeyCode::Char('u')));
    type_text(&mut state, "0");
    act(&mut state, key(KeyCode::Enter));
    assert_eq!((state.focused().system.as_deref(), state.focused().sampling.temperature), (Some("Be short."), 0.0));
    assert_eq!(state.panes[1].sampling.temperature, 0.7);
    let [Effect::Submit { messages, .. }] = &send(&mut state, "x")[..] else { panic!("one submit") };
    assert_eq!(messages[0].content, "Be short.");
}

#[test]
fn the_palette_runs_what_it_lists() {
    let mut state = state(fresh());
    act(&mut state, with(CTRL, KeyCode::Char('p')));
    type_text(&mut state, "ten steps");
    assert_eq!(act(&mut state, key(KeyCode::Enter)), [Effect::Pause(true), Effect::Step(10)]);
    assert!(matches!(state.mode, Mode::Chat));
}

#[test]
fn a_paste_is_one_draft_in_one_normal_form() {
    let mut state = state(fresh());
    act(&mut state, Msg::Paste("Vie\u{323}\u{302}t\r\nNam\u{1b}[31m".into()));
    assert_eq!(state.focused().editor.text(), "Việt\nNam␛[31m");
    type_text(&mut state, "e\u{301}");
    assert!(state.focused().editor.text().ends_with('é'));
}

#[test]
fn streaming_is_linear_in_the_text_and_bounded_in_memory() {
    let mut state = state(fresh());
    send(&mut state, "go on");
    let work = |state: &State| state.focused().transcript.wrap_work();
    let mut done = Vec::new();
    for _ in 0..4 {
        for at in 0..25_000 {
            act(&mut state, Msg::Engine(UserId(0), token("word after word ")));
            // A frame comes every now and then.
            if at % 50 == 0 {
                state.focused_mut().transcript.resize(60, 20);
            }
        }
        done.push(work(&state));
    }
    // The same again costs the same again, give or take the lines that were cut.
    let (first, last) = (done[0], done[3] - done[2]);
    assert!(last < first * 2, "25,000 tokens took {first} looks at first, {last} in the end");
    assert!(state.focused().transcript.lines_cut() > 0, "the oldest lines went");
    assert_eq!(state.focused().conversation.bytes(), "go on".len() + 100_000 * "word after word ".len(), "and nothing is lost");
}

#[test]
fn the_log_names_people() {
    let mut state = state(fresh());
    let line = "Admitted { user: UserId(0) }, UserId(x), UserId(4000";
    act(&mut state, Msg::Log(vec![line.into(), String::new()]));
    let Mode::Log { lines, .. } = &state.mode else { panic!("the log is open") };
    assert_eq!(lines[0], "Admitted { user: ana }, UserId(x), UserId(4000");
}
