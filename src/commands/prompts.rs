//! What `ask` is asked: arguments, standard input, or a file of JSON lines.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, IsTerminal, Read};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::fresh_seed;
use crate::batch::UserId;
use crate::cli::AskArgs;
use crate::config::Config;
use crate::sampling::SamplingParams;
use crate::text::{Message, Role};

/// Bytes of one prompt or one line of a prompts file.
const MAX_BYTES: u64 = 8 << 20;
const MAX_LINES: usize = 100_000;

/// One request of `ask`.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// As given, or its number from 1.
    pub id: Value,
    pub body: Body,
    pub sampling: SamplingParams,
    /// Who asks: with the same `user` in a file the same one, else each prompt another.
    pub user: UserId,
    /// What they are called in a recording: the `user` of a file, else the prompt's `id`.
    pub name: String,
    pub priority: i32,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Messages(Vec<Message>),
    /// Taken as they are: no template.
    Ids(Vec<u32>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: Option<Value>,
    prompt: Option<String>,
    messages: Option<Vec<Message>>,
    prompt_ids: Option<Vec<u32>>,
    system: Option<String>,
    max_tokens: Option<usize>,
    temperature: Option<f32>,
    seed: Option<u64>,
    ignore_eos: Option<bool>,
    user: Option<Name>,
    #[serde(default)]
    priority: i32,
}

/// Who asks: by name or by number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "`user` must be a text or a number")]
enum Name {
    Text(String),
    Number(u64),
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        match name {
            Name::Text(text) => text,
            Name::Number(number) => number.to_string(),
        }
    }
}

pub fn read(args: &AskArgs, config: &Config) -> anyhow::Result<Vec<Job>> {
    let mut sampling = config.sampling.clone();
    sampling.ignore_eos = args.ignore_eos;
    if let Some(path) = &args.prompts {
        if path.as_os_str() == "-" {
            return lines(std::io::stdin().lock(), "standard input", &sampling, config);
        }
        let name = path.display().to_string();
        let file = std::fs::File::open(path).with_context(|| format!("cannot open {name}"))?;
        return lines(BufReader::new(file), &name, &sampling, config);
    }
    let prompts = match args.prompt.as_slice() {
        [] => vec![standard_input()?],
        [dash] if dash == "-" => vec![standard_input()?],
        prompts => prompts.to_vec(),
    };
    let job = |(at, prompt): (usize, String)| Job {
        id: Value::from(at + 1),
        body: Body::Messages(conversation(config.system.clone(), prompt)),
        sampling: SamplingParams { seed: config.seed.unwrap_or_else(fresh_seed), ..sampling.clone() },
        user: UserId(at as u32),
        name: (at + 1).to_string(),
        priority: 0,
    };
    Ok(prompts.into_iter().enumerate().map(job).collect())
}

fn conversation(system: Option<String>, prompt: String) -> Vec<Message> {
    let system = system.map(|text| Message::new(Role::System, text));
    system.into_iter().chain([Message::new(Role::User, prompt)]).collect()
}

fn standard_input() -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        bail!("there is no prompt: give it as an argument, or pipe it in (batchroom ask --help has examples)");
    }
    let mut bytes = Vec::new();
    stdin.lock().take(MAX_BYTES + 1).read_to_end(&mut bytes).context("cannot read standard input")?;
    ensure!(bytes.len() as u64 <= MAX_BYTES, "standard input is longer than {MAX_BYTES} bytes");
    let text = String::from_utf8(bytes).context("standard input is not UTF-8")?;
    let text = text.trim_end_matches(['\n', '\r']);
    ensure!(!text.trim().is_empty(), "standard input is empty: there is no prompt");
    Ok(text.to_owned())
}

fn lines(mut from: impl BufRead, name: &str, sampling: &SamplingParams, config: &Config) -> anyhow::Result<Vec<Job>> {
    let mut jobs = Vec::new();
    let mut users = HashMap::new();
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let count =
            (&mut from).take(MAX_BYTES + 1).read_until(b'\n', &mut bytes).with_context(|| format!("cannot read {name}"))?;
        if count == 0 {
            break;
        }
        ensure!(bytes.len() as u64 <= MAX_BYTES, "{name}, line {number}: longer than {MAX_BYTES} bytes");
        // A byte order mark, as some editors write one.
        if number == 1 && bytes.starts_with(b"\xEF\xBB\xBF") {
            bytes.drain(..3);
        }
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        ensure!(jobs.len() < MAX_LINES, "{name} has more than {MAX_LINES} prompts");
        let default_id = jobs.len() + 1;
        let (mut job, user) = line(&bytes, default_id, sampling, config).with_context(|| format!("{name}, line {number}"))?;
        // Numbers are given in order: to each name once, and to each line without one.
        let next = UserId(jobs.len() as u32);
        if let Some(user) = user {
            job.name.clone_from(&user);
            job.user = *users.entry(user).or_insert(next);
        } else {
            job.user = next;
        }
        jobs.push(job);
    }
    ensure!(!jobs.is_empty(), "{name} has no prompts");
    Ok(jobs)
}

