//! A disk that is full under a task: brains wait, the operator reads and cancels, and nothing is done twice.

use crate::common::provider::eventually;
use crate::common::{Site, pid_of, text};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A home on a small file system of its own, with its log on it too.
struct Disk {
    site: Site,
    path: PathBuf,
}

impl Disk {
    fn new() -> Disk {
        assert!(rustix::process::geteuid().is_root(), "this test mounts a small file system: run the tests as root, or in a container");
        let site = Site::new(&[("a.txt", "hello\n")]);
        let path = site.folder.path().join("disk");
        std::fs::create_dir(&path).unwrap();
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(&path).status().unwrap();
        assert!(status.success(), "mount");
        let disk = Disk { site, path };
        disk.ok(&["init"]);
        disk
    }

    fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    fn skep(&self, arguments: &[&str]) -> Output {
        self.site.command(arguments).env("SKEP_HOME", self.home()).output().unwrap()
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.skep(arguments);
        assert!(output.status.success(), "skep {arguments:?}: {}\n{}", output.status, text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat())).unwrap()
    }

    fn records(&self, kind: &str) -> Vec<Value> {
        self.ok(&["journal", "export", "--kind", kind]).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn task(&self, id: &str) -> Value {
        let tasks = self.json(&["list", "tasks", "--all"])["tasks"].clone();
        tasks.as_array().unwrap().iter().find(|task| task["task"] == id).unwrap()["state"].clone()
    }

    fn is_full(&self) -> bool {
        self.json(&["kernel", "status"])["disk_full"] == true
    }

    fn fill(&self) -> PathBuf {
        let filler = self.path.join("filler");
        drop(Command::new("dd").args(["if=/dev/zero", "bs=64k"]).arg(format!("of={}", filler.display())).output().unwrap());
        filler
    }

    /// Begins a task whose first call runs until somebody kills its `sleep`, fills the disk, and kills it: its outcome has no space.
    fn fill_under_a_call(&self, seconds: &str) -> PathBuf {
        let command = format!(r#"["sh", "-c", "echo ran >> ran.txt; sleep {seconds} || true"]"#);
        let brain = self.site.script(&format!("call shell.run command={command}\ncall fs.write path=b.txt content=\"b\"\n"));
        self.ok(&["act", "fill it", "--brain", &brain]);
        eventually("the command runs", || pid_of(&["sleep", seconds]).is_some());
        eventually("its base is known", || !self.records("workspace.based").is_empty());
        let filler = self.fill();
        let sleeper = rustix::process::Pid::from_raw(pid_of(&["sleep", seconds]).unwrap()).unwrap();
        rustix::process::kill_process(sleeper, rustix::process::Signal::KILL).unwrap();
        eventually("the disk is full", || self.is_full());
        filler
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(self.skep(&["kernel", "stop"]));
        drop(Command::new("umount").arg("-l").arg(&self.path).status());
    }
}

fn is_whole(reserve: &Path) -> bool {
    std::fs::metadata(reserve).is_ok_and(|meta| meta.len() == 8 << 20)
}

/// What ran and has no outcome on record is not run again unasked, although the kernel lived on; and a log that is full stops nobody.
#[test]
fn a_task_waits_for_space_and_its_lost_call_for_a_person() {
    let disk = Disk::new();
    let filler = disk.fill_under_a_call("60471");
    for reading in [&["status"][..], &["list", "tasks"], &["journal", "log"], &["journal", "verify"], &["call", "fs.read", "path=a.txt"]] {
        disk.ok(reading);
    }
    let refused = disk.skep(&["act", "more", "--brain", "script:/dev/null"]);
    assert_eq!(refused.status.code(), Some(7), "{}", text(&refused));
    assert!(text(&refused).contains("free some disk space"), "{}", text(&refused));
    assert_eq!(disk.task("task-1"), "running");
    let status = disk.skep(&["status"]);
    assert!(text(&status).contains("✗ the disk of $SKEP_HOME is full, so brains wait\n"), "{}", text(&status));

    std::fs::remove_file(filler).unwrap();
    eventually("the reserve is there again", || is_whole(&disk.home().join("reserve")) && !disk.is_full());
    eventually("the task goes on", || disk.task("task-1") == "parked");
    let lost = disk.records("call.lost");
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0]["payload"]["why"], "its outcome could not be recorded");
    let asked = disk.records("review.asked");
    assert_eq!((asked.len(), asked[0]["payload"]["tool"].as_str()), (1, Some("shell.run")), "{asked:?}");
    let reason = asked[0]["payload"]["reasons"][0].as_str().unwrap();
    assert!(reason.contains("(its outcome could not be recorded)") && !reason.contains("crash"), "{reason}");
    assert!(!text(&disk.skep(&["status"])).contains("full"), "the control");
    assert!(pid_of(&["sleep", "60471"]).is_none(), "it runs again, and nobody was asked");
    disk.ok(&["review", "deny", "r-1", "--reason", "once is enough"]);
    eventually("the work waits for its merge", || disk.records("merge.proposed").len() == 1);
    assert_eq!(disk.ok(&["diff", "task-1"]).matches("+ran\n").count(), 1, "it ran once");
    disk.ok(&["journal", "verify"]);
}

