//! Plans from the command line: looked at, carried out, asked about, ended and taken up again, in a real kernel.

use crate::common::provider::eventually;
use crate::common::screen::Screen;
use crate::common::{Site, text};
use serde_json::Value;

pub(crate) const POLICY: &str = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow, reason: a test}\n\
    - {name: merges, match: {syscall: merge.apply}, action: require_review, reason: look}\n\
    - {name: asked, match: {syscall: fs.write, path_glob: 'asked/**'}, action: require_review, reason: look at it}\n\
    - {name: secret, match: {syscall: fs.write, path_glob: 'secret/**'}, action: deny, reason: it is secret}\n";

/// Two reads and a write that takes what one of them read.
const PLAN: &str = "\
schema_version: \"0.1\"
goal: Say in NOTES.md what the README says
steps:
  - {step_id: look, title: read the README, tool_ref: {name: fs.read}, input: {path: README.md}}
  - {step_id: list, title: list what is here, tool_ref: {name: fs.list}, input: {path: .}}
  - {step_id: keep, title: keep a copy, tool_ref: {name: fs.write}, input: {path: NOTES.md}, input_from: {content: look.content}}
";

pub(crate) fn site() -> Site {
    let site = Site::new(&[(".skep/policy.yaml", POLICY), ("README.md", "hello\n")]);
    site.trust();
    site
}

/// A plan file outside of the project.
pub(crate) fn plan(site: &Site, name: &str, text: &str) -> String {
    let path = site.folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// One write, and what hangs on it.
fn write_to(path: &str) -> String {
    format!(
        "schema_version: \"0.1\"\ngoal: Write\nsteps:\n  - {{step_id: put, tool_ref: {{name: fs.write}}, input: {{path: {path}, content: x}}}}\n  \
         - {{step_id: look, tool_ref: {{name: fs.read}}, input: {{path: README.md}}, depends_on: [put]}}\n"
    )
}

/// Each step with its status, in the order of the plan.
fn steps(view: &Value) -> Vec<(String, String)> {
    let of = |step: &Value| (step["step"].as_str().unwrap().to_owned(), step["status"].as_str().unwrap_or("-").to_owned());
    view["plan"]["steps"].as_array().unwrap().iter().map(of).collect()
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(step, status)| ((*step).to_owned(), (*status).to_owned())).collect()
}

