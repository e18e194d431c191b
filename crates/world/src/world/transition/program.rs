//! Programs of the tree: their starts, their rest and their ends.

use super::{CheckResult, Transition, alive, ensure, process};
use crate::budget::AMOUNT_MAX;
use crate::event::{
    ProcAdopted, ProcBlocked, ProcCollected, ProcCrashed, ProcLogged, ProcReported, ProcRestarting, ProcSignalled, ProcSlept,
    ProcSnapshotted, ProcStarted, ProcUnblocked, ProcWoken,
};
use crate::world::DepartedProcess;
use crate::{BlockReason, DropReason, Pid, Process, ProcessState, Program, ProgramReport, ProgramRun, World, limits};

/// Does it fit below its parent?
pub(super) fn check_spawn(world: &World, parent: Pid, program: &Program) -> CheckResult {
    let Some(above) = world.processes.get(&parent) else { return Err(format!("no process {parent}")) };
    if let Some((name, _, bound)) = above.limits().and_then(|bound| program.limits.beyond(bound)) {
        return Err(format!("its {name} would go beyond the {bound} of process {parent}"));
    }
    ensure(!world.has_all_children(parent), || format!("process {parent} has as many children as it may have"))?;
    match &program.budget {
        Some(budget) => world.check_allotment(parent, budget),
        None => Ok(()),
    }
}

fn program_of(world: &World, pid: Pid) -> Result<(&Process, &Program, &ProgramRun), String> {
    alive(world, pid)?;
    let found = world.processes.get(&pid).and_then(|process| Some((process, process.program.as_deref()?, process.run.as_deref()?)));
    found.ok_or_else(|| format!("process {pid} has no program"))
}

fn run_mut(world: &mut World, pid: Pid) -> Option<&mut ProgramRun> {
    world.processes.get_mut(&pid)?.run.as_deref_mut()
}

/// What it does when it waits for nothing: it works, or is idle.
pub(super) fn go_on(world: &mut World, pid: Pid) {
    let state = if world.current_task(pid).is_some() { ProcessState::Running } else { ProcessState::Idle };
    if let Some(process) = world.processes.get_mut(&pid) {
        process.blocked_on = None;
        process.state = state;
    }
}

pub(super) fn block(world: &mut World, pid: Pid, on: BlockReason) {
    if let Some(process) = world.processes.get_mut(&pid) {
        process.blocked_on = Some(on);
        process.state = ProcessState::Blocked;
    }
}

/// The present incarnation is over. What was handed to it and not answered is a dead letter, unless its program remembers what it had.
pub(super) fn end_incarnation(world: &mut World, pid: Pid, at_ms: i64) {
    let Some(run) = run_mut(world, pid) else { return };
    run.is_up = false;
    run.process = None;
    run.address = None;
    let remembers = run.remembers;
    let handed: Vec<_> = world.mail.boxes.get(&pid).map(|mailbox| mailbox.handed().collect()).unwrap_or_default();
    for id in handed {
        // What it wanted later it has not dealt with.
        let is_queued = world.mail.messages.get(&id).and_then(|message| message.holder).is_some_and(|holder| holder.is_queued);
        if remembers || is_queued {
            world.mail.put_back(id);
        } else {
            world.mail.bury(id, DropReason::Unknown, at_ms);
        }
    }
}

/// All programs ended with the last kernel.
pub(super) fn end_all(world: &mut World, at_ms: i64) {
    let up = |process: &&Process| process.run.as_ref().is_some_and(|run| run.is_up);
    let all: Vec<Pid> = world.processes.values().filter(up).map(|process| process.pid).collect();
    for pid in all {
        end_incarnation(world, pid, at_ms);
        await_start(world, pid);
    }
}

/// It waits for its next start, unless it sleeps or is paused anyway.
fn await_start(world: &mut World, pid: Pid) {
    let rests = |state| matches!(state, ProcessState::Sleeping | ProcessState::Paused);
    if world.processes.get(&pid).is_some_and(|process| process.state.alive() && !rests(process.state)) {
        block(world, pid, BlockReason::Start);
    }
}

/// What an end of a process takes with it.
pub(super) fn leave(world: &mut World, pid: Pid, at_ms: i64) {
    end_incarnation(world, pid, at_ms);
    let waiting: Vec<_> = world.mail.boxes.get(&pid).map(|mailbox| mailbox.waiting().collect()).unwrap_or_default();
    waiting.into_iter().for_each(|id| world.mail.bury(id, DropReason::Ended, at_ms));
    // Trouble that was his to deal with is the next one's.
    let above = world.nearest_live_ancestor(pid).unwrap_or(Pid::KERNEL);
    for escalation in world.escalations.values_mut().filter(|escalation| escalation.at == pid && escalation.handled.is_none()) {
        escalation.passed_by.push(pid);
        escalation.at = above;
    }
}

