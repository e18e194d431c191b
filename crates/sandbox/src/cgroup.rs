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
    cpu: Option<Controller>,
    /// Our group of version 2, with or without controllers: it freezes and kills a tree at once.
    unified: Option<PathBuf>,
    name: String,
    next: AtomicU64,
}

#[derive(Debug, Clone)]
pub(crate) struct Controller {
    /// Our own group, under which new ones are made.
    pub(crate) path: PathBuf,
    pub(crate) unified: bool,
}

/// The span over which a share of the processor is counted.
const CPU_PERIOD_US: u64 = 100_000;

impl Cgroups {
    pub(crate) fn find() -> Cgroups {
        let Ok(kernel) = Identity::of(rustix::process::getpid().as_raw_nonzero().get()) else { return Cgroups::default() };
        let usable = |name: &str| controller(name).filter(Controller::usable);
        Cgroups {
            memory: usable("memory"),
            pids: usable("pids"),
            cpu: usable("cpu"),
            unified: unified().filter(|path| writable(path)),
            name: format!("{PREFIX}{}-{}", kernel.pid, kernel.start),
            next: AtomicU64::new(1),
        }
    }

    /// A group for these limits, as far as they need and find one.
    pub(crate) fn open(&self, limits: &Limits) -> Option<Group> {
        if limits.memory_bytes.is_none() && limits.cpu_milli.is_none() {
            return None;
        }
        let name = format!("{}-{}", self.name, self.next.fetch_add(1, Ordering::Relaxed));
        let mut group = Group::default();
        if let (Some(bytes), Some(memory)) = (limits.memory_bytes, &self.memory) {
            let limit = if memory.unified { "memory.max" } else { "memory.limit_in_bytes" };
            group.memory = group.add(&memory.path, &name, &[(limit, bytes.to_string())]).ok().map(|folder| (folder, memory.unified));
            if let Some((folder, _)) = &group.memory {
                // Without this the limit only moves the job to the swap file. Hosts without swap accounting lack the file.
                let (swap, value) = if memory.unified { ("memory.swap.max", 0) } else { ("memory.memsw.limit_in_bytes", bytes) };
                let _ = fs::write(folder.join(swap), value.to_string());
            }
        }
        if let (Some(milli), Some(cpu)) = (limits.cpu_milli, &self.cpu) {
            let quota = u64::from(milli) * CPU_PERIOD_US / 1000;
            let limits: &[(&str, String)] = if cpu.unified {
                &[("cpu.max", format!("{quota} {CPU_PERIOD_US}"))]
            } else {
                &[("cpu.cfs_period_us", CPU_PERIOD_US.to_string()), ("cpu.cfs_quota_us", quota.to_string())]
            };
            group.has_cpu = group.add(&cpu.path, &name, limits).is_ok();
        }
        if let Some(pids) = &self.pids {
            // Pid 1 counts too, and is not the caller's.
            let max = [("pids.max", (u64::from(limits.pids) + 1).to_string())];
            group.pids = group.add(&pids.path, &name, &max).ok();
        }
        if let Some(unified) = &self.unified {
            group.unified = group.add(unified, &name, &[]).ok();
        }
        (!group.folders.is_empty()).then_some(group)
    }
}

/// One job's groups.
#[derive(Debug, Default)]
pub(crate) struct Group {
    folders: Vec<PathBuf>,
    joins: Vec<OwnedFd>,
    /// With whether it is of version 2.
    memory: Option<(PathBuf, bool)>,
    pids: Option<PathBuf>,
    has_cpu: bool,
    unified: Option<PathBuf>,
}

impl Group {
    fn add(&mut self, parent: &Path, name: &str, limits: &[(&str, String)]) -> io::Result<PathBuf> {
        let folder = parent.join(name);
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
        Ok(folder)
    }

    /// What the job writes itself into.
    pub(crate) fn joins(&self) -> &[OwnedFd] {
        &self.joins
    }

    pub(crate) fn memory(&self) -> Option<Enforcement> {
        self.memory.as_ref().map(|_| Enforcement::Cgroup)
    }

    pub(crate) fn pids(&self) -> Option<Enforcement> {
        self.pids.as_ref().map(|_| Enforcement::Cgroup)
    }

    pub(crate) fn cpu(&self) -> Option<Enforcement> {
        self.has_cpu.then_some(Enforcement::Cgroup)
    }

    /// Bytes in use now, caches included.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        let (folder, unified) = self.memory.as_ref()?;
        read(&folder.join(if *unified { "memory.current" } else { "memory.usage_in_bytes" })).trim().parse().ok()
    }

    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let Some((folder, unified)) = &self.memory else { return false };
        let text = read(&folder.join(if *unified { "memory.events" } else { "memory.oom_control" }));
        text.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0")
    }

    /// Stops or goes on with everything in it; false where there is no freezer whose frozen processes can still be killed.
    pub(crate) fn freeze(&self, frozen: bool) -> bool {
        // Not version 1's: what it holds does not die of SIGKILL, so a kernel that is killed would leave frozen orphans.
        let Some(folder) = &self.unified else { return false };
        fs::write(folder.join("cgroup.freeze"), if frozen { "1" } else { "0" }).is_ok()
    }

    pub(crate) fn is_frozen(&self) -> bool {
        let events = self.unified.as_ref().map(|folder| read(&folder.join("cgroup.events"))).unwrap_or_default();
        events.lines().any(|line| line == "frozen 1")
    }

    /// Kills everything in it at once, where version 2 can.
    pub(crate) fn kill(&self) {
        if let Some(folder) = &self.unified {
            let _ = fs::write(folder.join("cgroup.kill"), "1");
        }
    }
}

/// Removes groups when the job's last process has left them.
pub(crate) fn remove_after(group: Arc<Group>, pidfd: Arc<OwnedFd>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(async move {
        if let Ok(pidfd) = pidfd.try_clone().and_then(sys::watch) {
            let _ = pidfd.readable().await;
        }
        drop(group);
    });
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in &self.folders {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Our own group in the tree of version 2, which a hybrid host has beside those of version 1.
pub(crate) fn unified() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = mounts()?;
    let mount = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(path))
    })?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(mount.join(path))
}

/// What is mounted on this host, a line for each. Others mount what they like, and names of theirs that are no text hide nothing.
fn mounts() -> Option<String> {
    fs::read("/proc/self/mounts").ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The group this process is in for a controller.
pub(crate) fn controller(name: &str) -> Option<Controller> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = mounts()?;
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

pub(crate) fn read(path: &Path) -> String {
    let mut text = String::new();
    let _ = File::open(path).and_then(|mut file| file.read_to_string(&mut text));
    text
}

impl Controller {
    pub(crate) fn usable(&self) -> bool {
        writable(&self.path)
    }
}

pub(crate) fn writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
}
