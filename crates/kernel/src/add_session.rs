//! A session comes to be: its process, its task and its terms, in one commit.

use crate::fork::as_own;
use crate::queue::{check_prompt, tags};
use crate::{Added, Kernel};
use agent::NamedBy;
use brain::BrainSpec;
use ledger::unknown_task;
use models::file_of;
use session::{FILE_PLANNER, NewSession, PlannerSpec};
use std::borrow::Cow;
use std::path::Path;
use world::event::{BudgetSet, CassetteStarted, DelegationStarted, ProcExited, ProcSpawned, SessionCreated, TaskQueued, TaskTagged};
use world::{
    ActivePlan, Budget, Code, Event, Mode, Pid, Process, Refusal, Remedy, SessionLimits, SessionTerms, Stop, TaskId, World, ZoneId, limits,
};

impl Kernel {
    /// Queues a session and returns at once; sets the zone up first where that needs no question.
    pub async fn add_session(&self, new: NewSession) -> Result<Added, Stop> {
        check_prompt(&new.text, Remedy::DescribeTask)?;
        let tags = tags(new.tags.clone())?;
        new.budget.as_ref().map_or(Ok(()), ledger::check_budget)?;
        check_new(&new)?;
        let proposal = self.gate.init(&new.path).await?;
        if !proposal.ready() {
            let reason = "this repository brings its own skep.yml or .skep, and you have not looked at them yet";
            return Err(Refusal::new(Code::Untrusted, reason).remedy(Remedy::TrustProject).into());
        }
        let zone = proposal.zone;
        let mut new = new;
        let (brain, plan_original) = match &new.fork {
            Some(fork) => (fork.brain.clone(), (!fork.is_exact).then(|| ActivePlan::GONE.to_owned())),
            None => {
                let planner = self.planner_of(&new.terms.planner, zone, &new.path).await?;
                new.terms.planner = planner.name;
                let (plan, original) = self.keep_plan_file(new.plan.as_deref()).await?;
                (planner.script.unwrap_or(plan), original)
            }
        };
        // A part that another session delegates only reads.
        let discipline = self.discipline_of_new(zone, new.discipline, new.of.is_none()).await?;
        let original = self.ledger.keep_prompt(&new.text).await?;
        let budget = budget_of(new.budget.clone(), &new.terms.limits);
        let records = new.record || self.models.records_all();
        let user = self.instance.user.clone();
        let pending = self.ledger.commit(|world, _| {
            let parent = match parent_of(world, new.of) {
                Ok(parent) => parent,
                Err(refusal) => return (Vec::new(), Err(Stop::from(refusal))),
            };
            let (pid, task) = (world.next_pid(), world.next_task());
            let (id, by) = (Some(task), "operator".to_owned());
            let mut events = retired(world, zone);
            let name = format!("{}.{}", gate::SESSION_ROLE, task.0);
            let (role, at) = (gate::SESSION_ROLE.to_owned(), Some(zone));
            events.push(ProcSpawned { pid, task: None, parent: Some(parent), name, role, zone: at, user, program: None }.into());
            let queued = TaskQueued {
                pid,
                task: id,
                zone,
                mode: Mode::Act,
                prompt: new.text.clone(),
                brain,
                priority: 0,
                calls_max: None,
                original,
                discard: false,
                order: None,
            };
            events.push(queued.into());
            if !tags.is_empty() {
                events.push(TaskTagged { pid, task: id, tags, by: by.clone() }.into());
            }
            events.extend(discipline.map(|chosen| chosen.event(pid, task, None, "operator")));
            events.extend(budget.map(|budget| BudgetSet { pid, task: id, budget: Some(budget), by }.into()));
            events.extend(records.then(|| CassetteStarted { pid, task: id, file: file_of(task) }.into()));
            // In the same commit, so that no part is ever nobody's.
            let started = new.of.map(|of| {
                let limits = &new.terms.limits;
                let (tokens, micros) = (limits.max_tokens.unwrap_or(0), limits.max_cost_micros.unwrap_or(0));
                DelegationStarted { pid: parent, task: Some(of), child: task, tokens, micros }.into()
            });
            let forked = new.fork.as_ref().map(|fork| fork.point);
            let past = new.fork.as_ref().map(|fork| as_own(fork, pid, task)).transpose();
            events.push(SessionCreated { pid, task: id, terms: Box::new(new.terms), of: new.of, original: plan_original, forked }.into());
            events.extend(started);
            match past {
                Ok(past) => events.extend(past.into_iter().flatten()),
                Err(fault) => return (Vec::new(), Err(fault.into())),
            }
            (events, Ok(task))
        })?;
        let id = pending.durable().await??;
        self.tasks.wake();
        let (initialised, drifts) = (!proposal.created.is_empty(), !proposal.diff.is_empty());
        let process = self.ledger.look(|world| world.tasks.get(&id).map(|task| ledger::name_of(world, task.pid)));
        Ok(Added {
            task: id,
            process: process.ok_or_else(|| unknown_task(id))?,
            branch: proposal.branch,
            initialised,
            drifts,
            behind: None,
            unlisted: None,
            is_enrolled: true,
            skill: None,
            after: Vec::new(),
            is_prioritized: false,
            interrupted: None,
            is_queue_paused: false,
        })
    }
}

