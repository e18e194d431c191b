//! What a job can do.

use std::time::{Duration, Instant};

use sandbox::{Act, Enforcement, Exit, JobSpec, Limits, Profile, SandboxError, Stdio};

use super::death::{alive, marker, wait_until};
use super::host::{Host, Test, sh, text};

/// Needs a toolchain that the user can reach.
pub const OWN: &[Test] = &[("cargo_builds_and_tests", cargo_builds_and_tests)];

pub const TESTS: &[Test] = &[
    ("runs_a_command", runs_a_command),
    ("tells_codes_from_signals", tells_codes_from_signals),
    ("everyday_programs_run", everyday_programs_run),
    ("test_suites_run", test_suites_run),
    ("missing_and_unfit_programs_differ", missing_and_unfit_programs_differ),
    ("output_is_binary_and_capped", output_is_binary_and_capped),
    ("stdin_reaches_the_job", stdin_reaches_the_job),
    ("twenty_at_once", twenty_at_once),
    ("long_arguments", long_arguments),
    ("the_clock_ends_a_job", the_clock_ends_a_job),
    ("a_dropped_future_kills", a_dropped_future_kills),
    ("limits_hold", limits_hold),
    ("memory_is_bounded", memory_is_bounded),
    ("nothing_is_left_running", nothing_is_left_running),
    ("environment_is_the_callers", environment_is_the_callers),
    ("changes_of_another_lie_beneath", changes_of_another_lie_beneath),
    ("probes_the_host", probes_the_host),
    ("a_hundred_jobs_leave_nothing", a_hundred_jobs_leave_nothing),
];

fn runs_a_command(host: &Host) {
    host.write("hello", "hi\n");
    let workspace = host.open();
    let outcome = host.sh(&workspace, "cat hello; pwd; echo oops >&2");
    assert_eq!(text(&outcome), format!("hi\n{}", host.project().display()));
    assert_eq!(outcome.stderr, b"oops\n");
    assert!(!outcome.truncated && !outcome.timed_out && !outcome.out_of_memory);
    assert!(outcome.usage.resident_bytes_max > 100_000);
}

fn changes_of_another_lie_beneath(host: &Host) {
    host.write("kept", "old\n");
    host.write("dropped", "old\n");
    let first = host.open();
    host.sh(&first, "echo new > kept; rm dropped; echo made > made");
    let mut spec = host.spec("t2");
    spec.beneath = Some(first.work().join("upper"));
    let second = host.open_with(spec).unwrap();
    assert_eq!(text(&host.sh(&second, "ls; cat kept made; echo mine > made")), "kept\nmade\nnew\nmade");
    // What is written over them is not written into them.
    assert_eq!(text(&host.sh(&first, "cat made")), "made");
    assert_eq!(text(&host.sh(&second, "cat made")), "mine");
}

fn tells_codes_from_signals(host: &Host) {
    let workspace = host.open();
    assert_eq!(host.sh(&workspace, "exit 137").exit, Exit::Code(137));
    assert_eq!(host.sh(&workspace, "kill -9 $$").exit, Exit::Signal(9));
    assert_eq!(host.sh(&workspace, "kill -TERM $$").exit, Exit::Signal(15));
}

fn everyday_programs_run(host: &Host) {
    let workspace = host.open();
    let git = "git init -q . && echo a > a && git add a && \
               git -c user.name=n -c user.email=e commit -qm first && git log --format=%s";
    let python = "/usr/bin/python3 -c 'import subprocess,threading,tempfile,json;\
                  t=threading.Thread(target=print,args=(1,));t.start();t.join();\
                  print(subprocess.run([\"echo\",\"2\"],capture_output=True).stdout.decode().strip())'";
    let node = "node -e 'const c=require(\"child_process\");console.log(c.execSync(\"echo 3\").toString().trim());\
                new (require(\"worker_threads\").Worker)(\"console.log(4)\",{eval:true})'";
    for (script, wanted) in [(git, "first"), (python, "1\n2"), (node, "3\n4")] {
        assert_eq!(text(&host.sh(&workspace, script)), wanted, "{script}");
    }
    let pipes = "seq 1 1000 | sort -rn | head -1; find /usr/bin -name sh | wc -l; tar cf - hello 2>/dev/null | wc -c | tr -d ' '";
    assert!(text(&host.sh(&workspace, pipes)).starts_with("1000\n"));
    // A server on localhost is what tests of many projects start.
    let mut server = sh("/usr/bin/python3 -c 'import socket;s=socket.create_server((\"127.0.0.1\",0));\
                         c=socket.create_connection(s.getsockname());s.accept()[0].send(b\"x\");print(c.recv(1))'");
    server.profile = Profile::StandardNet;
    assert_eq!(text(&host.run(&workspace, server).unwrap()), "b'x'");
}

