//! Puts something else at a path of the project, in two halves, so that many paths can become durable together.
//!
//! **Invariant.** A path holds its old or its new content and nothing between, whenever the kernel dies. Nothing takes a place that does not
//! hold any more what it held when the change was decided.

use super::tree::{Now, State, Tree, give, owner_of, read};
use crate::fault::Fault;
use crate::{Kernel, hash};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

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

impl Tree {
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
}

fn device(folder: impl AsFd) -> Result<u64, Errno> {
    rustix::fs::fstat(folder).map(|stat| stat.st_dev)
}
