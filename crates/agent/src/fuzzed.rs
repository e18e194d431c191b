//! The two doors of a client's room, told anything: each answers in its own form, asks the kernel for its own process alone, and says yes only
//! to what was admitted.

#[path = "../../testkit/fuzz/fuzz.rs"]
mod fuzz;

use crate::{CallDoor, DoorFuture, HookResponder, RoomTools, TalkHook};
use brain::agent::{Acp, AcpAgent, AgentWire, Claude, Codex};
use gate::{CallEnd, CallOutcome, PERSON_ASK, Request};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use world::{CallId, Code, Fault, Hands, Pid, Refusal, ReviewId, Stop, TaskId, ZoneId};

const PID: Pid = Pid(3);
const TASK: TaskId = TaskId(5);
const ZONE: ZoneId = ZoneId(1);
const RUN: CallId = CallId(7);

/// A door that says the same to everybody.
#[derive(Default)]
struct Door {
    admits: bool,
    asked: Mutex<Vec<Request>>,
    /// Calls that were admitted and not reported.
    open: Mutex<BTreeSet<CallId>>,
}

impl Door {
    fn answer(&self, request: &Request) -> CallOutcome {
        let mut asked = self.asked.lock();
        asked.push(request.clone());
        let call = CallId(100 + asked.len() as u64);
        let end = match (self.admits, request.hands) {
            (false, _) => CallEnd::Refused(Refusal::new(Code::Denied, "no \n word")),
            (true, Hands::Caller) => CallEnd::CallerExecutes,
            (true, Hands::Kernel) => CallEnd::Done { ok: true, value: json!({ "answer": "yes" }) },
        };
        if end == CallEnd::CallerExecutes {
            self.open.lock().insert(call);
        }
        CallOutcome { call: Some(call), rules: Vec::new(), end, gate: Duration::ZERO, run: Duration::ZERO }
    }
}

impl CallDoor for Door {
    fn call<'a>(&'a self, request: &'a Request) -> DoorFuture<'a, Result<CallOutcome, Fault>> {
        Box::pin(async { Ok(self.answer(request)) })
    }

    fn ask_person<'a>(&'a self, request: &'a Request) -> DoorFuture<'a, Result<CallOutcome, Stop>> {
        Box::pin(async { Ok(self.answer(request)) })
    }

    fn report<'a>(&'a self, call: CallId, _: bool, _: &'a str) -> DoorFuture<'a, Result<(), Fault>> {
        assert!(self.open.lock().remove(&call), "{call} was reported and is not open");
        Box::pin(async { Ok(()) })
    }

    fn await_review(&self, _: TaskId, _: ReviewId) {}

    fn questions_of(&self, _: TaskId) -> UnboundedReceiver<ReviewId> {
        unbounded_channel().1
    }

    fn tree(&self) -> Option<Arc<tree::Tree>> {
        None
    }

