//! Gemini: chunks that are each a whole answer so far as to shape, with the usage up to there.

use super::{Make, pieces};
use crate::script::{Input, Part, Stop};
use serde_json::{Value, json};

impl Make<'_> {
    fn gemini_usage(&self, done: bool) -> Value {
        let usage = &self.answer.usage;
        let prompt = usage.input + usage.cache_read + usage.cache_write;
        let mut value = json!({"promptTokenCount": prompt, "totalTokenCount": prompt});
        if usage.cache_read > 0 {
            value["cachedContentTokenCount"] = json!(usage.cache_read);
        }
        if done {
            value["candidatesTokenCount"] = json!(usage.output.saturating_sub(usage.reasoning));
            value["totalTokenCount"] = json!(prompt + usage.output);
            if usage.reasoning > 0 {
                value["thoughtsTokenCount"] = json!(usage.reasoning);
            }
        }
        value
    }

    fn gemini_part(&self, index: usize, part: &Part) -> Option<Value> {
        Some(match part {
            Part::Say(text) => json!({"text": text}),
            Part::Think(text) => json!({"text": text, "thought": true}),
            Part::Call(called) => {
                let args = match &called.input {
                    Input::Json(input) => input.clone(),
                    Input::Text(text) => json!({"input": text}),
                };
                json!({"functionCall": {"id": self.id("call_", index), "name": called.tool, "args": args}, "thoughtSignature": self.id("sig", index)})
            }
            Part::Delay(_) => return None,
        })
    }

    fn gemini_chunk(&self, parts: Vec<Value>, done: bool) -> Value {
        let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
        if done {
            candidate["finishReason"] = json!(match self.answer.stop {
                Some(Stop::Length) => "MAX_TOKENS",
                Some(Stop::Refusal) => "SAFETY",
                None => "STOP",
            });
        }
        json!({"candidates": [candidate], "usageMetadata": self.gemini_usage(done), "modelVersion": self.model, "responseId": self.id("", 0)})
    }

    pub(super) fn gemini(&self) -> Value {
        let parts = self.parts().iter().enumerate().filter_map(|(index, part)| self.gemini_part(index, part)).collect();
        self.gemini_chunk(parts, true)
    }

    /// As events, or as the array that comes without `alt=sse`.
    pub(super) fn gemini_events(&mut self, events: bool) {
        let mut first = true;
        let mut send = |make: &mut Self, chunk: Value| {
            if events {
                make.raw(format!("data: {chunk}\r\n\r\n"));
            } else {
                let open = if std::mem::take(&mut first) { "[" } else { ",\r\n" };
                make.raw(format!("{open}{chunk}"));
            }
        };
        for (index, part) in self.parts().iter().enumerate() {
            match part {
                Part::Delay(ms) => self.wait_ms += ms,
                Part::Say(text) | Part::Think(text) => {
                    for piece in pieces(text) {
                        let piece = if matches!(part, Part::Say(_)) { Part::Say(piece.to_owned()) } else { Part::Think(piece.to_owned()) };
                        let chunk = self.gemini_chunk(self.gemini_part(index, &piece).into_iter().collect(), false);
                        send(self, chunk);
                    }
                }
                Part::Call(_) => {
                    let chunk = self.gemini_chunk(self.gemini_part(index, part).into_iter().collect(), false);
                    send(self, chunk);
                }
            }
        }
        let last = self.gemini_chunk(vec![json!({"text": ""})], true);
        send(self, last);
        if !events {
            self.raw("]".to_owned());
        }
    }
}
