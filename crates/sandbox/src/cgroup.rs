//! A cgroup per limited job, where this host lets us make one, and groups around several jobs that share a limit.
//!
//! Made and removed by the kernel process; a job only joins, through a `cgroup.procs` that was opened for it. Version 1 has a
//! tree per controller, version 2 one tree, in which our own group must already pass the controllers down.
//!
//! A [`JobBranch`] is a group that holds other groups and no process itself, as version 2 demands.

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

/// Groups under which others can be made, one for each controller.
#[derive(Debug, Default, Clone)]
struct GroupParents {
    memory: Option<Controller>,
    pids: Option<Controller>,
    cpu: Option<Controller>,
    /// A group of version 2, with or without controllers: it freezes and kills a tree at once.
    unified: Option<PathBuf>,
}

/// Where groups can be made.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    own: GroupParents,
    name: String,
    next: AtomicU64,
}

/// What the jobs of a branch may use together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedLimits {
    pub memory_bytes: Option<u64>,
    /// Thousandths of one processor.
    pub cpu_milli: Option<u32>,
}

/// Jobs that share limits, and branches within it. Its groups are removed when the last of them is gone.
#[derive(Debug)]
pub struct JobBranch {
    /// Its own groups.
    folders: Vec<PathBuf>,
    /// Those that a job of it lies in: its own, and of the branch around it for other controllers.
    joined: Vec<PathBuf>,
    parents: GroupParents,
    memory: Option<Controller>,
    /// Numbers the groups of programs outside rooms.
    next: AtomicU64,
    /// Removed after this one.
    _within: Option<Arc<JobBranch>>,
}

impl JobBranch {
    /// A group for a program outside rooms.
    pub(crate) fn open_group(self: &Arc<Self>) -> io::Result<Group> {
        let name = format!("host-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let mut group = Group::default();
        group.within = Some(Arc::clone(self));
        self.joined.iter().try_for_each(|folder| group.add(folder, &name, &[]).map(drop))?;
        Ok(group)
    }

    /// Bytes that its jobs use now, caches included.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.memory.as_ref().and_then(Controller::memory_bytes)
    }
}

impl Drop for JobBranch {
    fn drop(&mut self) {
        remove(&self.folders);
    }
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
        let unified = unified().filter(|path| writable(path));
        Cgroups {
            own: GroupParents { memory: usable("memory"), pids: usable("pids"), cpu: usable("cpu"), unified },
            name: format!("{PREFIX}{}-{}", kernel.pid, kernel.start),
            next: AtomicU64::new(1),
        }
    }

    fn next_name(&self) -> String {
        format!("{}-{}", self.name, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// A group for these limits, as far as they need and find one. Within a branch there is always one, or the reason why not.
    pub(crate) fn open(&self, limits: &Limits, branch: Option<&Arc<JobBranch>>) -> io::Result<Option<Group>> {
        if limits.memory_bytes.is_none() && limits.cpu_milli.is_none() && branch.is_none() {
            return Ok(None);
        }
        let parents = branch.map_or(&self.own, |branch| &branch.parents);
        let name = self.next_name();
        let mut group = Group::default();
        group.within = branch.cloned();
        if let Some(branch) = branch {
            for folder in &branch.joined {
                group.add(folder, &name, &[])?;
            }
            let memory = parents.memory.as_ref().filter(|memory| branch.joined.contains(&memory.path));
            group.branch_memory = memory.map(|memory| Controller { path: memory.path.join(&name), unified: memory.unified });
        }
        if let (Some(bytes), Some(memory)) = (limits.memory_bytes, &parents.memory)
            && let Ok(folder) = group.add(&memory.path, &name, &[(memory.limit_file(), bytes.to_string())])
        {
            let own = Controller { path: folder, unified: memory.unified };
            own.forbid_swap(bytes);
            group.memory = Some(own);
        }
        if let (Some(milli), Some(cpu)) = (limits.cpu_milli, &parents.cpu) {
            group.has_cpu = group.add(&cpu.path, &name, &cpu.quota(milli)).is_ok();
        }
        if let Some(pids) = &parents.pids {
            // Pid 1 counts too, and is not the caller's.
            let max = [("pids.max", (u64::from(limits.pids) + 1).to_string())];
            group.pids = group.add(&pids.path, &name, &max).ok();
        }
        if let Some(unified) = &parents.unified {
            group.unified = group.add(unified, &name, &[]).ok();
        }
        Ok((!group.folders.is_empty()).then_some(group))
    }

    /// Says which of these limits no group of this host can hold.
    pub(crate) fn cannot_share(&self, limits: &SharedLimits) -> Option<&'static str> {
        match (&self.own.memory, &self.own.cpu) {
            (None, _) if limits.memory_bytes.is_some() => Some("memory"),
            (_, None) if limits.cpu_milli.is_some() => Some("cpu"),
            _ => None,
        }
    }

    /// Groups around the jobs of a branch. All of its limits hold, or there is none.
    pub(crate) fn open_branch(&self, limits: &SharedLimits, within: Option<&Arc<JobBranch>>) -> io::Result<JobBranch> {
        if let Some(controller) = self.cannot_share(limits) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, format!("there is no {controller} cgroup that this user may write")));
        }
        let parents = within.map_or(&self.own, |branch| &branch.parents);
        let name = self.next_name();
        let joined = within.map(|branch| branch.joined.clone()).unwrap_or_default();
        let next = AtomicU64::new(1);
        let mut branch = JobBranch { folders: Vec::new(), joined, parents: parents.clone(), memory: None, next, _within: within.cloned() };
        if let (Some(bytes), Some(memory)) = (limits.memory_bytes, &parents.memory) {
            let own = branch.enter(memory, &name)?;
            own.count_below()?;
            own.write(own.limit_file(), &bytes.to_string())?;
            own.forbid_swap(bytes);
            branch.parents.memory = Some(own.clone());
            branch.memory = Some(own);
        }
        if let (Some(milli), Some(cpu)) = (limits.cpu_milli, &parents.cpu) {
            let own = branch.enter(cpu, &name)?;
            cpu.quota(milli).iter().try_for_each(|(file, value)| own.write(file, value))?;
            branch.parents.cpu = Some(own);
        }
        Ok(branch)
    }
}

