//! Repositories by their slug, and work trees by their branch: from anywhere, made where there is none, and removed.

use crate::common::provider::eventually;
use crate::common::{Site, text};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const OPEN: &str = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow, reason: a test}\n";
const QUICK: &str = "say quick\ndone quick\n";

fn site() -> Site {
    let site = Site::new(&[(".skep/policy.yaml", OPEN), ("a.txt", "one\n")]);
    site.git(&["remote", "add", "origin", "git@github.com:ehmpathy/myrepo.git"]);
    site.trust();
    site
}

fn run_in(site: &Site, folder: &Path, arguments: &[&str]) -> Output {
    site.command(arguments).current_dir(folder).output().unwrap()
}

#[track_caller]
fn ok_in(site: &Site, folder: &Path, arguments: &[&str]) -> String {
    let output = run_in(site, folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    text(&output)
}

#[track_caller]
fn fails_in(site: &Site, folder: &Path, code: i32, arguments: &[&str]) -> String {
    let output = run_in(site, folder, arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output));
    text(&output)
}

fn branch_of(folder: &Path) -> String {
    let output = Command::new("git").arg("-C").arg(folder).args(["branch", "--show-current"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn work_tree(site: &Site, name: &str) -> PathBuf {
    site.home().canonicalize().unwrap().join("worktrees/ehmpathy/myrepo").join(name)
}

#[test]
fn a_branch_is_worked_on_from_elsewhere() {
    let site = site();
    let quick = site.script(QUICK);
    site.ok(&["act", "here", "--brain", &quick]);
    let tree = work_tree(&site, "feat-auth");
    let said = ok_in(&site, &site.project(), &["act", "there", "--zone", "@feat/auth", "--brain", &quick]);
    assert!(said.contains(&format!("✓ work tree @feat/auth → {}", tree.display())), "{said}");
    assert!(said.contains("✓ task-2 → worker.1 (@feat/auth)"), "{said}");
    assert_eq!((branch_of(&site.project()), branch_of(&tree)), ("main".to_owned(), "feat/auth".to_owned()));
    // It is there now, and so is its worker.
    let said = ok_in(&site, &site.project(), &["act", "again", "--zone", "@feat/auth", "--brain", &quick]);
    assert!(!said.contains("work tree") && said.contains("→ worker.1 (@feat/auth)"), "{said}");
    let tasks = || site.json(&["list", "tasks", "--zone", "@feat/auth"])["tasks"].as_array().unwrap().clone();
    eventually("both are done", || tasks().iter().all(|task| task["state"] == "done"));
    let ids: Vec<String> = tasks().iter().map(|task| task["task"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, ["task-2", "task-3"]);
    // By where one is: a feature branch is itself, main is the whole repository, and outside there are all.
    let (outside, own) = (site.folder.path(), ok_in(&site, &tree, &["status"]));
    assert!(own.contains("repository @feat/auth (local)") && !own.contains("@main"), "{own}");
    let whole = site.ok(&["status"]);
    for part in ["repository ehmpathy/myrepo\n├─ work trees  2\n", "repository @main (local)", "repository @feat/auth (local)"] {
        assert!(whole.contains(part), "{whole}");
    }
    let all = ok_in(&site, outside, &["status"]);
    assert!(all.contains("└─ ehmpathy/myrepo  2 work trees  ○ idle"), "{all}");
    // By explicit words, from anywhere.
    assert!(!site.ok(&["status", "zone"]).contains("@feat/auth"));
    assert!(site.ok(&["status", "--zone", "@feat/auth"]).contains("@feat/auth"));
    assert!(site.ok(&["status", "orchestrator"]).contains("2 work trees"));
    assert!(ok_in(&site, outside, &["status", "--site", "ehmpathy/myrepo"]).contains("work trees  2"));
    let zones = site.ok(&["list", "zones"]);
    assert!(zones.contains("├─ @main") && zones.contains("└─ @feat/auth") && zones.contains("○ worker.1"), "{zones}");
    assert_eq!(zones, ok_in(&site, outside, &["list", "zones", "--site", "myrepo"]));
    assert!(site.ok(&["list", "sites"]).contains("ehmpathy/myrepo  2 work trees"));
    let crew = site.ok(&["list", "crews", "--zone", "@feat/auth"]);
    assert!(crew.contains("○ worker.1") && crew.contains("script") && crew.contains("0 tasks"), "{crew}");
    let answer = run_in(&site, outside, &["ask", "what?", "--zone", "ehmpathy/myrepo@feat/auth", "--await", "--brain", &quick]);
    assert_eq!((answer.status.code(), answer.stdout.as_slice()), (Some(0), b"quick\n".as_slice()), "{}", text(&answer));
    assert!(ok_in(&site, outside, &["act", "x", "--zone", "myrepo@main", "--brain", &quick]).contains("(@main)"));
    assert!(ok_in(&site, outside, &["act", "x", "--site", "myrepo", "--brain", &quick]).contains("(@main)"));
    assert!(site.ok(&["status", "--who", "worker.1", "--zone", "@feat/auth"]).contains("worker.1 (@feat/auth)\n"));
    assert_eq!(site.count("site.registered"), 2);
}

#[test]
fn what_is_no_work_tree_says_what_would_be() {
    let site = site();
    let (quick, outside) = (site.script(QUICK), site.folder.path().to_owned());
    let told = site.fails(2, &["act", "x", "--zone", "nonsense", "--brain", &quick]);
    assert!(told.contains("`@branch`, `repo@branch`, `org/repo@branch`, or a folder"), "{told}");
    let told = site.fails(5, &["act", "x", "--zone", "other/x@main", "--brain", &quick]);
    assert!(told.contains("no repository `other/x` is registered") && told.contains("there are ehmpathy/myrepo"), "{told}");
    assert!(told.contains("`skep init`"), "{told}");
    let output = site.skep(&["status", "--site", "other/x", "--json"]);
    assert_eq!(serde_json::from_slice::<Value>(&output.stderr).unwrap()["error"]["code"], "site_not_found");
    let told = fails_in(&site, &outside, 5, &["act", "x", "--brain", &quick]);
    assert!(told.contains("is not in a git repository") && told.contains("--zone org/repo@branch"), "{told}");
    let told = site.fails(5, &["status", "--zone", "@absent"]);
    assert!(told.contains("has no work tree of `absent`") && told.contains("--zone ehmpathy/myrepo@absent"), "{told}");
    site.fails(2, &["status", "--zone", "ehmpathy/myrepo@main", "--site", "another/one"]);
    assert!(!site.home().join("worktrees").exists(), "nothing was made");
    // What is right beside all that works.
    site.ok(&["act", "x", "--zone", "@main", "--brain", &quick]);
}

#[test]
fn every_repository_has_a_slug_of_its_own() {
    let site = Site::new(&[]);
    let quick = site.script(QUICK);
    site.ok(&["act", "x", "--brain", &quick]);
    for name in ["one", "two", "project"] {
        let folder = site.folder.path().join("more").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let git = |arguments: &[&str]| assert!(Command::new("git").arg("-C").arg(&folder).args(arguments).status().unwrap().success());
        git(&["init", "-q", "-b", "main"]);
        if name != "project" {
            git(&["remote", "add", "origin", "https://github.com/a/b.git"]);
        }
        ok_in(&site, &folder, &["act", "x", "--brain", &quick]);
    }
    let shown = site.ok(&["list", "sites"]);
    let slugs: Vec<&str> = shown.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(slugs, ["a/b", "a/b.2", "local/project", "local/project.2"], "{shown}");
}

#[test]
fn a_new_work_tree_has_the_policy_that_its_repository_has() {
    let site = Site::new(&[]);
    let quick = site.script(QUICK);
    // Files that nobody committed.
    site.ok(&["act", "x", "--brain", &quick]);
    let rules = format!("{OPEN}- {{name: own, match: {{syscall: fs.list}}, action: deny, reason: own}}\n");
    site.write(".skep/policy.yaml", &rules);
    site.trust();
    let said = ok_in(&site, &site.project(), &["act", "there", "--zone", "@one", "--brain", &quick]);
    assert!(said.contains("✓ init @one → worker.1"), "{said}");
    let tree = site.home().join("worktrees/local/project/one");
    assert_eq!(std::fs::read_to_string(tree.join(".skep/policy.yaml")).unwrap(), rules);
    // The same files in the branch are what the person has seen; others are not.
    site.git(&["add", "-A"]);
    site.git(&["commit", "-q", "-m", "the same"]);
    ok_in(&site, &site.project(), &["act", "there", "--zone", "@two", "--brain", &quick]);
    site.git(&["checkout", "-q", "-b", "three"]);
    site.write(".skep/policy.yaml", OPEN);
    site.git(&["commit", "-qam", "another"]);
    site.git(&["checkout", "-q", "main"]);
    let told = site.fails(11, &["act", "there", "--zone", "@three", "--brain", &quick]);
    assert!(told.contains("skep trust"), "{told}");
}

#[test]
fn a_work_tree_that_is_removed_takes_nothing_with_it_unasked() {
    let site = site();
    let quick = site.script(QUICK);
    let holds = format!("script:{}", site.folder.path().join("holds").display());
    std::fs::write(site.folder.path().join("holds"), "call shell.run command=[\"sleep\", \"1000\"]\ndone\n").unwrap();
    site.ok(&["act", "here", "--brain", &quick]);
    ok_in(&site, &site.project(), &["act", "there", "--zone", "@feat", "--brain", &holds]);
    let tree = work_tree(&site, "feat");
    eventually("it sleeps", || site.count("call.admitted") == 1);
    let told = site.fails(9, &["zone", "del", "--zone", "@feat", "--yes"]);
    assert!(told.contains("task-2 is not over"), "{told}");
    std::fs::write(tree.join("a.txt"), "mine\n").unwrap();
    let told = site.fails(9, &["zone", "del", "--zone", "@feat", "--yes"]);
    assert!(told.contains("has changes that are not committed") && told.contains("a.txt"), "{told}");
    assert!(tree.exists() && site.json(&["list", "tasks", "--zone", "@feat"])["tasks"][0]["state"] == "running");
    let said = site.ok(&["zone", "del", "--zone", "@feat", "--force", "--yes"]);
    assert!(said.contains("✓ @feat removed: "), "{said}");
    assert!(!tree.exists());
    assert!(!site.ok(&["list", "zones"]).contains("@feat"));
    assert!(site.ok(&["list", "tasks", "--all"]).contains("task-1") && !site.ok(&["list", "tasks", "--all"]).contains("task-2"));
    // The last one unregisters its repository; a work tree of the person's own stays.
    let said = site.ok(&["zone", "del", "--yes"]);
    assert!(said.contains("✓ @main forgotten: ") && said.contains("ehmpathy/myrepo is not registered any more"), "{said}");
    assert_eq!(site.read("a.txt"), "one\n");
    assert_eq!(site.count("zone.closed"), 2);
    site.fails(5, &["status", "--site", "ehmpathy/myrepo"]);
    // It can begin again, as somebody new.
    site.trust();
    assert!(site.ok(&["act", "anew", "--brain", &quick]).contains("→ worker.1 (@main)"));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// What git ignores is not committed either: it goes only where a build makes it again, or the person says so.
#[test]
fn ignored_files_of_a_work_tree_are_a_reason_to_keep_it() {
    let site = site();
    site.write(".gitignore", "secrets.env\nnode_modules/\ntarget/\n*.pyc\n");
    site.git(&["add", "-A"]);
    site.git(&["commit", "-q", "-m", "ignores"]);
    ok_in(&site, &site.project(), &["act", "there", "--zone", "@feat", "--brain", &site.script(QUICK), "--await"]);
    let tree = work_tree(&site, "feat");
    for (file, text) in [("node_modules/x/index.js", "x"), ("a.pyc", "x"), ("secrets.env", "KEY=1\n"), ("target/notes", "mine\n")] {
        std::fs::create_dir_all(tree.join(file).parent().unwrap()).unwrap();
        std::fs::write(tree.join(file), text).unwrap();
    }
    let told = site.fails(9, &["zone", "del", "--zone", "@feat", "--yes"]);
    assert!(told.contains("files that git ignores") && told.contains("secrets.env, target/") && !told.contains("node_modules"), "{told}");
    assert!(tree.join("secrets.env").exists());
    // A setting that hides files from the person hides none from this.
    std::fs::write(tree.join("new.txt"), "new\n").unwrap();
    site.git(&["config", "status.showUntrackedFiles", "no"]);
    let told = site.fails(9, &["zone", "del", "--zone", "@feat", "--yes"]);
    assert!(told.contains("not committed") && told.contains("new.txt"), "{told}");
    // Forced, it says what goes: before, where it asks, and after.
    let asked = site.fails(2, &["zone", "del", "--zone", "@feat", "--force"]);
    assert!(tree.exists() && asked.contains("destroy files that are not committed (new.txt)") && asked.contains("secrets.env"), "{asked}");
    let said = site.ok(&["zone", "del", "--zone", "@feat", "--force", "--yes"]);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("files that are not committed (new.txt), ignored files (secrets.env, target/)"), "{said}");
    assert!(!tree.exists());
    // The control: what is made again is no reason.
    ok_in(&site, &site.project(), &["act", "again", "--zone", "@feat", "--brain", &site.script(QUICK), "--await"]);
    std::fs::create_dir_all(tree.join("node_modules/x")).unwrap();
    std::fs::write(tree.join("node_modules/x/index.js"), "x").unwrap();
    std::fs::create_dir_all(tree.join("target")).unwrap();
    std::fs::write(tree.join("target/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55").unwrap();
    site.ok(&["zone", "del", "--zone", "@feat", "--yes"]);
    assert!(!tree.exists());
}
