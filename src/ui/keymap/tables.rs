//! The tables themselves: of the room, of a replay, of choosing a message, of looking back, of one panel alone.

use crossterm::event::KeyCode;

use super::{ALT, Action, Binding, CTRL, Edit, Film, Glance, Group, Key, PickAct, Preset, SHIFT, Stroll, bind};

/// Keys, actions, words. The footer shows the rows with a short name, in this order, as many as fit.
pub const TABLE: &[Binding] = &[
    bind(Action::Palette, &[Key::ctrl('p')], "actions", "everything: list every action and run one", Group::Program),
    bind(Action::Send, &[Key::plain(KeyCode::Enter)], "send", "send the draft", Group::Chat),
    bind(
        Action::Newline,
        &[Key::with(KeyCode::Enter, ALT), Key::ctrl('j'), Key::with(KeyCode::Enter, SHIFT), Key::with(KeyCode::Enter, CTRL)],
        "",
        "new line in the draft",
        Group::Chat,
    ),
    bind(Action::Pause, &[Key::plain(KeyCode::F(2))], "pause", "pause the engine, or let it run", Group::Engine),
    bind(Action::Step, &[Key::plain(KeyCode::F(3))], "step", "pause and make one step", Group::Engine),
    bind(
        Action::Glance(Glance::LookBack),
        &[Key::plain(KeyCode::F(11))],
        "past",
        "look back at the steps that were",
        Group::Engine,
    ),
    bind(Action::View, &[Key::plain(KeyCode::F(8))], "view", "the next view: watch, teach, chat", Group::Panes),
    PRESETS[0],
    PRESETS[1],
    PRESETS[2],
    bind(
        Action::Settings,
        &[Key::plain(KeyCode::F(10))],
        "knobs",
        "settings: the engine's knobs, all of them live",
        Group::Engine,
    ),
    bind(Action::NextPane, &[Key::plain(KeyCode::Tab)], "pane", "go to the next pane", Group::Panes),
    bind(Action::Cancel, &[Key::ctrl('c')], "stop", "stop this pane's answer; with none to stop, quit", Group::Chat),
    bind(Action::Slower, &[Key::plain(KeyCode::F(4))], "slower", "slow motion: fewer steps a second", Group::Engine),
    bind(Action::Faster, &[Key::plain(KeyCode::F(5))], "faster", "more steps a second", Group::Engine),
    bind(Action::Broadcast, &[Key::plain(KeyCode::F(9))], "to all", "send what is typed to all panes, on or off", Group::Chat),
    bind(Action::Help, &[Key::plain(KeyCode::F(1))], "help", "these keys", Group::Program),
    bind(Action::SendAll, &[Key::alt('a')], "", "send this draft to all panes, once", Group::Chat),
    bind(Action::ClearChat, &[Key::ctrl('n')], "", "new conversation in this pane", Group::Chat),
    bind(Action::Regenerate, &[Key::alt('r')], "again", "answer the last prompt again, as a branch", Group::Chat),
    bind(Action::Continue, &[Key::alt('g')], "", "the last answer goes on", Group::Chat),
    bind(Action::Rewrite, &[Key::alt('e')], "", "write the last prompt anew, as a branch", Group::Chat),
    bind(Action::Beside, &[Key::alt('n')], "", "answer the last prompt in a new pane too: a fork", Group::Chat),
    bind(Action::BranchBefore, &[Key::alt(',')], "", "the branch before", Group::Chat),
    bind(Action::BranchAfter, &[Key::alt('.')], "", "the next branch", Group::Chat),
    bind(Action::PickMessage, &[Key::alt('m')], "", "choose a message: edit, copy, delete", Group::Chat),
    bind(Action::CopyAnswer, &[Key::alt('c')], "", "copy the last answer (OSC 52)", Group::Chat),
    bind(Action::Export, &[Key::alt('w')], "", "write the conversation to a file", Group::Chat),
    bind(Action::Search, &[Key::ctrl('s')], "", "look for a text in the conversations", Group::Chat),
    bind(Action::Raw, &[Key::alt('v')], "", "answers as Markdown, or as they were written", Group::Chat),
    bind(Action::OtherEditor, &[Key::alt('o')], "", "write the draft in your editor ($VISUAL, $EDITOR)", Group::Chat),
    bind(Action::PageUp, &[Key::plain(KeyCode::PageUp)], "", "scroll up a page (text holds still there)", Group::Chat),
    bind(Action::PageDown, &[Key::plain(KeyCode::PageDown)], "", "scroll down a page", Group::Chat),
    bind(Action::LineUp, &[Key::with(KeyCode::Up, SHIFT)], "", "scroll up a line", Group::Chat),
    bind(Action::LineDown, &[Key::with(KeyCode::Down, SHIFT)], "", "scroll down a line", Group::Chat),
    bind(Action::Top, &[Key::with(KeyCode::Home, CTRL)], "", "to the beginning of the conversation", Group::Chat),
    bind(Action::Bottom, &[Key::with(KeyCode::End, CTRL)], "", "to its end, and follow it again", Group::Chat),
    bind(
        Action::PrevPane,
        &[Key::plain(KeyCode::BackTab), Key::with(KeyCode::Tab, SHIFT)],
        "",
        "go to the pane before",
        Group::Panes,
    ),
    bind(Action::FocusPane(1), &[Key::alt('1')], "", "go to pane 1; Alt-2 to Alt-9 likewise", Group::Panes),
    bind(Action::NewPane, &[Key::ctrl('t')], "", "new pane: one more person", Group::Panes),
    bind(Action::ClosePane, &[Key::ctrl('x')], "", "close this pane", Group::Panes),
    bind(Action::History, &[Key::alt('y')], "", "open an earlier conversation in this pane, or find one", Group::Chat),
    bind(Action::Rename, &[Key::ctrl('r')], "", "rename this pane", Group::Panes),
    bind(Action::Params, &[Key::alt('p')], "", "this pane's system prompt and sampling", Group::Panes),
    bind(Action::Zoom, &[Key::ctrl('o'), Key::plain(KeyCode::F(7))], "", "this pane alone, or all", Group::Panes),
    bind(Action::StepTen, &[Key::with(KeyCode::F(3), SHIFT), Key::alt('0')], "", "pause and make ten steps", Group::Engine),
    bind(Action::Glance(Glance::NextPanel), &[Key::plain(KeyCode::F(12))], "", "one panel alone, then the next", Group::Engine),
    bind(Action::Glance(Glance::Freeze), &[Key::alt('z')], "", "hold the panels still while the engine runs on", Group::Engine),
    bind(Action::Glance(Glance::Sort), &[Key::alt('s')], "", "sort the users by the next column", Group::Engine),
    bind(Action::Glance(Glance::Span), &[Key::alt('t')], "", "charts of 60 s, 10 min, 1 h, 24 h", Group::Engine),
    MEASURE,
    bind(Action::FullSpeed, &[Key::plain(KeyCode::F(6))], "", "full speed", Group::Engine),
    bind(
        Action::Witness,
        &[Key::alt('h')],
        "",
        "witness: compute each answer again alone at its end, and compare",
        Group::Engine,
    ),
    bind(Action::MoreBots, &[Key::alt('=')], "", "one more bot: somebody who chats by themselves", Group::Engine),
    bind(Action::FewerBots, &[Key::alt('-')], "", "one bot fewer", Group::Engine),
    bind(Action::Model, &[Key::ctrl('g')], "", "get the better model, stop that, or switch to it", Group::Model),
    bind(Action::SwitchBack, &[], "", "switch back to the model before", Group::Model),
    bind(Action::Mouse, &[Key::alt('u')], "", "the mouse chooses panes and scrolls, or selects text again", Group::Program),
    bind(Action::Log, &[Key::alt('l')], "", "the log: what the program notes for itself", Group::Program),
    bind(Action::Redraw, &[Key::ctrl('l')], "", "draw the screen again", Group::Program),
    bind(Action::Suspend, &[Key::ctrl('z')], "", "to the shell; fg comes back", Group::Program),
    bind(Action::Quit, &[], "", "quit batchroom", Group::Program),
    bind(Action::Back, &[Key::plain(KeyCode::Esc)], "", "close what is open; asks before it discards", Group::Program),
    bind(Action::Edit(Edit::Left), &[Key::plain(KeyCode::Left)], "", "left", Group::Editing),
    bind(Action::Edit(Edit::Right), &[Key::plain(KeyCode::Right), Key::ctrl('f')], "", "right", Group::Editing),
    bind(
        Action::Edit(Edit::WordLeft),
        &[Key::with(KeyCode::Left, CTRL), Key::with(KeyCode::Left, ALT), Key::alt('b')],
        "",
        "a word left",
        Group::Editing,
    ),
    bind(
        Action::Edit(Edit::WordRight),
        &[Key::with(KeyCode::Right, CTRL), Key::with(KeyCode::Right, ALT), Key::alt('f')],
        "",
        "a word right",
        Group::Editing,
    ),
    bind(Action::Edit(Edit::Up), &[Key::plain(KeyCode::Up)], "", "up; in the first line, an earlier prompt", Group::Editing),
    bind(Action::Edit(Edit::Down), &[Key::plain(KeyCode::Down)], "", "down; in the last line, a later prompt", Group::Editing),
    bind(Action::Edit(Edit::Home), &[Key::plain(KeyCode::Home), Key::ctrl('a')], "", "to the line's start", Group::Editing),
    bind(Action::Edit(Edit::End), &[Key::plain(KeyCode::End), Key::ctrl('e')], "", "to the line's end", Group::Editing),
    bind(
        Action::Edit(Edit::Backspace),
        &[Key::plain(KeyCode::Backspace), Key::ctrl('h'), Key::with(KeyCode::Backspace, SHIFT)],
        "",
        "delete to the left",
        Group::Editing,
    ),
    bind(Action::Edit(Edit::Delete), &[Key::plain(KeyCode::Delete), Key::ctrl('d')], "", "delete to the right", Group::Editing),
    bind(
        Action::Edit(Edit::DeleteWordBefore),
        &[Key::ctrl('w'), Key::with(KeyCode::Backspace, ALT), Key::with(KeyCode::Backspace, CTRL)],
        "",
        "delete the word before",
        Group::Editing,
    ),
    bind(
        Action::Edit(Edit::DeleteWordAfter),
        &[Key::alt('d'), Key::with(KeyCode::Delete, CTRL)],
        "",
        "delete the word after",
        Group::Editing,
    ),
    bind(Action::Edit(Edit::DeleteToStart), &[Key::ctrl('u')], "", "delete to the line's start", Group::Editing),
    bind(Action::Edit(Edit::DeleteToEnd), &[Key::ctrl('k')], "", "delete to the line's end", Group::Editing),
    bind(Action::Edit(Edit::Undo), &[Key::ctrl('7'), Key::ctrl('/'), Key::ctrl('_')], "", "undo (Ctrl-/)", Group::Editing),
    bind(Action::Edit(Edit::Redo), &[Key::ctrl('y')], "", "redo", Group::Editing),
];

