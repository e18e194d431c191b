//! What may be in a project after a merge: a model written from what SECURITY.md promises, not from the code that holds it.
//!
//! It has its own walker and its own way to follow links, and knows neither the sandbox nor the kernel. Included by tests of both.
#![allow(dead_code, reason = "not every test that includes this needs all of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    File { bytes: Vec<u8>, mode: u32 },
    Link(OsString),
    Folder,
    Special,
}

pub type OracleTree = BTreeMap<PathBuf, Thing>;

/// All that a folder holds, by its path from there.
pub fn read(root: &Path) -> OracleTree {
    fn walk(root: &Path, at: &Path, tree: &mut OracleTree) {
        for entry in std::fs::read_dir(root.join(at)).into_iter().flatten().flatten() {
            let path = at.join(entry.file_name());
            let Ok(meta) = std::fs::symlink_metadata(root.join(&path)) else { continue };
            let thing = if meta.is_dir() {
                Thing::Folder
            } else if meta.is_symlink() {
                Thing::Link(std::fs::read_link(root.join(&path)).unwrap_or_default().into_os_string())
            } else if meta.is_file() {
                Thing::File { bytes: std::fs::read(root.join(&path)).unwrap_or_default(), mode: meta.mode() & 0o7777 }
            } else {
                Thing::Special
            };
            let is_folder = thing == Thing::Folder;
            tree.insert(path.clone(), thing);
            if is_folder {
                walk(root, &path, tree);
            }
        }
    }
    let mut tree = OracleTree::new();
    walk(root, Path::new(""), &mut tree);
    tree
}

/// What a job sees: an upper layer over a lower one. A whiteout hides what is beneath, an opaque folder all that is beneath it.
pub fn view(upper: &OracleTree, lower: &OracleTree, whiteouts: &BTreeSet<PathBuf>, opaque: &BTreeSet<PathBuf>) -> OracleTree {
    let mut seen = lower.clone();
    for (path, thing) in upper {
        let was_folder = seen.get(path) == Some(&Thing::Folder);
        if whiteouts.contains(path) {
            seen.retain(|below, _| !below.starts_with(path));
            continue;
        }
        if *thing != Thing::Folder || !was_folder {
            seen.retain(|below, _| !below.starts_with(path));
        } else if opaque.contains(path) {
            seen.retain(|below, _| below == path || !below.starts_with(path));
        }
        seen.insert(path.clone(), thing.clone());
    }
    seen
}

/// A merge: the project before it, what the task made of it, and the project after it.
pub struct OracleMerge<'a> {
    pub before: &'a OracleTree,
    pub made: &'a OracleTree,
    pub after: &'a OracleTree,
    /// What the rules refuse.
    pub refused: &'a dyn Fn(&Path) -> bool,
    /// What git ignores.
    pub ignored: &'a dyn Fn(&Path) -> bool,
    /// Whether a file that is gone and one like it that came are taken for one that moved: it may stay if either half must.
    pub moves: bool,
}

fn is_leaf(thing: Option<&Thing>) -> bool {
    thing.is_some_and(|thing| *thing != Thing::Folder)
}

/// Modes are compared apart.
fn alike(one: Option<&Thing>, other: Option<&Thing>) -> bool {
    match (one, other) {
        (Some(Thing::File { bytes, .. }), Some(Thing::File { bytes: other, .. })) => bytes == other,
        (one, other) => one == other,
    }
}

fn below<'a>(tree: &'a OracleTree, path: &'a Path) -> impl Iterator<Item = (&'a PathBuf, &'a Thing)> {
    tree.iter().filter(move |(at, _)| at.as_path() != path && at.starts_with(path))
}

