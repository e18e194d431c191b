//! Tools as hook programs are told of them, in the kernel's words. Names and inputs are each client's own.

use super::tools::{call, edited_file, of_command, searched, shell, used};
use crate::ToolCall;
use serde_json::{Value, json};

/// A tool of Codex's: `Bash`, `apply_patch`, or whatever else it has.
pub(super) fn of_codex(tool: &str, input: &Value, cwd: Option<&str>, project: &str) -> Vec<ToolCall> {
    let command = input["command"].as_str();
    match (tool, command) {
        ("Bash", Some(line)) => of_command(line, cwd, project),
        ("apply_patch", Some(patch)) => match of_patch(patch) {
            calls if calls.is_empty() => vec![used(tool, input)],
            calls => calls,
        },
        _ => vec![used(tool, input)],
    }
}

/// A tool of OpenCode's.
pub(super) fn of_opencode(tool: &str, input: &Value) -> Vec<ToolCall> {
    let text = |field: &str| input[field].as_str().unwrap_or_default();
    match tool {
        "read" => vec![call("fs.read", json!({ "path": text("filePath") }))],
        "write" => vec![call("fs.write", json!({ "path": text("filePath"), "content": text("content") }))],
        "edit" => {
            let all = input["replaceAll"].as_bool().unwrap_or(false);
            vec![edited_file(text("filePath"), text("oldString"), text("newString"), all)]
        }
        "patch" | "apply_patch" => match of_patch(text("patchText")) {
            calls if calls.is_empty() => vec![used(tool, input)],
            calls => calls,
        },
        "bash" => vec![in_folder(shell(text("command")), input["workdir"].as_str())],
        "list" => vec![call("fs.list", json!({ "path": input["path"].as_str().unwrap_or(".") }))],
        "glob" => vec![call("search.glob", searched(input, "pattern"))],
        "grep" => vec![call("search.grep", searched(input, "pattern"))],
        "webfetch" => vec![call("http.request", json!({ "url": text("url"), "method": "GET" }))],
        other => vec![used(other, input)],
    }
}

/// A tool of Gemini CLI's.
pub(super) fn of_gemini(tool: &str, input: &Value) -> Vec<ToolCall> {
    let text = |field: &str| input[field].as_str().unwrap_or_default();
    let path = || ["file_path", "absolute_path", "dir_path", "path"].into_iter().find_map(|field| input[field].as_str());
    match (tool, path()) {
        ("read_file", Some(path)) => vec![call("fs.read", json!({ "path": path }))],
        ("write_file", Some(path)) => vec![call("fs.write", json!({ "path": path, "content": text("content") }))],
        ("replace", Some(path)) => {
            let all = input["allow_multiple"].as_bool().unwrap_or(false);
            vec![edited_file(path, text("old_string"), text("new_string"), all)]
        }
        ("run_shell_command", at) => vec![in_folder(shell(text("command")), at.or(input["directory"].as_str()))],
        ("list_directory", path) => vec![call("fs.list", json!({ "path": path.unwrap_or(".") }))],
        ("glob", _) => vec![call("search.glob", searched(input, "pattern"))],
        ("grep_search" | "search_file_content", _) => vec![call("search.grep", searched(input, "pattern"))],
        (other, _) => vec![used(other, input)],
    }
}

fn in_folder(mut run: ToolCall, folder: Option<&str>) -> ToolCall {
    if let Some(folder) = folder.filter(|folder| !folder.is_empty()) {
        run.input["cwd"] = folder.into();
    }
    run
}

const MOVE: &str = "*** Move to: ";

/// The lines of a patch until the next path.
fn body<'a>(lines: &mut std::iter::Peekable<std::str::Lines<'a>>) -> Vec<&'a str> {
    std::iter::from_fn(|| lines.next_if(|line| !line.starts_with("*** ") || *line == "*** End of File")).collect()
}

/// What stands there before (`-`) or after (`+`).
fn side(body: &[&str], sign: char) -> String {
    let lines = body.iter().filter(|line| !line.starts_with("@@") && !line.starts_with("*** "));
    let lines = lines.filter_map(|line| line.strip_prefix(sign).or_else(|| line.strip_prefix(' ')));
    lines.map(|line| format!("{line}\n")).collect()
}

