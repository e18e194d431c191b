//! The one evaluation: what masks, bans, ancestors, grants, extensions and the policy make of a call.
//!
//! Pure: reads [`CallFacts`] and the world. **Invariant.** Nothing else in the tree asks `policy::decide` about a call, so a call at the
//! door, a path of a merge, a request to a model and an explanation get the same verdict for the same facts.

use crate::call_facts::{CallFacts, Who, tags};
use crate::session_scope::{SESSION_TERMS, ScopeObjection, SessionScope, scopes_of};
use crate::test_first::{WORKFLOW, WorkflowHold};
use crate::{Gate, Request};
use policy::{Explanation, Policy, RealPath, Standing, TokenFacts, Verdict};
use serde_json::Value;
use std::collections::BTreeMap;
use world::{Alternative, Ban, BootTime, Code, Grant, GrantId, Pid, Process, Refusal, SessionTerms, Task, TaskId, ToolList, Used, World};

impl CallFacts {
    /// What is said of one path of a call that has many.
    pub fn judge_path(&self, path: &str, rights: &CallerRights) -> Verdict {
        let paths = [RealPath::Inside(path)];
        self.weigh(&self.trusted.policy, rights, &self.seen().on(&paths, None)).verdict
    }

    /// By the policy in force.
    pub fn judge(&self, rights: &CallerRights) -> Judgement {
        self.judge_by(&self.trusted.policy, rights)
    }

    /// By this policy: masks, then bans, ancestors, and rules with grants.
    pub fn judge_by(&self, policy: &Policy, rights: &CallerRights) -> Judgement {
        self.seen().with_token(rights.token.as_ref(), |facts| self.weigh(policy, rights, facts))
    }

    fn weigh(&self, policy: &Policy, rights: &CallerRights, facts: &policy::Facts<'_>) -> Judgement {
        if let Some(refusal) = &self.masked {
            return Judgement::deny(refusal.clone(), vec!["mask".into()]);
        }
        if let Some(ban) = rights.bans.iter().find(|ban| policy::ban_covers(ban, facts, &self.bind)) {
            return Judgement::deny(ban_refusal(ban), vec![ban.id.to_string()]);
        }
        if let Some(refusal) = rights.unlisted(&self.seen().tool) {
            return Judgement::deny(refusal, vec![TOOL_LIST.into()]);
        }
        if let Some(refusal) = rights.workflow.as_ref().and_then(|hold| hold.objection_to(facts, &self.trusted)) {
            return Judgement::deny(refusal, vec![WORKFLOW.into()]);
        }
        let asks = match rights.session_objection(facts) {
            Some(ScopeObjection::Deny(refusal)) => return Judgement::deny(refusal, vec![SESSION_TERMS.into()]),
            Some(ScopeObjection::Ask(why)) => Some(why),
            None => None,
        };
        if let Some((refusal, rules)) = rights.denied_to_ancestor(policy, facts) {
            return Judgement::deny(refusal, rules);
        }
        let standing = |grant: Option<&Grant>| Standing { grant: grant.map(|grant| grant.id), calls_left: rights.calls_left };
        let known = rights.lost.get(&self.bind).map(String::as_str);
        let lost = known.or((self.was_lost && !facts.read_only).then_some("")).filter(|_| !self.is_repeatable);
        let (mut reasons, mut rules) = match policy::decide(policy, facts, &standing(None)) {
            Verdict::Review { reasons, rules } => (reasons, rules),
            // A call that may have happened already is a person's to repeat, whatever the policy says of it.
            Verdict::Allow(_) if lost.is_some() || asks.is_some() => (Vec::new(), Vec::new()),
            settled => return Judgement { verdict: settled, used: None },
        };
        if let Some(why) = lost {
            reasons.push(interrupted(why));
            rules.push(LOST.into());
        }
        if let Some(why) = asks {
            reasons.push(why);
            rules.push(SESSION_TERMS.into());
        }
        match rights.pick(self, facts, &rules) {
            Some(grant) => Judgement { verdict: policy::decide(policy, facts, &standing(Some(grant))), used: Some(grant.clone()) },
            None => Judgement { verdict: Verdict::Review { reasons, rules }, used: None },
        }
    }

