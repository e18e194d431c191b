//! What a task changed, told so that two runs of it can be compared, whatever became of the project since.

use crate::freeze;
use crate::frozen::Frozen;
use crate::room_fault;
use crate::tree::{FileState, FileTree, State};
use crate::was::{BaseState, Bases};
use sandbox::Workspace;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::path::Path;
use world::{Fault, PathChange, Stop};

/// What stands at each changed path.
pub type ChangeSet = BTreeMap<String, ChangedState>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangedState {
    Absent,
    /// The blob, and whether it can be executed where that differs from the base.
    File(String, Option<bool>),
    Link(String),
    /// Something that was left out, or that a merge made from two texts.
    Unknown,
}

impl ChangedState {
    pub fn agrees(&self, other: &ChangedState) -> bool {
        self == other || *self == ChangedState::Unknown || *other == ChangedState::Unknown
    }
}

/// What was proposed at a task's end.
pub fn proposed(frozen: &Frozen) -> ChangeSet {
    let changes = frozen.changes.iter().map(|change| {
        let new = if change.kind == PathChange::Merged { ChangedState::Unknown } else { stands(&change.new) };
        (change.path.clone(), new)
    });
    let conflicts = frozen.conflicts.iter().map(|conflict| (conflict.path.clone(), stands(&conflict.theirs)));
    let refused = frozen.refused.iter().map(|path| (path.path.clone(), ChangedState::Unknown));
    changes.chain(conflicts).chain(refused).collect()
}

fn stands(state: &State) -> ChangedState {
    match state {
        State::Absent | State::Folder => ChangedState::Absent,
        State::File { blob, mode, .. } => ChangedState::File(blob.clone(), mode.map(|mode| mode & 0o100 != 0)),
        State::Link { target } => ChangedState::Link(target.clone()),
    }
}

/// The paths at which a room holds something else than the project did. `also` are paths at which base and project differ.
pub async fn changed_paths(room: &Workspace, also: BTreeSet<String>) -> Result<BTreeSet<String>, Stop> {
    let found = room.changes().await.map_err(room_fault)?;
    let named: Vec<_> = found.changes.into_iter().filter(|change| change.path.to_str().is_some()).collect();
    let ignored = crate::ignored::ignored(room, &named, &found.refused).await?;
    let mut paths = also;
    paths.extend(freeze::whole(named).iter().map(|change| change.path.to_string_lossy().into_owned()));
    paths.retain(|path| !ignored.contains(path));
    Ok(paths)
}

/// What a room holds at these paths that its base did not.
pub async fn of_room(
    room: &Workspace,
    project: &Path,
    paths: &BTreeSet<String>,
    bases: &Bases<'_>,
    keep: &dyn Fn(&[u8]) -> Result<String, Fault>,
) -> Result<ChangeSet, Stop> {
    let view = FileTree::through(room.root().as_fd(), project)?;
    let mut tally = ChangeSet::new();
    for path in paths {
        let (was, now) = (bases.of(path), view.now(path)?);
        let same = was.is(&now) || bases.is_checked_out(path, &was, &now).await?;
        let stands = match &now {
            FileState::File { mode, .. } => {
                let executable = mode & 0o100 != 0;
                let differs = was.executable() != Some(executable);
                if same && !differs {
                    continue;
                }
                match now.keep(keep)? {
                    Some(State::File { blob, .. }) => ChangedState::File(blob, differs.then_some(executable)),
                    _ => ChangedState::Unknown,
                }
            }
            _ if same => continue,
            FileState::Absent if was == BaseState::Absent => continue,
            FileState::Absent => ChangedState::Absent,
            FileState::Link { target } => ChangedState::Link(target.clone()),
            FileState::Folder | FileState::Other => ChangedState::Unknown,
        };
        tally.insert(path.clone(), stands);
    }
    Ok(tally)
}
