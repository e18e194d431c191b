//! A cgroup per limited job, where this host lets us make one.
//!
//! Made and removed by the kernel process; a job only joins, through a `cgroup.procs` that was opened for it. Version 1 has a
//! tree per controller, version 2 one tree, in which our own group must already pass the controllers down.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::process::Identity;
use crate::spec::{Enforcement, Limits};
use crate::sys;

/// Every group of ours begins so; the kernel's pid and start time follow.
pub(crate) const PREFIX: &str = "skep-";

/// Where groups can be made.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    memory: Option<Controller>,
    pids: Option<Controller>,
    name: String,
    next: AtomicU64,
}

#[derive(Debug, Clone)]
pub(crate) struct Controller {
    /// Our own group, under which new ones are made.
    pub(crate) path: PathBuf,
    pub(crate) unified: bool,
}

impl Cgroups {
    pub(crate) fn find() -> Cgroups {
        let Ok(kernel) = Identity::of(rustix::process::getpid().as_raw_nonzero().get()) else { return Cgroups::default() };
        Cgroups {
            memory: controller("memory").filter(Controller::usable),
            pids: controller("pids").filter(Controller::usable),
            name: format!("{PREFIX}{}-{}", kernel.pid, kernel.start),
            next: AtomicU64::new(1),
        }
    }

    /// A group for these limits, as far as they need and find one.
    pub(crate) fn open(&self, limits: &Limits) -> Option<Group> {
        let memory_bytes = limits.memory_bytes?;
        let memory = self.memory.as_ref()?;
        let name = format!("{}-{}", self.name, self.next.fetch_add(1, Ordering::Relaxed));
        let mut group = Group { folders: Vec::new(), joins: Vec::new(), memory: memory.clone(), has_pids: false };
        let limit = if memory.unified { "memory.max" } else { "memory.limit_in_bytes" };
        group.add(memory, &name, &[(limit, memory_bytes.to_string())]).ok()?;
        // Without this the limit only moves the job to the swap file. Hosts without swap accounting lack the file.
        let (swap, value) = if memory.unified { ("memory.swap.max", 0) } else { ("memory.memsw.limit_in_bytes", memory_bytes) };
        let _ = fs::write(group.folders[0].join(swap), value.to_string());
        if let Some(pids) = &self.pids {
            // Pid 1 counts too, and is not the caller's.
            let max = [("pids.max", (u64::from(limits.pids) + 1).to_string())];
            group.has_pids = group.add(pids, &name, &max).is_ok();
        }
        Some(group)
    }
}

/// One job's groups.
#[derive(Debug)]
pub(crate) struct Group {
    folders: Vec<PathBuf>,
    joins: Vec<OwnedFd>,
    memory: Controller,
    has_pids: bool,
}

impl Group {
    fn add(&mut self, controller: &Controller, name: &str, limits: &[(&str, String)]) -> io::Result<()> {
        let folder = controller.path.join(name);
        let shared = self.folders.contains(&folder);
        if !shared {
            fs::create_dir(&folder)?;
            self.folders.push(folder.clone());
        }
        for (file, value) in limits {
            // Not `fs::write`: creating is not possible here, and the error should say so.
            File::options().write(true).open(folder.join(file))?.write_all(value.as_bytes())?;
        }
        if !shared {
            self.joins.push(File::options().write(true).open(folder.join("cgroup.procs"))?.into());
        }
        Ok(())
    }

    /// What the job writes itself into.
    pub(crate) fn joins(&self) -> &[OwnedFd] {
        &self.joins
    }

    pub(crate) fn enforced(&self) -> (Enforcement, Enforcement) {
        (Enforcement::Cgroup, if self.has_pids { Enforcement::Cgroup } else { Enforcement::Rlimit })
    }

    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let file = if self.memory.unified { "memory.events" } else { "memory.oom_control" };
        let Some(folder) = self.folders.first() else { return false };
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        text.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0")
    }

    /// Removes the group when the job's last process has left it.
    pub(crate) fn remove_after(self, pidfd: Arc<OwnedFd>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Ok(pidfd) = pidfd.try_clone().and_then(sys::watch) {
                let _ = pidfd.readable().await;
            }
            drop(self);
        });
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in &self.folders {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// The group this process is in for a controller.
pub(crate) fn controller(name: &str) -> Option<Controller> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounted = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (path, found, options) = (fields.next()?, fields.next()?, fields.next()?);
            let has = option.is_none_or(|option| options.split(',').any(|held| held == option));
            (found == kind && has).then(|| PathBuf::from(path))
        })
    };
    let path_of = |wanted: &dyn Fn(&str) -> bool| {
        own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            wanted(controllers).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    if let (Some(mount), Some(path)) =
        (mounted("cgroup", Some(name)), path_of(&|controllers| controllers.split(',').any(|held| held == name)))
    {
        return Some(Controller { path: mount.join(path), unified: false });
    }
    let path = mounted("cgroup2", None)?.join(path_of(&|controllers| controllers.is_empty())?);
    let passed = read(&path.join("cgroup.subtree_control"));
    passed.split_whitespace().any(|held| held == name).then_some(Controller { path, unified: true })
}

fn read(path: &Path) -> String {
    let mut text = String::new();
    let _ = File::open(path).and_then(|mut file| file.read_to_string(&mut text));
    text
}

impl Controller {
    pub(crate) fn usable(&self) -> bool {
        rustix::fs::access(&self.path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
    }
}
