//! What may follow: the half of every state machine that says no.

use super::World;
use crate::budget::Cap;
use crate::event::Event;
use crate::{CallId, MergeState, Need, Pid, ProcessState, ReviewState, Short, Task, TaskId, TaskState};

type Verdict = Result<(), String>;

/// A workspace that is, or is not, paused.
fn pausable(world: &World, id: Option<TaskId>, paused: bool) -> Verdict {
    let task = task(world, id)?;
    let fits = task.workspace.as_ref().is_some_and(|workspace| workspace.paused == paused);
    ensure(fits, || format!("the workspace of {} cannot change so", task.id))
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(why()) }
}

pub(super) fn check(world: &World, event: &Event) -> Verdict {
    match event {
        Event::ProcSpawned(e) => {
            ensure(e.pid == world.next_pid(), || format!("pid {} is not the next", e.pid))?;
            match e.parent {
                None => ensure(e.pid == Pid::KERNEL, || "only the kernel has no parent".into()),
                Some(parent) => alive(world, parent),
            }
        }
        Event::KernelStarted(_) | Event::KernelStopped(_) | Event::JournalResealed(_) | Event::JournalDoubted(_) => Ok(()),
        Event::JournalAcknowledged(e) => ensure(world.doubts.covers(e.upto), || format!("there is no doubt {}", e.upto)),
        Event::BlobForgotten(e) => ensure(!e.blobs.is_empty(), || "no blob is named".into()),
        Event::ZoneOpened(e) => {
            ensure(e.zone == world.next_zone(), || format!("{} is not the next", e.zone))?;
            ensure(world.zone_at(&e.path).is_none(), || format!("`{}` is a zone already", e.path))
        }
        Event::PolicyUpdated(e) => {
            let zone = world.zones.get(&e.zone).ok_or_else(|| format!("no {}", e.zone))?;
            ensure(e.version == zone.policy_version + 1, || format!("version {} does not follow {}", e.version, zone.policy_version))
        }
        Event::ProcExited(e) => alive(world, e.pid),
        Event::ProcPaused(e) => alive(world, e.pid),
        Event::ProcResumed(e) => {
            let state = world.processes.get(&e.pid).map(|p| p.state);
            ensure(state == Some(ProcessState::Paused), || format!("process {} is not paused", e.pid))
        }
        Event::TaskQueued(e) => {
            alive(world, e.pid)?;
            ensure(e.task == Some(world.next_task()), || "not the next task id".into())?;
            ensure(world.zones.contains_key(&e.zone), || format!("no {}", e.zone))
        }
        Event::TaskStarted(e) => {
            let task = task(world, e.task)?;
            ensure(!task.state.ended(), || format!("{} has ended", task.id))
        }
        Event::TaskParked(e) => {
            ensure(world.reviews.contains_key(&e.review), || format!("no {}", e.review))?;
            in_state(world, e.task, "running", |state| state == TaskState::Running)
        }
        Event::TaskFinished(e) => unended(world, e.task),
        Event::TaskFailed(e) => unended(world, e.task),
        Event::TaskCancelled(e) => unended(world, e.task),
        Event::WorkspaceOpened(e) => {
            let task = task(world, e.task)?;
            ensure(task.workspace.is_none(), || format!("{} has a workspace", task.id))
        }
        Event::WorkspaceBased(e) => {
            let task = task(world, e.task)?;
            let unbased = task.workspace.as_ref().is_some_and(|workspace| workspace.base.is_none());
            ensure(unbased, || format!("{} has no workspace without a base", task.id))
        }
        Event::WorkspaceClosed(e) => {
            let task = task(world, e.task)?;
            ensure(task.workspace.is_some(), || format!("{} has no workspace", task.id))
        }
        Event::WorkspacePaused(e) => pausable(world, e.task, false),
        Event::WorkspaceResumed(e) => pausable(world, e.task, true),
        Event::CallAdmitted(e) => {
            alive(world, e.pid)?;
            ensure(e.call == world.next_call(), || format!("{} is not the next", e.call))?;
            if e.task.is_some() {
                unended(world, e.task)?;
            }
            ensure(world.calls_left(e.task) != Some(0), || "the budget is used up".into())?;
            if let Some(token) = e.token {
                ensure(world.tokens.get(&token).is_some_and(|t| t.ops_left > 0), || format!("{token} is used up"))?;
            }
            match e.grant {
                Some(grant) => {
                    ensure(world.grants.get(&grant).is_some_and(|g| g.terms.uses_left != Some(0)), || format!("{grant} is used up"))
                }
                None => Ok(()),
            }
        }
        Event::CallRefused(e) => ensure(e.call == world.next_call(), || format!("{} is not the next", e.call)),
        Event::CallFinished(e) => ensure(world.calls.contains_key(&e.call), || format!("{} is not open", e.call)),
        Event::CallLost(e) => ensure(world.calls.contains_key(&e.call), || format!("{} is not open", e.call)),
        Event::ReviewAsked(e) => {
            ensure(e.review == world.next_review(), || format!("{} is not the next", e.review))?;
            ensure(world.open_review(e.pid, &e.bind).is_none(), || "the same question is open".into())
        }
        Event::ReviewAnswered(e) => {
            let state = world.reviews.get(&e.review).map(|r| &r.state);
            ensure(state == Some(&ReviewState::Open), || format!("{} is not open", e.review))
        }
        Event::GrantGiven(e) => ensure(e.grant == world.next_grant(), || format!("{} is not the next", e.grant)),
        Event::GrantRevoked(e) => ensure(world.grants.contains_key(&e.grant), || format!("no {}", e.grant)),
        Event::BanGiven(e) => ensure(e.ban == world.next_ban(), || format!("{} is not the next", e.ban)),
        Event::BanLifted(e) => ensure(world.bans.contains_key(&e.ban), || format!("no {}", e.ban)),
        Event::TokenIssued(e) => ensure(e.token == world.next_token(), || format!("{} is not the next", e.token)),
        Event::TokenRevoked(e) => ensure(world.tokens.contains_key(&e.token), || format!("no {}", e.token)),
        Event::MergeProposed(e) => {
            task(world, e.task)?;
            ensure(e.merge == world.next_merge(), || format!("{} is not the next", e.merge))
        }
        Event::MergeStarted(e) => {
            unended(world, e.task)?;
            merge_in(world, e.merge, MergeState::Proposed)?;
            for id in &e.grants {
                let uses = e.grants.iter().filter(|other| *other == id).count();
                let left = world.grants.get(id).ok_or_else(|| format!("no {id}"))?.terms.uses_left;
                ensure(left.is_none_or(|left| left as usize >= uses), || format!("{id} is used up"))?;
            }
            Ok(())
        }
        Event::MergeFinished(e) => merge_in(world, e.merge, MergeState::Applying),
        Event::MergeRejected(e) => merge_in(world, e.merge, MergeState::Proposed),
        Event::BrainRemembered(e) => task(world, e.task).map(drop),
        Event::CassetteStarted(e) if e.task.is_none() => alive(world, e.pid),
        Event::CassetteStarted(e) => task(world, e.task).map(drop),
        Event::TaskTagged(e) => in_state(world, e.task, "queued", |state| state == TaskState::Queued),
        Event::ReplayStarted(e) => {
            task(world, Some(e.of))?;
            in_state(world, e.task, "queued", |state| state == TaskState::Queued)
        }
        Event::ReplayFinished(e) => {
            let task = task(world, e.task)?;
            ensure(task.replays == Some(e.of), || format!("{} replays something else", task.id))?;
            ensure(!task.compared, || format!("{} was compared already", task.id))
        }
        Event::CallRetried(e) => ensure(world.calls.contains_key(&e.call), || format!("{} is not open", e.call)),
        Event::MergeResolved(e) => merge_in(world, e.merge, MergeState::Proposed),
        Event::MergeTested(e) => merge_in(world, e.merge, MergeState::Proposed),
        Event::TaskTried(e) => task(world, e.task).map(drop),
        Event::MergeUndoBegun(e) => merge_in(world, e.merge, MergeState::Applied),
        Event::MergeUndone(e) => merge_in(world, e.merge, MergeState::Undoing),
        Event::NetClosed(e) => ensure(world.calls.contains_key(&e.call), || format!("{} is not open", e.call)),
        Event::BudgetSet(e) => alive(world, e.pid),
        Event::BudgetGranted(e) => {
            let account = world.books.accounts.get(&e.pid);
            ensure(account.is_some_and(|account| account.budget.is_some()), || format!("process {} has no budget", e.pid))
        }
        Event::BudgetWarned(e) => ensure(world.processes.contains_key(&e.pid), || format!("no process {}", e.pid)),
        Event::BudgetAsked(e) => ensure(world.processes.contains_key(&e.of), || format!("no process {}", e.of)),
        Event::ModelReserved(e) => {
            ensure(world.calls.contains_key(&e.call), || format!("{} is not open", e.call))?;
            ensure(!world.books.reserved.contains_key(&e.call), || format!("{} has a reservation", e.call))?;
            if let Some(id) = e.lease {
                let lease = world.lease(e.pid, &e.tier).filter(|lease| lease.id == id);
                let enough = lease.is_some_and(|lease| lease.tokens >= e.tokens && lease.micros >= e.micros);
                return ensure(enough, || format!("the lease {id} does not hold it"));
            }
            let need = Need { tier: &e.tier, tokens: e.tokens, context: 0, micros: e.micros };
            match world.short(e.pid, &need, world.now_ms) {
                Some(Short { what, pid, .. }) if what != Cap::Rate => Err(format!("the {what} of process {pid} would be passed")),
                _ => Ok(()),
            }
        }
        Event::BudgetLeased(e) => {
            alive(world, e.pid)?;
            let other = world.lease(e.pid, &e.tier).filter(|lease| lease.id != e.lease);
            ensure(other.is_none(), || format!("process {} has another lease", e.pid))?;
            let accounts = world.line(e.pid).filter_map(|process| world.books.accounts.get(&process.pid));
            let fits = |(tokens, micros): (u64, u64)| e.tokens <= tokens && e.micros <= micros;
            ensure(accounts.map(|account| account.left(&e.tier)).all(fits), || format!("there is less left than {} needs", e.lease))
        }
        Event::BudgetReconciled(e) => {
            let (guessed, held) = (world.books.guessed(e.pid), world.books.held_of(e.pid));
            let open = |tier: &String| guessed.of(tier) > 0 || held.of(tier) > 0;
            let known = e.tokens.keys().all(open) && (e.micros.is_none() || guessed.micros > 0 || held.micros > 0);
            ensure(known, || format!("nothing like that of process {} is a guess", e.pid))
        }
        Event::BudgetReturned(e) => lease(world, e.pid, e.lease, (e.tokens, e.micros)),
        Event::BudgetLost(e) => lease(world, e.pid, e.lease, (e.tokens, e.micros)),
        Event::ModelUsed(e) => {
            let reserved = world.books.reserved.get(&e.call).ok_or_else(|| format!("{} has no reservation", e.call))?;
            let tokens = reserved.tokens.saturating_sub(e.charged_tokens);
            let micros = reserved.micros.saturating_sub(e.charged_micros);
            ensure(e.held_tokens <= tokens && e.held_micros <= micros, || format!("{} holds more than was reserved", e.call))
        }
        Event::ModelHeld(e) => {
            let enough = match e.lease {
                None => world.books.reserved.get(&e.call).map(|reserved| (reserved.tokens, reserved.micros)),
                Some(id) if e.call >= world.next_call() => {
                    world.leases().find(|(pid, lease)| *pid == e.pid && lease.id == id).map(|(_, lease)| (lease.tokens, lease.micros))
                }
                Some(_) => return Err(format!("{} is on record", e.call)),
            };
            let fits = enough.is_some_and(|(tokens, micros)| e.tokens <= tokens && e.micros <= micros);
            ensure(fits, || format!("so much was never set aside for {}", e.call))
        }
        Event::ModelReleased(e) => {
            let reserved = world.books.reserved.get(&e.call).map(|reserved| (reserved.tokens, reserved.micros));
            let held = world.books.held.get(&e.call).map(|held| (held.tokens, held.micros));
            let (tokens, micros) = reserved.or(held).ok_or_else(|| format!("nothing is held for {}", e.call))?;
            ensure(e.tokens <= tokens && e.micros <= micros, || format!("less than that is held for {}", e.call))
        }
        Event::BrainSaid(_) | Event::RecordsDropped(_) | Event::CallObserved(_) => Ok(()),
    }
}

