//! What happens in a session, in one line, for every story that is told from records.

use crate::show::Line;
use crate::show::measure::{bytes, count, dollars, plural};
use wire::{ContextVerdict, Event, PlanFinding, StepStatus};

/// What an event of a session says; `None` for all others.
pub fn event_line(event: &Event) -> Option<Line> {
    Some(match event {
        Event::SessionCreated(e) => {
            let kind = if e.terms.agentic { ", agentic" } else { "" };
            let line = Line::new().plain(format!("session, {}{kind}, planned by {}", e.terms.mode.as_str(), e.terms.planner));
            match &e.of {
                Some(of) => line.faint("  part of ").name(of.to_string()),
                None => line,
            }
        }
        Event::PlannerRequested(e) => {
            let round = if e.round > 0 { format!(", round {}", e.round + 1) } else { String::new() };
            Line::new().name("● ").plain(format!("planning: plan {}{round}", e.iteration)).faint(format!("  by {}", e.planner))
        }
        Event::PlanReceived(e) => Line::new().faint("  ").plain(format!("the planner wrote {}", bytes(e.bytes))),
        Event::PlanCriticized(e) if e.off => Line::new().wait("! ").plain("nobody looks at plans: critics are off"),
        Event::PlanCriticized(e) if e.findings.is_empty() => Line::new().good("✓ ").plain("critics found nothing"),
        Event::PlanCriticized(e) => Line::new().wait("! ").plain(first(&e.findings)),
        Event::PlanRejected(e) => Line::new().bad("✗ ").plain("plan sent back: ").plain(first(&e.findings)),
        Event::PlanAccepted(e) if e.steps == 0 => Line::new().good("✓ ").plain("the planner says that it is done"),
        Event::PlanAccepted(e) => Line::new()
            .good("✓ ")
            .strong(format!("plan {}", e.plan))
            .plain("  ")
            .plain(&e.goal)
            .faint(format!("  {}", plural(e.steps.into(), "step"))),
        Event::PlanReplaced(e) => Line::new().wait("↺ ").plain(format!("plan {} is given up: ", e.plan)).plain(&e.reason),
        Event::StepStarted(e) => {
            let again = if e.attempt > 1 { format!("  try {}", e.attempt) } else { String::new() };
            Line::new().name("● ").strong(&e.step).faint(format!("  {}", e.tool)).wait(again)
        }
        Event::StepFinished(e) => {
            let why = e.error.as_ref().map(|error| format!("  {}: {}", error.code, error.message)).unwrap_or_default();
            match e.status {
                StepStatus::Succeeded => Line::new().good("✓ ").strong(&e.step).plain(why),
                StepStatus::Skipped => Line::new().faint("○ ").strong(&e.step).faint("  skipped").faint(why),
                StepStatus::Failed | StepStatus::Running => Line::new().bad("✗ ").strong(&e.step).plain(why),
            }
        }
        Event::SessionCheckpointed(e) => {
            let one = &e.iteration;
            let told = format!("plan {} is over: {} done, {} failed, {} skipped", one.iteration, one.succeeded, one.failed, one.skipped);
            let cost = if one.tokens > 0 { format!("  {}, {} tokens", dollars(one.micros), count(one.tokens)) } else { String::new() };
            Line::new().faint("─ ").plain(told).faint(cost)
        }
        Event::LimitExceeded(e) => Line::new().wait("◍ ").plain(format!("{} is reached: {} of {}", e.limit, count(e.used), count(e.max))),
        Event::FutilityDetected(e) => {
            Line::new().wait("◍ ").plain("it gets nowhere: ").plain(&e.reason).faint(format!("  ({})", e.pattern))
        }
        Event::ContextAssessed(e) => {
            let told = format!("the planner's context holds {} of {} tokens", count(e.used), count(e.budget));
            let then = if e.verdict == ContextVerdict::Ok { "" } else { e.verdict.as_str() };
            Line::new().faint("─ ").plain(told).wait(if then.is_empty() { String::new() } else { format!("  {then}") })
        }
        Event::ContextSummarized(e) => Line::new().faint("─ ").plain(format!("what was found is summed up in {}", bytes(e.bytes))),
        Event::DelegationStarted(e) => {
            let may = format!("  which may use {} and {} tokens", dollars(e.micros), count(e.tokens));
            Line::new().name("● ").plain("a part is delegated to ").name(e.child.to_string()).faint(may)
        }
        Event::DelegationFinished(e) => {
            let mark = if e.ok { Line::new().good("✓ ") } else { Line::new().bad("✗ ") };
            mark.name(e.child.to_string()).plain(" found: ").plain(&e.findings)
        }
        Event::LessonLearned(e) => {
            let line = Line::new().faint("─ ").plain("learned ").name(e.lesson.to_string()).plain("  ").plain(&e.summary);
            if e.ok { line } else { line.faint("  (of a failure)") }
        }
        Event::LessonRecalled(e) => {
            let lessons: Vec<String> = e.lessons.iter().map(ToString::to_string).collect();
            Line::new().faint("─ ").plain("the planner is told ").name(lessons.join(", "))
        }
        Event::LessonForgotten(e) => {
            let lessons: Vec<String> = e.lessons.iter().map(ToString::to_string).collect();
            Line::new().name(lessons.join(", ")).plain(format!("  {}", e.reason)).faint(format!("  by {}", e.by))
        }
        _ => return None,
    })
}

/// The first finding that blocks, else the first, and how many more there are.
fn first(findings: &[PlanFinding]) -> String {
    let Some(one) = findings.iter().find(|finding| finding.blocks).or(findings.first()) else { return String::new() };
    let at = if one.at.is_empty() { String::new() } else { format!("{}: ", one.at) };
    match findings.len() {
        1 => format!("{at}{}", one.message),
        more => format!("{at}{}, and {} more", one.message, more - 1),
    }
}
