//! Oddities of single vendors, and of servers that speak like them.

use crate::fake_model::{FakeModel, Line, act, brief, output, start};
use brain::Dialect;
use brain::{BrainInput, Move, Native, ToolCall};
use serde_json::{Value, json};
use std::time::Duration;

fn events(events: &[Value]) -> Line {
    Line::Raw(events.iter().map(|event| format!("data: {event}\n\n")).collect())
}

fn read(path: &str) -> ToolCall {
    ToolCall { tool: "fs.read".into(), input: json!({"path": path}) }
}

#[tokio::test]
async fn newer_models_of_chat_get_their_limit_by_its_newer_name() {
    let no = r#"{"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}"#;
    let look = || Line::Says("", vec![("fs_read", json!({}))]);
    let model = FakeModel::new(Dialect::Chat, vec![Line::Status(400, no), look(), Line::Says("Ok.", vec![])]);
    let mut brain = Native::new(model.clone(), brief());
    act(&mut brain, start(Vec::new())).await;
    assert_eq!(act(&mut brain, BrainInput::Results(vec![output("x")])).await.1, Move::Done("Ok.".into()));
    let names: Vec<bool> =
        model.bodies().iter().map(|body| body["max_completion_tokens"].is_u64() && body["max_tokens"].is_null()).collect();
    assert_eq!(names, [false, true, true], "it is learnt once");
}

#[tokio::test]
async fn models_of_responses_without_thoughts_are_not_asked_for_them() {
    let no = r#"{"error": {"message": "Encrypted content is not supported with this model."}}"#;
    let model = FakeModel::new(Dialect::Responses, vec![Line::Status(400, no), Line::Says("Ok.", vec![])]);
    assert_eq!(act(&mut Native::new(model.clone(), brief()), start(Vec::new())).await.1, Move::Done("Ok.".into()));
    let asked: Vec<bool> = model.bodies().iter().map(|body| body["include"].is_array()).collect();
    assert_eq!(asked, [true, false]);
}

#[tokio::test]
async fn calls_of_chat_are_told_apart_by_id_where_their_numbers_are_all_alike() {
    let piece = |call: Value| json!({"choices": [{"delta": {"tool_calls": [call]}}]});
    let model = FakeModel::new(
        Dialect::Chat,
        vec![
            events(&[
                piece(json!({"index": 0, "id": "x", "function": {"name": "fs_read", "arguments": "{\"path\":"}})),
                piece(json!({"index": 0, "id": "x", "function": {"name": "fs_read", "arguments": "\"a\"}"}})),
                piece(json!({"index": 0, "id": "y", "function": {"name": "fs_read", "arguments": {"path": "b"}}})),
                json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
            ]),
            Line::Says("Ok.", vec![]),
        ],
    );
    let mut brain = Native::new(model, brief());
    assert_eq!(act(&mut brain, start(Vec::new())).await.1, Move::Call(vec![read("a"), read("b")]));
}

#[tokio::test]
async fn ids_that_come_twice_are_made_different() {
    let call = |id: &str| json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": id, "function": {"name": "fs_read", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]});
    let model = FakeModel::new(Dialect::Chat, vec![events(&[call("call_0")]), events(&[call("call_0")]), Line::Says("Ok.", vec![])]);
    let mut brain = Native::new(model.clone(), brief());
    act(&mut brain, start(Vec::new())).await;
    act(&mut brain, BrainInput::Results(vec![output("one")])).await;
    act(&mut brain, BrainInput::Results(vec![output("two")])).await;
    let body = model.bodies().pop().unwrap();
    let id = |at: usize| body["messages"][at]["tool_call_id"].as_str().unwrap().to_owned();
    assert_ne!(id(3), id(5), "{body}");
    assert_eq!(body["messages"][4]["tool_calls"][0]["id"], id(5));
}

