//! What a task changed, for a person to read.

use super::Frozen;
use crate::Kernel;
use std::os::fd::AsFd;
use workspace::diff::{FILE_BYTES_MAX, FileGone, compared};
use workspace::{FileState, FileVersion, MergeDiff, Tree, aside};
use world::{Code, Refusal, Stop, TaskId, TaskState};

impl Kernel {
    /// The changes of a task: the frozen ones where a merge is proposed, else what its room holds now.
    pub async fn diff(&self, id: TaskId) -> Result<MergeDiff, Stop> {
        let _keeps = self.blobs.hold().await;
        match self.frozen(id).await? {
            Some(frozen) => Ok(aside(|| MergeDiff::of(&frozen, &|blob| self.ledger.blob_if_kept(blob)))?),
            None => Ok(MergeDiff { digest: String::new(), files: Vec::new() }),
        }
    }

    /// The bytes of one changed file, as they were or as they shall be: what a diff is too short for.
    pub async fn changed_file(&self, id: TaskId, path: &str, version: FileVersion) -> Result<Vec<u8>, Stop> {
        let _keeps = self.blobs.hold().await;
        let frozen = self.frozen(id).await?;
        let found = frozen.map(|frozen| frozen.file(path, version, &|blob| self.ledger.blob_if_kept(blob)));
        match found.transpose() {
            Ok(Some(Some(bytes))) => Ok(bytes),
            Ok(None | Some(None)) => Err(Refusal::new(Code::NotFound, format!("{id} changes no `{path}`"))
                .remedy(world::Remedy::ShowChanges { task: id })
                .into()),
            Err(FileGone::NotKept) => Err(Refusal::new(Code::NotFound, format!("what `{path}` of {id} held is kept no longer")).into()),
            Err(FileGone::Fault(fault)) => Err(fault.into()),
        }
    }

    /// The changes of a task as a patch that `git apply` takes, and its SHA-256.
    pub async fn git_patch(&self, id: TaskId) -> Result<(Vec<u8>, String), Stop> {
        let _keeps = self.blobs.hold().await;
        let frozen = self.frozen(id).await?;
        let patch = aside(|| frozen.map_or(Ok(Vec::new()), |frozen| frozen.git_patch(&|blob| self.ledger.blob_if_kept(blob))));
        let patch = patch.map_err(|gone| match gone {
            FileGone::NotKept => Stop::from(Refusal::new(Code::NotFound, format!("what {id} changed is kept no longer"))),
            FileGone::Fault(fault) => fault.into(),
        })?;
        let digest = aside(|| workspace::hash::sha256(&patch));
        Ok((patch, digest))
    }

    async fn frozen(&self, id: TaskId) -> Result<Option<Frozen>, Stop> {
        let task = self.ledger.task(id)?;
        Ok(match self.ledger.merge_of(&task) {
            Some(merge) => Some(Frozen::parse(&self.ledger.blob(&merge.frozen)?)?),
            None if task.state.ended() || task.state == TaskState::Queued => None,
            None => Some(super::frozen(self, &task, "").await?),
        })
    }

    /// What a yes to a write or an edit would change; `None` where that cannot be told. `input` is the exact one.
    pub(crate) async fn review_diff(&self, review: &world::Review, input: &serde_json::Value) -> Option<String> {
        let path = input["path"].as_str()?;
        let opened = self.workspace_of(review.task?).await.ok()?;
        if opened.sight.hides(path).is_some() || opened.other_name(path).is_some() {
            return None;
        }
        let old = match aside(|| Tree::through(opened.room.root().as_fd(), &opened.project)?.now(path)).ok()? {
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
