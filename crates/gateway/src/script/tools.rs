//! Which of the offered tools a script's `call` means.
//!
//! A tool that is offered by that very name is taken as it is. Else a generic verb (`write`, `read`, `edit`, `shell`, `list`, `search`) is
//! mapped to whatever this client calls it, by name and by the tool's own schema; where there is no such tool, to its shell.

use dialect::{AnswerCall, CallInput, ClientRequest, OfferedTool};
use serde_json::{Map, Value, json};

/// Verb and the names that clients have for it.
const VERBS: &[(&str, &[&str])] = &[
    ("write", &["Write", "write", "write_file", "fs.write", "fs_write", "create_file"]),
    ("read", &["Read", "read", "read_file", "fs.read", "fs_read", "view_file"]),
    ("edit", &["Edit", "edit", "replace", "fs.edit", "fs_edit", "str_replace"]),
    ("shell", &["Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell", "shell.run", "shell_run"]),
    ("list", &["LS", "list", "list_directory", "fs.list", "fs_list"]),
    ("search", &["Grep", "grep", "search_file_content", "grep_search", "search.grep", "search_grep"]),
];

/// A script's word for an argument and the names that tools have for it.
const NAMES: &[(&str, &[&str])] = &[
    ("path", &["path", "file_path", "filePath", "absolute_path", "dir_path", "filename"]),
    ("content", &["content", "contents", "file_text", "text"]),
    ("command", &["command", "cmd"]),
    ("old", &["old_string", "oldString", "old_str", "old"]),
    ("new", &["new_string", "newString", "new_str", "new"]),
    ("pattern", &["pattern", "query", "regex"]),
];

pub(super) fn resolve(name: &str, input: &Map<String, Value>, client: &ClientRequest) -> Result<AnswerCall, String> {
    // No vendor takes a dot in a name, so clients that have dots in theirs offer them with another letter.
    if let Some(tool) = offered(client, &[name, &name.replace('.', "_")])
        && !VERBS.iter().any(|(verb, _)| *verb == name)
    {
        return Ok(call(tool, exact(tool, input)));
    }
    let unknown = || {
        let names: Vec<&str> = client.tools.iter().map(|tool| tool.name.as_str()).collect();
        format!("there is no tool `{name}`: the request offers {}", if names.is_empty() { "none".into() } else { names.join(", ") })
    };
    let (verb, names) = VERBS.iter().find(|(verb, _)| *verb == name).ok_or_else(unknown)?;
    if let Some(tool) = offered(client, names).filter(|tool| !tool.takes_text) {
        return Ok(call(tool, CallInput::Json(mapped(tool, input, client))));
    }
    if let Some(tool) = offered(client, &["apply_patch"]).filter(|tool| tool.takes_text)
        && let Some(patch) = patch(verb, input)
    {
        return Ok(call(tool, CallInput::Text(patch)));
    }
    let shell = VERBS.iter().find(|(verb, _)| *verb == "shell").and_then(|(_, names)| offered(client, names));
    match (shell, by_shell(verb, input)) {
        (Some(tool), Some(command)) => {
            let input = Map::from_iter([("command".to_owned(), Value::from(command))]);
            Ok(call(tool, CallInput::Json(mapped(tool, &input, client))))
        }
        _ => {
            let code = offered(client, &["exec"]).filter(|tool| tool.takes_text).zip(by_code(verb, input));
            let (tool, code) = code.ok_or_else(unknown)?;
            Ok(call(tool, CallInput::Text(code)))
        }
    }
}

fn call(tool: &OfferedTool, input: CallInput) -> AnswerCall {
    AnswerCall { tool: tool.name.clone(), namespace: tool.namespace.clone(), input }
}

/// The tool by the first of these names that is offered; one that comes by way of an MCP server has that in front.
fn offered<'a>(client: &'a ClientRequest, names: &[&str]) -> Option<&'a OfferedTool> {
    let is = |tool: &OfferedTool, name: &str| tool.name == name || tool.name.rsplit("__").next() == Some(name);
    names.iter().find_map(|name| client.tools.iter().find(|tool| is(tool, name)))
}

