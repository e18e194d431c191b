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
        Test::new("others_go_on_while_one_waits_for_a_person", || play(ASKS, asked)),
        Test::new("what_a_cancelled_session_ran_is_ended", || play("", cancelled)),
        Test::new("one_of_higher_priority_has_a_lower_one_frozen", || play("", super::preempted::frozen)),
        Test::new("ten_thousand_steps_cost_the_same_each", || play("", flat)),
    ]
}

const ASKS: &str = "  - { name: asks, match: { syscall: fs.write }, action: require_review, reason: look }\n";

fn play<F: Future<Output = Result<(), String>>>(rule: &str, test: impl FnOnce(Arc<Stage>) -> F) -> Result<(), String> {
    let policy = format!("{rule}  - {{ name: runs, match: {{ syscall: '*' }}, action: allow }}\n");
    stage::play(Setup { policy, files: vec![("a.txt".into(), "old\n".into())], ..Setup::default() }, test)
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

async fn five(stage: Arc<Stage>) -> Result<(), String> {
    let steps = (0..12).map(|n| step(&format!("s{n}"), "fs.read", "{\"path\": \"a.txt\"}", &[]));
    let id = start(&stage, terms(), plan(steps)).await?;
    ended(&stage, id).await?;
    let events = stage.events()?;
    let most = most_at_once(&events, |event| match event {
        Event::StepStarted(_) => 1,
        Event::StepFinished(_) => -1,
        _ => 0,
    });
    assert_eq!(most, 5);
    Ok(())
}

async fn rooms(stage: Arc<Stage>) -> Result<(), String> {
    let mut ids = Vec::new();
    for _ in 0..6 {
        let sleeps = step("s", "shell.run", "{\"command\": [\"sleep\", \"0.5\"]}", &[]);
        ids.push(start(&stage, terms(), plan([sleeps])).await?);
    }
    for id in &ids {
        ended(&stage, *id).await?;
    }
    let events = stage.events()?;
    let mut open = BTreeSet::new();
    let mut most = 0;
    for event in events {
        match event {
            Event::CallAdmitted(call) if call.step.is_some() => drop(open.insert(call.call)),
            Event::CallFinished(end) => drop(open.remove(&end.call)),
            _ => {}
        }
        most = most.max(open.len());
    }
    assert_eq!(most, 4, "six sessions want a room each");
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