    fn is_stopping(&self) -> bool {
        false
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

const MESSAGES: &[&str] = &[
    "\n",
    "{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"test_run\",\"arguments\":{\"args\":[\"a\"]}}}\n",
    "{\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"person_ask\",\"arguments\":{\"question\":\"why\"}}}\n",
    "{\"id\":[],\"method\":\"tools/call\",\"params\":{\"name\":\"person_ask\",\"arguments\":{\"question\":\" \"}}}\n",
    "{\"id\":\"\",\"method\":\"tools/call\",\"params\":{\"name\":\"shell_run\",\"arguments\":[]}}\n",
    "{\"method\":\"tools/call\",\"params\":{\"name\":\"test_run\"}}\n",
    "{\"id\":4,\"method\":\"tools/call\",\"params\":{\"name\":\"agent_spawn\",\"arguments\":{\"name\":\"a\"}}}\n",
    "message_read",
    "{\"id\":3,\"method\":\"initialize\",\"params\":{\"protocolVersion\":7}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"",
    "{\"id\":null,\"method\":\"",
    "{\"method\":\"",
    "{\"id\":{\"a\":[1]},\"params\":7,\"method\":\"",
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "\",\"params\":{\"name\":\"",
    "test_run",
    "person_ask",
    "\",\"arguments\":",
    "{\"args\":[\"a\",1]}",
    "{\"question\":\"why\\u0000\"}",
    "{\"question\":[]}",
    "\",\"protocolVersion\":\"2025-06-18",
    "null",
    "\"",
    "}",
    "}}",
    "{",
    "[",
    "]",
    ",",
    "-0",
    "1e999",
];

#[test]
fn tools_door() {
    let run_request = Request::new(PID, Some(TASK), ZONE, crate::BRAIN_RUN, json!({}));
    fuzz::text("tools_door", MESSAGES, |text| {
        let door = Arc::new(Door { admits: text.len() % 2 == 0, ..Door::default() });
        let tools = RoomTools::new(door.clone(), &run_request, RUN);
        for line in text.lines() {
            let answer = run(tools.respond(line.as_bytes()));
            let message: Option<Value> = serde_json::from_str(line).ok();
            if let Ok(answer) = &answer {
                let id = message.as_ref().and_then(|message| message.get("id"));
                assert_eq!((&answer["jsonrpc"], Some(&answer["id"])), (&json!("2.0"), id));
                assert!(answer.get("result").is_some() != answer.get("error").is_some(), "{answer}");
            }
            let asked = std::mem::take(&mut *door.asked.lock());
            let is_call = message.is_some_and(|message| message["method"] == "tools/call");
            assert!(asked.len() <= usize::from(is_call && answer.is_ok()), "{line}: {asked:?}");
            for request in &asked {
                assert!(["test.run", PERSON_ASK].contains(&request.tool.as_str()), "{request:?}");
                assert_eq!((request.pid, request.task, request.zone, request.of), (PID, Some(TASK), ZONE, Some(RUN)));
                assert_eq!(answer.as_ref().unwrap()["result"]["isError"], json!(!door.admits));
            }
        }
    });
}

const HOOKS: &[&str] = &[
    "{\"hook_event_name\":\"SessionStart\"}\n",
    "{\"hook_event_name\":\"PreToolUse\",\"tool_use_id\":\"t\",\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"ls\"}}\n",
    "{\"hook_event_name\":\"PreToolUse\",\"tool_use_id\":\"u\",\"tool_name\":\"Write\",\"tool_input\":{\"file_path\":7}}\n",
    "{\"hook_event_name\":\"PostToolUse\",\"tool_use_id\":\"t\",\"tool_response\":{}}\n",
    "{\"hook_event_name\":\"PostToolUseFailure\",\"tool_use_id\":\"u\",\"error\":\"no\"}\n",
    "{\"hook_event_name\":\"PreToolUse\",\"tool_use_id\":\"v\",\"tool_name\":\"apply_patch\",\"tool_input\":{\"command\":\"*** Add File: a\\n+x\\n*** Delete File: b\"}}\n",
    "{\"hook_event_name\":\"UserPromptSubmit\",\"session_id\":\"-x\"}\n",
    "{\"hook_event_name\":\"BeforeTool\",\"tool_name\":\"write_file\",\"tool_input\":{\"file_path\":\"a\"}}\n",
    "{\"hook_event_name\":\"AfterTool\",\"tool_name\":\"write_file\",\"tool_input\":{\"file_path\":\"a\"}}\n",
    "{\"event\":\"before\",\"id\":\"t\",\"tool\":\"patch\",\"args\":{\"patchText\":\"*** Update File: a\\n*** Move to: b\\n\"}}\n",
    "{\"event\":\"after\",\"id\":\"t\"}\n",
    "{\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"",
    "mcp__skep__test_run",
    "Task",
    "\",\"tool_input\":",
    "{\"command\":\"a\\nb\"}",
    "[{}]",
    "{",
    "}",
    "\"",
    "null",
    ",",
    "\n",
];

#[test]
fn hook_door() {
    fuzz::text("hook_door", HOOKS, |text| {
        let admits = text.len() % 2 == 0;
        let door = Door { admits, ..Door::default() };
        let (wire, yes): (Box<dyn AgentWire>, &str) = match text.len() / 2 % 4 {
            0 => (Box::new(Claude::default()), "\"permissionDecision\":\"allow\""),
            1 => (Box::new(Codex::default()), "{}"),
            2 => (Box::new(Acp::of(AcpAgent::OpenCode)), "\"allowed\":true"),
            _ => (Box::new(Acp::of(AcpAgent::Gemini)), "\"decision\":\"allow\""),
        };
        let hook = TalkHook::new(PID, TASK, ZONE, wire);
        run(async {
            for line in text.lines() {
                let before = door.asked.lock().len();
                let answer = hook.respond(&door, line.as_bytes()).await.unwrap_or_default();
                assert!(!answer.contains('\n'), "more than one line: {answer}");
                // One use may be several calls.
                assert_eq!(answer.contains(yes), admits && door.asked.lock().len() > before, "{line}: {answer}");
            }
            hook.close(&door).await.unwrap();
        });
        let foreign =
            |request: &Request| (request.pid, request.task, request.zone, request.hands) != (PID, Some(TASK), ZONE, Hands::Caller);
        assert!(!door.asked.lock().iter().any(foreign));
        assert!(door.open.lock().is_empty(), "something was admitted and never reported");
    });
}
