//! How sessions end for whoever waits for them: the exit code says why, and what is offered next is not refused.

use crate::common::Site;
use crate::common::provider::eventually;
use crate::sessions::{plan, planned_site, site};

/// A write, and a step that fails after it.
const FAILS: &str = "\
schema_version: \"0.1\"
goal: Write and fail
steps:
  - {step_id: put, tool_ref: {name: fs.write}, input: {path: NOTES.md, content: x}}
  - {step_id: breaks, tool_ref: {name: shell.run}, input: {command: [sh, -c, 'exit 3']}, depends_on: [put]}
";

const PUTS: &str =
    "schema_version: \"0.1\"\ngoal: Write\nsteps:\n  - {step_id: put, tool_ref: {name: fs.write}, input: {path: NOTES.md, content: x}}\n";

/// What a session is said to have next, by `session show` and by `status`.
#[track_caller]
fn next(site: &Site, task: &str) -> String {
    let shown = site.ok(&["session", "show", task]);
    let line = shown.lines().find(|line| line.contains("─ next ")).unwrap_or_else(|| panic!("{shown}"));
    let next = line.split_once("next").unwrap().1.trim().to_owned();
    assert!(!next.contains("skep retry") && !next.contains("skep say"), "{next}");
    next
}

#[test]
fn what_a_failed_session_is_offered_works() {
    let site = site();
    let file = plan(&site, "fails.yml", FAILS);
    let ran = site.fails(1, &["run", "--plan", &file]);
    assert!(ran.contains("skep session replay task-1 --fork STEP") && !ran.contains("skep retry"), "{ran}");
    // What it changed is kept behind its end.
    eventually("its work is kept", || site.count("work.kept") == 1);
    assert!(next(&site, "task-1").starts_with("skep diff task-1, then skep merge task-1; or skep session replay task-1 --fork STEP"));
    let told = site.ok(&["status", "task-1"]);
    assert!(told.contains("--fork STEP") && !told.contains("skep retry"), "{told}");
    // Each of these is taken.
    assert!(site.ok(&["diff", "task-1"]).contains("NOTES.md"));
    assert!(site.ok(&["session", "replay", "task-1", "--fork", "put"]).contains("✓ task-2"));
    // The control: what was offered before is refused.
    assert!(site.fails(9, &["retry", "task-1"]).contains("is a session that failed"));
    assert!(site.fails(9, &["say", "task-1", "more"]).contains("is a session"));
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(site.read("NOTES.md"), "x");
}

#[test]
fn what_a_rejected_or_aborted_session_is_offered_works() {
    let site = site();
    let file = plan(&site, "puts.yml", PUTS);
    site.ok(&["run", "--plan", &file]);
    site.ok(&["reject", "task-1"]);
    assert_eq!(next(&site, "task-1"), "skep diff task-1, then skep merge task-1");
    assert!(site.fails(9, &["say", "task-1", "more"]).contains("nobody talks with"));
    let slow = PUTS.to_owned() + "  - {step_id: slow, tool_ref: {name: shell.run}, input: {command: [sleep, '1000']}, depends_on: [put]}\n";
    let file = plan(&site, "slow.yml", &slow);
    site.ok(&["run", "--plan", &file, "--detach"]);
    eventually("it sleeps", || site.json(&["session", "show", "task-2"])["steps"]["running"] == 1);
    assert_eq!(next(&site, "task-2"), "skep session watch task-2, or skep session abort task-2");
    site.ok(&["session", "abort", "task-2"]);
    eventually("its work is kept", || site.json(&["session", "show", "task-2"])["task"]["kept"].is_object());
    assert_eq!(next(&site, "task-2"), "skep session resume task-2; or skep diff task-2, then skep merge task-2");
    site.ok(&["session", "resume", "task-2", "--detach"]);
    site.ok(&["session", "abort", "task-2"]);
}

#[test]
fn whose_time_or_budget_is_used_up_ends_with_its_own_code() {
    let site = site();
    let slow = plan(
        &site,
        "slow.yml",
        "schema_version: \"0.1\"\ngoal: Wait\nsteps:\n  - {step_id: slow, tool_ref: {name: shell.run}, input: {command: [sleep, '1000']}}\n",
    );
    let ran = site.fails(13, &["run", "--plan", &slow, "--max-duration", "1s"]);
    assert!(ran.contains("its time is over"), "{ran}");
    site.fails(13, &["session", "watch", "task-1"]);
    site.fails(13, &["watch", "task-1"]);
    // The control: a step that fails is no limit.
    let file = plan(&site, "fails.yml", FAILS);
    site.fails(1, &["run", "--plan", &file, "--max-duration", "10m"]);
    site.fails(1, &["watch", "task-2"]);

    let site = planned_site();
    let ran = site.fails(8, &["run", "say what the README says", "--max-tokens", "10"]);
    assert!(ran.contains("max_tokens"), "{ran}");
    site.fails(8, &["session", "watch", "task-1"]);
    site.fails(8, &["watch", "task-1"]);
}