const fn pick(act: PickAct, keys: &'static [Key], short: &'static str, about: &'static str) -> Binding {
    bind(Action::Pick(act), keys, short, about, Group::Picking)
}

/// The keys while a message is being chosen: nothing is typed then.
pub const PICK: &[Binding] = &[
    pick(PickAct::Up, &[Key::plain(KeyCode::Up), Key::plain(KeyCode::Char('k'))], "", "the message before"),
    pick(PickAct::Down, &[Key::plain(KeyCode::Down), Key::plain(KeyCode::Char('j'))], "", "the next message"),
    pick(
        PickAct::Edit,
        &[Key::plain(KeyCode::Char('e')), Key::plain(KeyCode::Enter)],
        "edit",
        "write an own message anew; sent, it stands beside it",
    ),
    pick(PickAct::Regenerate, &[Key::plain(KeyCode::Char('r'))], "again", "answer it again, as a branch"),
    pick(PickAct::Copy, &[Key::plain(KeyCode::Char('c'))], "copy", "copy it"),
    pick(PickAct::CopyBlock, &[Key::plain(KeyCode::Char('b'))], "code", "copy its last block of code; again: the one before"),
    pick(PickAct::Continue, &[Key::plain(KeyCode::Char('g'))], "go on", "this answer goes on"),
    pick(PickAct::Beside, &[Key::plain(KeyCode::Char('n'))], "beside", "answer it in a new pane too"),
    pick(PickAct::Before, &[Key::plain(KeyCode::Left), Key::plain(KeyCode::Char(',')), Key::alt(',')], "", "the branch before"),
    pick(PickAct::After, &[Key::plain(KeyCode::Right), Key::plain(KeyCode::Char('.')), Key::alt('.')], "", "the next branch"),
    pick(PickAct::Delete, &[Key::plain(KeyCode::Char('d'))], "delete", "delete it and all that follows it (asks)"),
    pick(PickAct::Leave, &[Key::plain(KeyCode::Esc), Key::alt('m'), Key::ctrl('c')], "", "leave it"),
];

