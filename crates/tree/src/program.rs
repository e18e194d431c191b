//! The start of a program: its command, its place, its `READY`, its `Init`.
//!
//! **Invariant.** A process has at most one program, and a program that is not ready yet is killed when whoever starts it gives up. Where a
//! program is to run in a room and the room cannot be closed, nothing runs.

pub(crate) mod branch;
mod environment;
mod place;

use crate::contract;
use crate::live::{LiveProgram, ProgramGuard, ProgramOutput, drain};
use crate::spawn::stopping;
use crate::{CoreFace, Tree};
use hive::generated::agent::{AgentConfig, InitRequest, Tool};
use hive::{AgentLink, LinkLimits, ReadyLimits, wait_ready};
use parking_lot::Mutex;
use place::PlacedProgram;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use world::event::ProcStarted;
use world::{EndReason, Event, Fault, FaultKind, Pid, Process, ProcessState, Program, ProgramOriginal, ProgramRun, World};

pub(crate) use environment::{is_visible, session_stamp};

/// A folder that a program may write, by HiveKernel's name for it.
pub(crate) const WORKSPACE: &str = "agent.workspace";
/// What its room may use: mebibytes, and thousandths of a processor.
pub(crate) const MEMORY_MB: &str = "skep.memory_mb";
pub(crate) const CPU_MILLI: &str = "skep.cpu_milli";
/// Where `Init` gives back what a program left.
const SNAPSHOT: &str = "skep.state_snapshot";

/// The contract gives ten seconds. Many that start at once share the processors, and one that spawns in `on_init` waits for its children.
const READY_MAX: Duration = Duration::from_secs(60);
const INIT_MAX: Duration = Duration::from_secs(120);

/// A start that is under way.
pub(crate) struct ProgramStart {
    /// True once nobody wants it any more.
    cancel: watch::Sender<bool>,
    /// True once its program is in the list of those that run, or never will be.
    is_over: watch::Sender<bool>,
    pub os_pid: Mutex<Option<i32>>,
}

/// What somebody finds who wants a program to run.
enum Begun {
    Runs(Arc<LiveProgram>),
    UnderWay(watch::Receiver<bool>),
    /// Nobody else starts it.
    Here(Arc<ProgramStart>),
}

/// The place of a start in the list of starts, left when it is over or nobody waits for it any more.
struct StartPlace<'a> {
    tree: &'a Tree,
    pid: Pid,
    start: &'a ProgramStart,
}

impl Drop for StartPlace<'_> {
    fn drop(&mut self) {
        self.tree.starting.lock().remove(&self.pid);
        self.start.is_over.send_replace(true);
    }
}

/// What is to be started.
pub(crate) struct StartPlan {
    pub process: Process,
    pub program: Program,
    pub original: ProgramOriginal,
    pub run: ProgramRun,
}

fn failed(why: impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::Brain, "runtime start failed", why)
}

impl Tree {
    /// Starts the program of a process, or finds it running. Done when it is ready and that is on record. Of those who want it at once one starts it,
    /// and the others have what comes of that.
    pub(crate) async fn start(self: &Arc<Self>, pid: Pid) -> Result<Arc<LiveProgram>, Fault> {
        let start = match self.begin_start(pid) {
            Begun::Runs(live) => return Ok(live),
            Begun::UnderWay(mut is_over) => {
                // Its other end goes with the start.
                let _gone = is_over.wait_for(|is_over| *is_over).await;
                return self.live(pid).ok_or_else(|| failed(format!("another start of process {pid} came to nothing")));
            }
            Begun::Here(start) => start,
        };
        let place = StartPlace { tree: self, pid, start: &start };
        let (mut cancelled, mut stopping_too) = (start.cancel.subscribe(), self.stopping.subscribe());
        let started = tokio::select! {
            started = self.start_now(pid, &start) => started,
            _ = cancelled.wait_for(|is_cancelled| *is_cancelled) => Err(failed("it was ended before it was ready")),
            _ = stopping_too.wait_for(|is_stopping| *is_stopping) => Err(stopping()),
        };
        drop(place);
        // Whoever ended the process meanwhile found no program to end.
        let live = match started {
            Ok(live) if self.ledger.look(|world| crate::end::is_alive(world, pid)) => live,
            unwanted => {
                if let Ok(live) = &unwanted {
                    self.end_program(live, EndReason::Normal, Duration::ZERO).await;
                    self.forget(pid);
                }
                // Its end may have been taken note of while its folder was being made.
                if !self.ledger.look(|world| world.processes.contains_key(&pid)) {
                    self.remove_files(pid).await;
                }
                return unwanted.and(Err(failed("it was ended before it was ready")));
            }
        };
        self.attend(&live);
        self.hold_if_paused(&live).await;
        Ok(live)
    }

