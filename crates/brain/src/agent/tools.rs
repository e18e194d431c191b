//! The vendors' tools in the kernel's words, so that rules about files and commands hold for a program's own hands too.
//!
//! **Invariant.** Every tool of a program becomes some call: one that the kernel has no tool for is a `brain.use`, never nothing.

use crate::ToolCall;
use serde_json::{Map, Value, json};

/// A tool that the kernel knows nothing of.
const USE: &str = "brain.use";

/// Characters of a tool's own result that its report keeps.
const RESULT_CHARS: usize = 2_000;

/// A tool of Claude Code as a call of ours.
pub(super) fn of_claude(tool: &str, input: &Value) -> ToolCall {
    let text = |field: &str| input[field].as_str().unwrap_or_default();
    match tool {
        "Read" if input["file_path"].is_string() => call("fs.read", json!({ "path": text("file_path") })),
        "Write" => call("fs.write", json!({ "path": text("file_path"), "content": text("content") })),
        "Edit" => {
            let all = input["replace_all"].as_bool().unwrap_or(false);
            edited_file(text("file_path"), text("old_string"), text("new_string"), all)
        }
        "NotebookEdit" => call("fs.write", json!({ "path": text("notebook_path"), "content": text("new_source") })),
        "Glob" => call("search.glob", searched(input, "pattern")),
        "Grep" => call("search.grep", searched(input, "pattern")),
        "Bash" => shell(text("command")),
        "WebFetch" => call("http.request", json!({ "url": text("url"), "method": "GET" })),
        other => used(other, input),
    }
}

/// A line for a shell, as `shell.run` takes it.
pub(super) fn shell(line: &str) -> ToolCall {
    call("shell.run", json!({ "command": ["bash", "-c", line] }))
}

/// What a program does that the kernel has no tool for.
pub(super) fn used(tool: &str, input: &Value) -> ToolCall {
    let input = if input.is_object() { input.clone() } else { Value::Object(Map::new()) };
    call(USE, json!({ "tool": if tool.is_empty() { "unknown" } else { tool }, "input": input }))
}

/// What a patch of Codex's changes, as one call for each path and what happens to it.
pub(super) fn of_codex_changes(changes: &Value) -> Vec<ToolCall> {
    changes.as_array().into_iter().flatten().flat_map(of_codex_change).collect()
}

fn of_codex_change(change: &Value) -> Vec<ToolCall> {
    let (path, diff) = (change["path"].as_str().unwrap_or_default(), change["diff"].as_str().unwrap_or_default());
    let kind = &change["kind"];
    match kind["type"].as_str().unwrap_or_default() {
        "add" => vec![call("fs.write", json!({ "path": path, "content": diff }))],
        "delete" => vec![call("fs.delete", json!({ "path": path }))],
        "update" => {
            let moved = kind["move_path"].as_str().map(|to| call("fs.move", json!({ "from": path, "to": to })));
            let edited = (moved.is_none() || diff.starts_with("@@")).then(|| edited(path, diff));
            edited.into_iter().chain(moved).collect()
        }
        _ => vec![used("apply_patch", change)],
    }
}

/// The lines that a diff takes away and puts in, with what stands around them.
fn edited(path: &str, diff: &str) -> ToolCall {
    let side = |sign: char| {
        let lines = diff.lines().filter_map(|line| line.strip_prefix(' ').or_else(|| line.strip_prefix(sign)));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    edited_file(path, &side('-'), &side('+'), false)
}

/// An edit; one of nothing makes the file.
pub(super) fn edited_file(path: &str, old: &str, new: &str, all: bool) -> ToolCall {
    match old {
        "" => call("fs.write", json!({ "path": path, "content": new })),
        old => call("fs.edit", json!({ "path": path, "old": old, "new": new, "all": all })),
    }
}

/// A command as one string, as Codex shows it: a shell's line in quotes, or a program and its words. One that only reads is what it reads.
pub(super) fn of_command(command: &str, cwd: Option<&str>, project: &str) -> Vec<ToolCall> {
    let words = words_of(command).unwrap_or_default();
    let line = match &words[..] {
        [shell, flag, line] if is_shell(shell) && matches!(flag.as_str(), "-c" | "-lc") => line.as_str(),
        _ => command,
    };
    let at = cwd.filter(|cwd| *cwd != project);
    if at.is_none()
        && let Some(reads) = reads_of(line)
    {
        return reads;
    }
    let mut run = shell(line);
    if let Some(at) = at {
        run.input["cwd"] = at.into();
    }
    vec![run]
}

fn is_shell(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("sh" | "bash" | "zsh" | "dash"))
}