impl OracleMerge<'_> {
    /// The first promise that was broken.
    pub fn check(&self) -> Result<(), String> {
        let paths: BTreeSet<&PathBuf> = self.before.keys().chain(self.after.keys()).chain(self.made.keys()).collect();
        for path in paths {
            self.at(path).map_err(|why| format!("{}: {why}", path.display()))?;
        }
        links(self.before, self.after)
    }

    fn at(&self, path: &Path) -> Result<(), &'static str> {
        let (before, made, after) = (self.before.get(path), self.made.get(path), self.after.get(path));
        if name_of(path).starts_with(b".skep-merge-")
            || name_of(path).starts_with(b".skep-aside-")
            || name_of(path).starts_with(b".skep-probe-")
        {
            return Err("something was left beside its place");
        }
        if after == Some(&Thing::Folder) && before != after && made != after {
            return Err("a folder that nobody made");
        }
        let changed = before != after && (is_leaf(before) || is_leaf(after));
        if changed {
            match after {
                Some(Thing::Special) => return Err("a special file came in"),
                Some(Thing::File { mode, .. }) if mode & 0o6000 != 0 && before != made => return Err("a set-id bit came in"),
                Some(Thing::Folder) | None if alike(made, before) => return Err("it was deleted, and the task left it alone"),
                Some(Thing::File { .. } | Thing::Link(_)) if !alike(made, after) => {
                    return Err("it holds what the task did not make of it");
                }
                _ => {}
            }
            if path.to_str().is_none() {
                return Err("its name is not text");
            }
            if path.components().any(|part| is_kept(part.as_os_str())) {
                return Err("git or skep keeps it");
            }
            if path.components().any(|part| is_store(part.as_os_str())) {
                return Err("another version control keeps it");
            }
            if self.embedded(path) {
                return Err("it is part of an embedded repository");
            }
            if (self.refused)(path) {
                return Err("a rule refuses it");
            }
            if (self.ignored)(path) {
                return Err("git ignores it");
            }
        }
        self.swapped(path)?;
        self.arrived(path)
    }

    /// A folder and what takes its place change together or not at all.
    fn swapped(&self, path: &Path) -> Result<(), &'static str> {
        let (before, made, after) = (self.before.get(path), self.made.get(path), self.after.get(path));
        let untouched = || alike(before, after) && below(self.before, path).eq(below(self.after, path));
        if before == Some(&Thing::Folder) && is_leaf(made) {
            let whole = alike(after, made) && below(self.after, path).next().is_none();
            return if whole || untouched() { Ok(()) } else { Err("a folder was given up for a file, and one of them only in part") };
        }
        if is_leaf(before) && made == Some(&Thing::Folder) {
            let wanted: Vec<_> = below(self.made, path).filter(|(at, thing)| is_leaf(Some(thing)) && !(self.ignored)(at)).collect();
            let whole = match wanted.is_empty() {
                true => !is_leaf(after) && !below(self.after, path).any(|(_, thing)| is_leaf(Some(thing))),
                false => wanted.iter().all(|(at, thing)| alike(self.after.get(*at), Some(thing))),
            };
            return if whole || untouched() { Ok(()) } else { Err("a file was given up for a folder, and one of them only in part") };
        }
        Ok(())
    }

    /// What is harmless in every respect does come in: a merge that refuses all keeps every other promise.
    fn arrived(&self, path: &Path) -> Result<(), &'static str> {
        let (before, made, after) = (self.before.get(path), self.made.get(path), self.after.get(path));
        let plain = |thing: Option<&Thing>| match thing {
            None => true,
            Some(Thing::File { mode, .. }) => mode & 0o6000 == 0,
            _ => false,
        };
        let ordinary = |part: Component<'_>| part.as_os_str().as_bytes().iter().all(u8::is_ascii_lowercase);
        let folders = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).all(|above| {
            let (before, made) = (self.before.get(above), self.made.get(above));
            [before, made].iter().all(|thing| thing.is_none_or(|thing| *thing == Thing::Folder))
        });
        let harmless = !alike(before, made)
            && plain(before)
            && plain(made)
            && path.components().all(ordinary)
            && folders
            && !self.embedded(path)
            && !(self.refused)(path)
            && !(self.ignored)(path)
            && !(self.moves && self.moved(path));
        if harmless && !alike(made, after) { Err("it is harmless and did not come in") } else { Ok(()) }
    }

    /// Whether a file like this one came or went elsewhere.
    fn moved(&self, path: &Path) -> bool {
        let is = |tree: &OracleTree, at: &Path, thing: &Thing| alike(tree.get(at), Some(thing));
        let thing = match (self.before.get(path), self.made.get(path)) {
            (Some(thing), None) | (None, Some(thing)) => thing,
            _ => return false,
        };
        let others = self.before.keys().chain(self.made.keys()).filter(|other| other.as_path() != path);
        others.into_iter().any(|other| is(self.before, other, thing) != is(self.made, other, thing))
    }

    /// Whether a folder around it is a repository, or the work tree of one, by what is there before and by what the task made.
    fn embedded(&self, path: &Path) -> bool {
        let inside = |folder: &Path| -> BTreeSet<String> {
            let trees = [self.before, self.made];
            let names = trees.iter().flat_map(|tree| tree.keys()).filter(|at| at.parent() == Some(folder));
            names.map(|at| String::from_utf8_lossy(name_of(at)).to_ascii_lowercase()).collect()
        };
        let repository = |names: &BTreeSet<String>| {
            let has = |name: &str| names.contains(name);
            has("head") && (has("commondir") || (has("objects") && has("refs")))
        };
        path.ancestors().skip(1).any(|folder| {
            if repository(&inside(folder)) {
                return true;
            }
            let gits = |tree: &OracleTree| -> Vec<(PathBuf, Thing)> {
                let found = tree.iter().filter(|(at, _)| at.parent() == Some(folder) && name_of(at).eq_ignore_ascii_case(b".git"));
                found.map(|(at, thing)| (at.clone(), thing.clone())).collect()
            };
            !folder.as_os_str().is_empty()
                && gits(self.before).into_iter().chain(gits(self.made)).any(|(git, thing)| match thing {
                    Thing::File { .. } | Thing::Link(_) => true,
                    Thing::Folder => repository(&inside(&git)),
                    Thing::Special => false,
                })
        })
    }
}

