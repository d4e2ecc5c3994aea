//! The newest lines of the log, with the names of people in place of the engine's numbers.

use crate::batch::UserId;
use crate::ui::people::People;

/// What the log calls a person.
const NUMBERED: &str = "UserId(";

pub(super) fn named(line: &str, people: &People) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once(NUMBERED) {
        out.push_str(before);
        let number = after.split_once(')').and_then(|(number, after)| Some((number.parse().ok()?, after)));
        match number {
            Some((number, after)) => {
                out.push_str(&people.name(UserId(number)));
                rest = after;
            }
            None => {
                out.push_str(NUMBERED);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}