/// What a project's own tests do, under each profile that commands may have. A suite that fails is seen to.
fn test_suites_run(host: &Host) {
    host.write(
        "test_it.py",
        "import os, subprocess, tempfile, threading, unittest\n\n\
         class It(unittest.TestCase):\n    \
             def test_files(self):\n        \
                 with tempfile.NamedTemporaryFile('w') as file:\n            \
                     file.write('x'); file.flush(); self.assertEqual(os.path.getsize(file.name), 1)\n    \
             def test_children(self):\n        \
                 self.assertEqual(subprocess.check_output(['echo', 'a']), b'a\\n')\n    \
             def test_wish(self):\n        \
                 self.assertNotEqual(os.environ.get('WISH'), 'fail')\n",
    );
    host.write(
        "it.test.js",
        "const test = require('node:test'), assert = require('node:assert'), fs = require('node:fs');\n\
         test('files', () => { fs.writeFileSync('/tmp/x', 'x'); assert.equal(fs.readFileSync('/tmp/x', 'utf8'), 'x'); });\n\
         test('children', () => assert.equal(require('node:child_process').execSync('echo a').toString(), 'a\\n'));\n\
         test('wish', () => assert.notEqual(process.env.WISH, 'fail'));\n",
    );
    let git = "set -e; export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e; \
               rm -rf /tmp/r; git init -q -b main /tmp/r; cd /tmp/r; echo a > a; git add a; git commit -qm one; \
               git checkout -qb side; echo b > b; git add b; git commit -qm two; \
               git checkout -q main; echo c > c; git add c; git commit -qm three; \
               git merge -q --no-ff -m four side; git gc -q; git fsck --no-progress; git log --format=%s | sort | tr '\\n' ' '; test \"$WISH\" != fail";
    for profile in [Profile::Standard, Profile::StandardNet] {
        let workspace = host.open();
        let python = ["/usr/bin/python3", "-m", "unittest", "-v"];
        for (argv, passed) in [
            (python.as_slice(), "Ran 3 tests"),
            (["node", "--test"].as_slice(), "pass 3"),
            (["sh", "-c", git].as_slice(), "four one three two"),
        ] {
            for (wish, succeeds) in [("", true), ("fail", false)] {
                let mut job = JobSpec::exec(argv.iter().copied());
                job.profile = profile;
                job.env.push(("WISH".into(), wish.into()));
                let outcome = host.run(&workspace, job).unwrap();
                let told = [outcome.stdout, outcome.stderr].concat();
                let told = String::from_utf8_lossy(&told);
                assert_eq!(outcome.exit.success(), succeeds, "{profile:?} {argv:?}: {told}");
                assert!(!succeeds || told.contains(passed), "{profile:?} {argv:?}: {told}");
            }
        }
    }
}

fn missing_and_unfit_programs_differ(host: &Host) {
    host.write("plain", "no program");
    let workspace = host.open();
    let run = |name: &str| host.run(&workspace, JobSpec::exec([name]));
    assert!(run("true").unwrap().exit.success());
    assert!(matches!(run("no-such-program"), Err(SandboxError::NotFound { program }) if program == "no-such-program"));
    assert!(matches!(run("./nothing/here"), Err(SandboxError::NotFound { .. })));
    assert!(matches!(run("./plain"), Err(SandboxError::NotExecutable { .. })));
    assert!(matches!(run(""), Err(SandboxError::BadJob { .. })));
    assert!(matches!(run("a\0b"), Err(SandboxError::BadJob { .. })));
}

