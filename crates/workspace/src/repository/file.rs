//! A file of a repository that the kernel writes: an object, a reference, a log, the index, or a lock of one.
//!
//! A repository may come with a project and is as hostile: a name of it may be a link to a file of the person's, or a pipe that never
//! answers. **Invariant.** What is written lies beneath the repository's own folder and is reached through no link; nothing but an ordinary
//! file is ever opened, and no open waits.

use crate::reader::Folder;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use world::{Code, Fault, Refusal, Stop};

/// A person's git holds a lock for moments.
const LOCK_MAX: Duration = Duration::from_secs(2);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

pub(super) struct RepositoryFile {
    /// Held open, so that it stays the same whatever becomes of its name.
    folder: OwnedFd,
    name: OsString,
    /// For words alone.
    path: PathBuf,
    uid: u32,
    gid: u32,
}

/// A lock that is held, or its file taken away when dropped.
pub(super) struct Lock {
    file: RepositoryFile,
    is_held: bool,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.is_held
            && let Err(error) = self.file.remove()
        {
            world::log!("skep: `{}` is left behind: {error}", self.file.path.display());
        }
    }
}

impl RepositoryFile {
    /// A name beneath `base`, whose folders are made where they are missing; `owner` has what root makes.
    pub fn of(base: &Path, name: &Path, owner: &Metadata) -> io::Result<RepositoryFile> {
        let mut folder = rustix::fs::open(base, FOLDER, Mode::empty())?;
        let (uid, gid) = (owner.uid(), owner.gid());
        for part in name.parent().unwrap_or(Path::new("")).components() {
            let part = part.as_os_str();
            folder = match rustix::fs::openat(&folder, part, FOLDER, Mode::empty()) {
                Err(Errno::NOENT) => {
                    let is_new = rustix::fs::mkdirat(&folder, part, Mode::from_raw_mode(0o777)).is_ok();
                    let made = rustix::fs::openat(&folder, part, FOLDER, Mode::empty())?;
                    if is_new {
                        rustix::fs::fchmod(&made, Mode::from_raw_mode(owner.mode() & 0o7777))?;
                        give(&made, uid, gid)?;
                    }
                    made
                }
                found => found?,
            };
        }
        Ok(RepositoryFile { folder, name: name.file_name().unwrap_or_default().to_owned(), path: base.join(name), uid, gid })
    }

    fn sibling(&self, name: OsString) -> io::Result<RepositoryFile> {
        let path = self.path.with_file_name(&name);
        Ok(RepositoryFile { folder: self.folder.try_clone()?, name, path, uid: self.uid, gid: self.gid })
    }

    /// Whether something has its name, whatever it is.
    pub fn exists(&self) -> bool {
        rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    fn rename(&self, to: &OsStr) -> io::Result<()> {
        rustix::fs::renameat(&self.folder, &self.name, &self.folder, to)?;
        Ok(rustix::fs::fsync(&self.folder)?)
    }

    /// A new file beside it, on disk.
    fn written(&self, bytes: &[u8], mode: u32) -> Result<RepositoryFile, Fault> {
        let mut name = OsString::from("tmp_skep_");
        name.push(&self.name);
        let failed = |error| Fault::io("write", &self.path, error);
        let beside = self.sibling(name).map_err(failed)?;
        drop(beside.remove());
        let write = || -> io::Result<()> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut file = File::from(rustix::fs::openat(&beside.folder, &beside.name, flags, Mode::from_raw_mode(mode))?);
            file.write_all(bytes)?;
            file.set_permissions(PermissionsExt::from_mode(mode))?;
            give(&file, self.uid, self.gid)?;
            file.sync_all()
        };
        write().map_err(failed)?;
        Ok(beside)
    }

    /// Replaces what is there, whatever it is, in one step.
    pub fn put(&self, bytes: &[u8], mode: u32) -> Result<(), Fault> {
        self.written(bytes, mode)?.rename(&self.name).map_err(|error| Fault::io("replace", &self.path, error))
    }

    /// Takes git's lock of the file, which is there at once with its content. One of the same content is ours, from before a crash.
    pub fn lock(&self, content: &[u8]) -> Result<Lock, Stop> {
        let failed = |error: io::Error| Fault::io("lock", &self.path, error);
        let mut name = self.name.clone();
        name.push(".lock");
        let file = self.sibling(name).map_err(failed)?;
        let beside = self.written(content, 0o644)?;
        let began = Instant::now();
        let is_ours = || file.held(content.len() as u64).is_some_and(|held| held == content);
        let linked = loop {
            match rustix::fs::linkat(&beside.folder, &beside.name, &file.folder, &file.name, AtFlags::empty()) {
                Err(Errno::EXIST) if is_ours() => drop(file.remove()),
                Err(Errno::EXIST) if began.elapsed() > LOCK_MAX => {
                    break Err(Refusal::new(Code::WrongState, format!("another git works here: `{}` is locked", self.path.display()))
                        .hint(format!("wait for it; if none runs, remove `{}`", file.path.display()))
                        .into());
                }
                Err(Errno::EXIST) => std::thread::sleep(Duration::from_millis(20)),
                Err(error) => break Err(Stop::from(failed(error.into()))),
                Ok(()) => break Ok(()),
            }
        };
        drop(beside.remove());
        linked.map(|()| Lock { file, is_held: true })
    }

    /// What it holds, if it is an ordinary file of at most so many bytes.
    fn held(&self, max: u64) -> Option<Vec<u8>> {
        Folder::of(self.folder.try_clone().ok()?, &self.path).read(&self.name, max).ok()
    }

    /// Adds to the end of an ordinary file, or makes one.
    pub fn append(&self, text: &str) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let stat = rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        let mut file = match stat {
            Err(Errno::NOENT) => {
                let made = rustix::fs::openat(&self.folder, &self.name, flags | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(0o666))?;
                give(&made, self.uid, self.gid)?;
                File::from(made)
            }
            // To open a device can already do something.
            Ok(stat) if !FileType::from_raw_mode(stat.st_mode).is_file() => return Err(io::Error::other("it is not an ordinary file")),
            _ => File::from(rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())?),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not an ordinary file"));
        }
        file.write_all(text.as_bytes())
    }
}

impl Lock {
    /// Has the lock's own file take the place of the file.
    pub fn commit(mut self, place: &RepositoryFile) -> Result<(), Fault> {
        self.file.rename(&place.name).map_err(|error| Fault::io("replace", &place.path, error))?;
        self.is_held = false;
        Ok(())
    }
}

/// The repository's owner has what root writes into it.
fn give(file: impl std::os::fd::AsFd, uid: u32, gid: u32) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
    Ok(rustix::fs::fchown(file, Some(uid), Some(gid))?)
}
