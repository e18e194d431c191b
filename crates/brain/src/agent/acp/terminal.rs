//! The own screens of OpenCode and Gemini CLI, for a person to talk with, and the hooks that ask the kernel about their tools.
//!
//! Both let tools run without a question of their own, because the hook has asked. Where hooks do not run, the kernel hears of none, and the
//! talk is told as ungated. Tried with opencode 1.18 and gemini 0.61.

use super::AcpAgent;
use super::launch::{gemini_base, opencode_base};
use crate::agent::{AgentAnswer, AgentBoot, HookEvent, TerminalPlan, hook_tools, tools};
use serde_json::{Value, json};

/// The plugin that asks, as a file of OpenCode's home; named in its settings, so that no other start of it loads it.
const PLUGIN: &str = ".config/opencode/skep-hook.js";

/// Passes on what OpenCode is about to do, and throws where the answer is not a yes.
const PLUGIN_TEXT: &str = r#"import { spawn } from "node:child_process"

const ask = (told) =>
  new Promise((resolve, reject) => {
    const child = spawn("sh", ["-c", HOOK], { stdio: ["pipe", "pipe", "ignore"] })
    let said = ""
    child.stdout.on("data", (piece) => (said += piece))
    child.on("error", reject)
    child.on("close", (code) => (code === 0 ? resolve(said) : reject(new Error("the kernel does not answer, so this tool is not used"))))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(told))
  })

export const Skep = async () => {
  await ask({ event: "began" }).catch(() => {})
  return {
    "chat.message": async ({ sessionID }) => {
      await ask({ event: "prompted", session: sessionID }).catch(() => {})
    },
    "tool.execute.before": async ({ tool, callID }, { args }) => {
      const answer = JSON.parse(await ask({ event: "before", id: callID, tool, args }))
      if (answer.allowed !== true) throw new Error(answer.refused)
    },
    "tool.execute.after": async ({ callID }, result) => {
      await ask({ event: "after", id: callID, output: String(result?.output ?? "").slice(0, 2000) }).catch(() => {})
    },
  }
}
"#;

/// Gemini's hooks come with an extension: those of settings do not run in a folder that is not trusted.
const EXTENSION: &str = ".gemini/extensions/skep/gemini-extension.json";
const EXTENSION_HOOKS: &str = ".gemini/extensions/skep/hooks/hooks.json";
/// Milliseconds that a hook may take. The kernel answers at once or ends the program, so this only has to be long.
const HOOK_MS: u64 = 600_000;

/// Gemini asks nobody: its hook has.
const GEMINI_OPEN: &str = "[[rule]]\ntoolName = \"*\"\ndecision = \"allow\"\npriority = 900\nallowRedirection = true\n";
/// Without a hook the person at the terminal is asked about everything.
const GEMINI_ASKS: &str = "[[rule]]\ntoolName = \"*\"\ndecision = \"ask_user\"\npriority = 900\n";

pub(super) fn plan(agent: AcpAgent, boot: &AgentBoot) -> Option<TerminalPlan> {
    // No prompt of ours comes first that could say it.
    let boot = &AgentBoot { role: boot.instructions(), ..boot.clone() };
    let launch = match agent {
        AcpAgent::OpenCode => {
            // The place of its home is the room's affair.
            let plugin = format!("file://{{env:HOME}}/{PLUGIN}");
            let mut plan = match &boot.hook {
                Some(_) => opencode_base(boot, "allow", &[&plugin]),
                None => opencode_base(boot, "ask", &[]),
            };
            plan.is_hooked = boot.hook.is_some();
            plan.home_files
                .extend(boot.hook.iter().map(|hook| (PLUGIN.to_owned(), format!("const HOOK = {}\n{PLUGIN_TEXT}", json!(hook)))));
            plan.arguments.extend(boot.series.iter().flat_map(|series| ["--session".to_owned(), series.clone()]));
            plan
        }
        AcpAgent::Gemini => {
            let policy = if boot.hook.is_some() { GEMINI_OPEN } else { GEMINI_ASKS };
            let mut plan = gemini_base(boot, policy, boot.hook.is_some());
            if let Some(hook) = &boot.hook {
                let run =
                    json!([{ "matcher": "*", "hooks": [{ "type": "command", "name": "skep", "command": hook, "timeout": HOOK_MS }] }]);
                let hooks = json!({ "hooks": { "SessionStart": run, "BeforeAgent": run, "BeforeTool": run, "AfterTool": run } });
                let extension = json!({ "name": "skep", "version": env!("CARGO_PKG_VERSION") });
                plan.home_files.push((EXTENSION.to_owned(), extension.to_string()));
                plan.home_files.push((EXTENSION_HOOKS.to_owned(), hooks.to_string()));
            }
            plan.arguments.extend(boot.series.iter().flat_map(|series| ["--resume".to_owned(), series.clone()]));
            plan
        }
        AcpAgent::Other => return None,
    };
    Some(TerminalPlan { launch, conversations: None })
}

