//! `batchroom history`: the conversations that are kept.

use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use crate::config::Config;
use crate::store::{self, Hit, LIST_MAX, Line, Missing, Store, Stored};
use crate::text::{Role, printable};
use crate::ui::text::{clip, width};

/// Bytes of a file that is imported at most.
const IMPORT_MAX: u64 = 512 << 20;
/// Lines of what `rm --all` would remove.
const SHOWN: usize = 20;

pub const EXAMPLES: &str = "Examples:
  batchroom history list
  batchroom history search \"duong pho\"              finds đường phố too
  batchroom history show 12
  batchroom history export 12 > chat.md
  batchroom history export --format json --output all.json      all of them
  batchroom history import all.json
  batchroom history rm 12 13 --yes

Numbers are those of `history list`. The database is batchroom.db in the user's data folder, or where --data says; it is
SQLite, and may be open in the room meanwhile. A JSON export has whole conversations with all their branches and can be
imported again; Markdown has the branch that was shown last.";

#[derive(Debug, clap::Subcommand)]
pub enum HistoryCommand {
    /// The newest conversations
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
        /// So many at most
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
    },
    /// One conversation, as it was shown last
    Show {
        #[arg(value_name = "ID")]
        id: i64,
        /// Print one JSON object, with all branches
        #[arg(long)]
        json: bool,
    },
    /// Conversations as Markdown, or as JSON that can be imported again
    Export {
        /// All of them without any
        #[arg(value_name = "ID")]
        ids: Vec<i64>,
        #[arg(long, value_enum, default_value_t = Format::Markdown)]
        format: Format,
        /// To this file, which must not exist yet [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Take in a JSON export (`-`: standard input), of `history export` or of the room, as new conversations
    Import {
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Find text in all conversations: beginnings of words, with or without accents and tones
    Search {
        #[arg(value_name = "TEXT", required = true)]
        text: Vec<String>,
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
        /// So many conversations at most
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
    },
    /// Remove conversations for good
    Rm {
        #[arg(value_name = "ID", required_unless_present = "all")]
        ids: Vec<i64>,
        /// Every one of them
        #[arg(long, conflicts_with = "ids")]
        all: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Markdown,
    Json,
}

pub fn history(command: HistoryCommand, config: &Config) -> anyhow::Result<ExitCode> {
    let path = store::place(config.data.as_deref()).context("there is no folder for data: name a file with --data")?;
    let done = match command {
        HistoryCommand::Import { file } => import(&path, &file),
        command => match Store::open(&path, Missing::Refuse) {
            // No database is an empty one for whoever lists, and an error for whoever names something in it.
            Err(error) if matches!(error.fault, store::Fault::Missing) => none(&command, error),
            opened => run(command, opened?),
        },
    };
    match done {
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        done => done.map(|()| ExitCode::SUCCESS),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

fn none(command: &HistoryCommand, error: store::StoreError) -> anyhow::Result<()> {
    match command {
        HistoryCommand::List { json, .. } | HistoryCommand::Search { json, .. } => {
            if !json {
                super::complain(format_args!("{error}"));
            }
            Ok(())
        }
        _ => Err(error.into()),
    }
}

fn run(command: HistoryCommand, mut store: Store) -> anyhow::Result<()> {
    match command {
        HistoryCommand::List { json, limit } => list(&store, json, limit),
        HistoryCommand::Show { id, json } => show(&store, id, json),
        HistoryCommand::Export { ids, format, output } => export(&store, &ids, format, output.as_deref()),
        HistoryCommand::Search { text, json, limit } => search(&store, &text.join(" "), json, limit),
        HistoryCommand::Rm { ids, all, yes } => remove(&mut store, ids, all, yes),
        HistoryCommand::Import { .. } => unreachable!("imported without an open database"),
    }
}

/// A line to standard output. Text of people and models is made harmless always: what is in a pipe now is on a terminal soon.
fn say(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{}", printable(line))
}

/// JSON in one line: exact, and harmless.
fn say_json(json: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{}", store::escaped(json))
}

/// A text in so many columns.
fn cell(text: &str, columns: usize) -> String {
    let text = clip(&crate::ui::text::one_line(text), columns);
    let pad = columns.saturating_sub(width(&text));
    format!("{text}{}", " ".repeat(pad))
}

fn row(line: &Line) -> String {
    let date = store::date(line.updated);
    let words = match (&line.draft, line.title.is_empty()) {
        (Some(draft), true) => format!("(draft) {draft}"),
        _ => line.title.clone(),
    };
    format!("{:>6}  {date}  {}  {:>5}  {}", line.id, cell(&line.person, 12), line.messages, cell(&words, 60).trim_end())
}

fn list(store: &Store, json: bool, limit: usize) -> anyhow::Result<()> {
    let lines = store.list(limit.min(LIST_MAX))?;
    if json {
        for line in &lines {
            say_json(&serde_json::to_string(line)?)?;
        }
        return Ok(());
    }
    if lines.is_empty() {
        super::complain(format_args!("there are no conversations in {}", store.path().display()));
        return Ok(());
    }
    say(&format!("{:>6}  {:<16}  {:<12}  {:>5}  first words", "id", "last change", "person", "texts"))?;
    for line in &lines {
        say(&row(line))?;
    }
    let all = store.count()?;
    if all > lines.len() as u64 {
        super::complain(format_args!("{} of {all}: --limit shows more, up to {LIST_MAX}", lines.len()));
    }
    Ok(())
}

fn object(stored: &Stored) -> Value {
    let parsed = |text: &Option<String>| text.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let path: Vec<u32> = stored.path().into_iter().map(|at| stored.messages[at].node).collect();
    let messages: Vec<Value> = stored
        .messages
        .iter()
        .map(|message| {
            json!({
                "node": message.node, "parent": message.parent, "role": message.role.as_str(), "text": message.text,
                "note": message.note, "created": message.created, "model": message.model,
                "sampling": parsed(&message.sampling), "figures": parsed(&message.figures), "cut": message.cut,
            })
        })
        .collect();
    json!({
        "id": stored.id, "person": stored.person, "title": stored.title, "system": stored.system, "model": stored.model,
        "created": stored.created, "updated": stored.updated, "path": path, "draft": stored.draft, "messages": messages,
    })
}

fn show(store: &Store, id: i64, json: bool) -> anyhow::Result<()> {
    let stored = store.load(id)?;
    if json {
        say_json(&object(&stored).to_string())?;
        return Ok(());
    }
    let branches = stored.messages.len() - stored.path().len();
    say(&format!("{} · {} · {}", stored.person, store::date(stored.updated), stored.model))?;
    if let Some(system) = &stored.system {
        say(&format!("\nsystem: {system}"))?;
    }
    for at in stored.path() {
        let message = &stored.messages[at];
        let who = match message.role {
            Role::User => stored.person.as_str(),
            Role::Assistant => message.model.as_deref().unwrap_or("assistant"),
            Role::System => "system",
        };
        say(&format!("\n{who}: {}", message.text.trim_end()))?;
        if let Some(note) = message.note.as_deref().or(message.cut.then_some("cut off: the program ended")) {
            say(&format!("({note})"))?;
        }
    }
    if let Some(draft) = &stored.draft {
        say(&format!("\n(draft) {}", draft.trim_end()))?;
    }
    if branches > 0 {
        say(&format!("\n({branches} more in other branches: --json shows them)"))?;
    }
    Ok(())
}

fn export(store: &Store, ids: &[i64], format: Format, output: Option<&Path>) -> anyhow::Result<()> {
    let ids = match ids {
        [] => {
            let all = store.count()?;
            ensure!(all <= LIST_MAX as u64, "there are {all} conversations: name those to export, {LIST_MAX} at most");
            store.list(LIST_MAX)?.into_iter().map(|line| line.id).collect()
        }
        ids => ids.to_vec(),
    };
    let conversations = ids.into_iter().map(|id| store.load(id)).collect::<Result<Vec<_>, _>>()?;
    let text = match format {
        Format::Json => store::to_json(&conversations)? + "\n",
        Format::Markdown => conversations.iter().map(store::to_markdown).collect::<Vec<_>>().join("\n---\n\n"),
    };
    let Some(output) = output else {
        return Ok(std::io::stdout().lock().write_all(text.as_bytes())?);
    };
    let cannot = || format!("cannot write {}", output.display());
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(output) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists already: give another name", output.display())
        }
        opened => opened.and_then(|mut file| file.write_all(text.as_bytes())).with_context(cannot)?,
    }
    let conversations = match conversations.len() {
        1 => "1 conversation is".to_owned(),
        count => format!("{count} conversations are"),
    };
    say(&format!("{conversations} in {}, for your eyes only", output.display()))?;
    Ok(())
}

fn import(path: &Path, file: &Path) -> anyhow::Result<()> {
    let name = if file.as_os_str() == "-" { "standard input".to_owned() } else { file.display().to_string() };
    let mut text = String::new();
    let read = |from: &mut dyn Read, text: &mut String| from.take(IMPORT_MAX + 1).read_to_string(text);
    let result = match file.as_os_str() == "-" {
        true => read(&mut std::io::stdin().lock(), &mut text),
        false => std::fs::File::open(file).and_then(|mut opened| read(&mut opened, &mut text)),
    };
    result.with_context(|| format!("cannot read {name}"))?;
    ensure!(text.len() as u64 <= IMPORT_MAX, "{name} has more than {} MiB", IMPORT_MAX >> 20);
    // All of it is looked at before any of it is written.
    let conversations = store::from_json(&text).with_context(|| name.clone())?;
    let mut store = Store::open(path, Missing::Create)?;
    let ids = store.insert_all(&conversations, None)?;
    for id in &ids {
        say(&row(&store.line(*id)?))?;
    }
    if ids.is_empty() {
        super::complain(format_args!("{name} has no conversations"));
    }
    Ok(())
}

fn search(store: &Store, text: &str, json: bool, limit: usize) -> anyhow::Result<()> {
    let hits = store.search(text, limit.min(LIST_MAX))?;
    if hits.is_empty() && !json {
        super::complain(format_args!("nothing has `{text}`"));
    }
    for Hit { line, node, role, excerpt } in &hits {
        if json {
            let found = json!({ "conversation": line, "node": node, "role": role, "excerpt": excerpt });
            say_json(&found.to_string())?;
        } else {
            say(&row(line))?;
            let who = if role == "user" { line.person.as_str() } else { role };
            say(&format!("        {who}: {excerpt}"))?;
        }
    }
    Ok(())
}

fn remove(store: &mut Store, ids: Vec<i64>, all: bool, yes: bool) -> anyhow::Result<()> {
    let ids = if all { store.ids()? } else { ids };
    let shown = ids.iter().take(if all { SHOWN } else { ids.len() });
    let lines = shown.map(|id| store.line(*id)).collect::<Result<Vec<_>, _>>()?;
    if ids.is_empty() {
        super::complain(format_args!("there is nothing to remove"));
        return Ok(());
    }
    for id in &ids {
        // The room that has it open goes on writing to it.
        ensure!(!store.open_elsewhere(*id, None)?, "conversation {id} is open in a running batchroom: close it first");
    }
    if !yes {
        let (stdin, stderr) = (std::io::stdin(), std::io::stderr());
        ensure!(stdin.is_terminal() && stderr.is_terminal(), "nobody can be asked here: --yes removes without asking");
        for line in &lines {
            eprintln!("{}", printable(&row(line)));
        }
        if ids.len() > lines.len() {
            eprintln!("        … and {} more", ids.len() - lines.len());
        }
        let what = if ids.len() == 1 { "this conversation".to_owned() } else { format!("these {} conversations", ids.len()) };
        eprint!("Remove {what} for good? [y/N] ");
        let mut answer = String::new();
        std::io::BufRead::read_line(&mut stdin.lock().take(64), &mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            super::complain(format_args!("nothing was removed"));
            return Ok(());
        }
    }
    let count = store.remove_all(&ids)?;
    say(&format!("{count} {} removed", if count == 1 { "conversation is" } else { "conversations are" }))?;
    Ok(())
}
