//! The phases of the process tree, each with the real kernel and real Python agents: a task and its result, a crash and a restart, messages
//! between branches, and a budget that is used up.

use crate::tree_site::{TreeSite, ended};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn spawned(tree: &TreeSite, name: &str) -> Value {
    let records = tree.records("proc.spawned");
    records.into_iter().find(|record| record["name"] == name).unwrap_or_else(|| panic!("{name} was never spawned"))
}

#[test]
fn a_task_of_a_person_goes_down_the_tree_and_its_result_comes_back() {
    let tree = TreeSite::new("");
    let queen = tree.spawn(&["queen", "--role", "daemon", "--tier", "tactical", "--python", "shows:Queen"]);
    assert_eq!(tree.exec("queen", &["count the bees"]), "queen: worker: COUNT THE BEES");
    // The worker was the queen's own, and is gone with its work; what happened is on record.
    let worker = spawned(&tree, "worker");
    assert_eq!((worker["parent"].as_u64(), &worker["role"]), (Some(queen), &json!("worker")), "{worker}");
    assert_eq!(tree.living().iter().map(|one| one["name"].as_str().unwrap()).collect::<Vec<_>>(), ["queen"]);
    let finished: Vec<u64> = tree.records("task.finished").iter().filter_map(|record| record["pid"].as_u64()).collect();
    assert_eq!(finished, [worker["pid"].as_u64().unwrap(), queen], "the worker first, then she who waited for it");
    tree.ends_clean();
}

#[test]
fn a_worker_that_crashes_is_started_again_by_the_word_of_its_queen() {
    let tree = TreeSite::new("");
    tree.spawn(&["queen", "--role", "daemon", "--tier", "tactical", "--python", "shows:Queen"]);
    let worker = tree.spawn(&["digger", "--role", "worker", "--parent", "queen", "--python", "shows:Worker"]);
    assert_eq!(tree.exec("digger", &["lives"]), "1");
    let (code, said) = ended(tree.exec_beside("digger", &["crash"]));
    assert!(code != Some(0) && said.contains("its program ended with exit code 9"), "{code:?} {said}");
    tree.until("it runs again", || tree.records("proc.started").iter().any(|one| one["pid"] == worker && one["incarnation"] == 2));
    assert_eq!(tree.exec("digger", &["lives"]), "2");
    let noticed = tree.exec("queen", &["noticed"]);
    assert!(noticed.contains(&format!("digger (process {worker}) crashed: its program ended with exit code 9")), "{noticed}");
    let crashed = tree.records("proc.crashed");
    assert_eq!((crashed.len(), &crashed[0]["code"], &crashed[0]["incarnation"]), (1, &json!(9), &json!(1)), "{crashed:?}");
    assert!(crashed[0]["error"].as_str().unwrap().contains("the last words"), "{crashed:?}");
    let restarting = tree.records("proc.restarting");
    assert_eq!((restarting.len(), &restarting[0]["by"]), (1, &json!("decision")), "{restarting:?}");
    tree.ends_clean();
}

