//! A task's story, told from its records.
//!
//! Takes records one by one, so that `log` and `watch` tell it alike. An admission waits for its outcome and both become one line.

use super::call::describe;
use super::grant;
use super::measure::{duration_ms, plural};
use super::spending;
use super::{Line, Page, Tone};
use crate::record::ParsedRecord;
use crate::remedy;
use std::collections::BTreeMap;
use wire::event::{CallFinished, MergeProposed, TaskQueued};
use wire::{Answer, CallId, CallPattern, Event};

/// Reasons stand below lines that are set in themselves.
const SET_IN: &str = "  ";

#[derive(Debug, Default)]
pub struct Transcript {
    open: BTreeMap<CallId, String>,
}

impl Transcript {
    /// What this record adds to the story; often nothing.
    pub fn add(&mut self, record: &ParsedRecord) -> Page {
        let mut page = Page::new();
        let Some(event) = &record.event else {
            page.push(Line::new().faint(format!("  {} (written by a newer kernel)", record.kind)));
            return page;
        };
        match event {
            Event::TaskQueued(e) => queued(e, &mut page),
            Event::TaskStarted(e) if e.episode > 1 => {
                page.push(Line::new().name("  ● ").plain("resumed").faint(format!(" (episode {})", e.episode)));
            }
            Event::BrainSaid(e) => page.block("  › ", Tone::Strong, &e.text),
            Event::CallAdmitted(e) => {
                self.open.insert(e.call, describe(&e.tool, &e.input));
            }
            Event::CallFinished(e) => finished(e, self.open.remove(&e.call), &mut page),
            Event::CallLost(e) => {
                let what = self.open.remove(&e.call).unwrap_or_else(|| e.tool.clone());
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
                    Answer::Deny => Line::new().bad("  ✗ ").name(e.review.to_string()).plain(" denied"),
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
                page.push(line.plain(format!("  for {}", grant::scope(&e.scope))).faint(format!("  {terms}")));
            }
            Event::GrantRevoked(e) => {
                page.push(Line::new().faint("  ✗ ").name(e.grant.to_string()).plain(" taken back").faint(format!(" by {}", e.by)));
            }
            Event::BanGiven(e) => {
                let line = Line::new().bad("  ✗ ").name(e.ban.to_string()).plain(" refuses ").plain(grant::what(&e.what));
                page.push(line.plain(format!("  for {}", grant::scope(&e.scope))));
            }
            Event::BudgetAsked(e) => page.push(Line::new().wait("  ◍ ").plain(spending::asked(e))),
            Event::BudgetWarned(e) => page.push(Line::new().wait("  ◍ ").join(spending::warned(e))),
            Event::ProcPaused(e) => page.push(Line::new().wait("  ◍ ").plain("paused  ").faint(&e.reason)),
            Event::MergeProposed(e) => proposed(e, &mut page),
            Event::MergeFinished(e) => {
                let merged = e.paths.iter().filter(|path| path.refused.is_none()).count() as u64;
                page.push(Line::new().good("  ✓ ").plain(format!("merged {}", plural(merged, "file"))));
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
            Event::MergeRejected(e) => {
                page.push(Line::new().faint("  ✗ changes rejected by ").plain(&e.by).faint(format!("  {}", e.reason)))
            }
            Event::RecordsDropped(e) => page.push(Line::new().faint(format!("  … {} of {} left out: too many", e.count, e.kind))),
            Event::TaskFinished(e) => {
                page.push(Line::new().good("✓ ").strong("done").plain(if e.summary.is_empty() { "" } else { "  " }).plain(&e.summary));
            }
            Event::TaskFailed(e) => {
                page.push(Line::new().bad("✗ ").strong("failed"));
                page.because("why", &e.reason);
            }
            Event::TaskCancelled(e) => page.push(Line::new().faint("✗ ").strong("cancelled").faint(format!(" by {}", e.by))),
            _ => {}
        }
        page
    }

    /// What is being done right now, for a spinner.
    pub fn current_call(&self) -> Option<&str> {
        self.open.values().next_back().map(String::as_str)
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
        page.push(Line::new().plain("  ").plain(what).faint(" …").faint(time));
        return;
    }
    page.push(Line::new().bad("  ✗ ").plain(what).bad("  failed").faint(time));
    if let Some(why) =
        ["error", "why", "stderr", "stdout"].iter().find_map(|key| e.output.get(key)?.as_str().filter(|text| !text.is_empty()))
    {
        page.because_under(SET_IN, "why", why.trim_end());
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
            TaskFinished { pid, task, summary: "added".into() }.into(),
        ]);
        let expected = "\
task-1  act  \"add it\"
  › I look first\\x1b[2J
  Reading src/a.rs … (3ms)
  ✗ Writing /etc/passwd  refused
    ↳ why  it lies outside the project (rule builtin:outside-project)
    ↳ fix  write inside the project
  ◍ Running npm i  asks r-1
    ↳ why  installs a dependency
  ✓ r-1 allowed by ann
  ● resumed (episode 2)
  ✗ call-9  failed (1.2s)
    ↳ why  no
  ◍ 2 files changed, nothing merged yet
      created  a.sh
      created  b.sh  stays out: no
✓ done  added
";
        assert_eq!(text, expected);
    }
}
