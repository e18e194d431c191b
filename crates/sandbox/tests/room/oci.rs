//! Containers: what only they have to show. That they do the rest as native rooms do is shown by running the other suites in them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio as ProcessStdio};
use std::time::{Duration, Instant};

use sandbox::oci::{Engine, EngineKind, Settings};
use sandbox::{JobSpec, Limits, SandboxError, Stdio, WorkspaceSpec};

use super::host::{self, Host, Test, sh, text};

/// Tests of native rooms that need one and say nothing about containers.
const NATIVE_ONLY: &[&str] =
    &["probes_the_host", "a_hundred_jobs_leave_nothing", "the_start_environment_is_wiped", "a_sweep_spares_strangers"];

pub const TESTS: &[Test] = &[
    ("a_container_is_hardened", a_container_is_hardened),
    ("the_engine_holds_the_limits", the_engine_holds_the_limits),
    ("nothing_is_left", nothing_is_left),
    ("a_killed_kernel_leaves_nothing", a_killed_kernel_leaves_nothing),
    ("an_absent_engine_is_refused", an_absent_engine_is_refused),
    ("a_failed_start_leaves_nothing", a_failed_start_leaves_nothing),
];

/// Run by root and by an ordinary user.
pub const EVERYBODY: &[Test] = &[("engines_are_for_root", engines_are_for_root)];

/// The suites of native rooms, as far as they are about any room, and what is told here.
pub fn contract(suites: &[&[Test]]) -> Vec<Test> {
    let shared = suites.concat().into_iter().filter(|(name, _)| !NATIVE_ONLY.contains(name));
    shared.chain(TESTS.iter().copied()).collect()
}

