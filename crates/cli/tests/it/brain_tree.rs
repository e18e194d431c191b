//! A brain directs brains: each is a process of the tree below the one that spawned it, with a room of its own and no more rights.

use crate::brains::{CLAUDE, of, site as client_site};
use crate::common::Site;
use crate::common::provider::{account, eventually};
use crate::native::site;
use serde_json::{Value, json};

/// The first process after the kernel, the operator and the project's worker.
const CHILD: u64 = 4;

/// It has another count, and reads what that one stored.
const COUNTED: &str = "on \"have it counted\"\n\
    \x20 call agent_spawn {\"name\": \"counter\", \"brain\": \"native\", \"prompt\": \"You count.\", \"limits\": {\"tokens\": 60000}}\nthen\n\
    \x20 call agent_execute {\"pid\": 4, \"task\": \"count the lines\", \"params\": {\"file\": \"a.txt\"}}\nthen\n\
    \x20 on result contains \"There are 3.\"\n    call artifact_read {\"key\": \"count\"}\n  else\n    say Nobody counted.\nthen\n\
    \x20 on result contains \"three lines\"\n    say The counter says three.\n  else\n    say I do not know.\n";

const COUNTS: &str = "on \"count the lines\"\n  call read path=a.txt\n\
    \x20 call artifact_store {\"key\": \"count\", \"content\": \"three lines\", \"visibility\": \"user\"}\nthen\n  say There are 3.\n";

fn child(site: &Site) -> Value {
    of(site, "proc.spawned").into_iter().find(|process| process["pid"] == CHILD).unwrap_or_default()
}

#[test]
fn a_brain_directs_another_and_reads_what_it_stored() {
    let (site, _) = site(&format!("{COUNTED}{COUNTS}"), "", &[("a.txt", "a\nb\nc\n")]);
    let said = site.ok(&["act", "have it counted", "--brain", "native", "--agents", "--await"]);
    assert!(said.contains("The counter says three."), "{said}");
    let spawned = child(&site);
    assert_eq!((&spawned["name"], &spawned["parent"], &spawned["zone"]), (&json!("counter"), &json!(3), &json!("zone-1")), "{spawned}");
    assert_eq!((&spawned["program"]["runtime"], &spawned["program"]["image"]), (&json!("brain"), &json!("native:operational")));
    // Its task is one like every other, in its own name.
    let queued = of(&site, "task.queued");
    let [asked, work] = queued.as_slice() else { panic!("{queued:?}") };
    assert_eq!((&work["pid"], &work["zone"], &work["mode"]), (&json!(CHILD), &asked["zone"], &json!("act")));
    assert_eq!((&work["brain"], &work["order"]["by"]), (&json!("native:operational"), &json!(3)));
    let made = |tool: &str| of(&site, "call.admitted").into_iter().filter(|call| call["tool"] == tool && call["pid"] == CHILD).count();
    assert_eq!((made("fs.read"), made("artifact.store"), made("model.request")), (1, 1, 2), "calls of its own process");
    // What it may spend is set aside from the account of the one who spawned it, and it pays for itself.
    let used: Vec<Value> = of(&site, "model.used").into_iter().filter(|used| used["pid"] == CHILD).collect();
    assert_eq!(used.len(), 2);
    assert_eq!(spawned["program"]["budget"]["tokens"]["all"], 60_000, "{spawned}");
    assert!(account(&site, CHILD)["spent"]["tokens"]["operational"].as_u64().is_some_and(|n| n > 0), "{}", account(&site, CHILD));
    // One supervisor: it stands in the table, and ends as every other process.
    let table = site.ok(&["ps", "--tree"]);
    assert!(table.contains("counter"), "{table}");
    site.ok(&["kill", "counter"]);
    assert!(of(&site, "proc.exited").iter().any(|exited| exited["pid"] == CHILD));
    assert_eq!(site.json(&["journal", "verify"])["findings"], json!([]));
}