    /// INVARIANT: a program stands in the list of those that run before its start leaves the list of starts, so whoever looks at both under the lock
    /// of the second finds it in one of them.
    fn begin_start(&self, pid: Pid) -> Begun {
        let mut starting = self.starting.lock();
        if let Some(live) = self.live(pid) {
            return Begun::Runs(live);
        }
        if let Some(start) = starting.get(&pid) {
            return Begun::UnderWay(start.is_over.subscribe());
        }
        let (cancel, is_over) = (watch::Sender::new(false), watch::Sender::new(false));
        let start = Arc::new(ProgramStart { cancel, is_over, os_pid: Mutex::default() });
        starting.insert(pid, Arc::clone(&start));
        Begun::Here(start)
    }

    /// Whoever paused the process meanwhile found no program to hold.
    async fn hold_if_paused(&self, live: &LiveProgram) {
        let is_paused = |world: &World| world.processes.get(&live.pid).is_some_and(|process| process.state == ProcessState::Paused);
        if !self.ledger.look(is_paused) {
            return;
        }
        match live.control.hold().await {
            Ok(()) => live.set_held(true),
            Err(error) => world::log!("skep: process {} is paused, and its program could not be stopped: {error}", live.pid),
        }
    }

    /// Has a start under way give up.
    pub(crate) fn cancel_start(&self, pid: Pid) {
        if let Some(start) = self.starting.lock().get(&pid) {
            start.cancel.send_replace(true);
        }
    }

    async fn face(&self) -> Result<Arc<dyn CoreFace>, Fault> {
        let mut face = self.face.subscribe();
        let found = face.wait_for(Option::is_some).await.map_err(|_| stopping())?.clone();
        found.ok_or_else(stopping)
    }

    async fn plan(&self, pid: Pid) -> Result<StartPlan, Fault> {
        let found = self.ledger.look(|world| {
            let process = world.processes.get(&pid).filter(|process| process.state.alive())?.clone();
            let (program, run) = (*process.program.clone()?, *process.run.clone()?);
            program.runtime.has_program().then_some((process, program, run))
        });
        let (process, program, run) = found.ok_or_else(|| failed(format!("process {pid} has no program to start")))?;
        let original = self.original(&program).await?;
        Ok(StartPlan { process, program, original, run })
    }