/// Podman's own word, past our API.
fn podman(arguments: &[&str]) -> String {
    let output = Command::new("podman").args(["--runtime", "runc"]).args(arguments).output().expect("podman is installed");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Containers of one kernel process, running or not.
fn containers(kernel: u32) -> Vec<String> {
    let all = podman(&["ps", "--all", "--format", "{{.Names}}"]);
    all.lines().filter(|name| name.starts_with(&format!("skep-{kernel}-"))).map(str::to_owned).collect()
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn mounts(of: &Path) -> usize {
    // Names on this host that are no text are others'.
    let all = fs::read("/proc/self/mounts").unwrap();
    String::from_utf8_lossy(&all)
        .lines()
        .filter(|line| line.split(' ').nth(1).is_some_and(|target| target.starts_with(of.to_str().unwrap())))
        .count()
}

fn a_container_is_hardened(host: &Host) {
    let workspace = host.open();
    let spec = host.block_on(async {
        let mut job = sh("sleep 60");
        job.limits = Limits { memory_bytes: Some(200 << 20), cpu_milli: Some(500), pids: 50, ..Limits::default() };
        let job = workspace.spawn(job, Stdio::Null, Stdio::Null, Stdio::Null).await.unwrap();
        let names = containers(std::process::id());
        assert_eq!(names.len(), 1);
        let spec = podman(&["inspect", &names[0]]);
        job.kill();
        job.wait().await.unwrap();
        spec
    });
    let spec: serde_json::Value = serde_json::from_str(&spec).unwrap();
    let (config, limits) = (&spec[0]["Config"], &spec[0]["HostConfig"]);
    assert_eq!(limits["ReadonlyRootfs"], true);
    assert_eq!(limits["Privileged"], false);
    assert_eq!(limits["NetworkMode"], "none");
    // So Podman calls a namespace of one's own that others could join by name.
    assert!(limits["IpcMode"] == "private" || limits["IpcMode"] == "shareable");
    assert_eq!((&limits["Memory"], &limits["MemorySwap"]), (&(200 << 20).into(), &(200 << 20).into()));
    assert_eq!(limits["NanoCpus"], 500_000_000);
    assert_eq!(limits["PidsLimit"], 51);
    assert_eq!(spec[0]["EffectiveCaps"], serde_json::Value::Null);
    assert_eq!(spec[0]["BoundingCaps"].as_array().map_or(0, Vec::len), 0);
    assert_eq!(config["User"], "64800:64800");
    let options = limits["SecurityOpt"].to_string();
    assert!(options.contains("no-new-privileges") && options.contains("seccomp"), "{options}");
    let labels: BTreeMap<String, String> = serde_json::from_value(config["Labels"].clone()).unwrap();
    assert_eq!(labels.keys().map(String::as_str).collect::<Vec<_>>(), ["skep.home", "skep.kernel", "skep.task"]);
    assert_eq!(labels["skep.task"], "t1");
    // No way to the engine, and nothing of the host that can be written but the project's overlay.
    let mounts = spec[0]["Mounts"].as_array().unwrap();
    let mut writable: Vec<&str> =
        mounts.iter().filter(|mount| mount["RW"] == true).filter_map(|mount| mount["Destination"].as_str()).collect();
    writable.sort_unstable();
    assert_eq!(writable, ["/dev/pts", "/dev/shm", "/tmp", host.project().to_str().unwrap()]);
    assert!(mounts.iter().all(|mount| !mount["Source"].as_str().unwrap().ends_with(".sock")), "{mounts:?}");
    assert_eq!(text(&host.sh(&workspace, "ls -A /.link | wc -l")), "0", "the way in is shut behind pid 1");
    // Entering the room's user namespace brought rights, of which none are left, and it has the ids of the host.
    let inside = text(
        &host.sh(&workspace, "grep ^Cap /proc/self/status | tr -d '\\n\\t'; echo; readlink /proc/self/ns/user; stat -c %u /usr; id -u"),
    );
    let [rights, users, owner, own] = inside.lines().collect::<Vec<_>>()[..] else { panic!("{inside}") };
    assert_eq!(rights, ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| format!("Cap{set}:{:016x}", 0)).concat());
    assert_ne!(Path::new(users), fs::read_link("/proc/self/ns/user").unwrap());
    assert_eq!((owner, own), ("0", "64800"));
}

fn the_engine_holds_the_limits(host: &Host) {
    let workspace = host.open();
    let forks = "i=0; while [ $i -lt 40 ]; do sleep 60 & i=$((i+1)); done; echo all";
    let mut bomb = sh(forks);
    bomb.limits.pids = 20;
    let outcome = host.run(&workspace, bomb).unwrap();
    assert!(!outcome.stdout.starts_with(b"all"), "{outcome:?}");
    assert_eq!(text(&host.sh(&workspace, forks)), "all");
    // A quarter of a processor: the same work takes the more wall clock than processor time.
    let mut slow = JobSpec::exec(["/usr/bin/python3", "-c", "import time\nwhile time.process_time() < 0.5: pass"]);
    slow.limits.cpu_milli = Some(250);
    let outcome = host.run(&workspace, slow).unwrap();
    assert!(outcome.exit.success());
    assert!(outcome.duration > Duration::from_millis(1200), "{:?}", outcome.duration);
}

fn nothing_is_left(host: &Host) {
    let workspace = host.open();
    let work = workspace.work().to_owned();
    // The project with its masks, and without them for the kernel.
    assert_eq!(mounts(&work), 2);
    assert!(host.sh(&workspace, "true").exit.success());
    let running = host.block_on(workspace.spawn(sh("sleep 60"), Stdio::Null, Stdio::Null, Stdio::Null)).unwrap();
    assert!(!containers(std::process::id()).is_empty());
    host.block_on(workspace.close()).unwrap();
    drop(running);
    assert_eq!(containers(std::process::id()), [] as [&str; 0]);
    assert_eq!(mounts(&work), 0);
    let mut left: Vec<_> = fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["covers", "lower", "merged", "shown", "upper", "work"]);
    assert_eq!(host.block_on(host.engine.as_ref().unwrap().sweep()).unwrap(), 0);
}

