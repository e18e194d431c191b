//! Supervision: heartbeats, crashes, restarts, and what is decided by others.
//!
//! **Invariant.** A program that ended is on record before anything follows from it, and one process is never started twice at once. A daemon
//! that crashes again and again is given up and told about, not started for ever.

use crate::Tree;
use crate::contract;
use crate::end::{ParentNotice, is_alive};
use crate::live::{LiveProgram, ProgramEnd};
use crate::mailroom::Arrival;
use hive::generated::agent::{AgentState, HeartbeatResponse};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use world::event::{ProcCrashed, ProcReported, ProcRestarting, ProcSlept, ProcWoken, TaskFailed};
use world::{
    EndReason, Event, Fault, Pid, Process, ProcessExit, ProcessRole, ProcessState, Program, ProgramRun, Supervision, TaskState, World,
};

/// How often a program is asked how it is, how long it has for its answer, and how often in a row it may miss.
#[derive(Clone, Copy, Debug)]
pub struct HeartbeatTerms {
    pub every: Duration,
    pub within: Duration,
    pub misses_max: u32,
}

impl Default for HeartbeatTerms {
    fn default() -> HeartbeatTerms {
        HeartbeatTerms { every: Duration::from_secs(10), within: Duration::from_secs(5), misses_max: 6 }
    }
}

/// More crashes than this within the time, and a daemon is given up.
const CRASHES_MAX: usize = 5;
const CRASHES_WITHIN_MS: i64 = 60_000;
/// The first delay of a restart; it doubles with each that follows soon.
const RESTART_AFTER: Duration = Duration::from_millis(250);
const RESTART_AFTER_MAX: Duration = Duration::from_secs(30);
/// A task's program has this long to end itself when its task is done.
const TASK_LEAVES_WITHIN: Duration = Duration::from_secs(3);
/// How often ends that nobody waited for are looked at.
const MAID_EVERY: Duration = Duration::from_secs(5);

/// What is to be done about a program that ended by itself.
enum CrashSequel {
    /// Its process is over.
    Ended,
    Restart,
    /// It is paused: whoever lets it go on has it started.
    AwaitResume,
    /// Somebody above decides.
    Decide(String),
}

impl Tree {
    /// Watches a program until it ends.
    pub(crate) fn attend(self: &Arc<Self>, live: &Arc<LiveProgram>) {
        self.push_to(live.pid);
        let (tree, live) = (Arc::clone(self), Arc::clone(live));
        tokio::spawn(async move {
            let end = tokio::select! {
                end = live.end() => end,
                () = tree.ask_how_it_is(&live) => {
                    live.output.stderr.add(b"\nit did not answer its heartbeats, and was ended\n");
                    live.control.kill();
                    live.end().await
                }
            };
            if live.is_ending() || *tree.stopping.borrow() {
                return;
            }
            if let Err(fault) = tree.ended_by_itself(&live, end).await {
                world::log!("skep: the end of process {} was not recorded: {fault}", live.pid);
            }
        });
    }

    /// Comes back when a program does not answer any more.
    async fn ask_how_it_is(&self, live: &LiveProgram) {
        let terms = *self.heartbeats.lock();
        let (mut misses, mut last) = (0, None);
        loop {
            tokio::time::sleep(terms.every).await;
            if live.is_held() {
                misses = 0;
                continue;
            }
            match live.link.heartbeat(UNIX_EPOCH.elapsed().unwrap_or_default().as_secs()).await {
                Ok(said) => {
                    misses = 0;
                    if last.as_ref() != Some(&said) {
                        self.report(live.pid, &said);
                        last = Some(said);
                    }
                }
                // An agent that has no heartbeat is there all the same.
                Err(error) if error.code() == Some(hive::tonic::Code::Unimplemented) => misses = 0,
                Err(_) => misses += 1,
            }
            if misses >= terms.misses_max {
                return;
            }
        }
    }

    fn report(&self, pid: Pid, said: &HeartbeatResponse) {
        let state = AgentState::try_from(said.state).ok().map(contract::process_state);
        // A claim: nothing but a number between none and all is one.
        let context = Some(said.context_usage_percent).filter(|percent| (0.0..=100.0).contains(percent));
        let context_permille = context.map(|percent| (percent * 10.0).round() as u32);
        let tokens = Some(said.tokens_consumed).filter(|tokens| *tokens > 0);
        let reported = ProcReported { pid, task: None, state, context_permille, tokens };
        if !self.ledger.look(|world| is_alive(world, pid)) {
            return;
        }
        match self.ledger.progress(pid, None, reported) {
            Ok(()) => self.end_used_up(pid),
            Err(fault) => world::log!("skep: what process {pid} says of itself was not recorded: {fault}"),
        }
    }

