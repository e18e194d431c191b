//! What a person said to a call is said again in its replay.
//!
//! **Invariant.** A yes counts for the very call that was made with it, as often as it was, with what it came with, and for nothing that
//! reaches beyond the workspace. It answers a question and never a no: policy, parents and bans are asked before, and a wide yes that
//! was taken back since is none.

use crate::describe::GateFacts;
use crate::{Gate, Request};
use std::collections::HashMap;
use std::sync::Arc;
use world::Fault;
use world::event::GrantGiven;
use world::{
    Answer, CallPattern, Code, Constraints, Event, GrantId, Refusal, ReviewId, ReviewState, Scope, ShownContext, TaskId, Terms, World,
};

/// What a call of a replay was in the original.
#[derive(Clone, Debug)]
pub(crate) struct OriginalCall {
    pub of: TaskId,
    /// What it was bound to there.
    pub bind: String,
    pub approvals: Vec<RecordedApproval>,
}

/// A yes that a call of the original was made with.
#[derive(Clone, Debug)]
pub(crate) struct RecordedApproval {
    grant: GrantId,
    review: Option<ReviewId>,
    constraints: Option<Constraints>,
    /// Who had asked; `None` in records of an earlier version.
    rules: Option<Vec<String>>,
    /// It was for more than the one call, so it can be taken back.
    wide: bool,
}

/// Every yes of a task by tool and bind, in the order in which they were used.
pub(crate) type RecordedApprovals = HashMap<(String, String), Vec<RecordedApproval>>;

impl Gate {
    /// What this call was in the task that is replayed.
    pub(crate) fn original_call(&self, of: TaskId, tool: &str, bind: String) -> Result<OriginalCall, Fault> {
        let known = self.approvals.lock().get(&of).cloned();
        let all = match known {
            Some(all) => all,
            None => {
                let all = Arc::new(self.recorded_approvals(of)?);
                self.approvals.lock().insert(of, all.clone());
                all
            }
        };
        let key = (tool.to_owned(), bind);
        let approvals = all.get(&key).cloned().unwrap_or_default();
        Ok(OriginalCall { of, bind: key.1, approvals })
    }

    /// A replay of this task has ended: what was said yes to in it is read again by the next.
    pub fn forget_approvals(&self, of: TaskId) {
        self.approvals.lock().remove(&of);
    }

    fn recorded_approvals(&self, of: TaskId) -> Result<RecordedApprovals, Fault> {
        let mut given: HashMap<GrantId, GrantGiven> = HashMap::new();
        let mut approvals = RecordedApprovals::new();
        for event in self.ledger.events(of, &["grant.given", "call.admitted"])? {
            match event {
                Event::GrantGiven(e) => drop(given.insert(e.grant, e)),
                Event::CallAdmitted(e) => {
                    let Some(grant) = e.grant else { continue };
                    let known = given.get(&grant);
                    // A yes may set another input than was asked for; what was asked is what it is bound to.
                    let key = match known.map(|given| &given.what) {
                        Some(CallPattern::Exact { tool, bind }) => (tool.clone(), bind.clone()),
                        _ => (e.tool, e.bind),
                    };
                    let wide = !matches!(known.map(|given| &given.what), Some(CallPattern::Exact { .. }));
                    let review = known.and_then(|given| given.review);
                    let constraints = known.and_then(|given| given.terms.constraints.clone());
                    let rules = known.and_then(|given| given.shown.as_ref()).map(|shown| shown.rules.clone());
                    approvals.entry(key).or_default().push(RecordedApproval { grant, review, constraints, rules, wide });
                }
                _ => {}
            }
        }
        Ok(approvals)
    }
}

/// The grant that stands for the recorded approval, or why there is none. `rules` are those that ask now.
pub(crate) fn answer(world: &World, request: &Request, then: &OriginalCall, facts: &GateFacts, rules: &[String]) -> Result<Event, Refusal> {
    let (of, bind) = (then.of, facts.call.bind.as_str());
    let exact = CallPattern::Exact { tool: request.tool.clone(), bind: bind.to_owned() };
    let given = world.grants.values().filter(|grant| grant.task == request.task && grant.what == exact).count();
    let lost = request.task.and_then(|task| world.tasks.get(&task)).is_some_and(|task| task.lost.iter().any(|lost| lost == bind));
    if lost {
        return Err(Refusal::new(Code::Denied, "this exact call was interrupted, and a replay asks nobody"));
    }
    let Some(approval) = then.approvals.get(given) else { return Err(unanswered(world, request, then)) };
    let held = world.grants.get(&approval.grant);
    if approval.wide && held.is_none() {
        return Err(Refusal::new(Code::Denied, format!("{} allowed it, and was taken back since", approval.grant)));
    }
    if let Some(rule) = rules.iter().find(|rule| approval.rules.as_ref().is_some_and(|then| !then.contains(rule))) {
        return Err(Refusal::new(Code::Denied, format!("rule `{rule}` asks about it now, and a replay asks nobody")));
    }
    if !facts.stays_inside {
        let by = approval.review.map_or_else(|| approval.grant.to_string(), |review| review.to_string());
        return Err(Refusal::new(Code::Denied, format!("{by} allowed it, and it reaches beyond a replay")));
    }
    let constraints = held.map_or(&approval.constraints, |held| &held.terms.constraints).clone();
    let terms = Terms { uses_left: Some(1), constraints, ..Terms::default() };
    let (pid, task, by) = (request.pid, request.task, format!("the replay of {of}"));
    let scope = Scope::Process { pid };
    let (grant, shown) = (world.next_grant(), Some(ShownContext { room: facts.call.room(), rules: rules.to_vec() }));
    Ok(GrantGiven { pid, task, grant, scope, what: exact, terms, review: approval.review, by, shown }.into())
}

/// Nobody said yes to it: was it a no, or was it never asked?
fn unanswered(world: &World, request: &Request, then: &OriginalCall) -> Refusal {
    let mut asked =
        world.reviews.values().filter(|review| review.task == Some(then.of) && review.tool == request.tool && review.bind == then.bind);
    let denied = asked.find(|review| matches!(review.state, ReviewState::Answered { answer: Answer::Deny, .. }));
    match denied {
        Some(review) => Refusal::new(Code::Denied, format!("it was refused in {}", review.id)).hint("do it another way"),
        None => Refusal::new(Code::Denied, format!("a replay asks nobody, and nobody was asked this in {}", then.of)),
    }
}
