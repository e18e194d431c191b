//! Brains as processes of the tree: the tree queues, awaits and cancels their tasks, and the kernel's own queue has them worked off.
//!
//! Such a process has no program that the tree starts. **Invariant.** It works on the project of whoever spawned it, each task in a room of its
//! own, with no tool and no mode that the task of whoever asks does not have, and held to tests first as strictly.

use crate::calls::{CallEffect, CallOrigin, TreeCall};
use crate::end::{of_tree, own_children};
use crate::execute::check_first;
use crate::order::TaskOrder;
use crate::{Tree, TreeCaller, TreeFuture};
use gate::TreeRequest;
use serde_json::json;
use std::sync::Arc;
use world::event::{DisciplineSwitched, TaskNarrowed, TaskQueued, TaskScheduled};
use world::{
    Code, Discipline, Event, ExecuteOrder, ExecuteResult, Fault, Mode, Pid, Process, ProcessExit, ProcessRole, ProgramRuntime, Refusal,
    ReviewId, Stop, Task, TaskId, TaskState, Tier, ToolList, World, ZoneId,
};

/// Tasks of one brain that wait, as of any worker.
const QUEUED_MAX: usize = world::limits::QUEUE_MAX;

/// Whoever has brains work and decide.
pub trait BrainHost: Send + Sync {
    /// The brain that a name stands for in a zone, as tasks name it. Refused where it cannot work there.
    fn resolve(&self, zone: ZoneId, name: &str, tier: Tier, model: &str) -> Result<String, Stop>;

    /// How strictly tests come first in a task of this zone that nobody named a mode for, and why.
    fn discipline(&self, zone: ZoneId) -> TreeFuture<'_, Result<Option<(Discipline, String)>, Stop>>;

    /// Something was queued.
    fn wake(&self);

    /// The model that decides for the process of this name, where the operator's settings attach one.
    fn decider(&self, name: &str) -> Option<String>;

    /// What that model answers, asked once in the name of this process.
    fn decide<'a>(&'a self, pid: Pid, model: &'a str, system: &'a str, question: &'a str) -> TreeFuture<'a, Result<String, Stop>>;

    /// Ends a task with everything that runs for it.
    fn cancel<'a>(&'a self, task: TaskId, by: &'a str) -> TreeFuture<'a, Result<(), Stop>>;
}

impl Tree {
    /// From here on brains can be spawned.
    pub fn set_brains(&self, host: Arc<dyn BrainHost>) {
        *self.brains.lock() = Some(host);
    }

    fn brain_host(&self) -> Result<Arc<dyn BrainHost>, Fault> {
        self.brains.lock().clone().ok_or_else(crate::spawn::stopping)
    }

    /// The brain of an order, and the project that it is to work on: the one that `by` works on.
    pub(crate) fn brain_of(&self, by: Pid, name: &str, tier: Tier, model: &str) -> Result<(String, ZoneId), Stop> {
        let zone = self.origin(by).zone;
        if zone.is_none() {
            let why = "spawn denied: a brain works on a project, and whoever spawns it here works on none";
            return Err(Refusal::new(Code::WrongState, why).hint("have a brain spawn it that works on a task of the project").into());
        }
        Ok((self.brain_host()?.resolve(zone, name, tier, model)?, zone))
    }

    pub(crate) fn is_brain(&self, pid: Pid) -> bool {
        self.ledger.look(|world| world.processes.get(&pid).is_some_and(is_brain))
    }

    /// Queues a task for a brain.
    pub(crate) async fn queue_for_brain(
        &self,
        TreeCaller { pid: by, asked }: TreeCaller,
        target: Pid,
        order: TaskOrder,
        only_children: bool,
    ) -> Result<TaskId, Stop> {
        let host = self.brain_host()?;
        let prompt = prompt(&order);
        let discipline = self.discipline_below(host.as_ref(), by, target).await?;
        let original = self.ledger.keep_prompt(&prompt).await?;
        let input = json!({ "pid": target.0, "description": order.description, "params": order.params, "label": order.label });
        let about = Some(TreeRequest::Direct { target, only_children });
        let call = TreeCall { by, tool: "proc.execute", input, about, read_only: false };
        let queued = self.commit_asked(call, asked, |world, _, _| {
            let task = world.next_task();
            let mut events = queueing(world, by, target, &order, &prompt, original.clone())?;
            events.extend(held(world, by, target, task, discipline.clone()));
            Ok(CallEffect { events, output: json!({ "task": task.to_string() }), value: task })
        });
        match queued.await {
            Ok(task) => {
                host.wake();
                Ok(task)
            }
            Err(stop) => {
                if let Some(name) = original {
                    self.ledger.delete_original(name)?;
                }
                Err(own_children(stop, only_children, "execute_on"))
            }
        }
    }

