//! A session executed again on its record: the answers of its planners are read and judged again, its steps put in order, bound and judged again, on what its calls gave then.
//!
//! **Invariant.** No tool runs, no model is asked and nothing is recorded. The first place where the record does not follow from what came before it is told.

use crate::catalog::RegistryCatalog;
use crate::outputs::{KeptPlan, StepOutputs, exact_value, has_mark, read_plan};
use crate::resume::{RecordedEnds, lineage};
use crate::step::{AttemptEnd, judge, judge_lost, judge_refusal};
use crate::work::SessionWork;
use crate::{FILE_PLANNER, SessionHost};
use gate::CallEnd;
use journal::Filter;
use ledger::event_of;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use workflow::{CriticContext, FailurePolicy, Plan, PlanGraph, PlanStep, ReadyQueue, criticize, footprints, read_response};
use world::event::{CallAdmitted, CallRefused, PlanAccepted, PlanCriticized, SessionCheckpointed, StepFinished, StepStarted};
use world::{ActivePlan, CallId, Event, PlanFinding, Refusal, StepStates, StepStatus, Stop, TaskId};

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reexecution {
    pub records: u64,
    pub plans: u64,
    pub steps: u64,
    pub calls: u64,
    /// Of what each step came to: equal for two courses that are alike.
    pub digest: String,
    /// The first record that does not follow, and why.
    pub divergence: Option<(u64, String)>,
}

const KINDS: [&str; 8] = ["plan.", "step.", "session.checkpointed", "call.admitted", "call.finished", "call.refused", "call.lost", "task."];
/// Records that are read at once.
const PAGE: u64 = 5_000;
/// Critics that ask somebody else than the plan: what they said is taken as it was said.
const ASKING: [&str; 2] = ["policy", "model"];

/// Executes a session again.
pub fn reexecute(host: Arc<dyn SessionHost>, id: TaskId) -> Result<Reexecution, Stop> {
    let mut course = Course::of(SessionWork::of(host, id)?);
    course.learn_ends()?;
    let kinds = KINDS.map(str::to_owned).to_vec();
    let mut filter = Filter { task: Some(id.to_string()), kinds, limit: Some(PAGE), ..Filter::default() };
    loop {
        let records = course.work.host.ledger().read(&filter)?;
        for record in &records {
            course.came.records += 1;
            if let Some(why) = course.take(event_of(record)?)? {
                course.came.divergence = Some((record.seq, why));
                return Ok(course.end());
            }
        }
        match records.last() {
            Some(last) if records.len() as u64 == PAGE => filter.after_seq = Some(last.seq),
            _ => return Ok(course.end()),
        }
    }
}

struct Course {
    work: SessionWork,
    came: Reexecution,
    /// What the planner said last, read again.
    answer: Option<Result<Plan, Vec<PlanFinding>>>,
    /// What was found against it.
    found: Vec<PlanFinding>,
    plan: Option<PlanAgain>,
    ends: RecordedEnds,
    refusals: HashMap<CallId, CallRefused>,
    /// Calls of steps that change something, by plan and step, and the steps of which one was lost in a crash.
    writes: HashMap<CallId, (u32, String)>,
    cut_off: BTreeSet<(u32, String)>,
    /// What each step came to, as lines.
    told: Vec<String>,
}

/// A plan that is carried out again.
struct PlanAgain {
    number: u32,
    plan: Plan,
    places: HashMap<String, usize>,
    queue: ReadyQueue,
    outputs: StepOutputs,
    /// Inputs of steps that were begun, as far as they are to be had.
    inputs: HashMap<usize, Value>,
    /// Steps that must be skipped by what happened.
    skips: BTreeSet<usize>,
    attempts: BTreeMap<usize, u32>,
    counts: [u32; 3],
}

/// Fields of a tool's answer that only say how long it took or as which process.
const PASSING: [&str; 5] = ["ms", "duration_ms", "elapsed_ms", "took_ms", "pid"];

/// An answer without what is another each time.
fn lasting(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(lasting).collect(),
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, field)| !(field.is_number() && PASSING.contains(&name.as_str())));
            Value::Object(kept.map(|(name, field)| (name.clone(), lasting(field))).collect())
        }
        plain => plain.clone(),
    }
}

/// `None` where the record follows.
type Differs = Option<String>;

impl Course {
    fn of(work: SessionWork) -> Course {
        Course {
            work,
            came: Reexecution::default(),
            answer: None,
            found: Vec::new(),
            plan: None,
            ends: RecordedEnds::default(),
            refusals: HashMap::new(),
            writes: HashMap::new(),
            cut_off: BTreeSet::new(),
            told: Vec::new(),
        }
    }

