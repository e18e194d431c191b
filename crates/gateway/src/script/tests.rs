//! Scripts read, placed, mapped to tools and rendered; what is rendered is metered by the real meters.

use super::*;
use dialect::{CallInput, OfferedTool};
use serde_json::json;

fn error(text: &str) -> String {
    ModelScript::parse(text).unwrap_err().to_string()
}

#[test]
fn a_mistake_is_named_with_line_and_column() {
    let check = |text: &str, expected: &str| assert_eq!(error(text), expected, "{text}");
    let words = "on, then, else, otherwise, repeat, say, think, call, usage, delay, error, stop, cut";
    check("sing a song", &format!("line 1, column 1: `sing` is not one of {words}"));
    check("say a\n  call", "line 2, column 7: `call` names no tool");
    check("call write path", "line 1, column 12: `path` is not key=value");
    check("call write a=1 a=2", "line 1, column 16: `a` is given twice");
    check("call write {\"a\":}", "line 1, column 17: bad value: expected value at line 1 column 6");
    check("call write text=<<END\nabc", "line 1, column 17: `<<END` is never closed");
    check("on", "line 1, column 3: `on` wants a part of the user's message, or `result`");
    check("on \"a", "line 1, column 4: bad text: EOF while parsing a string at line 1 column 2");
    check("on result ok", "line 1, column 1: `on result` stands right after `then`");
    check("say a\nthen\non result maybe", "line 3, column 11: `on result` wants `ok`, `error` or `contains TEXT`");
    check("say a\nthen\nsay b\non result ok", "line 4, column 1: `on result` stands right after `then`");
    check("then", "line 1, column 1: `then` has nothing before it");
    check("say a\nelse", "line 2, column 1: `else` has no `on result` before it");
    check("otherwise\notherwise", "line 2, column 1: `otherwise` is given twice");
    check("repeat", "line 1, column 1: `repeat` has nothing before it");
    check("say a\nthen now", "line 2, column 6: `now` does not belong here");
    check("usage in=x", "line 1, column 7: `in` is not a count of tokens");
    check("usage up=1", "line 1, column 7: `up` is not one of in, out, cache_read, cache_write, reasoning");
    check("delay 5", "line 1, column 7: `delay` wants a time such as 50ms, 2s or 1m");
    check("delay 99999m", "line 1, column 7: `delay` is an hour at most");
    check("  error 200 fine", "line 1, column 9: `error` wants a status from 400 to 599");
    check("stop now", "line 1, column 6: `stop` wants `length` or `refusal`");
    check("# nothing\n\n", "line 1, column 1: there is no answer in it: `say hello` would be one");
    check("ünsäy x", &format!("line 1, column 1: `ünsäy` is not one of {words}"));
}

const SCRIPT: &str = include_str!("../../tests/scripts/greet.script");

fn tools() -> Value {
    let schema = json!({"type": "object", "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}}, "required": ["file_path"]});
    json!([{"name": "Write", "input_schema": schema}, {"name": "Read", "input_schema": schema}])
}

fn say(script: &str, body: &Value) -> (u16, Value) {
    let script = ModelScript::parse(script).unwrap();
    let rendered = script.respond(Dialect::Anthropic, Endpoint::Generate, "/v1/messages", body.to_string().as_bytes());
    (rendered.status, serde_json::from_slice(&rendered.body()).unwrap())
}

fn result(text: &str, is_error: bool) -> Value {
    json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t", "content": text, "is_error": is_error},
        {"type": "text", "text": "<system-reminder>about the greeting</system-reminder>"},
    ]})
}

#[test]
fn the_place_in_the_script_follows_from_the_request() {
    let user = json!({"role": "user", "content": "write the greeting"});
    let spoke = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Write", "input": {}}]});
    let ask = |messages: Vec<&Value>| {
        let body = json!({"model": "m", "system": "Working directory: /w\nmore", "tools": tools(), "messages": messages});
        let (status, answer) = say(SCRIPT, &body);
        assert_eq!(status, 200, "{answer}");
        answer["content"].as_array().unwrap().last().unwrap().clone()
    };
    let first = ask(vec![&user]);
    assert_eq!(
        (&first["name"], &first["input"]),
        (&json!("Write"), &json!({"file_path": "/w/hello.txt", "content": "hello from the script\n"}))
    );
    assert_eq!(ask(vec![&user]), first, "a retry gets the same answer");
    let (fine, bad) = (result("written", false), result("no", true));
    assert_eq!(ask(vec![&user, &spoke, &fine])["name"], "Read");
    assert_eq!(ask(vec![&user, &spoke, &bad])["text"], "The file could not be written.");
    let read = result("1\thello from the script", false);
    assert_eq!(ask(vec![&user, &spoke, &fine, &spoke, &read])["text"], "All done: the file says hello.");
    assert_eq!(ask(vec![&user, &spoke, &fine, &spoke, &fine])["text"], "The file is not what I wrote.");
    assert_eq!(ask(vec![&user, &spoke, &fine, &spoke, &read, &spoke])["text"], "The script has no more answers.");
    // A second message that starts a conversation starts at its first answer.
    assert_eq!(ask(vec![&user, &spoke, &fine, &spoke, &read, &spoke, &user])["name"], "Write");
}

