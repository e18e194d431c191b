//! On frames that the real program wrote, version 0.166.

use super::*;
use crate::agent::play::{asked, call, play, sent, started};

const WORKS: &str = include_str!("../fixtures/codex_works.jsonl");
const PATCH: &str = include_str!("../fixtures/codex_patch.jsonl");
const PAYS: &str = include_str!("../fixtures/codex_pays.jsonl");
const THREAD_ID: &str = "01a1e934-7269-7ac3-8171-8797cc24dc74";

fn wire(series: Option<&str>) -> Codex {
    started(Codex::default(), series)
}

#[test]
fn a_turn_is_asked_about_and_done() {
    let mut codex = wire(None);
    let events = play(&mut codex, WORKS, &AgentAnswer::Allowed);
    assert_eq!(
        asked(&events),
        [
            call("fs.write", json!({"path": "/p/hello.txt", "content": "hello from the script\n"})),
            call("fs.read", json!({"path": "hello.txt"})),
        ]
    );
    let sent = sent(&events);
    let methods: Vec<&str> = sent.iter().filter_map(|line| line["method"].as_str()).collect();
    assert_eq!(methods, ["initialized", "thread/start", "turn/start"]);
    assert_eq!(
        sent[1]["params"],
        json!({"cwd": "/p", "approvalPolicy": "untrusted", "sandbox": "danger-full-access", "developerInstructions": "be kind"})
    );
    assert_eq!(sent[2]["params"]["input"], json!([{"type": "text", "text": "Please write the greeting"}]));
    // Ids of the server's requests collide with ours, and are told apart.
    assert_eq!(sent[3..], [json!({"id": 0, "result": {"decision": "accept"}}), json!({"id": 1, "result": {"decision": "accept"}})]);
    let told: Vec<&AgentEvent> = events.iter().filter(|event| !matches!(event, AgentEvent::Send(_) | AgentEvent::Asked { .. })).collect();
    let ended = |id: u64, text: &str| AgentEvent::Ended { id: OwnCallId(id), ok: true, text: text.into() };
    let summary = "All done: the file says hello.".to_owned();
    assert_eq!(
        told,
        [
            &AgentEvent::Series(THREAD_ID.into()),
            &AgentEvent::Message("I write the file.".into()),
            &ended(1, "completed"),
            &ended(2, "hello from the script\n"),
            &AgentEvent::Message(summary.clone()),
            &AgentEvent::Done(summary),
        ]
    );
}

#[test]
fn a_patch_is_a_call_for_each_path_and_one_refusal_declines_it() {
    let all = [
        call("fs.edit", json!({"path": "/p/a.txt", "old": "a\n", "new": "b\n", "all": false})),
        call("fs.move", json!({"from": "/p/a.txt", "to": "/p/b.txt"})),
        call("fs.write", json!({"path": "/p/c.txt", "content": "c\n"})),
        call("fs.delete", json!({"path": "/p/hello.txt"})),
    ];
    let mut codex = wire(None);
    let events = play(&mut codex, PATCH, &AgentAnswer::Allowed);
    assert_eq!(asked(&events), all);
    let accepted = json!({"id": 0, "result": {"decision": "accept"}});
    assert_eq!(sent(&events).iter().filter(|line| **line == accepted).count(), 1, "one answer when all are decided");
    assert_eq!(events.iter().filter(|event| matches!(event, AgentEvent::Ended { ok: true, .. })).count(), 4);

    let mut codex = wire(None);
    let (before, approval) = PATCH.split_once("{\"method\":\"item/fileChange/requestApproval\"").unwrap();
    play(&mut codex, before, &AgentAnswer::Allowed);
    let line = format!("{{\"method\":\"item/fileChange/requestApproval\"{}", approval.lines().next().unwrap());
    let AgentEvent::Asked { id: first, .. } = codex.read(&line).remove(0) else { panic!("it asks") };
    let AgentEvent::Asked { id: second, call } = codex.answer(first, &AgentAnswer::Allowed).remove(0) else { panic!("it asks on") };
    assert_eq!(call.tool, "fs.move");
    let events = codex.answer(second, &AgentAnswer::Refused("no moves".into()));
    assert!(matches!(&events[0], AgentEvent::Ended { id, ok: false, .. } if *id == first), "{events:?}");
    let sent = sent(&events);
    assert_eq!((&sent[0]["method"], &sent[0]["params"]["input"][0]["text"]), (&json!("turn/steer"), &json!("That was refused: no moves")));
    let thread = (&sent[0]["params"]["threadId"], &sent[0]["params"]["expectedTurnId"]);
    assert_eq!(
        thread,
        (&json!("01a1e936-e689-72f3-a6d1-07d1439a2416"), &json!("01a1e936-e6a1-7cf2-89f6-01fc7f0693cc")),
        "to the turn that asks"
    );
    assert_eq!(sent[1], json!({"id": 0, "result": {"decision": "decline"}}), "the reason is told first");
}

