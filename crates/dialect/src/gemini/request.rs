//! A generateContent request: rendered for the built-in brain, its conversation parsed for the scripted model.

use super::{DIALECT, path};
use crate::client_request::{ClientRequest, ToolOutcome, joined_text, list};
use crate::conversation::{ChatRequest, Speaker, Turn, TurnPart, object_input, vendor_name};
use serde_json::{Value, json};

pub(super) fn render(request: &ChatRequest<'_>) -> (String, Value) {
    let functions: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| json!({"name": vendor_name(&tool.name), "description": tool.description, "parametersJsonSchema": tool.input_schema}))
        .collect();
    let mut body = json!({
        "systemInstruction": {"parts": [{"text": request.system}]},
        "contents": request.turns.iter().map(content).collect::<Vec<_>>(),
        "generationConfig": {"maxOutputTokens": request.output_tokens},
    });
    if !functions.is_empty() {
        body["tools"] = json!([{"functionDeclarations": functions}]);
    }
    (format!("/v1beta/models/{}:streamGenerateContent?alt=sse", path::encode_model(request.model)), body)
}

fn content(turn: &Turn) -> Value {
    let role = if turn.speaker == Speaker::User { "user" } else { "model" };
    let part = |part: &TurnPart| {
        Some(match part {
            TurnPart::Text(text) => json!({"text": text}),
            TurnPart::Call { tool, input, .. } => json!({"functionCall": {"name": vendor_name(tool), "args": object_input(input)}}),
            TurnPart::Result { tool, ok, text, .. } => {
                let key = if *ok { "output" } else { "error" };
                json!({"functionResponse": {"name": vendor_name(tool), "response": {key: text}}})
            }
            TurnPart::Raw { .. } => part.raw_value(DIALECT)?.clone(),
        })
    };
    // A signed call is kept as the vendor wrote it, and behind that as a call; the signed one goes back.
    let is_signed = |part: &TurnPart| matches!(part, TurnPart::Raw { value, .. } if value["functionCall"].is_object());
    let shown = turn.parts.iter().enumerate().filter(|(at, part)| {
        let is_behind = at.checked_sub(1).is_some_and(|before| is_signed(&turn.parts[before]));
        !(is_behind && matches!(part, TurnPart::Call { .. }))
    });
    let parts: Vec<Value> = shown.filter_map(|(_, shown)| part(shown)).collect();
    json!({"role": role, "parts": parts})
}

pub(super) fn read_conversation(body: &Value, request: &mut ClientRequest) {
    let either = |one: &str, other: &str| if body[one].is_null() { body[other].clone() } else { body[one].clone() };
    request.look_for_folder(&joined_text(&either("systemInstruction", "system_instruction")["parts"]));
    for content in list(&body["contents"]) {
        let responses = list(&content["parts"]).map(|part| &part["functionResponse"]).filter(|response| !response.is_null());
        let results: Vec<ToolOutcome> = responses
            .map(|response| {
                let response = &response["response"];
                let text = response["output"].as_str().map_or_else(|| response.to_string(), str::to_owned);
                ToolOutcome::new(!response["error"].is_null(), text)
            })
            .collect();
        match content["role"].as_str() {
            Some("model") => request.add_model(),
            _ if !results.is_empty() => request.add_results(results),
            _ => request.add_user(joined_text(&content["parts"])),
        }
    }
    for tool in list(&body["tools"]) {
        for function in list(&tool["functionDeclarations"]).chain(list(&tool["function_declarations"])) {
            let schema = [&function["parametersJsonSchema"], &function["parameters"]].into_iter().find(|schema| !schema.is_null());
            request.add_tool(function["name"].as_str(), false, schema.unwrap_or(&Value::Null));
        }
    }
    let config = either("generationConfig", "generation_config");
    let schema = ["responseJsonSchema", "responseSchema"].iter().map(|name| &config[*name]).find(|schema| !schema.is_null());
    request.answer_schema = schema.cloned();
}