    async fn ended_by_itself(self: &Arc<Self>, live: &Arc<LiveProgram>, end: ProgramEnd) -> Result<(), Fault> {
        let pid = live.pid;
        self.live.lock().remove(&pid);
        self.secrets.revoke(pid.0);
        let error = live.output.last_lines();
        let pending = self.ledger.commit(|world, now_ms| {
            let (events, sequel, arrivals) = sequel(world, live, end, &error, now_ms);
            (events, (sequel, arrivals))
        })?;
        let (sequel, arrivals) = pending.durable().await?;
        self.announce(&arrivals);
        match sequel {
            CrashSequel::Ended => {
                self.ended.lock().insert(pid, std::time::Instant::now());
                Ok(())
            }
            CrashSequel::Restart => self.restart(pid, "supervisor").await,
            CrashSequel::AwaitResume => Ok(()),
            CrashSequel::Decide(issue) => {
                self.ask_what_to_do(pid, issue);
                Ok(())
            }
        }
    }

    /// Starts a program again, after a delay that grows, as often as its intensity allows.
    pub(crate) async fn restart(self: &Arc<Self>, pid: Pid, by: &str) -> Result<(), Fault> {
        let mut stopping = self.stopping.subscribe();
        loop {
            let now_ms = i64::try_from(UNIX_EPOCH.elapsed().unwrap_or_default().as_millis()).unwrap_or(i64::MAX);
            let known = self.ledger.look(|world| {
                let process = world.processes.get(&pid).filter(|process| process.state.alive())?;
                let run = process.run.as_deref()?;
                let recent = run.crashes_ms.iter().filter(|at| now_ms - **at < CRASHES_WITHIN_MS).count();
                let ran_well = run.crashes_ms.last().is_some_and(|at| at - run.started_ms > CRASHES_WITHIN_MS);
                Some((if ran_well { 0 } else { run.attempt }, recent, run.last_error.clone().unwrap_or_default()))
            });
            let Some((attempts, recent, error)) = known else { return Ok(()) };
            if recent > CRASHES_MAX || attempts as usize >= 2 * CRASHES_MAX {
                return self.give_up(pid, recent.max(attempts as usize), &error).await;
            }
            let attempt = attempts + 1;
            let delay = RESTART_AFTER.saturating_mul(1 << (attempt - 1).min(16)).min(RESTART_AFTER_MAX);
            let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            let restarting = ProcRestarting { pid, task: None, attempt, delay_ms, by: by.to_owned() };
            let recorded = self.ledger.commit(|world, _| {
                let is_paused = |process: &Process| process.state == ProcessState::Paused;
                let may = world.processes.get(&pid).is_some_and(|process| process.state.alive() && is_down(process) && !is_paused(process));
                (if may { vec![Event::from(restarting)] } else { Vec::new() }, may)
            })?;
            if !recorded.durable().await? {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                _ = stopping.wait_for(|is_stopping| *is_stopping) => return Ok(()),
            }
            match self.start(pid).await {
                Ok(_) => {
                    self.take_up_tasks(pid);
                    return Ok(());
                }
                Err(_) if *self.stopping.borrow() => return Ok(()),
                Err(fault) => world::log!("skep: process {pid} was not started again: {fault}"),
            }
        }
    }

    async fn give_up(&self, pid: Pid, times: usize, error: &str) -> Result<(), Fault> {
        let reason = format!("it crashed {times} times in a row, and is not started again");
        self.tell_above(pid, &format!("{reason}: {error}"));
        self.end_gone(pid, &reason, ProcessExit { output: error.to_owned(), code: Some(1), ..ProcessExit::default() }).await
    }

    /// Records the end of a process whose program is gone.
    pub(crate) async fn end_gone(&self, pid: Pid, reason: &str, exit: ProcessExit) -> Result<(), Fault> {
        let ended = self.ledger.commit(|world, now_ms| {
            let ParentNotice { mut events, arrivals } = ParentNotice::of(world, pid, reason, &exit, true, now_ms);
            events.extend(world.ending(pid, false, reason, exit));
            (events, arrivals)
        })?;
        let arrivals = ended.durable().await?;
        self.announce(&arrivals);
        self.forget(pid);
        Ok(())
    }

    /// Somebody said that a process goes on whose program is down.
    pub(crate) fn go_on(&self, pid: Pid) {
        let is_waiting =
            self.ledger.look(|world| world.processes.get(&pid).is_some_and(|process| process.state.alive() && is_down(process)));
        let Some(me) = self.me.upgrade().filter(|_| is_waiting) else { return };
        tokio::spawn(async move {
            if let Err(fault) = me.restart(pid, "operator").await {
                world::log!("skep: process {pid} was not started again: {fault}");
            }
        });
    }

