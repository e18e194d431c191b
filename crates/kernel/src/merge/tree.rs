//! The project's files as a merge touches them: what stands at a path, and putting something else there.
//!
//! **Invariant.** Everything happens beneath the project's descriptor and through no symbolic link. A path holds its old or its new
//! content and nothing between, whenever the kernel dies.

use crate::fault::{Fault, Stop};
use crate::ledger::Keeping;
use crate::{Kernel, desk, hash};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use world::{Task, limits};

/// What stands, or shall stand, at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Absent,
    File {
        /// SHA-256 of the content, also the name of its blob.
        blob: String,
        /// Permission bits; `None` keeps those that are there.
        mode: Option<u32>,
        /// Uid and gid; `None` for the project's own.
        owner: Option<(u32, u32)>,
    },
    Link {
        target: String,
    },
}

impl State {
    /// Whether what stands there is this; owners are not compared.
    pub fn is(&self, now: &Now) -> bool {
        match (self, now) {
            (State::Absent, Now::Absent) => true,
            (State::File { blob, mode, .. }, Now::File { bytes, mode: now, .. }) => {
                mode.is_none_or(|mode| mode == *now) && hash::sha256(bytes) == *blob
            }
            (State::Link { target }, Now::Link { target: now }) => target == now,
            _ => false,
        }
    }

    /// Its bytes; a link's are its target.
    pub fn bytes(&self, kernel: &Kernel) -> Result<Vec<u8>, Fault> {
        match self {
            State::Absent => Ok(Vec::new()),
            State::File { blob, .. } => kernel.ledger.blob(blob),
            State::Link { target } => Ok(format!("-> {target}\n").into_bytes()),
        }
    }
}

/// What stands at a path now, read whole.
#[derive(Debug)]
pub(crate) enum Now {
    Absent,
    File {
        bytes: Vec<u8>,
        mode: u32,
        owner: (u32, u32),
    },
    Link {
        target: String,
    },
    /// A folder, something special, or a file that is too large to be read.
    Other,
}

impl Now {
    /// Keeps what stands there; `None` for what can't be kept.
    pub fn keep(&self, keeping: &Keeping<'_>) -> Result<Option<State>, Fault> {
        Ok(match self {
            Now::Absent => Some(State::Absent),
            Now::File { bytes, mode, owner } => Some(State::File { blob: keeping.keep(bytes)?, mode: Some(*mode), owner: Some(*owner) }),
            Now::Link { target } => Some(State::Link { target: target.clone() }),
            Now::Other => None,
        })
    }
}

/// What came of the first half of a change.
pub(crate) enum Half {
    Written,
    Done,
    /// Left alone, and why.
    Left(String),
}

const CHANGED: &str = "conflict: it was changed meanwhile";

/// Where the new content of a path waits, in the same folder.
fn temporary(path: &str) -> String {
    format!(".skep-merge-{}", &hash::sha256(path.as_bytes())[..16])
}

/// Where on its way a change is, for tests that kill the kernel there.
#[derive(Clone, Copy)]
pub(crate) enum Moment {
    Before,
    Written,
    Renamed,
}

pub(crate) struct Tree {
    root: OwnedFd,
    project: PathBuf,
}

impl Tree {
    pub fn of(kernel: &Kernel, task: &Task) -> Result<Tree, Stop> {
        let project = kernel.ledger.look(|world| world.zones.get(&task.zone).map(|zone| PathBuf::from(&zone.path)));
        let project = project.ok_or_else(|| Fault::new(crate::FaultKind::Bug, "the zone is gone", task.zone))?;
        Ok(Tree::at(project)?)
    }

    pub fn at(folder: PathBuf) -> Result<Tree, Fault> {
        Ok(Tree { root: desk::open_root(&folder)?, project: folder })
    }

    /// A tree that is seen through a room.
    pub fn through(root: BorrowedFd<'_>, project: &Path) -> Result<Tree, Fault> {
        let root = root.try_clone_to_owned().map_err(|error| Fault::io("open", project, error))?;
        Ok(Tree { root, project: project.to_owned() })
    }

