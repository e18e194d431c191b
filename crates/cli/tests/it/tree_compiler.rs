//! The whole tree of the reference snapshot, and the compiler in it: an agent has leads, leads have workers and tasks, the tree grows, works
//! and collapses. Its kernel may be killed or stopped in the middle: nothing is lost.
//!
//! Leo's branch is of real Python agents, each in its sandbox; the rest of the table runs nothing.

use crate::tree_site::{TreeSite, ended};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Name, parent, user, role, tier and model of the snapshot's rows that run nothing here, parents first. The king is there.
const VIRTUAL: [[&str; 6]; 21] = [
    ["queen@vps1", "", "root", "daemon", "tactical", "sonnet"],
    ["queen@vps2", "", "root", "daemon", "tactical", "sonnet"],
    ["queen@vps3", "", "root", "daemon", "tactical", "sonnet"],
    ["maid@vps1", "queen@vps1", "root", "daemon", "tactical", "sonnet"],
    ["memory-monitor@vps1", "maid@vps1", "root", "task", "operational", "mini"],
    ["disk-monitor", "maid@vps1", "root", "task", "operational", "mini"],
    ["maid@vps2", "queen@vps2", "root", "daemon", "tactical", "sonnet"],
    ["memory-monitor@vps2", "maid@vps2", "root", "task", "operational", "mini"],
    ["maid@vps3", "queen@vps3", "root", "daemon", "tactical", "sonnet"],
    ["memory-monitor@vps3", "maid@vps3", "root", "task", "operational", "mini"],
    ["Caroline", "queen@vps1", "caroline", "agent", "strategic", "opus"],
    ["Stas", "queen@vps1", "stas", "agent", "strategic", "opus"],
    ["Dora", "queen@vps2", "dora", "agent", "tactical", "sonnet"],
    ["Shop", "queen@vps2", "shop", "agent", "strategic", "opus"],
    ["Ozon-keeper", "Shop", "shop", "worker", "tactical", "sonnet"],
    ["price-checker", "Ozon-keeper", "shop", "task", "operational", "mini"],
    ["feedback-monitor", "Ozon-keeper", "shop", "task", "operational", "mini"],
    ["feedback-responder", "Ozon-keeper", "shop", "task", "tactical", "sonnet"],
    ["WB-keeper", "Shop", "shop", "worker", "tactical", "sonnet"],
    ["price-checker@wb", "WB-keeper", "shop", "task", "operational", "mini"],
    ["stock-monitor", "WB-keeper", "shop", "task", "operational", "mini"],
];

/// The rows of Leo's branch, which he and his leads spawn.
const LEOS: [[&str; 6]; 16] = [
    ["Leo", "queen@vps2", "leo", "agent", "strategic", "opus"],
    ["Coder", "Leo", "leo", "worker", "tactical", "sonnet"],
    ["Architect", "Leo", "leo", "architect", "strategic", "opus"],
    ["Frontend-Lead", "Leo", "leo", "lead", "strategic", "opus"],
    ["Lexer-dev", "Frontend-Lead", "leo", "worker", "tactical", "sonnet"],
    ["Parser-dev", "Frontend-Lead", "leo", "worker", "tactical", "sonnet"],
    ["Lexer-tests", "Frontend-Lead", "leo", "task", "operational", "mini"],
    ["IR-Lead", "Leo", "leo", "lead", "strategic", "opus"],
    ["IR-builder", "IR-Lead", "leo", "worker", "tactical", "sonnet"],
    ["Optimizer", "IR-Lead", "leo", "worker", "tactical", "sonnet"],
    ["Backend-Lead", "Leo", "leo", "lead", "strategic", "opus"],
    ["Codegen-x86", "Backend-Lead", "leo", "worker", "tactical", "sonnet"],
    ["Codegen-arm", "Backend-Lead", "leo", "worker", "tactical", "sonnet"],
    ["Testing-Lead", "Leo", "leo", "lead", "tactical", "sonnet"],
    ["Unit-runner", "Testing-Lead", "leo", "task", "operational", "mini"],
    ["Integration-runner", "Testing-Lead", "leo", "task", "operational", "mini"],
];

/// Those of his branch that live for one task.
const TASKS: [&str; 3] = ["Lexer-tests", "Unit-runner", "Integration-runner"];

/// What his leads answer when all of their hands are done.
const WORK: &str = "Codegen-arm done; Codegen-x86 done\nIR-builder done; Optimizer done\nIntegration-runner done; Unit-runner done\n\
                    Lexer-dev done; Lexer-tests done; Parser-dev done";

/// What Leo has, and what each of his children takes of it: four leads, a coder and an architect.
const LEO_TOKENS: u64 = 100_000;
const GIVEN: u64 = 4 * 10_000 + 2 * 1_000;

fn plant(tree: &TreeSite, [name, parent, user, role, tier, model]: [&str; 6], more: &[&str]) -> u64 {
    let parent = if parent.is_empty() { "1" } else { parent };
    let row = [name, "--parent", parent, "--user", user, "--role", role, "--tier", tier, "--model", model];
    tree.spawn(&[&row, more].concat())
}

