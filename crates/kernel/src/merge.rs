//! The way of a task's changes into the project.
//!
//! Changes are frozen to blobs before anybody is asked; the answer binds to their hash with base, HEAD and policy version, and exactly
//! those blobs are applied. **Invariant.** Nothing is overwritten that the task did not start from, and no merge happens twice: a crash at
//! any step is finished by the next boot, which finds each path either still at its base or already done.

mod auto;
mod diff;
mod undo;

pub(crate) use undo::finish_undone;
pub use undo::{MergeLine, UndoOutcome};

use crate::file_thread::on_own_thread;
use crate::throwaway_room::{RoomContent, ThrowawayRoom};
use crate::{Kernel, MERGE, Reply};
use gate::MergeRights;
use policy::Verdict;
use std::collections::BTreeMap;
use std::sync::Arc;
use workspace::{
    Bases, Dirty, Freezer, Frozen, MergePlan, Origin, RoomChanges, Swaps, Tree, aside, judge_links, repository, settle, unpair,
};
use world::event::{MergeFinished, MergeProposed, MergeRejected, MergeResolved, MergeStarted, ReviewAsked, TaskFinished, TaskParked};
use world::{
    Answer, CallPattern, Event, Fault, FaultKind, Merge, MergeId, MergePath, MergeState, Mode, ReviewState, Side, Stop, Task, TaskState,
    World,
};

/// Ends a task whose brain is done: nothing changed, nothing may change, or a merge that a person or a rule decides.
pub(crate) async fn propose(kernel: &Kernel, task: &Task, summary: &str) -> Result<(), Stop> {
    if let Some(of) = task.replays {
        return crate::replay::conclude(kernel, task, of, summary).await;
    }
    if task.mode == Mode::Ask {
        return finish(kernel, task, summary, Vec::new()).await;
    }
    let _keeps = kernel.blobs.hold().await;
    let frozen = frozen(kernel, task, summary).await?;
    if frozen.is_empty() {
        return finish(kernel, task, summary, Vec::new()).await;
    }
    let trusted = kernel
        .gate
        .policies
        .trusted(task.zone)?
        .ok_or_else(|| Fault::new(FaultKind::Bug, "the zone lost its policy", "no version is in force"))?;
    let blob = kernel.ledger.keep(&frozen.to_bytes()?)?;
    let mut verdict = judge(kernel, task, &frozen).await?;
    if let Verdict::Allow(_) = verdict {
        // A rule that lets merges pass lets pass those that tests and their own smallness vouch for.
        let doubts = auto::doubts(kernel, task, &frozen, &trusted.config).await?;
        if !doubts.is_empty() {
            verdict = Verdict::Review { reasons: doubts, rules: Vec::new() };
        }
    }
    let (digest, paths) = (frozen.digest.clone(), frozen.paths());
    let nothing = frozen.changes.is_empty() && frozen.conflicts.is_empty();
    let pending = kernel.ledger.commit(|world, _| {
        let (pid, id, merge) = (task.pid, Some(task.id), world.next_merge());
        let proposed = MergeProposed { pid, task: id, merge, digest, frozen: blob, paths, summary: summary.to_owned() };
        let mut events: Vec<Event> = vec![proposed.into()];
        if nothing {
            let reason = "every change is left out".to_owned();
            events.push(MergeRejected { pid, task: id, merge, by: "kernel".into(), reason: reason.clone() }.into());
            return (events, AfterProposal::Reject(reason));
        }
        match verdict {
            Verdict::Allow(_) => (events, AfterProposal::Test(merge)),
            Verdict::Deny { refusal, .. } => {
                events.push(MergeRejected { pid, task: id, merge, by: "policy".into(), reason: refusal.reason.clone() }.into());
                (events, AfterProposal::Reject(refusal.reason))
            }
            Verdict::Review { reasons, rules } => {
                events.extend(question(world, task, &frozen, reasons, rules));
                (events, AfterProposal::Wait)
            }
        }
    })?;
    match pending.durable().await? {
        AfterProposal::Test(merge) => match auto::test(kernel, task, merge, &frozen, &trusted.config).await? {
            None => begin_apply(kernel, task, merge, frozen, Agreed::Policy).await,
            Some(doubt) => {
                let pending = kernel.ledger.commit(|world, _| (question(world, task, &frozen, vec![doubt], Vec::new()), ()))?;
                Ok(pending.durable().await?)
            }
        },
        AfterProposal::Reject(reason) => finish(kernel, task, &with_note(summary, &format!("not merged: {reason}")), Vec::new()).await,
        AfterProposal::Wait => Ok(()),
    }
}

