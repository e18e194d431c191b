//! A model that says what it is told to, in each vendor's words.

use brain::Dialect;
use brain::model::{Model, ModelFault, ModelInfo, ModelResponse, ProviderName, Purpose, ResponseBody, RetryClass};
use brain::{Brain, BrainInput, Brief, CallResult, Move, Native, ToolCall, ToolSpec};
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// One answer of the model.
pub enum Line {
    Says(&'static str, Vec<(&'static str, Value)>),
    Status(u16, &'static str),
    /// A stream that stops without an end.
    Cut(&'static str),
    /// Out of room in the middle.
    Length(&'static str),
    Waits(u64),
    /// Whatever bytes.
    Raw(String),
    /// An error that stays one.
    Final(u16, &'static str),
    /// Refused on its way, before any model saw it.
    Refused(u16, &'static str),
    /// Its host took no connection.
    Unreachable,
    /// An error, and the seconds after which to come again.
    After(u16, u64),
    /// The vendor's filter stops it.
    Withheld,
    /// Speaks as far as that event, and goes on when it is let.
    Held(&'static str, usize),
}

pub struct FakeModel {
    dialect: Dialect,
    pub context_tokens: u64,
    pub summary_tokens: u64,
    /// What the vendor counts as one token.
    pub token_bytes: usize,
    lines: Mutex<VecDeque<Line>>,
    /// Answers to requests for a summary, before those in the row.
    pub summaries: Mutex<VecDeque<Line>>,
    pub asked: Mutex<Vec<(Purpose, String, Value)>>,
    /// When each request came.
    pub times: Mutex<Vec<Instant>>,
    /// Lets go of what is held.
    pub gate: Arc<Semaphore>,
}

impl FakeModel {
    pub fn new(dialect: Dialect, lines: Vec<Line>) -> Arc<FakeModel> {
        Arc::new(FakeModel {
            dialect,
            context_tokens: 100_000,
            summary_tokens: 100_000,
            token_bytes: 4,
            lines: Mutex::new(lines.into()),
            summaries: Mutex::default(),
            asked: Mutex::default(),
            times: Mutex::default(),
            gate: Arc::new(Semaphore::new(0)),
        })
    }

    /// Requests for this purpose.
    pub fn bodies_for(&self, wanted: Purpose) -> Vec<Value> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(purpose, ..)| *purpose == wanted).map(|(.., body)| body.clone()).collect()
    }

    pub fn bodies(&self) -> Vec<Value> {
        self.asked.lock().unwrap().iter().map(|(_, _, body)| body.clone()).collect()
    }
}

struct Pieces {
    rest: VecDeque<Bytes>,
    /// So many pieces come by themselves.
    free: usize,
    gate: Arc<Semaphore>,
}

impl ResponseBody for Pieces {
    fn chunk(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<Bytes>, ModelFault>> + Send + '_>> {
        Box::pin(async move {
            if self.free == 0 {
                self.gate.acquire().await.unwrap().forget();
            }
            // Let go of once, it flows.
            self.free = self.free.checked_sub(1).unwrap_or(usize::MAX);
            Ok(self.rest.pop_front())
        })
    }
}

impl Model for FakeModel {
    fn info(&self, purpose: Purpose) -> ModelInfo {
        let context_tokens = if purpose == Purpose::Summary { self.summary_tokens } else { self.context_tokens };
        ModelInfo { dialect: self.dialect, model: "m-1".into(), context_tokens, output_tokens_max: 8_000 }
    }

    fn send(
        &self,
        purpose: Purpose,
        path: String,
        body: Vec<u8>,
    ) -> Pin<Box<dyn Future<Output = Result<ModelResponse, ModelFault>> + Send + '_>> {
        let tokens = body.len() / self.token_bytes;
        self.asked.lock().unwrap().push((purpose, path, serde_json::from_slice(&body).unwrap()));
        self.times.lock().unwrap().push(Instant::now());
        let summary = (purpose == Purpose::Summary).then(|| self.summaries.lock().unwrap().pop_front()).flatten();
        let line = summary.or_else(|| self.lines.lock().unwrap().pop_front()).expect("the model is at its end");
        let (mut retry_after, mut settled, mut free) = (None, false, usize::MAX);
        let is_unreachable = matches!(line, Line::Unreachable);
        let is_refusal = is_unreachable || matches!(line, Line::Refused(..));
        let (status, body) = match line {
            Line::Says(text, calls) => (200, events(self.dialect, text, &calls, "end", tokens)),
            Line::Length(text) => (200, events(self.dialect, text, &[], "length", tokens)),
            Line::Cut(text) => (200, events(self.dialect, text, &[], "cut", tokens)),
            Line::Status(status, body) => (status, body.to_owned()),
            Line::Raw(body) => (200, body),
            Line::Withheld => (200, events(self.dialect, "I", &[], "withheld", tokens)),
            Line::Unreachable => (503, r#"{"error": {"message": "`p` cannot be reached"}}"#.to_owned()),
            Line::Final(status, body) | Line::Refused(status, body) => {
                settled = true;
                (status, body.to_owned())
            }
            Line::After(status, seconds) => {
                retry_after = Some(Duration::from_secs(seconds));
                (status, r#"{"error": {"message": "slow down"}}"#.to_owned())
            }
            Line::Held(text, events_free) => {
                free = events_free;
                (200, events(self.dialect, text, &[], "end", tokens))
            }
            Line::Waits(review) => {
                let fault = ModelFault { what: "over budget".into(), retry: RetryClass::NeedsReview(world::ReviewId(review)), hint: None };
                return Box::pin(std::future::ready(Err(fault)));
            }
        };
        // Seven bytes a piece: no event comes whole. What is held comes event by event.
        let rest = match free {
            usize::MAX => body.as_bytes().chunks(7).map(Bytes::copy_from_slice).collect(),
            _ => body.split_inclusive("\n\n").map(|event| Bytes::copy_from_slice(event.as_bytes())).collect(),
        };
        let body = Box::new(Pieces { rest, free, gate: self.gate.clone() });
        let (is_final, provider) = (settled, Some(ProviderName { name: "p".into(), key_place: Some("the file `k`".into()) }));
        Box::pin(std::future::ready(Ok(ModelResponse { status, retry_after, is_final, is_refusal, is_unreachable, provider, body })))
    }
}

/// An answer as the vendor streams it.
fn events(dialect: Dialect, text: &str, calls: &[(&str, Value)], end: &str, tokens: usize) -> String {
    let mut events = Vec::new();
    match dialect {
        Dialect::Anthropic => {
            events.push(json!({"type": "message_start", "message": {"usage": {"input_tokens": tokens - 2, "cache_read_input_tokens": 2}}}));
            events.push(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}));
            events.extend(
                text.split_inclusive(' ')
                    .map(|word| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}})),
            );
            for (n, (tool, input)) in calls.iter().enumerate() {
                events.push(json!({"type": "content_block_start", "content_block": {"type": "tool_use", "id": format!("toolu_{n}"), "name": tool, "input": {}}}));
                let input = input.to_string();
                let (a, b) = input.split_at(input.len() / 2);
                events.extend(
                    [a, b].map(|half| json!({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": half}})),
                );
            }
            if end != "cut" {
                let reason = if end == "length" {
                    "max_tokens"
                } else if end == "withheld" {
                    "refusal"
                } else if calls.is_empty() {
                    "end_turn"
                } else {
                    "tool_use"
                };
                events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}));
                events.push(json!({"type": "message_stop"}));
            }
        }
        Dialect::Responses => {
            events.extend(text.split_inclusive(' ').map(|word| json!({"type": "response.output_text.delta", "delta": word})));
            if !text.is_empty() {
                let item = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
                events.push(json!({"type": "response.output_item.done", "item": item}));
            }
            for (n, (tool, input)) in calls.iter().enumerate() {
                let item = json!({"type": "function_call", "call_id": format!("call_{n}"), "name": tool, "arguments": input.to_string()});
                events.push(json!({"type": "response.output_item.done", "item": item}));
            }
            let reason = if end == "withheld" { "content_filter" } else { "max_output_tokens" };
            let usage = json!({"usage": {"input_tokens": tokens}, "incomplete_details": {"reason": reason}});
            match end {
                "end" => events.push(json!({"type": "response.completed", "response": usage})),
                "length" | "withheld" => events.push(json!({"type": "response.incomplete", "response": usage})),
                _ => {}
            }
        }
        Dialect::Chat => {
            events.extend(text.split_inclusive(' ').map(|word| json!({"choices": [{"delta": {"content": word}}]})));
            for (n, (tool, input)) in calls.iter().enumerate() {
                events.push(json!({"choices": [{"delta": {"tool_calls": [{"index": n, "id": format!("call_{n}"), "function": {"name": tool, "arguments": ""}}]}}]}));
                events.push(json!({"choices": [{"delta": {"tool_calls": [{"index": n, "function": {"arguments": input.to_string()}}]}}]}));
            }
            match end {
                "end" => events.push(json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})),
                "length" => events.push(json!({"choices": [{"delta": {}, "finish_reason": "length"}]})),
                "withheld" => events.push(json!({"choices": [{"delta": {}, "finish_reason": "content_filter"}]})),
                _ => {}
            }
            events.push(json!({"choices": [], "usage": {"prompt_tokens": tokens}}));
        }
        Dialect::Gemini => {
            events.extend(text.split_inclusive(' ').map(|word| json!({"candidates": [{"content": {"parts": [{"text": word}]}}]})));
            let parts: Vec<Value> = calls.iter().map(|(tool, input)| json!({"functionCall": {"name": tool, "args": input}})).collect();
            let reason = match end {
                "end" => json!("STOP"),
                "length" => json!("MAX_TOKENS"),
                "withheld" => json!("SAFETY"),
                _ => Value::Null,
            };
            events.push(json!({"candidates": [{"content": {"parts": parts}, "finishReason": reason}], "usageMetadata": {"promptTokenCount": tokens}}));
        }
    }
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

