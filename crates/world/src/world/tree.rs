//! The tree of processes: who is above whom, in which order a branch ends, and what its end takes with it.

use super::World;
use crate::event::{ProcAdopted, ProcExited, TaskFailed};
use crate::{
    EndReason, Event, ExecuteResult, Mode, Pid, Process, ProcessExit, Recipient, ReviewState, Route, RouteRefusal, TaskId, TaskState,
    TreeMessage, limits, route,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the kernel and the operator are called, here and in HiveKernel.
const RESERVED_NAMES: [&str; 3] = ["kernel", "king", "operator"];

/// What is remembered of a process that left the table and used a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepartedProcess {
    pub parent: Option<Pid>,
    pub name: String,
    pub user: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

impl World {
    /// Processes of the tree right below this one that are alive.
    pub fn live_children(&self, pid: Pid) -> impl Iterator<Item = &Process> {
        self.processes.values().filter(move |process| process.parent == Some(pid) && process.program.is_some() && process.state.alive())
    }

    /// Has it as many living children as it may have? Zombies do not count.
    pub fn has_all_children(&self, pid: Pid) -> bool {
        let bound = match self.processes.get(&pid).and_then(Process::limits) {
            Some(limits) => limits.children,
            None => Some(limits::KERNEL_CHILDREN_MAX),
        };
        bound.is_some_and(|bound| self.live_children(pid).count() as u64 >= bound)
    }

    /// The living processes of the tree from `pid` down, those without children first and `pid` last: the order in which a branch ends.
    pub fn branch(&self, pid: Pid) -> Vec<Pid> {
        let mut children: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
        for process in self.processes.values().filter(|process| process.program.is_some() && process.state.alive()) {
            children.entry(process.parent.unwrap_or(Pid::KERNEL)).or_default().push(process.pid);
        }
        let mut order = Vec::new();
        let mut open: Vec<Pid> = self.processes.get(&pid).filter(|process| process.state.alive()).map(|_| pid).into_iter().collect();
        while let Some(at) = open.pop() {
            order.push(at);
            open.extend(children.get(&at).into_iter().flatten());
        }
        order.reverse();
        order
    }

    /// Is it the kernel's name or the operator's, which nobody else ever has?
    pub fn is_name_reserved(name: &str) -> bool {
        RESERVED_NAMES.into_iter().any(|reserved| reserved.eq_ignore_ascii_case(name.trim()))
    }

    /// Does a name mean somebody to whoever writes it: the kernel, the operator, or a process that stands at the top of the tree?
    pub fn is_name_taken(&self, name: &str) -> bool {
        let is_meant = |other: &str| other.eq_ignore_ascii_case(name.trim());
        // One that came there because others ended is nobody's to send to by its name alone.
        let is_top = |process: &Process| {
            process.former_parents.is_empty() && process.parent.is_none_or(|parent| parent == Pid::KERNEL || parent == Pid::OPERATOR)
        };
        let mut known = self.processes.values().filter(|process| is_top(process) && process.state.alive());
        World::is_name_reserved(name) || known.any(|process| is_meant(&process.name))
    }

    /// Who takes the children of a process that ends.
    pub fn nearest_live_ancestor(&self, pid: Pid) -> Option<Pid> {
        self.ancestry(pid).skip(1).find(|process| process.state.alive()).map(|process| process.pid)
    }

    /// Is `pid` below `above`, or was it before others ended?
    pub fn descends_from(&self, pid: Pid, above: Pid) -> bool {
        self.lineage(pid).contains(&above)
    }

    /// Does somebody live who was below this process when it ended? Its account goes on for them.
    pub fn has_heirs(&self, pid: Pid) -> bool {
        self.left_by(pid).any(|process| process.state.alive())
    }

    /// Who was below this process when it ended, and is in the table.
    pub fn left_by(&self, pid: Pid) -> impl Iterator<Item = &Process> {
        self.processes.values().filter(move |process| process.former_parents.contains(&pid))
    }

    /// A process and all above it, with those that were and are gone, the nearest first.
    pub fn lineage(&self, pid: Pid) -> Vec<Pid> {
        let own = |process: &Process| std::iter::once(process.pid).chain(process.former_parents.iter().rev().copied()).collect::<Vec<_>>();
        self.ancestry(pid).flat_map(own).collect()
    }

    /// May `by` see contents of another: of its own user's processes, of those below it, and of all where it is the kernel or the operator?
    pub fn shares_user(&self, by: Pid, of: Pid) -> bool {
        let user = |pid: Pid| {
            let departed = || self.departed.get(&pid).map(|gone| gone.user.as_str());
            self.processes.get(&pid).map(|process| process.user.as_str()).or_else(departed)
        };
        by == Pid::KERNEL || by == Pid::OPERATOR || (user(by).is_some() && user(by) == user(of)) || self.descends_from(of, by)
    }

    /// Tasks that a process of the tree has not ended.
    pub fn open_tasks(&self, pid: Pid) -> impl Iterator<Item = &crate::Task> {
        self.tasks.values().filter(move |task| task.pid == pid && task.mode == Mode::Execute && !task.state.ended())
    }

    /// Tasks that it works on now.
    pub fn running_tasks(&self, pid: Pid) -> usize {
        self.open_tasks(pid).filter(|task| task.state == TaskState::Running).count()
    }

    /// What a person answered to a task that needs input; `None` while nobody has.
    pub fn task_input(&self, task: TaskId) -> Option<&str> {
        let TaskState::Parked { review } = self.tasks.get(&task)?.state else { return None };
        match &self.reviews.get(&review)?.state {
            ReviewState::Answered { answer: crate::Answer::Allow, reason, .. } => Some(reason.as_deref().unwrap_or_default()),
            _ => None,
        }
    }

    /// The way of a message out of a queue to one who reads it.
    pub fn queue_route(&self, message: &TreeMessage, reader: Pid) -> Result<Route, RouteRefusal> {
        let is_top = reader == Pid::KERNEL || reader == Pid::OPERATOR;
        // What one put there himself, and whatever the kernel and the operator look at, goes no way at all.
        let is_gone = !self.processes.get(&message.from).is_some_and(|sender| sender.state.alive());
        if message.from == reader || is_top || (is_gone && message.from_parent == Some(reader)) {
            return Ok(Route { relation: message.relation, seen_by: None });
        }
        // What one user's processes put there is not for another's. The kernel and the operator put there what is for all.
        let is_for_all = message.from == Pid::KERNEL || message.from == Pid::OPERATOR;
        let is_own = self.processes.get(&reader).is_some_and(|process| process.user == message.from_user);
        if !is_for_all && !is_own {
            return Err(RouteRefusal::OtherUser);
        }
        route(self, message.from, reader)
    }

    /// What a reader of a queue is to have next.
    pub fn next_in_queue(&self, queue: &str, reader: Pid, now_ms: i64) -> Option<&TreeMessage> {
        let queue = Recipient::Queue(queue.to_owned());
        self.mail.in_order(&queue).find(|message| !message.is_over(now_ms) && self.queue_route(message, reader).is_ok())
    }

    /// The records by which one process of the tree ends: its tasks fail, its children go to the nearest one above that is alive.
    pub fn ending(&self, pid: Pid, killed: bool, reason: &str, exit: ProcessExit) -> Vec<Event> {
        if !self.processes.get(&pid).is_some_and(|process| process.state.alive()) {
            return Vec::new();
        }
        let mut events = self.failing_tasks(pid, reason, &exit);
        if let Some(parent) = self.nearest_live_ancestor(pid) {
            let adopted = |child: &Process| ProcAdopted { pid: child.pid, task: None, parent, was: pid }.into();
            events.extend(self.live_children(pid).map(adopted));
        }
        events.push(ProcExited { pid, task: None, killed, reason: reason.to_owned(), exit: Some(Box::new(exit)) }.into());
        events
    }

    /// The records by which a whole branch ends, those without children first. What ended one above is told to those below as that.
    pub fn ending_branch(&self, pid: Pid, reason: &str, why: EndReason) -> Vec<Event> {
        let mut events = Vec::new();
        for of in self.branch(pid) {
            let reason_of = if of == pid { why } else { EndReason::ParentDied };
            let exit = ProcessExit { reason: reason_of, ..ProcessExit::default() };
            events.extend(self.failing_tasks(of, reason, &exit));
            events.push(ProcExited { pid: of, task: None, killed: true, reason: reason.to_owned(), exit: Some(Box::new(exit)) }.into());
        }
        events
    }

    fn failing_tasks(&self, pid: Pid, reason: &str, exit: &ProcessExit) -> Vec<Event> {
        let partial = exit.partial.as_deref();
        let failed = |task: &crate::Task| {
            let result = partial.map(|partial| Box::new(ExecuteResult { partial: true, ..partial.clone() }));
            TaskFailed { pid, task: Some(task.id), reason: format!("its process ended: {reason}"), result }.into()
        };
        // What only waited for a brain never begins; what it worked on was cancelled before.
        let waits = |task: &&crate::Task| task.pid == pid && task.mode != Mode::Execute && task.state == TaskState::Queued;
        let waiting =
            self.tasks.values().filter(|_| self.processes.get(&pid).is_some_and(|process| process.program.is_some())).filter(waits);
        self.open_tasks(pid).chain(waiting).map(failed).collect()
    }
}