/// What a command reads, where it is one program that can do nothing else, with words that mean nothing to a shell.
fn reads_of(line: &str) -> Option<Vec<ToolCall>> {
    let words = words_of(line)?;
    let (program, words) = words.split_first()?;
    let is_flag = |word: &&String| word.starts_with('-') && word.len() > 1;
    let only = |letters: &str| words.iter().filter(is_flag).all(|word| *word == "--" || word.chars().skip(1).all(|c| letters.contains(c)));
    let names: Vec<&String> = words.iter().filter(|word| !is_flag(word)).collect();
    let each = |names: &[&String], tool: &str| names.iter().map(|path| call(tool, json!({ "path": path }))).collect::<Vec<_>>();
    let reads = match program.as_str() {
        "cat" if only("AbeEnstTuv") => each(&names, "fs.read"),
        "nl" if only("a") => each(&names, "fs.read"),
        "wc" if only("clmwL") => each(&names, "fs.read"),
        "head" | "tail" => match words {
            [option, _, rest @ ..] if (option == "-n" || option == "-c") && !rest.iter().any(|word| is_flag(&word)) => {
                each(&rest.iter().collect::<Vec<_>>(), "fs.read")
            }
            rest if only("0123456789") => each(&rest.iter().filter(|word| !is_flag(word)).collect::<Vec<_>>(), "fs.read"),
            _ => return None,
        },
        "sed" => match words {
            [option, lines, path] if option == "-n" && is_print(lines) && !is_flag(&path) => each(&[path], "fs.read"),
            _ => return None,
        },
        "pwd" if words.is_empty() => vec![call("fs.list", json!({ "path": "." }))],
        "ls" if only("1AaFhlrStRd") && names.is_empty() => vec![call("fs.list", json!({ "path": "." }))],
        "ls" if only("1AaFhlrStRd") => each(&names, "fs.list"),
        "grep" | "rg" if only("nirRlwcvFEHhsoS") => {
            let (pattern, paths) = names.split_first()?;
            let asked = |path: &str| call("search.grep", json!({ "pattern": pattern, "path": path }));
            if paths.is_empty() { vec![asked(".")] } else { paths.iter().map(|path| asked(path)).collect() }
        }
        _ => return None,
    };
    (!reads.is_empty() && !words.iter().any(|word| word == "-")).then_some(reads)
}

/// `12p` or `1,200p`: the lines that `sed -n` prints.
fn is_print(script: &str) -> bool {
    let lines = script.strip_suffix('p').unwrap_or_default();
    !lines.is_empty() && lines.split(',').count() <= 2 && lines.split(',').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The words of a line that a shell would pass on as they are; `None` for one in which anything means more.
fn words_of(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word): (Vec<String>, Option<String>) = (Vec::new(), None);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '\'' => break,
                        letter => word.push(letter),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '"' => break,
                        '\\' => match letters.next()? {
                            letter @ ('"' | '\\' | '$' | '`') => word.push(letter),
                            letter => word.extend(['\\', letter]),
                        },
                        '$' | '`' => return None,
                        letter => word.push(letter),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(letters.next().filter(|letter| *letter != '\n')?),
            letter if letter.is_control() || "|&;<>()$`*?[]{}~!#=^%".contains(letter) => return None,
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    Some(words)
}

