//! No work is lost: what is kept of a task, who goes on with it, and what alone destroys it.

use crate::common::provider::eventually;
use crate::common::{HOLDS, Site, text};
use serde_json::Value;
use std::process::{Command, Stdio};

const WRITES: &str = "call fs.write path=a.txt content=\"new\\n\"\ncall fs.list path=.\ndone\n";

fn site() -> Site {
    let site = Site::new(&[(".skep/policy.yaml", HOLDS), ("a.txt", "old\n")]);
    site.trust();
    site
}

/// A task that has written a file and waits in the middle.
fn caught(site: &Site) {
    site.ok(&["act", "write a", "--brain", &site.script(WRITES)]);
    eventually("it waits", || site.is("task-1", "parked"));
}

#[test]
fn a_cancelled_task_keeps_its_work_and_says_so() {
    let site = site();
    caught(&site);
    assert_eq!(site.ok(&["cancel", "task-1"]), "✓ task-1 stopped; 1 file kept: skep diff task-1\n");
    assert_eq!(site.leftovers(), Vec::<String>::new(), "its folder is gone, and its work is not");
    let patch = site.ok(&["diff", "task-1"]);
    assert!(patch.contains("-old\n+new\n"), "{patch}");
    let mut git = Command::new("git").args(["apply", "--check"]).current_dir(site.project()).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut git.stdin.take().unwrap(), patch.as_bytes()).unwrap();
    assert!(git.wait().unwrap().success(), "git takes it");
    let shown = site.ok(&["status", "task-1"]);
    assert!(shown.contains("1 file, 4 B") && shown.contains("skep diff task-1, then skep merge task-1"), "{shown}");
    // Merged by the same gate, with what the person is shown.
    let merged = site.ok(&["merge", "task-1", "--yes"]);
    assert!(merged.contains("a.txt"), "{merged}");
    assert_eq!(site.read("a.txt"), "new\n");
    assert_eq!((site.task("task-1")["state"].as_str(), &site.task("task-1")["kept"]), (Some("done"), &Value::Null));
    assert_eq!(site.count("merge.finished"), 1);
    site.fails(9, &["merge", "task-1", "--yes"]);

    // One that had changed nothing says that.
    site.ok(&["act", "nothing", "--brain", &site.script("call fs.list path=.\n")]);
    eventually("it waits", || site.is("task-2", "parked"));
    assert!(site.fails(9, &["merge", "task-2", "--yes"]).contains("it has not proposed its changes"));
    assert_eq!(site.ok(&["cancel", "task-2"]), "✓ task-2 stopped; it had changed nothing\n");
    assert!(site.fails(9, &["merge", "task-2", "--yes"]).contains("nothing that it changed is left to merge"));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn drop_asks_and_destroys_and_nothing_else_does() {
    let site = site();
    caught(&site);
    // A task that somebody works on is cancelled first.
    assert!(site.fails(9, &["drop", "task-1", "--yes"]).contains("skep cancel task-1"));
    site.ok(&["cancel", "task-1"]);
    let asked = site.skep(&["drop", "task-1"]);
    assert!(!asked.status.success() && text(&asked).contains("add `--yes`"), "{}", text(&asked));
    assert_eq!(site.count("work.dropped"), 0);
    assert!(site.ok(&["diff", "task-1"]).contains("+new"));
    assert_eq!(site.ok(&["drop", "task-1", "--yes"]), "✓ task-1 dropped: 1 file\n");
    assert_eq!(site.ok(&["diff", "task-1"]), "");
    site.fails(5, &["drop", "task-1", "--yes"]);
    let dropped = site.records(&["--kind", "work.dropped"]);
    assert_eq!((dropped.len(), dropped[0]["payload"]["by"].as_str()), (1, Some("operator")));
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
}

