//! The settings panel and the bots: keys to effects, and what is refused.

use std::sync::Arc;
use std::time::Duration;

use batchroom::batch::UserId;
use batchroom::engine::api::{Event, FinishReason, Limits, Mode, Policy, Rejected, RunState};
use batchroom::ui::bots;
use batchroom::ui::settings::Knob;
use batchroom::ui::state;
use batchroom::ui::update::{Effect, Msg, update};
use crossterm::event::{KeyCode, KeyModifiers};

use crate::sample::{fresh, rich};
use crate::{act, key, state, type_text, with};

fn open_at(knob: Knob) -> state::State {
    let mut state = state(rich());
    assert_eq!(act(&mut state, key(KeyCode::F(10))), []);
    for _ in 0..Knob::ALL.iter().position(|other| *other == knob).unwrap() {
        assert_eq!(act(&mut state, key(KeyCode::Down)), []);
    }
    state
}

fn limits_of(effects: &[Effect]) -> Limits {
    match effects {
        [Effect::SetLimits(limits)] => *limits,
        other => panic!("{other:?}"),
    }
}

#[test]
fn arrows_turn_a_knob_at_once_and_go_on_from_there() {
    let mut state = open_at(Knob::Seats);
    let now = state.snapshot.limits.max_num_seqs;
    let first = limits_of(&act(&mut state, key(KeyCode::Right))).max_num_seqs;
    assert!(first > now);
    // The snapshot does not know yet: the next turn goes on from what was asked for.
    let second = limits_of(&act(&mut state, key(KeyCode::Right))).max_num_seqs;
    assert!(second > first);
    assert_eq!(limits_of(&act(&mut state, key(KeyCode::Left))).max_num_seqs, first);
    // What was refused is forgotten.
    let later = state.now + Duration::from_secs(5);
    update(&mut state, Msg::Tick, later);
    assert_eq!(Knob::Seats.value(&state), now.to_string());
}

#[test]
fn every_knob_turns_both_ways_and_stays_in_its_range() {
    for knob in Knob::ALL {
        for code in [KeyCode::Left, KeyCode::Right] {
            let mut state = open_at(knob);
            for _ in 0..60 {
                for effect in act(&mut state, key(code)) {
                    let mut snapshot = (*state.snapshot).clone();
                    match effect {
                        Effect::SetLimits(limits) => {
                            limits.check().unwrap_or_else(|error| panic!("{knob:?}: {error}"));
                            snapshot.limits = limits;
                        }
                        Effect::SetKvBlocks(blocks) => {
                            assert!((1..=snapshot.kv.capacity).contains(&blocks));
                            snapshot.kv.total = blocks;
                        }
                        Effect::SetTargetItl(target) => snapshot.target_itl = target,
                        Effect::SetPace(_) | Effect::Name { .. } | Effect::Abandon(_) => {}
                        other => panic!("{knob:?}: {other:?}"),
                    }
                    act(&mut state, Msg::Snapshot(Arc::new(snapshot)));
                }
            }
            assert!(!knob.value(&state).is_empty() && !knob.range(&state).is_empty());
        }
    }
}

#[test]
fn a_value_is_typed_and_checked() {
    let mut state = open_at(Knob::Budget);
    act(&mut state, key(KeyCode::Enter));
    act(&mut state, Msg::Paste("1,024".into()));
    assert_eq!(limits_of(&act(&mut state, key(KeyCode::Enter))).max_num_batched_tokens, 1024);
    for (knob, text) in [
        (Knob::Seats, "0"),
        (Knob::Seats, "many"),
        (Knob::Budget, "1"),
        (Knob::TargetItl, "2h"),
        (Knob::KvBudget, "900TB"),
        (Knob::Policy, "best"),
        (Knob::Pace, "-3"),
        (Knob::Bots, "65"),
        (Knob::BotsPause, "2min"),
    ] {
        let mut state = open_at(knob);
        act(&mut state, key(KeyCode::Enter));
        act(&mut state, Msg::Paste(text.into()));
        assert_eq!(act(&mut state, key(KeyCode::Enter)), [], "{knob:?} {text}");
        let state::Mode::Settings(desk) = &state.mode else { panic!("it stays open") };
        let error = desk.error.as_deref().unwrap_or_else(|| panic!("{knob:?} took {text}"));
        assert!(error.contains(knob.name()) && error.contains(text), "{error}");
        assert!(desk.typing.is_some(), "what was typed stays");
    }
    let mut state = open_at(Knob::Policy);
    act(&mut state, key(KeyCode::Enter));
    act(&mut state, Msg::Paste("fair".into()));
    assert_eq!(limits_of(&act(&mut state, key(KeyCode::Enter))).policy, Policy::Fair);
    let mut state = open_at(Knob::Batching);
    assert_eq!(limits_of(&act(&mut state, key(KeyCode::Right))).mode, Mode::Static);
}

