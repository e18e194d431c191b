//! Anthropic Messages.

use super::talk::{Garbled, Reply, Stop, Wanted, arguments, call, name_for, text};
use super::turn::{By, Part, Turn};
use crate::model::Speech;
use serde_json::{Value, json};

pub fn request(wanted: &Wanted<'_>) -> (String, Value) {
    // Marks where a prefix ends that comes again with the next request, so that it is read from the cache.
    let cached = json!({"type": "ephemeral"});
    let mut messages: Vec<Value> = wanted.turns.iter().map(message).collect();
    if let Some(last) = messages.last_mut().and_then(|message| message["content"].as_array_mut()?.last_mut()) {
        last["cache_control"] = cached.clone();
    }
    let tools: Vec<Value> = wanted
        .tools
        .iter()
        .map(|tool| json!({"name": name_for(&tool.name), "description": tool.description, "input_schema": tool.input_schema}))
        .collect();
    let mut body = json!({
        "model": wanted.card.model,
        "max_tokens": wanted.output_tokens,
        "system": [{"type": "text", "text": wanted.system, "cache_control": cached}],
        "messages": messages,
        "stream": true,
    });
    if !tools.is_empty() {
        body["tools"] = Value::Array(tools);
    }
    ("/v1/messages".to_owned(), body)
}

fn message(turn: &Turn) -> Value {
    let role = if turn.by == By::User { "user" } else { "assistant" };
    let content: Vec<Value> = turn.parts.iter().filter_map(block).collect();
    json!({"role": role, "content": content})
}

fn block(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Call { id, tool, input } => json!({"type": "tool_use", "id": id, "name": name_for(tool), "input": object(input)}),
        Part::Result { id, ok, text, .. } => json!({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": !ok}),
        Part::Raw { speech, value } => (speech == Speech::Messages.name()).then(|| value.clone())?,
    })
}

/// The vendor takes nothing but an object here, also when the model itself wrote something else.
pub fn object(input: &Value) -> Value {
    if input.is_object() { input.clone() } else { json!({}) }
}

#[derive(Default)]
pub struct Voice {
    blocks: Vec<(Value, String)>,
    input_tokens: Option<u64>,
    stop: Option<String>,
    over: bool,
}

impl Voice {
    pub fn hear(&mut self, event: Value) -> Result<Option<String>, Garbled> {
        match text(&event, "type") {
            "message_start" => {
                let usage = &event["message"]["usage"];
                let count = |key: &str| usage[key].as_u64().unwrap_or(0);
                self.input_tokens = Some(count("input_tokens") + count("cache_read_input_tokens") + count("cache_creation_input_tokens"));
            }
            "content_block_start" => {
                let block = event["content_block"].clone();
                let said = text(&block, "text").to_owned();
                self.blocks.push((block, said.clone()));
                return Ok(Some(said));
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                let Some((block, body)) = self.blocks.last_mut() else { return Err(Garbled::Strange("a delta of no block".into())) };
                match text(delta, "type") {
                    "text_delta" => {
                        body.push_str(text(delta, "text"));
                        return Ok(Some(text(delta, "text").to_owned()));
                    }
                    "input_json_delta" => body.push_str(text(delta, "partial_json")),
                    "thinking_delta" => body.push_str(text(delta, "thinking")),
                    "signature_delta" => block["signature"] = delta["signature"].clone(),
                    _ => {}
                }
            }
            "message_delta" => self.stop = event["delta"]["stop_reason"].as_str().map(str::to_owned).or(self.stop.take()),
            "message_stop" => self.over = true,
            "error" => {
                let passing = matches!(text(&event["error"], "type"), "overloaded_error" | "api_error" | "rate_limit_error");
                return Err(Garbled::Failed { what: text(&event["error"], "message").to_owned(), passing });
            }
            _ => {}
        }
        Ok(None)
    }

    pub fn finish(self) -> Option<Reply> {
        let stop = match self.stop.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => Stop::Length,
            Some("refusal") => Stop::Withheld("the model's own filter stopped it".into()),
            Some(_) => Stop::Turn,
            None => return None,
        };
        let parts = self.blocks.into_iter().filter_map(|(mut block, body)| match text(&block, "type") {
            "text" => (!body.is_empty()).then_some(Part::Text(body)),
            // A call that was not streamed has its whole input in the block itself.
            "tool_use" if body.is_empty() => Some(call(text(&block, "id"), text(&block, "name"), &arguments(&block["input"]))),
            "tool_use" => Some(call(text(&block, "id"), text(&block, "name"), &body)),
            "thinking" => {
                block["thinking"] = Value::String(body);
                Some(Part::raw(Speech::Messages, block))
            }
            "redacted_thinking" => Some(Part::raw(Speech::Messages, block)),
            _ => None,
        });
        let parts = parts.collect();
        self.over.then_some(Reply { parts, stop, input_tokens: self.input_tokens })
    }
}
