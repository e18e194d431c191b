//! Limits that several jobs share.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use sandbox::{Exit, HostProgram, JobSpec, SharedLimits, Stdio};

use crate::room::host::{Host, Test, sh};
use crate::room::run::memory_group;

pub const TESTS: &[Test] = &[
    ("jobs_of_a_branch_share_its_memory", jobs_of_a_branch_share_its_memory),
    ("jobs_of_a_branch_share_its_processor", jobs_of_a_branch_share_its_processor),
    ("a_program_outside_rooms_is_in_its_branch_too", a_program_outside_rooms_is_in_its_branch_too),
];

const MEGABYTE: u64 = 1 << 20;

/// Where nobody may make groups, a limit of a branch is refused.
fn is_refused(host: &Host, limits: SharedLimits, controller: &str) -> bool {
    if host.root {
        assert_eq!(host.launcher.cannot_share(&limits), None);
        return false;
    }
    assert_eq!(host.launcher.cannot_share(&limits), Some(controller));
    let why = host.launcher.branch(&limits, None).unwrap_err().to_string();
    let expected = format!("making the cgroup of a branch failed: there is no {controller} cgroup that this user may write");
    assert!(why.contains(&expected), "{why}");
    true
}

/// Holds 60 MB until its input ends, and says so.
fn holder() -> JobSpec {
    JobSpec::exec(["/usr/bin/python3", "-c", "import time; x = bytearray(60_000_000); open('held', 'a').write('x'); time.sleep(60)"])
}

fn jobs_of_a_branch_share_its_memory(host: &Host) {
    let limits = SharedLimits { memory_bytes: Some(100 * MEGABYTE), cpu_milli: None };
    if is_refused(host, limits, "memory") {
        return;
    }
    let workspace = host.open();
    let held = || fs::read(workspace.work().join("upper/held")).unwrap_or_default().len();
    let until = |count: usize| {
        let began = Instant::now();
        while held() < count {
            assert!(began.elapsed() < Duration::from_secs(60), "{} hold it", held());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let outer = host.launcher.branch(&limits, None).unwrap();
    // A branch within it cannot give out more than there is, whatever it says of itself.
    let inner = host.launcher.branch(&SharedLimits { memory_bytes: Some(900 * MEGABYTE), cpu_milli: Some(900) }, Some(&outer)).unwrap();
    let spawn = |job: JobSpec| host.block_on(workspace.spawn(job, Stdio::Null, Stdio::Null, Stdio::Null)).unwrap();
    let first = spawn(JobSpec { branch: Some(outer.clone()), ..holder() });
    until(1);
    assert!(outer.memory_bytes().unwrap() > 50_000_000);
    // The control: the same beside it, in no branch.
    let free = spawn(holder());
    until(2);
    let second = spawn(JobSpec { branch: Some(inner.clone()), ..holder() });
    let (one, other) = (first.control(), second.control());
    let ended = host.block_on(async {
        let (first, second) = (first.wait(), second.wait());
        tokio::pin!(first, second);
        let ended = tokio::select! {
            ended = &mut first => { other.kill(); second.await.unwrap(); ended }
            ended = &mut second => { one.kill(); first.await.unwrap(); ended }
        };
        ended.unwrap()
    });
    assert!(ended.out_of_memory, "{ended:?}");
    assert_eq!(ended.exit, Exit::Signal(9));
    assert_eq!(workspace.jobs().len(), 1, "who is in no branch goes on");
    free.kill();
    host.block_on(free.wait()).unwrap();
    drop((one, other, inner, outer));
    let group = memory_group(host);
    let own = format!("skep-{}-", std::process::id());
    let is_left = || fs::read_dir(&group).unwrap().flatten().any(|entry| entry.file_name().to_str().unwrap().starts_with(&own));
    let began = Instant::now();
    while is_left() {
        assert!(began.elapsed() < Duration::from_secs(60), "the groups of the branch are removed");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn jobs_of_a_branch_share_its_processor(host: &Host) {
    let limits = SharedLimits { memory_bytes: None, cpu_milli: Some(100) };
    if is_refused(host, limits, "cpu") {
        return;
    }
    let workspace = host.open();
    let branch = host.launcher.branch(&limits, None).unwrap();
    let busy = || JobSpec { branch: Some(branch.clone()), ..sh("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done") };
    let began = Instant::now();
    let used = host.block_on(async {
        let spawn = || workspace.spawn(busy(), Stdio::Null, Stdio::Null, Stdio::Null);
        let (one, two) = (spawn().await.unwrap(), spawn().await.unwrap());
        let (one, two) = tokio::join!(one.wait(), two.wait());
        [one.unwrap(), two.unwrap()].iter().map(|end| end.usage.user_ms + end.usage.system_ms).sum::<u64>()
    });
    // A tenth of a processor for both together: however slow the machine is, they waited for most of the time.
    assert!(began.elapsed() > Duration::from_millis(used) * 4, "{used} ms of {:?}", began.elapsed());
}

fn a_program_outside_rooms_is_in_its_branch_too(host: &Host) {
    let limits = SharedLimits { memory_bytes: Some(100 * MEGABYTE), cpu_milli: None };
    if is_refused(host, limits, "memory") {
        return;
    }
    let branch = host.launcher.branch(&limits, None).unwrap();
    let hog = |megabytes: u64| {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", &format!("x = bytearray({megabytes} * 1000000)")]);
        command
    };
    let run = |command: Command| {
        host.block_on(async {
            let mut start = HostProgram::start(command, Some(&branch)).await.unwrap();
            *start.ended.wait_for(Option::is_some).await.unwrap()
        })
    };
    assert_eq!(run(hog(300)), Some(Exit::Signal(9)));
    assert_eq!(run(hog(10)), Some(Exit::Code(0)), "the control");
}