#[test]
fn what_was_set_is_set_again_for_the_next_engine() {
    let mut state = open_at(Knob::Policy);
    act(&mut state, key(KeyCode::Right));
    let mut theirs = fresh();
    theirs.limits.max_model_len = 77;
    act(&mut state, Msg::Snapshot(Arc::new(theirs)));
    let effects = act(&mut state, Msg::Switched(Ok("nano".into())));
    let limits = limits_of(&effects);
    assert_eq!((limits.policy, limits.max_model_len), (Policy::Fair, 77));
}

#[test]
fn a_read_only_screen_looks_and_touches_nothing() {
    let mut state = state(rich());
    state.options.readonly = true;
    type_text(&mut state, "hello");
    act(&mut state, Msg::Paste("more".into()));
    assert!(state.panes.iter().all(|pane| pane.editor.is_empty()));
    for code in (1..=12).map(KeyCode::F).chain([KeyCode::Enter]) {
        for effect in act(&mut state, key(code)) {
            assert!(matches!(effect, Effect::Redraw | Effect::Suspend), "{code:?}: {effect:?}");
        }
        act(&mut state, key(KeyCode::Esc));
    }
    assert_eq!(act(&mut state, with(KeyModifiers::ALT, KeyCode::Char('='))), []);
    assert!(state.notice.as_ref().is_some_and(|notice| notice.text.contains("read-only")));
}

/// Lets time pass until the bots have sent something.
fn wait(state: &mut state::State) -> Vec<Effect> {
    for _ in 0..1000 {
        let now = state.now + Duration::from_millis(50);
        let effects = update(state, Msg::Tick, now);
        if !effects.is_empty() {
            return effects;
        }
    }
    Vec::new()
}

fn end(reason: FinishReason) -> Event {
    Event::Finished(batchroom::engine::api::Finished {
        reason,
        text: "yes".into(),
        message: None,
        prompt_tokens: 3,
        generated_tokens: 2,
        ttft: None,
        tokens_per_s: None,
        preemptions: 0,
        cached_tokens: 0,
        queued: None,
        end_to_end: Duration::from_millis(1),
        tpot: None,
        itl: None,
        predicted_ttft: None,
    })
}