/// A task's changes, frozen. Much of it may be read, hashed and encrypted on the way.
async fn frozen(kernel: &Kernel, task: &Task, summary: &str) -> Result<Frozen, Stop> {
    let (task, summary) = (task.clone(), summary.to_owned());
    on_own_thread(kernel, |kernel| async move { freeze(&kernel, &task, &summary).await }).await
}

async fn freeze(kernel: &Kernel, task: &Task, summary: &str) -> Result<Frozen, Stop> {
    let opened = kernel.workspace_of(task.id).await?;
    let listed = RoomChanges::of(&opened.room).await?;
    let trusted = kernel
        .gate
        .policies
        .trusted(task.zone)?
        .ok_or_else(|| Fault::new(FaultKind::Bug, "the zone lost its policy", "no version is in force"))?;
    // Who changed nothing does not wait for the base.
    let looked = if listed.paths().is_empty() {
        listed.nothing()
    } else {
        let gate = MergeRights::of(&kernel.gate, task)?;
        let paths = listed.paths();
        let throwaway = kernel.throwaway_room(task.zone, &opened.project, RoomContent::Repository).await?;
        let bases = bases(kernel, task, &opened, &throwaway, &paths).await?;
        let keeping = kernel.ledger.keeping();
        let sight = kernel.gate.sight(kernel.gate.owner(task.id)?)?;
        let freezer = Freezer {
            gate: &gate,
            bases: &bases,
            keep: &|bytes| keeping.keep(bytes),
            blobs: &|blob| kernel.ledger.blob(blob),
            masked: &|path| sight.masks(path).map(|by| by.to_string()),
            upper: Tree::at(opened.work.join("upper"))?,
            tree: tree_of(kernel, task)?,
        };
        let looked = freezer.freeze(listed).await?;
        drop(freezer);
        keeping.done()?;
        throwaway.close().await?;
        looked
    };
    let began = kernel.ledger.task(task.id)?.workspace.and_then(|workspace| workspace.head);
    let head = repository::head(&opened.project, &kernel.instance.home.path).await?;
    Ok(Frozen::new(task.id, summary, head, began, trusted.version, looked)?)
}

/// What the project held at these paths when a task began; git answers in `throwaway`.
pub(crate) async fn bases<'a>(
    kernel: &Kernel,
    task: &Task,
    opened: &Arc<crate::open_workspace::OpenWorkspace>,
    throwaway: &'a ThrowawayRoom,
    paths: &[&str],
) -> Result<Bases<'a>, Stop> {
    let base = kernel.base(task.id, opened).await?;
    let workspace = kernel.ledger.task(task.id)?.workspace.ok_or_else(|| Fault::new(FaultKind::Bug, "a base has no workspace", task.id))?;
    let dirty = Dirty::parse(&kernel.ledger.blob(&base.blob)?)?;
    let mut bases = Bases::at(throwaway.room()?, &base, dirty, paths).await?;
    bases.distrust(&opened.project, workspace.since_us, base.until_us, paths).await?;
    Ok(bases)
}

/// The files of a task's project.
fn tree_of(kernel: &Kernel, task: &Task) -> Result<Tree, Stop> {
    let project = kernel.ledger.project_of(task.zone)?;
    Ok(Tree::at(project)?.exchanging(kernel.instance.tuning.exchanges_files))
}

/// Asks a person about these changes, and parks the task on the question.
fn question(world: &World, task: &Task, frozen: &Frozen, mut reasons: Vec<String>, rules: Vec<String>) -> Vec<Event> {
    reasons.extend(frozen.marks());
    let (pid, id, review) = (task.pid, Some(task.id), world.next_review());
    let asked = ReviewAsked {
        pid,
        task: id,
        review,
        tool: MERGE.into(),
        input: frozen.shown(),
        bind: frozen.digest.clone(),
        like: CallPattern::Exact { tool: MERGE.into(), bind: frozen.digest.clone() },
        reasons,
        rules,
        paths: frozen.changes.iter().map(|change| change.path.clone()).collect(),
        size: None,
        zone: Some(task.zone),
        whole: None,
    };
    let mut events: Vec<Event> = vec![asked.into()];
    if world.tasks.get(&task.id).is_some_and(|task| task.state == TaskState::Running) {
        events.push(TaskParked { pid, task: id, review }.into());
    }
    events
}

