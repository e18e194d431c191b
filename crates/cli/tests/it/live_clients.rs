//! A client that has nothing to do stays for its worker's next task: the same process, without a boot, in either mode; and it goes when it
//! cannot have that task, when it has waited long enough, and with its kernel.

use crate::brains::{CLAUDE, CODEX, Client, GEMINI, OPENCODE, of, site};
use crate::common::provider::eventually;
use crate::common::{Site, text};
use crate::misbehaving::{add_config, misbehaving};
use serde_json::{Value, json};
use std::fs;

const WORK: &str = "on \"fourth\"\n  call read path=hello.txt\nthen\n  on result contains \"edited\"\n    say I see the edit.\n  else\n    say I see the old one.\n\
                    on \"third\"\n  call write path=bye.txt content=\"bye\\n\"\nthen\n  say Written too.\n\
                    on \"second\"\n  call read path=hello.txt\nthen\n  on result contains \"hello\"\n    say I know the place.\n  else\n    \
                    say What was merged is not there.\n\
                    on \"greeting\"\n  call write path=hello.txt content=\"hello\\n\"\nthen\n  say Written.\n";

fn served(site: &Site) -> Vec<Value> {
    of(site, "brain.served")
}

/// Milliseconds from the queue to the first request to a model.
fn milliseconds_to_model(site: &Site, task: &str) -> i64 {
    let at = |kind: &str, tool: Option<&str>| {
        let records = site.records(&["--kind", kind]);
        let own = |record: &&Value| record["payload"]["task"] == task && tool.is_none_or(|tool| record["payload"]["tool"] == tool);
        records.iter().find(own).map(|record| record["timestamp"].as_str().unwrap_or_default().to_owned())
    };
    let read = |text: Option<String>| text.and_then(|text| text.parse::<jiff::Timestamp>().ok()).map_or(0, |at| at.as_millisecond());
    read(at("call.admitted", Some("model.request"))) - read(at("task.queued", None))
}

