//! What the journal says of a session that was left in the middle: which plans were asked for, and what came of calls.
//!
//! **Invariant.** A call whose outcome is on record is that outcome for its step, exactly as whoever made it was told.

use crate::work::SessionWork;
use gate::CallEnd;
use journal::Filter;
use ledger::event_of;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use world::event::CallFinished;
use world::{CallId, Event, Fault, FaultKind, ForkPoint, PlanFinding, Stop, TaskId};

/// How far the planning is.
#[derive(Debug, Default)]
pub(crate) struct PlanningPast {
    /// Plans that planners gave, of the whole session.
    pub received: u32,
    /// The newest asking.
    pub iteration: u32,
    pub round: u32,
    /// The newest plan, where nobody has judged it yet: its blob, and its name in the vault.
    pub unjudged: Option<(String, Option<String>)>,
    /// What was found against the newest plan, where it was rejected.
    pub criticism: Vec<PlanFinding>,
    /// Why the newest plan is given up.
    pub failure: Option<String>,
}

const OF_PLANNING: [&str; 5] = ["planner.requested", "plan.received", "plan.rejected", "plan.accepted", "plan.replaced"];

impl PlanningPast {
    pub fn read(work: &SessionWork) -> Result<PlanningPast, Stop> {
        let mut past = PlanningPast::default();
        for event in work.host.ledger().events(work.id, &OF_PLANNING)? {
            match event {
                Event::PlannerRequested(asked) => {
                    if asked.iteration != past.iteration {
                        past.criticism.clear();
                    }
                    (past.iteration, past.round) = (asked.iteration, asked.round);
                }
                Event::PlanReceived(received) => {
                    past.received += 1;
                    past.unjudged = Some((received.blob, received.original));
                }
                Event::PlanRejected(rejected) => {
                    past.unjudged = None;
                    past.criticism = rejected.findings;
                }
                Event::PlanAccepted(_) => {
                    (past.unjudged, past.failure) = (None, None);
                    past.criticism.clear();
                }
                Event::PlanReplaced(replaced) => past.failure = Some(replaced.reason),
                _ => {}
            }
        }
        Ok(past)
    }
}

/// The session, and those that it goes on from: its steps may be calls of theirs.
pub(crate) fn lineage(work: &SessionWork) -> Result<Vec<TaskId>, Stop> {
    let mut tasks = vec![work.id];
    let mut at = work.look(|_, session| session.forked)?;
    while let Some(ForkPoint { of, .. }) = at.filter(|point| !tasks.contains(&point.of)) {
        tasks.push(of);
        let created = work.host.ledger().events(of, &["session.created"])?.into_iter().next();
        at = if let Some(Event::SessionCreated(created)) = created { created.forked } else { None };
    }
    Ok(tasks)
}

/// What came of calls, by their records.
#[derive(Default)]
pub(crate) struct RecordedEnds {
    ends: HashMap<CallId, CallFinished>,
}

impl RecordedEnds {
    /// Looks these calls up.
    pub fn of(work: &SessionWork, calls: &HashSet<CallId>) -> Result<RecordedEnds, Stop> {
        let mut found = RecordedEnds::default();
        if calls.is_empty() {
            return Ok(found);
        }
        for task in lineage(work)? {
            let filter = Filter { task: Some(task.to_string()), kinds: vec!["call.finished".into()], ..Filter::default() };
            for record in work.host.ledger().read(&filter)? {
                if let Event::CallFinished(end) = event_of(&record)?
                    && calls.contains(&end.call)
                {
                    found.note(end);
                }
            }
        }
        Ok(found)
    }

    pub fn note(&mut self, end: CallFinished) {
        self.ends.insert(end.call, end);
    }

    /// What a call gave, whole, but for the secrets that no record has; `None` where that is not kept.
    pub fn whole_of(&self, work: &SessionWork, tool: &str, call: CallId) -> Result<Option<Value>, Stop> {
        let Some(end) = self.ends.get(&call) else { return Ok(None) };
        let value = match &end.blob {
            None => Some(end.output.clone()),
            Some(blob) => work.host.ledger().blob_if_kept(blob)?.map(|bytes| parse_kept(&bytes)).transpose()?,
        };
        let adapted = work.host.tools().get(tool).filter(|tool| tool.is_adapted() && end.ok);
        Ok(match (adapted, value) {
            (Some(tool), Some(value)) => tool.adapted_output(work.run_mode(), value).ok(),
            (_, value) => value,
        })
    }

    /// How a call of this tool ended, as its caller was told; `None` where nobody knows.
    pub fn end_of(&self, work: &SessionWork, tool: &str, call: CallId) -> Result<Option<CallEnd>, Stop> {
        let Some(end) = self.ends.get(&call) else { return Ok(None) };
        let registered = work.host.tools().get(tool);
        let mut value = match &end.blob {
            None => end.output.clone(),
            Some(blob) => match work.host.ledger().blob_if_kept(blob)? {
                Some(bytes) => {
                    let mut whole = parse_kept(&bytes)?;
                    if let (Some(tool), Some(trusted)) = (registered, work.host.gate().policies.trusted(work.zone)?) {
                        trusted.sanitizer.clean(tool.manifest(), &mut whole);
                    }
                    whole
                }
                None => end.output.clone(),
            },
        };
        if let Some(adapted) = registered.filter(|tool| tool.is_adapted() && end.ok) {
            value = match adapted.adapted_output(work.run_mode(), value) {
                Ok(value) => value,
                Err(refusal) => return Ok(Some(CallEnd::Refused(refusal))),
            };
        }
        Ok(Some(CallEnd::Done { ok: end.ok, value }))
    }
}

fn parse_kept(bytes: &[u8]) -> Result<Value, Fault> {
    serde_json::from_slice(bytes).map_err(|error| Fault::new(FaultKind::Bug, "a kept output cannot be read", error))
}
