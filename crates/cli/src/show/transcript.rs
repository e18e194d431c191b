//! A task's story, told from its records.
//!
//! Takes records one by one, so that `log` and `watch` tell it alike. An admission waits for its outcome and both become one line.

use super::call::FailureText;
use super::describe::describe;
use super::discipline;
use super::grant;
use super::measure::{duration_ms, plural};
use super::session;
use super::spending;
use super::{Line, Page, Tone, work};
use crate::record::ParsedRecord;
use crate::remedy;
use std::collections::BTreeMap;
use wire::event::{BrainTalked, CallFinished, MergeProposed, TaskQueued};
use wire::method::work::WorkListResult;
use wire::{Answer, CallId, CallPattern, Event};

/// Reasons stand below lines that are set in themselves.
const SET_IN: &str = "  ";
/// Running calls at the foot of a story.
const CALLS_SHOWN: usize = 3;
/// Work that takes less is not told.
const LONG_MS: u64 = 1_000;

#[derive(Debug, Default)]
pub struct Transcript {
    /// What runs, and since when.
    open: BTreeMap<CallId, (String, i64)>,
    queued_ms: Option<i64>,
    /// Since when a brain thinks and nothing else happens; `None` while it does not.
    thinks_ms: Option<i64>,
    /// `[strict] [test_writing]`: where the work stands that is held to tests first.
    stage: Option<String>,
}

impl Transcript {
    /// What this record adds to the story; often nothing.
    pub fn add(&mut self, record: &ParsedRecord) -> Page {
        let mut page = Page::new();
        let Some(event) = &record.event else {
            page.push(Line::new().faint(format!("  {} (written by a newer kernel)", record.kind)));
            return page;
        };
        self.note(event, record.at_ms);
        match event {
            Event::TaskQueued(e) => {
                self.queued_ms = Some(record.at_ms);
                queued(e, &mut page);
            }
            Event::TaskStarted(e) if e.episode > 1 => {
                page.push(Line::new().name("  ● ").plain("resumed"));
            }
            Event::BrainSaid(e) => page.block("  › ", Tone::Strong, e.text.trim_matches('\n').trim_end()),
            Event::BrainTalked(e) => page.push(talked(e)),
            Event::CallAdmitted(e) => {
                self.open.insert(e.call, (describe(&e.tool, &e.input), record.at_ms));
            }
            Event::CallFinished(e) => finished(e, self.open.remove(&e.call).map(|(what, _)| what), &mut page),
            Event::CallLost(e) => {
                let what = self.open.remove(&e.call).map_or_else(|| e.tool.clone(), |(what, _)| what);
                page.push(Line::new().bad("  ✗ ").plain(what).bad("  lost"));
                page.because_under(SET_IN, "why", &e.why);
            }
            Event::CallRefused(e) => {
                page.push(Line::new().bad("  ✗ ").plain(describe(&e.tool, &e.input)).bad("  refused"));
                page.because_under(SET_IN, "why", &rule(&e.reason, &e.rules));
                if let Some(fix) = remedy::fix(e.hint.as_deref(), e.remedy.as_deref()) {
                    page.because_under(SET_IN, "fix", &fix);
                }
            }
            Event::ReviewAsked(e) => {
                let what = describe(&e.tool, &e.input);
                page.push(Line::new().wait("  ◍ ").plain(what).wait("  asks ").name(e.review.to_string()));
                e.reasons.iter().for_each(|reason| page.because_under(SET_IN, "why", reason));
            }
            Event::ReviewAnswered(e) => {
                let line = match e.answer {
                    Answer::Allow => Line::new().good("  ✓ ").name(e.review.to_string()).plain(" allowed"),
                    Answer::Deny => Line::new().bad("  ⊘ ").name(e.review.to_string()).plain(" denied"),
                    Answer::Changes => Line::new().wait("  ↺ ").name(e.review.to_string()).plain(" changes requested"),
                };
                page.push(line.faint(format!(" by {}", e.by)));
                if let Some(reason) = &e.reason {
                    page.because_under(SET_IN, "why", reason);
                }
                if let Some(other) = &e.alternative {
                    page.because_under(SET_IN, "do", &grant::alternative(other));
                }
            }
            // A yes to this one call is told by its answer.
            Event::GrantGiven(e) if !matches!(e.what, CallPattern::Exact { .. }) => {
                let terms = grant::terms(&e.terms, None);
                let line = Line::new().good("  ✓ ").name(e.grant.to_string()).plain(" lets pass ").plain(grant::what(&e.what));
                page.push(line.plain(format!("  {}", grant::scope(&e.scope))).faint(format!("  {terms}")));
            }
            Event::GrantRevoked(e) => {
                page.push(Line::new().faint("  ○ ").name(e.grant.to_string()).plain(" taken back").faint(format!(" by {}", e.by)));
            }
            Event::BanGiven(e) => {
                let line = Line::new().bad("  ⊘ ").name(e.ban.to_string()).plain(" refuses ").plain(grant::what(&e.what));
                page.push(line.plain(format!("  {}", grant::scope(&e.scope))));
            }
            Event::BudgetAsked(e) => page.push(Line::new().wait("  ◍ ").plain(spending::asked(e))),
            Event::BudgetWarned(e) => page.push(Line::new().wait("  ◍ ").join(spending::warned(e))),
            Event::ProcPaused(e) => page.push(Line::new().wait("  ◍ ").plain("paused  ").faint(&e.reason)),
            Event::MergeProposed(_)
            | Event::MergeFinished(_)
            | Event::MergeCommitted(_)
            | Event::MergeUncommitted(_)
            | Event::MergeTested(_)
            | Event::MergeUndone(_)
            | Event::MergeRejected(_) => merge(event, &mut page),
            Event::RecordsDropped(e) => page.push(Line::new().faint(format!("  … {} of {} left out: too many", e.count, e.kind))),
            Event::TaskFinished(e) => {
                page.push(
                    Line::new()
                        .good("✓ ")
                        .strong("done")
                        .plain(if e.summary.is_empty() { "" } else { "  " })
                        .plain(&e.summary)
                        .faint(self.took(record)),
                );
            }
            Event::TaskFailed(e) => {
                page.push(Line::new().bad("✗ ").strong("failed").faint(self.took(record)));
                page.because("why", &e.reason);
            }
            Event::TaskCancelled(e) => page.push(Line::new().faint("○ ").strong("cancelled").faint(format!(" by {}", e.by))),
            event => kept_and_continued(event, &mut page),
        }
        page
    }