fn lease(world: &World, pid: Pid, id: CallId, left: (u64, u64)) -> Verdict {
    let known = world.leases().find(|(of, lease)| *of == pid && lease.id == id).map(|(_, lease)| (lease.tokens, lease.micros));
    ensure(known == Some(left), || format!("the lease {id} of process {pid} has {known:?} left, not {left:?}"))
}

fn alive(world: &World, pid: Pid) -> Verdict {
    ensure(world.processes.get(&pid).is_some_and(|p| p.state.alive()), || format!("process {pid} is not alive"))
}

fn task(world: &World, id: Option<TaskId>) -> Result<&Task, String> {
    let id = id.ok_or("no task is named")?;
    world.tasks.get(&id).ok_or_else(|| format!("no {id}"))
}

fn in_state(world: &World, id: Option<TaskId>, wanted: &str, is: impl Fn(TaskState) -> bool) -> Verdict {
    let task = task(world, id)?;
    ensure(is(task.state), || format!("{} is {}, not {wanted}", task.id, task.state.as_str()))
}

fn unended(world: &World, id: Option<TaskId>) -> Verdict {
    in_state(world, id, "unended", |state| !state.ended())
}

fn merge_in(world: &World, id: crate::MergeId, wanted: MergeState) -> Verdict {
    ensure(world.merges.get(&id).is_some_and(|m| m.state == wanted), || format!("{id} is not {wanted:?}"))
}
