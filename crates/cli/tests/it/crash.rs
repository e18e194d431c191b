//! Kernels that are killed at every commit and at every step of a merge.
//!
//! After each death the next kernel must have everything that was acknowledged, finish the task once, and leave nothing behind.

use crate::common::Site;
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

const SCRIPT: &str = "say I begin\ncall fs.write path=a.txt content=\"new\\n\"\ncall shell.run command=[\"sh\", \"-c\", \"echo once >> log.txt\"]\ncall fs.read path=a.txt\ndone two files\n";

/// Kills a kernel at the `n`th passage of `point`, then works with a healthy one. Says whether the kernel really died.
fn survive(point: &str, n: u64) -> bool {
    let site = Site::new(&[("a.txt", "old\n"), ("b.txt", "old\n")]);
    let mut victim = site.kernel(Some(&format!("{point}:{n}")));
    // The first command may meet the dying kernel; a person would run it again.
    let brain = site.script(SCRIPT);
    let task = acknowledged(&site, &brain);
    finish(&site, &task);
    // A kernel that has not died yet may die in any later commit, also in those of its stop. What follows is asked of the next one.
    drop(site.skep(&["kernel", "stop"]));
    let died = victim.wait().unwrap().signal() == Some(9);

    assert_eq!(site.read("a.txt"), "new\n", "{point}:{n}");
    let shown = site.json(&["journal", "verify"]);
    assert_eq!(shown["findings"], Value::Array(vec![]), "{point}:{n}: {shown}");
    let records = site.records(&["--task", &task]);
    let count = |kind: &str| records.iter().filter(|record| record["type"] == kind).count();
    assert_eq!((count("task.queued"), count("merge.finished"), count("task.finished")), (1, 1, 1), "{point}:{n}");
    // A lost call that a person repeated may have run twice, never more often than it was admitted.
    let admitted = records.iter().filter(|record| record["type"] == "call.admitted" && record["payload"]["tool"] == "shell.run").count();
    let ran = site.read("log.txt").lines().count();
    assert!(ran >= 1 && ran <= admitted, "{point}:{n}: ran {ran} times, admitted {admitted}");
    assert_eq!(site.leftovers(), Vec::<String>::new(), "{point}:{n}");
    died
}

/// Queues the task until somebody acknowledges it, and gives its id.
fn acknowledged(site: &Site, brain: &str) -> String {
    let mut said = String::new();
    for _ in 0..10 {
        let output = site.skep(&["act", "change two files", "--brain", brain, "--json"]);
        if output.status.success() {
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
            return answer["task"].as_str().unwrap().to_owned();
        }
        said = crate::common::text(&output);
    }
    panic!("no kernel ever acknowledged the task: {said}");
}

