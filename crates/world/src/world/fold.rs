//! What then is: the half of every state machine that changes the world. [`super::check`] says what may follow.

mod money;

use super::{World, Zone};
use crate::event::Event;
use crate::{
    Ban, Base, CallId, Grant, Merge, MergeState, Moment, OpenCall, Pid, Process, ProcessState, Review, ReviewState, Task, TaskId,
    TaskState, Token, Used, What, Workspace, limits,
};

pub(super) fn apply(world: &mut World, event: &Event, at_ms: i64) {
    match event {
        Event::KernelStarted(_) => world.starts += 1,
        Event::KernelStopped(_) | Event::JournalResealed(_) | Event::BlobForgotten(_) => {}
        Event::JournalDoubted(e) => world.doubts.add(&e.what, &e.why, at_ms),
        Event::JournalAcknowledged(e) => world.doubts.acknowledge(e.upto, &e.by),
        Event::ZoneOpened(e) => {
            world.last.zone = world.last.zone.max(e.zone.0);
            let zone = Zone { id: e.zone, path: e.path.clone(), branch: e.branch.clone(), policy: None, policy_version: 0 };
            world.zones.insert(e.zone, zone);
        }
        Event::PolicyUpdated(e) => {
            if let Some(zone) = world.zones.get_mut(&e.zone) {
                zone.policy = Some(e.blob.clone());
                zone.policy_version = e.version;
            }
        }
        Event::ProcSpawned(e) => {
            world.last.pid = world.last.pid.max(e.pid.0);
            let process = Process {
                pid: e.pid,
                parent: e.parent,
                name: e.name.clone(),
                role: e.role.clone(),
                zone: e.zone,
                user: e.user.clone(),
                state: ProcessState::Idle,
                started_ms: at_ms,
                calls_made: 0,
                net: crate::NetUse::default(),
            };
            world.processes.insert(e.pid, process);
        }
        Event::ProcExited(e) => {
            set_process(world, e.pid, if e.killed { ProcessState::Dead } else { ProcessState::Zombie });
            money::release(world, e.pid);
        }
        Event::ProcPaused(e) => set_process(world, e.pid, ProcessState::Paused),
        Event::ProcResumed(e) => set_process(world, e.pid, ProcessState::Idle),
        Event::TaskQueued(e) => queue(world, e, at_ms),
        Event::TaskStarted(e) => {
            if let Some(task) = task_mut(world, e.task) {
                task.state = TaskState::Running;
                task.episodes = e.episode;
            }
            if world.processes.get(&e.pid).is_some_and(|p| p.state == ProcessState::Idle) {
                set_process(world, e.pid, ProcessState::Running);
            }
        }
        Event::TaskParked(e) => {
            if let Some(task) = task_mut(world, e.task) {
                task.state = TaskState::Parked { review: e.review };
            }
            rest(world, e.pid);
        }
        Event::TaskFinished(e) => end(world, e.pid, e.task, TaskState::Done, &e.summary, at_ms),
        Event::TaskFailed(e) => end(world, e.pid, e.task, TaskState::Failed, &e.reason, at_ms),
        Event::TaskCancelled(e) => end(world, e.pid, e.task, TaskState::Cancelled, &format!("cancelled by {}", e.by), at_ms),
        Event::WorkspaceOpened(e) => {
            if let Some(task) = task_mut(world, e.task) {
                task.workspace = Some(Workspace { head: e.head.clone(), since_us: e.since_us, base: None, paused: false });
            }
        }
        Event::WorkspaceBased(e) => {
            if let Some(workspace) = task_mut(world, e.task).and_then(|task| task.workspace.as_mut()) {
                workspace.base = Some(Base { head: e.head.clone(), blob: e.blob.clone(), until_us: e.until_us });
            }
        }
        Event::WorkspaceClosed(e) => {
            if let Some(task) = task_mut(world, e.task) {
                task.workspace = None;
            }
        }
        Event::WorkspacePaused(e) => set_paused(world, e.task, true),
        Event::WorkspaceResumed(e) => set_paused(world, e.task, false),
        Event::CallAdmitted(e) => admit(world, e, at_ms),
        Event::CallRefused(e) => {
            world.last.call = world.last.call.max(e.call.0);
            settled(world, e.task, e.pid, e.of);
            if e.of.is_none() {
                spend_calls(world, e.task, e.pid, 1);
            }
        }
        Event::CallFinished(e) => {
            let of = world.calls.remove(&e.call).and_then(|call| call.of);
            if let Some(task) = task_mut(world, e.task) {
                task.blob_bytes = task.blob_bytes.saturating_add(e.blob_bytes);
            }
            settled(world, e.task, e.pid, of);
        }
        Event::CallLost(e) => {
            money::lose(world, e.pid, e.call, at_ms);
            if let Some(call) = world.calls.remove(&e.call)
                && !call.read_only
                && let Some(task) = task_mut(world, call.task)
            {
                task.lost.push(call.bind);
            }
        }
        Event::ReviewAsked(e) => {
            world.last.review = world.last.review.max(e.review.0);
            let review = Review {
                id: e.review,
                pid: e.pid,
                task: e.task,
                zone: e.zone,
                tool: e.tool.clone(),
                input: e.input.clone(),
                whole: e.whole.clone(),
                bind: e.bind.clone(),
                like: e.like.clone(),
                reasons: e.reasons.clone(),
                rules: e.rules.clone(),
                asked_ms: at_ms,
                constraints: None,
                state: ReviewState::Open,
            };
            world.reviews.insert(e.review, review);
        }
        Event::ReviewAnswered(e) => {
            if let Some(review) = world.reviews.get_mut(&e.review) {
                review.state = ReviewState::Answered {
                    answer: e.answer,
                    by: e.by.clone(),
                    reason: e.reason.clone(),
                    alternative: e.alternative.clone(),
                };
            }
        }
        Event::GrantGiven(e) => {
            world.last.grant = world.last.grant.max(e.grant.0);
            let (scope, what, terms) = (e.scope.clone(), e.what.clone(), e.terms.clone());
            if let Some(review) = e.review.and_then(|review| world.reviews.get_mut(&review)) {
                review.constraints.clone_from(&terms.constraints);
            }
            world.grants.insert(e.grant, Grant { id: e.grant, pid: e.pid, task: e.task, scope, what, terms, used: Vec::new() });
        }
        Event::GrantRevoked(e) => drop(world.grants.remove(&e.grant)),
        Event::BanGiven(e) => {
            world.last.ban = world.last.ban.max(e.ban.0);
            let (scope, what, reason, alternative) = (e.scope.clone(), e.what.clone(), e.reason.clone(), e.alternative.clone());
            world.bans.insert(e.ban, Ban { id: e.ban, pid: e.pid, scope, what, reason, alternative });
        }
        Event::BanLifted(e) => drop(world.bans.remove(&e.ban)),
        Event::TokenIssued(e) => {
            world.last.token = world.last.token.max(e.token.0);
            // Those of another boot, past their end or used up are of no use to anyone.
            let now = Moment { boot: e.until.boot.clone(), boottime_ms: e.claims["issued_ms"].as_u64().unwrap_or(0) };
            world.tokens.retain(|_, token| !token.until.is_over(&now) && token.ops_left > 0);
            world.tokens.insert(e.token, Token { id: e.token, pid: e.pid, ops_left: e.ops, until: e.until.clone() });
        }
        Event::TokenRevoked(e) => drop(world.tokens.remove(&e.token)),
        Event::MergeProposed(e) => {
            world.last.merge = world.last.merge.max(e.merge.0);
            let Some(id) = e.task else { return };
            let merge = Merge {
                id: e.merge,
                task: id,
                digest: e.digest.clone(),
                frozen: e.frozen.clone(),
                state: MergeState::Proposed,
                sides: Default::default(),
                snapshot: None,
            };
            world.merges.insert(e.merge, merge);
            if let Some(task) = task_mut(world, e.task) {
                task.merge = Some(e.merge);
                task.summary = Some(e.summary.clone());
            }
        }
        Event::MergeStarted(e) => {
            set_merge(world, e.merge, MergeState::Applying);
            if let Some(merge) = world.merges.get_mut(&e.merge) {
                merge.snapshot.clone_from(&e.snapshot);
            }
            for id in &e.grants {
                if let Some(grant) = world.grants.get_mut(id) {
                    grant.use_once(Used { at_ms, up: e.up.clone() });
                }
            }
        }
        Event::MergeResolved(e) => {
            if let Some(merge) = world.merges.get_mut(&e.merge) {
                merge.sides.clone_from(&e.sides);
            }
        }
        Event::MergeUndoBegun(e) => set_merge(world, e.merge, MergeState::Undoing),
        Event::MergeUndone(e) => set_merge(world, e.merge, MergeState::Undone),
        Event::MergeTested(_) | Event::TaskTried(_) => {}
        Event::MergeFinished(e) => set_merge(world, e.merge, MergeState::Applied),
        Event::MergeRejected(e) => set_merge(world, e.merge, MergeState::Rejected),
        Event::RecordsDropped(e) if e.kind == "call.refused" => {
            if let Some(task) = task_mut(world, e.task).filter(|task| task.pid == e.pid) {
                task.calls_settled += e.count;
            }
            spend_calls(world, e.task, e.pid, e.count);
        }
        Event::BrainRemembered(e) => {
            if let Some(task) = task_mut(world, e.task) {
                if e.anew {
                    task.memory.clear();
                }
                task.memory.push(e.blob.clone());
            }
        }
        Event::CassetteStarted(e) => {
            if let Some(task) = task_mut(world, e.task) {
                task.cassette = Some(e.file.clone());
            }
        }
        Event::TaskTagged(e) => {
            if let Some(task) = task_mut(world, e.task) {
                task.tags.clone_from(&e.tags);
            }
        }
        Event::ReplayStarted(e) => {
            if let Some(task) = task_mut(world, e.task) {
                task.replays = Some(e.of);
            }
        }
        Event::ReplayFinished(e) => {
            if let Some(task) = task_mut(world, e.task) {
                task.compared = true;
            }
        }
        Event::NetClosed(e) => {
            let mut at = Some(e.pid);
            while let Some(process) = at.and_then(|pid| world.processes.get_mut(&pid)) {
                process.net.requests += 1;
                process.net.up = process.net.up.saturating_add(e.up);
                process.net.down = process.net.down.saturating_add(e.down);
                at = process.parent;
            }
        }
        Event::BudgetSet(e) => money::set(world, e),
        Event::BudgetGranted(e) => money::grant(world, e),
        Event::BudgetWarned(e) => drop(world.books.accounts.entry(e.pid).or_default().warned.insert(e.what.clone())),
        Event::BudgetLeased(e) => money::lease(world, e),
        Event::BudgetReturned(e) => money::give_back(world, e),
        Event::BudgetReconciled(e) => money::reconcile(world, e, at_ms),
        Event::BudgetLost(e) => money::lose_lease(world, e, at_ms),
        Event::ModelReserved(e) => money::reserve(world, e, at_ms),
        Event::ModelUsed(e) => money::settle(world, e, at_ms),
        Event::ModelHeld(e) => money::hold(world, e, at_ms),
        Event::ModelReleased(e) => money::release_held(world, e),
        // Who waits now only the kernel knows that has the request in its hands.
        Event::BudgetAsked(_) | Event::BrainSaid(_) | Event::RecordsDropped(_) | Event::CallObserved(_) | Event::CallRetried(_) => {}
    }
}

