//! Sequences that terminals send for keys and the mouse, as crossterm's events. What is no key (an answer to a question that
//! somebody else has asked, a report) is nothing.

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind, MouseEventKind::*,
};

fn key(code: KeyCode, modifiers: KeyModifiers) -> Option<Event> {
    Some(Event::Key(KeyEvent::new(code, modifiers)))
}

/// A byte that is a key by itself.
pub(super) fn control(byte: u8) -> Option<KeyEvent> {
    let with_ctrl = |letter: u8| KeyEvent::new(KeyCode::Char(char::from(letter)), KeyModifiers::CONTROL);
    Some(match byte {
        b'\r' => KeyCode::Enter.into(),
        b'\t' => KeyCode::Tab.into(),
        0x7F => KeyCode::Backspace.into(),
        0 => with_ctrl(b' '),
        0x01..=0x1A => with_ctrl(byte - 1 + b'a'),
        0x1C..=0x1F => with_ctrl(byte - 0x1C + b'4'),
        _ => return None,
    })
}

/// A character that was typed.
pub(super) fn typed(letter: char) -> KeyEvent {
    let modifiers = if letter.is_uppercase() { KeyModifiers::SHIFT } else { KeyModifiers::NONE };
    KeyEvent::new(KeyCode::Char(letter), modifiers)
}

/// ESC O and a letter.
pub(super) fn ss3(letter: u8) -> Option<Event> {
    let code = match letter {
        b'P'..=b'S' => KeyCode::F(1 + letter - b'P'),
        b'M' => KeyCode::Enter,
        letter => cursor(letter)?,
    };
    key(code, KeyModifiers::NONE)
}

/// ESC [ [ and a letter: function keys of the Linux console.
pub(super) fn console(letter: u8) -> Option<Event> {
    matches!(letter, b'A'..=b'E').then(|| key(KeyCode::F(1 + letter - b'A'), KeyModifiers::NONE)).flatten()
}

fn cursor(letter: u8) -> Option<KeyCode> {
    Some(match letter {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'F' => KeyCode::End,
        b'H' => KeyCode::Home,
        _ => return None,
    })
}

/// ESC [, parameters, a letter. None: it is no key.
pub(super) fn csi(parameters: &[u8], last: u8) -> Option<Event> {
    let parameters = std::str::from_utf8(parameters).ok()?;
    if let Some(mouse) = parameters.strip_prefix('<') {
        return mouse_event(mouse, last, 0);
    }
    // Private parameters are those of answers; intermediate bytes are those of reports.
    if !parameters.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':')) {
        return None;
    }
    let mut fields = parameters.split(';');
    let first = fields.next().unwrap_or_default();
    let (modifiers, kind) = modifiers(fields.next().unwrap_or_default());
    let number: Option<u32> = first.split(':').next().and_then(|number| number.parse().ok());
    let with = |code| Some(Event::Key(KeyEvent::new_with_kind(code, modifiers, kind)));
    match last {
        b'Z' => key(KeyCode::BackTab, KeyModifiers::SHIFT),
        // R is where the cursor is, and never F3.
        b'P' | b'Q' | b'S' => with(KeyCode::F(1 + last - b'P')),
        b'~' => with(numbered(number?)?),
        b'u' => unicode(first, number?, modifiers, kind),
        b'M' => mouse_event(parameters, last, 32),
        _ => with(cursor(last)?),
    }
}

/// `5` or `5:1`: modifiers, and what happened to the key.
fn modifiers(field: &str) -> (KeyModifiers, KeyEventKind) {
    let mut parts = field.split(':');
    let mask: u8 = parts.next().and_then(|mask| mask.parse::<u16>().ok()).map_or(0, |mask| (mask.saturating_sub(1) & 63) as u8);
    let kind = match parts.next() {
        Some("2") => KeyEventKind::Repeat,
        Some("3") => KeyEventKind::Release,
        _ => KeyEventKind::Press,
    };
    let all = [
        KeyModifiers::SHIFT,
        KeyModifiers::ALT,
        KeyModifiers::CONTROL,
        KeyModifiers::SUPER,
        KeyModifiers::HYPER,
        KeyModifiers::META,
    ];
    let set = all.into_iter().enumerate().filter(|(bit, _)| mask & (1 << bit) != 0);
    (set.fold(KeyModifiers::NONE, |modifiers, (_, one)| modifiers | one), kind)
}

