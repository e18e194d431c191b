//! Cassettes through the real kernel: recorded, redacted, played, and a task replayed against its record.

use crate::common::Site;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

const ANSWERS: &str = "on \"greeting\"\n  say hello there\n  delay 1ms\n  say and goodbye\n  usage in=3 out=5\n";
const SECRET: &str = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789";

/// A site whose models are the given provider.
fn site(url: &str) -> Site {
    let site = Site::new(&[("a.txt", "one\n")]);
    std::fs::create_dir(site.home()).unwrap();
    std::fs::write(site.folder.path().join("answers.txt"), ANSWERS).unwrap();
    let url = url.replace("HERE", site.folder.path().to_str().unwrap());
    let config =
        format!("providers: {{p: {{url: '{url}', dialect: [anthropic, chat]}}}}\nmodels: {{tactical: p/m}}\ngateway: {{loopback: true}}\n");
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    site
}

/// A program that asks a model, as `skep gateway run` starts it: prints the status and the answer.
fn client(text: &str) -> String {
    format!(
        "import json,os,urllib.request,urllib.error\n\
         body=json.dumps({{'model':'tactical','max_tokens':50,'stream':True,'messages':[{{'role':'user','content':'{text}'}}]}}).encode()\n\
         h={{'x-api-key':os.environ['ANTHROPIC_API_KEY'],'content-type':'application/json','anthropic-version':'2023-06-01','cookie':'never'}}\n\
         r=urllib.request.Request(os.environ['ANTHROPIC_BASE_URL']+'/v1/messages',body,h)\n\
         try:\n    a=urllib.request.urlopen(r)\nexcept urllib.error.HTTPError as e:\n    a=e\n\
         print(a.status, a.read().decode())\n"
    )
}

fn run(site: &Site, flags: &[&str], text: &str) -> String {
    let script = client(text);
    let arguments = [&["gateway", "run"], flags, &["--", "python3", "-c", &script]].concat();
    site.ok(&arguments)
}

