//! Writing one file of the project, from inside the room.
//!
//! The new content appears at once or not at all, and every step of the path stays beneath the project, whatever a job may
//! have made of its folders meanwhile.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::fault::Failure;
use crate::fault::Step;
use crate::sys;

/// A write that was killed half-way leaves a file of this name, which is nobody's change.
pub(crate) const TEMPORARY_PREFIX: &str = ".skep-write-";

/// Replaces `path`, relative to the current directory, with what stdin brings.
pub(super) fn run(path: &Path, mode: Option<u32>) -> Result<(), Failure> {
    write(path, mode).map_err(|error| Failure::new(Step::Write, error).about(path.display()))
}

fn write(path: &Path, mode: Option<u32>) -> io::Result<()> {
    let (folder, name) = split(path)?;
    let folder = open_folder(folder, MissingFolder::Made)?;
    let mode = match existing_mode(&folder, name)? {
        Some(kept) => kept,
        None => Mode::from_raw_mode(mode.unwrap_or(0o644) & 0o777),
    };
    // Pids are unique among those who could write here at the same time only in one room; the start time makes them so.
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_nanos());
    let temporary = format!("{TEMPORARY_PREFIX}{now:x}");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(&folder, &temporary, flags, Mode::from_raw_mode(0o600))?);
    let written = io::copy(&mut File::from(sys::placed(0)), &mut file)
        .and_then(|_| Ok(rustix::fs::fchmod(&file, mode)?))
        .and_then(|()| file.sync_all())
        .and_then(|()| Ok(rustix::fs::renameat(&folder, &temporary, &folder, name)?));
    if written.is_err() {
        let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
    }
    written?;
    rustix::fs::fsync(&folder)?;
    Ok(())
}

/// A path of the project in two: its folder and its last name.
pub(super) fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(invalid());
    }
    Ok((path.parent().unwrap_or(Path::new("")), path.file_name().ok_or_else(invalid)?))
}

/// What happens with folders that are not there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingFolder {
    Made,
    Refused,
}

/// Opens a folder of the project.
pub(super) fn open_folder(path: &Path, missing: MissingFolder) -> io::Result<OwnedFd> {
    // The path was decided as a real one: a link on the way was put there since.
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let project = rustix::fs::open(".", flags, Mode::empty())?;
    let mut folder = project.try_clone()?;
    let mut walked = std::path::PathBuf::new();
    for part in path.components() {
        walked.push(part);
        folder = match rustix::fs::openat2(&project, &walked, flags, Mode::empty(), resolve) {
            Err(Errno::NOENT) if missing == MissingFolder::Made => {
                match rustix::fs::mkdirat(&folder, part.as_os_str(), Mode::from_raw_mode(0o755)) {
                    // A write beside this one made it; what it is, is seen when it is opened.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                rustix::fs::openat2(&project, &walked, flags, Mode::empty(), resolve)?
            }
            other => other?,
        };
    }
    Ok(folder)
}

/// The mode of the file that will be replaced. Only a regular file of our own is.
fn existing_mode(folder: impl AsFd, name: &OsStr) -> io::Result<Option<Mode>> {
    let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let refused = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_uid == rustix::process::geteuid().as_raw() => {
            return Ok(Some(Mode::from_raw_mode(stat.st_mode & 0o777)));
        }
        // A rename could replace it, but then the merge could not tell whose file it was.
        FileType::RegularFile => libc::EOVERFLOW,
        FileType::Directory => libc::EISDIR,
        FileType::Symlink => libc::ELOOP,
        _ => libc::EACCES,
    };
    Err(io::Error::from_raw_os_error(refused))
}
