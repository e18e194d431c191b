//! Whom a task is for: every form of `--who`, and what is wrong with the others.

use crate::common::Site;
use serde_json::Value;

const OPEN: &str = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow, reason: a test}\n";
const CREW: &str = "brain: opus\n\
    crew: {roles: {researcher: a/researcher, mechanic: a/mechanic}, brains: {opus: 'native:p/opus', kimi: 'native:p/kimi'}}\n\
    zone: {limits: {maxClonesPerZone: 7}}\n";

/// A project with roles and brains, all of which answer one word.
fn site() -> Site {
    let site = Site::new(&[
        (".skep/policy.yaml", OPEN),
        ("skep.yml", CREW),
        (".skep/roles/a/researcher/role.md", "Read before you write.\n"),
        (".skep/roles/a/mechanic/role.md", "Mend things.\n"),
    ]);
    std::fs::create_dir_all(site.home()).unwrap();
    let answers = site.home().join("answers.txt");
    std::fs::write(&answers, "say done\n").unwrap();
    let config = format!(
        "providers: {{p: {{url: 'script:{}', dialect: anthropic, free: true}}}}\nmodels: {{tactical: p/opus, operational: p/opus}}\n",
        answers.display()
    );
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    site.trust();
    site
}

/// The line that says who was taken on, and the worker of the task's own line.
#[track_caller]
fn given(site: &Site, who: &str) -> (bool, String) {
    let said = site.ok(&["act", "something", "--who", who]);
    let line = said.lines().find(|line| line.starts_with("✓ task-")).unwrap_or_else(|| panic!("{said}"));
    let worker = line.split(" → ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert!(line.contains("(@main)"), "{line}");
    (said.contains(&format!("✓ enrolled {worker}\n")), worker)
}

#[track_caller]
fn code(site: &Site, exit: i32, who: &str) -> Value {
    let output = site.skep(&["act", "something", "--who", who, "--json"]);
    assert_eq!(output.status.code(), Some(exit), "{who}: {}", crate::common::text(&output));
    let error: Value = serde_json::from_slice(&output.stderr).unwrap();
    error["error"].clone()
}

#[test]
fn every_form_finds_or_enrols_the_right_worker() {
    let site = site();
    assert!(site.ok(&["act", "first"]).contains("✓ task-1 → worker.1 (@main)"));
    for (who, enrolled, worker) in [
        ("hero", false, "worker.1"),
        ("worker", false, "worker.1"),
        ("researcher", true, "researcher.1"),
        ("researcher", false, "researcher.1"),
        ("@kimi", true, "worker.2"),
        ("@kimi", false, "worker.2"),
        ("@opus", false, "worker.1"),
        ("researcher@kimi", true, "researcher.2"),
        ("researcher", false, "researcher.1"),
        ("worker.2", false, "worker.2"),
        ("worker.2@kimi", false, "worker.2"),
        ("researcher++", true, "researcher.3"),
        ("++", true, "worker.3"),
        ("@kimi++", true, "worker.4"),
    ] {
        assert_eq!(given(&site, who), (enrolled, worker.to_owned()), "{who}");
    }
    // A worker keeps its brain, and another's is its own.
    let tasks = site.json(&["list", "tasks"])["tasks"].clone();
    for task in tasks.as_array().unwrap() {
        let on_kimi = ["worker.2", "worker.4", "researcher.2"].contains(&task["process"].as_str().unwrap());
        assert_eq!(task["brain"], if on_kimi { "native:p/kimi" } else { "native:p/opus" }, "{task}");
    }
    let all = site.json(&["ps"])["processes"].clone();
    let workers: Vec<&str> = all.as_array().unwrap().iter().filter(|p| p["zone"].is_string()).filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(workers, ["worker.1", "researcher.1", "worker.2", "researcher.2", "researcher.3", "worker.3", "worker.4"]);
    // Seven is all that the project may have.
    let full = code(&site, 8, "mechanic");
    assert_eq!(full["code"], "max_workers_reached", "{full}");
    assert_eq!(site.count("worker.enrolled"), 3);
    let asked = site.ok(&["ask", "what is it?", "--who", "researcher.3", "--await"]);
    assert_eq!(asked, "done\n");
}

#[test]
fn what_names_nobody_says_who_there_is() {
    let site = site();
    site.ok(&["act", "first"]);
    for (exit, who, name, says) in [
        (5, "wizard", "worker_not_found", &["there is no role `wizard`", "roles: mechanic, researcher, worker"][..]),
        (5, "mechanic.7", "worker_not_found", &["there is no worker `mechanic.7` here", "there are worker.1"]),
        (9, "worker.1@kimi", "wrong_state", &["worker.1 is on opus, not kimi"]),
        (5, "@nobody", "not_found", &["there is no brain `nobody`", "kimi, opus", "claude"]),
        (5, "@p/kimi", "not_found", &["`p/kimi` is a model and no brain", "native:p/kimi", "kimi, opus"]),
        (2, "worker.", "bad_input", &["`worker.` names no worker", "`researcher++`"]),
        (2, "worker.1++", "bad_input", &["names no worker"]),
    ] {
        let error = code(&site, exit, who);
        assert_eq!(error["code"], name, "{error}");
        let told = site.fails(exit, &["act", "something", "--who", who]);
        for part in says {
            assert!(told.contains(part), "{who}: {told}");
        }
    }
    // Nothing was queued or taken on for them.
    assert_eq!((site.count("task.queued"), site.count("worker.enrolled")), (1, 0));
    site.fails(2, &["act", "x", "--who", "worker@kimi", "--brain", "native:p/opus"]);
}
