//! How the room opens: names, many panes, colours, terminals that will not do.

use crate::harness::*;

#[test]
fn names_of_the_panes() {
    let terminal = Spec::room(&["--panes", "3", "--names", "Zoë,Minh"]).start();
    for text in ["1 Zoë", "2 Minh", "3 ana"] {
        terminal.expect(text);
    }
}

#[test]
fn sixteen_panes() {
    let mut terminal = Spec::room(&["--panes", "16", "--max-tokens", "4", "--pace", "full"]).size(240, 70).start();
    let names =
        ["ana", "bình", "chi", "dũng", "eva", "felix", "giang", "hoa", "ivo", "jun", "kim", "linh", "mai", "nam", "oto", "phúc"];
    for name in names {
        terminal.expect(name);
    }
    terminal.keys("Say hello.");
    terminal.expect("> Say hello.");
    // To all, once.
    terminal.keys("\x1ba");
    terminal.expect_times("❯ Say hello.", 16);
    terminal.expect_times("cut at max_tokens (4)", 16);
    terminal.expect("16 finished");
}

#[test]
fn no_color_means_none() {
    let mut terminal = Spec::room(&["--max-tokens", "4", "--pace", "full"]).env("NO_COLOR", "1").start();
    terminal.expect("live batch");
    terminal.send("Say hello.");
    terminal.expect("cut at max_tokens (4)");
    terminal.keys(F1);
    terminal.expect("new line in the draft");
    // The last bytes may be half of a character.
    let written = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    let mut styles = 0;
    for sequence in written.split("\x1b[").skip(1) {
        let Some(end) = sequence.find(|c: char| !c.is_ascii_digit() && c != ';') else { continue };
        if !sequence[end..].starts_with('m') {
            continue;
        }
        styles += 1;
        for number in sequence[..end].split(';') {
            let colour = matches!(number.parse::<u32>(), Ok(30..=38 | 40..=48 | 58 | 90..=97 | 100..=107));
            assert!(!colour, "a colour: {:?}", &sequence[..=end]);
        }
    }
    assert!(styles > 0, "bold and dim are still there");
}

#[test]
fn a_dumb_terminal_is_refused() {
    let mut terminal = Spec::room(&[]).env("TERM", "dumb").start();
    assert_eq!(terminal.status(), 1);
    // The last bytes may be half of a character.
    let written = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    assert!(written.contains("TERM is `dumb`") && written.contains("batchroom ask"), "{written:?}");
    assert!(!written.contains('\x1b'), "{written:?}");
}

#[test]
fn no_terminal_is_refused() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_batchroom")).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("needs a terminal") && said.contains("batchroom ask"), "{said:?}");
    assert_eq!(said.lines().count(), 1, "{said:?}");
}
