//! The tables of keys: of the room, and of a replay. What a key does, the help, the footer and the palette are all made
//! from them.

use std::sync::OnceLock;

use super::fuzzy;
use super::words::Lang;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::pick::PickAct;

/// Everything a person can ask of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Send,
    SendAll,
    Newline,
    NextPane,
    PrevPane,
    FocusPane(u8),
    NewPane,
    ClosePane,
    Rename,
    Params,
    Zoom,
    View,
    Broadcast,
    Cancel,
    ClearChat,
    Pause,
    Step,
    StepTen,
    Slower,
    Faster,
    FullSpeed,
    Model,
    SwitchBack,
    Settings,
    MoreBots,
    FewerBots,
    Mouse,
    History,
    Help,
    Palette,
    PageUp,
    PageDown,
    LineUp,
    LineDown,
    Top,
    Bottom,
    Redraw,
    Suspend,
    Quit,
    Back,
    Regenerate,
    Continue,
    Rewrite,
    Beside,
    BranchBefore,
    BranchAfter,
    CopyAnswer,
    PickMessage,
    Raw,
    OtherEditor,
    Export,
    Search,
    Pick(PickAct),
    Replay(Film),
    Edit(Edit),
}

/// What can be done with a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Film {
    Play,
    On,
    Back,
    FarOn,
    FarBack,
    First,
    Last,
    Slower,
    Faster,
    GoTo,
}

/// Moves and changes inside an editor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    Left,
    Right,
    WordLeft,
    WordRight,
    Up,
    Down,
    Home,
    End,
    Backspace,
    Delete,
    DeleteWordBefore,
    DeleteWordAfter,
    DeleteToStart,
    DeleteToEnd,
    Undo,
    Redo,
}

/// Where an action stands in the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Chat,
    Panes,
    Engine,
    Model,
    Program,
    Editing,
    Picking,
    Replay,
}

impl Group {
    pub const ALL: [Group; 8] =
        [Group::Replay, Group::Chat, Group::Panes, Group::Engine, Group::Model, Group::Program, Group::Picking, Group::Editing];

    pub fn title(self) -> &'static str {
        match self {
            Group::Chat => "Chat",
            Group::Panes => "Panes",
            Group::Engine => "Machine room",
            Group::Model => "Model",
            Group::Program => "Program",
            Group::Editing => "Editing",
            Group::Picking => "Choosing a message (Alt-M)",
            Group::Replay => "Replay",
        }
    }
}

/// One key with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub code: KeyCode,
    pub mods: KeyModifiers,
}

impl Key {
    const fn plain(code: KeyCode) -> Key {
        Key { code, mods: KeyModifiers::NONE }
    }

    const fn ctrl(ch: char) -> Key {
        Key { code: KeyCode::Char(ch), mods: KeyModifiers::CONTROL }
    }

    const fn alt(ch: char) -> Key {
        Key { code: KeyCode::Char(ch), mods: KeyModifiers::ALT }
    }

    const fn with(code: KeyCode, mods: KeyModifiers) -> Key {
        Key { code, mods }
    }

    /// Reads what [`Key::label`] says, in any case: `Ctrl-P`, `alt-enter`, `F2`, `Shift-Up`.
    pub fn parse(text: &str) -> Option<Key> {
        let mut mods = KeyModifiers::NONE;
        let lower = text.trim().to_lowercase();
        let mut rest = lower.as_str();
        for (name, modifier) in [("ctrl-", CTRL), ("alt-", ALT), ("shift-", SHIFT), ("ctrl-", CTRL), ("alt-", ALT)] {
            if let Some(after) = rest.strip_prefix(name).filter(|after| !after.is_empty()) {
                mods |= modifier;
                rest = after;
            }
        }
        let mut chars = rest.chars();
        let code = match (rest, chars.next(), chars.next()) {
            ("enter", ..) => KeyCode::Enter,
            ("tab", ..) if mods.contains(SHIFT) => return Some(Key { code: KeyCode::BackTab, mods: mods.difference(SHIFT) }),
            ("tab", ..) => KeyCode::Tab,
            ("esc", ..) => KeyCode::Esc,
            ("space", ..) => KeyCode::Char(' '),
            ("backspace", ..) => KeyCode::Backspace,
            ("del" | "delete", ..) => KeyCode::Delete,
            ("up" | "↑", ..) => KeyCode::Up,
            ("down" | "↓", ..) => KeyCode::Down,
            ("left" | "←", ..) => KeyCode::Left,
            ("right" | "→", ..) => KeyCode::Right,
            ("home", ..) => KeyCode::Home,
            ("end", ..) => KeyCode::End,
            ("pgup" | "pageup", ..) => KeyCode::PageUp,
            ("pgdn" | "pagedown", ..) => KeyCode::PageDown,
            (_, Some('f'), Some(_)) => KeyCode::F(rest[1..].parse().ok().filter(|number| (1..=24).contains(number))?),
            // A letter alone is text.
            (_, Some(ch), None) if mods.intersects(CTRL | ALT) => KeyCode::Char(ch),
            _ => return None,
        };
        Some(Key { code, mods })
    }

