//! Ends of processes: kill, signals, wait, and how they leave the table.
//!
//! **Invariant.** A branch ends from its leaves up. A program is asked first, with the true reason; whatever it answers, it is gone when its
//! process is.

use crate::calls::{CallEffect, TreeCall};
use crate::contract;
use crate::live::LiveProgram;
use crate::mailroom::Arrival;
use crate::order::KillOrder;
use crate::view::unknown;
use crate::{Tree, TreeCaller, TreeFuture, send};
use gate::TreeRequest;
use hive::generated::agent::{ShutdownResponse, TaskResult};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use world::event::{ProcCollected, ProcPaused, ProcResumed, ProcSignalled, ProcSnapshotted};
use world::{
    Code, EndReason, Event, ExecuteResult, Fault, Pid, Process, ProcessExit, ProcessState, Recipient, Refusal, Stop, TreeSignal, World,
};

/// What a program gets where nobody says how long, as the contract has it.
const GRACE_DEFAULT: Duration = Duration::from_secs(5);
/// How long a program that has answered has to leave when the kernel stops.
const LEAVES_AT_STOP: Duration = Duration::from_millis(800);
/// Between TERM and KILL.
const TERM_MAX: Duration = Duration::from_secs(1);
/// The system takes this long at most to end what was killed.
const KILLED_MAX: Duration = Duration::from_secs(10);
/// The kind of the message that tells a parent what a child left.
const CHILD_EXITED: &str = "child_exited";
/// How long an end waits for somebody to take note of it.
pub(crate) const COLLECT_AFTER: Duration = Duration::from_secs(60);

