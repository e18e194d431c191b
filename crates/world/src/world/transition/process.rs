//! Processes.

use super::{Transition, Verdict, alive, budget, ensure};
use crate::event::{ProcExited, ProcPaused, ProcResumed, ProcSpawned};
use crate::{NetUse, Pid, Process, ProcessState, World};

impl Transition for ProcSpawned {
    fn check(&self, world: &World) -> Verdict {
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
        };
        world.processes.insert(self.pid, process);
    }
}

impl Transition for ProcExited {
    fn check(&self, world: &World) -> Verdict {
        alive(world, self.pid)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        set(world, self.pid, if self.killed { ProcessState::Dead } else { ProcessState::Zombie });
        budget::release(world, self.pid);
    }
}

impl Transition for ProcPaused {
    fn check(&self, world: &World) -> Verdict {
        alive(world, self.pid)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        set(world, self.pid, ProcessState::Paused);
    }
}

impl Transition for ProcResumed {
    fn check(&self, world: &World) -> Verdict {
        let state = world.processes.get(&self.pid).map(|p| p.state);
        ensure(state == Some(ProcessState::Paused), || format!("process {} is not paused", self.pid))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        set(world, self.pid, ProcessState::Idle);
    }
}

pub(super) fn set(world: &mut World, pid: Pid, state: ProcessState) {
    if let Some(process) = world.processes.get_mut(&pid) {
        process.state = state;
    }
}

/// A process without a running task is idle, unless it is paused or gone; and nothing is set aside for it, so that a crash costs nothing.
pub(super) fn rest(world: &mut World, pid: Pid) {
    budget::release(world, pid);
    if world.processes.get(&pid).is_some_and(|p| p.state == ProcessState::Running) {
        set(world, pid, ProcessState::Idle);
    }
}
