//! One attempt at one step: its input put together, its call made, and what came of it judged.

use crate::outputs::exact_value;
use crate::slots::{RoomSlot, SlotOrder};
use crate::work::SessionWork;
use gate::{CallEnd, CallOutcome, Request, SESSION_TERMS, TIMED_OUT};
use serde_json::Value;
use std::time::Duration;
use tokio::sync::watch;
use tool::{Room, RunMode};
use workflow::discipline::PLAN_COMPLETE;
use workflow::{PlanStep, RoomClaim, StepFailure, check_success, refusal_error, step_error};
use world::{CallId, Code, Refusal, ReviewId, StepError, StepRef, Stop};

/// What came of an attempt.
#[derive(Debug)]
pub(crate) enum AttemptEnd {
    Succeeded {
        call: Option<CallId>,
        value: Value,
    },
    Failed {
        call: Option<CallId>,
        error: StepError,
        may_retry: bool,
    },
    /// A person must answer; asked again then, it goes on.
    Asked(ReviewId),
    /// It was ended for one of higher priority.
    Displaced,
    /// Nothing is known of it, because the kernel could not go on.
    Broken(Stop),
}

impl AttemptEnd {
    pub fn failed(call: Option<CallId>, failure: StepFailure, message: impl AsRef<str>) -> AttemptEnd {
        AttemptEnd::Failed { call, error: step_error(failure, message), may_retry: failure.may_pass_later() }
    }

    fn refused(call: Option<CallId>, refusal: &Refusal) -> AttemptEnd {
        let may_retry = refusal.retry_after().is_some();
        AttemptEnd::Failed { call, error: refusal_error(refusal), may_retry }
    }
}

/// An attempt that is to be made.
pub(crate) struct Attempt {
    pub step: PlanStep,
    pub place: StepRef,
    pub input: Value,
    /// Another step takes its input from what it gives, or a criterion asks about it.
    pub is_handed_on: bool,
    pub was_lost: bool,
    /// Says when nothing is to wait any longer.
    pub over: watch::Receiver<bool>,
}

/// Makes the call of a step.
pub(crate) async fn attempt(work: SessionWork, attempt: Attempt) -> AttemptEnd {
    let Attempt { step, place, input, is_handed_on, was_lost, mut over } = attempt;
    let tool = &step.tool_ref.name;
    let mode = work.run_mode();
    let request = Request {
        run_mode: mode,
        step: Some(place),
        is_handed_on,
        was_lost,
        time_max: step.timeout_ms.map(Duration::from_millis),
        ..Request::new(work.pid, Some(work.id), work.zone, tool, input)
    };
    let Some(registered) = work.host.tools().get(tool) else {
        // The end of a phase is no tool of the registry; the door knows it.
        if tool == PLAN_COMPLETE {
            return match work.host.call(&request).await {
                Ok(outcome) => judge_outcome(&work, &step, outcome, false),
                Err(fault) => AttemptEnd::Broken(fault.into()),
            };
        }
        return AttemptEnd::failed(None, StepFailure::UnknownTool, format!("there is no tool `{tool}`"));
    };
    let manifest = registered.manifest();
    if let Some(range) = step.tool_ref.version_range.as_ref().filter(|range| !range.has(&manifest.version)) {
        let message = format!("`{tool}` has version {}, and the step wants {}", manifest.version, range.as_str());
        return AttemptEnd::failed(None, StepFailure::WrongVersion, message);
    }
    let may_repeat = registered.reads_only(&request.input);
    let is_doubtful = was_lost && !may_repeat;
    // Only what is done in earnest has a room.
    if manifest.room != Room::Sandbox || mode != RunMode::Live {
        return match work.host.call(&request).await {
            Ok(outcome) => judge_outcome(&work, &step, outcome, is_doubtful),
            Err(fault) => AttemptEnd::Broken(fault.into()),
        };
    }
    let wish = RoomClaim {
        session: work.id,
        template: manifest.template.clone().unwrap_or_else(|| "default".to_owned()),
        priority: work.terms.priority,
        time_ms_max: step.timeout_ms.map_or(manifest.timeout_ms, |own| own.min(manifest.timeout_ms)),
    };
    let slot = tokio::select! {
        slot = work.host.slots().room(wish) => slot,
        _ = over.wait_for(|is_over| *is_over) => {
            return AttemptEnd::failed(None, StepFailure::DurationLimit, "the session's time was over before a sandbox was free");
        }
    };
    match call_in_room(&work, &request, may_repeat, slot).await {
        Ok(Some(outcome)) => judge_outcome(&work, &step, outcome, is_doubtful),
        Ok(None) => AttemptEnd::Displaced,
        Err(stop) => AttemptEnd::Broken(stop),
    }
}

/// Makes a call that has a room, as long as nobody of higher priority needs the place. `None` where it was ended for one.
async fn call_in_room(work: &SessionWork, request: &Request, may_repeat: bool, mut slot: RoomSlot) -> Result<Option<CallOutcome>, Stop> {
    let mut call = work.host.call(request);
    loop {
        let order = tokio::select! {
            outcome = &mut call => return Ok(Some(outcome?)),
            order = slot.displaced() => order,
        };
        // What changes something is frozen instead: ended and made again, it would be made twice.
        if order == SlotOrder::End && may_repeat {
            if let Some(own) = open_call(work, request) {
                work.host.cancel_call(own, "a step of higher priority needs its place").await?;
            }
            call.await?;
            return Ok(None);
        }
        // A room that is not there yet has nothing to freeze: the call goes on.
        let paused = work.host.pause_room(work.id).await;
        if let Err(stop) = paused {
            world::log!("skep: a step of {} keeps its place: {stop}", work.id);
            return Ok(Some(call.await?));
        }
        slot.suspend();
        let outcome = tokio::select! {
            outcome = &mut call => Some(outcome),
            () = slot.granted() => None,
        };
        work.host.resume_room(work.id).await?;
        if let Some(outcome) = outcome {
            return Ok(Some(outcome?));
        }
    }
}

