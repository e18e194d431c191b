//! Puts frozen changes in place: temporary file, fsync, rename, one path after the other.
//!
//! **Invariant.** A path is touched only while it still holds its base; one that holds its new content already is done. So a retry after a
//! crash finishes exactly the rest. Everything happens beneath the project's descriptor and through no symbolic link.

use super::freeze::{Content, Frost, Frozen, Was};
use crate::fault::{Fault, FaultKind, Stop};
use crate::{Kernel, desk, hash};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use sha1::{Digest, Sha1};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use world::{MergePath, Task};

pub(super) async fn apply(kernel: &Kernel, task: &Task, frozen: &Frozen) -> Result<Vec<MergePath>, Stop> {
    let project = kernel.ledger.look(|world| world.zones.get(&task.zone).map(|zone| PathBuf::from(&zone.path)));
    let project = project.ok_or_else(|| Fault::new(FaultKind::Bug, "the zone is gone", task.zone))?;
    let root = desk::open_root(&project)?;
    let mut paths = frozen.refused.clone();
    for (step, change) in frozen.changes.iter().enumerate() {
        kernel.fault_at("merge", step as u64);
        let refused = put(kernel, root.as_fd(), &project, change)?;
        paths.push(MergePath { path: change.path.clone(), kind: change.kind.clone(), refused });
    }
    Ok(paths)
}

/// Applies one change; `Some` says why it was left out.
fn put(kernel: &Kernel, root: impl AsFd, project: &Path, change: &Frost) -> Result<Option<String>, Fault> {
    let at = Path::new(&change.path);
    let fail = |verb: &str, error: Errno| Fault::io(verb, &project.join(at), error);
    let Some(name) = at.file_name() else { return Ok(Some("it has no name".into())) };
    let parent = match open_parent(&root, at.parent().unwrap_or(Path::new("")), change.new.is_some()) {
        Ok(parent) => parent,
        Err(Errno::NOENT) if change.new.is_none() => return Ok(None),
        Err(Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => return Ok(Some("a folder on its way is now something else".into())),
        Err(error) => return Err(fail("open the folder of", error)),
    };
    let now = read_now(&parent, name).map_err(|error| fail("read", error))?;
    if now.is(change) {
        return Ok(None);
    }
    if !now.was(&change.old) {
        return Ok(Some("conflict: it was changed after the task began".into()));
    }
    match &change.new {
        None => {
            rustix::fs::unlinkat(&parent, name, AtFlags::empty()).map_err(|error| fail("delete", error))?;
            remove_empty(&root, at.parent());
        }
        Some(content) => {
            let owner = owner_of(&root, &now).map_err(|error| fail("look at the owner of", error))?;
            place(kernel, &parent, name, change, content, owner).map_err(|error| Fault::io("write", &project.join(at), error))?;
        }
    }
    rustix::fs::fsync(&parent).map_err(|error| fail("make durable the folder of", error))?;
    Ok(None)
}

/// What stands at a path now.
enum Now {
    Absent,
    File { bytes: Vec<u8>, mode: u32, owner: (u32, u32) },
    Link { target: String },
    Other,
}

fn read_now(parent: &OwnedFd, name: &std::ffi::OsStr) -> Result<Now, Errno> {
    let stat = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(Now::Absent),
        Err(error) => return Err(error),
    };
    match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::RegularFile => {
            let file = rustix::fs::openat(parent, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
            let mut bytes = Vec::new();
            std::fs::File::from(file).read_to_end(&mut bytes).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            Ok(Now::File { bytes, mode: stat.st_mode & 0o777, owner: (stat.st_uid, stat.st_gid) })
        }
        rustix::fs::FileType::Symlink => {
            let target = rustix::fs::readlinkat(parent, name, Vec::new())?;
            Ok(Now::Link { target: target.to_string_lossy().into_owned() })
        }
        _ => Ok(Now::Other),
    }
}