impl Kernel {
    /// Keeps a plan file, as its session names it: what anybody may read of it as a blob, and its exact words in the vault where that is not all.
    async fn keep_plan_file(&self, plan: Option<&str>) -> Result<(String, Option<String>), Stop> {
        let Some(plan) = plan else { return Ok((String::new(), None)) };
        let shown = self.ledger.redactor.text(plan);
        let original = match shown {
            Cow::Borrowed(_) => None,
            Cow::Owned(_) => Some(self.ledger.keep_exact(self.ledger.new_original("plans", plan), plan).await?),
        };
        Ok((BrainSpec::Script(self.ledger.keep(shown.as_bytes())?).to_string(), original))
    }

    /// A planner by its whole name. What it needs and is not there is told before anything is queued.
    async fn planner_of(&self, name: &str, zone: ZoneId, top: &Path) -> Result<ChosenPlanner, Stop> {
        let spec = PlannerSpec::parse(name)?;
        let default = self.instance.settings.in_force().model.clone();
        let (kind, model) = match &spec {
            PlannerSpec::Model(model) => ("model", model.clone().or(default)),
            PlannerSpec::Router(model) => ("router", model.clone().or(default)),
            PlannerSpec::Brain(brain) => {
                let trusted = self.gate.policies.in_force(zone)?;
                let spec = self.brains.find(brain, Some(&trusted.config))?;
                let is_script = matches!(spec, BrainSpec::Script(_));
                let brain = self.brain_of(zone, spec, top, NamedBy::Operator).await?;
                return Ok(ChosenPlanner { name: format!("brain:{brain}"), script: is_script.then_some(brain) });
            }
            PlannerSpec::File => return Ok(ChosenPlanner { name: name.to_owned(), script: None }),
        };
        let asked = model.as_deref().or(spec.model()).unwrap_or_default();
        self.models.model_card(Some(zone), asked)?;
        Ok(ChosenPlanner { name: model.map_or_else(|| kind.to_owned(), |model| format!("{kind}:{model}")), script: None })
    }
}

/// Who plans a new session.
struct ChosenPlanner {
    /// As its terms name it.
    name: String,
    /// Where it is a script: its brain, by the blob that holds its text. The session's task names it, so that the blob is kept.
    script: Option<String>,
}