/// One process serves what is asked and what is done, as long as its layer equals the project.
fn stays(client: &Client) {
    let site = site(client, WORK, None);
    site.ok(&["act", "Please write the greeting", "--brain", client.brain, "--await"]);
    site.ok(&["merge", "task-1", "--yes"]);
    let said = site.ok(&["ask", "And the second thing", "--brain", client.brain, "--await"]);
    assert!(said.contains("I know the place."), "{said}\n{:?}", served(&site));
    let one = served(&site);
    assert_eq!((one.len(), &one[0]["reused"], &one[1]["reused"]), (2, &json!(false), &json!(true)), "{one:?}");
    assert_eq!((&one[0]["process"], &one[1]["why"]), (&one[1]["process"], &json!("it had worked on task-1")), "{one:?}");
    let asked = of(&site, "model.used");
    let runs: Vec<Value> = of(&site, "call.admitted").into_iter().filter(|call| call["tool"] == "brain.run").collect();
    assert_eq!(runs.len(), 2, "each task's client passes the door");
    let requests = of(&site, "call.admitted").into_iter().filter(|call| call["tool"] == "model.request" && call["task"] == "task-2");
    let requests: Vec<Value> = requests.collect();
    assert!(
        !requests.is_empty() && requests.iter().all(|call| call["of"] == runs[1]["call"]),
        "its requests are the second task's: {asked:?}"
    );

    // From asking to doing; what it did waits, so the next task has another process in the same conversation.
    site.ok(&["act", "Now the third thing", "--brain", client.brain, "--await"]);
    assert_eq!(site.count("merge.proposed"), 2);
    let proposed = of(&site, "merge.proposed")[1]["paths"].as_array().unwrap().clone();
    let paths: Vec<Value> = proposed.into_iter().filter(|path| path["refused"].is_null()).map(|path| path["path"].clone()).collect();
    assert_eq!(paths, ["bye.txt"], "its own changes alone");
    fs::write(site.project().join("hello.new"), "edited\n").unwrap();
    fs::rename(site.project().join("hello.new"), site.project().join("hello.txt")).unwrap();
    let said = site.ok(&["ask", "The fourth thing", "--brain", client.brain, "--await"]);
    assert!(said.contains("I see the edit."), "{said}");
    let all = served(&site);
    assert_eq!(all.iter().map(|one| one["reused"] == true).collect::<Vec<_>>(), [false, true, true, false], "{all:?}");
    assert!(all[3]["why"].as_str().unwrap().starts_with("task-3 is not over"), "{all:?}");
    println!("{}: {:?} ms", client.name, ["task-1", "task-2", "task-3", "task-4"].map(|task| milliseconds_to_model(&site, task)));
    site.ok(&["reject", "task-3"]);
    assert_eq!((of(&site, "task.failed"), of(&site, "task.stopped")), (Vec::<Value>::new(), Vec::<Value>::new()));
    assert_eq!(site.json(&["journal", "verify"])["findings"], json!([]));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn claude_stays() {
    stays(&CLAUDE);
}

#[test]
fn codex_stays() {
    stays(&CODEX);
}

#[test]
fn opencode_stays() {
    stays(&OPENCODE);
}

#[test]
fn gemini_stays() {
    stays(&GEMINI);
}

/// What Claude Code would do in the background or later: it has no such tools here, and each answer is its own prompt's.
const BACKGROUND: &str = "on \"background shell\"\n  call Bash {\"command\":\"sleep 1\",\"run_in_background\":true,\"description\":\"bg\"}\n\
    then\n  say the shell is over\n\
    on \"background agent\"\n  call Agent {\"description\":\"sub\",\"prompt\":\"SUB now\",\"subagent_type\":\"general-purpose\",\"run_in_background\":true}\n\
    then\n  on result contains \"sub is done\"\n    say the agent is over\n  else\n    say it went away\n\
    on \"SUB\"\n  say sub is done\non \"later\"\n  call CronCreate {\"cron\":\"* * * * *\",\"prompt\":\"again\"}\nthen\n  say nothing comes later\n\
    on \"ALPHA\"\n  call write path=alpha.txt content=\"a\\n\"\nthen\n  say this is ALPHA\non \"BETA\"\n  say this is BETA\n";

#[test]
fn nothing_of_claude_goes_on_behind_a_task() {
    let site = site(&CLAUDE, BACKGROUND, None);
    let said = |mode: &str, prompt: &str| site.json(&[mode, prompt, "--brain", "claude", "--await"])["summary"].clone();
    assert_eq!(said("act", "Try a background shell"), "the shell is over");
    assert_eq!(said("act", "ALPHA"), "this is ALPHA");
    assert_eq!(said("ask", "BETA"), "this is BETA");
    assert_eq!(said("act", "Try a background agent"), "the agent is over");
    assert_eq!(said("ask", "BETA"), "this is BETA");
    assert_eq!((of(&site, "task.failed"), of(&site, "task.stopped")), (Vec::<Value>::new(), Vec::<Value>::new()));
    // The model is offered no tool for it.
    let later = site.skep(&["act", "Do it later", "--brain", "claude", "--await"]);
    assert!(text(&later).contains("there is no tool `CronCreate`"), "{}", text(&later));
}

/// A turn that the client takes by itself, between two tasks, ends neither of them.
#[test]
fn a_turn_of_its_own_is_no_tasks_end() {
    let notice = "say(type='result', subtype='success', is_error=False, num_turns=0, result='a notice', total_cost_usd=0, usage={})\n    ";
    let site = misbehaving(&TURNS.replace("heard = json", &format!("{notice}heard = json")));
    site.ok(&["ask", "one", "--brain", "claude", "--await"]);
    for prompt in ["two", "three"] {
        let said = site.ok(&["ask", prompt, "--brain", "claude", "--await"]);
        assert!(said.contains(&format!("{prompt} by ")) && !said.contains("a notice"), "{said}");
    }
    let all = served(&site);
    assert_eq!(all.iter().map(|one| one["reused"] == true).collect::<Vec<_>>(), [false, true, true], "{all:?}");
}

/// Plays one turn after the other.
const TURNS: &str = "done('the first')\nwhile True:\n    line = sys.stdin.readline()\n    if not line:\n        break\n    \
                     heard = json.loads(line)\n    say(**heard, isReplay=True)\n    prompt = heard['message']['content'][0]['text']\n    \
                     done(prompt + ' by ' + str(os.getpid()) + ' sees ' + open('a.txt').read().strip() + ' ' + str(os.path.exists('new.txt')))\n";

fn runs(process: &Value) -> bool {
    // One that ended may wait to be buried by whoever has it now.
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// What a person changes while it waits, it sees: a file that was exchanged for another, and one that was not there when it looked.
#[test]
fn a_client_that_waited_sees_the_project_as_it_is() {
    let look = "open('a.txt').read()\nos.path.exists('new.txt')\n";
    let site = misbehaving(&format!("{look}{TURNS}"));
    site.ok(&["ask", "one", "--brain", "claude", "--await"]);
    fs::write(site.project().join("a.swap"), "exchanged\n").unwrap();
    fs::rename(site.project().join("a.swap"), site.project().join("a.txt")).unwrap();
    fs::write(site.project().join("new.txt"), "new\n").unwrap();
    let said = site.ok(&["ask", "two", "--brain", "claude", "--await"]);
    assert!(said.contains("sees exchanged True"), "{said}");
    assert!(said.contains("[CHANGED]") && said.contains("[\"a.txt\",\"new.txt\"]"), "it is told which: {said}");
    let said = site.ok(&["ask", "three", "--brain", "claude", "--await"]);
    assert!(!said.contains("[CHANGED]"), "the control: nothing changed since: {said}");
    assert_eq!(served(&site).iter().map(|one| one["reused"] == true).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// It goes when it has waited long enough, and the next task boots another in the same conversation.
#[test]
fn a_client_that_waits_too_long_goes() {
    let site = misbehaving(TURNS);
    add_config(&site, "brain_idle: 300ms\n");
    site.ok(&["ask", "one", "--brain", "claude", "--await"]);
    let first = served(&site)[0]["process"].clone();
    eventually("it goes", || !runs(&first));
    site.ok(&["ask", "two", "--brain", "claude", "--await"]);
    let two = served(&site)[1].clone();
    assert!(two["reused"] == false && two["why"].as_str().unwrap().contains("too long"), "{two}");
    let run = of(&site, "call.admitted").into_iter().filter(|call| call["tool"] == "brain.run").nth(1).unwrap();
    assert!(run["input"]["command"].to_string().contains("--resume"), "{run}");
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// A kernel that dies leaves no client that waited, and the next one goes on with the conversation.
#[test]
fn a_client_that_waits_dies_with_its_kernel() {
    let site = misbehaving(TURNS);
    let mut victim = site.kernel(None);
    site.ok(&["ask", "one", "--brain", "claude", "--await"]);
    let first = served(&site)[0]["process"].clone();
    assert!(runs(&first), "the control: it waits");
    victim.kill().unwrap();
    victim.wait().unwrap();
    eventually("it goes", || !runs(&first));
    site.ok(&["ask", "two", "--brain", "claude", "--await"]);
    let two = served(&site)[1].clone();
    assert_eq!((&two["reused"], &two["why"]), (&json!(false), &json!("no client of this worker was running")));
    let run = of(&site, "call.admitted").into_iter().filter(|call| call["tool"] == "brain.run").nth(1).unwrap();
    assert!(run["input"]["command"].to_string().contains("--resume"), "{run}");
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// Writes half of its work, says so, and hangs; told to go on, it tells what it was told.
const HALF: &str = "if 'RESUME' not in prompt:\n    ask('Write', file_path=os.path.abspath('half.txt'), content='half')\n    \
                    open('half.txt', 'w').write('half')\n    \
                    say(type='user', message={'content': [{'type': 'tool_result', 'tool_use_id': 'Write', 'content': 'ok'}]})\n    \
                    say(type='assistant', message={'content': [{'type': 'text', 'text': 'I have written half.'}]})\n    time.sleep(1000)\n\
                    done(prompt)\nsys.stdin.read()\n";

/// After a crash it hears how far it had come; and an alert, if the files were changed meanwhile.
#[test]
fn a_client_that_was_interrupted_is_told_how_far_it_had_come() {
    for is_edited in [false, true] {
        let site = misbehaving(HALF);
        let mut victim = site.kernel(None);
        site.ok(&["act", "write it", "--brain", "claude"]);
        eventually("it has written half", || site.count("brain.said") == 1);
        victim.kill().unwrap();
        victim.wait().unwrap();
        if is_edited {
            fs::write(site.project().join("a.txt"), "edited meanwhile\n").unwrap();
        }
        eventually("it goes on", || site.count("merge.proposed") == 1);
        let told = of(&site, "merge.proposed")[0]["summary"].as_str().unwrap().to_owned();
        let begin = "[RESUME] Previous session was interrupted.\n\nSession ID: 01234567-89ab-cdef-0123-456789abcdef\nOriginal task: write it\n\n\
                     Tool calls completed (1):\n- fs.write half.txt\n\nYour last output:\nI have written half.";
        assert!(told.starts_with(begin), "{told}");
        assert_eq!(told.contains("ALERT: Workspace state has changed since the interruption."), is_edited, "{told}");
        site.ok(&["reject", "task-1"]);
        assert_eq!(site.leftovers(), Vec::<String>::new());
    }
}

/// A file of its own layer that it was about to write when the kernel died, it may write; a command may have reached further.
#[test]
fn a_lost_write_of_its_own_hands_needs_nobody() {
    let writes = "ask('Write', file_path=os.path.abspath('half.txt'), content='half')\n";
    let runs = "ask('Bash', command='echo half > half.txt')\n";
    for (act, tool, asked) in [(writes, "fs.write", json!(["merge.apply"])), (runs, "shell.run", json!(["shell.run"]))] {
        let site = misbehaving(&format!(
            "{act}if 'RESUME' not in prompt:\n    time.sleep(1000)\nopen('half.txt', 'w').write('half')\ndone('done')\nsys.stdin.read()\n"
        ));
        let mut victim = site.kernel(None);
        site.ok(&["act", "write it", "--brain", "claude"]);
        eventually("it may write", || of(&site, "call.admitted").iter().any(|call| call["tool"] == tool));
        victim.kill().unwrap();
        victim.wait().unwrap();
        eventually("somebody is asked", || site.count("review.asked") == 1);
        let reviews: Vec<Value> = of(&site, "review.asked").iter().map(|review| review["tool"].clone()).collect();
        assert_eq!(json!(reviews), asked);
        site.ok(&["cancel", "task-1"]);
        assert_eq!(site.leftovers(), Vec::<String>::new());
    }
}

/// A conversation that is shortened goes on as a new episode of the same series.
#[test]
fn a_shortened_conversation_is_on_record() {
    for (line, starts) in [("", 1), ("say(type='system', subtype='compact_boundary')\n", 2)] {
        let site = misbehaving(&format!("{line}done('done')\nsys.stdin.read()\n"));
        site.ok(&["act", "work", "--brain", "claude", "--await"]);
        let episodes: Vec<Value> = of(&site, "task.started").iter().map(|start| start["episode"].clone()).collect();
        assert_eq!(episodes, (1..=starts).map(|n| json!(n)).collect::<Vec<_>>());
        assert_eq!(site.leftovers(), Vec::<String>::new());
    }
}

/// It hangs without a word, or talks without getting on: either way it is ended, and the reason says which.
#[test]
fn a_client_that_gets_nowhere_is_ended() {
    let hello = "say(type='assistant', message={'content': [{'type': 'text', 'text': 'I begin.'}]})\n";
    let silent = format!("{hello}time.sleep(1000)\n");
    let noisy = format!("{hello}while True:\n    say(type='noise')\n    time.sleep(0.05)\n");
    for (body, why) in [(silent, "its program wrote nothing meanwhile"), (noisy, "none of which led on")] {
        let site = misbehaving(&body);
        add_config(&site, "brain_patience: 3s\n");
        drop(site.skep(&["act", "hang", "--brain", "claude", "--await"]));
        let stopped = of(&site, "task.stopped");
        assert!(stopped[0]["reason"].as_str().unwrap().contains(why) && stopped[0]["cause"] == "time", "{stopped:?}");
        assert_eq!(site.leftovers(), Vec::<String>::new());
    }
}

/// Commits that it made in its room come with the merge as a reference of their own: HEAD, branches and hooks of the person's stay out of it.
/// One with a path that may not change comes with none.
#[test]
fn commits_of_a_client_are_imported_after_each_path_was_judged() {
    let policy = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow}\n- {name: ask, match: {syscall: merge.apply}, action: require_review}\n\
                  - {name: no-secrets, match: {syscall: 'fs.*', path_glob: closed.txt}, except: [{syscall: fs.read}], action: deny, reason: it is closed}\n";
    for closed in [false, true] {
        let more = if closed {
            "echo x > closed.txt; git add closed.txt; git commit -qm two; git rm -q closed.txt; git commit -qm three"
        } else {
            "true"
        };
        let line = format!(
            "set -e; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.c; echo x > made.txt; git add made.txt; git commit -qm one; {more}"
        );
        let body = format!(
            "ask('Bash', command={0})\nsubprocess.run(['sh', '-c', {0}], check=True)\ndone('committed')\nsys.stdin.read()\n",
            json!(line)
        );
        let site = misbehaving(&body);
        fs::create_dir_all(site.project().join(".skep")).unwrap();
        fs::write(site.project().join(".skep/policy.yaml"), policy).unwrap();
        site.trust();
        let hook = site.project().join(".git/hooks/reference-transaction");
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        // In its sandbox its own git runs it, and there it reaches nothing.
        let hooked = site.folder.path().join("hooked");
        fs::write(&hook, format!("#!/bin/sh\ntouch {} 2>/dev/null\nexit 0\n", hooked.display())).unwrap();
        fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let head = git(&site, &["rev-parse", "HEAD"]);
        site.ok(&["act", "commit", "--brain", "claude", "--await"]);
        assert_eq!(git(&site, &["for-each-ref", "refs/skep"]), "", "nothing comes before the merge");
        site.ok(&["merge", "task-1", "--yes"]);
        assert_eq!(site.read("made.txt"), "x\n");
        assert_eq!((git(&site, &["rev-parse", "HEAD"]), hooked.exists()), (head.clone(), false));
        let (imported, refused) = (of(&site, "commits.imported"), of(&site, "commits.refused"));
        if closed {
            assert_eq!((imported.len(), git(&site, &["for-each-ref", "refs/skep"]).as_str()), (0, ""));
            let why = refused[0]["reason"].as_str().unwrap();
            assert!(why.contains("`closed.txt` of commit") && why.contains("it is closed"), "{why}");
            assert!(of(&site, "task.finished")[0]["summary"].as_str().unwrap().contains("its commits were not imported"));
        } else {
            assert_eq!(
                (&imported[0]["reference"], &imported[0]["count"], refused.len()),
                (&json!("refs/skep/task-1"), &json!(1), 0),
                "{refused:?}"
            );
            assert_eq!(git(&site, &["log", "--format=%s", "refs/skep/task-1", "--not", "HEAD"]), "one");
            assert_eq!(git(&site, &["show", "refs/skep/task-1:made.txt"]), "x");
            assert_eq!(git(&site, &["fsck", "--strict"]), "");
        }
        assert_eq!(site.leftovers(), Vec::<String>::new());
    }
}

fn git(site: &Site, arguments: &[&str]) -> String {
    let mut git = std::process::Command::new("git");
    let output = git
        .args(["-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*"])
        .args(arguments)
        .current_dir(site.project())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// What git ignores stays with the worker whatever becomes of a task, so a client that built something can have the next one.
#[test]
fn build_output_that_git_ignores_keeps_no_client_from_staying() {
    let builds = "if ask('Bash', command='make')['permissionDecision'] == 'allow':\n    os.makedirs('build', exist_ok=True)\n    \
                  open('build/out.o', 'w').write('built')\n    say(type='user', message={'content': [{'type': 'tool_result', 'tool_use_id': 'Bash', 'content': 'ok'}]})\n";
    for is_ignored in [true, false] {
        let site = misbehaving(&format!("{builds}{TURNS}"));
        fs::write(site.project().join(".gitignore"), if is_ignored { "build/\n" } else { "other/\n" }).unwrap();
        site.ok(&["act", "build it", "--brain", "claude", "--await"]);
        if !is_ignored {
            site.ok(&["reject", "task-1"]);
        }
        site.ok(&["ask", "and now", "--brain", "claude", "--await"]);
        let two = served(&site)[1].clone();
        assert_eq!(two["reused"], is_ignored, "{two}");
        let why = if is_ignored { "it had worked on task-1" } else { "`build/out.o`" };
        assert!(two["why"].as_str().unwrap().contains(why), "{two}");
        assert_eq!(site.leftovers(), Vec::<String>::new());
    }
}

/// A client that ends while nobody needs it is not missed, and the next one's record says how it ended.
#[test]
fn a_client_that_ends_while_it_waits_is_told_of() {
    let site = misbehaving(TURNS);
    site.ok(&["ask", "one", "--brain", "claude", "--await"]);
    let first = served(&site)[0]["process"].clone();
    let process = rustix::process::Pid::from_raw(i32::try_from(first.as_i64().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    eventually("it goes", || !runs(&first));
    site.ok(&["ask", "two", "--brain", "claude", "--await"]);
    let two = served(&site)[1].clone();
    assert_eq!((&two["reused"], &two["why"]), (&json!(false), &json!("it had ended while it waited (signal 9)")));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}
