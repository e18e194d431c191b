//! Finds what of a project is to be masked, by walking it.
//!
//! Reading a large project would cost more than opening its room. So each folder's names are kept with the folder's own times, and the
//! verdicts on them with the sight that gave them: a later walk looks at the times of folders, reads those that changed, and judges what it
//! has not judged. Files that did not come, go or change their name cost nothing, whatever their number. **Invariant.** A folder whose
//! times are too young to tell a later change apart is read again.
//!
//! A hidden file with a second, innocent name (a hard link) is hidden by that name too, and so is what a link with a hidden name leads to.

use super::{Hidden, Sight};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};
use world::{Code, Fault, Refusal, Stop, limits};

/// What a walk found.
#[derive(Debug, Default)]
pub struct MaskSet {
    /// Relative to the project, none of them beneath another.
    pub masks: BTreeSet<PathBuf>,
    /// Of these, names that would be shown if they did not lead to a hidden file: with that file's own name.
    pub same: BTreeMap<PathBuf, PathBuf>,
}

/// What is remembered of every project.
#[derive(Default)]
pub struct Walks {
    projects: Mutex<HashMap<PathBuf, Arc<Mutex<Project>>>>,
}

#[derive(Default)]
struct Project {
    folders: HashMap<PathBuf, Listing>,
    /// By the sight that gave them; those of sights that nobody holds any more go.
    verdicts: Vec<(Weak<Sight>, Verdicts)>,
    next: u64,
}

/// One folder as it was when it was read.
struct Listing {
    stamp: Stamp,
    /// False when it had just changed: another change in the same tick of the clock would look the same.
    settled: bool,
    /// Another one for every other list of names.
    serial: u64,
    names: Vec<Name>,
}

#[derive(PartialEq, Eq)]
struct Name {
    name: OsString,
    inode: u64,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Folder,
    Link,
    Other,
}

#[derive(Default)]
struct Verdicts {
    folders: HashMap<PathBuf, Verdict>,
    /// What came of them, as long as every folder is as it was.
    last: Option<Arc<MaskSet>>,
}

/// Which names of one listing are hidden, by their places in it.
struct Verdict {
    serial: u64,
    hidden: Vec<(usize, Hidden)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Coarser than the clock of any file system we meet, FAT's two seconds aside.
const SETTLES: Duration = Duration::from_millis(1100);

impl Walks {
    /// What of a project a reader may not see. Blocks.
    pub fn find(&self, project: &Path, sight: &Arc<Sight>) -> Result<Arc<MaskSet>, Stop> {
        let known = self.projects.lock().entry(project.to_owned()).or_default().clone();
        let mut known = known.lock();
        let Project { folders, verdicts, next } = &mut *known;
        verdicts.retain(|(held, _)| held.strong_count() > 0);
        let place = match verdicts.iter().position(|(held, _)| held.ptr_eq(&Arc::downgrade(sight))) {
            Some(place) => place,
            None => {
                verdicts.push((Arc::downgrade(sight), Verdicts::default()));
                verdicts.len() - 1
            }
        };
        let Verdicts { folders: judged, last } = &mut verdicts[place].1;
        let mut walk = Walk { project, sight, folders, judged, next, changed: false, seen: HashMap::new(), hidden: Vec::new() };
        walk.run()?;
        let Walk { changed, seen, hidden, .. } = walk;
        let gone = folders.len() != seen.len() || judged.len() > seen.len();
        folders.retain(|folder, _| seen.contains_key(folder));
        judged.retain(|folder, _| seen.contains_key(folder));
        let links = hidden.iter().any(|one| one.kind == Kind::Link);
        if let Some(found) = last.as_ref().filter(|_| !changed && !gone && !links) {
            return Ok(Arc::clone(found));
        }
        few_enough(&hidden)?;
        let found = Arc::new(gather(project, folders, &seen, hidden)?);
        *last = Some(Arc::clone(&found));
        Ok(found)
    }
}

/// A hidden name.
struct One {
    path: PathBuf,
    inode: u64,
    kind: Kind,
    by: Hidden,
}

struct Walk<'a> {
    project: &'a Path,
    sight: &'a Sight,
    folders: &'a mut HashMap<PathBuf, Listing>,
    judged: &'a mut HashMap<PathBuf, Verdict>,
    next: &'a mut u64,
    changed: bool,
    /// Every folder of this walk, and whether it is masked.
    seen: HashMap<PathBuf, bool>,
    hidden: Vec<One>,
}