    /// Keeps what the foot tells of.
    fn note(&mut self, event: &Event, at_ms: i64) {
        self.thinks_ms = match event {
            Event::TaskStarted(_) => Some(at_ms),
            Event::TaskParked(_) | Event::TaskFinished(_) | Event::TaskFailed(_) | Event::TaskCancelled(_) => None,
            _ => self.thinks_ms.map(|_| at_ms),
        };
        if let Event::WorkflowEntered(e) = event {
            self.stage = Some(format!("[{}] [{}]", e.mode, e.to));
        }
    }

    /// `  (1m 04s)`: how long the whole task took.
    pub fn took(&self, record: &ParsedRecord) -> String {
        let took = self.queued_ms.and_then(|queued_ms| u64::try_from(record.at_ms.saturating_sub(queued_ms)).ok());
        took.map(|ms| format!("  ({})", duration_ms(ms))).unwrap_or_default()
    }

    /// What goes on right now, for the foot of the story: each running call with its last lines, long work, or that the brain thinks.
    pub fn foot(&self, work: &WorkListResult, now_ms: i64) -> Vec<Line> {
        self.foot_saying(work, now_ms, "ctrl-c returns, the work goes on")
    }

    /// The same with what ctrl-c does.
    pub fn foot_saying(&self, work: &WorkListResult, now_ms: i64, ctrl_c: &str) -> Vec<Line> {
        let since = |at_ms: i64| u64::try_from(now_ms.saturating_sub(at_ms)).unwrap_or(0);
        let mut lines = Vec::new();
        for (id, (what, at_ms)) in self.open.iter().rev().take(CALLS_SHOWN).rev() {
            lines.extend(work::call(what, work.calls.iter().find(|call| call.call == *id), since(*at_ms)));
        }
        lines.extend(work.works.iter().filter(|work| work.ms >= LONG_MS).map(work::long));
        if let (Some(at_ms), true) = (self.thinks_ms, lines.is_empty()) {
            lines.extend(work::call("thinking", None, since(at_ms)));
        }
        if let (Some(stage), false) = (&self.stage, lines.is_empty()) {
            lines.push(Line::new().plain("  ").strong(stage));
        }
        if let (Some(queued_ms), false) = (self.queued_ms, lines.is_empty()) {
            lines.push(Line::new().faint(format!("  {} in all; {ctrl_c}", work::elapsed(since(queued_ms)))));
        }
        lines
    }
}

