//! Claude Code by its stream of JSON lines, both ways.
//!
//! The gate is the `PreToolUse` hook, asked over the same streams: it sees every tool, and a hook that gets no answer denies. The permission
//! question is answered by what the hook's answer was. Tried with 2.1.197 and 2.1.325.

use super::{
    AgentAnswer, AgentBoot, AgentEvent, AgentFailure, AgentWire, HookEvent, LaunchPlan, OURS, TOOLS, TerminalPlan, is_uuid, tools,
};
use crate::OwnCallId;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use world::RetryCause;

/// The name that we give our hook.
const HOOK: &str = "skep";
/// Seconds that a hook may take. The kernel answers at once or ends the program, so this only has to be long.
const HOOK_SECONDS: u64 = 600;

/// Gives the room's key to models to the client as a token, and becomes the client.
const TOKEN_FOR_KEY: &str =
    r#"ANTHROPIC_AUTH_TOKEN=${ANTHROPIC_API_KEY-}; export ANTHROPIC_AUTH_TOKEN; unset ANTHROPIC_API_KEY; exec "$@""#;

/// Claude Code's side of the conversation.
#[derive(Debug, Default)]
pub struct Claude {
    next: u64,
    /// Questions that wait for an answer: the request to answer, and the tool that it is about.
    asked: BTreeMap<OwnCallId, (String, String)>,
    /// Tools that were admitted and have not ended, by the program's own id.
    open: BTreeMap<String, OwnCallId>,
    /// Tools that were refused: their end is told too, and means nothing.
    refused: BTreeSet<String>,
    /// The kernel's own tools that it uses.
    own: BTreeSet<String>,
    /// The prompt that it has not begun with. It repeats each prompt when it begins with it.
    unheard: Option<String>,
}

impl AgentWire for Claude {
    fn launch(&mut self, boot: &AgentBoot) -> LaunchPlan {
        let mut arguments: Vec<String> = [
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            "--replay-user-messages",
            "--permission-mode",
            "default",
            "--permission-prompt-tool",
            "stdio",
            // A repository's own hooks run without a question otherwise.
            "--setting-sources",
            "user",
            "--strict-mcp-config",
        ]
        .map(str::to_owned)
        .into();
        arguments.extend(options(boot));
        LaunchPlan { arguments, environment: environment(), ..LaunchPlan::default() }
    }

