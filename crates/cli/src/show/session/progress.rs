//! A session while it goes on: its last known state, moved on record by record, and drawn as a graph that fits a screen.
//!
//! **Invariant.** A record that is told twice changes nothing the second time: what the kernel showed may hold what it then sends.

use super::detail::course;
use super::{event_line, sign, spent, status};
use crate::record::ParsedRecord;
use crate::show::measure::duration_ms;
use crate::show::plan::{self, DrawOptions};
use crate::show::progress::frame;
use crate::show::task::quoted;
use crate::show::{Line, Page};
use std::collections::HashMap;
use wire::method::plan::{StepView, would_text};
use wire::method::session::SessionView;
use wire::{CallId, ContextVerdict, Event, ReviewId, SessionMode, SessionStatus, StepStatus};

/// Lines above and below the graph.
const HEAD_AND_FOOT: usize = 4;

/// The call that takes its changes into the project.
const MERGE: &str = "merge.apply";

/// What a record did to what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// Nothing, or what the drawing shows by itself.
    Shown,
    /// Another plan is in force; it must be asked for.
    NewPlan,
    /// What runs in its sandbox was frozen or goes on; which steps that is must be asked for.
    Frozen,
    /// A person must answer.
    Asks(ReviewId),
    /// The question has its answer.
    Answered(ReviewId),
    /// It ended, or stands still until somebody takes it up.
    Over,
}

/// No copy of it is made, as it is moved on at each of very many records.
#[derive(Debug)]
pub struct SessionProgress {
    pub view: SessionView,
    /// Where in the plan a step is.
    places: HashMap<String, usize>,
    /// What the calls of a dry run would have done.
    would: HashMap<CallId, String>,
}

impl SessionProgress {
    pub fn new(view: SessionView) -> SessionProgress {
        let mut progress = SessionProgress { view, places: HashMap::new(), would: HashMap::new() };
        progress.index();
        progress
    }

    /// Takes another look at the whole session.
    pub fn renew(&mut self, view: SessionView) {
        self.view = view;
        self.index();
    }

    fn index(&mut self) {
        let steps = self.view.plan.iter().flat_map(|plan| &plan.steps);
        self.places = steps.enumerate().map(|(place, step)| (step.step.clone(), place)).collect();
    }

    /// A step of the plan that is shown.
    fn step(&self, plan: u32, name: &str) -> Option<&StepView> {
        let place = *self.places.get(name)?;
        self.view.plan.as_ref().filter(|_| plan == self.view.plan_number)?.steps.get(place)
    }

    fn step_mut(&mut self, plan: u32, name: &str) -> Option<&mut StepView> {
        let (place, number) = (*self.places.get(name)?, self.view.plan_number);
        self.view.plan.as_mut().filter(|_| plan == number)?.steps.get_mut(place)
    }

    /// Takes one record, and gives what a story without a drawing says of it.
    pub fn add(&mut self, record: &ParsedRecord) -> (Page, SessionChange) {
        let Some(event) = &record.event else { return (Page::new(), SessionChange::Shown) };
        let change = self.apply(event, record.at_ms);
        (self.told(event), change)
    }

    fn apply(&mut self, event: &Event, at_ms: i64) -> SessionChange {
        let view = &mut self.view;
        match event {
            Event::PlannerRequested(e) => (view.status, view.iteration) = (SessionStatus::Planning, e.iteration),
            Event::PlanAccepted(e) => {
                view.status = SessionStatus::Running;
                return if e.plan > view.plan_number || view.plan.is_none() { SessionChange::NewPlan } else { SessionChange::Shown };
            }
            Event::StepStarted(e) => {
                let is_new = |step: &&mut StepView| step.attempts < e.attempt && !step.status.is_some_and(StepStatus::ended);
                if let Some(step) = self.step_mut(e.plan, &e.step).filter(is_new) {
                    (step.status, step.attempts) = (Some(StepStatus::Running), e.attempt);
                    step.started_ms = step.started_ms.or(Some(at_ms));
                }
            }
            Event::StepFinished(e) => {
                let would = e.call.and_then(|call| self.would.remove(&call));
                if let Some(step) = self.step_mut(e.plan, &e.step) {
                    (step.status, step.attempts, step.call) = (Some(e.status), e.attempts, e.call);
                    (step.ended_ms, step.error, step.frozen_by) = (Some(at_ms), e.error.clone(), None);
                    step.would = would.or(step.would.take());
                }
            }
            Event::CallFinished(e) if view.terms.mode == SessionMode::DryRun => {
                self.would.extend(would_text(&e.output).map(|would| (e.call, would)));
            }
            Event::WorkspacePaused(_) | Event::WorkspaceResumed(_) => return SessionChange::Frozen,
            // Whether to take its changes is the next step, and no question of the work.
            Event::ReviewAsked(e) if e.tool != MERGE => return SessionChange::Asks(e.review),
            Event::ReviewAnswered(e) => return SessionChange::Answered(e.review),
            Event::TaskStarted(_) => view.status = if view.plan.is_some() { SessionStatus::Running } else { SessionStatus::Planning },
            Event::TaskParked(_) => view.status = SessionStatus::AwaitingApproval,
            Event::TaskStopped(_) => return self.over(SessionStatus::Paused),
            Event::TaskFinished(_) => return self.over(SessionStatus::Completed),
            Event::TaskFailed(_) => return self.over(SessionStatus::Failed),
            Event::TaskCancelled(_) => return self.over(SessionStatus::Aborted),
            _ => {}
        }
        SessionChange::Shown
    }

