//! What fits into a model's context, and what happens to the rest.

use crate::fake_model::{FakeModel, Line, act, brief, output, output_max, start};
use brain::Dialect;
use brain::model::Purpose;
use brain::{Brain, BrainInput, Brief, Move, Native};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn a_long_task_is_summed_up_before_it_fills_the_context() {
    for dialect in Dialect::ALL {
        let read = || Line::Says("", vec![("fs_read", json!({"path": "big"}))]);
        let mut lines: Vec<Line> = (0..7).map(|_| read()).collect();
        lines.push(Line::Says("We read big five times.", vec![]));
        lines.push(Line::Says("Done.", vec![]));
        let mut model = FakeModel::new(dialect, lines);
        Arc::get_mut(&mut model).unwrap().context_tokens = 40_000;
        let mut brain = Native::new(model.clone(), brief());
        let mut next = act(&mut brain, start(Vec::new())).await.1;
        while let Move::Call(_) = next {
            next = act(&mut brain, BrainInput::Results(vec![output(&"x".repeat(14_000))])).await.1;
        }
        assert_eq!(next, Move::Done("Done.".into()), "{dialect:?}");
        let asked = model.asked.lock().unwrap();
        let purposes: Vec<Purpose> = asked.iter().map(|(purpose, ..)| *purpose).collect();
        assert_eq!(purposes.iter().filter(|purpose| **purpose == Purpose::Summary).count(), 1, "{dialect:?} {purposes:?}");
        let last = asked.last().unwrap().2.to_string();
        assert!(last.contains("We read big five times.") && last.contains("fix the bug"), "{last:.300}");
        let longest = asked.iter().map(|(_, _, body)| body.to_string().len()).max().unwrap();
        assert!(longest / 4 < 40_000, "a request of {longest} bytes");
        let keep = brain.checkpoint().unwrap();
        assert!(keep.replaces_all, "what was kept before the summary is void");
    }
}

/// Reads so often, then ends. Answers of the model that are not reads come between as they are given.
fn reads(count: usize, then: Vec<Line>) -> Vec<Line> {
    let read = |n: usize| Line::Says("", vec![("fs_read", json!({"path": format!("file-{n}")}))]);
    (0..count).map(read).chain(then).collect()
}

async fn work(brain: &mut Native, bytes: usize) -> (Vec<String>, Move) {
    let (mut said, mut next) = act(brain, start(Vec::new())).await;
    while let Move::Call(_) = next {
        let (more, then) = act(brain, BrainInput::Results(vec![output(&"x".repeat(bytes))])).await;
        said.extend(more);
        next = then;
    }
    (said, next)
}

#[tokio::test]
async fn room_for_the_answer_is_kept_free_whatever_is_pinned() {
    for dialect in Dialect::ALL {
        let model = FakeModel::new(dialect, reads(4, vec![Line::Says("A summary.", vec![]), Line::Says("Done.", vec![])]));
        let mut model = model;
        Arc::get_mut(&mut model).unwrap().context_tokens = 24_000;
        let pins = vec!["p".repeat(32_000)];
        let mut brain = Native::new(model.clone(), Brief { pins, ..brief() });
        assert_eq!(work(&mut brain, 8_000).await.1, Move::Done("Done.".into()), "{dialect:?}");
        let asked = model.asked.lock().unwrap();
        for (_, _, body) in asked.iter().filter(|(purpose, ..)| *purpose == Purpose::Work) {
            let (input, output) = (body.to_string().len() as u64 / 4, output_max(dialect, body));
            assert!(output >= 4_000 && input + output <= 24_000, "{dialect:?}: {input} in, {output} out");
            assert!(body.to_string().contains("[pinned] ppp"), "{dialect:?}");
        }
        assert_eq!(asked.iter().filter(|(purpose, ..)| *purpose == Purpose::Summary).count(), 1, "{dialect:?}");
    }
}

