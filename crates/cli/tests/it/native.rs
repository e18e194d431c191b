//! The built-in brain in the real kernel: a window that slides, and a death in the middle of a task.

use crate::common::Site;
use crate::common::provider::eventually;
use serde_json::Value;
use std::path::PathBuf;

/// A site whose brain thinks with a script. `more` are further settings of the provider.
pub fn site(script: &str, more: &str, files: &[(&str, &str)]) -> (Site, PathBuf) {
    let site = Site::new(files);
    std::fs::create_dir(site.home()).unwrap();
    let answers = site.folder.path().join("answers.txt");
    std::fs::write(&answers, script).unwrap();
    let config = format!(
        "providers: {{p: {{url: 'script:{}', dialect: anthropic{more}}}}}\nmodels: {{tactical: p/m, operational: p/s}}\n",
        answers.display()
    );
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    site.ok(&["init"]);
    (site, answers)
}

/// The requests to models so far, oldest first.
fn requests(site: &Site) -> Vec<Value> {
    let admitted = site.records(&["--kind", "call.admitted"]).into_iter().map(|record| record["payload"].clone());
    admitted.filter(|payload| payload["tool"] == "model.request").collect()
}

/// Reads on and on, until what it read before has become a summary.
const READER: &str = "on \"SUMMARY-OF-THE-TURNS\"\n  say I know what I read.\n  repeat\n\
    on \"look\"\n  call read path=a.txt\nthen\n  call read path=b.txt\nthen\n  call read path=a.txt\nthen\n  call read path=b.txt\n\
    then\n  call read path=a.txt\nthen\n  say It never became too much.\n\
    otherwise\n  say SUMMARY-OF-THE-TURNS two files with many lines\n";

#[test]
fn what_no_longer_fits_becomes_a_summary_and_the_work_goes_on() {
    let long: String = (0..400).map(|n| format!("line {n} of a long file\n")).collect();
    let (site, _) = site(READER, ", context_tokens: 16500", &[("a.txt", &long), ("b.txt", &long)]);
    site.ok(&["ask", "look at both files", "--brain", "native", "--await"]);
    let task = &site.json(&["list", "tasks"])["tasks"][0];
    assert_eq!((&task["state"], &task["summary"]), (&"done".into(), &"I know what I read.".into()), "{task}");
    let asked = requests(&site);
    let tiers: Vec<_> = asked.iter().map(|request| request["input"]["tier"].as_str().unwrap()).collect();
    let summed_up = tiers.iter().position(|tier| *tier == "operational").expect("nothing was summed up");
    assert!(summed_up >= 2, "after some reading: {tiers:?}");
    assert_eq!(tiers[summed_up + 1..], ["tactical"], "then it goes on: {tiers:?}");
    let bytes = |at: usize| asked[at]["input"]["bytes"].as_u64().unwrap();
    assert!(bytes(summed_up + 1) < bytes(summed_up - 1), "with less: {} and {}", bytes(summed_up + 1), bytes(summed_up - 1));
    // Nothing was sent that the window could not hold.
    assert!((0..asked.len()).all(|at| bytes(at) / 4 < 16_500));
}

