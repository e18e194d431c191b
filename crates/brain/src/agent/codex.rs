//! Codex by its `app-server`: requests, answers and notices as JSON lines, both ways.
//!
//! With the approval policy `untrusted` every command and every patch is asked about. A patch of several files is several calls, decided
//! one after the other; one refusal declines all of it. An approval carries no reason, so the reason is told to the turn before it is
//! declined. **Invariant.** A request of the server and an answer to ours are told apart by `method`: their ids collide. Tried with 0.166.

mod exec;
mod terminal;

use super::approvals::{Approvals, Decided};
use super::{
    AgentAnswer, AgentBoot, AgentEvent, AgentFailure, AgentWire, FallbackWire, HookEvent, LaunchPlan, OURS, TOOLS, TerminalPlan, is_uuid,
    tools,
};
use crate::{OwnCallId, ToolCall};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use world::RetryCause;

pub use exec::CodexExec;

/// Our requests, by their ids. Later ones count on from the last of these.
const INITIALIZE: u64 = 1;
const THREAD: u64 = 2;
const TURN: u64 = 3;
const FURTHER: u64 = 10;

/// Codex's side of the conversation.
#[derive(Debug, Default)]
pub struct Codex {
    boot: AgentBoot,
    sent: u64,
    thread: Option<String>,
    turn: Option<String>,
    /// What is to be said as soon as there is a thread.
    prompt: Option<String>,
    /// What it said last: the summary of its turn.
    last_message: String,
    /// What a patch that is asked about changes, by the item's id.
    patches: BTreeMap<String, Value>,
    /// By the item's id.
    approvals: Approvals<Question>,
    is_over: bool,
    /// It has answered our first request.
    is_greeted: bool,
}

/// One question of the server.
#[derive(Debug)]
struct Question {
    request: Value,
    is_elicitation: bool,
    /// The turn that asks, which may be of a thread that its own thread opened.
    turn: Option<(String, String)>,
}

impl AgentWire for Codex {
    fn launch(&mut self, boot: &AgentBoot) -> LaunchPlan {
        self.boot = boot.clone();
        let arguments = std::iter::once("app-server".to_owned()).chain(terminal::settings(boot)).collect();
        LaunchPlan { arguments, ..LaunchPlan::default() }
    }

    fn launch_terminal(&mut self, boot: &AgentBoot) -> Option<TerminalPlan> {
        self.boot = boot.clone();
        Some(terminal::plan(boot))
    }

    fn hook_event(&self, input: &Value) -> HookEvent {
        terminal::hook_event(input, &self.boot.project)
    }

    fn hook_answer(&self, answer: &AgentAnswer) -> String {
        terminal::hook_reply(answer)
    }

    fn is_greeted(&self) -> bool {
        self.is_greeted
    }

    fn fallback(&mut self) -> Option<FallbackWire> {
        Some(FallbackWire { wire: Box::new(CodexExec::default()), missing: "codex app-server", instead: "codex exec" })
    }

    fn hello(&mut self, _boot: &AgentBoot) -> Vec<String> {
        let info = json!({ "name": "skep", "title": "Skep", "version": env!("CARGO_PKG_VERSION") });
        vec![request(INITIALIZE, "initialize", &json!({ "clientInfo": info }))]
    }

    fn prompt(&mut self, text: &str) -> Vec<String> {
        self.is_over = false;
        self.prompt = Some(text.to_owned());
        self.begin_turn().into_iter().collect()
    }

    fn read(&mut self, line: &str) -> Vec<AgentEvent> {
        let Ok(frame) = serde_json::from_str::<Value>(line) else {
            return vec![AgentEvent::Progress { note: "a line that is no JSON".to_owned() }];
        };
        match (frame["method"].as_str(), frame.get("id")) {
            (Some(method), Some(id)) => self.question(method, id, &frame["params"]),
            (Some(method), None) => self.notice(method, &frame["params"]),
            (None, Some(id)) => self.response(id, &frame),
            (None, None) => Vec::new(),
        }
    }

