//! What a task changed, told so that two runs of it can be compared, whatever became of the project since.

use super::freeze;
use super::frozen::Frozen;
use super::tree::{Now, State, Tree};
use super::was::{Bases, Was};
use crate::Kernel;
use crate::aside::apart;
use crate::fault::{Fault, Stop};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use world::{PathChange, Task};

/// What stands at each changed path.
pub(crate) type Tally = BTreeMap<String, Stands>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stands {
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
pub(crate) fn proposed(kernel: &Kernel, task: &Task) -> Result<Tally, Fault> {
    let merge = task.merge.and_then(|merge| kernel.ledger.look(|world| world.merges.get(&merge).cloned()));
    let Some(merge) = merge else { return Ok(Tally::new()) };
    let frozen = Frozen::load(kernel, &merge.frozen)?;
    let changes = frozen.changes.iter().map(|change| {
        let new = if change.kind == PathChange::Merged { Stands::Unknown } else { stands(&change.new) };
        (change.path.clone(), new)
    });
    let conflicts = frozen.conflicts.iter().map(|conflict| (conflict.path.clone(), stands(&conflict.theirs)));
    let refused = frozen.refused.iter().map(|path| (path.path.clone(), Stands::Unknown));
    Ok(changes.chain(conflicts).chain(refused).collect())
}

fn stands(state: &State) -> Stands {
    match state {
        State::Absent | State::Folder => Stands::Absent,
        State::File { blob, mode, .. } => Stands::File(blob.clone(), mode.map(|mode| mode & 0o100 != 0)),
        State::Link { target } => Stands::Link(target.clone()),
    }
}

/// What the open workspace of a task holds that its base did not. `also` are paths at which base and project differ.
pub(crate) async fn of_desk(kernel: &Kernel, task: &Task, also: BTreeSet<String>) -> Result<Tally, Stop> {
    let task = task.clone();
    apart(kernel, |kernel| async move { look(&kernel, &task, also).await }).await
}

async fn look(kernel: &Kernel, task: &Task, also: BTreeSet<String>) -> Result<Tally, Stop> {
    let desk = kernel.desk(task.id).await?;
    let found = desk.room.changes().await.map_err(crate::desk::room_fault)?;
    let named: Vec<_> = found.changes.into_iter().filter(|change| change.path.to_str().is_some()).collect();
    let ignored = freeze::ignored(&desk, &named, &found.refused).await?;
    let mut paths = also;
    paths.extend(freeze::whole(named).iter().map(|change| change.path.to_string_lossy().into_owned()));
    paths.retain(|path| !ignored.contains(path));
    let list: Vec<&str> = paths.iter().map(String::as_str).collect();
    let bases = Bases::load(kernel, task, &desk, &list).await?;
    let view = Tree::through(desk.room.root().as_fd(), &desk.project)?;
    let keeping = kernel.ledger.keeping();
    let mut tally = Tally::new();
    for path in &paths {
        let (was, now) = (bases.of(path), view.now(path)?);
        let same = was.is(&now) || bases.is_checked_out(path, &was, &now).await?;
        let stands = match &now {
            Now::File { mode, .. } => {
                let executable = mode & 0o100 != 0;
                let differs = was.executable() != Some(executable);
                if same && !differs {
                    continue;
                }
                match now.keep(&keeping)? {
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
    keeping.done()?;
    bases.close().await?;
    Ok(tally)
}
