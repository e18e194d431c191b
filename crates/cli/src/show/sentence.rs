//! One record in one line, for the journal's table.

use super::Line;
use super::call::deed;
use super::measure::{duration_ms, many};
use crate::record::Record;
use serde_json::Value;
use wire::{Event, MergePath};

/// Columns of the longest line; the whole record is in `--json`.
const COLUMNS: usize = 160;

/// What the record says. Its time, process and kind have columns of their own.
pub fn sentence(record: &Record) -> Line {
    let task = record.payload.get("task").and_then(Value::as_str).map(|task| Line::new().name(task).plain("  ")).unwrap_or_default();
    match record.event.as_ref().and_then(told) {
        Some(line) => task.join(line).cut(COLUMNS),
        None => task.join(listed(&record.payload)).cut(COLUMNS),
    }
}

/// The kinds that people read most.
fn told(event: &Event) -> Option<Line> {
    Some(match event {
        Event::KernelStarted(e) => Line::new().plain(format!("skep {}", e.version)),
        Event::ZoneOpened(e) => Line::new().name(e.zone.to_string()).plain("  ").plain(&e.path).faint(format!("  @{}", e.branch)),
        Event::PolicyUpdated(e) => {
            Line::new().name(e.zone.to_string()).plain(format!("  version {}", e.version)).faint(format!("  by {}", e.by))
        }
        Event::ProcSpawned(e) => Line::new().strong(&e.name),
        Event::TaskQueued(e) => Line::new().faint(e.mode.as_str()).plain("  \"").plain(&e.prompt).plain("\""),
        Event::TaskStarted(e) => Line::new().faint(format!("episode {}", e.episode)),
        Event::TaskFinished(e) => Line::new().plain(&e.summary),
        Event::TaskFailed(e) => Line::new().plain(&e.reason),
        Event::TaskParked(e) => Line::new().faint("waits for ").name(e.review.to_string()),
        Event::WorkspaceOpened(_) | Event::WorkspaceClosed(_) => Line::new(),
        Event::CallAdmitted(e) => Line::new().name(e.call.to_string()).plain("  ").plain(deed(&e.tool, &e.input)).faint(by(&e.rules)),
        Event::CallRefused(e) => {
            Line::new().name(e.call.to_string()).plain("  ").plain(deed(&e.tool, &e.input)).faint(format!("  {}", e.reason))
        }
        Event::CallFinished(e) => {
            let end = if e.ok { Line::new().good("ok") } else { Line::new().bad("failed") };
            Line::new().name(e.call.to_string()).plain("  ").join(end).faint(format!("  {}", duration_ms(e.ms)))
        }
        Event::ReviewAsked(e) => Line::new().name(e.review.to_string()).plain("  ").plain(deed(&e.tool, &e.input)).faint(by(&e.rules)),
        Event::ReviewAnswered(e) => {
            Line::new().name(e.review.to_string()).plain(format!("  {:?}", e.answer).to_lowercase()).faint(format!("  by {}", e.by))
        }
        Event::GrantGiven(e) => {
            Line::new().name(e.grant.to_string()).plain("  ").plain(&e.tool).faint(format!("  {}", many(e.uses.into(), "use")))
        }
        Event::MergeProposed(e) => Line::new().name(e.merge.to_string()).plain("  ").plain(files(&e.paths)),
        Event::MergeFinished(e) => Line::new().name(e.merge.to_string()).plain("  ").plain(files(&e.paths)),
        Event::BrainSaid(e) => Line::new().plain("› ").plain(&e.text),
        _ => return None,
    })
}

fn by(rules: &[String]) -> String {
    if rules.is_empty() { String::new() } else { format!("  by {}", rules.join(", ")) }
}

fn files(paths: &[MergePath]) -> String {
    paths.iter().map(|path| path.path.as_str()).collect::<Vec<_>>().join(", ")
}

/// Any other payload, key by key. Hashes are for machines.
fn listed(payload: &Value) -> Line {
    let Value::Object(payload) = payload else { return Line::new() };
    let mut line = Line::new();
    for (key, value) in payload {
        let text = match value {
            _ if matches!(key.as_str(), "pid" | "task" | "digest" | "bind" | "blob" | "frozen" | "base" | "head") => continue,
            Value::Null => continue,
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        line = if line.is_empty() { line } else { line.plain("  ") }.faint(format!("{key} ")).plain(text);
    }
    line
}
