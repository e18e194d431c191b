//! Merges that are sent back, taken in part, committed or made anew, and several tasks in one repository.

use crate::common::provider::eventually;
use crate::common::{HOLDS, Site, script, text};
use serde_json::Value;
use std::process::Command;

fn site() -> Site {
    let site = Site::new(&[(".skep/policy.yaml", HOLDS), ("a.txt", "one\ntwo\nthree\n"), ("b.txt", "b\n"), ("mine.txt", "mine\n")]);
    site.git(&["config", "user.name", "Ann"]);
    site.git(&["config", "user.email", "ann@x.y"]);
    site.trust();
    site
}

/// A task whose changes wait for their merge.
fn proposed(site: &Site, id: &str, text: &str) {
    site.ok(&["act", "change it", "--brain", &script(site, id, text)]);
    eventually("it waits", || site.is(id, "parked"));
}

fn git(site: &Site, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(site.project()).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn a_merge_is_sent_back_with_a_comment() {
    let site = site();
    let script = "call fs.write path=b.txt content=\"first\\n\"\ndone one\ncall fs.write path=b.txt content=\"second\\n\"\ndone two\n";
    proposed(&site, "task-1", script);
    let refused = site.fails(2, &["review", "changes", "r-1"]);
    assert!(refused.contains("--reason"), "{refused}");
    let empty = site.fails(2, &["review", "changes", "r-1", "--reason", " "]);
    assert!(empty.contains("nobody says what should be different") && site.count("review.answered") == 0, "{empty}");
    let done = site.fails(9, &["retry", "task-1"]);
    assert!(done.contains("its changes wait for you") && done.contains("`skep say task-1"), "{done}");
    let said = site.ok(&["review", "changes", "r-1", "--reason", "write second"]);
    assert!(said.starts_with("↺ r-1 changes requested by operator") && said.contains("skep watch task-1"), "{said}");
    eventually("it waits again", || site.task("task-1")["review"] == "r-2");
    let continued = site.records(&["--kind", "task.continued"]);
    let prompt = continued[0]["payload"]["prompt"].as_str().unwrap();
    assert!(prompt.ends_with("Changes requested: write second"), "{prompt}");
    assert_eq!(site.records(&["--kind", "review.answered"])[0]["payload"]["answer"], "changes");
    assert_eq!(site.count("workspace.opened"), 1, "it is the same workspace");
    assert!(site.ok(&["log", "task-1"]).contains("r-1 changes requested"));
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(site.read("b.txt"), "second\n");
    // What was answered is answered.
    assert!(site.fails(9, &["review", "changes", "r-1", "--reason", "x"]).contains("was answered by operator"));
}

#[test]
fn some_paths_are_merged_and_the_rest_later() {
    let site = site();
    proposed(&site, "task-1", "call fs.write path=a.txt content=\"new\\n\"\ncall fs.write path=d/x.txt content=\"x\\n\"\ndone\n");
    assert!(site.fails(2, &["merge", "task-1", "--yes", "--only", "nothing"]).contains("would put nothing in at `nothing`"));
    let merged = site.ok(&["merge", "task-1", "--yes", "--only", "./d/"]);
    assert!(merged.contains("✓ merged 1 file\n  + d/x.txt\n  ○ a.txt  not chosen\n"), "{merged}");
    assert!(merged.ends_with("  ↳ kept 1 file: skep diff task-1, then skep merge task-1\n"), "{merged}");
    assert_eq!(site.read("a.txt"), "one\ntwo\nthree\n");
    assert!(site.ok(&["merge", "list"]).contains("merged  1 file,"), "{}", site.ok(&["merge", "list"]));
    let shown = site.ok(&["status", "task-1"]);
    assert!(shown.contains("skep diff task-1, then skep merge task-1; or skep merge undo task-1"), "{shown}");
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!((site.read("a.txt"), site.read("d/x.txt")), ("new\n".to_owned(), "x\n".to_owned()));
    // Taken back, each can be merged again.
    site.ok(&["merge", "undo", "task-1"]);
    assert_eq!(site.read("a.txt"), "one\ntwo\nthree\n");
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(site.read("a.txt"), "new\n");
    // And after a no.
    proposed(&site, "task-2", "call fs.write path=b.txt content=\"new\\n\"\ndone\n");
    site.ok(&["reject", "task-2"]);
    site.ok(&["merge", "task-2", "--yes"]);
    assert_eq!(site.read("b.txt"), "new\n");
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
}

#[test]
fn a_commit_of_exactly_the_merged_paths() {
    let site = site();
    // A hook that would say no, and must not run.
    let hook = site.project().join(".git/hooks/pre-commit");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\ntouch \"$(git rev-parse --show-toplevel)/hooked\"\nexit 1\n").unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&hook).status().unwrap().success());
    proposed(
        &site,
        "task-1",
        "call fs.write path=a.txt content=\"new\\n\"\ncall fs.delete path=b.txt\ncall fs.write path=d/x content=\"x\\n\"\ndone ok\n",
    );
    site.write("mine.txt", "edited\n");
    site.git(&["add", "mine.txt"]);
    let before = git(&site, &["rev-parse", "HEAD"]);
    let said = site.ok(&["merge", "task-1", "--yes", "--commit"]);
    assert!(said.contains(" on main: 3 files  (hooks were not run)"), "{said}");
    assert!(!site.project().join("hooked").exists());
    let message = git(&site, &["log", "-1", "--format=%an <%ae>%n%P%n%B"]);
    let written = format!("Ann <ann@x.y>\n{before}\nchange it\n\nok\n\nSkep-Session: task-1\nSkep-Journal: ");
    assert!(message.starts_with(&written) && message.ends_with("\nSkep-Tests: none"), "{message}");
    assert_eq!(git(&site, &["show", "--format=", "--name-status", "HEAD"]), "M\ta.txt\nD\tb.txt\nA\td/x");
    assert_eq!(git(&site, &["status", "--porcelain"]), "M  mine.txt", "what was staged still is, and nothing else differs");
    assert_eq!(git(&site, &["fsck", "--strict"]), "");
    assert_eq!(git(&site, &["reflog", "-1", "--format=%gs"]), "skep: merge task-1");
    let made = site.records(&["--kind", "merge.committed"]);
    assert_eq!(made[0]["payload"]["commit"].as_str(), Some(git(&site, &["rev-parse", "HEAD"]).as_str()));
    assert_eq!(site.leftovers(), Vec::<String>::new());

    // An edit of the person's own never gets in: it is refused before anything is merged.
    proposed(&site, "task-2", "call fs.write path=mine.txt content=\"task\\n\"\ndone\n");
    let refused = site.fails(9, &["merge", "task-2", "--yes", "--commit"]);
    assert!(refused.contains("`mine.txt` held edits of yours that no commit has"), "{refused}");
    assert_eq!(site.read("mine.txt"), "edited\n");
    // A new branch begins here, so its name is not to blame.
    let refused = site.fails(9, &["merge", "task-2", "--yes", "--branch", "brand-new"]);
    assert!(refused.contains("`mine.txt` held edits of yours that no commit has") && !refused.contains("new branch"), "{refused}");
    assert_eq!(site.read("mine.txt"), "edited\n");
    site.ok(&["reject", "task-2"]);

    // On a branch of its own: nothing here changes.
    proposed(&site, "task-3", "call fs.write path=a.txt content=\"branch\\n\"\ndone\n");
    assert!(site.fails(9, &["merge", "task-3", "--yes", "--branch", "main"]).contains("`main` is checked out here"));
    let head = git(&site, &["rev-parse", "HEAD"]);
    let said = site.ok(&["merge", "task-3", "--yes", "--branch", "topic", "-m", "on a branch"]);
    assert!(said.contains(" on topic: 1 file") && said.contains("↳ kept 1 file"), "{said}");
    assert_eq!((git(&site, &["rev-parse", "HEAD"]), site.read("a.txt")), (head.clone(), "new\n".to_owned()));
    assert_eq!(git(&site, &["log", "-1", "--format=%s %P", "topic"]), format!("on a branch {head}"));
    assert_eq!(git(&site, &["show", "topic:a.txt"]), "branch");
    assert!(site.fails(9, &["merge", "undo", "task-3"]).contains("went to the branch `topic`"));
    site.ok(&["merge", "task-3", "--yes"]);
    assert_eq!(site.read("a.txt"), "branch\n");
}