fn output_is_binary_and_capped(host: &Host) {
    let workspace = host.open();
    let bytes = host.sh(&workspace, r"printf '\000\377\001\012\200'");
    assert_eq!(bytes.stdout, [0, 255, 1, 10, 128]);
    let outcome = host.sh(&workspace, "head -c 30000000 /dev/zero; head -c 20000000 /dev/zero >&2");
    assert!(outcome.truncated && outcome.exit.success());
    assert_eq!((outcome.stdout.len(), outcome.stderr.len()), (JobSpec::OUTPUT_MAX, JobSpec::OUTPUT_MAX));
}

fn stdin_reaches_the_job(host: &Host) {
    let workspace = host.open();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| n as u8).collect();
    let mut cat = JobSpec::exec(["cat"]);
    cat.output_max = sent.len();
    let outcome = host.block_on(workspace.run(cat, Some(sent.clone()))).unwrap();
    assert!(outcome.stdout == sent && !outcome.truncated);
    // A job that does not read it ends all the same; one without input reads an end at once.
    assert!(host.block_on(workspace.run(JobSpec::exec(["true"]), Some(sent))).unwrap().exit.success());
    assert_eq!(text(&host.sh(&workspace, "wc -c")), "0");
}

fn twenty_at_once(host: &Host) {
    let workspace = std::sync::Arc::new(host.open());
    host.block_on(async {
        let jobs: Vec<_> = (0..20)
            .map(|n| {
                let workspace = workspace.clone();
                tokio::spawn(async move { workspace.run(sh(&format!("sleep 0.1; echo {n} > f{n}; echo {n}")), None).await })
            })
            .collect();
        for (n, job) in jobs.into_iter().enumerate() {
            assert_eq!(text(&job.await.unwrap().unwrap()), n.to_string());
        }
    });
    assert_eq!(text(&host.sh(&workspace, "cat f* | wc -l")), "20");
}

fn long_arguments(host: &Host) {
    let workspace = host.open();
    let long = "y".repeat(120_000);
    let argv: Vec<String> = ["echo".to_owned()].into_iter().chain((0..8).map(|_| long.clone())).collect();
    let outcome = host.run(&workspace, JobSpec::exec(argv)).unwrap();
    assert_eq!(outcome.stdout.len(), 8 * 120_001);
}

fn the_clock_ends_a_job(host: &Host) {
    let workspace = host.open();
    let mut slow = sh("trap '' TERM INT HUP; echo started; sleep 600 & sleep 600");
    // Each time twice as long, until it was long enough on this machine for the job to start.
    let started = (0..8).any(|times| {
        slow.limits.wall = Some(Duration::from_millis(500) * (1 << times));
        let outcome = host.run(&workspace, slow.clone()).unwrap();
        assert!(outcome.timed_out);
        assert_eq!(outcome.exit, Exit::Signal(9));
        outcome.stdout == b"started\n"
    });
    assert!(started, "what it said before its end is lost");
    let mut quick = sh("true");
    quick.limits.wall = Some(Duration::from_secs(120));
    assert!(!host.run(&workspace, quick).unwrap().timed_out);
}

fn a_dropped_future_kills(host: &Host) {
    let workspace = host.open();
    let marker = marker();
    // It lives until somebody ends it, and tells if its shell outlives it.
    let job = sh(&format!("echo > begun; sleep {marker}; echo > late"));
    host.block_on(async {
        let begun = async {
            while alive(&marker) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            ran = workspace.run(job.clone(), None) => panic!("it ended: {ran:?}"),
            () = begun => {}
        }
    });
    wait_until("the job ends with its future", || alive(&marker) == 0);
    // Dropped before the holder has confirmed the start. It has come to it when it runs the next job.
    host.block_on(async { drop(tokio::time::timeout(Duration::ZERO, workspace.run(job, None)).await) });
    assert!(host.sh(&workspace, "true").exit.success());
    wait_until("the job ends with its future", || alive(&marker) == 0);
    assert_eq!(text(&host.sh(&workspace, "ls")), "begun");
}