/// Refuses terms under which a session could never do anything.
pub(crate) fn check_session_terms(terms: &SessionTerms) -> Result<(), Refusal> {
    let no = |reason: &str, hint: &str| Err(Refusal::new(Code::BadInput, reason).hint(hint));
    if terms.limits.max_steps == 0 || terms.limits.max_iterations == 0 {
        return no("a session without a step or an iteration does nothing", "give `max_steps` and `max_iterations` of 1 or more");
    }
    if !(1..=5).contains(&terms.priority) {
        return no("the priority of a session is a number from 1 to 5", "1 is the highest");
    }
    if let Some(tokens) = terms.context_tokens.filter(|tokens| *tokens < limits::PLANNER_CONTEXT_MIN) {
        let reason = format!("a context budget of {tokens} does not hold what every planner is told");
        return no(&reason, &format!("give it {} tokens or more", limits::PLANNER_CONTEXT_MIN));
    }
    if let Some(finding) = session::check_scope(&terms.profile, &terms.constraints).into_iter().next() {
        let hint = session::scope_hint(&finding);
        return Err(Refusal::new(Code::BadInput, format!("{}: {}", finding.at, finding.message)).hint(hint));
    }
    Ok(())
}

/// Refuses a session that could never do anything.
fn check_new(new: &NewSession) -> Result<(), Refusal> {
    let terms = &new.terms;
    let no = |reason: &str, hint: &str| Err(Refusal::new(Code::BadInput, reason).hint(hint));
    check_session_terms(terms)?;
    if terms.planner == FILE_PLANNER && new.plan.is_none() && new.fork.is_none() {
        return no("the planner `file` reads a plan file, and none was given", "give a plan file or name another planner");
    }
    if new.plan.as_ref().is_some_and(|plan| plan.len() > limits::PLAN_BYTES_MAX) {
        return no("the plan file is too large", &format!("{} bytes are allowed", limits::PLAN_BYTES_MAX));
    }
    Ok(())
}

/// What the session's requests to models may use: its own budget, and no more than its limits.
fn budget_of(own: Option<Budget>, limits: &SessionLimits) -> Option<Budget> {
    if limits.max_cost_micros.is_none() && limits.max_tokens.is_none() {
        return own;
    }
    let mut budget = own.unwrap_or_default();
    let least = |own: Option<u64>, max: Option<u64>| own.into_iter().chain(max).min();
    budget.micros = least(budget.micros, limits.max_cost_micros);
    if let Some(tokens) = least(budget.tokens.get("all").copied(), limits.max_tokens) {
        budget.tokens.insert("all".to_owned(), tokens);
    }
    Some(budget)
}

/// Whose child the session's process is: that of the session that delegates it, so that its rights are a subset, else the kernel's as workers are.
fn parent_of(world: &World, of: Option<TaskId>) -> Result<Pid, Refusal> {
    let Some(of) = of else { return Ok(Pid::KERNEL) };
    let parent = world.tasks.get(&of).ok_or_else(|| unknown_task(of))?;
    if parent.state.ended() || parent.session.is_none() {
        return Err(Refusal::new(Code::WrongState, format!("{of} is no session that goes on")));
    }
    Ok(parent.pid)
}

/// Ended sessions whose processes stay, so that they can be taken up again.
const RETIRED_AFTER: usize = 64;

/// The ends of processes whose session ended long ago.
fn retired(world: &World, zone: ZoneId) -> Vec<Event> {
    let is_session = |process: &&Process| process.role == gate::SESSION_ROLE && process.zone == Some(zone) && process.state.alive();
    let has_work = |pid: Pid| world.tasks.values().any(|task| task.pid == pid && !task.state.ended());
    let has_child = |pid: Pid| world.processes.values().any(|process| process.parent == Some(pid) && process.state.alive());
    let ended: Vec<Pid> = world.processes.values().filter(is_session).map(|process| process.pid).filter(|pid| !has_work(*pid)).collect();
    let old = ended.iter().rev().skip(RETIRED_AFTER).filter(|pid| !has_child(**pid));
    old.map(|pid| ProcExited { pid: *pid, task: None, killed: false, reason: "its session has ended".into(), exit: None }.into()).collect()
}
