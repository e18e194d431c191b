//! Tools that the operator adds as `tool.yaml`: KarnEvil9's own form, commands of one's own, and what does not load.

use crate::common::Site;
use serde_json::Value;

const READ: &str = r#"
name: read-file
version: "1.0.0"
description: Reads a file of the workspace
runner: internal
input_schema: {type: object, required: [path], properties: {path: {type: string}}, additionalProperties: false}
output_schema: {type: object, required: [content, exists], properties: {content: {type: string}, exists: {type: boolean}, size_bytes: {type: number}}, additionalProperties: false}
permissions: ["filesystem:read:workspace"]
timeout_ms: 10000
supports: {mock: true, dry_run: true}
mock_responses: [{content: mocked, exists: true, size_bytes: 6}]
"#;

const WRITE: &str = r#"
name: write-file
version: "1.0.0"
description: Writes a file of the workspace
runner: internal
input_schema: {type: object, required: [path, content], properties: {path: {type: string}, content: {type: string}}, additionalProperties: false}
output_schema: {type: object, required: [written], properties: {written: {type: boolean}, bytes_written: {type: number}}, additionalProperties: false}
permissions: ["filesystem:write:workspace"]
timeout_ms: 10000
supports: {mock: true, dry_run: true}
mock_responses: [{written: true}]
"#;

const SHELL: &str = r#"
name: shell-exec
version: "1.0.0"
description: Runs a line of shell in the workspace
runner: shell
input_schema: {type: object, required: [command], properties: {command: {type: string}, cwd: {type: string}}, additionalProperties: false}
output_schema: {type: object, required: [exit_code, stdout, stderr], properties: {exit_code: {type: number}, stdout: {type: string}, stderr: {type: string}}, additionalProperties: false}
permissions: ["shell:exec:workspace"]
timeout_ms: 60000
supports: {mock: true, dry_run: true}
mock_responses: [{exit_code: 0, stdout: "", stderr: ""}]
"#;

const HTTP: &str = r#"
name: http-request
version: "1.0.0"
description: Asks an HTTP server
runner: http
input_schema: {type: object, required: [url, method], properties: {url: {type: string}, method: {enum: [GET, POST]}, headers: {type: object}, body: {type: string}}, additionalProperties: false}
output_schema: {type: object, required: [status, body], properties: {status: {type: number}, body: {type: string}, headers: {type: object}}, additionalProperties: false}
permissions: ["network:request:https"]
timeout_ms: 30000
supports: {mock: true, dry_run: true}
mock_responses: [{status: 200, body: ok, headers: {}}]
"#;

/// `runner` and the rest of a tool with a command of its own.
fn own(name: &str, rest: &str) -> String {
    format!(
        "name: {name}\nversion: 1.0.0\ndescription: d\ninput_schema: {{type: object}}\noutput_schema: {{}}\ntimeout_ms: 30000\n{rest}\n"
    )
}

fn site(tools: &[(&str, String)]) -> Site {
    let site = Site::new(&[("a.txt", "hello\n"), ("private/key.txt", "hidden\n")]);
    for (folder, text) in tools {
        let folder = site.home().join("tools").join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("tool.yaml"), text).unwrap();
    }
    site.ok(&["init"]);
    site
}

fn output(site: &Site, arguments: &[&str]) -> Value {
    let arguments: Vec<&str> = ["call"].iter().chain(arguments).copied().collect();
    site.json(&arguments)["output"].clone()
}

