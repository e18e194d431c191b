//! Taking a merge back by the snapshot before it.
//!
//! **Invariant.** It happens once; a path that somebody edited since stays as it is and is named. A boot finishes what a crash interrupted.

use crate::{Kernel, MERGE};
use gate::{CallFacts, CallerRights, Details, Who, path_details, used_room};
use policy::{OwnedPath, Verdict};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use workspace::{Frozen, MergePlan, MergeStep, PathCall, State, aside};
use world::event::{CallRefused, MergeUndoBegun, MergeUndone};
use world::{BootTime, Code, Merge, MergeId, MergePath, MergeState, Pid, Refusal, Task, TaskId, World};
use world::{Fault, FaultKind, Stop};

/// One merge, as lists show it.
#[derive(Debug, Clone)]
pub struct MergeLine {
    pub merge: MergeId,
    pub task: TaskId,
    pub state: MergeState,
    pub digest: String,
    pub summary: String,
    /// Paths that go or went in, and those that stay out.
    pub files: usize,
    pub left: usize,
}

impl Kernel {
    /// Every merge that is remembered, oldest first.
    pub fn merges(&self) -> Result<Vec<MergeLine>, Stop> {
        let found: Vec<Merge> = self.ledger.look(|world| world.merges.values().cloned().collect());
        let line = |merge: Merge| {
            let frozen = Frozen::parse(&self.ledger.blob(&merge.frozen)?)?;
            let (left, going): (Vec<_>, Vec<_>) = frozen.paths().into_iter().partition(|path| path.refused.is_some());
            Ok(MergeLine {
                merge: merge.id,
                task: merge.task,
                state: merge.state,
                digest: merge.digest,
                summary: frozen.summary,
                files: going.len(),
                left: left.len(),
            })
        };
        found.into_iter().map(line).collect()
    }

    /// Takes a task's merge back and tells what became of each path. It is the operator's own call; what denies it is passed over only by
    /// who types the phrase, and that is recorded.
    pub async fn undo(&self, id: TaskId, by: &str, typed: Option<&str>) -> Result<UndoOutcome, Stop> {
        let task = self.ledger.task(id)?;
        let refuse = |why: String| Refusal::new(Code::WrongState, why).remedy(world::Remedy::List { what: world::Listing::Merges });
        let merge = self.ledger.merge_of(&task);
        let merge = merge.ok_or_else(|| refuse(format!("{id} has merged nothing")))?;
        let snapshot = merge.snapshot.ok_or_else(|| refuse(format!("{id} has merged nothing")))?;
        let plan = MergePlan::parse(&self.ledger.blob(&snapshot)?)?;
        let calls = self.ways_back(&task, &plan).await?;
        let (phrase, now) = (format!("undo {id} anyway"), self.gate.moment());
        let pending = self.ledger.commit(|world, now_ms| {
            let state = match world.merges.get(&merge.id).map(|merge| merge.state) {
                Some(MergeState::Applied) => Ok(()),
                Some(MergeState::Undone) => Err(format!("{id} was taken back already")),
                Some(MergeState::Undoing) => Err(format!("{id} is being taken back")),
                _ => Err(format!("{id} has merged nothing")),
            };
            if let Err(why) = state {
                return (Vec::new(), Err(refuse(why)));
            }
            let denials = denials(world, &calls, &now, now_ms);
            let reasons: Vec<String> = denials.iter().map(|(refusal, _)| refusal.reason.clone()).collect();
            if !denials.is_empty() && typed != Some(phrase.as_str()) {
                return (vec![refused(world, &task, merge.id, &plan, denials).into()], Ok(Some(reasons)));
            }
            let overrode = denials.into_iter().map(|(refusal, rules)| told(&refusal, &rules)).collect();
            let begun = MergeUndoBegun { pid: task.pid, task: Some(id), merge: merge.id, by: by.to_owned(), overrode };
            (vec![begun.into()], Ok(None))
        })?;
        match pending.durable().await?? {
            Some(reasons) => Ok(UndoOutcome::Denied { reasons, phrase }),
            None => Ok(UndoOutcome::Paths(undo_rest(self, &task, merge.id, &plan).await?)),
        }
    }

    /// The way back as calls of the operator: the whole, and every path. Questions are answered by the command itself.
    async fn ways_back(&self, task: &Task, plan: &MergePlan) -> Result<Vec<CallFacts>, Stop> {
        let trusted = self.gate.policies.in_force(task.zone)?;
        let who = Who { pid: Pid::OPERATOR, zone: task.zone, task: None };
        let mut calls = Vec::with_capacity(plan.steps.len() + 1);
        let shows_content = !trusted.bundle.rules.is_empty();
        for details in aside(|| details(self, plan, shows_content))? {
            let manifest = self.gate.template_named_by(&details.tool);
            // The room that the operator's own call of this tool has.
            let room = used_room(self.gate.policies.templates(Some(&trusted))?.of_tool(&details.tool, manifest.as_deref())?);
            let mut call = CallFacts::new(&self.ledger, who, trusted.clone(), Details { room: Some(room), ..details })?;
            call.ask_extensions(&self.gate).await;
            calls.push(call.without_input());
        }
        Ok(calls)
    }
}