const fn film(film: Film, keys: &'static [Key], short: &'static str, about: &'static str) -> Binding {
    bind(Action::Replay(film), keys, short, about, Group::Replay)
}

/// The keys of a replay: nothing is typed there, so letters are keys.
pub const REPLAY: &[Binding] = &[
    film(Film::Play, &[Key::plain(KeyCode::Char(' ')), Key::plain(KeyCode::F(2))], "play", "play, or pause"),
    film(Film::Back, &[Key::plain(KeyCode::Left)], "back", "one step back"),
    film(Film::On, &[Key::plain(KeyCode::Right), Key::plain(KeyCode::F(3))], "step", "one step on"),
    film(Film::GoTo, &[Key::plain(KeyCode::Char('g'))], "go to", "go to a step by its number"),
    bind(Action::Quit, &[Key::plain(KeyCode::Char('q')), Key::ctrl('c')], "quit", "quit; Esc twice does too", Group::Program),
    film(Film::Slower, &[Key::plain(KeyCode::Char('-')), Key::plain(KeyCode::F(4))], "slower", "play at half the speed"),
    film(
        Film::Faster,
        &[Key::plain(KeyCode::Char('+')), Key::plain(KeyCode::F(5)), Key::plain(KeyCode::Char('='))],
        "faster",
        "play at twice the speed",
    ),
    bind(Action::View, &[Key::plain(KeyCode::F(8))], "panels", "the next view: watch, teach, chat", Group::Panes),
    PRESETS[0],
    PRESETS[1],
    PRESETS[2],
    bind(
        Action::Glance(Glance::LookBack),
        &[Key::plain(KeyCode::F(11))],
        "look back",
        "look back at the steps that were",
        Group::Engine,
    ),
    bind(Action::Glance(Glance::NextPanel), &[Key::plain(KeyCode::F(12))], "", "one panel alone, then the next", Group::Engine),
    bind(Action::Glance(Glance::Freeze), &[Key::alt('z')], "", "hold the panels still while the engine runs on", Group::Engine),
    bind(Action::Glance(Glance::Sort), &[Key::alt('s')], "", "sort the users by the next column", Group::Engine),
    bind(Action::Glance(Glance::Span), &[Key::alt('t')], "", "charts of 60 s, 10 min, 1 h, 24 h", Group::Engine),
    film(Film::FarBack, &[Key::plain(KeyCode::PageUp)], "", "100 steps back"),
    film(Film::FarOn, &[Key::plain(KeyCode::PageDown)], "", "100 steps on"),
    film(Film::First, &[Key::plain(KeyCode::Home)], "", "to the beginning"),
    film(Film::Last, &[Key::plain(KeyCode::End)], "", "to the end"),
    bind(Action::NextPane, &[Key::plain(KeyCode::Tab)], "pane", "go to the next pane", Group::Panes),
    bind(
        Action::PrevPane,
        &[Key::plain(KeyCode::BackTab), Key::with(KeyCode::Tab, SHIFT)],
        "",
        "go to the pane before",
        Group::Panes,
    ),
    bind(Action::FocusPane(1), &[Key::alt('1')], "", "go to pane 1; Alt-2 to Alt-9 likewise", Group::Panes),
    bind(Action::Zoom, &[Key::ctrl('o'), Key::plain(KeyCode::F(7))], "", "this pane alone, or all", Group::Panes),
    bind(Action::LineUp, &[Key::plain(KeyCode::Up), Key::with(KeyCode::Up, SHIFT)], "", "scroll up a line", Group::Chat),
    bind(Action::LineDown, &[Key::plain(KeyCode::Down), Key::with(KeyCode::Down, SHIFT)], "", "scroll down a line", Group::Chat),
    bind(Action::Top, &[Key::with(KeyCode::Home, CTRL)], "", "to the beginning of the conversation", Group::Chat),
    bind(Action::Bottom, &[Key::with(KeyCode::End, CTRL)], "", "to its end, and follow it again", Group::Chat),
    bind(Action::Search, &[Key::ctrl('s')], "", "look for a text in the conversations", Group::Chat),
    bind(Action::CopyAnswer, &[Key::alt('c')], "", "copy the last answer (OSC 52)", Group::Chat),
    bind(Action::Raw, &[Key::alt('v')], "", "answers as Markdown, or as they were written", Group::Chat),
    bind(Action::Palette, &[Key::ctrl('p')], "", "list every action and run one", Group::Program),
    bind(Action::Mouse, &[Key::alt('u')], "", "the mouse chooses panes and scrolls, or selects text again", Group::Program),
    bind(Action::Help, &[Key::plain(KeyCode::F(1))], "help", "these keys", Group::Program),
    bind(Action::Redraw, &[Key::ctrl('l')], "", "draw the screen again", Group::Program),
    bind(Action::Suspend, &[Key::ctrl('z')], "", "to the shell; fg comes back", Group::Program),
    bind(Action::Back, &[Key::plain(KeyCode::Esc)], "", "close what is open; twice: quit", Group::Program),
];

