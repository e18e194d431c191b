//! The gate: decides whether one call may run, and records the decision in the same commit.
//!
//! Waits for nobody. **Invariant.** What it decides on and what it changes are one commit, so sixty-four racing calls against the last
//! use of a grant or budget admit exactly one.

use crate::abandoned::ends_with_caller;
use crate::describe::GateFacts;
use crate::judge::{CallerRights, Judgement, alternative_hint, demanded_by};
use crate::record::RedactedInput;
use crate::token::Presented;
use crate::{Gate, Request, approval};
use ledger::{Unrecorded, Urgency};
use policy::{Verdict, Warrant};
use std::time::Duration;
use tool::RunMode;
use world::Fault;
use world::event::{CallAdmitted, CallRefused, ProcPaused, ReviewAsked};
use world::{BootTime, CallId, Code, Constraints, Event, Grant, OpenCall, Pid, Refusal, ReviewState, TaskId, WorkflowMark, World, limits};

/// When a process with too many open calls may try again.
const OPEN_CALLS_WAIT: Duration = Duration::from_secs(1);

/// The gate's word on a call.
pub enum GateDecision {
    Admitted { permit: Permit, rules: Vec<String> },
    Refused { call: CallId, refusal: Refusal, rules: Vec<String> },
    Pending { refusal: Refusal, rules: Vec<String> },
}

/// Leave to run one call: a warrant whose admission is on disk, or covered by what is.
pub struct Permit {
    pub call: CallId,
    /// The grant that let it pass, with what it demands.
    pub grant: Option<Box<Grant>>,
    /// Its admission is still being written; only a request to a model can have that.
    pub unrecorded: Option<Unrecorded>,
    /// Its records may be late: it only reads, and its end, which stands behind its admission, is waited for.
    pub is_late: bool,
    _warrant: Warrant,
}

impl Permit {
    /// What its grant demands of the run and its output.
    pub fn constraints(&self) -> Option<&Constraints> {
        self.grant.as_ref().and_then(|grant| grant.terms.constraints.as_ref())
    }
}

/// What a commit found.
enum Ruling {
    /// The policy changed between facts and commit, or a grant was given or taken back: gather again.
    Stale,
    Admit {
        call: CallId,
        warrant: Warrant,
        grant: Option<Box<Grant>>,
        rules: Vec<String>,
        ahead: bool,
        is_late: bool,
    },
    Refuse {
        call: CallId,
        refusal: Refusal,
        rules: Vec<String>,
    },
    Ask {
        refusal: Refusal,
        rules: Vec<String>,
    },
}

/// What is recorded with an admission.
#[derive(Default)]
pub struct ExtraEvents {
    pub events: Vec<Event>,
    /// The call need not wait for them: what it may cost is on disk already.
    pub ahead: bool,
}

/// Extra events for the admission commit, or a refusal. Sees the world that the decision is made on.
pub type OnAdmit<'a> = dyn Fn(&World, CallId, i64) -> Result<ExtraEvents, Refusal> + Sync + 'a;

impl Gate {
    /// `None` when policy or grants changed after the facts were gathered.
    pub async fn admit(&self, request: &Request, facts: &GateFacts) -> Result<Option<GateDecision>, Fault> {
        self.admit_with(request, facts, &|_, _, _| Ok(ExtraEvents::default())).await
    }

    /// Decides, and records in the same commit what goes with a yes.
    pub async fn admit_with(&self, request: &Request, facts: &GateFacts, with: &OnAdmit<'_>) -> Result<Option<GateDecision>, Fault> {
        let redacted = RedactedInput::of(&self.ledger, request);
        // The clock is read once: nothing runs out between two looks.
        let now = self.moment();
        let pending = self.ledger.commit_late(|world, now_ms| {
            let decided = decide_locked(world, &GateInput { request, facts, redacted: &redacted, now: &now, now_ms, with });
            let is_late = matches!(decided.1, Ruling::Admit { is_late: true, .. });
            (decided, if is_late { Urgency::Held } else { Urgency::Synced })
        })?;
        let admitted = match pending.value() {
            // INVARIANT: nothing leaves the machine before what was read earlier is on disk.
            Ruling::Admit { call, ahead, .. } => Some((*call, *ahead && !self.ledger.has_late())),
            _ => None,
        };
        let (ruling, unrecorded) = match admitted {
            Some((_, true)) => {
                let (ruling, unrecorded) = pending.ahead();
                (ruling, Some(unrecorded))
            }
            // Its end stands behind its admission, and is waited for.
            Some(_) if matches!(pending.value(), Ruling::Admit { is_late: true, .. }) => (pending.ahead().0, None),
            Some((call, false)) if ends_with_caller(request) => {
                let (ruling, unrecorded) = pending.ahead();
                self.recorded_or_abandoned(call, unrecorded).await?;
                (ruling, None)
            }
            _ => (pending.durable().await?, None),
        };
        Ok(match ruling {
            Ruling::Stale => None,
            Ruling::Admit { call, warrant, grant, rules, is_late, .. } => {
                redacted.keep_original(&self.ledger, call)?;
                Some(GateDecision::Admitted { permit: Permit { call, grant, unrecorded, is_late, _warrant: warrant }, rules })
            }
            Ruling::Refuse { call, refusal, rules } => Some(GateDecision::Refused { call, refusal, rules }),
            Ruling::Ask { refusal, rules } => {
                if let Some(review) = refusal.review {
                    redacted.keep_original(&self.ledger, review)?;
                }
                Some(GateDecision::Pending { refusal, rules })
            }
        })
    }
}

