//! The operator's own policy, which holds in every project and which no project can widen.

use crate::common::{Site, text};
use serde_json::Value;

const DENY: &str = "capabilities:\n  - name: no-secrets\n    match: { syscall: [fs.read, fs.write], path_glob: \"*.secret\" }\n    action: deny\n    reason: not in this house\n  - name: ask-docs\n    match: { syscall: fs.write, path_glob: docs/** }\n    action: require_review\n";

fn site() -> Site {
    let site = Site::new(&[("a.txt", "a\n"), ("x.secret", "hush\n")]);
    site.ok(&["init"]);
    site
}

fn call(site: &Site, arguments: &[&str]) -> Value {
    let arguments: Vec<&str> = ["call"].iter().chain(arguments).chain(&["--json"]).copied().collect();
    let output = site.skep(&arguments);
    serde_json::from_slice(&output.stdout)
        .or_else(|_| serde_json::from_slice(&output.stderr))
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
}

#[test]
fn it_is_a_proposal_until_it_is_trusted_and_then_holds_in_every_project() {
    let site = site();
    // A home without a policy of its own bounds nothing; a project without rules is another matter.
    assert!(!site.ok(&["policy", "check"]).contains("no rules"));
    let empty = site.folder.path().join("empty.yaml");
    std::fs::write(&empty, "").unwrap();
    assert!(site.ok(&["policy", "check", empty.to_str().unwrap()]).contains("there are no rules, so every call is denied"));
    site.ok(&["call", "fs.read", "path=x.secret"]);
    let checked = text(&site.skep(&["policy", "check"]));
    assert!(!checked.contains("there are no rules"), "a file that is not there denies nothing: {checked}");
    std::fs::write(site.home().join("policy.yaml"), DENY).unwrap();
    // Not yet in force, and every command says so.
    assert!(text(&site.skep(&["call", "fs.read", "path=x.secret"])).contains("hush"));
    assert!(text(&site.skep(&["ps"])).contains("policy.yaml in $SKEP_HOME was changed and is not in force"));
    let plan = site.json(&["trust", "--home", "--yes"]);
    assert_eq!((&plan["changed"], &plan["version"]), (&true.into(), &1.into()), "{plan}");
    assert!(!text(&site.skep(&["ps"])).contains("is not in force"));
    let denied = call(&site, &["fs.read", "path=x.secret"]);
    assert!(denied.to_string().contains("home:no-secrets") || denied.to_string().contains("not in this house"), "{denied}");
    site.ok(&["call", "fs.read", "path=a.txt"]);
    let updated = site.records(&["--kind", "policy.home_updated"]);
    assert_eq!((updated.len(), &updated[0]["payload"]["version"]), (1, &1.into()));
    assert!(site.ok(&["policy", "log", "--home"]).contains('1'));
    // It outlives the kernel, and the file's own change is a proposal again.
    site.ok(&["kernel", "restart"]);
    assert!(call(&site, &["fs.read", "path=x.secret"]).to_string().contains("denied"));
    std::fs::remove_file(site.home().join("policy.yaml")).unwrap();
    assert!(call(&site, &["fs.read", "path=x.secret"]).to_string().contains("denied"), "still in force");
    site.ok(&["trust", "--home", "--yes"]);
    assert!(site.ok(&["call", "fs.read", "path=x.secret"]).contains("hush"));
}

