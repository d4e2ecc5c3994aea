//! The screen's language. English is written where it is said; Vietnamese is looked up by it, in `assets/lang/vi`.
//!
//! Words of the field (TTFT, KV, batch, prefill, decode, token) stay as they are: whoever learns here reads them
//! everywhere else.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::OnceLock;

/// Says a sentence in the theme's language: `say!(theme, "{} of {} seats", taken, seats)`. A translation may name its
/// arguments by place: `{1}`.
macro_rules! say {
    ($theme:expr, $text:literal $(, $arg:expr)* $(,)?) => {
        $theme.lang().fill($text, &[$(&$arg as &dyn ::std::fmt::Display),*])
    };
}
pub(crate) use say;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lang {
    #[default]
    En,
    Vi,
}

const VIETNAMESE: &[(&str, &str)] = &[
    ("room", include_str!("../../assets/lang/vi/room.toml")),
    ("chat", include_str!("../../assets/lang/vi/chat.toml")),
    ("machine", include_str!("../../assets/lang/vi/machine.toml")),
    ("keys", include_str!("../../assets/lang/vi/keys.toml")),
    ("store", include_str!("../../assets/lang/vi/store.toml")),
];

fn vietnamese() -> &'static HashMap<String, String> {
    static CATALOGUE: OnceLock<HashMap<String, String>> = OnceLock::new();
    CATALOGUE.get_or_init(|| {
        let read = |(_, text): &(&str, &str)| toml::from_str::<HashMap<String, String>>(text).unwrap_or_default();
        VIETNAMESE.iter().flat_map(read).collect()
    })
}

impl Lang {
    /// By name (`en`, `vi`); None: no such language.
    pub fn named(name: &str) -> Option<Lang> {
        match name {
            "en" => Some(Lang::En),
            "vi" => Some(Lang::Vi),
            _ => None,
        }
    }

    /// That of the locale: LC_ALL, LC_MESSAGES, LANG, the first that says something. `lookup` is the environment.
    pub fn of_locale(lookup: impl Fn(&str) -> Option<String>) -> Lang {
        let mut names = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().filter_map(lookup);
        let locale = names.find(|value| !value.is_empty()).unwrap_or_default();
        let name = locale.split(['_', '.', '@', '-']).next().unwrap_or_default();
        Lang::named(&name.to_lowercase()).unwrap_or_default()
    }

    /// A fixed sentence. What has no translation stays English.
    pub fn tr(self, english: &'static str) -> &'static str {
        match self {
            Lang::En => english,
            Lang::Vi if english.is_empty() => english,
            Lang::Vi => match vietnamese().get(english) {
                Some(words) => words,
                None => {
                    missed(english);
                    english
                }
            },
        }
    }

    /// A sentence with `{}` or `{0}` in it.
    pub fn fill(self, english: &'static str, args: &[&dyn Display]) -> String {
        fill(self.tr(english), args)
    }

    /// `{}` is the number: `plural(3, "{} block", "{} blocks")`.
    pub fn plural(self, count: usize, one: &'static str, many: &'static str) -> String {
        self.fill(if count == 1 { one } else { many }, &[&super::format::count(count as u64)])
    }
}

fn fill(template: &str, args: &[&dyn Display]) -> String {
    let mut out = String::with_capacity(template.len() + 16);
    let mut next = 0;
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let Some(length) = rest[open..].find('}') else { break };
        out.push_str(&rest[..open]);
        let name = &rest[open + 1..open + length];
        let at = if name.is_empty() { next } else { name.parse().unwrap_or(usize::MAX) };
        next += usize::from(name.is_empty());
        match args.get(at) {
            Some(arg) => out.push_str(&arg.to_string()),
            None => out.push_str(&rest[open..=open + length]),
        }
        rest = &rest[open + length + 1..];
    }
    out.push_str(rest);
    out
}

/// In debug builds, sentences that were to be said in Vietnamese and could not be: tests look here.
#[cfg(debug_assertions)]
static MISSED: std::sync::Mutex<std::collections::BTreeSet<&'static str>> =
    std::sync::Mutex::new(std::collections::BTreeSet::new());

#[cfg(debug_assertions)]
fn missed(english: &'static str) {
    if let Ok(mut missed) = MISSED.lock() {
        missed.insert(english);
    }
}