/// How a task stops, goes on, and what becomes of its changes meanwhile.
fn kept_and_continued(event: &Event, page: &mut Page) {
    match event {
        Event::TaskStopped(e) => {
            page.push(Line::new().wait("◍ ").strong("stopped"));
            page.because("why", &e.reason);
            if let Some(remedy) = &e.remedy {
                page.because("fix", &remedy::next_step(remedy));
            }
        }
        Event::TaskContinued(e) => page.push(match (&e.prompt, e.propose) {
            (Some(prompt), _) => Line::new().name("● ").strong("told more").faint(format!(" by {}  ", e.by)).plain(prompt),
            (None, true) => Line::new().name("● ").strong("its kept changes are proposed").faint(format!(" by {}", e.by)),
            (None, false) => Line::new().name("● ").strong("goes on").faint(format!(" by {}", e.by)),
        }),
        Event::WorkKept(e) => {
            let left = if e.left > 0 { format!("; {} could not be kept", plural(e.left, "path")) } else { String::new() };
            let look = e.task.map(|task| format!(": skep diff {task}")).unwrap_or_default();
            page.push(Line::new().faint(format!("  {} kept{left}{look}", plural(e.files, "file"))));
        }
        Event::WorkDropped(e) => page.push(Line::new().faint(format!("  its kept changes are gone: {}", e.reason))),
        event => {
            discipline::tell(event, page);
            in_session(event, page);
        }
    }
}

/// What happens to plans. The calls of steps are told, so what began and what was written is not.
fn in_session(event: &Event, page: &mut Page) {
    if !matches!(event, Event::StepStarted(_) | Event::PlanReceived(_) | Event::SessionCreated(_)) {
        page.0.extend(session::event_line(event).map(|line| Line::new().plain("  ").join(line)));
    }
}

fn queued(e: &TaskQueued, page: &mut Page) {
    let task = e.task.map(|task| task.to_string()).unwrap_or_default();
    page.push(Line::new().name(task).plain("  ").faint(e.mode.as_str()).plain("  \"").plain(&e.prompt).plain("\""));
}

fn finished(e: &CallFinished, what: Option<String>, page: &mut Page) {
    let what = what.unwrap_or_else(|| e.call.to_string());
    let time = if e.ms == 0 { " (<1ms)".to_owned() } else { format!(" ({})", duration_ms(e.ms).replace(' ', "")) };
    if e.ok {
        page.push(Line::new().good("  ✓ ").plain(what).faint(time));
        return;
    }
    page.push(Line::new().bad("  ✗ ").plain(what).bad("  failed").faint(time));
    if let Some(failure) = FailureText::of(&e.output) {
        failure.add_to(page, SET_IN);
    }
}

fn proposed(e: &MergeProposed, page: &mut Page) {
    let files = plural(e.paths.len() as u64, "file");
    page.push(Line::new().wait("  ◍ ").plain(format!("{files} changed, nothing merged yet")));
    for path in &e.paths {
        let line = Line::new().plain("      ").faint(format!("{:<9}", path.kind)).plain(&path.path);
        page.push(match &path.refused {
            None => line,
            Some(why) => line.bad("  stays out: ").plain(why),
        });
    }
}

fn rule(reason: &str, rules: &[String]) -> String {
    let named = rules.is_empty() || rules.iter().all(|rule| reason.contains(rule.as_str()));
    if named { reason.to_owned() } else { format!("{reason} (rule {})", rules.join(", ")) }
}

fn talked(event: &BrainTalked) -> Line {
    let line = Line::new().faint("  ┄ ").plain(format!("talk {}", event.end));
    if event.ungated { line.wait("  ungated").faint(": its own tools did not ask the policy") } else { line }
}