#[test]
fn a_plan_is_carried_out_and_its_changes_wait() {
    let site = site();
    let file = plan(&site, "plan.yml", PLAN);
    let ran = site.skep(&["run", "--plan", &file]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran));
    // The answer and nothing else is on stdout; the story is on stderr, without anything that moves.
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "Say in NOTES.md what the README says (3 steps)\n");
    for part in ["✓ plan 1  Say in NOTES.md", "● look  fs.read  read the README", "✓ keep  ", "◍ task-1 done, its changes wait for merge"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains('\x1b'), "{said:?}");

    let view = site.json(&["session", "show", "task-1"]);
    assert_eq!(steps(&view), pairs(&[("look", "succeeded"), ("list", "succeeded"), ("keep", "succeeded")]));
    assert_eq!(
        (&view["status"], &view["terms"]["planner"], &view["terms"]["mode"]),
        (&"awaiting_approval".into(), &"file".into(), &"live".into())
    );
    let keep = &view["plan"]["steps"][2];
    assert!(keep["started_ms"].as_i64() <= keep["ended_ms"].as_i64() && keep["call"] == "call-3", "{keep}");
    assert_eq!(keep["after"], serde_json::json!(["look"]));

    let shown = site.ok(&["session", "show", "task-1"]);
    for part in ["├─ limits   1,000 steps, 15 plans", "Plan 1  Say in NOTES.md what the README says  3 of 3 done", "2 ─ ✓ keep "] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let listed = site.ok(&["session", "list"]);
    assert!(listed.contains("◍ task-1  awaiting approval r-1") && listed.contains("  3/3    —     \"carry out "), "{listed}");
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(site.read("NOTES.md"), "hello\n");
    assert_eq!(site.json(&["session", "list"])["sessions"][0]["status"], "completed");
    // A task that a brain does is no session, and says so.
    let brain = site.script("done nothing\n");
    site.ok(&["act", "nothing", "--brain", &brain, "--await"]);
    let no = site.fails(9, &["session", "show", "task-2"]);
    assert!(no.contains("task-2 is no session") && no.contains("↳ fix  look at it with `skep status task-2`"), "{no}");
    assert_eq!(site.json(&["session", "list"])["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn a_dry_run_and_a_mock_change_nothing() {
    for mode in ["dry_run", "mock"] {
        let site = site();
        let file = plan(&site, "plan.yml", &write_to("NOTES.md"));
        let view = site.json(&["run", "--plan", &file, "--mode", mode]);
        assert_eq!(steps(&view), pairs(&[("put", "succeeded"), ("look", "succeeded")]), "{mode}: {view}");
        assert_eq!((&view["status"], &view["terms"]["mode"]), (&"completed".into(), &mode.into()));
        assert!(!site.project().join("NOTES.md").exists());
        assert!(view["task"]["merge"].is_null(), "{mode}: {view}");
    }
    // It says what it would do, and why it says nothing of a step that takes what another gives.
    let site = self::site();
    let file = plan(&site, "plan.yml", &write_to("NOTES.md"));
    let would = |said: &str| said.lines().any(|line| line.contains("✓ put ") && line.contains("would create `NOTES.md`"));
    let ran = text(&site.skep(&["run", "--plan", &file, "--mode", "dry_run"]));
    assert!(would(&ran), "{ran}");
    for told in [&["session", "show", "task-1"][..], &["session", "watch", "task-1", "--after", "0"]] {
        let said = site.ok(told);
        assert!(would(&said), "{said}");
    }
    let file = plan(&site, "takes.yml", PLAN);
    let ran = text(&site.skep(&["run", "--plan", &file, "--mode", "dry_run"]));
    assert!(ran.contains("a dry run has no output of `look` to take its input from"), "{ran}");
    // The control: live it does.
    let site = self::site();
    let file = plan(&site, "plan.yml", &write_to("NOTES.md"));
    let view = site.json(&["run", "--plan", &file, "--mode", "real"]);
    assert_eq!((&view["task"]["merge"], &view["terms"]["mode"]), (&"proposed".into(), &"live".into()));
}

#[test]
fn a_bad_plan_is_refused_with_its_place() {
    let site = site();
    let bad = plan(&site, "bad.yml", &PLAN.replace("{name: fs.list}", "{name: fs.lsit}").replace("look.content", "lok.content"));
    let checked = site.skep(&["plan", "check", &bad]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(1), "{}", text(&checked));
    assert!(said.contains("✗ steps[2].input_from.content") && said.contains("cannot be carried out: 1 finding"), "{said}");
    let no = site.fails(2, &["plan", "show", &bad]);
    assert!(
        no.contains("bad.yml` is no plan\n")
            && no.contains("  ↳ why  steps[2].input_from.content: ")
            && no.contains("  ↳ fix  `skep help plans`"),
        "{no}"
    );
    let ran = site.fails(1, &["run", "--plan", &bad]);
    assert!(ran.contains("✗ plan sent back: steps[2].input_from.content") && ran.contains("✗ task-1 failed\n  ↳ why  "), "{ran}");
    assert_eq!(site.count("call.admitted"), 0);

    let unknown = plan(&site, "unknown.yml", &PLAN.replace("{name: fs.list}", "{name: fs.lsit}"));
    let found = site.skep(&["plan", "check", &unknown, "--json"]);
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    let finding = &found["findings"][0];
    assert_eq!((&finding["critic"], &finding["blocks"]), (&"unknown_tool".into(), &true.into()), "{found}");
    let no = site.fails(5, &["plan", "check", "nowhere.yml"]);
    assert!(no.contains("cannot read the plan `nowhere.yml`") && no.contains("↳ fix"), "{no}");
    let no = site.fails(2, &["run", "x", "--plan", &unknown, "--model", "fast"]);
    assert!(no.contains("`--model fast` has nothing to do"), "{no}");
}

#[test]
fn a_good_plan_is_checked_and_shown_and_leaves_no_trace() {
    let site = site();
    let file = plan(&site, "plan.yml", PLAN);
    assert!(site.ok(&["plan", "check", &file]).contains("can be carried out: 3 steps"));
    let shown = site.ok(&["plan", "show", &file]);
    let expected = "\
Say in NOTES.md what the README says  3 steps in 2 layers
  1 ┬ ◌ look  fs.read   read the README
    └ ◌ list  fs.list   list what is here
  2 ─ ◌ keep  fs.write  keep a copy  ← look
";
    assert_eq!(shown, expected);
    assert_eq!((site.count("task.queued"), site.count("call.admitted")), (0, 0));
    // What would be asked is told and does not block; what would be denied does.
    let asked = plan(&site, "asked.yml", &write_to("asked/a.txt"));
    let said = site.ok(&["plan", "check", &asked]);
    assert!(said.contains("! steps[0]  policy  a person would be asked: look at it"), "{said}");
    let secret = plan(&site, "secret.yml", &write_to("secret/a.txt"));
    let said = site.skep(&["plan", "check", &secret]);
    assert!(text(&said).contains("is denied by `secret`: it is secret") && said.status.code() == Some(1), "{}", text(&said));
    // A profile that is narrower than the policy has its say.
    let said = site.skep(&["plan", "check", &file, "--allow-path", "README.md"]);
    assert!(text(&said).contains("profile") && said.status.code() == Some(1), "{}", text(&said));
    // What would be refused when it runs is told before, with the same flags.
    let listing = plan(
        &site,
        "ls.yml",
        "schema_version: \"0.1\"\ngoal: List\nsteps:\n  - {step_id: ls, tool_ref: {name: shell.run}, input: {command: [ls]}}\n",
    );
    assert!(site.ok(&["plan", "check", &listing, "--allow-command", "ls"]).contains("can be carried out"));
    for flags in [["--allow-command", "cargo"], ["--allow-path", "src/**"]] {
        let (checked, ran) = (["plan", "check", &listing], ["run", "--plan", &listing]);
        let said = site.skep(&[&checked[..], &flags].concat());
        assert!(text(&said).contains("it would be denied: the terms do not allow it") && said.status.code() == Some(1), "{}", text(&said));
        assert_eq!(site.skep(&[&ran[..], &flags].concat()).status.code(), Some(1), "{flags:?}");
    }
    let said = site.ok(&["plan", "check", &listing, "--ask-writes"]);
    assert!(said.contains("a person would be asked"), "{said}");
}

/// A session that is at work changes while it is looked at.
#[test]
fn a_session_that_is_at_work_holds_too() {
    let site = site();
    let step = |n: usize| format!("  - {{step_id: s{n}, tool_ref: {{name: fs.read}}, input: {{path: README.md}}}}\n");
    let steps: String = (0..900).map(step).collect();
    let file = plan(&site, "many.yml", &format!("schema_version: \"0.1\"\ngoal: Read\nsteps:\n{steps}"));
    let task = site.json(&["run", "--plan", &file, "--detach"])["task"].as_str().unwrap().to_owned();
    let mut looks = 0;
    loop {
        let status = site.json(&["session", "show", &task])["status"].clone();
        let is_over = !["created", "planning", "running"].iter().any(|one| status == *one);
        let found = site.skep(&["session", "replay", &task, "--verify", "--json"]);
        let said = text(&found);
        // It may be too fast for a look; it is never said to be broken.
        assert!(found.status.success() || said.contains("is at work"), "{said}");
        looks += 1;
        if is_over {
            assert_eq!(status, "completed");
            break;
        }
    }
    assert!(looks > 1, "it was looked at while it was at work");
}

#[test]
fn a_denied_step_fails_and_what_hangs_on_it_is_skipped() {
    let site = site();
    let file = plan(&site, "secret.yml", &write_to("secret/a.txt"));
    let ran = site.fails(1, &["run", "--plan", &file]);
    assert!(ran.contains("it would be denied: ") && ran.contains("it is secret"), "{ran}");
    assert_eq!((site.count("step.started"), site.count("plan.rejected")), (0, 1));
    // Nobody looks first, and the door says no all the same.
    let ran = site.fails(1, &["run", "--plan", &file, "--no-critics"]);
    assert!(ran.contains("✗ put  denied: ") && ran.contains("○ look  skipped"), "{ran}");
    let view = site.json(&["session", "show", "task-2"]);
    assert_eq!(steps(&view), pairs(&[("put", "failed"), ("look", "skipped")]));
    assert_eq!(view["plan"]["steps"][0]["error"]["karnevil9"], "PERMISSION_DENIED");
    assert_eq!((&view["status"], &view["reviews_of_plans"][0]["off"]), (&"failed".into(), &true.into()));
    let shown = site.ok(&["session", "show", "task-2"]);
    assert!(shown.contains("✗ put  1 attempt  denied (PERMISSION_DENIED)") && shown.contains("plan 1, round 1  nobody looked"), "{shown}");
    assert!(!site.project().join("secret").exists());
}

#[test]
fn a_question_is_answered_and_the_session_goes_on() {
    let site = site();
    let file = plan(&site, "asked.yml", &write_to("asked/a.txt"));
    let ran = site.fails(4, &["run", "--plan", &file]);
    assert!(ran.contains("◍ r-1  Writing asked/a.txt") && ran.contains("skep review allow r-1"), "{ran}");
    let listed = site.ok(&["session", "list"]);
    assert!(listed.contains("◍ task-1  awaiting approval r-1"), "{listed}");
    site.ok(&["review", "allow", "r-1"]);
    site.ok(&["session", "watch", "task-1"]);
    let view = site.json(&["session", "show", "task-1"]);
    assert_eq!(steps(&view), pairs(&[("put", "succeeded"), ("look", "succeeded")]));
    assert_eq!(site.count("review.answered"), 1);
    // The story of it goes on behind the question that has its answer.
    let story = site.ok(&["session", "watch", "task-1", "--after", "0"]);
    assert!(story.contains("◍ r-1") && story.contains("✓ r-1 ") && story.contains("✓ look "), "{story}");
}

#[test]
fn a_session_is_aborted_and_taken_up_again() {
    let site = site();
    let file = plan(
        &site,
        "slow.yml",
        "schema_version: \"0.1\"\ngoal: Wait\nsteps:\n  - {step_id: first, tool_ref: {name: fs.read}, input: {path: README.md}}\n  \
         - {step_id: slow, tool_ref: {name: shell.run}, input: {command: [sh, -c, 'test -e go || sleep 1000']}, depends_on: [first]}\n",
    );
    let said = site.ok(&["run", "--plan", &file, "--detach"]);
    assert!(said.contains("✓ task-1 → session.1") && said.contains("skep session watch task-1"), "{said}");
    eventually("it sleeps", || site.json(&["session", "show", "task-1"])["steps"]["running"] == 1 && site.count("call.admitted") == 2);
    let listed = site.ok(&["session", "list"]);
    assert!(listed.contains("● task-1  running") && listed.contains("1/2"), "{listed}");
    let said = site.ok(&["session", "abort", "task-1"]);
    assert!(said.contains("✓ task-1 aborted"), "{said}");
    assert_eq!(site.json(&["session", "show", "task-1"])["status"], "aborted");
    let watched = site.fails(1, &["session", "watch", "task-1"]);
    assert!(!watched.contains("sleeps"), "{watched}");
    site.fails(9, &["session", "abort", "task-1"]);
    let said = site.ok(&["session", "resume", "task-1", "--detach"]);
    assert!(said.contains("goes on where it stopped"), "{said}");
    let first_reads = || site.records(&["--kind", "step.started"]).iter().filter(|record| record["payload"]["step"] == "first").count();
    eventually("it is over the first step", || site.json(&["session", "show", "task-1"])["status"] != "created");
    assert_eq!(first_reads(), 1, "what ended is not made again");
    site.skep(&["session", "abort", "task-1"]);
}

#[test]
fn a_story_is_told_from_any_record_and_holds() {
    let site = site();
    let file = plan(&site, "plan.yml", PLAN);
    site.ok(&["run", "--plan", &file]);
    let story = site.ok(&["session", "watch", "task-1", "--after", "0"]);
    assert!(story.starts_with("● planning: plan 1  by file\n") && story.contains("✓ keep "), "{story}");
    let records = |after: &str| -> Vec<Value> {
        let output = site.ok(&["session", "watch", "task-1", "--after", after, "--json"]);
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let all = records("0");
    let begun = all.iter().find(|record| record["type"] == "step.finished").unwrap()["seq"].as_u64().unwrap();
    let rest = records(&begun.to_string());
    assert_eq!(rest[0]["seq"].as_u64(), Some(begun + 1));
    assert!(rest.len() < all.len() && all[0]["type"] == "task.queued");
    // As it was before its last step.
    let before = site.json(&["session", "show", "task-1", "--until", &begun.to_string()]);
    assert_eq!((&before["status"], &before["steps"]["succeeded"]), (&"running".into(), &1.into()));
    assert_eq!(steps(&before).last().unwrap(), &("keep".to_owned(), "-".to_owned()));
    assert_eq!((&before["task"]["state"], &before["task"]["summary"]), (&"running".into(), &Value::Null), "{before}");
    // Calls are counted as they were, too.
    let ended = |records: &[Value]| records.iter().filter(|record| record["type"] == "call.finished").count() as u64;
    let until: Vec<Value> = all.iter().filter(|record| record["seq"].as_u64() <= Some(begun)).cloned().collect();
    assert_eq!(before["task"]["calls"].as_u64(), Some(ended(&until)), "{before}");
    assert!(ended(&until) < 3 && site.json(&["session", "show", "task-1"])["task"]["calls"] == 3, "the control");
    let shown = site.ok(&["session", "show", "task-1", "--until", &begun.to_string()]);
    assert!(!shown.contains("─ summary ") && !shown.contains("─ next ") && !shown.contains("no model"), "{shown}");
    let now = site.ok(&["session", "show", "task-1"]);
    assert!(now.contains("─ summary ") && now.contains("─ next ") && now.contains("no model"), "the control: {now}");
    for beyond in ["1", "1000000"] {
        let no = text(&site.skep(&["session", "show", "task-1", "--until", beyond]));
        let first = all[0]["seq"].as_u64().unwrap();
        assert!(no.contains(&format!("began with record {first}")) && no.contains(&format!("name a record from {first} to ")), "{no}");
    }
    let held = site.ok(&["session", "replay", "task-1"]);
    assert!(held.contains("✓ task-1 holds: ") && held.contains("nothing differs"), "{held}");
    let no = site.fails(12, &["replay", "task-1"]);
    assert!(no.contains("task-1 is a session") && no.contains("skep session replay task-1"), "{no}");
    let told = site.ok(&["log", "task-1"]);
    assert!(told.contains("✓ plan 1  Say in NOTES.md") && told.contains("✓ Writing NOTES.md"), "{told}");
}

#[test]
fn what_was_learned_is_listed_and_forgotten() {
    let site = site();
    assert!(site.ok(&["memory", "list"]).contains("nothing was learned yet"));
    let file = plan(&site, "plan.yml", &PLAN.replace("fs.write", "fs.exists").replace(", input_from: {content: look.content}", ""));
    site.ok(&["run", "copy the readme", "--plan", &file]);
    let lessons = site.json(&["memory", "list"]);
    assert_eq!(lessons["lessons"][0]["summary"], "copy the readme", "{lessons}");
    let shown = site.ok(&["memory", "show", "l-1"]);
    assert!(shown.contains("├─ of       task-1, which succeeded"), "{shown}");
    let why = site.ok(&["memory", "why", "a readme to be written"]);
    assert!(why.contains("✓ l-1") && why.contains("readme"), "{why}");
    assert!(site.ok(&["memory", "why", "zebras"]).contains("none of 1 lesson shares a word"));
    let no = site.fails(5, &["memory", "forget", "l-9"]);
    assert!(no.contains("there is no lesson `l-9`"), "{no}");
    assert!(site.ok(&["memory", "forget", "l-1", "--reason", "old"]).contains("forgot 1 lesson; 0 lessons left"));
    site.fails(5, &["memory", "show", "l-1"]);
    assert_eq!(site.records(&["--kind", "lesson.forgotten"])[0]["payload"]["reason"], "old");
    // Who wants no memory leaves none.
    site.ok(&["run", "copy the readme", "--plan", &file, "--no-memory"]);
    assert_eq!(site.json(&["memory", "list"])["lessons"], serde_json::json!([]));
}

/// A plan that looks, and one without a step once it has looked.
const PLANNER: &str = r#"on "Iteration 1, `look at the README`"
  call submit_plan {"schema_version": "0.1", "goal": "it is done", "steps": []}
  usage in=1200 out=20
on "what the README says"
  call submit_plan {"schema_version": "0.1", "goal": "look at the README", "steps": [{"step_id": "look", "title": "read it", "tool_ref": {"name": "fs.read"}, "input": {"path": "README.md"}}]}
  usage in=1000 out=100
"#;

/// A site where a script is the model that plans.
pub(crate) fn planned_site() -> Site {
    let site = Site::new(&[(".skep/policy.yaml", POLICY), ("README.md", "hello\n")]);
    std::fs::create_dir(site.home()).unwrap();
    let answers = site.folder.path().join("answers.txt");
    std::fs::write(&answers, PLANNER).unwrap();
    let config = format!(
        "providers: {{p: {{url: 'script:{}', dialect: anthropic}}}}\nmodels: {{tactical: p/m, strategic: p/m, operational: p/m}}\n",
        answers.display()
    );
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    site.trust();
    site
}

#[test]
fn a_plan_is_made_shown_and_kept_and_then_run() {
    let site = planned_site();
    let said = site.ok(&["plan", "say what the README says"]);
    assert!(said.contains("look at the README  1 step in 1 layer\n  1 ─ ◌ look  fs.read  read it\n"), "{said}");
    assert!(said.contains("✓ kept in task-1.plan.json\n  ↳ next skep plan run task-1.plan.json"), "{said}");
    assert_eq!((site.count("plan.accepted"), site.count("step.started")), (1, 0));
    let kept: Value = serde_json::from_str(&site.read("task-1.plan.json")).unwrap();
    assert_eq!(kept["goal"], "look at the README");
    // It is not written over.
    let no = site.fails(9, &["plan", "again", "--out", "task-1.plan.json"]);
    assert!(no.contains("`task-1.plan.json` is there already") && no.contains("--out FILE"), "{no}");
    let view = site.json(&["plan", "run", "task-1.plan.json"]);
    assert_eq!((steps(&view), &view["status"]), (pairs(&[("look", "succeeded")]), &"completed".into()));
}

#[test]
fn an_agentic_session_plans_until_nothing_is_left_and_tells_its_cost() {
    let site = planned_site();
    let ran = site.skep(&["run", "say what the README says", "--agentic"]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran));
    for part in [
        "● planning: plan 1  by model",
        "✓ look  ",
        "● planning: plan 2  by model",
        "✓ the planner says that it is done",
        "✓ task-1 completed  $0.00, 2,320 tokens",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let view = site.json(&["session", "show", "task-1"]);
    assert_eq!((&view["iteration"], &view["steps_made"], &view["terms"]["agentic"]), (&2.into(), &1.into(), &true.into()));
    assert_eq!(view["task"]["usage"]["requests"], 2, "{view}");
    let listed = site.ok(&["session", "list"]);
    assert!(listed.contains("✓ task-1  completed") && listed.contains("  $0.00  "), "{listed}");
    // A limit ends it, and says which.
    let site = planned_site();
    let ran = site.fails(1, &["run", "say what the README says", "--agentic", "--max-iterations", "1"]);
    assert!(ran.contains("max_iterations"), "{ran}");
}

#[test]
fn a_terminal_shows_the_graph_while_it_is_carried_out() {
    let site = site();
    let mut text = "schema_version: \"0.1\"\ngoal: Look at all of it\nsteps:\n".to_owned();
    for n in 0..60 {
        text.push_str(&format!("  - {{step_id: s{n}, tool_ref: {{name: fs.read}}, input: {{path: README.md}}}}\n"));
    }
    text.push_str(
        "  - {step_id: slow, title: wait for a while, tool_ref: {name: shell.run}, input: {command: [sleep, '1000']}, depends_on: [s59]}\n",
    );
    text.push_str("  - {step_id: end, tool_ref: {name: fs.read}, input: {path: README.md}, depends_on: [slow]}\n");
    let file = plan(&site, "plan.yml", &text);
    let screen = Screen::sized(&site, "xterm-256color", &format!("run --plan {file}"), (80, 24));
    let shown = screen.shows(&["running", "2 ─ ● slow", "3 ─ · end", "60 of 62 done, 1 running", "done\n"]);
    assert!(shown.lines().all(|line| line.chars().count() <= 80) && shown.contains('⋮'), "{shown}");
    site.ok(&["session", "abort", "task-1"]);
    let shown = screen.shows(&["task-1 aborted", "left with 1", "⊘ slow", "Look at all of it  60 of 62 done, 1 cut off"]);
    assert!(!shown.contains("ctrl-c: it goes on"), "{shown}");
}

#[test]
fn a_terminal_tells_at_the_end_why_steps_failed() {
    let site = site();
    let text = "schema_version: \"0.1\"\ngoal: Fail and go on\nsteps:\n  - {step_id: breaks, title: a step with a title that leaves little room, \
        tool_ref: {name: shell.run}, input: {command: [sh, -c, 'echo the roof is leaking >&2; exit 3']}, failure_policy: continue}\n";
    let file = plan(&site, "plan.yml", text);
    let screen = Screen::sized(&site, "xterm-256color", &format!("run --plan {file}"), (80, 24));
    screen.shows(&["Failed", "✗ breaks  1 attempt  tool_failed", "why  it ended with exit code 3: the roof is leaking", "left with"]);
}
