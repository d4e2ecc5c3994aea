//! The tables of keys: of the room, and of a replay. What a key does, the help, the footer and the palette are all made
//! from them.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

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
    Replay(Film),
    Glance(Glance),
    Stroll(Stroll),
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

/// What the machine room can be asked from anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glance {
    LookBack,
    NextPanel,
    Freeze,
    Sort,
    Span,
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
    Replay,
    Look,
    Alone,
}

impl Group {
    pub const ALL: [Group; 9] = [
        Group::Look,
        Group::Alone,
        Group::Replay,
        Group::Chat,
        Group::Panes,
        Group::Engine,
        Group::Model,
        Group::Program,
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
    bind(Action::View, &[Key::plain(KeyCode::F(8))], "panels", "watch (both rooms), teach (all panels), chat", Group::Panes),
    bind(Action::Pause, &[Key::plain(KeyCode::F(2))], "pause", "pause the engine, or let it run", Group::Engine),
    bind(Action::Step, &[Key::plain(KeyCode::F(3))], "step", "pause and make one step", Group::Engine),
    bind(Action::Slower, &[Key::plain(KeyCode::F(4))], "slower", "slow motion: fewer steps a second", Group::Engine),
    bind(Action::Faster, &[Key::plain(KeyCode::F(5))], "faster", "more steps a second", Group::Engine),
    bind(Action::Broadcast, &[Key::plain(KeyCode::F(9))], "to all", "send what is typed to all panes, on or off", Group::Chat),
    bind(Action::Palette, &[Key::ctrl('p')], "everything", "list every action and run one", Group::Program),
    bind(Action::Help, &[Key::plain(KeyCode::F(1))], "help", "these keys", Group::Program),
    bind(Action::SendAll, &[Key::alt('a')], "", "send this draft to all panes, once", Group::Chat),
    bind(Action::ClearChat, &[Key::ctrl('n')], "", "new conversation in this pane", Group::Chat),
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
    bind(Action::Rename, &[Key::ctrl('r')], "", "rename this pane", Group::Panes),
    bind(Action::Params, &[Key::alt('p')], "", "this pane's system prompt and sampling", Group::Panes),
    bind(Action::Zoom, &[Key::ctrl('o'), Key::plain(KeyCode::F(7))], "", "this pane alone, or all", Group::Panes),
    bind(Action::StepTen, &[Key::with(KeyCode::F(3), SHIFT), Key::alt('0')], "", "pause and make ten steps", Group::Engine),
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
    bind(Action::FullSpeed, &[Key::plain(KeyCode::F(6))], "", "full speed", Group::Engine),
    bind(Action::Model, &[Key::ctrl('g')], "", "get the better model, stop that, or switch to it", Group::Model),
    bind(Action::SwitchBack, &[], "", "switch back to the model before", Group::Model),
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
    bind(Action::View, &[Key::plain(KeyCode::F(8))], "panels", "watch (both rooms), teach (all panels), chat", Group::Panes),
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
    bind(Action::Palette, &[Key::ctrl('p')], "", "list every action and run one", Group::Program),
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
    bind(Action::View, &[Key::plain(KeyCode::F(8))], "", "watch (both rooms), teach (all panels), chat", Group::Panes),
    bind(Action::Palette, &[Key::ctrl('p')], "", "list every action and run one", Group::Program),
    bind(Action::Help, &[Key::plain(KeyCode::F(1))], "help", "these keys", Group::Program),
    bind(Action::Redraw, &[Key::ctrl('l')], "", "draw the screen again", Group::Program),
    bind(Action::Suspend, &[Key::ctrl('z')], "", "to the shell; fg comes back", Group::Program),
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
    bind(Action::Glance(Glance::Freeze), &[Key::alt('z')], "", "hold the panels still while the engine runs on", Group::Engine),
    ENGINE[0],
    ENGINE[1],
    ENGINE[2],
    ENGINE[3],
    ENGINE[4],
    bind(Action::View, &[Key::plain(KeyCode::F(8))], "", "watch (both rooms), teach (all panels), chat", Group::Panes),
    bind(Action::Palette, &[Key::ctrl('p')], "", "list every action and run one", Group::Program),
    bind(Action::Help, &[Key::plain(KeyCode::F(1))], "help", "these keys", Group::Program),
    bind(Action::Redraw, &[Key::ctrl('l')], "", "draw the screen again", Group::Program),
    bind(Action::Suspend, &[Key::ctrl('z')], "", "to the shell; fg comes back", Group::Program),
];

/// What holds for the engine wherever one is.
const ENGINE: [Binding; 5] = [
    bind(Action::Pause, &[Key::plain(KeyCode::F(2))], "pause", "pause the engine, or let it run", Group::Engine),
    bind(Action::Step, &[Key::plain(KeyCode::F(3))], "", "pause and make one step", Group::Engine),
    bind(Action::Slower, &[Key::plain(KeyCode::F(4))], "", "slow motion: fewer steps a second", Group::Engine),
    bind(Action::Faster, &[Key::plain(KeyCode::F(5))], "", "more steps a second", Group::Engine),
    bind(Action::FullSpeed, &[Key::plain(KeyCode::F(6))], "", "full speed", Group::Engine),
];

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
    let binding = TABLE.iter().find(|binding| binding.action == action);
    binding.and_then(|binding| binding.keys.first()).map(|key| display(action, *key)).unwrap_or_default()
}

fn display(action: Action, key: Key) -> String {
    match action {
        Action::Edit(Edit::Undo) => "Ctrl-/".into(),
        _ => key.label(),
    }
}

/// The rows that the palette offers for what was typed, best first: all words must occur.
pub fn search(table: &'static [Binding], filter: &str) -> Vec<&'static Binding> {
    let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
    let mut found: Vec<(usize, &Binding)> = table
        .iter()
        .filter(|binding| binding.group != Group::Editing && !matches!(binding.action, Action::Palette | Action::Back))
        .filter_map(|binding| {
            let text = format!("{} {} {}", binding.about, binding.short, binding.group.title()).to_lowercase();
            let places: Option<Vec<usize>> = words.iter().map(|word| text.find(word.as_str())).collect();
            places.map(|places| (places.iter().sum(), binding))
        })
        .collect();
    if !words.is_empty() {
        found.sort_by_key(|(place, _)| *place);
    }
    found.into_iter().map(|(_, binding)| binding).collect()
}
