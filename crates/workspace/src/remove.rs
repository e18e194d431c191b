//! Removes what stands at a name, or gives it another one.
//!
//! **Invariant.** A file is removed only under a lease, when nobody has it open for writing and its content is one that we hold; anything
//! else is left where it is.

use crate::shape::{Grip, Proof, ReadBlob, Seen, Shape, Spot, errno, holds, read};
use crate::tree::{State, give, names};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use sandbox::{NoLease, WriteLease};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Seek;
use std::path::Path;
use std::time::Duration;
use world::Fault;

/// Deeper than any folder that a merge swaps.
const DEPTH_MAX: usize = 200;
/// Longer than an editor needs to save a file that it has opened.
const WRITERS_MAX: Duration = Duration::from_secs(5);

/// What came of removing what was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    Yes,
    /// It is not what was held any more; it is still there, or the rest of it.
    No,
    /// Somebody had found it before its name was taken, opened it when it was gone, and writes to it still. What they wrote so far is there.
    Late,
}

/// The contents that we hold.
pub struct Known<'a> {
    /// Known only as a whole: a part of it is what somebody made of it.
    pub whole: &'a [&'a Shape],
    /// What we were writing: a crash may have left a beginning of it.
    pub written: Option<&'a Shape>,
}

impl Known<'_> {
    fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.whole.iter().copied().chain(self.written)
    }
}

