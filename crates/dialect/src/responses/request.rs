//! A Responses request: rendered for the built-in brain, its conversation parsed for the scripted model.

use super::DIALECT;
use crate::client_request::{ClientRequest, ToolOutcome, joined_text, list};
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
            ("additional_tools", _) => add_tools(&item["tools"], request),
            (kind, _) if kind.ends_with("_output") => {
                request.add_results(vec![ToolOutcome::new(false, joined_text(&item["output"]))]);
            }
            (kind, _) if kind == "reasoning" || kind.ends_with("_call") => request.add_model(),
            _ => {}
        }
    }
    add_tools(&body["tools"], request);
    if body["text"]["format"]["type"] == "json_schema" {
        request.answer_schema = Some(body["text"]["format"]["schema"].clone());
    }
}

/// A namespace has tools within.
fn add_tools(tools: &Value, request: &mut ClientRequest) {
    for tool in list(tools) {
        match tool["type"].as_str() {
            Some("function") => request.add_tool(tool["name"].as_str(), false, &tool["parameters"]),
            Some("custom") => request.add_tool(tool["name"].as_str(), true, &Value::Null),
            Some("namespace") => add_tools(&tool["tools"], request),
            _ => {}
        }
    }
}