    /// `Ctrl-P`, `Alt-Enter`, `F2`.
    pub fn label(self) -> String {
        let mut label = String::new();
        for (modifier, name) in [(KeyModifiers::CONTROL, "Ctrl-"), (KeyModifiers::ALT, "Alt-"), (KeyModifiers::SHIFT, "Shift-")] {
            if self.mods.contains(modifier) {
                label.push_str(name);
            }
        }
        match self.code {
            KeyCode::Char(' ') => label.push_str("Space"),
            KeyCode::Char(ch) if self.mods.is_empty() => label.push(ch),
            KeyCode::Char(ch) => label.extend(ch.to_uppercase()),
            KeyCode::F(number) => label.push_str(&format!("F{number}")),
            KeyCode::BackTab => return "Shift-Tab".into(),
            KeyCode::PageUp => label.push_str("PgUp"),
            KeyCode::PageDown => label.push_str("PgDn"),
            KeyCode::Delete => label.push_str("Del"),
            KeyCode::Up => label.push('↑'),
            KeyCode::Down => label.push('↓'),
            KeyCode::Left => label.push('←'),
            KeyCode::Right => label.push('→'),
            other => label.push_str(&format!("{other:?}")),
        }
        label
    }
}

/// One row of the table.
#[derive(Debug)]
pub struct Binding {
    pub action: Action,
    /// The first is the one to show.
    pub keys: &'static [Key],
    /// One or two words for the footer; empty: not in the footer.
    pub short: &'static str,
    pub about: &'static str,
    pub group: Group,
}

const fn bind(action: Action, keys: &'static [Key], short: &'static str, about: &'static str, group: Group) -> Binding {
    Binding { action, keys, short, about, group }
}

const ALT: KeyModifiers = KeyModifiers::ALT;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;

/// Keys, actions, words. The footer shows the rows with a short name, in this order, as many as fit.
pub const TABLE: &[Binding] = &[
    bind(Action::Send, &[Key::plain(KeyCode::Enter)], "send", "send the draft", Group::Chat),
    bind(
        Action::Newline,
        &[Key::with(KeyCode::Enter, ALT), Key::ctrl('j'), Key::with(KeyCode::Enter, SHIFT), Key::with(KeyCode::Enter, CTRL)],
        "",
        "new line in the draft",
        Group::Chat,
    ),
    bind(Action::NextPane, &[Key::plain(KeyCode::Tab)], "pane", "go to the next pane", Group::Panes),
    bind(Action::Cancel, &[Key::ctrl('c')], "stop", "stop this pane's answer; with none to stop, quit", Group::Chat),
    bind(Action::Pause, &[Key::plain(KeyCode::F(2))], "pause", "pause the engine, or let it run", Group::Engine),
    bind(Action::Step, &[Key::plain(KeyCode::F(3))], "step", "pause and make one step", Group::Engine),
    bind(Action::View, &[Key::plain(KeyCode::F(8))], "panels", "both rooms, all panels, chats only", Group::Panes),
    bind(Action::Settings, &[Key::plain(KeyCode::F(10))], "settings", "the engine's knobs, all of them live", Group::Engine),
    bind(Action::Palette, &[Key::ctrl('p')], "everything", "list every action and run one", Group::Program),
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
    bind(Action::FullSpeed, &[Key::plain(KeyCode::F(6))], "", "full speed", Group::Engine),
    bind(Action::MoreBots, &[Key::alt('=')], "", "one more bot: somebody who chats by themselves", Group::Engine),
    bind(Action::FewerBots, &[Key::alt('-')], "", "one bot fewer", Group::Engine),
    bind(Action::Model, &[Key::ctrl('g')], "", "get the better model, stop that, or switch to it", Group::Model),
    bind(Action::SwitchBack, &[], "", "switch back to the model before", Group::Model),
    bind(Action::Mouse, &[Key::alt('u')], "", "the mouse chooses panes and scrolls, or selects text again", Group::Program),
    bind(Action::Redraw, &[Key::ctrl('l')], "", "draw the screen again", Group::Program),
    bind(Action::Suspend, &[Key::ctrl('z')], "", "to the shell; fg comes back", Group::Program),
    bind(Action::Quit, &[], "", "quit batchroom", Group::Program),
    bind(Action::Back, &[Key::plain(KeyCode::Esc)], "", "close what is open; never loses anything", Group::Program),
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
    bind(Action::View, &[Key::plain(KeyCode::F(8))], "panels", "both rooms, all panels, chats only", Group::Panes),
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
    bind(Action::Help, &[Key::plain(KeyCode::F(1))], "help", "these keys", Group::Program),
    bind(Action::Redraw, &[Key::ctrl('l')], "", "draw the screen again", Group::Program),
    bind(Action::Suspend, &[Key::ctrl('z')], "", "to the shell; fg comes back", Group::Program),
    bind(Action::Back, &[Key::plain(KeyCode::Esc)], "", "close what is open; twice: quit", Group::Program),
];