/// Says yes to everything until the task is done.
fn finish(site: &Site, task: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        let shown = site.skep(&["list", "tasks", "--json"]);
        let Ok(shown) = serde_json::from_slice::<Value>(&shown.stdout) else { continue };
        let tasks = shown["tasks"].as_array().unwrap();
        // A task that was recorded and never acknowledged is in the queue too; a person would cancel the double.
        for double in tasks.iter().filter(|found| found["task"] != task && found["ended_ms"].is_null()) {
            drop(site.skep(&["cancel", double["task"].as_str().unwrap()]));
        }
        let found = tasks.iter().find(|found| found["task"] == task);
        let found = found.unwrap_or_else(|| panic!("{task} was acknowledged and is lost: {shown}"));
        match (found["state"].as_str().unwrap(), found["review"].as_str()) {
            ("done", _) => return,
            ("failed" | "cancelled", _) => panic!("{found}"),
            (_, Some(review)) => drop(site.skep(&["review", "allow", review])),
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    panic!("{task} did not end");
}

/// Every n until a kernel lives through the whole task.
/// Each in `cargo xtask soak`, every so many in the tests.
fn stride(short: usize) -> usize {
    if std::env::var_os("SKEP_SOAK").is_some() { 1 } else { short }
}

/// Dies at commits, from another one on for each point.
fn every(point: &str, first: u64) {
    let survived = (first..200).step_by(stride(5)).find(|n| !survive(point, *n));
    let survived = survived.expect("the kernel still dies at the 200th commit");
    assert!(survived > 15, "only {survived} deaths at {point}: the fault is not injected");
}

#[test]
fn killed_before_each_write() {
    every("before_write", 1);
}

#[test]
fn killed_before_each_sync() {
    every("before_sync", 2);
}

#[test]
fn killed_before_each_answer() {
    every("before_ack", 3);
}

/// The kernel dies before it has looked through the project, and a person works on. What they touched then has no base and stays theirs.
#[test]
fn killed_before_the_base_is_known() {
    // A kernel that dies before it answers leaves a task that nobody knows of; this is about one that answered.
    assert!((0..20).any(|_| base_is_lost()), "no kernel ever acknowledged the task");
}

/// Says whether the dying kernel acknowledged the task.
fn base_is_lost() -> bool {
    let site = Site::new(&[("a.txt", "old\n"), ("b.txt", "old\n")]);
    let mut victim = site.kernel(Some("base:0"));
    let brain = site.script("call fs.write path=a.txt content=\"new\\n\"\ncall fs.write path=b.txt content=\"new\\n\"\ndone\n");
    let output = site.skep(&["act", "change two files", "--brain", &brain, "--json"]);
    if !output.status.success() {
        drop(victim.wait());
        return false;
    }
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(victim.wait().unwrap().signal(), Some(9));
    std::fs::write(site.project().join("a.txt"), "mine\n").unwrap();
    let open = || site.json(&["review", "list"])["reviews"].as_array().cloned().unwrap();
    wait_for(|| {
        // A call that was lost on the way is asked about.
        for review in open().iter().filter(|review| review["tool"] != "merge.apply") {
            drop(site.skep(&["review", "allow", review["review"].as_str().unwrap()]));
        }
        site.count("merge.proposed") == 1
    });
    assert_eq!((site.count("workspace.opened"), site.count("workspace.based")), (1, 1));
    let reasons = open().iter().find(|review| review["tool"] == "merge.apply").unwrap()["reasons"].to_string();
    assert!(reasons.contains("a.txt: what it held when the task began is not known") && !reasons.contains("b.txt"), "{reasons}");
    finish(&site, answer["task"].as_str().unwrap());
    assert_eq!((site.read("a.txt"), site.read("b.txt")), ("mine\n".into(), "new\n".into()));
    assert_eq!(site.leftovers(), Vec::<String>::new());
    true
}

/// Two files, and for each: before it, with the new content written beside it, and with both exchanged; of the old one, once it is removed.
#[test]
fn killed_at_each_step_of_a_merge() {
    let deaths = (0..8).step_by(stride(3)).filter(|n| survive("merge", *n)).count();
    match stride(3) {
        1 => assert_eq!(deaths, 7, "one of the files is new, so there is nothing to remove"),
        _ => assert!(deaths >= 2, "{deaths} deaths: the fault is not injected"),
    }
    assert!(!survive("merge", 8), "the merge has no more steps");
}

/// The kernel dies with old and new file exchanged. What a person writes then, to either of them, is there when the next kernel is done.
#[test]
fn edits_around_a_death_in_a_merge_are_kept() {
    // Whether the person had the old file open, or opens what is there now; and whether the kernel comes back before they are done.
    for (opened, early) in [(true, true), (true, false), (false, false)] {
        let site = Site::new(&[("a.txt", "old\n"), ("b.txt", "old\n")]);
        let mut victim = site.kernel(Some("merge:2"));
        let task = acknowledged(&site, &site.script("call fs.write path=a.txt content=\"new\\n\"\ndone\n"));
        let open = || std::fs::OpenOptions::new().append(true).open(site.project().join("a.txt")).unwrap();
        // Opened for reading alone, so that the merge begins; the same file is written to after the death.
        let before = std::fs::File::open(site.project().join("a.txt")).unwrap();
        wait_for(|| site.count("merge.proposed") == 1);
        let review = site.json(&["review", "list"])["reviews"][0]["review"].as_str().unwrap().to_owned();
        // From here on no command until the person has the file: one would start the next kernel.
        drop(site.skep(&["review", "allow", &review]));
        assert_eq!(victim.wait().unwrap().signal(), Some(9));
        assert_eq!(site.read("a.txt"), "new\n", "it died with the new file in its place");
        let mut file = match opened {
            true => std::fs::OpenOptions::new()
                .append(true)
                .open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&before)))
                .unwrap(),
            false => open(),
        };
        if !early {
            std::io::Write::write_all(&mut file, b"mine\n").unwrap();
        }
        finish(&site, &task);
        if early {
            std::io::Write::write_all(&mut file, b"mine\n").unwrap();
        }
        drop(file);
        let said = if opened { "old\nmine\n" } else { "new\nmine\n" };
        let all = held(&site);
        assert!(all.values().any(|text| text == said), "{opened} {early}: {all:?}");
        let told = site.records(&["--task", &task]);
        let told = told.iter().find(|record| record["type"] == "merge.finished").unwrap()["payload"]["paths"].to_string();
        // An edit of what was merged already is no conflict of the merge.
        assert_eq!(told.contains("conflict"), opened, "{told}");
        assert_eq!(site.leftovers(), Vec::<String>::new());
    }
}

