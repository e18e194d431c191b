//! One call: what was decided, and what came out.

use super::describe::scalar;
use super::measure::duration_us;
use super::visible::with_end;
use super::{Line, Page, Tone};
use crate::remedy;
use serde_json::Value;
use wire::Remedy;
use wire::method::call::{CallDecision, CallRunResult, ToolLeftOut, ToolListResult};

/// A command line as a shell would be given it, so that no word can pose as two, or two as one.
pub fn words<T: AsRef<str>>(argv: impl IntoIterator<Item = T>) -> String {
    let words = argv.into_iter().map(|word| match word.as_ref() {
        word if word.is_empty() || word.contains(needs_quotes) => format!("'{}'", word.replace('\'', r"'\''")),
        word => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn needs_quotes(c: char) -> bool {
    c.is_whitespace() || "'\"\\$`;&|<>()#!".contains(c)
}

/// An object's fields: what is short side by side with its name, what is long below it and after the rest.
pub fn fields(value: &Value) -> Page {
    let mut page = Page::new();
    let Value::Object(map) = value else {
        match value {
            Value::Null => {}
            Value::String(text) => page.block("  ", Tone::Plain, text),
            value => page.push(Line::new().plain("  ").plain(scalar(value))),
        }
        return page;
    };
    let (long, short): (Vec<_>, Vec<_>) = map.iter().filter(|(_, value)| !value.is_null()).partition(|(key, value)| is_long(key, value));
    let width = short.iter().map(|(key, _)| Line::new().plain(key).width()).max().unwrap_or(0);
    for (key, value) in short {
        let name = Line::new().plain("  ").join(Line::new().faint(key).pad(width)).plain("  ");
        page.push(name.plain(scalar(value).trim_end_matches('\n')));
    }
    for (key, value) in long {
        match value {
            Value::Array(items) => {
                page.push(Line::new().plain("  ").faint(key).faint(format!(" ({})", items.len())));
                page.append(rows(items));
            }
            value => {
                page.push(Line::new().plain("  ").faint(key));
                let shown: Vec<_> = scalar(value).lines().map(|line| with_end(line).into_owned()).collect();
                page.block("    ", Tone::Plain, &shown.join("\n"));
            }
        }
    }
    page
}

/// A list, one item a line; the fields of objects stand in columns.
fn rows(items: &[Value]) -> Page {
    let row = |item: &Value| match item {
        Value::Object(map) => {
            let mut cells: Vec<_> = map.iter().filter(|(_, value)| !value.is_null()).collect();
            cells.sort_by_key(|(key, _)| rank(key));
            cells
                .into_iter()
                .enumerate()
                .map(|(at, (_, value))| Line::new().plain(if at == 0 { "    " } else { "" }).plain(scalar(value)))
                .collect()
        }
        item => vec![Line::new().plain("    ").plain(scalar(item))],
    };
    super::table(items.iter().map(row).collect())
}

/// Where something is comes first, what it says last.
fn rank(key: &str) -> u8 {
    match key {
        "path" | "name" => 0,
        "line" | "column" => 1,
        "text" => 3,
        _ => 2,
    }
}

fn is_long(key: &str, value: &Value) -> bool {
    match value {
        // A command line is a list that reads best as one line.
        Value::Array(items) => !items.is_empty() && !matches!(key, "command" | "args"),
        Value::String(text) => text.trim_end_matches('\n').contains('\n'),
        _ => false,
    }
}

/// `skep call`, when it was let through. Its refusal is shown like every other no.
pub fn ran(tool: &str, result: &CallRunResult) -> Page {
    let mut page = Page::new();
    page.blank();
    let mark = if result.ok { Line::new().good("✓ ") } else { Line::new().bad("✗ ") };
    let verdict = match (result.decision, result.ok) {
        (CallDecision::Allowed, true) => "allowed",
        (CallDecision::Allowed, false) => "allowed, and failed",
        (CallDecision::Refused, _) => "refused",
        (CallDecision::Pending, _) => "waits for review",
    };
    let call = result.call.map(|call| format!("  {call}")).unwrap_or_default();
    page.push(mark.strong(tool).plain(" ").plain(verdict).faint(call));
    page.append(timings(result));
    if let Some(task) = result.task {
        page.because("kept", &format!("in the workspace of {task}; nothing in the project changed before a merge"));
    }
    if let Some(failure) = FailureText::of(&result.output).filter(|_| !result.ok) {
        failure.add_to(&mut page, "");
    }
    let output = without_code(&result.output);
    if !output.is_null() {
        page.blank();
        page.append(fields(&output));
    }
    page
}

/// Why a call failed, in words: the code beside them is for programs.
pub struct FailureText<'a> {
    why: &'a str,
    fix: Option<String>,
}

impl FailureText<'_> {
    pub fn of(output: &Value) -> Option<FailureText<'_>> {
        let text = |key: &str| output.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let why = ["reason", "error", "why", "stderr", "stdout"].into_iter().find_map(text)?;
        let remedy = output.get("remedy").and_then(|remedy| serde_json::from_value::<Remedy>(remedy.clone()).ok());
        Some(FailureText { why, fix: remedy::fix(text("hint"), remedy.as_ref()) })
    }

    pub fn add_to(&self, page: &mut Page, indent: &str) {
        page.because_under(indent, "why", self.why.trim_end());
        if let Some(fix) = &self.fix {
            page.because_under(indent, "fix", fix);
        }
    }
}

