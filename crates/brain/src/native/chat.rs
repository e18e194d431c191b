//! OpenAI Chat Completions, and the many servers that speak it.

use super::talk::{CALLS_MAX, Garbled, Reply, Stop, Wanted, arguments, call, name_for, text, told};
use super::turn::{By, Part, Turn};
use serde_json::{Value, json};

pub fn request(wanted: &Wanted<'_>) -> (String, Value) {
    let mut messages = vec![json!({"role": "system", "content": wanted.system})];
    messages.extend(wanted.turns.iter().flat_map(message));
    let tools: Vec<Value> = wanted
        .tools
        .iter()
        .map(|tool| {
            let function = json!({"name": name_for(&tool.name), "description": tool.description, "parameters": tool.input_schema});
            json!({"type": "function", "function": function})
        })
        .collect();
    let mut body = json!({
        "model": wanted.card.model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    // The older name is the one that most servers of this speech know; the vendor's own newer models take only the newer one.
    let limit = if wanted.quirks.newer_limit { "max_completion_tokens" } else { "max_tokens" };
    body[limit] = wanted.output_tokens.into();
    if !tools.is_empty() {
        body["tools"] = Value::Array(tools);
    }
    ("/v1/chat/completions".to_owned(), body)
}

fn message(turn: &Turn) -> Vec<Value> {
    if turn.by == By::User {
        let one = |part: &Part| match part {
            Part::Text(text) => Some(json!({"role": "user", "content": text})),
            Part::Result { id, ok, text, .. } => Some(json!({"role": "tool", "tool_call_id": id, "content": told(*ok, text)})),
            _ => None,
        };
        return turn.parts.iter().filter_map(one).collect();
    }
    let calls: Vec<Value> = turn
        .calls()
        .map(
            |(id, tool, input)| json!({"id": id, "type": "function", "function": {"name": name_for(tool), "arguments": input.to_string()}}),
        )
        .collect();
    let said = turn.text();
    let mut message = json!({"role": "assistant", "content": if said.is_empty() { Value::Null } else { Value::String(said) }});
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    vec![message]
}

#[derive(Default)]
pub struct Voice {
    said: String,
    /// Id, name and arguments of each call, by its index.
    calls: Vec<(String, String, String)>,
    stop: Option<Stop>,
    input_tokens: Option<u64>,
}

impl Voice {
    pub fn hear(&mut self, event: Value) -> Result<Option<String>, Garbled> {
        if event["error"].is_object() {
            let passing = event["error"]["code"].as_u64().is_some_and(|code| code >= 500 || code == 429);
            return Err(Garbled::Failed { what: text(&event["error"], "message").to_owned(), passing });
        }
        self.input_tokens = event["usage"]["prompt_tokens"].as_u64().or(self.input_tokens);
        let choice = &event["choices"][0];
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let (id, name) = (text(call, "id"), text(&call["function"], "name"));
            let mut at = call["index"].as_u64().map_or(self.calls.len(), |index| index as usize);
            // Some servers number every call 0; a new id is a new call.
            if self.calls.get(at).is_some_and(|(known, ..)| !id.is_empty() && !known.is_empty() && known != id) {
                at = self.calls.iter().position(|(known, ..)| known == id).unwrap_or(self.calls.len());
            }
            if at >= CALLS_MAX {
                return Err(Garbled::Strange(format!("call number {at}")));
            }
            if self.calls.len() <= at {
                self.calls.resize(at + 1, Default::default());
            }
            let found = &mut self.calls[at];
            // Once is enough, and some repeat them with every piece.
            for (known, new) in [(&mut found.0, id), (&mut found.1, name)] {
                if known.is_empty() {
                    known.push_str(new);
                }
            }
            // A few send them as an object.
            found.2.push_str(&arguments(&call["function"]["arguments"]));
        }
        match choice["finish_reason"].as_str() {
            Some("length") => self.stop = Some(Stop::Length),
            Some("content_filter") => self.stop = Some(Stop::Withheld("the server's filter stopped it".into())),
            Some(_) => self.stop = Some(Stop::Turn),
            None => {}
        }
        let said = text(&choice["delta"], "content");
        self.said.push_str(said);
        Ok(Some(said.to_owned()))
    }

    pub fn finish(self) -> Option<Reply> {
        let stop = self.stop?;
        let mut parts = Vec::new();
        if !self.said.is_empty() {
            parts.push(Part::Text(self.said));
        }
        parts.extend(self.calls.iter().filter(|(_, name, _)| !name.is_empty()).map(|(id, name, written)| call(id, name, written)));
        Some(Reply { parts, stop, input_tokens: self.input_tokens })
    }
}
