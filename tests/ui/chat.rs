//! Copies, files, searches, commands, the form, and how answers look.

use std::sync::Arc;

use batchroom::batch::UserId;
use batchroom::engine::api::FinishReason;
use batchroom::presets::Preset;
use batchroom::sampling::SamplingParams;
use batchroom::text::Role;
use batchroom::ui::rich::Kind;
use batchroom::ui::rich::code::Highlighter;
use batchroom::ui::save::Saved;
use batchroom::ui::state::{Mode, State};
use batchroom::ui::transcript::{Transcript, TurnLine};
use batchroom::ui::update::{Effect, Msg};
use crossterm::event::{KeyCode, KeyModifiers};

use crate::acts::{finished, send, token};
use crate::layouts::picture;
use crate::sample::fresh;
use crate::{act, key, state, type_text, with};

const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;

fn answered(text: &str) -> State {
    let mut state = state(fresh());
    send(&mut state, "hello");
    act(&mut state, Msg::Engine(UserId(0), token(text)));
    act(&mut state, Msg::Engine(UserId(0), finished(FinishReason::Stop)));
    state
}

fn shown(transcript: &Transcript) -> Vec<String> {
    let line = |line: TurnLine<'_>| match line {
        TurnLine::Text(shown) => format!("{}{}", shown.lead(), shown.text()),
        TurnLine::Branch(at, of) => format!("({at}/{of})"),
        TurnLine::Note(text) => format!("– {text}"),
        TurnLine::Blank => String::new(),
    };
    transcript.visible().map(|(_, visible)| line(visible).trim_end().to_owned()).collect()
}

fn notice(state: &State) -> String {
    state.notice.as_ref().map(|notice| notice.text.clone()).unwrap_or_default()
}

#[test]
fn answers_are_markdown_until_they_are_wanted_raw() {
    let mut state = answered("# Title\n\n- **one**\n- two\n\n```py\nx = 1\n```\n");
    state.focused_mut().transcript.resize(40, 20);
    assert_eq!(shown(&state.focused().transcript), ["hello", "", "Title", "", "• one", "• two", "", "┌ py", "│ x = 1", ""]);
    act(&mut state, with(ALT, KeyCode::Char('v')));
    assert_eq!(shown(&state.focused().transcript)[2..6], ["# Title", "", "- **one**", "- two"].map(String::from));
}

#[test]
fn words_of_code_are_told_apart_once_the_grammars_are_there() {
    let mut state = state(fresh());
    send(&mut state, "hello");
    let effects = act(&mut state, Msg::Engine(UserId(0), token("```rust\nlet x = \"測\"; // why\n```\n")));
    assert_eq!(effects, [Effect::LoadColours]);
    assert_eq!(act(&mut state, Msg::Engine(UserId(0), token("```c\nint"))), [], "asked for once");
    let kinds = |state: &State| {
        let lines = state.focused().transcript.visible().filter_map(|(_, line)| match line {
            TurnLine::Text(shown) if shown.text().starts_with("let") => Some(shown),
            _ => None,
        });
        let line = lines.last().unwrap();
        line.row.pieces(line.start, line.end).map(|(text, ink)| (text.trim().to_owned(), ink.kind)).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&state).len(), 1);
    act(&mut state, Msg::Colours(Arc::new(Highlighter::load())));
    let told = kinds(&state);
    for expected in [("let", Kind::Keyword), ("\"測\"", Kind::Literal), ("// why", Kind::Comment)] {
        assert!(told.contains(&(expected.0.to_owned(), expected.1)), "{expected:?} in {told:?}");
    }
}

#[test]
fn a_notice_that_answers_run_ends_with_them() {
    let mut state = state(fresh());
    state.panes.truncate(1);
    send(&mut state, "hello");
    act(&mut state, key(KeyCode::F(9)));
    send(&mut state, "more");
    assert!(notice(&state).starts_with("every pane is still"));
    act(&mut state, Msg::Engine(UserId(0), finished(FinishReason::Stop)));
    assert_eq!(state.notice, None);
}

