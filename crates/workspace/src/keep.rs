//! A task's changes, kept as blobs after its workspace is gone. `lay_out` puts them down again when somebody goes on with them.
//!
//! Every path is kept with what it held in the project when the task began. On reopening, kept paths are measured against that and all
//! others against the project as it is then. **Invariant.** Nothing of the person's is taken for the task's: where kept work and the
//! project stand in each other's way, the base is not known and a person decides. Ignored, masked and special files are never kept.
//! *Does not know* tasks or the journal.

use crate::aside;
use crate::frozen::Frozen;
use crate::ignored::{ignored, is_ignored};
use crate::room_fault;
use crate::tree::{FileState, FileTree, State};
use crate::unsettled::Unsettled;
use crate::was::{BaseState, Bases};
use sandbox::{Change, ChangeKind, FileKind, Workspace};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use world::{Fault, FaultKind, MergePath, PathChange, Stop, limits};

/// All that is kept of one task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptChanges {
    /// HEAD when the task first began.
    pub began: Option<String>,
    pub paths: BTreeMap<String, KeptPath>,
    /// Folders of the project that are gone. What was in them is listed with the paths, and decides alone what a merge takes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub gone_folders: BTreeSet<String>,
    /// Permission bits of the folders among the paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub folder_modes: BTreeMap<String, u32>,
    /// What has a name that is no text. No merge takes it; whoever goes on finds it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unnamed: Vec<UnnamedPath>,
    /// What was not kept, and why: refused, as no merge would take it; or as work that was too much.
    #[serde(default)]
    pub left: Vec<MergePath>,
}

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPath {
    /// What the task made of it; a folder that is gone is not listed, only what was in it.
    pub state: State,
    /// What it is measured against.
    pub base: BaseState,
    /// The commit that the base is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    #[serde(default)]
    pub size: u64,
    /// The path that it was moved from, whose own entry says that it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// A conflict that was laid out here. Whether it is settled by now is seen when the changes are frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<Unsettled>,
}

/// A changed path whose name is not valid UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnnamedPath {
    /// The bytes of the path.
    pub name: Vec<u8>,
    pub state: State,
    pub size: u64,
}

impl KeptChanges {
    pub fn parse(bytes: &[u8]) -> Result<KeptChanges, Fault> {
        serde_json::from_slice(bytes).map_err(|error| Fault::new(FaultKind::Bug, "kept work cannot be read", error))
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>, Fault> {
        serde_json::to_vec(self).map_err(|error| Fault::new(FaultKind::Bug, "kept work cannot be written", error))
    }

    /// Whether there is nothing to lay out.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.gone_folders.is_empty() && self.unnamed.is_empty()
    }

    /// Files and links that differ; folders come and go with them, and a rename is one.
    pub fn files(&self) -> u64 {
        let is_gone = |path: &&String| self.paths.get(*path).is_some_and(|path| path.state == State::Absent);
        let moved: BTreeSet<&String> = self.paths.values().filter_map(|path| path.from.as_ref()).filter(is_gone).collect();
        let states = self.paths.values().map(|path| &path.state).chain(self.unnamed.iter().map(|path| &path.state));
        (states.filter(|state| **state != State::Folder).count() - moved.len()) as u64
    }

    pub fn bytes(&self) -> u64 {
        self.paths.values().map(|path| path.size).chain(self.unnamed.iter().map(|path| path.size)).sum()
    }

    /// Work that could not be kept: it was too much, or a pipe, or has a mode that nothing of the kernel's may have.
    pub fn lost(&self) -> impl Iterator<Item = &MergePath> {
        self.left.iter().filter(|path| path.kind != PathChange::Refused)
    }

    /// The base of a path as it was kept. `Unproven` for one that stands in the way of a kept path or behind it: the task never saw it.
    pub fn base_of(&self, path: &str) -> Option<BaseState> {
        if let Some(kept) = self.paths.get(path) {
            return Some(kept.base.clone());
        }
        let above = Path::new(path).ancestors().skip(1).filter_map(Path::to_str);
        let mut above = above.filter_map(|above| self.paths.get(above));
        if above.any(|kept| kept.state != State::Folder) {
            return Some(BaseState::Unproven);
        }
        let beneath = format!("{path}/");
        let mut inside = self.paths.range(beneath.clone()..).take_while(|(kept, _)| kept.starts_with(&beneath));
        inside.any(|(_, kept)| kept.state != State::Absent).then_some(BaseState::Unproven)
    }

    /// Keeps a path measured against what the project holds there now, in place of what was kept of it before.
    pub fn rebase(
        &mut self,
        path: &str,
        from: Option<String>,
        state: &State,
        over: &State,
        size: u64,
        keep: &dyn Fn(&[u8]) -> Result<String, Fault>,
    ) -> Result<(), Fault> {
        let kept =
            KeptPath { state: without_owner(state.clone()), base: BaseState::given(over, keep)?, head: None, size, from, unsettled: None };
        self.paths.insert(path.to_owned(), kept);
        Ok(())
    }