    async fn start_now(self: &Arc<Self>, pid: Pid, start: &ProgramStart) -> Result<Arc<LiveProgram>, Fault> {
        let plan = self.plan(pid).await?;
        let face = self.face().await?;
        let placed = self.place(&plan, face.as_ref()).await?;
        let PlacedProgram { control, stdout, stderr, mut ended, reach, core, unrun } = placed;
        *start.os_pid.lock() = Some(control.os_pid());
        let control = Arc::new(control);
        let guard = ProgramGuard(Some(Arc::clone(&control)));
        let output = ProgramOutput::default();
        tokio::spawn(drain(stderr, Arc::clone(&output.stderr)));
        let limits = ReadyLimits { timeout: READY_MAX, ..ReadyLimits::default() };
        let ready = match wait_ready(stdout, &limits).await {
            Ok(ready) => ready,
            Err(error) => {
                output.stdout.add(&error.output);
                // What it says of its end comes with its end.
                let _late = tokio::time::timeout(Duration::from_millis(500), ended.wait_for(Option::is_some)).await;
                let why = unrun.get().cloned().unwrap_or_else(|| error.to_string());
                return Err(failed(with_output(&why, &output)));
            }
        };
        output.stdout.add(&ready.output);
        tokio::spawn(drain(ready.rest, Arc::clone(&output.stdout)));
        let heartbeat_timeout = self.heartbeats.lock().within;
        let link_limits = LinkLimits { init_timeout: INIT_MAX, heartbeat_timeout, ..LinkLimits::default() };
        let link = reach.connect(ready.port, link_limits).await.map_err(failed)?;
        let remembers = self.init(&plan, &link).await.map_err(|why| failed(with_output(&why, &output)))?;
        if ended.borrow().is_some() {
            return Err(failed(with_output("the program ended before it was ready", &output)));
        }
        let address = reach.address(ready.port);
        let (incarnation, confined) = (plan.run.incarnation + 1, plan.program.confined);
        self.record_start(pid, incarnation, Some(control.os_pid()), address, confined, remembers).await?;
        let live = LiveProgram::new(pid, incarnation, link, output, ended, core, guard).ok_or_else(stopping)?;
        let live = Arc::new(live);
        self.live.lock().insert(pid, Arc::clone(&live));
        Ok(live)
    }

    async fn init(&self, plan: &StartPlan, link: &AgentLink) -> Result<bool, String> {
        let StartPlan { process, program, original, run } = plan;
        let mut metadata = original.metadata.clone();
        if let Some(blob) = &run.snapshot {
            let bytes = self.ledger.blob(blob).map_err(|fault| fault.to_string())?;
            metadata.insert(SNAPSHOT.to_owned(), environment::base64(&bytes));
        }
        let config = AgentConfig {
            name: process.name.clone(),
            system_prompt: original.system_prompt.clone(),
            model: program.model.clone(),
            metadata,
        };
        let tool = |name: &String| Tool { name: name.clone(), ..Tool::default() };
        let request = InitRequest {
            pid: process.pid.0,
            ppid: process.parent.unwrap_or(Pid::KERNEL).0,
            user: process.user.clone(),
            role: contract::agent_role(program.role).into(),
            cognitive_tier: contract::cognitive_tier(program.tier).into(),
            config: Some(config),
            limits: Some(contract::resource_limits(&program.limits)),
            tools: program.tools.iter().map(tool).collect(),
            env: original.env.clone().into_iter().collect(),
        };
        link.init(request).await.map_err(|error| error.to_string())
    }

    async fn record_start(
        &self,
        pid: Pid,
        incarnation: u64,
        process: Option<i32>,
        address: String,
        confined: bool,
        remembers: bool,
    ) -> Result<(), Fault> {
        let started = ProcStarted { pid, task: None, incarnation, process, address: Some(address), confined, remembers };
        let recorded = self.ledger.commit(|world, _| {
            let run = world.processes.get(&pid).filter(|process| process.state.alive()).and_then(|process| process.run.as_deref());
            match run.is_some_and(|run| !run.is_up && run.incarnation + 1 == incarnation) {
                true => (vec![Event::from(started)], true),
                false => (Vec::new(), false),
            }
        })?;
        match recorded.durable().await? {
            true => Ok(()),
            false => Err(failed("its process ended before it was ready")),
        }
    }
}

fn with_output(why: &str, output: &ProgramOutput) -> String {
    match output.last_lines() {
        lines if lines.is_empty() => why.to_owned(),
        lines => format!("{why}\n{lines}"),
    }
}