/// However it is cut into pieces, and whenever it is looked at: the same lines.
#[test]
fn a_streamed_answer_looks_like_a_whole_one() {
    let text = "Intro *a*\n\n1. one\n2. two\n   more\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```rust\nfn main() {}\n```\nend `x` \u{1b}[2J\n\n> q\n";
    let whole = {
        let mut transcript = Transcript::default();
        transcript.resize(30, 100);
        transcript.push(Role::Assistant, text);
        transcript.close(None);
        shown(&transcript)
    };
    assert!(whole.iter().any(|line| line.contains("␛[2J")), "{whole:?}");
    for size in [1, 2, 3, 7] {
        let mut transcript = Transcript::default();
        transcript.resize(47, 100);
        transcript.push(Role::Assistant, "");
        let chars: Vec<char> = text.chars().collect();
        for (at, piece) in chars.chunks(size).enumerate() {
            transcript.append(&piece.iter().collect::<String>());
            transcript.resize(if at % 5 == 0 { 47 } else { 30 }, 100);
        }
        transcript.close(None);
        transcript.resize(30, 100);
        assert_eq!(shown(&transcript), whole, "pieces of {size}");
    }
}

/// A view that is held shows the same lines, whatever kind of block streams in below it.
#[test]
fn a_held_view_holds_still_while_markdown_streams() {
    let mut transcript = Transcript::default();
    transcript.resize(30, 6);
    transcript.push(Role::User, "go");
    transcript.push(Role::Assistant, &"A paragraph of some words.\n\n- a list\n- of two\n\n".repeat(10));
    transcript.resize(30, 6);
    for up in [1, 4, 9, 23] {
        transcript.to_bottom();
        transcript.scroll_by(-up);
        let held = shown(&transcript);
        for piece in ["\n\n# He", "ading\n| a |", " b |\n|--", "-|---|\n| 1 | 2 |\n", "```c\nint x;", "\n\n```\n", "tail"] {
            transcript.append(piece);
            transcript.resize(30, 6);
            assert_eq!(shown(&transcript), held, "{up} lines up, after {piece:?}");
        }
        assert!(transcript.unseen() && !transcript.following());
    }
}

/// Every kind of text costs in proportion to its length, also when a frame is drawn with each token.
#[test]
fn streaming_is_linear_whatever_streams() {
    for piece in ["word ", "line of text\n", "- item\n", "    x = 1\n", "| a | b |\n", "ữ"] {
        let mut transcript = Transcript::default();
        transcript.push(Role::Assistant, if piece.starts_with(' ') { "```py\n" } else { "" });
        let mut done = Vec::new();
        for _ in 0..4 {
            for _ in 0..2_500 {
                transcript.append(piece);
                transcript.resize(60, 20);
            }
            done.push(transcript.wrap_work());
        }
        // The first part has an open block that grows up to its bound.
        let (early, late) = (done[1] - done[0], done[3] - done[2]);
        assert!(late < early * 2, "{piece:?}: {early} looks, then {late}");
    }
}

#[test]
fn copies_are_the_text_itself_and_bounded() {
    let mut state = answered("See:\n```py\nx = 1\n```\nand\n```\ny\n```\n");
    let text = "See:\n```py\nx = 1\n```\nand\n```\ny\n```\n";
    assert_eq!(act(&mut state, with(ALT, KeyCode::Char('c'))), [Effect::Copy(text.into())]);
    act(&mut state, with(ALT, KeyCode::Char('m')));
    assert_eq!(act(&mut state, key(KeyCode::Char('b'))), [Effect::Copy("y".into())]);
    assert_eq!(act(&mut state, key(KeyCode::Char('b'))), [Effect::Copy("x = 1".into())]);
    assert_eq!(act(&mut state, key(KeyCode::Char('b'))), [Effect::Copy("y".into())], "round and round");
    act(&mut state, key(KeyCode::Up));
    assert_eq!(act(&mut state, key(KeyCode::Char('c'))), [Effect::Copy("hello".into())]);
    let mut long = answered(&"x".repeat(100_000));
    assert_eq!(act(&mut long, with(ALT, KeyCode::Char('c'))), []);
    assert!(notice(&long).contains("100000 bytes"), "{}", notice(&long));
}