#[tokio::test]
async fn a_context_too_small_for_any_work_is_told_before_anything_is_asked() {
    let mut model = FakeModel::new(Dialect::Chat, vec![]);
    Arc::get_mut(&mut model).unwrap().context_tokens = 8_000;
    let fault = Native::new(model.clone(), brief()).next(start(Vec::new())).await.unwrap_err();
    assert!(fault.what.starts_with("`m-1` takes 8000 tokens, and this work needs "), "{}", fault.what);
    assert!(fault.hint.unwrap().contains("context_tokens"));
    assert_eq!(model.bodies().len(), 0);
}

#[tokio::test]
async fn a_smaller_model_sums_up_in_parts_and_loses_nothing() {
    let says = |n: usize| Line::Says("", vec![("fs_read", json!({"path": format!("file-{n}-{}", "p".repeat(300))}))]);
    let mut lines: Vec<Line> = (0..60).map(says).collect();
    lines.push(Line::Says("Done.", vec![]));
    let mut model = FakeModel::new(Dialect::Anthropic, lines);
    model.summaries.lock().unwrap().extend([1, 2, 3, 4, 5].map(|_| Line::Says("Part one.", vec![])));
    let limits = Arc::get_mut(&mut model).unwrap();
    (limits.context_tokens, limits.summary_tokens) = (66_000, 8_000);
    let mut brain = Native::new(model.clone(), brief());
    assert_eq!(work(&mut brain, 4_000).await.1, Move::Done("Done.".into()));
    let asked = model.asked.lock().unwrap();
    let told: Vec<String> = asked.iter().filter(|(purpose, ..)| *purpose == Purpose::Summary).map(|(.., body)| body.to_string()).collect();
    assert!(told.len() > 1, "one request could not hold it");
    assert!(told[1].contains("[earlier]\\nPart one."), "the second goes on from the first");
    // Of 8,000 tokens 2,000 are for the summary and 2,000 for what is around; the rest holds so many bytes if some tokens are short.
    assert!(told.iter().all(|told| told.len() < 4_000 * 8 / 3 + 1_000), "{:?}", told.iter().map(String::len).collect::<Vec<_>>());
    let last = asked.last().unwrap().2.to_string();
    for n in 0..60 {
        let name = format!("file-{n}-");
        assert!(told.iter().any(|told| told.contains(&name)) || last.contains(&name), "{name} is nowhere");
    }
}