/// Somebody who waits for a task is told why it does not go on.
#[test]
fn who_waits_for_a_task_is_told_that_the_disk_is_full() {
    let disk = Disk::new();
    let brain = disk.site.script("call shell.run command=[\"sleep\", \"60473\"]\ncall fs.write path=b.txt content=\"b\"\ndone\n");
    let mut command = disk.site.command(&["act", "fill it", "--brain", &brain, "--await"]);
    let mut waits = command.env("SKEP_HOME", disk.home()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the command runs", || pid_of(&["sleep", "60473"]).is_some());
    let filler = disk.fill();
    let sleeper = rustix::process::Pid::from_raw(pid_of(&["sleep", "60473"]).unwrap()).unwrap();
    rustix::process::kill_process(sleeper, rustix::process::Signal::KILL).unwrap();
    let mut lines = BufReader::new(waits.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "✗ the disk of $SKEP_HOME is full, so brains wait"), "it ended without a word");
    std::fs::remove_file(filler).unwrap();
    disk.ok(&["cancel", "task-1"]);
    assert!(!waits.wait().unwrap().success());
}

/// Cancelling gives space back, so it needs none.
#[test]
fn a_task_is_cancelled_while_the_disk_is_full() {
    let disk = Disk::new();
    let filler = disk.fill_under_a_call("60472");
    disk.ok(&["cancel", "task-1"]);
    assert_eq!(disk.task("task-1"), "cancelled");
    assert!(disk.is_full(), "control: there was no space meanwhile");
    assert_eq!(disk.records("workspace.closed").len(), 1);
    std::fs::remove_file(filler).unwrap();
    eventually("the reserve is there again", || is_whole(&disk.home().join("reserve")));
    disk.ok(&["journal", "verify"]);
}

/// A kernel that was not running when the disk filled up starts on its reserve, and the operator reads.
#[test]
fn a_kernel_starts_while_the_disk_is_full() {
    let disk = Disk::new();
    disk.ok(&["kernel", "stop"]);
    let filler = disk.fill();
    disk.ok(&["list", "tasks"]);
    assert!(disk.is_full());
    disk.ok(&["journal", "verify"]);
    assert_eq!(disk.skep(&["act", "more", "--brain", "script:/dev/null"]).status.code(), Some(7), "brains wait");
    // Control: the reserve was there, and is what it started on.
    assert!(!disk.home().join("reserve").exists());
    disk.ok(&["kernel", "stop"]);
    disk.ok(&["list", "tasks"]);
    assert!(disk.is_full(), "and again");
    std::fs::remove_file(filler).unwrap();
    eventually("the reserve is there again", || is_whole(&disk.home().join("reserve")) && !disk.is_full());
    disk.ok(&["act", "more", "--brain", "script:/dev/null", "--await"]);
}

/// Whoever begins on a full disk reads that it is full, and begins when it is not.
#[test]
fn a_home_on_a_full_disk_says_so() {
    let disk = Disk::new();
    let other = disk.path.join("other");
    std::fs::create_dir_all(other.join("run")).unwrap();
    let filler = disk.fill();
    let begin = || disk.site.command(&["ps"]).env("SKEP_HOME", &other).output().unwrap();
    let refused = begin();
    let said = text(&refused);
    assert_eq!(refused.status.code(), Some(7), "{said}");
    assert!(said.contains("full") && said.contains("free some disk space") && !said.contains("journal verify"), "{said}");
    std::fs::remove_file(filler).unwrap();
    let begun = begin();
    assert!(begun.status.success(), "{}", text(&begun));
    drop(disk.site.command(&["kernel", "stop"]).env("SKEP_HOME", &other).output());
}