#[test]
fn a_commit_is_refused_where_it_would_be_signed_or_nobody_is_known() {
    let site = site();
    proposed(&site, "task-1", "call fs.write path=a.txt content=\"new\\n\"\ndone\n");
    assert!(site.fails(2, &["merge", "task-1", "--yes", "-m", "x"]).contains("a message needs a commit"));
    site.git(&["config", "commit.gpgsign", "true"]);
    let refused = site.fails(12, &["merge", "task-1", "--yes", "--commit"]);
    assert!(refused.contains("commits are signed here"), "{refused}");
    assert!(refused.contains("run `skep merge task-1`, then `git add -A -- a.txt && git commit -- a.txt`"), "{refused}");
    assert_eq!((site.read("a.txt").as_str(), site.count("merge.started")), ("one\ntwo\nthree\n", 0));
    // The command is about the same paths, with both names of a rename.
    proposed(&site, "task-2", "call fs.move from=b.txt to=d/new.txt\ncall fs.write path=mine.txt content=\"x\\n\"\ndone\n");
    let refused = site.fails(12, &["merge", "task-2", "--yes", "--commit", "--only", "d"]).replace("\n         ", " ");
    let commands = "`skep merge task-2 --only d`, then `git add -A -- b.txt d/new.txt && git commit -- b.txt d/new.txt`";
    assert!(refused.contains(commands), "{refused}");
    let refused = site.fails(12, &["merge", "task-2", "--yes", "--branch", "topic", "--only", "d"]);
    assert!(refused.contains("run `git switch -c topic`, then `skep merge task-2 --only d`"), "{refused}");
    site.ok(&["merge", "task-2", "--yes", "--only", "d"]);
    site.git(&["add", "-A", "--", "b.txt", "d/new.txt"]);
    assert_eq!(git(&site, &["status", "--porcelain"]), "R  b.txt -> d/new.txt");
    site.git(&["-c", "commit.gpgsign=false", "commit", "-q", "-m", "moved", "--", "b.txt", "d/new.txt"]);
    site.git(&["config", "--unset", "commit.gpgsign"]);
    // HEAD moved meanwhile, so it is asked about anew.
    site.fails(9, &["merge", "task-1", "--yes"]);
    site.ok(&["merge", "task-1", "--yes", "--commit"]);
    assert_eq!(git(&site, &["status", "--porcelain"]), "");
}

