//! The way of a task's changes into the project.
//!
//! Changes are frozen to blobs before anybody is asked; the answer binds to their hash with base, HEAD and policy version, and exactly
//! those blobs are applied. **Invariant.** Nothing is overwritten that the task did not start from, and no merge happens twice: a crash at
//! any step is finished by the next boot, which finds each path either still at its base or already done.

mod answer;
mod auto;
mod commit;
mod diff;
mod import;
mod list;
mod note;
mod others;
mod pieces;
mod trailers;
mod undo;
mod verify;

pub use answer::{MergeOutcome, MergeWish};
pub(crate) use list::DROPPED;
pub use list::MergeLine;
pub(crate) use note::without_notes;
pub use pieces::AnswerPiece;
pub(crate) use pieces::PieceCache;
pub use undo::UndoOutcome;
pub(crate) use undo::finish_undone;
pub use verify::verify_commit_offline;

use crate::file_thread::on_own_thread;
use crate::{Kernel, KernelFuture, MERGE, phase};
use gate::MergeRights;
use note::with_note;
use policy::Verdict;
use report::CountedKind;
use room::{OpenWorkspace, RoomContent, ThrowawayRoom};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use workspace::{
    Bases, Dirty, FileTree, Freezer, Frozen, FrozenChanges, KeptChanges, MergePlan, MergeProgress, NOT_KEPT, Origin, RoomChanges, Swaps,
    aside, judge_links, repository, settle, unpair,
};
use world::event::{MergeFinished, MergeProposed, MergeRejected, MergeStarted, ReviewAsked, TaskFinished, TaskParked};
use world::{
    Answer, CallPattern, Event, Fault, FaultKind, Merge, MergeId, MergePath, MergeState, Mode, ReviewState, Side, Stop, Task, TaskState,
    Workflow, WorkflowState, World,
};

/// Ends a task whose brain is done: nothing changed, nothing may change, or a merge that a person or a rule decides.
pub(crate) fn propose<'a>(kernel: &'a Kernel, task: &'a Task, summary: &'a str) -> KernelFuture<'a, Result<(), Stop>> {
    Box::pin(end_or_merge(kernel, task, summary))
}

