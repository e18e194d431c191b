//! Two runs of a task side by side, from their records, up to the first thing that differs.
//!
//! Reads the ledger and writes nothing; what may differ between two runs is a closed list (`normalise.rs`).
#![forbid(unsafe_code)]

mod normalise;
mod recorded;

pub use recorded::RecordedOutcomes;

use gate::MODEL_REQUEST;
use ledger::Ledger;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use workspace::Frozen;
use workspace::change_set::{self, ChangeSet, ChangedState};
use world::event::CallFinished;
use world::{CallId, Event, Fault, FaultKind, Task, TaskId, TaskState};

/// Lines of a difference that are told; a person reads the first few.
const LINES_MAX: usize = 24;
const INPUT_CHARS_MAX: usize = 300;

/// What came of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayReport {
    pub task: TaskId,
    pub of: TaskId,
    pub calls: u64,
    pub requests: u64,
    /// What differed first.
    pub divergence: Option<Divergence>,
}

/// The first thing that came out differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// `call 3`, `request 2`, `changes` or `end`.
    pub at: String,
    pub recorded: Vec<String>,
    pub replayed: Vec<String>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.at)?;
        self.recorded.iter().try_for_each(|line| write!(f, "\n  recorded {line}"))?;
        self.replayed.iter().try_for_each(|line| write!(f, "\n  replayed {line}"))
    }
}

impl Divergence {
    /// Reads it back from its words.
    pub fn parse(text: &str) -> Divergence {
        let mut lines = text.lines();
        let mut found = Divergence { at: lines.next().unwrap_or_default().to_owned(), recorded: Vec::new(), replayed: Vec::new() };
        for line in lines {
            if let Some(line) = line.strip_prefix("  recorded ") {
                found.recorded.push(line.to_owned());
            } else if let Some(line) = line.strip_prefix("  replayed ") {
                found.replayed.push(line.to_owned());
            } else {
                // A line of what is said in several.
                let side = if found.replayed.is_empty() { &mut found.recorded } else { &mut found.replayed };
                side.push(line.to_owned());
            }
        }
        found
    }
}

/// How a replay ended.
pub struct ReplayEnd {
    pub good: bool,
    pub how: &'static str,
    pub summary: String,
}

/// One call as the record has it.
struct Made {
    call: CallId,
    tool: String,
    /// Keyed hash of the exact input.
    digest: String,
    input: Value,
    end: String,
    /// Why it was refused. Two runs may say the same in other words.
    why: String,
    /// What the tool gave; `None` where nothing is known of it.
    output: Option<Value>,
}

impl Made {
    fn same(&self, other: &Made) -> bool {
        self.tool == other.tool && self.digest == other.digest && self.end == other.end && self.output_difference(other).is_none()
    }

    /// Where the outputs differ in more than a run's own times, numbers and temporary folders.
    fn output_difference(&self, other: &Made) -> Option<(String, String, String)> {
        normalise::difference(self.output.as_ref()?, other.output.as_ref()?)
    }

    fn told(&self) -> Vec<String> {
        let input: String = self.input.to_string().chars().take(INPUT_CHARS_MAX).collect();
        let why = if self.why.is_empty() { String::new() } else { format!(": {}", self.why) };
        vec![format!("{} {input}", self.tool), format!("came to: {}{why}", self.end)]
    }
}

/// What one run did.
#[derive(Default)]
struct Run {
    calls: Vec<Made>,
    requests: u64,
    /// The request that was not on the cassette, and why.
    missed: Option<(u64, String)>,
}

/// Compares a replay with the task that it replays; `changed` is what its room holds that its base did not.
pub fn compare(ledger: &Ledger, original: &Task, replay: &Task, end: &ReplayEnd, changed: &ChangeSet) -> Result<ReplayReport, Fault> {
    let (then, now) = (run(ledger, original)?, run(ledger, replay)?);
    let divergence = match calls(&then, &now, end) {
        Some(found) => Some(found),
        None => match ends(original, end) {
            Some(found) => Some(found),
            None => changes(ledger, &proposed(ledger, original)?, changed)?,
        },
    };
    let (calls, requests) = (now.calls.len() as u64, now.requests);
    Ok(ReplayReport { task: replay.id, of: original.id, calls, requests, divergence })
}

fn run(ledger: &Ledger, task: &Task) -> Result<Run, Fault> {
    let mut run = Run::default();
    for event in ledger.events(task.id, &["call.admitted", "call.refused", "call.finished", "call.lost", "model.used"])? {
        match event {
            Event::CallAdmitted(e) if e.tool == MODEL_REQUEST => run.requests += 1,
            Event::CallAdmitted(e) if e.of.is_none() => {
                let (end, why) = ("no end".into(), String::new());
                run.calls.push(Made { call: e.call, tool: e.tool, digest: e.digest, input: e.input, end, why, output: None });
            }
            Event::CallRefused(e) if e.of.is_none() && e.tool != MODEL_REQUEST => {
                let end = format!("refused ({})", e.code.as_str());
                run.calls.push(Made { call: e.call, tool: e.tool, digest: e.digest, input: e.input, end, why: e.reason, output: None });
            }
            Event::CallFinished(e) => {
                if let Some(made) = run.calls.iter_mut().rev().find(|made| made.call == e.call) {
                    made.end = if e.ok { "ok".into() } else { "failed".into() };
                    made.output = whole_output(ledger, e)?;
                }
            }
            Event::CallLost(e) if e.tool == MODEL_REQUEST => run.requests = run.requests.saturating_sub(1),
            Event::CallLost(e) => run.calls.retain(|made| made.call != e.call),
            Event::ModelUsed(e) if e.status.is_none() && e.provider == "cassette" && run.missed.is_none() => {
                run.missed = Some((run.requests, e.notes.join("\n")));
            }
            _ => {}
        }
    }
    Ok(run)
}

