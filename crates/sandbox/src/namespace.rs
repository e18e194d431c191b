//! The user a job is, and the namespaces a holder lives in.
//!
//! As an ordinary user the job is that user, mapped to itself. As root it is [`JOB_ID`], an id without any rights, and the
//! project appears as its own through an idmapped mount. Root changes to that id *before* it leaves its user namespace, keeping
//! its capabilities only for the one unshare (hosts may forbid user namespaces to the unprivileged); from there on both cases
//! are the same: a process without host rights that maps its own single id.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::mount::OpenTreeFlags;
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitiesSecureBits, CapabilitySets, UnshareFlags};

use crate::fault::{At, Failure, Step};
use crate::inotify::Allowance;
use crate::packet;
use crate::sys;

/// The user and group of jobs when the kernel runs as root. Outside the ranges that Debian, Fedora and systemd hand out.
pub(crate) const JOB_ID: u32 = 64_800;

/// Options of a room's own terminals. The host has a few thousand for all rooms together, and nobody needs more than these.
pub(crate) const TERMINALS: &CStr = c"newinstance,ptmxmode=0666,mode=0620,max=64";

/// Who runs a workspace's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The kernel runs as root, so the ids above are not its own.
    pub(crate) assumed: bool,
}

impl User {
    pub(crate) fn of_jobs() -> User {
        let uid = rustix::process::geteuid();
        if uid.is_root() {
            User { uid: JOB_ID, gid: JOB_ID, assumed: true }
        } else {
            User { uid: uid.as_raw(), gid: rustix::process::getegid().as_raw(), assumed: false }
        }
    }
}

/// Uid and gid of whoever runs jobs: what a layer beneath a workspace must belong to.
pub fn job_owner() -> (u32, u32) {
    let User { uid, gid, .. } = User::of_jobs();
    (uid, gid)
}

/// Whether jobs see the project's files as another user's than the host does: then git's index, which holds owners, fits none of them.
pub fn owners_are_mapped() -> bool {
    User::of_jobs().assumed
}

/// Leaves the host's user, mount and uts namespaces for new ones in which `user` alone exists and has all capabilities.
pub(crate) fn leave(user: User, watches: Allowance) -> Result<(), Failure> {
    if user.assumed {
        become_user(user).at(Step::Credentials)?;
    }
    // A process that changed its ids is not dumpable, and then its own /proc/self/uid_map belongs to root.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).at(Step::Credentials)?;
    // SAFETY: the process has one thread and shares no descriptor table.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWUTS) }.at(Step::Namespaces)?;
    fs::write("/proc/self/setgroups", "deny").at(Step::IdentityMap)?;
    fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.uid)).at(Step::IdentityMap)?;
    fs::write("/proc/self/gid_map", format!("{0} {0} 1", user.gid)).at(Step::IdentityMap)?;
    watches.hold().at(Step::Watches)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).at(Step::Credentials)?;
    rustix::system::sethostname(b"skep").at(Step::Namespaces)
}

/// Changes to another id and keeps all rights.
pub(crate) fn become_user(user: User) -> io::Result<()> {
    let held = rustix::thread::capabilities(None)?;
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_keep_capabilities(true)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    rustix::thread::set_capabilities(None, CapabilitySets { effective: held.permitted, ..held })?;
    Ok(())
}

