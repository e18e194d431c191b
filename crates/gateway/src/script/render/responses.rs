//! OpenAI Responses: items that are added, grow and are done, each event numbered.

use super::{CREATED_S, Make, pieces};
use crate::script::{Input, Part, Stop};
use serde_json::{Value, json};

impl Make<'_> {
    fn responses_item(&self, index: usize, part: &Part) -> Option<Value> {
        Some(match part {
            Part::Say(text) => json!({
                "type": "message", "id": self.id("msg_", index), "status": "completed", "role": "assistant",
                "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
            }),
            Part::Think(text) => {
                json!({"type": "reasoning", "id": self.id("rs_", index), "summary": [{"type": "summary_text", "text": text}]})
            }
            Part::Call(called) => match &called.input {
                Input::Json(input) => json!({
                    "type": "function_call", "id": self.id("fc_", index), "status": "completed", "call_id": self.id("call_", index),
                    "name": called.tool, "arguments": input.to_string(),
                }),
                Input::Text(text) => json!({
                    "type": "custom_tool_call", "id": self.id("ctc_", index), "status": "completed", "call_id": self.id("call_", index),
                    "name": called.tool, "input": text,
                }),
            },
            Part::Delay(_) => return None,
        })
    }

    pub(super) fn responses(&self) -> Value {
        let output: Vec<Value> = self.parts().iter().enumerate().filter_map(|(index, part)| self.responses_item(index, part)).collect();
        let usage = &self.answer.usage;
        let input = usage.input + usage.cache_read + usage.cache_write;
        let (status, incomplete) = match self.answer.stop {
            Some(Stop::Length) => ("incomplete", json!({"reason": "max_output_tokens"})),
            Some(Stop::Refusal) => ("incomplete", json!({"reason": "content_filter"})),
            None => ("completed", Value::Null),
        };
        json!({
            "id": self.id("resp_", 0),
            "object": "response",
            "created_at": CREATED_S,
            "status": status,
            "error": null,
            "incomplete_details": incomplete,
            "model": self.model,
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

    pub(super) fn responses_events(&mut self) {
        let whole = self.responses();
        let mut begun = whole.clone();
        begun["status"] = json!("in_progress");
        begun["incomplete_details"] = Value::Null;
        begun["output"] = json!([]);
        begun["usage"] = Value::Null;
        let mut number = 0;
        let mut events =
            vec![json!({"type": "response.created", "response": begun}), json!({"type": "response.in_progress", "response": begun})];
        let mut place = 0;
        for (index, part) in self.parts().iter().enumerate() {
            match self.responses_item(index, part) {
                Some(item) => {
                    events.extend(item_events(place, part, &item));
                    place += 1;
                }
                None => {
                    self.numbered(std::mem::take(&mut events), &mut number);
                    if let Part::Delay(ms) = part {
                        self.wait_ms += ms;
                    }
                }
            }
        }
        let end = if self.answer.stop.is_some() { "response.incomplete" } else { "response.completed" };
        events.push(json!({"type": end, "response": whole}));
        self.numbered(events, &mut number);
    }

    fn numbered(&mut self, events: Vec<Value>, number: &mut u64) {
        for mut event in events {
            event["sequence_number"] = json!(*number);
            *number += 1;
            self.event(&event);
        }
    }
}

fn item_events(place: usize, part: &Part, item: &Value) -> Vec<Value> {
    let (id, mut begun) = (item["id"].clone(), item.clone());
    if begun.get("status").is_some() {
        begun["status"] = json!("in_progress");
    }
    let on = |kind: &str, more: Value| {
        let mut event = json!({"type": kind, "item_id": id, "output_index": place});
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
        Part::Say(text) => {
            begun["content"] = json!([]);
            let at = json!({"content_index": 0});
            let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
            let mut events = vec![on("response.content_part.added", json!({"content_index": 0, "part": part("")}))];
            events.extend(grow("response.output_text.delta", text, &at));
            events.push(on("response.output_text.done", json!({"content_index": 0, "text": text})));
            events.push(on("response.content_part.done", json!({"content_index": 0, "part": part(text)})));
            events
        }
        Part::Think(text) => {
            begun["summary"] = json!([]);
            let at = json!({"summary_index": 0});
            let part = |text: &str| json!({"type": "summary_text", "text": text});
            let mut events = vec![on("response.reasoning_summary_part.added", json!({"summary_index": 0, "part": part("")}))];
            events.extend(grow("response.reasoning_summary_text.delta", text, &at));
            events.push(on("response.reasoning_summary_text.done", json!({"summary_index": 0, "text": text})));
            events.push(on("response.reasoning_summary_part.done", json!({"summary_index": 0, "part": part(text)})));
            events
        }
        Part::Call(called) => {
            let (kind, field) = match &called.input {
                Input::Json(_) => ("response.function_call_arguments", "arguments"),
                Input::Text(_) => ("response.custom_tool_call_input", "input"),
            };
            begun[field] = json!("");
            let text = called.input.text();
            let mut events = grow(&format!("{kind}.delta"), &text, &json!({}));
            let mut done = on(&format!("{kind}.done"), json!({}));
            done[field] = json!(text);
            events.push(done);
            events
        }
        Part::Delay(_) => Vec::new(),
    };
    let mut events = vec![json!({"type": "response.output_item.added", "output_index": place, "item": begun})];
    events.extend(middle);
    events.push(json!({"type": "response.output_item.done", "output_index": place, "item": item}));
    events
}