fn queue(world: &mut World, e: &crate::event::TaskQueued, at_ms: i64) {
    let Some(id) = e.task else { return };
    world.last.task = world.last.task.max(id.0);
    let task = Task {
        id,
        pid: e.pid,
        zone: e.zone,
        mode: e.mode,
        prompt: e.prompt.clone(),
        original: e.original.clone(),
        brain: e.brain.clone(),
        priority: e.priority,
        queued_ms: at_ms,
        ended_ms: None,
        state: TaskState::Queued,
        episodes: 0,
        calls_left: e.calls_max,
        calls_settled: 0,
        blob_bytes: 0,
        lost: Vec::new(),
        memory: Vec::new(),
        cassette: None,
        replays: None,
        compared: false,
        tags: Vec::new(),
        rooms: Default::default(),
        in_unknown_room: false,
        discard: e.discard,
        workspace: None,
        merge: None,
        summary: None,
    };
    world.tasks.insert(id, task);
}

fn admit(world: &mut World, e: &crate::event::CallAdmitted, at_ms: i64) {
    world.last.call = world.last.call.max(e.call.0);
    let open =
        OpenCall { pid: e.pid, task: e.task, tool: e.tool.clone(), hands: e.hands, bind: e.bind.clone(), of: e.of, read_only: e.read_only };
    world.calls.insert(e.call, open);
    if let Some(grant) = e.grant.and_then(|id| world.grants.get_mut(&id)) {
        grant.use_once(Used { at_ms, up: e.up.clone() });
    }
    if let Some(token) = e.token.and_then(|id| world.tokens.get_mut(&id)) {
        token.ops_left = token.ops_left.saturating_sub(1);
    }
    if let Some(task) = task_mut(world, e.task) {
        task.lost.retain(|bind| *bind != e.bind);
        task.calls_left = task.calls_left.map(|left| left.saturating_sub(1));
        match &e.rooms {
            Some(rooms) => task.rooms.extend(rooms.iter().cloned()),
            None => task.in_unknown_room = true,
        }
    }
    let mut at = Some(e.pid);
    while let Some(process) = at.and_then(|pid| world.processes.get_mut(&pid)) {
        process.calls_made += 1;
        at = process.parent;
    }
}