/// The call of a step, once it was admitted.
fn open_call(work: &SessionWork, request: &Request) -> Option<CallId> {
    let place = request.step.as_ref()?;
    let known = work.look(|_, session| session.plan.as_ref()?.begun.get(&place.step)?.call);
    known.ok().flatten()
}

/// `is_doubtful` is a call that was cut off before and may have changed something.
fn judge_outcome(work: &SessionWork, step: &PlanStep, outcome: CallOutcome, is_doubtful: bool) -> AttemptEnd {
    let CallOutcome { call, end, rules, .. } = outcome;
    match &end {
        CallEnd::Refused(refusal) if is_doubtful => judge_lost(call, refusal),
        CallEnd::Refused(refusal) => judge_refusal(call, refusal, &rules),
        _ => judge_exactly(work, step, call, end).unwrap_or_else(AttemptEnd::Broken),
    }
}

/// A write that a crash cut off and that is not made again, because a person or a rule says no: nobody knows what came of it, so it is not tried again either.
pub(crate) fn judge_lost(call: Option<CallId>, refusal: &Refusal) -> AttemptEnd {
    let message = format!("its call was cut off and may have taken effect; it is not made again: {}", refusal.reason);
    AttemptEnd::failed(call, StepFailure::Lost, message)
}

/// What a refusal is for a step: the session's own terms are told from the policy.
pub(crate) fn judge_refusal(call: Option<CallId>, refusal: &Refusal, rules: &[String]) -> AttemptEnd {
    match rules.iter().any(|rule| rule == SESSION_TERMS) {
        true => AttemptEnd::failed(call, StepFailure::OutsideProfile, &refusal.reason),
        false => AttemptEnd::refused(call, refusal),
    }
}

/// What the end of a call is for its step, by exactly what it gave: what is told of it may be shortened, cleaned and without its secrets.
pub(crate) fn judge_exactly(work: &SessionWork, step: &PlanStep, call: Option<CallId>, end: CallEnd) -> Result<AttemptEnd, Stop> {
    let exact = match step.success_criteria.is_empty() {
        true => None,
        false => exact_value(work, &step.step_id, &step.tool_ref.name, call)?,
    };
    Ok(judge(step, work.run_mode(), call, end, exact.as_ref()))
}

/// What the end of a call is for its step. `exact` is what criteria are asked of, where that is not what its caller was told.
pub(crate) fn judge(step: &PlanStep, mode: RunMode, call: Option<CallId>, end: CallEnd, exact: Option<&Value>) -> AttemptEnd {
    match end {
        CallEnd::Done { ok: true, value } => {
            // A dry run only says what would be done.
            let met = if mode == RunMode::DryRun { Ok(()) } else { check_success(&step.success_criteria, exact.unwrap_or(&value)) };
            match met {
                Ok(()) => AttemptEnd::Succeeded { call, value },
                Err(error) => AttemptEnd::Failed { call, error, may_retry: StepFailure::CriteriaUnmet.may_pass_later() },
            }
        }
        CallEnd::Done { ok: false, value } => not_ok(call, &value),
        CallEnd::Pending(Refusal { review: Some(review), .. }) => AttemptEnd::Asked(review),
        CallEnd::Refused(refusal) | CallEnd::Pending(refusal) => AttemptEnd::refused(call, &refusal),
        CallEnd::CallerExecutes => AttemptEnd::failed(call, StepFailure::Unsupported, "a session has no hands of its own"),
    }
}

/// Why a tool that ran was not successful, by what it gave.
fn not_ok(call: Option<CallId>, value: &Value) -> AttemptEnd {
    let text = |field: &str| value.get(field).and_then(Value::as_str);
    let reason = || text("reason").map_or_else(|| beginning(value), str::to_owned);
    if value.get(TIMED_OUT) == Some(&Value::Bool(true)) {
        return AttemptEnd::failed(call, StepFailure::TimedOut, reason());
    }
    let code = value.get("error").and_then(|code| serde_json::from_value::<Code>(code.clone()).ok());
    match (code, text("reason")) {
        // The tool refused in the middle of its work, which is over.
        (Some(code), Some(reason)) => {
            let refusal = Refusal::new(code, reason);
            AttemptEnd::Failed { call, error: refusal_error(&refusal), may_retry: true }
        }
        _ => AttemptEnd::failed(call, StepFailure::ToolFailed, reason()),
    }
}

/// Bytes of an output that an error quotes.
const QUOTED_MAX: usize = 300;

fn beginning(value: &Value) -> String {
    if let Some(code) = value.get("exit_code").and_then(Value::as_i64) {
        let said = value.get("stderr").and_then(Value::as_str).and_then(|text| text.lines().rfind(|line| !line.trim().is_empty()));
        let said = said.map_or_else(String::new, |line| format!(": {}", &line[..line.floor_char_boundary(QUOTED_MAX)]));
        return format!("it ended with exit code {code}{said}");
    }
    let mut text = value.to_string();
    if text.len() > QUOTED_MAX {
        text.truncate(text.floor_char_boundary(QUOTED_MAX));
        text.push('…');
    }
    format!("the tool was not successful: {text}")
}
