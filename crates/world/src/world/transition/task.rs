//! Tasks, from the queue to their end.

use super::{CheckResult, Transition, alive, ensure, in_state, process, program, task, task_mut, unended};
use crate::event::{
    ArtifactKept, HookFailed, HookStarted, SkillUsed, TaskCancelled, TaskContinued, TaskFailed, TaskFinished, TaskNarrowed, TaskParked,
    TaskQueued, TaskStarted, TaskStopped, TaskTagged, TaskTaken, TaskTried, WorkDropped, WorkKept,
};
use crate::{
    Artifact, CallPattern, ExecuteResult, FurtherPrompt, Grant, KeptWork, Mode, Pid, ReviewState, Scope, Task, TaskId, TaskState, World,
    limits,
};
use std::collections::BTreeMap;

impl Transition for TaskQueued {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)?;
        ensure(self.task == Some(world.next_task()), || "not the next task id".into())?;
        if self.mode == Mode::Execute {
            let of_tree = world.processes.get(&self.pid).is_some_and(|process| process.program.is_some());
            return ensure(of_tree && self.zone.is_none(), || format!("process {} has no program for it", self.pid));
        }
        ensure(world.zones.contains_key(&self.zone), || format!("no {}", self.zone))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        let Some(id) = self.task else { return };
        world.last.task = world.last.task.max(id.0);
        let task = Task {
            id,
            pid: self.pid,
            zone: self.zone,
            mode: self.mode,
            prompt: self.prompt.clone(),
            original: self.original.clone(),
            brain: self.brain.clone(),
            priority: self.priority,
            queued_ms: at_ms,
            ended_ms: None,
            state: TaskState::Queued,
            episodes: 0,
            calls_left: self.calls_max,
            budget: None,
            calls_settled: 0,
            blob_bytes: 0,
            lost: Vec::new(),
            lost_why: BTreeMap::new(),
            memory: Vec::new(),
            cassette: None,
            replays: None,
            compared: false,
            differs: false,
            tags: Vec::new(),
            tool_lists: Vec::new(),
            pins: Vec::new(),
            skill: None,
            hook: None,
            artifacts: Default::default(),
            rooms: Default::default(),
            workers: Default::default(),
            in_unknown_room: false,
            discard: self.discard,
            workspace: None,
            merge: None,
            kept: None,
            further: Vec::new(),
            continued: 0,
            proposes_kept: false,
            after: Vec::new(),
            paused_for: None,
            timeout_ms: None,
            worked_ms: 0,
            running_since_ms: None,
            summary: None,
            remedy: None,
            stopped_by: None,
            taken_by: None,
            order: self.order.clone(),
            result: None,
            session: None,
            workflow: None,
        };
        world.tasks.insert(id, task);
        if self.order.as_ref().is_some_and(|order| order.is_first)
            && let Some(process) = world.processes.get_mut(&self.pid)
        {
            process.owes_first_to = None;
        }
    }
}

impl Transition for TaskTagged {
    fn check(&self, world: &World) -> CheckResult {
        in_state(world, self.task, "queued", |state| state == TaskState::Queued)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.tags.clone_from(&self.tags);
        }
    }
}

impl Transition for TaskNarrowed {
    fn check(&self, world: &World) -> CheckResult {
        in_state(world, self.task, "queued", |state| state == TaskState::Queued)
    }

    /// A list is added and none is ever taken away.
    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.tool_lists.extend(self.lists.iter().cloned());
        }
    }
}

impl Transition for SkillUsed {
    fn check(&self, world: &World) -> CheckResult {
        in_state(world, self.task, "queued", |state| state == TaskState::Queued)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.skill = Some(self.skill.clone());
        }
    }
}

impl Transition for HookStarted {
    fn check(&self, world: &World) -> CheckResult {
        in_state(world, self.task, "running", |state| state == TaskState::Running)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.hook = Some(self.artifact.clone());
        }
    }
}

impl Transition for ArtifactKept {
    fn check(&self, world: &World) -> CheckResult {
        asked_for(world, self.task, &self.artifact)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        let kept = Artifact::Kept { text: self.text.clone(), blob: self.blob.clone(), bytes: self.bytes };
        end_hook(world, self.task, &self.artifact, kept);
    }
}

impl Transition for HookFailed {
    fn check(&self, world: &World) -> CheckResult {
        asked_for(world, self.task, &self.artifact)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        end_hook(world, self.task, &self.artifact, Artifact::Failed { reason: self.reason.clone() });
    }
}

/// Is the task's brain asked for this artifact?
fn asked_for(world: &World, id: Option<TaskId>, artifact: &str) -> CheckResult {
    let task = task(world, id)?;
    ensure(task.hook.as_deref() == Some(artifact), || format!("{} is not asked for `{artifact}`", task.id))
}