#[test]
fn branches_meet_at_their_nearest_common_ancestor_and_old_messages_are_not_forgotten() {
    let tree = TreeSite::new("");
    tree.spawn(&["crown", "--role", "agent", "--tier", "strategic"]);
    for queen in ["queen-1", "queen-2"] {
        tree.spawn(&[queen, "--role", "daemon", "--tier", "tactical", "--parent", "crown"]);
    }
    let post = tree.spawn(&["post", "--role", "lead", "--tier", "tactical", "--parent", "queen-1", "--python", "shows:Post"]);
    tree.spawn(&["speaker", "--role", "worker", "--parent", "post", "--python", "shows:Worker"]);
    tree.site.ok(&["signal", "post", "STOP"]);
    let send = |kind: &str, priority: &str| tree.site.ok(&["send", "post", "x", "--kind", kind, "--priority", priority]);
    tree.exec("speaker", &["tell", "--param", "type=child-critical", "--param", "priority=critical"]);
    send("old-low", "low");
    let sent = Instant::now();

    let dora = tree.spawn(&["Dora", "--role", "agent", "--tier", "tactical", "--parent", "queen-1", "--python", "shows:Dora"]);
    let leo = tree.spawn(&["Leo", "--role", "agent", "--tier", "tactical", "--parent", "queen-2", "--python", "shows:Researcher"]);
    let answer = tree.exec("Dora", &["a paper on bees", "--param", &format!("to={leo}")]);
    assert_eq!(answer, "Leo (sibling): Coder: A PAPER ON BEES");
    assert_eq!(spawned(&tree, "Coder")["parent"].as_u64(), Some(leo));
    // Who stands above both sees what passes between them; nobody else does.
    let seen = tree.site.json(&["inbox", "crown"])["messages"].as_array().unwrap().clone();
    let kinds: Vec<&str> = seen.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["branch_traffic:paper", "branch_traffic:result"], "{seen:?}");
    for queen in ["queen-1", "queen-2"] {
        assert!(tree.site.json(&["inbox", queen])["messages"].as_array().unwrap().is_empty());
    }
    // A child of a sibling is reached through that sibling alone.
    let (code, refused) = ended(tree.exec_beside("Dora", &["x", "--param", &format!("to={}", post + 1)]));
    assert!(code != Some(0) && refused.contains("sibling"), "{refused}");
    assert!(dora < leo);

    // A step of priority is ten seconds of age: what is older than that goes before what is one step higher.
    std::thread::sleep(Duration::from_millis(10_500).saturating_sub(sent.elapsed()));
    for (kind, priority) in [("low", "low"), ("normal", "normal"), ("high", "high")] {
        send(kind, priority);
    }
    tree.site.ok(&["signal", "post", "CONT"]);
    assert_eq!(tree.exec("post", &["show", "--param", "count=5"]), "high old-low normal low child-critical");
    tree.ends_clean();
}

/// The same caps hold for processes of the tree: what a parent has for a day is all that its children have together.
#[test]
fn a_cap_of_a_day_holds_for_a_branch_of_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("model.txt");
    std::fs::write(&script, "on \"question\"\n  say It is so.\n").unwrap();
    let tree = TreeSite::new(&format!(
        "providers: {{demo: {{url: \"script:{}\"}}}}\n\
         models: {{strategic: demo/scripted, tactical: demo/scripted, operational: demo/scripted}}\n",
        script.display()
    ));
    let lead = tree.spawn(&["lead", "--role", "lead", "--tier", "tactical", "--tokens-per-day", "5000", "--tokens-per-hour", "4000"]);
    let worker = |name: &str, more: &[&str]| {
        tree.spawn(&[&[name, "--role", "worker", "--parent", "lead", "--python", "shows:Asks", "--tier", "tactical"], more].concat())
    };
    worker("asker", &[]);
    assert_eq!(tree.exec("asker", &["question"]), "It is so.");
    let caps = tree.site.json(&["info", "lead"])["caps"].clone();
    let by_name = |what: &str| caps.as_array().unwrap().iter().find(|cap| cap["what"] == what).cloned().unwrap_or_else(|| panic!("{caps}"));
    let (day, hour) = (by_name("tokens a day"), by_name("tokens an hour"));
    assert_eq!((&day["cap"], &hour["cap"]), (&json!(5_000), &json!(4_000)));
    assert!(day["used"].as_u64() > Some(0), "{caps}");
    assert!(tree.site.ok(&["info", "lead"]).contains("of 5,000"), "{}", tree.site.ok(&["info", "lead"]));
    // Who used it, on which machine, for what, in which tier, and of whom.
    let node = tree.site.json(&["info", "lead"])["program"]["node"].as_str().unwrap().to_owned();
    let task = tree.records("task.finished").len();
    for (by, name) in [("node", &*node), ("tier", "tactical"), ("model", "demo/scripted"), ("task", &*format!("task-{task}"))] {
        let rows = tree.site.json(&["usage", "--by", by])["rows"].clone();
        assert_eq!((rows.as_array().unwrap().len(), &rows[0]["name"], &rows[0]["requests"]), (1, &json!(name), &json!(1)), "{by}: {rows}");
    }
    let users = tree.site.json(&["usage", "--by", "user"])["rows"].clone();
    assert_eq!(users[0]["name"], tree.site.json(&["info", "lead"])["user"], "{users}");
    // A child has no more for a day than its parent.
    let refused = tree.site.skep(&["spawn", "greedy", "--role", "worker", "--parent", "lead", "--tokens-per-day", "5001"]);
    let refused = (refused.status.success(), crate::common::text(&refused));
    assert!(!refused.0 && refused.1.contains("builtin:spawn-budget"), "{}", refused.1);
    worker("tight", &["--tokens-per-day", "20"]);
    let (code, said) = ended(tree.exec_beside("tight", &["question"]));
    assert!(code != Some(0) && said.contains("0 of 20 tokens a day are spent") && said.contains("tomorrow, by UTC"), "{said}");
    tree.site.ok(&["budget", "set", &lead.to_string(), "--tokens-per-hour", "all=30"]);
    let (code, said) = ended(tree.exec_beside("asker", &["question"]));
    assert!(code != Some(0) && said.contains("of 30 tokens an hour are spent") && said.contains("the budget of lead"), "{said}");
    // What is granted counts at once, and is on record as what it is.
    tree.site.ok(&["budget", "grant", &lead.to_string(), "--tokens-per-hour", "all=4000"]);
    assert_eq!(tree.exec("asker", &["question"]), "It is so.");
    let granted = tree.records("budget.granted");
    assert_eq!((&granted[0]["timed"]["tokens_per_hour"], &granted[0]["tokens"]), (&json!({ "all": 4_000 }), &json!({})), "{granted:?}");
    tree.ends_clean();
}

