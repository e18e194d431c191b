//! Taking a merge back by the snapshot before it.
//!
//! **Invariant.** It happens while nobody goes on with the task: what is taken back is kept as its work again, beside what later turns made
//! of it. A path that somebody edited since stays as it is and is named; a further undo goes on with it, and until then what it held before
//! the merge can be read. A boot finishes what a crash interrupted.

use crate::keep::KeptList;
use crate::{Kernel, MERGE};
use gate::{CallFacts, CallerRights, Details, Who, path_details, used_room};
use policy::{OwnedPath, Verdict};
use report::CountedKind;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use workspace::{Frozen, KeptChanges, MergePlan, MergeProgress, MergeStep, PathCall, State, aside};
use world::event::{CallRefused, MergeUndoBegun, MergeUndone};
use world::{BootTime, Code, Merge, MergeId, MergePath, MergeState, Pid, Refusal, Remedy, Task, TaskId, TaskState, World};
use world::{Fault, FaultKind, Stop};

impl Kernel {
    /// Takes a task's merge back and tells what became of each path. It is the operator's own call; what denies it is passed over only by
    /// who types the phrase, and that is recorded.
    pub async fn undo(&self, id: TaskId, by: &str, typed: Option<&str>) -> Result<UndoOutcome, Stop> {
        // What else it changed is kept by then, and until the end of this nobody goes on with it, keeps or drops anything of it.
        let task = self.settled_work(id).await?;
        let closing = self.workspaces.closing(id);
        let _alone = closing.lock().await;
        let (mut told, mut made) = (Vec::new(), None);
        for merge in self.undoable(&task)? {
            match self.undo_merge(&task, merge, by, typed).await? {
                UndoOutcome::Paths { paths, commit } => {
                    told.extend(paths);
                    made = made.or(commit);
                }
                denied if told.is_empty() => return Ok(denied),
                UndoOutcome::Denied { .. } => break,
            }
        }
        Ok(UndoOutcome::Paths { paths: told, commit: made })
    }

    /// A task that went on may have merged more than once: the newest that is in goes first. Where none is, all of which paths are left.
    fn undoable(&self, task: &Task) -> Result<Vec<Merge>, Stop> {
        if let Some(applied) = self.ledger.applied_merge_of(task.id) {
            return Ok(vec![applied]);
        }
        let mut left = Vec::new();
        for merge in self.ledger.partly_undone(task.id) {
            // Earlier versions kept no longer what an undo had left.
            if steps_left(self, &merge)?.is_kept(&|blob| self.ledger.blob_if_kept(blob))? {
                left.push(merge);
            }
        }
        if left.is_empty() {
            let newest = self.ledger.merge_of(task).ok_or_else(|| not_merged(format!("{} has merged nothing", task.id)))?;
            left.push(newest);
        }
        Ok(left)
    }

    async fn undo_merge(&self, task: &Task, merge: Merge, by: &str, typed: Option<&str>) -> Result<UndoOutcome, Stop> {
        let id = task.id;
        if let Some(branch) = merge.commit.as_ref().and_then(|wish| wish.branch.as_ref()).filter(|_| merge.state == MergeState::Applied) {
            return Err(not_merged(format!("{id} went to the branch `{branch}` and not into the work tree")).into());
        }
        if merge.snapshot.is_none() {
            return Err(not_merged(format!("{id} has merged nothing")).into());
        }
        let plan = steps_left(self, &merge)?;
        let phrase = format!("undo {id} anyway");
        for _ in 0..2 {
            let calls = self.ways_back(task, &plan).await?;
            if let Some(begun) = self.begin_undo(task, merge.id, &plan, &calls, by, typed == Some(phrase.as_str())).await? {
                return match begun {
                    UndoStart::Denied(reasons) => Ok(UndoOutcome::Denied { reasons, phrase }),
                    UndoStart::Begun => {
                        let commit = merge.prepared.filter(|commit| commit.is_made).map(|made| made.commit);
                        Ok(UndoOutcome::Paths { paths: undo_rest(self, task, merge.id, &plan).await?, commit })
                    }
                };
            }
        }
        Err(gate::stale().into())
    }

