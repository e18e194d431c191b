//! How each agent is started in its room: it finds its models at the gateway, asks about its tools, and calls nobody.

use super::AcpAgent;
use crate::BrainSpec;
use crate::agent::{AgentBoot, LaunchPlan};
use serde_json::json;

/// Gemini asks about everything, reading too. A rule about a command's words keeps it from taking commands such as `cat` for harmless.
const GEMINI_POLICY: &str = "[[rule]]\ntoolName = \"*\"\ndecision = \"ask_user\"\npriority = 900\n\n\
    [[rule]]\ntoolName = \"run_shell_command\"\nargsPattern = \".*\"\ndecision = \"ask_user\"\npriority = 950\n";

/// Gives the files of its conversations names of their own. Gemini begins a file when it takes up a conversation, named by the minute and
/// the conversation: within the minute that the conversation began in, that is the conversation's own file, and its content is lost.
/// Hooks of a talk that was cut off are taken away: they would be run here too, and lead nowhere.
const GEMINI_KEEP: &str = r#"[ "$1" = hooked ] || rm -rf "$HOME/.gemini/extensions/skep"
shift
for file in "$HOME"/.gemini/tmp/*/chats/session-*.jsonl; do
  case $file in
    *-kept-*) ;;
    *) [ -f "$file" ] && mv "$file" "${file%.jsonl}-kept-$(date +%s%N).jsonl" ;;
  esac
done
exec "$@""#;

pub(super) fn plan(agent: AcpAgent, boot: &AgentBoot) -> LaunchPlan {
    match agent {
        // Everything is asked about, reading too.
        AcpAgent::OpenCode => with_word("acp", opencode_base(boot, "ask", &[])),
        AcpAgent::Gemini => with_word("--acp", gemini_base(boot, GEMINI_POLICY, false)),
        AcpAgent::Other => LaunchPlan::default(),
    }
}

fn with_word(word: &str, mut plan: LaunchPlan) -> LaunchPlan {
    plan.arguments.insert(0, word.to_owned());
    plan
}

/// What both of OpenCode's ways to be started have in common; `permission` is what its tools need, `plugins` what it loads.
pub(super) fn opencode_base(boot: &AgentBoot, permission: &str, plugins: &[&str]) -> LaunchPlan {
    let model = boot.model.as_deref().unwrap_or(BrainSpec::DEFAULT_MODEL);
    let mut models = serde_json::Map::new();
    models.insert(model.to_owned(), json!({ "name": model }));
    let options = json!({ "baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:OPENAI_API_KEY}" });
    let provider = json!({ "npm": "@ai-sdk/openai-compatible", "name": "skep", "options": options, "models": models });
    let config = json!({
        "model": format!("skep/{model}"),
        "small_model": format!("skep/{model}"),
        "autoupdate": false,
        "share": "disabled",
        // Its own copies of the project's states: the task has its overlay.
        "snapshot": false,
        "enabled_providers": ["skep"],
        // What its agents of a second rank ask for, it does not pass on: they would wait for ever.
        "permission": { "*": permission, "task": "deny" },
        "plugin": plugins,
        "provider": { "skep": provider },
    });
    let on = [
        // A repository's own settings could give leave, and name programs.
        "OPENCODE_DISABLE_PROJECT_CONFIG",
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_MODELS_FETCH",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        "OPENCODE_DISABLE_LSP_DOWNLOAD",
        "OPENCODE_DISABLE_SHARE",
    ];
    let environment = on.into_iter().map(|name| (name.to_owned(), "1".to_owned()));
    let environment = environment.chain([("OPENCODE_CONFIG_CONTENT".to_owned(), config.to_string())]).collect();
    // It would fetch a package for plugins that it does not have, and a person would be asked about the host.
    let home_files = vec![
        (".config/opencode/.npmrc".to_owned(), "offline=true\n".to_owned()),
        // Written also when it is empty: the home stays from task to task.
        (".config/opencode/AGENTS.md".to_owned(), boot.role.clone()),
    ];
    LaunchPlan { environment, home_files, ..LaunchPlan::default() }
}

/// What both of Gemini's ways to be started have in common: a policy of its own, and whether its hooks are to be left alone.
pub(super) fn gemini_base(boot: &AgentBoot, policy: &str, is_hooked: bool) -> LaunchPlan {
    let mut arguments: Vec<String> = ["--approval-mode", "default"].map(str::to_owned).into();
    if let Some(model) = &boot.model {
        arguments.extend(["--model".to_owned(), model.clone()]);
    }
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": true } },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false },
    });
    // A repository's own settings could give leave, and name programs.
    let trust = json!({ boot.project.as_str(): "DO_NOT_TRUST" });
    LaunchPlan {
        before: ["sh", "-c", GEMINI_KEEP, "sh", if is_hooked { "hooked" } else { "plain" }].map(str::to_owned).into(),
        arguments,
        environment: vec![
            // One process, so that it goes when its input ends.
            ("GEMINI_CLI_NO_RELAUNCH".to_owned(), "true".to_owned()),
            // Where the machine's own settings count more than these, they would trust the folder.
            ("GEMINI_CLI_SYSTEM_SETTINGS_PATH".to_owned(), "/nonexistent/settings.json".to_owned()),
        ],
        home_files: vec![
            (".gemini/settings.json".to_owned(), settings.to_string()),
            (".gemini/trustedFolders.json".to_owned(), trust.to_string()),
            (".gemini/policies/skep.toml".to_owned(), policy.to_owned()),
            (".gemini/GEMINI.md".to_owned(), boot.role.clone()),
        ],
        is_hooked,
    }
}
