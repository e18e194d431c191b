//! What a task changed, for a person to read.

use super::Frozen;
use super::pieces::{AnswerPiece, PieceKey, Served};
use crate::Kernel;
use crate::file_thread::on_own_thread;
use std::os::fd::AsFd;
use workspace::diff::{FILE_BYTES_MAX, FileGone, compared};
use workspace::{FileState, FileTree, FileVersion, MergeDiff, MergePlan, aside};
use world::{Code, Event, Fault, Merge, MergeState, Refusal, Stop, TaskId, TaskState};

impl Kernel {
    /// The changes of a task: the frozen ones where a merge is proposed, else what its room holds now.
    pub async fn diff(&self, id: TaskId) -> Result<MergeDiff, Stop> {
        let _keeps = self.blobs.hold().await;
        match self.frozen(id).await? {
            Some(frozen) => {
                let is_dropped = self.is_dropped(id)?;
                Ok(aside(|| MergeDiff::of(&frozen, &|blob| self.content(is_dropped, blob)))?)
            }
            None => Ok(MergeDiff { digest: String::new(), files: Vec::new() }),
        }
    }

    /// A piece of one changed file, as it was or as it shall be: what a diff is too short for.
    pub async fn changed_file(
        &self,
        id: TaskId,
        path: &str,
        version: FileVersion,
        offset: u64,
        length: usize,
    ) -> Result<AnswerPiece, Stop> {
        let key = self.piece_key(id, Served::File(path.to_owned(), version))?;
        self.tasks.pieces.serve(key, offset, length, || self.whole_file(id, path, version)).await
    }

    /// A piece of the changes of a task as a patch that `git apply` takes.
    pub async fn git_patch(&self, id: TaskId, offset: u64, length: usize) -> Result<AnswerPiece, Stop> {
        let key = self.piece_key(id, Served::Patch)?;
        self.tasks.pieces.serve(key, offset, length, || self.whole_patch(id)).await
    }

    fn piece_key(&self, id: TaskId, what: Served) -> Result<PieceKey, Stop> {
        let task = self.ledger.task(id)?;
        let merge = self.ledger.merge_of(&task).map(|merge| (merge.id, merge.state, merge.left.len()));
        Ok(PieceKey { task: id, what, state: task.state, kept: task.kept.map(|kept| kept.blob), merge })
    }

    async fn whole_file(&self, id: TaskId, path: &str, version: FileVersion) -> Result<(Vec<u8>, String), Stop> {
        let _keeps = self.blobs.hold().await;
        let merged = if version == FileVersion::Before { self.merge_of_path(id, path)? } else { None };
        let before = |plan: &MergePlan| plan.before(path, &|blob| self.ledger.blob_if_kept(blob));
        let found = match &merged {
            // What an undo left as it is differs from the task's version by the person's edit; asked for is what stood there before both.
            Some((merge, plan)) if merge.is_partly_undone() && merge.left.contains(path) => before(plan),
            _ => {
                let frozen = self.frozen(id).await?;
                let is_dropped = self.is_dropped(id)?;
                let found = frozen.map(|frozen| frozen.file(path, version, &|blob| self.content(is_dropped, blob)));
                match (found.transpose(), &merged) {
                    (Ok(Some(None) | None), Some((_, plan))) => before(plan),
                    (found, _) => found.map(Option::flatten),
                }
            }
        };
        match found {
            Ok(Some(bytes)) => Ok((bytes, String::new())),
            Ok(None) => Err(Refusal::new(Code::NotFound, format!("{id} changes no `{path}`"))
                .remedy(world::Remedy::ShowChanges { task: id })
                .into()),
            Err(FileGone::NotKept) => Err(Refusal::new(Code::NotFound, format!("what `{path}` of {id} held is kept no longer")).into()),
            Err(FileGone::Fault(fault)) => Err(fault.into()),
        }
    }

    /// The newest merge of a task that changed a path, with its log.
    fn merge_of_path(&self, id: TaskId, path: &str) -> Result<Option<(Merge, MergePlan)>, Fault> {
        for merge in self.ledger.merges_made(id) {
            let Some(bytes) = merge.snapshot.as_ref().map(|snapshot| self.ledger.blob_if_kept(snapshot)).transpose()?.flatten() else {
                continue;
            };
            let plan = MergePlan::parse(&bytes)?;
            if plan.steps.iter().any(|step| step.path.path == path) {
                return Ok(Some((merge, plan)));
            }
        }
        Ok(None)
    }