#[test]
fn a_merge_whose_commit_cannot_be_made_is_in_and_says_so() {
    let site = site();
    proposed(&site, "task-1", "call fs.write path=a.txt content=\"new\\n\"\ndone\n");
    let (before, lock) = (git(&site, &["rev-parse", "HEAD"]), site.project().join(".git/index.lock"));
    std::fs::write(&lock, "").unwrap();
    let said = site.skep(&["merge", "task-1", "--yes", "--commit"]);
    assert!(!said.status.success() && text(&said).contains("✗ no commit was made"), "{}", text(&said));
    assert!(text(&said).contains("another git works here"), "{}", text(&said));
    assert_eq!((site.read("a.txt"), site.count("merge.uncommitted"), site.count("merge.committed")), ("new\n".to_owned(), 1, 0));
    assert!(lock.exists(), "it is not ours");
    std::fs::remove_file(&lock).unwrap();
    assert_eq!(git(&site, &["rev-parse", "HEAD"]), before);
    assert_eq!(git(&site, &["status", "--porcelain"]), " M a.txt", "as after a merge without a commit");
}

#[test]
fn a_kernel_that_dies_in_a_commit_leaves_the_old_or_the_new_head_and_the_next_finishes() {
    for point in ["commit:0", "commit:1", "commit:2", "commit:3"] {
        let site = site();
        site.ok(&["kernel", "stop"]);
        let mut victim = site.kernel(Some(point));
        proposed(&site, "task-1", "call fs.write path=a.txt content=\"new\\n\"\ndone\n");
        let before = git(&site, &["rev-parse", "HEAD"]);
        let merged = site.skep(&["merge", "task-1", "--yes", "--commit"]);
        assert!(!merged.status.success(), "{point}: the kernel did not die: {}", text(&merged));
        victim.wait().unwrap();
        let between = git(&site, &["rev-parse", "HEAD"]);
        let is_old = matches!(point, "commit:0" | "commit:1");
        assert_eq!(between == before, is_old, "{point}");
        eventually("the next kernel finishes it", || site.count("merge.committed") == 1);
        eventually("its task ends", || site.is("task-1", "done"));
        assert_eq!(git(&site, &["rev-parse", "HEAD~1"]), before, "{point}: one commit, and one alone");
        assert_eq!(
            (git(&site, &["status", "--porcelain"]), git(&site, &["show", "HEAD:a.txt"])),
            (String::new(), "new".to_owned()),
            "{point}"
        );
        assert!(!site.project().join(".git/index.lock").exists(), "{point}");
        assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()), "{point}");
    }
}

