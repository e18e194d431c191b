//! How far a session is, with the times and findings that only the journal has.
//!
//! Told from its records, up to any one of them. **Invariant.** Records that end with the newest one tell of the same plan, steps and status as the world does: a test of the
//! server holds both against each other.

use journal::Filter;
use ledger::{Ledger, event_of};
use std::collections::BTreeMap;
use workflow::Plan;
use world::{
    ContextVerdict, Event, IterationRecord, LessonId, PlanCost, PlanFinding, SessionStatus, SessionTerms, StepError, StepStatus, Stop,
    TaskId, TaskState,
};

/// Records that have something to say here.
const KINDS: [&str; 13] = [
    "task.",
    "session.",
    "planner.",
    "plan.",
    "step.",
    "limit.",
    "futility.",
    "context.",
    "delegation.",
    "lesson.recalled",
    "workspace.paused",
    "workspace.resumed",
    "workspace.closed",
];
/// Records that are read at a time.
const PAGE_RECORDS: u64 = 1_000;

/// What its records tell of a session.
#[derive(Clone, Debug)]
pub struct SessionReport {
    /// Number of the newest record that is in here; 0 where there is none.
    pub seq: u64,
    pub records: u64,
    pub status: SessionStatus,
    /// Its task then.
    pub state: TaskState,
    /// What its end said; `None` while it goes on.
    pub summary: Option<String>,
    pub ended_ms: Option<i64>,
    pub episodes: u32,
    pub terms: Option<Box<SessionTerms>>,
    pub of: Option<TaskId>,
    pub iteration: u32,
    /// The plan in force; `None` while there is none.
    pub plan: Option<ReportedPlan>,
    /// Steps that ended in all plans, without those that were skipped.
    pub steps_made: u64,
    pub reviews: Vec<ReportedReview>,
    pub iterations: Vec<IterationRecord>,
    /// What its planner was told of earlier sessions, each once.
    pub lessons: Vec<LessonId>,
    pub delegate: Option<TaskId>,
    pub delegated: Vec<String>,
    pub futile: Option<String>,
    /// The latest verdict, with tokens that are used and those there are.
    pub context: Option<(ContextVerdict, u64, u64)>,
    /// Limits that were reached: which, how much was used, how much there is.
    pub limits_reached: Vec<(String, u64, u64)>,
    /// Who froze what runs in its sandbox, while that lasts.
    pub frozen_by: Option<String>,
    is_planning: bool,
}

/// A plan that was accepted.
#[derive(Clone, Debug)]
pub struct ReportedPlan {
    pub number: u32,
    pub goal: String,
    pub blob: String,
    /// How many steps it has.
    pub steps: u32,
    pub begun: BTreeMap<String, ReportedStep>,
    pub replaced: Option<String>,
}

/// A step that began, or was skipped.
#[derive(Clone, Debug)]
pub struct ReportedStep {
    pub status: StepStatus,
    pub attempts: u32,
    pub started_ms: Option<i64>,
    pub ended_ms: Option<i64>,
    /// The record that ended it.
    pub ended_seq: Option<u64>,
    pub call: Option<world::CallId>,
    pub error: Option<Box<StepError>>,
}

/// What critics said of one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedReview {
    pub iteration: u32,
    pub round: u32,
    pub findings: Vec<PlanFinding>,
    pub is_rejected: bool,
    /// Nobody looked.
    pub is_off: bool,
    /// What the plan would cost at most.
    pub most: Option<PlanCost>,
}

impl SessionReport {
    /// Reads what is known of a session, up to and with a record.
    pub fn read(ledger: &Ledger, task: TaskId, until_seq: Option<u64>) -> Result<SessionReport, Stop> {
        ledger.task(task)?;
        let mut report = SessionReport::new();
        let mut filter = Filter {
            task: Some(task.to_string()),
            kinds: KINDS.map(str::to_owned).to_vec(),
            before_seq: until_seq.and_then(|seq| seq.checked_add(1)),
            limit: Some(PAGE_RECORDS),
            ..Filter::default()
        };
        loop {
            let records = ledger.read(&filter)?;
            for record in &records {
                report.apply(record.seq, record.at_ms, event_of(record)?);
            }
            match records.last() {
                Some(last) if records.len() as u64 == PAGE_RECORDS => filter.after_seq = Some(last.seq),
                _ => return Ok(report),
            }
        }
    }

    /// The plan in force as it was accepted; `None` where there is none, or where its text is kept no longer.
    pub fn plan_text(&self, ledger: &Ledger) -> Result<Option<Plan>, Stop> {
        let Some(plan) = &self.plan else { return Ok(None) };
        let Some(bytes) = ledger.blob_if_kept(&plan.blob)? else { return Ok(None) };
        Ok(Plan::parse(&String::from_utf8_lossy(&bytes), true).ok())
    }