fn exact(tool: &OfferedTool, input: &Map<String, Value>) -> CallInput {
    match (tool.takes_text, input.get("input").or(input.get("text")).and_then(Value::as_str)) {
        (true, Some(text)) => CallInput::Text(text.to_owned()),
        _ if tool.is_search => CallInput::Search(Value::Object(input.clone())),
        _ => CallInput::Json(Value::Object(input.clone())),
    }
}

/// The input under the names of this tool's schema, with what else it requires filled in.
fn mapped(tool: &OfferedTool, input: &Map<String, Value>, client: &ClientRequest) -> Value {
    let properties = tool.schema["properties"].as_object();
    let has = |name: &str| properties.is_some_and(|properties| properties.contains_key(name));
    let mut out = Map::new();
    for (key, value) in input {
        let names = NAMES.iter().find(|(word, _)| word == key).map_or(&[][..], |(_, names)| names);
        let name = names.iter().find(|name| has(name)).copied().unwrap_or(key);
        let mut value = value.clone();
        if key == "path" && name != "path" && name != "dir_path" {
            value = absolute(value, client);
        }
        if key == "command" && tool.schema["properties"][name]["type"] == "array" && value.is_string() {
            value = json!(["bash", "-c", value]);
        }
        out.insert(name.to_owned(), value);
    }
    for name in tool.schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !out.contains_key(name) {
            let filled = match tool.schema["properties"][name]["type"].as_str() {
                Some("string" | "STRING") => json!("scripted"),
                _ => smallest_value(&tool.schema["properties"][name]),
            };
            out.insert(name.to_owned(), filled);
        }
    }
    Value::Object(out)
}

/// Some clients take only absolute paths, and a script does not know where it is played.
fn absolute(path: Value, client: &ClientRequest) -> Value {
    match (path.as_str(), &client.folder) {
        (Some(text), Some(folder)) if !text.starts_with('/') => json!(format!("{}/{text}", folder.trim_end_matches('/'))),
        _ => path,
    }
}

fn patch(verb: &str, input: &Map<String, Value>) -> Option<String> {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let path = text("path")?;
    let lines = |sign: char, text: &str| text.lines().map(|line| format!("{sign}{line}\n")).collect::<String>();
    let body = match verb {
        "write" => format!("*** Add File: {path}\n{}", lines('+', text("content")?)),
        "edit" => format!("*** Update File: {path}\n@@\n{}{}", lines('-', text("old")?), lines('+', text("new")?)),
        _ => return None,
    };
    Some(format!("*** Begin Patch\n{body}*** End Patch\n"))
}

/// For a client whose one tool takes JavaScript that calls the others, as Codex has it with its newest models.
fn by_code(verb: &str, input: &Map<String, Value>) -> Option<String> {
    if let Some(patch) = patch(verb, input) {
        return Some(format!("text(await tools.apply_patch({}));\n", Value::from(patch)));
    }
    let command = Value::from(by_shell(verb, input)?);
    Some(format!(
        "const ran = await tools.exec_command({{cmd: {command}}});\ntext(ran.output);\nif (ran.exit_code) text(`Exit code: ${{ran.exit_code}}`);\n"
    ))
}

fn by_shell(verb: &str, input: &Map<String, Value>) -> Option<String> {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    Some(match verb {
        "shell" => text("command")?.to_owned(),
        "read" => format!("cat -- {}", quoted(text("path")?)),
        "write" => format!("printf %s {} > {}", quoted(text("content")?), quoted(text("path")?)),
        "list" => format!("ls -la -- {}", quoted(text("path").unwrap_or("."))),
        "search" => format!("grep -rn -e {} -- {}", quoted(text("pattern")?), quoted(text("path").unwrap_or("."))),
        _ => return None,
    })
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The smallest value of a schema: what is required and nothing else. Google writes its types in capitals.
pub(super) fn smallest_value(schema: &Value) -> Value {
    if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)).or_else(|| schema.get("default")) {
        return value.clone();
    }
    if let Some(first) = schema["anyOf"].get(0).or_else(|| schema["oneOf"].get(0)) {
        return smallest_value(first);
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str()).unwrap_or_default().to_ascii_lowercase();
    match kind.as_str() {
        "object" => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            Value::Object(required.map(|name| (name.to_owned(), smallest_value(&schema["properties"][name]))).collect())
        }
        "array" => json!([]),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(false),
        "null" => Value::Null,
        _ => json!("ok"),
    }
}
