//! Answers asked for again, prompts written anew, and what happens to the conversation's tree.

use batchroom::batch::UserId;
use batchroom::conversation::Change;
use std::time::Duration;

use batchroom::engine::api::{Event, FinishReason, Finished, Rejected};
use batchroom::text::Role;
use batchroom::ui::state::{Mode, Rooms, State};
use batchroom::ui::update::{Effect, Msg};
use crossterm::event::{KeyCode, KeyModifiers};

use crate::acts::{finished, send, token};
use crate::layouts::picture;
use crate::sample::{fresh, rich};
use crate::{act, key, state, type_text, with};

fn alt(c: char) -> Msg {
    with(KeyModifiers::ALT, KeyCode::Char(c))
}

fn answer(state: &mut State, text: &str) {
    act(state, Msg::Engine(UserId(0), token(text)));
    act(state, Msg::Engine(UserId(0), finished(FinishReason::Stop)));
}

fn said(state: &State) -> Vec<String> {
    let pane = state.focused();
    let path = pane.conversation.path();
    let shown: Vec<_> = pane.transcript.turns().iter().map(|turn| turn.node.unwrap()).collect();
    assert_eq!(shown, path, "the screen shows the path");
    path.into_iter().map(|id| pane.conversation.nodes()[id].text.clone()).collect()
}

fn asked() -> State {
    let mut state = state(fresh());
    send(&mut state, "hello");
    answer(&mut state, "Hi there");
    state
}

#[test]
fn again_is_a_fork_beside_the_first_answer() {
    let mut state = asked();
    state.focused_mut().seed = None;
    let [Effect::Submit { user, messages, sampling, fork_of }] = &act(&mut state, alt('r'))[..] else { panic!("one submit") };
    assert_eq!((*user, messages.len(), *fork_of), (UserId(0), 1, Some(UserId(0))));
    let seed = sampling.seed;
    assert_eq!(act(&mut state, alt('r')), [], "it is being answered");
    answer(&mut state, "Good day");
    assert_eq!(said(&state), ["hello", "Good day"]);
    assert_eq!(state.focused().transcript.last().unwrap().place, (2, 2));
    let [Effect::Submit { sampling, .. }] = &act(&mut state, alt('r'))[..] else { panic!("one submit") };
    assert_ne!(sampling.seed, seed, "another seed");
    answer(&mut state, "Hey");
    act(&mut state, alt(','));
    assert_eq!(said(&state), ["hello", "Good day"]);
    act(&mut state, alt('.'));
    act(&mut state, alt('.'));
    assert_eq!(said(&state), ["hello", "Hi there"], "round and round");
}

#[test]
fn a_branch_streams_on_while_another_is_read() {
    let mut state = asked();
    act(&mut state, alt('r'));
    act(&mut state, Msg::Engine(UserId(0), token("Good ")));
    act(&mut state, alt(','));
    act(&mut state, Msg::Engine(UserId(0), token("day")));
    assert_eq!(said(&state), ["hello", "Hi there"]);
    act(&mut state, Msg::Engine(UserId(0), finished(FinishReason::Stop)));
    act(&mut state, alt('.'));
    assert_eq!(said(&state), ["hello", "Good day"]);
}

#[test]
fn a_prompt_written_anew_stands_beside_the_old_one_and_the_draft_comes_back() {
    let mut state = asked();
    send(&mut state, "more");
    answer(&mut state, "Of what?");
    type_text(&mut state, "a draft");
    act(&mut state, key(KeyCode::Enter));
    answer(&mut state, "Nice.");
    type_text(&mut state, "left alone");
    for _ in 0..4 {
        let next = if matches!(state.mode, Mode::Pick(_)) { key(KeyCode::Up) } else { alt('m') };
        act(&mut state, next);
    }
    act(&mut state, key(KeyCode::Char('e')));
    assert_eq!(state.focused().editor.text(), "more");
    act(&mut state, with(KeyModifiers::CONTROL, KeyCode::Char('u')));
    let [Effect::Submit { messages, .. }] = &send(&mut state, "less")[..] else { panic!("one submit") };
    assert_eq!(messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>(), ["hello", "Hi there", "less"]);
    assert_eq!(state.focused().editor.text(), "left alone");
    answer(&mut state, "Fine");
    act(&mut state, alt(','));
    assert_eq!(said(&state), ["hello", "Hi there", "more", "Of what?", "a draft", "Nice."], "to the end of the old branch");
    act(&mut state, alt('e'));
    act(&mut state, key(KeyCode::Esc));
    assert_eq!((state.focused().editor.text(), &state.focused().rewriting), ("left alone", &None));
}

#[test]
fn an_answer_goes_on_where_it_was_cut() {
    let mut state = asked();
    let [Effect::Submit { messages, .. }] = &act(&mut state, alt('g'))[..] else { panic!("one submit") };
    assert_eq!(messages.last().map(|last| (last.role, last.content.as_str())), Some((Role::Assistant, "Hi there")));
    answer(&mut state, ", friend");
    assert_eq!(said(&state), ["hello", "Hi there, friend"]);
    assert_eq!(state.focused().conversation.nodes().len(), 2, "one answer");
}

