//! Which steps run at once, and what each costs.

use super::terms;
use kernel::{Kernel, NewSession, Reply};
use std::collections::BTreeSet;
use std::sync::Arc;
use testkit::harness::Test;
use testkit::stage::{self, Setup, Stage};
use world::{Event, SessionTerms, StepStatus, Task, TaskId, TaskState};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("five_steps_of_a_session_run_at_once", || play("", five)),
        Test::new("four_rooms_work_at_once_whoever_asks", || play("", rooms)),
        Test::new("the_operator_says_how_much_runs_at_once", || set("sessions: {steps: 3, rooms: 2}\n", said)),
        Test::new("a_template_has_places_of_its_own", || set("sessions: {templates: {default: 1}}\n", one_of_a_template)),
        Test::new("others_go_on_while_one_waits_for_a_person", || play(ASKS, asked)),
        Test::new("what_a_cancelled_session_ran_is_ended", || play("", cancelled)),
        Test::new("one_of_higher_priority_has_a_lower_one_frozen", || play("", super::preempted::frozen)),
        Test::new("ten_thousand_steps_cost_the_same_each", || play("", flat)),
    ]
}

const ASKS: &str = "  - { name: asks, match: { syscall: fs.write }, action: require_review, reason: look }\n";

fn setup(rule: &str) -> Setup {
    let policy = format!("{rule}  - {{ name: runs, match: {{ syscall: '*' }}, action: allow }}\n");
    Setup { policy, files: vec![("a.txt".into(), "old\n".into())], ..Setup::default() }
}

fn play<F: Future<Output = Result<(), String>>>(rule: &str, test: impl FnOnce(Arc<Stage>) -> F) -> Result<(), String> {
    stage::play(setup(rule), test)
}

/// With the operator's `config.yml`.
fn set<F: Future<Output = Result<(), String>>>(config: &str, test: impl FnOnce(Arc<Stage>) -> F) -> Result<(), String> {
    stage::play(Setup { home: vec![("config.yml".into(), config.to_owned())], ..setup("") }, test)
}

pub(super) fn plan(steps: impl IntoIterator<Item = String>) -> String {
    let steps: Vec<String> = steps.into_iter().collect();
    format!("{{\"schema_version\": \"0.1\", \"goal\": \"test\", \"steps\": [{}]}}", steps.join(",\n"))
}

pub(super) fn step(id: &str, tool: &str, input: &str, after: &[&str]) -> String {
    let after: Vec<String> = after.iter().map(|id| format!("\"{id}\"")).collect();
    format!(
        "{{\"step_id\": \"{id}\", \"title\": \"{id}\", \"tool_ref\": {{\"name\": \"{tool}\"}}, \"input\": {input}, \"depends_on\": [{}]}}",
        after.join(", ")
    )
}

pub(super) async fn start(stage: &Stage, terms: SessionTerms, plan: String) -> Result<TaskId, String> {
    let new = NewSession { plan: Some(plan), ..NewSession::new(stage.bed.project(), "test".to_owned(), terms) };
    stage.kernel.add_session(new).await.map(|added| added.task).map_err(|stop| stop.to_string())
}

pub(super) async fn settled(kernel: &Kernel, id: TaskId) -> Result<Task, String> {
    kernel.tasks.settled(id).await.map_err(|stop| stop.to_string())
}

pub(super) async fn ended(stage: &Stage, id: TaskId) -> Result<Task, String> {
    let task = settled(&stage.kernel, id).await?;
    if task.state != TaskState::Done {
        return Err(format!("{id} is {}: {:?}", task.state.as_str(), task.summary));
    }
    Ok(task)
}

/// The most that were between a beginning and its end at once.
fn most_at_once(events: &[Event], change: impl Fn(&Event) -> i64) -> i64 {
    let (mut now, mut most) = (0, 0);
    for event in events {
        now += change(event);
        most = most.max(now);
    }
    most
}

/// The most steps of a session of twelve reads that ran at once.
async fn most_steps(stage: &Stage) -> Result<i64, String> {
    let steps = (0..12).map(|n| step(&format!("s{n}"), "fs.read", "{\"path\": \"a.txt\"}", &[]));
    let id = start(stage, terms(), plan(steps)).await?;
    ended(stage, id).await?;
    Ok(most_at_once(&stage.events()?, |event| match event {
        Event::StepStarted(start) if start.task == Some(id) => 1,
        Event::StepFinished(end) if end.task == Some(id) => -1,
        _ => 0,
    }))
}

async fn five(stage: Arc<Stage>) -> Result<(), String> {
    assert_eq!(most_steps(&stage).await?, 5);
    Ok(())
}

/// The most rooms that worked at once while six sessions wanted one each.
async fn most_rooms(stage: &Stage) -> Result<usize, String> {
    let mut ids = Vec::new();
    for _ in 0..6 {
        let sleeps = step("s", "shell.run", "{\"command\": [\"sleep\", \"0.5\"]}", &[]);
        ids.push(start(stage, terms(), plan([sleeps])).await?);
    }
    for id in &ids {
        ended(stage, *id).await?;
    }
    let mut open = BTreeSet::new();
    let mut most = 0;
    for event in stage.events()? {
        match event {
            Event::CallAdmitted(call) if call.step.is_some() && call.task.is_some_and(|task| ids.contains(&task)) => {
                open.insert(call.call);
            }
            Event::CallFinished(end) => drop(open.remove(&end.call)),
            _ => {}
        }
        most = most.max(open.len());
    }
    Ok(most)
}

