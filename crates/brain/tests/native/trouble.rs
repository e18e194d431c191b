//! Models that fail, break off or talk nonsense.

use crate::fake_model::{FakeModel, Line, act, brief, output, start};
use brain::Dialect;
use brain::{Brain, BrainFault, BrainInput, CallResult, Move, Native, ToolCall};
use serde_json::json;
use std::time::Duration;

/// Why it gives up, whatever it said before.
async fn fails(brain: &mut Native) -> BrainFault {
    let mut next = brain.next(start(Vec::new())).await;
    while let Ok(Move::Say(_)) = next {
        next = brain.next(BrainInput::Continue).await;
    }
    next.unwrap_err()
}

#[tokio::test]
async fn what_passes_is_tried_again_and_what_does_not_is_told() {
    for dialect in Dialect::ALL {
        let passing = vec![
            Line::Status(529, r#"{"error": {"message": "overloaded"}}"#),
            Line::Status(500, "<html>"),
            Line::Cut("Half an"),
            Line::Says("Whole.", vec![]),
        ];
        let model = FakeModel::new(dialect, passing);
        let mut brain = Native::new(model.clone(), brief()).with_first_delay(Duration::ZERO);
        let (said, next) = act(&mut brain, start(Vec::new())).await;
        let told = ["the model answered 500: <html>; asking again, 2 of 6", "the model's answer ended in the middle; asking again, 3 of 6"];
        assert_eq!(
            (said, next),
            ([&told[..], &["Whole."]].concat().iter().map(ToString::to_string).collect(), Move::Done("Whole.".into())),
            "{dialect:?}"
        );
        assert_eq!(model.bodies().len(), 4);

        let model = FakeModel::new(dialect, vec![Line::Status(401, r#"{"error": {"message": "bad key"}}"#)]);
        let fault = Native::new(model, brief()).with_first_delay(Duration::ZERO).next(start(Vec::new())).await.unwrap_err();
        assert_eq!(fault.what, "`p` does not accept its key (401): bad key");

        // Whatever the model answered, its task can go on once that is mended.
        for status in [400, 401, 402, 403, 404, 413, 422, 500] {
            let model = FakeModel::new(dialect, vec![Line::Final(status, r#"{"error": {"message": "no"}}"#)]);
            let fault = Native::new(model, brief()).next(start(Vec::new())).await.unwrap_err();
            let cause = if status == 402 { world::RetryCause::Budget } else { world::RetryCause::Model };
            assert_eq!(fault.may_retry, Some(cause), "{dialect:?} {status}");
        }

        let model = FakeModel::new(dialect, (0..7).map(|_| Line::Status(503, r#"{"error": {"message": "busy"}}"#)).collect());
        let fault = fails(&mut Native::new(model, brief()).with_first_delay(Duration::ZERO)).await;
        assert_eq!(fault.what, "the model answered 503: busy, 7 times in a row");
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_goes_on_and_one_that_never_ends_stops() {
    for dialect in Dialect::ALL {
        let model = FakeModel::new(dialect, vec![Line::Length("Once upon"), Line::Says("The end.", vec![])]);
        let mut brain = Native::new(model.clone(), brief());
        assert_eq!(act(&mut brain, start(Vec::new())).await.1, Move::Done("The end.".into()), "{dialect:?}");
        assert!(model.bodies()[1].to_string().contains("You were cut off"));

        let model = FakeModel::new(dialect, (0..4).map(|_| Line::Says("", vec![])).collect());
        let fault = Native::new(model, brief()).next(start(Vec::new())).await.unwrap_err();
        assert_eq!(fault.what, "the model says nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn each_wait_is_twice_the_last_and_no_two_are_alike() {
    let mut firsts = std::collections::HashSet::new();
    for _ in 0..8 {
        let model = FakeModel::new(Dialect::Chat, (0..7).map(|_| Line::Status(503, "busy")).collect());
        let mut brain = Native::new(model.clone(), brief());
        let mut heard = start(Vec::new());
        let mut said = Vec::new();
        while let Ok(Move::Say(text)) = brain.next(heard).await {
            said.push(text);
            heard = BrainInput::Continue;
        }
        assert_eq!(said[0], "the model answered 503: busy; asking again, 2 of 6", "the first passes unnoticed");
        let times = model.times.lock().unwrap();
        let waits: Vec<u128> = times.windows(2).map(|two| (two[1] - two[0]).as_millis()).collect();
        assert_eq!(waits.len(), 6);
        for (n, wait) in waits.iter().enumerate() {
            let base = 500_u128 << n;
            assert!((base / 2..=base * 3 / 2 + 1).contains(wait), "wait {n}: {wait} ms");
        }
        firsts.insert(waits[0]);
    }
    assert!(firsts.len() > 1, "eight brains that failed together come back together");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_before_the_time_they_named() {
    for (named, least) in [(20, 20), (86_400, 30)] {
        let model = FakeModel::new(Dialect::Anthropic, vec![Line::After(429, named), Line::Says("Ok.", vec![])]);
        act(&mut Native::new(model.clone(), brief()), start(Vec::new())).await;
        let times = model.times.lock().unwrap();
        let waited = (times[1] - times[0]).as_secs();
        assert!((least..least + 2).contains(&waited), "{waited} s");
    }
}

#[tokio::test]
async fn what_the_server_calls_settled_is_not_asked_again() {
    for dialect in Dialect::ALL {
        let model = FakeModel::new(dialect, vec![Line::Final(429, r#"{"error": {"message": "the budget does not hold it"}}"#)]);
        let fault = Native::new(model, brief()).next(start(Vec::new())).await.unwrap_err();
        assert_eq!(fault.what, "the model answered 429: the budget does not hold it", "{dialect:?}");
    }
}

/// What was refused on the way is told in its own words, asked once, and never as an answer of the model.
#[tokio::test]
async fn a_refusal_of_ours_is_not_the_models_answer() {
    for dialect in Dialect::ALL {
        for status in [400, 402, 403, 429] {
            let model = FakeModel::new(dialect, vec![Line::Refused(status, r#"{"error": {"message": "the budget does not hold it"}}"#)]);
            let fault = Native::new(model.clone(), brief()).next(start(Vec::new())).await.unwrap_err();
            assert_eq!((fault.what.as_str(), model.bodies().len()), ("the budget does not hold it", 1), "{dialect:?} {status}");
        }
    }
}

/// Before the first answer nothing is lost, and whoever waits learns at once what to mend; later the work waits for the host.
#[tokio::test]
async fn an_unreachable_host_is_told_at_once_and_waited_for_only_in_the_middle_of_work() {
    for dialect in Dialect::ALL {
        let model = FakeModel::new(dialect, vec![Line::Unreachable]);
        let fault = Native::new(model.clone(), brief()).next(start(Vec::new())).await.unwrap_err();
        assert_eq!((fault.what.as_str(), model.bodies().len()), ("`p` cannot be reached", 1), "{dialect:?}");
        assert!(fault.hint.unwrap().contains("see that the host is up"));
        let call = vec![("fs.read", json!({"path": "a"}))];
        let lines = vec![Line::Says("", call), Line::Unreachable, Line::Says("done", Vec::new())];
        let model = FakeModel::new(dialect, lines);
        let mut brain = Native::new(model.clone(), brief()).with_first_delay(std::time::Duration::ZERO);
        assert!(matches!(brain.next(start(Vec::new())).await.unwrap(), Move::Call(_)));
        let results = BrainInput::Results(vec![CallResult::Output { ok: true, value: json!("x") }]);
        let told = brain.next(results).await.unwrap();
        assert_eq!(told, Move::Say("`p` cannot be reached; asking again, 1 of 6".into()), "{dialect:?}");
        assert_eq!(model.bodies().len(), 2);
    }
}

/// A key that is not taken is told with where it comes from, whatever status the vendor has for it.
#[tokio::test]
async fn a_key_that_is_not_accepted_is_told_with_its_place() {
    for (status, body) in [
        (401, r#"{"error": {"message": "invalid x-api-key"}}"#),
        (400, r#"{"error": {"message": "API key not valid. Please pass a valid API key."}}"#),
    ] {
        let model = FakeModel::new(Dialect::Chat, vec![Line::Status(status, body)]);
        let fault = Native::new(model.clone(), brief()).next(start(Vec::new())).await.unwrap_err();
        assert!(fault.what.starts_with(&format!("`p` does not accept its key ({status}): ")), "{}", fault.what);
        assert_eq!((fault.hint.as_deref(), model.bodies().len()), (Some("its key comes from the file `k`; put a valid one there"), 1));
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_behind_a_line_is_told_as_such() {
    for dialect in Dialect::ALL {
        let model = FakeModel::new(dialect, vec![Line::Cut("One.\n two"), Line::Says("One.\n two.", vec![])]);
        let mut brain = Native::new(model, brief()).with_first_delay(Duration::ZERO);
        let (said, done) = act(&mut brain, start(Vec::new())).await;
        let want = ["One.", "the model's answer ended in the middle; asking again, 1 of 6", "One.", " two."];
        assert_eq!((said, done), (want.map(str::to_owned).to_vec(), Move::Done("One.\n two.".into())), "{dialect:?}");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_quoted() {
    for dialect in Dialect::ALL {
        for (body, why) in [
            ("<html>log in first</html>", "it is no stream of events: <html>log in first</html>"),
            ("data: {\"a\": \n\n", "EOF while parsing a value at line 1 column 6"),
        ] {
            let model = FakeModel::new(dialect, (0..7).map(|_| Line::Raw(body.into())).collect());
            let fault = fails(&mut Native::new(model, brief()).with_first_delay(Duration::ZERO)).await;
            assert_eq!(fault.what, format!("the model's answer can't be read: {why}, 7 times in a row"), "{dialect:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_was_withheld_ends_the_task_with_the_reason() {
    for dialect in Dialect::ALL {
        let fault = Native::new(FakeModel::new(dialect, vec![Line::Withheld]), brief()).next(start(Vec::new())).await.unwrap_err();
        assert!(fault.what.starts_with("the model would not answer: ") && fault.hint.is_some(), "{dialect:?}: {fault:?}");
    }
}

#[tokio::test]
async fn an_unknown_tool_and_arguments_that_are_none_come_back_as_errors() {
    for dialect in Dialect::ALL {
        let model = FakeModel::new(
            dialect,
            vec![Line::Says("", vec![("no_such", json!({})), ("fs_read", json!("not an object"))]), Line::Says("Ok.", vec![])],
        );
        let mut brain = Native::new(model.clone(), brief());
        let Move::Call(wishes) = act(&mut brain, start(Vec::new())).await.1 else { panic!("{dialect:?} makes no call") };
        assert_eq!(wishes[0], ToolCall { tool: "no_such".into(), input: json!({}) });
        assert_eq!(wishes[1], ToolCall { tool: "fs.read".into(), input: json!("not an object") }, "{dialect:?}");
        let no = |reason: &str| CallResult::Refused(world::Refusal::new(world::Code::BadInput, reason));
        act(&mut brain, BrainInput::Results(vec![no("there is no such tool"), no("`path` is missing")])).await;
        let body = model.bodies().pop().unwrap().to_string();
        let marks = match dialect {
            Dialect::Anthropic => "\"is_error\":true",
            Dialect::Responses | Dialect::Chat => "\"error: {\\\"error\\\":\\\"bad_input\\\"",
            Dialect::Gemini => "\"error\":\"{\\\"error\\\":\\\"bad_input\\\"",
        };
        assert!(body.contains(marks) && body.contains("`path` is missing"), "{dialect:?}: {body}");
    }
}

#[tokio::test]
async fn a_hundred_calls_at_once_are_one_move_and_too_many_are_a_mistake() {
    for dialect in Dialect::ALL {
        let calls = |count: usize| (0..count).map(|n| ("fs_read", json!({"path": n.to_string()}))).collect::<Vec<_>>();
        let model = FakeModel::new(dialect, vec![Line::Says("", calls(100)), Line::Says("Ok.", vec![])]);
        let mut brain = Native::new(model.clone(), brief());
        let Move::Call(wishes) = act(&mut brain, start(Vec::new())).await.1 else { panic!("{dialect:?} makes no call") };
        assert_eq!((wishes.len(), &wishes[99].input), (100, &json!({"path": "99"})), "{dialect:?}");
        act(&mut brain, BrainInput::Results((0..100).map(|n| output(&format!("r{n}"))).collect())).await;
        assert!(model.bodies().pop().unwrap().to_string().contains("r99"), "{dialect:?}");

        let model = FakeModel::new(dialect, vec![Line::Says("", calls(129)), Line::Says("Ok.", vec![])]);
        let mut brain = Native::new(model, brief()).with_first_delay(Duration::ZERO);
        assert_eq!(act(&mut brain, start(Vec::new())).await.1, Move::Done("Ok.".into()), "{dialect:?} is asked again");
    }
}