#[test]
fn a_file_is_never_replaced_without_asking() {
    let mut state = answered("Hi");
    act(&mut state, with(ALT, KeyCode::Char('w')));
    let effects = act(&mut state, key(KeyCode::Enter));
    let [Effect::Export { path, text, replace: false }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((path.as_str(), text.as_str()), ("batchroom-ana.md", "# ana\n\n## ana\n\nhello\n\n## smollm2\n\nHi\n"));
    act(&mut state, Msg::Saved(Saved::Exists("/tmp/batchroom-ana.md".into())));
    let effects = act(&mut state, key(KeyCode::Enter));
    assert!(
        matches!(&effects[..], [Effect::Export { path, replace: true, .. }] if path == "/tmp/batchroom-ana.md"),
        "{effects:?}"
    );
    act(&mut state, Msg::Saved(Saved::Done { path: "/tmp/batchroom-ana.md".into(), bytes: 9 }));
    assert!(matches!(state.mode, Mode::Chat) && notice(&state).contains("/tmp/batchroom-ana.md"));
    type_text(&mut state, "/export chat.json");
    let effects = act(&mut state, key(KeyCode::Enter));
    let [Effect::Export { text, .. }] = &effects[..] else { panic!("{effects:?}") };
    let json: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!((&json["batchroom_chat"], json["messages"].as_array().unwrap().len()), (&1.into(), 2));
    assert_eq!(json["messages"][1]["made_by"]["model"], "smollm2");
}

#[test]
fn a_search_goes_through_all_panes() {
    let mut state = answered("The Quick brown FOX");
    act(&mut state, key(KeyCode::Tab));
    send(&mut state, "another quick fox");
    act(&mut state, with(CTRL, KeyCode::Char('s')));
    type_text(&mut state, "quick");
    let hits = |state: &State| match &state.mode {
        Mode::Search(search) => (search.hits.len(), search.at, state.focus),
        other => panic!("{other:?}"),
    };
    assert_eq!(hits(&state), (1, 0, 1));
    act(&mut state, key(KeyCode::Tab));
    assert_eq!(hits(&state), (2, 0, 1));
    act(&mut state, key(KeyCode::Down));
    assert_eq!(state.focus, 0, "on to the other pane");
    act(&mut state, key(KeyCode::Char('n')));
    assert_eq!(state.focus, 1);
    type_text(&mut state, "x");
    assert_eq!(hits(&state).0, 0);
    act(&mut state, key(KeyCode::Esc));
    assert!(matches!(state.mode, Mode::Chat) && state.focused().editor.is_empty());
}

#[test]
fn a_slash_is_a_command_and_two_are_a_slash() {
    let mut state = state(fresh());
    assert_eq!(send(&mut state, "/unknown thing"), []);
    assert!(notice(&state).contains("no command /unknown") && state.focused().editor.text() == "/unknown thing");
    act(&mut state, with(CTRL, KeyCode::Char('u')));
    assert_eq!(send(&mut state, "/set temperature 9000"), []);
    assert!(notice(&state).contains("temperature: it must be from 0") && !state.focused().editor.is_empty());
    act(&mut state, with(CTRL, KeyCode::Char('u')));
    send(&mut state, "/set temperature 0.25");
    send(&mut state, "/system Be kind.");
    assert_eq!((state.focused().sampling.temperature, state.focused().system.as_deref()), (0.25, Some("Be kind.")));
    send(&mut state, "/preset precise");
    assert_eq!(state.focused().sampling.temperature, 0.0);
    send(&mut state, "/rename Thủy");
    assert_eq!(state.focused().person.name, "Thủy");
    type_text(&mut state, "/reg");
    act(&mut state, key(KeyCode::Tab));
    assert_eq!((state.focused().editor.text(), state.focus), ("/regenerate", 0), "Tab completes");
    act(&mut state, with(CTRL, KeyCode::Char('u')));
    let [Effect::Submit { messages, .. }] = &send(&mut state, "//etc is a folder")[..] else { panic!("one submit") };
    assert_eq!(messages.last().unwrap().content, "/etc is a folder");
}

#[test]
fn the_form_has_presets_and_errors_beside_their_fields() {
    let mut state = state(fresh());
    let own = SamplingParams { temperature: 1.5, ..SamplingParams::default() };
    state.options.presets = vec![Preset { name: "pirate".into(), sampling: own, system: Some("Arr.".into()) }];
    act(&mut state, with(ALT, KeyCode::Char('p')));
    type_text(&mut state, "one");
    act(&mut state, with(ALT, KeyCode::Enter));
    type_text(&mut state, "two");
    act(&mut state, key(KeyCode::BackTab));
    act(&mut state, key(KeyCode::Left));
    act(&mut state, key(KeyCode::Right));
    act(&mut state, key(KeyCode::Right));
    let Mode::Params(form) = &state.mode else { panic!("the form") };
    assert_eq!((form.preset(), form.fields[1].text(), form.fields[0].text()), (Some(2), "1", "one\ntwo"));
    act(&mut state, key(KeyCode::Right));
    act(&mut state, key(KeyCode::Enter));
    assert_eq!((state.focused().system.as_deref(), state.focused().sampling.temperature), (Some("Arr."), 1.5));
}

#[test]
fn a_draft_comes_back_from_another_editor() {
    let mut state = state(fresh());
    type_text(&mut state, "a draft");
    let effects = act(&mut state, with(ALT, KeyCode::Char('o')));
    assert_eq!(effects, [Effect::OtherEditor { user: UserId(0), text: "a draft".into() }]);
    act(&mut state, Msg::Edited(UserId(0), Ok("another\nline\u{1b}[31m\n".into())));
    assert_eq!(state.focused().editor.text(), "another\nline␛[31m");
    act(&mut state, Msg::Edited(UserId(0), Err("vi ended with 1".into())));
    assert_eq!(state.focused().editor.text(), "another\nline␛[31m", "nothing is lost");
    act(&mut state, with(CTRL, KeyCode::Char('/')));
    act(&mut state, with(CTRL, KeyCode::Char('/')));
    assert_eq!(state.focused().editor.text(), "a draft", "and it can be undone");
    act(&mut state, with(CTRL, KeyCode::Char('y')));
    act(&mut state, with(CTRL, KeyCode::Char('y')));
    assert_eq!(state.focused().editor.text(), "another\nline␛[31m", "and done again");
}

const ANSWER: &str = "## Batches\n\nA *step* is **one** pass over the weights; see `batch.rs`:\n\n1. prefill in chunks\n2. decode\n   \
                      - one token each\n\n| kind | tokens |\n|---|---|\n| prefill | 64 |\n| decode | 1 |\n\n```rust\n\
                      // one step\nfn step(&mut self) -> usize {\n    self.rows.len()\n}\n```\n\n> Let those who end, go.\n";

#[test]
fn a_conversation_as_it_is_read() {
    let mut state = answered(ANSWER);
    state.zoom = true;
    state.rooms = batchroom::ui::state::Rooms::Chats;
    insta::assert_snapshot!("markdown-80x36", picture(&mut state, 80, 36));
    act(&mut state, with(ALT, KeyCode::Char('r')));
    act(&mut state, Msg::Engine(UserId(0), token("Another answer.")));
    act(&mut state, Msg::Engine(UserId(0), finished(FinishReason::Stop)));
    act(&mut state, with(ALT, KeyCode::Char('m')));
    insta::assert_snapshot!("pick-80x24", picture(&mut state, 80, 24));
    act(&mut state, key(KeyCode::Esc));
    act(&mut state, with(CTRL, KeyCode::Char('s')));
    type_text(&mut state, "answer");
    insta::assert_snapshot!("search-80x24", picture(&mut state, 80, 24));
    act(&mut state, key(KeyCode::Esc));
    type_text(&mut state, "/re");
    insta::assert_snapshot!("slash-80x24", picture(&mut state, 80, 24));
    act(&mut state, with(CTRL, KeyCode::Char('u')));
    act(&mut state, with(ALT, KeyCode::Char('w')));
    act(&mut state, Msg::Saved(Saved::Exists("/home/ana/batchroom-ana.md".into())));
    insta::assert_snapshot!("export-80x24", picture(&mut state, 80, 24));
    act(&mut state, key(KeyCode::Esc));
    act(&mut state, with(ALT, KeyCode::Char('e')));
    insta::assert_snapshot!("rewrite-80x24", picture(&mut state, 80, 24));
}

#[test]
fn what_is_turned_on_is_said_also_where_nothing_else_shows_it() {
    let mut state = answered("plain words");
    act(&mut state, with(ALT, KeyCode::Char('v')));
    assert_eq!(notice(&state), "this pane shows answers as they were written: Alt-V renders them again");
    act(&mut state, with(ALT, KeyCode::Char('v')));
    assert_eq!(notice(&state), "this pane renders Markdown again");
    state.notice = None;
    picture(&mut state, 80, 24);
    act(&mut state, key(KeyCode::F(7)));
    act(&mut state, key(KeyCode::F(7)));
    assert!(notice(&state).starts_with("only one pane fits here"), "tabs are all there is: {}", notice(&state));
    state.notice = None;
    picture(&mut state, 200, 60);
    act(&mut state, key(KeyCode::F(7)));
    act(&mut state, key(KeyCode::F(7)));
    assert_eq!(notice(&state), "");
}

#[test]
fn what_was_said_is_of_the_past_once_a_prompt_is_sent() {
    let mut state = answered("plain words");
    act(&mut state, with(ALT, KeyCode::Char(',')));
    assert!(notice(&state).starts_with("there are no branches yet"));
    send(&mut state, "more");
    assert_eq!(notice(&state), "");
    act(&mut state, Msg::Engine(UserId(0), finished(FinishReason::Stop)));
    state.focused_mut().seed = Some(5);
    act(&mut state, with(ALT, KeyCode::Char('r')));
    assert!(notice(&state).contains("the same again"), "what is said of this very prompt stays: {}", notice(&state));
}