impl Transition for ProcStarted {
    fn check(&self, world: &World) -> CheckResult {
        let (_, program, run) = program_of(world, self.pid)?;
        ensure(program.runtime.has_program(), || format!("process {} is {}", self.pid, program.runtime.as_str()))?;
        ensure(!run.is_up, || format!("incarnation {} of process {} has not ended", run.incarnation, self.pid))?;
        ensure(self.incarnation == run.incarnation + 1, || format!("incarnation {} is not the next", self.incarnation))?;
        ensure(self.confined || !program.confined, || format!("process {} is to run in a sandbox", self.pid))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        let Some(run) = run_mut(world, self.pid) else { return };
        run.incarnation = self.incarnation;
        run.is_up = true;
        run.process = self.process;
        run.address.clone_from(&self.address);
        run.started_ms = at_ms;
        run.confined = self.confined;
        run.remembers = self.remembers;
        run.claimed = 0;
        run.report = None;
        if world.processes.get(&self.pid).is_some_and(|process| process.blocked_on == Some(BlockReason::Start)) {
            go_on(world, self.pid);
        }
    }
}

impl Transition for ProcSlept {
    fn check(&self, world: &World) -> CheckResult {
        let (process, ..) = program_of(world, self.pid)?;
        ensure(world.current_task(self.pid).is_none(), || format!("process {} has a task", self.pid))?;
        ensure(process.state != ProcessState::Sleeping, || format!("process {} sleeps", self.pid))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        if self.ended {
            end_incarnation(world, self.pid, at_ms);
        }
        if let Some(process) = world.processes.get_mut(&self.pid) {
            process.blocked_on = None;
            process.state = ProcessState::Sleeping;
        }
    }
}

impl Transition for ProcWoken {
    fn check(&self, world: &World) -> CheckResult {
        let (process, ..) = program_of(world, self.pid)?;
        ensure(process.state == ProcessState::Sleeping, || format!("process {} does not sleep", self.pid))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        go_on(world, self.pid);
        // One whose program has ended waits for its next start.
        let is_down = |process: &Process| match (&process.program, &process.run) {
            (Some(program), Some(run)) => program.runtime.has_program() && !run.is_up,
            _ => false,
        };
        if world.processes.get(&self.pid).is_some_and(is_down) {
            block(world, self.pid, BlockReason::Start);
        }
    }
}

impl Transition for ProcBlocked {
    fn check(&self, world: &World) -> CheckResult {
        let (process, ..) = program_of(world, self.pid)?;
        let is_awake = matches!(process.state, ProcessState::Idle | ProcessState::Running);
        ensure(is_awake, || format!("process {} is {}", self.pid, process.state.as_str()))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        block(world, self.pid, self.on);
    }
}

impl Transition for ProcUnblocked {
    fn check(&self, world: &World) -> CheckResult {
        let (process, ..) = program_of(world, self.pid)?;
        ensure(process.state == ProcessState::Blocked, || format!("process {} is not blocked", self.pid))?;
        ensure(process.blocked_on != Some(BlockReason::Start), || format!("process {} does not run", self.pid))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        go_on(world, self.pid);
    }
}

impl Transition for ProcSignalled {
    fn check(&self, world: &World) -> CheckResult {
        program_of(world, self.pid).map(drop)
    }
}

impl Transition for ProcCrashed {
    fn check(&self, world: &World) -> CheckResult {
        let (_, _, run) = program_of(world, self.pid)?;
        ensure(run.is_up && run.incarnation == self.incarnation, || format!("incarnation {} does not run", self.incarnation))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        end_incarnation(world, self.pid, at_ms);
        if let Some(run) = run_mut(world, self.pid) {
            run.last_error = Some(self.error.clone());
            run.crashes_ms.push(at_ms);
            let excess = run.crashes_ms.len().saturating_sub(limits::CRASHES_REMEMBERED);
            run.crashes_ms.drain(..excess);
        }
        await_start(world, self.pid);
    }
}

