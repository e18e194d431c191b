//! A workspace's overlay in the host's own mount namespace, for engines that can bind only what they see there.
//!
//! The same layers as a holder's, with the same owner, masks and names, so [`crate::changes()`] reads both alike. Only root can
//! make it. **Invariant.** Nothing of it outlives the workspace but by a kernel that was killed, and the boot sweep takes that off.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags};

use crate::fault::{At, Failure, Step};
use crate::holder::tree;
use crate::job;
use crate::namespace::{self, User};
use crate::order::{MaskOrder, OpenOrder, Uncovered};
use crate::share;
use crate::spec::Limits;
use crate::sys;

/// In a workspace's directory: the project with its changes.
pub(crate) const MERGED: &str = "merged";
/// The same as jobs see it, with masks.
pub(crate) const SHOWN: &str = "shown";
const LOWER: &str = "lower";
/// Another workspace's changes, between the two.
const BENEATH: &str = "beneath";
/// What lies over a path that no job may read.
const COVERS: &str = "covers";
/// What jobs may write beside the project.
const BINDS: &str = "binds";

/// What each job has for itself.
const PRIVATE: &str = "private";

/// In the launcher: it has one thread, which making an idmapped mount needs.
pub(crate) fn mount(order: &OpenOrder) -> Result<Uncovered, Failure> {
    let work = order.work.path();
    let user = User::of_jobs();
    if !user.assumed {
        return Err(Failure::new(Step::Overlay, io::Error::from_raw_os_error(libc::EPERM)));
    }
    unmount(work);
    let mounted = rustix::process::chdir(work).at(Step::WorkDirectory).and_then(|()| layers(order, user));
    let home = rustix::process::chdir("/").at(Step::WorkDirectory);
    home.and(mounted).inspect_err(|_| unmount(work))
}

/// Changes what is masked for containers to come. In the launcher, which serves one order at a time.
pub(crate) fn remask(work: &Path, change: &MaskOrder) -> Result<Uncovered, Failure> {
    tree::remask(&open(&work.join(SHOWN))?, &work.join(COVERS), change)
}

fn open(folder: &Path) -> Result<OwnedFd, Failure> {
    rustix::fs::open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).at(Step::Overlay)
}

/// In the workspace's directory, so that every name is short, relative and ours.
fn layers(order: &OpenOrder, user: User) -> Result<Uncovered, Failure> {
    for folder in ["upper", "work"] {
        chown(folder, Some(user.uid), Some(user.gid)).at(Step::WorkDirectory)?;
    }
    for folder in [LOWER, MERGED, SHOWN] {
        fs::create_dir_all(folder).at(Step::WorkDirectory)?;
    }
    let project = order.project.path();
    let lower = namespace::idmapped(project, user).map_err(|error| Failure::new(Step::IdmappedLower, error).about(project.display()))?;
    let attach = |mount: &OwnedFd, at| rustix::mount::move_mount(mount, "", rustix::fs::CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH);
    attach(&lower, LOWER).at(Step::Overlay)?;
    let options = match &order.beneath {
        None => c"userxattr,lowerdir=lower,upperdir=upper,workdir=work",
        Some(changes) => {
            fs::create_dir_all(BENEATH).at(Step::WorkDirectory)?;
            let changes = namespace::detached(changes.path(), false).at(Step::Overlay)?;
            attach(&changes, BENEATH).at(Step::Overlay)?;
            c"userxattr,lowerdir=beneath:lower,upperdir=upper,workdir=work"
        }
    };
    rustix::mount::mount("skep", MERGED, "overlay", MountFlags::NOSUID | MountFlags::NODEV, options).at(Step::Overlay)?;
    rustix::mount::mount_change(MERGED, MountPropagationFlags::PRIVATE).at(Step::Overlay)?;
    let shown = namespace::detached(Path::new(MERGED), false).at(Step::Overlay)?;
    attach(&shown, SHOWN).at(Step::Overlay)?;
    // Masks belong to this mount and to what engines bind of it, not to whoever shares mounts with the host.
    rustix::mount::mount_change(SHOWN, MountPropagationFlags::PRIVATE).at(Step::Overlay)?;
    for layer in std::iter::once(LOWER).chain(order.beneath.as_ref().map(|_| BENEATH)) {
        rustix::mount::unmount(layer, UnmountFlags::DETACH).at(Step::Overlay)?;
    }

    for (at, wanted) in order.binds.iter().enumerate().filter(|(_, bind)| bind.writable) {
        let source = wanted.source.path();
        show(source, &bind(Path::new(""), at), user).map_err(|error| Failure::new(Step::Binds, error).about(source.display()))?;
    }
    covers().at(Step::Masks)?;
    share::mount_for_engine(order, user, Path::new(COVERS))?;
    let masks = MaskOrder { cover: order.masked.clone(), ..MaskOrder::default() };
    tree::remask(&open(Path::new(SHOWN))?, Path::new(COVERS), &masks)
}