#[test]
fn a_second_task_queues_and_another_worker_does_not() {
    let site = site();
    let holds = script(&site, "holds", "call shell.run command=[\"sh\", \"-c\", \"while [ ! -e go ]; do sleep 0.05; done\"]\ndone\n");
    let writes = script(&site, "writes", "call fs.write path=b.txt content=\"new\\n\"\ndone\n");
    site.ok(&["act", "hold", "--brain", &holds]);
    eventually("it runs", || site.is("task-1", "running"));
    let said = site.ok(&["act", "wait", "--brain", &writes]);
    assert!(said.contains("✓ task-2 → worker.1 (@main), queued behind task-1\n"), "{said}");
    let said = site.ok(&["act", "wait too", "--brain", &writes]);
    assert!(said.contains("queued behind task-2"), "{said}");
    for shown in [site.ok(&["list", "tasks"]), site.ok(&["status"])] {
        assert!(shown.contains("queued behind task-1") && shown.contains("queued behind task-2"), "{shown}");
    }
    assert!(site.ok(&["status", "task-2"]).contains("queued behind task-1"));
    // Another worker begins at once, in a workspace of its own.
    let said = site.ok(&["act", "now", "--new", "--brain", &writes]);
    assert!(said.contains("✓ task-4 → worker.2 (@main)\n"), "{said}");
    eventually("its changes wait", || site.is("task-4", "parked"));
    assert!(site.is("task-2", "queued"));
    // One that waits for a person holds up nobody: its worker takes the next.
    let said = site.ok(&["act", "now too", "--new", "--brain", &writes]);
    assert!(said.contains("→ worker.2 "), "{said}");
    eventually("its changes wait", || site.is("task-5", "parked"));
    site.ok(&["cancel", "task-1"]);
    eventually("the queue goes on", || site.is("task-3", "parked"));
    // The others wait for a person, in their own folders.
    assert!(!site.home().join("work/task-1").exists() && site.home().join("work/task-3").exists());
}

#[test]
fn a_project_has_as_many_workers_as_it_says() {
    let site = Site::new(&[(".skep/policy.yaml", HOLDS), ("skep.yml", "limits: {workers: 2}\n")]);
    site.trust();
    let holds = script(&site, "holds", "call shell.run command=[\"sh\", \"-c\", \"sleep 1000\"]\ndone\n");
    for worker in ["worker.1", "worker.2"] {
        assert!(site.ok(&["act", "hold", "--new", "--brain", &holds]).contains(worker));
    }
    let refused = site.fails(8, &["act", "hold", "--new", "--brain", &holds]);
    assert!(refused.contains("2 workers are busy in this repository") && refused.contains("limits: {workers: N}"), "{refused}");
    assert!(site.ok(&["act", "hold", "--brain", &holds]).contains("queued behind task-1"));
    for id in ["task-3", "task-2", "task-1"] {
        site.ok(&["cancel", id]);
    }
}