/// What came of the wish to take a merge back.
#[derive(Debug)]
pub enum UndoOutcome {
    Paths(Vec<MergePath>),
    /// Nothing happened; the phrase passes over these.
    Denied {
        reasons: Vec<String>,
        phrase: String,
    },
}

/// The whole way back, with the bytes that are written, and then each path: a rename is one move. Extensions may look at the text.
fn details(kernel: &Kernel, plan: &MergePlan, shows_content: bool) -> Result<Vec<Details>, Fault> {
    let moved: BTreeSet<&str> = plan.steps.iter().filter_map(|step| step.path.from.as_deref()).collect();
    let (mut all, mut size) = (Vec::new(), 0_u64);
    for MergeStep { path, before, after, .. } in &plan.steps {
        let written = bytes(kernel, before)?;
        size = size.saturating_add(written);
        let deed = match &path.from {
            Some(from) => PathCall::of(&path.path, None, Some(from), false, bytes(kernel, after)?),
            None if moved.contains(path.path.as_str()) => continue,
            // A file that gives its place back to a folder goes.
            None if matches!(before, State::Absent | State::Folder) => PathCall::of(&path.path, None, None, true, bytes(kernel, after)?),
            None => PathCall::of(&path.path, None, None, false, written),
        };
        let deed = match before {
            State::File { .. } if shows_content => deed.with_content(&before.bytes(&|blob| kernel.ledger.blob(blob))?),
            _ => deed,
        };
        all.push(path_details(&deed));
    }
    let paths = plan.steps.iter().map(|step| OwnedPath::Inside(step.path.path.clone())).collect();
    let input = json!({ "undo": plan.steps.iter().map(|step| &step.path.path).collect::<Vec<_>>() });
    all.insert(0, Details { paths, size: Some(size), ..Details::of(MERGE, input) });
    Ok(all)
}

fn bytes(kernel: &Kernel, state: &State) -> Result<u64, Fault> {
    Ok(match state {
        State::Absent | State::Folder => 0,
        State::Link { target } => target.len() as u64,
        State::File { .. } => state.bytes(&|blob| kernel.ledger.blob(blob))?.len() as u64,
    })
}

/// Everything that denies it, once.
fn denials(world: &World, calls: &[CallFacts], now: &BootTime, now_ms: i64) -> Vec<(Refusal, Vec<String>)> {
    let mut found: Vec<(Refusal, Vec<String>)> = Vec::new();
    for call in calls {
        let rights = CallerRights::call(world, call, now, now_ms).without_grants();
        if let Verdict::Deny { refusal, rules } = call.judge(&rights).verdict
            && !found.iter().any(|(known, _)| known.reason == refusal.reason)
        {
            found.push((refusal, rules));
        }
    }
    found
}

fn told(refusal: &Refusal, rules: &[String]) -> String {
    if rules.is_empty() { refusal.reason.clone() } else { format!("{} ({})", refusal.reason, rules.join(", ")) }
}

fn refused(world: &World, task: &Task, merge: MergeId, plan: &MergePlan, denials: Vec<(Refusal, Vec<String>)>) -> CallRefused {
    let rules: BTreeSet<String> = denials.iter().flat_map(|(_, rules)| rules.iter().cloned()).collect();
    let reasons: Vec<String> = denials.into_iter().map(|(refusal, _)| refusal.reason).collect();
    CallRefused {
        pid: Pid::OPERATOR,
        task: Some(task.id),
        call: world.next_call(),
        tool: MERGE.to_owned(),
        input: json!({ "undo": merge }),
        digest: String::new(),
        code: Code::Denied,
        reason: reasons.join("; "),
        hint: None,
        remedy: None,
        rules: rules.into_iter().collect(),
        paths: plan.steps.iter().map(|step| step.path.path.clone()).collect(),
        size: None,
        of: None,
        detail: None,
    }
}

async fn undo_rest(kernel: &Kernel, task: &Task, merge: MergeId, plan: &MergePlan) -> Result<Vec<MergePath>, Stop> {
    let tree = super::tree_of(kernel, task)?;
    let paths = plan.revert(&tree, &|blob| kernel.ledger.blob(blob), &|moment| kernel.instance.fault_at("undo", moment))?;
    kernel.ledger.record(MergeUndone { pid: task.pid, task: Some(task.id), merge, paths: paths.clone() }).await?;
    Ok(paths)
}

/// Finishes what an earlier kernel began to take back.
pub(crate) async fn finish_undone(kernel: Arc<Kernel>) {
    let begun: Vec<Merge> =
        kernel.ledger.look(|world| world.merges.values().filter(|merge| merge.state == MergeState::Undoing).cloned().collect());
    for merge in begun {
        let done = async {
            let snapshot = merge.snapshot.ok_or_else(|| Fault::new(FaultKind::Bug, "a merge has no log", merge.id))?;
            undo_rest(&kernel, &kernel.ledger.task(merge.task)?, merge.id, &MergePlan::parse(&kernel.ledger.blob(&snapshot)?)?).await
        };
        if let Err(stop) = done.await {
            world::log!("skep: {} is not taken back yet: {stop}", merge.id);
        }
    }
}