impl JobBranch {
    /// The group of this branch below that of one controller, made if it is not there.
    fn enter(&mut self, parent: &Controller, name: &str) -> io::Result<Controller> {
        let own = Controller { path: parent.path.join(name), unified: parent.unified };
        if self.folders.contains(&own.path) {
            return Ok(own);
        }
        fs::create_dir(&own.path)?;
        self.folders.push(own.path.clone());
        self.joined.retain(|folder| *folder != parent.path);
        self.joined.push(own.path.clone());
        if own.unified {
            // A process is in one group of version 2: all controllers go on from here.
            let passed = read(&parent.path.join("cgroup.subtree_control"));
            let known = passed.split_whitespace().filter(|name| ["memory", "pids", "cpu"].contains(name));
            own.write("cgroup.subtree_control", &known.map(|name| format!("+{name}")).collect::<Vec<_>>().join(" "))?;
            let parents = &mut self.parents;
            for controller in [&mut parents.memory, &mut parents.pids, &mut parents.cpu].into_iter().flatten().filter(|of| of.unified) {
                controller.path.clone_from(&own.path);
            }
            if let Some(unified) = &mut parents.unified {
                unified.clone_from(&own.path);
            }
        }
        Ok(own)
    }
}

/// One job's groups.
#[derive(Debug, Default)]
pub(crate) struct Group {
    folders: Vec<PathBuf>,
    joins: Vec<OwnedFd>,
    memory: Option<Controller>,
    pids: Option<PathBuf>,
    has_cpu: bool,
    unified: Option<PathBuf>,
    /// Where what its branch allows is counted, for this job alone.
    branch_memory: Option<Controller>,
    /// Removed after this one.
    within: Option<Arc<JobBranch>>,
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
        self.memory.as_ref()?.memory_bytes()
    }

    pub(crate) fn ran_out_of_memory(&self) -> bool {
        // Whose limit it was, its own or the branch's, the one that was killed counts it.
        let Some(memory) = self.memory.as_ref().or(self.branch_memory.as_ref()) else { return false };
        let text = read(&memory.path.join(if memory.unified { "memory.events" } else { "memory.oom_control" }));
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
        remove(&self.folders);
        self.within.take();
    }
}

/// A group that something is left in stays, and the next kernel sweeps it.
fn remove(folders: &[PathBuf]) {
    for folder in folders {
        let _ = fs::remove_dir(folder);
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

    fn write(&self, file: &str, value: &str) -> io::Result<()> {
        // Not `fs::write`: creating is not possible here, and the error should say so.
        File::options().write(true).open(self.path.join(file))?.write_all(value.as_bytes())
    }

    fn limit_file(&self) -> &'static str {
        if self.unified { "memory.max" } else { "memory.limit_in_bytes" }
    }

    fn quota(&self, milli: u32) -> Vec<(&'static str, String)> {
        let quota = u64::from(milli) * CPU_PERIOD_US / 1000;
        if self.unified {
            vec![("cpu.max", format!("{quota} {CPU_PERIOD_US}"))]
        } else {
            vec![("cpu.cfs_period_us", CPU_PERIOD_US.to_string()), ("cpu.cfs_quota_us", quota.to_string())]
        }
    }

    /// Without this the limit only moves jobs to the swap file. Hosts without swap accounting lack the file.
    fn forbid_swap(&self, bytes: u64) {
        let (swap, value) = if self.unified { ("memory.swap.max", 0) } else { ("memory.memsw.limit_in_bytes", bytes) };
        let _ = fs::write(self.path.join(swap), value.to_string());
    }

    /// Has what groups below use count here, where an old host would not do so by itself.
    fn count_below(&self) -> io::Result<()> {
        const FILE: &str = "memory.use_hierarchy";
        match read(&self.path.join(FILE)).trim() {
            "0" if !self.unified => self.write(FILE, "1"),
            _ => Ok(()),
        }
    }

    /// Bytes in use now, caches included.
    fn memory_bytes(&self) -> Option<u64> {
        read(&self.path.join(if self.unified { "memory.current" } else { "memory.usage_in_bytes" })).trim().parse().ok()
    }
}

pub(crate) fn writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
}