async fn rooms(stage: Arc<Stage>) -> Result<(), String> {
    assert_eq!(most_rooms(&stage).await?, 4);
    Ok(())
}

/// A change of the settings holds for what begins after it.
async fn said(stage: Arc<Stage>) -> Result<(), String> {
    assert_eq!((most_steps(&stage).await?, most_rooms(&stage).await?), (3, 2));
    stage.bed.write_home("config.yml", "sessions: {steps: 1, rooms: 3}\n")?;
    stage.kernel.refresh_settings().await;
    assert_eq!((most_steps(&stage).await?, most_rooms(&stage).await?), (1, 3));
    Ok(())
}

async fn one_of_a_template(stage: Arc<Stage>) -> Result<(), String> {
    assert_eq!((most_steps(&stage).await?, most_rooms(&stage).await?), (5, 1));
    stage.bed.write_home("config.yml", "sessions: {templates: {code-executor: 1}}\n")?;
    stage.kernel.refresh_settings().await;
    assert_eq!(most_rooms(&stage).await?, 4, "another template's places are not theirs");
    Ok(())
}

async fn asked(stage: Arc<Stage>) -> Result<(), String> {
    let steps = [
        step("ask", "fs.write", "{\"path\": \"b.txt\", \"content\": \"b\"}", &[]),
        step("one", "fs.read", "{\"path\": \"a.txt\"}", &[]),
        step("two", "fs.read", "{\"path\": \"a.txt\"}", &["one"]),
        step("after", "fs.exists", "{\"path\": \"b.txt\"}", &["ask"]),
    ];
    let id = start(&stage, terms(), plan(steps)).await?;
    let task = settled(&stage.kernel, id).await?;
    let TaskState::Parked { review } = task.state else { return Err(format!("it is {}", task.state.as_str())) };
    let begun = task.session.and_then(|session| session.plan).map(|plan| plan.begun).ok_or("it has no plan")?;
    let status = |step: &str| begun.get(step).map(|step| step.status);
    assert_eq!((status("one"), status("two")), (Some(StepStatus::Succeeded), Some(StepStatus::Succeeded)), "they do not wait");
    assert_eq!((status("ask"), status("after")), (Some(StepStatus::Running), None));
    stage.answer(review, Reply::Once { terms: world::Terms::default() }).await?;
    let task = settled(&stage.kernel, id).await?;
    let begun = task.session.and_then(|session| session.plan).map(|plan| plan.begun).ok_or("it has no plan")?;
    assert!(begun.values().all(|step| step.status == StepStatus::Succeeded && step.attempts == 1), "{begun:?}");
    Ok(())
}

async fn cancelled(stage: Arc<Stage>) -> Result<(), String> {
    let steps = [
        step("slow", "shell.run", "{\"command\": [\"sh\", \"-c\", \"sleep 30; echo late > late.txt\"]}", &[]),
        step("after", "fs.write", "{\"path\": \"b.txt\", \"content\": \"b\"}", &["slow"]),
    ];
    let id = start(&stage, terms(), plan(steps)).await?;
    let runs = || stage.kernel.running_calls().iter().any(|call| call.task == Some(id));
    while !runs() {
        tokio::task::yield_now().await;
    }
    stage.kernel.cancel(id, "test").await.map_err(|stop| stop.to_string())?;
    assert!(!runs(), "nothing of it runs any more");
    let task = settled(&stage.kernel, id).await?;
    assert_eq!(task.state, TaskState::Cancelled);
    assert_eq!(stage.kernel.slots.counts(), (0, 0), "its place is free");
    let again = start(&stage, terms(), plan([step("s", "shell.run", "{\"command\": [\"true\"]}", &[])])).await?;
    ended(&stage, again).await.map(drop)
}

/// Reads beside each other, ten thousand of them: more records than a process may make in a minute, and the last ones as fast as the first.
async fn flat(stage: Arc<Stage>) -> Result<(), String> {
    const STEPS: usize = 10_000;
    let mut terms = terms();
    terms.limits.max_steps = STEPS as u64;
    terms.critics = false;
    let steps = (0..STEPS).map(|n| step(&format!("s{n}"), "fs.exists", "{\"path\": \"a.txt\"}", &[]));
    let id = start(&stage, terms, plan(steps)).await?;
    let task = ended(&stage, id).await?;
    let done = task.session.as_deref().map_or(0, |session| session.steps_made);
    assert_eq!(done, STEPS as u64);
    let filter = journal::Filter { task: Some(id.to_string()), kinds: vec!["step.finished".into()], ..journal::Filter::default() };
    let records = stage.kernel.ledger.read(&filter).map_err(|fault| fault.to_string())?;
    let at = |nth: usize| records.get(nth).map_or(0, |record| record.at_ms);
    let (first, last) = (at(2_500) - at(500), at(STEPS - 1) - at(STEPS - 2_001));
    assert!(last <= first * 3 + 200, "two thousand steps took {first} ms at the beginning and {last} ms at the end");
    Ok(())
}