/// A task whose changes wait for their merge is cancelled: they are kept, and each way on from there works.
#[test]
fn changes_that_waited_for_their_merge_survive_a_cancel() {
    let script = "call fs.write path=a.txt content=\"new\\n\"\ndone first\ncall fs.write path=b.txt content=\"b\\n\"\ndone second\n";
    for verb in ["say", "retry", "merge", "drop"] {
        let site = site();
        site.ok(&["act", "write a", "--brain", &site.script(script), "--await"]);
        assert_eq!(site.ok(&["cancel", "task-1"]), "✓ task-1 stopped; 1 file kept: skep diff task-1\n", "{verb}");
        assert!(site.ok(&["diff", "task-1"]).contains("+new"), "{verb}");
        match verb {
            "say" => {
                site.ok(&["say", "task-1", "go on", "--await"]);
                site.ok(&["merge", "task-1", "--yes"]);
                assert_eq!((site.read("a.txt").as_str(), site.read("b.txt").as_str()), ("new\n", "b\n"));
            }
            "retry" => {
                site.ok(&["retry", "task-1", "--await"]);
                site.ok(&["merge", "task-1", "--yes"]);
                assert_eq!(site.read("a.txt"), "new\n");
            }
            "merge" => {
                site.ok(&["merge", "task-1", "--yes"]);
                assert_eq!(site.read("a.txt"), "new\n");
            }
            _ => {
                site.ok(&["drop", "task-1", "--yes"]);
                is_shown_no_more(&site, "task-1");
                assert!(site.fails(9, &["merge", "task-1", "--yes"]).contains("nothing to merge"));
                assert_ne!(site.read("a.txt"), "new\n");
            }
        }
        assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()), "{verb}");
    }
}

/// The same is dropped after it was rejected or taken back: nothing shows it any more.
#[test]
fn dropped_changes_are_shown_no_more() {
    let site = site();
    let brain = site.script("call fs.write path=a.txt content=\"new\\n\"\ndone\n");
    for (task, end) in [("task-1", &["reject", "task-1"][..]), ("task-2", &["merge", "undo", "task-2"])] {
        site.ok(&["act", "write a", "--brain", &brain, "--await"]);
        if end[0] == "merge" {
            site.ok(&["merge", task, "--yes"]);
        }
        site.ok(end);
        assert!(site.ok(&["diff", task]).contains("+new"), "{task}");
        // Until then the same changes can be merged again.
        site.ok(&["merge", task, "--yes"]);
        assert_eq!(site.read("a.txt"), "new\n", "{task}");
        site.ok(&["merge", "undo", task]);
        site.ok(&["drop", task, "--yes"]);
        is_shown_no_more(&site, task);
    }
}

/// What was dropped is told by its paths alone.
#[track_caller]
fn is_shown_no_more(site: &Site, task: &str) {
    assert!(site.fails(5, &["diff", task]).contains("is kept no longer"));
    let told = site.ok(&["diff", task, "--text"]);
    assert!(told.contains("a.txt") && told.contains("kept no longer") && !told.contains("+new"), "{told}");
}

