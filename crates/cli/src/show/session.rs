//! Sessions: the list, one in full, and the graph of its plan while it is carried out.

mod detail;
mod event;
mod progress;

use super::measure::{ago, count, dollars, plural};
use super::task::quoted;
use super::{Line, Page, Tone, table};
use wire::SessionStatus;
use wire::method::session::{SessionReplayResult, SessionRow, SessionView};
use wire::method::task::{TaskContinueResult, TaskUsageView};

pub use detail::{detail, failed};
pub use event::event_line;
pub use progress::{SessionChange, SessionProgress};

/// The sign of a session, as tasks have them.
pub fn sign(status: SessionStatus) -> Line {
    let (tone, mark) = match status {
        SessionStatus::Created => (Tone::Faint, "◌"),
        SessionStatus::Planning | SessionStatus::Running => (Tone::Name, "●"),
        SessionStatus::AwaitingApproval | SessionStatus::Paused => (Tone::Wait, "◍"),
        SessionStatus::Completed => (Tone::Good, "✓"),
        SessionStatus::Failed => (Tone::Bad, "✗"),
        SessionStatus::Aborted => (Tone::Faint, "○"),
    };
    Line::new().add(tone, mark).plain(" ")
}

/// A status in words, in its colour.
pub fn status(status: SessionStatus) -> Line {
    let words = status.as_str().replace('_', " ");
    match status {
        SessionStatus::Created | SessionStatus::Aborted => Line::new().faint(words),
        SessionStatus::Planning | SessionStatus::Running => Line::new().name(words),
        SessionStatus::AwaitingApproval | SessionStatus::Paused => Line::new().wait(words),
        SessionStatus::Completed => Line::new().good(words),
        SessionStatus::Failed => Line::new().bad(words),
    }
}

/// What was spent so far: `$0.02, 1,234 tokens`; nothing where no model was asked.
pub fn spent(usage: Option<&TaskUsageView>) -> Option<String> {
    let usage = usage?;
    let tokens = format!("{} tokens", count(usage.figures.tokens()));
    Some(match (usage.figures.unpriced, usage.figures.micros) {
        (1.., 0) => format!("unknown cost, {tokens}"),
        (1.., micros) => format!("{} and more, {tokens}", dollars(micros)),
        (0, micros) => format!("{}, {tokens}", dollars(micros)),
    })
}

pub fn list(rows: &[SessionRow], now_ms: i64) -> Page {
    if rows.is_empty() {
        let mut page = Page(vec![Line::new().faint("no sessions yet")]);
        page.because("try", "skep run \"…\", or skep plan \"…\" to look at a plan first");
        return page;
    }
    let row = |row: &SessionRow| {
        let money = row.usage.as_ref().map(|usage| if usage.figures.unpriced > 0 { "?".to_owned() } else { dollars(usage.figures.micros) });
        let review = row.review.map(|review| format!(" {review}")).unwrap_or_default();
        let plan = if row.agentic && row.iteration > 1 { format!(" of plan {}", row.iteration) } else { String::new() };
        let kind = match row.of {
            Some(of) => format!("part of {of} "),
            None if row.mode.as_str() != "live" => format!("{} ", row.mode.as_str()),
            None => String::new(),
        };
        vec![
            sign(row.status).name(row.task.to_string()),
            status(row.status).name(review),
            Line::new().faint(ago(row.ended_ms.unwrap_or(row.queued_ms), now_ms)),
            Line::new().plain(format!("{}/{}", count(row.steps.succeeded), count(row.steps.total))).faint(plan),
            Line::new().plain(money.unwrap_or_else(|| "—".to_owned())),
            Line::new().faint(kind).join(quoted(&row.text)),
        ]
    };
    let head = ["SESSION", "STATUS", "WHEN", "STEPS", "COST", "TASK"].map(|name| Line::new().faint(name)).to_vec();
    table(std::iter::once(head).chain(rows.iter().map(row)).collect())
}

/// What `session abort` says.
pub fn aborted(view: &SessionView) -> Page {
    let kept = super::task::kept(&view.task).unwrap_or_else(|| "it had changed nothing".to_owned());
    Page(vec![Line::new().good("✓ ").name(view.task.task.to_string()).plain(format!(" aborted; {kept}"))])
}

/// What `session resume` says and leaves.
pub fn resumed(result: &TaskContinueResult) -> Page {
    let task = result.task.task;
    let mut page = Page(vec![Line::new().good("✓ ").name(task.to_string()).plain(" goes on where it stopped")]);
    page.because("next", &format!("skep session watch {task}"));
    page
}