fn end_hook(world: &mut World, id: Option<TaskId>, artifact: &str, came: Artifact) {
    if let Some(task) = task_mut(world, id) {
        task.hook = None;
        task.artifacts.insert(artifact.to_owned(), came);
    }
}

impl Transition for TaskStarted {
    fn check(&self, world: &World) -> CheckResult {
        let task = task(world, self.task)?;
        ensure(!task.state.at_rest(), || format!("{} is {}", task.id, task.state.as_str()))?;
        if task.mode != Mode::Execute || task.state == TaskState::Running {
            return Ok(());
        }
        let bound = world.processes.get(&task.pid).and_then(|process| process.limits()?.tasks);
        let running = world.running_tasks(task.pid) as u64;
        ensure(bound.is_none_or(|bound| running < bound), || format!("process {} works on {running} tasks, and may on no more", task.pid))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        let pins = world.processes.get(&self.pid).map(|process| process.pins.clone()).unwrap_or_default();
        if let Some(task) = task_mut(world, self.task) {
            task.state = TaskState::Running;
            task.pins = pins;
            task.episodes = self.episode;
            task.paused_for = None;
            // A session's time goes on while its kernel is down: whoever kills kernels gains none.
            if task.session.is_some() {
                task.rest(at_ms);
            }
            task.running_since_ms = Some(at_ms);
            task.hook = None;
        }
        program::answered(world, self.pid);
    }
}

impl Transition for TaskTaken {
    fn check(&self, world: &World) -> CheckResult {
        let task = task(world, self.task)?;
        let run = world.processes.get(&task.pid).and_then(|process| process.run.as_deref());
        let is_present = run.is_some_and(|run| run.is_up && run.incarnation == self.incarnation);
        ensure(is_present && self.pid == task.pid, || format!("incarnation {} of process {} does not run", self.incarnation, task.pid))?;
        ensure(task.state == TaskState::Running, || format!("{} is {}", task.id, task.state.as_str()))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.taken_by = Some(self.incarnation);
        }
    }
}

impl Transition for TaskParked {
    fn check(&self, world: &World) -> CheckResult {
        ensure(world.reviews.contains_key(&self.review), || format!("no {}", self.review))?;
        in_state(world, self.task, "running", |state| state == TaskState::Running)
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.state = TaskState::Parked { review: self.review };
            task.rest(at_ms);
        }
        process::rest(world, self.pid);
        if task(world, self.task).is_ok_and(|task| task.mode == Mode::Execute) {
            program::await_person(world, self.pid);
        }
    }
}

impl Transition for TaskFinished {
    fn check(&self, world: &World) -> CheckResult {
        unended(world, self.task)
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        keep_result(world, self.task, self.result.as_deref());
        end(world, self.pid, self.task, TaskState::Done, &self.summary, at_ms);
    }
}

impl Transition for TaskFailed {
    fn check(&self, world: &World) -> CheckResult {
        unended(world, self.task)
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        keep_result(world, self.task, self.result.as_deref());
        end(world, self.pid, self.task, TaskState::Failed, &self.reason, at_ms);
    }
}

impl Transition for TaskCancelled {
    fn check(&self, world: &World) -> CheckResult {
        unended(world, self.task)
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        super::discipline::reset(world, self.task);
        end(world, self.pid, self.task, TaskState::Cancelled, &format!("cancelled by {}", self.by), at_ms);
    }
}

impl Transition for TaskStopped {
    fn check(&self, world: &World) -> CheckResult {
        in_state(world, self.task, "queued, running or parked", |state| !state.at_rest())
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.rest(at_ms);
            task.state = TaskState::Stopped;
            task.summary = Some(self.reason.clone());
            task.remedy = self.remedy.clone();
            task.stopped_by = Some(self.cause);
            task.proposes_kept = false;
        }
        void_questions(world, self.task);
        process::rest(world, self.pid);
    }
}

impl Transition for TaskContinued {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)?;
        let task = task(world, self.task)?;
        ensure(task.pid == self.pid, || format!("{} is the work of process {}", task.id, task.pid))?;
        let works = is_worked_on(task);
        ensure(!works || self.prompt.is_some(), || format!("{} is {}", task.id, task.state.as_str()))?;
        ensure(!works || !self.propose, || format!("{} is {}", task.id, task.state.as_str()))?;
        let merge = task.merge.and_then(|merge| world.merges.get(&merge));
        let undecided = |state| matches!(state, crate::MergeState::Proposed | crate::MergeState::Applying | crate::MergeState::Undoing);
        ensure(works || !merge.is_some_and(|merge| undecided(merge.state)), || format!("a merge of {} is not decided", task.id))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        let still_awaited = self.task.and_then(|id| world.tasks.get(&id)).map(|task| world.unfailed(&task.after)).unwrap_or_default();
        let Some(task) = task_mut(world, self.task) else { return };
        let works = is_worked_on(task);
        if let Some(prompt) = &self.prompt {
            let settled = (!works).then_some(task.calls_settled);
            // Whoever says something to it gives it as many turns as it had at first.
            if let Some(workflow) = task.workflow.as_deref_mut().filter(|_| self.by != "kernel") {
                workflow.stalled = 0;
            }
            task.further.push(FurtherPrompt { prompt: prompt.clone(), original: self.original.clone(), settled });
        }
        if let Some(calls) = self.calls {
            task.calls_left = Some(calls);
        }
        if works {
            return;
        }
        task.state = TaskState::Queued;
        task.remedy = None;
        task.stopped_by = None;
        task.ended_ms = None;
        task.worked_ms = 0;
        // Whoever has it go on does not wait for what failed.
        task.after = still_awaited;
        task.merge = None;
        task.continued += 1;
        task.proposes_kept = self.propose;
        if !self.propose {
            task.summary = None;
            task.artifacts.clear();
        }
        void_questions(world, self.task);
    }
}

