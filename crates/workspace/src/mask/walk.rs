//! Finds what of a project is to be masked, by walking it.
//!
//! Reading a large project would cost more than opening its room. So each folder's names are kept with the folder's own times, and the
//! verdicts on them with the sight that gave them: a later walk looks at the times of folders, reads those that changed, and judges what it
//! has not judged. Files that did not come, go or change their name cost nothing, whatever their number. **Invariant.** A folder whose
//! times are too young to tell a later change apart is read again.
//!
//! Pipes and devices are covered too, whoever may read them: git opens some names by itself, and would wait for a pipe (`special.rs`).
//! A hidden file with a second, innocent name (a hard link) is hidden by that name too, and so is what a link with a hidden name leads to.

use super::{Hidden, Sight};
use crate::reader::{Entry, Folder, Unread};
use crate::special;
use parking_lot::Mutex;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
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
    /// Configurations of repositories that lie in folders of the project. They may hold credentials.
    pub configs: BTreeSet<PathBuf>,
}

impl MaskSet {
    /// Whether git's own folder is masked as a whole, or the file in its place.
    pub fn hides_git(&self) -> bool {
        self.masks.contains(Path::new(".git"))
    }
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
    /// What may make who opens it wait.
    Special,
    Other,
}

#[derive(Default)]
struct Verdicts {
    folders: HashMap<PathBuf, FolderVerdict>,
    /// What came of them, as long as every folder is as it was: with the number of the last list of names.
    last: Option<(u64, Arc<MaskSet>)>,
}

/// Which names of one listing are hidden, by their places in it.
struct FolderVerdict {
    serial: u64,
    hidden: Vec<(usize, Hidden)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    modified: (i64, u64),
    changed: (i64, u64),
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
        let top = Folder::open(project).map_err(|error| Fault::io("look at", project, error))?;
        let mut walk =
            Walk { project: &top, sight: Some(sight), folders, judged, next, changed: false, seen: HashMap::new(), hidden: Vec::new() };
        walk.run()?;
        let Walk { changed, seen, hidden, .. } = walk;
        let gone = folders.len() != seen.len() || judged.len() > seen.len();
        folders.retain(|folder, _| seen.contains_key(folder));
        judged.retain(|folder, _| seen.contains_key(folder));
        let links = hidden.iter().any(|one| one.kind == Kind::Link);
        special::refuse_links(&top, git_links(folders, &seen))?;
        if let Some((_, found)) = last.as_ref().filter(|(at, _)| at == next && !changed && !gone && !links) {
            return Ok(Arc::clone(found));
        }
        few_enough(&hidden)?;
        let found = Arc::new(gather(&top, folders, &seen, hidden)?);
        *last = Some((*next, Arc::clone(&found)));
        Ok(found)
    }

    /// The pipes and devices of a project, to be covered where the kernel's own git runs. Blocks.
    pub fn special(&self, project: &Path) -> Result<MaskSet, Stop> {
        let known = self.projects.lock().entry(project.to_owned()).or_default().clone();
        let mut known = known.lock();
        let Project { folders, next, .. } = &mut *known;
        let top = Folder::open(project).map_err(|error| Fault::io("look at", project, error))?;
        let mut judged = HashMap::new();
        let mut walk = Walk {
            project: &top,
            sight: None,
            folders,
            judged: &mut judged,
            next,
            changed: false,
            seen: HashMap::new(),
            hidden: Vec::new(),
        };
        walk.run()?;
        let seen = walk.seen;
        folders.retain(|folder, _| seen.contains_key(folder));
        special::refuse_links(&top, git_links(folders, &seen))?;
        let special: BTreeSet<PathBuf> = special_files(folders, &seen).collect();
        special::few_enough(special.len())?;
        Ok(MaskSet { configs: configs(folders, &seen), masks: special, same: BTreeMap::new() })
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
    project: &'a Folder,
    /// None judges nothing.
    sight: Option<&'a Sight>,
    folders: &'a mut HashMap<PathBuf, Listing>,
    judged: &'a mut HashMap<PathBuf, FolderVerdict>,
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
            if let (Some(sight), false) = (self.sight, masked) {
                let known = self.judged.get(&folder).is_some_and(|verdict| verdict.serial == listing.serial);
                if !known {
                    self.changed = true;
                    let hidden = judge(sight, &folder, &listing.names);
                    self.judged.insert(folder.clone(), FolderVerdict { serial: listing.serial, hidden });
                }
                for (at, by) in self.judged.get(&folder).map(|verdict| verdict.hidden.as_slice()).unwrap_or_default() {
                    let Name { name, inode, kind } = &listing.names[*at];
                    below[*at] = true;
                    self.hidden.push(One { path: folder.join(name), inode: *inode, kind: *kind, by: by.clone() });
                }
            }
            let folders = listing.names.iter().zip(below).filter(|(name, _)| name.kind == Kind::Folder);
            waiting.extend(folders.map(|(name, masked)| (folder.join(&name.name), masked)));
        }
        Ok(())
    }

    /// Reads a folder again if it changed. False when it is gone.
    fn refresh(&mut self, folder: &Path) -> Result<bool, Fault> {
        let stat = match self.project.look_within(folder) {
            Ok(stat) => stat,
            // Gone since its parent was listed, or a link stands on the way to it now: the walk meets that one by its own name.
            Err(Unread::Absent | Unread::LeadsAway) if folder != Path::new("") => return Ok(false),
            Err(error) => return Err(Fault::io("look at", &self.project.path().join(folder), error)),
        };
        let stamp = Stamp {
            device: stat.st_dev,
            inode: stat.st_ino,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        };
        let old = self.folders.get(folder);
        if old.is_some_and(|listing| listing.settled && listing.stamp == stamp) {
            return Ok(true);
        }
        let settled = is_older(&stat, SETTLES);
        let names = list(self.project, folder)?;
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

fn is_older(stat: &Stat, age: Duration) -> bool {
    let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(stat.st_mtime), u32::try_from(stat.st_mtime_nsec)) else { return false };
    let modified = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    SystemTime::now().duration_since(modified).is_ok_and(|past| past > age)
}

