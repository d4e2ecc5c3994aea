use crossterm::event::KeyEvent;

use super::*;
use crate::random::SplitMix64;

fn name(event: &Event) -> String {
    match event {
        Event::Key(KeyEvent { code, modifiers, .. }) => {
            let code = match code {
                KeyCode::Char(letter) => letter.to_string(),
                code => format!("<{code:?}>"),
            };
            let names = [(KeyModifiers::CONTROL, "C-"), (KeyModifiers::ALT, "A-"), (KeyModifiers::SHIFT, "S-")];
            let held: String = names.iter().filter(|(one, _)| modifiers.contains(*one)).map(|(_, name)| *name).collect();
            // A capital says Shift by itself.
            if held == "S-" && code.len() == 1 { code } else { format!("{held}{code}") }
        }
        Event::Paste(text) => format!("[{text}]"),
        other => format!("{other:?}"),
    }
}

/// Pieces, each so many milliseconds after the one before; then a long silence.
fn heard(pieces: &[(u64, &[u8])]) -> String {
    let (mut parser, mut now, mut events) = (Parser::default(), Instant::now(), Vec::new());
    for (wait, piece) in pieces {
        let then = now + Duration::from_millis(*wait);
        while let Some(patience) = parser.patience().filter(|patience| now + *patience <= then) {
            now += patience;
            events.extend(parser.tick(now));
        }
        now = then;
        events.extend(parser.feed(piece, now));
    }
    while let Some(patience) = parser.patience() {
        now += patience;
        events.extend(parser.tick(now));
    }
    events.iter().map(name).collect()
}

fn at_once(bytes: &str) -> String {
    heard(&[(0, bytes.as_bytes())])
}

#[test]
fn keys_are_what_they_are() {
    for (bytes, keys) in [
        ("aé測Z", "aé測Z"),
        ("\r\t\x7f\x03\n\0\x1c", "<Enter><Tab><Backspace>C-cC-jC- C-4"),
        ("\x1b", "<Esc>"),
        ("\x1b\x1b", "<Esc><Esc>"),
        ("\x1ba\x1b\r\x1b\x7f\x1b9\x1bé", "A-aA-<Enter>A-<Backspace>A-9A-é"),
        ("\x1b[A\x1b[B\x1b[C\x1b[D\x1b[H\x1b[F\x1b[Z", "<Up><Down><Right><Left><Home><End>S-<BackTab>"),
        ("\x1bOA\x1bOP\x1bOS\x1b[15~\x1b[24~\x1b[[B", "<Up><F(1)><F(4)><F(5)><F(12)><F(2)>"),
        ("\x1b[1;5C\x1b[1;3D\x1b[3;5~\x1b[5~\x1b[6~\x1b[2~", "C-<Right>A-<Left>C-<Delete><PageUp><PageDown><Insert>"),
        ("\x1b[13;2u\x1b[27u\x1b[99;5u\x1b[97;6u\x1b[9;2u\x1b[97:65;2u", "S-<Enter><Esc>C-cC-S-aS-<BackTab>A"),
        ("\x1b[57399u\x1b[57414u\x1b[57424u\x1b[57441u", "0<Enter><End>"),
        ("\x1b[200~two\nlines \x1b[31m\x1b[201~x", "[two\nlines \x1b[31m]x"),
        ("\x1b]", "A-]"),
        ("\x1bP", "A-S-P"),
        ("\x1b[", "A-["),
        ("\x1b]a", "A-]a"),
        ("\x1bPa", "A-S-Pa"),
    ] {
        assert_eq!(at_once(bytes), keys, "{bytes:?}");
    }
    let mouse = at_once("\x1b[<0;5;7M");
    assert!(mouse.contains("Down(Left)") && mouse.contains("column: 4") && mouse.contains("row: 6"), "{mouse}");
    assert!(at_once("\x1b[<0;5;7m").contains("Up(Left)"));
    assert!(at_once("\x1b[<64;1;1M").contains("ScrollUp") && at_once("\x1b[M !!").contains("Down(Left)"));
    assert!(at_once("\x1b[32;5;7M").contains("Down(Left)"));
}

/// Answers and reports of terminals.
const REPORTS: [&str; 18] = [
    "\x1b]11;rgb:1e1e/1e1e/1e1e\x07",
    "\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\",
    "\x1b]4;1;rgb:cccc/0000/0000\x1b\\",
    "\x1b]52;c;aGVsbG8=\x07",
    "\x1b[?62;22;52c",
    "\x1b[>0;276;0c",
    "\x1b[=1;1c",
    "\x1bP!|00000000\x1b\\",
    "\x1bP>|XTerm(370)\x1b\\",
    "\x1bP1+r544e=787465726d\x1b\\",
    "\x1bP1$r0m\x1b\\",
    "\x1b_Gi=31;OK\x1b\\",
    "\x1b[12;40R",
    "\x1b[0n",
    "\x1b[?2026;2$y",
    "\x1b[?997;1n",
    "\x1b[8;36;120t",
    "\x1b[?1u",
];