    fn answer(&mut self, id: OwnCallId, answer: &AgentAnswer) -> Vec<AgentEvent> {
        match self.approvals.decide(id, answer) {
            None => Vec::new(),
            Some(Decided::Further(asked)) => vec![asked],
            Some(Decided::Allowed(approval)) => {
                self.approvals.open(&approval);
                vec![AgentEvent::Send(approval.question.decision(true))]
            }
            Some(Decided::Refused { approval, why }) => {
                let mut events = self.approvals.refuse(&approval);
                // The decision has no place for a reason; what is said to the turn now is heard with the refusal.
                events.extend(self.steer(&approval.question, &format!("That was refused: {why}")).map(AgentEvent::Send));
                events.push(AgentEvent::Send(approval.question.decision(false)));
                events
            }
        }
    }

    fn interrupt(&mut self) -> Vec<String> {
        let (Some(thread), Some(turn)) = (self.thread.clone(), self.turn.clone()) else { return Vec::new() };
        vec![self.further("turn/interrupt", &json!({ "threadId": thread, "turnId": turn }))]
    }

    fn is_series(&self, name: &str) -> bool {
        is_uuid(name)
    }
}

impl Codex {
    fn further(&mut self, method: &str, params: &Value) -> String {
        self.sent += 1;
        request(FURTHER + self.sent, method, params)
    }

    fn steer(&mut self, question: &Question, text: &str) -> Option<String> {
        let (thread, turn) = question.turn.clone()?;
        Some(self.further("turn/steer", &json!({ "threadId": thread, "expectedTurnId": turn, "input": said(text) })))
    }

    fn begin_turn(&mut self) -> Option<String> {
        let thread = self.thread.clone()?;
        let text = self.prompt.take()?;
        Some(request(TURN, "turn/start", &json!({ "threadId": thread, "input": said(&text) })))
    }

    fn open_thread(&self) -> String {
        let (AgentBoot { series, model, project, .. }, brief) = (&self.boot, self.boot.instructions());
        let mut params = json!({ "cwd": project, "approvalPolicy": "untrusted", "sandbox": "danger-full-access" });
        if !brief.is_empty() {
            params["developerInstructions"] = json!(brief);
        }
        if let Some(model) = model {
            params["model"] = json!(model);
        }
        match series {
            Some(series) => {
                params["threadId"] = json!(series);
                request(THREAD, "thread/resume", &params)
            }
            None => request(THREAD, "thread/start", &params),
        }
    }

    /// An answer to one of our requests.
    fn response(&mut self, id: &Value, frame: &Value) -> Vec<AgentEvent> {
        let error = frame["error"]["message"].as_str();
        match (id.as_u64(), error) {
            (Some(INITIALIZE), None) => {
                self.is_greeted = true;
                vec![AgentEvent::Send(json!({ "method": "initialized" }).to_string()), AgentEvent::Send(self.open_thread())]
            }
            (Some(THREAD), None) => {
                let Some(thread) = frame["result"]["thread"]["id"].as_str() else {
                    return vec![AgentEvent::Failed(AgentFailure::new("codex opened a thread without a name"))];
                };
                self.thread = Some(thread.to_owned());
                let mut events = vec![AgentEvent::Series(thread.to_owned())];
                events.extend(self.begin_turn().map(AgentEvent::Send));
                events
            }
            (Some(TURN), None) => {
                self.turn = frame["result"]["turn"]["id"].as_str().map(str::to_owned);
                Vec::new()
            }
            (Some(THREAD), Some(error)) => {
                let failure = AgentFailure::new(format!("codex did not open its thread: {error}")).may_retry(RetryCause::Fault);
                vec![AgentEvent::Failed(AgentFailure { series_is_gone: self.boot.series.is_some(), ..failure })]
            }
            (Some(INITIALIZE | TURN), Some(error)) => {
                let failure = AgentFailure::new(format!("codex did not begin its turn: {error}"));
                vec![AgentEvent::Failed(failure.may_retry(RetryCause::Fault))]
            }
            (_, Some(error)) => vec![AgentEvent::Progress { note: format!("codex: {error}") }],
            _ => Vec::new(),
        }
    }

