//! The built-in brain against a model that says what it is told to, in each vendor's words.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod bounds;
mod circles;
mod dialects;
mod fake_model;
mod trouble;
mod window;

use brain::Dialect;
use brain::{Brain, BrainInput, CallResult, Move, Native};
use fake_model::{FakeModel, Line, act, brief, output, start, system, wish};
use serde_json::{Value, json};

#[tokio::test]
async fn a_task_with_parallel_calls_runs_in_every_dialect() {
    for dialect in Dialect::ALL {
        let both = vec![("fs_read", json!({"path": "a"})), ("shell_run", json!({"command": ["ls"]}))];
        let model = FakeModel::new(dialect, vec![Line::Says("I look.", both), Line::Says("It was\na typo.", vec![])]);
        let mut brain = Native::new(model.clone(), brief());
        let (said, next) = act(&mut brain, start(Vec::new())).await;
        let wanted = vec![wish("fs.read", json!({"path": "a"})), wish("shell.run", json!({"command": ["ls"]}))];
        assert_eq!((said, next), (vec!["I look.".to_owned()], Move::Call(wanted)), "{dialect:?}");
        let refused = CallResult::Refused(
            world::Refusal::new(world::Code::Denied, "no shell").hint("read instead").detail(json!({"current_state": "resting"})),
        );
        let (said, next) = act(&mut brain, BrainInput::Results(vec![output("text of a"), refused])).await;
        assert_eq!((said.join("\n"), next), ("It was\na typo.".into(), Move::Done("It was\na typo.".into())), "{dialect:?}");

        let asked = model.asked.lock().unwrap();
        let path = match dialect {
            Dialect::Anthropic => "/v1/messages",
            Dialect::Responses => "/v1/responses",
            Dialect::Chat => "/v1/chat/completions",
            Dialect::Gemini => "/v1beta/models/m-1:streamGenerateContent?alt=sse",
        };
        assert_eq!(asked[1].1, path);
        let second = asked[1].2.to_string();
        for part in
            ["fix the bug", "text of a", "no shell", "read instead", "is_retryable", "current_state", "fs_read", "Your role is worker"]
        {
            assert!(second.contains(part), "{dialect:?} lacks `{part}`: {second}");
        }
        assert!(!second.contains("fs.read"), "no vendor takes a dot in a name");
    }
}

#[tokio::test]
async fn a_brain_that_was_killed_wants_its_open_calls_again() {
    for dialect in Dialect::ALL {
        let model = FakeModel::new(dialect, vec![Line::Says("", vec![("fs_read", json!({"path": "a"}))]), Line::Says("Done.", vec![])]);
        let mut first = Native::new(model.clone(), brief());
        let (_, wanted) = act(&mut first, start(Vec::new())).await;
        let memory = vec![first.checkpoint().unwrap().bytes];
        assert_eq!(first.checkpoint(), None, "what is kept is kept once");
        drop(first);

        let mut second = Native::new(model.clone(), brief());
        let (_, again) = act(&mut second, start(memory.clone())).await;
        assert_eq!(again, wanted);
        let (_, done) = act(&mut second, BrainInput::Results(vec![output("x")])).await;
        assert_eq!(done, Move::Done("Done.".into()));
        let memory = [memory, vec![second.checkpoint().unwrap().bytes]].concat();

        // Killed once more, behind the last answer: nothing is asked of the model again.
        let mut third = Native::new(model.clone(), brief());
        assert_eq!(act(&mut third, start(memory)).await.1, Move::Done("Done.".into()));
        assert_eq!(model.bodies().len(), 2);
    }
}

#[tokio::test]
async fn a_budget_that_a_person_must_raise_parks_the_task() {
    let model = FakeModel::new(Dialect::Chat, vec![Line::Waits(7), Line::Says("Ok.", vec![])]);
    let mut brain = Native::new(model, brief());
    assert_eq!(brain.next(start(Vec::new())).await, Ok(Move::Wait(world::ReviewId(7))));
    assert_eq!(act(&mut brain, start(Vec::new())).await.1, Move::Done("Ok.".into()));
}

#[tokio::test]
async fn the_prompt_is_a_few_lines_about_the_place_and_none_about_tools() {
    for dialect in Dialect::ALL {
        for (may_change, line) in [(true, "A person reviews your changes"), (false, "You only read")] {
            let model = FakeModel::new(dialect, vec![Line::Says("Ok.", vec![])]);
            let workflow = Some("Workflow state: test_writing. Writable paths: tests/** only.".to_owned());
            let mut brain = Native::new(model.clone(), brain::Brief { may_change, workflow, ..brief() });
            act(&mut brain, start(Vec::new())).await;
            let body = &model.bodies()[0];
            let said = system(dialect, body);
            for part in [line, "Your role is worker", "Workflow state: test_writing."] {
                assert!(said.contains(part), "{dialect:?} lacks `{part}`: {said}");
            }
            assert!(said.lines().count() <= 8 && said.len() < 1200, "a few lines: {said}");
            let unsaid = ["fs_read", "fs.read", "shell", "Does it."];
            assert!(unsaid.iter().all(|word| !said.contains(word)), "{dialect:?} names a tool: {said}");
            let rest = [&body["messages"], &body["input"], &body["contents"]].map(Value::to_string).join("");
            assert!(unsaid.iter().all(|word| !rest.contains(word)), "{dialect:?} names a tool: {rest}");
            assert!(body["tools"].to_string().contains("fs_read"), "they are declared as functions");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_is_passed_on_before_the_next_one_is_there() {
    for dialect in Dialect::ALL {
        let model = FakeModel::new(dialect, vec![Line::Held("One.\n two.", 3)]);
        let mut brain = Native::new(model.clone(), brief());
        let patience = std::time::Duration::from_secs(60);
        let first = tokio::time::timeout(patience, brain.next(start(Vec::new()))).await;
        assert_eq!(first.unwrap_or_else(|_| panic!("{dialect:?} keeps the line back")), Ok(Move::Say("One.".into())));
        model.gate.add_permits(1);
        let (said, done) = act(&mut brain, BrainInput::Continue).await;
        assert_eq!((said, done), (vec![" two.".to_owned()], Move::Done("One.\n two.".into())), "{dialect:?}");
    }
}
