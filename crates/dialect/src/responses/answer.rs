//! A Responses answer, rendered and decoded: items that are added, grow and are done, each event numbered.

use super::DIALECT;
use crate::answer::{AnswerCall, AnswerPart, AnswerWriter, CREATED_S, CallInput, pieces};
use crate::conversation::{TurnPart, arguments_text, text_of};
use crate::decoder::{DecodeError, DecodedAnswer, EventDecoder, StopReason};
use serde_json::{Value, json};

fn item(writer: &AnswerWriter<'_>, index: usize, part: &AnswerPart) -> Option<Value> {
    Some(match part {
        AnswerPart::Text(text) => json!({
            "type": "message", "id": writer.id("msg_", index), "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
        }),
        AnswerPart::Thought(text) => {
            json!({"type": "reasoning", "id": writer.id("rs_", index), "summary": [{"type": "summary_text", "text": text}]})
        }
        AnswerPart::Call(call) => match &call.input {
            CallInput::Json(input) => {
                let mut item = json!({
                    "type": "function_call", "id": writer.id("fc_", index), "status": "completed", "call_id": writer.id("call_", index),
                    "name": call.tool, "arguments": input.to_string(),
                });
                if let Some(namespace) = &call.namespace {
                    item["namespace"] = json!(namespace);
                }
                item
            }
            CallInput::Search(input) => json!({
                "type": "tool_search_call", "id": writer.id("tsc_", index), "status": "completed", "call_id": writer.id("call_", index),
                "execution": "client", "arguments": input,
            }),
            CallInput::Text(text) => json!({
                "type": "custom_tool_call", "id": writer.id("ctc_", index), "status": "completed", "call_id": writer.id("call_", index),
                "name": call.tool, "input": text,
            }),
        },
        AnswerPart::Delay(_) => return None,
    })
}

pub(super) fn whole(writer: &AnswerWriter<'_>) -> Value {
    let parts = writer.answer.parts.iter().enumerate();
    let output: Vec<Value> = parts.filter_map(|(index, part)| item(writer, index, part)).collect();
    let usage = &writer.answer.usage;
    let input = writer.input_tokens();
    let (status, incomplete) = match writer.answer.stop {
        StopReason::Length => ("incomplete", json!({"reason": "max_output_tokens"})),
        StopReason::Withheld(_) => ("incomplete", json!({"reason": "content_filter"})),
        StopReason::EndTurn => ("completed", Value::Null),
    };
    json!({
        "id": writer.id("resp_", 0),
        "object": "response",
        "created_at": CREATED_S,
        "status": status,
        "error": null,
        "incomplete_details": incomplete,
        "model": writer.model,
        "output": output,
        "usage": {
            "input_tokens": input,
            "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": input + usage.output,
        },
    })
}

pub(super) fn stream(writer: &mut AnswerWriter<'_>) {
    let answer = writer.answer;
    let whole = whole(writer);
    let mut begun = whole.clone();
    begun["status"] = json!("in_progress");
    begun["incomplete_details"] = Value::Null;
    begun["output"] = json!([]);
    begun["usage"] = Value::Null;
    let mut number = 0;
    let mut events =
        vec![json!({"type": "response.created", "response": begun}), json!({"type": "response.in_progress", "response": begun})];
    let mut output_index = 0;
    for (index, part) in answer.parts.iter().enumerate() {
        match item(writer, index, part) {
            Some(item) => {
                events.extend(item_events(output_index, part, &item));
                output_index += 1;
            }
            None => {
                numbered(writer, std::mem::take(&mut events), &mut number);
                if let AnswerPart::Delay(ms) = part {
                    writer.wait_ms += ms;
                }
            }
        }
    }
    let end = if answer.stop == StopReason::EndTurn { "response.completed" } else { "response.incomplete" };
    events.push(json!({"type": end, "response": whole}));
    numbered(writer, events, &mut number);
}

fn numbered(writer: &mut AnswerWriter<'_>, events: Vec<Value>, number: &mut u64) {
    for mut event in events {
        event["sequence_number"] = json!(*number);
        *number += 1;
        writer.event(&event);
    }
}