impl Walk<'_> {
    fn run(&mut self) -> Result<(), Stop> {
        let mut waiting = vec![(PathBuf::new(), false)];
        while let Some((folder, masked)) = waiting.pop() {
            if !self.refresh(&folder)? {
                continue;
            }
            self.seen.insert(folder.clone(), masked);
            let Some(listing) = self.folders.get(&folder) else { continue };
            let mut below = vec![masked; listing.names.len()];
            if !masked {
                let known = self.judged.get(&folder).is_some_and(|verdict| verdict.serial == listing.serial);
                if !known {
                    self.changed = true;
                    let hidden = judge(self.sight, &folder, &listing.names);
                    self.judged.insert(folder.clone(), Verdict { serial: listing.serial, hidden });
                }
                for (at, by) in self.judged.get(&folder).map(|verdict| verdict.hidden.as_slice()).unwrap_or_default() {
                    let Name { name, inode, kind } = &listing.names[*at];
                    below[*at] = true;
                    self.hidden.push(One { path: folder.join(name), inode: *inode, kind: *kind, by: by.clone() });
                }
            }
            let folders = listing.names.iter().zip(below).filter(|(name, _)| name.kind == Kind::Folder);
            waiting.extend(
                folders.filter(|(name, _)| !is_object_folder(&folder, name)).map(|(name, masked)| (folder.join(&name.name), masked)),
            );
        }
        Ok(())
    }

    /// Reads a folder again if it changed. False when it is gone.
    fn refresh(&mut self, folder: &Path) -> Result<bool, Fault> {
        let path = self.project.join(folder);
        let metadata = match std::fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            // Gone since its parent was listed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && folder != Path::new("") => return Ok(false),
            Err(error) => return Err(Fault::io("look at", &path, error)),
        };
        let stamp = Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        let old = self.folders.get(folder);
        if old.is_some_and(|listing| listing.settled && listing.stamp == stamp) {
            return Ok(true);
        }
        let settled = metadata.modified().is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|age| age > SETTLES));
        let names = list(&path)?;
        let serial = match old {
            Some(old) if old.names == names => old.serial,
            _ => {
                self.changed = true;
                *self.next += 1;
                *self.next
            }
        };
        self.folders.insert(folder.to_owned(), Listing { stamp, settled, serial, names });
        Ok(true)
    }
}

fn list(path: &Path) -> Result<Vec<Name>, Fault> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        // What we cannot list, a job of an unprivileged user cannot either.
        Err(error) if matches!(error.kind(), std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::NotFound) => return Ok(Vec::new()),
        Err(error) => return Err(Fault::io("list", path, error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Fault::io("list", path, error))?;
        let kind = match entry.file_type() {
            Ok(kind) if kind.is_dir() => Kind::Folder,
            Ok(kind) if kind.is_symlink() => Kind::Link,
            _ => Kind::Other,
        };
        names.push(Name { name: entry.file_name(), inode: entry.ino(), kind });
    }
    names.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(names)
}

/// The names of one folder that are hidden.
fn judge(sight: &Sight, folder: &Path, names: &[Name]) -> Vec<(usize, Hidden)> {
    let hidden = names.iter().enumerate().filter_map(|(at, name)| {
        let path = folder.join(&name.name);
        let by = if name.kind == Kind::Folder { sight.below(&path) } else { sight.at(&path) };
        by.map(|by| (at, by))
    });
    hidden.collect()
}

