//! The built-in brain directs agents, and a kernel that dies in the middle makes nothing of it happen twice.

use crate::common::Site;
use crate::common::provider::eventually;
use crate::grpc::python_packages;
use crate::native::site;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const SHOP: &str = "\
from skep import Agent, Task, TaskResult


class PriceChecker(Agent):
    async def handle_task(self, task: Task) -> TaskResult:
        return TaskResult(output=f'{task.description}: 42')
";

/// What it asks for first: all at once, in one answer.
const FIRST: &str = "on \"the shop\"\n\
    \x20 call agent_spawn {\"name\": \"price\", \"role\": \"worker\", \"runtime\": \"python\", \"image\": \"shop:PriceChecker\"}\n\
    \x20 call artifact_store {\"key\": \"plan\", \"content\": \"ask for prices\"}\n\
    \x20 call message_send {\"to_queue\": \"news\", \"kind\": \"plan\", \"body\": \"it begins\"}\n\
    \x20 call escalate {\"issue\": \"no shop is open\", \"severity\": \"info\"}\n\
    \x20 call agent_list {}\nthen\n";

/// A kernel whose agents find their modules.
fn start(site: &Site) {
    let path = format!("{}:{}", python_packages().display(), site.project().display());
    let started = site.command(&["kernel", "start"]).env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    assert!(started.status.success(), "{}", crate::common::text(&started));
}

/// Waits until the model was asked for its `n`th answer.
fn await_request(site: &Site, n: usize) {
    let asked = || site.records(&["--kind", "call.admitted"]).iter().filter(|record| record["payload"]["tool"] == "model.request").count();
    eventually("the model is asked", || asked() >= n);
}

/// Kills the kernel, and starts the next one on another script.
fn die_and_go_on(site: &Site, answers: &Path, script: &str) {
    let pid = site.json(&["kernel", "status"])["os_pid"].as_u64().unwrap().to_string();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    // Nobody may be there who buries it.
    let is_gone =
        |stat: std::io::Result<String>| stat.map_or(true, |stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')));
    eventually("the kernel is gone", || is_gone(std::fs::read_to_string(format!("/proc/{pid}/stat"))));
    std::fs::write(answers, script).unwrap();
    start(site);
}

fn payloads(site: &Site, kind: &str) -> Vec<Value> {
    site.records(&["--kind", kind]).into_iter().map(|record| record["payload"].clone()).collect()
}

#[test]
fn the_built_in_brain_directs_agents_and_a_crash_repeats_nothing() {
    let (site, answers) = site(&format!("{FIRST}  delay 10m\n  say Never.\n"), "", &[("shop.py", SHOP)]);
    site.ok(&["kernel", "stop"]);
    start(&site);
    let task = site.json(&["act", "ask the shop", "--brain", "native", "--agents"])["task"].as_str().unwrap().to_owned();
    await_request(&site, 2);
    let spawned = || payloads(&site, "proc.spawned").into_iter().filter(|spawned| spawned["name"] == "price").collect::<Vec<_>>();
    let pid = spawned()[0]["pid"].as_u64().unwrap();

    // The next kernel's brain wants the same calls again, and hears what came of them.
    let execute = format!("    call agent_execute {{\"pid\": {pid}, \"task\": \"kettle\"}}\n");
    let second = format!("{FIRST}  on result error\n    say One of them failed.\n  else\n{execute}then\n");
    die_and_go_on(&site, &answers, &format!("{second}  delay 10m\n  say Never.\n"));
    await_request(&site, 4);
    let third = "  on result contains \"kettle: 42\"\n    say It costs 42.\n  else\n    say Something else came of it.\n";
    die_and_go_on(&site, &answers, &format!("{second}{third}"));
    eventually("the task ends", || !site.task(&task)["summary"].is_null());
    assert_eq!(site.task(&task)["summary"], "It costs 42.", "{}", site.task(&task));

    let count = |kind: &str| payloads(&site, kind).len();
    assert_eq!((spawned().len(), count("artifact.stored"), count("message.sent"), count("escalation.raised")), (1, 1, 1, 1));
    let queued = payloads(&site, "task.queued").into_iter().filter(|queued| queued["pid"] == pid).count();
    assert_eq!(queued, 1, "it was asked for the price once");
    // They are calls of the brain's own process, in its task, by the names that policies know.
    let made = site.records(&["--kind", "call.admitted", "--task", &task]);
    for tool in ["proc.spawn", "artifact.store", "message.send", "escalation.raise", "proc.execute"] {
        assert_eq!(made.iter().filter(|record| record["payload"]["tool"] == tool).count(), 1, "{tool}");
    }
    let said = site.fails(9, &["replay", &task]);
    assert!(said.contains("what agents did cannot be replayed"), "{said}");
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
}

const HELPER: &str = "on \"helper\"\n  call agent_spawn {\"name\": \"helper\"}\nthen\n  on result contains \"pid\"\n    say It is there.\n  else\n    say It is not.\n";

#[test]
fn a_rule_that_asks_about_a_spawn_parks_the_built_in_brain() {
    let (site, _) = site(HELPER, "", &[]);
    let spawned = || payloads(&site, "proc.spawned").iter().filter(|spawned| spawned["name"] == "helper").count();
    let rules = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow}\n- {name: ask, match: {syscall: proc.spawn}, action: require_review}\n";
    site.write(".skep/policy.yaml", rules);
    site.trust();
    let task = site.json(&["ask", "have a helper", "--brain", "native", "--agents"])["task"].as_str().unwrap().to_owned();
    // In mode ask it is not offered what changes something.
    eventually("it ends", || !site.task(&task)["summary"].is_null());
    assert_eq!(spawned(), 0);
    let task = site.json(&["act", "have a helper", "--brain", "native", "--agents"])["task"].as_str().unwrap().to_owned();
    eventually("it waits for a person", || !site.task(&task)["review"].is_null());
    assert_eq!(spawned(), 0);
    let review = site.task(&task)["review"].as_str().unwrap().to_owned();
    site.ok(&["review", "allow", &review]);
    eventually("it ends", || !site.task(&task)["summary"].is_null());
    assert_eq!((&site.task(&task)["summary"], spawned()), (&"It is there.".into(), 1));
}