#[tokio::test]
async fn a_signed_call_of_gemini_goes_back_signed_beside_an_equal_one() {
    let call = json!({"name": "fs_read", "args": {"path": "a"}});
    let parts = json!([{"functionCall": call, "thoughtSignature": "sig"}, {"functionCall": call}]);
    let model = FakeModel::new(
        Dialect::Gemini,
        vec![events(&[json!({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]})]), Line::Says("Ok.", vec![])],
    );
    let mut brain = Native::new(model.clone(), brief());
    assert_eq!(act(&mut brain, start(Vec::new())).await.1, Move::Call(vec![read("a"), read("a")]));
    act(&mut brain, BrainInput::Results(vec![output("x"), output("y")])).await;
    let contents = &model.bodies().pop().unwrap()["contents"];
    assert_eq!(contents[1]["parts"], parts, "as many calls as results");
    assert_eq!(contents[2]["parts"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_slip_of_gemini_is_asked_for_again() {
    let slip = events(&[json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]})]);
    let model = FakeModel::new(Dialect::Gemini, vec![slip, Line::Says("Ok.", vec![])]);
    let mut brain = Native::new(model, brief()).with_first_delay(Duration::ZERO);
    assert_eq!(act(&mut brain, start(Vec::new())).await.1, Move::Done("Ok.".into()));
}

#[tokio::test]
async fn thoughts_that_nothing_follows_and_texts_of_space_do_not_go_back() {
    let thought =
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "hm", "signature": "s"}});
    let space = json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "\n\n"}});
    let end = |reason: &str| [json!({"type": "message_delta", "delta": {"stop_reason": reason}}), json!({"type": "message_stop"})];
    let call = json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "t", "name": "fs_read", "input": {"path": "a"}}});
    let answer =
        |blocks: &[&Value], reason: &str| events(&[blocks.iter().map(|block| (*block).clone()).collect(), end(reason).to_vec()].concat());
    let lines = vec![answer(&[&thought, &space], "max_tokens"), answer(&[&thought, &space, &call], "tool_use"), Line::Says("Ok.", vec![])];
    let model = FakeModel::new(Dialect::Anthropic, lines);
    let mut brain = Native::new(model.clone(), brief());
    assert_eq!(act(&mut brain, start(Vec::new())).await.1, Move::Call(vec![read("a")]));
    act(&mut brain, BrainInput::Results(vec![output("x")])).await;
    let bodies = model.bodies();
    assert_eq!(bodies[1]["messages"][1]["content"], json!([{"type": "text", "text": "…"}]));
    let kinds: Vec<&Value> = bodies[2]["messages"][3]["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["thinking", "tool_use"], "a thought before a call does, the empty text does not");
}

/// A call whose arguments came in one piece, as what they are.
fn whole_call(dialect: Dialect, arguments: &Value) -> Line {
    match dialect {
        Dialect::Anthropic => events(&[
            json!({"type": "content_block_start", "content_block": {"type": "tool_use", "id": "t", "name": "fs_read", "input": arguments}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
            json!({"type": "message_stop"}),
        ]),
        Dialect::Responses => {
            let item = json!({"type": "function_call", "call_id": "t", "name": "fs_read", "arguments": arguments});
            events(&[json!({"type": "response.output_item.done", "item": item}), json!({"type": "response.completed", "response": {}})])
        }
        Dialect::Chat => {
            let call = json!({"index": 0, "id": "t", "function": {"name": "fs_read", "arguments": arguments}});
            events(&[json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]})])
        }
        Dialect::Gemini => {
            let call = json!({"functionCall": {"name": "fs_read", "args": arguments}});
            events(&[json!({"candidates": [{"content": {"parts": [call]}, "finishReason": "STOP"}]})])
        }
    }
}

#[tokio::test]
async fn arguments_of_another_kind_are_a_mistake_and_not_missing() {
    for dialect in Dialect::ALL {
        for (arguments, input) in [
            (json!(null), json!({})),
            (json!(""), json!({})),
            (json!({"path": "a"}), json!({"path": "a"})),
            (json!("{\"path\": \"a\"}"), json!({"path": "a"})),
            (json!(["a"]), json!(["a"])),
            (json!(7), json!(7)),
            (json!(false), json!(false)),
            (json!("[1"), json!("[1")),
        ] {
            let mut brain = Native::new(FakeModel::new(dialect, vec![whole_call(dialect, &arguments)]), brief());
            let wanted = act(&mut brain, start(Vec::new())).await.1;
            assert_eq!(wanted, Move::Call(vec![ToolCall { tool: "fs.read".into(), input }]), "{dialect:?}: {arguments}");
        }
    }
}
