//! Deleting and moving one thing of the project, from inside the room.
//!
//! As with a write, every step of a path stays beneath the project and goes through no link; the last name is the thing itself,
//! so a link is deleted or moved and not what it points to.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, RenameFlags};

use super::write::{MissingFolder, open_folder, split};
use crate::fault::{Failure, Step};

/// Removes a file, a link or an empty folder.
pub(super) fn delete(path: &Path) -> Result<(), Failure> {
    let run = || -> io::Result<()> {
        let (folder, name) = open(path, MissingFolder::Refused)?;
        let flags = match owned_kind(&folder, name)? {
            FileType::Directory => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        };
        rustix::fs::unlinkat(&folder, name, flags)?;
        Ok(rustix::fs::fsync(&folder)?)
    };
    run().map_err(|error| Failure::new(Step::Delete, error).about(path.display()))
}

/// Gives a file, link or folder another name, which nothing may have yet.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), Failure> {
    let run = || -> io::Result<()> {
        let (old_folder, old_name) = open(from, MissingFolder::Refused)?;
        owned_kind(&old_folder, old_name)?;
        let (new_folder, new_name) = open(to, MissingFolder::Made)?;
        rustix::fs::renameat_with(&old_folder, old_name, &new_folder, new_name, RenameFlags::NOREPLACE)?;
        rustix::fs::fsync(&new_folder)?;
        Ok(rustix::fs::fsync(&old_folder)?)
    };
    run().map_err(|error| Failure::new(Step::Move, error).about(from.display()))
}

fn open(path: &Path, missing: MissingFolder) -> io::Result<(OwnedFd, &OsStr)> {
    let (folder, name) = split(path)?;
    Ok((open_folder(folder, missing)?, name))
}

/// What stands there, if it is ours to change.
fn owned_kind(folder: impl AsFd, name: &OsStr) -> io::Result<FileType> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    // The overlay could hide it, but then the merge could not tell whose file it was.
    if kind == FileType::RegularFile && stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(io::Error::from_raw_os_error(libc::EOVERFLOW));
    }
    Ok(kind)
}