fn list(project: &Folder, folder: &Path) -> Result<Vec<Name>, Fault> {
    let entries = match project.entries(folder) {
        Ok(entries) => entries,
        // What we cannot list, a job of an unprivileged user cannot either. What became a link meanwhile is met by its own name.
        Err(Unread::Absent | Unread::LeadsAway | Unread::Failed(Errno::ACCESS)) => return Ok(Vec::new()),
        Err(error) => return Err(Fault::io("list", &project.path().join(folder), error)),
    };
    let named = entries.into_iter().map(|Entry { name, inode, kind }| {
        let kind = match kind {
            FileType::Directory => Kind::Folder,
            FileType::Symlink => Kind::Link,
            kind if special::is_special(kind) => Kind::Special,
            _ => Kind::Other,
        };
        Name { name, inode, kind }
    });
    let mut names: Vec<Name> = named.collect();
    names.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(names)
}

/// The names of one folder that are hidden.
fn judge(sight: &Sight, folder: &Path, names: &[Name]) -> Vec<(usize, Hidden)> {
    // Git's store has up to 256 folders of objects with names that no rule is about. Whether all of it is hidden was asked above them.
    let holds_objects = is_object_folder(folder);
    let named = names.iter().enumerate().filter(|(_, name)| !holds_objects || !is_object(name));
    let hidden = named.filter_map(|(at, name)| {
        let path = folder.join(&name.name);
        let by = if name.kind == Kind::Folder { sight.below(&path) } else { sight.at(&path) };
        by.map(|by| (at, by))
    });
    hidden.collect()
}

fn is_object_folder(folder: &Path) -> bool {
    folder.parent().is_some_and(|above| above.ends_with(".git/objects")) && folder.file_name().is_some_and(|name| name.len() == 2)
}

/// What is left of an object's hash when its folder has the first two digits.
fn is_object(name: &Name) -> bool {
    let digits = name.name.as_encoded_bytes();
    name.kind == Kind::Other && matches!(digits.len(), 38 | 62) && digits.iter().all(u8::is_ascii_hexdigit)
}

