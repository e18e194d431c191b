//! On frames that the real programs wrote: opencode 1.18.33 and gemini 0.61.

use super::*;
use crate::agent::play::{asked, call, play, sent, started};

const OPENCODE_WORKS: &str = include_str!("../fixtures/opencode_works.jsonl");
const OPENCODE_REFUSED: &str = include_str!("../fixtures/opencode_refused.jsonl");
const GEMINI_WORKS: &str = include_str!("../fixtures/gemini_works.jsonl");
const GEMINI_YOLO: &str = include_str!("../fixtures/gemini_yolo.jsonl");
const GEMINI_LOADS: &str = include_str!("../fixtures/gemini_loads.jsonl");

fn wire(agent: AcpAgent, series: Option<&str>) -> Acp {
    started(Acp::of(agent), series)
}

fn told(events: &[AgentEvent]) -> Vec<AgentEvent> {
    let told = events.iter().filter(|event| matches!(event, AgentEvent::Message(_) | AgentEvent::Done(_) | AgentEvent::Ungated { .. }));
    told.cloned().collect()
}

#[test]
fn a_turn_of_each_is_asked_about_and_done() {
    for (agent, frames, option) in [(AcpAgent::OpenCode, OPENCODE_WORKS, "once"), (AcpAgent::Gemini, GEMINI_WORKS, "proceed_once")] {
        let mut acp = wire(agent, None);
        let events = play(&mut acp, frames, &AgentAnswer::Allowed);
        assert_eq!(asked(&events), [call("fs.write", json!({"path": "/p/hello.txt", "content": "hello from the script\n"}))], "{agent:?}");
        let summary = "All done: the file says hello.".to_owned();
        let expected = [AgentEvent::Message("I write the file.".into()), AgentEvent::Message(summary.clone()), AgentEvent::Done(summary)];
        assert_eq!(told(&events), expected, "whole messages, and reading is nobody's loss: {agent:?}");
        assert!(events.iter().any(|event| matches!(event, AgentEvent::Ended { id: OwnCallId(1), ok: true, .. })), "{events:?}");
        let sent = sent(&events);
        assert_eq!(sent[0]["method"], "session/new");
        assert_eq!(sent[1]["params"]["prompt"], json!([{"type": "text", "text": "be kind\n\nPlease write the greeting"}]));
        // Options by their kind, and never one that lasts.
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
        assert!(sent.contains(&json!({"jsonrpc": "2.0", "id": 0, "result": outcome})), "{sent:?}");
    }
}

#[test]
fn files_and_terminals_are_not_served() {
    let mut acp = wire(AcpAgent::OpenCode, None);
    let events = play(&mut acp, OPENCODE_WORKS, &AgentAnswer::Allowed);
    // OpenCode asks to have the file written by us as well, though it was told that we have no files.
    assert!(OPENCODE_WORKS.contains("fs/write_text_file"));
    let errors: Vec<Value> = sent(&events).into_iter().filter(|line| !line["error"].is_null()).collect();
    assert_eq!((errors.len(), &errors[0]["id"], &errors[0]["error"]["code"]), (1, &json!(1), &json!(-32601)));
    for method in ["fs/read_text_file", "terminal/create", "terminal/output", "elicitation/create", "_own/thing"] {
        let events = acp.read(&json!({"jsonrpc": "2.0", "id": "x", "method": method, "params": {}}).to_string());
        assert_eq!(sent(&events)[0]["error"]["code"], json!(-32601), "{method}");
    }
}

