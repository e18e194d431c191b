//! Anthropic Messages: blocks that start, grow and stop.

use super::{Make, pieces};
use crate::script::{Part, Stop};
use serde_json::{Value, json};

impl Make<'_> {
    fn anthropic_usage(&self) -> Value {
        let usage = &self.answer.usage;
        json!({
            "input_tokens": usage.input,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "output_tokens": usage.output,
            "service_tier": "standard",
        })
    }

    fn anthropic_stop(&self) -> &'static str {
        match self.answer.stop {
            Some(Stop::Length) => "max_tokens",
            Some(Stop::Refusal) => "refusal",
            None if self.calls() => "tool_use",
            None => "end_turn",
        }
    }

    fn anthropic_block(&self, index: usize, part: &Part) -> Option<Value> {
        Some(match part {
            Part::Say(text) => json!({"type": "text", "text": text}),
            Part::Think(text) => json!({"type": "thinking", "thinking": text, "signature": self.id("sig", index)}),
            Part::Call(called) => match &called.input {
                crate::script::Input::Json(input) => {
                    json!({"type": "tool_use", "id": self.id("toolu_01", index), "name": called.tool, "input": input})
                }
                crate::script::Input::Text(text) => {
                    json!({"type": "tool_use", "id": self.id("toolu_01", index), "name": called.tool, "input": {"input": text}})
                }
            },
            Part::Delay(_) => return None,
        })
    }

    pub(super) fn anthropic(&self) -> Value {
        let content: Vec<Value> = self.parts().iter().enumerate().filter_map(|(index, part)| self.anthropic_block(index, part)).collect();
        json!({
            "id": self.id("msg_01", 0),
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": self.anthropic_stop(),
            "stop_sequence": null,
            "usage": self.anthropic_usage(),
        })
    }

    pub(super) fn anthropic_events(&mut self) {
        let mut message = self.anthropic();
        message["content"] = json!([]);
        message["stop_reason"] = Value::Null;
        message["usage"]["output_tokens"] = json!(self.answer.usage.output.min(1));
        self.event(&json!({"type": "message_start", "message": message}));
        self.event(&json!({"type": "ping"}));
        let mut block_index = 0;
        for (index, part) in self.parts().iter().enumerate() {
            let Some(block) = self.anthropic_block(index, part) else {
                if let Part::Delay(ms) = part {
                    self.wait_ms += ms;
                }
                continue;
            };
            let (empty, deltas): (Value, Vec<Value>) = match part {
                Part::Say(text) => {
                    let deltas = pieces(text).iter().map(|text| json!({"type": "text_delta", "text": text})).collect();
                    (json!({"type": "text", "text": ""}), deltas)
                }
                Part::Think(text) => {
                    let mut deltas: Vec<Value> =
                        pieces(text).iter().map(|text| json!({"type": "thinking_delta", "thinking": text})).collect();
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
            self.event(&json!({"type": "content_block_start", "index": block_index, "content_block": empty}));
            for delta in deltas {
                self.event(&json!({"type": "content_block_delta", "index": block_index, "delta": delta}));
            }
            self.event(&json!({"type": "content_block_stop", "index": block_index}));
            block_index += 1;
        }
        let delta = json!({"stop_reason": self.anthropic_stop(), "stop_sequence": null});
        self.event(&json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": self.answer.usage.output}}));
        self.event(&json!({"type": "message_stop"}));
    }
}
