//! Limits of processor and memory that a process shares with everything below it.
//!
//! A process with such a limit has a branch: groups of the operating system that hold its program's job and the branches of those below. The world
//! says who has which limit; here are only the groups. **Invariant.** A program whose limits cannot be held does not start.

use super::failed;
use crate::Tree;
use gate::RoomRuntime;
use sandbox::{JobBranch, SharedLimits};
use std::sync::{Arc, Weak};
use world::{Code, Fault, Pid, Process, ProgramLimits, Refusal};

/// Less memory holds no program, and less of a processor is less than the system counts.
const MEMORY_MB_MIN: u64 = 16;
const CPU_MILLI_MIN: u64 = 10;
/// More than any machine has.
const MEMORY_MB_MAX: u64 = 1 << 30;
const CPU_MILLI_MAX: u64 = 10_000_000;

/// The branch of a process, as long as somebody is in it.
pub(crate) type KnownBranch = (SharedLimits, Weak<JobBranch>);

fn shared(limits: &ProgramLimits) -> Option<SharedLimits> {
    let shared = SharedLimits {
        memory_bytes: limits.memory_mb.map(|mebibytes| mebibytes.saturating_mul(1 << 20)),
        cpu_milli: limits.cpu_milli.map(|milli| u32::try_from(milli).unwrap_or(u32::MAX)),
    };
    (shared != SharedLimits::default()).then_some(shared)
}

impl Tree {
    /// Refuses limits that nothing here could hold.
    pub(crate) fn can_hold(&self, limits: &ProgramLimits) -> Result<(), Refusal> {
        let bad = |reason: String| Err(Refusal::new(Code::BadInput, reason));
        match (limits.memory_mb, limits.cpu_milli) {
            (Some(memory), _) if !(MEMORY_MB_MIN..=MEMORY_MB_MAX).contains(&memory) => {
                return bad(format!("{memory} MiB of memory hold no program: the least is {MEMORY_MB_MIN}"));
            }
            (_, Some(cpu)) if !(CPU_MILLI_MIN..=CPU_MILLI_MAX).contains(&cpu) => {
                return bad(format!("{cpu} thousandths of a processor run no program: the least is {CPU_MILLI_MIN}"));
            }
            _ => {}
        }
        let Some(shared) = shared(limits) else { return Ok(()) };
        if self.rooms.settings().fixed_runtime.is_some_and(|runtime| runtime != RoomRuntime::Native) {
            let why = "memory and processor of a branch cannot be limited where programs run in containers";
            return Err(Refusal::new(Code::WrongState, why).hint("leave the limits out, or let programs run in native sandboxes"));
        }
        match self.rooms.launcher.cannot_share(&shared) {
            None => Ok(()),
            Some(controller) => {
                let why = format!("the limits of a branch need a {controller} cgroup, and the kernel may make none");
                Err(Refusal::new(Code::WrongState, why).hint("leave the limits out, or start the kernel where it may make cgroups"))
            }
        }
    }

    /// The branch that a program is started in: that of its process, within those of all above it that have limits.
    pub(super) fn branch_of(&self, pid: Pid) -> Result<Option<Arc<JobBranch>>, Fault> {
        let mut line: Vec<(Pid, SharedLimits)> = self.ledger.look(|world| {
            let limited = |process: &Process| Some((process.pid, shared(process.limits()?)?));
            // One that ended bounds those it left.
            world.lineage(pid).into_iter().filter_map(|of| limited(world.processes.get(&of)?)).collect()
        });
        line.reverse();
        let mut known = self.branches.lock();
        known.retain(|_, (_, branch)| branch.strong_count() > 0);
        let mut around: Option<(SharedLimits, Arc<JobBranch>)> = None;
        for (of, limits) in line {
            // What a child has of its parent is its parent's: they share it.
            if around.as_ref().is_some_and(|(outer, _)| *outer == limits) {
                continue;
            }
            let there = known.get(&of).filter(|(had, _)| *had == limits).and_then(|(_, branch)| branch.upgrade());
            let branch = match there {
                Some(branch) => branch,
                None => {
                    let within = around.as_ref().map(|(_, branch)| branch);
                    let made = self.rooms.launcher.branch(&limits, within);
                    let made =
                        made.map_err(|error| failed(format!("the limits of process {of} cannot be held, so nothing ran: {error}")))?;
                    known.insert(of, (limits, Arc::downgrade(&made)));
                    made
                }
            };
            around = Some((limits, branch));
        }
        Ok(around.map(|(_, branch)| branch))
    }

    /// Bytes of memory that the branch of a process uses now, where it has one of its own.
    pub fn branch_memory(&self, pid: Pid) -> Option<u64> {
        let branch = self.branches.lock().get(&pid).and_then(|(_, branch)| branch.upgrade());
        branch.and_then(|branch| branch.memory_bytes())
    }
}
