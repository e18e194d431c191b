//! Calls that only say what they would do, and tools that somebody else brought.

use super::Host;
use serde_json::{Value, json};
use std::fs;
use std::os::fd::AsFd;
use tool::{AddressFilter, Context, NoSubcalls, Registry, RunMode, ToolStop};
use world::Code;

pub fn dry_runs_and_mocks_do_nothing(host: &Host) {
    host.call("shell.run", json!({ "command": ["git", "init", "-q"] }));
    let inputs = [
        ("fs.read", json!({ "path": "src/lib.rs" }), "read `src/lib.rs` (12 bytes)"),
        ("fs.list", json!({}), "list `.`"),
        ("fs.exists", json!({ "path": "x" }), "look whether `x` is there"),
        ("fs.write", json!({ "path": "new", "content": "abc" }), "create `new` with 3 bytes"),
        ("fs.edit", json!({ "path": "src/lib.rs", "old": "old", "new": "n" }), "replace 3 bytes by 1 in `src/lib.rs`"),
        ("fs.delete", json!({ "path": "src/lib.rs" }), "delete `src/lib.rs`"),
        ("fs.move", json!({ "from": "src/lib.rs", "to": "b" }), "move `src/lib.rs` to `b`"),
        ("fs.patch", json!({ "patch": "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n" }), "patch created x"),
        ("search.grep", json!({ "pattern": "x" }), "search `.` for `x`"),
        ("search.glob", json!({ "pattern": "*.rs" }), "look for `*.rs` below `.`"),
        ("shell.run", json!({ "command": ["touch", "made"] }), "run `touch made` in `.`"),
        ("sandbox.run", json!({ "command": ["touch", "made"] }), "run `touch made` in `.`"),
        ("brain.run", json!({ "brain": "claude", "command": ["claude", "-p"] }), "run `claude -p`"),
        ("brain.use", json!({ "tool": "TodoWrite", "input": {} }), "let the brain use its `TodoWrite`"),
        ("git.status", json!({}), "look at the state of the repository"),
        ("git.diff", json!({}), "show what changed in `.`"),
        ("git.log", json!({}), "list commits of `.`"),
        ("git.commit", json!({ "message": "m" }), "commit all changes of the task"),
        (
            "http.request",
            json!({ "url": "https://example.com/", "method": "POST", "body": "b" }),
            "send POST to https://example.com/ with 1 bytes",
        ),
    ];
    let before =
        host.call("shell.run", json!({ "command": ["find", ".", "-path", "./.git", "-prune", "-o", "-print"] })).value["stdout"].clone();
    for mode in [RunMode::DryRun, RunMode::Mock] {
        host.mode.set(mode);
        for (name, input, would) in &inputs {
            let value = host.call(name, input.clone()).value;
            match mode {
                RunMode::DryRun => assert_eq!(value, json!({ "dry_run": true, "would": would }), "{name}"),
                _ => assert_eq!(
                    Some(&value),
                    host.registry.find(name).ok().and_then(|tool| tool.manifest().mock_responses.first()),
                    "{name}"
                ),
            }
        }
    }
    assert_eq!(inputs.len() + 1, host.registry.list().count(), "every tool but test.run, which has no command here");
    host.mode.set(RunMode::DryRun);
    assert_eq!(host.refused("fs.delete", json!({ "path": "none" })).reason, "`none` does not exist");
    assert_eq!(host.refused("http.request", json!({ "url": "http://127.0.0.1/" })).code, Code::Denied);
    assert_eq!(host.refused("test.run", json!({})).reason, "this project has no test command");
    host.mode.set(RunMode::Live);
    let after =
        host.call("shell.run", json!({ "command": ["find", ".", "-path", "./.git", "-prune", "-o", "-print"] })).value["stdout"].clone();
    assert_eq!(before, after);
}

pub fn a_foreign_tool_runs_in_the_room_and_is_held_to_its_manifest(host: &Host) {
    let folder = host.folder.path().join("tools");
    let put = |name: &str, script: &str, timeout_ms: u32| {
        let text = format!(
            "name: {name}\nversion: 1.0.0\ndescription: d\nrunner: shell\ncommand: [sh, -c, '{script}']\n\
             input_schema: {{type: object}}\noutput_schema: {{type: object, required: [n]}}\ntimeout_ms: {timeout_ms}\n"
        );
        let made = fs::create_dir_all(folder.join(name)).and_then(|()| fs::write(folder.join(name).join("tool.yaml"), text));
        assert!(made.is_ok(), "{made:?}");
    };
    put("echo", "cat", 60_000);
    put("liar", "echo 7", 60_000);
    put("loud", "echo no >&2; exit 1", 60_000);
    put("slow", "sleep 600", 500);
    let mut registry = Registry::builtin();
    registry.load(&folder);
    assert_eq!(registry.left_out(), []);
    let Some(room) = &host.room else { panic!() };
    let project = host.project();
    let run = |name: &str, input: Value| {
        let context = Context {
            root: room.root().as_fd(),
            project: &project,
            room: Some(room),
            test_command: None,
            output_max: 10_000,
            visible: &|_: &str| true,
            mode: RunMode::Live,
            addresses: &AddressFilter::default(),
            subcalls: &NoSubcalls,
            environment: &[],
            job: Default::default(),
            secrets: &[],
        };
        let tool = registry.find(name)?;
        host.runtime.block_on(tool.run(&input, Vec::new(), &context))
    };
    assert_eq!(run("echo", json!({ "n": 1 })).ok().map(|output| output.value), Some(json!({ "n": 1 })));
    for (name, input, said) in [
        ("echo", json!({}), "`echo` gave a result that does not fit its manifest: its output lacks `n`"),
        ("liar", json!({}), "`liar` gave a result that does not fit its manifest: its output must be of type object"),
        ("slow", json!({}), "it was still at work after 500 ms"),
    ] {
        match run(name, input) {
            Err(ToolStop::Failed(fault)) => assert_eq!(fault.to_string(), said),
            other => panic!("{name}: {other:?}"),
        }
    }
    match run("loud", json!({})) {
        Err(ToolStop::Refused(refusal)) => assert_eq!(refusal.reason, "`loud` failed: no"),
        other => panic!("{other:?}"),
    }
}
