//! A generateContent answer, rendered and decoded: chunks that each have the shape of a whole answer, with the usage up to there.

use super::DIALECT;
use crate::answer::{AnswerPart, AnswerWriter, pieces};
use crate::conversation::{TurnPart, arguments_text, text_of};
use crate::decoder::{DecodeError, DecodedAnswer, EventDecoder, StopReason};
use serde_json::{Value, json};

fn usage(writer: &AnswerWriter<'_>, is_last: bool) -> Value {
    let usage = &writer.answer.usage;
    let prompt = writer.input_tokens();
    let mut value = json!({"promptTokenCount": prompt, "totalTokenCount": prompt});
    if usage.cache_read > 0 {
        value["cachedContentTokenCount"] = json!(usage.cache_read);
    }
    if is_last {
        value["candidatesTokenCount"] = json!(usage.output.saturating_sub(usage.reasoning));
        value["totalTokenCount"] = json!(prompt + usage.output);
        if usage.reasoning > 0 {
            value["thoughtsTokenCount"] = json!(usage.reasoning);
        }
    }
    value
}

fn part(writer: &AnswerWriter<'_>, index: usize, part: &AnswerPart) -> Option<Value> {
    Some(match part {
        AnswerPart::Text(text) => json!({"text": text}),
        AnswerPart::Thought(text) => json!({"text": text, "thought": true}),
        AnswerPart::Call(call) => {
            let function = json!({"id": writer.id("call_", index), "name": call.tool, "args": call.input.json()});
            json!({"functionCall": function, "thoughtSignature": writer.id("sig", index)})
        }
        AnswerPart::Delay(_) => return None,
    })
}

fn chunk(writer: &AnswerWriter<'_>, parts: Vec<Value>, is_last: bool) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if is_last {
        candidate["finishReason"] = json!(match writer.answer.stop {
            StopReason::Length => "MAX_TOKENS",
            StopReason::Withheld(_) => "SAFETY",
            StopReason::EndTurn => "STOP",
        });
    }
    let usage = usage(writer, is_last);
    json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": writer.model, "responseId": writer.id("", 0)})
}

pub(super) fn whole(writer: &AnswerWriter<'_>) -> Value {
    let parts = writer.answer.parts.iter().enumerate();
    chunk(writer, parts.filter_map(|(index, one)| part(writer, index, one)).collect(), true)
}

/// As events, or as the array that comes without `alt=sse`.
pub(super) fn stream(path: &str, writer: &mut AnswerWriter<'_>) -> &'static str {
    let answer = writer.answer;
    let as_events = path.split(['?', '&']).any(|part| part == "alt=sse");
    let mut is_first = true;
    let mut send = |writer: &mut AnswerWriter<'_>, chunk: Value| {
        if as_events {
            writer.raw(format!("data: {chunk}\r\n\r\n"));
        } else {
            let open = if std::mem::take(&mut is_first) { "[" } else { ",\r\n" };
            writer.raw(format!("{open}{chunk}"));
        }
    };
    for (index, whole) in answer.parts.iter().enumerate() {
        let parts = match whole {
            AnswerPart::Delay(ms) => {
                writer.wait_ms += ms;
                continue;
            }
            AnswerPart::Text(text) => pieces(text).into_iter().map(|piece| AnswerPart::Text(piece.to_owned())).collect(),
            AnswerPart::Thought(text) => pieces(text).into_iter().map(|piece| AnswerPart::Thought(piece.to_owned())).collect(),
            AnswerPart::Call(_) => vec![whole.clone()],
        };
        for one in parts {
            let chunk = chunk(writer, part(writer, index, &one).into_iter().collect(), false);
            send(writer, chunk);
        }
    }
    let last = chunk(writer, vec![json!({"text": ""})], true);
    send(writer, last);
    if as_events {
        return "text/event-stream";
    }
    writer.raw("]".to_owned());
    "application/json"
}

#[derive(Default)]
pub(super) struct GeminiDecoder {
    parts: Vec<TurnPart>,
    text: String,
    stop: Option<StopReason>,
    input_tokens: Option<u64>,
}

impl GeminiDecoder {
    fn close_text(&mut self) {
        if !self.text.is_empty() {
            self.parts.push(TurnPart::Text(std::mem::take(&mut self.text)));
        }
    }
}

impl EventDecoder for GeminiDecoder {
    fn push(&mut self, event: Value, called: &mut String) -> Result<String, DecodeError> {
        if event["error"].is_object() {
            return Err(DecodeError::coded(&event["error"]));
        }
        self.input_tokens = event["usageMetadata"]["promptTokenCount"].as_u64().or(self.input_tokens);
        if let Some(reason) = event["promptFeedback"]["blockReason"].as_str() {
            self.stop = Some(StopReason::Withheld(format!("the prompt was blocked: {reason}")));
        }
        let candidate = &event["candidates"][0];
        let mut said = String::new();
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            if let Some(function) = part.get("functionCall") {
                self.close_text();
                if part["thoughtSignature"].is_string() {
                    self.parts.push(TurnPart::raw(DIALECT, part.clone()));
                }
                let arguments = arguments_text(&function["args"]);
                called.push_str(&arguments);
                self.parts.push(TurnPart::call("", text_of(function, "name"), &arguments));
            } else if part["thought"] != Value::Bool(true) {
                said.push_str(text_of(part, "text"));
            }
        }
        self.text.push_str(&said);
        match candidate["finishReason"].as_str() {
            Some("MAX_TOKENS") => self.stop = Some(StopReason::Length),
            Some("STOP") => self.stop = Some(StopReason::EndTurn),
            // The model slipped; it does better when it is asked again.
            Some(slip @ ("MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE" | "UNEXPECTED_TOOL_CALL" | "OTHER")) => {
                return Err(DecodeError::Reported { message: format!("it stopped: {slip}"), is_transient: true });
            }
            Some(reason) => self.stop = Some(StopReason::Withheld(format!("it stopped: {reason}"))),
            None => {}
        }
        Ok(said)
    }

    fn finish(mut self: Box<Self>) -> Option<DecodedAnswer> {
        self.close_text();
        Some(DecodedAnswer { parts: self.parts, stop: self.stop?, input_tokens: self.input_tokens })
    }
}
