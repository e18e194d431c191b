//! A Chat Completions request: rendered for the built-in brain, its conversation parsed for the scripted model.

use super::{NEW_LIMIT, OLD_LIMIT};
use crate::client_request::{ClientRequest, ToolOutcome, joined_text, list};
use crate::conversation::{ChatRequest, Speaker, Turn, TurnPart, marked_result, vendor_name};
use serde_json::{Value, json};

pub(super) fn render(request: &ChatRequest<'_>) -> (String, Value) {
    let mut messages = vec![json!({"role": "system", "content": request.system})];
    messages.extend(request.turns.iter().flat_map(message));
    let tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            let function = json!({"name": vendor_name(&tool.name), "description": tool.description, "parameters": tool.input_schema});
            json!({"type": "function", "function": function})
        })
        .collect();
    let mut body = json!({
        "model": request.model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    // The older name is the one that most servers know; the vendor's own newer models take only the newer one.
    let limit = if request.quirks.new_limit_name { NEW_LIMIT } else { OLD_LIMIT };
    body[limit] = request.output_tokens.into();
    if !tools.is_empty() {
        body["tools"] = Value::Array(tools);
    }
    ("/v1/chat/completions".to_owned(), body)
}

fn message(turn: &Turn) -> Vec<Value> {
    if turn.speaker == Speaker::User {
        let one = |part: &TurnPart| match part {
            TurnPart::Text(text) => Some(json!({"role": "user", "content": text})),
            TurnPart::Result { id, ok, text, .. } => Some(json!({"role": "tool", "tool_call_id": id, "content": marked_result(*ok, text)})),
            _ => None,
        };
        return turn.parts.iter().filter_map(one).collect();
    }
    let call = |(id, tool, input): (&str, &str, &Value)| {
        let function = json!({"name": vendor_name(tool), "arguments": input.to_string()});
        json!({"id": id, "type": "function", "function": function})
    };
    let calls: Vec<Value> = turn.calls().map(call).collect();
    let said = turn.text();
    let mut message = json!({"role": "assistant", "content": if said.is_empty() { Value::Null } else { Value::String(said) }});
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    vec![message]
}

pub(super) fn read_conversation(body: &Value, request: &mut ClientRequest) {
    for message in list(&body["messages"]) {
        let text = joined_text(&message["content"]);
        match message["role"].as_str() {
            Some("user") => request.add_user(text),
            Some("assistant") => request.add_model(),
            Some("tool" | "function") => request.add_results(vec![ToolOutcome::new(false, text)]),
            Some("system" | "developer") => request.look_for_folder(&text),
            _ => {}
        }
    }
    for tool in list(&body["tools"]) {
        request.add_tool(tool["function"]["name"].as_str(), false, &tool["function"]["parameters"]);
    }
    if body["response_format"]["type"] == "json_schema" {
        request.answer_schema = Some(body["response_format"]["json_schema"]["schema"].clone());
    }
    request.wants_usage = body["stream_options"]["include_usage"] == true;
}