pub(super) fn hook_event(agent: AcpAgent, input: &Value) -> HookEvent {
    match agent {
        AcpAgent::OpenCode => opencode_event(input),
        AcpAgent::Gemini => gemini_event(input),
        AcpAgent::Other => HookEvent::Other,
    }
}

fn opencode_event(input: &Value) -> HookEvent {
    let text = |field: &str| input[field].as_str().unwrap_or_default().to_owned();
    match input["event"].as_str().unwrap_or_default() {
        "began" => HookEvent::Began,
        "prompted" => HookEvent::Prompted { series: text("session") },
        "before" => HookEvent::Asked { id: text("id"), calls: hook_tools::of_opencode(&text("tool"), &input["args"]) },
        "after" => HookEvent::Ended { id: text("id"), ok: true, text: tools::beginning(&text("output")) },
        _ => HookEvent::Other,
    }
}

fn gemini_event(input: &Value) -> HookEvent {
    let text = |field: &str| input[field].as_str().unwrap_or_default().to_owned();
    // A use has no name of its own: the tool and its input are all that both ends of it tell.
    let id = || format!("{} {}", text("tool_name"), input["tool_input"]);
    match input["hook_event_name"].as_str().unwrap_or_default() {
        "SessionStart" => HookEvent::Began,
        "BeforeAgent" => HookEvent::Prompted { series: text("session_id") },
        "BeforeTool" => HookEvent::Asked { id: id(), calls: hook_tools::of_gemini(&text("tool_name"), &input["tool_input"]) },
        "AfterTool" => {
            let response = &input["tool_response"];
            let said = response["llmContent"].as_str().map_or_else(|| response["llmContent"].to_string(), str::to_owned);
            HookEvent::Ended { id: id(), ok: response["error"].is_null(), text: tools::beginning(&said) }
        }
        _ => HookEvent::Other,
    }
}