    /// Measures a path that is kept already against what the project holds there now; `false` where nothing is kept of it.
    pub fn rebase_kept(&mut self, path: &str, over: &State, keep: &dyn Fn(&[u8]) -> Result<String, Fault>) -> Result<bool, Fault> {
        let Some(kept) = self.paths.get_mut(path) else { return Ok(false) };
        if kept.state == without_owner(over.clone()) {
            self.paths.remove(path);
        } else {
            (kept.base, kept.head) = (BaseState::given(over, keep)?, None);
        }
        Ok(true)
    }

    /// Lays frozen changes over the project as it was frozen: what merged is kept merged, and what clashed with the marks of both sides in
    /// one text, for whoever goes on to settle.
    pub fn rebase_all(&mut self, frozen: &Frozen, keep: &dyn Fn(&[u8]) -> Result<String, Fault>) -> Result<(), Fault> {
        for change in &frozen.changes {
            self.rebase(&change.path, change.from.clone(), &change.new, &change.old, change.size, keep)?;
        }
        for conflict in &frozen.conflicts {
            let Some(mine) = &conflict.mine else { continue };
            let state = match (&conflict.marked, &conflict.theirs) {
                (Some(marked), State::File { mode, .. }) => State::File { blob: marked.clone(), mode: *mode, owner: None },
                (_, theirs) => theirs.clone(),
            };
            self.rebase(&conflict.path, None, &state, mine, conflict.size, keep)?;
            if let Some(kept) = self.paths.get_mut(&conflict.path) {
                let (why, theirs, is_marked) = (conflict.why.clone(), conflict.theirs.clone(), conflict.marked.is_some());
                kept.unsettled = Some(Unsettled { why, theirs, is_marked });
            }
        }
        self.began.clone_from(&frozen.head);
        Ok(())
    }

    pub fn head_of(&self, path: &str) -> Option<&String> {
        self.paths.get(path)?.head.as_ref()
    }
}

/// What a room changed that may be kept.
pub struct KeepList {
    changes: Vec<Change>,
    left: Vec<MergePath>,
}

impl KeepList {
    pub async fn of(room: &Workspace) -> Result<KeepList, Stop> {
        let found = room.changes().await.map_err(room_fault)?;
        let (named, nameless): (Vec<_>, Vec<_>) = found.changes.into_iter().partition(|change| change.path.to_str().is_some());
        let ignored = ignored(room, &named, &found.refused).await?;
        let is_ignored = |path: &Path| is_ignored(path, &ignored);
        let mut left = Vec::new();
        let mut changes: Vec<Change> = named.into_iter().chain(nameless).filter(|change| !is_ignored(&change.path)).collect();
        for no in found.refused.into_iter().filter(|no| !is_ignored(&no.path)) {
            let kind = if no.is_unkeepable() { PathChange::Modified } else { PathChange::Refused };
            left.extend((!no.is_whole).then(|| MergePath { kind, ..left_out(&no.path, no.why) }));
            changes.extend(no.changes);
        }
        // Gone first, then what came in its place.
        changes.sort();
        Ok(KeepList { changes, left })
    }

