//! No answer of a server makes the built-in brain panic or go on for ever, and no memory does; what it keeps, it takes up again. No line of a
//! vendor's client makes its wire panic, or say yes to what nobody admitted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at the first surprise")]

#[path = "../../testkit/fuzz/fuzz.rs"]
mod fuzz;

use brain::Dialect;
use brain::agent::{Acp, AcpAgent, AgentAnswer, AgentBoot, AgentEvent, AgentWire, Claude, Codex, CodexExec};
use brain::model::{Model, ModelFault, ModelInfo, ModelResponse, Purpose, ResponseBody, RetryClass};
use brain::{Brain, BrainInput, Brief, CallResult, Move, Native, ToolSpec};
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Requests until the server is gone for good, and moves that a brain may make of their answers.
const ASKED_MAX: u32 = 4;
const MOVES_MAX: usize = 2_000;

const ANSWER: &[&str] = &[
    "data: ",
    "\n\n",
    "\n",
    "\r\n",
    ": ping\n",
    "event: message_start\n",
    "[DONE]",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "\\u12",
    "null",
    "18446744073709551615",
    "-1",
    "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5}}}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"fs_read\",\"input\":{}}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"path\\\":1}\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"ä\\nb\"}}\n\n",
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"}}\n\n",
    "data: {\"type\":\"message_stop\"}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"fs_read\",\"arguments\":\"{\"}}\n\n",
    "data: {\"type\":\"response.output_text.delta\",\"delta\":\"word \"}\n\n",
    "data: {\"type\":\"response.completed\",\"response\":{}}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":4000000000,\"id\":\"c\",\"function\":{\"name\":\"fs_read\",\"arguments\":7}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"shell_run\",\"arguments\":\"{}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"word\"},{\"functionCall\":{\"name\":\"fs_read\",\"args\":[1]}}]}}]}\n\n",
    "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":0}}\n\n",
    "data: {\"error\":{\"message\":\"no\",\"code\":429}}\n\n",
];

/// Says the same text to everybody, and then no more.
struct Server {
    dialect: Dialect,
    text: String,
    asked: AtomicU32,
}

struct Pieces(VecDeque<Bytes>);

impl ResponseBody for Pieces {
    fn chunk(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<Bytes>, ModelFault>> + Send + '_>> {
        Box::pin(ready(Ok(self.0.pop_front())))
    }
}

impl Model for Server {
    fn info(&self, _: Purpose) -> ModelInfo {
        ModelInfo { dialect: self.dialect, model: "m".into(), context_tokens: 50_000, output_tokens_max: 8_000 }
    }

    fn send(&self, _: Purpose, _: String, body: Vec<u8>) -> Pin<Box<dyn Future<Output = Result<ModelResponse, ModelFault>> + Send + '_>> {
        assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok_and(|body| body.is_object()), "what it asks is a request");
        if self.asked.fetch_add(1, Ordering::Relaxed) >= ASKED_MAX {
            return Box::pin(ready(Err(ModelFault { what: "gone".into(), retry: RetryClass::Final, hint: None })));
        }
        let body = Box::new(Pieces(self.text.as_bytes().chunks(5).map(Bytes::copy_from_slice).collect()));
        Box::pin(ready(Ok(ModelResponse {
            status: 200,
            retry_after: None,
            is_final: false,
            is_refusal: false,
            is_unreachable: false,
            provider: None,
            body,
        })))
    }
}

fn brain(dialect: Dialect, text: &str) -> Native {
    let tool = |name: &str| ToolSpec { name: name.into(), description: "Does it.".into(), input_schema: json!({"type": "object"}) };
    let brief = Brief { role: "worker".into(), tools: vec![tool("fs.read"), tool("shell.run")], ..Brief::default() };
    Native::new(Arc::new(Server { dialect, text: text.to_owned(), asked: AtomicU32::new(0) }), brief)
}

