//! Which changes belong together, and which of them must stay out.
//!
//! **Invariant.** What became another kind of thing is one change: a folder's files go only if the file that takes its place comes, and the
//! other way round. What stays out takes along what belongs to it, until what is left can go in as it is.

use crate::frozen::FrozenPath;
use crate::links::{self, Origin};
use crate::tree::{FileState, FileTree, State};
use sandbox::{Change, ChangeKind, FileKind, Refused};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use world::Fault;

/// Swaps of folders with files or links, each with every path that must change for it.
#[derive(Debug, Default)]
pub struct Swaps(BTreeMap<PathBuf, FolderSwap>);

#[derive(Debug)]
struct FolderSwap {
    folder: Fate,
    members: BTreeSet<PathBuf>,
}

/// What becomes of the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Goes,
    Comes,
}

impl Swaps {
    /// From all that was found, whether or not it can be merged.
    pub fn of(changes: &[Change], ignored: &BTreeSet<String>, refused: &[Refused]) -> Swaps {
        let is_ignored = |path: &Path| path.to_str().is_some_and(|path| ignored.contains(path));
        let folders: BTreeMap<&Path, ChangeKind> =
            changes.iter().filter(|change| change.file == FileKind::Folder).map(|change| (change.path.as_path(), change.kind)).collect();
        let mut swaps = BTreeMap::new();
        for change in changes.iter().filter(|change| change.file != FileKind::Folder) {
            let folder = match (change.kind, folders.get(change.path.as_path())) {
                (ChangeKind::Created, Some(ChangeKind::Deleted)) => Fate::Goes,
                (ChangeKind::Deleted, Some(ChangeKind::Created)) => Fate::Comes,
                _ => continue,
            };
            let below = |path: &Path| path != change.path && path.starts_with(&change.path);
            let mut members: BTreeSet<PathBuf> = changes
                .iter()
                .filter(|inner| inner.file != FileKind::Folder && below(&inner.path))
                // A folder that comes is whole without what git ignores. One that goes would take it along.
                .filter(|inner| folder == Fate::Goes || !is_ignored(&inner.path))
                .map(|inner| inner.path.clone())
                .chain(refused.iter().filter(|no| below(&no.path)).map(|no| no.path.clone()))
                .collect();
            if folder == Fate::Comes && members.is_empty() {
                // Folders come with their files: this one is a deletion and nothing else.
                continue;
            }
            members.insert(change.path.clone());
            swaps.insert(change.path.clone(), FolderSwap { folder, members });
        }
        Swaps(swaps)
    }

    /// From changes that were frozen, or are in place.
    pub fn in_frozen(going: &[FrozenPath]) -> Swaps {
        let root = |change: &FrozenPath| match (&change.old, &change.new) {
            (State::Folder, _) => Some(Fate::Goes),
            (_, State::Folder) => Some(Fate::Comes),
            _ => None,
        };
        let swap = |change: &FrozenPath| {
            let path = Path::new(&change.path);
            let inside = going.iter().map(|inner| Path::new(&inner.path)).filter(|inner| inner.starts_with(path));
            root(change).map(|folder| (path.to_owned(), FolderSwap { folder, members: inside.map(Path::to_owned).collect() }))
        };
        Swaps(going.iter().filter_map(swap).collect())
    }

    /// What becomes of the folder at a path that is swapped.
    pub fn folder_at(&self, path: &str) -> Option<Fate> {
        self.0.get(Path::new(path)).map(|swap| swap.folder)
    }

    /// The swaps that a path is in, each with the path at which something changes its kind, and all that must change for it.
    pub fn around<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (&'a Path, &'a BTreeSet<PathBuf>)> {
        let is_in = move |(_, swap): &(&'a PathBuf, &'a FolderSwap)| swap.members.contains(Path::new(path));
        self.0.iter().filter(is_in).map(|(root, swap)| (root.as_path(), &swap.members))
    }

    /// Whether a path is in a swap.
    pub fn has(&self, path: &str) -> bool {
        self.0.values().any(|swap| swap.members.contains(Path::new(path)))
    }
}

/// Links that hang on each other are judged this often; a set that takes longer was made to, and then none of its links goes in.
const ROUNDS_MAX: usize = 64;

/// A change that stays out, and why.
pub type LeftOut = (FrozenPath, String);

/// Takes out what must not go in, with all that belongs to it, until nothing is left to take.
pub fn settle(swaps: &Swaps, tree: &FileTree, going: &mut Vec<FrozenPath>, origin: Origin) -> Result<Vec<LeftOut>, Fault> {
    let mut left = Vec::new();
    for round in 0.. {
        let mut out = broken(swaps, tree, going)?;
        if out.is_empty() && round >= ROUNDS_MAX {
            out = links::all(going).map(|path| (path.to_owned(), links::UNKNOWN.to_owned())).collect();
        }
        if out.is_empty() {
            out = links::judge(tree, going, origin)?.into_iter().map(|(path, why)| (path, why.to_owned())).collect();
        }
        if out.is_empty() {
            return Ok(left);
        }
        let (stays, goes): (Vec<FrozenPath>, Vec<FrozenPath>) =
            std::mem::take(going).into_iter().partition(|change| out.contains_key(&change.path));
        *going = goes;
        left.extend(stays.into_iter().filter_map(|change| {
            let why = out.remove(&change.path)?;
            Some((change, why))
        }));
    }
    Ok(left)
}

/// Members of swaps of which something else stays out.
fn broken(swaps: &Swaps, tree: &FileTree, going: &[FrozenPath]) -> Result<BTreeMap<String, String>, Fault> {
    let goes: BTreeSet<&Path> = going.iter().map(|change| Path::new(&change.path)).collect();
    let mut out = BTreeMap::new();
    for (root, swap) in &swaps.0 {
        let mut missing = None;
        for member in swap.members.iter().filter(|member| !goes.contains(member.as_path())) {
            // What is gone from the project already needs no deletion.
            let is_gone = swap.folder == Fate::Goes
                && member != root
                && member.to_str().is_some_and(|path| matches!(tree.now(path), Ok(FileState::Absent)));
            if !is_gone {
                missing = Some(member);
                break;
            }
        }
        if let Some(missing) = missing {
            let why = format!("it is one change with `{}`, which stays out", missing.display());
            out.extend(
                goes.iter().filter(|path| swap.members.contains(**path)).map(|path| (path.to_string_lossy().into_owned(), why.clone())),
            );
        }
    }
    Ok(out)
}