/// ESC [ N ~
fn numbered(number: u32) -> Option<KeyCode> {
    Some(match number {
        1 | 7 => KeyCode::Home,
        2 => KeyCode::Insert,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        11..=15 => KeyCode::F(number as u8 - 10),
        17..=21 => KeyCode::F(number as u8 - 11),
        23..=26 => KeyCode::F(number as u8 - 12),
        28..=29 => KeyCode::F(number as u8 - 15),
        31..=34 => KeyCode::F(number as u8 - 17),
        _ => return None,
    })
}

/// ESC [ N u, of the kitty keyboard protocol and of xterm's modifyOtherKeys.
fn unicode(field: &str, number: u32, mut modifiers: KeyModifiers, kind: KeyEventKind) -> Option<Event> {
    let mut code = match (number, char::from_u32(number)?) {
        (57_344..=63_743, _) => functional(number)?,
        (_, '\x1b') => KeyCode::Esc,
        (_, '\r') => KeyCode::Enter,
        (_, '\t') if modifiers.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
        (_, '\t') => KeyCode::Tab,
        (_, '\x7f') => KeyCode::Backspace,
        (_, letter) => KeyCode::Char(letter),
    };
    // What Shift makes of it, from terminals that say so.
    let shifted = field.split(':').nth(1).and_then(|number| number.parse().ok()).and_then(char::from_u32);
    if let Some(letter) = shifted.filter(|_| modifiers.contains(KeyModifiers::SHIFT)) {
        code = KeyCode::Char(letter);
        modifiers -= KeyModifiers::SHIFT;
    }
    Some(Event::Key(KeyEvent::new_with_kind(code, modifiers, kind)))
}

/// The protocol's own numbers. Keys of locks, media and modifiers alone do nothing here.
fn functional(number: u32) -> Option<KeyCode> {
    const PAD: [KeyCode; 10] = [
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::Insert,
        KeyCode::Delete,
    ];
    Some(match number {
        57_376..=57_398 => KeyCode::F((number - 57_376 + 13) as u8),
        57_399..=57_408 => KeyCode::Char(char::from(b'0' + (number - 57_399) as u8)),
        57_409 => KeyCode::Char('.'),
        57_410 => KeyCode::Char('/'),
        57_411 => KeyCode::Char('*'),
        57_412 => KeyCode::Char('-'),
        57_413 => KeyCode::Char('+'),
        57_414 => KeyCode::Enter,
        57_415 => KeyCode::Char('='),
        57_416 => KeyCode::Char(','),
        57_417..=57_426 => PAD[(number - 57_417) as usize],
        _ => return None,
    })
}

/// `BUTTON;COLUMN;ROW`; older terminals add something to the button.
fn mouse_event(fields: &str, last: u8, added: u8) -> Option<Event> {
    let mut fields = fields.split(';');
    let button = fields.next()?.parse::<u8>().ok()?.checked_sub(added)?;
    let mut place = || fields.next()?.parse::<u16>().ok().map(|place| place.saturating_sub(1));
    let (column, row) = (place()?, place()?);
    let released = |kind| match kind {
        Down(button) if last == b'm' => Up(button),
        kind => kind,
    };
    matches!(last, b'm' | b'M').then_some(())?;
    Some(Event::Mouse(MouseEvent { kind: released(pressed(button)?), column, row, modifiers: held(button) }))
}

/// ESC [ M and three bytes.
pub(super) fn old_mouse(bytes: [u8; 3]) -> Option<Event> {
    let [button, column, row] = bytes.map(|byte| byte.saturating_sub(32));
    let place = |place: u8| u16::from(place.saturating_sub(1));
    Some(Event::Mouse(MouseEvent { kind: pressed(button)?, column: place(column), row: place(row), modifiers: held(button) }))
}

fn pressed(button: u8) -> Option<MouseEventKind> {
    let number = (button & 0b11) | ((button & 0b1100_0000) >> 4);
    let which = match number {
        0 => MouseButton::Left,
        1 => MouseButton::Middle,
        _ => MouseButton::Right,
    };
    Some(match (number, button & 0b10_0000 != 0) {
        (0..=2, false) => Down(which),
        (0..=2, true) => Drag(which),
        (3, false) => Up(MouseButton::Left),
        (3..=5, true) => Moved,
        (4, false) => ScrollUp,
        (5, false) => ScrollDown,
        (6, false) => ScrollLeft,
        (7, false) => ScrollRight,
        _ => return None,
    })
}

fn held(button: u8) -> KeyModifiers {
    let bits = [(0b100, KeyModifiers::SHIFT), (0b1000, KeyModifiers::ALT), (0b1_0000, KeyModifiers::CONTROL)];
    bits.into_iter().filter(|(bit, _)| button & bit != 0).fold(KeyModifiers::NONE, |all, (_, one)| all | one)
}
