//! Input events as messages: which of them were typed, and which are a paste that the terminal does not mark.

use crossterm::event::{Event as TermEvent, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::update::Msg;

pub(super) fn is_enter(event: &TermEvent) -> bool {
    matches!(event, TermEvent::Key(KeyEvent { code: KeyCode::Enter, modifiers: KeyModifiers::NONE, .. }))
}

/// The character that a key types, line ends included.
fn typed(event: &TermEvent) -> Option<char> {
    match event {
        TermEvent::Key(key) if key.kind != KeyEventKind::Release => match (key.code, key.modifiers) {
            (KeyCode::Char(c), KeyModifiers::NONE | KeyModifiers::SHIFT) => Some(c),
            (KeyCode::Enter, KeyModifiers::NONE) => Some('\n'),
            // A line feed in an unbracketed paste.
            (KeyCode::Char('j'), KeyModifiers::CONTROL) => Some('\n'),
            (KeyCode::Tab, KeyModifiers::NONE) => Some('\t'),
            _ => None,
        },
        _ => None,
    }
}

/// Events as messages; None is a new size. Text with line ends inside that came in one burst is one paste, and so
/// is the rest of a paste.
pub(super) fn into_messages(burst: Vec<TermEvent>, rest_of_paste: bool) -> Vec<Option<Msg>> {
    let text: Option<String> = burst.iter().map(typed).collect();
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        // Enter and then Tab is a prompt sent and the next pane, however fast.
        let body = text.trim_end_matches(['\n', '\t']);
        let lines_inside = body.contains('\n') && body.chars().filter(|c| !c.is_whitespace()).count() > 1;
        if lines_inside || rest_of_paste {
            return vec![Some(Msg::Paste(text))];
        }
    }
    burst
        .into_iter()
        .filter_map(|event| match event {
            TermEvent::Key(key) => Some(Some(Msg::Key(key))),
            TermEvent::Paste(text) => Some(Some(Msg::Paste(text))),
            TermEvent::Resize(..) => Some(None),
            TermEvent::Mouse(event) => Some(Some(Msg::Mouse(event))),
            TermEvent::FocusGained | TermEvent::FocusLost => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<TermEvent> {
        let key = |c| match c {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            c => KeyCode::Char(c),
        };
        text.chars().map(|c| TermEvent::Key(KeyEvent::new(key(c), KeyModifiers::NONE))).collect()
    }

    fn pastes(text: &str) -> usize {
        into_messages(keys(text), false).iter().filter(|msg| matches!(msg, Some(Msg::Paste(_)))).count()
    }

    #[test]
    fn a_burst_with_line_ends_inside_is_a_paste() {
        assert_eq!(pastes("first line\nsecond line\n"), 1);
        assert_eq!(pastes("a\nb"), 1);
    }

    #[test]
    fn a_line_and_its_enter_are_typed_however_fast() {
        assert_eq!(pastes("hello\n"), 0);
        assert_eq!(pastes("x"), 0);
        assert_eq!(pastes("\n\n"), 0);
        assert_eq!(pastes("hello\n\t"), 0, "sent, and to the next pane");
    }

    #[test]
    fn the_rest_of_a_paste_sends_nothing() {
        let messages = into_messages(keys("its last line\n"), true);
        assert!(matches!(&messages[..], [Some(Msg::Paste(text))] if text == "its last line\n"));
    }
}
