//! What an attack on sessions found: criteria that were asked of a shortened output, scripts that could not plan, time that passed for frozen steps,
//! and tries without end.

use super::steps::{ended, plan, settled, start, step};
use super::{SECRET, terms};
use kernel::{Reply, SlotLimits};
use std::sync::Arc;
use testkit::harness::Test;
use testkit::stage::{self, Setup, Stage};
use world::{Event, SessionTerms, TaskId, TaskState};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("criteria_are_asked_of_exactly_what_a_step_gave", || play(criteria)),
        Test::new("a_script_makes_plans", || play(scripted)),
        Test::new("no_time_passes_for_a_step_that_is_frozen", || play(frozen)),
        Test::new("a_file_gives_every_plan_that_it_has", || play(replanned)),
        Test::new("a_session_whose_files_are_gone_stops_and_says_why", || play(unreadable)),
    ]
}

fn play<F: Future<Output = Result<(), String>>>(test: impl FnOnce(Arc<Stage>) -> F) -> Result<(), String> {
    let policy = "  - { name: runs, match: { syscall: '*' }, action: allow }\n".to_owned();
    stage::play(Setup { policy, files: vec![("a.txt".into(), format!("old {SECRET}\n"))], ..Setup::default() }, test)
}

/// A step that must give what its criterion wants.
fn judged(tool: &str, input: &str, criterion: &str) -> String {
    format!("{{\"step_id\": \"s\", \"tool_ref\": {{\"name\": \"{tool}\"}}, \"input\": {input}, \"success_criteria\": [\"{criterion}\"]}}")
}

/// More than a brain is told of an output, with a word in its middle; a secret; and what acts on a terminal. Each with its opposite.
async fn criteria(stage: Arc<Stage>) -> Result<(), String> {
    let long = "{\"command\": [\"sh\", \"-c\", \"seq 1 5000; echo MID; seq 1 2000\"]}";
    let coloured = "{\"command\": [\"printf\", \"\\\\033[31mX\"]}";
    let file = "{\"path\": \"a.txt\"}";
    let length = format!("count(content) == {}", SECRET.len() + 5);
    let secret = format!("content contains '{SECRET}'");
    let cases = [
        ("shell.run", long, "stdout contains 'MID'", true),
        ("shell.run", long, "not stdout contains 'MID'", false),
        ("shell.run", coloured, "count(stdout) == 6", true),
        ("fs.read", file, length.as_str(), true),
        ("fs.read", file, "content contains '[redacted]'", false),
        ("fs.read", file, secret.as_str(), true),
    ];
    for (tool, input, criterion, holds) in cases {
        let wanted = if holds { TaskState::Done } else { TaskState::Failed };
        let id = start(&stage, terms(), plan([judged(tool, input, criterion)])).await?;
        let task = settled(&stage.kernel, id).await?;
        assert_eq!(task.state, wanted, "{criterion}: {:?}", task.summary);
        // What the record lacks is not judged again, and what it has is.
        let again = stage.kernel.reexecute_session(id).await.map_err(|stop| stop.to_string())?;
        assert_eq!(again.divergence, None, "{criterion}");
        if criterion.contains(SECRET) {
            continue;
        }
        // The same as what the session's task wants.
        let mut wants = terms();
        let of_step = criterion.replace("stdout", "s.stdout").replace("content ", "s.content ").replace("(content)", "(s.content)");
        wants.constraints.success_criteria = vec![of_step.clone()];
        let id = start(&stage, wants, plan([step("s", tool, input, &[])])).await?;
        let task = settled(&stage.kernel, id).await?;
        assert_eq!(task.state, wanted, "{of_step}: {:?}", task.summary);
    }
    let left = std::fs::read_dir(stage.bed.home().join("vault")).map_err(|error| error.to_string())?.count();
    assert_eq!(left, 0, "what was kept exactly goes with its session");
    Ok(())
}

/// The first answer is no plan, and the second is asked for with what was found.
async fn scripted(stage: Arc<Stage>) -> Result<(), String> {
    let script = stage.bed.home().with_extension("planner");
    let read = plan([step("r", "fs.read", "{\"path\": \"a.txt\"}", &[])]).replace('\n', " ");
    std::fs::write(&script, format!("done no plan\ndone {read}\n")).map_err(|error| error.to_string())?;
    let scripted = SessionTerms { planner: format!("brain:script:{}", script.display()), ..terms() };
    let new = kernel::NewSession::new(stage.bed.project(), "read it".to_owned(), scripted.clone());
    let id = stage.kernel.add_session(new).await.map_err(|stop| stop.to_string())?.task;
    ended(&stage, id).await?;
    assert_eq!(count(&stage, id, |event| matches!(event, Event::PlanRejected(_)))?, 1);
    // One that has nothing to say fails, and is not asked for ever.
    std::fs::write(&script, "say nothing\n").map_err(|error| error.to_string())?;
    let new = kernel::NewSession::new(stage.bed.project(), "read it".to_owned(), scripted);
    let id = stage.kernel.add_session(new).await.map_err(|stop| stop.to_string())?.task;
    let task = settled(&stage.kernel, id).await?;
    assert_eq!(task.state, TaskState::Failed, "{:?}", task.summary);
    assert!(task.summary.as_deref().is_some_and(|why| why.contains("said nothing")), "{:?}", task.summary);
    Ok(())
}