fn task_mut(world: &mut World, id: Option<TaskId>) -> Option<&mut Task> {
    id.and_then(|id| world.tasks.get_mut(&id))
}

/// Counts what the task's own process asked for: neither parts of a call nor what a person did in the task.
fn settled(world: &mut World, id: Option<TaskId>, pid: Pid, of: Option<CallId>) {
    if of.is_none()
        && let Some(task) = task_mut(world, id).filter(|task| task.pid == pid)
    {
        task.calls_settled += 1;
    }
}

/// A call that was refused counts against the most that a task may make, as one that ran does.
fn spend_calls(world: &mut World, id: Option<TaskId>, pid: Pid, count: u64) {
    if let Some(task) = task_mut(world, id).filter(|task| task.pid == pid) {
        task.calls_left = task.calls_left.map(|left| left.saturating_sub(count));
    }
}

fn set_process(world: &mut World, pid: Pid, state: ProcessState) {
    if let Some(process) = world.processes.get_mut(&pid) {
        process.state = state;
    }
}

/// A process without a running task is idle, unless it is paused or gone; and nothing is set aside for it, so that a crash costs nothing.
fn rest(world: &mut World, pid: Pid) {
    money::release(world, pid);
    if world.processes.get(&pid).is_some_and(|p| p.state == ProcessState::Running) {
        set_process(world, pid, ProcessState::Idle);
    }
}

