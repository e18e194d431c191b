//! The room's file tree: what a job can see.
//!
//! A read-only tmpfs with the host's system folders bound read-only, a handful of devices, a few files of /etc, and the project's
//! overlay at the project's own path. Everything is attached through detached mounts: they reach sources that the job's user could
//! not walk to, and they do not care that the new root covers the old paths.
//!
//! Seen while building it (6.18): overlayfs refuses a layer that is a mere descriptor opened before the unshare (it clones the
//! layer's mount, and wants that mount in its own namespace); a detached mount moved in is accepted, idmapped or not. A new proc
//! can be mounted in a user namespace only while another, uncovered proc is visible, so the host's stays beneath the job's own.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags};

use crate::fault::{At, Failure, Step};
use crate::namespace::{self, User};
use crate::order::{BindOrder, Bytes, MaskOrder, OpenOrder, Uncovered};
use crate::resolver;
use crate::share;
use crate::sys;

/// What lies over a masked path, in the room's own root.
pub(super) const COVERS: &str = "/.mask";

/// Where the new root is mounted until it is the root. Any folder that every user can reach will do.
const STAGE: &str = "/tmp";

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const HARMLESS: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// Folders with programs and libraries. A symbolic link, as on merged-/usr hosts, is made again as a link.
pub(crate) const SYSTEM: &[&str] = &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// What programs look up in /etc, none of it secret.
pub(crate) const ETC: &[&str] = &[
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    // Not all of it: beside these lie private keys, which a group of the user's could open.
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates",
    "pki",
    "nsswitch.conf",
    "hosts",
    "localtime",
    "timezone",
    "mime.types",
    "services",
    "protocols",
    "gitconfig",
    "os-release",
    "debian_version",
];
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// A built room.
pub(crate) struct RoomTree {
    /// The merged project as jobs see it.
    pub(crate) root: OwnedFd,
    /// The same without masks, for reads that were decided one by one.
    pub(crate) bare: OwnedFd,
    pub(crate) uncovered: Uncovered,
    pub(crate) project: PathBuf,
    /// Mounts under /tmp, where a job mounts its own file system: the project, and binds that do not lie in it.
    pub(crate) in_tmp: Vec<PathBuf>,
    /// The project, and binds and shares that jobs may write.
    pub(crate) writable: Vec<PathBuf>,
}

/// What the overlay is made of: the project, perhaps another workspace's changes over it, and the folder for changes of its own.
pub(crate) struct Layers {
    lower: OwnedFd,
    beneath: Option<OwnedFd>,
    work: OwnedFd,
}

/// Mounts of host paths, not yet attached.
pub(crate) struct Sources {
    layers: Option<Layers>,
    binds: Vec<OwnedFd>,
    shares: share::Taken,
}

impl Sources {
    /// As root: taken while still root, because the job's user can walk neither to the workspace nor to a private project.
    pub(crate) fn as_root(order: &OpenOrder, user: User) -> Result<Sources, Failure> {
        if !user.assumed {
            return Ok(Sources { layers: None, binds: Vec::new(), shares: Vec::new() });
        }
        let work = order.work.path();
        for path in [work.to_owned(), work.join("upper"), work.join("work")] {
            std::os::unix::fs::chown(&path, Some(user.uid), Some(user.gid))
                .map_err(|error| Failure::new(Step::WorkDirectory, error).about(path.display()))?;
        }
        let mut maps = namespace::IdMaps::new(user);
        let lower = maps
            .mount(order.project.path())
            .map_err(|error| Failure::new(Step::IdmappedLower, error).about(order.project.path().display()))?;
        let work = namespace::detached(work, false).at(Step::WorkDirectory)?;
        let beneath = beneath(order)?;
        let mut bind = |bind: &BindOrder| {
            let source = bind.source.path();
            // A foreign file in a writable bind would be the job's to read but not to write; mapping makes it the job's own.
            let mount = if bind.writable { maps.mount(source) } else { namespace::detached(source, true) };
            mount.map_err(|error| Failure::new(Step::Binds, error).about(source.display()))
        };
        let binds = order.binds.iter().map(&mut bind).collect::<Result<_, _>>()?;
        Ok(Sources { layers: Some(Layers { lower, beneath, work }), binds, shares: share::take_as_root(order, user, &mut maps)? })
    }