/// What a tool gave, whole where it is kept whole. The claims of a brain's own hands say nothing that could be compared.
fn whole_output(ledger: &Ledger, end: CallFinished) -> Result<Option<Value>, Fault> {
    if end.output.get("claimed").is_some() {
        return Ok(None);
    }
    let Some(blob) = &end.blob else { return Ok(Some(end.output)) };
    let read = serde_json::from_slice(&ledger.blob(blob)?);
    read.map(Some).map_err(|error| Fault::new(FaultKind::Bug, "a kept output does not read", error))
}

fn calls(then: &Run, now: &Run, end: &ReplayEnd) -> Option<Divergence> {
    let both = then.calls.len().max(now.calls.len());
    let at = (0..both).find(|at| match (then.calls.get(*at), now.calls.get(*at)) {
        (Some(then), Some(now)) => !then.same(now),
        _ => true,
    });
    // A brain that got no answer makes no more calls: the request is where it began.
    let ran_out = at.is_none_or(|at| at >= now.calls.len());
    if let Some((nth, why)) = now.missed.as_ref().filter(|_| ran_out) {
        let lines = |sign: &str| why.lines().filter_map(|line| Some(line.trim().strip_prefix(sign)?.trim().to_owned())).collect();
        let (recorded, replayed): (Vec<String>, Vec<String>) = (lines("recorded "), lines("asked "));
        let (recorded, replayed) = if recorded.is_empty() && replayed.is_empty() {
            (vec!["no such request".to_owned()], why.lines().map(str::to_owned).collect())
        } else {
            (recorded, replayed)
        };
        return Some(Divergence { at: format!("request {nth}"), recorded, replayed });
    }
    let at = at?;
    let told = |run: &Run| run.calls.get(at).map_or_else(|| vec!["no call".to_owned()], Made::told);
    let (mut recorded, mut replayed) = (told(then), told(now));
    if let (Some(then), Some(now)) = (then.calls.get(at), now.calls.get(at))
        && let Some((place, old, new)) = then.output_difference(now)
    {
        let (only_old, only_new) = workspace::differing(&old, &new);
        let first =
            |lines: Vec<&str>| lines.into_iter().take(LINES_MAX).map(|line| format!("{place}: {}", line.trim_end())).collect::<Vec<_>>();
        recorded.extend(first(only_old));
        replayed.extend(first(only_new));
    }
    if ran_out && !end.good {
        replayed.push(format!("{}: {}", end.how, end.summary));
    }
    Some(Divergence { at: format!("call {}", at + 1), recorded, replayed })
}

fn ends(original: &Task, end: &ReplayEnd) -> Option<Divergence> {
    let good = !matches!(original.state, TaskState::Failed | TaskState::Cancelled);
    // A task that was cancelled after its work was done is no worse for it.
    let cancelled = original.state == TaskState::Cancelled && original.merge.is_some();
    if good == end.good || (cancelled && end.good) {
        return None;
    }
    let told = |good: bool, how: &str, summary: &str| vec![format!("{}: {summary}", if good { "done" } else { how })];
    let recorded = told(good, original.state.as_str(), original.summary.as_deref().unwrap_or_default());
    Some(Divergence { at: "end".into(), recorded, replayed: told(end.good, end.how, &end.summary) })
}

fn changes(ledger: &Ledger, then: &ChangeSet, now: &ChangeSet) -> Result<Option<Divergence>, Fault> {
    let paths: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    for path in paths {
        let (old, new) = (then.get(path), now.get(path));
        match (old, new) {
            (Some(old), Some(new)) if old.agrees(new) => continue,
            // Left out of the proposal, perhaps because the project had it already.
            (Some(ChangedState::Unknown), None) => continue,
            _ => {}
        }
        let mut recorded = vec![format!("{path}: {}", told(old))];
        let mut replayed = vec![format!("{path}: {}", told(new))];
        if let (Some(ChangedState::File(old, _)), Some(ChangedState::File(new, _))) = (old, new) {
            let text = |blob: &str| Ok::<_, Fault>(String::from_utf8_lossy(&ledger.blob(blob)?).into_owned());
            let (old, new) = (text(old)?, text(new)?);
            let (only_old, only_new) = workspace::differing(&old, &new);
            let first = |lines: Vec<&str>| lines.into_iter().take(LINES_MAX).map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
            recorded.extend(first(only_old));
            replayed.extend(first(only_new));
        }
        return Ok(Some(Divergence { at: "changes".into(), recorded, replayed }));
    }
    Ok(None)
}

fn told(stands: Option<&ChangedState>) -> String {
    match stands {
        None => "not changed".into(),
        Some(ChangedState::Absent) => "deleted".into(),
        Some(ChangedState::File(blob, executable)) => {
            let mode = match executable {
                Some(true) => ", executable",
                _ => "",
            };
            format!("{}{mode}", blob.get(..12).unwrap_or(blob))
        }
        Some(ChangedState::Link(target)) => format!("a link to {target}"),
        Some(ChangedState::Unknown) => "changed".into(),
    }
}

/// What was proposed at a task's end.
fn proposed(ledger: &Ledger, task: &Task) -> Result<ChangeSet, Fault> {
    let merge = ledger.merge_of(task);
    let Some(merge) = merge else { return Ok(ChangeSet::new()) };
    Ok(change_set::proposed(&Frozen::parse(&ledger.blob(&merge.frozen)?)?))
}