#[tokio::test]
async fn a_summary_that_cannot_be_had_does_not_end_the_work() {
    for dialect in Dialect::ALL {
        for summary in [Line::Says("", vec![]), Line::Status(404, r#"{"error": {"message": "no such model"}}"#), Line::Withheld] {
            let mut model = FakeModel::new(dialect, reads(7, vec![summary, Line::Says("Done.", vec![])]));
            Arc::get_mut(&mut model).unwrap().context_tokens = 40_000;
            let mut brain = Native::new(model.clone(), brief());
            let (said, done) = work(&mut brain, 14_000).await;
            assert_eq!(done, Move::Done("Done.".into()), "{dialect:?}");
            assert!(said.iter().any(|said| said.starts_with("no summary could be made (")), "{dialect:?}: {said:?}");
            let last = model.bodies().last().unwrap().to_string();
            assert!(last.contains("[what happened so far]") && last.contains("→ fs.read") && last.contains("file-0"), "{last:.600}");
        }
    }
}

/// Thirty reads with much to tell about each, and no room for all of them.
fn wordy(dialect: Dialect, summaries: Vec<Line>) -> Arc<FakeModel> {
    let says = |n: usize| Line::Says("", vec![("fs_read", json!({"path": format!("file-{n}-{}", "p".repeat(300))}))]);
    let mut model = FakeModel::new(dialect, (0..30).map(says).chain([Line::Says("Done.", vec![])]).collect());
    model.summaries.lock().unwrap().extend(summaries);
    Arc::get_mut(&mut model).unwrap().context_tokens = 40_000;
    model
}

#[tokio::test]
async fn a_summary_is_no_longer_than_its_share() {
    let long: &'static str = "ä".repeat(30_000).leak();
    let model = wordy(Dialect::Chat, vec![Line::Says(long, vec![])]);
    let mut brain = Native::new(model.clone(), brief());
    assert_eq!(work(&mut brain, 3_000).await.1, Move::Done("Done.".into()));
    let body = model.bodies().pop().unwrap();
    let opening = body["messages"][1]["content"].as_str().unwrap();
    assert!(opening.contains("ää") && opening.len() < 8_200, "{} bytes", opening.len());
}

#[tokio::test]
async fn a_summary_that_is_longer_than_what_it_sums_up_is_not_taken() {
    for dialect in Dialect::ALL {
        let long: &'static str = "word ".repeat(2_000).leak();
        let mut model = FakeModel::new(dialect, reads(7, vec![Line::Says(long, vec![]), Line::Says("Done.", vec![])]));
        Arc::get_mut(&mut model).unwrap().context_tokens = 40_000;
        let (said, done) = work(&mut Native::new(model.clone(), brief()), 14_000).await;
        assert_eq!((said, done), (vec!["Done.".to_owned()], Move::Done("Done.".into())), "{dialect:?}");
        assert_eq!(model.bodies_for(Purpose::Summary).len(), 1, "{dialect:?}");
        let last = model.bodies().pop().unwrap().to_string();
        assert!(
            !last.contains("word word") && last.contains("[what happened so far]\\n→ fs.read") && last.contains("file-0"),
            "{last:.600}"
        );
    }
}

#[tokio::test]
async fn a_model_that_thinks_has_room_for_its_thoughts_when_it_sums_up() {
    for (context, output) in [(100_000, 8_000), (24_000, 3_000), (8_000, 2_000)] {
        let mut model = wordy(Dialect::Anthropic, (0..9).map(|_| Line::Says("Short.", vec![])).collect());
        Arc::get_mut(&mut model).unwrap().summary_tokens = context;
        assert_eq!(work(&mut Native::new(model.clone(), brief()), 3_000).await.1, Move::Done("Done.".into()));
        for body in model.bodies_for(Purpose::Summary) {
            assert_eq!(output_max(Dialect::Anthropic, &body), output);
            // Three bytes may be a token.
            assert!(body.to_string().len() as u64 / 3 + output < context, "{context}: {} bytes", body.to_string().len());
        }
    }
}

#[tokio::test]
async fn what_the_server_of_summaries_wants_is_not_asked_of_the_other() {
    let no = r#"{"error": {"message": "Use 'max_completion_tokens' instead."}}"#;
    let newer = |bodies: Vec<serde_json::Value>| bodies.iter().map(|body| body["max_completion_tokens"].is_u64()).collect::<Vec<_>>();
    let model = wordy(Dialect::Chat, vec![Line::Status(400, no), Line::Says("Summed up.", vec![])]);
    assert_eq!(work(&mut Native::new(model.clone(), brief()), 3_000).await.1, Move::Done("Done.".into()));
    assert_eq!(newer(model.bodies_for(Purpose::Summary)), [false, true]);
    assert!(newer(model.bodies_for(Purpose::Work)).iter().all(|newer| !newer));
    assert!(model.bodies().pop().unwrap().to_string().contains("Summed up."));
    // One that wants it and does not take it is done without.
    let model = wordy(Dialect::Chat, vec![Line::Status(400, no), Line::Status(400, no)]);
    let (said, done) = work(&mut Native::new(model, brief()), 3_000).await;
    assert_eq!((done, said.len()), (Move::Done("Done.".into()), 2));
    assert!(said[0].starts_with("no summary could be made (the model answered 400: "), "{said:?}");
}

#[tokio::test]
async fn a_summary_is_asked_for_three_times_and_then_done_without() {
    let busy = || Line::Status(503, "busy");
    let model = wordy(Dialect::Chat, vec![busy(), busy(), busy()]);
    let mut brain = Native::new(model.clone(), brief()).with_first_delay(Duration::ZERO);
    let (said, done) = work(&mut brain, 3_000).await;
    assert_eq!(done, Move::Done("Done.".into()));
    assert_eq!(model.bodies_for(Purpose::Summary).len(), 3);
    assert!(said.iter().any(|said| said.starts_with("no summary could be made (the model answered 503: busy)")), "{said:?}");
}

#[tokio::test]
async fn a_vendor_that_counts_more_leaves_room_for_the_answer() {
    for dialect in Dialect::ALL {
        let calls = (0..10).map(|n| ("fs_read", json!({"path": format!("file-{n}")}))).collect();
        let mut model = FakeModel::new(dialect, vec![Line::Says("", calls), Line::Says("Done.", vec![])]);
        let vendor = Arc::get_mut(&mut model).unwrap();
        (vendor.context_tokens, vendor.token_bytes) = (40_000, 2);
        let mut brain = Native::new(model.clone(), Brief { pins: vec!["p".repeat(30_000)], ..brief() });
        act(&mut brain, start(Vec::new())).await;
        act(&mut brain, BrainInput::Results((0..10).map(|_| output(&"x".repeat(12_000))).collect())).await;
        let body = model.bodies().pop().unwrap();
        let (input, output) = (body.to_string().len() as u64 / 2, output_max(dialect, &body));
        assert!(input + output <= 40_000, "{dialect:?}: {input} in, {output} out");
        assert!(body.to_string().contains("xxx"), "{dialect:?}: some of it fits");
    }
}

#[tokio::test]
async fn of_many_results_at_once_only_what_must_is_left_out() {
    let calls = || (0..10).map(|n| ("fs_read", json!({"path": format!("file-{n}")}))).collect();
    let mut model = FakeModel::new(Dialect::Anthropic, vec![Line::Says("", calls()), Line::Says("Done.", vec![])]);
    Arc::get_mut(&mut model).unwrap().context_tokens = 40_000;
    let mut brain = Native::new(model.clone(), brief());
    act(&mut brain, start(Vec::new())).await;
    let ends = (0..10).map(|n| output(&format!("result-{n} {}", "x".repeat(16_000)))).collect();
    act(&mut brain, BrainInput::Results(ends)).await;
    let body = model.bodies().pop().unwrap().to_string();
    let there: Vec<usize> = (0..10).filter(|n| body.contains(&format!("result-{n} "))).collect();
    assert!(there.len() >= 5 && *there.last().unwrap() == 9, "the newest stay: {there:?}");
    assert!(body.contains("[left out to save space: ") && body.len() / 4 < 36_000, "{} bytes", body.len());
}

#[tokio::test]
async fn a_request_that_was_too_long_nevertheless_is_shortened_and_made_again() {
    for (dialect, status, said) in [
        (Dialect::Anthropic, 400, r#"{"error": {"message": "prompt is too long: 212000 tokens > 200000 maximum"}}"#),
        (Dialect::Responses, 400, r#"{"error": {"message": "Your input exceeds the context window of this model."}}"#),
        (Dialect::Chat, 400, r#"{"error": {"message": "This model's maximum context length is 8192 tokens."}}"#),
        (Dialect::Gemini, 400, r#"{"error": {"message": "The input token count exceeds the maximum number of tokens allowed"}}"#),
    ] {
        let mut lines = reads(3, Vec::new());
        lines.extend([Line::Status(status, said), Line::Says("Summed up.", vec![]), Line::Says("Done.", vec![])]);
        let mut model = FakeModel::new(dialect, lines);
        Arc::get_mut(&mut model).unwrap().context_tokens = 40_000;
        let mut brain = Native::new(model.clone(), brief());
        assert_eq!(work(&mut brain, 16_000).await.1, Move::Done("Done.".into()), "{dialect:?}");
        assert!(model.bodies().last().unwrap().to_string().contains("Summed up."));
    }
    // With nothing to shorten it is an end.
    let model = FakeModel::new(Dialect::Anthropic, vec![Line::Status(400, r#"{"error": {"message": "prompt is too long"}}"#)]);
    let fault = Native::new(model, brief()).next(start(Vec::new())).await.unwrap_err();
    assert_eq!(fault.what, "the model answered 400: prompt is too long");
}