pub fn brief() -> Brief {
    let tool = |name: &str| ToolSpec { name: name.into(), description: "Does it.".into(), input_schema: json!({"type": "object"}) };
    Brief { role: "worker".into(), may_change: true, tools: vec![tool("fs.read"), tool("shell.run")], ..Brief::default() }
}

pub fn start(memory: Vec<Vec<u8>>) -> BrainInput {
    BrainInput::Start {
        prompt: "fix the bug".into(),
        settled: 0,
        resumed: !memory.is_empty(),
        memory,
        further: brain::FurtherTurns::default(),
    }
}

pub fn wish(tool: &str, input: Value) -> ToolCall {
    ToolCall { tool: tool.into(), input }
}

/// The next move that is not a word.
pub async fn act(brain: &mut Native, heard: BrainInput) -> (Vec<String>, Move) {
    let mut said = Vec::new();
    let mut next = brain.next(heard).await.unwrap();
    while let Move::Say(text) = next {
        said.push(text);
        next = brain.next(BrainInput::Continue).await.unwrap();
    }
    (said, next)
}

pub fn output(text: &str) -> CallResult {
    CallResult::Output { ok: true, value: json!(text) }
}

/// The system prompt of a request.
pub fn system(dialect: Dialect, body: &Value) -> String {
    let system = match dialect {
        Dialect::Anthropic => &body["system"][0]["text"],
        Dialect::Responses => &body["instructions"],
        Dialect::Chat => &body["messages"][0]["content"],
        Dialect::Gemini => &body["systemInstruction"]["parts"][0]["text"],
    };
    system.as_str().unwrap().to_owned()
}

/// What a request may have for an answer.
pub fn output_max(dialect: Dialect, body: &Value) -> u64 {
    let max = match dialect {
        Dialect::Anthropic => &body["max_tokens"],
        Dialect::Responses => &body["max_output_tokens"],
        Dialect::Chat => &body["max_tokens"],
        Dialect::Gemini => &body["generationConfig"]["maxOutputTokens"],
    };
    max.as_u64().unwrap()
}
