//! Many rooms, and kernels that are killed among them: nothing is left of any.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio as ProcessStdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox::{Launcher, WorkspaceSpec};

use super::host::{Host, Test, sh};

/// Once: one is long, and the other is about the host.
pub const OWN: &[Test] =
    &[("many_rooms_leave_nothing", many_rooms_leave_nothing), ("limits_hold_beside_odd_mounts", limits_hold_beside_odd_mounts)];

pub const TESTS: &[Test] = &[
    ("fifty_rooms_at_once_leave_nothing", fifty_rooms_at_once_leave_nothing),
    ("killed_kernels_leave_nothing", killed_kernels_leave_nothing),
];

/// Everything that rooms could leave on this host.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    processes: Vec<String>,
    mounts: usize,
    cgroups: Vec<String>,
    descriptors: usize,
    files: usize,
}

impl Held {
    /// By this process and what descends from it.
    fn now(host: &Host) -> Held {
        Held {
            processes: descendants(),
            mounts: mounts(host),
            cgroups: cgroups(&kernel_prefix(std::process::id())),
            descriptors: fs::read_dir("/proc/self/fd").unwrap().count(),
            files: fs::read_dir(host.work("")).map_or(0, Iterator::count),
        }
    }

    /// Once nothing but the launcher runs: the holder of a room that was closed may be on its way out.
    fn at_rest(host: &Host) -> Held {
        let began = Instant::now();
        loop {
            let held = Held::now(host);
            if !held.processes.iter().any(|process| process.contains("skep-holder")) {
                return held;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{held:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What a last job held may be on its way out.
    fn settles(&self, host: &Host) {
        let began = Instant::now();
        while Held::now(host) != *self {
            assert!(began.elapsed() < Duration::from_secs(60), "before {self:?}\nnow {:?}", Held::now(host));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Mounts that this process sees and that have to do with the test's folder; others come and go on a host.
fn mounts(host: &Host) -> usize {
    let folder = host.folder.path().to_string_lossy().into_owned();
    String::from_utf8_lossy(&fs::read("/proc/self/mountinfo").unwrap()).lines().filter(|line| line.contains(&folder)).count()
}

/// Processes below this one, at any depth.
fn descendants() -> Vec<String> {
    let mut parents = HashMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let (name, after) = stat.rsplit_once(") ").unwrap();
        parents.insert(pid, (after.split(' ').nth(1).unwrap().parse::<u32>().unwrap(), name.to_owned()));
    }
    let me = std::process::id();
    let up = |pid: u32| std::iter::successors(Some(pid), |at| parents.get(at).map(|(parent, _)| *parent)).skip(1).any(|at| at == me);
    let mut found: Vec<String> = parents.iter().filter(|(pid, _)| up(**pid)).map(|(_, (_, name))| name.clone()).collect();
    found.sort();
    found
}

/// How the groups of a running kernel's rooms begin. Pids come again, start times do not.
fn kernel_prefix(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    format!("skep-{pid}-{}-", stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap())
}

/// Groups that begin so, wherever they are mounted.
fn cgroups(prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(prefix) {
                found.push(name);
            }
            folders.push(entry.path());
        }
    }
    found
}

/// Opens a room of its own, runs one job in it and closes it. Some are counted by a cgroup, where there is one.
async fn one(launcher: &Launcher, project: &Path, work: &Path, counted: bool) {
    let workspace = launcher.open(WorkspaceSpec::new(project, work)).await.unwrap();
    let mut job = sh("echo > left; sleep 600 & exec true");
    job.limits.memory_bytes = counted.then_some(256 << 20);
    assert!(workspace.run(job, None).await.unwrap().exit.success());
    workspace.close().await.unwrap();
}

fn forget(host: &Host) {
    let works: Vec<_> = fs::read_dir(host.work("")).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    // Groups of another user's kernels, which other tests may have left at this moment, are not ours to remove.
    let left = sandbox::sweep(&works, |_| false).left.into_iter().filter(|(path, _)| path.starts_with(host.folder.path()));
    assert_eq!(left.collect::<Vec<_>>(), []);
}

/// One after another: a hundred in the tests, thousands in `cargo xtask soak`.
fn many_rooms_leave_nothing(host: &Host) {
    let rooms = if std::env::var_os("SKEP_SOAK").is_some() { 5_000 } else { 100 };
    host.block_on(one(&host.launcher, &host.project(), &host.work("first"), true));
    forget(host);
    let before = Held::at_rest(host);
    for n in 0..rooms {
        host.block_on(one(&host.launcher, &host.project(), &host.work("next"), n % 50 == 0));
    }
    forget(host);
    before.settles(host);
}

/// Somebody on this host has mounted something by a name that is no text; groups are found and removed nevertheless.
fn limits_hold_beside_odd_mounts(host: &Host) {
    // Only root has groups.
    if !host.root {
        return;
    }
    let odd = host.folder.path().join(std::ffi::OsStr::from_bytes(b"odd-\xff"));
    fs::create_dir(&odd).unwrap();
    let script = "mount -t tmpfs none \"$1\" && exec \"$0\" --exact root::memory_is_bounded";
    let mut unshared = Command::new("unshare");
    unshared.args(["--mount", "sh", "-c", script]).arg(std::env::current_exe().unwrap()).arg(&odd);
    assert!(unshared.status().unwrap().success());
}

fn fifty_rooms_at_once_leave_nothing(host: &Host) {
    host.block_on(one(&host.launcher, &host.project(), &host.work("first"), true));
    forget(host);
    let before = Held::at_rest(host);
    host.block_on(async {
        let rooms = (0..50).map(|n| {
            let (project, work) = (host.project(), host.work(&n.to_string()));
            async move { one(&host.launcher, &project, &work, true).await }
        });
        futures(rooms.collect()).await;
    });
    forget(host);
    before.settles(host);
}

/// All at once, on this task.
async fn futures(list: Vec<impl Future<Output = ()>>) {
    let mut list: Vec<_> = list.into_iter().map(|future| Some(Box::pin(future))).collect();
    std::future::poll_fn(|context| {
        for slot in &mut list {
            if slot.as_mut().is_some_and(|future| future.as_mut().poll(context).is_ready()) {
                *slot = None;
            }
        }
        if list.iter().all(Option::is_none) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// Ten kernels, each of which opens and closes rooms until it is killed, at another moment each time.
fn killed_kernels_leave_nothing(host: &Host) {
    // Orphans of the killed become our children, so that they can be counted.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    // The launcher has its name once it has opened a room; before that it counts as another process.
    host.block_on(one(&host.launcher, &host.project(), &host.work("first"), true));
    forget(host);
    let before = Held::at_rest(host);
    for round in 0..10 {
        let me = std::env::current_exe().unwrap();
        let mut command = Command::new(me);
        command.arg("--busy-kernel").arg(host.project()).arg(host.work(""));
        let mut kernel = command.stdout(ProcessStdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(kernel.stdout.take().unwrap()).lines();
        for _ in 0..=round {
            assert_eq!(lines.next().unwrap().unwrap(), "room");
        }
        // Somewhere in the next room.
        std::thread::sleep(Duration::from_micros(700 * round));
        let prefix = kernel_prefix(kernel.id());
        kernel.kill().unwrap();
        kernel.wait().unwrap();
        drop(lines);
        let began = Instant::now();
        while descendants() != before.processes {
            while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", descendants());
            std::thread::sleep(Duration::from_millis(2));
        }
        forget(host);
        assert_eq!(cgroups(&prefix), Vec::<String>::new());
        before.settles(host);
    }
}

/// The process that `killed_kernels_leave_nothing` kills.
pub fn busy_kernel(arguments: &[String]) {
    let [project, work] = arguments else { panic!("project, work") };
    let launcher = Arc::new(Launcher::start().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let lanes = (0..4).map(|lane| {
            let (launcher, project, work) = (launcher.clone(), project.clone(), Path::new(work).join(lane.to_string()));
            async move {
                loop {
                    one(&launcher, Path::new(&project), &work, true).await;
                    println!("room");
                }
            }
        });
        futures(lanes.collect()).await;
    });
}