    /// Decides in one commit, by the policy that is in force there; `None` where that is another than the calls were described by.
    async fn begin_undo(
        &self,
        task: &Task,
        merge: MergeId,
        plan: &MergePlan,
        calls: &[CallFacts],
        by: &str,
        is_typed: bool,
    ) -> Result<Option<UndoStart>, Stop> {
        let (id, now) = (task.id, self.gate.moment());
        let pending = self.ledger.commit(|world, now_ms| {
            let merge_now = world.merges.get(&merge);
            let state = match merge_now.map(|merge| merge.state) {
                Some(MergeState::Applied) => Ok(()),
                Some(MergeState::Undone) if merge_now.is_some_and(Merge::is_partly_undone) => Ok(()),
                Some(MergeState::Undone) => Err(format!("{id} was taken back already")),
                Some(MergeState::Undoing) => Err(format!("{id} is being taken back")),
                _ => Err(format!("{id} has merged nothing")),
            };
            if let Err(why) = state {
                return (Vec::new(), Err(not_merged(why)));
            }
            // What is taken back becomes the task's work again, and whoever works on it knows nothing of that.
            if let Some(refusal) = world.tasks.get(&id).and_then(at_work) {
                return (Vec::new(), Err(refusal));
            }
            let version = world.policy_version(task.zone);
            if calls.iter().any(|call| Some(call.trusted.version) != version) {
                return (Vec::new(), Ok(None));
            }
            let denials = denials(world, calls, &now, now_ms);
            if !denials.is_empty() && !is_typed {
                let reasons = denials.iter().map(|(refusal, _)| refusal.reason.clone()).collect();
                return (vec![refused(world, task, merge, plan, denials).into()], Ok(Some(UndoStart::Denied(reasons))));
            }
            let overrode = denials.into_iter().map(|(refusal, rules)| told(&refusal, &rules)).collect();
            let begun = MergeUndoBegun { pid: task.pid, task: Some(id), merge, by: by.to_owned(), overrode };
            (vec![begun.into()], Ok(Some(UndoStart::Begun)))
        })?;
        Ok(pending.durable().await??)
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

/// The way back of a merge, or what an earlier undo left of it.
fn steps_left(kernel: &Kernel, merge: &Merge) -> Result<MergePlan, Stop> {
    let snapshot = merge.snapshot.as_ref().ok_or_else(|| Fault::new(FaultKind::Bug, "a merge has no log", merge.id))?;
    let plan = MergePlan::parse(&kernel.ledger.blob(snapshot)?)?;
    Ok(if merge.left.is_empty() { plan } else { plan.only(&merge.left) })
}

/// The first step of a way back.
enum UndoStart {
    Begun,
    /// Why not, without the phrase.
    Denied(Vec<String>),
}

/// Why a task's merge cannot be taken back yet: somebody goes on with it, or what came of that waits for an answer.
fn at_work(task: &Task) -> Option<Refusal> {
    let (id, state) = (task.id, task.state);
    if state.at_rest() {
        return None;
    }
    let why = |what: &str| Refusal::new(Code::WrongState, format!("{id} {what}, so its merge is not taken back"));
    Some(match state {
        TaskState::Parked { review } if task.merge.is_some() => why(&format!("has further changes that wait for an answer ({review})"))
            .hint("merge or reject them first; rejected changes are kept")
            .remedy(Remedy::AnswerReview { review }),
        TaskState::Parked { review } => why(&format!("goes on, and waits for an answer ({review})"))
            .hint("answer it, or cancel the task: what it changed is kept")
            .remedy(Remedy::CancelTask { task: Some(id) }),
        _ => why("goes on right now")
            .hint("wait for its end, or cancel it: what it changed is kept")
            .remedy(Remedy::CancelTask { task: Some(id) }),
    })
}

fn not_merged(why: String) -> Refusal {
    Refusal::new(Code::WrongState, why).remedy(Remedy::List { what: world::Listing::Merges })
}

/// What came of the wish to take a merge back.
#[derive(Debug)]
pub enum UndoOutcome {
    Paths {
        paths: Vec<MergePath>,
        /// A commit of the merge, which stays where it is.
        commit: Option<String>,
    },
    /// Nothing happened; the phrase passes over these.
    Denied { reasons: Vec<String>, phrase: String },
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
        step: None,
        detail: None,
        workflow: None,
    }
}

async fn undo_rest(kernel: &Kernel, task: &Task, merge: MergeId, plan: &MergePlan) -> Result<Vec<MergePath>, Stop> {
    let tree = super::tree_of(kernel, task)?;
    let counter = kernel.tasks.counted.begin(CountedKind::Undoing, Some(task.id), plan.len());
    let at = |moment| {
        counter.reached(workspace::step_of(moment));
        kernel.instance.fault_at("undo", moment);
    };
    let notes = super::progress_file(kernel, "undoing", merge)?;
    let paths = plan.revert(&tree, &|blob| kernel.ledger.blob(blob), &MergeProgress::open(&notes)?, &at)?;
    let _keeps = kernel.blobs.hold().await;
    let kept = kept_again(kernel, task.id, merge, plan)?;
    let undone = MergeUndone { pid: task.pid, task: Some(task.id), merge, paths: paths.clone() };
    let pending = kernel.ledger.commit(|world, _| {
        // Earlier versions let somebody go on with it meanwhile, who keeps what comes of that.
        let kept = kept.filter(|_| world.tasks.get(&task.id).is_some_and(|task| task.state.at_rest()));
        let kept = kept.map(|kept| kept.event(task.pid, task.id));
        (std::iter::once(undone.into()).chain(kept).collect(), ())
    })?;
    pending.durable().await?;
    // What was built with it in the project is not what the next tests run on.
    aside(|| kernel.rooms.drop_builds(task.zone));
    MergeProgress::remove(&notes)?;
    Ok(paths)
}

/// What was taken back is the task's work again, beside what is kept of it: it can be merged once more.
fn kept_again(kernel: &Kernel, id: TaskId, merge: MergeId, plan: &MergePlan) -> Result<Option<KeptList>, Stop> {
    let task = kernel.ledger.task(id)?;
    let mut kept = match kernel.kept_changes(&task) {
        Ok(kept) => kept.unwrap_or_default(),
        Err(Stop::Refused(_)) => KeptChanges::default(),
        Err(fault) => return Err(fault),
    };
    if kept.began.is_none() {
        let frozen = kernel.ledger.look(|world| world.merges.get(&merge).map(|merge| merge.frozen.clone()));
        kept.began = frozen.map(|blob| Ok::<_, Fault>(Frozen::parse(&kernel.ledger.blob(&blob)?)?.head)).transpose()?.flatten();
    }
    // Also where somebody changed a path meanwhile, so that it stays as it is: the task's version of it would be nowhere else.
    for MergeStep { path, before, after, .. } in &plan.steps {
        // What a later turn made of the path is the task's newest word on it.
        if !kept.rebase_kept(&path.path, before, &|bytes| kernel.ledger.keep(bytes))? {
            kept.rebase(&path.path, path.from.clone(), after, before, bytes(kernel, after)?, &|bytes| kernel.ledger.keep(bytes))?;
        }
    }
    if kept.files() == 0 { Ok(None) } else { Ok(Some(KeptList::store(kernel, kept)?)) }
}

/// Finishes what an earlier kernel began to take back.
pub(crate) async fn finish_undone(kernel: Arc<Kernel>) {
    let begun: Vec<Merge> =
        kernel.ledger.look(|world| world.merges.values().filter(|merge| merge.state == MergeState::Undoing).cloned().collect());
    for merge in begun {
        let done = async {
            let closing = kernel.workspaces.closing(merge.task);
            let _alone = closing.lock().await;
            undo_rest(&kernel, &kernel.ledger.task(merge.task)?, merge.id, &steps_left(&kernel, &merge)?).await
        };
        if let Err(stop) = done.await {
            world::log!("skep: {} is not taken back yet: {stop}", merge.id);
        }
    }
}