impl Transition for ProcRestarting {
    fn check(&self, world: &World) -> CheckResult {
        let (_, _, run) = program_of(world, self.pid)?;
        ensure(!run.is_up, || format!("incarnation {} of process {} has not ended", run.incarnation, self.pid))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(run) = run_mut(world, self.pid) {
            run.attempt = self.attempt;
        }
    }
}

impl Transition for ProcAdopted {
    fn check(&self, world: &World) -> CheckResult {
        let (process, ..) = program_of(world, self.pid)?;
        ensure(process.parent == Some(self.was), || format!("process {} is no child of {}", self.pid, self.was))?;
        let nearest = world.nearest_live_ancestor(self.was);
        ensure(nearest == Some(self.parent), || format!("process {} is not the next above {}", self.parent, self.was))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        let mut former = world.processes.get(&self.was).map(|was| was.former_parents.clone()).unwrap_or_default();
        former.push(self.was);
        if let Some(process) = world.processes.get_mut(&self.pid) {
            process.parent = Some(self.parent);
            former.append(&mut process.former_parents);
            process.former_parents = former;
        }
    }
}

impl Transition for ProcCollected {
    fn check(&self, world: &World) -> CheckResult {
        let process = world.processes.get(&self.pid).ok_or_else(|| format!("no process {}", self.pid))?;
        ensure(process.program.is_some(), || format!("process {} has no program", self.pid))?;
        ensure(!process.state.alive(), || format!("process {} has not ended", self.pid))?;
        ensure(!world.processes.values().any(|child| child.parent == Some(self.pid)), || format!("process {} has children", self.pid))?;
        ensure(world.left_by(self.pid).next().is_none(), || format!("those whom process {} left live on its account", self.pid))?;
        let is_open = world.calls.values().any(|call| call.pid == self.pid) || world.books.reserved.values().any(|r| r.pid == self.pid);
        ensure(!is_open, || format!("a call of process {} is open", self.pid))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        let above = world.lineage(self.pid).get(1).copied();
        let Some(process) = world.processes.remove(&self.pid) else { return };
        world.forget_account(self.pid, above);
        if world.books.accounts.remove(&self.pid).is_some_and(|account| account.spent != crate::Spend::default()) {
            let node = process.program.map(|program| program.node).unwrap_or_default();
            let departed = DepartedProcess { parent: process.parent, name: process.name, user: process.user, node };
            world.departed.insert(self.pid, departed);
        }
        let is_his = |artifact: &crate::StoredArtifact| artifact.owner == self.pid && artifact.visibility == crate::Visibility::Private;
        world.artifacts.retain(|_, artifact| !is_his(artifact));
    }
}

impl Transition for ProcSnapshotted {
    fn check(&self, world: &World) -> CheckResult {
        program_of(world, self.pid).map(drop)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(run) = run_mut(world, self.pid) {
            run.snapshot = Some(self.blob.clone());
        }
    }
}

impl Transition for ProcReported {
    fn check(&self, world: &World) -> CheckResult {
        program_of(world, self.pid).map(drop)
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        let Some(run) = run_mut(world, self.pid) else { return };
        run.report = Some(ProgramReport { at_ms, state: self.state, context_permille: self.context_permille });
        // A word of an agent's may be any number.
        let more = self.tokens.unwrap_or(0).min(AMOUNT_MAX).saturating_sub(run.claimed);
        if more == 0 || run.uses_gateway {
            return;
        }
        run.claimed = run.claimed.saturating_add(more);
        run.has_claimed = true;
        world.claim(self.pid, more, at_ms);
    }
}

impl Transition for ProcLogged {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)
    }
}

/// A task waits for a person, and its process with it.
pub(super) fn await_person(world: &mut World, pid: Pid) {
    if world.current_task(pid).is_none() && world.processes.get(&pid).is_some_and(|process| process.state == ProcessState::Idle) {
        block(world, pid, BlockReason::Person);
    }
}

/// The answer is there.
pub(super) fn answered(world: &mut World, pid: Pid) {
    let waits = |process: &Process| process.blocked_on == Some(BlockReason::Person);
    if world.processes.get(&pid).is_some_and(waits) {
        go_on(world, pid);
    }
    process::run(world, pid);
}

/// A task is over that may have waited for a person.
pub(super) fn unpark(world: &mut World, pid: Pid) {
    let waits = |process: &Process| process.blocked_on == Some(BlockReason::Person);
    let is_parked = |task: &crate::Task| matches!(task.state, crate::TaskState::Parked { .. });
    if world.processes.get(&pid).is_some_and(waits) && !world.open_tasks(pid).any(is_parked) {
        go_on(world, pid);
    }
}