fn start(memory: Vec<Vec<u8>>) -> BrainInput {
    BrainInput::Start { prompt: "work".into(), settled: 0, resumed: !memory.is_empty(), memory, further: brain::FurtherTurns::default() }
}

/// The first move that is not a word; `None` when the brain gives up.
async fn act(brain: &mut Native, heard: BrainInput) -> Option<Move> {
    let mut next = brain.next(heard).await;
    for _ in 0..MOVES_MAX {
        match next {
            Ok(Move::Say(_)) => next = brain.next(BrainInput::Continue).await,
            other => return other.ok(),
        }
    }
    panic!("it talks without end")
}

/// Time that passes by itself: waiting between tries costs nothing.
fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(work);
}

#[test]
fn dialects() {
    fuzz::text("dialects", ANSWER, |text| {
        for dialect in Dialect::ALL {
            run(async {
                let mut first = brain(dialect, text);
                let mut next = act(&mut first, start(Vec::new())).await;
                let mut memory = Vec::new();
                for _ in 0..MOVES_MAX {
                    if let Some(keep) = first.checkpoint() {
                        if keep.replaces_all {
                            memory.clear();
                        }
                        memory.push(keep.bytes);
                    }
                    let Some(Move::Call(calls)) = next else { return };
                    // Killed here, it wants the same again.
                    let again = act(&mut brain(dialect, text), start(memory.clone())).await;
                    assert_eq!(again, Some(Move::Call(calls.clone())), "{dialect:?}");
                    let ends = calls.iter().map(|call| CallResult::Output { ok: true, value: call.input.clone() }).collect();
                    next = act(&mut first, BrainInput::Results(ends)).await;
                }
                panic!("it works without end");
            });
        }
    });
}

#[test]
fn memories() {
    fuzz::bytes("memories", |bytes| {
        let halves = bytes.split_at(bytes.len() / 2);
        for memory in [vec![bytes.to_vec()], vec![halves.0.to_vec(), halves.1.to_vec()]] {
            run(async {
                act(&mut brain(Dialect::Chat, ""), start(memory)).await;
            });
        }
    });
}

/// Parts of which frames of all protocols are made.
const PARTS: &[&str] = &[
    "\n",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "true",
    "-1",
    "18446744073709551615",
    "\"",
    "\\u0000",
    "{\"id\":0,\"method\":\"",
    "{\"id\":{\"a\":[]},\"method\":\"",
    "{\"jsonrpc\":\"2.0\",\"id\":12,\"result\":{\"stopReason\":\"",
    "\",\"params\":{\"itemId\":\"t\",\"toolCallId\":\"t\",\"update\":{",
    "end_turn",
    "cancelled",
    "session/update",
    "session/request_permission",
    "item/started",
    "item/completed",
    "item/commandExecution/requestApproval",
    "item/fileChange/requestApproval",
    "\"status\":\"completed\"",
    "\"type\":\"fileChange\"",
    "\"kind\":\"execute\"",
    "\"options\":[{\"kind\":\"allow_always\",\"optionId\":\"a\"}]",
    "}}\n",
    "}}}\n",
];

/// What Claude Code writes.
const CLAUDE: &[&str] = &[
    "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"01a1e934-7269-7ac3-8171-8797cc24dc74\"}\n",
    "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\" word \"},{\"type\":\"tool_use\"}]}}\n",
    "{\"type\":\"control_request\",\"request_id\":\"1\",\"request\":{\"subtype\":\"hook_callback\",\"callback_id\":\"skep\",\"tool_use_id\":\"t\",\"input\":{\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"ls\"}}}}\n",
    "{\"type\":\"control_request\",\"request_id\":\"2\",\"request\":{\"subtype\":\"hook_callback\",\"callback_id\":\"skep\",\"input\":{\"tool_use_id\":\"u\",\"tool_name\":\"Edit\",\"tool_input\":[7]}}}\n",
    "{\"type\":\"control_request\",\"request_id\":\"3\",\"request\":{\"subtype\":\"hook_callback\",\"callback_id\":\"skep\",\"tool_use_id\":\"o\",\"input\":{\"tool_name\":\"mcp__skep__test_run\"}}}\n",
    "{\"type\":\"control_request\",\"request_id\":\"4\",\"request\":{\"subtype\":\"can_use_tool\",\"tool_use_id\":\"t\",\"input\":{}}}\n",
    "{\"type\":\"control_request\",\"request_id\":\"5\",\"request\":{\"subtype\":\"other\"}}\n",
    "{\"type\":\"control_cancel_request\",\"request_id\":\"1\"}\n",
    "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"x\"}]}}\n",
    "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"u\",\"is_error\":true,\"content\":[{\"text\":1}]}]}}\n",
    "{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"done\"}\n",
    "{\"type\":\"result\",\"subtype\":\"error_during_execution\",\"is_error\":true,\"errors\":[\"No conversation found\"]}\n",
    "{\"type\":\"control_response\",\"response\":{\"subtype\":\"error\",\"error\":\"no\"}}\n",
];

