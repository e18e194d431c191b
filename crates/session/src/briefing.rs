//! What a planner is told, gathered: the task, the tools, and what is known of the work so far.

use crate::Planner;
use crate::resume::PlanningPast;
use crate::work::SessionWork;
use workflow::{PlanningRequest, RecalledLesson, SessionMemory, ToolDescription, tools_within};
use world::{Event, Fault, FaultKind, Session, Stop};

/// What a planner without a model of its own may be told at once, where the terms say nothing.
const CONTEXT_TOKENS: u64 = 100_000;
/// Tools that are only for people, and those that a step has no use for.
const NOT_FOR_PLANS: [&str; 3] = [gate::SANDBOX_RUN, "brain.run", "brain.use"];

/// How many tokens a request may have.
pub(crate) fn context_budget(work: &SessionWork, planner: &dyn Planner) -> u64 {
    let own = planner.context_tokens();
    let wanted = work.terms.context_tokens;
    wanted.into_iter().chain(own).min().unwrap_or(CONTEXT_TOKENS)
}

/// What the planner is asked for.
pub(crate) async fn request(work: &SessionWork, past: &PlanningPast, iteration: u32, round: u32) -> Result<PlanningRequest, Stop> {
    let task = work.task()?;
    let Some(session) = task.session.as_deref() else { return Ok(PlanningRequest::default()) };
    let ledger = work.host.ledger();
    let text = ledger.prompt(&task).await?;
    // What the summary stands for is not told twice.
    let iterations = session.iterations.iter().filter(|record| record.iteration > session.summed_until).cloned().collect();
    let digest = ledger.journal().vault().digest(format!("planner {} {iteration} {round}", work.id).as_bytes());
    let question = format!("{text} {}", session.iterations.back().map_or("", |record| record.goal.as_str()));
    Ok(PlanningRequest {
        constraints: work.terms.constraints.clone(),
        tools: tools_within(tools(work), &work.terms.constraints),
        agentic: work.terms.agentic,
        iteration,
        round,
        asked: past.received,
        failure: past.failure.clone(),
        criticism: past.criticism.clone(),
        iterations,
        kept_until: session.kept_until,
        summary: session.summary.as_deref().map(|blob| kept_text(work, blob)).transpose()?,
        remembered: remembered(work, session, &question)?,
        findings: session.findings.clone(),
        lessons: lessons(work)?,
        steps_max: work.terms.limits.max_steps.saturating_sub(session.steps_made),
        nonce: nonce(&digest),
        text,
    })
}

/// A mark out of a digest: sixteen letters. Without figures it has the same size in tokens whatever it is.
pub(crate) fn nonce(digest: &str) -> String {
    let letter = |c: char| c.to_digit(16).and_then(|value| char::from_digit(value + 10, 26)).unwrap_or('z');
    digest.chars().take(16).map(letter).collect()
}

fn tools(work: &SessionWork) -> Vec<ToolDescription> {
    let manifests = work.host.tools().list().map(tool::RegisteredTool::manifest);
    let fit = manifests.filter(|manifest| !NOT_FOR_PLANS.contains(&manifest.name.as_str()));
    let described = fit.map(|manifest| ToolDescription {
        name: manifest.name.clone(),
        version: manifest.version.clone(),
        description: manifest.description.clone(),
        read_only: manifest.read_only,
        input_schema: manifest.input_schema.clone(),
    });
    described.collect()
}

pub(crate) fn kept_text(work: &SessionWork, blob: &str) -> Result<String, Stop> {
    let bytes = work.host.ledger().blob(blob)?;
    Ok(String::from_utf8(bytes).map_err(|error| Fault::new(FaultKind::Bug, "what is kept of a session is no text", error))?)
}

/// What older steps gave that fits: of iterations that are summed up, or told in one line each.
fn remembered(work: &SessionWork, session: &Session, question: &str) -> Result<Vec<String>, Stop> {
    let until = session.kept_until.max(session.summed_until);
    if until == 0 {
        return Ok(Vec::new());
    }
    Ok(memory_of(work)?.search(question, until))
}

/// What the session remembers of its steps, as the journal has it.
pub(crate) fn memory_of(work: &SessionWork) -> Result<SessionMemory, Stop> {
    let mut memory = SessionMemory::default();
    for event in work.host.ledger().events(work.id, &["session.checkpointed"])? {
        if let Event::SessionCheckpointed(checkpointed) = event {
            memory.add(&checkpointed.iteration);
        }
    }
    Ok(memory)
}

/// The lessons that were recalled for this session, as far as they are not forgotten.
fn lessons(work: &SessionWork) -> Result<Vec<RecalledLesson>, Stop> {
    let events = work.host.ledger().events(work.id, &["lesson.recalled"])?;
    let ids = events.into_iter().filter_map(|event| match event {
        Event::LessonRecalled(recalled) => Some(recalled.lessons),
        _ => None,
    });
    let ids: Vec<_> = ids.flatten().collect();
    Ok(work.host.ledger().look(|world| {
        let known = ids.iter().filter_map(|id| Some((*id, world.lessons.get(id)?)));
        known.map(|(id, lesson)| RecalledLesson { id, ok: lesson.ok, summary: lesson.summary.clone(), text: lesson.text.clone() }).collect()
    }))
}
