//! What a task's room holds that the project does not, path by path, as blobs; and how single paths are put back.
//!
//! Taken where a phase of the work ends. **Invariant.** What is listed is what a merge could take: ignored files, special files and what is kept
//! by git or skep are not among it. A file that cannot be kept is listed as such and never passed over.

use crate::aside;
use crate::freeze::whole;
use crate::hash;
use crate::ignored::ask_ignored;
use crate::keep::{KeptChanges, KeptPath};
use crate::room_fault;
use crate::tree::{FileState, FileTree, State};
use crate::was::BaseState;
use sandbox::{Act, Change, ChangeKind, FileKind, JobSpec, Workspace};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use world::{Fault, FaultKind, Stop, limits};

/// Everything that a room holds differently.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomSnapshot {
    pub paths: BTreeMap<String, State>,
    /// What is too large to be kept, or changed while it was read.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unkept: BTreeSet<String>,
    /// What was known before and is ignored by git now, so that no merge would take it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hidden: BTreeSet<String>,
    /// Git could not say what it ignores, so what a merge would not take may be among it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_unknown_ignores: bool,
}

impl RoomSnapshot {
    /// Looks at a room in which nothing runs. What was `known` before is looked at whatever git ignores by now.
    pub async fn take(
        room: &Workspace,
        known: &RoomSnapshot,
        keep: &(dyn Fn(&[u8]) -> Result<String, Fault> + Sync),
    ) -> Result<RoomSnapshot, Stop> {
        Ok(RoomSnapshot::look(room, known, keep, true).await?.0)
    }

    /// The same after a run, and which of the changed paths git ignores. Where nothing is there but what was known, git is not asked: who wants to
    /// know whether it ignores that by now takes the other way.
    pub async fn take_after_run(
        room: &Workspace,
        known: &RoomSnapshot,
        keep: &(dyn Fn(&[u8]) -> Result<String, Fault> + Sync),
    ) -> Result<(RoomSnapshot, BTreeSet<String>), Stop> {
        RoomSnapshot::look(room, known, keep, false).await
    }

    async fn look(
        room: &Workspace,
        known: &RoomSnapshot,
        keep: &(dyn Fn(&[u8]) -> Result<String, Fault> + Sync),
        asks_of_known: bool,
    ) -> Result<(RoomSnapshot, BTreeSet<String>), Stop> {
        let found = room.changes().await.map_err(room_fault)?;
        let named: Vec<Change> = found.changes.into_iter().filter(|change| change.path.to_str().is_some()).collect();
        let is_known = |path: &str| known.paths.contains_key(path) || known.unkept.contains(path);
        let is_new = |change: &Change| !is_known(&change.path.to_string_lossy());
        let asks = asks_of_known || !found.refused.is_empty() || named.iter().any(is_new);
        let ignored = if asks { ask_ignored(room, &named, &found.refused).await? } else { Some(BTreeSet::new()) };
        let upper = FileTree::at(room.work().join("upper"))?;
        let mut snapshot = RoomSnapshot { has_unknown_ignores: ignored.is_none(), ..RoomSnapshot::default() };
        let ignored = ignored.unwrap_or_default();
        let is_wanted = |change: &Change| {
            let path = change.path.to_string_lossy();
            !ignored.contains(&*path) || is_known(&path)
        };
        for change in whole(named).into_iter().filter(is_wanted) {
            let path = change.path.to_string_lossy().into_owned();
            if ignored.contains(&path) && change.kind != ChangeKind::Deleted {
                snapshot.hidden.insert(path.clone());
            }
            let state = match (change.kind, &change.file) {
                (ChangeKind::Deleted, _) => Some(State::Absent),
                (_, FileKind::Symlink { target }) => Some(State::Link { target: target.to_string_lossy().into_owned() }),
                _ if change.size > limits::MERGE_FILE_MAX => None,
                _ => match aside(|| upper.now_at(&change.path))? {
                    FileState::File { bytes, mode, .. } => {
                        Some(State::File { blob: aside(|| keep(&bytes))?, mode: Some(mode & 0o777), owner: None })
                    }
                    _ => None,
                },
            };
            match state {
                Some(state) => drop(snapshot.paths.insert(path, state)),
                None => drop(snapshot.unkept.insert(path)),
            }
        }
        for no in &found.refused {
            // A link that no merge takes still leads somewhere.
            for change in no.changes.iter().filter(|change| matches!(change.file, FileKind::Symlink { .. })) {
                snapshot.unkept.insert(change.path.to_string_lossy().into_owned());
            }
            // A repository that was made around what is known would hide it.
            let store = no.path.join(".git");
            let hides = known.paths.keys().any(|path| Path::new(path).starts_with(&no.path) && Path::new(path) != no.path);
            if hides && !matches!(aside(|| upper.now_at(&store))?, FileState::Absent) {
                snapshot.unkept.insert(store.to_string_lossy().into_owned());
            }
        }
        Ok((snapshot, ignored))
    }

