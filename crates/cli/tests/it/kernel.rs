//! One kernel, however many commands; and how it comes and goes.

use crate::common::Site;
use crate::common::provider::eventually;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

#[test]
fn twenty_commands_at_once_start_exactly_one_kernel() {
    let site = Site::new(&[]);
    let children: Vec<_> = (0..20).map(|_| site.command(&["ps"]).stdout(std::process::Stdio::piped()).spawn().unwrap()).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", crate::common::text(&output));
    }
    assert_eq!(site.count("kernel.started"), 1);
}

#[test]
fn a_kernel_that_is_just_ending_is_no_kernel() {
    let site = Site::new(&[]);
    std::fs::create_dir(site.home()).unwrap();
    std::fs::set_permissions(site.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(site.home().join("kernel.sock")).unwrap();
    // A process that was killed lets go of its socket when its last thread has ended; who comes before that is hung up on.
    let ending = std::thread::spawn(move || (0..2).for_each(|_| drop(socket.accept().unwrap())));
    let said = site.ok(&["kernel", "start"]);
    ending.join().unwrap();
    assert!(said.contains("the kernel runs") && !said.contains("already"), "{said}");
    assert_eq!(site.count("kernel.started"), 1);
}

#[test]
fn the_home_and_the_socket_are_the_owners_alone() {
    let site = Site::new(&[]);
    site.ok(&["kernel", "start"]);
    let mode = |path: &str| std::fs::metadata(site.home().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("kernel.sock"), mode("journal.db")), (0o700, 0o600, 0o600));
    assert_eq!(site.leftovers(), Vec::<String>::new());
    assert!(!site.home().join("kernel.sock").exists());
}

#[test]
fn a_second_kernel_on_the_same_home_is_refused() {
    let site = Site::new(&[]);
    site.ok(&["kernel", "start"]);
    let said = site.fails(7, &["kernel", "run"]);
    assert!(said.contains("a kernel is running already"), "{said}");
}

#[test]
fn sigterm_ends_a_busy_kernel_cleanly_and_the_task_resumes() {
    let site = Site::new(&[("a.txt", "old\n")]);
    let mut kernel = site.kernel(None);
    let brain = site.script("call fs.write path=a.txt content=\"new\\n\"\ncall shell.run command=[\"sleep\", \"600\"]\ndone\n");
    let task = site.json(&["act", "write and sleep", "--brain", &brain])["task"].as_str().unwrap().to_owned();
    while site.count("call.admitted") < 2 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let start = Instant::now();
    rustix::process::kill_process(rustix::process::Pid::from_child(&kernel), rustix::process::Signal::TERM).unwrap();
    let status = kernel.wait().unwrap();
    // The promise is two seconds; a loaded machine gets more, a kernel that hangs does not.
    assert!(status.success() && start.elapsed() < Duration::from_secs(60), "{status} after {:?}", start.elapsed());
    // The next command starts a kernel that finds the workspace with its write.
    let diff = loop {
        let diff = site.ok(&["diff", &task, "--text"]);
        if !diff.is_empty() {
            break diff;
        }
    };
    assert!(diff.contains("+new"), "{diff}");
    assert_eq!(site.read("a.txt"), "old\n");
    site.ok(&["cancel", &task]);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn every_record_stands_in_an_export_that_a_stranger_can_verify() {
    let site = Site::new(&[("a.txt", "x\n")]);
    site.ok(&["init"]);
    site.ok(&["call", "fs.read", "path=a.txt"]);
    let lines = site.ok(&["journal", "export"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/journal_verify.py");
    let verify = |text: &str| {
        let file = site.folder.path().join("export.jsonl");
        std::fs::write(&file, text).unwrap();
        std::process::Command::new("python3").arg(script).arg(&file).output().unwrap().status.success()
    };
    assert!(verify(&lines));
    assert!(!verify(&lines.replace("\"path\":\"a.txt\"", "\"path\":\"b.txt\"")), "a changed byte was not noticed");
}

/// A kernel that has nothing to do gives back the memory of code that only its start needed, and again that of the work it did since.
#[test]
fn code_that_is_not_used_is_given_back() {
    let site = Site::new(&[("a.txt", "a\n")]);
    site.ok(&["init"]);
    let pid = site.json(&["kernel", "status"])["os_pid"].clone();
    let resident = || -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let started = resident();
    eventually("the start's code is given back", || resident() < started);
    let idle = resident();
    let script = site.script("call fs.read path=a.txt\ncall shell.run command=[\"true\"]\n");
    let worked = std::cell::Cell::new(0);
    eventually("work needs code", || {
        site.ok(&["act", "work", "--brain", &script, "--await"]);
        worked.set(resident());
        worked.get() > idle
    });
    eventually("that is given back too", || resident() < worked.get());
    assert_eq!(site.leftovers(), Vec::<String>::new());
}