const fn look(stroll: Stroll, keys: &'static [Key], short: &'static str, about: &'static str) -> Binding {
    bind(Action::Stroll(stroll), keys, short, about, Group::Look)
}

const fn alone(stroll: Stroll, keys: &'static [Key], short: &'static str, about: &'static str) -> Binding {
    bind(Action::Stroll(stroll), keys, short, about, Group::Alone)
}

/// The keys while steps are looked back at: nothing is typed there, so letters are keys. The engine's keys stay.
pub const LOOK: &[Binding] = &[
    look(
        Stroll::Leave,
        &[Key::plain(KeyCode::Esc), Key::plain(KeyCode::Char('q')), Key::ctrl('c')],
        "live again",
        "back to what is live",
    ),
    look(Stroll::Back, &[Key::plain(KeyCode::Left)], "step back", "one step back"),
    look(Stroll::On, &[Key::plain(KeyCode::Right)], "step on", "one step on; at the end, what has come since"),
    look(
        Stroll::EventBack,
        &[Key::plain(KeyCode::Char('p')), Key::plain(KeyCode::Char('['))],
        "event before",
        "the event before: admission, preemption, end, refusal, change",
    ),
    look(Stroll::EventOn, &[Key::plain(KeyCode::Char('n')), Key::plain(KeyCode::Char(']'))], "next event", "the next event"),
    look(Stroll::Wider, &[Key::plain(KeyCode::Char('-'))], "wider", "more steps a column: 2, 5, 10, up to 100"),
    look(
        Stroll::Closer,
        &[Key::plain(KeyCode::Char('+')), Key::plain(KeyCode::Char('='))],
        "closer",
        "fewer steps a column, down to 1",
    ),
    look(Stroll::PageBack, &[Key::plain(KeyCode::PageUp)], "", "a screen of steps back"),
    look(Stroll::PageOn, &[Key::plain(KeyCode::PageDown)], "", "a screen of steps on"),
    look(Stroll::First, &[Key::plain(KeyCode::Home)], "", "the oldest step that is kept"),
    look(Stroll::Last, &[Key::plain(KeyCode::End)], "", "the newest step, as of now"),
    look(Stroll::Up, &[Key::plain(KeyCode::Up)], "", "scroll the words about the step up"),
    look(Stroll::Down, &[Key::plain(KeyCode::Down)], "", "scroll them down"),
    look(Stroll::Seek, &[Key::plain(KeyCode::Enter)], "", "in a replay: go to this step"),
    bind(Action::Glance(Glance::LookBack), &[Key::plain(KeyCode::F(11))], "", "back to what is live, too", Group::Look),
    ENGINE[0],
    ENGINE[1],
    ENGINE[2],
    ENGINE[3],
    ENGINE[4],
    bind(Action::Glance(Glance::NextPanel), &[Key::plain(KeyCode::F(12))], "", "one panel alone, then the next", Group::Engine),
    PROGRAM[0],
    PROGRAM[1],
    PROGRAM[2],
    PROGRAM[3],
    PROGRAM[4],
    PROGRAM[5],
    PROGRAM[6],
    PROGRAM[7],
];

