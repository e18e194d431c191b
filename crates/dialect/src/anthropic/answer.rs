//! A Messages answer, rendered and decoded: blocks that start, grow and stop.

use super::DIALECT;
use crate::answer::{AnswerPart, AnswerWriter, pieces};
use crate::conversation::{TurnPart, arguments_text, text_of};
use crate::decoder::{DecodeError, DecodedAnswer, EventDecoder, StopReason};
use serde_json::{Value, json};

fn stop_reason(writer: &AnswerWriter<'_>) -> &'static str {
    match writer.answer.stop {
        StopReason::Length => "max_tokens",
        StopReason::Withheld(_) => "refusal",
        StopReason::EndTurn if writer.has_calls() => "tool_use",
        StopReason::EndTurn => "end_turn",
    }
}

fn block(writer: &AnswerWriter<'_>, index: usize, part: &AnswerPart) -> Option<Value> {
    Some(match part {
        AnswerPart::Text(text) => json!({"type": "text", "text": text}),
        AnswerPart::Thought(text) => json!({"type": "thinking", "thinking": text, "signature": writer.id("sig", index)}),
        AnswerPart::Call(call) => {
            json!({"type": "tool_use", "id": writer.id("toolu_01", index), "name": call.tool, "input": call.input.json()})
        }
        AnswerPart::Delay(_) => return None,
    })
}

pub(super) fn whole(writer: &AnswerWriter<'_>) -> Value {
    let usage = &writer.answer.usage;
    let parts = writer.answer.parts.iter().enumerate();
    let content: Vec<Value> = parts.filter_map(|(index, part)| block(writer, index, part)).collect();
    json!({
        "id": writer.id("msg_01", 0),
        "type": "message",
        "role": "assistant",
        "model": writer.model,
        "content": content,
        "stop_reason": stop_reason(writer),
        "stop_sequence": null,
        "usage": {
            "input_tokens": usage.input,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "output_tokens": usage.output,
            "service_tier": "standard",
        },
    })
}

pub(super) fn stream(writer: &mut AnswerWriter<'_>) {
    let answer = writer.answer;
    let mut message = whole(writer);
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    message["usage"]["output_tokens"] = json!(answer.usage.output.min(1));
    writer.event(&json!({"type": "message_start", "message": message}));
    writer.event(&json!({"type": "ping"}));
    let mut block_index = 0;
    for (index, part) in answer.parts.iter().enumerate() {
        let Some(block) = block(writer, index, part) else {
            if let AnswerPart::Delay(ms) = part {
                writer.wait_ms += ms;
            }
            continue;
        };
        let (empty, deltas): (Value, Vec<Value>) = match part {
            AnswerPart::Text(text) => {
                let deltas = pieces(text).iter().map(|text| json!({"type": "text_delta", "text": text})).collect();
                (json!({"type": "text", "text": ""}), deltas)
            }
            AnswerPart::Thought(text) => {
                let mut deltas: Vec<Value> = pieces(text).iter().map(|text| json!({"type": "thinking_delta", "thinking": text})).collect();
                deltas.push(json!({"type": "signature_delta", "signature": block["signature"]}));
                (json!({"type": "thinking", "thinking": "", "signature": ""}), deltas)
            }
            _ => {
                let input = block["input"].to_string();
                let mut deltas = vec![json!({"type": "input_json_delta", "partial_json": ""})];
                deltas.extend(pieces(&input).iter().map(|text| json!({"type": "input_json_delta", "partial_json": text})));
                (json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}), deltas)
            }
        };
        writer.event(&json!({"type": "content_block_start", "index": block_index, "content_block": empty}));
        for delta in deltas {
            writer.event(&json!({"type": "content_block_delta", "index": block_index, "delta": delta}));
        }
        writer.event(&json!({"type": "content_block_stop", "index": block_index}));
        block_index += 1;
    }
    let delta = json!({"stop_reason": stop_reason(writer), "stop_sequence": null});
    writer.event(&json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": answer.usage.output}}));
    writer.event(&json!({"type": "message_stop"}));
}

#[derive(Default)]
pub(super) struct AnthropicDecoder {
    /// Each block as it started, and what it grew to.
    blocks: Vec<(Value, String)>,
    input_tokens: Option<u64>,
    stop: Option<String>,
    has_ended: bool,
}

impl EventDecoder for AnthropicDecoder {
    fn push(&mut self, event: Value, called: &mut String) -> Result<String, DecodeError> {
        match text_of(&event, "type") {
            "message_start" => {
                let usage = &event["message"]["usage"];
                let count = |key: &str| usage[key].as_u64().unwrap_or(0);
                let cached = count("cache_read_input_tokens").saturating_add(count("cache_creation_input_tokens"));
                self.input_tokens = Some(count("input_tokens").saturating_add(cached));
            }
            "content_block_start" => {
                let block = event["content_block"].clone();
                if block["input"].as_object().is_some_and(|input| !input.is_empty()) {
                    called.push_str(&arguments_text(&block["input"]));
                }
                let text = text_of(&block, "text").to_owned();
                self.blocks.push((block, text.clone()));
                return Ok(text);
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                let Some((block, grown)) = self.blocks.last_mut() else {
                    return Err(DecodeError::Malformed("a delta of no block".into()));
                };
                match text_of(delta, "type") {
                    "text_delta" => {
                        grown.push_str(text_of(delta, "text"));
                        return Ok(text_of(delta, "text").to_owned());
                    }
                    "input_json_delta" => {
                        grown.push_str(text_of(delta, "partial_json"));
                        called.push_str(text_of(delta, "partial_json"));
                    }
                    "thinking_delta" => grown.push_str(text_of(delta, "thinking")),
                    "signature_delta" => block["signature"] = delta["signature"].clone(),
                    _ => {}
                }
            }
            "message_delta" => self.stop = event["delta"]["stop_reason"].as_str().map(str::to_owned).or(self.stop.take()),
            "message_stop" => self.has_ended = true,
            "error" => {
                let is_transient = matches!(text_of(&event["error"], "type"), "overloaded_error" | "api_error" | "rate_limit_error");
                return Err(DecodeError::Reported { message: text_of(&event["error"], "message").to_owned(), is_transient });
            }
            _ => {}
        }
        Ok(String::new())
    }

    fn finish(self: Box<Self>) -> Option<DecodedAnswer> {
        let stop = match self.stop.as_deref()? {
            "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
            "refusal" => StopReason::Withheld("the model's own filter stopped it".into()),
            _ => StopReason::EndTurn,
        };
        let parts = self.blocks.into_iter().filter_map(|(mut block, grown)| match text_of(&block, "type") {
            "text" => (!grown.is_empty()).then_some(TurnPart::Text(grown)),
            // A call that was not streamed has its whole input in the block itself.
            "tool_use" if grown.is_empty() => {
                Some(TurnPart::call(text_of(&block, "id"), text_of(&block, "name"), &arguments_text(&block["input"])))
            }
            "tool_use" => Some(TurnPart::call(text_of(&block, "id"), text_of(&block, "name"), &grown)),
            "thinking" => {
                block["thinking"] = Value::String(grown);
                Some(TurnPart::raw(DIALECT, block))
            }
            "redacted_thinking" => Some(TurnPart::raw(DIALECT, block)),
            _ => None,
        });
        let parts = parts.collect();
        self.has_ended.then_some(DecodedAnswer { parts, stop, input_tokens: self.input_tokens })
    }
}
