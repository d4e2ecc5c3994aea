//! The tables of keys: of the room, and of a replay. What a key does, the help, the footer and the palette are all made
//! from them.

use std::sync::OnceLock;

use super::fuzzy;
use super::words::Lang;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::pick::PickAct;

mod over;
mod tables;

pub use over::{View, offered_over, over};
pub use tables::{ALONE, LOOK, PICK, REPLAY, TABLE};

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
    Show(Preset),
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
    Witness,
    Log,
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
    Glance(Glance),
    Stroll(Stroll),
    Edit(Edit),
}

impl Action {
    /// Changes neither what is open nor the focused pane, and is seen whatever has the screen: the engine's pace, bots, switches.
    pub fn works_anywhere(self) -> bool {
        matches!(
            self,
            Action::Pause
                | Action::Step
                | Action::StepTen
                | Action::Slower
                | Action::Faster
                | Action::FullSpeed
                | Action::MoreBots
                | Action::FewerBots
                | Action::Witness
                | Action::Mouse
        )
    }
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

/// What the machine room can be asked from anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glance {
    LookBack,
    NextPanel,
    Freeze,
    Sort,
    Span,
    /// How fast this machine's memory can be read.
    Measure,
}

/// Which rooms are shown, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    Watch,
    Teach,
    Chat,
}

/// Moves over the steps that were, and inside a panel that is alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroll {
    Back,
    On,
    PageBack,
    PageOn,
    First,
    Last,
    EventBack,
    EventOn,
    Closer,
    Wider,
    Up,
    Down,
    Seek,
    Leave,
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
    Look,
    Alone,
}

impl Group {
    pub const ALL: [Group; 10] = [
        Group::Look,
        Group::Alone,
        Group::Replay,
        Group::Chat,
        Group::Panes,
        Group::Engine,
        Group::Model,
        Group::Program,
        Group::Picking,
        Group::Editing,
    ];

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
            Group::Look => "Looking back",
            Group::Alone => "One panel",
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
    /// Works whatever is configured.
    pub const INTERRUPT: Key = Key::ctrl('c');

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
            ("space", ..) if mods.intersects(CTRL | ALT) => KeyCode::Char(' '),
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
            // Terminals send no Shift with a letter, and Alt with a digit goes to a pane.
            (_, Some(ch), None) if mods.contains(SHIFT) || (mods == ALT && matches!(ch, '1'..='9')) => return None,
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
#[derive(Clone, Copy, Debug)]
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

/// Whether an action would still have a key with these changes.
pub fn has_key(changes: &[(Action, Vec<Key>)], action: Action) -> bool {
    match changes.iter().find(|(other, _)| *other == action) {
        Some((_, keys)) => !keys.is_empty(),
        None => {
            let taken = |key: &Key| changes.iter().any(|(_, keys)| keys.contains(key));
            TABLE.iter().any(|binding| binding.action == action && binding.keys.iter().any(|key| !taken(key)))
        }
    }
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
    let bound = table.iter().find(|binding| binding.keys.contains(&key)).map(|binding| binding.action);
    bound.or((key == Key::INTERRUPT).then_some(Action::Cancel))
}

/// The key to show for an action.
pub fn key_for(action: Action) -> String {
    key_in(room(), action)
}

/// The same in a table; empty: it has none there.
pub fn key_in(table: &[Binding], action: Action) -> String {
    let binding = table.iter().find(|binding| binding.action == action);
    binding.and_then(|binding| binding.keys.first()).map(|key| display(action, *key)).unwrap_or_default()
}

fn display(action: Action, key: Key) -> String {
    match action {
        Action::Edit(Edit::Undo) => "Ctrl-/".into(),
        _ => key.label(),
    }
}

/// Other words that people look for an action by.
fn also_called(action: Action) -> String {
    match action {
        Action::Settings => {
            let knobs: Vec<&str> = super::settings::Knob::ALL.iter().map(|knob| knob.name()).collect();
            format!("token budget kv memory limits seats options preferences {}", knobs.join(" "))
        }
        Action::Export => "save download markdown json".into(),
        Action::Glance(Glance::LookBack) => "why was who preempted history of steps timeline scroll back".into(),
        Action::Glance(Glance::NextPanel) => {
            "events charts ledger percentiles latencies kv map users full screen expand zoom panel".into()
        }
        Action::View | Action::Show(_) => "layout preset chat watch teach machine room".into(),
        Action::Glance(Glance::Measure) => "memory bandwidth GB/s roofline speed of this machine B/s".into(),
        Action::ClearChat => "clear reset new chat".into(),
        Action::Help => "help keys glossary words".into(),
        Action::Regenerate => "regenerate retry redo answer".into(),
        Action::Params => "temperature seed parameters options persona preset".into(),
        Action::NewPane => "add a person user".into(),
        Action::MoreBots => "load generator users".into(),
        _ => String::new(),
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
            let (name, also) = (action_name(binding.action), also_called(binding.action));
            let english = fuzzy::fold(&format!("{} · {} · {name} · {also}", binding.about, binding.short));
            let score = fuzzy::score(&filter, &own).max(fuzzy::score(&filter, &english));
            score.map(|score| (score, binding))
        })
        .collect();
    found.sort_by_key(|(score, _)| -score);
    found.into_iter().map(|(_, binding)| binding).collect()
}