    pub fn parse(bytes: &[u8]) -> Result<RoomSnapshot, Fault> {
        serde_json::from_slice(bytes).map_err(|error| Fault::new(FaultKind::Bug, "a snapshot cannot be read", error))
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>, Fault> {
        serde_json::to_vec(self).map_err(|error| Fault::new(FaultKind::Bug, "a snapshot cannot be written", error))
    }

    /// Names these files over what the task began with.
    pub fn tree(&self, base: &str) -> Result<String, Fault> {
        let body = serde_json::to_vec(&(base, &self.paths));
        body.map(|bytes| hash::sha256(&bytes)).map_err(|error| Fault::new(FaultKind::Bug, "a snapshot cannot be hashed", error))
    }

    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.unkept.is_empty()
    }

    /// Paths that are different here than they were `before`, in the order of names.
    pub fn changed_since(&self, before: &RoomSnapshot) -> Vec<String> {
        let names: BTreeSet<&String> = self.paths.keys().chain(before.paths.keys()).chain(&self.unkept).chain(&before.unkept).collect();
        let is_same = |path: &String| self.paths.get(path) == before.paths.get(path) && !self.unkept.contains(path);
        names.into_iter().filter(|path| !is_same(path)).cloned().collect()
    }

    /// The same as work that can be laid over the project.
    pub fn to_kept(&self) -> KeptChanges {
        let one = |(path, state): (&String, &State)| {
            let base = BaseState::Unproven;
            (path.clone(), KeptPath { state: state.clone(), base, head: None, size: 0, from: None, unsettled: None })
        };
        KeptChanges { paths: self.paths.iter().map(one).collect(), ..KeptChanges::default() }
    }

    /// Puts these paths back to what they were here, or to what the project holds where they were not changed.
    pub async fn put_back(
        &self,
        room: &Workspace,
        paths: &[String],
        blobs: &(dyn Fn(&str) -> Result<Vec<u8>, Fault> + Sync),
    ) -> Result<(), Stop> {
        let project = FileTree::at(room.project().to_owned())?;
        let mut writes = Vec::new();
        for path in paths {
            let target = match self.paths.get(path) {
                Some(State::Absent | State::Folder) => PutBack::Nothing,
                Some(State::File { blob, mode, .. }) => PutBack::File(aside(|| blobs(blob))?, *mode),
                Some(State::Link { target }) => PutBack::Link(target.clone()),
                None => match aside(|| project.now(path))? {
                    FileState::File { bytes, mode, .. } => PutBack::File(bytes, Some(mode & 0o777)),
                    FileState::Link { target } => PutBack::Link(target),
                    _ => PutBack::Nothing,
                },
            };
            clear(room, path).await?;
            writes.push((path, target));
        }
        for (path, target) in writes {
            match target {
                PutBack::Nothing => {}
                PutBack::File(bytes, mode) => run(room, Act::Write { path: path.into(), mode }, Some(bytes)).await?,
                PutBack::Link(target) => {
                    let argv = ["ln".into(), "-s".into(), "--".into(), target.into(), PathBuf::from(path).into_os_string()];
                    run(room, Act::Exec { argv: argv.to_vec() }, None).await?;
                }
            }
        }
        Ok(())
    }
}

/// Takes away whatever stands at a path, or in the way to it: a file keeps its mode else, a link would be written through, and nothing is written
/// into a pipe or over a folder.
async fn clear(room: &Workspace, path: &str) -> Result<(), Stop> {
    let shown = FileTree::through(room.root().as_fd(), room.project())?;
    let whole = Path::new(path);
    let above: Vec<&Path> = whole.ancestors().collect();
    for at in above.into_iter().rev().filter(|at| !at.as_os_str().is_empty()) {
        match aside(|| shown.now_at(at))? {
            FileState::Absent => return Ok(()),
            FileState::Folder if at == whole => {
                run(room, Act::Exec { argv: ["rm".into(), "-rf".into(), "--".into(), at.into()].to_vec() }, None).await?;
            }
            FileState::Folder => {}
            FileState::File { .. } | FileState::Link { .. } | FileState::Other => {
                return run(room, Act::Delete { path: at.into() }, None).await;
            }
        }
    }
    Ok(())
}

enum PutBack {
    Nothing,
    File(Vec<u8>, Option<u32>),
    Link(String),
}

/// Whether something could not be done is seen when the room is looked at again.
async fn run(room: &Workspace, act: Act, stdin: Option<Vec<u8>>) -> Result<(), Stop> {
    match room.run(JobSpec { act, ..JobSpec::exec(["true"]) }, stdin).await {
        Ok(outcome) if outcome.exit.success() => {}
        Ok(outcome) => world::log!("skep: a path was not put back at once: {}", String::from_utf8_lossy(&outcome.stderr)),
        Err(error) => world::log!("skep: a path was not put back at once: {error}"),
    }
    Ok(())
}

/// A file of the project, or of a room seen through its root, as text; `None` where there is none or it is no text.
pub fn text_at(tree: &FileTree, path: &str) -> Option<String> {
    match aside(|| tree.now_at(Path::new(path))).ok()? {
        FileState::File { bytes, .. } => String::from_utf8(bytes).ok(),
        _ => None,
    }
}