    /// The mode of what a process has a brain do: that of its own task, else what the project or the operator says.
    async fn discipline_below(&self, host: &dyn BrainHost, by: Pid, target: Pid) -> Result<Option<(Discipline, String)>, Stop> {
        let (own, zone) = self.ledger.look(|world| (mode_of(world, by), world.processes.get(&target).and_then(|process| process.zone)));
        match (own, zone) {
            (Some(mode), _) => Ok(Some((mode, "whoever asks for it is held so".to_owned()))),
            (None, Some(zone)) => host.discipline(zone).await,
            (None, None) => Ok(None),
        }
    }

    /// What came of a brain's task, once it is over. A process of the role task is over with it.
    pub(crate) async fn brain_result(&self, id: TaskId) -> Result<ExecuteResult, Stop> {
        let over = self.until(|world| match world.tasks.get(&id) {
            Some(task) if !is_over(task) => None,
            task => Some(task.cloned()),
        });
        let over = over.await;
        if let Some(pid) = over.as_ref().map(|task| task.pid) {
            self.end_if_task(pid).await?;
        }
        match over {
            Some(Task { state: TaskState::Done, summary, .. }) => Ok(said(summary)),
            task => {
                let why = task.and_then(|task| task.summary).unwrap_or_default();
                Err(Refusal::new(Code::WrongState, format!("task failed: {why}")).into())
            }
        }
    }

    /// Ends a brain that lived for one task, which is over.
    pub(crate) async fn end_if_task(&self, pid: Pid) -> Result<(), Fault> {
        let exit = self.ledger.look(|world| {
            let process = world.processes.get(&pid).filter(|process| process.state.alive() && is_brain(process))?;
            let mut tasks = world.tasks.values().filter(|task| task.pid == pid);
            let is_task = process.tree_role() == Some(ProcessRole::Task);
            let last = world.tasks.values().rfind(|task| task.pid == pid)?;
            (is_task && tasks.all(is_over)).then(|| ProcessExit {
                code: Some(i32::from(last.state != TaskState::Done)),
                output: last.summary.clone().unwrap_or_default(),
                ..ProcessExit::default()
            })
        });
        match exit {
            Some(exit) => self.end_gone(pid, "its work is done", exit).await,
            None => Ok(()),
        }
    }

    /// At boot: brains that live for one task, and nobody waits for them any more.
    pub(crate) fn watch_brain_tasks(self: &Arc<Self>) {
        let open = self.ledger.look(|world| {
            let of_task = |process: &&Process| is_brain(process) && process.state.alive() && process.tree_role() == Some(ProcessRole::Task);
            let pids: Vec<Pid> = world.processes.values().filter(of_task).map(|process| process.pid).collect();
            world.tasks.values().filter(|task| pids.contains(&task.pid)).map(|task| task.id).collect::<Vec<_>>()
        });
        for id in open {
            let me = Arc::clone(self);
            tokio::spawn(async move {
                if let Err(stop) = me.brain_result(id).await {
                    world::log!("skep: {id} came to nothing: {stop}");
                }
            });
        }
    }

    /// Cancels what a brain works on and what waits for it.
    pub(crate) async fn cancel_brain_tasks(&self, pid: Pid, by: &str) -> Result<(), Fault> {
        let open = self.ledger.look(|world| {
            let is_brain = world.processes.get(&pid).is_some_and(is_brain);
            let open = world.tasks.values().filter(|task| is_brain && task.pid == pid && !task.state.ended());
            open.map(|task| task.id).collect::<Vec<_>>()
        });
        if open.is_empty() {
            return Ok(());
        }
        let host = self.brain_host()?;
        for id in open {
            match host.cancel(id, by).await {
                Ok(()) => {}
                // It ended meanwhile, or comes to its end by itself.
                Err(Stop::Refused(refusal)) => world::log!("skep: {id} is not cancelled: {}", refusal.reason),
                Err(Stop::Failed(fault)) => return Err(fault),
            }
        }
        Ok(())
    }

    /// The question that a task waits for, if it waits for a person.
    pub fn work_question(&self, id: TaskId) -> Option<ReviewId> {
        self.ledger.look(|world| match world.tasks.get(&id)?.state {
            TaskState::Parked { review } => Some(review),
            _ => None,
        })
    }
}