impl Tree {
    /// Ends a process, or a whole branch. Those that ended come back, in the order in which they did.
    pub fn kill(&self, by: impl Into<TreeCaller>, order: KillOrder, only_children: bool) -> TreeFuture<'_, Result<Vec<Pid>, Stop>> {
        let TreeCaller { pid: by, asked } = by.into();
        Box::pin(async move {
            let KillOrder { target, recursive, reason, grace } = order;
            let input = json!({ "pid": target.0, "recursive": recursive, "reason": reason });
            let about = Some(TreeRequest::Direct { target, only_children });
            let call = TreeCall { by, tool: "proc.kill", input, about, read_only: false };
            let named = self.commit_asked(call, asked, |world, _, _| {
                let process = of_tree(world, target)?;
                let all = if recursive { world.branch(target) } else { vec![target] };
                let why = format!("killed by {}", ledger::name_of(world, by));
                let signalled = ProcSignalled { pid: process.pid, task: None, signal: TreeSignal::Term, by, reason: why };
                let output = json!({ "pids": all.iter().map(|pid| pid.0).collect::<Vec<_>>() });
                Ok(CallEffect { events: vec![signalled.into()], output, value: all })
            });
            let all = named.await.map_err(|stop| own_children(stop, only_children, "kill"))?;
            let grace = if grace.is_zero() { GRACE_DEFAULT } else { grace };
            // What was begun is finished also when the caller goes away.
            let me = self.me.upgrade().ok_or_else(crate::spawn::stopping)?;
            let (below, ended) = (all.clone(), all);
            let ending = tokio::spawn(async move {
                let (below, last) = (&below[..below.len() - 1], below[below.len() - 1]);
                me.end_all(below, EndReason::ParentDied, grace).await?;
                me.end_process(last, reason, grace, true).await
            });
            ending.await.map_err(|error| Fault::new(world::FaultKind::Bug, "the end of a process was lost", error))??;
            Ok(ended)
        })
    }

    /// Ends these, in this order of generations: those of one generation at the same time.
    pub(crate) async fn end_all(&self, pids: &[Pid], reason: EndReason, grace: Duration) -> Result<(), Fault> {
        let mut left: Vec<(usize, Pid)> = self.ledger.look(|world| pids.iter().map(|pid| (world.ancestry(*pid).count(), *pid)).collect());
        left.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
        for generation in left.chunk_by(|one, other| one.0 == other.0) {
            let ends = generation.iter().map(|(_, pid)| self.end_process(*pid, reason, grace, true));
            for ended in join_all(ends.collect()).await {
                ended?;
            }
        }
        Ok(())
    }

    /// Ends one process with its program, and records that.
    pub(crate) async fn end_process(&self, pid: Pid, reason: EndReason, grace: Duration, killed: bool) -> Result<(), Fault> {
        self.cancel_start(pid);
        self.cancel_brain_tasks(pid, words_of(reason)).await?;
        let answer = match self.live(pid) {
            Some(live) => Some(self.end_program(&live, reason, grace).await),
            None => None,
        };
        let snapshot = answer.as_ref().map(|answer| answer.state_snapshot.clone()).filter(|bytes| !bytes.is_empty());
        let partial = answer.and_then(|answer| answer.partial_result).map(|partial| Box::new(execute_result(partial, true)));
        let kept = snapshot.map(|bytes| Ok::<_, Fault>((self.ledger.keep(&bytes)?, bytes.len() as u64))).transpose()?;
        let words = words_of(reason);
        let exit = ProcessExit { reason, partial, ..ProcessExit::default() };
        let recorded = self.ledger.commit(|world, now_ms| {
            let ParentNotice { mut events, arrivals } = ParentNotice::of(world, pid, words, &exit, false, now_ms);
            if let (Some((blob, bytes)), true) = (kept, is_alive(world, pid)) {
                events.push(ProcSnapshotted { pid, task: None, blob, bytes }.into());
            }
            events.extend(world.ending(pid, killed, words, exit));
            (events, arrivals)
        })?;
        let arrivals = recorded.durable().await?;
        self.announce(&arrivals);
        // A start that was under way may have come to its end after we looked: nothing runs for a process that is over.
        if let Some(late) = self.live(pid) {
            self.end_program(&late, reason, Duration::ZERO).await;
        }
        self.forget(pid);
        Ok(())
    }

    /// Ends a program: asks it, then tells it, then kills it. What it answered comes back.
    pub(crate) async fn end_program(&self, live: &Arc<LiveProgram>, reason: EndReason, grace: Duration) -> ShutdownResponse {
        live.begin_end();
        if live.is_held() {
            live.control.release();
        }
        let mut answer = ShutdownResponse::default();
        let until = Instant::now() + grace;
        if !grace.is_zero() {
            // Whoever does not answer is told in the system's own words.
            if let Ok(Ok(said)) = tokio::time::timeout(grace, live.link.shutdown(contract::shutdown_reason(reason), grace)).await {
                answer = said;
                let left = until.saturating_duration_since(Instant::now());
                // Whoever stops the kernel waits for all of them.
                let left = if *self.stopping.borrow() { left.min(LEAVES_AT_STOP) } else { left };
                if live.end_within(left).await.is_some() {
                    return answer;
                }
            }
            live.control.terminate();
            if live.end_within(TERM_MAX).await.is_some() {
                return answer;
            }
        }
        live.control.kill();
        if live.end_within(KILLED_MAX).await.is_none() {
            world::log!("skep: the program of process {} was killed and did not end", live.pid);
        }
        answer
    }

    /// Takes a program that is over out of the list, with what was given to it.
    pub(crate) fn forget(&self, pid: Pid) {
        self.live.lock().remove(&pid);
        self.secrets.revoke(pid.0);
        self.ended.lock().entry(pid).or_insert_with(Instant::now);
    }

    /// Is a process over, or was it never there?
    pub fn has_ended(&self, pid: Pid) -> bool {
        !self.ledger.look(|world| is_alive(world, pid))
    }

    /// Sends a signal.
    pub async fn signal(&self, by: Pid, target: Pid, signal: TreeSignal, reason: &str) -> Result<(), Stop> {
        let input = json!({ "pid": target.0, "signal": signal, "reason": reason });
        let about = Some(TreeRequest::Direct { target, only_children: false });
        let call = TreeCall { by, tool: "proc.signal", input, about, read_only: false };
        let (who, reason) = (self.ledger.look(|world| ledger::name_of(world, by)), reason.to_owned());
        self.commit_call(call, |world, _, _| {
            let process = of_tree(world, target)?;
            let mut events: Vec<Event> = vec![ProcSignalled { pid: target, task: None, signal, by, reason: reason.clone() }.into()];
            match signal {
                TreeSignal::Stop if process.state == ProcessState::Paused => {
                    return Err(Refusal::new(Code::WrongState, format!("process {target} is stopped already")));
                }
                TreeSignal::Stop => events.push(ProcPaused { pid: target, task: None, reason: format!("stopped by {who}") }.into()),
                TreeSignal::Cont if process.state == ProcessState::Paused => {
                    events.push(ProcResumed { pid: target, task: None, by: who.clone() }.into());
                }
                _ => {}
            }
            Ok(CallEffect { events, output: json!({}), value: () })
        })
        .await?;
        self.carry_out(target, signal, &reason).await
    }

    async fn carry_out(&self, target: Pid, signal: TreeSignal, reason: &str) -> Result<(), Stop> {
        match (signal, self.live(target)) {
            (TreeSignal::Term, _) => self.end_process(target, EndReason::UserRequest, GRACE_DEFAULT, true).await?,
            (TreeSignal::Kill, _) => self.end_process(target, EndReason::UserRequest, Duration::ZERO, true).await?,
            (TreeSignal::Int, Some(_)) => self.interrupt_tasks(target, reason).await,
            (TreeSignal::Stop, Some(live)) => {
                live.control.hold().await.map_err(|error| Fault::new(world::FaultKind::Room, "it could not be stopped", error))?;
                live.set_held(true);
            }
            (TreeSignal::Cont, Some(live)) => {
                live.control.release();
                live.set_held(false);
                // What came while it was held still waits for it.
                self.push_to(target);
            }
            // What crashed and waits for a decision goes on by this word.
            (TreeSignal::Cont, None) => self.go_on(target),
            (TreeSignal::Int, None) => self.cancel_brain_tasks(target, reason).await?,
            (TreeSignal::Stop | TreeSignal::Chld, _) => {}
        }
        Ok(())
    }

    /// Waits for the end of a process and takes note of it.
    pub fn wait(&self, by: Pid, target: Pid, timeout: Option<Duration>, only_children: bool) -> TreeFuture<'_, Result<ProcessExit, Stop>> {
        Box::pin(async move {
            let about = Some(TreeRequest::Direct { target, only_children });
            let input = json!({ "pid": target.0, "timeout_ms": timeout.map(|time| time.as_millis() as u64) });
            let call = TreeCall { by, tool: "proc.wait", input, about, read_only: false };
            let admitted = self.commit_call(call, |world, _, _| {
                // One that has ended can still be waited for.
                let process = world.processes.get(&target).filter(|process| process.program.is_some());
                process.map(|_| CallEffect { events: Vec::new(), output: json!({}), value: () }).ok_or_else(|| no_agent(world, target))
            });
            admitted.await.map_err(|stop| own_children(stop, only_children, "wait for"))?;
            let over = self.until(|world| match world.processes.get(&target) {
                Some(process) if process.state.alive() => None,
                // `None` was taken note of by somebody else meanwhile.
                other => Some(other.map(|process| process.exit.as_deref().cloned().unwrap_or_default())),
            });
            let exit = match timeout {
                None => over.await,
                Some(time) => tokio::time::timeout(time, over).await.map_err(|_| {
                    let seconds = time.as_secs_f64();
                    Refusal::new(Code::WrongState, format!("timeout: process {target} has not ended within {seconds} s"))
                })?,
            };
            let exit = exit.ok_or_else(|| unknown(target))?;
            self.collect(by, &[target]).await?;
            Ok(exit)
        })
    }

    /// Takes note of ends: those processes leave the table, unless others still depend on them.
    pub(crate) async fn collect(&self, by: Pid, pids: &[Pid]) -> Result<(), Fault> {
        let collected = self.ledger.commit(|world, _| {
            let mut gone: Vec<Pid> = Vec::new();
            let mut originals = Vec::new();
            for process in pids.iter().filter_map(|pid| world.processes.get(pid)) {
                if is_collectable(world, process, &gone) {
                    gone.push(process.pid);
                    originals.extend(process.program.as_ref().and_then(|program| program.original.clone()));
                }
            }
            let events = gone.iter().map(|pid| ProcCollected { pid: *pid, task: None, by }.into()).collect();
            (events, (gone, originals))
        })?;
        let (gone, originals) = collected.durable().await?;
        for pid in gone {
            self.ended.lock().remove(&pid);
            self.remove_files(pid).await;
        }
        originals.into_iter().try_for_each(|name| self.ledger.delete_original(name))
    }

    /// Removes what a process that has left the table kept.
    pub(crate) async fn remove_files(&self, pid: Pid) {
        let folder = self.folder_of(pid);
        let removed = tokio::task::spawn_blocking(move || if folder.exists() { sandbox::remove(&folder) } else { Ok(()) }).await;
        if let Ok(Err(error)) = removed {
            world::log!("skep: the files of process {pid} were not removed: {error}");
        }
    }

    /// Takes note of what ended a while ago and nobody waited for.
    pub(crate) async fn collect_old(&self) -> Result<(), Fault> {
        let mut old: Vec<Pid> = self.ended.lock().iter().filter(|(_, at)| at.elapsed() >= COLLECT_AFTER).map(|(pid, _)| *pid).collect();
        // Children are younger than their parents, so theirs is the higher number.
        old.sort_by_key(|pid| std::cmp::Reverse(*pid));
        if old.is_empty() { Ok(()) } else { self.collect(Pid::KERNEL, &old).await }
    }
}