/// Everything one decision is made on, besides the world.
struct GateInput<'a> {
    request: &'a Request,
    facts: &'a GateFacts,
    redacted: &'a RedactedInput,
    now: &'a BootTime,
    now_ms: i64,
    with: &'a OnAdmit<'a>,
}

/// The decision and its events. Runs under the ledger's lock.
fn decide_locked(world: &World, asked: &GateInput<'_>) -> (Vec<Event>, Ruling) {
    let GateInput { request, facts, redacted, now, now_ms, with } = asked;
    let (pid, task) = (request.pid, request.task);
    if world.policy_version(request.zone) != Some(facts.call.trusted.version) {
        return (Vec::new(), Ruling::Stale);
    }
    if let Err(refusal) = may_act(world, request) {
        return refuse(world, asked, refusal, Vec::new());
    }
    let rights = CallerRights::call(world, &facts.call, now, *now_ms);
    let Judgement { verdict, used } = facts.call.judge(&rights);
    // INVARIANT: a grant that sets fields of the input is used with those, and a call that a grant has changed is that grant's alone.
    let unmet = used.as_ref().is_some_and(|grant| demanded_by(grant, &request.input).is_some());
    let demanded = facts.call.demanded.is_some() && used.as_ref().map(|grant| grant.id) != facts.call.demanded;
    if unmet || (demanded && !matches!(verdict, Verdict::Deny { .. })) {
        return (Vec::new(), Ruling::Stale);
    }
    match verdict {
        Verdict::Allow(warrant) => {
            let call = world.next_call();
            let rules = warrant.rules().to_vec();
            let ExtraEvents { events: more, ahead } = match with(world, call, *now_ms) {
                Ok(more) => more,
                Err(refusal) => return refuse(world, asked, refusal, rules),
            };
            // What is counted is on disk before it is used, or a crash gives it twice: a lease is there, the use of a grant is not.
            let ahead = ahead && used.is_none() && warrant.token().is_none() && world.calls_left(task).is_none();
            let is_read_alone = more.is_empty() && used.is_none() && warrant.token().is_none() && may_be_late(world, asked);
            let event = CallAdmitted {
                pid,
                task,
                call,
                tool: request.tool.clone(),
                input: redacted.input.clone(),
                digest: redacted.digest.clone(),
                bind: facts.call.bind.clone(),
                hands: request.hands,
                read_only: facts.call.seen().read_only,
                rules: rules.clone(),
                grant: used.as_ref().map(|grant| grant.id),
                token: warrant.token().and(facts.call.token.as_ref()).map(Presented::id),
                paths: facts.paths.clone(),
                size: facts.call.seen().size,
                of: request.of,
                up: used.as_ref().filter(|grant| grant.terms.rate.is_some()).map(|_| now.until()),
                rooms: Some(facts.call.room().into_iter().collect()),
                run_mode: (request.run_mode != RunMode::Live).then(|| request.run_mode.as_str().to_owned()),
                // A part of a step's call is no step.
                step: request.step.clone().filter(|_| request.of.is_none()),
                workflow: mark_of(world, task),
            };
            let grant = used.map(Box::new);
            let event = Event::from(event);
            let is_late = is_read_alone && event.may_be_late();
            let mut events = Vec::with_capacity(1 + more.len());
            events.push(event);
            events.extend(more);
            (events, Ruling::Admit { call, warrant, grant, rules, ahead, is_late })
        }
        Verdict::Review { reasons, rules } => ask(world, asked, reasons, rules),
        Verdict::Deny { refusal, rules } => refuse(world, asked, refusal, rules),
    }
}

/// Whether nothing but the policy's rules is involved, nothing of the input must be kept until the end, and nothing can leave by a
/// connection that is open already.
fn may_be_late(world: &World, asked: &GateInput<'_>) -> bool {
    let GateInput { request, facts, redacted, .. } = asked;
    let is_own = |call: &OpenCall| call.pid == request.pid || (call.task.is_some() && call.task == request.task);
    let is_connected = || world.calls.values().any(|call| is_own(call) && call.tool.starts_with("net."));
    facts.call.demanded.is_none() && facts.call.seen().opinions.is_empty() && redacted.digest_if_redacted().is_none() && !is_connected()
}