#[test]
fn a_conflict_names_both_tasks_and_the_later_one_goes_back_with_the_newer_base() {
    let site = site();
    let first = "call fs.edit path=a.txt old=two new=first\ndone\n";
    let second = "call fs.edit path=a.txt old=two new=second\ndone one\n\
        call fs.read path=a.txt\ncall fs.write path=a.txt content=\"one\\nfirst and second\\nthree\\n\"\ndone two\n";
    proposed(&site, "task-1", first);
    site.ok(&["act", "another", "--new", "--brain", &script(&site, "second", second)]);
    eventually("it waits", || site.is("task-2", "parked"));
    site.ok(&["merge", "task-1", "--yes"]);
    // The changes were proposed before that, so the first yes finds them stale and they are proposed anew.
    let stale = site.skep(&["merge", "task-2", "--yes"]);
    assert!(!stale.status.success(), "{}", text(&stale));
    let shown = site.ok(&["merge", "show", "task-2"]);
    assert!(shown.contains("task-1 merged it, and task-2 changed it too"), "{shown}");
    let review = site.task("task-2")["review"].as_str().unwrap().to_owned();
    assert!(shown.contains(&format!("skep review changes {review} --rebase sends task-2 back with the newer base")), "{shown}");
    site.ok(&["review", "changes", &review, "--rebase"]);
    eventually("it proposes anew", || site.is("task-2", "parked") && site.task("task-2")["review"] != review.as_str());
    let read = site.records(&["--kind", "call.finished", "--task", "task-2"]);
    let read = read.iter().map(ToString::to_string).find(|line| line.contains("<<<<<<<")).expect("it saw both sides");
    assert!(read.contains("first") && read.contains("second"), "{read}");
    site.ok(&["merge", "task-2", "--yes"]);
    assert_eq!(site.read("a.txt"), "one\nfirst and second\nthree\n");
}

/// A brain that settles nothing: the marks of both sides stay out, and so does its version of what has no lines.
#[test]
fn a_conflict_that_nobody_settles_stays_one() {
    let site = site();
    let bytes = |text: &str| format!("call shell.run command=[\"sh\", \"-c\", \"printf '{text}\\\\000' > bin\"]\n");
    proposed(&site, "task-1", &format!("call fs.edit path=a.txt old=two new=first\n{}done\n", bytes("first")));
    let second = format!(
        "call fs.edit path=a.txt old=two new=second\n{}call fs.write path=b.txt content=\"new\\n\"\ndone one\ndone two\ndone three\n",
        bytes("second")
    );
    site.ok(&["act", "another", "--new", "--brain", &script(&site, "second", &second)]);
    eventually("it waits", || site.is("task-2", "parked"));
    site.ok(&["merge", "task-1", "--yes"]);
    let stale = site.skep(&["merge", "task-2", "--yes"]);
    assert!(!stale.status.success(), "{}", text(&stale));
    for round in ["once", "and again"] {
        let review = site.task("task-2")["review"].as_str().unwrap().to_owned();
        site.ok(&["review", "changes", &review, "--rebase"]);
        eventually("it proposes anew", || site.is("task-2", "parked") && site.task("task-2")["review"] != review.as_str());
        let prompt = site.records(&["--kind", "task.continued"]).pop().unwrap()["payload"]["prompt"].as_str().unwrap().to_owned();
        assert!(prompt.contains("the same lines of a.txt:") && prompt.contains("changed bin too"), "{round}: {prompt}");
        let review = site.task("task-2")["review"].as_str().unwrap().to_owned();
        let marks = "it still has the marks of a conflict that nobody settled";
        for shown in [site.ok(&["merge", "show", "task-2"]), site.ok(&["diff", "task-2", "--text"]), site.ok(&["diff", "task-2", "--stat"])]
        {
            assert!(shown.contains(marks) && shown.contains("conflict") && shown.contains("--mine PATH"), "{round}: {shown}");
            assert!(shown.contains("bin") && shown.contains("b.txt"), "{round}: {shown}");
        }
        let asked = site.ok(&["review", "show", &review, "--full"]);
        assert!(asked.contains("a.txt: stays out, it still has the marks") && asked.contains("bin: stays out"), "{round}: {asked}");
        assert!(!site.ok(&["diff", "task-2"]).contains("<<<<<<<"), "{round}: no patch has them either");
    }
    let merged = site.ok(&["merge", "task-2", "--yes"]);
    assert!(merged.contains("  + b.txt\n") && merged.contains("○ a.txt  stays out: it still has"), "{merged}");
    assert_eq!((site.read("a.txt").as_str(), site.read("bin").as_str()), ("one\nfirst\nthree\n", "first\0"));
    // What stayed out is a conflict still, and a side that is chosen goes in without marks.
    let refused = site.fails(9, &["merge", "task-2", "--yes"]);
    assert!(refused.contains("every change is a conflict"), "{refused}");
    site.ok(&["merge", "task-2", "--yes", "--theirs", "a.txt", "--theirs", "bin"]);
    assert_eq!((site.read("a.txt").as_str(), site.read("bin").as_str()), ("one\nsecond\nthree\n", "second\0"));
}