    /// As an ordinary user: taken in the new namespace, where that user has the right to.
    fn complete(self, order: &OpenOrder) -> Result<(Layers, Vec<OwnedFd>, share::Taken), Failure> {
        if let Some(layers) = self.layers {
            return Ok((layers, self.binds, self.shares));
        }
        let take = |path: &Path, recursive, step| {
            namespace::detached(path, recursive).map_err(|error| Failure::new(step, error).about(path.display()))
        };
        let lower = take(order.project.path(), false, Step::Overlay)?;
        let work = take(order.work.path(), false, Step::WorkDirectory)?;
        let beneath = beneath(order)?;
        let binds = order.binds.iter().map(|bind| take(bind.source.path(), true, Step::Binds)).collect::<Result<_, _>>()?;
        Ok((Layers { lower, beneath, work }, binds, share::take(order)))
    }
}

/// The other workspace's changes; they belong to the job's user already, so no mapping is needed.
fn beneath(order: &OpenOrder) -> Result<Option<OwnedFd>, Failure> {
    let take = |path: &Path| namespace::detached(path, false).map_err(|error| Failure::new(Step::Overlay, error).about(path.display()));
    order.beneath.as_ref().map(|path| take(path.path())).transpose()
}

/// Builds the tree in this mount namespace and makes it the root.
pub(super) fn build(order: &OpenOrder, user: User, sources: Sources) -> Result<RoomTree, Failure> {
    rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).at(Step::RootFilesystem)?;
    let (layers, binds, shares) = sources.complete(order)?;
    let system = System::take()?;

    let options = c"mode=0755,size=16m";
    rustix::mount::mount("skep", STAGE, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options).at(Step::RootFilesystem)?;
    rustix::process::chdir(STAGE).at(Step::RootFilesystem)?;
    rustix::process::umask(Mode::from_raw_mode(0o022));

    folders(user).at(Step::RootFilesystem)?;
    system.attach()?;
    let project = order.project.path();
    overlay(&layers, inside(project).at(Step::Overlay)?)?;
    // Before what the operator shows, which is never left out.
    let shared = share::attach(order, &shares, Path::new(".layers/work"), Path::new(COVERS.trim_start_matches('/')));
    drop_layers(&layers)?;
    for (bind, mount) in order.binds.iter().zip(&binds) {
        attach_bind(bind, mount).map_err(|error| Failure::new(Step::Binds, error).about(bind.target.path().display()))?;
    }
    pivot().at(Step::PivotRoot)?;

    let root = rustix::fs::open(project, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).at(Step::Overlay)?;
    let bare = namespace::detached(project, true).at(Step::Masks)?;
    let masks = MaskOrder { cover: order.masked.clone(), ..MaskOrder::default() };
    let uncovered = remask(&root, Path::new(COVERS), &masks)?;
    let slash = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).at(Step::PivotRoot)?;
    sys::mount_setattr(&slash, false, READ_ONLY, None).at(Step::PivotRoot)?;
    let shared_targets = || shared.iter().map(|share| share.target.path());
    // What lies in another share is carried along with it.
    let outer = shared_targets().filter(|target| !shared_targets().any(|other| other != *target && target.starts_with(other)));
    let targets = order.binds.iter().map(|bind| bind.target.path()).filter(|target| !target.starts_with(project)).chain(outer);
    let in_tmp = std::iter::once(project).chain(targets).filter(|path| path.starts_with("/tmp")).map(Path::to_owned).collect();
    let binds = order.binds.iter().filter(|bind| bind.writable).map(|bind| bind.target.path());
    let layered = shared.iter().filter(|share| share.layer.is_some()).map(|share| share.target.path());
    let writable = std::iter::once(project).chain(binds).chain(layered).map(Path::to_owned).collect();
    Ok(RoomTree { root, bare, uncovered, project: project.to_owned(), in_tmp, writable })
}

