//! The built-in brain against a model that says what it is told to, in each vendor's words.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use brain::model::{Answer, Body, Card, Model, ModelFault, Purpose, Speech, Then};
use brain::{Brain, Brief, Ended, Heard, Move, Native, ToolCard, Wish};
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

const SPEECHES: [Speech; 4] = [Speech::Messages, Speech::Responses, Speech::Chat, Speech::Gemini];

/// One answer of the tape.
enum Line {
    Says(&'static str, Vec<(&'static str, Value)>),
    Status(u16, &'static str),
    /// A stream that stops without an end.
    Cut(&'static str),
    /// Out of room in the middle.
    Length(&'static str),
    Waits(u64),
}

struct Tape {
    speech: Speech,
    context_tokens: u64,
    lines: Mutex<VecDeque<Line>>,
    asked: Mutex<Vec<(Purpose, String, Value)>>,
}

impl Tape {
    fn new(speech: Speech, lines: Vec<Line>) -> Arc<Tape> {
        Arc::new(Tape { speech, context_tokens: 100_000, lines: Mutex::new(lines.into()), asked: Mutex::default() })
    }

    fn bodies(&self) -> Vec<Value> {
        self.asked.lock().unwrap().iter().map(|(_, _, body)| body.clone()).collect()
    }
}

struct Pieces(VecDeque<Bytes>);

impl Body for Pieces {
    fn piece(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<Bytes>, ModelFault>> + Send + '_>> {
        Box::pin(std::future::ready(Ok(self.0.pop_front())))
    }
}

impl Model for Tape {
    fn card(&self, _: Purpose) -> Card {
        Card { speech: self.speech, model: "m-1".into(), context_tokens: self.context_tokens, output_tokens_max: 8_000 }
    }

    fn ask(&self, purpose: Purpose, path: String, body: Vec<u8>) -> Pin<Box<dyn Future<Output = Result<Answer, ModelFault>> + Send + '_>> {
        let tokens = body.len() / 4;
        self.asked.lock().unwrap().push((purpose, path, serde_json::from_slice(&body).unwrap()));
        let line = self.lines.lock().unwrap().pop_front().expect("the tape is at its end");
        let (status, body) = match line {
            Line::Says(text, calls) => (200, events(self.speech, text, &calls, "end", tokens)),
            Line::Length(text) => (200, events(self.speech, text, &[], "length", tokens)),
            Line::Cut(text) => (200, events(self.speech, text, &[], "cut", tokens)),
            Line::Status(status, body) => (status, body.to_owned()),
            Line::Waits(review) => {
                let fault = ModelFault { what: "over budget".into(), then: Then::Wait(world::ReviewId(review)), hint: None };
                return Box::pin(std::future::ready(Err(fault)));
            }
        };
        // Seven bytes a piece: no event comes whole.
        let pieces = body.as_bytes().chunks(7).map(Bytes::copy_from_slice).collect();
        Box::pin(std::future::ready(Ok(Answer { status, retry_after: None, body: Box::new(Pieces(pieces)) })))
    }
}

/// An answer as the vendor streams it.
fn events(speech: Speech, text: &str, calls: &[(&str, Value)], end: &str, tokens: usize) -> String {
    let mut events = Vec::new();
    match speech {
        Speech::Messages => {
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
                } else if calls.is_empty() {
                    "end_turn"
                } else {
                    "tool_use"
                };
                events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}));
                events.push(json!({"type": "message_stop"}));
            }
        }
        Speech::Responses => {
            events.extend(text.split_inclusive(' ').map(|word| json!({"type": "response.output_text.delta", "delta": word})));
            if !text.is_empty() {
                let item = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
                events.push(json!({"type": "response.output_item.done", "item": item}));
            }
            for (n, (tool, input)) in calls.iter().enumerate() {
                let item = json!({"type": "function_call", "call_id": format!("call_{n}"), "name": tool, "arguments": input.to_string()});
                events.push(json!({"type": "response.output_item.done", "item": item}));
            }
            let usage = json!({"usage": {"input_tokens": tokens}, "incomplete_details": {"reason": "max_output_tokens"}});
            match end {
                "end" => events.push(json!({"type": "response.completed", "response": usage})),
                "length" => events.push(json!({"type": "response.incomplete", "response": usage})),
                _ => {}
            }
        }
        Speech::Chat => {
            events.extend(text.split_inclusive(' ').map(|word| json!({"choices": [{"delta": {"content": word}}]})));
            for (n, (tool, input)) in calls.iter().enumerate() {
                events.push(json!({"choices": [{"delta": {"tool_calls": [{"index": n, "id": format!("call_{n}"), "function": {"name": tool, "arguments": ""}}]}}]}));
                events.push(json!({"choices": [{"delta": {"tool_calls": [{"index": n, "function": {"arguments": input.to_string()}}]}}]}));
            }
            match end {
                "end" => events.push(json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})),
                "length" => events.push(json!({"choices": [{"delta": {}, "finish_reason": "length"}]})),
                _ => {}
            }
            events.push(json!({"choices": [], "usage": {"prompt_tokens": tokens}}));
        }
        Speech::Gemini => {
            let mut parts: Vec<Value> = text.split_inclusive(' ').map(|word| json!({"text": word})).collect();
            parts.extend(calls.iter().map(|(tool, input)| json!({"functionCall": {"name": tool, "args": input}})));
            let reason = match end {
                "end" => json!("STOP"),
                "length" => json!("MAX_TOKENS"),
                _ => Value::Null,
            };
            events.push(json!({"candidates": [{"content": {"parts": parts}, "finishReason": reason}], "usageMetadata": {"promptTokenCount": tokens}}));
        }
    }
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn brief() -> Brief {
    let tool = |name: &str| ToolCard { name: name.into(), description: "Does it.".into(), input_schema: json!({"type": "object"}) };
    Brief { role: "worker".into(), may_change: true, tools: vec![tool("fs.read"), tool("shell.run")], ..Brief::default() }
}