    pub fn now(&self, path: &str) -> Result<Now, Fault> {
        let at = Path::new(path);
        let Some(name) = at.file_name() else { return Ok(Now::Other) };
        match self.parent(at, false) {
            Ok(parent) => read(&parent, name).map_err(|error| self.fault("read", at, error)),
            // A file where its folder should be: the file may be on its way out.
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(Now::Absent),
            Err(Errno::LOOP | Errno::XDEV) => Ok(Now::Other),
            Err(error) => Err(self.fault("open the folder of", at, error)),
        }
    }

    /// The first half of going from `from` to `to` at one path, if it still holds `from`: what goes is gone, and what comes is written beside
    /// its place. Nothing is durable yet.
    pub fn begin(&self, kernel: &Kernel, path: &str, from: &State, to: &State, at: impl Fn(Moment)) -> Result<Half, Fault> {
        let place = Path::new(path);
        let Some(name) = place.file_name() else { return Ok(Half::Left("it has no name".into())) };
        at(Moment::Before);
        let parent = match self.parent(place, *to != State::Absent) {
            Ok(parent) => parent,
            Err(Errno::NOENT | Errno::NOTDIR) if *to == State::Absent => return Ok(Half::Done),
            Err(Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => return Ok(Half::Left("a folder on its way is now something else".into())),
            Err(error) => return Err(self.fault("open the folder of", place, error)),
        };
        let temporary = temporary(path);
        // Left by a crash between write and rename; ours by name.
        match rustix::fs::unlinkat(&parent, &temporary, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(self.fault("clean up beside", place, error)),
        }
        let now = read(&parent, name).map_err(|error| self.fault("read", place, error))?;
        if to.is(&now) {
            return Ok(Half::Done);
        }
        if !from.is(&now) {
            return Ok(Half::Left(CHANGED.into()));
        }
        if *to != State::Absent {
            self.write(kernel, &parent, &temporary, &now, to).map_err(|error| Fault::io("write", &self.project.join(place), error))?;
            at(Moment::Written);
            return Ok(Half::Written);
        }
        rustix::fs::unlinkat(&parent, name, AtFlags::empty()).map_err(|error| self.fault("delete", place, error))?;
        // Folders that a deletion left empty go too, as git has it.
        self.remove_empty(place.parent()).map_err(|error| self.fault("tidy the folder of", place, error))?;
        at(Moment::Renamed);
        Ok(Half::Done)
    }

    /// The second half: what was written takes its place, if that still holds `from`. `Some` says why it was left alone.
    pub fn end(&self, path: &str, from: &State, at: impl Fn(Moment)) -> Result<Option<String>, Fault> {
        let place = Path::new(path);
        let Some(name) = place.file_name() else { return Ok(Some("it has no name".into())) };
        let temporary = temporary(path);
        let parent = match self.parent(place, false) {
            Ok(parent) => parent,
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => {
                return Ok(Some("a folder on its way is now something else".into()));
            }
            Err(error) => return Err(self.fault("open the folder of", place, error)),
        };
        let now = read(&parent, name).map_err(|error| self.fault("read", place, error))?;
        if !from.is(&now) {
            rustix::fs::unlinkat(&parent, &temporary, AtFlags::empty()).map_err(|error| self.fault("clean up beside", place, error))?;
            return Ok(Some(CHANGED.into()));
        }
        match rustix::fs::renameat(&parent, &temporary, &parent, name) {
            Ok(()) => at(Moment::Renamed),
            // The folder is another one by now.
            Err(Errno::NOENT) => return Ok(Some(CHANGED.into())),
            Err(error) => return Err(self.fault("put in place", place, error)),
        }
        Ok(None)
    }

    /// Makes durable what was written beside these places.
    pub fn sync_written(&self, paths: &[&str]) -> Result<(), Fault> {
        let whole = self.sync_all(paths.len())?;
        for path in paths {
            let place = Path::new(path);
            let sync = |parent: OwnedFd| -> Result<(), Errno> {
                if Some(device(&parent)?) == whole {
                    return Ok(());
                }
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                match rustix::fs::openat(&parent, temporary(path), flags, Mode::empty()) {
                    Ok(file) => rustix::fs::fsync(file),
                    // A link is as durable as its folder.
                    Err(Errno::LOOP) => rustix::fs::fsync(parent),
                    Err(error) => Err(error),
                }
            };
            self.parent(place, false).and_then(sync).map_err(|error| self.fault("make durable", place, error))?;
        }
        Ok(())
    }

    /// Makes durable what these folders list; one that is gone by now is its parent's matter.
    pub fn sync_folders(&self, folders: &BTreeSet<&Path>) -> Result<(), Fault> {
        let whole = self.sync_all(folders.len())?;
        for folder in folders {
            let mut open = folder.ancestors().map(|above| self.parent(&above.join("x"), false));
            let found = open.find(|found| !matches!(found, Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)));
            let Some(found) = found else { continue };
            let sync = |folder: OwnedFd| if Some(device(&folder)?) == whole { Ok(()) } else { rustix::fs::fsync(folder) };
            found.and_then(sync).map_err(|error| self.fault("make durable", folder, error))?;
        }
        Ok(())
    }

