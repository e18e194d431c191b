//! Which files of a project no room shows: found by walking it, remembered folder by folder.
//!
//! A walk of a large project would cost more than opening its room. So each folder's list of secrets and subfolders is kept with the
//! folder's own times, and a later walk reads only folders that changed: files that did not come, go or change their name cost
//! nothing, whatever their number. **Invariant.** A folder whose times are too young to tell a later change apart is read again.
//!
//! A secret with a second, innocent name (a hard link) is a secret by that name too. Only where there is such a file are all names read.

use crate::desk::secrets;
use crate::fault::{Fault, Stop};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What is remembered of every project.
#[derive(Default)]
pub(crate) struct Masks {
    projects: Mutex<HashMap<PathBuf, Arc<Mutex<Known>>>>,
}

#[derive(Default)]
struct Known {
    /// The patterns it was made with, beside the built-in ones.
    extra: Vec<String>,
    folders: HashMap<PathBuf, Listed>,
}

/// One folder as it was when it was read.
#[derive(Clone)]
struct Listed {
    stamp: Stamp,
    /// False when it had just changed: another change in the same tick of the clock would look the same.
    settled: bool,
    secrets: Vec<OsString>,
    folders: Vec<OsString>,
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

impl Masks {
    /// Every existing secret of a project, relative to it. Blocks.
    pub fn find(&self, project: &Path, extra: &[String]) -> Result<Vec<PathBuf>, Stop> {
        let known = self.projects.lock().entry(project.to_owned()).or_default().clone();
        let mut known = known.lock();
        if known.extra != extra {
            *known = Known { extra: extra.to_vec(), folders: HashMap::new() };
        }
        let mut fresh = HashMap::with_capacity(known.folders.len());
        let found = walk(project, extra, &mut known.folders, &mut fresh)?;
        known.folders = fresh;
        Ok(with_twins(project, found)?)
    }
}

/// Adds every other name in the project of a file that is hidden.
fn with_twins(project: &Path, mut found: Vec<PathBuf>) -> Result<Vec<PathBuf>, Fault> {
    let identity = |path: &Path| {
        let metadata = std::fs::symlink_metadata(path).ok().filter(|metadata| metadata.is_file() && metadata.nlink() > 1)?;
        Some((metadata.dev(), metadata.ino()))
    };
    let mut hidden = HashSet::new();
    for path in found.iter().map(|path| project.join(path)) {
        hidden.extend(identity(&path));
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            names(&path, |_| true, |_, path| hidden.extend(identity(path)))?;
        }
    }
    if hidden.is_empty() {
        return Ok(found);
    }
    let inodes: HashSet<u64> = hidden.iter().map(|(_, inode)| *inode).collect();
    let known: HashSet<PathBuf> = found.iter().map(|path| project.join(path)).collect();
    let other = |path: &Path| !known.contains(path);
    names(project, other, |inode, path| {
        // The number comes with the name, so only those that may be it are looked at.
        if inodes.contains(&inode) && identity(path).is_some_and(|this| hidden.contains(&this)) {
            found.extend(path.strip_prefix(project).map(Path::to_owned));
        }
    })?;
    found.sort();
    Ok(found)
}

/// Tells of every name beneath a folder, with its inode, but for those that are not `wanted` and what is beneath them.
fn names(top: &Path, wanted: impl Fn(&Path) -> bool, mut tell: impl FnMut(u64, &Path)) -> Result<(), Fault> {
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::NotFound) => continue,
            Err(error) => return Err(Fault::io("list", &folder, error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| Fault::io("list", &folder, error))?;
            let path = entry.path();
            if !wanted(&path) {
                continue;
            }
            tell(entry.ino(), &path);
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            }
        }
    }
    Ok(())
}

/// The store of git itself has no secrets and is passed over.
fn walk(
    project: &Path,
    extra: &[String],
    known: &mut HashMap<PathBuf, Listed>,
    fresh: &mut HashMap<PathBuf, Listed>,
) -> Result<Vec<PathBuf>, Stop> {
    let patterns = secrets(project, extra)?;
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(folder) = waiting.pop() {
        let path = project.join(&folder);
        let metadata = match std::fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            // Gone since its parent was listed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && folder != Path::new("") => continue,
            Err(error) => return Err(Fault::io("look at", &path, error).into()),
        };
        let stamp = Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        let listed = match known.remove(&folder).filter(|listed| listed.settled && listed.stamp == stamp) {
            Some(listed) => listed,
            None => {
                let settled = metadata.modified().is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|age| age > SETTLES));
                list(&path, &folder, &patterns).map(|(secrets, folders)| Listed { stamp, settled, secrets, folders })?
            }
        };
        found.extend(listed.secrets.iter().map(|name| folder.join(name)));
        waiting.extend(listed.folders.iter().map(|name| folder.join(name)));
        fresh.insert(folder, listed);
    }
    found.sort();
    Ok(found)
}

