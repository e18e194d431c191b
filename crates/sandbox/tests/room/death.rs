//! The whole tree dies, whoever of its owners is killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio as ProcessStdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use sandbox::{Exit, Job, SandboxError, Stdio, Workspace, WorkspaceSpec};

use super::host::{Host, Test, sh};

pub const TESTS: &[Test] = &[
    ("killing_the_job", killing_the_job),
    ("killing_the_holder", killing_the_holder),
    ("killing_the_launcher", killing_the_launcher),
    ("killing_the_kernel", killing_the_kernel),
    ("dropping_the_workspace", dropping_the_workspace),
    ("closing_the_workspace", closing_the_workspace),
];

/// Daemons that left their session, lost their parents and ignore every signal they can.
fn stubborn(marker: &str) -> String {
    format!(
        "trap '' HUP INT TERM QUIT USR1; \
         (setsid sh -c 'trap \"\" HUP INT TERM; (sleep {marker} &) ; exit' &) ; setsid sleep {marker} & \
         until [ $(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'sleep {marker}' | wc -l) -ge 2 ]; do sleep 0.01; done; \
         echo > {marker}; sleep {marker}"
    )
}

/// A number of seconds that no other process sleeps.
pub fn marker() -> String {
    format!("98{}", std::process::id())
}

/// How many processes of this host are the daemons of `marker`.
pub fn alive(marker: &str) -> usize {
    let wanted = format!("sleep\0{marker}\0");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == wanted.as_bytes())).count()
}

pub fn wait_until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn running(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn kill(pid: i32) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// A workspace with a stubborn job in it, which is known to be alive.
fn start(host: &Host) -> (Workspace, Job, String) {
    let workspace = host.open();
    let marker = marker();
    let job = host.block_on(workspace.spawn(sh(&stubborn(&marker)), Stdio::Null, Stdio::Null, Stdio::Null)).unwrap();
    wait_until("the daemons start", || alive(&marker) == 3);
    (workspace, job, marker)
}

fn killing_the_job(host: &Host) {
    let (workspace, job, marker) = start(host);
    kill(job.pid());
    let ended = host.block_on(job.wait()).unwrap();
    // Not eventually: once the end is told, nothing lives.
    assert_eq!((ended.exit, alive(&marker)), (Exit::Signal(9), 0));
    assert!(host.sh(&workspace, "true").exit.success());
}

fn killing_the_holder(host: &Host) {
    let (workspace, job, marker) = start(host);
    kill(workspace.holder_pid().unwrap());
    wait_until("the tree dies with the holder", || alive(&marker) == 0 && !running(job.pid()));
    assert!(matches!(host.block_on(job.wait()), Err(SandboxError::Gone { who: "holder" })));
    assert!(matches!(host.run(&workspace, sh("true")), Err(SandboxError::Gone { who: "holder" })));
    // The launcher and other workspaces go on.
    drop(workspace);
    assert!(host.sh(&host.open(), "true").exit.success());
}

fn killing_the_launcher(host: &Host) {
    let (workspace, job, marker) = start(host);
    kill(host.launcher.pid());
    wait_until("the tree dies with the launcher", || alive(&marker) == 0 && !running(job.pid()));
    wait_until("the holder dies with the launcher", || !running(workspace.holder_pid().unwrap()));
    let again = host.block_on(host.launcher.open(host.spec("t2")));
    assert!(matches!(again, Err(SandboxError::Gone { who: "launcher" })), "{again:?}");
}

fn killing_the_kernel(host: &Host) {
    let marker = marker();
    let me = std::env::current_exe().unwrap();
    let folder = host.folder.path();
    let mut command = Command::new(me);
    command.arg("--kernel").arg(folder.join("project")).arg(host.work("killed")).arg(&marker);
    let mut kernel = command.stdout(ProcessStdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(kernel.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pids: Vec<i32> = line.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 3, "launcher, holder, job");
    wait_until("the daemons start", || alive(&marker) == 3);
    assert!(pids.iter().all(|pid| running(*pid)));
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    wait_until("the tree dies with the kernel", || alive(&marker) == 0 && !pids.iter().any(|pid| running(*pid)));
    // What remains is the workspace's directory, which a sweep removes or keeps.
    let work = host.work("killed");
    let swept = sandbox::sweep(std::slice::from_ref(&work), |_| true);
    assert_eq!((swept.killed, swept.directories, work.join("upper").exists()), (0, 0, true));
    let swept = sandbox::sweep(std::slice::from_ref(&work), |_| false);
    assert_eq!((swept.directories, work.exists()), (1, false), "{swept:?}");
}

/// The process that `killing_the_kernel` kills.
pub fn kernel(arguments: &[String]) {
    let [project, work, marker] = arguments else { panic!("project, work, marker") };
    let launcher = sandbox::Launcher::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let workspace = launcher.open(WorkspaceSpec::new(Path::new(project), Path::new(work))).await.unwrap();
        let job = workspace.spawn(sh(&stubborn(marker)), Stdio::Null, Stdio::Null, Stdio::Null).await.unwrap();
        println!("{} {} {}", launcher.pid(), workspace.holder_pid().unwrap(), job.pid());
        job.wait().await.unwrap();
    });
}

fn dropping_the_workspace(host: &Host) {
    let (workspace, job, marker) = start(host);
    let holder = workspace.holder_pid().unwrap();
    drop(workspace);
    wait_until("the tree dies with the workspace", || alive(&marker) == 0 && !running(holder));
    assert!(matches!(host.block_on(job.wait()), Err(SandboxError::Gone { .. })));
}

fn closing_the_workspace(host: &Host) {
    let (workspace, job, marker) = start(host);
    let holder = workspace.holder_pid().unwrap();
    host.block_on(workspace.close()).unwrap();
    // Not eventually, but now.
    assert_eq!((alive(&marker), running(holder), running(job.pid())), (0, false, false));
}