pub(crate) fn is_brain(process: &Process) -> bool {
    process.program.as_ref().is_some_and(|program| program.runtime == ProgramRuntime::Brain)
}

/// Is nothing done about it any more, unless a person says so? One that could not go on counts: whoever waits has to know.
pub(crate) fn is_over(task: &Task) -> bool {
    task.state.ended() || (task.mode != Mode::Execute && task.state.at_rest())
}

/// What a brain said at the end of its task, as the result of work.
pub(crate) fn said(summary: Option<String>) -> ExecuteResult {
    ExecuteResult { output: summary.unwrap_or_default(), ..ExecuteResult::default() }
}

/// A task in words: what a program gets as parameters, a brain reads.
fn prompt(order: &TaskOrder) -> String {
    let params = order.params.iter().map(|(name, value)| format!("\n{name}: {value}")).collect::<String>();
    if params.is_empty() { order.description.clone() } else { format!("{}\n{params}", order.description) }
}

/// How the task is held that a process works on.
fn mode_of(world: &World, pid: Pid) -> Option<Discipline> {
    let asker = CallOrigin::of(world, pid).task.and_then(|task| world.tasks.get(&task))?;
    asker.workflow.as_deref().map(|workflow| workflow.mode)
}

/// The record by which a task is held that somebody is to write in. Explored work is not begun where it is locked.
fn held(world: &World, by: Pid, target: Pid, task: TaskId, chosen: Option<(Discipline, String)>) -> Option<Event> {
    let asker = CallOrigin::of(world, by).task.and_then(|task| world.tasks.get(&task));
    let (mode, reason) = chosen.filter(|_| !asker.is_some_and(|task| task.present_mode() == Mode::Ask))?;
    let zone = world.processes.get(&target).and_then(|process| process.zone).and_then(|zone| world.zones.get(&zone));
    let (mode, reason) = match zone.is_some_and(world::Zone::is_explore_locked) && mode != Discipline::Strict {
        true => (Discipline::Strict, format!("{mode} was asked for. {}", world::discipline::EXPLORE_LOCK)),
        false => (mode, reason),
    };
    Some(DisciplineSwitched { pid: target, task: Some(task), mode, was: None, by: ledger::name_of(world, by), reason }.into())
}

/// The records by which a task waits for a brain.
fn queueing(world: &World, by: Pid, target: Pid, order: &TaskOrder, prompt: &str, original: Option<String>) -> Result<Vec<Event>, Refusal> {
    let process = of_tree(world, target)?;
    check_first(process, order)?;
    let none = || Refusal::new(Code::WrongState, format!("process {target} works on no project"));
    let (program, zone) = process.program.as_deref().zip(process.zone).ok_or_else(none)?;
    let waiting = world.tasks.values().filter(|task| task.pid == target && task.state == TaskState::Queued).count();
    if waiting >= QUEUED_MAX {
        return Err(Refusal::new(Code::Exhausted, format!("{waiting} tasks wait for process {target}")));
    }
    let (pid, task) = (target, Some(world.next_task()));
    let asker = CallOrigin::of(world, by).task.and_then(|task| world.tasks.get(&task));
    let asks = asker.is_some_and(|task| task.present_mode() == Mode::Ask);
    let mode = if asks { Mode::Ask } else { Mode::Act };
    let ordered = ExecuteOrder {
        by,
        params: order.params.clone(),
        label: order.label.clone(),
        parent_task: order.parent_task.clone(),
        context: None,
        is_first: order.is_first,
    };
    let queued = TaskQueued {
        pid,
        task,
        zone,
        mode,
        prompt: prompt.to_owned(),
        brain: program.image.clone(),
        priority: 0,
        calls_max: None,
        original,
        discard: false,
        order: Some(Box::new(ordered)),
    };
    let mut events: Vec<Event> = vec![queued.into()];
    let timeout_ms = order.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    if let Some(timeout_ms) = timeout_ms.into_iter().chain(program.limits.timeout_ms).min() {
        events.push(TaskScheduled { pid, task, after: Vec::new(), timeout_ms: Some(timeout_ms) }.into());
    }
    let own = (!program.tools.is_empty()).then(|| ToolList { of: process.name.clone(), tools: program.tools.clone() });
    let lists: Vec<ToolList> = asker.into_iter().flat_map(|task| task.tool_lists.clone()).chain(own).collect();
    if !lists.is_empty() {
        events.push(TaskNarrowed { pid, task, lists, by: ledger::name_of(world, by) }.into());
    }
    Ok(events)
}