const LOOKS: &str = "on \"look\"\n  call agent_list {}\n  call agent_list {}\n  call agent_list {}\nthen\n  on result contains \"no calls are left\"\n    say One was refused.\n  else\n    say I saw all of it.\n";

#[test]
fn the_tools_of_the_tree_cost_nothing_where_they_are_not_asked_for_and_looks_count_as_calls() {
    let (site, _) = site(LOOKS, "", &[]);
    let act = |arguments: &[&str]| site.skep(&[&["act", "look around", "--brain", "native", "--await"], arguments].concat());
    let asked = || payloads(&site, "model.used").into_iter().map(|used| used["figures"]["input"].as_u64().unwrap()).collect::<Vec<_>>();
    let said = |output: &std::process::Output| crate::common::text(output);
    // One request, three looks, one request.
    let enough = act(&["--agents", "--max-calls", "5"]);
    assert!(enough.status.success() && said(&enough).contains("I saw all of it."), "{}", said(&enough));
    let counted: u64 = payloads(&site, "records.dropped").iter().map(|one| one["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, 3, "{:?}", payloads(&site, "records.dropped"));
    let few = act(&["--agents", "--max-calls", "4"]);
    assert!(!few.status.success() && said(&few).contains("no calls are left"), "{}", said(&few));
    let fewer = act(&["--agents", "--max-calls", "3"]);
    assert!(!fewer.status.success() && said(&fewer).contains("no calls are left"), "{}", said(&fewer));
    let plain = act(&[]);
    assert!(!plain.status.success() && said(&plain).contains("there is no tool `agent_list`"), "{}", said(&plain));
    // A list that names one of them: that one is offered.
    let listed = act(&["--tools", "fs.*,proc.info"]);
    assert!(listed.status.success() && said(&listed).contains("I saw all of it."), "{}", said(&listed));
    let (all, one) = (asked()[0], *asked().last().unwrap());
    assert!(one + 1_000 < all, "{one} tokens and not {all}");
}