fn start(memory: Vec<Vec<u8>>) -> Heard {
    Heard::Start { prompt: "fix the bug".into(), settled: 0, resumed: !memory.is_empty(), memory }
}

fn wish(tool: &str, input: Value) -> Wish {
    Wish { tool: tool.into(), input }
}

/// The next move that is not a word.
async fn act(brain: &mut Native, heard: Heard) -> (Vec<String>, Move) {
    let mut said = Vec::new();
    let mut next = brain.next(heard).await.unwrap();
    while let Move::Say(text) = next {
        said.push(text);
        next = brain.next(Heard::Silence).await.unwrap();
    }
    (said, next)
}

fn output(text: &str) -> Ended {
    Ended::Output { ok: true, value: json!(text) }
}

#[tokio::test]
async fn a_task_with_parallel_calls_runs_in_every_speech() {
    for speech in SPEECHES {
        let both = vec![("fs_read", json!({"path": "a"})), ("shell_run", json!({"command": ["ls"]}))];
        let tape = Tape::new(speech, vec![Line::Says("I look.", both), Line::Says("It was\na typo.", vec![])]);
        let mut brain = Native::new(tape.clone(), brief());
        let (said, next) = act(&mut brain, start(Vec::new())).await;
        let wanted = vec![wish("fs.read", json!({"path": "a"})), wish("shell.run", json!({"command": ["ls"]}))];
        assert_eq!((said, next), (vec!["I look.".to_owned()], Move::Call(wanted)), "{speech:?}");
        let refused = Ended::Refused { reason: "no shell".into(), hint: Some("read instead".into()) };
        let (said, next) = act(&mut brain, Heard::Ended(vec![output("text of a"), refused])).await;
        assert_eq!((said.join("\n"), next), ("It was\na typo.".into(), Move::Done("It was\na typo.".into())), "{speech:?}");

        let asked = tape.asked.lock().unwrap();
        let path = match speech {
            Speech::Messages => "/v1/messages",
            Speech::Responses => "/v1/responses",
            Speech::Chat => "/v1/chat/completions",
            Speech::Gemini => "/v1beta/models/m-1:streamGenerateContent?alt=sse",
        };
        assert_eq!(asked[1].1, path);
        let second = asked[1].2.to_string();
        for part in ["fix the bug", "text of a", "refused: no shell\\nhint: read instead", "fs_read", "Your role is worker"] {
            assert!(second.contains(part), "{speech:?} lacks `{part}`: {second}");
        }
        assert!(!second.contains("fs.read"), "no vendor takes a dot in a name");
    }
}

#[tokio::test]
async fn a_brain_that_was_killed_wants_its_open_calls_again() {
    for speech in SPEECHES {
        let tape = Tape::new(speech, vec![Line::Says("", vec![("fs_read", json!({"path": "a"}))]), Line::Says("Done.", vec![])]);
        let mut first = Native::new(tape.clone(), brief());
        let (_, wanted) = act(&mut first, start(Vec::new())).await;
        let memory = vec![first.keep().unwrap().bytes];
        assert_eq!(first.keep(), None, "what is kept is kept once");
        drop(first);

        let mut second = Native::new(tape.clone(), brief());
        let (_, again) = act(&mut second, start(memory.clone())).await;
        assert_eq!(again, wanted);
        let (_, done) = act(&mut second, Heard::Ended(vec![output("x")])).await;
        assert_eq!(done, Move::Done("Done.".into()));
        let memory = [memory, vec![second.keep().unwrap().bytes]].concat();

        // Killed once more, behind the last answer: nothing is asked of the model again.
        let mut third = Native::new(tape.clone(), brief());
        assert_eq!(act(&mut third, start(memory)).await.1, Move::Done("Done.".into()));
        assert_eq!(tape.bodies().len(), 2);
    }
}