#[test]
fn a_command_of_ones_own_that_is_cancelled_keeps_what_it_wrote_unless_it_was_to_be_discarded() {
    for discards in [false, true] {
        let site = site();
        let script = "echo mine > b.txt; echo up; sleep 1000";
        let flags: &[&str] = if discards { &["--discard"] } else { &[] };
        let command = [&["sandbox", "run"], flags, &["--", "sh", "-c", script]].concat();
        let run = site.command(&command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        eventually("it wrote", || text(&site.skep(&["diff", "task-1"])).contains("+mine"));
        let kept = if discards { "it had changed nothing" } else { "1 file kept: skep diff task-1" };
        assert_eq!(site.ok(&["cancel", "task-1"]), format!("✓ task-1 stopped; {kept}\n"));
        drop(run.wait_with_output().unwrap());
        if !discards {
            assert!(site.fails(9, &["retry", "task-1"]).contains("a command of your own"));
            site.ok(&["merge", "task-1", "--yes"]);
            assert_eq!(site.read("b.txt"), "mine\n");
        }
        assert_eq!(site.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn a_kernel_that_dies_between_a_tasks_end_and_its_keeping_loses_nothing() {
    for point in ["keep:0", "keep:1"] {
        let site = site();
        site.ok(&["kernel", "stop"]);
        let mut victim = site.kernel(Some(point));
        caught(&site);
        let cancelled = site.skep(&["cancel", "task-1"]);
        assert!(!cancelled.status.success(), "{point}: the kernel did not die: {}", text(&cancelled));
        victim.wait().unwrap();
        // The next kernel finishes the end.
        eventually("its end is finished", || site.count("workspace.closed") == 1);
        assert_eq!((site.count("task.cancelled"), site.count("work.kept") >= 1), (1, true), "{point}");
        assert!(site.ok(&["diff", "task-1"]).contains("+new"), "{point}");
        // The project moved on meanwhile: the base that was recorded is what counts.
        site.write("b.txt", "mine\n");
        site.ok(&["merge", "task-1", "--yes"]);
        assert_eq!((site.read("a.txt"), site.read("b.txt")), ("new\n".to_owned(), "mine\n".to_owned()), "{point}");
        assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()), "{point}");
        assert_eq!(site.leftovers(), Vec::<String>::new(), "{point}");
    }
}

#[test]
fn a_task_goes_on_by_retry_and_by_say() {
    let site = site();
    let script = "call fs.write path=a.txt content=\"new\\n\"\ncall fs.list path=.\ndone first\n\
        call shell.run command=[\"sh\", \"-c\", \"cat a.txt >> b.txt\"]\ndone second\n";
    site.ok(&["act", "write a", "--brain", &site.script(script), "--max-calls", "2"]);
    eventually("it waits", || site.is("task-1", "parked"));
    let waits = site.fails(9, &["retry", "task-1"]);
    assert!(waits.contains("task-1 waits for the answer to r-1") && waits.contains("`skep review show r-1`"), "{waits}");
    site.ok(&["cancel", "task-1"]);
    site.ok(&["kernel", "stop"]);
    // The same command by its other name; what has its outcome is not done again, and what waited is asked again.
    let said = site.ok(&["resume", "task-1"]);
    assert!(said.starts_with("✓ task-1 goes on → worker.1\n"), "{said}");
    eventually("it asks again", || site.is("task-1", "parked"));
    site.ok(&["review", "allow", site.task("task-1")["review"].as_str().unwrap()]);
    eventually("it proposes", || site.task("task-1")["merge"] == "proposed");
    let told = site.json(&["say", "task-1", "also b"]);
    assert_eq!((told["calls"].as_u64(), told["taken_up"].as_bool()), (Some(2), Some(true)), "a turn has its own allowance");
    eventually("it proposes both", || site.task("task-1")["merge"] == "proposed");
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!((site.read("a.txt"), site.read("b.txt")), ("new\n".to_owned(), "new\n".to_owned()));
    // It is done: there is nothing to retry, but more can be said.
    assert!(site.fails(9, &["retry", "task-1"]).contains("skep say task-1"));
    assert_eq!(site.skep(&["say", "task-1", "and c", "--await"]).status.code(), Some(0));
    let watched = site.ok(&["watch", "task-1"]);
    assert!(
        watched.contains("told more by operator  also b") && watched.trim_end().lines().last().unwrap().starts_with("✓ done"),
        "{watched}"
    );
    assert!(site.fails(9, &["replay", "task-1"]).contains("went on after its end"));
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// A model that answers by what was said last.
fn thinking(script: &str) -> (Site, std::path::PathBuf) {
    let site = Site::new(&[("a.txt", "old\n")]);
    std::fs::create_dir(site.home()).unwrap();
    let answers = site.folder.path().join("answers.txt");
    std::fs::write(&answers, script).unwrap();
    let config = format!(
        "providers: {{p: {{url: 'script:{}', dialect: anthropic}}}}\nmodels: {{tactical: p/m, operational: p/s}}\n",
        answers.display()
    );
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    site.ok(&["init"]);
    (site, answers)
}

const ANSWERS: &str = "on \"also b\"\n  call write path=b.txt content=b\nthen\n  say Wrote b.\n\
    on \"write a\"\n  call write path=a.txt content=new\nthen\n  say Wrote a.\n";

#[test]
fn the_built_in_brain_hears_more_in_the_same_conversation() {
    let (site, _) = thinking(ANSWERS);
    assert_eq!(site.skep(&["act", "please write a", "--record", "--await"]).status.code(), Some(0));
    site.ok(&["merge", "task-1", "--yes"]);
    site.ok(&["kernel", "stop"]);
    assert_eq!(site.skep(&["say", "task-1", "now also b", "--await"]).status.code(), Some(0));
    assert_eq!(site.task("task-1")["summary"], "Wrote b.");
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!((site.read("a.txt"), site.read("b.txt")), ("new".to_owned(), "b".to_owned()));
    let tape = std::fs::read_to_string(site.home().join("cassettes/task-1.jsonl")).unwrap();
    let last = tape.lines().rfind(|line| line.contains("now also b")).unwrap();
    for said in ["please write a", "Wrote a.", "now also b"] {
        assert!(last.contains(said), "{said} is not in the last request: {last}");
    }
}

#[test]
fn a_task_whose_model_does_not_let_it_in_stops_and_goes_on() {
    let (site, answers) = thinking("on \"write a\"\n  error 401 wrong key\n");
    let ended = site.skep(&["act", "please write a", "--await"]);
    assert_eq!(ended.status.code(), Some(1), "{}", text(&ended));
    assert!(text(&ended).contains("task-1 stopped") && text(&ended).contains("skep retry task-1"), "{}", text(&ended));
    let stopped = site.records(&["--kind", "task.stopped"]);
    assert_eq!(stopped[0]["payload"]["cause"], "model");
    let shown = site.ok(&["status"]);
    assert!(shown.contains("stopped") && shown.contains("skep retry task-1"), "{shown}");
    site.ok(&["kernel", "stop"]);
    std::fs::write(answers, ANSWERS).unwrap();
    assert_eq!(site.skep(&["retry", "task-1", "--await"]).status.code(), Some(0));
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(site.read("a.txt"), "new");
}

/// Two turns, each with its merge; the second one waits for a person before it is done.
const TWO_TURNS: &str = "call fs.write path=a.txt content=\"new\\n\"\ndone first\n\
    call fs.write path=a.txt content=\"newer\\n\"\ncall fs.list path=.\ndone second\n";

/// The first turn is merged, and the second has begun.
fn goes_on(site: &Site) {
    site.ok(&["act", "write a", "--brain", &site.script(TWO_TURNS)]);
    eventually("it proposes", || site.is("task-1", "parked"));
    site.ok(&["merge", "task-1", "--yes"]);
    site.ok(&["say", "task-1", "go on"]);
    eventually("it waits in its second turn", || site.is("task-1", "parked"));
}

#[test]
fn a_merge_is_taken_back_when_nobody_goes_on_with_its_task() {
    let site = site();
    goes_on(&site);
    let said = site.fails(9, &["merge", "undo", "task-1"]);
    assert!(said.contains("task-1 goes on, and waits for an answer (r-2)") && said.contains("skep cancel task-1"), "{said}");
    site.ok(&["review", "allow", "r-2"]);
    eventually("its second turn is over", || site.task("task-1")["merge"] == "proposed");
    let said = site.fails(9, &["merge", "undo", "task-1"]);
    assert!(said.contains("has further changes that wait for an answer (r-3)"), "{said}");
    assert_eq!((site.read("a.txt").as_str(), site.count("merge.undo_begun")), ("new\n", 0));
    // What the second turn made of the file is kept, and the first merge taken back beneath it.
    site.ok(&["reject", "task-1"]);
    assert!(site.ok(&["diff", "task-1"]).contains("-new\n+newer\n"));
    site.ok(&["merge", "undo", "task-1"]);
    assert_eq!(site.read("a.txt"), "old\n");
    assert!(site.ok(&["diff", "task-1"]).contains("-old\n+newer\n"));
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(site.read("a.txt"), "newer\n");
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
}

#[test]
fn both_merges_of_a_task_are_taken_back_and_its_last_word_stays() {
    let site = site();
    goes_on(&site);
    site.ok(&["review", "allow", "r-2"]);
    eventually("its second turn is over", || site.task("task-1")["merge"] == "proposed");
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(site.read("a.txt"), "newer\n");
    for (holds, patch) in [("new\n", "-new\n+newer\n"), ("old\n", "-old\n+newer\n")] {
        site.ok(&["merge", "undo", "task-1"]);
        assert_eq!(site.read("a.txt"), holds);
        assert!(site.ok(&["diff", "task-1"]).contains(patch), "{patch}");
    }
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(site.read("a.txt"), "newer\n");
}

/// Whoever is first, nothing is lost: what is taken back is the task's work again before it goes on, or it is taken back after that.
#[test]
fn undo_and_say_at_once_lose_nothing() {
    let site = site();
    for round in 1..=6 {
        let (id, first, second) = (format!("task-{round}"), format!("first-{round}.txt"), format!("second-{round}.txt"));
        let script =
            format!("call fs.write path={first} content=\"1\\n\"\ndone one\ncall fs.write path={second} content=\"2\\n\"\ndone two\n");
        site.ok(&["act", "write", "--brain", &site.script(&script)]);
        eventually("it proposes", || site.is(&id, "parked"));
        site.ok(&["merge", &id, "--yes"]);
        let at_once = |arguments: &[&str]| site.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (say, undo) = (at_once(&["say", &id, "go on"]), at_once(&["merge", "undo", &id]));
        let (say, undo) = (say.wait_with_output().unwrap(), undo.wait_with_output().unwrap());
        assert!(say.status.success(), "{}", text(&say));
        eventually("its second turn is over", || site.task(&id)["merge"] == "proposed");
        if !undo.status.success() {
            assert_eq!(undo.status.code(), Some(9), "{}", text(&undo));
            site.ok(&["reject", &id]);
            site.ok(&["merge", "undo", &id]);
        }
        assert!(!site.project().join(&first).exists(), "{}", text(&undo));
        let patch = site.ok(&["diff", &id]);
        assert!(patch.contains(&first) && patch.contains(&second), "round {round}, undo: {}\n{patch}", text(&undo));
        site.ok(&["merge", &id, "--yes"]);
        assert_eq!((site.read(&first), site.read(&second)), ("1\n".to_owned(), "2\n".to_owned()));
    }
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
}

/// A file that somebody changed after the merge stays as it is when the merge is taken back; the task's version of it is kept all the same.
#[test]
fn what_an_undo_leaves_alone_is_still_the_tasks_work() {
    let site = Site::new(&[("a.txt", "a\n")]);
    let brain = site.script("call fs.write path=new.txt content=\"precious\\n\"\ncall fs.write path=a.txt content=\"changed\\n\"\ndone\n");
    site.ok(&["act", "write", "--brain", &brain, "--await"]);
    site.ok(&["merge", "task-1", "--yes"]);
    site.write("new.txt", "by hand\n");
    let said = site.fails(9, &["merge", "undo", "task-1"]);
    assert!(said.contains("took back 1 file") && said.contains("new.txt"), "{said}");
    assert_eq!((site.read("new.txt"), site.read("a.txt")), ("by hand\n".to_owned(), "a\n".to_owned()));
    assert_eq!(site.ok(&["diff", "task-1", "--file", "new.txt"]), "precious\n");
    std::fs::remove_file(site.project().join("new.txt")).unwrap();
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!((site.read("new.txt"), site.read("a.txt")), ("precious\n".to_owned(), "changed\n".to_owned()));
}

/// What no merge takes is kept where it can be, and what is not kept is told before and after.
#[test]
fn what_stays_out_of_a_merge_is_kept_or_told() {
    let site = site();
    let files = "ln -s /etc out; git init -q sub; echo inside > sub/f; ln -s /bin sub/link; touch \"$(printf 'caf\\351')\"; \
                 mkdir -p made/x; echo \"/made\" > .gitignore; git init -q made/x; echo made > made/x/f";
    let command = serde_json::json!(["sh", "-c", files]);
    let script = format!("call shell.run command={command}\ncall fs.write path=a.txt content=\"new\\n\"\ndone\n");
    site.ok(&["act", "write a", "--brain", &site.script(&script)]);
    eventually("it waits", || site.is("task-1", "parked"));
    let lines = [
        "out  stays out: it is a link out of the project\n",
        "sub  stays out: it is an embedded repository; only its files are kept\n",
        "stays out: its name is not valid UTF-8\n",
    ];
    let before = site.ok(&["diff", "task-1", "--stat"]);
    assert!(lines.iter().all(|line| before.contains(line)) && !before.contains("made"), "{before}");
    let merged = site.ok(&["merge", "task-1", "--yes"]);
    assert!(merged.contains("✓ merged 2 files\n") && lines.iter().all(|line| merged.contains(line)), "{merged}");
    assert!(!merged.contains('✗') && merged.contains("  ○ out  "), "nothing failed: {merged}");
    assert!(merged.ends_with("  ↳ kept 4 files: skep diff task-1\n"), "{merged}");
    // A link out still leads nowhere; the files of the repository are ordinary files without it.
    let kept = site.ok(&["diff", "task-1", "--stat"]);
    assert!(kept.contains("sub/f\n") && kept.contains(lines[0]) && kept.contains("sub/link  stays out"), "{kept}");
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!((site.read("sub/f").as_str(), site.project().join("out").exists()), ("inside\n", false));
    assert_eq!(site.task("task-1")["kept"]["files"], 3, "the links and the odd name");
    let nothing = site.fails(9, &["merge", "task-1", "--yes"]);
    assert!(nothing.contains("nothing is merged: all that is kept of task-1 stays out"), "{nothing}");
    assert_eq!(site.task("task-1")["summary"], "kept work (not merged: every change is left out)");
    // What cannot be kept says that, before and after.
    let script = "call shell.run command=[\"mkfifo\", \"pipe\"]\ncall fs.write path=a.txt content=\"newer\\n\"\ndone\n";
    site.ok(&["act", "a pipe", "--brain", &site.script(script), "--await"]);
    for shown in [site.ok(&["diff", "task-2", "--stat"]), site.ok(&["merge", "task-2", "--yes"])] {
        assert!(shown.contains("pipe  stays out: it is a special file; the change is not kept\n"), "{shown}");
    }
    assert_eq!(site.task("task-2")["kept"], Value::Null);
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
}

/// Files of a submodule are the task's work too, and so they outlive its merge and its end.
#[test]
fn what_a_task_writes_into_a_submodule_is_kept() {
    let site = site();
    let other = site.folder.path().join("other");
    let git = |arguments: &[&str]| {
        let names = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"];
        assert!(Command::new("git").args(names).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
    };
    git(&["init", "-q", other.to_str().unwrap()]);
    git(&["-C", other.to_str().unwrap(), "commit", "-q", "--allow-empty", "-m", "x"]);
    git(&["-C", site.project().to_str().unwrap(), "submodule", "--quiet", "add", other.to_str().unwrap(), "sub"]);
    site.git(&["commit", "-q", "-m", "a submodule"]);
    let script = "call fs.write path=sub/f content=\"inside\\n\"\ncall fs.write path=a.txt content=\"new\\n\"\ndone\n";
    site.ok(&["act", "write", "--brain", &site.script(script), "--await"]);
    let merged = site.ok(&["merge", "task-1", "--yes"]);
    assert!(merged.contains("○ sub  stays out: it is an embedded repository\n"), "{merged}");
    assert!(merged.ends_with("  ↳ kept 1 file: skep diff task-1\n"), "no merge takes it: {merged}");
    assert!(!site.project().join("sub/f").exists());
    // Whoever goes on with the task finds it.
    site.ok(&["say", "task-1", "go on", "--await"]);
    assert_eq!(site.task("task-1")["kept"]["files"], 1);
    assert!(site.ok(&["diff", "task-1", "--stat"]).contains("sub  stays out"));
}

/// A rename is one file, and a list counts what a merge and its undo really did.
#[test]
fn counts_are_of_what_happened() {
    let site = site();
    site.write("b.txt", "b\n");
    site.git(&["add", "-A"]);
    site.git(&["commit", "-q", "-m", "b"]);
    let script = "call fs.move from=b.txt to=c.txt\ncall fs.list path=.\ncall fs.write path=a.txt content=\"new\\n\"\ndone one\ndone two\n";
    site.ok(&["act", "move", "--brain", &site.script(script)]);
    eventually("it waits", || site.is("task-1", "parked"));
    assert_eq!(site.ok(&["cancel", "task-1"]), "✓ task-1 stopped; 1 file kept: skep diff task-1\n");
    site.ok(&["retry", "task-1"]);
    eventually("it waits again", || site.is("task-1", "parked"));
    let review = site.task("task-1")["review"].as_str().unwrap().to_owned();
    site.ok(&["review", "allow", &review]);
    eventually("its merge waits", || site.task("task-1")["merge"] == "proposed");
    let review = site.task("task-1")["review"].as_str().unwrap().to_owned();
    site.ok(&["review", "changes", &review, "--reason", "once more"]);
    eventually("it proposes anew", || site.task("task-1")["merge"] == "proposed" && site.task("task-1")["review"] != review.as_str());
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let listed = site.ok(&["merge", "list"]);
    assert!(listed.contains("replaced  ") && !listed.contains("rejected"), "nobody refused it: {listed}");
    site.ok(&["merge", "task-1", "--yes"]);
    assert!(words(site.ok(&["merge", "list"])).contains("merged 2 files"), "{}", site.ok(&["merge", "list"]));
    site.write("a.txt", "by hand\n");
    let undone = site.fails(9, &["merge", "undo", "task-1"]);
    assert!(undone.contains("  ○ a.txt  ") && !undone.contains('✗'), "it took something back: {undone}");
    let listed = words(site.ok(&["merge", "list"]));
    assert!(listed.contains("taken back") && listed.contains("1 file, 1 left as it is"), "{listed}");
    assert_eq!(site.task("task-1")["kept"]["files"], 2, "the rename is one of them");
    // The control: a no is one.
    site.ok(&["act", "again", "--brain", &site.script("call fs.write path=d.txt content=\"d\\n\"\ndone\n"), "--await"]);
    site.ok(&["reject", "task-2"]);
    assert!(site.ok(&["merge", "list"]).contains("rejected"));
}