    /// A request of the server's: leave to do something, or what it is not served here.
    fn question(&mut self, method: &str, id: &Value, params: &Value) -> Vec<AgentEvent> {
        let mut item = params["itemId"].as_str().unwrap_or_default().to_owned();
        let is_elicitation = method == "mcpServer/elicitation/request";
        let calls = match method {
            "item/commandExecution/requestApproval" => self.command(params),
            // Leave for a whole folder is never asked for here, and never given.
            "item/fileChange/requestApproval" if params["grantRoot"].is_null() => match self.patches.get(&item) {
                Some(changes) => tools::of_codex_changes(changes),
                None => vec![tools::used("apply_patch", params)],
            },
            // The kernel's own tools come to its door by themselves.
            _ if is_elicitation && is_tool_call(params) && params["serverName"] == TOOLS => {
                return vec![AgentEvent::Send(response_to(id, &json!({ "action": "accept", "content": {} })))];
            }
            // A tool of an MCP server asks in the form of a question to the person.
            _ if is_elicitation && is_tool_call(params) => {
                let server = params["serverName"].as_str().unwrap_or_default();
                let tool = params["_meta"]["tool_name"].as_str().or(params["_meta"]["tool_title"].as_str()).unwrap_or("unknown");
                // The question does not say which item it is about.
                item = format!("mcp__{server}__{tool}");
                vec![tools::used(&item, &params["_meta"]["tool_params"])]
            }
            _ if is_elicitation => return vec![AgentEvent::Send(response_to(id, &json!({ "action": "decline", "content": null })))],
            "item/fileChange/requestApproval" => return vec![AgentEvent::Send(response_to(id, &json!({ "decision": "decline" })))],
            other => {
                let error = json!({ "code": -32601, "message": format!("`{other}` is not served here") });
                return vec![AgentEvent::Send(json!({ "id": id, "error": error }).to_string())];
            }
        };
        let mut left = VecDeque::from(calls);
        let first = left.pop_front().unwrap_or_else(|| tools::used("apply_patch", params));
        let turn = params["threadId"].as_str().zip(params["turnId"].as_str()).map(|(thread, turn)| (thread.to_owned(), turn.to_owned()));
        vec![self.approvals.ask(item, first, left, Question { request: id.clone(), is_elicitation, turn })]
    }

    fn command(&self, params: &Value) -> Vec<ToolCall> {
        let kind = params["kind"].as_str().unwrap_or("command");
        let Some(command) = params["command"].as_str().filter(|_| kind == "command" && params["networkApprovalContext"].is_null()) else {
            return vec![tools::used(kind, params)];
        };
        tools::of_command(command, params["cwd"].as_str(), &self.boot.project)
    }

    fn notice(&mut self, method: &str, params: &Value) -> Vec<AgentEvent> {
        // Threads that it opens beside its own ask for leave as it does; what they say and when they end is their affair.
        let is_own = params["threadId"].as_str().is_none_or(|thread| self.thread.as_deref() == Some(thread));
        match method {
            "item/started" => {
                let item = &params["item"];
                if let (Some("fileChange"), Some(id)) = (item["type"].as_str(), item["id"].as_str()) {
                    self.patches.insert(id.to_owned(), item["changes"].clone());
                }
                Vec::new()
            }
            "item/completed" => self.completed(&params["item"], is_own),
            "turn/started" if is_own => {
                self.turn = params["turn"]["id"].as_str().map(str::to_owned);
                Vec::new()
            }
            "error" if is_own && http_status(&params["error"]) == Some(402) => self.failed(&params["error"]),
            "turn/completed" if is_own => match params["turn"]["status"].as_str() {
                Some("completed") => vec![AgentEvent::Done(std::mem::take(&mut self.last_message))],
                Some("interrupted") => {
                    vec![AgentEvent::Failed(AgentFailure::new("codex was interrupted in its turn").may_retry(RetryCause::Fault))]
                }
                _ => self.failed(&params["turn"]["error"]),
            },
            other => vec![AgentEvent::Progress { note: other.to_owned() }],
        }
    }

