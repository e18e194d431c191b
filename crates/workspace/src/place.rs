//! Puts something else at a place of the project, in two halves, so that many places can become durable together.
//!
//! What comes is written beside its place and exchanged with what stands there, in one step. What came out is removed only when it is what
//! was expected and nobody has it open for writing; else it goes back, and the place is a conflict.
//!
//! **Invariant.** A place holds its old or its new content and nothing between, whenever the kernel dies. What a person wrote is in the
//! project, or beside it under a name that is told: a content that we do not hold is never removed.

use crate::build::{out_of_the_way, temporary};
use crate::file_system;
use crate::remove::{Known, Removed};
use crate::shape::{Grip, Proof, ReadBlob, Seen, Shape, Spot, exchange};
use crate::tree::{FileTree, owner_of};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use world::Fault;

/// One place, with what stands there and what shall.
#[derive(Debug)]
pub struct Unit<'a> {
    pub place: &'a str,
    pub before: Shape,
    pub after: Shape,
    /// A person knows that it cannot be guarded against an edit at the same time, and agreed.
    pub unguarded: bool,
}

/// What came of the first half of a change.
#[derive(Debug)]
pub enum Half {
    Written,
    Done,
    /// Left alone, and why.
    Left(String),
    /// Left alone, because it is not or not surely what it was; and why.
    Unheld(&'static str),
}

const CHANGED: &str = "conflict: it was changed meanwhile";
const BUSY: &str = "conflict: another program has it open for writing";
const UNPROVEN: &str = "conflict: it cannot be told whether another program writes to it";
const NO_EXCHANGE: &str = "conflict: this file system cannot exchange two files in one step";
const LATE: &str = "conflict: another program opened it for writing while it was replaced, and what it writes from now on is not here";
const ELSEWHERE: &str = "a folder on its way is now something else";

/// Where on its way a change is, for tests that kill the kernel there.
#[derive(Clone, Copy)]
pub enum CrashPoint {
    Before,
    Written,
    /// In its place, with what was there beside it.
    Placed,
    Removed,
}

/// How many moments a change has.
pub const MOMENTS: u64 = 4;

/// A unit with its folder open.
struct Site<'a> {
    tree: &'a FileTree,
    unit: &'a Unit<'a>,
    blobs: &'a ReadBlob<'a>,
    parent: OwnedFd,
    name: &'a OsStr,
    temporary: OsString,
    aside: OsString,
}

impl FileTree {
    /// The first half of a change, if its place still holds what it held: what comes is written beside it. Nothing is durable yet.
    pub fn begin(&self, unit: &Unit<'_>, blobs: &ReadBlob<'_>, at: impl Fn(CrashPoint)) -> Result<Half, Fault> {
        at(CrashPoint::Before);
        let site = match self.site(unit, blobs, unit.after != Shape::Absent)? {
            Ok(site) => site,
            Err(_) if unit.after == Shape::Absent && self.is_gone(unit)? => return Ok(Half::Done),
            Err(why) => return Ok(Half::Left(why.into())),
        };
        if let Some(why) = site.recover()? {
            return Ok(Half::Left(why));
        }
        if site.place().is(&unit.after).map_err(|error| site.fault("read", error))? {
            return Ok(Half::Done);
        }
        let grip = match site.hold()? {
            Ok(grip) => grip,
            Err(why) => return Ok(Half::Unheld(why)),
        };
        if unit.after != Shape::Absent {
            let owner = owner_of(&self.root).map_err(|error| site.fault("look at", error))?;
            site.temporary().build(&unit.after, grip.kept, owner, blobs)?;
            at(CrashPoint::Written);
        }
        Ok(Half::Written)
    }