const CHANGES: &str =
    "call fs.move from=old.txt to=deep/new.txt\ncall fs.delete path=gone.txt\ncall fs.write path=a.txt content=\"new\\n\"\ndone\n";

/// What the project holds, beside what skep itself put there.
fn held(site: &Site) -> std::collections::BTreeMap<String, String> {
    let mut found = std::collections::BTreeMap::new();
    let mut folders = vec![site.project()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let name = entry.path().strip_prefix(site.project()).unwrap().to_string_lossy().into_owned();
            match entry.file_type().unwrap().is_dir() {
                true if name == ".git" || name == ".skep" => {}
                true => folders.push(entry.path()),
                false if name == "skep.yml" => {}
                false => drop(found.insert(name, std::fs::read_to_string(entry.path()).unwrap())),
            }
        }
    }
    found
}

/// Merges a rename, a deletion and an edit, and takes them back with a kernel that dies on the way. Says whether it died.
fn survive_undo(n: u64) -> bool {
    let site = Site::new(&[("a.txt", "old\n"), ("old.txt", "moves\n"), ("gone.txt", "gone\n")]);
    let mut victim = site.kernel(Some(&format!("undo:{n}")));
    let before = held(&site);
    let task = acknowledged(&site, &site.script(CHANGES));
    finish(&site, &task);
    assert_ne!(held(&site), before);
    let undone = site.skep(&["merge", "undo", &task]);
    // The next kernel goes on by itself.
    wait_for(|| site.count("merge.undone") == 1);
    let died = victim.try_wait().unwrap().is_some_and(|status| status.signal() == Some(9));
    assert_eq!(died, !undone.status.success(), "{}", crate::common::text(&undone));
    assert_eq!(held(&site), before, "undo:{n}");
    assert_eq!(site.count("merge.undo_begun"), 1);
    assert!(site.fails(9, &["merge", "undo", &task]).contains("was taken back already"));
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(vec![]));
    assert_eq!(site.leftovers(), Vec::<String>::new(), "undo:{n}");
    died
}

#[test]
fn killed_at_each_step_of_an_undo() {
    // Four paths of four points each. An edit passes all of them, and what comes or goes alone three.
    const POINTS: u64 = 16;
    let deaths = (0..POINTS).step_by(stride(3)).filter(|n| survive_undo(*n)).count();
    match stride(3) {
        1 => assert_eq!(deaths, 13),
        _ => assert!(deaths >= 3, "{deaths} deaths: the fault is not injected"),
    }
    assert!(!survive_undo(POINTS), "the undo has more points");
}