    /// Who would speak about this call, and the verdict that [`CallFacts::judge_by`] gives.
    pub fn explain_by(&self, policy: &Policy, rights: &CallerRights) -> Explanation {
        let told = self.seen().with_token(rights.token.as_ref(), |facts| {
            let asking = match policy::decide(policy, facts, &Standing { grant: None, calls_left: rights.calls_left }) {
                Verdict::Review { rules, .. } => rules,
                Verdict::Allow(_) | Verdict::Deny { .. } => Vec::new(),
            };
            let grant = rights.pick(self, facts, &asking).map(|grant| grant.id);
            policy::explain(policy, facts, &Standing { grant, calls_left: rights.calls_left })
        });
        told.decided(self.judge_by(policy, rights).verdict)
    }
}

/// Who denies a call that a task's tool list leaves out.
pub const TOOL_LIST: &str = "tool-list";

/// That a brain runs and thinks is no use of a tool.
pub(crate) const ALWAYS_LISTED: [&str; 2] = ["brain.run", crate::MODEL_REQUEST];

/// Who asks about a call whose outcome is not known.
pub const LOST: &str = "lost-call";

/// What a person is asked about such a call.
fn interrupted(why: &str) -> String {
    let because = if why.is_empty() { String::new() } else { format!(" ({why})") };
    format!("this exact call was interrupted{because} and may have taken effect; a yes runs it again")
}

/// A task remembered by an earlier version has no reasons.
fn lost_calls(task: &Task) -> BTreeMap<String, String> {
    let why = |bind: &String| task.lost_why.get(bind).cloned().unwrap_or_default();
    task.lost.iter().map(|bind| (bind.clone(), why(bind))).collect()
}

/// The verdict on a call.
pub struct Judgement {
    pub verdict: Verdict,
    /// The grant that answered a review, as it was before this use.
    pub used: Option<Grant>,
}

impl Judgement {
    fn deny(refusal: Refusal, rules: Vec<String>) -> Judgement {
        Judgement { verdict: Verdict::Deny { refusal, rules }, used: None }
    }
}

/// What the world holds for and against calls of one process with these tools, at one moment.
#[derive(Clone)]
pub struct CallerRights {
    pub(crate) bans: Vec<Ban>,
    grants: Vec<Grant>,
    pub(crate) ancestors: Vec<Ancestor>,
    calls_left: Option<u64>,
    /// Binds of calls whose outcome is not known, and why.
    lost: BTreeMap<String, String>,
    token: Option<TokenFacts>,
    /// The only tools that the task's own calls may use.
    tool_lists: Vec<ToolList>,
    /// What the session lets them do at most.
    scopes: Vec<SessionScope>,
    /// What the state of a task does not allow that is held to tests first.
    workflow: Option<WorkflowHold>,
    now: BootTime,
    now_ms: i64,
}

/// A process above the caller, as rules know it.
#[derive(Clone)]
pub(crate) struct Ancestor {
    pub name: String,
    pub role: String,
    pub user: String,
    pub tags: Vec<String>,
}

impl CallerRights {
    /// Of one call.
    pub fn call(world: &World, call: &CallFacts, now: &BootTime, now_ms: i64) -> CallerRights {
        let mut rights = CallerRights::of(world, call.who, &[call.seen().tool.as_str()], now, now_ms);
        rights.token = call.token.as_ref().and_then(|token| token.facts(world, now));
        // The operator's own calls in a task, and what a merge does, are no calls of its brain.
        let own = call.who.task.and_then(|task| world.tasks.get(&task)).filter(|_| call.who.pid != Pid::OPERATOR);
        rights.tool_lists = own.map(|task| task.tool_lists.clone()).unwrap_or_default();
        rights.workflow = WorkflowHold::of_call(world, call.who.pid, call.who.task);
        if let Some(task) = own.filter(|task| task.session.is_some()) {
            let scopes = scopes_of(world, Some(task.id)).into_iter();
            // What a job in its room asks for is no step of a plan.
            rights.scopes =
                if task.pid == call.who.pid { scopes.collect() } else { scopes.map(SessionScope::of_paths_and_hosts).collect() };
        }
        rights
    }

    /// The same within what a session's terms say of paths: for its merge.
    #[must_use]
    pub fn within_session(mut self, world: &World, task: Option<TaskId>) -> CallerRights {
        self.scopes = scopes_of(world, task).into_iter().map(SessionScope::of_paths_and_hosts).collect();
        self.workflow = WorkflowHold::of_merge(world, task);
        self
    }

    /// The same within the terms of a session that there is not yet.
    #[must_use]
    pub fn within_terms(mut self, terms: &SessionTerms) -> CallerRights {
        self.scopes = vec![SessionScope::of_terms(terms)];
        self
    }

