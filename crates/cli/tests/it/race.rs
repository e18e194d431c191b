//! Sixty-four calls at once against what allows fewer.

use crate::common::Site;
use serde_json::{Value, json};
use wire::method::call::{CallDecision, CallRunParams, CallRunResult};
use wire::table::CallRun;
use wire::{KernelClient, TaskId};

const RACERS: usize = 64;

/// A task that waits for a person, with `calls` left to make.
fn parked(site: &Site, calls: u64) -> TaskId {
    site.write(
        ".skep/policy.yaml",
        "capabilities:\n  - {name: reads, match: {syscall: 'fs.read'}, action: allow}\n  - {name: ask, match: {syscall: [shell.run, fs.write]}, action: require_review, reason: ask}\n",
    );
    site.trust();
    let brain = site.script("call shell.run command=[\"true\"]\ndone\n");
    let calls = calls.to_string();
    let output = site.skep(&["act", "park", "--brain", &brain, "--max-calls", &calls, "--await", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{}", crate::common::text(&output));
    let tasks = site.json(&["list", "tasks"]);
    tasks["tasks"][0]["task"].as_str().unwrap().parse().unwrap()
}

/// Makes the same call on sixty-four connections at once.
fn race(site: &Site, task: TaskId, tool: &str, input: &Value) -> Vec<CallRunResult> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..RACERS {
            clients.push(KernelClient::connect(&site.home()).await.unwrap());
        }
        let racers = clients.into_iter().map(|mut client| {
            let params = CallRunParams {
                tool: tool.to_owned(),
                input: input.clone(),
                path: site.project().display().to_string(),
                task: Some(task),
                mode: None,
                token: None,
            };
            tokio::spawn(async move { client.call::<CallRun>(&params).await.unwrap() })
        });
        let mut results = Vec::new();
        for racer in racers.collect::<Vec<_>>() {
            results.push(racer.await.unwrap());
        }
        results
    })
}

fn count(results: &[CallRunResult], decision: CallDecision) -> usize {
    results.iter().filter(|result| result.decision == decision).count()
}

#[test]
fn a_budget_of_ten_admits_ten() {
    let site = Site::new(&[("a.txt", "x\n")]);
    let task = parked(&site, 10);
    let results = race(&site, task, "fs.read", &json!({"path": "a.txt"}));
    assert_eq!((count(&results, CallDecision::Allowed), count(&results, CallDecision::Refused)), (10, RACERS - 10));
    let admitted = site.records(&["--task", &task.to_string()]).iter().filter(|record| record["type"] == "call.admitted").count();
    assert_eq!(admitted, 10);
}

#[test]
fn a_grant_for_one_use_admits_one() {
    let site = Site::new(&[("a.txt", "x\n")]);
    let task = parked(&site, 1_000);
    let input = json!({"path": "a.txt", "content": "new\n"});
    let asked = race(&site, task, "fs.write", &input);
    assert_eq!(count(&asked, CallDecision::Pending), RACERS);
    let reviews: std::collections::BTreeSet<_> = asked.iter().filter_map(|result| result.refusal.as_ref()?.review).collect();
    assert_eq!(reviews.len(), 1, "equal questions merge");
    site.ok(&["review", "allow", &reviews.first().unwrap().to_string()]);
    let results = race(&site, task, "fs.write", &input);
    assert_eq!((count(&results, CallDecision::Allowed), count(&results, CallDecision::Pending)), (1, RACERS - 1));
}
