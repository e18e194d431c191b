//! Models that go round in circles, and models that only look as if.

use crate::fake_model::{FakeModel, Line, brief, output, start};
use brain::Dialect;
use brain::{Brain, BrainFault, BrainInput, CallResult, Move, Native};
use serde_json::json;
use std::sync::Arc;

/// Reads the file of each letter in turn; then it is done.
fn reads(dialect: Dialect, letters: &str) -> Arc<FakeModel> {
    let read = |letter: char| Line::Says("", vec![("fs_read", json!({"path": letter.to_string()}))]);
    FakeModel::new(dialect, letters.chars().map(read).chain([Line::Says("Done.", vec![])]).collect())
}

/// What the person is told on the way, and the end. `answer` gives the outcome of the nth round.
async fn go(model: &Arc<FakeModel>, answer: impl Fn(usize) -> CallResult) -> (Vec<String>, Result<Move, BrainFault>) {
    let mut brain = Native::new(model.clone(), brief());
    let (mut said, mut round) = (Vec::new(), 0);
    let mut next = brain.next(start(Vec::new())).await;
    loop {
        let heard = match next {
            Ok(Move::Say(text)) => {
                said.extend(Some(text).filter(|text| text != "Done."));
                BrainInput::Continue
            }
            Ok(Move::Call(_)) => {
                round += 1;
                BrainInput::Results(vec![answer(round)])
            }
            end => return (said, end),
        };
        next = brain.next(heard).await;
    }
}

fn done() -> Result<Move, BrainFault> {
    Ok(Move::Done("Done.".into()))
}

#[tokio::test]
async fn a_model_that_goes_round_in_circles_is_told_and_then_stopped() {
    for dialect in Dialect::ALL {
        let model = reads(dialect, &"a".repeat(21));
        let (said, end) = go(&model, |_| output("the same")).await;
        let fault = end.unwrap_err();
        let want = "the model goes round in circles: 20 rounds of calls in a row brought nothing new; it makes these again and again: \
                    fs.read {\"path\":\"a\"}";
        assert_eq!((fault.what.as_str(), fault.hint.as_deref()), (want, Some("word the task differently, or use another model")));
        let bodies = model.bodies();
        assert_eq!(bodies.len(), 21, "{dialect:?}");
        let told = |at: usize| bodies[at].to_string().contains("[5 rounds of calls in a row gave what you had already; do something else");
        assert!(!told(5) && told(6), "{dialect:?}: with the sixth result and not before");
        assert_eq!(
            said,
            ["the model goes round in circles: 5 rounds of calls in a row brought nothing new; it was told so"],
            "{dialect:?}"
        );
    }
}

#[tokio::test]
async fn a_circle_is_one_whatever_its_shape() {
    let shapes = [("ab", "a, b"), ("abc", "a, b, c"), ("aab", "a, b"), ("abcb", "a, b, c"), ("abcdefgh", "")];
    for (circle, told) in shapes {
        let letters: String = circle.chars().cycle().take(circle.len() + 20).collect();
        let (_, end) = go(&reads(Dialect::Chat, &letters), |_| output("the same")).await;
        let what = end.expect_err(circle).what;
        assert!(what.starts_with("the model goes round in circles: 20 rounds "), "{circle}: {what}");
        let mut names: Vec<&str> = told.split(", ").filter(|name| !name.is_empty()).collect();
        names.retain(|name| !what.contains(&format!("{{\"path\":\"{name}\"}}")));
        assert_eq!(names, Vec::<&str>::new(), "{circle}: {what}");
        assert_eq!(what.ends_with(" and 5 more"), circle.len() == 8, "{circle}: {what}");
    }
    // No circle at all, and nothing new either.
    let (_, end) = go(&reads(Dialect::Chat, "abbacabcaacbbacbcaabbcacab"), |_| output("the same")).await;
    assert!(end.is_err());
    // Nine rounds are a long way, and what is found at its end may well be worth another look.
    let long: String = "abcdefghi".chars().cycle().take(60).collect();
    assert_eq!(go(&reads(Dialect::Chat, &long), |_| output("the same")).await, (Vec::new(), done()));
}

#[tokio::test]
async fn a_command_that_does_the_same_is_the_same_however_long_it_takes() {
    let ran = |round: usize| CallResult::Output { ok: true, value: json!({"stdout": "", "exit_code": 0, "ms": round}) };
    let (_, end) = go(&reads(Dialect::Chat, &"a".repeat(21)), ran).await;
    assert!(end.unwrap_err().what.starts_with("the model goes round in circles"));
}

#[tokio::test]
async fn who_waits_for_something_that_changes_is_left_alone() {
    let (said, end) = go(&reads(Dialect::Chat, &"a".repeat(60)), |round| output(&round.to_string())).await;
    assert_eq!((said, end), (Vec::new(), done()));
    // Twenty in a row, not in all: something new in between, and it begins again.
    let (said, end) = go(&reads(Dialect::Chat, &"ab".repeat(40)), |round| output(&(round / 20).to_string())).await;
    assert_eq!((said.len(), end), (4, done()), "it is told each time, and goes on");
    // A round is what was asked for and what came of it: the same words from two files are two things.
    let files: String = ('a'..='z').collect();
    assert_eq!(go(&reads(Dialect::Chat, &files), |_| output("")).await, (Vec::new(), done()));
    // And a refusal is an outcome as any other.
    let refused = |_| CallResult::Refused(world::Refusal::new(world::Code::Denied, "no"));
    assert!(go(&reads(Dialect::Chat, &"ab".repeat(20)), refused).await.1.is_err());
}