#[test]
fn a_kernel_that_is_killed_while_it_sums_up_sums_up_again_and_reads_nothing_twice() {
    let long: String = (0..400).map(|n| format!("line {n} of a long file\n")).collect();
    let slow = READER.replace("otherwise\n", "otherwise\n  delay 10m\n");
    let (site, answers) = site(&slow, ", context_tokens: 16500", &[("a.txt", &long), ("b.txt", &long)]);
    site.ok(&["kernel", "stop"]);
    let mut kernel = site.kernel(None);
    site.ok(&["ask", "look at both files", "--brain", "native"]);
    let summaries = || requests(&site).iter().filter(|request| request["input"]["tier"] == "operational").count();
    eventually("it sums up", || summaries() == 1);
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    std::fs::write(&answers, READER).unwrap();
    let reads = || site.records(&["--kind", "call.admitted"]).iter().filter(|record| record["payload"]["tool"] == "fs.read").count();
    let before = reads();
    eventually("it ends", || site.json(&["list", "tasks"])["tasks"][0]["summary"] == "I know what I read.");
    assert_eq!((summaries(), reads()), (2, before), "the summary is asked for again, and its calls have their outcome");
    assert!(before >= 2);
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

const WORKER: &str =
    "on \"work\"\n  call write path=b.txt content=\"once\\n\"\nthen\n  call read path=b.txt\nthen\n  delay 10m\n  say All done.\n";

#[test]
fn a_brain_whose_kernel_was_killed_goes_on_where_it_was() {
    let (site, answers) = site(WORKER, "", &[("a.txt", "one\n")]);
    site.ok(&["kernel", "stop"]);
    let mut kernel = site.kernel(None);
    let task = site.json(&["act", "do the work", "--brain", "native"])["task"].as_str().unwrap().to_owned();
    eventually("the model is asked for its third answer", || requests(&site).len() == 3);
    // Admitted is not sent: what a crash holds is what was noted as having left, so that is what is waited for.
    let third = requests(&site)[2]["call"].as_str().unwrap().to_owned();
    let has_left = || std::fs::read_to_string(site.home().join("run/sent")).unwrap().contains(&format!("\"{third}\""));
    eventually("the third request has left", has_left);
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    // This time it says it at once.
    std::fs::write(&answers, WORKER.replace("  delay 10m\n", "")).unwrap();
    let state = || site.json(&["list", "tasks"])["tasks"].as_array().unwrap().iter().find(|found| found["task"] == *task).unwrap().clone();
    eventually("the task comes to its merge", || !state()["review"].is_null());
    let records = site.records(&["--task", &task]);
    let made = |tool: &str| records.iter().filter(|record| record["type"] == "call.admitted" && record["payload"]["tool"] == tool).count();
    assert_eq!((made("fs.write"), made("fs.read"), made("model.request")), (1, 1, 4), "only the request that was lost is made again");
    assert!(records.iter().any(|record| record["type"] == "call.lost" && record["payload"]["tool"] == "model.request"));
    assert!(records.iter().any(|record| record["type"] == "brain.remembered"), "what it knew was kept");
    // What the lost request may have cost is held, and nothing of its lease.
    let usage = site.json(&["usage"]);
    assert_eq!((&usage["total"]["estimated"], site.count("model.held")), (&0.into(), 1));
    assert!(usage["held"]["tokens"]["tactical"].as_u64() > Some(0), "{usage}");
    site.ok(&["merge", &task, "--yes"]);
    assert_eq!(site.read("b.txt"), "once\n");
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// A cancel, an interruption or a time limit ends the request that is on its way, and none that the task makes when it goes on.
#[test]
fn a_task_that_was_stopped_while_its_model_answered_goes_on() {
    let slow = format!("{WORKER}on \"quick\"\n  say quick\n");
    let fast = slow.replace("  delay 10m\n", "");
    let (site, answers) = site(&slow, "", &[("a.txt", "one\n")]);
    let begin = |more: &[&str]| {
        std::fs::write(&answers, &slow).unwrap();
        let before = requests(&site).len();
        let act = [&["act", "do the work", "--brain", "native", "--who", "worker.1"], more].concat();
        let task = site.json(&act)["task"].as_str().unwrap().to_owned();
        eventually("the model is asked for its third answer", || requests(&site).len() == before + 3);
        task
    };
    let ends = |task: &str| {
        eventually("it comes to its merge", || !site.task(task)["review"].is_null() || site.is(task, "failed"));
        assert_eq!(site.task(task)["summary"], "All done.");
    };
    let cancelled = begin(&[]);
    site.ok(&["cancel", &cancelled]);
    std::fs::write(&answers, &fast).unwrap();
    site.ok(&["retry", &cancelled]);
    ends(&cancelled);

    let disrupted = begin(&[]);
    std::fs::write(&answers, &fast).unwrap();
    let told = site.json(&["ask", "quick", "--brain", "native", "--who", "worker.1", "--when", "disrupt", "--await"]);
    assert_eq!(told["summary"], "quick");
    ends(&disrupted);

    let late = begin(&["--timeout", "30s"]);
    eventually("it is stopped", || site.is(&late, "stopped"));
    std::fs::write(&answers, &fast).unwrap();
    site.ok(&["retry", &late]);
    ends(&late);
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
}

/// A brain that looks at two things at once and then writes one.
const BOTH: &str = "on \"greet\"\n  think A look first.\n  say I look.\n  call list path=.\n  call read path=a.txt\n\
    then\n  on result error\n    say It failed.\n  on result ok\n    call write path=b.txt content=\"hello\\n\"\nthen\n  say Greeted.\n\
    on \"miss\"\n  call read path=none.txt\nthen\n  on result error\n    say It is not there.\n  on result ok\n    say It is there.\n";

#[test]
fn it_speaks_every_dialect_with_a_model_named_by_its_provider() {
    let (site, answers) = site(BOTH, "", &[("a.txt", "one\n")]);
    let providers = ["anthropic", "responses", "chat", "gemini"]
        .map(|dialect| format!("  {dialect}-p: {{url: 'script:{}', dialect: {dialect}}}\n", answers.display()));
    std::fs::write(site.home().join("config.yml"), format!("providers:\n{}", providers.concat())).unwrap();
    site.ok(&["kernel", "stop"]);
    for dialect in ["anthropic", "responses", "chat", "gemini"] {
        let brain = format!("native:{dialect}-p/m-1");
        let told = site.json(&["act", "greet us", "--brain", &brain, "--await"]);
        assert_eq!((&told["summary"], &told["merge"]), (&"Greeted.".into(), &"proposed".into()), "{dialect}: {told}");
        let asked = requests(&site);
        let last = &asked.last().unwrap()["input"];
        assert_eq!((&last["dialect"], &last["model"]), (&dialect.into(), &"m-1".into()));
        // A failed call is one in every dialect, also where there is no mark for it.
        let told = site.json(&["ask", "miss it", "--brain", &brain, "--await"]);
        assert_eq!(told["summary"], "It is not there.", "{dialect}: {told}");
    }
}

#[test]
fn a_hundred_calls_of_one_answer_are_all_made() {
    let calls: String = (1..=100).map(|n| format!("  call read path=a.txt offset={n}\n")).collect();
    let script = format!("on \"look\"\n{calls}then\n  on result ok\n    say All came.\n  else\n    say Some did not.\n");
    let (site, _) = site(&script, "", &[("a.txt", &"line\n".repeat(200))]);
    let told = site.json(&["ask", "look", "--brain", "native", "--await"]);
    assert_eq!(told["summary"], "All came.", "{told}");
}

#[test]
fn a_budget_that_is_used_up_ends_the_task_at_once_in_every_dialect() {
    let (site, answers) = site("on \"greet\"\n  say hello\n", "", &[]);
    site.ok(&["budget", "set", "1", "--tokens", "tactical=10"]);
    for dialect in ["anthropic", "responses", "chat", "gemini"] {
        let config = format!("providers: {{p: {{url: 'script:{}', dialect: {dialect}}}}}\nmodels: {{tactical: p/m}}\n", answers.display());
        std::fs::write(site.home().join("config.yml"), config).unwrap();
        site.ok(&["kernel", "stop"]);
        let before = site.records(&["--kind", "call.refused"]).len();
        let said = site.fails(8, &["ask", "greet", "--brain", "native", "--await"]);
        assert!(said.contains("the budget of kernel does not hold it") && !said.contains("the model answered"), "{dialect}: {said}");
        assert_eq!(site.records(&["--kind", "call.refused"]).len(), before + 1, "{dialect}: it is asked for once, not seven times");
    }
}

/// A limit of calls and a rule are ours too: told in our words, in every dialect, and asked once.
#[test]
fn what_we_refuse_is_never_told_as_the_models_answer_and_never_retried() {
    let allowed = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow, reason: a test}\n";
    let denied = format!("{allowed}- {{name: no-models, match: {{syscall: model.request}}, action: deny, reason: no models here}}\n");
    for (policy, limit, why) in [(allowed, "1", "no calls are left in the budget of `worker.1`"), (&*denied, "9", "no models here")] {
        let site = Site::new(&[(".skep/policy.yaml", policy), ("a.txt", "one\n")]);
        std::fs::create_dir(site.home()).unwrap();
        let answers = site.folder.path().join("answers.txt");
        std::fs::write(&answers, "on \"greet\"\n  call read path=a.txt\nthen\n  say hello\n").unwrap();
        let refused = || {
            let all = site.records(&["--kind", "call.refused"]);
            all.iter().filter(|record| record["payload"]["tool"] == "model.request").count()
        };
        for (nth, dialect) in ["anthropic", "responses", "chat", "gemini"].into_iter().enumerate() {
            let config =
                format!("providers: {{p: {{url: 'script:{}', dialect: {dialect}}}}}\nmodels: {{tactical: p/m}}\n", answers.display());
            std::fs::write(site.home().join("config.yml"), config).unwrap();
            site.trust();
            let code = if policy == allowed { 8 } else { 1 };
            let said = site.fails(code, &["ask", "greet", "--brain", "native", "--max-calls", limit, "--await"]);
            assert!(said.contains(why) && !said.contains("the model answered") && !said.contains("asking again"), "{dialect}: {said}");
            assert_eq!(refused(), nth + 1, "{dialect}: it is asked for once");
            site.ok(&["kernel", "stop"]);
        }
        if policy == allowed {
            // Control: with enough calls the same task is done.
            assert!(site.ok(&["ask", "greet", "--brain", "native", "--max-calls", "3", "--await"]).contains("hello"));
        }
    }
}

#[test]
fn a_script_that_cannot_be_played_queues_nothing() {
    let (site, _) = site("on \"greet\"\n  sing a song\n", "", &[]);
    let no = site.fails(2, &["ask", "greet", "--brain", "native"]);
    assert!(
        no.contains("answers.txt` cannot be played: line 2, column 3: `sing` is not one of on, ") && no.contains("mend the file"),
        "{no}"
    );
    assert_eq!(site.json(&["list", "tasks"])["tasks"], Value::Array(Vec::new()));
}

#[test]
fn ctrl_c_ends_the_waiting_and_not_the_work() {
    let (site, _) = site("on \"greet\"\n  delay 2s\n  say Hello.\n", "", &[]);
    let waiting = site.command(&["ask", "greet", "--brain", "native", "--await"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    eventually("the model is asked", || requests(&site).len() == 1);
    let killed = std::process::Command::new("kill").args(["-INT", &waiting.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = waiting.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("task-1 works on") && said.contains("skep watch task-1, or skep cancel task-1"), "{said}");
    eventually("the work comes to its end", || site.json(&["list", "tasks"])["tasks"][0]["summary"] == "Hello.");
}

#[test]
fn a_model_that_goes_round_in_circles_is_told_so_and_then_the_task_ends() {
    let script = "on \"look\"\n  call shell command=\"cat a.txt\"\nthen\n  call read path=a.txt\nrepeat\n";
    let (site, _) = site(script, "", &[("a.txt", "one\n")]);
    let no = site.fails(1, &["act", "look", "--brain", "native", "--await"]);
    let circles = "the model goes round in circles: 20 rounds of calls in a row brought nothing new; it makes these again and again: ";
    assert!(no.contains(circles) && no.contains("shell.run {") && no.contains("fs.read {\"path\":\"a.txt\"}"), "{no}");
    assert!(no.contains("word the task differently, or use another model"), "{no}");
    let said = site.records(&["--kind", "brain.said"]);
    let warned =
        said.iter().any(|record| record["payload"]["text"].as_str().unwrap().contains("5 rounds of calls in a row brought nothing new"));
    assert!(warned, "{said:?}");
    assert_eq!(requests(&site).len(), 22, "two that were new, and twenty that were not");
}

const RULES: &str = "\
capabilities:
  - { name: models, match: { syscall: model.request }, action: allow }
  - { name: writes, match: { syscall: fs.write }, action: allow }
  - { name: reads, match: { syscall: fs.read, path_glob: [a.txt, b.txt] }, action: allow }
  - { name: mine, match: { syscall: fs.read, path_glob: diary.txt, caller_tag: operator }, action: allow }
  - { name: theirs, match: { syscall: fs.read, path_glob: diary.txt, caller_tag: brain }, action: require_review, reason: it is private }
";

#[test]
fn calls_that_are_asked_for_again_get_their_own_outcomes_however_many_they_are() {
    let reads: String = (1..=100).map(|n| format!("  call read path=a.txt offset={n}\n")).collect();
    let script = format!(
        "on \"look\"\n  call write path=b.txt content=\"once\\n\"\n{reads}  call read path=diary.txt\n\
         then\n  on result contains \"dear diary\"\n    say I read it.\n  else\n    say I may not.\n"
    );
    let (site, _) = site(&script, "", &[("a.txt", &"line\n".repeat(200)), ("diary.txt", "dear diary\n")]);
    site.write(".skep/policy.yaml", RULES);
    site.trust();
    let output = site.skep(&["act", "look", "--brain", "native", "--await"]);
    assert_eq!(output.status.code(), Some(4), "{}", crate::common::text(&output));
    // What the operator reads in the task's room is the operator's.
    assert!(site.ok(&["call", "fs.read", "path=diary.txt", "--task", "task-1"]).contains("dear diary"));
    site.ok(&["review", "deny", "r-1"]);
    let summary = || site.json(&["list", "tasks"])["tasks"][0]["summary"].as_str().map(str::to_owned);
    eventually("it goes on", || summary().is_some());
    let summary = summary().unwrap();
    assert!(summary.starts_with("I may not."), "{summary}");
    let admitted = site.records(&["--kind", "call.admitted"]);
    let brain = requests(&site)[0]["pid"].clone();
    let own: Vec<&Value> = admitted.iter().map(|record| &record["payload"]).filter(|made| made["pid"] == brain).collect();
    let made = |tool: &str| own.iter().filter(|made| made["tool"] == tool).count();
    assert_eq!((made("fs.write"), made("fs.read")), (1, 100), "once each");
}
