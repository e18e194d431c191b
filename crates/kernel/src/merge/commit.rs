//! The commit of a merge: exactly the paths that went in, on HEAD, or on a branch that nobody has checked out.
//!
//! The commit is made in a room, its objects are put into the repository, and its id is recorded before the reference moves, by
//! compare-and-swap. **Invariant.** A crash leaves the reference at its old or its new commit; the boot that finds the merge unfinished
//! goes on with the recorded one. Where no commit can be made after the files are in, that is on record with its reason.

use super::trailers;
use crate::Kernel;
use room::RoomContent;
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};
use workspace::commit::{self as git, CommitPlace, NewCommit};
use workspace::repository::write::{CommitTarget, commit_target};
use workspace::{KeptChanges, MergePlan, MergeStep, State, aside, repository};
use world::event::{MergeCommitted, MergeCommitting, MergeUncommitted};
use world::{CommitWish, Event, FaultKind, Merge, MergePath, PreparedCommit, Stop, Task};

/// Refuses a commit that cannot be made, before anything goes in.
pub(super) async fn check(kernel: &Kernel, task: &Task, wish: &CommitWish, plan: &MergePlan) -> Result<(), Stop> {
    trailers::check(wish)?;
    let target = target(kernel, task, wish).await?;
    let steps: Vec<&MergeStep> = plan.steps.iter().collect();
    let project = kernel.ledger.project_of(task.zone)?;
    let room = kernel.throwaways.open(task.zone, &project, RoomContent::Repository).await?;
    let blobs = |blob: &str| kernel.ledger.blob(blob);
    git::check(room.room()?, target.parent.as_deref(), &steps, &blobs, place(kernel, task, &target).await?).await?;
    Ok(room.close().await?)
}

async fn place(kernel: &Kernel, task: &Task, target: &CommitTarget) -> Result<CommitPlace, Stop> {
    let head = repository::head(&kernel.ledger.project_of(task.zone)?, &kernel.instance.home.path).await?;
    Ok(match (target.is_head(), head == target.parent) {
        (true, _) => CommitPlace::Head,
        (false, true) => CommitPlace::BranchAtHead,
        (false, false) => CommitPlace::OtherBranch,
    })
}

async fn target(kernel: &Kernel, task: &Task, wish: &CommitWish) -> Result<CommitTarget, Stop> {
    let project = kernel.ledger.project_of(task.zone)?;
    commit_target(&project, &kernel.instance.home.path, wish.branch.as_deref()).await
}

/// Makes the commit that a merge wants of the paths that went in, and gives the record of it; `None` where it wants none.
pub(super) async fn make(
    kernel: &Kernel,
    task: &Task,
    merge: &Merge,
    plan: &MergePlan,
    paths: &[MergePath],
) -> Result<Option<Event>, Stop> {
    let Some(wish) = &merge.commit else { return Ok(None) };
    let left: BTreeSet<&str> = paths.iter().filter(|path| path.refused.is_some()).map(|path| path.path.as_str()).collect();
    let steps: Vec<&MergeStep> = plan.steps.iter().filter(|step| !left.contains(step.path.path.as_str())).collect();
    let (pid, id) = (task.pid, Some(task.id));
    let reason = match make_of(kernel, task, merge, wish, &steps).await {
        Ok(PreparedCommit { commit, reference, .. }) => {
            let paths = names(&steps).into_iter().map(str::to_owned).collect();
            return Ok(Some(MergeCommitted { pid, task: id, merge: merge.id, reference, commit, paths }.into()));
        }
        // It goes on when the disk or the next kernel lets it.
        Err(Stop::Failed(fault)) if matches!(fault.kind, FaultKind::Stopping | FaultKind::DiskFull) => return Err(fault.into()),
        Err(Stop::Failed(fault)) => fault.to_string(),
        Err(Stop::Refused(refusal)) => refusal.reason,
    };
    Ok(Some(MergeUncommitted { pid, task: id, merge: merge.id, reason }.into()))
}