fn limits_hold(host: &Host) {
    let workspace = host.open();
    let mut job = sh("ulimit -n; ulimit -c; ulimit -f");
    job.limits = Limits { open_files: 77, file_bytes: Some(1 << 20), ..Limits::default() };
    assert_eq!(text(&host.run(&workspace, job).unwrap()), "77\n0\n2048");

    let mut files = sh("head -c 2000000 /dev/zero > big");
    files.limits.file_bytes = Some(1 << 20);
    assert_ne!(host.run(&workspace, files.clone()).unwrap().exit, Exit::Code(0));
    files.limits.file_bytes = None;
    assert_eq!(host.run(&workspace, files).unwrap().exit, Exit::Code(0));

    let forks = "i=0; while [ $i -lt 40 ]; do sleep 60 & i=$((i+1)); done; echo all";
    let mut bomb = sh(forks);
    bomb.limits.pids = 20;
    let outcome = host.run(&workspace, bomb).unwrap();
    assert!(!outcome.stdout.starts_with(b"all"), "{outcome:?}");
    assert_eq!(outcome.pids, if host.engine.is_some() { Enforcement::Cgroup } else { Enforcement::Rlimit });
    assert_eq!(text(&host.sh(&workspace, forks)), "all");

    let mut full = sh("head -c 3000000 /dev/zero > /tmp/big");
    full.limits.tmp_bytes = 1 << 20;
    assert_ne!(host.run(&workspace, full.clone()).unwrap().exit, Exit::Code(0));
    full.limits.tmp_bytes = 1 << 24;
    assert_eq!(host.run(&workspace, full).unwrap().exit, Exit::Code(0));
}

fn memory_is_bounded(host: &Host) {
    let workspace = host.open();
    let mut hog = JobSpec::exec(["/usr/bin/python3", "-c", "x = bytearray(300_000_000); print('held')"]);
    assert_eq!(text(&host.run(&workspace, hog.clone()).unwrap()), "held");
    let mut greedy = JobSpec::exec(["/usr/bin/python3", "-c", "import time; x = bytearray(300_000_000); time.sleep(60)"]);
    greedy.limits.memory_bytes = Some(100 << 20);
    let outcome = host.run(&workspace, greedy).unwrap();
    assert!(outcome.out_of_memory, "{outcome:?}");
    assert_eq!(outcome.exit, Exit::Signal(9));
    // No writable cgroup, as for an ordinary user here: the outcome says that it was watched.
    assert_eq!(outcome.memory, if host.root { Enforcement::Cgroup } else { Enforcement::Watched });
    assert_eq!(outcome.pids, if host.root { Enforcement::Cgroup } else { Enforcement::Rlimit });
    if host.root {
        let group = memory_group(host);
        let left = || {
            std::fs::read_dir(&group)
                .unwrap()
                .flatten()
                .filter(|entry| entry.file_name().to_str().unwrap().starts_with(&format!("skep-{}-", std::process::id())))
                .count()
        };
        let began = Instant::now();
        while left() > 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "the job's cgroup is removed");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    hog.limits = Limits { data_bytes: Some(100 << 20), ..Limits::default() };
    let outcome = host.run(&workspace, hog).unwrap();
    assert!(String::from_utf8_lossy(&outcome.stderr).contains("MemoryError"), "{outcome:?}");
    assert_eq!(outcome.memory, Enforcement::Rlimit);
}

/// Where this process's memory cgroup is, as the probe says.
pub fn memory_group(host: &Host) -> std::path::PathBuf {
    let checks = host.block_on(host.launcher.probe(&host.folder.path().join("home"))).unwrap();
    let check = checks.into_iter().find(|check| check.name == "memory cgroup").unwrap();
    check.detail.split_once(", ").unwrap().1.into()
}

fn nothing_is_left_running(host: &Host) {
    let workspace = host.open();
    // Once the command has ended, what it left must be gone: it would write the file.
    let outcome = host.sh(&workspace, "(trap '' TERM HUP; setsid sh -c 'sleep 0.5; echo > late') & echo left");
    assert_eq!(text(&outcome), "left");
    std::thread::sleep(Duration::from_millis(800));
    assert_eq!(text(&host.sh(&workspace, "ls")), "");
}

