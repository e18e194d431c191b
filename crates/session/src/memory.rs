//! Lessons: told to the planner at a session's beginning, learned at its end, each on record.

use crate::SessionEnd;
use crate::work::SessionWork;
use workflow::{LessonDraft, RECALLED_MAX, evicted_lessons, expired_lessons, extract_lesson, rank_lessons};
use world::event::{LessonForgotten, LessonLearned, LessonRecalled};
use world::{Event, IterationRecord, LessonId, Pid, SessionMode, Stop, TaskId};

/// Who forgets what nobody needs any more.
const FORGETTER: &str = "kernel";

/// Finds the lessons that fit the task, and records that its planner is told of them. Once in a session, before its first plan.
pub(crate) async fn recall(work: &SessionWork) -> Result<(), Stop> {
    let ledger = work.host.ledger();
    if !work.terms.memory || !ledger.events(work.id, &["lesson.recalled"])?.is_empty() {
        return Ok(());
    }
    let text = ledger.prompt(&work.task()?).await?;
    let (pid, task) = (work.pid, Some(work.id));
    let pending = ledger.commit(|world, now_ms| {
        let expired = expired_lessons(&world.lessons, now_ms);
        let ranked = rank_lessons(&text, &world.lessons).into_iter().map(|ranked| ranked.id);
        let lessons: Vec<LessonId> = ranked.filter(|id| !expired.contains(id)).take(RECALLED_MAX).collect();
        let recalled = (!lessons.is_empty()).then(|| LessonRecalled { pid, task, lessons }.into());
        (forgotten(expired, "nobody recalled it for 30 days").into_iter().chain(recalled).collect(), ())
    })?;
    Ok(pending.durable().await?)
}

/// Keeps what a session taught, and makes room for it. A part of another session, one that only planned, and one that changed nothing for real teach nothing.
pub(crate) async fn learn(work: &SessionWork, end: &SessionEnd) -> Result<(), Stop> {
    let (ok, came) = match end {
        SessionEnd::Done(summary) => (true, summary),
        SessionEnd::Failed(reason) => (false, reason),
        SessionEnd::Asked(_) | SessionEnd::Stopped { .. } => return Ok(()),
    };
    let ledger = work.host.ledger();
    let is_part = work.look(|_, session| session.of.is_some())?;
    let teaches = work.terms.memory && !work.terms.plan_only && work.terms.mode == SessionMode::Live && !is_part;
    // Its end could not be recorded, and comes again.
    let is_learned = ledger.look(|world| world.lessons.values().any(|lesson| lesson.task == Some(work.id)));
    if !teaches || is_learned {
        return Ok(());
    }
    let text = ledger.prompt(&work.task()?).await?;
    let Some(draft) = extract_lesson(&text, ok, came, &iterations(work)?) else { return Ok(()) };
    let redacted = |text: &str| ledger.redactor.text(text).into_owned();
    // A secret at the end of the summary may have lost its own end, by which it is known.
    let summary: String =
        redacted(&text).split_whitespace().collect::<Vec<_>>().join(" ").chars().take(world::limits::LESSON_SUMMARY_MAX).collect();
    let LessonDraft { ok, text, tools, .. } = draft;
    let (text, pid, task): (String, Pid, Option<TaskId>) = (redacted(&text), work.pid, Some(work.id));
    let pending = ledger.commit(|world, now_ms| {
        let expired = expired_lessons(&world.lessons, now_ms);
        let evicted = evicted_lessons(&world.lessons, &expired);
        let lesson = world.next_lesson();
        let mut events: Vec<Event> = Vec::new();
        events.extend(forgotten(expired, "nobody recalled it for 30 days"));
        events.extend(forgotten(evicted, "a newer one takes its place"));
        events.push(LessonLearned { pid, task, lesson, summary, ok, text, tools }.into());
        (events, ())
    })?;
    Ok(pending.durable().await?)
}

fn forgotten(lessons: Vec<LessonId>, reason: &str) -> Option<Event> {
    let (by, reason) = (FORGETTER.to_owned(), reason.to_owned());
    (!lessons.is_empty()).then(|| LessonForgotten { pid: Pid::KERNEL, task: None, lessons, by, reason }.into())
}

/// What the iterations came to, as far as the world remembers them; the one that a failure cut short is not among them.
fn iterations(work: &SessionWork) -> Result<Vec<IterationRecord>, Stop> {
    work.look(|_, session| session.iterations.iter().cloned().collect())
}
