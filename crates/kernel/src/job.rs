//! The process that stands for a command of the operator's in a room.
//!
//! A room's job asks for hosts and models by itself, so it is a process of its own: rules, bans, budgets and figures are about it and not
//! about the operator, whose child it is. A job of another call of the operator's has one where its room lets it ask. **Invariant.** It lives
//! exactly as long as the call that runs the job.

use crate::Kernel;
use gate::{JOB, Request, SANDBOX_RUN};
use sandbox::{Network, Template};
use std::sync::Arc;
use tool::RunMode;
use workspace::Sight;
use world::event::{BudgetSet, ProcSpawned};
use world::{Event, Fault, Pid, Stop, World};

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
    /// Spawns the process of a call that runs a job of the operator's in this room; `None` for any other call.
    pub(crate) async fn begin_job(&self, request: &Request, room: Option<&Template>) -> Result<Option<JobProcess>, Fault> {
        let is_own = request.pid == Pid::OPERATOR && request.of.is_none() && request.run_mode == RunMode::Live;
        let asks = is_own && room.is_some_and(may_ask);
        if request.tool != SANDBOX_RUN && !asks {
            return Ok(None);
        }
        let wanted = name_asked(request);
        let (parent, zone, user) = (Some(request.pid), Some(request.zone), self.instance.user.clone());
        let budget = request.job.budget.clone();
        let pending = self.ledger.commit(|world, _| {
            let (pid, name) = (world.next_pid(), name(world, wanted));
            let spawned = ProcSpawned { pid, task: request.task, parent, name, role: JOB.into(), zone, user, program: None };
            let budget = budget.map(|budget| BudgetSet { pid, task: None, budget: Some(budget), by: "operator".into() });
            let events: Vec<Event> = std::iter::once(spawned.into()).chain(budget.map(Event::from)).collect();
            (events, pid)
        })?;
        Ok(Some(JobProcess { pid: pending.durable().await? }))
    }

    /// What whoever carries a call out may see: a job no more than its process may.
    pub(crate) fn sight_for(&self, request: &Request) -> Result<Arc<Sight>, Stop> {
        if request.tool != SANDBOX_RUN {
            return self.gate.sight(request.who());
        }
        let name = self.ledger.look(|world| name(world, name_asked(request)));
        self.gate.sight_of_job(request.who(), &name)
    }
}

/// The name that a job's process shall have.
fn name_asked(request: &Request) -> &str {
    let program = request.input["command"][0].as_str().unwrap_or(&request.tool);
    request.job.name.as_deref().unwrap_or_else(|| program.rsplit('/').next().unwrap_or_default())
}

/// Whether a room lets its jobs ask for hosts or models.
pub(crate) fn may_ask(room: &Template) -> bool {
    room.network == Network::Restricted || room.models
}

/// The program's name and a number, so that each process has its own.
fn name(world: &World, wanted: &str) -> String {
    let plain: String = wanted
        .chars()
        .map(|c| if c == '.' { '-' } else { c })
        .filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c))
        .take(NAME_CHARS)
        .collect();
    // A name that a rule may be about belongs to whoever has it by right.
    let taken =
        ["", "kernel", "operator", gate::WORKER_ROLE, gate::WORKER_NAME, models::CLIENT].contains(&plain.to_ascii_lowercase().as_str());
    let stem = if taken { JOB } else { plain.as_str() };
    let nth = (1..).find(|nth| !world.processes.values().any(|process| process.name == format!("{stem}.{nth}")));
    format!("{stem}.{}", nth.unwrap_or(1_u64))
}
