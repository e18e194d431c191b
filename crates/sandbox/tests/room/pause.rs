//! Pausing a room, and what runs in it.

use std::time::{Duration, Instant};

use sandbox::{Exit, Job, JobSpec, Stdio, Workspace};

use super::host::{Host, Test, sh, text};

pub const TESTS: &[Test] = &[
    ("a_paused_room_stands_still", a_paused_room_stands_still),
    ("a_paused_room_still_dies", a_paused_room_still_dies),
    ("a_job_waits_for_a_paused_room", a_job_waits_for_a_paused_room),
    ("a_pause_is_no_time", a_pause_is_no_time),
    ("figures_are_of_the_tree", figures_are_of_the_tree),
    ("a_share_of_the_processor", a_share_of_the_processor),
];

/// With a cgroup of its own where the host has them, and without.
fn spawn(host: &Host, workspace: &Workspace, script: &str, grouped: bool) -> Job {
    let mut job = sh(script);
    job.limits.memory_bytes = grouped.then_some(1 << 30);
    host.block_on(workspace.spawn(job, Stdio::Null, Stdio::Null, Stdio::Null)).unwrap()
}

fn count(workspace: &Workspace, name: &str) -> u64 {
    let read = || -> Option<u64> {
        use rustix::fs::{Mode, OFlags};
        let file = rustix::fs::openat(workspace.root(), name, OFlags::RDONLY, Mode::empty()).ok()?;
        std::io::read_to_string(std::fs::File::from(file)).ok()?.trim().parse().ok()
    };
    read().unwrap_or(0)
}

#[track_caller]
fn wait_until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Two processes that count, one of them in a session of its own, and a third that wakes up whoever sleeps.
const COUNTERS: &str = "count() { i=0; while :; do i=$((i+1)); echo $i > $1.new; mv $1.new $1; done; }; \
                        count a & (setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i > b.new; mv b.new b; done') & \
                        while :; do kill -CONT -1; done";

fn a_paused_room_stands_still(host: &Host) {
    for (round, grouped) in [false, true].into_iter().enumerate() {
        let workspace = host.open_with(host.spec(&format!("pause-{round}"))).unwrap();
        let job = spawn(host, &workspace, COUNTERS, grouped);
        let both = || (count(&workspace, "a"), count(&workspace, "b"));
        wait_until("both count", || both().0 > 3 && both().1 > 3);
        host.block_on(workspace.pause()).unwrap();
        assert!(workspace.is_paused());
        let (stood, cpu) = (both(), job.figures().unwrap().cpu_ms);
        // Meanwhile the world goes on: another room does what takes the counters a thousand rounds.
        let other = host.open_with(host.spec(&format!("other-{round}"))).unwrap();
        assert_eq!(text(&host.sh(&other, "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo $i > n; done; cat n")), "3000");
        assert_eq!((both(), job.figures().unwrap().cpu_ms), (stood, cpu), "grouped: {grouped}");
        workspace.resume();
        wait_until("both go on", || both().0 > stood.0 && both().1 > stood.1);
    }
}

fn a_paused_room_still_dies(host: &Host) {
    for grouped in [false, true] {
        let workspace = host.open();
        let job = spawn(host, &workspace, "while :; do sleep 0.01; done", grouped);
        wait_until("it runs", || job.figures().is_some_and(|figures| figures.processes > 0));
        host.block_on(workspace.pause()).unwrap();
        job.kill();
        assert_eq!(host.block_on(job.wait()).unwrap().exit, Exit::Signal(9));
        let job = {
            workspace.resume();
            spawn(host, &workspace, "sleep 60", grouped)
        };
        wait_until("it runs", || job.figures().is_some_and(|figures| figures.processes > 0));
        let pid = job.pid();
        host.block_on(workspace.pause()).unwrap();
        host.block_on(workspace.close()).unwrap();
        wait_until("nothing is left", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
        drop(job);
    }
}

fn a_job_waits_for_a_paused_room(host: &Host) {
    let workspace = host.open();
    host.block_on(async {
        workspace.pause().await.unwrap();
        let mut run = std::pin::pin!(workspace.run(sh("echo ran > ran; cat ran"), None));
        assert!(tokio::time::timeout(Duration::from_millis(200), &mut run).await.is_err());
        assert!(rustix::fs::statat(workspace.root(), "ran", rustix::fs::AtFlags::empty()).is_err());
        workspace.resume();
        assert_eq!(text(&run.await.unwrap()), "ran");
    });
}

fn a_pause_is_no_time(host: &Host) {
    let workspace = host.open();
    // A job that waits for a file, which comes after more than its time.
    let run = |wall: Duration, paused: bool| {
        let mut job = sh("while ! [ -e go ]; do sleep 0.01; done; echo went");
        job.limits.wall = Some(wall);
        let meanwhile = async {
            if paused {
                workspace.pause().await.unwrap();
            }
            tokio::time::sleep(wall + Duration::from_millis(500)).await;
            workspace.resume();
            workspace.run(JobSpec::write("go"), Some(Vec::new())).await.ok();
        };
        let ended = host.block_on(async { tokio::join!(workspace.run(job, None), meanwhile).0.unwrap() });
        host.block_on(workspace.run(JobSpec::new(sandbox::Act::Delete { path: "go".into() }), None)).unwrap();
        ended
    };
    let short = Duration::from_millis(500);
    assert!(run(short, false).timed_out, "the control: the same wait without a pause");
    // Each time twice as long, until it was long enough on this machine for what the job does while it is awake. Were the pause counted,
    // no time would be.
    assert!((0..7).any(|times| !run(short * (1 << times), true).timed_out), "a pause counts");
}

fn figures_are_of_the_tree(host: &Host) {
    let workspace = host.open();
    assert_eq!(workspace.jobs(), []);
    for grouped in [false, true] {
        let hold = "/usr/bin/python3 -c 'x = bytearray(50_000_000)\nwhile True: pass' & sleep 60 & wait";
        let job = spawn(host, &workspace, hold, grouped);
        let seen = || workspace.jobs().pop().unwrap();
        wait_until("three processes with fifty megabytes", || {
            seen().processes == 3 && seen().memory_bytes > 50_000_000 && seen().cpu_ms > 20
        });
        let figures = seen();
        assert_eq!((figures.pid, figures.command[0].as_str()), (job.pid(), "sh"));
        assert!(figures.memory_bytes < 500_000_000, "{figures:?}");
        job.kill();
        host.block_on(job.wait()).unwrap();
        assert_eq!(workspace.jobs(), []);
    }
}

/// Held by a cgroup, or reported as held by nothing.
fn a_share_of_the_processor(host: &Host) {
    let workspace = host.open();
    let mut job = sh("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done");
    job.limits.cpu_milli = Some(100);
    let began = Instant::now();
    let ended = host.block_on(async {
        let job = workspace.spawn(job, Stdio::Null, Stdio::Null, Stdio::Null).await.unwrap();
        job.wait().await.unwrap()
    });
    let used = Duration::from_millis(ended.usage.user_ms + ended.usage.system_ms);
    assert_eq!(ended.cpu == sandbox::Enforcement::Cgroup, host.root);
    if host.root {
        // A tenth of a processor: however slow the machine is, it has waited for most of the time.
        assert!(began.elapsed() > used * 4, "{used:?} of {:?}", began.elapsed());
    }
}
