//! Codex by `codex exec --json`, one program for each turn: for a codex whose `app-server` does not answer.
//!
//! It cannot ask for approval, so its gate is the `PreToolUse` hook, which the kernel answers. Codex goes on where a hook cannot be run, so
//! what its stream shows as done is counted against what was admitted: more is told as ungated. **Invariant.** Every command, patch and
//! foreign tool of the stream uses up one admission of its kind. Tried with 0.166.

use super::terminal::{hook_event, hook_options, hook_reply, settings};
use super::{AgentAnswer, AgentBoot, AgentEvent, AgentFailure, AgentWire, Approvals, Decided, LaunchPlan, OURS, is_uuid, tools};
use crate::OwnCallId;
use crate::agent::HookEvent;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use world::RetryCause;

/// Gives the client as many lines of its input as the first one says, and then the end of it: it reads its prompt until then.
const PROMPT_BY_LINES: &str = r#"IFS= read -r lines; head -n "$lines" | "$@""#;

/// Codex's side of the conversation, one turn at a time.
#[derive(Debug, Default)]
pub struct CodexExec {
    boot: AgentBoot,
    last_message: String,
    /// By the tool's id; a question is answered by its hook's number.
    approvals: Approvals<u64>,
    /// Tools that were admitted and that the stream has not shown yet, by their kind.
    admitted: BTreeMap<Kind, u64>,
    kinds: BTreeMap<u64, Kind>,
}

/// What the stream and the hooks have one word for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Command,
    Patch,
    Other,
}

impl AgentWire for CodexExec {
    fn launch(&mut self, boot: &AgentBoot) -> LaunchPlan {
        self.boot = boot.clone();
        let mut arguments: Vec<String> = ["exec", "--json", "--skip-git-repo-check"].map(str::to_owned).into();
        arguments.extend(settings(boot));
        arguments.extend(hook_options(boot));
        arguments.extend(["-c".to_owned(), "sandbox_mode=danger-full-access".to_owned()]);
        arguments.extend(boot.model.iter().flat_map(|model| ["-m".to_owned(), model.clone()]));
        let brief = boot.instructions();
        if !brief.is_empty() {
            arguments.extend(["-c".to_owned(), format!("developer_instructions={}", json!(brief))]);
        }
        arguments.extend(boot.series.iter().flat_map(|series| ["resume".to_owned(), series.clone()]));
        arguments.push("-".to_owned());
        let before = ["sh", "-c", PROMPT_BY_LINES, "sh"].map(str::to_owned).into();
        LaunchPlan { before, arguments, is_hooked: boot.hook.is_some(), ..LaunchPlan::default() }
    }

    fn hello(&mut self, _boot: &AgentBoot) -> Vec<String> {
        Vec::new()
    }

    fn prompt(&mut self, text: &str) -> Vec<String> {
        vec![text.split('\n').count().to_string(), text.to_owned()]
    }

    fn read_hook(&mut self, number: u64, input: &Value) -> Vec<AgentEvent> {
        let reply = |text: String| vec![AgentEvent::HookReply { number, text }];
        match hook_event(input, &self.boot.project) {
            // The kernel's own tools come to its door by themselves.
            HookEvent::Asked { .. } if input["tool_name"].as_str().is_some_and(|tool| tool.starts_with(OURS)) => {
                reply(hook_reply(&AgentAnswer::Allowed))
            }
            HookEvent::Asked { id, calls } => {
                let mut left = VecDeque::from(calls);
                let Some(first) = left.pop_front() else { return Vec::new() };
                self.kinds.insert(number, Kind::of_tool(input["tool_name"].as_str().unwrap_or_default()));
                vec![self.approvals.ask(id, first, left, number)]
            }
            HookEvent::Ended { id, ok, text } => {
                let mut events = self.approvals.end(&id, ok, &text).unwrap_or_default();
                events.extend(reply(String::new()));
                events
            }
            HookEvent::Began | HookEvent::Prompted { .. } | HookEvent::Other => reply(String::new()),
        }
    }