enum AfterProposal {
    /// A rule lets it pass, if the tests do.
    Test(MergeId),
    Reject(String),
    Wait,
}

/// Goes on with a merge that was answered, or that a crash interrupted.
pub(crate) async fn resume(kernel: &Kernel, task: &Task, merge: Merge) -> Result<(), Stop> {
    let mut frozen = Frozen::parse(&kernel.ledger.blob(&merge.frozen)?)?;
    match merge.state {
        MergeState::Applying => apply_rest(kernel, task, merge.id, &frozen.summary, merge.snapshot.as_deref()).await,
        MergeState::Applied | MergeState::Rejected | MergeState::Undoing | MergeState::Undone => {
            finish(kernel, task, &frozen.summary, Vec::new()).await
        }
        MergeState::Proposed => match answer_of(kernel, task) {
            Some((Answer::Allow, by)) => match stale_reason(kernel, task, &frozen).await? {
                None => {
                    frozen.resolve(&merge.sides);
                    begin_apply(kernel, task, merge.id, frozen, Agreed::Person { by: &by, sides: &merge.sides }).await
                }
                // The answer is void, and a new question is asked on what is true now.
                Some(why) => propose_again(kernel, task, merge.id, &frozen.summary, why).await,
            },
            Some((Answer::Deny, by)) => {
                reject(kernel, task, merge.id, &by, "refused in review").await?;
                finish(kernel, task, &with_note(&frozen.summary, &format!("changes rejected by {by}")), Vec::new()).await
            }
            None if task.state == TaskState::Running => {
                propose_again(kernel, task, merge.id, &frozen.summary, "the kernel ended before it was decided").await
            }
            None => Ok(()),
        },
    }
}

/// Drops a proposal and makes it anew.
async fn propose_again(kernel: &Kernel, task: &Task, merge: MergeId, summary: &str, why: &str) -> Result<(), Stop> {
    reject(kernel, task, merge, "kernel", why).await?;
    if task.state != TaskState::Running {
        kernel.ledger.record(world::event::TaskStarted { pid: task.pid, task: Some(task.id), episode: task.episodes }).await?;
    }
    propose(kernel, &kernel.ledger.task(task.id)?, summary).await
}

fn answer_of(kernel: &Kernel, task: &Task) -> Option<(Answer, String)> {
    let TaskState::Parked { review } = task.state else { return None };
    kernel.ledger.look(|world| match &world.reviews.get(&review)?.state {
        ReviewState::Answered { answer, by, .. } => Some((*answer, by.clone())),
        _ => None,
    })
}

/// What is no longer as it was when the question was asked.
async fn stale_reason(kernel: &Kernel, task: &Task, frozen: &Frozen) -> Result<Option<&'static str>, Stop> {
    let zone = kernel.ledger.look(|world| world.zones.get(&task.zone).map(|zone| (zone.path.clone(), zone.policy_version)));
    let Some((path, version)) = zone else { return Ok(Some("the zone is gone")) };
    Ok(if repository::head(path.as_ref(), &kernel.instance.home.path).await? != frozen.head {
        Some("HEAD moved after the question")
    } else if version != frozen.policy_version {
        Some("the policy changed after the question")
    } else if !aside(|| Ok::<_, Stop>(frozen.holds(&tree_of(kernel, task)?)?))? {
        Some("a file changed after the question")
    } else if !aside(|| judge_links(&tree_of(kernel, task)?, &frozen.changes, Origin::Task).map_err(Stop::from))?.is_empty() {
        Some("a link or a folder changed after the question")
    } else {
        None
    })
}

async fn reject(kernel: &Kernel, task: &Task, merge: MergeId, by: &str, reason: &str) -> Result<(), Fault> {
    let event = MergeRejected { pid: task.pid, task: Some(task.id), merge, by: by.to_owned(), reason: reason.to_owned() };
    kernel.ledger.record(event).await
}