/// A tool that an agent asks about over ACP: `known` is all that was told of it, `asked` what the question says.
pub(super) fn of_acp(known: &Value, asked: &Value) -> Vec<ToolCall> {
    let (raw, kind) = (&known["rawInput"], known["kind"].as_str().unwrap_or_default());
    let text = |fields: &[&str]| fields.iter().find_map(|field| raw[*field].as_str()).filter(|text| !text.is_empty());
    let diffs = known["content"].as_array().into_iter().flatten().filter(|content| content["type"] == "diff");
    let diffs: Vec<ToolCall> = diffs.map(of_acp_diff).collect();
    let paths: Vec<&str> = known["locations"].as_array().into_iter().flatten().filter_map(|location| location["path"].as_str()).collect();
    let path = text(&["filePath", "filepath", "file_path", "absolute_path", "path"]).or(paths.first().copied());
    let name = name_of_acp(known, asked);
    let other = || vec![used(&name, raw)];
    match kind {
        "delete" if !paths.is_empty() => paths.iter().map(|path| call("fs.delete", json!({ "path": path }))).collect(),
        "move" if paths.len() == 2 => vec![call("fs.move", json!({ "from": paths[0], "to": paths[1] }))],
        "execute" => match (&raw["command"], asked["title"].as_str()) {
            (Value::String(line), _) => vec![shell(line)],
            (Value::Array(_), _) => vec![call("shell.run", json!({ "command": raw["command"] }))],
            // Its title is the line.
            (_, Some(title)) => vec![shell(title)],
            _ => other(),
        },
        _ if !diffs.is_empty() => diffs,
        // What it writes there is not told; where is.
        "edit" if !paths.is_empty() => paths.iter().map(|path| call("fs.write", json!({ "path": path, "content": "" }))).collect(),
        "read" => path.map_or_else(other, |path| vec![call("fs.read", json!({ "path": path }))]),
        "search" => vec![of_acp_search(&name, raw, asked["title"].as_str().unwrap_or_default())],
        "fetch" => text(&["url"]).map_or_else(other, |url| vec![call("http.request", json!({ "url": url, "method": "GET" }))]),
        "think" => vec![used("think", raw)],
        _ => other(),
    }
}

/// A search; gemini's says what it looks for in its title alone: `'hello' within ./src`, or the folder that it lists.
fn of_acp_search(name: &str, raw: &Value, title: &str) -> ToolCall {
    if name.contains("list") {
        let path = [raw["path"].as_str().unwrap_or_default(), title].into_iter().find(|path| !path.is_empty());
        return call("fs.list", json!({ "path": path.unwrap_or(".") }));
    }
    let tool = if name.contains("glob") { "search.glob" } else { "search.grep" };
    if raw["pattern"].is_string() {
        return call(tool, searched(raw, "pattern"));
    }
    let (pattern, path) = title.split_once(" within ").unwrap_or((title, ""));
    let asked = json!({ "pattern": pattern.trim_matches('\''), "path": path });
    call(tool, searched(&asked, "pattern"))
}

fn of_acp_diff(diff: &Value) -> ToolCall {
    let text = |field: &str| diff[field].as_str().unwrap_or_default();
    edited_file(text("path"), text("oldText"), text("newText"), false)
}

/// The agent's own name for a tool: before the id, as gemini has it, or the first title that was told of it.
fn name_of_acp(known: &Value, asked: &Value) -> String {
    let by_id = asked["toolCallId"].as_str().and_then(|id| id.split_once("__")).map(|(name, _)| name);
    by_id.or(known["title"].as_str()).unwrap_or_default().to_owned()
}

/// What a tool gave, as an agent tells it over ACP.
pub(super) fn text_of_acp(known: &Value) -> String {
    let content = known["content"].as_array().into_iter().flatten().filter_map(|content| content["content"]["text"].as_str());
    let content: Vec<&str> = content.collect();
    match known["rawOutput"]["output"].as_str() {
        Some(output) if content.is_empty() => output.to_owned(),
        _ => content.join("\n"),
    }
}

/// As much of a tool's own result as its report keeps.
pub(super) fn beginning(text: &str) -> String {
    text.chars().take(RESULT_CHARS).collect()
}

pub(super) fn searched(input: &Value, pattern: &str) -> Value {
    let mut asked = json!({ "pattern": input[pattern].as_str().unwrap_or("*") });
    for field in ["path", "glob"] {
        if let Some(value) = input[field].as_str().filter(|value| !value.is_empty()) {
            asked[field] = value.into();
        }
    }
    asked
}