/// What is left to be shown of an output whose failure was told.
fn without_code(output: &Value) -> Value {
    let mut output = output.clone();
    if let Value::Object(fields) = &mut output
        && fields.contains_key("reason")
        && fields.contains_key("error")
    {
        ["error", "reason", "hint", "remedy", "is_retryable"].iter().for_each(|key| drop(fields.remove(*key)));
        if fields.is_empty() {
            return Value::Null;
        }
    }
    output
}

/// Which rules decided, and what it cost.
pub fn timings(result: &CallRunResult) -> Page {
    let mut page = Page::new();
    if !result.rules.is_empty() {
        page.because("rule", &result.rules.join(", "));
    }
    let run = if result.run_us > 0 { format!(" · run {}", duration_us(result.run_us)) } else { String::new() };
    page.because("time", &format!("gate {}{run} · total {}", duration_us(result.gate_us), duration_us(result.total_us)));
    page
}

/// As wide as the longest kind of a tool.
const KIND_COLUMNS: usize = "in a sandbox".len();

/// `skep list tools`.
pub fn tools(ToolListResult { tools, left_out }: &ToolListResult) -> Page {
    let width = tools.iter().map(|tool| Line::new().plain(&tool.name).width()).max().unwrap_or(0);
    let mut page = Page::new();
    for tool in tools {
        let kind = match (tool.read_only, tool.room) {
            (true, _) => Line::new().good("reads"),
            (false, true) => Line::new().wait("in a sandbox"),
            (false, false) => Line::new().wait("changes"),
        };
        let kind = kind.pad(KIND_COLUMNS);
        page.push(Line::new().name(&tool.name).pad(width).plain("  ").join(kind).plain("  ").plain(keys(&tool.input_schema)));
        page.push(Line::new().plain(" ".repeat(width + 2)).faint(&tool.description));
    }
    for ToolLeftOut { file, why } in left_out {
        page.push(Line::new().bad("✗ ").plain("left out: ").name(file));
        page.because("why", why);
    }
    if !left_out.is_empty() {
        page.because("fix", "mend the file, then `skep kernel restart`: tools are loaded when the kernel starts");
    }
    page
}

/// `path= [limit=]`: what a tool needs, then what it can use.
fn keys(schema: &Value) -> String {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|required| required == name));
    let keys = schema.get("properties").and_then(Value::as_object).into_iter().flat_map(|map| map.keys());
    let (needed, other): (Vec<_>, Vec<_>) = keys.partition(|key| is_required(key));
    let needed = needed.into_iter().map(|key| format!("{key}="));
    needed.chain(other.into_iter().map(|key| format!("[{key}=]"))).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wire::method::call::ToolView;
    use wire::{CallId, TaskId};

    #[test]
    fn an_allowed_call_shows_rule_time_and_output() {
        let result = CallRunResult {
            call: Some(CallId(4)),
            decision: CallDecision::Allowed,
            rules: vec!["reads".into()],
            refusal: None,
            ok: true,
            output: json!({"content": "a\nb\x1b[0m\n", "lines": 2, "more": null, "paths": ["x", "y z"]}),
            gate_us: 12,
            run_us: 310,
            total_us: 1_240,
            task: Some(TaskId(2)),
            dropped: None,
        };
        let expected = "
✓ fs.read allowed  call-4
  ↳ rule reads
  ↳ time gate 12 µs · run 310 µs · total 1.2 ms
  ↳ kept in the workspace of task-2; nothing in the project changed before a merge

  lines  2
  content
    a
    b\\x1b[0m
  paths (2)
    x
    y z
";
        assert_eq!(ran("fs.read", &result).render(false, None), expected);
    }

    #[test]
    fn a_list_of_objects_is_a_table() {
        let output = json!({"hits": [{"line": 3, "path": "a.rs", "text": "x"}, {"line": 12, "path": "long.rs", "text": "y\x1b"}]});
        assert_eq!(fields(&output).render(false, None), "  hits (2)\n    a.rs     3   x\n    long.rs  12  y\\x1b\n");
    }

    #[test]
    fn tools_name_their_arguments() {
        let schema = json!({"properties": {"path": {}, "limit": {}}, "required": ["path"]});
        let tool = ToolView { name: "fs.read".into(), description: "a file".into(), read_only: true, room: false, input_schema: schema };
        let mut list = ToolListResult { tools: vec![tool], left_out: Vec::new() };
        assert_eq!(tools(&list).render(false, None), "fs.read  reads         path= [limit=]\n         a file\n");
        list.left_out.push(ToolLeftOut { file: "x/tool.yaml".into(), why: "no `command`".into() });
        assert!(tools(&list).render(false, None).contains("✗ left out: x/tool.yaml\n  ↳ why  no `command`\n"));
    }
}
