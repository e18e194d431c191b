//! One record in one line, for the journal's table.

use super::Line;
use super::describe::describe;
use super::grant;
use super::measure::{bytes, duration_ms, plural, repository};
use super::session;
use super::spending;
use crate::record::ParsedRecord;
use serde_json::Value;
use wire::{Event, MergePath};

/// Columns of a payload that nobody has words for; the whole record is in `--json`.
const COLUMNS: usize = 160;
/// Columns of a prompt, of what somebody said and of a call's description: what comes after them is read too.
const PROSE_COLUMNS: usize = 100;
/// Paths of a merge that are named.
const PATHS_NAMED: usize = 5;

/// What the record says. Its time, process and kind have columns of their own.
pub fn record_line(record: &ParsedRecord) -> Line {
    let task = record.payload.get("task").and_then(Value::as_str).map(|task| Line::new().name(task).plain("  ")).unwrap_or_default();
    match record.event.as_ref().and_then(common_event) {
        Some(line) => task.join(line),
        None => task.join(listed(&record.payload)).cut(COLUMNS),
    }
}

/// The kinds that people read most.
fn common_event(event: &Event) -> Option<Line> {
    Some(match event {
        Event::KernelStarted(e) => Line::new().plain(format!("skep {}", e.version)),
        Event::ConfigLoaded(e) => Line::new().plain(e.files.join(", ")).faint(format!("  {}", e.sections.join(", "))),
        Event::ConfigRejected(e) => Line::new().plain(e.files.join(", ")).faint(format!("  {}", e.why)),
        Event::ZoneOpened(e) => Line::new().plain(repository(e.zone)).plain("  ").plain(&e.path).faint(format!("  @{}", e.branch)),
        Event::PolicyUpdated(e) => {
            Line::new().plain(repository(e.zone)).plain(format!("  version {}", e.version)).faint(format!("  by {}", e.by))
        }
        Event::HomePolicyUpdated(e) => Line::new().plain(format!("your own policy  version {}", e.version)).faint(format!("  by {}", e.by)),
        Event::ProcSpawned(e) => Line::new().strong(&e.name),
        Event::TaskQueued(e) => Line::new().faint(e.mode.as_str()).plain("  \"").join(prose(&e.prompt)).plain("\""),
        Event::TaskStarted(e) => Line::new().faint(format!("run {}", e.episode)),
        Event::TaskFinished(e) => prose(&e.summary),
        Event::TaskFailed(e) => Line::new().plain(&e.reason),
        Event::TaskStopped(e) => Line::new().plain(&e.reason).faint(format!("  ({})", e.cause.as_str())),
        Event::TaskContinued(e) => {
            let line = e.prompt.as_ref().map_or_else(Line::new, |prompt| Line::new().plain("\"").join(prose(prompt)).plain("\""));
            line.faint(format!("  by {}", e.by))
        }
        Event::WorkKept(e) => Line::new().plain(format!("{}, {}", plural(e.files, "file"), bytes(e.bytes))),
        Event::WorkDropped(e) => Line::new().plain(&e.reason).faint(format!("  by {}", e.by)),
        Event::TaskParked(e) => Line::new().faint("waits for ").name(e.review.to_string()),
        Event::WorkspaceOpened(_) | Event::WorkspaceClosed(_) => Line::new(),
        Event::WorkspacePaused(e) => Line::new().faint(format!("by {}", e.by)),
        Event::WorkspaceResumed(e) => Line::new().faint(format!("by {}", e.by)),
        Event::CallAdmitted(e) => {
            Line::new().name(e.call.to_string()).plain("  ").join(prose(&describe(&e.tool, &e.input))).faint(by(&e.rules))
        }
        Event::CallRefused(e) => {
            Line::new().name(e.call.to_string()).plain("  ").join(prose(&describe(&e.tool, &e.input))).faint(format!("  {}", e.reason))
        }
        Event::CallFinished(e) => {
            let end = if e.ok { Line::new().good("ok") } else { Line::new().bad("failed") };
            Line::new().name(e.call.to_string()).plain("  ").join(end).faint(format!("  {}", duration_ms(e.ms)))
        }
        Event::ReviewAsked(e) => {
            Line::new().name(e.review.to_string()).plain("  ").join(prose(&describe(&e.tool, &e.input))).faint(by(&e.rules))
        }
        Event::ReviewAnswered(e) => {
            let line = Line::new().name(e.review.to_string()).plain(format!("  {:?}", e.answer).to_lowercase());
            let instead = e.alternative.as_ref().map(|other| format!("  instead {}", grant::alternative(other)));
            line.plain(instead.unwrap_or_default()).faint(format!("  by {}", e.by))
        }
        Event::GrantGiven(e) => {
            let terms = grant::terms(&e.terms, None);
            let gap = if terms.is_empty() { "" } else { "  " };
            let line = Line::new().name(e.grant.to_string()).plain("  ").plain(grant::what(&e.what));
            line.plain(format!("  {}", grant::scope(&e.scope))).faint(gap).faint(terms)
        }
        Event::GrantRevoked(e) => Line::new().name(e.grant.to_string()).faint(format!("  by {}", e.by)),
        Event::BanGiven(e) => {
            let line = Line::new().name(e.ban.to_string()).plain("  ").plain(grant::what(&e.what));
            line.plain(format!("  {}", grant::scope(&e.scope))).faint("  ").faint(&e.reason)
        }
        Event::BanLifted(e) => Line::new().name(e.ban.to_string()).faint(format!("  by {}", e.by)),
        Event::TokenIssued(e) => {
            let tool = e.claims.get("tool").and_then(Value::as_str).unwrap_or("a tool");
            Line::new().name(e.token.to_string()).plain("  ").plain(tool).faint(format!("  {}", plural(e.ops.into(), "use")))
        }
        Event::TokenRevoked(e) => Line::new().name(e.token.to_string()).faint(format!("  by {}", e.by)),
        Event::CallObserved(e) => {
            let line = Line::new().name(e.call.to_string()).plain(format!("  {} in, {} out", bytes(e.bytes_in), bytes(e.bytes_out)));
            line.faint(format!("  {}  for {} ({})", duration_ms(e.ms), e.grant, grant::level(e.level)))
        }
        Event::NetClosed(e) => {
            let what = format!("  {} {}:{}  ", e.method.as_deref().unwrap_or("tunnel to"), e.host, e.port);
            let line = Line::new().name(e.call.to_string()).plain(what).plain(&e.end);
            line.faint(format!("  {} out, {} in  {}", bytes(e.up), bytes(e.down), duration_ms(e.ms)))
        }
        Event::MergeStarted(e) => Line::new().name(e.merge.to_string()).faint(format!("  by {}", e.by)),
        Event::MergeProposed(e) => Line::new().name(e.merge.to_string()).plain("  ").plain(files(&e.paths)),
        Event::MergeCommitting(e) => Line::new().name(e.merge.to_string()).plain(format!("  {} on {}", e.commit, e.reference)),
        Event::MergeCommitted(e) => Line::new().name(e.merge.to_string()).plain(format!("  {} on {}", e.commit, e.reference)),
        Event::MergeUncommitted(e) => Line::new().name(e.merge.to_string()).plain("  ").plain(&e.reason),
        Event::MergeFinished(e) => Line::new().name(e.merge.to_string()).plain("  ").plain(files(&e.paths)),
        Event::MergeUndone(e) => Line::new().name(e.merge.to_string()).plain("  ").plain(files(&e.paths)),
        Event::BrainSaid(e) => Line::new().plain("› ").join(prose(&e.text)),
        Event::BrainTalked(e) => {
            let line = Line::new().plain(format!("talk {}", e.end)).faint(format!("  {} drawn", bytes(e.bytes)));
            if e.ungated { line.wait("  ungated") } else { line }
        }
        Event::BrainRemembered(_) | Event::WorkspaceBased(_) => Line::new(),
        Event::BrainTranscribed(e) => Line::new().faint(format!("{}, {}", plural(e.lines, "line"), bytes(e.bytes))),
        Event::ProcExited(e) => Line::new().plain(&e.reason),
        event => return crew_event(event).or_else(|| spending::event_line(event)).or_else(|| session::event_line(event)),
    })
}