async fn make_of(kernel: &Kernel, task: &Task, merge: &Merge, wish: &CommitWish, steps: &[&MergeStep]) -> Result<PreparedCommit, Stop> {
    let target = target(kernel, task, wish).await?;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let prepared = match merge.prepared.clone() {
        Some(prepared) if prepared.reference == target.reference => prepared,
        Some(prepared) => {
            let what = format!("`{}` is not where the commit was to go any more", prepared.reference);
            return Err(world::Refusal::new(world::Code::WrongState, what).into());
        }
        None => prepare(kernel, task, merge, wish, &target, steps, now_s).await?,
    };
    kernel.instance.fault_at("commit", 1);
    land(kernel, task, merge, wish, &target, &prepared, &names(steps), now_s).await?;
    kernel.instance.fault_at("commit", 3);
    Ok(prepared)
}

fn names<'a>(steps: &[&'a MergeStep]) -> Vec<&'a str> {
    steps.iter().map(|step| step.path.path.as_str()).collect()
}

/// Writes the commit, and records its id.
async fn prepare(
    kernel: &Kernel,
    task: &Task,
    merge: &Merge,
    wish: &CommitWish,
    target: &CommitTarget,
    steps: &[&MergeStep],
    now_s: u64,
) -> Result<PreparedCommit, Stop> {
    let project = kernel.ledger.project_of(task.zone)?;
    let mut contents = KeptChanges::default();
    for step in steps {
        contents.rebase(&step.path.path, None, &step.after, &State::Absent, 0, &|bytes| kernel.ledger.keep(bytes))?;
    }
    let shows = RoomContent::Kept(Box::new(contents), kernel.gate.owner(task.id)?);
    let room = kernel.throwaways.open(task.zone, &project, shows).await?;
    let (parent, blobs) = (target.parent.as_deref(), |blob: &str| kernel.ledger.blob(blob));
    // Once more: the person may have committed or staged something since they agreed.
    git::check(room.room()?, parent, steps, &blobs, place(kernel, task, target).await?).await?;
    let wish = CommitWish { message: trailers::of(kernel, task, merge)?.below(&wish.message), ..wish.clone() };
    let NewCommit { commit, objects } = git::write(room.room()?, parent, &names(steps), &wish, now_s, &target.objects()).await?;
    room.close().await?;
    aside(|| target.store(&objects))?;
    kernel.instance.fault_at("commit", 0);
    let (reference, parent) = (target.reference.clone(), target.parent.clone());
    let event = MergeCommitting {
        pid: task.pid,
        task: Some(task.id),
        merge: merge.id,
        reference: reference.clone(),
        commit: commit.clone(),
        parent: parent.clone(),
    };
    kernel.ledger.record(event).await?;
    Ok(PreparedCommit { commit, parent, reference, is_made: false })
}

/// Moves the reference, and brings the person's index to the new commit at these paths alone.
#[expect(clippy::too_many_arguments, reason = "what a commit is made of, once")]
async fn land(
    kernel: &Kernel,
    task: &Task,
    merge: &Merge,
    wish: &CommitWish,
    target: &CommitTarget,
    prepared: &PreparedCommit,
    paths: &[&str],
    now_s: u64,
) -> Result<(), Stop> {
    let PreparedCommit { commit, parent, .. } = prepared;
    let index = if target.is_head() { aside(|| target.lock_index(&format!("skep {}", merge.id)))? } else { None };
    let why = format!("skep: merge {}", task.id);
    aside(|| target.swing(parent.as_deref(), commit, wish, now_s, &why))?;
    kernel.instance.fault_at("commit", 2);
    let Some(index) = index else { return Ok(()) };
    let project = kernel.ledger.project_of(task.zone)?;
    let refreshed = async {
        let room = kernel.throwaways.open(task.zone, &project, RoomContent::Repository).await?;
        let bytes = git::refreshed_index(room.room()?, index.bytes.clone(), parent.as_deref(), commit, paths).await?;
        room.close().await?;
        match bytes {
            Some(bytes) => Ok::<_, Stop>(aside(|| index.replace(&bytes))?),
            None => Ok(()),
        }
    };
    // The commit is there; an index that is behind is what `git status` shows, and costs nothing.
    if let Err(stop) = refreshed.await {
        world::log!("skep: the index is behind the commit of {}: {stop}", task.id);
    }
    Ok(())
}