    /// What calls of the sessions came to that it goes on from.
    fn learn_ends(&mut self) -> Result<(), Stop> {
        for task in lineage(&self.work)?.into_iter().skip(1) {
            for event in self.work.host.ledger().events(task, &["call.finished", "call.refused"])? {
                self.take(event)?;
            }
        }
        Ok(())
    }

    fn end(mut self) -> Reexecution {
        self.told.sort();
        self.came.digest = self.work.host.ledger().journal().vault().digest(self.told.join("\n").as_bytes());
        self.came
    }

    fn take(&mut self, event: Event) -> Result<Differs, Stop> {
        Ok(match event {
            Event::PlanReceived(received) => {
                self.read_answer(&received.blob, received.original.as_deref())?;
                None
            }
            Event::PlanCriticized(criticized) => self.criticized(&criticized),
            Event::PlanRejected(rejected) => {
                let is_no_plan = self.answer.as_ref().is_some_and(Result::is_err);
                let is_blocked = rejected.findings.iter().any(|finding| finding.blocks);
                (!is_no_plan && !is_blocked).then(|| "the plan was rejected, and nothing speaks against it".to_owned())
            }
            Event::PlanAccepted(accepted) => self.accepted(accepted)?,
            Event::PlanReplaced(replaced) => {
                let stopped = self.plan.as_ref().filter(|plan| plan.number == replaced.plan).and_then(|plan| plan.queue.stopped_by());
                let is_due = stopped.is_some_and(|(_, policy)| policy == FailurePolicy::Replan);
                (!is_due).then(|| format!("plan {} was replaced, and no step of it asks for that", replaced.plan))
            }
            Event::StepStarted(begun) => self.begun(&begun),
            Event::CallAdmitted(call) => self.admitted(&call),
            Event::CallFinished(end) => {
                self.ends.note(end);
                None
            }
            Event::CallLost(lost) => {
                self.cut_off.extend(self.writes.remove(&lost.call));
                None
            }
            Event::CallRefused(refused) => {
                self.refusals.insert(refused.call, refused);
                None
            }
            Event::StepFinished(end) => self.finished(&end)?,
            Event::SessionCheckpointed(checkpointed) => self.checkpointed(&checkpointed),
            Event::TaskFinished(_) => self.over(),
            _ => None,
        })
    }