/// What is about workers, their queues, roles and places.
fn crew_event(event: &Event) -> Option<Line> {
    Some(match event {
        Event::SiteRegistered(e) => Line::new().plain(repository(e.zone)).plain("  ").name(&e.site),
        Event::ZoneClosed(e) => Line::new().plain(repository(e.zone)).faint(format!("  by {}", e.by)),
        Event::WorkerEnrolled(e) => Line::new().faint("for ").plain(&e.brain),
        Event::QueuePaused(e) => Line::new().faint(format!("by {}", e.by)),
        Event::QueueResumed(e) => Line::new().faint(format!("by {}", e.by)),
        Event::TaskPaused(e) => Line::new().faint("for ").name(e.until.to_string()).faint(format!("  by {}", e.by)),
        Event::TaskPrioritized(e) => Line::new().plain(e.priority.to_string()).faint(format!("  by {}", e.by)),
        Event::TaskNarrowed(e) => {
            let lists = e.lists.iter().map(|list| format!("{}: {}", list.of, list.tools.join(" ")));
            Line::new().plain("tools of ").plain(lists.collect::<Vec<_>>().join("; ")).faint(format!("  by {}", e.by))
        }
        Event::SkillUsed(e) => Line::new().plain(&e.skill).faint(e.role.as_ref().map(|role| format!("  of {role}")).unwrap_or_default()),
        Event::HookStarted(e) => Line::new().name(&e.artifact),
        Event::ArtifactKept(e) => Line::new().name(&e.artifact).plain("  ").join(prose(&e.text)),
        Event::HookFailed(e) => Line::new().name(&e.artifact).plain("  ").plain(&e.reason),
        _ => return None,
    })
}

