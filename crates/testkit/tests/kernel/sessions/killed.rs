//! Sessions whose kernel is killed while a part of their work is delegated, and while their context is summed up: they come to the same end. And one whose write is lost in
//! the crash, and is not to be made again: its step says so.

use super::{POLICY, dies_through, run_kernel, terms};
use journal::{Filter, Options, Point};
use std::path::Path;
use testkit::bed::Bed;
use testkit::harness::Test;
use world::{Event, SessionTerms, StepStatus, TaskId};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("killed_while_a_part_is_delegated", || dies_through(Point::BeforeAck, 2, delegated)),
        Test::new("killed_while_its_context_is_summed_up", || dies_through(Point::BeforeAck, 1, summed_up)),
        Test::new("a_write_that_a_crash_cut_off_and_nobody_repeats_is_lost", lost),
    ]
}

/// What the sessions are called in the environment of their kernels.
pub const DELEGATES: &str = "delegates";
pub const SUMS_UP: &str = "sums_up";

const PARTS: &str = r#"on "What a part of the work that was done by another session found"
call submit_plan {"schema_version": "0.1", "goal": "it is known", "steps": []}
on "Iteration 1, `part`"
call submit_plan {"schema_version": "0.1", "goal": "a.txt says old", "steps": []}
on "Look into the next part"
call submit_plan {"schema_version": "0.1", "goal": "part", "steps": [{"step_id": "p", "title": "look", "tool_ref": {"name": "fs.read"}, "input": {"path": "a.txt"}}]}
on "some steps"
call submit_plan {"schema_version": "0.1", "goal": "first", "steps": [{"step_id": "r", "title": "look", "tool_ref": {"name": "fs.read"}, "input": {"path": "a.txt"}}]}
"#;

const SUMMARY: &str = "say The files a.txt and b were looked at.\n";

/// Plans until the context is full.
pub fn plans() -> String {
    let one = |goal: &str, path: &str| {
        format!(
            "schema_version: \"0.1\"\ngoal: {goal}\nsteps: [{{step_id: r, title: look for {path}, tool_ref: {{name: fs.exists}}, input: {{path: {path}}}}}]\n"
        )
    };
    let looks = [one("first", "a"), one("second", "b"), one("third", "c"), one("fourth", "d"), one("fifth", "e")];
    let end = "schema_version: \"0.1\"\ngoal: all seen\nsteps: []\n".to_owned();
    looks.into_iter().chain([end]).collect::<Vec<_>>().join("---\n")
}

/// Terms under which either happens.
pub fn terms_of(what: &str) -> SessionTerms {
    let mut terms = SessionTerms { agentic: true, ..terms() };
    let tools: &[&str] = if what == DELEGATES { &["fs.read", "fs.write"] } else { &["fs.read", "fs.exists"] };
    terms.constraints.tool_allowlist = tools.iter().map(|tool| (*tool).to_owned()).collect();
    terms.context_tokens = Some(if what == DELEGATES { 1_000 } else { 900 });
    if what == DELEGATES {
        terms.planner = "model".to_owned();
    }
    terms
}

fn bed(answers: &str) -> Result<Bed, String> {
    let files = [("a.txt", "old\n"), (".skep/policy.yaml", POLICY)].map(|(path, text)| (path.to_owned(), text.to_owned()));
    let bed = Bed::new(&files)?;
    let script = bed.folder().join("answers.txt");
    std::fs::write(&script, answers).map_err(|error| error.to_string())?;
    let provider = format!("providers: {{p: {{url: 'script:{}', dialect: anthropic, free: true}}}}", script.display());
    bed.write_home("config.yml", &format!("{provider}\nmodels: {{tactical: p/m, operational: p/m}}\n"))?;
    run_kernel(&bed, "trust", None)?;
    Ok(bed)
}

/// One session from its start to its end, killed on the way or not. What stays the same is told; `None` where the kernel survived.
fn live(what: &str, answers: &str, kill: Option<(Point, u64)>) -> Result<Option<Vec<String>>, String> {
    let bed = bed(answers)?;
    if let Some((point, nth)) = kill
        && !run_kernel(&bed, what, Some(format!("{point:?}:{nth}")))?
    {
        return Ok(None);
    }
    if run_kernel(&bed, what, None)? {
        return Err("a kernel without a fault died".to_owned());
    }
    told(&bed.home()).map(Some)
}

fn delegated(kill: Option<(Point, u64)>) -> Result<Option<Vec<String>>, String> {
    live(DELEGATES, PARTS, kill)
}