fn end(world: &mut World, pid: Pid, id: Option<TaskId>, state: TaskState, summary: &str, at_ms: i64) {
    if let Some(task) = task_mut(world, id) {
        task.state = state;
        task.ended_ms = Some(at_ms);
        task.summary = Some(summary.to_owned());
    }
    for review in world.reviews.values_mut() {
        if review.task.is_some() && review.task == id && review.state == ReviewState::Open {
            review.state = ReviewState::Void;
        }
    }
    // A yes for one exact call of this task has nothing left to be used on; a wider one outlives the task that asked.
    world.grants.retain(|_, grant| grant.task.is_none() || grant.task != id || matches!(grant.what, What::Like { .. }));
    rest(world, pid);
    forget_oldest(world);
}

/// Ended tasks leave memory after a while; the journal keeps them.
fn forget_oldest(world: &mut World) {
    let ended = world.tasks.values().filter(|task| task.state.ended()).count();
    let excess = ended.saturating_sub(limits::TASKS_REMEMBERED);
    let old: Vec<TaskId> =
        world.tasks.values().filter(|task| task.state.ended() && task.workspace.is_none()).map(|task| task.id).take(excess).collect();
    for id in old {
        world.tasks.remove(&id);
        world.reviews.retain(|_, review| review.task != Some(id));
        world.merges.retain(|_, merge| merge.task != id);
    }
}

fn set_merge(world: &mut World, id: crate::MergeId, state: MergeState) {
    if let Some(merge) = world.merges.get_mut(&id) {
        merge.state = state;
    }
}

fn set_paused(world: &mut World, id: Option<TaskId>, paused: bool) {
    if let Some(workspace) = task_mut(world, id).and_then(|task| task.workspace.as_mut()) {
        workspace.paused = paused;
    }
}
