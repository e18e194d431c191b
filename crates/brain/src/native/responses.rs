//! OpenAI Responses.

use super::talk::{Garbled, Reply, Stop, Wanted, arguments, call, name_for, text, told};
use super::turn::{By, Part, Turn};
use crate::model::Speech;
use serde_json::{Value, json};

pub fn request(wanted: &Wanted<'_>) -> (String, Value) {
    let tools: Vec<Value> = wanted
        .tools
        .iter()
        .map(|tool| {
            json!({"type": "function", "name": name_for(&tool.name), "description": tool.description, "parameters": tool.input_schema,
                   "strict": false})
        })
        .collect();
    let mut body = json!({
        "model": wanted.card.model,
        "instructions": wanted.system,
        "input": wanted.turns.iter().flat_map(items).collect::<Vec<_>>(),
        "tools": tools,
        "parallel_tool_calls": true,
        "max_output_tokens": wanted.output_tokens,
        // The conversation is ours to keep; with the thoughts in it, nothing needs to stay with the vendor.
        "store": false,
        "stream": true,
    });
    if !wanted.quirks.no_thoughts {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    ("/v1/responses".to_owned(), body)
}

fn items(turn: &Turn) -> Vec<Value> {
    let (role, kind) = if turn.by == By::User { ("user", "input_text") } else { ("assistant", "output_text") };
    let item = |part: &Part| {
        Some(match part {
            Part::Text(text) => json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]}),
            Part::Call { id, tool, input } => {
                json!({"type": "function_call", "call_id": id, "name": name_for(tool), "arguments": input.to_string()})
            }
            Part::Result { id, ok, text, .. } => json!({"type": "function_call_output", "call_id": id, "output": told(*ok, text)}),
            Part::Raw { speech, value } => (speech == Speech::Responses.name()).then(|| value.clone())?,
        })
    };
    turn.parts.iter().filter_map(item).collect()
}

#[derive(Default)]
pub struct Voice {
    parts: Vec<Part>,
    ended: Option<(Stop, Option<u64>)>,
}

impl Voice {
    pub fn hear(&mut self, event: Value) -> Result<Option<String>, Garbled> {
        match text(&event, "type") {
            "response.output_text.delta" => return Ok(Some(text(&event, "delta").to_owned())),
            "response.output_item.done" => self.parts.extend(part(&event["item"])),
            "response.completed" => self.ended = Some((Stop::Turn, input_tokens(&event))),
            "response.incomplete" => {
                let stop = match text(&event["response"]["incomplete_details"], "reason") {
                    "max_output_tokens" => Stop::Length,
                    reason => Stop::Withheld(format!("it stopped: {reason}")),
                };
                self.ended = Some((stop, input_tokens(&event)));
            }
            "response.failed" => return Err(failed(&event["response"]["error"])),
            "error" => return Err(failed(if event["error"].is_object() { &event["error"] } else { &event })),
            _ => {}
        }
        Ok(None)
    }

    pub fn finish(self) -> Option<Reply> {
        let (stop, input_tokens) = self.ended?;
        Some(Reply { parts: self.parts, stop, input_tokens })
    }
}

fn part(item: &Value) -> Option<Part> {
    Some(match text(item, "type") {
        "message" => {
            let texts = item["content"]
                .as_array()?
                .iter()
                .map(|content| if content["text"].is_string() { text(content, "text") } else { text(content, "refusal") });
            Part::Text(texts.collect::<Vec<_>>().join(""))
        }
        "function_call" => call(text(item, "call_id"), text(item, "name"), &arguments(&item["arguments"])),
        "reasoning" => Part::raw(Speech::Responses, item.clone()),
        _ => return None,
    })
}

fn input_tokens(event: &Value) -> Option<u64> {
    event["response"]["usage"]["input_tokens"].as_u64()
}

fn failed(error: &Value) -> Garbled {
    let passing = matches!(text(error, "code"), "server_error" | "rate_limit_exceeded" | "server_is_overloaded");
    Garbled::Failed { what: text(error, "message").to_owned(), passing }
}