fn summed_up(kill: Option<(Point, u64)>) -> Result<Option<Vec<String>>, String> {
    live(SUMS_UP, SUMMARY, kill)
}

/// What the session is called whose lost write is answered with a no.
pub const LOSES: &str = "loses";

pub const WRITES: &str = r#"
schema_version: "0.1"
goal: write
steps:
  - {step_id: r, title: look, tool_ref: {name: fs.read}, input: {path: a.txt}}
  - {step_id: w, title: write, tool_ref: {name: shell.run}, input: {command: [sh, -c, "echo w >> log"]}, depends_on: [r], max_retries: 3}
"#;

/// Killed at one commit after the other, until one falls between the act and its outcome.
fn lost() -> Result<(), String> {
    let (mut nth, mut rounds) = (0, 0);
    while rounds < 8 {
        nth += 1;
        let bed = bed("")?;
        if !run_kernel(&bed, LOSES, Some(format!("{:?}:{nth}", Point::BeforeAck)))? {
            // Which commits stand together is a matter of chance, and on a slow machine the act and its outcome may.
            (nth, rounds) = (0, rounds + 1);
            continue;
        }
        if run_kernel(&bed, LOSES, None)? {
            return Err("a kernel without a fault died".to_owned());
        }
        let (journal, _) = journal::Journal::open(&bed.home(), Options::default()).map_err(|error| error.to_string())?;
        let records = journal.read(&Filter::default()).map_err(|error| error.to_string())?;
        let events = records.iter().map(|record| serde_json::from_str::<Event>(&record.line).map_err(|error| error.to_string()));
        let events = events.collect::<Result<Vec<Event>, String>>()?;
        let is_lost = events.iter().any(|event| matches!(event, Event::CallLost(call) if call.tool == "shell.run"));
        let end = events
            .iter()
            .find_map(|event| if let Event::StepFinished(end) = event { Some(end).filter(|end| end.step == "w") } else { None });
        let end = end.ok_or("the step has no end")?;
        if !is_lost {
            // The control: whatever else is cut off is made again by itself, or asked about and made.
            assert_eq!((end.status, &end.error), (StepStatus::Succeeded, &None), "killed at {nth}");
            continue;
        }
        let error = end.error.as_ref().ok_or("a write that was lost and not made again has no error")?;
        assert_eq!((end.status, end.attempts), (StepStatus::Failed, 1), "a write of which nobody knows is not tried again");
        assert_eq!((error.code.as_str(), error.karnevil9.as_str()), ("lost", "EXECUTION_ERROR"), "{}", error.message);
        assert!(error.message.contains("may have taken effect"), "{}", error.message);
        assert!(events.iter().any(|event| matches!(event, Event::TaskFailed(_))), "its session fails");
        return Ok(());
    }
    Err("no kernel died between the write and its outcome in eight rounds".to_owned())
}

/// How each step, part and session ended, each once, and then whether something was summed up: how full a context is depends on how long the
/// steps took, so when it is summed up, and how often, may differ.
fn told(home: &Path) -> Result<Vec<String>, String> {
    let (journal, _) = journal::Journal::open(home, Options::default()).map_err(|error| error.to_string())?;
    let records = journal.read(&Filter::default()).map_err(|error| error.to_string())?;
    let of = |task: Option<TaskId>| task.map(|task| task.to_string()).unwrap_or_default();
    let (mut told, mut summaries) = (Vec::new(), std::collections::BTreeSet::new());
    for record in &records {
        let event: Event = serde_json::from_str(&record.line).map_err(|error| error.to_string())?;
        told.extend(match event {
            Event::StepFinished(e) => Some(format!("{} plan {} step {} {}", of(e.task), e.plan, e.step, e.status.as_str())),
            Event::DelegationStarted(e) => Some(format!("{} gives a part to {}", of(e.task), e.child)),
            Event::DelegationFinished(e) => Some(format!("{} has it back, {}: {}", of(e.task), e.ok, e.findings)),
            Event::ContextSummarized(e) => {
                summaries.insert(format!("{} summed up in {} bytes", of(e.task), e.bytes));
                None
            }
            Event::TaskFinished(e) => Some(format!("{} is done: {}", of(e.task), e.summary)),
            Event::TaskFailed(e) => return Err(format!("{} failed: {}", of(e.task), e.reason)),
            _ => None,
        });
    }
    told.extend(summaries);
    Ok(told)
}