#[test]
fn a_refusal_is_told_with_its_reason_in_the_next_turn() {
    let mut acp = wire(AcpAgent::OpenCode, None);
    let events = play(&mut acp, OPENCODE_REFUSED, &AgentAnswer::Refused("greetings are for people".into()));
    let calls = [call("fs.write", json!({"path": "/p/hello.txt", "content": "hello\n"})), tools::shell("echo x > y.txt")];
    assert_eq!(asked(&events), calls);
    let sent = sent(&events);
    let rejected = json!({"outcome": {"outcome": "selected", "optionId": "reject"}});
    assert_eq!(sent.iter().filter(|line| line["result"] == rejected).count(), 2);
    let next = sent.last().unwrap();
    assert_eq!((&next["method"], &next["id"]), (&json!("session/prompt"), &json!(12)));
    assert!(next["params"]["prompt"][0]["text"].as_str().unwrap().contains("greetings are for people"), "{next}");
    assert_eq!(told(&events), [], "the task is not done, and a command that was refused is not one that ran");
    let done = acp.read(r#"{"jsonrpc":"2.0","id":12,"result":{"stopReason":"end_turn"}}"#);
    assert_eq!(done, [AgentEvent::Done(String::new())]);
}

#[test]
fn a_question_may_say_less_than_was_told_before() {
    let mut acp = wire(AcpAgent::OpenCode, None);
    let of = |update: Value| json!({"method": "session/update", "params": {"update": update}}).to_string();
    acp.read(&of(
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "read", "kind": "read", "status": "pending", "rawInput": {}}),
    ));
    let told =
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress", "rawInput": {"filePath": "/p/a.txt"}});
    acp.read(&of(told));
    let question =
        |tool: Value| json!({"id": 1, "method": "session/request_permission", "params": {"options": [], "toolCall": tool}}).to_string();
    let events = acp.read(&question(json!({"toolCallId": "t", "title": "read", "kind": "read", "locations": [], "rawInput": {}})));
    assert_eq!(asked(&events), [call("fs.read", json!({"path": "/p/a.txt"}))]);
    // Gemini says some of it in the title alone.
    let rows = [
        ("grep_search__call_1", "'hello' within ./src", call("search.grep", json!({"pattern": "hello", "path": "./src"}))),
        ("list_directory__call_2", ".", call("fs.list", json!({"path": "."}))),
        ("glob__call_3", "'*.rs'", call("search.glob", json!({"pattern": "*.rs"}))),
    ];
    for (id, title, expected) in rows {
        let events = acp.read(&question(json!({"toolCallId": id, "title": title, "kind": "search", "locations": [], "content": []})));
        assert_eq!(asked(&events), [expected]);
    }
}

#[test]
fn an_agent_that_only_tries_what_is_refused_is_stopped() {
    let mut acp = wire(AcpAgent::Other, None);
    (acp.session, acp.prompts) = (Some("s".into()), 1);
    let mut turn = |id: u64| {
        let tool = json!({"toolCallId": "t", "kind": "edit", "locations": [{"path": "a"}]});
        let question = json!({"id": 1, "method": "session/request_permission", "params": {"options": [], "toolCall": tool}});
        let AgentEvent::Asked { id: own, .. } = acp.read(&question.to_string()).remove(0) else { panic!("it asks") };
        acp.answer(own, &AgentAnswer::Refused("no".into()));
        acp.read(&json!({"id": id, "result": {"stopReason": "end_turn"}}).to_string()).remove(0)
    };
    for id in 0..u64::from(REFUSED_TURNS_MAX) {
        assert!(matches!(turn(PROMPT + 1 + id), AgentEvent::Send(_)), "it hears why");
    }
    let last = turn(PROMPT + 1 + u64::from(REFUSED_TURNS_MAX));
    assert!(matches!(last, AgentEvent::Failed(failure) if failure.what.ends_with("the last time: no")));
}

/// The end of an earlier turn is no end of this one; the answer to what was never sent is a fault.
#[test]
fn only_the_answer_to_its_own_prompt_ends_a_turn() {
    let end = |id: u64| json!({"id": id, "result": {"stopReason": "end_turn"}}).to_string();
    let mut acp = wire(AcpAgent::Other, None);
    (acp.session, acp.prompts) = (Some("s".into()), 2);
    assert_eq!(acp.read(&end(PROMPT + 1)), []);
    assert!(matches!(&acp.read(&end(PROMPT + 3))[..], [AgentEvent::Failed(_)]));
    assert!(matches!(&acp.read(&end(PROMPT + 2))[..], [AgentEvent::Done(_)]));
}

