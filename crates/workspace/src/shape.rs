//! What stands at one name of a folder, whole: nothing, a file, a link, or a folder with everything in it.
//!
//! **Invariant.** What is held is what was seen: a file by a lease, all else by its inode and another look. Changes nothing.

use crate::hash;
use crate::tree::{State, names};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use sandbox::{NoLease, WriteLease};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use world::Fault;
use world::limits;

/// Deeper than any folder that a merge swaps.
const DEPTH_MAX: usize = 200;

/// Reads a kept content by its name.
pub type ReadBlob<'a> = dyn Fn(&str) -> Result<Vec<u8>, Fault> + Sync + 'a;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    Absent,
    /// A file or a link.
    Single(State),
    /// Every file and link in it, by its path from here. Folders without any do not count.
    Folder(BTreeMap<PathBuf, State>),
}

impl Shape {
    /// What it has at a path from here.
    pub fn at(&self, path: &Path) -> Option<&State> {
        match self {
            Shape::Absent => None,
            Shape::Single(state) => path.as_os_str().is_empty().then_some(state),
            Shape::Folder(members) => members.get(path),
        }
    }
}

/// A name in an open folder.
#[derive(Clone, Copy)]
pub struct Spot<'a> {
    pub folder: &'a OwnedFd,
    pub name: &'a OsStr,
}

/// What was seen at a place: a file under a lease, and anything by its inode.
#[derive(Debug)]
pub struct Grip {
    inode: Option<(u64, u64)>,
    pub lease: Option<WriteLease>,
    /// Permission bits and owner of a file.
    pub kept: Option<(u32, (u32, u32))>,
}

#[derive(Debug)]
pub enum Seen {
    As(Grip),
    Unlike,
    /// Somebody has a file open for writing.
    Busy,
    /// Whether somebody has cannot be told.
    Unproven,
}

/// How sure we must be that nobody has a file open for writing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    Lease,
    /// By a lease where one can be had.
    Waived,
    /// Not at all: it is only looked at.
    Glance,
}

