//! Landlock: a second wall around a job, inside the one of mounts, namespaces and filters.
//!
//! It repeats what the mounts say (read everything that is there, write the project, /tmp and /dev/shm) and adds what they
//! cannot: no device node is made, nothing under /proc is written, a profile without internet neither binds nor connects TCP, also
//! on a socket that somebody handed in, and abstract sockets and signals stay in the room whatever namespaces a descriptor came
//! from. Every right that this kernel's version knows is handled; a right of a newer version is not ours to guess.
//!
//! Raw system calls: three of them, on the path of every start, with a handful of rules. Where the kernel has no Landlock the room
//! is closed without it, and `skep sandbox doctor` says so.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

use crate::spec::Profile;
use crate::sys;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// What version 1 handles: everything up to making a symbolic link.
const FIRST: u64 = (1 << 13) - 1;

const BIND_TCP: u64 = 1;
const CONNECT_TCP: u64 = 1 << 1;
const ABSTRACT_SOCKETS: u64 = 1;
const SIGNALS: u64 = 1 << 1;

const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
/// Rights that mean something on a file; on others a rule for a file must not name them.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

/// What this kernel's Landlock handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Landlock {
    files: u64,
    net: u64,
    scopes: u64,
}

impl Landlock {
    /// `None` where the kernel has none.
    pub(crate) fn find() -> Option<Landlock> {
        sys::landlock_abi().ok().filter(|abi| *abi > 0).map(Landlock::of)
    }

    fn of(abi: i64) -> Landlock {
        let since = |first: i64, right: u64| if abi >= first { right } else { 0 };
        Landlock {
            files: FIRST | since(2, REFER) | since(3, TRUNCATE) | since(5, IOCTL_DEV),
            net: since(4, BIND_TCP | CONNECT_TCP),
            scopes: since(6, ABSTRACT_SOCKETS | SIGNALS),
        }
    }

    /// Puts this process and all it starts behind the wall. `writable` are the project, binds and the job's own file systems.
    pub(crate) fn enclose<'a>(&self, writable: impl Iterator<Item = &'a Path>, profile: Profile) -> io::Result<()> {
        let net = if profile == Profile::StandardNet { 0 } else { self.net };
        let ruleset = sys::landlock_ruleset(self.files, net, self.scopes)?;
        self.allow(&ruleset, Path::new("/"), READ)?;
        self.allow(&ruleset, Path::new("/dev"), READ | WRITE_FILE | TRUNCATE | IOCTL_DEV)?;
        for path in writable {
            self.allow(&ruleset, path, self.files & !(MAKE_CHAR | MAKE_BLOCK))?;
        }
        sys::landlock_restrict(&ruleset)
    }

    fn allow(&self, ruleset: &OwnedFd, path: &Path, rights: u64) -> io::Result<()> {
        let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let is_dir = FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode).is_dir();
        let rights = if is_dir { rights } else { rights & OF_FILES };
        sys::landlock_allow(ruleset, place.as_fd().as_raw_fd(), rights & self.files)
    }
}

/// What a job may write besides the project and binds.
pub(crate) const PRIVATE: &[&str] = &["/tmp", "/dev/shm"];

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of landlock(7): which version brought what.
    #[test]
    fn every_version_handles_what_it_knows() {
        let table =
            [(1, 13, 0, 0), (2, 14, 0, 0), (3, 15, 0, 0), (4, 15, 2, 0), (5, 16, 2, 0), (6, 16, 2, 2), (7, 16, 2, 2), (99, 16, 2, 2)];
        for (abi, files, net, scopes) in table {
            let found = Landlock::of(abi);
            let all = |count: u32| (1_u64 << count) - 1;
            assert_eq!(found, Landlock { files: all(files), net: all(net), scopes: all(scopes) }, "{abi}");
        }
    }
}
