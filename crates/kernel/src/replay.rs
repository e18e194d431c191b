//! A task run again: the same brain in the same place on its recorded traffic, compared call by call.
//!
//! A replay is a task of its own whose model is the cassette and whose workspace starts from the recorded base. Its calls are made again
//! there, and its brain hears what the recorded ones came to. **Invariant.** It merges nothing and asks nobody: what a person answered then
//! is the answer now, inside its throw-away workspace; everything else is refused. It does not end without its comparison, whoever waits
//! for it and whatever happens to the kernel.

pub(crate) mod base;

use crate::file_thread::on_own_thread;
use crate::queue::TaskMarks;
use crate::{Kernel, merge};
use brain::BrainSpec;
use compare::{Divergence, ReplayEnd, ReplayReport, compare};
use ledger::Ledger;
use models::Models;
use room::RoomContent;
use workspace::change_set::{self, ChangeSet};
use world::event::{ReplayFinished, TaskQueued};
use world::{Capability, Code, Event, Mode, Refusal, Task, TaskId, TaskState};
use world::{Fault, FaultKind, Stop};

/// Refuses a task that cannot be run again.
fn may_be_replayed(models: &Models, task: &Task) -> Result<(), Stop> {
    let id = task.id;
    if task.mode == Mode::Call {
        return Err(Refusal::new(Code::WrongState, format!("{id} is a call of your own, not a brain's work"))
            .hint("make the call again")
            .into());
    }
    if task.mode == Mode::Execute {
        return Err(Refusal::new(Code::WrongState, format!("{id} was done by an agent, whose own traffic is not recorded"))
            .hint("execute it again")
            .into());
    }
    if task.replays.is_some() {
        return Err(Refusal::new(Code::WrongState, format!("{id} is a replay itself")).hint("replay the task it replays").into());
    }
    if task.continued > 0 || !task.further.is_empty() {
        return Err(Refusal::new(Code::WrongState, format!("{id} went on after its end, and such work cannot be replayed")).into());
    }
    let over = task.state.ended() || (matches!(task.state, TaskState::Parked { .. }) && task.merge.is_some());
    if !over {
        return Err(Refusal::new(Code::WrongState, format!("{id} is {}, so there is nothing to compare with yet", task.state.as_str()))
            .remedy(world::Remedy::WatchTask { task: id })
            .into());
    }
    agent::check_capability(&task.brain, Capability::Replay)?;
    let is_script = matches!(BrainSpec::parse(&task.brain), Ok(BrainSpec::Script(_)));
    if !is_script && task.cassette.is_none() {
        return Err(Refusal::new(Code::NotFound, format!("the traffic of {id} was not recorded"))
            .hint("record the next one")
            .remedy(world::Remedy::RecordTask)
            .into());
    }
    if let Some(file) = &task.cassette
        && !is_script
    {
        models.check_cassette(file)?;
    }
    Ok(())
}

/// Did the brain of a task ask the process tree for something?
fn directed_agents(ledger: &Ledger, task: &Task) -> Result<bool, Fault> {
    let is_of_tree = |event: Event| match event {
        Event::CallAdmitted(call) => call.pid == task.pid && policy::tree_calls().any(|name| name == call.tool),
        _ => false,
    };
    Ok(ledger.events(task.id, &["call.admitted"])?.into_iter().any(is_of_tree))
}

impl Kernel {
    /// Runs a task again and says what came out differently.
    pub async fn replay(&self, of: TaskId, timing: bool) -> Result<ReplayReport, Stop> {
        let original = self.ledger.task(of)?;
        if directed_agents(&self.ledger, &original)? {
            return Err(Refusal::new(
                Code::WrongState,
                format!("{of} asked the process tree for something, and what agents did cannot be replayed"),
            )
            .hint("have it done again")
            .into());
        }
        may_be_replayed(&self.models, &original)?;
        let queued = self.ledger.events(of, &["task.queued"])?.into_iter().find_map(|event| match event {
            Event::TaskQueued(queued) => Some(queued),
            _ => None,
        });
        let TaskQueued { zone, mode, prompt, brain, calls_max, .. } =
            queued.ok_or_else(|| Fault::new(FaultKind::Bug, "a task has no beginning", of))?;
        if timing {
            self.models.keep_pauses(of, true);
        }
        let alive = self.ledger.look(|world| world.processes.get(&original.pid).is_some_and(|process| process.state.alive()));
        let marks =
            TaskMarks { replays: Some(of), tags: original.tags.clone(), lists: original.tool_lists.clone(), ..TaskMarks::default() };
        let id =
            self.tasks.enqueue(zone, alive.then_some(original.pid), mode, prompt, brain, original.priority, calls_max, marks).await?.task;
        self.tasks.wake();
        let settled = self.tasks.settled(id).await;
        self.models.keep_pauses(of, false);
        settled?;
        self.compare_ended(id).await?;
        self.ledger.events(id, &["replay.finished"])?.into_iter().find_map(read).ok_or_else(|| {
            let why = "what came of it is not on record";
            Fault::new(FaultKind::Bug, "a replay was not compared", why).into()
        })
    }

