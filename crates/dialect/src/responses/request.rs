//! A Responses request: rendered for the built-in brain, its conversation parsed for the scripted model.

use super::DIALECT;
use crate::client_request::{ClientRequest, OfferedTool, ToolOutcome, joined_text, list};
use crate::conversation::{ChatRequest, Speaker, Turn, TurnPart, marked_result, vendor_name};
use serde_json::{Value, json};

pub(super) fn render(request: &ChatRequest<'_>) -> (String, Value) {
    let tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            json!({"type": "function", "name": vendor_name(&tool.name), "description": tool.description, "parameters": tool.input_schema,
                   "strict": false})
        })
        .collect();
    let mut body = json!({
        "model": request.model,
        "instructions": request.system,
        "input": request.turns.iter().flat_map(items).collect::<Vec<_>>(),
        "tools": tools,
        "parallel_tool_calls": true,
        "max_output_tokens": request.output_tokens,
        // The conversation is ours to keep; with the thoughts in it, nothing needs to stay with the vendor.
        "store": false,
        "stream": true,
    });
    if !request.quirks.no_thoughts {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    ("/v1/responses".to_owned(), body)
}

fn items(turn: &Turn) -> Vec<Value> {
    let (role, kind) = if turn.speaker == Speaker::User { ("user", "input_text") } else { ("assistant", "output_text") };
    let item = |part: &TurnPart| {
        Some(match part {
            TurnPart::Text(text) => json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]}),
            TurnPart::Call { id, tool, input } => {
                json!({"type": "function_call", "call_id": id, "name": vendor_name(tool), "arguments": input.to_string()})
            }
            TurnPart::Result { id, ok, text, .. } => {
                json!({"type": "function_call_output", "call_id": id, "output": marked_result(*ok, text)})
            }
            TurnPart::Raw { .. } => part.raw_value(DIALECT)?.clone(),
        })
    };
    turn.parts.iter().filter_map(item).collect()
}

pub(super) fn read_conversation(body: &Value, request: &mut ClientRequest) {
    request.look_for_folder(&joined_text(&body["instructions"]));
    if let Some(text) = body["input"].as_str() {
        request.add_user(text.to_owned());
    }
    for item in list(&body["input"]) {
        match (item["type"].as_str().unwrap_or("message"), item["role"].as_str()) {
            ("message", Some("user")) => request.add_user(joined_text(&item["content"])),
            ("message", Some("assistant")) => request.add_model(),
            ("message", _) => request.look_for_folder(&joined_text(&item["content"])),
            ("additional_tools", _) => add_tools(&item["tools"], None, request),
            ("tool_search_output", _) => {
                add_tools(&item["tools"], None, request);
                request.add_results(vec![ToolOutcome::new(false, item["tools"].to_string())]);
            }
            (kind, _) if kind.ends_with("_output") => {
                request.add_results(vec![ToolOutcome::new(false, joined_text(&item["output"]))]);
            }
            (kind, _) if kind == "reasoning" || kind.ends_with("_call") => request.add_model(),
            _ => {}
        }
    }
    add_tools(&body["tools"], None, request);
    if body["text"]["format"]["type"] == "json_schema" {
        request.answer_schema = Some(body["text"]["format"]["schema"].clone());
    }
}

/// A namespace has tools within.
fn add_tools(tools: &Value, namespace: Option<&str>, request: &mut ClientRequest) {
    for tool in list(tools) {
        let named = |name: &str| OfferedTool { name: name.to_owned(), namespace: namespace.map(str::to_owned), ..OfferedTool::default() };
        let name = tool["name"].as_str();
        match tool["type"].as_str() {
            Some("function") => request.tools.extend(name.map(|name| OfferedTool { schema: tool["parameters"].clone(), ..named(name) })),
            Some("custom") => request.tools.extend(name.map(|name| OfferedTool { takes_text: true, ..named(name) })),
            Some("tool_search") => {
                request.tools.push(OfferedTool { is_search: true, schema: tool["parameters"].clone(), ..named("tool_search") });
            }
            Some("namespace") => add_tools(&tool["tools"], name, request),
            _ => {}
        }
    }
}