impl Transition for WorkKept {
    fn check(&self, world: &World) -> CheckResult {
        task(world, self.task).map(drop)
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.kept = Some(KeptWork { blob: self.blob.clone(), files: self.files, bytes: self.bytes, left: self.left, since_ms: at_ms });
        }
    }
}

impl Transition for WorkDropped {
    fn check(&self, world: &World) -> CheckResult {
        let task = task(world, self.task)?;
        ensure(task.kept.is_some(), || format!("nothing of {} is kept", task.id))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(task) = task_mut(world, self.task) {
            task.kept = None;
        }
    }
}

impl Transition for TaskTried {
    fn check(&self, world: &World) -> CheckResult {
        task(world, self.task).map(drop)
    }
}

fn keep_result(world: &mut World, id: Option<TaskId>, result: Option<&ExecuteResult>) {
    if let Some(task) = task_mut(world, id) {
        task.result = result.map(|result| Box::new(result.clone()));
    }
}

fn end(world: &mut World, pid: Pid, id: Option<TaskId>, state: TaskState, summary: &str, at_ms: i64) {
    if let Some(task) = task_mut(world, id) {
        task.rest(at_ms);
        task.paused_for = None;
        task.state = state;
        task.ended_ms = Some(at_ms);
        task.summary = Some(summary.to_owned());
        task.proposes_kept = false;
    }
    void_questions(world, id);
    program::unpark(world, pid);
    // A yes for one exact call of this task has nothing left to be used on, and a session's answers end with it; a wider one outlives the
    // task that asked.
    let of_task = |task: Option<TaskId>, pid: Pid| task.is_some() && task == id && pid != Pid::OPERATOR;
    let is_over = |grant: &Grant| matches!(grant.scope, Scope::Session { .. }) && of_task(grant.task, grant.pid);
    world.grants.retain(|_, grant| {
        let is_used_up = matches!(grant.what, CallPattern::Exact { .. }) && grant.task.is_some() && grant.task == id;
        !is_used_up && !is_over(grant)
    });
    world.bans.retain(|_, ban| !(matches!(ban.scope, Scope::Session { .. }) && of_task(ban.task, ban.pid)));
    process::rest(world, pid);
    forget_oldest(world);
}

/// Is its turn not over? One that waits for an answer to a call is in the middle of it; one that waits for its merge is not.
fn is_worked_on(task: &Task) -> bool {
    match task.state {
        TaskState::Queued | TaskState::Running => true,
        TaskState::Parked { .. } => task.merge.is_none(),
        TaskState::Stopped | TaskState::Done | TaskState::Failed | TaskState::Cancelled => false,
    }
}

/// Nobody waits for the answers any more.
fn void_questions(world: &mut World, id: Option<TaskId>) {
    for review in world.reviews.values_mut() {
        if review.task.is_some() && review.task == id && review.state == ReviewState::Open {
            review.state = ReviewState::Void;
        }
    }
}

/// Ended tasks leave memory after a while; the journal keeps them. Those with kept work stay as long as it does. Agents have far more of them than
/// people, and their tasks take no place of people's.
fn forget_oldest(world: &mut World) {
    let oldest = |of_agents: bool| {
        let is_over = move |task: &&Task| task.state.ended() && (task.mode == Mode::Execute) == of_agents;
        let excess = world.tasks.values().filter(is_over).count().saturating_sub(limits::TASKS_REMEMBERED);
        let may_go = |task: &&Task| task.workspace.is_none() && task.kept.is_none();
        world.tasks.values().filter(is_over).filter(may_go).map(|task| task.id).take(excess).collect::<Vec<TaskId>>()
    };
    for id in [oldest(true), oldest(false)].concat() {
        world.tasks.remove(&id);
        world.reviews.retain(|_, review| review.task != Some(id));
        world.merges.retain(|_, merge| merge.task != id);
    }
}