    /// After a run: who has a schedule or is an architect sleeps, and a task is over.
    pub(crate) async fn rest(self: &Arc<Self>, pid: Pid) -> Result<(), Fault> {
        let found = self.ledger.look(|world| {
            let process = world.processes.get(&pid).filter(|process| process.state == ProcessState::Idle)?;
            if world.open_tasks(pid).next().is_some() {
                return None;
            }
            process.program.as_deref().cloned()
        });
        let Some(Program { role, schedule, .. }) = found else { return Ok(()) };
        match (role, schedule) {
            (ProcessRole::Task, None) => {
                let (me, live) = (Arc::clone(self), self.live(pid));
                tokio::spawn(async move { me.end_task_process(pid, live).await });
                Ok(())
            }
            (_, Some(schedule)) if !schedule.keep_alive => {
                let Some(live) = self.live(pid) else { return Ok(()) };
                let answer = self.end_program(&live, EndReason::Normal, Duration::from_secs(5)).await;
                self.keep_snapshot(pid, &answer.state_snapshot).await?;
                self.live.lock().remove(&pid);
                self.secrets.revoke(pid.0);
                self.sleep(pid, true, "it waits for its next run").await
            }
            (_, Some(_)) => self.sleep(pid, false, "it waits for its next run").await,
            (ProcessRole::Architect, None) => self.sleep(pid, false, "its design is stored").await,
            _ => Ok(()),
        }
    }

    /// The same for one that has had no task yet: what has a schedule waits for it, and nobody else rests.
    pub(crate) async fn rest_unless_task(self: &Arc<Self>, pid: Pid) -> Result<(), Fault> {
        let has_schedule = self.ledger.look(|world| {
            let program = world.processes.get(&pid).and_then(|process| process.program.as_ref());
            program.is_some_and(|program| program.schedule.is_some())
        });
        if has_schedule { self.rest(pid).await } else { Ok(()) }
    }

    /// A program of the role task ends itself when its task is done. One that does not is ended.
    async fn end_task_process(self: Arc<Self>, pid: Pid, live: Option<Arc<LiveProgram>>) {
        let Some(live) = live else { return };
        if live.end_within(TASK_LEAVES_WITHIN).await.is_some() {
            return;
        }
        self.end_program(&live, EndReason::Normal, Duration::from_secs(2)).await;
        if let Err(fault) = self.ended_by_itself(&live, ProgramEnd { code: Some(0), signal: None }).await {
            world::log!("skep: the end of process {pid} was not recorded: {fault}");
        }
    }

    async fn sleep(&self, pid: Pid, ended: bool, reason: &str) -> Result<(), Fault> {
        let slept = ProcSlept { pid, task: None, until_ms: None, ended, reason: reason.to_owned() };
        let pending = self.ledger.commit(|world, _| {
            let may = world.processes.get(&pid).is_some_and(|process| process.state == ProcessState::Idle);
            (if may && world.current_task(pid).is_none() { vec![Event::from(slept)] } else { Vec::new() }, ())
        })?;
        pending.durable().await
    }

    /// Wakes one that sleeps, and starts its program where that is down. Its program, ready.
    pub(crate) async fn wake(self: &Arc<Self>, pid: Pid, reason: &str) -> Result<Arc<LiveProgram>, Fault> {
        let woken = ProcWoken { pid, task: None, reason: reason.to_owned() };
        let pending = self.ledger.commit(|world, _| {
            let sleeps = world.processes.get(&pid).is_some_and(|process| process.state == ProcessState::Sleeping);
            (if sleeps { vec![Event::from(woken)] } else { Vec::new() }, ())
        })?;
        pending.durable().await?;
        while self.live(pid).is_none() && self.ledger.look(|world| world.processes.get(&pid).is_some_and(is_for_others_to_start)) {
            let is_up = self.until(|world| match world.processes.get(&pid) {
                Some(process) if process.state.alive() => (!is_down(process)).then_some(true),
                _ => Some(false),
            });
            if !is_up.await {
                return Err(Fault::new(world::FaultKind::Brain, "runtime start failed", format!("process {pid} has ended")));
            }
        }
        self.start(pid).await
    }

    /// Looks after ends that nobody waits for, until the kernel stops.
    pub(crate) async fn clean_up(self: Arc<Self>) {
        let mut stopping = self.stopping.subscribe();
        loop {
            tokio::select! {
                () = tokio::time::sleep(MAID_EVERY) => {}
                _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
            }
            if let Err(fault) = self.collect_old().await {
                world::log!("skep: processes that ended were not collected: {fault}");
            }
        }
    }
}

