//! What a workspace holds at a moment, beside what was kept of it before: what a fork of a session is laid out from.
//!
//! **Invariant.** The increments up to a moment, one laid over the other, are what the workspace had changed then, or they say what they lack. Masked and special files are never
//! kept. *Does not know* tasks or the journal.

use crate::keep::KeptChanges;
use crate::room_fault;
use crate::tree::{FileState, FileTree, State};
use sandbox::{ChangeKind, FileKind, Workspace};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use world::{Fault, FaultKind, Stop, limits};

/// What came to stand at paths since the increment before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Increment {
    pub paths: BTreeMap<String, IncrementPath>,
    /// Paths that could not be kept, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncrementPath {
    pub state: State,
    pub size: u64,
}

impl Increment {
    pub fn parse(bytes: &[u8]) -> Result<Increment, Fault> {
        serde_json::from_slice(bytes).map_err(|error| Fault::new(FaultKind::Bug, "an increment of a workspace cannot be read", error))
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>, Fault> {
        serde_json::to_vec(self).map_err(|error| Fault::new(FaultKind::Bug, "an increment of a workspace cannot be written", error))
    }

    /// Lays a later one over it.
    pub fn add(&mut self, later: Increment) {
        self.paths.extend(later.paths);
        self.left.extend(later.left);
    }

    pub fn bytes(&self) -> u64 {
        self.paths.values().map(|path| path.size).sum()
    }

    /// As work of a task that begins with the project as it is now.
    pub fn over(self, project: &Path, keep: &dyn Fn(&[u8]) -> Result<String, Fault>) -> Result<KeptChanges, Fault> {
        let tree = FileTree::at(project.to_owned())?;
        let mut kept = KeptChanges::default();
        for (path, IncrementPath { state, size }) in self.paths {
            let now = tree.now(&path)?;
            if state.is(&now) {
                continue;
            }
            let over = match now {
                FileState::Folder => State::Folder,
                now => now.keep(keep)?.unwrap_or(State::Absent),
            };
            kept.rebase(&path, None, &state, &over, size, keep)?;
        }
        Ok(kept)
    }
}

/// How a file is told from what stood there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// What is kept of one workspace so far.
#[derive(Debug, Default)]
pub struct IncrementKeeper {
    known: BTreeMap<String, Option<Stamp>>,
    bytes: u64,
}

/// Where and how increments are kept.
pub struct IncrementStore<'a> {
    pub room: &'a Workspace,
    pub project: &'a Path,
    /// The upper layer of the workspace.
    pub upper: &'a Path,
    pub masked: &'a (dyn Fn(&str) -> bool + Sync),
    /// Bytes of all increments of the workspace.
    pub bytes_max: u64,
    pub keep: &'a (dyn Fn(&[u8]) -> Result<String, Fault> + Sync),
}

impl IncrementKeeper {
    /// What changed since the last time. `only` are the paths that can have changed, where that is known.
    pub async fn take(&mut self, keeping: &IncrementStore<'_>, only: Option<&[String]>) -> Result<Increment, Stop> {
        if let Some(only) = only
            && let Some(increment) = self.named(keeping, only)?
        {
            return Ok(increment);
        }
        self.walked(keeping).await
    }

    /// By these paths alone; `None` where a folder or a link is among them, and more than they name may differ.
    fn named(&mut self, keeping: &IncrementStore<'_>, only: &[String]) -> Result<Option<Increment>, Stop> {
        let (view, project) = (FileTree::through(keeping.room.root().as_fd(), keeping.project)?, FileTree::at(keeping.project.to_owned())?);
        let mut increment = Increment::default();
        for path in only {
            let now = view.now(path)?;
            let is_plain = matches!(now, FileState::File { .. })
                || (matches!(now, FileState::Absent) && !matches!(project.now(path)?, FileState::Folder));
            if !is_plain {
                return Ok(None);
            }
            self.put(keeping, &mut increment, path, &now)?;
        }
        Ok(Some(increment))
    }

