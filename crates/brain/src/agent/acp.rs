//! Any agent that speaks the Agent Client Protocol, version 1: JSON-RPC in lines, both ways.
//!
//! The agent asks leave with `session/request_permission`; only options for this once are ever chosen. Whether it asks is up to it: a tool
//! that changes something and ends without an admission is told as ungated. Files and terminals of the client are refused, whatever the
//! agent thinks we have: they would be the kernel's hands on the real project. A refusal has no place for a reason, so the agent hears it
//! when its turn is over, in a turn of its own. Tried with opencode 1.18 and gemini 0.61.

mod launch;
mod terminal;

use super::approvals::{Approval, Approvals, Decided};
use super::{AgentAnswer, AgentBoot, AgentEvent, AgentFailure, AgentWire, HookEvent, LaunchPlan, TOOLS, TerminalPlan, tools};
use crate::OwnCallId;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use world::RetryCause;

const PROTOCOL: u64 = 1;
/// Our requests, by their ids. Prompts count on from the last of these.
const INITIALIZE: u64 = 1;
const SESSION: u64 = 2;
const PING: u64 = 3;
const PROMPT: u64 = 10;
/// Questions in a row without a word in between, after which an old conversation counts as told.
const QUIET_PINGS: u8 = 2;
/// Turns in a row that bring nothing but refusals.
const REFUSED_TURNS_MAX: u8 = 8;
/// The longest name of a session.
const SERIES_CHARS_MAX: usize = 128;

/// Whose agent it is: how it is started, and what is known of its manners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcpAgent {
    OpenCode,
    Gemini,
    /// One that the operator named.
    #[default]
    Other,
}

/// An agent's side of the conversation.
#[derive(Debug, Default)]
pub struct Acp {
    agent: AcpAgent,
    boot: AgentBoot,
    prompts: u64,
    session: Option<String>,
    /// It can go on with a conversation later.
    can_resume: bool,
    /// It tells an old conversation again, which is nothing new.
    is_replaying: bool,
    /// How often it was asked since it last told something of it.
    quiet: u8,
    /// What is to be said as soon as there is a session.
    prompt: Option<String>,
    /// A message in pieces, and whose they are.
    message: String,
    message_id: Value,
    last_message: String,
    /// What it has told of its tools, by their ids.
    seen: BTreeMap<String, Value>,
    /// By the tool's id.
    approvals: Approvals<Question>,
    /// Why calls were refused, to be told in the next turn.
    reasons: Vec<String>,
    /// Turns that ended in a refusal since something was last allowed.
    refused_turns: u8,
}

/// One question, and the answers that it offers.
#[derive(Debug)]
struct Question {
    request: Value,
    options: Value,
}

impl Acp {
    pub fn of(agent: AcpAgent) -> Acp {
        Acp { agent, ..Acp::default() }
    }
}

impl AgentWire for Acp {
    fn launch(&mut self, boot: &AgentBoot) -> LaunchPlan {
        self.boot = boot.clone();
        launch::plan(self.agent, boot)
    }

    fn launch_terminal(&mut self, boot: &AgentBoot) -> Option<TerminalPlan> {
        terminal::plan(self.agent, boot)
    }

    fn hook_event(&self, input: &Value) -> HookEvent {
        terminal::hook_event(self.agent, input)
    }

    fn hook_answer(&self, answer: &AgentAnswer) -> String {
        terminal::hook_reply(self.agent, answer)
    }

