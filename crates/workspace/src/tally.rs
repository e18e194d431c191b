//! What a task changed, told so that two runs of it can be compared, whatever became of the project since.

use crate::freeze;
use crate::frozen::Frozen;
use crate::room_fault;
use crate::tree::{Now, State, Tree};
use crate::was::{Bases, Was};
use sandbox::Workspace;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::path::Path;
use world::{Fault, PathChange, Stop};

/// What stands at each changed path.
pub type Tally = BTreeMap<String, Stands>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stands {
    Absent,
    /// The blob, and whether it can be executed where that differs from the base.
    File(String, Option<bool>),
    Link(String),
    /// Something that was left out, or that a merge made from two texts.
    Unknown,
}

impl Stands {
    pub fn agrees(&self, other: &Stands) -> bool {
        self == other || *self == Stands::Unknown || *other == Stands::Unknown
    }
}

/// What was proposed at a task's end.
pub fn proposed(frozen: &Frozen) -> Tally {
    let changes = frozen.changes.iter().map(|change| {
        let new = if change.kind == PathChange::Merged { Stands::Unknown } else { stands(&change.new) };
        (change.path.clone(), new)
    });
    let conflicts = frozen.conflicts.iter().map(|conflict| (conflict.path.clone(), stands(&conflict.theirs)));
    let refused = frozen.refused.iter().map(|path| (path.path.clone(), Stands::Unknown));
    changes.chain(conflicts).chain(refused).collect()
}

fn stands(state: &State) -> Stands {
    match state {
        State::Absent | State::Folder => Stands::Absent,
        State::File { blob, mode, .. } => Stands::File(blob.clone(), mode.map(|mode| mode & 0o100 != 0)),
        State::Link { target } => Stands::Link(target.clone()),
    }
}

/// The paths at which a room holds something else than the project did. `also` are paths at which base and project differ.
pub async fn changed_paths(room: &Workspace, also: BTreeSet<String>) -> Result<BTreeSet<String>, Stop> {
    let found = room.changes().await.map_err(room_fault)?;
    let named: Vec<_> = found.changes.into_iter().filter(|change| change.path.to_str().is_some()).collect();
    let ignored = freeze::ignored(room, &named, &found.refused).await?;
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
) -> Result<Tally, Stop> {
    let view = Tree::through(room.root().as_fd(), project)?;
    let mut tally = Tally::new();
    for path in paths {
        let (was, now) = (bases.of(path), view.now(path)?);
        let same = was.is(&now) || bases.is_checked_out(path, &was, &now).await?;
        let stands = match &now {
            Now::File { mode, .. } => {
                let executable = mode & 0o100 != 0;
                let differs = was.executable() != Some(executable);
                if same && !differs {
                    continue;
                }
                match now.keep(keep)? {
                    Some(State::File { blob, .. }) => Stands::File(blob, differs.then_some(executable)),
                    _ => Stands::Unknown,
                }
            }
            _ if same => continue,
            Now::Absent if was == Was::Absent => continue,
            Now::Absent => Stands::Absent,
            Now::Link { target } => Stands::Link(target.clone()),
            Now::Folder | Now::Other => Stands::Unknown,
        };
        tally.insert(path.clone(), stands);
    }
    Ok(tally)
}