/// Git's store has up to 256 folders of objects with names that no rule is about. Whether all of it is hidden was asked above them.
fn is_object_folder(folder: &Path, name: &Name) -> bool {
    folder.ends_with(".git/objects") && name.name.len() == 2
}

fn few_enough(hidden: &[One]) -> Result<(), Refusal> {
    if hidden.len() <= limits::MASKS_MAX {
        return Ok(());
    }
    let mut counts: BTreeMap<&Hidden, usize> = BTreeMap::new();
    hidden.iter().for_each(|one| *counts.entry(&one.by).or_default() += 1);
    let (by, count) =
        counts.into_iter().max_by_key(|(_, count)| *count).map_or_else(Default::default, |(by, count)| (by.to_string(), count));
    let why = format!(
        "{} files would be masked one by one, and a room has at most {} masks; of {count} it holds that {by}",
        hidden.len(),
        limits::MASKS_MAX
    );
    Err(Refusal::new(Code::TooLarge, why)
        .hint("let that rule name whole folders, such as `/data/**`: a folder that is hidden as a whole is one mask"))
}

/// The masks, with other names of the same files.
fn gather(project: &Path, folders: &HashMap<PathBuf, Listing>, seen: &HashMap<PathBuf, bool>, hidden: Vec<One>) -> Result<MaskSet, Stop> {
    let mut found = MaskSet::default();
    // What the number of a hidden file is, and its name.
    let mut inodes: HashMap<u64, PathBuf> = HashMap::new();
    for (folder, _) in seen.iter().filter(|(_, masked)| **masked) {
        let names = folders.get(folder).map(|listing| listing.names.as_slice()).unwrap_or_default();
        inodes.extend(names.iter().filter(|name| name.kind == Kind::Other).map(|name| (name.inode, folder.join(&name.name))));
    }
    let mut links = Vec::new();
    for One { path, inode, kind, .. } in hidden {
        match kind {
            Kind::Link => links.push(path),
            Kind::Folder => {
                found.masks.insert(path);
            }
            Kind::Other => {
                inodes.insert(inode, path.clone());
                found.masks.insert(path);
            }
        }
    }
    if !inodes.is_empty() {
        for (folder, _) in seen.iter().filter(|(_, masked)| !**masked) {
            let names = folders.get(folder).map(|listing| listing.names.as_slice()).unwrap_or_default();
            for name in names.iter().filter(|name| name.kind == Kind::Other) {
                let Some(of) = inodes.get(&name.inode) else { continue };
                let path = folder.join(&name.name);
                // The number comes with the name, so only those that may be it are looked at.
                if !found.masks.contains(&path) && is_same(&project.join(&path), &project.join(of)) {
                    found.same.insert(path, of.clone());
                }
            }
        }
    }
    for link in links {
        if let Some(target) = target(project, &link).filter(|target| !is_masked(&found.masks, target)) {
            found.same.insert(target, link);
        }
    }
    found.masks.extend(found.same.keys().cloned());
    // A link may lead to a folder in which single files were masked.
    let all = found.masks.clone();
    found.masks.retain(|path| !path.ancestors().skip(1).any(|above| all.contains(above)));
    if found.masks.len() > 2 * limits::MASKS_MAX {
        let why = format!("more than {} other names of masked files would be masked too", limits::MASKS_MAX);
        return Err(Refusal::new(Code::TooLarge, why)
            .hint("make files of their own of the hard links, or name their folder in `mask`")
            .into());
    }
    Ok(found)
}

pub fn is_masked(masks: &BTreeSet<PathBuf>, path: &Path) -> bool {
    path.ancestors().any(|part| masks.contains(part))
}

fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| std::fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    identity(one).is_some_and(|own| identity(other) == Some(own))
}

/// What a link of the project leads to, if that lies in it: a file, or a folder that the link itself does not lie in.
fn target(project: &Path, link: &Path) -> Option<PathBuf> {
    let real = project.join(link).canonicalize().ok()?;
    let inside = real.strip_prefix(project).ok()?.to_owned();
    (!link.starts_with(&inside)).then_some(inside)
}