    /// The second half: what was written takes its place, if that still holds what it held. `Some` says why it was left alone.
    pub fn end(&self, unit: &Unit<'_>, blobs: &ReadBlob<'_>, at: impl Fn(CrashPoint)) -> Result<Option<String>, Fault> {
        let site = match self.site(unit, blobs, false)? {
            Ok(site) => site,
            Err(why) => return Ok(Some(why.into())),
        };
        let grip = match site.hold()? {
            Ok(grip) => grip,
            Err(why) => return site.drop_written(why).map(Some),
        };
        let (place, temporary) = (site.place(), site.temporary());
        let moved = match (&unit.before, &unit.after) {
            (Shape::Absent, _) => temporary.rename_new(site.name),
            (_, Shape::Absent) => place.rename_new(&site.temporary),
            _ => self.exchange(&site.parent, &site.temporary, site.name),
        };
        match moved {
            Ok(()) => at(CrashPoint::Placed),
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::XDEV) if unit.unguarded => return site.step_aside(&grip, at),
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::XDEV) => return site.drop_written(NO_EXCHANGE).map(Some),
            Err(Errno::NOENT | Errno::EXIST) => return site.drop_written(CHANGED).map(Some),
            Err(error) => return Err(site.fault("put in place", error)),
        }
        if unit.before == Shape::Absent {
            return Ok(None);
        }
        let removed = temporary.remove_held(&grip, &unit.before, site.proof(), blobs)?;
        drop(grip);
        match removed {
            Removed::Yes => at(CrashPoint::Removed),
            Removed::Late => return site.keep(&temporary, LATE).map(Some),
            Removed::No => return site.put_back(&temporary).map(Some),
        }
        if unit.after == Shape::Absent {
            // Folders that a deletion left empty go too, as git has it.
            self.remove_empty(Path::new(unit.place)).map_err(|error| site.fault("tidy the folder of", error))?;
        }
        Ok(None)
    }

    /// The unit with its folder open; where there is none, why.
    fn site<'a>(&'a self, unit: &'a Unit<'a>, blobs: &'a ReadBlob<'a>, make: bool) -> Result<Result<Site<'a>, &'static str>, Fault> {
        let place = Path::new(unit.place);
        let Some(name) = place.file_name() else { return Ok(Err("it has no name")) };
        match self.parent(place, make) {
            Ok(parent) => {
                let (temporary, aside) = (temporary(unit.place), out_of_the_way(unit.place));
                Ok(Ok(Site { tree: self, unit, blobs, parent, name, temporary, aside }))
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(Err(ELSEWHERE)),
            Err(error) => Err(self.fault("open the folder of", place, error)),
        }
    }

    /// Whether a place went with its folder.
    fn is_gone(&self, unit: &Unit<'_>) -> Result<bool, Fault> {
        Ok(matches!(self.now(unit.place)?, super::FileState::Absent))
    }

    fn exchange(&self, folder: &OwnedFd, one: &OsStr, other: &OsStr) -> Result<(), Errno> {
        if self.exchanges { exchange(folder, one, other) } else { Err(Errno::INVAL) }
    }

    /// Why a change of what stands at this path cannot be guarded against an edit at the same moment; `None` where it can.
    pub fn unguarded(&self, path: &str) -> Result<Option<&'static str>, Fault> {
        let place = Path::new(path);
        let fault = |error| self.fault("look at", place, error);
        let Some(name) = place.file_name() else { return Ok(None) };
        let parent = match self.parent(place, false) {
            Ok(parent) => parent,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(None),
            Err(error) => return Err(fault(error)),
        };
        if !self.exchanges || !can_exchange(&parent).map_err(fault)? {
            return Ok(Some("its file system cannot exchange two files in one step"));
        }
        let spot = Spot { folder: &parent, name };
        Ok(spot.is_unproven().map_err(fault)?.then_some("it cannot be told whether another program has it open for writing"))
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
                Spot { folder: &parent, name: &temporary(path) }.sync()
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

    fn remove_empty(&self, place: &Path) -> Result<(), Errno> {
        for folder in place.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
            let Some(name) = folder.file_name() else { break };
            let removed = self.parent(folder, false).and_then(|above| rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR));
            match removed {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => break,
                Err(Errno::ACCESS | Errno::PERM | Errno::BUSY) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Site<'_> {
    fn place(&self) -> Spot<'_> {
        Spot { folder: &self.parent, name: self.name }
    }

    fn temporary(&self) -> Spot<'_> {
        Spot { folder: &self.parent, name: &self.temporary }
    }

    /// What we put beside the place.
    fn written(&self) -> Known<'_> {
        Known { whole: &[], written: Some(&self.unit.after) }
    }

    fn proof(&self) -> Proof {
        // Beside a place that held nothing, nothing is but what we wrote.
        if self.unit.unguarded || self.unit.before == Shape::Absent { Proof::Waived } else { Proof::Lease }
    }

    /// Holds on to what stands at the place, or says why it must be left alone.
    fn hold(&self) -> Result<Result<Grip, &'static str>, Fault> {
        let seen = self.place().hold(&self.unit.before, self.proof()).map_err(|error| self.fault("read", error))?;
        Ok(match seen {
            Seen::As(grip) => Ok(grip),
            Seen::Unlike => Err(CHANGED),
            Seen::Busy => Err(BUSY),
            Seen::Unproven => Err(UNPROVEN),
        })
    }

    /// Takes away what was written beside a place that is left alone.
    fn drop_written(&self, why: &str) -> Result<String, Fault> {
        let temporary = self.temporary();
        if temporary.remove(&self.written(), self.proof(), self.blobs)? {
            return Ok(why.into());
        }
        self.keep(&temporary, why)
    }

    /// What an earlier kernel left beside the place goes if we hold its content, and back to its place if we don't. `Some` says that the
    /// place is to be left alone.
    fn recover(&self) -> Result<Option<String>, Fault> {
        let aside = Spot { folder: &self.parent, name: &self.aside };
        // Moved out of the way, and nothing had come in its place yet.
        if self.exists(&aside)? && !self.exists(&self.place())? {
            match aside.rename_new(self.name) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(self.fault("put back", error)),
            }
        }
        // Once the new one is in its place, what is beside it is no half-written one of ours.
        let is_placed = self.place().is(&self.unit.after).map_err(|error| self.fault("read", error))?;
        let written = (!is_placed).then_some(&self.unit.after);
        for spot in [self.temporary(), aside] {
            let known = Known { whole: &[&self.unit.before, &self.unit.after], written };
            if !self.exists(&spot)? || spot.remove(&known, self.proof(), self.blobs)? {
                continue;
            }
            let ours = self.unit.before == Shape::Absent || spot.name == self.aside;
            return if ours { self.keep(&spot, CHANGED).map(Some) } else { self.put_back(&spot).map(Some) };
        }
        Ok(None)
    }

    fn exists(&self, spot: &Spot<'_>) -> Result<bool, Fault> {
        spot.stat().map(|stat| stat.is_some()).map_err(|error| self.fault("look at", error))
    }

    /// What came out of the place goes back. If somebody changed what we had put there, theirs stays and the other is kept beside it.
    fn put_back(&self, spot: &Spot<'_>) -> Result<String, Fault> {
        let place = self.place();
        let fault = |error| self.fault("put back", error);
        if self.is_emptied(spot)? {
            return self.keep(spot, CHANGED);
        }
        match spot.rename_new(self.name) {
            Ok(()) => return Ok(CHANGED.into()),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(fault(error)),
        }
        if !place.is(&self.unit.after).map_err(fault)? {
            return self.keep(spot, CHANGED);
        }
        match self.tree.exchange(&self.parent, spot.name, self.name) {
            Ok(()) if spot.remove(&self.written(), self.proof(), self.blobs)? => Ok(CHANGED.into()),
            Ok(()) => {
                // Theirs is the newer one.
                match self.tree.exchange(&self.parent, spot.name, self.name) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(error) => return Err(fault(error)),
                }
                self.keep(spot, CHANGED)
            }
            Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::XDEV) => self.keep(spot, CHANGED),
            Err(error) => Err(fault(error)),
        }
    }

    /// A folder of which some files are removed already.
    fn is_emptied(&self, spot: &Spot<'_>) -> Result<bool, Fault> {
        let Shape::Folder(members) = &self.unit.before else { return Ok(false) };
        spot.lacks(members.keys()).map_err(|error| self.fault("look through", error))
    }

    /// The way for file systems that cannot exchange: for a moment nothing is at the place.
    fn step_aside(&self, grip: &Grip, at: impl Fn(CrashPoint)) -> Result<Option<String>, Fault> {
        let fault = |error| self.fault("put in place", error);
        match self.place().rename_new(&self.aside) {
            Ok(()) => at(CrashPoint::Placed),
            Err(Errno::NOENT) => return self.drop_written(CHANGED).map(Some),
            Err(error) => return Err(fault(error)),
        }
        let why = match self.temporary().rename_new(self.name) {
            Ok(()) => None,
            Err(Errno::EXIST | Errno::NOENT) => Some(self.drop_written(CHANGED)?),
            Err(error) => return Err(fault(error)),
        };
        let aside = Spot { folder: &self.parent, name: &self.aside };
        match aside.remove_held(grip, &self.unit.before, self.proof(), self.blobs)? {
            Removed::Yes => at(CrashPoint::Removed),
            Removed::Late => return self.keep(&aside, LATE).map(Some),
            Removed::No => return self.keep(&aside, CHANGED).map(Some),
        }
        Ok(why)
    }

    fn keep(&self, spot: &Spot<'_>, why: &str) -> Result<String, Fault> {
        if !self.exists(spot)? {
            return Ok(why.into());
        }
        let name = spot.keep(self.name)?;
        let kept = Path::new(self.unit.place).with_file_name(name);
        Ok(format!("{why}; what was there is kept as `{}`", kept.display()))
    }

    fn fault(&self, verb: &str, error: Errno) -> Fault {
        self.tree.fault(verb, Path::new(self.unit.place), error)
    }
}

