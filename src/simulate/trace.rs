//! Workloads that were recorded: one request a line, as CSV or as JSON.

use std::collections::HashMap;

use serde::Deserialize;

use super::{MAX_TOKENS, nanoseconds};

/// Requests of one trace at most.
const MAX_ROWS: usize = 4_000_000;
/// Seconds after the beginning at most: ten years.
const MAX_SECONDS: f64 = 3.2e8;

/// One recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// Nanoseconds after the beginning.
    pub time: u64,
    pub prompt: usize,
    pub answer: usize,
    pub user: u32,
}

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// `time,prompt,output` and optionally `,user`; a head is allowed.
    Csv,
    /// `{"time": 0.5, "prompt": 200, "output": 100, "user": 3}`
    JsonLines,
}

/// A line that is no request. Whoever reads the file adds its name and the line's number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    #[error("it must be `time,prompt,output` or `time,prompt,output,user` (seconds, tokens, tokens, number), and is `{0}`")]
    Columns(String),
    #[error("{what} is `{found}`: it must be {wanted}")]
    Value { what: &'static str, found: String, wanted: String },
    #[error("{0}")]
    Json(String),
    #[error("there are more than {MAX_ROWS} requests")]
    TooMany,
    #[error("there are no requests")]
    Empty,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRow {
    time: f64,
    prompt: u64,
    output: u64,
    #[serde(default)]
    user: User,
}

/// Who asks: by number or by name.
#[derive(Deserialize)]
#[serde(untagged, expecting = "`user` must be a text or a number")]
enum User {
    Number(u32),
    Name(String),
}

impl Default for User {
    fn default() -> User {
        User::Number(0)
    }
}

/// Numbers of those who have names: past all that anybody writes.
const NAMED: u32 = 1 << 31;

/// Takes a trace line by line.
#[derive(Clone, Debug)]
pub struct TraceReader {
    format: TraceFormat,
    /// No line of text has been seen.
    at_head: bool,
    rows: Vec<TraceRow>,
    names: HashMap<String, u32>,
}

impl TraceReader {
    pub fn new(format: TraceFormat) -> TraceReader {
        TraceReader { format, at_head: true, rows: Vec::new(), names: HashMap::new() }
    }

    /// Takes the next line; empty ones, and a CSV's head, are passed over.
    ///
    /// # Errors
    /// When it is no request, a number is out of range, or there are too many requests.
    pub fn line(&mut self, line: &str) -> Result<(), TraceError> {
        let line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        let first = std::mem::take(&mut self.at_head);
        let row = match self.format {
            TraceFormat::Csv if first && is_head(line) => {
                let names: Vec<String> = line.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
                let known = ["time", "prompt", "output", "user"];
                let fine = names.len() >= 3 && names.len() <= 4 && names.iter().zip(known).all(|(name, known)| name == known);
                return if fine { Ok(()) } else { Err(TraceError::Columns(short(line))) };
            }
            TraceFormat::Csv => self.csv(line)?,
            TraceFormat::JsonLines => self.json(line)?,
        };
        if self.rows.len() >= MAX_ROWS {
            return Err(TraceError::TooMany);
        }
        self.rows.push(row);
        Ok(())
    }

    /// All requests, in order of time.
    ///
    /// # Errors
    /// When there are none.
    pub fn end(mut self) -> Result<Vec<TraceRow>, TraceError> {
        self.rows.sort_by_key(|row| row.time);
        if self.rows.is_empty() { Err(TraceError::Empty) } else { Ok(self.rows) }
    }
}

impl TraceReader {
    fn csv(&mut self, line: &str) -> Result<TraceRow, TraceError> {
        let columns: Vec<&str> = line.splitn(5, ',').map(str::trim).collect();
        let (time, prompt, output, user) = match columns.as_slice() {
            [time, prompt, output] => (time, prompt, output, "0"),
            [time, prompt, output, user] => (time, prompt, output, *user),
            _ => return Err(TraceError::Columns(short(line))),
        };
        let user = user.parse().map_or_else(|_| User::Name(user.to_owned()), User::Number);
        let seconds = time.parse().map_err(|_| bad_time(time))?;
        let tokens = |what, text: &str| text.parse().map_err(|_| bad_tokens(what, text));
        row(seconds, tokens("prompt", prompt)?, tokens("output", output)?, self.number(user)?)
    }

    fn json(&mut self, line: &str) -> Result<TraceRow, TraceError> {
        let found: JsonRow = serde_json::from_str(line).map_err(|error| TraceError::Json(crate::fault::json_words(&error)))?;
        row(found.time, found.prompt, found.output, self.number(found.user)?)
    }

    /// The same number for the same name.
    fn number(&mut self, user: User) -> Result<u32, TraceError> {
        match user {
            User::Number(number) if number < NAMED => Ok(number),
            User::Number(number) => Err(value("user", &number.to_string(), format!("a name, or a number below {NAMED}"))),
            User::Name(name) if name.is_empty() || name.len() > 200 => {
                Err(value("user", &name, "a name of 1 to 200 bytes, or a number".into()))
            }
            User::Name(name) => {
                let next = NAMED + self.names.len() as u32;
                Ok(*self.names.entry(name).or_insert(next))
            }
        }
    }
}

/// Names of columns: none is a number.
fn is_head(line: &str) -> bool {
    line.split(',').all(|column| column.trim().parse::<f64>().is_err())
}

fn row(seconds: f64, prompt: u64, output: u64, user: u32) -> Result<TraceRow, TraceError> {
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        return Err(bad_time(&seconds.to_string()));
    }
    let tokens = |what, count: u64| {
        let fine = usize::try_from(count).ok().filter(|count| (1..=MAX_TOKENS).contains(count));
        fine.ok_or_else(|| bad_tokens(what, &count.to_string()))
    };
    Ok(TraceRow { time: nanoseconds(seconds), prompt: tokens("prompt", prompt)?, answer: tokens("output", output)?, user })
}