#[test]
fn what_runs_beside_a_conversation_gets_a_fitting_answer() {
    let user = json!([{"role": "user", "content": "write the greeting"}]);
    let text = |body: Value| say(SCRIPT, &body).1["content"][0]["text"].clone();
    assert_eq!(text(json!({"model": "m", "messages": user})), "ok", "a title is asked for without tools");
    let schema = json!({"type": "object", "properties": {"title": {"type": "string"}, "n": {"type": "integer", "minimum": 3}, "way": {"enum": ["a", "b"]}}, "required": ["title", "n", "way"]});
    let shaped = text(json!({"model": "m", "messages": user, "output_config": {"format": {"type": "json_schema", "schema": schema}}}));
    assert_eq!(shaped, r#"{"n":3,"title":"ok","way":"a"}"#);
    let script = format!("{SCRIPT}\notherwise\n  say my own title");
    assert_eq!(say(&script, &json!({"model": "m", "messages": user})).1["content"][0]["text"], "my own title");
    // With tools, silence would be a guess.
    let other = json!({"model": "m", "tools": tools(), "messages": [{"role": "user", "content": "sing"}]});
    let (status, refused) = say(SCRIPT, &other);
    assert_eq!(
        (status, refused["error"]["message"].as_str()),
        (400, Some("no `on` of the script is in the last message `sing`, and there is no `otherwise`"))
    );
    assert_eq!(say("say hi", &other).0, 200);
}

#[test]
fn verbs_fit_the_tools_of_each_client() {
    let input = |text: &str| -> Map<String, Value> { serde_json::from_str(text).unwrap() };
    let client = |tools: Vec<OfferedTool>| ClientRequest { tools, folder: Some("/w".into()), ..ClientRequest::default() };
    let tool = |name: &str, properties: Value, required: Value| OfferedTool {
        name: name.into(),
        schema: json!({"properties": properties, "required": required}),
        ..OfferedTool::default()
    };
    let check = |tools: Vec<OfferedTool>, verb: &str, given: &str, name: &str, expected: CallInput| {
        let called = tools::resolve(verb, &input(given), &client(tools)).unwrap();
        assert_eq!((called.tool.as_str(), called.input), (name, expected));
    };
    let exec = || tool("exec_command", json!({"cmd": {"type": "string"}}), json!(["cmd"]));
    let patch = || OfferedTool { name: "apply_patch".into(), takes_text: true, ..OfferedTool::default() };
    let write = r#"{"path":"a.txt","content":"x\ny\n"}"#;
    let opencode = tool("write", json!({"filePath": {}, "content": {}}), json!([]));
    check(vec![opencode], "write", write, "write", CallInput::Json(json!({"filePath": "/w/a.txt", "content": "x\ny\n"})));
    check(
        vec![exec(), patch()],
        "write",
        write,
        "apply_patch",
        CallInput::Text("*** Begin Patch\n*** Add File: a.txt\n+x\n+y\n*** End Patch\n".into()),
    );
    check(vec![exec()], "write", write, "exec_command", CallInput::Json(json!({"cmd": "printf %s 'x\ny\n' > 'a.txt'"})));
    check(vec![exec()], "read", r#"{"path":"it's"}"#, "exec_command", CallInput::Json(json!({"cmd": "cat -- 'it'\\''s'"})));
    let array = tool("shell", json!({"command": {"type": "array"}}), json!(["command"]));
    check(vec![array], "shell", r#"{"command":"ls"}"#, "shell", CallInput::Json(json!({"command": ["bash", "-c", "ls"]})));
    let bash = tool("bash", json!({"command": {"type": "string"}, "description": {"type": "string"}}), json!(["command", "description"]));
    check(vec![bash], "shell", r#"{"command":"ls"}"#, "bash", CallInput::Json(json!({"command": "ls", "description": "scripted"})));
    let mcp = tool("mcp__skep__fs_write", json!({"path": {}, "content": {}}), json!([]));
    check(vec![mcp], "write", write, "mcp__skep__fs_write", CallInput::Json(json!({"path": "a.txt", "content": "x\ny\n"})));
    let code = || OfferedTool { name: "exec".into(), takes_text: true, ..OfferedTool::default() };
    let ran = "const ran = await tools.exec_command({cmd: \"ls\"});\ntext(ran.output);\nif (ran.exit_code) text(`Exit code: ${ran.exit_code}`);\n";
    check(vec![code()], "shell", r#"{"command":"ls"}"#, "exec", CallInput::Text(ran.into()));
    let patched = "text(await tools.apply_patch(\"*** Begin Patch\\n*** Add File: a.txt\\n+x\\n+y\\n*** End Patch\\n\"));\n";
    check(vec![code()], "write", write, "exec", CallInput::Text(patched.into()));
    check(vec![exec()], "exec_command", r#"{"cmd":"x"}"#, "exec_command", CallInput::Json(json!({"cmd": "x"})));
    // Codex keeps the tools of MCP servers back until they are looked for.
    let search = OfferedTool { name: "tool_search".into(), is_search: true, ..OfferedTool::default() };
    check(vec![search], "tool_search", r#"{"query":"plan"}"#, "tool_search", CallInput::Search(json!({"query": "plan"})));
    let found = OfferedTool { namespace: Some("mcp__skep".into()), ..tool("plan_complete", json!({}), json!([])) };
    let called = tools::resolve("plan_complete", &Map::new(), &client(vec![found])).unwrap();
    assert_eq!((called.tool.as_str(), called.namespace.as_deref()), ("plan_complete", Some("mcp__skep")));
    let missing = tools::resolve("fly", &Map::new(), &client(vec![exec()])).unwrap_err();
    assert_eq!(missing, "there is no tool `fly`: the request offers exec_command");
}

/// A body and path with one tool, for each dialect.
fn request(dialect: Dialect, stream: bool) -> (String, Value) {
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    let words = "please go — schön";
    match dialect {
        Dialect::Anthropic => (
            "/v1/messages?beta=true".into(),
            json!({"model": "m-1", "stream": stream, "tools": [{"name": "Bash", "input_schema": schema}], "messages": [{"role": "user", "content": words}]}),
        ),
        Dialect::Responses => (
            "/v1/responses".into(),
            json!({"model": "m-1", "stream": stream, "tools": [{"type": "function", "name": "shell_command", "parameters": schema}], "input": [{"role": "user", "content": words}]}),
        ),
        Dialect::Chat => (
            "/v1/chat/completions".into(),
            json!({"model": "m-1", "stream": stream, "stream_options": {"include_usage": true}, "tools": [{"type": "function", "function": {"name": "bash", "parameters": schema}}], "messages": [{"role": "user", "content": words}]}),
        ),
        Dialect::Gemini => (
            format!("/v1beta/models/m-1:{}", if stream { "streamGenerateContent?alt=sse" } else { "generateContent" }),
            json!({"tools": [{"functionDeclarations": [{"name": "run_shell_command", "parameters": schema}]}], "contents": [{"role": "user", "parts": [{"text": words}]}]}),
        ),
    }
}

#[test]
fn what_is_rendered_meters_as_the_script_says() {
    let script = "think first a thought, then another one\nsay A longer sentence, so that it comes in several pieces: äöü.\ncall shell command=\"echo hi\"\nusage in=1000 out=77 cache_read=500 reasoning=7\n";
    let script = ModelScript::parse(script).unwrap();
    for dialect in Dialect::ALL {
        for stream in [true, false] {
            let (path, body) = request(dialect, stream);
            let body = body.to_string();
            let rendered = script.respond(dialect, Endpoint::Generate, &path, body.as_bytes());
            assert_eq!(rendered.status, 200, "{dialect:?} {}", String::from_utf8_lossy(&rendered.body()));
            assert_eq!(
                rendered,
                script.respond(dialect, Endpoint::Generate, &path, body.as_bytes()),
                "the same request gives the same bytes"
            );
            assert_eq!(rendered.chunks.len() > 5, stream);
            let mut meter = dialect.parse_request(&path, body.as_bytes()).unwrap().meter();
            rendered.chunks.iter().for_each(|chunk| meter.feed(&chunk.bytes));
            let metered = meter.finish();
            // Anthropic's stream does not tell thinking apart.
            let reasoning = if dialect == Dialect::Anthropic { 0 } else { 7 };
            let usage =
                TokenUsage { input: 1000, output: 77, cache_read: 500, reasoning, source: UsageSource::Reported, ..TokenUsage::default() };
            assert_eq!(
                (metered.usage, metered.complete, metered.model.as_deref()),
                (usage, true, Some("m-1")),
                "{dialect:?} {:?}",
                metered.notes
            );
        }
    }
}

#[test]
fn an_answer_may_count_for_nothing() {
    let script = ModelScript::parse("say hello\nusage in=5 out=0\n").unwrap();
    for dialect in Dialect::ALL {
        let (path, body) = request(dialect, true);
        let body = body.to_string();
        let rendered = script.respond(dialect, Endpoint::Generate, &path, body.as_bytes());
        let mut meter = dialect.parse_request(&path, body.as_bytes()).unwrap().meter();
        rendered.chunks.iter().for_each(|chunk| meter.feed(&chunk.bytes));
        let usage = meter.finish().usage;
        assert_eq!((usage.input, usage.output, usage.source), (5, 0, UsageSource::Reported), "{dialect:?}");
    }
}

#[test]
fn errors_delays_and_cuts() {
    let script =
        ModelScript::parse("error 529 times=2 busy, try later\ndelay 50ms\nsay one two three four five six seven\nstop length\n").unwrap();
    for dialect in Dialect::ALL {
        let (path, body) = request(dialect, true);
        let body = body.to_string();
        let respond = || script.respond(dialect, Endpoint::Generate, &path, body.as_bytes());
        let statuses: Vec<u16> = (0..4).map(|_| respond().status).collect();
        assert_eq!(statuses, [529, 529, 200, 200], "{dialect:?}");
        assert!(
            String::from_utf8(
                ModelScript::parse("error 529 busy").unwrap().respond(dialect, Endpoint::Generate, &path, body.as_bytes()).body()
            )
            .unwrap()
            .contains("busy")
        );
        let answer = respond();
        assert_eq!(answer.chunks.iter().map(|chunk| chunk.after_ms).sum::<u64>(), 50, "{dialect:?}");
        let text = String::from_utf8(answer.body()).unwrap();
        assert!(["\"max_tokens\"", "max_output_tokens", "\"length\"", "MAX_TOKENS"].iter().any(|word| text.contains(word)), "{dialect:?}");
        let cut = ModelScript::parse("say one two three four five six seven\ncut").unwrap();
        let cut = cut.respond(dialect, Endpoint::Generate, &path, body.as_bytes());
        let mut meter = dialect.meter(true);
        meter.feed(&cut.body());
        assert!(cut.is_cut && !meter.finish().complete, "{dialect:?}");
    }
}

#[test]
fn repeat_goes_round() {
    let body = |spoken: usize| {
        let mut messages = vec![json!({"role": "user", "content": "go"})];
        for _ in 0..spoken {
            messages.push(json!({"role": "assistant", "content": "x"}));
            messages.push(json!({"role": "user", "content": "and"}));
        }
        json!({"model": "m", "messages": messages})
    };
    let texts: Vec<Value> = (0..5).map(|n| say("say a\nthen\nsay b\nrepeat", &body(n)).1["content"][0]["text"].clone()).collect();
    assert_eq!(texts, ["a", "b", "a", "b", "a"]);
}

#[test]
fn tokens_are_counted_and_models_listed() {
    let script = ModelScript::parse("say a").unwrap();
    let (path, body) = ("/v1beta/models/m:countTokens", br#"{"contents":[{"parts":[{"text":"hello world"}]}]}"#);
    let counted: Value = serde_json::from_slice(&script.respond(Dialect::Gemini, Endpoint::CountTokens, path, body).body()).unwrap();
    assert!(counted["totalTokens"].as_u64().unwrap() > 2);
    let listed = script.respond(Dialect::Chat, Endpoint::Models, "/v1/models", b"");
    assert!(String::from_utf8(listed.body()).unwrap().contains("\"script\""));
}

/// Codex offers its tools within the conversation where its model takes that.
#[test]
fn tools_that_come_with_the_conversation_are_offered() {
    let tools = json!([{"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"},
        {"type": "function", "name": "wait", "parameters": {"type": "object"}}]}]);
    let user = json!({"type": "message", "role": "user", "content": "write the greeting"});
    let ask = |input: Value| {
        let script = ModelScript::parse("on \"greeting\"\n  call shell command=ls\n").unwrap();
        let body = json!({"model": "m", "input": input}).to_string();
        let rendered = script.respond(Dialect::Responses, Endpoint::Generate, "/v1/responses", body.as_bytes());
        (rendered.status, rendered.chunks.iter().map(|chunk| String::from_utf8_lossy(&chunk.bytes).into_owned()).collect::<String>())
    };
    let (status, text) = ask(json!([{"type": "additional_tools", "role": "developer", "tools": tools}, user]));
    assert!(status == 200 && text.contains("custom_tool_call") && text.contains("tools.exec_command"), "{status} {text}");
    // Without tools it is no request of the conversation.
    let (status, text) = ask(json!([user]));
    assert!(status == 200 && !text.contains("custom_tool_call"), "{status} {text}");
}