    fn read(&mut self, line: &str) -> Vec<AgentEvent> {
        let Ok(frame) = serde_json::from_str::<Value>(line) else {
            return vec![AgentEvent::Progress { note: "a line that is no JSON".to_owned() }];
        };
        match frame["type"].as_str().unwrap_or_default() {
            "thread.started" => frame["thread_id"].as_str().map(|id| AgentEvent::Series(id.to_owned())).into_iter().collect(),
            "item.completed" => self.completed(&frame["item"]),
            "turn.completed" => vec![AgentEvent::Done(std::mem::take(&mut self.last_message))],
            "turn.failed" => vec![AgentEvent::Failed(failure(frame["error"]["message"].as_str()))],
            other => vec![AgentEvent::Progress { note: other.to_owned() }],
        }
    }

    fn answer(&mut self, id: OwnCallId, answer: &AgentAnswer) -> Vec<AgentEvent> {
        match self.approvals.decide(id, answer) {
            None => Vec::new(),
            Some(Decided::Further(asked)) => vec![asked],
            Some(Decided::Allowed(approval)) => {
                self.approvals.open(&approval);
                let number = approval.question;
                let kind = self.kinds.remove(&number).unwrap_or(Kind::Other);
                *self.admitted.entry(kind).or_default() += 1;
                vec![AgentEvent::HookReply { number, text: hook_reply(&AgentAnswer::Allowed) }]
            }
            Some(Decided::Refused { approval, why }) => {
                let mut events = self.approvals.refuse(&approval);
                self.kinds.remove(&approval.question);
                events.push(AgentEvent::HookReply { number: approval.question, text: hook_reply(&AgentAnswer::Refused(why)) });
                events
            }
        }
    }

    fn interrupt(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn ends_with_turn(&self) -> bool {
        true
    }

    fn is_series(&self, name: &str) -> bool {
        is_uuid(name)
    }
}

impl CodexExec {
    fn completed(&mut self, item: &Value) -> Vec<AgentEvent> {
        match item["type"].as_str().unwrap_or_default() {
            "agent_message" => {
                let text = item["text"].as_str().unwrap_or_default().trim().to_owned();
                if text.is_empty() {
                    return Vec::new();
                }
                self.last_message.clone_from(&text);
                vec![AgentEvent::Message(text)]
            }
            kind @ ("command_execution" | "file_change" | "mcp_tool_call") => {
                // What was declined never ran, and the kernel's own tools come to its door by themselves.
                if item["status"] == "declined" || (kind == "mcp_tool_call" && item["server"] == super::TOOLS) {
                    return Vec::new();
                }
                let admitted = self.admitted.entry(Kind::of_item(kind)).or_default();
                match admitted.checked_sub(1) {
                    Some(left) => {
                        *admitted = left;
                        Vec::new()
                    }
                    None => vec![AgentEvent::Ungated { tool: tools::beginning(item["command"].as_str().unwrap_or(kind)) }],
                }
            }
            other => vec![AgentEvent::Progress { note: other.to_owned() }],
        }
    }
}

impl Kind {
    fn of_tool(tool: &str) -> Kind {
        match tool {
            "Bash" => Kind::Command,
            "apply_patch" => Kind::Patch,
            _ => Kind::Other,
        }
    }

