//! What the door does around a tool, on a real kernel: lanes, a tool that rests, redirects, second tries, observation, a task's share.

mod calls;
mod web;

use kernel::{CallEnd, CallOutcome, Tuning};
use serde_json::{Value, json};
use std::sync::Arc;
use testkit::harness::Test;
use testkit::stage::{self, Stage};
use world::{Refusal, ReviewId};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("calls_that_meet_run_in_order_and_others_at_once", calls::lanes),
        Test::new("writes_side_by_side_make_their_folder_once", calls::folders),
        Test::new("a_resting_tool_names_the_others", calls::rests),
        Test::new("a_task_keeps_its_share_of_output_and_no_more", calls::share),
        Test::new("detailed_observation_holds_what_went_in_and_came_out", calls::observed),
        Test::new("reads_wait_for_no_sync_and_everything_else_does", calls::late),
        Test::new("an_admission_is_written_with_its_end_or_when_that_takes_time", calls::held),
        Test::new("what_is_shown_is_remembered_no_longer_than_it_holds", calls::shown),
        Test::new("a_redirect_to_another_host_is_a_call_of_its_own", web::redirects),
        Test::new("a_redirect_stays_within_a_tool_s_permissions", web::permitted),
        Test::new("every_second_try_is_on_record", web::retried),
        Test::new("a_request_that_is_cancelled_hangs_up", web::cancelled),
    ]
}

pub struct Setup {
    pub policy: &'static str,
    pub tools: &'static [&'static str],
    pub tuning: Tuning,
}

pub fn play<F: Future<Output = Result<(), String>>>(setup: Setup, test: impl FnOnce(Arc<Stage>) -> F) -> Result<(), String> {
    let files = [("a.txt", "one\n"), ("b.txt", "two\n")].map(|(path, text)| (path.to_owned(), text.to_owned())).into();
    let tools = setup.tools.iter().enumerate();
    let home = tools.map(|(index, tool)| (format!("tools/tool-{index}/tool.yaml"), (*tool).to_owned())).collect();
    stage::play(stage::Setup { policy: setup.policy.to_owned(), files, home, tuning: setup.tuning, workers: None }, test)
}

pub fn pending(outcome: &CallOutcome) -> Result<ReviewId, String> {
    match &outcome.end {
        CallEnd::Pending(Refusal { review: Some(review), .. }) => Ok(*review),
        other => Err(format!("no question: {other:?}")),
    }
}

pub fn done(outcome: &CallOutcome) -> Result<(bool, &Value), String> {
    match &outcome.end {
        CallEnd::Done { ok, value } => Ok((*ok, value)),
        other => Err(format!("not done: {other:?}")),
    }
}

pub fn path(name: &str) -> Value {
    json!({ "path": name })
}