/// The keys while one panel is alone.
pub const ALONE: &[Binding] = &[
    alone(
        Stroll::Leave,
        &[Key::plain(KeyCode::Esc), Key::plain(KeyCode::Char('q')), Key::ctrl('c')],
        "all panels",
        "back to the rooms",
    ),
    bind(Action::Glance(Glance::NextPanel), &[Key::plain(KeyCode::F(12))], "next panel", "the next panel", Group::Alone),
    alone(Stroll::Up, &[Key::plain(KeyCode::Up)], "", "scroll up"),
    alone(Stroll::Down, &[Key::plain(KeyCode::Down)], "", "scroll down"),
    alone(Stroll::PageBack, &[Key::plain(KeyCode::PageUp)], "", "scroll up a page"),
    alone(Stroll::PageOn, &[Key::plain(KeyCode::PageDown)], "", "scroll down a page"),
    alone(Stroll::First, &[Key::plain(KeyCode::Home)], "", "to the top"),
    alone(Stroll::Last, &[Key::plain(KeyCode::End)], "", "to the bottom"),
    bind(
        Action::Glance(Glance::LookBack),
        &[Key::plain(KeyCode::F(11))],
        "look back",
        "look back at the steps that were",
        Group::Engine,
    ),
    bind(
        Action::Glance(Glance::Sort),
        &[Key::alt('s'), Key::plain(KeyCode::Char('s'))],
        "",
        "sort the users by the next column",
        Group::Engine,
    ),
    bind(
        Action::Glance(Glance::Span),
        &[Key::alt('t'), Key::plain(KeyCode::Char('t'))],
        "",
        "charts of 60 s, 10 min, 1 h, 24 h",
        Group::Engine,
    ),
    bind(
        Action::Glance(Glance::Measure),
        &[Key::alt('x'), Key::plain(KeyCode::Char('x'))],
        "",
        "measure how fast this machine's memory can be read",
        Group::Engine,
    ),
    bind(Action::Glance(Glance::Freeze), &[Key::alt('z')], "", "hold the panels still while the engine runs on", Group::Engine),
    ENGINE[0],
    ENGINE[1],
    ENGINE[2],
    ENGINE[3],
    ENGINE[4],
    PROGRAM[0],
    PROGRAM[1],
    PROGRAM[2],
    PROGRAM[3],
    PROGRAM[4],
    PROGRAM[5],
    PROGRAM[6],
    PROGRAM[7],
];