#[test]
fn karnevil9s_tools_run_as_the_built_in_ones() {
    let site = site(&[("r", READ.into()), ("w", WRITE.into()), ("s", SHELL.into()), ("h", HTTP.into())]);
    assert!(!site.ok(&["list", "tools"]).contains("left out"));
    assert_eq!(output(&site, &["read-file", "path=a.txt"]), serde_json::json!({"content": "hello\n", "exists": true, "size_bytes": 6}));
    assert_eq!(output(&site, &["read-file", "path=none.txt"]), serde_json::json!({"content": "", "exists": false, "size_bytes": 0}));
    assert_eq!(output(&site, &["write-file", "path=b.txt", "content=xyz"]), serde_json::json!({"written": true, "bytes_written": 3}));
    let ran = output(&site, &["shell-exec", "command=cat a.txt | tr a-z A-Z"]);
    assert_eq!(ran, serde_json::json!({"exit_code": 0, "stdout": "HELLO\n", "stderr": ""}));
    assert_eq!(output(&site, &["read-file", "path=a.txt", "--mode", "mock"])["content"], "mocked");
    // In the journal they are the calls that they are.
    let called: Vec<String> = site
        .records(&[])
        .iter()
        .filter(|record| record["type"] == "call.admitted")
        .map(|record| record["payload"]["tool"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(called, ["fs.read", "fs.read", "fs.write", "shell.run", "fs.read"]);
    let told = site.fails(3, &["call", "http-request", "url=http://127.0.0.1:9/", "method=GET"]);
    assert!(told.contains("its permissions say `network:request:https`"), "{told}");
}

#[test]
fn a_rule_about_the_built_in_tool_holds_for_them() {
    let site = site(&[("r", READ.into()), ("s", SHELL.into())]);
    let policy = std::fs::read_to_string(site.project().join(".skep/policy.yaml")).unwrap();
    let rule =
        "\n  - name: closed\n    match: { syscall: fs.read, path_glob: \"/private/**\" }\n    action: deny\n    reason: it is private\n";
    site.write(".skep/policy.yaml", &format!("{policy}{rule}"));
    assert_eq!(output(&site, &["read-file", "path=private/key.txt"])["content"], "hidden\n", "the control: not in force yet");
    site.trust();
    let told = site.fails(3, &["call", "read-file", "path=private/key.txt"]);
    assert!(told.contains("it is private") || told.contains("masked"), "{told}");
}

#[test]
fn what_does_not_load_is_told_with_its_reason() {
    let site = site(&[
        ("good", own("count", "runner: shell\ncommand: [sh, -c, 'wc -c >&2; echo {}']")),
        ("browser", own("browser", "runner: internal")),
        ("greedy", own("greedy", "runner: shell\ncommand: [true]\npermissions: ['filesystem:read:/etc']")),
        ("again", own("again", "runner: shell\ncommand: [true]\nread_only: true\nretries: 2")),
        ("broken", "name: [".into()),
    ]);
    let folder = |name: &str| {
        let folder = site.home().join("tools").join(name);
        std::fs::create_dir(&folder).unwrap();
        folder
    };
    std::fs::write(folder("misspelled").join("tool.yml"), own("misspelled", "runner: shell\ncommand: [true]")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, folder("piped").join("tool.yaml"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    folder(".git");
    std::fs::write(site.home().join("tools/misplaced.yaml"), own("misplaced", "runner: shell\ncommand: [true]")).unwrap();
    std::fs::write(site.home().join("tools/README"), "").unwrap();
    site.ok(&["kernel", "stop"]);
    let told = site.ok(&["list", "tools"]);
    for reason in [
        "misspelled/tool.yaml",
        "piped/tool.yaml",
        "it is missing or not a regular file",
        "nothing here does the work of `browser`",
        "`filesystem:read:/etc` is more than a sandbox gives",
        "`retries` is for built-in tools",
        "broken/tool.yaml",
        "tools/misplaced.yaml",
        "a tool is a folder of its own",
    ] {
        assert!(told.contains(reason), "{reason}\n{told}");
    }
    assert_eq!(site.json(&["list", "tools"])["left_out"].as_array().unwrap().len(), 7);
    assert!(told.lines().any(|line| line.starts_with("count")), "{told}");
}

#[test]
fn a_tool_for_containers_does_not_run_natively() {
    let site = site(&[
        ("boxed", own("boxed", "runner: container\ncommand: [sh, -c, 'echo {}']")),
        ("plain", own("plain", "runner: shell\ncommand: [sh, -c, 'echo {}']")),
    ]);
    let policy = std::fs::read_to_string(site.project().join(".skep/policy.yaml")).unwrap();
    let rule = "\n  - name: own-tools\n    match: { syscall: [boxed, plain] }\n    action: allow\n    reason: they are ours\n";
    site.write(".skep/policy.yaml", &format!("{policy}{rule}"));
    site.trust();
    assert_eq!(output(&site, &["plain"]), serde_json::json!({}), "the control");
    let told = site.skep(&["call", "boxed"]);
    let told = crate::common::text(&told);
    assert!(told.contains("runs in containers only") && told.contains("runtime: podman"), "{told}");
}