    fn new() -> SessionReport {
        SessionReport {
            seq: 0,
            records: 0,
            status: SessionStatus::Created,
            state: TaskState::Queued,
            summary: None,
            ended_ms: None,
            episodes: 0,
            terms: None,
            of: None,
            iteration: 0,
            plan: None,
            steps_made: 0,
            reviews: Vec::new(),
            iterations: Vec::new(),
            lessons: Vec::new(),
            delegate: None,
            delegated: Vec::new(),
            futile: None,
            context: None,
            limits_reached: Vec::new(),
            frozen_by: None,
            is_planning: true,
        }
    }

    fn apply(&mut self, seq: u64, at_ms: i64, event: Event) {
        (self.seq, self.records) = (seq, self.records + 1);
        match event {
            Event::SessionCreated(e) => (self.terms, self.of) = (Some(e.terms), e.of),
            Event::PlannerRequested(e) => {
                (self.iteration, self.is_planning) = (e.iteration, true);
                self.status = SessionStatus::Planning;
            }
            Event::PlanCriticized(e) => {
                self.review(e.iteration, e.round, e.findings, e.off);
                if let Some(last) = self.reviews.last_mut() {
                    last.most = e.most.map(|most| *most);
                }
            }
            Event::PlanRejected(e) => {
                self.review(e.iteration, e.round, e.findings, false);
                if let Some(last) = self.reviews.last_mut() {
                    last.is_rejected = true;
                }
            }
            Event::PlanAccepted(e) => {
                (self.iteration, self.is_planning, self.status) = (e.iteration, false, SessionStatus::Running);
                let (begun, replaced) = (BTreeMap::new(), None);
                self.plan = Some(ReportedPlan { number: e.plan, goal: e.goal, blob: e.blob, steps: e.steps, begun, replaced });
            }
            Event::PlanReplaced(e) => {
                if let Some(plan) = &mut self.plan {
                    plan.replaced = Some(e.reason);
                }
            }
            Event::SessionCheckpointed(e) => self.iterations.push(*e.iteration),
            Event::LimitExceeded(e) => self.limits_reached.push((e.limit, e.used, e.max)),
            Event::FutilityDetected(e) => self.futile = Some(format!("{}: {}", e.pattern, e.reason)),
            Event::ContextAssessed(e) => self.context = Some((e.verdict, e.used, e.budget)),
            Event::DelegationStarted(e) => self.delegate = Some(e.child),
            Event::DelegationFinished(e) => {
                self.delegate = None;
                self.delegated.push(e.findings);
            }
            Event::LessonRecalled(e) => {
                let new: Vec<LessonId> = e.lessons.into_iter().filter(|lesson| !self.lessons.contains(lesson)).collect();
                self.lessons.extend(new);
            }
            Event::WorkspacePaused(e) => self.frozen_by = Some(e.by),
            Event::WorkspaceResumed(_) | Event::WorkspaceClosed(_) => self.frozen_by = None,
            event => self.apply_step_or_task(seq, at_ms, event),
        }
    }

    fn apply_step_or_task(&mut self, seq: u64, at_ms: i64, event: Event) {
        let at_work = if self.is_planning { SessionStatus::Planning } else { SessionStatus::Running };
        match event {
            Event::StepStarted(e) => {
                if let Some(plan) = self.plan.as_mut().filter(|plan| plan.number == e.plan) {
                    let started_ms = plan.begun.get(&e.step).and_then(|step| step.started_ms).or(Some(at_ms));
                    let (status, attempts) = (StepStatus::Running, e.attempt);
                    let step = ReportedStep { status, attempts, started_ms, ended_ms: None, ended_seq: None, call: None, error: None };
                    plan.begun.insert(e.step, step);
                }
            }
            Event::StepFinished(e) => {
                if let Some(plan) = self.plan.as_mut().filter(|plan| plan.number == e.plan) {
                    self.steps_made += u64::from(e.status != StepStatus::Skipped);
                    let started_ms = plan.begun.get(&e.step).and_then(|step| step.started_ms);
                    let (ended_ms, ended_seq) = (Some(at_ms), Some(seq));
                    let (status, attempts, call, error) = (e.status, e.attempts, e.call, e.error);
                    plan.begun.insert(e.step, ReportedStep { status, attempts, started_ms, ended_ms, ended_seq, call, error });
                }
            }
            Event::TaskStarted(e) => {
                (self.status, self.state, self.episodes) = (at_work, TaskState::Running, e.episode);
                (self.summary, self.ended_ms) = (None, None);
            }
            Event::TaskParked(e) => (self.status, self.state) = (SessionStatus::AwaitingApproval, TaskState::Parked { review: e.review }),
            Event::TaskContinued(_) => {
                self.status = if self.iteration == 0 { SessionStatus::Created } else { SessionStatus::Paused };
                (self.state, self.summary, self.ended_ms) = (TaskState::Queued, None, None);
            }
            Event::TaskStopped(e) => self.end(SessionStatus::Paused, TaskState::Stopped, Some(e.reason), at_ms),
            Event::TaskFinished(e) => self.end(SessionStatus::Completed, TaskState::Done, Some(e.summary), at_ms),
            Event::TaskFailed(e) => self.end(SessionStatus::Failed, TaskState::Failed, Some(e.reason), at_ms),
            Event::TaskCancelled(_) => self.end(SessionStatus::Aborted, TaskState::Cancelled, None, at_ms),
            _ => {}
        }
    }

