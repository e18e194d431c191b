//! How the kernel reads files of a project: the one way, whoever wrote them.
//!
//! A project is hostile text: a name may be a link that leads out, a pipe that never answers, a device, a file without end, or become
//! one of these between two looks. **Invariant.** What is read lies beneath the folder it was asked of and is reached through no link
//! and no other mount; nothing but an ordinary file is ever opened, and no more than the asked size of it is held. No async worker waits for a
//! file system: [`bounded`] does the work elsewhere, and for so long only.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::Semaphore;
use world::{Fault, FaultKind};

/// Longer than any local disk needs for a few small files.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Longer than a cold disk needs for the folders of a project of a million files.
const WALK_TIME_MAX: Duration = Duration::from_secs(60);
/// Reads at a time. One that hangs keeps its place, so a file system that never answers costs this many threads and not all.
static PLACES: Semaphore = Semaphore::const_new(8);
/// A file that is written to all the time is given up on after so many tries.
const TRIES: usize = 3;

/// Why a file was not read. Says nothing of what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    Absent,
    /// A link, folder, pipe, socket or device.
    NotOrdinary,
    /// A link or another mount on the way, or a way out of the folder.
    LeadsAway,
    TooLarge,
    /// Its size or times changed during each try.
    Changing,
    Failed(Errno),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Absent => f.write_str("it is not there"),
            Unread::NotOrdinary => f.write_str("it is not an ordinary file"),
            Unread::LeadsAway => f.write_str("a link or another file system is on the way to it"),
            Unread::TooLarge => f.write_str("it is too large"),
            Unread::Changing => f.write_str("it changes while it is read"),
            Unread::Failed(error) => write!(f, "{error}"),
        }
    }
}

impl From<Errno> for Unread {
    fn from(error: Errno) -> Unread {
        match error {
            Errno::NOENT | Errno::NOTDIR => Unread::Absent,
            Errno::LOOP | Errno::XDEV => Unread::LeadsAway,
            error => Unread::Failed(error),
        }
    }
}

impl From<Unread> for std::io::Error {
    fn from(why: Unread) -> std::io::Error {
        match why {
            Unread::Absent => std::io::ErrorKind::NotFound.into(),
            Unread::Failed(error) => error.into(),
            why => std::io::Error::other(why.to_string()),
        }
    }
}

