//! The queue of each worker: what comes next, and what each task waits for.

use super::World;
use crate::{Pid, Task, TaskId, TaskState};
use std::cmp::Reverse;

impl World {
    /// What a worker has to do, first things first. What waits for other tasks has its place too.
    pub fn queue(&self, pid: Pid) -> Vec<&Task> {
        let mut queued: Vec<&Task> = self.queued(pid).collect();
        queued.sort_by_key(|task| Reverse(self.place(task)));
        queued
    }

    /// What a process should take up next: what was interrupted for something that is over, then highest priority first, then oldest.
    pub fn next_queued(&self, pid: Pid) -> Option<&Task> {
        self.queued(pid).filter(|task| self.unfinished(&task.after).next().is_none()).max_by_key(|task| self.place(task))
    }

    /// The task that a queued one waits for: the one before it in the queue, or the one that its process works on. `rests` are those that
    /// hold nobody up.
    pub fn queued_behind(&self, id: TaskId, rests: impl Fn(TaskId) -> bool) -> Option<TaskId> {
        let task = self.tasks.get(&id).filter(|task| task.state == TaskState::Queued)?;
        let others = || self.tasks.values().filter(|other| other.pid == task.pid && other.id != id);
        let is_ahead = |other: &&Task| {
            other.state == TaskState::Queued && self.place(other) > self.place(task) && self.unfinished(&other.after).next().is_none()
        };
        let ahead = others().filter(is_ahead).min_by_key(|other| self.place(other));
        let runs = || others().find(|other| other.state == TaskState::Running && !rests(other.id));
        ahead.or_else(runs).map(|other| other.id)
    }

    /// The priority of what goes before all that is queued for a process.
    pub fn front(&self, pid: Pid) -> i64 {
        // A talk is first of all, whatever comes.
        let queued = self.queued(pid).map(|task| task.priority).filter(|priority| *priority < i64::MAX - 1);
        queued.chain([0]).max().map_or(1, |highest| highest.saturating_add(1))
    }

    /// Those of `tasks` that have not finished. One that is forgotten has.
    pub fn unfinished<'a>(&'a self, tasks: &'a [TaskId]) -> impl Iterator<Item = &'a Task> {
        tasks.iter().filter_map(|id| self.tasks.get(id)).filter(|task| task.state != TaskState::Done)
    }

    /// The first of `tasks` that ended and did not finish.
    pub fn failed<'a>(&'a self, tasks: &'a [TaskId]) -> Option<&'a Task> {
        self.unfinished(tasks).find(|task| task.state.ended())
    }

    /// Those of `tasks` that did not fail.
    pub(crate) fn unfailed(&self, tasks: &[TaskId]) -> Vec<TaskId> {
        let failed = |id: &TaskId| self.tasks.get(id).is_some_and(|task| task.state.ended() && task.state != TaskState::Done);
        tasks.iter().copied().filter(|id| !failed(id)).collect()
    }

    fn queued(&self, pid: Pid) -> impl Iterator<Item = &Task> {
        self.tasks.values().filter(move |task| task.pid == pid && task.state == TaskState::Queued)
    }

    /// Higher goes first.
    fn place(&self, task: &Task) -> (bool, i64, Reverse<TaskId>) {
        let is_due = |until: TaskId| {
            let other = self.tasks.get(&until).map(|other| other.state);
            !matches!(other, Some(TaskState::Queued | TaskState::Running))
        };
        (task.paused_for.is_some_and(is_due), task.priority, Reverse(task.id))
    }
}