#[test]
fn what_is_recorded_is_played_byte_for_byte_and_another_request_is_told_the_difference() {
    let site = site("script:HERE/answers.txt");
    let tape = site.folder.path().join("run.jsonl");
    let file = tape.to_str().unwrap();
    let text = format!("the greeting for {SECRET}");
    let first = run(&site, &["--record", file], &text);
    assert!(first.starts_with("200 ") && first.contains("and goodbye"), "{first}");
    assert_eq!(std::fs::metadata(&tape).unwrap().permissions().mode() & 0o777, 0o600);
    let written = std::fs::read_to_string(&tape).unwrap();
    assert!(!written.contains(SECRET) && written.contains("[redacted]"), "{written}");
    assert!(!written.contains("cookie") && !written.contains("x-api-key") && !written.contains("sk-skep-"), "{written}");
    let named = site.records(&["--kind", "cassette.started"]);
    assert_eq!(named[0]["payload"]["file"], file);
    let shown = site.json(&["cassette", "show", file]);
    assert_eq!(shown["cassettes"][0]["exchanges"][0]["model"], "tactical");

    // The provider is gone, and with it every other way to an answer.
    std::fs::remove_file(site.folder.path().join("answers.txt")).unwrap();
    assert_eq!(run(&site, &["--replay", file], &text), first);
    assert_eq!(run(&site, &["--replay", file, "--timing"], &text), first);
    let other = run(&site, &["--replay", file], "the greeting for nobody");
    assert!(other.starts_with("400 "), "{other}");
    let refusal: Value = serde_json::from_str(other.strip_prefix("400 ").unwrap().trim()).unwrap();
    let message = refusal["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("this request to `/v1/messages` was not recorded; it differs from request 1 in:"), "{message}");
    assert!(message.contains("recorded messages[0].content: the greeting for [redacted]"), "{message}");
    assert!(message.contains("asked    messages[0].content: the greeting for nobody"), "{message}");

    // A recorder that died in the middle of a line: what was whole is played, and the recording goes on behind it.
    let torn = site.folder.path().join("torn.jsonl");
    std::fs::write(&torn, format!("{written}{{\"request\":{{\"n\":2,\"dia")).unwrap();
    let torn = torn.to_str().unwrap();
    assert_eq!(run(&site, &["--replay", torn], &text), first);
    run(&site, &["--replay", file, "--record", torn], &text);
    assert_eq!(site.json(&["cassette", "show", torn])["cassettes"][0]["exchanges"].as_array().unwrap().len(), 2);

    // What is no cassette is neither played nor written to.
    let no = site.fails(2, &["gateway", "run", "--replay", site.project().join("a.txt").to_str().unwrap(), "--", "true"]);
    assert!(no.contains("is no cassette"), "{no}");
    let no = site.fails(7, &["gateway", "run", "--record", site.project().join("a.txt").to_str().unwrap(), "--", "true"]);
    assert!(no.contains("this is no cassette"), "{no}");
    assert_eq!(site.read("a.txt"), "one\n");
}

#[test]
fn a_script_that_cannot_be_played_is_told_with_its_place_and_not_worth_asking_again() {
    let site = site("script:HERE/answers.txt");
    std::fs::write(site.folder.path().join("answers.txt"), "on \"greet\"\n  sing\n").unwrap();
    let told = run(&site, &[], "greet");
    assert!(told.starts_with("400 ") && told.contains("answers.txt` cannot be played: line 2, column 3: `sing` is not one of"), "{told}");
}

#[test]
fn a_cassette_is_a_provider_that_every_process_plays_from_the_start() {
    let first = site("script:HERE/answers.txt");
    let tape = first.folder.path().join("run.jsonl");
    let answer = run(&first, &["--record", tape.to_str().unwrap()], "the greeting");
    let second = site(&format!("cassette:{}", tape.display()));
    assert_eq!(run(&second, &[], "the greeting"), answer);
    assert_eq!(run(&second, &[], "the greeting"), answer);
    let used = second.json(&["usage"]);
    assert_eq!(used["total"]["output"], 10, "replayed answers are metered: {used}");
    assert_eq!(used["total"]["micros"], 0, "and cost nothing: {used}");
}

const WORK: &str = "call fs.read path=a.txt\ncall fs.write path=b.txt content=\"new\\n\"\ncall fs.delete path=a.txt\ncall fs.read path=none.txt\ndone worked\n";

const POLICY: &str = "capabilities:\n  - {name: all, match: {syscall: '*'}, action: allow}\n  - {name: no-b, match: {syscall: fs.write, path_glob: b.txt}, action: deny}\n";

#[test]
fn a_replay_equals_its_task_after_the_merge_and_names_the_first_divergence() {
    let site = site("script:HERE/answers.txt");
    let script = site.script(WORK);
    site.ok(&["act", "work", "--brain", &script, "--await"]);
    let replayed = site.json(&["replay", "task-1"]);
    assert_eq!((&replayed["calls"], &replayed["divergence"]), (&4.into(), &Value::Null), "{replayed}");
    assert_eq!(site.read("a.txt"), "one\n", "a replay merges nothing");
    let told = site.ok(&["replay", "task-1"]);
    assert!(told.contains("task-1 replayed: 4 calls, 0 requests, changes identical"), "{told}");

    // The project moves on: the changes are in, other files too. The replay still starts from what was there then.
    site.ok(&["merge", "task-1", "--yes"]);
    site.write("c.txt", "later\n");
    site.git(&["add", "-A"]);
    site.git(&["commit", "-qm", "later"]);
    assert_eq!(site.read("b.txt"), "new\n");
    let replayed = site.json(&["replay", "task-1"]);
    assert_eq!(replayed["divergence"], Value::Null, "{replayed}");
    assert_eq!(site.count("merge.proposed"), 1);
    assert_eq!(site.count("review.asked"), 1, "only the merge of the original was asked about");

    // A rule that was not there then.
    site.write(".skep/policy.yaml", POLICY);
    site.trust();
    let output = site.skep(&["replay", "task-1", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let replayed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(replayed["divergence"]["at"], "call 2", "{replayed}");
    assert!(replayed["divergence"]["recorded"][1] == "came to: ok", "{replayed}");
    assert!(replayed["divergence"]["replayed"][1].as_str().unwrap().starts_with("came to: refused (denied)"), "{replayed}");
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

const TASK: &str =
    "on \"tidy\"\n  say I look first.\n  call read path=a.txt\nthen\n  call write path=b.txt content=\"new\\n\"\nthen\n  say All done.\n";

#[test]
fn the_built_in_brain_is_replayed_on_its_cassette_and_a_changed_answer_of_a_tool_is_named() {
    let site = site("script:HERE/answers.txt");
    let answers = site.folder.path().join("answers.txt");
    std::fs::write(&answers, TASK).unwrap();
    site.ok(&["act", "tidy up", "--brain", "native", "--record", "--await"]);
    let tape = site.home().join("cassettes/task-1.jsonl");
    assert_eq!(std::fs::metadata(&tape).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(site.json(&["cassette", "list"])["cassettes"][0]["exchanges"].as_array().unwrap().len(), 3);
    assert_eq!(site.records(&["--kind", "cassette.started"])[0]["payload"]["file"], "task-1.jsonl");

    // Another model would say something else now; the replay does not ask it.
    std::fs::write(&answers, "say Nothing to do.\n").unwrap();
    let told = site.ok(&["replay", "task-1"]);
    assert!(told.contains("task-1 replayed: 2 calls, 3 requests, changes identical"), "{told}");

    // Not recorded, not replayed.
    site.ok(&["act", "tidy up", "--brain", "native", "--await"]);
    let no = site.fails(5, &["replay", "task-3"]);
    assert!(no.contains("the traffic of task-3 was not recorded") && no.contains("--record"), "{no}");

    // A read that is refused now: the call differs.
    site.write(".skep/policy.yaml", &POLICY.replace("fs.write", "fs.read").replace("b.txt", "a.txt"));
    site.trust();
    let no = site.fails(1, &["replay", "task-1"]);
    assert!(no.contains("task-1 diverged at call 1") && no.contains("came to: refused (denied)"), "{no}");
    site.write(".skep/policy.yaml", "capabilities: [{name: all, match: {syscall: '*'}, action: allow}]\n");
    site.trust();

    // What the tool gives differs, as it would when a file that git ignores changed: the next request is not the recorded one.
    let text = std::fs::read_to_string(&tape).unwrap();
    assert!(text.contains("one\\\\n"), "{text}");
    std::fs::write(&tape, text.replace("one\\\\n", "two\\\\n")).unwrap();
    let no = site.fails(1, &["replay", "task-1"]);
    assert!(no.contains("task-1 diverged at request 2"), "{no}");
    assert!(no.contains("recorded  messages[2].content") && no.contains("two\\n") && no.contains("replayed  messages[2].content"), "{no}");
    // So does what the model says: it is the brain's next call that differs.
    assert!(text.contains("b.txt"), "{text}");
    std::fs::write(&tape, text.replace("b.txt", "z.txt")).unwrap();
    let no = site.fails(1, &["replay", "task-1"]);
    assert!(no.contains("task-1 diverged at call 2") && no.contains("b.txt") && no.contains("z.txt"), "{no}");
    site.ok(&["reject", "task-1"]);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// Prints what no run prints twice: the time, a pid, a temporary folder.
const RUNS: &str = "call shell.run command=[\"sh\", \"-c\", \"date +%FT%T.%N; echo pid $$ took 0.$$ s; mktemp\"]\ndone worked\n";

#[test]
fn a_replay_of_commands_compares_what_they_say_without_times_pids_and_temporary_names() {
    let site = site("script:HERE/answers.txt");
    site.ok(&["act", "work", "--brain", &site.script(RUNS), "--await"]);
    let told = site.ok(&["replay", "task-1"]);
    assert!(told.contains("task-1 replayed: 1 call, 0 requests, changes identical"), "{told}");
    // The control: what differs in anything else is a difference, and a check that says so is no failed task.
    site.ok(&["act", "work", "--brain", &site.script("call shell.run command=[\"sh\", \"-c\", \"date +%s%N\"]\ndone worked\n"), "--await"]);
    let no = site.fails(1, &["replay", "task-3"]);
    assert!(no.contains("task-3 diverged at call 1") && no.contains("came to: ok") && no.contains("stdout: "), "{no}");
    let status = site.ok(&["status"]);
    assert!(!status.contains('✗') && !status.contains("task-2") && !status.contains("task-4"), "{status}");
    let list = site.ok(&["list", "tasks"]);
    assert!(list.contains("✓ task-2") && list.contains("same as recorded"), "{list}");
    assert!(list.contains("≠ task-4") && list.contains("differs from the record"), "{list}");
    assert_eq!(site.json(&["status", "task-4"])["differs"], true);
}

#[test]
fn a_replayed_brain_hears_what_its_commands_said_then() {
    let site = site("script:HERE/answers.txt");
    let answers =
        "on \"tidy\"\n  call shell command=\"date +%s%N\"\nthen\n  call write path=b.txt content=\"new\\n\"\nthen\n  say All done.\n";
    std::fs::write(site.folder.path().join("answers.txt"), answers).unwrap();
    site.ok(&["act", "tidy up", "--brain", "native", "--record", "--await"]);
    // The command says something else now. The brain hears what it said then, so it asks its model the same and goes on to its end.
    let no = site.fails(1, &["replay", "task-1", "--json"]);
    let replayed: Value = serde_json::from_str(no.lines().find(|line| line.contains("divergence")).unwrap()).unwrap();
    assert_eq!((&replayed["requests"], &replayed["calls"]), (&3.into(), &2.into()), "{replayed}");
    assert_eq!(replayed["divergence"]["at"], "call 1", "{replayed}");
    site.ok(&["reject", "task-1"]);
}

#[test]
fn what_cannot_be_replayed_is_refused_with_a_reason() {
    let site = site("script:HERE/answers.txt");
    let no = site.fails(5, &["replay", "task-9"]);
    assert!(no.contains("task-9"), "{no}");
    let script = site.script("done nothing\n");
    site.ok(&["ask", "look", "--brain", &script, "--await"]);
    site.ok(&["replay", "task-1"]);
    let no = site.fails(9, &["replay", "task-2"]);
    assert!(no.contains("task-2 is a replay itself"), "{no}");
}

const ASKED: &str = "call fs.write path=b.txt content=\"new\\n\"\ncall fs.write path=b.txt content=\"new\\n\"\ndone worked\n";

/// Waits until so many questions were asked and the task waits for the last of them.
fn asked(site: &Site, count: usize) {
    while site.count("task.parked") < count {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(site.count("review.asked"), count);
}

#[test]
fn a_yes_counts_in_a_replay_for_the_same_call_as_often_as_it_was_given() {
    let site = site("script:HERE/answers.txt");
    site.write(".skep/policy.yaml", &POLICY.replace("fs.write, path_glob: b.txt}, action: deny", "fs.write}, action: require_review"));
    site.trust();
    let script = site.script(ASKED);
    site.ok(&["act", "work", "--brain", &script]);
    asked(&site, 1);
    site.ok(&["review", "allow", "r-1"]);
    asked(&site, 2);
    site.ok(&["review", "deny", "r-2", "--reason", "once is enough"]);
    asked(&site, 3);
    let told = site.ok(&["replay", "task-1"]);
    assert!(told.contains("task-1 replayed: 2 calls, 0 requests, changes identical"), "{told}");
    let given = site.records(&["--kind", "grant.given"]);
    let by: Vec<_> = given.iter().map(|record| record["payload"]["by"].as_str().unwrap()).collect();
    assert_eq!(by, ["operator", "the replay of task-1"]);
    assert_eq!(site.count("review.asked"), 3, "two calls and a merge of the original; a replay asks nobody");

    // The model says something else on a cassette that somebody changed: nobody said yes to that.
    std::fs::write(site.folder.path().join("answers.txt"), TASK).unwrap();
    let task = site.json(&["act", "tidy up", "--brain", "native", "--record"])["task"].as_str().unwrap().to_owned();
    asked(&site, 4);
    site.ok(&["review", "allow", "r-4"]);
    asked(&site, 5);
    let told = site.ok(&["replay", &task]);
    assert!(told.contains("replayed: 2 calls, 3 requests, changes identical"), "{told}");
    let tape = site.home().join(format!("cassettes/{task}.jsonl"));
    let text = std::fs::read_to_string(&tape).unwrap();
    std::fs::write(&tape, text.replace("new\\", "bad\\")).unwrap();
    let no = site.fails(1, &["replay", &task]);
    assert!(no.contains("diverged at call 2"), "{no}");
    assert!(no.contains(&format!("came to: refused (denied): a replay asks nobody, and nobody was asked this in {task}")), "{no}");
    ["task-1", &task].iter().for_each(|task| drop(site.ok(&["reject", task])));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

const THREE: &str = "call fs.write path=b.txt content=\"new\\n\"\ncall fs.write path=c.txt content=\"new\\n\"\n\
    call fs.write path=c.txt content=\"new\\n\"\ncall fs.write path=d.md content=\"new\\n\"\ndone worked\n";

#[test]
fn a_wide_yes_counts_in_a_replay_for_each_call_that_was_made_with_it() {
    let site = site("script:HERE/answers.txt");
    site.write(".skep/policy.yaml", &POLICY.replace("fs.write, path_glob: b.txt}, action: deny", "fs.write}, action: require_review"));
    site.trust();
    site.ok(&["act", "work", "--brain", &site.script(THREE)]);
    asked(&site, 1);
    // For three calls, and for text files alone: the fourth call is a question of its own.
    site.ok(&["review", "allow", "r-1", "--for", "process", "--paths", "*.txt", "--uses", "3"]);
    asked(&site, 2);
    site.ok(&["review", "allow", "r-2"]);
    asked(&site, 3);
    let told = site.ok(&["replay", "task-1"]);
    assert!(told.contains("task-1 replayed: 4 calls, 0 requests, changes identical"), "{told}");
    assert_eq!(site.count("review.asked"), 3, "two calls and a merge of the original; a replay asks nobody");
    // A yes that was taken back is none.
    let wide = site.records(&["--kind", "grant.given"])[0]["payload"]["grant"].as_str().unwrap().to_owned();
    site.ok(&["grant", "revoke", &wide]);
    let no = site.fails(1, &["replay", "task-1"]);
    assert!(no.contains("task-1 diverged at call 1") && no.contains(&format!("{wide} allowed it, and was taken back since")), "{no}");
    site.ok(&["reject", "task-1"]);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// Waits for what came of a replay, as the record has it.
fn finished(site: &Site, task: &str) -> Value {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let found = site.records(&["--kind", "replay.finished", "--task", task]);
        if let Some(found) = found.first() {
            return found["payload"].clone();
        }
        assert!(std::time::Instant::now() < end, "nothing came of {task}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Replays a task until `when`, and kills the kernel then.
fn killed(site: &Site, kernel: &mut std::process::Child, flags: &[&str], when: impl Fn() -> bool) {
    let mut replay = site.command(&[&["replay", "task-1"], flags].concat()).stderr(std::process::Stdio::null()).spawn().unwrap();
    while !when() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    assert!(!replay.wait().unwrap().success(), "nobody told it what came of it");
}

#[test]
fn a_replay_whose_kernel_was_killed_is_compared_by_the_next_one() {
    let site = site("script:HERE/answers.txt");
    std::fs::write(site.folder.path().join("answers.txt"), TASK).unwrap();
    site.ok(&["act", "tidy up", "--brain", "native", "--record", "--await"]);
    site.ok(&["kernel", "stop"]);
    // At the recorded pace the third answer takes its time.
    let tape = site.home().join("cassettes/task-1.jsonl");
    let text = std::fs::read_to_string(&tape).unwrap();
    let slow: String =
        text.lines().map(|line| if line.contains("\"text\":{\"n\":3,") { slowed(line) } else { format!("{line}\n") }).collect();
    assert_ne!(slow, text);
    std::fs::write(&tape, &slow).unwrap();
    let mut kernel = site.kernel(None);
    let asked = || site.records(&["--kind", "call.admitted", "--task", "task-2"]);
    killed(&site, &mut kernel, &["--timing"], || asked().iter().filter(|record| record["payload"]["tool"] == "model.request").count() == 3);
    let came = finished(&site, "task-2");
    assert_eq!((&came["difference"], &came["calls"], &came["requests"]), (&Value::Null, &2.into(), &3.into()), "{came}");
    assert_eq!(site.count("merge.proposed"), 1, "that of the original");

    // One that had failed and was not compared yet.
    std::fs::write(&tape, text.replace("one\\\\n", "two\\\\n")).unwrap();
    site.ok(&["kernel", "stop"]);
    let mut kernel = site.kernel(Some("compare:0"));
    let mut replay = site.command(&["replay", "task-1"]).stderr(std::process::Stdio::null()).spawn().unwrap();
    kernel.wait().unwrap();
    assert!(!replay.wait().unwrap().success());
    let came = finished(&site, "task-3");
    assert!(came["difference"].as_str().unwrap().starts_with("request 2\n  recorded messages[2].content"), "{came}");
    assert_eq!((site.count("replay.started"), site.count("replay.finished")), (2, 2));
    site.ok(&["reject", "task-1"]);
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// The same chunk ten minutes later.
fn slowed(line: &str) -> String {
    let mut line: Value = serde_json::from_str(line).unwrap();
    line["text"]["ms"] = 600_000.into();
    format!("{line}\n")
}

#[test]
fn a_cassette_that_cannot_be_read_says_why_and_hides_no_other() {
    let site = site("script:HERE/answers.txt");
    std::fs::write(site.folder.path().join("answers.txt"), TASK).unwrap();
    site.ok(&["act", "tidy up", "--brain", "native", "--record", "--await"]);
    let tape = site.home().join("cassettes/task-1.jsonl");
    let text = std::fs::read_to_string(&tape).unwrap();
    for (bytes, why) in [
        (b"garbage\n".to_vec(), "line 1: this is no cassette"),
        (text.replacen("\"version\":1", "\"version\":9", 1).into_bytes(), "line 1: version 9 of cassettes is not known here"),
        (b"\xff\xfe".to_vec(), "it is not UTF-8 text"),
        (Vec::new(), "line 1: this is no cassette"),
    ] {
        std::fs::write(&tape, bytes).unwrap();
        std::fs::write(site.home().join("cassettes/task-9.jsonl"), &text).unwrap();
        for command in [&["replay", "task-1"][..], &["cassette", "show", "task-1"]] {
            let no = site.fails(2, command);
            assert!(no.contains("task-1.jsonl` is no cassette: ") && no.contains(why) && no.contains("record it again"), "{no}");
        }
        let listed = site.json(&["cassette", "list"]);
        assert!(listed["cassettes"][0]["broken"].as_str().unwrap().contains(why), "{listed}");
        assert_eq!(listed["cassettes"][1]["exchanges"].as_array().unwrap().len(), 3, "{listed}");
    }
    // Cut in the middle of an exchange, it has those before: the replay says which request it lacks.
    let cut = text.find("{\"request\":{\"n\":3").unwrap() + 100;
    std::fs::write(&tape, &text[..cut]).unwrap();
    let no = site.fails(1, &["replay", "task-1"]);
    assert!(no.contains("task-1 diverged at request 3") && no.contains("every recorded one has been played"), "{no}");
}