    fn hello(&mut self, _boot: &AgentBoot) -> Vec<String> {
        let none = json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false });
        let info = json!({ "name": "skep", "title": "Skep", "version": env!("CARGO_PKG_VERSION") });
        vec![request(INITIALIZE, "initialize", &json!({ "protocolVersion": PROTOCOL, "clientCapabilities": none, "clientInfo": info }))]
    }

    fn prompt(&mut self, text: &str) -> Vec<String> {
        // The protocol has no place for what stands before a prompt. Those that we know have a file for the role.
        let before = match self.agent {
            AcpAgent::Other => self.boot.instructions(),
            AcpAgent::OpenCode | AcpAgent::Gemini => self.boot.brief.clone(),
        };
        let is_new = self.session.is_none() && self.boot.series.is_none() && !before.is_empty();
        self.prompt = Some(if is_new { format!("{before}\n\n{text}") } else { text.to_owned() });
        self.begin_turn().into_iter().collect()
    }

    fn read(&mut self, line: &str) -> Vec<AgentEvent> {
        let Ok(frame) = serde_json::from_str::<Value>(line) else {
            return vec![AgentEvent::Progress { note: "a line that is no JSON".to_owned() }];
        };
        match (frame["method"].as_str(), frame.get("id")) {
            (Some("session/request_permission"), Some(id)) => self.question(id, &frame["params"]),
            (Some(other), Some(id)) => {
                let error = json!({ "code": -32601, "message": format!("`{other}` is not served here: use your own tools") });
                vec![AgentEvent::Send(json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string())]
            }
            (Some("session/update"), None) => self.update(&frame["params"]),
            (Some(other), None) => vec![AgentEvent::Progress { note: other.to_owned() }],
            (None, Some(id)) => self.response(id, &frame),
            (None, None) => Vec::new(),
        }
    }

    fn answer(&mut self, id: OwnCallId, answer: &AgentAnswer) -> Vec<AgentEvent> {
        match self.approvals.decide(id, answer) {
            None => Vec::new(),
            Some(Decided::Further(asked)) => vec![asked],
            Some(Decided::Allowed(approval)) => match approval.question.option("allow_once") {
                Some(outcome) => {
                    self.refused_turns = 0;
                    self.approvals.open(&approval);
                    vec![AgentEvent::Send(outcome)]
                }
                None => self.decline(&approval, "the agent offers no leave for this once only"),
            },
            Some(Decided::Refused { approval, why }) => self.decline(&approval, &why),
        }
    }

    fn interrupt(&mut self) -> Vec<String> {
        let Some(session) = &self.session else { return Vec::new() };
        let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }).to_string();
        let waiting = self.approvals.take_waiting();
        std::iter::once(cancel).chain(waiting.iter().map(|approval| approval.question.cancelled())).collect()
    }

    fn is_series(&self, name: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
        !name.is_empty() && name.len() <= SERIES_CHARS_MAX && !name.starts_with('-') && name.bytes().all(is_plain)
    }
}

impl Acp {
    /// Whether this is the request whose answer ends the turn.
    fn is_turn(&self, id: u64) -> bool {
        self.prompts > 0 && id == PROMPT + self.prompts
    }

    fn begin_turn(&mut self) -> Option<String> {
        if self.is_replaying {
            return None;
        }
        let session = self.session.clone()?;
        let text = self.prompt.take()?;
        self.prompts += 1;
        let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
        Some(request(PROMPT + self.prompts, "session/prompt", &params))
    }

    fn decline(&mut self, approval: &Approval<Question>, why: &str) -> Vec<AgentEvent> {
        self.reasons.push(why.to_owned());
        let mut events = self.approvals.refuse(approval);
        let question = &approval.question;
        events.push(AgentEvent::Send(question.option("reject_once").unwrap_or_else(|| question.cancelled())));
        events
    }

    /// An answer to one of our requests.
    fn response(&mut self, id: &Value, frame: &Value) -> Vec<AgentEvent> {
        let result = &frame["result"];
        match (id.as_u64(), frame.get("error")) {
            (Some(INITIALIZE), None) => self.initialized(result),
            (Some(SESSION), None) => {
                // One that is taken up again keeps its name.
                let named = result["sessionId"].as_str().map(str::to_owned).or_else(|| self.boot.series.clone());
                let Some(session) = named else {
                    return vec![AgentEvent::Failed(AgentFailure::new("the agent opened a session without a name"))];
                };
                self.session = Some(session.clone());
                // A name that leads nowhere later is none.
                let mut events: Vec<AgentEvent> = self.can_resume.then_some(AgentEvent::Series(session)).into_iter().collect();
                // Gemini says that the conversation is loaded, and tells it then: what it still tells comes before its answer to this.
                if self.is_replaying && self.agent == AcpAgent::Gemini {
                    events.push(AgentEvent::Send(request(PING, "_skep/ping", &json!({}))));
                    return events;
                }
                self.is_replaying = false;
                events.extend(self.begin_turn().map(AgentEvent::Send));
                events
            }
            (Some(PING), _) => {
                self.quiet += 1;
                if self.quiet < QUIET_PINGS {
                    return vec![AgentEvent::Send(request(PING, "_skep/ping", &json!({})))];
                }
                self.is_replaying = false;
                self.begin_turn().map(AgentEvent::Send).into_iter().collect()
            }
            (Some(id), None) if self.is_turn(id) => self.turn_is_over(result["stopReason"].as_str().unwrap_or_default()),
            (Some(INITIALIZE), Some(error)) => vec![AgentEvent::Failed(failed("the agent did not start", error))],
            (Some(SESSION), Some(error)) => {
                let failure = failed("the agent did not open its session", error);
                vec![AgentEvent::Failed(AgentFailure { series_is_gone: self.boot.series.is_some(), ..failure })]
            }
            (Some(id), Some(error)) if self.is_turn(id) => {
                vec![AgentEvent::Failed(failed("the agent ended its turn with an error", error))]
            }
            // The end of an earlier turn may come late. What nobody asked for is no end of this one, whose words may still come.
            (Some(id), _) if id > PROMPT + self.prompts => {
                vec![AgentEvent::Failed(AgentFailure::new("the agent answered a request that it was not sent"))]
            }
            _ => Vec::new(),
        }
    }