    fn of_item(kind: &str) -> Kind {
        match kind {
            "command_execution" => Kind::Command,
            "file_change" => Kind::Patch,
            _ => Kind::Other,
        }
    }
}

/// Why a turn came to nothing, by what the program says of it.
fn failure(told: Option<&str>) -> AgentFailure {
    let told = told.unwrap_or("it gave no reason");
    let failure = AgentFailure::new(format!("codex ended its turn with an error: {told}"));
    match told {
        told if told.contains("insufficient_quota") => failure.may_retry(RetryCause::Budget),
        told => failure.by_model(told.contains("status 402").then_some(402)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::play::{asked, call};

    const WORKS: &str = include_str!("../fixtures/codex_exec.jsonl");
    const UNASKED: &str = include_str!("../fixtures/codex_exec_unasked.jsonl");

    fn wire() -> CodexExec {
        let mut wire = CodexExec::default();
        wire.launch(&AgentBoot { project: "/p".into(), hook: Some("/hook 7".into()), ..AgentBoot::default() });
        wire
    }

    fn told(wire: &mut CodexExec, frames: &str) -> Vec<AgentEvent> {
        let events = frames.lines().flat_map(|line| wire.read(line)).collect::<Vec<_>>();
        events.into_iter().filter(|event| !matches!(event, AgentEvent::Progress { .. })).collect()
    }

    fn hook(name: &str, tool: &str, command: &str) -> Value {
        json!({ "hook_event_name": name, "tool_name": tool, "tool_use_id": "call_2", "cwd": "/p", "tool_input": { "command": command } })
    }

    #[test]
    fn a_turn_is_one_program_that_reads_its_prompt_and_ends() {
        let mut wire = CodexExec::default();
        let boot = AgentBoot {
            project: "/p".into(),
            series: Some("01a1e934-7269-7ac3-8171-8797cc24dc74".into()),
            model: Some("gpt-5.5".into()),
            brief: "be \"kind\"".into(),
            hook: Some("/hook 7".into()),
            ..AgentBoot::default()
        };
        let plan = wire.launch(&boot);
        let has = |words: &[&str]| plan.arguments.windows(words.len()).any(|window| window == words);
        assert!(plan.is_hooked && plan.arguments[..2] == ["exec", "--json"], "{plan:?}");
        assert!(has(&["resume", "01a1e934-7269-7ac3-8171-8797cc24dc74", "-"]) && has(&["-m", "gpt-5.5"]), "{plan:?}");
        assert!(has(&["-c", "developer_instructions=\"be \\\"kind\\\"\""]), "{plan:?}");
        assert_eq!(wire.prompt("one\ntwo\n"), ["3", "one\ntwo\n"], "as many lines as are sent with it");
        assert!(wire.ends_with_turn() && !wire.launch(&AgentBoot::default()).is_hooked);
    }

    #[test]
    fn what_its_hook_was_allowed_is_no_surprise_in_the_stream() {
        let mut wire = wire();
        let patch = "*** Begin Patch\n*** Add File: bye.txt\n+bye\n*** End Patch\n";
        let events = wire.read_hook(1, &hook("PreToolUse", "apply_patch", patch));
        assert_eq!(asked(&events), [call("fs.write", json!({"path": "bye.txt", "content": "bye\n"}))]);
        assert_eq!(wire.answer(OwnCallId(1), &AgentAnswer::Allowed), [AgentEvent::HookReply { number: 1, text: "{}".into() }]);
        let ended = wire.read_hook(2, &hook("PostToolUse", "apply_patch", patch));
        assert!(matches!(&ended[..], [AgentEvent::Ended { ok: true, .. }, AgentEvent::HookReply { number: 2, .. }]), "{ended:?}");
        let events = told(&mut wire, WORKS);
        let [AgentEvent::Series(_), AgentEvent::Message(said), AgentEvent::Done(summary)] = &events[..] else { panic!("{events:?}") };
        assert!(said.starts_with("I was told: ") && said == summary, "{said}");
        // The same frames with nothing admitted.
        assert_eq!(told(&mut self::wire(), WORKS)[1], AgentEvent::Ungated { tool: "file_change".into() });
    }

    #[test]
    fn a_refusal_carries_its_reason_and_uses_up_nothing() {
        let mut wire = wire();
        let events = wire.read_hook(1, &hook("PreToolUse", "Bash", "echo hello > hello.txt"));
        assert_eq!(asked(&events)[0].tool, "shell.run");
        let [AgentEvent::HookReply { text, .. }] = &wire.answer(OwnCallId(1), &AgentAnswer::Refused("not here".into()))[..] else {
            panic!("no reply")
        };
        let answer: Value = serde_json::from_str(text).unwrap();
        assert_eq!(answer["hookSpecificOutput"]["permissionDecisionReason"], "not here");
        let ungated = told(&mut wire, UNASKED).into_iter().filter(|event| matches!(event, AgentEvent::Ungated { .. })).count();
        assert_eq!(ungated, 2, "a command and a patch that nobody was asked about");
    }

    #[test]
    fn a_failed_turn_says_who_may_help() {
        let fails = |message: &str| told(&mut wire(), &json!({"type": "turn.failed", "error": {"message": message}}).to_string());
        let cause = |message: &str| match &fails(message)[..] {
            [AgentEvent::Failed(failure)] => failure.may_retry,
            other => panic!("{other:?}"),
        };
        assert_eq!(cause("unexpected status 402 Payment Required: insufficient_quota"), Some(RetryCause::Budget));
        assert_eq!(cause("unexpected status 500"), Some(RetryCause::Model));
        assert_eq!(cause("odd"), Some(RetryCause::Model), "whatever the model said, the task can go on");
    }
}