    /// What a session's terms have against a call. A no counts before a question.
    fn session_objection(&self, facts: &policy::Facts<'_>) -> Option<ScopeObjection> {
        if self.scopes.is_empty() || ALWAYS_LISTED.contains(&facts.tool) || facts.tool == crate::PERSON_ASK {
            return None;
        }
        let objections = self.scopes.iter().filter_map(|scope| scope.object_to(facts));
        objections.min_by_key(|objection| !matches!(objection, ScopeObjection::Deny(_)))
    }

    /// Of all calls with these tools.
    pub fn of(world: &World, who: Who, tools: &[&str], now: &BootTime, now_ms: i64) -> CallerRights {
        let Who { pid, zone, task } = who;
        let about = |ban: &&Ban| tools.iter().any(|tool| policy::ban_is_about(ban, tool));
        let bans = world.bans.values().filter(about).filter(|ban| world.is_banned(ban, pid, zone, task));
        let live = world.grants.values().filter(|grant| tools.contains(&grant.what.tool()) && grant.is_live(now, now_ms));
        let ancestors = world.ancestry(pid).skip(1).filter(|process| process.pid != Pid::KERNEL);
        CallerRights {
            bans: bans.cloned().collect(),
            grants: live.filter(|grant| world.is_granted(grant, pid, zone, task)).cloned().collect(),
            ancestors: ancestors.map(|process| Ancestor::of(world, process)).collect(),
            calls_left: world.calls_left(task),
            lost: task.and_then(|task| world.tasks.get(&task)).map(lost_calls).unwrap_or_default(),
            token: None,
            tool_lists: Vec::new(),
            scopes: Vec::new(),
            workflow: None,
            now: now.clone(),
            now_ms,
        }
    }

    /// Of calls of the past, whatever their tool: grants, bans and budgets are of their moment.
    pub(crate) fn of_past(world: &World, who: Who, now: &BootTime) -> CallerRights {
        let lists = who.task.and_then(|task| world.tasks.get(&task)).filter(|_| who.pid != Pid::OPERATOR);
        let tool_lists = lists.map(|task| task.tool_lists.clone()).unwrap_or_default();
        CallerRights { tool_lists, ..CallerRights::of(world, who, &[], now, world.now_ms).for_past_call(None) }
    }

    /// Without grants and budgets, which are of their moment: what is left is what policy and bans say.
    #[must_use]
    pub fn without_grants(mut self) -> CallerRights {
        self.grants.clear();
        self.calls_left = None;
        self
    }

    /// For a call of the past, of which `lost` says that it had been interrupted before: bans are of their moment too.
    #[must_use]
    pub fn for_past_call(self, lost: Option<&str>) -> CallerRights {
        CallerRights {
            bans: Vec::new(),
            lost: lost.map(|bind| (bind.to_owned(), String::new())).into_iter().collect(),
            token: None,
            ..self.without_grants()
        }
    }

    /// For what is not a call of the task's brain: its budget of calls does not count.
    #[must_use]
    pub fn without_call_budget(mut self) -> CallerRights {
        self.calls_left = None;
        self
    }

    /// Why a list that narrows the task leaves this tool out.
    fn unlisted(&self, tool: &str) -> Option<Refusal> {
        if ALWAYS_LISTED.contains(&tool) {
            return None;
        }
        let list = self.tool_lists.iter().find(|list| !list.has(tool))?;
        let there = if list.tools.is_empty() { "none".to_owned() } else { list.tools.join(", ") };
        Some(Refusal::new(Code::Denied, format!("`{tool}` is not on the tool list of {}", list.of)).hint(format!("tools on it: {there}")))
    }

    /// A child's rights are a subset of its parent's: what policy denies to an ancestor, no descendant may do.
    fn denied_to_ancestor(&self, policy: &Policy, facts: &policy::Facts<'_>) -> Option<(Refusal, Vec<String>)> {
        for Ancestor { name, role, user, tags } in &self.ancestors {
            let theirs = facts.by(name, role, user, tags);
            if let Verdict::Deny { refusal, rules } = policy::decide(policy, &theirs, &Standing::default()) {
                let reason = format!("its parent {name} may not: {}", refusal.reason);
                return Some((Refusal { reason, ..refusal }, rules));
            }
        }
        None
    }