    fn over(&mut self, status: SessionStatus) -> SessionChange {
        self.view.status = status;
        SessionChange::Over
    }

    /// The line of a story, with what the plan knows of a step.
    fn told(&self, event: &Event) -> Page {
        let line = match event {
            Event::PlanReceived(_) | Event::LessonLearned(_) | Event::SessionCreated(_) => return Page::new(),
            Event::ContextAssessed(e) if e.verdict == ContextVerdict::Ok => return Page::new(),
            Event::PlanCriticized(e) if e.findings.is_empty() && !e.off => return Page::new(),
            Event::StepStarted(e) => event_line(event).map(|line| match self.step(e.plan, &e.step) {
                Some(step) => line.plain("  ").plain(&step.title),
                None => line,
            }),
            Event::StepFinished(e) => event_line(event).map(|line| {
                let step = self.step(e.plan, &e.step);
                let would = step.and_then(|step| step.would.as_deref()).map(|would| format!("  would {would}")).unwrap_or_default();
                let took = step.and_then(took).map(|took| format!("  {took}")).unwrap_or_default();
                line.plain(would).faint(took)
            }),
            Event::WorkspacePaused(e) => Some(Line::new().wait("◐ ").plain(plan::frozen(&e.by))),
            Event::WorkspaceResumed(_) => Some(Line::new().name("● ").plain("what was frozen goes on")),
            Event::ReviewAsked(e) if e.tool == MERGE => return Page::new(),
            Event::ReviewAsked(e) => Some(
                Line::new().wait("◍ ").name(e.review.to_string()).plain("  ").plain(crate::show::describe::describe(&e.tool, &e.input)),
            ),
            Event::ReviewAnswered(e) => Some(
                Line::new()
                    .good("✓ ")
                    .name(e.review.to_string())
                    .plain(format!(" {:?}", e.answer).to_lowercase())
                    .faint(format!(" by {}", e.by)),
            ),
            _ => event_line(event),
        };
        line.into_iter().collect()
    }

    /// What stands on the screen while it goes on; at most `rows` lines.
    pub fn drawing(&self, rows: usize, now_ms: i64) -> Vec<Line> {
        let view = &self.view;
        let elapsed = duration_ms(u64::try_from(now_ms.saturating_sub(view.task.queued_ms)).unwrap_or(0));
        let turning = matches!(view.status, SessionStatus::Planning | SessionStatus::Running);
        let mark = if turning { Line::new().name(frame(u64::try_from(now_ms).unwrap_or(0))).plain(" ") } else { sign(view.status) };
        let review = view
            .task
            .review
            .filter(|_| view.status == SessionStatus::AwaitingApproval)
            .map(|review| format!(" {review}"))
            .unwrap_or_default();
        let head = mark.name(view.task.task.to_string()).plain("  ").join(status(view.status)).name(review);
        let mut lines = vec![head.faint(format!("  {elapsed}  ")).join(quoted(&view.task.prompt))];
        if let Some(shown) = &view.plan {
            let number = if view.plan_number > 1 { format!("  plan {}: ", view.plan_number) } else { "  ".to_owned() };
            lines.push(Line::new().faint(number).plain(&shown.goal));
            let room = rows.saturating_sub(HEAD_AND_FOOT).max(3);
            let options = DrawOptions { now_ms, rows: Some(room), course: course(view) };
            lines.extend(plan::graph(shown, options).0);
            let tally = plan::tally(&plan::phases(shown, course(view)));
            lines.push(Line::new().plain(format!("  {tally}")).join(self.cost()).faint("  ctrl-c: it goes on"));
        } else {
            lines.push(Line::new().plain(format!("  asking {} for a plan", view.terms.planner)).join(self.cost()));
        }
        lines
    }