/// SIGKILL to the kernel while a job runs: the job's whole tree dies, and the call is a person's to repeat.
#[test]
fn a_job_dies_with_its_kernel_and_its_call_is_lost() {
    let site = Site::new(&[]);
    let mut kernel = site.kernel(None);
    let brain = site.script("call shell.run command=[\"sh\", \"-c\", \"setsid sleep 600 & sleep 600\"]\ndone\n");
    let answer = site.json(&["act", "sleep", "--brain", &brain]);
    let task = answer["task"].as_str().unwrap();
    wait_for(|| site.count("call.admitted") == 1);
    wait_for(|| sleepers() == 2);
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    wait_for(|| sleepers() == 0);
    wait_for(|| site.count("review.asked") == 1);
    assert_eq!(site.count("call.lost"), 1);
    let shown = site.json(&["review", "list"]);
    let reason = shown["reviews"][0]["reasons"][0].as_str().unwrap();
    assert!(reason.contains("interrupted (the kernel ended without notice ") && reason.contains("a yes runs it again"), "{shown}");
    site.ok(&["cancel", task]);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn a_call_that_a_stop_interrupted_is_no_crash() {
    let site = Site::new(&[]);
    let brain = site.script("call shell.run command=[\"sleep\", \"600\"]\ndone\n");
    site.ok(&["act", "sleep", "--brain", &brain]);
    wait_for(|| site.count("call.admitted") == 1);
    site.ok(&["kernel", "stop"]);
    wait_for(|| site.count("review.asked") == 1);
    let shown = site.ok(&["review", "show", "r-1"]);
    assert!(shown.contains("interrupted (the kernel was stopped before its outcome was known)"), "{shown}");
    let told = format!("{shown}{}", site.ok(&["log", "task-1"]));
    assert!(!told.contains("crash") && !told.contains("without notice"), "{told}");
    site.ok(&["cancel", "task-1"]);
}

#[test]
fn the_first_command_after_a_crash_says_so_and_the_next_does_not() {
    let site = Site::new(&[]);
    let mut kernel = site.kernel(None);
    let brain = site.script("call shell.run command=[\"sleep\", \"600\"]\ndone\n");
    let task = site.json(&["act", "sleep", "--brain", &brain])["task"].as_str().unwrap().to_owned();
    wait_for(|| site.count("call.admitted") == 1);
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    // The control: its own stop is no crash.
    let first = crate::common::text(&site.skep(&["status"]));
    assert!(first.contains("◍ the kernel ended without notice at ") && first.contains("1 command was interrupted"), "{first}");
    let second = crate::common::text(&site.skep(&["status"]));
    assert!(!second.contains("without notice"), "{second}");
    wait_for(|| site.count("review.asked") == 1);
    site.ok(&["cancel", &task]);
    site.ok(&["kernel", "stop"]);
    let after = crate::common::text(&site.skep(&["status"]));
    assert!(!after.contains("without notice"), "{after}");
}

/// Processes below this test that run `sleep 600`, at any depth.
fn sleepers() -> usize {
    let mut parents = std::collections::HashMap::new();
    let mut sleepers = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, after)) = stat.rsplit_once(") ") else { continue };
        parents.insert(pid, after.split(' ').nth(1).and_then(|parent| parent.parse::<u32>().ok()).unwrap_or(0));
        if std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == b"sleep\x00600\x00") {
            sleepers.push(pid);
        }
    }
    let me = std::process::id();
    let ours =
        |pid: &&u32| std::iter::successors(Some(**pid), |at| parents.get(at).copied().filter(|parent| *parent > 0)).any(|at| at == me);
    sleepers.iter().filter(ours).count()
}

#[track_caller]
fn wait_for(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "it never came true");
        std::thread::sleep(Duration::from_millis(20));
    }
}