/// The way of changes into the project.
fn merge(event: &Event, page: &mut Page) {
    match event {
        Event::MergeProposed(e) => proposed(e, page),
        Event::MergeFinished(e) => {
            let merged = e.paths.iter().filter(|path| path.refused.is_none()).count() as u64;
            page.push(Line::new().good("  ✓ ").plain(format!("merged {}", plural(merged, "file"))));
        }
        Event::MergeCommitted(e) => {
            let on = e.reference.strip_prefix("refs/heads/").unwrap_or(&e.reference);
            let line = Line::new().good("  ✓ ").plain("committed ").name(short(&e.commit)).plain(format!(" on {on}"));
            page.push(line.faint("  hooks were not run"));
        }
        Event::MergeUncommitted(e) => {
            page.push(Line::new().wait("  ◍ ").plain("no commit was made"));
            page.because_under(SET_IN, "why", &e.reason);
        }
        Event::MergeTested(e) => {
            let count = e.passed.map_or_else(|| "none counted".to_owned(), |passed| format!("{} passed", plural(passed, "test")));
            let mark = if e.ok { Line::new().good("  ✓ ") } else { Line::new().bad("  ✗ ") };
            page.push(mark.plain("tested by the kernel: ").plain(count));
        }
        Event::MergeUndone(e) => {
            let back = e.paths.iter().filter(|path| path.refused.is_none()).count() as u64;
            page.push(Line::new().wait("  ↩ ").plain(format!("took back {}", plural(back, "file"))));
        }
        Event::MergeRejected(e) => page.push(Line::new().faint("  ○ changes rejected by ").plain(&e.by).faint(format!("  {}", e.reason))),
        _ => {}
    }
}

