//! Carries out the plan in force: which steps begin, what came of each, and what follows from that.
//!
//! At each turn one commit says which steps ended and which begin. **Invariant.** A step that ended on record is not made again. One whose call has its outcome on record
//! takes that outcome. One whose call was lost is asked for again at the gate, which makes a read and asks a person about anything else.

use crate::checkpoint::PlanTally;
use crate::meeting::Meetings;
use crate::outputs::{KeptPlan, StepOutputs, read_plan};
use crate::resume::RecordedEnds;
use crate::step::{Attempt, AttemptEnd, attempt, judge_exactly};
use crate::work::SessionWork;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use workflow::{FailurePolicy, Plan, PlanGraph, ReadyQueue, StepFailure, step_error};
use world::event::{PlanReplaced, SessionCheckpointed, StepFinished, StepStarted};
use world::{ActivePlan, CallId, Event, Fault, FaultKind, ReviewId, ReviewState, SessionMode, StepError, StepRef, StepStatus, Stop};

/// Steps of one session that run at once, where the settings say nothing: seed 002 asks for five.
pub const STEPS_ABREAST: usize = 5;

/// What came of a plan.
pub(crate) enum PlanEnd {
    /// It is over, and that is on record.
    Over,
    /// A person must answer before anything goes on.
    Asked(ReviewId),
    /// A limit of the session is reached, on record.
    Exceeded(String),
}

/// Carries out a plan from where it is.
pub(crate) async fn carry_out(work: &SessionWork, active: &ActivePlan) -> Result<PlanEnd, Stop> {
    let kept = read_plan(work, active)?;
    if !kept.plan.steps.is_empty() {
        work.host.open_workspace(work.id).await?;
    }
    let mut run = PlanRun::new(work, kept, active).await?;
    run.take_up(active)?;
    run.work_off().await
}

struct PlanRun<'a> {
    work: &'a SessionWork,
    plan: Plan,
    number: u32,
    queue: ReadyQueue,
    meetings: Meetings,
    /// Steps that run, and writers that ended since the workspace was kept last.
    at_work: BTreeSet<usize>,
    unkept: Vec<usize>,
    /// Attempts to make next, in order.
    next: VecDeque<NextAttempt>,
    running: JoinSet<(NextAttempt, AttemptEnd)>,
    /// Steps that a person must answer for first.
    asked: BTreeMap<usize, (NextAttempt, ReviewId)>,
    outputs: StepOutputs,
    /// What the next turn records.
    records: Vec<Event>,
    tally: PlanTally,
    /// Steps of the session that were begun, in all its plans.
    begun: u64,
    exceeded: Option<(Event, String)>,
    broken: Option<Stop>,
    /// How often attempts were ended for steps of higher priority.
    displaced: HashMap<usize, u32>,
    /// Told when no attempt is to wait any longer.
    over: watch::Sender<bool>,
}

/// An attempt at a step; one that is on record as begun has no record to be made.
#[derive(Clone, Copy)]
struct NextAttempt {
    step: usize,
    attempt: u32,
    is_recorded: bool,
    /// Its call was begun before, and nobody knows what came of that.
    was_lost: bool,
}

impl NextAttempt {
    /// One whose beginning is to be recorded.
    fn fresh(step: usize, attempt: u32) -> NextAttempt {
        NextAttempt { step, attempt, is_recorded: false, was_lost: false }
    }
}