    /// Where there is much to do, syncs the project's whole file system at once, and says which that is.
    fn sync_all(&self, much: usize) -> Result<Option<u64>, Fault> {
        const MANY: usize = 16;
        let sync = || {
            let root = self.parent(Path::new("x"), false)?;
            rustix::fs::syncfs(&root)?;
            device(&root)
        };
        if much < MANY { Ok(None) } else { sync().map(Some).map_err(|error| self.fault("make durable", Path::new(""), error)) }
    }

    fn write(&self, kernel: &Kernel, parent: &OwnedFd, temporary: &str, now: &Now, to: &State) -> Result<(), std::io::Error> {
        let (blob, mode, owner) = match to {
            State::Absent => return Ok(()),
            State::Link { target } => return Ok(rustix::fs::symlinkat(target, parent, temporary)?),
            State::File { blob, mode, owner } => (blob, mode, owner),
        };
        let (old_mode, old_owner) = match now {
            Now::File { mode, owner, .. } => (Some(*mode), Some(*owner)),
            _ => (None, None),
        };
        let bytes = kernel.ledger.blob(blob).map_err(|fault| std::io::Error::other(fault.to_string()))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = std::fs::File::from(rustix::fs::openat(parent, temporary, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(&bytes)?;
        // An old file keeps its owner, a restored one gets it back, a new one belongs to whom the project does.
        let owner = match old_owner.or(*owner) {
            Some(owner) => owner,
            None => owner_of(&self.root)?,
        };
        give(&file, owner)?;
        Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(mode.or(old_mode).unwrap_or(0o644)))?)
    }

    /// Opens a path's folder beneath the root without following links, making it where a new file needs it.
    fn parent(&self, path: &Path, make: bool) -> Result<OwnedFd, Errno> {
        let open = |dir: &OwnedFd, name: &Path| {
            let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            rustix::fs::openat2(dir, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), how)
        };
        let mut dir = rustix::fs::openat(&self.root, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for part in path.parent().unwrap_or(Path::new("")).components() {
            let part = Path::new(part.as_os_str());
            dir = match open(&dir, part) {
                Err(Errno::NOENT) if make => {
                    let above = rustix::fs::fstat(&dir)?;
                    match rustix::fs::mkdirat(&dir, part, Mode::from_raw_mode(above.st_mode & 0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error),
                    }
                    let made = open(&dir, part)?;
                    give(&made, (above.st_uid, above.st_gid))?;
                    rustix::fs::fsync(&dir)?;
                    made
                }
                other => other?,
            };
        }
        Ok(dir)
    }

