//! Gemini generateContent.

use super::messages::object;
use super::talk::{Garbled, Reply, Stop, Wanted, arguments, call, name_for, text};
use super::turn::{By, Part, Turn};
use crate::model::Speech;
use serde_json::{Value, json};

pub fn request(wanted: &Wanted<'_>) -> (String, Value) {
    let functions: Vec<Value> = wanted
        .tools
        .iter()
        .map(|tool| json!({"name": name_for(&tool.name), "description": tool.description, "parametersJsonSchema": tool.input_schema}))
        .collect();
    let mut body = json!({
        "systemInstruction": {"parts": [{"text": wanted.system}]},
        "contents": wanted.turns.iter().map(content).collect::<Vec<_>>(),
        "generationConfig": {"maxOutputTokens": wanted.output_tokens},
    });
    if !functions.is_empty() {
        body["tools"] = json!([{"functionDeclarations": functions}]);
    }
    (format!("/v1beta/models/{}:streamGenerateContent?alt=sse", segment(&wanted.card.model)), body)
}

/// A name as one segment of a path.
fn segment(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn content(turn: &Turn) -> Value {
    let role = if turn.by == By::User { "user" } else { "model" };
    let part = |part: &Part| {
        Some(match part {
            Part::Text(text) => json!({"text": text}),
            Part::Call { tool, input, .. } => json!({"functionCall": {"name": name_for(tool), "args": object(input)}}),
            Part::Result { tool, ok, text, .. } => {
                let key = if *ok { "output" } else { "error" };
                json!({"functionResponse": {"name": name_for(tool), "response": {key: text}}})
            }
            Part::Raw { speech, value } => (speech == Speech::Gemini.name()).then(|| value.clone())?,
        })
    };
    // A signed call is kept as the vendor wrote it, and behind that as a call; the signed one goes back.
    let signed = |part: &Part| matches!(part, Part::Raw { value, .. } if value["functionCall"].is_object());
    let shown = turn.parts.iter().enumerate().filter(|(at, part)| {
        let behind = at.checked_sub(1).is_some_and(|before| signed(&turn.parts[before]));
        !(behind && matches!(part, Part::Call { .. }))
    });
    let parts: Vec<Value> = shown.filter_map(|(_, shown)| part(shown)).collect();
    json!({"role": role, "parts": parts})
}

#[derive(Default)]
pub struct Voice {
    parts: Vec<Part>,
    said: String,
    stop: Option<Stop>,
    input_tokens: Option<u64>,
}

impl Voice {
    pub fn hear(&mut self, event: Value) -> Result<Option<String>, Garbled> {
        if event["error"].is_object() {
            let passing = event["error"]["code"].as_u64().is_some_and(|code| code >= 500 || code == 429);
            return Err(Garbled::Failed { what: text(&event["error"], "message").to_owned(), passing });
        }
        self.input_tokens = event["usageMetadata"]["promptTokenCount"].as_u64().or(self.input_tokens);
        if let Some(reason) = event["promptFeedback"]["blockReason"].as_str() {
            self.stop = Some(Stop::Withheld(format!("the prompt was blocked: {reason}")));
        }
        let candidate = &event["candidates"][0];
        let mut said = String::new();
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            if let Some(function) = part.get("functionCall") {
                self.close_text();
                if part["thoughtSignature"].is_string() {
                    self.parts.push(Part::raw(Speech::Gemini, part.clone()));
                }
                self.parts.push(call("", text(function, "name"), &arguments(&function["args"])));
            } else if part["thought"] != Value::Bool(true) {
                said.push_str(text(part, "text"));
            }
        }
        self.said.push_str(&said);
        match candidate["finishReason"].as_str() {
            Some("MAX_TOKENS") => self.stop = Some(Stop::Length),
            Some("STOP") => self.stop = Some(Stop::Turn),
            // The model slipped; it does better when it is asked again.
            Some(slip @ ("MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE" | "UNEXPECTED_TOOL_CALL" | "OTHER")) => {
                return Err(Garbled::Failed { what: format!("it stopped: {slip}"), passing: true });
            }
            Some(reason) => self.stop = Some(Stop::Withheld(format!("it stopped: {reason}"))),
            None => {}
        }
        Ok(Some(said))
    }

    fn close_text(&mut self) {
        if !self.said.is_empty() {
            self.parts.push(Part::Text(std::mem::take(&mut self.said)));
        }
    }

    pub fn finish(mut self) -> Option<Reply> {
        self.close_text();
        Some(Reply { parts: self.parts, stop: self.stop?, input_tokens: self.input_tokens })
    }
}
