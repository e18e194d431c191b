//! What is cancelled ends at once, with every process and request of it, and whoever waited for it is told why.

use crate::common::provider::{Provider, eventually};
use crate::common::{Site, text};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::process::{Child, Output, Stdio};
use std::sync::atomic::Ordering;

const OPEN: &str = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow, reason: a test}\n";

/// A shell with a child of its own, both known by a number that nothing else has.
fn sleeper(site: &Site) -> (String, String) {
    let mark = format!(
        "31{:07}",
        site.folder.path().display().to_string().bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte)) % 9_999_999
    );
    let script = format!("sleep {mark} & echo up; sleep {mark}; echo never");
    (mark, script)
}

/// Processes of this machine whose command line holds the mark.
fn alive(mark: &str) -> usize {
    let found = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let pid = entry.file_name().to_string_lossy().into_owned();
        let is_sleep = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default().starts_with(b"sleep\0");
        is_sleep && String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).contains(mark)
    });
    found.count()
}

fn begin(site: &Site, arguments: &[&str]) -> Child {
    site.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

#[track_caller]
fn nothing_is_left(site: &Site, mark: &str) {
    assert_eq!(alive(mark), 0, "a process is left");
    let open = site.json(&["sandbox", "ps"]);
    assert!(!open.to_string().contains(mark), "{open}");
    assert_eq!(site.count("task.cancelled"), 1);
}

fn site(policy: &str, more: &[(&str, &str)]) -> Site {
    let files: Vec<_> = [(".skep/policy.yaml", policy), ("a.txt", "one\n")].into_iter().chain(more.iter().copied()).collect();
    let site = Site::new(&files);
    site.trust();
    site
}

#[test]
fn a_sandbox_run_ends_with_all_its_processes() {
    for what in ["task-1", "sh.1", "helper.1"] {
        let site = site(OPEN, &[]);
        let (mark, script) = sleeper(&site);
        let named: &[&str] = if what == "helper.1" { &["--name", "helper"] } else { &[] };
        let run = begin(&site, &[&["sandbox", "run"], named, &["--", "sh", "-c", &script]].concat());
        eventually("it runs", || alive(&mark) == 2);
        let processes = site.json(&["ps"]);
        let job = processes["processes"].as_array().unwrap().iter().find(|process| process["role"] == "job").unwrap();
        let wanted = if what == "helper.1" { what } else { "sh.1" };
        assert_eq!((job["name"].as_str().unwrap(), job["parent"].as_u64(), job["task"].as_str()), (wanted, Some(2), Some("task-1")));
        site.ok(&["cancel", what]);
        nothing_is_left(&site, &mark);
        let output = end(run);
        assert!(!output.status.success() && text(&output).contains("task-1 was cancelled by operator"), "{}", text(&output));
        let exited = site.records(&[]).into_iter().find(|record| record["type"] == "proc.exited").unwrap();
        assert_eq!(exited["payload"]["killed"], true);
        // It is over for good, and the next goes on.
        site.fails(9, &["cancel", "task-1"]);
        assert_eq!(site.skep(&["sandbox", "run", "--discard", "--", "true"]).status.code(), Some(0));
        assert_eq!(site.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn a_call_ends_with_its_task_or_by_its_own_name() {
    let site = site(OPEN, &[]);
    let (mark, script) = sleeper(&site);
    let command = format!("command={}", serde_json::json!(["sh", "-c", script]));
    let run = begin(&site, &["call", "shell.run", &command]);
    eventually("it runs", || alive(&mark) == 2);
    site.ok(&["cancel", "task-1"]);
    nothing_is_left(&site, &mark);
    let output = end(run);
    assert!(!output.status.success() && text(&output).contains("task-1 was cancelled by operator"), "{}", text(&output));

    let run = begin(&site, &["call", "shell.run", &command]);
    eventually("it runs again", || alive(&mark) == 2);
    let admitted = site.records(&[]).into_iter().rfind(|record| record["type"] == "call.admitted").unwrap();
    let call = admitted["payload"]["call"].as_str().unwrap().to_owned();
    site.ok(&["cancel", &call]);
    assert_eq!(alive(&mark), 0);
    assert!(text(&end(run)).contains(&format!("{call} was cancelled by operator")));
    site.fails(5, &["cancel", &call]);
    site.fails(5, &["cancel", "nobody"]);
    assert_eq!(site.count("task.cancelled"), 1, "the call ended, and not its task");
}

#[test]
fn a_brains_work_and_a_try_over_it_end_with_the_task() {
    let site = site(OPEN, &[]);
    let (mark, script) = sleeper(&site);
    let brain = site.script(&format!("call shell.run command={}\n", serde_json::json!(["sh", "-c", script])));
    site.ok(&["act", "work", "--brain", &brain]);
    eventually("it runs", || alive(&mark) == 2);
    let tried = begin(&site, &["try", "task-1", "--", "sh", "-c", &script]);
    eventually("both run", || alive(&mark) == 4);
    site.ok(&["cancel", "task-1"]);
    nothing_is_left(&site, &mark);
    let output = end(tried);
    assert!(!output.status.success() && text(&output).contains("task-1 was cancelled by operator"), "{}", text(&output));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn the_kernels_own_test_run_ends_with_the_task() {
    let site = Site::new(&[(".skep/policy.yaml", OPEN), ("docs/a.md", "one\n")]);
    let (mark, script) = sleeper(&site);
    site.write("skep.yml", &format!("test: {{command: {}}}\nmerge: {{safe: ['docs/**']}}\n", serde_json::json!(["sh", "-c", script])));
    site.trust();
    let run = begin(&site, &["call", "fs.write", "path=docs/a.md", "content=two"]);
    eventually("the kernel tests it", || alive(&mark) == 2);
    site.ok(&["cancel", "task-1"]);
    nothing_is_left(&site, &mark);
    assert!(text(&end(run)).contains("task-1 was cancelled by operator"));
    assert_eq!(site.read("docs/a.md"), "one\n");
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// Asks a model and waits for an answer that never ends.
const ASKS: &str = r#"
import json, os, urllib.request
body = {'model': 'tactical', 'max_tokens': 100, 'stream': True, 'messages': [{'role': 'user', 'content': 'hi'}]}
head = {'x-api-key': os.environ['ANTHROPIC_API_KEY'], 'content-type': 'application/json'}
with urllib.request.urlopen(urllib.request.Request(os.environ['ANTHROPIC_BASE_URL'] + '/v1/messages', json.dumps(body).encode(), head)) as answer:
    for line in answer:
        print(line.decode().strip(), flush=True)
print('ended', flush=True)
"#;

#[test]
fn a_request_in_flight_ends_with_its_job() {
    let provider = Provider::start(true);
    let site = provider.site("");
    let config = site.home().join("config.yml");
    let more = "sandbox: {templates: {agent: {from: default, models: true}}}\n";
    std::fs::write(&config, std::fs::read_to_string(&config).unwrap() + more).unwrap();
    site.ok(&["init"]);
    let run = begin(&site, &["sandbox", "run", "-t", "agent", "--money", "5", "--", "python3", "-c", ASKS]);
    eventually("the provider is asked", || provider.heard.load(Ordering::SeqCst) == 1);
    // Its process is the one that asks, has its own budget, and is shown with what it reserved.
    let reserved = site.records(&[]).into_iter().find(|record| record["type"] == "model.reserved").unwrap();
    let processes = site.json(&["ps"]);
    let job = processes["processes"].as_array().unwrap().iter().find(|process| process["role"] == "job").unwrap().clone();
    assert_eq!((&reserved["payload"]["pid"], job["name"].as_str()), (&job["pid"], Some("python3.1")));
    let account = crate::common::provider::account(&site, job["pid"].as_u64().unwrap());
    assert_eq!(account["budget"]["micros"], 5_000_000);
    let mut upstream = provider.hung.lock().unwrap().pop().unwrap();
    upstream.set_nonblocking(true).unwrap();
    assert_eq!(upstream.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "it is open");
    site.ok(&["cancel", "task-1"]);
    assert_eq!(upstream.read(&mut [0]).unwrap(), 0, "the upstream is closed when the cancel is over");
    assert!(text(&end(run)).contains("task-1 was cancelled by operator"));
    eventually("it is settled", || site.count("model.used") == 1);
    assert!(site.ok(&["usage", "--by", "process"]).contains("python3.1"));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// Whoever runs a program at the gateway, and a mark of that program's.
fn program(site: &Site) -> (String, Child) {
    let (mark, script) = sleeper(site);
    // In the background, in a session of its own, and in front: none of them stays.
    let child = begin(site, &["gateway", "run", "--", "sh", "-c", &format!("setsid sleep {mark} & {script}")]);
    eventually("the program runs", || alive(&mark) == 3);
    (mark, child)
}

#[test]
fn a_signal_to_gateway_run_takes_its_program_along() {
    use rustix::process::{Pid, Signal, kill_process};
    let provider = Provider::start(false);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::KILL] {
        let site = provider.site("");
        let (mark, child) = program(&site);
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
        let status = end(child).status;
        match signal {
            Signal::KILL => eventually("what it held is told of its death", || alive(&mark) == 0),
            signal => assert_eq!((status.code(), alive(&mark)), (Some(128 + signal.as_raw()), 0), "{signal:?}"),
        }
    }
    // Positive control: a program that ends by itself ends the command, with its own code.
    let site = provider.site("");
    assert_eq!(site.skep(&["gateway", "run", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert!(text(&site.skep(&["gateway", "run", "--", "no-such-program"])).contains("cannot run `no-such-program`"));
}

#[test]
fn a_kernel_that_dies_under_a_program_is_told_at_once() {
    let provider = Provider::start(false);
    let site = provider.site("");
    let mut kernel = site.kernel(None);
    let (mark, mut child) = program(&site);
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    let mut said = [0; 200];
    // Comes while the program still runs: nothing else would end this wait.
    let got = child.stderr.as_mut().unwrap().read(&mut said).unwrap();
    assert!(String::from_utf8_lossy(&said[..got]).contains("the kernel went away"), "{}", String::from_utf8_lossy(&said));
    assert_eq!(alive(&mark), 3, "what to do about it is the program's business");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    end(child);
    assert_eq!(alive(&mark), 0);
}

#[test]
fn a_program_outside_that_is_cancelled_hears_why_in_its_own_format() {
    let provider = Provider::start(true);
    let site = provider.site("");
    let run = begin(&site, &["gateway", "run", "--", "python3", "-c", ASKS]);
    eventually("the provider is asked", || provider.heard.load(Ordering::SeqCst) == 1);
    eventually("it is on the way", || !provider.hung.lock().unwrap().is_empty());
    let mut upstream = provider.hung.lock().unwrap().pop().unwrap();
    upstream.set_nonblocking(true).unwrap();
    assert_eq!(upstream.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "it is open");
    site.ok(&["cancel", "client.1"]);
    assert_eq!(upstream.read(&mut [0]).unwrap(), 0, "the upstream is closed when the cancel is over");
    let output = end(run);
    let said = text(&output);
    assert!(said.contains("event: error") && said.contains(r#""type":"error""#), "{said}");
    assert!(said.contains("was cancelled by operator"), "{said}");
    assert_eq!(site.count("model.used"), 1);
    let exited = site.records(&[]).into_iter().find(|record| record["type"] == "proc.exited").unwrap();
    assert_eq!((exited["payload"]["killed"].as_bool(), exited["payload"]["reason"].as_str()), (Some(true), Some("cancelled by operator")));
    site.fails(5, &["cancel", "client.1"]);
}

/// A merge that is on its way in comes to its end; then the cancel says what became of it.
#[test]
fn a_cancel_during_a_merge_waits_for_it_and_says_that_it_went_in() {
    const FILES: usize = 300;
    let site = Site::new(&[(".skep/policy.yaml", OPEN), ("a.txt", "one\n")]);
    let mut kernel = site.kernel(None);
    let pid = Pid::from_child(&kernel);
    site.trust();
    let write = format!("for n in $(seq {FILES}); do echo $n > f$n; done");
    let brain = site.script(&format!("call shell.run command={}\n", serde_json::json!(["sh", "-c", write])));
    let begun = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(".skep-merge-") || name == "f1";
    let mut is_raced = false;
    // Where the merge was over before the cancel came, nothing was tried; the next round tries again.
    for round in 1..=20 {
        let task = format!("task-{round}");
        site.ok(&["act", "write", "--brain", &brain, "--await"]);
        let merge = begin(&site, &["merge", &task, "--yes"]);
        while !std::fs::read_dir(site.project()).unwrap().flatten().any(|entry| begun(&entry.file_name())) {
            std::thread::yield_now();
        }
        // The kernel stands still in the middle, until somebody has come to cancel.
        kill_process(pid, Signal::STOP).unwrap();
        let cancel = begin(&site, &["cancel", &task]);
        let fds = format!("/proc/{}/fd", cancel.id());
        let is_socket =
            |entry: std::fs::DirEntry| std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
        let has_come = || std::fs::read_dir(&fds).unwrap().flatten().any(is_socket);
        eventually("somebody comes to cancel", has_come);
        kill_process(pid, Signal::CONT).unwrap();
        let refused = end(cancel);
        assert_eq!(refused.status.code(), Some(9), "{}", text(&refused));
        assert!(end(merge).status.success());
        let present = (1..=FILES).filter(|n| site.project().join(format!("f{n}")).exists()).count();
        assert_eq!((present, site.count("task.cancelled")), (FILES, 0), "all of it is in");
        let told = text(&refused);
        is_raced = told.contains("was being merged when you cancelled it") && told.contains("undo the merge");
        site.ok(&["merge", "undo", &task]);
        if is_raced {
            break;
        }
        assert!(told.contains(&format!("{task} is done already")), "{told}");
    }
    assert!(is_raced, "no cancel came during a merge");
    site.ok(&["kernel", "stop"]);
    kernel.wait().unwrap();
}

/// A request to a model is a call like any other: it ends by its own name, and its program goes on.
#[test]
fn one_request_to_a_model_is_cancelled_by_its_own_name() {
    let provider = Provider::start(true);
    let site = provider.site("");
    let run = begin(&site, &["gateway", "run", "--", "python3", "-c", ASKS]);
    eventually("it is on the way", || !provider.hung.lock().unwrap().is_empty());
    let mut upstream = provider.hung.lock().unwrap().pop().unwrap();
    let reserved = site.records(&["--kind", "model.reserved"])[0]["payload"].clone();
    let call = reserved["call"].as_str().unwrap();
    site.ok(&["cancel", call]);
    assert_eq!(upstream.read(&mut [0]).unwrap(), 0, "the upstream is closed when the cancel is over");
    let output = end(run);
    let said = text(&output);
    assert!(said.contains(&format!("{call} was cancelled by operator")) && said.contains("ended"), "{said}");
    assert!(output.status.success(), "the program itself was not cancelled: {said}");
    assert_eq!(site.records(&["--kind", "model.used"])[0]["payload"]["ended"], "cancelled");
    site.fails(5, &["cancel", call]);
}

/// Whichever call runs it, a job that asks models is a process of its own, and not the operator.
#[test]
fn a_job_of_any_call_that_asks_models_is_a_process_of_its_own() {
    let provider = Provider::start(true);
    let site = provider.site("");
    let config = site.home().join("config.yml");
    let more = "sandbox: {templates: {agent: {from: default, models: true}}, tools: {shell.run: agent}}\n";
    std::fs::write(&config, std::fs::read_to_string(&config).unwrap() + more).unwrap();
    site.ok(&["init"]);
    let run = begin(&site, &["call", "shell.run", &format!("command={}", serde_json::json!(["python3", "-c", ASKS]))]);
    eventually("the provider is asked", || provider.heard.load(Ordering::SeqCst) == 1);
    let processes = site.json(&["ps"]);
    let job = processes["processes"].as_array().unwrap().iter().find(|process| process["role"] == "job").cloned().unwrap_or_default();
    let reserved = site.records(&["--kind", "model.reserved"])[0]["payload"].clone();
    assert_eq!((&reserved["pid"], job["name"].as_str(), job["parent"].as_u64()), (&job["pid"], Some("python3.1"), Some(2)), "{reserved}");
    site.ok(&["cancel", "python3.1"]);
    assert!(text(&end(run)).contains("task-1 was cancelled by operator"));
    assert!(site.ok(&["usage", "--by", "process"]).contains("python3.1"));
    // Control: a job that can ask for nothing needs none.
    std::fs::write(&config, std::fs::read_to_string(&config).unwrap().replace(", tools: {shell.run: agent}", "")).unwrap();
    site.ok(&["kernel", "stop"]);
    let before = site.count("proc.spawned");
    site.ok(&["call", "shell.run", "command=[\"true\"]"]);
    assert_eq!(site.count("proc.spawned"), before);
}