fn by(rules: &[String]) -> String {
    if rules.is_empty() { String::new() } else { format!("  by {}", rules.join(", ")) }
}

fn prose(text: &str) -> Line {
    Line::new().plain(text).cut(PROSE_COLUMNS)
}

fn files(paths: &[MergePath]) -> String {
    let named = paths.iter().take(PATHS_NAMED).map(|path| path.path.as_str()).collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(PATHS_NAMED) {
        0 => named,
        more => format!("{named} and {} more", plural(more as u64, "file")),
    }
}

/// Any other payload, key by key. Hashes are for machines.
fn listed(payload: &Value) -> Line {
    let Value::Object(payload) = payload else { return Line::new() };
    let mut line = Line::new();
    for (key, value) in payload {
        let text = match value {
            _ if matches!(key.as_str(), "pid" | "task" | "digest" | "bind" | "blob" | "frozen" | "base" | "head" | "snapshot") => continue,
            Value::Null => continue,
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        line = if line.is_empty() { line } else { line.plain("  ") }.faint(format!("{key} ")).plain(text);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::line;
    use serde_json::json;

    fn said(event: Value) -> String {
        let event: Event = serde_json::from_value(event).unwrap();
        record_line(&ParsedRecord::parse(&line(7, event)).unwrap()).render(false)
    }

    #[test]
    fn grants_and_bans_read_like_sentences() {
        let like = json!({"is": "like", "tool": "fs.write", "paths": ["src/**"]});
        let given = json!({"type": "grant.given", "payload": {"pid": 3, "task": "task-1", "grant": "g-1", "scope": {"of": "all"}, "what": like,
            "terms": {"rate": {"max": 5, "per_ms": 60_000}}, "review": "r-1", "by": "ann"}});
        assert_eq!(said(given), "task-1  g-1  fs.write on src/**  always  at most 5 in 1m 00s");
        let banned = json!({"type": "ban.given", "payload": {"pid": 3, "ban": "b-1", "scope": {"of": "session", "session": "s-3"},
            "what": like, "reason": "no", "alternative": null, "review": null, "by": "ann"}});
        assert_eq!(said(banned), "b-1  fs.write on src/**  for this task  no");
        let answered = json!({"type": "review.answered", "payload": {"pid": 3, "review": "r-1", "answer": "deny", "by": "ann", "reason": null,
            "alternative": {"tool": "fs.read", "input": {"path": "a\u{202e}b"}}}});
        assert_eq!(said(answered), "r-1  deny  instead fs.read path=a\\u{202e}b  by ann");
        let observed = json!({"type": "call.observed", "payload":
            {"pid": 3, "call": "call-4", "grant": "g-1", "level": "detailed", "bytes_in": 12, "bytes_out": 1_500, "ms": 3}});
        assert_eq!(said(observed), "call-4  12 B in, 1.5 kB out  3 ms  for g-1 (detailed)");
        let issued = json!({"type": "token.issued", "payload":
            {"pid": 2, "token": "t-1", "claims": {"tool": "fs.*"}, "ops": 1, "until": {"boot": "b", "boottime_ms": 1}}});
        assert_eq!(said(issued), "t-1  fs.*  1 use");
    }
}