/// The secrets and the subfolders of one folder.
fn list(path: &Path, folder: &Path, patterns: &ignore::gitignore::Gitignore) -> Result<(Vec<OsString>, Vec<OsString>), Fault> {
    let (mut hidden, mut folders) = (Vec::new(), Vec::new());
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        // What we cannot list, a job of an unprivileged user cannot either.
        Err(error) if matches!(error.kind(), std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::NotFound) => {
            return Ok((hidden, folders));
        }
        Err(error) => return Err(Fault::io("list", path, error)),
    };
    for entry in entries {
        let entry = entry.map_err(|error| Fault::io("list", path, error))?;
        let name = entry.file_name();
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if patterns.matched(folder.join(&name), is_dir).is_ignore() {
            hidden.push(name);
        } else if is_dir && name != ".git" {
            folders.push(name);
        }
    }
    Ok((hidden, folders))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn show(masks: &Masks, project: &Path, extra: &[&str]) -> Vec<String> {
        let extra: Vec<String> = extra.iter().map(|text| (*text).to_owned()).collect();
        masks.find(project, &extra).unwrap().iter().map(|path| path.display().to_string()).collect()
    }

    /// Makes every folder look old, so that it may be remembered.
    fn age(project: &Path, folders: &[&str]) {
        for folder in folders {
            let file = fs::File::open(project.join(folder)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(100)).unwrap();
        }
    }

    #[test]
    fn every_change_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path();
        fs::create_dir_all(project.join("a/b")).unwrap();
        fs::create_dir_all(project.join(".git")).unwrap();
        fs::write(project.join(".git/x.key"), "").unwrap();
        fs::write(project.join("a/b/x.key"), "").unwrap();
        fs::write(project.join("a/plain"), "").unwrap();
        age(project, &["", "a", "a/b"]);
        let masks = Masks::default();
        for _ in 0..2 {
            assert_eq!(show(&masks, project, &[]), ["a/b/x.key"]);
        }
        // Twice in a row without any pause: what is young is never taken from memory.
        fs::write(project.join("a/b/.env"), "").unwrap();
        assert_eq!(show(&masks, project, &[]), ["a/b/.env", "a/b/x.key"]);
        fs::rename(project.join("a/plain"), project.join("a/y.pem")).unwrap();
        assert_eq!(show(&masks, project, &[]), ["a/b/.env", "a/b/x.key", "a/y.pem"]);
        fs::remove_file(project.join("a/b/x.key")).unwrap();
        fs::rename(project.join("a/b"), project.join("c")).unwrap();
        assert_eq!(show(&masks, project, &[]), ["a/y.pem", "c/.env"]);
        assert_eq!(show(&masks, project, &["a/"]), ["a", "c/.env"]);
        assert_eq!(show(&masks, project, &[]), ["a/y.pem", "c/.env"]);
    }

    /// The proof that nothing is read again: a folder that was changed behind its own times' back is not noticed.
    #[test]
    fn what_did_not_change_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path();
        fs::create_dir(project.join("a")).unwrap();
        age(project, &["", "a"]);
        let masks = Masks::default();
        assert_eq!(show(&masks, project, &[]), [""; 0]);
        let known = masks.projects.lock().get(project).unwrap().clone();
        assert_eq!(known.lock().folders.values().filter(|listed| listed.settled).count(), 2);
        known.lock().folders.get_mut(Path::new("a")).unwrap().secrets.push("remembered".into());
        assert_eq!(show(&masks, project, &[]), ["a/remembered"]);
        fs::write(project.join("a/new"), "").unwrap();
        assert_eq!(show(&masks, project, &[]), [""; 0]);
    }

    /// A second name does not make a secret innocent, wherever the first one is hidden.
    #[test]
    fn hard_links_are_hidden_too() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path();
        fs::create_dir_all(project.join("vault/deep")).unwrap();
        fs::create_dir_all(project.join("docs")).unwrap();
        fs::write(project.join(".env"), "").unwrap();
        fs::write(project.join("vault/deep/token"), "").unwrap();
        fs::write(project.join("docs/plain"), "").unwrap();
        fs::hard_link(project.join("docs/plain"), project.join("docs/plain-again")).unwrap();
        let masks = Masks::default();
        assert_eq!(show(&masks, project, &["vault/"]), [".env", "vault"]);
        fs::hard_link(project.join(".env"), project.join("docs/notes.txt")).unwrap();
        fs::hard_link(project.join("vault/deep/token"), project.join("readme")).unwrap();
        assert_eq!(show(&masks, project, &["vault/"]), [".env", "docs/notes.txt", "readme", "vault"]);
        assert_eq!(show(&masks, project, &[]), [".env", "docs/notes.txt"]);
    }
}
