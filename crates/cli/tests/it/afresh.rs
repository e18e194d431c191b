//! A brain that cannot go on with a conversation: it has no series, begins anew each time, and its task says so.

use crate::brains::{of, site_with};
use crate::common::Site;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// An agent that speaks ACP and says whether it can load a session.
fn agent(can_load: bool) -> Site {
    let body = r#"#!/usr/bin/python3
import json, sys
def say(**frame): print(json.dumps({"jsonrpc": "2.0", **frame}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method, id, params = asked.get("method"), asked.get("id"), asked.get("params", {})
    if method == "initialize":
        say(id=id, result={"protocolVersion": 1, "agentCapabilities": {"loadSession": LOADS}})
    elif method in ("session/new", "session/load"):
        say(id=id, result={"sessionId": "s-1"})
    elif method == "session/prompt":
        text = "began anew" if "You work in a sandbox" in params["prompt"][0]["text"] else "went on"
        say(method="session/update", params={"sessionId": "s-1", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}})
        say(id=id, result={"stopReason": "end_turn"})
"#;
    let site = site_with(&[("a.txt", "a\n")], "say Nobody asks me.\n", "mine", &["/bin/false"]);
    let folder = site.folder.path().join("agent");
    fs::create_dir(&folder).unwrap();
    let program = folder.join("agent");
    fs::write(&program, body.replace("LOADS", if can_load { "True" } else { "False" })).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let config = fs::read_to_string(site.home().join("config.yml")).unwrap();
    let config = config.replace("/bin/false", &program.to_string_lossy());
    // None of them stays, so that each task boots its own.
    fs::write(site.home().join("config.yml"), format!("{config}brain_idle: 0s\n")).unwrap();
    site
}

#[test]
fn a_brain_without_resume_has_no_series_and_says_so() {
    for (can_load, second) in [(false, "began anew"), (true, "went on")] {
        let site = agent(can_load);
        for (task, said) in [("task-1", "began anew"), ("task-2", second)] {
            let told = site.ok(&["act", "Say something", "--brain", "acp:mine", "--await"]);
            assert!(told.contains(said), "{can_load} {task}: {told}");
        }
        let view = site.json(&["status", "task-1"]);
        let output = &view["outputs"][0];
        let shown = site.ok(&["status", "task-1"]);
        let line = "it goes on with no conversation: each turn begins anew";
        assert_eq!(site.ok(&["status"]).contains(line), !can_load, "of the worker too: {}", site.ok(&["status"]));
        match can_load {
            true => {
                assert_eq!((&output["series"], output.get("starts_afresh"), shown.contains(line)), (&json!("s-1"), None, false), "{view}")
            }
            false => {
                assert_eq!(
                    (&output["series"], output["starts_afresh"] == true, shown.contains(line)),
                    (&json!(null), true, true),
                    "{view}{shown}"
                );
            }
        }
        assert_eq!(of(&site, "task.failed"), Vec::<serde_json::Value>::new());
    }
}
