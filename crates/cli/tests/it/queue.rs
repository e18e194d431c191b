//! The order in which a worker does things, and who may change it. All of it is on record, and a kernel that is killed forgets none of it.

use crate::common::provider::eventually;
use crate::common::{Site, script, text};
use serde_json::Value;

const OPEN: &str = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow, reason: a test}\n";
const SLEEPS: &str = "call shell.run command=[\"sh\", \"-c\", \"sleep 1000\"]\nsay it goes on\ndone slept\n";
const QUICK: &str = "say quick\ndone quick\n";

fn site(config: &str) -> Site {
    let site = Site::new(&[(".skep/policy.yaml", OPEN), ("skep.yml", config)]);
    site.trust();
    site
}

/// What is queued for the first worker, as `skep queue` numbers it.
fn queue(site: &Site) -> Vec<String> {
    let shown = site.json(&["queue", "--who", "worker.1"]);
    shown["queues"][0]["tasks"].as_array().unwrap().iter().map(|task| task["task"].as_str().unwrap().to_owned()).collect()
}

/// The tasks of records of this kind, in their order.
fn tasks_of(site: &Site, kind: &str) -> Vec<String> {
    let records = site.records(&[]);
    records.iter().filter(|record| record["type"] == kind).map(|record| record["payload"]["task"].as_str().unwrap().to_owned()).collect()
}

fn error_of(site: &Site, arguments: &[&str]) -> Value {
    let output = site.skep(&[arguments, &["--json"]].concat());
    assert!(!output.status.success(), "{}", text(&output));
    serde_json::from_slice::<Value>(&output.stderr).unwrap()["error"].clone()
}

#[test]
fn order_pause_and_priority_outlive_a_killed_kernel() {
    let site = site("zone: {limits: {maxQueueDepth: 3}}\n");
    site.ok(&["kernel", "stop"]);
    let mut kernel = site.kernel(None);
    let quick = script(&site, "quick", QUICK);
    let paused = site.ok(&["queue", "pause"]);
    assert!(paused.contains("worker.1 (@main)  paused") && paused.contains("skep queue resume --who worker.1"), "{paused}");
    let said = site.ok(&["act", "first", "--brain", &quick]);
    assert!(said.contains("the queue of worker.1 is paused"), "{said}");
    site.ok(&["act", "second", "--brain", &quick]);
    let said = site.ok(&["ask", "third", "--brain", &quick, "--prioritize"]);
    assert!(said.contains("✓ task-3 → worker.1 (@main) [priority]"), "{said}");
    // Three is all that it may hold.
    let full = error_of(&site, &["act", "fourth", "--brain", &quick]);
    assert_eq!(full["code"], "queue_full", "{full}");
    assert_eq!(queue(&site), ["task-3", "task-1", "task-2"]);
    let shown = site.ok(&["queue"]);
    assert!(shown.contains("1.  [priority]  task-3") && shown.contains("3.  [queued]    task-2"), "{shown}");
    kernel.kill().unwrap();
    kernel.wait().unwrap();

    let mut kernel = site.kernel(None);
    assert_eq!(queue(&site), ["task-3", "task-1", "task-2"]);
    // By its number, and only what is queued.
    assert!(site.ok(&["queue", "rm", "3"]).contains("✓ task-2 is out of the queue"));
    assert!(site.is("task-2", "cancelled"));
    site.fails(5, &["queue", "rm", "3"]);
    site.fails(9, &["queue", "rm", "task-2"]);
    assert_eq!(site.count("task.started"), 0);
    // What goes on after it was cancelled goes first.
    site.ok(&["resume", "task-2"]);
    assert_eq!(queue(&site), ["task-2", "task-3", "task-1"]);
    assert!(site.ok(&["queue", "resume"]).contains("worker.1 (@main)\n"));
    eventually("all is done", || ["task-1", "task-2", "task-3"].iter().all(|id| site.is(id, "done")));
    assert_eq!(tasks_of(&site, "task.started"), ["task-2", "task-3", "task-1"]);
    assert_eq!((site.count("queue.paused"), site.count("queue.resumed"), site.count("task.prioritized")), (1, 1, 1));
    // To say it twice changes nothing.
    site.ok(&["queue", "resume"]);
    assert_eq!(site.count("queue.resumed"), 1);
    site.ok(&["queue", "pause"]);
    site.ok(&["act", "a", "--brain", &quick]);
    site.ok(&["act", "b", "--brain", &quick]);
    site.ok(&["queue", "clear", "--yes"]);
    assert_eq!(queue(&site), Vec::<String>::new());
    kernel.kill().unwrap();
    kernel.wait().unwrap();
}