fn refuse(world: &World, asked: &GateInput<'_>, refusal: Refusal, rules: Vec<String>) -> (Vec<Event>, Ruling) {
    let call = world.next_call();
    let (paths, size) = (asked.facts.paths.clone(), asked.facts.call.seen().size);
    let workflow = mark_of(world, asked.request.task);
    let event = CallRefused { rules: rules.clone(), paths, size, workflow, ..asked.redacted.refused(asked.request, call, &refusal) };
    (vec![event.into()], Ruling::Refuse { call, refusal, rules })
}

/// In which mode and state a call of this task is made.
pub(crate) fn mark_of(world: &World, task: Option<TaskId>) -> Option<WorkflowMark> {
    task.and_then(|task| world.tasks.get(&task))?.workflow.as_deref().map(world::Workflow::mark)
}

/// Is this process in a state to make calls at all?
fn may_act(world: &World, request: &Request) -> Result<(), Refusal> {
    let process = world.processes.get(&request.pid).filter(|process| process.state.alive());
    let process = process.ok_or_else(|| Refusal::new(Code::WrongState, format!("process {} is not alive", request.pid)))?;
    if process.state == world::ProcessState::Paused {
        return Err(Refusal::new(Code::WrongState, format!("{} is paused", process.name)).remedy(world::Remedy::AnswerReviews));
    }
    if let Some(task) = request.task.and_then(|task| world.tasks.get(&task))
        && task.state.ended()
    {
        return Err(Refusal::new(Code::WrongState, format!("{} has ended", task.id)));
    }
    let open = world.calls.values().filter(|call| call.pid == request.pid).count();
    if open >= limits::CALLS_OPEN_MAX {
        let full = Refusal::new(Code::Exhausted, format!("{open} calls are open")).hint("wait for one of them to end");
        return Err(full.passes_after(OPEN_CALLS_WAIT));
    }
    Ok(())
}

/// A person must answer. Equal questions merge; a question that was answered with no is not asked twice.
fn ask(world: &World, asked: &GateInput<'_>, reasons: Vec<String>, rules: Vec<String>) -> (Vec<Event>, Ruling) {
    let GateInput { request, facts, redacted, .. } = asked;
    let (pid, task) = (request.pid, request.task);
    if let Some(then) = &facts.then {
        return match approval::answer(world, request, then, facts, &rules) {
            // Decided anew, with the grant.
            Ok(given) => (vec![given], Ruling::Stale),
            Err(refusal) => refuse(world, asked, refusal, rules),
        };
    }
    if let Some(review) = world.denied_review(pid, &facts.call.bind)
        && review.task == task
        && let ReviewState::Answered { by, reason, alternative, .. } = &review.state
    {
        let why = reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
        let hint = alternative.as_ref().map_or_else(|| "do it another way".to_owned(), alternative_hint);
        return refuse(world, asked, Refusal::new(Code::Denied, format!("{by} refused it in {}{why}", review.id)).hint(hint), rules);
    }
    let pending = |review| {
        let refusal = Refusal::new(Code::Pending, format!("refused for now: {review} waits for a person ({})", reasons.join("; ")));
        Refusal { review: Some(review), ..refusal.remedy(world::Remedy::AnswerReview { review }) }
    };
    if let Some(review) = world.open_review(pid, &facts.call.bind) {
        return (Vec::new(), Ruling::Ask { refusal: pending(review.id), rules });
    }
    // The operator is the one who answers. What a job of theirs asks for through its network is another matter.
    let is_limited = pid != Pid::OPERATOR || request.of.is_some();
    if is_limited && world.open_reviews(pid) >= limits::REVIEWS_OPEN_MAX {
        let reason = format!("it has {} unanswered questions", limits::REVIEWS_OPEN_MAX);
        let (mut events, ruling) =
            refuse(world, asked, Refusal::new(Code::Exhausted, reason.clone()).remedy(world::Remedy::AnswerReviews), rules);
        if pid != Pid::OPERATOR {
            events.push(ProcPaused { pid, task: None, reason }.into());
        }
        return (events, ruling);
    }
    let review = world.next_review();
    let event = ReviewAsked {
        pid,
        task,
        review,
        tool: request.tool.clone(),
        input: redacted.input.clone(),
        bind: facts.call.bind.clone(),
        like: facts.like.clone(),
        reasons: reasons.clone(),
        rules: rules.clone(),
        paths: facts.paths.clone(),
        size: facts.call.seen().size,
        zone: Some(request.zone).filter(|zone| !zone.is_none()),
        whole: redacted.digest_if_redacted(),
        room: facts.call.room(),
    };
    (vec![event.into()], Ruling::Ask { refusal: pending(review), rules })
}

/// The refusal of a call that was to be decided on what changed meanwhile, twice.
pub fn stale() -> Refusal {
    Refusal::new(Code::Denied, "the policy or a grant changed while the call was being decided").hint("ask again")
}
