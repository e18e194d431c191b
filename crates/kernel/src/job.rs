//! The process that stands for a command of the operator's in a room.
//!
//! A room's job asks for hosts and models by itself, so it is a process of its own: rules, bans, budgets and figures are about it and not
//! about the operator, whose child it is. **Invariant.** It lives exactly as long as the call that runs the job.

use crate::Kernel;
use gate::{Request, SANDBOX_RUN};
use world::Fault;
use world::event::{BudgetSet, ProcSpawned};
use world::{Event, Pid, World};

/// The role of every job's process.
pub(crate) const ROLE: &str = "job";
/// Characters of a program's name that its process has.
const NAME_CHARS: usize = 32;

/// A job's process while it runs.
pub(crate) struct JobProcess {
    pid: Pid,
}

impl JobProcess {
    pub fn pid(&self) -> Pid {
        self.pid
    }

    pub async fn end(self, kernel: &Kernel, killed: bool) -> Result<(), Fault> {
        let reason = if killed { "its command was ended" } else { "its command ended" };
        kernel.ledger.record_exit(self.pid, killed, reason.into()).await
    }
}

impl Kernel {
    /// Spawns the process of a call that runs a job of the operator's; `None` for any other call.
    pub(crate) async fn begin_job(&self, request: &Request) -> Result<Option<JobProcess>, Fault> {
        if request.tool != SANDBOX_RUN {
            return Ok(None);
        }
        let program = request.input["command"][0].as_str().unwrap_or_default();
        let wanted = request.job.name.as_deref().unwrap_or_else(|| program.rsplit('/').next().unwrap_or_default());
        let (parent, zone, user) = (Some(request.pid), Some(request.zone), self.instance.user.clone());
        let budget = request.job.budget.clone();
        let pending = self.ledger.commit(|world, _| {
            let (pid, name) = (world.next_pid(), name(world, wanted));
            let spawned = ProcSpawned { pid, task: request.task, parent, name, role: ROLE.into(), zone, user };
            let budget = budget.map(|budget| BudgetSet { pid, task: None, budget: Some(budget), by: "operator".into() });
            let events: Vec<Event> = std::iter::once(spawned.into()).chain(budget.map(Event::from)).collect();
            (events, pid)
        })?;
        Ok(Some(JobProcess { pid: pending.durable().await? }))
    }
}

/// The program's name and a number, so that each process has its own.
fn name(world: &World, wanted: &str) -> String {
    let plain: String = wanted.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).take(NAME_CHARS).collect();
    // A name that a rule may be about belongs to whoever has it by right.
    let taken = ["", "kernel", "operator", "foreman", models::CLIENT].contains(&plain.to_ascii_lowercase().as_str());
    let stem = if taken { ROLE } else { plain.as_str() };
    let nth = (1..).find(|nth| !world.processes.values().any(|process| process.name == format!("{stem}.{nth}")));
    format!("{stem}.{}", nth.unwrap_or(1_u64))
}