/// A commit as people name it.
fn short(commit: &str) -> String {
    commit.chars().take(10).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::line;
    use serde_json::json;
    use wire::event::*;
    use wire::{MergeId, MergePath, Mode, PathChange, Pid, ReviewId, TaskId, ZoneId};

    fn story(events: Vec<Event>) -> String {
        let mut transcript = Transcript::default();
        let mut page = Page::new();
        for (seq, event) in events.into_iter().enumerate() {
            page.append(transcript.add(&ParsedRecord::parse(&line(seq as u64, event)).unwrap()));
        }
        page.render(false, None)
    }

    #[test]
    fn a_task_reads_like_a_story() {
        let (pid, task) = (Pid(3), Some(TaskId(1)));
        let refused: Event = serde_json::from_value(json!({"type": "call.refused", "payload": {
            "pid": 3, "task": "task-1", "call": "call-2", "tool": "fs.write", "input": {"path": "/etc/passwd"}, "digest": "d",
            "code": "denied", "reason": "it lies outside the project", "hint": "write inside the project", "rules": ["builtin:outside-project"], "paths": [], "size": null,
        }}))
        .unwrap();
        let asked: Event = serde_json::from_value(json!({"type": "review.asked", "payload": {
            "pid": 3, "task": "task-1", "review": "r-1", "tool": "shell.run", "input": {"command": ["npm", "i"]}, "bind": "b",
            "like": {"is": "like", "tool": "shell.run", "command": ["npm"]}, "reasons": ["installs a dependency"], "rules": ["installs"], "paths": [], "size": null,
        }}))
        .unwrap();
        let mut admitted = json!({"type": "call.admitted", "payload": {
            "pid": 3, "task": "task-1", "call": "call-1", "tool": "fs.read", "input": {"path": "src/a.rs"}, "digest": "d",
            "hands": "kernel", "read_only": true, "rules": ["reads"], "grant": null, "token": null, "paths": [], "size": null,
        }});
        admitted["payload"]["bind"] = json!("b");
        let done =
            |paths| MergeProposed { pid, task, merge: MergeId(1), digest: "d".into(), frozen: "f".into(), paths, summary: String::new() };
        let path = |path: &str, refused: Option<&str>| MergePath {
            path: path.into(),
            kind: PathChange::Created,
            from: None,
            refused: refused.map(Into::into),
        };
        let text = story(vec![
            TaskQueued {
                pid,
                task,
                zone: ZoneId(1),
                mode: Mode::Act,
                prompt: "add it".into(),
                brain: "b".into(),
                priority: 0,
                calls_max: None,
                original: None,
                discard: false,
                order: None,
            }
            .into(),
            TaskStarted { pid, task, episode: 1 }.into(),
            BrainSaid { pid, task, text: "I look first\x1b[2J".into() }.into(),
            serde_json::from_value(admitted).unwrap(),
            CallFinished { pid, task, call: CallId(1), ok: true, output: json!({}), blob: None, blob_bytes: 0, ms: 3 }.into(),
            refused,
            asked,
            ReviewAnswered { pid, task, review: ReviewId(1), answer: Answer::Allow, by: "ann".into(), reason: None, alternative: None }
                .into(),
            TaskStarted { pid, task, episode: 2 }.into(),
            CallFinished { pid, task, call: CallId(9), ok: false, output: json!({"stderr": "no\n"}), blob: None, blob_bytes: 0, ms: 1_200 }
                .into(),
            done(vec![path("a.sh", None), path("b.sh", Some("no"))]).into(),
            TaskFinished { pid, task, summary: "added".into(), result: None }.into(),
        ]);
        let expected = "\
task-1  act  \"add it\"
  › I look first\\x1b[2J
  ✓ Reading src/a.rs (3ms)
  ✗ Writing /etc/passwd  refused
    ↳ why  it lies outside the project (rule builtin:outside-project)
    ↳ fix  write inside the project
  ◍ Running npm i  asks r-1
    ↳ why  installs a dependency
  ✓ r-1 allowed by ann
  ● resumed
  ✗ call-9  failed (1.2s)
    ↳ why  no
  ◍ 2 files changed, nothing merged yet
      created  a.sh
      created  b.sh  stays out: no
✓ done  added  (11.0 s)
";
        assert_eq!(text, expected);
    }

    fn admitted(call: u64, tool: &str, input: serde_json::Value) -> Event {
        serde_json::from_value(json!({"type": "call.admitted", "payload": {
            "pid": 3, "task": "task-1", "call": format!("call-{call}"), "tool": tool, "input": input, "digest": "d", "bind": "b",
            "hands": "kernel", "read_only": true, "rules": [], "grant": null, "token": null, "paths": [], "size": null,
        }}))
        .unwrap()
    }

    #[test]
    fn the_foot_shows_what_runs_and_for_how_long() {
        let mut transcript = Transcript::default();
        let started = TaskStarted { pid: Pid(3), task: Some(TaskId(1)), episode: 1 };
        transcript.add(&ParsedRecord::parse(&line(1, started)).unwrap());
        let mut now = WorkListResult::default();
        let foot = |transcript: &Transcript, now: &WorkListResult, columns| Page(transcript.foot(now, 10_000)).render(false, Some(columns));
        assert_eq!(foot(&transcript, &now, 80), "  ⠹ 9s  thinking\n");
        let command = json!({"command": ["cargo", "test", "--workspace"]});
        transcript.add(&ParsedRecord::parse(&line(2, admitted(7, "shell.run", command))).unwrap());
        now.calls =
            serde_json::from_value(json!([{"task": "task-1", "call": "call-7", "ms": 1, "lines": ["running 2 tests", "test a ... ok"]}]))
                .unwrap();
        let expected = "  ⠋ 8s  Running cargo test --workspace
    │ running 2 tests
    │ test a ... ok
";
        assert_eq!(foot(&transcript, &now, 80), expected);
        assert_eq!(foot(&transcript, &now, 120), expected);
        now.works = serde_json::from_value(
            json!([{"what": "freezing", "done": 10, "total": 4_000, "ms": 1_500}, {"what": "merging", "done": 1, "ms": 5}]),
        )
        .unwrap();
        assert!(foot(&transcript, &now, 80).ends_with("1s  collecting the changes  10 of 4,000 files\n"), "what is short is not told");
    }

    /// Codes are for programs: a person reads why, and what to do.
    #[test]
    fn a_failed_call_says_why_in_words() {
        let failed = |output| {
            let end =
                CallFinished { pid: Pid(3), task: Some(TaskId(1)), call: CallId(1), ok: false, output, blob: None, blob_bytes: 0, ms: 2 };
            story(vec![admitted(1, "fs.read", json!({"path": "a"})), end.into()])
        };
        let missing = failed(json!({"error": "not_found", "reason": "there is no `a`", "hint": "list the folder"}));
        assert_eq!(missing, "  ✗ Reading a  failed (2ms)\n    ↳ why  there is no `a`\n    ↳ fix  list the folder\n");
        let fault = failed(json!({"error": "fault", "reason": "the disk is full", "hint": null, "is_retryable": true}));
        assert_eq!(fault, "  ✗ Reading a  failed (2ms)\n    ↳ why  the disk is full\n");
    }
}