impl Now {
    fn is(&self, change: &Frost) -> bool {
        match (self, &change.new) {
            (Now::Absent, None) => true,
            (Now::File { bytes, mode, .. }, Some(Content::File { blob })) => *mode == change.mode && hash::sha256(bytes) == *blob,
            (Now::Link { target }, Some(Content::Link { target: new })) => target == new,
            _ => false,
        }
    }

    fn was(&self, base: &Was) -> bool {
        match (self, base) {
            (Now::Absent, Was::Absent) => true,
            (Now::File { bytes, .. }, Was::Held { blob }) => hash::sha256(bytes) == *blob,
            (Now::File { bytes, .. }, Was::Committed { oid }) => git_name(bytes, oid.len()) == *oid,
            (Now::Link { target }, Was::Committed { oid }) => git_name(target.as_bytes(), oid.len()) == *oid,
            _ => false,
        }
    }
}

/// Git's name of a content: SHA-1, or SHA-256 in repositories that use it.
fn git_name(bytes: &[u8], length: usize) -> String {
    let head = format!("blob {}\0", bytes.len());
    if length == 64 {
        return hash::sha256(&[head.as_bytes(), bytes].concat());
    }
    hash::hex(&Sha1::new().chain_update(head).chain_update(bytes).finalize())
}

/// Opens a folder beneath the root without following links, making it where a new file needs it.
fn open_parent(root: impl AsFd, folder: &Path, make: bool) -> Result<OwnedFd, Errno> {
    let open = |dir: &OwnedFd, name: &Path| {
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(dir, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), how)
    };
    let mut dir = rustix::fs::openat(&root, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for part in folder.components() {
        let part = Path::new(part.as_os_str());
        dir = match open(&dir, part) {
            Err(Errno::NOENT) if make => {
                let above = rustix::fs::fstat(&dir)?;
                rustix::fs::mkdirat(&dir, part, Mode::from_raw_mode(above.st_mode & 0o777))?;
                let made = open(&dir, part)?;
                give(&made, (above.st_uid, above.st_gid))?;
                made
            }
            other => other?,
        };
    }
    Ok(dir)
}

/// A new file belongs to whom the project does; an old one keeps its owner.
fn owner_of(root: impl AsFd, now: &Now) -> Result<(u32, u32), Errno> {
    if let Now::File { owner, .. } = now {
        return Ok(*owner);
    }
    let stat = rustix::fs::statat(root, "", AtFlags::EMPTY_PATH)?;
    Ok((stat.st_uid, stat.st_gid))
}

fn give(file: impl AsFd, (uid, gid): (u32, u32)) -> Result<(), Errno> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    rustix::fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
}

fn place(
    kernel: &Kernel,
    parent: &OwnedFd,
    name: &std::ffi::OsStr,
    change: &Frost,
    content: &Content,
    owner: (u32, u32),
) -> Result<(), std::io::Error> {
    let temporary = format!(".skep-merge-{}", &hash::sha256(change.path.as_bytes())[..16]);
    // Left by a crash between write and rename; ours by name.
    match rustix::fs::unlinkat(parent, &temporary, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    match content {
        Content::Link { target } => rustix::fs::symlinkat(target, parent, &temporary)?,
        Content::File { blob } => {
            let bytes = kernel.ledger.blob(blob).map_err(|fault| std::io::Error::other(fault.to_string()))?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut file = std::fs::File::from(rustix::fs::openat(parent, &temporary, flags, Mode::RUSR | Mode::WUSR)?);
            file.write_all(&bytes)?;
            give(&file, owner)?;
            rustix::fs::fchmod(&file, Mode::from_raw_mode(change.mode))?;
            file.sync_all()?;
        }
    }
    Ok(rustix::fs::renameat(parent, &temporary, parent, name)?)
}

/// Folders that a deletion left empty go too, as git has it.
fn remove_empty(root: impl AsFd, folder: Option<&Path>) {
    let mut at = folder;
    while let Some(path) = at.filter(|path| !path.as_os_str().is_empty()) {
        if rustix::fs::unlinkat(&root, path, AtFlags::REMOVEDIR).is_err() {
            return;
        }
        at = path.parent();
    }
}