    fn initialized(&mut self, result: &Value) -> Vec<AgentEvent> {
        if result["protocolVersion"].as_u64() != Some(PROTOCOL) {
            let what = format!("the agent speaks version {} of the protocol, and only {PROTOCOL} is known here", result["protocolVersion"]);
            return vec![AgentEvent::Failed(AgentFailure::new(what))];
        }
        let abilities = &result["agentCapabilities"];
        // An agent that takes no servers over HTTP works without the kernel's own tools.
        let takes_http = abilities["mcpCapabilities"]["http"].as_bool().unwrap_or(false);
        let tools = self.boot.tools_url.iter().filter(|_| takes_http);
        let tools: Vec<Value> = tools.map(|url| json!({ "type": "http", "name": TOOLS, "url": url, "headers": [] })).collect();
        let mut params = json!({ "cwd": self.boot.project, "mcpServers": tools });
        // Without telling the old conversation again, where it can.
        let resume = if !abilities["sessionCapabilities"]["resume"].is_null() {
            Some("session/resume")
        } else {
            abilities["loadSession"].as_bool().unwrap_or(false).then_some("session/load")
        };
        self.can_resume = resume.is_some();
        let method = match (&self.boot.series, resume) {
            (Some(series), Some(resume)) => {
                params["sessionId"] = json!(series);
                self.is_replaying = true;
                resume
            }
            // An agent that cannot go on begins anew.
            _ => {
                self.boot.series = None;
                "session/new"
            }
        };
        vec![AgentEvent::Send(request(SESSION, method, &params))]
    }

    fn turn_is_over(&mut self, why: &str) -> Vec<AgentEvent> {
        let mut events: Vec<AgentEvent> = self.whole_message().into_iter().collect();
        let reasons = std::mem::take(&mut self.reasons);
        if !reasons.is_empty() && matches!(why, "end_turn" | "cancelled" | "refusal") {
            self.refused_turns += 1;
            if self.refused_turns > REFUSED_TURNS_MAX {
                let what = format!("the agent tried what is refused again and again; the last time: {}", reasons.join("; "));
                events.push(AgentEvent::Failed(AgentFailure::new(what).may_retry(RetryCause::Fault)));
                return events;
            }
            self.prompt = Some(format!("What you tried was refused: {}\nGo on without it, or say what you need.", reasons.join("\n")));
            events.extend(self.begin_turn().map(AgentEvent::Send));
            return events;
        }
        events.push(match why {
            "end_turn" => AgentEvent::Done(std::mem::take(&mut self.last_message)),
            "cancelled" => AgentEvent::Failed(AgentFailure::new("the agent was interrupted in its turn").may_retry(RetryCause::Fault)),
            "refusal" => AgentEvent::Failed(AgentFailure::new("the agent's model refused to go on")),
            "max_tokens" | "max_turn_requests" => {
                AgentEvent::Failed(AgentFailure::new(format!("the agent ended its turn at a limit (`{why}`)")).may_retry(RetryCause::Fault))
            }
            other => {
                AgentEvent::Failed(AgentFailure::new(format!("the agent ended its turn for a reason that is not known here (`{other}`)")))
            }
        });
        events
    }

    fn question(&mut self, id: &Value, params: &Value) -> Vec<AgentEvent> {
        let tool = self.note(&params["toolCall"]);
        let known = self.seen.get(&tool).cloned().unwrap_or_default();
        let mut left = VecDeque::from(tools::of_acp(&known, &params["toolCall"]));
        let Some(first) = left.pop_front() else { return Vec::new() };
        let mut events: Vec<AgentEvent> = self.whole_message().into_iter().collect();
        events.push(self.approvals.ask(tool, first, left, Question { request: id.clone(), options: params["options"].clone() }));
        events
    }