/// A folder that files are read from, held open: it stays the same one whatever becomes of its name.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// A folder by a path that is trusted: a project's, or one that was looked into already.
    pub fn open(path: &Path) -> Result<Folder, Unread> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Folder { fd: rustix::fs::open(path, flags, Mode::empty())?, path: path.to_owned() })
    }

    /// A folder that is open already, such as the project as a room sees it.
    pub fn of(fd: OwnedFd, path: &Path) -> Folder {
        Folder { fd, path: path.to_owned() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder of this one.
    pub fn folder(&self, name: impl AsRef<Path>) -> Result<Folder, Unread> {
        let name = name.as_ref();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Folder { fd: self.open_at(name, flags, WITHIN)?, path: self.path.join(name) })
    }

    /// What stands at a name, without opening it.
    pub fn look(&self, name: impl AsRef<Path>) -> Result<Stat, Unread> {
        Ok(rustix::fs::fstat(self.find(name.as_ref())?)?)
    }

    /// Whether there is an ordinary file of this name.
    pub fn has_file(&self, name: &str) -> bool {
        self.look(name).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file())
    }

    pub fn stat(&self) -> Result<Stat, Unread> {
        Ok(rustix::fs::fstat(&self.fd)?)
    }

    /// The whole of an ordinary file of at most `max` bytes. Blocks as long as the file system does.
    pub fn read(&self, name: impl AsRef<Path>, max: u64) -> Result<Vec<u8>, Unread> {
        self.read_with_mode(name, max).map(|(bytes, _)| bytes)
    }

    /// The same, with its permission bits.
    pub fn read_with_mode(&self, name: impl AsRef<Path>, max: u64) -> Result<(Vec<u8>, u32), Unread> {
        for _ in 0..TRIES {
            let found = self.find(name.as_ref())?;
            // What it is, is known before it is opened: to open a device can already do something.
            let before = rustix::fs::fstat(&found)?;
            if !FileType::from_raw_mode(before.st_mode).is_file() {
                return Err(Unread::NotOrdinary);
            }
            if u64::try_from(before.st_size).is_ok_and(|size| size > max) {
                return Err(Unread::TooLarge);
            }
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::open(format!("/proc/self/fd/{}", found.as_raw_fd()), flags, Mode::empty())?);
            let mut bytes = Vec::new();
            let read = (&file).take(max.saturating_add(1)).read_to_end(&mut bytes);
            read.map_err(|error| Unread::Failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
            if bytes.len() as u64 > max {
                return Err(Unread::TooLarge);
            }
            let after = rustix::fs::fstat(&file)?;
            if stamp(&before) == stamp(&after) && u64::try_from(after.st_size) == Ok(bytes.len() as u64) {
                return Ok((bytes, before.st_mode & 0o7777));
            }
        }
        Err(Unread::Changing)
    }

    /// A folder of this one, or this one itself by an empty name, with what it holds. Mounts on the way are crossed: a walk opens no file.
    pub fn entries(&self, name: &Path) -> Result<Vec<Entry>, Unread> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = self.open_at(dot(name), flags, WITHIN)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not say it with the name.
                FileType::Unknown => rustix::fs::statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                kind => kind,
            };
            entries.push(Entry { name: OsString::from_vec(name.to_vec()), inode: entry.ino(), kind });
        }
        Ok(entries)
    }

    /// What stands at a name of a walk, without opening it; mounts on the way are crossed.
    pub fn look_within(&self, name: &Path) -> Result<Stat, Unread> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::fstat(self.open_at(dot(name), flags, WITHIN)?)?)
    }

    /// The names in a folder of this one; more than `max` are too many.
    pub fn list(&self, name: &str, max: usize) -> Result<Vec<OsString>, Unread> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = self.open_at(Path::new(name), flags, RESOLVE)?;
        let mut names = Vec::new();
        for entry in Dir::new(folder)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if matches!(name.as_slice(), b"." | b"..") {
                continue;
            }
            if names.len() == max {
                return Err(Unread::TooLarge);
            }
            names.push(OsString::from_vec(name));
        }
        Ok(names)
    }

    /// Opens what stands at a name. A rename anywhere on the host at that moment lets the system doubt a `..` in it; it says so and wants
    /// to be asked again.
    fn open_at(&self, name: &Path, flags: OFlags, how: ResolveFlags) -> rustix::io::Result<OwnedFd> {
        for _ in 0..DOUBTS_MAX {
            match rustix::fs::openat2(&self.fd, name, flags, Mode::empty(), how) {
                Err(rustix::io::Errno::AGAIN) => std::thread::yield_now(),
                settled => return settled,
            }
        }
        Err(rustix::io::Errno::AGAIN)
    }

    /// A handle on whatever stands there, which opens nothing.
    fn find(&self, name: &Path) -> Result<OwnedFd, Unread> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(self.open_at(name, flags, RESOLVE)?)
    }
}

/// One name in a folder, as its listing has it.
#[derive(Debug)]
pub struct Entry {
    pub name: OsString,
    pub inode: u64,
    pub kind: FileType,
}

/// More doubts in a row than any host renames: somebody wants them.
const DOUBTS_MAX: usize = 1_000;

/// For folders and names; files are read by [`RESOLVE`].
const WITHIN: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);
const RESOLVE: ResolveFlags = WITHIN.union(ResolveFlags::NO_XDEV);

fn dot(name: &Path) -> &Path {
    if name.as_os_str().is_empty() { Path::new(".") } else { name }
}

/// What changes with a file's content. Another name or mode changes only its third time.
fn stamp(stat: &Stat) -> (i64, i64, u64) {
    (stat.st_size, stat.st_mtime, stat.st_mtime_nsec)
}

/// For commands, which look at a project before they ask the kernel about it. Blocks.
pub fn read_project_file(project: &Path, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, String> {
    match Folder::open(project).and_then(|project| project.read(name, bytes_max)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Unread::Absent) => Ok(None),
        Err(why) => Err(why.to_string()),
    }
}

/// Does what reads a project's files away from the async workers. What takes too long is left to itself, and is a fault.
pub async fn bounded<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    within(TIME_MAX, work).await
}

/// The same for a walk through a whole project, of which the first may take a cold disk long.
pub async fn bounded_walk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    within(WALK_TIME_MAX, work).await
}

async fn within<T: Send + 'static>(time: Duration, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    let hangs = |why: &str| {
        Fault::new(FaultKind::Io, "the project's files could not be read in time", why)
            .fix("look whether the file system of the project answers: `ls` it")
    };
    let read = async {
        // The semaphore is never closed.
        let place = PLACES.acquire().await.map_err(|_| hangs("the kernel stops"))?;
        let read = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        read.await.map_err(|error| Fault::new(FaultKind::Bug, "reading a project's files failed", error))
    };
    tokio::time::timeout(time, read).await.map_err(|_| hangs("its file system does not answer"))?
}

#[cfg(test)]
mod tests;