static ROOM: OnceLock<&'static [Binding]> = OnceLock::new();

/// The keys of the room that are in force.
pub fn room() -> &'static [Binding] {
    ROOM.get().copied().unwrap_or(TABLE)
}

/// Puts other keys in force, once, before the screen opens. A key that is taken from an action is that action's no more.
pub fn remap(changes: &[(Action, Vec<Key>)]) {
    if changes.is_empty() {
        return;
    }
    let taken = |key: &Key| changes.iter().any(|(_, keys)| keys.contains(key));
    let row = |row: &Binding| {
        let keys: Vec<Key> = match changes.iter().find(|(action, _)| *action == row.action) {
            Some((_, keys)) => keys.clone(),
            None => row.keys.iter().copied().filter(|key| !taken(key)).collect(),
        };
        // Once in the life of the program.
        Binding { action: row.action, keys: keys.leak(), short: row.short, about: row.about, group: row.group }
    };
    let table: Vec<Binding> = TABLE.iter().map(row).collect();
    let _ = ROOM.set(table.leak());
}

/// What `config.toml` calls an action: `step_ten`, `edit_word_left`, `focus_pane_1`.
pub fn action_name(action: Action) -> String {
    let mut name = String::new();
    for ch in format!("{action:?}").chars() {
        match ch {
            '(' => name.push('_'),
            ')' => {}
            ch if ch.is_uppercase() => {
                if !name.is_empty() && !name.ends_with('_') {
                    name.push('_');
                }
                name.extend(ch.to_lowercase());
            }
            ch => name.push(ch),
        }
    }
    name
}

pub fn action_named(name: &str) -> Option<Action> {
    TABLE.iter().map(|binding| binding.action).find(|action| action_name(*action) == name)
}

pub fn nearest_name(name: &str) -> Option<String> {
    let near = |known: &String| strsim::jaro_winkler(known, name);
    let names = TABLE.iter().map(|binding| action_name(binding.action));
    names.filter(|known| near(known) > 0.8).max_by(|a, b| near(a).total_cmp(&near(b)))
}

/// What a key asks for; None when it is text, or nothing.
pub fn lookup(table: &[Binding], event: &KeyEvent) -> Option<Action> {
    let mut mods = event.modifiers & (CTRL | ALT | SHIFT);
    let mut code = event.code;
    if let KeyCode::Char(ch) = code {
        mods.remove(SHIFT);
        if mods.intersects(CTRL | ALT) {
            code = KeyCode::Char(ch.to_lowercase().next().unwrap_or(ch));
        }
        if mods == ALT
            && let Some(number @ 1..=9) = ch.to_digit(10)
        {
            return Some(Action::FocusPane(number as u8));
        }
    }
    if code == KeyCode::BackTab {
        mods.remove(SHIFT);
    }
    let key = Key { code, mods };
    table.iter().find(|binding| binding.keys.contains(&key)).map(|binding| binding.action)
}

/// The key to show for an action.
pub fn key_for(action: Action) -> String {
    let binding = room().iter().find(|binding| binding.action == action);
    binding.and_then(|binding| binding.keys.first()).map(|key| display(action, *key)).unwrap_or_default()
}

fn display(action: Action, key: Key) -> String {
    match action {
        Action::Edit(Edit::Undo) => "Ctrl-/".into(),
        _ => key.label(),
    }
}

/// The rows that the palette offers for what was typed, best first. English finds them in every language.
pub fn search(table: &'static [Binding], filter: &str, lang: Lang) -> Vec<&'static Binding> {
    let filter = fuzzy::fold(filter);
    let mut found: Vec<(i32, &Binding)> = table
        .iter()
        .filter(|binding| binding.group != Group::Editing && !matches!(binding.action, Action::Palette | Action::Back))
        .filter_map(|binding| {
            let (about, group) = (lang.tr(binding.about), lang.tr(binding.group.title()));
            let own = fuzzy::fold(&format!("{about} · {} · {group}", lang.tr(binding.short)));
            let english = fuzzy::fold(&format!("{} · {} · {}", binding.about, binding.short, action_name(binding.action)));
            let score = fuzzy::score(&filter, &own).max(fuzzy::score(&filter, &english));
            score.map(|score| (score, binding))
        })
        .collect();
    found.sort_by_key(|(score, _)| -score);
    found.into_iter().map(|(_, binding)| binding).collect()
}