impl<'a> PlanRun<'a> {
    async fn new(work: &'a SessionWork, kept: KeptPlan, active: &ActivePlan) -> Result<PlanRun<'a>, Stop> {
        let outputs = StepOutputs::of(&kept, &work.terms.constraints.success_criteria);
        let plan = kept.plan;
        let no_graph = |findings| Fault::new(FaultKind::Bug, "an accepted plan has no order", format!("{findings:?}"));
        let graph = PlanGraph::new(&plan).map_err(no_graph)?;
        let meetings = Meetings::of(work, &plan).await?;
        let queue = ReadyQueue::new(graph, meetings.footprints());
        Ok(PlanRun {
            work,
            number: active.number,
            queue,
            meetings,
            at_work: BTreeSet::new(),
            unkept: Vec::new(),
            next: VecDeque::new(),
            running: JoinSet::new(),
            asked: BTreeMap::new(),
            outputs,
            records: Vec::new(),
            tally: PlanTally::new(&plan),
            begun: work.look(|_, session| session.steps_made)?,
            exceeded: None,
            broken: None,
            displaced: HashMap::new(),
            over: watch::channel(false).0,
            plan,
        })
    }

    /// Goes on behind what is on record: steps that ended, steps whose call ended, and steps that were begun.
    fn take_up(&mut self, active: &ActivePlan) -> Result<(), Stop> {
        if active.begun.is_empty() {
            return Ok(());
        }
        let calls: HashSet<CallId> = active.begun.values().filter_map(|step| step.call).collect();
        let recorded = RecordedEnds::of(self.work, &calls)?;
        let mut left = Vec::new();
        // In an order in which nobody comes before what it waits for.
        for index in self.queue.graph().order().to_vec() {
            let step = &self.plan.steps[index];
            let Some(known) = active.begun.get(&step.step_id) else { continue };
            let end = match known.call {
                Some(call) => match recorded.end_of(self.work, &step.tool_ref.name, call)? {
                    Some(end) => Some(judge_exactly(self.work, step, Some(call), end)?),
                    None => None,
                },
                None => None,
            };
            if known.status == StepStatus::Running {
                self.queue.resume(index);
                self.begun += 1;
                // One that was admitted and has no end: where it changes something, whoever is asked says whether it is made again.
                let was_lost = known.call.is_some() && end.is_none();
                left.push((NextAttempt { step: index, attempt: known.attempts, is_recorded: true, was_lost }, end));
                continue;
            }
            match (end, &known.error) {
                (Some(AttemptEnd::Succeeded { call, value }), None) => self.take_output(index, call, value),
                (_, error) => self.tally.note(step, known.status, error.as_deref().map_or("", |error| error.message.as_str())),
            }
            let skipped = self.queue.ended(index, known.status);
            let is_new = |other: &usize| !active.begun.contains_key(&self.plan.steps[*other].step_id);
            let skipped: Vec<_> = skipped.into_iter().filter(|(other, _)| is_new(other)).collect();
            self.skip_all(skipped);
        }
        for (next, end) in left {
            match end {
                Some(end) => self.settle(next, end),
                None => self.next.push_back(next),
            }
        }
        Ok(())
    }

    /// Turn after turn, until nothing is left to do or nothing can be done.
    async fn work_off(mut self) -> Result<PlanEnd, Stop> {
        let deadline = self.work.time_left()?.map(|left| tokio::time::Instant::now() + left);
        loop {
            self.keep_workspace().await;
            // Nothing begins after its time, also where all of it passed while no kernel was there.
            if !self.queue.is_over() && deadline.is_some_and(|deadline| tokio::time::Instant::now() >= deadline) {
                self.end_in_time().await?;
                break;
            }
            self.meetings.refresh(self.work, &mut self.queue).await?;
            self.take_turn()?;
            if self.running.is_empty() {
                match self.take_answered() {
                    true => continue,
                    false => break,
                }
            }
            let first = tokio::select! {
                first = self.running.join_next() => first,
                () = until(deadline) => {
                    self.end_in_time().await?;
                    break;
                }
            };
            let mut joined = first;
            while let Some(done) = joined {
                let (next, end) = done.map_err(|error| Fault::new(FaultKind::Bug, "a step broke off", error))?;
                self.at_work.remove(&next.step);
                self.settle(next, end);
                joined = self.running.try_join_next();
            }
        }
        self.conclude().await
    }

    /// Once no writer runs, keeps what the workspace holds with the end of the last one: from there the session can be forked. Where that fails it cannot, and goes on.
    async fn keep_workspace(&mut self) {
        let is_due = !self.unkept.is_empty() && self.work.terms.mode == SessionMode::Live;
        if !is_due || self.at_work.iter().any(|step| self.meetings.writes(*step)) {
            return;
        }
        let last = self.records.iter_mut().rev().find_map(|event| if let Event::StepFinished(end) = event { Some(end) } else { None });
        let Some(last) = last else { return };
        let only = self.meetings.written(&self.unkept);
        match self.work.host.keep_increment(self.work.id, only).await {
            Ok(kept) => last.kept = Some(Box::new(kept)),
            Err(stop) => world::log!("skep: {} cannot be forked at step {}: {stop}", self.work.id, last.step),
        }
        self.unkept.clear();
    }

    /// One commit: what ended and what begins. Then that begins.
    fn take_turn(&mut self) -> Result<(), Stop> {
        let (mut begins, abreast) = (Vec::new(), self.work.host.steps_abreast());
        while self.may_begin() && self.running.len() + begins.len() < abreast {
            let Some(next) = self.next.pop_front().or_else(|| self.take_ready()) else { break };
            let step = &self.plan.steps[next.step];
            if !next.is_recorded {
                let (pid, task, plan) = (self.work.pid, Some(self.work.id), self.number);
                let (id, tool) = (step.step_id.clone(), step.tool_ref.name.clone());
                self.records.push(StepStarted { pid, task, plan, step: id, tool, attempt: next.attempt }.into());
            }
            match self.outputs.bind(step) {
                Ok(input) => {
                    let place = StepRef { plan: self.number, step: step.step_id.clone(), attempt: next.attempt };
                    let (is_handed_on, over) = (self.outputs.is_wanted(&step.step_id), self.over.subscribe());
                    begins.push((next, Attempt { step: step.clone(), place, input, is_handed_on, was_lost: next.was_lost, over }));
                }
                Err(_) if self.work.terms.mode == SessionMode::DryRun => {
                    let from: BTreeSet<String> = step.input_from.values().map(|from| format!("`{}`", from.step)).collect();
                    let from = from.into_iter().collect::<Vec<_>>().join(", ");
                    let why = format!("a dry run has no output of {from} to take its input from");
                    self.finish(next.step, next.attempt, StepStatus::Skipped, None, Some(step_error(StepFailure::MissingOutput, why)));
                }
                Err(error) => self.settle(next, AttemptEnd::Failed { call: None, error, may_retry: false }),
            }
        }
        if !self.records.is_empty() {
            self.work.note(std::mem::take(&mut self.records))?;
        }
        for (next, made) in begins {
            let work = self.work.clone();
            self.at_work.insert(next.step);
            self.running.spawn(async move { (next, attempt(work, made).await) });
        }
        Ok(())
    }

    fn may_begin(&self) -> bool {
        self.broken.is_none() && self.exceeded.is_none()
    }

    /// The next step that may begin, within the session's limit of steps.
    fn take_ready(&mut self) -> Option<NextAttempt> {
        let max = self.work.terms.limits.max_steps;
        let step = self.queue.begin(1).pop()?;
        if self.begun >= max {
            self.exceeded = Some(self.work.exceeded("max_steps", self.begun, max));
            self.end_unbegun(step, StepFailure::LimitReached);
            return None;
        }
        self.begun += 1;
        Some(NextAttempt::fresh(step, 1))
    }

    /// What came of an attempt: the end of its step, another attempt, or a question.
    fn settle(&mut self, next: NextAttempt, end: AttemptEnd) {
        let NextAttempt { step: index, attempt, .. } = next;
        match end {
            AttemptEnd::Succeeded { call, value } => {
                self.take_output(index, call, value);
                self.finish(index, attempt, StepStatus::Succeeded, call, None);
            }
            AttemptEnd::Failed { call, error, may_retry } => {
                let is_stopped = self.queue.stopped_by().is_some() || !self.may_begin();
                let tried = attempt.saturating_sub(self.displaced.get(&index).copied().unwrap_or(0));
                if may_retry && !is_stopped && tried <= self.plan.steps[index].max_retries {
                    self.next.push_back(NextAttempt::fresh(index, attempt + 1));
                    return;
                }
                let is_late = *self.over.borrow();
                let error = if is_late { step_error(StepFailure::DurationLimit, &error.message) } else { error };
                self.finish(index, attempt, StepStatus::Failed, call, Some(error));
            }
            AttemptEnd::Displaced if self.may_begin() && self.queue.stopped_by().is_none() => {
                *self.displaced.entry(index).or_default() += 1;
                self.next.push_back(NextAttempt::fresh(index, attempt + 1));
            }
            AttemptEnd::Displaced => {
                let error = step_error(StepFailure::PlanStopped, "it was ended for a step of higher priority");
                self.finish(index, attempt, StepStatus::Failed, None, Some(error));
            }
            AttemptEnd::Asked(review) => drop(self.asked.insert(index, (NextAttempt { is_recorded: true, ..next }, review))),
            AttemptEnd::Broken(stop) => drop(self.broken.get_or_insert(stop)),
        }
    }

    /// Keeps what others take their input from, and the beginning of it for the planner.
    fn take_output(&mut self, index: usize, call: Option<CallId>, value: Value) {
        let step = &self.plan.steps[index];
        self.tally.note_output(step, &value);
        if let Err(stop) = self.outputs.take(self.work, step, call, value) {
            self.broken.get_or_insert(stop);
        }
    }

    fn finish(&mut self, index: usize, attempts: u32, status: StepStatus, call: Option<CallId>, error: Option<StepError>) {
        let step = &self.plan.steps[index];
        self.meetings.ended(index, &step.tool_ref.name);
        if call.is_some() && self.meetings.writes(index) {
            self.unkept.push(index);
        }
        if let Some(error) = &error {
            self.tally.note(step, status, &error.message);
        }
        let (pid, task, plan) = (self.work.pid, Some(self.work.id), self.number);
        let (id, error) = (step.step_id.clone(), error.map(Box::new));
        self.records.push(StepFinished { pid, task, plan, step: id, status, attempts, call, error, kept: None }.into());
        let skipped = self.queue.ended(index, status);
        self.skip_all(skipped);
    }

    fn skip_all(&mut self, skipped: Vec<(usize, String)>) {
        for (index, reason) in skipped {
            let step = &self.plan.steps[index];
            let failure = if reason.starts_with("dependency") { StepFailure::DependencyFailed } else { StepFailure::PlanStopped };
            self.tally.note(step, StepStatus::Skipped, &reason);
            let (pid, task, plan) = (self.work.pid, Some(self.work.id), self.number);
            let (id, error) = (step.step_id.clone(), Some(Box::new(step_error(failure, reason))));
            let status = StepStatus::Skipped;
            self.records.push(StepFinished { pid, task, plan, step: id, status, attempts: 0, call: None, error, kept: None }.into());
        }
    }

    /// A step that could begin and may not any more, with all that has not begun.
    fn end_unbegun(&mut self, index: usize, failure: StepFailure) {
        let reason = "a limit of the session is reached";
        let (pid, task, plan, status) = (self.work.pid, Some(self.work.id), self.number, StepStatus::Skipped);
        let mut ended = vec![index];
        ended.extend(self.queue.ended(index, status).into_iter().map(|(other, _)| other));
        ended.extend(self.queue.give_up(reason).into_iter().map(|(other, _)| other));
        for index in ended {
            let step = &self.plan.steps[index];
            self.tally.note(step, status, reason);
            let (id, error) = (step.step_id.clone(), Some(Box::new(step_error(failure, reason))));
            self.records.push(StepFinished { pid, task, plan, step: id, status, attempts: 0, call: None, error, kept: None }.into());
        }
    }

    /// Takes up the steps whose question has an answer. False where there is none.
    fn take_answered(&mut self) -> bool {
        if !self.may_begin() {
            return false;
        }
        let is_open = |review: ReviewId| {
            self.work.host.ledger().look(|world| world.reviews.get(&review).is_some_and(|review| review.state == ReviewState::Open))
        };
        let answered: Vec<usize> = self.asked.iter().filter(|(_, (_, review))| !is_open(*review)).map(|(step, _)| *step).collect();
        for step in &answered {
            if let Some((next, _)) = self.asked.remove(step) {
                self.next.push_back(next);
            }
        }
        !self.next.is_empty()
    }

    /// The session's time is over: what runs is ended, and nothing of it goes on.
    async fn end_in_time(&mut self) -> Result<(), Stop> {
        let (event, reason) = self.work.exceeded_duration()?;
        self.exceeded = Some((event, reason.clone()));
        self.over.send_replace(true);
        while !self.running.is_empty() {
            for call in self.open_calls()? {
                self.work.host.cancel_call(call, &reason).await?;
            }
            // One that was not admitted yet may be by now.
            if let Ok(Some(done)) = tokio::time::timeout(LOOK_AGAIN, self.running.join_next()).await {
                let (next, end) = done.map_err(|error| Fault::new(FaultKind::Bug, "a step broke off", error))?;
                self.at_work.remove(&next.step);
                self.settle(next, end);
            }
        }
        Ok(())
    }

    fn open_calls(&self) -> Result<Vec<CallId>, Stop> {
        let id = self.work.id;
        Ok(self.work.host.ledger().look(|world| {
            let own = world.calls.iter().filter(|(_, call)| call.task == Some(id) && call.is_step);
            own.map(|(call, _)| *call).collect()
        }))
    }

    /// Says on record what came of the plan.
    async fn conclude(mut self) -> Result<PlanEnd, Stop> {
        self.keep_workspace().await;
        if let Some(stop) = self.broken.take() {
            self.work.note(std::mem::take(&mut self.records))?;
            return Err(stop);
        }
        let exceeded = self.exceeded.take();
        if exceeded.is_none()
            && let Some((_, review)) = self.asked.values().next()
        {
            self.work.note(std::mem::take(&mut self.records))?;
            return Ok(PlanEnd::Asked(*review));
        }
        if exceeded.is_some() {
            let failure = if *self.over.borrow() { StepFailure::DurationLimit } else { StepFailure::LimitReached };
            let next = self.next.drain(..).filter(|next| next.is_recorded || next.attempt > 1).map(|next| (next.step, next.attempt));
            let open: Vec<(usize, u32)> = next.chain(self.asked.values().map(|(next, _)| (next.step, next.attempt))).collect();
            for (step, attempt) in open {
                let error = step_error(failure, "a limit of the session is reached");
                self.finish(step, attempt, StepStatus::Failed, None, Some(error));
            }
            let left = self.queue.give_up("a limit of the session is reached");
            self.skip_all(left);
        }
        let (pid, task) = (self.work.pid, Some(self.work.id));
        let mut events = std::mem::take(&mut self.records);
        if let Some((step, FailurePolicy::Replan)) = self.queue.stopped_by() {
            let reason =
                format!("step {} failed: {}", self.plan.steps[step].step_id, self.tally.failure_of(&self.plan.steps[step].step_id));
            events.push(PlanReplaced { pid, task, plan: self.number, reason }.into());
        }
        let iteration = Box::new(self.tally.record(self.work, &self.plan)?);
        events.push(SessionCheckpointed { pid, task, iteration }.into());
        let reason = exceeded.map(|(event, reason)| {
            events.push(event);
            reason
        });
        self.work.record(events).await?;
        Ok(reason.map_or(PlanEnd::Over, PlanEnd::Exceeded))
    }
}

/// How long to wait before it is looked again whether a call was admitted that has to end.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

async fn until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
