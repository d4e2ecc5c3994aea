//! The hub's way: `hf-hub`, with its own cache and its own variables (HF_HOME, HF_ENDPOINT, HF_TOKEN).

use std::path::{Path, PathBuf};
use std::time::Duration;

use hf_hub::api::tokio::{ApiBuilder, Progress as HubProgress};
use tokio::sync::watch;

use super::catalogue::Published;
use super::fetch::Progress;

/// A hub that says nothing for so long is not there.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Downloads into the hub's cache (which resumes a broken download) and leaves a link or a copy in `scratch`.
pub async fn fetch(model: &Published, scratch: &Path, progress: &watch::Sender<Progress>) -> Result<PathBuf, String> {
    let report =
        Report { to: progress.clone(), now: Progress { source: "Hugging Face".into(), done: 0, total: Some(model.bytes) } };
    report.send();
    let mut builder = ApiBuilder::from_env().with_progress(false);
    if let Some(token) = std::env::var("HF_TOKEN").ok().filter(|token| !token.is_empty()) {
        builder = builder.with_token(Some(token));
    }
    let api = builder.build().map_err(|error| cause(&error))?;
    let found =
        api.model(model.hub_repo.to_owned()).download_with_progress(model.file, report).await.map_err(|error| cause(&error))?;
    let ours = scratch.join(model.file);
    let blob = std::fs::canonicalize(&found).map_err(|error| error.to_string())?;
    if std::fs::hard_link(&blob, &ours).is_err() {
        let (from, to) = (blob, ours.clone());
        let copied = tokio::task::spawn_blocking(move || std::fs::copy(from, to)).await.map_err(|error| error.to_string())?;
        copied.map_err(|error| format!("cannot copy from the hub's cache: {error}"))?;
    }
    Ok(ours)
}

/// The innermost cause: the outer ones repeat the address, or say only that a request failed.
fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    if text.is_empty() { error.to_string() } else { text }
}

#[derive(Clone)]
struct Report {
    to: watch::Sender<Progress>,
    now: Progress,
}

impl Report {
    fn send(&self) {
        self.to.send_replace(self.now.clone());
    }
}

impl HubProgress for Report {
    async fn init(&mut self, size: usize, _filename: &str) {
        self.now.total = Some(size as u64);
        self.send();
    }

    async fn update(&mut self, size: usize) {
        self.now.done += size as u64;
        self.send();
    }

    async fn finish(&mut self) {}
}
