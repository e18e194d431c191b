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

/// One sandbox for all sessions: what a lower one runs in it is frozen, and is said to be.
#[test]
fn a_frozen_step_is_shown_as_what_it_is() {
    let site = Site::new(&[(".skep/policy.yaml", crate::sessions::POLICY)]);
    std::fs::create_dir(site.home()).unwrap();
    std::fs::write(site.home().join("config.yml"), "sessions: {rooms: 1}\n").unwrap();
    site.trust();
    let sleeps = "schema_version: \"0.1\"\ngoal: Wait\nsteps:\n  - {step_id: slow, tool_ref: {name: shell.run}, input: {command: [sleep, '1000']}}\n";
    let file = plan(&site, "slow.yml", sleeps);
    site.ok(&["run", "low", "--plan", &file, "--detach", "--priority", "5"]);
    let has_job = || site.json(&["sandbox", "ps"]).to_string().contains("sleep");
    eventually("it sleeps", has_job);
    let of = |task: &str| site.json(&["session", "show", task])["plan"]["steps"][0].clone();
    assert!(of("task-1")["frozen_by"].is_null(), "the control: {}", of("task-1"));
    site.ok(&["run", "high", "--plan", &file, "--detach", "--priority", "1"]);
    eventually("the lower one is frozen", || of("task-1")["frozen_by"] == "kernel");
    let shown = site.ok(&["session", "show", "task-1"]);
    assert!(
        shown.contains("0 of 1 done, 1 frozen") && shown.contains("◐ slow") && shown.contains("of higher priority has its place"),
        "{shown}"
    );
    eventually("the higher one sleeps", has_job);
    assert!(site.ok(&["session", "show", "task-2"]).contains("● slow"));
    // Whoever looks on sees it freeze and go on.
    site.ok(&["session", "abort", "task-2"]);
    eventually("it goes on", || of("task-1")["frozen_by"].is_null());
    assert!(site.ok(&["session", "show", "task-1"]).contains("● slow"));
    site.ok(&["session", "abort", "task-1"]);
    let story = crate::common::text(&site.skep(&["session", "watch", "task-1", "--after", "0"]));
    assert!(story.contains("◐ frozen: a session of higher priority has its place\n● what was frozen goes on\n"), "{story}");
}

#[test]
fn a_file_of_several_plans_is_checked_and_shown_plan_by_plan() {
    let site = site();
    let second = PUTS.replace("goal: Write", "goal: Write it again");
    let file = plan(&site, "two.yml", &format!("---\n{PUTS}---\n{second}"));
    let said = site.ok(&["plan", "check", &file]);
    assert!(said.contains("two.yml, plan 1 of 2 can be carried out: 1 step") && said.contains("plan 2 of 2 can be carried out"), "{said}");
    let shown = site.ok(&["plan", "show", &file]);
    assert!(shown.contains("Write  1 step in 1 layer\n") && shown.contains("\n\nWrite it again  1 step in 1 layer\n"), "{shown}");
    let plans = site.json(&["plan", "show", &file]);
    assert_eq!((&plans[0]["goal"], &plans[1]["goal"]), (&"Write".into(), &"Write it again".into()));
    // One that does not pass is named, and none passes then.
    let file = plan(&site, "bad.yml", &format!("{PUTS}---\n{}", second.replace("fs.write", "fs.wrote")));
    let said = site.fails(1, &["plan", "check", &file]);
    assert!(said.contains("plan 1 of 2 can be carried out") && said.contains("plan 2 of 2 cannot be carried out: 1 finding"), "{said}");
    let file = plan(&site, "none.yml", &format!("{PUTS}---\ngoal: [\n"));
    let said = site.fails(2, &["plan", "show", &file]);
    assert!(said.contains("none.yml, plan 2 of 2` is no plan") && said.contains("↳ fix"), "{said}");
    // It is what a run takes one after the other.
    let file = plan(
        &site,
        "again.yml",
        &format!("{}---\n{second}", FAILS.replace("depends_on: [put]", "depends_on: [put], failure_policy: replan")),
    );
    site.ok(&["plan", "check", &file]);
    let view = site.json(&["run", "--plan", &file]);
    assert_eq!((&view["plan_number"], &view["plan"]["goal"]), (&2.into(), &"Write it again".into()));
}

#[test]
fn terms_that_cannot_be_held_say_what_would_do() {
    let site = site();
    let file = plan(&site, "puts.yml", PUTS);
    for (flags, why, fix) in [
        (["--allow-path", "src/*.rs"], "allowed_paths[0]: `src/*.rs` is not a file or folder", "name a file or folder of the project"),
        (["--scope", "../x"], "path_scope[0]: ", "name a file or folder of the project"),
        (["--allow-host", "http://x"], "allowed_endpoints[0]: ", "name a host, such as `example.com`"),
        (["--allow-command", " "], "allowed_commands[0]: ", "name a program, such as `cargo`"),
        (["--no-tool", "FS"], "tool_denylist[0]: ", "name a tool, such as `fs.read`"),
        (["--success", "it looks good"], "success_criteria[0]: ", "write a comparison over the output of a step"),
        (["--context-budget", "1"], "a context budget of 1 does not hold", "give it 500 tokens or more"),
    ] {
        for command in [&["run", "--plan", &file][..], &["plan", "check", &file]] {
            let said = site.fails(2, &[command, &flags].concat());
            assert!(said.contains(why) && said.contains(&format!("  ↳ fix  {fix}")), "{command:?} {flags:?}: {said}");
        }
    }
    assert_eq!(site.count("session.created"), 0);
    site.ok(&["plan", "check", &file, "--allow-path", "NOTES.md", "--success", "put.path exists", "--context-budget", "500"]);
}

#[test]
fn a_plan_that_cannot_be_kept_is_not_asked_for() {
    let site = planned_site();
    let said = site.fails(2, &["plan", "say what the README says", "--out", "nowhere/plan.json"]);
    assert!(said.contains("the plan cannot be kept in `nowhere/plan.json`") && said.contains("↳ fix  name another place"), "{said}");
    assert_eq!((site.count("session.created"), site.count("call.admitted")), (0, 0), "nobody is asked");
    site.ok(&["plan", "say what the README says", "--out", "plan.json"]);
    assert_eq!(site.count("planner.requested"), 1, "the control");
    let left: Vec<_> = std::fs::read_dir(site.project()).unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    assert!(!left.iter().any(|name| name.starts_with(".skep-plan")), "{left:?}");
}

#[test]
fn one_step_is_one_step() {
    let site = site();
    let file = plan(&site, "puts.yml", PUTS);
    assert_eq!(site.ok(&["run", "--plan", &file]), "Write (1 step)\n");
    assert!(site.ok(&["session", "replay", "task-1", "--reexecute"]).contains(" 1 step, nothing differs"));
}

/// What is refused is told with the same number as what is documented.
#[test]
fn a_plan_file_has_the_size_that_is_documented() {
    let site = site();
    let file = plan(&site, "large.yml", &format!("{PUTS}# {}\n", "x".repeat(4_000_000 - PUTS.len() - 3)));
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 4_000_000);
    site.ok(&["plan", "check", &file]);
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + "\n").unwrap();
    let said = site.fails(10, &["plan", "check", &file]);
    assert!(said.contains("it is longer than 4,000,000 bytes"), "{said}");
    assert!(include_str!("../../../../docs/plans.md").contains("A plan file has 4,000,000 bytes at most"));
}