/// Starts an agreed merge, and applies it. What it rests on is decided once more in the commit that starts it, and there grants are used:
/// only then does anything go in by them, and a proposal that comes to nothing has used none.
async fn begin_apply(kernel: &Kernel, task: &Task, merge: MergeId, mut frozen: Frozen, agreed: Agreed<'_>) -> Result<(), Stop> {
    // A side that a person chose was not among what was judged together.
    let (swaps, tree) = (Swaps::in_frozen(&frozen.changes), tree_of(kernel, task)?);
    let left = aside(|| settle(&swaps, &tree, &mut frozen.changes, Origin::Task))?;
    frozen.refused.extend(left.into_iter().map(|(change, why)| MergePath { refused: Some(why), ..change.told() }));
    // Half of a rename is no move any more, and is judged as what is left of it.
    unpair(&mut frozen.changes);
    let snapshot = kernel.ledger.keep(&MergePlan::of(&frozen).to_bytes()?)?;
    let (by, is_person) = match agreed {
        Agreed::Policy => ("policy", false),
        Agreed::Person { by, .. } => (by, true),
    };
    let chosen = |path: &str| matches!(agreed, Agreed::Person { sides, .. } if sides.contains_key(path));
    let start = MergeRights::of(&kernel.gate, task)?.describe(&frozen, chosen).await?;
    let now = kernel.gate.moment();
    let pending = kernel.ledger.commit(|world, now_ms| match start.decide(world, &now, now_ms, is_person) {
        Ok(grants) => {
            let up = (!grants.is_empty()).then(|| now.until());
            let (pid, id, by, snapshot) = (task.pid, Some(task.id), by.to_owned(), Some(snapshot.clone()));
            (vec![MergeStarted { pid, task: id, merge, by, snapshot, grants, up }.into()], None)
        }
        Err(why) => (Vec::new(), Some(why)),
    })?;
    match pending.durable().await? {
        None => apply_rest(kernel, task, merge, &frozen.summary, Some(&snapshot)).await,
        // The answer is void, and a new question is asked on what is true now.
        Some(why) => Box::pin(propose_again(kernel, task, merge, &frozen.summary, &why)).await,
    }
}

/// Who agreed to a merge.
#[derive(Clone, Copy)]
enum Agreed<'a> {
    /// A rule, and the tests.
    Policy,
    /// Somebody, with a choice where both sides had changed a path.
    Person { by: &'a str, sides: &'a BTreeMap<String, Side> },
}

async fn apply_rest(kernel: &Kernel, task: &Task, merge: MergeId, summary: &str, snapshot: Option<&str>) -> Result<(), Stop> {
    let snapshot = snapshot.ok_or_else(|| Fault::new(FaultKind::Bug, "a merge has no log", merge))?;
    let plan = MergePlan::parse(&kernel.ledger.blob(snapshot)?)?;
    let tree = tree_of(kernel, task)?;
    let paths = plan.apply(&tree, &|blob| kernel.ledger.blob(blob), &|moment| kernel.instance.fault_at("merge", moment))?;
    let finished = MergeFinished { pid: task.pid, task: Some(task.id), merge, paths };
    finish(kernel, task, summary, vec![finished.into()]).await
}

fn with_note(summary: &str, note: &str) -> String {
    if summary.is_empty() { note.to_owned() } else { format!("{summary} ({note})") }
}

pub(crate) async fn finish(kernel: &Kernel, task: &Task, summary: &str, mut events: Vec<Event>) -> Result<(), Stop> {
    // A brain's work can be replayed only from what it started with. Where that can't be had, the replay says so.
    if task.mode != world::Mode::Call
        && let Some(opened) = kernel.workspaces.find(task.id)
    {
        drop(kernel.base(task.id, &opened).await);
    }
    events.push(TaskFinished { pid: task.pid, task: Some(task.id), summary: summary.to_owned() }.into());
    kernel.ledger.commit(|_, _| (events, ()))?.durable().await?;
    Ok(kernel.close_workspace(task.pid, task.id).await?)
}

/// Decides on the merge as a whole; rules about single paths have spoken in `freeze`.
async fn judge(kernel: &Kernel, task: &Task, frozen: &Frozen) -> Result<Verdict, Stop> {
    let verdict = MergeRights::of(&kernel.gate, task)?.whole(frozen).await?;
    let mut questions: Vec<String> = frozen.changes.iter().filter_map(|change| change.question.clone()).collect();
    questions.extend(frozen.conflicts.iter().map(|conflict| format!("{}: {}", conflict.path, conflict.why)));
    if frozen.head != frozen.began {
        questions.push("HEAD moved after the task began".into());
    }
    Ok(match verdict {
        // A path that wants a person makes the whole merge want one.
        Verdict::Allow(_) if !questions.is_empty() => Verdict::Review { reasons: questions, rules: Vec::new() },
        Verdict::Review { mut reasons, rules } => {
            reasons.extend(questions);
            Verdict::Review { reasons, rules }
        }
        other => other,
    })
}