pub(super) fn hook_reply(agent: AcpAgent, answer: &AgentAnswer) -> String {
    let answer = match (agent, answer) {
        (AcpAgent::Gemini, AgentAnswer::Allowed) => json!({ "decision": "allow" }),
        (AcpAgent::Gemini, AgentAnswer::Refused(why)) => json!({ "decision": "deny", "reason": why }),
        (_, AgentAnswer::Allowed) => json!({ "allowed": true }),
        (_, AgentAnswer::Refused(why)) => json!({ "refused": why }),
    };
    answer.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Acp, AgentWire};

    fn boot(hook: Option<&str>) -> AgentBoot {
        AgentBoot { project: "/p".into(), series: Some("s-1".into()), hook: hook.map(str::to_owned), ..AgentBoot::default() }
    }

    fn file<'a>(plan: &'a TerminalPlan, path: &str) -> Option<&'a str> {
        plan.launch.home_files.iter().find(|(at, _)| at == path).map(|(_, text)| text.as_str())
    }

    #[test]
    fn tools_run_without_a_question_only_where_a_hook_asks() {
        let opencode = |hook| Acp::of(AcpAgent::OpenCode).launch_terminal(&boot(hook)).unwrap();
        let config = |plan: &TerminalPlan| {
            let content = plan.launch.environment.iter().find(|(name, _)| name == "OPENCODE_CONFIG_CONTENT").unwrap();
            serde_json::from_str::<Value>(&content.1).unwrap()
        };
        let hooked = opencode(Some("/hook 7"));
        assert_eq!(config(&hooked)["permission"]["*"], "allow");
        assert_eq!(config(&hooked)["plugin"], json!([format!("file://{{env:HOME}}/{PLUGIN}")]));
        assert!(file(&hooked, PLUGIN).unwrap().starts_with("const HOOK = \"/hook 7\"\n"));
        assert_eq!(hooked.launch.arguments, ["--session", "s-1"]);
        let plain = opencode(None);
        assert_eq!((&config(&plain)["permission"]["*"], &config(&plain)["plugin"]), (&json!("ask"), &json!([])));
        assert!(hooked.launch.is_hooked && !plain.launch.is_hooked && file(&plain, PLUGIN).is_none());

        let gemini = |hook| Acp::of(AcpAgent::Gemini).launch_terminal(&boot(hook)).unwrap();
        let (hooked, plain) = (gemini(Some("/hook 7")), gemini(None));
        let hooks: Value = serde_json::from_str(file(&hooked, EXTENSION_HOOKS).unwrap()).unwrap();
        assert_eq!(hooks["hooks"]["BeforeTool"][0]["hooks"][0]["command"], "/hook 7");
        assert!(file(&hooked, ".gemini/policies/skep.toml").unwrap().contains("allow"));
        assert!(file(&plain, ".gemini/policies/skep.toml").unwrap().contains("ask_user") && file(&plain, EXTENSION_HOOKS).is_none());
        assert_eq!(hooked.launch.arguments, ["--approval-mode", "default", "--resume", "s-1"]);
        assert!(hooked.launch.before.contains(&"hooked".to_owned()) && plain.launch.before.contains(&"plain".to_owned()));
        assert!(Acp::of(AcpAgent::Other).launch_terminal(&boot(None)).is_none());
    }

    #[test]
    fn hooks_are_told_of_prompts_and_tools() {
        let (opencode, gemini) = (Acp::of(AcpAgent::OpenCode), Acp::of(AcpAgent::Gemini));
        assert_eq!(opencode.hook_event(&json!({"event": "began"})), HookEvent::Began);
        let prompted = HookEvent::Prompted { series: "ses_1".into() };
        assert_eq!(opencode.hook_event(&json!({"event": "prompted", "session": "ses_1"})), prompted);
        let asks = |event: HookEvent| match event {
            HookEvent::Asked { id, calls } => (id, calls[0].tool.clone()),
            other => panic!("{other:?}"),
        };
        let before = json!({"event": "before", "id": "c", "tool": "write", "args": {"filePath": "a", "content": "x"}});
        assert_eq!(asks(opencode.hook_event(&before)), ("c".to_owned(), "fs.write".to_owned()));
        let input = json!({"file_path": "a", "content": "x"});
        let (id, tool) = asks(gemini.hook_event(&json!({"hook_event_name": "BeforeTool", "tool_name": "write_file", "tool_input": input})));
        assert_eq!(tool, "fs.write");
        let after = json!({"hook_event_name": "AfterTool", "tool_name": "write_file", "tool_input": input, "tool_response": {"llmContent": "done"}});
        assert_eq!(gemini.hook_event(&after), HookEvent::Ended { id, ok: true, text: "done".into() }, "both ends have one name");
        assert_eq!(gemini.hook_answer(&AgentAnswer::Refused("no".into())), "{\"decision\":\"deny\",\"reason\":\"no\"}");
        assert_eq!(opencode.hook_answer(&AgentAnswer::Allowed), "{\"allowed\":true}");
    }
}
