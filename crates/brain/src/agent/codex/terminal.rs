//! Codex's settings as words of its command line, its own screens, and its hooks.
//!
//! Hooks are given with the command and not in the home, where what runs in the room could take them out. They run because the command says
//! that their source was looked at: it is ours.

use crate::agent::{AgentAnswer, AgentBoot, HookEvent, LaunchPlan, TOOLS, TerminalPlan, hook_tools, tools};
use serde_json::{Value, json};

/// Seconds that a hook may take. The kernel answers at once or ends the program, so this only has to be long.
const HOOK_SECONDS: u64 = 600;
const HOOKED: [&str; 4] = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"];

/// What holds however it is started.
pub(super) fn settings(boot: &AgentBoot) -> impl Iterator<Item = String> {
    // A repository's own settings name programs that would be started without a question.
    let project = json!(boot.project);
    let options = [
        format!("projects={{{project}={{trust_level=\"untrusted\"}}}}"),
        "analytics.enabled=false".to_owned(),
        "features.plugins=false".to_owned(),
        "check_for_update_on_startup=false".to_owned(),
    ];
    let tools = boot.tools_url.iter().map(|url| format!("mcp_servers.{TOOLS}={{url={},required=true}}", json!(url)));
    options.into_iter().chain(tools.collect::<Vec<_>>()).flat_map(|option| ["-c".to_owned(), option])
}

/// Has it run our hook program.
pub(super) fn hook_options(boot: &AgentBoot) -> Vec<String> {
    let Some(hook) = &boot.hook else { return Vec::new() };
    let hooks = format!("[{{matcher=\"*\",hooks=[{{type=\"command\",command={},timeout={HOOK_SECONDS}}}]}}]", json!(hook));
    let hooks: Vec<String> = HOOKED.iter().map(|event| format!("{event}={hooks}")).collect();
    vec!["--dangerously-bypass-hook-trust".to_owned(), "-c".to_owned(), format!("hooks={{{}}}", hooks.join(","))]
}

/// Its own screens.
pub(super) fn plan(boot: &AgentBoot) -> TerminalPlan {
    let mut arguments: Vec<String> = settings(boot).collect();
    arguments.extend(hook_options(boot));
    // The sandbox is ours, and its own cannot be made in it. A server that outlives the screens would keep the conversation from the next task.
    let own = ["approval_policy=on-request", "sandbox_mode=danger-full-access", "features.daemon_auto_start=false"];
    arguments.extend(own.into_iter().flat_map(|option| ["-c".to_owned(), option.to_owned()]));
    let brief = boot.instructions();
    if !brief.is_empty() {
        arguments.extend(["-c".to_owned(), format!("developer_instructions={}", json!(brief))]);
    }
    arguments.extend(boot.model.iter().flat_map(|model| ["-m".to_owned(), model.clone()]));
    arguments.extend(boot.series.iter().flat_map(|series| ["resume".to_owned(), series.clone()]));
    TerminalPlan { launch: LaunchPlan { arguments, is_hooked: boot.hook.is_some(), ..LaunchPlan::default() }, conversations: None }
}

/// What its hook program was told.
pub(super) fn hook_event(input: &Value, project: &str) -> HookEvent {
    let text = |field: &str| input[field].as_str().unwrap_or_default();
    let id = text("tool_use_id").to_owned();
    match text("hook_event_name") {
        "SessionStart" => HookEvent::Began,
        "UserPromptSubmit" => HookEvent::Prompted { series: text("session_id").to_owned() },
        "PreToolUse" => {
            HookEvent::Asked { id, calls: hook_tools::of_codex(text("tool_name"), &input["tool_input"], input["cwd"].as_str(), project) }
        }
        "PostToolUse" => {
            let given = &input["tool_response"];
            let text = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
            // It says so in its first lines, and nothing else tells how a tool ended.
            let told = |words: &str| text.lines().take(4).find_map(|line| line.strip_prefix(words));
            let ok = ["Exit code: ", "Process exited with code "].into_iter().find_map(told).is_none_or(|code| code == "0");
            HookEvent::Ended { id, ok, text: tools::beginning(&text) }
        }
        _ => HookEvent::Other,
    }
}

/// What its hook program is to write. A yes is no opinion: it knows no other.
pub(super) fn hook_reply(answer: &AgentAnswer) -> String {
    match answer {
        AgentAnswer::Allowed => "{}".to_owned(),
        AgentAnswer::Refused(why) => {
            let no = json!({ "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why });
            json!({ "hookSpecificOutput": no }).to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{AgentWire, Codex};

    #[test]
    fn its_screens_have_our_hooks_and_the_conversation() {
        let series = "01a1e934-7269-7ac3-8171-8797cc24dc74";
        let boot = AgentBoot { project: "/p".into(), series: Some(series.into()), hook: Some("/hook 7".into()), ..AgentBoot::default() };
        let plan = Codex::default().launch_terminal(&boot).unwrap();
        let words = &plan.launch.arguments;
        assert!(plan.launch.is_hooked && words.ends_with(&["resume".to_owned(), series.to_owned()]), "{words:?}");
        let hooks = words.iter().find(|word| word.starts_with("hooks={")).unwrap();
        for event in HOOKED {
            let expected = format!("{event}=[{{matcher=\"*\",hooks=[{{type=\"command\",command=\"/hook 7\",timeout=600}}]}}]");
            assert!(hooks.contains(&expected), "{hooks}");
        }
        let without = Codex::default().launch_terminal(&AgentBoot { hook: None, ..boot }).unwrap();
        assert!(!without.launch.is_hooked && !without.launch.arguments.iter().any(|word| word.contains("hook")), "{without:?}");
    }

    #[test]
    fn a_hook_is_told_of_prompts_and_tools() {
        let codex = Codex::default();
        let told = |input: Value| codex.hook_event(&input);
        assert_eq!(told(json!({"hook_event_name": "SessionStart"})), HookEvent::Began);
        assert_eq!(told(json!({"hook_event_name": "UserPromptSubmit", "session_id": "s"})), HookEvent::Prompted { series: "s".into() });
        let ended = |text: &str| told(json!({"hook_event_name": "PostToolUse", "tool_use_id": "t", "tool_response": text}));
        for (text, ok) in [
            ("Exit code: 0\nfine", true),
            ("Exit code: 7\nno", false),
            ("anything", true),
            ("Chunk ID: a\nProcess exited with code 1\n", false),
        ] {
            assert_eq!(ended(text), HookEvent::Ended { id: "t".into(), ok, text: text.into() });
        }
        assert_eq!(codex.hook_answer(&AgentAnswer::Allowed), "{}");
        assert!(codex.hook_answer(&AgentAnswer::Refused("why".into())).contains("\"permissionDecisionReason\":\"why\""));
    }
}