fn bad_time(found: &str) -> TraceError {
    value("time", found, format!("seconds from 0 to {MAX_SECONDS}"))
}

fn bad_tokens(what: &'static str, found: &str) -> TraceError {
    value(what, found, format!("a number of tokens from 1 to {MAX_TOKENS}"))
}

fn value(what: &'static str, found: &str, wanted: String) -> TraceError {
    TraceError::Value { what, found: short(found), wanted }
}

/// As much of a line as belongs in a message.
fn short(text: &str) -> String {
    if text.chars().count() <= 60 { text.to_owned() } else { text.chars().take(60).chain("...".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: TraceFormat, text: &str) -> Result<Vec<TraceRow>, (usize, String)> {
        let mut reader = TraceReader::new(format);
        for (at, line) in text.lines().enumerate() {
            reader.line(line).map_err(|error| (at + 1, error.to_string()))?;
        }
        reader.end().map_err(|error| (0, error.to_string()))
    }

    #[test]
    fn both_formats_say_the_same_and_are_put_in_order() {
        let csv = read(TraceFormat::Csv, "time,prompt,output,user\n1.5, 10, 20\n\n0,300,4,7\n").unwrap();
        let json = "{\"time\":1.5,\"prompt\":10,\"output\":20}\n{\"time\":0,\"prompt\":300,\"output\":4,\"user\":7}";
        let first = TraceRow { time: 0, prompt: 300, answer: 4, user: 7 };
        let named = read(TraceFormat::Csv, "0,1,1,ana\n1,1,1,bo\n2,1,1,ana").unwrap();
        assert!(named[0].user == named[2].user && named[0].user != named[1].user);
        assert_eq!(csv, [first, TraceRow { time: 1_500_000_000, prompt: 10, answer: 20, user: 0 }]);
        assert_eq!(read(TraceFormat::JsonLines, json).unwrap(), csv);
        assert_eq!(read(TraceFormat::Csv, "0,1,1").unwrap().len(), 1, "no head is needed");
    }

    #[test]
    fn bad_rows_say_what_is_wrong() {
        let cases = [
            ("0,1,1\n0,1", 2, "`0,1`"),
            ("0,1,1,1,1", 1, "time,prompt,output,user"),
            ("time,prompt,output\nsoon,1,1", 2, "time is `soon`"),
            ("-1,1,1", 1, "time is `-1`"),
            ("nan,1,1", 1, "time is `NaN`"),
            ("1e300,1,1", 1, "seconds from 0"),
            ("0,0,1", 1, "prompt is `0`"),
            ("0,1,99999999999999999999", 1, "output is `99999999999999999999`"),
            ("0,1,2000000", 1, "from 1 to 1048576"),
            ("0,1,1,", 1, "user is ``"),
            ("time,prompt,output\ntime,prompt,output", 2, "time is `time`"),
            ("", 0, "no requests"),
        ];
        for (text, line, words) in cases {
            let (at, message) = read(TraceFormat::Csv, text).unwrap_err();
            assert!(at == line && message.contains(words), "{text}: line {at}: {message}");
        }
        for bad in ["{}", "[]", "{\"time\":0,\"prompt\":1,\"output\":1,\"more\":1}", "{\"time\":0,\"prompt\":-1,\"output\":1}"] {
            assert_eq!(read(TraceFormat::JsonLines, bad).unwrap_err().0, 1, "{bad}");
        }
        let long = read(TraceFormat::Csv, &"x".repeat(5000).replace('x', "7")).unwrap_err().1;
        assert!(long.len() < 300, "{long}");
    }
}
