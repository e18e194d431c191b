//! The beginning and the end of the running tree.
//!
//! **Invariant.** What a crash left is settled on record before anything is started again. A stop ends programs, not processes: they come back
//! by their supervision, with what they wanted to have back.

use crate::supervise::{awaits_decision, is_down};
use crate::{Startup, Tree};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use world::event::{ProcSnapshotted, TaskFailed};
use world::{EndReason, Event, Fault, Mode, Pid, Process, ProcessExit, ProcessState, Supervision, Task, TaskState, World};

/// How long programs have at a stop to say what they want back: as long as the contract gives them at any other end. Nobody waits for one that has
/// said it and is gone.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// How long the outcomes of what they worked on may come after their ends.
const SETTLED_WITHIN: Duration = Duration::from_secs(2);

impl Tree {
    /// At boot, when the journal is folded: settles what a crash left, and starts again what its supervision says.
    pub async fn begin(self: &Arc<Self>, startup: Option<Startup>) -> Result<(), Fault> {
        self.ledger.commit(|world, _| (left_open(world), ()))?.durable().await?;
        let gone: Vec<Pid> = self.ledger.look(|world| {
            let ended = world.processes.values().filter(|process| process.program.is_some() && !process.state.alive());
            ended.map(|process| process.pid).collect()
        });
        self.ended.lock().extend(gone.into_iter().map(|pid| (pid, Instant::now())));
        self.close_lost_streams().await?;
        self.begin_mail().await?;
        self.mail.keep_task(tokio::spawn(Arc::clone(self).clean_up()));
        let down: Vec<Pid> =
            self.ledger.look(|world| world.processes.values().filter(|process| comes_back(process)).map(|p| p.pid).collect());
        for pid in down {
            let me = Arc::clone(self);
            tokio::spawn(async move { me.bring_back(pid).await });
        }
        // What sleeps wakes for work that was queued before; what is paused or waits for a decision has it done after that.
        let resting: BTreeSet<Pid> = self.ledger.look(|world| {
            let queued = world.tasks.values().filter(|task| task.mode == Mode::Execute && task.state == TaskState::Queued);
            let rests = |process: &&Process| process.program.is_some() && process.state.alive() && !comes_back(process);
            queued.filter_map(|task| world.processes.get(&task.pid)).filter(rests).map(|process| process.pid).collect()
        });
        resting.into_iter().for_each(|pid| self.take_up_tasks(pid));
        self.watch_brain_tasks();
        self.finish_spawns();
        let undecided: Vec<(Pid, String)> = self.ledger.look(|world| {
            let waiting = world.processes.values().filter(|process| process.state.alive() && awaits_decision(process));
            waiting.map(|process| (process.pid, format!("{} (process {}) crashed", process.name, process.pid))).collect()
        });
        for (pid, issue) in undecided {
            self.ask_what_to_do(pid, issue);
        }
        if let Some(startup) = startup {
            let me = Arc::clone(self);
            tokio::spawn(async move { me.run_startup(startup).await });
        }
        Ok(())
    }

    async fn bring_back(self: Arc<Self>, pid: Pid) {
        match self.start(pid).await {
            Ok(_) => self.take_up_tasks(pid),
            Err(_) if *self.stopping.borrow() => {}
            Err(fault) => {
                world::log!("skep: process {pid} was not started again: {fault}");
                let again = self.restart(pid, "boot").await;
                if let Err(fault) = again {
                    world::log!("skep: process {pid} was not started again: {fault}");
                }
            }
        }
    }

    /// At a clean stop: every program ends, and every process stays.
    pub async fn stop(&self) {
        self.stopping.send_replace(true);
        let live: Vec<_> = self.live.lock().values().cloned().collect();
        let mut ends = tokio::task::JoinSet::new();
        for live in live {
            live.begin_end();
            let Some(me) = self.me.upgrade() else { continue };
            ends.spawn(async move {
                let answer = me.end_program(&live, EndReason::Normal, STOP_GRACE).await;
                if let Err(fault) = me.keep_snapshot(live.pid, &answer.state_snapshot).await {
                    world::log!("skep: what process {} wants back was not kept: {fault}", live.pid);
                }
            });
        }
        while ends.join_next().await.is_some() {}
        self.live.lock().clear();
        // Their connections are gone with them. What hangs all the same is settled by the next kernel.
        let mut carried = self.carried.subscribe();
        if tokio::time::timeout(SETTLED_WITHIN, carried.wait_for(BTreeSet::is_empty)).await.is_err() {
            world::log!("skep: tasks whose end was not recorded: {:?}", carried.borrow());
        }
        self.end_mail().await;
        // It may hold the tree, as the tree holds it.
        self.face.send_replace(None);
    }

    /// Keeps what a program wants back at its next start.
    pub(crate) async fn keep_snapshot(&self, pid: Pid, bytes: &[u8]) -> Result<(), Fault> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (blob, length) = (self.ledger.keep(bytes)?, bytes.len() as u64);
        let pending = self.ledger.commit(|world, _| {
            let lives = world.processes.get(&pid).is_some_and(|process| process.state.alive());
            let kept = ProcSnapshotted { pid, task: None, blob, bytes: length };
            (if lives { vec![Event::from(kept)] } else { Vec::new() }, ())
        })?;
        pending.durable().await
    }
}

/// Does it run again after the kernel started? What sleeps is started when it is needed, what is paused when it goes on, and what crashed and
/// waits for a decision by that.
fn comes_back(process: &Process) -> bool {
    let rests = matches!(process.state, ProcessState::Sleeping | ProcessState::Paused);
    process.state.alive() && is_down(process) && !rests && !awaits_decision(process)
}

/// What the last kernel left in the middle: tasks that were begun have failed, and one that lived for its task alone has ended with it.
fn left_open(world: &World) -> Vec<Event> {
    let reason = "the kernel ended while it was worked on";
    let mut events: Vec<Event> = Vec::new();
    for process in world.processes.values().filter(|process| process.program.is_some() && process.state.alive()) {
        let pid = process.pid;
        let begun = |task: &&Task| task.state != TaskState::Queued;
        let supervision = process.program.as_ref().map(|program| program.supervision);
        let was_at_work = world.tasks.values().any(|task| task.pid == pid && (task.state.ended() || begun(&task)));
        if supervision == Some(Supervision::Never) && was_at_work && is_down(process) {
            events.extend(world.ending(pid, false, reason, ProcessExit::default()));
            continue;
        }
        let failed = |task: &Task| TaskFailed { pid, task: Some(task.id), reason: reason.to_owned(), result: None }.into();
        events.extend(world.open_tasks(pid).filter(begun).map(failed));
    }
    events
}