/// A job, and the name of its user if it has one.
fn line(bytes: &[u8], default_id: usize, sampling: &SamplingParams, config: &Config) -> anyhow::Result<(Job, Option<String>)> {
    let line: Line = serde_json::from_slice(bytes).map_err(|error| anyhow::anyhow!(crate::fault::json_words(&error)))?;
    let system = line.system.or_else(|| config.system.clone());
    let body = match (line.prompt, line.messages, line.prompt_ids) {
        (Some(prompt), None, None) => Body::Messages(conversation(system, prompt)),
        (None, Some(messages), None) => {
            ensure!(!messages.is_empty(), "`messages` is empty");
            let has_system = messages.iter().any(|message| message.role == Role::System);
            let system = system.filter(|_| !has_system).map(|text| Message::new(Role::System, text));
            Body::Messages(system.into_iter().chain(messages).collect())
        }
        (None, None, Some(ids)) => Body::Ids(ids),
        (None, None, None) => bail!("one of `prompt`, `messages` and `prompt_ids` is needed"),
        _ => bail!("only one of `prompt`, `messages` and `prompt_ids` can be given"),
    };
    let sampling = SamplingParams {
        max_tokens: line.max_tokens.unwrap_or(sampling.max_tokens),
        temperature: line.temperature.unwrap_or(sampling.temperature),
        seed: line.seed.or(config.seed).unwrap_or_else(fresh_seed),
        ignore_eos: line.ignore_eos.unwrap_or(sampling.ignore_eos),
        ..sampling.clone()
    };
    sampling.check()?;
    let id = line.id.unwrap_or_else(|| Value::from(default_id));
    let name = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    Ok((Job { id, body, sampling, user: UserId(0), name, priority: line.priority }, line.user.map(String::from)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RawConfig;

    fn parse(text: &str) -> anyhow::Result<Vec<Job>> {
        let config = RawConfig { seed: Some(9), system: Some("sys".into()), ..RawConfig::default() }.check().unwrap();
        lines(text.as_bytes(), "p.jsonl", &config.sampling.clone(), &config)
    }

    #[test]
    fn the_three_kinds_of_line() {
        let jobs = parse(
            "{\"id\":\"a\",\"prompt\":\"p\",\"temperature\":0,\"max_tokens\":3}\n\n\
             {\"messages\":[{\"role\":\"system\",\"content\":\"own\"},{\"role\":\"user\",\"content\":\"u\"}],\"seed\":4}\n\
             {\"prompt_ids\":[1,2],\"ignore_eos\":true}",
        )
        .unwrap();
        assert_eq!(jobs[0].id, "a");
        assert_eq!(jobs[0].body, Body::Messages(vec![Message::new(Role::System, "sys"), Message::new(Role::User, "p")]));
        assert_eq!((jobs[0].sampling.temperature, jobs[0].sampling.max_tokens, jobs[0].sampling.seed), (0.0, 3, 9));
        assert_eq!(jobs[1].body, Body::Messages(vec![Message::new(Role::System, "own"), Message::new(Role::User, "u")]));
        assert_eq!((jobs[1].id.as_u64(), jobs[1].sampling.seed), (Some(2), 4));
        assert_eq!(jobs[2].body, Body::Ids(vec![1, 2]));
        assert!(jobs[2].sampling.ignore_eos);
    }

    #[test]
    fn lines_of_the_same_user_are_one_users() {
        let jobs = parse(
            "{\"prompt\":\"1\",\"user\":\"a\"}\n{\"prompt\":\"2\"}\n{\"prompt\":\"3\",\"user\":\"b\",\"priority\":-2}\n\
             {\"prompt\":\"4\",\"user\":\"a\"}\n{\"prompt\":\"5\"}",
        )
        .unwrap();
        assert_eq!(jobs.iter().map(|job| job.user.0).collect::<Vec<_>>(), [0, 1, 2, 0, 4]);
        let numbers = parse("{\"prompt\":\"1\",\"user\":7}\n{\"prompt\":\"2\",\"user\":\"7\"}").unwrap();
        assert_eq!((numbers[0].user, numbers[1].name.as_str()), (numbers[1].user, "7"));
        let wrong = format!("{:#}", parse("{\"prompt\":\"1\",\"user\":[]}").unwrap_err());
        assert!(wrong.contains("`user` must be a text or a number"), "{wrong}");
        assert_eq!(jobs.iter().map(|job| job.priority).collect::<Vec<_>>(), [0, 0, -2, 0, 0]);
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = |text: &str| format!("{:#}", parse(text).unwrap_err());
        assert!(error("{\"prompt\":\"a\"}\n{\"promt\":\"b\"}").starts_with("p.jsonl, line 2: unknown field `promt`"));
        assert!(error("{}").contains("one of `prompt`, `messages` and `prompt_ids` is needed"));
        assert!(error("{\"prompt\":\"a\",\"prompt_ids\":[1]}").contains("only one"));
        assert!(error("{\"prompt\":\"a\",\"temperature\":-1}").contains("temperature"));
        assert!(error("\n\n").contains("no prompts"));
        assert!(error("{\"prompt\":\"a\",\"max_tokens\":0}").contains("max_tokens"));
    }
}