    fn completed(&mut self, item: &Value, is_own: bool) -> Vec<AgentEvent> {
        let kind = item["type"].as_str().unwrap_or_default();
        let id = match kind {
            "mcpToolCall" => format!("mcp__{}__{}", item["server"].as_str().unwrap_or_default(), item["tool"].as_str().unwrap_or_default()),
            _ => item["id"].as_str().unwrap_or_default().to_owned(),
        };
        match kind {
            "agentMessage" if is_own => {
                let text = item["text"].as_str().unwrap_or_default().trim().to_owned();
                if text.is_empty() {
                    return Vec::new();
                }
                self.last_message.clone_from(&text);
                vec![AgentEvent::Message(text)]
            }
            "commandExecution" | "fileChange" | "mcpToolCall" | "dynamicToolCall" => {
                self.patches.remove(&id);
                let status = item["status"].as_str().unwrap_or_default();
                let ok = status == "completed" && item["exitCode"].as_i64().unwrap_or(0) == 0;
                let said = item["aggregatedOutput"].as_str().filter(|said| !said.is_empty());
                if let Some(ends) = self.approvals.end(&id, ok, &tools::beginning(said.unwrap_or(status))) {
                    return ends;
                }
                // What never ran was declined, by us or by itself; the kernel's own tools come to its door by themselves.
                if self.approvals.forget_refused(&id) || status == "declined" || id.starts_with(OURS) {
                    return Vec::new();
                }
                vec![AgentEvent::Ungated { tool: item["command"].as_str().unwrap_or(kind).to_owned() }]
            }
            "contextCompaction" if is_own => vec![AgentEvent::Compacted],
            other => vec![AgentEvent::Progress { note: other.to_owned() }],
        }
    }

    /// The end of a turn that came to nothing; once, though it is told twice.
    fn failed(&mut self, error: &Value) -> Vec<AgentEvent> {
        if std::mem::replace(&mut self.is_over, true) {
            return Vec::new();
        }
        let told = [&error["additionalDetails"], &error["message"]].into_iter().find_map(Value::as_str).unwrap_or("it gave no reason");
        let failure = AgentFailure::new(format!("codex ended its turn with an error: {told}"));
        vec![AgentEvent::Failed(match error["codexErrorInfo"].as_str() {
            Some("sandboxError" | "threadRollbackFailed") => failure.may_retry(RetryCause::Fault),
            Some("sessionBudgetExceeded") => failure.may_retry(RetryCause::Budget),
            // The gateway says so with a status that codex does not try again.
            _ if told.contains("insufficient_quota") => failure.may_retry(RetryCause::Budget),
            // It has many words for trouble with its model, and none for some of it.
            _ => failure.by_model(http_status(error)),
        })]
    }
}

impl Question {
    fn decision(&self, is_allowed: bool) -> String {
        let result = match (self.is_elicitation, is_allowed) {
            (false, true) => json!({ "decision": "accept" }),
            (false, false) => json!({ "decision": "decline" }),
            (true, true) => json!({ "action": "accept", "content": {} }),
            (true, false) => json!({ "action": "decline", "content": null }),
        };
        response_to(&self.request, &result)
    }
}

/// Is it a question about a tool of an MCP server?
fn is_tool_call(params: &Value) -> bool {
    params["_meta"]["codex_approval_kind"] == "mcp_tool_call"
}

/// The status that the model's server answered with, where that was the trouble.
fn http_status(error: &Value) -> Option<u64> {
    error["codexErrorInfo"].as_object()?.values().find_map(|info| info["httpStatusCode"].as_u64())
}

fn said(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({ "id": id, "method": method, "params": params }).to_string()
}

fn response_to(id: &Value, result: &Value) -> String {
    json!({ "id": id, "result": result }).to_string()
}

#[cfg(test)]
mod tests;