#[test]
fn a_brain_that_lives_for_one_task_ends_with_it() {
    let waits = "on \"have it counted\"\n\
        \x20 call agent_spawn {\"name\": \"once\", \"brain\": \"native\", \"role\": \"task\", \"task\": \"count the lines\"}\nthen\n\
        \x20 call agent_wait {\"pid\": 4, \"wait_seconds\": 600}\nthen\n\
        \x20 on result contains \"There are 3.\"\n    say It counted.\n  else\n    say Nobody counted.\n";
    let (site, _) = site(&format!("{waits}{COUNTS}"), "", &[("a.txt", "a\nb\nc\n")]);
    let said = site.ok(&["act", "have it counted", "--brain", "native", "--agents", "--await"]);
    assert!(said.contains("It counted."), "{said}\n{}", site.ok(&["log"]));
    let exited = of(&site, "proc.exited").into_iter().find(|exited| exited["pid"] == CHILD).unwrap_or_default();
    assert_eq!((&exited["exit"]["code"], &exited["exit"]["output"]), (&json!(0), &json!("There are 3.")), "{exited}");
    // A task stores nothing, whatever runs in it.
    assert!(of(&site, "artifact.stored").is_empty());
}

/// Has another write, and says what came of it at once.
const WRITES: &str = "on \"have it written\"\n  call agent_spawn {\"name\": \"writer\", \"brain\": \"native\"}\nthen\n\
    \x20 call agent_execute {\"pid\": 4, \"task\": \"put it down\"}\nthen\n\
    \x20 on result contains \"Written.\"\n    say It did.\n  else\n    say It may not.\n\
    on \"put it down\"\n  call write path=b.txt content=\"b\\n\"\nthen\n  on result error\n    say I may not.\n  else\n    say Written.\n";

#[test]
fn what_a_brain_may_not_do_no_brain_below_it_may() {
    let run = |tools: &[&str]| {
        let (site, _) = site(WRITES, "", &[("a.txt", "a\n")]);
        let act = ["act", "have it written", "--brain", "native"];
        let task = site.json(&[&act[..], tools].concat())["task"].as_str().unwrap().to_owned();
        (site, task)
    };
    let (narrow, task) = run(&["--tools", "fs.read,proc.*"]);
    eventually("it ends", || !narrow.task(&task)["summary"].is_null());
    assert_eq!(narrow.task(&task)["summary"], "It may not.", "{}", narrow.task(&task));

    // The same with all tools: it writes in a room of its own, and a person decides on that.
    let (wide, task) = run(&["--agents"]);
    eventually("its changes wait for a person", || {
        wide.json(&["review", "list"])["reviews"].as_array().is_some_and(|open| open.len() == 1)
    });
    let review = wide.json(&["review", "list"])["reviews"][0].clone();
    assert_eq!((&review["tool"], &review["task"]), (&json!("merge.apply"), &json!("task-2")), "{review}");
    assert!(!wide.project().join("b.txt").exists());
    wide.ok(&["review", "allow", review["review"].as_str().unwrap()]);
    eventually("the one who asked goes on", || !wide.task(&task)["summary"].is_null());
    assert_eq!((wide.task(&task)["summary"].as_str(), wide.read("b.txt").as_str()), (Some("It did."), "b\n"));
}