#[test]
fn a_refusal_leaves_everything_as_it_was() {
    let refuse = |state: &mut State| act(state, Msg::Engine(UserId(0), refused()));
    let mut state = asked();
    send(&mut state, "more");
    refuse(&mut state);
    assert_eq!((said(&state), state.focused().editor.text()), (vec!["hello".into(), "Hi there".into()], "more"));
    act(&mut state, with(KeyModifiers::CONTROL, KeyCode::Char('u')));
    act(&mut state, alt('r'));
    refuse(&mut state);
    assert_eq!(said(&state), ["hello", "Hi there"]);
    act(&mut state, alt('g'));
    refuse(&mut state);
    assert_eq!((said(&state), state.focused().live), (vec!["hello".to_owned(), "Hi there".into()], false));
    assert!(state.focused().editor.is_empty());
}

fn refused() -> batchroom::engine::api::Event {
    batchroom::engine::api::Event::Rejected(Rejected::EmptyPrompt)
}

#[test]
fn beside_forks_the_running_request_in_a_new_pane() {
    let mut state = state(fresh());
    send(&mut state, "hello");
    act(&mut state, Msg::Engine(UserId(0), token("Hi")));
    let effects = act(&mut state, alt('n'));
    let [Effect::Name { .. }, Effect::Submit { user, messages, fork_of, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((messages.len(), *fork_of, state.panes.len()), (1, Some(UserId(0)), 5));
    assert_ne!(*user, UserId(0));
    assert_eq!(said(&state), ["hello", ""]);
    assert!(state.panes[0].live && state.focused().live);
}

#[test]
fn deleting_asks_and_stops_what_streams_there() {
    let mut state = asked();
    send(&mut state, "more");
    act(&mut state, alt('m'));
    act(&mut state, key(KeyCode::Up));
    act(&mut state, key(KeyCode::Char('d')));
    let question = |state: &mut State| picture(state, 120, 30).contains("Delete this message");
    assert!(footer(&mut state).contains("2 messages"), "{}", footer(&mut state));
    act(&mut state, key(KeyCode::Char('x')));
    assert!(!question(&mut state), "off the table");
    act(&mut state, key(KeyCode::Char('d')));
    act(&mut state, key(KeyCode::Char('c')));
    assert!(!question(&mut state), "another act is no yes");
    assert_eq!(act(&mut state, key(KeyCode::Char('d'))), [], "it asks again");
    assert_eq!(act(&mut state, key(KeyCode::Char('d'))), [Effect::Abandon(UserId(0))]);
    assert_eq!(said(&state), ["hello", "Hi there"]);
    assert!(!state.focused().live);
}

#[test]
fn every_change_can_be_kept() {
    let mut state = asked();
    let kept = state.take_changes();
    assert!(kept.iter().all(|kept| kept.user == UserId(0) && kept.key == state.panes[0].conversation.key), "{kept:?}");
    let text: String = kept
        .iter()
        .filter_map(|kept| match &kept.change {
            Change::Appended { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, "Hi there");
    assert!(matches!(&kept.last().unwrap().change, Change::Ended { id: 1, figures: Some(_), .. }));
    send(&mut state, "more");
    act(&mut state, with(KeyModifiers::CONTROL, KeyCode::Char('x')));
    act(&mut state, key(KeyCode::Char('y')));
    assert!(state.take_changes().iter().any(|kept| kept.user == UserId(0)), "also what a closed pane had left");
}

#[test]
fn a_prompt_to_all_leaves_alone_what_another_pane_writes_anew() {
    let mut state = asked();
    act(&mut state, alt('e'));
    type_text(&mut state, " and more");
    assert!(state.focused().rewriting.is_some());
    act(&mut state, key(KeyCode::Tab));
    type_text(&mut state, "to everybody");
    let effects = act(&mut state, alt('a'));
    assert_eq!(effects.len(), state.panes.len(), "everybody is asked");
    let pane = &state.panes[0];
    assert_eq!(pane.editor.text(), "hello and more", "its text stays");
    assert!(pane.rewriting.is_some(), "it still writes the message anew");
    let path = pane.conversation.path();
    let texts: Vec<&str> = path.iter().map(|id| pane.conversation.node(*id).unwrap().text.as_str()).collect();
    assert_eq!(texts, ["hello", "Hi there", "to everybody", ""], "an ordinary next prompt");
}

#[test]
fn what_is_written_anew_and_sent_to_all_stands_beside_the_first_in_its_own_pane() {
    let mut state = asked();
    act(&mut state, alt('e'));
    type_text(&mut state, " again");
    act(&mut state, alt('a'));
    let pane = &state.panes[0];
    assert!(pane.rewriting.is_none() && pane.editor.is_empty());
    assert_eq!(pane.conversation.node(pane.conversation.path()[0]).unwrap().text, "hello again");
}

/// The first pane's line under the conversation.
fn footer(state: &mut State) -> String {
    (state.zoom, state.rooms) = (true, Rooms::Chats);
    let picture = picture(state, 120, 30);
    picture.lines().rev().find(|line| line.contains('╌')).unwrap_or_default().to_owned()
}

fn title(state: &mut State) -> String {
    (state.zoom, state.rooms) = (true, Rooms::Chats);
    picture(state, 120, 30).lines().find(|line| line.contains("┏ 1 ana")).unwrap_or_default().to_owned()
}

/// An answer with figures of its own.
fn answer_with(state: &mut State, text: &str, ttft_ms: u64, tokens: usize) {
    act(state, Msg::Engine(UserId(0), token(text)));
    let Event::Finished(end) = finished(FinishReason::Stop) else { panic!("an end") };
    let ttft = Some(Duration::from_millis(ttft_ms));
    let end = Finished { ttft, prompt_tokens: 30, generated_tokens: tokens, tokens_per_s: Some(tokens as f64), ..end };
    act(state, Msg::Engine(UserId(0), Event::Finished(end)));
}

#[test]
fn the_figures_are_of_the_answer_on_screen() {
    let mut state = state(fresh());
    send(&mut state, "hello");
    answer_with(&mut state, "Hi", 48, 10);
    act(&mut state, alt('r'));
    answer_with(&mut state, "Good day", 96, 20);
    let shown = footer(&mut state);
    assert!(shown.contains("TTFT 96ms · 20 tok/s · ctx 50 of"), "{shown}");
    act(&mut state, alt(','));
    let shown = footer(&mut state);
    assert!(shown.contains("TTFT 48ms · 10 tok/s · ctx 40 of"), "{shown}");
    act(&mut state, with(KeyModifiers::CONTROL, KeyCode::Char('n')));
    act(&mut state, key(KeyCode::Char('y')));
    assert!(!footer(&mut state).contains("TTFT"), "nothing is shown, so nothing is said of it");
}

#[test]
fn the_title_says_which_branch_is_read_and_where_it_begins() {
    let mut state = asked();
    assert!(!title(&mut state).contains('├'));
    act(&mut state, alt('r'));
    answer(&mut state, "Good day");
    assert!(title(&mut state).contains("├ branch 2/2 at message 2"), "{}", title(&mut state));
    act(&mut state, alt(','));
    send(&mut state, "more");
    answer(&mut state, &"a long text\n\n".repeat(60));
    assert!(title(&mut state).contains("├ branch 1/2 at message 2"), "it has scrolled away: {}", title(&mut state));
    act(&mut state, alt('r'));
    answer(&mut state, "short");
    assert!(title(&mut state).contains("├ branch 2/2 at message 4 (and 1 place before)"), "{}", title(&mut state));
    (state.zoom, state.rooms) = (false, Rooms::Both);
    let narrow = picture(&mut state, 80, 24);
    assert!(narrow.contains("├ 2/2"), "{narrow}");
}

#[test]
fn a_running_answer_in_another_branch_is_said_to_be_there() {
    let mut state = state(rich());
    send(&mut state, "hello");
    act(&mut state, Msg::Engine(UserId(0), token("Hi")));
    let own = footer(&mut state);
    assert!(own.contains("TTFT") && !own.contains("another branch"), "{own}");
    act(&mut state, Msg::Engine(UserId(0), finished(FinishReason::Stop)));
    act(&mut state, alt('r'));
    act(&mut state, alt(','));
    let shown = footer(&mut state);
    assert!(shown.contains("another branch is being answered: TTFT"), "{shown}");
}

#[test]
fn keys_of_the_room_work_while_a_message_is_chosen() {
    let mut state = asked();
    act(&mut state, alt('m'));
    assert_eq!(act(&mut state, key(KeyCode::F(2))), [Effect::Pause(true)]);
    assert!(matches!(state.mode, Mode::Pick(_)), "it goes on");
    act(&mut state, key(KeyCode::F(1)));
    assert!(matches!(state.mode, Mode::Help { .. }));
    act(&mut state, key(KeyCode::Esc));
    act(&mut state, alt('m'));
    state.kept = true;
    assert_eq!(act(&mut state, alt('y')), [Effect::FindChats(String::new())]);
    assert!(matches!(state.mode, Mode::Shelf(_)));
    act(&mut state, key(KeyCode::Esc));
    act(&mut state, alt('m'));
    act(&mut state, key(KeyCode::Tab));
    assert!(matches!(state.mode, Mode::Chat) && state.focus == 1);
    act(&mut state, with(KeyModifiers::ALT, KeyCode::Char('1')));
    act(&mut state, alt('m'));
    act(&mut state, key(KeyCode::Char('z')));
    assert!(matches!(state.mode, Mode::Pick(_)) && state.focused().editor.is_empty(), "a letter is no text there");
}