#[test]
fn what_disrupts_runs_at_once_and_the_other_goes_on() {
    let site = site("");
    let (sleeps, quick) = (script(&site, "sleeps", SLEEPS), script(&site, "quick", QUICK));
    site.ok(&["act", "long", "--brain", &sleeps]);
    eventually("it sleeps", || site.count("call.admitted") == 1);
    site.ok(&["act", "later", "--brain", &quick]);
    let said = site.ok(&["act", "hotfix", "--brain", &quick, "--when", "disrupt"]);
    assert!(said.contains("✓ task-3 → worker.1") && said.contains("◍ task-1 is paused, and goes on after it"), "{said}");
    eventually("all is done", || ["task-1", "task-2", "task-3"].iter().all(|id| site.is(id, "done")));
    assert_eq!(tasks_of(&site, "task.started"), ["task-1", "task-3", "task-1", "task-2"]);
    assert_eq!(tasks_of(&site, "task.paused"), ["task-1"]);
    let cut = site.records(&[]).into_iter().find(|record| record["type"] == "call.finished").unwrap();
    assert_eq!((cut["payload"]["ok"].as_bool(), cut["payload"]["output"]["error"].as_str()), (Some(false), Some("interrupted")));
    // With nothing to interrupt it is only the next.
    let said = site.ok(&["act", "alone", "--brain", &quick, "--when", "disrupt"]);
    assert!(!said.contains("is paused"), "{said}");
    eventually("it is done", || site.is("task-4", "done"));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn what_comes_after_another_waits_for_it_and_stops_when_it_fails() {
    let site = site("");
    let (sleeps, quick) = (script(&site, "sleeps", SLEEPS), script(&site, "quick", QUICK));
    site.ok(&["act", "long", "--brain", &sleeps]);
    eventually("it sleeps", || site.count("call.admitted") == 1);
    let said = site.ok(&["act", "then", "--brain", &quick, "--after", "task-1", "--who", "++"]);
    assert!(said.contains("✓ task-2 → worker.2 (@main), when task-1 is done"), "{said}");
    // Its worker does something else meanwhile, and that is no reason to start.
    site.ok(&["act", "other", "--brain", &quick, "--who", "worker.2"]);
    eventually("the other is done", || site.is("task-3", "done"));
    assert!(site.is("task-2", "queued"));
    assert!(site.ok(&["status", "task-2"]).contains("waits until task-1 is done"));
    // One that has finished holds up nobody.
    site.ok(&["act", "at once", "--brain", &quick, "--after", "task-3", "--who", "worker.2"]);
    eventually("it is done", || site.is("task-4", "done"));
    site.ok(&["act", "both", "--brain", &quick, "--after", "task-3", "--after", "task-2", "--who", "worker.2"]);
    site.ok(&["cancel", "task-1"]);
    eventually("it stops", || site.is("task-2", "stopped"));
    assert!(site.task("task-2")["summary"].as_str().unwrap().contains("task-1, which it comes after, was cancelled"));
    assert!(site.is("task-5", "queued"), "what stopped may go on");
    site.ok(&["retry", "task-2"]);
    eventually("all is done", || site.is("task-2", "done") && site.is("task-5", "done"));
    let unknown = error_of(&site, &["act", "never", "--brain", &quick, "--after", "task-99"]);
    assert_eq!(unknown["code"], "task_not_found");
    assert_eq!(site.count("task.scheduled"), 3);
}

#[test]
fn a_task_that_takes_too_long_is_stopped_and_may_go_on() {
    let site = site("zone: {limits: {taskTimeoutMs: 300}}\n");
    let (sleeps, quick) = (script(&site, "sleeps", SLEEPS), script(&site, "quick", QUICK));
    site.ok(&["act", "long", "--brain", &sleeps]);
    eventually("it is stopped", || site.is("task-1", "stopped"));
    assert!(site.task("task-1")["summary"].as_str().unwrap().contains("it took longer than the 300 ms that it may"));
    // Its own limit holds before the project's, and one that is in time is done.
    site.ok(&["act", "quick", "--brain", &quick, "--timeout", "1h"]);
    eventually("it is done", || site.is("task-2", "done"));
    assert_eq!(site.task("task-2")["timeout_ms"], 3_600_000);
    site.ok(&["retry", "task-1"]);
    eventually("it goes on behind what was cut off", || site.is("task-1", "done"));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn act_watches_or_talks_and_never_both() {
    let site = site("");
    let quick = script(&site, "quick", QUICK);
    let told = site.ok(&["act", "look", "--brain", &quick, "--watch"]);
    assert!(told.contains("quick"), "{told}");
    assert!(site.is("task-1", "done"));
    let told = site.fails(2, &["act", "look", "--brain", &quick, "--watch", "--talk"]);
    assert!(told.contains("--watch") && told.contains("--talk"), "{told}");
    // Without a terminal nobody talks, and nothing is queued for it.
    let told = site.fails(2, &["act", "look", "--brain", &quick, "--talk"]);
    assert!(told.contains("a talk needs a terminal"), "{told}");
    assert_eq!(site.count("task.queued"), 1);
}
