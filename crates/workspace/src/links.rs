//! Where links lead, and which folders are repositories, in the project as it will be after a merge.
//!
//! **Invariant.** After a merge no link that came with it, and none that was there and led inside before, leads out of the project or to what
//! git or skep keeps; one that was there and leads out passes through nothing that came with the merge; and no folder is, or became, a repository by what came with it. What would break this stays out; the rest is judged
//! again without it. What does not exist, and what is a file, counts as a folder on a link's way: it may become one.

use crate::frozen::FrozenPath;
use crate::tree::{FileTree, State};
use rustix::fs::FileType;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use world::Fault;

/// As many links as Linux follows on one way.
const HOPS_MAX: usize = 40;
/// Entries of a project that are looked through for links. Beyond it nobody knows, so changes of links stay out.
const ENTRIES_MAX: usize = 2_000_000;
/// Deeper folders than this are not looked into.
const DEPTH_MAX: usize = 256;

const OUT: &str = "it is a link out of the project";
const KEPT: &str = "it is a link to what git or skep itself keeps";
const LOOP: &str = "it is a link that leads nowhere";
const TURNS: &str = "a link of the project would lead out of it";
pub const UNKNOWN: &str = "it cannot be told where the project's links would lead";
const REPOSITORY: &str = "it would be part of an embedded repository";

/// A project with some changes in it.
pub struct After<'a> {
    pub tree: &'a FileTree,
    pub changes: BTreeMap<&'a Path, &'a State>,
}

/// Where a link leads, and every path that was looked at on the way.
pub struct Way {
    pub end: Result<(), &'static str>,
    passed: BTreeSet<PathBuf>,
}

impl After<'_> {
    /// The text of the link at a path.
    fn link(&self, path: &Path) -> Result<Option<OsString>, Fault> {
        match self.changes.get(path) {
            Some(State::Link { target }) => Ok(Some(target.into())),
            Some(_) => Ok(None),
            None => self.tree.link(path),
        }
    }

    /// Follows the link at a path, one component at a time.
    pub fn follow(&self, at: &Path, target: &OsStr) -> Result<Way, Fault> {
        let mut here: PathBuf = at.parent().unwrap_or(Path::new("")).to_owned();
        let mut ahead: VecDeque<OsString> = VecDeque::new();
        let mut passed = BTreeSet::new();
        let mut hops = 0;
        let mut text = Some(target.to_owned());
        loop {
            if let Some(text) = text.take() {
                hops += 1;
                if hops > HOPS_MAX || text.is_empty() {
                    return Ok(Way { end: Err(LOOP), passed });
                }
                if text.as_bytes().first() == Some(&b'/') {
                    return Ok(Way { end: Err(OUT), passed });
                }
                for part in text.as_bytes().split(|byte| *byte == b'/').rev().filter(|part| !part.is_empty() && *part != b".") {
                    ahead.push_front(OsStr::from_bytes(part).to_owned());
                }
            }
            let Some(part) = ahead.pop_front() else { return Ok(Way { end: Ok(()), passed }) };
            if part == ".." {
                if !here.pop() {
                    return Ok(Way { end: Err(OUT), passed });
                }
                continue;
            }
            if policy::is_kept(&part.to_string_lossy()) {
                return Ok(Way { end: Err(KEPT), passed });
            }
            here.push(&part);
            passed.insert(here.clone());
            if let Some(found) = self.link(&here)? {
                here.pop();
                text = Some(found);
            }
        }
    }
}

/// Whose changes they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Task,
    /// What the project held before a merge and gets back: its own links may lead where they led.
    Project,
}

