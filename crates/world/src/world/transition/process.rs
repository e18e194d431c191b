//! Processes.

use super::{CheckResult, Transition, alive, budget, ensure, program, task_mut};
use crate::event::{ProcExited, ProcPaused, ProcResumed, ProcSpawned, QueuePaused, QueueResumed, WorkerEnrolled, WorkerPinned};
use crate::{BlockReason, NetUse, Pid, Process, ProcessState, ProgramRun, World};

impl Transition for ProcSpawned {
    fn check(&self, world: &World) -> CheckResult {
        ensure(self.pid == world.next_pid(), || format!("pid {} is not the next", self.pid))?;
        match self.parent {
            None => ensure(self.pid == Pid::KERNEL, || "only the kernel has no parent".into()),
            Some(parent) => alive(world, parent),
        }?;
        match (&self.program, self.parent) {
            (Some(of), Some(parent)) => program::check_spawn(world, parent, of),
            _ => Ok(()),
        }
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        world.last.pid = world.last.pid.max(self.pid.0);
        let waits = self.program.as_ref().is_some_and(|program| program.runtime.has_program());
        let process = Process {
            pid: self.pid,
            parent: self.parent,
            name: self.name.clone(),
            role: self.role.clone(),
            zone: self.zone,
            user: self.user.clone(),
            state: if waits { ProcessState::Blocked } else { ProcessState::Idle },
            started_ms: at_ms,
            calls_made: 0,
            net: NetUse::default(),
            brain: None,
            queue_paused: false,
            pins: Vec::new(),
            run: self.program.as_ref().map(|_| Box::new(ProgramRun::default())),
            program: self.program.clone(),
            blocked_on: waits.then_some(BlockReason::Start),
            exit: None,
            former_parents: Vec::new(),
            owes_first_to: self.program.as_ref().and_then(|program| program.spawned_by),
        };
        world.processes.insert(self.pid, process);
        if let Some(budget) = self.program.as_ref().and_then(|program| program.budget.as_ref()) {
            world.allot(self.pid, budget);
        }
        // The process of a job, which works in the rooms of that task.
        if let Some(task) = task_mut(world, self.task) {
            task.workers.insert(self.pid);
        }
    }
}

impl Transition for ProcExited {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)?;
        let child = world.live_children(self.pid).next();
        ensure(child.is_none(), || format!("its child {} has nobody yet", child.map(|child| child.pid).unwrap_or_default()))?;
        let task = world.open_tasks(self.pid).next();
        ensure(task.is_none(), || format!("{} is not over", task.map(|task| task.id.to_string()).unwrap_or_default()))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        set(world, self.pid, if self.killed { ProcessState::Dead } else { ProcessState::Zombie });
        budget::release(world, self.pid);
        world.return_allotments(self.pid);
        program::leave(world, self.pid, at_ms);
        if let Some(process) = world.processes.get_mut(&self.pid) {
            process.blocked_on = None;
            process.exit.clone_from(&self.exit);
        }
    }
}

impl Transition for ProcPaused {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        set(world, self.pid, ProcessState::Paused);
    }
}

impl Transition for ProcResumed {
    fn check(&self, world: &World) -> CheckResult {
        let state = world.processes.get(&self.pid).map(|p| p.state);
        ensure(state == Some(ProcessState::Paused), || format!("process {} is not paused", self.pid))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        set(world, self.pid, ProcessState::Idle);
        if world.processes.get(&self.pid).is_some_and(|process| process.program.is_some()) {
            program::go_on(world, self.pid);
        }
    }
}

impl Transition for WorkerEnrolled {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(process) = world.processes.get_mut(&self.pid) {
            process.brain = Some(self.brain.clone());
        }
    }
}

impl Transition for WorkerPinned {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(process) = world.processes.get_mut(&self.pid) {
            process.pins.clone_from(&self.pins);
        }
    }
}

impl Transition for QueuePaused {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)?;
        ensure(!is_queue_paused(world, self.pid), || format!("the queue of process {} is paused", self.pid))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        pause_queue(world, self.pid, true);
    }
}

impl Transition for QueueResumed {
    fn check(&self, world: &World) -> CheckResult {
        ensure(is_queue_paused(world, self.pid), || format!("the queue of process {} is not paused", self.pid))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        pause_queue(world, self.pid, false);
    }
}

fn is_queue_paused(world: &World, pid: Pid) -> bool {
    world.processes.get(&pid).is_some_and(|process| process.queue_paused)
}

fn pause_queue(world: &mut World, pid: Pid, is_paused: bool) {
    if let Some(process) = world.processes.get_mut(&pid) {
        process.queue_paused = is_paused;
    }
}

pub(super) fn set(world: &mut World, pid: Pid, state: ProcessState) {
    if let Some(process) = world.processes.get_mut(&pid) {
        process.state = state;
    }
}

/// One that has nothing to do gets to work.
pub(super) fn run(world: &mut World, pid: Pid) {
    if world.processes.get(&pid).is_some_and(|process| process.state == ProcessState::Idle) {
        set(world, pid, ProcessState::Running);
    }
}

/// A process without a running task is idle, unless it is paused or gone; and nothing is set aside for it, so that a crash costs nothing.
pub(super) fn rest(world: &mut World, pid: Pid) {
    // Kept work may be proposed while its process works on something else.
    if world.current_task(pid).is_some() {
        return;
    }
    budget::release(world, pid);
    if world.processes.get(&pid).is_some_and(|p| p.state == ProcessState::Running) {
        set(world, pid, ProcessState::Idle);
    }
}
