//! What this host lets us build, tried for real. Runs in the launcher, which may fork.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cgroup;
use crate::fault::{Failure, SandboxError};
use crate::holder;
use crate::inotify::Allowances;
use crate::namespace::{self, User};
use crate::order::OpenOrder;
use crate::packet;
use crate::seccomp::Filters;
use crate::spec::Profile;
use crate::sys;

/// One thing a room needs, or is better with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    pub ok: bool,
    pub detail: String,
    /// What mends it.
    pub fix: Option<HostFix>,
}

/// What mends a check that fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostFix {
    /// A change of the host, in words.
    Change(String),
    /// To start this program where it may make cgroups.
    DelegateCgroups,
}

impl Check {
    fn good(name: &str, detail: impl Into<String>) -> Check {
        Check { name: name.into(), ok: true, detail: detail.into(), fix: None }
    }

    fn bad(name: &str, detail: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { name: name.into(), ok: false, detail: detail.into(), fix: Some(HostFix::Change(fix.into())) }
    }

    /// A trial in a child of its own, whose failure says what to do.
    fn tried(name: &str, detail: &str, trial: impl FnOnce() -> Result<(), Failure>) -> Check {
        match in_child(trial) {
            Ok(()) => Check::good(name, detail),
            Err(failure) => {
                let error = SandboxError::from(failure);
                let fix = error.hint().unwrap_or("look at what the host forbids to this user");
                Check::bad(name, error.to_string(), fix)
            }
        }
    }
}

/// Tries everything. `scratch` is where workspaces will lie; what is made there is removed.
pub(crate) fn run(scratch: &Path, filters: &Filters) -> Vec<Check> {
    let user = User::of_jobs();
    let mut checks = vec![user_namespace_limit(), apparmor()];
    checks.push(Check::tried("user namespaces", "can be made", || namespace::leave(user, Allowances::default().next())));
    checks.push(Check::tried("seccomp", "filters load", || {
        let load = || {
            rustix::thread::set_no_new_privs(true)?;
            filters.load(Profile::Standard)
        };
        load().map_err(|error: io::Error| Failure::new(crate::Step::Seccomp, error))
    }));
    let folder = scratch.join(format!("probe-{}", rustix::process::getpid().as_raw_nonzero()));
    match prepare(&folder) {
        Ok(order) => {
            if user.assumed {
                checks.push(Check::tried("idmapped mounts", "the project can belong to the job's user", || {
                    let mapped = namespace::idmapped(order.project.path(), user);
                    mapped.map(drop).map_err(|error| Failure::new(crate::Step::IdmappedLower, error))
                }));
            }
            let launcher = rustix::process::getpid();
            checks.push(Check::tried("sandbox", "overlay, root and masks can be built", || {
                holder::open(&order, launcher, Allowances::default().next()).map(drop)
            }));
        }
        Err(error) => checks.push(Check::bad("sandbox", error.to_string(), format!("make {} writable", scratch.display()))),
    }
    crate::orphan::discard(&folder);
    checks.push(landlock());
    checks.extend(["memory", "pids", "cpu"].map(cgroups));
    checks.push(freezer());
    checks.push(peers());
    checks
}

/// Runs a trial where it can do no harm, and brings its result home.
fn in_child(trial: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let broken = |error: io::Error| Failure::new(crate::Step::Fork, error);
    let (here, there) = packet::pair().map_err(broken)?;
    let pid = sys::fork(|| i32::from(packet::send(&there, &trial(), &[]).is_err())).map_err(broken)?;
    drop(there);
    let result = packet::receive::<Result<(), Failure>>(&here).map_err(broken)?;
    sys::reap(pid, true).map_err(broken)?;
    result.map_or_else(|| Err(broken(io::ErrorKind::UnexpectedEof.into())), |(result, _)| result)
}

fn prepare(folder: &Path) -> io::Result<OpenOrder> {
    for name in ["project", "work/upper", "work/work"] {
        fs::create_dir_all(folder.join(name))?;
    }
    fs::write(folder.join("project/masked"), "")?;
    let folder = fs::canonicalize(folder)?;
    Ok(OpenOrder {
        project: folder.join("project").into(),
        work: folder.join("work").into(),
        masked: vec![Path::new("masked").to_owned().into()],
        binds: Vec::new(),
        shares: Vec::new(),
        beneath: None,
    })
}

fn setting(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn user_namespace_limit() -> Check {
    let name = "user namespace limit";
    match setting("/proc/sys/user/max_user_namespaces") {
        Some(limit) if limit >= 64 => Check::good(name, limit.to_string()),
        Some(limit) => Check::bad(name, format!("only {limit}"), "sysctl -w user.max_user_namespaces=10000"),
        None => Check::bad(name, "this kernel has no user namespaces", "use a kernel with CONFIG_USER_NS"),
    }
}

fn apparmor() -> Check {
    let name = "AppArmor user namespace restriction";
    match setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") {
        Some(1) if !rustix::process::geteuid().is_root() => {
            let keep = "echo kernel.apparmor_restrict_unprivileged_userns=0 | sudo tee /etc/sysctl.d/60-skep.conf && sudo sysctl --system";
            Check::bad(name, "in force: a program that no profile names makes no user namespaces", keep)
        }
        Some(_) => Check::good(name, "not in force for this user"),
        None => Check::good(name, "not present"),
    }
}

fn landlock() -> Check {
    match sys::landlock_abi() {
        Ok(abi) => Check::good("landlock", format!("ABI {abi}{}", missing(abi))),
        Err(error) => Check::bad("landlock", error.to_string(), "add landlock to the kernel's lsm= parameter"),
    }
}

/// What a newer kernel would add to the second wall.
fn missing(abi: i64) -> &'static str {
    match abi {
        ..4 => "; a newer kernel would also hold TCP, terminals and signals",
        4 | 5 => "; a newer kernel would also hold abstract sockets and signals",
        _ => "",
    }
}

/// Never missing: what stands in does the same, but a shell in the room can see it.
fn freezer() -> Check {
    match cgroup::unified().filter(|path| cgroup::writable(path)) {
        Some(path) => Check::good("pause", format!("cgroup version 2 freezer, {}", path.display())),
        None => Check::good("pause", "by signals: there is no cgroup version 2 that this user may write"),
    }
}

/// Who is at the other end of a socket is known for good, or by a number that could be another's by the time it is looked up.
fn peers() -> Check {
    match packet::pair().and_then(|(here, _there)| sys::peer_pidfd(&here)) {
        Ok(Some(_)) => Check::good("socket peers", "held by a pidfd"),
        Ok(None) => Check::good("socket peers", "known by their number: a kernel of 6.5 or newer would hold them by a pidfd"),
        Err(error) => Check::bad("socket peers", error.to_string(), "allow getsockopt(SO_PEERPIDFD) to this program"),
    }
}

fn cgroups(name: &str) -> Check {
    let title = format!("{name} cgroup");
    match cgroup::controller(name) {
        Some(found) if found.usable() => {
            Check::good(&title, format!("version {}, {}", if found.unified { 2 } else { 1 }, found.path.display()))
        }
        found => {
            let why = if found.is_some() { "not writable by this user" } else { "the controller is not passed to this process" };
            Check { name: title, ok: false, detail: why.into(), fix: Some(HostFix::DelegateCgroups) }
        }
    }
}