#[tokio::test]
async fn what_passes_is_tried_again_and_what_does_not_is_told() {
    for speech in SPEECHES {
        let passing = vec![
            Line::Status(529, r#"{"error": {"message": "overloaded"}}"#),
            Line::Status(500, "<html>"),
            Line::Cut("Half an"),
            Line::Says("Whole.", vec![]),
        ];
        let tape = Tape::new(speech, passing);
        let mut brain = Native::new(tape.clone(), brief()).wait_first(std::time::Duration::ZERO);
        let (said, next) = act(&mut brain, start(Vec::new())).await;
        assert_eq!((said, next), (vec!["Whole.".to_owned()], Move::Done("Whole.".into())), "{speech:?}");
        assert_eq!(tape.bodies().len(), 4);

        let tape = Tape::new(speech, vec![Line::Status(401, r#"{"error": {"message": "bad key"}}"#)]);
        let fault = Native::new(tape, brief()).wait_first(std::time::Duration::ZERO).next(start(Vec::new())).await.unwrap_err();
        assert_eq!(fault.what, "the model answered 401: bad key");

        let tape = Tape::new(speech, (0..7).map(|_| Line::Status(503, r#"{"error": {"message": "busy"}}"#)).collect());
        let fault = Native::new(tape, brief()).wait_first(std::time::Duration::ZERO).next(start(Vec::new())).await.unwrap_err();
        assert_eq!(fault.what, "the model answered 503: busy, 7 times in a row");
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_goes_on_and_one_that_never_ends_stops() {
    for speech in SPEECHES {
        let tape = Tape::new(speech, vec![Line::Length("Once upon"), Line::Says("The end.", vec![])]);
        let mut brain = Native::new(tape.clone(), brief());
        assert_eq!(act(&mut brain, start(Vec::new())).await.1, Move::Done("The end.".into()), "{speech:?}");
        assert!(tape.bodies()[1].to_string().contains("You were cut off"));

        let tape = Tape::new(speech, (0..4).map(|_| Line::Says("", vec![])).collect());
        let fault = Native::new(tape, brief()).next(start(Vec::new())).await.unwrap_err();
        assert_eq!(fault.what, "the model says nothing");
    }
}

#[tokio::test]
async fn a_budget_that_a_person_must_raise_parks_the_task() {
    let tape = Tape::new(Speech::Chat, vec![Line::Waits(7), Line::Says("Ok.", vec![])]);
    let mut brain = Native::new(tape, brief());
    assert_eq!(brain.next(start(Vec::new())).await, Ok(Move::Wait(world::ReviewId(7))));
    assert_eq!(act(&mut brain, start(Vec::new())).await.1, Move::Done("Ok.".into()));
}

#[tokio::test]
async fn a_long_task_is_summed_up_before_it_fills_the_context() {
    for speech in SPEECHES {
        let read = || Line::Says("", vec![("fs_read", json!({"path": "big"}))]);
        let mut lines: Vec<Line> = (0..7).map(|_| read()).collect();
        lines.push(Line::Says("We read big five times.", vec![]));
        lines.push(Line::Says("Done.", vec![]));
        let mut tape = Tape::new(speech, lines);
        Arc::get_mut(&mut tape).unwrap().context_tokens = 40_000;
        let mut brain = Native::new(tape.clone(), brief());
        let mut next = act(&mut brain, start(Vec::new())).await.1;
        while let Move::Call(_) = next {
            next = act(&mut brain, Heard::Ended(vec![output(&"x".repeat(14_000))])).await.1;
        }
        assert_eq!(next, Move::Done("Done.".into()), "{speech:?}");
        let asked = tape.asked.lock().unwrap();
        let purposes: Vec<Purpose> = asked.iter().map(|(purpose, ..)| *purpose).collect();
        assert_eq!(purposes.iter().filter(|purpose| **purpose == Purpose::Summary).count(), 1, "{speech:?} {purposes:?}");
        let last = asked.last().unwrap().2.to_string();
        assert!(last.contains("We read big five times.") && last.contains("fix the bug"), "{last:.300}");
        let longest = asked.iter().map(|(_, _, body)| body.to_string().len()).max().unwrap();
        assert!(longest / 4 < 40_000, "a request of {longest} bytes");
        let keep = brain.keep().unwrap();
        assert!(keep.anew, "what was kept before the summary is void");
    }
}