fn environment_is_the_callers(host: &Host) {
    let workspace = host.open();
    let mut job = JobSpec::exec(["env"]);
    job.env = vec![("NAME".into(), "value with = sign".into()), ("TERM".into(), "xterm".into())];
    let outcome = text(&host.run(&workspace, job).unwrap());
    let mut lines: Vec<&str> = outcome.lines().collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "HOME=/tmp/home",
            "LANG=C.UTF-8",
            "NAME=value with = sign",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "TERM=xterm",
            "USER=skep",
        ]
    );
    let mut there = sh("pwd; id -un; hostname; touch $HOME/x && ls $HOME");
    host.write("sub/file", "");
    there.cwd = "sub".into();
    let seen = text(&host.run(&workspace, there).unwrap());
    assert_eq!(seen, format!("{}/sub\nskep\nskep\nx", host.project().display()));
    let mut outside = sh("pwd");
    outside.cwd = "../..".into();
    assert!(matches!(host.run(&workspace, outside), Err(SandboxError::BadJob { .. })));
}

fn probes_the_host(host: &Host) {
    let checks = host.block_on(host.launcher.probe(&host.folder.path().join("home"))).unwrap();
    let check = |name: &str| checks.iter().find(|check| check.name == name).cloned();
    for name in ["user namespaces", "sandbox", "seccomp", "landlock", "user namespace limit"] {
        assert!(check(name).is_some_and(|check| check.ok), "{name}: {checks:#?}");
    }
    assert_eq!(check("idmapped mounts").is_some(), host.root);
    for check in &checks {
        assert_eq!(check.ok, check.fix.is_none(), "{check:?}");
    }
    // The launcher is as good as before.
    let workspace = host.open();
    let (read, write) = rustix::pipe::pipe().unwrap();
    let ended = host.block_on(async {
        let job = workspace.spawn(JobSpec::new(Act::Exec { argv: vec!["pwd".into()] }), Stdio::Null, Stdio::Fd(write), Stdio::Null);
        job.await.unwrap().wait().await.unwrap()
    });
    assert!(ended.exit.success());
    let mut buffer = [0; 4096];
    let got = rustix::io::read(&read, &mut buffer).unwrap();
    assert_eq!(buffer[..got].trim_ascii_end(), host.project().as_os_str().as_encoded_bytes());
}

fn a_hundred_jobs_leave_nothing(host: &Host) {
    let workspace = host.open();
    let count = |path: String| std::fs::read_dir(path).map(Iterator::count).ok();
    let held = || (count("/proc/self/fd".into()), count(format!("/proc/{}/fd", workspace.holder_pid().unwrap())));
    // The holder buries its jobs, and the runtime what belonged to them; the last may still be on its way out.
    let children = format!("/proc/{0}/task/{0}/children", workspace.holder_pid().unwrap());
    let settles = |what: &str, is_so: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(60), "{what}: {:?}", held());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let no_child = || std::fs::read_to_string(&children).unwrap().is_empty();
    host.sh(&workspace, "true");
    settles("the first job is buried", &no_child);
    let before = held();
    for _ in 0..100 {
        assert!(host.sh(&workspace, "true").exit.success());
    }
    settles("the last job is buried", &no_child);
    settles(&format!("nothing more is held than {before:?}"), &|| held().0 <= before.0 && held().1 <= before.1);
    assert!(before.0.is_some() && before.1.is_some() == host.root);
}

/// Where a toolchain lies in a home that the room cannot see, it is bound into it.
fn cargo_builds_and_tests(host: &Host) {
    let sysroot = std::process::Command::new("rustc").args(["--print", "sysroot"]).output().expect("rustc is on the PATH");
    let sysroot = std::path::PathBuf::from(String::from_utf8(sysroot.stdout).unwrap().trim());
    host.write("Cargo.toml", "[package]\nname = \"demo\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    host.write("src/lib.rs", "#[test]\nfn adds() {\n    assert_eq!(1 + 1, 2);\n}\n");
    let mut spec = host.spec("cargo");
    spec.binds = vec![sandbox::Bind { source: sysroot, target: "/opt/rust".into(), writable: false }];
    let workspace = host.open_with(spec).unwrap();
    for profile in [Profile::Standard, Profile::StandardNet] {
        let mut job = JobSpec::exec(["cargo", "test", "--offline"]);
        job.profile = profile;
        job.env = vec![("PATH".into(), "/opt/rust/bin:/usr/bin:/bin".into()), ("CARGO_HOME".into(), "/tmp/home/.cargo".into())];
        assert!(text(&host.run(&workspace, job).unwrap()).contains("1 passed"), "{profile:?}");
    }
}