fn item_events(output_index: usize, part: &AnswerPart, item: &Value) -> Vec<Value> {
    let (id, mut begun) = (item["id"].clone(), item.clone());
    if begun.get("status").is_some() {
        begun["status"] = json!("in_progress");
    }
    let on = |kind: &str, more: Value| {
        let mut event = json!({"type": kind, "item_id": id, "output_index": output_index});
        if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
            event.extend(more);
        }
        event
    };
    let grow = |kind: &str, text: &str, more: &Value| -> Vec<Value> {
        let each = |piece: &&str| {
            let mut event = on(kind, more.clone());
            event["delta"] = json!(piece);
            event
        };
        pieces(text).iter().map(each).collect()
    };
    let middle = match part {
        AnswerPart::Text(text) => {
            begun["content"] = json!([]);
            let at = json!({"content_index": 0});
            let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
            let mut events = vec![on("response.content_part.added", json!({"content_index": 0, "part": part("")}))];
            events.extend(grow("response.output_text.delta", text, &at));
            events.push(on("response.output_text.done", json!({"content_index": 0, "text": text})));
            events.push(on("response.content_part.done", json!({"content_index": 0, "part": part(text)})));
            events
        }
        AnswerPart::Thought(text) => {
            begun["summary"] = json!([]);
            let at = json!({"summary_index": 0});
            let part = |text: &str| json!({"type": "summary_text", "text": text});
            let mut events = vec![on("response.reasoning_summary_part.added", json!({"summary_index": 0, "part": part("")}))];
            events.extend(grow("response.reasoning_summary_text.delta", text, &at));
            events.push(on("response.reasoning_summary_text.done", json!({"summary_index": 0, "text": text})));
            events.push(on("response.reasoning_summary_part.done", json!({"summary_index": 0, "part": part(text)})));
            events
        }
        // It comes whole.
        AnswerPart::Call(AnswerCall { input: CallInput::Search(_), .. }) => Vec::new(),
        AnswerPart::Call(call) => {
            let (kind, field) = match &call.input {
                CallInput::Text(_) => ("response.custom_tool_call_input", "input"),
                _ => ("response.function_call_arguments", "arguments"),
            };
            begun[field] = json!("");
            let text = call.input.text();
            let mut events = grow(&format!("{kind}.delta"), &text, &json!({}));
            let mut done = on(&format!("{kind}.done"), json!({}));
            done[field] = json!(text);
            events.push(done);
            events
        }
        AnswerPart::Delay(_) => Vec::new(),
    };
    let mut events = vec![json!({"type": "response.output_item.added", "output_index": output_index, "item": begun})];
    events.extend(middle);
    events.push(json!({"type": "response.output_item.done", "output_index": output_index, "item": item}));
    events
}

#[derive(Default)]
pub(super) struct ResponsesDecoder {
    parts: Vec<TurnPart>,
    /// Why it stopped, and what the request took of the context.
    end: Option<(StopReason, Option<u64>)>,
    /// The call that is open came piece by piece.
    is_streamed: bool,
}

impl EventDecoder for ResponsesDecoder {
    fn push(&mut self, event: Value, called: &mut String) -> Result<String, DecodeError> {
        match text_of(&event, "type") {
            "response.output_text.delta" => return Ok(text_of(&event, "delta").to_owned()),
            "response.function_call_arguments.delta" => {
                called.push_str(text_of(&event, "delta"));
                self.is_streamed = true;
            }
            "response.output_item.done" => {
                // Arguments that came piece by piece are here once more.
                if text_of(&event["item"], "type") == "function_call" && !std::mem::take(&mut self.is_streamed) {
                    called.push_str(&arguments_text(&event["item"]["arguments"]));
                }
                self.parts.extend(part(&event["item"]));
            }
            "response.completed" => self.end = Some((StopReason::EndTurn, input_tokens(&event))),
            "response.incomplete" => {
                let stop = match text_of(&event["response"]["incomplete_details"], "reason") {
                    "max_output_tokens" => StopReason::Length,
                    reason => StopReason::Withheld(format!("it stopped: {reason}")),
                };
                self.end = Some((stop, input_tokens(&event)));
            }
            "response.failed" => return Err(reported(&event["response"]["error"])),
            "error" => return Err(reported(if event["error"].is_object() { &event["error"] } else { &event })),
            _ => {}
        }
        Ok(String::new())
    }

    fn finish(self: Box<Self>) -> Option<DecodedAnswer> {
        let (stop, input_tokens) = self.end?;
        Some(DecodedAnswer { parts: self.parts, stop, input_tokens })
    }
}

fn part(item: &Value) -> Option<TurnPart> {
    Some(match text_of(item, "type") {
        "message" => {
            let texts = item["content"]
                .as_array()?
                .iter()
                .map(|content| if content["text"].is_string() { text_of(content, "text") } else { text_of(content, "refusal") });
            TurnPart::Text(texts.collect::<Vec<_>>().join(""))
        }
        "function_call" => TurnPart::call(text_of(item, "call_id"), text_of(item, "name"), &arguments_text(&item["arguments"])),
        "reasoning" => TurnPart::raw(DIALECT, item.clone()),
        _ => return None,
    })
}

fn input_tokens(event: &Value) -> Option<u64> {
    event["response"]["usage"]["input_tokens"].as_u64()
}

fn reported(error: &Value) -> DecodeError {
    let is_transient = matches!(text_of(error, "code"), "server_error" | "rate_limit_exceeded" | "server_is_overloaded");
    DecodeError::Reported { message: text_of(error, "message").to_owned(), is_transient }
}