fn plant_leo(tree: &TreeSite) -> u64 {
    plant(tree, LEOS[0], &["--python", "shows:Leo", "--tokens", &LEO_TOKENS.to_string()])
}

/// The table that lives, as rows of the snapshot.
fn rows(tree: &TreeSite) -> BTreeSet<[String; 6]> {
    let living = tree.living();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name_of = |pid: &Value| living.iter().find(|one| one["pid"] == *pid).map_or_else(String::new, |one| word(&one["name"]));
    let row = |one: &Value| {
        let program = &one["program"];
        let parts = [&one["user"], &program["role"], &program["tier"], &program["model"]].map(word);
        let [user, role, tier, model] = parts;
        [word(&one["name"]), name_of(&one["parent"]), user, role, tier, model]
    };
    living.iter().map(row).collect()
}

fn snapshot(parts: &[&[[&str; 6]]]) -> BTreeSet<[String; 6]> {
    parts.concat().into_iter().map(|row| row.map(str::to_owned)).collect()
}

/// Tokens that an account may still use or give.
fn tokens_left(tree: &TreeSite, pid: u64) -> u64 {
    let accounts = tree.site.json(&["budget"])["accounts"].clone();
    let of = |pid: u64| accounts.as_array().unwrap().iter().find(|account| account["pid"] == pid).cloned();
    let account = of(pid).unwrap_or_else(|| panic!("process {pid} has no account: {accounts}"));
    let budget = |account: &Value| account["budget"]["tokens"]["all"].as_u64().unwrap_or(0);
    let given: u64 =
        account["allotted"].as_array().into_iter().flatten().filter_map(|child| of(child.as_u64()?)).map(|one| budget(&one)).sum();
    budget(&account) - given
}

/// Folders of agents that are still there.
fn folders(tree: &TreeSite) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(tree.site.home().join("agents")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Agents among the operating system's processes below this test, also those that lost their parents.
fn os_processes() -> Vec<u32> {
    let mut parents = BTreeMap::new();
    let mut agents = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
        parents.extend(parent.map(|parent| (pid, parent)));
        let line = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        if line.contains("skep.runner") {
            agents.push(pid);
        }
    }
    let me = std::process::id();
    let is_ours = |pid: &u32| std::iter::successors(Some(*pid), |at| parents.get(at).copied()).take(64).any(|above| above == me);
    agents.retain(is_ours);
    agents
}

fn collapse(tree: &TreeSite, leo: u64) {
    assert_eq!(tree.exec("Leo", &["collapse"]), "collapsed");
    assert_eq!(rows(tree).iter().filter(|row| row[2] == "leo").count(), 1, "Leo alone is left");
    assert_eq!(tokens_left(tree, leo), LEO_TOKENS, "everything came back to him");
    tree.site.ok(&["kill", "Leo"]);
    tree.site.skep(&["wait", &leo.to_string(), "--timeout", "10s"]);
}

#[test]
fn the_tree_of_the_snapshot_grows_works_and_collapses() {
    let tree = TreeSite::new("");
    for row in VIRTUAL {
        plant(&tree, row, &[]);
    }
    let leo = plant_leo(&tree);
    assert_eq!(tokens_left(&tree, leo), LEO_TOKENS);
    tree.exec("Leo", &["grow"]);
    assert_eq!(rows(&tree), snapshot(&[&VIRTUAL, &LEOS]));
    assert_eq!(tokens_left(&tree, leo), LEO_TOKENS - GIVEN);
    let frontend = tree.process("Frontend-Lead").unwrap()["pid"].as_u64().unwrap();
    assert_eq!(tokens_left(&tree, frontend), 10_000 - 3 * 1_000);
    tree.until("the architect sleeps", || tree.state("Architect") == "sleeping");
    assert_eq!(os_processes().len(), LEOS.len());

    assert_eq!(tree.exec("Leo", &["work"]), WORK);
    // A task ends with its work; everybody else waits for more.
    tree.until("tasks are over", || TASKS.iter().all(|task| tree.process(task).is_none()));
    let without_tasks: Vec<[&str; 6]> = LEOS.into_iter().filter(|row| !TASKS.contains(&row[0])).collect();
    assert_eq!(rows(&tree), snapshot(&[&VIRTUAL, &without_tasks]));

    collapse(&tree, leo);
    assert_eq!(rows(&tree), snapshot(&[&VIRTUAL]));
    assert_eq!((os_processes(), folders(&tree)), (vec![], vec![]));
    tree.ends_clean();
}

/// Kinds of the messages that the counter had, over all of its lives.
fn counted(tree: &TreeSite) -> Value {
    serde_json::from_str(&tree.exec("counter", &["show"])).unwrap()
}

fn fired(tree: &TreeSite) -> usize {
    tree.records("cron.fired").len()
}

