//! The project's files as a merge finds them: what stands at a path.
//!
//! **Invariant.** Everything happens beneath the project's descriptor and through no symbolic link.

use crate::hash;
use crate::shape::ReadBlob;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use world::{Fault, limits};

/// What stands, or shall stand, at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
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
    /// A folder that takes the place of a file, or gives it up to one; what is in it are changes of their own.
    Folder,
}

impl State {
    /// Whether what stands there is this; owners are not compared.
    pub fn is(&self, now: &FileState) -> bool {
        match (self, now) {
            (State::Absent, FileState::Absent) => true,
            (State::File { blob, mode, .. }, FileState::File { bytes, mode: now, .. }) => {
                mode.is_none_or(|mode| mode == *now) && hash::sha256(bytes) == *blob
            }
            (State::Link { target }, FileState::Link { target: now }) => target == now,
            (State::Folder, FileState::Folder) => true,
            _ => false,
        }
    }

    /// The same without mode and owner, to compare what two looks found.
    pub fn plain(&self) -> State {
        match self {
            State::File { blob, .. } => State::File { blob: blob.clone(), mode: None, owner: None },
            other => other.clone(),
        }
    }

    /// Its bytes; a link's are its target.
    pub fn bytes(&self, blobs: &ReadBlob<'_>) -> Result<Vec<u8>, Fault> {
        match self {
            State::Absent | State::Folder => Ok(Vec::new()),
            State::File { blob, .. } => blobs(blob),
            State::Link { target } => Ok(format!("-> {target}\n").into_bytes()),
        }
    }
}

/// What stands at a path now, read whole.
#[derive(Debug)]
pub enum FileState {
    Absent,
    File {
        bytes: Vec<u8>,
        mode: u32,
        owner: (u32, u32),
    },
    Link {
        target: String,
    },
    Folder,
    /// Something special, or a file that is too large to be read.
    Other,
}

impl FileState {
    /// Keeps what stands there; `None` for what can't be kept.
    pub fn keep(&self, keep: &dyn Fn(&[u8]) -> Result<String, Fault>) -> Result<Option<State>, Fault> {
        Ok(match self {
            FileState::Absent => Some(State::Absent),
            FileState::File { bytes, mode, owner } => Some(State::File { blob: keep(bytes)?, mode: Some(*mode), owner: Some(*owner) }),
            FileState::Link { target } => Some(State::Link { target: target.clone() }),
            FileState::Folder | FileState::Other => None,
        })
    }
}

pub struct FileTree {
    pub root: OwnedFd,
    pub project: PathBuf,
    /// Whether two files can be exchanged here, as far as the kernel was told.
    pub exchanges: bool,
}

impl FileTree {
    pub fn at(folder: PathBuf) -> Result<FileTree, Fault> {
        Ok(FileTree { root: open_root(&folder)?, project: folder, exchanges: true })
    }

    /// The same where two files cannot be exchanged in one step.
    #[must_use]
    pub fn exchanging(self, exchanges: bool) -> FileTree {
        FileTree { exchanges, ..self }
    }

    /// A tree that is seen through a room.
    pub fn through(root: BorrowedFd<'_>, project: &Path) -> Result<FileTree, Fault> {
        let root = root.try_clone_to_owned().map_err(|error| Fault::io("open", project, error))?;
        Ok(FileTree { root, project: project.to_owned(), exchanges: true })
    }

    pub fn now(&self, path: &str) -> Result<FileState, Fault> {
        self.now_at(Path::new(path))
    }

    /// The same at a path whose name may be no text.
    pub fn now_at(&self, at: &Path) -> Result<FileState, Fault> {
        let Some(name) = at.file_name() else { return Ok(FileState::Other) };
        match self.parent(at, false) {
            Ok(parent) => read(&parent, name).map_err(|error| self.fault("read", at, error)),
            // A file where its folder should be: the file may be on its way out.
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(FileState::Absent),
            Err(Errno::LOOP | Errno::XDEV) => Ok(FileState::Other),
            Err(error) => Err(self.fault("open the folder of", at, error)),
        }
    }

    /// Opens a path's folder beneath the root without following links, making it where a new file needs it.
    pub fn parent(&self, path: &Path, make: bool) -> Result<OwnedFd, Errno> {
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

    /// Where a link at this path leads, by its text; `None` where there is no link.
    pub fn link(&self, path: &Path) -> Result<Option<OsString>, Fault> {
        let Some(name) = path.file_name() else { return Ok(None) };
        let read = self.parent(path, false).and_then(|parent| rustix::fs::readlinkat(&parent, name, Vec::new()));
        match read {
            Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::INVAL | Errno::LOOP | Errno::XDEV) => Ok(None),
            Err(error) => Err(self.fault("read", path, error)),
        }
    }