#[test]
fn reports_are_never_typed() {
    for report in REPORTS {
        assert_eq!(at_once(report), "", "{report:?}");
        assert_eq!(at_once(&format!("a{report}b")), "ab", "{report:?}");
        let bytes = report.as_bytes();
        // In two pieces, the second soon, late and very late; an Esc or an Alt-] that counted meanwhile writes nothing.
        for cut in 1..bytes.len() {
            for wait in [1, 20, 45, 100, 250] {
                let keys = heard(&[(0, &bytes[..cut]), (wait, &bytes[cut..]), (3000, b"ok")]);
                assert!(keys == "ok" || cut == 1 && keys == "<Esc>ok", "{report:?} cut at {cut}, {wait} ms: {keys}");
            }
        }
        for (cut, keys) in [(1, "<Esc>ok"), (2, "A-")] {
            let found = heard(&[(0, &bytes[..cut]), (900, &bytes[cut..]), (3000, b"ok")]);
            assert!(found.starts_with(keys) && found.ends_with("ok") && found.len() <= 7, "{report:?}: {found}");
        }
        // Byte by byte over a slow line.
        let slow: Vec<(u64, &[u8])> = bytes.chunks(1).map(|byte| (12, byte)).chain([(3000, &b"ok"[..])]).collect();
        assert_eq!(heard(&slow), "ok", "{report:?}");
    }
    for focus in ["\x1b[I", "\x1b[O"] {
        assert_eq!(at_once(&format!("a{focus}b")), "ab");
    }
}

#[test]
fn what_fingers_type_is_typed() {
    let hand = |text: &'static str| -> String {
        let keys: Vec<(u64, &[u8])> = text.as_bytes().chunks(1).map(|key| (90, key)).collect();
        heard(&keys)
    };
    assert_eq!(hand("\x1b[1;2c"), "<Esc>[1;2c");
    assert_eq!(hand("\x1b]11;rgb"), "<Esc>]11;rgb");
    assert_eq!(heard(&[(0, b"\x1b"), (500, b"hello there")]), "<Esc>hello there");
    assert_eq!(heard(&[(0, b"\x1b]"), (900, b"hello"), (90, b"1")]), "A-]hello1");
    // An arrow key whose bytes a slow line tears apart is one all the same.
    assert_eq!(heard(&[(0, b"\x1b"), (400, b"[A")]), "<Esc><Up>");
    assert_eq!(heard(&[(0, b"\x1b["), (200, b"A")]), "<Up>");
    // Half a report, and somebody who goes on typing.
    assert_eq!(heard(&[(0, b"\x1b]11;rgb:1e1e"), (1500, b"x"), (90, b"y")]), "xy");
    assert_eq!(heard(&[(0, b"\x1b]11;rgb:1e1e"), (100, b"\x03")]), "C-c", "never caught in a report");
    assert_eq!(heard(&[(0, b"\x1b[200~half"), (11_000, b"x")]), "[half]x");
}

#[test]
fn pieces_make_no_difference_and_nothing_panics() {
    let mut dice = SplitMix64(11);
    const ALPHABET: &[u8] = b"\x1b\x1b\x1b[[]]PO_\\;;019?>$<MmAtuRc~ab\r\x07\xc3\xa9\xff\x03";
    for round in 0..3000 {
        let length = dice.range(1, 40) as usize;
        let bytes: Vec<u8> = (0..length).map(|_| ALPHABET[dice.range(0, ALPHABET.len() as u64 - 1) as usize]).collect();
        let one = heard(&[(0, &bytes)]);
        let pieces: Vec<(u64, &[u8])> = bytes.chunks(1).map(|byte| (0, byte)).collect();
        assert_eq!(heard(&pieces), one, "round {round}: {bytes:?}");
        let late: Vec<(u64, &[u8])> = bytes.chunks(3).map(|piece| (dice.range(0, 2500), piece)).collect();
        heard(&late);
    }
}

#[test]
fn a_paste_has_a_bound() {
    let mut parser = Parser::default();
    let now = Instant::now();
    assert!(parser.feed(b"\x1b[200~", now).is_empty());
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..20 {
        assert!(parser.feed(&piece, now).is_empty());
    }
    match &parser.feed(b"\x1b[201~", now)[..] {
        [Event::Paste(text)] => assert_eq!(text.len(), PASTE_MAX),
        other => panic!("{} events", other.len()),
    }
}