/// What came of a replay.
pub fn replayed(result: &SessionReplayResult) -> Page {
    let what = format!("{}, {}", plural(result.records, "record"), plural(result.steps, "step"));
    let difference = result.again.as_ref().and_then(|again| again.difference.as_deref());
    if result.findings.is_empty() && difference.is_none() {
        let mut page = Page(vec![Line::new().good("✓ ").name(result.of.to_string()).plain(format!(" holds: {what}, nothing differs"))]);
        if let Some(again) = &result.again {
            let what = format!(
                "{}, {} and {} follow; {}",
                plural(again.plans, "plan"),
                plural(again.steps, "step"),
                plural(again.calls, "call"),
                again.digest
            );
            page.because("again", &what);
        }
        return page;
    }
    let mut page = Page(vec![Line::new().bad("✗ ").name(result.of.to_string()).plain(format!(" does not hold: {what}"))]);
    result.findings.iter().for_each(|finding| page.because("why", finding));
    if let Some((again, difference)) = result.again.as_ref().zip(difference) {
        page.because("why", &format!("record {} does not follow: {difference}", again.differs_at.unwrap_or_default()));
    }
    page
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::show::plan::tests::plan;
    use crate::show::task::tests::task;
    use wire::method::session::{PlanReview, StepCounts};
    use wire::method::task::TaskStatus;
    use wire::{
        IterationRecord, PlanConstraints, PlanFinding, PolicyProfile, ReviewId, SessionLimits, SessionMode, SessionTerms, TaskId,
        UsageTotals, ZoneId,
    };

    pub(crate) fn terms() -> SessionTerms {
        SessionTerms {
            agentic: true,
            mode: SessionMode::Live,
            planner: "model:strategic".into(),
            limits: SessionLimits {
                max_steps: 100,
                max_iterations: 15,
                max_duration_ms: Some(600_000),
                max_cost_micros: Some(2_000_000),
                max_tokens: None,
            },
            profile: PolicyProfile { allowed_paths: vec!["src/**".into()], require_approval_for_writes: true, ..PolicyProfile::default() },
            constraints: PlanConstraints { tool_denylist: vec!["net.fetch".into()], ..PlanConstraints::default() },
            critics: true,
            model_critic: false,
            memory: true,
            context_tokens: None,
            plan_only: false,
            unattended: false,
            priority: 3,
        }
    }

    pub(crate) fn usage(micros: u64) -> TaskUsageView {
        let figures = UsageTotals { requests: 1, input: 1_000, output: 234, micros, ..UsageTotals::default() };
        TaskUsageView { figures, guessed: Default::default(), held: Default::default() }
    }

    pub(crate) fn view() -> SessionView {
        let mut shown = task(4, TaskStatus::Running);
        shown.session = true;
        (shown.prompt, shown.process, shown.usage) = ("report the prices".into(), "session.4".into(), Some(usage(20_000)));
        SessionView {
            task: shown,
            status: SessionStatus::Running,
            terms: terms(),
            seq: 40,
            last_seq: 40,
            until_ms: None,
            of: None,
            iteration: 2,
            plan_number: 2,
            steps: StepCounts { total: 7, running: 1, succeeded: 2, failed: 1, skipped: 1 },
            steps_made: 5,
            plan: Some(plan()),
            plan_replaced: None,
            reviews_of_plans: vec![PlanReview {
                iteration: 1,
                round: 0,
                findings: vec![PlanFinding {
                    critic: "tools".into(),
                    at: "steps[0].tool_ref".into(),
                    message: "there is no tool `fs.wrote`".into(),
                    blocks: true,
                }],
                rejected: true,
                off: false,
                most: None,
            }],
            iterations: vec![IterationRecord {
                iteration: 1,
                goal: "Find the prices".into(),
                succeeded: 2,
                micros: 10_000,
                ..IterationRecord::default()
            }],
            lessons: vec![crate::show::memory::tests::lesson(3)],
            delegate: None,
            delegated: vec!["the prices are in euros".into()],
            futile: None,
            context: None,
            limits_reached: vec!["max_steps: 100 of 100".into()],
        }
    }

    #[test]
    fn a_list_shows_how_far_each_is() {
        let row = |id: u64, status, steps: (u64, u64)| SessionRow {
            task: TaskId(id),
            text: "report the prices".into(),
            status,
            zone: ZoneId(1),
            branch: "main".into(),
            agentic: false,
            mode: SessionMode::Live,
            planner: "file".into(),
            priority: 3,
            queued_ms: 0,
            ended_ms: None,
            iteration: 1,
            steps: StepCounts { succeeded: steps.0, total: steps.1, ..StepCounts::default() },
            review: None,
            usage: None,
            of: None,
        };
        let mut rows = vec![
            row(9, SessionStatus::Running, (4, 12)),
            row(8, SessionStatus::AwaitingApproval, (1, 3)),
            row(7, SessionStatus::Completed, (3, 3)),
            row(6, SessionStatus::Planning, (0, 0)),
        ];
        (rows[0].agentic, rows[0].iteration, rows[0].usage) = (true, 3, Some(usage(12_000)));
        (rows[1].review, rows[1].mode) = (Some(ReviewId(3)), SessionMode::DryRun);
        rows[2].ended_ms = Some(4_000);
        let expected = "\
SESSION   STATUS                 WHEN    STEPS           COST    TASK
● task-9  running                5s ago  4/12 of plan 3  $0.012  \"report the pr…
◍ task-8  awaiting approval r-3  5s ago  1/3             —       dry_run \"repor…
✓ task-7  completed              1s ago  3/3             —       \"report the pr…
● task-6  planning               5s ago  0/0             —       \"report the pr…
";
        assert_eq!(list(&rows, 5_000).render(false, Some(80)), expected);
        assert!(list(&[], 0).render(false, None).starts_with("no sessions yet\n"));
    }

    #[test]
    fn a_replay_says_what_holds_and_what_does_not() {
        let mut result = SessionReplayResult { of: TaskId(4), records: 1_204, steps: 7, findings: Vec::new(), again: None };
        assert_eq!(replayed(&result).render(false, None), "✓ task-4 holds: 1,204 records, 7 steps, nothing differs\n");
        result.findings.push("its status is running, and its records say failed".into());
        assert!(replayed(&result).render(false, None).starts_with("✗ task-4 does not hold: 1,204 records, 7 steps\n  ↳ why  its status"));
    }
}