/// Gives up, for this process and all it forks, what only exec could use: the bounding set, root's magic, new privileges.
pub(crate) fn forswear() -> io::Result<()> {
    for capability in 0..64_u32 {
        match rustix::thread::remove_capability_from_bounding_set(rustix::thread::CapabilitySet::from_bits_retain(1 << capability)) {
            Ok(()) => {}
            // The first number this kernel does not know.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    use CapabilitiesSecureBits as Bits;
    rustix::thread::set_capabilities_secure_bits(
        Bits::NO_ROOT
            | Bits::NO_ROOT_LOCKED
            | Bits::NO_SETUID_FIXUP
            | Bits::NO_SETUID_FIXUP_LOCKED
            | Bits::KEEP_CAPS_LOCKED
            | Bits::NO_CAP_AMBIENT_RAISE
            | Bits::NO_CAP_AMBIENT_RAISE_LOCKED,
    )?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

/// A copy of the mount at `path` that hangs nowhere yet.
pub(crate) fn detached(path: &Path, recursive: bool) -> io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    Ok(rustix::mount::open_tree(rustix::fs::CWD, path, flags)?)
}

/// A copy of the mount at `path` in which files of the path's owner appear to belong to `user`. Needs root.
pub(crate) fn idmapped(path: &Path, user: User) -> io::Result<OwnedFd> {
    IdMaps::new(user).mount(path)
}

/// Maps of owners to one user; each is made once.
pub(crate) struct IdMaps {
    user: User,
    made: Vec<((u32, u32), OwnedFd)>,
}

impl IdMaps {
    pub(crate) fn new(user: User) -> IdMaps {
        IdMaps { user, made: Vec::new() }
    }

    /// See [`idmapped`].
    pub(crate) fn mount(&mut self, path: &Path) -> io::Result<OwnedFd> {
        let metadata = fs::metadata(path)?;
        let owner = (metadata.uid(), metadata.gid());
        let known = match self.made.iter().position(|(of, _)| *of == owner) {
            Some(known) => known,
            None => {
                let (uid, gid) = (format!("{} {} 1", owner.0, self.user.uid), format!("{} {} 1", owner.1, self.user.gid));
                self.made.push((owner, unpeopled([&uid, &gid], || Ok(()), || Ok(()))?));
                self.made.len() - 1
            }
        };
        let mount = detached(path, false)?;
        sys::mount_setattr(&mount, false, 0, self.made.get(known).map(|(_, map)| map))?;
        Ok(mount)
    }
}

/// A user namespace for the jobs of containers: it has the ids of this one and a limit of its own on inotify. `user` may enter it, and has
/// all rights in it until it gives them up. Needs root.
pub(crate) fn limited(user: User, watches: Allowance) -> io::Result<OwnedFd> {
    // The same ids within as without, as far as there are any.
    let map = |file: &str| -> io::Result<String> {
        let own = fs::read_to_string(file)?;
        let ranges = own.lines().filter_map(|line| {
            let mut numbers = line.split_whitespace();
            let (first, _, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
            Some(format!("{first} {first} {count}\n"))
        });
        Ok(ranges.collect())
    };
    let maps = [map("/proc/self/uid_map")?, map("/proc/self/gid_map")?];
    unpeopled([&maps[0], &maps[1]], || become_user(user), || watches.hold())
}

/// A user namespace with these maps of users and groups: a descriptor to it, without a process in it. A process does the one thing before it
/// makes it, as which it is owned, and the other in it.
fn unpeopled(maps: [&str; 2], before: impl FnOnce() -> io::Result<()>, within: impl FnOnce() -> io::Result<()>) -> io::Result<OwnedFd> {
    let (here, there) = packet::pair()?;
    let parents_end = here.as_raw_fd();
    let pid = sys::fork(|| {
        // Its copy here would keep the socket from ever ending.
        drop(sys::placed(parents_end));
        // SAFETY: the process has one thread and shares no descriptor table.
        let make = || Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) }?);
        let tell = |done: io::Result<()>| packet::send(&there, &done.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)).err(), &[]);
        let go_on = || packet::receive::<()>(&there);
        // Stays until the parent has opened its namespace and closes the socket.
        let done = tell(before().and_then(|()| make())).and_then(|()| go_on()).and_then(|mapped| match mapped {
            Some(_) => tell(within()).and_then(|()| go_on()).map(drop),
            None => Ok(()),
        });
        i32::from(done.is_err())
    })?;
    drop(there);
    let done = || match packet::receive::<Option<i32>>(&here)? {
        Some((None, _)) => Ok(()),
        Some((Some(errno), _)) => Err(io::Error::from_raw_os_error(errno)),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    };
    let opened = (|| {
        done()?;
        for (file, map) in ["uid_map", "gid_map"].into_iter().zip(maps) {
            fs::write(format!("/proc/{pid}/{file}"), map)?;
        }
        packet::send(&here, &(), &[])?;
        done()?;
        Ok(rustix::fs::open(format!("/proc/{pid}/ns/user"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
    })();
    drop(here);
    sys::reap(pid, true)?;
    opened
}