    /// Takes out what is in the project by a merge, and so is the task's work no more.
    pub fn without(&mut self, merged: &BTreeSet<String>) {
        self.changes.retain(|change| change.path.to_str().is_none_or(|path| !merged.contains(path)));
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The changed paths, for whoever looks for their bases.
    pub fn paths(&self) -> Vec<&str> {
        self.changes.iter().filter_map(|change| change.path.to_str()).collect()
    }

    /// Keeps the contents. Without `bases` no base is known, and every path is one for a person to decide.
    pub fn keep(
        self,
        upper: &FileTree,
        bases: Option<&Bases<'_>>,
        began: Option<String>,
        masked: &dyn Fn(&str) -> Option<String>,
        bytes_max: u64,
        keep: &dyn Fn(&[u8]) -> Result<String, Fault>,
    ) -> Result<KeptChanges, Stop> {
        let mut kept = KeptChanges { began, left: self.left, ..KeptChanges::default() };
        let mut total = 0_u64;
        let mut moves = MovedFiles::of(&self.changes);
        for change in &self.changes {
            let path = change.path.to_string_lossy().into_owned();
            if let Some(by) = masked(&path) {
                kept.left.push(left_out(&change.path, &format!("it is masked: {by}")));
                continue;
            }
            let size = if change.kind == ChangeKind::Deleted { 0 } else { change.size };
            if size > limits::MERGE_FILE_MAX || total.saturating_add(size) > bytes_max {
                let why = format!("it was not kept: with its {size} bytes it was more than is kept of one task");
                kept.left.push(MergePath { kind: PathChange::Modified, ..left_out(&change.path, &why) });
                continue;
            }
            let mut from = None;
            let state = match (change.kind, &change.file) {
                // A merge takes it away with its files.
                (ChangeKind::Deleted, FileKind::Folder) => {
                    kept.gone_folders.extend(change.path.to_str().map(str::to_owned));
                    continue;
                }
                (ChangeKind::Deleted, _) => State::Absent,
                (_, FileKind::Folder) => {
                    kept.folder_modes.extend(change.path.to_str().map(|path| (path.to_owned(), change.mode)));
                    State::Folder
                }
                _ => {
                    let now = aside(|| upper.now_at(&change.path))?;
                    let Some(state) = aside(|| plain(&now, keep))? else {
                        kept.left.push(left_out(&change.path, "it changed while it was read"));
                        continue;
                    };
                    from = bases.and_then(|bases| moves.from(change, &now, bases));
                    state
                }
            };
            total += size;
            if change.path.to_str().is_none() {
                let name = change.path.as_os_str().as_bytes().to_vec();
                kept.unnamed.push(UnnamedPath { name, state, size });
                continue;
            }
            let base = bases.map_or(BaseState::Unproven, |bases| bases.of(&path));
            let head = match &base {
                BaseState::Committed { .. } => bases.and_then(|bases| bases.head_of(&path)),
                _ => None,
            };
            let unsettled = bases.and_then(|bases| bases.unsettled(&path)).cloned();
            // What became another kind of thing is listed as gone first, and then as what it is.
            kept.paths.insert(path, KeptPath { state, base, head, size, from, unsettled });
        }
        Ok(kept)
    }
}

/// Files that are gone, each until it is found under another name.
struct MovedFiles<'a>(Vec<&'a Change>);

impl<'a> MovedFiles<'a> {
    fn of(changes: &'a [Change]) -> MovedFiles<'a> {
        let is_gone = |change: &&Change| change.kind == ChangeKind::Deleted && change.file == FileKind::File && change.size > 0;
        MovedFiles(changes.iter().filter(is_gone).collect())
    }

    /// What a new file was called before, if it holds what a file held that is gone.
    fn from(&mut self, change: &Change, now: &FileState, bases: &Bases<'_>) -> Option<String> {
        let FileState::File { bytes, .. } = now else { return None };
        if change.kind != ChangeKind::Created {
            return None;
        }
        let holds = |old: &&Change| old.size == change.size && old.path.to_str().is_some_and(|path| bases.of(path).holds(bytes));
        let at = self.0.iter().position(holds)?;
        self.0.swap_remove(at).path.to_str().map(str::to_owned)
    }
}

fn left_out(path: &Path, why: &str) -> MergePath {
    MergePath { path: path.to_string_lossy().into_owned(), kind: PathChange::Refused, from: None, refused: Some(why.to_owned()) }
}

/// Keeps a file without its owner: a room's files are its jobs'.
fn plain(now: &FileState, keep: &dyn Fn(&[u8]) -> Result<String, Fault>) -> Result<Option<State>, Fault> {
    Ok(now.keep(keep)?.map(without_owner))
}

fn without_owner(state: State) -> State {
    match state {
        State::File { blob, mode, .. } => State::File { blob, mode: mode.map(|mode| mode & 0o777), owner: None },
        other => other,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// New files, as tests want them.
    pub(crate) fn kept(paths: &[(&str, State)]) -> KeptChanges {
        let one = |(path, state): &(&str, State)| {
            (
                (*path).to_owned(),
                KeptPath { state: state.clone(), base: BaseState::Absent, head: None, size: 1, from: None, unsettled: None },
            )
        };
        KeptChanges { began: None, paths: paths.iter().map(one).collect(), ..KeptChanges::default() }
    }

    fn file() -> State {
        State::File { blob: "aa".into(), mode: Some(0o644), owner: None }
    }

    #[test]
    fn what_stands_in_the_way_of_kept_work_has_no_base() {
        let kept = kept(&[("a", file()), ("d", State::Folder), ("d/x", file()), ("gone/y", State::Absent)]);
        assert_eq!(kept.base_of("a"), Some(BaseState::Absent), "its own");
        assert_eq!(kept.base_of("a/new"), Some(BaseState::Unproven), "behind a file of the task's");
        assert_eq!(kept.base_of("d/new"), None, "beside one");
        assert_eq!(kept.base_of("gone"), None, "where only something went");
        assert_eq!(kept.base_of("other"), None);
        let deep = self::kept(&[("f/x", file())]);
        assert_eq!(deep.base_of("f"), Some(BaseState::Unproven), "a file where the task has a folder");
        assert_eq!((kept.files(), kept.bytes()), (3, 4));
    }

    #[test]
    fn kept_work_reads_back() {
        let kept = kept(&[("a", file()), ("b", State::Absent)]);
        assert_eq!(KeptChanges::parse(&kept.to_bytes().unwrap()).unwrap(), kept);
    }
}
