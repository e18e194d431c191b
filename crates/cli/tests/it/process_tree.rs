//! The process tree as a person uses it, with processes that run nothing.

use crate::common::{Site, text};
use crate::tree_site::TreeSite;
use std::io::Write;
use std::process::Stdio;

fn says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "`{part}` is not in:\n{said}");
    }
}

/// A queen with two workers; gives their pids.
fn grown() -> (Site, [u64; 3]) {
    let site = Site::new(&[]);
    let spawn = |arguments: &[&str]| site.json(&[&["spawn"], arguments].concat())["pid"].as_u64().unwrap();
    let queen = spawn(&["queen", "--role", "daemon", "--tier", "tactical"]);
    let first = spawn(&["first", "--role", "worker", "--parent", "queen", "--tokens", "5000"]);
    let second = spawn(&["second", "--role", "worker", "--parent", "queen"]);
    (site, [queen, first, second])
}

#[test]
fn a_tree_grows_shows_and_ends() {
    let (site, [queen, first, second]) = grown();
    let table = site.ok(&["ps"]);
    says(&table, &["PID  PPID  USER", "ROLE", "COG", "MODEL", "NODE", "STATE", "CTX", "TOKENS", "COMMAND", "daemon", "tact", "queen"]);
    says(&site.ok(&["ps", "--tree"]), &["○ kernel  pid 1", "○ queen", "   ├─ ○ first", "   └─ ○ second"]);
    let all = site.json(&["ps"])["processes"].clone();
    let found = all.as_array().unwrap().iter().find(|process| process["pid"] == first).unwrap();
    assert_eq!((found["parent"].as_u64(), &found["program"]["role"]), (Some(queen), &serde_json::json!("worker")));
    says(&site.ok(&["info", "first"]), &["first", "worker, operational", "nothing: it is virtual", "0 of 5,000"]);
    assert_eq!(site.json(&["info", &second.to_string()])["name"], "second");
    says(&site.ok(&["nice", "first", "5"]), &["✓ first has priority 5"]);
    says(&site.ok(&["signal", "first", "STOP"]), &["✓ first has the signal"]);
    assert_eq!(site.json(&["info", "first"])["state"], "paused");
    site.ok(&["signal", "first", "CONT"]);
    assert_eq!(site.json(&["info", "first"])["state"], "idle");

    says(&site.ok(&["kill", "second"]), &["✓ second ended"]);
    let output = site.skep(&["wait", "second", "--timeout", "5s"]);
    says(&text(&output), &["second ended"]);
    assert_eq!(site.json(&["kill", "queen"])["ended"], serde_json::json!([first, queen]), "those without children first");
    site.ok(&["kernel", "restart"]);
    assert_eq!(site.json(&["info", &queen.to_string()])["state"], "dead", "an end survives a restart");
}

#[test]
fn what_is_refused_says_what_and_why_and_how_else() {
    let (site, _) = grown();
    let refused: &[(i32, &[&str], &str)] = &[
        (5, &["info", "nobody"], "there is no process `nobody`"),
        (5, &["kill", "999"], "999"),
        (9, &["exec", "first", "do it"], "first"),
        (3, &["spawn", "x", "--role", "task", "--tier", "strategic"], "x"),
        (13, &["wait", "first", "--timeout", "10ms"], "first"),
        (2, &["cron", "add", "x", "99 * * * *"], "99 * * * *"),
        (5, &["artifact", "show", "nothing"], "nothing"),
        (5, &["cron", "rm", "cron-9"], "cron-9"),
        (5, &["artifact", "rm", "art-9"], "there is no art-9"),
        (2, &["spawn", "King"], "`King` is the name of the kernel or the operator"),
        (2, &["spawn", " operator"], "is the name of the kernel or the operator"),
    ];
    for (code, arguments, what) in refused {
        let said = site.fails(*code, arguments);
        says(&said, &["✗ ", what, "↳ why", "↳ fix"]);
        let mut json = arguments.to_vec();
        json.push("--json");
        let error: serde_json::Value = serde_json::from_str(&site.fails(*code, &json)).unwrap();
        assert!(error["error"]["why"].is_string() && error["error"]["fix"].is_string(), "{arguments:?}: {error}");
    }
}