    /// The names in a folder, each with what it is; none where there is no folder.
    pub fn entries(&self, folder: &Path) -> Result<Vec<(OsString, FileType)>, Fault> {
        let list = |folder: OwnedFd| -> Result<Vec<(OsString, FileType)>, Errno> {
            let mut found = Vec::new();
            for entry in rustix::fs::Dir::read_from(&folder)? {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if name == b"." || name == b".." {
                    continue;
                }
                let name = OsString::from_vec(name.to_vec());
                let kind = match entry.file_type() {
                    // Some file systems do not tell.
                    FileType::Unknown => match rustix::fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                        Err(Errno::NOENT) => continue,
                        Err(error) => return Err(error),
                    },
                    kind => kind,
                };
                found.push((name, kind));
            }
            Ok(found)
        };
        match self.parent(&folder.join("x"), false).and_then(list) {
            Ok(found) => Ok(found),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(Vec::new()),
            Err(error) => Err(self.fault("list", folder, error)),
        }
    }

    pub fn fault(&self, verb: &str, path: &Path, error: Errno) -> Fault {
        Fault::io(verb, &self.project.join(path), error)
    }
}

/// A descriptor of a project's folder, for reads beneath it.
pub fn open_root(project: &Path) -> Result<OwnedFd, Fault> {
    rustix::fs::open(project, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| Fault::io("open", project, error))
}

/// What stands at a name. It is found first and opened after that, so what is opened is what was looked at: a pipe or a device that takes
/// the name in between is not.
pub fn read(parent: &OwnedFd, name: &OsStr) -> Result<FileState, Errno> {
    let found = match rustix::fs::openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(FileState::Absent),
        Err(error) => return Err(error),
    };
    let stat = rustix::fs::fstat(&found)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_size as u64 <= limits::MERGE_FILE_MAX => {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let file = rustix::fs::open(format!("/proc/self/fd/{}", found.as_raw_fd()), flags, Mode::empty())?;
            let mut bytes = Vec::new();
            let read = std::fs::File::from(file).take(limits::MERGE_FILE_MAX + 1).read_to_end(&mut bytes);
            read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            // It grew while it was read.
            if bytes.len() as u64 > limits::MERGE_FILE_MAX {
                return Ok(FileState::Other);
            }
            Ok(FileState::File { bytes, mode: stat.st_mode & 0o7777, owner: (stat.st_uid, stat.st_gid) })
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(&found, "", Vec::new())?;
            Ok(target.into_string().map_or(FileState::Other, |target| FileState::Link { target }))
        }
        FileType::Directory => Ok(FileState::Folder),
        _ => Ok(FileState::Other),
    }
}

pub fn names(folder: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name.to_vec()));
        }
    }
    Ok(names)
}

pub fn owner_of(root: impl AsFd) -> Result<(u32, u32), Errno> {
    let stat = rustix::fs::statat(root, "", AtFlags::EMPTY_PATH)?;
    Ok((stat.st_uid, stat.st_gid))
}

pub fn give(file: impl AsFd, (uid, gid): (u32, u32)) -> Result<(), Errno> {
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
                let tree = FileTree::at(project.clone()).unwrap();
                for path in ["file", "dir/file"] {
                    let began = Instant::now();
                    while !fs::read(project.join(path)).is_ok_and(|bytes| bytes == SECRET) {
                        assert!(began.elapsed() < Duration::from_secs(60), "{path} never led out, so nothing is proven");
                    }
                    let (mut files, mut others, began) = (0, 0, Instant::now());
                    while began.elapsed() < Duration::from_millis(500) || files == 0 || others == 0 {
                        assert!(began.elapsed() < Duration::from_secs(60), "{path}: {files} files, {others} others");
                        match tree.now(path).unwrap() {
                            FileState::File { bytes, .. } => {
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

    /// A file becomes a pipe that somebody writes to, and comes back: it is read, or it is something else, and never an error.
    #[test]
    fn a_file_that_becomes_a_pipe_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let (file, pipe) = (folder.path().join("file"), folder.path().join("pipe"));
        fs::write(&file, "harmless").unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        // With a writer that says nothing, a read of the pipe has nothing to give and would have to wait.
        let _writer = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                while !over.load(Ordering::Relaxed) {
                    rustix::fs::renameat_with(rustix::fs::CWD, &file, rustix::fs::CWD, &pipe, flags).unwrap();
                }
            });
            let raced = std::panic::catch_unwind(|| {
                let tree = FileTree::at(folder.path().to_owned()).unwrap();
                let (mut files, mut others) = (0, 0);
                while files < 5_000 || others < 5_000 {
                    match tree.now("file").unwrap() {
                        FileState::File { bytes, .. } => {
                            assert_eq!(bytes, b"harmless");
                            files += 1;
                        }
                        FileState::Other => others += 1,
                        other => panic!("{other:?}"),
                    }
                }
            });
            over.store(true, Ordering::Relaxed);
            raced.unwrap();
        });
    }
}