    /// Compares a replay that ended before its brain was done, unless that has happened.
    pub(crate) async fn compare_ended(&self, id: TaskId) -> Result<(), Fault> {
        let task = self.ledger.look(|world| world.tasks.get(&id).filter(|task| task.state.ended() && !task.compared).cloned());
        let Some((task, of)) = task.and_then(|task| task.replays.map(|of| (task, of))) else { return Ok(()) };
        let original = self.ledger.look(|world| world.tasks.get(&of).cloned());
        let Some(original) = original else { return Ok(()) };
        self.instance.fault_at("compare", 0);
        let summary = task.summary.clone().unwrap_or_default();
        let end = ReplayEnd { good: !matches!(task.state, TaskState::Failed | TaskState::Cancelled), how: task.state.as_str(), summary };
        let finished = compared(self, &original, &task, &end, &ChangeSet::new())?;
        // Whoever waited for the replay and the replay itself may both be here.
        let pending = self.ledger.commit(|world, _| match world.tasks.get(&id) {
            Some(task) if !task.compared => (vec![finished.into()], ()),
            _ => (Vec::new(), ()),
        })?;
        self.gate.forget_approvals(of);
        pending.durable().await
    }

    /// Compares the replays that had ended when the last kernel did.
    pub(crate) async fn compare_left(&self) -> Result<(), Fault> {
        let left: Vec<TaskId> = self.ledger.look(|world| {
            let left = world.tasks.values().filter(|task| task.replays.is_some() && task.state.ended() && !task.compared);
            left.map(|task| task.id).collect()
        });
        for id in left {
            self.compare_ended(id).await?;
        }
        Ok(())
    }
}

/// Ends a replay whose brain is done: its changes are counted, compared and dropped. What came of it is on record with its end.
pub(crate) async fn conclude(kernel: &Kernel, task: &Task, of: TaskId, summary: &str) -> Result<(), Stop> {
    let changed = match task.mode {
        Mode::Ask => ChangeSet::new(),
        // It made no call, and so had no room.
        _ if kernel.ledger.task(task.id)?.workspace.is_none() => ChangeSet::new(),
        _ => {
            let task = task.clone();
            on_own_thread(kernel, |kernel| async move { changed(&kernel, &task).await }).await?
        }
    };
    let end = ReplayEnd { good: true, how: "done", summary: summary.to_owned() };
    let finished = compared(kernel, &kernel.ledger.task(of)?, task, &end, &changed)?;
    kernel.gate.forget_approvals(of);
    merge::finish(kernel, task, summary, vec![finished.into()]).await
}

/// What the workspace of a replay holds that its base did not.
async fn changed(kernel: &Kernel, task: &Task) -> Result<ChangeSet, Stop> {
    let opened = kernel.workspace_of(task.id).await?;
    let paths = change_set::changed_paths(&opened.room, workspace::replay::moved(&kernel.instance.home.work_of(task.id))?).await?;
    let list: Vec<&str> = paths.iter().map(String::as_str).collect();
    let throwaway = kernel.throwaways.open(task.zone, &opened.project, RoomContent::Repository).await?;
    let bases = merge::bases(kernel, task, &opened, &throwaway, &list).await?;
    let keeping = kernel.ledger.keeping();
    let tally = change_set::of_room(&opened.room, &opened.project, &paths, &bases, &|bytes| keeping.keep(bytes)).await?;
    keeping.done()?;
    throwaway.close().await?;
    Ok(tally)
}

fn compared(kernel: &Kernel, original: &Task, replay: &Task, end: &ReplayEnd, changed: &ChangeSet) -> Result<ReplayFinished, Fault> {
    let ReplayReport { task, of, calls, requests, divergence } = compare(&kernel.ledger, original, replay, end, changed)?;
    let difference = divergence.as_ref().map(ToString::to_string);
    Ok(ReplayFinished { pid: replay.pid, task: Some(task), of, calls, requests, difference })
}

/// What came of a replay, from its record.
fn read(event: Event) -> Option<ReplayReport> {
    let Event::ReplayFinished(ReplayFinished { task: Some(task), of, calls, requests, difference, .. }) = event else { return None };
    Some(ReplayReport { task, of, calls, requests, divergence: difference.as_deref().map(Divergence::parse) })
}