#[test]
fn messages_and_artifacts_pass_between_people_and_processes() {
    let (site, _) = grown();
    says(&site.ok(&["send", "first", "prices changed", "--kind", "news", "--priority", "high"]), &["✓ msg-", "is on its way"]);
    says(&site.ok(&["inbox", "first"]), &["news  from operator", "high", "  prices changed"]);
    assert_eq!(site.json(&["inbox", "first"])["messages"][0]["kind"], "news");
    says(&site.ok(&["inbox"]), &["no message waits"]);
    let mut piped =
        site.command(&["send", "--queue", "results", "--ttl", "10m"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(b"by pipe").unwrap();
    assert!(piped.wait().unwrap().success());
    site.ok(&["kill", "first"]);
    says(&site.ok(&["inbox", "--dead"]), &["ended", "news", "operator to process"]);

    site.write("plan.md", "# the plan\n");
    says(
        &site.ok(&["artifact", "store", "plan", "plan.md", "--visibility", "global", "--type", "text/markdown"]),
        &["✓ plan is stored  art-1"],
    );
    assert_eq!(site.ok(&["artifact", "show", "plan"]), "# the plan\n");
    assert_eq!(site.ok(&["artifact", "show", "art-1"]), "# the plan\n");
    says(&site.ok(&["artifact", "list"]), &["art-1", "plan", "version 1", "global", "11 B", "text/markdown"]);
    site.ok(&["artifact", "rm", "art-1"]);
    says(&site.ok(&["artifact", "list"]), &["nothing is stored"]);
}

#[test]
fn what_is_planned_survives_a_restart() {
    let (site, [queen, ..]) = grown();
    let add =
        ["cron", "add", "nightly", "0 3 * * mon-fri", "report", "--target", "queen", "--action", "message", "--timezone", "Europe/Berlin"];
    says(&site.ok(&add), &["✓ cron-1 is nightly"]);
    site.ok(&["kernel", "restart"]);
    let entry = site.json(&["cron", "list"])["entries"][0].clone();
    assert_eq!((&entry["id"], entry["spec"]["target"].as_u64()), (&serde_json::json!("cron-1"), Some(queen)));
    says(&site.ok(&["cron", "list"]), &["ID", "NEXT", "nightly", "0 3 * * mon-fri", "has not run"]);
    says(&site.ok(&["cron", "run", "cron-1"]), &["✓ cron-1 runs"]);
    crate::common::provider::eventually("its message came", || site.ok(&["inbox", "queen"]).contains("cron_task"));
    assert_eq!(site.json(&["cron", "next", "0 0 29 2 *", "--timezone", "UTC", "--count", "2"])["at_ms"].as_array().unwrap().len(), 2);
    says(&site.ok(&["cron", "rm", "cron-1"]), &["✓ cron-1 is removed"]);
    says(&site.ok(&["cron", "list"]), &["nothing is planned"]);
}

#[test]
fn a_python_agent_has_the_packages_of_its_environment() {
    let tree = TreeSite::new("{}\n");
    let folder = tree.site.folder.path().join("shop");
    std::fs::create_dir(&folder).unwrap();
    let agent = "from skep import Agent, Task, TaskResult\n\n\nclass Shop(Agent):\n    async def handle_task(self, task: Task) -> TaskResult:\n        \
                 import only_here\n        return TaskResult(output=only_here.WORD)\n";
    std::fs::write(folder.join("shop.py"), agent).unwrap();
    let spawn = |name: &str, active: Option<&std::path::Path>| {
        let mut command = tree.site.command(&["spawn", name, "--python", "shop:Shop", "--folder", folder.to_str().unwrap()]);
        command.env_remove("VIRTUAL_ENV");
        active.map(|active| command.env("VIRTUAL_ENV", active));
        let done = command.output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    let environment = |at: &std::path::Path, word: &str| {
        let made = std::process::Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(at).status().unwrap();
        assert!(made.success());
        let library = std::fs::read_dir(at.join("lib")).unwrap().next().unwrap().unwrap().path();
        std::fs::write(library.join("site-packages/only_here.py"), format!("WORD = '{word}'\n")).unwrap();
    };
    spawn("none", None);
    let refused = tree.site.command(&["exec", "none", "which"]).output().unwrap();
    assert!(format!("{refused:?}").contains("only_here"), "control: {refused:?}");
    let active = tree.site.folder.path().join("active");
    environment(&active, "of the active one");
    spawn("active", Some(&active));
    assert_eq!(tree.exec("active", &["which"]), "of the active one");
    environment(&folder.join(".venv"), "of the folder");
    spawn("beside", None);
    assert_eq!(tree.exec("beside", &["which"]), "of the folder");
}
