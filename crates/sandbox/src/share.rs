//! Toolchains and caches of the host in rooms: read-only, or with a layer of the room's own on top.
//!
//! **Invariant.** No job writes to the host's own files: what it writes lies in `layers/` of the workspace's directory. A share that cannot
//! be made with all its masks is left out: a room that shows less is safe, and a cache that vanished must not keep a task from its room.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use crate::fault::{Failure, Step};
use crate::holder::tree;
use crate::namespace::{self, User};
use crate::order::{OpenOrder, ShareOrder};
use crate::sys;

/// In a workspace's directory: what jobs wrote into shares, by layer.
pub(crate) const LAYERS: &str = "layers";
/// In a workspace's directory: where shares are mounted for an engine, by their place in the list.
const SHARES: &str = "shares";
/// Where a layer's lower folder is mounted while its overlay is made.
const LOWER: &str = "share";

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const HARMLESS: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// A layer's folder, with the two that its overlay needs.
pub(crate) fn layer_folders(work: &Path, layer: &str) -> [PathBuf; 3] {
    let folder = work.join(LAYERS).join(layer);
    let (upper, scratch) = (folder.join("upper"), folder.join("work"));
    [folder, upper, scratch]
}

/// Mounts of the shared paths that hang nowhere yet, in the order of the shares. None where there is nothing to mount.
pub(crate) type Taken = Vec<Option<OwnedFd>>;

/// As root, which the job's user is not: its layers become the job's own.
pub(crate) fn take_as_root(order: &OpenOrder, user: User, maps: &mut namespace::IdMaps) -> Result<Taken, Failure> {
    let mut taken = Vec::new();
    for share in &order.shares {
        for folder in share.layer.iter().flat_map(|layer| layer_folders(order.work.path(), layer)) {
            chown(&folder, Some(user.uid), Some(user.gid))
                .map_err(|error| Failure::new(Step::WorkDirectory, error).about(folder.display()))?;
        }
        taken.push(share.source.as_ref().and_then(|source| take_mapped(source.path(), share.layer.is_some(), maps).ok()));
    }
    Ok(taken)
}

/// Mapped to the job's user where it must be: beneath a layer, whose files are copied with their owner, and where only the owner may look.
fn take_mapped(source: &Path, is_layer: bool, maps: &mut namespace::IdMaps) -> io::Result<OwnedFd> {
    let metadata = fs::metadata(source)?;
    let needed = if metadata.is_dir() { 0o005 } else { 0o004 };
    if is_layer || metadata.mode() & needed != needed {
        // Not every file system can; then jobs read what others may read.
        if let Ok(mount) = maps.mount(source) {
            return Ok(mount);
        }
    }
    namespace::detached(source, false)
}

/// As an ordinary user, in the new mount namespace.
pub(crate) fn take(order: &OpenOrder) -> Taken {
    order.shares.iter().map(|share| namespace::detached(share.source.as_ref()?.path(), false).ok()).collect()
}

/// Attaches all of them beneath the current directory, which will be the room's root. Gives those that are there.
pub(crate) fn attach<'a>(order: &'a OpenOrder, taken: &Taken, work: &Path, covers: &Path) -> Vec<&'a ShareOrder> {
    let mut attached = Vec::new();
    for (share, mount) in order.shares.iter().zip(taken) {
        let Ok(target) = tree::inside(share.target.path()) else { continue };
        let lower = Path::new(".layers").join(LOWER);
        match attach_one(share, mount.as_ref(), target, work, &lower, covers) {
            Ok(true) => attached.push(share),
            Ok(false) => {}
            Err(_) => {
                let _ = rustix::mount::unmount(target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
            }
        }
        let _ = rustix::mount::unmount(&lower, UnmountFlags::DETACH);
    }
    attached
}

/// False where there is nothing to show.
fn attach_one(share: &ShareOrder, mount: Option<&OwnedFd>, target: &Path, work: &Path, lower: &Path, covers: &Path) -> io::Result<bool> {
    match (&share.layer, mount) {
        (None, None) => return Ok(false),
        (None, Some(mount)) => {
            sys::mount_setattr(mount, false, READ_ONLY, None)?;
            tree::attach(mount, target)?;
        }
        (Some(layer), None) => {
            let [_, upper, _] = layer_folders(work, layer);
            let mount = namespace::detached(&upper, false)?;
            sys::mount_setattr(&mount, false, HARMLESS, None)?;
            tree::attach(&mount, target)?;
        }
        (Some(layer), Some(mount)) => {
            tree::attach(mount, lower)?;
            fs::create_dir_all(target)?;
            let [_, upper, scratch] = layer_folders(work, layer);
            // The names are ours and plain: letters, digits, hyphens.
            let options = format!("userxattr,lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), scratch.display());
            let options = CString::new(options)?;
            rustix::mount::mount("skep", target, "overlay", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?;
        }
    }
    if !share.masked.is_empty() {
        let root = rustix::fs::open(target, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        for path in &share.masked {
            tree::mask(&root, path.path(), covers)?;
        }
    }
    Ok(true)
}

/// Where a share is mounted for an engine; there only if it could be made.
pub(crate) fn engine_path(work: &Path, at: usize) -> PathBuf {
    work.join(SHARES).join(at.to_string())
}

/// Mounts them for an engine, in the workspace's directory, which is the current one.
pub(crate) fn mount_for_engine(order: &OpenOrder, user: User, covers: &Path) -> Result<(), Failure> {
    let taken = take_as_root(order, user, &mut namespace::IdMaps::new(user))?;
    let folder = Path::new(SHARES);
    let prepared = remove_empty(folder).and_then(|()| if order.shares.is_empty() { Ok(()) } else { fs::create_dir_all(folder) });
    prepared.map_err(|error| Failure::new(Step::Binds, error))?;
    for (at, (share, mount)) in order.shares.iter().zip(&taken).enumerate() {
        let target = engine_path(Path::new(""), at);
        let lower = Path::new(LOWER);
        let made = attach_one(share, mount.as_ref(), &target, Path::new(""), lower, covers);
        let private = || rustix::mount::mount_change(&target, rustix::mount::MountPropagationFlags::PRIVATE);
        if !matches!(made, Ok(true)) || private().is_err() {
            let _ = rustix::mount::unmount(&target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
            let _ = fs::remove_dir(&target).or_else(|_| fs::remove_file(&target));
        }
        let _ = rustix::mount::unmount(lower, UnmountFlags::DETACH);
    }
    Ok(())
}

/// Mount points that an earlier kernel left; nothing is mounted there any more.
fn remove_empty(folder: &Path) -> io::Result<()> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.flatten().try_for_each(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => fs::remove_dir(entry.path()),
            _ => fs::remove_file(entry.path()),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Everything that may be mounted for an engine.
pub(crate) fn mounted(work: &Path) -> Vec<PathBuf> {
    let shares = fs::read_dir(work.join(SHARES)).into_iter().flatten().flatten().map(|entry| entry.path());
    shares.chain([work.join(LOWER)]).collect()
}