    fn read_answer(&mut self, blob: &str, original: Option<&str>) -> Result<(), Stop> {
        let ledger = self.work.host.ledger();
        let exact = original.map(|name| ledger.exact(name)).transpose()?.flatten();
        let is_whole = original.is_none() || exact.is_some();
        let bytes = match exact {
            Some(bytes) => Some(bytes),
            None => ledger.blob_if_kept(blob)?,
        };
        let read = bytes.map(|bytes| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let document = if self.work.terms.planner == FILE_PLANNER { Ok(text.as_str()) } else { read_response(&text) };
            document.and_then(|document| Plan::parse(document, self.work.terms.agentic))
        });
        // Without its secrets an answer need not be a plan any more: nothing is said of it then.
        self.answer = read.filter(|read| is_whole || read.is_ok());
        Ok(())
    }

    /// The critics that look at nothing but the plan say the same again.
    fn criticized(&mut self, recorded: &PlanCriticized) -> Differs {
        self.found.clone_from(&recorded.findings);
        let Some(Ok(plan)) = self.answer.as_ref().filter(|_| !recorded.off) else { return None };
        let catalog = RegistryCatalog(self.work.host.tools().clone());
        let terms = &self.work.terms;
        let context = CriticContext {
            catalog: &catalog,
            constraints: &terms.constraints,
            profile: &terms.profile,
            steps_left: terms.limits.max_steps.saturating_sub(self.came.steps),
            steps_max: terms.agentic.then_some(workflow::AGENTIC_STEPS_MAX),
        };
        let redactor = &self.work.host.ledger().redactor;
        let line = |finding: &PlanFinding| (finding.critic.clone(), finding.at.clone(), redactor.text(&finding.message).into_owned());
        let again: BTreeSet<_> = criticize(plan, &context).iter().map(line).collect();
        let own = |finding: &&PlanFinding| !ASKING.contains(&finding.critic.as_str()) && finding.critic != "redacted";
        let then: BTreeSet<_> = recorded.findings.iter().filter(own).map(line).collect();
        match (again.difference(&then).next(), then.difference(&again).next()) {
            (Some((critic, at, message)), _) => Some(format!("`{critic}` says at {at} what it did not say then: {message}")),
            (_, Some((critic, at, message))) => Some(format!("`{critic}` does not say any more at {at}: {message}")),
            (None, None) => None,
        }
    }

    fn accepted(&mut self, accepted: PlanAccepted) -> Result<Differs, Stop> {
        if self.found.drain(..).any(|finding| finding.blocks) {
            return Ok(Some(format!("plan {} was accepted, and a critic was against it", accepted.plan)));
        }
        let PlanAccepted { plan: number, blob, goal, steps, original, .. } = accepted;
        let active = ActivePlan { number, blob, goal, steps, begun: StepStates::default(), replaced: None, original };
        let kept = read_plan(&self.work, &active)?;
        let shape = |plan: &Plan| plan.steps.iter().map(|step| (step.step_id.clone(), step.tool_ref.name.clone())).collect::<Vec<_>>();
        if let Some(answer) = self.answer.take() {
            let is_same = answer.as_ref().is_ok_and(|answer| shape(answer) == shape(&kept.plan));
            if !is_same {
                return Ok(Some(format!("plan {number} is not what its planner said")));
            }
        }
        let Ok(graph) = PlanGraph::new(&kept.plan) else { return Ok(Some(format!("plan {number} has no order"))) };
        let queue = ReadyQueue::new(graph, &footprints(&kept.plan, &RegistryCatalog(self.work.host.tools().clone())));
        let outputs = StepOutputs::of(&kept, &[]);
        let KeptPlan { plan, .. } = kept;
        let places = plan.steps.iter().enumerate().map(|(place, step)| (step.step_id.clone(), place)).collect();
        let (inputs, skips, attempts) = (HashMap::new(), BTreeSet::new(), BTreeMap::new());
        self.plan = Some(PlanAgain { number, plan, places, queue, outputs, inputs, skips, attempts, counts: [0; 3] });
        self.came.plans += 1;
        Ok(None)
    }

    fn begun(&mut self, begun: &StepStarted) -> Differs {
        self.cut_off.remove(&(begun.plan, begun.step.clone()));
        let Some((plan, place)) = self.at(begun.plan, &begun.step) else { return Some(format!("step {} is of no plan", begun.step)) };
        let step = &plan.plan.steps[place];
        if begun.tool != step.tool_ref.name {
            return Some(format!("step {} is a call of `{}`, and its plan says `{}`", begun.step, begun.tool, step.tool_ref.name));
        }
        let before = plan.attempts.insert(place, begun.attempt).unwrap_or(0);
        if begun.attempt != before + 1 {
            return Some(format!("attempt {} of step {} follows attempt {before}", begun.attempt, begun.step));
        }
        if before == 0 && !plan.queue.begin_one(place) {
            return Some(format!("step {} begins, and what it waits for has not ended", begun.step));
        }
        if let Ok(input) = plan.outputs.bind(step) {
            plan.inputs.insert(place, input);
        }
        None
    }

    /// What it was called with is what its plan and the outputs before it say.
    fn admitted(&mut self, call: &CallAdmitted) -> Differs {
        let place = call.step.as_ref()?;
        self.came.calls += 1;
        if !call.read_only {
            self.writes.insert(call.call, (place.plan, place.step.clone()));
        }
        let work = self.work.clone();
        let (plan, at) = self.at(place.plan, &place.step)?;
        let step = &plan.plan.steps[at];
        // An adapted tool is called by other names.
        let is_adapted = work.host.tools().get(&step.tool_ref.name).is_some_and(tool::RegisteredTool::is_adapted);
        let input = plan.inputs.get(&at).filter(|_| !is_adapted)?;
        let digest = work.host.ledger().journal().vault().digest(input.to_string().as_bytes());
        (digest != call.digest).then(|| format!("step {} was called with another input than its plan gives", place.step))
    }

    fn finished(&mut self, end: &StepFinished) -> Result<Differs, Stop> {
        let work = self.work.clone();
        let recorded = (end.status, end.error.as_deref().map(|error| error.code.clone()));
        let Some((number, place)) = self.at(end.plan, &end.step).map(|(plan, place)| (plan.number, place)) else {
            return Ok(Some(format!("step {} is of no plan", end.step)));
        };
        let was_lost = self.cut_off.contains(&(end.plan, end.step.clone()));
        let Some(plan) = self.plan.as_mut() else { return Ok(None) };
        let step = plan.plan.steps[place].clone();
        let mut output = String::new();
        if end.status == StepStatus::Skipped {
            let is_due = plan.skips.contains(&place) || recorded.1.as_deref().is_some_and(|code| !code.starts_with("dependency"));
            if !is_due {
                return Ok(Some(format!("step {} was skipped, and nothing before it failed", end.step)));
            }
        } else if let Some(call) = end.call {
            let again = match (self.ends.end_of(&work, &step.tool_ref.name, call)?, self.refusals.get(&call)) {
                (Some(came), _) => judged_again(&work, &self.ends, &step, end, came)?,
                (None, Some(CallRefused { code, reason, rules, .. })) => {
                    let refusal = Refusal::new(*code, reason.clone());
                    Some(if was_lost { judge_lost(Some(call), &refusal) } else { judge_refusal(Some(call), &refusal, rules) })
                }
                (None, None) => None,
            };
            let came = match again {
                Some(AttemptEnd::Succeeded { call, value }) => {
                    output = work.host.ledger().journal().vault().digest(lasting(&value).to_string().as_bytes());
                    plan.outputs.take(&work, &step, call, value)?;
                    (StepStatus::Succeeded, None)
                }
                Some(AttemptEnd::Failed { error, .. }) => (StepStatus::Failed, Some(error.code)),
                _ => recorded.clone(),
            };
            let is_cut = matches!(recorded.1.as_deref(), Some("duration_limit" | "limit_reached"));
            if came != recorded && !is_cut {
                let told = |(status, code): &(StepStatus, Option<String>)| match code {
                    Some(code) => format!("{} ({code})", status.as_str()),
                    None => status.as_str().to_owned(),
                };
                return Ok(Some(format!("step {} comes to {}, and its record says {}", end.step, told(&came), told(&recorded))));
            }
        }
        plan.counts[match end.status {
            StepStatus::Succeeded => 0,
            StepStatus::Failed | StepStatus::Running => 1,
            StepStatus::Skipped => 2,
        }] += 1;
        let skipped = plan.queue.ended(place, end.status);
        plan.skips.extend(skipped.into_iter().map(|(step, _)| step));
        self.came.steps += u64::from(end.status != StepStatus::Skipped);
        self.told.push(json!([number, end.step, end.status.as_str(), end.attempts, recorded.1, output]).to_string());
        Ok(None)
    }

    fn checkpointed(&mut self, recorded: &SessionCheckpointed) -> Differs {
        let [succeeded, failed, skipped] = self.plan.as_ref()?.counts;
        let then = &recorded.iteration;
        ((succeeded, failed, skipped) != (then.succeeded, then.failed, then.skipped)).then(|| {
            format!(
                "{succeeded} steps succeeded, {failed} failed and {skipped} were skipped, and the record says {}, {} and {}",
                then.succeeded, then.failed, then.skipped
            )
        })
    }

    /// Its good end follows from its last plan.
    fn over(&mut self) -> Differs {
        let plan = self.plan.as_ref().filter(|_| !self.work.terms.agentic && !self.work.terms.plan_only)?;
        match plan.queue.stopped_by() {
            Some((step, _)) => Some(format!("it is done, and step {} failed", plan.plan.steps[step].step_id)),
            None if !plan.queue.is_over() => Some("it is done, and steps of its plan have not ended".to_owned()),
            None => None,
        }
    }

    fn at(&mut self, number: u32, step: &str) -> Option<(&mut PlanAgain, usize)> {
        let plan = self.plan.as_mut().filter(|plan| plan.number == number)?;
        let place = *plan.places.get(step)?;
        Some((plan, place))
    }
}

/// What a step comes to by its record. Where criteria were asked of what no record has, secrets or more than is kept, their word then counts.
fn judged_again(
    work: &SessionWork,
    ends: &RecordedEnds,
    step: &PlanStep,
    recorded: &StepFinished,
    came: CallEnd,
) -> Result<Option<AttemptEnd>, Stop> {
    let (tool, call, mode) = (&step.tool_ref.name, recorded.call, work.run_mode());
    if step.success_criteria.is_empty() {
        return Ok(Some(judge(step, mode, call, came, None)));
    }
    let exact = match (exact_value(work, &step.step_id, tool, call)?, call) {
        (Some(exact), _) => Some(exact),
        (None, Some(call)) => ends.whole_of(work, tool, call)?.filter(|whole| !has_mark(whole)),
        (None, None) => None,
    };
    Ok(match exact {
        Some(exact) => Some(judge(step, mode, call, came, Some(&exact))),
        None if recorded.status == StepStatus::Succeeded => {
            let unasked = PlanStep { success_criteria: Vec::new(), ..step.clone() };
            Some(judge(&unasked, mode, call, came, None))
        }
        None => None,
    })
}