fn names_of<'a>(
    folders: &'a HashMap<PathBuf, Listing>,
    seen: &'a HashMap<PathBuf, bool>,
    kind: Kind,
) -> impl Iterator<Item = (&'a PathBuf, &'a Name)> {
    let listed = seen.keys().filter_map(|folder| Some((folder, folders.get(folder)?)));
    listed.flat_map(move |(folder, listing)| listing.names.iter().filter(move |name| name.kind == kind).map(move |name| (folder, name)))
}

fn special_files<'a>(folders: &'a HashMap<PathBuf, Listing>, seen: &'a HashMap<PathBuf, bool>) -> impl Iterator<Item = PathBuf> + use<'a> {
    names_of(folders, seen, Kind::Special).map(|(folder, name)| folder.join(&name.name))
}

/// The links that git may follow by itself.
fn git_links<'a>(folders: &'a HashMap<PathBuf, Listing>, seen: &'a HashMap<PathBuf, bool>) -> impl Iterator<Item = PathBuf> + use<'a> {
    let links = names_of(folders, seen, Kind::Link).filter(|(folder, name)| special::is_gits(folder, &name.name));
    links.map(|(folder, name)| folder.join(&name.name))
}

/// The configurations of repositories in folders of the project; what lies in the project's own `.git` is not among them.
fn configs(folders: &HashMap<PathBuf, Listing>, seen: &HashMap<PathBuf, bool>) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for (folder, _) in seen.iter().filter(|(folder, masked)| !**masked && !folder.starts_with(".git")) {
        let Some(Listing { names, .. }) = folders.get(folder) else { continue };
        let kind = |name: &str| names.binary_search_by(|known| known.name.as_os_str().cmp(name.as_ref())).ok().map(|at| names[at].kind);
        if kind("HEAD").is_some() && (kind("objects").is_some() || kind("commondir").is_some()) {
            let configs = ["config", "config.worktree"].into_iter().filter(|name| kind(name) == Some(Kind::Other));
            found.extend(configs.map(|name| folder.join(name)));
        }
    }
    found
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
        "{} files would be masked one by one, and a sandbox has at most {} masks; of {count} it holds that {by}",
        hidden.len(),
        limits::MASKS_MAX
    );
    Err(Refusal::new(Code::TooLarge, why)
        .hint("let that rule name whole folders, such as `/data/**`: a folder that is hidden as a whole is one mask"))
}

/// The masks, with other names of the same files.
fn gather(project: &Folder, folders: &HashMap<PathBuf, Listing>, seen: &HashMap<PathBuf, bool>, hidden: Vec<One>) -> Result<MaskSet, Stop> {
    let mut found = MaskSet { configs: configs(folders, seen), ..MaskSet::default() };
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
            Kind::Folder | Kind::Special => {
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
                if !found.masks.contains(&path) && is_same(project, &path, of) {
                    found.same.insert(path, of.clone());
                }
            }
        }
    }
    for link in links {
        if let Some(target) = target(project.path(), &link).filter(|target| !is_masked(&found.masks, target)) {
            found.same.insert(target, link);
        }
    }
    found.masks.extend(found.same.keys().cloned());
    let before = found.masks.len();
    found.masks.extend(special_files(folders, seen));
    special::few_enough(found.masks.len() - before)?;
    // A link may lead to a folder in which single files were masked.
    let all = found.masks.clone();
    found.masks.retain(|path| !path.ancestors().skip(1).any(|above| all.contains(above)));
    found.configs.retain(|path| !is_masked(&all, path));
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

fn is_same(project: &Folder, one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| project.look_within(path).ok().map(|stat| (stat.st_dev, stat.st_ino));
    identity(one).is_some_and(|own| identity(other) == Some(own))
}

/// What a link of the project leads to, if that lies in it: a file, or a folder that the link itself does not lie in. Links are only read
/// here, and nothing that they lead to is opened; a way through the outside tells nothing but whether it comes back.
fn target(project: &Path, link: &Path) -> Option<PathBuf> {
    let real = project.join(link).canonicalize().ok()?;
    let inside = real.strip_prefix(project).ok()?.to_owned();
    (!link.starts_with(&inside)).then_some(inside)
}
