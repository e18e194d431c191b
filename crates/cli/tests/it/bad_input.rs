//! What people and brains get wrong: a clear error with what, why and fix, a documented exit code, and a kernel that stays up.

use crate::common::Site;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

/// Every error names what happened and, where something helps, the fix.
#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not said in:\n{text}");
    }
}

fn ready() -> Site {
    let site = Site::new(&[("a.txt", "hello\n"), ("dir/b.txt", "b\n")]);
    site.ok(&["init"]);
    site
}

#[test]
fn wrong_arguments() {
    let site = ready();
    says(&site.fails(2, &["act"]), &["PROMPT"]);
    says(&site.fails(2, &["frobnicate"]), &["frobnicate", "skep --help"]);
    says(&site.fails(2, &["act", "add", "a", "function"]), &["quote the prompt: skep act \"add a function\""]);
    says(&site.fails(2, &["undo", "task-1"]), &["`skep merge undo`"]);
    let json: serde_json::Value = serde_json::from_str(&site.fails(2, &["stauts", "--json"])).unwrap();
    assert!(json["error"]["code"] == "bad_input" && json["error"]["fix"].as_str().unwrap().contains("skep status"), "{json}");
    says(&site.fails(2, &["call", "fs.read", "path"]), &["path"]);
    says(&site.fails(5, &["cancel", "7"]), &["nothing is called `7`", "task-3"]);
    says(&site.fails(5, &["cancel", "task-7"]), &["there is no task `task-7`", "fix"]);
    says(&site.fails(5, &["review", "show", "r-9"]), &["there is no review `r-9`", "fix"]);
    says(&site.fails(5, &["act", "x", "--brain", "script:"]), &["there are claude", "fix"]);
    says(&site.fails(5, &["act", "x", "--brain", "script:/no/such/file"]), &["cannot read the script", "fix"]);
    says(&site.fails(5, &["act", "x", "--brain", "hal9000"]), &["there is no brain `hal9000`", "fix"]);
    let bad = site.script("say a\nsing b\n");
    says(&site.fails(2, &["act", "x", "--brain", &bad]), &["line 2", "`sing`"]);
    site.ok(&["ps"]);
}

#[test]
fn calls_that_do_not_fit() {
    let site = ready();
    says(&site.fails(5, &["call", "fs.raed", "path=a.txt"]), &["there is no tool `fs.raed`", "did you mean `fs.read`?"]);
    says(&site.fails(2, &["call", "fs.read"]), &["lacks `path`"]);
    says(&site.fails(2, &["call", "fs.read", "path=a.txt", "colour=red"]), &["colour"]);
    says(&site.fails(2, &["call", "shell.run", "command=ls -l"]), &["command"]);
    says(&site.fails(3, &["call", "fs.read", "path=/etc/passwd"]), &["outside the project"]);
    says(&site.fails(3, &["call", "fs.write", "path=.git/config", "content=x"]), &["git"]);
    // The control: the same calls, right.
    says(&site.ok(&["call", "fs.read", "path=a.txt"]), &["hello"]);
    site.ok(&["call", "shell.run", "command=[\"ls\"]"]);
}

#[test]
fn files_that_are_not_what_they_should_be() {
    let site = ready();
    says(&site.fails(1, &["call", "fs.read", "path=nope.txt"]), &["does not exist"]);
    says(&site.fails(1, &["call", "fs.read", "path=dir"]), &["is a directory"]);
    let huge = std::fs::File::create(site.project().join("huge.bin")).unwrap();
    huge.set_len(1 << 30).unwrap();
    says(&site.fails(1, &["call", "fs.read", "path=huge.bin"]), &["huge.bin"]);
    std::fs::write(site.project().join("latin1.txt"), b"caf\xe9\n").unwrap();
    says(&site.fails(1, &["call", "fs.read", "path=latin1.txt"]), &["UTF-8"]);
    std::process::Command::new("mkfifo").arg(site.project().join("pipe")).status().unwrap();
    says(&site.fails(1, &["call", "fs.read", "path=pipe"]), &["pipe"]);
    let memory = site.json(&["kernel", "status"])["rss_bytes"].as_u64().unwrap();
    assert!(memory < 200 << 20, "the kernel read the huge file: {memory} bytes");
    says(&site.ok(&["call", "fs.read", "path=a.txt"]), &["hello"]);
}

#[test]
fn not_a_repository_and_a_repository_that_brings_its_own_rules() {
    let site = Site::new(&[("skep.yml", "limits: { calls: 5 }\n"), (".skep/policy.yaml", "capabilities: []\n")]);
    let said = text_in(&site, site.folder.path(), &["act", "x", "--brain", "script:/dev/null"], 5);
    says(&said, &["not in a git repository", "git init"]);
    says(&site.fails(11, &["act", "x", "--brain", "script:/dev/null"]), &["skep trust"]);
    says(&site.skep_text(&["trust"]), &["calls: 5"]);
    site.trust();
    site.ok(&["act", "x", "--brain", "script:/dev/null", "--await"]);
    // A change of the files changes nothing until it is trusted, and status says so.
    site.write(".skep/policy.yaml", "capabilities: [{name: all, match: {syscall: '*'}, action: allow}]\n");
    says(&site.fails(3, &["call", "fs.read", "path=skep.yml"]), &["no rule allows"]);
    assert_eq!(site.json(&["status"])["zones"][0]["drift"], true);
    site.write(".skep/policy.yaml", "capabilities: [{name: all, mach: {syscall: '*'}, action: allow}]\n");
    says(&site.fails(2, &["trust", "--yes"]), &["mach", ".skep/policy.yaml:1:"]);
}