#[test]
fn what_runs_without_a_question_is_ungated() {
    let unasked: String = WORKS.lines().filter(|line| !line.contains("requestApproval")).map(|line| format!("{line}\n")).collect();
    let events = play(&mut wire(None), &unasked, &AgentAnswer::Allowed);
    let ungated: Vec<&AgentEvent> = events.iter().filter(|event| matches!(event, AgentEvent::Ungated { .. })).collect();
    assert_eq!(ungated.len(), 2, "{events:?}");
    let refused = play(&mut wire(None), WORKS, &AgentAnswer::Refused("no".into()));
    assert!(!refused.iter().any(|event| matches!(event, AgentEvent::Ungated { .. })), "what is told of a refused call is not a use of it");
}

#[test]
fn a_budget_ends_the_turn_at_once() {
    let events = play(&mut wire(None), PAYS, &AgentAnswer::Allowed);
    let failures: Vec<&AgentFailure> = events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Failed(failure) => Some(failure),
            _ => None,
        })
        .collect();
    assert_eq!(failures.len(), 1, "told once: {events:?}");
    assert_eq!(failures[0].may_retry, Some(RetryCause::Budget));
    assert!(failures[0].what.contains("over the budget"), "{failures:?}");
}

#[test]
fn whatever_its_model_answered_the_task_can_go_on() {
    let other = |info: Value| json!({"message": "m", "codexErrorInfo": info});
    let rows = [
        (other(json!("unauthorized")), RetryCause::Model),
        (other(json!("badRequest")), RetryCause::Model),
        (other(json!("other")), RetryCause::Model),
        (other(json!("contextWindowExceeded")), RetryCause::Model),
        (other(json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}})), RetryCause::Model),
        (other(json!({"httpConnectionFailed": {"httpStatusCode": null}})), RetryCause::Model),
        (other(json!({"responseStreamDisconnected": {"httpStatusCode": 402}})), RetryCause::Budget),
        (other(json!("sessionBudgetExceeded")), RetryCause::Budget),
        (other(json!("sandboxError")), RetryCause::Fault),
        (Value::Null, RetryCause::Model),
    ];
    for (error, cause) in rows {
        let mut codex = wire(None);
        codex.thread = Some(THREAD_ID.to_owned());
        let frame = json!({"method": "turn/completed", "params": {"threadId": THREAD_ID, "turn": {"status": "failed", "error": error}}});
        let AgentEvent::Failed(failure) = codex.read(&frame.to_string()).remove(0) else { panic!("it failed: {frame}") };
        assert_eq!(failure.may_retry, Some(cause), "{frame}");
    }
}

#[test]
fn a_thread_that_is_gone_is_told_as_such() {
    let mut codex = wire(Some(THREAD_ID));
    let events = codex.read(r#"{"id":1,"result":{"userAgent":"skep"}}"#);
    assert_eq!((&sent(&events)[1]["method"], &sent(&events)[1]["params"]["threadId"]), (&json!("thread/resume"), &json!(THREAD_ID)));
    let gone = format!(r#"{{"error":{{"code":-32600,"message":"no rollout found for thread id {THREAD_ID}"}},"id":2}}"#);
    assert!(matches!(&codex.read(&gone)[..], [AgentEvent::Failed(AgentFailure { series_is_gone: true, .. })]));
    assert!(codex.is_series(THREAD_ID) && !codex.is_series("--yolo"));
}

#[test]
fn what_is_not_served_is_refused() {
    let mut codex = wire(None);
    for method in ["item/permissions/requestApproval", "item/tool/requestUserInput", "execCommandApproval", "later/thing"] {
        let events = codex.read(&json!({"id": 7, "method": method, "params": {"itemId": "x"}}).to_string());
        assert_eq!(sent(&events)[0]["error"]["code"], json!(-32601), "{method}");
    }
    let root = json!({"id": 8, "method": "item/fileChange/requestApproval", "params": {"itemId": "x", "grantRoot": "/"}});
    assert_eq!(sent(&codex.read(&root.to_string())), [json!({"id": 8, "result": {"decision": "decline"}})]);
    let form = json!({"id": 9, "method": "mcpServer/elicitation/request", "params": {"serverName": "x", "mode": "form"}});
    assert_eq!(sent(&codex.read(&form.to_string()))[0]["result"]["action"], json!("decline"));
    // A tool of ours is decided on where it arrives; one of another server is a call of its own.
    let tool = |server: &str| {
        let meta = json!({"codex_approval_kind": "mcp_tool_call", "tool_name": "plan_complete", "tool_params": {}});
        json!({"id": 10, "method": "mcpServer/elicitation/request", "params": {"serverName": server, "_meta": meta}}).to_string()
    };
    assert_eq!(sent(&codex.read(&tool("skep")))[0]["result"]["action"], json!("accept"));
    assert!(matches!(&codex.read(&tool("other"))[..], [AgentEvent::Asked { call, .. }] if call.tool == "brain.use"));
}
