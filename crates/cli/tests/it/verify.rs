//! `skep verify`: commits of merges held against the journal, each forgery beside the commit that it is made of.

use crate::common::provider::eventually;
use crate::common::{HOLDS, Site, script, text};
use serde_json::Value;
use std::process::Command;

fn git(site: &Site, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(site.project()).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A repository with one commit of a merge at HEAD.
fn committed() -> Site {
    let site = Site::new(&[(".skep/policy.yaml", HOLDS), ("a.txt", "one\n"), ("b.txt", "b\n"), ("c.txt", "c\n")]);
    site.git(&["config", "user.name", "Ann"]);
    site.git(&["config", "user.email", "ann@x.y"]);
    site.trust();
    let text = "call fs.write path=a.txt content=\"new\\n\"\ncall fs.delete path=b.txt\ndone changed it\n";
    site.ok(&["act", "change it", "--brain", &script(&site, "task-1", text)]);
    eventually("it waits", || site.is("task-1", "parked"));
    site.ok(&["merge", "task-1", "--yes", "--commit"]);
    site
}

/// Exit code, verdict, and the first check that does not hold; that it is another commit counts where nothing else is wrong.
fn verdict(site: &Site, arguments: &[&str]) -> (i32, String, Option<String>) {
    let output = site.skep(&[&["verify", "--json"], arguments].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
    let checks = report["checks"].as_array().unwrap().clone();
    let failing = || checks.iter().filter(|check| check["outcome"] == "fails").map(|check| check["name"].as_str().unwrap().to_owned());
    let fails = failing().find(|name| name != "commit").or_else(|| failing().next());
    (output.status.code().unwrap(), report["verdict"].as_str().unwrap().to_owned(), fails)
}

fn failed(check: &str) -> (i32, String, Option<String>) {
    (1, "failed".to_owned(), Some(check.to_owned()))
}

fn verified() -> (i32, String, Option<String>) {
    (0, "verified".to_owned(), None)
}

fn rewritten(code: i32) -> (i32, String, Option<String>) {
    (code, "rewritten".to_owned(), Some("commit".to_owned()))
}

/// HEAD with another message, and nothing else.
fn reworded(site: &Site, change: impl FnOnce(String) -> String) -> String {
    let message = change(git(site, &["log", "-1", "--format=%B"]));
    git(site, &["commit-tree", "HEAD^{tree}", "-p", "HEAD~1", "-m", &message])
}

#[test]
fn a_commit_of_a_merge_names_its_record_and_is_verified() {
    let site = committed();
    let message = git(&site, &["log", "-1", "--format=%B"]);
    let started = &site.records(&["--kind", "merge.started"])[0];
    let seq = started["seq"].as_u64().unwrap();
    let trailers = git(&site, &["log", "-1", "--format=%(trailers:key=Skep-Session,key=Skep-Journal,key=Skep-Tests)"]);
    assert!(message.starts_with("change it\n\nchanged it\n\nSkep-Session: task-1\n"), "{message}");
    assert!(trailers.contains(&format!("Skep-Journal: {seq}:")) && trailers.ends_with("Skep-Tests: none"), "{trailers}");
    let told = site.ok(&["verify"]);
    for line in
        ["is the commit that the kernel made of task-1", "✓ chain", "✓ contents", "○ tests     not checked: the kernel saw no test run"]
    {
        assert!(told.contains(line), "{told}");
    }
    assert_eq!(verdict(&site, &["HEAD"]), verified());
    // Without a kernel the contents stay closed, and the id says enough.
    site.ok(&["kernel", "stop"]);
    assert_eq!(verdict(&site, &["HEAD", "--offline"]), verified());
    assert!(!site.home().join("kernel.sock").exists() || site.skep(&["verify", "--offline"]).status.success());
    assert!(site.fails(5, &["verify", "nothing"]).contains("git has no commit `nothing` here"));
    let before = site.fails(1, &["verify", "HEAD~1"]);
    assert!(before.contains("no trailers of skep"), "{before}");
}

#[test]
fn another_content_more_paths_and_another_mode_are_found() {
    let site = committed();
    assert_eq!(verdict(&site, &["HEAD"]), verified());
    let made = git(&site, &["rev-parse", "HEAD"]);
    for (change, check) in [("a.txt", "contents"), ("c.txt", "paths"), ("b.txt", "contents")] {
        site.git(&["reset", "-q", "--hard", &made]);
        site.write(change, "forged\n");
        site.git(&["add", change]);
        site.git(&["commit", "-q", "--amend", "--no-edit"]);
        assert_eq!(verdict(&site, &["HEAD"]), failed(check), "{change}");
        // A flag for rebased commits is none for changed ones.
        assert_eq!(verdict(&site, &["HEAD", "--allow-rewritten"]), failed(check), "{change}");
    }
    site.git(&["reset", "-q", "--hard", &made]);
    site.git(&["update-index", "--chmod=+x", "a.txt"]);
    site.git(&["commit", "-q", "--amend", "--no-edit"]);
    assert_eq!(verdict(&site, &["HEAD"]), failed("contents"));
    // Less than the merge is not the merge either.
    site.git(&["reset", "-q", "--hard", &made]);
    site.git(&["checkout", "-q", "HEAD~1", "--", "b.txt"]);
    site.git(&["commit", "-q", "--amend", "--no-edit"]);
    assert_eq!(verdict(&site, &["HEAD"]), failed("contents"));
    site.git(&["reset", "-q", "--hard", &made]);
    assert_eq!(verdict(&site, &["HEAD"]), verified());
}

#[test]
fn forged_trailers_are_found() {
    let site = committed();
    let seq = site.records(&["--kind", "merge.started"])[0]["seq"].as_u64().unwrap();
    let own = format!("Skep-Journal: {seq}:");
    let forge = |from: &str, to: String| verdict(&site, &[&reworded(&site, |message| message.replace(from, &to))]);
    assert_eq!(verdict(&site, &["HEAD"]), verified());
    assert_eq!(forge(&own, format!("Skep-Journal: {}:", seq - 1)), failed("record"), "the hash of another record");
    assert_eq!(forge(&own, "Skep-Journal: 99999:".into()), failed("record"), "a record that is not there");
    assert_eq!(forge("Skep-Session: task-1", "Skep-Session: task-7".into()), failed("session"));
    assert_eq!(forge("Skep-Tests: none", "Skep-Tests: red@1 green@2".into()), failed("tests"));
    assert_eq!(forge("Skep-Tests: none", format!("Skep-Tests: green@{seq}")), failed("tests"), "the record itself is no test run");
    assert_eq!(forge("\nSkep-Tests: none", String::new()), failed("trailers"));
    assert_eq!(forge("Skep-Session: task-1", "Skep-Session: task-1\nSkep-Session: task-1".into()), failed("trailers"));
    // The hash of a record that is there, and begins no merge.
    let line = site.ok(&["journal", "export"]).lines().nth(1).unwrap().to_owned();
    let hash = sha256(line.as_bytes());
    let whole = git(&site, &["log", "-1", "--format=%(trailers:key=Skep-Journal,valueonly)"]);
    assert_eq!(forge(whole.trim(), format!("1:{hash}")), failed("record"));
    // Nobody writes them by hand.
    let text = "call fs.write path=c.txt content=\"x\\n\"\ndone\n";
    site.ok(&["act", "more", "--brain", &script(&site, "task-2", text)]);
    eventually("it waits", || site.is("task-2", "parked"));
    let refused = site.fails(2, &["merge", "task-2", "--yes", "--commit", "-m", "x\n\nSkep-Journal: 1:2"]);
    assert!(refused.contains("which only the kernel writes"), "{refused}");
    assert_eq!(site.read("c.txt"), "c\n", "refused before anything is merged");
    site.ok(&["merge", "task-2", "--yes", "--commit", "-m", "x\n\nReviewed-by: Bo"]);
    assert!(git(&site, &["log", "-1", "--format=%B"]).contains("Reviewed-by: Bo\nSkep-Session: task-2"));
    assert_eq!(verdict(&site, &["HEAD"]), verified());
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn amended_and_rebased_commits_are_told_apart_from_changed_ones() {
    let site = committed();
    let made = git(&site, &["rev-parse", "HEAD"]);
    // Another message and the same changes.
    let amended = reworded(&site, |message| message.replace("changed it", "said better"));
    assert_eq!(verdict(&site, &[&amended]), rewritten(1));
    assert_eq!(verdict(&site, &[&amended, "--allow-rewritten"]), rewritten(0));
    assert!(site.fails(1, &["verify", &amended]).contains(&format!("the kernel made {}", &made[..12])));
    // On another base.
    site.git(&["checkout", "-q", "-b", "topic", "HEAD~1"]);
    site.write("c.txt", "moved on\n");
    site.git(&["commit", "-q", "-am", "moved on"]);
    site.git(&["cherry-pick", &made]);
    assert_eq!(verdict(&site, &["HEAD"]), rewritten(1));
    assert_eq!(verdict(&site, &["HEAD", "--allow-rewritten"]), rewritten(0));
    // Without the contents nobody can say that they are the same.
    site.ok(&["kernel", "stop"]);
    assert_eq!(verdict(&site, &["HEAD", "--allow-rewritten", "--offline"]).1, "failed");
    assert_eq!(verdict(&site, &[&made, "--offline"]), verified());
}

#[test]
fn another_journal_and_a_changed_one_verify_nothing() {
    let site = committed();
    let other = Site::new(&[("x.txt", "x\n")]);
    other.ok(&["init"]);
    let project = site.project();
    let project = project.to_str().unwrap();
    assert_eq!(verdict(&other, &["HEAD", "--repository", project]), failed("record"));
    assert_eq!(verdict(&site, &["HEAD", "--repository", project]), verified());
    // One byte of an earlier record.
    site.ok(&["kernel", "stop"]);
    let db = rusqlite::Connection::open(site.home().join("journal.db")).unwrap();
    let changed = db.execute("UPDATE record SET line = replace(line, 'change it', 'chance it') WHERE kind = 'task.queued'", []).unwrap();
    assert_eq!(changed, 1);
    drop(db);
    assert_eq!(verdict(&site, &["HEAD", "--offline"]), failed("chain"));
}