/// The host's part of the tree.
struct System {
    folders: Vec<(String, OwnedFd)>,
    links: Vec<(String, PathBuf)>,
    devices: Vec<(&'static str, OwnedFd)>,
    proc: OwnedFd,
}

impl System {
    fn take() -> Result<System, Failure> {
        let mut system = System {
            folders: Vec::new(),
            links: Vec::new(),
            devices: Vec::new(),
            proc: namespace::detached(Path::new("/proc"), true).at(Step::ProcFilesystem)?,
        };
        let names = SYSTEM.iter().map(|name| (*name).to_owned()).chain(ETC.iter().map(|name| format!("etc/{name}")));
        for name in names {
            let path = Path::new("/").join(&name);
            match fs::symlink_metadata(&path) {
                Ok(kind) if kind.is_symlink() => {
                    system.links.push((name, fs::read_link(&path).at(Step::SystemFolders)?));
                }
                Ok(_) => {
                    let mount = namespace::detached(&path, true)
                        .and_then(|mount| sys::mount_setattr(&mount, true, READ_ONLY, None).map(|()| mount))
                        .map_err(|error| Failure::new(Step::SystemFolders, error).about(path.display()))?;
                    system.folders.push((name, mount));
                }
                Err(_) => {}
            }
        }
        for name in DEVICES {
            let mount = namespace::detached(&Path::new("/dev").join(name), false)
                .map_err(|error| Failure::new(Step::Devices, error).about(name))?;
            system.devices.push((name, mount));
        }
        Ok(system)
    }

