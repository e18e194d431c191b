//! What a workspace holds at a moment, beside what was kept of it before: what a fork of a session is laid out from.
//!
//! **Invariant.** The increments up to a moment, one laid over the other, are what the workspace had changed then, or they say what they lack: a special file, a special mode, what
//! is too much. Masked files and the folders of version controls are the project's at any time. Each name of a file with several is a file of its own. *Does not know* tasks or the
//! journal.

use crate::keep::KeptChanges;
use crate::room_fault;
use crate::tree::{FileState, FileTree, State};
use sandbox::{Change, ChangeKind, FileKind, Workspace};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use world::{Fault, FaultKind, Stop, limits};

/// What came to stand at paths since the increment before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Increment {
    pub paths: BTreeMap<String, IncrementPath>,
    /// Paths that could not be kept, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// The whole workspace was looked at: what could not be kept before and is not told again is no longer there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_whole: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncrementPath {
    /// Absent also for a folder that is gone.
    pub state: State,
    pub size: u64,
    /// Permission bits of a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
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
        if later.is_whole {
            self.left.clear();
        }
        self.left.extend(later.left);
    }

    pub fn bytes(&self) -> u64 {
        self.paths.values().map(|path| path.size).sum()
    }

    /// As work of a task that begins with the project as it is now.
    pub fn over(self, project: &Path, keep: &dyn Fn(&[u8]) -> Result<String, Fault>) -> Result<KeptChanges, Fault> {
        let tree = FileTree::at(project.to_owned())?;
        let mut kept = KeptChanges::default();
        for (path, IncrementPath { state, size, mode }) in self.paths {
            let now = tree.now(&path)?;
            let has_mode = state != State::Folder || mode.is_none_or(|mode| mode_of(project, &path) == Some(mode));
            if state.is(&now) && has_mode {
                continue;
            }
            if state == State::Absent && matches!(now, FileState::Folder) {
                kept.gone_folders.insert(path);
                continue;
            }
            // What is in a folder has bases of its own.
            let over = now.keep(keep)?.unwrap_or(State::Absent);
            kept.rebase(&path, None, &state, &over, size, keep)?;
            kept.folder_modes.extend(mode.filter(|_| state == State::Folder).map(|mode| (path, mode)));
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

/// What is known of a path that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KnownPath {
    Gone,
    Held(Stamp),
    /// Kept before this kernel began.
    Before,
}

/// What is kept of one workspace so far.
#[derive(Debug, Default)]
pub struct IncrementKeeper {
    known: BTreeMap<String, KnownPath>,
    bytes: u64,
    /// Whether it knows of what was kept before this kernel began.
    pub is_informed: bool,
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
    /// Takes note of what an earlier kernel kept of the same workspace.
    pub fn remember(&mut self, before: &Increment) {
        self.known.extend(before.paths.keys().map(|path| (path.clone(), KnownPath::Before)));
        self.bytes += before.bytes();
    }

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
        let mut increment = Increment { is_whole: true, ..Increment::default() };
        let upper = FileTree::at(keeping.upper.to_owned())?;
        // What became another kind of thing is listed twice: as what is gone, and then as what it is.
        let mut present: BTreeMap<PathBuf, Change> = found.changes.into_iter().map(|change| (change.path.clone(), change)).collect();
        for no in found.refused {
            if !no.is_whole && !no.is_store() && no.path.to_str().is_none_or(|path| !(keeping.masked)(path)) {
                increment.left.push(format!("{}: {}", no.path.display(), no.why));
            }
            present.extend(no.changes.into_iter().map(|change| (change.path.clone(), change)));
        }
        for (at, change) in &present {
            let Some(path) = at.to_str() else {
                increment.left.push(format!("{}: its name is no text", at.display()));
                continue;
            };
            let is_gone = change.kind == ChangeKind::Deleted;
            let known = if is_gone { Some(KnownPath::Gone) } else { stamp_of(keeping.upper, path).map(KnownPath::Held) };
            if known.is_some() && self.known.get(path) == known.as_ref() {
                continue;
            }
            let now = match (is_gone, &change.file) {
                (true, _) => FileState::Absent,
                (false, FileKind::Folder) => FileState::Folder,
                (false, _) => upper.now(path)?,
            };
            self.put(keeping, &mut increment, path, &now)?;
        }
        let gone: Vec<String> = self.known.keys().filter(|path| !present.contains_key(Path::new(path))).cloned().collect();
        let view = FileTree::through(keeping.room.root().as_fd(), keeping.project)?;
        for path in gone {
            let now = match view.now(&path)? {
                FileState::Other if is_behind_link(&view, &path)? => FileState::Absent,
                now => now,
            };
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
        if matches!(now, FileState::File { mode, .. } if mode & 0o7000 != 0) {
            increment.left.push(format!("{path}: it has a special mode"));
            return Ok(());
        }
        let state = match now {
            FileState::Folder => Some(State::Folder),
            now => now.keep(keeping.keep)?,
        };
        match state {
            Some(state) => {
                self.bytes += size;
                let mode = (state == State::Folder).then(|| mode_of(keeping.upper, path)).flatten();
                let known = match state {
                    State::Absent => Some(KnownPath::Gone),
                    _ => stamp_of(keeping.upper, path).map(KnownPath::Held),
                };
                increment.paths.insert(path.to_owned(), IncrementPath { state, size, mode });
                self.known.insert(path.to_owned(), known.unwrap_or(KnownPath::Before));
            }
            None => increment.left.push(format!("{path}: it is nothing that can be kept")),
        }
        Ok(())
    }
}

/// Whether a link stands where a folder on the way to a path was.
fn is_behind_link(view: &FileTree, path: &str) -> Result<bool, Fault> {
    for above in Path::new(path).ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        if matches!(view.now_at(above)?, FileState::Link { .. }) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Permission bits of a folder.
fn mode_of(tree: &Path, path: &str) -> Option<u32> {
    let found = tree.join(path).symlink_metadata().ok()?;
    found.is_dir().then(|| found.mode() & 0o7777)
}

fn stamp_of(upper: &Path, path: &str) -> Option<Stamp> {
    let found = upper.join(path).symlink_metadata().ok()?;
    Some(Stamp { inode: found.ino(), size: found.len(), changed: (found.ctime(), found.ctime_nsec()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(blob: &str) -> IncrementPath {
        IncrementPath { state: State::File { blob: blob.into(), mode: Some(0o644), owner: None }, size: 1, mode: None }
    }

    #[test]
    fn later_increments_lie_over_earlier_ones() {
        let one = |paths: &[(&str, IncrementPath)]| Increment {
            paths: paths.iter().map(|(path, state)| ((*path).to_owned(), state.clone())).collect(),
            ..Increment::default()
        };
        let gone = IncrementPath { state: State::Absent, size: 0, mode: None };
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
        let held = |bytes: &[u8]| IncrementPath {
            state: State::File { blob: crate::hash::sha256(bytes), mode: None, owner: None },
            size: 1,
            mode: None,
        };
        let of = |state: State, mode: Option<u32>| IncrementPath { state, size: 0, mode };
        std::fs::create_dir_all(folder.path().join("gone")).unwrap();
        std::fs::create_dir_all(folder.path().join("shut")).unwrap();
        let paths = [
            ("same", held(b"x")),
            ("other", held(b"new")),
            ("none", of(State::Absent, None)),
            ("gone", of(State::Absent, None)),
            ("shut", of(State::Folder, Some(0o500))),
        ];
        let paths = paths.into_iter().map(|(path, state)| (path.to_owned(), state)).collect();
        let kept = Increment { paths, ..Increment::default() }.over(folder.path(), &keep).unwrap();
        assert_eq!(kept.paths.keys().collect::<Vec<_>>(), ["other", "shut"]);
        assert_eq!((kept.gone_folders, kept.folder_modes), (["gone".to_owned()].into(), [("shut".to_owned(), 0o500)].into()));
    }

    #[test]
    fn what_could_not_be_kept_is_told_until_a_whole_look_does_not_find_it() {
        let left =
            |of: &[&str], is_whole| Increment { left: of.iter().map(|one| (*one).to_owned()).collect(), is_whole, ..Increment::default() };
        let mut all = left(&["pipe"], true);
        all.add(left(&["large"], false));
        assert_eq!(all.left, ["pipe", "large"]);
        all.add(left(&["large"], true));
        assert_eq!(all.left, ["large"]);
    }
}