/// Whether a folder's file system can exchange two names. The common ones are known; another one is tried.
fn can_exchange(folder: &OwnedFd) -> Result<bool, Errno> {
    if file_system::EXCHANGING.contains(&rustix::fs::fstatfs(folder)?.f_type) {
        return Ok(true);
    }
    probe_exchange(folder)
}

/// Names that a probe tries; a project that holds them all wants it to fail.
const PROBES_MAX: usize = 16;

/// Exchanges two new files to see whether that works. What a project has by such a name is neither opened nor removed.
fn probe_exchange(folder: &OwnedFd) -> Result<bool, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut names: Vec<OsString> = Vec::new();
    let mut made = Ok(());
    for name in (1..=PROBES_MAX).map(|number| OsString::from(format!(".skep-probe-{number}"))) {
        match rustix::fs::openat(folder, &name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(_) => names.push(name),
            Err(Errno::EXIST) => continue,
            Err(error) => {
                made = Err(error);
                break;
            }
        }
        if names.len() == 2 {
            break;
        }
    }
    let can = match (made, names.as_slice()) {
        (Err(error), _) => Err(error),
        (Ok(()), [one, other]) => exchange(folder, one, other),
        // Nothing is known, so a person is asked.
        (Ok(()), _) => Err(Errno::NOSYS),
    };
    for name in &names {
        rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
    }
    match can {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error),
    }
}

