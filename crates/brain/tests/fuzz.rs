//! No answer of a server makes the built-in brain panic or go on for ever, and no memory does; what it keeps, it takes up again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at the first surprise")]

#[path = "../../testkit/fuzz/fuzz.rs"]
mod fuzz;

use brain::Dialect;
use brain::model::{Model, ModelFault, ModelInfo, ModelResponse, Purpose, ResponseBody, RetryClass};
use brain::{Brain, BrainInput, Brief, CallResult, Move, Native, ToolSpec};
use bytes::Bytes;
use serde_json::json;
use std::collections::VecDeque;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Requests until the server is gone for good, and moves that a brain may make of their answers.
const ASKED_MAX: u32 = 4;
const MOVES_MAX: usize = 2_000;

const ANSWER: &[&str] = &[
    "data: ",
    "\n\n",
    "\n",
    "\r\n",
    ": ping\n",
    "event: message_start\n",
    "[DONE]",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "\\u12",
    "null",
    "18446744073709551615",
    "-1",
    "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5}}}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"fs_read\",\"input\":{}}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"path\\\":1}\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"ä\\nb\"}}\n\n",
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"}}\n\n",
    "data: {\"type\":\"message_stop\"}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"fs_read\",\"arguments\":\"{\"}}\n\n",
    "data: {\"type\":\"response.output_text.delta\",\"delta\":\"word \"}\n\n",
    "data: {\"type\":\"response.completed\",\"response\":{}}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":4000000000,\"id\":\"c\",\"function\":{\"name\":\"fs_read\",\"arguments\":7}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"shell_run\",\"arguments\":\"{}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"word\"},{\"functionCall\":{\"name\":\"fs_read\",\"args\":[1]}}]}}]}\n\n",
    "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":0}}\n\n",
    "data: {\"error\":{\"message\":\"no\",\"code\":429}}\n\n",
];

/// Says the same text to everybody, and then no more.
struct Server {
    dialect: Dialect,
    text: String,
    asked: AtomicU32,
}

struct Pieces(VecDeque<Bytes>);

impl ResponseBody for Pieces {
    fn chunk(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<Bytes>, ModelFault>> + Send + '_>> {
        Box::pin(ready(Ok(self.0.pop_front())))
    }
}

impl Model for Server {
    fn info(&self, _: Purpose) -> ModelInfo {
        ModelInfo { dialect: self.dialect, model: "m".into(), context_tokens: 50_000, output_tokens_max: 8_000 }
    }

    fn send(&self, _: Purpose, _: String, body: Vec<u8>) -> Pin<Box<dyn Future<Output = Result<ModelResponse, ModelFault>> + Send + '_>> {
        assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok_and(|body| body.is_object()), "what it asks is a request");
        if self.asked.fetch_add(1, Ordering::Relaxed) >= ASKED_MAX {
            return Box::pin(ready(Err(ModelFault { what: "gone".into(), retry: RetryClass::Final, hint: None })));
        }
        let body = Box::new(Pieces(self.text.as_bytes().chunks(5).map(Bytes::copy_from_slice).collect()));
        Box::pin(ready(Ok(ModelResponse { status: 200, retry_after: None, is_final: false, body })))
    }
}

fn brain(dialect: Dialect, text: &str) -> Native {
    let tool = |name: &str| ToolSpec { name: name.into(), description: "Does it.".into(), input_schema: json!({"type": "object"}) };
    let brief = Brief { role: "worker".into(), tools: vec![tool("fs.read"), tool("shell.run")], ..Brief::default() };
    Native::new(Arc::new(Server { dialect, text: text.to_owned(), asked: AtomicU32::new(0) }), brief)
}

fn start(memory: Vec<Vec<u8>>) -> BrainInput {
    BrainInput::Start { prompt: "work".into(), settled: 0, resumed: !memory.is_empty(), memory }
}

/// The first move that is not a word; `None` when the brain gives up.
async fn act(brain: &mut Native, heard: BrainInput) -> Option<Move> {
    let mut next = brain.next(heard).await;
    for _ in 0..MOVES_MAX {
        match next {
            Ok(Move::Say(_)) => next = brain.next(BrainInput::Continue).await,
            other => return other.ok(),
        }
    }
    panic!("it talks without end")
}

/// Time that passes by itself: waiting between tries costs nothing.
fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(work);
}

#[test]
fn dialects() {
    fuzz::text("dialects", ANSWER, |text| {
        for dialect in Dialect::ALL {
            run(async {
                let mut first = brain(dialect, text);
                let mut next = act(&mut first, start(Vec::new())).await;
                let mut memory = Vec::new();
                for _ in 0..MOVES_MAX {
                    if let Some(keep) = first.checkpoint() {
                        if keep.replaces_all {
                            memory.clear();
                        }
                        memory.push(keep.bytes);
                    }
                    let Some(Move::Call(calls)) = next else { return };
                    // Killed here, it wants the same again.
                    let again = act(&mut brain(dialect, text), start(memory.clone())).await;
                    assert_eq!(again, Some(Move::Call(calls.clone())), "{dialect:?}");
                    let ends = calls.iter().map(|call| CallResult::Output { ok: true, value: call.input.clone() }).collect();
                    next = act(&mut first, BrainInput::Results(ends)).await;
                }
                panic!("it works without end");
            });
        }
    });
}

#[test]
fn memories() {
    fuzz::bytes("memories", |bytes| {
        let halves = bytes.split_at(bytes.len() / 2);
        for memory in [vec![bytes.to_vec()], vec![halves.0.to_vec(), halves.1.to_vec()]] {
            run(async {
                act(&mut brain(Dialect::Chat, ""), start(memory)).await;
            });
        }
    });
}