fn is_collectable(world: &World, process: &Process, gone: &[Pid]) -> bool {
    let pid = process.pid;
    let has_children = world.processes.values().any(|child| child.parent == Some(pid) && !gone.contains(&child.pid));
    let is_open = world.calls.values().any(|call| call.pid == pid) || world.books.reserved.values().any(|held| held.pid == pid);
    // Those whom it left live on its account.
    let has_heirs = world.left_by(pid).any(|heir| !gone.contains(&heir.pid));
    process.program.is_some() && !process.state.alive() && !has_children && !is_open && !has_heirs
}

pub(crate) fn is_alive(world: &World, pid: Pid) -> bool {
    world.processes.get(&pid).is_some_and(|process| process.state.alive())
}

/// What a parent of the tree is told of an end.
#[derive(Default)]
pub(crate) struct ParentNotice {
    pub events: Vec<Event>,
    pub arrivals: Vec<Arrival>,
}

impl ParentNotice {
    /// The signal that a child ended. With something of its work, or after a crash, a message as well: nobody else has it.
    pub fn of(world: &World, pid: Pid, reason: &str, exit: &ProcessExit, is_crash: bool, now_ms: i64) -> ParentNotice {
        let Some(process) = world.processes.get(&pid).filter(|process| process.state.alive()) else { return ParentNotice::default() };
        let parent = process.parent.and_then(|parent| world.processes.get(&parent));
        let Some(parent) = parent.filter(|parent| parent.program.is_some() && parent.state.alive()) else { return ParentNotice::default() };
        let told = format!("{} ended: {reason}", process.name);
        let signal = ProcSignalled { pid: parent.pid, task: None, signal: TreeSignal::Chld, by: pid, reason: told };
        let mut notice = ParentNotice { events: vec![signal.into()], arrivals: Vec::new() };
        let is_pushed = crate::mailroom::is_pushed(world, &Recipient::Process(parent.pid));
        if is_pushed && (is_crash || exit.partial.is_some()) {
            let body = json!({
                "pid": pid.0, "name": process.name, "reason": reason, "exit_code": exit.code, "output": exit.output,
                "partial_result": exit.partial.as_ref().map(|partial| json!({ "exit_code": partial.exit_code, "output": partial.output })),
            });
            if let Some((sent, arrival)) = send::notice(world, parent.pid, CHILD_EXITED, body.to_string().into_bytes(), now_ms) {
                notice.events.push(sent.into());
                notice.arrivals.push(arrival);
            }
        }
        notice
    }
}