    fn update(&mut self, params: &Value) -> Vec<AgentEvent> {
        let update = &params["update"];
        if self.is_replaying {
            self.quiet = 0;
            return Vec::new();
        }
        // What its own helpers say is their affair; what they do is not.
        let is_own = self.session.is_none() || params["sessionId"].as_str() == self.session.as_deref();
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" if is_own => {
                let mut events = Vec::new();
                if update["messageId"] != self.message_id {
                    events.extend(self.whole_message());
                    self.message_id = update["messageId"].clone();
                }
                self.message.push_str(update["content"]["text"].as_str().unwrap_or_default());
                events
            }
            "tool_call" | "tool_call_update" => {
                let mut events: Vec<AgentEvent> = self.whole_message().into_iter().collect();
                let tool = self.note(update);
                events.extend(self.tool_moved(&tool));
                events
            }
            other => vec![AgentEvent::Progress { note: other.to_owned() }],
        }
    }

    /// Takes down what is told of a tool; later words replace earlier ones, and the first title stays: it is the tool's name.
    fn note(&mut self, told: &Value) -> String {
        let id = told["toolCallId"].as_str().unwrap_or_default().to_owned();
        let known = self.seen.entry(id.clone()).or_insert_with(|| json!({}));
        for field in ["kind", "status", "title", "locations", "rawInput", "rawOutput", "content"] {
            let is_empty = match &told[field] {
                Value::Null => true,
                Value::Array(list) => list.is_empty(),
                Value::Object(fields) => fields.is_empty(),
                _ => false,
            };
            // A question may say less than what was told before it.
            if !is_empty && (field != "title" || !known["title"].is_string()) {
                known[field] = told[field].clone();
            }
        }
        id
    }

    /// What follows from where a tool is now.
    fn tool_moved(&mut self, tool: &str) -> Vec<AgentEvent> {
        let Some(known) = self.seen.get(tool).cloned() else { return Vec::new() };
        let (status, kind) = (known["status"].as_str().unwrap_or_default(), known["kind"].as_str().unwrap_or_default());
        let is_asked = self.approvals.is_waiting(tool);
        let is_over = matches!(status, "completed" | "failed");
        if self.approvals.is_open(tool) {
            if !is_over {
                return Vec::new();
            }
            self.seen.remove(tool);
            let text = tools::beginning(&tools::text_of_acp(&known));
            return self.approvals.end(tool, status == "completed", &text).unwrap_or_default();
        }
        let is_refused = self.approvals.is_refused(tool) && status != "completed";
        let changes = matches!(kind, "edit" | "delete" | "move" | "execute");
        // A command that failed ran; an edit that failed without a question was never made.
        let has_run = status == "completed"
            || (status == "failed" && kind == "execute")
            || (status == "in_progress" && self.agent == AcpAgent::Gemini);
        let tool_name = known["title"].as_str().unwrap_or(kind).to_owned();
        if is_over {
            self.seen.remove(tool);
            self.approvals.forget_refused(tool);
        }
        if changes && has_run && !is_refused && !is_asked { vec![AgentEvent::Ungated { tool: tool_name }] } else { Vec::new() }
    }

    /// The message that came in pieces, when something else begins.
    fn whole_message(&mut self) -> Option<AgentEvent> {
        let text = std::mem::take(&mut self.message).trim().to_owned();
        if text.is_empty() {
            return None;
        }
        self.last_message.clone_from(&text);
        Some(AgentEvent::Message(text))
    }
}

impl Question {
    /// The answer by an option of this kind, where there is one.
    fn option(&self, kind: &str) -> Option<String> {
        let option = self.options.as_array()?.iter().find(|option| option["kind"] == kind)?;
        let outcome = json!({ "outcome": "selected", "optionId": option["optionId"] });
        Some(response_to(&self.request, &json!({ "outcome": outcome })))
    }

    fn cancelled(&self) -> String {
        response_to(&self.request, &json!({ "outcome": { "outcome": "cancelled" } }))
    }
}

/// What an agent says when it cannot go on. Of its model's errors it gives the status as the code, or only the words.
fn failed(what: &str, error: &Value) -> AgentFailure {
    let message = error["message"].as_str().unwrap_or("it gave no reason");
    let details = [&error["data"]["details"], &error["data"]["message"], &error["data"]].into_iter().find_map(Value::as_str);
    let told = details.filter(|details| !message.contains(details)).map_or(message.to_owned(), |details| format!("{message}: {details}"));
    let failure = AgentFailure::new(format!("{what}: {told}"));
    let says_so = told.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == "402");
    // The protocol's own word for it.
    let hint = (error["code"] == -32000).then(|| "sign in with the agent's own program, or set up its key".to_owned());
    AgentFailure { hint, ..failure.by_model(if says_so { Some(402) } else { error["code"].as_u64() }) }
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn response_to(id: &Value, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}

#[cfg(test)]
mod tests;