/// New links lead inside, and those that did still do.
pub fn links(before: &OracleTree, after: &OracleTree) -> Result<(), String> {
    for (path, thing) in after {
        let Thing::Link(target) = thing else { continue };
        let old = before.get(path) == Some(thing);
        if (!old || leads_inside(before, path, target)) && !leads_inside(after, path, target) {
            let which = if old { "a link that led inside" } else { "a new link" };
            return Err(format!("{}: {which} leads out by {}", path.display(), target.display()));
        }
    }
    Ok(())
}

/// Follows a link by the tree alone. What is not there, or is a file, counts as a folder on the way.
pub fn leads_inside(tree: &OracleTree, at: &Path, target: &OsStr) -> bool {
    fn go(tree: &OracleTree, from: Vec<OsString>, text: &OsStr, fuel: &mut usize) -> Option<Vec<OsString>> {
        *fuel = fuel.checked_sub(1)?;
        if text.is_empty() || text.as_bytes().starts_with(b"/") {
            return None;
        }
        let mut here = from;
        for part in text.as_bytes().split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    here.pop()?;
                }
                name => {
                    let name = OsStr::from_bytes(name);
                    if is_kept(name) {
                        return None;
                    }
                    let full: PathBuf = here.iter().chain([&name.to_owned()]).collect();
                    match tree.get(&full) {
                        Some(Thing::Link(next)) => here = go(tree, here, next, fuel)?,
                        _ => here.push(name.to_owned()),
                    }
                }
            }
        }
        Some(here)
    }
    let from = at.parent().map(|above| above.iter().map(OsStr::to_owned).collect()).unwrap_or_default();
    go(tree, from, target, &mut 40).is_some()
}

fn name_of(path: &Path) -> &[u8] {
    path.file_name().map(OsStr::as_bytes).unwrap_or_default()
}

/// Where other version controls keep what they know.
fn is_store(name: &OsStr) -> bool {
    let text = name.to_string_lossy().to_ascii_lowercase();
    let plain = text.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    [".hg", ".jj", ".sl", ".svn", ".bzr", ".pijul", "_darcs"].contains(&plain)
}

/// Names of git and skep, as the loosest file system compares them.
pub fn is_kept(name: &OsStr) -> bool {
    let text = name.to_string_lossy().to_ascii_lowercase().replace('\u{212a}', "k").replace('\u{17f}', "s");
    let text: String = text.chars().filter(|c| !"\u{200c}\u{200d}\u{200e}\u{200f}\u{202a}\u{202e}\u{feff}".contains(*c)).collect();
    let names = text.split('\\').filter_map(|part| part.split(':').next());
    let kept = [".git", "git~1", ".skep", "skep~1", "skep.yml"];
    names.map(|name| name.trim_end_matches(['.', ' '])).any(|name| kept.contains(&name))
}