async fn end_or_merge(kernel: &Kernel, task: &Task, summary: &str) -> Result<(), Stop> {
    if let Some(of) = task.replays {
        return crate::replay::conclude(kernel, task, of, summary).await;
    }
    if task.mode == Mode::Ask {
        return finish(kernel, task, summary, Vec::new()).await;
    }
    // A brain that made no call had no room to change anything in.
    let now = kernel.ledger.task(task.id)?;
    if now.workspace.is_none() && now.kept.is_none() {
        return finish(kernel, task, summary, Vec::new()).await;
    }
    // What was seen to pass is held to that in its review, and proposed from there alone.
    if now.workflow.as_deref().is_some_and(Workflow::was_seen) {
        return Err(Fault::new(FaultKind::Bug, "work was to be merged that is not held to what was seen of it", task.id).into());
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
        .ok_or_else(|| Fault::new(FaultKind::Bug, "the repository lost its policy", "no version is in force"))?;
    let blob = kernel.ledger.keep(&frozen.to_bytes()?)?;
    let mut verdict = judge(kernel, task, &frozen).await?;
    if matches!(verdict, Verdict::Allow(_)) && kernel.tasks.choosing.lock().contains(&task.id) {
        verdict = Verdict::Review { reasons: vec!["a person chooses what goes in".into()], rules: Vec::new() };
    }
    if let Verdict::Allow(_) = verdict {
        // A rule that lets merges pass lets pass those that tests and their own smallness vouch for.
        let mut doubts = auto::doubts(kernel, task, &frozen, &trusted.config).await?;
        if doubts.is_empty() {
            doubts = now.workflow.as_deref().map(discipline::unread_doubts).unwrap_or_default();
        }
        if !doubts.is_empty() {
            verdict = Verdict::Review { reasons: doubts, rules: Vec::new() };
        }
    }
    if matches!(verdict, Verdict::Allow(_))
        && let Some(workflow) = now.workflow.as_deref()
    {
        let doubts = discipline::coverage_doubts(workflow, trusted.policy.test_rules.debt.min_delta);
        if !doubts.is_empty() {
            verdict = Verdict::Review { reasons: doubts, rules: Vec::new() };
        }
    }
    // What no gate has seen is seen by a person, whatever the rules say.
    if matches!(verdict, Verdict::Allow(_)) && crate::talk::ungated(task).is_some() {
        verdict = Verdict::Review { reasons: Vec::new(), rules: Vec::new() };
    }
    let (digest, paths) = (frozen.digest.clone(), frozen.paths());
    let nothing = frozen.changes.is_empty() && frozen.conflicts.is_empty();
    let pending = kernel.ledger.commit(|world, _| {
        let (pid, id, merge) = (task.pid, Some(task.id), world.next_merge());
        let proposed = MergeProposed { pid, task: id, merge, digest, frozen: blob, paths, summary: summary.to_owned() };
        let mut events: Vec<Event> = vec![proposed.into()];
        if nothing {
            let reason = list::ALL_LEFT_OUT.to_owned();
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
pub(crate) async fn frozen(kernel: &Kernel, task: &Task, summary: &str) -> Result<Frozen, Stop> {
    let (task, summary) = (task.clone(), summary.to_owned());
    on_own_thread(kernel, |kernel| async move { freeze(&kernel, &task, &summary).await }).await
}

async fn freeze(kernel: &Kernel, task: &Task, summary: &str) -> Result<Frozen, Stop> {
    let opened = kernel.workspace_of(task.id).await?;
    let listed = RoomChanges::of(&opened.room).await?;
    // Who changed nothing does not wait for the base.
    let mut looked = if listed.paths().is_empty() {
        listed.nothing()
    } else {
        let paths = listed.paths();
        let throwaway = kernel.throwaways.open(task.zone, &opened.project, RoomContent::Repository).await?;
        let bases = bases(kernel, task, &opened, &throwaway, &paths).await?;
        let looked = look(kernel, task, &bases, opened.work.join("upper"), listed).await?;
        throwaway.close().await?;
        looked
    };
    let now = kernel.ledger.task(task.id)?;
    let began = match kernel.kept_changes(&now)? {
        Some(kept) => {
            looked.refused.extend(kept.lost().cloned());
            kept.began
        }
        None => now.workspace.and_then(|workspace| workspace.head),
    };
    conclude(kernel, task, summary, began, looked).await
}

/// The kept changes of a task that nobody works on, frozen over the project as it is now.
async fn freeze_kept(kernel: &Kernel, task: &Task, kept: KeptChanges) -> Result<Frozen, Stop> {
    let project = kernel.ledger.project_of(task.zone)?;
    let shows = RoomContent::Kept(Box::new(kept.clone()), kernel.gate.owner(task.id)?);
    let rebuilt = kernel.throwaways.open(task.zone, &project, shows).await?;
    let listed = RoomChanges::of(rebuilt.room()?).await?;
    let (began, lost): (_, Vec<MergePath>) = (kept.began.clone(), kept.lost().cloned().collect());
    let throwaway = kernel.throwaways.open(task.zone, &project, RoomContent::Repository).await?;
    let bases = Bases::of_kept(throwaway.room()?, kept);
    let mut looked = look(kernel, task, &bases, rebuilt.room()?.work().join("upper"), listed).await?;
    looked.refused.extend(lost);
    throwaway.close().await?;
    rebuilt.close().await?;
    conclude(kernel, task, task.summary.as_deref().unwrap_or_default(), began, looked).await
}

/// Freezes what a room changed: `upper` is its layer.
async fn look(kernel: &Kernel, task: &Task, bases: &Bases<'_>, upper: PathBuf, listed: RoomChanges) -> Result<FrozenChanges, Stop> {
    let gate = MergeRights::of(&kernel.gate, task)?;
    let counter = kernel.tasks.counted.begin(CountedKind::Freezing, Some(task.id), listed.paths().len() as u64);
    let keeping = kernel.ledger.keeping();
    let sight = kernel.gate.sight(kernel.gate.owner(task.id)?)?;
    let announced = kernel.clients.announced(task)?;
    let excluded = |path: &str| {
        // What a room does not show is no change of its task's, wherever it came from.
        let masked = sight.masks(path).map(|by| format!("it is masked: {by}{NOT_KEPT}"));
        let half =
            || announced.as_ref()?.half_replaced(path).map(|file| format!("the client was ended while it replaced `{file}` by this"));
        masked.or_else(half)
    };
    let freezer = Freezer {
        gate: &gate,
        bases,
        at: &|| counter.step(),
        keep: &|bytes| keeping.keep(bytes),
        blobs: &|blob| kernel.ledger.blob(blob),
        excluded: &excluded,
        upper: FileTree::at(upper)?,
        tree: tree_of(kernel, task)?,
    };
    let looked = freezer.freeze(listed).await?;
    drop(freezer);
    keeping.done()?;
    Ok(looked)
}

async fn conclude(kernel: &Kernel, task: &Task, summary: &str, began: Option<String>, mut looked: FrozenChanges) -> Result<Frozen, Stop> {
    others::name(kernel, task, &mut looked)?;
    let trusted = kernel
        .gate
        .policies
        .trusted(task.zone)?
        .ok_or_else(|| Fault::new(FaultKind::Bug, "the repository lost its policy", "no version is in force"))?;
    let project = kernel.ledger.project_of(task.zone)?;
    let head = repository::head(&project, &kernel.instance.home.path).await?;
    Ok(Frozen::new(task.id, summary, head, began, trusted.version, looked)?)
}

/// What the project held at these paths when a task began; git answers in `throwaway`.
pub(crate) async fn bases<'a>(
    kernel: &Kernel,
    task: &Task,
    opened: &Arc<OpenWorkspace>,
    throwaway: &'a ThrowawayRoom,
    paths: &[&str],
) -> Result<Bases<'a>, Stop> {
    let base = kernel.base(task.id, opened).await?;
    let workspace = kernel.ledger.task(task.id)?.workspace.ok_or_else(|| Fault::new(FaultKind::Bug, "a base has no workspace", task.id))?;
    let dirty = Dirty::parse(&kernel.ledger.blob(&base.blob)?)?;
    let mut bases = Bases::at(throwaway.room()?, &base, dirty, paths).await?;
    bases.distrust(&opened.project, workspace.since_us, base.until_us, paths).await?;
    let kept = kernel.kept_changes(&kernel.ledger.task(task.id)?)?;
    Ok(bases.with_kept(kept.unwrap_or_default()))
}

/// The files of a task's project.
fn tree_of(kernel: &Kernel, task: &Task) -> Result<FileTree, Stop> {
    let project = kernel.ledger.project_of(task.zone)?;
    Ok(FileTree::at(project)?.exchanging(kernel.instance.tuning.exchanges_files))
}

/// Asks a person about these changes, and parks the task on the question.
fn question(world: &World, task: &Task, frozen: &Frozen, mut reasons: Vec<String>, rules: Vec<String>) -> Vec<Event> {
    reasons.extend(frozen.marks());
    let workflow = world.tasks.get(&task.id).and_then(|task| task.workflow.as_deref());
    reasons.extend(workflow.map(discipline::merge_reasons).unwrap_or_default());
    reasons.extend(crate::talk::ungated(task).map(|why| format!("it comes from a talk, {why}")));
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
        room: None,
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
        MergeState::Applying => apply_rest(kernel, task, merge.id, &frozen.summary).await,
        MergeState::Applied | MergeState::Rejected | MergeState::Undoing | MergeState::Undone => {
            finish(kernel, task, &frozen.summary, Vec::new()).await?;
            Ok(MergeProgress::remove(&progress_file(kernel, "merging", merge.id)?)?)
        }
        MergeState::Proposed => match answer_of(kernel, task) {
            Some((Answer::Allow, by)) => {
                frozen.choose(&merge.only);
                // The answer is void, and a new question is asked on what is true now.
                if let Some(why) = stale_reason(kernel, task, &frozen).await? {
                    return propose_again(kernel, task, merge.id, &frozen.summary, &why).await;
                }
                frozen.resolve(&merge.sides);
                begin_apply(kernel, task, merge.id, frozen, Agreed::Person { by: &by, sides: &merge.sides }).await
            }
            Some((Answer::Deny, by)) => {
                reject(kernel, task, merge.id, &by, list::REFUSED).await?;
                finish(kernel, task, &with_note(&frozen.summary, &format!("changes rejected by {by}")), Vec::new()).await
            }
            // Its task goes on in the same commit.
            Some((Answer::Changes, _)) => Ok(()),
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
async fn stale_reason(kernel: &Kernel, task: &Task, frozen: &Frozen) -> Result<Option<String>, Stop> {
    let zone = kernel.ledger.look(|world| Some((world.zones.get(&task.zone)?.path.clone(), world.policy_version(task.zone)?)));
    let Some((path, version)) = zone else { return Ok(Some("the repository is gone".into())) };
    if repository::head(path.as_ref(), &kernel.instance.home.path).await? != frozen.head {
        return Ok(Some("HEAD moved after the question".into()));
    }
    if version != frozen.policy_version {
        return Ok(Some("the policy changed after the question".into()));
    }
    if let Some(path) = aside(|| Ok::<_, Stop>(frozen.moved(&tree_of(kernel, task)?)?))? {
        return Ok(Some(format!("`{path}` changed after the question")));
    }
    let led_away = aside(|| judge_links(&tree_of(kernel, task)?, &frozen.changes, Origin::Task).map_err(Stop::from))?;
    Ok(led_away.into_keys().next().map(|path| format!("a link or a folder around `{path}` changed after the question")))
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
            let entered = phase::entered(world.tasks.get(&task.id), WorkflowState::Committing, "the merge was approved");
            let started = MergeStarted { pid, task: id, merge, by, snapshot, grants, up }.into();
            (std::iter::once(started).chain(entered).collect(), None)
        }
        Err(why) => (Vec::new(), Some(why)),
    })?;
    match pending.durable().await? {
        None => apply_rest(kernel, task, merge, &frozen.summary).await,
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

/// Puts the changes in place, makes their commit where one is wanted, and ends the task.
async fn apply_rest(kernel: &Kernel, task: &Task, id: MergeId, summary: &str) -> Result<(), Stop> {
    let merge = kernel.ledger.look(|world| world.merges.get(&id).cloned());
    let merge = merge.ok_or_else(|| Fault::new(FaultKind::Bug, "a merge is gone", id))?;
    let snapshot = merge.snapshot.as_deref().ok_or_else(|| Fault::new(FaultKind::Bug, "a merge has no log", id))?;
    let plan = MergePlan::parse(&kernel.ledger.blob(snapshot)?)?;
    let goes_elsewhere = merge.commit.as_ref().is_some_and(|wish| wish.branch.is_some());
    let paths = match goes_elsewhere {
        true => plan.told(),
        false => {
            let tree = tree_of(kernel, task)?;
            let counter = kernel.tasks.counted.begin(CountedKind::Merging, Some(task.id), plan.len());
            let at = |moment| {
                counter.reached(workspace::step_of(moment));
                kernel.instance.fault_at("merge", moment);
            };
            let progress = MergeProgress::open(&progress_file(kernel, "merging", id)?)?;
            plan.apply(&tree, &|blob| kernel.ledger.blob(blob), &progress, &at)?
        }
    };
    let committed = commit::make(kernel, task, &merge, &plan, &paths).await?;
    // On the branch alone they would be, and there they are not.
    if let (true, Some(Event::MergeUncommitted(no))) = (goes_elsewhere, &committed) {
        let note = with_note(summary, &format!("not merged: {}", no.reason));
        let left = plan.told().into_iter().map(|path| MergePath { refused: Some(no.reason.clone()), ..path }).collect();
        let finished = MergeFinished { pid: task.pid, task: Some(task.id), merge: id, paths: left };
        return finish(kernel, task, &note, committed.into_iter().chain([finished.into()]).collect()).await;
    }
    let (imported, summary) = import::run(kernel, task, summary).await?;
    // What was measured is the whole of the changes: a part of them was not, and on a branch they are not in the project.
    let is_whole = !goes_elsewhere && merge.only.is_empty() && merge.sides.is_empty() && paths.iter().all(|path| path.refused.is_none());
    let limits = kernel.test_first().debt_limits(task.zone)?;
    let judge = |world: &World| is_whole.then(|| discipline::judged_merge(world, task, id, &limits)).flatten();
    let finished = MergeFinished { pid: task.pid, task: Some(task.id), merge: id, paths };
    finish_with(kernel, task, &summary, committed.into_iter().chain(imported).chain([finished.into()]).collect(), judge).await?;
    Ok(MergeProgress::remove(&progress_file(kernel, "merging", id)?)?)
}

/// Where it is noted how far a merge, or its way back, has come.
fn progress_file(kernel: &Kernel, what: &str, merge: MergeId) -> Result<PathBuf, Fault> {
    let folder = kernel.instance.home.path.join(what);
    std::fs::create_dir_all(&folder).map_err(|error| Fault::io("make", &folder, error))?;
    Ok(folder.join(merge.to_string()))
}

pub(crate) async fn finish(kernel: &Kernel, task: &Task, summary: &str, events: Vec<Event>) -> Result<(), Stop> {
    finish_with(kernel, task, summary, events, |_| None).await
}

/// Ends a task, with one more record by what is true then.
async fn finish_with(
    kernel: &Kernel,
    task: &Task,
    summary: &str,
    mut events: Vec<Event>,
    more: impl FnOnce(&World) -> Option<Event>,
) -> Result<(), Stop> {
    // A brain's work can be replayed only from what it started with. Where that can't be had, the replay says so.
    if task.mode != world::Mode::Call
        && let Some(opened) = kernel.workspaces.find(task.id)
    {
        drop(kernel.base(task.id, &opened).await);
    }
    events.push(TaskFinished { pid: task.pid, task: Some(task.id), summary: summary.to_owned(), result: None }.into());
    let pending = kernel.ledger.commit(|world, _| {
        let idle = phase::entered(world.tasks.get(&task.id), WorkflowState::Idle, "the task has ended");
        let before_end = events.len().saturating_sub(1);
        events.splice(before_end..before_end, more(world).into_iter().chain(idle));
        (events, ())
    })?;
    pending.durable().await?;
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