    fn remove_empty(&self, folder: Option<&Path>) -> Result<(), Errno> {
        let mut at = folder;
        while let Some(path) = at.filter(|path| !path.as_os_str().is_empty()) {
            match rustix::fs::unlinkat(&self.root, path, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::PERM | Errno::BUSY) => break,
                Err(error) => return Err(error),
            }
            at = path.parent();
        }
        Ok(())
    }

    fn fault(&self, verb: &str, path: &Path, error: Errno) -> Fault {
        Fault::io(verb, &self.project.join(path), error)
    }
}

fn read(parent: &OwnedFd, name: &OsStr) -> Result<Now, Errno> {
    let stat = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(Now::Absent),
        Err(error) => return Err(error),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_size as u64 <= limits::MERGE_FILE_MAX => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
                // It became something else in between.
                Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(Now::Other),
                file => file?,
            };
            let mut bytes = Vec::new();
            let read = std::fs::File::from(file).take(limits::MERGE_FILE_MAX + 1).read_to_end(&mut bytes);
            read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            Ok(Now::File { bytes, mode: stat.st_mode & 0o7777, owner: (stat.st_uid, stat.st_gid) })
        }
        FileType::Symlink => match rustix::fs::readlinkat(parent, name, Vec::new()) {
            Ok(target) => Ok(target.into_string().map_or(Now::Other, |target| Now::Link { target })),
            Err(Errno::NOENT | Errno::INVAL) => Ok(Now::Other),
            Err(error) => Err(error),
        },
        _ => Ok(Now::Other),
    }
}

fn device(folder: impl AsFd) -> Result<u64, Errno> {
    rustix::fs::fstat(folder).map(|stat| stat.st_dev)
}

fn owner_of(root: impl AsFd) -> Result<(u32, u32), Errno> {
    let stat = rustix::fs::statat(root, "", AtFlags::EMPTY_PATH)?;
    Ok((stat.st_uid, stat.st_gid))
}

fn give(file: impl AsFd, (uid, gid): (u32, u32)) -> Result<(), Errno> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    rustix::fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    /// A file and a folder become links that lead out, and come back, as fast as can be.
    #[test]
    fn a_swapped_path_fools_nobody() {
        const SECRET: &[u8] = b"correct-horse-battery-staple";
        let folder = tempfile::tempdir().unwrap();
        let (project, outside) = (folder.path().join("project"), folder.path().join("outside"));
        fs::create_dir_all(project.join("dir")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), SECRET).unwrap();
        fs::write(project.join("dir/file"), "harmless").unwrap();
        fs::write(project.join("file"), "harmless").unwrap();
        std::os::unix::fs::symlink(outside.join("file"), project.join("file-link")).unwrap();
        std::os::unix::fs::symlink(&outside, project.join("dir-link")).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let swap = |one: &str, other: &str| {
                    let flags = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(rustix::fs::CWD, project.join(one), rustix::fs::CWD, project.join(other), flags).unwrap();
                };
                while !over.load(Ordering::Relaxed) {
                    swap("file", "file-link");
                    swap("dir", "dir-link");
                }
            });
            // Whatever fails must not leave the other thread running.
            let raced = std::panic::catch_unwind(|| {
                let tree = Tree::at(project.clone()).unwrap();
                for path in ["file", "dir/file"] {
                    let began = Instant::now();
                    while !fs::read(project.join(path)).is_ok_and(|bytes| bytes == SECRET) {
                        assert!(began.elapsed() < Duration::from_secs(60), "{path} never led out, so nothing is proven");
                    }
                    let (mut files, mut others, began) = (0, 0, Instant::now());
                    while began.elapsed() < Duration::from_millis(500) || files == 0 || others == 0 {
                        assert!(began.elapsed() < Duration::from_secs(60), "{path}: {files} files, {others} others");
                        match tree.now(path).unwrap() {
                            Now::File { bytes, .. } => {
                                assert_eq!(bytes, b"harmless");
                                files += 1;
                            }
                            _ => others += 1,
                        }
                    }
                }
            });
            over.store(true, Ordering::Relaxed);
            raced.unwrap();
        });
    }
}
