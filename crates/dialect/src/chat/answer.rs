//! A Chat Completions answer, rendered and decoded: one choice that grows, then its usage if asked for, then `[DONE]`.

use crate::answer::{AnswerPart, AnswerWriter, CREATED_S, pieces};
use crate::conversation::{TurnPart, arguments_text, text_of};
use crate::decoder::{CALLS_MAX, DecodeError, DecodedAnswer, EventDecoder, StopReason};
use serde_json::{Map, Value, json};

fn usage(writer: &AnswerWriter<'_>) -> Value {
    let usage = &writer.answer.usage;
    let prompt = writer.input_tokens();
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}

fn finish_reason(writer: &AnswerWriter<'_>) -> &'static str {
    match writer.answer.stop {
        StopReason::Length => "length",
        StopReason::Withheld(_) => "content_filter",
        StopReason::EndTurn if writer.has_calls() => "tool_calls",
        StopReason::EndTurn => "stop",
    }
}

/// The texts that `pick` finds, a line each.
fn joined(writer: &AnswerWriter<'_>, pick: fn(&AnswerPart) -> Option<&str>) -> Option<String> {
    let texts: Vec<&str> = writer.answer.parts.iter().filter_map(pick).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

pub(super) fn whole(writer: &AnswerWriter<'_>) -> Value {
    let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
    let text = joined(writer, |part| if let AnswerPart::Text(text) = part { Some(text) } else { None });
    message.insert("content".to_owned(), json!(text));
    if let Some(thought) = joined(writer, |part| if let AnswerPart::Thought(text) = part { Some(text) } else { None }) {
        message.insert("reasoning_content".to_owned(), json!(thought));
    }
    let call = |(index, part): (usize, &AnswerPart)| {
        let AnswerPart::Call(call) = part else { return None };
        let function = json!({"name": call.tool, "arguments": call.input.text()});
        Some(json!({"id": writer.id("call_", index), "type": "function", "function": function}))
    };
    let calls: Vec<Value> = writer.answer.parts.iter().enumerate().filter_map(call).collect();
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), json!(calls));
    }
    json!({
        "id": writer.id("chatcmpl-", 0),
        "object": "chat.completion",
        "created": CREATED_S,
        "model": writer.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(writer)}],
        "usage": usage(writer),
    })
}

fn chunk(writer: &mut AnswerWriter<'_>, choices: Value, usage: Option<Value>) {
    let id = writer.id("chatcmpl-", 0);
    let mut chunk = json!({"id": id, "object": "chat.completion.chunk", "created": CREATED_S, "model": writer.model, "choices": choices});
    if writer.wants_usage {
        chunk["usage"] = usage.unwrap_or_default();
    }
    writer.data(&chunk);
}

fn delta(writer: &mut AnswerWriter<'_>, delta: Value) {
    chunk(writer, json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]), None);
}

pub(super) fn stream(writer: &mut AnswerWriter<'_>) {
    let answer = writer.answer;
    delta(writer, json!({"role": "assistant", "content": ""}));
    let (mut calls, mut texts) = (0, 0);
    for (index, part) in answer.parts.iter().enumerate() {
        match part {
            AnswerPart::Delay(ms) => writer.wait_ms += ms,
            AnswerPart::Text(text) => {
                let text = if texts > 0 { format!("\n{text}") } else { text.clone() };
                texts += 1;
                pieces(&text).iter().for_each(|text| delta(writer, json!({"content": text})));
            }
            AnswerPart::Thought(text) => pieces(text).iter().for_each(|text| delta(writer, json!({"reasoning_content": text}))),
            AnswerPart::Call(call) => {
                let function = json!({"name": call.tool, "arguments": ""});
                let id = writer.id("call_", index);
                delta(writer, json!({"tool_calls": [{"index": calls, "id": id, "type": "function", "function": function}]}));
                for text in pieces(&call.input.text()) {
                    delta(writer, json!({"tool_calls": [{"index": calls, "function": {"arguments": text}}]}));
                }
                calls += 1;
            }
        }
    }
    let last = json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": finish_reason(writer)}]);
    chunk(writer, last, None);
    if writer.wants_usage {
        let usage = usage(writer);
        chunk(writer, json!([]), Some(usage));
    }
    writer.raw("data: [DONE]\n\n".to_owned());
}

#[derive(Default)]
pub(super) struct ChatDecoder {
    text: String,
    /// Id, name and arguments of each call, by its index.
    calls: Vec<(String, String, String)>,
    stop: Option<StopReason>,
    input_tokens: Option<u64>,
}

impl ChatDecoder {
    fn push_call(&mut self, call: &Value, called: &mut String) -> Result<(), DecodeError> {
        let (id, name) = (text_of(call, "id"), text_of(&call["function"], "name"));
        let mut at = call["index"].as_u64().map_or(self.calls.len(), |index| index as usize);
        // Some servers number every call 0; a new id is a new call.
        if self.calls.get(at).is_some_and(|(known, ..)| !id.is_empty() && !known.is_empty() && known != id) {
            at = self.calls.iter().position(|(known, ..)| known == id).unwrap_or(self.calls.len());
        }
        if at >= CALLS_MAX {
            return Err(DecodeError::Malformed(format!("call number {at}")));
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
        let arguments = arguments_text(&call["function"]["arguments"]);
        found.2.push_str(&arguments);
        called.push_str(&arguments);
        Ok(())
    }
}

impl EventDecoder for ChatDecoder {
    fn push(&mut self, event: Value, called: &mut String) -> Result<String, DecodeError> {
        if event["error"].is_object() {
            return Err(DecodeError::coded(&event["error"]));
        }
        self.input_tokens = event["usage"]["prompt_tokens"].as_u64().or(self.input_tokens);
        let choice = &event["choices"][0];
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            self.push_call(call, called)?;
        }
        match choice["finish_reason"].as_str() {
            Some("length") => self.stop = Some(StopReason::Length),
            Some("content_filter") => self.stop = Some(StopReason::Withheld("the server's filter stopped it".into())),
            Some(_) => self.stop = Some(StopReason::EndTurn),
            None => {}
        }
        let text = text_of(&choice["delta"], "content");
        self.text.push_str(text);
        Ok(text.to_owned())
    }

    fn finish(self: Box<Self>) -> Option<DecodedAnswer> {
        let stop = self.stop?;
        let mut parts = Vec::new();
        if !self.text.is_empty() {
            parts.push(TurnPart::Text(self.text));
        }
        let named = self.calls.iter().filter(|(_, name, _)| !name.is_empty());
        parts.extend(named.map(|(id, name, arguments)| TurnPart::call(id, name, arguments)));
        Some(DecodedAnswer { parts, stop, input_tokens: self.input_tokens })
    }
}
