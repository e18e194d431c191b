//! The codes that commands end with are those that `skep help exit-codes` lists.

use crate::common::provider::eventually;
use crate::common::{HOLDS, Site, script, text};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

const OPEN: &str = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow, reason: a test}\n";
const SLEEPS: &str = "call shell.run command=[\"sleep\", \"1000\"]\ndone\n";

fn site() -> Site {
    with_policy(OPEN)
}

fn with_policy(policy: &str) -> Site {
    let site = Site::new(&[(".skep/policy.yaml", policy), ("a.txt", "a\n")]);
    site.trust();
    site
}

/// A model that nobody answers for: the port is closed.
fn unreachable_model(site: &Site) {
    let closed = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port() };
    std::fs::create_dir_all(site.home()).unwrap();
    let provider =
        format!("providers: {{p: {{url: 'http://127.0.0.1:{closed}', dialect: chat, free: true}}}}\nmodels: {{tactical: p/m}}\n");
    std::fs::write(site.home().join("config.yml"), provider).unwrap();
}

#[test]
fn a_task_that_ran_out_of_time_ends_its_wait_with_that() {
    let site = site();
    let said = site.fails(13, &["act", "long", "--brain", &script(&site, "sleeps", SLEEPS), "--timeout", "300ms", "--await"]);
    assert!(said.contains("it took longer than the 300 ms that it may"), "{said}");
    site.fails(13, &["watch", "task-1"]);
    assert_eq!(site.task("task-1")["stopped_by"], "time");
    // The controls: one that failed, and one that is done.
    site.fails(1, &["act", "never", "--brain", &script(&site, "fails", "call shell.run command=[\"false\"]\nresult\n"), "--await"]);
    site.ok(&["act", "quick", "--brain", &script(&site, "quick", "done\n"), "--await"]);
}

#[test]
fn a_model_without_an_answer_is_no_missing_kernel() {
    let site = site();
    unreachable_model(&site);
    let said = site.fails(1, &["brain", "check", "native"]);
    assert!(said.contains("gives no answer"), "{said}");
    let said = site.fails(1, &["setup", "--only", "p", "--yes"]);
    assert!(said.contains("gives no answer"), "{said}");
    let said = site.skep(&["setup", "--only", "p", "--yes", "--json"]);
    let error: serde_json::Value = serde_json::from_slice(&said.stderr).unwrap();
    assert_eq!(error["error"]["code"], "failed", "{error}");
}

#[test]
fn whoever_watches_is_told_when_the_kernel_ends() {
    let site = site();
    site.ok(&["kernel", "stop"]);
    let mut kernel = site.kernel(None);
    site.ok(&["act", "long", "--brain", &script(&site, "sleeps", SLEEPS)]);
    eventually("it sleeps", || site.count("call.admitted") == 1);
    for arguments in [&["watch"][..], &["watch", "task-1"]] {
        let mut watch = site.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(watch.stdout.take().unwrap());
        // It has its place before it prints anything.
        assert!(out.read_line(&mut String::new()).unwrap() > 0);
        kernel.kill().unwrap();
        kernel.wait().unwrap();
        let ended = watch.wait().unwrap();
        let mut said = String::new();
        watch.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(ended.code(), Some(6), "{said}");
        assert!(said.contains("the kernel has ended") && said.contains("unfinished tasks go on"), "{said}");
        kernel = site.kernel(None);
    }
    // The control: the end of the task is no end of the kernel.
    eventually("it goes on", || site.is("task-1", "parked") || site.is("task-1", "running"));
    site.ok(&["cancel", "task-1"]);
    let watched = site.skep(&["watch", "task-1"]);
    assert_eq!(watched.status.code(), Some(1), "{}", text(&watched));
    site.ok(&["kernel", "stop"]);
    kernel.wait().unwrap();
}

/// How long a call took is the time from its admission to its end, also where it was cut off.
#[test]
fn a_cancelled_command_took_the_time_that_it_ran() {
    let site = site();
    site.ok(&["act", "long", "--brain", &script(&site, "sleeps", SLEEPS)]);
    eventually("it sleeps", || site.count("call.admitted") == 1);
    site.ok(&["cancel", "task-1"]);
    let ended = site.records(&["--kind", "call.finished"]);
    let time = |record: &serde_json::Value| record["payload"]["ms"].as_u64().unwrap();
    assert!(ended.len() == 1 && time(&ended[0]) > 0, "{ended:?}");
    assert!(!site.ok(&["log", "task-1"]).contains("(<1ms)"), "{}", site.ok(&["log", "task-1"]));
    // A call that a brain makes with its own hands: here another that takes a while goes between its admission and its report.
    let own = "own shell.run command=[\"true\"]\ncall shell.run command=[\"sleep\", \"0.1\"]\nreport ok fine\ndone\n";
    site.ok(&["act", "own", "--brain", &script(&site, "own", own), "--await"]);
    let ended = site.records(&["--kind", "call.finished", "--task", "task-2"]);
    let own = ended.iter().find(|record| record["payload"]["output"]["claimed"] == "fine").unwrap_or_else(|| panic!("{ended:?}"));
    assert!(time(own) >= 100, "{own}");
}

#[test]
fn what_is_over_says_what_to_do_instead() {
    let site = with_policy(HOLDS);
    site.ok(&["act", "quick", "--brain", &script(&site, "quick", "done\n"), "--await"]);
    let said = site.fails(9, &["cancel", "task-1"]);
    assert!(said.contains("task-1 is done already") && said.contains("skep log task-1"), "{said}");
    let said = site.fails(5, &["drop", "task-1", "--yes"]);
    assert!(said.contains("nothing of task-1 is kept") && said.contains("skep status task-1"), "{said}");
    let writes = script(&site, "writes", "call fs.write path=b.txt content=\"b\\n\"\ndone\n");
    site.ok(&["act", "write", "--brain", &writes, "--await"]);
    site.ok(&["reject", "task-2"]);
    let said = site.fails(9, &["review", "allow", "r-1"]);
    assert!(said.contains("r-1 was answered by operator") && said.contains("skep log task-2"), "{said}");
}