    fn cost(&self) -> Line {
        spent(self.view.task.usage.as_ref()).map(|spent| Line::new().faint(" · ").plain(spent)).unwrap_or_default()
    }

    /// The plan as it was left, for what stays on the screen.
    pub fn last_drawing(&self, rows: usize, now_ms: i64) -> Page {
        let view = &self.view;
        let Some(shown) = &view.plan else { return Page::new() };
        let mut page = Page::new();
        let number = if view.terms.agentic || view.plan_number > 1 { format!("plan {}  ", view.plan_number) } else { String::new() };
        let tally = plan::tally(&plan::phases(shown, course(view)));
        page.push(Line::new().strong(number).plain(&shown.goal).faint(format!("  {tally}")));
        page.append(plan::graph(shown, DrawOptions { now_ms, rows: Some(rows), course: course(view) }));
        page
    }
}

fn took(step: &StepView) -> Option<String> {
    let ms = step.ended_ms?.saturating_sub(step.started_ms?);
    Some(duration_ms(u64::try_from(ms).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::view;
    use super::*;
    use crate::record::tests::line;
    use wire::event::{PlanAccepted, StepFinished, StepStarted, TaskFinished};
    use wire::{Pid, TaskId};

    const TASK: Option<TaskId> = Some(TaskId(4));

    fn record(seq: u64, event: impl Into<Event>) -> ParsedRecord {
        ParsedRecord::parse(&line(seq, event)).unwrap()
    }

    fn finished(step: &str) -> StepFinished {
        let (pid, task, step, status) = (Pid(3), TASK, step.to_owned(), StepStatus::Succeeded);
        StepFinished { pid, task, plan: 2, step, status, attempts: 1, call: None, error: None, kept: None }
    }

    #[test]
    fn a_screen_shows_the_graph_and_what_it_cost() {
        let mut view = view();
        view.task.usage = Some(super::super::tests::usage(20_000));
        let progress = SessionProgress::new(view);
        let text: String = progress.drawing(20, 10_000).into_iter().collect::<Page>().render(false, Some(79));
        let expected = "\
⠴ task-4  running  10.0 s  \"report the prices\"
  plan 2: Report the prices
  1 ┬ ✓ read      120 ms  fs.read    Read the input
    └ ✓ fetch      2.4 s  net.fetch  Fetch the prices
  2 ┬ ● join       6.6 s  shell.run  Join both  try 2 of 3  ← read, fetch
    ├ ◌ lint              shell.run  Check the style  ← read
    └ ✗ notify    500 ms  net.fetch  Tell the others  denied: no rule allows `…
  3 ┬ · report            fs.write   Write the report  ← join
    └ ○ archive           fs.write   Keep what was told  notify failed
  2 of 7 done, 1 running, 1 ready, 1 failed, 1 skipped · $0.02, 1,234 tokens  …
";
        assert_eq!(text, expected);
        assert!(progress.drawing(9, 10_000).len() <= 9);
    }

    #[test]
    fn records_move_it_on_and_twice_is_once() {
        let mut progress = SessionProgress::new(view());
        let (pid, task, plan) = (Pid(3), TASK, 2);
        let begun = record(5, StepStarted { pid, task, plan, step: "lint".into(), tool: "shell.run".into(), attempt: 1 });
        let (page, change) = progress.add(&begun);
        assert_eq!((page.render(false, None).as_str(), change), ("● lint  shell.run  Check the style\n", SessionChange::Shown));
        let ended = record(7, finished("lint"));
        assert_eq!(progress.add(&ended).0.render(false, None), "✓ lint  2.0 s\n");
        let known = progress.view.clone();
        progress.add(&begun);
        progress.add(&ended);
        assert_eq!(progress.view, known, "what is told twice changes nothing");
        let accepted = PlanAccepted { pid, task, plan: 3, iteration: 3, blob: "b".into(), goal: "more".into(), steps: 1, original: None };
        assert_eq!(progress.add(&record(8, accepted)).1, SessionChange::NewPlan);
        let over: Event =
            serde_json::from_value(serde_json::json!({"type": "task.finished", "payload": {"pid": 3, "task": "task-4", "summary": "x"}}))
                .unwrap();
        assert!(matches!(over, Event::TaskFinished(TaskFinished { .. })));
        assert_eq!(progress.add(&record(9, over)).1, SessionChange::Over);
        assert_eq!(progress.view.status, SessionStatus::Completed);
    }
}
