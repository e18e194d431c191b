//! The gate: decides whether one call may run, and records the decision in the same commit.
//!
//! Waits for nobody. **Invariant.** What it decides on and what it changes are one commit, so sixty-four racing calls against the last
//! use of a grant or budget admit exactly one.

use super::facts::Facts;
use super::{Request, settle};
use crate::Kernel;
use crate::fault::Fault;
use policy::{Standing, Verdict, Warrant};
use world::event::{CallAdmitted, CallRefused, ProcPaused, ReviewAsked};
use world::{CallId, Code, Event, Refusal, ReviewState, World, limits};

pub(super) enum Admission {
    Admitted { permit: Permit, rules: Vec<String> },
    Refused { call: CallId, refusal: Refusal, rules: Vec<String> },
    Pending { refusal: Refusal, rules: Vec<String> },
}

/// Leave to run one call: a warrant whose admission is on disk.
pub(super) struct Permit {
    pub call: CallId,
    _warrant: Warrant,
}

/// What a commit found.
enum Ruling {
    /// The policy changed between facts and commit: gather again.
    Stale,
    Admit {
        call: CallId,
        warrant: Warrant,
        rules: Vec<String>,
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

/// `None` when the policy changed after the facts were gathered.
pub(super) async fn admit(kernel: &Kernel, request: &Request, facts: &Facts) -> Result<Option<Admission>, Fault> {
    let sealed = settle::sealed(kernel, request);
    let ruling = kernel.ledger.commit(|world, _| rule(world, request, facts, &sealed))?.durable().await?;
    Ok(match ruling {
        Ruling::Stale => None,
        Ruling::Admit { call, warrant, rules } => {
            sealed.keep(kernel, call)?;
            Some(Admission::Admitted { permit: Permit { call, _warrant: warrant }, rules })
        }
        Ruling::Refuse { call, refusal, rules } => Some(Admission::Refused { call, refusal, rules }),
        Ruling::Ask { refusal, rules } => Some(Admission::Pending { refusal, rules }),
    })
}

fn rule(world: &World, request: &Request, facts: &Facts, sealed: &settle::Sealed) -> (Vec<Event>, Ruling) {
    let (pid, task, tool) = (request.pid, request.task, request.tool.clone());
    if world.zones.get(&request.zone).map(|zone| zone.policy_version) != Some(facts.trusted.version) {
        return (Vec::new(), Ruling::Stale);
    }
    let refuse = |refusal: Refusal, rules: Vec<String>| {
        let call = world.next_call();
        let (input, digest) = (sealed.input.clone(), sealed.digest.clone());
        let (code, reason, hint) = (refusal.code, refusal.reason.clone(), refusal.hint.clone());
        let event = CallRefused { pid, task, call, tool: tool.clone(), input, digest, code, reason, hint, rules: rules.clone() };
        (vec![event.into()], Ruling::Refuse { call, refusal, rules })
    };
    if let Err(refusal) = may_act(world, request) {
        return refuse(refusal, Vec::new());
    }
    let standing = Standing { grant: world.grant_for(pid, &facts.bind).map(|grant| grant.id), calls_left: world.calls_left(task) };
    let paths = facts.paths();
    let verdict = policy::decide(&facts.trusted.policy, &facts.as_policy(request, &paths), &standing);
    // A call that may have happened already is a person's to repeat, whatever the policy says of it.
    let lost = task.and_then(|task| world.tasks.get(&task)).is_some_and(|task| task.lost.contains(&facts.bind));
    match verdict {
        Verdict::Allow(warrant) if !lost || standing.grant.is_some() => {
            let call = world.next_call();
            let rules = warrant.rules().to_vec();
            let grant = warrant.grant().or(if lost { standing.grant } else { None });
            let event = CallAdmitted {
                pid,
                task,
                call,
                tool,
                input: sealed.input.clone(),
                digest: sealed.digest.clone(),
                bind: facts.bind.clone(),
                hands: request.hands,
                read_only: facts.read_only,
                rules: rules.clone(),
                grant,
            };
            (vec![event.into()], Ruling::Admit { call, warrant, rules })
        }
        Verdict::Allow(_) => {
            let reason = "this exact call was interrupted by a crash and may have taken effect".to_owned();
            ask(world, request, facts, sealed, vec![reason], vec!["lost-call".into()], refuse)
        }
        Verdict::Review { reasons, rules } => ask(world, request, facts, sealed, reasons, rules, refuse),
        Verdict::Deny { refusal, rules } => refuse(refusal, rules),
    }
}

/// Is this process in a state to make calls at all?
fn may_act(world: &World, request: &Request) -> Result<(), Refusal> {
    let process = world.processes.get(&request.pid).filter(|process| process.state.alive());
    let process = process.ok_or_else(|| Refusal::new(Code::WrongState, format!("process {} is not alive", request.pid)))?;
    if process.state == world::ProcessState::Paused {
        return Err(Refusal::new(Code::WrongState, format!("{} is paused", process.name)).hint("answer its reviews: `skep review`"));
    }
    if let Some(task) = request.task.and_then(|task| world.tasks.get(&task))
        && task.state.ended()
    {
        return Err(Refusal::new(Code::WrongState, format!("{} has ended", task.id)));
    }
    let open = world.calls.values().filter(|call| call.pid == request.pid).count();
    if open >= limits::CALLS_OPEN_MAX {
        return Err(Refusal::new(Code::Exhausted, format!("{open} calls are open")).hint("wait for one of them to end"));
    }
    Ok(())
}

/// A person must answer. Equal questions merge; a question that was answered with no is not asked twice.
fn ask(
    world: &World,
    request: &Request,
    facts: &Facts,
    sealed: &settle::Sealed,
    reasons: Vec<String>,
    rules: Vec<String>,
    refuse: impl Fn(Refusal, Vec<String>) -> (Vec<Event>, Ruling),
) -> (Vec<Event>, Ruling) {
    let (pid, task) = (request.pid, request.task);
    if let Some(review) = world.denied_review(pid, &facts.bind)
        && review.task == task
        && let ReviewState::Answered { by, reason, .. } = &review.state
    {
        let why = reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
        return refuse(Refusal::new(Code::Denied, format!("{by} refused it in {}{why}", review.id)).hint("do it another way"), rules);
    }
    let pending = |review| {
        let refusal = Refusal::new(Code::Pending, format!("refused for now: {review} waits for a person ({})", reasons.join("; ")));
        Refusal {
            review: Some(review),
            ..refusal.hint(format!("`skep review show {review}`, then `skep review allow {review}` or `deny`"))
        }
    };
    if let Some(review) = world.open_review(pid, &facts.bind) {
        return (Vec::new(), Ruling::Ask { refusal: pending(review.id), rules });
    }
    if world.open_reviews(pid) >= limits::REVIEWS_OPEN_MAX {
        let reason = format!("it has {} unanswered questions", limits::REVIEWS_OPEN_MAX);
        let (mut events, ruling) = refuse(Refusal::new(Code::Exhausted, reason.clone()).hint("answer them: `skep review`"), rules);
        events.push(ProcPaused { pid, task: None, reason }.into());
        return (events, ruling);
    }
    let review = world.next_review();
    let event = ReviewAsked {
        pid,
        task,
        review,
        tool: request.tool.clone(),
        input: sealed.input.clone(),
        bind: facts.bind.clone(),
        reasons: reasons.clone(),
        rules: rules.clone(),
    };
    (vec![event.into()], Ruling::Ask { refusal: pending(review), rules })
}
