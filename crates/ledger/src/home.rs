//! Where a kernel keeps its state: `$SKEP_HOME`, 0700, one kernel at a time.

use rustix::fs::{FlockOperation, IFlags, Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use world::TaskId;
use world::{Fault, FaultKind};

#[derive(Debug)]
pub struct Home {
    pub path: PathBuf,
    /// Held as long as the kernel lives; the lock that makes it the only one.
    _lock: OwnedFd,
}

impl Home {
    /// Makes the folder where needed and takes its lock.
    pub fn open(path: &Path) -> Result<Home, Fault> {
        private_dir(path)?;
        let path = path.canonicalize().map_err(|error| Fault::io("open", path, error))?;
        for part in ["run", "work", "cassettes"] {
            private_dir(&path.join(part))?;
        }
        spread(&path.join("work"));
        let lock_path = path.join("run/kernel.lock");
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::open(&lock_path, flags, Mode::RUSR | Mode::WUSR).map_err(|error| Fault::io("open", &lock_path, error))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Fault::new(FaultKind::Io, "a kernel is running already", format!("`{}` is locked", lock_path.display()))
                .fix("use it")
                .remedy(world::Remedy::StopKernel)
        })?;
        Ok(Home { path, _lock: lock })
    }

    pub fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// Recorded traffic with models.
    pub fn cassettes(&self) -> PathBuf {
        self.path.join("cassettes")
    }

    /// Where the overlay of one task lives.
    pub fn work_of(&self, task: TaskId) -> PathBuf {
        self.work().join(task.to_string())
    }
}

fn private_dir(path: &Path) -> Result<(), Fault> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| Fault::io("make", path, error))?;
    let meta = std::fs::metadata(path).map_err(|error| Fault::io("look at", path, error))?;
    if meta.uid() != rustix::process::geteuid().as_raw() {
        let why = format!("it belongs to user {}", meta.uid());
        return Err(
            Fault::new(FaultKind::Io, format!("`{}` is not ours", path.display()), why).fix("set SKEP_HOME to a folder of your own")
        );
    }
    if meta.mode() & 0o077 != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).map_err(|error| Fault::io("close", path, error))?;
    }
    Ok(())
}

/// Asks ext4 to keep the folders of tasks far apart.
///
/// It puts a folder beside its neighbours, and for a minute or more uses no number of a file that was just deleted: it looks at each of them
/// for every new file. So after a task with a few thousand files was removed, new files of the next took it ten times as long.
fn spread(work: &Path) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let asked = rustix::fs::open(work, flags, Mode::empty()).and_then(|folder| {
        let held = rustix::fs::ioctl_getflags(&folder)?;
        if held.contains(IFlags::TOPDIR) { Ok(()) } else { rustix::fs::ioctl_setflags(&folder, held | IFlags::TOPDIR) }
    });
    // Other file systems know no such wish and need none; without it all is as it was.
    let _ = asked;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EXT4_SUPER_MAGIC
    const EXT4: rustix::fs::FsWord = 0xef53;

    #[test]
    fn folders_of_tasks_lie_apart_where_the_disk_can() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&folder.path().join("home")).unwrap();
        let flags =
            |path: &Path| rustix::fs::ioctl_getflags(std::fs::File::open(path).unwrap()).map(|flags| flags.contains(IFlags::TOPDIR));
        if rustix::fs::statfs(home.work()).unwrap().f_type == EXT4 {
            assert_eq!((flags(&home.work()), flags(&home.cassettes())), (Ok(true), Ok(false)));
        }
        drop(home);
        // What was asked before is not asked again, and no error.
        assert!(Home::open(&folder.path().join("home")).unwrap().work().is_dir());
    }
}