#[cfg(not(debug_assertions))]
fn missed(_: &'static str) {}

/// What has been missing so far in this process (debug builds).
#[cfg(debug_assertions)]
pub fn missing() -> Vec<&'static str> {
    MISSED.lock().map(|missed| missed.iter().copied().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_in_order_or_by_number() {
        assert_eq!(fill("{} of {}", &[&1, &"x"]), "1 of x");
        assert_eq!(fill("{1} trong {0}", &[&1, &"x"]), "x trong 1");
        assert_eq!(fill("nothing {", &[]), "nothing {");
        assert_eq!(fill("{} {}", &[&1]), "1 {}");
    }

    #[test]
    fn the_locale_says_the_language() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs: Vec<(String, String)> = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
            Lang::of_locale(move |name| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()))
        };
        assert_eq!(of(&[]), Lang::En);
        assert_eq!(of(&[("LANG", "vi_VN.UTF-8")]), Lang::Vi);
        assert_eq!(of(&[("LANG", "vi_VN.UTF-8"), ("LC_ALL", "C")]), Lang::En);
        assert_eq!(of(&[("LANG", "de_DE")]), Lang::En);
    }

    /// Every catalogue can be read, says nothing twice, and has the same places as the English.
    #[test]
    fn catalogues_are_sound() {
        let mut seen: HashMap<String, &str> = HashMap::new();
        for (name, text) in VIETNAMESE {
            let entries: HashMap<String, String> = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            for (english, words) in entries {
                let places = |text: &str| text.matches('{').count();
                assert_eq!(places(&english), places(&words), "{name}: {english:?} = {words:?}");
                if let Some(other) = seen.insert(english.clone(), name) {
                    panic!("{english:?} is in {other} and in {name}");
                }
            }
        }
    }

    /// The string literals of `text` from `from` on, up to the end of the call that begins there.
    fn literals(text: &str, from: usize, most: usize) -> Vec<String> {
        let (mut found, mut depth) = (Vec::new(), 1);
        let mut chars = text[from..].chars().peekable();
        while let Some(ch) = chars.next() {
            match ch {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                '"' => {
                    let mut literal = String::new();
                    while let Some(ch) = chars.next() {
                        match ch {
                            '"' => break,
                            '\\' => match chars.next() {
                                Some('n') => literal.push('\n'),
                                // A line that goes on in the next.
                                Some('\n') => while chars.next_if(|ch| ch.is_whitespace()).is_some() {},
                                Some('u') => {
                                    let code: String = chars.by_ref().skip(1).take_while(|ch| *ch != '}').collect();
                                    literal.extend(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32));
                                }
                                Some(other) => literal.push(other),
                                None => break,
                            },
                            ch => literal.push(ch),
                        }
                    }
                    found.push(literal);
                }
                _ => {}
            }
            if depth == 0 || found.len() == most {
                break;
            }
        }
        found
    }

    fn said_in(text: &str) -> Vec<String> {
        let calls = [("say!(", 1), (".tr(", 4), (".plural(", 2)];
        let found = calls.iter().flat_map(|(call, most)| {
            text.match_indices(call).flat_map(|(at, _)| literals(text, at + call.len(), *most)).collect::<Vec<_>>()
        });
        // `tr(match which { "x" => .. })` has literals that are no sentences.
        found.filter(|words| words.chars().any(char::is_alphabetic)).collect()
    }

    /// All code of the program, each sentence in one piece.
    fn all_code() -> String {
        let mut code = String::new();
        let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let lines = text.split("#[cfg(test)]\nmod tests").next().unwrap().lines();
                    for line in lines.map(str::trim).filter(|line| !line.starts_with("//")) {
                        // A line that goes on in the next.
                        match line.strip_suffix('\\') {
                            Some(begin) => code.push_str(begin),
                            None => code.extend([line, "\n"]),
                        }
                    }
                }
            }
        }
        code
    }

    /// Nothing is translated that nobody says any more.
    #[test]
    fn no_translation_is_left_over() {
        let code = all_code();
        let written = |words: &str| {
            let plain = words.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let escaped: String = plain
                .chars()
                .map(|ch| if "\u{201c}\u{201d}".contains(ch) { format!("\\u{{{:x}}}", ch as u32) } else { ch.into() })
                .collect();
            [plain, escaped].into_iter().any(|words| code.contains(&format!("\"{words}\"")))
        };
        let mut left: Vec<&String> = vietnamese().keys().filter(|words| !written(words)).collect();
        left.sort();
        assert!(left.is_empty(), "{} translations that nobody says:\n{left:#?}", left.len());
    }

    /// Every sentence of the screen has its translation, whether a test has drawn it or not.
    #[test]
    fn nothing_is_left_in_english() {
        let mut said: Vec<(String, String)> = Vec::new();
        let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/ui"))];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if !path.ends_with("words.rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let code = text.split("#[cfg(test)]").next().unwrap();
                    let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
                    let name = path.display().to_string();
                    said.extend(said_in(&code.join("\n")).into_iter().map(|words| (name.clone(), words)));
                }
            }
        }
        assert!(said.len() > 50, "the sentences were found");
        use crate::ui::{keymap, params, settings};
        said.extend(
            params::FIELDS.iter().flat_map(|field| [field.about, field.range]).map(|words| ("params".into(), words.into())),
        );
        let commands = crate::ui::update::slash::COMMANDS;
        said.extend(commands.iter().flat_map(|known| [known.about, known.wants]).map(|words| ("slash".into(), words.into())));
        let tables = [keymap::TABLE, keymap::REPLAY, keymap::PICK, keymap::LOOK, keymap::ALONE];
        for binding in tables.into_iter().flatten() {
            for words in [binding.about, binding.short, binding.group.title()] {
                said.push(("keymap".into(), words.to_owned()));
            }
        }
        said.extend(crate::ui::view::popup::GLOSSARY.map(|(_, about)| ("popup".to_owned(), about.to_owned())));
        said.extend(settings::Knob::ALL.map(|knob| ("settings".to_owned(), knob.about().to_owned())));
        let mut missing: Vec<(String, String)> = said.into_iter().filter(|(_, words)| !words.is_empty()).collect();
        missing.retain(|(_, words)| !vietnamese().contains_key(words));
        missing.sort();
        missing.dedup_by(|a, b| a.1 == b.1);
        let lines: Vec<String> = missing.iter().map(|(file, words)| format!("{file}: {words:?}")).collect();
        assert!(lines.is_empty(), "{} sentences without Vietnamese:\n{}", lines.len(), lines.join("\n"));
    }
}
