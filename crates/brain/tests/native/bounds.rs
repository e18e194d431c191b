//! Bounds of what a model is shown, of what it may say, and of how often it is asked.

use crate::fake_model::{FakeModel, Line, act, brief, output, output_max, start};
use brain::Dialect;
use brain::model::Purpose;
use brain::{Brain, BrainInput, Brief, CallResult, Move, Native, ToolSpec};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn look() -> Line {
    Line::Says("", vec![("fs_read", json!({"path": "a"}))])
}

fn done() -> Move {
    Move::Done("Done.".into())
}

fn says_done() -> Line {
    Line::Says("Done.", vec![])
}

#[tokio::test]
async fn an_answer_has_an_eighth_of_the_context_within_bounds() {
    for dialect in Dialect::ALL {
        for (context, answer) in [(100_000, 8_000), (40_000, 5_000), (24_000, 4_000)] {
            let mut model = FakeModel::new(dialect, vec![says_done()]);
            Arc::get_mut(&mut model).unwrap().context_tokens = context;
            act(&mut Native::new(model.clone(), brief()), start(Vec::new())).await;
            assert_eq!(output_max(dialect, &model.bodies()[0]), answer, "{dialect:?}: {context}");
        }
    }
}

#[tokio::test]
async fn tool_descriptions_share_three_thousand_tokens() {
    let tool = |n: usize| {
        let described = json!({"type": "string", "description": "y".repeat(900)});
        let input_schema = json!({"type": "object", "properties": {"path": described}, "required": ["path"]});
        ToolSpec { name: format!("tool.number-{n}"), description: format!("Does {n}. {}", "z".repeat(900)), input_schema }
    };
    for dialect in Dialect::ALL {
        let model = FakeModel::new(dialect, vec![says_done()]);
        act(&mut Native::new(model.clone(), Brief { tools: (0..20).map(tool).collect(), ..brief() }), start(Vec::new())).await;
        let tools = model.bodies()[0]["tools"].to_string();
        assert!(tools.len() < 3_000 * 4 + 20 * 120, "{dialect:?}: {} bytes with the vendor's own words around them", tools.len());
        assert!((0..20).all(|n| tools.contains(&format!("\"tool_number-{n}\"")) && tools.contains(&format!("Does {n}."))), "{dialect:?}");
        assert_eq!(tools.matches("\"required\":[\"path\"]").count(), 20, "{dialect:?}: what must be given is said");
        assert!(tools.contains("zzz"), "{dialect:?}: no more is cut than must be");
    }
}

#[tokio::test]
async fn a_long_tool_name_is_cut_and_known_when_it_comes_back() {
    let long = format!("mcp.{}", "n".repeat(100));
    for dialect in Dialect::ALL {
        let tools = vec![ToolSpec { name: long.clone(), description: "Does it.".into(), input_schema: json!({"type": "object"}) }];
        let cut: &'static str = format!("mcp_{}", "n".repeat(60)).leak();
        let model = FakeModel::new(dialect, vec![Line::Says("", vec![(cut, json!({}))])]);
        let next = act(&mut Native::new(model.clone(), Brief { tools, ..brief() }), start(Vec::new())).await.1;
        let Move::Call(wishes) = next else { panic!("{dialect:?} makes no call") };
        assert_eq!(wishes[0].tool, long, "{dialect:?}");
        assert!(model.bodies()[0].to_string().contains(&format!("\"{cut}\"")), "{dialect:?}");
    }
}