/// Where a writable bind of a workspace is mounted for the engine, by its place in the list.
pub(crate) fn bind(work: &Path, at: usize) -> PathBuf {
    work.join(BINDS).join(at.to_string())
}

/// Mounts a path of the host's such that what belongs to its owner belongs to the job.
fn show(source: &Path, target: &Path, user: User) -> io::Result<()> {
    let mount = namespace::idmapped(source, user)?;
    sys::mount_setattr(&mount, false, libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV, None)?;
    fs::create_dir_all(BINDS)?;
    if fs::metadata(source)?.is_dir() {
        fs::create_dir_all(target)?
    } else {
        fs::write(target, "")?
    }
    Ok(rustix::mount::move_mount(&mount, "", rustix::fs::CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

fn covers() -> io::Result<()> {
    let (folder, file) = (Path::new(COVERS).join("folder"), Path::new(COVERS).join("file"));
    fs::create_dir_all(&folder)?;
    fs::write(&file, "")?;
    for cover in [folder, file] {
        fs::set_permissions(cover, fs::Permissions::from_mode(0o000))?;
    }
    Ok(())
}

/// Takes off whatever is mounted in a workspace's directory. What still uses it keeps it until it ends.
pub fn unmount(work: &Path) {
    let binds = fs::read_dir(work.join(BINDS)).into_iter().flatten().flatten().map(|entry| entry.path());
    let private = fs::read_dir(work.join(PRIVATE)).into_iter().flatten().flatten().map(|entry| entry.path());
    let private = private.flat_map(|folder| [folder.join("tmp"), folder.join("shm"), folder.join("pts")]);
    let layers = [work.join(SHOWN), work.join(MERGED), work.join(LOWER), work.join(BENEATH)];
    for folder in layers.into_iter().chain(binds).chain(share::mounted(work)).chain(private) {
        // Each success uncovers what an earlier kernel may have left beneath.
        while rustix::mount::unmount(&folder, UnmountFlags::DETACH).is_ok() {}
    }
}

/// A job's own /tmp, /dev/shm and /dev/pts: bounded, which no engine knows how to say, also in files and terminals. Dropping it takes them off.
#[derive(Debug)]
pub(crate) struct Private {
    folder: PathBuf,
}

impl Private {
    pub(crate) fn mount(work: &Path, id: u64, limits: &Limits) -> io::Result<Private> {
        let private = Private { folder: work.join(PRIVATE).join(id.to_string()) };
        for ((place, _), bytes) in private.places().into_iter().zip([limits.tmp_bytes, limits.shm_bytes]) {
            fs::create_dir_all(&place)?;
            let options = job::own_memory(bytes);
            rustix::mount::mount("skep", &place, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?;
            rustix::mount::mount_change(&place, MountPropagationFlags::PRIVATE)?;
        }
        let (terminals, _) = private.terminals();
        fs::create_dir_all(&terminals)?;
        rustix::mount::mount("skep", &terminals, "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, namespace::TERMINALS)?;
        rustix::mount::mount_change(&terminals, MountPropagationFlags::PRIVATE)?;
        Ok(private)
    }

    /// Where it lies on the host, and where a job sees it.
    pub(crate) fn places(&self) -> [(PathBuf, &'static str); 2] {
        [(self.folder.join("tmp"), "/tmp"), (self.folder.join("shm"), "/dev/shm")]
    }

    /// The same of its terminals.
    pub(crate) fn terminals(&self) -> (PathBuf, &'static str) {
        (self.folder.join("pts"), "/dev/pts")
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        for (place, _) in self.places().into_iter().chain([self.terminals()]) {
            let _ = rustix::mount::unmount(&place, UnmountFlags::DETACH);
            let _ = fs::remove_dir(&place);
        }
        let _ = fs::remove_dir(&self.folder);
        // The last one takes the folder of all along.
        let _ = self.folder.parent().map(fs::remove_dir);
    }
}