/// Why nothing is asked of a process that is not of the tree.
fn no_agent(world: &World, pid: Pid) -> Refusal {
    match world.processes.get(&pid) {
        Some(process) => Refusal::new(Code::WrongState, format!("process {pid} ({}) is no agent", process.name)),
        None => unknown(pid),
    }
}

/// A process of the tree that lives.
pub(crate) fn of_tree(world: &World, pid: Pid) -> Result<&Process, Refusal> {
    let process = world.processes.get(&pid).ok_or_else(|| unknown(pid))?;
    if process.program.is_none() {
        return Err(no_agent(world, pid));
    }
    if process.state.alive() { Ok(process) } else { Err(Refusal::new(Code::WrongState, format!("process {pid} has ended"))) }
}

/// The contract's own words for what a process asks of one that is not its child.
pub(crate) fn own_children(stop: Stop, only_children: bool, verb: &str) -> Stop {
    match stop {
        Stop::Refused(refusal) if only_children && refusal.code == Code::Denied => {
            Stop::Refused(Refusal { reason: format!("can only {verb} own children"), ..refusal })
        }
        other => other,
    }
}

fn words_of(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Normal => "it was ended",
        EndReason::ParentDied => "its parent ended",
        EndReason::BudgetExceeded => "its budget is used up",
        EndReason::Migration => "it moves to another machine",
        EndReason::UserRequest => "it was ended at a person's word",
    }
}

pub(crate) fn execute_result(result: TaskResult, partial: bool) -> ExecuteResult {
    ExecuteResult {
        exit_code: result.exit_code,
        output: result.output,
        blob: None,
        artifacts: result.artifacts.into_iter().collect(),
        metadata: result.metadata.into_iter().collect(),
        partial,
    }
}

/// Waits for all of them at the same time.
async fn join_all<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut pending: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<T>> = pending.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut is_all = true;
        for (future, slot) in pending.iter_mut().zip(&mut done).filter(|(_, slot)| slot.is_none()) {
            match future.as_mut().poll(context) {
                std::task::Poll::Ready(value) => *slot = Some(value),
                std::task::Poll::Pending => is_all = false,
            }
        }
        if is_all { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}