fn text_in(site: &Site, folder: &std::path::Path, arguments: &[&str], code: i32) -> String {
    let output = site.command(arguments).current_dir(folder).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", crate::common::text(&output));
    crate::common::text(&output)
}

impl Site {
    fn skep_text(&self, arguments: &[&str]) -> String {
        crate::common::text(&self.skep(arguments))
    }
}

#[test]
fn a_chatty_brain_is_cut_and_counted() {
    let site = ready();
    let script = "say the same again\n".repeat(5_000) + "call fs.read path=a.txt\ndone\n";
    let brain = site.script(&script);
    site.ok(&["act", "talk", "--brain", &brain, "--await"]);
    let records = site.records(&[]);
    let said: Vec<&str> =
        records.iter().filter(|record| record["type"] == "brain.said").map(|record| &record["timestamp"].as_str().unwrap()[..19]).collect();
    let dropped: u64 = records
        .iter()
        .filter(|record| record["type"] == "records.dropped")
        .map(|record| record["payload"]["count"].as_u64().unwrap())
        .sum();
    assert_eq!(said.len() as u64 + dropped, 5_000);
    // However long it talked on this machine: a second of the clock touches two windows.
    let most = 2 * world::limits::PROGRESS_BURST_MAX as usize;
    assert!(said.chunk_by(|one, next| one == next).all(|second| second.len() <= most), "{} records of one talkative brain", said.len());
    assert_eq!(records.iter().filter(|record| record["type"] == "call.finished").count(), 1);
}

#[test]
fn a_home_that_cannot_be_written() {
    let site = Site::new(&[]);
    let file = site.folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = site.command(&["ps"]).env("SKEP_HOME", file.join("home")).output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    says(&crate::common::text(&output), &["file", "why", "fix"]);
    if rustix::process::geteuid().is_root() {
        // Root writes everywhere but on a file system that is read-only.
        let home = mounted(&site, "ro");
        let output = site.command(&["ps"]).env("SKEP_HOME", home.join("home")).output().unwrap();
        unmount(&home);
        assert_ne!(output.status.code(), Some(0));
        says(&crate::common::text(&output), &["ead-only", "fix"]);
    } else {
        std::fs::create_dir(site.home()).unwrap();
        std::fs::set_permissions(site.home(), std::fs::Permissions::from_mode(0o500)).unwrap();
        says(&site.fails(7, &["ps"]), &["why", "fix"]);
        std::fs::set_permissions(site.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
    }
}

/// A full disk refuses what it cannot record, keeps what it has, and works again when there is room.
#[test]
fn a_full_disk() {
    assert!(rustix::process::geteuid().is_root(), "this test mounts a small file system: run the tests as root, or in a container");
    // Every record of a read holds what was read, so that the disk fills after few of them.
    let site = Site::new(&[("a.txt", &"hello\n".repeat(2_000))]);
    let disk = mounted(&site, "size=24m");
    let skep = |arguments: &[&str]| site.command(arguments).env("SKEP_HOME", disk.join("home")).output().unwrap();
    assert!(skep(&["init"]).status.success());
    assert!(skep(&["call", "fs.read", "path=a.txt"]).status.success());
    let fill = |name: &str| {
        let filler = disk.join(name);
        drop(std::process::Command::new("dd").args(["if=/dev/zero", "bs=64k"]).arg(format!("of={}", filler.display())).output().unwrap());
        filler
    };
    let first = fill("first");
    // What the operator does goes on in the reserve, which is given up for it; then that is full too.
    let reserved = skep(&["call", "fs.read", "path=a.txt"]);
    assert!(reserved.status.success(), "{}", crate::common::text(&reserved));
    let second = fill("second");
    assert!(std::fs::metadata(&second).unwrap().len() > 1 << 20, "there was a reserve");
    let refused = (0..2_000).map(|_| skep(&["call", "fs.read", "path=a.txt"])).find(|output| !output.status.success());
    let refused = refused.expect("the disk never filled");
    says(&crate::common::text(&refused), &["fix", "space"]);
    let alive = skep(&["kernel", "status", "--json"]);
    assert!(alive.status.success(), "{}", crate::common::text(&alive));
    std::fs::remove_file(&first).unwrap();
    std::fs::remove_file(&second).unwrap();
    let after = skep(&["call", "fs.read", "path=a.txt"]);
    assert!(after.status.success(), "{}", crate::common::text(&after));
    let verified = skep(&["journal", "verify", "--json"]);
    let verified: serde_json::Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(verified["findings"], json!([]));
    let stopped = skep(&["kernel", "stop"]);
    assert!(stopped.status.success(), "{}", crate::common::text(&stopped));
    unmount(&disk);
}

/// A policy that is there and cannot be read is told, and never passes for an empty one.
#[test]
fn a_policy_that_is_no_file() {
    let site = Site::new(&[]);
    site.ok(&["init"]);
    site.ok(&["policy", "check"]);
    let policy = site.project().join(".skep/policy.yaml");
    std::fs::remove_file(&policy).unwrap();
    std::fs::create_dir(&policy).unwrap();
    let refused = site.skep(&["policy", "check"]);
    assert!(!refused.status.success());
    says(&crate::common::text(&refused), &["cannot read `.skep/policy.yaml`", "fix"]);
}

fn mounted(site: &Site, options: &str) -> std::path::PathBuf {
    let path = site.folder.path().join("disk");
    std::fs::create_dir(&path).unwrap();
    let status = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&path).status().unwrap();
    assert!(status.success(), "mount -o {options}");
    path
}

fn unmount(path: &std::path::Path) {
    assert!(std::process::Command::new("umount").arg("-l").arg(path).status().unwrap().success());
}
