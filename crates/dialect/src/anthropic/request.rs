//! A Messages request: rendered for the built-in brain, its conversation parsed for the scripted model.

use super::DIALECT;
use crate::client_request::{ClientRequest, ToolOutcome, joined_text, list};
use crate::conversation::{ChatRequest, Speaker, Turn, TurnPart, object_input, vendor_name};
use serde_json::{Value, json};

pub(super) fn render(request: &ChatRequest<'_>) -> (String, Value) {
    // Marks where a prefix ends that comes again with the next request, so that it is read from the cache.
    let cached = json!({"type": "ephemeral"});
    let mut messages: Vec<Value> = request.turns.iter().map(message).collect();
    if let Some(last) = messages.last_mut().and_then(|message| message["content"].as_array_mut()?.last_mut()) {
        last["cache_control"] = cached.clone();
    }
    let tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| json!({"name": vendor_name(&tool.name), "description": tool.description, "input_schema": tool.input_schema}))
        .collect();
    let mut body = json!({
        "model": request.model,
        "max_tokens": request.output_tokens,
        "system": [{"type": "text", "text": request.system, "cache_control": cached}],
        "messages": messages,
        "stream": true,
    });
    if !tools.is_empty() {
        body["tools"] = Value::Array(tools);
    }
    ("/v1/messages".to_owned(), body)
}

fn message(turn: &Turn) -> Value {
    let role = if turn.speaker == Speaker::User { "user" } else { "assistant" };
    let content: Vec<Value> = turn.parts.iter().filter_map(block).collect();
    json!({"role": role, "content": content})
}

fn block(part: &TurnPart) -> Option<Value> {
    Some(match part {
        TurnPart::Text(text) => json!({"type": "text", "text": text}),
        TurnPart::Call { id, tool, input } => {
            json!({"type": "tool_use", "id": id, "name": vendor_name(tool), "input": object_input(input)})
        }
        TurnPart::Result { id, ok, text, .. } => json!({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": !ok}),
        TurnPart::Raw { .. } => part.raw_value(DIALECT)?.clone(),
    })
}

pub(super) fn read_conversation(body: &Value, request: &mut ClientRequest) {
    request.look_for_folder(&joined_text(&body["system"]));
    for message in list(&body["messages"]) {
        let content = &message["content"];
        let results: Vec<ToolOutcome> = list(content)
            .filter(|block| block["type"] == "tool_result")
            .map(|block| ToolOutcome::new(block["is_error"] == true, joined_text(&block["content"])))
            .collect();
        match message["role"].as_str() {
            // Reminders that come with results are not a new message of the user.
            Some("user") if !results.is_empty() => request.add_results(results),
            Some("user") => request.add_user(joined_text(content)),
            Some("assistant") => request.add_model(),
            Some("system") => request.look_for_folder(&joined_text(content)),
            _ => {}
        }
    }
    for tool in list(&body["tools"]) {
        request.add_tool(tool["name"].as_str(), false, &tool["input_schema"]);
    }
    let format = [&body["output_config"]["format"], &body["output_format"]].into_iter().find(|format| format["type"] == "json_schema");
    request.answer_schema = format.map(|format| format["schema"].clone());
}
