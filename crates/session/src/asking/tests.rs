//! Questions that fail, and how long they are asked.

use super::*;
use brain::Dialect;
use brain::model::{ModelFault, ModelInfo, ModelResponse, Purpose, ResponseBody};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use world::ReviewId;

/// What a server does with one request.
#[derive(Clone)]
enum Reply {
    Says(&'static str),
    /// A call of `submit_plan`, with so many pieces of ten bytes as its arguments.
    Calls(usize),
    Status(u16),
    Fails(RetryClass),
    Never,
}

/// A server that answers with these, one after the other, and with the last for ever.
struct Server(Mutex<VecDeque<Reply>>, Arc<AtomicUsize>);

/// Chunks that it has, and those that were taken.
struct Body(VecDeque<String>, Arc<AtomicUsize>);

impl ResponseBody for Body {
    fn chunk(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<bytes::Bytes>, ModelFault>> + Send + '_>> {
        let chunk = self.0.pop_front().map(bytes::Bytes::from);
        self.1.fetch_add(usize::from(chunk.is_some()), Ordering::Relaxed);
        Box::pin(async move { Ok(chunk) })
    }
}

impl Model for Server {
    fn info(&self, _: Purpose) -> ModelInfo {
        ModelInfo { dialect: Dialect::Chat, model: "m".into(), context_tokens: 8000, output_tokens_max: 1000 }
    }

    fn send(&self, _: Purpose, _: String, _: Vec<u8>) -> Pin<Box<dyn Future<Output = Result<ModelResponse, ModelFault>> + Send + '_>> {
        let mut replies = self.0.lock();
        let taken = self.1.clone();
        let reply = if replies.len() > 1 { replies.pop_front() } else { replies.front().cloned() };
        Box::pin(async move {
            let (status, chunks) = match reply.unwrap_or(Reply::Never) {
                Reply::Never => std::future::pending().await,
                Reply::Fails(retry) => return Err(ModelFault { what: "it failed".into(), retry, hint: None }),
                Reply::Status(status) => (status, vec![r#"{"error": {"message": "not now"}}"#.to_owned()]),
                Reply::Says(text) => {
                    let delta = serde_json::json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
                    let end = serde_json::json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
                    (200, vec![format!("data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n")])
                }
                Reply::Calls(pieces) => {
                    let delta = |n: usize| {
                        let function = serde_json::json!({"name": if n == 0 { "submit_plan" } else { "" }, "arguments": "0123456789"});
                        serde_json::json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c", "function": function}]}, "finish_reason": null}]})
                    };
                    let end = serde_json::json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
                    let pieces = (0..pieces).map(|n| format!("data: {}\n\n", delta(n)));
                    (200, pieces.chain([format!("data: {end}\n\ndata: [DONE]\n\n")]).collect())
                }
            };
            let body = Box::new(Body(chunks.into(), taken));
            Ok(ModelResponse { status, retry_after: None, is_final: false, is_refusal: false, is_unreachable: false, provider: None, body })
        })
    }
}

const QUICK: AskingPatience = AskingPatience {
    tries_max: 2,
    delay_min: Duration::from_millis(1),
    delay_max: Duration::from_millis(4),
    whole: Duration::from_millis(400),
};

#[track_caller]
fn check(replies: &[Reply], expected: &str, notes: &[&str]) {
    let server = Server(Mutex::new(replies.iter().cloned().collect()), Arc::default());
    let question = SingleQuestion { purpose: Purpose::Work, system: "s", user: "u", tools: &[], output_tokens: 100, answer_bytes_max: 10 };
    let said = Mutex::new(Vec::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let came = runtime.block_on(ask_patiently(&server, &question, &QUICK, &|text| said.lock().push(text)));
    let came = match came {
        Ok(answer) => format!("says {}", answer.text),
        Err(PlannerFault::Failed(why)) => format!("failed: {why}"),
        Err(PlannerFault::Asked(review)) => format!("asked {review}"),
        Err(PlannerFault::Stopped { reason, cause }) => format!("stopped {cause:?}: {reason}"),
        Err(PlannerFault::Stop(stop)) => format!("stop: {stop}"),
    };
    assert_eq!(came, expected);
    assert_eq!(*said.lock(), notes);
}

#[test]
fn a_question_is_asked_again_when_that_may_help() {
    use Reply::*;
    check(&[Says("a plan")], "says a plan", &[]);
    check(&[Status(503), Says("a plan")], "says a plan", &[]);
    let again = "the model answered 503: not now; asking again, 2 of 2";
    check(&[Status(503), Status(503), Says("a plan")], "says a plan", &[again]);
    let gave_up = "stopped Model: the model answered 503: not now, 3 times in a row (try again later, or name a second model in `models` to fall back on)";
    check(&[Status(503)], gave_up, &[again]);
    check(&[Status(404)], "stopped Model: the model answered 404: not now", &[]);
    check(&[Fails(RetryClass::Final)], "failed: it failed", &[]);
    check(&[Fails(RetryClass::NeedsReview(ReviewId(4)))], "asked r-4", &[]);
    check(&[Fails(RetryClass::Waiting), Says("a plan")], "says a plan", &["waiting: it failed"]);
    check(&[Fails(RetryClass::Blocked(RetryCause::Budget))], "stop: it failed", &[]);
}

#[test]
fn a_model_that_never_answers_stops_the_session_in_time() {
    check(&[Reply::Never], "stopped Time: the model gave no answer within 400 ms", &[]);
}

#[test]
fn no_more_is_read_than_is_wanted() {
    check(&[Reply::Says("0123456789 and much more")], "says 0123456789 and much more", &[]);
}

#[test]
fn no_more_of_a_plan_that_is_handed_in_is_read_than_of_one_that_is_said() {
    let ask = |pieces: usize| {
        let server = Server(Mutex::new([Reply::Calls(pieces)].into()), Arc::default());
        let tool = brain::ToolSpec { name: "submit_plan".into(), description: String::new(), input_schema: serde_json::json!({}) };
        let (system, user, tools, answer_bytes_max) = ("s", "u", &[tool][..], 100);
        let question = SingleQuestion { purpose: Purpose::Work, system, user, tools, output_tokens: 100, answer_bytes_max };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let answer = runtime.block_on(ask_patiently(&server, &question, &QUICK, &|_| ())).unwrap();
        (answer, server.1.load(Ordering::Relaxed))
    };
    let (answer, taken) = ask(500_000);
    assert_eq!((answer.text.len(), answer.calls.len(), taken), (110, 0, 11), "it is cut behind its bound, and no more is read");
    // The control: one that fits is handed in.
    let (answer, taken) = ask(10);
    assert_eq!((answer.calls.len(), taken), (1, 11));
}

#[test]
fn delays_grow_and_stay_within_their_bounds() {
    let patience = AskingPatience::default();
    let ms = |tries, chance| patience.delay(tries, chance).as_millis();
    assert_eq!((ms(0, 0), ms(0, 999)), (500, 1124));
    assert_eq!((ms(2, 0), ms(2, 999)), (1500, 4497));
    assert_eq!((ms(40, 0), ms(40, 999)), (11_250, 15_000));
    assert_eq!(ms(u32::MAX, u64::MAX), 15_000);
}