impl Kernel {
    /// Approves a task's open merge if it is the one that was seen, waits for it, and tells what became of each path.
    pub async fn merge(
        &self,
        id: world::TaskId,
        digest: Option<&str>,
        sides: BTreeMap<String, Side>,
        by: &str,
    ) -> Result<Vec<MergePath>, Stop> {
        use world::{Code, Refusal};
        let task = self.ledger.task(id)?;
        let merge = self.ledger.merge_of(&task);
        let (TaskState::Parked { review }, Some(merge)) = (task.state, merge) else {
            let why = match task.state {
                TaskState::Queued | TaskState::Running => "is not done yet",
                TaskState::Parked { .. } => "waits for another review",
                _ => "has nothing to merge",
            };
            return Err(Refusal::new(Code::WrongState, format!("{id} {why}")).remedy(world::Remedy::ShowTask { task: id }).into());
        };
        if digest.is_some_and(|digest| digest != merge.digest) {
            return Err(Refusal::new(Code::WrongState, "the changes are not the ones you looked at")
                .remedy(world::Remedy::ShowChangesAgain { task: id })
                .into());
        }
        let frozen = Frozen::parse(&self.ledger.blob(&merge.frozen)?)?;
        let is_chosen = |path: &String| sides.contains_key(path) || merge.sides.contains_key(path);
        // Done without a single change the task's work would be gone.
        if frozen.changes.is_empty() && !frozen.conflicts.iter().any(|conflict| is_chosen(&conflict.path)) {
            return Err(Refusal::new(Code::WrongState, "nothing would be merged: every change is a conflict, and no side is chosen")
                .remedy(world::Remedy::ShowConflicts { task: id })
                .into());
        }
        if !sides.is_empty() {
            let clashing = |path: &String| frozen.conflicts.iter().any(|conflict| conflict.path == *path && conflict.mine.is_some());
            if let Some(path) = sides.keys().find(|path| !clashing(path)) {
                return Err(Refusal::new(Code::BadInput, format!("`{path}` is no conflict that a choice decides"))
                    .remedy(world::Remedy::ShowConflicts { task: id })
                    .into());
            }
            self.ledger.record(MergeResolved { pid: task.pid, task: Some(id), merge: merge.id, sides, by: by.to_owned() }).await?;
        }
        self.answer(review, Reply::yes(), by, None).await?;
        let task = self.tasks.settled(id).await?;
        let left_out = self.ledger.look(|world| task.merge.and_then(|merge| world.merges.get(&merge)).map(|merge| merge.state));
        if task.state == TaskState::Done && left_out == Some(world::MergeState::Rejected) {
            let reason = format!("nothing is merged: {}", task.summary.unwrap_or_else(|| "every change is left out".into()));
            return Err(Refusal::new(Code::WrongState, reason).remedy(world::Remedy::ShowLeftOut { task: id }).into());
        }
        if task.state != TaskState::Done {
            let reason = task.summary.unwrap_or_else(|| "HEAD, policy or a file changed after you looked; a new review is open".into());
            return Err(Refusal::new(Code::WrongState, reason).remedy(world::Remedy::MergeAgain { task: id }).into());
        }
        Ok(self.ledger.merged(id)?)
    }

    /// Refuses a task's open merge; its changes are dropped.
    pub async fn reject(&self, id: world::TaskId, by: &str, reason: Option<String>) -> Result<(), Stop> {
        use world::{Code, Refusal};
        let task = self.ledger.task(id)?;
        let (TaskState::Parked { review }, Some(_)) = (task.state, task.merge) else {
            return Err(Refusal::new(Code::WrongState, format!("{id} has no changes that wait"))
                .remedy(world::Remedy::CancelTask { task: Some(id) })
                .into());
        };
        self.answer(review, Reply::no(), by, reason).await?;
        self.tasks.settled(id).await.map(drop)
    }
}