/// A kernel that is killed: its containers end by themselves, and the next one removes what is left of them.
fn a_killed_kernel_leaves_nothing(host: &Host) {
    let (work, home) = (host.work("k"), host.folder.path().join("home"));
    let mut kernel = Command::new(std::env::current_exe().unwrap())
        .arg("--container-kernel")
        .args([host.project(), work.clone(), home])
        .stdout(ProcessStdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(kernel.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid: i32 = line.trim().parse().unwrap();
    let runs = || Path::new(&format!("/proc/{pid}")).exists();
    // The project with and without masks, and the job's own /tmp, /dev/shm and /dev/pts.
    assert!(runs() && containers(kernel.id()).len() == 1 && mounts(&work) == 5);
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    wait_until("the container ends with its kernel", || !runs());
    assert_eq!(containers(kernel.id()).len(), 1, "its remains are there to be found");
    // The next kernel in the same home.
    let engine = host.block_on(Engine::connect(&host.launcher, host::settings(&host.folder.path().join("home")))).unwrap();
    assert_eq!(host.block_on(engine.sweep()).unwrap(), 1);
    assert_eq!(containers(kernel.id()), [] as [&str; 0]);
    // The workspace is kept, its mount is not, and it opens again.
    assert_eq!(sandbox::sweep(std::slice::from_ref(&work), |_| true).left, []);
    assert_eq!(mounts(&work), 0);
    let again = host.block_on(engine.open(WorkspaceSpec::new(host.project(), &work))).unwrap();
    assert_eq!(text(&host.sh(&again, "cat from-before")), "written");
    host.block_on(again.close()).unwrap();
    assert!(host.block_on(engine.rest(Duration::from_secs(60))), "containers are left");
}

/// The kernel of the test above.
pub fn kernel(arguments: &[String]) {
    let [project, work, home] = arguments else { panic!("{arguments:?}") };
    let launcher = sandbox::Launcher::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = Engine::connect(&launcher, host::settings(Path::new(home))).await.unwrap();
        let workspace = engine.open(WorkspaceSpec::new(Path::new(project), Path::new(work))).await.unwrap();
        assert!(workspace.run(sh("echo written > from-before"), None).await.unwrap().exit.success());
        let job = workspace.spawn(sh("sleep 600"), Stdio::Null, Stdio::Null, Stdio::Null).await.unwrap();
        println!("{}", job.pid());
        std::future::pending::<()>().await;
    });
}

fn engines_are_for_root(host: &Host) {
    let connected = host.block_on(Engine::connect(&host.launcher, host::settings(&host.folder.path().join("home"))));
    if host.root {
        assert_eq!(connected.unwrap().kind(), EngineKind::Podman);
        return;
    }
    let refused = connected.unwrap_err();
    assert_eq!(refused.to_string(), "podman cannot show a container the project's overlay, which only root can mount");
    assert_eq!(refused.hint(), Some("say `runtime: native`, which needs no root, or run the kernel as root"));
    assert!(!host.folder.path().join("home/engine").exists(), "nothing was started");
}

fn an_absent_engine_is_refused(host: &Host) {
    let settings = Settings { kind: EngineKind::Docker, ..host::settings(&host.folder.path().join("home")) };
    let refused = host.block_on(Engine::connect(&host.launcher, settings)).unwrap_err();
    assert!(matches!(&refused, SandboxError::NoEngine { engine: EngineKind::Docker, .. }), "{refused}");
    assert!(refused.to_string().contains("no such socket"), "{refused}");
    assert_eq!(refused.hint(), Some("install it: sudo apt-get install docker.io && sudo systemctl start docker"));
}

fn a_failed_start_leaves_nothing(host: &Host) {
    let home = host.folder.path().join("home");
    // Pid 1 cannot be executed, so the engine fails after it has made the container.
    let program = host.folder.path().join("not-a-program");
    fs::write(&program, "").unwrap();
    let engine = host.block_on(Engine::connect(&host.launcher, Settings { program, ..host::settings(&home) })).unwrap();
    let workspace = host.block_on(engine.open(host.spec("t3"))).unwrap();
    let failed = host.run(&workspace, JobSpec::exec(["true"]));
    assert!(matches!(&failed, Err(SandboxError::Engine { engine: EngineKind::Podman, .. })), "{failed:?}");
    wait_until("the container that failed is gone", || containers(std::process::id()).is_empty());
    host.block_on(workspace.close()).unwrap();
    // The same with a program that can.
    let workspace = host.open();
    assert!(host.sh(&workspace, "true").exit.success());
}