    fn attach(self) -> Result<(), Failure> {
        for (name, target) in &self.links {
            symlink(target, name).at(Step::SystemFolders)?;
        }
        for (name, mount) in &self.folders {
            attach(mount, Path::new(name)).map_err(|error| Failure::new(Step::SystemFolders, error).about(name))?;
        }
        for (name, mount) in &self.devices {
            attach(mount, &Path::new("dev").join(name)).at(Step::Devices)?;
        }
        // No gid option: the group that owns terminals on the host does not exist here.
        let options = namespace::TERMINALS;
        rustix::mount::mount("devpts", "dev/pts", "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, options).at(Step::Devices)?;
        attach(&self.proc, Path::new("proc")).at(Step::ProcFilesystem)
    }
}

/// Folders, links and files that are the room's own.
fn folders(user: User) -> io::Result<()> {
    for name in ["proc", "tmp", "run", "etc", "dev", "dev/shm", "dev/pts", ".layers/lower", ".layers/work", ".mask/folder"] {
        fs::create_dir_all(name)?;
    }
    for (name, target) in [
        ("dev/fd", "/proc/self/fd"),
        ("dev/stdin", "/proc/self/fd/0"),
        ("dev/stdout", "/proc/self/fd/1"),
        ("dev/stderr", "/proc/self/fd/2"),
        ("dev/ptmx", "pts/ptmx"),
    ] {
        symlink(target, name)?;
    }
    let (passwd, group) = accounts(user);
    fs::write("etc/passwd", passwd)?;
    fs::write("etc/group", group)?;
    fs::write("etc/resolv.conf", resolver::SETTINGS)?;
    for (name, text) in TOLD {
        Path::new(name).parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(name, text)?;
    }
    fs::write(".mask/file", "")?;
    for name in [".mask/file", ".mask/folder"] {
        fs::set_permissions(name, fs::Permissions::from_mode(0o000))?;
    }
    Ok(())
}

/// What programs are told about where they are, so that they find the models of a room as they are started; what stands here counts less
/// than their own settings and arguments. Codex does not heed `OPENAI_BASE_URL`, would have its provider search the web and make pictures,
/// which the gateway refuses, and waits for names that a room does not have. Gemini asks how to sign in, and whether to trust the folder; it
/// heeds this where the file is of uid 0, as in a container.
pub(crate) const TOLD: &[(&str, &str)] = &[
    (
        "etc/codex/config.toml",
        "web_search = \"disabled\"\nmodel_provider = \"skep\"\n\
         [model_providers.skep]\nname = \"skep\"\nbase_url = \"http://127.0.0.1:61129/v1\"\nenv_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\n\
         [analytics]\nenabled = false\n[features]\nimage_generation = false\nplugins = false\n",
    ),
    (
        "etc/gemini-cli/settings.json",
        "{\"security\": {\"auth\": {\"selectedType\": \"gemini-api-key\"}, \"folderTrust\": {\"enabled\": false}}, \
         \"privacy\": {\"usageStatisticsEnabled\": false}, \"general\": {\"enableAutoUpdate\": false}}\n",
    ),
];

/// The files that name the users and groups of a room.
pub(crate) fn accounts(User { uid, gid, .. }: User) -> (String, String) {
    let root = "root:x:0:0:root:/:/usr/sbin/nologin";
    let nobody = "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin";
    let passwd = format!("{root}\nskep:x:{uid}:{gid}:skep:/tmp/home:/bin/sh\n{nobody}\n");
    (passwd, format!("root:x:0:\nskep:x:{gid}:\nnogroup:x:65534:\n"))
}

/// Attaches a detached mount, making a mount point of the same kind where there is none.
pub(crate) fn attach(mount: &OwnedFd, target: &Path) -> io::Result<()> {
    if fs::symlink_metadata(target).is_err() {
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        let stat = rustix::fs::fstat(mount)?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() { fs::create_dir(target)? } else { fs::write(target, "")? }
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(rustix::mount::move_mount(mount, "", rustix::fs::CWD, target, flags)?)
}

/// An absolute path as a path beneath the new root.
pub(crate) fn inside(path: &Path) -> io::Result<&Path> {
    let plain = path.components().skip(1).all(|part| matches!(part, Component::Normal(_)));
    match path.strip_prefix("/") {
        Ok(relative) if plain && relative != Path::new("") => Ok(relative),
        _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

fn overlay(layers: &Layers, project: &Path) -> Result<(), Failure> {
    attach(&layers.lower, Path::new(".layers/lower")).at(Step::Overlay)?;
    attach(&layers.work, Path::new(".layers/work")).at(Step::Overlay)?;
    if let Some(beneath) = &layers.beneath {
        attach(beneath, Path::new(".layers/beneath")).at(Step::Overlay)?;
    }
    fs::create_dir_all(project).at(Step::Overlay)?;
    // The names are ours and relative, so no byte of the project's path can be taken for an option.
    let options = match layers.beneath {
        None => c"userxattr,lowerdir=.layers/lower,upperdir=.layers/work/upper,workdir=.layers/work/work",
        Some(_) => c"userxattr,lowerdir=.layers/beneath:.layers/lower,upperdir=.layers/work/upper,workdir=.layers/work/work",
    };
    rustix::mount::mount("skep", project, "overlay", MountFlags::NOSUID | MountFlags::NODEV, options).at(Step::Overlay)?;
    Ok(())
}

/// Overlays keep their own copies; a job must not reach the layers beside them.
fn drop_layers(layers: &Layers) -> Result<(), Failure> {
    let beneath = layers.beneath.as_ref().map(|_| ".layers/beneath");
    for layer in [".layers/lower", ".layers/work"].into_iter().chain(beneath) {
        rustix::mount::unmount(layer, UnmountFlags::DETACH).at(Step::Overlay)?;
    }
    Ok(())
}

fn attach_bind(bind: &BindOrder, mount: &OwnedFd) -> io::Result<()> {
    sys::mount_setattr(mount, !bind.writable, if bind.writable { HARMLESS } else { READ_ONLY }, None)?;
    attach(mount, inside(bind.target.path())?)
}

/// Makes the current directory the root and lets go of the old one.
fn pivot() -> io::Result<()> {
    // Both paths the same: the old root lies over the new one and is taken off at once, and needs no folder of its own.
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}

/// Takes masks off and puts others on. What could not be covered comes back.
///
/// A path is walked without links: one that a job put in the way of it leads to nothing that the mask was for.
pub(crate) fn remask(root: &OwnedFd, covers: &Path, change: &MaskOrder) -> Result<Uncovered, Failure> {
    let about = |path: &Bytes| {
        let path = path.path().display().to_string();
        move |error: io::Error| Failure::new(Step::Masks, error).about(path)
    };
    if change.refresh {
        refresh(root).map_err(|error| Failure::new(Step::Overlay, error))?;
    }
    for path in &change.lift {
        lift(root, path.path()).map_err(about(path))?;
    }
    let mut uncovered = Uncovered::default();
    for path in &change.cover {
        match mask(root, path.path(), covers).map_err(about(path))? {
            Covered::Yes => {}
            Covered::Absent => uncovered.absent.push(path.clone()),
            Covered::Closed => uncovered.closed.push(path.clone()),
        }
    }
    Ok(uncovered)
}

/// Has the overlay forget what it looked up before: mounting it again drops every name that nobody holds open.
fn refresh(root: &OwnedFd) -> io::Result<()> {
    rustix::process::fchdir(root)?;
    let again = rustix::mount::mount_remount(".", MountFlags::NOSUID | MountFlags::NODEV, c"");
    rustix::process::chdir("/")?;
    Ok(again?)
}

pub(crate) enum Covered {
    Yes,
    Absent,
    Closed,
}

const NO_LINKS: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_SYMLINKS);

/// Is it that what was to be opened is not there, or hidden by what a job made?
fn is_absent(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP)
}

/// Covers a path with something empty that nobody may open.
pub(crate) fn mask(root: &OwnedFd, path: &Path, covers: &Path) -> io::Result<Covered> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = match rustix::fs::openat2(root, path, flags, Mode::empty(), NO_LINKS) {
        Ok(target) => target,
        Err(error) if is_absent(error) => return Ok(Covered::Absent),
        Err(rustix::io::Errno::ACCESS) => return Ok(Covered::Closed),
        Err(error) => return Err(error.into()),
    };
    let is_dir = match rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&target)?.st_mode) {
        rustix::fs::FileType::Symlink => return Ok(Covered::Absent),
        kind => kind.is_dir(),
    };
    let cover = namespace::detached(&covers.join(if is_dir { "folder" } else { "file" }), false)?;
    sys::mount_setattr(&cover, false, READ_ONLY, None)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(&cover, "", target.as_fd(), "", flags)?;
    Ok(Covered::Yes)
}

/// Uncovers a path again. By way of its folder: a link in its place must not lead the hand to another mask.
fn lift(root: &OwnedFd, path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name() else { return Err(io::Error::from_raw_os_error(libc::EINVAL)) };
    let parent = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = match rustix::fs::openat2(root, parent, flags, Mode::empty(), NO_LINKS) {
        Ok(folder) => folder,
        Err(error) if is_absent(error) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    rustix::process::fchdir(&folder)?;
    let lifted = rustix::mount::unmount(name, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    rustix::process::chdir("/")?;
    match lifted {
        // A job that began before the mask may have taken the path away, and the mask with it.
        Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MODELS_PORT;

    #[test]
    fn codex_is_told_where_the_models_of_a_room_are() {
        let (_, text) = TOLD.iter().find(|(name, _)| name.contains("codex")).unwrap();
        assert!(text.contains(&format!("base_url = \"http://127.0.0.1:{MODELS_PORT}/v1\"\n")), "{text}");
    }
}