    /// The grant that this call would use, which these rules ask about: the exact one first. What a grant itself demanded needs not have
    /// been in its question.
    fn pick(&self, call: &CallFacts, facts: &policy::Facts<'_>, rules: &[String]) -> Option<&Grant> {
        let live = self.grants.iter().filter(|grant| grant.is_live(&self.now, self.now_ms));
        let was_asked = |grant: &&Grant| call.demanded == Some(grant.id) || policy::grant_answers(grant, facts, rules);
        let covers = live.filter(|grant| policy::grant_covers(grant, facts, &call.bind)).filter(was_asked);
        covers.min_by_key(|grant| (matches!(grant.what, world::CallPattern::Like { .. }), grant.id))
    }

    /// For what takes no input from a grant: one that sets fields of the input covers none of it.
    #[must_use]
    pub fn without_overrides(mut self) -> CallerRights {
        let demands = |grant: &Grant| grant.terms.constraints.as_ref().is_some_and(|terms| !terms.input_overrides.is_empty());
        self.grants.retain(|grant| !demands(grant));
        self
    }

    /// Counts one use of a grant, here and not in the world.
    pub fn spend(&mut self, id: GrantId) {
        let used = Used { at_ms: self.now_ms, up: Some(self.now.until()) };
        self.grants.iter_mut().filter(|grant| grant.id == id).for_each(|grant| grant.use_once(used.clone()));
    }

    /// The grant that this call would use if it needs one, whether it does or not.
    pub fn grant_of(&self, call: &CallFacts) -> Option<&Grant> {
        call.seen().with_token(self.token.as_ref(), |facts| self.pick(call, facts, &[]).map(|grant| grant.id)).and_then(|id| self.grant(id))
    }

    fn grant(&self, id: GrantId) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.id == id)
    }
}

impl Ancestor {
    fn of(world: &World, process: &Process) -> Ancestor {
        // What it is called for any of its open tasks: one that waits for a person has its children at work all the same.
        let open = world.tasks.values().filter(|task| task.pid == process.pid && !task.state.ended());
        let mut all = tags(world, process, None);
        all.extend(open.flat_map(|task| task.tags.iter().cloned()));
        Ancestor { name: process.name.clone(), role: process.role.clone(), user: process.user.clone(), tags: all }
    }
}

fn ban_refusal(ban: &Ban) -> Refusal {
    let refusal = Refusal::new(Code::Denied, format!("{} refuses it: {}", ban.id, ban.reason));
    match &ban.alternative {
        Some(alternative) => refusal.hint(alternative_hint(alternative)),
        None => refusal.remedy(world::Remedy::RevokeBan { ban: ban.id }),
    }
}

pub(crate) fn alternative_hint(alternative: &Alternative) -> String {
    match &alternative.input {
        Value::Null => format!("use `{}` instead", alternative.tool),
        input => format!("use `{}` with {input} instead", alternative.tool),
    }
}

/// The input as a grant wants it, where that is another.
pub(crate) fn demanded_by(grant: &Grant, input: &Value) -> Option<Value> {
    let overrides = &grant.terms.constraints.as_ref()?.input_overrides;
    let mut wanted = input.clone();
    let fields = wanted.as_object_mut()?;
    overrides.iter().for_each(|(key, value)| drop(fields.insert(key.clone(), value.clone())));
    (wanted != *input).then_some(wanted)
}

impl Gate {
    /// The grant that demands another input than was asked, and the input that it demands.
    pub fn demanded_input(&self, call: &CallFacts, input: &Value) -> Option<(GrantId, Value)> {
        let now = self.moment();
        let may_be_granted =
            |world: &World| world.grants.values().any(|grant| grant.what.tool() == call.seen().tool && grant.is_live(&now, world.now_ms));
        if !self.ledger.look(may_be_granted) {
            return None;
        }
        // A call that needs no grant is nobody's to change.
        let used = call.judge(&self.rights(call)).used?;
        demanded_by(&used, input).map(|demanded| (used.id, demanded))
    }

    /// What the world holds now for and against a call.
    pub fn rights(&self, call: &CallFacts) -> CallerRights {
        let now = self.moment();
        self.ledger.look(|world| CallerRights::call(world, call, &now, world.now_ms))
    }

    /// Why a call whose input nobody can change does not run: its grant demands another.
    pub fn unsupported_override(&self, request: &Request, call: &CallFacts) -> Option<Refusal> {
        let (grant, _) = self.demanded_input(call, &request.input)?;
        Some(
            Refusal::new(Code::Denied, format!("{grant} demands another input, and `{}` takes none from a grant", request.tool))
                .remedy(world::Remedy::RevokeGrant { grant }),
        )
    }
}
