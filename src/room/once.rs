//! `batchroom --once --json`: one state of the engine for scripts, after an answer in every pane if a prompt is given.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use serde_json::json;

use super::lines::Lines;
use crate::commands::asked_to_end;
use crate::engine::Event;
use crate::replay::{Said, What, chats, state};

/// Prints the state and ends; status 1 if a prompt was refused or an answer failed.
pub(super) async fn once(mut lines: Lines, prompt: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut said = Vec::new();
    let mut failed = false;
    for pane in &lines.state.panes {
        let what = What::Named(pane.person.name.as_str().into());
        said.push(Said { frame: 0, user: pane.person.user, request: None, what });
    }
    let mut code = None;
    if let Some(prompt) = prompt {
        for pane in 0..lines.state.panes.len() {
            lines.send(pane, prompt);
            let user = lines.state.panes[pane].person.user;
            let what = What::Asked { words: Some(prompt.into()), tokens: 0 };
            said.push(Said { frame: 0, user, request: lines.request_of(user), what });
        }
        let ending = asked_to_end();
        tokio::pin!(ending);
        // Asked to end, it still says where it has come to.
        while !lines.quiet() && code.is_none() {
            tokio::select! {
                asked = &mut ending => code = Some(asked),
                true = lines.news() => {}
                else => break,
            }
            take(&mut lines, &mut said, &mut failed);
        }
        settle(&mut lines).await;
    }
    let mut object = state(&lines.state.snapshot);
    object["chats"] = json!(chats(&said));
    match writeln!(std::io::stdout().lock(), "{object}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {}
    }
    lines.end();
    Ok(code.map_or(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }, ExitCode::from))
}

fn take(lines: &mut Lines, said: &mut Vec<Said>, failed: &mut bool) {
    // A request that ends is known no more afterwards: its number is looked up before.
    let ids: Vec<_> = lines.state.panes.iter().map(|pane| (pane.person.user, lines.request_of(pane.person.user))).collect();
    for (user, event) in lines.hear() {
        let request = ids.iter().find(|(other, _)| *other == user).and_then(|(_, id)| *id);
        let what = match event {
            Event::Token { text, .. } => What::Text(text.into()),
            Event::Finished(end) => {
                *failed |= end.reason == crate::engine::FinishReason::Failed;
                What::Finished(Box::new(end))
            }
            Event::Rejected(why) => {
                *failed = true;
                What::Refused(why)
            }
            Event::Queued { prompt_tokens, .. } => {
                let asked = said.iter_mut().rev().find(|said| said.request == request && said.user == user);
                if let Some(Said { what: What::Asked { tokens, .. }, .. }) = asked {
                    *tokens = prompt_tokens;
                }
                continue;
            }
            Event::Admitted { .. } | Event::Preempted { .. } | Event::Witnessed(_) => continue,
        };
        said.push(Said { frame: 0, user, request, what });
    }
}

/// The last events may be ahead of the snapshot that shows them.
async fn settle(lines: &mut Lines) {
    let shown = async {
        while !all_shown(lines) && lines.news().await {
            lines.hear();
        }
    };
    let _ = tokio::time::timeout(std::time::Duration::from_secs(2), shown).await;
}

fn all_shown(lines: &Lines) -> bool {
    let (snapshot, asked) = (&lines.state.snapshot, lines.state.panes.len() as u64);
    let ended = snapshot.totals.finished + snapshot.totals.cancelled + snapshot.totals.rejected;
    snapshot.running + snapshot.waiting == 0 && ended >= asked
}
