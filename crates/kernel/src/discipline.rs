//! How strictly tests come first in a task: who says so, and the policy's word on it.
//!
//! **Invariant.** A mode is in force only after the policy was asked about `session.set_mode`, whoever named it: a flag, the environment, the
//! project or the operator's settings. A no means strict.

use crate::{Kernel, call};
use gate::{CallEnd, Request};
use serde_json::json;
use workflow::discipline::SET_MODE;
use world::discipline::EXPLORE_LOCK;
use world::event::DisciplineSwitched;
use world::{Code, Discipline, Event, FileCoverageMove, Pid, Refusal, Stop, Task, TaskId, TaskState, ZoneCoverage, ZoneId};

/// The mode that a task gets, and why it is that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenDiscipline {
    pub mode: Discipline,
    pub reason: String,
}

impl ChosenDiscipline {
    pub(crate) fn event(&self, pid: Pid, task: TaskId, was: Option<Discipline>, by: &str) -> Event {
        DisciplineSwitched { pid, task: Some(task), mode: self.mode, was, by: by.to_owned(), reason: self.reason.clone() }.into()
    }
}

impl Kernel {
    /// The mode of a new task: what was named with it, else what the project says, else the operator. `None` where nobody does, and for what
    /// writes no code: a question, a talk.
    pub(crate) async fn discipline_of_new(
        &self,
        zone: ZoneId,
        named: Option<Discipline>,
        writes: bool,
    ) -> Result<Option<ChosenDiscipline>, Stop> {
        if !writes {
            return Ok(None);
        }
        let trusted = self.gate.policies.in_force(zone)?;
        let of_project = trusted.config.discipline.as_deref().and_then(Discipline::parse);
        let wished = named.map(|mode| (mode, "it was asked for"));
        let wished = wished.or(of_project.map(|mode| (mode, "skep.yml says so")));
        let wished = wished.or(self.instance.settings.in_force().discipline.map(|mode| (mode, "config.yml says so")));
        match wished {
            Some((mode, why)) => self.judge_discipline(None, zone, mode, why).await.map(Some),
            None => Ok(None),
        }
    }

    /// Asks the policy about a mode. A question that a person must answer first is an error with its review; a no is strict.
    async fn judge_discipline(&self, task: Option<TaskId>, zone: ZoneId, mode: Discipline, why: &str) -> Result<ChosenDiscipline, Stop> {
        let request = Request::new(Pid::OPERATOR, task, zone, SET_MODE, json!({ "mode": mode.as_str() }));
        let outcome = call::run_syscall(self, &request, async { Ok(json!({ "mode": mode.as_str() })) }).await?;
        match outcome.end {
            CallEnd::Done { .. } | CallEnd::CallerExecutes if mode != Discipline::Strict && self.test_first().is_explore_locked(zone) => {
                Ok(ChosenDiscipline { mode: Discipline::Strict, reason: format!("{mode} was asked for. {EXPLORE_LOCK}") })
            }
            CallEnd::Done { .. } | CallEnd::CallerExecutes => Ok(ChosenDiscipline { mode, reason: why.to_owned() }),
            CallEnd::Pending(refusal) => Err(refusal.into()),
            CallEnd::Refused(refusal) => {
                let reason = format!("{mode} was denied: {}", refusal.reason);
                Ok(ChosenDiscipline { mode: Discipline::Strict, reason })
            }
        }
    }

    /// Files whose coverage differs from the baseline of their zone, those that lost most first.
    pub fn coverage_moves(&self, coverage: &ZoneCoverage) -> Vec<FileCoverageMove> {
        self.test_first().zone_moves(coverage)
    }

    /// Switches the mode of a task that has not ended.
    pub async fn switch_discipline(&self, id: TaskId, mode: Discipline, by: &str) -> Result<ChosenDiscipline, Stop> {
        let task = self.ledger.task(id)?;
        may_switch(&task)?;
        let chosen = self.judge_discipline(Some(id), task.zone, mode, &format!("{by} asked for it")).await?;
        let pending = self.ledger.commit(|world, _| {
            let Some(task) = world.tasks.get(&id) else { return (Vec::new(), Err(ledger::unknown_task(id))) };
            match may_switch(task) {
                Ok(()) => {
                    let was = task.workflow.as_ref().map(|workflow| workflow.mode);
                    let events = if was == Some(chosen.mode) { Vec::new() } else { vec![chosen.event(task.pid, id, was, by)] };
                    (events, Ok(()))
                }
                Err(refusal) => (Vec::new(), Err(refusal)),
            }
        })?;
        pending.durable().await??;
        Ok(chosen)
    }
}

/// A task that began without a mode had its hands free: nothing of what it did can be seen as test-first any more.
fn may_switch(task: &Task) -> Result<(), Refusal> {
    let id = task.id;
    if task.state.ended() {
        return Err(Refusal::new(Code::WrongState, format!("{id} has ended")).hint("say something more to it, or begin another"));
    }
    if task.workflow.is_none() && task.state != TaskState::Queued {
        return Err(Refusal::new(Code::WrongState, format!("{id} began without a mode")).hint("begin another task with one"));
    }
    Ok(())
}
