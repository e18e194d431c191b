//! Two vendors' own clients through a running kernel, without a room: each writes a file and reads it back as a scripted model says, and
//! every request is metered and on record. All four are in rooms in `agents.rs`, and alone with the gateway in its own tests.
//!
//! The clients come from npm, once, into the build's own folder, and start from an empty home and environment. Without npm or the
//! registry these tests fail and say so.

use crate::common::Site;
use serde_json::{Value, json};
use std::fs;

const SCRIPT: &str = include_str!("../../../gateway/tests/scripts/greet.script");
const PROMPT: &str = "Please write the greeting";

#[test]
fn claude_works_through_the_kernel() {
    let line = "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 exec \"$0\" -p \"$1\" --output-format stream-json --verbose --permission-mode acceptEdits";
    check("claude", "@anthropic-ai/claude-code@2.1.197", line);
}

#[test]
fn codex_works_through_the_kernel() {
    let line = "exec \"$0\" exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -m gpt-5.5 -c model_provider=x \
                -c 'model_providers.x={name=\"x\",base_url=\"'$OPENAI_BASE_URL'\",env_key=\"OPENAI_API_KEY\",wire_api=\"responses\"}' \"$1\"";
    check("codex", "@openai/codex@0.166.0", line);
}

/// Runs `line` with the client as `$0` and the prompt as `$1`.
fn check(name: &str, package: &str, line: &str) {
    let program = crate::npm::installed(name, package);
    let site = Site::new(&[("a.txt", "a\n")]);
    let (script, empty) = (site.folder.path().join("greet"), site.folder.path().join("empty"));
    fs::write(&script, SCRIPT).unwrap();
    fs::create_dir_all(site.home()).unwrap();
    fs::create_dir(&empty).unwrap();
    let config = format!(
        "providers:\n  script: {{url: 'script:{}', dialect: [anthropic, responses, chat, gemini], free: true}}\n\
         models: {{tactical: script/any}}\ngateway: {{loopback: true}}\n",
        script.display()
    );
    fs::write(site.home().join("config.yml"), config).unwrap();
    let mut client = site.command(&["gateway", "run", "--", "sh", "-c", line, &program.to_string_lossy(), PROMPT]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    client.env_clear().env("HOME", &empty).env("PATH", path).env("SKEP_HOME", site.home());
    let output = client.output().unwrap();
    let told = crate::common::text(&output);
    assert!(output.status.success(), "{}\n{told}", output.status);
    assert_eq!(fs::read_to_string(site.project().join("hello.txt")).expect(&told), "hello from the script\n");
    // A client that shows text as it comes shows it in pieces.
    assert!(told.contains("All done: the file says"), "{told}");

    let used = site.records(&["--kind", "model.used"]);
    assert!(used.len() >= 3, "{name} asked its model for three answers: {used:?}");
    let counted = |record: &Value| record["payload"]["charged_tokens"].as_u64().unwrap();
    assert!(used.iter().all(|record| counted(record) > 0), "{used:?}");
    assert_eq!(site.count("model.reserved"), used.len(), "what was reserved is settled");
    assert_eq!(site.json(&["journal", "verify"])["findings"], json!([]));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}
