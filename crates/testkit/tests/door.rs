//! What the door does around a tool, on a real kernel: lanes, a tool that rests, redirects, second tries, observation, a task's share.

#[path = "door/calls.rs"]
mod calls;
#[path = "door/web.rs"]
mod web;

use kernel::{End, Kernel, NewTask, Outcome, Reply, Request, Stop, Tuning};
use sandbox::Launcher;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use testkit::bed::Bed;
use testkit::harness::{self, Test};
use world::{Event, Mode, Pid, Refusal, ReviewId, TaskId, Terms, ZoneId};

fn main() -> ExitCode {
    harness::main(&[
        Test::new("calls_that_meet_run_in_order_and_others_at_once", calls::lanes),
        Test::new("a_resting_tool_names_the_others", calls::rests),
        Test::new("a_task_keeps_its_share_of_output_and_no_more", calls::share),
        Test::new("detailed_observation_holds_what_went_in_and_came_out", calls::observed),
        Test::new("a_redirect_to_another_host_is_a_call_of_its_own", web::redirects),
        Test::new("every_second_try_is_on_record", web::retried),
    ])
}

/// A kernel with one task that waits for an answer, so that calls can be made in it.
pub struct Door {
    pub kernel: Arc<Kernel>,
    pub zone: ZoneId,
    pub task: TaskId,
    _bed: Bed,
}

pub struct Setup {
    pub policy: &'static str,
    pub tools: &'static [&'static str],
    pub tuning: Tuning,
}

/// Plays a test on a door. The launcher is forked before there are threads.
pub fn play<F: Future<Output = Result<(), String>>>(setup: Setup, test: impl FnOnce(Arc<Door>) -> F) -> Result<(), String> {
    let launcher = Launcher::start().map_err(|error| error.to_string())?;
    let policy = format!(
        "capabilities:\n  - {{ name: parks, match: {{ syscall: fs.list }}, action: require_review, reason: park }}\n{}",
        setup.policy
    );
    let bed = Bed::new(&[("a.txt".into(), "one\n".into()), ("b.txt".into(), "two\n".into()), (".skep/policy.yaml".into(), policy)])?;
    for (index, tool) in setup.tools.iter().enumerate() {
        bed.write_home(&format!("tools/tool-{index}/tool.yaml"), tool)?;
    }
    let script = bed.home().with_extension("script");
    std::fs::write(&script, "call fs.list path=.\ndone\n").map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let kernel = bed.boot_tuned(launcher, setup.tuning).await.map_err(|fault| fault.to_string())?;
        let opened = async {
            let proposal = kernel.init(&bed.project()).await?;
            let zone = kernel.trust(&bed.project(), &proposal.hash).await?.zone;
            let brain = Some(format!("script:{}", script.display()));
            let new =
                NewTask { path: bed.project(), mode: Mode::Act, prompt: "park".into(), brain, priority: 0, calls_max: None, record: false };
            let task = kernel.add(new).await?.task;
            kernel.settled(task).await?;
            Ok((zone, task))
        };
        let (zone, task) = opened.await.map_err(|stop: Stop| stop.to_string())?;
        test(Arc::new(Door { kernel, zone, task, _bed: bed })).await
    })
}

impl Door {
    pub async fn call(&self, tool: &str, input: Value) -> Result<Outcome, String> {
        let request = Request::new(Pid(3), Some(self.task), self.zone, tool, input);
        self.kernel.make(&request).await.map_err(|fault| fault.to_string())
    }

    pub fn events(&self) -> Result<Vec<Event>, String> {
        let records = self.kernel.ledger.read(&journal::Filter::default()).map_err(|fault| fault.to_string())?;
        records.iter().map(|record| serde_json::from_str(&record.line).map_err(|error| error.to_string())).collect()
    }

    pub async fn allow(&self, review: ReviewId, terms: Terms) -> Result<(), String> {
        self.kernel.answer(review, Reply::Once { terms }, "human", None).await.map(drop).map_err(|stop| stop.to_string())
    }
}

pub fn pending(outcome: &Outcome) -> Result<ReviewId, String> {
    match &outcome.end {
        End::Pending(Refusal { review: Some(review), .. }) => Ok(*review),
        other => Err(format!("no question: {other:?}")),
    }
}

pub fn done(outcome: &Outcome) -> Result<(bool, &Value), String> {
    match &outcome.end {
        End::Done { ok, value } => Ok((*ok, value)),
        other => Err(format!("not done: {other:?}")),
    }
}

pub fn path(name: &str) -> Value {
    json!({ "path": name })
}