#[test]
fn what_runs_without_a_question_is_ungated() {
    let events = play(&mut wire(AcpAgent::Gemini, None), GEMINI_YOLO, &AgentAnswer::Allowed);
    let first = events.iter().find(|event| matches!(event, AgentEvent::Ungated { .. }));
    assert_eq!(first, Some(&AgentEvent::Ungated { tool: "Writing to hello.txt".into() }), "as soon as it begins: {events:?}");
    let unasked: String =
        OPENCODE_WORKS.lines().filter(|line| !line.contains("request_permission")).map(|line| format!("{line}\n")).collect();
    let events = play(&mut wire(AcpAgent::OpenCode, None), &unasked, &AgentAnswer::Allowed);
    assert_eq!(told(&events)[1], AgentEvent::Ungated { tool: "write".into() }, "{events:?}");
    // Each kind of tool, from an agent that nobody knows.
    for (kind, status, is_ungated) in [
        ("edit", "completed", true),
        ("delete", "completed", true),
        ("move", "completed", true),
        ("execute", "completed", true),
        ("execute", "failed", true),
        ("edit", "failed", false),
        ("edit", "in_progress", false),
        ("read", "completed", false),
        ("search", "completed", false),
        ("think", "completed", false),
    ] {
        let mut acp = wire(AcpAgent::Other, None);
        let update = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "t", "kind": kind, "status": status});
        let events = acp.read(&json!({"method": "session/update", "params": {"update": update}}).to_string());
        assert_eq!(events == [AgentEvent::Ungated { tool: "t".into() }], is_ungated, "{kind} {status}");
    }
}

#[test]
fn an_old_conversation_is_not_told_again() {
    let series = "4fa95500-9eb5-46ce-bed0-2a998b71385f";
    let mut acp = wire(AcpAgent::Gemini, Some(series));
    let mut lines = GEMINI_LOADS.lines().peekable();
    let events = acp.read(lines.next().unwrap());
    assert_eq!((&sent(&events)[0]["method"], &sent(&events)[0]["params"]["sessionId"]), (&json!("session/load"), &json!(series)));
    let pong = r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"Method not found"}}"#;
    // It tells on after it has said that the conversation is loaded: the turn waits until it is quiet.
    let mut events = Vec::new();
    while let Some(line) = lines.next_if(|line| !line.contains("hi there")) {
        events.extend(acp.read(line));
        if line.contains("It was refused.") {
            let again = acp.read(pong);
            assert_eq!(sent(&again)[0]["method"], "_skep/ping", "it has just told something");
        }
    }
    assert_eq!(told(&events), [], "{events:?}");
    assert_eq!(sent(&acp.read(pong))[0]["method"], "_skep/ping");
    let begun = sent(&acp.read(pong));
    assert_eq!(begun[0]["params"]["prompt"][0]["text"], "Please write the greeting", "the brief was told when it began");
    let events = play(&mut acp, &lines.collect::<Vec<_>>().join("\n"), &AgentAnswer::Allowed);
    assert_eq!(told(&events), [AgentEvent::Message("hi there".into()), AgentEvent::Done("hi there".into())]);

    let gone =
        r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"Internal error","data":{"details":"Invalid session identifier"}}}"#;
    let mut acp = wire(AcpAgent::Gemini, Some(series));
    acp.read(GEMINI_LOADS.lines().next().unwrap());
    let AgentEvent::Failed(failure) = acp.read(gone).remove(0) else { panic!("it is gone") };
    assert!(failure.series_is_gone && failure.what.contains("Invalid session identifier"), "{failure:?}");
}

#[test]
fn an_agent_that_cannot_go_on_begins_anew() {
    let mut acp = wire(AcpAgent::Other, Some("s1"));
    let events = acp.read(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}"#);
    assert_eq!(sent(&events)[0]["method"], "session/new");
    let mut acp = wire(AcpAgent::OpenCode, Some("ses_1"));
    let events = acp.read(OPENCODE_WORKS.lines().next().unwrap());
    assert_eq!((&sent(&events)[0]["method"], &sent(&events)[0]["params"]["sessionId"]), (&json!("session/resume"), &json!("ses_1")));
    let mut acp = wire(AcpAgent::Other, None);
    let events = acp.read(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}"#);
    assert!(matches!(&events[..], [AgentEvent::Failed(failure)] if failure.what.contains("version 2")), "{events:?}");
    for (name, is_one) in
        [("ses_e16bfd40bffeJynTTnw0bJtT4i", true), ("a-b.c:d", true), ("--yolo", false), ("", false), ("a b", false), ("../x", false)]
    {
        assert_eq!(acp.is_series(name), is_one, "{name}");
    }
}