pub(super) fn call(tool: &str, input: Value) -> ToolCall {
    ToolCall { tool: tool.to_owned(), input }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_becomes_a_call() {
        let rows = [
            ("Read", json!({"file_path": "/p/a.txt", "limit": 5}), "fs.read", json!({"path": "/p/a.txt"})),
            ("Write", json!({"file_path": "a", "content": "x"}), "fs.write", json!({"path": "a", "content": "x"})),
            (
                "Edit",
                json!({"file_path": "a", "old_string": "x", "new_string": "y"}),
                "fs.edit",
                json!({"path": "a", "old": "x", "new": "y", "all": false}),
            ),
            ("Edit", json!({"file_path": "a", "old_string": "", "new_string": "y"}), "fs.write", json!({"path": "a", "content": "y"})),
            ("Bash", json!({"command": "ls | wc -l"}), "shell.run", json!({"command": ["bash", "-c", "ls | wc -l"]})),
            ("Grep", json!({"pattern": "x", "glob": "*.rs"}), "search.grep", json!({"pattern": "x", "glob": "*.rs"})),
            ("TodoWrite", json!({"todos": []}), "brain.use", json!({"tool": "TodoWrite", "input": {"todos": []}})),
            ("", Value::Null, "brain.use", json!({"tool": "unknown", "input": {}})),
            ("Read", Value::Null, "brain.use", json!({"tool": "Read", "input": {}})),
        ];
        for (tool, input, ours, expected) in rows {
            assert_eq!(of_claude(tool, &input), ToolCall { tool: ours.into(), input: expected }, "{tool}");
        }
    }

    #[test]
    fn a_command_that_only_reads_is_what_it_reads() {
        let reads = [
            ("/bin/bash -lc ls", vec![("fs.list", json!({"path": "."}))]),
            ("/bin/bash -lc \"cat -- 'a b.txt'\"", vec![("fs.read", json!({"path": "a b.txt"}))]),
            ("bash -c 'sed -n 1,200p src/lib.rs'", vec![("fs.read", json!({"path": "src/lib.rs"}))]),
            ("bash -lc 'head -n 5 a.txt b.txt'", vec![("fs.read", json!({"path": "a.txt"})), ("fs.read", json!({"path": "b.txt"}))]),
            ("bash -lc 'rg -n main src'", vec![("search.grep", json!({"pattern": "main", "path": "src"}))]),
        ];
        for (command, expected) in reads {
            let calls = of_command(command, Some("/p"), "/p");
            let calls: Vec<(&str, Value)> = calls.iter().map(|call| (call.tool.as_str(), call.input.clone())).collect();
            assert_eq!(calls, expected, "{command}");
        }
        let runs = [
            "cat a.txt; rm a.txt",
            "cat a.txt > b.txt",
            "cat $(rm a.txt)",
            "cat `rm a.txt`",
            "cat \"$(rm a.txt)\"",
            "cat a.txt\nrm a.txt",
            "cat a.txt && rm a.txt",
            "cat",
            "sed -n 1w,p a.txt",
            "sed -n 1p -fscript",
            "sed -i 1p a.txt",
            "tail -n 5 -f a.txt",
            "rg --pre sh x",
            "rg -z x",
            "find . -delete",
            "PATH=. cat a.txt",
            "./cat a.txt",
            "cat 'a.txt",
            "ls *",
            "ls ~",
            "cargo test",
        ];
        for line in runs {
            assert_eq!(of_command(line, None, "/p"), [shell(line)], "{line}");
            let quoted = format!("/bin/bash -lc '{}'", line.replace('\'', "'\\''"));
            assert_eq!(of_command(&quoted, None, "/p"), [shell(line)], "{quoted}");
        }
        let elsewhere = of_command("bash -lc ls", Some("/p/src"), "/p");
        assert_eq!(elsewhere[0].input, json!({"command": ["bash", "-c", "ls"], "cwd": "/p/src"}), "paths would mean something else there");
    }
}
