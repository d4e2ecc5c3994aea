//! A fault with its causes, in one sentence.

/// The messages of an error and its causes, joined by colons. A cause that the messages before have named already
/// (many of ours do, where it reads best) is not said twice.
pub fn words(error: &anyhow::Error) -> String {
    let mut said = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

/// What is wrong with a line of JSON, without the names that only this program's source has.
pub fn json_words(error: &serde_json::Error) -> String {
    let said = error.to_string();
    // There is one line, and whoever reads it says which.
    let said = said.split(" at line ").next().unwrap_or_default();
    let column = if error.column() > 0 { format!(" (column {})", error.column()) } else { String::new() };
    let mut words = said.to_owned();
    let names = [
        ("expected u", "expected a whole number"),
        ("expected i", "expected a whole number"),
        ("expected f", "expected a number"),
        ("expected a string", "expected a text"),
        ("expected a sequence", "expected a list"),
        ("expected a map", "expected an object"),
        ("expected struct ", "expected an object"),
    ];
    for (ours, plain) in names {
        let Some(at) = words.find(ours) else { continue };
        let rest = &words[at + ours.len()..];
        let name = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        // `u32`, `usize`, `f32`; words of English that begin so are none.
        let a_type = matches!(&rest[..name], "8" | "16" | "32" | "64" | "size") || ours.contains("struct");
        if a_type || ours.len() > "expected u".len() {
            let end = at + ours.len() + if a_type { name } else { 0 };
            words.replace_range(at..end, plain);
        }
    }
    for (ours, plain) in [("invalid type: sequence", "a list"), ("invalid type: map", "an object")] {
        words = words.replace(ours, plain);
    }
    for kind in ["string", "integer", "floating point", "boolean"] {
        words = words.replace(&format!("invalid type: {kind} "), "");
        words = words.replace(&format!("invalid value: {kind} "), "");
    }
    format!("{words}{column}")
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;
    use crate::model::ModelError;

    #[test]
    fn json_is_told_in_plain_words() {
        #[derive(Debug, serde::Deserialize)]
        #[allow(dead_code, reason = "read by nobody")]
        struct Row {
            count: Option<usize>,
            rate: Option<f32>,
            text: Option<String>,
            list: Option<Vec<u32>>,
        }
        let said = |text: &str| json_words(&serde_json::from_str::<Row>(text).unwrap_err());
        assert_eq!(said("{\"count\":\"x\"}"), "\"x\", expected a whole number (column 12)");
        assert_eq!(said("{\"count\":-1}"), "`-1`, expected a whole number (column 11)");
        assert_eq!(said("{\"rate\":true}"), "`true`, expected a number (column 12)");
        assert_eq!(said("{\"text\":3}"), "`3`, expected a text (column 9)");
        assert_eq!(said("{\"list\":3}"), "`3`, expected a list (column 9)");
        for text in ["[", "3", "{\"text\":", "\"x\"", "{\"list\":[\"a\"]}"] {
            let said = said(text);
            assert!(!["usize", "u32", "f32", "struct", "Row", "sequence"].iter().any(|word| said.contains(word)), "{said}");
        }
    }

    #[test]
    fn a_cause_is_said_once() {
        let refused = || std::io::Error::from_raw_os_error(libc::ENOMEM);
        let cause = refused().to_string();
        let full = crate::model::kernels::OutOfMemory { what: "the KV memory", bytes: 7, source: refused() };
        let named = anyhow::Error::from(ModelError::from(full));
        assert_eq!(words(&named).matches(&cause).count(), 1, "{named:#}");
        assert!(words(&named).starts_with("7 bytes for the KV memory could not be had ("));

        let unnamed = Err::<(), _>(refused()).context("cannot read x").unwrap_err();
        assert_eq!(words(&unnamed), format!("cannot read x: {cause}"));
    }
}