    async fn walked(&mut self, keeping: &IncrementStore<'_>) -> Result<Increment, Stop> {
        let found = keeping.room.changes().await.map_err(room_fault)?;
        let (mut increment, mut present) = (Increment::default(), BTreeSet::new());
        let upper = FileTree::at(keeping.upper.to_owned())?;
        for change in found.changes.into_iter().chain(found.refused.into_iter().flat_map(|no| no.changes)) {
            let Some(path) = change.path.to_str().map(str::to_owned) else {
                increment.left.push(format!("{}: its name is no text", change.path.display()));
                continue;
            };
            let is_gone = change.kind == ChangeKind::Deleted;
            if is_gone && change.file == FileKind::Folder {
                continue;
            }
            present.insert(path.clone());
            let stamp = if is_gone { None } else { stamp_of(keeping.upper, &path) };
            if self.known.get(&path).is_some_and(|known| known.is_some() && *known == stamp) {
                continue;
            }
            let now = match (is_gone, &change.file) {
                (true, _) => FileState::Absent,
                (false, FileKind::Folder) => FileState::Folder,
                (false, _) => upper.now(&path)?,
            };
            self.put(keeping, &mut increment, &path, &now)?;
        }
        let gone: Vec<String> = self.known.keys().filter(|path| !present.contains(*path)).cloned().collect();
        let view = FileTree::through(keeping.room.root().as_fd(), keeping.project)?;
        for path in gone {
            let now = view.now(&path)?;
            self.put(keeping, &mut increment, &path, &now)?;
            self.known.remove(&path);
        }
        Ok(increment)
    }

    fn put(&mut self, keeping: &IncrementStore<'_>, increment: &mut Increment, path: &str, now: &FileState) -> Result<(), Stop> {
        if (keeping.masked)(path) {
            return Ok(());
        }
        let size = if let FileState::File { bytes, .. } = now { bytes.len() as u64 } else { 0 };
        if size > limits::MERGE_FILE_MAX || self.bytes.saturating_add(size) > keeping.bytes_max {
            increment.left.push(format!("{path}: with its {size} bytes it is more than is kept of one session"));
            return Ok(());
        }
        let state = match now {
            FileState::Folder => Some(State::Folder),
            now => now.keep(keeping.keep)?,
        };
        match state {
            Some(state) => {
                self.bytes += size;
                increment.paths.insert(path.to_owned(), IncrementPath { state, size });
                self.known.insert(path.to_owned(), stamp_of(keeping.upper, path));
            }
            None => increment.left.push(format!("{path}: it is nothing that can be kept")),
        }
        Ok(())
    }
}

fn stamp_of(upper: &Path, path: &str) -> Option<Stamp> {
    let found = upper.join(path).symlink_metadata().ok()?;
    Some(Stamp { inode: found.ino(), size: found.len(), changed: (found.ctime(), found.ctime_nsec()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(blob: &str) -> IncrementPath {
        IncrementPath { state: State::File { blob: blob.into(), mode: Some(0o644), owner: None }, size: 1 }
    }

    #[test]
    fn later_increments_lie_over_earlier_ones() {
        let one = |paths: &[(&str, IncrementPath)]| Increment {
            paths: paths.iter().map(|(path, state)| ((*path).to_owned(), state.clone())).collect(),
            left: Vec::new(),
        };
        let gone = IncrementPath { state: State::Absent, size: 0 };
        let mut all = one(&[("a", file("1")), ("b", file("1"))]);
        all.add(one(&[("b", gone.clone()), ("c", file("2"))]));
        assert_eq!(all, one(&[("a", file("1")), ("b", gone), ("c", file("2"))]));
        assert_eq!((Increment::parse(&all.to_bytes().unwrap()).unwrap(), all.bytes()), (all.clone(), 2));
    }

    #[test]
    fn what_the_project_holds_already_is_no_work() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("same"), "x").unwrap();
        std::fs::write(folder.path().join("other"), "old").unwrap();
        let keep = |bytes: &[u8]| Ok(crate::hash::sha256(bytes));
        let held =
            |bytes: &[u8]| IncrementPath { state: State::File { blob: crate::hash::sha256(bytes), mode: None, owner: None }, size: 1 };
        let paths = [("same", held(b"x")), ("other", held(b"new")), ("none", IncrementPath { state: State::Absent, size: 0 })];
        let increment = Increment { paths: paths.into_iter().map(|(path, state)| (path.to_owned(), state)).collect(), left: Vec::new() };
        let kept = increment.over(folder.path(), &keep).unwrap();
        assert_eq!(kept.paths.keys().collect::<Vec<_>>(), ["other"]);
    }
}