/// A view of its own each, from anywhere.
const PRESETS: [Binding; 3] = [
    preset(Preset::Watch, &[Key::alt('i')], "watch: conversations, and the machine beside them"),
    preset(Preset::Teach, &[Key::alt('j')], "teach: the machine alone, and the newest step in words"),
    preset(Preset::Chat, &[Key::alt('k')], "chat: the conversations alone"),
];

const fn preset(preset: Preset, keys: &'static [Key], about: &'static str) -> Binding {
    bind(Action::Show(preset), keys, "", about, Group::Panes)
}

const MEASURE: Binding = bind(
    Action::Glance(Glance::Measure),
    &[Key::alt('x')],
    "",
    "measure how fast this machine's memory can be read",
    Group::Engine,
);

/// What holds for the engine wherever one is.
const ENGINE: [Binding; 5] = [
    bind(Action::Pause, &[Key::plain(KeyCode::F(2))], "pause", "pause the engine, or let it run", Group::Engine),
    bind(Action::Step, &[Key::plain(KeyCode::F(3))], "", "pause and make one step", Group::Engine),
    bind(Action::Slower, &[Key::plain(KeyCode::F(4))], "", "slow motion: fewer steps a second", Group::Engine),
    bind(Action::Faster, &[Key::plain(KeyCode::F(5))], "", "more steps a second", Group::Engine),
    bind(Action::FullSpeed, &[Key::plain(KeyCode::F(6))], "", "full speed", Group::Engine),
];

/// What holds for the program while the machine room is looked into.
const PROGRAM: [Binding; 8] = [
    bind(Action::View, &[Key::plain(KeyCode::F(8))], "", "the next view: watch, teach, chat", Group::Panes),
    PRESETS[0],
    PRESETS[1],
    PRESETS[2],
    bind(Action::Palette, &[Key::ctrl('p')], "", "list every action and run one", Group::Program),
    bind(Action::Help, &[Key::plain(KeyCode::F(1))], "help", "these keys", Group::Program),
    bind(Action::Redraw, &[Key::ctrl('l')], "", "draw the screen again", Group::Program),
    bind(Action::Suspend, &[Key::ctrl('z')], "", "to the shell; fg comes back", Group::Program),
];
