//! Files, and the person's own editor: what of the screen's work needs the disk or another program.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::NamedTempFile;
use tokio::process::{Child, Command};

use super::editor::DRAFT_MAX;
use super::save::Saved;
use super::theme::Theme;
use super::words::say;
use crate::batch::UserId;

/// How long the thread that reads the keyboard may take to notice that it is to wait.
const PATIENCE: Duration = Duration::from_millis(200);

/// Keeps the thread that reads the keyboard from reading while another program has the terminal.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<Passing>, Condvar)>);

#[derive(Debug, Default)]
struct Passing {
    shut: bool,
    waiting: bool,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, Passing> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the reader, between two reads: goes on when the gate is open.
    pub fn pass(&self) {
        let mut passing = self.lock();
        while passing.shut {
            passing.waiting = true;
            self.0.1.notify_all();
            passing = self.0.1.wait(passing).unwrap_or_else(PoisonError::into_inner);
        }
        passing.waiting = false;
    }

    /// Shuts the gate and wakes the reader until it waits there. False when it does not come; the gate is open then.
    pub fn shut(&self, wake: impl Fn()) -> bool {
        let mut passing = self.lock();
        passing.shut = true;
        for _ in 0..10 {
            if passing.waiting {
                return true;
            }
            wake();
            passing = self.0.1.wait_timeout(passing, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        }
        passing.shut = false;
        passing.waiting
    }

    pub fn open(&self) {
        self.lock().shut = false;
        self.0.1.notify_all();
    }
}

/// The command of the person's editor. `lookup` is the environment.
pub fn editor(lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut set = ["VISUAL", "EDITOR"].into_iter().filter_map(lookup).filter(|value| !value.trim().is_empty());
    set.next().unwrap_or_else(|| "vi".into())
}

/// An editor that runs on a draft.
#[derive(Debug)]
pub struct Outside {
    pub user: UserId,
    command: String,
    theme: Theme,
    file: NamedTempFile,
    child: Child,
}

impl Outside {
    /// The file is readable by this person alone, and goes away afterwards.
    pub fn start(user: UserId, command: &str, text: &str, theme: Theme) -> Result<Outside, String> {
        let file = tempfile::Builder::new().prefix("batchroom-").suffix(".md").tempfile();
        let mut file = file.map_err(|error| say!(theme, "no file for the draft ({})", error))?;
        let line_end = if text.is_empty() { "" } else { "\n" };
        let written =
            file.write_all(text.as_bytes()).and_then(|()| file.write_all(line_end.as_bytes())).and_then(|()| file.flush());
        written.map_err(|error| say!(theme, "the draft cannot be written to a file ({})", error))?;
        // As git does it: the command may have arguments of its own.
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{command} \"$@\"")).arg(command).arg(file.path());
        shell.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit()).kill_on_drop(false);
        let child = shell.spawn().map_err(|error| say!(theme, "`{}` cannot be started ({})", command, error))?;
        Ok(Outside { user, command: command.to_owned(), theme, file, child })
    }

    /// Waits for its end, and reads what it has written. May be waited for again.
    pub async fn done(&mut self) -> Result<String, String> {
        let (command, theme) = (&self.command, self.theme);
        let status = self.child.wait().await.map_err(|error| say!(theme, "`{}` was lost ({})", command, error))?;
        if !status.success() {
            return Err(say!(theme, "`{}` ended with {}", command, status));
        }
        // An editor may write a new file in place of ours: what is at the path counts.
        read(self.file.path()).map_err(|error| say!(theme, "what `{}` wrote cannot be read ({})", command, error))
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(4 * DRAFT_MAX as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A new file that its owner alone can read, as the database is.
fn private(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Writes a file; one that is there stays, unless it is to be replaced.
pub fn write(path: &str, text: &str, replace: bool) -> Saved {
    let path = absolute(path);
    let shown = path.display().to_string();
    let result = match replace {
        false => private(&path).and_then(|mut file| {
            let written = file.write_all(text.as_bytes());
            if written.is_err() {
                // Half a file is no export.
                let _ = std::fs::remove_file(&path);
            }
            written
        }),
        true => replaced(&path, text),
    };
    match result {
        Ok(()) => Saved::Done { path: shown, bytes: text.len() },
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Saved::Exists(shown),
        Err(error) => Saved::Failed { path: shown, why: error.to_string() },
    }
}

/// The old file is there until the new one is whole.
fn replaced(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path).map(|_| ()).map_err(|error| error.error)
}

fn absolute(path: &str) -> PathBuf {
    let home = path.strip_prefix("~/").and_then(|rest| std::env::home_dir().map(|home| home.join(rest)));
    let path = home.unwrap_or_else(|| PathBuf::from(path));
    std::path::absolute(&path).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    #[test]
    fn a_file_that_is_there_stays_unless_it_is_to_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chat.md");
        let name = path.to_str().unwrap();
        assert_eq!(write(name, "one", false), Saved::Done { path: name.into(), bytes: 3 });
        assert_eq!(write(name, "two", false), Saved::Exists(name.into()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(write(name, "three", true), Saved::Done { path: name.into(), bytes: 5 });
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three");
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        let other = folder.path().join("other.md");
        assert!(matches!(write(other.to_str().unwrap(), "x", false), Saved::Done { .. }));
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&other.metadata().unwrap().permissions()) & 0o777, 0o600);
        assert!(matches!(write("/nowhere/at/all.md", "x", false), Saved::Failed { .. }));
    }

    #[test]
    fn the_reader_waits_at_a_gate_that_is_shut() {
        let (gate, read, over) = (Gate::default(), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let reader = std::thread::spawn({
            let (gate, read, over) = (gate.clone(), read.clone(), over.clone());
            move || {
                while !over.load(Ordering::SeqCst) {
                    gate.pass();
                    read.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        assert!(gate.shut(|| {}), "the reader comes");
        let held = read.load(Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(read.load(Ordering::SeqCst), held, "it waits");
        gate.open();
        while read.load(Ordering::SeqCst) == held {
            std::thread::yield_now();
        }
        over.store(true, Ordering::SeqCst);
        reader.join().unwrap();
        assert_eq!(editor(|name| (name == "EDITOR").then(|| "ed -s".into())), "ed -s");
        assert_eq!(editor(|_| Some(" ".into())), "vi");
    }
}