/// Nothing runs for it, and something should.
pub(crate) fn is_down(process: &Process) -> bool {
    let has_program = process.program.as_ref().is_some_and(|program| program.runtime.has_program());
    has_program && process.run.as_ref().is_some_and(|run| !run.is_up)
}

/// Nothing runs for it because it crashed, and not because it sleeps or the kernel ended.
fn is_crashed(process: &Process) -> bool {
    let since_start = |run: &ProgramRun| run.crashes_ms.last().is_some_and(|crashed_ms| *crashed_ms >= run.started_ms);
    is_down(process) && process.run.as_deref().is_some_and(since_start)
}

/// It crashed, and its parent or a person decides what becomes of it.
pub(crate) fn awaits_decision(process: &Process) -> bool {
    is_crashed(process) && process.program.as_ref().is_some_and(|program| program.supervision == Supervision::Decide)
}

/// Its supervisor starts it, or whoever decides about it or lets it go on: work that waits for it does not.
fn is_for_others_to_start(process: &Process) -> bool {
    is_crashed(process) || (is_down(process) && process.state == ProcessState::Paused)
}

/// The records of a program's end, and what follows.
fn sequel(world: &World, live: &LiveProgram, end: ProgramEnd, error: &str, now_ms: i64) -> (Vec<Event>, CrashSequel, Vec<Arrival>) {
    let pid = live.pid;
    let found = world.processes.get(&pid).filter(|process| process.state.alive());
    let Some((process, program)) = found.and_then(|process| Some((process, process.program.as_deref()?))) else {
        return (Vec::new(), CrashSequel::Ended, Vec::new());
    };
    let done = world.tasks.values().rfind(|task| task.pid == pid && task.result.is_some());
    let ended_well = end.code == Some(0) && program.role == ProcessRole::Task && done.is_some();
    let mut events: Vec<Event> = Vec::new();
    if ended_well {
        let result = done.and_then(|task| task.result.as_deref());
        let exit = ProcessExit {
            code: result.map(|result| result.exit_code),
            output: result.map(|result| result.output.clone()).unwrap_or_default(),
            ..ProcessExit::default()
        };
        let told = ParentNotice::of(world, pid, "its work is done", &exit, false, now_ms);
        events.extend(told.events);
        events.extend(world.ending(pid, false, "its work is done", exit));
        return (events, CrashSequel::Ended, told.arrivals);
    }
    let how = match (end.code, end.signal) {
        (Some(code), _) => format!("its program ended with exit code {code}"),
        (None, Some(signal)) => format!("its program was killed (signal {signal})"),
        (None, None) => "its program ended".to_owned(),
    };
    // What it worked on is lost with it; what only waits goes on with the next.
    let begun = world.open_tasks(pid).filter(|task| task.state != TaskState::Queued);
    let failed = |task: &world::Task| TaskFailed { pid, task: Some(task.id), reason: how.clone(), result: None }.into();
    events.extend(begun.map(failed));
    let is_known = process.run.as_ref().is_some_and(|run| run.is_up && run.incarnation == live.incarnation);
    if is_known {
        let (incarnation, code, signal) = (live.incarnation, end.code, end.signal);
        events.push(ProcCrashed { pid, task: None, incarnation, code, signal, error: error.to_owned() }.into());
    }
    match program.supervision {
        Supervision::Restart if process.state == ProcessState::Paused => (events, CrashSequel::AwaitResume, Vec::new()),
        Supervision::Restart => (events, CrashSequel::Restart, Vec::new()),
        Supervision::Decide => {
            let issue = format!("{} (process {pid}) crashed: {how}", process.name);
            (events, CrashSequel::Decide(issue), Vec::new())
        }
        Supervision::Never => {
            let exit = ProcessExit {
                code: end.code.or(end.signal.map(|signal| 128 + signal)),
                output: error.to_owned(),
                ..ProcessExit::default()
            };
            let told = ParentNotice::of(world, pid, &how, &exit, true, now_ms);
            events.extend(told.events);
            // The tasks that were begun fail above; those that wait fail with the process.
            let ending = world.ending(pid, false, &how, exit);
            let is_begun = |event: &Event| matches!(event, Event::TaskFailed(failed) if world.tasks.get(&failed.task.unwrap_or(world::TaskId(0))).is_some_and(|task| task.state != TaskState::Queued));
            events.extend(ending.into_iter().filter(|event| !is_begun(event)));
            (events, CrashSequel::Ended, told.arrivals)
        }
    }
}
