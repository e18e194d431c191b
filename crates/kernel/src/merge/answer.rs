//! What the operator says to a proposed merge: yes, to all of it or some, with a commit or without; or no.

use super::commit;
use crate::{Kernel, Reply};
use std::collections::BTreeMap;
use workspace::{Frozen, MergePlan};
use world::event::MergeResolved;
use world::{
    Code, CommitWish, Event, Fault, Merge, MergeId, MergePath, MergeState, PreparedCommit, Refusal, Remedy, Side, Stop, Task, TaskId,
    TaskState,
};

/// What a person wants of a merge beside a yes.
#[derive(Clone, Debug, Default)]
pub struct MergeWish {
    /// Whose version of a path that both changed.
    pub sides: BTreeMap<String, Side>,
    /// Paths and folders that go in; all without any. The others are kept.
    pub only: Vec<String>,
    /// A commit of what goes in.
    pub commit: Option<CommitWish>,
}

/// What became of a merge.
#[derive(Clone, Debug)]
pub struct MergeOutcome {
    pub paths: Vec<MergePath>,
    /// The commit of it.
    pub commit: Option<PreparedCommit>,
    /// Why there is none, where one was wanted.
    pub uncommitted: Option<String>,
}

impl Kernel {
    /// Approves a task's open merge if it is the one that was seen, waits for it, and tells what became of each path.
    pub async fn merge(&self, id: TaskId, digest: Option<&str>, sides: BTreeMap<String, Side>, by: &str) -> Result<Vec<MergePath>, Stop> {
        let wish = MergeWish { sides, ..MergeWish::default() };
        self.merge_as(id, digest, wish, by).await.map(|outcome| outcome.paths)
    }

    /// The same for some of its paths, or with a commit.
    pub async fn merge_as(&self, id: TaskId, digest: Option<&str>, wish: MergeWish, by: &str) -> Result<MergeOutcome, Stop> {
        let mut task = self.settled_work(id).await?;
        if task.state.at_rest() && task.kept.is_some() {
            let chooses = !wish.only.is_empty() || wish.commit.is_some();
            if chooses {
                self.tasks.choosing.lock().insert(id);
            }
            let proposed = self.propose_kept(id, digest, by).await;
            self.tasks.choosing.lock().remove(&id);
            task = proposed?;
            // A rule let it pass.
            if self.ledger.merge_of(&task).is_some_and(|merge| merge.state == MergeState::Applied) {
                return self.merge_outcome(&task);
            }
        }
        let merge = self.ledger.merge_of(&task);
        let (TaskState::Parked { review }, Some(merge)) = (task.state, merge) else {
            if task.state.at_rest() && task.kept.is_some() {
                let what = format!("nothing is merged: all that is kept of {id} stays out");
                return Err(Refusal::new(Code::WrongState, what).remedy(Remedy::ShowLeftOut { task: id }).into());
            }
            let why = match task.state {
                TaskState::Queued | TaskState::Running => "is not done yet",
                TaskState::Parked { .. } => "waits for another review",
                _ => "has nothing to merge",
            };
            return Err(Refusal::new(Code::WrongState, format!("{id} {why}")).remedy(Remedy::ShowTask { task: id }).into());
        };
        if digest.is_some_and(|digest| digest != merge.digest) {
            return Err(Refusal::new(Code::WrongState, "the changes are not the ones you looked at")
                .remedy(Remedy::ShowChangesAgain { task: id })
                .into());
        }
        self.check_wish(&task, &merge, &wish).await?;
        let MergeWish { sides, only, commit } = wish;
        if !sides.is_empty() || !only.is_empty() || commit.is_some() {
            self.ledger
                .record(MergeResolved { pid: task.pid, task: Some(id), merge: merge.id, sides, only, commit, by: by.to_owned() })
                .await?;
        }
        self.answer(review, Reply::yes(), by, None).await?;
        let task = self.tasks.settled(id).await?;
        let left_out = self.ledger.look(|world| task.merge.and_then(|merge| world.merges.get(&merge)).map(|merge| merge.state));
        if task.state == TaskState::Done && left_out == Some(MergeState::Rejected) {
            let reason = format!("nothing is merged: {}", task.summary.unwrap_or_else(|| "every change is left out".into()));
            return Err(Refusal::new(Code::WrongState, reason).remedy(Remedy::ShowLeftOut { task: id }).into());
        }
        if task.state != TaskState::Done {
            let reason = match (task.state, task.summary) {
                (TaskState::Parked { review }, _) => {
                    let why = self.rejected_because(id, merge.id)?.unwrap_or_else(|| "something changed after the question".into());
                    format!("nothing is merged: {why}; {review} asks about what is there now")
                }
                (_, Some(summary)) => summary,
                (state, None) => format!("nothing is merged: {id} is {}", state.as_str()),
            };
            return Err(Refusal::new(Code::WrongState, reason).remedy(Remedy::MergeAgain { task: id }).into());
        }
        self.merge_outcome(&task)
    }