#[test]
fn no_project_widens_it_and_explain_names_it() {
    let site = site();
    std::fs::write(site.home().join("policy.yaml"), DENY).unwrap();
    site.ok(&["trust", "--home", "--yes"]);
    // The project allows everything there is; that is no more than nothing against a deny.
    site.write(".skep/policy.yaml", "capabilities:\n  - name: all\n    match: { syscall: \"*\" }\n    action: allow\n");
    site.trust();
    let explained = site.json(&["policy", "explain", "fs.read", "path=x.secret"]);
    assert_eq!(explained["outcome"], "deny", "{explained}");
    let layers: Vec<(&str, &str)> = explained["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| (rule["layer"].as_str().unwrap(), rule["said"].as_str().unwrap()))
        .collect();
    assert!(layers.contains(&("home", "deny")) && layers.contains(&("yaml", "allow")), "{layers:?}");
    assert_eq!(site.json(&["policy", "explain", "fs.write", "path=docs/a.md", "content=x"])["outcome"], "review");
    assert_eq!(site.json(&["policy", "explain", "fs.write", "path=src/a.rs", "content=x"])["outcome"], "allow");
    // A room does not show what it denies to read.
    let shown = text(&site.skep(&["sandbox", "run", "--", "cat", "a.txt", "x.secret"]));
    assert!(shown.contains("a\n") && !shown.contains("hush"), "{shown}");
    // A token is no way around it.
    let token = site.json(&["token", "issue", "fs.write", "--paths", "new.secret", "docs/new.md", "--max-ops", "3"]);
    let token = token["token"].as_str().unwrap_or_else(|| panic!("{token}"));
    let used = text(&site.skep(&["call", "fs.write", "path=new.secret", "content=x", "--token", token]));
    assert!(used.contains("home:no-secrets") && used.contains("skep trust --home"), "{used}");
    let asked = site.skep(&["call", "fs.write", "path=docs/new.md", "content=x", "--token", token]);
    assert!(!asked.status.success() && text(&asked).contains("review"), "{}", text(&asked));
}

#[test]
fn an_allow_in_it_is_the_bound_of_what_projects_may_allow() {
    let site = site();
    let bound = "capabilities:\n  - name: reading\n    match: { syscall: [fs.read, fs.list], path_glob: \"**\" }\n    action: allow\n";
    std::fs::write(site.home().join("policy.yaml"), bound).unwrap();
    site.ok(&["trust", "--home", "--yes"]);
    assert!(site.ok(&["call", "fs.read", "path=a.txt"]).contains('a'));
    let denied = text(&site.skep(&["call", "fs.write", "path=b.txt", "content=x"]));
    assert!(denied.contains("policy.yaml in $SKEP_HOME allows no such call"), "{denied}");
    assert_eq!(site.json(&["policy", "explain", "fs.write", "path=b.txt", "content=x"])["outcome"], "deny");
    // Its allow alone lets nothing pass: the project must allow it too.
    site.write(
        ".skep/policy.yaml",
        "capabilities:\n  - name: lists\n    match: { syscall: fs.list, path_glob: \"**\" }\n    action: allow\n",
    );
    site.trust();
    assert_eq!(site.json(&["policy", "explain", "fs.read", "path=a.txt"])["outcome"], "deny");
    assert_eq!(site.json(&["policy", "explain", "fs.list", "path=."])["outcome"], "allow");
}

#[test]
fn a_mistake_in_it_is_told_by_check_and_keeps_it_out() {
    let site = site();
    std::fs::write(site.home().join("policy.yaml"), "capabilities:\n  - name: x\n    mach: { syscall: fs.read }\n    action: deny\n")
        .unwrap();
    let checked = text(&site.skep(&["policy", "check"]));
    assert!(checked.contains("policy.yaml:3") && checked.contains("mach"), "{checked}");
    assert!(!site.skep(&["trust", "--home", "--yes"]).status.success());
    assert_eq!(site.count("policy.home_updated"), 0);
    site.ok(&["call", "fs.read", "path=a.txt"]);
}

#[test]
fn another_phrase_than_the_one_it_needs_is_refused() {
    let site = site();
    (0..6).for_each(|_| drop(site.ok(&["call", "fs.read", "path=a.txt"])));
    std::fs::write(site.home().join("policy.yaml"), DENY.replace("*.secret", "*.txt")).unwrap();
    for wrong in ["break 5 calls", ""] {
        let no = site.fails(11, &["trust", "--home", "--phrase", wrong]);
        assert!(no.contains("nothing changed") && no.contains("--phrase 'break 6 calls'"), "{no}");
    }
    assert_eq!(site.count("policy.home_updated"), 0);
    site.ok(&["trust", "--home", "--phrase", "break 6 calls"]);
    assert_eq!(site.count("policy.home_updated"), 1);
}