/// What a patch in the form `*** Begin Patch` changes, as one call for each path and what happens to it.
fn of_patch(patch: &str) -> Vec<ToolCall> {
    let mut calls = Vec::new();
    let mut lines = patch.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(path) = line.strip_prefix("*** Add File: ") {
            calls.push(call("fs.write", json!({ "path": path, "content": side(&body(&mut lines), '+') })));
        } else if let Some(path) = line.strip_prefix("*** Delete File: ") {
            calls.push(call("fs.delete", json!({ "path": path })));
        } else if let Some(path) = line.strip_prefix("*** Update File: ") {
            let to = lines.next_if(|line| line.starts_with(MOVE)).and_then(|line| line.strip_prefix(MOVE));
            let body = body(&mut lines);
            if !body.is_empty() || to.is_none() {
                calls.push(edited_file(path, &side(&body, '-'), &side(&body, '+'), false));
            }
            calls.extend(to.map(|to| call("fs.move", json!({ "from": path, "to": to }))));
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(calls: &[ToolCall], expected: &[(&str, Value)]) {
        let calls: Vec<(&str, Value)> = calls.iter().map(|call| (call.tool.as_str(), call.input.clone())).collect();
        assert_eq!(calls, expected);
    }

    #[test]
    fn a_patch_is_a_call_for_each_path() {
        let patch = "*** Begin Patch\n*** Add File: c.txt\n+c\n+d\n*** Update File: a.txt\n*** Move to: b.txt\n@@ fn x\n before\n-a\n+b\n\
                     *** Update File: d.txt\n@@\n-old\n+new\n*** End of File\n*** Delete File: e.txt\n*** End Patch\n";
        check(
            &of_codex("apply_patch", &json!({ "command": patch }), None, "/p"),
            &[
                ("fs.write", json!({"path": "c.txt", "content": "c\nd\n"})),
                ("fs.edit", json!({"path": "a.txt", "old": "before\na\n", "new": "before\nb\n", "all": false})),
                ("fs.move", json!({"from": "a.txt", "to": "b.txt"})),
                ("fs.edit", json!({"path": "d.txt", "old": "old\n", "new": "new\n", "all": false})),
                ("fs.delete", json!({"path": "e.txt"})),
            ],
        );
        // One that cannot be read is still asked about.
        let odd = json!({ "command": "no patch" });
        check(&of_codex("apply_patch", &odd, None, "/p"), &[("brain.use", json!({"tool": "apply_patch", "input": odd}))]);
    }

    #[test]
    fn every_tool_of_a_hook_becomes_a_call() {
        let run = |line: &str| ("shell.run", json!({ "command": ["bash", "-c", line] }));
        check(&of_codex("Bash", &json!({"command": "echo x > y"}), Some("/p"), "/p"), &[run("echo x > y")]);
        check(&of_codex("Bash", &json!({"command": "cat y"}), Some("/p"), "/p"), &[("fs.read", json!({"path": "y"}))]);
        check(&of_opencode("bash", &json!({"command": "ls"})), &[run("ls")]);
        check(&of_gemini("run_shell_command", &json!({"command": "ls"})), &[run("ls")]);
        let wrote = ("fs.write", json!({"path": "a", "content": "x"}));
        check(&of_opencode("write", &json!({"filePath": "a", "content": "x"})), std::slice::from_ref(&wrote));
        check(&of_gemini("write_file", &json!({"file_path": "a", "content": "x"})), &[wrote]);
        let edit = ("fs.edit", json!({"path": "a", "old": "x", "new": "y", "all": false}));
        check(&of_opencode("edit", &json!({"filePath": "a", "oldString": "x", "newString": "y"})), std::slice::from_ref(&edit));
        check(&of_gemini("replace", &json!({"file_path": "a", "old_string": "x", "new_string": "y"})), &[edit]);
        let at = json!({"command": ["bash", "-c", "ls"], "cwd": "src"});
        check(&of_gemini("run_shell_command", &json!({"command": "ls", "dir_path": "src"})), &[("shell.run", at)]);
        for calls in [of_codex("view_image", &json!({}), None, "/p"), of_opencode("task", &json!({})), of_gemini("read_file", &json!({}))] {
            assert_eq!((calls.len(), calls[0].tool.as_str()), (1, "brain.use"), "{calls:?}");
        }
    }
}