#[test]
fn a_brain_whose_process_is_killed_is_cancelled_and_whoever_waits_hears_it() {
    let script = "on \"have it counted\"\n  call agent_spawn {\"name\": \"counter\", \"brain\": \"native\"}\nthen\n\
        \x20 call agent_execute {\"pid\": 4, \"task\": \"count the lines\"}\nthen\n  on result error\n    say It was ended.\n  else\n    say It counted.\n\
        on \"count the lines\"\n  delay 10m\n  say Never.\n";
    let (site, _) = site(script, "", &[("a.txt", "a\n")]);
    let task = site.json(&["act", "have it counted", "--brain", "native", "--agents"])["task"].as_str().unwrap().to_owned();
    let works = || of(&site, "call.admitted").iter().any(|call| call["tool"] == "model.request" && call["pid"] == CHILD);
    eventually("it works", works);
    site.ok(&["kill", "counter"]);
    eventually("the one who asked goes on", || !site.task(&task)["summary"].is_null());
    assert_eq!(site.task(&task)["summary"], "It was ended.", "{}", site.task(&task));
    let cancelled = of(&site, "task.cancelled");
    assert_eq!(cancelled.iter().map(|task| &task["pid"]).collect::<Vec<_>>(), [&json!(CHILD)]);
}

#[test]
fn a_crash_repeats_nothing_of_what_a_brain_has_another_do() {
    let slow = COUNTS.replace("then\n  say There are 3.", "then\n  delay 10m\n  say Never.");
    let (site, answers) = site(&format!("{COUNTED}{slow}"), "", &[("a.txt", "a\nb\nc\n")]);
    site.ok(&["kernel", "stop"]);
    let mut victim = site.kernel(None);
    let task = site.json(&["act", "have it counted", "--brain", "native", "--agents"])["task"].as_str().unwrap().to_owned();
    let asked =
        |site: &Site| of(site, "call.admitted").iter().filter(|call| call["tool"] == "model.request" && call["pid"] == CHILD).count();
    eventually("it is in the middle of its work", || asked(&site) == 2);
    victim.kill().unwrap();
    victim.wait().unwrap();
    std::fs::write(answers, format!("{COUNTED}{COUNTS}")).unwrap();
    eventually("it ends", || !site.task(&task)["summary"].is_null());
    assert_eq!(site.task(&task)["summary"], "The counter says three.", "{}", site.task(&task));
    let brains = of(&site, "proc.spawned").iter().filter(|process| process["program"]["runtime"] == "brain").count();
    assert_eq!((brains, of(&site, "task.queued").len(), of(&site, "artifact.stored").len()), (1, 2, 1), "each once");
    assert_eq!(site.json(&["journal", "verify"])["findings"], json!([]));
}

#[test]
fn claude_and_the_built_in_brain_direct_each_other() {
    let counts = "on \"count the lines\"\n  call read path=a.txt\nthen\n  say There is 1.\n";
    let spawns = |brain: &str| {
        format!(
            "on \"have it counted\"\n  call agent_spawn {{\"name\": \"counter\", \"brain\": \"{brain}\", \"tier\": \"tactical\"}}\nthen\n\
             \x20 call agent_execute {{\"pid\": 4, \"task\": \"count the lines\", \"wait_seconds\": 600}}\nthen\n\
             \x20 on result contains \"There is 1.\"\n    say It counted.\n  else\n    say Nobody counted.\n{counts}"
        )
    };
    for (parent, child_brain) in [("native:tactical", "claude"), ("claude", "native")] {
        let site = client_site(&CLAUDE, &spawns(child_brain), None);
        let said = site.ok(&["act", "have it counted", "--brain", parent, "--agents", "--await"]);
        assert!(said.contains("It counted."), "{parent} and {child_brain}: {said}\n{}", site.ok(&["log"]));
        let (spawned, runs) = (child(&site), of(&site, "call.admitted"));
        assert_eq!((&spawned["parent"], &spawned["program"]["runtime"]), (&json!(3), &json!("brain")), "{spawned}");
        let image = if child_brain == "claude" { "claude:tactical" } else { "native:tactical" };
        assert_eq!(spawned["program"]["image"], image, "a model of its tier");
        // Who is the client has it in its own room.
        let run = runs.iter().find(|call| call["tool"] == "brain.run").unwrap();
        assert_eq!(run["pid"], if child_brain == "claude" { CHILD } else { 3 });
        assert_eq!(site.leftovers(), Vec::<String>::new());
    }
}