#[test]
fn the_end_of_a_turn_says_whether_it_can_go_on() {
    let rows = [
        (json!({"error": {"code": 402, "message": "over the budget"}}), Some(RetryCause::Budget)),
        (json!({"error": {"code": -32603, "message": "Internal error"}}), Some(RetryCause::Model)),
        (json!({"error": {"code": -32603, "message": "Internal error: Payment Required (402)"}}), Some(RetryCause::Budget)),
        (json!({"error": {"code": -32603, "message": "took 14022 ms"}}), Some(RetryCause::Model)),
        (json!({"error": {"code": -32000, "message": "Authentication required"}}), Some(RetryCause::Model)),
        (json!({"error": {"code": 401, "message": "invalid key"}}), Some(RetryCause::Model)),
        (json!({"error": {"code": -32602, "message": "no such model"}}), Some(RetryCause::Model)),
        (json!({"result": {"stopReason": "max_tokens"}}), Some(RetryCause::Fault)),
        (json!({"result": {"stopReason": "cancelled"}}), Some(RetryCause::Fault)),
        (json!({"result": {"stopReason": "refusal"}}), None),
        (json!({"result": {}}), None),
    ];
    for (mut frame, cause) in rows {
        let mut acp = wire(AcpAgent::Other, None);
        acp.prompts = 1;
        frame["id"] = json!(PROMPT + 1);
        let AgentEvent::Failed(failure) = acp.read(&frame.to_string()).remove(0) else { panic!("it failed: {frame}") };
        assert_eq!(failure.may_retry, cause, "{frame}");
    }
}

#[test]
fn an_interrupt_answers_what_is_asked() {
    let mut acp = wire(AcpAgent::OpenCode, None);
    let (before, _) = OPENCODE_WORKS.split_once("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"fs/write").unwrap();
    for line in before.lines() {
        acp.read(line);
    }
    let lines: Vec<Value> = acp.interrupt().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["method"], "session/cancel");
    assert_eq!(lines[1]["result"], json!({"outcome": {"outcome": "cancelled"}}));
    // No leave for this once only: no leave.
    let mut acp = wire(AcpAgent::Other, None);
    let options = json!([{"optionId": "a", "kind": "allow_always"}, {"optionId": "r", "kind": "reject_once"}]);
    let question = json!({"id": 5, "method": "session/request_permission", "params": {"options": options, "toolCall": {"toolCallId": "t", "kind": "fetch", "rawInput": {"url": "http://x"}}}});
    let AgentEvent::Asked { id, call } = acp.read(&question.to_string()).remove(0) else { panic!("it asks") };
    assert_eq!(call.tool, "http.request");
    assert_eq!(sent(&acp.answer(id, &AgentAnswer::Allowed)).last().unwrap()["result"]["outcome"]["optionId"], "r");
}

#[test]
fn each_is_started_so_that_it_asks() {
    let boot = AgentBoot { project: "/p".into(), model: Some("big".into()), ..AgentBoot::default() };
    let plan = launch::plan(AcpAgent::OpenCode, &boot);
    let (_, config) = plan.environment.iter().find(|(name, _)| name == "OPENCODE_CONFIG_CONTENT").unwrap();
    let config: Value = serde_json::from_str(config).unwrap();
    assert_eq!((&config["permission"], &config["model"]), (&json!({"*": "ask", "task": "deny"}), &json!("skep/big")));
    assert_eq!(config["provider"]["skep"]["models"], json!({"big": {"name": "big"}}));
    let plan = launch::plan(AcpAgent::Gemini, &boot);
    assert_eq!(plan.arguments, ["--acp", "--approval-mode", "default", "--model", "big"]);
    assert_eq!(plan.home_files[1], (".gemini/trustedFolders.json".to_owned(), r#"{"/p":"DO_NOT_TRUST"}"#.to_owned()));
    assert!(plan.before[2].ends_with("exec \"$@\""), "it becomes the program: {plan:?}");
    assert!(plan.home_files[2].1.contains("toolName = \"*\"\ndecision = \"ask_user\""), "{plan:?}");
    assert_eq!(launch::plan(AcpAgent::Other, &boot), LaunchPlan::default());
}