/// Which of these changes must stay out, and why. The caller takes out what belongs to them, and asks again.
pub fn judge(tree: &FileTree, going: &[FrozenPath], origin: Origin) -> Result<BTreeMap<String, &'static str>, Fault> {
    let mut out = if origin == Origin::Task { repositories(tree, going)? } else { BTreeMap::new() };
    let after = After { tree, changes: going.iter().map(|change| (Path::new(&change.path), &change.new)).collect() };
    for change in going.iter().filter(|_| origin == Origin::Task) {
        if let State::Link { target } = &change.new
            && let Err(why) = after.follow(Path::new(&change.path), OsStr::new(target))?.end
        {
            out.insert(change.path.clone(), why);
        }
    }
    // Only a link that comes, goes or changes gives others another meaning.
    let turning: Vec<&FrozenPath> = going.iter().filter(is_link).collect();
    if !out.is_empty() || turning.is_empty() {
        return Ok(out);
    }
    let Some(existing) = links(tree)? else {
        return Ok(turning.iter().map(|change| (change.path.clone(), UNKNOWN)).collect());
    };
    let before = After { tree, changes: BTreeMap::new() };
    for (at, target) in existing.iter().filter(|(at, _)| !after.changes.contains_key(at.as_path())) {
        let (then, now) = (before.follow(at, target)?, after.follow(at, target)?);
        if now.end.is_ok() || (then.end.is_err() && now.end == Err(LOOP)) {
            continue;
        }
        let passed = |change: &&&FrozenPath| [&then, &now].iter().any(|way| way.passed.contains(Path::new(&change.path)));
        let blamed: Vec<&&FrozenPath> = turning.iter().filter(passed).collect();
        let blamed = match (blamed.is_empty(), then.end.is_ok()) {
            (true, true) => turning.iter().collect(),
            // It led out, or nowhere, before. A change on its way may have it lead to another place outside.
            _ => blamed,
        };
        out.extend(blamed.iter().map(|change| (change.path.clone(), TURNS)));
    }
    Ok(out)
}

fn is_link(change: &&FrozenPath) -> bool {
    matches!(change.new, State::Link { .. }) || matches!(change.old, State::Link { .. })
}

/// Every path at which a link comes, goes or changes.
pub fn all(going: &[FrozenPath]) -> impl Iterator<Item = &str> {
    going.iter().filter(is_link).map(|change| change.path.as_str())
}

/// Changes in folders that are repositories, or would be by them.
fn repositories(tree: &FileTree, going: &[FrozenPath]) -> Result<BTreeMap<String, &'static str>, Fault> {
    let mut names: BTreeMap<PathBuf, BTreeSet<OsString>> = BTreeMap::new();
    for change in going {
        let mut below = Path::new(&change.path);
        for folder in Path::new(&change.path).ancestors().skip(1) {
            if !names.contains_key(folder) {
                names.insert(folder.to_owned(), tree.entries(folder)?.into_iter().map(|(name, _)| name).collect());
            }
            if let (Some(found), Some(name), false) = (names.get_mut(folder), below.file_name(), change.new == State::Absent) {
                found.insert(name.to_owned());
            }
            below = folder;
        }
    }
    let mut repositories: BTreeSet<&Path> = BTreeSet::new();
    for (folder, found) in &names {
        let embedded = !folder.as_os_str().is_empty() && has_own_git(tree, folder)?;
        if embedded || sandbox::is_repository(found.iter().map(OsString::as_os_str)) {
            repositories.insert(folder);
        }
    }
    let inside = |change: &&FrozenPath| Path::new(&change.path).ancestors().skip(1).any(|folder| repositories.contains(folder));
    Ok(going.iter().filter(inside).map(|change| (change.path.clone(), REPOSITORY)).collect())
}

/// Whether a folder of the project is the work tree of a repository of its own: its `.git` is one, or a file that may name one.
fn has_own_git(tree: &FileTree, folder: &Path) -> Result<bool, Fault> {
    for (name, kind) in tree.entries(folder)?.into_iter().filter(|(name, _)| name.eq_ignore_ascii_case(".git")) {
        let found = match kind {
            FileType::RegularFile | FileType::Symlink => true,
            FileType::Directory => {
                let inside = tree.entries(&folder.join(name))?;
                sandbox::is_repository(inside.iter().map(|(name, _)| name.as_os_str()))
            }
            _ => false,
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Every link of the project but git's own; `None` where it cannot be looked through, or is too large for that.
fn links(tree: &FileTree) -> Result<Option<Vec<(PathBuf, OsString)>>, Fault> {
    let (mut found, mut folders, mut entries) = (Vec::new(), vec![PathBuf::new()], 0);
    while let Some(folder) = folders.pop() {
        if folder.components().filter(|part| matches!(part, Component::Normal(_))).count() > DEPTH_MAX {
            return Ok(None);
        }
        // What cannot be looked into may hold links too.
        let Ok(inside) = tree.entries(&folder) else { return Ok(None) };
        for (name, kind) in inside {
            entries += 1;
            if entries > ENTRIES_MAX {
                return Ok(None);
            }
            let path = folder.join(&name);
            match kind {
                FileType::Directory if !name.eq_ignore_ascii_case(".git") => folders.push(path),
                FileType::Symlink => {
                    if let Some(target) = tree.link(&path)? {
                        found.push((path, target));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(Some(found))
}
