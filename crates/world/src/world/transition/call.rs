//! Calls: admitted, refused, finished or lost.

use super::{CheckResult, Transition, alive, budget, ensure, task_mut, unended};
use crate::effect::{AdmissionEffect, EndEffect};
use crate::event::{CallAdmitted, CallFinished, CallLost, CallObserved, CallRefused, CallRetried, NetClosed};
use crate::{CallId, OpenCall, Pid, StepRef, Task, TaskId, Used, World};

impl Transition for CallAdmitted {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)?;
        ensure(self.call == world.next_call(), || format!("{} is not the next", self.call))?;
        if self.task.is_some() {
            unended(world, self.task)?;
        }
        ensure(world.calls_left(self.task) != Some(0), || "the budget is used up".into())?;
        if let Some(token) = self.token {
            ensure(world.tokens.get(&token).is_some_and(|t| t.ops_left > 0), || format!("{token} is used up"))?;
        }
        match self.grant {
            Some(grant) => ensure(world.grants.get(&grant).is_some_and(|g| g.terms.uses_left != Some(0)), || format!("{grant} is used up")),
            None => Ok(()),
        }
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        AdmissionEffect::from(self).apply(world, at_ms);
    }
}

impl AdmissionEffect {
    pub(crate) fn apply(self, world: &mut World, at_ms: i64) {
        world.last.call = world.last.call.max(self.call.0);
        if let Some(grant) = self.grant.and_then(|id| world.grants.get_mut(&id)) {
            grant.use_once(Used { at_ms, up: self.up });
        }
        if let Some(token) = self.token.and_then(|id| world.tokens.get_mut(&id)) {
            token.ops_left = token.ops_left.saturating_sub(1);
        }
        if let Some(task) = task_mut(world, self.task) {
            task.lost.retain(|bind| *bind != self.bind);
            task.lost_why.remove(&self.bind);
            task.calls_left = task.calls_left.map(|left| left.saturating_sub(1));
            match self.rooms {
                Some(rooms) => task.rooms.extend(rooms),
                None => task.in_unknown_room = true,
            }
            if self.pid != task.pid && !self.read_only {
                task.workers.insert(self.pid);
            }
            if let Some(step) = &self.step {
                note_step_call(task, step, self.call);
            }
        }
        let mut at = Some(self.pid);
        while let Some(process) = at.and_then(|pid| world.processes.get_mut(&pid)) {
            process.calls_made += 1;
            at = process.parent;
        }
        let is_step = self.step.is_some();
        let Self { pid, task, call, tool, hands, bind, of, read_only, .. } = self;
        world.calls.insert(call, OpenCall { pid, task, tool, hands, bind, of, read_only, is_step, admitted_ms: at_ms });
    }
}

/// Takes note which call a step of a session is.
fn note_step_call(task: &mut Task, step: &StepRef, call: CallId) {
    let plan = task.session.as_deref_mut().and_then(|session| session.plan.as_mut()).filter(|plan| plan.number == step.plan);
    if let Some(begun) = plan.and_then(|plan| plan.begun.to_mut().get_mut(&step.step)).filter(|begun| begun.attempts == step.attempt) {
        begun.call = Some(call);
    }
}

impl Transition for CallRefused {
    fn check(&self, world: &World) -> CheckResult {
        ensure(self.call == world.next_call(), || format!("{} is not the next", self.call))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.last.call = world.last.call.max(self.call.0);
        count_settled(world, self.task, self.pid, self.of);
        if self.of.is_none() {
            spend(world, self.task, self.pid, 1);
        }
    }
}

impl Transition for CallFinished {
    fn check(&self, world: &World) -> CheckResult {
        ensure(world.calls.contains_key(&self.call), || format!("{} is not open", self.call))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        EndEffect::from(self).apply(world);
    }
}

impl EndEffect {
    pub(crate) fn apply(&self, world: &mut World) {
        let of = world.calls.remove(&self.call).and_then(|call| call.of);
        if let Some(task) = task_mut(world, self.task) {
            task.blob_bytes = task.blob_bytes.saturating_add(self.blob_bytes);
        }
        count_settled(world, self.task, self.pid, of);
    }
}

impl Transition for CallLost {
    fn check(&self, world: &World) -> CheckResult {
        ensure(world.calls.contains_key(&self.call), || format!("{} is not open", self.call))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        budget::lose(world, self.pid, self.call, at_ms);
        if let Some(call) = world.calls.remove(&self.call)
            && !call.read_only
            && let Some(task) = task_mut(world, call.task)
        {
            task.lost_why.insert(call.bind.clone(), self.why.clone());
            task.lost.push(call.bind);
        }
    }
}

impl Transition for CallRetried {
    fn check(&self, world: &World) -> CheckResult {
        ensure(world.calls.contains_key(&self.call), || format!("{} is not open", self.call))
    }
}

impl Transition for CallObserved {}

impl Transition for NetClosed {
    fn check(&self, world: &World) -> CheckResult {
        ensure(world.calls.contains_key(&self.call), || format!("{} is not open", self.call))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        let mut at = Some(self.pid);
        while let Some(process) = at.and_then(|pid| world.processes.get_mut(&pid)) {
            process.net.requests += 1;
            process.net.up = process.net.up.saturating_add(self.up);
            process.net.down = process.net.down.saturating_add(self.down);
            at = process.parent;
        }
    }
}

/// Counts what the task's own process asked for: neither parts of a call nor what a person did in the task.
fn count_settled(world: &mut World, id: Option<TaskId>, pid: Pid, of: Option<CallId>) {
    if of.is_none()
        && let Some(task) = task_mut(world, id).filter(|task| task.pid == pid)
    {
        task.calls_settled += 1;
    }
}

/// A call that was refused counts against the most that a task may make, as one that ran does.
pub(super) fn spend(world: &mut World, id: Option<TaskId>, pid: Pid, count: u64) {
    if let Some(task) = task_mut(world, id).filter(|task| task.pid == pid) {
        task.calls_left = task.calls_left.map(|left| left.saturating_sub(count));
    }
}