impl Spot<'_> {
    pub fn stat(&self) -> Result<Option<Stat>, Errno> {
        match rustix::fs::statat(self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether exactly this stands here; if so, it is held on to.
    pub fn hold(&self, shape: &Shape, proof: Proof) -> Result<Seen, Errno> {
        let stat = self.stat()?;
        let kind = stat.as_ref().map(|stat| FileType::from_raw_mode(stat.st_mode));
        let inode = stat.as_ref().map(|stat| (stat.st_dev, stat.st_ino));
        let plain = Ok(Seen::As(Grip { inode, lease: None, kept: None }));
        match (shape, kind) {
            (Shape::Absent, None) => plain,
            (Shape::Single(State::Link { target }), Some(FileType::Symlink)) => {
                if self.leads(target)? {
                    plain
                } else {
                    Ok(Seen::Unlike)
                }
            }
            (Shape::Single(state @ State::File { .. }), Some(FileType::RegularFile)) => self.hold_file(state, proof),
            (Shape::Folder(members), Some(FileType::Directory)) => match self.is_whole(members, proof)? {
                Seen::As(_) => plain,
                other => Ok(other),
            },
            _ => Ok(Seen::Unlike),
        }
    }

    /// Whether what was held stands here now and nobody has tried to change it.
    pub fn is_held(&self, grip: &Grip, shape: &Shape) -> Result<bool, Errno> {
        let Some(stat) = self.stat()? else { return Ok(false) };
        if Some((stat.st_dev, stat.st_ino)) != grip.inode {
            return Ok(false);
        }
        match &grip.lease {
            Some(lease) => Ok(lease.holds()),
            None => Ok(matches!(self.hold(shape, Proof::Waived)?, Seen::As(_))),
        }
    }

    pub fn is(&self, shape: &Shape) -> Result<bool, Errno> {
        Ok(matches!(self.hold(shape, Proof::Glance)?, Seen::As(_)))
    }

    pub fn leads(&self, target: &str) -> Result<bool, Errno> {
        match rustix::fs::readlinkat(self.folder, self.name, Vec::new()) {
            Ok(now) => Ok(now.as_bytes() == target.as_bytes()),
            Err(Errno::NOENT | Errno::INVAL) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens what is a regular file; `None` when it is something else by now, or not readable.
    pub fn open(&self) -> Result<Option<File>, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match rustix::fs::openat(self.folder, self.name, flags, Mode::empty()) {
            Ok(file) => {
                let stat = rustix::fs::fstat(&file)?;
                Ok((FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| file.into()))
            }
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::ACCESS | Errno::PERM | Errno::AGAIN) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn hold_file(&self, state: &State, proof: Proof) -> Result<Seen, Errno> {
        let Some(file) = self.open()? else { return Ok(Seen::Unlike) };
        let stat = rustix::fs::fstat(&file)?;
        let again = file.try_clone().map_err(|error| errno(&error))?;
        let lease = match (proof, (proof != Proof::Glance).then(|| WriteLease::take(file))) {
            (_, None) => None,
            (_, Some(Ok(lease))) => Some(lease),
            (_, Some(Err(NoLease::Busy))) => return Ok(Seen::Busy),
            (Proof::Lease, Some(Err(NoLease::Unknown(_)))) => return Ok(Seen::Unproven),
            (_, Some(Err(NoLease::Unknown(_)))) => None,
        };
        let State::File { blob, mode, .. } = state else { return Ok(Seen::Unlike) };
        let now = stat.st_mode & 0o7777;
        if mode.is_some_and(|mode| mode != now) || !holds(lease.as_ref().map_or(&again, WriteLease::file), blob)? {
            return Ok(Seen::Unlike);
        }
        Ok(Seen::As(Grip { inode: Some((stat.st_dev, stat.st_ino)), lease, kept: Some((now, (stat.st_uid, stat.st_gid))) }))
    }

    fn is_whole(&self, members: &BTreeMap<PathBuf, State>, proof: Proof) -> Result<Seen, Errno> {
        let mut found = 0;
        let seen = self.walk(&mut |spot: Spot<'_>, path: &Path, kind| {
            let state = members.get(path).cloned().map(Shape::Single);
            let seen = match (kind, state) {
                (FileType::Directory, None) => return Ok(None),
                (_, Some(shape)) => spot.hold(&shape, proof)?,
                (_, None) => Seen::Unlike,
            };
            Ok(match seen {
                Seen::As(_) => {
                    found += 1;
                    None
                }
                other => Some(other),
            })
        })?;
        Ok(match seen {
            Some(seen) => seen,
            None if found == members.len() => Seen::As(Grip { inode: None, lease: None, kept: None }),
            None => Seen::Unlike,
        })
    }

    /// Everything below a folder, until `look` has something to say.
    pub fn walk(&self, look: &mut Looker<'_>) -> Result<Option<Seen>, Errno> {
        fn go(folder: &OwnedFd, at: &Path, depth: usize, look: &mut Looker<'_>) -> Result<Option<Seen>, Errno> {
            if depth > DEPTH_MAX {
                return Ok(Some(Seen::Unlike));
            }
            for name in names(folder)? {
                let spot = Spot { folder, name: &name };
                let Some(stat) = spot.stat()? else { continue };
                let (kind, path) = (FileType::from_raw_mode(stat.st_mode), at.join(&name));
                if let Some(seen) = look(spot, &path, kind)? {
                    return Ok(Some(seen));
                }
                if kind == FileType::Directory {
                    let Some(inner) = spot.open_folder()? else { return Ok(Some(Seen::Unlike)) };
                    if let Some(seen) = go(&inner, &path, depth + 1, look)? {
                        return Ok(Some(seen));
                    }
                }
            }
            Ok(None)
        }
        match self.open_folder()? {
            Some(folder) => go(&folder, Path::new(""), 0, look),
            None => Ok(Some(Seen::Unlike)),
        }
    }

    pub fn open_folder(&self) -> Result<Option<OwnedFd>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(self.folder, self.name, flags, Mode::empty()) {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A file of which nobody can tell whether it is open for writing.
    pub fn is_unproven(&self) -> Result<bool, Errno> {
        let file = match self.stat()? {
            Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => self.open()?,
            _ => return Ok(false),
        };
        Ok(file.is_none_or(|file| matches!(WriteLease::take(file), Err(NoLease::Unknown(_)))))
    }

    /// Whether a folder has nothing at one of these paths.
    pub fn lacks<'p>(&self, mut paths: impl Iterator<Item = &'p PathBuf>) -> Result<bool, Errno> {
        let Some(folder) = self.open_folder()? else { return Ok(true) };
        Ok(paths.any(|path| rustix::fs::statat(&folder, path, AtFlags::SYMLINK_NOFOLLOW).is_err()))
    }

    pub fn fault(&self, verb: &str, error: Errno) -> Fault {
        Fault::io(verb, Path::new(self.name), error)
    }
}

type Looker<'a> = dyn FnMut(Spot<'_>, &Path, FileType) -> Result<Option<Seen>, Errno> + 'a;

/// Puts one of two names in the other's place, in one step.
pub fn exchange(folder: &OwnedFd, one: &OsStr, other: &OsStr) -> Result<(), Errno> {
    rustix::fs::renameat_with(folder, one, folder, other, RenameFlags::EXCHANGE)
}

pub fn holds(file: &File, blob: &str) -> Result<bool, Errno> {
    let mut file = file;
    file.rewind().map_err(|error| errno(&error))?;
    let name = hash::sha256_of(file.take(limits::MERGE_FILE_MAX + 1)).map_err(|error| errno(&error))?;
    Ok(name == blob)
}

pub fn read(file: &File) -> Result<Option<Vec<u8>>, Errno> {
    let mut file = file;
    let mut bytes = Vec::new();
    file.rewind().map_err(|error| errno(&error))?;
    file.take(limits::MERGE_FILE_MAX + 1).read_to_end(&mut bytes).map_err(|error| errno(&error))?;
    Ok((bytes.len() as u64 <= limits::MERGE_FILE_MAX).then_some(bytes))
}

pub fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