#[tokio::test]
async fn a_server_that_finds_all_too_long_is_asked_thirteen_times() {
    let lines = [look(), look()].into_iter().chain((0..40).map(|_| Line::Status(400, r#"{"error": {"message": "prompt is too long"}}"#)));
    let model = FakeModel::new(Dialect::Anthropic, lines.collect());
    model.summaries.lock().unwrap().extend((0..40).map(|_| Line::Says("Short.", vec![])));
    let mut brain = Native::new(model.clone(), brief());
    act(&mut brain, start(Vec::new())).await;
    act(&mut brain, BrainInput::Results(vec![output(&"x".repeat(4_000))])).await;
    let fault = brain.next(BrainInput::Results(vec![output(&"x".repeat(4_000))])).await.unwrap_err();
    assert_eq!(fault.what, "the model answered 400: prompt is too long");
    assert_eq!(model.bodies_for(Purpose::Work).len(), 2 + 13);
}

#[tokio::test]
async fn an_error_is_read_and_told_in_part() {
    let told = async |body: String| {
        let model = FakeModel::new(Dialect::Chat, vec![Line::Status(400, body.leak())]);
        Native::new(model, brief()).next(start(Vec::new())).await.unwrap_err().what
    };
    let error = |message: &str, pad: usize| json!({"a": "x".repeat(pad), "error": {"message": message}}).to_string();
    assert_eq!(told(error("no", 60_000)).await, "the model answered 400: no");
    assert!(told(error("no", 70_000)).await.starts_with("the model answered 400: {\"a\":\"xxx"), "the message is beyond what is read");
    assert_eq!(told(error(&"m".repeat(5_000), 0)).await, format!("the model answered 400: {}", "m".repeat(4_000)));
    assert_eq!(told("b".repeat(5_000)).await, format!("the model answered 400: {}", "b".repeat(300)));
    let model = FakeModel::new(Dialect::Chat, (0..7).map(|_| Line::Raw("h".repeat(5_000))).collect());
    let mut brain = Native::new(model, brief()).with_first_delay(Duration::ZERO);
    let mut next = brain.next(start(Vec::new())).await;
    while let Ok(Move::Say(said)) = next {
        assert!(said.len() < 300, "{said}");
        next = brain.next(BrainInput::Continue).await;
    }
    let what = next.unwrap_err().what;
    assert!(what.contains(&format!("it is no stream of events: {}, ", "h".repeat(120))), "{what}");
}

#[tokio::test]
async fn a_call_of_chat_with_a_number_beyond_all_calls_is_a_mistake() {
    for (number, taken) in [(127, true), (128, false), (u64::MAX, false)] {
        let call = json!({"index": number, "id": "x", "function": {"name": "fs_read", "arguments": "{}"}});
        let event = json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
        let model = FakeModel::new(Dialect::Chat, vec![Line::Raw(format!("data: {event}\n\n")), says_done()]);
        let next = act(&mut Native::new(model, brief()).with_first_delay(Duration::ZERO), start(Vec::new())).await.1;
        assert_eq!(matches!(next, Move::Call(_)), taken, "{number}: {next:?}");
    }
}

#[tokio::test]
async fn a_text_without_lines_is_passed_on_in_pieces() {
    for dialect in Dialect::ALL {
        let text: &'static str = "word ".repeat(400).leak();
        let model = FakeModel::new(dialect, vec![Line::Says(text, vec![])]);
        let (said, _) = act(&mut Native::new(model, brief()), start(Vec::new())).await;
        assert!(said.len() >= 4 && said.iter().all(|said| said.len() <= 500), "{dialect:?}: {:?}", said.iter().map(String::len));
        assert_eq!(said.concat().trim_end(), text.trim_end(), "{dialect:?}");
    }
}

#[tokio::test]
async fn tries_and_nudges_count_anew_after_an_answer() {
    let busy = || (0..6).map(|_| Line::Status(503, "busy"));
    let lines: Vec<Line> = busy().chain([look()]).chain(busy()).chain([says_done()]).collect();
    let mut brain = Native::new(FakeModel::new(Dialect::Chat, lines), brief()).with_first_delay(Duration::ZERO);
    assert!(matches!(act(&mut brain, start(Vec::new())).await.1, Move::Call(_)));
    assert_eq!(act(&mut brain, BrainInput::Results(vec![output("x")])).await.1, done());

    let cut = || (0..3).map(|_| Line::Length("Once upon"));
    let lines: Vec<Line> = cut().chain([look()]).chain(cut()).chain([says_done()]).collect();
    let mut brain = Native::new(FakeModel::new(Dialect::Chat, lines), brief());
    assert!(matches!(act(&mut brain, start(Vec::new())).await.1, Move::Call(_)));
    assert_eq!(act(&mut brain, BrainInput::Results(vec![output("x")])).await.1, done());

    let mut brain = Native::new(FakeModel::new(Dialect::Chat, (0..4).map(|_| Line::Length("Once upon")).collect()), brief());
    let mut next = brain.next(start(Vec::new())).await;
    while let Ok(Move::Say(_)) = next {
        next = brain.next(BrainInput::Continue).await;
    }
    assert_eq!(next.unwrap_err().what, "the model's answers are cut off each time");
}

#[tokio::test]
async fn long_calls_of_a_circle_are_told_in_part() {
    let read = |n: usize| Line::Says("", vec![("fs_read", json!({"path": format!("{}-{}", n % 3, "p".repeat(5_000))}))]);
    let mut brain = Native::new(FakeModel::new(Dialect::Chat, (0..23).map(read).collect()), brief());
    let mut next = brain.next(start(Vec::new())).await;
    loop {
        let heard = match next {
            Ok(Move::Call(_)) => BrainInput::Results(vec![CallResult::Output { ok: true, value: Value::Null }]),
            Ok(_) => BrainInput::Continue,
            Err(fault) => {
                assert!(fault.what.contains("0-ppp") && fault.what.len() < 400, "{}", fault.what);
                return;
            }
        };
        next = brain.next(heard).await;
    }
}
