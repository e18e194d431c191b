//! Processes.

use super::{CheckResult, Transition, alive, budget, ensure, task_mut};
use crate::event::{ProcExited, ProcPaused, ProcResumed, ProcSpawned, QueuePaused, QueueResumed, WorkerEnrolled};
use crate::{NetUse, Pid, Process, ProcessState, World};

impl Transition for ProcSpawned {
    fn check(&self, world: &World) -> CheckResult {
        ensure(self.pid == world.next_pid(), || format!("pid {} is not the next", self.pid))?;
        match self.parent {
            None => ensure(self.pid == Pid::KERNEL, || "only the kernel has no parent".into()),
            Some(parent) => alive(world, parent),
        }
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        world.last.pid = world.last.pid.max(self.pid.0);
        let process = Process {
            pid: self.pid,
            parent: self.parent,
            name: self.name.clone(),
            role: self.role.clone(),
            zone: self.zone,
            user: self.user.clone(),
            state: ProcessState::Idle,
            started_ms: at_ms,
            calls_made: 0,
            net: NetUse::default(),
            brain: None,
            queue_paused: false,
        };
        world.processes.insert(self.pid, process);
        // The process of a job, which works in the rooms of that task.
        if let Some(task) = task_mut(world, self.task) {
            task.workers.insert(self.pid);
        }
    }
}

impl Transition for ProcExited {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        set(world, self.pid, if self.killed { ProcessState::Dead } else { ProcessState::Zombie });
        budget::release(world, self.pid);
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