fn count(stage: &Stage, id: TaskId, is_counted: impl Fn(&Event) -> bool) -> Result<usize, String> {
    let records = stage.kernel.ledger.read(&journal::Filter { task: Some(id.to_string()), ..journal::Filter::default() });
    let records = records.map_err(|fault| fault.to_string())?;
    let events = records.iter().map(|record| serde_json::from_str::<Event>(&record.line).map_err(|error| error.to_string()));
    Ok(events.collect::<Result<Vec<Event>, String>>()?.iter().filter(|event| is_counted(event)).count())
}

async fn frozen(stage: Arc<Stage>) -> Result<(), String> {
    stage.kernel.slots.set_limits(SlotLimits { slots_max: 1, ..SlotLimits::default() });
    let sleeps = |time: &str, limit: u64| {
        format!(
            "{{\"step_id\": \"s\", \"tool_ref\": {{\"name\": \"shell.run\"}}, \"input\": {{\"command\": [\"sleep\", \"{time}\"]}}, \"timeout_ms\": {limit}}}"
        )
    };
    let of = |priority| SessionTerms { priority, ..terms() };
    let low = start(&stage, of(5), plan([sleeps("1", 4_000)])).await?;
    while !stage.kernel.workspaces.rooms().iter().any(|room| room.task == low && !room.jobs.is_empty()) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    // Longer than the other may take in all.
    let high = start(&stage, of(1), plan([sleeps("5", 60_000)])).await?;
    ended(&stage, high).await?;
    ended(&stage, low).await?;
    assert_eq!(count(&stage, low, |event| matches!(event, Event::WorkspacePaused(_)))?, 1, "it was frozen");
    // Where nobody freezes it, its time is over.
    let late = start(&stage, of(3), plan([sleeps("30", 300)])).await?;
    let task = settled(&stage.kernel, late).await?;
    assert!(task.summary.as_deref().is_some_and(|why| why.contains("300 ms")), "{:?}", task.summary);
    Ok(())
}

async fn replanned(stage: Arc<Stage>) -> Result<(), String> {
    let fails =
        "{\"step_id\": \"r\", \"tool_ref\": {\"name\": \"fs.read\"}, \"input\": {\"path\": \"none\"}, \"failure_policy\": \"replan\"}";
    let works = step("r", "fs.read", "{\"path\": \"a.txt\"}", &[]);
    let plans = [plan([fails.to_owned()]), plan([fails.to_owned()]), plan([fails.to_owned()]), plan([works])].join("\n---\n");
    let id = start(&stage, terms(), plans).await?;
    ended(&stage, id).await?;
    assert_eq!(count(&stage, id, |event| matches!(event, Event::PlanAccepted(_)))?, 4);
    Ok(())
}

/// Its plan is nowhere any more: tried some times, it stops with the reason on record.
async fn unreadable(stage: Arc<Stage>) -> Result<(), String> {
    let id = start(&stage, terms(), plan([step("ask", "fs.list", "{\"path\": \".\"}", &[])])).await?;
    let TaskState::Parked { review } = settled(&stage.kernel, id).await?.state else { return Err("it did not ask".to_owned()) };
    let plan = stage.kernel.ledger.task(id).ok().and_then(|task| task.session?.plan).ok_or("it has no plan")?;
    let (folder, name) = plan.blob.split_at(2);
    std::fs::remove_file(stage.bed.home().join("blobs").join(folder).join(name)).map_err(|error| error.to_string())?;
    stage.answer(review, Reply::yes()).await?;
    let task = tokio::time::timeout(std::time::Duration::from_secs(60), settled(&stage.kernel, id))
        .await
        .map_err(|_| "it is tried for ever")??;
    assert_eq!(task.state, TaskState::Stopped, "{:?}", task.summary);
    assert!(count(&stage, id, |event| matches!(event, Event::TaskStarted(_)))? <= 7);
    Ok(())
}