    /// Refuses what cannot be done with these changes before anybody says yes to them.
    async fn check_wish(&self, task: &Task, merge: &Merge, wish: &MergeWish) -> Result<(), Stop> {
        let (id, sides) = (task.id, &wish.sides);
        let mut frozen = Frozen::parse(&self.ledger.blob(&merge.frozen)?)?;
        if let Some(path) = wish.only.iter().find(|path| !frozen.names(path)) {
            return Err(Refusal::new(Code::BadInput, format!("{id} would put nothing in at `{path}`"))
                .remedy(Remedy::ShowChanges { task: id })
                .into());
        }
        if let Some((path, whole)) = frozen.parted(&wish.only) {
            return Err(Refusal::new(Code::BadInput, format!("`{path}` is one change with all of `{whole}`"))
                .hint(format!("name `{whole}`, or leave it out"))
                .into());
        }
        frozen.choose(&wish.only);
        let is_chosen = |path: &String| sides.contains_key(path) || merge.sides.contains_key(path);
        // Done without a single change the task's work would be gone.
        if frozen.changes.is_empty() && !frozen.conflicts.iter().any(|conflict| is_chosen(&conflict.path)) {
            return Err(Refusal::new(Code::WrongState, "nothing would be merged: every change is a conflict, and no side is chosen")
                .remedy(Remedy::ShowConflicts { task: id })
                .into());
        }
        let clashing = |path: &String| frozen.conflicts.iter().any(|conflict| conflict.path == *path && conflict.mine.is_some());
        if let Some(path) = sides.keys().find(|path| !clashing(path)) {
            return Err(Refusal::new(Code::BadInput, format!("`{path}` is no conflict that a choice decides"))
                .remedy(Remedy::ShowConflicts { task: id })
                .into());
        }
        if let Some(commit) = &wish.commit {
            frozen.resolve(sides);
            commit::check(self, task, commit, &MergePlan::of(&frozen)).await?;
        }
        Ok(())
    }

    fn merge_outcome(&self, task: &Task) -> Result<MergeOutcome, Stop> {
        let merge = self.ledger.merge_of(task);
        let commit = merge.as_ref().and_then(|merge| merge.prepared.clone()).filter(|commit| commit.is_made);
        let wanted = merge.as_ref().is_some_and(|merge| merge.commit.is_some() && commit.is_none());
        let uncommitted = match self.ledger.events(task.id, &["merge.uncommitted"])?.pop() {
            Some(Event::MergeUncommitted(no)) if wanted => Some(no.reason),
            _ => None,
        };
        Ok(MergeOutcome { paths: self.ledger.merged(task.id)?, commit, uncommitted })
    }

    /// Why the kernel gave a proposal up.
    fn rejected_because(&self, id: TaskId, merge: MergeId) -> Result<Option<String>, Fault> {
        let rejected = self.ledger.events(id, &["merge.rejected"])?.into_iter().rev();
        Ok(rejected
            .filter_map(|event| match event {
                Event::MergeRejected(e) if e.merge == merge => Some(e.reason),
                _ => None,
            })
            .next())
    }

    /// Refuses a task's open merge; its changes are kept.
    pub async fn reject(&self, id: TaskId, by: &str, reason: Option<String>) -> Result<(), Stop> {
        let task = self.ledger.task(id)?;
        let (TaskState::Parked { review }, Some(_)) = (task.state, task.merge) else {
            return Err(Refusal::new(Code::WrongState, format!("{id} has no changes that wait"))
                .remedy(Remedy::CancelTask { task: Some(id) })
                .into());
        };
        self.answer(review, Reply::no(), by, reason).await?;
        self.tasks.settled(id).await.map(drop)
    }
}