#[test]
fn a_bot_asks_listens_thinks_and_asks_on() {
    let mut state = state(fresh());
    let effects = act(&mut state, with(KeyModifiers::ALT, KeyCode::Char('=')));
    let [Effect::Name { user, name }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((state.people().name(*user), name.as_str()), ("◇bot 1".to_owned(), "bot 1"));
    let user = *user;
    let mut lengths = Vec::new();
    for _ in 0..3 {
        let effects = wait(&mut state);
        let [Effect::Submit { user: who, messages, .. }] = &effects[..] else { panic!("{effects:?}") };
        assert_eq!(*who, user);
        lengths.push(messages.len());
        // It does not ask again before it was answered.
        assert_eq!(wait(&mut state), []);
        act(&mut state, Msg::Engine(user, Event::Token { step: 1, token: 1, text: "Well, ".into() }));
        act(&mut state, Msg::Engine(user, end(FinishReason::Stop)));
    }
    assert_eq!(lengths, [1, 3, 5], "a conversation goes on");
    act(&mut state, with(KeyModifiers::ALT, KeyCode::Char('-')));
    assert_eq!(wait(&mut state), []);
}

#[test]
fn a_refused_bot_waits_longer_each_time() {
    let mut state = state(fresh());
    bots::set_number(&mut state, 1);
    let mut waits = Vec::new();
    for _ in 0..6 {
        let before = state.now;
        let effects = wait(&mut state);
        let [Effect::Submit { user, messages, .. }] = &effects[..] else { panic!("{effects:?}") };
        assert_eq!(messages.len(), 1, "it begins anew");
        waits.push(state.now - before);
        let user = *user;
        act(&mut state, Msg::Engine(user, Event::Rejected(Rejected::EmptyPrompt)));
    }
    assert!(waits[5] >= Duration::from_secs(16), "{waits:?}");
}

#[test]
fn bots_rest_while_the_engine_is_paused_and_when_they_are_sent_away() {
    let mut paused = fresh();
    paused.state = RunState::Paused;
    let mut state = state(paused);
    bots::set_number(&mut state, 3);
    assert_eq!(wait(&mut state), []);
    assert_eq!(bots::next(&state), None);
    act(&mut state, Msg::Snapshot(Arc::new(fresh())));
    assert!(bots::next(&state).is_some());
    let sent = wait(&mut state);
    let users: Vec<UserId> = sent
        .iter()
        .map(|effect| match effect {
            Effect::Submit { user, .. } => *user,
            other => panic!("{other:?}"),
        })
        .collect();
    let gone = bots::set_number(&mut state, 0);
    let abandoned: Vec<UserId> = gone
        .iter()
        .map(|effect| match effect {
            Effect::Abandon(user) => *user,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(users.iter().all(|user| abandoned.contains(user)) && abandoned.len() == users.len());
    // The panels can still name them.
    assert!(state.people().name(users[0]).starts_with("◇bot "));
}

#[test]
fn agents_share_their_instruction_and_documents_are_long() {
    use bots::Load;
    let first = |load: Load| {
        let mut state = state(fresh());
        state.bots.set_load(load);
        bots::set_number(&mut state, 2);
        let mut all = wait(&mut state);
        while all.len() < 2 {
            all.extend(wait(&mut state));
        }
        let texts = all.into_iter().map(|effect| match effect {
            Effect::Submit { messages, .. } => messages.into_iter().map(|message| message.content).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        });
        texts.collect::<Vec<_>>()
    };
    let agents = first(Load::Agents);
    assert!(agents[0][0] == agents[1][0] && agents[0][0].len() > 500 && agents[0][1] != agents[0][0]);
    let (documents, chats) = (first(Load::Documents), first(Load::Chat));
    assert!(documents[0][0].len() > 4 * chats[0][0].len());
}

#[test]
fn a_pane_has_a_priority_of_its_own() {
    let mut state = state(fresh());
    type_text(&mut state, "/set priority 7");
    act(&mut state, key(KeyCode::Enter));
    assert_eq!((state.panes[0].priority, state.panes[1].priority), (7, 0));
    type_text(&mut state, "/set priority high");
    act(&mut state, key(KeyCode::Enter));
    assert_eq!(state.panes[0].priority, 7, "what is no number changes nothing");
}

#[test]
fn the_witness_says_its_verdict_once() {
    use batchroom::batch::RequestId;
    use batchroom::engine::api::{Note, NoteKind, Verdict, Witnessed};
    let mut state = state(fresh());
    act(&mut state, with(KeyModifiers::ALT, KeyCode::Char('h')));
    assert!(state.witness);
    for (request, verdict, bad) in [(1, Verdict::Same, false), (2, Verdict::Differs { at: 3, token: true }, true)] {
        let mut snapshot = fresh();
        let witnessed = Witnessed { request: RequestId(request), user: UserId(0), tokens: 12, verdict };
        snapshot.notes.push_back(Note { step: 9, kind: NoteKind::Witnessed(witnessed) });
        act(&mut state, Msg::Snapshot(Arc::new(snapshot.clone())));
        let notice = state.notice.take().expect("a verdict");
        assert!(notice.bad == bad && notice.text.contains("witness") && notice.text.starts_with("ana"), "{}", notice.text);
        act(&mut state, Msg::Snapshot(Arc::new(snapshot)));
        assert_eq!(state.notice, None, "once");
    }
}

#[test]
fn a_bot_that_comes_or_goes_is_said() {
    let mut state = state(fresh());
    let alt = |c| with(KeyModifiers::ALT, KeyCode::Char(c));
    act(&mut state, alt('='));
    let said = |state: &mut batchroom::ui::state::State| state.notice.take().expect("a notice").text;
    assert_eq!(said(&mut state), "1 bot chats now, of at most 64: load chat, 2.0s between answer and next prompt (F10)");
    act(&mut state, alt('='));
    assert!(said(&mut state).starts_with("2 bots chat now"));
    act(&mut state, alt('-'));
    assert!(said(&mut state).starts_with("1 bot chats now: the newest left"));
    act(&mut state, alt('-'));
    assert_eq!(said(&mut state), "the last bot has left");
    act(&mut state, alt('-'));
    assert_eq!(said(&mut state), "there is no bot that could leave");
    bots::set_number(&mut state, bots::MAX_BOTS);
    act(&mut state, alt('='));
    assert_eq!(said(&mut state), "there are 64 bots already, and no more may come");
    let mut paused = fresh();
    paused.state = RunState::Paused;
    bots::set_number(&mut state, 0);
    act(&mut state, Msg::Snapshot(Arc::new(paused)));
    act(&mut state, alt('='));
    assert!(said(&mut state).contains("when the engine runs again"));
}

#[test]
fn a_bot_is_no_person_of_that_name() {
    let mut state = state(fresh());
    bots::set_number(&mut state, 1);
    state.focused_mut().person.name = "bot 1".into();
    let people = state.people();
    let bot = batchroom::ui::people::FIRST_BOT;
    assert_eq!((people.name(UserId(0)), people.name(UserId(bot))), ("bot 1".into(), "◇bot 1".into()));
    let theme = batchroom::ui::theme::Theme::new(batchroom::ui::theme::Colors::Indexed);
    assert!((0..16).all(|hue| theme.person(hue) != people.style(UserId(bot), theme)), "no colour of a pane");
}

#[test]
fn the_form_says_what_it_changed() {
    let mut state = state(fresh());
    act(&mut state, with(KeyModifiers::ALT, KeyCode::Char('p')));
    act(&mut state, key(KeyCode::Enter));
    assert_eq!(state.notice.take().unwrap().text, "ana: nothing was changed");
    act(&mut state, with(KeyModifiers::ALT, KeyCode::Char('p')));
    for c in "be brief".chars() {
        act(&mut state, key(KeyCode::Char(c)));
    }
    act(&mut state, key(KeyCode::Tab));
    act(&mut state, with(KeyModifiers::CONTROL, KeyCode::Char('u')));
    for c in "0.3".chars() {
        act(&mut state, key(KeyCode::Char(c)));
    }
    act(&mut state, key(KeyCode::Enter));
    assert_eq!(state.notice.take().unwrap().text, "ana from the next prompt on: system: be brief, temperature: 0.3");
}

#[test]
fn bots_are_called_by_a_command_too() {
    let mut state = state(fresh());
    type_text(&mut state, "/bots 3");
    act(&mut state, key(KeyCode::Enter));
    assert_eq!(state.bots.wanted(), 3);
    assert!(state.notice.take().unwrap().text.starts_with("3 bots chat now"));
    type_text(&mut state, "/bots 65");
    act(&mut state, key(KeyCode::Enter));
    assert_eq!((state.bots.wanted(), state.focused().editor.text()), (3, "/bots 65"), "it stays, to be put right");
    assert_eq!(state.notice.take().unwrap().text, "65 is no number from 0 to 64");
}

#[test]
fn quick_turns_are_one_change() {
    use batchroom::engine::api::{Change, Note, NoteKind};
    use batchroom::ui::settings::newest_change;
    let mut state = open_at(Knob::Seats);
    let first = state.snapshot.limits;
    let turn = |state: &mut state::State| {
        let old = state.snapshot.limits;
        let new = limits_of(&act(state, key(KeyCode::Right)));
        let mut snapshot = (*state.snapshot).clone();
        snapshot.limits = new;
        snapshot.notes.push_back(Note { step: snapshot.step, kind: NoteKind::Changed { what: Change::Limits { old, new } } });
        act(state, Msg::Snapshot(Arc::new(snapshot)));
        new
    };
    turn(&mut state);
    turn(&mut state);
    let last = turn(&mut state);
    let shown = |state: &state::State| match newest_change(state) {
        Some(Ok(Change::Limits { old, new })) => (old.max_num_seqs, new.max_num_seqs),
        other => panic!("{other:?}"),
    };
    assert_eq!(shown(&state), (first.max_num_seqs, last.max_num_seqs));
    let later = state.now + Duration::from_secs(10);
    update(&mut state, Msg::Tick, later);
    let next = turn(&mut state);
    assert_eq!(shown(&state), (last.max_num_seqs, next.max_num_seqs), "much later it is another one");
}

#[test]
fn one_esc_leaves_a_value_as_it_was() {
    let mut state = open_at(Knob::Seats);
    act(&mut state, key(KeyCode::Enter));
    act(&mut state, Msg::Paste("many".into()));
    assert_eq!(act(&mut state, key(KeyCode::Enter)), []);
    act(&mut state, key(KeyCode::Esc));
    let state::Mode::Settings(desk) = &state.mode else { panic!("the knobs stay open") };
    assert!(desk.typing.is_none() && desk.error.is_none());
    // The next value begins with nothing.
    act(&mut state, key(KeyCode::Down));
    act(&mut state, key(KeyCode::Up));
    act(&mut state, key(KeyCode::Char('3')));
    assert_eq!(limits_of(&act(&mut state, key(KeyCode::Enter))).max_num_seqs, 3);
}

/// Whole ranges, also of what is chosen, and a count of what is out of view.
#[test]
fn no_range_is_cut() {
    for (columns, lines) in [(80, 24), (120, 36), (160, 45)] {
        let mut state = open_at(Knob::Policy);
        let shown = crate::layouts::picture(&mut state, columns, lines);
        assert!(shown.contains("fcfs, fair, priority"), "{shown}");
        assert!(shown.contains("bots_load") || shown.contains(" more"), "{shown}");
    }
}