    fn end(&mut self, status: SessionStatus, state: TaskState, summary: Option<String>, at_ms: i64) {
        (self.status, self.state, self.summary, self.ended_ms) = (status, state, summary, Some(at_ms));
    }

    /// Critics and the rejection that follows speak of the same plan.
    fn review(&mut self, iteration: u32, round: u32, findings: Vec<PlanFinding>, is_off: bool) {
        match self.reviews.last_mut().filter(|last| (last.iteration, last.round) == (iteration, round)) {
            Some(last) => {
                let new: Vec<PlanFinding> = findings.into_iter().filter(|finding| !last.findings.contains(finding)).collect();
                last.findings.extend(new);
            }
            None => self.reviews.push(ReportedReview { iteration, round, findings, is_rejected: false, is_off, most: None }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use world::event::{PlanAccepted, PlanCriticized, PlanRejected, StepFinished, StepStarted, TaskParked, TaskStarted};
    use world::{Pid, ReviewId};

    const PID: Pid = Pid(4);
    const TASK: Option<TaskId> = Some(TaskId(1));

    fn accepted(plan: u32) -> Event {
        PlanAccepted { pid: PID, task: TASK, plan, iteration: 1, blob: "b".into(), goal: "g".into(), steps: 2, original: None }.into()
    }

    fn started(step: &str, attempt: u32) -> Event {
        StepStarted { pid: PID, task: TASK, plan: 1, step: step.into(), tool: "fs.read".into(), attempt }.into()
    }

    fn finished(plan: u32, step: &str, status: StepStatus) -> Event {
        StepFinished { pid: PID, task: TASK, plan, step: step.into(), status, attempts: 2, call: None, error: None, kept: None }.into()
    }

    fn told(events: Vec<Event>) -> SessionReport {
        let mut report = SessionReport::new();
        events.into_iter().zip(1_u32..).for_each(|(event, n)| report.apply(u64::from(n), i64::from(n) * 100, event));
        report
    }

    #[test]
    fn a_step_has_run_since_its_first_attempt() {
        let report = told(vec![accepted(1), started("a", 1), started("a", 2), finished(1, "a", StepStatus::Succeeded)]);
        let step = &report.plan.as_ref().unwrap().begun["a"];
        assert_eq!((step.started_ms, step.ended_ms, step.ended_seq, step.attempts), (Some(200), Some(400), Some(4), 2));
        assert_eq!((report.steps_made, report.seq), (1, 4));
    }

    #[test]
    fn what_ends_late_is_not_of_the_plan_in_force() {
        let report = told(vec![accepted(1), started("a", 1), accepted(2), finished(1, "a", StepStatus::Failed)]);
        assert!(report.plan.unwrap().begun.is_empty());
    }

    #[test]
    fn critics_and_the_rejection_are_one_review() {
        let finding = |message: &str| PlanFinding { critic: "tools".into(), at: String::new(), message: message.into(), blocks: true };
        let (pid, task) = (PID, TASK);
        let report = told(vec![
            PlanCriticized { pid, task, iteration: 1, round: 0, findings: vec![finding("x")], off: false, most: None }.into(),
            PlanRejected { pid, task, iteration: 1, round: 0, findings: vec![finding("x"), finding("y")] }.into(),
            PlanCriticized { pid, task, iteration: 1, round: 1, findings: Vec::new(), off: false, most: None }.into(),
        ]);
        let told: Vec<_> = report.reviews.iter().map(|review| (review.round, review.findings.len(), review.is_rejected)).collect();
        assert_eq!(told, [(0, 2, true), (1, 0, false)]);
    }

    #[test]
    fn a_status_follows_the_task_and_the_plan() {
        let (pid, task) = (PID, TASK);
        let started = || TaskStarted { pid, task, episode: 1 }.into();
        let parked = || TaskParked { pid, task, review: ReviewId(1) }.into();
        assert_eq!(told(vec![started()]).status, SessionStatus::Planning);
        assert_eq!(told(vec![started(), accepted(1)]).status, SessionStatus::Running);
        assert_eq!(told(vec![started(), accepted(1), parked()]).status, SessionStatus::AwaitingApproval);
        assert_eq!(told(vec![started(), accepted(1), parked(), started()]).status, SessionStatus::Running);
    }
}
