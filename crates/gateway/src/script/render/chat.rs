//! OpenAI Chat Completions: one choice that grows, then its usage if asked for, then `[DONE]`.

use super::{CREATED_S, Make, pieces};
use crate::script::{Part, Stop};
use serde_json::{Map, Value, json};

impl Make<'_> {
    fn chat_usage(&self) -> Value {
        let usage = &self.answer.usage;
        let prompt = usage.input + usage.cache_read + usage.cache_write;
        json!({
            "prompt_tokens": prompt,
            "completion_tokens": usage.output,
            "total_tokens": prompt + usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        })
    }

    fn chat_stop(&self) -> &'static str {
        match self.answer.stop {
            Some(Stop::Length) => "length",
            Some(Stop::Refusal) => "content_filter",
            None if self.calls() => "tool_calls",
            None => "stop",
        }
    }

    fn chat_joined(&self, pick: fn(&Part) -> Option<&str>) -> Option<String> {
        let texts: Vec<&str> = self.answer.parts.iter().filter_map(pick).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    pub(super) fn chat(&self) -> Value {
        let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
        message.insert("content".to_owned(), json!(self.chat_joined(|part| if let Part::Say(text) = part { Some(text) } else { None })));
        if let Some(thought) = self.chat_joined(|part| if let Part::Think(text) = part { Some(text) } else { None }) {
            message.insert("reasoning_content".to_owned(), json!(thought));
        }
        let calls: Vec<Value> = self
            .answer
            .parts
            .iter()
            .enumerate()
            .filter_map(|(index, part)| {
                let Part::Call(called) = part else { return None };
                let function = json!({"name": called.tool, "arguments": called.input.text()});
                Some(json!({"id": self.id("call_", index), "type": "function", "function": function}))
            })
            .collect();
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), json!(calls));
        }
        json!({
            "id": self.id("chatcmpl-", 0),
            "object": "chat.completion",
            "created": CREATED_S,
            "model": self.model,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": self.chat_stop()}],
            "usage": self.chat_usage(),
        })
    }

    fn chat_chunk(&mut self, choices: Value, usage: Option<Value>) {
        let mut chunk = json!({
            "id": self.id("chatcmpl-", 0), "object": "chat.completion.chunk", "created": CREATED_S, "model": self.model, "choices": choices,
        });
        if self.usage_asked {
            chunk["usage"] = usage.unwrap_or_default();
        }
        self.data(&chunk);
    }

    fn chat_delta(&mut self, delta: Value) {
        self.chat_chunk(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]), None);
    }

    pub(super) fn chat_events(&mut self) {
        self.chat_delta(json!({"role": "assistant", "content": ""}));
        let (mut calls, mut said) = (0, 0);
        for (index, part) in self.parts().iter().enumerate() {
            match part {
                Part::Delay(ms) => self.wait_ms += ms,
                Part::Say(text) => {
                    let text = if said > 0 { format!("\n{text}") } else { text.clone() };
                    said += 1;
                    pieces(&text).iter().for_each(|text| self.chat_delta(json!({"content": text})));
                }
                Part::Think(text) => pieces(text).iter().for_each(|text| self.chat_delta(json!({"reasoning_content": text}))),
                Part::Call(called) => {
                    let function = json!({"name": called.tool, "arguments": ""});
                    let id = self.id("call_", index);
                    self.chat_delta(json!({"tool_calls": [{"index": calls, "id": id, "type": "function", "function": function}]}));
                    for text in pieces(&called.input.text()) {
                        self.chat_delta(json!({"tool_calls": [{"index": calls, "function": {"arguments": text}}]}));
                    }
                    calls += 1;
                }
            }
        }
        self.chat_chunk(json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": self.chat_stop()}]), None);
        if self.usage_asked {
            let usage = self.chat_usage();
            self.chat_chunk(json!([]), Some(usage));
        }
        self.raw("data: [DONE]\n\n".to_owned());
    }
}