/// Everybody of the branch is on a task, deep down.
fn hold(tree: &TreeSite) -> std::process::Child {
    let run = tree.exec_beside("Leo", &["hold"]);
    let hands: Vec<&str> = LEOS.iter().filter(|row| row[1].ends_with("-Lead")).map(|row| row[0]).collect();
    tree.until("all hands are at work", || {
        let living = tree.living();
        hands.iter().all(|hand| living.iter().any(|one| one["name"] == *hand && one["state"] == "running"))
    });
    run
}

/// Agents of the branch without its tasks, and the daemon, in this incarnation.
fn are_back(tree: &TreeSite, incarnation: u64) {
    let started = || {
        let started = tree.records("proc.started");
        started
            .iter()
            .filter(|record| record["incarnation"] == incarnation)
            .filter_map(|record| record["pid"].as_u64())
            .collect::<BTreeSet<_>>()
    };
    let sleeps = |one: &Value| one["state"] == "sleeping";
    tree.until("all are back", || {
        let back = started();
        let living = tree.living();
        let real = living.iter().filter(|one| one["program"]["runtime"] == "python" && !sleeps(one));
        real.filter_map(|one| one["pid"].as_u64()).all(|pid| back.contains(&pid))
    });
}

#[test]
fn the_kernel_is_killed_and_stopped_in_the_middle_and_nothing_is_lost() {
    let mut tree = TreeSite::new("");
    plant(&tree, VIRTUAL[1], &[]);
    plant(&tree, VIRTUAL[12], &[]);
    let counter = tree.spawn(&["counter", "--role", "daemon", "--parent", "queen@vps2", "--python", "shows:Counter"]);
    let forgetful = tree.spawn(&["forgetful", "--role", "daemon", "--parent", "queen@vps2", "--python", "forgetful:Forgetful"]);
    let leo = plant_leo(&tree);
    tree.site.ok(&["cron", "add", "every-second", "* * * * * *", "tick", "--target", "queen@vps2", "--action", "message"]);
    tree.exec("Leo", &["grow"]);
    let grown = rows(&tree);

    // Two daemons have a message each and do not answer, one waits behind that, and one is for somebody who runs nothing.
    let run = hold(&tree);
    tree.site.ok(&["send", "counter", "x", "--kind", "slow"]);
    tree.site.ok(&["send", "forgetful", "x", "--kind", "lost"]);
    tree.until("both have theirs", || {
        let delivered = tree.records("message.delivered");
        [counter, forgetful].iter().all(|pid| delivered.iter().any(|record| record["pid"] == *pid))
    });
    tree.site.ok(&["send", "counter", "x", "--kind", "behind"]);
    tree.site.ok(&["send", "Dora", "a letter", "--kind", "letter"]);
    tree.until("cron ran", || fired(&tree) > 0);
    assert_eq!(os_processes().len(), LEOS.len() + 2);
    tree.kill();
    assert!(ended(run).0 != Some(0), "whoever waited for the task hears of it");
    tree.until_gone(os_processes);

    tree.start();
    assert!(tree.site.ok(&["journal", "verify"]).starts_with('✓'));
    are_back(&tree, 2);
    let is_task = |row: &[String; 6]| TASKS.contains(&row[0].as_str());
    assert_eq!(rows(&tree), grown.iter().filter(|row| !is_task(row)).cloned().collect(), "only what was there for one task is over");
    // Its program remembers ids, so it gets again what it did not answer; nothing of it was answered twice.
    tree.until("both messages came", || counted(&tree) == json!(["slow", "behind"]));
    let letters = tree.site.json(&["inbox", "Dora"]);
    assert_eq!((letters["messages"].as_array().unwrap().len(), &letters["messages"][0]["kind"]), (1, &json!("letter")), "{letters}");
    let so_far = fired(&tree);
    tree.until("cron goes on", || fired(&tree) > so_far);
    assert_eq!(tree.exec("Leo", &["work"]), WORK, "those that are missing come again");

    let run = hold(&tree);
    tree.stop();
    assert!(ended(run).0 != Some(0));
    tree.until_gone(os_processes);
    tree.start();
    are_back(&tree, 3);
    assert_eq!(counted(&tree), json!(["slow", "behind"]), "it has what it left");
    let so_far = fired(&tree);
    tree.until("cron goes on", || fired(&tree) > so_far);
    assert_eq!(tree.exec("Leo", &["work"]), WORK);
    // Who does not remember ids is not handed again what it may have had: that is a dead letter, and the only one.
    let letters = tree.site.json(&["inbox", "--dead"])["letters"].as_array().unwrap().clone();
    let dead: Vec<_> = letters.iter().map(|letter| (&letter["kind"], &letter["why"])).collect();
    assert_eq!(dead, [(&json!("lost"), &json!("unknown"))], "{letters:?}");
    assert_eq!(tree.exec("forgetful", &["seen"]), "0");

    tree.site.ok(&["cron", "rm", "cron-1"]);
    collapse(&tree, leo);
    for daemon in ["counter", "forgetful"] {
        tree.site.ok(&["kill", daemon, "--grace", "1s"]);
        tree.site.skep(&["wait", daemon, "--timeout", "10s"]);
    }
    assert_eq!((os_processes(), folders(&tree)), (vec![], vec![]));
    tree.ends_clean();
}