impl Spot<'_> {
    /// Removes what was held here, if it is held still.
    pub fn remove_held(&self, grip: &Grip, shape: &Shape, proof: Proof, blobs: &ReadBlob<'_>) -> Result<Removed, Fault> {
        if !self.is_held(grip, shape).map_err(|error| self.fault("remove", error))? {
            return Ok(Removed::No);
        }
        match &grip.lease {
            Some(lease) => self.unlink_leased(lease, || {}),
            None => Ok(if self.remove(&Known { whole: &[shape], written: None }, proof, blobs)? { Removed::Yes } else { Removed::No }),
        }
    }

    /// Removes a file under its lease. Whoever found its name before, and opens it for writing at this very moment, would write to a file
    /// without a name: then what they made of it gets the name again. `meanwhile` is that moment, for tests.
    pub fn unlink_leased(&self, lease: &WriteLease, meanwhile: impl FnOnce()) -> Result<Removed, Fault> {
        if !lease.holds() {
            return Ok(Removed::No);
        }
        meanwhile();
        rustix::fs::unlinkat(self.folder, self.name, AtFlags::empty()).map_err(|error| self.fault("remove", error))?;
        if lease.holds() {
            return Ok(Removed::Yes);
        }
        let is_whole = lease.wait_for_writers(WRITERS_MAX);
        self.copy_from(lease.file()).map_err(|error| self.fault("keep", error))?;
        Ok(if is_whole { Removed::No } else { Removed::Late })
    }

    /// Makes a file here that holds what an open one does, where nothing is.
    fn copy_from(&self, mut file: &File) -> Result<(), Errno> {
        let stat = rustix::fs::fstat(file)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut copy = File::from(rustix::fs::openat(self.folder, self.name, flags, Mode::RUSR | Mode::WUSR)?);
        file.rewind().and_then(|()| std::io::copy(&mut file, &mut copy)).map_err(|error| errno(&error))?;
        give(&copy, (stat.st_uid, stat.st_gid))?;
        rustix::fs::fchmod(&copy, Mode::from_raw_mode(stat.st_mode & 0o777))?;
        rustix::fs::fsync(&copy)
    }

    /// Removes all that stands here if every content in it is known. Says whether nothing is left.
    pub fn remove(&self, known: &Known<'_>, proof: Proof, blobs: &ReadBlob<'_>) -> Result<bool, Fault> {
        if !self.is_known(known, proof, blobs)? {
            return Ok(false);
        }
        self.remove_at(known, Path::new(""), 0, proof, blobs)
    }

    /// Whether every content that stands here is known.
    pub fn is_known(&self, known: &Known<'_>, proof: Proof, blobs: &ReadBlob<'_>) -> Result<bool, Fault> {
        let look = |spot: &Spot<'_>, path: &Path, kind| match kind {
            FileType::Directory => Ok(true),
            FileType::RegularFile => Ok(spot.known_file(known, path, proof, blobs)?.is_some()),
            FileType::Symlink => spot.known_link(known, path).map_err(|error| spot.fault("read", error)),
            _ => Ok(false),
        };
        let Some(stat) = self.stat().map_err(|error| self.fault("look at", error))? else { return Ok(true) };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let mut failed = None;
                let seen = self.walk(&mut |spot: Spot<'_>, path: &Path, kind| match look(&spot, path, kind) {
                    Ok(true) => Ok(None),
                    Ok(false) => Ok(Some(Seen::Unlike)),
                    Err(fault) => {
                        failed = Some(fault);
                        Ok(Some(Seen::Unlike))
                    }
                });
                let seen = seen.map_err(|error| self.fault("look through", error))?;
                failed.map_or(Ok(seen.is_none()), Err)
            }
            kind => look(self, Path::new(""), kind),
        }
    }

    fn known_link(&self, known: &Known<'_>, path: &Path) -> Result<bool, Errno> {
        for state in known.shapes().filter_map(|shape| shape.at(path)) {
            if let State::Link { target } = state
                && self.leads(target)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The lease, if one is needed, of a file with a content that we hold.
    fn known_file(&self, known: &Known<'_>, path: &Path, proof: Proof, blobs: &ReadBlob<'_>) -> Result<Option<Option<WriteLease>>, Fault> {
        let fault = |error| self.fault("read", error);
        let Some(file) = self.open().map_err(fault)? else { return Ok(None) };
        let again = file.try_clone().map_err(|error| fault(errno(&error)))?;
        let lease = match (WriteLease::take(file), proof) {
            (Ok(lease), _) => Some(lease),
            (Err(NoLease::Unknown(_)), Proof::Waived | Proof::Glance) => None,
            (Err(_), _) => return Ok(None),
        };
        let blob = |shape: &'_ Shape| match shape.at(path) {
            Some(State::File { blob, .. }) => Some(blob.clone()),
            _ => None,
        };
        let file = lease.as_ref().map_or(&again, WriteLease::file);
        for blob in known.shapes().filter_map(blob) {
            if holds(file, &blob).map_err(fault)? {
                return Ok(Some(lease));
            }
        }
        let Some(written) = known.written.and_then(blob) else { return Ok(None) };
        let Some(bytes) = read(file).map_err(fault)? else { return Ok(None) };
        Ok(blobs(&written)?.starts_with(&bytes).then_some(lease))
    }

    fn remove_at(&self, known: &Known<'_>, path: &Path, depth: usize, proof: Proof, blobs: &ReadBlob<'_>) -> Result<bool, Fault> {
        let fault = |error| self.fault("remove", error);
        let Some(stat) = self.stat().map_err(fault)? else { return Ok(true) };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => match self.known_file(known, path, proof, blobs)? {
                None => Ok(false),
                Some(Some(lease)) => Ok(self.unlink_leased(&lease, || {})? == Removed::Yes),
                Some(None) => {
                    rustix::fs::unlinkat(self.folder, self.name, AtFlags::empty()).map_err(fault)?;
                    Ok(true)
                }
            },
            FileType::Symlink if self.known_link(known, path).map_err(fault)? => {
                rustix::fs::unlinkat(self.folder, self.name, AtFlags::empty()).map_err(fault)?;
                Ok(true)
            }
            FileType::Directory if depth <= DEPTH_MAX => {
                let Some(folder) = self.open_folder().map_err(fault)? else { return Ok(false) };
                let mut gone = true;
                for name in names(&folder).map_err(fault)? {
                    let inner = Spot { folder: &folder, name: &name };
                    gone &= inner.remove_at(known, &path.join(&name), depth + 1, proof, blobs)?;
                }
                if !gone {
                    return Ok(false);
                }
                match rustix::fs::unlinkat(self.folder, self.name, AtFlags::REMOVEDIR) {
                    Ok(()) => Ok(true),
                    Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
                    Err(error) => Err(fault(error)),
                }
            }
            _ => Ok(false),
        }
    }

    /// Gives what stands here, whatever it is, a name beside `place` that nothing has, and tells it.
    pub fn keep(&self, place: &OsStr) -> Result<String, Fault> {
        let stem = place.to_string_lossy();
        let stem: String = stem.char_indices().take_while(|(at, c)| at + c.len_utf8() <= 230).map(|(_, c)| c).collect();
        for number in 1.. {
            let name = if number == 1 { format!("{stem}.skep-kept") } else { format!("{stem}.skep-kept-{number}") };
            match self.rename_new(OsStr::new(&name)) {
                Ok(()) => return Ok(name),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(self.fault("keep", error)),
            }
        }
        Err(self.fault("keep", Errno::EXIST))
    }

    /// Takes a name that nothing has.
    pub fn rename_new(&self, name: &OsStr) -> Result<(), Errno> {
        match rustix::fs::renameat_with(self.folder, self.name, self.folder, name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => self.link_new(name),
            other => other,
        }
    }

    /// The same where the file system does not know the flag: a second link is made only where nothing is.
    fn link_new(&self, name: &OsStr) -> Result<(), Errno> {
        match rustix::fs::linkat(self.folder, self.name, self.folder, name, AtFlags::empty()) {
            Ok(()) => rustix::fs::unlinkat(self.folder, self.name, AtFlags::empty()),
            Err(Errno::EXIST) => Err(Errno::EXIST),
            // A folder, or no links at all.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::ISDIR | Errno::MLINK) => match (Spot { folder: self.folder, name }).stat()? {
                Some(_) => Err(Errno::EXIST),
                None => rustix::fs::renameat(self.folder, self.name, self.folder, name),
            },
            Err(error) => Err(error),
        }
    }
}
