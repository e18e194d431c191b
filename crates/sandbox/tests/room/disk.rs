//! Bombs that fill the disk.

use sandbox::{Exit, JobSpec, Limits, Overfull, SandboxError};

use super::host::{Host, Test, sh, text};

pub const TESTS: &[Test] = &[
    ("bytes_are_bounded", bytes_are_bounded),
    ("files_are_bounded", files_are_bounded),
    ("closed_folders_count_too", closed_folders_count_too),
    ("one_file_is_bounded", one_file_is_bounded),
    ("short_commands_do_not_add_up", short_commands_do_not_add_up),
];

const MIB: u64 = 1 << 20;

fn bounded(script: &str, bytes: Option<u64>, files: Option<u64>) -> JobSpec {
    let mut job = sh(script);
    job.limits = Limits { disk_bytes: bytes, disk_files: files, ..Limits::default() };
    job
}

fn bytes_are_bounded(host: &Host) {
    let workspace = host.open();
    let fill = |files: u32| format!("i=0; while [ $i -lt {files} ]; do i=$((i+1)); head -c 1000000 /dev/urandom > f$i; done; echo all");
    let outcome = host.run(&workspace, bounded(&fill(300), Some(20 * MIB), None)).unwrap();
    assert_eq!((outcome.overfull, outcome.exit), (Some(Overfull::Bytes { max: 20 * MIB }), Exit::Signal(9)));
    assert!(!outcome.timed_out && outcome.stdout.is_empty());

    // What is full takes no more, says so, and can be tidied.
    let write = || {
        let mut write = JobSpec::write("more");
        write.limits.disk_bytes = Some(20 * MIB);
        host.block_on(workspace.run(write, Some(b"x".to_vec())))
    };
    let full = write().unwrap_err();
    assert_eq!(full.to_string(), "the workspace is full: it may hold 20 MiB");
    assert!(matches!(full, SandboxError::Full { .. }) && full.hint().is_some());
    let tidy = bounded("sleep 0.2; rm f*; ls | wc -l", Some(20 * MIB), None);
    assert_eq!(text(&host.run(&workspace, tidy).unwrap()), "0");
    assert!(write().unwrap().exit.success());
    // The control: with room for it, the same is no bomb.
    let fits = host.run(&workspace, bounded(&fill(40), Some(900 * MIB), None)).unwrap();
    assert_eq!((fits.overfull, text(&fits).as_str()), (None, "all"));
}

fn files_are_bounded(host: &Host) {
    let workspace = host.open();
    let fill = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); : > f$i; done; echo all";
    let outcome = host.run(&workspace, bounded(fill, None, Some(500))).unwrap();
    assert_eq!((outcome.overfull, outcome.exit), (Some(Overfull::Files { max: 500 }), Exit::Signal(9)));
    let fits = host.run(&workspace, bounded("i=0; while [ $i -lt 200 ]; do i=$((i+1)); : > g$i; done; echo all", None, Some(100_000)));
    assert_eq!(text(&fits.unwrap()), "all");
}

/// An ordinary user cannot look into them, but sees the disk fill up.
fn closed_folders_count_too(host: &Host) {
    let workspace = host.open();
    let fill = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); mkdir d$i; head -c 1000000 /dev/urandom > d$i/f; chmod 0 d$i; done; echo all";
    let outcome = host.run(&workspace, bounded(fill, Some(20 * MIB), None)).unwrap();
    assert_eq!(outcome.overfull, Some(Overfull::Bytes { max: 20 * MIB }));
}

fn one_file_is_bounded(host: &Host) {
    let workspace = host.open();
    let outcome = host.run(&workspace, bounded("head -c 30000000 /dev/zero > big", Some(10 * MIB), None)).unwrap();
    assert!(!outcome.exit.success());
    assert_eq!(text(&host.sh(&workspace, "stat -c %s big")), (10 * MIB).to_string());
    let outcome = host.run(&workspace, bounded("rm big; head -c 3000000 /dev/zero > big", Some(10 * MIB), None)).unwrap();
    assert!(outcome.exit.success());
}

/// Each is over before anybody looks. Far beyond the bound a command can only delete.
fn short_commands_do_not_add_up(host: &Host) {
    let workspace = host.open();
    host.run(&workspace, bounded("head -c 10000000 /dev/urandom > big", None, None)).unwrap();
    let write = "(echo x > new) 2>/dev/null; echo $?";
    // Seen while it runs or not: an empty file more takes no bytes.
    let slowly = format!("{write}; sleep 0.2");
    let signal = (128 + 25).to_string();
    assert_eq!(text(&host.run(&workspace, bounded(&slowly, Some(2 * MIB), None)).unwrap()), signal);
    // The control: a little beyond it may still tidy by writing something smaller, however long that takes.
    let tidy = format!("truncate -s 9900000 big; {write}; sleep 0.2");
    assert_eq!(text(&host.run(&workspace, bounded(&tidy, Some(8 * MIB), None)).unwrap()), "0");
    assert_eq!(text(&host.run(&workspace, bounded("rm big; ls", Some(2 * MIB), None)).unwrap()), "new");
    assert_eq!(text(&host.run(&workspace, bounded(write, Some(2 * MIB), None)).unwrap()), "0");
}