#[test]
fn a_used_up_budget_goes_level_by_level_to_the_person_and_more_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("model.txt");
    std::fs::write(&script, "on \"question\"\n  say It is so.\n").unwrap();
    let tree = TreeSite::new(&format!(
        "providers: {{demo: {{url: \"script:{}\"}}}}\n\
         models: {{strategic: demo/scripted, tactical: demo/scripted, operational: demo/scripted}}\n",
        script.display()
    ));
    let all = ["--tier", "tactical", "--tokens", "400"];
    let spawn = |name: &str, role: &str, above: &[&str], class: &str| {
        tree.spawn(&[&[name, "--role", role, "--python", class], &all[..], above].concat())
    };
    let queen = spawn("queen", "daemon", &[], "shows:Passes");
    let lead = spawn("lead", "lead", &["--parent", "queen"], "shows:Passes");
    let worker = spawn("spender", "worker", &["--parent", "lead"], "shows:Spender");
    let run = tree.exec_beside("spender", &["ask", "--param", "questions=12"]);
    tree.until("a person is asked", || !tree.records("review.asked").is_empty());
    // Level by level: the lead has it, then the queen, then the top; each passed it on.
    let raised = tree.records("escalation.raised");
    let way = |record: &Value| (record["pid"].as_u64(), record["to"].as_u64());
    assert_eq!(raised.iter().map(way).collect::<Vec<_>>(), [(Some(worker), Some(lead))], "{raised:?}");
    tree.until("it is at the top", || tree.records("escalation.passed").len() == 3);
    let passed = tree.records("escalation.passed");
    assert_eq!((way(&passed[0]), passed[1]["pid"].as_u64()), ((Some(lead), Some(queen)), Some(queen)), "{passed:?}");
    assert!(passed[2]["review"].is_string(), "{passed:?}");
    // Nothing was overspent, and nobody above had anything to give.
    let spent = |pid: u64| tree.site.json(&["info", &pid.to_string()])["tokens"].as_u64();
    assert!(spent(worker).is_none_or(|tokens| tokens <= 400), "{:?}", spent(worker));
    let reviews = tree.site.json(&["review", "list"]);
    let review = reviews["reviews"][0]["review"].as_str().unwrap_or_else(|| panic!("{reviews}")).to_owned();
    assert!(tree.site.ok(&["review", "show", &review]).contains("my budget is used up after"));

    tree.site.ok(&["budget", "grant", &queen.to_string(), "--tokens", "all=4000"]);
    tree.site.ok(&["review", "allow", &review, "--reason", "spend it well"]);
    let (code, said) = ended(run);
    assert_eq!((code, said.as_str()), (Some(0), "12 answers, and the top said: spend it well"));
    assert!(!tree.records("resource.given").is_empty());
    tree.ends_clean();
}