    fn launch_terminal(&mut self, boot: &AgentBoot) -> Option<TerminalPlan> {
        // Said each time: newer versions start in a mode that asks nobody. In `plan` it changes nothing by itself.
        let mode = if boot.may_change { "default" } else { "plan" };
        let mut arguments: Vec<String> =
            ["--permission-mode", mode, "--setting-sources", "user", "--strict-mcp-config"].map(str::to_owned).into();
        arguments.extend(options(boot));
        let mut environment = environment();
        // It would fetch it from hosts that nobody has allowed.
        environment.push(("CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL".to_owned(), "1".to_owned()));
        // On an empty home it would ask for a theme, a login and trust in the folder first.
        let trusted = json!({ &boot.project: { "hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true } });
        let settings = json!({ "hasCompletedOnboarding": true, "theme": "dark", "projects": trusted });
        let home_files = vec![(".claude.json".to_owned(), settings.to_string())];
        // It asks the person about a key that it finds, and takes a token as it is.
        let before = ["sh", "-c", TOKEN_FOR_KEY, "sh"].map(str::to_owned).into();
        let is_hooked = boot.hook.is_some();
        let mut launch = LaunchPlan { before, arguments, environment, home_files, is_hooked };
        // Given with the command and not in the home, where what runs in the room could take it out.
        launch.arguments.extend(boot.hook.iter().flat_map(|hook| ["--settings".to_owned(), hooks(hook).to_string()]));
        Some(TerminalPlan { launch, conversations: Some(".claude/projects") })
    }

    fn hook_event(&self, input: &Value) -> HookEvent {
        let id = input["tool_use_id"].as_str().unwrap_or_default().to_owned();
        match input["hook_event_name"].as_str().unwrap_or_default() {
            "SessionStart" => HookEvent::Began,
            "PreToolUse" => {
                let call = tools::of_claude(input["tool_name"].as_str().unwrap_or_default(), &input["tool_input"]);
                HookEvent::Asked { id, calls: vec![call] }
            }
            name @ ("PostToolUse" | "PostToolUseFailure") => {
                let given = [&input["tool_response"], &input["error"]].into_iter().find(|given| !given.is_null());
                let text = tools::beginning(&given.map(Value::to_string).unwrap_or_default());
                HookEvent::Ended { id, ok: name == "PostToolUse", text }
            }
            _ => HookEvent::Other,
        }
    }

    fn hook_answer(&self, answer: &AgentAnswer) -> String {
        json!({ "hookSpecificOutput": decision(answer) }).to_string()
    }

    fn hello(&mut self, _boot: &AgentBoot) -> Vec<String> {
        let hook = json!({ "matcher": null, "hookCallbackIds": [HOOK], "timeout": HOOK_SECONDS });
        let request = json!({ "subtype": "initialize", "hooks": { "PreToolUse": [hook] } });
        vec![json!({ "type": "control_request", "request_id": "initialize", "request": request }).to_string()]
    }

    fn prompt(&mut self, text: &str) -> Vec<String> {
        let message = json!({ "role": "user", "content": [{ "type": "text", "text": text }] });
        let name = prompt_name();
        let prompt = json!({ "type": "user", "uuid": &name, "message": message }).to_string();
        self.unheard = Some(name);
        vec![prompt]
    }

    fn read(&mut self, line: &str) -> Vec<AgentEvent> {
        let Ok(frame) = serde_json::from_str::<Value>(line) else {
            return vec![AgentEvent::Progress { note: "a line that is no JSON".to_owned() }];
        };
        match frame["type"].as_str().unwrap_or_default() {
            "system" => system(&frame),
            "assistant" => self.assistant(&frame),
            "user" if frame["isReplay"] == true => {
                self.unheard.take_if(|name| frame["uuid"].as_str() == Some(name));
                Vec::new()
            }
            "user" => self.results(&frame),
            "control_request" => self.question(&frame),
            "control_cancel_request" => {
                self.asked.retain(|_, (request, _)| frame["request_id"].as_str() != Some(request));
                Vec::new()
            }
            "control_response" => response(&frame),
            // The end of a turn of its own, such as a notice from something in the background: the prompt is still to be answered.
            "result" if self.unheard.is_some() && !is_failure(&frame) => {
                vec![AgentEvent::Progress { note: "a turn of its own".to_owned() }]
            }
            "result" => vec![result(&frame)],
            other => vec![AgentEvent::Progress { note: other.to_owned() }],
        }
    }

    fn answer(&mut self, id: OwnCallId, answer: &AgentAnswer) -> Vec<AgentEvent> {
        let Some((request, tool)) = self.asked.remove(&id) else { return Vec::new() };
        match answer {
            AgentAnswer::Allowed => drop(self.open.insert(tool, id)),
            AgentAnswer::Refused(_) => drop(self.refused.insert(tool)),
        }
        vec![AgentEvent::Send(control_response(&request, &json!({ "hookSpecificOutput": decision(answer) })))]
    }

    fn interrupt(&mut self) -> Vec<String> {
        vec![json!({ "type": "control_request", "request_id": "interrupt", "request": { "subtype": "interrupt" } }).to_string()]
    }

    fn is_series(&self, name: &str) -> bool {
        is_uuid(name)
    }
}

impl Claude {
    /// A question of the program: our hook about a tool, or whether a tool may be used.
    fn question(&mut self, frame: &Value) -> Vec<AgentEvent> {
        let Some(request_id) = frame["request_id"].as_str() else { return Vec::new() };
        let request = &frame["request"];
        let tool_id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match request["subtype"].as_str().unwrap_or_default() {
            "hook_callback" if request["callback_id"] == HOOK => {
                let input = &request["input"];
                if input["tool_name"].as_str().is_some_and(|name| name.starts_with(OURS)) {
                    // It comes to the door by itself.
                    self.own.insert(tool_id(&request["tool_use_id"]));
                    let decision = json!({ "hookEventName": "PreToolUse", "permissionDecision": "allow" });
                    return vec![AgentEvent::Send(control_response(request_id, &json!({ "hookSpecificOutput": decision })))];
                }
                self.next += 1;
                let id = OwnCallId(self.next);
                let tool = [&request["tool_use_id"], &input["tool_use_id"]].into_iter().map(tool_id).find(|id| !id.is_empty());
                self.asked.insert(id, (request_id.to_owned(), tool.unwrap_or_default()));
                let call = tools::of_claude(input["tool_name"].as_str().unwrap_or_default(), &input["tool_input"]);
                vec![AgentEvent::Asked { id, call }]
            }
            "can_use_tool" => {
                // The hook was asked before, and its answer is the answer.
                let tool = tool_id(&request["tool_use_id"]);
                let is_admitted = self.open.contains_key(&tool) || self.own.contains(&tool);
                let answer = match is_admitted {
                    true => json!({ "behavior": "allow", "updatedInput": request["input"] }),
                    false => json!({ "behavior": "deny", "message": "the kernel was not asked about this tool" }),
                };
                vec![AgentEvent::Send(control_response(request_id, &answer))]
            }
            other => {
                let error = json!({ "subtype": "error", "request_id": request_id, "error": format!("`{other}` is not served here") });
                vec![AgentEvent::Send(json!({ "type": "control_response", "response": error }).to_string())]
            }
        }
    }

    fn assistant(&mut self, frame: &Value) -> Vec<AgentEvent> {
        let is_subagent = frame["parent_tool_use_id"].is_string();
        let blocks = frame["message"]["content"].as_array().into_iter().flatten();
        blocks
            .filter_map(|block| match block["type"].as_str() {
                Some("text") if !is_subagent => {
                    let text = block["text"].as_str().unwrap_or_default().trim();
                    (!text.is_empty()).then(|| AgentEvent::Message(text.to_owned()))
                }
                _ => None,
            })
            .collect()
    }

    /// What tools gave, as the program tells its model.
    fn results(&mut self, frame: &Value) -> Vec<AgentEvent> {
        let blocks = frame["message"]["content"].as_array().into_iter().flatten();
        let results = blocks.filter(|block| block["type"] == "tool_result");
        results
            .filter_map(|block| {
                let tool = block["tool_use_id"].as_str().unwrap_or_default();
                let ok = !block["is_error"].as_bool().unwrap_or(false);
                if let Some(id) = self.open.remove(tool) {
                    return Some(AgentEvent::Ended { id, ok, text: text_of(&block["content"]) });
                }
                // A tool that gave something without our yes was not asked about.
                let is_ungated = ok && !self.refused.remove(tool) && !self.own.remove(tool);
                is_ungated.then(|| AgentEvent::Ungated { tool: tool.to_owned() })
            })
            .collect()
    }
}

/// What a `PreToolUse` hook says.
fn decision(answer: &AgentAnswer) -> Value {
    match answer {
        AgentAnswer::Allowed => json!({ "hookEventName": "PreToolUse", "permissionDecision": "allow" }),
        AgentAnswer::Refused(why) => {
            json!({ "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why })
        }
    }
}

/// Settings that have this command run at the beginning, and before and after each tool.
fn hooks(command: &str) -> Value {
    let run = json!([{ "hooks": [{ "type": "command", "command": command, "timeout": HOOK_SECONDS, "onFailure": "block" }] }]);
    let names = ["SessionStart", "PreToolUse", "PostToolUse", "PostToolUseFailure"];
    json!({ "hooks": names.into_iter().map(|name| (name.to_owned(), run.clone())).collect::<serde_json::Map<_, _>>() })
}

/// What both ways of starting it share.
fn options(boot: &AgentBoot) -> Vec<String> {
    let brief = Some(boot.instructions()).filter(|brief| !brief.is_empty());
    let tools = boot.tools_url.as_ref().map(|url| json!({ "mcpServers": { TOOLS: { "type": "http", "url": url } } }).to_string());
    let given = [
        ("--resume", boot.series.as_ref()),
        ("--model", boot.model.as_ref()),
        ("--mcp-config", tools.as_ref()),
        ("--append-system-prompt", brief.as_ref()),
    ];
    given.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?.clone()])).flatten().collect()
}

fn environment() -> Vec<(String, String)> {
    let on = [
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
        "DISABLE_TELEMETRY",
        "DISABLE_ERROR_REPORTING",
        // What works in the background, or comes back later, has no task to work for: a task ends with its turn.
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
        "CLAUDE_CODE_DISABLE_CRON",
        "CLAUDE_CODE_DISABLE_WORKFLOWS",
        // As root it refuses some modes, unless it knows that it is closed in.
        "IS_SANDBOX",
    ];
    on.into_iter().map(|name| (name.to_owned(), "1".to_owned())).collect()
}

/// A name for a prompt that no other prompt of any conversation has: the program passes over names that it has seen.
fn prompt_name() -> String {
    let random = || RandomState::new().build_hasher().finish();
    let (one, other) = (random(), random());
    format!("{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}", one >> 32, (one >> 16) & 0xffff, one & 0xfff, other >> 52, other & 0xffff_ffff_ffff)
}

fn control_response(request: &str, answer: &Value) -> String {
    let response = json!({ "subtype": "success", "request_id": request, "response": answer });
    json!({ "type": "control_response", "response": response }).to_string()
}

fn system(frame: &Value) -> Vec<AgentEvent> {
    match frame["subtype"].as_str().unwrap_or_default() {
        "init" => frame["session_id"].as_str().map(|series| AgentEvent::Series(series.to_owned())).into_iter().collect(),
        "compact_boundary" => vec![AgentEvent::Compacted],
        other => vec![AgentEvent::Progress { note: other.to_owned() }],
    }
}

/// An answer to what we asked. Without its hook the program would not be gated, so a failure to set it up ends the turn.
fn response(frame: &Value) -> Vec<AgentEvent> {
    let response = &frame["response"];
    match (response["subtype"].as_str(), response["request_id"].as_str()) {
        (Some("error"), Some("initialize")) => {
            let why = response["error"].as_str().unwrap_or("it gave no reason");
            vec![AgentEvent::Failed(AgentFailure::new(format!("claude did not take the kernel's hook: {why}")))]
        }
        _ => Vec::new(),
    }
}

/// Whether a turn ended badly. A limit of the vendor's may come as `success` with this set.
fn is_failure(frame: &Value) -> bool {
    frame["is_error"].as_bool().unwrap_or(frame["subtype"] != "success")
}

fn result(frame: &Value) -> AgentEvent {
    let said = frame["result"].as_str().unwrap_or_default();
    let subtype = frame["subtype"].as_str().unwrap_or_default();
    if !is_failure(frame) {
        return AgentEvent::Done(said.to_owned());
    }
    let errors: Vec<&str> = frame["errors"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let why = [said, &errors.join("; "), subtype].into_iter().find(|why| !why.is_empty()).unwrap_or("it gave no reason").to_owned();
    let series_is_gone = why.contains("No conversation found");
    let status = frame["api_error_status"].as_u64();
    let failure = AgentFailure { series_is_gone, ..AgentFailure::new(format!("claude ended its turn with an error: {why}")) };
    AgentEvent::Failed(match (status, subtype) {
        (None, "error_max_turns" | "error_during_execution") => failure.may_retry(RetryCause::Fault),
        _ => failure.by_model(status),
    })
}

/// The beginning of a tool's result.
fn text_of(content: &Value) -> String {
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    };
    tools::beginning(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ToolCall;

    #[test]
    fn a_turn_of_its_own_does_not_end_the_prompt() {
        let mut claude = Claude::default();
        let name = |lines: &[String]| serde_json::from_str::<Value>(&lines[0]).unwrap()["uuid"].as_str().unwrap().to_owned();
        let first = name(&claude.prompt("one"));
        assert!(is_uuid(&first), "{first}");
        let end = |said: &str, is_error: bool| {
            json!({ "type": "result", "subtype": "success", "is_error": is_error, "result": said }).to_string()
        };
        let heard = |uuid: &str| json!({ "type": "user", "uuid": uuid, "isReplay": true, "message": { "content": [] } }).to_string();
        assert!(matches!(&claude.read(&end("a notice", false))[..], [AgentEvent::Progress { .. }]));
        assert!(claude.read(&heard("11111111-2222-4333-8444-555555555555")).is_empty(), "another's");
        assert!(matches!(&claude.read(&end("a notice", false))[..], [AgentEvent::Progress { .. }]));
        claude.read(&heard(&first));
        assert!(matches!(&claude.read(&end("done", false))[..], [AgentEvent::Done(said)] if said == "done"));
        // It may fail before it begins, as where a conversation is gone.
        let second = name(&claude.prompt("two"));
        assert_ne!(first, second);
        assert!(matches!(&claude.read(&end("No conversation found", true))[..], [AgentEvent::Failed(failure)] if failure.series_is_gone));
    }

    #[test]
    fn whatever_its_model_answered_the_task_can_go_on() {
        let rows = [
            (json!({"subtype": "success", "api_error_status": 401, "result": "Please run /login"}), RetryCause::Model),
            (json!({"subtype": "success", "api_error_status": 400, "result": "Prompt is too long"}), RetryCause::Model),
            (json!({"subtype": "success", "api_error_status": 402, "result": "API Error: 402"}), RetryCause::Budget),
            (json!({"subtype": "success", "result": "Credit balance is too low"}), RetryCause::Model),
            (json!({"subtype": "error_during_execution"}), RetryCause::Fault),
        ];
        for (mut frame, cause) in rows {
            (frame["type"], frame["is_error"]) = (json!("result"), json!(true));
            let AgentEvent::Failed(failure) = Claude::default().read(&frame.to_string()).remove(0) else { panic!("it failed: {frame}") };
            assert_eq!(failure.may_retry, Some(cause), "{frame}");
        }
    }

    #[test]
    fn on_a_terminal_it_goes_on_with_the_conversation_and_asks_by_its_hooks() {
        let series = "11111111-2222-3333-4444-555555555555".to_owned();
        let boot = AgentBoot { series: Some(series.clone()), project: "/p".into(), hook: Some("/hook 7".into()), ..AgentBoot::default() };
        let plan = Claude::default().launch_terminal(&boot).unwrap();
        let words = plan.launch.arguments;
        let after = |name: &str| words.iter().position(|word| word == name).map(|at| words[at + 1].clone());
        assert_eq!((after("--resume"), after("--permission-mode")), (Some(series), Some("plan".to_owned())), "{words:?}");
        assert!(!words.iter().any(|word| word == "-p"), "{words:?}");
        let settings: Value = serde_json::from_str(&after("--settings").unwrap()).unwrap();
        assert_eq!(settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"], "/hook 7");
        let home: Value = serde_json::from_str(&plan.launch.home_files[0].1).unwrap();
        assert_eq!(home["projects"]["/p"]["hasTrustDialogAccepted"], true);

        let without = Claude::default().launch_terminal(&AgentBoot { may_change: true, hook: None, ..boot }).unwrap();
        assert!(plan.launch.is_hooked && !without.launch.is_hooked && !without.launch.arguments.iter().any(|word| word == "--settings"));
    }

    #[test]
    fn what_its_hooks_are_told_becomes_a_question_and_an_end() {
        let claude = Claude::default();
        let told = |name: &str, more: Value| {
            let mut input = json!({ "hook_event_name": name, "tool_use_id": "t1", "tool_name": "Bash", "tool_input": {"command": "ls"} });
            more.as_object().unwrap().iter().for_each(|(key, value)| input[key] = value.clone());
            claude.hook_event(&input)
        };
        let call = ToolCall { tool: "shell.run".into(), input: json!({"command": ["bash", "-c", "ls"]}) };
        assert_eq!(told("SessionStart", json!({})), HookEvent::Began);
        assert_eq!(told("PreToolUse", json!({})), HookEvent::Asked { id: "t1".into(), calls: vec![call] });
        let ended = |ok, text: &str| HookEvent::Ended { id: "t1".into(), ok, text: text.into() };
        assert_eq!(told("PostToolUse", json!({"tool_response": "x"})), ended(true, "\"x\""));
        assert_eq!(told("PostToolUseFailure", json!({"error": "no"})), ended(false, "\"no\""));
        assert_eq!(told("Stop", json!({})), HookEvent::Other);
        let answer = |answer| serde_json::from_str::<Value>(&claude.hook_answer(&answer)).unwrap()["hookSpecificOutput"].clone();
        assert_eq!(answer(AgentAnswer::Allowed)["permissionDecision"], "allow");
        let no = answer(AgentAnswer::Refused("why".into()));
        assert_eq!((&no["permissionDecision"], &no["permissionDecisionReason"]), (&json!("deny"), &json!("why")));
    }
}