/// Marks are found wherever a brain puts them, and what it puts away is not taken from the person unasked.
#[test]
fn a_conflict_that_is_moved_away_stays_one() {
    let site = site();
    proposed(&site, "task-1", "call fs.edit path=a.txt old=two new=first\ndone\n");
    let second = "call fs.edit path=a.txt old=two new=second\ndone one\ncall fs.move from=a.txt to=z.txt\ndone two\n";
    site.ok(&["act", "another", "--new", "--brain", &script(&site, "second", second)]);
    eventually("it waits", || site.is("task-2", "parked"));
    site.ok(&["merge", "task-1", "--yes"]);
    site.skep(&["merge", "task-2", "--yes"]);
    let review = site.task("task-2")["review"].as_str().unwrap().to_owned();
    site.ok(&["review", "changes", &review, "--rebase"]);
    eventually("it proposes anew", || site.is("task-2", "parked") && site.task("task-2")["review"] != review.as_str());
    let shown = site.ok(&["merge", "show", "task-2"]);
    assert!(shown.contains("the task deleted it instead of settling that") && shown.contains("it still has the marks"), "{shown}");
    assert!(site.fails(9, &["merge", "task-2", "--yes"]).contains("every change is a conflict"));
    assert_eq!(site.read("a.txt"), "one\nfirst\nthree\n");
    site.ok(&["merge", "task-2", "--yes", "--theirs", "a.txt", "--theirs", "z.txt"]);
    assert_eq!((site.read("z.txt").as_str(), site.project().join("a.txt").exists()), ("one\nsecond\nthree\n", false));
}

#[test]
fn a_task_that_waits_for_money_holds_up_nobody() {
    let site = Site::new(&[(".skep/policy.yaml", HOLDS), ("b.txt", "b\n")]);
    std::fs::create_dir(site.home()).unwrap();
    let answers = site.folder.path().join("answers.txt");
    std::fs::write(&answers, "otherwise\n  say done\n").unwrap();
    let config = format!("providers: {{p: {{url: 'script:{}', dialect: anthropic}}}}\nmodels: {{tactical: p/m}}\n", answers.display());
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    site.trust();
    site.ok(&["budget", "set", "1", "--tokens", "tactical=50", "--ask"]);
    site.ok(&["act", "think", "--brain", "native"]);
    eventually("it waits for tokens", || site.ok(&["list", "tasks"]).contains("waits for tactical tokens"));
    // The same worker takes the next, which needs no model.
    let said = site.ok(&["act", "write", "--brain", &script(&site, "writes", "call fs.write path=b.txt content=\"new\\n\"\ndone\n")]);
    assert!(said.contains("✓ task-2 → worker.1 (@main)\n"), "it waits for nobody: {said}");
    eventually("its changes wait", || site.is("task-2", "parked"));
    assert!(site.ok(&["list", "tasks"]).contains("waits for tactical tokens"), "the first still waits");
    site.ok(&["merge", "task-2", "--yes"]);
    assert_eq!(site.read("b.txt"), "new\n");
    site.ok(&["budget", "grant", "1", "--tokens", "tactical=1000000"]);
    eventually("the first goes on", || site.is("task-1", "done"));
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
}