/// Frames that the real programs wrote, as words, with the parts of frames behind them.
fn words(recorded: &[&'static str]) -> Vec<&'static str> {
    recorded.iter().flat_map(|text| text.split_inclusive('\n')).chain(PARTS.iter().copied()).collect()
}

fn boot(series: Option<&str>) -> AgentBoot {
    let tools_url = Some("http://127.0.0.1:1/mcp".to_owned());
    AgentBoot { project: "/p".into(), series: series.map(str::to_owned), brief: "be kind".into(), tools_url, ..AgentBoot::default() }
}

fn frame(line: &str) {
    assert!(!line.contains('\n') && serde_json::from_str::<Value>(line).is_ok_and(|frame| frame.is_object()), "no frame: {line}");
}

/// Tells a wire all lines, and answers what it asks: yes, no, or one after the other.
fn hear(mut wire: impl AgentWire, series: Option<&str>, text: &str, answers: &[AgentAnswer]) {
    let boot = boot(series);
    wire.launch(&boot);
    wire.hello(&boot).iter().for_each(|line| frame(line));
    wire.prompt("work").iter().for_each(|line| frame(line));
    // What was asked and has not ended, and whether it was admitted.
    let mut open = BTreeMap::new();
    let mut asked = 0;
    for line in text.lines() {
        let mut events = VecDeque::from(wire.read(line));
        let mut moves = 0;
        while let Some(event) = events.pop_front() {
            moves += 1;
            assert!(moves < MOVES_MAX, "one line goes on without end: {line}");
            match event {
                AgentEvent::Asked { id, call } => {
                    assert!(call.input.is_object() && !call.tool.is_empty(), "no call: {call:?}");
                    let answer = &answers[asked % answers.len()];
                    asked += 1;
                    assert_eq!(open.insert(id, *answer == AgentAnswer::Allowed), None, "two open calls have one name");
                    events.extend(wire.answer(id, answer));
                }
                AgentEvent::Ended { id, ok, .. } => {
                    let admitted = open.remove(&id).expect("it ended and was not open");
                    assert!(admitted, "it ended and was refused (ok: {ok})");
                }
                AgentEvent::Send(line) => frame(&line),
                _ => {}
            }
        }
    }
    wire.interrupt().iter().for_each(|line| frame(line));
}

/// One of the ways to go through it, by the text itself: so that there is time for many texts.
fn hear_some(wire: impl AgentWire, text: &str) {
    let no = || AgentAnswer::Refused("no \n\" \u{1b}".into());
    let answers = [vec![AgentAnswer::Allowed], vec![no()], vec![AgentAnswer::Allowed, no()]];
    let series = text.len().is_multiple_of(4).then_some("01a1e934-7269-7ac3-8171-8797cc24dc74");
    hear(wire, series, text, &answers[text.len() % answers.len()]);
}

#[test]
fn codex_lines() {
    let words = words(&[
        include_str!("../src/agent/fixtures/codex_works.jsonl"),
        include_str!("../src/agent/fixtures/codex_patch.jsonl"),
        include_str!("../src/agent/fixtures/codex_pays.jsonl"),
    ]);
    fuzz::text("codex_lines", &words, |text| hear_some(Codex::default(), text));
}

const EXEC_HOOKS: &str = r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"c","cwd":"/p","tool_input":{"command":"make"}}
{"hook_event_name":"PreToolUse","tool_name":"apply_patch","tool_use_id":"d","tool_input":{"command":"*** Add File: a\n+x\n*** Delete File: b\n"}}
{"hook_event_name":"PostToolUse","tool_use_id":"c","tool_response":"Exit code: 0\n"}
{"hook_event_name":"UserPromptSubmit","session_id":"s"}"#;

/// What its hooks are told and what it writes, in any order: each hook is answered once at most, with a yes only after one, and nothing runs
/// unseen that was not admitted.
#[test]
fn codex_exec_lines() {
    let words = words(&[
        include_str!("../src/agent/fixtures/codex_exec.jsonl"),
        include_str!("../src/agent/fixtures/codex_exec_unasked.jsonl"),
        EXEC_HOOKS,
    ]);
    fuzz::text("codex_exec_lines", &words, |text| {
        let is_allowed = text.len().is_multiple_of(2);
        let answer = if is_allowed { AgentAnswer::Allowed } else { AgentAnswer::Refused("no".into()) };
        let mut wire = CodexExec::default();
        wire.launch(&boot(None));
        let (mut replied, mut open) = (BTreeSet::new(), BTreeSet::new());
        let (mut admitted, mut ran, mut ungated) = (0, 0, 0);
        for (number, line) in text.lines().enumerate() {
            let value: Value = serde_json::from_str(line).unwrap_or_default();
            let is_hook = value["hook_event_name"].is_string();
            let kind = value["item"]["type"].as_str().unwrap_or_default();
            let is_run = ["command_execution", "file_change"].contains(&kind) && value["item"]["status"] != "declined";
            ran += usize::from(!is_hook && value["type"] == "item.completed" && is_run);
            let events = if is_hook { wire.read_hook(number as u64, &value) } else { wire.read(line) };
            let mut events = VecDeque::from(events);
            while let Some(event) = events.pop_front() {
                match event {
                    AgentEvent::Asked { id, .. } => {
                        open.insert(id);
                        events.extend(wire.answer(id, &answer));
                    }
                    AgentEvent::Ended { id, .. } => assert!(open.remove(&id) && is_allowed, "it ended and was not admitted"),
                    AgentEvent::HookReply { number, text } => {
                        assert!(replied.insert(number), "answered twice");
                        let is_yes = value["hook_event_name"] == "PreToolUse" && text == "{}";
                        let is_ours = value["tool_name"].as_str().is_some_and(|tool| tool.starts_with("mcp__skep__"));
                        assert!(!is_yes || is_allowed || is_ours, "{line}");
                        admitted += usize::from(is_yes && !is_ours);
                    }
                    AgentEvent::Ungated { .. } => ungated += 1,
                    _ => {}
                }
            }
        }
        assert!(ungated + admitted >= ran, "{ran} ran, {admitted} were admitted, {ungated} told");
    });
}

#[test]
fn acp_lines() {
    let words = words(&[
        include_str!("../src/agent/fixtures/opencode_works.jsonl"),
        include_str!("../src/agent/fixtures/opencode_refused.jsonl"),
        include_str!("../src/agent/fixtures/gemini_works.jsonl"),
        include_str!("../src/agent/fixtures/gemini_loads.jsonl"),
    ]);
    let agents = [AcpAgent::OpenCode, AcpAgent::Gemini, AcpAgent::Other, AcpAgent::OpenCode, AcpAgent::Gemini];
    fuzz::text("acp_lines", &words, |text| hear_some(Acp::of(agents[text.len() % agents.len()]), text));
}

#[test]
fn claude_lines() {
    fuzz::text("claude_lines", &words(CLAUDE), |text| hear_some(Claude::default(), text));
}