    async fn whole_patch(&self, id: TaskId) -> Result<(Vec<u8>, String), Stop> {
        let _keeps = self.blobs.hold().await;
        let frozen = self.frozen(id).await?;
        let is_dropped = self.is_dropped(id)?;
        let patch = aside(|| frozen.map_or(Ok(Vec::new()), |frozen| frozen.git_patch(&|blob| self.content(is_dropped, blob))));
        let patch = patch.map_err(|gone| match gone {
            FileGone::NotKept => Stop::from(Refusal::new(Code::NotFound, format!("what {id} changed is kept no longer"))),
            FileGone::Fault(fault) => fault.into(),
        })?;
        let digest = aside(|| workspace::hash::sha256(&patch));
        Ok((patch, digest))
    }

    /// What a task changed that can still be merged, frozen now: what is kept of one that nobody works on.
    pub(crate) async fn frozen_now(&self, id: TaskId) -> Result<Option<Frozen>, Stop> {
        let task = self.settled_work(id).await?;
        let Some(kept) = self.kept_changes(&task)?.filter(|_| task.state.at_rest()) else { return Ok(None) };
        on_own_thread(self, |kernel| async move { super::freeze_kept(&kernel, &task, kept).await }).await.map(Some)
    }

    async fn frozen(&self, id: TaskId) -> Result<Option<Frozen>, Stop> {
        if let Some(frozen) = self.frozen_now(id).await? {
            return Ok(Some(frozen));
        }
        let task = self.ledger.task(id)?;
        Ok(match self.ledger.merge_of(&task) {
            Some(merge) => Some(Frozen::parse(&self.ledger.blob(&merge.frozen)?)?),
            None if task.state.at_rest() || task.state == TaskState::Queued => None,
            None => Some(super::frozen(self, &task, "").await?),
        })
    }

    /// Is what a task proposed neither in the project nor kept any more? Its contents are shown no more, also while they wait to be
    /// collected; what it was about is still told.
    fn is_dropped(&self, id: TaskId) -> Result<bool, Stop> {
        let task = self.ledger.task(id)?;
        let is_out = |merge: Merge| matches!(merge.state, MergeState::Proposed | MergeState::Rejected | MergeState::Undone);
        let may_be = task.state.at_rest() && task.kept.is_none() && self.ledger.merge_of(&task).is_some_and(is_out);
        let last = || self.ledger.events(id, &["work.kept", "work.dropped"]);
        Ok(may_be && matches!(last()?.last(), Some(Event::WorkDropped(_))))
    }

    /// A blob of a task's changes, unless they were dropped.
    fn content(&self, is_dropped: bool, blob: &str) -> Result<Option<Vec<u8>>, Fault> {
        if is_dropped { Ok(None) } else { self.ledger.blob_if_kept(blob) }
    }

    /// What a yes to a write or an edit would change; `None` where that cannot be told. `input` is the exact one.
    pub(crate) async fn review_diff(&self, review: &world::Review, input: &serde_json::Value) -> Option<String> {
        let path = input["path"].as_str()?;
        let opened = self.workspace_of(review.task?).await.ok()?;
        if opened.sight.hides(path).is_some() || opened.other_name(path).is_some() {
            return None;
        }
        let old = match aside(|| FileTree::through(opened.room.root().as_fd(), &opened.project)?.now(path)).ok()? {
            FileState::File { bytes, .. } if bytes.len() <= FILE_BYTES_MAX => bytes,
            FileState::Absent => Vec::new(),
            FileState::File { .. } | FileState::Link { .. } | FileState::Folder | FileState::Other => return None,
        };
        let new = match review.tool.as_str() {
            "fs.write" => input["content"].as_str()?.as_bytes().to_vec(),
            "fs.edit" => {
                let (text, (from, to)) = (String::from_utf8(old.clone()).ok()?, (input["old"].as_str()?, input["new"].as_str()?));
                let edited = if input["all"].as_bool() == Some(true) { text.replace(from, to) } else { text.replacen(from, to, 1) };
                edited.into_bytes()
            }
            _ => return None,
        };
        Some(compared(path, &old, &new))
    }
}