fn device(folder: impl AsFd) -> Result<u64, Errno> {
    rustix::fs::fstat(folder).map(|stat| stat.st_dev)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, mknodat};
    use std::fs;

    /// A project may hold the very names that a probe uses: a pipe there must not be waited for, and a file must stay.
    #[test]
    fn a_probe_touches_nothing_that_the_project_has() {
        let dir = tempfile::tempdir().unwrap();
        let folder = OwnedFd::from(fs::File::open(dir.path()).unwrap());
        let names = || {
            let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(probe_exchange(&folder), Ok(true), "the control");
        assert!(names().is_empty());
        mknodat(CWD, dir.path().join(".skep-probe-1"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        fs::write(dir.path().join(".skep-probe-2"), "mine").unwrap();
        assert_eq!(probe_exchange(&folder), Ok(true));
        assert_eq!(names(), [".skep-probe-1", ".skep-probe-2"]);
        assert_eq!(fs::read(dir.path().join(".skep-probe-2")).unwrap(), b"mine");
        for number in 3..=PROBES_MAX {
            fs::create_dir(dir.path().join(format!(".skep-probe-{number}"))).unwrap();
        }
        assert_eq!(probe_exchange(&folder), Ok(false), "nothing is known");
        assert_eq!(names().len(), PROBES_MAX);
    }
}
